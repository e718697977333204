//! Opening a directory: what is there is checked, the tail is made durable, the rest is read in order.
//!
//! IN: a disk after any crash. OUT: the newest complete checkpoint, the records after its position one at a time, and
//! then the [`Store`]. KEEPS: no record and no checkpoint is answered that the page cache has and the disk may lack:
//! the last batch and the newest manifest are written again and synced first. A torn batch is cut off and its rest
//! never appears again. One record and one piece of a file are in memory at a time. Before the log was read to its
//! end nothing is deleted.

use crate::checkpoint::{Checkpoint, Found};
use crate::disk::{Disk, Op};
use crate::identity::{self, Identity, Opening};
use crate::log::RecordLog;
use crate::options::{Options, planted};
use crate::paths::{self, CHECKPOINTS, LOG, ROOT};
use crate::record::{Record, Sequence};
use crate::refused::Refused;
use crate::segment::{self, Reader};
use crate::store::{Store, delete_checkpoint};
use std::collections::VecDeque;

/// The tail is rewritten in pieces of so much.
const PIECE_BYTES: u64 = 1 << 20;

/// What an operator should know of an opening that succeeded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Note {
    /// A crash tore the last batch, as far as can be told: it is cut off from its first incomplete record on.
    TornTailCut { path: String, at: u64, bytes: u64 },
    /// A checkpoint was not finished, is damaged or is older than two others; it will be deleted.
    CheckpointSkipped { number: u64, why: String },
}

impl std::fmt::Display for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Note::TornTailCut { path, at, bytes } => {
                write!(f, "{path}: cut off {bytes} bytes at offset {at}, which a crash had torn")
            }
            Note::CheckpointSkipped { number, why } => write!(f, "checkpoint {number} is not used: {why}"),
        }
    }
}

/// A directory that was opened.
#[derive(Debug)]
pub struct Opened {
    /// Greater than in any opening before.
    pub incarnation: u64,
    /// Where the state begins; without one it begins empty.
    pub checkpoint: Option<Checkpoint>,
    pub notes: Vec<Note>,
    /// What happened after the checkpoint.
    pub replay: Replay,
}

/// Checks a directory, or makes one, and makes its tail durable.
pub fn open(disk: &mut dyn Disk, identity: Identity, options: Options) -> Result<Opened, Refused> {
    let before = identity::check(disk, &identity)?;
    // Names that were in the page cache only are made durable before they are believed.
    let directories =
        if planted!(options, ForgetsIncarnation) { &[LOG][..] } else { &[ROOT, LOG, CHECKPOINTS] };
    for path in directories {
        disk.perform(&Op::SyncDirectory { path: path.to_string() })?;
    }
    let mut notes = Vec::new();
    let checkpoints = choose(disk, &identity, &options, &mut notes)?;
    let checkpoint = checkpoints.kept.back().cloned();
    let base = checkpoint.as_ref().map_or(Sequence(0), |newest| newest.description().position);
    let names = disk.list(LOG)?;
    let mut segments: Vec<Sequence> = names.iter().filter_map(|name| paths::first_of(name)).collect();
    segments.sort_unstable();
    let (index, tail) = match segments.iter().rposition(|first| *first <= base.next()) {
        Some(index) => {
            let last = *segments.last().expect("one was found");
            let known = before.end.max(base);
            (index, secure_tail(disk, &identity, &options, (last, known), &mut notes)?)
        }
        None if segments.is_empty() && base == Sequence(0) => (0, Tail { end: base, bytes: 0 }),
        None => {
            let mut why = match segments.first() {
                Some(first) => {
                    format!("the log begins at record {first}, and no checkpoint covers what was before")
                }
                None => format!("there is no segment, but a checkpoint at record {base}"),
            };
            notes.iter().for_each(|note| why.push_str(&format!("; {note}")));
            return Err(Refused::Missing { path: paths::segment(base.next()), why });
        }
    };
    if tail.end < before.end {
        let why = format!("the log ends at record {}, and once ended at {}", tail.end, before.end);
        return Err(Refused::Missing { path: paths::segment(tail.end.next()), why });
    }
    if tail.end < base {
        let why = format!("the log ends at record {}, and a checkpoint is at record {base}", tail.end);
        return Err(Refused::Missing { path: paths::segment(tail.end.next()), why });
    }
    let incarnation = before.incarnation + 1;
    identity::write(disk, &identity, Opening { incarnation, end: tail.end }, &options)?;
    let reader = None;
    let replay =
        Replay { identity, options, incarnation, segments, index, reader, read: base, tail, checkpoints };
    Ok(Opened { incarnation, checkpoint, notes, replay })
}

