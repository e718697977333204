//! Room on the disk of a data directory: a reserve that lets a node go on when the disk is full.
//!
//! IN: operations of logs that find no room. OUT: whether the disk is full, for whoever refuses what would write more.
//! KEEPS:
//! 1. as long as the disk has room, the directory holds a file of [`RESERVE_BYTES`]. When a log finds the disk full, the
//!    file is deleted and the disk counts as full: nothing new is let in that writes, while what was let in before, what
//!    others were promised, and the ceilings that reads need go on with the room that the reserve had;
//! 2. the disk has room again once a file of twice that size could be written and synced, of which half stays;
//! 3. an operation that found no room is done again, as it was, until it finds some. That is safe because a write that
//!    failed for lack of room was told at once and leaves no page behind that only looks written; a *sync* that fails is
//!    never repeated.

use crate::files::sync_directory;
use durability::{Disk, Failed, Failure, Op};
use parking_lot::Mutex;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Enough for hours of the records that an idle node writes, and for what was under way.
pub const RESERVE_BYTES: u64 = 16 << 20;

const RESERVE: &str = "reserve";
const PROBE: &str = "reserve.probe";
/// How often it is tried whether there is room again.
const TRY_EVERY: Duration = Duration::from_secs(1);
/// How long an operation waits that found no room.
const WAIT: Duration = Duration::from_millis(50);

/// See the module.
#[derive(Debug)]
pub struct Room {
    directory: PathBuf,
    reserve_bytes: u64,
    is_full: AtomicBool,
    tried_at: Mutex<Option<Instant>>,
}

impl Room {
    /// Of a directory that is there. Puts the reserve aside, if there is room for it.
    pub fn open(directory: &Path, reserve_bytes: u64) -> std::io::Result<Room> {
        let room = Room {
            directory: directory.to_path_buf(),
            reserve_bytes,
            is_full: AtomicBool::new(false),
            tried_at: Mutex::new(None),
        };
        let known = std::fs::metadata(room.reserve()).map_or(0, |found| found.len());
        if known < reserve_bytes {
            match room.put_aside() {
                Err(error) if is_full(&error) => room.is_full.store(true, Relaxed),
                result => result?,
            }
        } else if room.probe().is_err_and(|error| is_full(&error)) {
            // An opening writes a little.
            room.found_full();
        }
        Ok(room)
    }

    /// Whether a file of a directory is the reserve's.
    pub(crate) fn is_own(name: &std::ffi::OsStr) -> bool {
        name.to_str().is_some_and(|name| name == RESERVE || name == PROBE)
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }
    /// Nothing should be let in that writes.
    pub fn is_full(&self) -> bool {
        self.is_full.load(Relaxed)
    }

    /// Performs an operation of a log. One that finds no room is repeated until there is some, or until `is_over`.
    pub(crate) fn perform(
        &self,
        disk: &mut dyn Disk,
        op: &Op,
        is_over: impl Fn() -> bool,
    ) -> Result<(), Failed> {
        let may_repeat = matches!(op, Op::Create { .. } | Op::Write { .. } | Op::MakeDirectory { .. });
        loop {
            match disk.perform(op) {
                Err(failed) if failed.why == Failure::Full && may_repeat && !is_over() => {
                    if !self.found_full() {
                        std::thread::sleep(WAIT);
                    }
                }
                result => return result,
            }
        }
    }

    /// The disk is full: lets go of the reserve. Whether there was one.
    fn found_full(&self) -> bool {
        let mut tried_at = self.tried_at.lock();
        *tried_at = Some(Instant::now());
        if !self.is_full.swap(true, Relaxed) {
            tracing::error!(
                directory = %self.directory.display(),
                "the disk is full: statements that write are refused (53100) until there is room again"
            );
        }
        std::fs::remove_file(self.reserve()).is_ok()
    }

    /// Tries now and then whether a full disk has room again.
    pub(crate) fn look(&self) {
        if !self.is_full() {
            return;
        }
        let Some(mut tried_at) = self.tried_at.try_lock() else { return };
        if tried_at.is_some_and(|at| at.elapsed() < TRY_EVERY) {
            return;
        }
        *tried_at = Some(Instant::now());
        match self.put_aside() {
            Ok(()) => {
                self.is_full.store(false, Relaxed);
                tracing::warn!(directory = %self.directory.display(), "the disk has room again");
            }
            Err(error) if is_full(&error) => {}
            Err(error) => {
                tracing::warn!(directory = %self.directory.display(), "cannot put a reserve aside: {error}")
            }
        }
    }

    fn reserve(&self) -> PathBuf {
        self.directory.join(RESERVE)
    }

    /// Writes twice the reserve, and keeps half of it. What fails leaves nothing behind.
    fn put_aside(&self) -> std::io::Result<()> {
        let written = self.write_reserve();
        if written.is_err() {
            _ = std::fs::remove_file(self.reserve());
        }
        written
    }
    fn write_reserve(&self) -> std::io::Result<()> {
        let mut file = File::create(self.reserve())?;
        // Not all zeros: some file systems would make room for nothing.
        let mut word = 0x9e37_79b9_7f4a_7c15u64;
        let mut left = 2 * self.reserve_bytes;
        while left > 0 {
            let piece: Vec<u8> = std::iter::repeat_with(|| {
                word ^= word << 13;
                word ^= word >> 7;
                word ^= word << 17;
                word.to_le_bytes()
            })
            .take(8 << 10)
            .flatten()
            .collect();
            let bytes = left.min(piece.len() as u64);
            file.write_all(&piece[..bytes as usize])?;
            left -= bytes;
        }
        file.sync_all()?;
        file.set_len(self.reserve_bytes)?;
        file.sync_all()?;
        sync_directory(&self.directory)
    }

    fn probe(&self) -> std::io::Result<()> {
        let path = self.directory.join(PROBE);
        let written = File::create(&path).and_then(|mut file| {
            file.write_all(&[1; 64 << 10])?;
            file.sync_all()
        });
        _ = std::fs::remove_file(&path);
        written
    }
}

pub(crate) fn is_full(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded)
}

#[cfg(test)]
mod tests;
