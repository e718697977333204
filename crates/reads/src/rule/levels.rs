//! The levels of consistency: which rule the cut of a read follows. The one place where levels differ.
//!
//! IN: a read with its level, what this node knows of its copies. OUT: its cut where that is known at once, else a
//! [`Rule`] that finds it. KEEPS: a strong cut holds everything that was answered before the read arrived and conflicts
//! with it; no cut lies below the session's token, except at `stale`, which waits for nothing; no cut that is chosen here
//! lies below the last change of a table that is read, because the statement was planned with the catalog as it is here:
//! the rows of an earlier cut have another shape, or the table is not there at all.
//!
//! | level | rows, pins and parts of distributed queries | columns kept here |
//! |---|---|---|
//! | `rss` | at the clock's reading and its bound; refused where clocks have no bound | the same rank, moved up while waiting ([`RankQuery::strong`]) |
//! | `regular` | as `rss`; found by asking where clocks have no bound ([`RankQuery::found`]) | a closed set ([`RegularQuery`]); with a copy in every region as for rows ([`RankQuery::calibrated`]) |
//! | `session`, `stale` | what is complete in the columns here; a strong read where nothing is known to be | the same ([`RankQuery::local`]) |
//!
//! At a replica of rows a policy says how a strong read finds its cut, or lowers its level ([`Levels::over_replicas`]).

use super::perseus::RegularQuery;
use super::rank::RankQuery;
use super::{Chosen, Dynamic, Followed, Mutant, QueryMeta, Rule, View};
use crate::protocol::ReadProtocol;
use crate::replica::{ReadPolicy, ReplicaQuery};
use base::cut::{Consistency, CutChoice};
use base::topology::Topology;
use base::txn::Granule;
use base::{PartitionId, Rank, SqlError, TableId, Time, Token};
use std::collections::BTreeMap;

/// How a node chooses cuts, whatever is read.
#[derive(Clone, Debug)]
pub struct Levels {
    /// `None`: clocks have no bound.
    clock_bound_ns: Option<u64>,
    /// Logs of two copies differ where order does not matter: their positions mean nothing to each other.
    is_replicated: bool,
    dynamic: Dynamic,
    planted: Option<Mutant>,
}

/// A read, as far as its level is concerned.
#[derive(Clone, Copy)]
pub struct Wish<'a> {
    pub arrived: Time,
    pub level: Consistency,
    /// The cut of an open transaction.
    pub given: Option<Rank>,
    pub token: &'a Token,
    pub is_read: &'a dyn Fn(TableId) -> bool,
}

impl Wish<'_> {
    fn is_strong(&self) -> bool {
        self.given.is_none() && is_strong(self.level)
    }
}

fn is_strong(level: Consistency) -> bool {
    matches!(level, Consistency::Rss | Consistency::Regular)
}

/// How a read of this level chooses its cut. `over_columns`: kept by the node that reads, not at a transaction's cut.
pub fn choice_at(level: Consistency, topology: &Topology, over_columns: bool) -> CutChoice {
    match level {
        Consistency::Session | Consistency::Stale => CutChoice::Local,
        Consistency::Rss | Consistency::Regular if topology.unbounded_clocks => CutChoice::Calibrated,
        Consistency::Regular if over_columns && !topology.is_replicated() => CutChoice::ClosedSet,
        Consistency::Rss | Consistency::Regular => CutChoice::Clock,
    }
}

impl Levels {
    /// `planted`: a fault, in tests.
    pub fn new(topology: &Topology, dynamic: Dynamic, planted: Option<Mutant>) -> Levels {
        Levels {
            clock_bound_ns: (!topology.unbounded_clocks).then_some(topology.clock_bound_ns),
            is_replicated: topology.is_replicated(),
            dynamic,
            planted,
        }
    }

