//! Reads of rows that are about to be written: locked among this gateway's transactions, or at their home where
//! regions compete for them, and read at a new cut, since what the transaction saw before may be old once a lock has
//! come.

use super::Session;
use super::read::{ReadAt, Wanted};
use super::timeouts::for_lock;
use super::transaction::SeenRow;
use super::turns::Turn;
use crate::locks::{Locked, RowLocks};
use crate::remote_locks::RemoteLocks;
use base::error::{SqlResult, SqlState};
use base::key::KeyRange;
use base::schema::{Placement, Table};
use base::{Key, NodeId, PartitionId, SqlError, TableId};
use sql::lower::select::{Contended, RowSelectPlan};
use std::collections::{BTreeMap, BTreeSet};

/// How often a range is read anew because its rows changed while they were locked.
const ROUNDS: usize = 64;

impl Session {
    /// Reads what a SELECT wants in the open transaction. Another region does not see its locks: what a client locks or
    /// marks is found unchanged at every level.
    pub(super) async fn read_in_transaction(
        &mut self,
        plan: &RowSelectPlan,
        wanted: &Wanted<'_>,
    ) -> SqlResult<Vec<SeenRow>> {
        self.open().reading.keeps = plan.is_locking;
        let rows = match (plan.lock, plan.shared) {
            (Some(contended), _) => Box::pin(self.read_locked(wanted, contended)).await,
            (None, Some(contended)) => Box::pin(self.read_free(wanted, contended)).await,
            (None, None) => self.read_seen(wanted).await,
        };
        self.open().reading.keeps = false;
        rows
    }

    /// Locks the rows that are wanted and reads them, recorded as read.
    pub(super) async fn read_locked(
        &mut self,
        wanted: &Wanted<'_>,
        contended: Contended,
    ) -> SqlResult<Vec<SeenRow>> {
        self.refuse_if_read_only("SELECT FOR UPDATE")?;
        if contended == Contended::Skip {
            return self.read_unlocked(wanted).await;
        }
        // Versions are kept from before the wait on.
        self.pinned().await?;
        let point = |range: &KeyRange| range.as_point().filter(|_| wanted.index.is_none()).cloned();
        let points = wanted.reached.reaches.iter();
        let points = points.map(|r| Some((point(&r.range)?, *r.partitions.first()?)));
        if let Some(points) = points.collect::<Option<Vec<_>>>() {
            let taken = self.lock_all(wanted.table, points, contended).await?;
            let looked = self.look(wanted, taken.at).await?;
            return self.record(wanted, looked);
        }
        let mut at = ReadAt::NewCut;
        for _ in 0..ROUNDS {
            let looked = self.look(wanted, at).await?;
            let rows = looked.rows().map(|(partition, key)| (key.clone(), partition)).collect();
            let taken = self.lock_all(wanted.table, rows, contended).await?;
            if !taken.may_be_old {
                return self.record(wanted, looked);
            }
            at = taken.at;
        }
        Err(changed_each_time())
    }

    /// SKIP LOCKED: rows that nobody holds, each for itself. What lies between them is not validated: a row
    /// that was passed over because its holder changes it would always have changed.
    async fn read_unlocked(&mut self, wanted: &Wanted<'_>) -> SqlResult<Vec<SeenRow>> {
        let everything = Wanted { limit: None, filter: wanted.filter.clone(), ..*wanted };
        let mut own = BTreeSet::new();
        loop {
            let mut looked = self.look(&everything, ReadAt::NewCut).await?;
            let transaction = self.transaction.as_mut().expect("an open transaction");
            let locks = transaction.locks.get_or_insert_with(|| RowLocks::new(self.gateway.locks.clone()));
            let limit = wanted.limit.filter(|_| !looked.is_scattered()).map_or(usize::MAX, |l| l as usize);
            let mut is_new = false;
            let mut kept = 0;
            looked.retain(|row| {
                if kept >= limit || !locks.try_lock(wanted.table.id, &row.key) {
                    return false;
                }
                kept += 1;
                is_new |= own.insert(row.key.clone());
                true
            });
            // A row that was locked just now may have changed between the look and the lock.
            if !is_new {
                looked.record_rows(wanted.table, transaction);
                return transaction.overlaid(&everything, looked);
            }
        }
    }

