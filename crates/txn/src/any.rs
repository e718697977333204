//! One type for whichever engine a cluster runs, chosen when it starts.
//!
//! Everything above is written once, for [`Engine`]; a cluster of this engine costs one match per call and
//! one byte per message. KEEPS: nodes of one cluster run the same kind; a message of another is ignored.

mod options;

pub use options::EngineOptions;

use crate::baseline::{calvin, slog};
use crate::caerus::{self, Caerus, Point, Routing};
use crate::engine::{
    Answered, Command, Engine, EngineEffect, EngineEffects, EngineReport, Executor, Question, Record,
    Unanswered,
};
use crate::geogauss::{self, Geogauss};
use crate::perseus::{self, Perseus};
use base::process::Unreadable;
use base::topology::Topology;
use base::txn::Submission;
use base::{NodeId, Rank, SqlError, SqlState, Time, TxnId};
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
    Geogauss,
}

/// What the rest of the program knows of an engine before one runs.
pub struct EngineSpec {
    pub kind: EngineKind,
    pub name: &'static str,
    /// It keeps a copy of every partition in every region.
    is_replicated: bool,
    /// It can go on, and lose nothing, without a region.
    survives_loss: bool,
    /// Its ranks rest on clocks with a bound.
    needs_clock_bound: bool,
    options: fn() -> EngineOptions,
}

/// By number of [`EngineKind`].
static SPECS: [EngineSpec; 5] = [
    EngineSpec {
        kind: EngineKind::Perseus,
        name: "perseus",
        is_replicated: false,
        survives_loss: false,
        needs_clock_bound: true,
        options: || EngineOptions::Perseus(perseus::Options::default()),
    },
    EngineSpec {
        kind: EngineKind::Caerus,
        name: "caerus",
        is_replicated: true,
        survives_loss: true,
        needs_clock_bound: false,
        options: || EngineOptions::Caerus(caerus::Options::default()),
    },
    EngineSpec {
        kind: EngineKind::Slog,
        name: "slog",
        is_replicated: true,
        survives_loss: false,
        needs_clock_bound: false,
        options: || EngineOptions::Caerus(slog::options()),
    },
    EngineSpec {
        kind: EngineKind::Calvin,
        name: "calvin",
        is_replicated: true,
        survives_loss: true,
        needs_clock_bound: false,
        options: || EngineOptions::Caerus(calvin::options()),
    },
    EngineSpec {
        kind: EngineKind::Geogauss,
        name: "geogauss",
        is_replicated: true,
        survives_loss: true,
        needs_clock_bound: false,
        options: || EngineOptions::Geogauss(geogauss::Options::default()),
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
    pub const ALL: [EngineKind; 5] =
        [EngineKind::Perseus, EngineKind::Caerus, EngineKind::Slog, EngineKind::Calvin, EngineKind::Geogauss];

    pub fn spec(self) -> &'static EngineSpec {
        &SPECS[self as usize]
    }
    pub fn name(self) -> &'static str {
        self.spec().name
    }
    pub fn parse(name: &str) -> Option<EngineKind> {
        EngineKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
    /// Every region keeps a copy of every partition.
    pub fn is_replicated(self) -> bool {
        self.spec().is_replicated
    }
    /// The loss of a region can be survived ([`EngineOptions::surviving`]).
    pub fn survives_loss(self) -> bool {
        self.spec().survives_loss
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

/// An engine and the effects of its current call.
pub struct Hosted<E: Engine> {
    pub engine: E,
    out: EngineEffects<E>,
}

/// Whichever engine this cluster runs.
pub enum AnyEngine {
    Perseus(Box<Hosted<Perseus>>),
    Caerus(Box<Hosted<Caerus>>),
    Geogauss(Box<Hosted<Geogauss>>),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Message {
    Perseus(perseus::Message),
    Caerus(caerus::Message),
    Geogauss(geogauss::Message),
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
            EngineOptions::Geogauss(options) => {
                let engine = Geogauss::new(topology, me, incarnation, options);
                AnyEngine::Geogauss(Box::new(Hosted { engine, out: Vec::new() }))
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
            EngineOptions::Geogauss(options) => {
                let engine = Geogauss::rejoining(topology, me, incarnation, options);
                AnyEngine::Geogauss(Box::new(Hosted { engine, out: Vec::new() }))
            }
            EngineOptions::Perseus(_) => AnyEngine::new(topology, me, incarnation, options),
        }
    }
    /// The same for the node of a region that joins the cluster. Errors: 0A000, none can.
    pub fn joining(
        topology: Arc<Topology>,
        me: NodeId,
        incarnation: u32,
        options: EngineOptions,
    ) -> Result<AnyEngine, SqlError> {
        match options {
            EngineOptions::Caerus(options) if options.routing == Routing::Direct => {
                let engine = Caerus::joining(topology, me, incarnation, options);
                Ok(AnyEngine::Caerus(Box::new(Hosted { engine, out: Vec::new() })))
            }
            options => Err(changes_not(options.kind())),
        }
    }
    /// Where the node is, if nothing is under way there: see [`caerus::Point`].
    pub fn point(&self) -> Option<Point> {
        match self {
            AnyEngine::Caerus(hosted) => hosted.engine.point(),
            AnyEngine::Perseus(_) | AnyEngine::Geogauss(_) => None,
        }
    }
    /// The same node in another cluster: see [`Caerus::changed_to`].
    pub fn changed_to(
        self,
        topology: Arc<Topology>,
        options: EngineOptions,
        at: &Point,
        executor: &mut dyn Executor,
    ) -> Result<AnyEngine, Unreadable> {
        match (self, options) {
            (AnyEngine::Caerus(hosted), EngineOptions::Caerus(options)) => {
                let engine = hosted.engine.changed_to(topology, options, at, executor)?;
                Ok(AnyEngine::Caerus(Box::new(Hosted { engine, out: Vec::new() })))
            }
            (engine, _) => Err(Unreadable(changes_not(engine.kind()).message.clone())),
        }
    }
    /// How long a node that had lost its memory took to come back, in ns, and the bytes of its copy.
    pub fn came_back(&self) -> Option<(u64, u64)> {
        match self {
            AnyEngine::Perseus(_) => None,
            AnyEngine::Geogauss(hosted) => hosted.engine.came_back(),
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
            AnyEngine::Geogauss(hosted) => hosted.engine.check_rejoins(),
        }
    }
    pub fn kind(&self) -> EngineKind {
        match self {
            AnyEngine::Perseus(_) => EngineKind::Perseus,
            AnyEngine::Caerus(hosted) => kind_of(hosted.engine.routing()),
            AnyEngine::Geogauss(_) => EngineKind::Geogauss,
        }
    }
}

fn changes_not(kind: EngineKind) -> SqlError {
    SqlError::unsupported(format!("changing the nodes of a cluster with engine {}", kind.name()))
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
        EngineEffect::Record(record) => EngineEffect::Record(record),
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
            AnyEngine::Geogauss(hosted) => {
                let Hosted { engine: $engine, out: $effects } = &mut **hosted;
                let result = $call;
                hand_on(hosted, $out, Message::Geogauss);
                result
            }
        }
    };
}

