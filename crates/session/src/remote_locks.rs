//! Row locks between regions.
//!
//! A region far from a row loses to one that is near: what it read is older by the way, so validation at COMMIT finds
//! it changed whenever somebody near writes without a pause. Once a transaction of this gateway has failed so, rows of
//! that table are locked at their home, where those who want them wait in the order of their coming, whatever region
//! they come from.
//!
//! IN: tables whose rows are contended; rows homed elsewhere that a transaction wants to lock; what other gateways want
//! of rows homed here. OUT: locks at their homes ([`node::locks`]). KEEPS: a transaction of another region that holds
//! or awaits rows here is one owner in [`Locks`](crate::locks::Locks), whatever it asks for in turn; nobody asks
//! elsewhere for rows of a table that was not contended lately.

use crate::gateway::Gateway;
use crate::locks::{Owner, RowLocks};
use analytics::Cluster;
use base::error::SqlResult;
use base::time::SECOND;
use base::{Key, NodeId, SqlError, TableId, Time};
use futures::future::{AbortHandle, Aborted, abortable};
use futures::stream::{FuturesUnordered, StreamExt};
use node::locks::{LockEvent, LockOwner, RowName, WishName};
use node::request::{LockRows, Locked, Reply, Request};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Rows of a table are locked at their home for so long after the last sign that regions compete for them.
const CONTENDED_NS: u64 = 10 * SECOND;
/// A transaction that holds other rows waits this long for one elsewhere: no home sees a circle through several.
const PATIENCE_NS: u64 = 2 * SECOND;

/// Tables whose rows writers of several regions compete for.
#[derive(Default)]
pub(crate) struct Contention {
    /// Until when, unless there is another sign.
    tables: Mutex<BTreeMap<TableId, Time>>,
    /// There may be some; looked at without the mutex.
    any: AtomicBool,
}

impl Contention {
    /// Writers of another region got in the way of one of this, or wait for the same rows.
    pub fn note(&self, table: TableId, now: Time) {
        let mut tables = self.tables.lock().expect("no panic while contention is noted");
        tables.retain(|_, until| now < *until);
        tables.insert(table, now + CONTENDED_NS);
        self.any.store(true, Ordering::Release);
    }

    pub fn is_noted(&self, table: TableId, now: impl FnOnce() -> Time) -> bool {
        if !self.any.load(Ordering::Acquire) {
            return false;
        }
        let now = now();
        let mut tables = self.tables.lock().expect("no panic while contention is noted");
        tables.retain(|_, until| now < *until);
        self.any.store(!tables.is_empty(), Ordering::Release);
        tables.contains_key(&table)
    }
}

/// What one transaction has locked at other homes; dropping it gives that up.
pub(crate) struct RemoteLocks {
    cluster: Arc<dyn Cluster>,
    owner: LockOwner,
    homes: BTreeSet<NodeId>,
    rows: BTreeSet<RowName>,
}

impl RemoteLocks {
    pub fn new(gateway: &Gateway) -> RemoteLocks {
        RemoteLocks {
            cluster: gateway.cluster.clone(),
            owner: LockOwner(gateway.next_lock_owner()),
            homes: BTreeSet::new(),
            rows: BTreeSet::new(),
        }
    }

    pub fn holds(&self, table: TableId, key: &Key) -> bool {
        !self.rows.is_empty() && self.rows.contains(&(table, key.clone()))
    }

    /// Locks rows at their home, after whoever came there before; `None`: the home is silent, or what else the
    /// transaction holds (`holds_more`) may be what others wait for. Errors: 40P01, as of [`RowLocks::lock`].
    pub async fn lock(
        &mut self,
        home: NodeId,
        rows: Vec<RowName>,
        holds_more: bool,
    ) -> SqlResult<Option<Locked>> {
        let patience_ns = (holds_more || !self.rows.is_empty()).then_some(PATIENCE_NS);
        let wanted = LockRows { home, owner: self.owner, rows: rows.clone(), patience_ns };
        // Before it is known: should the wait be given up, the home may have granted it.
        self.homes.insert(home);
        let Reply::Locked(locked) = self.cluster.request(Request::LockRows(wanted)).await? else {
            return Err(SqlError::internal("the node answered another question"));
        };
        let locked = locked?;
        if locked.is_some() {
            self.rows.extend(rows);
        }
        Ok(locked)
    }
}

