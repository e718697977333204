//! Log entries and their positions.

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::sync::Arc;

/// One leader's reign; grows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize)]
pub struct Term(pub u64);

/// Place in the log, from 1; 0 is before the first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize)]
pub struct Index(pub u64);

impl Term {
    pub fn next(self) -> Term {
        Term(self.0 + 1)
    }
}

impl Index {
    pub const ZERO: Index = Index(0);

    pub fn next(self) -> Index {
        Index(self.0 + 1)
    }
    pub fn previous(self) -> Index {
        Index(self.0.checked_sub(1).expect("nothing precedes 0"))
    }
}

/// An entry's name. Of two logs, the one that ends at the greater position is as complete as the other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize)]
pub struct Position {
    pub term: Term,
    pub index: Index,
}

/// An entry's content, shared between the log and the messages that carry it. Empty: a leader's opening
/// entry, which says nothing.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Payload(Arc<Vec<u8>>);

impl Payload {
    pub fn new(bytes: Vec<u8>) -> Payload {
        Payload(Arc::new(bytes))
    }
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.len() {
            0..=16 => write!(f, "{:?}", self.0),
            n => write!(f, "{n} bytes"),
        }
    }
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Payload, D::Error> {
        struct Bytes;
        impl<'de> Visitor<'de> for Bytes {
            type Value = Payload;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("bytes")
            }
            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Payload, E> {
                Ok(Payload::new(bytes.to_vec()))
            }
            fn visit_byte_buf<E: Error>(self, bytes: Vec<u8>) -> Result<Payload, E> {
                Ok(Payload::new(bytes))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Payload, A::Error> {
                let mut bytes = Vec::new();
                while let Some(byte) = seq.next_element()? {
                    bytes.push(byte);
                }
                Ok(Payload::new(bytes))
            }
        }
        deserializer.deserialize_byte_buf(Bytes)
    }
}

/// What the log consists of.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// Of the leader that appended it first.
    pub term: Term,
    pub payload: Payload,
}

/// The state after the entries up to one of them, encoded by the owner of the state machine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The last of these entries.
    pub at: Position,
    pub state: Payload,
}
