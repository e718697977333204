//! `scc-*`: strong reads at read-only replicas (PolarDB-SCC §5), on real nodes: one that writes, and replicas of its rows,
//! in one data centre.
//!
//! Readers of a replica read a row by its key, and each tenth time 20 neighbouring rows; each in a closed loop that waits
//! for nothing but answers. Writers write rows that each of them shares with nobody, so a row's values count up, and a read
//! that shows less than what had been answered when it was asked is stale beyond doubt: every read is held against that.

mod client;
mod figures;
mod mixes;
mod session;
mod tatp;
mod tpcc;
mod trading;

pub use figures::{FIG8, FIG11, FIG13, FIG14, FIG15, FIG16, FIG17, TABLE1, TABLE2, TABLE3};
pub use mixes::{FIG9, FIG10, FIG12};

use crate::Line;
use crate::populate;
use base::rng::Rng;
use base::time::{MS, SECOND, US};
use base::topology::{NodeSpec, PartitionSpec, Topology};
use base::wan::Wan;
use base::{NodeId, PartitionId, RegionId, Time};
use client::{Reader, Seen, Shared, Writer};
use node::Node;
use reads::protocol::Baseline;
use reads::replica::ReadPolicy;
use reads::replica::tracker::Sizes;
use serde_json::{Value, json};
use sim::world::{Cost, Setup, Wire, World};
use std::rc::Rc;
use std::sync::Arc;
use txn::perseus::Perseus;
use workload::micro::{self, Micro};
use workload::table::Placement;

type Cluster = World<Node<Perseus>>;

const WRITER: NodeId = NodeId(0);
/// There and back, inside the data centre.
const ROUND_TRIP_NS: u64 = 200 * US;
const CLOCK_BOUND_NS: u64 = 100 * US;
/// What work costs a node, which does one thing at a time.
const COST: Cost = Cost {
    event_ns: 20 * US,
    kilobyte_ns: 3 * US,
    encode_kilobyte_ns: 4 * US,
    send_ns: 2 * US,
    send_kilobyte_ns: US / 10,
    load_ns: 3 * US,
    computation_ns: 5 * MS,
    cores: 8,
};
const KEYS: i64 = 20_000;

/// A way to read, under the name that its rows have.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    policy: ReadPolicy,
    /// One slot for everything: the tracker knows what was written last, and not where.
    global_only: bool,
}

const SCC: Way = Way { name: "scc", policy: ReadPolicy::Scc, global_only: false };
const SHARED: Way = Way { name: "read_wait + shared fetches", policy: ReadPolicy::Scc, global_only: true };
const READ_WAIT: Way = Way { name: "read_wait", policy: ReadPolicy::ReadWait, global_only: false };
const COMMIT_WAIT: Way = Way { name: "commit_wait", policy: ReadPolicy::CommitWait, global_only: false };
const PRIMARY: Way = Way { name: "primary", policy: ReadPolicy::Primary, global_only: false };
const STALE: Way = Way { name: "stale", policy: ReadPolicy::Stale { bound_ns: None }, global_only: false };

/// One point of a figure.
#[derive(Clone, Copy)]
struct Point {
    way: Way,
    replicas: u16,
    readers_each: u32,
    writers: u32,
    /// 0: uniform.
    skew: f64,
    /// Readers read what was written last, this long after it was answered; else whatever they draw.
    after_write_ns: Option<u64>,
    measured_ns: u64,
}

struct Measured {
    stale: u64,
    latencies_ns: Vec<u64>,
    write_latencies_ns: Vec<u64>,
    fetches: u64,
    measured_ns: u64,
}

fn topology(replicas: u16) -> Topology {
    let wan = Wan::uniform("one data centre", &["here"], ROUND_TRIP_NS, ROUND_TRIP_NS);
    let mut nodes = vec![NodeSpec { region: RegionId(0), subscribes: Vec::new() }];
    let replica = || NodeSpec { region: RegionId(0), subscribes: vec![PartitionId(0)] };
    nodes.extend((0..replicas).map(|_| replica()));
    let partitions = vec![PartitionSpec { region: RegionId(0), node: WRITER, copies: Vec::new() }];
    Topology { clock_bound_ns: CLOCK_BOUND_NS, ..Topology::of(wan, nodes, partitions) }
}

impl Point {
    fn of(way: Way) -> Point {
        Point {
            way,
            replicas: 1,
            readers_each: 64,
            writers: 16,
            skew: 0.0,
            after_write_ns: None,
            measured_ns: SECOND / 2,
        }
    }

    fn world(&self, seed: u64) -> Cluster {
        let topology = Arc::new(topology(self.replicas));
        let setup = Setup {
            cost: COST,
            wire: Wire::Measured,
            client_one_way_ns: 50 * US,
            ..Setup::calm((*topology).clone(), seed)
        };
        let one = Sizes { tables: 1, granules: 1 };
        let kept = node::Kept {
            columns: false,
            rows: true,
            policy: self.way.policy,
            patience_ns: SECOND,
            tracker: if self.way.global_only { one } else { Sizes { tables: 1 << 8, granules: 1 << 16 } },
            ..node::Kept::default()
        };
        let options = node::Options {
            kept,
            streaming: node::Streaming { flush_ns: MS, ack_ns: 5 * MS, low_interval_ns: 5 * MS },
            baseline: (self.way.policy == ReadPolicy::CommitWait).then_some(Baseline::SynchronousReplica),
            ..node::Options::default()
        };
        let procedures = Arc::new(workload::procedures());
        World::new(setup, move |id, life, _: &[Vec<u8>]| {
            let engine = Perseus::new(topology.clone(), id, life, txn::perseus::Options::default());
            Node::new(id, topology.clone(), procedures.clone(), engine, options.clone())
        })
    }

