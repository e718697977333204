//! Evaluation of programs at a rank, and installation of what they would have written at a place.
//!
//! IN: a transaction and a rank; later the write sets of all its participants, and its place. OUT: what it read, its
//! results and its write set; later rows, index entries and the writes of a commit record, the same that
//! [`Store::apply`] makes at that place if nothing that was read has changed since the rank. KEEPS: evaluating writes
//! nothing; installing asks nothing of the rows that are there. It refuses a table that has changed its description
//! since, before it writes anything.
//!
//! Both halves of a program run as they do at a place, over rows as of the rank. Between them participants exchange
//! values, so a transaction over several partitions is begun at each ([`Store::begin_evaluation`]) before it is
//! finished at any ([`Store::finish_evaluation`]).

use super::Prepared;
use super::contained::contained;
use super::departures;
use super::overlay::Run;
use super::statement::StatementsAt;
use super::writing::Writing;
use crate::store::Store;
use base::error::{SqlError, SqlResult};
use base::key::KeyRange;
use base::schema::stale_schema;
use base::txn::procedure::Exchange;
use base::txn::{Applied, Granule, ReadGranule, StatementResult, Transaction, TxnProgram, given_up};
use base::write_set::{RowState, WriteSet};
use base::{Datum, Place, Rank, TableId};
use std::collections::BTreeMap;

/// A transaction that every participant has read for.
pub struct Begun {
    /// What the other participants have to know.
    pub values: Vec<Datum>,
    read: Vec<(TableId, KeyRange)>,
    /// Of programs that need nothing of the others.
    prepared: Option<Prepared>,
    /// What it read itself, at cuts of its own.
    validated: Vec<ReadGranule>,
}

/// A transaction's share at one partition.
#[derive(Clone, Debug, PartialEq)]
pub struct EvaluatedHere {
    pub results: Vec<StatementResult>,
    pub reads: Vec<ReadGranule>,
    pub writes: WriteSet,
}

impl Store {
    /// Reads here as of a rank and decides whether the transaction must abort. Errors: that it must, and why; the rank
    /// was collected (72000); a table that is touched has changed its description since (40001); a change of the
    /// catalog, which needs a place (0A000).
    pub fn begin_evaluation(&self, transaction: &Transaction, at: Rank) -> SqlResult<Begun> {
        contained(transaction.id, || self.begin(transaction, at))
    }

    fn begin(&self, transaction: &Transaction, at: Rank) -> SqlResult<Begun> {
        self.check_cut(at)?;
        let touched = transaction.access.at(self.partition);
        let is_touched = |table: TableId| {
            touched.iter().any(|access| match &access.granule {
                Granule::Key(id, _) | Granule::Range(id, _) => *id == table,
                Granule::Partition => true,
            })
        };
        if self.changed_above(at, is_touched).is_some() {
            return Err(stale_schema());
        }
        let cut = Place::end_of(at);
        let mut run = Run::at(self, transaction, cut);
        let mut validated = Vec::new();
        match &*transaction.program {
            TxnProgram::Statements(statements) => {
                let is_done = run.go_on_with(statements, &mut StatementsAt::default())?;
                assert!(is_done, "one step is enough");
            }
            TxnProgram::Validated(program) => {
                // Whether they are still valid is for whoever orders it.
                run.take_all(&program.writes)?;
                let here = program.reads.iter().filter(|read| read.partition == self.partition);
                validated.extend(here.cloned());
            }
            TxnProgram::Procedure { name, args } => {
                let (values, read) = self.rehearse_gather(transaction, cut, name, args)?;
                return Ok(Begun { values, read, prepared: None, validated });
            }
            TxnProgram::GiveUp => return Err(given_up()),
            TxnProgram::Schema(_) | TxnProgram::Migration(_) => {
                return Err(SqlError::unsupported("evaluating a change of the catalog at a rank"));
            }
        }
        let values = run.prepared.departures.clone();
        Ok(Begun { values, read: run.reads.into_inner(), prepared: Some(run.prepared), validated })
    }

