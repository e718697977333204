//! Rank cuts: `rss`, and `session`/`stale` as the same with a lower cut.
//!
//! With clocks bounded by ε, t = max(token, now + ε) needs no message to choose: a transaction that was answered
//! before the query arrived was answered at a true time after its rank, so its rank is ≤ t. What
//! remains is closing t at the partitions read (and only for the granules read), then applying up to
//! there. Cuts are totally ordered, so queries never fork.
//!
//! Where clocks have no bound, t is found by asking ([`RankQuery::calibrated`]): after the query has arrived, each copy
//! that it reads tells how late a cut has to be to hold whatever was answered before and writes what is read; t is the
//! largest of these. It costs a round trip to the farthest region whose data is read, and waiting for the ranks of
//! those in flight there. Cuts are initial segments of one order as ever, so the queries are serializable; what clocks
//! gave beyond that is real time between writers that do not conflict.
//!
//! While a query waits for its farthest partition, the others advance. When everything has arrived, the cut is moved
//! up to the largest rank that is closed and applied at every partition by then: any later initial segment
//! is as good, and this one costs no time ([`Dynamic`]).

use super::{Ask, Chosen, Dynamic, Mutant, Progress, QueryMeta, Readable, Rule, Told, View};
use base::cut::CutChoice;
use base::order::Close;
use base::{LogPosition, PartitionId, Rank, SqlError, Time};
use std::collections::{BTreeMap, BTreeSet};

/// A query at a rank cut.
pub struct RankQuery {
    meta: QueryMeta,
    cut: Rank,
    /// Of the partitions that have closed the cut: log end, and the rank up to which it is closed.
    closed: BTreeMap<PartitionId, (LogPosition, Rank)>,
    /// Partitions that have not answered how late the cut has to be; `None`: none is asked.
    finding: Option<BTreeSet<PartitionId>>,
    /// All have told just now.
    just_found: bool,
    /// The cut may be moved up.
    dynamic: bool,
    planted: Option<Mutant>,
    coordination_ns: u64,
    choice: CutChoice,
    /// Who closed last, and after how long, of which it had waited itself so long.
    last: Option<(PartitionId, u64, u64)>,
}

impl RankQuery {
    /// `rss`: everything answered before the query arrived lies at or before `cut`. `planted`: a fault, in tests.
    pub fn strong(
        meta: QueryMeta,
        cut: Rank,
        dynamic: Dynamic,
        view: &dyn View,
        planted: Option<Mutant>,
    ) -> RankQuery {
        let begins = meta.reads.keys().map(|p| view.begins_at(*p)).max().unwrap_or_default();
        let cut = cut.max(meta.token.rank).max(begins);
        let choice = CutChoice::Clock;
        RankQuery { dynamic: dynamic != Dynamic::Off, planted, choice, ..RankQuery::at(meta, cut) }
    }

    /// A given cut, such as a pinned one or a session's.
    pub fn at(meta: QueryMeta, cut: Rank) -> RankQuery {
        RankQuery {
            meta,
            cut,
            closed: BTreeMap::new(),
            finding: None,
            just_found: false,
            dynamic: false,
            planted: None,
            coordination_ns: 0,
            choice: CutChoice::Given,
            last: None,
        }
    }

    /// Where clocks have no bound: the cut is found by asking those who order what is read.
    pub fn found(meta: QueryMeta) -> RankQuery {
        let cut = meta.token.rank;
        let finding = Some(meta.reads.keys().copied().collect());
        RankQuery { finding, choice: CutChoice::Calibrated, ..RankQuery::at(meta, cut) }
    }

    /// `regular` over columns where clocks have no bound. Below [`View::least_cut`] nothing may be left.
    pub fn calibrated(meta: QueryMeta, dynamic: Dynamic, view: &dyn View) -> RankQuery {
        let begins = meta.reads.keys().map(|p| view.begins_at(*p)).max().unwrap_or_default();
        let query = RankQuery::found(meta);
        let cut = query.cut.max(view.least_cut()).max(begins);
        RankQuery { cut, dynamic: dynamic != Dynamic::Off, ..query }
    }

