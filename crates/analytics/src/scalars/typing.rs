//! PostgreSQL's rules for the types of operators and casts: which sides meet, what literals become, which
//! result comes out.

mod casts;
mod constants;
mod moments;
mod operators;
mod refusals;

use super::super::bytes_functions::concatenated;
use super::evaluated::{Computation, SpanOperation, call, row_key};
use super::inference::kind_of;
use super::kinds::{Family, Kind, may_meet};
use super::lists;
use base::error::SqlResult;
use base::{DataType, SqlError, SqlState};
pub(super) use casts::{as_text, cast};
pub(super) use constants::{constant, converted, folded, is_of_labels, literal, narrowed};
use constants::{native, null};
use datafusion::arrow::datatypes::DataType as Arrow;
use datafusion::common::{ExprSchema, ScalarValue};
use datafusion::logical_expr::{Cast, Expr, Operator};
use moments::{both_alike, both_moments, moved};
pub(super) use moments::{meet_in_a_zone, moment};
pub(super) use operators::by_rows;
use operators::{base_operator, day_of, is_null, plain, symbol};
use refusals::not_unique;
pub(super) use refusals::{no_function, no_operator};

/// Digits behind the point of a quotient over columns, at least.
pub(super) const QUOTIENT_SCALE: u8 = 20;
/// A product of decimals has no more digits behind the point than this, unless a factor has.
const PRODUCT_SCALE: u8 = 20;

/// An operator that stands as it is, or what takes its place.
pub(super) type Settled = SqlResult<Option<Expr>>;

/// 42804, for what has to be a condition.
pub(super) fn condition(e: &Expr, schema: &dyn ExprSchema, what: &str) -> SqlResult<()> {
    match kind_of(e, schema) {
        Kind::Known(DataType::Boolean) | Kind::Unknown | Kind::Foreign => Ok(()),
        other => Err(SqlError::new(
            SqlState::DATATYPE_MISMATCH,
            format!("argument of {what} must be type boolean, not type {}", other.name()),
        )),
    }
}

/// A binary operator. `is_written`: as the statement has it, so that a whole number is one of its text.
pub(super) fn binary(
    operator: Operator,
    left: &Expr,
    right: &Expr,
    schema: &dyn ExprSchema,
    is_written: bool,
) -> Settled {
    use Operator as O;
    match operator {
        O::And | O::Or => {
            let word = if operator == O::And { "AND" } else { "OR" };
            condition(left, schema, word)?;
            condition(right, schema, word)?;
            Ok(None)
        }
        O::Eq | O::NotEq | O::Lt | O::LtEq | O::Gt | O::GtEq | O::IsDistinctFrom | O::IsNotDistinctFrom => {
            compare(operator, left, right, schema, is_written)
        }
        O::Plus | O::Minus | O::Multiply | O::Divide | O::Modulo => {
            let made = arithmetic(operator, left, right, schema, is_written)?;
            // What is computed of a constant NULL is NULL, whatever the other side is: it is not looked at.
            if is_written || !is_null(left) && !is_null(right) {
                return Ok(made);
            }
            let whole = made.unwrap_or_else(|| plain(operator, left.clone(), right.clone()));
            Ok(Some(match kind_of(&whole, schema) {
                kind @ (Kind::Known(_) | Kind::Span) => null(kind),
                Kind::Unknown | Kind::Foreign => whole,
            }))
        }
        O::StringConcat => concat(left, right, schema),
        _ => Ok(None),
    }
}

