//! What members tell each other.
//!
//! | message | from | to | carries | when |
//! |---|---|---|---|---|
//! | `WriteSet` | a member | all others, newcomers | one transaction that asks to commit, numbered within its epoch | at once; again, of any member, to who asked |
//! | `EndOfEpoch` | a member | all others, newcomers | which epochs were closed, how many write sets the first of them has | an epoch ends; again, of any member, to who asked |
//! | `Alive` | a member, a newcomer | all others | how far it is | nothing else was said for a while; with quorum exposure also when an epoch with transactions is complete |
//! | `Pull` | a member, a newcomer | one other | whose epochs are wanted again, and from where on | something of them is missing |
//! | `Prepare`, `Promise`, `Accept`, `Accepted`, `Outvoted` | a member | the others | an attempt to change the membership | a member is lost, a newcomer is ready |
//! | `Changes` | a member | anybody | changes of the membership that are agreed | decided; somebody knows fewer |
//! | `Join` | a newcomer | all others | its incarnation, whether it keeps up | again and again until it is let in |
//! | `OldLife` | a member | a newcomer | the incarnation that is known | a `Join` of an older one |
//! | `CopyWanted`, `CopyPart`, `CopyEnded` | a newcomer, its donor | each other | blocks of a copy | a node has lost its memory or its seat |
//!
//! The paper's names: a write set and `EOF` of §5.1; `sen`, `cen`, `csn` of §4.1 are [`Payload::start`], the epoch of the
//! `WriteSet`, and [`Payload::clock`] with the member.

use super::membership::{Ballot, Change, Standing};
use super::merge::{Claim, Isolation, Precedence};
use crate::donor::{CopyId, Part};
use base::txn::{ClientRequest, Outcome, ReadGranule, Transaction};
use base::write_set::WriteSet;
use base::{Key, NodeId, PartitionId, Rank, TableId, TxnId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// An epoch's number. Epoch e has the ranks in `((e − 1) · length, e · length]`; 0 has nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Epoch(pub u64);

impl Epoch {
    pub fn next(self) -> Epoch {
        Epoch(self.0 + 1)
    }
    pub fn previous(self) -> Epoch {
        Epoch(self.0.saturating_sub(1))
    }
}

/// A member: a node, and the change of the membership that let it in; 0, it was there at the beginning. A node that was
/// removed comes back on another seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Seat {
    pub node: NodeId,
    pub since: u64,
}

/// A transaction that asks to commit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Payload {
    pub txn: TxnId,
    /// The epoch in which it started, as the catch-all of how long it has run (sen).
    pub start: Epoch,
    /// A clock reading of its member, made to grow (csn, without the member).
    pub clock: u64,
    pub level: Isolation,
    /// The snapshot that it was evaluated at (lsn).
    pub snapshot: Rank,
    /// The oldest of what it has read: a block has read before it was evaluated.
    pub read_at: Rank,
    /// What its client calls it, and its results: whoever is asked again answers the same.
    pub request: Option<(ClientRequest, Outcome)>,
    pub body: Body,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Body {
    Writes {
        /// What it rests on. Not shipped where its level does not ask.
        reads: Vec<ReadGranule>,
        /// By participant.
        writes: BTreeMap<PartitionId, WriteSet>,
        /// Of the rows that it writes, those that were there.
        present: BTreeSet<(PartitionId, TableId, Key)>,
    },
    /// A change of the catalog: executed at its place, by everybody.
    Program(Transaction),
    /// Takes the name of its request, and nothing else.
    GiveUp,
}

/// What at most one transaction of an epoch may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Item<'a> {
    /// A row, or an entry of a unique index.
    Key(TableId, &'a Key),
    Request(ClientRequest),
}

impl Payload {
    pub fn precedence(&self) -> Precedence {
        let changes_catalog = matches!(self.body, Body::Program(_));
        Precedence::new(changes_catalog, self.start, (self.clock, self.txn.coordinator))
    }
    pub fn claim(&self) -> Claim<Item<'_>> {
        let request = self.request.iter().map(|(request, _)| Item::Request(*request));
        match &self.body {
            Body::Program(_) => Claim::Catalog,
            Body::GiveUp => Claim::Items(request.collect()),
            Body::Writes { writes, .. } => {
                let items = writes.values().flat_map(WriteSet::items);
                Claim::Items(items.map(|(table, key)| Item::Key(table, key)).chain(request).collect())
            }
        }
    }
}

/// Epochs that a member has closed: it will add nothing to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// The only one of them that may have transactions.
    pub first: Epoch,
    pub last: Epoch,
    /// Write sets of `first`.
    pub count: u32,
    /// Nothing that this member sends later has read below this rank.
    pub floor: Rank,
}

/// How far a member is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Who says so; `None`: a newcomer.
    pub seat: Option<Seat>,
    pub incarnation: u32,
    /// So many changes of the membership it knows.
    pub known: u64,
    /// The latest change that it takes part in deciding, or knows. What it says to have counts for nobody who knows
    /// fewer: see `membership`.
    pub stage: u64,
    /// Of each member it has everything up to here.
    pub have: BTreeMap<Seat, Epoch>,
    /// The last epoch that it has published.
    pub published: Epoch,
    /// The last of these that decided something, and the digest of all decisions up to there.
    pub decided: (Epoch, u64),
    /// Members that it has not heard for long.
    pub doubts: BTreeSet<Seat>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Message {
    WriteSet {
        of: Seat,
        epoch: Epoch,
        number: u32,
        payload: Arc<Payload>,
    },
    /// `is_busy`: its clients are at work, and would have the others keep pace.
    EndOfEpoch {
        of: Seat,
        segment: Segment,
        progress: Progress,
        is_busy: bool,
    },
    Alive {
        progress: Progress,
    },
    Pull {
        of: Seat,
        from: Epoch,
    },
    Prepare {
        ballot: Ballot,
    },
    /// `accepted`: what it has accepted of this change in earlier ballots.
    Promise {
        ballot: Ballot,
        standing: Standing,
        accepted: Option<(Ballot, Change)>,
    },
    Accept {
        ballot: Ballot,
        change: Change,
    },
    Accepted {
        ballot: Ballot,
    },
    /// A later attempt was promised.
    Outvoted {
        ballot: Ballot,
    },
    /// The changes after the first `after`.
    Changes {
        after: u64,
        changes: Vec<Change>,
    },
    Join {
        known: u64,
        incarnation: u32,
        is_ready: bool,
    },
    OldLife {
        incarnation: u32,
    },
    CopyWanted {
        copy: CopyId,
        from: u32,
    },
    /// `by`: the life of the donor that makes the copy. `of`: how many blocks there are, once the donor knows.
    CopyPart {
        copy: CopyId,
        by: u32,
        number: u32,
        of: Option<u32>,
        part: Part,
    },
    CopyEnded {
        copy: CopyId,
    },
}
