//! One case from its seed to its verdict.
//!
//! IN: a [`Case`]. OUT: a [`Summary`], or what was wrong. KEEPS: everything that a case does is drawn from
//! its seed.

use super::agreement;
use super::badges;
use super::book::Books;
use super::knobs::Knobs;
use super::layout::Layout;
use super::procedure::AppendAll;
use super::script_client::ScriptClient;
use super::session::Session;
use crate::plan::Plan;
use crate::world::clock::ClockModel;
use crate::world::{BEGIN, Booted, Counters, Setup, World, recording};
use base::cut::Consistency;
use base::process::{Process, Recorded};
use base::rng::Rng;
use base::time::SECOND;
use base::txn::Outcome;
use base::txn::procedure::Procedures;
use base::{NodeId, RegionId, Time, Token};
use history::guarantee::{AntiDependencies, RealTime, Rules};
use history::{Guarantee, History, check};
use node::Node;
use node::request::{Reply, Request};
use reads::protocol::Baseline;
use reads::replica::ReadPolicy;
use reads::rule::printed::Printed;
use std::collections::BTreeMap;
use std::sync::Arc;
use txn::any::{AnyEngine, EngineKind, EngineOptions};
use txn::geogauss::Isolation;

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
    pub baseline: Option<Baseline>,
    /// Queries go to readers that keep all they read.
    pub stays_home: bool,
    /// Readers keep replicas of rows, and rows are read there so.
    pub replicas: Option<ReadPolicy>,
    /// Clocks have no bound: they are seconds apart and drift.
    pub unbounded_clocks: bool,
    /// At which level transactions commit; below SERIALIZABLE with engine `geogauss` only.
    pub isolation: Isolation,
    /// Blocks are submitted as SQL does at this level: below SERIALIZABLE without what they only read, at READ COMMITTED
    /// after a second look at a cut of its own (engine `geogauss`).
    pub blocks: Isolation,
    /// Nodes keep what they record, and come back with it.
    pub records: bool,
    /// Other clients take badges from each other.
    pub badges: bool,
    pub conduct: Conduct,
    /// Planted faults; the run is expected to fail.
    #[cfg(feature = "mutants")]
    pub mutants: Mutants,
}

/// How a run is carried out.
#[derive(Clone, Copy, Debug)]
pub struct Conduct {
    /// Sessions live in regions, whatever the seed says: they share nothing with those of other regions, and it takes
    /// the distance to ask a node of another one.
    pub in_regions: bool,
    /// That run the regions; it changes nothing of what happens.
    pub threads: usize,
    /// Lines of the trace to keep.
    pub trace_lines: usize,
}

impl Default for Conduct {
    fn default() -> Conduct {
        Conduct { in_regions: false, threads: 1, trace_lines: 0 }
    }
}

/// Faults that are planted in a run.
#[cfg(feature = "mutants")]
#[derive(Clone, Debug, Default)]
pub struct Mutants {
    pub perseus: Option<txn::perseus::Mutant>,
    pub caerus: Option<txn::caerus::Mutant>,
    pub geogauss: Option<txn::geogauss::Mutant>,
    /// In how cuts are chosen.
    pub reads: Option<reads::rule::Mutant>,
    /// In how stores keep an index that is being built.
    pub rows: Option<rowstore::Mutant>,
    /// In how a client builds one.
    pub builds: Option<badges::builder::Fault>,
    /// Nobody watches the clocks.
    pub unwatched: bool,
    /// In what programs declare.
    pub undeclared: Option<badges::tables::Undeclared>,
}

