//! `perseus3-latency`: what commits and queries cost across three regions, and what each rule about ranks
//! buys.
//!
//! Two rules keep a query from waiting for transactions in flight. Rule 1: a transaction that spans regions
//! is ranked at the time when it should be complete. Rule 2: a reader that closes a cut excludes at once
//! what is known to be ranked later. The same nodes run with both, with either and with neither, and with
//! queries at level `regular`, which needs neither.

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
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use txn::perseus::{FutureRanks, Options, Perseus};
use workload::table::Placement;
use workload::tpcc::{Inputs, Mix, Tpcc};

pub const EXPERIMENT: Experiment = Experiment {
    name: "perseus3-latency",
    question: "What do commits and local and global queries cost at 2 ms inside and 100 ms across regions?",
    parts: |_| vec!["all variants".into()],
    run,
    conclude: |_| {},
};

const REGIONS: u16 = 3;
/// Nodes of a region that run partitions; one more keeps columns of the whole database.
const TP_NODES: u16 = 2;
const PARTITIONS_PER_NODE: u16 = 5;
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
/// A local and a global query of each region come about this often.
const QUERY_EVERY_NS: u64 = 100 * MS;

/// One way of running it.
struct Variant {
    name: &'static str,
    consistency: Consistency,
    future_ranks: FutureRanks,
    lower_bounds: bool,
}

const VARIANTS: [Variant; 5] = [
    Variant {
        name: "rss, both rules",
        consistency: Consistency::Rss,
        future_ranks: FutureRanks::Measured,
        lower_bounds: true,
    },
    Variant {
        name: "rss, rule 1 only",
        consistency: Consistency::Rss,
        future_ranks: FutureRanks::Measured,
        lower_bounds: false,
    },
    Variant {
        name: "rss, rule 2 only",
        consistency: Consistency::Rss,
        future_ranks: FutureRanks::Off,
        lower_bounds: true,
    },
    Variant {
        name: "rss, neither rule",
        consistency: Consistency::Rss,
        future_ranks: FutureRanks::Off,
        lower_bounds: false,
    },
    Variant {
        name: "regular",
        consistency: Consistency::Regular,
        future_ranks: FutureRanks::Measured,
        lower_bounds: true,
    },
];

/// Sizes by scale.
struct Size {
    warehouses_per_region: i32,
    per_warehouse_per_s: u64,
    /// Everything but the districts is divided by this.
    shrunk_by: i32,
    warm_up_ns: u64,
    measured_ns: u64,
}

impl Size {
    fn of(scale: Scale) -> Size {
        match scale {
            Scale::Small => Size {
                warehouses_per_region: 2,
                per_warehouse_per_s: 10,
                shrunk_by: 500,
                warm_up_ns: SECOND,
                measured_ns: 4 * SECOND,
            },
            Scale::Paper => Size {
                warehouses_per_region: 10,
                per_warehouse_per_s: 10,
                shrunk_by: 100,
                warm_up_ns: 3 * SECOND,
                measured_ns: 20 * SECOND,
            },
        }
    }
}

/// What one variant measured.
#[derive(Default)]
struct Measured {
    done: Vec<Done>,
    local: Vec<Asked>,
    global: Vec<Asked>,
    messages: u64,
    bytes_across: u64,
}

fn topology() -> Topology {
    let wan = Wan::preset("perseus3").expect("a preset");
    let (mut nodes, mut partitions) = (Vec::new(), Vec::new());
    let count = REGIONS * TP_NODES * PARTITIONS_PER_NODE;
    for region in (0..REGIONS).map(RegionId) {
        for _ in 0..TP_NODES {
            let node = NodeId(nodes.len() as u16);
            nodes.push(NodeSpec { region, subscribes: Vec::new() });
            partitions.extend((0..PARTITIONS_PER_NODE).map(|_| PartitionSpec {
                region,
                node,
                copies: Vec::new(),
            }));
        }
        nodes.push(NodeSpec { region, subscribes: (0..count).map(PartitionId).collect() });
    }
    Topology { wan, nodes, partitions, clock_bound_ns: CLOCK_BOUND_NS }
}

fn links() -> Links {
    let class = |jitter| LinkFaults { jitter, in_order: true, ..LinkFaults::default() };
    Links { inside: class(INSIDE), across: class(ACROSS) }
}

fn run(scale: Scale, seed: u64, _: usize, tell: &mut dyn FnMut(f64)) -> Findings {
    let size = Size::of(scale);
    let mut rows = Vec::new();
    let mut claims = Vec::new();
    let rtt_p90_ns = round_trip_p90_ns(seed);
    for (n, variant) in VARIANTS.into_iter().enumerate() {
        tell(n as f64 / VARIANTS.len() as f64);
        let measured = measure(&variant, &size, seed);
        for (scope, asked) in [("local", &measured.local), ("global", &measured.global)] {
            rows.push(query_row(variant.name, scope, asked));
        }
        if variant.name == VARIANTS[0].name {
            claims = commit_claims(&measured, rtt_p90_ns);
            for (what, quantile, bound) in [
                ("local visibility delay p50 (ms)", 0.5, 15.0),
                ("local visibility delay p99 (ms)", 0.99, 30.0),
            ] {
                let mut delays: Vec<u64> =
                    measured.local.iter().map(|a| a.freshness.visibility_delay_ns()).collect();
                claims.push(Claim { what: what.into(), bound, found: ms(&mut delays, quantile) });
            }
        }
        rows.extend(commit_rows(variant.name, &measured));
    }
    Findings { conditions: conditions(&size, rtt_p90_ns), rows, claims }
}

