//! A checkpoint on disk: files of blocks, and a manifest that lists them.
//!
//! A block is its length, a checksum and its bytes. KEEPS: the manifest is written after every file was synced, so a
//! manifest that can be read stands for a complete checkpoint; a file that differs from what the manifest says was
//! damaged afterwards.

use crate::disk::{Disk, Failed};
use crate::identity::Identity;
use crate::paths;
use crate::record::{Sequence, checksum};
use crate::refused::Refused;
use crate::sealed::{self, Broken};
use base::{PartitionId, Rank};
use serde::{Deserialize, Serialize};

const MAGIC: &[u8; 8] = b"mdn-chkp";
pub const FORMAT: u32 = 1;

/// Length and checksum, before each block.
pub(crate) const BLOCK_HEADER_BYTES: usize = 8;
/// Read at a time.
const PIECE_BYTES: usize = 1 << 20;
/// Longest manifest that is read.
const MANIFEST_BYTES_MAX: u64 = 256 << 20;

/// What a checkpoint holds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Description {
    /// The state after this record: later ones are to be read from the log.
    pub position: Sequence,
    /// What each partition had executed.
    pub ranks: Vec<(PartitionId, Rank)>,
}

/// A file of a checkpoint.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DataFile {
    pub name: String,
    pub bytes: u64,
    pub blocks: u64,
    pub(crate) sum: u32,
}

impl DataFile {
    pub(crate) fn new(name: &str) -> DataFile {
        DataFile { name: name.into(), bytes: 0, blocks: 0, sum: 0 }
    }

    /// The bytes of the next block in this file.
    pub(crate) fn push(&mut self, salt: u32, block: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(BLOCK_HEADER_BYTES + block.len());
        bytes.extend_from_slice(&(block.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&checksum(salt, self.bytes, block).to_le_bytes());
        bytes.extend_from_slice(block);
        self.bytes += bytes.len() as u64;
        self.blocks += 1;
        self.sum = crc32c::crc32c_append(self.sum, &bytes);
        bytes
    }
}

/// Lists what a checkpoint consists of.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub identity: Identity,
    /// Of the process that wrote it.
    pub incarnation: u64,
    pub description: Description,
    pub files: Vec<DataFile>,
}

impl Manifest {
    pub fn encode(&self) -> Vec<u8> {
        sealed::seal(MAGIC, FORMAT, &postcard::to_stdvec(self).expect("memory takes all"))
    }
}

/// A complete checkpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Checkpoint {
    pub number: u64,
    pub(crate) manifest: Manifest,
}

/// What was found in a checkpoint's directory.
pub(crate) enum Found {
    Complete(Checkpoint),
    /// It was not finished, or is damaged.
    Unusable(&'static str),
}

impl Checkpoint {
    pub fn description(&self) -> &Description {
        &self.manifest.description
    }
    pub fn files(&self) -> &[DataFile] {
        &self.manifest.files
    }
    /// The incarnation that wrote it.
    pub fn incarnation(&self) -> u64 {
        self.manifest.incarnation
    }

    /// Reads a file's blocks in order.
    pub fn blocks<'a>(&'a self, file: &'a DataFile) -> Blocks<'a> {
        let path = paths::data(self.number, &file.name);
        Blocks { path, file, salt: self.manifest.identity.salt(), at: 0 }
    }

    /// Refuses a manifest of another owner or another format.
    pub(crate) fn read(disk: &mut dyn Disk, identity: &Identity, number: u64) -> Result<Found, Refused> {
        let path = paths::manifest(number);
        let Some(bytes) = disk.length(&path)? else { return Ok(Found::Unusable("it was not finished")) };
        let unreadable = Found::Unusable("its manifest cannot be read");
        if bytes > MANIFEST_BYTES_MAX {
            return Ok(unreadable);
        }
        let bytes = disk.read(&path, 0, bytes as usize)?;
        let body = match sealed::unseal(MAGIC, FORMAT, &bytes) {
            Ok(body) => body,
            Err(Broken::Damaged) => return Ok(unreadable),
            Err(Broken::Format { found }) => return Err(Refused::Format { path, found, reads: FORMAT }),
        };
        let Ok(manifest) = postcard::from_bytes::<Manifest>(body) else { return Ok(unreadable) };
        if !manifest.files.iter().all(|file| paths::is_data_name(&file.name)) {
            return Ok(unreadable);
        }
        identity.compare(&path, &manifest.identity)?;
        Ok(Found::Complete(Checkpoint { number, manifest }))
    }

    /// Where a file differs from what was written, as a sentence's end; files are read in pieces.
    pub(crate) fn damage(&self, disk: &mut dyn Disk) -> Result<Option<String>, Failed> {
        for file in &self.manifest.files {
            let path = paths::data(self.number, &file.name);
            let length = disk.length(&path)?;
            if length != Some(file.bytes) {
                let found = length.map_or("is missing".into(), |length| format!("has {length} bytes"));
                return Ok(Some(format!("{path} {found}, and {} were written", file.bytes)));
            }
            let (mut at, mut sum) = (0, 0);
            while at < file.bytes {
                let piece = disk.read(&path, at, PIECE_BYTES)?;
                if piece.is_empty() {
                    return Ok(Some(format!("{path} ends at offset {at}")));
                }
                sum = crc32c::crc32c_append(sum, &piece);
                at += piece.len() as u64;
            }
            if sum != file.sum {
                let at = self.first_bad_block(disk, file)?;
                return Ok(Some(format!("{path} is damaged at offset {at}")));
            }
        }
        Ok(None)
    }

    fn first_bad_block(&self, disk: &mut dyn Disk, file: &DataFile) -> Result<u64, Failed> {
        let mut blocks = self.blocks(file);
        loop {
            match blocks.next(disk) {
                Ok(Some(_)) => {}
                Err(Refused::Disk(failed)) => return Err(failed),
                Ok(None) | Err(_) => return Ok(blocks.at),
            }
        }
    }
}

/// A file's blocks, one at a time.
pub struct Blocks<'a> {
    path: String,
    file: &'a DataFile,
    salt: u32,
    at: u64,
}

impl Blocks<'_> {
    /// The next block; `None` after the last.
    pub fn next(&mut self, disk: &mut dyn Disk) -> Result<Option<Vec<u8>>, Refused> {
        if self.at == self.file.bytes {
            return Ok(None);
        }
        let why = "a block's checksum is wrong";
        let damaged = Refused::Damaged { path: self.path.clone(), at: self.at, why };
        let head = disk.read(&self.path, self.at, BLOCK_HEADER_BYTES)?;
        let Ok(head) = <[u8; BLOCK_HEADER_BYTES]>::try_from(head) else { return Err(damaged) };
        let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes"));
        let (length, sum) = (word(0) as usize, word(4));
        let end = self.at + (BLOCK_HEADER_BYTES + length) as u64;
        if self.file.bytes < end {
            return Err(damaged);
        }
        let block = disk.read(&self.path, self.at + BLOCK_HEADER_BYTES as u64, length)?;
        if block.len() != length || checksum(self.salt, self.at, &block) != sum {
            return Err(damaged);
        }
        self.at = end;
        Ok(Some(block))
    }
}
