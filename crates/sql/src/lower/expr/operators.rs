//! Operators: arithmetic, comparison, logic.

use super::typing::*;
use super::*;
use crate::networks;
use base::expr::ZoneFunction;

impl ExprLowering<'_> {
    pub(in crate::lower) fn unary(&mut self, operator: ast::UnaryOperator, e: &ast::Expr) -> Lowered<Typed> {
        match operator {
            ast::UnaryOperator::Not => Ok(not(boolean(self.condition(e, "NOT")?))),
            ast::UnaryOperator::Plus => self.number(e),
            ast::UnaryOperator::Minus => {
                // A number is read with its signs: -2147483648 is an integer, and - -2147483648 is none.
                if let Some(numeral) = negated(e) {
                    return number(&numeral);
                }
                // A negative constant stays one, so that it can be a key.
                let value = self.number(e)?;
                let data_type = value.data_type();
                let is_constant = matches!(value.expr, Expr::Constant(_));
                let negated = in_bounds(Expr::Unary(UnaryOperator::Negate, Box::new(value.expr)), data_type);
                let folded = if is_constant { Expr::Constant(negated.eval(&[])?) } else { negated };
                Ok(Typed::known(folded, data_type))
            }
            // Of an address.
            ast::UnaryOperator::BitwiseNot => {
                let value = self.lower(e)?;
                let all = Typed::known(Expr::Constant(Datum::Int(-1)), DataType::Integer);
                self.search_of(value, &ast::BinaryOperator::PGBitwiseXor, all)
            }
            _ => Err(Refusal::TooRich),
        }
    }

    /// LIKE and ILIKE as operators.
    fn pattern(&mut self, text: &ast::Expr, op: &ast::BinaryOperator, pattern: &ast::Expr) -> Lowered<Typed> {
        use ast::BinaryOperator as B;
        let (fold, negated) = match op {
            B::PGLikeMatch => (false, false),
            B::PGNotLikeMatch => (false, true),
            B::PGILikeMatch => (true, false),
            B::PGNotILikeMatch => (true, true),
            _ => return Err(Refusal::TooRich),
        };
        self.like(text, pattern, fold, negated)
    }

    pub(in crate::lower) fn binary(
        &mut self,
        left: &ast::Expr,
        op: &ast::BinaryOperator,
        right: &ast::Expr,
    ) -> Lowered<Typed> {
        use ast::BinaryOperator as B;
        if let Some(json) = self.json_operator(left, op, right)? {
            return Ok(json);
        }
        let operator = match op {
            B::And | B::Or => {
                let word = if *op == B::And { "AND" } else { "OR" };
                let operator = if *op == B::And { BinaryOperator::And } else { BinaryOperator::Or };
                let (left, right) = (self.condition(left, word)?, self.condition(right, word)?);
                return Ok(boolean(Expr::binary(operator, left, right)));
            }
            B::Eq => BinaryOperator::Equal,
            B::NotEq => BinaryOperator::NotEqual,
            B::Lt => BinaryOperator::Less,
            B::LtEq => BinaryOperator::LessOrEqual,
            B::Gt => BinaryOperator::Greater,
            B::GtEq => BinaryOperator::GreaterOrEqual,
            B::Plus => BinaryOperator::Add,
            B::Minus => BinaryOperator::Subtract,
            B::Multiply => BinaryOperator::Multiply,
            B::Divide => BinaryOperator::Divide,
            B::Modulo => BinaryOperator::Remainder,
            B::StringConcat => BinaryOperator::Concat,
            op if networks::has_operator(DataType::Inet, op) => {
                let (left, right) = (self.lower(left)?, self.lower(right)?);
                return self.search_of(left, op, right);
            }
            op => return self.pattern(left, op, right),
        };
        // (a, b) = (1, 2)
        if let (ast::Expr::Tuple(a), ast::Expr::Tuple(b)) = (left, right) {
            if operator != BinaryOperator::Equal || a.len() != b.len() {
                return Err(Refusal::TooRich);
            }
            let mut all: Option<Expr> = None;
            for (a, b) in a.iter().zip(b) {
                let (a, b) = (self.lower(a)?, self.lower(b)?);
                let one = self.compare(operator, a, b)?.expr;
                all = Some(match all {
                    None => one,
                    Some(before) => Expr::binary(BinaryOperator::And, before, one),
                });
            }
            return Ok(boolean(all.ok_or(Refusal::TooRich)?));
        }
        let (left, right) = (self.lower(left)?, self.lower(right)?);
        match operator {
            BinaryOperator::Concat | BinaryOperator::Subtract
                if is_json_or_search(&left) || is_json_or_search(&right) =>
            {
                self.json_of(left, op, right)
            }
            BinaryOperator::Add | BinaryOperator::Subtract if is_address(&left) || is_address(&right) => {
                self.search_of(left, op, right)
            }
            _ => self.operated(operator, left, right),
        }
    }

    /// An operator over sides of which none is JSON.
    fn operated(&mut self, operator: BinaryOperator, left: Typed, right: Typed) -> Lowered<Typed> {
        match operator {
            // What is put together with an array is an array, with bytes it is bytes.
            BinaryOperator::Concat if is_list(&left) || is_list(&right) => Err(Refusal::TooRich),
            BinaryOperator::Concat => {
                let (left, right) =
                    (self.resolve(left, DataType::Text)?, self.resolve(right, DataType::Text)?);
                if family(left.data_type()) != Family::Text && family(right.data_type()) != Family::Text {
                    return Err(no_operator("||", left.data_type(), right.data_type()).into());
                }
                // The other side's own text: a `real` has fewer digits than the double that holds it.
                let (left, right) = (convert(left, DataType::Text)?, convert(right, DataType::Text)?);
                Ok(Typed::known(Expr::binary(operator, left.expr, right.expr), DataType::Text))
            }
            BinaryOperator::Add
            | BinaryOperator::Subtract
            | BinaryOperator::Multiply
            | BinaryOperator::Divide
            | BinaryOperator::Remainder => self.arithmetic(operator, left, right),
            _ => Ok(self.compare(operator, left, right)?),
        }
    }

    pub(in crate::lower) fn compare(
        &mut self,
        operator: BinaryOperator,
        left: Typed,
        right: Typed,
    ) -> SqlResult<Typed> {
        let (left, right) = self.comparable(operator, left, right)?;
        Ok(boolean(Expr::binary(operator, left.expr, right.expr)))
    }

    /// Types both sides so that they compare. Errors: 42883.
    pub(in crate::lower) fn comparable(
        &mut self,
        operator: BinaryOperator,
        left: Typed,
        right: Typed,
    ) -> SqlResult<(Typed, Typed)> {
        let (left, right) = match (left.kind, right.kind) {
            (Kind::Known(data_type), _) => (left, self.resolve(right, data_type)?),
            (_, Kind::Known(data_type)) => (self.resolve(left, data_type)?, right),
            _ => (self.resolve(left, DataType::Text)?, self.resolve(right, DataType::Text)?),
        };
        let (left, right) = alike(left, right)?;
        let (a, b) = (left.data_type(), right.data_type());
        if family(a) != family(b) || family(a) == Family::Json {
            return Err(no_operator(operator.symbol(), a, b));
        }
        let is_equality = matches!(operator, BinaryOperator::Equal | BinaryOperator::NotEqual);
        if matches!(family(a), Family::Document | Family::Search) && !is_equality {
            return Err(SqlError::unsupported(format!("operator {} of {}", operator.symbol(), bare_name(a))));
        }
        Ok(match b {
            DataType::TimestampTz => (zoned(left, b)?, right),
            _ => (left, zoned(right, a)?),
        })
    }

    pub(in crate::lower) fn arithmetic(
        &mut self,
        operator: BinaryOperator,
        left: Typed,
        right: Typed,
    ) -> Lowered<Typed> {
        let either = |kind: Kind| match kind {
            // A date meets a number of days, a moment an interval; everything else its own kind.
            Kind::Known(DataType::Date) => Some(DataType::Integer),
            Kind::Known(DataType::Timestamp | DataType::TimestampTz) if operator == BinaryOperator::Add => {
                Some(DataType::Interval)
            }
            Kind::Known(DataType::Interval)
                if matches!(operator, BinaryOperator::Multiply | BinaryOperator::Divide) =>
            {
                Some(DataType::Double)
            }
            Kind::Known(DataType::Time | DataType::TimeTz) => None,
            Kind::Known(data_type) => Some(data_type),
            _ => None,
        };
        let (left, right) = match (either(left.kind), either(right.kind)) {
            (Some(data_type), None) => (left, self.resolve(right, data_type)?),
            (None, Some(data_type)) => (self.resolve(left, data_type)?, right),
            (None, None) if !matches!((left.kind, right.kind), (Kind::Known(_), Kind::Known(_))) => {
                return Err(Refusal::TooRich);
            }
            _ => (left, right),
        };
        if let Some(data_type) = moved(operator, left.data_type(), right.data_type()) {
            return Ok(Typed::known(moved_by(operator, left, right, data_type), data_type));
        }
        let (a, b) = (left.data_type(), right.data_type());
        let is_integer = |t| matches!(t, DataType::SmallInt | DataType::Integer | DataType::BigInt);
        let expr = Expr::binary(operator, left.expr, right.expr);
        Ok(match (family(a), family(b)) {
            (Family::Number, Family::Number) => {
                let data_type = match wider(a, b) {
                    // Only two of them stay `real`.
                    DataType::Real if a != b => DataType::Double,
                    wide => wide,
                };
                let is_float = matches!(data_type, DataType::Real | DataType::Double);
                if operator == BinaryOperator::Remainder && is_float {
                    return Err(no_operator("%", a, b).into());
                }
                Typed::known(in_bounds(expr, data_type), data_type)
            }
            (Family::Time, Family::Number) if a == DataType::Date && is_integer(b) => {
                Typed::known(expr, DataType::Date)
            }
            (Family::Number, Family::Time)
                if b == DataType::Date && is_integer(a) && operator == BinaryOperator::Add =>
            {
                Typed::known(expr, DataType::Date)
            }
            (Family::Time, Family::Time)
                if a == DataType::Date && b == DataType::Date && operator == BinaryOperator::Subtract =>
            {
                Typed::known(expr, DataType::Integer)
            }
            // Queries know more of these operators, and why there is none.
            (Family::Time, Family::Time) => return Err(Refusal::TooRich),
            _ if (a, b) == (DataType::Time, DataType::Time) => return Err(Refusal::TooRich),
            _ => return Err(no_operator(operator.symbol(), a, b).into()),
        })
    }
}

