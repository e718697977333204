//! `caerus-latency`: what commits cost in six regions, by the distance of the farthest region that takes
//! part, and how long queries over a region's own data wait for transactions in flight.
//!
//! A transaction that stays in its gateway's region needs no trip between regions, any other one round trip
//! to the farthest region that it touches. Two rules keep local queries from waiting for the latter: it is
//! ranked when it should be complete, and a reader excludes at once what is known to be ranked later. The same
//! nodes run with both, with either and with neither.

use super::tpcc::{Analyst, Asked, Done, Terminals, home_of, load};
use super::{Claim, Experiment, Findings, Line, Scale, quantile_ms, quantile_ns};
use crate::world::network::{Jitter, LinkFaults, Links};
use crate::world::{Cost, Setup, World};
use base::cut::Consistency;
use base::rng::Rng;
use base::time::{MS, SECOND, US};
use base::topology::{NodeSpec, PartitionSpec, Topology};
use base::wan::Wan;
use base::{NodeId, PartitionId, RegionId};
use node::Node;
use serde_json::json;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use txn::caerus::{Caerus, FutureRanks, Options};
use workload::table::Placement;
use workload::tpcc::{Inputs, Mix, Tpcc};

pub const EXPERIMENT: Experiment = Experiment {
    name: "caerus-latency",
    question: "What do commits cost in six regions with full replicas, and what do local queries wait for?",
    parts: |_| vec!["all variants".into()],
    run,
    conclude: |_| {},
};

/// Nodes of a region that keep copies and execute; one more keeps columns of the whole database.
const TP_NODES: u16 = 2;
const PARTITIONS_PER_NODE: u16 = 2;
const CLOCK_BOUND_NS: u64 = MS;
const COST: Cost = Cost {
    event_ns: 20 * US,
    kilobyte_ns: 2 * US,
    computation_ns: 5 * MS,
    send_ns: 0,
    send_kilobyte_ns: 0,
    cores: 1,
};
const INSIDE: Jitter = Jitter::Tail { half_ns: 50 * US };
const ACROSS: Jitter = Jitter::Tail { half_ns: MS };
/// A local query of each region comes about this often.
const QUERY_EVERY_NS: u64 = 50 * MS;
/// Regions nearer than this are close, as in the paper.
const CLOSE_NS: u64 = 50 * MS;

const VARIANTS: [(&str, FutureRanks, bool); 4] = [
    ("both rules", FutureRanks::Measured, true),
    ("rule 1 only", FutureRanks::Measured, false),
    ("rule 2 only", FutureRanks::Off, true),
    ("neither rule", FutureRanks::Off, false),
];

struct Size {
    warehouses_per_region: i32,
    per_warehouse_per_s: u64,
    shrunk_by: i32,
    warm_up_ns: u64,
    measured_ns: u64,
}

impl Size {
    fn of(scale: Scale) -> Size {
        let (warehouses_per_region, shrunk_by, seconds) = match scale {
            Scale::Small => (2, 500, 3),
            Scale::Paper => (8, 100, 15),
        };
        Size {
            warehouses_per_region,
            per_warehouse_per_s: 10,
            shrunk_by,
            warm_up_ns: SECOND,
            measured_ns: seconds * SECOND,
        }
    }
}

#[derive(Default)]
struct Measured {
    done: Vec<Done>,
    asked: Vec<Asked>,
    messages: u64,
    bytes_across: u64,
}

fn topology() -> Topology {
    let wan = Wan::preset("azure6").expect("a preset");
    let regions = wan.region_count() as u16;
    let (mut nodes, mut partitions) = (Vec::new(), Vec::new());
    let count = regions * TP_NODES * PARTITIONS_PER_NODE;
    for region in (0..regions).map(RegionId) {
        for _ in 0..TP_NODES {
            let node = NodeId(nodes.len() as u16);
            nodes.push(NodeSpec { region, subscribes: Vec::new() });
            let partition = |_| PartitionSpec { region, node, copies: Vec::new() };
            partitions.extend((0..PARTITIONS_PER_NODE).map(partition));
        }
        nodes.push(NodeSpec { region, subscribes: (0..count).map(PartitionId).collect() });
    }
    Topology { wan, nodes, partitions, clock_bound_ns: CLOCK_BOUND_NS }.replicated()
}

