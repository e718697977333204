//! What nodes that keep a sequence tell each other about it.
//!
//! | message | from, to | carries, when |
//! |---|---|---|
//! | `Append` | leader → replica | entries, closed timestamp, what is stable; when there are any, and as a heartbeat |
//! | `AppendAck` | replica → leader | how far everything has arrived and is merged, what is granted |
//! | `LeftBehind` | leader → replica | what the replica lacks is not kept any more |
//! | `Calibrated` | leader → node that asked | where the log ended after the question came |
//! | `Suspect`, `Agreed` | candidate ↔ voter | the leader is silent; here too |
//! | `Elect`, `Promise` | candidate ↔ voter | follow nobody below this term; granted, with the voter's log |
//! | `Resigns` | leader → voters | it is about to end: one of them should stand without waiting for its silence |
//! | `Overtaken`, `Leads` | anybody | there is a later term; somebody leads in it |

use super::group::Term;
use base::{NodeId, Rank, Time};
use serde::{Deserialize, Serialize};

/// What a replica lets the leader of a sequence tell; the next leader goes on above it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The closed timestamp of the sequence up to here.
    pub closed: Rank,
    /// Versions given up to here.
    pub collected: Rank,
}

impl Grant {
    pub fn max(self, other: Grant) -> Grant {
        Grant { closed: self.closed.max(other.closed), collected: self.collected.max(other.collected) }
    }
}

/// A replica's log that ends in `term`, as a candidate needs it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tail<E> {
    /// The leader of this term had all of it.
    pub accepted: Term,
    pub end: u64,
    pub granted: Grant,
    /// From what the candidate has merged on; empty if the candidate's own log is as good.
    pub entries: Vec<E>,
}

/// What a region has promised, and its log, as one needs it that has lost both.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Standing<E> {
    pub promised: Term,
    pub highest: Term,
    pub led_in: Term,
    /// `None`: something behind what is merged there is gone.
    pub tail: Option<Tail<E>>,
}

/// Entries `first..` of the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Append<E> {
    pub term: Term,
    /// The length of the log when the term began: what is before was taken over.
    pub since: u64,
    pub first: u64,
    pub entries: Vec<E>,
    /// Entries behind these are stamped above.
    pub closed: Rank,
    /// Entries behind these know versions at or below this to be gone.
    pub collected: Rank,
    /// Entries before this are in as many other regions as have to have them.
    pub stable: u64,
    /// Every replica has merged the entries before this.
    pub everywhere: u64,
    /// The leader would like to tell this much.
    pub wanted: Grant,
    /// A replica that confirms this number has followed the leader since.
    pub probe: u64,
    pub sent_at: Time,
}

impl<E> Default for Append<E> {
    fn default() -> Self {
        Append {
            term: Term::default(),
            since: 0,
            first: 0,
            entries: Vec::new(),
            closed: Rank::ZERO,
            collected: Rank::ZERO,
            stable: 0,
            everywhere: 0,
            wanted: Grant::default(),
            probe: 0,
            sent_at: Time::ZERO,
        }
    }
}

/// How far a replica is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// Everything before it has arrived.
    pub next: u64,
    /// Everything before it is merged.
    pub merged: u64,
    /// Something behind a gap has arrived.
    pub gap: bool,
    pub granted: Grant,
    pub probe: u64,
    /// When what is answered was sent, by the leader's clock.
    pub echo: Time,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Said<E> {
    Append(Append<E>),
    AppendAck {
        term: Term,
        ack: Ack,
    },
    LeftBehind {
        term: Term,
        first: u64,
    },
    Calibrated {
        term: Term,
        number: u64,
        end: u64,
    },
    Suspect {
        term: Term,
    },
    Agreed {
        term: Term,
    },
    /// The candidate has merged `merged` entries; its log ends at `end` and is the one of the leader of `accepted`.
    Elect {
        term: Term,
        merged: u64,
        accepted: Term,
        end: u64,
    },
    Promise {
        term: Term,
        tail: Tail<E>,
    },
    Overtaken {
        term: Term,
    },
    Leads {
        term: Term,
    },
    Resigns {
        term: Term,
    },
}

/// To whom what is to be sent, in order.
pub type Posts<E> = Vec<(NodeId, Said<E>)>;
