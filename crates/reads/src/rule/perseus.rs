//! `regular`: per-query cuts closed under dependencies (PERSEUS §IV, as repaired).
//!
//! After the query arrived, each partition it reads is asked how far it has executed. Whatever the logs hold up
//! to the answers is *required*: an answer to a client waits for execution everywhere, so every conflicting
//! writer that was answered before is in there. The required transactions are extended until they are a closed
//! set ([`crate::graph`]), under ancestors and under what the writers' sessions had seen; then by whatever else
//! has arrived and fits ([`Dynamic`]). What a required transaction lacks at another partition was committed
//! when it was logged here, so it is on its way there: the wait is about one one-way delay. Streams gather records
//! for a while; those that are lacking are asked for.
//!
//! A token carries a rank. It stands for what the session has seen and for ancestors that may have to be seen
//! at partitions which it never touched: no ancestor is ranked above its descendant. A partition whose answer
//! is not complete up to that rank is asked to close it for what is read.
//!
//! KEEPS: required ⊆ cut ⊆ what has arrived; the cut is closed; it holds every cut that was handed out here
//! before this query's requirements were complete, so queries of one node do not fork unless they overlap.
//!
//! It does not give one order for all queries. Two non-conflicting writers T1@A, T2@B and two queries
//! that calibrate A and B at different moments see them in opposite orders (a long fork), although each
//! cut is closed. The paper claims regular sequential serializability for this; it takes rank cuts
//! ([`super::rank`]) to get it.

use super::{Ask, Dynamic, Mutant, Progress, QueryMeta, Readable, Rule, Told, View, freshness};
use crate::graph::{Closure, DependencyGraph, Known, Missing, Vector};
use base::cut::CutChoice;
use base::order::{Calibration, Close};
use base::{ClosedSet, Cut, LogPosition, PartitionId, Rank, SqlError, SqlState, Time, Token, TxnId};
use std::collections::{BTreeMap, BTreeSet};

/// What the sets that were handed out have held of one partition, in all.
#[derive(Clone, Debug, Default)]
pub struct Issued {
    base: Rank,
    above: BTreeSet<LogPosition>,
}

impl Issued {
    /// Takes a set that is handed out. Everything in it is in the graph still, or collected.
    pub fn take(&mut self, partition: PartitionId, set: &ClosedSet, graph: &DependencyGraph) {
        self.base = self.base.max(set.base);
        self.above.extend(&set.above[&partition]);
        let is_above =
            |at: &LogPosition| graph.entry(partition, *at).is_some_and(|(_, rank)| rank > self.base);
        self.above.retain(is_above);
    }
    pub fn holds(&self, position: LogPosition, rank: Rank) -> bool {
        rank <= self.base || self.above.contains(&position)
    }
}

/// A query at a closed set.
pub struct RegularQuery {
    meta: QueryMeta,
    partitions: BTreeSet<PartitionId>,
    dynamic: Dynamic,
    calibrated: BTreeMap<PartitionId, Calibration>,
    /// To be asked to close the token's rank; and asked.
    to_close: Vec<PartitionId>,
    closing: BTreeSet<PartitionId>,
    /// Once everything is known that it depends on.
    required: Option<Required>,
    waiting: Option<Missing>,
    /// Records that it lacks: their partitions send them on request, or with the next closed timestamp. Those to ask for,
    /// and all that were asked for.
    to_fetch: Vec<(PartitionId, TxnId)>,
    fetched: BTreeSet<(PartitionId, TxnId)>,
    error: Option<SqlError>,
    coordination_ns: u64,
    planted: Option<Mutant>,
}

/// What a cut must hold.
#[derive(Clone, Debug)]
struct Required {
    /// Everything that these logs have up to here.
    upto: Vector,
    /// What other queries here have seen beyond that.
    issued: BTreeMap<PartitionId, BTreeSet<LogPosition>>,
}

impl Required {
    /// Its entries that are ranked above `base`.
    fn above<'a>(
        &'a self,
        base: Rank,
        graph: &'a DependencyGraph,
    ) -> impl Iterator<Item = (PartitionId, LogPosition, TxnId)> + 'a {
        let calibrated = self.upto.iter().flat_map(move |(p, upto)| {
            graph.entries_above(*p, base, *upto).map(move |(at, txn)| (*p, at, txn))
        });
        let issued = self.issued.iter().flat_map(|(p, positions)| positions.iter().map(move |at| (*p, *at)));
        let issued = issued.filter_map(move |(p, at)| Some((p, at, graph.entry(p, at)?)));
        calibrated
            .chain(issued.filter(move |(.., (_, rank))| *rank > base).map(|(p, at, (txn, _))| (p, at, txn)))
    }
}

