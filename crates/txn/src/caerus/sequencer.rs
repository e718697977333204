//! Leading a sequence: every transaction that touches something homed in its region, in one order.
//!
//! KEEPS: a transaction occurs at most once; an entry never changes; no entry is stamped at or below a
//! `low` that was told before it was appended, by whomever, nor at or below its session's rank; `low` only
//! grows, and with K > 0 it is never above what K other regions have granted: so whoever leads next, having
//! heard one of those or of this one, can stamp above it.

use super::calibrating::Confirming;
use super::link::{Inbox, Outbox};
use super::message::{Append, Entry, Grant, Message, Named, Term};
use super::options::{FutureRanks, Mutant, Options};
use super::rounds::Preparing;
use super::state::{Caerus, Out, regions_in};
use crate::engine::EngineEffect;
use base::hash::digest;
use base::topology::Topology;
use base::txn::Transaction;
use base::{NodeId, Rank, RegionId, Time, TxnId};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A replica that lacks more entries than this is told no low.
const BACKLOG_LOOKED_AT_MAX: u64 = 4096;

/// Heartbeats between two greetings of a replica that is silent.
const GREETINGS_HEARTBEATS: u64 = 25;

/// What the node that leads a sequence keeps, beside the sequence.
#[derive(Clone, Debug)]
pub(super) struct Sequencer {
    pub term: Term,
    /// What was taken over ends here; it has to be safe before anything is added.
    pub since: u64,
    pub is_open: bool,
    pub log: Outbox<Entry>,
    pub replicas: Vec<NodeId>,
    /// Those in its own region whose copies make entries count.
    pub inside: Vec<NodeId>,
    /// Entries before this are on a majority of the machines inside.
    pub kept: u64,
    /// Nothing goes to those inside before this.
    pub inside_at: Time,
    /// Transactions that have arrived, and when they take their place.
    pub held: BTreeMap<(Time, TxnId), Named>,
    pub preparing: Preparing,
    pub low: Rank,
    /// What earlier leaders may have told.
    pub floor: Grant,
    /// Nothing is appended to other nodes before this.
    pub flush_at: Time,
    /// When replicas heard last.
    pub told_at: Time,
    /// Appended in this term and not merged.
    pub fresh: BTreeSet<TxnId>,
    /// By gateway and its life.
    pub gateways: BTreeMap<(NodeId, u32), Inbox<Named>>,
    /// What replicas have said in this term: what they granted, and how far they have merged.
    pub peers: BTreeMap<NodeId, (Grant, u64)>,
    pub wanted: Grant,
    pub wanted_at: Time,
    /// Readers need this much, whatever the clock shows; only where clocks have no bound.
    pub low_wanted: Rank,
    pub confirming: Confirming,
    /// Every replica has merged the entries before this.
    pub everywhere: u64,
}

impl Sequencer {
    /// A leader that goes on with entries `first..`.
    pub fn new(
        topology: &Topology,
        me: NodeId,
        options: &Options,
        now: Time,
        term: Term,
        (first, entries): (u64, VecDeque<Entry>),
    ) -> Sequencer {
        let is_replica = |node: &NodeId| *node != me && topology.copies_at(*node).next().is_some();
        let replicas: Vec<NodeId> = topology.node_ids().filter(is_replica).collect();
        let patience = |node: &NodeId| (*node, options.patience(topology, me, *node));
        let since = first + entries.len() as u64;
        let mut log = Outbox::resumed(first, entries, replicas.iter().map(patience), now);
        if options.copies_elsewhere > 0 {
            log.keep_at_most(options.backlog_max);
        }
        Sequencer {
            term,
            since,
            is_open: false,
            log,
            replicas,
            inside: Vec::new(),
            kept: since,
            inside_at: Time::ZERO,
            held: BTreeMap::new(),
            preparing: Preparing::default(),
            low: Rank::ZERO,
            floor: Grant::default(),
            flush_at: Time::ZERO,
            told_at: Time::ZERO,
            fresh: BTreeSet::new(),
            gateways: BTreeMap::new(),
            peers: BTreeMap::new(),
            wanted: Grant::default(),
            wanted_at: Time::ZERO,
            low_wanted: Rank::ZERO,
            confirming: Confirming::default(),
            everywhere: first,
        }
    }

