//! UPDATE and DELETE of one table.

use super::bind::{self, Binding};
use super::generated::Generated;
use super::keys::{self, KeyPath};
use super::scope::Scope;
use super::{Lowered, Lowering, Projection, Refusal, access, computed_keys};
use crate::names;
use base::error::{SqlResult, SqlState};
use base::expr::Expr;
use base::schema::triggers::Event;
use base::schema::{Identity, Index, Table};
use base::topology::Topology;
use base::txn::{AccessSet, Statement};
use base::{DataType, Datum, Row, SqlError};
use sqlparser::ast;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A lowered UPDATE or DELETE.
#[derive(Clone, Debug)]
pub struct ModifyPlan {
    pub table: Arc<Table>,
    /// New values; `None` deletes.
    pub set: Option<Vec<(usize, Expr)>>,
    pub condition: Option<Expr>,
    pub path: KeyPath,
    /// A secondary index that finds the rows better than the primary key does.
    pub index: Option<(Index, KeyPath)>,
    pub returning: Option<Projection>,
    /// A primary-key column changes, an entry homed elsewhere, what foreign keys are about, or what triggers see: the old
    /// row must be known first.
    pub must_read: bool,
    /// Columns that an UPDATE looks at, in order, if the rest of a row can be copied as it is: no index, no
    /// CHECK and no key wants to know it.
    pub columns: Option<Arc<Vec<u16>>>,
}

impl Lowering<'_> {
    pub fn update(&mut self, update: &ast::Update, topology: &Topology) -> Lowered<ModifyPlan> {
        if update.from.is_some()
            || !update.table.joins.is_empty()
            || update.limit.is_some()
            || !update.order_by.is_empty()
        {
            return Err(Refusal::TooRich);
        }
        let (table, alias) = self.modified_table(&update.table.relation)?;
        let scope = Scope::table(&table, alias.as_deref());
        let mut set = self.assignments(&update.assignments, &table, &scope)?;
        self.generated(&table)?.follow(&table, &mut set);
        self.modify(
            table,
            &scope,
            Some(set),
            update.selection.as_ref(),
            update.returning.as_deref(),
            topology,
        )
    }

    pub fn delete(&mut self, delete: &ast::Delete, topology: &Topology) -> Lowered<ModifyPlan> {
        if delete.using.is_some() || delete.limit.is_some() || !delete.tables.is_empty() {
            return Err(Refusal::TooRich);
        }
        let (ast::FromTable::WithFromKeyword(from) | ast::FromTable::WithoutKeyword(from)) = &delete.from;
        let [from] = from.as_slice() else { return Err(Refusal::TooRich) };
        if !from.joins.is_empty() {
            return Err(Refusal::TooRich);
        }
        let (table, alias) = self.modified_table(&from.relation)?;
        let scope = Scope::table(&table, alias.as_deref());
        self.modify(table, &scope, None, delete.selection.as_ref(), delete.returning.as_deref(), topology)
    }

    /// The table that an UPDATE or DELETE changes, and its alias.
    pub fn modified_table(&self, relation: &ast::TableFactor) -> SqlResult<(Arc<Table>, Option<String>)> {
        let ast::TableFactor::Table { name, alias, args: None, .. } = relation else {
            return Err(SqlError::unsupported("changing anything but a table"));
        };
        Ok((self.table(name)?, alias.as_ref().map(|a| names::fold(&a.name))))
    }

    /// `SET` of UPDATE and of ON CONFLICT. Errors: 42703, 42601 for a column named twice.
    pub fn assignments(
        &mut self,
        assignments: &[ast::Assignment],
        table: &Table,
        scope: &Scope,
    ) -> Lowered<Vec<(usize, Expr)>> {
        let mut set: Vec<(usize, Expr)> = Vec::with_capacity(assignments.len());
        for (column, value) in single_assignments(assignments)? {
            let (number, column) = assigned_column(table, column)?;
            if set.iter().any(|(c, _)| *c == number) {
                return Err(SqlError::new(
                    SqlState::SYNTAX_ERROR,
                    format!("multiple assignments to same column \"{}\"", column.name),
                )
                .into());
            }
            refuse_generated(column, value)?;
            if column.identity == Identity::Generated {
                continue;
            }
            let expr = if super::insert::is_default(value) {
                self.defaults(table)?.swap_remove(number)
            } else {
                let moment = crate::parse::moment(value, column.data_type);
                let value = moment.as_ref().unwrap_or(value);
                self.exprs(scope).assignment(value, &column.name, column.data_type)?
            };
            if bind::changes_per_row(&expr) {
                return Err(Refusal::TooRich);
            }
            set.push((number, expr));
        }
        Ok(set)
    }

    fn modify(
        &mut self,
        table: Arc<Table>,
        scope: &Scope,
        set: Option<Vec<(usize, Expr)>>,
        selection: Option<&ast::Expr>,
        returning: Option<&[ast::SelectItem]>,
        topology: &Topology,
    ) -> Lowered<ModifyPlan> {
        let condition = match selection {
            Some(e) => Some(self.exprs(scope).condition(e, "WHERE")?),
            None => None,
        };
        if condition.as_ref().is_some_and(bind::changes_per_row) {
            return Err(Refusal::TooRich);
        }
        let returning = match returning {
            Some(items) => Some(self.projection(items, &table, scope)?),
            None => None,
        };
        let conjuncts = keys::conjuncts(condition.as_ref());
        let path = KeyPath::primary(&table, &conjuncts);
        let index = better_index(&table, &self.computed_keys(&table)?, &conjuncts, &path);
        let changed: Vec<usize> = set.iter().flatten().map(|(c, _)| *c).collect();
        let remote = |i: &&Index| !table.index_is_local(i, topology);
        let must_read = match &set {
            Some(_) => {
                changed.iter().any(|c| table.primary_key.contains(c) || table.partition_column() == Some(*c))
                    || table
                        .indexes
                        .iter()
                        .filter(remote)
                        .any(|i| i.columns.iter().any(|c| changed.contains(c)))
            }
            None => table.indexes.iter().any(|i| remote(&i)),
        } || self.concerns_foreign_keys(&table, set.is_some().then_some(&changed))
            || !table.triggers.is_empty();
        let columns = looked_at(&table, set.as_deref(), condition.as_ref(), returning.as_ref());
        Ok(ModifyPlan { table, set, condition, path, index, returning, must_read, columns })
    }
}

