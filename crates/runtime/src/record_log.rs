//! A node's records and checkpoints in a directory: a [`durability::Store`], a thread that writes and syncs records, and
//! one that writes checkpoints while the node goes on.
//!
//! KEEPS: a record counts as stable only after its sync; one sync covers all that gathered. A checkpoint begins between
//! two steps, its position is the last record emitted by then, and its blocks are made one at a time, each between two
//! steps. No sync of it holds up one of the log. A full disk holds the log up, and ends a checkpoint; after any other
//! failure nothing is written any more, and the node stops.

#[cfg(test)]
mod tests;
mod whole_state;

use crate::disk_error::DiskError;
use crate::files::Files;
use crate::host::Host;
use crate::room::Room;
use base::cut::Incarnation;
use base::process::{CheckpointBlock, CheckpointEnded, Event, Record, Recorded, Unreadable};
use base::{NodeId, PartitionId, Time};
use durability::{
    ClusterId, Description, Disk, Failed, Identity, Lane, Options, Owner, Refused, Sequence, Stopped, Store,
};
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// The engine's image in a checkpoint.
const STATE: &str = "state";
/// Rows of a partition, followed by its number.
const ROWS: &str = "rows-";

/// A checkpoint is due once the records behind the last one have a quarter of its bytes. A checkpoint writes all rows, so
/// one after every so many bytes of log would write more for each byte of log the larger the database is. With a quarter,
/// checkpoints of a database that does not grow write at most four bytes for each byte of log, and a restart goes through
/// records of at most a quarter of the bytes that it reads of the checkpoint anyway. A half would save two of these four
/// bytes, and double what is replayed: a record takes several times as long as a row of the same length, because its
/// transaction is executed.
const PARTS_OF_CHECKPOINT: u64 = 4;

/// Bytes of records behind a checkpoint of `newest_bytes` (0: there is none) after which the next one is due.
/// `checkpoint_bytes`: what is configured, the least.
fn due_after_bytes(checkpoint_bytes: u64, newest_bytes: u64) -> u64 {
    checkpoint_bytes.max(newest_bytes / PARTS_OF_CHECKPOINT)
}

/// How often it is looked whether a checkpoint is due.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Opens a node's directory; each thread that writes has a handle of its own.
pub type OpenDisk = Box<dyn Fn() -> Result<Box<dyn Disk + Send>, Failed> + Send>;

/// An open directory.
pub struct RecordLog {
    directory: PathBuf,
    room: Arc<Room>,
    disk: Box<dyn Disk + Send>,
    open_disk: OpenDisk,
    store: Store,
    /// Bytes of records behind the newest checkpoint.
    behind_bytes: u64,
    checkpoint_bytes: u64,
}

/// A node that has come back with what its directory holds, and what its clock may have shown.
#[derive(Debug)]
pub struct Recovered<P> {
    pub process: P,
    pub log: RecordLog,
    pub clock: Time,
}

impl std::fmt::Debug for RecordLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RecordLog({}, {:?})", self.directory.display(), self.store)
    }
}

impl RecordLog {
    /// Opens a node's directory, or makes one. `make`: the node in its how-manyth life, before it takes what is there. A
    /// checkpoint is written after `checkpoint_bytes` of records, or a quarter of the last checkpoint's bytes if that is more.
    pub fn open<P: Recorded>(
        directory: &Path,
        room: Arc<Room>,
        node: NodeId,
        made: Incarnation,
        checkpoint_bytes: u64,
        make: impl FnOnce(u32) -> P,
    ) -> Result<Recovered<P>, DiskError> {
        let root = directory.to_path_buf();
        let open_disk: OpenDisk = Box::new(move || Ok(Box::new(Files::open(&root)?)));
        RecordLog::open_on(open_disk, directory, room, node, made, checkpoint_bytes, make)
    }