    /// The rank at which a read that arrives now is cut. `None`: it has to be found by asking ([`Levels::found`]).
    /// `partitions`: those whose columns would say what is complete.
    ///
    /// Errors: 0A000, the level rests on clocks that have no bound.
    pub fn choose(
        &self,
        wish: &Wish,
        partitions: impl Iterator<Item = PartitionId>,
        view: &dyn View,
    ) -> Result<Option<Chosen>, SqlError> {
        if let Some(rank) = wish.given {
            return Ok(Some(Chosen { rank, choice: CutChoice::Given }));
        }
        let strong = self.clock_bound_ns.map(|bound_ns| wish.arrived.rank() + bound_ns);
        let (cut, choice) = match wish.level {
            Consistency::Rss if strong.is_none() => return Err(rests_on_clocks()),
            Consistency::Rss | Consistency::Regular => (strong, CutChoice::Clock),
            Consistency::Session | Consistency::Stale => {
                let cut = match (complete(partitions, view), strong) {
                    (Some(low), Some(strong)) => Some(low.min(strong)),
                    (low, strong) => low.or(strong),
                };
                (cut, CutChoice::Local)
            }
        };
        let seen = match wish.level {
            // It waits for nothing, not even for what its own session has written.
            Consistency::Stale => Rank::ZERO,
            _ => wish.token.rank,
        };
        let Some(cut) = cut.map(|cut| cut.max(seen)) else { return Ok(None) };
        let changed = view.changed_above(cut, wish.is_read);
        if changed.is_some() {
            base::sometimes!("a cut is moved up to the last change of a table that is read");
        }
        Ok(Some(Chosen { rank: changed.unwrap_or(cut), choice }))
    }

    /// As [`Levels::choose`], for a query over columns some of which other readers keep. What came to this node as a
    /// copy can be read from its beginning on.
    pub fn choose_for_readers(
        &self,
        wish: &Wish,
        here: &[PartitionId],
        view: &dyn View,
    ) -> Result<Option<Chosen>, SqlError> {
        let chosen = self.choose(wish, here.iter().copied(), view)?;
        let begins = here.iter().map(|p| view.begins_at(*p)).max().unwrap_or_default();
        Ok(chosen.map(|chosen| match wish.given {
            Some(_) => chosen,
            None => Chosen { rank: chosen.rank.max(begins), ..chosen },
        }))
    }

    /// Finds the cut of a strong read by asking those who order what it reads, after it arrived.
    pub fn found(
        &self,
        arrived: Time,
        token: Rank,
        reads: BTreeMap<PartitionId, Vec<Granule>>,
    ) -> Box<dyn Rule> {
        Box::new(RankQuery::found(QueryMeta { arrived, token: Token::at(token), reads }))
    }

    /// The rule for a query over columns that are all kept here.
    ///
    /// Errors: as [`Levels::choose`].
    pub fn over_columns(
        &self,
        wish: &Wish,
        reads: BTreeMap<PartitionId, Vec<Granule>>,
        protocol: &dyn ReadProtocol,
        view: &dyn View,
    ) -> Result<Followed, SqlError> {
        let chosen = self.choose(wish, reads.keys().copied(), view)?;
        let token = match wish.level {
            Consistency::Stale => Token::default(),
            _ => wish.token.clone(),
        };
        let meta = QueryMeta { arrived: wish.arrived, token, reads };
        if wish.is_strong()
            && let Some(followed) =
                protocol.strong(meta.clone(), self.clock_bound_ns.unwrap_or_default(), view)
        {
            return Ok(followed);
        }
        if wish.given.is_none() && wish.level == Consistency::Regular && !self.is_replicated {
            // Its base will not lie below what is complete now. (What was collected would be a floor, too, but
            // one that follows itself: where some query is always open, nothing more is ever collected.)
            let complete = meta.reads.keys().map(|p| view.low(*p)).min().unwrap_or_default();
            let floor = complete.max(view.collected_below());
            let rule = Box::new(RegularQuery::new(meta, self.dynamic, self.planted));
            return Ok(Followed { rule, floor });
        }
        let is_complete = complete(meta.reads.keys().copied(), view).is_some();
        let rule = match chosen {
            // Of an old cut, most is complete here.
            Some(Chosen { rank, choice: CutChoice::Given }) => RankQuery::part(meta, rank, view, None),
            Some(Chosen { rank, .. }) if is_complete && !is_strong(wish.level) => {
                RankQuery::local(meta, rank, view)
            }
            Some(Chosen { rank, .. }) => RankQuery::strong(meta, rank, self.dynamic, view, self.planted),
            None => RankQuery::calibrated(meta, self.dynamic, view),
        };
        let floor = rule.cut();
        Ok(Followed { rule: Box::new(rule), floor })
    }