impl Lowering<'_> {
    /// Whether a change of these columns (`None`: of the row's being there) is about foreign keys.
    fn concerns_foreign_keys(&self, table: &Table, changed: Option<&Vec<usize>>) -> bool {
        let Some(changed) = changed else { return !table.foreign.inbound.is_empty() };
        let touches = |columns: &[usize]| columns.iter().any(|c| changed.contains(c));
        // A row that moves to another partition may have other keys there.
        let decides = |key: &base::schema::ForeignKey| {
            touches(&key.columns)
                || key.partition.is_some() && key.deciding_columns().iter().any(|c| changed.contains(c))
        };
        table.foreign.own.iter().any(decides)
            || self.catalog.referencing(table).any(|(_, key)| touches(&key.referenced))
    }
}

fn looked_at(
    table: &Table,
    set: Option<&[(usize, Expr)]>,
    condition: Option<&Expr>,
    returning: Option<&Projection>,
) -> Option<Arc<Vec<u16>>> {
    let is_plain = table.indexes.is_empty() && table.checks.is_empty() && table.domains.is_empty();
    let of_partition = table.foreign.own.iter().any(|key| key.partition.is_some());
    let set = set.filter(|_| is_plain && !of_partition && table.triggers.is_empty())?;
    let moves = |column: &usize| {
        table.primary_key.contains(column) || table.partition_column().as_ref() == Some(column)
    };
    if set.iter().any(|(column, _)| moves(column)) {
        return None;
    }
    let mut columns: BTreeSet<usize> = set.iter().map(|(column, _)| *column).collect();
    let shown = returning.iter().flat_map(|r| &r.exprs);
    let exprs = set.iter().map(|(_, e)| e).chain(condition).chain(shown);
    exprs.for_each(|e| bind::columns_of(e, &mut columns));
    Some(Arc::new(columns.into_iter().map(|c| c as u16).collect()))
}

