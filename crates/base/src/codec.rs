//! Bytes on the wire and on disk: one version byte, then the value in postcard's varint form.
//!
//! What is written has [`VERSION`]; what is read may have any from [`OLDEST`] on, so a program opens what an older one has
//! written. Postcard writes the fields of a struct in their order, without names, and a variant of an enum by its number.
//! So a change of a type that is stored follows these rules, which `cargo xtask encoded` checks:
//! 1. a field that is added in version N has `#[serde(deserialize_with = "base::codec::since::<N, _, _>")]` (in this crate
//!    `crate::codec::…`): in older bytes it takes nothing and is the default. It may stand anywhere among the fields;
//! 2. a variant is added at the end, and none is taken away;
//! 3. no field is taken away, moved or given another type.
//!
//! A value within a value that is encoded on its own, as bytes, begins with its own version.

use postcard::ser_flavors::{Flavor, Size};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use std::cell::Cell;
use std::ops::RangeInclusive;

/// Version of everything that [`encode`] writes. 2: commit records carry patches. 3: tables
/// carry foreign keys, catalogs views and comments. 5: catalogs carry types. 6: indexes carry expressions
/// and predicates. 7: catalogs carry domains. 8: catalogs carry functions and procedures. 9: catalogs carry databases, tables
/// triggers; indexes are entered by programs. 10: roles and databases carry settings. 11: tables and views carry partitions,
/// and epochs with a change of the catalog are merged in another way. 12: what older versions lack has its default. 13: composite
/// types, addresses and times with an offset, polymorphic functions.
pub const VERSION: u8 = 13;

/// The oldest version that [`decode`] reads.
pub const OLDEST: u8 = 11;

/// Versions that [`decode`] reads.
pub const READS: RangeInclusive<u8> = OLDEST..=VERSION;

thread_local! {
    /// Version of what this thread reads now. A `Deserialize` has no other way to learn it: neither serde nor postcard hands
    /// anything of the caller's down to fields.
    static READING: Cell<u8> = const { Cell::new(VERSION) };
}

/// Why bytes could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DecodeError {
    Empty,
    /// Of a version that this program does not read: older than [`OLDEST`] or newer than [`VERSION`].
    Version {
        found: u8,
    },
    Malformed(String),
    /// The value ended before the bytes did.
    TrailingBytes {
        count: usize,
    },
}

impl std::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DecodeError::Empty => write!(f, "no bytes"),
            DecodeError::Version { found } => {
                write!(f, "format version {found}; this program reads versions {OLDEST} to {VERSION}")
            }
            DecodeError::Malformed(why) => write!(f, "malformed: {why}"),
            DecodeError::TrailingBytes { count } => write!(f, "{count} bytes too many"),
        }
    }
}
impl std::error::Error for DecodeError {}

/// The value's bytes, version first.
pub fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    postcard::serialize_with_flavor(value, Growing(vec![VERSION])).expect("writing to memory cannot fail")
}

/// Where bytes are written: what is at hand as a slice is copied as one.
struct Growing(Vec<u8>);

impl Flavor for Growing {
    type Output = Vec<u8>;
    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(byte);
        Ok(())
    }
    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }
    fn finalize(self) -> postcard::Result<Vec<u8>> {
        Ok(self.0)
    }
}

/// Version of encoded bytes. Errors: there are none, or [`decode`] does not read it.
pub fn version_of(bytes: &[u8]) -> Result<u8, DecodeError> {
    let found = *bytes.first().ok_or(DecodeError::Empty)?;
    if READS.contains(&found) { Ok(found) } else { Err(DecodeError::Version { found }) }
}

/// Reads what [`encode`] wrote, in this or an older version of the program; never panics on foreign bytes.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, DecodeError> {
    let (version, rest) = (version_of(bytes)?, &bytes[1..]);
    let _reading = Reading::begin(version);
    let (value, rest) = postcard::take_from_bytes(rest).map_err(|e| DecodeError::Malformed(e.to_string()))?;
    match rest.len() {
        0 => Ok(value),
        count => Err(DecodeError::TrailingBytes { count }),
    }
}

/// While it lives this thread reads a version; afterwards the one that it read before.
struct Reading {
    before: u8,
}

impl Reading {
    fn begin(version: u8) -> Reading {
        Reading { before: READING.replace(version) }
    }
}
impl Drop for Reading {
    fn drop(&mut self) {
        READING.set(self.before);
    }
}

