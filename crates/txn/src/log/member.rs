//! One node's part in keeping a sequence: it follows, leads, or would lead.
//!
//! IN: what other nodes say of the sequence, time, entries to append. OUT: posts to other nodes; stable entries, one
//! at a time ([`Log::take`]); the closed timestamp ([`Log::lower`]). KEEPS:
//! 1. one region leads in a term, and only with the promises of all regions but K;
//! 2. a promise is kept before it leaves: whoever gave it takes nothing of earlier terms, so whoever led before
//!    finds too few to make anything stable: it answers nothing that could be lost, and grants run out under
//!    what it tells readers;
//! 3. nothing is added before K others have all that was taken over.
//!
//! A candidate asks first whether others miss the leader too, and leaves its term alone until enough do: one
//! broken link does not end a term. The region that the sequence belongs to stands by itself once it has caught
//! up and its links have been calm for a while: it orders its own at home.

mod election;

use self::election::Candidacy;
use super::entries::{Entries, Item};
use super::group::{Fault, Group, Term};
use super::leader::{self, Leader};
use super::link::Outbox;
use super::said::{Ack, Append, Grant, Posts, Said};
use base::{NodeId, Rank, Time};
use std::collections::VecDeque;
use std::sync::Arc;

/// See the module.
#[derive(Clone, Debug)]
pub struct Log<E> {
    group: Arc<Group>,
    terms: Terms,
    entries: Entries<E>,
    leader: Option<Box<Leader<E>>>,
    candidacy: Option<Candidacy<E>>,
    /// Versions up to here may be given up, as far as this node knows.
    watermark: Rank,
    /// This node is about to end: it stands no more, and asks others to lead; when it last did.
    resigning: Option<Time>,
}

#[derive(Clone, Copy, Debug)]
struct Terms {
    /// Nobody below this term is followed here.
    promised: Term,
    /// The largest term heard of.
    highest: Term,
    /// The latest term that somebody is known to lead in, and since when it is known here.
    led_in: Term,
    led_at: Time,
    /// When a leader was heard last.
    heard_at: Time,
    /// The leader of this term has asked others to lead, first heard at this time.
    resigned: Option<(Term, Time)>,
}

/// A leader's append was taken.
#[derive(Clone, Copy, Debug)]
pub struct Followed {
    term: Term,
    /// It leads in a term that was not known here.
    pub is_new_leader: bool,
    /// The log here is that of its term.
    pub is_current: bool,
    next: u64,
    gap: bool,
    is_answered: bool,
    everywhere: u64,
    probe: u64,
    echo: Time,
}

/// When replicas are to be sent something.
#[derive(Clone, Copy, Debug)]
pub struct Due {
    /// Now, inside the region and out of it.
    pub now: (bool, bool),
    /// And the next time.
    pub next: Option<Time>,
}

impl<E: Item> Log<E> {
    /// Before its beginning. `waits`: an entry may be here for a while before it is merged, though K is 0.
    pub fn new(group: Arc<Group>, waits: bool) -> Log<E> {
        let term = Term::from(group.home.0);
        let (led_at, heard_at) = (Time::ZERO, Time::ZERO);
        Log {
            terms: Terms { promised: term, highest: term, led_in: term, led_at, heard_at, resigned: None },
            entries: Entries::new(term, group.copies > 0, waits),
            leader: None,
            candidacy: None,
            watermark: Rank::ZERO,
            resigning: None,
            group,
        }
    }
    /// Leads from the beginning.
    pub fn leading(mut self) -> Log<E> {
        let nothing = (0, VecDeque::new());
        let mut leader = Leader::new(&self.group, Time::ZERO, self.terms.led_in, nothing, Grant::default());
        leader.open();
        self.leader = Some(Box::new(leader));
        self
    }