/// Two sides of which one becomes of the other's type wherever they meet: a time of day beside one with an offset.
fn alike(left: Typed, right: Typed) -> SqlResult<(Typed, Typed)> {
    use DataType::{Time, TimeTz};
    Ok(match (left.data_type(), right.data_type()) {
        (Time, TimeTz) => (convert(left, TimeTz)?, right),
        (TimeTz, Time) => (left, convert(right, TimeTz)?),
        _ => (left, right),
    })
}

/// The numeral of a number with its signs and one more; `None` for what is no number.
fn negated(e: &ast::Expr) -> Option<String> {
    match e {
        ast::Expr::Nested(inner) => negated(inner),
        ast::Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr } => {
            let numeral = negated(expr)?;
            Some(numeral.strip_prefix('-').map_or_else(|| format!("-{numeral}"), str::to_string))
        }
        ast::Expr::Value(value) => match &value.value {
            ast::Value::Number(text, _) => Some(format!("-{text}")),
            _ => None,
        },
        _ => None,
    }
}

/// The type of what comes of a moment, a day, a time of day or an interval that is moved, or of their distance; `None`
/// if they are none.
fn moved(operator: BinaryOperator, a: DataType, b: DataType) -> Option<DataType> {
    use BinaryOperator::{Add, Divide, Multiply, Subtract};
    use DataType::{Date, Interval, Time, TimeTz, Timestamp, TimestampTz};
    let is_sum = matches!(operator, Add | Subtract);
    Some(match (a, b) {
        (Date | Timestamp, Interval) if is_sum => Timestamp,
        (TimestampTz, Interval) if is_sum => TimestampTz,
        (Interval, Date | Timestamp) if operator == Add => Timestamp,
        (Interval, TimestampTz) if operator == Add => TimestampTz,
        (Time, Interval) if is_sum => Time,
        (Interval, Time) if operator == Add => Time,
        (TimeTz, Interval) if is_sum => TimeTz,
        (Interval, TimeTz) if operator == Add => TimeTz,
        (Date, TimeTz) | (TimeTz, Date) if operator == Add => TimestampTz,
        (Time, Time) if operator == Subtract => Interval,
        (Date, Time) | (Time, Date) if operator == Add => Timestamp,
        (Interval, Interval) if is_sum => Interval,
        (Interval, number) if matches!(operator, Multiply | Divide) && family(number) == Family::Number => {
            Interval
        }
        (number, Interval) if operator == Multiply && family(number) == Family::Number => Interval,
        (Timestamp | TimestampTz, Timestamp | TimestampTz) if operator == Subtract && a == b => Interval,
        _ => return None,
    })
}

