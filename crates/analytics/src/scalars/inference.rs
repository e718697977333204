//! The type of an expression, from what it is made of.

use super::super::{fields, types};
use super::kinds::{Kind, kind_of_field};
use super::{evaluated, functions};
use base::DataType;
use datafusion::common::{ExprSchema, ScalarValue};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};

/// Functions that look at their argument once to settle their type.
const LOOKS_ONCE: [&str; 12] =
    ["round", "trunc", "floor", "ceil", "signum", "sqrt", "exp", "ln", "log10", "log", "power", "trim_scale"];

/// The kind of an expression over columns of a schema.
pub(crate) fn kind_of(e: &Expr, schema: &dyn ExprSchema) -> Kind {
    match e {
        Expr::Alias(alias) => return kind_of(&alias.expr, schema),
        Expr::Literal(ScalarValue::Utf8(_), None) | Expr::Literal(ScalarValue::Null, _) => {
            return Kind::Unknown;
        }
        Expr::Placeholder(_) => return Kind::Foreign,
        // Known without a look at what is inside, so that long chains are not walked once per link.
        Expr::BinaryExpr(BinaryExpr {
            op:
                Operator::And
                | Operator::Or
                | Operator::Eq
                | Operator::NotEq
                | Operator::Lt
                | Operator::LtEq
                | Operator::Gt
                | Operator::GtEq,
            ..
        })
        | Expr::Not(_)
        | Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::Like(_)
        | Expr::InList(_)
        | Expr::Between(_) => return Kind::Known(DataType::Boolean),
        Expr::Cast(cast) => return kind_of_field(&cast.field),
        Expr::ScalarFunction(function) => {
            if let Some(kind) = evaluated::returned(&function.func) {
                return kind;
            }
            if function.name() == "nullif"
                && let Some(first) = function.args.first().filter(|e| !matches!(e, Expr::Literal(..)))
            {
                return kind_of(first, schema);
            }
            // What it will be once it is settled, for what is planned around it now. Only of functions that look
            // at their argument once, so that nesting them costs no more than their number.
            if LOOKS_ONCE.contains(&function.name())
                && let Ok(Some(settled)) =
                    functions::function(function.name(), &function.func, &function.args, schema, false)
            {
                return kind_of(&settled, schema);
            }
        }
        _ => {}
    }
    let kind = match fields::field(e, schema) {
        Ok(field) => kind_of_field(&field),
        Err(_) => Kind::Foreign,
    };
    // A CASE keeps the notes of none of its values, and NULLIF not that of its first.
    let of_one = |values: &mut dyn Iterator<Item = &Expr>| {
        values
            .map(|e| kind_of(e, schema))
            .find(|k| *k != Kind::Unknown)
            .filter(|k| matches!(k, Kind::Known(own) if types::is_kept_by_choice(*own)))
    };
    let noted = match e {
        _ if kind != Kind::Known(DataType::Text) => None,
        Expr::Case(case) => {
            let otherwise = case.else_expr.iter().map(|e| e.as_ref());
            of_one(&mut case.when_then_expr.iter().map(|(_, then)| then.as_ref()).chain(otherwise))
        }
        Expr::ScalarFunction(f) if f.name() == "nullif" => of_one(&mut f.args.iter()),
        _ => None,
    };
    noted.unwrap_or(kind)
}
