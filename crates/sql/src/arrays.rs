//! Arrays in statements: `= ANY($1)`, `$1::int[]`, `'{1,2}'::int[]`.
//!
//! Those that only gather constants are written out before planning:
//! membership becomes an IN list, which finds its rows by key like any other; elsewhere an array
//! becomes `ARRAY[…]`, or stays a text with its type if it has many elements. A parameter that is an array stands for one
//! element while types are found, and for all of them once it is bound.

use crate::names;
use crate::types::ParameterType;
use crate::walk;
use base::error::SqlResult;
use base::{DataType, Datum};
use sqlparser::ast::{self, BinaryOperator, Expr, Statement, Value};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// What stands for a parameter that is an array.
#[derive(Clone)]
enum Elements {
    All(Vec<Expr>),
    Many(Expr),
    Null,
}

/// Elements of an array that is written out. Each becomes an expression, which takes a hundred times what its text does.
const WRITTEN_OUT_MAX: usize = 256;

/// Parameters (from 0) of a statement that are arrays.
pub fn parameters(statement: &Statement, hints: &[Option<ParameterType>]) -> BTreeSet<usize> {
    let declared = hints.iter().enumerate().filter(|(_, hint)| hint.is_some_and(|h| h.is_array));
    let mut found: BTreeSet<usize> = declared.map(|(n, _)| n).collect();
    let _: ControlFlow<()> = walk::expressions(statement, |e| {
        match e {
            Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } => found.extend(placeholder(right)),
            Expr::Cast { expr, data_type: ast::DataType::Array(_), .. } => found.extend(placeholder(expr)),
            _ => {}
        }
        ControlFlow::Continue(())
    });
    found
}

/// Types of the elements of parameters (from 0) that a statement casts to arrays.
pub fn cast_elements(statement: &Statement) -> Vec<(usize, DataType)> {
    let mut found = Vec::new();
    let _: ControlFlow<()> = walk::expressions(statement, |e| {
        if let Expr::Cast { expr, data_type: ast::DataType::Array(of), .. } = e
            && let Some(n) = placeholder(expr)
            && let Some(of) = element_type(of).and_then(|of| names::data_type(of).ok())
        {
            found.push((n, of));
        }
        ControlFlow::Continue(())
    });
    found
}

/// Writes arrays out; each parameter in `arrays` stands for one of its elements, to find its type.
pub fn write_out(statement: &mut Statement, arrays: &BTreeSet<usize>) -> SqlResult<()> {
    rewrite(statement, &|n, e| arrays.contains(&n).then(|| Elements::All(vec![e.clone()])))
}

/// Writes arrays out, with the elements of those parameters that are arrays of these types.
pub fn bind(
    statement: &mut Statement,
    arrays: &BTreeSet<usize>,
    types: &[DataType],
    values: &[Datum],
) -> SqlResult<()> {
    let mut bound = Vec::new();
    for &n in arrays {
        bound.push((n, bound_array(&values[n], types[n])?));
    }
    rewrite(statement, &|n, _| bound.iter().find(|(at, _)| *at == n).map(|(_, elements)| elements.clone()))
}

fn bound_array(value: &Datum, data_type: DataType) -> SqlResult<Elements> {
    let Datum::Text(text) = value else { return Ok(Elements::Null) };
    if base::text::array::parse(text)?.len() > WRITTEN_OUT_MAX {
        let typed = format!("CAST(NULL AS {}[])", type_name(data_type));
        return Ok(Elements::Many(with_operand(
            &crate::parse::parse_expr(&typed)?,
            constant(Value::SingleQuotedString(text.to_string())),
        )));
    }
    elements(text, data_type).map(Elements::All)
}

