//! A node's leading machine is lost for good while transactions are under way: its group elects another, and
//! everything that waited for it ends. With engine caerus the node orders what is homed in its region; no other region
//! has to lead its sequence.

use base::rng::Rng;
use base::time::{MS, SECOND};
use base::topology::Topology;
use base::wan::Wan;
use base::{NodeId, PartitionId, RequestId, Time, Token};
use node::durable::{Groups, Options};
use node::request::{ReadRows, Reply, Request};
use sim::cluster::durable::{Machine, world};
use sim::cluster::layout::{Content, Item, Kind, Layout, Target, read_row};
use sim::cluster::run::set_up;
use sim::cluster::script_client::ScriptClient;
use sim::world::client::{Client, ClientEffects, ClientEvent};
use sim::world::{Fault, Setup, World};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use txn::any::{EngineKind, EngineOptions};
use txn::engine::Engine;

/// The node whose leading machine is lost, and one that shares transactions with it.
const LOST: PartitionId = PartitionId(1);
const OTHER: PartitionId = PartitionId(2);

/// What was asked: when, when it was answered, the value, and whether the lost participant takes part.
#[derive(Clone, Copy, Debug)]
struct Write {
    asked: Time,
    answered: Option<Time>,
    takes_part: bool,
}

/// Writes at a steady pace, whether or not answers come: in turn to both partitions, and to the other alone,
/// the same row, so that each waits for the one before.
struct Feeder {
    layout: Arc<Layout>,
    gateway: NodeId,
    first: u64,
    until: Time,
    every_ns: u64,
    open: BTreeMap<RequestId, u64>,
    writes: Rc<RefCell<BTreeMap<u64, Write>>>,
    ended: bool,
}

fn list_at(layout: &Layout, partition: PartitionId) -> Item {
    let &(shelf, _) = layout.shelves.iter().find(|(_, p)| *p == partition).expect("it has a shelf");
    Item { kind: Kind::List, shelf, key: 0 }
}

impl Client<Machine> for Feeder {
    fn step(&mut self, now: Time, event: ClientEvent<Machine>, out: &mut ClientEffects<Machine>) {
        match event {
            ClientEvent::Start => out.wake_at(now, self.first),
            ClientEvent::Wake(value) if now < self.until => {
                let takes_part = value % 2 == 0;
                let partitions = if takes_part { vec![LOST, OTHER] } else { vec![OTHER] };
                let items = partitions.into_iter().map(|p| list_at(&self.layout, p));
                let appends = items.map(|item| (item.shelf, self.layout.append(&item, value))).collect();
                let id =
                    out.ask(self.gateway, Request::Submit(self.layout.one_shot(appends, Token::default())));
                self.open.insert(id, value);
                self.writes.borrow_mut().insert(value, Write { asked: now, answered: None, takes_part });
                out.wake_at(now + self.every_ns, value + 1);
            }
            ClientEvent::Wake(_) => self.ended = true,
            ClientEvent::Reply { id, reply: Reply::Submitted(Ok(submitted)) } => {
                assert!(submitted.outcome.is_committed());
                let value = self.open.remove(&id).expect("was asked");
                self.writes.borrow_mut().get_mut(&value).expect("was asked").answered = Some(now);
            }
            ClientEvent::Reply { .. } => panic!("a write is refused"),
            ClientEvent::Lost { .. } => panic!("the gateway is up"),
        }
    }
    fn is_done(&self) -> bool {
        self.ended && self.open.is_empty()
    }
}

/// What a read of these lists shows after everything else.
fn lists(world: &mut World<Machine>, layout: &Arc<Layout>, gateway: NodeId) -> Vec<Vec<u64>> {
    let items = [LOST, OTHER].map(|p| list_at(layout, p));
    let reads = items.map(|item| layout.row_read(&Target::row(item))).to_vec();
    let consistency = base::cut::Consistency::Rss;
    let mut read = Some(ReadRows { at: None, consistency, token: Token::default(), reads });
    let next = move |_: &[Reply]| read.take().map(|read| (gateway, Request::ReadRows(read)));
    let (client, replies) = ScriptClient::<Machine>::new(next);
    world.client(client);
    let limit = world.now() + 5 * SECOND;
    world.run_to_rest(limit).unwrap_or_else(|stuck| panic!("{stuck}"));
    let replies: Vec<Reply> = replies.borrow_mut().drain(..).collect();
    let [Reply::Rows(Ok(rows))] = &replies[..] else { panic!("no rows") };
    let content = |rows: &Vec<(base::Key, base::Row)>| match read_row(Kind::List, &rows[0].1.to_vec()).1 {
        Content::List(values) => values,
        other => panic!("{other:?} is no list"),
    };
    rows.reads.iter().map(content).collect()
}

