//! Scalar expressions that travel with a program and give the same value at every participant.
//!
//! Small on purpose: what one-shot UPDATE, DELETE, CHECK and RETURNING need. Everything richer is
//! planned by the query layer. No volatile function is here: those are evaluated at the gateway and
//! travel as constants.

mod exact;
mod folding;
mod like;
mod math;
mod size;
mod times;

use crate::array_functions::ArrayFunction;
use crate::decimal::Decimal;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::inet::NetworkFunction;
use crate::json::JsonFunction;
use crate::text_functions::TextFunction;
use crate::text_search::SearchFunction;
use crate::{DataType, Datum};
use like::like;
pub use math::float;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::cmp::Ordering;
pub use times::{ZoneFunction, cast_in, converted_in};

/// A scalar expression over one row. Three-valued logic: null is unknown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Expr {
    Column(usize),
    Constant(Datum),
    Unary(UnaryOperator, Box<Expr>),
    Binary(BinaryOperator, Box<Expr>, Box<Expr>),
    IsNull(Box<Expr>),
    /// `a IS NOT DISTINCT FROM b`.
    IsSame(Box<Expr>, Box<Expr>),
    In(Box<Expr>, Vec<Expr>),
    /// `LIKE` with `%`, `_` and backslash as escape; the flag makes it ILIKE.
    Like(Box<Expr>, Box<Expr>, bool),
    /// Searched CASE: conditions with values, then ELSE.
    Case(Vec<(Expr, Expr)>, Option<Box<Expr>>),
    Cast(Box<Expr>, DataType),
    Call(Function, Vec<Expr>),
    /// A cast from a type whose values do not tell it: `real`, `timestamptz`, `integer`.
    Convert(Box<Expr>, DataType, DataType),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UnaryOperator {
    Not,
    Negate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BinaryOperator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Concat,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    And,
    Or,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Function {
    Abs,
    Lower,
    Upper,
    /// Length in characters.
    Length,
    Coalesce,
    NullIf,
    Greatest,
    Least,
    /// `substr(text, start [, count])`, 1-based, in characters.
    Substring,
    Trim,
    Round,
    Floor,
    Ceil,
    Concat,
    Text(TextFunction),
    Trunc,
    Sign,
    Power,
    Sqrt,
    Exp,
    Ln,
    /// To base 10; of two arguments to the first one.
    Log,
    /// `date_trunc(unit, moment)`.
    DateTrunc,
    Json(JsonFunction),
    Zone(ZoneFunction),
    Array(ArrayFunction),
    /// Of full-text search.
    Search(SearchFunction),
    /// Whether a hash partition takes in a row, of its modulus, its remainder and the row's keys.
    HashPartition,
    /// Of addresses.
    Network(NetworkFunction),
}

impl Expr {
    pub fn constant(value: impl Into<Datum>) -> Expr {
        Expr::Constant(value.into())
    }
    /// `column IS NOT NULL`.
    pub fn is_not_null(column: usize) -> Expr {
        Expr::Unary(UnaryOperator::Not, Box::new(Expr::IsNull(Box::new(Expr::Column(column)))))
    }
    /// What is computed of a constant NULL is NULL, whatever the other side is: it is not looked at.
    pub fn binary(operator: BinaryOperator, left: Expr, right: Expr) -> Expr {
        let is_strict = !matches!(operator, BinaryOperator::And | BinaryOperator::Or);
        if is_strict && (left.is_constant_null() || right.is_constant_null()) {
            return Expr::Constant(Datum::Null);
        }
        Expr::Binary(operator, Box::new(left), Box::new(right))
    }
    fn is_constant_null(&self) -> bool {
        match self {
            Expr::Constant(value) => value.is_null(),
            Expr::Unary(_, a) | Expr::Cast(a, _) | Expr::Convert(a, ..) => a.is_constant_null(),
            _ => false,
        }
    }

    /// Value for a row. Errors are SQL errors (division by zero, overflow, …).
    pub fn eval(&self, row: &[Datum]) -> SqlResult<Datum> {
        self.eval_with(&|column| Ok(row.get(column).cloned().unwrap_or_default()))
    }

    /// Value where `column` says what columns are. Errors: its own, and those of [`Expr::eval`].
    pub fn eval_with(&self, column: &dyn Fn(usize) -> SqlResult<Datum>) -> SqlResult<Datum> {
        Ok(match self {
            Expr::Column(i) => column(*i)?,
            Expr::Constant(value) => value.clone(),
            Expr::Unary(operator, inner) => unary(*operator, inner.eval_with(column)?)?,
            Expr::Binary(operator @ (BinaryOperator::And | BinaryOperator::Or), left, right) => {
                // The dominating value decides without the other side.
                let dominant = *operator == BinaryOperator::Or;
                let left = truth(&left.eval_with(column)?)?;
                if left == Some(dominant) {
                    return Ok(Datum::Bool(dominant));
                }
                match (left, truth(&right.eval_with(column)?)?) {
                    (_, Some(right)) if right == dominant => Datum::Bool(dominant),
                    (Some(_), Some(_)) => Datum::Bool(!dominant),
                    _ => Datum::Null,
                }
            }
            Expr::Binary(operator, left, right) if operator.compares() => {
                compared(*operator, &*left.operand(column)?, &*right.operand(column)?)?
            }
            Expr::Binary(operator, left, right) => {
                size::bounded(binary(*operator, left.eval_with(column)?, right.eval_with(column)?)?)?
            }
            Expr::IsNull(inner) => Datum::Bool(inner.eval_with(column)?.is_null()),
            Expr::IsSame(left, right) => {
                let (left, right) = (left.eval_with(column)?, right.eval_with(column)?);
                let is_null = (left.is_null(), right.is_null());
                let is_equal = || left.compare(&right) == Some(Ordering::Equal);
                Datum::Bool(is_null == (true, true) || (is_null == (false, false) && is_equal()))
            }
            Expr::In(needle, list) => {
                let needle = needle.eval_with(column)?;
                let mut unknown = needle.is_null();
                for item in list {
                    match compared(BinaryOperator::Equal, &needle, &*item.operand(column)?)? {
                        Datum::Bool(true) => return Ok(Datum::Bool(true)),
                        Datum::Null => unknown = true,
                        _ => {}
                    }
                }
                if unknown { Datum::Null } else { Datum::Bool(false) }
            }
            Expr::Like(text, pattern, fold) => match (text.eval_with(column)?, pattern.eval_with(column)?) {
                (Datum::Text(text), Datum::Text(pattern)) if *fold => {
                    Datum::Bool(like(&text.to_lowercase(), &pattern.to_lowercase()))
                }
                (Datum::Text(text), Datum::Text(pattern)) => Datum::Bool(like(&text, &pattern)),
                (Datum::Null, _) | (_, Datum::Null) => Datum::Null,
                (left, right) => return Err(no_operator("~~", &left, &right)),
            },
            Expr::Case(branches, otherwise) => {
                for (condition, value) in branches {
                    if truth(&condition.eval_with(column)?)? == Some(true) {
                        return value.eval_with(column);
                    }
                }
                match otherwise {
                    Some(value) => value.eval_with(column)?,
                    None => Datum::Null,
                }
            }
            Expr::Cast(inner, to) => size::bounded(cast(inner.eval_with(column)?, *to)?)?,
            Expr::Convert(inner, from, to) => {
                size::bounded(crate::convert::cast(inner.eval_with(column)?, *from, *to)?)?
            }
            // What stands behind the first value is not looked at.
            Expr::Call(Function::Coalesce, arguments) => {
                for argument in arguments {
                    let value = argument.eval_with(column)?;
                    if !value.is_null() {
                        return Ok(value);
                    }
                }
                Datum::Null
            }
            Expr::Call(function, arguments) => {
                let arguments =
                    arguments.iter().map(|a| a.eval_with(column)).collect::<SqlResult<Vec<_>>>()?;
                size::bounded(call(*function, arguments)?)?
            }
        })
    }

    /// The value as something that is only looked at: a constant is not cloned.
    fn operand(&self, column: &dyn Fn(usize) -> SqlResult<Datum>) -> SqlResult<Cow<'_, Datum>> {
        match self {
            Expr::Constant(value) => Ok(Cow::Borrowed(value)),
            other => other.eval_with(column).map(Cow::Owned),
        }
    }

    /// Whether a row satisfies this condition; unknown does not.
    pub fn holds(&self, row: &[Datum]) -> SqlResult<bool> {
        Ok(truth(&self.eval(row)?)? == Some(true))
    }

    /// Visits this expression and everything inside it.
    pub fn walk(&self, visit: &mut impl FnMut(&Expr)) {
        visit(self);
        match self {
            Expr::Column(_) | Expr::Constant(_) => {}
            Expr::Unary(_, a) | Expr::IsNull(a) | Expr::Cast(a, _) | Expr::Convert(a, ..) => {
                a.walk(visit);
            }
            Expr::Binary(_, a, b) | Expr::IsSame(a, b) | Expr::Like(a, b, _) => {
                a.walk(visit);
                b.walk(visit);
            }
            Expr::In(a, list) => {
                a.walk(visit);
                list.iter().for_each(|e| e.walk(visit));
            }
            Expr::Case(branches, otherwise) => {
                for (condition, value) in branches {
                    condition.walk(visit);
                    value.walk(visit);
                }
                otherwise.iter().for_each(|e| e.walk(visit));
            }
            Expr::Call(_, arguments) => arguments.iter().for_each(|e| e.walk(visit)),
        }
    }
}

