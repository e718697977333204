//! The log by itself: every order of a few messages, appends, elections and questions, and long random ones.
//!
//! A node's state follows from what happened to it, in order, so two schedules that are the same for every node are
//! one state and are explored once. A message that is never delivered is lost: what holds is checked in every state.
//! Checked are agreement (what any two nodes have merged is the beginning of the longer), the closed timestamp (an entry
//! that a node has not merged is stamped above what it has told its readers), one leader in a term, and questions (a
//! leader that tells where the log ends has all that was merged anywhere when it was asked).
//!
//! [`disk`] has nodes that record their logs, crash and come back.

mod disk;

use super::entries::Entries;
use super::{Ack, Append, Change, Fault, Grant, Group, Item, Log, Posts, Said, Term, Times};
use base::hash::digest;
use base::patience::Patience;
use base::rng::Rng;
use base::{NodeId, Rank, RegionId, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    id: u64,
    stamp: Rank,
}

impl Item for Entry {
    fn stamp(&self) -> Rank {
        self.stamp
    }
    fn collected(&self) -> Rank {
        Rank::ZERO
    }
}

#[derive(Clone, Debug)]
enum Flying {
    Said(Said<Entry>),
    /// Where does the log end?
    Question(u64),
}

/// How often each may still happen.
#[derive(Clone, Copy, Debug)]
struct Budget {
    appends: u8,
    /// All leaders fall silent for a while, and one node notices.
    silences: u8,
    heartbeats: u8,
    questions: u8,
    crashes: u8,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Sync(usize),
    Crash(usize),
    Checkpoint(usize),
    Deliver(usize),
    Append(usize),
    Silence(usize),
    Heartbeat(usize),
    Question(usize),
}

#[derive(Clone)]
struct World {
    logs: Vec<Rc<Log<Entry>>>,
    /// Of everything that happened to each node, in order.
    histories: Vec<u64>,
    /// Of nodes that record; none where nobody crashes.
    disks: Vec<disk::Disk>,
    /// Whom the last step asked for a promise.
    voted: Option<usize>,
    flying: Vec<(NodeId, NodeId, Flying)>,
    now: Time,
    budget: Budget,
    /// What was merged somewhere.
    merged: Vec<Entry>,
    led: BTreeMap<Term, usize>,
    /// For each question, how much had been merged when it was asked.
    asked: Vec<u64>,
}

const SUSPECT_NS: u64 = 1_000;

impl World {
    fn new(nodes: u16, copies: usize, budget: Budget, fault: Option<Fault>) -> World {
        let log = |n: u16| {
            let others = (0..nodes).filter(|other| *other != n);
            let group = Group {
                me: NodeId(n),
                region: RegionId(n),
                voters: (0..nodes).map(|n| Some(NodeId(n))).collect(),
                home: RegionId(0),
                copies,
                replicas: others.map(|other| (NodeId(other), Patience::new(100, 10))).collect(),
                inside: Vec::new(),
                backlog_max: 100,
                acts_at_once: copies == 0,
                times: Times {
                    suspect_ns: SUSPECT_NS,
                    widest_ns: 10,
                    lease_ns: SUSPECT_NS,
                    heartbeat_ns: 1,
                    clock_bound_ns: 0,
                    ceiling_ns: 500,
                },
                fault,
            };
            let log = Log::new(Arc::new(group), false);
            Rc::new(if n == 0 { log.leading() } else { log })
        };
        let mut world = World {
            logs: (0..nodes).map(log).collect(),
            histories: vec![0; usize::from(nodes)],
            disks: Vec::new(),
            voted: None,
            flying: Vec::new(),
            now: Time(1_000_000),
            budget,
            merged: Vec::new(),
            led: BTreeMap::from([(0, 0)]),
            asked: Vec::new(),
        };
        let now = world.now;
        world.logs.iter_mut().for_each(|log| Rc::make_mut(log).listen_from(now));
        world
    }

    /// Something happens at a node; what follows from it is merged and sent. `act` answers whether replicas should hear of
    /// the node, because it leads from now on or for other reasons.
    fn at(
        &mut self,
        n: usize,
        what: &str,
        act: impl FnOnce(&mut Log<Entry>, Time, &mut Posts<Entry>, &mut Vec<Entry>) -> bool,
    ) {
        self.histories[n] = digest(&(self.histories[n], self.now, what));
        let (now, mut posts) = (self.now, Vec::new());
        let log = Rc::make_mut(&mut self.logs[n]);
        if act(log, now, &mut posts, &mut self.merged) {
            log.beat(now, &mut posts);
        }
        merge(log, &mut self.merged);
        let due = log.due(now).now;
        if due != (false, false) {
            log.flush(now, due, 0, &mut posts);
        }
        if let Some(term) = log.term() {
            let leader = *self.led.entry(term).or_insert(n);
            assert_eq!(leader, n, "two lead in term {term}");
        }
        log.check_invariants();
        self.send(n, posts);
        self.check();
    }

