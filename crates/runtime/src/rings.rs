//! What a node's partitions publish, in files that processes of one host map (`docs/log-ring.md`): a replica in another
//! process looks up a cut and the last writers of what it reads, where it would have to ask.
//!
//! [`Rings`] makes the files, lends them to the node as memory and renews the lease; [`RingReader`] opens them in a
//! replica's process. The node's messages to such replicas go through the same files (`records`). KEEPS: files are void from the moment at which a process of the node takes them until that node
//! publishes, so no reader takes what a former life left; a reader that finds anything but what it expects (no file, another
//! owner, a lease that is over, another life than when it opened the file) finds nothing, and its caller asks.

mod records;

pub use records::Following;

use crate::disk_error::{DiskError, io};
use crate::files::make_directory;
use base::txn::Granule;
use base::{LogPosition, NodeId, PartitionId, Rank};
use logring::{Layout, Lent, Mapping, Reader, Refused};
use parking_lot::Mutex;
use reads::replica::published::Needs;
use reads::replica::tracker::{Memory, Sizes};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a process has published may be read so long after it ended without a word, by processes that have its files open. A
/// later life of the node answers nobody before: its files may be others.
pub const LEASE: Duration = Duration::from_millis(500);
const RENEW_EVERY: Duration = Duration::from_millis(100);
/// A file that cannot be read is looked at again after this.
const OPEN_AGAIN_AFTER: Duration = Duration::from_millis(50);
/// Locked by the process that writes the files.
const LOCK: &str = "lock";

/// Whose rings, and where.
#[derive(Clone, Debug)]
pub struct RingsOf {
    pub directory: PathBuf,
    pub cluster: String,
    /// The node that writes.
    pub node: NodeId,
}

impl RingsOf {
    fn path(&self, partition: PartitionId) -> PathBuf {
        self.directory.join(format!("partition-{}.ring", partition.0))
    }
    /// A file that was written before the machine was started again, or on another one, has another owner.
    fn owner(&self, partition: PartitionId, host: &str) -> u64 {
        base::hash::digest(&(self.cluster.as_str(), self.node, partition, host))
    }
}

/// The files of a node's partitions, at the process that runs the node.
#[derive(Debug)]
pub struct Rings {
    lent: BTreeMap<PartitionId, Arc<Lent>>,
    /// The files are this process's for as long as it is there; released when the process ends, however it does.
    lock: Mutex<Option<File>>,
}

impl Rings {
    /// Takes the directory, made if it is not there. Errors: another process or user may write there, or it cannot be
    /// written.
    pub fn create(of: &RingsOf, partitions: impl Iterator<Item = PartitionId>) -> Result<Rings, DiskError> {
        make_directory(&of.directory).map_err(io(&of.directory, "make"))?;
        let host = host(&of.directory)?;
        let path = of.directory.join(LOCK);
        let lock = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
        let lock = lock.map_err(io(&path, "open"))?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => DiskError::InUse { path: of.directory.clone() },
            TryLockError::Error(error) => io(&path, "lock")(error),
        })?;
        let layout = Layout::new(records::RING_BYTES, records::RECORD_BYTES_MAX, Sizes::default());
        let lent = partitions.map(|partition| {
            let path = of.path(partition);
            let lent = Lent::create(&path, layout, of.owner(partition, &host));
            lent.map(|lent| (partition, Arc::new(lent))).map_err(io(&path, "make"))
        });
        let rings = Rings { lent: lent.collect::<Result<_, DiskError>>()?, lock: Mutex::new(Some(lock)) };
        rings.renew();
        Ok(rings)
    }

    /// Where each partition is to publish.
    pub fn memory(&self) -> BTreeMap<PartitionId, Arc<dyn Memory>> {
        self.lent.iter().map(|(partition, lent)| (*partition, lent.clone() as Arc<dyn Memory>)).collect()
    }

    fn renew(&self) {
        let lock = self.lock.lock();
        let (Some(_), Some(now_ns)) = (&*lock, now_ns()) else { return };
        let until_ns = now_ns + LEASE.as_nanos() as u64;
        self.lent.values().for_each(|lent| lent.extend_lease(until_ns));
    }
    /// Renews the lease for as long as this is awaited.
    pub async fn keep(self: Arc<Self>) {
        loop {
            self.renew();
            tokio::time::sleep(RENEW_EVERY).await;
        }
    }
    /// The node publishes no more: no later life has to wait for the end of the lease, and it may take the directory.
    pub fn end(&self) {
        let mut lock = self.lock.lock();
        self.lent.values().for_each(|lent| lent.void());
        *lock = None;
    }
}