/// A truth value, `None` for unknown.
fn truth(value: &Datum) -> SqlResult<Option<bool>> {
    match value {
        Datum::Null => Ok(None),
        Datum::Bool(b) => Ok(Some(*b)),
        other => Err(SqlError::new(
            SqlState::DATATYPE_MISMATCH,
            format!("a condition must be of type boolean, not {}", other.kind()),
        )),
    }
}

fn unary(operator: UnaryOperator, value: Datum) -> SqlResult<Datum> {
    Ok(match (operator, value) {
        (_, Datum::Null) => Datum::Null,
        (UnaryOperator::Not, value) => truth(&value)?.map_or(Datum::Null, |b| Datum::Bool(!b)),
        (UnaryOperator::Negate, Datum::Int(i)) => {
            Datum::Int(i.checked_neg().ok_or_else(|| overflow("bigint"))?)
        }
        (UnaryOperator::Negate, Datum::Float(f)) => Datum::Float(-f),
        (UnaryOperator::Negate, Datum::Decimal(d)) => Datum::Decimal(d.negated()),
        (UnaryOperator::Negate, Datum::Interval(i)) => Datum::Interval(i.checked_neg()?),
        (UnaryOperator::Negate, other) => {
            return Err(SqlError::new(
                SqlState::UNDEFINED_FUNCTION,
                format!("operator does not exist: - {}", other.kind()),
            ));
        }
    })
}

