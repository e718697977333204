//! Questions of readers: those this node has asked, and those it is answering.

use crate::message::{Life, Question, QuestionId};
use crate::read::ReadId;
use crate::request::PinId;
use base::order::CloseTicket;
use base::time::US;
use base::{NodeId, PartitionId, Rank, RequestId, Time, TxnId};
use reads::share::Stamp;
use rowstore::Reading;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Asked by this node, not answered yet.
pub struct Asked {
    pub partition: PartitionId,
    /// What to repeat; `None` for a question to this node itself, which cannot be lost.
    pub what: Option<Question>,
    pub owner: Owner,
}

/// Who at this node waits for an answer.
#[derive(Clone, Copy, Debug)]
pub enum Owner {
    Read(ReadId),
    /// A transaction that is answered once every copy has it.
    Copies(TxnId),
    /// Every query that wanted this partition's calibration in time: the question, and when it was sent.
    Calibration(Stamp, Time),
    /// Reads at replicas.
    Fetch(Stamp),
}

/// Being answered by this node: a close is under way.
pub struct Serving {
    pub purpose: Purpose,
    pub partition: PartitionId,
    pub since: Time,
}

pub enum Purpose {
    Answer {
        to: NodeId,
        question: QuestionId,
        what: Question,
    },
    /// How late a cut has to be.
    Latest {
        to: NodeId,
        question: QuestionId,
    },
    /// The partition's own heartbeat.
    Low(Rank),
    /// For whoever looks at what is published.
    Publish(Rank),
}

/// Being answered by this node: its rows are closed, and read a bounded number of keys at a time.
pub struct LongRead {
    pub to: NodeId,
    pub question: QuestionId,
    pub partition: PartitionId,
    pub since: Time,
    pub reading: Reading,
}

#[derive(Default)]
pub struct Questions {
    next: u64,
    life: Life,
    pub asked: BTreeMap<QuestionId, Asked>,
    pub serving: BTreeMap<CloseTicket, Serving>,
    /// Other nodes that were asked on behalf of a request.
    nodes_asked: BTreeMap<RequestId, BTreeSet<NodeId>>,
    /// So that a repeated question is not served twice at once.
    pub serving_for: BTreeSet<(NodeId, QuestionId)>,
    /// Each has its turn, the first one first.
    long_reads: VecDeque<LongRead>,
    /// A timer is set for the next turn.
    reads_on: bool,
}

impl Owner {
    /// The request of this node's client that it is asked for; calibrations serve several.
    pub fn request(self) -> Option<RequestId> {
        match self {
            Owner::Read(ReadId::Client(id)) => Some(id),
            Owner::Read(ReadId::Part { .. })
            | Owner::Copies(_)
            | Owner::Calibration(..)
            | Owner::Fetch(_) => None,
        }
    }
}

impl Questions {
    /// Numbers begin above those of a former life, which may still be answered: nobody makes more than one
    /// each µs.
    pub fn begin(&mut self, now: Time) {
        self.next = self.next.max(now.0 / US);
        self.life = Life(now);
    }
    /// The node's.
    pub fn life(&self) -> Life {
        self.life
    }
    pub fn next_question(&mut self) -> QuestionId {
        self.next += 1;
        QuestionId(self.next)
    }
    pub fn next_ticket(&mut self) -> CloseTicket {
        self.next += 1;
        CloseTicket(self.next)
    }
    pub fn next_pin(&mut self) -> PinId {
        self.next += 1;
        PinId(self.next)
    }
    /// How much there is of all of it.
    pub fn held(&self) -> usize {
        self.asked.len() + self.serving.len() + self.serving_for.len() + self.long_reads.len()
    }
    /// Rows take more than a step to read: the read waits for its next turn.
    pub fn wait_for_turn(&mut self, read: LongRead) {
        self.long_reads.push_back(read);
    }
    /// Whether a timer has to be set for the next turn.
    pub fn arms_turn(&mut self) -> bool {
        !self.long_reads.is_empty() && !std::mem::replace(&mut self.reads_on, true)
    }
    /// The timer has come: the read whose turn it is. Reads of this node's own clients end with them.
    pub fn next_turn(&mut self, me: NodeId) -> Option<LongRead> {
        self.reads_on = false;
        let Questions { long_reads, asked, serving_for, .. } = self;
        long_reads.retain(|read| {
            let is_awaited = read.to != me || asked.contains_key(&read.question);
            if !is_awaited {
                serving_for.remove(&(read.to, read.question));
            }
            is_awaited
        });
        long_reads.pop_front()
    }
    /// Nobody waits for this calibration.
    pub fn forget_calibration(&mut self, sent: Stamp) {
        self.asked.retain(|_, asked| !matches!(asked.owner, Owner::Calibration(of, _) if of == sent));
    }
    /// Nor for this question of reads at replicas.
    pub fn forget_fetch(&mut self, sent: Stamp) {
        self.asked.retain(|_, asked| !matches!(asked.owner, Owner::Fetch(of) if of == sent));
    }
    /// Another node is asked on behalf of a request.
    pub fn note_asked(&mut self, request: RequestId, node: NodeId) {
        self.nodes_asked.entry(request).or_default().insert(node);
    }
    /// Which other nodes were asked on behalf of a request that is about to be answered.
    pub fn take_asked(&mut self, request: RequestId) -> BTreeSet<NodeId> {
        self.nodes_asked.remove(&request).unwrap_or_default()
    }
    /// Forgets everything asked on behalf of a read.
    pub fn forget(&mut self, read: ReadId) {
        if let ReadId::Client(request) = read {
            self.nodes_asked.remove(&request);
        }
        self.asked.retain(|_, asked| !matches!(asked.owner, Owner::Read(id) if id == read));
    }
}
