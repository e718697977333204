//! What engines that keep records share: how far ahead promises of time are recorded, and how a record is made and read.

use crate::engine::{EngineEffect, Record};
use base::codec;
use base::process::Unreadable;
use base::time::SECOND;
use serde::{Deserialize, Serialize};

/// What a node records.
#[derive(Clone, Copy, Debug)]
pub struct Records {
    /// How far ahead a node records up to where its clock may show and its closed ranks be told, in ns: a node
    /// that comes back begins above that.
    pub ceiling_ns: u64,
}

impl Default for Records {
    fn default() -> Self {
        Records { ceiling_ns: SECOND }
    }
}

/// The effect that records this.
pub fn record<M>((kind, version): (u8, u8), payload: Vec<u8>) -> EngineEffect<M> {
    EngineEffect::Record(Record { kind, version, payload })
}

/// Reads what was recorded. Errors: it is not `what` it should be.
pub fn read<T: for<'a> Deserialize<'a> + Serialize>(what: &str, bytes: &[u8]) -> Result<T, Unreadable> {
    codec::decode(bytes).map_err(|error| Unreadable(format!("{what}: {error}")))
}
