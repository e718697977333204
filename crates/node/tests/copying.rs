//! Copies of partitions, for a reader that begins late and for the columns of a region that has lost its memory: no step
//! makes or takes more of one than its share, transactions go on meanwhile, and what is copied is what was there.

#[path = "../examples/common/host.rs"]
#[allow(dead_code, reason = "the measurements use the rest")]
mod host;

use base::expr::{BinaryOperator, Expr};
use base::key::KeyRange;
use base::process::{Event, Process};
use base::schema::*;
use base::time::{MS, SECOND};
use base::topology::{NodeSpec, PartitionSpec, Topology};
use base::txn::procedure::Procedures;
use base::txn::*;
use base::wan::Wan;
use base::{Consistency, DataType, Datum, NodeId, PartitionId, RegionId, Row, TableId, Time, Token};
use colstore::datum_at;
use host::Host;
use node::message::Message;
use node::request::{OpenSnapshot, Reply, Request};
use node::streams::Feed;
use node::{Node, Options};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use txn::any::{AnyEngine, EngineKind, EngineOptions};

const T: TableId = TableId(1);
const ROWS: i64 = 2_000;
/// Rows that a step may make or take of a copy.
const ROWS_A_STEP: usize = 64;

type TestNode = Node<AnyEngine>;
type OnWire = (NodeId, NodeId, <TestNode as Process>::Message);

struct Cluster {
    topology: Arc<Topology>,
    engine: EngineOptions,
    hosts: BTreeMap<NodeId, Host<AnyEngine>>,
    lives: BTreeMap<NodeId, u32>,
    now: Time,
    wire: BTreeMap<(Time, u64), OnWire>,
    sent: u64,
    /// Rows of copies in the messages of one step, and by how many rows columns grew in one, at most.
    made_max: usize,
    taken_max: usize,
}

impl Cluster {
    fn new(topology: Topology, engine: EngineOptions) -> Cluster {
        Cluster {
            topology: Arc::new(topology),
            engine,
            hosts: BTreeMap::new(),
            lives: BTreeMap::new(),
            now: Time(SECOND),
            wire: BTreeMap::new(),
            sent: 0,
            made_max: 0,
            taken_max: 0,
        }
    }

    /// A node begins, without the memory of a former life.
    fn start(&mut self, id: NodeId) {
        let life = self.lives.entry(id).or_default();
        let make = if *life == 0 { AnyEngine::new } else { AnyEngine::rejoining };
        *life += 1;
        let engine = make(self.topology.clone(), id, *life, self.engine.clone());
        let options = Options {
            steps: node::Steps { keys: ROWS_A_STEP, ..Default::default() },
            lease_ns: SECOND,
            clocks: None,
            ..Options::default()
        };
        let node = Node::new(id, self.topology.clone(), Arc::new(Procedures::default()), engine, options);
        self.hosts.insert(id, Host::new(node, self.now));
        self.send(id);
    }

    fn send(&mut self, from: NodeId) {
        let mut rows_made = 0;
        for (to, message) in self.hosts.get_mut(&from).unwrap().sent.drain(..) {
            if let Message::Stream { items, .. } = &message {
                rows_made += items.iter().map(copied_rows).sum::<usize>();
            }
            for to in to {
                self.sent += 1;
                let at = self.now + self.topology.one_way_ns(from, to);
                self.wire.insert((at, self.sent), (from, to, message.clone()));
            }
        }
        self.made_max = self.made_max.max(rows_made);
    }

    /// One node takes one step.
    fn step(&mut self, id: NodeId, step: impl FnOnce(&mut Host<AnyEngine>)) {
        let Some(host) = self.hosts.get_mut(&id) else { return };
        host.now = host.now.max(self.now);
        let before = host.node.columns().status().rows;
        step(host);
        let grown = host.node.columns().status().rows.saturating_sub(before);
        self.taken_max = self.taken_max.max(grown);
        host.compute();
        self.send(id);
    }

