//! Clusters of durable nodes: machines crash at any moment, come back with what their disks hold, or are
//! lost for good.
//!
//! IN: a [`Case`]. OUT: a [`Summary`], or what was wrong. KEEPS: as in [`run`](super::run); moreover, once all
//! is healed every request is answered, and the last look is an operation of the history: whatever was
//! answered is there, at every machine that is left.

use super::agreement;
use super::book::{Books, SharedBook};
use super::knobs::Knobs;
use super::layout::{Kind, Layout, Target};
use super::run::{Subject, Summary, procedures, promised, verdict};
use super::session::Session;
use crate::plan::{Plan, Script};
use crate::world::disk::DiskModel;
use crate::world::network::Links;
use crate::world::{BEGIN, Fault, Setup, World};
use base::cut::Consistency;
use base::rng::Rng;
use base::time::{MS, SECOND, US};
use base::topology::Topology;
use base::{NodeId, Time, Token};
use history::Guarantee;
use node::Node;
use node::durable::{Durable, Groups, Options};
use std::collections::BTreeSet;
use std::sync::Arc;
use txn::any::{AnyEngine, EngineKind, EngineOptions};

/// The node under test.
pub type Machine = Durable<Subject>;

/// What happens to machines, beside what the plan does to links and clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Any of them crash at any time, and come back.
    Restarts,
    /// All machines of a region crash together, at any time, and come back.
    RegionRestarts,
    /// In every group the machine that leads is lost, at some moment, and nothing brings it back.
    LeaderLost,
    /// The same for one that follows.
    FollowerLost,
}

/// One run.
#[derive(Clone, Debug)]
pub struct Case {
    pub seed: u64,
    pub plan: Plan,
    pub engine: EngineKind,
    /// How queries read.
    pub consistency: Consistency,
    /// Machines per node.
    pub copies: u16,
    pub trouble: Trouble,
    /// Other clients take badges from each other.
    pub badges: bool,
    /// A fault planted in the log; the run is expected to fail.
    #[cfg(feature = "mutants")]
    pub mutant: Option<consensus::Mutant>,
    /// Lines of the trace to keep.
    pub trace_lines: usize,
}

impl Case {
    pub fn new(seed: u64, plan: Plan, copies: u16, trouble: Trouble) -> Case {
        Case {
            seed,
            plan,
            engine: EngineKind::Perseus,
            consistency: Consistency::Rss,
            copies,
            trouble,
            badges: false,
            #[cfg(feature = "mutants")]
            mutant: None,
            trace_lines: 0,
        }
    }
}

fn options(case: &Case, rng: &mut Rng, clock_bound_ns: u64) -> Options {
    let log = consensus::Options {
        heartbeat_ns: *rng.pick(&[5 * MS, 20 * MS]),
        election_ns: *rng.pick(&[(40 * MS, 80 * MS), (150 * MS, 300 * MS)]),
        lease_ns: 30 * MS,
        clock_bound_ns,
        message_bytes_max: *rng.pick(&[1, 1000, 1 << 20]),
        messages_ahead_max: *rng.pick(&[1, 8]),
        #[cfg(feature = "mutants")]
        mutant: case.mutant,
        ..consensus::Options::default()
    };
    _ = case;
    Options { log, retry_ns: *rng.pick(&[10 * MS, 50 * MS]), patience_ns: *rng.pick(&[100 * MS, 400 * MS]) }
}

/// How long a group's log takes for an entry, where it carries as many as it can: so many messages are on their way to
/// a follower, each is stored with the write after the one that is under way, and acknowledged.
fn entry_ns(log: &consensus::Options, machines: &Topology, members: &[NodeId], sync_ns_max: u64) -> u64 {
    let &[first, second, ..] = members else { return 0 }; // One that is alone stores all that waits in one write.
    let there_and_back_ns = 2 * machines.one_way_ns(first, second);
    let entries = u64::from(log.messages_ahead_max) * (log.message_bytes_max as u64 / ENTRY_BYTES).max(1);
    (there_and_back_ns + 2 * sync_ns_max) / entries
}
/// Of what nodes tell each other by themselves, stamps and terms included.
const ENTRY_BYTES: u64 = 100;

