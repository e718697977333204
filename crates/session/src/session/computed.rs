//! INSERT with expressions that nodes do not know: queries compute them.
//!
//! Values take their expressions' places in the rows of VALUES. What ON CONFLICT DO UPDATE assigns is computed for
//! each row that meets another, over the one that is there; the proposed one takes part as parameters.

use super::Session;
use super::rich::select_of;
use super::zoned::plan_assigned;
use crate::response::RowStream;
use analytics::{Context, QueryPlan};
use base::error::SqlResult;
use base::schema::Table;
use base::{DataType, Datum, SqlError, SqlState, TableId};
use sql::lower::bind;
use sql::lower::insert::{Computed, InsertPlan};
use sql::lower::scope::ParameterTypes;
use sql::names;
use sql::types::Column;
use sql::walk::{self, WalkMut};
use sqlparser::ast::{self, Statement};
use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Values that one query computes: planning takes more than its share of time for very wide rows.
const VALUES_PER_QUERY: usize = 32;

/// Queries for what nodes cannot compute of an INSERT.
#[derive(Default)]
pub struct Computations {
    pub(super) values: Vec<Arc<QueryPlan>>,
    pub(super) conflict: Option<Conflict>,
}

/// The query over a row that a proposed one meets.
pub(super) struct Conflict {
    query: QueryPlan,
    /// The statement's own parameters; the proposed row's values stand behind them.
    parameters: usize,
}

impl Computations {
    /// Errors: 42804, and those of planning.
    pub(super) fn of(
        context: &Context<'_>,
        insert: &InsertPlan,
        statement: &ast::Insert,
        parameters: &mut ParameterTypes,
    ) -> SqlResult<Computations> {
        let mut queries = Vec::new();
        for values in insert.computed.chunks(VALUES_PER_QUERY) {
            let items = values.iter().map(|value| value.expr.clone()).collect();
            let to = |value: &Computed| insert.table.columns[value.column].data_type;
            let targets: Vec<_> = values.iter().map(to).enumerate().collect();
            let query = plan_assigned(context, items, &targets, select_of, parameters, &[])?;
            for (value, computed) in values.iter().zip(query.columns.iter()) {
                refuse_unassignable(&insert.table.columns[value.column], computed)?;
            }
            queries.push(Arc::new(query));
        }
        let conflict = match insert.conflict.is_empty() {
            true => None,
            false => Some(Conflict::of(context, insert, statement, parameters)?),
        };
        Ok(Computations { values: queries, conflict })
    }
}

impl Conflict {
    fn of(
        context: &Context<'_>,
        insert: &InsertPlan,
        statement: &ast::Insert,
        parameters: &mut ParameterTypes,
    ) -> SqlResult<Conflict> {
        let table = &insert.table;
        let own = parameters.0.len().max(placeholders(statement));
        let mut items = insert.conflict.clone();
        for item in &mut items {
            proposed_as_parameters(item, table, own)?;
        }
        let from = match &statement.table_alias {
            Some(alias) => format!("{} AS {}", statement.table, alias.alias),
            None => statement.table.to_string(),
        };
        let query_of = |items| {
            let mut query = select_of(items)?;
            if let (Statement::Query(query), Some(Statement::Query(of_table))) =
                (&mut query, sql::parse::parse(&format!("SELECT 1 FROM {from}"))?.pop())
                && let (ast::SetExpr::Select(select), ast::SetExpr::Select(of_table)) =
                    (query.body.as_mut(), *of_table.body)
            {
                select.from = of_table.from;
            }
            Ok(query)
        };
        let mut assigned = Vec::new();
        if let base::txn::OnConflict::Update { set, .. } = &insert.on_conflict {
            for (column, value) in set {
                if let base::expr::Expr::Column(n) = value
                    && let Some(n) = bind::computed_number(*n)
                {
                    assigned.push((n, &table.columns[*column]));
                }
            }
        }
        let targets: Vec<_> = assigned.iter().map(|(n, column)| (*n, column.data_type)).collect();
        let mut declared = parameters.clone();
        declared.0.resize(own, None);
        declared.0.extend(table.columns.iter().map(|column| Some(column.data_type)));
        let query = plan_assigned(context, items, &targets, query_of, &mut declared, &[table.id])?;
        if query.scans(table.id) != 1 {
            return Err(SqlError::unsupported("a subquery over the table itself in ON CONFLICT DO UPDATE"));
        }
        declared.0.truncate(own);
        *parameters = declared;
        for (n, column) in assigned {
            refuse_unassignable(column, &query.columns[n])?;
        }
        Ok(Conflict { query, parameters: own })
    }
}

/// How many parameters a statement names.
fn placeholders(statement: &ast::Insert) -> usize {
    let mut count = 0;
    let _: ControlFlow<()> = walk::expressions(&Statement::Insert(statement.clone()), |e| {
        if let ast::Expr::Value(value) = e
            && let ast::Value::Placeholder(name) = &value.value
            && let Ok(n) = sql::lower::expr::placeholder(name)
        {
            count = count.max(n + 1);
        }
        ControlFlow::Continue(())
    });
    count
}

