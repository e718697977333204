//! Leading a sequence in a term.
//!
//! IN: entries to append, acknowledgements, readers' wishes. OUT: appends to the replicas. KEEPS: an entry never
//! changes; before K others have all that was taken over nothing is added and no closed timestamp told: until then a
//! later leader may have entries that this one has not, with stamps of their own; a closed timestamp only grows, and with
//! K > 0 it is never above what K other regions have granted: so whoever leads next, having heard one of those or of
//! this one, can stamp above it; with machines inside, nothing leaves the region before a majority of them has it.

use super::entries::Item;
use super::group::{Fault, Group, Term};
use super::link::Outbox;
use super::said::{Ack, Append, Grant, Posts, Said};
use base::{NodeId, Rank, Time};
use std::collections::{BTreeMap, VecDeque};

/// A replica that lacks more entries than this is told no closed timestamp.
const BACKLOG_LOOKED_AT_MAX: u64 = 4096;

/// Heartbeats between two greetings of a replica that is silent.
const GREETINGS_HEARTBEATS: u64 = 25;

/// What the node that leads keeps beside the log.
#[derive(Clone, Debug)]
pub(super) struct Leader<E> {
    term: Term,
    /// What was taken over ends here; it has to be safe before anything is added.
    since: u64,
    is_open: bool,
    outbox: Outbox<E>,
    /// Entries before this are on a majority of the machines inside.
    kept: u64,
    /// Entries before this are in K other regions.
    elsewhere: u64,
    /// Every replica has merged the entries before this.
    everywhere: u64,
    /// What replicas have said in this term: what they granted, and how far they have merged.
    peers: BTreeMap<NodeId, (Grant, u64)>,
    lease: Lease,
    confirming: Confirming,
    /// Nothing is sent to those inside, and to others, before this.
    inside_at: Time,
    flush_at: Time,
    /// When replicas heard last.
    told_at: Time,
}

/// How far closed timestamps are told and granted.
#[derive(Clone, Copy, Debug, Default)]
struct Lease {
    closed: Rank,
    /// What earlier leaders may have told.
    floor: Grant,
    wanted: Grant,
    wanted_at: Time,
    /// Readers need this much, whatever the clock shows; only where clocks have no bound.
    closed_wanted: Rank,
}

/// Questions where the log ends that are not answered: until K others have confirmed a probe that left later.
#[derive(Clone, Debug, Default)]
struct Confirming {
    probe: u64,
    /// Of replicas: the last probe that each has confirmed in this term.
    confirmed: BTreeMap<NodeId, u64>,
    /// Probe, who asked, and as which question.
    waiting: VecDeque<(u64, NodeId, u64)>,
}

/// What a leader tells of its log with each append.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    pub stable: u64,
    /// Others may let go of entries before this, as far as this node goes.
    pub settled: u64,
    /// The largest rank up to which versions may be given up, as far as this node knows.
    pub watermark: Rank,
}

impl<E: Item> Leader<E> {
    /// Goes on with entries `first..`; what earlier leaders may have told is `floor`.
    pub fn new(
        group: &Group,
        now: Time,
        term: Term,
        (first, entries): (u64, VecDeque<E>),
        floor: Grant,
    ) -> Leader<E> {
        let since = first + entries.len() as u64;
        let mut outbox = Outbox::resumed(first, entries, group.replicas.iter().cloned(), now);
        if group.copies > 0 {
            outbox.keep_at_most(group.backlog_max);
        }
        Leader {
            term,
            since,
            is_open: false,
            outbox,
            kept: since,
            elsewhere: 0,
            everywhere: first,
            peers: BTreeMap::new(),
            lease: Lease { floor, ..Lease::default() },
            confirming: Confirming::default(),
            inside_at: Time::ZERO,
            flush_at: Time::ZERO,
            told_at: Time::ZERO,
        }
    }
    pub fn term(&self) -> Term {
        self.term
    }
    pub fn since(&self) -> u64 {
        self.since
    }
    pub fn is_open(&self) -> bool {
        self.is_open
    }
    /// What was taken over is in as many other regions as have to have it.
    pub fn is_safe(&self, group: &Group) -> bool {
        group.copies == 0 || self.elsewhere >= self.since
    }
    pub fn open(&mut self) {
        self.is_open = true;
    }
    pub fn everywhere(&self) -> u64 {
        self.everywhere
    }
    pub fn closed(&self) -> Rank {
        self.lease.closed
    }
    pub fn floor(&self) -> Grant {
        self.lease.floor
    }
    pub fn outbox(&self) -> &Outbox<E> {
        &self.outbox
    }
    #[cfg(test)]
    pub fn keep_at_most(&mut self, items: usize) {
        self.outbox.keep_at_most(items);
    }
    /// Nobody waits for anything of it.
    pub fn is_settled(&self) -> bool {
        self.is_open && self.outbox.is_settled() && self.confirming.waiting.is_empty()
    }
    pub fn overdue(&mut self, now: Time) {
        self.outbox.overdue(now);
    }
    /// A replica has lost what it had: nothing that it has said counts. Entries `first..` are kept.
    pub fn begin_again(&mut self, node: NodeId, (first, kept): (u64, &VecDeque<E>)) {
        self.peers.remove(&node);
        self.outbox.begin_again(node, first, kept);
    }

