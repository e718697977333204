//! What all sessions of one node share: the way to the node, the analytical context, row locks.

use crate::advisory_locks::AdvisoryLocks;
use crate::catching_up::CatchingUp;
use crate::locks::Locks;
use crate::notifications::Notifications;
use crate::remote_locks::Contention;
use crate::temporary_tables::TemporaryTables;
use analytics::Cluster;
use analytics::{Analytics, NodeContext, RowsMemory};
use base::databases::DatabaseId;
use base::schema::Catalog;
use sql::generators::{Generators, KeptCounts};
use sql::interrupt::QueryThreads;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

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
    /// Where counts of sequences outlive the process; `None` where nothing does.
    pub kept_counts: Option<Arc<dyn KeptCounts>>,
    /// Other nodes are told of these counts, for a node that loses its directory.
    pub tells_counts: bool,
    /// What sessions tell each other, those of other gateways too that have the same.
    pub notifications: Arc<Notifications>,
}

impl Default for GatewayConfig {
    fn default() -> Self {
        GatewayConfig {
            query_threads: 2,
            query_memory_bytes: 1 << 30,
            query_threads_pool: None,
            kept_counts: None,
            tells_counts: false,
            notifications: Arc::default(),
        }
    }
}

/// Shared by all sessions of one node.
pub struct Gateway {
    pub(crate) cluster: Arc<dyn Cluster>,
    pub(crate) node: Arc<NodeContext>,
    pub(crate) analytics: Arc<Analytics>,
    pub(crate) locks: Arc<Locks>,
    pub(crate) contention: Contention,
    pub(crate) advisory: AdvisoryLocks,
    pub(crate) temporary: TemporaryTables,
    pub(crate) notifications: Arc<Notifications>,
    pub(crate) catching_up: CatchingUp,
    /// Held while other nodes are told how many values are handed out here.
    pub(crate) telling_counts: tokio::sync::Mutex<()>,
    pub(crate) counts_run_low: Notify,
    query_memory_bytes: usize,
    next_lock_owner: AtomicU64,
    /// Parts of the catalog that databases have, each with the catalog that it is of.
    parts: Mutex<BTreeMap<DatabaseId, (Arc<Catalog>, Arc<Catalog>)>>,
    /// Ids below were given to tables and sequences by transactions here, committed or not.
    ids_given: AtomicU32,
}

impl Gateway {
    pub fn new(cluster: Arc<dyn Cluster>, config: GatewayConfig) -> Arc<Gateway> {
        // Counting on from the clock keeps names of a gateway's next life apart from this one's.
        let start_us = (cluster.now().0 / base::time::US) as i64;
        // Replicas hand out nothing, and their number may change. A node that has left has its turns for good.
        let topology = cluster.topology();
        let hands_out = topology.node_ids().filter(|node| !topology.is_replica(*node));
        let left = topology.nodes.iter().filter(|node| topology.is_removed(node.region));
        let nodes = hands_out.count() + left.count();
        let clock = cluster.clone();
        let generators = Generators::new(cluster.node(), nodes, start_us)
            .kept_in(config.kept_counts)
            .told(config.tells_counts)
            .closed(cluster.read_only().map(String::from))
            .with_clock(Arc::new(move || now_us(clock.as_ref())));
        let node = Arc::new(NodeContext::new(cluster.clone(), config.query_threads_pool, generators));
        let analytics = Analytics::new(node.clone(), config.query_threads, config.query_memory_bytes);
        Arc::new(Gateway {
            catching_up: CatchingUp::new(cluster.now()),
            cluster,
            node,
            analytics: Arc::new(analytics.expect("DataFusion accepts its own defaults")),
            locks: Arc::default(),
            contention: Contention::default(),
            advisory: AdvisoryLocks::default(),
            temporary: TemporaryTables::new(start_us),
            notifications: config.notifications,
            telling_counts: Default::default(),
            counts_run_low: Notify::new(),
            query_memory_bytes: config.query_memory_bytes,
            next_lock_owner: AtomicU64::new(start_us as u64),
            parts: Mutex::default(),
            ids_given: AtomicU32::new(0),
        })
    }

    /// Threads for what takes long; `None`: it is computed where the session runs.
    pub(crate) fn threads(&self) -> Option<&dyn QueryThreads> {
        self.node.threads()
    }

    /// Memory for rows that a session keeps as values.
    pub(crate) fn rows_memory(&self, what: &str) -> RowsMemory {
        self.analytics.rows_memory(what)
    }

    /// Memory for what a transaction buffers: at most half of what all queries may take.
    pub(crate) fn transaction_memory(&self) -> RowsMemory {
        let hint = "Write fewer rows in one transaction, use COPY with meridian.copy_batch_rows, or raise \
                    --query-memory-mib.";
        let bytes_max = self.query_memory_bytes / 2;
        RowsMemory::new(&self.analytics.memory, "the buffer of a transaction", bytes_max, hint)
    }

    /// Memory for the notices of a session.
    pub(crate) fn notices_memory(&self, bytes_max: usize) -> RowsMemory {
        RowsMemory::new(&self.analytics.memory, "the notices of a session", bytes_max, "")
    }

    /// The catalog as the node knows it now.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.cluster.catalog()
    }

    /// A database's part of it; of one that is not there it has nothing.
    pub fn catalog_of(&self, database: DatabaseId) -> Arc<Catalog> {
        let whole = self.catalog();
        let mut parts = self.parts.lock().expect("no panic while a part is looked up");
        if let Some((of, part)) = parts.get(&database)
            && Arc::ptr_eq(of, &whole)
        {
            return part.clone();
        }
        let part = whole.within(database).map_or_else(|| whole.clone(), Arc::new);
        parts.retain(|id, _| whole.databases.all.contains_key(id));
        parts.insert(database, (whole, part.clone()));
        part
    }

    /// The node's clock in µs since 2000-01-01 UTC.
    pub fn now_us(&self) -> i64 {
        now_us(self.cluster.as_ref())
    }

    /// Names a transaction at the homes of rows that it locks; of this and all former lives of the gateway.
    pub(crate) fn next_lock_owner(&self) -> u64 {
        self.next_lock_owner.fetch_add(1, Ordering::Relaxed)
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
}

/// A node's clock in µs since 2000-01-01 UTC.
fn now_us(cluster: &dyn Cluster) -> i64 {
    (cluster.now().0 / base::time::US) as i64 - wire::EPOCH_US
}
