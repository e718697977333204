//! New rows in a transaction's buffer, and the rows that they meet.
//!
//! A row is inserted after a look at the rows that share a unique key with it, at the cut and in the buffer; what ON
//! CONFLICT says is done to those.

use super::Session;
use super::computed::Conflict;
use super::transaction::SeenRow;
use super::triggers::Firing;
use super::turns::Turn;
use super::write::{Written, project, with_computed};
use base::error::{SqlResult, SqlState};
use base::key::KeyRange;
use base::schema::triggers::Event;
use base::schema::{Identity, Index, Table};
use base::topology::Topology;
use base::txn::{Isolation, OnConflict};
use base::{DataType, Datum, Key, PartitionId, SqlError, TableId};
use sql::lower::access;
use sql::lower::bind::Binding;
use sql::lower::insert::InsertPlan;
use sql::lower::select::Contended;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A statement that inserts, under way.
struct Inserting {
    firing: Option<Box<Firing>>,
    /// For DO UPDATE.
    updating: Option<Box<Firing>>,
    /// Rows of this statement, for DO UPDATE.
    touched: BTreeSet<Key>,
}

/// What RETURNING shows of a row.
fn shown(plan: &InsertPlan, binding: &Binding<'_>, row: &[Datum]) -> SqlResult<Option<Vec<Datum>>> {
    plan.returning.as_ref().map(|returning| project(returning, binding, row)).transpose()
}

fn second_time() -> SqlError {
    let told = "ON CONFLICT DO UPDATE command cannot affect row a second time";
    SqlError::new(SqlState::CARDINALITY_VIOLATION, told).hint(
        "Ensure that no rows proposed for insertion within the same command have duplicate constrained values.",
    )
}

impl Session {
    pub(super) async fn insert_buffered(
        &mut self,
        plan: &InsertPlan,
        conflict: Option<&Conflict>,
        parameters: &[Datum],
    ) -> SqlResult<Written> {
        let (gateway, catalog) = (self.gateway.clone(), self.catalog());
        let binding = Binding {
            parameters,
            times: self.times(),
            generators: &gateway.node.generators,
            catalog: &catalog,
        };
        let rows = match &plan.source {
            sql::lower::insert::Source::Values(_) => plan.rows(&binding)?,
            sql::lower::insert::Source::Query(query, targets) => {
                let to = |target: &usize| plan.table.columns.get(*target).map(|column| column.data_type);
                // What goes nowhere may be of any type.
                let wanted: Vec<_> = targets.iter().map(|t| to(t).unwrap_or(DataType::Text)).collect();
                let given = self.query_values(query, parameters, &wanted).await?;
                sql::interrupt::aside(gateway.threads(), || plan.rows_from(&binding, given))?
            }
        };
        self.open().show_parts();
        let (mut written, mark) = (Written::default(), self.open().mark());
        self.begin_insert(plan, &mut written).await?;
        self.insert_rows(plan, conflict, rows, &binding, &mut written).await?;
        self.end_write(mark, written.pending()).await?;
        Ok(written)
    }

    /// BEFORE triggers of a statement that inserts.
    pub(super) async fn begin_insert(&mut self, plan: &InsertPlan, written: &mut Written) -> SqlResult<()> {
        if plan.table.triggers.is_empty() {
            return Ok(());
        }
        self.begin_write(&plan.table, Event::Insert, &[], written.pending()).await?;
        if let OnConflict::Update { set, .. } = &plan.on_conflict {
            let changed: Vec<usize> = set.iter().map(|(column, _)| *column).collect();
            self.begin_write(&plan.table, Event::Update, &changed, written.pending()).await?;
            written.pending().turn_statements();
        }
        Ok(())
    }

