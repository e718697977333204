//! PERSEUS' Alg. 2 and 3 as published, for comparison only: never a level of SQL. It gives no guarantee at all,
//! which `crates/sim/tests/worlds/matrix.rs` shows column by column.
//!
//! The order of a transaction arrives ahead of its updates. A query asks every partition for what was
//! committed and not confirmed received (G_RSS); of everything else that is known it leaves out, one
//! transaction at a time, whatever would come later than a threshold (Alg. 2, line 21); it adds what its
//! session has seen without the ancestors of that (line 9); then it waits for the updates of the rest and
//! has them merged into the one storage that all queries share (Alg. 3, lines 9 to 13).
//!
//! The cut that it hands out is all that is merged there.
//!
//! What that loses: a transaction that had been answered, and whose order was confirmed, may be left out;
//! so may one on which another depends that stays; and what other queries had merged is read along.

use super::{Ask, Followed, Progress, QueryMeta, Readable, Rule, Told, View, freshness};
use crate::protocol::ReadProtocol;
use base::{Cut, LogPosition, PartitionId, Rank, SqlError, Time, Token};
use std::collections::{BTreeMap, BTreeSet};

/// How the printed protocol runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Printed {
    /// Transactions whose updates come later than this after the snapshot is calculated are left out, in ns.
    pub threshold_ns: u64,
    /// Updates come up to this long after their order, in ns.
    pub lag_max_ns: u64,
}

impl Default for Printed {
    fn default() -> Self {
        Printed { threshold_ns: 10 * base::time::MS, lag_max_ns: 80 * base::time::MS }
    }
}

impl ReadProtocol for Printed {
    fn strong(&self, meta: QueryMeta, _: u64, view: &dyn View) -> Option<Followed> {
        let rule = Box::new(PrintedQuery::new(meta, *self, view));
        Some(Followed { rule, floor: view.collected_below() })
    }
    fn is_local(&self) -> bool {
        true
    }
    /// They are merged in another order.
    fn ships_whole_records(&self) -> bool {
        true
    }
}

/// A query by the printed algorithm.
pub struct PrintedQuery {
    meta: QueryMeta,
    printed: Printed,
    /// Orders received before the query came; what a partition had more than this was not confirmed.
    confirmed: BTreeMap<PartitionId, LogPosition>,
    calibrated: BTreeMap<PartitionId, LogPosition>,
    coordination_ns: u64,
    /// Once calculated: what must be merged, and when the last of it is here.
    waitlist: Option<(BTreeSet<(PartitionId, LogPosition)>, Time)>,
}

impl PrintedQuery {
    pub fn new(meta: QueryMeta, printed: Printed, view: &dyn View) -> PrintedQuery {
        let confirmed = meta.reads.keys().map(|p| (*p, view.applied(*p))).collect();
        let calibrated = BTreeMap::new();
        PrintedQuery { meta, printed, confirmed, calibrated, coordination_ns: 0, waitlist: None }
    }

    /// Alg. 2, `CalculateSnap`.
    fn calculate(&self, now: Time, view: &dyn View) -> (BTreeSet<(PartitionId, LogPosition)>, Time) {
        let mut waitlist = BTreeSet::new();
        let mut here_at = now;
        for &partition in self.meta.reads.keys() {
            let session = self.meta.token.positions.get(&partition);
            for (position, available_at) in view.unmerged(partition) {
                let is_required =
                    position > self.confirmed[&partition] && position <= self.calibrated[&partition];
                let is_late = available_at.since(now) > self.printed.threshold_ns;
                if is_required || !is_late || session == Some(&position) {
                    waitlist.insert((partition, position));
                    here_at = here_at.max(available_at);
                }
            }
        }
        (waitlist, here_at)
    }
}

impl Rule for PrintedQuery {
    fn asks(&self) -> Vec<Ask> {
        let open = self.meta.reads.keys().filter(|p| !self.calibrated.contains_key(p));
        open.map(|p| Ask::Calibrate(*p)).collect()
    }

    fn told(&mut self, now: Time, told: Told) {
        let Told::Calibrated { partition, calibration } = told else { return };
        self.calibrated.entry(partition).or_insert(calibration.position);
        self.coordination_ns = self.coordination_ns.max(now.since(self.meta.arrived));
    }

    fn progress(&mut self, now: Time, view: &dyn View) -> Result<Progress, SqlError> {
        let orders_known = |(p, position): (&PartitionId, &LogPosition)| view.applied(*p) >= *position;
        if self.calibrated.len() < self.meta.reads.len() {
            return Ok(Progress::Choosing);
        }
        if !self.calibrated.iter().all(orders_known) {
            return Ok(Progress::Closing);
        }
        if self.waitlist.is_none() {
            self.waitlist = Some(self.calculate(now, view));
        }
        if self.waitlist.as_ref().is_some_and(|(_, here_at)| now < *here_at) {
            return Ok(Progress::Applying);
        }
        let newest = self.calibrated.iter().map(|(p, upto)| view.graph().newest(*p, |at, _| at <= *upto));
        let newest = newest.max().unwrap_or_default();
        Ok(Progress::Readable(Readable {
            cut: Cut::Rank(Rank::MAX),
            token: Token { positions: self.calibrated.clone(), ..Token::at(newest) },
            freshness: freshness(self.meta.arrived, now, newest, self.meta.arrived, self.coordination_ns),
        }))
    }

    fn to_merge(&self) -> Option<&BTreeSet<(PartitionId, LogPosition)>> {
        self.waitlist.as_ref().map(|(waitlist, _)| waitlist)
    }
}