impl Drop for RemoteLocks {
    fn drop(&mut self) {
        for &home in &self.homes {
            self.cluster.tell(Request::UnlockRows { home, owner: self.owner });
        }
    }
}

/// Wishes of other regions' transactions that are served here.
#[derive(Default)]
struct Served {
    known: BTreeSet<WishName>,
    /// Each transaction is one owner, with so many wishes.
    owners: BTreeMap<(NodeId, LockOwner), (Owner, usize)>,
    waiting: BTreeMap<WishName, AbortHandle>,
    held: BTreeMap<WishName, RowLocks>,
}

impl Gateway {
    /// Locks rows homed here for transactions of other regions, until the node is gone. Somebody has to run this for
    /// each gateway; without, others' wishes are not answered and they go on without locks.
    pub async fn serve_locks(self: Arc<Gateway>) {
        let mut served = Served::default();
        let mut locking = FuturesUnordered::new();
        let ask = |begins| {
            let cluster = self.cluster.clone();
            Box::pin(async move { cluster.request(Request::ServeLocks { begins }).await })
        };
        let mut asked = ask(true);
        loop {
            tokio::select! {
                biased;
                reply = &mut asked => {
                    let Ok(Reply::LockEvents(events)) = reply else { break };
                    for event in events {
                        match event {
                            LockEvent::Contended { table } => self.contention.note(table, self.cluster.now()),
                            LockEvent::Ended { name } => self.end_served(&mut served, name),
                            LockEvent::Want { name, rows } => {
                                let mut locks = self.begin_served(&mut served, name);
                                let (lock, handle) = abortable(async move {
                                    let mut waited = false;
                                    for (table, key) in &rows {
                                        waited |= locks.lock(*table, key).await? == crate::locks::Locked::AfterWaiting;
                                    }
                                    Ok::<_, SqlError>((locks, waited))
                                });
                                served.waiting.insert(name, handle);
                                locking.push(async move { (name, lock.await) });
                            }
                        }
                    }
                    asked = ask(false);
                }
                Some((name, locked)) = locking.next(), if !locking.is_empty() => {
                    served.waiting.remove(&name);
                    let result = match locked {
                        Err(Aborted) => continue,
                        Ok(Err(error)) => {
                            self.end_served(&mut served, name);
                            Err(error)
                        }
                        Ok(Ok((locks, waited))) => {
                            served.held.insert(name, locks);
                            Ok(waited)
                        }
                    };
                    self.cluster.tell(Request::LockServed { name, result });
                }
            }
        }
        let names: Vec<WishName> = served.known.iter().copied().collect();
        names.into_iter().for_each(|name| self.end_served(&mut served, name));
    }

    fn begin_served(&self, served: &mut Served, name: WishName) -> RowLocks {
        self.locks.add_remote();
        served.known.insert(name);
        match served.owners.get_mut(&(name.node, name.owner)) {
            Some((owner, wishes)) => {
                *wishes += 1;
                RowLocks::of(self.locks.clone(), *owner)
            }
            None => {
                let locks = RowLocks::new(self.locks.clone());
                served.owners.insert((name.node, name.owner), (locks.owner(), 1));
                locks
            }
        }
    }

    fn end_served(&self, served: &mut Served, name: WishName) {
        if !served.known.remove(&name) {
            return;
        }
        let transaction = (name.node, name.owner);
        let (_, wishes) = served.owners.get_mut(&transaction).expect("a wish is its transaction's");
        *wishes -= 1;
        if *wishes == 0 {
            served.owners.remove(&transaction);
        }
        self.locks.remove_remote();
        if let Some(waiting) = served.waiting.remove(&name) {
            waiting.abort();
        }
        served.held.remove(&name);
    }
}
