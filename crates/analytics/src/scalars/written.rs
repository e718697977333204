//! Expressions that the parser reads otherwise than PostgreSQL, put right before planning.

use base::error::SqlResult;
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

/// `interval '90' day` as a cast of its text, which is read as PostgreSQL reads it. Errors: 22007 and 22008 for a text that is
/// not of the fields that are named.
pub(in super::super) fn cast_to_interval(interval: &ast::Interval) -> SqlResult<Option<Expr>> {
    let Expr::Value(value) = interval.value.as_ref() else { return Ok(None) };
    let ast::Value::SingleQuotedString(text) = &value.value else { return Ok(None) };
    let is_of_one = interval.last_field.is_none() && interval.leading_precision.is_none();
    let text = match &interval.leading_field {
        None => text.clone(),
        // The unit counts only for a number alone.
        Some(unit) if is_of_one && text.trim().parse::<f64>().is_ok() => {
            format!("{text} {unit}").to_lowercase()
        }
        Some(first) => {
            let word = |field: &ast::DateTimeField| field.to_string().to_lowercase();
            let last = interval.last_field.as_ref().unwrap_or(first);
            let digits = interval.fractional_seconds_precision.or(interval.leading_precision);
            let digits = digits.map(|digits| u32::try_from(digits).unwrap_or(u32::MAX));
            let span = base::interval::of_fields(text, &word(first), &word(last), digits)?;
            format!("{} months {} days {} microseconds", span.months, span.days, span.us)
        }
    };
    sql::parse::parse_expr(&format!("CAST('{}' AS INTERVAL)", text.replace('\'', "''"))).map(Some)
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
