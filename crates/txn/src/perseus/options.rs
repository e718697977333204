//! Knobs of the engine, and the faults that tests may plant.

pub use crate::delays::FutureRanks;
pub use crate::records::Records;
use base::time::{MS, SECOND};
use base::topology::Topology;

/// How the engine behaves. The defaults are what a cluster should run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Rule 1: transactions that span regions are ranked when they should be complete.
    pub future_ranks: FutureRanks,
    /// Rule 2: a closing reader excludes at once what is known to be ranked later.
    pub lower_bounds: bool,
    /// Added to the expected completion, in ns.
    pub margin_ns: u64,
    /// Where a transaction's place comes from.
    pub timestamps: Timestamps,
    /// Largest distance of a rank into the future, in ns. `None`: four times the widest round trip, two
    /// for the transaction itself and two for who is ahead of it.
    pub future_max_ns: Option<u64>,
    /// How often nodes report how far they are, in ns.
    pub collect_every_ns: u64,
    /// A node that runs no partition and has been silent for longer does not hold up collection any more, in ns.
    pub lease_ns: u64,
    /// First retransmission after this long, in ns. `None`: twice the widest round trip and a bit.
    pub retry_after_ns: Option<u64>,
    /// Longest pause between retransmissions, in ns.
    pub retry_max_ns: u64,
    /// A participant that has waited this long for a decision takes the transaction over, in ns.
    /// `None`: six times the widest round trip and a bit.
    pub recover_after_ns: Option<u64>,
    /// What becomes of a transaction whose coordinator is lost before every participant knew of it.
    pub unfinished: Unfinished,
    /// Counts the bytes of dependency graph that are sent. Costs an encoding of each.
    pub measure_graph: bool,
    /// Results of requests that may be repeated are kept this long after their rank, in ns.
    pub keep_results_ns: u64,
    /// What the node has to remember is recorded; `None`: it remembers nothing beyond its process. Goes with
    /// [`Timestamps::Clocks`] only.
    pub records: Option<Records>,
    #[cfg(any(test, feature = "mutants"))]
    pub mutant: Option<Mutant>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            future_ranks: FutureRanks::Measured,
            lower_bounds: true,
            margin_ns: MS,
            timestamps: Timestamps::Clocks,
            future_max_ns: None,
            collect_every_ns: 50 * MS,
            lease_ns: 10 * SECOND,
            retry_after_ns: None,
            retry_max_ns: 2 * SECOND,
            recover_after_ns: None,
            unfinished: Unfinished::Complete,
            measure_graph: false,
            keep_results_ns: 600 * SECOND,
            records: None,
            #[cfg(any(test, feature = "mutants"))]
            mutant: None,
        }
    }
}

impl Options {
    pub(super) fn future_max_ns(&self, topology: &Topology) -> u64 {
        self.future_max_ns.unwrap_or(4 * topology.wan.widest_ns() + 10 * MS)
    }
    pub(super) fn retry_after_ns(&self, topology: &Topology) -> u64 {
        self.retry_after_ns.unwrap_or(2 * topology.wan.widest_ns() + 20 * MS)
    }
    pub(super) fn recover_after_ns(&self, topology: &Topology) -> u64 {
        self.recover_after_ns.unwrap_or(6 * topology.wan.widest_ns() + 200 * MS)
    }
    /// Whether this fault is planted; never in production.
    #[cfg(any(test, feature = "mutants"))]
    #[inline]
    pub(super) fn planted(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }
    #[cfg(not(any(test, feature = "mutants")))]
    #[inline]
    pub(super) fn planted(&self, _: Mutant) -> bool {
        false
    }
}

/// Who hands out timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timestamps {
    /// Every participant by its own clock.
    Clocks,
    /// One oracle in the cluster, as in TiDB: a round trip to it for every transaction, after the participants
    /// have answered. See [`super::oracle`]. Nobody recovers a lost coordinator's transactions: what the
    /// oracle told it cannot be found out from the participants.
    Central,
}

/// A choice that is free as long as some participant knows nothing of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfinished {
    /// Whoever recovers brings it to the others.
    Complete,
    /// It ends without effect.
    Abandon,
}

/// Faults. Each is something that a published system got wrong, or that is easy to get wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// The coordinator keeps only the dependencies in the first answer.
    FirstAnswerOnly,
    /// The coordinator drops dependencies on larger ids, to keep the graph acyclic.
    CutCycles,
    /// A duplicate PreAccept is answered afresh.
    RecomputedAnswers,
    /// A write does not depend on earlier reads.
    MissingAntiDependency,
    /// Vertices are collected without regard to readers' cuts.
    CollectWithoutFloor,
    /// Vertices are collected once executed here, whatever other nodes are doing.
    CollectAlone,
    /// The client is told when the order is fixed.
    ReplyAtCommit,
    /// The client is told before the rank lies in the past.
    NoReplyGate,
    /// pts are clock readings alone, without ε, `closed` or the session's rank.
    PtsIsNow,
    /// A transaction's place is its cts, not its rank.
    RankIsCts,
    /// A reader does not wait for undecided transactions.
    CloseIgnoresUndecided,
    /// A transaction executes although an ancestor is not final.
    ExecuteBeforeFinal,
    /// A rank is computed although ancestors that may matter were collected.
    RankFromTruncatedClosure,
    /// Who recovers decides by what a majority of participants knows.
    RecoverFromMajority,
    /// A participant does not remember which ballot it promised.
    BallotNotPromised,
    /// Who recovers does not care what an earlier recovery got accepted.
    IgnoreAccepted,
    /// Who recovers takes a participant that knows nothing for one without conflicts.
    UnknownIsEmpty,
    /// A transaction that ends without effect loses its dependencies.
    NoopForgetsDependencies,
    /// A repeated request is taken for a new one.
    ForgetRequests,
    /// A transaction waits for its dependencies, but not for their components.
    ForgetComponents,
    /// What is closed is told without a recorded ceiling.
    NoCeiling,
    /// A transaction executes before its place is on disk.
    ExecuteBeforeSync,
    /// A promised ballot and an accepted proposal are not recorded.
    UnrecordedPromises,
    /// What has executed is not recorded before the node says how far it is.
    UnrecordedEnds,
}

#[cfg(any(test, feature = "mutants"))]
impl Mutant {
    /// All of them.
    pub const ALL: &[Mutant] = &[
        Mutant::FirstAnswerOnly,
        Mutant::CutCycles,
        Mutant::RecomputedAnswers,
        Mutant::MissingAntiDependency,
        Mutant::CollectWithoutFloor,
        Mutant::CollectAlone,
        Mutant::ReplyAtCommit,
        Mutant::NoReplyGate,
        Mutant::PtsIsNow,
        Mutant::RankIsCts,
        Mutant::CloseIgnoresUndecided,
        Mutant::ExecuteBeforeFinal,
        Mutant::RankFromTruncatedClosure,
        Mutant::RecoverFromMajority,
        Mutant::BallotNotPromised,
        Mutant::IgnoreAccepted,
        Mutant::UnknownIsEmpty,
        Mutant::NoopForgetsDependencies,
        Mutant::ForgetRequests,
        Mutant::ForgetComponents,
        Mutant::NoCeiling,
        Mutant::ExecuteBeforeSync,
        Mutant::UnrecordedPromises,
        Mutant::UnrecordedEnds,
    ];
}
