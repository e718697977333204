//! What a node tells of itself: counters and gauges, and what it holds, for whoever checks that its memory stays bounded.

use super::*;
use crate::streams::Incoming;

/// What an old version of a row takes in memory besides its bytes.
const OLD_VERSION_BYTES: u64 = 96;

impl<E: Engine> Node<E> {
    pub(super) fn status(&self, now: Time) -> Status {
        let rows = self.data.counters();
        let columns = self.columns.store().status();
        let subscribed = self.subscribed().iter();
        // Entries that wait for collection name their keys.
        let old_rows = rows.bytes.saturating_sub(rows.live_bytes)
            + (rows.versions.saturating_sub(rows.rows) + rows.garbage) * OLD_VERSION_BYTES;
        Status {
            now,
            commits: self.gateway.commits(),
            aborts: self.gateway.aborts().clone(),
            messages_sent: self.messages_sent,
            rows,
            column_rows: columns.rows as u64,
            column_bytes: columns.bytes as u64,
            graph_vertices: self.columns.graph().vertex_count() as u64,
            old_version_bytes: old_rows,
            collected_below: self.columns.collected_below(),
            is_collecting: self.data.is_collecting(),
            clocks: self.watch.iter().flat_map(|watch| watch.monitor.seen()).collect(),
            out: self.watch.as_ref().and_then(|watch| watch.out.clone()),
            applied: subscribed.map(|p| (*p, self.columns.store().applied(*p))).collect(),
        }
    }

    /// How the replicas of rows are that this node keeps; of a node without any, nothing is missing.
    pub fn replica_report(&self) -> ReplicaReport {
        let partitions: Vec<PartitionId> = self.data.replicas.partitions().collect();
        let complete: Option<Vec<Rank>> = partitions.iter().map(|p| self.columns.complete(*p)).collect();
        ReplicaReport {
            complete: complete.map(|complete| complete.into_iter().min().unwrap_or_default()),
            rows: self.data.replicas.rows(),
            fetches_sent: self.fetches_sent(),
            fetches_loaded: self.fetches_loaded(),
            loads: self.data.replicas.loads,
        }
    }

    /// Entries kept now, by what they are, the engine's own included. Walks columns; not for hot paths.
    pub fn held(&self) -> BTreeMap<&'static str, u64> {
        let (rows, columns) = (self.data.counters(), self.columns.store().status());
        let streams = &self.streams;
        let kept: usize = streams.outgoing.values().map(Outgoing::held).sum();
        let early: usize = streams.incoming.values().map(Incoming::held).sum();
        let published: usize = streams.published.values().map(DependencyGraph::vertex_count).sum();
        let questions = &self.questions;
        let mut held = self.engine.report().held;
        held.extend([
            ("row versions", rows.versions),
            ("row versions of replicas", self.data.replicas.versions()),
            ("column versions", columns.versions as u64),
            ("column segments", columns.segments as u64),
            ("vertices of readers", self.columns.graph().vertex_count() as u64),
            ("vertices of copies to come", published as u64),
            ("stream items", (kept + early) as u64),
            ("questions", questions.held() as u64),
            ("reads under way", self.reads.held() as u64),
            ("requests under way", self.gateway.under_way() as u64),
        ]);
        held
    }
}
