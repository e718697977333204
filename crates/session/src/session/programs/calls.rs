//! Calls of functions in PL/pgSQL from statements.
//!
//! A function may change the database, and a query may be computed more than once, or on several threads. So calls are
//! made before the statement that contains them: the value of one becomes a parameter of the statement, the rows of one in
//! FROM become a table of it. KEEPS: a call whose arguments come from rows, or that would be made once for each row, or only
//! under a condition, is refused.

use super::callees::{plan_arguments, resolved, written};
use super::taking::{Calls, Found, in_from};
use super::{kinds, parsing, per_row};
use crate::session::Session;
use crate::session::plan::{CallOfProgram as Call, CallsPlan, Plan, Planner, lookup_of};
use crate::session::routines::settled;
use crate::session::write::Written;
use analytics::Context;
use base::error::SqlResult;
use base::routines::Language;
use base::schema::Catalog;
use base::{DataType, Datum, SqlError, SqlState};
use sql::lower::scope::ParameterTypes;
use sql::routines::resolve::Resolved;
use sql::routines::{self, expand};
use sql::types::Column;
use sql::walk::WalkMut;
use sqlparser::ast::{self, Statement};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Whether any function may be called that is a program.
fn has_programs(catalog: &Catalog) -> bool {
    catalog.routines.0.values().any(|routine| routine.language == Language::PlPgSql)
}

/// Plans a statement that calls programs; `None`: it calls none. Errors: 0A000 for a call that is not made before its
/// statement, 42725, 42501, and those of planning.
pub(in crate::session) fn plan_calls(
    context: &Context<'_>,
    statement: &Statement,
    parameters: &mut ParameterTypes,
    plan: Planner,
) -> SqlResult<Option<Plan>> {
    let is_one = matches!(
        statement,
        Statement::Query(_)
            | Statement::Insert(_)
            | Statement::Update(_)
            | Statement::Delete(_)
            | Statement::Merge(_)
    );
    if !is_one || !has_programs(context.catalog) || !expand::calls_some(lookup_of(context), statement) {
        return Ok(None);
    }
    let declared = parameters.clone();
    if let Some(planned) = plan_per_row(context, statement, parameters, plan)? {
        return Ok(Some(planned));
    }
    *parameters = declared;
    let given = highest_parameter(statement).max(parameters.0.len());
    let mut types = parameters.clone().of_count(given);
    let mut main = statement.clone();
    in_from(context, &types, &mut main)?;
    let changes = matches!(statement, Statement::Update(_) | Statement::Delete(_) | Statement::Merge(_));
    let mut calls = Calls::new(context, plan, types.clone(), changes);
    if let ControlFlow::Break(error) = main.walk_mut(&mut calls) {
        return Err(error);
    }
    let found = std::mem::take(&mut calls.found);
    if found.is_empty() {
        return Ok(None);
    }
    let (made, catalog) = plan_each(context, found, &mut types, plan)?;
    let main = plan(&context.over(&catalog), &main, &mut types)?;
    if matches!(main, Plan::Utility(_) | Plan::With(_) | Plan::Checked(_)) {
        return Err(SqlError::unsupported("a function in PL/pgSQL in this statement"));
    }
    *parameters = types.of_count(given);
    let word = main.verb();
    let tag = if word == Some("INSERT") { "INSERT 0" } else { word.unwrap_or("SELECT") };
    let columns = without_own(&main, &made);
    Ok(Some(Plan::Calls(Box::new(CallsPlan {
        calls: made,
        main: Some(main),
        catalog,
        rows: Vec::new(),
        given,
        per_row: None,
        columns,
        tag,
        word,
    }))))
}

/// The calls that were found, and the catalog with a table for the rows of each in FROM.
fn plan_each(
    context: &Context<'_>,
    found: Vec<Found>,
    types: &mut ParameterTypes,
    plan: Planner,
) -> SqlResult<(Vec<Call>, Arc<Catalog>)> {
    let mut catalog = context.catalog.clone();
    let mut made = Vec::new();
    for (nth, call) in found.into_iter().enumerate() {
        let mut table = None;
        if call.is_table {
            let mut columns = kinds::columns(context.catalog, &call.routine);
            columns.extend(call.is_numbered.then(|| ("ordinality".to_string(), DataType::BigInt)));
            let of_rows = sql::with::table_of_rows(nth, columns);
            let of_rows = Arc::new(of_rows);
            Arc::make_mut(&mut catalog).tables.insert(of_rows.id, of_rows.clone());
            table = Some(of_rows);
        }
        let arguments = plan_arguments(context, &call.routine, call.arguments, types, plan)?;
        if table.is_none() {
            let columns = kinds::columns(context.catalog, &call.routine);
            types.push(columns[0].1);
        }
        made.push(Call { routine: call.routine, arguments, table, is_numbered: call.is_numbered });
    }
    Ok((made, catalog))
}

/// Plans a query with columns that are calls, made for each row; `None`: it is none.
fn plan_per_row(
    context: &Context<'_>,
    statement: &Statement,
    parameters: &mut ParameterTypes,
    plan: Planner,
) -> SqlResult<Option<Plan>> {
    let Statement::Query(query) = statement else { return Ok(None) };
    let Some((main, items, columns)) = per_row::plan_rows(context, query, parameters, plan)? else {
        return Ok(None);
    };
    Ok(Some(Plan::Calls(Box::new(CallsPlan {
        calls: Vec::new(),
        main: Some(main),
        catalog: context.catalog.clone(),
        rows: Vec::new(),
        given: 0,
        per_row: Some(items),
        columns: Some(Arc::new(columns)),
        tag: "SELECT",
        word: None,
    }))))
}

