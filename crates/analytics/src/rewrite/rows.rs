//! Rows that are compared: `(a, b) = (c, d)`, `(a, b) < (c, d)`, `(a, b) IN ((1, 2), …)`, `ROW(a, b) IS NULL`.
//!
//! They are written out element by element, which gives them the three values that PostgreSQL gives them: what an
//! unknown element decides is unknown, what another one decides is not.

use base::error::SqlResult;
use base::{SqlError, SqlState};
use datafusion::sql::sqlparser::ast::{self, BinaryOperator, Expr, UnaryOperator};

/// The comparison without rows; `None` if it is none of rows. Errors: 42601 if they are of different lengths.
pub(super) fn written_out(e: &Expr) -> SqlResult<Option<Expr>> {
    match e {
        Expr::BinaryOp { left, op, right } => match (elements(left), elements(right)) {
            (Some(a), Some(b)) => compared(&a, op, &b),
            _ => Ok(None),
        },
        Expr::IsDistinctFrom(left, right) => distinct(left, right, false),
        Expr::IsNotDistinctFrom(left, right) => distinct(left, right, true),
        Expr::InList { expr, list, negated } => {
            let (Some(row), Some(items)) =
                (elements(expr), list.iter().map(elements).collect::<Option<Vec<_>>>())
            else {
                return Ok(None);
            };
            let equal = items.iter().map(|item| compared(&row, &BinaryOperator::Eq, item));
            let Some(equal) = equal.collect::<SqlResult<Option<Vec<_>>>>()? else { return Ok(None) };
            if equal.is_empty() {
                return Ok(None);
            }
            let any = chained(equal, &BinaryOperator::Or);
            Ok(Some(if *negated { not(any) } else { any }))
        }
        Expr::IsNull(inner) => Ok(all_are(inner, |e| Expr::IsNull(Box::new(e)))),
        Expr::IsNotNull(inner) => Ok(all_are(inner, |e| Expr::IsNotNull(Box::new(e)))),
        _ => Ok(None),
    }
}

/// The elements of a row as it is written.
fn elements(e: &Expr) -> Option<Vec<Expr>> {
    match e {
        Expr::Tuple(elements) => Some(elements.clone()),
        Expr::Nested(inner) => match inner.as_ref() {
            Expr::Tuple(_) | Expr::Function(_) => elements(inner),
            _ => None,
        },
        Expr::Function(call) if call.over.is_none() && call.name.to_string().eq_ignore_ascii_case("row") => {
            let ast::FunctionArguments::List(list) = &call.args else { return None };
            list.args
                .iter()
                .map(|argument| match argument {
                    ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(e)) => Some(e.clone()),
                    _ => None,
                })
                .collect()
        }
        _ => None,
    }
}

fn nested(e: Expr) -> Expr {
    Expr::Nested(Box::new(e))
}

fn not(e: Expr) -> Expr {
    nested(Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(nested(e)) })
}

fn joined(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    nested(Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) })
}

/// A chain of operands, as a tree that is no deeper than it has to be.
fn chained(operands: Vec<Expr>, op: &BinaryOperator) -> Expr {
    sql::parse::balanced(operands, &|left, right| joined(left, op.clone(), right))
}

fn refuse_lengths(a: &[Expr], b: &[Expr]) -> SqlResult<()> {
    match () {
        () if a.len() != b.len() => {
            Err(SqlError::new(SqlState::SYNTAX_ERROR, "unequal number of entries in row expressions"))
        }
        () if a.is_empty() => {
            Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "cannot compare rows of zero length"))
        }
        () => Ok(()),
    }
}

fn compared(a: &[Expr], op: &BinaryOperator, b: &[Expr]) -> SqlResult<Option<Expr>> {
    use BinaryOperator as B;
    if !matches!(op, B::Eq | B::NotEq | B::Lt | B::LtEq | B::Gt | B::GtEq) {
        return Ok(None);
    }
    refuse_lengths(a, b)?;
    let pair = |n: usize, op: B| joined(nested(a[n].clone()), op, nested(b[n].clone()));
    let last = a.len() - 1;
    let all = |op: B, between: B| chained((0..=last).map(|n| pair(n, op.clone())).collect(), &between);
    Ok(Some(match op {
        B::Eq => all(B::Eq, B::And),
        B::NotEq => all(B::NotEq, B::Or),
        op => {
            // The first elements that differ decide; the last ones may be equal too, if the operator says so.
            let strict = if matches!(op, B::Lt | B::LtEq) { B::Lt } else { B::Gt };
            (0..last).rev().fold(pair(last, op.clone()), |behind, n| {
                let equal = joined(pair(n, B::Eq), B::And, behind);
                joined(pair(n, strict.clone()), B::Or, equal)
            })
        }
    }))
}

fn distinct(left: &Expr, right: &Expr, negated: bool) -> SqlResult<Option<Expr>> {
    let (Some(a), Some(b)) = (elements(left), elements(right)) else { return Ok(None) };
    refuse_lengths(&a, &b)?;
    let pairs = a.into_iter().zip(b).map(|(a, b)| {
        let (a, b) = (Box::new(nested(a)), Box::new(nested(b)));
        nested(if negated { Expr::IsNotDistinctFrom(a, b) } else { Expr::IsDistinctFrom(a, b) })
    });
    let between = if negated { BinaryOperator::And } else { BinaryOperator::Or };
    Ok(Some(chained(pairs.collect(), &between)))
}

/// A row is NULL if all its elements are, and is not if none is.
fn all_are(row: &Expr, test: impl Fn(Expr) -> Expr) -> Option<Expr> {
    let tests: Vec<Expr> = elements(row)?.into_iter().map(|e| nested(test(nested(e)))).collect();
    (!tests.is_empty()).then(|| chained(tests, &BinaryOperator::And))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_compared_element_by_element() {
        for (sql, wanted) in [
            ("(a, b) = (1, 2)", "(((a) = (1)) AND ((b) = (2)))"),
            ("row(a, b) <> (1, 2)", "(((a) <> (1)) OR ((b) <> (2)))"),
            ("(a, b) <= (1, 2)", "(((a) < (1)) OR (((a) = (1)) AND ((b) <= (2))))"),
            ("row(a, b) is null", "(((a) IS NULL) AND ((b) IS NULL))"),
            ("(a, b) not in ((1, 2))", "(NOT ((((a) = (1)) AND ((b) = (2)))))"),
        ] {
            let e = sql::parse::parse_expr(sql).unwrap();
            assert_eq!(written_out(&e).unwrap().unwrap().to_string(), wanted, "{sql}");
        }
        for sql in ["a = 1", "(a) in (1, 2)", "(a, b) in (select 1, 2)"] {
            assert_eq!(written_out(&sql::parse::parse_expr(sql).unwrap()).unwrap(), None, "{sql}");
        }
        let uneven = sql::parse::parse_expr("(a, b) = (1, 2, 3)").unwrap();
        assert_eq!(written_out(&uneven).unwrap_err().state, SqlState::SYNTAX_ERROR);
    }
}
