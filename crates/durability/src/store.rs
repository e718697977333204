//! The log and the checkpoints of a directory that is open.
//!
//! IN: records, blocks, and jobs that are done. OUT: jobs. KEEPS: two checkpoints once there were two; segments are
//! deleted when the older of the two covers them, and only then; a checkpoint covers stable records only. The first
//! failure on either lane ends all work, but for one: a checkpoint that finds no room is given up, and what is there of it
//! is deleted, because the log can do without it.

use crate::checkpoint::{Checkpoint, Description};
use crate::disk::{Failed, Failure, Job, Lane, Op};
use crate::identity::Identity;
use crate::log::RecordLog;
use crate::options::{Options, planted};
use crate::paths;
use crate::record::{Owner, PAYLOAD_BYTES_MAX, Record, Sequence};
use crate::writer::Writer;
use std::collections::VecDeque;

/// Complete checkpoints that are kept.
const KEPT: usize = 2;
/// Bytes of a checkpoint that may wait to be written.
const WAITING_BYTES_MAX: usize = 4 << 20;

/// The operation that failed. The store does nothing more, because what the disk holds of it is unknown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stopped(pub Failed);

impl Stopped {
    /// Whether a restart succeeds once there is room on the disk.
    pub fn is_full(&self) -> bool {
        self.0.why == Failure::Full
    }
}

impl std::fmt::Display for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "stopped: {}", self.0)
    }
}
impl std::error::Error for Stopped {}

/// See the module.
#[derive(Debug)]
pub struct Store {
    options: Options,
    identity: Identity,
    incarnation: u64,
    log: RecordLog,
    /// Oldest first.
    kept: VecDeque<Checkpoint>,
    next_number: u64,
    writer: Option<Writer>,
    /// For the background lane.
    background: VecDeque<Op>,
    is_background_busy: bool,
    stopped: Option<Stopped>,
}

impl Store {
    pub(crate) fn new(
        options: Options,
        identity: Identity,
        incarnation: u64,
        log: RecordLog,
        kept: VecDeque<Checkpoint>,
        next_number: u64,
        background: VecDeque<Op>,
    ) -> Store {
        let mut store = Store {
            options,
            identity,
            incarnation,
            log,
            kept,
            next_number,
            writer: None,
            background,
            is_background_busy: false,
            stopped: None,
        };
        // A crash may have come between the last checkpoint and this.
        store.cut();
        store
    }

    /// Unique to this opening of the directory.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }
    /// Every record up to this one survives any crash.
    pub fn stable(&self) -> Sequence {
        self.log.stable()
    }
    /// The last record appended.
    pub fn end(&self) -> Sequence {
        self.log.end()
    }
    /// Bytes of records that are in no batch yet.
    pub fn waiting_bytes(&self) -> u64 {
        self.log.waiting_bytes()
    }
    pub fn stopped(&self) -> Option<&Stopped> {
        self.stopped.as_ref()
    }
    /// The newest complete checkpoint's number and position.
    pub fn newest_checkpoint(&self) -> Option<(u64, Sequence)> {
        self.kept.back().map(|newest| (newest.number, newest.description().position))
    }
    /// Bytes of the files of the newest complete checkpoint, without its manifest; 0 if there is none.
    pub fn newest_checkpoint_bytes(&self) -> u64 {
        self.kept.back().map_or(0, |newest| newest.files().iter().map(|file| file.bytes).sum())
    }

    /// Appends a record; it counts once [`Store::stable`] has reached its number.
    pub fn append(
        &mut self,
        owner: Owner,
        kind: u8,
        version: u8,
        payload: Vec<u8>,
    ) -> Result<Sequence, Stopped> {
        assert!(payload.len() <= PAYLOAD_BYTES_MAX, "a record of {} bytes", payload.len());
        if let Some(stopped) = &self.stopped {
            return Err(stopped.clone());
        }
        let sequence = Sequence::default();
        Ok(self.log.append(Record { sequence, owner, kind, version, payload }))
    }

    /// Begins a checkpoint of the state after `description.position`. Answers its number.
    pub fn begin_checkpoint(&mut self, description: Description) -> u64 {
        assert!(!self.is_writing_checkpoint(), "one checkpoint at a time");
        assert!(description.position <= self.log.stable(), "a checkpoint covers stable records only");
        let newest = self.newest_checkpoint().map(|(_, position)| position);
        assert!(newest <= Some(description.position), "checkpoints move forward");
        if planted!(self.options, CutsWhenBegun) {
            let cut = self.log.cut(description.position, &self.options);
            self.delete_segments(cut);
        }
        let (number, ops) = (self.next_number, &mut self.background);
        self.next_number += 1;
        self.writer = Some(Writer::begin(number, self.identity, self.incarnation, description, ops));
        number
    }
    pub fn is_writing_checkpoint(&self) -> bool {
        self.writer.is_some()
    }

    /// Whether the disk has kept up with the blocks so far. Blocks that are added while it has not stay in memory.
    pub fn has_room(&self) -> bool {
        let bytes = |op: &Op| if let Op::Write { bytes, .. } = op { bytes.len() } else { 0 };
        self.background.iter().map(bytes).sum::<usize>() < WAITING_BYTES_MAX
    }

