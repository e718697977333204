//! The deterministic scheduler: executes transactions at their places, here.
//!
//! KEEPS: a transaction executes after everything ahead of it that it conflicts with, and never holds up
//! one that it does not conflict with. The nodes of a region that take part show each other what they
//! read; no other region is asked anything: it executes the same for itself. Positions of a log are dense.

use super::batcher::is_schema_change;
use super::homes::{is_bare_move, moved_away};
use super::merger::cut_of;
use super::message::{Message, Share};
use super::requests::unknown;
use super::state::{Caerus, Exchange, Out, Work};
use crate::engine::{Applied, EngineEffect, Executor};
use crate::graph::vertex::{Ref, State};
use base::commit::CommitRecord;
use base::order::StreamItem;
use base::txn::{Gathered, Transaction};
use base::{NodeId, PartitionId, Place, Rank, SqlError, SqlState, Time, TxnId};
use smallvec::SmallVec;
use std::collections::BTreeMap;

impl Caerus {
    pub(super) fn execute(&mut self, now: Time, at: Ref, executor: &mut dyn Executor, out: &mut Out) {
        let vertex = self.graph.live(at);
        if vertex.state >= State::Executed {
            return;
        }
        assert_eq!(vertex.state, State::Emitted, "{} executes once its place is known", vertex.id);
        assert_eq!(vertex.waits, 0, "{} waits for its predecessors", vertex.id);
        let transaction = vertex.transaction.clone().expect("entries carry whole transactions");
        if vertex.extra.alone {
            let reads = self.gather(at, &transaction, executor).into_iter().collect();
            self.apply(now, at, &transaction, &reads, executor, out);
            return;
        }
        let gathered = vertex.extra.exchange.as_ref().is_some_and(|exchange| exchange.gathered);
        if !gathered {
            let reads = self.gather(at, &transaction, executor);
            for node in self.nodes_in(self.region, &transaction) {
                if node != self.me {
                    let message = Message::Reads { txn: transaction.id, gathered: reads.to_vec() };
                    self.send(node, message, out);
                }
            }
            let exchange = self.exchange(at);
            exchange.gathered = true;
            exchange.reads.extend(reads);
        }
        let participants = self.graph.live(at).participants.len();
        let exchange = self.exchange(at);
        if exchange.reads.len() < participants {
            self.exchanging.insert(transaction.id, now);
            return;
        }
        let reads = std::mem::take(&mut exchange.reads);
        if let Some(since) = self.exchanging.remove(&transaction.id) {
            self.asking.came(now, since);
        }
        self.apply(now, at, &transaction, &reads, executor, out);
        // Another node may still ask for what was read here.
        self.exchange(at).reads = reads;
    }

    fn exchange(&mut self, at: Ref) -> &mut Exchange {
        self.graph.live_mut(at).extra.exchange.get_or_insert_default()
    }

    /// Reads at every partition here that takes part.
    fn gather(
        &self,
        at: Ref,
        transaction: &Transaction,
        executor: &mut dyn Executor,
    ) -> SmallVec<[(PartitionId, Gathered); 1]> {
        let local = transaction.participants().filter(|p| self.partition(*p).local);
        if self.graph.live(at).extra.stale {
            return local.map(|p| (p, Gathered::Abort(moved_away()))).collect();
        }
        if is_bare_move(transaction) {
            return local.map(|p| (p, Gathered::Values(Vec::new()))).collect();
        }
        let collected = self.graph.live(at).extra.collected;
        if let Some(read_at) = cut_of(transaction)
            && read_at < collected
        {
            // Some copies may have forgotten deletions since: none of them looks.
            base::sometimes!("a transaction has read too long ago");
            return local.map(|p| (p, Gathered::Abort(too_old(read_at, collected)))).collect();
        }
        if self.is_too_late(at) {
            base::sometimes!("a repeated request comes too late");
            return local.map(|p| (p, Gathered::Abort(unknown()))).collect();
        }
        let gather = |p| match self.was_done(at, p) {
            true => (p, Gathered::Abort(unknown())),
            false => (p, executor.gather(p, transaction)),
        };
        local.map(gather).collect()
    }

