//! One case from its seed to its verdict.
//!
//! IN: a [`Case`]. OUT: a [`Summary`], or what was wrong. KEEPS: everything that a case does is drawn from
//! its seed.

use super::agreement;
use super::book::Book;
use super::definer::Definer;
use super::layout::Layout;
use super::mover::Mover;
use super::procedure::AppendAll;
use super::script_client::ScriptClient;
use super::session::{Habits, Session};
use crate::plan::{Mix, Plan};
use crate::world::clock::ClockModel;
use crate::world::{BEGIN, Cost, Counters, Setup, World};
use base::cut::Consistency;
use base::process::Process;
use base::rng::Rng;
use base::time::{MS, SECOND, US};
use base::topology::{NodeSpec, Topology};
use base::txn::Outcome;
use base::txn::procedure::Procedures;
use base::{NodeId, PartitionId, RegionId, Time, Token};
use history::guarantee::{AntiDependencies, RealTime, Rules};
use history::{Guarantee, History, check};
use node::Node;
use node::request::{Reply, Request};
use reads::protocol::Rival;
use reads::rule::Dynamic;
use reads::rule::printed::Printed;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use txn::any::{AnyEngine, EngineKind, EngineOptions};
use txn::caerus::Protocol;
use txn::perseus::{FutureRanks, Timestamps, Unfinished};

/// The node under test.
pub type Subject = Node<AnyEngine>;

/// One run.
#[derive(Clone, Debug)]
pub struct Case {
    pub seed: u64,
    pub plan: Plan,
    /// How queries read.
    pub consistency: Consistency,
    /// Who orders.
    pub engine: EngineKind,
    /// Queries run by the algorithm as it was published.
    pub printed: Option<Printed>,
    /// Read as another system does; strong levels are then its own.
    pub rival: Option<Rival>,
    /// Queries go to readers that keep all they read.
    pub stays_home: bool,
    /// Clocks have no bound: they are seconds apart and drift.
    pub unbounded_clocks: bool,
    /// A fault planted in the engine; the run is expected to fail.
    #[cfg(feature = "mutants")]
    pub mutant: Option<txn::perseus::Mutant>,
    /// The same in the other engine.
    #[cfg(feature = "mutants")]
    pub caerus_mutant: Option<txn::caerus::Mutant>,
    /// A fault planted in how cuts are chosen.
    #[cfg(feature = "mutants")]
    pub reads_mutant: Option<reads::rule::Mutant>,
    /// Nobody watches the clocks.
    #[cfg(feature = "mutants")]
    pub unwatched: bool,
    /// Lines of the trace to keep.
    pub trace_lines: usize,
}

impl Case {
    pub fn new(seed: u64, plan: Plan, consistency: Consistency) -> Case {
        Case {
            seed,
            plan,
            consistency,
            engine: EngineKind::Perseus,
            printed: None,
            rival: None,
            stays_home: false,
            unbounded_clocks: false,
            #[cfg(feature = "mutants")]
            mutant: None,
            #[cfg(feature = "mutants")]
            caerus_mutant: None,
            #[cfg(feature = "mutants")]
            reads_mutant: None,
            #[cfg(feature = "mutants")]
            unwatched: false,
            trace_lines: 0,
        }
    }
}

/// What happened in a run that went well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    pub trace_hash: u64,
    pub counters: Counters,
    /// What the clients did, by kind.
    pub tally: BTreeMap<&'static str, u64>,
    /// Operations in the history.
    pub operations: usize,
    /// Virtual time, in ns.
    pub lasted_ns: u64,
}

/// A case takes some 100,000 events.
const EVENTS_MAX: u64 = 5_000_000;

/// How far from true time clocks without a bound are at most here.
const APART_NS: u64 = 3 * SECOND;

