//! Planning: which kind of plan a statement gets.

use super::{
    CallPlan, CheckedPlan, Plan, RoutinePlan, SetValuePlan, WithPlan, is_select_into, lookup_of, names_of,
};
use crate::session::computed::Computations;
use crate::session::locked_joins::LockedJoinPlan;
use crate::session::merge::MergePlan;
use crate::session::programs::{plan_call_or_do, plan_calls};
use crate::session::rich::RichPlan;
use crate::session::sequences::SETVAL;
use crate::session::set_config::{SET_CONFIG, SetConfigPlan};
use crate::session::waits::{WAIT_FOR, WaitForPlan};
use crate::session::{own_calls, own_functions};
use analytics::Context;
use base::SqlError;
use base::error::{SqlResult, SqlState};
use sql::lower::insert::{InsertPlan, Source};
use sql::lower::scope::{ParameterTypes, Scope};
use sql::lower::{Lowering, Refusal, bind};
use sql::names;
use sql::types::Column;
use sql::views::Expanded;
use sql::walk;
use sqlparser::ast::{self, Statement};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Plans a statement; types of parameters are found on the way. Errors: among others 42501. A plan is kept for one
/// version of the catalog and of the session's role, so every change of privileges asks again.
pub fn plan(
    context: &Context<'_>,
    statement: &Statement,
    parameters: &mut ParameterTypes,
) -> SqlResult<Plan> {
    sql::user_types::within(context.catalog, context.search_path, || {
        sql::zones::within(context.zone, || plan_in_zone(context, statement, parameters))
    })
}

fn plan_in_zone(
    context: &Context<'_>,
    statement: &Statement,
    parameters: &mut ParameterTypes,
) -> SqlResult<Plan> {
    if let Some(change) = sql::parse::with_condition(statement, None) {
        // Which row its cursor stands on is known when it runs.
        return plan_in_zone(context, &change, parameters).map(|_| Plan::Utility(statement.clone()));
    }
    let check = names_of(context);
    if let Some(written) = sql::routines::rows_from::written_out(lookup_of(context), statement)? {
        return plan_in_zone(context, &written, parameters);
    }
    check.statement(statement)?;
    plan_permitted(context, statement, parameters)
}

/// Plans a statement whose privileges were asked for.
fn plan_permitted(
    context: &Context<'_>,
    statement: &Statement,
    parameters: &mut ParameterTypes,
) -> SqlResult<Plan> {
    if let Statement::Query(query) = statement
        && sql::with::has_parts(query)
    {
        return WithPlan::new(context, query, parameters, plan_permitted)
            .map(|plan| Plan::With(Box::new(plan)));
    }
    if let Some(plan) = plan_calls(context, statement, parameters, plan_permitted)? {
        return Ok(plan);
    }
    if let Some(plan) = RoutinePlan::of(context, &names_of(context), statement, parameters, plan_permitted)? {
        return Ok(Plan::Routine(Box::new(plan)));
    }
    let statement = &*sql::with::unwrapped(statement);
    // What another statement is about, such as CREATE VIEW and CREATE TABLE AS, is planned when that runs.
    let is_planned = match statement {
        Statement::Query(query) => !is_select_into(query),
        other => {
            matches!(
                other,
                Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_) | Statement::Merge(_)
            )
        }
    };
    if is_planned && let (Some(expanded), missing) = expanded(context, statement, parameters)? {
        let context = context.through_views(expanded.tables);
        let plan = plan_over_tables(&context, &expanded.statement, parameters);
        let plan = plan.map_err(|error| match missing {
            Some(missing) if error.state == SqlState::UNDEFINED_FUNCTION => missing,
            _ => error,
        })?;
        if expanded.checked.is_empty() {
            return Ok(plan);
        }
        let returns = match statement {
            Statement::Insert(insert) => insert.returning.is_some(),
            Statement::Update(update) => update.returning.is_some(),
            _ => false,
        };
        return CheckedPlan::new(plan, expanded.checked, returns).map(Plan::Checked);
    }
    plan_over_tables(context, statement, parameters)
}

/// A statement without views and without functions of users; `None` if it has neither. The text of a view may call functions,
/// and a function's may read views.
fn expanded(
    context: &Context<'_>,
    statement: &Statement,
    parameters: &ParameterTypes,
) -> SqlResult<(Option<Expanded>, Option<SqlError>)> {
    let check = names_of(context);
    let (mut all, mut missing): (Option<Expanded>, Option<SqlError>) = (None, None);
    for _ in 0..EXPANSIONS_MAX {
        let now = all.as_ref().map_or(statement, |all| &all.statement);
        let written = sql::routines::rows_from::written_out(lookup_of(context), now)?;
        let now = written.as_ref().unwrap_or(now);
        let called = sql::routines::expand::expand(&check, parameters, now)?;
        let mut tables = BTreeSet::new();
        let called = called.map(|called| {
            missing = missing.take().or(called.missing);
            tables = called.tables;
            called.statement
        });
        let called = called.or_else(|| written.clone());
        let now = called.as_ref().unwrap_or(now);
        match sql::views::expand(&check, &context.analytics.node.generators, now)? {
            Some(more) => {
                let known = all.get_or_insert_with(|| Expanded::of(statement.clone()));
                known.statement = more.statement;
                known.tables.extend(more.tables);
                known.tables.extend(tables);
                known.checked.extend(more.checked);
            }
            None => {
                if let Some(called) = called {
                    let known = all.get_or_insert_with(|| Expanded::of(statement.clone()));
                    known.statement = called;
                    known.tables.extend(tables);
                }
                return Ok((all, missing));
            }
        }
    }
    Err(sql::parse::too_deep())
}

