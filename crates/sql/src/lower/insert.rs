//! INSERT: rows completed with defaults, ON CONFLICT, RETURNING.

mod conflict;
mod literals;
mod widths;

use super::bind::{self, Binding, Volatile};
use super::generated::{Generated, refuse_value};
use super::scope::Scope;
use super::{Lowered, Lowering, Projection, Refusal, access};
use crate::names;
use crate::parse::Overriding;
use base::error::{SqlResult, SqlState};
use base::expr::Expr;
use base::key::KeyRange;
use base::schema::{Identity, Table, triggers::Event};
use base::topology::Topology;
use base::txn::{AccessMode, AccessSet, Granule, OnConflict, Statement};
use base::{Datum, Row, SqlError};
use literals::settle_literals;
use sqlparser::ast;
use std::sync::Arc;
use widths::{refuse_missing, refuse_width, width_of};

/// The target of a value that is not wanted.
const NOWHERE: usize = usize::MAX;

/// A lowered INSERT.
#[derive(Clone, Debug)]
pub struct InsertPlan {
    pub table: Arc<Table>,
    pub source: Source,
    /// What each column gets when nothing is given.
    pub defaults: Vec<Expr>,
    pub on_conflict: OnConflict,
    pub returning: Option<Projection>,
    /// The order can be declared before anything is read.
    pub is_one_shot: bool,
    /// What a query has to compute for VALUES, in the order of [`bind::computed`].
    pub computed: Vec<Computed>,
    /// What a query has to compute for ON CONFLICT DO UPDATE of the row there is and the one that is proposed.
    pub conflict: Vec<ast::Expr>,
    pub generated: Generated,
}

/// A value that nodes do not know how to compute.
#[derive(Clone, Debug)]
pub struct Computed {
    pub expr: ast::Expr,
    /// The column it is for.
    pub column: usize,
}

/// Where the rows come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// One expression per column of the table.
    Values(Vec<Vec<Expr>>),
    /// A query; its columns go to these columns of the table.
    Query(Box<ast::Query>, Vec<usize>),
}