/// What a seed decides about a cluster and its clients.
#[derive(Clone, Debug)]
pub(super) struct Knobs {
    pub topology: Topology,
    pub shelves_per_partition: usize,
    pub keys: i64,
    pub sessions: u32,
    pub habits: Habits,
    pub engine: EngineOptions,
    pub node: node::Options,
    pub cost: Cost,
    pub client_one_way_ns: u64,
    pub active_ns: u64,
    /// How often something moves to another home.
    pub moves: u32,
    /// How often the catalog is changed, or a table read by somebody who has just learned of it.
    pub definitions: u32,
}

impl Knobs {
    pub fn draw(case: &Case) -> Knobs {
        let mut rng = Rng::new(case.seed).fork("knobs");
        let partitions = *rng.pick(&[1, 1, 2, 3]);
        let mut topology = Topology::one_node_per_region(case.plan.wan.clone(), partitions);
        topology.clock_bound_ns = case.plan.clock_bound_ns(&mut rng);
        #[cfg(feature = "mutants")]
        if case.unwatched {
            // No bound holds where nobody watches; a smaller one is exceeded within the time that a run has.
            topology.clock_bound_ns /= 4;
        }
        if case.unbounded_clocks {
            (topology.unbounded_clocks, topology.clock_bound_ns) = (true, 0);
        }
        if case.plan.mix.takes_gateways() || rng.chance(0.2) {
            // Gateways without partitions: one in every region.
            for region in 0..topology.wan.region_count() as u16 {
                topology.nodes.push(NodeSpec { region: RegionId(region), subscribes: Vec::new() });
            }
        }
        deploy_readers(&mut topology, &mut rng);
        let longest_ns = topology.wan.widest_ns();
        #[allow(unused_mut)]
        let mut node = node::Options {
            flush_ns: *rng.pick(&[0, MS, 5 * MS]),
            ack_ns: *rng.pick(&[0, MS, 10 * MS]),
            low_interval_ns: *rng.pick(&[5 * MS, 20 * MS]),
            maintain_interval_ns: *rng.pick(&[10 * MS, 100 * MS]),
            merge_rows_max: *rng.pick(&[1, 4, 1000]),
            lease_ns: *rng.pick(&[200 * MS, 10 * SECOND]),
            printed: case.printed,
            rival: case.rival,
            clocks: case.plan.watches_clocks(),
            dynamic: match rng.below(4) {
                0 => Dynamic::Off,
                1 => Dynamic::Threshold { ns: rng.below(2 * longest_ns + 1) },
                _ => Dynamic::Essential,
            },
            ..node::Options::default()
        };
        let mut engine = txn::perseus::Options {
            future_ranks: match rng.below(5) {
                0 => FutureRanks::Off,
                1 => FutureRanks::Scaled { percent: *rng.pick(&[0, 30, 300, 1000]) },
                2 => FutureRanks::Random { seed: case.seed },
                _ => FutureRanks::Measured,
            },
            lower_bounds: rng.chance(0.8),
            recover_after_ns: match case.seed % 4 {
                0 => Some(longest_ns / 2),
                1 => Some(2 * longest_ns),
                _ => None,
            },
            unfinished: if case.seed % 3 == 0 { Unfinished::Abandon } else { Unfinished::Complete },
            collect_every_ns: *rng.pick(&[20 * MS, 150 * MS, 500 * MS]),
            timestamps: match case.rival {
                Some(Rival::CentralTimestamp) => Timestamps::Central,
                _ => Timestamps::Clocks,
            },
            ..txn::perseus::Options::default()
        };
        // Several reports.
        engine.lease_ns = *rng.pick(&[4 * engine.collect_every_ns + longest_ns, 10 * SECOND]);
        #[cfg(feature = "mutants")]
        {
            engine.mutant = case.mutant;
            node.mutant = case.reads_mutant;
            if case.unwatched {
                node.clocks = None;
            }
        }
        let reader_lease_ns = engine.lease_ns;
        let engine = match case.engine {
            EngineKind::Perseus => EngineOptions::Perseus(engine),
            EngineKind::Caerus | EngineKind::Slog | EngineKind::Calvin => {
                let mut rng = Rng::new(case.seed).fork("caerus");
                if partitions > 1 && rng.chance(0.4) && !case.plan.mix.loses_regions() {
                    split_regions(&mut topology);
                }
                #[allow(unused_mut)]
                let mut options = caerus_options(case.engine, &mut rng, engine, &topology);
                if case.plan.mix.loses_regions() && case.engine == EngineKind::Caerus {
                    options.copies_elsewhere = (topology.wan.region_count() - 1) / 2;
                }
                if case.plan.mix.separates() || case.plan.mix.leads_clocks_astray() {
                    let patience_ns = [None, Some(topology.wan.widest_ns() + 100 * MS)];
                    options.lost_after_ns = *Rng::new(case.seed).fork("lost").pick(&patience_ns);
                }
                // From not at all to twice as long as it takes to the farthest region.
                options.hold_percent = *Rng::new(case.seed).fork("hold").pick(&[0, 50, 100, 100, 150, 200]);
                #[cfg(feature = "mutants")]
                {
                    options.mutant = case.caerus_mutant;
                }
                EngineOptions::Caerus(options)
            }
        };
        let topology = case.engine.layout(topology);
        let names = matches!(case.engine, EngineKind::Perseus | EngineKind::Caerus)
            && Rng::new(case.seed).fork("named").chance(0.2);
        let habits = Habits {
            may_be_refused: case.plan.mix.leads_clocks_astray()
                || case.plan.mix.loses_regions()
                || case.plan.mix.separates() && case.engine != EngineKind::Perseus,
            may_be_too_late: matches!(case.plan.mix, Mix::Crash | Mix::MixedCrash)
                || case.plan.mix.leads_clocks_astray()
                || case.plan.mix.loses_regions()
                || node.lease_ns.min(reader_lease_ns) < topology.wan.widest_ns() * 20,
            consistency: case.consistency,
            anywhere: match (case.rival, case.printed) {
                (None, None) if !case.stays_home => {
                    *Rng::new(case.seed).fork("readers").pick(&[0.0, 0.0, 0.0, 0.5])
                }
                // Other systems' rules need one reader that has all.
                _ => 0.0,
            },
            operations: 12,
            think_ns_max: *rng.pick(&[MS, 20 * MS, longest_ns]),
            roam: *rng.pick(&[0.0, 0.1, 0.5]),
            share: *rng.pick(&[0.0, 0.1, 0.3]),
            // A crashed gateway forgets its pins, so that nothing holds a cut for a comparison.
            weights: [4, 2, 2, 3, *rng.pick(&[3, 6]), 2, u64::from(!case.plan.mix.takes_gateways())],
            // Names cost bytes; where no gateway is lost few repeat.
            repeats: case.plan.mix.takes_gateways() || names,
        };
        let moves = match case.engine {
            EngineKind::Caerus | EngineKind::Slog => *Rng::new(case.seed).fork("moves").pick(&[0, 0, 3, 10]),
            EngineKind::Perseus | EngineKind::Calvin => 0,
        };
        let definitions = match (case.rival, case.printed) {
            (None, None) => *Rng::new(case.seed).fork("definitions").pick(&[0, 0, 6, 20]),
            _ => 0,
        };
        Knobs {
            moves,
            definitions,
            topology,
            shelves_per_partition: *rng.pick(&[1, 2]),
            keys: *rng.pick(&[2, 2, 4]),
            sessions: *rng.pick(&[4, 8, 12]),
            habits,
            engine,
            node,
            cost: *rng.pick(&[
                Cost::default(),
                Cost { event_ns: 20 * US, kilobyte_ns: US, computation_ns: MS, ..Cost::default() },
            ]),
            client_one_way_ns: *rng.pick(&[0, 100 * US]),
            active_ns: longest_ns * *rng.pick(&[5, 10]),
        }
    }
    /// Nodes that clients connect to: under crashes only those without partitions.
    fn gateways(&self, case: &Case) -> Vec<NodeId> {
        let is_idle = |n: &NodeId| self.topology.partitions_at(*n).next().is_none();
        let subscribes = |n: &NodeId| !self.topology.nodes[n.0 as usize].subscribes.is_empty();
        let nodes = self.topology.node_ids();
        match case.plan.mix {
            Mix::Crash | Mix::MixedCrash | Mix::Deaths => {
                nodes.filter(|n| is_idle(n) || subscribes(n)).collect()
            }
            _ => nodes.collect(),
        }
    }
}

