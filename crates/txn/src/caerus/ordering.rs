//! Ordering: transactions of gateways take their places in the sequences that this node leads.
//!
//! IN: [`Message::Submit`], orphans that the merger meets, the times when delayed appends are due (`delaying`). OUT: entries
//! with their stamps. KEEPS:
//! a transaction occurs at most once in a sequence; no entry is stamped at or below a closed timestamp that was told
//! before it was appended, by whomever, nor at or below its session's rank.

use super::intake::Received;
use super::message::{Entry, Message, Named, SequenceId, Term, sequences_in};
use super::options::{FutureRanks, Mutant};
use super::state::Caerus;
use super::work::Out;
use crate::log::Ack;
use base::hash::digest;
use base::txn::Transaction;
use base::{NodeId, Rank, Time};

impl Caerus {
    #[allow(clippy::too_many_arguments)]
    pub(super) fn on_submit(
        &mut self,
        now: Time,
        from: NodeId,
        sequence: SequenceId,
        term: Term,
        incarnation: u32,
        (first, transactions, sent_at): (u64, Vec<Named>, Time),
        out: &mut Out,
    ) {
        let Some(log) = self.logs.get(sequence) else { return };
        if log.term() != Some(term) {
            let led_in = log.led_in();
            if led_in > term {
                self.send(from, Message::Leads { sequence, term: led_in }, out);
            }
            return;
        }
        if !log.is_open() {
            return; // They come again.
        }
        let intake = self.logs.intake(sequence).expect("it is led here");
        let Received { ready, next, has_gap: gap } = intake.receive((from, incarnation), first, transactions);
        for named in ready {
            self.arrive(now, sequence, named, out);
        }
        let echo = sent_at;
        self.send(from, Message::SubmitAck { sequence, term, incarnation, next, gap, echo }, out);
    }

    /// A transaction has come to the leader of a sequence from its gateway.
    pub(super) fn arrive(&mut self, now: Time, sequence: SequenceId, named: Named, out: &mut Out) {
        let regions = self.cluster.regions_of(&named.0);
        let append_delay_ns = self.append_delay_ns(self.cluster.me, &named.0, regions);
        if append_delay_ns == 0 || self.logs.is_ordered(sequence, named.0.id) {
            return self.order(now, sequence, named, out);
        }
        let intake = self.logs.intake(sequence).expect("only the leader orders");
        intake.delay(now + append_delay_ns, named);
    }

    /// Appends those whose time has come, unless they were heard of from elsewhere.
    pub(super) fn append_delayed(&mut self, now: Time, out: &mut Out) {
        for sequence in self.logs.led() {
            while let Some(named) = self.logs.intake(sequence).and_then(|intake| intake.pop_due(now)) {
                if self.logs.is_ordered(sequence, named.0.id) {
                    base::sometimes!("what is delayed is heard of from elsewhere");
                    if self.cluster.options.planted(Mutant::AppendTwice) {
                        self.place(now, sequence, named, out);
                    }
                } else {
                    self.order(now, sequence, named, out);
                }
            }
        }
    }

    /// Appends a transaction to a sequence that is led here, unless it is there.
    pub(super) fn order(&mut self, now: Time, sequence: SequenceId, named: Named, out: &mut Out) {
        let txn = named.0.id;
        if self.logs.is_ordered(sequence, txn) {
            base::sometimes!("a transaction is submitted twice");
            return;
        }
        let intake = self.logs.intake(sequence).expect("only the leader orders");
        intake.append(txn);
        if self.cluster.has_first_round(sequence) {
            intake.preparing().add(named);
        } else {
            self.place(now, sequence, named, out);
        }
    }