    /// Everybody's reads are here: the transaction takes effect, or none.
    fn apply(
        &mut self,
        now: Time,
        at: Ref,
        transaction: &Transaction,
        reads: &BTreeMap<PartitionId, Gathered>,
        executor: &mut dyn Executor,
        out: &mut Out,
    ) {
        let txn = transaction.id;
        let rank = self.graph.live(at).rank.expect("what executes has a rank");
        let place = Place::new(rank, txn);
        let abort: Option<SqlError> = reads.values().find_map(|gathered| match gathered {
            Gathered::Abort(error) => Some(error.clone()),
            Gathered::Values(_) => None,
        });
        let (stale, moves) = (self.graph.live(at).extra.stale, is_bare_move(transaction));
        let mut results = Vec::new();
        for partition in transaction.participants() {
            let number = partition.0 as usize;
            if !self.partitions[number].local {
                continue;
            }
            let applied = match abort {
                Some(_) => Applied::default(),
                None if moves => Applied::default(),
                None => executor.apply(partition, transaction, place, reads),
            };
            results.push((partition, applied.results));
            let entry = &mut self.partitions[number];
            entry.position = entry.position.next();
            entry.rank_max = entry.rank_max.max(rank);
            if entry.streams {
                let record = CommitRecord {
                    txn,
                    rank,
                    partition,
                    position: entry.position,
                    writes: applied.writes,
                    schema: applied.schema,
                };
                out.push(EngineEffect::Stream { partition, item: StreamItem::Record(record) });
            }
        }
        if stale {
            return self.executed(now, at, (txn, rank), Share::Noop, out);
        }
        if let Some((end, share)) = self.first_attempt(at, transaction) {
            return self.executed(now, at, end, share, out);
        }
        let share = match abort {
            Some(error) => Share::Aborted(error),
            None => Share::Committed(results),
        };
        self.request_ended(at, txn, rank, &share);
        self.executed(now, at, (txn, rank), share, out);
    }

    /// `end`: what took effect, and its rank.
    fn executed(&mut self, now: Time, at: Ref, end: (TxnId, Rank), share: Share, out: &mut Out) {
        let vertex = self.graph.live_mut(at);
        let rank = vertex.rank.expect("what executes has a rank");
        vertex.state = State::Executed;
        let group = vertex.group;
        let read_at = vertex.transaction.as_ref().and_then(cut_of);
        let followers = std::mem::take(&mut vertex.followers);
        if let Some(read_at) = read_at {
            self.read_below.remove(&(read_at, at.slot));
        }
        for follower in followers {
            self.one_less(follower);
        }
        match group {
            None => self.done(at, rank),
            Some(number) => {
                let group = self.groups.get_mut(&number).expect("the component executes");
                group.unexecuted -= 1;
                if group.unexecuted == 0 {
                    let group = self.groups.remove(&number).expect("just found");
                    group.members.into_iter().for_each(|member| self.done(member, rank));
                }
            }
        }
        self.show(now, at, end, share, out);
    }

    /// Shows what has executed to its client and to readers.
    fn show(&mut self, now: Time, at: Ref, end: (TxnId, Rank), share: Share, out: &mut Out) {
        let vertex = self.graph.live(at);
        let (txn, bound, regions) = (vertex.id, vertex.bound, vertex.extra.regions);
        let everybody = vertex.transaction.as_ref().is_some_and(is_schema_change);
        self.pending.remove(&(bound, at.slot));
        self.changed(at, out);
        let gateway = txn.coordinator;
        let answers = everybody || self.answering_region(gateway, regions) == self.region;
        // Where regions may be lost, a gateway may have to be content with its own.
        let may_ask = self.survives() && self.topology.region_of(gateway) == self.region;
        if may_ask || answers && gateway != self.me {
            self.outcomes.insert(txn, (end, share.clone()));
        }
        if gateway == self.me && answers {
            return self.on_executed(now, gateway, txn, end, share);
        }
        if answers {
            self.send(gateway, Message::Executed { txn, end, share }, out);
        }
    }

