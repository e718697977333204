//! A node that comes back with what its directory holds, and when checkpoints are written.

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
    /// What a checkpoint has beside the sum.
    padding_bytes: usize,
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
        let padded = |sum: u64| [&sum.to_le_bytes()[..], &vec![0; self.padding_bytes]].concat();
        let block = self.copied.take().map(|sum| CheckpointBlock::State(padded(sum)));
        // Every other one is given up.
        if block.is_none() && self.checkpoints % 2 == 1 { Err(CheckpointEnded) } else { Ok(block) }
    }
    fn end_checkpoint(&mut self) {}
    fn restore(&mut self, block: CheckpointBlock) -> Result<(), Unreadable> {
        let CheckpointBlock::State(bytes) = block else { panic!("it has no rows") };
        self.sum = u64::from_le_bytes(bytes[..8].try_into().unwrap());
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
    open_padded(path, 0)
}
fn open_padded(path: &Path, padding_bytes: usize) -> Result<Recovered<Sum>, DiskError> {
    let make = |life| Sum { life, sum: 0, clock: Time::ZERO, copied: None, checkpoints: 0, padding_bytes };
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

#[test]
fn a_checkpoint_is_due_after_a_quarter_of_the_last_one_and_at_least_what_is_configured() {
    assert_eq!(due_after_bytes(64, 0), 64, "there is none yet");
    assert_eq!(due_after_bytes(64, 256), 64);
    assert_eq!(due_after_bytes(64, 4_000), 1_000);
}

#[tokio::test]
async fn a_large_checkpoint_is_not_written_again_after_little_log() {
    let scratch = Scratch::new();
    let path = scratch.0.join("node-0");
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    // A record has 16 bytes: the first checkpoint is due after 2,000, the next one after 10,000.
    let cluster = start(open_padded(&path, 40_000).unwrap());
    let begun = |cluster: &LocalCluster<Sum>| cluster.host(NodeId(0)).inspect(|node| node.checkpoints);
    for _ in 0..150 {
        cluster.host(NodeId(0)).request(1).await.unwrap();
    }
    let is_complete = || (1..=2).any(|number| path.join(durability::paths::manifest(number)).exists());
    // The first one is given up.
    while !(begun(&cluster) == 2 && is_complete()) {
        assert!(std::time::Instant::now() < deadline, "a checkpoint is written");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for _ in 0..300 {
        cluster.host(NodeId(0)).request(1).await.unwrap();
    }
    tokio::time::sleep(4 * LOOK_EVERY).await;
    assert_eq!(begun(&cluster), 2, "4,800 bytes of log are less than a quarter of it");
    drop(cluster);
    let recovered = open_padded(&path, 40_000).unwrap();
    assert_eq!(recovered.process.sum, 450);
    assert!((4_800..10_000).contains(&recovered.log.behind_bytes), "{}", recovered.log.behind_bytes);
    let cluster = start(recovered);
    tokio::time::sleep(4 * LOOK_EVERY).await;
    assert_eq!(begun(&cluster), 0, "a restart knows how large it is");
    while begun(&cluster) == 0 {
        assert!(std::time::Instant::now() < deadline, "10,000 bytes are a quarter");
        cluster.host(NodeId(0)).request(1).await.unwrap();
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