/// Whatever nodes say by themselves becomes entries at those who hear it. It takes half of what a log carries at most:
/// otherwise the log of an idle cluster falls behind, further and further.
fn quieten(knobs: &mut Knobs, entry_ns: u64) {
    let (nodes, partitions) = (knobs.topology.nodes.len() as u64, knobs.topology.partitions.len() as u64);
    // Each of these has a quarter of what there is: what partitions say, with the node's own timers, and what engines do.
    let said_ns = |entries: u64| 4 * entries * entry_ns;
    let low_interval_ns = &mut knobs.node.streaming.low_interval_ns;
    *low_interval_ns = said_ns(partitions + 4).max(*low_interval_ns);
    let collect_ns = said_ns(2 * nodes);
    match &mut knobs.engine {
        EngineOptions::Perseus(options) => {
            options.collect_every_ns = options.collect_every_ns.max(collect_ns);
            options.lease_ns = 10 * SECOND;
        }
        EngineOptions::Caerus(options) => {
            options.collection.every_ns = options.collection.every_ns.max(collect_ns);
            let heartbeat_ns = options.heartbeats.every_ns.max(said_ns(2 * nodes));
            options.heartbeats.every_ns = heartbeat_ns;
            options.batching.interval_ns = options.batching.interval_ns.max(heartbeat_ns / 4);
            // Nor does an election of its group end a region's lead.
            let suspect_ns = options.replication.suspect_after_ns.unwrap_or(0);
            options.replication.suspect_after_ns = Some(suspect_ns.max(8 * heartbeat_ns + 800 * MS));
            options.lost_after_ns = None;
        }
        EngineOptions::Geogauss(options) => {
            let said_ns = said_ns(2 * nodes);
            options.epoch_ns = options.epoch_ns.max(said_ns).min(500 * MS);
            options.pace.idle_every_ns = options.pace.idle_every_ns.max(said_ns);
            options.beat_ns = options.beat_ns.max(said_ns);
            options.lost_after_ns = 10 * SECOND;
            // A group's machines bring its node back as it was.
            options.removes_lost = false;
        }
    }
}

/// Every log stores in time what is entered: an error names one that is behind, and stays so.
fn keeps_up(world: &mut World<Machine>) -> Result<(), String> {
    let limit = world.now() + 10 * SECOND;
    loop {
        let logs = world.topology().node_ids().filter_map(|n| world.node(n)).map(|machine| machine.log());
        let behind = logs.map(|log| (log.last().index.0 - log.commit().0, log.id())).max();
        let Some((entries, machine)) = behind.filter(|(entries, _)| *entries > BEHIND_MAX) else {
            return Ok(());
        };
        if world.now() >= limit {
            return Err(format!(
                "the log of {machine} is {entries} entries behind, and nobody asks for anything"
            ));
        }
        let next = world.now() + SECOND;
        world.run_until(next);
    }
}
/// Entries that are under way when nobody asks for anything, at most.
const BEHIND_MAX: u64 = 200;

