//! The deterministic scheduler: executes transactions at their places, here.
//!
//! KEEPS: a transaction executes after everything ahead of it that it conflicts with, and never holds up
//! one that it does not conflict with. The nodes of a region that take part show each other what they
//! read; no other region is asked anything: it executes the same for itself. Positions of a log are dense.
//!
//! An execution over many rows takes several steps, between which the node does other things: it has not executed before the
//! last of them, so what conflicts with it waits, readers close no cut that includes it, and copies leave it out.

mod queue;

use super::asking::Asking;
use super::claims::{is_bare_move, moved_away};
use super::cluster::Cluster;
use super::merger::{Exchange, Merger, cut_of};
use super::message::{Message, Share};
use super::outcomes::{End, Outcomes};
use super::requests::unknown;
use super::work::{Todo, Work};
use crate::engine::{Applied, EngineEffect, Executor};
use crate::graph::turns::Turns;
use crate::graph::vertex::{Ref, State};
use crate::unfinished::{Partial, Reads, Unfinished};
use base::commit::CommitRecord;
use base::order::StreamItem;
use base::txn::{Gathered, Transaction};
use base::{LogPosition, NodeId, PartitionId, Place, Rank, SqlError, SqlState, Time, TxnId};
use std::collections::BTreeMap;

/// What executes here when, and what others may ask about it.
#[derive(Clone, Debug)]
pub(super) struct Scheduler {
    /// How far each partition's log is.
    logs: Vec<(LogPosition, Rank)>,
    turns: Turns,
    /// Wait for reads of another node of this region, since when; and what is known of those nodes.
    exchanging: BTreeMap<TxnId, Time>,
    asking: Asking,
    /// Reads of other nodes whose transaction is not known here, and since when.
    early_reads: BTreeMap<TxnId, (Time, Vec<(PartitionId, Gathered)>)>,
    /// Executions that take several steps of the node.
    unfinished: Unfinished,
}

/// How far a step of an execution came.
enum Step {
    Done(Executed),
    /// For what other nodes have read.
    Waits,
    Unfinished(Partial),
}

/// A transaction has executed here.
pub(super) struct Executed {
    pub at: Ref,
    pub end: End,
}

impl Scheduler {
    pub fn new(cluster: &Cluster) -> Scheduler {
        Scheduler {
            logs: vec![(LogPosition(0), Rank::ZERO); cluster.topology.partitions.len()],
            turns: Turns::default(),
            exchanging: BTreeMap::new(),
            asking: Asking::new(&cluster.topology, cluster.region),
            early_reads: BTreeMap::new(),
            unfinished: Unfinished::default(),
        }
    }

    /// How far a partition's log is: the position of the last record, and the largest rank of any.
    pub fn log(&self, partition: PartitionId) -> (LogPosition, Rank) {
        self.logs[usize::from(partition.0)]
    }
    /// Nothing waits for reads, and nobody's reads wait.
    pub fn is_settled(&self) -> bool {
        self.exchanging.is_empty() && self.early_reads.is_empty() && self.unfinished.is_empty()
    }
    #[cfg(test)]
    pub fn group_count(&self) -> usize {
        self.turns.group_count()
    }
    /// How often reads were asked for.
    pub fn reads_asked(&self) -> u64 {
        self.asking.count
    }

    /// Executes a transaction whose predecessors are done, unless it waits for others' reads.
    pub fn execute(
        &mut self,
        now: Time,
        (cluster, merger, outcomes): (&Cluster, &mut Merger, &mut Outcomes),
        at: Ref,
        executor: &mut dyn Executor,
        todo: &mut Todo<'_>,
    ) -> Option<Executed> {
        let vertex = merger.vertex(at);
        if vertex.state >= State::Executed {
            return None;
        }
        assert_eq!(vertex.state, State::Emitted, "{} executes once its place is known", vertex.id);
        assert!(vertex.turn.has_come(), "{} waits for its predecessors", vertex.id);
        let transaction = vertex.transaction.clone().expect("entries carry whole transactions");
        let is_alone = vertex.extra.alone;
        let graph = (cluster, merger, outcomes);
        let step = match is_alone {
            true => self.execute_alone(graph, at, &transaction, executor, todo),
            false => self.execute_with_others(now, graph, at, &transaction, executor, todo),
        };
        match step {
            Step::Done(executed) => Some(executed),
            Step::Waits => None,
            Step::Unfinished(partial) => {
                self.unfinished.rest(at, transaction.id, partial);
                None
            }
        }
    }

