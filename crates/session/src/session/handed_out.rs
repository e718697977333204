//! What other nodes know of the values of sequences that were handed out here, for a node that loses its directory.
//!
//! A row for each region and sequence says how many values may have been handed out there. KEEPS: no value of a sequence is in
//! a transaction that is ordered, or in an answer, before a row that covers it is committed. So the row outlives the node as any
//! answered transaction does (K > 0, engines `caerus` and `geogauss`), a value that is in no row was given to nobody, and a node
//! whose directory is new begins behind the largest row of each sequence, whichever region wrote it: blocks that a node handed out
//! while there were fewer nodes lie below as many of more nodes.
//!
//! Rows run ahead of what was handed out ([`Generators::untold`](sql::generators::Generators::untold)), and are written anew when
//! half of that is used up, so hardly any statement waits.

use super::Session;
use super::internal::{SCHEMA, is_missing, is_retried};
use crate::gateway::Gateway;
use analytics::BatchStream;
use base::error::{SqlResult, SqlState};
use base::schema::Table;
use base::{Datum, SqlError, TableId};
use sql::given::GivenValues;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

const NAME: &str = "handed_out";
const TABLE: &str = "pg_meridian.handed_out";
/// A region's rows are at home there.
const MAKE_TABLE: &str = "CREATE TABLE IF NOT EXISTS pg_meridian.handed_out (region text, sequence bigint, times_moved bigint, \
                          count bigint NOT NULL, PRIMARY KEY (region, sequence, times_moved)) WITH (home_by = 'region')";
const TELL_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Attempts to write what nobody else writes.
const ATTEMPTS_MAX: usize = 32;

impl Gateway {
    /// Waits until other nodes know of the values that a session was given, if they are told.
    pub(super) async fn tell_given(self: &Arc<Self>, given: &GivenValues) -> SqlResult<()> {
        let generators = &self.node.generators;
        if generators.runs_low() {
            self.counts_run_low.notify_one();
        }
        while !generators.is_told(given.untold()) {
            // Boxed: statements that contain statements wait at each level.
            Box::pin(self.tell_counts()).await?;
        }
        Ok(())
    }

    /// Tells other nodes how many values may be handed out here, before anyone has to wait for it, as long as it is polled.
    pub async fn keep_counts_told(self: Arc<Self>) {
        loop {
            // A session that waits for this is told the error itself. The first round tells what former lives kept.
            if self.tell_counts().await.is_err() {
                tokio::time::sleep(TELL_AGAIN_AFTER).await;
                continue;
            }
            self.counts_run_low.notified().await;
        }
    }

    /// Whether the node has to [learn](Gateway::learn_counts) something before it hands values out.
    pub fn lacks_counts(&self) -> bool {
        let catalog = self.catalog();
        let is_it = |table: &Arc<Table>| table.schema == SCHEMA && table.name == NAME;
        let generators = &self.node.generators;
        generators.tells() && (generators.has_lost_counts() || !catalog.tables.values().any(is_it))
    }

    /// Makes the table, and has a node whose directory is new begin behind what the rows say. Errors: those of transactions;
    /// it may be repeated.
    pub async fn learn_counts(self: &Arc<Self>) -> SqlResult<()> {
        let read = format!("SELECT sequence, times_moved, count FROM {TABLE}");
        let rows = match Session::internal(self.clone()).said(read.clone()).await {
            Err(error) if is_missing(&error) => {
                let mut session = Session::internal(self.clone());
                session.make_system_schema().await?;
                session.said(MAKE_TABLE.into()).await?;
                session.said(read).await?
            }
            rows => rows?,
        };
        if !self.node.generators.has_lost_counts() {
            return Ok(());
        }
        let mut counts = BTreeMap::new();
        for row in rows {
            let [Datum::Int(sequence), Datum::Int(times_moved), Datum::Int(count)] = row[..] else {
                return Err(SqlError::internal("a row of counts has other columns"));
            };
            let known: &mut i64 = counts.entry((TableId(sequence as u32), times_moved as u32)).or_default();
            *known = count.max(*known);
        }
        self.node.generators.begin_behind(counts)
    }

    /// One after the other, each with all that is untold.
    async fn tell_counts(self: &Arc<Self>) -> SqlResult<()> {
        let _turn = self.telling_counts.lock().await;
        let untold = self.node.generators.untold();
        if untold.counts.is_empty() {
            self.node.generators.were_told(&untold);
            return Ok(());
        }
        let region = self.cluster.topology().region_name(self.cluster.region());
        let mut write = format!("INSERT INTO {TABLE} VALUES");
        for (nth, ((sequence, times_moved), count)) in untold.counts.iter().enumerate() {
            let comma = if nth == 0 { "" } else { "," };
            let _ = write!(write, "{comma} ('{region}', {}, {times_moved}, {count})", sequence.0);
        }
        // What a statement began that was given up may come later, and says less.
        write.push_str(
            " ON CONFLICT (region, sequence, times_moved) DO UPDATE SET count = greatest(handed_out.count, excluded.count)",
        );
        for attempt in 0..ATTEMPTS_MAX {
            match Session::internal(self.clone()).said(write.clone()).await {
                Err(error) if is_retried(&error) => self.pause_after(attempt).await,
                written => {
                    self.node.generators.were_told(&written.map(|_| untold)?);
                    return Ok(());
                }
            }
        }
        Err(SqlError::new(SqlState::SERIALIZATION_FAILURE, "a row of counts was changed by others each time"))
    }
}

impl Session {
    /// Rows that a client fetches while they are computed, each after others know of the values in it.
    pub(super) fn told_of(&self, stream: BatchStream) -> BatchStream {
        if !self.gateway.node.generators.tells() {
            return stream;
        }
        let (gateway, given) = (self.gateway.clone(), self.given.clone());
        stream.after(move || {
            let (gateway, given) = (gateway.clone(), given.clone());
            Box::pin(async move { gateway.tell_given(&given).await })
        })
    }
}