    fn run(&mut self, ns: u64) {
        let until = self.now + ns;
        loop {
            let timers = self.hosts.iter().filter_map(|(id, host)| Some((host.next_timer()?, *id)));
            let timer = timers.min();
            let arrival = self.wire.first_key_value().map(|((at, _), _)| *at);
            let next = timer.map(|(at, _)| at).into_iter().chain(arrival).min();
            let Some(at) = next.filter(|at| *at <= until) else { break };
            self.now = self.now.max(at);
            if arrival == Some(at) {
                let (from, to, message) = self.wire.pop_first().unwrap().1;
                self.step(to, |host| host.step(Event::Message { from, message }));
            } else {
                self.step(timer.unwrap().1, Host::step_timer);
            }
        }
        self.now = until;
    }

    fn submit(&mut self, program: TxnProgram) {
        let mut access = AccessSet::default();
        self.topology.partition_ids().for_each(|p| access.add(p, Granule::Partition, AccessMode::Write));
        let (program, access) = (Arc::new(program), Arc::new(access));
        let submission = Submission {
            program,
            access,
            token: Token::default(),
            request: None,
            isolation: Default::default(),
        };
        self.step(NodeId(0), |host| _ = host.request(Request::Submit(submission)));
    }
    /// Of the table's description.
    fn version(&self) -> u64 {
        self.hosts[&NodeId(0)].node.catalog().table(T).expect("created").version
    }
    fn insert(&mut self, ids: std::ops::Range<i64>, value: i64) {
        let rows = ids.map(|id| Row::of(&[Datum::Int(id), Datum::Int(value)])).collect();
        let on_conflict = OnConflict::Update { index: T, set: vec![(1, Expr::Column(3))], filter: None };
        let (table, schema_version) = (T, self.version());
        let insert = Statement::Insert { table, schema_version, rows, on_conflict, returning: None };
        self.submit(TxnProgram::Statements(vec![insert]));
    }
    fn delete_below(&mut self, id: i64) {
        let filter = Expr::binary(BinaryOperator::Less, Expr::Column(0), Expr::constant(id));
        let (table, schema_version, target) = (T, self.version(), KeyRange::all());
        let delete =
            Statement::Delete { table, schema_version, target, filter: Some(filter), returning: None };
        self.submit(TxnProgram::Statements(vec![delete]));
    }
    fn create_table(&mut self) {
        let column = |name: &str| Column {
            name: name.into(),
            data_type: DataType::BigInt,
            not_null: true,
            default: None,
            missing: Datum::Null,
            identity: Identity::No,
            hidden: false,
        };
        let table = Table {
            id: T,
            schema: "public".into(),
            name: "t".into(),
            version: 0,
            columns: vec![column("id"), column("value")],
            primary_key: vec![0],
            primary_key_name: "t_pkey".into(),
            indexes: Vec::new(),
            checks: Default::default(),
            foreign: Default::default(),
            triggers: Default::default(),
            domains: Default::default(),
            partitioning: None,
            placement: Placement::HomeBy { column: 0, regions: RegionMap::Hash },
        };
        let actions = vec![SchemaAction::CreateTable(table)];
        self.submit(TxnProgram::Schema(SchemaChange {
            database: Default::default(),
            base_version: 0,
            actions,
        }));
    }

    /// What a query over columns of this node sees, and the rows of all partitions where they run.
    fn expect_all(&mut self, at: NodeId) -> usize {
        let partitions: BTreeSet<PartitionId> = self.topology.partition_ids().collect();
        let open = OpenSnapshot {
            at: None,
            consistency: Consistency::Rss,
            token: Token::default(),
            tables: [(T, partitions.clone())].into(),
            wanted: BTreeMap::new(),
        };
        self.step(at, |host| _ = host.request(Request::OpenSnapshot(open)));
        self.run(2 * SECOND);
        let replies = std::mem::take(&mut self.hosts.get_mut(&at).unwrap().replies);
        let Some((_, Reply::Snapshot(Ok(snapshot)))) = replies.into_iter().next_back() else {
            panic!("{at} does not answer")
        };
        let (mut seen, snapshot) = (Vec::new(), &snapshot.tables[&T]);
        for unit in 0..snapshot.unit_count() {
            for batch in snapshot.scan(unit, &[0, 1], &[]) {
                let value =
                    |column: usize, row| datum_at(DataType::BigInt, batch.column(column).as_ref(), row);
                seen.extend((0..batch.num_rows()).map(|row| vec![value(0, row), value(1, row)]));
            }
        }
        let mut expected = Vec::new();
        for partition in partitions {
            let node = &self.hosts[&self.topology.node_of(partition)].node;
            node.store(partition).scan(T, &KeyRange::all(), false, &mut |_, row| {
                expected.push(row.to_vec());
                true
            });
        }
        let sorted = |mut rows: Vec<Vec<Datum>>| {
            rows.sort_by_key(|row| format!("{row:?}"));
            rows
        };
        assert_eq!(sorted(seen), sorted(expected.clone()));
        expected.len()
    }
}

