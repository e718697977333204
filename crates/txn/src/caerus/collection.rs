//! What may be forgotten, and when.
//!
//! KEEPS: a vertex with a place is dropped only when it is done here, no vertex without a place leads to
//! it, and the `low` of every sequence that orders it has passed its rank: an entry meets only what its own sequence
//! has ordered before, so no later entry's rank could depend on it.
//! Versions below the watermark may go: every node has executed everything up to there and no reader's cut,
//! now or later, is below. But an interactive transaction asks whether what it read has changed since, and
//! a copy that has forgotten a deletion could not tell; whether it is too late to ask must be decided alike
//! at every copy. So each entry says which watermark its sequencer knew, whoever read below that aborts
//! everywhere, and a copy forgets only what all sequences have said. An outcome goes when its gateway has
//! answered.
//!
//! The collector is whoever leads the first sequence: a region that is lost is replaced as its leader is, and the next
//! collector begins with nothing but what nodes report to it. It tells nothing before all of them have, or have been
//! silent for long, of those with copies no more than K regions' (who is cut off itself hears of fewer). What was told
//! is never taken back: every node keeps the largest it has heard, but none from a collector that does not lead any
//! more.

use super::merger::cut_of;
use super::message::{Floor, Message, Term};
use super::sequence::Sequence;
use super::state::{Caerus, Out, Partition};
use crate::engine::EngineEffect;
use base::{NodeId, Rank, RegionId, Time, TxnId};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// What the collector knows of each node.
#[derive(Clone, Debug)]
pub(super) struct Collector {
    /// It has collected since it led in this term.
    term: Term,
    reports: BTreeMap<NodeId, (Rank, Floor)>,
    /// Of those that keep copies.
    executed: BTreeMap<NodeId, Rank>,
    heard_at: BTreeMap<NodeId, Time>,
    /// Its own first report: from then on silence counts.
    began: Option<Time>,
}

impl Collector {
    pub fn new() -> Collector {
        let (reports, executed, heard_at) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Collector { term: 0, reports, executed, heard_at, began: None }
    }
}

impl Caerus {
    /// Drops vertices that nothing can depend on any more.
    pub(super) fn collect(&mut self, now: Time) {
        // Of a transaction that is long gone, or they will be asked for.
        let patience_ns = self.options.retry_after_ns(&self.topology);
        self.early_reads.retain(|_, (since, _)| now.since(*since) < patience_ns);
        let ranking = self.ranking();
        let low_of = |n: RegionId| self.sequences[usize::from(n.0)].low;
        let low = ranking.iter().map(|n| low_of(*n)).min().unwrap_or_default();
        // A silent sequence holds up those that it orders: its entries meet no others.
        let is_stuck = self.availability.suspects();
        let low = if is_stuck { ranking.iter().map(|n| low_of(*n)).max().unwrap_or(low) } else { low };
        let mut held = Vec::new();
        while let Some(&(rank, slot)) = self.kept.first()
            && rank <= low
        {
            self.kept.pop_first();
            let at = self.graph.at(slot);
            let extra = &self.graph.live(at).extra;
            // Another node of this region may still want its reads.
            let wanted = extra.exchange.is_some() && rank > self.watermark;
            let ordering = ranking.iter().filter(|n| extra.regions >> n.0 & 1 == 1);
            let is_early =
                is_stuck && ordering.into_iter().any(|n| self.sequences[usize::from(n.0)].low < rank);
            if extra.holders > 0 || wanted || is_early {
                held.push((rank, slot));
            } else {
                self.graph.remove(at);
            }
        }
        self.kept.extend(held);
        let graph = &self.graph;
        let residences = self.partitions.iter_mut().flat_map(Partition::residences_mut);
        for era in residences.flat_map(|known| &mut known.eras) {
            era.index.forget(&|at| graph.get(at).is_some());
        }
    }

