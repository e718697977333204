//! Row locks of one gateway's transactions: whoever writes a row next waits for who wrote it first.
//!
//! IN: rows that a transaction is about to write, and its end. OUT: who has to wait, or that waiting
//! would never end. KEEPS: a row has one holder; rows pass to those who wait in the order of their coming;
//! nobody waits in a circle; a transaction that is dropped, however that happens, holds nothing.
//!
//! A statement that reads a whole table may lock it whole, under a key without columns: rows of it are then passed only
//! behind it.
//!
//! Locks decide who waits and never what is right: validation at COMMIT does that. So a lock that is not
//! here (of another gateway's transaction) costs a retry, not a wrong answer. Transactions of other regions that wait
//! here by [`crate::remote_locks`] are owners like any other.

use base::{Key, SqlError, SqlState, TableId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::oneshot;

type RowName = (TableId, Key);
/// A transaction that locks; a number that is never used again.
pub(crate) type Owner = u64;

/// All locks of a gateway.
#[derive(Default)]
pub(crate) struct Locks {
    state: Mutex<State>,
    /// Rows that are locked, to be looked at without the mutex.
    count: AtomicUsize,
    /// Wishes of other regions' transactions, granted or not.
    remote: AtomicUsize,
}

#[derive(Default)]
struct State {
    next_owner: Owner,
    rows: BTreeMap<RowName, Lock>,
    /// What each waiting owner waits for.
    waits: BTreeMap<Owner, RowName>,
}

struct Lock {
    holder: Owner,
    queue: VecDeque<(Owner, oneshot::Sender<()>)>,
}

impl Locks {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while the lock table is held")
    }

    /// Whether no row is locked.
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Whether transactions of other regions wait for rows here, or have locked some.
    pub fn has_remote(&self) -> bool {
        self.remote.load(Ordering::Acquire) > 0
    }
    pub fn add_remote(&self) {
        self.remote.fetch_add(1, Ordering::Release);
    }
    pub fn remove_remote(&self) {
        self.remote.fetch_sub(1, Ordering::Release);
    }

    /// Waits until nobody holds these rows, for one statement that is ordered as a whole. It does not keep them:
    /// the next transaction here reads them after it. One of another region may read them before it has been
    /// ordered, so if there are any, the answer keeps the rows for as long as it is kept.
    pub async fn pass<'a>(
        self: &Arc<Self>,
        rows: impl Iterator<Item = (TableId, &'a Key)>,
    ) -> Option<RowLocks> {
        let mut passing = RowLocks::new(self.clone());
        for (table, key) in rows {
            // In a circle the statement just goes on: it cannot fail by what others write.
            passing.lock(table, key).await.ok()?;
            if !self.has_remote() {
                passing.release();
            }
        }
        Some(passing)
    }

    /// Waits until nobody has locked the table as a whole.
    pub async fn pass_whole(self: &Arc<Self>, table: TableId) -> Result<(), SqlError> {
        RowLocks::new(self.clone()).pass_whole(table).await.map(|_| ())
    }

    /// The row's holder gives it up, or one who was about to get it does.
    fn hand_over(&self, state: &mut State, row: &RowName) {
        let State { rows, waits, .. } = state;
        let lock = rows.get_mut(row).expect("a row that is given up is held");
        while let Some((next, told)) = lock.queue.pop_front() {
            waits.remove(&next);
            if told.send(()).is_ok() {
                lock.holder = next;
                return;
            }
        }
        rows.remove(row);
        self.count.fetch_sub(1, Ordering::Release);
    }
}

impl State {
    /// Whether the holder of a row waits, directly or through others, for `owner`.
    fn is_circle(&self, owner: Owner, row: &RowName) -> bool {
        let mut row = row;
        loop {
            let Some(lock) = self.rows.get(row) else { return false };
            if lock.holder == owner {
                return true;
            }
            match self.waits.get(&lock.holder) {
                Some(next) => row = next,
                None => return false,
            }
        }
    }
}

/// How a row was locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Locked {
    /// It was this transaction's already.
    Before,
    AtOnce,
    /// Another transaction had it: what was read of the row before is old.
    AfterWaiting,
}

/// The rows that one transaction holds; dropping it gives them up.
pub(crate) struct RowLocks {
    locks: Arc<Locks>,
    owner: Owner,
    /// Each with its number among all that it has taken.
    held: BTreeMap<RowName, u64>,
    taken: u64,
}

impl RowLocks {
    pub fn new(locks: Arc<Locks>) -> RowLocks {
        let mut state = locks.state();
        state.next_owner += 1;
        let owner = state.next_owner;
        drop(state);
        RowLocks::of(locks, owner)
    }

