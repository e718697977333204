//! Nodes that only read: cut off, without memory, silent beyond their lease, asked for what they do not have.

use base::cut::Consistency;
use base::time::{MS, SECOND};
use base::topology::{NodeSpec, Topology};
use base::wan::Wan;
use base::{LogPosition, NodeId, PartitionId, Rank, RegionId, SqlState, Token};
use node::request::{OpenSnapshot, Reply, Request, Status};
use reads::rule::Dynamic;
use sim::cluster::columns::rows_of;
use sim::cluster::layout::{Content, Item, Kind, LISTS, Layout, read_row};
use sim::cluster::run::{Subject, set_up, world};
use sim::cluster::script_client::ScriptClient;
use sim::world::{Fault, Setup, World};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

/// Two regions of one partition each; n0 and n1 order and keep no columns. n2 reads both partitions, n3 only
/// the second.
const READER: NodeId = NodeId(2);
const HALF_READER: NodeId = NodeId(3);
const SECOND_PARTITION: PartitionId = PartitionId(1);

struct Scene {
    world: World<Subject>,
    layout: Arc<Layout>,
    written: u64,
}

impl Scene {
    fn new(lease_ns: u64, dynamic: Dynamic) -> Scene {
        let mut topology = Topology::one_node_per_region(Wan::preset("perseus3").unwrap().truncated(2), 1);
        let all: Vec<PartitionId> = topology.partition_ids().collect();
        topology.nodes.iter_mut().for_each(|node| node.subscribes.clear());
        topology.nodes.push(NodeSpec { region: RegionId(0), subscribes: all });
        topology.nodes.push(NodeSpec { region: RegionId(1), subscribes: vec![SECOND_PARTITION] });
        let engine = txn::perseus::Options { lease_ns, ..Default::default() };
        let node = node::Options { lease_ns, dynamic, ..Default::default() };
        Scene::of(topology, engine, node)
    }
    fn of(topology: Topology, engine: txn::perseus::Options, node: node::Options) -> Scene {
        let layout = Arc::new(Layout::new(Arc::new(topology.clone()), 1, 1));
        let mut world = world(Setup::calm(topology, 1), engine, node);
        set_up(&mut world, &layout);
        Scene { world, layout, written: 0 }
    }
    fn run(&mut self, ns: u64) {
        let until = self.world.now() + ns;
        self.world.run_until(until);
    }
    fn fault(&mut self, fault: Fault) {
        let now = self.world.now();
        self.world.fault_at(now, fault);
        self.run(1);
    }
    /// The answer, or `None` if there is none within a second.
    fn ask(&mut self, node: NodeId, request: Request) -> Option<Reply> {
        let (client, replies) = ScriptClient::<Subject>::once(node, request);
        self.world.client(client);
        self.run(SECOND);
        replies.borrow_mut().pop()
    }
    fn items(&self) -> Vec<Item> {
        self.layout.shelves.iter().map(|&(shelf, _)| Item { kind: Kind::List, shelf, key: 0 }).collect()
    }
    /// Appends one value to all lists, in one transaction.
    fn write(&mut self) {
        self.write_to(&self.all());
    }
    /// Appends one value to the lists of some partitions, in one transaction.
    fn write_to(&mut self, partitions: &[PartitionId]) {
        self.written += 1;
        let items = partitions.iter().map(|p| self.items()[usize::from(p.0)]);
        let appends = items.map(|i| (i.shelf, self.layout.append(&i, self.written))).collect();
        let submission = self.layout.one_shot(appends, Token::default());
        match self.ask(NodeId(0), Request::Submit(submission)) {
            Some(Reply::Submitted(Ok(answer))) => assert!(answer.outcome.is_committed()),
            _ => panic!("no answer to a write"),
        }
    }
    fn open(&mut self, node: NodeId, level: Consistency, token: Token, of: &[PartitionId]) -> Option<Reply> {
        self.ask(node, snapshot_of(level, token, of))
    }
    /// Begins a query over all that a node subscribes to; where its answer will be.
    fn begin(&mut self, node: NodeId, level: Consistency) -> Rc<RefCell<Vec<Reply>>> {
        let of = &self.layout.topology.nodes[node.0 as usize].subscribes;
        let request = snapshot_of(level, Token::default(), of);
        let (client, replies) = ScriptClient::<Subject>::once(node, request);
        self.world.client(client);
        replies
    }
    /// Two nodes do not hear each other, until all are connected again.
    fn cut_off(&mut self, one: NodeId, other: NodeId) {
        self.fault(Fault::CutOneWay { from: one, to: other });
        self.fault(Fault::CutOneWay { from: other, to: one });
    }
    fn all(&self) -> Vec<PartitionId> {
        self.layout.topology.partition_ids().collect()
    }
    /// What a query at this level finds in each list.
    fn query(&mut self, node: NodeId, level: Consistency) -> Option<BTreeMap<Item, Vec<u64>>> {
        let of = self.layout.topology.nodes[node.0 as usize].subscribes.clone();
        match self.open(node, level, Token::default(), &of)? {
            Reply::Snapshot(Ok(snapshot)) => Some(lists(&snapshot)),
            Reply::Snapshot(Err(error)) => panic!("refused: {error}"),
            _ => unreachable!(),
        }
    }
    /// Everything written so far is in the lists, at both strong levels.
    fn expect_all(&mut self, node: NodeId) {
        let everything: Vec<u64> = (1..=self.written).collect();
        for level in [Consistency::Rss, Consistency::Regular] {
            let lists =
                self.query(node, level).unwrap_or_else(|| panic!("{node} does not answer at {level:?}"));
            assert!(!lists.is_empty());
            lists.iter().for_each(|(item, list)| assert_eq!(*list, everything, "{item:?} at {level:?}"));
        }
    }
    fn refused(&mut self, reply: Option<Reply>) -> SqlState {
        match reply {
            Some(Reply::Snapshot(Err(error))) => error.state,
            Some(_) => panic!("not refused"),
            None => panic!("no answer"),
        }
    }
    fn status(&mut self, node: NodeId) -> Status {
        match self.ask(node, Request::Status) {
            Some(Reply::Status(status)) => *status,
            _ => panic!("no status"),
        }
    }
}

