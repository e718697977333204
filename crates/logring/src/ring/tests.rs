//! The ring by example, on memory of this process; every order of a few of its steps; and what each rule is for, by leaving
//! it out.

use super::*;
use reads::replica::tracker::Sizes;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Smaller than anything that is useful: two records fit.
const TINY: Layout = Layout { ring_words: 4, write_words: 2, sizes: Sizes { tables: 1, granules: 1 } };

fn memory(layout: Layout) -> Arc<[AtomicU64]> {
    (0..layout.words()).map(|_| AtomicU64::new(0)).collect()
}

fn begin(layout: Layout) -> (Writer<Arc<[AtomicU64]>>, Reader<Arc<[AtomicU64]>>) {
    let words = memory(layout);
    let writer = Writer::begin(words.clone(), layout, 7, LogPosition(0), u64::MAX);
    let mut reader = Reader::open(words).unwrap();
    assert_eq!(reader.resume(), Ok(LogPosition(1)));
    (writer, reader)
}

fn bytes_of(position: u64) -> Vec<u8> {
    (0..position % 23).map(|n| (n * 31 + position) as u8).collect()
}

#[test]
fn records_of_every_length_come_as_they_were_around_the_ring() {
    let (mut writer, mut reader) = begin(Layout::new(200, 24, Sizes { tables: 2, granules: 4 }));
    let mut bytes = Vec::new();
    for position in 1..=500u64 {
        writer.append(LogPosition(position), &bytes_of(position));
        if position % 2 == 0 {
            for expected in [position - 1, position] {
                assert_eq!(reader.next(&mut bytes), Ok(Next::Record(LogPosition(expected))));
                assert_eq!(bytes, bytes_of(expected));
            }
            assert_eq!(reader.next(&mut bytes), Ok(Next::Nothing));
        }
    }
}

#[test]
fn who_is_overrun_learns_it_and_where_to_go_on() {
    let (mut writer, mut reader) = begin(TINY);
    let mut bytes = Vec::new();
    (1..=3).for_each(|position| writer.append(LogPosition(position), &[]));
    assert_eq!(reader.next(&mut bytes), Ok(Next::Overrun));
    assert_eq!(reader.next(&mut bytes), Ok(Next::Overrun), "until it is told where to go on");
    assert_eq!(reader.resume(), Ok(LogPosition(4)));
    writer.append(LogPosition(4), &[]);
    assert_eq!(reader.next(&mut bytes), Ok(Next::Record(LogPosition(4))));
    writer.skip_to(LogPosition(90));
    assert_eq!(reader.next(&mut bytes), Ok(Next::Overrun), "the log goes on elsewhere");
    assert_eq!(reader.resume(), Ok(LogPosition(90)));
    writer.append(LogPosition(90), &[]);
    assert_eq!(reader.next(&mut bytes), Ok(Next::Record(LogPosition(90))));
}

#[test]
fn a_bad_mapping_is_refused() {
    let words = memory(TINY);
    let open = |words: &Arc<[AtomicU64]>| Reader::open(words.clone()).err();
    assert_eq!(open(&words), Some(Refused::NoRing), "nobody has written it");
    let short: Arc<[AtomicU64]> = (0..3).map(|_| AtomicU64::new(0)).collect();
    assert_eq!(open(&short), Some(Refused::Short));
    let _writer = Writer::begin(words.clone(), TINY, 7, LogPosition(0), 1_000);
    assert_eq!(open(&words), None);
    let with = |at: usize, value: u64| {
        let before = words[at].swap(value, Ordering::SeqCst);
        let refused = open(&words);
        words[at].store(before, Ordering::SeqCst);
        refused
    };
    assert_eq!(with(crate::layout::VERSION_AT, 1), Some(Refused::OtherVersion { found: 1 }));
    assert_eq!(with(crate::layout::MAGIC_AT, 5), Some(Refused::NoRing));
    assert_eq!(with(INCARNATION_AT, 0), Some(Refused::HalfWritten));
    assert_eq!(with(2, 1 << 40), Some(Refused::Short), "a larger ring than there is memory");
    assert_eq!(with(2, 3), Some(Refused::BadSizes));
    assert_eq!(with(4, 0), Some(Refused::BadSizes));
    let reader = Reader::open(words.clone()).unwrap();
    assert!(reader.tracker(999).is_ok());
    assert_eq!(reader.tracker(1_000).err(), Some(Refused::LeaseOver), "a deposed writer answers nobody");
}

#[test]
fn a_reader_does_not_follow_another_incarnation() {
    let words = memory(TINY);
    let mut first = Writer::begin(words.clone(), TINY, 7, LogPosition(0), u64::MAX);
    let mut reader = Reader::open(words.clone()).unwrap();
    reader.resume().unwrap();
    first.append(LogPosition(1), &[]);
    let key = base::Key::of(&[base::Datum::Int(1)]);
    first.tracker.modified(base::TableId(1), &key, LogPosition(1));
    let mut second = Writer::begin(words.clone(), TINY, 8, LogPosition(40), u64::MAX);
    let refused = Refused::OtherIncarnation { found: 8 };
    assert_eq!(reader.next(&mut Vec::new()), Err(refused));
    assert_eq!(reader.tracker(0).err(), Some(refused));
    assert_eq!(reader.resume(), Err(refused));
    let mut reader = Reader::open(words).unwrap();
    assert_eq!(reader.resume(), Ok(LogPosition(41)));
    let tracker = reader.tracker(0).unwrap();
    assert_eq!(tracker.of_table(base::TableId(1)), LogPosition(40), "slots begin anew, at a floor");
    second.append(LogPosition(41), &[]);
    assert_eq!(reader.next(&mut Vec::new()), Ok(Next::Record(LogPosition(41))));
}

