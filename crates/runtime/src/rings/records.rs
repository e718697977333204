//! What a node sends to replicas of its host through the rings of its partitions, instead of TCP.
//!
//! IN, at the node: an encoded message and the replicas that it is for. OUT, at a replica: the messages that are for it, in
//! the order in which they were appended, but for those that it was too slow for. KEEPS: a replica says that it takes a ring
//! only while it follows it, in the life that it names and within its lease; a message that it misses is lost as links lose
//! messages, and the node sends again what is not acknowledged.

use super::{OPEN_AGAIN_AFTER, RingReader, Rings, now_ns, opened};
use crate::host::Host;
use crate::tcp::accept::BACKLOG_MAX;
use base::process::{Event, Process};
use base::{NodeId, PartitionId, codec};
use logring::{Mapping, Next, Reader};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Size of a ring, and of the longest record in it; a longer message goes over TCP.
pub(super) const RING_BYTES: u64 = 4 << 20;
pub(super) const RECORD_BYTES_MAX: u64 = 512 << 10;
/// A reader looks this often whether the lease is over, or whether it is to end.
const WAIT: Duration = Duration::from_millis(100);
/// A replica that was too slow for the ring gets messages over TCP for so long.
const LAPPED_FOR: Duration = Duration::from_secs(1);

impl Rings {
    /// Whose life appends to a partition's ring; `None`: no replica can follow it.
    pub fn life(&self, partition: PartitionId) -> Option<u64> {
        self.lent.get(&partition).map(|lent| lent.incarnation()).filter(|life| *life != 0)
    }

    /// Appends an encoded message for these replicas. False: it has to be sent, for it is too long.
    pub fn append(&self, partition: PartitionId, to: &[NodeId], message: &[u8]) -> bool {
        let Some(lent) = self.lent.get(&partition) else { return false };
        let Some(record) = addressed(to, message) else { return false };
        let is_appended = lent.append(&record);
        if is_appended {
            wake(lent.announced());
        }
        is_appended
    }
}

/// A record: how many replicas it is for, their numbers, the message.
fn addressed(to: &[NodeId], message: &[u8]) -> Option<Vec<u8>> {
    let mut record = vec![u8::try_from(to.len()).ok()?];
    record.extend(to.iter().flat_map(|node| node.0.to_le_bytes()));
    record.extend_from_slice(message);
    Some(record)
}

/// The message in a record; `None`: it is for others.
fn message_for(me: NodeId, record: &[u8]) -> Option<&[u8]> {
    let (count, rest) = record.split_first()?;
    let (to, message) = rest.split_at_checked(2 * usize::from(*count))?;
    let me = me.0.to_le_bytes();
    to.chunks_exact(2).any(|to| *to == me).then_some(message)
}

