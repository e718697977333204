//! Execution in several steps of a node, so that a program over many rows does not keep others waiting.
//!
//! IN: a transaction at its place, and how much one step may do. OUT: `None` until it is done. KEEPS: the same values, rows
//! and records as in one step, wherever steps end: between two of them nothing that conflicts is executed. Of a program that is computed
//! nothing is in the store yet; of one that is being written some rows are, with its place, which no reader's cut reaches before
//! the whole transaction is executed.

use super::Prepared;
use super::allowance::Allowance;
use super::contained::contained;
use super::making::{Making, MigrationAt};
use super::overlay::{Paused, Run};
use super::statement::StatementsAt;
use super::validated::ValidatedAt;
use super::writing::WritingPrepared;
use crate::store::Store;
use crate::table::TableStore;
use base::error::SqlResult;
use base::txn::{
    Applied, Gathered, Migration, Statement, StatementResult, Transaction, TxnProgram, Validated,
};
use base::{PartitionId, Place, TableId, TxnId};
use std::collections::BTreeMap;
use std::sync::Arc;

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
    Migration(MigrationAt),
}

/// A transaction that is being written.
struct Begun {
    results: Vec<StatementResult>,
    /// Tables that it makes, which come first.
    making: Option<Making>,
    writing: WritingPrepared,
}

/// A program whose rows are computed in steps.
enum Long<'a> {
    Statements(&'a [Statement]),
    Validated(&'a Validated),
    Migration(&'a Migration),
}

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
        let (paused, mut at) = match begun {
            Some((paused, at)) => (Some(paused), at),
            None => (None, self.beginning(transaction, program)?),
        };
        let changed = at.changed();
        let mut run = match paused {
            Some(paused) => Run::resumed(self, transaction, paused),
            None => Run::new(self, transaction),
        };
        (run.changed, run.allowance) = (changed.as_deref(), allowance);
        let is_done = match (program, &mut at) {
            (Long::Statements(statements), At::Statements(at)) => run.go_on_with(statements, at)?,
            (Long::Validated(validated), At::Validated(at)) => run.validate(validated, at)?,
            (Long::Migration(migration), At::Migration(at)) => {
                run.take_writes(&migration.rows.writes, &mut at.writes)?
            }
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
        let Some(long) = Long::of(&transaction.program) else {
            return Some(self.apply(transaction, place, exchange));
        };
        let begun = unfinished.writing.remove(&transaction.id);
        match self.write_long(transaction, &long, begun, place, exchange, Allowance::of(units)) {
            Ok(applied) => Some(applied),
            Err(begun) => {
                unfinished.writing.insert(transaction.id, begun);
                None
            }
        }
    }

    /// Writes a whole program of these.
    pub(super) fn write_whole(
        &mut self,
        transaction: &Transaction,
        place: Place,
        exchange: &BTreeMap<PartitionId, Gathered>,
    ) -> Applied {
        let program = Long::of(&transaction.program).expect("only these are written in steps");
        let applied = self.write_long(transaction, &program, None, place, exchange, Allowance::WHOLE);
        applied.unwrap_or_else(|_| unreachable!("one step is enough"))
    }

    /// Goes on writing; `Err`: what is left.
    fn write_long(
        &mut self,
        transaction: &Transaction,
        program: &Long<'_>,
        begun: Option<Begun>,
        place: Place,
        exchange: &BTreeMap<PartitionId, Gathered>,
        allowance: Allowance,
    ) -> Result<Applied, Begun> {
        assert_eq!(place.txn, transaction.id, "a transaction is applied at its own place");
        let mut begun = begun.unwrap_or_else(|| {
            let mut prepared = self.take_prepared(transaction);
            let making = match program {
                Long::Migration(migration) => {
                    Some(self.begin_making(&migration.change, &mut prepared.overlay, place))
                }
                _ => None,
            };
            let (results, writing) = self.begin_writing(prepared, exchange);
            Begun { results, making, writing }
        });
        match (program, begun.making.take()) {
            (Long::Migration(migration), Some(mut making)) => {
                if !making.write_some(place, allowance) {
                    return Err(Begun { making: Some(making), ..begun });
                }
                Ok(self.finish_migration(migration, making, begun.writing, place))
            }
            _ if self.write_some(&mut begun.writing, place, allowance) => {
                Ok(Applied { results: begun.results, writes: begun.writing.written, schema: None })
            }
            _ => Err(begun),
        }
    }

    fn beginning(&self, transaction: &Transaction, program: &Long<'_>) -> SqlResult<At> {
        Ok(match program {
            Long::Statements(_) => At::Statements(StatementsAt::default()),
            Long::Validated(_) => At::Validated(ValidatedAt::default()),
            Long::Migration(migration) => At::Migration(self.begin_migration(transaction, migration)?),
        })
    }
}

impl At {
    /// Tables as the program will leave them.
    fn changed(&self) -> Option<Arc<BTreeMap<TableId, TableStore>>> {
        match self {
            At::Migration(at) => Some(at.changed.clone()),
            At::Statements(_) | At::Validated(_) => None,
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
            TxnProgram::Migration(migration) => Some(Long::Migration(migration)),
            _ => None,
        }
    }
}
