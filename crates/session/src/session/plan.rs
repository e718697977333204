//! What a statement will do, decided once per catalog version.

use super::computed::Computations;
use super::locked_joins::LockedJoinPlan;
use super::merge::MergePlan;
use super::own_calls;
use super::own_functions::{self, OwnFunctionsPlan};
use super::programs::{self, CallsPlan, Compiled};
use super::rich::RichPlan;
use super::routines::RoutinePlan;
use super::sequences::{SETVAL, SetValuePlan};
use super::set_config::{SET_CONFIG, SetConfigPlan};
use super::waits::{WAIT_FOR, WaitForPlan};
use super::with::WithPlan;
use analytics::{Context, QueryPlan};
use base::error::{SqlResult, SqlState};
use base::expr::Expr;
use base::txn::procedure::Procedure;
use base::{DataType, SqlError};
use sql::lower::insert::{InsertPlan, Source};
use sql::lower::join::RowJoinPlan;
use sql::lower::modify::ModifyPlan;
use sql::lower::scope::{ParameterTypes, Scope};
use sql::lower::select::RowSelectPlan;
use sql::lower::{Lowering, Projection, Refusal, bind};
use sql::names;
use sql::types::Column;
use sql::views::Expanded;
use sql::walk;
use sqlparser::ast::{self, Statement};
use std::ops::ControlFlow;
use std::sync::Arc;

/// What a statement will do.
pub enum Plan {
    /// With queries for the values that nodes cannot compute.
    Insert(InsertPlan, Computations),
    Modify(ModifyPlan),
    /// SELECT without FROM.
    Constant(Projection),
    /// SELECT of `set_config` alone.
    SetConfig(SetConfigPlan),
    /// SELECT of `setval` alone.
    SetValue(SetValuePlan),
    /// SELECT with functions that lock or sleep among its columns.
    OwnFunctions(OwnFunctionsPlan),
    /// `WAIT FOR LSN`.
    WaitFor(WaitForPlan),
    /// Few rows by key, or rows to be validated (FOR UPDATE).
    Rows(RowSelectPlan),
    /// Few rows of one table by key, and by them rows of another.
    Join(RowJoinPlan),
    /// Anything else that returns rows.
    Query(Arc<QueryPlan>),
    /// UPDATE and DELETE that need the analytical planner to find their rows and values.
    Rich(Box<RichPlan>),
    Merge(Box<MergePlan>),
    /// FOR UPDATE of joins.
    LockedJoin(Box<LockedJoinPlan>),
    /// Statements in one WITH that write, or lock rows.
    With(Box<WithPlan>),
    /// INSERT and UPDATE through views WITH CHECK OPTION.
    Checked(CheckedPlan),
    Call(CallPlan),
    /// Statements that call functions in PL/pgSQL, and procedures in it.
    Calls(Box<CallsPlan>),
    Do(Arc<Compiled>),
    /// A call of a function that is more than one SELECT.
    Routine(Box<RoutinePlan>),
    /// Statements about the session, the catalog, or other statements.
    Utility(Statement),
}

/// `CALL name(…)`.
pub struct CallPlan {
    pub procedure: Arc<dyn Procedure>,
    pub arguments: Vec<(Expr, DataType)>,
    pub columns: Arc<Vec<Column>>,
}

/// A write through views that check.
pub struct CheckedPlan {
    pub write: Box<Plan>,
    /// The last columns that the write returns are about them.
    pub views: Vec<String>,
    /// What the statement itself returns.
    pub columns: Option<Arc<Vec<Column>>>,
}

impl CheckedPlan {
    pub(super) fn new(write: Plan, views: Vec<String>, returns: bool) -> SqlResult<CheckedPlan> {
        let all =
            write.columns().ok_or_else(|| SqlError::internal("a write that tells whether it may be"))?;
        let own = all.len().checked_sub(views.len()).ok_or_else(|| SqlError::internal("a column a view"))?;
        let columns = returns.then(|| Arc::new(all[..own].to_vec()));
        Ok(CheckedPlan { write: Box::new(write), views, columns })
    }
}

impl Plan {
    /// Whether it changes rows of tables or locks them.
    pub fn writes_or_locks(&self) -> bool {
        match self {
            Plan::Rows(plan) => plan.is_locking,
            Plan::Insert(..)
            | Plan::Modify(_)
            | Plan::Rich(_)
            | Plan::Merge(_)
            | Plan::LockedJoin(_)
            | Plan::With(_)
            | Plan::Checked(_)
            | Plan::Routine(_)
            | Plan::Calls(_) => true,
            _ => false,
        }
    }

