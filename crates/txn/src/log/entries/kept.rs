//! A log's entries on disk; see [`kept`](super::super::kept).

use super::super::kept::{Change, Disk, Kept};
use super::super::said::Grant;
use super::{Arriving, Entries, Item};
use crate::log::Term;

impl<E: Item> Entries<E> {
    /// Changes are recorded from now on.
    pub fn record(&mut self, terms: (Term, Term)) {
        self.disk = Some(Box::new(Disk::with((self.stable, self.end()), terms, self.granted)));
    }
    /// What is recorded, if anything is.
    pub fn disk(&mut self) -> Option<&mut Disk<E>> {
        self.disk.as_deref_mut()
    }
    /// The same, to look at.
    pub fn disk_seen(&self) -> Option<&Disk<E>> {
        self.disk.as_deref()
    }
    pub(super) fn note(&mut self, change: impl FnOnce() -> Change<E>) {
        if let Some(disk) = &mut self.disk {
            disk.change(change());
        }
    }
    /// Changes that were not handed out; `number` counts the node's records.
    pub fn take_changes(&mut self, terms: (Term, Term), number: &mut u64) -> Vec<Change<E>> {
        let (end, granted, merged) = (self.end(), self.granted, self.merged);
        let Some(disk) = &mut self.disk else { return Vec::new() };
        let mut changes = disk.take_changes();
        if disk.terms != terms {
            disk.terms = terms;
            changes.push(Change::Terms { promised: terms.0, highest: terms.1 });
        }
        let granted = granted.max(disk.wanted()).max(disk.granted);
        let granted = (granted != disk.granted).then_some(granted);
        changes.extend(granted.map(Change::Granted));
        if self.keeps && !changes.is_empty() && merged > disk.settled {
            disk.settled = merged;
            changes.push(Change::Stable { index: merged });
        }
        *number += changes.len() as u64;
        disk.numbered(*number, end, granted);
        changes
    }
    /// So many of the node's records are stable; whether more entries are.
    pub fn synced(&mut self, records: u64) -> bool {
        let Some(disk) = &mut self.disk else { return false };
        let (stable, before) = (disk.stable(records), self.stable);
        self.stable_to(stable);
        self.stable > before
    }

    /// For a checkpoint. `outbox`: what others may lack, of what is merged and not kept.
    pub fn to_keep(&self, (promised, highest): (Term, Term), outbox: Option<(u64, Vec<E>)>) -> Kept<E> {
        let granted = self.disk.as_ref().map_or(self.granted, |disk| self.granted.max(disk.granted));
        let (mut first, mut entries) = (self.first, Vec::new());
        if let Some((from, lacking)) = outbox.filter(|(from, _)| *from < first) {
            entries.extend(lacking.into_iter().take((first - from) as usize));
            first = from;
        }
        entries.extend(self.log.iter().cloned());
        Kept {
            promised,
            highest,
            accepted: self.accepted,
            granted,
            first,
            entries,
            merged: self.merged,
            told: self.told,
            closed: self.closed,
            collected: self.collected,
            hearing: self.arriving.hearing,
            since: self.arriving.since,
            from: self.arriving.from,
            staged: self.arriving.staged.clone(),
        }
    }
    /// Is what a checkpoint says, before anything else.
    pub fn take_kept(&mut self, kept: Kept<E>) {
        self.accepted = kept.accepted;
        (self.first, self.merged, self.stable) = (kept.first, kept.merged, kept.merged);
        (self.told, self.closed, self.collected) = (kept.told, kept.closed, kept.collected);
        self.granted = kept.granted;
        self.log = kept.entries.into();
        let next = kept.from + kept.staged.len() as u64;
        self.arriving = Arriving::of(kept.hearing, kept.since, next);
        (self.arriving.from, self.arriving.staged) = (kept.from, kept.staged);
    }
    /// Repeats a change; false: it does not follow from those before.
    pub fn replay(&mut self, change: Change<E>) -> bool {
        match change {
            Change::Heard { term, since, from } => {
                self.arriving = Arriving::of(term, since, from);
                self.adopt_replayed();
            }
            Change::Entry { index, entry } if self.accepted == self.arriving.hearing => {
                if index != self.end() {
                    return false;
                }
                self.log.push_back(entry);
            }
            Change::Entry { index, entry } => {
                if index != self.arriving.from + self.arriving.staged.len() as u64 {
                    return false;
                }
                self.arriving.staged.push(entry);
                self.adopt_replayed();
            }
            Change::Adopted { term, from, entries } => return self.replace_replayed(term, from, entries),
            Change::Led { term } => {
                self.accepted = term;
                self.arriving = Arriving::of(term, self.end(), self.end());
            }
            Change::Stable { index } => self.stable = self.stable.max(index),
            Change::Granted(granted) => self.granted = self.granted.max(granted),
            Change::Terms { .. } => {}
        }
        true
    }
    /// All that a leader took over is here.
    fn adopt_replayed(&mut self) {
        let arriving = &mut self.arriving;
        let next = arriving.from + arriving.staged.len() as u64;
        if self.accepted != arriving.hearing && next >= arriving.since {
            let (term, from, staged) =
                (arriving.hearing, arriving.from, std::mem::take(&mut arriving.staged));
            self.replace_replayed(term, from, staged);
        }
    }
    fn replace_replayed(&mut self, term: Term, from: u64, entries: Vec<E>) -> bool {
        if from < self.first || self.end() < from {
            return false;
        }
        self.lower_told(from);
        self.log.truncate((from - self.first) as usize);
        self.log.extend(entries);
        self.accepted = term;
        true
    }
    /// Everything was repeated. What is merged and nobody lacks is let go of later, where it is kept for others.
    pub fn restarted(&mut self, terms: (Term, Term)) {
        let unmerged = self.log.iter().skip((self.merged - self.first) as usize);
        let stamps: Vec<_> = unmerged.map(Item::stamp).zip(self.merged..).collect();
        self.stamps = stamps.into_iter().collect();
        self.record(terms);
        // What is behind a gap comes again.
        let arriving = &mut self.arriving;
        let next = match self.accepted == arriving.hearing {
            true => self.first + self.log.len() as u64,
            false => arriving.from + arriving.staged.len() as u64,
        };
        arriving.inbox = crate::log::link::Inbox::starting_at(next);
    }
    /// Entries that are merged and that nobody here keeps for others; the index of the first.
    pub fn split_merged(&mut self) -> (u64, Vec<E>) {
        let first = self.first;
        if self.keeps {
            return (first, Vec::new());
        }
        let merged = self.log.drain(..(self.merged - self.first) as usize).collect();
        self.first = self.merged;
        (first, merged)
    }
    /// The term of the leader that is followed, whose log may not be all here.
    pub fn hearing(&self) -> Term {
        self.arriving.hearing
    }
    /// What this node grants as of its disk.
    pub fn granted_on_disk(&self) -> Grant {
        self.granted
    }
}
