//! What the sessions of one node share and queries may look at: the way to the node, threads, who is connected, open
//! snapshots.

use super::snapshots::Snapshots;
use crate::activity::Sessions;
use crate::cluster::Cluster;
use sql::generators::Generators;
use sql::interrupt::QueryThreads;
use std::sync::Arc;

/// What the sessions of one node share.
pub struct NodeContext {
    pub cluster: Arc<dyn Cluster>,
    /// Where analytical queries run; `None`: where their sessions run.
    pub query_threads: Option<Arc<dyn QueryThreads>>,
    pub sessions: Sessions,
    pub snapshots: Arc<Snapshots>,
    pub generators: Generators,
}

impl NodeContext {
    pub fn new(
        cluster: Arc<dyn Cluster>,
        query_threads: Option<Arc<dyn QueryThreads>>,
        generators: Generators,
    ) -> NodeContext {
        let (sessions, snapshots) = (Sessions::default(), Arc::default());
        NodeContext { cluster, query_threads, sessions, snapshots, generators }
    }

    /// Threads for what takes long; `None`: it is computed where the session runs.
    pub fn threads(&self) -> Option<&dyn QueryThreads> {
        self.query_threads.as_deref()
    }
}