    /// The rule for a read of rows of which this node keeps replicas. `None`: the partition's own node answers it.
    ///
    /// Errors: as [`Levels::choose`].
    pub fn over_replicas(
        &self,
        wish: &Wish,
        policy: ReadPolicy,
        reads: BTreeMap<PartitionId, Vec<Granule>>,
        protocol: &dyn ReadProtocol,
        view: &dyn View,
    ) -> Result<Option<Followed>, SqlError> {
        let level = match policy {
            ReadPolicy::Session if is_strong(wish.level) => Consistency::Session,
            ReadPolicy::Stale { .. } => Consistency::Stale,
            _ => wish.level,
        };
        let wish = Wish { level, ..*wish };
        let Some(bound_ns) = self.clock_bound_ns else { return Ok(None) };
        if policy == ReadPolicy::Primary || complete(reads.keys().copied(), view).is_none() {
            return Ok(None);
        }
        let Some(Chosen { rank, .. }) = self.choose(&wish, reads.keys().copied(), view)? else {
            return Ok(None);
        };
        let token = if level == Consistency::Stale { Token::default() } else { wish.token.clone() };
        let meta = QueryMeta { arrived: wish.arrived, token, reads };
        if wish.given.is_some() {
            let rule = RankQuery::part(meta, rank, view, None);
            return Ok(Some(Followed { rule: Box::new(rule), floor: rank }));
        }
        if !wish.is_strong() {
            let oldest = match policy {
                ReadPolicy::Stale { bound_ns: Some(ns) } => (wish.arrived - ns).rank(),
                _ => Rank::ZERO,
            };
            let rule = RankQuery::local(meta, rank.max(oldest), view);
            let floor = rule.cut();
            return Ok(Some(Followed { rule: Box::new(rule), floor }));
        }
        if policy == ReadPolicy::CommitWait {
            return Ok(protocol.strong(meta, bound_ns, view));
        }
        // Whoever has seen more than others, or needs a later catalog, asks alone: the others would wait for its rank.
        let begins = meta.reads.keys().map(|p| view.begins_at(*p)).max().unwrap_or_default();
        let asks_alone = rank.max(begins) > wish.arrived.rank() + bound_ns;
        if policy == ReadPolicy::ReadWait || asks_alone {
            let rule = RankQuery::strong(meta, rank, Dynamic::Off, view, None);
            let floor = rule.cut();
            return Ok(Some(Followed { rule: Box::new(rule), floor }));
        }
        // What the session has seen, what is here, and the catalog that the read was planned with.
        let seen = complete(meta.reads.keys().copied(), view).unwrap_or_default().max(begins);
        let seen = seen.max(meta.token.rank);
        let floor = view.changed_above(seen, wish.is_read).unwrap_or(seen);
        Ok(Some(ReplicaQuery::followed(meta, floor)))
    }

    /// The rule for another node's query, of which this reader gives a part at the cut of the whole. `is_remote`: the
    /// query came from another node.
    pub fn part(
        &self,
        arrived: Time,
        at: Rank,
        reads: BTreeMap<PartitionId, Vec<Granule>>,
        is_remote: bool,
        view: &dyn View,
    ) -> Followed {
        let planted = self.planted.filter(|_| is_remote);
        let cut = match planted {
            Some(Mutant::OwnCutAtEachReader) => reads.keys().map(|p| view.low(*p)).min().unwrap_or(at),
            _ => at,
        };
        let meta = QueryMeta { arrived, token: Token::default(), reads };
        Followed { rule: Box::new(RankQuery::part(meta, cut, view, planted)), floor: at }
    }
}

/// Up to where the columns here have everything of these partitions; `None`: of some nothing is known, or there are none.
fn complete(partitions: impl Iterator<Item = PartitionId>, view: &dyn View) -> Option<Rank> {
    let mut complete: Option<Rank> = None;
    for partition in partitions {
        let low = view.complete(partition)?;
        complete = Some(complete.map_or(low, |complete| complete.min(low)));
    }
    complete
}

/// Level `rss` where clocks have no bound.
pub fn rests_on_clocks() -> SqlError {
    SqlError::unsupported("level rss where clocks have no bound")
        .detail("Real time between transactions that do not conflict cannot be told without clocks.")
        .hint("SET meridian.consistency = 'regular': one serial order, and whatever was answered before is in there.")
}
