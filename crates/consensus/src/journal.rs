//! What a member keeps on disk: records in the order of writing, each complete or absent.
//!
//! KEEPS: replaying a prefix of the records gives the member's state at that moment. Nothing is ever
//! overwritten: entries that a later leader replaced are followed by their replacement. A checkpoint begins a new
//! journal, which replaces the old one completely or not at all.

use crate::entry::{Checkpoint, Entry, Index, Term};
use crate::log::Log;
use base::{NodeId, codec};
use serde::{Deserialize, Serialize};

/// One change of what must not be forgotten.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Item {
    /// A life begins; the first item of all says whose log this is.
    Life(NodeId),
    /// First of all in a journal that begins with a checkpoint: what the journal before it added up to, without
    /// the entries.
    Checkpoint { of: NodeId, lives: u32, term: Term, vote: Option<NodeId>, checkpoint: Checkpoint },
    /// The greatest term seen, and whom this member voted for in it.
    Term { term: Term, vote: Option<NodeId> },
    /// Entries from `first` on; whatever was there before, and everything after, is gone.
    Entries { first: Index, entries: Vec<Entry> },
}

/// Why records do not make a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Corrupt {
    /// The n-th record, from 0, cannot be read.
    Unreadable { nth: usize, why: String },
    /// The log of another member.
    Foreign { of: NodeId },
    /// The n-th record does not fit what came before.
    OutOfOrder { nth: usize },
}

impl std::fmt::Display for Corrupt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Corrupt::Unreadable { nth, why } => write!(f, "record {nth} cannot be read: {why}"),
            Corrupt::Foreign { of } => write!(f, "this is the log of {of}"),
            Corrupt::OutOfOrder { nth } => write!(f, "record {nth} does not fit what precedes it"),
        }
    }
}
impl std::error::Error for Corrupt {}

/// What the records add up to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recovered {
    pub lives: u32,
    pub term: Term,
    pub vote: Option<NodeId>,
    pub log: Log,
    pub checkpoint: Option<Checkpoint>,
}

pub(crate) fn encode(items: &[Item]) -> Vec<u8> {
    codec::encode(&items)
}

pub(crate) fn recover(me: NodeId, records: &[Vec<u8>]) -> Result<Recovered, Corrupt> {
    let mut found = Recovered::default();
    for (nth, record) in records.iter().enumerate() {
        let items: Vec<Item> =
            codec::decode(record).map_err(|e| Corrupt::Unreadable { nth, why: e.to_string() })?;
        for item in items {
            match item {
                Item::Life(of) | Item::Checkpoint { of, .. } if of != me => {
                    return Err(Corrupt::Foreign { of });
                }
                Item::Life(_) => found.lives += 1,
                Item::Checkpoint { lives, term, vote, checkpoint, .. } if found.lives == 0 => {
                    let log = Log::from(checkpoint.at);
                    found = Recovered { lives, term, vote, log, checkpoint: Some(checkpoint) };
                }
                Item::Checkpoint { .. } => return Err(Corrupt::OutOfOrder { nth }),
                _ if found.lives == 0 => return Err(Corrupt::OutOfOrder { nth }),
                Item::Term { term, .. } if term < found.term => return Err(Corrupt::OutOfOrder { nth }),
                Item::Term { term, vote } => (found.term, found.vote) = (term, vote),
                Item::Entries { first, entries } => {
                    let from = found.log.base().index.next();
                    if first < from || found.log.last().index.next() < first {
                        return Err(Corrupt::OutOfOrder { nth });
                    }
                    found.log.truncate(first.previous());
                    entries.into_iter().for_each(|entry| found.log.push(entry));
                }
            }
        }
    }
    Ok(found)
}