/// A secondary index that finds rows to change where the primary key does not: an order declared by
/// primary key is never in conflict, so that is preferred as soon as it says more than where rows live.
pub fn better_index(
    table: &Table,
    generated: &Generated,
    conjuncts: &[Expr],
    primary: &KeyPath,
) -> Option<(Index, KeyPath)> {
    if primary.fixed_count() > 0 && !only_partition(table, primary) {
        return None;
    }
    narrowest_index(table, generated, conjuncts, primary)
}

/// The secondary index that fixes most columns, if it fixes more than the primary key does.
pub(super) fn narrowest_index(
    table: &Table,
    generated: &Generated,
    conjuncts: &[Expr],
    primary: &KeyPath,
) -> Option<(Index, KeyPath)> {
    if primary.is_full {
        return None;
    }
    table
        .indexes
        .iter()
        .filter(|index| !index.form.is_building && index.form.method.is_read())
        .map(|index| (index, computed_keys::path(table, index, generated, conjuncts)))
        .filter(|(_, path)| path.fixed_count() > primary.fixed_count())
        .max_by_key(|(_, path)| path.fixed_count())
        .map(|(index, path)| (index.clone(), path))
}

/// Whether the primary key path fixes no more than where the rows live.
fn only_partition(table: &Table, primary: &KeyPath) -> bool {
    primary.fixed_count() == 1
        && table.partition_column() == Some(table.primary_key[0])
        && !primary.is_point()
}

type OneAssignment<'a> = (&'a ast::ObjectName, &'a ast::Expr);

/// `a = 1` and `(a, b) = (1, 2)` as pairs.
fn single_assignments(assignments: &[ast::Assignment]) -> Lowered<Vec<OneAssignment<'_>>> {
    let mut pairs = Vec::with_capacity(assignments.len());
    for assignment in assignments {
        match (&assignment.target, &assignment.value) {
            (ast::AssignmentTarget::ColumnName(column), value) => pairs.push((column, value)),
            (ast::AssignmentTarget::Tuple(columns), ast::Expr::Tuple(values))
                if columns.len() == values.len() =>
            {
                pairs.extend(columns.iter().zip(values));
            }
            _ => return Err(Refusal::TooRich),
        }
    }
    Ok(pairs)
}

/// 428C9: an identity column that makes its own values takes no other, nor does a generated column.
pub fn refuse_generated(column: &base::schema::Column, value: &ast::Expr) -> SqlResult<()> {
    let told = || format!("column \"{}\" can only be updated to DEFAULT", column.name);
    match column.identity {
        _ if super::insert::is_default(value) => return Ok(()),
        Identity::Generated => return Err(super::generated::refuse_value(column, told())),
        Identity::Always => {}
        Identity::No | Identity::Serial | Identity::ByDefault => return Ok(()),
    }
    Err(SqlError::new(SqlState(*b"428C9"), told())
        .detail(format!("Column \"{}\" is an identity column defined as GENERATED ALWAYS.", column.name)))
}

/// The column that an assignment names. Errors: 42703; 0A000 for an attribute of a composite type.
pub fn assigned_column<'t>(
    table: &'t Table,
    name: &ast::ObjectName,
) -> SqlResult<(usize, &'t base::schema::Column)> {
    let mut parts = names::parts(name)?;
    let column = parts.pop().expect("a name has a part");
    let row = parts.iter().find_map(|row| table.column_named(row)).map(|row| &table.columns[row]);
    if let Some(row) = row.filter(|row| !row.hidden && matches!(row.data_type, DataType::Composite(_))) {
        let told = format!("assigning attribute \"{column}\" of column \"{}\"", row.name);
        return Err(SqlError::unsupported(told).hint("Assign the whole row: SET c = ROW(…)."));
    }
    match table.column_named(&column).filter(|c| !table.columns[*c].hidden) {
        Some(number) => Ok((number, &table.columns[number])),
        None => {
            let mut error = SqlError::new(
                SqlState::UNDEFINED_COLUMN,
                format!("column \"{column}\" of relation \"{}\" does not exist", table.name),
            );
            error.position = names::position_of(name);
            Err(error)
        }
    }
}

