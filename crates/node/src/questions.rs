//! Questions of readers: those this node has asked, and those it is answering.

use crate::message::{Question, QuestionId};
use crate::read::ReadId;
use crate::request::PinId;
use base::order::CloseTicket;
use base::time::US;
use base::{NodeId, PartitionId, Rank, RequestId, Time, TxnId};
use std::collections::{BTreeMap, BTreeSet};

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
    /// Every query that wanted this partition's calibration in time. Sent at this instant.
    Calibration(Time),
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
}

#[derive(Default)]
pub struct Questions {
    next: u64,
    pub asked: BTreeMap<QuestionId, Asked>,
    pub serving: BTreeMap<CloseTicket, Serving>,
    /// Other nodes that were asked on behalf of a request.
    nodes_asked: BTreeMap<RequestId, BTreeSet<NodeId>>,
    /// So that a repeated question is not served twice at once.
    pub serving_for: BTreeSet<(NodeId, QuestionId)>,
}

impl Owner {
    /// The request of this node's client that it is asked for; calibrations serve several.
    pub fn request(self) -> Option<RequestId> {
        match self {
            Owner::Read(ReadId::Client(id)) => Some(id),
            Owner::Read(ReadId::Part { .. }) | Owner::Copies(_) | Owner::Calibration(_) => None,
        }
    }
}

impl Questions {
    /// Numbers begin above those of a former life, which may still be answered: nobody makes more than one
    /// each µs.
    pub fn begin(&mut self, now: Time) {
        self.next = self.next.max(now.0 / US);
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
    /// Nobody waits for the calibration of this partition that was asked for at this time.
    pub fn forget_calibration(&mut self, partition: PartitionId, sent_at: Time) {
        let is_it = |owner: Owner| matches!(owner, Owner::Calibration(at) if at == sent_at);
        self.asked.retain(|_, asked| asked.partition != partition || !is_it(asked.owner));
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
