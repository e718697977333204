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

/// Makes a whole number, or an array of them, the `integer` that it is in PostgreSQL if it fits; the planner takes it for a
/// `bigint`. Beside an operator its type is settled with that of the other operand.
pub(super) fn as_integer(e: &mut Expr) {
    if !is_integer(e) {
        return;
    }
    let integer = ast::DataType::Integer(None);
    let data_type = match &*e {
        Expr::Array(_) => ast::DataType::Array(ast::ArrayElemTypeDef::SquareBracket(Box::new(integer), None)),
        _ => integer,
    };
    let expr = Box::new(std::mem::replace(e, Expr::value(ast::Value::Null)));
    *e = Expr::Cast { kind: ast::CastKind::Cast, expr, data_type, array: false, format: None };
}

/// The argument that gives a function its type, as such a number.
pub(super) fn integer_argument(call: &mut ast::Function) {
    const OF_ROWS: &[&str] =
        &["any_value", "array_agg", "bit_and", "bit_or", "bit_xor", "max", "min", "unnest"];
    const OF_WINDOWS: &[&str] = &["first_value", "lag", "last_value", "lead", "nth_value"];
    let Some(name) = sql::names::parts(&call.name).ok().and_then(|mut parts| parts.pop()) else { return };
    let is_of_its_type = |names: &[&str]| names.contains(&name.as_str());
    if !is_of_its_type(OF_ROWS) && !(call.over.is_some() && is_of_its_type(OF_WINDOWS)) {
        return;
    }
    if let ast::FunctionArguments::List(list) = &mut call.args
        && let Some(ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(e))) = list.args.first_mut()
    {
        as_integer(e);
    }
}

/// Whether an expression is a whole number that is an `integer`, or an array of such numbers.
pub(super) fn is_integer(e: &Expr) -> bool {
    match e {
        Expr::Array(array) => !array.elem.is_empty() && array.elem.iter().all(is_integer_number),
        e => is_integer_number(e),
    }
}

fn is_integer_number(e: &Expr) -> bool {
    match e {
        Expr::Nested(inner) => is_integer_number(inner),
        Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr } => match expr.as_ref() {
            // The least integer has no positive counterpart.
            Expr::Value(value) => {
                matches!(&value.value, ast::Value::Number(digits, _) if is_i32(&format!("-{digits}")))
            }
            e => is_integer_number(e),
        },
        Expr::UnaryOp { op: ast::UnaryOperator::Plus, expr } => is_integer_number(expr),
        Expr::Value(value) => match &value.value {
            ast::Value::Number(digits, _) => is_i32(digits),
            _ => false,
        },
        _ => false,
    }
}

fn is_i32(digits: &str) -> bool {
    digits.parse::<i32>().is_ok()
}
