//! One type for whichever engine a cluster runs, chosen when it starts.
//!
//! Everything above is written once, for [`Engine`]; a cluster of this engine costs one match per call and
//! one byte per message. KEEPS: nodes of one cluster run the same kind; a message of another is ignored.

use crate::baseline::{calvin, slog};
use crate::caerus::options::{Collection, Heartbeats};
use crate::caerus::{self, Caerus, Routing};
use crate::engine::{
    Answered, Command, Engine, EngineEffect, EngineEffects, EngineReport, Executor, Question, Unanswered,
};
use crate::perseus::{self, Perseus};
use base::topology::Topology;
use base::txn::Submission;
use base::{NodeId, Rank, RegionId, SqlError, SqlState, Time, TxnId};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The engines there are. The default is what a cluster runs that names none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum EngineKind {
    Perseus,
    #[default]
    Caerus,
    /// Caerus' baselines: see [`crate::baseline`].
    Slog,
    Calvin,
}

/// What the rest of the program knows of an engine before one runs.
pub struct EngineSpec {
    pub kind: EngineKind,
    pub name: &'static str,
    /// It keeps a copy of every partition in every region.
    is_replicated: bool,
    /// Its ranks rest on clocks with a bound.
    needs_clock_bound: bool,
    options: fn() -> EngineOptions,
}

/// By number of [`EngineKind`].
static SPECS: [EngineSpec; 4] = [
    EngineSpec {
        kind: EngineKind::Perseus,
        name: "perseus",
        is_replicated: false,
        needs_clock_bound: true,
        options: || EngineOptions::Perseus(perseus::Options::default()),
    },
    EngineSpec {
        kind: EngineKind::Caerus,
        name: "caerus",
        is_replicated: true,
        needs_clock_bound: false,
        options: || EngineOptions::Caerus(caerus::Options::default()),
    },
    EngineSpec {
        kind: EngineKind::Slog,
        name: "slog",
        is_replicated: true,
        needs_clock_bound: false,
        options: || EngineOptions::Caerus(slog::options()),
    },
    EngineSpec {
        kind: EngineKind::Calvin,
        name: "calvin",
        is_replicated: true,
        needs_clock_bound: false,
        options: || EngineOptions::Caerus(calvin::options()),
    },
];

impl EngineSpec {
    /// The same cluster with the copies that the engine needs.
    pub fn layout(&self, topology: Topology) -> Topology {
        if self.is_replicated { topology.replicated() } else { topology }
    }
    /// Errors: the cluster's clocks have no bound, and the engine cannot do without.
    pub fn check_clocks(&self, topology: &Topology) -> Result<(), SqlError> {
        if !self.needs_clock_bound || !topology.unbounded_clocks {
            return Ok(());
        }
        let error = SqlError::unsupported(format!("engine {} with clocks that have no bound", self.name));
        Err(error.hint("Its ranks rest on clocks; engine caerus finds its cuts without, or give a bound."))
    }
    /// What a cluster should run.
    pub fn options(&self) -> EngineOptions {
        (self.options)()
    }
}

impl EngineKind {
    pub const ALL: [EngineKind; 4] =
        [EngineKind::Perseus, EngineKind::Caerus, EngineKind::Slog, EngineKind::Calvin];

    pub fn spec(self) -> &'static EngineSpec {
        &SPECS[self as usize]
    }
    pub fn name(self) -> &'static str {
        self.spec().name
    }
    pub fn parse(name: &str) -> Option<EngineKind> {
        EngineKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
    /// See [`EngineSpec::layout`].
    pub fn layout(self, topology: Topology) -> Topology {
        self.spec().layout(topology)
    }
    /// See [`EngineSpec::check_clocks`].
    pub fn check_clocks(self, topology: &Topology) -> Result<(), SqlError> {
        self.spec().check_clocks(topology)
    }
    /// See [`EngineSpec::options`].
    pub fn options(self) -> EngineOptions {
        self.spec().options()
    }
}

/// An engine's knobs; they choose the engine too.
#[derive(Clone, Debug)]
pub enum EngineOptions {
    Perseus(perseus::Options),
    Caerus(caerus::Options),
}

impl From<perseus::Options> for EngineOptions {
    fn from(options: perseus::Options) -> Self {
        EngineOptions::Perseus(options)
    }
}
impl From<caerus::Options> for EngineOptions {
    fn from(options: caerus::Options) -> Self {
        EngineOptions::Caerus(options)
    }
}

