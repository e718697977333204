//! The world keeps its promises to any process: here a counter that every node wants to know.

use base::process::{Effects, Event, PersistToken, Process};
use base::rng::Rng;
use base::time::{MS, SECOND, US};
use base::topology::Topology;
use base::wan::Wan;
use base::{NodeId, RequestId, Time};
use serde::{Deserialize, Serialize};
use sim::plan::{Mix, Plan};
use sim::replay::run_twice;
use sim::world::client::{Client, ClientEffects, ClientEvent};
use sim::world::clock::ClockModel;
use sim::world::network::{LinkFaults, Links};
use sim::world::{BEGIN, Booted, Cost, Fault, Setup, World};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Collects additions: each is stored here, told to everyone until acknowledged, then answered.
struct Tally {
    me: NodeId,
    everyone: Vec<NodeId>,
    life: u32,
    seen: BTreeSet<(NodeId, u32, u64)>,
    mine: BTreeMap<u64, Mine>,
    next: u64,
    last: Time,
}
struct Mine {
    client: RequestId,
    missing: BTreeSet<NodeId>,
    stored: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Message {
    Tell { life: u32, nth: u64 },
    Heard { life: u32, nth: u64 },
}

const AGAIN_NS: u64 = 150 * MS;

impl Tally {
    fn new(me: NodeId, topology: &Topology, life: u32, records: &[Vec<u8>]) -> Tally {
        let seen = records.iter().map(|r| base::codec::decode(r).unwrap()).collect();
        let everyone = topology.node_ids().collect();
        Tally { me, everyone, life, seen, mine: BTreeMap::new(), next: 0, last: Time::ZERO }
    }
    fn tell(&self, out: &mut Effects<Tally>) {
        for (&nth, mine) in &self.mine {
            for &to in &mine.missing {
                out.send(to, Message::Tell { life: self.life, nth });
            }
        }
    }
    fn settle(&mut self, out: &mut Effects<Tally>) {
        let done: Vec<u64> =
            self.mine.iter().filter(|(_, m)| m.stored && m.missing.is_empty()).map(|(&n, _)| n).collect();
        for nth in done {
            out.reply(self.mine.remove(&nth).unwrap().client, self.seen.len());
        }
    }
}

impl Process for Tally {
    type Message = Message;
    type Timer = ();
    type Request = ();
    type Reply = usize;
    type Computed = ();

