//! What all sessions of one node share: the way to the node, the analytical context, sequence blocks, row locks.

use crate::activity::Sessions;
use crate::analytics::{Analytics, RowsMemory};
use crate::cluster::Cluster;
use crate::locks::Locks;
use crate::old_versions::Snapshots;
use crate::remote_locks::Contention;
use base::schema::{Catalog, Sequence};
use base::{SqlError, SqlState, TableId};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Limits of analytical queries.
#[derive(Clone)]
pub struct GatewayConfig {
    /// Threads that one analytical query may use.
    pub query_threads: usize,
    /// Memory of all analytical queries together, and of rows that sessions buffer, in bytes; beyond it a
    /// statement ends with 53200.
    pub query_memory_bytes: usize,
    /// Where analytical queries run; `None`: where the session runs.
    pub query_threads_pool: Option<Arc<dyn QueryThreads>>,
}

/// Threads of analytical queries. Each running query has its own: the system's scheduler shares the cores among them,
/// and a query that computes for seconds without a pause delays no other.
pub trait QueryThreads: Send + Sync {
    /// Threads for one query, given back when dropped.
    fn lease(&self) -> Box<dyn QueryThreadsLease>;

    /// Calls `work` once, on a thread of its own, and comes back when it is done.
    fn compute(&self, work: &mut (dyn FnMut() + Send));

    /// Has a thread of its own do `work`, and does not wait. `false`: no more threads to be had, and nothing is done.
    fn start(&self, work: Box<dyn FnOnce() + Send>) -> bool;
}

/// Threads that one query has.
pub trait QueryThreadsLease: Send {
    fn handle(&self) -> &tokio::runtime::Handle;
}

impl Default for GatewayConfig {
    fn default() -> Self {
        GatewayConfig { query_threads: 2, query_memory_bytes: 1 << 30, query_threads_pool: None }
    }
}

/// Shared by all sessions of one node.
pub struct Gateway {
    pub(crate) cluster: Arc<dyn Cluster>,
    pub(crate) config: GatewayConfig,
    pub(crate) analytics: Analytics,
    pub(crate) locks: Arc<Locks>,
    pub(crate) sessions: Sessions,
    pub(crate) snapshots: Arc<Snapshots>,
    pub(crate) contention: Contention,
    next_lock_owner: AtomicU64,
    next_row_id: AtomicI64,
    sequences: Mutex<BTreeMap<TableId, i64>>,
    /// Ids below were given to tables and sequences by transactions here, committed or not.
    ids_given: AtomicU32,
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
        let analytics = Analytics::new(&config).expect("DataFusion accepts its own defaults");
        Arc::new(Gateway {
            cluster,
            config,
            analytics,
            locks: Arc::default(),
            sessions: Sessions::default(),
            snapshots: Arc::default(),
            contention: Contention::default(),
            next_lock_owner: AtomicU64::new(start_us as u64),
            next_row_id: AtomicI64::new(start_us),
            sequences: Mutex::default(),
            ids_given: AtomicU32::new(0),
        })
    }

    /// Memory for rows that a session keeps as values.
    pub(crate) fn rows_memory(&self, what: &str) -> RowsMemory {
        let hint = "Read fewer rows or columns at a time, or raise --query-memory-mib.";
        RowsMemory::new(&self.analytics.memory, what, usize::MAX, hint)
    }

    /// Memory for what a transaction buffers: at most half of what all queries may take.
    pub(crate) fn transaction_memory(&self) -> RowsMemory {
        let hint = "Write fewer rows in one transaction, use COPY with meridian.copy_batch_rows, or raise \
                    --query-memory-mib.";
        let bytes_max = self.config.query_memory_bytes / 2;
        RowsMemory::new(&self.analytics.memory, "the buffer of a transaction", bytes_max, hint)
    }

    /// The node's clock in µs since 2000-01-01 UTC.
    pub(crate) fn now_us(&self) -> i64 {
        (self.cluster.now().0 / base::time::US) as i64 - crate::analytics::types::EPOCH_US
    }

    /// A value for the hidden key of a table without a primary key; unique in the cluster.
    pub(crate) fn next_row_id(&self) -> i64 {
        let count = self.next_row_id.fetch_add(1, Ordering::Relaxed);
        count << ROW_ID_NODE_BITS | i64::from(self.cluster.node().0)
    }

    /// Names a transaction at the homes of rows that it locks; of this and all former lives of the gateway.
    pub(crate) fn next_lock_owner(&self) -> u64 {
        self.next_lock_owner.fetch_add(1, Ordering::Relaxed)
    }

    /// Uniform in [0, 1).
    pub(crate) fn random_fraction(&self) -> f64 {
        (rand::random::<u64>() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A version 4 UUID.
    pub(crate) fn random_uuid(&self) -> [u8; 16] {
        *uuid::Uuid::new_v4().as_bytes()
    }

    /// Keeps ids to what an open transaction has made with them: a sequence that comes to nothing must not
    /// hand its count on to another.
    pub(crate) fn keep_ids(&self, next_id: u32) {
        self.ids_given.fetch_max(next_id, Ordering::Relaxed);
    }

    /// A catalog to plan changes against, whose next id is free for this gateway.
    pub(crate) fn with_free_ids(&self, catalog: Arc<Catalog>) -> Arc<Catalog> {
        let next_id = self.ids_given.load(Ordering::Relaxed);
        match next_id > catalog.next_id {
            true => Arc::new(Catalog { next_id, ..catalog.as_ref().clone() }),
            false => catalog,
        }
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