impl EngineOptions {
    /// The same, surviving the loss of so many regions of this cluster. Errors: the engine keeps one copy, or
    /// there are not as many other regions.
    pub fn surviving(self, regions: usize, topology: &Topology) -> Result<EngineOptions, SqlError> {
        match self {
            _ if regions == 0 => Ok(self),
            EngineOptions::Perseus(_) => {
                let error = SqlError::unsupported("surviving the loss of a region with engine perseus");
                Err(error
                    .hint("It keeps one copy of each partition; engine caerus keeps one in every region."))
            }
            EngineOptions::Caerus(options) if options.routing == slog::ROUTING => {
                let error = SqlError::unsupported("surviving the loss of a region with engine slog");
                Err(error
                    .hint("Its regions keep their logs to themselves; engine caerus has copies of each."))
            }
            EngineOptions::Caerus(options) => {
                let all = topology.wan.region_count() as u16;
                let orders = |region: &u16| topology.sequencer_of(RegionId(*region)).is_some();
                let others = (0..all).filter(orders).count().saturating_sub(1);
                let is_calvin = options.routing == calvin::ROUTING;
                if is_calvin && regions <= others / 2 {
                    return Ok(EngineOptions::Caerus(options)); // A majority has everything as it is.
                }
                if is_calvin || regions > others {
                    let error = SqlError::new(
                        SqlState::INVALID_PARAMETER_VALUE,
                        format!("the loss of {regions} regions cannot be survived"),
                    );
                    let error = error.detail(format!(
                        "Each region keeps copies in others, and there are {others} of those."
                    ));
                    return Err(error.hint("Choose fewer, or start more regions; 2K + 1 go on without K."));
                }
                if !caerus::comes_back(others + 1, regions) {
                    let error = SqlError::new(
                        SqlState::INVALID_PARAMETER_VALUE,
                        format!("the loss of {regions} regions cannot be survived"),
                    );
                    let error = error.detail(format!(
                        "A region that comes back without its memory needs the word of {} others that have theirs, \
                         and with {regions} of {} lost there are {}: none of them would ever come back.",
                        regions + 1,
                        others + 1,
                        others + 1 - regions
                    ));
                    let (fewer, more) = (others / 2, 2 * regions + 1);
                    return Err(error.hint(format!("Choose {fewer} or fewer, or start {more} regions.")));
                }
                Ok(EngineOptions::Caerus(caerus::Options { copies_elsewhere: regions, ..options }))
            }
        }
    }
    /// What whoever asked to survive the loss of regions should know: with fewer than 2K + 1 of them, what was
    /// answered outlives the loss of K, but the others do not go on without K. Here that is where one region is left
    /// of K + 1, and those that are lost come back with its word.
    pub fn survival_warning(&self, topology: &Topology) -> Option<String> {
        let EngineOptions::Caerus(caerus::Options { copies_elsewhere: copies, .. }) = self else {
            return None;
        };
        let all = topology.wan.region_count() as u16;
        let regions = (0..all).filter(|region| topology.sequencer_of(RegionId(*region)).is_some()).count();
        if 2 * copies < regions {
            return None;
        }
        let stops_at = regions - copies;
        Some(format!(
            "with {regions} regions, the loss of {stops_at} at a time stops every commit and every strong read until \
             one is back: each needs {} of them. Nothing that was answered is lost with {copies} lost. To go on \
             without {copies}, start {} regions",
            copies + 1,
            2 * copies + 1,
        ))
    }
    /// The same, looking around and collecting no more often than this, in ns, where nothing happens.
    pub fn resting(self, idle_ns: u64) -> EngineOptions {
        match self {
            EngineOptions::Caerus(options) => EngineOptions::Caerus(caerus::Options {
                heartbeats: Heartbeats { idle_every_ns: Some(idle_ns), ..options.heartbeats },
                collection: Collection {
                    every_ns: options.collection.every_ns.max(idle_ns),
                    ..options.collection
                },
                ..options
            }),
            EngineOptions::Perseus(options) => EngineOptions::Perseus(options),
        }
    }
    pub fn kind(&self) -> EngineKind {
        match self {
            EngineOptions::Perseus(_) => EngineKind::Perseus,
            EngineOptions::Caerus(options) => kind_of(options.routing),
        }
    }
}

/// An engine and the effects of its current call.
pub struct Hosted<E: Engine> {
    pub engine: E,
    out: EngineEffects<E>,
}

