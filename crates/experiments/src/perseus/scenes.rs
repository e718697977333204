//! What is run on the machines: TPC-C with local queries, HTAPBench-E with global ones, the micro-workload.

use super::deployment::{Deployment, Window};
use super::load::{Analyst, Calls, Cluster, Measured, Shared, Terminal, latency_ms, measure, window, world};
use super::systems::System;
use crate::tpcc::{home_of, load};
use crate::{Line, populate};
use base::rng::Rng;
use base::schema::{Catalog, Location};
use base::time::MS;
use base::topology::Topology;
use base::{Datum, NodeId, PartitionId, RegionId, TableId};
use serde_json::{Value, json};
use sim::world::Fault;
use std::collections::BTreeSet;
use std::sync::Arc;
use workload::micro::{self, Micro};
use workload::table::Placement;
use workload::tpcc::{Inputs, Mix, Tpcc};
use workload::tpce::{self, Tpce};

/// How many clients there are and how long they think, on average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clients {
    pub terminals: u32,
    pub think_ns: u64,
    /// Per data centre.
    pub analysts: u16,
    pub queries: Queries,
}

/// How analysts ask.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Queries {
    /// An analyst thinks so long after a query, on average.
    pub think_ns: u64,
    /// What a query takes of a core of its node's machine, once it has its snapshot.
    pub cpu_ns: u64,
}

/// A query a second, of which only the snapshot counts.
pub const EVERY_SECOND: Queries = Queries { think_ns: 1000 * MS, cpu_ns: 0 };

/// What analysts read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Partitions of their own data centre.
    Local,
    /// Those that the analytical node keeps.
    Subscribed,
    /// All partitions.
    Global,
}

/// A cluster with its tables loaded, and its clients.
pub(super) struct Scene {
    pub world: Cluster,
    pub shared: Arc<Shared>,
    rng: Rng,
}

impl Scene {
    fn new(
        deployment: &Deployment,
        system: &System,
        seed: u64,
        fill: impl FnOnce(&mut Cluster) -> Arc<Catalog>,
        span: Window,
    ) -> Scene {
        let procedures = Arc::new(workload::procedures());
        let mut world = world(deployment, system, seed, procedures.clone());
        let catalog = fill(&mut world);
        let topology = Arc::new(world.topology().clone());
        let shared = Arc::new(Shared::new(catalog, topology, procedures, window(&world, span)));
        Scene { world, shared, rng: Rng::new(seed).fork("clients") }
    }
    fn terminal(&mut self, n: u64, gateway: NodeId, think_ns: u64, calls: Calls) {
        let rng = self.rng.fork_nth("terminal", n);
        let shared = self.shared.clone();
        let region = shared.topology.region_of(gateway);
        self.world.client_in(region, Terminal { shared, gateway, calls, think_ns, rng, asked_at: None });
    }
    fn analysts(
        &mut self,
        deployment: &Deployment,
        system: &System,
        clients: Clients,
        queries: &[&[&str]],
        scope: Scope,
    ) {
        let topology = self.shared.topology.clone();
        let id = |name: &&str| self.shared.catalog.require(name).expect("a table that was made").id;
        let queries: Arc<Vec<Vec<TableId>>> =
            Arc::new(queries.iter().map(|tables| tables.iter().map(id).collect()).collect());
        for region in (0..topology.wan.region_count() as u16).map(RegionId) {
            let partitions: BTreeSet<PartitionId> = match scope {
                Scope::Local => topology.partitions_in(region).collect(),
                Scope::Subscribed => {
                    let node = deployment.local_analyst(&topology, region);
                    topology.nodes[node.0 as usize].subscribes.iter().copied().collect()
                }
                Scope::Global => topology.partition_ids().collect(),
            };
            for n in 0..clients.analysts {
                let analyst = Analyst {
                    shared: self.shared.clone(),
                    node: deployment.local_analyst(&topology, region),
                    consistency: system.consistency,
                    queries: queries.clone(),
                    turn: usize::from(n),
                    partitions: partitions.clone(),
                    cpu_ns: clients.queries.cpu_ns,
                    think_ns: clients.queries.think_ns,
                    rng: self.rng.fork_nth("analyst", u64::from(region.0 * 1000 + n)),
                    asked_at: None,
                };
                self.world.client_in(region, analyst);
            }
        }
    }
    fn measure(mut self, tell: &mut dyn FnMut(f64)) -> Measured {
        measure(&mut self.world, &self.shared, tell)
    }
}

/// CH's first query reads this.
pub const CH_Q1: &[&[&str]] = &[&["order_line"]];

/// TPC-C in closed loops, each client at its warehouse; analysts of each data centre read tables of their own
/// data centre, one set after another. `faults` happen so many ns after the window begins.
#[allow(clippy::too_many_arguments)]
pub fn tpcc(
    deployment: &Deployment,
    system: &System,
    warehouses: i32,
    clients: Clients,
    queries: &[&[&str]],
    faults: &[(u64, Fault)],
    span: Window,
    seed: u64,
    tell: &mut dyn FnMut(f64),
) -> Measured {
    let tpcc = Tpcc { items: 50, customers: 3, ..Tpcc::new(warehouses).seed(seed) };
    let fill = |world: &mut Cluster| load(world, &tpcc, &Placement::Hash);
    let mut scene = Scene::new(deployment, system, seed, fill, span);
    for n in 0..clients.terminals {
        let mut inputs = Inputs::new(&tpcc, Mix::default(), n, clients.terminals, 1 << 40);
        let shared = &scene.shared;
        let gateway = shared.topology.node_of(home_of(&shared.catalog, &shared.topology, inputs.w));
        let calls: Calls = Box::new(move |now| inputs.next_input().call((now.0 / 1000) as i64));
        scene.terminal(u64::from(n), gateway, clients.think_ns, calls);
    }
    if clients.analysts > 0 {
        scene.analysts(deployment, system, clients, queries, Scope::Local);
    }
    for (after_ns, fault) in faults {
        scene.world.fault_at(scene.shared.begin + *after_ns, fault.clone());
    }
    scene.measure(tell)
}