/// The same files, at a replica's process.
pub struct RingReader {
    of: RingsOf,
    places: Mutex<BTreeMap<PartitionId, Place>>,
    /// Rings whose records are followed, each in which life of the node.
    taken: Mutex<BTreeMap<PartitionId, u64>>,
}

/// A partition's file.
#[derive(Default)]
struct Place {
    reader: Option<Reader<Mapping>>,
    opened_at: Option<Instant>,
    /// Whether it was read the last time, or why not, as it was logged.
    logged: Option<Result<(), String>>,
}

impl RingReader {
    pub fn new(of: RingsOf) -> RingReader {
        RingReader { of, places: Mutex::default(), taken: Mutex::default() }
    }

    /// A cut, for each of these granules the last record at or before it that may have written there, and the life of the
    /// node that has published it. The reads that ask have arrived before. `None`: the node has to be asked.
    pub fn fetch(
        &self,
        partition: PartitionId,
        needs: Needs,
        watched: &[&Granule],
    ) -> Option<(u64, Rank, Vec<LogPosition>)> {
        let mut places = self.places.lock();
        let place = places.entry(partition).or_default();
        if place.reader.is_none() {
            place.open(&self.of, partition);
        }
        let reader = place.reader.as_ref()?;
        match reader.fetch(now_ns()?, needs, watched.iter().copied()) {
            Ok(found) => {
                let life = reader.incarnation();
                place.log(partition, Ok(()));
                found.map(|(at, positions)| (life, at, positions))
            }
            Err(why) => {
                place.reader = None;
                place.log(partition, Err(why.to_string()));
                None
            }
        }
    }
}

impl Place {
    /// Opens the file, unless that was tried just now.
    fn open(&mut self, of: &RingsOf, partition: PartitionId) {
        if self.opened_at.is_some_and(|at| at.elapsed() < OPEN_AGAIN_AFTER) {
            return;
        }
        self.opened_at = Some(Instant::now());
        match opened(of, partition) {
            Ok(reader) => self.reader = Some(reader),
            Err(why) => self.log(partition, Err(why)),
        }
    }

    /// Says what has changed, and says it once.
    fn log(&mut self, partition: PartitionId, is_read: Result<(), String>) {
        if self.logged.as_ref() == Some(&is_read) {
            return;
        }
        match &is_read {
            Ok(()) => tracing::info!(%partition, "strong reads look their cuts up in the log ring"),
            Err(why) => {
                tracing::info!(%partition, "strong reads ask the region's node for their cuts: {why}");
            }
        }
        self.logged = Some(is_read);
    }
}

fn opened(of: &RingsOf, partition: PartitionId) -> Result<Reader<Mapping>, String> {
    let host = host(&of.directory).map_err(|error| error.to_string())?;
    let path = of.path(partition);
    let mapping = Mapping::open(&path).map_err(|error| io(&path, "open")(error).to_string())?;
    let open = || -> Result<Reader<Mapping>, Refused> {
        let reader = Reader::open(mapping)?;
        reader.check_owner(of.owner(partition, &host))?;
        Ok(reader)
    };
    open().map_err(|why| format!("{}: {why}", path.display()))
}

/// Tells this host, since it was started, from all others. Errors: other users may write in the directory, and what is read
/// there is believed.
#[cfg(target_os = "linux")]
fn host(directory: &Path) -> Result<String, DiskError> {
    use std::os::unix::fs::MetadataExt;
    /// Belongs to the user of the process.
    const SELF: &str = "/proc/self";
    /// Drawn when the machine starts.
    const BOOT: &str = "/proc/sys/kernel/random/boot_id";
    let about = |path: &Path| std::fs::metadata(path).map_err(io(path, "look at"));
    let (found, me) = (about(directory)?, about(Path::new(SELF))?.uid());
    if found.mode() & 0o002 != 0 || found.uid() != me && found.uid() != 0 {
        let why =
            "can be written by other users; choose a directory that belongs to the server's user".into();
        return Err(DiskError::Foreign { path: directory.to_path_buf(), why });
    }
    std::fs::read_to_string(BOOT).map_err(io(Path::new(BOOT), "read"))
}
#[cfg(not(target_os = "linux"))]
fn host(directory: &Path) -> Result<String, DiskError> {
    let why = "log rings need Linux, whose processes share a clock that never runs backwards".into();
    Err(DiskError::Foreign { path: directory.to_path_buf(), why })
}

