//! What is computed of plain values over columns alone: bits of whole numbers, arrays as sets, functions of angles, divisors.

use super::angles::{Angle, direction};
use base::error::SqlResult;
use base::text::parts;
use base::{DataType, Datum, SqlError, SqlState};
use std::cmp::Ordering;

/// An operation of values; its arguments have the types that it wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plain {
    Bits(Bits),
    /// `a @> b` of arrays.
    Contains,
    /// `a && b` of arrays.
    Overlaps,
    /// `array_remove`: NULL removes nulls.
    Remove,
    /// `array_replace`: NULL is another element, too.
    Replace,
    Angle(Angle),
    /// The angle of a point of y and x, in degrees.
    Direction,
    /// A unit and a moment or a day: `extract` of a year and of what is counted in years, and `julian`.
    CalendarPart,
    /// The greatest common divisor.
    Divisor,
    /// The least common multiple.
    Multiple,
    /// Bytes in the order of rows.
    RowKey,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bits {
    And,
    Or,
    Xor,
    Left,
    Right,
}

impl Bits {
    pub fn symbol(self) -> &'static str {
        match self {
            Bits::And => "&",
            Bits::Or => "|",
            Bits::Xor => "#",
            Bits::Left => "<<",
            Bits::Right => ">>",
        }
    }
}

impl Plain {
    /// The value for a row. Errors: 22003.
    pub fn compute(self, returns: DataType, values: &[Datum]) -> SqlResult<Datum> {
        let is_strict = !matches!(self, Plain::Remove | Plain::Replace);
        if values.first().is_none_or(Datum::is_null) || is_strict && values.iter().any(Datum::is_null) {
            return Ok(Datum::Null);
        }
        Ok(match (self, values) {
            (Plain::Bits(bits), [Datum::Int(a), Datum::Int(b)]) => Datum::Int(of_bits(bits, returns, *a, *b)),
            (Plain::Contains, [Datum::Array(whole), Datum::Array(part)]) => {
                let whole = Elements::of(whole);
                Datum::Bool(part.iter().all(|element| whole.has(element)))
            }
            (Plain::Overlaps, [Datum::Array(a), Datum::Array(b)]) => {
                let a = Elements::of(a);
                Datum::Bool(b.iter().any(|element| a.has(element)))
            }
            (Plain::Remove, [Datum::Array(list), removed]) => {
                let is_kept = |element: &&Datum| match (element.is_null(), removed.is_null()) {
                    (false, false) => element.compare(removed) != Some(Ordering::Equal),
                    (is_null, removes_nulls) => is_null != removes_nulls,
                };
                Datum::Array(list.iter().filter(is_kept).cloned().collect::<Vec<_>>().into())
            }
            (Plain::Replace, [Datum::Array(list), from, to]) => {
                let is_it = |element: &Datum| match (element.is_null(), from.is_null()) {
                    (false, false) => element.compare(from) == Some(Ordering::Equal),
                    (is_null, of_nulls) => is_null && of_nulls,
                };
                let each = list.iter().map(|element| if is_it(element) { to } else { element });
                Datum::Array(each.cloned().collect::<Vec<_>>().into())
            }
            (Plain::RowKey, [row]) => {
                Datum::Bytes(base::Key::of(std::slice::from_ref(row)).as_bytes().into())
            }
            (Plain::Angle(angle), [Datum::Float(f)]) => Datum::Float(angle.of(*f)?),
            (Plain::Direction, [Datum::Float(y), Datum::Float(x)]) => Datum::Float(direction(*y, *x)),
            (Plain::CalendarPart, [Datum::Text(unit), Datum::Timestamp(us)]) => {
                calendar_part(unit, *us, returns)?
            }
            (Plain::CalendarPart, [Datum::Text(unit), Datum::Date(day)]) => {
                // A day may lie beyond the last moment.
                let us = i64::from(*day).saturating_mul(base::datum::US_PER_DAY);
                match unit.as_ref() {
                    "julian" => Datum::Float(f64::from(*day) + parts::JULIAN_2000),
                    _ => calendar_part(unit, us, returns)?,
                }
            }
            (Plain::Divisor, [Datum::Int(a), Datum::Int(b)]) => within(i128::from(divisor(*a, *b)), returns)?,
            (Plain::Multiple, [Datum::Int(a), Datum::Int(b)]) => {
                let divisor = i128::from(divisor(*a, *b)).max(1);
                within((i128::from(*a) / divisor * i128::from(*b)).abs(), returns)?
            }
            // An argument may get another type after the call was planned: a CASE takes that of its widest branch.
            (operation, values) => return Err(operation.no_such(values)),
        })
    }
}

impl Plain {
    /// 42883, for values of types that the operation does not take.
    fn no_such(self, values: &[Datum]) -> SqlError {
        let kinds: Vec<&str> = values.iter().map(Datum::kind).collect();
        let told = match (self, kinds.as_slice()) {
            (Plain::Bits(bits), [a, b]) => format!("operator does not exist: {a} {} {b}", bits.symbol()),
            _ => format!("the operation does not exist for arguments of the types {}", kinds.join(", ")),
        };
        SqlError::new(SqlState::UNDEFINED_FUNCTION, told).hint("You might need to add explicit type casts.")
    }
}

