//! Publication: an epoch that is complete is merged and becomes part of this member's state.
//!
//! IN: the payloads of an epoch, of all members; the executor. OUT: rows, streams, decisions. KEEPS: epochs are published
//! in order, without gaps; the state after an epoch follows from the state before it and from its payloads, so it is the
//! same at all members (their running digests of decisions are compared); positions of a log are dense.

use super::merge::{Candidate, Conflict, Decision, Isolation, Loss, Rule, Snapshot, merge};
use super::message::{Body, Epoch, Item, Message, Payload};
use super::requests::{Requests, unknown};
use crate::engine::{Applied, EngineEffect, Executor};
use base::commit::CommitRecord;
use base::hash::digest;
use base::key::KeyRange;
use base::order::StreamItem;
use base::txn::{Gathered, Outcome, ReadGranule, StatementResult, Transaction};
use base::write_set::WriteSet;
use base::{Key, LogPosition, NodeId, PartitionId, Place, Rank, TableId, TxnId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Digests that are kept for comparison with members that are behind.
const DIGESTS_MAX: usize = 4096;

type Out = Vec<EngineEffect<Message>>;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Published {
    /// The last published epoch (lsn).
    epoch: Epoch,
    logs: Vec<(LogPosition, Rank)>,
    /// The catalog was last changed here.
    catalog_changed_at: Rank,
    /// Of all decisions up to each of the last epochs that had any.
    digests: BTreeMap<Epoch, u64>,
    decided: (Epoch, u64),
    /// Transactions that committed, and that did not.
    committed: u64,
    aborted: u64,
}

/// How an epoch is merged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub me: NodeId,
    pub rule: Rule,
    pub rank: Rank,
    /// Who has read below it is refused.
    pub floor: Rank,
    pub keep_results_ns: u64,
    /// What was read is held against a snapshot that is so much newer: a fault.
    pub slack_ns: u64,
    /// Reads are not looked at: a fault.
    pub trusts_reads: bool,
}

/// How one of this member's transactions ended.
pub(super) struct Ended {
    pub txn: TxnId,
    pub decision: Decision,
    /// What a change of the catalog answers: it is executed here only.
    pub outcome: Option<Outcome>,
    pub changes_catalog: bool,
}

impl Published {
    pub fn new(partitions: usize) -> Published {
        Published {
            epoch: Epoch(0),
            logs: vec![(LogPosition(0), Rank::ZERO); partitions],
            catalog_changed_at: Rank::ZERO,
            digests: BTreeMap::new(),
            decided: (Epoch(0), 0),
            committed: 0,
            aborted: 0,
        }
    }
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }
    pub fn log(&self, partition: PartitionId) -> (LogPosition, Rank) {
        self.logs[usize::from(partition.0)]
    }
    /// The last epoch that decided something, and the digest of all decisions up to there.
    pub fn decided(&self) -> (Epoch, u64) {
        self.decided
    }
    pub fn counts(&self) -> (u64, u64) {
        (self.committed, self.aborted)
    }
    /// Another member's digest is not this one's.
    pub fn differs(&self, (epoch, digest): (Epoch, u64)) -> bool {
        self.digests.get(&epoch).is_some_and(|own| *own != digest)
    }
    /// Epochs up to this one have no transactions.
    pub fn pass(&mut self, epoch: Epoch) {
        assert!(self.epoch <= epoch, "epochs are published in order");
        self.epoch = epoch;
    }

    /// Merges the next epoch; answers how this member's own transactions ended.
    pub fn merge(
        &mut self,
        epoch: Epoch,
        payloads: &[Arc<Payload>],
        terms: Terms,
        (requests, executor): (&mut Requests, &mut dyn Executor),
        out: &mut Out,
    ) -> Vec<Ended> {
        assert_eq!(self.epoch.next(), epoch, "epochs are published in order, without gaps");
        let candidates: Vec<Candidate<Item<'_>>> = payloads
            .iter()
            .map(|payload| Candidate {
                precedence: payload.precedence(),
                level: payload.level,
                claim: payload.claim(),
            })
            .collect();
        let mut outcomes = BTreeMap::new();
        let mut state =
            State { published: self, payloads, terms, requests, executor, outcomes: &mut outcomes, out };
        let decisions = merge(terms.rule, &candidates, &mut state);
        // One place for all members: payloads come in the order of members and of their numbers.
        let mut digest_of = self.decided.1;
        let mut ended = Vec::new();
        for (nth, (payload, decision)) in payloads.iter().zip(decisions).enumerate() {
            digest_of = digest(&(digest_of, payload.txn, decision.is_ok()));
            let count = if decision.is_ok() { &mut self.committed } else { &mut self.aborted };
            *count += 1;
            if payload.txn.coordinator != terms.me {
                continue;
            }
            let changes_catalog = matches!(payload.body, Body::Program(_));
            let outcome = outcomes.remove(&nth);
            ended.push(Ended { txn: payload.txn, decision, outcome, changes_catalog });
        }
        self.epoch = epoch;
        self.decided = (epoch, digest_of);
        self.digests.insert(epoch, digest_of);
        if self.digests.len() > DIGESTS_MAX {
            self.digests.pop_first();
        }
        ended
    }

    fn log_record(
        &mut self,
        (txn, rank): (TxnId, Rank),
        partition: PartitionId,
        applied: Applied,
        out: &mut Out,
    ) -> Vec<StatementResult> {
        let (position, newest) = &mut self.logs[usize::from(partition.0)];
        (*position, *newest) = (position.next(), rank);
        let Applied { results, writes, schema } = applied;
        let record = CommitRecord { txn, rank, partition, position: *position, writes, schema };
        out.push(EngineEffect::Stream { partition, item: StreamItem::Record(record) });
        results
    }
}

