//! Arrays in statements: `= ANY($1)`, `$1::int[]`, `'{1,2}'::int[]`.
//!
//! No column is an array, so they only gather constants. They are written out before planning:
//! membership becomes an IN list, which finds its rows by key like any other; elsewhere an array
//! becomes `ARRAY[…]`. A parameter that is an array stands for one element while types are found, and
//! for all of them once it is bound.

use crate::names;
use crate::types::ParameterType;
use crate::walk;
use base::error::SqlResult;
use base::{DataType, Datum};
use sqlparser::ast::{self, BinaryOperator, Expr, Statement, Value};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// What stands for a parameter that is an array.
enum Elements {
    All(Vec<Expr>),
    Null,
}

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
        bound.push((n, elements(&values[n], types[n])?));
    }
    rewrite(statement, &|n, _| {
        let (_, elements) = bound.iter().find(|(at, _)| *at == n)?;
        Some(elements.as_ref().map_or(Elements::Null, |e| Elements::All(e.clone())))
    })
}

/// The elements of an array in text form as constants; `None` for NULL.
fn elements(value: &Datum, data_type: DataType) -> SqlResult<Option<Vec<Expr>>> {
    let Datum::Text(text) = value else { return Ok(None) };
    let constants = base::text::array::parse(text)?.into_iter().map(|element| {
        let Some(element) = element else { return Ok(constant(Value::Null)) };
        // Checked here, so that the message names the element.
        let value = crate::zones::parse(&element, data_type)?;
        Ok(match value {
            Datum::Int(i) if i >= 0 && data_type.enumeration().is_none() => {
                constant(Value::Number(i.to_string(), false))
            }
            Datum::Bool(b) => constant(Value::Boolean(b)),
            _ => cast(constant(Value::SingleQuotedString(element)), data_type)?,
        })
    });
    constants.collect::<SqlResult<Vec<_>>>().map(Some)
}

fn constant(value: Value) -> Expr {
    Expr::Value(value.into())
}

fn cast(e: Expr, data_type: DataType) -> SqlResult<Expr> {
    match data_type {
        DataType::Text | DataType::Varchar { .. } | DataType::Char { .. } => Ok(e),
        _ => crate::parse::parse_expr(&format!("CAST({e} AS {})", type_name(data_type))),
    }
}

/// A type's name as it is written.
fn type_name(data_type: DataType) -> String {
    match data_type {
        DataType::Enum(of) => of.qualified_name(),
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
        },
        Expr::Cast { expr, data_type: ast::DataType::Array(of), .. } => {
            let Some(of) = element_type(of).and_then(|of| names::data_type(of).ok()) else { return Ok(None) };
            let of_each = |elem: Vec<Expr>| {
                let elem = elem.into_iter().map(|e| match e {
                    // Bound already, and cast to what it was declared as.
                    Expr::Cast { ref data_type, .. }
                        if names::data_type(data_type).is_ok_and(|is| is == of) =>
                    {
                        Ok(e)
                    }
                    e => crate::parse::parse_expr(&format!("CAST({e} AS {})", type_name(of))),
                });
                let elem = elem.collect::<SqlResult<Vec<_>>>()?;
                Ok(Some(Expr::Array(ast::Array { elem, named: true })))
            };
            match without_parentheses(expr) {
                // An empty one needs its type.
                Expr::Array(array) if !array.elem.is_empty() => of_each(std::mem::take(&mut array.elem))?,
                Expr::Value(value) => match &value.value {
                    Value::SingleQuotedString(text) => match elements(&Datum::text(text), of)? {
                        Some(elem) if !elem.is_empty() => of_each(elem)?,
                        _ => {
                            *without_parentheses(expr) =
                                Expr::Array(ast::Array { elem: Vec::new(), named: true });
                            None
                        }
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

fn without_parentheses(e: &mut Expr) -> &mut Expr {
    match e {
        Expr::Nested(inner) => without_parentheses(inner),
        e => e,
    }
}

/// The text of an array without a type as an array of texts without one: they take the type of what they meet.
fn listed(array: &Expr) -> SqlResult<Expr> {
    let mut inner = array;
    while let Expr::Nested(e) = inner {
        inner = e;
    }
    let Expr::Value(value) = inner else { return Ok(array.clone()) };
    let Value::SingleQuotedString(text) = &value.value else { return Ok(array.clone()) };
    let elem = base::text::array::parse(text)?.into_iter();
    let elem = elem.map(|e| constant(e.map_or(Value::Null, Value::SingleQuotedString))).collect();
    Ok(Expr::Array(ast::Array { elem, named: true }))
}

/// `left = ANY(array)` and `left <> ALL(array)` as (NOT) IN.
fn membership(left: &Expr, right: &Expr, negated: bool) -> Option<Expr> {
    match right {
        Expr::Nested(inner) => membership(left, inner, negated),
        Expr::Cast { expr, data_type: ast::DataType::Array(_), .. } => membership(left, expr, negated),
        Expr::Array(array) if array.elem.is_empty() => Some(constant(Value::Boolean(negated))),
        Expr::Array(array) => {
            Some(Expr::InList { expr: Box::new(left.clone()), list: array.elem.clone(), negated })
        }
        Expr::Value(value) if value.value == Value::Null => {
            crate::parse::parse_expr("CAST(NULL AS boolean)").ok()
        }
        _ => None,
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
    fn null_and_nothing_are_members_of_nothing() {
        let bound = |text: Datum| {
            let mut s = statement("select 1 where 2 = any($1)");
            bind(&mut s, &BTreeSet::from([0]), &[DataType::Integer], &[text]).unwrap();
            s.to_string()
        };
        assert_eq!(bound(Datum::Null), "SELECT 1 WHERE CAST(NULL AS BOOLEAN)");
        assert_eq!(bound(Datum::text("{}")), "SELECT 1 WHERE false");
    }
}
