//! Terminals of TPC-C and analysts beside them, over a cluster with jitter and with work that takes time: what
//! the latency experiments have in common, whatever orders.

use super::tpcc::{Analyst, Asked, Done, Terminals, home_of, load};
use super::{Line, Scale, quantile_ms, quantile_ns};
use base::cut::Consistency;
use base::rng::Rng;
use base::time::{MS, SECOND, US};
use base::topology::{NodeSpec, PartitionSpec, Topology};
use base::wan::Wan;
use base::{NodeId, PartitionId, RegionId};
use node::Node;
use serde_json::{Value, json};
use sim::world::network::{Jitter, LinkFaults, Links};
use sim::world::{Cost, Setup, World};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use txn::engine::Engine;
use workload::table::Placement;
use workload::tpcc::{Inputs, Mix, Tpcc};

pub const CLOCK_BOUND_NS: u64 = MS;
pub const COST: Cost = Cost {
    event_ns: 20 * US,
    kilobyte_ns: 2 * US,
    computation_ns: 5 * MS,
    send_ns: 0,
    load_ns: 0,
    encode_kilobyte_ns: 0,
    send_kilobyte_ns: 0,
    cores: 1,
};
pub const INSIDE: Jitter = Jitter::Tail { half_ns: 50 * US };
pub const ACROSS: Jitter = Jitter::Tail { half_ns: MS };

/// A cluster where each region has nodes that run partitions, and one more that keeps columns of the whole
/// database.
pub fn cluster(wan: Wan, tp_nodes: u16, partitions_per_node: u16) -> Topology {
    let regions = wan.region_count() as u16;
    let (mut nodes, mut partitions) = (Vec::new(), Vec::new());
    let count = regions * tp_nodes * partitions_per_node;
    for region in (0..regions).map(RegionId) {
        for _ in 0..tp_nodes {
            let node = NodeId(nodes.len() as u16);
            nodes.push(NodeSpec { region, subscribes: Vec::new() });
            let partition = |_| PartitionSpec { region, node, copies: Vec::new() };
            partitions.extend((0..partitions_per_node).map(partition));
        }
        nodes.push(NodeSpec { region, subscribes: (0..count).map(PartitionId).collect() });
    }
    Topology { clock_bound_ns: CLOCK_BOUND_NS, ..Topology::of(wan, nodes, partitions) }
}

/// How much of it.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub warehouses_per_region: i32,
    pub per_warehouse_per_s: u64,
    /// Everything but the districts is divided by this.
    pub shrunk_by: i32,
    pub warm_up_ns: u64,
    pub measured_ns: u64,
}

impl Size {
    /// By scale: warehouses per region and seconds measured.
    pub fn of(scale: Scale, small: (i32, u64), paper: (i32, u64)) -> Size {
        let ((warehouses_per_region, seconds), shrunk_by, warm_up_s) = match scale {
            Scale::Small => (small, 500, 1),
            Scale::Paper => (paper, 100, 3),
        };
        Size {
            warehouses_per_region,
            per_warehouse_per_s: 10,
            shrunk_by,
            warm_up_ns: warm_up_s * SECOND,
            measured_ns: seconds * SECOND,
        }
    }
}

/// Who asks at each node with columns, about every `every_ns`.
#[derive(Clone, Copy, Debug)]
pub struct Analysts {
    pub consistency: Consistency,
    /// What is homed in the own region, or everything.
    pub is_local: bool,
    pub every_ns: u64,
}

/// What one run measured, after warming up.
#[derive(Default)]
pub struct Measured {
    pub done: Vec<Done>,
    pub local: Vec<Asked>,
    pub global: Vec<Asked>,
    pub messages: u64,
    pub bytes_across: u64,
}