/// Puts parameters in the place of the proposed row's columns. Errors: 42702 for a name that both rows have.
fn proposed_as_parameters(e: &mut ast::Expr, table: &Table, own: usize) -> SqlResult<()> {
    match e.walk_mut(&mut Proposed { table, own, depth: 0 }) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Proposed<'a> {
    table: &'a Table,
    own: usize,
    /// How many subqueries are around: there a name may be of theirs.
    depth: usize,
}

impl ast::VisitorMut for Proposed<'_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, _: &mut ast::Query) -> ControlFlow<SqlError> {
        self.depth += 1;
        ControlFlow::Continue(())
    }
    fn post_visit_query(&mut self, _: &mut ast::Query) -> ControlFlow<SqlError> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }
    fn post_visit_expr(&mut self, e: &mut ast::Expr) -> ControlFlow<SqlError> {
        match &*e {
            ast::Expr::CompoundIdentifier(path) if path.len() == 2 && names::fold(&path[0]) == "excluded" => {
                let name = names::fold(&path[1]);
                let columns = &self.table.columns;
                let Some(n) = self.table.column_named(&name).filter(|n| !columns[*n].hidden) else {
                    let message = format!("column excluded.{name} does not exist");
                    return ControlFlow::Break(SqlError::new(SqlState::UNDEFINED_COLUMN, message));
                };
                let text =
                    format!("CAST(${} AS {})", self.own + n + 1, columns[n].data_type.qualified_name());
                match sql::parse::parse_expr(&text) {
                    Ok(parameter) => *e = parameter,
                    Err(error) => return ControlFlow::Break(error),
                }
            }
            ast::Expr::Identifier(ident)
                if self.depth == 0 && self.table.column_named(&names::fold(ident)).is_some() =>
            {
                let message = format!("column reference \"{}\" is ambiguous", names::fold(ident));
                return ControlFlow::Break(SqlError::new(SqlState::AMBIGUOUS_COLUMN, message));
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// 42804 for a text that is computed for a column of another kind. Literals were lowered.
pub(super) fn refuse_unassignable(column: &base::schema::Column, computed: &Column) -> SqlResult<()> {
    let is_text =
        |t: DataType| matches!(t, DataType::Text | DataType::Varchar { .. } | DataType::Char { .. });
    // Arrays and intervals are printed as texts too.
    let is_plain = computed.type_oid == sql::types::type_oid(DataType::Text);
    if !is_text(computed.data_type) || !is_plain || is_text(column.data_type) {
        return Ok(());
    }
    Err(SqlError::new(
        SqlState::DATATYPE_MISMATCH,
        format!(
            "column \"{}\" is of type {} but expression is of type text",
            column.name,
            sql::lower::expr::type_name(column.data_type)
        ),
    )
    .hint("You will need to rewrite or cast the expression.")
    .column(&column.name))
}

impl Session {
    /// The INSERT with values in the place of what has to be computed.
    pub(super) async fn computed<'p>(
        &mut self,
        plan: &'p InsertPlan,
        computations: &[Arc<QueryPlan>],
        parameters: &[Datum],
    ) -> SqlResult<Cow<'p, InsertPlan>> {
        if computations.is_empty() {
            return Ok(Cow::Borrowed(plan));
        }
        let mut values = Vec::with_capacity(plan.computed.len());
        for query in computations {
            let stream = self.answer(query, parameters).await?.stream;
            let mut rows = RowStream::Batches(stream).collect().await?;
            let row = rows.pop().filter(|_| rows.is_empty());
            values.extend(row.ok_or_else(|| SqlError::internal("constants are one row"))?);
        }
        let mut plan = plan.clone();
        plan.fill(&|expr| {
            bind::map_columns(expr, &|column| match bind::computed_number(column) {
                Some(n) => base::expr::Expr::Constant(values.get(n).cloned().unwrap_or_default()),
                None => base::expr::Expr::Column(column),
            })
        });
        Ok(Cow::Owned(plan))
    }

    /// What ON CONFLICT DO UPDATE assigns to a row that a proposed one meets.
    pub(super) async fn conflicting(
        &mut self,
        conflict: &Conflict,
        table: TableId,
        there: Arc<Vec<Datum>>,
        proposed: &[Datum],
        parameters: &[Datum],
    ) -> SqlResult<Vec<Datum>> {
        let mut values = parameters.to_vec();
        values.resize(conflict.parameters, Datum::Null);
        values.extend_from_slice(proposed);
        // Other tables are read as they were before the statement.
        self.open().hide_parts();
        let answer = self.answer_over(&conflict.query, &values, table, vec![there]).await?;
        let rows = self.collected(&mut RowStream::Batches(answer.stream)).await?;
        self.open().show_parts();
        rows.into_iter().next().ok_or_else(|| SqlError::internal("one row has one answer"))
    }
}
