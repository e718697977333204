//! Writes: one-shot programs outside a transaction, buffered rows inside one.
//!
//! A one-shot statement declares all it touches and cannot meet a conflict. One that must read first
//! (joins, subqueries, changed keys, rows found through an index) runs as a transaction of its own and
//! is executed anew when validation fails; nothing was sent to the client by then.

use super::Session;
use super::attempts::{ATTEMPTS, Attempts, is_conflict};
use super::computed::Computations;
use super::inserting::duplicate;
use super::read::Wanted;
use super::timeouts::for_lock;
use super::transaction::SeenRow;
use super::triggers::{Firing, Pending};
use super::turns::Turn;
use crate::locks::RowLocks;
use crate::remote_locks::RemoteLocks;
use crate::response::{Response, RowStream, Rows};
use base::error::{SqlResult, SqlState};
use base::schema::{Index, Table};
use base::txn::{AccessMode, AccessSet, Granule, OnConflict, StatementResult, TxnProgram};
use base::{Datum, SqlError};
use node::request::{Reply, Request};
use sql::lower::Projection;
use sql::lower::bind::{self, Binding};
use sql::lower::insert::InsertPlan;
use sql::lower::modify::ModifyPlan;
use sql::lower::select::Contended;
use sql::types::Column;
use std::sync::Arc;

/// Rows of a table that an ordered statement may look at one by one.
const SCANNED_ROWS_MAX: u64 = 4_096;
/// What a write did.
#[derive(Default)]
pub(super) struct Written {
    pub affected: u64,
    pub returned: Vec<Vec<Datum>>,
    pub pending: Pending,
}

impl Written {
    /// A row was written; of a statement that returns rows with what is shown of it.
    pub fn note(&mut self, shown: Option<Vec<Datum>>) {
        self.affected += 1;
        self.returned.extend(shown);
    }
    /// What AFTER triggers have still to be told.
    pub fn pending(&mut self) -> &mut Pending {
        &mut self.pending
    }
}

impl Session {
    pub(super) async fn run_insert(
        &mut self,
        plan: &InsertPlan,
        computations: &Computations,
        parameters: &[Datum],
    ) -> SqlResult<Response> {
        self.refuse_if_read_only("INSERT")?;
        let topology = self.cluster().topology().clone();
        let (values, conflict) = (&computations.values, computations.conflict.as_ref());
        let computes_from_rows = values.iter().any(|query| query.reads_tables());
        if self.transaction.is_none() {
            self.pass_whole(&plan.table).await?;
        }
        let written = if self.transaction.is_some() {
            let plan = &*self.computed(plan, values, parameters).await?;
            self.insert_buffered(plan, conflict, parameters).await?
        } else if plan.is_one_shot
            && !computes_from_rows
            && !plan.conflict_needs_reading(&topology)
            && !super::foreign_keys::concern_insert(plan)
        {
            let plan = &*self.computed(plan, values, parameters).await?;
            let (gateway, catalog) = (self.gateway.clone(), self.catalog());
            let binding = Binding {
                parameters,
                times: self.times(),
                generators: &gateway.node.generators,
                catalog: &catalog,
            };
            let rows = plan.rows(&binding)?;
            let mut access = AccessSet::default();
            let is_named = self.is_named();
            let statement = plan.statement(&rows, &binding, &topology, &mut access, is_named)?;
            let _passed = self.pass_remote(&access).await;
            let results = self.submit(TxnProgram::Statements(vec![statement]), access).await?;
            let mut written = collect(results);
            // Rows as they were given, in their order; with ON CONFLICT only the node knows them.
            let is_known = plan.on_conflict == OnConflict::Fail && !is_named;
            if let Some(returning) = plan.returning.as_ref().filter(|_| is_known) {
                for values in &rows {
                    written.returned.push(project(returning, &binding, values)?);
                }
            }
            written
        } else {
            let mut attempts = Attempts::default();
            loop {
                self.begin_attempt(false, &attempts).await;
                self.open().reading.is_lone = true;
                let result = match self.computed(plan, values, parameters).await {
                    Ok(plan) => self.insert_buffered(&plan, conflict, parameters).await,
                    Err(error) => Err(error),
                };
                if let Some(done) = self.settle(result, &mut attempts).await? {
                    break done;
                }
            }
        };
        Ok(respond("INSERT 0", plan.returning.as_ref().map(|r| &r.columns), written))
    }

