//! What PostgreSQL writes one way and DataFusion another, changed in the statement before planning.

use base::error::SqlResult;
use base::{DataType, SqlError};
use datafusion::sql::sqlparser::ast::{self, Expr, Statement, visit_expressions_mut};
use std::ops::ControlFlow;

/// Rewrites a statement in place. Errors: dates and times that are none (22007, 22008).
pub(super) fn rewrite(statement: &mut Statement) -> SqlResult<()> {
    let outcome = visit_expressions_mut(statement, |e| match replacement(e) {
        Ok(None) => ControlFlow::Continue(()),
        Ok(Some(new)) => {
            *e = new;
            ControlFlow::Continue(())
        }
        Err(error) => ControlFlow::Break(error),
    });
    match outcome {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

fn replacement(e: &Expr) -> Result<Option<Expr>, SqlError> {
    match e {
        Expr::Function(function) => Ok(function_replacement(function)),
        Expr::TypedString(typed) => {
            let Ok(to @ (DataType::Date | DataType::Timestamp | DataType::TimestampTz)) =
                crate::names::data_type(&typed.data_type)
            else {
                return Ok(None);
            };
            let ast::Value::SingleQuotedString(text) = &typed.value.value else { return Ok(None) };
            // Our own reading of dates, in the one form that DataFusion reads.
            let value = base::text::parse(text, to)?;
            let mut typed = typed.clone();
            typed.value.value = ast::Value::SingleQuotedString(base::text::display_as(&value, to));
            Ok(Some(Expr::TypedString(typed)))
        }
        _ => Ok(None),
    }
}

fn function_replacement(function: &ast::Function) -> Option<Expr> {
    let name = crate::names::parts(&function.name).ok()?.pop()?;
    let ast::FunctionArguments::List(list) = &function.args else { return None };
    let arguments: Vec<&Expr> = list
        .args
        .iter()
        .map(|a| match a {
            ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(e)) => Some(e),
            _ => None,
        })
        .collect::<Option<_>>()?;
    let nested = |e: &Expr| Box::new(Expr::Nested(Box::new(e.clone())));
    match (name.as_str(), arguments.as_slice()) {
        ("mod", [a, b]) => Some(Expr::Nested(Box::new(Expr::BinaryOp {
            left: nested(a),
            op: ast::BinaryOperator::Modulo,
            right: nested(b),
        }))),
        _ => None,
    }
}
