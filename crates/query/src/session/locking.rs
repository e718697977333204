//! Reads of rows that are about to be written: locked among this gateway's transactions, and read at a new
//! cut, since what the transaction saw before may be old once a lock has come.

use super::Session;
use super::read::Wanted;
use super::timeouts::for_lock;
use super::transaction::SeenRow;
use crate::locks::{Locked, RowLocks};
use crate::lower::select::Contended;
use base::error::{SqlResult, SqlState};
use base::{Key, SqlError};
use std::collections::BTreeSet;

/// How often a range is read anew because its rows changed while they were locked.
const ROUNDS: usize = 64;

impl Session {
    /// Locks the rows that are wanted and reads them, recorded as read.
    pub(super) async fn read_locked(
        &mut self,
        wanted: &Wanted<'_>,
        contended: Contended,
    ) -> SqlResult<Vec<SeenRow>> {
        if self.open().read_only {
            return Err(SqlError::new(
                SqlState::READ_ONLY_SQL_TRANSACTION,
                "cannot execute SELECT FOR UPDATE in a read-only transaction",
            ));
        }
        if contended == Contended::Skip {
            return self.read_unlocked(wanted).await;
        }
        // Versions are kept from before the wait on.
        self.pinned().await?;
        let points = wanted.reached.reaches.iter().map(|reach| reach.range.as_point());
        let points: Option<Vec<&Key>> = points.filter(|_| wanted.index.is_none()).collect();
        let mut at_new_cut = true;
        if let Some(points) = points.filter(|p| p.len() == wanted.reached.reaches.len()) {
            at_new_cut = false;
            for key in points {
                at_new_cut |= self.lock(wanted, key, contended).await? != Locked::Before;
            }
            let looked = self.look(wanted, at_new_cut).await?;
            return self.record(wanted, looked);
        }
        for _ in 0..ROUNDS {
            let looked = self.look(wanted, at_new_cut).await?;
            let keys: Vec<Key> = looked.keys().cloned().collect();
            let mut is_old = false;
            for key in &keys {
                is_old |= self.lock(wanted, key, contended).await? == Locked::AfterWaiting;
            }
            if !is_old {
                return self.record(wanted, looked);
            }
            at_new_cut = true;
        }
        Err(SqlError::new(
            SqlState::SERIALIZATION_FAILURE,
            "could not serialize access: rows changed each time they were locked",
        )
        .hint("Retry the transaction."))
    }

    /// SKIP LOCKED: rows that nobody holds, each for itself. What lies between them is not validated: a row
    /// that was passed over because its holder changes it would always have changed.
    async fn read_unlocked(&mut self, wanted: &Wanted<'_>) -> SqlResult<Vec<SeenRow>> {
        let everything = Wanted { limit: None, filter: wanted.filter.clone(), ..*wanted };
        let mut own = BTreeSet::new();
        loop {
            let mut looked = self.look(&everything, true).await?;
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

    async fn lock(&mut self, wanted: &Wanted<'_>, key: &Key, contended: Contended) -> SqlResult<Locked> {
        let table = wanted.table;
        let transaction = self.transaction.as_mut().expect("an open transaction");
        let locks = transaction.locks.get_or_insert_with(|| RowLocks::new(self.gateway.locks.clone()));
        if contended == Contended::Wait {
            return for_lock(self.settings.timeouts.lock_ms, locks.lock(table.id, key)).await;
        }
        if !locks.try_lock(table.id, key) {
            let message = format!("could not obtain lock on row in relation \"{}\"", table.name);
            return Err(SqlError::new(SqlState::LOCK_NOT_AVAILABLE, message));
        }
        Ok(Locked::AtOnce)
    }
}