    /// To whoever has all entries before `first`, without more of them: those that are here already are stamped
    /// above, and know what is gone.
    fn empty_at(&self, first: u64, append: &Append) -> Append {
        if self.log.end().saturating_sub(first) > BACKLOG_LOOKED_AT_MAX {
            // It is far behind: to tell it how far the sequence is complete would take a look at all it lacks.
            return Append { first, low: Rank::ZERO, collected: Rank::ZERO, ..append.clone() };
        }
        let behind = self.log.behind(first);
        let all = behind.fold((self.low, append.collected), |(low, collected), entry| {
            (low.min(entry.stamp.previous()), collected.min(entry.collected))
        });
        Append { first, low: all.0, collected: all.1, ..append.clone() }
    }
}

impl Caerus {
    #[allow(clippy::too_many_arguments)]
    pub(super) fn on_submit(
        &mut self,
        now: Time,
        from: NodeId,
        sequence: RegionId,
        term: Term,
        incarnation: u32,
        (first, transactions, sent_at): (u64, Vec<Named>, Time),
        out: &mut Out,
    ) {
        let Some(known) = self.sequences.get(sequence.0 as usize) else { return };
        let led_in = known.led_in;
        let Some(sequencer) = self.leading.get_mut(&sequence).filter(|sequencer| sequencer.term == term)
        else {
            if led_in > term {
                self.send(from, Message::Leads { sequence, term: led_in }, out);
            }
            return;
        };
        if !sequencer.is_open {
            return; // They come again.
        }
        let mut ready = Vec::new();
        let inbox = sequencer.gateways.entry((from, incarnation)).or_default();
        inbox.receive(first, transactions, &mut ready);
        let (next, gap) = (inbox.next(), inbox.has_gap());
        for named in ready {
            self.arrive(now, sequence, named, out);
        }
        let echo = sent_at;
        self.send(from, Message::SubmitAck { sequence, term, incarnation, next, gap, echo }, out);
    }

    /// Whether this node orders in a sequence now.
    pub(super) fn is_open(&self, sequence: RegionId) -> bool {
        self.leading.get(&sequence).is_some_and(|sequencer| sequencer.is_open)
    }

    /// Whether a transaction is in a sequence that is led here.
    pub(super) fn is_ordered(&self, sequence: RegionId, txn: TxnId) -> bool {
        self.leading.get(&sequence).is_some_and(|sequencer| sequencer.fresh.contains(&txn))
            || self.sequences[sequence.0 as usize].seen.contains(txn)
    }

    /// Appends a transaction to a sequence that is led here, unless it is there.
    pub(super) fn order(&mut self, now: Time, sequence: RegionId, named: Named, out: &mut Out) {
        let txn = named.0.id;
        if self.is_ordered(sequence, txn) {
            base::sometimes!("a transaction is submitted twice");
            return;
        }
        self.leading.get_mut(&sequence).expect("only the leader orders").fresh.insert(txn);
        if self.cluster.has_first_round(sequence) {
            self.prepare(sequence, named);
        } else {
            self.place(now, sequence, named, out);
        }
    }

    /// Appends a transaction.
    pub(super) fn place(&mut self, now: Time, sequence: RegionId, named: Named, out: &mut Out) {
        let (transaction, request) = named;
        let mut stamp = self.stamp(now, sequence, &transaction);
        if let Some(request) = request.filter(|_| self.cluster.is_unbounded()) {
            // Its end is forgotten by rank, and no earlier than it was issued.
            stamp = stamp.max(request.issued_at.rank());
        }
        let at_once = self.cluster.acts_at_once(sequence);
        let known = &mut self.sequences[sequence.0 as usize];
        let sequencer = self.leading.get_mut(&sequence).expect("only the leader orders");
        assert!(sequencer.is_open, "nothing is added before what was taken over is safe");
        let collected = self.collector.watermark().max(sequencer.floor.collected).max(known.collected);
        let entry = Entry { transaction, request, stamp, collected };
        if !sequencer.replicas.is_empty() {
            sequencer.log.push(entry.clone());
        }
        known.push(entry);
        if at_once && (sequencer.inside.is_empty() || self.cluster.options.planted(Mutant::CountBeforeKept)) {
            let end = known.end();
            self.advance(now, sequence, end, out);
        }
    }