/// This member's state, and the payloads that are held against it.
struct State<'a> {
    published: &'a mut Published,
    payloads: &'a [Arc<Payload>],
    terms: Terms,
    requests: &'a mut Requests,
    executor: &'a mut dyn Executor,
    /// Of changes of the catalog, which are executed here.
    outcomes: &'a mut BTreeMap<usize, Outcome>,
    out: &'a mut Out,
}

/// Rows that a transaction writes, with where they are.
pub(super) fn rows_of(
    writes: &BTreeMap<PartitionId, WriteSet>,
) -> impl Iterator<Item = (PartitionId, TableId, &Key)> {
    writes.iter().flat_map(|(p, set)| set.rows.iter().map(|state| (*p, state.table, &state.key)))
}

/// Entries of unique indexes that change hands, with where they are kept.
fn entries_of(
    writes: &BTreeMap<PartitionId, WriteSet>,
) -> impl Iterator<Item = (PartitionId, TableId, &Key)> {
    writes.iter().flat_map(|(p, set)| {
        let homes = set.homes.iter().map(|(entry, _)| entry);
        homes.chain(&set.unique).map(|(index, key)| (*p, *index, key))
    })
}

/// From which rank on nothing that it writes may have changed ([`Snapshot::is_first_writer`]).
fn first_writer_since(payload: &Payload) -> Rank {
    match payload.level {
        // Where reads are not validated, a block must not overwrite what has changed since it read.
        Isolation::Snapshot => payload.read_at,
        _ => payload.snapshot,
    }
}

/// It read one row that was there, and writes it. That the row is as it was follows without a look: reads are asked about once
/// their transaction is the first writer of its rows since [`first_writer_since`], and, when others of its epoch have
/// committed, once nobody else has its rows.
fn is_written(
    payload: &Payload,
    present: &BTreeSet<(PartitionId, TableId, Key)>,
    read: &ReadGranule,
) -> bool {
    read.at >= first_writer_since(payload)
        && read
            .range
            .as_point()
            .is_some_and(|key| present.contains(&(read.partition, read.table, key.clone())))
}

impl State<'_> {
    /// The tables that it read and writes, as far as it says, are described as they were when it was evaluated.
    fn has_its_tables(&self, payload: &Payload) -> bool {
        let Body::Writes { reads, writes, .. } = &payload.body else { return true };
        let read = reads.iter().map(|read| (read.partition, read.table));
        let written = rows_of(writes).chain(entries_of(writes));
        let written = written.map(|(partition, table, _)| (partition, table));
        let tables: BTreeSet<(PartitionId, TableId)> = read.chain(written).collect();
        let is_same = |(partition, table): &(PartitionId, TableId)| {
            self.executor.is_described_as_at(*partition, *table, payload.snapshot)
        };
        tables.iter().all(is_same)
    }
    fn is_unchanged(&self, (partition, table, key): (PartitionId, TableId, &Key), since: Rank) -> bool {
        let at = Rank(since.0 + self.terms.slack_ns);
        let range = KeyRange::point(key.clone());
        self.executor.is_unchanged(&ReadGranule { partition, table, range, columns: None, at })
    }
}