    /// It has executed here, as far as it takes part, and so has its whole component.
    pub(super) fn done(&mut self, at: Ref, rank: Rank) {
        let vertex = self.graph.live_mut(at);
        vertex.state = State::Done;
        let dependents = std::mem::take(&mut vertex.dependents);
        self.kept.insert((rank, at.slot));
        for dependent in dependents {
            self.one_less(dependent);
        }
    }

    fn one_less(&mut self, at: Ref) {
        let vertex = self.graph.live_mut(at);
        vertex.waits -= 1;
        if vertex.waits == 0 {
            self.work.push_back(Work::Execute(at));
        }
    }

    pub(super) fn take_reads(&mut self, now: Time, txn: TxnId, gathered: Vec<(PartitionId, Gathered)>) {
        let Some(at) = self.graph.find(txn) else {
            base::sometimes!("reads arrive before their transaction, or long after");
            self.early_reads.entry(txn).or_insert_with(|| (now, Vec::new())).1.extend(gathered);
            return;
        };
        let vertex = self.graph.live(at);
        if vertex.state >= State::Executed || !vertex.extra.local {
            return;
        }
        let participants = vertex.participants.len();
        let ready = vertex.state == State::Emitted && vertex.waits == 0;
        let exchange = self.exchange(at);
        exchange.reads.extend(gathered);
        if ready && exchange.gathered && exchange.reads.len() == participants {
            self.work.push_back(Work::Execute(at));
        }
    }

    pub(super) fn on_reads_wanted(&mut self, from: NodeId, txn: TxnId, out: &mut Out) {
        let Some(at) = self.graph.find(txn) else { return };
        let Some(exchange) = &self.graph.live(at).extra.exchange else { return };
        // Not gathered yet: they will be sent then.
        if exchange.gathered {
            let own = exchange.reads.iter().filter(|(p, _)| self.partition(**p).local);
            let gathered = own.map(|(p, gathered)| (*p, gathered.clone())).collect();
            self.send(from, Message::Reads { txn, gathered }, out);
        }
    }

    pub(super) fn on_outcome_wanted(&mut self, from: NodeId, txn: TxnId, out: &mut Out) {
        if let Some((end, share)) = self.outcomes.get(&txn).cloned() {
            return self.send(from, Message::Executed { txn, end, share }, out);
        }
        let Some(rejoined) = self.rejoined else { return };
        let gateway = self.topology.region_of(txn.coordinator);
        let asks_here = gateway == self.region || self.sequencers[usize::from(gateway.0)].is_none();
        let known = self.graph.find(txn).map(|at| self.graph.live(at));
        let has_executed = match known {
            Some(vertex) => vertex.state >= State::Executed,
            None => self.sequences.iter().any(|sequence| sequence.seen.contains(txn)),
        };
        if asks_here && has_executed {
            base::sometimes!("how a transaction ended was forgotten by the region that lost its memory");
            let end = (txn, known.and_then(|vertex| vertex.rank).unwrap_or(rejoined.at));
            self.send(from, Message::Executed { txn, end, share: Share::Aborted(unknown()) }, out);
        }
    }
}

fn too_old(read_at: Rank, collected: Rank) -> SqlError {
    SqlError::new(
        SqlState::SERIALIZATION_FAILURE,
        "could not serialize access: the transaction's snapshot is too old",
    )
    .detail(format!("It was read at rank {read_at}; versions below rank {collected} are collected."))
    .hint("Retry the transaction.")
}
