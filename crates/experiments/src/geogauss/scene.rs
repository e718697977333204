//! Machines, distances and workloads, and a run of one system on them.

use super::load::{Asks, Connection, Long, Seen, Shared};
use super::metered::{Metered, ROW_COSTS};
use super::systems::{System, Way};
use crate::deterministic::scene as deterministic;
use crate::populate;
use crate::{Line, Scale, quantile_ms};
use base::rng::Rng;
use base::schema::Catalog;
use base::time::{MS, SECOND, US};
use base::topology::Topology;
use base::wan::Wan;
use base::{NodeId, Time};
use node::Node;
use serde_json::{Value, json};
use sim::world::network::{Jitter, LinkFaults, Links};
use sim::world::{Cost, Fault, Setup, Wire, World};
use std::rc::Rc;
use std::sync::Arc;
use txn::any::{AnyEngine, EngineOptions};
use txn::aria::{self, Aria};
use txn::engine::Engine;
use txn::{geogauss, perseus};
use workload::table::Placement;
use workload::tpcc::{Inputs, Mix, Table, Tpcc};
use workload::ycsb::{self, Ops, USERTABLE};

/// From a client to its region's node, one way.
const CLIENT_NS: u64 = 100 * US;
/// A node does one thing at a time.
const COST: Cost = Cost {
    event_ns: 20 * US,
    load_ns: 0,
    kilobyte_ns: 3 * US,
    encode_kilobyte_ns: 4 * US,
    send_ns: 2 * US,
    send_kilobyte_ns: US / 10,
    computation_ns: 0,
    cores: 1,
};

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Workload {
    /// Each transaction is one operation.
    Ycsb(ycsb::Workload),
    /// NewOrder and Payment, half each; a connection has a warehouse, wherever that is homed.
    Tpcc,
}

impl Workload {
    pub fn name(self) -> &'static str {
        match self {
            Workload::Ycsb(ycsb::Workload::A) => "YCSB-A",
            Workload::Ycsb(ycsb::Workload::B) => "YCSB-B",
            Workload::Ycsb(ycsb::Workload::C) => "YCSB-C",
            Workload::Ycsb(_) => unreachable!("the paper runs A, B and C"),
            Workload::Tpcc => "TPC-C 50/50",
        }
    }
}

/// How large it is.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub connections_each: u32,
    pub warehouses: i32,
    pub records: i64,
    pub warm_up_ns: u64,
    pub measured_ns: u64,
}

impl Size {
    /// Warehouses stand to connections as in the paper, 800 to 600.
    pub fn of(scale: Scale) -> Size {
        match scale {
            Scale::Small => Size {
                connections_each: 24,
                warehouses: 96,
                records: 10_000,
                warm_up_ns: SECOND / 2,
                measured_ns: SECOND,
            },
            Scale::Paper => Size {
                connections_each: 200,
                warehouses: 800,
                records: 1_000_000,
                warm_up_ns: SECOND,
                measured_ns: 10 * SECOND,
            },
        }
    }
}

/// One run.
#[derive(Clone, Debug)]
pub struct Case {
    pub system: System,
    pub workload: Workload,
    pub wan: Wan,
    pub connections_each: u32,
    /// As in YCSB, of its keys.
    pub skew: f64,
    pub long: Option<Long>,
    /// This node stops for good, so long after the measured window began.
    pub lost: Option<(NodeId, u64)>,
}

/// YCSB's own skew is 0.99.
pub const SKEW: f64 = 0.99;

impl Case {
    pub fn of(system: System, workload: Workload, size: &Size) -> Case {
        let wan = Wan::preset("china3").expect("a preset");
        let connections_each = size.connections_each;
        Case { system, workload, wan, connections_each, skew: SKEW, long: None, lost: None }
    }
    pub fn name(&self) -> String {
        let Case { system, workload, wan, connections_each, skew, long, .. } = self;
        let long = long.map_or(String::new(), |l| format!(", {} ms each {}", l.lasts_ns / MS, l.every));
        let (regions, name, level) = (wan.region_count(), workload.name(), system.level());
        let at = &wan.name;
        format!("{}, {level}, {name}, skew {skew}, {regions} × {connections_each}, {at}{long}", system.name)
    }
    /// Where copies are read a node keeps columns of them, too: they tell what is complete, for reads at `session`.
    fn topology(&self) -> Topology {
        let mut topology = Topology::one_node_per_region(self.wan.clone(), 1);
        let reads = matches!(self.workload, Workload::Ycsb(_));
        if !(reads && self.system.is_replicated()) {
            topology.nodes.iter_mut().for_each(|node| node.subscribes.clear());
        }
        if self.system.is_replicated() { topology.replicated() } else { topology }
    }
}

