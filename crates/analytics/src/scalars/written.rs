//! Expressions that the parser reads otherwise than PostgreSQL, put right before planning.

use datafusion::sql::sqlparser::ast::{self, BinaryOperator, Expr, UnaryOperator};

/// `-a ^ b` is `(-a) ^ b`: a sign binds tighter than a power.
pub(in super::super) fn power_of_negative(e: &Expr) -> Option<Expr> {
    let Expr::UnaryOp { op: op @ (UnaryOperator::Minus | UnaryOperator::Plus), expr } = e else {
        return None;
    };
    let Expr::BinaryOp { left, op: BinaryOperator::PGExp, right } = expr.as_ref() else { return None };
    let signed = Expr::UnaryOp { op: *op, expr: left.clone() };
    let left = power_of_negative(&signed).unwrap_or(signed);
    Some(Expr::BinaryOp { left: Box::new(left), op: BinaryOperator::PGExp, right: right.clone() })
}

/// `interval '90' day` as a cast of its text, which is read as PostgreSQL reads it.
pub(in super::super) fn cast_to_interval(interval: &ast::Interval) -> Option<Expr> {
    let ast::Interval {
        value,
        leading_field,
        leading_precision: None,
        last_field: None,
        fractional_seconds_precision: None,
    } = interval
    else {
        return None;
    };
    let Expr::Value(value) = value.as_ref() else { return None };
    let ast::Value::SingleQuotedString(text) = &value.value else { return None };
    let text = match leading_field {
        None => text.clone(),
        // The unit counts only for a number alone.
        Some(unit) if text.trim().parse::<f64>().is_ok() => format!("{text} {unit}").to_lowercase(),
        Some(_) => return None,
    };
    sql::parse::parse_expr(&format!("CAST('{}' AS INTERVAL)", text.replace('\'', "''"))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_binds_tighter_than_a_power() {
        let made = power_of_negative(&sql::parse::parse_expr("-3 ^ 2 ^ 2").unwrap()).unwrap();
        let mut left = &made;
        while let Expr::BinaryOp { left: inner, .. } = left {
            left = inner;
        }
        assert!(matches!(left, Expr::UnaryOp { op: UnaryOperator::Minus, .. }), "{made:?}");
    }
}
