//! Values and their types.
//!
//! A [`Datum`] knows its kind but not its column's limits (`varchar(n)`, `numeric(p,s)`, `smallint`):
//! [`DataType::coerce`] applies those, with PostgreSQL's errors.

use crate::composite::CompositeType;
use crate::decimal::Decimal;
use crate::element::Element;
use crate::enumeration::EnumType;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::inet::Inet;
use crate::interval::Interval;
use crate::timetz::TimeTz;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::sync::Arc;

/// Type of a column or expression.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum DataType {
    Boolean,
    SmallInt,
    Integer,
    BigInt,
    Real,
    Double,
    /// `numeric(precision, scale)`; plain `numeric` is (38, 10) with the scale of the value kept on input
    /// as far as it fits.
    Numeric {
        precision: u8,
        scale: u8,
    },
    Text,
    /// `varchar(n)`, n in characters.
    Varchar {
        length: u32,
    },
    /// `char(n)`, stored without its padding, compared without it, shown with it.
    Char {
        length: u32,
    },
    Date,
    /// Without time zone, µs since 2000-01-01 00:00.
    Timestamp,
    /// With time zone, µs since 2000-01-01 00:00 UTC.
    TimestampTz,
    Uuid,
    Bytea,
    // Stored by their numbers: new ones come at the end.
    /// Of day, without time zone.
    Time,
    Interval,
    Json,
    Jsonb,
    /// Of one dimension.
    Array(Element),
    /// Made by CREATE TYPE … AS ENUM; a value is the code of its label.
    Enum(EnumType),
    /// An address of a host, with the length of its network's prefix.
    Inet,
    /// A document for full-text search; a value is its canonical text, as that of the next one.
    TsVector,
    /// A query of full-text search.
    TsQuery,
    /// A network: an address of which nothing lies behind the prefix.
    Cidr,
    /// An address of hardware, of six octets.
    MacAddr,
    /// The same of eight.
    MacAddr8,
    /// Of day, with an offset from UTC.
    TimeTz,
    /// Made by CREATE TYPE … AS (…); a value is the array of its attributes' values.
    Composite(CompositeType),
}

/// One value.
#[derive(Clone, Debug, Serialize, Deserialize, Default)]
pub enum Datum {
    #[default]
    Null,
    Bool(bool),
    /// smallint, integer and bigint; and the codes of labels.
    Int(i64),
    /// real and double precision.
    Float(f64),
    Decimal(Decimal),
    Text(Arc<str>),
    /// Days since 2000-01-01.
    Date(i32),
    /// µs since 2000-01-01 00:00 (UTC where the type has a zone).
    Timestamp(i64),
    Uuid([u8; 16]),
    Bytes(Arc<[u8]>),
    /// µs since midnight; a day's end is one.
    Time(i64),
    Interval(Interval),
    /// The canonical text of a `jsonb` value. A `json` value is a text.
    Json(Arc<str>),
    Array(Arc<[Datum]>),
    /// inet and cidr, macaddr and macaddr8.
    Inet(Inet),
    TimeTz(TimeTz),
}

