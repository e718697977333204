//! A segment: a file of records with consecutive sequence numbers, which its name and its header begin.
//!
//! KEEPS: a reader answers the valid records from the beginning up to the first one that is incomplete or whose checksum
//! is wrong, and holds one record and one piece of the file in memory, however long the file is.

use crate::disk::{Disk, Failed};
use crate::identity::{ClusterId, Identity};
use crate::options::{Options, planted};
use crate::paths;
use crate::record::{self, Header, Record, Sequence};
use crate::refused::Refused;
use crate::sealed::{self, Broken};
use base::NodeId;

const MAGIC: &[u8; 8] = b"mdn-recs";
pub const FORMAT: u32 = 1;

/// Cluster, node, first sequence number.
const BODY_BYTES: usize = 16 + 2 + 8;
/// Where the first record begins.
pub const HEADER_BYTES: u64 = (sealed::HEAD_BYTES + BODY_BYTES) as u64;

/// Read at a time.
const PIECE_BYTES: usize = 256 << 10;

/// A segment's first bytes. They follow from its name and its owner, so they can be written again.
pub(crate) fn header(identity: &Identity, first: Sequence) -> Vec<u8> {
    let mut body = identity.cluster.0.to_le_bytes().to_vec();
    body.extend_from_slice(&identity.node.0.to_le_bytes());
    body.extend_from_slice(&first.0.to_le_bytes());
    sealed::seal(MAGIC, FORMAT, &body)
}

/// Reads a segment from its beginning.
pub(crate) struct Reader {
    path: String,
    salt: u32,
    /// Bytes of the file.
    length: u64,
    /// Where the next record belongs.
    at: u64,
    next: Sequence,
    /// `in_batch` of the next record, unless it begins a batch.
    in_batch: u32,
    /// Where the last batch begins that a whole record belongs to.
    batch_at: u64,
    is_header_good: bool,
    checks: bool,
    piece: Vec<u8>,
    piece_at: u64,
}

impl Reader {
    /// Refuses a segment of another format or another owner. A header that cannot be read is left to the caller.
    pub fn open(disk: &mut dyn Disk, identity: &Identity, first: Sequence) -> Result<Reader, Refused> {
        let path = paths::segment(first);
        let length = disk.length(&path)?.unwrap_or(0);
        let head = disk.read(&path, 0, HEADER_BYTES as usize)?;
        let is_header_good = match sealed::unseal(MAGIC, FORMAT, &head) {
            Ok(body) => {
                let found = Identity { topology_digest: identity.topology_digest, ..owner_of(body) };
                identity.compare(&path, &found)?;
                head == header(identity, first)
            }
            Err(Broken::Format { found }) => {
                return Err(Refused::Format { path, found, reads: FORMAT });
            }
            Err(Broken::Damaged) => false,
        };
        Ok(Reader {
            path,
            salt: identity.salt(),
            length,
            at: HEADER_BYTES,
            next: first,
            in_batch: 0,
            batch_at: 0,
            is_header_good,
            checks: true,
            piece: Vec::new(),
            piece_at: 0,
        })
    }

    /// For a planted fault.
    pub fn without_checksums(mut self) -> Reader {
        self.checks = false;
        self
    }

    pub fn path(&self) -> &str {
        &self.path
    }
    pub fn is_header_good(&self) -> bool {
        self.is_header_good
    }
    /// Offset of the first byte behind the last valid record, in bytes.
    pub fn at(&self) -> u64 {
        self.at
    }
    /// Where what may have been written without a sync begins: the last batch, with the file's header if it is the first.
    pub fn last_batch_at(&self) -> u64 {
        if self.batch_at <= HEADER_BYTES { 0 } else { self.batch_at }
    }
    pub fn length(&self) -> u64 {
        self.length
    }
    pub fn next_sequence(&self) -> Sequence {
        self.next
    }
    pub fn is_at_end(&self) -> bool {
        self.length <= self.at
    }

    /// The next valid record; `None` at the end, or if the next record is incomplete or its checksum is wrong.
    pub fn next(&mut self, disk: &mut dyn Disk) -> Result<Option<Record>, Failed> {
        let Some(found) = self.header_at(disk, self.at)? else { return Ok(None) };
        let begins = found.in_batch == 0;
        if found.sequence != self.next || !(begins || found.in_batch == self.in_batch) {
            return Ok(None);
        }
        let (salt, at, checks) = (self.salt, self.at, self.checks);
        let bytes = self.bytes(disk, at, found.record_bytes() as usize)?;
        if bytes.len() as u64 != found.record_bytes() || checks && !record::is_whole(&found, salt, at, bytes)
        {
            return Ok(None);
        }
        let record = Record {
            sequence: found.sequence,
            owner: found.owner,
            kind: found.kind,
            version: found.version,
            payload: bytes[record::HEADER_BYTES..].to_vec(),
        };
        if begins {
            self.batch_at = at;
        }
        (self.at, self.next, self.in_batch) =
            (at + found.record_bytes(), found.sequence.next(), found.in_batch + 1);
        Ok(Some(record))
    }

    /// Whether a valid record of a later batch follows the one at which reading ended. If so, that one had been synced
    /// before the later batch was written, and is damaged.
    pub fn is_damaged(&mut self, disk: &mut dyn Disk, options: &Options) -> Result<bool, Failed> {
        let mut at = self.at + 1;
        while at + record::HEADER_BYTES as u64 <= self.length {
            let salt = self.salt;
            if let Some(found) = self.header_at(disk, at)?
                // Each record between takes a header at least.
                && found.sequence.0 <= self.next.0 + (at - self.at)
                && (self.next < found.batch() || planted!(options, TakesTornBatchForDamage) && self.next < found.sequence)
                && at + found.record_bytes() <= self.length
            {
                let bytes = self.bytes(disk, at, found.record_bytes() as usize)?;
                if record::is_whole(&found, salt, at, bytes) {
                    return Ok(true);
                }
            }
            at += 1;
        }
        Ok(false)
    }

    /// What looks like a header at `at`, of a record that ends within the file.
    fn header_at(&mut self, disk: &mut dyn Disk, at: u64) -> Result<Option<Header>, Failed> {
        let found = record::header(self.bytes(disk, at, record::HEADER_BYTES)?);
        Ok(found.filter(|found| {
            found.payload_bytes <= record::PAYLOAD_BYTES_MAX && at + found.record_bytes() <= self.length
        }))
    }

    /// Bytes of the file; fewer at its end.
    fn bytes(&mut self, disk: &mut dyn Disk, at: u64, count: usize) -> Result<&[u8], Failed> {
        let has = self.piece_at <= at && at + count as u64 <= self.piece_at + self.piece.len() as u64;
        if !has {
            self.piece = disk.read(&self.path, at, count.max(PIECE_BYTES))?;
            self.piece_at = at;
        }
        let from = (at - self.piece_at) as usize;
        let to = (from + count).min(self.piece.len());
        Ok(&self.piece[from..to])
    }
}

fn owner_of(body: &[u8]) -> Identity {
    let part = |from: usize, to: usize| body.get(from..to).unwrap_or(&[]);
    let cluster = part(0, 16).try_into().map_or(0, u128::from_le_bytes);
    let node = part(16, 18).try_into().map_or(0, u16::from_le_bytes);
    Identity { cluster: ClusterId(cluster), node: NodeId(node), topology_digest: 0 }
}
