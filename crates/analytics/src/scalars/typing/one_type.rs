//! Values of which one is taken have one type.

use super::super::inference::kind_of;
use super::super::kinds::{Family, Kind};
use super::super::lists;
use super::constants::{converted, literal, narrowed, native};
use base::error::SqlResult;
use base::{DataType, SqlError, SqlState};
use datafusion::arrow::datatypes::DataType as Arrow;
use datafusion::common::ExprSchema;
use datafusion::logical_expr::{Cast, Expr};

/// Brings values to one type, as CASE, COALESCE and the like do. `None`: they have it, or it is not ours to say.
/// Errors: 42804.
pub(in super::super) fn unified(
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

pub(in super::super) fn wider(a: Kind, b: Kind) -> Kind {
    let rank = |k: Kind| match k {
        Kind::Known(DataType::SmallInt | DataType::Date) => 0,
        Kind::Known(DataType::Integer | DataType::Timestamp) => 1,
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
