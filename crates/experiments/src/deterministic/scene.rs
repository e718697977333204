//! Machines, systems and workloads, and a run of one on another.

use super::load::{Clients, Costs, Kind, Shared};
use super::touched;
use crate::Scale;
use crate::populate;
use crate::tpcc::home_of;
use base::rng::Rng;
use base::schema::{Catalog, Location};
use base::time::{MS, SECOND, US};
use base::topology::{NodeSpec, PartitionSpec, Topology};
use base::wan::Wan;
use base::{Datum, NodeId, PartitionId, RegionId};
use node::Node;
use serde_json::{Value, json};
use sim::world::network::{Jitter, LinkFaults, Links};
use sim::world::{Cost, Setup, Wire, World};
use std::rc::Rc;
use std::sync::Arc;
use txn::baseline::{calvin, slog};
use txn::caerus::options::{Admission, Batching, Ranks, Replication};
use txn::caerus::{Agreement, Caerus, FutureRanks, Options, Routing};
use txn::engine::Engine as _;
use workload::movr::{self, Movr};
use workload::table::Placement;
use workload::tpcc::{Input, Inputs, Kind as Transaction, Mix, Tpcc};

pub type Cluster = World<Node<Caerus>>;

/// Nodes of a region, each with one of the region's partitions and copies of one of every other region's.
const NODES: u16 = 4;
/// Of all multi-warehouse transactions' share, as in the paper.
const MULTI_WAREHOUSE: f64 = 0.10;

/// Who orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct System {
    pub name: &'static str,
    pub routing: Routing,
    pub batching: Batching,
    /// Ranks in the future and clocks within a bound, for queries beside; otherwise neither.
    pub serves_queries: bool,
    /// K, for the regions' own sequences.
    pub copies_elsewhere: usize,
    pub agreement: Agreement,
    /// That keep a region's sequence.
    pub machines_inside: usize,
    pub hold_percent: u64,
    pub suspect_after_ns: Option<u64>,
}

const fn system(name: &'static str, routing: Routing) -> System {
    System {
        name,
        routing,
        batching: Batching { interval_ns: 2 * MS, interval_max_ns: 20 * MS },
        serves_queries: false,
        copies_elsewhere: 0,
        agreement: Agreement::StandingLeader,
        machines_inside: 1,
        hold_percent: 100,
        suspect_after_ns: None,
    }
}

/// Nothing that is not needed: no copies inside a region, one round between regions, batches of 2 ms for everybody.
pub const IDEALISED: [System; 3] = [
    system("caerus, idealised", Routing::Direct),
    system("slog, idealised", slog::ROUTING),
    system("calvin, idealised", calvin::ROUTING),
];
/// A region's sequence is on three machines, as in the paper.
pub const CAERUS: System = System { name: "caerus", machines_inside: 3, ..IDEALISED[0] };
/// As its paper and Caerus' describe it: so are a region's logs; batches of 10 ms; Paxos in two rounds.
pub const SLOG: System = System { name: "slog", machines_inside: 3, ..as_described(IDEALISED[1]) };
/// Likewise; it has no logs of regions.
pub const CALVIN: System = System { name: "calvin", ..as_described(IDEALISED[2]) };
/// As compared throughout.
pub const SYSTEMS: [System; 3] = [CAERUS, SLOG, CALVIN];

const fn as_described(system: System) -> System {
    System { batching: Batching::every(10 * MS), agreement: Agreement::PaxosPerEntry, ..system }
}

impl System {
    pub fn options(&self) -> Options {
        let future = if self.serves_queries { FutureRanks::Measured } else { FutureRanks::Off };
        let System { routing, batching, copies_elsewhere, .. } = *self;
        let System { agreement, machines_inside, hold_percent, suspect_after_ns, .. } = *self;
        let Options { replication, admission, .. } = Options::default();
        Options {
            routing,
            copies_elsewhere,
            replication: Replication { agreement, machines_inside, suspect_after_ns, ..replication },
            batching,
            ranks: Ranks { future, ..Ranks::default() },
            append_delay_percent: hold_percent,
            // An open loop is not to be throttled.
            admission: Admission { outstanding_max: usize::MAX, unordered_max: usize::MAX, ..admission },
            ..Options::default()
        }
    }
}