    pub(super) async fn run_modify(
        &mut self,
        plan: &ModifyPlan,
        parameters: &[Datum],
    ) -> SqlResult<Response> {
        let word = if plan.set.is_some() { "UPDATE" } else { "DELETE" };
        self.refuse_if_read_only(word)?;
        let topology = self.cluster().topology().clone();
        let written = if self.transaction.is_some() {
            self.modify_buffered(plan, parameters).await?
        } else {
            // Found through an index: try a few times by what is there, then declare the whole range.
            let patience = match (plan.must_read, &plan.index) {
                (true, _) => ATTEMPTS,
                (false, Some(_)) => 3,
                (false, None) => usize::from(self.is_long_scan(plan).await?),
            };
            let mut attempts = Attempts::at_most(patience);
            let mut done = None;
            while attempts.are_left() && done.is_none() {
                self.begin_attempt(false, &attempts).await;
                let result = self.modify_buffered(plan, parameters).await;
                done = match self.settle(result, &mut attempts).await {
                    Err(e) if (is_conflict(&e) || is_too_much(&e)) && !plan.must_read => break,
                    other => other?,
                };
            }
            match done {
                Some(done) => done,
                None => {
                    let (gateway, catalog) = (self.gateway.clone(), self.catalog());
                    let times = self.times();
                    let binding = Binding {
                        parameters,
                        times,
                        generators: &gateway.node.generators,
                        catalog: &catalog,
                    };
                    let _passed = self.pass_locks(plan, &binding).await?;
                    let mut access = AccessSet::default();
                    let statements = plan.statements(&binding, &topology, &mut access)?;
                    if statements.is_empty() || access.by_partition.is_empty() {
                        Written::default()
                    } else {
                        collect(self.submit(TxnProgram::Statements(statements), access).await?)
                    }
                }
            }
        };
        Ok(respond(word, plan.returning.as_ref().map(|r| &r.columns), written))
    }

    /// Whether a change looks at so many rows for some of them that it had better find those before it is ordered: a
    /// node that executes it answers nobody else meanwhile.
    async fn is_long_scan(&self, plan: &ModifyPlan) -> SqlResult<bool> {
        if !looks_for_rows(plan) || self.is_named() || self.is_contended(plan.table.id) {
            return Ok(false);
        }
        match self.cluster().request(Request::CountRows(plan.table.id)).await? {
            Reply::RowCount(rows) => Ok(rows > SCANNED_ROWS_MAX),
            _ => Err(super::wrong_reply()),
        }
    }

    /// Lets transactions of this gateway that have locked the rows go first: an order that came between
    /// would only make them fail. Where regions compete for the rows, the answer keeps them until the order has
    /// its place.
    async fn pass_locks(
        &self,
        plan: &ModifyPlan,
        binding: &Binding<'_>,
    ) -> SqlResult<(Option<RowLocks>, Option<RemoteLocks>)> {
        let (table, is_contended) = (&plan.table, self.is_contended(plan.table.id));
        if !plan.path.is_point() {
            self.pass_whole(table).await?;
            return Ok((None, None));
        }
        if self.gateway.locks.is_empty() && !is_contended {
            return Ok((None, None));
        }
        let reached = plan.path.reach(table, binding, self.cluster().topology(), None)?;
        let points =
            || reached.reaches.iter().filter_map(|r| Some((r.range.as_point()?, *r.partitions.first()?)));
        let waiting = async {
            let passed = self.gateway.locks.pass(points().map(|(key, _)| (table.id, key))).await;
            let afar = match is_contended {
                true => self.lock_afar(table, points().map(|(key, at)| (key.clone(), at))).await?,
                false => None,
            };
            Ok((passed, afar))
        };
        for_lock(self.settings.timeouts.lock_ms, waiting).await
    }

    /// Lets transactions of other regions that have locked rows here go first, before an order that was made
    /// otherwise.
    pub(super) async fn pass_remote(&self, access: &AccessSet) -> Option<RowLocks> {
        if !self.gateway.locks.has_remote() {
            return None;
        }
        let writes = access.by_partition.values().flatten().filter(|a| a.mode == AccessMode::Write);
        let rows = writes.filter_map(|access| match &access.granule {
            Granule::Key(table, key) => Some((*table, key)),
            _ => None,
        });
        self.gateway.locks.pass(rows).await
    }

    /// Whether what is open, or what is opened next, only reads.
    pub(super) fn is_read_only(&self) -> bool {
        let next = self.settings.read_only || self.cluster().read_only().is_some();
        self.transaction.as_ref().map_or(next, |open| open.read_only)
    }

