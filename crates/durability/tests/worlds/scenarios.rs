//! Situations by hand: what is shared, what is refused and in which words, what is deleted when.

use crate::disk::ModelDisk;
use crate::world::IDENTITY;
use base::rng::Rng;
use base::{NodeId, PartitionId, Rank};
use durability::{
    ClusterId, Description, Disk, Failed, Identity, Job, Lane, Note, Op, Opened, Options, Owner, Record,
    Refused, Sequence, Store, open, paths,
};

fn disk() -> ModelDisk {
    ModelDisk::new(Rng::new(1))
}

/// Segments of a few records, batches of two or three.
fn small() -> Options {
    Options { segment_bytes: 200, batch_bytes_max: 100, ..Options::default() }
}

fn start_with(disk: &mut dyn Disk, options: Options) -> Result<(Store, Vec<Record>), Refused> {
    let Opened { mut replay, .. } = open(disk, IDENTITY, options)?;
    let mut records = Vec::new();
    while let Some(record) = replay.next(disk)? {
        records.push(record);
    }
    Ok((replay.finish(), records))
}

fn start(disk: &mut ModelDisk) -> (Store, Vec<Record>) {
    start_with(disk, small()).unwrap()
}

fn append(store: &mut Store, text: &str) -> Sequence {
    store.append(Owner(1), 2, 3, text.as_bytes().to_vec()).unwrap()
}

fn perform(disk: &mut dyn Disk, job: &Job) -> Result<(), Failed> {
    job.ops.iter().try_for_each(|op| disk.perform(op))
}

/// Does all jobs of both lanes; answers how many of the log's.
fn work(store: &mut Store, disk: &mut dyn Disk) -> usize {
    let mut batches = 0;
    loop {
        let mut is_idle = true;
        for lane in [Lane::Log, Lane::Background] {
            if let Some(job) = store.next_job(lane) {
                batches += usize::from(lane == Lane::Log);
                let result = perform(disk, &job);
                store.done(lane, result);
                is_idle = false;
            }
        }
        if is_idle {
            return batches;
        }
    }
}

/// One batch for each of the texts.
fn write(store: &mut Store, disk: &mut ModelDisk, texts: &[&str]) {
    for text in texts {
        append(store, text);
        assert_eq!(work(store, disk), 1);
    }
}

fn checkpoint(store: &mut Store, disk: &mut ModelDisk, position: u64) -> u64 {
    let position = Sequence(position);
    let ranks = vec![(PartitionId(0), Rank(position.0))];
    let number = store.begin_checkpoint(Description { position, ranks });
    store.add_block("rows-0", format!("state at {position}").as_bytes());
    store.add_block("rows-0", b"");
    store.add_block("engine", b"image");
    store.finish_checkpoint();
    work(store, disk);
    assert_eq!(store.newest_checkpoint(), Some((number, position)));
    number
}

fn segments(disk: &mut ModelDisk) -> Vec<String> {
    disk.list(paths::LOG).unwrap()
}

fn refusal(disk: &mut ModelDisk) -> String {
    start_with(disk, small()).unwrap_err().to_string()
}

#[test]
fn one_sync_covers_all_that_waits_up_to_a_cap() {
    let (mut disk, options) = (disk(), Options { batch_bytes_max: 10 * 28, ..Options::default() });
    let (mut store, _) = start_with(&mut disk, options).unwrap();
    append(&mut store, "wait");
    let job = store.next_job(Lane::Log).unwrap();
    for _ in 0..25 {
        append(&mut store, "more");
    }
    assert_eq!(store.next_job(Lane::Log), None, "one batch at a time");
    assert_eq!(store.stable(), Sequence(0), "written is not synced");
    perform(&mut disk, &job).unwrap();
    assert_eq!(store.stable(), Sequence(0));
    store.done(Lane::Log, Ok(()));
    assert_eq!((store.stable(), store.waiting_bytes()), (Sequence(1), 25 * 28));
    assert_eq!(work(&mut store, &mut disk), 3, "ten, ten and five");
    assert_eq!((store.stable(), store.end()), (Sequence(26), Sequence(26)));
    // Larger than a batch and larger than a segment.
    let (mut store, _) = start(&mut disk);
    append(&mut store, &"x".repeat(1000));
    append(&mut store, "");
    assert_eq!(work(&mut store, &mut disk), 2);
    let (_, records) = start(&mut disk);
    assert_eq!(records.len(), 28);
    assert_eq!((records[26].payload.len(), records[27].payload.len()), (1000, 0));
    let last = &records[27];
    assert_eq!((last.sequence, last.owner, last.kind, last.version), (Sequence(28), Owner(1), 2, 3));
}

