//! What a replica is at, and what it has done, as far as those who read there know.

use base::NodeId;
use node::ReadPolicy;
use node::request::{ReplicaReport, Rows};
use session::ReplicaHealth;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[derive(Debug, Default)]
pub struct Load {
    under_way: AtomicU64,
    reads: AtomicU64,
    fell_back: AtomicU64,
}

/// A read at a replica, for as long as it takes: its client may go away meanwhile.
pub struct UnderWay<'a>(&'a AtomicU64);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Load {
    pub fn begin(&self) -> UnderWay<'_> {
        self.under_way.fetch_add(1, Relaxed);
        UnderWay(&self.under_way)
    }
    pub fn under_way(&self) -> u64 {
        self.under_way.load(Relaxed)
    }
    /// Rows have come from it.
    pub fn answered(&self, policy: ReadPolicy, rows: &Rows) {
        // Whom it asked it has asked for the rows, except where each read asks a question of its own.
        let is_own = rows.asked.is_empty() || policy == ReadPolicy::ReadWait;
        let count = if is_own { &self.reads } else { &self.fell_back };
        count.fetch_add(1, Relaxed);
    }
    /// Somebody else has to answer.
    pub fn fell_back(&self) {
        self.fell_back.fetch_add(1, Relaxed);
    }
    /// With its counts; its state is for who knows it.
    pub fn health(&self, node: NodeId, name: Option<String>, report: &ReplicaReport) -> ReplicaHealth {
        let transport = match (report.loads, &name) {
            (false, _) => "messages",
            (true, None) => "memory",
            (true, Some(_)) => "log ring",
        };
        ReplicaHealth {
            node,
            name,
            state: "",
            behind_ns: None,
            rows: report.rows,
            reads: self.reads.load(Relaxed),
            fell_back: self.fell_back.load(Relaxed),
            under_way: self.under_way(),
            fetches: report.fetches_sent,
            fetches_loaded: report.fetches_loaded,
            transport,
        }
    }
}