impl RegularQuery {
    /// `planted`: a fault, in tests.
    pub fn new(meta: QueryMeta, dynamic: Dynamic, planted: Option<Mutant>) -> RegularQuery {
        RegularQuery {
            partitions: meta.reads.keys().copied().collect(),
            meta,
            dynamic,
            calibrated: BTreeMap::new(),
            to_close: Vec::new(),
            closing: BTreeSet::new(),
            required: None,
            waiting: None,
            to_fetch: Vec::new(),
            fetched: BTreeSet::new(),
            error: None,
            coordination_ns: 0,
            planted,
        }
    }

    fn calibrated(&mut self, partition: PartitionId, calibration: Calibration) -> bool {
        if self.calibrated.contains_key(&partition) {
            return false;
        }
        let token = &self.meta.token;
        let wanted = token.positions.get(&partition).copied().unwrap_or_default();
        if wanted > calibration.position {
            let position = calibration.position;
            self.error = Some(
                SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("the token names a position that {partition} never had"))
                    .detail(format!("It asks for position {wanted}, the log ends at {position}."))
                    .hint("The token was given by another cluster, or by an earlier incarnation of this one; reset it with SET meridian.token."),
            );
        }
        if calibration.low < token.rank && self.planted != Some(Mutant::TokenWithoutAncestors) {
            base::sometimes!("a session's rank is closed for a regular query");
            self.to_close.push(partition);
            self.closing.insert(partition);
        }
        self.calibrated.insert(partition, calibration);
        true
    }

    /// What this query needs, from the moment on at which every partition has answered.
    fn require(&mut self, view: &dyn View) -> &Required {
        let (token, calibrated) = (&self.meta.token.positions, &self.calibrated);
        self.required.get_or_insert_with(|| {
            let needed = |(p, calibration): (&PartitionId, &Calibration)| {
                (*p, calibration.position.max(token.get(p).copied().unwrap_or_default()))
            };
            let upto: Vector = calibrated.iter().map(needed).collect();
            let issued = |(p, upto): (&PartitionId, &LogPosition)| {
                let beyond = view.graph().entries_after(*p, *upto);
                let issued = beyond.filter(|(at, rank)| view.was_issued(*p, *at, *rank));
                (*p, issued.map(|(at, _)| at).collect())
            };
            Required { issued: upto.iter().map(issued).collect(), upto }
        })
    }

    /// The base of the set: everything at or below it is in. `low`: so far partitions are complete here.
    fn base(&self, low: &dyn Fn(PartitionId) -> Rank, view: &dyn View) -> Rank {
        let complete = match self.dynamic {
            Dynamic::Off => self.partitions.iter().map(|p| self.calibrated[p].low).min(),
            _ => self.partitions.iter().map(|p| low(*p)).min(),
        };
        // A copy of a partition cannot be read below its beginning.
        let begins = self.partitions.iter().map(|p| view.begins_at(*p)).max();
        complete.max(begins).unwrap_or_default()
    }

    /// Required ⊆ set ⊆ what has arrived, and it is closed.
    fn check(&self, set: &ClosedSet, applied: &Vector, known: &Known, view: &dyn View) {
        let (graph, required) = (view.graph(), self.required.as_ref().expect("made before"));
        let is_in = |p: PartitionId, at: LogPosition| set.above[&p].contains(&at);
        assert!(required.above(set.base, graph).all(|(p, at, _)| is_in(p, at)), "a cut holds what it must");
        let has_arrived = |(p, positions): (&PartitionId, &BTreeSet<LogPosition>)| {
            positions.last().is_none_or(|last| *last <= applied[p])
        };
        assert!(set.above.iter().all(has_arrived), "a cut holds only what arrived");
        debug_assert!(self.planted.is_some() || graph.is_closed(set, known), "a cut is closed");
    }

    /// A set that may be read now.
    fn readable(&self, now: Time, set: ClosedSet, view: &dyn View) -> Readable {
        let (graph, required) = (view.graph(), self.required.as_ref().expect("made before"));
        let is_in = |p: PartitionId, at: LogPosition| set.above[&p].contains(&at);
        let newest = |p: &PartitionId| graph.newest(*p, |at, rank| rank <= set.base || is_in(*p, at));
        // Ancestors of what was seen are ranked no higher than it.
        let newest = self.partitions.iter().map(newest).max().unwrap_or_default();
        let seen = |(p, upto): (&PartitionId, &LogPosition)| {
            (*p, set.above[p].last().copied().unwrap_or_default().max(*upto))
        };
        let positions = required.upto.iter().map(seen).collect();
        let token = Token { positions, ..Token::at(newest) };
        let complete_until = self.meta.arrived.max(set.base.time());
        let mut freshness = freshness(self.meta.arrived, now, newest, complete_until, self.coordination_ns);
        freshness.choice = CutChoice::ClosedSet;
        Readable { cut: Cut::Set(set), token, freshness }
    }
}