    pub(super) fn refuse_if_read_only(&self, word: &str) -> SqlResult<()> {
        if !self.is_read_only() {
            return Ok(());
        }
        let message = format!("cannot execute {word} in a read-only transaction");
        let error = SqlError::new(SqlState::READ_ONLY_SQL_TRANSACTION, message);
        Err(match self.cluster().read_only() {
            Some(writer) => error.hint(writer),
            None => error,
        })
    }

    pub(super) async fn modify_buffered(
        &mut self,
        plan: &ModifyPlan,
        parameters: &[Datum],
    ) -> SqlResult<Written> {
        let mark = self.open().mark();
        let mut written = self.modify_rows(plan, parameters, true).await?;
        self.end_write(mark, written.pending()).await?;
        Ok(written)
    }

    /// The same without what is done at the statement's end. `fires`: triggers see it.
    pub(super) async fn modify_rows(
        &mut self,
        plan: &ModifyPlan,
        parameters: &[Datum],
        fires: bool,
    ) -> SqlResult<Written> {
        let (gateway, catalog) = (self.gateway.clone(), self.catalog());
        let binding = Binding {
            parameters,
            times: self.times(),
            generators: &gateway.node.generators,
            catalog: &catalog,
        };
        let topology = gateway.cluster.topology();
        let (index, path) = match &plan.index {
            Some((index, path)) => (Some(index), path),
            None => (None, &plan.path),
        };
        let near = Some(gateway.cluster.region());
        let reached = path.reach(&plan.table, &binding, topology, near)?;
        let filter = if reached.is_exact { &path.residual } else { &plan.condition };
        let filter = filter.as_ref().map(|f| binding.fill(f)).transpose()?;
        self.pinned().await?;
        let wanted = Wanted {
            table: &plan.table,
            index,
            reached: &reached,
            filter,
            descending: false,
            limit: None,
            columns: plan.columns.as_ref(),
            is_rewritten: true,
        };
        let rows = self.read_locked(&wanted, Contended::Wait).await?;
        self.open().show_parts();
        let mut written = Written::default();
        let (event, changed) = (plan.event(), plan.changed());
        let mut firing = None;
        if fires {
            self.begin_write(&plan.table, event, &changed, written.pending()).await?;
            firing = self.firing(&plan.table, event, &changed)?;
        }
        let mut turn = Turn::begin();
        for mut seen in rows {
            turn.give_way().await;
            if self.open().is_changed_by_parts(plan.table.id, &seen.key) {
                continue;
            }
            if let Some(stored) = seen.packed.as_ref().filter(|_| plan.columns.is_some()) {
                if let Some((new, row)) = plan.apply_packed(&binding, &seen.values, stored)? {
                    if let Some(returning) = &plan.returning {
                        written.returned.push(project(returning, &binding, &new)?);
                    }
                    written.affected += 1;
                    self.open().change_packed(&plan.table, seen.key, stored, row)?;
                    continue;
                }
                seen.values = Arc::new(plan.table.complete(stored));
            }
            self.modify_row((plan, &mut firing), &binding, seen, &mut written).await?;
        }
        Ok(written)
    }

    async fn modify_row(
        &mut self,
        (plan, firing): (&ModifyPlan, &mut Option<Box<Firing>>),
        binding: &Binding<'_>,
        seen: SeenRow,
        written: &mut Written,
    ) -> SqlResult<()> {
        let new = plan.apply(binding, &seen.values)?;
        let Some(new) = self.seen_by_triggers(firing, &seen, new, written.pending()).await? else {
            return Ok(());
        };
        let row = new.as_ref().unwrap_or(&seen.values);
        let shown = plan.returning.as_ref().map(|returning| project(returning, binding, row));
        written.note(shown.transpose()?);
        match new {
            Some(new) => {
                self.guard_unique(&plan.table, &seen, &new).await?;
                self.replace(&plan.table, &seen, new)
            }
            None => self.open().change(&plan.table, seen.key.clone(), &seen.values, None),
        }
    }

