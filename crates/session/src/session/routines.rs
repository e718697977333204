//! Functions and procedures that are more than one SELECT: called alone, they run in the session.
//!
//! Every statement of a body is planned when the call is, over the arguments as its parameters, and they run one after
//! the other in the open transaction, or in one of their own. KEEPS: a call is answered when all its statements have run,
//! and what one of them wrote the next one reads.

use super::Session;
use super::plan::{Plan, Planner, RoutinePlan, lookup_of, names_of};
use super::rich::select_of;
use super::write::Written;
use crate::response::Response;
use analytics::Context;
use base::error::{SqlError, SqlResult};
use base::roles::Object;
use base::routines::{Language, ResultOf, Routine, TypeOf};
use base::{DataType, Datum};
use sql::lower::scope::ParameterTypes;
use sql::names;
use sql::privileges::Check;
use sql::routines::listed::with_listed_columns;
use sql::routines::resolve::{Resolved, Types, resolve, unfit};
use sql::routines::scopes::Scopes;
use sql::routines::{body, expand, polymorphic};
use sql::types::Column;
use sqlparser::ast::{
    self, Expr, FunctionArg, FunctionArguments, SelectItem, SetExpr, Statement, TableFactor,
};
use std::cell::Cell;
use std::sync::Arc;

/// Object id of type void.
const VOID_OID: u32 = 2278;

/// Functions that call functions that call functions, each planned within the other.
const DEPTH_MAX: usize = 16;

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// A statement that is a call.
struct Called {
    resolved: Resolved,
    /// What the one column is called; `None`: it stands in FROM, or behind CALL.
    item: Option<String>,
    alias: Option<ast::TableAlias>,
}

impl RoutinePlan {
    /// The plan of a statement that is nothing but a call of a function which no query can contain; `None` for any other.
    /// Errors: those of its statements, 54001 for functions that call themselves.
    pub fn of(
        context: &Context<'_>,
        check: &Check<'_>,
        statement: &Statement,
        parameters: &mut ParameterTypes,
        plan: Planner,
    ) -> SqlResult<Option<RoutinePlan>> {
        if context.catalog.routines.0.is_empty() {
            return Ok(None);
        }
        let Some(called) = called(context, statement, parameters)? else { return Ok(None) };
        let routine = called.resolved.routine.clone();
        let is_call = matches!(statement, Statement::Call(_));
        if is_call != routine.is_procedure() || routine.language != Language::Sql {
            return Ok(None);
        }
        let lookup = lookup_of(context);
        if routine.result == ResultOf::Trigger || routine.aggregate().is_some() {
            return Ok(None);
        }
        if !matches!(routine.result, ResultOf::Void | ResultOf::Procedure)
            && !routine.is_definer
            && let Some(query) = expand::single_query(lookup, &routine)?
        {
            // Rows come in the order of the body where nothing stands around the call.
            let is_ordered = routine.is_set() && query.order_by.is_some();
            return match is_ordered {
                true => Ok(RoutinePlan::of_call(context, check, &called, parameters, plan).ok()),
                false => Ok(None),
            };
        }
        RoutinePlan::of_call(context, check, &called, parameters, plan).map(Some)
    }

    fn of_call(
        context: &Context<'_>,
        check: &Check<'_>,
        called: &Called,
        parameters: &mut ParameterTypes,
        plan: Planner,
    ) -> SqlResult<RoutinePlan> {
        let routine = called.resolved.routine.clone();
        let lookup = lookup_of(context);
        let _deeper = Deeper::enter(&routine)?;
        expand::permit(check, &routine)?;
        let Resolved { routine, arguments: given } = &called.resolved;
        let routine = settled(context, routine.clone(), given, parameters, plan)?;
        let arguments = match arguments_of(check, &routine, given)? {
            Some(query) => Some(Box::new(plan(context, &query, parameters)?)),
            None => None,
        };
        let types = ParameterTypes(routine.types().map(|of| Some(of.data_type)).collect());
        let mut all = body::statements(lookup.catalog, lookup.search_path, lookup.database, &routine)?;
        body::refuse_others(&all)?;
        body::put_types(&mut all, &routine)?;
        // What it does is held against the privileges of its owner if it is SECURITY DEFINER.
        let owner = routine.is_definer.then(|| context.as_owner_of(&Object::Relation(routine.id)));
        let own = owner.as_ref().unwrap_or(context);
        let own_check = names_of(own);
        let mut statements = Vec::with_capacity(all.len());
        for statement in &all {
            own_check.statement(statement)?;
            statements.push(plan(own, statement, &mut types.clone())?);
        }
        let word = statements.iter().find_map(Plan::verb);
        let result = expand::columns(context.catalog, &routine);
        let columns = columns(&routine, called, &result)?;
        let result = result.into_iter().map(|(_, of)| of).collect();
        Ok(RoutinePlan { routine, arguments, statements, result, columns, word })
    }

