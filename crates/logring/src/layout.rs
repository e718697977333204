//! Where everything lies in a mapping, in words of 64 bits, little-endian; see `docs/log-ring.md` for the table.
//!
//! KEEPS: what is written often lies in a cache line of its own; the word that says who writes is the last that a writer
//! sets and the first that it clears.

use crate::word::Word;
use base::LogPosition;
use reads::replica::tracker::Sizes;
use std::fmt;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// "Meridian" in ASCII.
const MAGIC: u64 = u64::from_le_bytes(*b"Meridian");
/// Of the layout. Another one is refused. 1 had no owner, and no ranks beside the slots.
const VERSION: u64 = 2;

pub(crate) const MAGIC_AT: usize = 0;
pub(crate) const VERSION_AT: usize = 1;
const RING_AT: usize = 2;
const WRITE_AT: usize = 3;
const SIZES_AT: usize = 4;
/// Whose the mapping is: which partition's, of which cluster, on which host.
pub(crate) const OWNER_AT: usize = 5;
/// 0: the mapping is being written, and means nothing.
pub(crate) const INCARNATION_AT: usize = 8;
pub(crate) const LEASE_AT: usize = 9;
pub(crate) const START_AT: usize = 16;
pub(crate) const WRITTEN_AT: usize = 24;
pub(crate) const NEXT_AT: usize = 25;
const SLOTS_AT: usize = 32;

/// Words of a record beside its bytes: length and checksum, position.
pub(crate) const FRAME_WORDS: u64 = 2;

/// How large the parts of a mapping are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Words of the ring, a power of two.
    pub ring_words: u64,
    /// Words that the writer writes at most before it announces them: the longest record, its frame included.
    pub write_words: u64,
    pub sizes: Sizes,
}

/// Why a mapping is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is shorter than what it says it holds, or than any ring.
    Short,
    /// It is none, or was left before it was one.
    NoRing,
    OtherVersion {
        found: u64,
    },
    /// Its sizes contradict each other.
    BadSizes,
    /// A writer is about to begin, or crashed when it was.
    HalfWritten,
    OtherIncarnation {
        found: u64,
    },
    /// Another partition's, another cluster's, or another host's.
    OtherOwner,
    /// The writer has not said for too long that it still is the writer.
    LeaseOver,
    /// A record's checksum is wrong, although nobody overwrote it.
    Corrupt {
        position: LogPosition,
    },
}

impl Layout {
    /// With a ring of so many bytes at least, for records of so many bytes at most.
    pub fn new(ring_bytes: u64, record_bytes_max: u64, sizes: Sizes) -> Layout {
        let write_words = FRAME_WORDS + record_bytes_max.div_ceil(8);
        let ring_words = ring_bytes.div_ceil(8).max(2 * write_words).next_power_of_two();
        Layout { ring_words, write_words, sizes }
    }
    /// Words of the whole mapping.
    pub fn words(self) -> usize {
        self.ring_at() + self.ring_words as usize
    }
    pub(crate) fn slots_at(self) -> usize {
        SLOTS_AT
    }
    pub(crate) fn ring_at(self) -> usize {
        (SLOTS_AT + self.sizes.slots()).next_multiple_of(8)
    }
    fn is_sound(self) -> bool {
        let Sizes { tables, granules } = self.sizes;
        let is_whole = tables > 0 && granules > 0 && self.write_words > FRAME_WORDS - 1;
        is_whole && self.ring_words.is_power_of_two() && self.write_words <= self.ring_words / 2
    }

    /// Says that the mapping means nothing until [`Layout::begin`].
    pub(crate) fn void<W: Word>(words: &[W]) {
        words[INCARNATION_AT].store(0, Release);
        W::fence(Release);
    }
    /// Describes a mapping whose parts are written.
    pub(crate) fn begin<W: Word>(self, words: &[W], incarnation: u64) {
        assert!(self.is_sound() && words.len() >= self.words() && incarnation != 0);
        words[VERSION_AT].store(VERSION, Relaxed);
        words[RING_AT].store(self.ring_words, Relaxed);
        words[WRITE_AT].store(self.write_words, Relaxed);
        words[SIZES_AT].store(u64::from(self.sizes.tables) << 32 | u64::from(self.sizes.granules), Relaxed);
        words[MAGIC_AT].store(MAGIC, Relaxed);
        words[INCARNATION_AT].store(incarnation, Release);
    }
    /// What a mapping says of itself, and whose it is.
    pub(crate) fn read<W: Word>(words: &[W]) -> Result<(Layout, u64), Refused> {
        if words.len() < SLOTS_AT {
            return Err(Refused::Short);
        }
        let incarnation = words[INCARNATION_AT].load(Acquire);
        if words[MAGIC_AT].load(Relaxed) != MAGIC {
            return Err(Refused::NoRing);
        }
        match words[VERSION_AT].load(Relaxed) {
            VERSION => {}
            found => return Err(Refused::OtherVersion { found }),
        }
        if incarnation == 0 {
            return Err(Refused::HalfWritten);
        }
        let sizes = words[SIZES_AT].load(Relaxed);
        let layout = Layout {
            ring_words: words[RING_AT].load(Relaxed),
            write_words: words[WRITE_AT].load(Relaxed),
            sizes: Sizes { tables: (sizes >> 32) as u32, granules: sizes as u32 },
        };
        if !layout.is_sound() {
            return Err(Refused::BadSizes);
        }
        let length = layout.ring_words.checked_add(layout.ring_at() as u64);
        if length.is_none_or(|length| length > words.len() as u64) {
            return Err(Refused::Short);
        }
        Ok((layout, incarnation))
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Short => write!(f, "the mapping is shorter than what it says it holds"),
            Refused::NoRing => write!(f, "the mapping is no log ring"),
            Refused::OtherVersion { found } => write!(f, "the log ring has layout {found}, not {VERSION}"),
            Refused::BadSizes => write!(f, "the log ring's sizes contradict each other"),
            Refused::HalfWritten => write!(f, "the log ring is being written"),
            Refused::OtherIncarnation { found } => write!(f, "the log ring is of incarnation {found} by now"),
            Refused::OtherOwner => {
                write!(f, "the log ring is of another cluster or partition, or was written on another host")
            }
            Refused::LeaseOver => write!(f, "the lease of the log ring's writer is over"),
            Refused::Corrupt { position } => write!(f, "the record at {position:?} is corrupt"),
        }
    }
}
impl std::error::Error for Refused {}
