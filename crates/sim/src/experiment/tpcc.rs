//! TPC-C in a virtual world: its tables by the catalog, its rows, its terminals, and analysts beside them.

use crate::cluster::script_client::ScriptClient;
use crate::world::World;
use crate::world::client::{Client, ClientEffects, ClientEvent};
use base::cut::{Consistency, Freshness};
use base::process::Process;
use base::rng::Rng;
use base::schema::{Catalog, Location, SchemaAction, SchemaChange};
use base::time::SECOND;
use base::topology::Topology;
use base::txn::procedure::Procedures;
use base::txn::{AccessMode, AccessSet, Granule, OnConflict, Outcome, Statement, Submission, TxnProgram};
use base::{Datum, NodeId, PartitionId, RequestId, Row, TableId, Time, Token};
use node::request::{OpenSnapshot, Reply, Request, Submitted};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use workload::table::Placement;
use workload::tpcc::{Inputs, Table as Known, Tpcc};

/// The TPC-C catalog: warehouses go to the regions in turn, items are everywhere.
pub fn schema(tpcc: &Tpcc, topology: &Topology) -> SchemaChange {
    let placement = Placement::RoundRobin(topology.wan.regions.clone());
    let mut next_id = 1;
    let actions = Known::ALL.iter().map(|known| {
        let table = known.spec().describe(&placement, tpcc.warehouses as u32, topology, next_id);
        next_id += 1 + table.indexes.len() as u32;
        SchemaAction::CreateTable(table)
    });
    SchemaChange { base_version: 0, actions: actions.collect() }
}

/// Creates the tables and loads every warehouse through its node, then lets every copy catch up.
pub fn load<P>(world: &mut World<P>, tpcc: &Tpcc) -> Arc<Catalog>
where
    P: Process<Request = Request, Reply = Reply> + 'static,
{
    let topology = world.topology().clone();
    let change = schema(tpcc, &topology);
    let mut catalog = Catalog::default();
    catalog.apply(&change).expect("the schema fits an empty catalog");
    let catalog = Arc::new(catalog);
    let mut access = AccessSet::default();
    for partition in topology.partition_ids() {
        access.add(partition, Granule::Partition, AccessMode::Write);
    }
    run_all(world, NodeId(0), vec![submission(TxnProgram::Schema(change), access)]);
    for w in 1..=tpcc.warehouses {
        let mut batches = Vec::new();
        for known in Known::ALL {
            if known != Known::Item || w == 1 {
                let rows: Vec<Row> = tpcc.rows(known, w).map(|values| Row::of(&values)).collect();
                batches.extend(rows.chunks(500).map(|rows| insert(&catalog, &topology, known, w, rows)));
            }
        }
        let home = home_of(&catalog, &topology, w);
        run_all(world, topology.node_of(home), batches);
    }
    world.run_until(world.now() + SECOND);
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

fn insert(catalog: &Catalog, topology: &Topology, known: Known, w: i32, rows: &[Row]) -> Submission {
    let table = catalog.require(known.spec().name).expect("a table of TPC-C");
    let mut access = AccessSet::default();
    let homes = match table.partition_column() {
        None => topology.partition_ids().collect(),
        Some(_) => vec![home_of(catalog, topology, w)],
    };
    for home in homes {
        for row in rows {
            let values = row.to_vec();
            let key = table.key_of(&values);
            for index in &table.indexes {
                access.write_key(home, index.id, table.index_entry(index, &values, &key));
            }
            access.write_key(home, table.id, key);
        }
    }
    let statement = Statement::Insert {
        table: table.id,
        schema_version: table.version,
        rows: rows.to_vec(),
        on_conflict: OnConflict::Fail,
        returning: None,
    };
    submission(TxnProgram::Statements(vec![statement]), access)
}

fn submission(program: TxnProgram, mut access: AccessSet) -> Submission {
    access.normalize();
    let token = Token::default();
    Submission { program: Arc::new(program), access: Arc::new(access), token, request: None }
}

/// Submits one after another and waits; panics unless all commit.
fn run_all<P>(world: &mut World<P>, gateway: NodeId, submissions: Vec<Submission>)
where
    P: Process<Request = Request, Reply = Reply> + 'static,
{
    let mut left = submissions.into_iter();
    let (client, _) = ScriptClient::<P>::new(move |replies| {
        if let Some(Reply::Submitted(Ok(Submitted { outcome: Outcome::Aborted(error), .. }) | Err(error))) =
            replies.last()
        {
            panic!("loading: {error}");
        }
        left.next().map(|submission| (gateway, Request::Submit(submission)))
    });
    world.client(client);
    let limit = world.now() + 600 * SECOND;
    world.run_to_rest(limit).unwrap_or_else(|stuck| panic!("loading: {stuck}"));
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
