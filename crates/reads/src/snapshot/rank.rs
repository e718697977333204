//! Rank cuts: `rss`, and `session`/`stale` as the same with a lower cut.
//!
//! With clocks bounded by ε, t = max(token, now + ε) needs no message to choose: whatever was answered
//! before the query arrived was answered at a true time after its rank, so its rank is ≤ t. What
//! remains is closing t at the partitions read (and only for the granules read), then applying up to
//! there. Cuts are totally ordered, so queries never fork.

use super::{Ask, ColumnView, QueryMeta, SnapshotRule, Told, freshness};
use base::order::Close;
use base::{Cut, Freshness, LogPosition, PartitionId, Rank, SqlError, Time};
use std::collections::BTreeMap;

/// A query at a rank cut.
pub struct RankQuery {
    meta: QueryMeta,
    cut: Rank,
    /// Log ends of the partitions that have closed the cut.
    closed: BTreeMap<PartitionId, LogPosition>,
    coordination_ns: u64,
}

impl RankQuery {
    /// `rss`: everything answered before the query arrived.
    pub fn strong(meta: QueryMeta, clock_bound_ns: u64) -> RankQuery {
        let cut = meta.token.rank.max(meta.arrived.rank() + clock_bound_ns);
        RankQuery::at(meta, cut)
    }

    /// A given cut, such as a pinned one or a session's.
    pub fn at(meta: QueryMeta, cut: Rank) -> RankQuery {
        RankQuery { meta, cut, closed: BTreeMap::new(), coordination_ns: 0 }
    }

    /// `session` and `stale`: whatever is complete here already, or the session's token if that is
    /// later.
    pub fn local(meta: QueryMeta, view: &dyn ColumnView) -> RankQuery {
        let low = meta.reads.keys().map(|p| view.low(*p)).min().unwrap_or(meta.arrived.rank());
        let cut = low.max(meta.token.rank);
        let mut query = RankQuery::at(meta, cut);
        for &partition in query.meta.reads.keys() {
            if view.low(partition) >= cut {
                query.closed.insert(partition, LogPosition(0));
            }
        }
        query
    }

    pub fn cut(&self) -> Rank {
        self.cut
    }
}

impl SnapshotRule for RankQuery {
    fn asks(&self) -> Vec<Ask> {
        let open = self.meta.reads.iter().filter(|(p, _)| !self.closed.contains_key(p));
        open.map(|(&partition, granules)| {
            Ask::Close(Close { partition, rank: self.cut, granules: granules.clone() })
        })
        .collect()
    }

    fn told(&mut self, now: Time, told: Told) {
        let Told::Closed { partition, closed, waited_ns } = told else { return };
        if self.closed.insert(partition, closed.position).is_none() {
            // The slowest way there and back, without what the partition itself waited for.
            let on_the_way_ns = now.since(self.meta.arrived).saturating_sub(waited_ns);
            self.coordination_ns = self.coordination_ns.max(on_the_way_ns);
        }
    }

    fn ready(&mut self, now: Time, view: &dyn ColumnView) -> Result<Option<(Cut, Freshness)>, SqlError> {
        let all_closed = self.closed.len() == self.meta.reads.len();
        let ready = all_closed && self.closed.iter().all(|(p, end)| view.applied(*p) >= *end);
        if !ready {
            return Ok(None);
        }
        let fresh = freshness(&self.meta, now, self.cut.time(), self.coordination_ns, view);
        Ok(Some((Cut::Rank(self.cut), fresh)))
    }
}
