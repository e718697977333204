//! Values that a gateway makes for statements: of sequences, hidden keys, random ones.
//!
//! KEEPS: no two gateways of a cluster, nor two lives of one, make the same value of a sequence or the same hidden key.

use base::schema::Sequence;
use base::{NodeId, SqlError, SqlState, TableId};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

/// The generators of one gateway.
pub struct Generators {
    node: NodeId,
    /// Nodes of the cluster.
    nodes: usize,
    next_row_id: AtomicI64,
    /// Values given of each sequence.
    sequences: Mutex<BTreeMap<TableId, i64>>,
}

/// Values of a sequence that one gateway hands out before it skips the other gateways' blocks.
const SEQUENCE_BLOCK: i64 = 100;

/// Bits of a hidden row id that name its gateway.
const ROW_ID_NODE_BITS: u32 = 10;

impl Generators {
    /// Row ids count on from the clock, in µs, which keeps those of a gateway's next life apart from this one's, as long
    /// as it makes less than one row per µs.
    pub fn new(node: NodeId, nodes: usize, start_us: i64) -> Generators {
        Generators { node, nodes, next_row_id: AtomicI64::new(start_us), sequences: Mutex::default() }
    }

    /// A value for the hidden key of a table without a primary key; unique in the cluster.
    pub fn next_row_id(&self) -> i64 {
        let count = self.next_row_id.fetch_add(1, Ordering::Relaxed);
        count << ROW_ID_NODE_BITS | i64::from(self.node.0)
    }

    /// Uniform in [0, 1).
    pub fn random_fraction(&self) -> f64 {
        (rand::random::<u64>() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A version 4 UUID.
    pub fn random_uuid(&self) -> [u8; 16] {
        *uuid::Uuid::new_v4().as_bytes()
    }

    /// The next value of a sequence. Gateways take turns in blocks that follow from the node's
    /// number, so that nothing has to be agreed on; values are unique but not in order across nodes.
    pub fn next_value(&self, sequence: &Sequence) -> Result<i64, SqlError> {
        let nodes = self.nodes as i64;
        let mut counts = self.sequences.lock().expect("no panic while counting");
        let count = counts.entry(sequence.id).or_default();
        let (block, within) = (*count / SEQUENCE_BLOCK, *count % SEQUENCE_BLOCK);
        let nth = (block * nodes + i64::from(self.node.0)) * SEQUENCE_BLOCK + within;
        *count += 1;
        nth.checked_mul(sequence.increment).and_then(|n| n.checked_add(sequence.start)).ok_or_else(|| {
            SqlError::new(
                SqlState(*b"2200H"),
                format!("nextval: reached maximum value of sequence \"{}\"", sequence.name),
            )
        })
    }
}
