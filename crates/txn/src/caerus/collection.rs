//! What may be forgotten, and when.
//!
//! KEEPS: a vertex with a place is dropped only when it is done here, no vertex without a place leads to
//! it, and the closed timestamp of every sequence that orders it has passed its rank: an entry meets only what its own
//! sequence has ordered before, so no later entry's rank could depend on it.
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

pub(super) mod collector;

use self::collector::{Progress, executed_to};
use super::merger::cut_of;
use super::message::{Floor, Message, SequenceId, Term};
use super::state::Caerus;
use super::work::Out;
use crate::engine::EngineEffect;
use base::{NodeId, Rank, Time, TxnId};
use std::collections::BTreeMap;

impl Caerus {
    /// Drops vertices that nothing can depend on any more.
    pub(super) fn collect(&mut self) {
        let closed_of = |n: SequenceId| (n, self.logs.of(n).closed());
        let closed: BTreeMap<SequenceId, Rank> = self.cluster.ranking().into_iter().map(closed_of).collect();
        // A silent sequence holds up those that it orders: its entries meet no others.
        let is_stuck = self.availability.suspects();
        self.merger.forget(&closed, is_stuck, self.collector.watermark());
        let graph = self.merger.graph();
        self.residences.forget(&|at| graph.get(at).is_some());
    }

    /// Tells the collector how far this node is.
    pub(super) fn report_progress(&mut self, now: Time, out: &mut Out) {
        let past = match self.cluster.is_unbounded() {
            // Cuts to come are told from what has executed.
            true if self.cluster.is_replica => Rank::MAX,
            true => self.collector.ready(),
            false => (now - self.cluster.clock_bound_ns()).rank().previous(),
        };
        let executed = self.executed_to();
        let done = executed.into_iter().chain(self.collector.floor()).fold(past, Rank::min);
        let TxnId { coordinator, incarnation, sequence } = self.gateway.unanswered(&self.cluster);
        let floor = Floor { coordinator, incarnation, sequence };
        let delays_ns = self.delays.at(self.cluster.me);
        let collector = self.leader_of(self.cluster.first_sequence());
        self.send(collector, Message::Progress { done, executed, floor, delays_ns }, out);
    }

    /// While this node is not whole collection waits for it, as long as it is heard.
    pub(super) fn report_absence(&mut self, out: &mut Out) {
        if !self.life.may_come_back() {
            return;
        }
        let TxnId { coordinator, incarnation, sequence } = self.gateway.unanswered(&self.cluster);
        let floor = Floor { coordinator, incarnation, sequence };
        let delays_ns = self.delays.at(self.cluster.me);
        for node in self.cluster.sequencers.clone().into_iter().flatten() {
            if node == self.cluster.me {
                continue;
            }
            let delays_ns = delays_ns.clone();
            let message =
                Message::Progress { done: Rank::ZERO, executed: Some(Rank::ZERO), floor, delays_ns };
            self.send(node, message, out);
        }
    }

    fn executed_to(&self) -> Option<Rank> {
        executed_to(&self.cluster, &self.logs, &self.merger)
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
        let Some(term) = self.logs.of(self.cluster.first_sequence()).term() else { return };
        self.delays.set(from, delays_ns);
        self.collector.heard(now, term, from, Progress { done, executed, floor });
        if from != self.cluster.me {
            return;
        }
        let Some((rank, ready, floors)) = self.collector.in_common(now, &self.cluster) else { return };
        let delays_ns = self.delays.all();
        for node in self.cluster.topology.node_ids() {
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
        if term < self.logs.of(self.cluster.first_sequence()).led_in() {
            return;
        }
        for floor in floors {
            let Floor { coordinator, incarnation, sequence } = *floor;
            self.forget_submitted(*floor);
            self.forget_ends_before(TxnId { coordinator, incarnation, sequence });
        }
        self.collector.told(rank, ready);
        self.give_up(out);
        self.forget_results();
    }

    /// The least cut that a reader of this node uses, if there is one.
    pub(super) fn set_readers_floor(&mut self, floor: Option<Rank>) {
        self.collector.set_floor(floor);
    }

    /// Gives up versions that no reader can want, and no transaction that reads its past either: all of
    /// those that may still come know what is gone, and those that are here hold on to what they read.
    pub(super) fn give_up(&mut self, out: &mut Out) {
        self.tell_watermark();
        let ranking = self.cluster.ranking().into_iter().map(|n| self.logs.of(n));
        let told = ranking.map(|log| log.collected()).filter(|_| self.cluster.is_replica);
        // Whoever waits to be merged may have read below what its sequence's next leader has told since.
        let unmerged = self.logs.iter().flat_map(|log| log.unmerged());
        let unmerged = unmerged.filter_map(|entry| cut_of(&entry.transaction)).min();
        let held = self.merger.read_below();
        // Others may have gone on without this node, and without its readers.
        let own = self.executed_to().into_iter().chain(self.collector.floor());
        let below = told.chain(held).chain(unmerged).chain(own).fold(self.collector.watermark(), Rank::min);
        if self.collector.give_up(below) {
            out.push(EngineEffect::Collected { below });
        }
    }
}