fn compare(
    operator: Operator,
    left: &Expr,
    right: &Expr,
    schema: &dyn ExprSchema,
    is_written: bool,
) -> Settled {
    let mut changed = false;
    let mut settled = |e: &Expr| -> SqlResult<Expr> {
        let folded = folded(e)?;
        changed |= folded.is_some();
        Ok(folded.unwrap_or_else(|| e.clone()))
    };
    let (mut left, mut right) = (settled(left)?, settled(right)?);
    let (mut a, mut b) = (kind_of(&left, schema), kind_of(&right, schema));
    match (a, b) {
        (Kind::Foreign, _) | (_, Kind::Foreign) => {
            let typed = lists::beside(&[left, right], schema)?;
            return Ok(typed.map(|sides| plain(operator, sides[0].clone(), sides[1].clone())));
        }
        (Kind::Unknown, Kind::Unknown) => return Ok(None),
        (Kind::Unknown, known) => {
            left = literal(&left, known)?;
            a = known;
            changed = true;
        }
        (known, Kind::Unknown) => {
            right = literal(&right, known)?;
            b = known;
            changed = true;
        }
        _ => {}
    }
    let (mut one, mut other) = ((left, a), (right, b));
    changed |= both_alike(&mut one, &mut other);
    let ((left, a), (right, b)) = (one, other);
    let (f, g) = (a.family(), b.family());
    // What a subquery has lost is known once its types are settled.
    if is_written && may_meet(a, b) {
        return Ok(None);
    }
    if may_meet(a, b)
        && let Some((left, right)) = as_identifiers(&left, &right)?
    {
        return Ok(Some(plain(operator, left, right)));
    }
    if !f.meets(g) || f == Family::Json {
        return Err(no_operator(&symbol(operator), a, b));
    }
    let is_equality = matches!(operator, Operator::Eq | Operator::NotEq);
    super::documents::refuse_order(a, &symbol(operator), is_equality)?;
    if let Family::Row(of) = f {
        let [left, right] = [left, right].map(|row| row_key(&row, of));
        return Ok(Some(plain(operator, left, right)));
    }
    if f == Family::Jsonb
        && let Some(operation) = base_operator(operator)
    {
        return Ok(Some(by_rows(operation, (left, a), (right, b), DataType::Boolean)));
    }
    let is_float = |k| matches!(k, Kind::Known(DataType::Real | DataType::Double));
    if (is_float(a) || is_float(b)) && a != b {
        let double = |e, k| native(e, k, DataType::Double);
        return Ok(Some(plain(operator, double(left, a), double(right, b))));
    }
    let (mut one, mut other) = ((left, a), (right, b));
    changed |= both_moments(&mut one, &mut other);
    let ((left, a), (right, b)) = (one, other);
    if a.family() == Family::Span
        && let Some(operation) = base_operator(operator)
    {
        let compared = Computation::Spans(SpanOperation::Compare(operation));
        return Ok(Some(call(compared, vec![(left, a), (right, b)], Kind::Known(DataType::Boolean))));
    }
    if (a.family() == Family::Date) != (b.family() == Family::Date)
        && let Some(made) = beside_day(operator, (left.clone(), a), (right.clone(), b))
    {
        return Ok(Some(made));
    }
    Ok(changed.then(|| plain(operator, left, right)))
}

/// A `uuid` and a literal beside it that was a text as long as the other side was one; `None` if neither is a literal.
fn as_identifiers(left: &Expr, right: &Expr) -> SqlResult<Option<(Expr, Expr)>> {
    let typed = |e: &Expr| -> SqlResult<Option<Expr>> {
        let Expr::Literal(ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)), _) = e else {
            return Ok(None);
        };
        let value = sql::lower::expr::literal(text, DataType::Uuid)?;
        Ok(Some(constant(&value, DataType::Uuid)))
    };
    Ok(match (typed(left)?, typed(right)?) {
        (Some(left), None) => Some((left, right.clone())),
        (None, Some(right)) => Some((left.clone(), right)),
        _ => None,
    })
}

/// A comparison of a day with a moment: of days, where the moment is one's beginning, and else as rows compare them.
fn beside_day(operator: Operator, (left, a): (Expr, Kind), (right, b): (Expr, Kind)) -> Option<Expr> {
    if a.family() == Family::Date
        && let Some(day) = day_of(&right)
    {
        return Some(plain(operator, left, day));
    }
    if b.family() == Family::Date
        && let Some(day) = day_of(&left)
    {
        return Some(plain(operator, day, right));
    }
    base_operator(operator).map(|operation| by_rows(operation, (left, a), (right, b), DataType::Boolean))
}