/// Gives each region's last partition a node of its own.
fn split_regions(topology: &mut Topology) {
    for region in 0..topology.wan.region_count() as u16 {
        let region = RegionId(region);
        let last = topology.partitions_in(region).last().expect("every region has partitions");
        let subscribes = topology.nodes[region.0 as usize].subscribes.clone();
        topology.partitions[last.0 as usize].node = NodeId(topology.nodes.len() as u16);
        topology.nodes.push(NodeSpec { region, subscribes });
    }
}

/// Small knobs, so that batches, heartbeats and limits all matter; those that both engines have are as
/// drawn for the other.
fn caerus_options(
    engine: EngineKind,
    rng: &mut Rng,
    drawn: txn::perseus::Options,
    topology: &Topology,
) -> txn::caerus::Options {
    let mut options = txn::caerus::Options {
        batch_ns: *rng.pick(&[0, MS, 10 * MS]),
        heartbeat_ns: *rng.pick(&[2 * MS, 10 * MS]),
        future_ranks: drawn.future_ranks,
        lower_bounds: drawn.lower_bounds,
        collect_every_ns: drawn.collect_every_ns,
        outstanding_max: *rng.pick(&[1, 3, 2000]),
        unordered_max: *rng.pick(&[2, 10, 4000]),
        // As many as may be lost while the others go on.
        copies_elsewhere: rng.below(topology.wan.region_count().div_ceil(2) as u64) as usize,
        // Short, so that a region that is cut off is given up for lost.
        suspect_after_ns: Some(*rng.pick(&[2, 4]) * topology.wan.widest_ns() + 30 * MS),
        ..txn::caerus::Options::default()
    };
    match engine {
        EngineKind::Calvin => options.protocol = Protocol::Calvin,
        EngineKind::Slog => (options.protocol, options.copies_elsewhere) = (Protocol::Slog, 0),
        EngineKind::Perseus | EngineKind::Caerus => {}
    }
    options
}

