//! Clients in closed loops, and what they saw within the measured window.

use super::deployment::{Analytics, Deployment, Window};
use super::systems::System;
use crate::populate::submission;
use base::cut::{Consistency, Freshness};
use base::process::Process;
use base::rng::Rng;
use base::schema::Catalog;
use base::topology::Topology;
use base::txn::procedure::Procedures;
use base::txn::{Outcome, TxnProgram};
use base::{Datum, NodeId, PartitionId, TableId, Time, Token};
use node::Node;
use node::request::{OpenSnapshot, Reply, Request};
use sim::world::client::{Client, ClientEffects, ClientEvent};
use sim::world::{Counters, World};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};
use txn::engine::Engine;
use txn::perseus::Perseus;

pub type Cluster = World<Node<Perseus>>;

/// A world of this system's nodes.
pub fn world(deployment: &Deployment, system: &System, seed: u64, procedures: Arc<Procedures>) -> Cluster {
    let (setup, options) = (deployment.setup(seed), system.node());
    let engine = txn::perseus::Options { measure_graph: true, ..system.engine() };
    let topology = Arc::new(setup.topology.clone());
    let asked: BTreeSet<NodeId> = match deployment.analytics {
        Analytics::None => BTreeSet::new(),
        _ => {
            let regions = (0..topology.wan.region_count() as u16).map(base::RegionId);
            regions.map(|region| deployment.local_analyst(&topology, region)).collect()
        }
    };
    let mut world = World::new(setup, move |id, life, _: &[Vec<u8>]| {
        let engine = Perseus::new(topology.clone(), id, life, engine.clone());
        // What nobody asks costs no memory. In virtual time it costs the same.
        let kept = node::Kept { columns: asked.contains(&id), ..options.kept.clone() };
        let options = node::Options { kept, ..options.clone() };
        Node::new(id, topology.clone(), procedures.clone(), engine, options)
    });
    world.threads(deployment.threads);
    world
}

/// What clients of one run have in common.
pub struct Shared {
    pub catalog: Arc<Catalog>,
    pub topology: Arc<Topology>,
    pub procedures: Arc<Procedures>,
    pub begin: Time,
    pub until: Time,
    /// By region: clients of different regions may run at the same time.
    seen: Vec<Mutex<Seen>>,
}

/// What was answered within the window; latencies in µs.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub committed: u64,
    pub aborted: u64,
    pub single_region_us: Vec<u32>,
    pub multi_region_us: Vec<u32>,
    pub queries: Vec<Freshness>,
    /// Which of its analyst's queries each was.
    pub kinds: Vec<u8>,
    /// When each query was asked, ns since the window's begin.
    pub asked_ns: Vec<u64>,
    /// Queries that were read to their end.
    pub queries_done: u64,
}

impl Seen {
    fn add(&mut self, other: Seen) {
        let Seen { committed, aborted, single_region_us, multi_region_us, .. } = other;
        let Seen { queries, kinds, asked_ns, queries_done, .. } = other;
        self.committed += committed;
        self.aborted += aborted;
        self.single_region_us.extend(single_region_us);
        self.multi_region_us.extend(multi_region_us);
        self.queries.extend(queries);
        self.kinds.extend(kinds);
        self.asked_ns.extend(asked_ns);
        self.queries_done += queries_done;
    }
}

impl Shared {
    pub fn new(
        catalog: Arc<Catalog>,
        topology: Arc<Topology>,
        procedures: Arc<Procedures>,
        (begin, until): (Time, Time),
    ) -> Shared {
        let seen = (0..topology.wan.region_count()).map(|_| Mutex::default()).collect();
        Shared { catalog, topology, procedures, begin, until, seen }
    }
    /// What clients of this node's region have seen.
    fn seen(&self, node: NodeId) -> MutexGuard<'_, Seen> {
        let region = self.topology.region_of(node);
        self.seen[usize::from(region.0)].lock().expect("nobody panics while it notes something")
    }
    /// What all have seen since this was asked last.
    pub fn take_seen(&self) -> Seen {
        let mut all = Seen::default();
        for seen in &self.seen {
            all.add(std::mem::take(&mut *seen.lock().expect("nobody panics while it notes something")));
        }
        all
    }
    fn measures(&self, asked_at: Time) -> bool {
        self.begin <= asked_at && asked_at < self.until
    }
}