    /// More rows of a transaction that holds others already.
    pub fn of(locks: Arc<Locks>, owner: Owner) -> RowLocks {
        RowLocks { locks, owner, held: BTreeMap::new(), taken: 0 }
    }
    pub fn owner(&self) -> Owner {
        self.owner
    }
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
    pub fn holds(&self, table: TableId, key: &Key) -> bool {
        self.held.contains_key(&(table, key.clone()))
    }
    /// How many rows it has taken, for [`RowLocks::release_since`].
    pub fn taken(&self) -> u64 {
        self.taken
    }
    /// Whether another transaction has locked a row, or the whole table.
    pub fn is_taken(&self, table: TableId, key: &Key) -> bool {
        let state = self.locks.state();
        let is_others = |row: RowName| state.rows.get(&row).is_some_and(|lock| lock.holder != self.owner);
        is_others((table, key.clone())) || is_others((table, Key::new()))
    }

    /// Gives up all rows.
    fn release(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let mut state = self.locks.state();
        for row in std::mem::take(&mut self.held).into_keys() {
            self.locks.hand_over(&mut state, &row);
        }
    }

    /// Gives up the rows that it has taken since it had taken so many.
    pub fn release_since(&mut self, taken: u64) {
        if self.taken == taken {
            return;
        }
        let (locks, mut state) = (&self.locks, self.locks.state());
        self.held.retain(|row, nth| {
            let is_kept = *nth <= taken;
            if !is_kept {
                locks.hand_over(&mut state, row);
            }
            is_kept
        });
    }

    fn hold(&mut self, row: RowName) {
        self.taken += 1;
        self.held.insert(row, self.taken);
    }

    /// Takes a row, after those who came before. Errors: 40P01 if they wait for this transaction.
    pub async fn lock(&mut self, table: TableId, key: &Key) -> Result<Locked, SqlError> {
        if self.held.contains_key(&(table, key.clone())) {
            return Ok(Locked::Before);
        }
        let has_waited = !key.is_empty() && self.pass_whole(table).await?;
        let locked = self.take((table, key.clone())).await?;
        Ok(if has_waited { Locked::AfterWaiting } else { locked })
    }

    /// Waits until nobody else holds the whole table; whether somebody did.
    async fn pass_whole(&mut self, table: TableId) -> Result<bool, SqlError> {
        let whole = (table, Key::new());
        let holder = self.locks.state().rows.get(&whole).map(|lock| lock.holder);
        if holder.is_none_or(|holder| holder == self.owner) {
            return Ok(false);
        }
        self.take(whole.clone()).await?;
        self.held.remove(&whole);
        let mut state = self.locks.state();
        self.locks.hand_over(&mut state, &whole);
        Ok(true)
    }

    /// Takes the whole table. Errors: 40P01.
    pub async fn lock_whole(&mut self, table: TableId) -> Result<(), SqlError> {
        let whole = (table, Key::new());
        if !self.held.contains_key(&whole) {
            self.take(whole).await?;
        }
        Ok(())
    }

    async fn take(&mut self, row: RowName) -> Result<Locked, SqlError> {
        let told = {
            let mut state = self.locks.state();
            if !state.rows.contains_key(&row) {
                state.rows.insert(row.clone(), Lock { holder: self.owner, queue: VecDeque::new() });
                self.locks.count.fetch_add(1, Ordering::Release);
                drop(state);
                self.hold(row);
                return Ok(Locked::AtOnce);
            }
            if state.is_circle(self.owner, &row) {
                return Err(SqlError::new(SqlState::DEADLOCK_DETECTED, "deadlock detected")
                    .detail("The transaction that holds the row waits for one that this transaction holds.")
                    .hint("Retry the transaction."));
            }
            let (tell, told) = oneshot::channel();
            state.waits.insert(self.owner, row.clone());
            let lock = state.rows.get_mut(&row).expect("just seen");
            lock.queue.push_back((self.owner, tell));
            told
        };
        let mut waiting = Waiting { locks: &self.locks, owner: self.owner, row: Some(row) };
        told.await.map_err(|_| SqlError::internal("a lock was lost"))?;
        let row = waiting.row.take();
        drop(waiting);
        if let Some(row) = row {
            self.hold(row);
        }
        Ok(Locked::AfterWaiting)
    }