/// Threads that follow the rings of partitions, one each. They end when this is dropped.
pub struct Following {
    ends: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Drop for Following {
    fn drop(&mut self) {
        self.ends.store(true, Relaxed);
        // One that has failed has said why.
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

impl RingReader {
    /// Hands a replica what its region's node appends for it, until what is answered is dropped. Errors: the system starts no
    /// thread.
    pub fn follow<P: Process + Send + 'static>(
        self: &Arc<Self>,
        partitions: impl Iterator<Item = PartitionId>,
        host: &Arc<Host<P>>,
    ) -> io::Result<Following> {
        let (me, from, host) = (host.id(), self.of.node, host.clone());
        self.follow_with(partitions, me, move |message| match codec::decode::<P::Message>(message) {
            // Lost: a node that is behind hears later what it does not acknowledge now.
            Ok(_) if host.backlog() > BACKLOG_MAX => {}
            Ok(message) => host.deliver(host.now(), Event::Message { from, message }),
            Err(error) => tracing::error!("a message in the log ring cannot be read: {error}"),
        })
    }

    fn follow_with(
        self: &Arc<Self>,
        partitions: impl Iterator<Item = PartitionId>,
        me: NodeId,
        deliver: impl Fn(&[u8]) + Clone + Send + 'static,
    ) -> io::Result<Following> {
        let mut following = Following { ends: Arc::default(), threads: Vec::new() };
        for partition in partitions {
            let (rings, ends, deliver) = (self.clone(), following.ends.clone(), deliver.clone());
            let thread = std::thread::Builder::new().name(format!("ring-{}", partition.0));
            let thread = thread.stack_size(crate::STACK_BYTES);
            following.threads.push(thread.spawn(move || rings.follow_one(partition, me, &ends, &deliver))?);
        }
        Ok(following)
    }

    fn follow_one(&self, partition: PartitionId, me: NodeId, ends: &AtomicBool, deliver: &dyn Fn(&[u8])) {
        let (mut reader, mut record, mut takes_from) = (None, Vec::new(), Instant::now());
        while !ends.load(Relaxed) {
            match self.follow_on(partition, &mut reader, &mut record) {
                Ok(Next::Record(_)) => message_for(me, &record).into_iter().for_each(deliver),
                Ok(Next::Nothing) => {
                    if let Some(reader) = reader.as_ref().filter(|_| takes_from <= Instant::now()) {
                        self.takes(partition, Ok(reader.incarnation()));
                    }
                    if let Some(reader) = &reader {
                        wait(reader.awaited());
                    }
                }
                Ok(Next::Overrun) => {
                    self.takes(partition, Err("this replica was too slow for the ring"));
                    (reader, takes_from) = (None, Instant::now() + LAPPED_FOR);
                }
                Err(why) => {
                    self.takes(partition, Err(why.as_str()));
                    reader = None;
                    std::thread::sleep(OPEN_AGAIN_AFTER);
                }
            }
        }
        self.takes(partition, Err("the replica ends"));
    }

    /// The next record, of a ring that is opened first if need be. Errors: it cannot be followed.
    fn follow_on(
        &self,
        partition: PartitionId,
        reader: &mut Option<Reader<Mapping>>,
        record: &mut Vec<u8>,
    ) -> Result<Next, String> {
        let reader = match reader {
            Some(reader) => reader,
            None => {
                let mut new = opened(&self.of, partition)?;
                new.resume().map_err(|why| why.to_string())?;
                reader.insert(new)
            }
        };
        let next = reader.next(record).map_err(|why| why.to_string())?;
        if next == Next::Nothing {
            let now_ns = now_ns().ok_or("this system does not tell the time of leases")?;
            reader.tracker(now_ns).map_err(|why| why.to_string())?;
        }
        Ok(next)
    }

    /// The ring of a partition is followed in this life from now on; or is not, and why.
    fn takes(&self, partition: PartitionId, life: Result<u64, &str>) {
        let mut taken = self.taken.lock();
        match life {
            Ok(life) if taken.insert(partition, life) != Some(life) => {
                tracing::info!(%partition, "the log comes through the log ring");
            }
            Err(why) if taken.remove(&partition).is_some() => {
                tracing::info!(%partition, "the log comes over TCP: {why}");
            }
            Ok(_) | Err(_) => {}
        }
    }

    /// Which partitions' rings are followed, each in which life of the node.
    pub fn taken(&self) -> BTreeMap<PartitionId, u64> {
        self.taken.lock().clone()
    }
}

/// The half of a word that changes most: the system waits for 32 bits.
#[cfg(target_os = "linux")]
fn low_half(word: &AtomicU64) -> *mut u32 {
    word.as_ptr().cast::<u32>().wrapping_add(usize::from(cfg!(target_endian = "big")))
}

/// Waits until the word is another one, or for a while.
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "the standard library waits for words of its own process only")]
fn wait((word, seen): (&AtomicU64, u64)) {
    let longest = libc::timespec { tv_sec: 0, tv_nsec: WAIT.subsec_nanos().into() };
    // SAFETY: the system reads half of a word, which is mapped as long as it is borrowed, and a time; it writes nothing.
    let waited = unsafe {
        libc::syscall(libc::SYS_futex, low_half(word), libc::FUTEX_WAIT, seen as u32, &raw const longest)
    };
    let ordinary = [libc::EAGAIN, libc::EINTR, libc::ETIMEDOUT];
    if waited != 0 && !io::Error::last_os_error().raw_os_error().is_some_and(|code| ordinary.contains(&code))
    {
        std::thread::sleep(Duration::from_millis(1));
    }
}
#[cfg(not(target_os = "linux"))]
fn wait(_: (&AtomicU64, u64)) {
    std::thread::sleep(Duration::from_millis(1));
}

