//! A node's records and checkpoints in a directory: a [`durability::Store`], a thread that writes and syncs records, and
//! one that writes checkpoints while the node goes on.
//!
//! KEEPS: a record counts as stable only after its sync; one sync covers all that gathered. A checkpoint begins between
//! two steps, its position is the last record emitted by then, and its blocks are made one at a time, each between two
//! steps. No sync of it holds up one of the log. A full disk holds the log up, and ends a checkpoint; after any other
//! failure nothing is written any more, and the node stops.

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
    /// checkpoint is written after every `checkpoint_bytes` of records.
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
            let is_due = self.shared.behind_bytes.load(Relaxed) >= self.checkpoint_bytes;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_dir::tests::Scratch;
    use crate::host::Gone;
    use crate::local::LocalCluster;
    use base::process::{Effects, Process};
    use base::topology::Topology;
    use base::wan::Wan;

    const MADE: Incarnation = Incarnation(5);

    /// Adds up what it is asked to, and answers the sum.
    struct Sum {
        life: u32,
        sum: u64,
        clock: Time,
        copied: Option<u64>,
        /// Of those begun, how many checkpoints it lets end.
        checkpoints: u32,
    }

    impl Process for Sum {
        type Message = ();
        type Timer = ();
        type Request = u64;
        type Reply = u64;
        type Computed = ();
        fn step(&mut self, now: Time, event: Event<Self>, out: &mut Effects<Self>) {
            if let Event::Request { id, request } = event {
                self.sum += request;
                let payload = [request.to_le_bytes(), now.0.to_le_bytes()].concat();
                out.record(Record { owner: 7, kind: 1, version: 1, payload });
                out.reply(id, self.sum);
            }
        }
    }

    impl Recorded for Sum {
        fn begin_checkpoint(&mut self) {
            self.copied = Some(self.sum);
            self.checkpoints += 1;
        }
        fn next_block(&mut self) -> Result<Option<CheckpointBlock>, CheckpointEnded> {
            let block = self.copied.take().map(|sum| CheckpointBlock::State(sum.to_le_bytes().to_vec()));
            // Every other one is given up.
            if block.is_none() && self.checkpoints % 2 == 1 { Err(CheckpointEnded) } else { Ok(block) }
        }
        fn end_checkpoint(&mut self) {}
        fn restore(&mut self, block: CheckpointBlock) -> Result<(), Unreadable> {
            let CheckpointBlock::State(bytes) = block else { panic!("it has no rows") };
            self.sum = u64::from_le_bytes(bytes.try_into().unwrap());
            Ok(())
        }
        fn replay(&mut self, record: Record) -> Result<(), Unreadable> {
            if record.owner != 7 {
                return Err(Unreadable(format!("a record of owner {}", record.owner)));
            }
            let (request, now) = record.payload.split_at(8);
            self.sum += u64::from_le_bytes(request.try_into().unwrap());
            self.clock = Time(u64::from_le_bytes(now.try_into().unwrap()));
            Ok(())
        }
        fn recovered(&mut self) -> Result<Time, Unreadable> {
            Ok(self.clock)
        }
    }

    fn open(path: &Path) -> Result<Recovered<Sum>, DiskError> {
        let make = |life| Sum { life, sum: 0, clock: Time::ZERO, copied: None, checkpoints: 0 };
        let room = Arc::new(Room::open(path.parent().unwrap(), 4_096).unwrap());
        RecordLog::open(path, room, NodeId(0), MADE, 2_000, make)
    }
    fn start(recovered: Recovered<Sum>) -> LocalCluster<Sum> {
        let topology = Topology::one_node_per_region(Wan::uniform("t", &["a"], 1, 1), 1);
        LocalCluster::start_with_records(Arc::new(topology), vec![recovered])
    }

    #[tokio::test]
    async fn a_node_comes_back_with_its_newest_checkpoint_and_the_records_behind_it() {
        let scratch = Scratch::new();
        let path = scratch.0.join("node-0");
        let (mut sum, mut requests) = (0, 0);
        for life in 1..=3 {
            let recovered = open(&path).unwrap();
            assert_eq!((recovered.process.sum, recovered.process.life), (sum, life));
            let behind_bytes = recovered.log.behind_bytes;
            assert!(life == 1 || behind_bytes < requests * 16, "a checkpoint stands for some of {requests}");
            let cluster = start(recovered);
            for request in 1..=600 {
                (sum, requests) = (sum + request, requests + 1);
                assert_eq!(cluster.host(NodeId(0)).request(request).await, Ok(sum));
            }
            // The last of several checkpoints may be under way.
            let deadline = std::time::Instant::now() + Duration::from_secs(20);
            let is_written = || std::fs::read_dir(path.join("checkpoint")).unwrap().count() >= 2;
            while !(is_written() && cluster.host(NodeId(0)).inspect(|node| node.checkpoints) >= 4) {
                assert!(std::time::Instant::now() < deadline, "checkpoints are written");
                (sum, requests) = (sum + 1, requests + 1);
                assert_eq!(cluster.host(NodeId(0)).request(1).await, Ok(sum));
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }

    #[tokio::test]
    async fn a_node_whose_log_cannot_be_written_answers_nobody() {
        let scratch = Scratch::new();
        let path = scratch.0.join("node-0");
        let recovered = open(&path).unwrap();
        std::fs::remove_dir(path.join("log")).unwrap();
        let cluster = start(recovered);
        assert_eq!(cluster.host(NodeId(0)).request(1).await, Err(Gone));
        assert!(cluster.host(NodeId(0)).is_gone());
    }

    #[test]
    fn a_log_of_inputs_is_refused() {
        let scratch = Scratch::new();
        let path = scratch.0.join("node-0");
        let mut log = open(&path).unwrap().log;
        log.store.append(Owner(1), 1, 1, Vec::new()).unwrap();
        let job = log.store.next_job(Lane::Log).unwrap();
        job.ops.iter().for_each(|op| log.disk.perform(op).unwrap());
        drop(log);
        let error = open(&path).map(|_| ()).unwrap_err().to_string();
        assert!(error.ends_with("record 1 cannot be used: a record of owner 1"), "{error}");
    }
}