fn calendar_part(unit: &str, us: i64, returns: DataType) -> SqlResult<Datum> {
    let value = parts::of_calendar(unit, us)?;
    Ok(if returns == DataType::Double { Datum::Float(value) } else { Datum::Int(value as i64) })
}

/// Elements of an array that are not NULL, in their order: both arrays may be long.
struct Elements<'a>(Vec<&'a Datum>);

impl Elements<'_> {
    fn of(list: &[Datum]) -> Elements<'_> {
        let mut elements: Vec<&Datum> = list.iter().filter(|element| !element.is_null()).collect();
        elements.sort_by(|a, b| a.compare(b).unwrap_or(Ordering::Equal));
        Elements(elements)
    }

    /// Whether one is equal; NULL equals nothing.
    fn has(&self, wanted: &Datum) -> bool {
        let found = self.0.binary_search_by(|element| element.compare(wanted).unwrap_or(Ordering::Less));
        !wanted.is_null() && found.is_ok()
    }
}

/// As the processor computes it in the type's width: what is shifted by more than that is shifted by the rest.
fn of_bits(bits: Bits, width: DataType, a: i64, b: i64) -> i64 {
    let shift = b as u32;
    match (bits, width) {
        (Bits::And, _) => a & b,
        (Bits::Or, _) => a | b,
        (Bits::Xor, _) => a ^ b,
        (Bits::Left, DataType::SmallInt) => i64::from((a as i32).wrapping_shl(shift) as i16),
        (Bits::Left, DataType::Integer) => i64::from((a as i32).wrapping_shl(shift)),
        (Bits::Left, _) => a.wrapping_shl(shift),
        (Bits::Right, DataType::SmallInt | DataType::Integer) => i64::from((a as i32).wrapping_shr(shift)),
        (Bits::Right, _) => a.wrapping_shr(shift),
    }
}

fn divisor(a: i64, b: i64) -> u64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Errors: 22003 for what the type has no room for.
fn within(value: i128, returns: DataType) -> SqlResult<Datum> {
    let out_of_range =
        || SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{} out of range", returns.name()));
    let value = i64::try_from(value).map_err(|_| out_of_range())?;
    returns.coerce(Datum::Int(value)).map_err(|_| out_of_range())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_those_of_the_type() {
        assert_eq!(of_bits(Bits::Left, DataType::Integer, i64::from(i32::MAX), 1), -2);
        assert_eq!(of_bits(Bits::Left, DataType::Integer, 1, 33), 2);
        assert_eq!(of_bits(Bits::Left, DataType::SmallInt, 1, 15), -32_768);
        assert_eq!(of_bits(Bits::Right, DataType::BigInt, -8, 1), -4);
    }

    #[test]
    fn long_arrays_are_sets_whose_nulls_equal_nothing() {
        let array = |elements: Vec<Datum>| Datum::Array(elements.into());
        let is = |of: Plain, a: &Datum, b: &Datum| of.compute(DataType::Boolean, &[a.clone(), b.clone()]);
        let many = array((0..200_000).rev().map(Datum::Int).collect());
        let odd = array((0..100_000).map(|n| Datum::Int(2 * n + 1)).collect());
        let (null, none) = (array(vec![Datum::Null]), array(Vec::new()));
        let (yes, no) = (Ok(Datum::Bool(true)), Ok(Datum::Bool(false)));
        assert_eq!(is(Plain::Contains, &many, &odd), yes);
        assert_eq!(is(Plain::Contains, &odd, &many), no);
        assert_eq!(is(Plain::Overlaps, &odd, &array(vec![Datum::Null, Datum::Int(7)])), yes);
        assert_eq!(is(Plain::Overlaps, &null, &null), no);
        assert_eq!(is(Plain::Contains, &null, &null), no);
        assert_eq!(is(Plain::Contains, &null, &none), yes);
        assert_eq!(is(Plain::Contains, &many, &Datum::Null), Ok(Datum::Null));
    }

    #[test]
    fn what_has_no_divisor_in_the_type_is_out_of_range() {
        let least = Datum::Int(i64::MIN);
        let state = |of: Plain, values: &[Datum]| of.compute(DataType::BigInt, values).unwrap_err().state;
        assert_eq!(
            state(Plain::Divisor, &[least.clone(), Datum::Int(0)]),
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE
        );
        assert_eq!(state(Plain::Multiple, &[least, Datum::Int(3)]), SqlState::NUMERIC_VALUE_OUT_OF_RANGE);
        let made = Plain::Multiple.compute(DataType::Integer, &[Datum::Int(-4), Datum::Int(6)]);
        assert_eq!(made, Ok(Datum::Int(12)));
        assert_eq!(
            Plain::Multiple.compute(DataType::Integer, &[Datum::Int(0), Datum::Int(0)]),
            Ok(Datum::Int(0))
        );
    }
}