    /// Tells the collector how far this node is.
    pub(super) fn report(&mut self, now: Time, out: &mut Out) {
        let past = match self.is_unbounded() {
            // Cuts to come are told from what has executed.
            true if self.is_replica => Rank::MAX,
            true => self.ready,
            false => (now - self.clock_bound_ns()).rank().previous(),
        };
        let executed = self.executed_to();
        let done = executed.into_iter().chain(self.floor).fold(past, Rank::min);
        let TxnId { coordinator, incarnation, sequence } = self.unanswered();
        let floor = Floor { coordinator, incarnation, sequence };
        let delays_ns = self.delays.at(self.me);
        let collector = self.leader_of(self.first_sequence());
        self.send(collector, Message::Progress { done, executed, floor, delays_ns }, out);
    }

    /// Whoever leads it collects.
    fn first_sequence(&self) -> RegionId {
        *self.running().first().expect("some region orders")
    }

    /// While this node is not whole collection waits for it, as long as it is heard.
    pub(super) fn report_absence(&mut self, out: &mut Out) {
        if self.joining.as_ref().is_none_or(|joining| joining.refused.is_some()) {
            return;
        }
        let TxnId { coordinator, incarnation, sequence } = self.unanswered();
        let floor = Floor { coordinator, incarnation, sequence };
        let delays_ns = self.delays.at(self.me);
        for node in self.sequencers.clone().into_iter().flatten() {
            if node == self.me {
                continue;
            }
            let delays_ns = delays_ns.clone();
            let message =
                Message::Progress { done: Rank::ZERO, executed: Some(Rank::ZERO), floor, delays_ns };
            self.send(node, message, out);
        }
    }

    /// Everything ranked at or below it has executed here, and nothing will that is; `None` where nothing does.
    pub(super) fn executed_to(&self) -> Option<Rank> {
        let ranking = self.ranking().into_iter().map(|n| &self.sequences[usize::from(n.0)]);
        let lows = ranking.map(|sequence| sequence.low).filter(|_| self.is_replica);
        let unexecuted = self.pending.first().map(|(bound, _)| bound.previous());
        lows.chain(unexecuted).min()
    }

    /// Whether collection may go on without a node that is silent. One that only reads finds, when it is back, that
    /// it was given up, and begins again. A lost region's only copy catches up first and gives up what is old then;
    /// where it shares its region with others they may have to tell it what they read.
    fn may_be_missing(&self, node: NodeId) -> bool {
        let keeps = |node: &NodeId| self.topology.copies_at(*node).next().is_some();
        let region = self.topology.region_of(node);
        let near = self.topology.node_ids().filter(|other| self.topology.region_of(*other) == region);
        !keeps(&node) || self.survives() && near.filter(keeps).count() == 1
    }