/// The elements of an array in text form as constants.
fn elements(text: &str, data_type: DataType) -> SqlResult<Vec<Expr>> {
    let parsed = base::text::array::parse(text)?;
    // A constant without a type takes that of what it meets; many have to be looked for together.
    let typed = match data_type {
        DataType::Text | DataType::Varchar { .. } if parsed.len() > WRITTEN_OUT_MAX => Some("text".into()),
        DataType::Text | DataType::Varchar { .. } | DataType::Char { .. } => None,
        _ => Some(type_name(data_type)),
    };
    let typed = typed.map(|name| crate::parse::parse_expr(&format!("CAST(NULL AS {name})"))).transpose()?;
    let constants = parsed.into_iter().map(|element| {
        let Some(element) = element else { return Ok(constant(Value::Null)) };
        // Checked here, so that the message names the element.
        let value = crate::zones::parse(&element, data_type)?;
        Ok(match value {
            Datum::Int(i) if i >= 0 && data_type.enumeration().is_none() => {
                constant(Value::Number(i.to_string(), false))
            }
            Datum::Bool(b) => constant(Value::Boolean(b)),
            _ => {
                let element = constant(Value::SingleQuotedString(element));
                match &typed {
                    None => element,
                    Some(cast) => with_operand(cast, element),
                }
            }
        })
    });
    constants.collect()
}

fn constant(value: Value) -> Expr {
    Expr::Value(value.into())
}

/// A cast to the same type of something else.
fn with_operand(cast: &Expr, operand: Expr) -> Expr {
    match cast {
        Expr::Cast { kind, data_type, array, format, .. } => Expr::Cast {
            kind: kind.clone(),
            expr: Box::new(operand),
            data_type: data_type.clone(),
            array: *array,
            format: format.clone(),
        },
        _ => operand,
    }
}

/// A type's name as it is written.
fn type_name(data_type: DataType) -> String {
    match data_type {
        DataType::Enum(_) | DataType::Composite(_) => data_type.qualified_name(),
        other => other.name(),
    }
}