    pub fn push(&mut self, group: &Group, entry: &E) {
        assert!(self.is_open, "nothing is added before what was taken over is safe");
        if !group.replicas.is_empty() {
            self.outbox.push(entry.clone());
        }
    }

    /// The most that K other regions have said; K is at least 1.
    fn said_elsewhere<T: Ord + Copy>(&self, group: &Group, of: impl Fn(NodeId) -> Option<T>) -> Option<T> {
        let others = group.other_voters().filter(|node| self.peers.contains_key(node));
        let mut said: Vec<T> = others.filter_map(of).collect();
        said.sort_unstable_by(|a, b| b.cmp(a));
        said.get(group.copies - 1).copied()
    }

    /// Promises that no later entry is stamped at or below `rank`, as far as others have granted that; whether that is
    /// more than before.
    pub fn promise(&mut self, group: &Group, rank: Rank) -> bool {
        let is_bound = group.copies > 0 && !group.planted(Fault::NoLease);
        let granted = match is_bound {
            true if !self.is_open => Rank::ZERO,
            true => self.said_elsewhere(group, |node| Some(self.peers[&node].0.closed)).unwrap_or_default(),
            false => Rank::MAX,
        };
        let rank = rank.min(granted);
        let is_more = rank > self.lease.closed;
        self.lease.closed = rank.max(self.lease.closed);
        is_more
    }
    /// A reader needs this closed timestamp, whatever the clock shows; whether that is new.
    pub fn want_closed(&mut self, rank: Rank) -> bool {
        let is_new = rank > self.lease.closed_wanted;
        self.lease.closed_wanted = rank.max(self.lease.closed_wanted);
        is_new
    }
    /// A closed timestamp that readers wait for and that is not told.
    pub fn closed_lacking(&self) -> Option<Rank> {
        Some(self.lease.closed_wanted).filter(|wanted| *wanted > self.lease.closed)
    }

    /// Which versions replicas may give up, as far as this sequence goes.
    pub fn told_collected(&self, group: &Group, watermark: Rank) -> Rank {
        match group.copies {
            0 => watermark,
            _ => self.said_elsewhere(group, |node| Some(self.peers[&node].0.collected)).unwrap_or_default(),
        }
    }

    /// What a message to replicas says beside entries.
    fn append(&mut self, group: &Group, now: Time, standing: Standing) -> Append<E> {
        let collected = self.told_collected(group, standing.watermark);
        let bound = (now.rank() + group.times.clock_bound_ns).previous();
        let lease_ns = group.times.lease_ns;
        let lease = &mut self.lease;
        let is_short = lease.closed_wanted > lease.wanted.closed;
        if group.copies > 0 && (is_short || now >= lease.wanted_at + lease_ns / 8) {
            lease.wanted_at = now;
            let closed = (bound + lease_ns).max(lease.closed_wanted);
            lease.wanted = Grant { closed, collected: standing.watermark };
        }
        Append {
            term: self.term,
            since: self.since,
            first: self.outbox.end(),
            entries: Vec::new(),
            closed: lease.closed,
            collected,
            stable: standing.stable,
            everywhere: self.everywhere.min(standing.settled),
            wanted: lease.wanted,
            probe: self.confirming.probe,
            sent_at: now,
        }
    }

    /// An append without entries for a replica that has everything before `first`: the closed timestamp must stay below
    /// the stamps of entries that it lacks, and those know what is gone.
    fn empty_at(&self, first: u64, append: &Append<E>) -> Append<E> {
        if self.outbox.end().saturating_sub(first) > BACKLOG_LOOKED_AT_MAX {
            // It is far behind: to tell it how far the sequence is complete would take a look at all it lacks.
            return Append { first, closed: Rank::ZERO, collected: Rank::ZERO, ..append.clone() };
        }
        let behind = self.outbox.behind(first);
        let all = behind.fold((self.lease.closed, append.collected), |(closed, collected), entry| {
            (closed.min(entry.stamp().previous()), collected.min(entry.collected()))
        });
        Append { first, closed: all.0, collected: all.1, ..append.clone() }
    }

