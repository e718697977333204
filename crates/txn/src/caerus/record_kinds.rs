//! Kinds of records, and what is recorded beside the sequences; see [`records`](super::records).

use super::message::{Entry, SequenceId};
use crate::engine::EngineEffect;
use crate::log::Change;
use base::codec;
use base::txn::Gathered;
use base::{PartitionId, Time, TxnId};

/// Kinds of records, and the version of their payloads.
pub const CHANGE: u8 = 1;
pub const CLOCK: u8 = 2;
pub const LIVES: u8 = 3;
pub const READS: u8 = 4;
pub const COPIED: u8 = 5;
pub const WHOLE: u8 = 6;
pub const VERSION: u8 = 1;

/// What another node of this region has read for a transaction.
pub type Reads = (TxnId, Vec<(PartitionId, Gathered)>);

/// What is recorded beside the sequences, and how far a restart is.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// Up to where this node's clock may show.
    pub clock: Time,
    /// It has come back with what its disk had, and has not started yet.
    pub is_back: bool,
    /// It has started, and not merged what its disk had.
    pub lags: bool,
    /// Reads of other nodes that it has taken from its disk.
    pub reads: Vec<Reads>,
}

pub fn record<M>(kind: u8, payload: Vec<u8>) -> EngineEffect<M> {
    crate::records::record((kind, VERSION), payload)
}

pub fn of_change<M>(sequence: SequenceId, change: &Change<Entry>) -> EngineEffect<M> {
    record(CHANGE, codec::encode(&(sequence, change)))
}