    /// What the transaction would do here. `exchange` holds the values of every participant.
    pub fn finish_evaluation(
        &self,
        transaction: &Transaction,
        at: Rank,
        begun: Begun,
        exchange: &Exchange,
    ) -> SqlResult<EvaluatedHere> {
        contained(transaction.id, || self.finish(transaction, at, begun, exchange))
    }

    fn finish(
        &self,
        transaction: &Transaction,
        at: Rank,
        begun: Begun,
        exchange: &Exchange,
    ) -> SqlResult<EvaluatedHere> {
        let Begun { mut read, prepared, validated, .. } = begun;
        let (results, writes) = match (prepared, &*transaction.program) {
            (Some(prepared), _) => self.write_set(prepared),
            (None, TxnProgram::Procedure { name, args }) => {
                let cut = Place::end_of(at);
                let (rows, written, more) = self.rehearse_apply(transaction, cut, name, args, exchange)?;
                read.extend(more);
                let writes = WriteSet { rows: written, ..WriteSet::default() };
                (vec![StatementResult { rows, affected: 0 }], writes)
            }
            (None, _) => unreachable!("only procedures have a second half"),
        };
        let read = read.into_iter().map(|(table, range)| ReadGranule {
            partition: self.partition,
            table,
            range,
            columns: None,
            at,
        });
        let mut reads: Vec<ReadGranule> = read.chain(validated).collect();
        reads.sort_unstable();
        reads.dedup();
        Ok(EvaluatedHere { results, reads, writes })
    }

    fn write_set(&self, prepared: Prepared) -> (Vec<StatementResult>, WriteSet) {
        let left = departures(&prepared.departures).collect();
        let overlay = prepared.overlay;
        let mut rows = Vec::with_capacity(overlay.len());
        for (table, states) in overlay.rows {
            let schema_version = self.table(table).map_or(0, |table| table.desc.version);
            let states = states.into_iter();
            rows.extend(states.map(|(key, row)| RowState { table, schema_version, key, row }));
        }
        let homes = overlay.homes.into_iter();
        let homes = homes.flat_map(|(index, entries)| {
            entries.into_iter().map(move |(entry, owner)| ((index, entry), owner))
        });
        let unique = overlay.owners.into_iter();
        let unique = unique.flat_map(|(index, entries)| entries.into_keys().map(move |entry| (index, entry)));
        let writes =
            WriteSet { rows, homes: homes.collect(), kept: overlay.kept, left, unique: unique.collect() };
        (prepared.results, writes)
    }

    /// Writes here what a transaction would have written, at its place. `writes` holds the write set of every
    /// participant. Errors: a table that is written has changed its description since (40001); nothing is written.
    ///
    /// Panics if `place` is not after the place of every version that it supersedes.
    pub fn install_writes(
        &mut self,
        place: Place,
        writes: &BTreeMap<base::PartitionId, WriteSet>,
    ) -> SqlResult<Applied> {
        let nothing = WriteSet::default();
        let own = writes.get(&self.partition).unwrap_or(&nothing);
        for state in &own.rows {
            let table = self.table(state.table).filter(|table| table.desc.version == state.schema_version);
            table.ok_or_else(stale_schema)?;
        }
        let left = writes.values().flat_map(|set| set.left.iter().cloned());
        let rows = own.rows.iter().map(|state| ((state.table, state.key.clone()), state.row.clone()));
        let homes = own.homes.iter().cloned();
        // Entries that come late are no part of a write set: the store enters these rows when the index is built.
        let entered = BTreeMap::new();
        let writing = Writing { left, kept: own.kept.clone(), homes, rows, entered, written: Vec::new() };
        Ok(Applied { results: Vec::new(), writes: self.write_all(writing, place), schema: None })
    }
}
