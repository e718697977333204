//! Execution of programs: the same verdict and the same rows at every participant.
//!
//! IN: a transaction at its place: everything before it that conflicts has been applied, nothing after
//! it has. OUT: [`Gathered`], then [`Applied`]. KEEPS: gathering writes nothing; applying cannot fail; a
//! transaction touches only what it declared; a panic while gathering is an abort (`contained`).
//!
//! Statements and validated write sets are run once, while gathering, against an overlay of their own
//! writes; what they would write is kept until they are applied. Procedures have two halves of their own. Statements,
//! validated write sets, and changes of the catalog that come with rows take several steps of a node over many rows
//! (`steps`); all else takes one.
//!
//! A program can also be evaluated at a rank, which writes nothing, and what it would write be installed at a
//! place later: see `evaluate`.
//!
//! A unique entry that has its home elsewhere ([`Table::index_is_local`](base::schema::Table::index_is_local))
//! is written at its home by a participant that sees the row in the program; the entry of a row that goes away is
//! named by the participant that holds the row, in the values it gathers.

mod allowance;
mod contained;
mod costs;
mod declared;
pub(crate) mod evaluate;
mod insert;
mod making;
pub(crate) mod migration;
mod overlay;
mod procedure;
mod rehearsal;
pub(crate) mod schema;
mod statement;
pub(crate) mod steps;
mod validated;
mod violation;
mod writing;

use crate::store::Store;
use base::error::SqlResult;
use base::txn::{Applied, Gathered, Outcome, StatementResult, Transaction, TxnProgram, given_up};
use base::write_set::UniqueEntry;
use base::{Datum, Key, PartitionId, Place, TableId, TxnId};
use contained::contained;
use migration::Written;
use overlay::Overlay;
use std::collections::{BTreeMap, VecDeque};

/// What a gathered transaction will do when it is applied.
#[derive(Default)]
pub(crate) struct Prepared {
    pub results: Vec<StatementResult>,
    pub overlay: Overlay,
    /// Unique entries homed anywhere whose rows leave them: index, entry, primary key; flat.
    pub departures: Vec<Datum>,
}

/// Prepared transactions, the oldest first. Bounded: what was forgotten is run again.
#[derive(Default)]
pub(crate) struct PreparedSet {
    by_txn: BTreeMap<TxnId, Prepared>,
    oldest: VecDeque<TxnId>,
    rows: usize,
}

/// Transactions, and rows written by them, that are kept between gathering and applying.
const PREPARED_MAX: usize = 4096;
const PREPARED_ROWS_MAX: usize = 200_000;

impl PreparedSet {
    fn insert(&mut self, txn: TxnId, prepared: Prepared) {
        self.take(txn);
        self.rows += prepared.overlay.len();
        self.by_txn.insert(txn, prepared);
        self.oldest.push_back(txn);
        // The newest one stays, however large: it is about to be applied.
        while (self.by_txn.len() > PREPARED_MAX || self.rows > PREPARED_ROWS_MAX) && self.by_txn.len() > 1 {
            let oldest = self.oldest.pop_front().expect("every prepared transaction has an age");
            self.rows -= self.by_txn.remove(&oldest).expect("it has an age").overlay.len();
        }
    }
    fn take(&mut self, txn: TxnId) -> Option<Prepared> {
        let prepared = self.by_txn.remove(&txn)?;
        self.rows -= prepared.overlay.len();
        // Usually the only one, or among the newest.
        let at = self.oldest.iter().rposition(|t| *t == txn).expect("every prepared transaction has an age");
        self.oldest.remove(at);
        Some(prepared)
    }
}

impl Store {
    /// Reads here and decides whether the transaction must abort. Writes nothing.
    pub fn gather(&mut self, transaction: &Transaction) -> Gathered {
        match contained(transaction.id, || self.compute(transaction)) {
            Ok((values, prepared)) => {
                if let Some(prepared) = prepared {
                    self.prepared.insert(transaction.id, prepared);
                }
                Gathered::Values(values)
            }
            Err(error) => Gathered::Abort(error),
        }
    }