fn arithmetic(
    operator: Operator,
    left: &Expr,
    right: &Expr,
    schema: &dyn ExprSchema,
    is_written: bool,
) -> Settled {
    let mut changed = false;
    let mut settled = |e: &Expr| -> SqlResult<Expr> {
        let new = match is_written.then(|| narrowed(e)).flatten() {
            Some(narrow) => Some(narrow),
            None => folded(e)?,
        };
        changed |= new.is_some();
        Ok(new.unwrap_or_else(|| e.clone()))
    };
    let (mut left, mut right) = (settled(left)?, settled(right)?);
    let (mut a, mut b) = (kind_of(&left, schema), kind_of(&right, schema));
    let peer = |known: Kind, is_left: bool| -> SqlResult<Kind> {
        Ok(match (known.family(), operator) {
            (Family::Date, Operator::Plus) => {
                let (a, b) = if is_left { (Kind::Unknown, known) } else { (known, Kind::Unknown) };
                return Err(not_unique("+", a, b));
            }
            (Family::Moment, Operator::Plus) => Kind::Span,
            (Family::ZonedClock, Operator::Plus | Operator::Minus) => Kind::Span,
            (Family::Span, Operator::Multiply | Operator::Divide) => Kind::Known(DataType::Double),
            _ => known,
        })
    };
    match (a, b) {
        (Kind::Foreign, _) | (_, Kind::Foreign) => return Ok(None),
        (Kind::Unknown, Kind::Unknown) => return Err(not_unique(&operator.to_string(), a, b)),
        (Kind::Unknown, known) => {
            a = peer(known, true)?;
            left = literal(&left, a)?;
            changed = true;
        }
        (known, Kind::Unknown) => {
            b = peer(known, false)?;
            right = literal(&right, b)?;
            changed = true;
        }
        _ => {}
    }
    if a.family().is_number() && b.family().is_number() {
        return of_numbers(operator, (left, a), (right, b), changed);
    }
    of_times(operator, (left, a), (right, b))
}

/// Arithmetic of two numbers; `changed`: their expressions are others than those that were written.
fn of_numbers(
    operator: Operator,
    (left, a): (Expr, Kind),
    (right, b): (Expr, Kind),
    changed: bool,
) -> Settled {
    use Family as F;
    let operation = base_operator(operator).expect("arithmetic");
    let (f, g) = (a.family(), b.family());
    if f == F::Integer && g == F::Integer {
        return Ok(changed.then(|| plain(operator, left, right)));
    }
    if f == F::Float || g == F::Float {
        if operator == Operator::Modulo {
            return Err(no_operator(&operator.to_string(), a, b));
        }
        // Only two of them stay `real`.
        let to = if a == b { a } else { Kind::Known(DataType::Double) };
        let Kind::Known(t) = to else { unreachable!("a float") };
        let arguments = vec![(native(left, a, t), to), (native(right, b, t), to)];
        return Ok(Some(call(Computation::Floats(operation), arguments, to)));
    }
    let scale = |k| match k {
        Kind::Known(DataType::Numeric { scale, .. }) => scale,
        _ => 0,
    };
    let (s, t) = (scale(a), scale(b));
    let returns = |scale| DataType::Numeric { precision: 38, scale };
    Ok(match operator {
        Operator::Divide => {
            let scale = QUOTIENT_SCALE.max(s).max(t);
            Some(by_rows(operation, (left, a), (right, b), returns(scale)))
        }
        Operator::Modulo => Some(by_rows(operation, (left, a), (right, b), returns(s.max(t)))),
        Operator::Multiply if s + t > PRODUCT_SCALE + 8 => {
            let scale = PRODUCT_SCALE.max(s).max(t);
            Some(by_rows(operation, (left, a), (right, b), returns(scale)))
        }
        _ => changed.then(|| plain(operator, left, right)),
    })
}