    /// The same on any disk; `directory` names it.
    pub fn open_on<P: Recorded>(
        open_disk: OpenDisk,
        directory: &Path,
        room: Arc<Room>,
        node: NodeId,
        made: Incarnation,
        checkpoint_bytes: u64,
        make: impl FnOnce(u32) -> P,
    ) -> Result<Recovered<P>, DiskError> {
        let refused = |why: Refused| DiskError::Refused { directory: directory.to_path_buf(), why };
        let foreign = |why: Unreadable| DiskError::Foreign { path: directory.to_path_buf(), why: why.0 };
        let mut disk = open_disk().map_err(|failed| refused(failed.into()))?;
        let files = disk.as_mut();
        // What the cluster was made with is compared name by name before (`DataDir`).
        let identity = Identity { cluster: ClusterId(made.0.into()), node, topology_digest: 0 };
        let opened = durability::open(files, identity, Options::default()).map_err(refused)?;
        for note in &opened.notes {
            tracing::warn!(directory = %directory.display(), "{note}");
        }
        let mut process = make(opened.incarnation as u32);
        if let Some(checkpoint) = &opened.checkpoint {
            for file in checkpoint.files() {
                let mut blocks = checkpoint.blocks(file);
                while let Some(bytes) = blocks.next(files).map_err(refused)? {
                    process.restore(block_of(&file.name, bytes).map_err(foreign)?).map_err(foreign)?;
                }
            }
        }
        let (mut replay, mut behind_bytes) = (opened.replay, 0);
        while let Some(record) = replay.next(files).map_err(refused)? {
            behind_bytes += record.payload.len() as u64;
            let durability::Record { sequence, owner, kind, version, payload } = record;
            let record = Record { owner: owner.0, kind, version, payload };
            process
                .replay(record)
                .map_err(|why| foreign(Unreadable(format!("record {sequence} cannot be used: {why}"))))?;
        }
        let clock = process.recovered().map_err(foreign)?;
        let (store, directory) = (replay.finish(), directory.to_path_buf());
        let log = RecordLog { directory, room, disk, open_disk, store, behind_bytes, checkpoint_bytes };
        Ok(Recovered { process, log, clock })
    }

    /// The room that its disk has.
    pub fn room(&self) -> &Arc<Room> {
        &self.room
    }

    /// Starts the threads that write. Answers where records go.
    pub(crate) fn start<P: Recorded + Send + 'static>(self, host: &Arc<Host<P>>) -> mpsc::Sender<Record> {
        let RecordLog { directory, room, disk, open_disk, store, behind_bytes, checkpoint_bytes } = self;
        let base = store.end();
        let shared = Arc::new(Shared {
            directory,
            room,
            store: Mutex::new(store),
            behind_bytes: AtomicU64::new(behind_bytes),
        });
        let (sender, records) = mpsc::channel();
        let (log, log_shared) = (host.clone(), shared.clone());
        let write = move || write_records(&log_shared, disk, base, records, &log);
        spawn(host, "log", write);
        let log = host.clone();
        let write = move || {
            let mut disk = open_disk().map_err(|failed| shared.stopped(Stopped(failed)))?;
            Checkpoints { host: &log, shared: &shared, base, checkpoint_bytes }.serve(disk.as_mut())
        };
        spawn(host, "checkpoints", write);
        sender
    }
}

/// A thread of a node that stops it when it fails.
fn spawn<P: Recorded + Send + 'static>(
    host: &Arc<Host<P>>,
    name: &str,
    work: impl FnOnce() -> Result<(), DiskError> + Send + 'static,
) {
    let guarded = host.clone();
    let writer = std::thread::Builder::new()
        .name(format!("node-{}-{name}", host.id().0))
        .stack_size(crate::STACK_BYTES)
        .spawn(move || guarded.stops_unless(work))
        .expect("a thread can be started");
    host.add_writer(writer);
}

fn block_of(name: &str, bytes: Vec<u8>) -> Result<CheckpointBlock, Unreadable> {
    if name == STATE {
        return Ok(CheckpointBlock::State(bytes));
    }
    let partition = name.strip_prefix(ROWS).and_then(|number| number.parse().ok()).map(PartitionId);
    let partition = partition.ok_or_else(|| Unreadable(format!("a checkpoint has a file {name}")))?;
    Ok(CheckpointBlock::Rows(partition, bytes))
}

/// What both threads use.
struct Shared {
    directory: PathBuf,
    room: Arc<Room>,
    store: Mutex<Store>,
    behind_bytes: AtomicU64,
}

impl Shared {
    fn stopped(&self, why: Stopped) -> DiskError {
        DiskError::Stopped { directory: self.directory.clone(), why }
    }
    /// Does one job of a lane; false: there is none. The log waits for room, until `is_over`.
    fn work(&self, lane: Lane, disk: &mut dyn Disk, is_over: impl Fn() -> bool) -> Result<bool, DiskError> {
        let job = self.store.lock().next_job(lane);
        let Some(job) = job else {
            return self.store.lock().stopped().map_or(Ok(false), |why| Err(self.stopped(why.clone())));
        };
        let result = job.ops.iter().try_for_each(|op| match lane {
            Lane::Log => self.room.perform(disk, op, &is_over),
            Lane::Background => disk.perform(op),
        });
        let mut store = self.store.lock();
        store.done(lane, result);
        store.stopped().map_or(Ok(true), |why| Err(self.stopped(why.clone())))
    }
}

