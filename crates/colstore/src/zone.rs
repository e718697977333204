//! Zone maps: what is known about a block of one column without reading it, and which blocks a
//! predicate lets us leave out.
//!
//! KEEPS: a block is left out only if no row of it satisfies the predicate; unknown means keep.

use base::{DataType, Datum};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// A predicate that zone maps can answer; several are joined by AND. Rows that do not satisfy it may
/// still be returned: it prunes, it does not filter. Constants are datums as rows hold them (dates and
/// times since 2000-01-01).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ColumnPredicate {
    /// `column <comparison> value`; BETWEEN is two of them.
    Compare {
        column: usize,
        comparison: Comparison,
        value: Datum,
    },
    /// `column IN (values)`.
    In {
        column: usize,
        values: Vec<Datum>,
    },
    IsNull {
        column: usize,
    },
    IsNotNull {
        column: usize,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Comparison {
    Eq,
    Lt,
    Le,
    Gt,
    Ge,
}

/// What is known about the values of one column in a run of rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Zone {
    pub rows: usize,
    pub nulls: usize,
    pub bounds: Bounds,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Bounds {
    /// No value that is not null.
    Empty,
    /// Smallest and largest value, both taken.
    Known(Datum, Datum),
    /// Values too long to be worth keeping.
    Unknown,
}

/// Texts longer than this are not kept as bounds.
const BOUND_BYTES_MAX: usize = 64;

impl ColumnPredicate {
    pub fn column(&self) -> usize {
        match self {
            ColumnPredicate::Compare { column, .. }
            | ColumnPredicate::In { column, .. }
            | ColumnPredicate::IsNull { column }
            | ColumnPredicate::IsNotNull { column } => *column,
        }
    }

    /// Whether a row of the zone may satisfy this.
    pub(crate) fn may_match(&self, zone: &Zone) -> bool {
        match self {
            ColumnPredicate::Compare { comparison, value, .. } => zone.bounds.may_compare(*comparison, value),
            ColumnPredicate::In { values, .. } => {
                values.iter().any(|v| zone.bounds.may_compare(Comparison::Eq, v))
            }
            ColumnPredicate::IsNull { .. } => zone.nulls > 0,
            ColumnPredicate::IsNotNull { .. } => zone.nulls < zone.rows,
        }
    }

    /// Whether a row with this value may satisfy this: what a zone of this one row would say.
    pub(crate) fn may_hold(&self, value: Datum) -> bool {
        let (nulls, bounds) = match value {
            Datum::Null => (1, Bounds::Empty),
            value => (0, Bounds::of(value.clone(), value)),
        };
        self.may_match(&Zone { rows: 1, nulls, bounds })
    }

    /// Whether every row of the zone satisfies this.
    pub(crate) fn always_matches(&self, zone: &Zone) -> bool {
        match self {
            ColumnPredicate::Compare { comparison, value, .. } => {
                zone.nulls == 0 && zone.bounds.must_compare(*comparison, value)
            }
            ColumnPredicate::In { values, .. } => {
                zone.nulls == 0 && values.iter().any(|v| zone.bounds.must_compare(Comparison::Eq, v))
            }
            ColumnPredicate::IsNull { .. } => zone.nulls == zone.rows,
            ColumnPredicate::IsNotNull { .. } => zone.nulls == 0,
        }
    }
}

impl Bounds {
    fn may_compare(&self, comparison: Comparison, value: &Datum) -> bool {
        if value.is_null() {
            // A comparison with null is never true.
            return false;
        }
        let (min, max) = match self {
            Bounds::Empty => return false,
            Bounds::Unknown => return true,
            Bounds::Known(min, max) => (min, max),
        };
        let (Some(low), Some(high)) = (min.compare(value), max.compare(value)) else { return true };
        match comparison {
            Comparison::Eq => low != Ordering::Greater && high != Ordering::Less,
            Comparison::Lt => low == Ordering::Less,
            Comparison::Le => low != Ordering::Greater,
            Comparison::Gt => high == Ordering::Greater,
            Comparison::Ge => high != Ordering::Less,
        }
    }

    /// Whether the comparison is true of every value within the bounds.
    fn must_compare(&self, comparison: Comparison, value: &Datum) -> bool {
        let Bounds::Known(min, max) = self else { return false };
        let (Some(low), Some(high)) = (min.compare(value), max.compare(value)) else { return false };
        match comparison {
            Comparison::Eq => low == Ordering::Equal && high == Ordering::Equal,
            Comparison::Lt => high == Ordering::Less,
            Comparison::Le => high != Ordering::Greater,
            Comparison::Gt => low == Ordering::Greater,
            Comparison::Ge => low != Ordering::Less,
        }
    }

    /// Bounds of both.
    pub fn join(self, other: &Bounds) -> Bounds {
        match (self, other) {
            (Bounds::Unknown, _) | (_, Bounds::Unknown) => Bounds::Unknown,
            (Bounds::Empty, other) => other.clone(),
            (known, Bounds::Empty) => known,
            (Bounds::Known(min, max), Bounds::Known(low, high)) => Bounds::Known(
                if low.compare(&min) == Some(Ordering::Less) { low.clone() } else { min },
                if high.compare(&max) == Some(Ordering::Greater) { high.clone() } else { max },
            ),
        }
    }

    pub fn of(min: Datum, max: Datum) -> Bounds {
        let long = |d: &Datum| match d {
            Datum::Text(s) => s.len() > BOUND_BYTES_MAX,
            Datum::Bytes(b) => b.len() > BOUND_BYTES_MAX,
            _ => false,
        };
        if long(&min) || long(&max) { Bounds::Unknown } else { Bounds::Known(min, max) }
    }
}

impl Zone {
    /// The zone of a run of values given by its rows.
    pub fn of(values: &crate::values::Values, rows: impl Iterator<Item = usize> + Clone) -> Zone {
        use crate::values::Store;
        let present = rows.clone().filter(|r| values.valid[*r]);
        let (rows, found) = (rows.count(), present.clone().count());
        let nulls = rows - found;
        if found == 0 {
            return Zone { rows, nulls, bounds: Bounds::Empty };
        }
        // Bytes of these are not in the order of their values.
        if matches!(
            values.data_type,
            DataType::Interval
                | DataType::Json
                | DataType::Jsonb
                | DataType::TsVector
                | DataType::TsQuery
                | DataType::Composite(_)
                | DataType::Array(_)
        ) {
            return Zone { rows, nulls, bounds: Bounds::Unknown };
        }
        let (min, max) = match &values.store {
            Store::Int(v) => extremes(present, |a, b| v[a].cmp(&v[b])),
            Store::Wide(v) if values.data_type == DataType::Uuid => {
                extremes(present, |a, b| (v[a] as u128).cmp(&(v[b] as u128)))
            }
            Store::Wide(v) => extremes(present, |a, b| v[a].cmp(&v[b])),
            // As SQL orders floats: NaN last, zeros alike.
            Store::Float(v) => extremes(present, |a, b| {
                v[a].partial_cmp(&v[b]).unwrap_or_else(|| v[a].is_nan().cmp(&v[b].is_nan()))
            }),
            // Both extremes would be too long to keep; comparing long texts is most of a merge's time.
            Store::Bytes { .. } if present.clone().all(|r| values.bytes(r).len() > BOUND_BYTES_MAX) => {
                return Zone { rows, nulls, bounds: Bounds::Unknown };
            }
            Store::Bytes { .. } => extremes(present, |a, b| values.bytes(a).cmp(values.bytes(b))),
        };
        Zone { rows, nulls, bounds: Bounds::of(values.datum(min), values.datum(max)) }
    }

    pub fn join(self, other: &Zone) -> Zone {
        Zone {
            rows: self.rows + other.rows,
            nulls: self.nulls + other.nulls,
            bounds: self.bounds.join(&other.bounds),
        }
    }

    pub const EMPTY: Zone = Zone { rows: 0, nulls: 0, bounds: Bounds::Empty };
}

fn extremes(
    mut rows: impl Iterator<Item = usize>,
    order: impl Fn(usize, usize) -> Ordering,
) -> (usize, usize) {
    let first = rows.next().expect("a value is present");
    rows.fold((first, first), |(min, max), row| {
        if order(row, min) == Ordering::Less {
            (row, max)
        } else if order(row, max) == Ordering::Greater {
            (min, row)
        } else {
            (min, max)
        }
    })
}