/// Leaves analytics to the nodes that run partitions, or gives it to nodes of its own (PERSEUS §III): one or two
/// in each region, each with columns of some partitions, all of its region's among them between the two.
fn deploy_readers(topology: &mut Topology, rng: &mut Rng) {
    let kind = rng.below(3);
    if kind == 0 {
        return;
    }
    for region in (0..topology.wan.region_count() as u16).map(RegionId) {
        let own: Vec<PartitionId> = topology.partitions_in(region).collect();
        let others: Vec<PartitionId> =
            topology.partition_ids().filter(|p| topology.region_of_partition(*p) != region).collect();
        let some = |rng: &mut Rng, of: &[PartitionId]| -> Vec<PartitionId> {
            of.iter().copied().filter(|_| rng.chance(0.5)).collect()
        };
        for nth in 0..rng.between(1, 2) as usize {
            let mut subscribes: Vec<PartitionId> = if nth == 0 { own.clone() } else { some(rng, &own) };
            subscribes.extend(some(rng, &others));
            if !subscribes.is_empty() {
                topology.nodes.push(NodeSpec { region, subscribes });
            }
        }
    }
    if kind == 2 {
        // Those that order keep no columns at all.
        for partition in topology.partitions.clone() {
            topology.nodes[partition.node.0 as usize].subscribes.clear();
        }
    }
}

/// Runs a case to its end and checks everything. An error says what was wrong.
pub fn run(case: &Case) -> Result<Summary, String> {
    let (histories, result) = record(case);
    let summary = result?;
    let (all, ordered) = histories;
    verdict(&ordered, case.orders()).map_err(|e| format!("what the engine ordered: {e}"))?;
    verdict(&all, case.promised())?;
    Ok(summary)
}