/// Columns of a statement's rows, none of which comes from the table that a call's rows are.
fn without_own(main: &Plan, calls: &[Call]) -> Option<Arc<Vec<Column>>> {
    let columns = main.columns()?;
    let is_own = |column: &Column| {
        let mut tables = calls.iter().filter_map(|call| call.table.as_ref());
        tables.any(|table| column.origin.map(|(oid, _)| oid) == Some(sql::lower::oid(table.id)))
    };
    let known =
        |column: &Column| Column { origin: column.origin.filter(|_| !is_own(column)), ..column.clone() };
    Some(Arc::new(columns.iter().map(known).collect()))
}

/// Plans CALL of a procedure that is a program, and DO; `None`: it is another procedure.
pub(in crate::session) fn plan_call_or_do(
    context: &Context<'_>,
    function: &ast::Function,
    parameters: &mut ParameterTypes,
    plan: Planner,
) -> SqlResult<Option<Plan>> {
    if let Some(block) = sql::parse::do_block(function) {
        return parsing::of_block(&block).map(|program| Some(Plan::Do(program)));
    }
    let found = resolved(context, parameters, &function.name, written(&function.args))?;
    let Some(Resolved { routine, arguments }) = found else { return Ok(None) };
    if !routine.is_procedure() {
        let message = format!("{} is not a procedure", routines::spaced_signature(context.catalog, &routine));
        return Err(SqlError::new(SqlState(*b"42809"), message).hint("To call a function, use SELECT."));
    }
    let given = highest_parameter(&Statement::Call(function.clone())).max(parameters.0.len());
    *parameters = std::mem::take(parameters).of_count(given);
    let routine = settled(context, routine, &arguments, parameters, plan)?;
    let arguments = plan_arguments(context, &routine, arguments, parameters, plan)?;
    Ok(Some(Plan::Calls(Box::new(CallsPlan {
        calls: vec![Call { routine, arguments, table: None, is_numbered: false }],
        main: None,
        catalog: context.catalog.clone(),
        rows: Vec::new(),
        given,
        per_row: None,
        columns: None,
        tag: "CALL",
        word: None,
    }))))
}

/// The highest `$n` of a statement.
fn highest_parameter(statement: &Statement) -> usize {
    let mut highest = 0;
    let _: ControlFlow<()> = sql::walk::expressions(statement, |e| {
        highest = highest.max(routines::body::argument_of(e).unwrap_or(0));
        ControlFlow::Continue(())
    });
    highest
}

impl CallsPlan {
    /// What EXPLAIN says of it.
    pub fn explained(&self) -> String {
        let names: Vec<&str> = self.calls.iter().map(|call| call.routine.name.as_str()).collect();
        format!("Functions called before the statement: {}", names.join(", "))
    }
}

impl Session {
    /// Makes the calls, then runs the statement over what they gave.
    pub(in crate::session) async fn calls_buffered(
        &mut self,
        plan: &CallsPlan,
        parameters: &[Datum],
        attempts: usize,
    ) -> SqlResult<Written> {
        if self.open().parts.is_some() {
            return Err(SqlError::unsupported("a function in PL/pgSQL in a WITH that writes")
                .hint("Call it in a statement of its own."));
        }
        let mut values = parameters.to_vec();
        values.resize(plan.given, Datum::Null);
        // What each of them gave stays until the statement is over, not only what the last one gave.
        let (mut tables, mut held) = (plan.rows.clone(), Vec::new());
        for call in &plan.calls {
            let arguments = match &call.arguments {
                Some(arguments) => self.arguments(arguments, &values).await?,
                None => Vec::new(),
            };
            let returned = self.call_routine(&call.routine, arguments).await?;
            held.extend(self.release_read());
            match &call.table {
                Some(table) => {
                    let number = |nth: usize| call.is_numbered.then_some(Datum::Int(nth as i64 + 1));
                    let numbered = |(nth, mut row): (usize, Vec<Datum>)| {
                        row.extend(number(nth));
                        Arc::new(row)
                    };
                    let rows: Vec<_> = returned.rows.into_iter().enumerate().map(numbered).collect();
                    tables.push((table.id, rows));
                }
                None => {
                    let row = returned.rows.into_iter().next().unwrap_or_default();
                    values.push(row.into_iter().next().unwrap_or_default());
                }
            }
        }
        let Some(main) = &plan.main else { return Ok(Written::default()) };
        if let Some(items) = &plan.per_row {
            let asked = Box::pin(self.part_buffered(main, parameters, attempts)).await?;
            let returned = self.called_per_row(items, asked.returned).await?;
            return Ok(Written { affected: returned.len() as u64, returned, ..Written::default() });
        }
        if tables.is_empty() {
            return Box::pin(self.part_buffered(main, &values, attempts)).await;
        }
        self.open().begin_parts(plan.catalog.clone());
        for (table, rows) in tables {
            self.open().keep_part(table, rows);
        }
        let written = Box::pin(self.part_buffered(main, &values, attempts)).await;
        self.open().end_parts();
        written
    }

    async fn arguments(&mut self, plan: &Plan, values: &[Datum]) -> SqlResult<Vec<Datum>> {
        let written = Box::pin(self.part_buffered(plan, values, 0)).await?;
        written.returned.into_iter().next().ok_or_else(|| SqlError::internal("arguments are one row"))
    }
}