/// Arithmetic with dates, moments, times of day and spans.
fn of_times(operator: Operator, mut left: (Expr, Kind), mut right: (Expr, Kind)) -> Settled {
    use Family as F;
    both_moments(&mut left, &mut right);
    let ((left, a), (right, b)) = (left, right);
    let symbol = operator.to_string();
    let operation = base_operator(operator).expect("arithmetic");
    let is_sum = matches!(operator, Operator::Plus | Operator::Minus);
    let (clock, moment) = moments::of_clocks(a, b);
    let rows = |returns| Ok(Some(by_rows(operation, (left.clone(), a), (right.clone(), b), returns)));
    let span = |operation, returns| {
        let arguments = vec![(left.clone(), a), (right.clone(), b)];
        Ok(Some(call(Computation::Spans(operation), arguments, returns)))
    };
    match (a.family(), b.family()) {
        (F::Date, F::Integer) if is_sum => rows(DataType::Date),
        (F::Integer, F::Date) if operator == Operator::Plus => rows(DataType::Date),
        (F::Date, F::Date) if operator == Operator::Minus => rows(DataType::Integer),
        (F::Date | F::Moment, F::Span) | (F::Span, F::Date | F::Moment) if is_sum => {
            if operator == Operator::Minus && a.family() == F::Span {
                return Err(no_operator(&symbol, a, b));
            }
            let at = if a.family() == F::Span { b } else { a };
            let returns = match at {
                Kind::Known(DataType::TimestampTz) => DataType::TimestampTz,
                _ => DataType::Timestamp,
            };
            if let Some(moved) = moved(operator, &(left.clone(), a), &(right.clone(), b), returns)? {
                return Ok(Some(moved));
            }
            let operation =
                if operator == Operator::Plus { SpanOperation::Later } else { SpanOperation::Earlier };
            span(operation, Kind::Known(returns))
        }
        (F::Clock | F::ZonedClock, F::Span) if is_sum => rows(clock),
        (F::Span, F::Clock | F::ZonedClock) if operator == Operator::Plus => rows(clock),
        (F::Date, F::Clock | F::ZonedClock) | (F::Clock | F::ZonedClock, F::Date)
            if operator == Operator::Plus =>
        {
            rows(moment)
        }
        (F::Clock, F::Clock) if operator == Operator::Plus => Err(not_unique(&symbol, a, b)),
        (F::Clock, F::Clock) if operator == Operator::Minus => {
            let expr =
                base::expr::Expr::binary(operation, base::expr::Expr::Column(0), base::expr::Expr::Column(1));
            Ok(Some(call(Computation::Scalar(expr), vec![(left, a), (right, b)], Kind::Span)))
        }
        (F::Date | F::Moment, F::Date | F::Moment) if operator == Operator::Minus => {
            span(SpanOperation::Between, Kind::Span)
        }
        (F::Span, F::Span) if operator == Operator::Plus => span(SpanOperation::Add, Kind::Span),
        (F::Span, F::Span) if operator == Operator::Minus => span(SpanOperation::Subtract, Kind::Span),
        (F::Span, g) if operator == Operator::Multiply && g.is_number() => {
            span(SpanOperation::Multiply, Kind::Span)
        }
        (f, F::Span) if operator == Operator::Multiply && f.is_number() => {
            span(SpanOperation::Multiply, Kind::Span)
        }
        (F::Span, g) if operator == Operator::Divide && g.is_number() => {
            span(SpanOperation::Divide, Kind::Span)
        }
        _ => Err(no_operator(&symbol, a, b)),
    }
}

fn concat(left: &Expr, right: &Expr, schema: &dyn ExprSchema) -> Settled {
    let (a, b) = (kind_of(left, schema), kind_of(right, schema));
    if a.family() == Family::Foreign || b.family() == Family::Foreign {
        return Ok(None);
    }
    // A literal beside bytes is bytes.
    match (a.family(), b.family()) {
        (Family::Bytes, Family::Unknown) => {
            return Ok(Some(concatenated(left.clone(), literal(right, a)?)));
        }
        (Family::Unknown, Family::Bytes) => {
            return Ok(Some(concatenated(literal(left, b)?, right.clone())));
        }
        _ => {}
    }
    let is_text = |k: Kind| matches!(k.family(), Family::Text | Family::Unknown);
    if !is_text(a) && !is_text(b) {
        return match (a.family(), b.family()) {
            (Family::Bytes, Family::Bytes) => Ok(Some(concatenated(left.clone(), right.clone()))),
            _ => Err(no_operator("||", a, b)),
        };
    }
    if is_text(a) && is_text(b) {
        return Ok(None);
    }
    Ok(Some(plain(Operator::StringConcat, as_text(left.clone(), a), as_text(right.clone(), b))))
}