fn run(scale: Scale, seed: u64, _: usize, tell: &mut dyn FnMut(f64)) -> Findings {
    let size = Size::of(scale);
    let (mut rows, mut claims) = (Vec::new(), Vec::new());
    let batch_ns = Options::default().batch_ns;
    for (n, (name, future_ranks, lower_bounds)) in VARIANTS.into_iter().enumerate() {
        tell(n as f64 / VARIANTS.len() as f64);
        let options = Options { future_ranks, lower_bounds, ..Options::default() };
        let measured = measure(name, options, &size, seed);
        rows.push(query_row(name, &measured.asked));
        rows.extend(commit_rows(name, &measured));
        if name == VARIANTS[0].0 || name == VARIANTS[2].0 {
            let factor = if future_ranks == FutureRanks::Off { 1.05 } else { 1.10 };
            // Each transaction against its own farthest region.
            let spans = measured.done.iter().filter(|d| d.farthest_ns > 0);
            let mut over: Vec<u64> =
                spans.map(|d| d.latency_ns.saturating_sub(batch_ns) * 1000 / d.farthest_ns).collect();
            let found = quantile_ns(&mut over, 0.5).map_or(f64::NAN, |permille| permille as f64 / 1000.0);
            let what = format!("{name}: (commit − a batch) / round trip to the farthest region, p50");
            claims.push(Claim { what, bound: factor, found });
        }
        if name == VARIANTS[0].0 {
            let local = measured.done.iter().filter(|d| d.farthest_ns == 0);
            let mut local: Vec<u64> = local.map(|d| d.latency_ns).collect();
            let what = "commit in the own region p50 (ms)".into();
            claims.push(Claim { what, bound: 5.0, found: ms(&mut local, 0.5) });
            let delay = |a: &Asked| a.freshness.visibility_delay_ns();
            let mut delays: Vec<u64> = measured.asked.iter().map(delay).collect();
            let what = "visibility delay of local queries p50 (ms)".into();
            claims.push(Claim { what, bound: 10.0, found: ms(&mut delays, 0.5) });
            let waits = measured.asked.iter().filter(|a| a.freshness.wait_ns > MS).count();
            let found = 100.0 * waits as f64 / measured.asked.len().max(1) as f64;
            let what = "local queries that wait for longer than a round trip inside (%)".into();
            claims.push(Claim { what, bound: 5.0, found });
        }
    }
    let conditions = vec![
        ("distances", json!("azure6, 1 ms inside; and jitter")),
        ("clock bound (ms)", json!(CLOCK_BOUND_NS as f64 / 1e6)),
        ("K: regions that acknowledge before an answer", json!(0)),
        ("batch interval (ms)", json!(batch_ns as f64 / 1e6)),
        ("heartbeat (ms)", json!(Options::default().heartbeat_ns as f64 / 1e6)),
        ("margin of future ranks (ms)", json!(Options::default().margin_ns as f64 / 1e6)),
        ("estimate of one-way delays", json!("settles near the 95th percentile")),
        (
            "nodes per region",
            json!(format!("{TP_NODES} with {PARTITIONS_PER_NODE} partitions homed each, 1 with columns")),
        ),
        ("cost of an event (µs)", json!(COST.event_ns as f64 / 1e3)),
        ("cost of a KiB received (µs)", json!(COST.kilobyte_ns as f64 / 1e3)),
        ("warehouses per region", json!(size.warehouses_per_region)),
        ("transactions per second and warehouse", json!(size.per_warehouse_per_s)),
        ("rows", json!(format!("TPC-C divided by {}, districts excepted", size.shrunk_by))),
        ("local queries per second and region", json!(SECOND / QUERY_EVERY_NS)),
        ("seconds measured", json!(size.measured_ns / SECOND)),
    ];
    Findings { conditions, rows, claims }
}

