//! The merger: from partial sequences to one order of whatever conflicts (Alg. 1 and 2, as corrected).
//!
//! IN: stable entries of each sequence, strictly in its order. OUT: transactions with their places. KEEPS:
//! 1. a transaction comes at most once in a sequence, and only in those of its regions;
//! 2. two transactions that conflict in a sequence are connected by a path, from the later to the
//!    earlier one, as long as neither has a place;
//! 3. whoever gets a place is complete (each of its regions has ordered it), and so is everybody it
//!    depends on: the set of those with a place is closed;
//! 4. so a component is the same in all regions (no edge out of it can ever be added), and its rank is
//!    too: `max(stamps of its members' entries, 1 + rank of whom it depends on outside)`.
//!
//! An edge to somebody who has got a place already is not drawn, or drawn and ignored, depending on when
//! this region gave it; the rank must not depend on that. So those with a place are kept with their
//! ranks until every sequence's `low` has passed them: no later stamp can then be below.
//!
//! A search that meets an incomplete transaction is given up and waits for that one; nothing is scanned
//! in the background.

use super::message::{Append, Entry, Message};
use super::options::{Mutant, Protocol};
use super::requests::name_of;
use super::state::{Caerus, Group, Out, Work};
use crate::graph::component;
use crate::graph::participants::Participants;
use crate::graph::vertex::{Ref, State};
use base::order::CloseTicket;
use base::txn::{Access, AccessMode, ClientRequest, Granule, Home, Transaction};
use base::{NodeId, PartitionId, Rank, RegionId, TableId, Time};
use smallvec::SmallVec;

impl Caerus {
    pub(super) fn on_append(&mut self, now: Time, from: NodeId, mut append: Append, out: &mut Out) {
        let (sequence, term) = (append.sequence, append.term);
        if !self.is_replica || !self.speaks(from, sequence, term) {
            return; // A peer with another topology. Silence, never a guess.
        }
        if !self.hear_lives(from, &append.lives) {
            return; // The leader has lost its memory since.
        }
        let known = &mut self.sequences[sequence.0 as usize];
        if term < known.promised || term < known.led_in {
            let term = known.promised.max(known.led_in);
            return self.send(from, Message::Overtaken { sequence, term }, out);
        }
        known.promised = term;
        known.heard_at = now;
        self.leads(now, sequence, term);
        let at_once = self.acts_at_once(sequence) || self.options.planted(Mutant::OwnEntriesOnly);
        let copies = self.copies_of(sequence);
        let votes = self.votes(sequence);
        let has_entries = !append.entries.is_empty();
        let known = &mut self.sequences[sequence.0 as usize];
        let before = known.granted;
        let is_probed = copies > 0 && append.probe > known.probed;
        known.probed = append.probe.max(known.probed);
        if copies > 0 {
            known.granted = before.max(append.wanted);
        }
        let (next, gap) = known.receive(&mut append);
        if known.accepted == term {
            // What has come here from another region is in two.
            let own = known.end();
            let here = at_once || copies == 1 && votes;
            let stable = if here { own } else { append.stable };
            self.advance(now, sequence, stable, out);
        }
        let known = &mut self.sequences[sequence.0 as usize];
        known.release(append.everywhere);
        let (merged, granted, probe, echo) = (known.merged, known.granted, append.probe, append.sent_at);
        if has_entries || gap || granted != before || is_probed {
            let lives = self.lives.clone();
            let ack = Message::AppendAck { sequence, term, next, merged, gap, granted, probe, lives, echo };
            self.send(from, ack, out);
        }
    }

    /// Entries before `stable` are where they have to be: merges what is here of them.
    pub(super) fn advance(&mut self, now: Time, sequence: RegionId, stable: u64, out: &mut Out) {
        let known = &mut self.sequences[sequence.0 as usize];
        known.stable = known.stable.max(stable);
        while let Some(entry) = self.sequences[sequence.0 as usize].take() {
            self.merge(now, sequence, entry, out);
        }
        self.lower(sequence, out);
        self.merged_more(sequence, out);
    }

    /// Readers may learn how far the sequence is complete.
    pub(super) fn lower(&mut self, sequence: RegionId, out: &mut Out) {
        let known = &self.sequences[sequence.0 as usize];
        let reached = known.reached();
        if reached > known.low {
            self.low_is(sequence, reached, out);
        }
    }