impl ModifyPlan {
    /// DELETE without a condition.
    pub fn delete_all(table: Arc<Table>) -> ModifyPlan {
        let path = KeyPath::primary(&table, &[]);
        let (set, condition, index, returning) = (None, None, None, None);
        ModifyPlan { table, set, condition, path, index, returning, must_read: true, columns: None }
    }

    /// What it does to rows.
    pub fn event(&self) -> Event {
        if self.set.is_some() { Event::Update } else { Event::Delete }
    }

    /// Columns that change.
    pub fn changed(&self) -> Vec<usize> {
        self.set.iter().flatten().map(|(c, _)| *c).collect()
    }

    /// The program's statements, with their access set. None of them reads outside what it declares, so
    /// none can meet a conflict.
    pub fn statements(
        &self,
        binding: &Binding<'_>,
        topology: &Topology,
        access: &mut AccessSet,
    ) -> SqlResult<Vec<Statement>> {
        let table = &self.table;
        let reached = self.path.reach(table, binding, topology, None)?;
        let filter = if reached.is_exact { &self.path.residual } else { &self.condition };
        let filter = filter.as_ref().map(|f| binding.fill(f)).transpose()?;
        let set: Option<Vec<(usize, Expr)>> = self
            .set
            .as_ref()
            .map(|set| set.iter().map(|(c, e)| Ok((*c, binding.fill(e)?))).collect::<SqlResult<_>>())
            .transpose()?;
        let returning = self.returning.as_ref().map(|r| binding.fill_all(&r.exprs)).transpose()?;
        let changed = self.set.as_ref().map(|_| self.changed());
        let mut statements = Vec::with_capacity(reached.reaches.len());
        for reach in reached.reaches {
            access::write_range(access, table, &reach.range, &reach.partitions, changed.as_deref());
            let (table, schema_version) = (table.id, table.version);
            let (target, filter, returning) = (reach.range, filter.clone(), returning.clone());
            statements.push(match &set {
                Some(set) => {
                    Statement::Update { table, schema_version, target, filter, set: set.clone(), returning }
                }
                None => Statement::Delete { table, schema_version, target, filter, returning },
            });
        }
        access.normalize();
        Ok(statements)
    }

    /// The new values of the columns that are looked at, and the new row, with everything else as it was
    /// stored. `None` where that does not do: [`ModifyPlan::apply`] says what comes of it.
    pub fn apply_packed(
        &self,
        binding: &Binding<'_>,
        looked_at: &[Datum],
        stored: &Row,
    ) -> SqlResult<Option<(Vec<Datum>, Row)>> {
        let Some(set) = &self.set else { return Ok(None) };
        let mut new = looked_at.to_vec();
        let mut changes = Vec::with_capacity(set.len());
        for (column, expr) in set {
            let described = &self.table.columns[*column];
            let value = super::insert::assign(binding.eval(expr, looked_at)?, described)?;
            if described.not_null && value.is_null() {
                return Ok(None);
            }
            new[*column] = value.clone();
            changes.push((*column, value));
        }
        changes.sort_by_key(|(column, _)| *column);
        // A row that was stored before a column was added ends before it.
        if changes.last().is_some_and(|(column, _)| stored.stored(*column).is_none()) {
            return Ok(None);
        }
        let row = stored.with(&changes);
        if row.len() > base::row::BYTES_MAX {
            // Whether the texts alone are too long is decided with all values.
            return Ok(None);
        }
        Ok(Some((new, row)))
    }

    /// A row's new values: assigned, coerced, and checked unless triggers have still to look at them. `None` if the row goes.
    pub fn apply(&self, binding: &Binding<'_>, old: &[Datum]) -> SqlResult<Option<Vec<Datum>>> {
        let Some(set) = &self.set else { return Ok(None) };
        let mut new = old.to_vec();
        for (column, expr) in set {
            let value = binding.eval(expr, old)?;
            new[*column] = super::insert::assign(value, &self.table.columns[*column])?;
        }
        if !self.table.triggers.change_rows(Event::Update) {
            super::insert::check_row(&self.table, &new)?;
        }
        Ok(Some(new))
    }
}
