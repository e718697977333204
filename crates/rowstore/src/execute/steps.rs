//! Execution in several steps of a node, so that a program over many rows does not keep others waiting.
//!
//! IN: a transaction at its place, and how much one step may do. OUT: `None` until it is done. KEEPS: the same values, rows
//! and records as in one step, wherever steps end: between two of them nothing that conflicts is executed. Of a program that is computed
//! nothing is in the store yet; of one that is being written some rows are, with its place, which no reader's cut reaches before
//! the whole transaction is executed.

use super::Prepared;
use super::allowance::Allowance;
use super::contained::contained;
use super::overlay::{Paused, Run};
use super::statement::StatementsAt;
use super::validated::ValidatedAt;
use super::writing::{Flat, Writing};
use crate::store::Store;
use base::error::SqlResult;
use base::txn::{Applied, Gathered, Statement, StatementResult, Transaction, TxnProgram, Validated};
use base::write_set::UniqueEntry;
use base::{Key, PartitionId, Place, Row, TxnId};
use std::collections::BTreeMap;

/// Transactions that have begun at a store and are not done, by what they do. Whoever has them executed keeps them: they
/// are void for a store that has been restored.
#[derive(Default)]
pub struct Unfinished {
    computing: BTreeMap<TxnId, (Paused, At)>,
    writing: BTreeMap<TxnId, Begun>,
}

/// Where a program goes on.
enum At {
    Statements(StatementsAt),
    Validated(ValidatedAt),
}

/// A transaction that is being written.
struct Begun {
    results: Vec<StatementResult>,
    writing: WritingPrepared,
}

/// A program whose rows are computed in steps.
enum Long<'a> {
    Statements(&'a [Statement]),
    Validated(&'a Validated),
}

/// What is written of a transaction that was computed.
type WritingPrepared = Writing<std::vec::IntoIter<(UniqueEntry, Key)>, Flat<Option<Key>>, Flat<Option<Row>>>;

impl Store {
    /// [`Store::gather`], in steps of so many units of work (about a microsecond each): `None`: not done, ask again.
    pub fn gather_some(
        &mut self,
        unfinished: &mut Unfinished,
        transaction: &Transaction,
        units: u64,
    ) -> Option<Gathered> {
        let Some(long) = Long::of(&transaction.program) else { return Some(self.gather(transaction)) };
        let begun = unfinished.computing.remove(&transaction.id);
        let step =
            contained(transaction.id, || self.compute_some(transaction, &long, begun, Allowance::of(units)));
        match step {
            Ok(Step::Done(prepared)) => {
                let values = prepared.departures.clone();
                self.prepared.insert(transaction.id, prepared);
                Some(Gathered::Values(values))
            }
            Ok(Step::Paused(paused, at)) => {
                unfinished.computing.insert(transaction.id, (paused, at));
                None
            }
            Err(error) => Some(Gathered::Abort(error)),
        }
    }

    /// Computes a whole program of these.
    pub(super) fn compute_all(&self, transaction: &Transaction) -> SqlResult<Prepared> {
        let program = Long::of(&transaction.program).expect("only these are computed in steps");
        match self.compute_some(transaction, &program, None, Allowance::WHOLE)? {
            Step::Done(prepared) => Ok(prepared),
            Step::Paused(..) => unreachable!("one step is enough"),
        }
    }

    fn compute_some(
        &self,
        transaction: &Transaction,
        program: &Long<'_>,
        begun: Option<(Paused, At)>,
        allowance: Allowance,
    ) -> SqlResult<Step> {
        let (mut run, mut at) = match begun {
            Some((paused, at)) => (Run::resumed(self, transaction, paused), at),
            None => (Run::new(self, transaction), program.beginning()),
        };
        run.allowance = allowance;
        let is_done = match (program, &mut at) {
            (Long::Statements(statements), At::Statements(at)) => run.go_on_with(statements, at)?,
            (Long::Validated(validated), At::Validated(at)) => run.validate(validated, at)?,
            _ => unreachable!("a transaction goes on with its own program"),
        };
        Ok(match is_done {
            true => Step::Done(run.prepared),
            false => Step::Paused(run.pause(), at),
        })
    }

    /// [`Store::apply`], in steps likewise.
    pub fn apply_some(
        &mut self,
        unfinished: &mut Unfinished,
        transaction: &Transaction,
        place: Place,
        exchange: &BTreeMap<PartitionId, Gathered>,
        units: u64,
    ) -> Option<Applied> {
        if Long::of(&transaction.program).is_none() {
            return Some(self.apply(transaction, place, exchange));
        }
        assert_eq!(place.txn, transaction.id, "a transaction is applied at its own place");
        let mut begun = match unfinished.writing.remove(&transaction.id) {
            Some(begun) => begun,
            None => {
                let prepared = self.take_prepared(transaction);
                let (results, writing) = self.begin_writing(prepared, exchange);
                Begun { results, writing }
            }
        };
        match self.write_some(&mut begun.writing, place, Allowance::of(units)) {
            true => Some(Applied { results: begun.results, writes: begun.writing.written, schema: None }),
            false => {
                unfinished.writing.insert(transaction.id, begun);
                None
            }
        }
    }
}

enum Step {
    Done(Prepared),
    Paused(Paused, At),
}

impl<'a> Long<'a> {
    fn of(program: &'a TxnProgram) -> Option<Long<'a>> {
        match program {
            TxnProgram::Statements(statements) => Some(Long::Statements(statements)),
            TxnProgram::Validated(validated) => Some(Long::Validated(validated)),
            _ => None,
        }
    }
    fn beginning(&self) -> At {
        match self {
            Long::Statements(_) => At::Statements(StatementsAt::default()),
            Long::Validated(_) => At::Validated(ValidatedAt::default()),
        }
    }
}