    /// Which execution goes on, if one is under way that takes several steps.
    pub fn next_unfinished(&self) -> Option<Ref> {
        self.unfinished.next()
    }

    /// The only participants are at this node.
    fn execute_alone(
        &mut self,
        graph: (&Cluster, &mut Merger, &mut Outcomes),
        at: Ref,
        transaction: &Transaction,
        executor: &mut dyn Executor,
        todo: &mut Todo<'_>,
    ) -> Step {
        let (cluster, merger, outcomes) = graph;
        let mut partial = self.unfinished.take(at, transaction.id);
        let looked = (cluster, &*merger, &*outcomes);
        if !self.gather(looked, at, transaction, &mut partial, executor) {
            return Step::Unfinished(partial);
        }
        let reads: BTreeMap<PartitionId, Gathered> = partial.take_reads().into_iter().collect();
        let graph = (cluster, merger, outcomes);
        match self.apply(graph, at, transaction, &reads, &mut partial, executor, todo) {
            Some(executed) => Step::Done(executed),
            None => {
                partial.set_reads(reads.into_iter().collect());
                Step::Unfinished(partial)
            }
        }
    }

    /// Other nodes of this region take part too.
    fn execute_with_others(
        &mut self,
        now: Time,
        graph: (&Cluster, &mut Merger, &mut Outcomes),
        at: Ref,
        transaction: &Transaction,
        executor: &mut dyn Executor,
        todo: &mut Todo<'_>,
    ) -> Step {
        let (cluster, merger, outcomes) = graph;
        let mut partial = self.unfinished.take(at, transaction.id);
        let gathered = merger.vertex(at).extra.exchange.as_ref().is_some_and(|exchange| exchange.gathered);
        if !gathered {
            let looked = (cluster, &*merger, &*outcomes);
            if !self.gather(looked, at, transaction, &mut partial, executor) {
                return Step::Unfinished(partial);
            }
            let reads = partial.take_reads();
            for node in cluster.nodes_in(cluster.region, transaction) {
                if node != cluster.me {
                    todo.send(node, Message::Reads { txn: transaction.id, gathered: reads.to_vec() });
                }
            }
            let exchange = exchange(merger, at);
            exchange.gathered = true;
            exchange.reads.extend(reads);
        }
        let participants = merger.vertex(at).participants.len();
        let known = exchange(merger, at);
        if known.reads.len() < participants {
            self.exchanging.insert(transaction.id, now);
            return Step::Waits;
        }
        let reads = std::mem::take(&mut known.reads);
        if let Some(since) = self.exchanging.remove(&transaction.id) {
            self.asking.came(now, since);
        }
        let graph = (cluster, &mut *merger, outcomes);
        let executed = self.apply(graph, at, transaction, &reads, &mut partial, executor, todo);
        // Another node may still ask for what was read here.
        exchange(merger, at).reads = reads;
        executed.map_or(Step::Unfinished(partial), Step::Done)
    }

    /// Reads at every partition here that takes part; whether that is done.
    fn gather(
        &self,
        graph: (&Cluster, &Merger, &Outcomes),
        at: Ref,
        transaction: &Transaction,
        partial: &mut Partial,
        executor: &mut dyn Executor,
    ) -> bool {
        let (cluster, merger, outcomes) = graph;
        if partial.begins()
            && let Some(reads) = self.foregone(graph, at, transaction)
        {
            partial.set_reads(reads);
        }
        let extra = &merger.vertex(at).extra;
        let local = transaction.participants().filter(|p| cluster.is_local(*p));
        partial.gather(local, |partition| match outcomes.was_done(cluster, extra, partition) {
            true => Some(Gathered::Abort(unknown())),
            false => executor.gather_some(partition, transaction),
        })
    }