    /// Sends what a node says: once that is recorded which it rests on, where nodes record.
    fn send(&mut self, n: usize, posts: Posts<Entry>) {
        let (from, log) = (NodeId(n as u16), Rc::make_mut(&mut self.logs[n]));
        match self.disks.get_mut(n) {
            Some(disk) => disk.keep(log, posts),
            None => self.flying.extend(posts.into_iter().map(|(to, said)| (from, to, Flying::Said(said)))),
        }
    }

    fn deliver(&mut self, from: NodeId, to: NodeId, flying: Flying) {
        if let Flying::Said(Said::Calibrated { number, end, .. }) = flying {
            let least = self.asked[number as usize];
            assert!(end >= least, "an answer of {end}, and {least} entries had been merged");
            return;
        }
        let what = format!("{from} {flying:?}");
        self.at(usize::from(to.0), &what, |log, now, posts, merged| match flying {
            Flying::Question(number) => {
                log.on_calibrate(now, from, number, posts);
                false
            }
            Flying::Said(said) => handle(log, now, from, said, posts, merged),
        });
    }

    fn check(&self) {
        for (n, log) in self.logs.iter().enumerate() {
            for later in &self.merged[log.merged() as usize..] {
                let closed = log.closed();
                assert!(later.stamp > closed, "{later:?} is merged elsewhere, and n{n} has closed {closed}");
            }
        }
    }

    fn steps(&self) -> Vec<Step> {
        let mut steps: Vec<Step> = (0..self.flying.len()).map(Step::Deliver).collect();
        for (n, log) in self.logs.iter().enumerate() {
            if self.budget.appends > 0 && log.is_open() {
                steps.push(Step::Append(n));
            }
            if self.budget.silences > 0 && !log.leads() {
                steps.push(Step::Silence(n));
            }
            if self.budget.heartbeats > 0 && log.leads() {
                steps.push(Step::Heartbeat(n));
            }
            if self.budget.questions > 0 {
                steps.push(Step::Question(n));
            }
            if let Some(disk) = self.disks.get(n) {
                steps.extend(disk.steps(n, self.budget.crashes > 0));
            }
        }
        steps
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Sync(n) => self.sync(n),
            Step::Checkpoint(n) => self.disks[n].checkpoint(&self.logs[n]),
            Step::Crash(n) => {
                self.budget.crashes -= 1;
                self.crash(n);
            }
            Step::Deliver(nth) => {
                let (from, to, flying) = self.flying.remove(nth);
                let is_vote = matches!(flying, Flying::Said(Said::Elect { .. }));
                self.deliver(from, to, flying);
                self.voted = is_vote.then_some(usize::from(to.0));
            }
            Step::Append(n) => {
                self.budget.appends -= 1;
                let id = u64::from(self.budget.appends);
                self.at(n, "append", |log, now, _, _| {
                    let stamp = now.rank().max(log.least().0.next());
                    log.push(Entry { id, stamp });
                    false
                });
            }
            Step::Silence(n) => {
                self.budget.silences -= 1;
                self.now = self.now + 10 * SUSPECT_NS;
                self.at(n, "silence", |log, now, posts, _| log.watch(now, posts));
            }
            Step::Heartbeat(n) => {
                self.budget.heartbeats -= 1;
                self.at(n, "heartbeat", |log, now, _, _| {
                    log.promise(now.rank());
                    true
                });
            }
            Step::Question(n) => {
                self.budget.questions -= 1;
                let number = self.asked.len() as u64;
                self.asked.push(self.merged.len() as u64);
                let (from, leader) = (NodeId(n as u16), self.logs[n].leader());
                self.histories[n] = digest(&(self.histories[n], "question"));
                self.flying.push((from, leader, Flying::Question(number)));
            }
        }
    }
}