    /// Adds a block to a file of the checkpoint; the blocks of a file come one after the other.
    pub fn add_block(&mut self, file: &str, block: &[u8]) {
        assert!(block.len() <= PAYLOAD_BYTES_MAX, "a block of {} bytes", block.len());
        let writer = self.writer.as_mut().expect("a checkpoint was begun");
        writer.add_block(file, block, &self.options, &mut self.background);
    }

    /// The checkpoint that is being written will not be finished: what is there of it goes.
    pub fn abandon_checkpoint(&mut self) {
        let abandoned = self.writer.take().expect("a checkpoint was begun").into_checkpoint();
        let directory = paths::checkpoint(abandoned.number);
        let is_inside =
            |path: &str| path.strip_prefix(&directory).is_some_and(|p| p.is_empty() || p.starts_with('/'));
        self.background.retain(|op| !is_inside(op.path()));
        let names = abandoned.files().iter().map(|file| file.name.clone()).collect::<Vec<_>>();
        delete_checkpoint(abandoned.number, &names, &mut self.background);
    }

    /// All blocks were added.
    pub fn finish_checkpoint(&mut self) {
        let writer = self.writer.as_mut().expect("a checkpoint was begun");
        writer.finish(&self.options, &mut self.background);
    }

    /// Work for a lane that is idle.
    pub fn next_job(&mut self, lane: Lane) -> Option<Job> {
        if self.stopped.is_some() {
            return None;
        }
        match lane {
            Lane::Log => self.log.next_job(&self.options),
            Lane::Background => self.next_background_job(),
        }
    }

    /// As many operations as write a piece, or one sync.
    fn next_background_job(&mut self) -> Option<Job> {
        if self.is_background_busy {
            return None;
        }
        let (mut ops, mut bytes) = (Vec::new(), 0);
        while let Some(op) = self.background.pop_front() {
            let ends = match &op {
                Op::Write { bytes: written, .. } => {
                    bytes += written.len();
                    bytes >= self.options.piece_bytes_max
                }
                Op::Sync { .. } | Op::SyncDirectory { .. } => true,
                _ => false,
            };
            ops.push(op);
            if ends {
                break;
            }
        }
        self.is_background_busy = !ops.is_empty();
        (!ops.is_empty()).then_some(Job { lane: Lane::Background, ops })
    }

    /// A lane's job is done, or its first failure.
    pub fn done(&mut self, lane: Lane, result: Result<(), Failed>) {
        if self.stopped.is_some() {
            return;
        }
        let result = match result {
            Err(failed) if planted!(self.options, IgnoresFailedSync) && failed.doing == "sync" => Ok(()),
            result => result,
        };
        match result {
            Err(failed) if lane == Lane::Background && failed.why == Failure::Full => {
                self.is_background_busy = false;
                if self.writer.is_some() {
                    self.abandon_checkpoint();
                }
                return;
            }
            Err(failed) => {
                self.stopped = Some(Stopped(failed));
                return;
            }
            Ok(()) => {}
        }
        match lane {
            Lane::Log => self.log.synced(),
            Lane::Background => {
                self.is_background_busy = false;
                let is_complete = self.writer.as_ref().is_some_and(Writer::is_finished);
                if is_complete && self.background.is_empty() {
                    self.complete_checkpoint();
                }
            }
        }
    }

    fn complete_checkpoint(&mut self) {
        let writer = self.writer.take().expect("checked by the caller");
        self.kept.push_back(writer.into_checkpoint());
        while self.kept.len() > KEPT {
            let oldest = self.kept.pop_front().expect("more than two");
            let names = oldest.files().iter().map(|file| file.name.clone()).collect::<Vec<_>>();
            delete_checkpoint(oldest.number, &names, &mut self.background);
        }
        self.cut();
    }

    /// Deletes the segments that the older checkpoint covers.
    fn cut(&mut self) {
        let older = match self.kept.len() {
            _ if planted!(self.options, CutsToNewest) => self.kept.back(),
            KEPT => self.kept.front(),
            _ => None,
        };
        if let Some(position) = older.map(|older| older.description().position) {
            let cut = self.log.cut(position, &self.options);
            self.delete_segments(cut);
        }
    }

    fn delete_segments(&mut self, segments: Vec<Sequence>) {
        if segments.is_empty() {
            return;
        }
        let delete = |first: Sequence| Op::Delete { path: paths::segment(first) };
        self.background.extend(segments.into_iter().map(delete));
        self.background.push_back(Op::SyncDirectory { path: paths::LOG.into() });
    }
}

/// The manifest goes first, so that what is left is never taken for a checkpoint.
pub(crate) fn delete_checkpoint(number: u64, names: &[String], ops: &mut VecDeque<Op>) {
    ops.push_back(Op::Delete { path: paths::manifest(number) });
    ops.push_back(Op::SyncDirectory { path: paths::checkpoint(number) });
    ops.extend(names.iter().map(|name| Op::Delete { path: paths::data(number, name) }));
    ops.push_back(Op::DeleteDirectory { path: paths::checkpoint(number) });
}