    pub(super) fn on_progress(
        &mut self,
        now: Time,
        from: NodeId,
        (done, executed): (Rank, Option<Rank>),
        floor: Floor,
        delays_ns: Vec<u64>,
        out: &mut Out,
    ) {
        let Some(term) = self.leading.get(&self.first_sequence()).map(|sequencer| sequencer.term) else {
            return;
        };
        if self.collector.term != term {
            base::sometimes!("another node collects");
            self.collector = Collector { term, ..Collector::new() };
        }
        self.delays.set(from, delays_ns);
        let known = self.collector.reports.entry(from).or_insert((done, floor));
        // Links reorder. A node that began a new life may have lost its memory, and be behind where it was.
        match known.1.incarnation.cmp(&floor.incarnation) {
            Ordering::Less => known.0 = done,
            Ordering::Equal => known.0 = known.0.max(done),
            Ordering::Greater => {}
        }
        if (known.1.incarnation, known.1.sequence) < (floor.incarnation, floor.sequence) {
            known.1 = floor;
        }
        if let Some(executed) = executed {
            let known = self.collector.executed.entry(from).or_default();
            *known = executed.max(*known);
        }
        self.collector.heard_at.insert(from, now);
        if from != self.me {
            return;
        }
        let began = *self.collector.began.get_or_insert(now);
        let (mut rank, mut ready) = (Rank::MAX, Rank::MAX);
        let mut missing: BTreeSet<RegionId> = BTreeSet::new();
        for node in self.topology.node_ids() {
            let heard_at = self.collector.heard_at.get(&node).copied().unwrap_or(began);
            match self.collector.reports.get(&node) {
                _ if now.since(heard_at) > self.options.silence_ns && self.may_be_missing(node) => {
                    base::sometimes!("collection goes on without a node that is silent");
                    if self.topology.copies_at(node).next().is_some() {
                        missing.insert(self.topology.region_of(node));
                    }
                }
                Some((done, _)) => {
                    rank = rank.min(*done);
                    ready = self.collector.executed.get(&node).map_or(ready, |executed| ready.min(*executed));
                }
                None => return,
            }
        }
        if missing.len() > self.copies_of(self.first_sequence()) {
            base::sometimes!("a collector hears too few to collect");
            return;
        }
        let floors: Vec<Floor> = self.collector.reports.values().map(|(_, floor)| *floor).collect();
        let delays_ns = self.delays.all();
        for node in self.topology.node_ids() {
            let (floors, delays_ns) = (floors.clone(), delays_ns.clone());
            let message = Message::Watermark { term, rank, ready, floors, delays_ns };
            self.send(node, message, out);
        }
    }

    pub(super) fn on_watermark(
        &mut self,
        term: Term,
        (rank, ready): (Rank, Rank),
        floors: &[Floor],
        out: &mut Out,
    ) {
        if term < self.sequences[usize::from(self.first_sequence().0)].led_in {
            return;
        }
        for floor in floors {
            let Floor { coordinator, incarnation, sequence } = *floor;
            let voted: Vec<_> = self.running().into_iter().filter(|sequence| self.votes(*sequence)).collect();
            for voted in voted {
                self.sequences[voted.0 as usize].seen.raise_floor(coordinator, incarnation, sequence);
            }
            for led in self.led() {
                self.sequences[led.0 as usize].seen.raise_floor(coordinator, incarnation, sequence);
            }
            let first = TxnId { coordinator, incarnation: 0, sequence: 0 };
            let end = TxnId { coordinator, incarnation, sequence };
            let answered: Vec<TxnId> = self.outcomes.range(first..end).map(|(txn, _)| *txn).collect();
            answered.iter().for_each(|txn| _ = self.outcomes.remove(txn));
        }
        self.watermark = self.watermark.max(rank);
        self.ready = self.ready.max(ready);
        self.give_up(out);
        self.forget_results();
    }

    /// Gives up versions that no reader can want, and no transaction that reads its past either: all of
    /// those that may still come know what is gone, and those that are here hold on to what they read.
    pub(super) fn give_up(&mut self, out: &mut Out) {
        for led in self.led() {
            let told = self.told_collected(led);
            let known = &mut self.sequences[led.0 as usize];
            known.collected = known.collected.max(told);
        }
        let ranking = self.ranking().into_iter().map(|n| &self.sequences[usize::from(n.0)]);
        let told = ranking.map(|sequence| sequence.collected).filter(|_| self.is_replica);
        // Whoever waits to be merged may have read below what its sequence's next leader has told since.
        let unmerged = self.sequences.iter().flat_map(Sequence::unmerged);
        let unmerged = unmerged.filter_map(|entry| cut_of(&entry.transaction)).min();
        let held = self.read_below.first().map(|(read_at, _)| *read_at);
        // Others may have gone on without this node, and without its readers.
        let own = self.executed_to().into_iter().chain(self.floor);
        let below = told.chain(held).chain(unmerged).chain(own).fold(self.watermark, Rank::min);
        if below > self.given_up {
            self.given_up = below;
            out.push(EngineEffect::Collected { below });
        }
    }
}
