//! What level `regular` does not promise, shown on purpose, and that `rss` keeps it in the same place.
//!
//! n0 runs partition A, n1 runs B; the link between them is cut for a while. A query at n0 learns at once how
//! far A is and only after the cut how far B is; a query at n1 the other way round. What happens meanwhile at
//! A and at B, nobody orders.

use base::cut::Consistency;
use base::time::MS;
use base::topology::Topology;
use base::txn::Outcome;
use base::wan::Wan;
use base::{NodeId, RequestId, Time, Token};
use history::{Anomaly, Guarantee, History, OpId, Recorder, SessionId, check};
use node::request::{OpenSnapshot, Reply, Request};
use reads::rule::{Dynamic, Mutant};
use sim::cluster::columns::rows_of;
use sim::cluster::layout::{Content, Item, Kind, LISTS, Layout, read_row};
use sim::cluster::run::{Subject, set_up, world};
use sim::world::client::{Client, ClientEffects, ClientEvent};
use sim::world::{Fault, Setup, World};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

const A: NodeId = NodeId(0);
const B: NodeId = NodeId(1);

/// Asks one thing and remembers when the answer came.
struct Once {
    ask: Option<(NodeId, Request)>,
    answer: Rc<RefCell<Option<(Time, Reply)>>>,
}

impl Client<Subject> for Once {
    fn step(&mut self, now: Time, event: ClientEvent<Subject>, out: &mut ClientEffects<Subject>) {
        match event {
            ClientEvent::Start => {
                let (node, request) = self.ask.take().expect("started once");
                let _: RequestId = out.ask(node, request);
            }
            ClientEvent::Reply { reply, .. } => *self.answer.borrow_mut() = Some((now, reply)),
            ClientEvent::Wake(_) | ClientEvent::Lost { .. } => unreachable!("nothing else was asked for"),
        }
    }
    fn is_done(&self) -> bool {
        self.answer.borrow().is_some()
    }
}

struct Asked {
    begun: Time,
    session: u64,
    /// The operation whose token it carried, by its place in the scene.
    after: Option<usize>,
    what: What,
    answer: Rc<RefCell<Option<(Time, Reply)>>>,
}
enum What {
    Append(Item, u64),
    Query,
}

/// Two regions, one partition each, one list in each partition.
struct Scene {
    world: World<Subject>,
    layout: Arc<Layout>,
    lists: [Item; 2],
    asked: Vec<Asked>,
    dynamic: Dynamic,
}

#[derive(Clone, Copy, Debug)]
struct Knobs {
    dynamic: Dynamic,
    mutant: Option<Mutant>,
}