/// Checkpoints of a directory.
#[derive(Debug)]
struct Checkpoints {
    /// At most two, oldest first.
    kept: VecDeque<Checkpoint>,
    next_number: u64,
    /// Deletes the others.
    cleaning: VecDeque<Op>,
}

/// The newest complete checkpoint and the one before it. The newest is read through; its manifest is made durable.
fn choose(
    disk: &mut dyn Disk,
    identity: &Identity,
    options: &Options,
    notes: &mut Vec<Note>,
) -> Result<Checkpoints, Refused> {
    let names = disk.list(CHECKPOINTS)?;
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| paths::checkpoint_of(name)).collect();
    numbers.sort_unstable();
    let next_number = numbers.last().map_or(1, |newest| newest + 1);
    let mut found = Checkpoints { kept: VecDeque::new(), next_number, cleaning: VecDeque::new() };
    for number in numbers.into_iter().rev() {
        let why = match Checkpoint::read(disk, identity, number)? {
            Found::Unusable(why) => why.to_string(),
            Found::Complete(_) if found.kept.len() == 2 => "it is older than two others".to_string(),
            Found::Complete(checkpoint) => {
                let is_newest = found.kept.is_empty() && !planted!(options, SkipsVerification);
                match if is_newest { checkpoint.damage(disk)? } else { None } {
                    Some(why) => why,
                    None => {
                        found.kept.push_front(checkpoint);
                        continue;
                    }
                }
            }
        };
        notes.push(Note::CheckpointSkipped { number, why });
        let files: Vec<String> = disk.list(&paths::checkpoint(number))?;
        delete_checkpoint(number, &files, &mut found.cleaning);
    }
    if let Some(newest) = found.kept.back()
        && !planted!(options, TrustsCachedManifest)
    {
        let path = paths::manifest(newest.number);
        disk.perform(&Op::Write { path: path.clone(), at: 0, bytes: newest.manifest.encode() })?;
        disk.perform(&Op::Sync { path })?;
        disk.perform(&Op::SyncDirectory { path: paths::checkpoint(newest.number) })?;
    }
    Ok(found)
}

/// The end of the log.
#[derive(Clone, Copy, Debug)]
struct Tail {
    /// The last whole record.
    end: Sequence,
    /// Of the last segment, up to there.
    bytes: u64,
}

