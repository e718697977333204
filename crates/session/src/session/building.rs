//! Indexes that are made on a table with rows while others write to it.
//!
//! Three steps, each a transaction of its own. The index comes into the catalog with its hidden columns, marked as
//! being built: from then on every write keeps it, and no statement looks into it. Then the rows that were there are
//! entered into it, a batch of keys at a time; what it computes of them is written to them first. Then the mark goes.
//! An index of a small table that computes nothing is filled in one step, as it comes into the catalog.
//!
//! KEEPS: when the mark goes, every row has its entry. A row that was there before the mark is in a batch: batches
//! together are all keys, and each is found at a cut behind the mark. A later one was written with the index. A unique
//! index refuses equal entries from the beginning, so that two rows with one entry end the build or the later write.
//! No batch is validated: whoever writes to the table waits for one batch at most, and none of them can fail for it.

use super::Session;
use super::read::Wanted;
use base::error::{SqlResult, SqlState};
use base::expr::{Expr, UnaryOperator};
use base::key::KeyRange;
use base::schema::{Index, Placement, SchemaAction, SchemaChange, Table};
use base::txn::{AccessMode, AccessSet, Granule, Statement as Program, TxnProgram};
use base::{Key, PartitionId, SqlError, TableId};
use sql::ddl::Building;
use sql::lower::access;
use sql::lower::keys::{Reach, Reached};
use std::sync::Arc;
use std::time::Duration;

/// Rows that are written in one transaction. Writers of the same keys wait for it.
const BATCH_ROWS: u64 = 4_096;

/// How often, and how much longer each time, a session looks for an index that it has sent and heard nothing of.
const WAITS_MAX: u32 = 6;
const WAIT: Duration = Duration::from_millis(50);

/// What becomes of an index that was being built.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    IsRead,
    IsDropped,
}

impl Session {
    /// Enters the rows of its table into an index that has come into the catalog, and has it read. If that fails, the
    /// index goes again. Errors: those of its expressions, 23505; 40001 and 42704 if others changed the table so that
    /// it cannot go on.
    pub(super) async fn build_index(&mut self, id: TableId) -> SqlResult<()> {
        self.enter_all_rows(id).await?;
        self.end_build(id, End::IsRead).await
    }

    /// Takes away the index that a statement was building when it failed or was given up; answers what the statement
    /// ends with. If it cannot be taken away now, it stays as one that is not valid, for DROP INDEX.
    pub(super) async fn abandon_build(&mut self, building: Building, error: SqlError) -> SqlError {
        // The id is its own if it came into the catalog, and the name says whether it did.
        let Building { id, name, .. } = building;
        let was_in_doubt = error.state == SqlState::TRANSACTION_RESOLUTION_UNKNOWN;
        // What was sent may be on its way still.
        for wait in 0..if was_in_doubt { WAITS_MAX } else { 1 } {
            tokio::time::sleep(WAIT * wait).await;
            let is_it = |(_, index): &(Arc<Table>, Index)| index.name == name;
            if !self.being_built(id).await.is_ok_and(|found| is_it(&found)) {
                continue;
            }
            return match self.end_build(id, End::IsDropped).await {
                Ok(()) if was_in_doubt => {
                    let told = error.detail.clone().unwrap_or_default();
                    SqlError::new(SqlState::QUERY_CANCELED, told)
                }
                _ => error,
            };
        }
        error
    }

    /// Partitions where a table's rows are found, each with those where these rows are written.
    pub(super) fn written_where_found(&self, table: &Table) -> Vec<(PartitionId, Vec<PartitionId>)> {
        let topology = self.cluster().topology();
        let near = self.cluster().region();
        let all = table.partitions(topology);
        match table.placement {
            Placement::Replicated => {
                let is_near = |partition: &&PartitionId| topology.region_of_partition(**partition) == near;
                let found = all.iter().find(is_near).or(all.first()).copied();
                found.into_iter().map(|found| (found, all.clone())).collect()
            }
            _ => all.into_iter().map(|partition| (partition, vec![partition])).collect(),
        }
    }

    async fn enter_all_rows(&mut self, id: TableId) -> SqlResult<()> {
        let (table, _) = self.being_built(id).await?;
        for (from, written) in self.written_where_found(&table) {
            let mut low = Key::new();
            loop {
                let (table, _) = self.being_built(id).await?;
                let Some(range) = self.next_batch(&table, from, low).await? else { break };
                self.enter_batch(id, &range, &written).await?;
                match range.high {
                    Some(high) => low = high,
                    None => break,
                }
            }
        }
        Ok(())
    }

