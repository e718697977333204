//! A disk of some bytes under a node that records: it goes on with the reserve, and as before once there is room.

use super::*;
use crate::data_dir::tests::Scratch;
use crate::files::Files;
use crate::host::Host;
use crate::local::LocalCluster;
use crate::record_log::{OpenDisk, RecordLog, Recovered};
use base::cut::Incarnation;
use base::process::{
    CheckpointBlock, CheckpointEnded, Effects, Event, Process, Record, Recorded, Unreadable,
};
use base::topology::Topology;
use base::wan::Wan;
use base::{NodeId, Time};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Real files that may grow by so many bytes.
struct Small {
    files: Files,
    room: Arc<AtomicU64>,
}

impl Disk for Small {
    fn list(&mut self, directory: &str) -> Result<Vec<String>, Failed> {
        self.files.list(directory)
    }
    fn length(&mut self, path: &str) -> Result<Option<u64>, Failed> {
        self.files.length(path)
    }
    fn read(&mut self, path: &str, at: u64, bytes: usize) -> Result<Vec<u8>, Failed> {
        self.files.read(path, at, bytes)
    }
    fn perform(&mut self, op: &Op) -> Result<(), Failed> {
        if let Op::Write { path, at, bytes } = op {
            let known = self.files.length(path)?.unwrap_or(0);
            let grows = (at + bytes.len() as u64).saturating_sub(known);
            let taken = self.room.fetch_update(Relaxed, Relaxed, |room| room.checked_sub(grows));
            if taken.is_err() {
                // A part of it gets there.
                let part = bytes[..bytes.len() / 2].to_vec();
                self.files.perform(&Op::Write { path: path.clone(), at: *at, bytes: part })?;
                return Err(Failed { doing: "write", path: path.clone(), why: Failure::Full });
            }
        }
        self.files.perform(op)
    }
}

/// Keeps the requests that it was asked to record.
#[derive(Default)]
struct Keeper {
    kept: Vec<u64>,
    copied: Option<Vec<u64>>,
    checkpoints_ended: u32,
}

impl Process for Keeper {
    type Message = ();
    type Timer = ();
    type Request = u64;
    type Reply = usize;
    type Computed = ();
    fn step(&mut self, _: Time, event: Event<Self>, out: &mut Effects<Self>) {
        if let Event::Request { id, request } = event {
            // 0 only reads.
            if request > 0 {
                self.kept.push(request);
                let mut payload = request.to_le_bytes().to_vec();
                payload.resize(1_000, 7);
                out.record(Record { owner: 1, kind: 1, version: 1, payload });
            }
            out.reply(id, self.kept.len());
        }
    }
}

impl Recorded for Keeper {
    fn begin_checkpoint(&mut self) {
        self.copied = Some(self.kept.clone());
    }
    fn next_block(&mut self) -> Result<Option<CheckpointBlock>, CheckpointEnded> {
        let bytes = |kept: Vec<u64>| kept.iter().flat_map(|n| n.to_le_bytes()).collect();
        Ok(self.copied.take().map(|kept| CheckpointBlock::State(bytes(kept))))
    }
    fn end_checkpoint(&mut self) {
        self.checkpoints_ended += 1;
    }
    fn restore(&mut self, block: CheckpointBlock) -> Result<(), Unreadable> {
        let CheckpointBlock::State(bytes) = block else { panic!("it has no rows") };
        self.kept = bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
        Ok(())
    }
    fn replay(&mut self, record: Record) -> Result<(), Unreadable> {
        self.kept.push(u64::from_le_bytes(record.payload[..8].try_into().unwrap()));
        Ok(())
    }
    fn recovered(&mut self) -> Result<Time, Unreadable> {
        Ok(Time::ZERO)
    }
}

fn open(scratch: &Scratch, left: &Arc<AtomicU64>, checkpoint_bytes: u64) -> Recovered<Keeper> {
    let directory = scratch.0.join("node-0");
    let (root, left) = (directory.clone(), left.clone());
    let open_disk: OpenDisk =
        Box::new(move || Ok(Box::new(Small { files: Files::open(&root)?, room: left.clone() })));
    let room = Arc::new(Room::open(&scratch.0, 4_096).unwrap());
    let made = Incarnation(5);
    RecordLog::open_on(open_disk, &directory, room, NodeId(0), made, checkpoint_bytes, |_| Keeper::default())
        .unwrap()
}

