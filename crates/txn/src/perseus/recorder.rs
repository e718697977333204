//! What this node has recorded in this life, how far that is stable, and what waits for it.
//!
//! IN: records, how many of them are stable. OUT: up to where ranks may be closed, whose turn may go on. KEEPS: nothing is
//! closed above a ceiling that is stable; what waits for a record goes on once, when that record is stable.

use super::message::Dependency;
use crate::graph::participants::Participants;
use crate::graph::vertex::Ref;
use base::order::{Close, CloseTicket};
use base::txn::Gathered;
use base::{PartitionId, Rank, Time, TxnId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Up to where this node's promises of time may go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ceiling {
    /// What its clock may show.
    pub clock: Time,
    /// What it may close.
    pub closed: Rank,
}

/// A transaction that has its place, with what led to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Placed {
    pub txn: TxnId,
    /// Of one that takes no part here.
    pub participants: Option<Participants>,
    pub dependencies: Vec<TxnId>,
    pub cts: Rank,
    pub noop: bool,
    pub rank: Rank,
    pub after: Rank,
}

/// What other nodes have read for a transaction.
pub(super) type Reads = (TxnId, Vec<(PartitionId, Gathered)>);

/// What became of transactions since that was recorded last: those that have their places, dependencies first, and what
/// others have read for those that executed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Ended {
    pub placed: Vec<Placed>,
    pub reads: Vec<Reads>,
}

impl Ended {
    pub fn is_empty(&self) -> bool {
        self.placed.is_empty() && self.reads.is_empty()
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Recorder {
    emitted: u64,
    stable: u64,
    /// Stable.
    ceiling: Ceiling,
    /// Recorded, with the numbers of the records; and the last of them.
    ceilings: VecDeque<(u64, Ceiling)>,
    wanted: Ceiling,
    /// Not recorded yet.
    pub ended: Ended,
    /// Whose turn has come, and the record that each waits for.
    unsynced: BTreeSet<(u64, Ref)>,
    /// Readers that wait for a ceiling.
    closes: BTreeMap<CloseTicket, Close>,
    /// It has come back with what its disk had, and has not started yet.
    pub is_back: bool,
    /// It has started.
    pub has_begun: bool,
    /// What can go on with what its disk had was not looked at.
    pub lags: bool,
    /// What has been repeated: places, and reads of others.
    repeated: (BTreeSet<TxnId>, BTreeSet<TxnId>),
    /// What former lives may have executed and this one has not, since it has started; `None`: its logs have all of it.
    behind: Option<BTreeSet<Ref>>,
}

impl Recorder {
    /// One more record; its number.
    pub fn count(&mut self) -> u64 {
        self.emitted += 1;
        self.emitted
    }
    pub fn is_stable(&self, number: u64) -> bool {
        number <= self.stable
    }
    /// Waits for a record to execute.
    pub fn wait(&mut self, number: u64, at: Ref) {
        self.unsynced.insert((number, at));
    }

    pub fn ceiling(&self) -> Ceiling {
        self.ceiling
    }
    /// The last that was recorded.
    pub fn wanted(&self) -> Ceiling {
        self.wanted
    }
    pub fn raise(&mut self, number: u64, ceiling: Ceiling) {
        self.wanted = ceiling;
        self.ceilings.push_back((number, ceiling));
    }
    /// One that a former life has recorded.
    pub fn restore(&mut self, ceiling: Ceiling) {
        let clock = self.ceiling.clock.max(ceiling.clock);
        self.ceiling = Ceiling { clock, closed: self.ceiling.closed.max(ceiling.closed) };
        self.wanted = self.ceiling;
    }

    /// A reader asks for a rank above the ceiling.
    pub fn hold(&mut self, ticket: CloseTicket, close: Close) {
        self.closes.insert(ticket, close);
    }
    pub fn cancel(&mut self, ticket: CloseTicket) {
        self.closes.remove(&ticket);
    }
    pub fn held_count(&self) -> usize {
        self.closes.len()
    }

    /// So many records are stable; whose turn it is, and readers that may go on.
    pub fn synced(&mut self, records: u64) -> (Vec<Ref>, Vec<(CloseTicket, Close)>) {
        self.stable = self.stable.max(records);
        while let Some((_, ceiling)) = self.ceilings.pop_front_if(|(number, _)| *number <= records) {
            self.ceiling = ceiling;
        }
        let mut ready = Vec::new();
        while let Some(&(number, at)) = self.unsynced.first()
            && number <= records
        {
            self.unsynced.pop_first();
            ready.push(at);
        }
        let closed = self.ceiling.closed;
        let open = self.closes.extract_if(.., |_, close| close.rank <= closed).collect();
        (ready, open)
    }

    /// These are on disk already.
    pub fn repeated(&mut self, placed: &[Placed], reads: &[Reads]) {
        let Recorder { ended, repeated: (places, with_reads), .. } = self;
        places.extend(placed.iter().map(|placed| placed.txn));
        with_reads.extend(reads.iter().map(|(txn, _)| *txn));
        ended.placed.retain(|placed| !places.contains(&placed.txn));
        ended.reads.retain(|(txn, _)| !with_reads.contains(txn));
    }
    pub fn has_place(&self, txn: TxnId) -> bool {
        self.repeated.0.contains(&txn)
    }
    pub fn has_reads(&self, txn: TxnId) -> bool {
        self.repeated.1.contains(&txn)
    }
    /// Nothing is repeated any more.
    pub fn begin(&mut self) {
        (self.repeated, self.lags) = (Default::default(), true);
    }

    /// Logs lack these, which former lives may have executed.
    pub fn fall_behind(&mut self, lacking: BTreeSet<Ref>) {
        self.behind = Some(lacking);
    }
    pub fn is_behind(&self) -> bool {
        self.is_back || self.behind.is_some()
    }
    /// A transaction has executed.
    pub fn executed(&mut self, at: Ref) {
        if let Some(lacking) = &mut self.behind {
            lacking.remove(&at);
        }
    }
    /// Whether logs have just become what they were; says so once.
    pub fn catches_up(&mut self) -> bool {
        self.behind.take_if(|lacking| lacking.is_empty()).is_some()
    }

    pub fn place(&mut self, placed: Placed) {
        self.ended.placed.push(placed);
    }
    pub fn take_ended(&mut self) -> Ended {
        std::mem::take(&mut self.ended)
    }
}

impl Placed {
    pub fn decision(&self, name: impl Fn(TxnId) -> Option<Dependency>) -> super::message::Decision {
        let dependencies = self.dependencies.iter().filter_map(|txn| name(*txn)).collect();
        super::message::Decision { dependencies, cts: self.cts, noop: self.noop }
    }
}