    /// Refuses an update that would take another row's unique key.
    pub(super) async fn guard_unique(
        &mut self,
        table: &Arc<Table>,
        seen: &SeenRow,
        new: &[Datum],
    ) -> SqlResult<()> {
        let key = table.key_of(new);
        let is_changed = |i: &&Index| {
            i.unique && table.index_entry(i, new, &key) != table.index_entry(i, &seen.values, &seen.key)
        };
        let changed: Vec<&Index> = table.indexes.iter().filter(is_changed).collect();
        if key == seen.key && changed.is_empty() {
            return Ok(());
        }
        // Another row may have an entry wherever it lives. COMMIT would find it, and this statement never.
        let everywhere = changed.iter().any(|i| !table.index_is_local(i, self.cluster().topology()));
        let rows = [new.to_vec()];
        let mut existing = self.read_existing(table, &rows, everywhere).await?.pop().unwrap_or_default();
        existing.retain(|(_, row)| row.key != seen.key);
        let transaction = self.transaction.as_ref().expect("an open transaction");
        let own_key_taken = key != seen.key && matches!(transaction.buffered(table.id, &key), Some(Some(_)));
        if own_key_taken {
            return Err(duplicate(table, table.id, new));
        }
        if key == seen.key {
            existing.retain(|(constraint, _)| *constraint != table.id);
        }
        // The row itself is in the buffer under its old values, perhaps: it does not meet itself.
        for (constraint, row) in existing {
            if transaction.buffered(table.id, &row.key).is_none() {
                return Err(duplicate(table, constraint, new));
            }
        }
        for index in table.indexes.iter().filter(|i| i.unique) {
            if !index.forbids_others(new) {
                continue;
            }
            let entry = table.index_entry(index, new, &key);
            let owner = transaction.owner_of(table.id, index.id, entry);
            if owner.is_some_and(|(own_key, _)| *own_key != seen.key) {
                return Err(duplicate(table, index.id, new));
            }
        }
        Ok(())
    }

    /// Buffers a row's new values, under a new key if that changed.
    pub(super) fn replace(&mut self, table: &Arc<Table>, seen: &SeenRow, new: Vec<Datum>) -> SqlResult<()> {
        let key = table.key_of(&new);
        if key == seen.key && table.partition_column().is_none_or(|p| new[p] == seen.values[p]) {
            return self.open().change(table, key, &seen.values, Some(new));
        }
        if key == seen.key {
            // The same key at another partition is another row; a buffer keyed by row key cannot hold both.
            return Err(SqlError::unsupported("changing where a row lives without changing its primary key"));
        }
        self.open().note_move(table.id, seen.key.clone(), key.clone());
        self.open().change(table, seen.key.clone(), &seen.values, None)?;
        self.open().insert(table, key, new)
    }
}

/// The expression with values in the place of what a query has computed.
pub(super) fn with_computed(e: &base::expr::Expr, computed: &[Datum]) -> base::expr::Expr {
    bind::map_columns(e, &|column| match bind::computed_number(column) {
        Some(n) => base::expr::Expr::Constant(computed.get(n).cloned().unwrap_or_default()),
        None => base::expr::Expr::Column(column),
    })
}

/// How an UPDATE or DELETE finds its rows and when it is ordered, for EXPLAIN.
pub(super) fn way(plan: &ModifyPlan, in_transaction: bool) -> String {
    match (plan.must_read, &plan.index) {
        _ if in_transaction => "in a transaction, validated at commit".into(),
        (true, _) => "read at a cut, validated at commit".into(),
        (false, Some((index, _))) => format!("rows found through index {}, validated at commit", index.name),
        (false, None) if looks_for_rows(plan) => {
            format!("one-shot; in a table of more than {SCANNED_ROWS_MAX} rows they are found at a cut first")
        }
        (false, None) => "one-shot, never a conflict abort".into(),
    }
}

/// Whether a change looks at every row of a table for some of them.
fn looks_for_rows(plan: &ModifyPlan) -> bool {
    plan.path.is_whole() && plan.path.residual.is_some()
}

/// There is no memory to buffer what it writes: ordered as it is, the statement needs none.
fn is_too_much(error: &SqlError) -> bool {
    error.state == SqlState::OUT_OF_MEMORY
}

pub(super) fn project(
    projection: &Projection,
    binding: &Binding<'_>,
    values: &[Datum],
) -> SqlResult<Vec<Datum>> {
    projection.exprs.iter().map(|e| binding.eval(e, values)).collect()
}

fn collect(results: Vec<StatementResult>) -> Written {
    let mut written = Written::default();
    for result in results {
        written.affected += result.affected;
        written.returned.extend(result.rows.iter().map(|row| row.to_vec()));
    }
    written
}

pub(super) fn respond(tag: &'static str, columns: Option<&Arc<Vec<Column>>>, written: Written) -> Response {
    match columns {
        None => Response::Command(format!("{tag} {}", written.affected)),
        Some(columns) => Response::Rows(Rows {
            columns: columns.clone(),
            stream: RowStream::values(written.returned),
            tag,
        }),
    }
}