    /// Buffers new rows, each after looking for rows that it meets. What is done at the statement's end is the caller's.
    pub(super) async fn insert_rows(
        &mut self,
        plan: &InsertPlan,
        conflict: Option<&Conflict>,
        rows: Vec<Vec<Datum>>,
        binding: &Binding<'_>,
        written: &mut Written,
    ) -> SqlResult<()> {
        let table = &plan.table;
        let everywhere = plan.on_conflict != OnConflict::Fail;
        let mut state = self.inserting(plan)?;
        let is_known = !table.triggers.change_rows(Event::Insert);
        let existing = match is_known || keys_are_known(table, &rows) {
            true => {
                self.lock_met(plan, &rows).await?;
                self.read_existing(table, &rows, everywhere).await?.into_iter().map(Some).collect()
            }
            false => vec![None; rows.len()],
        };
        let mut turn = Turn::begin();
        for (values, at_cut) in rows.into_iter().zip(existing) {
            turn.give_way().await;
            let proposed = if is_known { None } else { Some(values.clone()) };
            let Some(values) = self.before_row(&mut state.firing, None, values).await? else { continue };
            let is_as_proposed = proposed.is_none_or(|proposed| has_same_keys(table, &proposed, &values));
            let at_cut = match at_cut.filter(|_| is_as_proposed) {
                Some(at_cut) => at_cut,
                None => {
                    let row = std::slice::from_ref(&values);
                    self.read_existing(table, row, everywhere).await?.pop().unwrap_or_default()
                }
            };
            let key = table.key_of(&values);
            match self.met(table, (&key, &values), at_cut, arbiter(&plan.on_conflict)) {
                None => {
                    written.note(shown(plan, binding, &values)?);
                    state.touched.insert(key.clone());
                    self.after_row(&state.firing, None, Some(&values), written.pending())?;
                    self.open().insert(table, key, values)?;
                }
                Some((constraint, seen)) => match &plan.on_conflict {
                    OnConflict::Nothing { index } if index.is_none_or(|i| i == constraint) => {}
                    OnConflict::Update { index, .. } if *index == constraint => {
                        let met = (seen, values.as_slice());
                        self.update_met((plan, conflict), binding, met, &mut state, written).await?;
                    }
                    _ => return Err(duplicate(table, constraint, &values)),
                },
            }
        }
        Ok(())
    }

    /// Locks the rows that ON CONFLICT DO UPDATE meets, before it looks at them. A statement alone is executed again
    /// instead.
    async fn lock_met(&mut self, plan: &InsertPlan, rows: &[Vec<Datum>]) -> SqlResult<()> {
        let (OnConflict::Update { index, .. }, false) = (&plan.on_conflict, self.open().reading.is_lone)
        else {
            return Ok(());
        };
        let table = &plan.table;
        let topology = self.cluster().topology().clone();
        let arbiter = table.indexes.iter().find(|i| i.id == *index);
        let (mut met, mut reads) = (BTreeSet::new(), Vec::new());
        let mut turn = Turn::begin();
        for values in rows {
            turn.give_way().await;
            let Some(&home) = access::homes(table, values, &topology).first() else { continue };
            match arbiter {
                None => met.extend([(table.key_of(values), home)]),
                Some(index) => reads.extend(entry_reads(table, index, values, home, &topology)),
            }
        }
        let places: Vec<PartitionId> = reads.iter().map(|read| read.partition).collect();
        for (place, found) in places.into_iter().zip(self.request_rows(reads).await?) {
            met.extend(found.into_iter().map(|(key, _)| (key, place)));
        }
        if self.lock_rows(table, met.into_iter().collect(), Contended::Wait).await? {
            let open = self.open();
            open.reading.wants_cut = open.reading.level != Isolation::Snapshot;
        }
        Ok(())
    }

    fn inserting(&self, plan: &InsertPlan) -> SqlResult<Inserting> {
        let firing = self.firing(&plan.table, Event::Insert, &[])?;
        let updating = match &plan.on_conflict {
            OnConflict::Update { set, .. } => {
                let changed: Vec<usize> = set.iter().map(|(column, _)| *column).collect();
                self.firing(&plan.table, Event::Update, &changed)?
            }
            _ => None,
        };
        Ok(Inserting { firing, updating, touched: BTreeSet::new() })
    }