/// Views that call functions that read views.
const EXPANSIONS_MAX: usize = 32;

/// Plans a statement without views whose privileges were asked for.
fn plan_over_tables(
    context: &Context<'_>,
    statement: &Statement,
    parameters: &mut ParameterTypes,
) -> SqlResult<Plan> {
    sql::materialized::check(&names_of(context), statement)?;
    if let Statement::Call(function) = statement
        && let Some(plan) = plan_call_or_do(context, function, parameters, plan_permitted)?
    {
        return Ok(plan);
    }
    let topology = context.cluster().topology().clone();
    let mut lowering = Lowering {
        catalog: context.catalog,
        search_path: context.search_path,
        database: context.database,
        parameters,
    };
    if let Statement::Query(query) = statement
        && let Some((Some(with), change)) = sql::with::change_of(query)
    {
        sql::with::refuse_target(with, change)?;
        return plan_change(context, change, Some(with), parameters);
    }
    match statement {
        Statement::Query(query) if is_select_into(query) => Ok(Plan::Utility(statement.clone())),
        Statement::Query(query) => plan_query(context, statement, query, parameters),
        Statement::Insert(insert) => {
            let plan = lowering.insert(insert).map_err(|r| too_rich(r, "this form of INSERT"))?;
            find_source_parameters(context, &plan, parameters)?;
            let computations = Computations::of(context, &plan, insert, parameters)?;
            Ok(Plan::Insert(plan, computations))
        }
        Statement::Update(_) | Statement::Delete(_) => {
            let declared = lowering.parameters.clone();
            let lowered = match statement {
                Statement::Update(update) => lowering.update(update, &topology),
                Statement::Delete(delete) => lowering.delete(delete, &topology),
                _ => Err(Refusal::TooRich),
            };
            match lowered {
                Ok(plan) => Ok(Plan::Modify(plan)),
                Err(Refusal::Error(error)) => Err(error),
                Err(Refusal::TooRich) => {
                    *parameters = declared;
                    plan_change(context, statement, None, parameters)
                }
            }
        }
        Statement::Merge(_) => plan_change(context, statement, None, parameters),
        Statement::Call(function) => plan_call(context, &mut lowering, function).map(Plan::Call),
        other => Ok(Plan::Utility(other.clone())),
    }
}

/// Types of the parameters in a query whose rows are inserted: one that is a column takes the type of where it goes.
fn find_source_parameters(
    context: &Context<'_>,
    plan: &InsertPlan,
    parameters: &mut ParameterTypes,
) -> SqlResult<()> {
    let Source::Query(query, targets) = &plan.source else { return Ok(()) };
    let named = |e: &ast::Expr| match e {
        ast::Expr::Value(value) => match &value.value {
            ast::Value::Placeholder(name) => sql::lower::expr::placeholder(name).ok(),
            _ => None,
        },
        _ => None,
    };
    let has_some = walk::expressions(query, |e| match named(e) {
        Some(_) => ControlFlow::Break(()),
        None => ControlFlow::Continue(()),
    });
    if has_some.is_continue() {
        return Ok(());
    }
    if let ast::SetExpr::Select(select) = query.body.as_ref() {
        for (item, target) in select.projection.iter().zip(targets) {
            if let ast::SelectItem::UnnamedExpr(e) = item
                && let Some(n) = named(e)
            {
                parameters.found(n, plan.table.columns[*target].data_type);
            }
        }
    }
    plan_query(context, &Statement::Query(query.clone()), query, parameters).map(|_| ())
}

/// Plans a change whose rows a query finds.
fn plan_change(
    context: &Context<'_>,
    statement: &Statement,
    with: Option<&ast::With>,
    parameters: &mut ParameterTypes,
) -> SqlResult<Plan> {
    match statement {
        Statement::Merge(merge) => {
            MergePlan::new(context, merge, with, parameters).map(|plan| Plan::Merge(Box::new(plan)))
        }
        _ => RichPlan::new(context, statement, with, parameters).map(|plan| Plan::Rich(Box::new(plan))),
    }
}

