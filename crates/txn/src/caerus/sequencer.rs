//! A region's partial sequence: every transaction that touches something homed here, in one order.
//!
//! KEEPS: a transaction occurs at most once; an entry never changes; no entry is stamped at or below a
//! `low` that was told before it was appended, nor at or below its session's rank; `low` only grows.

use super::link::{Inbox, Outbox};
use super::message::{Entry, Message};
use super::options::{FutureRanks, Mutant, Options};
use super::state::{Caerus, Out, regions_in};
use crate::engine::EngineEffect;
use crate::graph::seen::Seen;
use base::hash::digest;
use base::topology::Topology;
use base::txn::Transaction;
use base::{NodeId, Rank, RegionId, Time};
use std::collections::BTreeMap;

/// What the node that orders a region keeps.
#[derive(Clone, Debug)]
pub(super) struct Sequencer {
    pub log: Outbox<Entry>,
    pub replicas: Vec<NodeId>,
    pub low: Rank,
    /// Nothing is appended to other nodes before this.
    pub flush_at: Time,
    /// When replicas heard last.
    pub told_at: Time,
    /// What was ordered here.
    pub seen: Seen,
    /// By gateway and its life.
    pub gateways: BTreeMap<(NodeId, u32), Inbox<Transaction>>,
}

impl Sequencer {
    pub fn new(topology: &Topology, me: NodeId, options: &Options) -> Sequencer {
        let is_replica = |node: &NodeId| *node != me && topology.copies_at(*node).next().is_some();
        let replicas: Vec<NodeId> = topology.node_ids().filter(is_replica).collect();
        let patience = |node: &NodeId| (*node, options.patience_ns(topology, me, *node));
        Sequencer {
            log: Outbox::new(replicas.iter().map(patience)),
            replicas,
            low: Rank::ZERO,
            flush_at: Time::ZERO,
            told_at: Time::ZERO,
            seen: Seen::default(),
            gateways: BTreeMap::new(),
        }
    }
}

impl Caerus {
    pub(super) fn on_submit(
        &mut self,
        now: Time,
        from: NodeId,
        incarnation: u32,
        first: u64,
        transactions: Vec<Transaction>,
        out: &mut Out,
    ) {
        let Some(sequencer) = &mut self.sequencer else { return };
        let mut ready = Vec::new();
        let inbox = sequencer.gateways.entry((from, incarnation)).or_default();
        inbox.receive(first, transactions, &mut ready);
        let (next, gap) = (inbox.next(), inbox.has_gap());
        for transaction in ready {
            self.order(now, transaction, out);
        }
        self.send(from, Message::SubmitAck { incarnation, next, gap }, out);
    }

    /// Appends a transaction to this region's sequence, unless it is there.
    pub(super) fn order(&mut self, now: Time, transaction: Transaction, out: &mut Out) {
        let sequencer = self.sequencer.as_ref().expect("only the sequencer orders");
        if sequencer.seen.contains(transaction.id) {
            base::sometimes!("a transaction is submitted twice");
            return;
        }
        let stamp = self.stamp(now, &transaction);
        let sequencer = self.sequencer.as_mut().expect("just found");
        sequencer.seen.insert(transaction.id);
        let entry = Entry { transaction, stamp, collected: self.watermark };
        if !sequencer.replicas.is_empty() {
            sequencer.log.push(entry.clone());
        }
        self.merge(now, self.region, entry, out);
    }

    /// Above everything promised, everything answered, and what the session has seen; for a transaction
    /// that spans regions, where it should be complete.
    fn stamp(&self, now: Time, transaction: &Transaction) -> Rank {
        let sequencer = self.sequencer.as_ref().expect("only the sequencer stamps");
        if self.options.planted(Mutant::StampIsNow) {
            return now.rank();
        }
        let regions = self.regions_of(transaction);
        let mut stamp = now.rank() + self.clock_bound_ns();
        if regions.count_ones() > 1 || self.options.copies_elsewhere > 0 {
            stamp = stamp + self.completion_ns(transaction, regions);
        }
        stamp.max(sequencer.low.next()).max(transaction.min_rank.next())
    }

    /// How long from now until every entry of the transaction should be here: the longest way from the
    /// gateway over another sequencer, less the way that its submission has already taken.
    fn completion_ns(&self, transaction: &Transaction, regions: u64) -> u64 {
        let gateway = transaction.id.coordinator;
        let one_way = |a, b| self.delays.one_way_ns(a, b);
        let via = |region: RegionId| {
            let node = self.sequencers[region.0 as usize].expect("a sequencer");
            one_way(gateway, node) + one_way(node, self.me)
        };
        let longest_ns = regions_in(regions).map(via).max().unwrap_or(0);
        // Copies elsewhere are counted where it stays here: of one that spans regions the others hear in
        // time for its answer, and its rank should not be later than that.
        let ready_ns = match regions.count_ones() {
            1 => self.stable_after_ns(),
            _ => longest_ns.saturating_sub(one_way(gateway, self.me)),
        };
        let expected_ns = ready_ns + self.options.margin_ns;
        let future_ns = match self.options.future_ranks {
            FutureRanks::Off => 0,
            FutureRanks::Measured => expected_ns,
            FutureRanks::Scaled { percent } => expected_ns * percent / 100,
            FutureRanks::Random { seed } => digest(&(seed, transaction.id, self.me)) % (2 * expected_ns + 1),
        };
        future_ns.min(self.options.future_max_ns(&self.topology))
    }

