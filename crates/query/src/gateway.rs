//! What all sessions of one node share: the way to the node, the analytical context, sequence blocks.

use crate::cluster::Cluster;
use base::schema::Sequence;
use base::{SqlError, SqlState, TableId};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

/// Limits of analytical queries.
#[derive(Clone, Debug)]
pub struct GatewayConfig {
    /// Threads that one analytical query may use.
    pub query_threads: usize,
    /// Memory of all analytical queries together, in bytes; beyond it a query ends with 53200.
    pub query_memory_bytes: usize,
}

impl Default for GatewayConfig {
    fn default() -> Self {
        GatewayConfig { query_threads: 2, query_memory_bytes: 1 << 30 }
    }
}

/// Shared by all sessions of one node.
pub struct Gateway {
    pub(crate) cluster: Arc<dyn Cluster>,
    pub(crate) config: GatewayConfig,
    next_row_id: AtomicI64,
    sequences: Mutex<BTreeMap<TableId, i64>>,
}

/// Values of a sequence that one gateway hands out before it skips the other gateways' blocks.
const SEQUENCE_BLOCK: i64 = 100;

/// Bits of a hidden row id that name its gateway.
const ROW_ID_NODE_BITS: u32 = 10;

impl Gateway {
    pub fn new(cluster: Arc<dyn Cluster>, config: GatewayConfig) -> Arc<Gateway> {
        // Counting on from the clock keeps ids of a gateway's next life apart from this one's, as
        // long as it makes less than one row per µs.
        let start_us = (cluster.now().0 / base::time::US) as i64;
        Arc::new(Gateway {
            cluster,
            config,
            next_row_id: AtomicI64::new(start_us),
            sequences: Mutex::default(),
        })
    }

    /// A value for the hidden key of a table without a primary key; unique in the cluster.
    pub(crate) fn next_row_id(&self) -> i64 {
        let count = self.next_row_id.fetch_add(1, Ordering::Relaxed);
        count << ROW_ID_NODE_BITS | i64::from(self.cluster.node().0)
    }

    /// The next value of a sequence. Gateways take turns in blocks that follow from the node's
    /// number, so that nothing has to be agreed on; values are unique but not in order across nodes.
    pub(crate) fn next_value(&self, sequence: &Sequence) -> Result<i64, SqlError> {
        let nodes = self.cluster.topology().nodes.len() as i64;
        let mut counts = self.sequences.lock().expect("no panic while counting");
        let count = counts.entry(sequence.id).or_default();
        let (block, within) = (*count / SEQUENCE_BLOCK, *count % SEQUENCE_BLOCK);
        let nth = (block * nodes + i64::from(self.cluster.node().0)) * SEQUENCE_BLOCK + within;
        *count += 1;
        nth.checked_mul(sequence.increment).and_then(|n| n.checked_add(sequence.start)).ok_or_else(|| {
            SqlError::new(
                SqlState(*b"2200H"),
                format!("nextval: reached maximum value of sequence \"{}\"", sequence.name),
            )
        })
    }
}