fn snapshot_of(consistency: Consistency, token: Token, of: &[PartitionId]) -> Request {
    let partitions: BTreeSet<PartitionId> = of.iter().copied().collect();
    let tables = [(LISTS, partitions)].into();
    Request::OpenSnapshot(OpenSnapshot { at: None, consistency, token, tables, wanted: BTreeMap::new() })
}

fn lists(snapshot: &node::request::Snapshot) -> BTreeMap<Item, Vec<u64>> {
    let rows = rows_of(&snapshot.tables[&LISTS]).into_iter();
    let lists = rows.map(|values| match read_row(Kind::List, &values) {
        (item, Content::List(list)) => (item, list),
        _ => unreachable!(),
    });
    lists.collect()
}

/// Such a reader once showed a transaction without its ancestor: nothing that reached it said that the ancestor was
/// forgotten.
///
/// A query is open at a reader while the others give the reader up and forget what depends on what. What one stream
/// then brings says nothing of dependencies that were forgotten, and the other stream, which would have brought them,
/// is silent still. The first stream tells how far the others have forgotten; the reader has heard it from nobody else.
#[test]
fn a_reader_that_was_given_up_does_not_answer_from_what_it_has() {
    const AWAY: PartitionId = PartitionId(2);
    let reader = NodeId(3);
    for dynamic in [Dynamic::Off, Dynamic::Essential] {
        let mut topology = Topology::one_node_per_region(Wan::preset("perseus3").unwrap(), 1);
        topology.nodes.iter_mut().for_each(|node| node.subscribes.clear());
        let subscribes = vec![PartitionId(0), SECOND_PARTITION];
        topology.nodes.push(NodeSpec { region: RegionId(0), subscribes });
        let engine = txn::perseus::Options {
            lease_ns: 12 * SECOND,
            collect_every_ns: 10 * SECOND,
            ..Default::default()
        };
        let node = node::Options { lease_ns: 200 * SECOND, dynamic, ..Default::default() };
        let mut scene = Scene::of(topology, engine, node);
        scene.write();
        scene.expect_all(reader);
        scene.cut_off(reader, NodeId(0));
        let replies = scene.begin(reader, Consistency::Regular);
        // The second partition tells how far it is, and then falls silent.
        scene.run(SECOND);
        scene.cut_off(reader, NodeId(1));
        scene.write_to(&[SECOND_PARTITION, AWAY]);
        let (ancestor, written_at) = (scene.written, scene.world.now().rank());
        while scene.status(NodeId(0)).collected_below < written_at {
            scene.run(SECOND);
        }
        // It depends on what was forgotten.
        scene.write_to(&[AWAY, PartitionId(0)]);
        let descendant = scene.written;
        scene.fault(Fault::Reconnect);
        scene.cut_off(reader, NodeId(1));
        scene.run(4 * SECOND);
        match replies.borrow_mut().pop() {
            Some(Reply::Snapshot(Ok(snapshot))) => {
                let holds = |value| lists(&snapshot).values().any(|list| list.contains(&value));
                assert!(holds(ancestor) || !holds(descendant), "{:?}", lists(&snapshot));
            }
            Some(Reply::Snapshot(Err(error))) => assert_eq!(error.state, SqlState::SNAPSHOT_TOO_OLD),
            Some(_) => unreachable!(),
            None => panic!("the stream has been silent for longer than this test assumes"),
        }
        scene.fault(Fault::Reconnect);
        scene.run(4 * SECOND);
        let lists = scene.query(reader, Consistency::Regular).expect("it reads again");
        assert!(lists.values().any(|list| list.contains(&ancestor)), "{lists:?}");
    }
}