#[test]
fn a_commit_does_not_wait_for_a_checkpoint() {
    let mut disk = disk();
    let options = Options { piece_bytes_max: 100, sync_every_bytes: 250, ..Options::default() };
    let (mut store, _) = start_with(&mut disk, options).unwrap();
    write(&mut store, &mut disk, &["one"]);
    store.begin_checkpoint(Description { position: Sequence(1), ranks: Vec::new() });
    store.add_block("rows", &[7; 1000]);
    store.finish_checkpoint();
    let (mut pieces, mut unsynced, mut commits) = (0, 0, 0);
    while let Some(job) = store.next_job(Lane::Background) {
        append(&mut store, "meanwhile");
        let batch = store.next_job(Lane::Log).expect("the other lane is free");
        perform(&mut disk, &batch).unwrap();
        store.done(Lane::Log, Ok(()));
        commits += 1;
        assert_eq!(store.stable(), store.end());
        perform(&mut disk, &job).unwrap();
        let mut bytes = 0;
        for op in &job.ops {
            match op {
                Op::Write { path, bytes: written, .. } if path.ends_with("rows") => bytes += written.len(),
                Op::Sync { .. } => unsynced = 0,
                _ => {}
            }
        }
        unsynced += bytes;
        pieces += usize::from(bytes > 0);
        assert!(bytes <= 200 && unsynced <= 250 + 100, "{bytes} at a time, {unsynced} to sync");
        store.done(Lane::Background, Ok(()));
    }
    assert!(pieces >= 10 && commits > pieces, "{pieces} pieces, {commits} commits");
    assert_eq!(store.newest_checkpoint().map(|(_, position)| position), Some(Sequence(1)));
}

#[test]
fn segments_go_when_the_older_of_two_checkpoints_covers_them() {
    let mut disk = disk();
    let (mut store, _) = start(&mut disk);
    let texts: Vec<String> = (1..=20).map(|n| format!("{n:060}")).collect();
    write(&mut store, &mut disk, &texts.iter().map(String::as_str).collect::<Vec<_>>());
    // One record each: a second one would not fit.
    assert_eq!(segments(&mut disk).len(), 20);
    let first = checkpoint(&mut store, &mut disk, 10);
    assert_eq!(segments(&mut disk).len(), 20, "one checkpoint may be damaged");
    let second = checkpoint(&mut store, &mut disk, 15);
    assert_eq!(segments(&mut disk).first(), Some(&format!("{:020}.seg", 11)));
    let third = checkpoint(&mut store, &mut disk, 20);
    assert_eq!(segments(&mut disk).first(), Some(&format!("{:020}.seg", 16)));
    assert_eq!(disk.list(paths::CHECKPOINTS).unwrap(), [second.to_string(), third.to_string()]);
    assert!(first < second && second < third);
    // What is written to stays, even when a checkpoint covers it.
    checkpoint(&mut store, &mut disk, 20);
    checkpoint(&mut store, &mut disk, 20);
    assert_eq!(segments(&mut disk), [format!("{:020}.seg", 20)]);
    let (mut store, records) = start(&mut disk);
    assert_eq!(records.len(), 0, "all of it is in the checkpoint");
    assert_eq!(append(&mut store, "next"), Sequence(21));
}