impl Lowering<'_> {
    pub fn insert(&mut self, insert: &ast::Insert) -> Lowered<InsertPlan> {
        if insert.or.is_some() || insert.ignore || insert.replace_into || insert.overwrite {
            return Err(SqlError::unsupported("this form of INSERT").into());
        }
        let ast::TableObject::TableName(name) = &insert.table else {
            return Err(SqlError::unsupported("INSERT into anything but a table").into());
        };
        let table = self.table(name)?;
        let (overriding, columns) = crate::parse::overriding(insert)?;
        let mut targets = self.insert_targets(&table, columns)?;
        let defaults = self.defaults(&table)?;
        let Some(query) = &insert.source else {
            // INSERT INTO t DEFAULT VALUES
            let source = Source::Values(vec![defaults.clone()]);
            return self.finish_insert(insert, table, source, defaults);
        };
        let is_plain = query.with.is_none() && query.order_by.is_none() && query.limit_clause.is_none();
        let mut computed = Vec::new();
        let source = match query.body.as_ref() {
            ast::SetExpr::Values(values) if is_plain => {
                let mut rows = Vec::with_capacity(values.rows.len());
                for row in &values.rows {
                    refuse_width(&values.rows[0].content, &row.content)?;
                    refuse_missing(columns, &targets, row.content.len())?;
                    rows.push(self.values_row(
                        &table,
                        &targets,
                        overriding,
                        &defaults,
                        &row.content,
                        &mut computed,
                    )?);
                }
                Source::Values(rows)
            }
            body => {
                if let Some(width) = width_of(body) {
                    refuse_missing(columns, &targets, width)?;
                }
                let given = width_of(body).unwrap_or(targets.len()).min(targets.len());
                let mut asked = targets[..given].iter().map(|t| &table.columns[*t]);
                if let Some(column) = asked.find(|c| c.identity == Identity::Generated) {
                    return Err(no_value_for(column).into());
                }
                match overriding {
                    None => {
                        let mut columns = targets[..given].iter().map(|t| &table.columns[*t]);
                        if let Some(column) = columns.find(|c| c.identity == Identity::Always) {
                            return Err(generated_always(column).into());
                        }
                    }
                    Some(Overriding::System) => {}
                    Some(Overriding::User) => {
                        let is_identity = |t: &usize| table.columns[*t].identity != Identity::No;
                        targets.iter_mut().filter(|t| is_identity(t)).for_each(|t| *t = NOWHERE);
                    }
                }
                let mut query = query.clone();
                settle_literals(&mut query.body, &table, &targets);
                Source::Query(query, targets)
            }
        };
        let mut plan = self.finish_insert(insert, table, source, defaults)?;
        plan.computed = computed;
        Ok(plan)
    }

    /// Columns that values go to.
    pub fn insert_targets(&self, table: &Table, columns: &[ast::ObjectName]) -> SqlResult<Vec<usize>> {
        if columns.is_empty() {
            return Ok(table.visible_columns().map(|(i, _)| i).collect());
        }
        let mut targets = Vec::with_capacity(columns.len());
        for name in columns {
            let column = names::parts(name)?.pop().expect("a name has a part");
            let Some(number) = table.column_named(&column).filter(|c| !table.columns[*c].hidden) else {
                let mut error = SqlError::new(
                    SqlState::UNDEFINED_COLUMN,
                    format!("column \"{column}\" of relation \"{}\" does not exist", table.name),
                );
                error.position = names::position_of(name);
                return Err(error);
            };
            if targets.contains(&number) {
                return Err(SqlError::new(
                    SqlState::DUPLICATE_COLUMN,
                    format!("column \"{column}\" specified more than once"),
                ));
            }
            targets.push(number);
        }
        Ok(targets)
    }

    fn values_row(
        &mut self,
        table: &Table,
        targets: &[usize],
        overriding: Option<Overriding>,
        defaults: &[Expr],
        values: &[ast::Expr],
        computed: &mut Vec<Computed>,
    ) -> Lowered<Vec<Expr>> {
        if values.len() > targets.len() {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                "INSERT has more expressions than target columns",
            )
            .into());
        }
        let mut row = defaults.to_vec();
        let scope = Scope::default();
        for (&target, value) in targets.iter().zip(values) {
            let column = &table.columns[target];
            if is_default(value) {
                continue;
            }
            if column.identity == Identity::Generated {
                return Err(no_value_for(column).into());
            }
            match overriding {
                None if column.identity == Identity::Always => {
                    return Err(generated_always(column).into());
                }
                Some(Overriding::User) if column.identity != Identity::No => continue,
                _ => {}
            }
            let moment = crate::parse::moment(value, column.data_type);
            let (value, declared) = (moment.as_ref().unwrap_or(value), self.parameters.clone());
            row[target] = match self.exprs(&scope).assignment(value, &column.name, column.data_type) {
                Err(Refusal::TooRich) => {
                    self.redeclare(declared);
                    computed.push(Computed { expr: value.clone(), column: target });
                    bind::computed(computed.len() - 1)
                }
                lowered => lowered?,
            };
        }
        Ok(row)
    }

    /// What each column of a table gets by default; generated ones are computed afterwards.
    pub fn defaults(&mut self, table: &Table) -> SqlResult<Vec<Expr>> {
        let scope = Scope::default();
        let mut defaults = Vec::with_capacity(table.columns.len());
        for (number, column) in table.columns.iter().enumerate() {
            defaults.push(if column.hidden && table.primary_key.contains(&number) {
                bind::volatile(Volatile::RowId)
            } else if let Some(sql) =
                table.default_of(number).filter(|_| column.identity != Identity::Generated)
            {
                let parsed = self.kept_expression(sql)?;
                self.exprs(&scope)
                    .assignment(&parsed, &column.name, column.data_type)
                    .map_err(|r| r.or(|| SqlError::unsupported(format!("the default {sql}"))))?
            } else {
                Expr::Constant(Datum::Null)
            });
        }
        Ok(defaults)
    }

    fn finish_insert(
        &mut self,
        insert: &ast::Insert,
        table: Arc<Table>,
        source: Source,
        defaults: Vec<Expr>,
    ) -> Lowered<InsertPlan> {
        // The clause of identity columns may have been read as an alias.
        let has_clause = crate::parse::overriding(insert)?.1.len() != insert.columns.len();
        let alias = insert.table_alias.as_ref().filter(|_| !has_clause).map(|a| names::fold(&a.alias));
        let scope = Scope::table(&table, alias.as_deref());
        let mut conflict = Vec::new();
        let on_conflict = match &insert.on {
            None => OnConflict::Fail,
            Some(ast::OnInsert::OnConflict(clause)) => {
                self.on_conflict(&table, alias.as_deref(), clause, &mut conflict)?
            }
            Some(_) => return Err(SqlError::unsupported("ON DUPLICATE KEY UPDATE").into()),
        };
        let returning = match &insert.returning {
            None => None,
            Some(items) => Some(self.projection(items, &table, &scope)?),
        };
        let is_one_shot = matches!(source, Source::Values(_));
        let computed = Vec::new();
        let generated = self.generated(&table)?;
        Ok(InsertPlan {
            table,
            source,
            defaults,
            on_conflict,
            returning,
            is_one_shot,
            computed,
            conflict,
            generated,
        })
    }
}