    /// No later entry of the sequence is stamped at or below `low`.
    pub(super) fn low_is(&mut self, sequence: RegionId, low: Rank, out: &mut Out) {
        let known = &mut self.sequences[sequence.0 as usize];
        assert!(known.low <= low, "the low of {sequence} only grows");
        known.low = low;
        let mut due: SmallVec<[CloseTicket; 4]> = SmallVec::new();
        while let Some((rank, ticket)) = known.waiting.first().copied()
            && rank <= low
        {
            known.waiting.pop_first();
            due.push(ticket);
        }
        due.into_iter().for_each(|ticket| self.low_reached(sequence, ticket, out));
    }

    /// The next entry of a sequence.
    pub(super) fn merge(&mut self, now: Time, sequence: RegionId, entry: Entry, out: &mut Out) {
        let Entry { transaction, request, stamp, collected } = entry;
        let leads = self.leading.get_mut(&sequence).map(|sequencer| sequencer.fresh.remove(&transaction.id));
        let remembers = leads.is_some() || self.votes(sequence);
        let known = &mut self.sequences[sequence.0 as usize];
        if remembers {
            known.seen.insert(transaction.id);
        }
        if !self.options.planted(Mutant::StampIsNow) {
            assert!(stamp > known.low, "{} is stamped above what {sequence} promised", transaction.id);
        }
        if self.feeds_others(sequence) {
            return self.take_pieces(now, (transaction, request), out);
        }
        let bit = 1u64 << sequence.0;
        let at = match self.graph.find(transaction.id) {
            Some(at) => at,
            None => self.known(now, transaction.clone(), request),
        };
        let vertex = self.graph.live_mut(at);
        assert_eq!(vertex.extra.got & bit, 0, "{} is in the sequence of {sequence} once", transaction.id);
        assert_ne!(vertex.extra.regions & bit, 0, "{} is ordered by {sequence}", transaction.id);
        vertex.extra.got |= bit;
        vertex.extra.collected = vertex.extra.collected.max(collected);
        let is_complete = vertex.extra.got == vertex.extra.regions;
        self.raise(at, stamp);

        let mut met = std::mem::take(&mut self.scratch);
        met.clear();
        if transaction.homes.as_ref().is_some_and(|homes| !homes.moves.is_empty()) {
            self.install_move(at, &transaction, sequence, &mut met);
        } else {
            for partition in transaction.participants() {
                self.install(at, (&transaction, request), sequence, partition, &mut met);
            }
        }
        met.sort_unstable();
        met.dedup();
        for &to in &met {
            self.edge(at, to);
        }
        self.scratch = met;
        if is_complete {
            self.complete(at);
        }
        self.changed(at, out);
        if !self.orders_orphans() {
            return;
        }
        // Whoever was ordered elsewhere and belongs here too is ordered at once: its gateway may be gone.
        let regions = self.regions_of(&transaction);
        for led in self.led() {
            if led != sequence
                && regions >> led.0 & 1 == 1
                && self.is_open(led)
                && !self.is_ordered(led, transaction.id)
            {
                base::sometimes!("a transaction is heard of from another sequence first");
                self.order(now, led, (transaction.clone(), request), out);
            }
        }
    }

    /// Whom a transaction meets among those that touched something of a partition in one of its homes.
    pub(super) fn install_in(
        &mut self,
        at: Ref,
        (partition, table, home): (PartitionId, Option<TableId>, Home),
        (accesses, request): (&[Access], Option<ClientRequest>),
        met: &mut Vec<Ref>,
    ) {
        let era = self.partitions[partition.0 as usize].era(table, home).expect("looked up before");
        let index = &mut era.index;
        while let Some(table) = index.unordered_table(accesses) {
            let live = self.graph.iter().filter_map(|(_, vertex)| vertex.transaction.as_ref());
            index.order_table(table, live.flat_map(|transaction| transaction.access.at(partition)));
        }
        let graph = &self.graph;
        let live = |at| graph.get(at).is_some();
        index.install(at, accesses, &live, met);
        if let Some(request) = request {
            index.install(at, &[name_of(request)], &live, met);
        }
    }

    /// A transaction appears in its first sequence.
    fn known(&mut self, now: Time, transaction: Transaction, request: Option<ClientRequest>) -> Ref {
        let regions = self.regions_of(&transaction);
        let participants = Participants::of(transaction.participants());
        let local = participants.iter().any(|p| self.partition(p).local);
        let alone = participants.iter().all(|p| self.partition(p).local);
        let id = transaction.id;
        let read_at = cut_of(&transaction);
        let at = self.graph.insert(id, participants);
        let vertex = self.graph.live_mut(at);
        vertex.state = State::PreAccepted;
        vertex.transaction = Some(transaction);
        vertex.extra.regions = regions;
        vertex.extra.request = request;
        vertex.extra.local = local;
        vertex.extra.alone = alone;
        vertex.extra.ordered_at = now;
        self.unordered += 1;
        if local {
            self.pending.insert((Rank::ZERO, at.slot));
            if let Some(read_at) = read_at {
                self.read_below.insert((read_at, at.slot));
            }
        }
        if let Some((_, gathered)) = self.early_reads.remove(&id) {
            self.take_reads(now, id, gathered);
        }
        at
    }