fn binary(operator: BinaryOperator, left: Datum, right: Datum) -> SqlResult<Datum> {
    use BinaryOperator::*;
    if left.is_null() || right.is_null() {
        return Ok(Datum::Null);
    }
    match operator {
        _ if operator.compares() => compared(operator, &left, &right),
        Concat => concat(&[cast(left, DataType::Text)?, cast(right, DataType::Text)?]),
        Add | Subtract | Multiply | Divide | Remainder => arithmetic(operator, left, right),
        _ => unreachable!("AND and OR are decided by eval, comparisons above"),
    }
}

/// One of the comparisons.
fn compared(operator: BinaryOperator, left: &Datum, right: &Datum) -> SqlResult<Datum> {
    use BinaryOperator::*;
    if left.is_null() || right.is_null() {
        return Ok(Datum::Null);
    }
    let order = left.compare(right).ok_or_else(|| no_operator(operator.symbol(), left, right))?;
    Ok(Datum::Bool(match operator {
        Equal => order == Ordering::Equal,
        NotEqual => order != Ordering::Equal,
        Less => order == Ordering::Less,
        LessOrEqual => order != Ordering::Greater,
        Greater => order == Ordering::Greater,
        _ => order != Ordering::Less,
    }))
}

/// Texts of values behind each other, without nulls. Errors: it is too long (54000).
fn concat(values: &[Datum]) -> SqlResult<Datum> {
    let values = || values.iter().filter(|value| !value.is_null());
    let total = values().map(Datum::text_bytes).sum();
    crate::text_bounds::check(total)?;
    let mut all = String::with_capacity(total);
    for value in values() {
        match value {
            Datum::Text(text) => all.push_str(text),
            other => all.push_str(&crate::text::display(other)),
        }
    }
    Ok(Datum::text(all))
}

