//! Central timestamps (TiDB): fetch a timestamp, close it, wait for everything below.
//!
//! The oracle's timestamp is above the rank of every transaction answered before it was asked, and below that of
//! every transaction pre-accepted after a partition has closed it. So the cut is an initial segment that includes
//! every answered writer; it costs the trip to the oracle and the wait for transactions in flight.

use super::rank::RankQuery;
use super::{Ask, ColumnView, QueryMeta, Readable, SnapshotRule, Told};
use base::{SqlError, Time};

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

impl SnapshotRule for CentralTimestampQuery {
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

    fn ready(&mut self, now: Time, view: &dyn ColumnView) -> Result<Option<Readable>, SqlError> {
        match &mut self.query {
            None => Ok(None),
            Some(query) => query.ready(now, view),
        }
    }
}
