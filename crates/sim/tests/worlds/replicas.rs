//! Read-only replicas of rows: what reads there see under each policy, with faults, and what they ask of the writer.

use base::cut::Consistency;
use base::time::{MS, SECOND};
use base::topology::{NodeSpec, Topology};
use base::wan::Wan;
use base::{NodeId, PartitionId, RegionId, Token};
use node::request::{ReadRows, Reply, Request};
use reads::protocol::Baseline;
use reads::replica::ReadPolicy;
use sim::cluster::layout::{Content, Item, Kind, Layout, Target, read_row};
use sim::cluster::run::{Case, Subject, run, set_up, world};
use sim::cluster::script_client::ScriptClient;
use sim::plan::Plan;
use sim::world::{Fault, Setup, World};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

const WRITER: NodeId = NodeId(0);
const REPLICA: NodeId = NodeId(2);
const STALE: ReadPolicy = ReadPolicy::Stale { bound_ns: None };

type Replies = Rc<RefCell<Vec<Reply>>>;

/// Two regions of one partition each; n2 and n3, beside the first, keep replicas of both partitions' rows.
struct Scene {
    world: World<Subject>,
    layout: Arc<Layout>,
    written: u64,
}

/// Streams are sent, and told to be complete, so often.
fn each(ns: u64) -> node::Streaming {
    node::Streaming { flush_ns: ns, low_interval_ns: ns, ..Default::default() }
}

