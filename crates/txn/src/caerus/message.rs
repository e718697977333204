//! What nodes tell each other, and what they remind themselves of.
//!
//! Terms count per sequence. A term belongs to the region `term % regions`, so no two regions ever lead in the
//! same one; a sequence begins in the term that is its region's number.
//!
//! Every message may be lost, repeated or reordered; its sender asks again. "Leader" is the node that leads a sequence,
//! "replica" a node that keeps it, "candidate" a region that would take a sequence over.
//!
//! | command | from | to | carries | when |
//! |---|---|---|---|---|
//! | `Submit` | gateway | leader of each of the regions | transactions, numbered on this link | a client submits; again after a silence |
//! | `SubmitAck` | leader | gateway | the number up to which all have arrived | a `Submit` came |
//! | `Append` | leader | replicas | entries, what is stable, the closed timestamp | a batch has gathered; as a heartbeat; again after a silence |
//! | `AppendAck` | replica | leader | what has arrived, what is merged, how far the leader may promise | an `Append` came |
//! | `LeftBehind` | leader | replica | the first entry that is kept | the replica lacks entries that are gone: it needs a copy |
//! | `Executed` | node that executed | gateway | the transaction that took effect, its rank, a share of the result | the transaction has executed in the answering region |
//! | `OutcomeWanted` | gateway | node that executed | id | `Executed` is overdue |
//! | `Reads` | node | nodes of its region that take part | what its partitions read | a transaction's turn has come there |
//! | `ReadsWanted` | node | node of its region | id | its reads are overdue |
//! | `CloseWanted` | replica | leader | a rank | a reader waits for a closed timestamp of at least this |
//! | `Calibrate` | replica | leader | number of the question | a reader needs the end of the sequence (clocks without a bound) |
//! | `Calibrated` | leader | replica | the end of the sequence | it leads still, as K others have confirmed |
//! | `Suspect` | region | regions | a later term | it hears nothing of the leader |
//! | `Agreed` | region | candidate | the term | it hears nothing of the leader either |
//! | `Elect` | candidate | regions | the term, how far its own log goes | enough regions agree |
//! | `Promise` | region | candidate | its log's end, what it has granted | it takes nothing of lower terms from now on |
//! | `Overtaken` | replica | the sender | the term that it has promised | a message of a lower term came |
//! | `Leads` | leader | nodes that do not keep the sequence | the term | it leads in another region's stead, or hands the sequence back |
//! | `Resigns` | leader | regions | its term | its process is about to end: another region should lead |
//! | `Prepare` | leader of the log of all regions | regions | term and round | first round of Paxos for each entry (baselines) |
//! | `Prepared` | region | leader | term and round | second half of that round |
//! | `Homes` | sequencer | nodes of its region without a copy | homes that have moved | a move has its place |
//! | `Progress` | node | collector | the rank up to which it has executed, delays measured | periodically |
//! | `Watermark` | collector | nodes | the rank below which everything may be forgotten, delays between regions | periodically |
//! | `CopyWanted` | recovering node | donor | name of the copy, number of the next block | it has lost its memory |
//! | `CopyPart` | donor | recovering node | a block of rows or of the merger's state | `CopyWanted` came |
//! | `CopyEnded` | donor | recovering node | name of the copy | the copy cannot be finished: the catalog has changed, or the donor has let go of it |
//! | `Rejoin` | recovering node | regions | its new life, how far its copy goes | it has a copy |
//! | `Rejoined` | region | recovering node | promises, grants and the end of each log | it has noted the new life |

use crate::log::{self, Said};
pub use crate::share::Share;
use base::txn::{ClientRequest, Gathered, Home, Homed, Transaction};
use base::{NodeId, PartitionId, Rank, RegionId, Time, TxnId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

pub use crate::log::{Grant, Term};

/// See [`log::Tail`].
pub type Tail = log::Tail<Entry>;
/// See [`log::Standing`].
pub type Standing = log::Standing<Entry>;

/// Names a sequence. That of a region has the region's number; that of all regions, with protocols that have one, is
/// behind them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct SequenceId(pub u16);

impl SequenceId {
    /// The one that orders what is homed there.
    pub(super) fn of(home: Home) -> SequenceId {
        SequenceId(home.region.0)
    }
    /// In sets of sequences.
    pub(super) fn bit(self) -> u64 {
        1 << self.0
    }
}

impl fmt::Debug for SequenceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s{}", self.0)
    }
}
impl fmt::Display for SequenceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s{}", self.0)
    }
}