    /// FOR SHARE with NOWAIT or SKIP LOCKED: rows that nobody else has locked, recorded as read. Errors: 55P03.
    async fn read_free(&mut self, wanted: &Wanted<'_>, contended: Contended) -> SqlResult<Vec<SeenRow>> {
        let skips = contended == Contended::Skip;
        let limit = wanted.limit.filter(|_| !skips);
        let everything = Wanted { limit, filter: wanted.filter.clone(), ..*wanted };
        let mut looked = self.look(&everything, ReadAt::Cut).await?;
        let transaction = self.transaction.as_mut().expect("an open transaction");
        let locks = transaction.locks.get_or_insert_with(|| RowLocks::new(self.gateway.locks.clone()));
        if !skips {
            if looked.rows().any(|(_, key)| locks.is_taken(wanted.table.id, key)) {
                return Err(not_available(wanted.table));
            }
            return self.record(&everything, looked);
        }
        let limit = wanted.limit.filter(|_| !looked.is_scattered()).map_or(usize::MAX, |l| l as usize);
        let mut kept = 0;
        looked.retain(|row| {
            let is_kept = kept < limit && !locks.is_taken(wanted.table.id, &row.key);
            kept += usize::from(is_kept);
            is_kept
        });
        looked.record_rows(wanted.table, transaction);
        transaction.overlaid(&everything, looked)
    }

    /// Locks rows of a query's result; whether others may have changed some since they were found.
    pub(super) async fn lock_rows(
        &mut self,
        table: &Table,
        rows: Vec<(Key, PartitionId)>,
        contended: Contended,
    ) -> SqlResult<bool> {
        self.lock_all(table, rows, contended).await.map(|taken| taken.may_be_old)
    }

    /// Locks rows, each found at a partition: here, or at their home where regions compete for them.
    async fn lock_all(
        &mut self,
        table: &Table,
        rows: Vec<(Key, PartitionId)>,
        contended: Contended,
    ) -> SqlResult<Taken> {
        let mut taken = Taken { at: ReadAt::Cut, may_be_old: false };
        let mut afar: BTreeMap<NodeId, Vec<(TableId, Key)>> = BTreeMap::new();
        let mut turn = Turn::begin();
        for (key, partition) in rows {
            turn.give_way().await;
            let home = self.home_elsewhere(table, partition);
            let open = self.open();
            if home.is_some() {
                open.wrote_afar.insert(table.id);
            }
            let is_own = open.locks.as_ref().is_some_and(|locks| locks.holds(table.id, &key))
                || open.remote_locks.as_ref().is_some_and(|locks| locks.holds(table.id, &key));
            match home.filter(|_| contended == Contended::Wait && self.is_contended(table.id)) {
                _ if is_own => {}
                Some(home) => afar.entry(home).or_default().push((table.id, key)),
                None => taken.add(self.lock(table, &key, contended).await?),
            }
        }
        // Last, so that a cut chosen at a home holds what ended here before.
        for (home, rows) in afar {
            let open = self.transaction.as_mut().expect("an open transaction");
            let remote = open.remote_locks.get_or_insert_with(|| RemoteLocks::new(&self.gateway));
            let holds_more = open.locks.as_ref().is_some_and(|locks| !locks.is_empty());
            let waiting = remote.lock(home, rows.clone(), holds_more);
            let locked = for_lock(self.settings.timeouts.lock_ms, waiting).await?;
            if locked.is_some_and(|locked| locked.waited) {
                self.gateway.contention.note(table.id, self.gateway.cluster.now());
            }
            taken.may_be_old = true;
            match locked.and_then(|locked| locked.at) {
                Some(at) => taken.at = taken.at.and_rank(at),
                None => taken.at = ReadAt::NewCut,
            }
            for (_, key) in rows {
                // NOWAIT and SKIP LOCKED look here.
                let open = self.transaction.as_mut().expect("an open transaction");
                let locks = open.locks.get_or_insert_with(|| RowLocks::new(self.gateway.locks.clone()));
                if !locks.try_lock(table.id, &key) && locked.is_none() {
                    taken.add(self.lock(table, &key, contended).await?);
                }
            }
        }
        Ok(taken)
    }

