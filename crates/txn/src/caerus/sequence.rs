//! One region's partial sequence as a replica keeps it: a log that others have too, led in terms.
//!
//! IN: what leaders append, and how far that is stable. OUT: entries to merge, strictly in order, and the
//! rank up to which nothing more will come. KEEPS:
//! 1. the log is, up to its end, that of the leader of `accepted`: of two logs of one term one is the
//!    beginning of the other;
//! 2. what a new leader took over replaces the end of the log at once, when all of it is here: so a log never
//!    counts as the later term's without what that term began with;
//! 3. only stable entries are merged, and what was merged is never replaced: an entry is stable once K + 1
//!    regions hold it in one term, and every later leader has heard one of those (it needs the promises of all
//!    but K regions, and goes on with the log of the latest term, the longest of those);
//! 4. an entry is kept until every replica has merged it: whoever comes to lead has it for whoever lacks it;
//! 5. `low` is below the stamps of all that is here and not merged, and below those of all that will come.

use super::image::Merged;
use super::link::Inbox;
use super::message::{Append, Entry, Grant, Standing, Tail, Term};
use crate::graph::seen::Seen;
use base::{Rank, RegionId, Time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

#[derive(Clone, Debug, Default)]
pub(super) struct Sequence {
    /// Nobody below this term is followed here.
    pub promised: Term,
    /// The largest term heard of.
    pub highest: Term,
    /// The latest term that somebody is known to lead in, and since when it is known here.
    pub led_in: Term,
    pub led_at: Time,
    /// When a leader was heard last.
    pub heard_at: Time,
    /// See the module.
    pub accepted: Term,
    /// What arrives comes from this term's leader, who took over everything before `since`.
    hearing: Term,
    since: u64,
    inbox: Inbox<Entry>,
    /// Behind what is merged here, from a leader whose inheritance is not all here.
    staged: Vec<Entry>,
    /// Index of the first entry still kept.
    first: u64,
    log: VecDeque<Entry>,
    /// Entries are kept for others.
    keeps: bool,
    /// Entries may be here for a while before they are merged.
    waits: bool,
    /// Entries before this were merged.
    pub merged: u64,
    /// Entries before this are in as many regions as have to have them.
    pub stable: u64,
    /// Of entries that are here and not merged.
    stamps: BTreeSet<(Rank, u64)>,
    /// The leader's low.
    told: Rank,
    /// No entry that is merged from now on is stamped at or below this.
    pub low: Rank,
    /// Whoever is merged from now on aborts if it read below this.
    pub collected: Rank,
    /// Lows and the like that hold once everything before an index is here.
    early: BTreeMap<u64, (Rank, Rank)>,
    pub granted: Grant,
    /// The last probe of the term's leader.
    pub probed: u64,
    /// What was merged of it, where somebody may have to lead.
    pub seen: Seen,
}

impl Sequence {
    /// The sequence of a region, before its beginning.
    pub fn of(region: RegionId, keeps: bool, waits: bool) -> Sequence {
        let term = Term::from(region.0);
        Sequence {
            promised: term,
            highest: term,
            led_in: term,
            accepted: term,
            hearing: term,
            keeps,
            waits,
            ..Sequence::default()
        }
    }
    /// What is merged of it.
    pub fn image(&self) -> Merged {
        let (merged, low, collected) = (self.merged, self.low, self.collected);
        Merged { merged, low, collected, seen: self.seen.clone() }
    }
    /// Begins where another node's merger stands; nothing behind that is here.
    pub fn take_over(&mut self, image: Merged) {
        let Merged { merged, low, collected, seen } = image;
        (self.first, self.merged, self.stable) = (merged, merged, merged);
        (self.told, self.low, self.collected, self.seen) = (low, low, collected, seen);
        self.log.clear();
        self.stamps.clear();
        self.inbox = Inbox::starting_at(merged);
    }
    /// Has promised what any of these regions has, and has the best of their logs, as a new leader would.
    pub fn stand_with(&mut self, now: Time, others: Vec<Standing>) {
        let mut best: Option<Tail> = None;
        for other in others {
            let Standing { promised, highest, led_in, tail } = other;
            self.promised = self.promised.max(promised);
            self.highest = self.highest.max(highest).max(promised);
            self.led_in = self.led_in.max(led_in);
            let Some(tail) = tail else { continue };
            self.granted = self.granted.max(tail.granted);
            if best.as_ref().is_none_or(|best| (best.accepted, best.end) < (tail.accepted, tail.end)) {
                best = Some(tail);
            }
        }
        (self.heard_at, self.led_at) = (now, now);
        let Some(best) = best else { return };
        assert!(best.end >= self.merged, "what was merged somewhere is in the best of so many logs");
        self.first = best.end - best.entries.len() as u64;
        let mut kept: VecDeque<Entry> = best.entries.into();
        let tail = kept.split_off((self.merged - self.first) as usize);
        self.log = kept;
        self.adopt(best.accepted, tail.into());
        self.promised = self.promised.max(best.accepted);
        (self.hearing, self.since) = (best.accepted, self.end());
        self.inbox = Inbox::starting_at(self.end());
    }
    /// Everything before it is in the log.
    pub fn end(&self) -> u64 {
        self.first + self.log.len() as u64
    }
    /// Everything that the leader took over is here.
    pub fn is_caught_up(&self) -> bool {
        self.accepted == self.led_in && self.merged >= self.since && !self.inbox.has_gap()
    }
    /// Whether all entries before `end` of the log of `term`'s leader are merged here, as far as they are not lost.
    pub fn covers(&self, term: Term, end: u64) -> bool {
        // What a later leader did not take over is gone.
        let taken_over = self.accepted == self.hearing && self.accepted > term;
        self.merged >= if taken_over { end.min(self.since) } else { end }
    }
    #[cfg(test)]
    pub fn is_settled(&self) -> bool {
        self.log.is_empty() && self.staged.is_empty() && self.stamps.is_empty()
    }

    /// Takes what a leader sends, of no lower term than anything before; answers up to where everything has
    /// arrived, and whether something lacks.
    pub fn receive(&mut self, append: &mut Append) -> (u64, bool) {
        let Append { term, since, first, low, collected, .. } = *append;
        assert!(term >= self.hearing, "a leader that was followed is not followed by an earlier one");
        if term > self.hearing {
            (self.hearing, self.since, self.probed) = (term, since, 0);
            self.inbox = Inbox::starting_at(self.merged);
            self.staged.clear();
            self.early.clear();
        }
        let end = first + append.entries.len() as u64;
        let mut ready = Vec::new();
        self.inbox.receive(first, std::mem::take(&mut append.entries), &mut ready);
        let next = self.inbox.next();
        if self.accepted == term {
            ready.into_iter().for_each(|entry| self.push(entry));
        } else {
            self.staged.extend(ready);
            if next >= since {
                base::sometimes!("a replica goes over to another leader's log");
                let staged = std::mem::take(&mut self.staged);
                self.adopt(term, staged);
            }
        }
        if low > self.told {
            let early = self.early.entry(end).or_default();
            *early = (low.max(early.0), collected.max(early.1));
        }
        while self.accepted == term
            && let Some(entry) = self.early.first_entry()
            && *entry.key() <= next
        {
            let (low, collected) = entry.remove();
            self.told = self.told.max(low);
            self.collected = self.collected.max(collected);
        }
        (next, self.inbox.has_gap() || next < end)
    }

    /// One more entry, of the term that the log is of.
    pub fn push(&mut self, entry: Entry) {
        if self.keeps || self.waits {
            self.stamps.insert((entry.stamp, self.end()));
        }
        self.log.push_back(entry);
    }

    /// The log behind what is merged becomes this, the one of `term`'s leader.
    pub fn adopt(&mut self, term: Term, tail: Vec<Entry>) {
        self.log.truncate((self.merged - self.first) as usize);
        self.stamps.clear();
        self.accepted = term;
        tail.into_iter().for_each(|entry| self.push(entry));
    }

    /// This node leads from now on: what it has is the sequence.
    pub fn lead(&mut self, now: Time, term: Term) {
        assert!(term > self.hearing, "a term is led by one");
        (self.accepted, self.hearing, self.led_in, self.led_at) = (term, term, term, now);
        self.since = self.end();
        self.inbox = Inbox::starting_at(self.end());
        self.staged.clear();
        self.early.clear();
    }

    /// All that is kept, for a region that has merged `merged` entries and has nothing else: others may lack what it
    /// does not. `None` if what it lacks is not here any more.
    pub fn whole_tail(&self, merged: u64) -> Option<Tail> {
        let entries = self.log.iter().cloned().collect();
        let tail = Tail { accepted: self.accepted, end: self.end(), granted: self.granted, entries };
        (self.first <= merged).then_some(tail)
    }

    /// The log for a candidate whose own one is of `accepted` and ends at `end`, and that has merged `merged`;
    /// `None` if what it lacks is not here.
    pub fn tail(&self, merged: u64, accepted: Term, end: u64) -> Option<Tail> {
        let (is_better, own_end) = ((self.accepted, self.end()) > (accepted, end), self.end());
        let entries = match is_better {
            true if self.first > merged || own_end < merged => return None,
            true => self.log.range((merged - self.first) as usize..).cloned().collect(),
            false => Vec::new(),
        };
        Some(Tail { accepted: self.accepted, end: own_end, granted: self.granted, entries })
    }

    /// What is kept, and the index of the first of it.
    pub fn kept(&self) -> (u64, &VecDeque<Entry>) {
        (self.first, &self.log)
    }

    /// What is here and not merged.
    pub fn unmerged(&self) -> impl Iterator<Item = &Entry> {
        self.log.range((self.merged - self.first) as usize..).chain(&self.staged)
    }

    /// The next entry to merge.
    pub fn take(&mut self) -> Option<Entry> {
        if self.merged >= self.stable.min(self.end()) {
            return None;
        }
        let entry = if self.keeps {
            self.log[(self.merged - self.first) as usize].clone()
        } else {
            self.first += 1;
            self.log.pop_front().expect("it is here")
        };
        self.stamps.remove(&(entry.stamp, self.merged));
        self.merged += 1;
        self.collected = self.collected.max(entry.collected);
        Some(entry)
    }

    /// Every replica has merged the entries before this.
    pub fn release(&mut self, everywhere: u64) {
        while self.first < everywhere.min(self.merged) {
            self.log.pop_front();
            self.first += 1;
        }
    }

    /// The leader tells that no later entry of its log is stamped at or below this.
    pub fn told(&mut self, low: Rank) {
        self.told = self.told.max(low);
    }

    /// What `low` may be now.
    pub fn reached(&self) -> Rank {
        self.stamps.first().map_or(self.told, |(stamp, _)| self.told.min(stamp.previous()))
    }
}