    /// The table and its rows, and what clients know of them.
    fn fill(&self, world: &mut Cluster, warm_up_ns: u64) -> Rc<Shared> {
        let topology = world.topology().clone();
        let change = populate::schema(std::iter::once(&micro::MICRO), &Placement::Hash, 1, &topology);
        let catalog = populate::create(world, change);
        let keys =
            Micro { homes: 1, keys_per_home: KEYS as u64, skew: 0.0, keys_per_transaction: 2, remote: 0.0 };
        populate::fill(world, &catalog, keys.rows().map(|values| (micro::MICRO.name, values)));
        let begin = world.now() + warm_up_ns;
        Rc::new(Shared::new(catalog, begin, begin + self.measured_ns))
    }

    fn add_writers(&self, world: &mut Cluster, shared: &Rc<Shared>, seed: u64) {
        let rng = Rng::new(seed).fork("scc");
        for nth in 0..self.writers {
            let rng = rng.fork_nth("writer", u64::from(nth));
            world.client(Writer::new(shared, (nth, self.writers), rng));
        }
    }

    fn add_readers(
        &self,
        world: &mut Cluster,
        shared: &Rc<Shared>,
        seed: u64,
        replica: u16,
        from: Option<Time>,
    ) {
        let rng = Rng::new(seed).fork("scc");
        for nth in 0..self.readers_each {
            let rng = rng.fork_nth("reader", u64::from(replica) << 32 | u64::from(nth));
            world.client(Reader::new(shared, NodeId(replica), self, rng, from));
        }
    }

    fn measure(&self, seed: u64, tell: &mut dyn FnMut(f64)) -> Measured {
        let mut world = self.world(seed);
        let shared = self.fill(&mut world, 50 * MS);
        self.add_writers(&mut world, &shared, seed);
        for replica in 1..=self.replicas {
            self.add_readers(&mut world, &shared, seed, replica, None);
        }
        let fetches = run_through(&mut world, (shared.begin, shared.until), tell);
        Measured::of(std::mem::take(&mut *shared.seen.borrow_mut()), fetches, self.measured_ns)
    }

    /// The row of a figure.
    fn row(&self, workload: &str, seed: u64, tell: &mut dyn FnMut(f64)) -> Line {
        let readers = self.readers_each * u32::from(self.replicas);
        self.measure(seed, tell).line(self.way.name, u64::from(self.replicas), workload, readers)
    }
}

/// Runs to the end of the window, and lets clients end; answers the questions that replicas asked within the window.
fn run_through(world: &mut Cluster, (begin, until): (Time, Time), tell: &mut dyn FnMut(f64)) -> u64 {
    world.run_until(begin);
    tell(0.2);
    let before = fetches(world);
    world.run_until(until);
    let asked = fetches(world) - before;
    world.run_to_rest(until + 10 * SECOND).unwrap_or_else(|stuck| panic!("{stuck}"));
    tell(1.0);
    asked
}

impl Measured {
    fn of(seen: Seen, fetches: u64, measured_ns: u64) -> Measured {
        let Seen { stale, latencies_ns, write_latencies_ns, .. } = seen;
        Measured { stale, latencies_ns, write_latencies_ns, fetches, measured_ns }
    }
    fn line(mut self, policy: &str, replicas: u64, workload: &str, readers: u32) -> Line {
        let mean = |samples: &[u64]| samples.iter().sum::<u64>() as f64 / samples.len().max(1) as f64 / 1e6;
        let per_s = |count: u64| json!(count as f64 * 1e9 / self.measured_ns as f64);
        let mut row: Line = vec![
            ("policy", json!(policy)),
            ("replicas", json!(replicas)),
            ("workload", json!(workload)),
            ("readers", json!(readers)),
            ("throughput", per_s(self.latencies_ns.len() as u64)),
            ("stale_reads", json!(self.stale)),
            ("fetches_per_s", per_s(self.fetches)),
            ("writes_per_s", per_s(self.write_latencies_ns.len() as u64)),
            ("write_ms", json!(mean(&self.write_latencies_ns))),
            ("latency_ms.mean", json!(mean(&self.latencies_ns))),
        ];
        let quantiles = [
            ("latency_ms.p50", 0.5),
            ("latency_ms.p90", 0.9),
            ("latency_ms.p95", 0.95),
            ("latency_ms.p99", 0.99),
        ];
        for (name, quantile) in quantiles {
            row.push((name, crate::quantile_ms(&mut self.latencies_ns, quantile)));
        }
        row
    }
}

/// Questions that replicas have asked the writer: shared ones, and one for each read that asks for itself.
fn fetches(world: &Cluster) -> u64 {
    let asked = |id: NodeId| world.node(id).map_or(0, |node| node.fetches_sent());
    world.topology().node_ids().map(asked).sum()
}

fn conditions() -> Vec<(&'static str, Value)> {
    vec![
        ("round trip in the data centre (ms)", json!(ROUND_TRIP_NS as f64 / 1e6)),
        ("client to node, one way (ms)", json!(0.05)),
        ("clock bound (ms)", json!(CLOCK_BOUND_NS as f64 / 1e6)),
        ("cost of an event (µs)", json!(COST.event_ns as f64 / 1e3)),
        ("cost of a message sent (µs)", json!(COST.send_ns as f64 / 1e3)),
        ("cost of a KiB received / encoded (µs)", json!("3 / 4")),
        (
            "cost of looking at what the writer has published, for who looks (µs)",
            json!(COST.load_ns as f64 / 1e3),
        ),
        ("rows", json!(KEYS)),
        ("a read", json!("one row by key; each tenth 20 neighbours")),
    ]
}
