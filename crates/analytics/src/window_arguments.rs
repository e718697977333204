//! What functions of windows take: `lag`, `lead`, `first_value`, `last_value`, `nth_value`, `ntile`.

use super::scalars::{Family, Kind, kind_of};
use base::error::{SqlResult, SqlState};
use base::{DataType, SqlError};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::sql::sqlparser::ast;

/// Functions, and how many arguments they take at least and at most.
const COUNTS: [(&str, usize, usize); 6] = [
    ("lag", 1, 3),
    ("lead", 1, 3),
    ("first_value", 1, 1),
    ("last_value", 1, 1),
    ("nth_value", 2, 2),
    ("ntile", 1, 1),
];

/// Errors: 42883 for a call without arguments, which the planner is not made for.
pub(super) fn refuse_none(call: &ast::Function) -> SqlResult<()> {
    let is_empty = match &call.args {
        ast::FunctionArguments::List(list) => list.args.is_empty(),
        _ => false,
    };
    let name = sql::names::parts(&call.name).ok().and_then(|mut parts| parts.pop()).unwrap_or_default();
    match call.over.is_some() && is_empty && COUNTS.iter().any(|(known, ..)| *known == name) {
        true => Err(no_function(&name, &[])),
        false => Ok(()),
    }
}

/// Errors: 42883 for arguments of other types or another number, 22P02 for a literal that is no number of rows.
pub(super) fn check(plan: &LogicalPlan) -> Result<()> {
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Window(window) = node {
            for e in &window.window_expr {
                e.apply(|e| {
                    if let Expr::WindowFunction(call) = e {
                        check_call(call.fun.name(), &call.params.args, window.input.schema())
                            .map_err(|e| DataFusionError::External(Box::new(e)))?;
                    }
                    Ok(TreeNodeRecursion::Continue)
                })?;
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

fn check_call(name: &str, arguments: &[Expr], schema: &DFSchema) -> SqlResult<()> {
    let Some((_, least, most)) = COUNTS.iter().find(|(known, ..)| *known == name) else { return Ok(()) };
    let kinds: Vec<Kind> = arguments.iter().map(|e| kind(e, schema)).collect();
    let refused = || no_function(name, &kinds);
    if !(*least..=*most).contains(&arguments.len()) {
        return Err(refused());
    }
    let counts_rows = if name == "ntile" { 0 } else { 1 };
    if let (Some(e), Some(kind)) = (arguments.get(counts_rows), kinds.get(counts_rows)) {
        match (e, kind) {
            (Expr::Literal(ScalarValue::Utf8(Some(text)), _), Kind::Unknown) => {
                base::text::parse(text, DataType::Integer)?;
            }
            (_, Kind::Known(DataType::SmallInt | DataType::Integer | DataType::BigInt))
            | (_, Kind::Unknown | Kind::Foreign) => {}
            _ => return Err(refused()),
        }
    }
    if let (Some(of), Some(Expr::Literal(ScalarValue::Utf8(Some(_)), _))) = (kinds.first(), arguments.get(2))
        && kinds[2] == Kind::Unknown
        && matches!(of.family(), Family::Bytes | Family::Moment | Family::Foreign)
    {
        // The planner would read it in its own way.
        let told = format!("a default of {name}() that has no type of its own, for values of this type,");
        return Err(SqlError::unsupported(told).hint("Cast it to the type of the first argument."));
    }
    match (kinds.first(), kinds.get(2)) {
        (Some(Kind::Known(_) | Kind::Span), Some(Kind::Known(_) | Kind::Span))
            if !kinds[0].family().meets(kinds[2].family()) =>
        {
            Err(refused())
        }
        _ => Ok(()),
    }
}

/// A whole number that is written is an integer, if it has room for it.
fn kind(e: &Expr, schema: &DFSchema) -> Kind {
    match e {
        Expr::Literal(ScalarValue::Int64(Some(n)), _) if i32::try_from(*n).is_ok() => {
            Kind::Known(DataType::Integer)
        }
        e => kind_of(e, schema),
    }
}

fn no_function(name: &str, kinds: &[Kind]) -> SqlError {
    let types: Vec<String> = kinds.iter().map(|kind| kind.name()).collect();
    let told = format!("function {name}({}) does not exist", types.join(", "));
    SqlError::new(SqlState::UNDEFINED_FUNCTION, told).hint(
        "No function matches the given name and argument types. You might need to add explicit type casts.",
    )
}