/// What a node does when it hears of another one; whether it leads from then on.
fn handle(
    log: &mut Log<Entry>,
    now: Time,
    from: NodeId,
    said: Said<Entry>,
    posts: &mut Posts<Entry>,
    merged: &mut Vec<Entry>,
) -> bool {
    match said {
        Said::Append(append) => {
            if let Some(followed) = log.on_append(now, from, append, posts) {
                merge(log, merged);
                log.acknowledge(followed, posts);
            }
        }
        Said::AppendAck { term, ack } => {
            let Ack { probe, .. } = ack;
            if let Some(is_stable) = log.on_append_ack(now, from, term, &ack) {
                merge(log, merged);
                if is_stable {
                    log.open();
                }
                log.confirmed(from, probe, posts);
            }
        }
        Said::Suspect { term } => log.on_suspect(now, from, term, posts),
        Said::Agreed { term } => return log.on_agreed(now, from, term, posts),
        Said::Elect { term, merged, accepted, end } => {
            log.on_elect(now, from, term, (merged, accepted, end), posts)
        }
        Said::Promise { term, tail } => return log.on_promise(now, from, term, tail),
        Said::Overtaken { term } => log.on_overtaken(now, term),
        Said::Leads { term } => _ = log.on_leads(now, term),
        Said::Resigns { term } => log.on_resigns(now, from, term),
        Said::LeftBehind { .. } | Said::Calibrated { .. } => {}
    }
    false
}

/// Merges what is stable at a node, as all nodes have to.
fn merge(log: &mut Log<Entry>, merged: &mut Vec<Entry>) {
    loop {
        let (index, closed) = (log.merged() as usize, log.closed());
        let Some(entry) = log.take() else { break };
        assert!(entry.stamp > closed, "{entry:?} comes after {closed} was closed");
        match merged.get(index) {
            Some(known) => assert_eq!(*known, entry, "two nodes merge different entries at {index}"),
            None => merged.push(entry),
        }
    }
    log.lower();
}

/// Explores all schedules, or the first `limit` states; answers how many there were, and whether those are all.
fn explore(start: World, limit: usize) -> (usize, bool) {
    let mut known = BTreeSet::from([start.histories.clone()]);
    let mut todo = vec![start];
    while let Some(world) = todo.pop() {
        for step in world.steps() {
            let mut next = world.clone();
            next.take(step);
            if known.len() >= limit {
                return (known.len(), false);
            }
            if known.insert(next.histories.clone()) {
                todo.push(next);
            }
        }
    }
    (known.len(), true)
}

/// A long random schedule in which messages are lost and repeated too.
fn walk(mut world: World, seed: u64, steps_max: usize) -> World {
    let mut rng = Rng::new(seed).fork("log");
    let (loss, urge) = (*rng.pick(&[0.0, 0.1, 0.3]), *rng.pick(&[0.02, 0.1, 0.3]));
    // One node hears of others late, or never; it may lead.
    let late = rng.chance(0.5).then(|| NodeId(rng.below(world.logs.len() as u64) as u16));
    for _ in 0..steps_max {
        let steps = world.steps();
        let (deliver, other): (Vec<Step>, Vec<Step>) =
            steps.into_iter().partition(|step| matches!(step, Step::Deliver(_) | Step::Sync(_)));
        let is_other = !other.is_empty() && (deliver.is_empty() || rng.chance(urge));
        let steps = if is_other { &other } else { &deliver };
        if steps.is_empty() {
            break;
        }
        let step = *rng.pick(steps);
        if let Step::Deliver(nth) = step {
            let (from, to, _) = &world.flying[nth];
            if from != to && late == Some(*to) && rng.chance(0.95) {
                continue;
            }
            if rng.chance(loss) {
                world.flying.remove(nth);
                continue;
            }
            if rng.chance(0.05) {
                let again = world.flying[nth].clone();
                world.flying.push(again);
            }
        }
        world.take(step);
        // Promises are few, and what is lost of one shows only right after it.
        let voted = world.voted.take().filter(|_| !world.disks.is_empty() && world.budget.crashes > 0);
        if let Some(n) = voted.filter(|_| rng.chance(0.5)) {
            world.take(Step::Sync(n));
            world.take(Step::Crash(n));
            // It may follow whoever led before now, if it does not know what it promised.
            let leader = world.logs.iter().position(|log| log.is_open());
            if let Some(leader) = leader.filter(|_| world.budget.appends > 0) {
                world.take(Step::Append(leader));
            }
        }
    }
    world
}

const LONG: Budget = Budget { appends: 12, silences: 5, heartbeats: 12, questions: 4, crashes: 0 };

