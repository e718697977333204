//! What reads of the levels `session` and `stale` find without a token: never a table in a state from before the one
//! that their node knows, and never the void of a copy that has not arrived.

use base::cut::Consistency;
use base::time::{MS, SECOND};
use base::topology::{NodeSpec, Topology};
use base::wan::Wan;
use base::{NodeId, PartitionId, RegionId, Token};
use node::request::{OpenSnapshot, ReadRows, Reply, Request};
use sim::cluster::columns::rows_of;
use sim::cluster::layout::{Kind, LISTS, Layout, Target};
use sim::cluster::run::{Subject, set_up, world};
use sim::cluster::script_client::ScriptClient;
use sim::world::clock::ClockModel;
use sim::world::{Fault, Setup, World};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use txn::any::EngineKind;

const WEAK: [Consistency; 2] = [Consistency::Session, Consistency::Stale];

type Replies = Rc<RefCell<Vec<Reply>>>;

struct Scene {
    world: World<Subject>,
    layout: Arc<Layout>,
}

impl Scene {
    /// Three regions with a copy of everything each, and nodes beside them; clocks without a bound if `unbounded`.
    fn new(seed: u64, unbounded: bool, others: Vec<NodeSpec>) -> Scene {
        let mut topology = Topology::one_node_per_region(Wan::preset("perseus3").unwrap(), 2);
        topology.nodes.extend(others);
        topology.clock_bound_ns = MS;
        if unbounded {
            (topology.unbounded_clocks, topology.clock_bound_ns) = (true, 0);
        }
        let topology = EngineKind::Caerus.layout(topology);
        let layout = Arc::new(Layout::new(Arc::new(topology.clone()), 1, 2));
        let mut setup = Setup::calm(topology, seed);
        if unbounded {
            setup.clocks = ClockModel::Kept { ns: 3 * SECOND };
        }
        let world = world(setup, txn::caerus::Options::default(), node::Options::default());
        Scene { world, layout }
    }
    fn run(&mut self, ns: u64) {
        let until = self.world.now() + ns;
        self.world.run_until(until);
    }
    fn begin(&mut self, node: NodeId, request: Request) -> Replies {
        let (client, replies) = ScriptClient::<Subject>::once(node, request);
        self.world.client(client);
        replies
    }
    fn lists(&self) -> Vec<Target> {
        self.layout.shelves.iter().map(|&(shelf, _)| Target::shelf(Kind::List, shelf)).collect()
    }
    fn rows(&self, consistency: Consistency) -> Request {
        let reads = self.lists().iter().map(|target| self.layout.row_read(target)).collect();
        Request::ReadRows(ReadRows { at: None, consistency, token: Token::default(), reads })
    }
    fn columns(&self, consistency: Consistency) -> Request {
        let all = self.layout.topology.partition_ids().collect();
        Request::OpenSnapshot(OpenSnapshot {
            at: None,
            consistency,
            token: Token::default(),
            tables: [(LISTS, all)].into(),
            wanted: Default::default(),
        })
    }
}

/// How many rows a read has found.
fn found(replies: &Replies, what: &str) -> usize {
    match replies.borrow().first() {
        Some(Reply::Rows(Ok(rows))) => rows.reads.iter().map(Vec::len).sum(),
        Some(Reply::Snapshot(Ok(snapshot))) => rows_of(&snapshot.tables[&LISTS]).len(),
        Some(Reply::Rows(Err(error)) | Reply::Snapshot(Err(error))) => panic!("{what}: {error}"),
        _ => panic!("{what}: no answer"),
    }
}

/// A cut at these levels once was what was complete in the columns of its node, and could lie before the table that the
/// gateway had planned with: "relation t1 does not exist".
#[test]
fn a_node_that_knows_a_table_reads_it_at_every_level() {
    for (seed, unbounded) in (0..4).flat_map(|seed| [(seed, false), (seed, true)]) {
        let mut scene = Scene::new(seed, unbounded, Vec::new());
        let create = Request::Submit(scene.layout.create());
        scene.begin(NodeId(0), create);
        let mut asked = Vec::new();
        let mut unaware: Vec<NodeId> = scene.layout.topology.node_ids().collect();
        for _ in 0..2_000 {
            scene.run(MS);
            let knows = |n: &NodeId| scene.world.node(*n).unwrap().catalog().table(LISTS).is_some();
            let (now_aware, still): (Vec<_>, Vec<_>) = unaware.into_iter().partition(knows);
            unaware = still;
            // Before the change has been answered anywhere, or is complete in the columns here.
            for node in now_aware {
                for level in WEAK {
                    for (what, request) in [("rows", scene.rows(level)), ("columns", scene.columns(level))] {
                        let what = format!("{what} at {node}, {level:?}, seed {seed}, unbounded {unbounded}");
                        asked.push((what, scene.begin(node, request)));
                    }
                }
            }
        }
        assert!(unaware.is_empty(), "the table is created everywhere");
        scene.run(10 * SECOND);
        asked.iter().for_each(|(what, replies)| assert_eq!(found(replies, what), 0));
    }
}

/// Of columns that were still on their way nothing was known to be complete, which once was read as rank 0: the session
/// found no table at its cut, or none of its rows.
#[test]
fn columns_that_have_not_arrived_are_waited_for() {
    let all: Vec<PartitionId> =
        Topology::one_node_per_region(Wan::preset("perseus3").unwrap(), 2).partition_ids().collect();
    let reader = NodeId(3);
    for unbounded in [false, true] {
        let others = vec![NodeSpec { region: RegionId(1), subscribes: all.clone() }];
        let mut scene = Scene::new(1, unbounded, others);
        set_up(&mut scene.world, &scene.layout);
        for level in WEAK {
            let now = scene.world.now();
            scene.world.fault_at(now, Fault::Crash(reader));
            scene.world.fault_at(now + MS, Fault::Restart(reader));
            scene.run(2 * MS);
            let request = scene.columns(level);
            let replies = scene.begin(reader, request);
            scene.run(10 * SECOND);
            assert_eq!(
                found(&replies, "columns of a reader that began again"),
                2 * scene.layout.shelves.len()
            );
        }
    }
}

/// Such a gateway once read at the oldest rank that is kept where clocks have no bound: from before what had been loaded.
#[test]
fn a_gateway_without_columns_finds_its_cuts_by_asking() {
    for unbounded in [false, true] {
        let gateway = NodeId(3);
        let others = vec![NodeSpec { region: RegionId(1), subscribes: Vec::new() }];
        let mut scene = Scene::new(2, unbounded, others);
        set_up(&mut scene.world, &scene.layout);
        for level in WEAK {
            for request in [scene.rows(level), scene.columns(level)] {
                let replies = scene.begin(gateway, request);
                scene.run(10 * SECOND);
                assert_eq!(found(&replies, "a read at a gateway"), 2 * scene.layout.shelves.len());
            }
        }
    }
}
