//! Functions that do something rather than compute something, or that know the session: advisory locks, `pg_sleep`, `currval`,
//! `pg_notify`, `pg_terminate_backend`.
//!
//! A query may be computed more than once, or on several threads, so such a function stands in a list of columns by itself,
//! beside any other columns: `SELECT id, pg_advisory_lock(id) FROM t`. Its arguments and the other columns are what is queried; the
//! session does the rest, row by row in the order in which they come.

mod function;

pub(super) use function::OwnFunction;

use super::Session;
use super::own_calls::cast;
use super::plan::{OwnFunctionsPlan, OwnItem as Item, Plan};
use crate::notifications::Said;
use crate::response::{Response, RowStream, Rows};
use base::error::SqlResult;
use base::roles::{Object, Privileges};
use base::{Datum, SqlError, SqlState};
use sql::types::Column;
use sql::walk::{Node, Walk};
use sqlparser::ast::{self, Expr, SelectItem, SetExpr, Visitor};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// The query of the arguments and the other columns, and what becomes of them.
pub(super) struct Asked {
    pub query: ast::Query,
    items: Vec<Item>,
    names: Vec<String>,
}

impl Asked {
    pub fn plan(self, arguments: Plan) -> SqlResult<OwnFunctionsPlan> {
        let known = arguments.columns().ok_or_else(|| SqlError::internal("a query has columns"))?;
        let columns = self.items.iter().zip(self.names).map(|(item, name)| match item {
            Item::Plain(at) => Column { name, ..known[*at].clone() },
            Item::Call(function, _) => function.column(name),
        });
        let columns = Arc::new(columns.collect());
        Ok(OwnFunctionsPlan { arguments: Box::new(arguments), items: self.items, columns })
    }
}

/// What a query asks for whose list of columns calls such functions; `None`: it calls none there. Errors: 42883 for arguments that
/// none of them takes, 0A000 for a call that is part of something else.
pub(super) fn asked(query: &ast::Query) -> SqlResult<Option<Asked>> {
    let SetExpr::Select(select) = query.body.as_ref() else { return Ok(None) };
    if !select.projection.iter().any(|item| called(item).is_some()) {
        return refuse_within(query).map(|()| None);
    }
    let mut bare = select.clone();
    let (mut projection, mut items, mut names) = (Vec::new(), Vec::new(), Vec::new());
    for item in std::mem::take(&mut bare.projection) {
        // Two columns of one query need two names.
        let alias = |at: usize| ast::Ident::new(format!("argument_{at}"));
        let own = called(&item);
        let (expr, name) = match item {
            SelectItem::UnnamedExpr(expr) => {
                let name = sql::lower::output_name(&expr);
                (expr, name)
            }
            SelectItem::ExprWithAlias { expr, alias } => (expr, sql::names::fold(&alias)),
            _ => return Err(SqlError::unsupported("* beside a function that locks or sleeps")),
        };
        names.push(name);
        let Some(function) = own else {
            refuse_within(&expr)?;
            items.push(Item::Plain(projection.len()));
            projection.push(SelectItem::ExprWithAlias { expr, alias: alias(projection.len()) });
            continue;
        };
        let given = given(&expr);
        let types = function.arguments(given.len()).ok_or_else(|| no_such(&expr))?;
        let first = projection.len();
        for (argument, data_type) in given.into_iter().zip(types) {
            let expr = cast(argument, data_type).ok_or_else(|| no_such(&expr))?;
            projection.push(SelectItem::ExprWithAlias { expr, alias: alias(projection.len()) });
        }
        items.push(Item::Call(function, first..projection.len()));
    }
    if projection.is_empty() {
        // A row without values, for a function without arguments.
        let alias = ast::Ident::new("argument_0");
        projection.push(SelectItem::ExprWithAlias { expr: sql::parse::parse_expr("1")?, alias });
    }
    bare.projection = projection;
    let mut query = query.clone();
    *query.body = SetExpr::Select(bare);
    refuse_within(&query)?;
    Ok(Some(Asked { query, items, names }))
}

fn called(item: &SelectItem) -> Option<OwnFunction> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => function_of(expr),
        _ => None,
    }
}

fn function_of(expr: &Expr) -> Option<OwnFunction> {
    let Expr::Function(call) = expr else { return None };
    let name = sql::names::parts(&call.name).ok()?;
    match name.as_slice() {
        [name] => OwnFunction::named(name),
        [schema, name] if schema == "pg_catalog" => OwnFunction::named(name),
        _ => None,
    }
}

fn given(expr: &Expr) -> Vec<Expr> {
    let Expr::Function(ast::Function { args: ast::FunctionArguments::List(list), .. }) = expr else {
        return Vec::new();
    };
    let value = |argument: &ast::FunctionArg| match argument {
        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(e)) => Some(e.clone()),
        _ => None,
    };
    list.args.iter().filter_map(value).collect()
}

fn no_such(expr: &Expr) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("function {expr} does not exist")).hint(
        "No function matches the given name and argument types. You might need to add explicit type casts.",
    )
}