/// Reads a field that was added in version `FIRST`, for serde's `deserialize_with`: older bytes do not have it, and it is
/// the default.
pub fn since<'de, const FIRST: u8, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Deserialize<'de> + Default,
    D: Deserializer<'de>,
{
    if READING.get() < FIRST { Ok(T::default()) } else { T::deserialize(deserializer) }
}

/// Length of the encoding in bytes, without making it.
pub fn encoded_len<T: Serialize>(value: &T) -> usize {
    let size = postcard::serialize_with_flavor(value, Size::default());
    1 + size.expect("counting cannot fail")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        let bytes = encode(&(7u32, "seven"));
        assert_eq!(decode::<(u32, String)>(&bytes).unwrap(), (7, "seven".to_string()));
        assert_eq!(decode::<(u32, String)>(&[]), Err(DecodeError::Empty));
        assert_eq!(decode::<(u32, String)>(&[7, 7]), Err(DecodeError::Version { found: 7 }));
        let mut long = bytes.clone();
        long.push(0);
        assert_eq!(decode::<(u32, String)>(&long), Err(DecodeError::TrailingBytes { count: 1 }));
        assert!(decode::<(u32, String)>(&bytes[..bytes.len() - 1]).is_err());
        let newer = Err(DecodeError::Version { found: VERSION + 1 });
        assert_eq!(decode::<(u32, String)>(&[VERSION + 1, 7]), newer);
    }

    /// As the version before this one has it.
    #[derive(Serialize)]
    enum Before {
        Named { name: String, columns: Vec<u32> },
        Pair(Option<u32>, bool),
    }

    /// The same in this version.
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    enum Now {
        Named {
            name: String,
            #[serde(deserialize_with = "since::<VERSION, _, _>")]
            comment: Option<String>,
            columns: Vec<u32>,
            #[serde(deserialize_with = "since::<VERSION, _, _>")]
            parts: Vec<(u8, String)>,
        },
        Pair(Option<u32>, bool, #[serde(deserialize_with = "since::<VERSION, _, _>")] u64),
        Added,
    }

    /// Bytes of the version before this one.
    fn old(value: &impl Serialize) -> Vec<u8> {
        let mut bytes = encode(value);
        bytes[0] = VERSION - 1;
        bytes
    }

    #[test]
    fn what_an_older_program_wrote_is_read_with_defaults() {
        let before = vec![
            Before::Named { name: "t".into(), columns: vec![1, 300] },
            Before::Pair(Some(7), true),
            Before::Named { name: "u".into(), columns: Vec::new() },
        ];
        let now = vec![
            Now::Named { name: "t".into(), comment: None, columns: vec![1, 300], parts: Vec::new() },
            Now::Pair(Some(7), true, 0),
            Now::Named { name: "u".into(), comment: None, columns: Vec::new(), parts: Vec::new() },
        ];
        assert_eq!(decode::<Vec<Now>>(&old(&before)).as_ref(), Ok(&now));
        // What is written is of this version, with all of its fields.
        assert_eq!(encode(&now)[0], VERSION);
        assert!(encode(&now).len() > old(&before).len());
        assert_eq!(decode::<Vec<Now>>(&encode(&now)), Ok(now));
        let full = vec![
            Now::Named {
                name: "t".into(),
                comment: Some("c".into()),
                columns: vec![1],
                parts: vec![(1, "p".into())],
            },
            Now::Pair(None, false, 9),
            Now::Added,
        ];
        assert_eq!(decode::<Vec<Now>>(&encode(&full)), Ok(full));
    }

    /// A value that holds another one as bytes and reads it while it is being read.
    #[derive(Debug, PartialEq)]
    struct Holds(Vec<Now>);

    impl<'de> Deserialize<'de> for Holds {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let bytes = Vec::<u8>::deserialize(deserializer)?;
            decode(&bytes).map(Holds).map_err(serde::de::Error::custom)
        }
    }

    #[test]
    fn bytes_within_a_value_have_their_own_version_and_what_follows_them_has_the_outer_one() {
        let (inner, after) = (vec![Now::Pair(None, true, 5)], Before::Pair(Some(1), false));
        let bytes = old(&(encode(&inner), &after));
        let read = decode::<(Holds, Now)>(&bytes);
        assert_eq!(read, Ok((Holds(inner), Now::Pair(Some(1), false, 0))));
        // An error ends the reading too.
        assert!(decode::<Vec<Now>>(&[VERSION - 1, 9, 9]).is_err());
        let now = vec![Now::Pair(None, true, 6)];
        assert_eq!(decode::<Vec<Now>>(&encode(&now)), Ok(now));
    }
}
