//! Literals of a select list that is inserted: they take the types of their columns.

use crate::parse::parse_expr;
use base::DataType;
use base::schema::Table;
use sqlparser::ast;

/// Gives literals and parameters of a select list the types of the columns that they go to.
pub(super) fn settle_literals(body: &mut ast::SetExpr, table: &Table, targets: &[usize]) {
    match body {
        ast::SetExpr::Query(inner) => settle_literals(&mut inner.body, table, targets),
        ast::SetExpr::Select(select) if select.distinct.is_none() => {
            for (item, target) in select.projection.iter_mut().zip(targets) {
                let (ast::SelectItem::UnnamedExpr(e) | ast::SelectItem::ExprWithAlias { expr: e, .. }) = item
                else {
                    // A star has any number of columns.
                    return;
                };
                if is_untyped(e)
                    && let Some(name) = table.columns.get(*target).and_then(|c| cast_target(c.data_type))
                    && let Ok(typed) = parse_expr(&format!("CAST({e} AS {name})"))
                {
                    *e = typed;
                }
            }
        }
        _ => {}
    }
}

/// Whether an expression has the type that its surroundings ask for.
fn is_untyped(e: &ast::Expr) -> bool {
    match e {
        ast::Expr::Nested(inner) => is_untyped(inner),
        ast::Expr::Value(value) => matches!(
            value.value,
            ast::Value::SingleQuotedString(_)
                | ast::Value::EscapedStringLiteral(_)
                | ast::Value::DollarQuotedString(_)
                | ast::Value::Placeholder(_)
        ),
        _ => false,
    }
}

/// What a literal is cast to before it is assigned; lengths and digits are the assignment's business, texts stay.
fn cast_target(data_type: DataType) -> Option<String> {
    match data_type {
        DataType::Text | DataType::Varchar { .. } | DataType::Char { .. } => None,
        DataType::Numeric { .. } => Some("numeric".into()),
        other => Some(other.name()),
    }
}