fn conditions(size: &Size, rtt_p90_ns: u64) -> Vec<(&'static str, Value)> {
    vec![
        ("round trips inside / across (ms)", json!("2 / 100, and jitter")),
        ("round trip across p90 (ms)", json!(rtt_p90_ns as f64 / 1e6)),
        ("clock bound (ms)", json!(CLOCK_BOUND_NS as f64 / 1e6)),
        ("replicas per partition", json!(1)),
        ("batch interval (ms)", json!(0)),
        (
            "nodes per region",
            json!(format!("{TP_NODES} with {PARTITIONS_PER_NODE} partitions, 1 with columns")),
        ),
        ("cost of an event (µs)", json!(COST.event_ns as f64 / 1e3)),
        ("cost of a KiB received (µs)", json!(COST.kilobyte_ns as f64 / 1e3)),
        ("warehouses per region", json!(size.warehouses_per_region)),
        ("transactions per second and warehouse", json!(size.per_warehouse_per_s)),
        ("rows", json!(format!("TPC-C divided by {}, districts excepted", size.shrunk_by))),
        ("queries per second and region", json!(format!("{0} local, {0} global", SECOND / QUERY_EVERY_NS))),
        ("seconds measured", json!(size.measured_ns / SECOND)),
    ]
}

fn measure(variant: &Variant, size: &Size, seed: u64) -> Measured {
    let topology = topology();
    let shared = Arc::new(topology.clone());
    let procedures = Arc::new(workload::procedures());
    let engine = Options {
        future_ranks: variant.future_ranks,
        lower_bounds: variant.lower_bounds,
        ..Options::default()
    };
    let factory = {
        let (topology, procedures) = (shared.clone(), procedures.clone());
        move |id, life, _: &[Vec<u8>]| {
            let engine = Perseus::new(topology.clone(), id, life, engine.clone());
            Node::new(id, topology.clone(), procedures.clone(), engine, node::Options::default())
        }
    };
    let setup = Setup { links: links(), cost: COST, ..Setup::calm(topology, seed) };
    let mut world: World<Node<Perseus>> = World::new(setup, factory);
    let tpcc = Tpcc::new(size.warehouses_per_region * i32::from(REGIONS)).shrunk(size.shrunk_by).seed(seed);
    let placement = Placement::RoundRobin(shared.wan.regions.clone());
    let catalog = load(&mut world, &tpcc, &placement);

    let rng = Rng::new(seed).fork("experiment");
    let begin = world.now() + size.warm_up_ns;
    let until = begin + size.measured_ns;
    let done = Rc::new(RefCell::new(Vec::new()));
    for w in 1..=tpcc.warehouses {
        let inputs = Inputs::new(&tpcc, Mix::default(), w as u32 - 1, tpcc.warehouses as u32, 1 << 40);
        world.client(Terminals {
            inputs,
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
    let (local, global) = (Rc::new(RefCell::new(Vec::new())), Rc::new(RefCell::new(Vec::new())));
    for node in shared.node_ids().filter(|n| !shared.nodes[n.0 as usize].subscribes.is_empty()) {
        let here: BTreeSet<PartitionId> = shared.partitions_in(shared.region_of(node)).collect();
        let everywhere: BTreeSet<PartitionId> = shared.partition_ids().collect();
        for (partitions, log, purpose) in [(here, &local, "local"), (everywhere, &global, "global")] {
            world.client(Analyst {
                node,
                consistency: variant.consistency,
                table,
                partitions,
                every_ns: QUERY_EVERY_NS,
                until,
                rng: rng.fork_nth(purpose, u64::from(node.0)),
                waiting: BTreeMap::new(),
                log: log.clone(),
            });
        }
    }
    world.run_until(begin);
    let before = world.counters().clone();
    world.run_until(until);
    let after = world.counters().clone();
    world.run_to_rest(until + 30 * SECOND).unwrap_or_else(|stuck| panic!("{}: {stuck}", variant.name));
    let asked =
        |log: &RefCell<Vec<Asked>>| log.borrow().iter().copied().filter(|a| begin <= a.asked_at).collect();
    let counts = |d: &&Done| begin <= d.asked_at && d.committed;
    let done = done.borrow().iter().filter(counts).cloned().collect();
    Measured {
        done,
        local: asked(&local),
        global: asked(&global),
        messages: after.messages() - before.messages(),
        bytes_across: after.across.bytes - before.across.bytes,
    }
}

/// True if the transaction did not wait for another one: its execution took no longer than its own messages
/// (commit, exchange of reads, results) and their jitter need.
fn is_unblocked(done: &Done) -> bool {
    let own_ns = match (done.regions, done.nodes) {
        (0 | 1, 0 | 1) => MS / 2,
        (0 | 1, _) => 5 * MS,
        _ => 160 * MS,
    };
    let execute = done.phases.iter().filter(|(phase, _)| *phase == "execute").map(|(_, ns)| ns);
    execute.sum::<u64>() <= own_ns
}

fn query_row(variant: &'static str, scope: &'static str, asked: &[Asked]) -> Line {
    let all = |of: fn(&Asked) -> u64| asked.iter().map(of).collect::<Vec<u64>>();
    let mut total = all(|a| a.freshness.visibility_delay_ns());
    let mut wait = all(|a| a.freshness.wait_ns);
    let mut latency = all(|a| a.latency_ns);
    let waits = wait.iter().filter(|ns| **ns > 2 * MS).count();
    vec![
        ("system", json!(variant)),
        ("kind", json!(format!("{scope} query"))),
        ("runs", json!(asked.len())),
        ("staleness_ms", quantile_ms(&mut all(|a| a.freshness.staleness_ns), 0.5)),
        ("coordination_ms", quantile_ms(&mut all(|a| a.freshness.coordination_ns), 0.5)),
        ("wait_ms", quantile_ms(&mut wait, 0.5)),
        ("wait_p99_ms", quantile_ms(&mut wait, 0.99)),
        ("waits_over_2ms_pct", json!(100.0 * waits as f64 / asked.len().max(1) as f64)),
        ("total_ms", quantile_ms(&mut total, 0.5)),
        ("total_p99_ms", quantile_ms(&mut total, 0.99)),
        ("latency_ms", quantile_ms(&mut latency, 0.5)),
        ("latency_p99_ms", quantile_ms(&mut latency, 0.99)),
    ]
}

fn commit_rows(variant: &'static str, measured: &Measured) -> Vec<Line> {
    let kinds: [(&str, fn(&Done) -> bool); 4] = [
        ("single-region commit, all", |d| d.regions <= 1),
        ("single-region commit, unblocked", |d| d.regions <= 1 && is_unblocked(d)),
        ("multi-region commit, all", |d| d.regions > 1),
        ("multi-region commit, unblocked", |d| d.regions > 1 && is_unblocked(d)),
    ];
    let lines = kinds.into_iter().map(|(kind, is)| {
        let mut latencies: Vec<u64> = measured.done.iter().filter(|d| is(d)).map(|d| d.latency_ns).collect();
        let phase = |name: &str| {
            let of = |d: &Done| d.phases.iter().filter(|(p, _)| *p == name).map(|(_, ns)| ns).sum::<u64>();
            quantile_ms(&mut measured.done.iter().filter(|d| is(d)).map(of).collect::<Vec<u64>>(), 0.5)
        };
        vec![
            ("system", json!(variant)),
            ("kind", json!(kind)),
            ("runs", json!(latencies.len())),
            ("latency_ms", quantile_ms(&mut latencies, 0.5)),
            ("latency_p99_ms", quantile_ms(&mut latencies, 0.99)),
            ("order_ms", phase("order")),
            ("execute_ms", phase("execute")),
            ("gate_ms", phase("gate")),
            ("messages_per_txn", json!(measured.messages as f64 / measured.done.len().max(1) as f64)),
            ("bytes_across_per_txn", json!(measured.bytes_across as f64 / measured.done.len().max(1) as f64)),
        ]
    });
    lines.collect()
}

fn commit_claims(measured: &Measured, rtt_p90_ns: u64) -> Vec<Claim> {
    let of = |is: &dyn Fn(&Done) -> bool| -> Vec<u64> {
        measured.done.iter().filter(|d| is(d)).map(|d| d.latency_ns).collect()
    };
    let bound = 2.1 * rtt_p90_ns as f64 / 1e6 + 10.0;
    let claim = |what: &str, bound: f64, mut latencies: Vec<u64>| Claim {
        what: what.into(),
        bound,
        found: ms(&mut latencies, 0.5),
    };
    vec![
        claim("multi-region commit p50 (ms)", bound, of(&|d| d.regions > 1)),
        claim("single-region commit p50, unblocked (ms)", 5.0, of(&|d| d.regions <= 1 && is_unblocked(d))),
        claim("single-region commit p50, all (ms)", 5.0, of(&|d| d.regions <= 1)),
    ]
}

fn ms(samples: &mut [u64], quantile: f64) -> f64 {
    quantile_ns(samples, quantile).map_or(f64::NAN, |ns| ns as f64 / 1e6)
}

/// The 90th percentile of a round trip across regions, from the links' own distribution.
fn round_trip_p90_ns(seed: u64) -> u64 {
    let mut rng = Rng::new(seed).fork("round trips");
    let one_way_ns = topology().wan.one_way_ns(RegionId(0), RegionId(1));
    let mut trip = || 2 * one_way_ns + ACROSS.draw_ns(&mut rng) + ACROSS.draw_ns(&mut rng);
    let mut trips: Vec<u64> = (0..10_000).map(|_| trip()).collect();
    quantile_ns(&mut trips, 0.9).expect("ten thousand samples")
}