    /// Above everything promised, everything answered, and what the session has seen; for a transaction
    /// that spans regions, where it should be complete.
    fn stamp(&self, now: Time, sequence: RegionId, transaction: &Transaction) -> Rank {
        let sequencer = &self.leading[&sequence];
        if self.cluster.options.planted(Mutant::StampIsNow) {
            return now.rank();
        }
        let regions = self.cluster.regions_of(transaction);
        let mut stamp = now.rank() + self.cluster.clock_bound_ns();
        // A time when it should be complete means nothing where clocks do not either.
        let foresees = !self.cluster.is_unbounded();
        if foresees && (regions.count_ones() > 1 || self.cluster.copies_of(sequence) > 0) {
            stamp = stamp + self.completion_ns(sequence, transaction, regions);
        }
        stamp.max(sequencer.low.next()).max(sequencer.floor.low.next()).max(transaction.min_rank.next())
    }

    /// How long from now until every entry of the transaction should be here: the longest way from the
    /// gateway over another sequencer, less the time that it has already taken.
    fn completion_ns(&self, sequence: RegionId, transaction: &Transaction, regions: u64) -> u64 {
        // Where the transaction sets out from to its sequences.
        let gateway = match self.cluster.global {
            Some(global) if regions.count_ones() > 1 => self.leader_of(global.number),
            _ => transaction.id.coordinator,
        };
        let one_way = |a, b| self.delays.one_way_ns(a, b);
        let placed_ns = |node| one_way(gateway, node) + self.hold_ns(node, transaction, regions);
        let via = |region: RegionId| {
            let node = self.leader_of(region);
            placed_ns(node) + one_way(node, self.cluster.me)
        };
        let longest_ns = regions_in(regions).map(via).max().unwrap_or(0);
        // Copies elsewhere are counted where it stays here: of one that spans regions the others hear in
        // time for its answer, and its rank should not be later than that.
        let ready_ns = match regions.count_ones() {
            1 => self.stable_after_ns(sequence, self.cluster.me),
            _ => longest_ns.saturating_sub(placed_ns(self.cluster.me)),
        };
        let expected_ns = ready_ns + self.cluster.options.margin_ns;
        let future_ns = match self.cluster.options.future_ranks {
            FutureRanks::Off => 0,
            FutureRanks::Measured => expected_ns,
            FutureRanks::Scaled { percent } => expected_ns * percent / 100,
            FutureRanks::Random { seed } => {
                digest(&(seed, transaction.id, self.cluster.me)) % (2 * expected_ns + 1)
            }
        };
        future_ns.min(self.cluster.options.future_max_ns(&self.cluster.topology))
    }

    /// How long until an entry of this sequence, led at `leader`, is in as many other regions as have to have it.
    pub(super) fn stable_after_ns(&self, sequence: RegionId, leader: NodeId) -> u64 {
        let Some(nth) = self.cluster.copies_of(sequence).checked_sub(1) else { return 0 };
        let others = self.cluster.sequencers.iter().flatten().filter(|node| **node != leader);
        let there_and_back =
            |node: &NodeId| self.delays.one_way_ns(leader, *node) + self.delays.one_way_ns(*node, leader);
        let mut round_trips: Vec<u64> = others.map(there_and_back).collect();
        round_trips.sort_unstable();
        round_trips.get(nth).copied().unwrap_or(0)
    }

    /// The most that K other regions have said; K is at least 1.
    pub(super) fn said_elsewhere<T: Ord + Copy>(
        &self,
        copies: usize,
        sequencer: &Sequencer,
        of: impl Fn(NodeId) -> Option<T>,
    ) -> Option<T> {
        let others = self.cluster.sequencers.iter().flatten().filter(|node| **node != self.cluster.me);
        let mut said: Vec<T> =
            others.filter(|node| sequencer.peers.contains_key(node)).filter_map(|node| of(*node)).collect();
        said.sort_unstable_by(|a, b| b.cmp(a));
        said.get(copies - 1).copied()
    }

