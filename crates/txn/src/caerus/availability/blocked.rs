//! Transactions without a place that wait for lost sequences, and what they touch.
//!
//! IN: the merger's graph and the lost sequences. OUT: what else would wait behind them. KEEPS: a row is in it if and only
//! if some blocked transaction touches it; nothing is added between two searches, because a transaction that touches such a
//! row is refused.

use super::super::merger::Merger;
use crate::graph::vertex::{Ref, State};
use base::txn::{AccessMode, ClientRequest, Granule, Transaction};
use base::{Key, PartitionId, TableId};
use std::collections::BTreeMap;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Blocked {
    /// The sequences that each waits for.
    waiting: BTreeMap<Ref, u64>,
    rows: BTreeMap<(PartitionId, TableId, Key), (AccessMode, u64)>,
    /// By partition, what is no single row.
    ranges: BTreeMap<PartitionId, Vec<(Granule, AccessMode, u64)>>,
    requests: BTreeMap<ClientRequest, u64>,
}

impl Blocked {
    /// Transactions that lack an entry of a lost sequence, and those that depend on one of them.
    pub fn behind(lost: u64, merger: &Merger) -> Blocked {
        let mut dependents: BTreeMap<Ref, Vec<Ref>> = BTreeMap::new();
        let (mut blocked, mut todo) = (Blocked::default(), Vec::new());
        for (at, vertex) in merger.graph().iter().filter(|(_, vertex)| vertex.state < State::Emitted) {
            let missing = vertex.extra.regions & !vertex.extra.got & lost;
            if missing != 0 {
                blocked.waiting.insert(at, missing);
                todo.push(at);
            }
            for ahead in vertex.deps.iter().filter(|ahead| merger.graph().get(**ahead).is_some()) {
                dependents.entry(*ahead).or_default().push(at);
            }
        }
        while let Some(at) = todo.pop() {
            let sequences = blocked.waiting[&at];
            for dependent in dependents.get(&at).into_iter().flatten() {
                if !blocked.waiting.contains_key(dependent) {
                    blocked.waiting.insert(*dependent, sequences);
                    todo.push(*dependent);
                }
            }
        }
        for (at, sequences) in blocked.waiting.clone() {
            let vertex = merger.vertex(at);
            if let Some(transaction) = &vertex.transaction {
                blocked.add(transaction, vertex.extra.request, sequences);
            }
        }
        blocked
    }

    pub fn len(&self) -> usize {
        self.waiting.len()
    }
    /// The sequences that one waits for.
    pub fn sequences_of(&self, at: Ref) -> u64 {
        self.waiting.get(&at).copied().unwrap_or(0)
    }
    fn add(&mut self, transaction: &Transaction, request: Option<ClientRequest>, sequences: u64) {
        for partition in transaction.participants() {
            for access in transaction.access.at(partition) {
                match &access.granule {
                    Granule::Key(table, key) => {
                        let row = self.rows.entry((partition, *table, key.clone()));
                        let known = row.or_insert((access.mode, sequences));
                        *known = (known.0.max(access.mode), known.1 | sequences);
                    }
                    other => {
                        let ranges = self.ranges.entry(partition).or_default();
                        ranges.push((other.clone(), access.mode, sequences));
                    }
                }
            }
        }
        if let Some(request) = request {
            *self.requests.entry(request).or_default() |= sequences;
        }
    }
    /// The sequences that an attempt of a request waits for, if one does.
    pub fn attempt_of(&self, request: ClientRequest) -> Option<u64> {
        self.requests.get(&request).copied()
    }
    /// How many transactions and rows wait for some of these sequences.
    pub fn count(&self, sequences: u64) -> (u64, u64) {
        let behind = |waits: &u64| waits & sequences != 0;
        let rows = self.rows.values().filter(|(_, waits)| behind(waits)).count();
        let ranges = self.ranges.values().flatten().filter(|(_, _, waits)| behind(waits)).count();
        let transactions = self.waiting.values().filter(|waits| behind(waits)).count();
        (transactions as u64, (rows + ranges) as u64)
    }
    /// The lost sequences that an access waits for behind one of the blocked, as bits.
    pub fn in_the_way(&self, partition: PartitionId, granule: &Granule, mode: AccessMode) -> u64 {
        let conflicts = |other: AccessMode| mode == AccessMode::Write || other == AccessMode::Write;
        let first = |table| (partition, table, Key::new());
        let of_row = |(other, sequences): &(AccessMode, u64)| if conflicts(*other) { *sequences } else { 0 };
        let rows = match granule {
            Granule::Key(table, key) => self.rows.get(&(partition, *table, key.clone())).map_or(0, of_row),
            Granule::Range(table, range) => {
                let behind = self.rows.range(first(*table)..);
                let of_table = behind.take_while(|((p, t, _), _)| (*p, *t) == (partition, *table));
                of_table
                    .filter(|((_, _, key), _)| range.contains(key))
                    .fold(0, |all, (_, row)| all | of_row(row))
            }
            Granule::Partition => {
                let behind = self.rows.range(first(TableId(0))..);
                behind.take_while(|((p, _, _), _)| *p == partition).fold(0, |all, (_, row)| all | of_row(row))
            }
        };
        let ranges = self.ranges.get(&partition).into_iter().flatten();
        let met = ranges.filter(|(other, other_mode, _)| conflicts(*other_mode) && other.overlaps(granule));
        met.fold(rows, |all, (_, _, sequences)| all | sequences)
    }
}
