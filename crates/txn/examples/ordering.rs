//! How many single-partition transactions one core orders: `cargo run --release -p txn --example ordering`.
//!
//! One node, four partitions, rows that do nothing: what is measured is the conflict index, the graph,
//! ranks, answers, the stream and collection. Virtual time passes at 20,000 transactions per second, so
//! that collection has its usual share.

use base::key::KeyRange;
use base::rng::Rng;
use base::time::{SECOND, US};
use base::topology::Topology;
use base::txn::{
    AccessMode, AccessSet, Gathered, Granule, StatementResult, Submission, Transaction, TxnProgram,
};
use base::wan::Wan;
use base::{Datum, Key, NodeId, PartitionId, Place, TableId, Time, Token};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;
use txn::engine::{Applied, Engine, EngineEffect, Executor};
use txn::perseus::{Options, Perseus};

const COUNT: usize = 100_000;

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

fn key(values: &[u64]) -> Key {
    let mut key = Key::new();
    values.iter().for_each(|v| key.push_int(i128::from(*v)));
    key
}

/// Twenty keys of one partition, half of them written.
fn twenty_keys(rng: &mut Rng) -> AccessSet {
    let partition = PartitionId(rng.below(4) as u16);
    let mut access = AccessSet::default();
    for n in 0..20 {
        let mode = if n % 2 == 0 { AccessMode::Read } else { AccessMode::Write };
        access.add(partition, Granule::Key(TableId(1), key(&[rng.below(100_000)])), mode);
    }
    access.normalize();
    access
}

/// What TPC-C's NewOrder declares: keys and, for what it inserts, key prefixes.
fn new_order(rng: &mut Rng) -> AccessSet {
    let w = rng.below(40);
    let partition = PartitionId((w % 4) as u16);
    let d = rng.below(10);
    let mut access = AccessSet::default();
    let mut add = |table, granule: &dyn Fn(TableId) -> Granule, mode| {
        access.add(partition, granule(TableId(table)), mode);
    };
    add(1, &|t| Granule::Key(t, key(&[w])), AccessMode::Read);
    add(2, &|t| Granule::Key(t, key(&[w, d])), AccessMode::Write);
    let c = rng.below(3000);
    add(3, &|t| Granule::Key(t, key(&[w, d, c])), AccessMode::Read);
    for table in [4, 5, 6] {
        add(table, &|t| Granule::Range(t, KeyRange::prefix(key(&[w, d]))), AccessMode::Write);
    }
    for _ in 0..10 {
        let item = rng.below(100_000);
        add(7, &|t| Granule::Key(t, key(&[item])), AccessMode::Read);
        add(8, &|t| Granule::Key(t, key(&[w, item])), AccessMode::Write);
    }
    access.normalize();
    access
}

fn measure(name: &str, draw: fn(&mut Rng) -> AccessSet) {
    let topology = Arc::new(Topology::one_node_per_region(Wan::preset("local").unwrap().truncated(1), 4));
    let mut engine = Perseus::new(topology, NodeId(0), 1, Options::default());
    let mut rng = Rng::new(1).fork(name);
    let program = Arc::new(TxnProgram::Procedure { name: "nothing".into(), args: vec![Datum::Int(1)] });
    let accesses: Vec<Arc<AccessSet>> = (0..COUNT).map(|_| Arc::new(draw(&mut rng))).collect();
    let mut out = Vec::new();
    let mut now = Time(SECOND);
    engine.start(now, &mut out);
    let (mut answers, mut items, mut vertices_max) = (0u64, 0u64, 0);
    let start = Instant::now();
    for access in accesses {
        now = now + 50 * US;
        let submission = Submission {
            program: program.clone(),
            access,
            token: Token::default(),
            request: None,
            isolation: Default::default(),
        };
        engine.submit(now, submission, &mut Nothing, &mut out);
        if engine.next_wake().is_some_and(|at| at <= now) {
            engine.wake(now, &mut Nothing, &mut out);
            vertices_max = vertices_max.max(engine.vertex_count());
        }
        for effect in out.drain(..) {
            match effect {
                EngineEffect::Answer(_) => answers += 1,
                EngineEffect::Stream { .. } => items += 1,
                _ => {}
            }
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{name:12} {:>9.0} transactions/s, {:.2} µs each; {answers} answers, {items} stream items, \
         at most {vertices_max} vertices",
        COUNT as f64 / seconds,
        seconds * 1e6 / COUNT as f64
    );
}

fn main() {
    measure("20 keys", twenty_keys);
    measure("NewOrder", new_order);
}