impl Snapshot for State<'_> {
    fn admit(&mut self, nth: usize) -> Result<(), Loss> {
        let payload = &self.payloads[nth];
        if let Some((request, _)) = payload.request {
            if self.requests.end(request).is_some() {
                base::sometimes!("an attempt of a request comes after one that took effect");
                return Err(Loss::Repeated);
            }
            if Requests::is_too_late(request, self.terms.rank, self.terms.keep_results_ns) {
                return Err(Loss::Failed(Box::new(unknown())));
            }
        }
        if matches!(payload.body, Body::GiveUp) {
            return Ok(());
        }
        if payload.read_at < self.terms.floor {
            base::sometimes!("a merge refuses what was read too long ago");
            return Err(Loss::Conflict(Conflict::TooOld));
        }
        match payload.snapshot < self.published.catalog_changed_at && !self.has_its_tables(payload) {
            true => Err(Loss::Conflict(Conflict::Catalog)),
            false => Ok(()),
        }
    }

    fn fits(&mut self, nth: usize) -> bool {
        let payload = &self.payloads[nth];
        let Body::Writes { writes, present, .. } = &payload.body else { return true };
        // Index entries that lead to a row follow from the row as it was.
        let has_entries = writes
            .values()
            .any(|set| !set.homes.is_empty() || !set.left.is_empty() || !set.unique.is_empty());
        if has_entries {
            return self.is_first_writer(nth);
        }
        // A change of the catalog comes first in its epoch, and may have written rows.
        let before =
            (self.published.catalog_changed_at == self.terms.rank).then(|| self.terms.rank.previous());
        rows_of(writes).all(|(partition, table, key)| {
            let was_there = present.contains(&(partition, table, key.clone()));
            self.executor.has_row(partition, table, key) == was_there
                && before.is_none_or(|before| self.is_unchanged((partition, table, key), before))
        })
    }

    fn is_first_writer(&mut self, nth: usize) -> bool {
        let payload = &self.payloads[nth];
        let Body::Writes { writes, .. } = &payload.body else { return true };
        let since = first_writer_since(payload);
        let mut written = rows_of(writes).chain(entries_of(writes));
        self.terms.trusts_reads || written.all(|written| self.is_unchanged(written, since))
    }

    fn reads_hold(&mut self, nth: usize) -> bool {
        let payload = &self.payloads[nth];
        let Body::Writes { reads, present, .. } = &payload.body else { return true };
        self.terms.trusts_reads
            || reads.iter().all(|read| {
                if self.terms.slack_ns == 0 && is_written(payload, present, read) {
                    return true;
                }
                let at = Rank(read.at.0 + self.terms.slack_ns);
                match self.terms.slack_ns {
                    0 => self.executor.is_unchanged(read),
                    _ => self.executor.is_unchanged(&ReadGranule { at, ..read.clone() }),
                }
            })
    }

    fn commit(&mut self, nth: usize) -> Result<(), Loss> {
        let payload = self.payloads[nth].clone();
        let rank = self.terms.rank;
        match &payload.body {
            Body::Writes { writes, .. } => {
                let place = Place::new(rank, payload.txn);
                for &partition in writes.keys() {
                    // Its tables are described as they were when it was evaluated.
                    let applied = self.executor.install(partition, place, writes).unwrap_or_else(|error| {
                        panic!("{} cannot be installed at {partition}: {error}", payload.txn)
                    });
                    self.published.log_record((payload.txn, rank), partition, applied, self.out);
                }
            }
            Body::Program(transaction) => {
                let outcome = self.execute(transaction)?;
                self.outcomes.insert(nth, outcome);
            }
            Body::GiveUp => {}
        }
        if let Some((request, outcome)) = &payload.request {
            let outcome = self.outcomes.get(&nth).unwrap_or(outcome).clone();
            self.requests.ended(*request, (payload.txn, rank, outcome));
        }
        Ok(())
    }
}

impl State<'_> {
    /// Executes a change of the catalog at its place.
    fn execute(&mut self, transaction: &Transaction) -> Result<Outcome, Loss> {
        let rank = self.terms.rank;
        let gathered: BTreeMap<PartitionId, Gathered> =
            transaction.participants().map(|p| (p, self.executor.gather(p, transaction))).collect();
        if let Some(error) = Gathered::abort_of(gathered.values()) {
            return Err(Loss::Failed(Box::new(error.clone())));
        }
        let place = Place::new(rank, transaction.id);
        let mut results = Vec::new();
        for partition in transaction.participants() {
            let applied = self.executor.apply(partition, transaction, place, &gathered);
            let here = self.published.log_record((transaction.id, rank), partition, applied, self.out);
            results.push((partition, here));
        }
        self.published.catalog_changed_at = rank;
        Ok(crate::share::merge(std::iter::once(crate::share::Share::Committed(results))))
    }
}