impl Scene {
    fn new(knobs: Knobs) -> Scene {
        let topology = Topology::one_node_per_region(Wan::preset("perseus3").unwrap().truncated(2), 1);
        let layout = Arc::new(Layout::new(Arc::new(topology.clone()), 1, 1));
        let lists = [A, B].map(|node| {
            let mut shelves = layout.shelves.iter();
            let &(shelf, _) = shelves.find(|(_, p)| topology.node_of(*p) == node).unwrap();
            Item { kind: Kind::List, shelf, key: 0 }
        });
        let mutants = node::Mutants { reads: knobs.mutant, rows: None };
        let node = node::Options { dynamic: knobs.dynamic, mutants, ..Default::default() };
        let mut world = world(Setup::calm(topology, 1), txn::perseus::Options::default(), node);
        set_up(&mut world, &layout);
        Scene { world, layout, lists, asked: Vec::new(), dynamic: knobs.dynamic }
    }
    /// Queries are asked; the near partition answers, or both have; then writers write, and only then the
    /// answer of the far partition arrives. Without extension a query takes of its near partition what was
    /// there when it asked, so the link is cut meanwhile. With extension it takes what is there when it is
    /// answered, so the writers come when the far partition has answered and that answer is on its way.
    fn between_answers(mut self, ask: impl Fn(&mut Scene), write: impl Fn(&mut Scene)) -> History {
        if self.dynamic == Dynamic::Off {
            self.cut();
            ask(&mut self);
            write(&mut self);
            self.reconnect();
        } else {
            ask(&mut self);
            self.run(55);
            write(&mut self);
            self.run(1000);
        }
        self.history()
    }
    fn cut(&mut self) {
        let now = self.world.now();
        self.world.fault_at(now, Fault::Separate([A].into()));
        self.run(1);
    }
    fn reconnect(&mut self) {
        let now = self.world.now();
        self.world.fault_at(now, Fault::Reconnect);
        self.run(1000);
    }
    fn run(&mut self, ms: u64) {
        let until = self.world.now() + ms * MS;
        self.world.run_until(until);
    }
    fn ask(
        &mut self,
        node: NodeId,
        session: u64,
        after: Option<usize>,
        what: What,
        request: Request,
    ) -> usize {
        let answer = Rc::new(RefCell::new(None));
        let begun = self.world.now();
        self.world.client(Once { ask: Some((node, request)), answer: answer.clone() });
        self.asked.push(Asked { begun, session, after, what, answer });
        self.run(5);
        self.asked.len() - 1
    }
    fn token(&self, of: usize) -> Token {
        match &*self.asked[of].answer.borrow() {
            Some((_, Reply::Submitted(Ok(answer)))) => answer.token.clone(),
            _ => panic!("operation {of} has no answer yet"),
        }
    }
    /// Appends to the list at this node, and is answered at once: one region has all it needs.
    fn append(&mut self, node: NodeId, session: u64, after: Option<usize>) -> usize {
        let (item, value) = (self.lists[node.0 as usize], 100 + self.asked.len() as u64);
        let token = after.map(|of| self.token(of)).unwrap_or_default();
        let submission = self.layout.one_shot(vec![(item.shelf, self.layout.append(&item, value))], token);
        let what = What::Append(item, value);
        let id = self.ask(node, session, after, what, Request::Submit(submission));
        assert!(self.asked[id].answer.borrow().is_some(), "one region waits for the other");
        id
    }
    /// Reads both lists from the columns at this node.
    fn query(&mut self, node: NodeId, session: u64, consistency: Consistency) -> usize {
        let partitions = self.layout.topology.partition_ids().collect();
        let tables = [(LISTS, partitions)].into();
        let open = OpenSnapshot {
            at: None,
            consistency,
            token: Token::default(),
            tables,
            wanted: Default::default(),
        };
        self.ask(node, session, None, What::Query, Request::OpenSnapshot(open))
    }

    fn history(&self) -> History {
        let mut recorder = Recorder::new();
        self.lists.iter().for_each(|item| recorder.loaded(&item.name()));
        let mut ops: Vec<OpId> = Vec::new();
        for asked in &self.asked {
            let op = recorder.begin(SessionId(asked.session), asked.begun.0);
            ops.push(op);
            if let Some(after) = asked.after {
                recorder.token(op, ops[after]);
            }
            let answer = asked.answer.borrow();
            let (at, reply) = answer.as_ref().expect("everything is answered once the link is back");
            match (&asked.what, reply) {
                (What::Append(item, value), Reply::Submitted(Ok(answer))) => {
                    let Outcome::Committed { results } = &answer.outcome else { panic!("an append aborts") };
                    let (_, content) = read_row(Kind::List, &results[0].rows[0].to_vec());
                    let Content::List(items) = content else { unreachable!() };
                    recorder.read_list(op, &item.name(), &items[..items.len() - 1]);
                    recorder.append(op, &item.name(), *value);
                }
                (What::Query, Reply::Snapshot(Ok(snapshot))) => {
                    for values in rows_of(&snapshot.tables[&LISTS]) {
                        let (item, Content::List(items)) = read_row(Kind::List, &values) else {
                            unreachable!()
                        };
                        recorder.read_list(op, &item.name(), &items);
                    }
                }
                _ => panic!("refused"),
            }
            recorder.commit(op, at.0);
        }
        recorder.finish()
    }
}

