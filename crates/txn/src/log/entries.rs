//! The log of a sequence as one node has it.
//!
//! IN: what leaders append, and how far that is stable. OUT: entries, strictly in order, and the rank up to which
//! nothing more will come. KEEPS:
//! 1. the log is, up to its end, that of the leader of `accepted`: of two logs of one term one is the
//!    beginning of the other;
//! 2. what a new leader took over replaces the end of the log at once, when all of it is here: so a log never
//!    counts as the later term's without what that term began with;
//! 3. only stable entries are merged, and what was merged is never replaced: an entry is stable once K + 1
//!    regions hold it in one term, and every later leader has heard one of those (it needs the promises of all
//!    but K regions, and goes on with the log of the latest term, the longest of those);
//! 4. an entry is kept until every replica has merged it: whoever comes to lead has it for whoever lacks it;
//! 5. the closed timestamp is below the stamps of all that is here and not merged, and below those of all that
//!    will come; entries that were here, that another leader's log has replaced, and that a later leader may bring back,
//!    are among those.

mod kept;

use super::group::Term;
use super::kept::{Change, Disk};
use super::link::Inbox;
use super::said::{Append, Grant, Tail};
use base::Rank;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// All that a log knows of its entries.
pub trait Item: Clone + std::fmt::Debug {
    /// No entry of the sequence is stamped at or below a closed timestamp that was told before.
    fn stamp(&self) -> Rank;
    /// Versions that its leader knew to be collected.
    fn collected(&self) -> Rank;
}

#[derive(Clone, Debug)]
pub(super) struct Entries<E> {
    /// See the module.
    accepted: Term,
    /// Index of the first entry still kept.
    first: u64,
    log: VecDeque<E>,
    /// Entries are kept for others.
    keeps: bool,
    /// Entries may be here for a while before they are merged.
    waits: bool,
    /// Entries before this were merged.
    merged: u64,
    /// Entries before this are in as many regions as have to have them.
    stable: u64,
    /// Of entries that are here and not merged.
    stamps: BTreeSet<(Rank, u64)>,
    /// The leader's closed timestamp.
    told: Rank,
    closed: Rank,
    collected: Rank,
    granted: Grant,
    arriving: Arriving<E>,
    /// What is recorded; `None`: nothing is.
    disk: Option<Box<Disk<E>>>,
}

/// What has come from the leader of a term and is not in the log.
#[derive(Clone, Debug)]
struct Arriving<E> {
    /// From this term's leader, who took over everything before `since`.
    hearing: Term,
    since: u64,
    /// What was merged here when it was heard first: its log arrives from there on.
    from: u64,
    inbox: Inbox<E>,
    /// Behind what is merged here, from a leader whose inheritance is not all here.
    staged: Vec<E>,
    /// Closed timestamps and the like that hold once everything before an index is here.
    early: BTreeMap<u64, (Rank, Rank)>,
    /// The last probe of the term's leader.
    probed: u64,
}

impl<E> Arriving<E> {
    fn of(hearing: Term, since: u64, next: u64) -> Arriving<E> {
        let (inbox, staged, early) = (Inbox::starting_at(next), Vec::new(), BTreeMap::new());
        Arriving { hearing, since, from: next, inbox, staged, early, probed: 0 }
    }
}

impl<E: Item> Entries<E> {
    /// Before its beginning. `keeps`: entries are kept for others; `waits`: an entry may be here for a while before it
    /// is merged.
    pub fn new(term: Term, keeps: bool, waits: bool) -> Entries<E> {
        Entries {
            accepted: term,
            first: 0,
            log: VecDeque::new(),
            keeps,
            waits,
            merged: 0,
            stable: 0,
            stamps: BTreeSet::new(),
            told: Rank::ZERO,
            closed: Rank::ZERO,
            collected: Rank::ZERO,
            granted: Grant::default(),
            arriving: Arriving::of(term, 0, 0),
            disk: None,
        }
    }
    /// Begins where another node's copy stands; nothing behind that is here.
    pub fn take_over(&mut self, merged: u64, closed: Rank, collected: Rank) {
        (self.first, self.merged, self.stable) = (merged, merged, merged);
        (self.told, self.closed, self.collected) = (closed, closed, collected);
        self.log.clear();
        self.stamps.clear();
        (self.arriving.from, self.arriving.inbox) = (merged, Inbox::starting_at(merged));
    }
    /// Has the best of these logs, as a new leader would; answers the term that it is of.
    pub fn stand_with(&mut self, tails: Vec<Tail<E>>) -> Option<Term> {
        let mut best: Option<Tail<E>> = None;
        for tail in tails {
            self.granted = self.granted.max(tail.granted);
            if best.as_ref().is_none_or(|best| (best.accepted, best.end) < (tail.accepted, tail.end)) {
                best = Some(tail);
            }
        }
        let best = best?;
        assert!(best.end >= self.merged, "what was merged somewhere is in the best of so many logs");
        self.first = best.end - best.entries.len() as u64;
        let mut kept: VecDeque<E> = best.entries.into();
        let tail = kept.split_off((self.merged - self.first) as usize);
        self.log = kept;
        self.adopt(best.accepted, tail.into());
        let end = self.end();
        let arriving = &mut self.arriving;
        (arriving.hearing, arriving.since, arriving.inbox) = (best.accepted, end, Inbox::starting_at(end));
        arriving.from = end;
        Some(best.accepted)
    }