    /// Appends a transaction.
    pub(super) fn place(&mut self, now: Time, sequence: SequenceId, named: Named, out: &mut Out) {
        let (transaction, request) = named;
        let mut stamp = self.stamp(now, sequence, &transaction);
        if let Some(request) = request.filter(|_| self.cluster.is_unbounded()) {
            // Its end is forgotten by rank, and no earlier than it was issued.
            stamp = stamp.max(request.issued_at.rank());
        }
        let (_, collected) = self.logs.of(sequence).least();
        let entry = Entry { transaction, request, stamp, collected };
        if self.log(sequence, out, |log, _| log.push(entry)) {
            self.advance(now, sequence, out);
        }
    }

    /// Above everything promised, everything answered, and what the session has seen; for a transaction
    /// that spans regions, where it should be complete.
    fn stamp(&self, now: Time, sequence: SequenceId, transaction: &Transaction) -> Rank {
        if self.cluster.options.planted(Mutant::StampIsNow) {
            return now.rank();
        }
        let regions = self.cluster.regions_of(transaction);
        if self.cluster.options.planted(Mutant::StampOnArrival) && regions.count_ones() > 1 {
            let arrived = Time(now.0 - self.append_delay_ns(self.cluster.me, transaction, regions));
            return (arrived.rank() + self.cluster.clock_bound_ns()).max(transaction.min_rank.next());
        }
        let mut stamp = now.rank() + self.cluster.clock_bound_ns();
        // A time when it should be complete means nothing where clocks do not either.
        let foresees = !self.cluster.is_unbounded();
        if foresees && (regions.count_ones() > 1 || self.cluster.copies_of(sequence) > 0) {
            stamp = stamp + self.completion_ns(sequence, transaction, regions);
        }
        stamp.max(self.logs.of(sequence).least().0.next()).max(transaction.min_rank.next())
    }

