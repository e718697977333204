//! Takes calls out of a statement.

use super::callees::{resolved, written};
use super::kinds;
use crate::session::plan::Planner;
use crate::session::routines::settled;
use analytics::Context;
use base::error::SqlResult;
use base::routines::{ResultOf, Routine, Volatility};
use base::{DataType, SqlError, SqlState};
use sql::lower::output_name;
use sql::lower::scope::ParameterTypes;
use sql::routines;
use sql::routines::body::argument;
use sql::routines::listed::with_listed_columns;
use sql::routines::polymorphic;
use sql::routines::resolve::Resolved;
use sqlparser::ast::{
    self, Expr, FunctionArg, Ident, ObjectName, SelectItem, SetExpr, Statement, TableFactor, VisitorMut,
};
use std::ops::ControlFlow;
use std::sync::Arc;

/// A call that was found in a statement.
pub(super) struct Found {
    pub routine: Arc<Routine>,
    pub arguments: Vec<Expr>,
    pub is_table: bool,
    /// Its rows are numbered (WITH ORDINALITY).
    pub is_numbered: bool,
}

/// A function that stands for a table.
fn table_call(factor: &TableFactor) -> Option<(&ObjectName, &[FunctionArg], Option<&ast::TableAlias>, bool)> {
    match factor {
        TableFactor::Table { name, args: Some(args), alias, with_ordinality, .. } => {
            Some((name, &args.args, alias.as_ref(), *with_ordinality))
        }
        TableFactor::Function { name, args, alias, with_ordinality, .. } => {
            Some((name, args, alias.as_ref(), *with_ordinality))
        }
        _ => None,
    }
}

/// `SELECT f(…)` of a function that returns rows, alone, as `SELECT * FROM f(…)`.
pub(super) fn in_from(
    context: &Context<'_>,
    parameters: &ParameterTypes,
    statement: &mut Statement,
) -> SqlResult<()> {
    let Statement::Query(query) = statement else { return Ok(()) };
    let SetExpr::Select(select) = query.body.as_mut() else { return Ok(()) };
    let ([item], true) = (select.projection.as_slice(), select.from.is_empty()) else { return Ok(()) };
    let (expr, alias) = match item {
        SelectItem::UnnamedExpr(e) => (e, None),
        SelectItem::ExprWithAlias { expr, alias } => (expr, Some(alias.clone())),
        _ => return Ok(()),
    };
    let Expr::Function(function) = expr else { return Ok(()) };
    let found = resolved(context, parameters, &function.name, written(&function.args))?;
    if !found.is_some_and(|found| matches!(found.routine.result, ResultOf::SetOf(_))) {
        return Ok(());
    }
    let name = alias.unwrap_or_else(|| Ident::with_quote('"', output_name(expr)));
    let relation = TableFactor::Function {
        lateral: false,
        name: function.name.clone(),
        args: written(&function.args).to_vec(),
        with_ordinality: false,
        // The column is called so even where the function has an OUT argument with a name.
        alias: Some(ast::TableAlias {
            explicit: true,
            name: name.clone(),
            columns: vec![ast::TableAliasColumnDef { name, data_type: None }],
            at: None,
        }),
    };
    select.from = vec![ast::TableWithJoins { relation, joins: Vec::new() }];
    select.projection = vec![SelectItem::Wildcard(ast::WildcardAdditionalOptions::default())];
    Ok(())
}

/// Takes calls out of a statement, inner ones first.
pub(super) struct Calls<'a> {
    context: &'a Context<'a>,
    plan: Planner,
    /// Of the statement, and of the calls that became parameters.
    types: ParameterTypes,
    pub found: Vec<Found>,
    /// Whether what is around has rows.
    per_row: Vec<bool>,
    /// The same around tables, each of which is read once.
    around: Vec<Vec<bool>>,
    /// Expressions around that evaluate only some of their parts.
    conditions: usize,
}

fn is_conditional(e: &Expr) -> bool {
    match e {
        Expr::Case { .. } => true,
        Expr::Function(f) => ["coalesce", "nullif"].contains(&f.name.to_string().to_lowercase().as_str()),
        _ => false,
    }
}

