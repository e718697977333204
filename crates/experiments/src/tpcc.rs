//! TPC-C in a virtual world: its tables by the catalog, its rows, its terminals, and analysts beside them.

use super::populate::{self, submission};
use base::cut::{Consistency, Freshness};
use base::process::Process;
use base::rng::Rng;
use base::schema::{Catalog, Location};
use base::topology::Topology;
use base::txn::procedure::Procedures;
use base::txn::{Outcome, TxnProgram};
use base::{Datum, NodeId, PartitionId, RequestId, TableId, Time, Token};
use node::request::{OpenSnapshot, Reply, Request};
use sim::world::World;
use sim::world::client::{Client, ClientEffects, ClientEvent};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use workload::table::Placement;
use workload::tpcc::{Inputs, Table as Known, Tpcc};

/// Creates the tables and loads every warehouse through its node, then lets every copy catch up. Items are
/// everywhere; warehouses go where `placement` says.
pub fn load<P>(world: &mut World<P>, tpcc: &Tpcc, placement: &Placement) -> Arc<Catalog>
where
    P: Process<Request = Request, Reply = Reply> + 'static,
{
    let topology = world.topology().clone();
    let change = populate::schema(
        Known::ALL.iter().map(|known| known.spec()),
        placement,
        tpcc.warehouses as u32,
        &topology,
    );
    let catalog = populate::create(world, change);
    let of = |known: Known, w| tpcc.rows(known, w).map(move |values| (known.spec().name, values));
    let homed = Known::ALL.into_iter().filter(|known| *known != Known::Item);
    let warehouses = (1..=tpcc.warehouses).flat_map(|w| homed.clone().flat_map(move |known| of(known, w)));
    populate::fill(world, &catalog, of(Known::Item, 1).chain(warehouses));
    catalog
}

/// The partition of a warehouse.
pub fn home_of(catalog: &Catalog, topology: &Topology, warehouse: i32) -> PartitionId {
    let table = catalog.require("warehouse").expect("a table of TPC-C");
    match table.locate(&Datum::Int(warehouse.into()), topology) {
        Location::One(partition) => partition,
        Location::Everywhere => unreachable!("warehouses have homes"),
    }
}

/// One answered transaction.
#[derive(Clone, Debug)]
pub struct Done {
    pub asked_at: Time,
    pub latency_ns: u64,
    pub regions: usize,
    /// Nominal round trip to the farthest of them.
    pub farthest_ns: u64,
    /// Nodes that run a partition it touches.
    pub nodes: usize,
    pub committed: bool,
    pub phases: Vec<(&'static str, u64)>,
}

/// A warehouse's terminals together, as an open loop: transactions come at random, about `every_ns`
/// apart, whether or not earlier ones were answered.
pub struct Terminals {
    pub inputs: Inputs,
    pub gateway: NodeId,
    pub every_ns: u64,
    pub until: Time,
    pub catalog: Arc<Catalog>,
    pub topology: Arc<Topology>,
    pub procedures: Arc<Procedures>,
    pub rng: Rng,
    /// When it was asked, and how many nodes take part.
    pub waiting: BTreeMap<RequestId, (Time, usize)>,
    pub log: Rc<RefCell<Vec<Done>>>,
}

impl<P: Process<Request = Request, Reply = Reply>> Client<P> for Terminals {
    fn step(&mut self, now: Time, event: ClientEvent<P>, out: &mut ClientEffects<P>) {
        match event {
            ClientEvent::Start => out.wake_at(now + self.rng.below(2 * self.every_ns), 0),
            ClientEvent::Wake(_) if now < self.until => {
                let (name, args) = self.inputs.next_input().call((now.0 / 1000) as i64);
                let procedure = self.procedures.get(name).expect("a registered procedure");
                let access = procedure.declare(&args, &self.catalog, &self.topology);
                let access = access.unwrap_or_else(|e| panic!("{name} cannot be declared: {e}"));
                let nodes = access.by_partition.keys().map(|p| self.topology.node_of(*p));
                let nodes = nodes.collect::<BTreeSet<NodeId>>().len();
                let program = TxnProgram::Procedure { name: name.into(), args };
                let id = out.ask(self.gateway, Request::Submit(submission(program, access)));
                self.waiting.insert(id, (now, nodes));
                out.wake_at(now + self.rng.below(2 * self.every_ns), 0);
            }
            ClientEvent::Wake(_) => {}
            ClientEvent::Reply { id, reply: Reply::Submitted(answer) } => {
                let (asked_at, nodes) = self.waiting.remove(&id).expect("asked before");
                let answer = answer.unwrap_or_else(|e| panic!("a transaction is refused: {e}"));
                let committed = match &answer.outcome {
                    Outcome::Committed { .. } => true,
                    // One order in a hundred names an unknown item and is rolled back.
                    Outcome::Aborted(e) => {
                        assert_eq!(e.state.as_str(), workload::tpcc::UNKNOWN_ITEM, "{e}");
                        false
                    }
                };
                let here = self.topology.region_of(self.gateway);
                let round_trip = |region| self.topology.wan.round_trip_ns(here, region);
                let farthest_ns =
                    answer.regions.iter().filter(|r| **r != here).map(|r| round_trip(*r)).max().unwrap_or(0);
                self.log.borrow_mut().push(Done {
                    asked_at,
                    latency_ns: now.since(asked_at),
                    regions: answer.regions.len(),
                    farthest_ns,
                    nodes,
                    committed,
                    phases: answer.phases,
                });
            }
            _ => panic!("an answer to another question"),
        }
    }
    fn is_done(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// One answered query.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    pub asked_at: Time,
    pub latency_ns: u64,
    pub freshness: Freshness,
}

/// Opens a snapshot of `order_line`, what CH's first query reads, again and again, about `every_ns` apart.
pub struct Analyst {
    pub node: NodeId,
    pub consistency: Consistency,
    pub table: TableId,
    pub partitions: BTreeSet<PartitionId>,
    pub every_ns: u64,
    pub until: Time,
    pub rng: Rng,
    pub waiting: BTreeMap<RequestId, Time>,
    pub log: Rc<RefCell<Vec<Asked>>>,
}

impl<P: Process<Request = Request, Reply = Reply>> Client<P> for Analyst {
    fn step(&mut self, now: Time, event: ClientEvent<P>, out: &mut ClientEffects<P>) {
        match event {
            ClientEvent::Start => out.wake_at(now + self.rng.below(2 * self.every_ns), 0),
            ClientEvent::Wake(_) if now < self.until => {
                let open = OpenSnapshot {
                    at: None,
                    consistency: self.consistency,
                    token: Token::default(),
                    tables: [(self.table, self.partitions.clone())].into(),
                    wanted: BTreeMap::new(),
                };
                self.waiting.insert(out.ask(self.node, Request::OpenSnapshot(open)), now);
                out.wake_at(now + self.rng.below(2 * self.every_ns), 0);
            }
            ClientEvent::Wake(_) => {}
            ClientEvent::Reply { id, reply: Reply::Snapshot(snapshot) } => {
                let asked_at = self.waiting.remove(&id).expect("asked before");
                let snapshot = snapshot.unwrap_or_else(|e| panic!("a query is refused: {e}"));
                let latency_ns = now.since(asked_at);
                self.log.borrow_mut().push(Asked { asked_at, latency_ns, freshness: snapshot.freshness });
            }
            _ => panic!("an answer to another question"),
        }
    }
    fn is_done(&self) -> bool {
        self.waiting.is_empty()
    }
}
