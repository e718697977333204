//! A file mapped as words that several processes share. The only place with `unsafe` code.
//!
//! Why it is sound. *The memory is there and stays:* a [`Mapping`] owns its map, which is unmapped when the last handle is
//! dropped, and hands out borrows of itself only. *It is as long as it says:* the length is that of the map, in whole words.
//! *It is aligned:* maps begin at pages. *Any bits are a word:* an `AtomicU64` has no invalid value, so whatever a file holds
//! may be read. *Others write it meanwhile:* all access in this process is through atomics, and other processes that follow
//! the layout do the same; a process that writes the file otherwise can make words meaningless (records have checksums),
//! not access unsound, because no reference to anything but atomics is ever made. *The file may become shorter:* then access
//! ends the process with SIGBUS, which is not undefined behaviour; the directory of rings belongs to the server's user.

use crate::layout::Layout;
use memmap2::{MmapOptions, MmapRaw};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// A shared mapping; clones are handles of the same.
#[derive(Clone, Debug)]
pub struct Mapping(Arc<MmapRaw>);

impl Mapping {
    /// Makes a file, or makes an old one large enough, for a writer.
    pub fn create(path: &Path, layout: Layout) -> io::Result<Mapping> {
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let bytes = 8 * layout.words() as u64;
        let there = file.seek(SeekFrom::End(0))?;
        // Written rather than reserved: a hole for which the disk has no room would end the process that touches it.
        io::copy(&mut io::repeat(0).take(bytes.saturating_sub(there)), &mut file)?;
        Mapping::of(&file)
    }
    /// Maps what is there, for a reader.
    pub fn open(path: &Path) -> io::Result<Mapping> {
        Mapping::of(&OpenOptions::new().read(true).write(true).open(path)?)
    }
    fn of(file: &File) -> io::Result<Mapping> {
        Ok(Mapping(Arc::new(MmapOptions::new().map_raw(file)?)))
    }
}

impl Deref for Mapping {
    type Target = [AtomicU64];
    #[allow(unsafe_code, reason = "memory that other processes write has no safe type")]
    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: see the module's head; the borrow ends with `self`, which keeps the map.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast::<AtomicU64>(), self.0.len() / 8) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::{Next, Reader, Writer};
    use base::LogPosition;
    use reads::replica::tracker::Sizes;

    impl Mapping {
        /// The same memory without a file: an interpreter of the program (Miri) can run what follows.
        fn anonymous(layout: Layout) -> Mapping {
            let map = MmapOptions::new().len(8 * layout.words()).map_anon().expect("memory");
            Mapping(Arc::new(MmapRaw::from(map)))
        }
    }

    #[test]
    fn handles_of_a_mapping_share_its_words_and_keep_it() {
        let layout = Layout { sizes: Sizes { tables: 1, granules: 2 }, ring_words: 128, write_words: 16 };
        let mapping = Mapping::anonymous(layout);
        assert!(mapping.len() >= layout.words());
        assert!(mapping.iter().all(|word| word.load(std::sync::atomic::Ordering::Relaxed) == 0));
        let mut writer = Writer::begin(mapping.clone(), layout, 1, LogPosition(0), u64::MAX);
        // The writer's handle outlives the one it was made from.
        let other = mapping.clone();
        drop(mapping);
        let mut reader = Reader::open(other).expect("a ring that was begun");
        assert_eq!(reader.resume(), Ok(LogPosition(1)));
        let thread = std::thread::spawn(move || {
            for position in 1..=20 {
                writer.append(LogPosition(position), &[position as u8; 5]);
                writer.tracker.publish(LogPosition(position));
            }
        });
        let (mut bytes, mut seen) = (Vec::new(), 0);
        while seen < 20 {
            match reader.next(&mut bytes).expect("the ring of one writer") {
                Next::Record(position) => {
                    assert_eq!((position.0, bytes.as_slice()), (seen + 1, &[position.0 as u8; 5][..]));
                    seen = position.0;
                }
                Next::Nothing => std::thread::yield_now(),
                Next::Overrun => panic!("the ring holds them all"),
            }
        }
        thread.join().unwrap();
    }
}