/// Brings values to one type, as CASE, COALESCE and the like do. `None`: they have it, or it is not ours to say.
/// Errors: 42804.
pub(super) fn unified(
    values: &[Expr],
    schema: &dyn ExprSchema,
    what: &str,
    is_written: bool,
) -> SqlResult<Option<Vec<Expr>>> {
    let narrow: Vec<Expr> = match is_written {
        true => values.iter().map(|e| narrowed(e).unwrap_or_else(|| e.clone())).collect(),
        false => values.to_vec(),
    };
    let mut any = narrow != values;
    let values = narrow.as_slice();
    let kinds: Vec<Kind> = values.iter().map(|e| kind_of(e, schema)).collect();
    if kinds.contains(&Kind::Foreign) {
        return lists::beside(values, schema);
    }
    let mut common: Option<Kind> = None;
    for &kind in kinds.iter().filter(|k| **k != Kind::Unknown) {
        common = Some(match common {
            None => kind,
            Some(before) if before == kind => before,
            Some(before) if !before.family().meets(kind.family()) => {
                return Err(SqlError::new(
                    SqlState::DATATYPE_MISMATCH,
                    format!("{what} types {} and {} cannot be matched", before.name(), kind.name()),
                ));
            }
            Some(before) => wider(before, kind),
        });
    }
    let Some(common) = common else { return Ok(None) };
    let digits = kinds.iter().map(|kind| digits_of(*kind)).max().unwrap_or_default();
    let common = match common {
        Kind::Known(DataType::Numeric { .. })
            if kinds.iter().any(|kind| *kind != common && *kind != Kind::Unknown) =>
        {
            Kind::Known(DataType::Numeric { precision: 38, scale: digits })
        }
        common => common,
    };
    let values = values.iter().zip(&kinds).map(|(e, kind)| {
        let new = match (*kind, common) {
            (Kind::Unknown, common) => Some(literal(e, common)?),
            (a, b) if a == b => None,
            (a, Kind::Known(t @ DataType::Double)) | (a, Kind::Known(t @ DataType::Real)) => {
                Some(native(e.clone(), a, t))
            }
            (Kind::Known(from @ DataType::Date), Kind::Known(to)) => Some(converted(e.clone(), from, to)),
            (Kind::Known(from @ DataType::Timestamp), Kind::Known(to @ DataType::TimestampTz)) => {
                Some(converted(e.clone(), from, to))
            }
            (Kind::Known(from @ DataType::Cidr), Kind::Known(to @ DataType::Inet)) => {
                Some(converted(e.clone(), from, to))
            }
            // The planner would bring numbers together too, after what stands around has taken the first one's type.
            (a, Kind::Known(t @ (DataType::Integer | DataType::BigInt))) if a.family() == Family::Integer => {
                Some(to(e.clone(), colstore::arrow_type(t)))
            }
            (a, Kind::Known(DataType::Numeric { .. })) if a.family().is_number() => {
                Some(to(e.clone(), Arrow::Decimal128(38, digits as i8)))
            }
            _ => None,
        };
        any |= new.is_some();
        Ok(new.unwrap_or_else(|| e.clone()))
    });
    let values = values.collect::<SqlResult<Vec<_>>>()?;
    Ok(any.then_some(values))
}

pub(super) fn wider(a: Kind, b: Kind) -> Kind {
    let rank = |k: Kind| match k {
        Kind::Known(DataType::SmallInt | DataType::Date) => 0,
        Kind::Known(DataType::Integer | DataType::Timestamp | DataType::Inet) => 1,
        Kind::Known(DataType::BigInt | DataType::TimestampTz) => 2,
        Kind::Known(DataType::Numeric { .. }) => 3,
        Kind::Known(DataType::Real) => 4,
        Kind::Known(DataType::Double) => 5,
        _ => 0,
    };
    if rank(a) >= rank(b) { a } else { b }
}

/// Digits behind the point of a kind's values.
fn digits_of(kind: Kind) -> u8 {
    match kind {
        Kind::Known(DataType::Numeric { scale, .. }) => scale,
        _ => 0,
    }
}

fn to(e: Expr, data_type: Arrow) -> Expr {
    Expr::Cast(Cast::new(Box::new(e), data_type))
}