fn random(nodes: u16, copies: usize, seed: u64, fault: Option<Fault>) -> World {
    walk(World::new(nodes, copies, LONG, fault), seed, 600)
}

/// Explores every cluster of up to five regions and K ≤ 2; answers how many of these worlds were explored completely.
fn explore_all(limit: usize) -> (usize, usize) {
    let (mut complete, mut all) = (0, 0);
    for (nodes, copies) in [(2, 1), (3, 1), (3, 2), (4, 1), (4, 2), (5, 1), (5, 2)] {
        let budgets = [(1, 0, 0, 0), (0, 1, 0, 0), (1, 1, 0, 0), (1, 0, 1, 1), (2, 0, 1, 0)];
        for (appends, silences, heartbeats, questions) in budgets {
            let budget = Budget { appends, silences, heartbeats, questions, crashes: 0 };
            let (states, is_complete) = explore(World::new(nodes, copies, budget, None), limit);
            println!("{nodes} nodes, K = {copies}, {budget:?}: {states} states, all: {is_complete}");
            assert!(states > 2);
            all += states;
            complete += usize::from(is_complete);
        }
    }
    (complete, all)
}

/// A sample; `LOG_STATES=2000000` explores for some minutes.
#[test]
fn every_order_of_an_append_and_an_election() {
    let states = std::env::var("LOG_STATES").ok().and_then(|count| count.parse().ok());
    let (complete, all) = explore_all(states.unwrap_or(40_000));
    assert!(complete >= 14 && all > 500_000, "{complete} of 35 worlds are explored completely, {all} states");
}

#[test]
fn random_schedules_agree() {
    let (mut merged, mut terms) = (0, 0);
    for (nodes, copies) in [(2, 1), (3, 1), (3, 2), (4, 1), (4, 2), (5, 1), (5, 2)] {
        for seed in 0..150 {
            let world = random(nodes, copies, seed, None);
            merged += world.merged.len();
            terms += world.led.len() - 1;
        }
    }
    assert!(merged > 1_000 && terms > 200, "{merged} entries, {terms} take-overs");
}

#[test]
fn what_is_planted_is_found() {
    let all = [
        Fault::ForgetPromises,
        Fault::LeadAlone,
        Fault::KeepOwnLog,
        Fault::NoLease,
        Fault::StableOnArrival,
        Fault::UnconfirmedEnd,
    ];
    let finds = |fault| {
        [(3, 1), (4, 1), (5, 2)].into_iter().any(|(nodes, copies)| {
            (0..400).any(|seed| crate::trial::panics(|| _ = random(nodes, copies, seed, Some(fault))))
        })
    };
    let unnoticed: Vec<Fault> = all.into_iter().filter(|fault| !finds(*fault)).collect();
    assert!(unnoticed.is_empty(), "{unnoticed:?} go unnoticed");
}

#[test]
fn entries_that_were_replaced_and_come_back_are_above_what_was_closed_meanwhile() {
    let mut entries = Entries::new(1, true, false);
    let entry = |id, stamp| Entry { id, stamp: Rank(stamp) };
    let all = [entry(1, 10), entry(2, 20)];
    let append = |term, since, of: &[Entry], closed| Append {
        term,
        since,
        first: 0,
        entries: of.to_vec(),
        closed: Rank(closed),
        collected: Rank::ZERO,
        stable: 1,
        everywhere: 0,
        wanted: Grant::default(),
        probe: 0,
        sent_at: Time::ZERO,
    };
    let merge = |entries: &mut Entries<Entry>| {
        entries.stable_to(1);
        while entries.take().is_some() {}
        _ = entries.lower();
    };
    entries.receive(&mut append(1, 0, &all, 30));
    merge(&mut entries);
    assert_eq!((entries.merged(), entries.closed()), (1, Rank(19)), "below the one that is not stable");
    let recorded = entries.clone();
    // Another leader has only the first; then the former one leads again.
    entries.receive(&mut append(2, 1, &all[..1], 0));
    merge(&mut entries);
    assert_eq!((entries.end(), entries.closed()), (1, Rank(19)));
    entries.receive(&mut append(3, 2, &all, 0));
    entries.stable_to(2);
    assert!(entries.take().is_some_and(|entry| entry.stamp > entries.closed()));
    // The same after a restart in between.
    let mut entries = recorded;
    assert!(entries.replay(Change::Adopted { term: 2, from: 1, entries: Vec::new() }));
    _ = entries.lower();
    assert_eq!(entries.closed(), Rank(19));
}