#[test]
fn a_damaged_checkpoint_is_passed_over_for_the_one_before() {
    for file in ["manifest", "rows-0", "engine"] {
        let mut disk = disk();
        let (mut store, _) = start(&mut disk);
        let texts: Vec<String> = (1..=8).map(|n| format!("{n:060}")).collect();
        write(&mut store, &mut disk, &texts.iter().map(String::as_str).collect::<Vec<_>>());
        let older = checkpoint(&mut store, &mut disk, 3);
        let newest = checkpoint(&mut store, &mut disk, 6);
        assert!(disk.flip(&paths::data(newest, file), None));
        let opened = open(&mut disk, IDENTITY, small()).unwrap();
        let found = opened.checkpoint.unwrap();
        assert_eq!((found.number, found.description().position), (older, Sequence(3)));
        assert_eq!((found.incarnation(), opened.incarnation), (1, 2));
        let mut blocks = found.blocks(&found.files()[0]);
        assert_eq!(blocks.next(&mut disk).unwrap().unwrap(), b"state at 3");
        assert_eq!(blocks.next(&mut disk).unwrap().unwrap(), b"");
        assert_eq!(blocks.next(&mut disk).unwrap(), None);
        assert!(matches!(opened.notes[..], [Note::CheckpointSkipped { number, .. }] if number == newest));
        let mut replay = opened.replay;
        assert_eq!(replay.next(&mut disk).unwrap().unwrap().sequence, Sequence(4));
        while replay.next(&mut disk).unwrap().is_some() {}
        let mut store = replay.finish();
        work(&mut store, &mut disk);
        assert_eq!(disk.list(paths::CHECKPOINTS).unwrap(), [older.to_string()]);
        // The last one as well: the log was cut on its word, so nothing is guessed.
        disk.flip(&paths::manifest(older), None);
        assert!(segments(&mut disk)[0] > format!("{:020}.seg", 1));
        let said = refusal(&mut disk);
        assert!(
            said.contains("the log begins at record 4, and no checkpoint covers what was before"),
            "{said}"
        );
    }
}

#[test]
fn a_flipped_bit_anywhere_in_the_log_is_refused_with_its_place_or_is_in_the_last_batch() {
    let mut disk = disk();
    let (mut store, _) = start_with(&mut disk, Options::default()).unwrap();
    let mut ends = Vec::new();
    for batch in [&["one", "two!"][..], &["three"], &["four", "five", "six"]] {
        batch.iter().for_each(|text| _ = append(&mut store, text));
        work(&mut store, &mut disk);
        ends.push(disk.length(&paths::segment(Sequence(1))).unwrap().unwrap() as usize);
    }
    let path = paths::segment(Sequence(1));
    let records: Vec<usize> = {
        let header = durability::segment::HEADER_BYTES as usize;
        ["one", "two!", "three", "four", "five", "six"].iter().fold(vec![header], |mut at, text| {
            at.push(at.last().unwrap() + 24 + text.len());
            at
        })
    };
    assert_eq!(records[6], ends[2]);
    for at in 0..ends[2] {
        let mut disk = disk.clone();
        disk.flip(&path, Some(at));
        let found = start_with(&mut disk, Options::default());
        if at < ends[1] {
            let begins = *records.iter().rev().find(|begins| **begins <= at).unwrap_or(&0);
            match found {
                Err(Refused::Damaged { path: of, at, .. }) => {
                    assert_eq!((of, at), (path.clone(), begins as u64))
                }
                Err(Refused::Format { .. }) => panic!("damage is no format"),
                other => panic!("byte {at}: {other:?}"),
            }
        } else {
            let whole = records.iter().rposition(|begins| *begins <= at).unwrap();
            assert_eq!(found.unwrap().1.len(), whole, "byte {at}");
        }
    }
}

#[test]
fn a_segment_that_is_damaged_or_gone_is_refused() {
    let mut disk = disk();
    let (mut store, _) = start(&mut disk);
    write(&mut store, &mut disk, &[&"a".repeat(60), &"b".repeat(60), &"c".repeat(60), &"d".repeat(60)]);
    assert_eq!(segments(&mut disk).len(), 4);
    for (number, at) in [(2, 0), (2, 60), (3, 100)] {
        let mut disk = disk.clone();
        let path = paths::segment(Sequence(number));
        disk.flip(&path, Some(at));
        let begins = if at == 0 { 0 } else { durability::segment::HEADER_BYTES };
        let said = refusal(&mut disk);
        assert!(said.starts_with(&format!("{path} is damaged at offset {begins}: ")), "{said}");
    }
    for number in [1, 2, 3] {
        let mut disk = disk.clone();
        let path = paths::segment(Sequence(number));
        disk.perform(&Op::Delete { path: path.clone() }).unwrap();
        let said = refusal(&mut disk);
        assert!(said.starts_with(&format!("{path} is missing: ")), "{said}");
    }
    let (mut store, _) = start(&mut disk);
    // The newest one too, and a record in it: the opening before knew of them.
    let newest = paths::segment(Sequence(4));
    let mut cut = disk.clone();
    cut.perform(&Op::Delete { path: newest.clone() }).unwrap();
    assert!(refusal(&mut cut).ends_with("the log ends at record 3, and once ended at 4"));
    let mut damaged = disk.clone();
    damaged.flip(&newest, Some(durability::segment::HEADER_BYTES as usize + 30));
    assert!(refusal(&mut damaged).starts_with(&format!("{newest} is damaged at offset ")));
    checkpoint(&mut store, &mut disk, 4);
    for number in [1, 2, 3, 4] {
        disk.perform(&Op::Delete { path: paths::segment(Sequence(number)) }).unwrap();
    }
    let said = refusal(&mut disk);
    assert!(said.ends_with("there is no segment, but a checkpoint at record 4"), "{said}");
}