/// A procedure and its arguments, drawn one after another.
pub type Calls = Box<dyn FnMut(Time) -> (&'static str, Vec<Datum>) + Send>;

/// A client in a closed loop: asks, waits for the answer, thinks, asks again.
pub struct Terminal {
    pub shared: Arc<Shared>,
    pub gateway: NodeId,
    pub calls: Calls,
    /// On average.
    pub think_ns: u64,
    pub rng: Rng,
    pub asked_at: Option<Time>,
}

impl<P: Process<Request = Request, Reply = Reply>> Client<P> for Terminal {
    fn step(&mut self, now: Time, event: ClientEvent<P>, out: &mut ClientEffects<P>) {
        let shared = self.shared.clone();
        match event {
            // Clients do not begin in step.
            ClientEvent::Start => out.wake_at(now + self.rng.below(2 * self.think_ns + 1), 0),
            ClientEvent::Wake(_) if now < shared.until => {
                let (name, args) = (self.calls)(now);
                let procedure = shared.procedures.get(name).expect("a registered procedure");
                let access = procedure.declare(&args, &shared.catalog, &shared.topology);
                let access = access.unwrap_or_else(|e| panic!("{name} cannot be declared: {e}"));
                let program = TxnProgram::Procedure { name: name.into(), args };
                out.ask(self.gateway, Request::Submit(submission(program, access)));
                self.asked_at = Some(now);
            }
            ClientEvent::Wake(_) => {}
            ClientEvent::Reply { reply: Reply::Submitted(answer), .. } => {
                let asked_at = self.asked_at.take().expect("asked before");
                let answer = answer.unwrap_or_else(|e| panic!("a transaction is refused: {e}"));
                if shared.measures(asked_at) {
                    let mut seen = shared.seen(self.gateway);
                    match &answer.outcome {
                        Outcome::Committed { .. } => seen.committed += 1,
                        Outcome::Aborted(_) => seen.aborted += 1,
                    }
                    let latency_us = (now.since(asked_at) / 1000) as u32;
                    match answer.regions.len() {
                        0 | 1 => seen.single_region_us.push(latency_us),
                        _ => seen.multi_region_us.push(latency_us),
                    }
                }
                if now < shared.until {
                    out.wake_at(now + self.rng.below(2 * self.think_ns + 1), 0);
                }
            }
            _ => panic!("an answer to another question"),
        }
    }
    fn is_done(&self) -> bool {
        self.asked_at.is_none()
    }
}

/// An analyst in a closed loop: opens a snapshot of some tables at some partitions, has the node's machine read
/// it, thinks, opens another.
pub struct Analyst {
    pub shared: Arc<Shared>,
    pub node: NodeId,
    pub consistency: Consistency,
    /// What its queries read, one after another.
    pub queries: Arc<Vec<Vec<TableId>>>,
    /// The next one.
    pub turn: usize,
    pub partitions: BTreeSet<PartitionId>,
    /// What a query takes of a core, beside its snapshot.
    pub cpu_ns: u64,
    pub think_ns: u64,
    pub rng: Rng,
    pub asked_at: Option<Time>,
}

/// Wakes an analyst whose query is done.
const DONE: u64 = 1;

impl<P: Process<Request = Request, Reply = Reply>> Client<P> for Analyst {
    fn step(&mut self, now: Time, event: ClientEvent<P>, out: &mut ClientEffects<P>) {
        let shared = self.shared.clone();
        match event {
            ClientEvent::Start => out.wake_at(now + self.rng.below(2 * self.think_ns + 1), 0),
            ClientEvent::Wake(DONE) => {
                if shared.begin <= now && now < shared.until {
                    shared.seen(self.node).queries_done += 1;
                }
                out.wake_at(now + self.rng.below(2 * self.think_ns + 1), 0);
            }
            ClientEvent::Wake(_) if now < shared.until => {
                let tables = &self.queries[self.turn % self.queries.len()];
                let open = OpenSnapshot {
                    at: None,
                    consistency: self.consistency,
                    token: Token::default(),
                    tables: tables.iter().map(|table| (*table, self.partitions.clone())).collect(),
                    wanted: Default::default(),
                };
                out.ask(self.node, Request::OpenSnapshot(open));
                self.asked_at = Some(now);
            }
            ClientEvent::Wake(_) => {}
            ClientEvent::Reply { reply: Reply::Snapshot(snapshot), .. } => {
                let asked_at = self.asked_at.take().expect("asked before");
                let snapshot = snapshot.unwrap_or_else(|e| panic!("a query is refused: {e}"));
                if shared.measures(asked_at) {
                    let mut seen = shared.seen(self.node);
                    seen.queries.push(snapshot.freshness);
                    seen.kinds.push((self.turn % self.queries.len()) as u8);
                    seen.asked_ns.push(asked_at.since(shared.begin));
                }
                self.turn += 1;
                if now < shared.until {
                    out.work(self.node, self.cpu_ns, DONE);
                }
            }
            _ => panic!("an answer to another question"),
        }
    }
    fn is_done(&self) -> bool {
        self.asked_at.is_none()
    }
}

/// What the window saw, and what travelled meanwhile.
pub struct Measured {
    pub seen: Seen,
    pub before: Counters,
    pub after: Counters,
    /// Bytes of dependency graph between engines, and on streams (to one subscriber each).
    pub graph_bytes: [u64; 2],
    pub measured_ns: u64,
}

impl Measured {
    pub fn committed_per_s(&self) -> f64 {
        self.seen.committed as f64 * 1e9 / self.measured_ns as f64
    }
    pub fn messages_per_commit(&self) -> f64 {
        (self.after.messages() - self.before.messages()) as f64 / self.seen.committed.max(1) as f64
    }
    /// Bytes of dependency graph for each transaction that was answered: between engines, and on streams, once
    /// whatever the number of subscribers.
    pub fn graph_bytes_per_txn(&self) -> [f64; 2] {
        let answered = (self.seen.committed + self.seen.aborted).max(1) as f64;
        self.graph_bytes.map(|bytes| bytes as f64 / answered)
    }
    /// The mean of a part of the queries' delays, in ms.
    pub fn mean_ms(&self, of: impl Fn(&Freshness) -> u64) -> f64 {
        let total: f64 = self.seen.queries.iter().map(|f| of(f) as f64).sum();
        total / self.seen.queries.len().max(1) as f64 / 1e6
    }
    /// A quantile of the queries' visibility delay, in ms.
    pub fn delay_ms(&self, quantile: f64) -> f64 {
        let mut delays: Vec<u64> = self.seen.queries.iter().map(Freshness::visibility_delay_ns).collect();
        super::super::quantile_ns(&mut delays, quantile).map_or(f64::NAN, |ns| ns as f64 / 1e6)
    }
}

/// A quantile of latencies in µs, as ms.
pub fn latency_ms(samples_us: &[u32], quantile: f64) -> f64 {
    let mut samples: Vec<u64> = samples_us.iter().map(|us| u64::from(*us) * 1000).collect();
    super::super::quantile_ns(&mut samples, quantile).map_or(f64::NAN, |ns| ns as f64 / 1e6)
}

/// The window that begins after a warm-up from now on.
pub fn window(world: &Cluster, window: Window) -> (Time, Time) {
    let begin = world.now() + window.warm_up_ns;
    (begin, begin + window.measured_ns)
}

/// Runs the warm-up and the window, and lets what is under way end; tells how far it is.
pub fn measure(world: &mut Cluster, shared: &Arc<Shared>, tell: &mut dyn FnMut(f64)) -> Measured {
    let start = world.now();
    let total_ns = shared.until.since(start) as f64;
    let mut run = |world: &mut Cluster, to: Time| {
        while world.now() < to {
            world.run_until(to.min(world.now() + 100 * base::time::MS));
            tell(world.now().since(start) as f64 / total_ns);
        }
    };
    run(world, shared.begin);
    let (before, graph_before) = (world.counters(), graph_bytes(world));
    run(world, shared.until);
    let (after, graph_after) = (world.counters(), graph_bytes(world));
    let graph_bytes = [0, 1].map(|n| graph_after[n] - graph_before[n]);
    let limit = shared.until + 60 * base::time::SECOND;
    world.run_to_rest(limit).unwrap_or_else(|stuck| panic!("{stuck}"));
    let seen = shared.take_seen();
    Measured { seen, before, after, graph_bytes, measured_ns: shared.until.since(shared.begin) }
}

fn graph_bytes(world: &Cluster) -> [u64; 2] {
    let nodes = world.topology().node_ids().filter_map(|node| world.node(node));
    let counters: Vec<_> = nodes.map(|node| node.engine().report().counters).collect();
    ["graph bytes sent", "graph bytes streamed"].map(|name| counters.iter().map(|c| c[name]).sum())
}
