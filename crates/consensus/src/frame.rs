//! Records on a disk that may tear its last write: length, checksum, bytes.
//!
//! KEEPS: what [`split`] answers is a prefix of what was written with [`frame`], whatever happened to the
//! bytes after the last sync. A bad frame followed by a good one is no torn tail: the disk forgot something
//! that it had promised to keep, and that is an error.

/// Bytes before each record: its length and its checksum, both little-endian.
pub const HEADER_BYTES: usize = 12;

/// Longest record that is believed.
const RECORD_BYTES_MAX: usize = 1 << 30;

/// Records found, and how many bytes they take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split<'a> {
    pub records: Vec<&'a [u8]>,
    /// Where the next record belongs; what follows was torn and is to be cut off.
    pub valid_bytes: usize,
}

/// Bytes in the middle are damaged: a whole record lies behind what cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged {
    pub at_byte: usize,
}

impl std::fmt::Display for Damaged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "damaged at byte {}, with whole records behind it", self.at_byte)
    }
}
impl std::error::Error for Damaged {}

/// A record's frame, for this place of the file and no other.
pub fn frame(at_byte: usize, record: &[u8]) -> Vec<u8> {
    assert!(record.len() <= RECORD_BYTES_MAX, "a record of {} bytes", record.len());
    let mut bytes = Vec::with_capacity(HEADER_BYTES + record.len());
    bytes.extend_from_slice(&(record.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&checksum(at_byte, record).to_le_bytes());
    bytes.extend_from_slice(record);
    bytes
}

/// Reads frames up to the first that is not whole.
pub fn split(bytes: &[u8]) -> Result<Split<'_>, Damaged> {
    let mut at = 0;
    let mut records = Vec::new();
    while let Some(record) = frame_at(bytes, at) {
        at += HEADER_BYTES + record.len();
        records.push(record);
    }
    // Only one write can be torn, and nothing was written after it. A frame of nothing proves nothing:
    // a file grown by the system reads as zeros.
    let behind = (at + 1..bytes.len()).find(|&b| frame_at(bytes, b).is_some_and(|r| !r.is_empty()));
    match behind {
        Some(_) => Err(Damaged { at_byte: at }),
        None => Ok(Split { records, valid_bytes: at }),
    }
}

fn frame_at(bytes: &[u8], at: usize) -> Option<&[u8]> {
    let header = bytes.get(at..at + HEADER_BYTES)?;
    let length = u32::from_le_bytes(header[..4].try_into().expect("four bytes")) as usize;
    let sum = u64::from_le_bytes(header[4..].try_into().expect("eight bytes"));
    if length > RECORD_BYTES_MAX {
        return None;
    }
    let record = bytes.get(at + HEADER_BYTES..at + HEADER_BYTES + length)?;
    (checksum(at, record) == sum).then_some(record)
}

/// Never 0, so that zeros are no frame. The place is part of it: bytes of a record that look like a frame,
/// or a frame written elsewhere, are none.
fn checksum(at_byte: usize, record: &[u8]) -> u64 {
    base::hash::digest(&(at_byte as u64, record)) | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(records: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        records.iter().for_each(|record| bytes.extend(frame(bytes.len(), record)));
        bytes
    }

    #[test]
    fn a_write_torn_anywhere_leaves_the_records_before_it() {
        let bytes = framed(&[b"one", b"two!", b"three"]);
        let whole = framed(&[b"one", b"two!"]).len();
        for cut in whole..bytes.len() {
            let found = split(&bytes[..cut]).unwrap();
            assert_eq!((found.records, found.valid_bytes), (vec![&b"one"[..], b"two!"], whole));
            // The same with a tail of zeros, as a file system may leave it.
            let mut grown = bytes[..cut].to_vec();
            grown.resize(bytes.len(), 0);
            assert_eq!(split(&grown).unwrap().valid_bytes, whole);
        }
        assert_eq!(split(&bytes).unwrap().records.len(), 3);
        assert_eq!(split(&[]).unwrap().valid_bytes, 0);
    }

    #[test]
    fn a_flipped_bit_is_noticed_and_in_the_middle_it_is_damage() {
        let bytes = framed(&[b"first", b"second"]);
        let middle = framed(&[b"first"]).len();
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 4;
            match split(&bad) {
                Err(damaged) => assert!(at < middle && damaged.at_byte == 0),
                Ok(found) => assert!(middle <= at && found.valid_bytes == middle),
            }
        }
    }
}
