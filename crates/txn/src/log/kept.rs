//! A log on disk: what is recorded of it, how far that is stable, and what its leader may tell until more is.
//!
//! IN: changes of the log, and how many of the node's records are stable. OUT: changes to record, numbered in the order
//! of the node's records. KEEPS:
//! 1. a change is handed out before anything that the node says because of it: whoever hears of it hears of what the
//!    disk has, provided that what is sent waits for the records before it;
//! 2. an entry that this node has to have counts once it is stable here ([`Disk::claim`]);
//! 3. a leader's closed timestamp, and what it tells to be collected, stay at or below a *ceiling* that is stable. The
//!    ceiling is raised by [`Times::ceiling_ns`](super::Times) at a time, so it costs a record in half of that, however
//!    often closed timestamps are told; a leader that comes back stamps above it, as if all of it had been told.
//!
//! 4. others let go of entries that this node has merged only once its disk knows them to be stable: then it needs them
//!    from nobody when it comes back.
//!
//! A checkpoint says what was merged. What is behind that and known to be stable is merged again at once, the rest once a
//! leader has said that it is stable.

use super::group::Term;
use super::said::Grant;
use base::Rank;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// A change of a log. Repeated in order, all of them lead a log to where it was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Change<E> {
    /// The leader of a term is followed, who took over everything before `since`; its log arrives from `from` on.
    Heard { term: Term, since: u64, from: u64 },
    /// The next entry of whoever is followed, or of this node where it leads.
    Entry { index: u64, entry: E },
    /// The log from an index on becomes this, of the leader of a term.
    Adopted { term: Term, from: u64, entries: Vec<E> },
    /// This node leads in a term, with all that it has.
    Led { term: Term },
    /// Entries before this are stable. Recorded before anybody hears that they are merged here, along with other changes.
    Stable { index: u64 },
    /// Nobody below `promised` is followed; terms up to `highest` have been heard of.
    Terms { promised: Term, highest: Term },
    /// What other nodes may tell, or this one where it leads.
    Granted(Grant),
}

/// A log in a checkpoint, with what is not merged and what others may lack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kept<E> {
    pub(super) promised: Term,
    pub(super) highest: Term,
    pub(super) accepted: Term,
    pub(super) granted: Grant,
    /// Index of the first entry.
    pub(super) first: u64,
    pub(super) entries: Vec<E>,
    pub(super) merged: u64,
    pub(super) told: Rank,
    pub(super) closed: Rank,
    pub(super) collected: Rank,
    pub(super) hearing: Term,
    pub(super) since: u64,
    pub(super) from: u64,
    pub(super) staged: Vec<E>,
}

impl<E> Kept<E> {
    /// The same log among other nodes, which all have all of it: its terms begin anew with the one that its home region
    /// leads in, and whoever leads goes on above what was told (`floor`). `None`: something of it is not merged.
    pub fn begun_anew(self, home: Term, floor: Grant) -> Option<Kept<E>> {
        let end = self.first + self.entries.len() as u64;
        if self.merged != end || !self.staged.is_empty() {
            return None;
        }
        Some(Kept {
            promised: home,
            highest: home,
            accepted: home,
            hearing: home,
            granted: self.granted.max(floor),
            first: end,
            entries: Vec::new(),
            since: end,
            from: end,
            ..self
        })
    }
}

/// What is known of a log's records.
#[derive(Clone, Debug)]
pub(super) struct Disk<E> {
    /// Changes to record.
    changes: Vec<Change<E>>,
    /// Entries before this are stable as far as they are stable here.
    claimed: u64,
    /// The end of the log as of a record.
    ends: VecDeque<(u64, u64)>,
    /// Entries before this are stable here.
    synced: u64,
    /// The end has to be noted with the next number.
    is_changed: bool,
    /// What was recorded last.
    pub terms: (Term, Term),
    pub granted: Grant,
    /// Entries before this are recorded to be stable.
    pub settled: u64,
    ceilings: VecDeque<(u64, Grant)>,
    /// What the leader may tell.
    ceiling: Grant,
    /// What it would tell, and is not stable.
    wanted: Grant,
    /// The largest closed timestamp that could not be told for lack of a ceiling.
    short_of: Option<Rank>,
}

impl<E> Disk<E> {
    /// Of a log that begins, or that has come back with all of this stable.
    pub fn with((settled, end): (u64, u64), terms: (Term, Term), granted: Grant) -> Disk<E> {
        Disk {
            changes: Vec::new(),
            claimed: 0,
            ends: VecDeque::new(),
            synced: end,
            is_changed: false,
            terms,
            granted,
            settled,
            ceilings: VecDeque::new(),
            ceiling: granted,
            wanted: granted,
            short_of: None,
        }
    }
    /// Entries before this are stable as far as they are here; answers how far that is.
    pub fn claim(&mut self, claimed: u64) -> u64 {
        self.claimed = self.claimed.max(claimed);
        self.claimed.min(self.synced)
    }
    /// Entries before this are on this node's disk.
    pub fn synced(&self) -> u64 {
        self.synced
    }
    pub fn ceiling(&self) -> Grant {
        self.ceiling
    }
    pub fn wanted(&self) -> Grant {
        self.wanted
    }
    /// Entries from an index on are replaced: those before are stable no further.
    pub fn replaced(&mut self, from: u64) {
        self.ends.clear();
        (self.synced, self.claimed) = (self.synced.min(from), self.claimed.min(from));
        self.is_changed = true;
    }
    /// Something changes: it has to be recorded.
    pub fn change(&mut self, change: Change<E>) {
        self.is_changed = true;
        self.changes.push(change);
    }
    pub fn take_changes(&mut self) -> Vec<Change<E>> {
        std::mem::take(&mut self.changes)
    }
    /// So many records were emitted, the last of them of this log; as of then it ends here.
    pub fn numbered(&mut self, number: u64, end: u64, granted: Option<Grant>) {
        if self.is_changed {
            self.is_changed = false;
            self.ends.push_back((number, end));
        }
        if let Some(granted) = granted {
            self.granted = granted;
            self.ceilings.push_back((number, granted));
        }
    }
    /// So many records are stable; answers up to where entries are, as far as was claimed.
    pub fn stable(&mut self, records: u64) -> u64 {
        while let Some((_, end)) = self.ends.pop_front_if(|(number, _)| *number <= records) {
            self.synced = end;
        }
        while let Some((_, granted)) = self.ceilings.pop_front_if(|(number, _)| *number <= records) {
            self.ceiling = granted;
        }
        self.claimed.min(self.synced)
    }
    /// A leader would tell this closed timestamp; answers up to where it may, and sees to it that it may more later.
    pub fn bound(&mut self, closed: Rank, collected: Rank, ceiling_ns: u64) -> Rank {
        if closed + ceiling_ns / 2 > self.wanted.closed {
            let closed = (closed + ceiling_ns).max(self.wanted.closed);
            self.wanted = Grant { closed, collected: collected.max(self.wanted.collected) };
        }
        if closed > self.ceiling.closed {
            self.short_of = self.short_of.max(Some(closed));
        }
        closed.min(self.ceiling.closed)
    }
    /// The largest closed timestamp that could not be told and may be now.
    pub fn take_short(&mut self) -> Option<Rank> {
        self.short_of.take_if(|closed| *closed <= self.ceiling.closed)
    }
}
