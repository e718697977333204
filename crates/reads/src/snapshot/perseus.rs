//! `regular`: per-query cuts closed under dependencies (PERSEUS §IV, as repaired).
//!
//! After the query arrived, each partition it reads is asked how far it has executed. The answers form a
//! vector of log positions, the *required* one: an answer to a client waits for execution everywhere, so the
//! vector holds every conflicting writer that was answered before. It is extended until it is closed, under
//! ancestors and under what the writers' sessions had seen; then by whatever else has arrived and fits
//! ([`Dynamic`]).
//!
//! A token carries positions and a rank. The rank stands for ancestors that may have to be seen at partitions
//! which the session never touched: no ancestor is ranked above its descendant. A partition whose answer is
//! not complete up to that rank is asked to close it for what is read.
//!
//! KEEPS: required ≤ cut ≤ what has arrived; the cut is closed; it is at or above every cut that was handed
//! out here before this query's requirements were complete, so queries of one node do not fork unless they
//! overlap.
//!
//! It does not give one order for all queries. Two non-conflicting writers T1@A, T2@B and two queries
//! that calibrate A and B at different moments see them in opposite orders (a long fork), although each
//! cut is closed. The paper claims regular sequential serializability for this; it takes rank cuts
//! ([`super::rank`]) to get it.

use super::{Ask, ColumnView, Dynamic, Mutant, QueryMeta, SnapshotRule, Told, freshness};
use crate::graph::{Closure, Known, Missing, Vector};
use base::order::{Calibration, Close};
use base::{Cut, Freshness, LogPosition, PartitionId, Rank, SqlError, SqlState, Time};
use std::collections::{BTreeMap, BTreeSet};

/// A query at a vector cut.
pub struct RegularQuery {
    meta: QueryMeta,
    dynamic: Dynamic,
    calibrated: BTreeMap<PartitionId, Calibration>,
    /// To be asked to close the token's rank; and asked.
    to_close: Vec<PartitionId>,
    closing: BTreeSet<PartitionId>,
    /// Once everything is known that it depends on.
    required: Option<Vector>,
    waiting: Option<Missing>,
    error: Option<SqlError>,
    coordination_ns: u64,
    planted: Option<Mutant>,
}

impl RegularQuery {
    /// `planted`: a fault, in tests.
    pub fn new(meta: QueryMeta, dynamic: Dynamic, planted: Option<Mutant>) -> RegularQuery {
        RegularQuery {
            meta,
            dynamic,
            calibrated: BTreeMap::new(),
            to_close: Vec::new(),
            closing: BTreeSet::new(),
            required: None,
            waiting: None,
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
                    .hint("The token was given by another cluster, or by a former life of this one; reset it with SET meridian.token."),
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

    /// Everything this query needs, however it came to know it.
    fn require(&mut self, view: &dyn ColumnView) -> Vector {
        let token = &self.meta.token.positions;
        let calibrated = &self.calibrated;
        self.required
            .get_or_insert_with(|| {
                let needed = |(p, calibration): (&PartitionId, &Calibration)| {
                    let session = token.get(p).copied().unwrap_or_default();
                    (*p, calibration.position.max(session).max(view.issued(*p)))
                };
                calibrated.iter().map(needed).collect()
            })
            .clone()
    }
}

impl SnapshotRule for RegularQuery {
    fn asks(&self) -> Vec<Ask> {
        let open = self.meta.reads.keys().filter(|p| !self.calibrated.contains_key(p));
        open.map(|p| Ask::Calibrate(*p)).collect()
    }

    fn follow_up(&mut self) -> Vec<Ask> {
        let rank = self.meta.token.rank;
        let close = |p| Ask::Close(Close { partition: p, rank, granules: self.meta.reads[&p].clone() });
        std::mem::take(&mut self.to_close).into_iter().map(close).collect()
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

    fn ready(&mut self, now: Time, view: &dyn ColumnView) -> Result<Option<(Cut, Freshness)>, SqlError> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        if self.calibrated.len() < self.meta.reads.len() || !self.closing.is_empty() {
            return Ok(None);
        }
        let required = self.require(view);
        if required.iter().any(|(p, position)| view.applied(*p) < *position) {
            return Ok(None);
        }
        // All that was asked for has arrived, so what the answers called complete is.
        let answered = |p: PartitionId| self.calibrated[&p].low;
        let low = |p: PartitionId| view.low(p).max(answered(p));
        let partitions = || self.meta.reads.keys().copied();
        let base = match self.dynamic {
            Dynamic::Off => partitions().map(answered).min(),
            _ => partitions().map(low).min(),
        };
        let sessions = self.planted != Some(Mutant::NoSessionEdges);
        let known = Known { base: base.unwrap_or_default(), low: &low, sessions };
        let graph = view.graph();
        if self.waiting.as_ref().is_some_and(|missing| graph.is_missing(missing, &known)) {
            return Ok(None);
        }
        let (closed, members) = match graph.close(&required, &known) {
            Closure::Waiting(missing) => {
                base::sometimes!("a regular query waits for an ancestor");
                self.waiting = missing.first().copied();
                return Ok(None);
            }
            Closure::Done { vector, members } => (vector, members),
        };
        let applied: Vector = partitions().map(|p| (p, view.applied(p))).collect();
        let vector = match self.dynamic {
            Dynamic::Off => closed,
            Dynamic::Essential | Dynamic::Threshold { .. } => {
                let extended = match self.planted {
                    Some(Mutant::KeepDescendants) => applied.clone(),
                    _ => graph.extend(&closed, &applied, &members, &known),
                };
                if let Dynamic::Threshold { ns } = self.dynamic {
                    let until = self.meta.arrived + ns;
                    let eta = |p, since, exchanges| view.eta(p, since, exchanges);
                    let plan = graph.plan(&closed, &applied, &members, &known, (until, &eta));
                    if now < until && plan != extended {
                        base::sometimes!("a regular query waits for what it need not see");
                        return Ok(None);
                    }
                }
                if extended != closed {
                    base::sometimes!("a vector cut is extended by what has arrived");
                }
                extended
            }
        };
        assert!(required.iter().all(|(p, position)| vector[p] >= *position), "a cut holds what it must");
        assert!(vector.iter().all(|(p, position)| applied[p] >= *position), "a cut holds only what arrived");
        debug_assert!(self.planted.is_some() || graph.is_closed(&vector, &known), "a cut is closed");
        let complete_until = self.meta.arrived.max(known.base.time());
        let cut = Cut::Vector(vector);
        let fresh = freshness(&self.meta, now, &cut, complete_until, self.coordination_ns, view);
        Ok(Some((cut, fresh)))
    }
}

/// Rank under which everything lies that a vector cut has shown or may have inherited.
pub fn newest_in(cut: &BTreeMap<PartitionId, LogPosition>, view: &dyn ColumnView) -> Rank {
    let newest = cut.iter().map(|(p, position)| view.graph().newest(*p, *position, Rank::MAX));
    newest.max().unwrap_or_default()
}
