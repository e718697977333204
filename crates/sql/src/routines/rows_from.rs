//! `ROWS FROM (f(), g())`: the rows of several functions side by side, as a join by their numbers. A function whose rows are
//! over gives NULLs.

use super::expand::{columns, reads_columns};
use super::places::{ALL_ROWS, own};
use super::resolve::{Types, resolve};
use super::scopes::{Lookup, Scopes};
use crate::lower::scope::ParameterTypes;
use crate::names;
use crate::names::quoted;
use crate::parse::is_rows_from;
use crate::walk::{Walk, WalkMut};
use base::error::{SqlError, SqlResult};
use sqlparser::ast::{
    self, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Statement, TableFactor, Visitor,
    VisitorMut,
};
use std::ops::ControlFlow;

/// Functions of PostgreSQL's whose rows have two columns.
const PAIRS: [&str; 4] = ["json_each", "jsonb_each", "json_each_text", "jsonb_each_text"];

/// The statement with joins in the place of ROWS FROM; `None` if it does not say that. Errors: 0A000 for what is no function in
/// it, and those of finding functions.
pub fn written_out(lookup: Lookup<'_>, statement: &Statement) -> SqlResult<Option<Statement>> {
    struct Says;
    impl Visitor for Says {
        type Break = ();
        fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
            match factor {
                TableFactor::Table { name, args: Some(_), .. } | TableFactor::Function { name, .. }
                    if is_rows_from(name) =>
                {
                    ControlFlow::Break(())
                }
                _ => ControlFlow::Continue(()),
            }
        }
    }
    if statement.walk(&mut Says).is_continue() {
        return Ok(None);
    }
    let mut statement = statement.clone();
    match statement.walk_mut(&mut Writing(lookup)) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(Some(statement)),
    }
}

struct Writing<'a>(Lookup<'a>);

impl VisitorMut for Writing<'_> {
    type Break = SqlError;
    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        let (name, calls, alias, is_numbered) = match factor {
            TableFactor::Table { name, args: Some(args), alias, with_ordinality, .. } => {
                (name, &args.args, alias, *with_ordinality)
            }
            TableFactor::Function { name, args, alias, with_ordinality, .. } => {
                (name, &*args, alias, *with_ordinality)
            }
            _ => return ControlFlow::Continue(()),
        };
        if !is_rows_from(name) {
            return ControlFlow::Continue(());
        }
        match joined(self.0, calls, alias.take(), is_numbered) {
            Ok(made) => *factor = made,
            Err(error) => return ControlFlow::Break(error),
        }
        ControlFlow::Continue(())
    }
}

/// One of the functions.
struct Part {
    call: ast::Function,
    /// What its columns are called.
    columns: Vec<String>,
    /// It gives one column, which has the name of the whole.
    is_scalar: bool,
}

fn part(lookup: Lookup<'_>, argument: &FunctionArg) -> SqlResult<Part> {
    let FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Function(call))) = argument else {
        return Err(SqlError::unsupported(format!("ROWS FROM ({argument})")).hint("Functions stand there."));
    };
    let (scopes, parameters) = (Scopes::default(), ParameterTypes::default());
    let types = Types { lookup, scopes: &scopes, parameters: &parameters, is_body: true };
    let none = Vec::new();
    let given = match &call.args {
        FunctionArguments::List(list) => &list.args,
        _ => &none,
    };
    if let Some(found) = resolve(types, &call.name, given)? {
        let columns = columns(lookup.catalog, &found.routine);
        let is_scalar = columns.len() == 1 && found.routine.named_columns().is_empty();
        let columns = columns.into_iter().map(|(name, _)| name).collect();
        return Ok(Part { call: call.clone(), columns, is_scalar });
    }
    let name = names::parts(&call.name)?.pop().unwrap_or_default();
    let columns = match name.as_str() {
        "unnest" => vec![name; given.len()],
        pair if PAIRS.contains(&pair) => vec!["key".into(), "value".into()],
        _ => vec![name],
    };
    Ok(Part { call: call.clone(), is_scalar: columns.len() == 1, columns })
}

fn joined(
    lookup: Lookup<'_>,
    calls: &[FunctionArg],
    alias: Option<ast::TableAlias>,
    is_numbered: bool,
) -> SqlResult<TableFactor> {
    let parts = calls.iter().map(|call| part(lookup, call)).collect::<SqlResult<Vec<Part>>>()?;
    let column = |nth: usize| format!("column{}", nth + 1);
    let (mut items, mut tables, mut numbers) = (Vec::new(), String::new(), Vec::new());
    for (nth, part) in parts.iter().enumerate() {
        let table = own(&format!("rows{}", nth + 1));
        let own_columns: Vec<String> = (0..part.columns.len()).map(column).collect();
        items.extend(own_columns.iter().map(|name| format!("{table}.{name}")));
        let names = own_columns.iter().map(String::as_str).chain(["number"]).collect::<Vec<_>>().join(", ");
        let numbered = format!("{} WITH ORDINALITY", part.call);
        match numbers.is_empty() {
            true => tables.push_str(&format!("{numbered} AS {table} ({names})")),
            // The planner has no FULL JOIN with a function, but one with a subquery.
            false => tables.push_str(&format!(
                " FULL JOIN (SELECT * FROM {numbered} AS {table} ({names})) AS {table} \
                 ON coalesce({}) = {table}.number",
                numbers.join(", ")
            )),
        }
        numbers.push(format!("{table}.number"));
    }
    let number = format!("coalesce({})", numbers.join(", "));
    let mut own_names: Vec<Ident> =
        parts.iter().flat_map(|part| &part.columns).map(|name| quoted(name)).collect();
    if is_numbered {
        items.push(number.clone());
        own_names.push(quoted("ordinality"));
    }
    let items: Vec<String> =
        items.into_iter().enumerate().map(|(nth, item)| format!("{item} AS {}", column(nth))).collect();
    let is_lateral = reads_columns(calls);
    let limit = if is_lateral { String::new() } else { format!(" LIMIT {ALL_ROWS}") };
    let text = format!(
        "SELECT 1 FROM (SELECT {} FROM {tables} ORDER BY {number}{limit}) AS joined",
        items.join(", ")
    );
    let mut made = factor_of(&text)?;
    if let TableFactor::Derived { lateral, alias: own_alias, .. } = &mut made {
        *lateral = is_lateral;
        let mut named = alias.unwrap_or_else(|| ast::TableAlias {
            explicit: true,
            name: own_names.first().cloned().unwrap_or_else(|| quoted("rows")),
            columns: Vec::new(),
            at: None,
        });
        if let ([part], []) = (parts.as_slice(), named.columns.as_slice())
            && part.is_scalar
        {
            own_names[0] = named.name.clone();
        }
        let rest = own_names.into_iter().skip(named.columns.len());
        let column = |name: Ident| ast::TableAliasColumnDef { name, data_type: None };
        named.columns.extend(rest.map(column));
        *own_alias = Some(named);
    }
    Ok(made)
}

/// What a query has in FROM.
fn factor_of(text: &str) -> SqlResult<TableFactor> {
    if let Some(Statement::Query(query)) = crate::parse::parse(text)?.pop()
        && let ast::SetExpr::Select(mut select) = *query.body
        && let Some(from) = select.from.pop()
    {
        return Ok(from.relation);
    }
    Err(SqlError::internal("this text is a query"))
}