    /// The transaction's rank is at least `bound`.
    fn raise(&mut self, at: Ref, bound: Rank) {
        let vertex = self.graph.live_mut(at);
        if bound <= vertex.bound {
            return;
        }
        let before = std::mem::replace(&mut vertex.bound, bound);
        if vertex.extra.local {
            self.pending.remove(&(before, at.slot));
            self.pending.insert((bound, at.slot));
        }
    }

    /// `at` comes after `to`.
    fn edge(&mut self, at: Ref, to: Ref) {
        let Some(ahead) = self.graph.get_mut(to) else { return };
        if at == to {
            return;
        }
        let mut bound = Rank::ZERO;
        if let Some(rank) = ahead.rank {
            if self.options.planted(Mutant::ForgetEmittedRanks) {
                return;
            }
            bound = rank.next();
        } else if self.options.lower_bounds {
            bound = ahead.bound;
            if self.options.planted(Mutant::BoundAboveComponent) {
                bound = bound.next();
            }
        }
        if ahead.state < State::Done {
            ahead.extra.holders += 1;
            self.graph.live_mut(at).deps.push(to);
        }
        self.raise(at, bound);
    }

    /// Whom an access to a whole partition conflicts with, if there is one: everybody that this sequence has
    /// ordered there.
    pub(super) fn everyone(
        &self,
        partition: PartitionId,
        sequence: RegionId,
        accesses: &[Access],
        met: &mut Vec<Ref>,
    ) {
        let whole = accesses.iter().filter(|access| access.granule == Granule::Partition);
        let Some(mode) = whole.map(|access| access.mode).max() else { return };
        let bit = 1u64 << sequence.0;
        for (at, vertex) in self.graph.iter() {
            let transaction = vertex.transaction.as_ref().expect("entries carry whole transactions");
            let accesses = transaction.access.at(partition);
            let meets = match mode {
                AccessMode::Write => !accesses.is_empty(),
                AccessMode::Read => accesses.iter().any(|access| access.mode == AccessMode::Write),
            };
            if meets && vertex.extra.got & bit != 0 && self.is_ordered_at(transaction, partition, bit) {
                met.push(at);
            }
        }
    }

    /// All regions have ordered it: its dependencies are final.
    fn complete(&mut self, at: Ref) {
        let vertex = self.graph.live_mut(at);
        vertex.state = State::Final;
        let watchers = std::mem::take(&mut vertex.watchers);
        self.work.push_back(Work::Search(at));
        self.work.extend(watchers.into_iter().map(Work::Search));
    }

    /// Gives places to a complete transaction's closure, if all of it is complete.
    pub(super) fn search(&mut self, now: Time, root: Ref, out: &mut Out) {
        let Some(vertex) = self.graph.get_mut(root) else { return };
        if vertex.state != State::Final {
            return;
        }
        vertex.blocked_on = None;
        // Most have nobody ahead of them that has no place.
        let deps = &self.graph.live(root).deps;
        if deps.iter().all(|to| self.graph.get(*to).is_none_or(|ahead| ahead.state >= State::Emitted)) {
            return self.emit(now, &[root], out);
        }
        let mut found = component::search(&mut self.graph, root);
        if self.options.planted(Mutant::PlaceIncomplete) && !found.blockers.is_empty() {
            found.blockers.clear();
            found.components = vec![SmallVec::from_elem(root, 1)];
        }
        if let Some(&first) = found.blockers.first() {
            self.graph.live_mut(first).watchers.push(root);
            self.graph.live_mut(root).blocked_on = Some(first);
            return;
        }
        for members in &mut found.components {
            if self.options.planted(Mutant::OrderByRecycledIds) {
                members.sort_unstable_by_key(|member| member.slot);
            }
            self.emit(now, members, out);
        }
    }

