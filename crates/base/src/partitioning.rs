//! Partitioned tables: how a table's rows are divided, and which of them each partition has.
//!
//! The rows of all partitions are stored as those of one table, so that keys, indexes and foreign keys hold across
//! partitions. A partition is a view of the rows that its bound takes in, with a check option. These partitions, which
//! PostgreSQL's `PARTITION BY` declares, say nothing about where rows live ([`Placement`](crate::schema::Placement)).
//!
//! KEEPS: no two bounds of one parent take in the same row; a table has no row that none of its partitions takes in, which
//! a check of its own decides ([`Check::is_of_partitions`](crate::schema::Check::is_of_partitions)).

pub mod hash;

use crate::{DataType, Datum, TableId};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// What decides the partition of a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Partitioning {
    pub strategy: Strategy,
    pub keys: Vec<PartitionKey>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Strategy {
    List,
    Range,
    // Stored by their numbers: new ones come at the end.
    Hash,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum PartitionKey {
    /// A column of the table that has the rows.
    Column(usize),
    /// The text of an expression over its columns, and the type of its values.
    Expression(String, DataType),
}

/// What makes a view a partition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Partition {
    /// The partitioned table, or another partition that is divided itself.
    pub parent: TableId,
    pub bound: Bound,
}

/// The rows of its parent that a partition takes in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Bound {
    /// Those whose key is one of these, which may be null.
    List(Vec<Datum>),
    /// Those whose keys, compared from the first one on, are not before `from` and before `to`.
    Range { from: Vec<Limit>, to: Vec<Limit> },
    /// Those that no other partition takes in.
    Default,
    /// Those whose keys' hash leaves this remainder ([`hash`]).
    Hash { modulus: u32, remainder: u32 },
}

/// One end of a range, of one key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Limit {
    Min,
    At(Datum),
    Max,
}

impl Strategy {
    /// The word behind `PARTITION BY`.
    pub fn word(self) -> &'static str {
        match self {
            Strategy::List => "LIST",
            Strategy::Range => "RANGE",
            Strategy::Hash => "HASH",
        }
    }
}

impl PartitionKey {
    /// The column that a key is, if it is one.
    pub fn column(&self) -> Option<usize> {
        match self {
            PartitionKey::Column(column) => Some(*column),
            PartitionKey::Expression(..) => None,
        }
    }
}

impl Bound {
    /// Whether some row could be taken in by both. Two defaults overlap, a default and another bound do not.
    pub fn overlaps(&self, other: &Bound) -> bool {
        match (self, other) {
            (Bound::Default, Bound::Default) => true,
            (Bound::List(these), Bound::List(those)) => these.iter().any(|value| lists(those, value)),
            (Bound::Range { from, to }, Bound::Range { from: other_from, to: other_to }) => {
                compare_limits(from, other_to) == Ordering::Less
                    && compare_limits(other_from, to) == Ordering::Less
            }
            (
                Bound::Hash { modulus, remainder },
                Bound::Hash { modulus: other_modulus, remainder: other_remainder },
            ) => {
                let common = common_divisor(*modulus, *other_modulus);
                remainder % common == other_remainder % common
            }
            _ => false,
        }
    }
}

/// The greatest number that divides two, of which one is not zero.
fn common_divisor(mut one: u32, mut other: u32) -> u32 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one.max(1)
}

/// Whether bounds take in every row: of every remainder of their largest modulus, which all moduli divide, if none of them
/// overlap.
pub fn take_in_all_hashes<'a>(bounds: impl Iterator<Item = &'a Bound> + Clone) -> bool {
    let moduli = bounds.map(|bound| match bound {
        Bound::Hash { modulus, .. } => u64::from(*modulus),
        _ => 0,
    });
    let Some(largest) = moduli.clone().max() else { return false };
    let taken: u64 = moduli.filter_map(|modulus| largest.checked_div(modulus)).sum();
    largest > 0 && taken == largest
}

/// Whether a list has a value, or one that is equal to it: a month and thirty days are.
pub fn lists(values: &[Datum], value: &Datum) -> bool {
    let is_it = |other: &Datum| match (other.is_null(), value.is_null()) {
        (false, false) => other.compare(value) == Some(Ordering::Equal),
        (is_null, of_null) => is_null && of_null,
    };
    values.iter().any(is_it)
}

/// The order of two ends of ranges, from the first key on. What follows an end without a value says nothing more.
pub fn compare_limits(one: &[Limit], other: &[Limit]) -> Ordering {
    for (one, other) in one.iter().zip(other) {
        let order = match (one, other) {
            (Limit::At(one), Limit::At(other)) => one.compare(other).unwrap_or(Ordering::Equal),
            (Limit::Min, Limit::Min) | (Limit::Max, Limit::Max) => return Ordering::Equal,
            (Limit::Min, _) | (_, Limit::Max) => Ordering::Less,
            (Limit::Max, _) | (_, Limit::Min) => Ordering::Greater,
        };
        if order != Ordering::Equal {
            return order;
        }
    }
    Ordering::Equal
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(from: &[Limit], to: &[Limit]) -> Bound {
        Bound::Range { from: from.to_vec(), to: to.to_vec() }
    }

    fn at(value: i64) -> Limit {
        Limit::At(Datum::Int(value))
    }

    #[test]
    fn ranges_that_touch_do_not_overlap() {
        let first = range(&[at(1)], &[at(5)]);
        assert!(!first.overlaps(&range(&[at(5)], &[Limit::Max])));
        assert!(first.overlaps(&range(&[at(4)], &[Limit::Max])));
        assert!(!first.overlaps(&range(&[Limit::Min], &[at(1)])));
        assert!(!first.overlaps(&Bound::Default) && Bound::Default.overlaps(&Bound::Default));
    }

    #[test]
    fn ranges_of_several_keys_are_compared_from_the_first_on() {
        let first = range(&[at(1), at(5)], &[at(2), Limit::Min]);
        assert!(!first.overlaps(&range(&[at(2), Limit::Min], &[at(3), at(0)])));
        assert!(!first.overlaps(&range(&[at(1), at(0)], &[at(1), at(5)])));
        assert!(first.overlaps(&range(&[at(1), at(7)], &[at(1), at(8)])));
    }

    #[test]
    fn hashes_overlap_in_a_remainder() {
        let hash = |modulus, remainder| Bound::Hash { modulus, remainder };
        assert!(hash(4, 1).overlaps(&hash(4, 1)) && !hash(4, 1).overlaps(&hash(4, 2)));
        assert!(hash(2, 1).overlaps(&hash(4, 3)) && hash(8, 5).overlaps(&hash(4, 1)));
        assert!(!hash(2, 1).overlaps(&hash(4, 2)) && !hash(8, 5).overlaps(&hash(4, 0)));
        let all = [hash(2, 0), hash(4, 1), hash(4, 3)];
        assert!(take_in_all_hashes(all.iter()));
        assert!(!take_in_all_hashes(all[..2].iter()) && !take_in_all_hashes(all[..0].iter()));
    }

    #[test]
    fn lists_overlap_in_a_value() {
        let list = |values: &[Datum]| Bound::List(values.to_vec());
        assert!(list(&[Datum::Int(1), Datum::Null]).overlaps(&list(&[Datum::Null])));
        assert!(!list(&[Datum::Int(1)]).overlaps(&list(&[Datum::Int(2)])));
        let span = |text: &str| Datum::Interval(crate::interval::parse(text).unwrap());
        assert!(list(&[span("1 month")]).overlaps(&list(&[span("30 days")])));
    }
}