/// A transaction's place in one region's partial sequence. The whole transaction travels in each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    pub transaction: Transaction,
    pub request: Option<ClientRequest>,
    /// The transaction's rank is at least this.
    pub stamp: Rank,
    /// What the sequencer knew to be collected; whoever read below it aborts, at every copy.
    pub collected: Rank,
}

/// A transaction, and its client's name for it if it may be repeated.
pub type Named = (Transaction, Option<ClientRequest>);

/// A gateway's transactions below `sequence` have been answered, those of earlier lives included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Floor {
    pub coordinator: NodeId,
    pub incarnation: u32,
    pub sequence: u64,
}

/// Nodes that have lost their memory and came back, each with the number of its present life.
pub type Lives = BTreeMap<NodeId, u32>;

pub use crate::donor::{CopyId, Part};

/// The regions of a set of bits, in order.
pub(super) fn regions_in(bits: u64) -> impl Iterator<Item = RegionId> {
    (0..64).filter(move |n| bits >> n & 1 == 1).map(RegionId)
}

/// The sequences of a set of bits, in order.
pub(super) fn sequences_in(bits: u64) -> impl Iterator<Item = SequenceId> {
    (0..64).filter(move |n| bits >> n & 1 == 1).map(SequenceId)
}

/// Leader of a sequence → replicas: what its log says, and what the node knows of others' lives.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Append {
    pub sequence: SequenceId,
    pub said: log::Append<Entry>,
    pub lives: Lives,
}

impl log::Item for Entry {
    fn stamp(&self) -> Rank {
        self.stamp
    }
    fn collected(&self) -> Rank {
        self.collected
    }
}

impl Message {
    /// What a node says of a sequence, with what it knows of others' lives.
    pub(super) fn of(sequence: SequenceId, lives: &Lives, said: Said<Entry>) -> Message {
        match said {
            Said::Append(said) => Message::Append(Append { sequence, said, lives: lives.clone() }),
            Said::AppendAck { term, ack } => {
                let log::Ack { next, merged, gap, granted, probe, echo } = ack;
                let lives = lives.clone();
                Message::AppendAck { sequence, term, next, merged, gap, granted, lives, probe, echo }
            }
            Said::LeftBehind { term, first } => Message::LeftBehind { sequence, term, first },
            Said::Calibrated { term, number, end } => Message::Calibrated { sequence, term, number, end },
            Said::Suspect { term } => Message::Suspect { sequence, term },
            Said::Agreed { term } => Message::Agreed { sequence, term },
            Said::Elect { term, merged, accepted, end } => {
                Message::Elect { sequence, term, merged, accepted, end }
            }
            Said::Promise { term, tail } => Message::Promise { sequence, term, tail, lives: lives.clone() },
            Said::Overtaken { term } => Message::Overtaken { sequence, term },
            Said::Leads { term } => Message::Leads { sequence, term },
            Said::Resigns { term } => Message::Resigns { sequence, term },
        }
    }
}