/// Of the clock that all processes of this host read, which never runs backwards.
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "the standard library tells differences of this clock only")]
fn now_ns() -> Option<u64> {
    let mut now = std::mem::MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: the call fills the reading in when it answers 0, and it is read only then.
    let now = unsafe {
        if libc::clock_gettime(libc::CLOCK_MONOTONIC, now.as_mut_ptr()) != 0 {
            return None;
        }
        now.assume_init()
    };
    Some(now.tv_sec as u64 * base::time::SECOND + now.tv_nsec as u64)
}
#[cfg(not(target_os = "linux"))]
fn now_ns() -> Option<u64> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::data_dir::tests::Scratch;
    use base::{Datum, Key, TableId};
    use reads::replica::published::Published;

    const PARTITION: PartitionId = PartitionId(2);
    const TABLE: TableId = TableId(7);
    const STRONG: Needs = Needs { at: Rank(u64::MAX), least: Rank(0) };

    /// A node in its `life`, whose log ends at `end` and which has closed `closed`.
    fn publish(rings: &Rings, life: u64, end: u64, closed: u64) -> Published {
        let memory = rings.memory().remove(&PARTITION).expect("it was made");
        let mut published = Published::lent(memory.clone(), Sizes::default(), LogPosition(end));
        memory.begin(life);
        published.close(Rank(closed));
        published
    }

    fn fetch(reader: &RingReader) -> Option<(u64, Rank, Vec<LogPosition>)> {
        let granule = Granule::Key(TABLE, Key::of(&[Datum::Int(1)]));
        reader.fetch(PARTITION, STRONG, &[&granule])
    }

    /// A reader that has just found nothing looks again after a while.
    fn fetch_again(reader: &RingReader) -> Option<(u64, Rank, Vec<LogPosition>)> {
        std::thread::sleep(OPEN_AGAIN_AFTER);
        fetch(reader)
    }

    #[test]
    fn what_a_node_publishes_is_found_until_its_lease_or_its_life_ends() {
        let scratch = Scratch::new();
        let of = RingsOf { directory: scratch.0.join("ring"), cluster: "c".into(), node: NodeId(0) };
        let reader = RingReader::new(of.clone());
        assert_eq!(fetch(&reader), None, "there is no file");
        let rings = Rings::create(&of, [PARTITION].into_iter()).unwrap();
        assert!(matches!(Rings::create(&of, [PARTITION].into_iter()), Err(DiskError::InUse { .. })));
        assert_eq!(fetch_again(&reader), None, "the node publishes nothing yet");
        let mut published = publish(&rings, 100, 40, 50);
        rings.renew();
        assert_eq!(fetch_again(&reader), Some((100, Rank(50), vec![LogPosition(40)])));
        // What the writer does is seen without opening anything again.
        published.tracker_mut().modified(TABLE, &Key::of(&[Datum::Int(1)]), LogPosition(41));
        published.tracker_mut().publish(LogPosition(41));
        published.executed(Rank(60));
        assert_eq!(fetch(&reader), None, "a transaction above the closed rank may have been answered");
        published.close(Rank(61));
        rings.renew();
        assert_eq!(fetch(&reader), Some((100, Rank(61), vec![LogPosition(41)])));

        rings.lent[&PARTITION].extend_lease(0);
        assert_eq!(fetch(&reader), None, "the lease is over");
        rings.renew();
        assert_eq!(fetch_again(&reader), Some((100, Rank(61), vec![LogPosition(41)])));

        // The node ends, and another life of it takes the files.
        drop(rings);
        let rings = Rings::create(&of, [PARTITION].into_iter()).unwrap();
        assert_eq!(fetch(&reader), None, "nobody has published");
        publish(&rings, 200, 90, 95);
        rings.renew();
        assert_eq!(fetch_again(&reader), Some((200, Rank(95), vec![LogPosition(90)])));
        rings.end();
        assert_eq!(fetch(&reader), None, "the node ended");

        let rings =
            Rings::create(&of, [PARTITION].into_iter()).expect("it is free, though the first is still there");
        publish(&rings, 300, 90, 95);
        assert!(fetch_again(&reader).is_some());
        let another = RingReader::new(RingsOf { cluster: "d".into(), ..of });
        assert_eq!(fetch(&another), None, "another cluster's files");
    }

    #[test]
    fn a_directory_in_which_others_may_write_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let scratch = Scratch::new();
        let of = RingsOf { directory: scratch.0.clone(), cluster: "c".into(), node: NodeId(0) };
        std::fs::set_permissions(&scratch.0, std::fs::Permissions::from_mode(0o777)).unwrap();
        let refused = Rings::create(&of, [PARTITION].into_iter()).unwrap_err().to_string();
        assert!(refused.contains("can be written by other users"), "{refused}");
        std::fs::set_permissions(&scratch.0, std::fs::Permissions::from_mode(0o700)).unwrap();
        Rings::create(&of, [PARTITION].into_iter()).unwrap();
    }
}
