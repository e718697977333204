//! The type of an array's elements, small enough to be copied with the array's own.

use crate::DataType;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A type that is no array and has no labels.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Element {
    tag: u8,
    limit: u32,
}

/// Types without limits, by their tags. Stored: new ones come at the end.
const PLAIN: [DataType; 16] = [
    DataType::Boolean,
    DataType::SmallInt,
    DataType::Integer,
    DataType::BigInt,
    DataType::Real,
    DataType::Double,
    DataType::Text,
    DataType::Date,
    DataType::Timestamp,
    DataType::TimestampTz,
    DataType::Uuid,
    DataType::Bytea,
    DataType::Time,
    DataType::Interval,
    DataType::Json,
    DataType::Jsonb,
];
const NUMERIC: u8 = 100;
const VARCHAR: u8 = 101;
const CHAR: u8 = 102;

impl Element {
    /// `None` for an array and for an enumerated type.
    pub fn of(data_type: DataType) -> Option<Element> {
        let (tag, limit) = match data_type {
            DataType::Array(_) | DataType::Enum(_) => return None,
            DataType::Numeric { precision, scale } => (NUMERIC, u32::from(precision) << 8 | u32::from(scale)),
            DataType::Varchar { length } => (VARCHAR, length),
            DataType::Char { length } => (CHAR, length),
            plain => (PLAIN.iter().position(|t| *t == plain)? as u8, 0),
        };
        Some(Element { tag, limit })
    }

    pub fn data_type(self) -> DataType {
        match self.tag {
            NUMERIC => DataType::Numeric { precision: (self.limit >> 8) as u8, scale: self.limit as u8 },
            VARCHAR => DataType::Varchar { length: self.limit },
            CHAR => DataType::Char { length: self.limit },
            tag => PLAIN.get(usize::from(tag)).copied().unwrap_or(DataType::Text),
        }
    }
}

impl fmt::Debug for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.data_type().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_but_an_array_is_an_element() {
        let limited = [
            DataType::Numeric { precision: 38, scale: 10 },
            DataType::Varchar { length: 10_485_760 },
            DataType::Char { length: 1 },
        ];
        for data_type in PLAIN.into_iter().chain(limited) {
            let element = Element::of(data_type).unwrap();
            assert_eq!(element.data_type(), data_type);
            assert_eq!(Element::of(DataType::Array(element)), None);
        }
    }
}