/// What was measured.
pub struct Measured {
    pub seen: Seen,
    /// Evaluations that lost to others and were tried again.
    pub lost: u64,
    pub bytes_across: u64,
    /// Of the busiest node.
    pub used_ns: u64,
    pub begin: Time,
    pub measured_ns: u64,
}

/// Runs a case.
pub fn run(case: &Case, size: &Size, seed: u64, tell: &mut dyn FnMut(f64)) -> Measured {
    let options: EngineOptions = match case.system.way {
        Way::Geogauss { isolation, epoch_ns } => {
            // Elsewhere no region is lost, and an epoch is published as in the paper, once it is here.
            let removes_lost = case.lost.is_some();
            geogauss::Options { isolation, epoch_ns, removes_lost, ..geogauss::Options::default() }.into()
        }
        Way::Calvin { as_described: true } => deterministic::CALVIN.options().into(),
        Way::Calvin { as_described: false } => deterministic::IDEALISED[2].options().into(),
        Way::Leaders => perseus::Options::default().into(),
        Way::Aria(barriers) => {
            let long = case.long.map(|Long { every, lasts_ns }| aria::Long { every, lasts_ns });
            let options = aria::Options { barriers, long, ..aria::Options::default() };
            // It takes its time in every region, not at the client.
            let case = Case { long: None, ..case.clone() };
            return run_on(&case, size, seed, tell, move |topology, id, life| {
                Aria::new(topology, id, life, options.clone())
            });
        }
    };
    run_on(case, size, seed, tell, move |topology, id, life| {
        AnyEngine::new(topology, id, life, options.clone())
    })
}

type Cluster<E> = World<Node<Metered<E>>>;

fn run_on<E: Engine + 'static>(
    case: &Case,
    size: &Size,
    seed: u64,
    tell: &mut dyn FnMut(f64),
    engine: impl Fn(Arc<Topology>, NodeId, u32) -> E + 'static,
) -> Measured {
    let topology = Arc::new(case.topology());
    let procedures = Arc::new(workload::procedures());
    let factory = {
        let (topology, procedures) = (topology.clone(), procedures.clone());
        move |id, life, _: &[Vec<u8>]| {
            let engine = engine(topology.clone(), id, life);
            let engine = Metered { engine, costs: ROW_COSTS };
            Node::new(id, topology.clone(), procedures.clone(), engine, node::Options::default())
        }
    };
    let class = |half_ns| {
        let jitter = Jitter::Tail { half_ns };
        LinkFaults { jitter, in_order: true, ..LinkFaults::default() }
    };
    let links = Links { inside: class(50 * US), across: class(200 * US) };
    let calm = Setup::calm((*topology).clone(), seed);
    let setup = Setup { links, wire: Wire::Measured, client_one_way_ns: CLIENT_NS, ..calm };
    let mut world: Cluster<E> = World::new(setup, factory);
    let tpcc = Tpcc::new(size.warehouses).shrunk(500).seed(seed);
    let catalog = load(&mut world, case.workload, &tpcc, size, seed);
    world.charge(COST);

    let begin = world.now() + size.warm_up_ns;
    let until = begin + size.measured_ns;
    let seen = std::cell::RefCell::default();
    let shared = Rc::new(Shared { catalog, topology: topology.clone(), procedures, begin, until, seen });
    connect(&mut world, case, &tpcc, size, &shared, seed);
    if let Some((node, after_ns)) = case.lost {
        world.fault_at(begin + after_ns, Fault::Crash(node));
    }
    world.run_until(begin);
    tell(0.3);
    let before = totals(&world);
    world.run_until(until);
    let after = totals(&world);
    tell(1.0);
    let is_shared = matches!(case.system.way, Way::Aria(_));
    let lost = |totals: &Totals| if is_shared { totals.lost[0] } else { totals.lost.iter().sum() };
    let used = after.used_ns.iter().zip(&before.used_ns).map(|(after, before)| after - before);
    Measured {
        lost: lost(&after).saturating_sub(lost(&before)),
        bytes_across: after.bytes_across - before.bytes_across,
        used_ns: used.max().unwrap_or(0),
        begin,
        measured_ns: size.measured_ns,
        seen: std::mem::take(&mut *shared.seen.borrow_mut()),
    }
}

