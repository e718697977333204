//! What a node holds, counted: for whoever checks that its memory stays bounded.

use super::*;

impl<E: Engine> Node<E> {
    /// Entries kept now, by what they are, the engine's own included. Walks columns; not for hot paths.
    pub fn held(&self) -> BTreeMap<&'static str, u64> {
        let (rows, columns) = (self.data.counters(), self.columns.store.status());
        let streams = &self.streams;
        let kept: usize = streams.outgoing.values().map(Outgoing::held).sum();
        let early: usize = streams.incoming.values().map(Incoming::held).sum();
        let published: usize = streams.published.values().map(DependencyGraph::vertex_count).sum();
        let questions = &self.questions;
        let mut held = self.engine.report().held;
        held.extend([
            ("row versions", rows.versions),
            ("column versions", columns.versions as u64),
            ("column segments", columns.segments as u64),
            ("vertices of readers", self.columns.graph.vertex_count() as u64),
            ("vertices of copies to come", published as u64),
            ("stream items", (kept + early) as u64),
            (
                "questions",
                (questions.asked.len() + questions.serving.len() + questions.serving_for.len()) as u64,
            ),
            (
                "reads under way",
                (self.queries.len()
                    + self.row_reads.len()
                    + self.pins.len()
                    + self.gathers.len()
                    + self.scans.len()) as u64,
            ),
            ("requests under way", self.submitted.len() as u64),
        ]);
        held
    }
}