    /// The verb of a plan that writes.
    pub(super) fn verb(&self) -> Option<&'static str> {
        match self {
            Plan::Insert(..) => Some("INSERT"),
            Plan::Modify(plan) if plan.set.is_some() => Some("UPDATE"),
            Plan::Modify(_) => Some("DELETE"),
            Plan::Rich(plan) => Some(plan.word),
            Plan::Merge(_) => Some("MERGE"),
            Plan::With(plan) => plan.word,
            Plan::Checked(plan) => plan.write.verb(),
            Plan::Routine(plan) => plan.word,
            Plan::Calls(plan) => plan.word,
            _ => None,
        }
    }

    /// Columns of the rows it returns.
    pub fn columns(&self) -> Option<Arc<Vec<Column>>> {
        match self {
            Plan::Insert(plan, _) => plan.returning.as_ref().map(|r| r.columns.clone()),
            Plan::Modify(plan) => plan.returning.as_ref().map(|r| r.columns.clone()),
            Plan::Constant(projection) => Some(projection.columns.clone()),
            Plan::SetConfig(plan) => Some(plan.columns.clone()),
            Plan::SetValue(plan) => Some(plan.columns.clone()),
            Plan::OwnFunctions(plan) => Some(plan.columns.clone()),
            Plan::WaitFor(plan) => Some(plan.columns.clone()),
            Plan::Rows(plan) => Some(plan.output.projection.columns.clone()),
            Plan::Join(plan) => Some(plan.output.projection.columns.clone()),
            Plan::Query(plan) => Some(plan.columns.clone()),
            Plan::Call(plan) => (!plan.columns.is_empty()).then(|| plan.columns.clone()),
            Plan::Utility(statement) => super::shapes::columns(statement),
            Plan::Rich(plan) => plan.returning().map(|r| r.columns.clone()),
            Plan::Merge(_) => None,
            Plan::With(plan) => plan.columns.clone(),
            Plan::Calls(plan) => plan.columns.clone(),
            Plan::Do(_) => None,
            Plan::Routine(plan) => plan.columns.clone(),
            Plan::Checked(plan) => plan.columns.clone(),
            Plan::LockedJoin(plan) => Some(plan.columns.clone()),
        }
    }
}

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
    let check = names_of(context);
    check.statement(statement)?;
    plan_permitted(context, statement, parameters)
}

/// Plans a statement whose privileges were asked for.
pub(super) fn plan_permitted(
    context: &Context<'_>,
    statement: &Statement,
    parameters: &mut ParameterTypes,
) -> SqlResult<Plan> {
    if let Statement::Query(query) = statement
        && sql::with::has_parts(query)
    {
        return WithPlan::new(context, query, parameters).map(|plan| Plan::With(Box::new(plan)));
    }
    if let Some(plan) = programs::plan_calls(context, statement, parameters)? {
        return Ok(plan);
    }
    let planner =
        |statement: &Statement, types: &mut ParameterTypes| plan_permitted(context, statement, types);
    if let Some(plan) = RoutinePlan::of(context, &names_of(context), statement, parameters, &planner)? {
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
        let called = sql::routines::expand::expand(&check, parameters, now)?;
        let called = called.map(|called| {
            missing = missing.take().or(called.missing);
            called.statement
        });
        let now = called.as_ref().unwrap_or(now);
        match sql::views::expand(&check, &context.analytics.node.generators, now)? {
            Some(more) => {
                let known = all.get_or_insert_with(|| Expanded::of(statement.clone()));
                known.statement = more.statement;
                known.tables.extend(more.tables);
                known.checked.extend(more.checked);
            }
            None => {
                if let Some(called) = called {
                    all.get_or_insert_with(|| Expanded::of(statement.clone())).statement = called;
                }
                return Ok((all, missing));
            }
        }
    }
    Err(sql::parse::too_deep())
}

/// Views that call functions that read views.
const EXPANSIONS_MAX: usize = 32;

/// What names and privileges are held against.
pub(super) fn names_of<'a>(context: &'a Context<'_>) -> sql::privileges::Check<'a> {
    sql::privileges::Check {
        catalog: context.catalog,
        search_path: context.search_path,
        database: context.database,
        standing: &context.standing,
    }
}

/// Plans a statement without views whose privileges were asked for.
fn plan_over_tables(
    context: &Context<'_>,
    statement: &Statement,
    parameters: &mut ParameterTypes,
) -> SqlResult<Plan> {
    sql::materialized::check(&names_of(context), statement)?;
    if let Statement::Call(function) = statement
        && let Some(plan) = programs::plan_call(context, function, parameters)?
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

/// Whether a query is `SELECT … INTO t`.
pub(super) fn is_select_into(query: &ast::Query) -> bool {
    matches!(query.body.as_ref(), ast::SetExpr::Select(select) if select.into.is_some())
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
