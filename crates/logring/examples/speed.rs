//! How fast a fetch and the ring are on this machine: `cargo run -p logring --release --example speed`.
//!
//! Fetch: whose lease it is, the published position, one granule's slot, and whose mapping it still is, over slots of the
//! default sizes, at random keys. Ring: one core appends 64 records and then reads them, each timed by itself. Medians of many
//! short batches.

use base::txn::Granule;
use base::{Datum, Key, LogPosition, TableId};
use logring::{Layout, Mapping, Next, Reader, Writer};
use reads::replica::tracker::Sizes;
use std::hint::black_box;
use std::time::Instant;

fn main() {
    let file = std::env::temp_dir().join(format!("meridian-ring-speed-{}", std::process::id()));
    let layout = Layout::new(16 << 20, 64 << 10, Sizes::default());
    let mapping = Mapping::create(&file, layout).expect("a file in the directory for temporary ones");
    let mut writer = Writer::begin(mapping.clone(), layout, 1, LogPosition(0), u64::MAX);
    let mut reader = Reader::open(mapping).expect("just made");
    reader.resume().expect("just made");

    let table = TableId(1);
    let keys: Vec<Key> =
        (0..100_000u64).map(|n| Key::of(&[Datum::Int((n * 7_919_777 % 5_000_000) as i64)])).collect();
    for (position, key) in (1..).zip(&keys) {
        writer.tracker.modified(table, key, LogPosition(position));
    }
    let granules: Vec<Granule> = keys.iter().map(|key| Granule::Key(table, key.clone())).collect();
    let (fetch, global) = (
        batches(&granules, |granule| {
            let tracker = reader.tracker(0).expect("leased");
            black_box((tracker.published(), tracker.of(granule)));
            reader.confirm().expect("the same writer");
        }),
        batches(&granules, |_| {
            black_box(reader.tracker(0).expect("leased").published());
            reader.confirm().expect("the same writer");
        }),
    );
    let modified = batches(&keys, |key| writer.tracker.modified(table, key, LogPosition(1_000_000)));
    println!("fetch: {fetch:.0} ns with a granule, {global:.1} ns without; a modification: {modified:.0} ns");

    let mut position = 0;
    for length in [64, 256, 1_024, 4_096, 32_768] {
        let record: Vec<u8> = (0..length).map(|n| n as u8).collect();
        let (mut bytes, mut appending_ns, mut reading_ns) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..(1 << 28) / (64 * length) {
            let begin = Instant::now();
            for _ in 0..64 {
                position += 1;
                writer.append(LogPosition(position), &record);
            }
            appending_ns.push(begin.elapsed().as_nanos());
            let begin = Instant::now();
            for _ in 0..64 {
                assert!(matches!(reader.next(&mut bytes), Ok(Next::Record(_))));
            }
            reading_ns.push(begin.elapsed().as_nanos());
        }
        let [append, read] = [appending_ns, reading_ns].map(|ns| (64 * length) as f64 / median(ns));
        println!("ring, records of {length} bytes: {append:.2} GB/s appended, {read:.2} GB/s read");
    }
    std::fs::remove_file(&file).expect("it is there");
}

/// What one call takes in the median of batches: others may have the core in between.
fn batches<T>(all: &[T], mut call: impl FnMut(&T)) -> f64 {
    let mut time = |batch: &[T]| {
        let begin = Instant::now();
        batch.iter().for_each(&mut call);
        begin.elapsed().as_nanos()
    };
    median(all.chunks(500).map(&mut time).collect()) / 500.0
}

fn median(mut samples: Vec<u128>) -> f64 {
    samples.sort_unstable();
    samples[samples.len() / 2] as f64
}