    pub fn group(&self) -> &Group {
        &self.group
    }
    /// Nobody below this term is followed here.
    pub fn promised(&self) -> Term {
        self.terms.promised
    }
    /// The largest term heard of.
    pub fn highest(&self) -> Term {
        self.terms.highest
    }
    /// The latest term that somebody is known to lead in.
    pub fn led_in(&self) -> Term {
        self.terms.led_in
    }
    /// Who leads, as far as is known here.
    pub fn leader(&self) -> NodeId {
        self.group.leader_in(self.terms.led_in).expect("a region that leads has a node for it")
    }
    /// When a leader was heard last.
    pub fn heard_at(&self) -> Time {
        self.terms.heard_at
    }
    /// Silence counts from now on.
    pub fn listen_from(&mut self, now: Time) {
        self.terms.heard_at = now;
    }
    /// The term that this node leads in.
    pub fn term(&self) -> Option<Term> {
        self.leader.as_ref().map(|leader| leader.term())
    }
    pub fn leads(&self) -> bool {
        self.leader.is_some()
    }
    /// It leads, and entries may be added.
    pub fn is_open(&self) -> bool {
        self.leader.as_ref().is_some_and(|leader| leader.is_open())
    }
    pub fn stands(&self) -> bool {
        self.candidacy.is_some()
    }
    /// It has asked for promises in this term.
    pub fn stands_in(&self, term: Term) -> bool {
        self.candidacy.as_ref().is_some_and(|own| own.term() == term && own.stands())
    }
    /// The closed timestamp: no entry that is merged from now on is stamped at or below this.
    pub fn closed(&self) -> Rank {
        self.entries.closed()
    }
    /// Whoever is merged from now on knows versions up to here to be gone.
    pub fn collected(&self) -> Rank {
        self.entries.collected()
    }
    /// Entries before this were merged.
    pub fn merged(&self) -> u64 {
        self.entries.merged()
    }
    /// The leader of this term had all of the log here.
    pub fn accepted(&self) -> Term {
        self.entries.accepted()
    }
    pub fn end(&self) -> u64 {
        self.entries.end()
    }
    pub fn unmerged(&self) -> impl Iterator<Item = &E> {
        self.entries.unmerged()
    }
    /// Whether all entries before `end` of the log of `term`'s leader are merged here, as far as they are not lost.
    pub fn covers(&self, term: Term, end: u64) -> bool {
        self.entries.covers(term, end)
    }
    /// Entries kept: in the log, and to be sent.
    pub fn kept_count(&self) -> (usize, usize) {
        (self.entries.kept().1.len(), self.outbox().map_or(0, Outbox::len))
    }
    /// What replicas are sent, where this node leads.
    pub fn outbox(&self) -> Option<&Outbox<E>> {
        self.leader.as_ref().map(|leader| leader.outbox())
    }
    /// Nothing is under way that this node has to look after.
    pub fn is_settled(&self) -> bool {
        self.candidacy.is_none()
            && self.leader.as_ref().is_none_or(|leader| leader.is_settled())
            && self.entries.unmerged().next().is_none()
    }
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.entries.is_settled() && self.leader.as_ref().is_none_or(|leader| leader.outbox().is_settled())
    }
    #[cfg(test)]
    pub fn keep_at_most(&mut self, items: usize) {
        if let Some(leader) = &mut self.leader {
            leader.keep_at_most(items);
        }
    }

    fn standing(&self) -> leader::Standing {
        let (stable, watermark) = (self.entries.stable(), self.watermark_to_tell());
        leader::Standing { stable, watermark, settled: self.settled() }
    }

    // Following.

    /// The leader of a term sends entries. `None`: it is not followed.
    pub fn on_append(
        &mut self,
        now: Time,
        from: NodeId,
        mut append: Append<E>,
        posts: &mut Posts<E>,
    ) -> Option<Followed> {
        let term = append.term;
        if self.group.leader_in(term) != Some(from) {
            return None; // A peer with another topology. Silence, never a guess.
        }
        if term < self.terms.promised || term < self.terms.led_in {
            let term = self.terms.promised.max(self.terms.led_in);
            posts.push((from, Said::Overtaken { term }));
            return None;
        }
        self.terms.promised = term;
        self.terms.heard_at = now;
        let is_new_leader = self.on_leads(now, term);
        let has_entries = !append.entries.is_empty();
        let copies = self.group.copies;
        let is_probed = self.entries.is_probed(append.probe) && copies > 0;
        let has_granted = copies > 0 && self.entries.grant(append.wanted);
        let (next, gap) = self.entries.receive(&mut append);
        let is_current = self.entries.accepted() == term;
        if is_current {
            let at_once = self.group.acts_at_once || self.group.planted(Fault::StableOnArrival);
            match at_once {
                true => self.entries.stable_to(self.entries.end()),
                // What has come here from another region is in two.
                false if copies == 1 && self.group.votes() => self.entries.claim_to(self.entries.end()),
                false => self.entries.stable_to(append.stable),
            }
        }
        let is_answered = has_entries || gap || has_granted || is_probed;
        let Append { everywhere, probe, sent_at: echo, .. } = append;
        Some(Followed { term, is_new_leader, is_current, next, gap, is_answered, everywhere, probe, echo })
    }
    /// What was stable of an append is merged: it is acknowledged.
    pub fn acknowledge(&mut self, followed: Followed, posts: &mut Posts<E>) {
        let Followed { term, next, gap, is_answered, everywhere, probe, echo, .. } = followed;
        self.release(everywhere);
        if is_answered && let Some(leader) = self.group.leader_in(term) {
            let (merged, granted) = (self.settled(), self.entries.granted());
            let ack = Ack { next, merged, gap, granted, probe, echo };
            posts.push((leader, Said::AppendAck { term, ack }));
        }
    }
    /// The next stable entry that is not merged.
    pub fn take(&mut self) -> Option<E> {
        self.entries.take()
    }
    /// The closed timestamp, if it has grown.
    pub fn lower(&mut self) -> Option<Rank> {
        self.entries.lower()
    }
    /// A leader of this term is heard of: nobody here leads below it. Whether that is news.
    pub fn on_leads(&mut self, now: Time, term: Term) -> bool {
        self.terms.highest = self.terms.highest.max(term);
        if term <= self.terms.led_in || self.group.leader_in(term).is_none() {
            return false;
        }
        (self.terms.led_in, self.terms.led_at) = (term, now);
        self.step_down(now, term);
        if self.candidacy.as_ref().is_some_and(|candidacy| candidacy.term() <= term) {
            self.candidacy = None;
        }
        true
    }
    fn step_down(&mut self, now: Time, term: Term) {
        if self.term().is_some_and(|own| own < term) {
            base::sometimes!("a leader finds that its term is over");
            self.leader = None;
            self.terms.heard_at = now;
        }
    }
    /// Whether what lacks here is gone everywhere, as the leader of a term says that keeps nothing before `first`.
    pub fn is_left_behind(&self, from: NodeId, term: Term, first: u64) -> bool {
        self.group.leader_in(term) == Some(from)
            && self.group.copies > 0
            && term >= self.terms.led_in
            && self.entries.merged() < first
    }
    /// Versions up to here may be given up.
    pub fn collect_to(&mut self, watermark: Rank) {
        self.watermark = watermark;
    }
    /// Where this node leads: entries to come know what others let it tell to be collected.
    pub fn collect(&mut self) {
        if let Some(leader) = &self.leader {
            self.entries.collect(leader.told_collected(&self.group, self.watermark_to_tell()));
        }
    }

    // Leading.

    fn lead<T>(
        &mut self,
        act: impl FnOnce(&mut Leader<E>, &Group, leader::Standing) -> (T, Option<Rank>),
    ) -> Option<T> {
        let standing = self.standing();
        let (result, collected) = act(self.leader.as_mut()?, &self.group, standing);
        collected.into_iter().for_each(|collected| self.entries.tell_collected(collected));
        Some(result)
    }

    /// An entry that is added now is stamped above this, and knows versions up to the second to be collected.
    pub fn least(&self) -> (Rank, Rank) {
        let leader = self.leader.as_ref().expect("only the leader adds");
        let (closed, floor) = (leader.closed(), leader.floor());
        (closed.max(floor.closed), self.watermark.max(floor.collected).max(self.entries.collected()))
    }
    /// Adds an entry; whether it is stable at once.
    pub fn push(&mut self, entry: E) -> bool {
        let group = &*self.group;
        self.leader.as_mut().expect("only the leader adds").push(group, &entry);
        self.entries.push(entry);
        let is_stable =
            group.acts_at_once && (group.inside.is_empty() || group.planted(Fault::CountBeforeKept));
        if is_stable {
            self.claim_to(self.entries.end());
        }
        self.entries.stable() >= self.entries.end()
    }
    /// Promises that no later entry is stamped at or below `rank`, as far as others have granted that; whether that is
    /// more than before.
    pub fn promise(&mut self, rank: Rank) -> bool {
        let rank = self.bounded(rank);
        let Some(leader) = &mut self.leader else { return false };
        let is_more = leader.promise(&self.group, rank);
        if is_more {
            self.entries.tell(leader.closed());
        }
        is_more
    }
    /// A reader needs this closed timestamp, whatever the clock shows; whether others have to grant it first.
    pub fn want_closed(&mut self, rank: Rank) -> bool {
        self.leader.as_mut().is_some_and(|leader| leader.want_closed(rank))
    }
    /// A closed timestamp that readers wait for and that is not told.
    pub fn closed_lacking(&self) -> Option<Rank> {
        self.leader.as_ref()?.closed_lacking()
    }
    /// Whether the closed timestamp that is told is below a rank.
    pub fn tells_less_than(&self, rank: Rank) -> bool {
        self.leader.as_ref().is_some_and(|leader| leader.closed() < rank)
    }
    /// When replicas are to be sent something.
    pub fn due(&self, now: Time) -> Due {
        let (due, next) = match &self.leader {
            Some(leader) => leader.is_due(&self.group, now),
            None => ((false, false), None),
        };
        Due { now: due, next }
    }
    /// Sends replicas what is due; answers when what is left may be sent.
    pub fn flush(
        &mut self,
        now: Time,
        due: (bool, bool),
        interval_ns: u64,
        posts: &mut Posts<E>,
    ) -> Option<Time> {
        self.lead(|leader, group, standing| {
            let (next, collected) = leader.flush(group, now, standing, due, interval_ns, posts);
            (next, Some(collected))
        })?
    }
    /// Tells replicas how far the log is complete.
    pub fn beat(&mut self, now: Time, posts: &mut Posts<E>) {
        self.lead(|leader, group, standing| ((), Some(leader.beat(group, now, standing, posts))));
    }
    /// The same unless they have just heard; those that are silent hear now and then.
    pub fn heartbeat(&mut self, now: Time, every_ns: u64, posts: &mut Posts<E>) {
        self.lead(|leader, group, standing| ((), leader.greet(group, now, standing, posts)));
        if self.leader.as_ref().is_some_and(|leader| leader.is_quiet(&self.group, now, every_ns)) {
            self.beat(now, posts);
        }
    }
    /// Replicas hear at once.
    pub fn tell_replicas(&mut self, now: Time, posts: &mut Posts<E>) {
        match self.leader.as_ref().is_some_and(|leader| leader.has_nothing_unsent(&self.group)) {
            true => self.beat(now, posts),
            false => _ = self.send_unsent(now, posts),
        }
    }
    fn send_unsent(&mut self, now: Time, posts: &mut Posts<E>) -> Vec<NodeId> {
        let told = self.lead(|leader, group, standing| {
            let (told, collected) = leader.send_unsent(group, now, standing, (true, true), posts);
            (told, Some(collected))
        });
        told.unwrap_or_default()
    }
    /// One replica hears at once.
    pub fn tell(&mut self, now: Time, to: NodeId, posts: &mut Posts<E>) {
        if !self.send_unsent(now, posts).contains(&to) {
            self.lead(|leader, group, standing| ((), Some(leader.tell(group, now, standing, to, posts))));
        }
    }
    /// What was sent to replicas long ago and not acknowledged is sent again.
    pub fn overdue(&mut self, now: Time) {
        if let Some(leader) = &mut self.leader {
            leader.overdue(now);
        }
    }
    /// A replica says how far it is; whether it counts, and whether more entries may be stable.
    pub fn on_append_ack(&mut self, now: Time, from: NodeId, term: Term, ack: &Ack) -> Option<bool> {
        let leader = self.leader.as_mut().filter(|leader| leader.term() == term)?;
        let stable = leader.acknowledged(&self.group, now, from, ack);
        stable.into_iter().for_each(|stable| self.claim_to(stable));
        Some(stable.is_some())
    }
    /// What was taken over is stable and merged, and nothing has been added yet: whether this node may add entries from
    /// now on, for the first time.
    pub fn open(&mut self) -> bool {
        let Some(leader) = self.leader.as_mut().filter(|leader| !leader.is_open()) else { return false };
        if !leader.is_safe(&self.group) || self.entries.merged() < leader.since() {
            return false; // This node's disk has not all of it.
        }
        leader.open();
        true
    }
    /// An acknowledgement counts: what every replica has merged is let go of, and nodes that asked learn where the log
    /// ends.
    pub fn confirmed(&mut self, from: NodeId, probe: u64, posts: &mut Posts<E>) {
        let Some(leader) = &mut self.leader else { return };
        if self.group.copies > 0 && self.group.is_replica(from) {
            let everywhere = leader.everywhere();
            leader.confirmed(&self.group, (from, probe), self.entries.end(), posts);
            self.release(everywhere);
        }
    }
    /// Every replica has merged the entries before this.
    fn release(&mut self, everywhere: u64) {
        let planted = self.group.planted(Fault::ReleaseWhenMerged);
        self.entries.release(if planted { u64::MAX } else { everywhere });
    }
    /// A node asks where the log ends; `None`: this one does not lead.
    pub fn on_calibrate(&mut self, now: Time, from: NodeId, number: u64, posts: &mut Posts<E>) {
        let end = self.entries.end();
        let Some(leader) = &mut self.leader else {
            return posts.push((from, Said::Leads { term: self.terms.led_in }));
        };
        // Before it is open it does not know; it is asked again.
        if leader.is_open() && leader.calibrate(&self.group, (from, number), end, posts) {
            self.tell_replicas(now, posts);
        }
    }

    /// Panics if this node's memory contradicts itself.
    pub fn check_invariants(&self) {
        if let Some(leader) = &self.leader {
            assert_eq!(self.entries.accepted(), leader.term(), "a leader's log is its own");
            let told = leader.closed().max(leader.floor().closed);
            assert!(self.closed() <= told, "a leader stamps above what was promised");
        }
        assert!(self.accepted() <= self.promised(), "nobody is followed below a promise");
        let merged = self.merged();
        assert!(merged <= self.end() && merged <= self.entries.stable(), "what is merged is stable");
    }
}
