//! One record and its bytes.
//!
//! ```text
//! crc32c 4 | length 4 | sequence 8 | in_batch 4 | owner 2 | kind 1 | version 1 | payload
//! ```
//!
//! Little-endian. The checksum covers what follows it, the record's place in its file and whose file it is: bytes that
//! merely look like a record, or were written elsewhere, are none. `in_batch` counts the records before it that were
//! written in the same batch. It tells damage from a torn write: a batch is written only after the one before was
//! synced, so a bad record with a whole record *of a later batch* behind it had been synced.

use serde::{Deserialize, Serialize};

/// A record's number, from 1. 0 is before all records.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Sequence(pub u64);

impl Sequence {
    pub fn next(self) -> Sequence {
        Sequence(self.0 + 1)
    }
}

impl std::fmt::Display for Sequence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The part of a node that a record belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Owner(pub u16);

/// What was appended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    pub sequence: Sequence,
    pub owner: Owner,
    /// Numbered by the owner.
    pub kind: u8,
    /// Of this kind's payload.
    pub version: u8,
    pub payload: Vec<u8>,
}

pub(crate) const HEADER_BYTES: usize = 24;

/// Longest payload.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 30;

/// What stands before a payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    sum: u32,
    pub payload_bytes: usize,
    pub sequence: Sequence,
    pub in_batch: u32,
    pub owner: Owner,
    pub kind: u8,
    pub version: u8,
}

impl Header {
    /// Bytes of the record with its payload.
    pub fn record_bytes(&self) -> u64 {
        (HEADER_BYTES + self.payload_bytes) as u64
    }
    /// The first record of its batch.
    pub fn batch(&self) -> Sequence {
        Sequence(self.sequence.0.saturating_sub(u64::from(self.in_batch)))
    }
}

/// Appends a record's bytes; `at` is its place in its file.
pub(crate) fn encode(record: &Record, in_batch: u32, salt: u32, at: u64, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&(record.payload.len() as u32).to_le_bytes());
    out.extend_from_slice(&record.sequence.0.to_le_bytes());
    out.extend_from_slice(&in_batch.to_le_bytes());
    out.extend_from_slice(&record.owner.0.to_le_bytes());
    out.extend_from_slice(&[record.kind, record.version]);
    out.extend_from_slice(&record.payload);
    let sum = checksum(salt, at, &out[start + 4..]);
    out[start..start + 4].copy_from_slice(&sum.to_le_bytes());
}

/// A header, right or wrong; its record's checksum tells.
pub(crate) fn header(bytes: &[u8]) -> Option<Header> {
    let head: &[u8; HEADER_BYTES] = bytes.get(..HEADER_BYTES)?.try_into().expect("as many bytes");
    let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes"));
    Some(Header {
        sum: word(0),
        payload_bytes: word(4) as usize,
        sequence: Sequence(u64::from_le_bytes(head[8..16].try_into().expect("eight bytes"))),
        in_batch: word(16),
        owner: Owner(u16::from_le_bytes([head[20], head[21]])),
        kind: head[22],
        version: head[23],
    })
}

/// Whether the record at the beginning of `bytes`, which lies at `at`, is what was written there.
pub(crate) fn is_whole(header: &Header, salt: u32, at: u64, bytes: &[u8]) -> bool {
    let end = HEADER_BYTES + header.payload_bytes;
    bytes.get(4..end).is_some_and(|rest| checksum(salt, at, rest) == header.sum)
}

/// Of bytes at their place in a file; the salt is that of the file's owner.
pub(crate) fn checksum(salt: u32, at: u64, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c_append(salt, &at.to_le_bytes()), bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_whole_at_its_place_only_and_every_bit_of_it_counts() {
        let payload = b"payload".to_vec();
        let record = Record { sequence: Sequence(9), owner: Owner(3), kind: 4, version: 1, payload };
        let mut bytes = Vec::new();
        encode(&record, 2, 77, 100, &mut bytes);
        let found = header(&bytes).unwrap();
        assert_eq!((found.sequence, found.batch()), (Sequence(9), Sequence(7)));
        assert_eq!((found.owner, found.kind, found.version), (Owner(3), 4, 1));
        assert!(is_whole(&found, 77, 100, &bytes));
        assert!(!is_whole(&found, 77, 101, &bytes) && !is_whole(&found, 78, 100, &bytes));
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 1;
            assert!(!is_whole(&header(&bad).unwrap(), 77, 100, &bad), "byte {at}");
            assert!(!header(&bytes[..at]).is_some_and(|found| is_whole(&found, 77, 100, &bytes[..at])));
        }
        assert!(!is_whole(&header(&[0; 64]).unwrap(), 77, 100, &[0; 64]), "zeros are no record");
    }
}