/// Runs a case to its end and checks everything. An error says what was wrong.
pub fn run(case: &Case) -> Result<Summary, String> {
    let mut plain = super::run::Case::new(case.seed, case.plan.clone(), case.consistency);
    (plain.engine, plain.badges) = (case.engine, case.badges);
    let mut knobs = Knobs::draw(&plain);
    // A crashed front end forgets its pins, so that nothing holds a cut for a comparison.
    knobs.habits.weights[6] = 0;
    knobs.active_ns = knobs.active_ns.max(1_500 * MS);
    // Every word that keeps a lease is an entry of a log, and the logs drawn here may be slow ones.
    knobs.node.lease_ns = 10 * SECOND;
    knobs.habits.think_ns_max = knobs.habits.think_ns_max.max(knobs.active_ns / 12);
    // A region whose group elects another leader is silent for a while.
    knobs.habits.may_be_refused |= case.engine != EngineKind::Perseus;
    let rng = Rng::new(case.seed);
    let logical = Arc::new(knobs.topology.clone());
    let groups = Arc::new(Groups::of(logical.nodes.len(), case.copies));
    let machines = Arc::new(groups.machines_of(&logical));
    let layout = Arc::new(Layout::new(machines.clone(), knobs.shelves_per_partition, knobs.keys));

    let script = case.plan.script(&machines, knobs.active_ns, &mut rng.fork("script"));
    let mut setup = script.setup((*machines).clone(), case.seed);
    (setup.cost, setup.client_one_way_ns) = (knobs.cost, knobs.client_one_way_ns);
    let mut rng_durable = rng.fork("durable");
    let options = options(case, &mut rng_durable, logical.clock_bound_ns);
    let sync_ns_max = *rng_durable.pick(&[200 * US, 5 * MS]);
    quieten(&mut knobs, entry_ns(&options.log, &machines, groups.members(NodeId(0)), sync_ns_max));
    setup.disks = DiskModel { sync_ns_min: 50 * US, sync_ns_max };
    let mut world = world(setup, logical, groups.clone(), options, knobs.engine.clone(), knobs.node.clone());
    world.keep_trace(case.trace_lines);

    let token = knobs.set_up(&mut world, &layout);
    settle(&mut world, &token)?;
    let books = Books::new(0, &layout);
    let book = books.outside();
    let gateways: Vec<NodeId> = groups.machines().collect();
    for id in 0..knobs.sessions {
        let habits = knobs.habits.clone();
        let rng = rng.fork_nth("session", u64::from(id));
        let (layout, book, gateways) = (layout.clone(), book.clone(), gateways.clone());
        world.client(Session::new(id, layout, book, habits, rng, gateways, &token));
    }
    knobs.add_others(&mut world, (&layout, &book), (&gateways, &token), &rng);
    let lost = enact(&mut world, &script, case.trouble, &groups, &mut rng.fork("trouble"));
    let limit = world.now() + 60 * SECOND;
    let mut end = world.run_to_rest(limit).map_err(|stuck| stuck.to_string());
    if end.is_ok() {
        let settled = world.now() + SECOND;
        world.run_until(settled);
        end = keeps_up(&mut world).and_then(|()| last_looks(&mut world, &layout, &lost, &book, token));
    }
    let lines: Vec<&str> = world.trace_tail().collect();
    end.map_err(|what| match lines.is_empty() {
        true => what,
        false => format!("{what}\nlast events:\n{}", lines.join("\n")),
    })?;
    let (all, ordered) = books.histories();
    verdict(&ordered, Guarantee::StrictSerializable).map_err(|e| format!("what the engine ordered: {e}"))?;
    verdict(&all, promised(case.consistency))?;
    Ok(Summary {
        trace_hash: world.trace_hash(),
        counters: world.counters(),
        tally: books.tally(),
        operations: Books::operations(&all),
        lasted_ns: world.now().since(BEGIN),
    })
}

/// Lets what was loaded arrive everywhere: level `stale` reads what is complete at its machine, and with the long
/// intervals drawn here that may still be from before the rows were loaded.
fn settle(world: &mut World<Machine>, token: &Token) -> Result<(), String> {
    let limit = world.now() + 30 * SECOND;
    loop {
        let machines = world.topology().node_ids().filter_map(|n| world.node(n)).map(Durable::inner);
        let Some(behind) = { machines }.find(|node| !node.is_complete_to(token.rank)) else { return Ok(()) };
        if world.now() >= limit {
            return Err(format!(
                "the columns of {} are not complete, and nobody asks for anything",
                behind.id()
            ));
        }
        let next = world.now() + 100 * MS;
        world.run_until(next);
    }
}

/// A world of machines that keep the nodes of `logical`; the setup's topology is that of the machines.
pub fn world(
    setup: Setup,
    logical: Arc<Topology>,
    groups: Arc<Groups>,
    options: Options,
    engine: EngineOptions,
    node: node::Options,
) -> World<Machine> {
    let procedures = procedures();
    let rng = Rng::new(setup.seed).fork("machines");
    World::new(setup, move |machine, _, records| {
        let name = groups.node_of(machine);
        // Always as in its first life: the log brings back the rest.
        let engine = AnyEngine::new(logical.clone(), name, 1, engine.clone());
        let node = Node::new(name, logical.clone(), procedures.clone(), engine, node.clone());
        let rng = rng.fork_nth("machine", u64::from(machine.0));
        Durable::new(machine, groups.clone(), options.clone(), rng, records, node)
            .unwrap_or_else(|e| panic!("the log of {machine}: {e}"))
    })
}