    /// The node that orders a row of another region; `None`: it is ordered here, or everywhere.
    pub(super) fn home_elsewhere(&self, table: &Table, partition: PartitionId) -> Option<NodeId> {
        // Where all regions execute and merge, none is nearer to a row than the others.
        if table.placement == Placement::Replicated || self.settings.merges_epochs() {
            return None;
        }
        let cluster = self.cluster();
        let topology = cluster.topology();
        let region = self.known.home_of(table.id, partition, topology);
        if region == cluster.region() {
            return None;
        }
        match region == topology.region_of_partition(partition) {
            true => Some(topology.node_of(partition)),
            false => topology.sequencer_of(region),
        }
    }

    pub(super) fn is_contended(&self, table: TableId) -> bool {
        self.gateway.contention.is_noted(table, || self.gateway.cluster.now())
    }

    /// Locks at their homes the rows that a statement names which is ordered as a whole: it would not fail, but
    /// make others fail that wait there.
    pub(super) async fn lock_afar(
        &self,
        table: &Table,
        rows: impl Iterator<Item = (Key, PartitionId)>,
    ) -> SqlResult<Option<RemoteLocks>> {
        let mut afar: BTreeMap<NodeId, Vec<(TableId, Key)>> = BTreeMap::new();
        for (key, partition) in rows {
            if let Some(home) = self.home_elsewhere(table, partition) {
                afar.entry(home).or_default().push((table.id, key));
            }
        }
        if afar.is_empty() {
            return Ok(None);
        }
        let mut remote = RemoteLocks::new(&self.gateway);
        for (home, rows) in afar {
            match remote.lock(home, rows, false).await {
                // It cannot fail by what others do.
                Err(error) if error.state == SqlState::DEADLOCK_DETECTED => return Ok(None),
                Err(error) => return Err(error),
                Ok(locked) if locked.is_some_and(|locked| locked.waited) => {
                    self.gateway.contention.note(table.id, self.gateway.cluster.now());
                }
                Ok(_) => {}
            }
        }
        Ok(Some(remote))
    }

    async fn lock(&mut self, table: &Table, key: &Key, contended: Contended) -> SqlResult<Locked> {
        let transaction = self.transaction.as_mut().expect("an open transaction");
        let locks = transaction.locks.get_or_insert_with(|| RowLocks::new(self.gateway.locks.clone()));
        if contended == Contended::Wait {
            return for_lock(self.settings.timeouts.lock_ms, locks.lock(table.id, key)).await;
        }
        if !locks.try_lock(table.id, key) {
            return Err(not_available(table));
        }
        Ok(Locked::AtOnce)
    }
}

/// Others change the rows as often as they are looked for.
pub(super) fn changed_each_time() -> SqlError {
    let message = "could not serialize access: rows changed each time they were locked";
    SqlError::new(SqlState::SERIALIZATION_FAILURE, message).hint("Retry the transaction.")
}

/// Another transaction has locked a row.
pub(super) fn not_available(table: &Table) -> SqlError {
    let message = format!("could not obtain lock on row in relation \"{}\"", table.name);
    SqlError::new(SqlState::LOCK_NOT_AVAILABLE, message)
}

/// Rows are locked.
struct Taken {
    /// Where they have to be read.
    at: ReadAt,
    /// Others may have changed them since they were found.
    may_be_old: bool,
}

impl Taken {
    fn add(&mut self, locked: Locked) {
        self.may_be_old |= locked == Locked::AfterWaiting;
        if locked != Locked::Before {
            self.at = ReadAt::NewCut;
        }
    }
}