    /// Promises that no later entry is stamped at or below `rank`, as far as others have granted that.
    pub(super) fn promise(&mut self, sequence: RegionId, rank: Rank, out: &mut Out) {
        let sequencer = &self.leading[&sequence];
        let copies = self.cluster.copies_of(sequence);
        let is_bound = copies > 0 && !self.cluster.options.planted(Mutant::NoLease);
        let granted = match is_bound {
            true => self
                .said_elsewhere(copies, sequencer, |node| Some(sequencer.peers[&node].0.low))
                .unwrap_or_default(),
            false => Rank::MAX,
        };
        let rank = rank.min(granted);
        if rank > sequencer.low {
            self.leading.get_mut(&sequence).expect("just found").low = rank;
            let known = &mut self.sequences[sequence.0 as usize];
            // It counts among those who know, should it have to promise to follow.
            known.granted.low = known.granted.low.max(rank);
            known.told(rank);
            self.lower(sequence, out);
        }
    }

    /// Which versions replicas may give up, as far as this sequence goes.
    pub(super) fn told_collected(&self, sequence: RegionId) -> Rank {
        let sequencer = &self.leading[&sequence];
        match self.cluster.copies_of(sequence) {
            0 => self.collector.watermark(),
            copies => self
                .said_elsewhere(copies, sequencer, |node| Some(sequencer.peers[&node].0.collected))
                .unwrap_or_default(),
        }
    }

    /// What a message to replicas says beside entries.
    fn append(&mut self, now: Time, sequence: RegionId) -> Append {
        let collected = self.told_collected(sequence);
        let bound = (now.rank() + self.cluster.clock_bound_ns()).previous();
        let lease_ns = self.cluster.options.lease_ns(&self.cluster.topology);
        let copies = self.cluster.copies_of(sequence);
        let sequencer = self.leading.get_mut(&sequence).expect("only the leader appends");
        let is_short = sequencer.low_wanted > sequencer.wanted.low;
        if copies > 0 && (is_short || now >= sequencer.wanted_at + lease_ns / 8) {
            sequencer.wanted_at = now;
            let low = (bound + lease_ns).max(sequencer.low_wanted);
            sequencer.wanted = Grant { low, collected: self.collector.watermark() };
        }
        let known = &mut self.sequences[sequence.0 as usize];
        known.granted.collected = known.granted.collected.max(collected);
        Append {
            sequence,
            term: sequencer.term,
            since: sequencer.since,
            first: sequencer.log.end(),
            entries: Vec::new(),
            low: sequencer.low,
            collected,
            stable: known.stable,
            everywhere: sequencer.everywhere,
            wanted: sequencer.wanted,
            lives: self.lives.clone(),
            probe: sequencer.confirming.probe,
            sent_at: now,
        }
    }

    /// Sends what has not been sent and may go, inside the region or out of it; answers to whom all of it went.
    pub(super) fn send_unsent(
        &mut self,
        now: Time,
        sequence: RegionId,
        (is_inside, is_outside): (bool, bool),
        out: &mut Out,
    ) -> Vec<NodeId> {
        let append = self.append(now, sequence);
        let goes_out = self.goes_out(sequence);
        let sequencer = self.leading.get_mut(&sequence).expect("only the leader appends");
        let (end, mut told) = (sequencer.log.end(), Vec::new());
        let inside = &sequencer.inside;
        let limit = |node| match inside.contains(&node) {
            true if is_inside => end,
            false if is_outside => goes_out,
            _ => 0,
        };
        let batches = sequencer.log.unsent(now, limit);
        for (to, first, entries, is_last) in batches {
            let behind = sequencer.empty_at(first + entries.len() as u64, &append);
            let low = if is_last { behind.low } else { Rank::ZERO };
            let message = Message::Append(Append { first, entries, low, ..behind });
            out.push(EngineEffect::Send { to, message });
            told.extend(is_last.then_some(to));
        }
        told
    }