/// What clients ask for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Workload {
    /// TPC-C NewOrder; a tenth touches two warehouses, this share of those in two regions.
    NewOrder { of_multi_warehouse: f64 },
    /// MovR BeginRide; the share of users who are in a close region, and in a far one.
    BeginRide { close: f64, far: f64 },
}

impl Workload {
    pub fn name(self) -> &'static str {
        match self {
            Workload::NewOrder { .. } => "TPC-C NewOrder",
            Workload::BeginRide { .. } => "MovR BeginRide",
        }
    }
    /// Share of transactions that span regions, in per cent.
    pub fn multi_region_pct(self) -> f64 {
        let share = match self {
            Workload::NewOrder { of_multi_warehouse } => MULTI_WAREHOUSE * of_multi_warehouse,
            Workload::BeginRide { close, far } => close + far,
        };
        (share * 1000.0).round() / 10.0
    }
}

/// Where the six full copies are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// All in one region.
    OneRegion,
    /// Six regions of one continent, 6 ms apart.
    NorthAmerica,
    /// Three regions there, three in Europe.
    AndEurope,
    /// The preset `azure6`: two there, two in Europe, two in Asia.
    AndAsia,
    /// One copy alone.
    Alone,
}

impl Place {
    pub fn name(self) -> &'static str {
        match self {
            Place::OneRegion => "SR",
            Place::NorthAmerica => "NA",
            Place::AndEurope => "+EU",
            Place::AndAsia => "+AP",
            Place::Alone => "alone",
        }
    }
    fn wan(self) -> Wan {
        let azure = Wan::preset("azure6").expect("a preset");
        let names: Vec<&str> = azure.regions.iter().map(String::as_str).collect();
        let apart = |of: &dyn Fn(usize, usize) -> u64| {
            let mut wan = Wan::uniform("regions", &names, MS, MS);
            for (a, row) in wan.round_trip_ns.iter_mut().enumerate() {
                for (b, round_trip_ns) in row.iter_mut().enumerate() {
                    *round_trip_ns = if a == b { MS } else { of(a, b) * MS };
                }
            }
            wan
        };
        match self {
            Place::OneRegion => apart(&|_, _| 1),
            Place::NorthAmerica => apart(&|_, _| 6),
            Place::AndEurope => apart(&|a, b| match (a / 3, b / 3) {
                (0, 0) => 6,
                (1, 1) => 12,
                _ => 82,
            }),
            Place::AndAsia => azure,
            Place::Alone => azure.truncated(1),
        }
    }
    pub fn topology(self, clock_bound_ns: u64) -> Topology {
        let wan = self.wan();
        let (mut nodes, mut partitions) = (Vec::new(), Vec::new());
        for region in (0..wan.region_count() as u16).map(RegionId) {
            for _ in 0..NODES {
                let node = NodeId(nodes.len() as u16);
                nodes.push(NodeSpec { region, subscribes: Vec::new() });
                partitions.push(PartitionSpec { region, node, copies: Vec::new() });
            }
        }
        Topology { nodes, partitions, clock_bound_ns, ..Topology::one_node_per_region(wan, 1) }.replicated()
    }
}

/// How large it is, and what work costs.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// What one client asks for; 200 in the paper.
    pub per_client_per_s: u64,
    /// Warehouses, or cities, of one region.
    pub homes_per_region: i64,
    pub users_per_home: i64,
    pub vehicles_per_home: i64,
    pub warm_up_ns: u64,
    pub measured_ns: u64,
    pub cost: Cost,
}