    fn step(&mut self, now: Time, event: Event<Tally>, out: &mut Effects<Tally>) {
        assert!(self.last <= now, "the clock of {} ran backwards", self.me);
        let is_first = self.last == Time::ZERO;
        assert!(
            !is_first || matches!(event, Event::Start),
            "something comes to {} before its start",
            self.me
        );
        self.last = now;
        match event {
            Event::Start => out.timer((), now + AGAIN_NS),
            Event::Request { id, .. } => {
                self.next += 1;
                let token = (self.me, self.life, self.next);
                self.seen.insert(token);
                let missing = self.everyone.iter().copied().collect();
                self.mine.insert(self.next, Mine { client: id, missing, stored: false });
                out.persist(PersistToken(self.next), base::codec::encode(&token));
                self.tell(out);
            }
            Event::Message { from, message: Message::Tell { life, nth } } => {
                self.seen.insert((from, life, nth));
                out.send(from, Message::Heard { life, nth });
            }
            Event::Message { from, message: Message::Heard { life, nth } } => {
                if let (true, Some(mine)) = (life == self.life, self.mine.get_mut(&nth)) {
                    mine.missing.remove(&from);
                }
                self.settle(out);
            }
            Event::Timer(()) => {
                self.tell(out);
                out.timer((), now + AGAIN_NS);
            }
            Event::Stable { .. } => unreachable!("it records nothing"),
            Event::Persisted(token) => {
                if let Some(mine) = self.mine.get_mut(&token.0) {
                    mine.stored = true;
                }
                self.settle(out);
            }
            Event::Vanished { .. } | Event::Computed(()) => {}
        }
    }
}

/// Adds one after another; goes to another node after each.
struct Adder {
    at: u16,
    nodes: u16,
    left: u32,
    log: Rc<RefCell<Log>>,
}
#[derive(Default)]
struct Log {
    answered: Vec<Time>,
    lost: u32,
}

impl Client<Tally> for Adder {
    fn step(&mut self, now: Time, event: ClientEvent<Tally>, out: &mut ClientEffects<Tally>) {
        match event {
            ClientEvent::Start => {}
            ClientEvent::Reply { reply, .. } => {
                assert!(reply > 0);
                self.log.borrow_mut().answered.push(now);
                self.left -= 1;
            }
            ClientEvent::Lost { .. } => {
                self.log.borrow_mut().lost += 1;
                out.wake_at(now + 10 * MS, 0);
                return;
            }
            ClientEvent::Wake(_) => {}
        }
        if self.left > 0 {
            self.at = (self.at + 1) % self.nodes;
            out.ask(NodeId(self.at), ());
        }
    }
    fn is_done(&self) -> bool {
        self.left == 0
    }
}

fn topology(clock_bound_ns: u64) -> Topology {
    let mut topology = Topology::one_node_per_region(Wan::preset("perseus3").unwrap(), 1);
    topology.clock_bound_ns = clock_bound_ns;
    topology
}

fn world(setup: Setup) -> World<Tally> {
    let topology = setup.topology.clone();
    World::new(setup, move |node, life, records| Tally::new(node, &topology, life, records))
}

fn add(world: &mut World<Tally>, first: u16, count: u32) -> Rc<RefCell<Log>> {
    let log = Rc::new(RefCell::new(Log::default()));
    let nodes = world.topology().nodes.len() as u16;
    world.client(Adder { at: first, nodes, left: count, log: log.clone() });
    log
}

fn sizes(world: &World<Tally>) -> Vec<usize> {
    world.topology().node_ids().map(|n| world.node(n).unwrap().seen.len()).collect()
}

#[test]
fn a_round_trip_takes_what_the_matrix_says() {
    let mut world = world(Setup::calm(topology(0), 1));
    let log = add(&mut world, 0, 1);
    world.run_to_rest(BEGIN + SECOND).unwrap();
    assert_eq!(log.borrow().answered, [BEGIN + 100 * MS]);
    assert_eq!(world.counters().across.sent, 4);
    assert_eq!(world.counters().to_self.sent, 2);
    assert!(world.counters().across.bytes > 4);
}

#[test]
fn a_busy_node_makes_others_wait_their_turn() {
    let setup = Setup { cost: Cost { event_ns: 10 * MS, ..Cost::default() }, ..Setup::calm(topology(0), 1) };
    let mut world = world(setup);
    let first = add(&mut world, 0, 1);
    let second = add(&mut world, 0, 1);
    world.run_to_rest(BEGIN + SECOND).unwrap();
    let (first, second) = (first.borrow().answered[0], second.borrow().answered[0]);
    // Start, request, request, then two acknowledgements from oneself and four from others, each 10 ms.
    assert!(BEGIN + 140 * MS <= first, "{first:?}");
    assert!(first + 10 * MS <= second, "{first:?} {second:?}");
}

#[test]
fn every_plan_replays_and_makes_progress_once_healed() {
    for mix in Mix::ALL {
        for seed in 0..8 {
            let plan = Plan::named(&format!("wan3-{}", mix.name())).unwrap();
            let run = || {
                let mut rng = Rng::new(seed).fork("plan");
                let topology = topology(plan.clock_bound_ns(&mut rng));
                let script = plan.script(&topology, 3 * SECOND, &mut rng);
                let mut world = world(script.setup(topology, seed));
                script.enact(&mut world);
                let logs: Vec<_> = (0..3).map(|n| add(&mut world, n, 10)).collect();
                world.run_to_rest(BEGIN + 60 * SECOND).unwrap_or_else(|stuck| panic!("{plan:?}: {stuck}"));
                world.run_until(BEGIN + 61 * SECOND);
                assert_eq!(sizes(&world), [30, 30, 30], "{plan:?} seed {seed}");
                assert!(logs.iter().all(|l| l.borrow().answered.len() == 10));
                (world.trace_hash(), world.counters())
            };
            let (_, counters) = run_twice(run).unwrap();
            if mix == Mix::Calm {
                assert_eq!(counters.across.lost, 0);
            }
        }
    }
}

#[test]
fn another_seed_is_another_world() {
    let plan = Plan::named("wan3-mixed").unwrap();
    let hash = |seed| {
        let topology = topology(MS);
        let script = plan.script(&topology, SECOND, &mut Rng::new(seed));
        let mut world = world(script.setup(topology, seed));
        add(&mut world, 0, 3);
        world.run_until(BEGIN + SECOND);
        world.trace_hash()
    };
    let hashes: BTreeSet<u64> = (0..20).map(hash).collect();
    assert_eq!(hashes.len(), 20);
}

#[test]
fn a_crash_forgets_memory_and_keeps_what_was_synced() {
    let mut world = world(Setup::calm(topology(0), 3));
    let log = add(&mut world, 2, 4);
    // The first addition is made at n0 and answered after 100 ms; its record is safe by then.
    world.fault_at(BEGIN + 150 * MS, Fault::Crash(NodeId(0)));
    world.fault_at(BEGIN + 450 * MS, Fault::Restart(NodeId(0)));
    world.run_until(BEGIN + 200 * MS);
    assert!(world.node(NodeId(0)).is_none());
    world.run_to_rest(BEGIN + 5 * SECOND).unwrap();
    assert_eq!(world.node(NodeId(0)).unwrap().life, 1);
    assert!(world.node(NodeId(0)).unwrap().seen.contains(&(NodeId(0), 0, 1)), "an answered record is lost");
    assert_eq!(log.borrow().answered.len(), 4);
    assert_eq!(world.counters().crashes, 1);
    assert!(world.counters().across.lost > 0);
}

#[test]
fn nothing_comes_before_the_start_of_a_node_that_was_lost_while_it_waited_for_its_clock() {
    let topology = topology(0);
    let setup = Setup::calm(topology.clone(), 3);
    let mut world: World<Tally> = World::with_clocks(setup, move |node, life, records| Booted {
        node: Tally::new(node, &topology, life, records),
        starts_after: if life == 0 { Time::ZERO } else { BEGIN + SECOND },
    });
    for ms in [100, 300] {
        world.fault_at(BEGIN + ms * MS, Fault::Crash(NodeId(0)));
        world.fault_at(BEGIN + (ms + 100) * MS, Fault::Restart(NodeId(0)));
    }
    world.run_until(BEGIN + 350 * MS);
    let log = add(&mut world, 2, 1);
    world.run_to_rest(BEGIN + 5 * SECOND).unwrap();
    assert!(log.borrow().lost > 0 && BEGIN + SECOND < log.borrow().answered[0]);
}

#[test]
fn a_client_learns_that_its_node_is_gone() {
    let mut world = world(Setup::calm(topology(0), 3));
    world.fault_at(BEGIN, Fault::Crash(NodeId(1)));
    world.fault_at(BEGIN + SECOND, Fault::Restart(NodeId(1)));
    let log = add(&mut world, 0, 1);
    world.run_to_rest(BEGIN + 5 * SECOND).unwrap();
    assert_eq!((log.borrow().lost, log.borrow().answered.len()), (1, 1));
    assert_eq!(world.counters().requests_lost, 1);
}

#[test]
fn a_cut_stops_messages_until_it_is_healed() {
    let mut world = world(Setup::calm(topology(0), 4));
    world.fault_at(BEGIN, Fault::CutOneWay { from: NodeId(2), to: NodeId(0) });
    world.fault_at(BEGIN + SECOND, Fault::Reconnect);
    let log = add(&mut world, 2, 1);
    world.run_to_rest(BEGIN + 5 * SECOND).unwrap();
    assert!(BEGIN + SECOND < log.borrow().answered[0]);
}

#[test]
fn a_lost_message_stays_lost() {
    let links = Links { across: LinkFaults { loss: 1.0, ..LinkFaults::default() }, ..Links::default() };
    let mut world = world(Setup { links, ..Setup::calm(topology(0), 5) });
    add(&mut world, 0, 1);
    let stuck = world.run_to_rest(BEGIN + SECOND).unwrap_err();
    assert_eq!(stuck.unanswered.len(), 1);
    assert_eq!(world.counters().across.lost, world.counters().across.sent);
}

#[test]
fn timers_fire_by_the_clock_of_their_node() {
    // With clocks that swing by 20 ms a timer set by one's own clock never fires early; Tally asserts the
    // rest.
    let setup = Setup { clocks: ClockModel::Extremes, ..Setup::calm(topology(20 * MS), 6) };
    let mut world = world(setup);
    add(&mut world, 0, 5);
    world.run_until(BEGIN + 10 * SECOND);
    assert!(world.is_done());
    assert!(world.node(NodeId(0)).unwrap().last.0.abs_diff(world.now().0) < 20 * MS + AGAIN_NS + 200 * US);
}

#[test]
fn the_last_events_can_be_read() {
    let mut world = world(Setup::calm(topology(0), 7));
    world.keep_trace(5);
    add(&mut world, 0, 1);
    world.run_until(BEGIN + SECOND);
    let tail: Vec<&str> = world.trace_tail().collect();
    assert_eq!(tail.len(), 5);
    assert!(tail.iter().all(|line| line.contains(" n")), "{tail:?}");
}

/// Has a machine work, and notes when that was done.
struct Worker {
    node: NodeId,
    works_ns: Vec<u64>,
    done: Rc<RefCell<Vec<Time>>>,
}

impl Client<Tally> for Worker {
    fn step(&mut self, now: Time, event: ClientEvent<Tally>, out: &mut ClientEffects<Tally>) {
        match event {
            ClientEvent::Start => self.works_ns.iter().for_each(|ns| out.work(self.node, *ns, *ns)),
            _ => self.done.borrow_mut().push(now),
        }
    }
    fn is_done(&self) -> bool {
        self.done.borrow().len() == self.works_ns.len()
    }
}

#[test]
fn what_clients_have_a_machine_do_gets_what_its_node_leaves() {
    let works = |node: u16, asks: u32| {
        let cost = Cost { event_ns: MS, cores: 4, ..Cost::default() };
        let mut world = world(Setup { cost, ..Setup::calm(topology(0), 8) });
        let done = Rc::new(RefCell::new(Vec::new()));
        world.client(Worker { node: NodeId(node), works_ns: vec![400 * MS, 200 * MS], done: done.clone() });
        if asks > 0 {
            add(&mut world, node, asks);
        }
        world.run_to_rest(BEGIN + 60 * SECOND).unwrap();
        done.borrow().iter().map(|at| at.since(BEGIN)).collect::<Vec<u64>>()
    };
    let alone = works(0, 0);
    // Four cores: a quarter of the time, and what a few timers take.
    assert!((100 * MS..102 * MS).contains(&alone[0]), "{alone:?}");
    assert!((150 * MS..153 * MS).contains(&alone[1]), "{alone:?}");
    let beside = works(0, 50);
    assert!(alone[1] < beside[1], "{beside:?}");
}