impl<'a> Calls<'a> {
    /// Of a statement with parameters of these types; one that changes rows is about many.
    pub fn new(context: &'a Context<'a>, plan: Planner, types: ParameterTypes, changes: bool) -> Calls<'a> {
        let (found, around) = (Vec::new(), Vec::new());
        Calls { context, plan, types, found, per_row: vec![changes], around, conditions: 0 }
    }

    /// The function that a call means, with the types that the call decides. Errors: 0A000 for arguments of rows.
    fn settled(&self, name: &ObjectName, arguments: &[FunctionArg]) -> SqlResult<Option<Resolved>> {
        let Some(found) = resolved(self.context, &self.types, name, arguments)? else { return Ok(None) };
        if polymorphic::is_open(&found.routine) {
            self.check_arguments(&found.routine, &found.arguments)?;
        }
        let routine = settled(self.context, found.routine, &found.arguments, &self.types, self.plan)?;
        Ok(Some(Resolved { routine, arguments: found.arguments }))
    }

    /// Errors: 0A000.
    fn check_place(&self, routine: &Routine) -> SqlResult<()> {
        let shown = routines::spaced_signature(self.context.catalog, routine);
        if self.conditions > 0 {
            return Err(SqlError::unsupported(format!("a call of {shown} inside of CASE or COALESCE"))
                .hint("The function would be called whatever the condition is. Use IF, or call it in a statement of its own."));
        }
        if self.per_row.contains(&true) && routine.volatility == Volatility::Volatile {
            return Err(SqlError::unsupported(format!("a call of {shown}, which is volatile, for each row"))
                .hint(
                    "Loop over the rows in PL/pgSQL, or declare the function STABLE: then it is called once.",
                ));
        }
        Ok(())
    }

    /// Errors: 0A000 for arguments of rows.
    fn check_arguments(&self, routine: &Routine, arguments: &[Expr]) -> SqlResult<()> {
        let is_column = |e: &Expr| match e {
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        };
        let has_columns =
            |e: &Expr| !matches!(e, Expr::Subquery(_)) && sql::walk::expressions(e, is_column).is_break();
        if arguments.iter().any(has_columns) {
            let shown = routines::spaced_signature(self.context.catalog, routine);
            return Err(SqlError::unsupported(format!("a call of {shown} with columns as arguments"))
                .hint("Loop over the rows in PL/pgSQL: FOR r IN query LOOP … END LOOP."));
        }
        Ok(())
    }

    /// The value of a call; `None`: it is a call of something else.
    fn value(&mut self, function: &ast::Function) -> SqlResult<Option<Expr>> {
        let found = self.settled(&function.name, written(&function.args))?;
        let Some(Resolved { routine, arguments }) = found else { return Ok(None) };
        let shown = routines::spaced_signature(self.context.catalog, &routine);
        if function.over.is_some() || function.filter.is_some() {
            return Err(SqlError::unsupported(format!("{shown} over a window or with FILTER")));
        }
        match &routine.result {
            ResultOf::Procedure => {
                let message = format!("{shown} is a procedure");
                return Err(
                    SqlError::new(SqlState(*b"42809"), message).hint("To call a procedure, use CALL.")
                );
            }
            ResultOf::Trigger => {
                let message = "trigger functions can only be called as triggers";
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            ResultOf::One(of) => self.types.push(of.data_type),
            ResultOf::Void => self.types.push(DataType::Text),
            _ => {
                return Err(SqlError::unsupported(format!("{shown}, which returns rows, as a value"))
                    .hint(format!("Use SELECT * FROM {}(…).", routine.name)));
            }
        }
        self.check_place(&routine)?;
        self.check_arguments(&routine, &arguments)?;
        self.found.push(Found { routine, arguments, is_table: false, is_numbered: false });
        Ok(Some(argument(self.types.0.len())))
    }

    /// The table that rows of a call are; `None`: it is something else.
    fn table(&mut self, factor: &TableFactor) -> SqlResult<Option<TableFactor>> {
        let Some((name, arguments, alias, is_numbered)) = table_call(factor) else { return Ok(None) };
        let Some(Resolved { routine, arguments }) = self.settled(name, arguments)? else { return Ok(None) };
        let mut alias = alias.cloned();
        let routine = with_listed_columns(&routine, alias.as_mut(), is_numbered)?;
        if routine.is_procedure() || routine.result == ResultOf::Trigger {
            return Err(SqlError::unsupported(format!("a {} in FROM", routine.kind())));
        }
        self.check_arguments(&routine, &arguments)?;
        let text = format!(
            "SELECT * FROM (SELECT * FROM \"{}\".\"{}\") AS {}",
            sql::with::SCHEMA,
            self.found.len(),
            sql::views::quoted(&routine.name)
        );
        let Some(Statement::Query(query)) = sql::parse::parse(&text)?.pop() else {
            return Err(SqlError::internal("a query is a query"));
        };
        let SetExpr::Select(mut select) = *query.body else {
            return Err(SqlError::internal("a query is a SELECT"));
        };
        let mut table = select.from.remove(0).relation;
        if let (Some(mut alias), TableFactor::Derived { alias: own, .. }) = (alias.take(), &mut table) {
            // A function that gives one column gives it the name that the table has.
            let is_scalar = matches!(routine.result, ResultOf::One(_) | ResultOf::SetOf(_) | ResultOf::Void)
                && routine.output_name().is_none();
            if is_scalar && alias.columns.is_empty() {
                let name = alias.name.clone();
                alias.columns.push(ast::TableAliasColumnDef { name, data_type: None });
            }
            let width = kinds::columns(self.context.catalog, &routine).len();
            if is_numbered && alias.columns.len() == width {
                let name = Ident::new("ordinality");
                alias.columns.push(ast::TableAliasColumnDef { name, data_type: None });
            }
            *own = Some(alias);
        }
        self.found.push(Found { routine, arguments, is_table: true, is_numbered });
        Ok(Some(table))
    }
}