    /// What a transaction reads that does nothing, or whose end is clear before anything is read.
    fn foregone(
        &self,
        (cluster, merger, outcomes): (&Cluster, &Merger, &Outcomes),
        at: Ref,
        transaction: &Transaction,
    ) -> Option<Reads> {
        let local = transaction.participants().filter(|p| cluster.is_local(*p));
        let extra = &merger.vertex(at).extra;
        let abort = |error: SqlError| Gathered::Abort(error);
        let foregone = if extra.stale {
            abort(moved_away())
        } else if is_bare_move(transaction) {
            Gathered::Values(Vec::new())
        } else if let Some(read_at) = cut_of(transaction).filter(|read_at| *read_at < extra.collected) {
            // Some copies may have forgotten deletions since: none of them looks.
            base::sometimes!("a transaction has read too long ago");
            abort(too_old(read_at, extra.collected))
        } else if outcomes.is_too_late(cluster, extra) {
            base::sometimes!("a repeated request comes too late");
            abort(unknown())
        } else {
            return None;
        };
        Some(local.map(|p| (p, foregone.clone())).collect())
    }

    /// Everybody's reads are here: the transaction takes effect, or none. `None`: not all of it is applied.
    #[allow(clippy::too_many_arguments)]
    fn apply(
        &mut self,
        (cluster, merger, outcomes): (&Cluster, &mut Merger, &mut Outcomes),
        at: Ref,
        transaction: &Transaction,
        reads: &BTreeMap<PartitionId, Gathered>,
        partial: &mut Partial,
        executor: &mut dyn Executor,
        todo: &mut Todo<'_>,
    ) -> Option<Executed> {
        let txn = transaction.id;
        let extra = &merger.vertex(at).extra;
        let rank = merger.vertex(at).rank.expect("what executes has a rank");
        let place = Place::new(rank, txn);
        let abort: Option<SqlError> = Gathered::abort_of(reads.values()).cloned();
        let has_effect = abort.is_none() && !is_bare_move(transaction);
        let local = transaction.participants().filter(|p| cluster.is_local(*p));
        let all = partial.apply(local, |partition| match has_effect {
            true => executor.apply_some(partition, transaction, place, reads),
            false => Some(Applied::default()),
        })?;
        let mut results = Vec::new();
        for (partition, applied) in all {
            results.push((partition, applied.results));
            let (position, rank_max) = &mut self.logs[usize::from(partition.0)];
            (*position, *rank_max) = (position.next(), rank.max(*rank_max));
            if cluster.is_followed(partition) {
                let (position, writes, schema) = (*position, applied.writes, applied.schema);
                let record = CommitRecord { txn, rank, partition, position, writes, schema };
                todo.effect(EngineEffect::Stream { partition, item: StreamItem::Record(record) });
            }
        }
        let first = match extra.stale {
            true => Some(((txn, rank), Share::Noop)),
            false => outcomes.first_attempt(cluster, extra, transaction),
        };
        let end = first.unwrap_or_else(|| {
            let share = match abort {
                Some(error) => Share::Aborted(error),
                None => Share::Committed(results),
            };
            outcomes.ended(cluster, extra, transaction, rank, share)
        });
        self.executed(merger, at, rank, todo);
        Some(Executed { at, end })
    }

    fn executed(&mut self, merger: &mut Merger, at: Ref, rank: Rank, todo: &mut Todo<'_>) {
        merger.executed(at);
        let ready = |at| todo.work(Work::Execute(at));
        for member in self.turns.executed(merger.graph_mut(), at, ready) {
            self.done(merger, member, rank, todo);
        }
    }

    /// It has executed here, as far as it takes part, and so has its whole component.
    fn done(&mut self, merger: &mut Merger, at: Ref, rank: Rank, todo: &mut Todo<'_>) {
        merger.done(at, rank);
        Turns::done(merger.graph_mut(), at, |at| todo.work(Work::Execute(at)));
    }

    /// Forgets reads of transactions that have not come: of most of them the vertex is gone, and other nodes ask for
    /// the rest again.
    pub fn forget_early(&mut self, now: Time, patience_ns: u64) {
        self.early_reads.retain(|_, (since, _)| now.since(*since) < patience_ns);
    }

    /// A transaction appears in its first sequence: its reads may have come before.
    pub fn known(&mut self, now: Time, merger: &mut Merger, txn: TxnId, todo: &mut Todo<'_>) {
        if let Some((_, gathered)) = self.early_reads.remove(&txn) {
            self.take_reads(now, merger, txn, gathered, todo);
        }
    }

