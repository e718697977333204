//! The type of an array's elements, small enough to be copied with the array's own.

use crate::DataType;
use crate::enumeration::EnumType;
use serde::de::{Error, SeqAccess, Visitor};
use serde::ser::SerializeTuple;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// A type that is no array.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Element(Kind);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Kind {
    Plain { tag: u8, limit: u32 },
    Labels(EnumType),
}

/// Types without limits, by their tags. Stored: new ones come at the end.
const PLAIN: [DataType; 23] = [
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
    DataType::Inet,
    DataType::TsVector,
    DataType::TsQuery,
    DataType::Cidr,
    DataType::MacAddr,
    DataType::MacAddr8,
    DataType::TimeTz,
];
const NUMERIC: u8 = 100;
const VARCHAR: u8 = 101;
const CHAR: u8 = 102;
/// The description of an enumerated type follows.
const LABELS: u8 = 103;

impl Element {
    /// `None` for an array.
    pub fn of(data_type: DataType) -> Option<Element> {
        let (tag, limit) = match data_type {
            DataType::Array(_) => return None,
            DataType::Enum(of) => return Some(Element(Kind::Labels(of))),
            DataType::Numeric { precision, scale } => (NUMERIC, u32::from(precision) << 8 | u32::from(scale)),
            DataType::Varchar { length } => (VARCHAR, length),
            DataType::Char { length } => (CHAR, length),
            plain => (PLAIN.iter().position(|t| *t == plain)? as u8, 0),
        };
        Some(Element(Kind::Plain { tag, limit }))
    }

    pub fn data_type(self) -> DataType {
        match self.0 {
            Kind::Labels(of) => DataType::Enum(of),
            Kind::Plain { tag: NUMERIC, limit } => {
                DataType::Numeric { precision: (limit >> 8) as u8, scale: limit as u8 }
            }
            Kind::Plain { tag: VARCHAR, limit } => DataType::Varchar { length: limit },
            Kind::Plain { tag: CHAR, limit } => DataType::Char { length: limit },
            Kind::Plain { tag, .. } => PLAIN.get(usize::from(tag)).copied().unwrap_or(DataType::Text),
        }
    }
}

/// Sent and stored as its tag and its limit; an enumerated type with its description behind them.
impl Serialize for Element {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (tag, limit, labels) = match self.0 {
            Kind::Plain { tag, limit } => (tag, limit, None),
            Kind::Labels(of) => (LABELS, 0, Some(of)),
        };
        let mut parts = serializer.serialize_tuple(2 + usize::from(labels.is_some()))?;
        parts.serialize_element(&tag)?;
        parts.serialize_element(&limit)?;
        if let Some(of) = labels {
            parts.serialize_element(&of)?;
        }
        parts.end()
    }
}
impl<'de> Deserialize<'de> for Element {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Element, D::Error> {
        deserializer.deserialize_tuple(3, Parts)
    }
}

struct Parts;

impl<'de> Visitor<'de> for Parts {
    type Value = Element;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the type of an array's elements")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Element, A::Error> {
        let missing = || A::Error::custom("a part of an array's type is missing");
        let tag = parts.next_element::<u8>()?.ok_or_else(missing)?;
        let limit = parts.next_element::<u32>()?.ok_or_else(missing)?;
        Ok(Element(match tag {
            LABELS => Kind::Labels(parts.next_element()?.ok_or_else(missing)?),
            tag => Kind::Plain { tag, limit },
        }))
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
    use crate::TableId;
    use crate::enumeration::Enumeration;

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
            let array = DataType::Array(element);
            assert_eq!(crate::codec::decode(&crate::codec::encode(&(array, 7u8))), Ok((array, 7u8)));
        }
    }

    #[test]
    fn an_array_of_labels_travels_with_its_labels() {
        let labels = ["sad", "ok"].map(String::from).to_vec();
        let mood = Enumeration::new(TableId(7), "public".into(), "mood".into(), labels).unwrap();
        let array = DataType::Array(Element::of(DataType::Enum(EnumType::of(mood))).unwrap());
        let back: (DataType, u8) = crate::codec::decode(&crate::codec::encode(&(array, 7u8))).unwrap();
        assert_eq!(back, (array, 7));
        let value = crate::text::parse("{ok,NULL,sad}", back.0).unwrap();
        assert_eq!(crate::text::display_as(&value, back.0), "{ok,NULL,sad}");
        assert!(crate::text::parse("{gone}", array).is_err());
    }
}