    /// The table and the index, as the catalog has them now. Errors: 42704 if the index is gone.
    async fn being_built(&mut self, id: TableId) -> SqlResult<(Arc<Table>, Index)> {
        self.refresh_catalog().await?;
        self.look_up_catalog();
        let found = self.known.index(id).map(|(table, index)| (table.clone(), index.clone()));
        found.filter(|(_, index)| index.form.is_building).ok_or_else(|| {
            let told =
                "the index that was being built is gone: another session dropped it or changed its table";
            SqlError::new(SqlState::UNDEFINED_OBJECT, told)
        })
    }

    /// The keys of the next rows at a partition, from a key on, as of now; `None`: there are no more.
    pub(super) async fn next_batch(
        &mut self,
        table: &Arc<Table>,
        partition: PartitionId,
        low: Key,
    ) -> SqlResult<Option<KeyRange>> {
        let range = KeyRange { low, high: None };
        let reaches = vec![Reach { range: range.clone(), partitions: vec![partition] }];
        let reached = Reached { reaches, is_exact: true };
        let wanted = Wanted {
            table,
            index: None,
            reached: &reached,
            filter: None,
            descending: false,
            limit: Some(BATCH_ROWS),
            columns: None,
            is_rewritten: false,
        };
        let keys = self.keys_of(&wanted).await;
        // Only the keys are kept.
        self.release_read();
        Ok(match keys?.as_slice() {
            [] => None,
            keys if (keys.len() as u64) < BATCH_ROWS => Some(range),
            [.., last] => Some(KeyRange { high: Some(last.successor()), ..range }),
        })
    }

    /// Enters the rows of a range, which are written with what the index computes of them.
    async fn enter_batch(
        &mut self,
        id: TableId,
        range: &KeyRange,
        partitions: &[PartitionId],
    ) -> SqlResult<()> {
        for _ in 0..super::attempts::ATTEMPTS {
            let (table, index) = self.being_built(id).await?;
            let generated = self.lowered(|lowering| lowering.generated(&table))?;
            let owned = generated.columns().filter(|column| index.owns(*column));
            let set: Vec<(usize, Expr)> =
                owned.filter_map(|column| Some((column, generated.of(column)?.clone()))).collect();
            let mut access = AccessSet::default();
            let changed: Vec<usize> = set.iter().map(|(column, _)| *column).collect();
            access::write_range(&mut access, &table, range, partitions, Some(&changed));
            if index.unique {
                for partition in partitions {
                    access.add(*partition, Granule::Range(id, KeyRange::all()), AccessMode::Write);
                }
            }
            access.normalize();
            let (schema_version, target) = (table.version, range.clone());
            let mut program = vec![Program::Enter { table: table.id, schema_version, index: id, target }];
            if !set.is_empty() {
                let written = Program::Update {
                    table: table.id,
                    schema_version,
                    target: range.clone(),
                    filter: differs(&set),
                    set,
                    returning: None,
                };
                program.insert(0, written);
            }
            match self.submit(TxnProgram::Statements(program), access).await {
                Err(error) if super::attempts::is_transient(&error) || super::is_stale(&error) => {}
                Err(error) => return Err(not_unique(error, &index)),
                Ok(_) => return Ok(()),
            }
        }
        Err(SqlError::new(
            SqlState::SERIALIZATION_FAILURE,
            "the table changed each time rows were entered into the index",
        )
        .hint("Create the index again."))
    }

    /// The index is read from now on, or goes. Errors: 42704 if it is gone, or is being built no more.
    async fn end_build(&mut self, id: TableId, end: End) -> SqlResult<()> {
        loop {
            let (table, _) = self.being_built(id).await?;
            let mut next = table.as_ref().clone();
            match end {
                End::IsRead => {
                    let index = next.indexes.iter_mut().find(|index| index.id == id).expect("just found");
                    index.form.is_building = false;
                }
                End::IsDropped => sql::ddl::without_index(&mut next, id),
            }
            let change = SchemaChange {
                database: self.database.id,
                base_version: self.known.version,
                actions: vec![SchemaAction::AlterTable(next)],
            };
            match self.submit_schema(change).await {
                Err(error) if super::is_stale(&error) => {}
                ended => return ended,
            }
        }
    }
}

/// Whether a row lacks any of these values: most rows of a table are outside of a partial index, and stay as they are.
fn differs(set: &[(usize, Expr)]) -> Option<Expr> {
    let changes = set.iter().map(|(column, expr)| {
        let same = Expr::IsSame(Box::new(Expr::Column(*column)), Box::new(expr.clone()));
        Expr::Unary(UnaryOperator::Not, Box::new(same))
    });
    changes.reduce(|a, b| Expr::binary(base::expr::BinaryOperator::Or, a, b))
}

/// A row has an entry that another one has: told as of the statement that makes the index.
fn not_unique(mut error: SqlError, index: &Index) -> SqlError {
    if error.state == SqlState::UNIQUE_VIOLATION {
        error.message = format!("could not create unique index \"{}\"", index.name);
        error.detail = error.detail.take().map(|detail| detail.replace("already exists.", "is duplicated."));
    }
    error
}