    /// Entries before this may go to others than the machines inside.
    fn goes_out(&self, group: &Group) -> u64 {
        match group.inside.is_empty() || group.planted(Fault::CountBeforeKept) {
            true => self.outbox.end(),
            false => self.kept,
        }
    }
    /// Whether there is something to send to those inside the region, and to others.
    fn has_unsent(&self, group: &Group) -> (bool, bool) {
        let (end, goes_out, inside) = (self.outbox.end(), self.goes_out(group), &group.inside);
        let is_inside = |node| inside.contains(&node);
        (
            !inside.is_empty() && self.outbox.has_unsent(|node| if is_inside(node) { end } else { 0 }),
            self.outbox.has_unsent(|node| if is_inside(node) { 0 } else { goes_out }),
        )
    }

    /// Sends what has not been sent and may go, inside the region or out of it; answers to whom all of it went, and
    /// which versions were told to be collected.
    pub fn send_unsent(
        &mut self,
        group: &Group,
        now: Time,
        standing: Standing,
        (is_inside, is_outside): (bool, bool),
        posts: &mut Posts<E>,
    ) -> (Vec<NodeId>, Rank) {
        let append = self.append(group, now, standing);
        let goes_out = self.goes_out(group);
        let (end, mut told) = (self.outbox.end(), Vec::new());
        let limit = |node| match group.inside.contains(&node) {
            true if is_inside => end,
            false if is_outside => goes_out,
            _ => 0,
        };
        let batches = self.outbox.unsent(now, limit);
        for (to, first, entries, is_last) in batches {
            let behind = self.empty_at(first + entries.len() as u64, &append);
            let closed = if is_last { behind.closed } else { Rank::ZERO };
            posts.push((to, Said::Append(Append { first, entries, closed, ..behind })));
            told.extend(is_last.then_some(to));
        }
        (told, append.collected)
    }

    /// Whether something is to be sent now, inside the region and out of it; and when the rest may be.
    pub fn is_due(&self, group: &Group, now: Time) -> ((bool, bool), Option<Time>) {
        let (is_inside, is_outside) = self.has_unsent(group);
        let due = [is_inside.then_some(self.inside_at), is_outside.then_some(self.flush_at)];
        let next = due.into_iter().flatten().filter(|at| now < *at).min();
        let [inside, outside] = due.map(|at| at.is_some_and(|at| at <= now));
        ((inside, outside), next)
    }
    /// Sends what is due; answers when what is left may be sent, and which versions were told to be collected.
    pub fn flush(
        &mut self,
        group: &Group,
        now: Time,
        standing: Standing,
        due: (bool, bool),
        interval_ns: u64,
        posts: &mut Posts<E>,
    ) -> (Option<Time>, Rank) {
        let next_at = now + interval_ns;
        if due.0 {
            self.inside_at = next_at;
        }
        if due.1 {
            (self.flush_at, self.told_at) = (next_at, now);
        }
        let (_, collected) = self.send_unsent(group, now, standing, due, posts);
        let (is_inside, is_outside) = self.has_unsent(group);
        let is_behind = due.0 && is_inside || due.1 && is_outside; // Some replica is far behind.
        (is_behind.then_some(next_at), collected)
    }
    /// Whether replicas should hear of this leader again, though there is nothing to send.
    pub fn is_quiet(&self, group: &Group, now: Time, every_ns: u64) -> bool {
        self.told_at + every_ns <= now && self.has_unsent(group) == (false, false)
    }
    pub fn has_nothing_unsent(&self, group: &Group) -> bool {
        self.has_unsent(group) == (false, false)
    }