/// Writes what comes in, until nobody can send any more; tells the node what is stable.
fn write_records<P: Recorded + Send + 'static>(
    shared: &Shared,
    mut disk: Box<dyn Disk + Send>,
    base: Sequence,
    records: mpsc::Receiver<Record>,
    host: &Host<P>,
) -> Result<(), DiskError> {
    let append = |record: Record| {
        shared.behind_bytes.fetch_add(record.payload.len() as u64, Relaxed);
        let Record { owner, kind, version, payload } = record;
        let appended = shared.store.lock().append(Owner(owner), kind, version, payload);
        appended.map_err(|why| shared.stopped(why))
    };
    while let Ok(first) = records.recv() {
        append(first)?;
        loop {
            // What came in during a sync shares the next one.
            for record in records.try_iter() {
                append(record)?;
            }
            if !shared.work(Lane::Log, disk.as_mut(), || host.is_gone())? {
                break;
            }
            let stable = shared.store.lock().stable();
            host.deliver(Time::ZERO, Event::Stable { records: stable.0 - base.0 });
        }
    }
    Ok(())
}

/// Writes a checkpoint whenever enough was recorded since the last one.
struct Checkpoints<'a, P: Recorded + Send + 'static> {
    host: &'a Host<P>,
    shared: &'a Shared,
    base: Sequence,
    checkpoint_bytes: u64,
}

impl<P: Recorded + Send + 'static> Checkpoints<'_, P> {
    fn serve(&self, disk: &mut dyn Disk) -> Result<(), DiskError> {
        crate::give_way(CHECKPOINT_NICENESS);
        while !self.host.is_gone() {
            while self.work(disk)? {}
            self.shared.room.look();
            let newest_bytes = self.shared.store.lock().newest_checkpoint_bytes();
            let due_after_bytes = due_after_bytes(self.checkpoint_bytes, newest_bytes);
            let is_due = self.shared.behind_bytes.load(Relaxed) >= due_after_bytes;
            match is_due && !self.host.is_halted() && !self.shared.room.is_full() {
                true => self.write(disk)?,
                false => std::thread::sleep(LOOK_EVERY),
            }
        }
        Ok(())
    }

    fn work(&self, disk: &mut dyn Disk) -> Result<bool, DiskError> {
        self.shared.work(Lane::Background, disk, || self.host.is_gone())
    }

    /// Writes a checkpoint of the node as it is now.
    fn write(&self, disk: &mut dyn Disk) -> Result<(), DiskError> {
        let (base, shared) = (self.base.0, self.shared);
        let behind_bytes = shared.behind_bytes.load(Relaxed);
        let began = self.host.with_process(|process, emitted| {
            process.begin_checkpoint();
            Sequence(base + emitted)
        });
        let Some(position) = began else { return Ok(()) };
        while shared.store.lock().stable() < position {
            if self.host.is_gone() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        shared.store.lock().begin_checkpoint(Description { position, ranks: Vec::new() });
        loop {
            if !shared.store.lock().is_writing_checkpoint() {
                self.found_no_room();
                return Ok(());
            }
            let Some(block) = self.host.with_process(|process, _| process.next_block()) else {
                return Ok(());
            };
            match block {
                Ok(Some(CheckpointBlock::State(bytes))) => shared.store.lock().add_block(STATE, &bytes),
                Ok(Some(CheckpointBlock::Rows(partition, bytes))) => {
                    shared.store.lock().add_block(&format!("{ROWS}{}", partition.0), &bytes)
                }
                Ok(None) => break,
                Err(CheckpointEnded) => {
                    // The catalog has changed: the next look begins another one.
                    shared.store.lock().abandon_checkpoint();
                    self.host.with_process(|process, _| process.end_checkpoint());
                    // A node that takes a copy cannot begin one for a while.
                    std::thread::sleep(LOOK_EVERY);
                    return Ok(());
                }
            }
            while !shared.store.lock().has_room() {
                self.work(disk)?;
            }
        }
        self.host.with_process(|process, _| process.end_checkpoint());
        let newest = shared.store.lock().newest_checkpoint();
        shared.store.lock().finish_checkpoint();
        while self.work(disk)? {}
        if shared.store.lock().newest_checkpoint() == newest {
            self.found_no_room();
            return Ok(());
        }
        // What was recorded while it was written is behind it, as far as it came after its beginning.
        shared.behind_bytes.fetch_sub(behind_bytes, Relaxed);
        tracing::info!(node = %self.host.id(), "wrote a checkpoint at record {position}");
        Ok(())
    }

    /// The checkpoint was given up; another one is tried later, or when there is room.
    fn found_no_room(&self) {
        self.host.with_process(|process, _| process.end_checkpoint());
        tracing::error!(
            node = %self.host.id(),
            "a checkpoint found no room on the disk and was given up; the log grows until there is some"
        );
        let given_up = std::time::Instant::now();
        while given_up.elapsed() < TRY_AGAIN_AFTER && !self.host.is_gone() {
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

/// How long after a checkpoint that found no room the next one begins.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(5);

/// Checkpoints give way to clients and to the node.
const CHECKPOINT_NICENESS: i32 = 5;