/// The same without effects.
macro_rules! each {
    ($self:ident.$method:ident($($argument:expr),*)) => {
        match $self {
            AnyEngine::Perseus(hosted) => hosted.engine.$method($($argument),*),
            AnyEngine::Caerus(hosted) => hosted.engine.$method($($argument),*),
            AnyEngine::Geogauss(hosted) => hosted.engine.$method($($argument),*),
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
            (AnyEngine::Geogauss(hosted), Message::Geogauss(message)) => {
                hosted.engine.message(now, from, message, executor, &mut hosted.out);
                hand_on(hosted, out, Message::Geogauss);
            }
            // A peer of another cluster.
            _ => {}
        }
    }
    fn next_wake(&self) -> Option<Time> {
        each!(self.next_wake())
    }
    fn goes_on(&self) -> bool {
        each!(self.goes_on())
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
    fn hand_over(&mut self, now: Time, executor: &mut dyn Executor, out: &mut Out) {
        inside!(self, out, |engine, effects| engine.hand_over(now, executor, effects));
    }
    fn leads(&self) -> usize {
        each!(self.leads())
    }
    fn set_floor(&mut self, floor: Option<Rank>) {
        each!(self.set_floor(floor))
    }
    fn resume(&mut self, now: Time, incarnation: u32, out: &mut Out) {
        inside!(self, out, |engine, effects| engine.resume(now, incarnation, effects));
    }
    fn stable(&mut self, now: Time, records: u64, executor: &mut dyn Executor, out: &mut Out) {
        inside!(self, out, |engine, effects| engine.stable(now, records, executor, effects));
    }
    fn image(&self) -> Vec<u8> {
        each!(self.image())
    }
    fn restore(&mut self, image: &[u8]) -> Result<(), Unreadable> {
        each!(self.restore(image))
    }
    fn replay(&mut self, record: Record, executor: &mut dyn Executor) -> Result<(), Unreadable> {
        each!(self.replay(record, executor))
    }
    fn recovered(&mut self) -> Time {
        each!(self.recovered())
    }
    fn is_behind(&self) -> bool {
        each!(self.is_behind())
    }
    fn absent(&self) -> Option<SqlError> {
        each!(self.absent())
    }
    fn report(&self) -> EngineReport {
        each!(self.report())
    }
}

#[cfg(test)]
mod tests;