/// Lets the script and the trouble happen, until all is healed. Answers the machines that are lost.
fn enact(
    world: &mut World<Machine>,
    script: &Script,
    trouble: Trouble,
    groups: &Groups,
    rng: &mut Rng,
) -> BTreeSet<NodeId> {
    let begin = world.now();
    let healed_at = begin + script.healed_after_ns;
    world.fault_at(begin, Fault::Links(script.links));
    for (after_ns, fault) in &script.steps {
        world.fault_at(begin + *after_ns, fault.clone());
    }
    let machines: Vec<NodeId> = groups.machines().collect();
    let mut lost = BTreeSet::new();
    if matches!(trouble, Trouble::Restarts | Trouble::RegionRestarts) {
        let topology = world.topology().clone();
        let count = if trouble == Trouble::Restarts { 2 + 2 * machines.len() as i64 } else { 6 };
        for _ in 0..rng.between(2, count) {
            let machine = *rng.pick(&machines);
            let down_at = begin + rng.below(script.healed_after_ns);
            let down_ns_max = *rng.pick(&[MS, 50 * MS, 600 * MS]);
            let up_at = (down_at + rng.below(down_ns_max)).min(healed_at);
            let is_near = |other: &NodeId| topology.region_of(*other) == topology.region_of(machine);
            let crashes =
                |other: &NodeId| *other == machine || trouble == Trouble::RegionRestarts && is_near(other);
            for machine in machines.iter().copied().filter(crashes) {
                world.fault_at(down_at, Fault::Crash(machine));
                world.fault_at(up_at, Fault::Restart(machine));
            }
        }
    } else {
        let mut moments: Vec<(Time, NodeId)> = Vec::new();
        for node in 0..(machines.len() / groups.members(NodeId(0)).len()) as u16 {
            moments.push((begin + rng.below(script.healed_after_ns), NodeId(node)));
        }
        moments.sort();
        for (at, node) in moments {
            world.run_until(at);
            let members = groups.members(node);
            let leads = |m: &&NodeId| world.node(**m).is_some_and(|machine| machine.log().is_leader());
            let leader = members.iter().filter(leads).max_by_key(|m| world.node(**m).map(|d| d.log().term()));
            let leader = *leader.unwrap_or(&members[0]);
            let victim = match trouble {
                Trouble::LeaderLost => leader,
                _ => *members.iter().find(|m| **m != leader).unwrap_or(&leader),
            };
            lost.insert(victim);
            world.fault_at(at, Fault::Crash(victim));
        }
    }
    world.run_until(healed_at);
    world.fault_at(healed_at, Fault::Reconnect);
    world.fault_at(healed_at, Fault::Links(Links::default()));
    for machine in machines.into_iter().filter(|m| !lost.contains(m)) {
        world.fault_at(healed_at, Fault::Restart(machine));
    }
    lost
}

/// Every machine that is left shows the same rows, in rows and in columns; they are what a strong read
/// after everything else must return.
fn last_looks(
    world: &mut World<Machine>,
    layout: &Arc<Layout>,
    lost: &BTreeSet<NodeId>,
    book: &SharedBook,
    token: Token,
) -> Result<(), String> {
    let mut topology = (*layout.topology).clone();
    lost.iter().for_each(|machine| topology.nodes[machine.0 as usize].subscribes.clear());
    let left = Arc::new(Layout::new(
        Arc::new(topology),
        layout.shelves.len() / layout.topology.partitions.len(),
        layout.keys,
    ));
    assert_eq!(left.shelves, layout.shelves);
    let machines: Vec<NodeId> = layout.topology.node_ids().filter(|m| !lost.contains(m)).collect();
    for (nth, &gateway) in machines.iter().enumerate() {
        let entry = book.open().begin(10_000 + nth as u32, world.now(), true, &[]);
        let (client, replies) = agreement::client::<Machine>(left.clone(), gateway, token.clone());
        world.client(client);
        let limit = world.now() + 10 * SECOND;
        world.run_to_rest(limit).map_err(|stuck| format!("the last look at {gateway}: {stuck}"))?;
        let look = agreement::look(&left, &replies.borrow());
        look.check()?;
        let mut book = book.open();
        for &(shelf, _) in &layout.shelves {
            for kind in [Kind::List, Kind::Register] {
                let rows = look.rows.iter().filter(|(item, _)| item.kind == kind && item.shelf == shelf);
                let rows: Vec<_> = rows.map(|(item, content)| (*item, content.clone())).collect();
                book.read(entry, &Target::shelf(kind, shelf), &rows);
            }
        }
        book.commit(entry, world.now());
    }
    Ok(())
}