impl Case {
    /// What transactions alone are held against.
    fn orders(&self) -> Guarantee {
        match self.unbounded_clocks {
            true => without_clocks(),
            false => Guarantee::StrictSerializable,
        }
    }
    /// What everything that clients see is held against.
    pub fn promised(&self) -> Guarantee {
        match (self.rival, self.consistency) {
            (None, Consistency::Rss | Consistency::Regular) if self.unbounded_clocks => without_clocks(),
            (Some(rival), Consistency::Rss | Consistency::Regular) => promised_by(rival),
            (_, level) => promised(level),
        }
    }
}

/// What can be promised without clocks: one serial order of everything that respects sessions, tokens, and real time
/// between a writer and whatever conflicts with it; not real time between writers that do not conflict.
pub fn without_clocks() -> Guarantee {
    let (anti_dependencies, real_time) = (AntiDependencies::All, RealTime::Conflicting);
    Guarantee::Custom(Rules { anti_dependencies, sessions: true, tokens: true, real_time })
}

/// What a rival's strong queries promise beside the engine's transactions.
pub fn promised_by(rival: Rival) -> Guarantee {
    match rival {
        // One serial order that respects sessions and tokens, not real time.
        Rival::SafeTimestamp => promised(Consistency::Session),
        Rival::CentralTimestamp | Rival::SynchronousReplica => Guarantee::Rss,
        Rival::BatchCut => Guarantee::Serializable,
    }
}

/// What a level promises of everything that clients see.
///
/// `regular`: per query whole transactions with all their ancestors, those by session included, and every
/// conflicting transaction that was answered before. Two queries may still disagree.
pub fn promised(consistency: Consistency) -> Guarantee {
    let by = |anti_dependencies, real_time| {
        Guarantee::Custom(Rules { anti_dependencies, sessions: true, tokens: true, real_time })
    };
    match consistency {
        Consistency::Rss => Guarantee::Rss,
        Consistency::Regular => by(AntiDependencies::OwnOfQueries, RealTime::Conflicting),
        Consistency::Session => by(AntiDependencies::All, RealTime::Ignored),
        Consistency::Stale => Guarantee::Serializable,
    }
}

pub(super) fn verdict(history: &History, guarantee: Guarantee) -> Result<(), String> {
    check(history, guarantee).map(|_| ()).map_err(|violation| violation.to_string())
}

/// Runs a case: what everyone saw (everything, and what the engine ordered), and how it ended.
pub fn record(case: &Case) -> ((History, History), Result<Summary, String>) {
    let knobs = Knobs::draw(case);
    let rng = Rng::new(case.seed);
    let topology = Arc::new(knobs.topology.clone());
    let layout = Arc::new(Layout::new(topology.clone(), knobs.shelves_per_partition, knobs.keys));
    let mut script = case.plan.script(&topology, knobs.active_ns, &mut rng.fork("script"));
    if case.unbounded_clocks {
        script.clocks = ClockModel::Kept { ns: APART_NS };
    }
    let mut setup = script.setup(knobs.topology.clone(), case.seed);
    setup.cost = knobs.cost;
    setup.client_one_way_ns = knobs.client_one_way_ns;
    let mut world = world(setup, knobs.engine.clone(), knobs.node.clone());
    world.keep_trace(case.trace_lines);
    world.allow_events(EVENTS_MAX);

    let token = set_up(&mut world, &layout);
    let book = Rc::new(RefCell::new(Book::default()));
    layout.loaded().for_each(|item| book.borrow_mut().loaded(&item));
    let healed_at = script.enact(&mut world);
    let gateways = knobs.gateways(case);
    for id in 0..knobs.sessions {
        let habits = knobs.habits.clone();
        let rng = rng.fork_nth("session", u64::from(id));
        let (layout, book, gateways) = (layout.clone(), book.clone(), gateways.clone());
        world.client(Session::new(id, layout, book, habits, rng, gateways, &token));
    }
    if knobs.definitions > 0 {
        let (layout, book, rng) = (layout.clone(), book.clone(), rng.fork("definer"));
        let steps = (knobs.definitions, 2 * knobs.active_ns / u64::from(knobs.definitions));
        world.client(Definer::new(layout, book, rng, gateways.clone(), case.consistency, steps));
    }
    if knobs.moves > 0 {
        let pause_ns = 2 * knobs.active_ns / u64::from(knobs.moves);
        let rng = rng.fork("mover");
        world.client(Mover::new(layout.clone(), book.clone(), rng, gateways, knobs.moves, pause_ns));
    }
    // The other engine does not take over from a lost gateway: only what was answered is judged.
    let comes_back = case.plan.mix.loses_regions();
    let demands_progress =
        case.engine == EngineKind::Perseus || !case.plan.mix.takes_gateways() || comes_back;
    let limit = healed_at + if demands_progress { 60 * SECOND } else { 3 * SECOND };
    let mut end = world.run_to_rest(limit).map_err(|stuck| stuck.to_string());
    if !demands_progress {
        end = Ok(());
    } else if end.is_ok() {
        world.run_until(healed_at.max(world.now()) + SECOND);
        end = last_look(&mut world, &layout, token);
    }
    let lines: Vec<&str> = world.trace_tail().collect();
    let result = end.map_err(|what| match lines.is_empty() {
        true => what,
        false => format!("{what}\nlast events:\n{}", lines.join("\n")),
    });
    let book = book.borrow();
    let (all, ordered) = book.histories();
    let result = result.map(|()| Summary {
        trace_hash: world.trace_hash(),
        counters: world.counters().clone(),
        tally: book.tally.clone(),
        operations: all.ops().len(),
        lasted_ns: world.now().since(BEGIN),
    });
    ((all.clone(), ordered.clone()), result)
}