impl Datum {
    pub fn text(s: impl AsRef<str>) -> Datum {
        Datum::Text(Arc::from(s.as_ref()))
    }
    /// About the bytes of its text where that may be long, never more.
    pub fn text_bytes(&self) -> usize {
        match self {
            Datum::Text(text) | Datum::Json(text) => text.len(),
            Datum::Bytes(bytes) => 2 * bytes.len(),
            // With a separator each. An element that stands in it many times counts as often.
            Datum::Array(elements) => elements.iter().map(|element| element.text_bytes() + 1).sum(),
            _ => 0,
        }
    }
    pub fn is_null(&self) -> bool {
        matches!(self, Datum::Null)
    }
    /// The integer inside; panics on anything else. For procedures that checked their arguments.
    #[track_caller]
    pub fn int(&self) -> i64 {
        match self {
            Datum::Int(i) => *i,
            other => panic!("expected an integer, found {other:?}"),
        }
    }
    #[track_caller]
    pub fn str(&self) -> &str {
        match self {
            Datum::Text(s) => s,
            other => panic!("expected text, found {other:?}"),
        }
    }
    #[track_caller]
    pub fn decimal(&self) -> Decimal {
        match self {
            Datum::Decimal(d) => *d,
            Datum::Int(i) => Decimal::new(i128::from(*i), 0),
            other => panic!("expected a numeric, found {other:?}"),
        }
    }
    /// The type that a value of this kind has where nothing else is known of it; `None` if it does not tell: NULL, and
    /// an array of nothing else.
    pub fn own_type(&self) -> Option<DataType> {
        Some(match self {
            Datum::Null => return None,
            Datum::Bool(_) => DataType::Boolean,
            Datum::Int(_) => DataType::BigInt,
            Datum::Float(_) => DataType::Double,
            Datum::Decimal(_) => NUMERIC_UNLIMITED,
            Datum::Text(_) => DataType::Text,
            Datum::Date(_) => DataType::Date,
            Datum::Timestamp(_) => DataType::Timestamp,
            Datum::Uuid(_) => DataType::Uuid,
            Datum::Bytes(_) => DataType::Bytea,
            Datum::Time(_) => DataType::Time,
            Datum::Interval(_) => DataType::Interval,
            Datum::Json(_) => DataType::Jsonb,
            Datum::Inet(address) => match address.octets().len() {
                6 => DataType::MacAddr,
                8 => DataType::MacAddr8,
                _ => DataType::Inet,
            },
            Datum::TimeTz(_) => DataType::TimeTz,
            Datum::Array(elements) => {
                DataType::Array(Element::of(elements.iter().find_map(Datum::own_type)?)?)
            }
        })
    }
    /// Word for this kind of value in messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Datum::Null => "null",
            Datum::Bool(_) => "boolean",
            Datum::Int(_) => "bigint",
            Datum::Float(_) => "double precision",
            Datum::Decimal(_) => "numeric",
            Datum::Text(_) => "text",
            Datum::Date(_) => "date",
            Datum::Timestamp(_) => "timestamp",
            Datum::Uuid(_) => "uuid",
            Datum::Bytes(_) => "bytea",
            Datum::Time(_) => "time",
            Datum::Interval(_) => "interval",
            Datum::Json(_) => "jsonb",
            Datum::Inet(address) if address.is_hardware() => "macaddr",
            Datum::Inet(_) => "inet",
            Datum::TimeTz(_) => "timetz",
            Datum::Array(_) => "array",
        }
    }
    /// SQL comparison of two non-null values of compatible kinds; `None` if either is null or the
    /// kinds do not compare. Floats order as in PostgreSQL: NaN is equal to itself and largest.
    pub fn compare(&self, other: &Datum) -> Option<Ordering> {
        use Datum::*;
        Some(match (self, other) {
            (Bool(a), Bool(b)) => a.cmp(b),
            (Int(a), Int(b)) => a.cmp(b),
            (Decimal(a), Decimal(b)) => a.cmp(b),
            (Int(a), Decimal(b)) => crate::decimal::Decimal::new(i128::from(*a), 0).cmp(b),
            (Decimal(a), Int(b)) => a.cmp(&crate::decimal::Decimal::new(i128::from(*b), 0)),
            (Float(_), Float(_) | Int(_) | Decimal(_)) | (Int(_) | Decimal(_), Float(_)) => {
                float_order(self.as_f64()?, other.as_f64()?)
            }
            (Text(a), Text(b)) => a.as_bytes().cmp(b.as_bytes()),
            (Date(a), Date(b)) => a.cmp(b),
            (Timestamp(a), Timestamp(b)) => a.cmp(b),
            // A day may lie beyond the last timestamp.
            (Date(a), Timestamp(b)) => i64::from(*a).saturating_mul(US_PER_DAY).cmp(b),
            (Timestamp(a), Date(b)) => a.cmp(&i64::from(*b).saturating_mul(US_PER_DAY)),
            (Uuid(a), Uuid(b)) => a.cmp(b),
            (Inet(a), Inet(b)) => a.cmp(b),
            (TimeTz(a), TimeTz(b)) => a.cmp(b),
            (Bytes(a), Bytes(b)) => a.cmp(b),
            (Time(a), Time(b)) => a.cmp(b),
            (Interval(a), Interval(b)) => a.length_us().cmp(&b.length_us()),
            (Json(a), Json(b)) => crate::json::compare(a, b),
            (Array(a), Array(b)) => return array_order(a, b),
            _ => return None,
        })
    }
    /// Numeric value as a double, `None` if it is not a number.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Datum::Int(i) => Some(*i as f64),
            Datum::Float(f) => Some(*f),
            Datum::Decimal(d) => Some(d.as_f64()),
            _ => None,
        }
    }
}