    /// What others have to know, and, unless the program has a second half, what it will write.
    fn compute(&self, transaction: &Transaction) -> SqlResult<(Vec<Datum>, Option<Prepared>)> {
        let values = match &*transaction.program {
            TxnProgram::Procedure { name, args } => self.gather_procedure(transaction, name, args)?,
            TxnProgram::Schema(change) => {
                self.gather_schema(change, &Written::default())?;
                Vec::new()
            }
            TxnProgram::GiveUp => return Err(given_up()),
            TxnProgram::Statements(_) | TxnProgram::Validated(_) | TxnProgram::Migration(_) => {
                let prepared = self.compute_all(transaction)?;
                return Ok((prepared.departures.clone(), Some(prepared)));
            }
        };
        Ok((values, None))
    }

    /// Writes here, at the transaction's place. `exchange` holds every participant's values.
    ///
    /// Panics if the transaction was to abort here, or if `place` is not after the place of every
    /// version that it supersedes.
    pub fn apply(
        &mut self,
        transaction: &Transaction,
        place: Place,
        exchange: &BTreeMap<PartitionId, Gathered>,
    ) -> Applied {
        assert_eq!(place.txn, transaction.id, "a transaction is applied at its own place");
        match &*transaction.program {
            TxnProgram::Procedure { name, args } => {
                self.apply_procedure(transaction, name, args, place, exchange)
            }
            TxnProgram::Schema(change) => self.apply_schema(change, &Written::default(), place),
            TxnProgram::GiveUp => unreachable!("it aborts"),
            TxnProgram::Statements(_) | TxnProgram::Validated(_) | TxnProgram::Migration(_) => {
                self.write_whole(transaction, place, exchange)
            }
        }
    }

    /// Gathers and applies a transaction whose only participant this is.
    pub fn execute(&mut self, transaction: &Transaction, place: Place) -> (Outcome, Applied) {
        let gathered = self.gather(transaction);
        if let Gathered::Abort(error) = gathered {
            return (Outcome::Aborted(error), Applied::default());
        }
        let applied = self.apply(transaction, place, &BTreeMap::from([(self.partition, gathered)]));
        (Outcome::Committed { results: applied.results.clone() }, applied)
    }

    /// Forgets what was gathered for a transaction that aborted elsewhere.
    pub fn forget(&mut self, txn: TxnId) {
        self.prepared.take(txn);
    }

    fn take_prepared(&mut self, transaction: &Transaction) -> Prepared {
        match self.prepared.take(transaction.id) {
            Some(prepared) => prepared,
            None => self.compute_all(transaction).expect("it was gathered without an error"),
        }
    }
}

/// Reads what a participant said about entries that lose their rows.
fn departures(values: &[Datum]) -> impl Iterator<Item = (UniqueEntry, Key)> + '_ {
    values.chunks_exact(3).map(|triple| match triple {
        [Datum::Int(index), Datum::Bytes(entry), Datum::Bytes(key)] => {
            ((TableId(*index as u32), Key::from_bytes(entry)), Key::from_bytes(key))
        }
        other => panic!("not a departure: {other:?}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_prepared_and_never_applied_is_forgotten_in_time() {
        let mut set = PreparedSet::default();
        let id = |n| TxnId { sequence: n, ..TxnId::MIN };
        let prepared = |rows: i64| {
            let keys = (0..rows).map(|n| (Key::of(&[Datum::Int(n)]), None)).collect();
            let rows = BTreeMap::from([(TableId(1), keys)]);
            let mut prepared = Prepared::default();
            prepared.overlay.rows = rows;
            prepared
        };
        let last = PREPARED_MAX as u64 + 100;
        (0..=last).for_each(|n| set.insert(id(n), prepared(2)));
        assert_eq!(
            (set.by_txn.len(), set.oldest.len(), set.rows),
            (PREPARED_MAX, PREPARED_MAX, 2 * PREPARED_MAX)
        );
        assert!(set.take(id(0)).is_none() && set.take(id(last)).is_some());
        // A large one takes the room of all others, but stays itself.
        set.insert(id(last + 1), prepared(PREPARED_ROWS_MAX as i64 + 1));
        assert_eq!((set.by_txn.len(), set.oldest.len()), (1, 1));
        assert!(set.take(id(last + 1)).is_some());
        assert_eq!((set.oldest.len(), set.rows), (0, 0));
    }
}