impl Size {
    /// At scale small everything that a second brings is a twentieth, and takes twenty times as long; so are the
    /// warehouses and vehicles that it falls on.
    pub fn of(scale: Scale) -> Size {
        let slower = match scale {
            Scale::Small => 20,
            Scale::Paper => 1,
        };
        let per_region = match scale {
            Scale::Small => 8,
            Scale::Paper => 160,
        };
        Size {
            per_client_per_s: 200 / slower,
            homes_per_region: per_region,
            users_per_home: 400,
            vehicles_per_home: 42,
            warm_up_ns: SECOND,
            measured_ns: 2 * SECOND,
            cost: Cost { event_ns: 20 * US, kilobyte_ns: 20 * US * slower, cores: 1, ..Cost::default() },
        }
    }
    fn movr(&self, regions: u16) -> Movr {
        let homes = self.homes_per_region * i64::from(regions);
        let (users_per_home, vehicles_per_home) = (self.users_per_home, self.vehicles_per_home);
        Movr { homes, users_per_home, vehicles_per_home }
    }
}

/// So many clients, or fewer, are watched so many times as long.
const FEW: u32 = 120;
const LONGER: u64 = 3;

/// Regions nearer than this are close, as in the paper.
pub const CLOSE_NS: u64 = 50 * MS;

/// One run.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub system: System,
    pub workload: Workload,
    pub place: Place,
    pub clients: u32,
}

impl Case {
    pub fn name(&self) -> String {
        let Case { system, workload, place, clients } = self;
        let (name, pct) = (workload.name(), workload.multi_region_pct());
        format!("{}, {name} {pct} %, {}, {clients} clients", system.name, place.name())
    }
}

fn links() -> Links {
    let class = |half_ns| {
        let jitter = Jitter::Tail { half_ns };
        LinkFaults { jitter, in_order: true, ..LinkFaults::default() }
    };
    Links { inside: class(50 * US), across: class(200 * US) }
}

/// A loaded cluster with its clients, who begin now.
pub fn stage(case: &Case, size: &Size, seed: u64) -> (Cluster, Rc<Shared>) {
    let clock_bound_ns = if case.system.serves_queries { MS } else { 0 };
    let topology = Arc::new(case.place.topology(clock_bound_ns));
    let regions = topology.wan.region_count() as u16;
    let homes = size.homes_per_region * i64::from(regions);
    let tpcc = Tpcc::new(homes as i32).seed(seed);
    let procedures = Arc::new(match case.workload {
        Workload::NewOrder { .. } => touched::procedures(&tpcc),
        Workload::BeginRide { .. } => workload::procedures(),
    });
    let factory = {
        let (topology, procedures, options) = (topology.clone(), procedures.clone(), case.system.options());
        move |id, life, _: &[Vec<u8>]| {
            let engine = Caerus::new(topology.clone(), id, life, options.clone());
            Node::new(id, topology.clone(), procedures.clone(), engine, node::Options::default())
        }
    };
    let setup = Setup { links: links(), wire: Wire::Measured, ..Setup::calm((*topology).clone(), seed) };
    let mut world: Cluster = World::new(setup, factory);
    let placement = Placement::RoundRobin(topology.wan.regions.clone());
    let (catalog, mut calls) = match case.workload {
        Workload::NewOrder { of_multi_warehouse } => {
            let catalog = touched::load(&mut world, &tpcc, &placement);
            (catalog, orders(tpcc, regions, of_multi_warehouse, seed))
        }
        Workload::BeginRide { close, far } => {
            let movr = size.movr(regions);
            let change = populate::schema(movr::TABLES.into_iter(), &placement, homes as u32, &topology);
            let catalog = populate::create(&mut world, change);
            populate::fill(&mut world, &catalog, movr.rows());
            (catalog, rides(movr, topology.clone(), (close, far), seed))
        }
    };
    world.charge(size.cost);
    let begin = world.now() + size.warm_up_ns;
    let shared = Rc::new(Shared::new(catalog.clone(), topology.clone(), procedures, begin, size.measured_ns));
    let every_ns = SECOND * homes as u64 / (size.per_client_per_s * u64::from(case.clients));
    for home in 1..=homes {
        let clients = Clients {
            shared: shared.clone(),
            gateway: topology.node_of(partition_of(&catalog, &topology, case.workload, home)),
            calls: calls(home),
            every_ns,
            rng: Rng::new(seed).fork_nth("clients", home as u64),
            waiting: std::collections::BTreeMap::new(),
        };
        world.client(clients);
    }
    (world, shared)
}