/// A query once waited for the next closed timestamp of a partition although the record that it lacked lay ready there:
/// streams gather records, and the query asked for none.
///
/// The nearer partition says how far it is before it has the ancestor, the other one once it has the descendant. The
/// next closed timestamp is a minute away.
#[test]
fn a_regular_query_asks_for_the_record_that_it_lacks() {
    const AWAY: PartitionId = PartitionId(2);
    let reader = NodeId(3);
    let mut topology = Topology::one_node_per_region(Wan::preset("perseus3").unwrap(), 1);
    topology.nodes.iter_mut().for_each(|node| node.subscribes.clear());
    let subscribes = vec![PartitionId(0), SECOND_PARTITION];
    topology.nodes.push(NodeSpec { region: RegionId(0), subscribes });
    let streaming =
        node::Streaming { flush_ns: 60 * SECOND, low_interval_ns: 60 * SECOND, ..Default::default() };
    let node = node::Options { streaming, ..node::Options::default() };
    let mut scene = Scene::of(topology, txn::perseus::Options::default(), node);
    scene.write();
    scene.expect_all(reader);
    scene.cut_off(reader, NodeId(1));
    let replies = scene.begin(reader, Consistency::Regular);
    scene.run(SECOND);
    scene.write_to(&[PartitionId(0), AWAY]);
    scene.write_to(&[AWAY, SECOND_PARTITION]);
    assert!(replies.borrow().is_empty(), "the other partition has not been asked");
    scene.fault(Fault::Reconnect);
    scene.run(2 * SECOND);
    let lists = match replies.borrow_mut().pop() {
        Some(Reply::Snapshot(Ok(snapshot))) => lists(&snapshot),
        Some(Reply::Snapshot(Err(error))) => panic!("refused: {error}"),
        Some(_) => unreachable!(),
        None => panic!("it waits for a closed timestamp"),
    };
    let found: Vec<&[u64]> = lists.values().map(Vec::as_slice).collect();
    assert_eq!(found, [[1, 2], [1, 3]]);
}

#[test]
fn a_reader_that_lost_its_memory_reads_again_from_copies() {
    for dynamic in [Dynamic::Off, Dynamic::Essential] {
        let mut scene = Scene::new(10 * SECOND, dynamic);
        (0..3).for_each(|_| scene.write());
        scene.expect_all(READER);
        scene.fault(Fault::Crash(READER));
        (0..3).for_each(|_| scene.write());
        scene.fault(Fault::Restart(READER));
        scene.expect_all(READER);
        (0..3).for_each(|_| scene.write());
        scene.expect_all(READER);
        scene.expect_all(HALF_READER);
    }
}