impl Case {
    pub fn new(seed: u64, plan: Plan, consistency: Consistency) -> Case {
        Case {
            seed,
            plan,
            consistency,
            engine: EngineKind::Perseus,
            printed: None,
            baseline: None,
            stays_home: false,
            replicas: None,
            unbounded_clocks: false,
            isolation: Isolation::Serializable,
            blocks: Isolation::Serializable,
            records: false,
            badges: false,
            conduct: Conduct::default(),
            #[cfg(feature = "mutants")]
            mutants: Mutants::default(),
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
    /// Whether its sessions do.
    fn lives_in_regions(&self) -> bool {
        self.conduct.in_regions || Rng::new(self.seed).fork("in regions").chance(0.2)
    }
    /// Nobody watches the clocks of its nodes: a planted fault.
    pub(super) fn is_unwatched(&self) -> bool {
        #[cfg(feature = "mutants")]
        return self.mutants.unwatched;
        #[cfg(not(feature = "mutants"))]
        false
    }
    /// How its client builds indexes wrongly: a planted fault.
    pub(super) fn builds_wrongly(&self) -> Option<badges::builder::Fault> {
        #[cfg(feature = "mutants")]
        return self.mutants.builds;
        #[cfg(not(feature = "mutants"))]
        None
    }
    /// Some fault is planted. What finds it should find it again, so such runs draw nothing that older ones had not.
    pub(super) fn is_planted(&self) -> bool {
        #[cfg(feature = "mutants")]
        {
            let Mutants { perseus, caerus, geogauss, reads, unwatched, undeclared, .. } = self.mutants;
            let is_engine = perseus.is_some() || caerus.is_some() || geogauss.is_some();
            return is_engine || reads.is_some() || unwatched || undeclared.is_some();
        }
        #[cfg(not(feature = "mutants"))]
        false
    }
    /// What its programs leave out of their access sets: a planted fault.
    pub(super) fn undeclared(&self) -> Option<badges::tables::Undeclared> {
        #[cfg(feature = "mutants")]
        return self.mutants.undeclared;
        #[cfg(not(feature = "mutants"))]
        None
    }
    /// What is left of any promise where transactions commit below SERIALIZABLE.
    fn at_most(&self) -> Option<Guarantee> {
        match self.isolation.min(self.blocks) {
            Isolation::ReadCommitted => Some(Guarantee::ReadCommitted),
            Isolation::Snapshot | Isolation::RepeatableRead => Some(Guarantee::SnapshotIsolation),
            Isolation::Serializable => None,
        }
    }
    /// What transactions alone are held against.
    fn orders(&self) -> Guarantee {
        match self.at_most() {
            Some(weaker) => weaker,
            None if self.unbounded_clocks => without_clocks(),
            None => Guarantee::StrictSerializable,
        }
    }
    /// What everything that clients see is held against.
    pub fn promised(&self) -> Guarantee {
        if let Some(weaker) = self.at_most() {
            return weaker;
        }
        match (self.baseline, self.consistency) {
            (None, Consistency::Rss | Consistency::Regular) if self.unbounded_clocks => without_clocks(),
            (Some(baseline), Consistency::Rss | Consistency::Regular) => promised_by(baseline),
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

/// What a baseline's strong queries promise beside the engine's transactions.
pub fn promised_by(baseline: Baseline) -> Guarantee {
    match baseline {
        // One serial order that respects sessions and tokens, not real time.
        Baseline::SafeTimestamp => promised(Consistency::Session),
        Baseline::CentralTimestamp | Baseline::SynchronousReplica => Guarantee::Rss,
        Baseline::BatchCut => Guarantee::Serializable,
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
    let mut script = knobs.plan(case).script(&topology, knobs.active_ns, &mut rng.fork("script"));
    if case.unbounded_clocks {
        script.clocks = ClockModel::Kept { ns: APART_NS };
    }
    let mut setup = script.setup(knobs.topology.clone(), case.seed);
    setup.cost = knobs.cost;
    setup.client_one_way_ns = knobs.client_one_way_ns;
    let mut world = world(setup, knobs.engine.clone(), knobs.node.clone());
    world.keep_trace(case.conduct.trace_lines);
    world.allow_events(EVENTS_MAX);
    world.threads(case.conduct.threads);

    let token = knobs.set_up(&mut world, &layout);
    if case.unbounded_clocks {
        // Level `stale` reads what is closed by the slowest clock; the tables may be stamped by the fastest.
        let settled = world.now() + 2 * APART_NS;
        world.run_until(settled);
    }
    let regions = topology.wan.region_count() as u16;
    let books = Books::new(if case.lives_in_regions() { usize::from(regions) } else { 0 }, &layout);
    let healed_at = script.enact(&mut world);
    let gateways = knobs.gateways(case);
    for id in 0..knobs.sessions {
        let (habits, rng) = (knobs.habits.clone(), rng.fork_nth("session", u64::from(id)));
        let (layout, gateways) = (layout.clone(), gateways.clone());
        let session = |book| Session::new(id, layout, book, habits, rng, gateways, &token);
        if case.lives_in_regions() {
            let region = RegionId(id as u16 % regions);
            world.client_in(region, session(books.of(region)));
        } else {
            world.client(session(books.outside()));
        }
    }
    knobs.add_others(&mut world, (&layout, &books.outside()), (&gateways, &token), &rng);
    // The other engine does not take over from a lost gateway: only what was answered is judged.
    let comes_back = case.plan.mix.loses_regions();
    let demands_progress =
        case.engine == EngineKind::Perseus || !case.plan.mix.takes_gateways() || comes_back;
    let limit = healed_at + if demands_progress { 60 * SECOND } else { 3 * SECOND };
    let mut end = world.run_to_rest(limit).map_err(|stuck| stuck.to_string());
    if !demands_progress {
        end = Ok(());
    } else if end.is_ok() {
        // A region that came back last may have to be elected, or another one for it, before its rows can be read.
        let settled_ns =
            if comes_back { 25 * topology.wan.widest_ns() + SECOND + knobs.recovers_in_ns() } else { SECOND };
        world.run_until(healed_at.max(world.now()) + settled_ns);
        end = last_look(&mut world, &layout, &knobs, token);
    }
    let lines: Vec<&str> = world.trace_tail().collect();
    let result = end.map_err(|what| match lines.is_empty() {
        true => what,
        false => format!("{what}\nlast events:\n{}", lines.join("\n")),
    });
    books.close();
    let (all, ordered) = books.histories();
    let result = result.map(|()| Summary {
        trace_hash: world.trace_hash(),
        counters: world.counters(),
        tally: books.tally(),
        operations: Books::operations(&all),
        lasted_ns: world.now().since(BEGIN),
    });
    ((all, ordered), result)
}

/// A world of nodes under test; the procedures are those of this harness.
pub fn world(setup: Setup, engine: impl Into<EngineOptions>, node: node::Options) -> World<Subject> {
    let engine = engine.into();
    let procedures = procedures();
    let topology = Arc::new(setup.topology.clone());
    World::with_clocks(setup, move |id, life, records| {
        if engine.keeps_records() {
            let engine = AnyEngine::new(topology.clone(), id, life + 1, engine.clone());
            let mut node = Node::new(id, topology.clone(), procedures.clone(), engine, node.clone());
            for record in records {
                node.replay(recording::decode(record)).unwrap_or_else(|why| panic!("{id}: {why}"));
            }
            let starts_after = node.recovered().unwrap_or_else(|why| panic!("{id}: {why}"));
            return Booted { node, starts_after };
        }
        let make = if life == 0 { AnyEngine::new } else { AnyEngine::rejoining };
        let engine = make(topology.clone(), id, life, engine.clone());
        let node = Node::new(id, topology.clone(), procedures.clone(), engine, node.clone());
        Booted { node, starts_after: Time::ZERO }
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

fn last_look(
    world: &mut World<Subject>,
    layout: &Arc<Layout>,
    knobs: &Knobs,
    token: Token,
) -> Result<(), String> {
    let (client, replies) = agreement::client::<Subject>(layout.clone(), NodeId(0), token.clone());
    world.client(client);
    let limit: Time = world.now() + 10 * SECOND;
    world.run_to_rest(limit).map_err(|stuck| format!("the last look: {stuck}"))?;
    agreement::look(layout, &replies.borrow()).check()?;
    knobs.tables(layout).map_or(Ok(()), |tables| badges::agreement::look(world, &tables, token))
}