fn anomaly(history: &History, guarantee: Guarantee) -> Option<Anomaly> {
    check(history, guarantee).err().map(|violation| violation.anomaly)
}

/// Two writers that have nothing to do with each other, two queries that see one of them each.
fn fork(level: Consistency, knobs: Knobs) -> History {
    let scene = Scene::new(knobs);
    scene.between_answers(
        |scene| {
            scene.query(A, 1, level);
            scene.query(B, 2, level);
        },
        |scene| {
            scene.append(A, 3, None);
            scene.append(B, 4, None);
        },
    )
}

/// A session writes at A, then at B; a query asked A before and B after.
fn session(level: Consistency, knobs: Knobs) -> History {
    let scene = Scene::new(knobs);
    // Of its own partition a query knows what was first; or what was last, if cuts move up meanwhile.
    let near = if knobs.dynamic == Dynamic::Off { A } else { B };
    scene.between_answers(
        |scene| _ = scene.query(near, 1, level),
        |scene| {
            let first = scene.append(A, 3, None);
            scene.append(B, 3, Some(first));
        },
    )
}

/// The same by two clients who do not know of each other.
fn real_time(level: Consistency, knobs: Knobs) -> History {
    let scene = Scene::new(knobs);
    let near = if knobs.dynamic == Dynamic::Off { A } else { B };
    scene.between_answers(
        |scene| _ = scene.query(near, 1, level),
        |scene| {
            scene.append(A, 3, None);
            scene.append(B, 4, None);
        },
    )
}

const OFF: Knobs = Knobs { dynamic: Dynamic::Off, mutant: None };
const ESSENTIAL: Knobs = Knobs { dynamic: Dynamic::Essential, mutant: None };

#[test]
fn regular_forks_and_rss_does_not() {
    for knobs in [OFF, ESSENTIAL] {
        let history = fork(Consistency::Regular, knobs);
        assert_eq!(anomaly(&history, Guarantee::Rss), Some(Anomaly::LongFork), "{knobs:?}");
        assert_eq!(anomaly(&history, Guarantee::Serializable), Some(Anomaly::LongFork));
        assert_eq!(anomaly(&history, Guarantee::Regular), None);
        assert_eq!(anomaly(&fork(Consistency::Rss, knobs), Guarantee::Rss), None);
    }
}

#[test]
fn regular_keeps_a_sessions_writes_in_order_unless_their_edges_are_off() {
    for knobs in [OFF, ESSENTIAL] {
        for level in [Consistency::Regular, Consistency::Rss] {
            let history = session(level, knobs);
            assert_eq!(anomaly(&history, Guarantee::Session), None);
            assert_eq!(anomaly(&history, Guarantee::Rss), None);
        }
        let without = Knobs { mutant: Some(Mutant::NoSessionEdges), ..knobs };
        let history = session(Consistency::Regular, without);
        assert!(anomaly(&history, Guarantee::Session).is_some(), "{knobs:?}");
        assert!(anomaly(&history, Guarantee::Rss).is_some());
        assert_eq!(anomaly(&history, Guarantee::Closed), None);
    }
}

#[test]
fn regular_shows_a_later_write_without_an_earlier_one_and_rss_does_not() {
    for knobs in [OFF, ESSENTIAL] {
        let history = real_time(Consistency::Regular, knobs);
        assert!(anomaly(&history, Guarantee::Rss).is_some(), "{knobs:?}");
        assert_eq!(anomaly(&history, Guarantee::Serializable), None);
        assert_eq!(anomaly(&history, Guarantee::Regular), None);
        assert_eq!(anomaly(&real_time(Consistency::Rss, knobs), Guarantee::Rss), None);
    }
}