    /// Appends to replicas if their links are idle; answers when they will be.
    pub(super) fn flush_appends(&mut self, now: Time, out: &mut Out) -> Option<Time> {
        let mut next: Option<Time> = None;
        let interval_ns = self.wakes.interval_ns(&self.cluster.options);
        for sequence in self.led() {
            let (is_inside, is_outside) = self.has_unsent(sequence);
            let sequencer = &self.leading[&sequence];
            let due = |has: bool, at: Time| has.then_some(at);
            let due = [due(is_inside, sequencer.inside_at), due(is_outside, sequencer.flush_at)];
            next = next.into_iter().chain(due.into_iter().flatten().filter(|at| now < *at)).min();
            let is_due = due.map(|at| at.is_some_and(|at| at <= now));
            if is_due == [false, false] {
                continue;
            }
            let low = (now.rank() + self.cluster.clock_bound_ns()).previous();
            self.promise(sequence, low, out);
            let sequencer = self.leading.get_mut(&sequence).expect("just found");
            let next_at = now + interval_ns;
            if is_due[0] {
                sequencer.inside_at = next_at;
            }
            if is_due[1] {
                (sequencer.flush_at, sequencer.told_at) = (next_at, now);
            }
            self.send_unsent(now, sequence, (is_due[0], is_due[1]), out);
            let (is_inside, is_outside) = self.has_unsent(sequence);
            if is_due[0] && is_inside || is_due[1] && is_outside {
                next = next.into_iter().chain([next_at]).min(); // Somebody is far behind.
            }
        }
        next
    }

    /// Whether there is something to send to those inside the region, and to others.
    pub(super) fn has_unsent(&self, sequence: RegionId) -> (bool, bool) {
        let sequencer = &self.leading[&sequence];
        let (end, goes_out, inside) = (sequencer.log.end(), self.goes_out(sequence), &sequencer.inside);
        let is_inside = |node| inside.contains(&node);
        (
            !inside.is_empty() && sequencer.log.has_unsent(|node| if is_inside(node) { end } else { 0 }),
            sequencer.log.has_unsent(|node| if is_inside(node) { 0 } else { goes_out }),
        )
    }

    /// Sequences that are led here, in order.
    pub(super) fn led(&self) -> SmallVec<[RegionId; 4]> {
        self.leading.keys().copied().collect()
    }

    /// Tells replicas how far the sequences led here are complete, unless they have just heard.
    pub(super) fn heartbeat(&mut self, now: Time, out: &mut Out) {
        for sequence in self.led() {
            let low = (now.rank() + self.cluster.clock_bound_ns()).previous();
            self.promise(sequence, low, out);
            self.greet(now, sequence, out);
            let sequencer = &self.leading[&sequence];
            let every_ns =
                self.cluster.options.heartbeat_ns.max(self.wakes.interval_ns(&self.cluster.options));
            let is_due = sequencer.told_at + every_ns <= now;
            if is_due && self.has_unsent(sequence) == (false, false) {
                self.beat(now, sequence, out);
            }
        }
    }

    pub(super) fn beat(&mut self, now: Time, sequence: RegionId, out: &mut Out) {
        let sequencer = self.leading.get_mut(&sequence).expect("only the leader beats");
        if !sequencer.is_open {
            // Who has all entries and has granted more already has nothing to acknowledge but that it follows.
            sequencer.confirming.probe += 1;
        }
        let append = self.append(now, sequence);
        let sequencer = self.leading.get_mut(&sequence).expect("only the leader beats");
        sequencer.told_at = now;
        for &to in sequencer.replicas.iter().filter(|node| !sequencer.log.is_silent(**node)) {
            let append = sequencer.empty_at(sequencer.log.sent_to(to), &append);
            out.push(EngineEffect::Send { to, message: Message::Append(append) });
        }
    }