    pub fn accepted(&self) -> Term {
        self.accepted
    }
    pub fn merged(&self) -> u64 {
        self.merged
    }
    pub fn stable(&self) -> u64 {
        self.stable
    }
    pub fn closed(&self) -> Rank {
        self.closed
    }
    pub fn collected(&self) -> Rank {
        self.collected
    }
    pub fn granted(&self) -> Grant {
        self.granted
    }
    /// Everything before it is in the log.
    pub fn end(&self) -> u64 {
        self.first + self.log.len() as u64
    }
    /// What is kept, and the index of the first of it.
    pub fn kept(&self) -> (u64, &VecDeque<E>) {
        (self.first, &self.log)
    }
    /// What is here and not merged.
    pub fn unmerged(&self) -> impl Iterator<Item = &E> {
        self.log.range((self.merged - self.first) as usize..).chain(&self.arriving.staged)
    }
    #[cfg(test)]
    pub fn is_settled(&self) -> bool {
        self.log.is_empty() && self.arriving.staged.is_empty() && self.stamps.is_empty()
    }
    /// Everything that the leader of `term` took over is here.
    pub fn is_caught_up(&self, term: Term) -> bool {
        self.accepted == term && self.merged >= self.arriving.since && !self.arriving.inbox.has_gap()
    }
    /// Whether all entries before `end` of the log of `term`'s leader are merged here, as far as they are not lost.
    pub fn covers(&self, term: Term, end: u64) -> bool {
        // What a later leader did not take over is gone.
        let arriving = &self.arriving;
        let taken_over = self.accepted == arriving.hearing && self.accepted > term;
        self.merged >= if taken_over { end.min(arriving.since) } else { end }
    }

    /// Takes what a leader sends, of no lower term than anything before; answers up to where everything has
    /// arrived, and whether something lacks.
    pub fn receive(&mut self, append: &mut Append<E>) -> (u64, bool) {
        let Append { term, since, first, closed, collected, .. } = *append;
        let arriving = &mut self.arriving;
        assert!(term >= arriving.hearing, "a leader that was followed is not followed by an earlier one");
        if term > arriving.hearing {
            *arriving = Arriving::of(term, since, self.merged);
            let from = self.merged;
            self.note(|| Change::Heard { term, since, from });
        }
        let arriving = &mut self.arriving;
        let end = first + append.entries.len() as u64;
        let mut ready = Vec::new();
        arriving.inbox.receive(first, std::mem::take(&mut append.entries), &mut ready);
        let next = arriving.inbox.next();
        if self.accepted == term {
            ready.into_iter().for_each(|entry| self.push(entry));
        } else {
            self.stage(ready);
            if next >= since {
                base::sometimes!("a replica goes over to another leader's log");
                let arriving = &mut self.arriving;
                let mut staged = std::mem::take(&mut arriving.staged);
                // More may have been merged since the leader was heard first.
                let from = arriving.from;
                let tail = staged.split_off(((self.merged - from) as usize).min(staged.len()));
                self.replace(term, tail);
            }
        }
        if closed > self.told {
            let early = self.arriving.early.entry(end).or_default();
            *early = (closed.max(early.0), collected.max(early.1));
        }
        while self.accepted == term
            && let Some(entry) = self.arriving.early.first_entry()
            && *entry.key() <= next
        {
            let (closed, collected) = entry.remove();
            self.told = self.told.max(closed);
            self.collected = self.collected.max(collected);
        }
        (next, self.arriving.inbox.has_gap() || next < end)
    }
    /// The leader asks by a probe whether this node follows it; whether it had not asked so before.
    pub fn is_probed(&mut self, probe: u64) -> bool {
        let is_new = probe > self.arriving.probed;
        self.arriving.probed = probe.max(self.arriving.probed);
        is_new
    }
    /// Lets the leader tell so much; whether that is more than before.
    pub fn grant(&mut self, wanted: Grant) -> bool {
        let before = self.granted;
        self.granted = before.max(wanted);
        self.granted != before
    }

