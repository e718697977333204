//! Bytes on the wire and on disk: one version byte, then the value in postcard's varint form.

use postcard::ser_flavors::{Flavor, Size};
use serde::{Serialize, de::DeserializeOwned};

/// Version of everything that [`encode`] writes. A reader refuses any other. 2: commit records carry patches. 3: tables
/// carry foreign keys, catalogs views and comments. 5: catalogs carry types. 6: indexes carry expressions
/// and predicates. 7: catalogs carry domains. 8: catalogs carry functions and procedures. 9: catalogs carry databases, tables
/// triggers; indexes are entered by programs. 10: roles and databases carry settings. 11: tables and views carry partitions,
/// and epochs with a change of the catalog are merged in another way.
pub const VERSION: u8 = 11;

/// Why bytes could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DecodeError {
    Empty,
    /// Written by another version of the program.
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
                write!(f, "format version {found}, this program reads version {VERSION}")
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

/// Reads what [`encode`] wrote; never panics on foreign bytes.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, DecodeError> {
    let (&version, rest) = bytes.split_first().ok_or(DecodeError::Empty)?;
    if version != VERSION {
        return Err(DecodeError::Version { found: version });
    }
    let (value, rest) = postcard::take_from_bytes(rest).map_err(|e| DecodeError::Malformed(e.to_string()))?;
    match rest.len() {
        0 => Ok(value),
        count => Err(DecodeError::TrailingBytes { count }),
    }
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
    }
}