impl VisitorMut for Calls<'_> {
    type Break = SqlError;

    fn pre_visit_select(&mut self, select: &mut ast::Select) -> ControlFlow<SqlError> {
        self.per_row.push(!select.from.is_empty());
        for item in &mut select.projection {
            // What becomes a parameter would lose its name.
            if let SelectItem::UnnamedExpr(e @ (Expr::Function(_) | Expr::Cast { .. })) = item {
                let alias = Ident::with_quote('"', output_name(e));
                *item = SelectItem::ExprWithAlias { expr: e.clone(), alias };
            }
        }
        ControlFlow::Continue(())
    }
    fn post_visit_select(&mut self, _: &mut ast::Select) -> ControlFlow<SqlError> {
        self.per_row.pop();
        ControlFlow::Continue(())
    }
    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        let is_lateral = matches!(factor, TableFactor::Derived { lateral: true, .. });
        let around = if is_lateral { self.per_row.clone() } else { Vec::new() };
        self.around.push(std::mem::replace(&mut self.per_row, around));
        ControlFlow::Continue(())
    }
    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        self.per_row = self.around.pop().unwrap_or_default();
        match self.table(factor) {
            Ok(Some(table)) => *factor = table,
            Ok(None) => {}
            Err(error) => return ControlFlow::Break(error),
        }
        ControlFlow::Continue(())
    }
    fn pre_visit_expr(&mut self, e: &mut Expr) -> ControlFlow<SqlError> {
        self.conditions += usize::from(is_conditional(e));
        ControlFlow::Continue(())
    }
    fn post_visit_expr(&mut self, e: &mut Expr) -> ControlFlow<SqlError> {
        self.conditions -= usize::from(is_conditional(e));
        let Expr::Function(function) = e else { return ControlFlow::Continue(()) };
        match self.value(function) {
            Ok(Some(value)) => *e = value,
            Ok(None) => {}
            Err(error) => return ControlFlow::Break(error),
        }
        ControlFlow::Continue(())
    }
}