    /// `session` and `stale`: `cut` is what is complete here already, or what their plan or token needs.
    pub fn local(meta: QueryMeta, cut: Rank, view: &dyn View) -> RankQuery {
        let begins = meta.reads.keys().map(|p| view.begins_at(*p)).max().unwrap_or_default();
        let cut = cut.max(meta.token.rank).max(begins);
        RankQuery { choice: CutChoice::Local, ..RankQuery::part(meta, cut, view, None) }
    }

    /// A given cut, of which nobody is asked for what is complete here already: a part of a query over several
    /// readers. `planted`: a fault, in tests.
    pub fn part(meta: QueryMeta, cut: Rank, view: &dyn View, planted: Option<Mutant>) -> RankQuery {
        let mut query = RankQuery::at(meta, cut);
        for &partition in query.meta.reads.keys() {
            if view.low(partition) >= cut || planted == Some(Mutant::CloseAtCoordinatorOnly) {
                // Should a copy of the partition begin to arrive meanwhile, it has to come as far again.
                query.closed.insert(partition, (view.applied(partition), cut));
            }
        }
        query
    }

    pub fn cut(&self) -> Rank {
        self.cut
    }
}

impl Rule for RankQuery {
    fn asks(&self) -> Vec<Ask> {
        if let Some(finding) = self.finding.as_ref().filter(|finding| !finding.is_empty()) {
            return finding.iter().map(|p| Ask::Latest(*p, self.meta.reads[p].clone())).collect();
        }
        let open = self.meta.reads.iter().filter(|(p, _)| !self.closed.contains_key(p));
        open.map(|(&partition, granules)| {
            Ask::Close(Close { partition, rank: self.cut, granules: granules.clone() })
        })
        .collect()
    }

    fn told(&mut self, now: Time, told: Told) {
        if let (Told::Latest { partition, rank }, Some(finding)) = (&told, &mut self.finding) {
            if finding.remove(partition) {
                self.cut = self.cut.max(*rank);
                self.just_found = finding.is_empty();
            }
            return;
        }
        let Told::Closed { partition, closed, through, waited_ns } = told else { return };
        if self.closed.insert(partition, (closed.position, through)).is_none() {
            // The slowest way there and back, without what the partition itself waited for.
            let on_the_way_ns = now.since(self.meta.arrived).saturating_sub(waited_ns);
            self.coordination_ns = self.coordination_ns.max(on_the_way_ns);
            self.last = Some((partition, now.since(self.meta.arrived), waited_ns));
        }
    }

    fn chosen(&self, view: &dyn View) -> Option<Chosen> {
        if self.finding.as_ref().is_some_and(|finding| !finding.is_empty()) {
            return None;
        }
        Some(Chosen { rank: self.cut.max(view.least_cut()), choice: self.choice })
    }

    fn follow_up(&mut self) -> Vec<Ask> {
        if std::mem::take(&mut self.just_found) { self.asks() } else { Vec::new() }
    }

    fn progress(&mut self, now: Time, view: &dyn View) -> Result<Progress, SqlError> {
        if self.finding.as_ref().is_some_and(|finding| !finding.is_empty()) {
            return Ok(Progress::Choosing);
        }
        if self.closed.len() < self.meta.reads.len() {
            return Ok(Progress::Closing);
        }
        if self.closed.iter().any(|(p, (end, _))| view.applied(*p) < *end) {
            return Ok(Progress::Applying);
        }
        if self.dynamic {
            // Applied up to its log end, a partition has everything that it closed by then.
            let through = self.closed.iter().map(|(p, (_, through))| match self.planted {
                Some(Mutant::RaiseUnclosed) => view.newest(*p),
                _ => view.low(*p).max(*through),
            });
            let through = through.min();
            if through.is_some_and(|through| through > self.cut) {
                base::sometimes!("a rank cut is moved up while its query waits");
                self.cut = through.expect("just looked");
            }
        }
        let meta = &self.meta;
        let chosen = Chosen { rank: self.cut, choice: self.choice };
        let complete_until = chosen.complete_until(meta.arrived);
        let mut readable = Readable::at(meta, now, self.cut, complete_until, self.coordination_ns, view);
        (readable.freshness.choice, readable.freshness.last) = (self.choice, self.last);
        Ok(Progress::Readable(readable))
    }
}