fn start(recovered: Recovered<Keeper>) -> LocalCluster<Keeper> {
    let topology = Topology::one_node_per_region(Wan::uniform("t", &["a"], 1, 1), 1);
    LocalCluster::start_with_records(Arc::new(topology), vec![recovered])
}

async fn until(host: &Host<Keeper>, what: impl Fn(&Host<Keeper>) -> bool) {
    let begin = Instant::now();
    while !what(host) {
        assert!(begin.elapsed() < Duration::from_secs(20), "it happens");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn a_full_disk_holds_up_what_is_recorded_and_nothing_that_was_answered_is_lost() {
    let (scratch, left) = (Scratch::new(), Arc::new(AtomicU64::new(20_000)));
    let cluster = start(open(&scratch, &left, 1 << 30));
    let host = cluster.host(NodeId(0)).clone();
    assert!(scratch.0.join(RESERVE).exists() && host.full_disk().is_none());
    let writer = host.clone();
    let writing = tokio::spawn(async move {
        for request in 1..=40 {
            writer.request(request).await.unwrap();
        }
    });
    until(&host, |host| host.full_disk().is_some()).await;
    assert!(!scratch.0.join(RESERVE).exists(), "the reserve is let go of first");
    assert_eq!(host.full_disk().unwrap().directory(), &*scratch.0);
    // A read waits for nobody, the write that found no room does.
    let count = host.request(0).await.unwrap();
    assert!((15..25).contains(&count) && !writing.is_finished(), "{count}");
    left.store(1 << 20, Relaxed);
    writing.await.unwrap();
    until(&host, |host| host.full_disk().is_none()).await;
    assert_eq!(std::fs::metadata(scratch.0.join(RESERVE)).unwrap().len(), 4_096);
    assert!(!host.is_gone());
    drop((cluster, host));
    assert_eq!(open(&scratch, &left, 1 << 30).process.kept, (1..=40).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_node_whose_full_disk_never_has_room_again_ends_and_comes_back() {
    let (scratch, left) = (Scratch::new(), Arc::new(AtomicU64::new(5_000)));
    let cluster = start(open(&scratch, &left, 1 << 30));
    let host = cluster.host(NodeId(0)).clone();
    let mut answered = 0;
    while let Ok(reply) = tokio::time::timeout(Duration::from_millis(300), host.request(answered + 1)).await {
        reply.unwrap();
        answered += 1;
    }
    assert!(answered >= 3 && host.full_disk().is_some());
    drop((cluster, host));
    left.store(1 << 20, Relaxed);
    // What was cut short may not be there, and what was answered is.
    let kept = open(&scratch, &left, 1 << 30).process.kept;
    assert_eq!(kept, (1..=answered).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_checkpoint_that_finds_no_room_is_given_up_and_the_node_goes_on() {
    let (scratch, left) = (Scratch::new(), Arc::new(AtomicU64::new(1 << 20)));
    let recovered = open(&scratch, &left, 1 << 30);
    let cluster = start(recovered);
    for request in 1..=300 {
        cluster.host(NodeId(0)).request(request).await.unwrap();
    }
    drop(cluster);
    left.store(2_300, Relaxed);
    // The checkpoint needs 2,408 bytes and a manifest; the log goes on with what it leaves.
    let cluster = start(open(&scratch, &left, 100_000));
    let host = cluster.host(NodeId(0)).clone();
    until(&host, |host| host.inspect(|node| node.checkpoints_ended) >= 2).await;
    assert_eq!(host.request(301).await, Ok(301));
    assert!(!host.is_gone() && host.full_disk().is_none());
    assert_eq!(std::fs::read_dir(scratch.0.join("node-0/checkpoint")).unwrap().count(), 0);
}

#[test]
fn a_full_disk_at_the_start_takes_the_reserve() {
    let scratch = Scratch::new();
    let room = Room::open(&scratch.0, 4_096).unwrap();
    assert!(!room.is_full());
    assert!(room.found_full() && room.is_full());
    assert!(!room.found_full(), "there was one reserve");
    room.look();
    assert!(room.is_full(), "it was tried just now");
    *room.tried_at.lock() = None;
    room.look();
    assert!(!room.is_full() && scratch.0.join(RESERVE).exists());
}