impl Rule for RegularQuery {
    fn asks(&self) -> Vec<Ask> {
        let open = self.meta.reads.keys().filter(|p| !self.calibrated.contains_key(p));
        open.map(|p| Ask::Calibrate(*p)).collect()
    }

    fn follow_up(&mut self) -> Vec<Ask> {
        let rank = self.meta.token.rank;
        let close = |p| Ask::Close(Close { partition: p, rank, granules: self.meta.reads[&p].clone() });
        let closes = std::mem::take(&mut self.to_close).into_iter().map(close);
        let fetches = std::mem::take(&mut self.to_fetch).into_iter().map(|(p, txn)| Ask::Record(p, txn));
        closes.chain(fetches).collect()
    }

    fn told(&mut self, now: Time, told: Told) {
        // Asked and answered after the arrival, so everything answered before it is executed there.
        let waited_ns = match told {
            Told::Calibrated { partition, calibration } if self.calibrated(partition, calibration) => 0,
            Told::Closed { partition, closed, waited_ns, .. } if self.closing.remove(&partition) => {
                let calibration =
                    self.calibrated.get_mut(&partition).expect("closed after it was calibrated");
                calibration.position = calibration.position.max(closed.position);
                waited_ns
            }
            _ => return,
        };
        let on_the_way_ns = now.since(self.meta.arrived).saturating_sub(waited_ns);
        self.coordination_ns = self.coordination_ns.max(on_the_way_ns);
    }

    fn progress(&mut self, now: Time, view: &dyn View) -> Result<Progress, SqlError> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        if self.calibrated.len() < self.partitions.len() {
            return Ok(Progress::Choosing);
        }
        if !self.closing.is_empty() {
            return Ok(Progress::Closing);
        }
        if self.require(view).upto.iter().any(|(p, position)| view.applied(*p) < *position) {
            return Ok(Progress::Applying);
        }
        // All that was asked for has arrived, so what the answers called complete is.
        let low = |p: PartitionId| view.low(p).max(self.calibrated[&p].low);
        let base = self.base(&low, view);
        if self.partitions.iter().any(|p| low(*p) < base) {
            return Ok(Progress::Applying);
        }
        let sessions = self.planted != Some(Mutant::NoSessionEdges);
        let known = Known { partitions: &self.partitions, base, low: &low, sessions };
        let graph = view.graph();
        if self.waiting.as_ref().is_some_and(|missing| graph.is_missing(missing, &known)) {
            return Ok(Progress::Applying);
        }
        let required = self.required.as_ref().expect("made above");
        let least = match graph.close(required.above(base, graph).map(|(.., txn)| txn), &known) {
            Closure::Waiting(missing) => {
                base::sometimes!("a regular query waits for an ancestor");
                self.waiting = Some(missing);
                let lacking = graph.lacking(required.above(base, graph).map(|(.., txn)| txn), &known);
                self.to_fetch = lacking.into_iter().filter(|record| self.fetched.insert(*record)).collect();
                return Ok(Progress::Applying);
            }
            Closure::Closed(least) => least,
        };
        let applied: Vector = self.partitions.iter().map(|p| (*p, view.applied(*p))).collect();
        let members = match self.dynamic {
            Dynamic::Off => least,
            Dynamic::Essential | Dynamic::Threshold { .. } => {
                let extended = match self.planted {
                    Some(Mutant::KeepDescendants) => graph.arrived(&applied, &known),
                    _ => graph.extend(&applied, &known),
                };
                if let Dynamic::Threshold { ns } = self.dynamic {
                    let until = self.meta.arrived + ns;
                    let eta = |p, since, exchanges| view.eta(p, since, exchanges);
                    if now < until && graph.plan(&applied, &known, (until, &eta)) != extended {
                        base::sometimes!("a regular query waits for what it need not see");
                        return Ok(Progress::Applying);
                    }
                }
                if extended != least {
                    base::sometimes!("a closed set is extended by what has arrived");
                }
                extended
            }
        };
        let set = graph.places(&members, &self.partitions);
        self.check(&set, &applied, &known, view);
        Ok(Progress::Readable(self.readable(now, set, view)))
    }
}