    /// Takes a row if nobody else has it; whether it did.
    pub fn try_lock(&mut self, table: TableId, key: &Key) -> bool {
        let row = (table, key.clone());
        if self.held.contains_key(&row) {
            return true;
        }
        let mut state = self.locks.state();
        let whole = (table, Key::new());
        let is_whole_held = !self.held.contains_key(&whole) && state.rows.contains_key(&whole);
        if is_whole_held || state.rows.contains_key(&row) {
            return false;
        }
        state.rows.insert(row.clone(), Lock { holder: self.owner, queue: VecDeque::new() });
        self.locks.count.fetch_add(1, Ordering::Release);
        drop(state);
        self.hold(row);
        true
    }
}

impl Drop for RowLocks {
    fn drop(&mut self) {
        self.release();
    }
}

/// Waiting that may be given up.
struct Waiting<'a> {
    locks: &'a Locks,
    owner: Owner,
    /// `None` once the row is this owner's.
    row: Option<RowName>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Some(row) = self.row.take() else { return };
        let mut state = self.locks.state();
        state.waits.remove(&self.owner);
        let Some(lock) = state.rows.get_mut(&row) else { return };
        if lock.holder == self.owner {
            // It came between the last look and the end.
            self.locks.hand_over(&mut state, &row);
        } else {
            lock.queue.retain(|(owner, _)| *owner != self.owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Datum;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    const T: TableId = TableId(1);

    fn key(n: i64) -> Key {
        Key::of(&[Datum::Int(n)])
    }
    fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Option<F::Output> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }
    fn now<F: Future>(future: F) -> F::Output {
        poll(pin!(future)).expect("nothing to wait for")
    }

    #[test]
    fn a_row_passes_to_those_who_wait_in_the_order_of_their_coming() {
        let locks = Arc::new(Locks::default());
        let [mut a, mut b, mut c] = [(); 3].map(|()| RowLocks::new(locks.clone()));
        assert_eq!(now(a.lock(T, &key(1))).unwrap(), Locked::AtOnce);
        assert_eq!(now(a.lock(T, &key(1))).unwrap(), Locked::Before);
        assert_eq!(now(b.lock(T, &key(2))).unwrap(), Locked::AtOnce);
        {
            let (first, second) = (key(1), key(1));
            let mut of_b = pin!(b.lock(T, &first));
            let mut of_c = pin!(c.lock(T, &second));
            assert!(poll(of_b.as_mut()).is_none() && poll(of_c.as_mut()).is_none());
            drop(a);
            assert!(poll(of_c.as_mut()).is_none());
            assert_eq!(poll(of_b.as_mut()).unwrap().unwrap(), Locked::AfterWaiting);
        }
        // Who stopped waiting is passed over.
        drop(b);
        assert!(c.try_lock(T, &key(1)) && c.try_lock(T, &key(2)));
        drop(c);
        assert_eq!(locks.count.load(Ordering::Relaxed), 0);
        assert!(locks.state().rows.is_empty() && locks.state().waits.is_empty());
    }

    #[test]
    fn a_row_that_arrives_when_nobody_waits_any_more_goes_on() {
        let locks = Arc::new(Locks::default());
        let [mut a, mut b, mut c] = [(); 3].map(|()| RowLocks::new(locks.clone()));
        now(a.lock(T, &key(1))).unwrap();
        {
            let row = key(1);
            let mut of_b = pin!(b.lock(T, &row));
            assert!(poll(of_b.as_mut()).is_none());
            drop(a);
        }
        assert_eq!(now(c.lock(T, &key(1))).unwrap(), Locked::AtOnce);
    }

    #[test]
    fn waiting_in_a_circle_is_refused_and_nobody_else_is() {
        let locks = Arc::new(Locks::default());
        let [mut a, mut b, mut c] = [(); 3].map(|()| RowLocks::new(locks.clone()));
        now(a.lock(T, &key(1))).unwrap();
        now(b.lock(T, &key(2))).unwrap();
        now(c.lock(T, &key(3))).unwrap();
        let [one, two, three] = [1, 2, 3].map(key);
        let mut of_a = pin!(a.lock(T, &two));
        assert!(poll(of_a.as_mut()).is_none());
        {
            let mut of_b = pin!(b.lock(T, &three));
            assert!(poll(of_b.as_mut()).is_none());
            let refused = now(c.lock(T, &one)).unwrap_err();
            assert_eq!(refused.state, SqlState::DEADLOCK_DETECTED);
            drop(c);
            assert_eq!(poll(of_b.as_mut()).unwrap().unwrap(), Locked::AfterWaiting);
        }
        drop(b);
        assert_eq!(poll(of_a.as_mut()).unwrap().unwrap(), Locked::AfterWaiting);
    }
}