    /// More entries of a leader whose inheritance is not all here.
    fn stage(&mut self, entries: Vec<E>) {
        for entry in entries {
            let index = self.arriving.from + self.arriving.staged.len() as u64;
            self.note(|| Change::Entry { index, entry: entry.clone() });
            self.arriving.staged.push(entry);
        }
    }
    /// One more entry, of the term that the log is of.
    pub fn push(&mut self, entry: E) {
        let index = self.end();
        self.note(|| Change::Entry { index, entry: entry.clone() });
        self.keep(entry);
    }
    fn keep(&mut self, entry: E) {
        if self.keeps || self.waits || self.disk.is_some() {
            self.stamps.insert((entry.stamp(), self.end()));
        }
        self.log.push_back(entry);
    }
    /// The log behind what is merged becomes this, the one of `term`'s leader.
    pub fn adopt(&mut self, term: Term, tail: Vec<E>) {
        let from = self.merged;
        self.note(|| Change::Adopted { term, from, entries: tail.clone() });
        self.replace(term, tail);
    }
    /// The same of a log that was asked for when less may have been merged here: until the others have promised, what this
    /// node's disk was still writing may have become stable.
    pub fn adopt_tail(&mut self, term: Term, tail: &Tail<E>) {
        let begins = tail.end - tail.entries.len() as u64;
        assert!(begins <= self.merged && self.merged <= tail.end, "the best log has all that is merged");
        self.adopt(term, tail.entries[(self.merged - begins) as usize..].to_vec());
    }
    /// The same of entries that are recorded.
    fn replace(&mut self, term: Term, tail: Vec<E>) {
        self.lower_told(self.merged);
        self.log.truncate((self.merged - self.first) as usize);
        self.stamps.clear();
        self.accepted = term;
        let from = self.merged;
        self.disk.iter_mut().for_each(|disk| disk.replaced(from));
        tail.into_iter().for_each(|entry| self.keep(entry));
    }
    /// Entries from an index on are replaced by another leader's. They may come back with a later leader whose log they are
    /// still in, and its closed timestamps counted on their being here: what was told holds below their stamps only.
    fn lower_told(&mut self, from: u64) {
        let replaced = self.log.range((from - self.first) as usize..);
        if let Some(stamp) = replaced.map(Item::stamp).min()
            && stamp <= self.told
        {
            base::sometimes!("a closed timestamp was told of entries that are replaced");
            self.told = stamp.previous();
        }
    }
    /// This node leads from now on: what it has is the log.
    pub fn lead(&mut self, term: Term) {
        assert!(term > self.arriving.hearing, "a term is led by one");
        self.accepted = term;
        self.note(|| Change::Led { term });
        let probed = self.arriving.probed;
        self.arriving = Arriving { probed, ..Arriving::of(term, self.end(), self.end()) };
    }

    /// All that is kept, for a region that has merged `merged` entries and has nothing else: others may lack what it
    /// does not. `None` if what it lacks is not here any more.
    pub fn whole_tail(&self, merged: u64) -> Option<Tail<E>> {
        let entries = self.log.iter().cloned().collect();
        let tail = Tail { accepted: self.accepted, end: self.end(), granted: self.granted, entries };
        (self.first <= merged).then_some(tail)
    }
    /// The log for a candidate whose own one is of `accepted` and ends at `end`, and that has merged `merged`;
    /// `None` if what it lacks is not here.
    pub fn tail(&self, merged: u64, accepted: Term, end: u64) -> Option<Tail<E>> {
        let (is_better, own_end) = ((self.accepted, self.end()) > (accepted, end), self.end());
        let entries = match is_better {
            true if self.first > merged || own_end < merged => return None,
            true => self.log.range((merged - self.first) as usize..).cloned().collect(),
            false => Vec::new(),
        };
        Some(Tail { accepted: self.accepted, end: own_end, granted: self.granted, entries })
    }

    /// Entries before this are in as many regions as have to have them.
    pub fn stable_to(&mut self, stable: u64) {
        self.stable = self.stable.max(stable);
    }
    /// The same, this region among them as far as its disk has them.
    pub fn claim_to(&mut self, claimed: u64) {
        let stable = match &mut self.disk {
            Some(disk) => disk.claim(claimed),
            None => claimed,
        };
        self.stable_to(stable);
    }
    /// The next entry to merge.
    pub fn take(&mut self) -> Option<E> {
        if self.merged >= self.stable.min(self.end()) {
            return None;
        }
        let entry = if self.keeps {
            self.log[(self.merged - self.first) as usize].clone()
        } else {
            self.first += 1;
            self.log.pop_front().expect("it is here")
        };
        self.stamps.remove(&(entry.stamp(), self.merged));
        self.merged += 1;
        self.collected = self.collected.max(entry.collected());
        Some(entry)
    }
    /// Every replica has merged the entries before this.
    pub fn release(&mut self, everywhere: u64) {
        while self.first < everywhere.min(self.merged) {
            self.log.pop_front();
            self.first += 1;
        }
    }

    /// This node leads, and tells that no later entry is stamped at or below this. It counts among those who have
    /// granted it, should it have to promise to follow.
    pub fn tell(&mut self, closed: Rank) {
        self.granted.closed = self.granted.closed.max(closed);
        self.told = self.told.max(closed);
    }
    /// The same of versions that are collected.
    pub fn tell_collected(&mut self, collected: Rank) {
        self.granted.collected = self.granted.collected.max(collected);
    }
    /// Entries to come know versions up to here to be gone.
    pub fn collect(&mut self, collected: Rank) {
        self.collected = self.collected.max(collected);
    }
    /// The closed timestamp, if it has grown.
    pub fn lower(&mut self) -> Option<Rank> {
        let reached = self.stamps.first().map_or(self.told, |(stamp, _)| self.told.min(stamp.previous()));
        let has_grown = reached > self.closed;
        self.closed = reached.max(self.closed);
        has_grown.then_some(reached)
    }
}