/// Whichever engine this cluster runs.
pub enum AnyEngine {
    Perseus(Box<Hosted<Perseus>>),
    Caerus(Box<Hosted<Caerus>>),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Message {
    Perseus(perseus::Message),
    Caerus(caerus::Message),
}

type Out = Vec<EngineEffect<Message>>;

impl AnyEngine {
    /// An engine for `me` in its `incarnation`-th life.
    pub fn new(topology: Arc<Topology>, me: NodeId, incarnation: u32, options: EngineOptions) -> AnyEngine {
        match options {
            EngineOptions::Perseus(options) => {
                let engine = Perseus::new(topology, me, incarnation, options);
                AnyEngine::Perseus(Box::new(Hosted { engine, out: Vec::new() }))
            }
            EngineOptions::Caerus(options) => {
                let engine = Caerus::new(topology, me, incarnation, options);
                AnyEngine::Caerus(Box::new(Hosted { engine, out: Vec::new() }))
            }
        }
    }
    /// The same for a node that has lost what it knew in former lives.
    pub fn rejoining(
        topology: Arc<Topology>,
        me: NodeId,
        incarnation: u32,
        options: EngineOptions,
    ) -> AnyEngine {
        match options {
            EngineOptions::Caerus(options) => {
                let engine = Caerus::rejoining(topology, me, incarnation, options);
                AnyEngine::Caerus(Box::new(Hosted { engine, out: Vec::new() }))
            }
            EngineOptions::Perseus(_) => AnyEngine::new(topology, me, incarnation, options),
        }
    }
    /// How long a node that had lost its memory took to come back, in ns, and the bytes of its copy.
    pub fn came_back(&self) -> Option<(u64, u64)> {
        match self {
            AnyEngine::Perseus(_) => None,
            AnyEngine::Caerus(hosted) => hosted.engine.came_back(),
        }
    }
    /// Whether a node that loses its memory can come back with what others keep. Errors: 0A000, it cannot, and why.
    pub fn check_rejoins(&self) -> Result<(), SqlError> {
        match self {
            AnyEngine::Perseus(_) => {
                let message = "a region that has lost its memory cannot come back with engine perseus";
                let error = SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message);
                Err(error
                    .detail("It keeps one copy of each partition, so what the region knew is nowhere else."))
            }
            AnyEngine::Caerus(hosted) => hosted.engine.check_rejoins(self.kind().name()),
        }
    }
    pub fn kind(&self) -> EngineKind {
        match self {
            AnyEngine::Perseus(_) => EngineKind::Perseus,
            AnyEngine::Caerus(hosted) => kind_of(hosted.engine.routing()),
        }
    }
}

fn kind_of(routing: Routing) -> EngineKind {
    match routing {
        slog::ROUTING => EngineKind::Slog,
        calvin::ROUTING => EngineKind::Calvin,
        Routing::Direct => EngineKind::Caerus,
    }
}

/// Hands on what an engine asked for, in its order.
fn hand_on<E: Engine>(hosted: &mut Hosted<E>, out: &mut Out, message: fn(E::Message) -> Message) {
    out.extend(hosted.out.drain(..).map(|effect| match effect {
        EngineEffect::Send { to, message: sent } => EngineEffect::Send { to, message: message(sent) },
        EngineEffect::Answer(answer) => EngineEffect::Answer(answer),
        EngineEffect::Stream { partition, item } => EngineEffect::Stream { partition, item },
        EngineEffect::Answered { ticket, result } => EngineEffect::Answered { ticket, result },
        EngineEffect::Restored => EngineEffect::Restored,
        EngineEffect::Collected { below } => EngineEffect::Collected { below },
    }));
}

/// Calls the engine inside; `$engine` and `$effects` are its own.
macro_rules! inside {
    ($self:ident, $out:ident, |$engine:ident, $effects:ident| $call:expr) => {
        match $self {
            AnyEngine::Perseus(hosted) => {
                let Hosted { engine: $engine, out: $effects } = &mut **hosted;
                let result = $call;
                hand_on(hosted, $out, Message::Perseus);
                result
            }
            AnyEngine::Caerus(hosted) => {
                let Hosted { engine: $engine, out: $effects } = &mut **hosted;
                let result = $call;
                hand_on(hosted, $out, Message::Caerus);
                result
            }
        }
    };
}

impl Engine for AnyEngine {
    type Message = Message;

