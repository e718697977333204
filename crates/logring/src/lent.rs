//! A mapping that a host makes for a partition of its node, and lends the node to publish in.
//!
//! The host opens files, says how long the lease lasts and appends what the node sends; the node writes numbers and says whose
//! they are. IN: an owner, a life of the node, when its lease ends, records. OUT: memory ([`Memory`]), which
//! [`crate::Reader::fetch`] reads in other processes, and the ring. KEEPS: readers are refused from the moment at which the
//! mapping is made until the node begins, so no reader takes what a former writer left.

use crate::layout::{FRAME_WORDS, INCARNATION_AT, LEASE_AT, Layout, OWNER_AT, WRITTEN_AT};
use crate::mapping::Mapping;
use crate::ring::Appender;
use base::LogPosition;
use reads::replica::tracker::Memory;
use std::io;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, Release};

/// See the module.
#[derive(Debug)]
pub struct Lent {
    words: Mapping,
    layout: Layout,
    ring: Mutex<Appender<Mapping>>,
}

impl Lent {
    /// Takes a file over, or makes it. `owner`: see [`crate::Reader::check_owner`].
    pub fn create(path: &Path, layout: Layout, owner: u64) -> io::Result<Lent> {
        let words = Mapping::create(path, layout)?;
        Layout::void::<AtomicU64>(&words);
        words[LEASE_AT].store(0, Relaxed);
        words[OWNER_AT].store(owner, Relaxed);
        let ring = Mutex::new(Appender::begin(words.clone(), layout, LogPosition(0)));
        Ok(Lent { words, layout, ring })
    }

    /// Whose life publishes here; 0: readers are refused.
    pub fn incarnation(&self) -> u64 {
        self.words[INCARNATION_AT].load(Relaxed)
    }

    /// Appends a record, whose position says nothing but its order. False: it is longer than the ring's records may be.
    pub fn append(&self, bytes: &[u8]) -> bool {
        if FRAME_WORDS + bytes.len().div_ceil(8) as u64 > self.layout.write_words {
            return false;
        }
        let mut ring = self.ring.lock().expect("nobody panics while appending");
        let position = LogPosition(ring.written());
        ring.append(position, bytes);
        true
    }
    /// The word that each record changes, as [`crate::Reader::awaited`].
    pub fn announced(&self) -> &AtomicU64 {
        &self.words[WRITTEN_AT]
    }

    /// Until then, by the clock that all processes of the host read, what is published may be read.
    pub fn extend_lease(&self, until_ns: u64) {
        self.words[LEASE_AT].store(until_ns, Release);
    }
}

impl Memory for Lent {
    fn numbers(&self) -> &[AtomicU64] {
        &self.words[self.layout.slots_at()..self.layout.ring_at()]
    }
    fn void(&self) {
        Layout::void::<AtomicU64>(&self.words);
    }
    fn begin(&self, life: u64) {
        self.layout.begin::<AtomicU64>(&self.words, life);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Refused;
    use crate::ring::{Next, Reader};
    use base::txn::Granule;
    use base::{Datum, Key, Rank, TableId};
    use reads::replica::published::{Needs, Published};
    use reads::replica::tracker::Sizes;
    use std::sync::Arc;

    const SIZES: Sizes = Sizes { tables: 4, granules: 16 };
    const TABLE: TableId = TableId(7);
    const STRONG: Needs = Needs { at: Rank(u64::MAX), least: Rank(0) };

    fn file(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("meridian-lent-{}-{name}", std::process::id()))
    }
    fn key() -> Key {
        Key::of(&[Datum::Int(1)])
    }
    fn create(path: &Path) -> Lent {
        Lent::create(path, Layout::new(100, 24, SIZES), 5).unwrap()
    }
    /// A node begins to publish in its `life`.
    fn begin(lent: &Arc<Lent>, life: u64, floor: u64) -> Published {
        let published = Published::lent(lent.clone(), SIZES, LogPosition(floor));
        lent.begin(life);
        published
    }

