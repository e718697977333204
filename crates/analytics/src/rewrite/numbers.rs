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
        return Ok(beyond_bigint(text).then(|| Expr::value(ast::Value::Number(format!("{text}."), *is_long))));
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

/// A whole number just beyond a `bigint`, which the planner takes for one without a sign.
fn beyond_bigint(text: &str) -> bool {
    text.parse::<i64>().is_err() && text.parse::<u64>().is_ok()
}

/// A number with several signs, or one in front of parentheses, with one or none: `-(2147483648)` is an `integer`, and
/// `- -2147483648` a `bigint`. `None` for others.
pub(super) fn signed(e: &Expr) -> Option<Expr> {
    let Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr } = e else { return None };
    let mut inner = expr.as_ref();
    while let Expr::Nested(nested) = inner {
        inner = nested;
    }
    let numeral = |e: &Expr| match e {
        Expr::Value(value) => match &value.value {
            ast::Value::Number(digits, _) => Some(digits.clone()),
            _ => None,
        },
        _ => None,
    };
    let number = |digits: String| Expr::value(ast::Value::Number(digits, false));
    match inner {
        Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr: positive } => {
            let digits = numeral(positive)?;
            Some(number(if beyond_bigint(&digits) { format!("{digits}.") } else { digits }))
        }
        value => {
            let digits = numeral(value)?;
            // With its sign it is a bigint after all.
            let least = digits.strip_suffix('.').filter(|whole| *whole == "9223372036854775808");
            let digits = least.map_or_else(|| digits.clone(), str::to_string);
            let expr = Box::new(number(digits));
            Some(Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr })
        }
    }
}

/// A prefix operator that the planner does not have, in other words: `~x`, `@ x`, `|/ x`, `||/ x`. `None` for others.
pub(super) fn as_call(e: &Expr) -> Option<Expr> {
    use ast::UnaryOperator as U;
    let Expr::UnaryOp { op, expr } = e else { return None };
    let text = match op {
        // In the number's own type.
        U::BitwiseNot => format!("(({expr}) # CAST(-1 AS smallint))"),
        U::PGAbs => format!("abs({expr})"),
        U::PGSquareRoot => format!("sqrt({expr})"),
        U::PGPrefixFactorial => format!("{}({expr})", sql::text_search::NOT),
        U::PGCubeRoot => format!("cbrt({expr})"),
        _ => return None,
    };
    sql::parse::parse_expr(&text).ok()
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
