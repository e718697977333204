//! Expressions that the catalog keeps as texts: types and sequences are written with their schema and columns without their
//! table, so that a text means the same under any search path and after its table is renamed.

use super::DdlContext;
use crate::catalog::find_sequence;
use crate::{names, views, walk};
use base::TableId;
use base::error::SqlResult;
use base::identifier::quoted;
use base::schema::{Sequence, Table};
use sqlparser::ast::{self, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Functions that ask a sequence for a number.
const COUNTING: [&str; 2] = ["nextval", "currval"];

/// The text of a check, or of what a generated column is: without the table's name, which may change.
pub(super) fn over_columns(table: &Table, e: &Expr) -> String {
    let mut kept = e.clone();
    let _: ControlFlow<()> = walk::expressions_mut(&mut kept, |e| {
        if let Expr::CompoundIdentifier(path) = &*e
            && let Some(column) = column_of(table, path)
        {
            *e = Expr::Identifier(views::quoted(&column));
        }
        ControlFlow::Continue(())
    });
    names::qualify_types(&mut kept);
    kept.to_string()
}

/// The column that a name means if it says which table it is of.
fn column_of(table: &Table, path: &[Ident]) -> Option<String> {
    let words: Vec<String> = path.iter().map(names::fold).collect();
    let (column, before) = words.split_last()?;
    let is_of_table = match before {
        [of] => *of == table.name,
        [schema, of] => *of == table.name && *schema == table.schema,
        _ => false,
    };
    is_of_table.then(|| column.clone())
}

/// Writes out the schemas of the sequences that an expression names.
pub(super) fn qualify_sequences(context: &DdlContext<'_>, e: &mut Expr) {
    let _: ControlFlow<()> = walk::expressions_mut(e, |e| {
        let found = counted(e).and_then(|(name, text)| {
            let sequence = find_sequence(context.catalog, context.search_path, text).ok()?;
            Some((name, sequence))
        });
        if let Some((name, sequence)) = found
            && let Expr::Function(function) = e
            && let FunctionArguments::List(list) = &mut function.args
        {
            function.name = ObjectName::from(Ident::new(name));
            list.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(constant(sequence)))];
        }
        ControlFlow::Continue(())
    });
}

/// The default of a column that a sequence counts.
pub(super) fn next_of(schema: &str, name: &str) -> String {
    format!("nextval('{}'::regclass)", called(schema, name).replace('\'', "''"))
}

/// The sequences that a default names.
pub(super) fn sequences_in(context: &DdlContext<'_>, sql: &str) -> BTreeSet<TableId> {
    named_in(sql, |text| {
        find_sequence(context.catalog, context.search_path, text).ok().map(|sequence| sequence.id)
    })
}

/// A default with another name of a sequence that it names; `None`: it does not name it.
pub(super) fn with_sequence(context: &DdlContext<'_>, sql: &str, to: &Sequence) -> SqlResult<Option<String>> {
    if !sequences_in(context, sql).contains(&to.id) {
        return Ok(None);
    }
    let mut parsed = crate::parse::parse_expr(sql)?;
    let _: ControlFlow<()> = walk::expressions_mut(&mut parsed, |e| {
        let found =
            counted(e).and_then(|(_, text)| find_sequence(context.catalog, context.search_path, text).ok());
        if found.is_some_and(|sequence| sequence.id == to.id)
            && let Expr::Function(function) = e
            && let FunctionArguments::List(list) = &mut function.args
        {
            list.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(constant(to)))];
        }
        ControlFlow::Continue(())
    });
    Ok(Some(parsed.to_string()))
}

/// What the calls in a text ask for numbers, as far as it is found.
pub(super) fn named_in(sql: &str, id_of: impl Fn(&str) -> Option<TableId>) -> BTreeSet<TableId> {
    let mut found = BTreeSet::new();
    // Most defaults name none, and need not be parsed to know it.
    let small = sql.to_lowercase();
    if !COUNTING.iter().any(|name| small.contains(*name)) {
        return found;
    }
    let Ok(parsed) = crate::parse::parse_expr(sql) else { return found };
    let _: ControlFlow<()> = walk::expressions(&parsed, |e| {
        found.extend(counted(e).and_then(|(_, text)| id_of(text)));
        ControlFlow::Continue(())
    });
    found
}

/// A call that asks a sequence for a number: the function, and the sequence as it is written.
fn counted(e: &Expr) -> Option<(&'static str, &str)> {
    let Expr::Function(function) = e else { return None };
    let parts = names::parts(&function.name).ok()?;
    let (called, before) = parts.split_last()?;
    if !before.iter().all(|schema| schema == "pg_catalog") {
        return None;
    }
    let name = COUNTING.into_iter().find(|name| called == name)?;
    let FunctionArguments::List(list) = &function.args else { return None };
    match list.args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))] => Some((name, literal(argument)?)),
        _ => None,
    }
}

fn literal(e: &Expr) -> Option<&str> {
    match e {
        Expr::Cast { expr, .. } | Expr::Nested(expr) => literal(expr),
        Expr::Value(value) => match &value.value {
            ast::Value::SingleQuotedString(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// `'schema.name'::regclass`
fn constant(sequence: &Sequence) -> Expr {
    let text = ast::Value::SingleQuotedString(called(&sequence.schema, &sequence.name));
    Expr::Cast {
        kind: ast::CastKind::DoubleColon,
        expr: Box::new(Expr::Value(text.into())),
        data_type: ast::DataType::Custom(ObjectName::from(Ident::new("regclass")), Vec::new()),
        array: false,
        format: None,
    }
}

/// A sequence as a text names it.
fn called(schema: &str, name: &str) -> String {
    format!("{}.{}", quoted(schema), quoted(name))
}