    /// ON CONFLICT DO UPDATE of a row that a proposed one meets. Errors: 21000, 23505, and those of its expressions.
    async fn update_met(
        &mut self,
        (plan, conflict): (&InsertPlan, Option<&Conflict>),
        binding: &Binding<'_>,
        (seen, proposed): (SeenRow, &[Datum]),
        state: &mut Inserting,
        written: &mut Written,
    ) -> SqlResult<()> {
        let OnConflict::Update { set, filter, .. } = &plan.on_conflict else { return Ok(()) };
        let table = &plan.table;
        if state.touched.contains(&seen.key) || self.open().is_changed_by_parts(table.id, &seen.key) {
            return Err(second_time());
        }
        let computed = match conflict {
            Some(conflict) => {
                let there = seen.values.clone();
                self.conflicting(conflict, table.id, there, proposed, binding.parameters).await?
            }
            None => Vec::new(),
        };
        let set: Vec<_> = set.iter().map(|(c, e)| (*c, with_computed(e, &computed))).collect();
        let filter = filter.as_ref().map(|filter| with_computed(filter, &computed));
        let new = self.on_conflict(table, &set, filter.as_ref(), binding, &seen, proposed)?;
        let Some(new) = new else { return Ok(()) };
        let Some(new) = self.before_row(&mut state.updating, Some(&seen), new).await? else { return Ok(()) };
        self.guard_unique(table, &seen, &new).await?;
        self.after_row(&state.updating, Some(&seen.values), Some(&new), written.pending())?;
        state.touched.extend([seen.key.clone(), table.key_of(&new)]);
        written.note(shown(plan, binding, &new)?);
        self.replace(table, &seen, new)
    }

    fn on_conflict(
        &self,
        table: &Table,
        set: &[(usize, base::expr::Expr)],
        filter: Option<&base::expr::Expr>,
        binding: &Binding<'_>,
        seen: &SeenRow,
        proposed: &[Datum],
    ) -> SqlResult<Option<Vec<Datum>>> {
        let both: Vec<Datum> = seen.values.iter().chain(proposed).cloned().collect();
        if let Some(filter) = filter
            && !binding.fill(filter)?.holds(&both)?
        {
            return Ok(None);
        }
        let mut new = seen.values.as_ref().clone();
        for (column, expr) in set {
            let value = binding.eval(expr, &both)?;
            new[*column] = sql::lower::insert::assign(value, &table.columns[*column])?;
        }
        if !table.triggers.change_rows(Event::Update) {
            sql::lower::insert::check_row(table, &new)?;
        }
        Ok(Some(new))
    }

    /// Rows at the cut that share a unique key with each new row: the primary key's, and one per
    /// unique index that is decided where the row lives; of others too if `everywhere` (COMMIT decides
    /// them anyway).
    pub(super) async fn read_existing(
        &mut self,
        table: &Arc<Table>,
        rows: &[Vec<Datum>],
        everywhere: bool,
    ) -> SqlResult<Vec<Vec<(TableId, SeenRow)>>> {
        let topology = self.cluster().topology().clone();
        let mut reads = Vec::new();
        let mut owners = Vec::new();
        let mut turn = Turn::begin();
        for (i, values) in rows.iter().enumerate() {
            turn.give_way().await;
            let key = table.key_of(values);
            let Some(&home) = access::homes(table, values, &topology).first() else { continue };
            // Nobody else has this gateway's row ids.
            if !table.columns[table.primary_key[0]].hidden {
                reads.push(point_read(home, table, None, key.clone()));
                owners.push((i, table.id));
            }
            for index in table.indexes.iter().filter(|i| i.unique) {
                if !everywhere && !table.index_is_local(index, &topology) {
                    continue;
                }
                for read in entry_reads(table, index, values, home, &topology) {
                    reads.push(read);
                    owners.push((i, index.id));
                }
            }
        }
        let granules: Vec<_> =
            reads.iter().map(|r| (r.partition, r.index.unwrap_or(r.table), r.range.clone())).collect();
        let answered = self.request_rows(reads).await?;
        // The cut is needed even when nothing had to be looked up.
        let at = self.pinned().await?.1;
        let mut existing = vec![Vec::new(); rows.len()];
        for (((i, constraint), found), (partition, granule, range)) in
            owners.into_iter().zip(answered).zip(granules)
        {
            turn.give_way().await;
            // A statement alone need not say that a key was free: the row that takes it says so at COMMIT.
            if everywhere || !found.is_empty() || !self.open().reading.is_lone {
                self.open().record_kept(partition, granule, range, at);
            }
            for (key, row) in found {
                existing[i].push((constraint, SeenRow::new(key, Arc::new(table.complete(&row)))));
            }
        }
        Ok(existing)
    }