#[test]
fn a_directory_of_another_node_is_refused_with_each_difference() {
    let mut disk = disk();
    let (mut store, _) = start(&mut disk);
    write(&mut store, &mut disk, &["one"]);
    let number = checkpoint(&mut store, &mut disk, 1);
    let wanted = Identity { cluster: ClusterId(0xFEED), node: NodeId(4), topology_digest: 0xAB };
    let said = open(&mut disk, wanted, small()).unwrap_err().to_string();
    let (found, other) = (IDENTITY.cluster, wanted.cluster);
    let topologies = "topology is 0000000000000005, not 00000000000000ab";
    let expected = format!(
        "identity belongs elsewhere: cluster is {found}, not {other}; node is n3, not n4; {topologies}"
    );
    assert_eq!(said, expected);
    let moved = Identity { topology_digest: 6, ..IDENTITY };
    let said = open(&mut disk, moved, small()).unwrap_err().to_string();
    assert_eq!(said, "identity belongs elsewhere: topology is 0000000000000005, not 0000000000000006");
    // Files of another node, copied into a directory of its own.
    let mine = Identity { node: NodeId(9), ..IDENTITY };
    for path in [paths::segment(Sequence(1)), paths::manifest(number)] {
        let mut other = self::disk();
        _ = open(&mut other, mine, small()).unwrap();
        if path.starts_with(paths::CHECKPOINTS) {
            other.perform(&Op::MakeDirectory { path: paths::checkpoint(number) }).unwrap();
        }
        let bytes = disk.read(&path, 0, 1 << 20).unwrap();
        other.perform(&Op::Create { path: path.clone() }).unwrap();
        other.perform(&Op::Write { path: path.clone(), at: 0, bytes }).unwrap();
        let said = open(&mut other, mine, small()).unwrap_err().to_string();
        assert_eq!(said, format!("{path} belongs elsewhere: node is n3, not n9"));
    }
}

#[test]
fn an_identity_that_is_damaged_or_gone_is_refused() {
    let mut disk = disk();
    let (mut store, _) = start(&mut disk);
    write(&mut store, &mut disk, &["one"]);
    let mut damaged = disk.clone();
    damaged.flip(paths::IDENTITY, None);
    assert_eq!(refusal(&mut damaged), "identity is damaged at offset 0: its checksum is wrong");
    disk.perform(&Op::Delete { path: paths::IDENTITY.into() }).unwrap();
    assert_eq!(refusal(&mut disk), "identity is missing: log holds files; restore it from a copy");
}

#[test]
fn a_later_format_is_refused_with_both_versions() {
    let mut disk = disk();
    let (mut store, _) = start(&mut disk);
    write(&mut store, &mut disk, &["one"]);
    let number = checkpoint(&mut store, &mut disk, 1);
    for path in [paths::IDENTITY.to_string(), paths::segment(Sequence(1)), paths::manifest(number)] {
        let mut disk = disk.clone();
        let mut bytes = disk.read(&path, 0, 1 << 20).unwrap();
        // As a later program would write it: its number, and a checksum that fits.
        bytes[8..12].copy_from_slice(&2u32.to_le_bytes());
        let body = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
        let sum = crc32c::crc32c_append(crc32c::crc32c(&bytes[..16]), &bytes[20..20 + body]);
        bytes[16..20].copy_from_slice(&sum.to_le_bytes());
        disk.perform(&Op::Write { path: path.clone(), at: 0, bytes }).unwrap();
        assert_eq!(refusal(&mut disk), format!("{path} has format 2; this program reads format 1"));
    }
}