/// Finds the end of the last segment, cuts off what a crash tore, and writes the last batch again: a sync that failed
/// before the restart leaves pages that look written and never reached the disk.
fn secure_tail(
    disk: &mut dyn Disk,
    identity: &Identity,
    options: &Options,
    (first, known): (Sequence, Sequence),
    notes: &mut Vec<Note>,
) -> Result<Tail, Refused> {
    let mut reader = Reader::open(disk, identity, first)?;
    if planted!(options, TrustsTornRecords) {
        reader = reader.without_checksums();
    }
    while reader.next(disk)?.is_some() {}
    let (path, at) = (reader.path().to_string(), reader.at());
    if !reader.is_header_good() && reader.last_batch_at() > 0 {
        return Err(Refused::Damaged { path, at: 0, why: "its header is not what was synced" });
    }
    if !reader.is_at_end() {
        // What an opening has answered before, or a checkpoint covers, was synced.
        if reader.next_sequence() <= known || reader.is_damaged(disk, options)? {
            return Err(damaged(path, at));
        }
        notes.push(Note::TornTailCut { path: path.clone(), at, bytes: reader.length() - at });
        if !planted!(options, LeavesTornTail) {
            disk.perform(&Op::Cut { path: path.clone(), bytes: at })?;
        }
    }
    if !planted!(options, TrustsCachedTail) {
        let mut from = reader.last_batch_at();
        if from == 0 {
            let bytes = segment::header(identity, first);
            from = bytes.len() as u64;
            disk.perform(&Op::Write { path: path.clone(), at: 0, bytes })?;
        }
        while from < at {
            let bytes = disk.read(&path, from, (at - from).min(PIECE_BYTES) as usize)?;
            if bytes.is_empty() {
                return Err(damaged(path, from));
            }
            let next = from + bytes.len() as u64;
            disk.perform(&Op::Write { path: path.clone(), at: from, bytes })?;
            from = next;
        }
        disk.perform(&Op::Sync { path })?;
    }
    Ok(Tail { end: Sequence(reader.next_sequence().0 - 1), bytes: at })
}

fn damaged(path: String, at: u64) -> Refused {
    Refused::Damaged { path, at, why: "a record that was synced is not what was written" }
}

/// The records after the checkpoint, in order.
pub struct Replay {
    identity: Identity,
    options: Options,
    incarnation: u64,
    segments: Vec<Sequence>,
    /// The segment that is being read.
    index: usize,
    reader: Option<Reader>,
    /// The last record that was answered or skipped.
    read: Sequence,
    tail: Tail,
    checkpoints: Checkpoints,
}

impl std::fmt::Debug for Replay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Replay({}..={})", self.read.next(), self.tail.end)
    }
}

impl Replay {
    /// The next record; `None` after the last.
    pub fn next(&mut self, disk: &mut dyn Disk) -> Result<Option<Record>, Refused> {
        while self.read < self.tail.end {
            if self.reader.is_none() {
                self.reader = Some(self.open_segment(disk)?);
            }
            let reader = self.reader.as_mut().expect("opened above");
            if let Some(record) = reader.next(disk)? {
                // The first segment begins before the checkpoint's position, or at it.
                if record.sequence <= self.read {
                    continue;
                }
                self.read = record.sequence;
                return Ok(Some(record));
            }
            if !reader.is_at_end() {
                return Err(damaged(reader.path().to_string(), reader.at()));
            }
            let (ended, path) = (reader.next_sequence(), reader.path().to_string());
            self.index += 1;
            match self.segments.get(self.index) {
                Some(next) if *next == ended => self.reader = None,
                Some(next) => {
                    let why = format!("{path} ends before record {ended}, the next segment begins at {next}");
                    return Err(Refused::Missing { path: paths::segment(ended), why });
                }
                None => return Err(damaged(path, self.tail.bytes)),
            }
        }
        Ok(None)
    }

    fn open_segment(&self, disk: &mut dyn Disk) -> Result<Reader, Refused> {
        let reader = Reader::open(disk, &self.identity, self.segments[self.index])?;
        if !reader.is_header_good() && !planted!(self.options, TrustsCachedTail) {
            let why = "its header is not what was synced";
            return Err(Refused::Damaged { path: reader.path().to_string(), at: 0, why });
        }
        Ok(if planted!(self.options, TrustsTornRecords) { reader.without_checksums() } else { reader })
    }

    /// The store, to go on with. All records have to have been read.
    pub fn finish(self) -> Store {
        assert_eq!(self.read, self.tail.end, "the log is read to its end first");
        let log = RecordLog::new(self.identity, self.tail.end, self.segments.into(), self.tail.bytes);
        let Checkpoints { kept, next_number, cleaning } = self.checkpoints;
        Store::new(self.options, self.identity, self.incarnation, log, kept, next_number, cleaning)
    }
}