    /// Tells replicas how far the log is complete; answers which versions were told to be collected.
    pub fn beat(&mut self, group: &Group, now: Time, standing: Standing, posts: &mut Posts<E>) -> Rank {
        if !self.is_open {
            // A replica that has all entries and has granted more already has nothing to acknowledge but that it follows.
            self.confirming.probe += 1;
        }
        let append = self.append(group, now, standing);
        self.told_at = now;
        for (to, _) in group.replicas.iter().filter(|(node, _)| !self.outbox.is_silent(*node)) {
            let append = self.empty_at(self.outbox.sent_to(*to), &append);
            posts.push((*to, Said::Append(append)));
        }
        append.collected
    }
    /// Replicas that have long been silent hear of their leader now and then, and say what they lack once they are
    /// back.
    pub fn greet(
        &mut self,
        group: &Group,
        now: Time,
        standing: Standing,
        posts: &mut Posts<E>,
    ) -> Option<Rank> {
        let every_ns = GREETINGS_HEARTBEATS * group.times.heartbeat_ns;
        let silent = self.outbox.to_greet(now, every_ns.min(group.times.suspect_ns / 8));
        if silent.is_empty() {
            return None;
        }
        let append = self.append(group, now, standing);
        for to in silent {
            if self.outbox.is_left_behind(to) {
                let (term, first) = (self.term, self.outbox.first());
                posts.push((to, Said::LeftBehind { term, first }));
            }
            let append = self.empty_at(self.outbox.sent_to(to), &append);
            posts.push((to, Said::Append(append)));
        }
        Some(append.collected)
    }
    /// One replica hears how far the log is complete.
    pub fn tell(
        &mut self,
        group: &Group,
        now: Time,
        standing: Standing,
        to: NodeId,
        posts: &mut Posts<E>,
    ) -> Rank {
        let append = self.append(group, now, standing);
        posts.push((to, Said::Append(self.empty_at(self.outbox.sent_to(to), &append))));
        append.collected
    }

    /// A replica has acknowledged; answers up to where entries are stable now, if that follows from it.
    pub fn acknowledged(&mut self, group: &Group, now: Time, from: NodeId, ack: &Ack) -> Option<u64> {
        self.outbox.acknowledged(now, from, ack.next, ack.gap, ack.echo);
        let is_kept = self.keep(group);
        if group.copies == 0 {
            return is_kept.then_some(self.kept);
        }
        if !group.is_replica(from) {
            return None;
        }
        let peer = self.peers.entry(from).or_default();
        *peer = (peer.0.max(ack.granted), peer.1.max(ack.merged));
        let merged = |node: NodeId| self.peers.get(&node).map_or(0, |(_, merged)| *merged);
        let counted = group.replicas.iter().filter(|(node, _)| !self.outbox.is_left_behind(*node));
        if let Some(everywhere) = counted.map(|(node, _)| merged(*node)).min() {
            self.everywhere = everywhere.max(self.everywhere);
        }
        // A region has what the node that votes for it has. Who has less than what was taken over may have
        // something else yet.
        let has: BTreeMap<NodeId, u64> = self.outbox.progress().collect();
        let elsewhere =
            self.said_elsewhere(group, |node| has.get(&node).copied().filter(|has| *has >= self.since));
        self.elsewhere = self.elsewhere.max(elsewhere.unwrap_or(0));
        elsewhere
    }
    /// Whether more entries are on a majority of the machines inside.
    fn keep(&mut self, group: &Group) -> bool {
        let has = self.outbox.progress().filter(|(node, _)| group.inside.contains(node));
        // The leader and one of two are a majority.
        let kept = has.map(|(_, has)| has).max().unwrap_or(self.kept);
        let more = kept > self.kept;
        self.kept = self.kept.max(kept);
        more
    }

    /// A node asks where the log ends; answers whether replicas are to be asked at once whether they follow.
    pub fn calibrate(
        &mut self,
        group: &Group,
        (from, number): (NodeId, u64),
        end: u64,
        posts: &mut Posts<E>,
    ) -> bool {
        if group.copies == 0 || group.planted(Fault::UnconfirmedEnd) {
            posts.push((from, Said::Calibrated { term: self.term, number, end }));
            return false;
        }
        let confirming = &mut self.confirming;
        let is_first = confirming.waiting.is_empty();
        confirming.probe += 1;
        confirming.waiting.push_back((confirming.probe, from, number));
        is_first // Else with the next heartbeat.
    }
    /// A replica has confirmed that it follows in this term, after it was asked by a probe.
    pub fn confirmed(&mut self, group: &Group, (from, probe): (NodeId, u64), end: u64, posts: &mut Posts<E>) {
        let known = self.confirming.confirmed.entry(from).or_default();
        *known = probe.max(*known);
        let confirmed = &self.confirming.confirmed;
        let reached = self.said_elsewhere(group, |node| confirmed.get(&node).copied()).unwrap_or(0);
        while let Some(&(probe, node, number)) = self.confirming.waiting.front()
            && probe <= reached
        {
            base::sometimes!("a leader tells where its sequence ends once others have confirmed it");
            self.confirming.waiting.pop_front();
            posts.push((node, Said::Calibrated { term: self.term, number, end }));
        }
    }
}
