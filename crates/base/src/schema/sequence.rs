//! Sequences, as the catalog keeps them: what they count between which bounds, and from where.

use crate::{DataType, NodeId, TableId};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sequence {
    pub id: TableId,
    pub schema: String,
    pub name: String,
    /// As it was declared.
    pub start: i64,
    pub increment: i64,
    pub limits: SequenceLimits,
    /// Table and column it belongs to.
    pub owner: Option<(TableId, usize)>,
    pub origin: Origin,
}

/// Between what bounds a sequence counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SequenceLimits {
    /// `smallint`, `integer` or `bigint`.
    pub data_type: DataType,
    pub min: i64,
    pub max: i64,
    /// Whether it begins again at the other bound.
    pub cycles: bool,
    /// As it was declared; how many values a gateway hands out in a row does not follow from it.
    pub cache: i64,
}

impl SequenceLimits {
    /// What is not declared: from 1 on, or down from -1, to the type's end.
    pub fn declared(data_type: DataType, increment: i64) -> SequenceLimits {
        let (lowest, highest) = SequenceLimits::range(data_type);
        let (min, max) = if increment > 0 { (1, highest) } else { (lowest, -1) };
        SequenceLimits { data_type, min, max, cycles: false, cache: 1 }
    }

    /// Lowest and highest value of a type.
    pub fn range(data_type: DataType) -> (i64, i64) {
        match data_type {
            DataType::SmallInt => (i16::MIN.into(), i16::MAX.into()),
            DataType::Integer => (i32::MIN.into(), i32::MAX.into()),
            _ => (i64::MIN, i64::MAX),
        }
    }

    /// The nth value (from 0) of a sequence that counts from an origin; `None` behind its end.
    pub fn nth(&self, origin: i64, increment: i64, nth: i64) -> Option<i64> {
        let (origin, increment, nth) = (i128::from(origin), i128::from(increment), i128::from(nth));
        let (min, max) = (i128::from(self.min), i128::from(self.max));
        let (begin, end) = if increment > 0 { (min, max) } else { (max, min) };
        let way = |from: i128| if increment > 0 { end - from } else { from - end };
        // Negative behind the end.
        let steps_to_end = |from: i128| way(from).div_euclid(increment.abs());
        let value = origin + nth * increment;
        if (min..=max).contains(&value) {
            return i64::try_from(value).ok();
        }
        if !self.cycles {
            return None;
        }
        let again = nth - (steps_to_end(origin) + 1);
        let within = again.rem_euclid(steps_to_end(begin) + 1);
        i64::try_from(begin + within * increment).ok()
    }
}

/// Where a sequence's values count from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Origin {
    /// How often `setval` has moved it.
    pub times_moved: u32,
    pub value: i64,
    /// Whether `setval` said that the value before it has been handed out.
    pub is_called: bool,
    /// The node whose values come first, so that the one that was asked goes on with this very value.
    pub first: NodeId,
}

impl Origin {
    pub fn declared(start: i64) -> Origin {
        Origin { times_moved: 0, value: start, is_called: false, first: NodeId(0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(min: i64, max: i64, cycles: bool) -> SequenceLimits {
        SequenceLimits { min, max, cycles, ..SequenceLimits::declared(DataType::BigInt, 1) }
    }

    fn values(limits: SequenceLimits, origin: i64, increment: i64, count: i64) -> Vec<Option<i64>> {
        (0..count).map(|nth| limits.nth(origin, increment, nth)).collect()
    }

    #[test]
    fn a_sequence_ends_at_its_bound_or_begins_again_at_the_other() {
        assert_eq!(values(limits(1, 5, false), 2, 2, 3), [Some(2), Some(4), None]);
        let again = [Some(4), Some(5), Some(2), Some(3), Some(4), Some(5), Some(2)];
        assert_eq!(values(limits(2, 5, true), 4, 1, 7), again);
        let down = [Some(-1), Some(-3), Some(-1), Some(-3)];
        assert_eq!(values(limits(-4, -1, true), -1, -2, 4), down);
        assert_eq!(values(limits(1, 10, true), 12, 5, 3), [Some(1), Some(6), Some(1)]);
        assert_eq!(limits(1, i64::MAX, false).nth(i64::MAX, 1, 1), None);
        assert_eq!(limits(1, i64::MAX, true).nth(i64::MAX, 1, 1), Some(1));
        assert!(limits(i64::MIN, i64::MAX, true).nth(1, i64::MAX, i64::MAX).is_some());
    }

    #[test]
    fn bounds_follow_from_the_type_and_the_direction() {
        let up = SequenceLimits::declared(DataType::SmallInt, 1);
        assert_eq!((up.min, up.max), (1, 32_767));
        let down = SequenceLimits::declared(DataType::Integer, -1);
        assert_eq!((down.min, down.max), (i64::from(i32::MIN), -1));
    }
}