/// A world of nodes under test; the procedures are those of this harness.
pub fn world(setup: Setup, engine: impl Into<EngineOptions>, node: node::Options) -> World<Subject> {
    let engine = engine.into();
    let procedures = procedures();
    let topology = Arc::new(setup.topology.clone());
    World::new(setup, move |id, life, _| {
        let make = if life == 0 { AnyEngine::new } else { AnyEngine::rejoining };
        let engine = make(topology.clone(), id, life, engine.clone());
        Node::new(id, topology.clone(), procedures.clone(), engine, node.clone())
    })
}

pub(super) fn procedures() -> Arc<Procedures> {
    let mut procedures = Procedures::default();
    procedures.register(AppendAll);
    Arc::new(procedures)
}

/// Creates and loads the tables, before anything goes wrong, and lets every copy catch up.
pub fn set_up<P>(world: &mut World<P>, layout: &Arc<Layout>) -> Token
where
    P: Process<Request = Request, Reply = Reply> + 'static,
{
    let plan = layout.clone();
    let (client, replies) = ScriptClient::<P>::new(move |replies| match replies {
        [] => Some((NodeId(0), Request::Submit(plan.create()))),
        [Reply::Submitted(Ok(created))] => {
            assert!(created.outcome.is_committed(), "{:?}", created.outcome);
            Some((NodeId(0), Request::Submit(plan.load(created.token.clone()))))
        }
        _ => None,
    });
    world.client(client);
    world
        .run_to_rest(BEGIN + 30 * SECOND)
        .unwrap_or_else(|stuck| panic!("the tables are not created: {stuck}"));
    let now = world.now();
    world.run_until(now + SECOND);
    let replies = replies.borrow();
    match replies.last() {
        Some(Reply::Submitted(Ok(answer))) => match &answer.outcome {
            Outcome::Committed { .. } => answer.token.clone(),
            Outcome::Aborted(error) => panic!("the tables are not loaded: {error}"),
        },
        _ => panic!("the tables are not loaded"),
    }
}

fn last_look(world: &mut World<Subject>, layout: &Arc<Layout>, token: Token) -> Result<(), String> {
    let (client, replies) = agreement::client::<Subject>(layout.clone(), NodeId(0), token);
    world.client(client);
    let limit: Time = world.now() + 10 * SECOND;
    world.run_to_rest(limit).map_err(|stuck| format!("the last look: {stuck}"))?;
    agreement::look(layout, &replies.borrow()).check()
}
