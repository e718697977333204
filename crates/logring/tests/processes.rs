//! Two processes of one host: one writes, the other follows the same file.
//!
//! The other process is this test's own program, started again with the file's name in its environment.

use base::{Datum, Key, LogPosition, TableId};
use logring::{Layout, Mapping, Next, Reader, Refused, Writer};
use reads::replica::tracker::Sizes;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

const FILE: &str = "MERIDIAN_RING_TEST_FILE";
const LAST: u64 = 20_000;
const TABLE: TableId = TableId(3);

fn record(position: u64) -> Vec<u8> {
    position.to_le_bytes().repeat((position % 30) as usize)
}

/// Follows until the last record; what is overrun it takes as read from storage.
fn follow(file: PathBuf) {
    let patience = Instant::now() + Duration::from_secs(60);
    let mut reader = loop {
        match Mapping::open(&file).map(Reader::open) {
            Ok(Ok(reader)) => break reader,
            _ => assert!(Instant::now() < patience, "no ring to follow"),
        }
    };
    let (mut bytes, mut next, mut followed) = (Vec::new(), reader.resume().unwrap().0, 0);
    while next <= LAST {
        match reader.next(&mut bytes).unwrap() {
            Next::Record(position) => {
                assert_eq!((position.0, &bytes), (next, &record(next)));
                let tracker = reader.tracker(0).unwrap();
                assert!(tracker.of_table(TABLE).0 >= next, "the tracker has what is in the ring");
                reader.confirm().unwrap();
                (next, followed) = (next + 1, followed + 1);
            }
            Next::Nothing => std::thread::yield_now(),
            Next::Overrun => next = reader.resume().unwrap().0,
        }
        assert!(Instant::now() < patience, "stuck before {next}");
    }
    println!("{followed} records followed, {} lost to overruns", LAST - followed);
}

#[test]
fn another_process_follows_the_ring() {
    if let Some(file) = std::env::var_os(FILE) {
        return follow(file.into());
    }
    let file = std::env::temp_dir().join(format!("meridian-ring-{}", std::process::id()));
    let layout = Layout::new(64 << 10, 256, Sizes { tables: 16, granules: 256 });
    let mut writer =
        Writer::begin(Mapping::create(&file, layout).unwrap(), layout, 1, LogPosition(0), u64::MAX);
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "another_process_follows_the_ring", "--nocapture"])
        .env(FILE, &file)
        .spawn();
    let mut child = child.unwrap();
    for position in 1..=LAST {
        writer.tracker.modified(TABLE, &Key::of(&[Datum::Int(position as i64)]), LogPosition(position));
        writer.append(LogPosition(position), &record(position));
        writer.tracker.publish(LogPosition(position));
        if position % 1_000 == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    assert!(child.wait().unwrap().success());
    // The next writer of the file is another incarnation, whoever still maps it.
    let left = Reader::open(Mapping::open(&file).unwrap()).unwrap();
    let _next =
        Writer::begin(Mapping::create(&file, layout).unwrap(), layout, 2, LogPosition(LAST), u64::MAX);
    assert_eq!(left.tracker(0).err(), Some(Refused::OtherIncarnation { found: 2 }));
    std::fs::write(&file, b"short").unwrap();
    assert_eq!(Reader::open(Mapping::open(&file).unwrap()).err(), Some(Refused::Short));
    std::fs::remove_file(&file).unwrap();
}