fn perseus() -> EngineOptions {
    txn::perseus::Options::default().into()
}
fn caerus(copies_elsewhere: usize) -> EngineOptions {
    txn::caerus::Options { copies_elsewhere, ..txn::caerus::Options::default() }.into()
}

/// How long the longest wait was: of those who asked before the loss and were not answered yet, and of those
/// who asked after it.
fn lose_a_leader(seed: u64, engine: EngineOptions) -> (u64, u64) {
    let topology = Topology::one_node_per_region(Wan::preset("perseus3").unwrap(), 1);
    let kind = engine.kind();
    let logical = Arc::new(kind.layout(topology));
    let groups = Arc::new(Groups::of(3, 3));
    let machines = Arc::new(groups.machines_of(&logical));
    let layout = Arc::new(Layout::new(machines.clone(), 1, 1));
    let setup = Setup::calm((*machines).clone(), seed);
    let mut world =
        world(setup, logical, groups.clone(), Options::default(), engine, node::Options::default());
    set_up(&mut world, &layout);
    let writes = Rc::new(RefCell::new(BTreeMap::new()));
    let mut rng = Rng::new(seed).fork("failover");
    let begin = world.now();
    // Gateways: a machine of the first region and one of the other participant's.
    for (nth, node) in [NodeId(0), NodeId(2)].into_iter().enumerate() {
        world.client(Feeder {
            layout: layout.clone(),
            gateway: groups.members(node)[rng.below(3) as usize],
            first: 1 + 1_000_000 * nth as u64,
            until: begin + 3 * SECOND,
            every_ns: 40 * MS + rng.below(20 * MS),
            open: BTreeMap::new(),
            writes: writes.clone(),
            ended: false,
        });
    }
    let lost_at = begin + SECOND + rng.below(200 * MS);
    world.run_until(lost_at);
    let members = groups.members(logical_node(&layout, &groups));
    let leads = |m: &&NodeId| world.node(**m).is_some_and(|machine| machine.is_ready());
    let leader = *members.iter().find(leads).expect("somebody leads");
    world.fault_at(lost_at, Fault::Crash(leader));
    world.run_to_rest(lost_at + 30 * SECOND).unwrap_or_else(|stuck| panic!("seed {seed}: {stuck}"));

    if kind == EngineKind::Caerus {
        for machine in groups.machines().filter(|machine| *machine != leader) {
            let machine = world.node(machine).expect("one was lost");
            let terms = machine.inner().engine().report().counters["terms led by others"];
            assert_eq!(terms, 0, "seed {seed}: no region takes over from one that lost a machine");
        }
    }
    let writes = writes.borrow();
    let wait = |w: &Write| w.answered.expect("all are answered").since(w.asked.max(lost_at));
    let under_way = writes.values().filter(|w| w.asked < lost_at && lost_at < w.answered.expect("answered"));
    let waited_before = under_way.clone().map(wait).max().unwrap_or_default();
    assert!(under_way.clone().any(|w| w.takes_part), "seed {seed}: nothing was under way");
    let waited_after = writes.values().filter(|w| lost_at <= w.asked).map(wait).max().expect("some");
    // Everything is there once, in the other list too.
    let [mut of_lost, mut of_other] = <[_; 2]>::try_from(lists(&mut world, &layout, NodeId(0))).unwrap();
    of_lost.sort_unstable();
    of_other.sort_unstable();
    let both: Vec<u64> = writes.iter().filter(|(_, w)| w.takes_part).map(|(value, _)| *value).collect();
    assert_eq!(of_lost, both, "seed {seed}");
    assert_eq!(of_other, writes.keys().copied().collect::<Vec<_>>(), "seed {seed}");
    (waited_before, waited_after)
}