    /// How long until an entry of this sequence is in as many other regions as have to have it.
    fn stable_after_ns(&self) -> u64 {
        let Some(nth) = self.options.copies_elsewhere.checked_sub(1) else { return 0 };
        let others = self.sequencers.iter().flatten().filter(|node| **node != self.me);
        let there_and_back =
            |node: &NodeId| self.delays.one_way_ns(self.me, *node) + self.delays.one_way_ns(*node, self.me);
        let mut round_trips: Vec<u64> = others.map(there_and_back).collect();
        round_trips.sort_unstable();
        round_trips.get(nth).copied().unwrap_or(0)
    }

    /// Promises that no later entry is stamped at or below `rank`.
    pub(super) fn promise(&mut self, rank: Rank, out: &mut Out) {
        let sequencer = self.sequencer.as_mut().expect("only the sequencer promises");
        if rank > sequencer.low {
            sequencer.low = rank;
            self.low_is(self.region, rank, out);
        }
    }

    /// Appends to replicas if their links are idle; answers when they will be.
    pub(super) fn flush_appends(&mut self, now: Time, out: &mut Out) -> Option<Time> {
        let sequencer = self.sequencer.as_ref()?;
        if !sequencer.log.has_unsent() {
            return None;
        }
        if now < sequencer.flush_at {
            return Some(sequencer.flush_at);
        }
        let low = (now.rank() + self.clock_bound_ns()).previous();
        self.promise(low, out);
        let sequence = self.region;
        let (collected, stable) = (self.watermark, self.sequences[self.region.0 as usize].stable);
        let sequencer = self.sequencer.as_mut().expect("just found");
        sequencer.flush_at = now + self.options.batch_ns;
        sequencer.told_at = now;
        let low = sequencer.low;
        for (to, first, entries, is_last) in sequencer.log.unsent(now) {
            let low = if is_last { low } else { Rank::ZERO };
            let message = Message::Append { sequence, first, entries, low, collected, stable, sent_at: now };
            out.push(EngineEffect::Send { to, message });
        }
        None
    }

    /// Tells replicas how far the sequence is complete, unless they have just heard.
    pub(super) fn heartbeat(&mut self, now: Time, out: &mut Out) {
        let Some(sequencer) = &self.sequencer else { return };
        let is_due = sequencer.told_at + self.options.heartbeat_ns <= now;
        let low = (now.rank() + self.clock_bound_ns()).previous();
        self.promise(low, out);
        let (sequence, collected) = (self.region, self.watermark);
        let stable = self.sequences[sequence.0 as usize].stable;
        let sequencer = self.sequencer.as_mut().expect("just found");
        if is_due && !sequencer.log.has_unsent() {
            sequencer.told_at = now;
            let (first, low) = (sequencer.log.end(), sequencer.low);
            for &to in &sequencer.replicas {
                let message = Message::Append {
                    sequence,
                    first,
                    entries: Vec::new(),
                    low,
                    collected,
                    stable,
                    sent_at: now,
                };
                out.push(EngineEffect::Send { to, message });
            }
        }
    }

    /// A reader of this region needs a low now.
    pub(super) fn on_low_wanted(&mut self, now: Time, from: NodeId, rank: Rank, out: &mut Out) {
        let limit = now.rank() + 3 * self.clock_bound_ns() + self.options.future_max_ns(&self.topology);
        if self.sequencer.is_none() || rank > limit {
            return;
        }
        self.promise(rank, out);
        let (sequence, collected) = (self.region, self.watermark);
        let stable = self.sequences[sequence.0 as usize].stable;
        let sequencer = self.sequencer.as_mut().expect("just found");
        let low = sequencer.low;
        let mut told = false;
        for (to, first, entries, is_last) in sequencer.log.unsent(now) {
            told |= to == from && is_last;
            let low = if is_last { low } else { Rank::ZERO };
            let message = Message::Append { sequence, first, entries, low, collected, stable, sent_at: now };
            out.push(EngineEffect::Send { to, message });
        }
        if !told {
            let first = sequencer.log.end();
            let message = Message::Append {
                sequence,
                first,
                entries: Vec::new(),
                low,
                collected,
                stable,
                sent_at: now,
            };
            self.send(from, message, out);
        }
    }

    pub(super) fn on_append_ack(&mut self, now: Time, from: NodeId, next: u64, gap: bool, out: &mut Out) {
        let Some(sequencer) = &mut self.sequencer else { return };
        sequencer.log.acknowledged(now, from, next, gap);
        let wanted = self.options.copies_elsewhere;
        if wanted == 0 {
            return;
        }
        // A region has what one of its nodes has: it is lost as a whole.
        let mut regions: BTreeMap<RegionId, u64> = BTreeMap::new();
        for (node, has) in sequencer.log.progress() {
            let region = regions.entry(self.topology.region_of(node)).or_default();
            *region = has.max(*region);
        }
        regions.remove(&self.region);
        let mut has: Vec<u64> = regions.into_values().collect();
        has.sort_unstable_by(|a, b| b.cmp(a));
        let stable = has.get(wanted - 1).copied().unwrap_or(0);
        self.stable_is(now, self.region, stable, out);
    }
}