    /// Replicas that have long been silent hear of their leader now and then, and say what they lack once they are
    /// back.
    fn greet(&mut self, now: Time, sequence: RegionId, out: &mut Out) {
        let every_ns = GREETINGS_HEARTBEATS * self.cluster.options.heartbeat_ns;
        let every_ns = every_ns.min(self.cluster.options.suspect_after_ns(&self.cluster.topology) / 8);
        let sequencer = self.leading.get_mut(&sequence).expect("only the leader greets");
        let silent = sequencer.log.to_greet(now, every_ns);
        if silent.is_empty() {
            return;
        }
        let append = self.append(now, sequence);
        let sequencer = &self.leading[&sequence];
        for to in silent {
            if sequencer.log.is_left_behind(to) {
                let (term, first) = (sequencer.term, sequencer.log.first());
                out.push(EngineEffect::Send { to, message: Message::LeftBehind { sequence, term, first } });
            }
            let append = sequencer.empty_at(sequencer.log.sent_to(to), &append);
            out.push(EngineEffect::Send { to, message: Message::Append(append) });
        }
    }

    /// A reader needs a low at a replica now.
    pub(super) fn on_low_wanted(
        &mut self,
        now: Time,
        at: NodeId,
        sequence: RegionId,
        rank: Rank,
        out: &mut Out,
    ) {
        let limit = self.cluster.latest_cut(now);
        let is_replica = |sequencer: &Sequencer| sequencer.replicas.contains(&at);
        if !self.leading.get(&sequence).is_some_and(is_replica) || rank > limit {
            return;
        }
        match self.cluster.is_unbounded() {
            true => self.want_own_low(now, sequence, rank, out),
            false => self.promise(sequence, rank, out),
        }
        if !self.send_unsent(now, sequence, (true, true), out).contains(&at) {
            let append = self.append(now, sequence);
            let sequencer = &self.leading[&sequence];
            let append = sequencer.empty_at(sequencer.log.sent_to(at), &append);
            self.send(at, Message::Append(append), out);
        }
    }

    #[allow(clippy::too_many_arguments)]
    pub(super) fn on_append_ack(
        &mut self,
        now: Time,
        from: NodeId,
        sequence: RegionId,
        term: Term,
        (next, merged, gap, echo): (u64, u64, bool, Time),
        (granted, probe): (Grant, u64),
        out: &mut Out,
    ) {
        let copies = self.cluster.copies_of(sequence);
        let Some(sequencer) = self.leading.get_mut(&sequence).filter(|sequencer| sequencer.term == term)
        else {
            return;
        };
        sequencer.log.acknowledged(now, from, next, gap, echo);
        let is_kept = sequencer.keep();
        if is_kept && copies == 0 {
            let kept = sequencer.kept;
            return self.advance(now, sequence, kept, out);
        }
        let sequencer = self.leading.get_mut(&sequence).expect("just found");
        if copies == 0 || !sequencer.replicas.contains(&from) {
            return;
        }
        let peer = sequencer.peers.entry(from).or_default();
        *peer = (peer.0.max(granted), peer.1.max(merged));
        let merged = |node: &NodeId| sequencer.peers.get(node).map_or(0, |(_, merged)| *merged);
        let counted = sequencer.replicas.iter().filter(|node| !sequencer.log.is_left_behind(**node));
        if let Some(everywhere) = counted.map(merged).min() {
            sequencer.everywhere = everywhere.max(sequencer.everywhere);
        }
        let everywhere = sequencer.everywhere;
        // A region has what the node that votes for it has. Who has less than what was taken over may have
        // something else yet.
        let has: BTreeMap<NodeId, u64> = sequencer.log.progress().collect();
        let since = sequencer.since;
        let sequencer = &self.leading[&sequence];
        let stable = self
            .said_elsewhere(copies, sequencer, |node| has.get(&node).copied().filter(|has| *has >= since));
        if let Some(stable) = stable {
            self.advance(now, sequence, stable, out);
            if !self.is_open(sequence) {
                self.opened(now, sequence, out);
            }
        }
        self.sequences[sequence.0 as usize].release(everywhere);
        self.confirmed(sequence, from, probe, out);
        let sequencer = &self.leading[&sequence];
        if sequencer.low_wanted > sequencer.low {
            // Readers wait for what has just been granted, perhaps.
            let (before, wanted) = (sequencer.low, sequencer.low_wanted);
            self.promise(sequence, wanted, out);
            if self.leading[&sequence].low > before {
                self.tell_replicas(now, sequence, out);
            }
        }
    }
}