fn logical_node(layout: &Layout, groups: &Groups) -> NodeId {
    groups.node_of(layout.topology.node_of(LOST))
}

#[test]
fn what_waits_for_a_lost_participant_ends_after_its_group_has_elected() {
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for seed in 0..8 {
        let (waited_before, waited_after) = lose_a_leader(seed, perseus());
        before.push(waited_before / MS);
        after.push(waited_after / MS);
    }
    println!("ms waited by who was under way: {before:?}; by who came later: {after:?}");
    // An election takes up to 300 ms and the promises to the lost leader 100, others look for another machine
    // after 400, and whoever repeats does so at intervals that double. Calm, such a write takes half a second.
    assert!(before.iter().chain(&after).all(|ms| *ms < 2_000), "{before:?} {after:?}");
}

#[test]
fn a_sequencer_of_three_machines_loses_its_leader_and_no_region_takes_over() {
    for copies_elsewhere in [0, 1] {
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for seed in 0..6 {
            let (waited_before, waited_after) = lose_a_leader(seed, caerus(copies_elsewhere));
            before.push(waited_before / MS);
            after.push(waited_after / MS);
        }
        println!(
            "K = {copies_elsewhere}: ms waited by who was under way: {before:?}; by who came later: {after:?}"
        );
        assert!(before.iter().chain(&after).all(|ms| *ms < 2_000), "{before:?} {after:?}");
    }
}

/// One transaction of its own region after the other, and the same of two regions 100 ms apart: the mean of each, as
/// their client sees it.
fn commit_ns(copies: u16) -> [u64; 2] {
    let topology = Topology::one_node_per_region(Wan::preset("perseus3").unwrap(), 1);
    let logical = Arc::new(EngineKind::Caerus.layout(topology));
    let groups = Arc::new(Groups::of(3, copies));
    let machines = Arc::new(groups.machines_of(&logical));
    let layout = Arc::new(Layout::new(machines.clone(), 1, 1));
    let setup = Setup::calm((*machines).clone(), 1);
    let mut world =
        world(setup, logical, groups.clone(), Options::default(), caerus(0), node::Options::default());
    set_up(&mut world, &layout);
    [vec![LOST], vec![LOST, OTHER]].map(|partitions| {
        let members = groups.members(logical_node(&layout, &groups));
        let leads = |m: &&NodeId| world.node(**m).is_some_and(|machine| machine.is_ready());
        let gateway = *members.iter().find(leads).expect("somebody leads");
        let plan = layout.clone();
        let mut value = 1_000_000 * partitions.len() as u64;
        let begin = world.now();
        let mut rounds = 40;
        let next = move |_: &[Reply]| {
            (rounds, value) = (rounds - 1, value + 1);
            let items = partitions.iter().map(|p| list_at(&plan, *p));
            let appends = items.map(|item| (item.shelf, plan.append(&item, value))).collect();
            (rounds > 0).then(|| (gateway, Request::Submit(plan.one_shot(appends, Token::default()))))
        };
        let (client, replies) = ScriptClient::<Machine>::new(next);
        world.client(client);
        world.run_to_rest(begin + 60 * SECOND).unwrap_or_else(|stuck| panic!("{stuck}"));
        let count = replies.borrow().len() as u64;
        assert!(replies.borrow().iter().all(|reply| matches!(reply, Reply::Submitted(Ok(_)))));
        world.now().since(begin) / count
    })
}

#[test]
fn machines_that_follow_cost_about_a_round_trip_inside_the_region_for_each_hop() {
    let ([one_here, one_far], [three_here, three_far]) = (commit_ns(1), commit_ns(3));
    let ms = |ns: u64| ns as f64 / MS as f64;
    println!(
        "ms to commit, of one machine and of three: one region {:.2} and {:.2}, two regions {:.2} and {:.2}",
        ms(one_here),
        ms(three_here),
        ms(one_far),
        ms(three_far)
    );
    // 2 ms inside a region: a transaction of the own region is one entry of a log; one of two regions is entered by
    // its gateway, by the other region and by the gateway again.
    assert!(three_here - one_here < 4 * MS, "{one_here} {three_here}");
    assert!(three_far - one_far < 12 * MS, "{one_far} {three_far}");
}
