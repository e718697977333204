//! Rows that a query finds for a statement that changes them: they are locked, and the query looks again if others may
//! have changed them before.
//!
//! KEEPS: a look whose rows were old leaves no reads behind that COMMIT would ask for.

use super::Session;
use super::locking::changed_each_time;
use crate::response::RowStream;
use analytics::QueryPlan;
use base::error::SqlResult;
use base::schema::Table;
use base::txn::Isolation;
use base::{Datum, Key, PartitionId};
use sql::lower::access;
use sql::lower::select::Contended;
use std::collections::BTreeSet;

/// How often the query looks again because rows changed while they were locked.
const ROUNDS: usize = 64;

impl Session {
    /// The rows of a query, each of which begins with a row of a table. Those that `is_changed` names are locked.
    pub(super) async fn found_locked(
        &mut self,
        query: &QueryPlan,
        parameters: &[Datum],
        table: &Table,
        is_changed: impl Fn(&[Datum]) -> bool,
    ) -> SqlResult<Vec<Vec<Datum>>> {
        for _ in 0..ROUNDS {
            let before = self.open().whole_reads();
            let answer = self.answer(query, parameters).await?;
            let rows = self.collected(&mut RowStream::Batches(answer.stream)).await?;
            let topology = self.cluster().topology();
            let place = |row: &Vec<Datum>| {
                let row = &row[..table.columns.len()];
                Some((table.key_of(row), *access::homes(table, row, topology).first()?))
            };
            let changed = rows.iter().filter(|row| is_changed(row));
            let found: BTreeSet<(Key, PartitionId)> = changed.filter_map(place).collect();
            let may_be_old = self.lock_rows(table, found.into_iter().collect(), Contended::Wait).await?;
            // A snapshot stays as it is; a row that has changed since ends the transaction at COMMIT.
            if !may_be_old || self.open().reading.level == Isolation::Snapshot {
                return Ok(rows);
            }
            let open = self.open();
            open.forget_look(before);
            open.reading.wants_cut = true;
        }
        Err(changed_each_time())
    }
}