    #[test]
    fn what_a_node_publishes_is_fetched_through_the_mapping() {
        let (path, granule) = (file("fetch"), Granule::Key(TABLE, key()));
        let lent = Arc::new(create(&path));
        let open = || Reader::open(Mapping::open(&path).unwrap());
        assert_eq!(open().err(), Some(Refused::NoRing), "the node has not begun");
        let mut published = begin(&lent, 100, 40);
        lent.extend_lease(1_000);
        let reader = open().unwrap();
        assert_eq!((reader.check_owner(5), reader.check_owner(6)), (Ok(()), Err(Refused::OtherOwner)));
        let fetch = |now_ns| reader.fetch(now_ns, STRONG, [&granule].into_iter());
        assert_eq!(fetch(0), Ok(None), "nothing is closed");
        published.close(Rank(50));
        assert_eq!(fetch(0), Ok(Some((Rank(50), vec![LogPosition(40)]))), "at the floor");
        published.tracker_mut().modified(TABLE, &key(), LogPosition(41));
        published.tracker_mut().publish(LogPosition(41));
        published.executed(Rank(60));
        assert_eq!(fetch(0), Ok(None), "its writer may have been told");
        published.close(Rank(61));
        assert_eq!(fetch(999), Ok(Some((Rank(61), vec![LogPosition(41)]))));
        assert_eq!(fetch(1_000), Err(Refused::LeaseOver));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_fetch_during_which_the_writer_ends_is_void() {
        let (path, granule) = (file("midway"), Granule::Key(TABLE, key()));
        let lent = Arc::new(create(&path));
        let mut published = begin(&lent, 100, 0);
        published.close(Rank(50));
        lent.extend_lease(u64::MAX);
        let reader = Reader::open(Mapping::open(&path).unwrap()).unwrap();
        // The file is taken over between the load of the cut and that of the slot.
        let taken_over = std::iter::once_with(|| {
            _ = create(&path);
            &granule
        });
        assert_eq!(reader.fetch(0, STRONG, taken_over), Err(Refused::HalfWritten));
        // The next writer has begun before the reader looks again.
        let next = Arc::new(create(&path));
        let mut published = begin(&next, 200, 70);
        published.close(Rank(90));
        next.extend_lease(u64::MAX);
        let refused = Refused::OtherIncarnation { found: 200 };
        assert_eq!(reader.fetch(0, STRONG, [&granule].into_iter()), Err(refused));
        let reader = Reader::open(Mapping::open(&path).unwrap()).unwrap();
        let found = reader.fetch(0, STRONG, [&granule].into_iter());
        assert_eq!((reader.incarnation(), found), (200, Ok(Some((Rank(90), vec![LogPosition(70)])))));
        std::fs::remove_file(&path).unwrap();
    }
    #[test]
    fn records_of_a_life_are_followed_until_the_next_one() {
        let path = file("records");
        let lent = Arc::new(create(&path));
        assert!(lent.append(&[1; 5]), "of which no reader hears");
        let _published = begin(&lent, 100, 0);
        let (mut reader, mut bytes) = (Reader::open(Mapping::open(&path).unwrap()).unwrap(), Vec::new());
        reader.resume().unwrap();
        assert_eq!((lent.incarnation(), reader.next(&mut bytes)), (100, Ok(Next::Nothing)));
        let (word, seen) = reader.awaited();
        assert_eq!((word.load(Relaxed), lent.announced().load(Relaxed)), (seen, seen));
        assert!(!lent.append(&[2; 25]), "too long");
        for record in [[3u8; 24].as_slice(), &[], &[4]] {
            assert!(lent.append(record));
            assert!(lent.announced().load(Relaxed) > reader.awaited().1);
            assert!(matches!(reader.next(&mut bytes), Ok(Next::Record(_))));
            assert_eq!(bytes, record);
        }
        (0..9).for_each(|_| assert!(lent.append(&[5; 24])));
        assert_eq!(reader.next(&mut bytes), Ok(Next::Overrun));
        reader.resume().unwrap();
        assert_eq!(reader.next(&mut bytes), Ok(Next::Nothing));
        let _next = create(&path);
        assert_eq!(reader.next(&mut bytes), Err(Refused::HalfWritten));
        std::fs::remove_file(&path).unwrap();
    }
}
