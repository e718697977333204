//! Long lists of constants in WHERE: `a IN (1, 2, …)` becomes a join with the elements of one array. Each constant of a
//! list is an expression that every rule of the planner looks at; an array is one.

use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, DataType, Expr, Select, Statement, UnaryOperator, Value, VisitorMut,
};
use sql::walk::WalkMut;
use std::ops::ControlFlow;

/// Constants of a list that stays one.
const SHORT_MAX: usize = 256;

/// Rewrites the conditions of a statement in place. Lists in other places, and those of different types, stay.
pub(super) fn as_joins(statement: &mut Statement) {
    struct Conditions;
    impl VisitorMut for Conditions {
        type Break = ();
        fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
            select.selection.iter_mut().for_each(rewrite_condition);
            ControlFlow::Continue(())
        }
    }
    let _: ControlFlow<()> = statement.walk_mut(&mut Conditions);
}

/// A condition of which every row has to meet each part.
fn rewrite_condition(condition: &mut Expr) {
    match condition {
        Expr::Nested(inner) => rewrite_condition(inner),
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            rewrite_condition(left);
            rewrite_condition(right);
        }
        Expr::InList { expr, list, negated } if list.len() > SHORT_MAX => {
            let Some((elements, of)) = array_of(list) else { return };
            let text = Value::SingleQuotedString(elements);
            let template = format!(
                "NULL IN (SELECT elements.element FROM unnest(CAST({text} AS {of}[])) AS elements(element))"
            );
            if let Ok(Expr::InSubquery { subquery, .. }) = sql::parse::parse_expr(&template) {
                let expr = std::mem::replace(expr, Box::new(Expr::Value(Value::Null.into())));
                *condition = Expr::InSubquery { expr, subquery, negated: *negated };
            }
        }
        _ => {}
    }
}

/// The text of an array of constants, and the type of its elements. `None` unless all have one type.
fn array_of(list: &[Expr]) -> Option<(String, DataType)> {
    let mut elements = String::from("{");
    let mut of: Option<&DataType> = None;
    for (n, e) in list.iter().enumerate() {
        if n > 0 {
            elements.push(',');
        }
        match e {
            Expr::Cast { kind: ast::CastKind::Cast, expr, data_type, .. } => {
                if *of.get_or_insert(data_type) != data_type {
                    return None;
                }
                push(&mut elements, expr)?;
            }
            e => push_integer(&mut elements, e)?,
        }
    }
    elements.push('}');
    let has_integers = list.iter().any(|e| !matches!(e, Expr::Cast { .. }) && !is_null(e));
    let is_integer = |of: &&DataType| matches!(of, DataType::Integer(None) | DataType::BigInt(None));
    match of {
        None if has_integers => Some((elements, DataType::BigInt(None))),
        None => None,
        Some(of) if has_integers && !is_integer(&of) => None,
        Some(of) => Some((elements, of.clone())),
    }
}

fn is_null(e: &Expr) -> bool {
    matches!(e, Expr::Value(value) if value.value == Value::Null)
}

/// A constant that is cast, as an array's text has it.
fn push(elements: &mut String, e: &Expr) -> Option<()> {
    let Expr::Value(value) = e else { return push_integer(elements, e) };
    let Value::SingleQuotedString(text) = &value.value else { return push_integer(elements, e) };
    elements.push('"');
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            elements.push('\\');
        }
        elements.push(c);
    }
    elements.push('"');
    Some(())
}

/// An integer that a `bigint` holds, or NULL.
fn push_integer(elements: &mut String, e: &Expr) -> Option<()> {
    let (sign, e) = match e {
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => ("-", expr.as_ref()),
        e => ("", e),
    };
    let Expr::Value(value) = e else { return None };
    match &value.value {
        Value::Null if sign.is_empty() => elements.push_str("NULL"),
        Value::Number(digits, _) if digits.parse::<i64>().is_ok() => {
            elements.push_str(sign);
            elements.push_str(digits);
        }
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(condition: &str) -> String {
        let sql = format!("SELECT 1 FROM t WHERE {condition}");
        let mut statement = sql::parse::parse(&sql).unwrap().pop().unwrap();
        as_joins(&mut statement);
        statement.to_string().split_once("WHERE ").unwrap().1.to_string()
    }

    fn list(element: &str) -> String {
        vec![element; SHORT_MAX + 1].join(", ")
    }

    #[test]
    fn a_long_list_of_one_type_becomes_a_join() {
        let joined = |elements: &str, of: &str| {
            let text = vec![elements; SHORT_MAX + 1].join(",");
            format!(
                "IN (SELECT elements.element FROM UNNEST(CAST('{{{text}}}' AS {of}[])) AS elements (element))"
            )
        };
        assert_eq!(rewritten(&format!("a IN ({})", list("7"))), format!("a {}", joined("7", "BIGINT")));
        assert_eq!(
            rewritten(&format!("b AND a NOT IN ({})", list("CAST('it''s \"x\"' AS TEXT)"))),
            format!("b AND a NOT {}", joined(r#""it''s \"x\"""#, "TEXT"))
        );
        let mixed = format!("a IN (NULL, -3, CAST('-4' AS INTEGER), {})", list("1"));
        assert!(rewritten(&mixed).contains("CAST('{NULL,-3,\"-4\",1,"), "{}", rewritten(&mixed));
        assert!(rewritten(&mixed).contains("AS INTEGER[]"));
    }

    #[test]
    fn other_lists_stay() {
        for list in [
            "1, 2".to_string(),
            list("'7'"),
            list("1.5"),
            list("b"),
            list("NULL"),
            list("9223372036854775808"),
            format!("CAST('1' AS INTEGER), {}", list("CAST('x' AS TEXT)")),
            format!("1, {}", list("CAST('x' AS TEXT)")),
        ] {
            let condition = format!("a IN ({list})");
            assert_eq!(rewritten(&condition), condition);
        }
        let either = format!("b OR a IN ({})", list("7"));
        assert_eq!(rewritten(&either), either);
    }
}