    fn start(&mut self, now: Time, out: &mut Out) {
        inside!(self, out, |engine, effects| engine.start(now, effects));
    }
    fn submit(
        &mut self,
        now: Time,
        submission: Submission,
        executor: &mut dyn Executor,
        out: &mut Out,
    ) -> TxnId {
        inside!(self, out, |engine, effects| engine.submit(now, submission, executor, effects))
    }
    fn message(
        &mut self,
        now: Time,
        from: NodeId,
        message: Message,
        executor: &mut dyn Executor,
        out: &mut Out,
    ) {
        match (self, message) {
            (AnyEngine::Perseus(hosted), Message::Perseus(message)) => {
                hosted.engine.message(now, from, message, executor, &mut hosted.out);
                hand_on(hosted, out, Message::Perseus);
            }
            (AnyEngine::Caerus(hosted), Message::Caerus(message)) => {
                hosted.engine.message(now, from, message, executor, &mut hosted.out);
                hand_on(hosted, out, Message::Caerus);
            }
            // A peer of another cluster.
            _ => {}
        }
    }
    fn next_wake(&self) -> Option<Time> {
        match self {
            AnyEngine::Perseus(hosted) => hosted.engine.next_wake(),
            AnyEngine::Caerus(hosted) => hosted.engine.next_wake(),
        }
    }
    fn wake(&mut self, now: Time, executor: &mut dyn Executor, out: &mut Out) {
        inside!(self, out, |engine, effects| engine.wake(now, executor, effects));
    }
    fn ask(
        &mut self,
        now: Time,
        question: Question,
        executor: &mut dyn Executor,
        out: &mut Out,
    ) -> Result<Option<Answered>, Unanswered> {
        inside!(self, out, |engine, effects| engine.ask(now, question, executor, effects))
    }
    fn admin(
        &mut self,
        now: Time,
        command: Command,
        executor: &mut dyn Executor,
        out: &mut Out,
    ) -> Result<TxnId, SqlError> {
        inside!(self, out, |engine, effects| engine.admin(now, command, executor, effects))
    }
    fn set_floor(&mut self, floor: Option<Rank>) {
        match self {
            AnyEngine::Perseus(hosted) => hosted.engine.set_floor(floor),
            AnyEngine::Caerus(hosted) => hosted.engine.set_floor(floor),
        }
    }
    fn resume(&mut self, now: Time, incarnation: u32, out: &mut Out) {
        inside!(self, out, |engine, effects| engine.resume(now, incarnation, effects));
    }
    fn absent(&self) -> Option<SqlError> {
        match self {
            AnyEngine::Perseus(hosted) => hosted.engine.absent(),
            AnyEngine::Caerus(hosted) => hosted.engine.absent(),
        }
    }
    fn report(&self) -> EngineReport {
        match self {
            AnyEngine::Perseus(hosted) => hosted.engine.report(),
            AnyEngine::Caerus(hosted) => hosted.engine.report(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::wan::Wan;

    #[test]
    fn every_engine_has_its_specification() {
        for kind in EngineKind::ALL {
            assert_eq!((kind.spec().kind, EngineKind::parse(kind.name())), (kind, Some(kind)));
            assert_eq!(kind.options().kind(), kind);
        }
    }

    #[test]
    fn who_is_asked_to_survive_too_much_refuses() {
        let three = Topology::one_node_per_region(Wan::preset("perseus3").unwrap(), 1).replicated();
        let survive = |kind: EngineKind, k| kind.options().surviving(k, &three);
        for k in 0..=2 {
            let Ok(EngineOptions::Caerus(options)) = survive(EngineKind::Caerus, k) else { panic!("{k}") };
            assert_eq!(options.copies_elsewhere, k);
        }
        let state = |kind, k| survive(kind, k).err().map(|error| error.state.as_str().to_string());
        assert_eq!(state(EngineKind::Caerus, 3).as_deref(), Some("22023"));
        assert_eq!(state(EngineKind::Perseus, 1).as_deref(), Some("0A000"));
        assert_eq!(state(EngineKind::Perseus, 0), None);
        assert_eq!(state(EngineKind::Slog, 1).as_deref(), Some("0A000"));
        let warning = |k| survive(EngineKind::Caerus, k).unwrap().survival_warning(&three);
        assert_eq!((warning(0), warning(1)), (None, None));
        let said = warning(2).expect("three regions do not go on without two");
        assert!(
            said.contains("the loss of 1 at a time stops every commit") && said.contains("start 5 regions"),
            "{said}"
        );
    }
}