fn plan_query(
    context: &Context<'_>,
    statement: &Statement,
    query: &ast::Query,
    parameters: &mut ParameterTypes,
) -> SqlResult<Plan> {
    if let ast::SetExpr::Select(select) = query.body.as_ref() {
        analytics::check_columns(select)?;
    }
    analytics::check_row_locks(query, context.analytics)?;
    let declared = parameters.clone();
    let mut lowering = Lowering {
        catalog: context.catalog,
        search_path: context.search_path,
        database: context.database,
        parameters,
    };
    if let Some((arguments, names)) = own_calls::arguments(query, &SETVAL) {
        let asked = Statement::Query(Box::new(arguments));
        let Statement::Query(arguments) = &asked else { return Err(SqlError::internal("it is a query")) };
        let arguments = plan_query(context, &asked, arguments, parameters)?;
        return Ok(Plan::SetValue(SetValuePlan::new(arguments, names)));
    }
    if let Some(asked) = own_functions::asked(query)? {
        let statement = Statement::Query(Box::new(asked.query.clone()));
        let arguments = plan_query(context, &statement, &asked.query, parameters)?;
        return Ok(Plan::OwnFunctions(asked.plan(arguments)?));
    }
    if let Some((arguments, names)) = own_calls::arguments(query, &SET_CONFIG) {
        return match lowering.constants(&arguments) {
            Ok(projection) => Ok(Plan::SetConfig(SetConfigPlan::new(projection, names))),
            Err(Refusal::Error(error)) => Err(error),
            Err(Refusal::TooRich) => {
                Err(SqlError::unsupported("set_config with values that are not constants"))
            }
        };
    }
    if let Some((arguments, names)) = own_calls::arguments(query, &WAIT_FOR) {
        return match lowering.constants(&arguments) {
            Ok(projection) => Ok(Plan::WaitFor(WaitForPlan::new(projection, names))),
            Err(Refusal::Error(error)) => Err(error),
            Err(Refusal::TooRich) => Err(SqlError::unsupported("WAIT FOR a position that is not a constant")),
        };
    }
    match lowering.constants(query) {
        Ok(projection) => return Ok(Plan::Constant(projection)),
        Err(Refusal::TooRich) => *lowering.parameters = declared.clone(),
        Err(Refusal::Error(error)) => return Err(error),
    }
    let locks = !query.locks.is_empty();
    match lowering.row_select(query) {
        Ok(plan) if plan.is_locking => return Ok(Plan::Rows(plan)),
        Ok(plan) if plan.is_narrow && !context.prefers_columns(&[&plan.table]) => {
            return Ok(Plan::Rows(plan));
        }
        Ok(_) if locks => {
            return Err(SqlError::unsupported("FOR UPDATE of anything but rows of one table"));
        }
        Ok(_) => {}
        Err(Refusal::TooRich) if locks => {
            *parameters = declared;
            return LockedJoinPlan::new(context, query, parameters)
                .map(|plan| Plan::LockedJoin(Box::new(plan)));
        }
        Err(Refusal::TooRich) => {
            *lowering.parameters = declared.clone();
            match lowering.row_join(query) {
                Ok(plan) if !context.prefers_columns(&[&plan.outer, &plan.inner]) => {
                    return Ok(Plan::Join(plan));
                }
                // What is wrong with a join is better said by who plans all joins.
                _ => *parameters = declared,
            }
        }
        // Its own message is better than the analytical planner's.
        Err(Refusal::Error(error)) => return Err(error),
    }
    analytics::plan(context, statement, parameters).map(Plan::Query)
}

fn plan_call(
    context: &Context<'_>,
    lowering: &mut Lowering<'_>,
    function: &ast::Function,
) -> SqlResult<CallPlan> {
    let name = names::parts(&function.name)?.pop().expect("a name has a part");
    let procedure = context.cluster().procedures().get(&name)?.clone();
    let declared = procedure.arguments();
    let given: Vec<&ast::Expr> = match &function.args {
        ast::FunctionArguments::None => Vec::new(),
        ast::FunctionArguments::List(list) => list
            .args
            .iter()
            .map(|argument| match argument {
                ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(e)) => Ok(e),
                _ => Err(SqlError::unsupported("named arguments of CALL")),
            })
            .collect::<SqlResult<_>>()?,
        ast::FunctionArguments::Subquery(_) => return Err(SqlError::unsupported("a subquery in CALL")),
    };
    if given.len() != declared.len() {
        let types: Vec<String> = declared.iter().map(|(n, t)| format!("{n} {}", t.name())).collect();
        return Err(SqlError::new(
            SqlState::UNDEFINED_FUNCTION,
            format!("procedure {name} with {} arguments does not exist", given.len()),
        )
        .hint(format!("It is declared as {name}({}).", types.join(", "))));
    }
    let scope = Scope::default();
    let mut arguments = Vec::with_capacity(given.len());
    for (e, (argument, data_type)) in given.into_iter().zip(declared) {
        let expr = lowering
            .exprs(&scope)
            .assignment(e, argument, data_type)
            .map_err(|r| too_rich(r, "this expression as an argument of CALL"))?;
        if !bind::is_constant(&expr) {
            return Err(SqlError::unsupported("a column as an argument of CALL"));
        }
        arguments.push((expr, data_type));
    }
    let columns = procedure.columns().into_iter().map(|(n, t)| Column::new(n, t)).collect();
    Ok(CallPlan { procedure, arguments, columns: Arc::new(columns) })
}

fn too_rich(refusal: Refusal, what: &str) -> SqlError {
    refusal.or(|| SqlError::unsupported(what))
}