fn arithmetic(operator: BinaryOperator, left: Datum, right: Datum) -> SqlResult<Datum> {
    use BinaryOperator::*;
    let by_zero = || SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero");
    Ok(match (&left, &right) {
        (Datum::Int(a), Datum::Int(b)) => {
            if matches!(operator, Divide | Remainder) && *b == 0 {
                return Err(by_zero());
            }
            let value = match operator {
                Add => a.checked_add(*b),
                Subtract => a.checked_sub(*b),
                Multiply => a.checked_mul(*b),
                Divide => a.checked_div(*b),
                _ => Some(a.wrapping_rem(*b)),
            };
            Datum::Int(value.ok_or_else(|| overflow("bigint"))?)
        }
        (Datum::Float(_), Datum::Float(_) | Datum::Int(_) | Datum::Decimal(_))
        | (Datum::Int(_) | Datum::Decimal(_), Datum::Float(_)) => {
            let (a, b) = (left.as_f64().expect("numeric"), right.as_f64().expect("numeric"));
            Datum::Float(float(operator, a, b)?)
        }
        (Datum::Decimal(_) | Datum::Int(_), Datum::Decimal(_) | Datum::Int(_)) => {
            let (a, b): (Decimal, Decimal) = (left.decimal(), right.decimal());
            if matches!(operator, Divide | Remainder) && b.units() == 0 {
                return Err(by_zero());
            }
            let value = match operator {
                Add => a.checked_add(b),
                Subtract => a.checked_sub(b),
                Multiply => a.checked_mul(b),
                Divide => a.checked_div(b),
                _ => a.checked_rem(b),
            };
            Datum::Decimal(value.ok_or_else(|| overflow("numeric"))?)
        }
        (Datum::Date(day), Datum::Int(days)) if matches!(operator, Add | Subtract) => {
            let days = if operator == Add { Some(*days) } else { days.checked_neg() };
            let sum = days.and_then(|days| i32::try_from(i64::from(*day).checked_add(days)?).ok());
            let sum = sum.filter(|day| crate::convert::is_date(*day));
            Datum::Date(
                sum.ok_or_else(|| SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "date out of range"))?,
            )
        }
        (Datum::Int(_), Datum::Date(_)) if operator == Add => arithmetic(Add, right, left)?,
        (Datum::Date(a), Datum::Date(b)) if operator == Subtract => Datum::Int(i64::from(*a) - i64::from(*b)),
        _ => match times::arithmetic(operator, &left, &right)? {
            Some(value) => value,
            None => return Err(no_operator(operator.symbol(), &left, &right)),
        },
    })
}

/// An explicit cast of a value whose type is its kind's own.
pub fn cast(value: Datum, to: DataType) -> SqlResult<Datum> {
    let from = match &value {
        Datum::Null => return Ok(Datum::Null),
        Datum::Int(_) if to == DataType::Boolean => DataType::Integer,
        value => value.own_type().unwrap_or(to),
    };
    crate::convert::cast(value, from, to)
}