    /// The seen row that a new one meets, and on which constraint. The one that ON CONFLICT names comes first: what is
    /// done there may leave nothing for the others.
    fn met(
        &self,
        table: &Table,
        (key, values): (&Key, &[Datum]),
        at_cut: Vec<(TableId, SeenRow)>,
        arbiter: Option<TableId>,
    ) -> Option<(TableId, SeenRow)> {
        let transaction = self.transaction.as_ref().expect("an open transaction");
        let mut met = Vec::new();
        if let Some(Some(own)) = transaction.buffered(table.id, key) {
            met.push((table.id, SeenRow::new(key.clone(), own.clone())));
        }
        // Changed since, inside the transaction: the buffer speaks for it.
        met.extend(at_cut.into_iter().filter(|(_, row)| transaction.buffered(table.id, &row.key).is_none()));
        for index in table.indexes.iter().filter(|i| i.unique) {
            if !index.forbids_others(values) {
                continue;
            }
            let entry = table.index_entry(index, values, key);
            if let Some((own_key, own)) = transaction.owner_of(table.id, index.id, entry) {
                met.push((index.id, SeenRow::new(own_key.clone(), own.clone())));
            }
        }
        let named = met.iter().position(|(constraint, _)| Some(*constraint) == arbiter).unwrap_or(0);
        (!met.is_empty()).then(|| met.swap_remove(named))
    }
}

/// The constraint that ON CONFLICT names.
fn arbiter(on_conflict: &OnConflict) -> Option<TableId> {
    match on_conflict {
        OnConflict::Fail => None,
        OnConflict::Nothing { index } => *index,
        OnConflict::Update { index, .. } => Some(*index),
    }
}

/// Whether rows that triggers have still to look at have all values of their unique keys.
fn keys_are_known(table: &Table, rows: &[Vec<Datum>]) -> bool {
    let is_plain =
        |index: &Index| index.columns.iter().all(|c| table.columns[*c].identity != Identity::Generated);
    table.indexes.iter().filter(|index| index.unique).all(is_plain)
        && rows.iter().all(|row| {
            let mut needed = table.primary_key.iter().copied().chain(table.partition_column());
            needed.all(|column| !row[column].is_null())
        })
}

/// Whether two rows meet the same others.
fn has_same_keys(table: &Table, a: &[Datum], b: &[Datum]) -> bool {
    let unique = table.indexes.iter().filter(|index| index.unique).flat_map(|index| &index.columns);
    let mut needed = table.primary_key.iter().chain(unique).copied().chain(table.partition_column());
    needed.all(|column| a[column] == b[column])
}

/// 23505, in PostgreSQL's words.
pub(super) fn duplicate(table: &Table, constraint: TableId, values: &[Datum]) -> SqlError {
    let (name, columns) = match table.indexes.iter().find(|i| i.id == constraint) {
        Some(index) => (&index.name, index.keys()),
        None => (&table.primary_key_name, table.primary_key.as_slice()),
    };
    let names: Vec<&str> = columns.iter().map(|c| table.key_column_shown(*c)).collect();
    let shown: Vec<String> =
        columns.iter().map(|c| base::text::display_as(&values[*c], table.columns[*c].data_type)).collect();
    SqlError::new(
        SqlState::UNIQUE_VIOLATION,
        format!("duplicate key value violates unique constraint \"{name}\""),
    )
    .detail(format!("Key ({})=({}) already exists.", names.join(", "), shown.join(", ")))
    .table(&table.name)
    .constraint(name)
}

/// Reads of the row that has a new row's entry in a unique index, wherever it may be. NULL meets nothing, unless nulls are equal there.
fn entry_reads(
    table: &Table,
    index: &Index,
    values: &[Datum],
    home: PartitionId,
    topology: &Topology,
) -> Vec<base::txn::RowRead> {
    if !index.forbids_others(values) {
        return Vec::new();
    }
    let entry = table.index_entry(index, values, &table.key_of(values));
    let partitions =
        if table.index_is_local(index, topology) { vec![home] } else { table.partitions(topology) };
    let read = |partition| point_read(partition, table, Some(index.id), entry.clone());
    partitions.into_iter().map(read).collect()
}

fn point_read(partition: PartitionId, table: &Table, index: Option<TableId>, key: Key) -> base::txn::RowRead {
    base::txn::RowRead {
        partition,
        table: table.id,
        index,
        range: KeyRange::point(key),
        filter: None,
        limit: None,
        descending: false,
    }
}