    /// A node of this region has read this for a transaction.
    pub fn on_reads(
        &mut self,
        now: Time,
        merger: &mut Merger,
        from: NodeId,
        (txn, gathered): (TxnId, Vec<(PartitionId, Gathered)>),
        todo: &mut Todo<'_>,
    ) {
        self.asking.heard(from);
        self.take_reads(now, merger, txn, gathered, todo);
    }

    fn take_reads(
        &mut self,
        now: Time,
        merger: &mut Merger,
        txn: TxnId,
        gathered: Vec<(PartitionId, Gathered)>,
        todo: &mut Todo<'_>,
    ) {
        let Some(at) = merger.graph().find(txn) else {
            base::sometimes!("reads arrive before their transaction, or long after");
            self.early_reads.entry(txn).or_insert_with(|| (now, Vec::new())).1.extend(gathered);
            return;
        };
        let vertex = merger.vertex(at);
        if vertex.state >= State::Executed || !vertex.extra.local {
            return;
        }
        let participants = vertex.participants.len();
        let ready = vertex.state == State::Emitted && vertex.turn.has_come();
        let exchange = exchange(merger, at);
        exchange.reads.extend(gathered);
        if ready && exchange.gathered && exchange.reads.len() == participants {
            todo.work(Work::Execute(at));
        }
    }

    /// Another node of this region lacks what was read here.
    pub fn on_reads_wanted(
        &self,
        cluster: &Cluster,
        merger: &Merger,
        from: NodeId,
        txn: TxnId,
        todo: &mut Todo<'_>,
    ) {
        let Some(at) = merger.graph().find(txn) else { return };
        let Some(exchange) = &merger.vertex(at).extra.exchange else { return };
        // Not gathered yet: they will be sent then.
        if exchange.gathered {
            let own = exchange.reads.iter().filter(|(p, _)| cluster.is_local(**p));
            let gathered = own.map(|(p, gathered)| (*p, gathered.clone())).collect();
            todo.send(from, Message::Reads { txn, gathered });
        }
    }

    /// Asks for reads that should have come from other nodes of this region.
    pub fn ask_reads(&mut self, now: Time, cluster: &Cluster, merger: &Merger, todo: &mut Todo<'_>) {
        self.asking.ask(now, cluster, merger, &self.exchanging, todo);
    }

    /// Reads of other nodes that are here, of transactions that have not executed.
    pub fn pending_reads(
        &self,
        cluster: &Cluster,
        merger: &Merger,
    ) -> Vec<(TxnId, Vec<(PartitionId, Gathered)>)> {
        let waits = merger.graph().iter().filter(|(_, vertex)| vertex.state < State::Executed);
        let known = waits.filter_map(|(_, vertex)| Some((vertex.id, vertex.extra.exchange.as_ref()?)));
        let known = known.map(|(txn, exchange)| {
            let others = exchange.reads.iter().filter(|(p, _)| !cluster.is_local(**p));
            (txn, others.map(|(p, gathered)| (*p, gathered.clone())).collect())
        });
        let early = self.early_reads.iter().map(|(txn, (_, gathered))| (*txn, gathered.clone()));
        known.chain(early).collect()
    }
    /// What another node goes on from.
    pub fn turns(&self) -> &Turns {
        &self.turns
    }
    /// Forgets what was merged or taken over.
    pub fn forget_merged(&mut self) {
        self.turns = Turns::default();
        self.unfinished.clear();
    }
    /// Goes on from another node's.
    pub fn take_over(&mut self, logs: Vec<(LogPosition, Rank)>, turns: Turns) {
        (self.logs, self.turns) = (logs, turns);
    }
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.is_settled() && self.turns.group_count() == 0
    }
}

fn exchange(merger: &mut Merger, at: Ref) -> &mut Exchange {
    merger.graph_mut().live_mut(at).extra.exchange.get_or_insert_default()
}

fn too_old(read_at: Rank, collected: Rank) -> SqlError {
    SqlError::new(
        SqlState::SERIALIZATION_FAILURE,
        "could not serialize access: the transaction's snapshot is too old",
    )
    .detail(format!("It was read at rank {read_at}; versions below rank {collected} are collected."))
    .hint("Retry the transaction.")
}