fn load<E: Engine + 'static>(
    world: &mut Cluster<E>,
    workload: Workload,
    tpcc: &Tpcc,
    size: &Size,
    seed: u64,
) -> Arc<Catalog> {
    let topology = world.topology().clone();
    match workload {
        Workload::Ycsb(_) => {
            let change = populate::schema(std::iter::once(&USERTABLE), &Placement::Hash, 1, &topology);
            let catalog = populate::create(world, change);
            let rows = (0..size.records).map(|key| (USERTABLE.name, ycsb::row(seed, key)));
            populate::fill(world, &catalog, rows);
            catalog
        }
        Workload::Tpcc => {
            let placement = Placement::RoundRobin(topology.wan.regions.clone());
            let specs = Table::ALL.iter().map(|table| table.spec());
            let change = populate::schema(specs, &placement, tpcc.warehouses as u32, &topology);
            let catalog = populate::create(world, change);
            // Nobody asks for orders that are there at the start.
            let loaded = [Table::Warehouse, Table::District, Table::Customer, Table::Stock];
            let of = |table: Table, w| tpcc.rows(table, w).map(move |values| (table.spec().name, values));
            let rows = (1..=tpcc.warehouses).flat_map(|w| loaded.into_iter().flat_map(move |t| of(t, w)));
            populate::fill(world, &catalog, of(Table::Item, 1).chain(rows));
            catalog
        }
    }
}

/// Connections of all regions' clients.
fn connect<E: Engine + 'static>(
    world: &mut Cluster<E>,
    case: &Case,
    tpcc: &Tpcc,
    size: &Size,
    shared: &Rc<Shared>,
    seed: u64,
) {
    let regions = case.wan.region_count() as u32;
    let all = regions * case.connections_each;
    let rng = Rng::new(seed).fork("connections");
    let mut warehouses: Vec<i32> = (1..=tpcc.warehouses).collect();
    rng.fork("warehouses").shuffle(&mut warehouses);
    for n in 0..all {
        let asks = match case.workload {
            Workload::Ycsb(mix) => {
                let ops = Ops::new(mix, size.records, case.skew, seed, (n, all), size.records);
                Asks::Ycsb(Box::new(ops))
            }
            Workload::Tpcc => {
                let mix = Mix { weights: [1, 1, 0, 0, 0], ..Mix::default() };
                let w = warehouses[n as usize % warehouses.len()];
                Asks::Tpcc(Box::new(Inputs::new(tpcc, mix, n, all, 1 << 40).at(w)))
            }
        };
        let gateway = NodeId((n % regions) as u16);
        let rng = rng.fork_nth("connection", u64::from(n));
        world.client(Connection::new(shared, gateway, asks, case.long, rng));
    }
}

struct Totals {
    lost: Vec<u64>,
    bytes_across: u64,
    used_ns: Vec<u64>,
}

fn totals<E: Engine + 'static>(world: &Cluster<E>) -> Totals {
    let lost = |id: NodeId| {
        let report = world.node(id).map(|node| node.engine().report());
        report.and_then(|report| report.counters.get("evaluations that lost").copied()).unwrap_or(0)
    };
    let nodes: Vec<NodeId> = world.topology().node_ids().collect();
    Totals {
        lost: nodes.iter().map(|id| lost(*id)).collect(),
        bytes_across: world.counters().across.bytes,
        used_ns: nodes.iter().map(|id| world.used_ns(*id)).collect(),
    }
}

fn mean_ms(latencies: &[u64]) -> Value {
    match latencies.len() {
        0 => Value::Null,
        n => json!(latencies.iter().sum::<u64>() as f64 / n as f64 / 1e6),
    }
}

