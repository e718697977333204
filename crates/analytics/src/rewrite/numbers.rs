//! Numbers as the planner can calculate with them.

use base::SqlError;
use base::error::SqlResult;
use datafusion::sql::sqlparser::ast::{self, Expr};

/// A numeral cast to `numeric` without precision, with the scale that it has.
pub(super) fn exact_numeric(e: &Expr) -> Option<ast::DataType> {
    let Expr::Value(value) = e else { return None };
    let (ast::Value::Number(text, _) | ast::Value::SingleQuotedString(text)) = &value.value else {
        return None;
    };
    let scale = base::decimal::Decimal::parse(text.trim())?.scale();
    let precision = u64::from(base::decimal::PRECISION_MAX);
    Some(ast::DataType::Numeric(ast::ExactNumberInfo::PrecisionAndScale(precision, i64::from(scale))))
}

/// A number with an exponent or very many digits, as the planner can calculate with it: with all its digits and no
/// exponent, whose negative scales overflow there, or as a `double precision` if they are too many. Errors: 22003.
pub(super) fn plain_number(value: &ast::Value) -> SqlResult<Option<Expr>> {
    let ast::Value::Number(text, is_long) = value else { return Ok(None) };
    let has_exponent = text.contains(['e', 'E']);
    if !has_exponent && text.len() <= usize::from(base::decimal::PRECISION_MAX) {
        return Ok(None);
    }
    let Some(decimal) = base::decimal::Decimal::parse(text) else {
        let is_finite = text.parse::<f64>().is_ok_and(f64::is_finite);
        if !is_finite {
            let told = format!("number {text} is out of range");
            return Err(SqlError::new(base::SqlState::NUMERIC_VALUE_OUT_OF_RANGE, told));
        }
        return sql::parse::parse_expr(&format!("CAST('{text}' AS double precision)")).map(Some);
    };
    // With its point a whole number stays a numeric.
    let digits = decimal.to_string();
    let digits = if has_exponent && decimal.scale() == 0 { format!("{digits}.") } else { digits };
    Ok(Some(Expr::value(ast::Value::Number(digits, *is_long))))
}
