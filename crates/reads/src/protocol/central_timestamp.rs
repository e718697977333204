//! Central timestamps (TiDB): fetch a timestamp, close it, wait for everything below.
//!
//! The oracle's timestamp is above the rank of every transaction answered before it was asked, and below that of
//! every transaction pre-accepted after a partition has closed it. So the cut is an initial segment that includes
//! every answered writer; it costs the trip to the oracle and the wait for transactions in flight.

use super::ReadProtocol;
use crate::rule::rank::RankQuery;
use crate::rule::{Ask, Followed, Progress, QueryMeta, Rule, Told, View};
use base::{SqlError, Time};

/// Queries ask the oracle; nodes do nothing else for them.
pub struct CentralTimestamps;

impl ReadProtocol for CentralTimestamps {
    fn strong(&self, meta: QueryMeta, clock_bound_ns: u64, _: &dyn View) -> Option<Followed> {
        // Whatever the oracle will say lies above the true time of the arrival.
        let floor = (meta.arrived - 2 * clock_bound_ns).rank();
        Some(Followed { rule: Box::new(CentralTimestampQuery::new(meta)), floor })
    }
    fn is_local(&self) -> bool {
        true
    }
}

/// A query at the oracle's timestamp.
pub struct CentralTimestampQuery {
    meta: QueryMeta,
    /// Once the oracle has answered.
    query: Option<RankQuery>,
    /// Questions to partitions that have not been handed out yet.
    open: Vec<Ask>,
}

impl CentralTimestampQuery {
    pub fn new(meta: QueryMeta) -> CentralTimestampQuery {
        CentralTimestampQuery { meta, query: None, open: Vec::new() }
    }
}

impl Rule for CentralTimestampQuery {
    fn asks(&self) -> Vec<Ask> {
        match &self.query {
            None => vec![Ask::Timestamp],
            Some(query) => query.asks(),
        }
    }

    fn told(&mut self, now: Time, told: Told) {
        match (told, &mut self.query) {
            (Told::Timestamp { rank }, None) => {
                let cut = rank.max(self.meta.token.rank);
                let query = RankQuery::at(self.meta.clone(), cut);
                self.open = query.asks();
                self.query = Some(query);
            }
            (told, Some(query)) => query.told(now, told),
            _ => {}
        }
    }

    fn follow_up(&mut self) -> Vec<Ask> {
        std::mem::take(&mut self.open)
    }

    fn progress(&mut self, now: Time, view: &dyn View) -> Result<Progress, SqlError> {
        match &mut self.query {
            None => Ok(Progress::Choosing),
            Some(query) => query.progress(now, view),
        }
    }
}