fn rewrite(
    statement: &mut Statement,
    parameter: &impl Fn(usize, &Expr) -> Option<Elements>,
) -> SqlResult<()> {
    // Inner expressions come first: an array is written out before what stands around it.
    let outcome = walk::expressions_mut(statement, |e| match replacement(e, parameter) {
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

fn replacement(
    e: &mut Expr,
    parameter: &impl Fn(usize, &Expr) -> Option<Elements>,
) -> SqlResult<Option<Expr>> {
    Ok(match e {
        Expr::Value(_) => match placeholder(e).and_then(|n| parameter(n, e)) {
            None => None,
            Some(Elements::Null) => Some(constant(Value::Null)),
            Some(Elements::All(elem)) => Some(Expr::Array(ast::Array { elem, named: true })),
            Some(Elements::Many(typed)) => Some(typed),
        },
        Expr::Cast { expr, data_type: ast::DataType::Array(of), .. } => {
            let Some(of) = element_type(of).and_then(|of| names::data_type(of).ok()) else { return Ok(None) };
            let of_each = |elem: Vec<Expr>| {
                let typed = crate::parse::parse_expr(&format!("CAST(NULL AS {})", type_name(of)))?;
                Ok(Some(Expr::Array(ast::Array { elem: cast_each(elem, &typed, of), named: true })))
            };
            match without_parentheses(expr) {
                // An empty one needs its type.
                Expr::Array(array) if !array.elem.is_empty() => of_each(std::mem::take(&mut array.elem))?,
                Expr::Value(value) => match &value.value {
                    Value::SingleQuotedString(text) => match base::text::array::parse(text)?.len() {
                        0 => {
                            *without_parentheses(expr) =
                                Expr::Array(ast::Array { elem: Vec::new(), named: true });
                            None
                        }
                        1..=WRITTEN_OUT_MAX => of_each(elements(text, of)?)?,
                        _ => None,
                    },
                    _ => None,
                },
                _ => None,
            }
        }
        Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } => {
            membership(left, &listed(right)?, false)
        }
        Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right } => {
            membership(left, &listed(right)?, true)
        }
        _ => None,
    })
}

/// Elements of an array, and of arrays in it, with a cast to a type.
fn cast_each(elem: Vec<Expr>, cast: &Expr, of: DataType) -> Vec<Expr> {
    let each = elem.into_iter().map(|e| match e {
        Expr::Array(ast::Array { elem, named }) => {
            Expr::Array(ast::Array { elem: cast_each(elem, cast, of), named })
        }
        // Bound already, and cast to what it was declared as.
        Expr::Cast { ref data_type, .. } if names::data_type(data_type).is_ok_and(|is| is == of) => e,
        e => with_operand(cast, e),
    });
    each.collect()
}

fn without_parentheses(e: &mut Expr) -> &mut Expr {
    match e {
        Expr::Nested(inner) => without_parentheses(inner),
        e => e,
    }
}

/// The text of an array as an array: without a type as one of texts without one, which take the type of what they meet.
fn listed(array: &Expr) -> SqlResult<Expr> {
    let mut inner = array;
    let mut of = None;
    loop {
        match inner {
            Expr::Nested(e) => inner = e,
            Expr::Cast { expr, data_type: ast::DataType::Array(element), .. } => {
                // The outermost is what the elements are in the end.
                of = of.or_else(|| element_type(element).and_then(|of| names::data_type(of).ok()));
                inner = expr;
            }
            _ => break,
        }
    }
    let Expr::Value(value) = inner else { return Ok(array.clone()) };
    let Value::SingleQuotedString(text) = &value.value else { return Ok(array.clone()) };
    if let Some(of) = of {
        return Ok(Expr::Array(ast::Array { elem: elements(text, of)?, named: true }));
    }
    let elem = base::text::array::parse(text)?.into_iter();
    let elem = elem.map(|e| constant(e.map_or(Value::Null, Value::SingleQuotedString))).collect();
    Ok(Expr::Array(ast::Array { elem, named: true }))
}

/// `left = ANY(array)` and `left <> ALL(array)` as (NOT) IN.
fn membership(left: &Expr, right: &Expr, negated: bool) -> Option<Expr> {
    match right {
        Expr::Nested(inner) => membership(left, inner, negated),
        Expr::Cast { expr, data_type: ast::DataType::Array(_), .. } => membership(left, expr, negated),
        Expr::Array(array) if array.elem.is_empty() => Some(beside(left, constant(Value::Boolean(negated)))),
        Expr::Array(array) => {
            Some(Expr::InList { expr: Box::new(left.clone()), list: array.elem.clone(), negated })
        }
        Expr::Value(value) if value.value == Value::Null => {
            crate::parse::parse_expr("CAST(NULL AS boolean)").ok().map(|unknown| beside(left, unknown))
        }
        _ => None,
    }
}

/// A constant that an expression does not change; a parameter in it stays one of the statement's.
fn beside(left: &Expr, constant: Expr) -> Expr {
    let is_parameter = |e: &Expr| match placeholder(e) {
        Some(_) => ControlFlow::Break(()),
        None => ControlFlow::Continue(()),
    };
    if walk::expressions(left, is_parameter).is_continue() {
        return constant;
    }
    let is_null = Expr::Nested(Box::new(Expr::IsNull(Box::new(Expr::Nested(Box::new(left.clone()))))));
    let result = Box::new(constant);
    Expr::Case {
        case_token: ast::helpers::attached_token::AttachedToken::empty(),
        end_token: ast::helpers::attached_token::AttachedToken::empty(),
        operand: None,
        conditions: vec![ast::CaseWhen { condition: is_null, result: *result.clone() }],
        else_result: Some(result),
    }
}

fn element_type(of: &ast::ArrayElemTypeDef) -> Option<&ast::DataType> {
    match of {
        ast::ArrayElemTypeDef::SquareBracket(of, _)
        | ast::ArrayElemTypeDef::AngleBracket(of)
        | ast::ArrayElemTypeDef::Parenthesis(of) => Some(of),
        ast::ArrayElemTypeDef::None => None,
    }
}

/// The number (from 0) of a bare parameter.
fn placeholder(e: &Expr) -> Option<usize> {
    match e {
        Expr::Nested(inner) => placeholder(inner),
        Expr::Cast { expr, data_type: ast::DataType::Array(_), .. } => placeholder(expr),
        Expr::Value(value) => match &value.value {
            Value::Placeholder(name) => crate::lower::expr::placeholder(name).ok(),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement(sql: &str) -> Statement {
        crate::parse::parse(sql).unwrap().pop().unwrap()
    }

    #[test]
    fn membership_in_an_array_is_a_list() {
        let mut s = statement("select * from t where a = any($2) and b = $1 and c <> all(array[1, 2])");
        let arrays = parameters(&s, &[]);
        assert_eq!(arrays, BTreeSet::from([1]));
        let mut found = s.clone();
        write_out(&mut found, &arrays).unwrap();
        assert_eq!(found.to_string(), "SELECT * FROM t WHERE a IN ($2) AND b = $1 AND c NOT IN (1, 2)");
        let values = [Datum::Int(7), Datum::text("{1,NULL,-3}")];
        bind(&mut s, &arrays, &[DataType::Integer, DataType::Integer], &values).unwrap();
        assert_eq!(
            s.to_string(),
            "SELECT * FROM t WHERE a IN (1, NULL, CAST('-3' AS INTEGER)) AND b = $1 AND c NOT IN (1, 2)"
        );
    }

    #[test]
    fn a_cast_says_the_elements_type() {
        let mut s =
            statement("select unnest($1::int[]), '{a,b}'::text[], 1 = any('{}'::int[]), (('{1}'))::int[]");
        let arrays = parameters(&s, &[]);
        assert_eq!(arrays, BTreeSet::from([0]));
        bind(&mut s, &arrays, &[DataType::Integer], &[Datum::text("{4,5}")]).unwrap();
        assert_eq!(
            s.to_string(),
            "SELECT unnest(ARRAY[CAST(4 AS INTEGER), CAST(5 AS INTEGER)]), \
             ARRAY[CAST('a' AS TEXT), CAST('b' AS TEXT)], false, ARRAY[CAST(1 AS INTEGER)]"
        );
    }

    #[test]
    fn an_array_without_a_type_holds_what_the_other_side_is() {
        let mut s = statement("select 1 where a = any('{1,NULL,x y}')");
        write_out(&mut s, &BTreeSet::new()).unwrap();
        assert_eq!(s.to_string(), "SELECT 1 WHERE a IN ('1', NULL, 'x y')");
    }

    #[test]
    fn an_array_of_many_elements_is_written_out_only_as_a_list() {
        let many = format!("{{{}}}", vec!["-7"; WRITTEN_OUT_MAX + 1].join(","));
        let bound = |sql: &str| {
            let mut s = statement(sql);
            let arrays = parameters(&s, &[]);
            bind(&mut s, &arrays, &[DataType::Integer], &[Datum::text(many.as_str())]).unwrap();
            s.to_string()
        };
        assert_eq!(bound("select unnest($1::int[])"), {
            format!("SELECT unnest(CAST('{many}' AS INTEGER[])::INT[])")
        });
        let literal = format!("SELECT unnest('{many}'::INT[])");
        assert_eq!(bound(&literal), literal);
        let list = vec!["CAST('-7' AS INTEGER)"; WRITTEN_OUT_MAX + 1].join(", ");
        for sql in ["select 1 where a = any($1)", "select 1 where a = any($1::int[])"] {
            assert_eq!(bound(sql), format!("SELECT 1 WHERE a IN ({list})"));
        }
        assert_eq!(bound(&format!("select 1 where a <> all('{many}'::int[])")), {
            format!("SELECT 1 WHERE a NOT IN ({list})")
        });
    }

    #[test]
    fn null_and_nothing_are_members_of_nothing() {
        let bound = |text: Datum| {
            let mut s = statement("select 1 where 2 = any($1)");
            bind(&mut s, &BTreeSet::from([0]), &[DataType::Integer], &[text]).unwrap();
            s.to_string()
        };
        assert_eq!(bound(Datum::Null), "SELECT 1 WHERE CAST(NULL AS BOOLEAN)");
        assert_eq!(bound(Datum::text("{}")), "SELECT 1 WHERE false");
        let mut s = statement("select $1::int = any(null::int[]), abs($2) <> all('{}'::int[])");
        write_out(&mut s, &BTreeSet::new()).unwrap();
        let unknown = "CAST(NULL AS BOOLEAN)";
        assert_eq!(
            s.to_string(),
            format!(
                "SELECT CASE WHEN (($1::INT) IS NULL) THEN {unknown} ELSE {unknown} END, \
                 CASE WHEN ((abs($2)) IS NULL) THEN true ELSE true END"
            )
        );
    }
}