#[test]
fn a_full_disk_stops_the_store_which_starts_again_when_there_is_room() {
    let mut disk = disk();
    let (mut store, _) = start(&mut disk);
    write(&mut store, &mut disk, &["one"]);
    disk.room = Some(30);
    append(&mut store, &"two".repeat(20));
    work(&mut store, &mut disk);
    let stopped = store.stopped().unwrap().clone();
    assert!(stopped.is_full());
    assert_eq!(
        stopped.to_string(),
        format!("stopped: cannot write {}: the disk is full", paths::segment(Sequence(1)))
    );
    assert_eq!(store.append(Owner(1), 1, 1, Vec::new()), Err(stopped));
    assert_eq!(store.stable(), Sequence(1));
    disk.process_killed();
    // An opening needs room for nothing but its count.
    disk.room = Some(200);
    let (_, records) = start(&mut disk);
    assert_eq!(records.len(), 1, "what was cut short is gone");
    disk.room = None;
    let (mut store, _) = start(&mut disk);
    write(&mut store, &mut disk, &["two"]);
    assert_eq!(start(&mut disk).1.len(), 2);
}

#[test]
fn a_checkpoint_that_finds_no_room_is_given_up_and_the_log_goes_on() {
    let mut disk = disk();
    let (mut store, _) = start(&mut disk);
    write(&mut store, &mut disk, &["one", "two"]);
    let first = checkpoint(&mut store, &mut disk, 1);
    disk.room = Some(100);
    store.begin_checkpoint(Description { position: Sequence(2), ranks: Vec::new() });
    store.add_block("rows-0", &[7; 300]);
    store.add_block("rows-1", &[7; 300]);
    store.finish_checkpoint();
    work(&mut store, &mut disk);
    assert!(!store.is_writing_checkpoint() && store.stopped().is_none());
    assert_eq!(store.newest_checkpoint(), Some((first, Sequence(1))));
    assert_eq!(disk.list(paths::CHECKPOINTS).unwrap(), [first.to_string()], "it takes no room");
    disk.room = Some(60);
    write(&mut store, &mut disk, &["three"]);
    disk.room = None;
    let next = checkpoint(&mut store, &mut disk, 3);
    assert!(next > first + 1, "numbers are not used again");
    disk.process_killed();
    assert_eq!(start(&mut disk).1.len(), 0, "the checkpoint covers all");
}

#[test]
fn damage_of_a_checkpoint_is_told_with_its_file_and_offset() {
    let mut disk = disk();
    let (mut store, _) = start(&mut disk);
    write(&mut store, &mut disk, &["one", "two", &"three".repeat(60), "four"]);
    let numbers = [checkpoint(&mut store, &mut disk, 2), checkpoint(&mut store, &mut disk, 4)];
    let path = paths::data(numbers[1], "rows-0");
    // In its first block, behind the header.
    disk.flip(&path, Some(9));
    let opened = open(&mut disk, IDENTITY, small()).unwrap();
    let expected = format!("checkpoint {} is not used: {path} is damaged at offset 0", numbers[1]);
    assert_eq!(opened.notes.iter().map(Note::to_string).collect::<Vec<_>>(), [expected.clone()]);
    assert_eq!(opened.checkpoint.map(|found| found.number), Some(numbers[0]));
    // With the one before gone as well nothing covers the beginning of the log.
    disk.perform(&Op::Delete { path: paths::manifest(numbers[0]) }).unwrap();
    let first = segments(&mut disk).into_iter().min().unwrap();
    disk.perform(&Op::Delete { path: format!("log/{first}") }).unwrap();
    let said = refusal(&mut disk);
    assert!(said.contains("no checkpoint covers what was before") && said.contains(&expected), "{said}");
}

#[test]
fn what_a_failed_sync_left_in_the_cache_is_written_again() {
    let mut disk = disk();
    let (mut store, _) = start(&mut disk);
    write(&mut store, &mut disk, &["one"]);
    append(&mut store, "two");
    disk.syncs_until_failure = Some(0);
    work(&mut store, &mut disk);
    assert!(!store.stopped().unwrap().is_full());
    disk.process_killed();
    // The cache has it, the disk does not.
    let (_, records) = start(&mut disk);
    assert_eq!(records.len(), 2);
    disk.power_lost();
    assert_eq!(start(&mut disk).1.len(), 2, "what an opening answered stays");
}