    /// A component gets its place.
    fn emit(&mut self, now: Time, members: &[Ref], out: &mut Out) {
        let mut rank = Rank::ZERO;
        for &at in members {
            let vertex = self.graph.live(at);
            if !self.options.planted(Mutant::BoundAboveComponent) {
                rank = rank.max(vertex.bound);
            }
            for &to in &vertex.deps {
                let Some(ahead) = self.graph.get(to) else { continue };
                if let Some(before) = ahead.rank
                    && !self.options.planted(Mutant::ForgetEmittedRanks)
                {
                    rank = rank.max(before.next());
                }
                let closed = ahead.state >= State::Emitted || members.contains(&to);
                let planted = self.options.planted(Mutant::PlaceIncomplete);
                assert!(closed || planted, "{} has a place after all it depends on", vertex.id);
            }
        }
        for &at in members {
            let vertex = self.graph.live_mut(at);
            vertex.rank = Some(rank);
            vertex.state = State::Emitted;
            vertex.extra.ordered_at = now;
            self.unordered -= 1;
            let watchers = std::mem::take(&mut vertex.watchers);
            self.work.extend(watchers.into_iter().map(Work::Search));
            if self.graph.live(at).transaction.as_ref().is_some_and(|t| t.homes.is_some()) {
                self.adopt(at);
            }
        }
        let local = |at: &Ref| self.graph.live(*at).extra.local;
        match members {
            [alone] if local(alone) => self.queue_alone(*alone),
            [alone] => self.done(*alone, rank),
            _ => self.queue_component(members, rank),
        }
        for &at in members {
            let deps = std::mem::take(&mut self.graph.live_mut(at).deps);
            for to in deps {
                if let Some(ahead) = self.graph.get_mut(to) {
                    ahead.extra.holders -= 1;
                }
            }
            self.changed(at, out);
            self.ranked(at, out);
        }
    }

    fn queue_alone(&mut self, at: Ref) {
        let enough =
            if self.options.planted(Mutant::ForgetComponents) { State::Executed } else { State::Done };
        let deps = self.graph.live(at).deps.clone();
        let mut waits = 0;
        for to in deps {
            if let Some(ahead) = self.graph.get_mut(to)
                && ahead.state < enough
            {
                ahead.dependents.push(at);
                waits += 1;
            }
        }
        self.graph.live_mut(at).waits = waits;
        if waits == 0 {
            self.work.push_back(Work::Execute(at));
        }
    }

    /// Members of one component execute by id where they conflict, after everything that any of them
    /// depends on: a conflict may be visible only through another member's dependencies.
    fn queue_component(&mut self, members: &[Ref], rank: Rank) {
        assert_eq!(self.protocol(), Protocol::Caerus, "no two wait for each other in ordered logs");
        base::sometimes!("a component with several members executes");
        let here: SmallVec<[Ref; 4]> =
            members.iter().copied().filter(|at| self.graph.live(*at).extra.local).collect();
        for &at in members {
            if !here.contains(&at) {
                self.done(at, rank);
            }
        }
        if here.is_empty() {
            return;
        }
        let mut outside: Vec<Ref> = Vec::new();
        for &at in members {
            let ahead = self.graph.live(at).deps.iter().filter(|to| {
                !members.contains(to) && self.graph.get(**to).is_some_and(|v| v.state < State::Done)
            });
            outside.extend(ahead);
        }
        outside.sort_unstable();
        outside.dedup();
        let group = self.groups_made;
        self.groups_made = self.groups_made.wrapping_add(1);
        self.groups.insert(group, Group { members: here.to_vec(), unexecuted: here.len() });
        for (nth, &at) in here.iter().enumerate() {
            self.graph.live_mut(at).group = Some(group);
            let mut waits = outside.len() as u32;
            for &ahead in &outside {
                self.graph.live_mut(ahead).dependents.push(at);
            }
            for &ahead in &here[..nth] {
                if self.conflict_here(ahead, at) && !self.options.planted(Mutant::ForgetComponents) {
                    self.graph.live_mut(ahead).followers.push(at);
                    waits += 1;
                }
            }
            self.graph.live_mut(at).waits = waits;
            if waits == 0 {
                self.work.push_back(Work::Execute(at));
            }
        }
    }

    fn conflict_here(&self, a: Ref, b: Ref) -> bool {
        let request = |at| self.graph.live(at).extra.request;
        if request(a).is_some() && request(a) == request(b) {
            return true;
        }
        let access = |at| &self.graph.live(at).transaction.as_ref().expect("it takes part here").access;
        let (a, b) = (access(a), access(b));
        let local = a.by_partition.keys().filter(|p| self.partition(**p).local);
        local.into_iter().any(|partition| {
            a.at(*partition).iter().any(|mine| {
                b.at(*partition).iter().any(|other| {
                    use AccessMode::Read;
                    (mine.mode, other.mode) != (Read, Read) && mine.granule.overlaps(&other.granule)
                })
            })
        })
    }
}

/// The earliest cut at which an interactive transaction read what it has to find unchanged.
pub(super) fn cut_of(transaction: &Transaction) -> Option<Rank> {
    transaction.program.validated()?.reads.iter().map(|read| read.at).min()
}
