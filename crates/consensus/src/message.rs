//! Messages between members. They may be lost, duplicated and reordered.

use crate::entry::{Checkpoint, Entry, Index, Position, Term};
use base::Time;
use serde::{Deserialize, Serialize};

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Message {
    /// Would you vote for me in this term? Promises nothing and changes nothing: a member that was cut off
    /// does not unseat a leader who is fine.
    AskBefore { term: Term, last: Position },
    /// `term` as asked.
    WouldVote { term: Term },
    /// RequestVote: vote for me. `last` is where the candidate's log ends.
    AskVote { term: Term, last: Position },
    /// The vote, on stable storage.
    Vote { term: Term },
    /// AppendEntries; without entries a heartbeat.
    Append(Append),
    /// InstallSnapshot: what the entries that the leader has no more add up to. Answered like an append.
    Install { term: Term, checkpoint: Checkpoint, sent: Time },
    /// The answer. `sent` as in the request.
    Appended { term: Term, sent: Time, result: Result<Matched, Mismatch> },
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Append {
    pub term: Term,
    /// The entry before the first of these.
    pub previous: Position,
    pub entries: Vec<Entry>,
    /// Everything up to it is committed.
    pub commit: Index,
    /// Everything up to it is on every member's disk.
    pub everywhere: Index,
    /// The leader's clock when it sent this: a lease counts from here.
    pub sent: Time,
}

/// Up to this index the member's log, on stable storage, equals the leader's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Matched(pub Index);

/// The logs differ before the first entry sent; try from here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Mismatch {
    pub retry_from: Index,
}

impl Message {
    pub fn term(&self) -> Term {
        match self {
            Message::AskBefore { term, .. }
            | Message::WouldVote { term }
            | Message::AskVote { term, .. }
            | Message::Vote { term }
            | Message::Append(Append { term, .. })
            | Message::Install { term, .. }
            | Message::Appended { term, .. } => *term,
        }
    }
}