pub const US_PER_DAY: i64 = 86_400_000_000;

/// `numeric` without precision. A cast to it keeps the digits that there are.
pub const NUMERIC_UNLIMITED: DataType = DataType::Numeric { precision: 38, scale: 10 };

/// Element by element, nulls last; the shorter one first where they agree.
fn array_order(a: &[Datum], b: &[Datum]) -> Option<Ordering> {
    for (a, b) in a.iter().zip(b) {
        let order = match (a.is_null(), b.is_null()) {
            (false, false) => a.compare(b)?,
            (a, b) => a.cmp(&b),
        };
        if order != Ordering::Equal {
            return Some(order);
        }
    }
    Some(a.len().cmp(&b.len()))
}

fn float_order(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// Identity, not SQL equality: nulls are equal to each other, and a month is not thirty days.
impl PartialEq for Datum {
    fn eq(&self, other: &Datum) -> bool {
        match (self, other) {
            (Datum::Null, Datum::Null) => true,
            (Datum::Interval(a), Datum::Interval(b)) => a == b,
            (Datum::Json(a), Datum::Json(b)) => a == b,
            (Datum::Array(a), Datum::Array(b)) => a == b,
            _ => self.compare(other) == Some(Ordering::Equal),
        }
    }
}

impl From<i64> for Datum {
    fn from(i: i64) -> Datum {
        Datum::Int(i)
    }
}
impl From<&str> for Datum {
    fn from(s: &str) -> Datum {
        Datum::text(s)
    }
}
impl From<String> for Datum {
    fn from(s: String) -> Datum {
        Datum::text(s)
    }
}
impl From<Decimal> for Datum {
    fn from(d: Decimal) -> Datum {
        Datum::Decimal(d)
    }
}
impl From<bool> for Datum {
    fn from(b: bool) -> Datum {
        Datum::Bool(b)
    }
}

impl DataType {
    /// Name as PostgreSQL prints it.
    pub fn name(&self) -> String {
        match self {
            DataType::Boolean => "boolean".into(),
            DataType::SmallInt => "smallint".into(),
            DataType::Integer => "integer".into(),
            DataType::BigInt => "bigint".into(),
            DataType::Real => "real".into(),
            DataType::Double => "double precision".into(),
            DataType::Numeric { precision, scale } => format!("numeric({precision},{scale})"),
            DataType::Text => "text".into(),
            DataType::Varchar { length } => format!("character varying({length})"),
            DataType::Char { length } => format!("character({length})"),
            DataType::Date => "date".into(),
            DataType::Timestamp => "timestamp without time zone".into(),
            DataType::TimestampTz => "timestamp with time zone".into(),
            DataType::Uuid => "uuid".into(),
            DataType::Bytea => "bytea".into(),
            DataType::Time => "time without time zone".into(),
            DataType::Interval => "interval".into(),
            DataType::Json => "json".into(),
            DataType::Jsonb => "jsonb".into(),
            DataType::Inet => "inet".into(),
            DataType::TsVector => "tsvector".into(),
            DataType::TsQuery => "tsquery".into(),
            DataType::Cidr => "cidr".into(),
            DataType::MacAddr => "macaddr".into(),
            DataType::MacAddr8 => "macaddr8".into(),
            DataType::TimeTz => "time with time zone".into(),
            DataType::Array(of) => format!("{}[]", of.data_type().name()),
            DataType::Enum(of) => of.name(),
            DataType::Composite(of) => of.name(),
        }
    }

    /// Fits a value into a column of this type (assignment cast), or says why it does not fit.
    pub fn coerce(&self, value: Datum) -> SqlResult<Datum> {
        let value = match (self, value) {
            (_, Datum::Null) => Datum::Null,
            (DataType::Boolean, v @ Datum::Bool(_)) => v,
            (
                DataType::SmallInt | DataType::Integer | DataType::BigInt | DataType::Real | DataType::Double,
                v @ (Datum::Int(_) | Datum::Float(_) | Datum::Decimal(_)),
            ) => match self {
                DataType::Real | DataType::Double => crate::convert::to_float(&v, *self)?,
                _ => crate::convert::to_integer(&v, *self)?,
            },
            (DataType::Numeric { precision, scale }, v) => {
                let decimal = match &v {
                    Datum::Int(i) => Decimal::new(i128::from(*i), 0),
                    Datum::Decimal(d) => *d,
                    Datum::Float(f) => crate::convert::float_digits(*f, DataType::Double)?,
                    _ => return Err(self.mismatch(&v)),
                };
                let rounded = decimal.rescale(*scale).ok_or_else(|| self.out_of_range())?;
                if rounded.digits() > u32::from(*precision) {
                    return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow").detail(
                        format!(
                            "A field with precision {precision}, scale {scale} must round to an absolute value less than 10^{}.",
                            i32::from(*precision) - i32::from(*scale)
                        ),
                    ));
                }
                Datum::Decimal(rounded)
            }
            (DataType::Text, v @ Datum::Text(_)) => v,
            (DataType::Varchar { length }, Datum::Text(s)) => Datum::Text(self.bounded(s, *length)?),
            (DataType::Char { length }, Datum::Text(s)) => {
                let trimmed = s.trim_end_matches(' ');
                let s = if trimmed.len() == s.len() { s } else { Arc::from(trimmed) };
                Datum::Text(self.bounded(s, *length)?)
            }
            (DataType::Date, v @ Datum::Date(_)) => v,
            (DataType::Date, Datum::Timestamp(us)) => Datum::Date(us.div_euclid(US_PER_DAY) as i32),
            (DataType::Timestamp | DataType::TimestampTz, v @ Datum::Timestamp(_)) => v,
            (DataType::Timestamp | DataType::TimestampTz, Datum::Date(d)) => {
                Datum::Timestamp(crate::convert::midnight(d)?)
            }
            (DataType::Uuid, v @ Datum::Uuid(_)) => v,
            (DataType::Inet, Datum::Inet(address)) if !address.is_hardware() => Datum::Inet(address),
            (DataType::Cidr, Datum::Inet(address)) if !address.is_hardware() => {
                Datum::Inet(address.network())
            }
            (DataType::MacAddr, Datum::Inet(address)) if address.octets().len() == 6 => Datum::Inet(address),
            (DataType::MacAddr8, Datum::Inet(address)) if address.octets().len() == 8 => Datum::Inet(address),
            (DataType::TimeTz, v @ Datum::TimeTz(_)) => v,
            (DataType::Bytea, v @ Datum::Bytes(_)) => v,
            (DataType::Time, v @ Datum::Time(_)) => v,
            (DataType::Interval, v @ Datum::Interval(_)) => v,
            (DataType::Json, Datum::Text(text)) => {
                crate::json::check(&text)?;
                Datum::Text(text)
            }
            (DataType::Jsonb, v @ Datum::Json(_)) => v,
            (DataType::TsVector | DataType::TsQuery, Datum::Text(text)) => crate::text::parse(&text, *self)?,
            (DataType::Enum(of), Datum::Int(code)) if of.label(code).is_some() => Datum::Int(code),
            (DataType::Array(of), Datum::Array(elements)) => {
                let of = of.data_type();
                let fitted = elements.iter().map(|element| of.coerce(element.clone()));
                Datum::Array(fitted.collect::<SqlResult<Vec<_>>>()?.into())
            }
            (DataType::Composite(of), Datum::Array(values)) => of.coerce(&values)?,
            (_, v) => return Err(self.mismatch(&v)),
        };
        Ok(value)
    }

    fn bounded(&self, s: Arc<str>, length: u32) -> SqlResult<Arc<str>> {
        let length = length as usize;
        if s.len() <= length || s.chars().count() <= length {
            return Ok(s);
        }
        // The standard lets trailing blanks go.
        let cut: String = s.chars().take(length).collect();
        if s[cut.len()..].chars().all(|c| c == ' ') {
            return Ok(Arc::from(cut));
        }
        Err(SqlError::new(
            SqlState::STRING_DATA_RIGHT_TRUNCATION,
            format!("value too long for type {}", self.name()),
        ))
    }

    fn out_of_range(&self) -> SqlError {
        let name = match self {
            DataType::Numeric { .. } => "numeric".into(),
            _ => self.name(),
        };
        SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{name} out of range"))
    }

    fn mismatch(&self, value: &Datum) -> SqlError {
        SqlError::new(
            SqlState::DATATYPE_MISMATCH,
            format!("a value of type {} does not fit type {}", value.kind(), self.name()),
        )
        .hint("You will need to rewrite or cast the expression.")
    }
}