/// Wakes readers that wait for this word, in all processes.
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "the standard library wakes threads of its own process only")]
fn wake(word: &AtomicU64) {
    // SAFETY: the address names what others wait for; nothing is read or written there.
    unsafe { libc::syscall(libc::SYS_futex, low_half(word), libc::FUTEX_WAKE, i32::MAX) };
}
#[cfg(not(target_os = "linux"))]
fn wake(_: &AtomicU64) {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::data_dir::tests::Scratch;
    use crate::rings::RingsOf;
    use std::sync::mpsc;

    const PARTITION: PartitionId = PartitionId(1);
    const PATIENCE: Duration = Duration::from_secs(60);

    fn until(what: &str, is_so: impl Fn() -> bool) {
        let begin = Instant::now();
        while !is_so() {
            assert!(begin.elapsed() < PATIENCE, "{what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_replica_gets_what_is_for_it_and_says_which_life_it_follows() {
        let scratch = Scratch::new();
        let of = RingsOf { directory: scratch.0.join("ring"), cluster: "c".into(), node: NodeId(0) };
        let rings = Rings::create(&of, [PARTITION].into_iter()).unwrap();
        let begin = |rings: &Rings, life| {
            rings.memory()[&PARTITION].begin(life);
            rings.renew();
        };
        let reader = Arc::new(RingReader::new(of.clone()));
        let (sender, messages) = mpsc::channel();
        let me = NodeId(300);
        let deliver = move |message: &[u8]| sender.send(message.to_vec()).unwrap();
        let following = reader.follow_with([PARTITION].into_iter(), me, deliver).unwrap();
        assert_eq!(
            (reader.taken().len(), rings.life(PARTITION)),
            (0, None),
            "the node publishes nothing yet"
        );
        begin(&rings, 100);
        assert_eq!(rings.life(PARTITION), Some(100));
        let takes = |life| reader.taken().get(&PARTITION) == Some(&life);
        until("it follows", || {
            rings.renew();
            takes(100)
        });
        assert!(rings.append(PARTITION, &[NodeId(3), me], b"one"));
        assert!(rings.append(PARTITION, &[NodeId(3)], b"for another"));
        assert!(rings.append(PARTITION, &[me], b""));
        let next = || messages.recv_timeout(PATIENCE).unwrap();
        assert_eq!((next(), next()), (b"one".to_vec(), Vec::new()));
        assert!(!rings.append(PARTITION, &[me], &vec![0; RECORD_BYTES_MAX as usize + 1]), "too long");
        assert!(!rings.append(PartitionId(9), &[me], b"no ring"));

        // The lease ends, and goes on.
        rings.lent[&PARTITION].extend_lease(0);
        until("it does not follow a writer that may be gone", || reader.taken().is_empty());
        until("it follows again", || {
            rings.renew();
            takes(100)
        });
        rings.end();
        until("it does not follow a writer that ended", || reader.taken().is_empty());
        let rings = Rings::create(&of, [PARTITION].into_iter()).unwrap();
        begin(&rings, 200);
        until("it follows the next life", || {
            rings.renew();
            takes(200)
        });
        assert!(rings.append(PARTITION, &[me], b"two"));
        assert_eq!(next(), b"two".to_vec());
        drop(following);
        assert!(reader.taken().is_empty());
    }
}