/// Runs it; `engine` makes the engine of a node in one of its lives.
pub fn measure<E: Engine + 'static>(
    name: &str,
    topology: Topology,
    analysts: &[Analysts],
    size: &Size,
    seed: u64,
    engine: impl Fn(Arc<Topology>, NodeId, u32) -> E + 'static,
) -> Measured {
    let shared = Arc::new(topology.clone());
    let procedures = Arc::new(workload::procedures());
    let factory = {
        let (topology, procedures) = (shared.clone(), procedures.clone());
        move |id, life, _: &[Vec<u8>]| {
            let engine = engine(topology.clone(), id, life);
            Node::new(id, topology.clone(), procedures.clone(), engine, node::Options::default())
        }
    };
    let class = |jitter| LinkFaults { jitter, in_order: true, ..LinkFaults::default() };
    let links = Links { inside: class(INSIDE), across: class(ACROSS) };
    let setup = Setup { links, cost: COST, ..Setup::calm(topology, seed) };
    let mut world: World<Node<E>> = World::new(setup, factory);
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
    let (local, global) = (Rc::new(RefCell::new(Vec::new())), Rc::new(RefCell::new(Vec::new())));
    for node in shared.node_ids().filter(|n| !shared.nodes[n.0 as usize].subscribes.is_empty()) {
        let here: BTreeSet<PartitionId> = shared.partitions_in(shared.region_of(node)).collect();
        let everywhere: BTreeSet<PartitionId> = shared.partition_ids().collect();
        for Analysts { consistency, is_local, every_ns } in analysts.iter().copied() {
            let (partitions, log, purpose) = match is_local {
                true => (&here, &local, "local"),
                false => (&everywhere, &global, "global"),
            };
            world.client(Analyst {
                node,
                consistency,
                table,
                partitions: partitions.clone(),
                every_ns,
                until,
                rng: rng.fork_nth(purpose, u64::from(node.0)),
                waiting: BTreeMap::new(),
                log: log.clone(),
            });
        }
    }
    world.run_until(begin);
    let before = world.counters();
    world.run_until(until);
    let after = world.counters();
    world.run_to_rest(until + 30 * SECOND).unwrap_or_else(|stuck| panic!("{name}: {stuck}"));
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

/// Where the delay of queries came from. `inside_ns`: a round trip inside a region.
pub fn query_row(system: &str, kind: &str, asked: &[Asked], inside_ns: u64) -> Line {
    let all = |of: fn(&Asked) -> u64| asked.iter().map(of).collect::<Vec<u64>>();
    let mut total = all(|a| a.freshness.visibility_delay_ns());
    let mut wait = all(|a| a.freshness.wait_ns);
    let mut latency = all(|a| a.latency_ns);
    vec![
        ("system", json!(system)),
        ("kind", json!(kind)),
        ("runs", json!(asked.len())),
        ("staleness_ms", quantile_ms(&mut all(|a| a.freshness.staleness_ns), 0.5)),
        ("coordination_ms", quantile_ms(&mut all(|a| a.freshness.coordination_ns), 0.5)),
        ("wait_ms", quantile_ms(&mut wait, 0.5)),
        ("wait_p99_ms", quantile_ms(&mut wait, 0.99)),
        ("waits_over_inside_pct", json!(waits_pct(asked, inside_ns))),
        ("total_ms", quantile_ms(&mut total, 0.5)),
        ("total_p99_ms", quantile_ms(&mut total, 0.99)),
        ("latency_ms", quantile_ms(&mut latency, 0.5)),
        ("latency_p99_ms", quantile_ms(&mut latency, 0.99)),
    ]
}

/// How many in a hundred wait for longer than a round trip inside a region.
pub fn waits_pct(asked: &[Asked], inside_ns: u64) -> f64 {
    let waits = asked.iter().filter(|a| a.freshness.wait_ns > inside_ns).count();
    100.0 * waits as f64 / asked.len().max(1) as f64
}

/// Latencies of commits, with the phases that they are made of.
pub fn commit_row<'a>(
    system: &str,
    kind: &str,
    done: impl Iterator<Item = &'a Done>,
    phases: &[(&'static str, &str)],
    measured: &Measured,
) -> Line {
    let done: Vec<&Done> = done.collect();
    let mut latencies: Vec<u64> = done.iter().map(|d| d.latency_ns).collect();
    let phase = |name: &str| {
        let of = |d: &&Done| d.phases.iter().filter(|(p, _)| *p == name).map(|(_, ns)| ns).sum::<u64>();
        quantile_ms(&mut done.iter().map(of).collect::<Vec<u64>>(), 0.5)
    };
    let count = measured.done.len().max(1) as f64;
    let mut row: Line = vec![
        ("system", json!(system)),
        ("kind", json!(kind)),
        ("runs", json!(latencies.len())),
        ("latency_ms", quantile_ms(&mut latencies, 0.5)),
        ("latency_p99_ms", quantile_ms(&mut latencies, 0.99)),
    ];
    row.extend(phases.iter().map(|(column, name)| (*column, phase(name))));
    row.push(("messages_per_txn", json!(measured.messages as f64 / count)));
    row.push(("bytes_across_per_txn", json!(measured.bytes_across as f64 / count)));
    row
}

/// What held throughout.
pub fn conditions(size: &Size) -> Vec<(&'static str, Value)> {
    vec![
        ("clock bound (ms)", json!(CLOCK_BOUND_NS as f64 / 1e6)),
        ("cost of an event (µs)", json!(COST.event_ns as f64 / 1e3)),
        ("cost of a KiB received (µs)", json!(COST.kilobyte_ns as f64 / 1e3)),
        ("warehouses per region", json!(size.warehouses_per_region)),
        ("transactions per second and warehouse", json!(size.per_warehouse_per_s)),
        ("rows", json!(format!("TPC-C divided by {}, districts excepted", size.shrunk_by))),
        ("seconds measured", json!(size.measured_ns / SECOND)),
    ]
}

/// A quantile in ms; not a number if there are no samples.
pub fn ms(samples: &mut [u64], quantile: f64) -> f64 {
    quantile_ns(samples, quantile).map_or(f64::NAN, |ns| ns as f64 / 1e6)
}