/// HTAPBench-E: clients trade for their accounts; analysts everywhere read these tables whole.
#[allow(clippy::too_many_arguments)]
pub fn tpce(
    deployment: &Deployment,
    system: &System,
    sizes: &Tpce,
    clients: Clients,
    tables: &[&str],
    span: Window,
    seed: u64,
    tell: &mut dyn FnMut(f64),
) -> Measured {
    let fill = |world: &mut Cluster| {
        let topology = world.topology().clone();
        let change = populate::schema(tpce::TABLES.iter(), &Placement::Hash, 1, &topology);
        let catalog = populate::create(world, change);
        populate::fill(world, &catalog, sizes.rows());
        catalog
    };
    let mut scene = Scene::new(deployment, system, seed, fill, span);
    for n in 0..clients.terminals {
        let rng = scene.rng.fork_nth("trader", u64::from(n));
        let mut inputs = tpce::Inputs::new(sizes, i64::from(n), i64::from(clients.terminals), rng);
        let gateway =
            home(&scene.shared.catalog, &scene.shared.topology, "customer_account", inputs.account());
        let calls: Calls = Box::new(move |now| inputs.next_call((now.0 / 1000) as i64));
        scene.terminal(u64::from(n), gateway, clients.think_ns, calls);
    }
    scene.analysts(deployment, system, clients, &[tables], Scope::Global);
    scene.measure(tell)
}

/// Microbench-Zipf: clients move amounts among keys of their homes; analysts sum columns.
#[allow(clippy::too_many_arguments)]
pub fn micro(
    deployment: &Deployment,
    system: &System,
    sizes: &Micro,
    clients: Clients,
    scope: Scope,
    span: Window,
    seed: u64,
    tell: &mut dyn FnMut(f64),
) -> Measured {
    micro_scene(deployment, system, sizes, clients, scope, span, seed).measure(tell)
}

/// The same, before it begins.
pub(super) fn micro_scene(
    deployment: &Deployment,
    system: &System,
    sizes: &Micro,
    clients: Clients,
    scope: Scope,
    span: Window,
    seed: u64,
) -> Scene {
    let fill = |world: &mut Cluster| {
        let topology = world.topology().clone();
        let change = populate::schema(std::iter::once(&micro::MICRO), &Placement::Hash, 1, &topology);
        let catalog = populate::create(world, change);
        populate::fill(world, &catalog, sizes.rows().map(|values| (micro::MICRO.name, values)));
        catalog
    };
    let mut scene = Scene::new(deployment, system, seed, fill, span);
    for n in 0..clients.terminals {
        let at = i64::from(n) % sizes.homes + 1;
        let rng = scene.rng.fork_nth("mover", u64::from(n));
        let mut inputs = micro::Inputs::new(sizes, at, rng);
        let gateway = home(&scene.shared.catalog, &scene.shared.topology, micro::MICRO.name, at);
        let calls: Calls = Box::new(move |_| inputs.next_call());
        scene.terminal(u64::from(n), gateway, clients.think_ns, calls);
    }
    scene.analysts(deployment, system, clients, &[&[micro::MICRO.name]], scope);
    scene
}

fn home(catalog: &Catalog, topology: &Topology, table: &str, value: i64) -> NodeId {
    let table = catalog.require(table).expect("a table that was made");
    match table.locate(&Datum::Int(value), topology) {
        Location::One(partition) => topology.node_of(partition),
        Location::Everywhere => unreachable!("these tables have homes"),
    }
}

/// The columns of a table of visibility delays; means, so that the parts add up.
pub fn breakdown(measured: &Measured, paper_ms: Option<[f64; 3]>, predicted_ms: Option<[f64; 3]>) -> Line {
    let sum = |parts: Option<[f64; 3]>| parts.map_or(Value::Null, |parts| json!(parts.iter().sum::<f64>()));
    vec![
        ("staleness_ms", json!(measured.mean_ms(|f| f.staleness_ns))),
        ("coordination_ms", json!(measured.mean_ms(|f| f.coordination_ns))),
        ("wait_ms", json!(measured.mean_ms(|f| f.wait_ns))),
        ("total_ms", json!(measured.mean_ms(|f| f.visibility_delay_ns()))),
        ("paper_total_ms", sum(paper_ms)),
        ("predicted_total_ms", sum(predicted_ms)),
        ("p50_ms", json!(measured.delay_ms(0.5))),
        ("p99_ms", json!(measured.delay_ms(0.99))),
        ("queries", json!(measured.seen.queries.len())),
    ]
}

/// What the writers had of it.
pub fn throughput(measured: &Measured) -> Line {
    vec![
        ("tp_per_s", json!(measured.committed_per_s())),
        ("single_region_p50_ms", json!(latency_ms(&measured.seen.single_region_us, 0.5))),
        ("single_region_p99_ms", json!(latency_ms(&measured.seen.single_region_us, 0.99))),
        ("multi_region_p50_ms", json!(latency_ms(&measured.seen.multi_region_us, 0.5))),
        ("messages_per_txn", json!(measured.messages_per_commit())),
        ("graph_bytes_per_txn", json!(measured.graph_bytes_per_txn()[0])),
        ("graph_bytes_streamed_per_txn", json!(measured.graph_bytes_per_txn()[1])),
    ]
}