#[test]
fn a_record_whose_bits_changed_is_refused() {
    let (mut writer, mut reader) = begin(Layout::new(64, 16, Sizes { tables: 1, granules: 1 }));
    writer.append(LogPosition(1), &[1, 2, 3, 4, 5]);
    let at = reader.layout.ring_at() + 2;
    reader.words[at].fetch_xor(1 << 9, Ordering::SeqCst);
    assert_eq!(reader.next(&mut Vec::new()), Err(Refused::Corrupt { position: LogPosition(1) }));
}

#[test]
fn threads_see_what_was_written_or_that_they_were_overrun() {
    let layout = Layout::new(4 << 10, 200, Sizes { tables: 1, granules: 1 });
    let (mut writer, mut reader) = begin(layout);
    let last = if cfg!(miri) { 300 } else { 50_000u64 };
    std::thread::scope(|scope| {
        scope.spawn(move || (1..=last).for_each(|p| writer.append(LogPosition(p), &bytes_of(p))));
        let (mut bytes, mut next) = (Vec::new(), 1);
        while next <= last {
            match reader.next(&mut bytes).unwrap() {
                Next::Record(position) => {
                    assert!(position.0 >= next, "no record comes twice");
                    assert_eq!(bytes, bytes_of(position.0));
                    next = position.0 + 1;
                }
                Next::Nothing => std::hint::spin_loop(),
                Next::Overrun => next = reader.resume().unwrap().0.max(next),
            }
        }
    });
}

impl Word for loom::sync::atomic::AtomicU64 {
    fn load(&self, order: Ordering) -> u64 {
        loom::sync::atomic::AtomicU64::load(self, order)
    }
    fn store(&self, value: u64, order: Ordering) {
        loom::sync::atomic::AtomicU64::store(self, value, order);
    }
    fn fence(order: Ordering) {
        loom::sync::atomic::fence(order);
    }
}

#[cfg(not(miri))]
type Checked = Arc<[loom::sync::atomic::AtomicU64]>;

/// Every order, and every value that a load may see: a ring with room for two records holds the first; meanwhile the second
/// and the third are appended, which overwrites it. `with`: leaves out a rule of the reader.
#[cfg(not(miri))]
fn overwritten_while_it_is_read(with: fn(&mut Reader<Checked>)) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let words: Checked = (0..TINY.words()).map(|_| loom::sync::atomic::AtomicU64::new(0)).collect();
        let mut writer = Writer::begin(words.clone(), TINY, 7, LogPosition(0), u64::MAX);
        let mut reader = Reader::open(words).unwrap();
        reader.resume().unwrap();
        with(&mut reader);
        writer.append(LogPosition(1), &[]);
        let thread = loom::thread::spawn(move || {
            writer.append(LogPosition(2), &[]);
            writer.append(LogPosition(3), &[]);
        });
        match reader.next(&mut Vec::new()) {
            Ok(Next::Record(position)) => assert_eq!(position, LogPosition(1)),
            Ok(Next::Overrun) => {}
            other => panic!("torn: {other:?}"),
        }
        thread.join().unwrap();
    });
}

#[test]
#[cfg(not(miri))]
fn in_no_order_is_half_a_record_read() {
    overwritten_while_it_is_read(|_| {});
}

/// The paper's reader looks at what is announced only.
#[test]
#[cfg(not(miri))]
#[should_panic(expected = "torn")]
fn a_reader_that_trusts_what_is_not_yet_announced_reads_half_a_record() {
    overwritten_while_it_is_read(|reader| reader.ahead_words = 0);
}

/// Where the log goes on behind a gap, a reader sees the new start with the new end.
#[test]
#[cfg(not(miri))]
fn in_no_order_is_an_old_start_taken_with_a_new_end() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let words: Checked = (0..TINY.words()).map(|_| loom::sync::atomic::AtomicU64::new(0)).collect();
        let mut writer = Writer::begin(words.clone(), TINY, 7, LogPosition(0), u64::MAX);
        let mut reader = Reader::open(words).unwrap();
        reader.resume().unwrap();
        let thread = loom::thread::spawn(move || {
            writer.skip_to(LogPosition(9));
            writer.append(LogPosition(9), &[]);
        });
        match reader.next(&mut Vec::new()) {
            Ok(Next::Nothing | Next::Overrun) => {}
            other => panic!("read over a gap: {other:?}"),
        }
        let next = reader.resume().unwrap();
        match reader.next(&mut Vec::new()) {
            Ok(Next::Record(position)) => assert!(position == LogPosition(9) && next <= position),
            Ok(Next::Nothing | Next::Overrun) => {}
            other => panic!("{other:?}"),
        }
        thread.join().unwrap();
    });
}

/// What is published is in the slots: the tracker's rule, in every order.
#[test]
#[cfg(not(miri))]
fn in_no_order_is_a_slot_behind_what_is_published() {
    loom::model(|| {
        let words: Checked = (0..TINY.words()).map(|_| loom::sync::atomic::AtomicU64::new(0)).collect();
        let mut writer = Writer::begin(words.clone(), TINY, 7, LogPosition(0), u64::MAX);
        let reader = Reader::open(words).unwrap();
        let key = base::Key::of(&[base::Datum::Int(1)]);
        let written = key.clone();
        let thread = loom::thread::spawn(move || {
            writer.tracker.modified(base::TableId(1), &written, LogPosition(1));
            writer.tracker.publish(LogPosition(1));
        });
        let tracker = reader.tracker(0).unwrap();
        let published = tracker.published();
        let last = tracker.of(&base::txn::Granule::Key(base::TableId(1), key));
        assert!(last >= published);
        thread.join().unwrap();
    });
}