/// 428C9: a value for a column that makes its own.
pub fn no_value_for(column: &base::schema::Column) -> SqlError {
    refuse_value(column, format!("cannot insert a non-DEFAULT value into column \"{}\"", column.name))
}

/// 428C9: a value for an identity column that makes its own.
pub fn generated_always(column: &base::schema::Column) -> SqlError {
    no_value_for(column)
        .detail(format!("Column \"{}\" is an identity column defined as GENERATED ALWAYS.", column.name))
        .hint("Use OVERRIDING SYSTEM VALUE to override.")
}

pub fn is_default(e: &ast::Expr) -> bool {
    matches!(e, ast::Expr::Identifier(i) if i.quote_style.is_none() && i.value.eq_ignore_ascii_case("default"))
}

impl InsertPlan {
    /// Changes the expressions of VALUES.
    pub fn fill(&mut self, with: &dyn Fn(&Expr) -> Expr) {
        if let Source::Values(rows) = &mut self.source {
            rows.iter_mut().flatten().for_each(|e| *e = with(e));
        }
        self.computed.clear();
    }

    /// Complete rows for VALUES, checked against types, NOT NULL and CHECK; where triggers change rows, against types alone.
    pub fn rows(&self, binding: &Binding<'_>) -> SqlResult<Vec<Vec<Datum>>> {
        let Source::Values(rows) = &self.source else { return Ok(Vec::new()) };
        rows.iter()
            .map(|row| {
                let mut values = Vec::with_capacity(row.len());
                for (expr, column) in row.iter().zip(&self.table.columns) {
                    values.push(assign(binding.value(expr)?, column)?);
                }
                settle_new(&self.table, &self.generated, &mut values)?;
                Ok(values)
            })
            .collect()
    }

    /// Complete rows from a query's rows.
    pub fn rows_from(&self, binding: &Binding<'_>, given: Vec<Vec<Datum>>) -> SqlResult<Vec<Vec<Datum>>> {
        let Source::Query(_, targets) = &self.source else { return Ok(Vec::new()) };
        given.into_iter().map(|row| complete_row(self, targets, row, binding)).collect()
    }

    /// The program's statement for these rows, with its access set.
    ///
    /// `reports`: the node tells what was inserted, for it may be another attempt's rows.
    pub fn statement(
        &self,
        rows: &[Vec<Datum>],
        binding: &Binding<'_>,
        topology: &Topology,
        access: &mut AccessSet,
        reports: bool,
    ) -> SqlResult<Statement> {
        let table = &self.table;
        let width = table.columns.len();
        let on_conflict = match &self.on_conflict {
            OnConflict::Update { index, set, filter } => OnConflict::Update {
                index: *index,
                set: set.iter().map(|(c, e)| Ok((*c, binding.fill(e)?))).collect::<SqlResult<_>>()?,
                filter: filter.as_ref().map(|f| binding.fill(f)).transpose()?,
            },
            other => other.clone(),
        };
        for values in rows {
            assert_eq!(values.len(), width, "a row of {} is complete", table.name);
            access::write_row(access, table, values, &table.key_of(values), topology);
        }
        if let OnConflict::Update { index, set, .. } = &on_conflict {
            let changed: Vec<usize> = set.iter().map(|(c, _)| *c).collect();
            for values in rows {
                let homes = access::homes(table, values, topology);
                for &partition in &homes {
                    // Another row may be the one that is updated.
                    if *index != table.id {
                        let all = Granule::Range(table.id, KeyRange::all());
                        access.add(partition, all, AccessMode::Write);
                    }
                    for index in
                        table.indexes.iter().filter(|i| i.columns.iter().any(|c| changed.contains(c)))
                    {
                        let all = Granule::Range(index.id, KeyRange::all());
                        access.add(partition, all, AccessMode::Write);
                    }
                }
            }
        }
        access.normalize();
        Ok(Statement::Insert {
            table: table.id,
            schema_version: table.version,
            rows: rows.iter().map(|values| Row::of(values)).collect(),
            on_conflict,
            returning: match (&self.on_conflict, &self.returning) {
                (_, None) => None,
                (OnConflict::Fail, _) if !reports => None,
                (_, Some(returning)) => Some(binding.fill_all(&returning.exprs)?),
            },
        })
    }