fn partition_of(catalog: &Catalog, topology: &Topology, workload: Workload, home: i64) -> PartitionId {
    match workload {
        Workload::NewOrder { .. } => home_of(catalog, topology, home as i32),
        Workload::BeginRide { .. } => {
            let users = catalog.require("users").expect("a table of MovR");
            match users.locate(&Datum::Int(home), topology) {
                Location::One(partition) => partition,
                Location::Everywhere => unreachable!("users have homes"),
            }
        }
    }
}

/// What one home's clients ask for, one after another.
type Calls = Box<dyn FnMut(base::Time) -> (&'static str, Vec<Datum>)>;

/// Values 1, 2, 3, … of a home belong to the regions in turn.
fn region_of(home: i64, regions: u16) -> i64 {
    (home - 1) % i64::from(regions)
}

fn orders(tpcc: Tpcc, regions: u16, of_multi_warehouse: f64, seed: u64) -> Box<dyn FnMut(i64) -> Calls> {
    let all = 1..=i64::from(tpcc.warehouses);
    Box::new(move |home| {
        let mix = Mix { remote_line: 0.0, unknown_item: 0.0, ..Mix::only(Transaction::NewOrder) };
        let mut inputs = Inputs::new(&tpcc, mix, home as u32 - 1, tpcc.warehouses as u32, 0);
        let mut rng = Rng::new(seed).fork_nth("orders", home as u64);
        let is_here = |other: &i64| region_of(*other, regions) == region_of(home, regions);
        let here: Vec<i64> = all.clone().filter(|other| is_here(other) && *other != home).collect();
        let elsewhere: Vec<i64> = all.clone().filter(|other| !is_here(other)).collect();
        Box::new(move |now| {
            let mut input = inputs.next_input();
            if let Input::NewOrder(order) = &mut input
                && rng.chance(MULTI_WAREHOUSE)
            {
                let spans = rng.chance(of_multi_warehouse) && !elsewhere.is_empty();
                order.lines[0].supply_w = *rng.pick(if spans { &elsewhere } else { &here }) as i32;
                order.lines.sort_unstable();
            }
            input.call((now.0 / 1000) as i64)
        })
    })
}

fn rides(
    movr: Movr,
    topology: Arc<Topology>,
    travels: (f64, f64),
    seed: u64,
) -> Box<dyn FnMut(i64) -> Calls> {
    let regions = topology.wan.region_count() as u16;
    Box::new(move |home| {
        let region = |home| RegionId(region_of(home, regions) as u16);
        let apart_ns = |other: i64| match region(other) == region(home) {
            true => 0,
            false => topology.wan.round_trip_ns(region(home), region(other)),
        };
        let within = |low: u64, high: u64| -> Vec<i64> {
            (1..=movr.homes).filter(|other| (low..high).contains(&apart_ns(*other))).collect()
        };
        let mut inputs = movr::Inputs {
            movr: movr.clone(),
            own: vec![home],
            here: within(0, 1),
            close: within(1, CLOSE_NS),
            far: within(CLOSE_NS, u64::MAX),
            travels,
            ride: (home, movr.homes),
            rng: Rng::new(seed).fork_nth("rides", home as u64),
        };
        Box::new(move |_| inputs.next_call())
    })
}

/// What its clients saw.
pub fn run(case: &Case, size: &Size, seed: u64, tell: &mut dyn FnMut(f64)) -> Rc<Shared> {
    let factor = if case.clients <= FEW { LONGER } else { 1 };
    let size = Size { measured_ns: factor * size.measured_ns, ..*size };
    let (mut world, shared) = stage(case, &size, seed);
    // What is late still counts, up to here.
    let until = shared.until + 2 * SECOND;
    let start = world.now();
    let (mut before, mut queued) = ((Costs::default(), Vec::new()), 0);
    while world.now() < until {
        if world.now() == shared.begin {
            before = (totals(&world), used(&world));
        }
        // The window begins and ends with a step.
        world.run_until(until.min(world.now() + 100 * MS));
        tell(world.now().since(start) as f64 / until.since(start) as f64);
        let waiting = world.topology().node_ids().map(|node| world.queue_len(node) as u64).max();
        queued = queued.max(waiting.unwrap_or(0));
        if world.now() == shared.until {
            let (after, first) = (totals(&world), before.0);
            let used_ns = used(&world).iter().zip(&before.1).map(|(after, before)| after - before).max();
            shared.seen.borrow_mut().costs = Costs {
                messages: after.messages - first.messages,
                bytes: after.bytes - first.bytes,
                sent: after.sent - first.sent,
                resent: after.resent - first.resent,
                used_ns: used_ns.unwrap_or(0),
                queued,
            };
        }
    }
    shared.seen.borrow_mut().close(until);
    shared
}

/// What each machine has done so far.
fn used(world: &Cluster) -> Vec<u64> {
    world.topology().node_ids().map(|node| world.used_ns(node)).collect()
}

/// What was sent so far.
fn totals(world: &Cluster) -> Costs {
    let counters = world.counters();
    let nodes = world.topology().node_ids().filter_map(|node| world.node(node));
    let engines: Vec<_> = nodes.map(|node| node.engine().report().counters).collect();
    let all = |name: &str| engines.iter().filter_map(|counters| counters.get(name)).sum();
    Costs {
        messages: counters.inside.sent + counters.across.sent,
        bytes: counters.inside.bytes + counters.across.bytes,
        sent: all("entries sent"),
        resent: all("entries sent again"),
        ..Costs::default()
    }
}

/// What holds of all systems alike.
pub fn conditions(size: &Size) -> Vec<(&'static str, Value)> {
    vec![
        ("distances", json!("azure6, 1 ms inside, with jitter (half the surplus is under 0.2 ms)")),
        ("nodes", json!(format!("6 regions × {NODES}, each region a full copy"))),
        ("K", json!("0 for regions' sequences; the log of all regions needs 4 of 6")),
        ("clock bound", json!("0, ranks of now (no queries beside), unless said otherwise")),
        (
            "batch ceiling (ms), on every link of the ordering path",
            json!("caerus 2, up to 20 where a node is behind; slog and calvin 10; idealised as caerus"),
        ),
        ("a region's sequence", json!("on three machines, two have to have an entry; idealised: on one")),
        (
            "log of all regions",
            json!("Paxos, two rounds for what leaves together; idealised: one, of a standing leader"),
        ),
        ("transactions per second of one client", json!(size.per_client_per_s)),
        ("cost of an event (µs)", json!(size.cost.event_ns as f64 / 1e3)),
        ("cost of a KiB received (µs)", json!(size.cost.kilobyte_ns as f64 / 1e3)),
        (
            "TPC-C",
            json!(format!(
                "{} warehouses a region, 100,000 items; 10 % of orders touch two warehouses",
                size.homes_per_region
            )),
        ),
        (
            "MovR",
            json!(format!(
                "{} cities a region, each {} users and {} vehicles",
                size.homes_per_region, size.users_per_home, size.vehicles_per_home
            )),
        ),
        (
            "seconds measured, after 1 of warm-up",
            json!(format!(
                "{}, {LONGER} times as long with {FEW} clients or fewer",
                size.measured_ns / SECOND
            )),
        ),
    ]
}

/// Which kind of transaction it is, by the regions of what it touches.
pub fn kind_of(topology: &Topology, mut regions: impl Iterator<Item = RegionId> + Clone) -> Kind {
    let first = regions.next().expect("it touches something");
    let apart_ns = regions.filter(|r| *r != first).map(|r| topology.wan.round_trip_ns(first, r)).max();
    match apart_ns {
        None => Kind::Single,
        Some(ns) if ns < CLOSE_NS => Kind::Close,
        Some(_) => Kind::Far,
    }
}