impl Measured {
    /// The row of a figure.
    pub fn row(&self, case: &Case) -> Line {
        let of = |is: &dyn Fn(&super::load::Done) -> bool| -> Vec<u64> {
            self.seen.done.iter().filter(|done| is(done)).map(|done| done.latency_ns).collect()
        };
        let mut all = of(&|_| true);
        let mut reads = of(&|done| done.is_read);
        let mut writes = of(&|done| !done.is_read && !done.is_long);
        let seconds = self.measured_ns as f64 / 1e9;
        let answered = all.len();
        let lost = self.lost + self.seen.failed;
        let tried = lost as f64 + (answered - reads.len()) as f64;
        let mut row: Line = vec![
            ("system", json!(case.system.name)),
            ("workload", json!(case.workload.name())),
            ("level", json!(case.system.level())),
            ("clients", json!(case.connections_each * case.wan.region_count() as u32)),
            ("throughput", json!(answered as f64 / seconds)),
            ("latency_ms.mean", mean_ms(&all)),
            ("latency_ms.p50", quantile_ms(&mut all, 0.5)),
            ("latency_ms.p99", quantile_ms(&mut all, 0.99)),
            ("aborts_pct", json!(if tried > 0.0 { 100.0 * lost as f64 / tried } else { 0.0 })),
            ("write_ms", mean_ms(&writes)),
            ("write_p99_ms", quantile_ms(&mut writes, 0.99)),
            ("read_ms", mean_ms(&reads)),
            ("read_p99_ms", quantile_ms(&mut reads, 0.99)),
            ("failed", json!(self.seen.failed)),
            ("kib_across_per_commit", json!(self.bytes_across as f64 / 1024.0 / answered.max(1) as f64)),
            ("busiest_node_pct", json!(self.used_ns as f64 / self.measured_ns as f64 * 100.0)),
        ];
        // What no phase says: the way to the node and back, and waiting for its turn.
        let commits = of(&|done| !done.is_read).len().max(1) as f64;
        for (phase, ns) in &self.seen.phases {
            let column = PHASES.iter().find(|(name, _)| name == phase);
            let (_, column) = column.unwrap_or_else(|| panic!("{phase} is no phase that is known"));
            row.push((column, json!(*ns as f64 / commits / 1e6)));
        }
        row
    }
}

/// Phases of answers, and their columns.
pub const PHASES: &[(&str, &str)] = &[
    ("evaluate", "evaluate_ms"),
    ("order", "order_ms"),
    ("execute", "execute_ms"),
    ("merge", "merge_ms"),
    ("gate", "gate_ms"),
];

/// What holds of all systems alike.
pub fn conditions(size: &Size) -> Vec<(&'static str, Value)> {
    vec![
        ("distances", json!("china3 (round trips 40, 46, 34 ms) unless said otherwise, jitter under 0.2 ms")),
        ("nodes", json!("one in each region")),
        ("client to node, one way (ms)", json!(CLIENT_NS as f64 / 1e6)),
        ("connections", json!("closed loops without thinking; warehouses and rows anywhere")),
        (
            "rows of YCSB, and their skew",
            json!(format!("{}, Zipf {SKEW} unless said otherwise", size.records)),
        ),
        ("warehouses", json!(format!("{}, of 200 items and 10 customers a district", size.warehouses))),
        ("cost of an event / of a message sent (µs)", json!("20 / 2")),
        ("cost of a KiB received / encoded (µs)", json!("3 / 4")),
        ("cost of a row read / computed / installed / checked (µs)", json!("2 / 1 / 2 / 0.5")),
        (
            "seconds measured, after warm-up",
            json!(format!("{}, {}", size.measured_ns as f64 / 1e9, size.warm_up_ns as f64 / 1e9)),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geogauss::systems::{ARIA_IDEALISED, GEOGAUSS};

    #[test]
    fn a_commit_takes_at_least_the_way_to_the_farthest_region() {
        let size = Size {
            connections_each: 2,
            warehouses: 6,
            records: 200,
            warm_up_ns: 200 * MS,
            measured_ns: 300 * MS,
        };
        for system in [GEOGAUSS, ARIA_IDEALISED] {
            // An order of an unknown item is answered sooner.
            for (workload, least_ns) in [(Workload::Ycsb(ycsb::Workload::A), 20 * MS), (Workload::Tpcc, 0)] {
                let case = Case::of(system, workload, &size);
                let measured = run(&case, &size, 1, &mut |_| {});
                let writes = measured.seen.done.iter().filter(|done| !done.is_read);
                let fastest = writes.map(|done| done.latency_ns).min().expect("somebody has committed");
                // The middle one of the three is 20 ms from the farthest of the others.
                assert!(fastest >= least_ns, "{}: {fastest}", case.name());
                assert_eq!(measured.seen.failed, 0, "{}: {:?}", case.name(), measured.seen.error);
            }
        }
    }
}