    pub fn tag(&self) -> &'static str {
        if self.routine.is_procedure() { "CALL" } else { "SELECT" }
    }
}

/// One more function within others.
struct Deeper;

impl Deeper {
    fn enter(routine: &Routine) -> SqlResult<Deeper> {
        if DEPTH.get() >= DEPTH_MAX {
            let told = format!("Function {} is called too often, or calls itself.", routine.name);
            return Err(sql::parse::too_deep().detail(told));
        }
        DEPTH.set(DEPTH.get() + 1);
        Ok(Deeper)
    }
}

impl Drop for Deeper {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// The call that a statement is: `SELECT f(…)`, `SELECT * FROM f(…)`, `CALL p(…)`.
fn called(
    context: &Context<'_>,
    statement: &Statement,
    parameters: &ParameterTypes,
) -> SqlResult<Option<Called>> {
    let nothing = Scopes::default();
    let types = Types { lookup: lookup_of(context), scopes: &nothing, parameters, is_body: false };
    let found = |name: &ast::ObjectName, arguments: &[FunctionArg]| resolve(types, name, arguments);
    let query = match statement {
        Statement::Call(function) => {
            let none = Vec::new();
            let arguments = match &function.args {
                FunctionArguments::List(list) => &list.args,
                _ => &none,
            };
            let resolved = found(&function.name, arguments)?;
            if resolved.is_none()
                && let Some(mut error) = unfit(types, &function.name, arguments)
            {
                error.message = error.message.replacen("function", "procedure", 1);
                return Err(error);
            }
            if let Some(resolved) = resolved.as_ref().filter(|resolved| !resolved.routine.is_procedure()) {
                let shown = sql::routines::spaced_signature(context.catalog, &resolved.routine);
                return Err(SqlError::new(base::SqlState(*b"42809"), format!("{shown} is not a procedure"))
                    .hint("To call a function, use SELECT."));
            }
            return Ok(resolved.map(|resolved| Called { resolved, item: None, alias: None }));
        }
        Statement::Query(query) => query,
        _ => return Ok(None),
    };
    let SetExpr::Select(select) = query.body.as_ref() else { return Ok(None) };
    let ([item], true) = (select.projection.as_slice(), is_bare(query, select)) else { return Ok(None) };
    match (item, select.from.as_slice()) {
        (SelectItem::UnnamedExpr(Expr::Function(function)), [])
        | (SelectItem::ExprWithAlias { expr: Expr::Function(function), .. }, []) => {
            let FunctionArguments::List(list) = &function.args else { return Ok(None) };
            let Some(resolved) = found(&function.name, &list.args)? else { return Ok(None) };
            let item = match item {
                SelectItem::ExprWithAlias { alias, .. } => names::fold(alias),
                _ => resolved.routine.name.clone(),
            };
            Ok(Some(Called { resolved, item: Some(item), alias: None }))
        }
        (SelectItem::Wildcard(_), [from]) if from.joins.is_empty() => {
            let (name, arguments, alias) = match &from.relation {
                TableFactor::Table { name, args: Some(args), alias, with_ordinality: false, .. } => {
                    (name, &args.args, alias)
                }
                TableFactor::Function { name, args, alias, with_ordinality: false, .. } => {
                    (name, args, alias)
                }
                _ => return Ok(None),
            };
            let Some(mut resolved) = found(name, arguments)? else { return Ok(None) };
            let mut alias = alias.clone();
            resolved.routine = with_listed_columns(&resolved.routine, alias.as_mut(), false)?;
            Ok(Some(Called { resolved, item: None, alias }))
        }
        _ => Ok(None),
    }
}

/// Whether a query is a list and what is in FROM, and nothing else.
fn is_bare(query: &ast::Query, select: &ast::Select) -> bool {
    query.with.is_none()
        && query.order_by.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none()
        && query.locks.is_empty()
        && select.into.is_none()
        && select.selection.is_none()
        && select.having.is_none()
        && select.distinct.is_none()
        && matches!(&select.group_by, ast::GroupByExpr::Expressions(by, _) if by.is_empty())
}

/// A query of one row, which is the arguments.
fn arguments_of(check: &Check<'_>, routine: &Routine, given: &[Expr]) -> SqlResult<Option<Statement>> {
    let parameters = &routine.parameters;
    if parameters.is_empty() {
        return Ok(None);
    }
    let mut items = Vec::with_capacity(parameters.len());
    for (nth, (e, parameter)) in given.iter().zip(parameters).enumerate() {
        let value = expand::cast(check.catalog, e.clone(), parameter.of)?;
        items.push(format!("{value} AS argument{}", nth + 1));
    }
    Ok(sql::parse::parse(&format!("SELECT {}", items.join(", ")))?.pop())
}

/// The routine with types that planning its arguments decides. Errors: those of planning and of [`polymorphic::settled`].
pub(super) fn settled(
    context: &Context<'_>,
    routine: Arc<Routine>,
    arguments: &[Expr],
    parameters: &ParameterTypes,
    plan: Planner,
) -> SqlResult<Arc<Routine>> {
    if !polymorphic::is_open(&routine) {
        return Ok(routine);
    }
    let planned = plan(context, &select_of(arguments.to_vec())?, &mut parameters.clone())?;
    let columns = planned.columns().ok_or_else(|| SqlError::internal("a query has columns"))?;
    let types: Vec<DataType> = columns.iter().map(|column| column.data_type).collect();
    polymorphic::settled_by_types(&routine, arguments, &types)
}

/// The columns of the answer.
fn columns(
    routine: &Routine,
    called: &Called,
    result: &[(String, TypeOf)],
) -> SqlResult<Option<Arc<Vec<Column>>>> {
    if routine.is_procedure() {
        return Ok(None);
    }
    let is_scalar = matches!(routine.result, ResultOf::One(_) | ResultOf::SetOf(_) | ResultOf::Void);
    if !is_scalar && called.item.is_some() {
        return Err(SqlError::unsupported("a row as a value")
            .hint(format!("Write SELECT * FROM {}(…).", routine.name)));
    }
    let mut columns: Vec<Column> =
        result.iter().map(|(name, of)| Column::new(name.clone(), of.data_type)).collect();
    if routine.result == ResultOf::Void {
        columns = vec![Column { type_oid: VOID_OID, ..Column::new(routine.name.clone(), DataType::Text) }];
    }
    if let (Some(item), [column]) = (&called.item, columns.as_mut_slice()) {
        column.name.clone_from(item);
    }
    if let Some(alias) = &called.alias {
        let takes_alias = is_scalar && routine.output_name().is_none();
        if let ([column], true) = (columns.as_mut_slice(), takes_alias) {
            column.name = names::fold(&alias.name);
        }
        for (column, given) in columns.iter_mut().zip(&alias.columns) {
            column.name = names::fold(&given.name);
        }
    }
    Ok(Some(Arc::new(columns)))
}

impl Session {
    /// Runs the statements of a body in the open transaction, as the owner of a function that is SECURITY DEFINER.
    pub(super) async fn routine_buffered(
        &mut self,
        plan: &RoutinePlan,
        parameters: &[Datum],
    ) -> SqlResult<Written> {
        let arguments = match &plan.arguments {
            Some(query) => self.rows_of_plan(query, parameters).await?.pop().unwrap_or_default(),
            None => Vec::new(),
        };
        let mut rows = Vec::new();
        let is_null = plan.routine.is_strict && arguments.iter().any(Datum::is_null);
        let acting = self.acting_for(&plan.routine);
        for statement in plan.statements.iter().filter(|_| !is_null) {
            rows = acting.session.rows_of_plan(statement, &arguments).await?;
        }
        drop(acting);
        let from: Vec<DataType> = match plan.statements.last().and_then(Plan::columns) {
            Some(columns) => columns.iter().map(|column| column.data_type).collect(),
            None => Vec::new(),
        };
        let returned = match &plan.routine.result {
            ResultOf::Procedure | ResultOf::Trigger => Vec::new(),
            ResultOf::Void => vec![vec![if is_null { Datum::Null } else { Datum::text("") }]],
            ResultOf::One(_) | ResultOf::RowOf(_) | ResultOf::Record(_) => {
                let nulls = || vec![Datum::Null; plan.result.len()];
                vec![rows.into_iter().next().unwrap_or_else(nulls)]
            }
            _ => rows,
        };
        let returned = match plan.result.is_empty() {
            true => returned,
            false => {
                let typed = returned.into_iter().map(|row| self.typed_row(row, &from, &plan.result));
                typed.collect::<SqlResult<Vec<_>>>()?
            }
        };
        Ok(Written { affected: returned.len() as u64, returned, ..Written::default() })
    }

    /// A row as one of the declared types.
    fn typed_row(&self, row: Vec<Datum>, from: &[DataType], to: &[TypeOf]) -> SqlResult<Vec<Datum>> {
        let mut typed = Vec::with_capacity(row.len());
        for (nth, (value, to)) in row.into_iter().zip(to).enumerate() {
            let from = from.get(nth).copied().unwrap_or(to.data_type);
            let value =
                if from == to.data_type { value } else { base::convert::cast(value, from, to.data_type)? };
            if let Some(domain) = to.domain.and_then(|id| self.known.types.domains.get(&id)) {
                domain.check(&value)?;
            }
            typed.push(value);
        }
        Ok(typed)
    }

    async fn rows_of_plan(&mut self, plan: &Plan, parameters: &[Datum]) -> SqlResult<Vec<Vec<Datum>>> {
        match Box::pin(self.run_plan(plan, parameters)).await? {
            Response::Rows(mut rows) => self.collected(&mut rows.stream).await,
            _ => Ok(Vec::new()),
        }
    }
}