fn measure(name: &str, engine: Options, size: &Size, seed: u64) -> Measured {
    let topology = topology();
    let shared = Arc::new(topology.clone());
    let procedures = Arc::new(workload::procedures());
    let factory = {
        let (topology, procedures) = (shared.clone(), procedures.clone());
        move |id, life, _: &[Vec<u8>]| {
            let engine = Caerus::new(topology.clone(), id, life, engine.clone());
            Node::new(id, topology.clone(), procedures.clone(), engine, node::Options::default())
        }
    };
    let class = |jitter| LinkFaults { jitter, in_order: true, ..LinkFaults::default() };
    let links = Links { inside: class(INSIDE), across: class(ACROSS) };
    let setup = Setup { links, cost: COST, ..Setup::calm(topology, seed) };
    let mut world: World<Node<Caerus>> = World::new(setup, factory);
    let regions = shared.wan.region_count() as i32;
    let tpcc = Tpcc::new(size.warehouses_per_region * regions).shrunk(size.shrunk_by).seed(seed);
    let placement = Placement::RoundRobin(shared.wan.regions.clone());
    let catalog = load(&mut world, &tpcc, &placement);

    let rng = Rng::new(seed).fork("experiment");
    let begin = world.now() + size.warm_up_ns;
    let until = begin + size.measured_ns;
    let done = Rc::new(RefCell::new(Vec::new()));
    for w in 1..=tpcc.warehouses {
        world.client(Terminals {
            inputs: Inputs::new(&tpcc, Mix::default(), w as u32 - 1, tpcc.warehouses as u32, 1 << 40),
            gateway: shared.node_of(home_of(&catalog, &shared, w)),
            every_ns: SECOND / size.per_warehouse_per_s,
            until,
            catalog: catalog.clone(),
            topology: shared.clone(),
            procedures: procedures.clone(),
            rng: rng.fork_nth("terminals", w as u64),
            waiting: BTreeMap::new(),
            log: done.clone(),
        });
    }
    let table = catalog.require("order_line").expect("a table of TPC-C").id;
    let asked = Rc::new(RefCell::new(Vec::new()));
    for node in shared.node_ids().filter(|n| !shared.nodes[n.0 as usize].subscribes.is_empty()) {
        let here: BTreeSet<PartitionId> = shared.partitions_in(shared.region_of(node)).collect();
        world.client(Analyst {
            node,
            consistency: Consistency::Rss,
            table,
            partitions: here,
            every_ns: QUERY_EVERY_NS,
            until,
            rng: rng.fork_nth("local", u64::from(node.0)),
            waiting: BTreeMap::new(),
            log: asked.clone(),
        });
    }
    world.run_until(begin);
    let before = world.counters().clone();
    world.run_until(until);
    let after = world.counters().clone();
    world.run_to_rest(until + 30 * SECOND).unwrap_or_else(|stuck| panic!("{name}: {stuck}"));
    let counts = |d: &&Done| begin <= d.asked_at && d.committed;
    let done = done.borrow().iter().filter(counts).cloned().collect();
    let asked = asked.borrow().iter().copied().filter(|a: &Asked| begin <= a.asked_at).collect();
    Measured {
        done,
        asked,
        messages: after.messages() - before.messages(),
        bytes_across: after.across.bytes - before.across.bytes,
    }
}

fn query_row(variant: &'static str, asked: &[Asked]) -> Line {
    let all = |of: fn(&Asked) -> u64| asked.iter().map(of).collect::<Vec<u64>>();
    let mut wait = all(|a| a.freshness.wait_ns);
    let mut total = all(|a| a.freshness.visibility_delay_ns());
    let waits = wait.iter().filter(|ns| **ns > MS).count();
    vec![
        ("system", json!(variant)),
        ("kind", json!("local query, rss")),
        ("runs", json!(asked.len())),
        ("coordination_ms", quantile_ms(&mut all(|a| a.freshness.coordination_ns), 0.5)),
        ("wait_ms", quantile_ms(&mut wait, 0.5)),
        ("wait_p99_ms", quantile_ms(&mut wait, 0.99)),
        ("waits_over_1ms_pct", json!(100.0 * waits as f64 / asked.len().max(1) as f64)),
        ("total_ms", quantile_ms(&mut total, 0.5)),
        ("total_p99_ms", quantile_ms(&mut total, 0.99)),
    ]
}

fn commit_rows(variant: &'static str, measured: &Measured) -> Vec<Line> {
    let kinds: [(&str, fn(&Done) -> bool); 3] = [
        ("commit, own region", |d| d.farthest_ns == 0),
        ("commit, close regions", |d| (1..CLOSE_NS).contains(&d.farthest_ns)),
        ("commit, far regions", |d| d.farthest_ns >= CLOSE_NS),
    ];
    let count = measured.done.len().max(1) as f64;
    let lines = kinds.into_iter().map(|(kind, is)| {
        let of = |value: fn(&Done) -> u64| -> Vec<u64> {
            measured.done.iter().filter(|d| is(d)).map(value).collect()
        };
        let phase = |name: &str| {
            let of = |d: &Done| d.phases.iter().filter(|(p, _)| *p == name).map(|(_, ns)| ns).sum::<u64>();
            quantile_ms(&mut measured.done.iter().filter(|d| is(d)).map(of).collect::<Vec<u64>>(), 0.5)
        };
        vec![
            ("system", json!(variant)),
            ("kind", json!(kind)),
            ("runs", json!(of(|d| d.latency_ns).len())),
            ("latency_ms", quantile_ms(&mut of(|d| d.latency_ns), 0.5)),
            ("latency_p99_ms", quantile_ms(&mut of(|d| d.latency_ns), 0.99)),
            ("round_trip_ms", quantile_ms(&mut of(|d| d.farthest_ns), 0.5)),
            ("over_round_trip_ms", quantile_ms(&mut of(|d| d.latency_ns.saturating_sub(d.farthest_ns)), 0.5)),
            ("order_ms", phase("order")),
            ("gate_ms", phase("gate")),
            ("messages_per_txn", json!(measured.messages as f64 / count)),
            ("bytes_across_per_txn", json!(measured.bytes_across as f64 / count)),
        ]
    });
    lines.collect()
}

fn ms(samples: &mut [u64], quantile: f64) -> f64 {
    quantile_ns(samples, quantile).map_or(f64::NAN, |ns| ns as f64 / 1e6)
}