/// Between nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Message {
    /// Gateway → leader of a sequence: order these; the `first`-th and following of this link, which is named
    /// by the term and the gateway's life that opened it.
    Submit {
        sequence: SequenceId,
        term: Term,
        incarnation: u32,
        first: u64,
        transactions: Vec<Named>,
        sent_at: Time,
    },
    /// Leader → gateway: everything before `next` has arrived.
    SubmitAck {
        sequence: SequenceId,
        term: Term,
        incarnation: u32,
        next: u64,
        gap: bool,
        /// When what is acknowledged was sent, by the gateway's clock.
        echo: Time,
    },
    Append(Append),
    /// Leader → replica that was silent for long: entries before `first` are not kept any more.
    LeftBehind {
        sequence: SequenceId,
        term: Term,
        first: u64,
    },
    /// Replica → leader: everything before `next` has arrived, and everything before `merged` is settled here.
    AppendAck {
        sequence: SequenceId,
        term: Term,
        next: u64,
        merged: u64,
        gap: bool,
        granted: Grant,
        lives: Lives,
        probe: u64,
        /// When what is answered was sent, by the leader's clock.
        echo: Time,
    },
    /// Node → leader, in its own region where clocks are bounded: a reader needs a closed timestamp of at least this at
    /// this replica.
    CloseWanted {
        sequence: SequenceId,
        rank: Rank,
        at: NodeId,
    },
    /// Reader's copy → leader: where does the sequence end? Repeated under the same number until answered.
    Calibrate {
        sequence: SequenceId,
        number: u64,
    },
    /// Leader → copy: there, at some moment after the question left, and I led then.
    Calibrated {
        sequence: SequenceId,
        term: Term,
        number: u64,
        end: u64,
    },
    /// Region → regions: nothing is heard from the leader; I would lead in this term.
    Suspect {
        sequence: SequenceId,
        term: Term,
    },
    /// Neither do I hear anything: try.
    Agreed {
        sequence: SequenceId,
        term: Term,
    },
    /// Candidate → regions: follow nobody below this term. The candidate has merged `merged` entries; its log
    /// ends at `end` and is the one of the leader of `accepted`.
    Elect {
        sequence: SequenceId,
        term: Term,
        merged: u64,
        accepted: Term,
        end: u64,
    },
    /// So be it: nothing of lower terms is taken here from now on. This is my log.
    Promise {
        sequence: SequenceId,
        term: Term,
        tail: Tail,
        lives: Lives,
    },
    /// There is a term above yours: this one.
    Overtaken {
        sequence: SequenceId,
        term: Term,
    },
    /// The term's leader leads.
    Leads {
        sequence: SequenceId,
        term: Term,
    },
    /// Between the nodes of a region that take part in a transaction: what was read here.
    Reads {
        txn: TxnId,
        gathered: Vec<(PartitionId, Gathered)>,
    },
    /// Your reads have not arrived.
    ReadsWanted {
        txn: TxnId,
    },
    /// Node of the answering region → gateway. `end`: the transaction that took effect and its rank; another one
    /// if this was a repetition.
    Executed {
        txn: TxnId,
        end: (TxnId, Rank),
        share: Share,
    },
    /// Gateway → answering region: how did it end?
    OutcomeWanted {
        txn: TxnId,
    },
    /// Sequencer → nodes of its region without a copy: what has moved.
    Homes {
        homes: Vec<(Homed, Home)>,
    },
    /// Node → collector: what is at or below `done` has executed here and is read by nobody here.
    Progress {
        done: Rank,
        /// The same, whatever is read here; nothing where no copy is kept.
        executed: Option<Rank>,
        floor: Floor,
        delays_ns: Vec<u64>,
    },
    /// Leader → regions, Paxos for each entry: I would fill the next places of the sequence.
    Prepare {
        sequence: SequenceId,
        term: Term,
        round: u64,
    },
    /// Region → leader: nothing is there, and nothing of lower terms will be.
    Prepared {
        sequence: SequenceId,
        term: Term,
        round: u64,
    },
    /// Collector → nodes: the same of all nodes. `delays_ns[to][from]`, by region. `ready`: all who keep copies have
    /// executed everything up to there, whatever is read. It collects as long as it leads the first sequence, in
    /// this term.
    Watermark {
        term: Term,
        rank: Rank,
        ready: Rank,
        floors: Vec<Floor>,
        delays_ns: Vec<Vec<u64>>,
    },
    /// Node that lost its memory → donor: blocks of a copy, from this one on; all before have come.
    CopyWanted {
        copy: CopyId,
        from: u32,
    },
    /// `by`: the life of the donor that makes the copy. `of`: how many there are, once the donor knows.
    CopyPart {
        copy: CopyId,
        by: u32,
        number: u32,
        of: Option<u32>,
        part: Part,
    },
    /// Donor → node that lost its memory: this copy cannot be finished; begin another one.
    CopyEnded {
        copy: CopyId,
    },
    /// Node that lost its memory → regions: where do I stand? So much of each sequence is merged in my copy.
    Rejoin {
        copy: CopyId,
        merged: Vec<u64>,
    },
    /// There, as far as I know; by sequence. What former lives of yours have said counts here no more.
    Rejoined {
        copy: CopyId,
        lives: Lives,
        standings: Vec<Standing>,
    },
    /// Leader → regions: I am about to end; one of you should lead, without waiting until I am missed.
    Resigns {
        sequence: SequenceId,
        term: Term,
    },
}

/// Reminders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// A batch's interval is over: what has gathered since goes out.
    Flush,
    /// Tell replicas how far this region's sequence is complete; ask again for what is overdue.
    Tick,
    /// A rank has passed into the past: answers may go out.
    Gate,
    /// Tell the collector how far this node is.
    Collect,
}
