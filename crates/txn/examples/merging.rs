//! How many transactions one core merges: `cargo run --release -p txn --example merging`.
//!
//! A replica that orders nothing itself gets three partial sequences in batches, two keys per transaction
//! out of 100,000 a sequence, a tenth of the transactions in two sequences, rows that do nothing. What is
//! measured: decoding apart, everything a replica does for a transaction that others ordered: conflict
//! index, graph, ranks, scheduling, the stream, forgetting. Allocations are counted in the same loop.

use base::order::Close;
use base::rng::Rng;
use base::time::{MS, SECOND};
use base::topology::Topology;
use base::txn::{AccessMode, AccessSet, Gathered, Granule, StatementResult, Transaction, TxnProgram};
use base::wan::Wan;
use base::{Datum, Key, NodeId, PartitionId, Place, Rank, TableId, Time, TxnId};
use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use txn::caerus::message::{Append, Entry, SequenceId};
use txn::caerus::{Caerus, Message, Options};
use txn::engine::{Applied, Engine, EngineEffect, Executor, Question};
use txn::log;

const COUNT: u64 = 600_000;
const BATCH: usize = 200;
const SEQUENCES: u16 = 3;

struct Counting;
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: hands everything to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Nothing;

impl Executor for Nothing {
    fn gather(&mut self, _: PartitionId, _: &Transaction) -> Gathered {
        Gathered::Values(Vec::new())
    }
    fn apply(
        &mut self,
        _: PartitionId,
        _: &Transaction,
        _: Place,
        _: &BTreeMap<PartitionId, Gathered>,
    ) -> Applied {
        Applied { results: vec![StatementResult::default()], ..Applied::default() }
    }
}

/// A transaction and the sequences it is in.
fn draw(rng: &mut Rng, sequence: u64, program: &Arc<TxnProgram>) -> (Transaction, Vec<u16>) {
    let home = (sequence % u64::from(SEQUENCES)) as u16;
    let other = if rng.chance(0.1) { (home + 1) % SEQUENCES } else { home };
    let mut access = AccessSet::default();
    for (partition, mode) in [(home, AccessMode::Write), (other, AccessMode::Read)] {
        let mut key = Key::new();
        key.push_int(i128::from(rng.below(100_000)));
        access.add(PartitionId(partition), Granule::Key(TableId(1), key), mode);
    }
    access.normalize();
    let regions: Vec<u16> = access.by_partition.keys().map(|p| p.0).collect();
    let id = TxnId { coordinator: NodeId(home), incarnation: 1, sequence };
    let (min_rank, after) = (Rank::ZERO, Rank::ZERO);
    (
        Transaction { id, program: program.clone(), access: Arc::new(access), min_rank, after, homes: None },
        regions,
    )
}

fn main() {
    let names = ["a", "b", "c", "d"];
    let mut topology = Topology::one_node_per_region(Wan::uniform("local", &names, MS, MS), 1);
    topology.partitions.truncate(SEQUENCES as usize);
    topology.nodes.iter_mut().for_each(|node| node.subscribes.truncate(SEQUENCES as usize));
    let mut topology = topology.replicated();
    topology.partitions.iter_mut().for_each(|partition| partition.copies.push(NodeId(SEQUENCES)));
    let mut engine = Caerus::new(Arc::new(topology), NodeId(SEQUENCES), 1, Options::default());

    let mut rng = Rng::new(1);
    let program = Arc::new(TxnProgram::Procedure { name: "nothing".into(), args: vec![Datum::Int(1)] });
    let mut batches: Vec<Vec<Entry>> = vec![Vec::new(); SEQUENCES as usize];
    let mut first = [0u64; SEQUENCES as usize];
    let (mut merging, mut allocations, mut executed, mut vertices_max) = (0f64, 0, 0u64, 0);
    let mut now = Time(SECOND);
    let mut out = Vec::new();
    engine.start(now, &mut out);
    out.clear();
    for sequence in 0..COUNT {
        let (transaction, regions) = draw(&mut rng, sequence, &program);
        for region in regions {
            let stamp = Rank(now.0 + sequence % 1000);
            batches[region as usize].push(Entry {
                transaction: transaction.clone(),
                stamp,
                collected: Rank::ZERO,
                request: None,
            });
        }
        if batches.iter().all(|batch| batch.len() < BATCH) {
            continue;
        }
        // A batch a millisecond: what is ordered now is stamped in the next one.
        let (start, before) = (Instant::now(), ALLOCATIONS.load(Ordering::Relaxed));
        for (region, batch) in batches.iter_mut().enumerate() {
            let entries = std::mem::take(batch);
            let (index, closed) = (first[region], Rank(now.0 + 1000));
            first[region] += entries.len() as u64;
            let (sequence, collected) = (SequenceId(region as u16), Rank::ZERO);
            let term = u64::from(sequence.0);
            let said =
                log::Append { term, first: index, entries, closed, collected, ..log::Append::default() };
            let said = log::Append { sent_at: now, ..said };
            let message = Message::Append(Append { sequence, said, ..Append::default() });
            engine.message(now, NodeId(region as u16), message, &mut Nothing, &mut out);
        }
        now = now + MS;
        engine.wake(now, &mut Nothing, &mut out);
        for effect in out.drain(..) {
            executed += u64::from(matches!(effect, EngineEffect::Stream { .. }));
        }
        merging += start.elapsed().as_secs_f64();
        allocations += ALLOCATIONS.load(Ordering::Relaxed) - before;
        vertices_max = vertices_max.max(engine.vertex_count());
    }
    println!(
        "{:.0} transactions/s on one core, {:.2} µs each, {:.1} allocations each; \
         {executed} executions, at most {vertices_max} vertices",
        COUNT as f64 / merging,
        merging * 1e6 / COUNT as f64,
        allocations as f64 / COUNT as f64
    );
    let close = Close { partition: PartitionId(0), rank: Rank(SECOND), granules: vec![Granule::Partition] };
    let question = Question::Close { ticket: base::order::CloseTicket(1), close };
    engine.ask(now, question, &mut Nothing, &mut out).expect("it is asked what it answers");
    assert!(
        matches!(out.last(), Some(EngineEffect::Answered { result: Ok(_), .. })),
        "everything was merged"
    );
}