/// What moves moments and intervals: a moment by the calendar and clocks of the session's zone.
fn moved_by(operator: BinaryOperator, left: Typed, right: Typed, returns: DataType) -> Expr {
    let zone = crate::zones::current();
    let is_of_clock = [&left, &right].iter().any(|side| side.data_type() == DataType::TimeTz);
    if returns != DataType::TimestampTz || zone.is_utc() || is_of_clock {
        return Expr::binary(operator, left.expr, right.expr);
    }
    let (at, by) = match left.data_type() {
        DataType::Interval => (right.expr, left.expr),
        _ => (left.expr, right.expr),
    };
    let by = match operator {
        BinaryOperator::Subtract => Expr::Unary(UnaryOperator::Negate, Box::new(by)),
        _ => by,
    };
    Expr::Call(Function::Zone(ZoneFunction::Later), vec![Expr::zone(zone), at, by])
}

/// Values are 64 bits wide inside; narrower results are checked.
pub(in crate::lower) fn in_bounds(expr: Expr, data_type: DataType) -> Expr {
    match data_type {
        DataType::SmallInt | DataType::Integer | DataType::Real => Expr::Cast(Box::new(expr), data_type),
        _ => expr,
    }
}

/// Whether a value is an array, or a byte string.
fn is_list(typed: &Typed) -> bool {
    matches!(typed.kind, Kind::Known(DataType::Array(_) | DataType::Bytea))
}

/// Whether an operator that texts and numbers have, too, is another one beside a value.
fn is_json_or_search(typed: &Typed) -> bool {
    matches!(
        typed.kind,
        Kind::Known(DataType::Json | DataType::Jsonb | DataType::TsVector | DataType::TsQuery)
    )
}

fn is_address(typed: &Typed) -> bool {
    matches!(typed.kind, Kind::Known(DataType::Inet | DataType::Cidr))
}

fn no_operator(symbol: &str, left: DataType, right: DataType) -> SqlError {
    SqlError::new(
        SqlState::UNDEFINED_FUNCTION,
        format!("operator does not exist: {} {symbol} {}", bare_name(left), bare_name(right)),
    )
    .hint("No operator matches the given name and argument types. You might need to add explicit type casts.")
}