impl Scene {
    fn new(node: node::Options) -> Scene {
        let mut topology = Topology::one_node_per_region(Wan::preset("perseus3").unwrap().truncated(2), 1);
        topology.clock_bound_ns = MS;
        let all: Vec<PartitionId> = topology.partition_ids().collect();
        for _ in 0..2 {
            topology.nodes.push(NodeSpec { region: RegionId(0), subscribes: all.clone() });
        }
        let layout = Arc::new(Layout::new(Arc::new(topology.clone()), 1, 4));
        let kept = node::Kept { rows: true, columns: false, ..node.kept.clone() };
        let node = node::Options { kept, ..node };
        let mut world = world(Setup::calm(topology, 1), txn::perseus::Options::default(), node);
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
    fn begin(&mut self, node: NodeId, request: Request) -> Replies {
        let (client, replies) = ScriptClient::<Subject>::once(node, request);
        self.world.client(client);
        replies
    }
    /// Its answer, as soon as it is there.
    fn ask(&mut self, node: NodeId, request: Request) -> Option<Reply> {
        let replies = self.begin(node, request);
        for _ in 0..20_000 {
            if let Some(reply) = replies.borrow_mut().pop() {
                return Some(reply);
            }
            self.run(MS / 10);
        }
        None
    }
    fn item(&self, partition: usize) -> Item {
        Item { kind: Kind::List, shelf: self.layout.shelves[partition].0, key: 0 }
    }
    /// Appends one value to a list of each of these partitions, in one transaction.
    fn write(&mut self, partitions: &[usize]) -> u64 {
        self.write_at(WRITER, partitions)
    }
    fn write_at(&mut self, gateway: NodeId, partitions: &[usize]) -> u64 {
        self.written += 1;
        let items = partitions.iter().map(|p| self.item(*p));
        let appends = items.map(|i| (i.shelf, self.layout.append(&i, self.written))).collect();
        let submission = self.layout.one_shot(appends, Token::default());
        match self.ask(gateway, Request::Submit(submission)) {
            Some(Reply::Submitted(Ok(answer))) => assert!(answer.outcome.is_committed()),
            _ => panic!("no answer to a write"),
        }
        self.written
    }
    fn reading(&self, policy: ReadPolicy, partitions: &[usize]) -> Request {
        let reads = partitions.iter().map(|p| self.layout.row_read(&Target::row(self.item(*p)))).collect();
        let read = ReadRows { at: None, consistency: Consistency::Rss, token: Token::default(), reads };
        Request::ReadRowsUnder { policy, read }
    }
    /// The lists of partitions, as a replica shows them.
    fn read(&mut self, policy: ReadPolicy, partitions: &[usize]) -> Vec<Vec<u64>> {
        let request = self.reading(policy, partitions);
        match self.ask(REPLICA, request) {
            Some(reply) => lists(&reply),
            None => panic!("no answer under {}", policy.name()),
        }
    }
    fn fetches(&self) -> u64 {
        self.world.node(REPLICA).unwrap().fetches_sent()
    }
}

fn lists(reply: &Reply) -> Vec<Vec<u64>> {
    let Reply::Rows(Ok(rows)) = reply else { panic!("a read is refused") };
    let list = |rows: &Vec<(base::Key, base::Row)>| match read_row(Kind::List, &rows[0].1.to_vec()) {
        (_, Content::List(list)) => list,
        _ => unreachable!(),
    };
    rows.reads.iter().map(list).collect()
}

#[test]
fn every_strong_policy_shows_what_was_answered_and_stale_does_not() {
    let mut scene = Scene::new(node::Options { streaming: each(50 * MS), ..Default::default() });
    let mut stale = 0;
    for round in 0..12 {
        let partitions: &[usize] = if round % 2 == 0 { &[0] } else { &[0, 1] };
        let written = scene.write(partitions);
        // First: nobody has asked the writer for what is new.
        let seen = scene.read(STALE, partitions);
        stale += usize::from(seen.iter().any(|list| list.last() != Some(&written)));
        for policy in [ReadPolicy::Scc, ReadPolicy::ReadWait, ReadPolicy::Primary] {
            let seen = scene.read(policy, partitions);
            assert!(seen.iter().all(|l| l.last() == Some(&written)), "{} {round}: {seen:?}", policy.name());
        }
    }
    assert!(stale >= 6, "{stale} of 12 reads were stale");
    scene.run(SECOND);
    let bounded = ReadPolicy::Stale { bound_ns: Some(300 * MS) };
    let written = scene.write(&[0]);
    scene.run(SECOND / 2);
    assert_eq!(scene.read(bounded, &[0])[0].last(), Some(&written), "older than its bound");
}

#[test]
fn a_fetch_of_what_is_published_takes_no_step_of_the_writer() {
    let mut scene = Scene::new(node::Options::default());
    scene.write(&[0]);
    // The first question is what the writer begins to track with.
    scene.read(ReadPolicy::Scc, &[0]);
    let loaded = |scene: &Scene| scene.world.node(REPLICA).unwrap().fetches_loaded();
    assert_eq!((scene.fetches(), loaded(&scene)), (1, 0));
    for round in 1..=5 {
        let written = scene.write(&[0]);
        assert_eq!(scene.read(ReadPolicy::Scc, &[0])[0].last(), Some(&written));
        assert_eq!((scene.fetches(), loaded(&scene)), (1 + round, round));
    }
    // One cut for two partitions has to be asked for.
    let written = scene.write(&[0, 1]);
    assert!(scene.read(ReadPolicy::Scc, &[0, 1]).iter().all(|list| list.last() == Some(&written)));
    assert_eq!((scene.fetches(), loaded(&scene)), (8, 5));
    // A session that has seen what lies above the published cut is not answered from below it.
    let Some(Reply::Rows(Ok(rows))) = scene.ask(REPLICA, scene.reading(ReadPolicy::Primary, &[0])) else {
        panic!("a read is refused")
    };
    let Request::ReadRowsUnder { policy, mut read } = scene.reading(ReadPolicy::Scc, &[0]) else {
        unreachable!()
    };
    read.token = rows.token;
    let seen = rows.at;
    let Some(Reply::Rows(Ok(rows))) = scene.ask(REPLICA, Request::ReadRowsUnder { policy, read }) else {
        panic!("a read is refused")
    };
    assert!(rows.at >= seen, "{} lies below what the session has seen, {seen}", rows.at);
}

#[test]
fn a_later_read_at_the_cut_of_an_earlier_one_sees_the_same() {
    let mut scene = Scene::new(node::Options::default());
    let first = scene.write(&[0]);
    scene.read(ReadPolicy::Scc, &[0]);
    let request = scene.reading(ReadPolicy::Scc, &[0]);
    let Some(Reply::Rows(Ok(rows))) = scene.ask(REPLICA, request) else { panic!("a read is refused") };
    let cut = rows.at;
    let second = scene.write(&[0]);
    let Request::ReadRowsUnder { policy, read } = scene.reading(ReadPolicy::Scc, &[0]) else {
        unreachable!()
    };
    let again = Request::ReadRowsUnder { policy, read: ReadRows { at: Some(cut), ..read } };
    let seen = scene.ask(REPLICA, again).expect("an answer");
    assert_eq!(lists(&seen)[0].last(), Some(&first));
    assert_eq!(scene.read(ReadPolicy::Scc, &[0])[0].last(), Some(&second));
}

#[test]
fn a_read_waits_for_writers_of_what_it_reads_and_of_nothing_else() {
    // Records reach the replica with answers, and no sooner.
    let mut scene = Scene::new(node::Options { streaming: each(SECOND), ..Default::default() });
    scene.write(&[0]);
    scene.read(ReadPolicy::Scc, &[0]);
    let written = scene.write(&[0]);
    // The way from the writer to the replica takes the stream and not the answers: it is cut, and opened again.
    scene.fault(Fault::CutOneWay { from: WRITER, to: REPLICA });
    let request = scene.reading(ReadPolicy::Scc, &[0]);
    let replies = scene.begin(REPLICA, request);
    scene.run(8 * MS);
    assert!(replies.borrow().is_empty(), "nobody has told it what is new");
    scene.fault(Fault::Reconnect);
    scene.run(SECOND);
    assert_eq!(lists(&replies.borrow()[0])[0].last(), Some(&written));
}

#[test]
fn questions_grow_with_replicas_and_not_with_reads() {
    let mut counts = Vec::new();
    for reads in [50, 500] {
        let mut scene = Scene::new(node::Options::default());
        scene.write(&[0]);
        let before = scene.fetches();
        let replies: Vec<Replies> = (0..reads)
            .map(|_| {
                let request = scene.reading(ReadPolicy::Scc, &[0]);
                scene.begin(REPLICA, request)
            })
            .collect();
        scene.run(SECOND);
        assert!(replies.iter().all(|replies| lists(&replies.borrow()[0]) == vec![vec![1]]));
        counts.push(scene.fetches() - before);
    }
    assert!(counts[0] > 0 && counts[0] == counts[1], "{counts:?} questions for 50 and 500 reads at once");
}

#[test]
fn a_replica_without_memory_takes_a_copy_and_one_without_a_writer_says_nothing() {
    let mut scene = Scene::new(node::Options::default());
    for _ in 0..5 {
        scene.write(&[0, 1]);
    }
    scene.fault(Fault::Crash(REPLICA));
    let written = scene.write(&[0, 1]);
    scene.fault(Fault::Restart(REPLICA));
    // At once: its copy has not arrived, so the partitions' nodes answer.
    assert!(scene.read(ReadPolicy::Scc, &[0, 1]).iter().all(|list| list.last() == Some(&written)));
    scene.run(SECOND);
    let (before, written) = (scene.fetches(), scene.write(&[0]));
    let seen = scene.read(ReadPolicy::Scc, &[0]);
    assert_eq!(seen[0], (1..=written).collect::<Vec<u64>>(), "rows of the copy and of the log");
    assert!(scene.fetches() > before, "it was read at the replica");
    let request = scene.reading(ReadPolicy::Scc, &[0]);
    scene.fault(Fault::Separate([REPLICA].into()));
    let replies = scene.begin(REPLICA, request);
    scene.run(SECOND);
    assert!(replies.borrow().is_empty(), "no answer rather than a stale one");
    // What was complete when it was cut off can be read at a level that promises no more.
    let stale = scene.read(STALE, &[0]);
    assert!(stale[0].len() as u64 >= written - 1, "{stale:?}");
}

#[test]
fn writers_wait_for_replicas_under_commit_wait() {
    let baseline = Some(Baseline::SynchronousReplica);
    let mut scene = Scene::new(node::Options { streaming: each(MS), baseline, ..Default::default() });
    for _ in 0..5 {
        let (written, before) = (scene.write(&[0]), scene.fetches());
        assert_eq!(scene.read(ReadPolicy::CommitWait, &[0])[0].last(), Some(&written));
        assert_eq!(scene.fetches(), before, "nobody is asked");
    }
}

fn case(policy: ReadPolicy, plan: &str, level: Consistency, seed: u64) -> Case {
    Case { replicas: Some(policy), stays_home: true, ..Case::new(seed, Plan::named(plan).unwrap(), level) }
}

/// A few seeds of plans with every kind of fault, everything that clients see held against the level.
#[test]
fn reads_at_replicas_keep_the_promise_of_their_level() {
    use Consistency::{Rss, Session, Stale};
    let plans =
        ["wan3-mixed", "wan3-lossy", "wan3-jittery", "wan3-partitions", "wan3-clock-skew", "wan2-mixed"];
    for (nth, plan) in plans.into_iter().enumerate() {
        let ways = [
            (ReadPolicy::Scc, Rss),
            (ReadPolicy::Scc, Rss),
            (ReadPolicy::ReadWait, Rss),
            (ReadPolicy::Scc, Session),
            (STALE, Stale),
        ];
        for (seed, (policy, level)) in (10 * nth as u64..).zip(ways) {
            let summary = run(&case(policy, plan, level, seed));
            let summary =
                summary.unwrap_or_else(|e| panic!("{} {plan} {level:?} {seed}: {e}", policy.name()));
            assert!(summary.tally["strong reads"] > 0);
        }
    }
}

/// While a read at the replica asks the other region, something is written there and answered, and another read begins:
/// whether that sees it.
fn later_read_sees_what_was_written_meanwhile(node: node::Options) -> bool {
    let mut scene = Scene::new(node);
    let request = scene.reading(ReadPolicy::Scc, &[1]);
    let first = scene.begin(REPLICA, request);
    scene.run(MS);
    let written = scene.write_at(NodeId(1), &[1]);
    assert!(first.borrow().is_empty(), "the first read still asks");
    scene.read(ReadPolicy::Scc, &[1])[0].last() == Some(&written)
}

/// Records arrive together with the answer that names the last of them, and are applied one a step.
fn read_sees_what_is_not_applied_when_it_may_begin(node: node::Options) -> bool {
    let mut scene = Scene::new(node::Options {
        steps: node::Steps { keys: 1, ..node.steps },
        streaming: each(SECOND),
        ..node
    });
    scene.read(ReadPolicy::Scc, &[0]);
    let written = (0..20).map(|_| scene.write(&[0])).last();
    scene.read(ReadPolicy::Scc, &[0])[0].last().copied() == written
}

#[test]
fn no_read_is_served_with_a_question_from_before_it_or_with_what_is_not_applied() {
    assert!(later_read_sees_what_was_written_meanwhile(node::Options::default()));
    assert!(read_sees_what_is_not_applied_when_it_may_begin(node::Options::default()));
}

#[cfg(feature = "mutants")]
#[test]
fn every_fault_planted_in_reads_at_replicas_is_found() {
    use reads::rule::Mutant;
    let with = |mutant| node::Options {
        mutants: node::Mutants { reads: Some(mutant), rows: None },
        ..Default::default()
    };
    assert!(!later_read_sees_what_was_written_meanwhile(with(Mutant::JoinFetchUnderWay)));
    assert!(!read_sees_what_is_not_applied_when_it_may_begin(with(Mutant::ForgetWrites)));
}