fn call(function: Function, mut arguments: Vec<Datum>) -> SqlResult<Datum> {
    use Function::*;
    match function {
        Coalesce => return Ok(arguments.into_iter().find(|a| !a.is_null()).unwrap_or_default()),
        NullIf => {
            let same = arguments.len() == 2 && arguments[0].compare(&arguments[1]) == Some(Ordering::Equal);
            return Ok(if same { Datum::Null } else { std::mem::take(&mut arguments[0]) });
        }
        Greatest | Least => {
            let keep = if function == Greatest { Ordering::Greater } else { Ordering::Less };
            let present = arguments.into_iter().filter(|a| !a.is_null());
            return Ok(present
                .reduce(|best, next| if next.compare(&best) == Some(keep) { next } else { best })
                .unwrap_or_default());
        }
        Concat => return concat(&arguments),
        Json(function) => return crate::json::call(function, &arguments),
        Search(function) => return size::bounded(crate::text_search::call(function, &arguments)?),
        Network(function) => return crate::inet::call(function, &arguments),
        Array(function) => return size::bounded(crate::array_functions::call(function, &arguments)?),
        HashPartition => return crate::partitioning::hash::call(&arguments),
        _ => {}
    }
    if arguments.iter().any(Datum::is_null) {
        return Ok(Datum::Null);
    }
    Ok(match (function, arguments.as_slice()) {
        (Text(function), arguments) => crate::text_functions::call(function, arguments)?,
        (DateTrunc | Zone(_), arguments) => times::call(function, arguments)?,
        (Abs, [Datum::Int(i)]) => Datum::Int(i.checked_abs().ok_or_else(|| overflow("bigint"))?),
        (Abs, [Datum::Float(f)]) => Datum::Float(f.abs()),
        (Abs, [Datum::Decimal(d)]) => Datum::Decimal(d.abs()),
        (Power | Sqrt | Exp | Ln | Log, arguments) if let Some(value) = math::call(function, arguments)? => {
            value
        }
        (Lower, [Datum::Text(s)]) => Datum::text(s.chars().map(lower).collect::<String>()),
        (Upper, [Datum::Text(s)]) => Datum::text(s.chars().map(upper).collect::<String>()),
        (Length, [Datum::Text(s)]) => Datum::Int(s.chars().count() as i64),
        (Length, [Datum::Bytes(b)]) => Datum::Int(b.len() as i64),
        (Trim, [Datum::Text(s)]) => Datum::text(s.trim_matches(' ')),
        (Substring, [Datum::Text(s), Datum::Int(start)]) => {
            Datum::text(s.chars().skip(start.saturating_sub(1).max(0) as usize).collect::<String>())
        }
        (Substring, [Datum::Text(s), Datum::Int(start), Datum::Int(count)]) => {
            if *count < 0 {
                return Err(SqlError::new(SqlState(*b"22011"), "negative substring length not allowed"));
            }
            // Positions before the first character count, as in PostgreSQL.
            let end = start.saturating_add(*count).max(1) - 1;
            let skip = start.saturating_sub(1).max(0);
            Datum::text(s.chars().skip(skip as usize).take((end - skip).max(0) as usize).collect::<String>())
        }
        (Round | Floor | Ceil | Trunc, [Datum::Int(i)]) => Datum::Int(*i),
        (Round, [Datum::Float(f)]) => Datum::Float(f.round_ties_even()),
        (Floor, [Datum::Float(f)]) => Datum::Float(f.floor()),
        (Ceil, [Datum::Float(f)]) => Datum::Float(f.ceil()),
        (Trunc, [Datum::Float(f)]) => Datum::Float(f.trunc()),
        (Sign, [Datum::Float(f)]) => {
            Datum::Float(if *f > 0.0 { 1.0 } else { f64::from(-i8::from(*f < 0.0)) })
        }
        (Sign, [Datum::Int(i)]) => Datum::Int(i.signum()),
        (Sign, [Datum::Decimal(d)]) => Datum::Decimal(Decimal::new(d.units().signum(), 0)),
        (Round, [value @ (Datum::Decimal(_) | Datum::Int(_)), Datum::Int(scale)]) => {
            Datum::Decimal(value.decimal().round_at(*scale).ok_or_else(|| overflow("numeric"))?)
        }
        (Trunc, [value @ (Datum::Decimal(_) | Datum::Int(_)), Datum::Int(scale)]) => {
            Datum::Decimal(value.decimal().trunc_at(*scale).ok_or_else(|| overflow("numeric"))?)
        }
        (Round, [Datum::Decimal(d)]) => Datum::Decimal(d.rescale(0).ok_or_else(|| overflow("numeric"))?),
        (Trunc, [Datum::Decimal(d)]) => Datum::Decimal(d.trunc_at(0).ok_or_else(|| overflow("numeric"))?),
        (Floor | Ceil, [Datum::Decimal(d)]) => {
            let whole = d.trunc_at(0).ok_or_else(|| overflow("numeric"))?;
            let step =
                i128::from(function == Ceil && whole < *d) - i128::from(function == Floor && whole > *d);
            Datum::Decimal(Decimal::new(whole.units() + step, 0))
        }
        (_, arguments) => {
            let kinds: Vec<_> = arguments.iter().map(Datum::kind).collect();
            let name = format!("{function:?}").to_lowercase();
            return Err(SqlError::new(
                SqlState::UNDEFINED_FUNCTION,
                format!("function {name}({}) does not exist", kinds.join(", ")),
            ));
        }
    })
}