/// Collection waits for a reader that is cut off, for as long as its lease says; then it goes on, the streams
/// drop what the reader lacks, and the reader begins again when it returns.
#[test]
fn a_silent_reader_holds_up_collection_for_its_lease_and_begins_again() {
    let mut scene = Scene::new(3 * SECOND, Dynamic::Essential);
    scene.write();
    scene.expect_all(READER);
    scene.fault(Fault::Separate([READER].into()));
    let cut_at = scene.world.now().rank();
    (0..2).for_each(|_| scene.write());
    assert!(scene.status(NodeId(0)).collected_below < cut_at, "within the lease");
    scene.run(3 * SECOND);
    (0..2).for_each(|_| scene.write());
    assert!(scene.status(NodeId(0)).collected_below > cut_at, "beyond the lease");
    assert!(scene.status(NodeId(0)).graph_vertices < 20);
    // Alone it answers nothing that needs an answer.
    assert!(scene.query(READER, Consistency::Rss).is_none());
    scene.fault(Fault::Reconnect);
    scene.run(2 * SECOND);
    scene.expect_all(READER);
    scene.write();
    scene.expect_all(READER);
}

#[test]
fn a_short_silence_is_made_up_for_from_the_stream() {
    let mut scene = Scene::new(10 * SECOND, Dynamic::Essential);
    scene.write();
    scene.fault(Fault::Separate([READER].into()));
    (0..2).for_each(|_| scene.write());
    scene.fault(Fault::Reconnect);
    scene.run(SECOND);
    scene.expect_all(READER);
    scene.fault(Fault::Separate([HALF_READER].into()));
    scene.write();
    scene.fault(Fault::Reconnect);
    scene.run(SECOND);
    scene.expect_all(HALF_READER);
}

#[test]
fn what_a_node_cannot_know_it_refuses() {
    let mut scene = Scene::new(10 * SECOND, Dynamic::Essential);
    scene.write();
    let all = scene.all();
    let ahead = Token::at(Rank(scene.world.now().0 + 60 * SECOND));
    let reply = scene.open(READER, Consistency::Regular, ahead, &all);
    assert_eq!(scene.refused(reply), SqlState::INVALID_PARAMETER_VALUE, "a rank that nobody gave");
    let mut foreign = Token::default();
    foreign.positions.insert(SECOND_PARTITION, LogPosition(1_000));
    let reply = scene.open(READER, Consistency::Regular, foreign, &all);
    assert_eq!(scene.refused(reply), SqlState::INVALID_PARAMETER_VALUE, "a position that no log had");
    let foreign = Token::at(Rank(1)).of(base::cut::Incarnation(7));
    for level in Consistency::ALL {
        let reply = scene.open(READER, level, foreign.clone(), &all);
        assert_eq!(scene.refused(reply), SqlState::INVALID_PARAMETER_VALUE, "logs of another life");
    }
    // A cut from before the copy was taken.
    let before = scene.world.now().rank();
    scene.fault(Fault::Crash(READER));
    scene.write();
    scene.fault(Fault::Restart(READER));
    scene.expect_all(READER);
    let tables = [(LISTS, all.into_iter().collect())].into();
    let (at, consistency, token) = (Some(before), Consistency::Rss, Token::default());
    let reply = scene.ask(
        READER,
        Request::OpenSnapshot(OpenSnapshot { at, consistency, token, tables, wanted: BTreeMap::new() }),
    );
    assert_eq!(scene.refused(reply), SqlState::SNAPSHOT_TOO_OLD);
    assert!(scene.world.now().0 > MS);
}

/// Nobody keeps both partitions' columns: a query over both is coordinated by whoever takes it.
struct Split {
    scene: Scene,
}

/// Readers of the first partition, and two of the second, one of them nearer to the first reader.
const FIRST: NodeId = NodeId(2);
const NEAR: NodeId = NodeId(3);
const FAR: NodeId = NodeId(4);