    /// How long from now until every entry of the transaction should be here: the longest way from the
    /// gateway over another sequencer, less the time that it has already taken.
    fn completion_ns(&self, sequence: SequenceId, transaction: &Transaction, regions: u64) -> u64 {
        // Where the transaction sets out from to its sequences.
        let gateway = match self.cluster.global {
            Some(global) if regions.count_ones() > 1 => self.leader_of(global.number),
            _ => transaction.id.coordinator,
        };
        let one_way = |a, b| self.delays.one_way_ns(a, b);
        let placed_ns = |node| one_way(gateway, node) + self.append_delay_ns(node, transaction, regions);
        let via = |region: SequenceId| {
            let node = self.leader_of(region);
            placed_ns(node) + one_way(node, self.cluster.me)
        };
        let longest_ns = sequences_in(regions).map(via).max().unwrap_or(0);
        // Copies elsewhere are counted where it stays here: of one that spans regions the others hear in
        // time for its answer, and its rank should not be later than that.
        let ready_ns = match regions.count_ones() {
            1 => self.stable_after_ns(sequence, self.cluster.me),
            _ => longest_ns.saturating_sub(placed_ns(self.cluster.me)),
        };
        let expected_ns = ready_ns + self.cluster.options.ranks.margin_ns;
        let future_ns = match self.cluster.options.ranks.future {
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
    pub(super) fn stable_after_ns(&self, sequence: SequenceId, leader: NodeId) -> u64 {
        let Some(nth) = self.cluster.copies_of(sequence).checked_sub(1) else { return 0 };
        let others = self.cluster.sequencers.iter().flatten().filter(|node| **node != leader);
        let there_and_back =
            |node: &NodeId| self.delays.one_way_ns(leader, *node) + self.delays.one_way_ns(*node, leader);
        let mut round_trips: Vec<u64> = others.map(there_and_back).collect();
        round_trips.sort_unstable();
        round_trips.get(nth).copied().unwrap_or(0)
    }

    /// Promises that no later entry is stamped at or below `rank`, as far as others have granted that.
    pub(super) fn promise(&mut self, sequence: SequenceId, rank: Rank, out: &mut Out) -> bool {
        let is_more = self.log(sequence, out, |log, _| log.promise(rank));
        if is_more {
            self.lower(sequence, out);
        }
        is_more
    }
    /// The same of what this clock has passed for every other.
    pub(super) fn promise_past(&mut self, now: Time, sequence: SequenceId, out: &mut Out) {
        let closed = (now.rank() + self.cluster.clock_bound_ns()).previous();
        self.promise(sequence, closed, out);
    }

    /// Appends to replicas if their links are idle; answers when they will be.
    pub(super) fn flush_appends(&mut self, now: Time, out: &mut Out) -> Option<Time> {
        let mut next: Option<Time> = None;
        let interval_ns = self.wakes.interval_ns(&self.cluster.options);
        for sequence in self.logs.led() {
            let due = self.logs.of(sequence).due(now);
            next = next.into_iter().chain(due.next).min();
            if due.now != (false, false) {
                self.promise_past(now, sequence, out);
                let at = self.log(sequence, out, |log, posts| log.flush(now, due.now, interval_ns, posts));
                next = next.into_iter().chain(at).min();
            }
        }
        next
    }

    /// Tells replicas how far the sequences led here are complete, unless they have just heard.
    pub(super) fn heartbeat(&mut self, now: Time, out: &mut Out) {
        let options = &self.cluster.options;
        let every_ns = options.heartbeats.every_ns.max(self.wakes.interval_ns(options));
        for sequence in self.logs.led() {
            self.promise_past(now, sequence, out);
            self.log(sequence, out, |log, posts| log.heartbeat(now, every_ns, posts));
        }
    }

    /// A reader needs a closed timestamp at a replica now.
    pub(super) fn on_close_wanted(
        &mut self,
        now: Time,
        at: NodeId,
        sequence: SequenceId,
        rank: Rank,
        out: &mut Out,
    ) {
        let limit = self.cluster.latest_cut(now);
        let is_told = |log: &&crate::log::Log<Entry>| log.leads() && log.group().is_replica(at);
        if self.logs.get(sequence).filter(is_told).is_none() || rank > limit {
            return;
        }
        match self.cluster.is_unbounded() {
            true => self.want_own_closed(now, sequence, rank, out),
            false => _ = self.promise(sequence, rank, out),
        }
        self.log(sequence, out, |log, posts| log.tell(now, at, posts));
    }

    /// A reader needs this closed timestamp of a sequence led here, whatever the clock shows: at once, or when others have
    /// granted it.
    pub(super) fn want_own_closed(&mut self, now: Time, sequence: SequenceId, rank: Rank, out: &mut Out) {
        let is_new = self.log(sequence, out, |log, _| log.want_closed(rank));
        self.promise(sequence, rank, out);
        if is_new && self.logs.of(sequence).tells_less_than(rank) {
            self.log(sequence, out, |log, posts| log.tell_replicas(now, posts));
        }
    }

    /// Orders from now on, if what was taken over is safe and merged.
    pub(super) fn open_log(&mut self, now: Time, sequence: SequenceId, out: &mut Out) {
        if self.log(sequence, out, |log, _| log.open()) {
            self.opened(now, sequence, out);
        }
    }

    pub(super) fn on_append_ack(
        &mut self,
        now: Time,
        from: NodeId,
        (sequence, term): (SequenceId, Term),
        ack: Ack,
        out: &mut Out,
    ) {
        if self.logs.get(sequence).is_none() {
            return;
        }
        let counts = self.log(sequence, out, |log, _| log.on_append_ack(now, from, term, &ack));
        let Some(is_stable) = counts else { return };
        if is_stable {
            self.advance(now, sequence, out);
            self.open_log(now, sequence, out);
        }
        self.log(sequence, out, |log, posts| log.confirmed(from, ack.probe, posts));
        if let Some(wanted) = self.logs.of(sequence).closed_lacking() {
            // Readers wait for what has just been granted, perhaps.
            if self.promise(sequence, wanted, out) {
                self.log(sequence, out, |log, posts| log.tell_replicas(now, posts));
            }
        }
    }
}