/// Errors: 0A000 for such a function anywhere.
fn refuse_within<T: Node>(of: &T) -> SqlResult<()> {
    struct Calls;
    impl Visitor for Calls {
        type Break = String;
        fn pre_visit_expr(&mut self, e: &Expr) -> ControlFlow<String> {
            match (function_of(e), e) {
                (Some(_), Expr::Function(call)) => ControlFlow::Break(call.name.to_string()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    match of.walk(&mut Calls) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(name) => {
            Err(SqlError::unsupported(format!("{name} anywhere but as a column of the outermost SELECT"))
                .hint("A query may be computed more than once; select the function by itself."))
        }
    }
}

impl Session {
    pub(super) async fn run_own_functions(
        &mut self,
        plan: &OwnFunctionsPlan,
        parameters: &[Datum],
    ) -> SqlResult<Response> {
        let Response::Rows(mut asked) = Box::pin(self.run(&plan.arguments, parameters)).await? else {
            return Err(SqlError::internal("a query answers rows"));
        };
        let memory = self.gateway.rows_memory("arguments of functions");
        let asked = asked.stream.collect_within(&memory).await?;
        // Nobody hears what a statement says that fails at a later row.
        let says = |item: &Item| matches!(item, Item::Call(OwnFunction::Notify, _));
        let is_own = self.transaction.is_none() && plan.items.iter().any(says);
        if is_own {
            self.begin(self.is_read_only(), true);
        }
        let mut rows = Vec::with_capacity(asked.len());
        for values in asked {
            let mut row = Vec::with_capacity(plan.items.len());
            for item in &plan.items {
                row.push(match item {
                    Item::Plain(at) => values[*at].clone(),
                    Item::Call(function, at) => self.carry_out(*function, &values[at.clone()]).await?,
                });
            }
            rows.push(row);
        }
        match is_own {
            true => self.end_implicit().await?,
            false => self.end_lone_locks().await,
        }
        let stream = RowStream::values(rows);
        Ok(Response::Rows(Rows { columns: plan.columns.clone(), stream, tag: "SELECT" }))
    }

    /// `currval`. Errors: 42P01, 42501, 55000.
    fn current_value(&self, name: &str) -> SqlResult<Datum> {
        let catalog = self.catalog();
        let sequence = sql::catalog::find_sequence(&catalog, &self.settings.search_path, name)?;
        let wanted = Privileges::SELECT | Privileges::USAGE;
        let held = catalog.roles.rights(&self.standing(), &Object::Relation(sequence.id)).held;
        if !self.standing().is_superuser && (held & wanted).is_empty() {
            return Err(sql::privileges::denied("sequence", &sequence.name));
        }
        self.given.current(sequence.id, &sequence.name).map(Datum::Int)
    }

    /// A NULL among its arguments: nothing is done, and the answer is NULL.
    async fn carry_out(&mut self, function: OwnFunction, arguments: &[Datum]) -> SqlResult<Datum> {
        if function == OwnFunction::Notify {
            return self.say(Said::called(arguments)?).map(|()| Datum::text(""));
        }
        if arguments.iter().any(Datum::is_null) {
            return Ok(Datum::Null);
        }
        let seconds = match (function, arguments) {
            (OwnFunction::Advisory(call), arguments) => return self.advise(call, arguments).await,
            (OwnFunction::CurrentValue, [Datum::Text(name)]) => return self.current_value(name),
            (OwnFunction::CancelBackend, [Datum::Int(process)]) => return self.cancel_other(*process),
            (OwnFunction::TerminateBackend, [Datum::Int(process)]) => {
                return self.terminate_other(*process, 0).await;
            }
            (OwnFunction::TerminateBackend, [Datum::Int(process), Datum::Int(patience_ms)]) => {
                return self.terminate_other(*process, *patience_ms).await;
            }
            (OwnFunction::LastValue, []) => return self.given.last().map(Datum::Int),
            (OwnFunction::Sleep, [Datum::Float(seconds)]) => *seconds,
            (OwnFunction::SleepFor, [Datum::Text(text)]) => {
                base::interval::parse(text)?.length_us() as f64 / 1e6
            }
            _ => return Err(SqlError::internal("arguments have the types that were asked for")),
        };
        // A year at a time is longer than any client waits.
        let seconds = if seconds.is_nan() { 0.0 } else { seconds.clamp(0.0, 31_536_000.0) };
        // The statement's end by a cancel request or a timeout ends this too.
        tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
        Ok(Datum::text(""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlparser::ast::Statement;

    fn of(sql: &str) -> SqlResult<Option<Asked>> {
        match sql::parse::parse(sql).unwrap().pop() {
            Some(Statement::Query(query)) => asked(&query),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn arguments_and_other_columns_are_queried() {
        let found = of("select id, pg_advisory_lock(id + 1) as got, pg_sleep(0.5) from t where id = 1")
            .unwrap()
            .unwrap();
        assert_eq!(found.names, ["id", "got", "pg_sleep"]);
        assert_eq!(
            found.query.to_string(),
            "SELECT id AS argument_0, CAST(id + 1 AS bigint) AS argument_1, CAST(0.5 AS double precision) AS argument_2 \
             FROM t WHERE id = 1"
                .replace("bigint", "BIGINT")
                .replace("double precision", "DOUBLE PRECISION")
        );
        assert!(of("select 1").unwrap().is_none());
        assert!(of("select pg_advisory_unlock_all()").unwrap().is_some());
    }

    #[test]
    fn a_call_elsewhere_is_refused() {
        for sql in [
            "select 1 from t where pg_try_advisory_lock(id)",
            "select 1 + pg_advisory_lock(1)",
            "select pg_sleep(1) from (select pg_sleep(1)) x",
        ] {
            assert_eq!(of(sql).err().unwrap().state, SqlState::FEATURE_NOT_SUPPORTED, "{sql}");
        }
        assert_eq!(of("select pg_advisory_lock(1, 2, 3)").err().unwrap().state, SqlState::UNDEFINED_FUNCTION);
    }
}