impl Split {
    fn new(lease_ns: u64, node: node::Options) -> Split {
        let mut topology = Topology::one_node_per_region(Wan::preset("perseus3").unwrap().truncated(2), 1);
        topology.nodes.iter_mut().for_each(|node| node.subscribes.clear());
        for (region, partition) in [(0, 0), (0, 1), (1, 1)] {
            let subscribes = vec![PartitionId(partition)];
            topology.nodes.push(NodeSpec { region: RegionId(region), subscribes });
        }
        let layout = Arc::new(Layout::new(Arc::new(topology.clone()), 1, 1));
        let engine = txn::perseus::Options { lease_ns, ..Default::default() };
        let node = node::Options { lease_ns, ..node };
        let mut world = world(Setup::calm(topology, 1), engine, node);
        set_up(&mut world, &layout);
        Split { scene: Scene { world, layout, written: 0 } }
    }
    /// Everything written so far is in both lists at every strong level, and in both alike at the others; the
    /// second comes from this reader.
    fn expect_all(&mut self, at: NodeId, from: NodeId) {
        let everything: Vec<u64> = (1..=self.scene.written).collect();
        let all = self.scene.all();
        for level in Consistency::ALL {
            let Some(Reply::Snapshot(Ok(snapshot))) = self.scene.open(at, level, Token::default(), &all)
            else {
                panic!("{at} does not answer at {level:?}")
            };
            let rows = rows_of(&snapshot.tables[&LISTS]);
            let lists: Vec<Content> = rows.iter().map(|row| read_row(Kind::List, row).1).collect();
            assert_eq!(lists.len(), 2);
            assert_eq!(lists[0], lists[1], "{level:?}");
            if [Consistency::Rss, Consistency::Regular].contains(&level) {
                assert_eq!(lists[0], Content::List(everything.clone()), "{level:?}");
            }
            let second = snapshot.sources.iter().find(|s| s.partitions.contains(&SECOND_PARTITION));
            assert_eq!(second.expect("it is read").reader, from);
            let others = snapshot.sources.iter().filter(|s| s.reader != at).count();
            assert_eq!(usize::from(snapshot.freshness.other_readers), others);
            // One question there and back, whatever the partitions need beyond it.
            assert!(snapshot.freshness.visibility_delay_ns() < 400 * MS, "{:?}", snapshot.freshness);
        }
    }
    /// Readers keep nothing of queries that have ended.
    fn expect_nothing_kept(&mut self) {
        for node in [FIRST, NEAR, FAR] {
            let kept = self.scene.world.node(node).map(|node| node.held()["reads under way"]);
            assert_eq!(kept, Some(0), "{node}");
        }
    }
}

#[test]
fn a_query_over_columns_that_no_reader_has_all_of_is_answered_at_one_cut() {
    let mut split = Split::new(10 * SECOND, node::Options::default());
    for _ in 0..3 {
        split.scene.write();
        split.expect_all(FIRST, NEAR);
        split.expect_all(FAR, FAR);
        // Whoever keeps no columns can coordinate too.
        split.expect_all(NodeId(1), FAR);
    }
    split.scene.run(SECOND);
    split.expect_nothing_kept();
}

#[test]
fn a_reader_that_fails_during_a_query_is_replaced_or_named() {
    let mut split = Split::new(3 * SECOND, node::Options::default());
    split.scene.write();
    split.expect_all(FIRST, NEAR);
    split.scene.fault(Fault::Crash(NEAR));
    let all = split.scene.all();
    // Silence is taken for loss after a while; then the other reader is asked, at the same cut.
    split.scene.write();
    let begun = split.scene.world.now();
    split.expect_all(FIRST, FAR);
    assert!(split.scene.world.now().since(begun) < 5 * SECOND);
    // With both gone nobody guesses.
    split.scene.fault(Fault::Crash(FAR));
    let request = Request::OpenSnapshot(OpenSnapshot {
        at: None,
        consistency: Consistency::Rss,
        token: Token::default(),
        tables: [(LISTS, all.iter().copied().collect())].into(),
        wanted: BTreeMap::new(),
    });
    let (client, replies) = ScriptClient::<Subject>::once(FIRST, request);
    split.scene.world.client(client);
    split.scene.run(8 * SECOND);
    let reply = replies.borrow_mut().pop();
    assert_eq!(split.scene.refused(reply), SqlState::CONNECTION_FAILURE);
    // One comes back without its memory.
    split.scene.fault(Fault::Restart(NEAR));
    split.scene.run(SECOND);
    split.scene.write();
    split.expect_all(FIRST, NEAR);
    split.scene.fault(Fault::Restart(FAR));
    split.scene.run(5 * SECOND);
    split.expect_nothing_kept();
}

#[test]
fn a_query_that_gathers_too_much_is_ended_and_the_others_go_on() {
    let options = node::Options { gather_bytes_max: 1, ..node::Options::default() };
    let mut split = Split::new(10 * SECOND, options);
    split.scene.write();
    let all = split.scene.all();
    let reply = split.scene.open(FIRST, Consistency::Rss, Token::default(), &all);
    assert_eq!(split.scene.refused(reply), SqlState::OUT_OF_MEMORY);
    let own = split.scene.query(FIRST, Consistency::Rss).expect("it keeps these itself");
    assert_eq!(own.len(), 1);
    split.scene.run(SECOND);
    split.expect_nothing_kept();
}