    /// Whether its rows can be made without using anything up.
    pub fn explains_without_effect(&self) -> bool {
        match &self.source {
            Source::Values(rows) => {
                self.computed.is_empty() && !rows.iter().flatten().any(bind::changes_per_row)
            }
            Source::Query(..) => false,
        }
    }

    /// Whether ON CONFLICT asks for something that only a reader can find out: a unique entry homed
    /// elsewhere, or an update that moves a row.
    pub fn conflict_needs_reading(&self, topology: &Topology) -> bool {
        if self.on_conflict == OnConflict::Fail {
            return false;
        }
        if !self.conflict.is_empty() {
            return true;
        }
        let moves = match &self.on_conflict {
            OnConflict::Update { set, .. } => set.iter().any(|(c, _)| {
                self.table.primary_key.contains(c) || self.table.partition_column() == Some(*c)
            }),
            _ => false,
        };
        moves || self.table.indexes.iter().any(|i| !self.table.index_is_local(i, topology))
    }
}

/// Given values in their columns, defaults elsewhere; checked as [`InsertPlan::rows`] are.
pub fn complete_row(
    plan: &InsertPlan,
    targets: &[usize],
    given: Vec<Datum>,
    binding: &Binding<'_>,
) -> SqlResult<Vec<Datum>> {
    let table = &plan.table;
    if given.len() > targets.len() {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "INSERT has more expressions than target columns"));
    }
    let mut values: Vec<Option<Datum>> = vec![None; table.columns.len()];
    for (&target, value) in targets.iter().zip(given) {
        if target != NOWHERE {
            values[target] = Some(value);
        }
    }
    let mut row = Vec::with_capacity(values.len());
    for ((value, column), default) in values.into_iter().zip(&table.columns).zip(&plan.defaults) {
        let value = match value {
            Some(value) => value,
            None => binding.value(default)?,
        };
        row.push(assign(value, column)?);
    }
    settle_new(table, &plan.generated, &mut row)?;
    Ok(row)
}

/// Completes a new row and checks it, unless triggers have still to look at it.
fn settle_new(table: &Table, generated: &Generated, row: &mut [Datum]) -> SqlResult<()> {
    if table.triggers.change_rows(Event::Insert) {
        return Ok(());
    }
    generated.fill(table, row)?;
    check_row(table, row)
}

/// Fits a value of any kind into a column, the way an assignment does.
pub fn assign(value: Datum, column: &base::schema::Column) -> SqlResult<Datum> {
    use base::DataType as T;
    let to = column.data_type;
    let value = match (&value, to) {
        (Datum::Text(_), T::Text | T::Varchar { .. } | T::Char { .. }) | (Datum::Null, _) => value,
        (_, T::Text | T::Varchar { .. } | T::Char { .. }) => base::expr::cast(value, T::Text)?,
        _ => value,
    };
    let from = value.kind();
    to.coerce(value).map_err(|mut error| {
        if error.state == SqlState::DATATYPE_MISMATCH {
            let (column, to) = (&column.name, super::expr::type_name(to));
            error.message = format!("column \"{column}\" is of type {to} but expression is of type {from}");
            error = error.column(column);
        }
        error
    })
}

/// Size, NOT NULL and CHECK. Errors: 54000, 23502, 23514, and whatever a check itself raises.
pub fn check_row(table: &Table, values: &[Datum]) -> SqlResult<()> {
    let failing = || {
        let shown: Vec<String> = table
            .visible_columns()
            .map(|(i, c)| match &values[i] {
                Datum::Null => "null".into(),
                value => base::text::display_as(value, c.data_type),
            })
            .collect();
        format!("Failing row contains ({}).", shown.join(", "))
    };
    base::row::check_size(values).map_err(|e| e.table(&table.name))?;
    table.check_domains(values)?;
    for (i, column) in table.columns.iter().enumerate() {
        if values[i].is_null() && (column.not_null || table.primary_key.contains(&i)) {
            return Err(SqlError::new(
                SqlState::NOT_NULL_VIOLATION,
                format!(
                    "null value in column \"{}\" of relation \"{}\" violates not-null constraint",
                    column.name, table.name
                ),
            )
            .detail(failing())
            .table(&table.name)
            .column(&column.name));
        }
    }
    for check in table.checks.iter() {
        // Unknown passes.
        if check.expr.eval(values)? == Datum::Bool(false) {
            return Err(table.violation(check, failing()));
        }
    }
    Ok(())
}