#[test]
fn whatever_the_files_hold_an_opening_answers_or_refuses() {
    let mut disk = disk();
    let (mut store, _) = start(&mut disk);
    write(&mut store, &mut disk, &["one", "two", &"three".repeat(30), "four"]);
    checkpoint(&mut store, &mut disk, 2);
    checkpoint(&mut store, &mut disk, 3);
    let (files, mut rng) = (disk.files(), Rng::new(4));
    let (mut opened, mut refused) = (0, 0);
    for _ in 0..3_000 {
        let mut disk = disk.clone();
        let path = match rng.below(12) {
            0 => paths::segment(Sequence(rng.next_u64() >> rng.below(64))),
            1 => format!("log/{}.seg", rng.next_u64()),
            _ => rng.pick(&files).clone(),
        };
        let before = disk.read(&path, 0, 1 << 20).unwrap_or_default();
        // Garbage, or the file with a part of it overwritten, cut off, or repeated.
        let mut bytes = before.clone();
        let at = rng.below(bytes.len() as u64 + 1) as usize;
        match rng.below(4) {
            0 => bytes = (0..rng.below(300)).map(|_| rng.below(256) as u8).collect(),
            1 => bytes.truncate(at),
            2 => bytes.extend_from_slice(&before[at..]),
            _ => bytes.iter_mut().skip(at).take(8).for_each(|byte| *byte = rng.below(256) as u8),
        }
        disk.perform(&Op::Create { path: path.clone() }).unwrap();
        disk.perform(&Op::Write { path: path.clone(), at: 0, bytes }).unwrap();
        match start_with(&mut disk, small()) {
            Ok((mut store, _)) => {
                append(&mut store, "more");
                work(&mut store, &mut disk);
                assert_eq!(store.stable(), store.end(), "{path}");
                opened += 1;
            }
            Err(why) => {
                assert!(!why.to_string().is_empty());
                refused += 1;
            }
        }
    }
    assert!(opened > 1_000 && refused > 300, "{opened} opened, {refused} refused");
}

/// Counts what is read at a time.
struct Narrow {
    disk: ModelDisk,
    widest: usize,
}

impl Disk for Narrow {
    fn list(&mut self, directory: &str) -> Result<Vec<String>, Failed> {
        self.disk.list(directory)
    }
    fn length(&mut self, path: &str) -> Result<Option<u64>, Failed> {
        self.disk.length(path)
    }
    fn read(&mut self, path: &str, at: u64, bytes: usize) -> Result<Vec<u8>, Failed> {
        self.widest = self.widest.max(bytes);
        self.disk.read(path, at, bytes)
    }
    fn perform(&mut self, op: &Op) -> Result<(), Failed> {
        self.disk.perform(op)
    }
}

#[test]
fn an_opening_reads_in_pieces() {
    let mut disk = disk();
    let (mut store, _) = start_with(&mut disk, Options::default()).unwrap();
    for _ in 0..2_000 {
        append(&mut store, &"x".repeat(2_000));
    }
    store.next_job(Lane::Log).map(|job| perform(&mut disk, &job).unwrap()).unwrap();
    store.done(Lane::Log, Ok(()));
    store.begin_checkpoint(Description { position: Sequence(1), ranks: Vec::new() });
    for _ in 0..30 {
        store.add_block("rows", &[1; 100_000]);
    }
    store.finish_checkpoint();
    work(&mut store, &mut disk);
    let mut narrow = Narrow { disk, widest: 0 };
    let (_, records) = start_with(&mut narrow, Options::default()).unwrap();
    assert_eq!(records.len(), 1_999);
    assert!(narrow.widest <= 1 << 20, "{} bytes at a time", narrow.widest);
}

#[test]
fn a_checkpoint_that_is_given_up_leaves_nothing_behind_and_another_one_may_begin() {
    let mut disk = disk();
    let (mut store, _) = start(&mut disk);
    write(&mut store, &mut disk, &["one", "two"]);
    let kept = checkpoint(&mut store, &mut disk, 1);
    let given_up = store.begin_checkpoint(Description { position: Sequence(2), ranks: Vec::new() });
    store.add_block("engine", b"half of it");
    store.add_block("rows-0", b"some");
    store.abandon_checkpoint();
    assert!(!store.is_writing_checkpoint());
    let next = checkpoint(&mut store, &mut disk, 2);
    assert!(kept < given_up && given_up < next);
    let names = disk.list(paths::CHECKPOINTS).unwrap();
    assert_eq!(names.len(), 2, "{names:?}");
    let Opened { checkpoint, notes, .. } = open(&mut disk, IDENTITY, small()).unwrap();
    assert_eq!((checkpoint.map(|newest| newest.number), notes.len()), (Some(next), 0));
}