/// One character for one, as PostgreSQL maps them: `ß` has no capital.
fn lower(c: char) -> char {
    let mut mapped = c.to_lowercase();
    match (mapped.next(), mapped.next()) {
        (Some(single), None) => single,
        _ => c,
    }
}
fn upper(c: char) -> char {
    let mut mapped = c.to_uppercase();
    match (mapped.next(), mapped.next()) {
        (Some(single), None) => single,
        _ => c,
    }
}

fn overflow(what: &str) -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{what} out of range"))
}

fn no_operator(symbol: &str, left: &Datum, right: &Datum) -> SqlError {
    SqlError::new(
        SqlState::UNDEFINED_FUNCTION,
        format!("operator does not exist: {} {symbol} {}", left.kind(), right.kind()),
    )
    .hint("No operator matches the given name and argument types. You might need to add explicit type casts.")
}

impl BinaryOperator {
    fn compares(self) -> bool {
        use BinaryOperator::*;
        matches!(self, Equal | NotEqual | Less | LessOrEqual | Greater | GreaterOrEqual)
    }
    pub fn symbol(self) -> &'static str {
        use BinaryOperator::*;
        match self {
            Add => "+",
            Subtract => "-",
            Multiply => "*",
            Divide => "/",
            Remainder => "%",
            Concat => "||",
            Equal => "=",
            NotEqual => "<>",
            Less => "<",
            LessOrEqual => "<=",
            Greater => ">",
            GreaterOrEqual => ">=",
            And => "AND",
            Or => "OR",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use BinaryOperator::*;

    fn op(operator: BinaryOperator, a: impl Into<Datum>, b: impl Into<Datum>) -> SqlResult<Datum> {
        Expr::binary(operator, Expr::constant(a), Expr::constant(b)).eval(&[])
    }

    #[test]
    fn arithmetic_is_checked() {
        assert_eq!(op(Add, 2, 3), Ok(Datum::Int(5)));
        assert_eq!(op(Divide, 7, 2), Ok(Datum::Int(3)));
        assert_eq!(op(Divide, 7, 0).unwrap_err().state, SqlState::DIVISION_BY_ZERO);
        assert_eq!(op(Add, i64::MAX, 1).unwrap_err().state, SqlState::NUMERIC_VALUE_OUT_OF_RANGE);
        assert_eq!(op(Add, "a", 1).unwrap_err().state, SqlState::UNDEFINED_FUNCTION);
    }

    #[test]
    fn unknown_is_neither_true_nor_false() {
        let null = || Expr::Constant(Datum::Null);
        let eval = |e: Expr| e.eval(&[]).unwrap();
        assert_eq!(eval(Expr::binary(And, null(), Expr::constant(false))), Datum::Bool(false));
        assert_eq!(eval(Expr::binary(And, null(), Expr::constant(true))), Datum::Null);
        assert_eq!(eval(Expr::binary(Or, null(), Expr::constant(true))), Datum::Bool(true));
        assert_eq!(eval(Expr::In(Box::new(Expr::constant(1)), vec![Expr::constant(2), null()])), Datum::Null);
        assert!(!Expr::binary(Equal, null(), null()).holds(&[]).unwrap());
    }
}