fn copied_rows(feed: &Feed) -> usize {
    match feed {
        Feed::CopyRows { rows, .. } => rows.len(),
        _ => 0,
    }
}

#[test]
fn a_late_reader_gets_its_copy_in_pieces_while_transactions_go_on() {
    let (region, reader) = (RegionId(0), NodeId(1));
    let partition = PartitionSpec { region, node: NodeId(0), copies: Vec::new() };
    let topology = Topology {
        wan: Wan::uniform("one", &["here"], 2 * MS, 2 * MS),
        nodes: [vec![], vec![PartitionId(0)]].map(|subscribes| NodeSpec { region, subscribes }).into(),
        partitions: vec![partition],
        clock_bound_ns: 0,
        unbounded_clocks: false,
        spread_over: 0,
        removed: Vec::new(),
    };
    let mut cluster = Cluster::new(topology, EngineKind::Perseus.options());
    cluster.start(NodeId(0));
    cluster.create_table();
    cluster.run(100 * MS);
    cluster.insert(0..ROWS, 1);
    // Beyond the lease nothing is kept for a reader that is not there.
    cluster.run(3 * SECOND);
    cluster.start(reader);
    for n in 0..20 {
        cluster.insert(100 * n..100 * n + 3, 2);
        cluster.insert(ROWS + n..ROWS + n + 1, 3);
        cluster.run(5 * MS);
    }
    cluster.delete_below(50);
    cluster.run(SECOND);
    assert_eq!(cluster.expect_all(reader), (ROWS + 20 - 50) as usize);
    assert!((1..=ROWS_A_STEP).contains(&cluster.made_max), "{} rows made in a step", cluster.made_max);
    assert!((1..=ROWS_A_STEP).contains(&cluster.taken_max), "{} rows taken in a step", cluster.taken_max);
}

#[test]
fn columns_of_a_region_that_lost_its_memory_are_filled_in_pieces() {
    let names = ["us", "eu", "asia"];
    let wan = Wan::uniform("three", &names, MS, 20 * MS);
    let topology = EngineKind::Caerus.layout(Topology::one_node_per_region(wan, 1));
    let engine = EngineKind::Caerus.options().surviving(1, &topology).unwrap();
    let mut cluster = Cluster::new(topology, engine);
    (0..3).for_each(|n| cluster.start(NodeId(n)));
    cluster.run(100 * MS);
    cluster.create_table();
    cluster.run(SECOND);
    cluster.insert(0..ROWS, 1);
    cluster.run(SECOND);
    let lost = NodeId(2);
    cluster.taken_max = 0;
    cluster.start(lost);
    for n in 0..100 {
        cluster.insert(10 * n..10 * n + 3, 2);
        cluster.insert(ROWS + n..ROWS + n + 1, 3);
        cluster.run(10 * MS);
    }
    cluster.run(3 * SECOND);
    assert!(cluster.hosts[&lost].node.engine().came_back().is_some(), "it is recovered");
    let taken_max = cluster.taken_max;
    assert_eq!(cluster.expect_all(lost), (ROWS + 100) as usize);
    assert!((1..=ROWS_A_STEP).contains(&taken_max), "{taken_max} rows of columns filled in a step");
}
