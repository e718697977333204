//! Knobs of the engine, and the faults that tests may plant.

use super::merge::{Isolation, Rule};
use base::time::{MS, SECOND};
use base::topology::Topology;
use base::{SqlError, SqlState};

/// Idle members that record close their epochs no more often than this.
pub const IDLE_RECORDED_NS: u64 = 250 * MS;

/// How the engine behaves; the same at every node of a cluster. The defaults are what a cluster should run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The length of an epoch, in ns: from 1 to 500 ms.
    pub epoch_ns: u64,
    pub rule: Rule,
    /// Transactions commit at the level that they ask for, or at this one if it is weaker.
    pub isolation: Isolation,
    pub pace: EpochPace,
    /// A transaction that lost to others is evaluated again so often, unless its reads have cuts of their own.
    pub attempts_max: u32,
    /// Transactions of its clients that a gateway has under way at most.
    pub outstanding_max: usize,
    /// A member says that it is alive after so long a silence, and repeats what was not acknowledged, in ns.
    pub beat_ns: u64,
    /// What is missing of a member's epoch is asked for after this long, in ns. `None`: a quarter of the widest
    /// one-way delay and a bit.
    pub pull_after_ns: Option<u64>,
    /// A lost member is removed by a majority of the others, and comes back with a copy. An epoch is published only when
    /// a majority has all of it (*quorum* exposure); without this, when this member has (*fast* exposure), and a
    /// lost member is waited for.
    pub removes_lost: bool,
    /// What a member has to remember beyond its process is recorded.
    pub records: bool,
    /// A member that was silent for so long is proposed for removal, in ns. `None`: twice the widest round trip and half
    /// a second.
    pub suspect_after_ns: Option<u64>,
    /// A member that was silent for longer is taken for lost, in ns: what is submitted is refused.
    pub lost_after_ns: u64,
    /// Largest distance of a token's rank into the future, in ns. `None`: four times the widest round trip.
    pub future_max_ns: Option<u64>,
    /// Results of requests that may be repeated are kept this long after their rank, in ns.
    pub keep_results_ns: u64,
    #[cfg(any(test, feature = "mutants"))]
    pub mutant: Option<Mutant>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            epoch_ns: 10 * MS,
            rule: Rule::Greedy,
            isolation: Isolation::Serializable,
            pace: EpochPace::default(),
            attempts_max: 1000,
            outstanding_max: 20_000,
            beat_ns: 100 * MS,
            pull_after_ns: None,
            removes_lost: false,
            records: false,
            suspect_after_ns: None,
            lost_after_ns: 10 * SECOND,
            future_max_ns: None,
            keep_results_ns: 600 * SECOND,
            #[cfg(any(test, feature = "mutants"))]
            mutant: None,
        }
    }
}

/// How a member's epochs go on beside those of others, and while nobody works.
#[derive(Clone, Copy, Debug)]
pub struct EpochPace {
    /// A member closes at most so many epochs ahead of the last published one: whoever is slower is waited for. All of
    /// them together last longer than several round trips, or a member that has fallen behind never catches up.
    pub ahead_max: u64,
    /// A member whose clock is slower than others' closes epochs early, to be so many behind them at most.
    pub behind_max: u64,
    /// So long after the last transaction epochs go on at full pace, in ns.
    pub busy_ns: u64,
    /// After that a member closes its epochs no more often than this, in ns, all that have ended meanwhile at once.
    pub idle_every_ns: u64,
}

impl Default for EpochPace {
    fn default() -> EpochPace {
        EpochPace { ahead_max: 1000, behind_max: 2, busy_ns: SECOND, idle_every_ns: 20 * MS }
    }
}

/// A member may be so far ahead of the last published epoch, in ns, if [`EpochPace::ahead_max`] epochs are less.
const AHEAD_NS: u64 = 10 * SECOND;

impl Options {
    /// The same with epochs of this length, in ns; short ones are more of them that a member may be ahead, so that one
    /// that has fallen behind catches up. Errors: as of [`Options::check`].
    pub fn with_epoch(self, epoch_ns: u64) -> Result<Options, SqlError> {
        let options = Options { epoch_ns, ..self };
        options.check()?;
        let ahead_max = options.pace.ahead_max.max(AHEAD_NS / epoch_ns);
        Ok(Options { pace: EpochPace { ahead_max, ..options.pace }, ..options })
    }
    /// Errors: an epoch length out of range (22023).
    pub fn check(&self) -> Result<(), SqlError> {
        if (MS..=500 * MS).contains(&self.epoch_ns) {
            return Ok(());
        }
        let message = format!("an epoch of {} ms is out of range", self.epoch_ns as f64 / MS as f64);
        let error = SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
        Err(error.hint("Epochs of engine geogauss take from 1 to 500 ms."))
    }
    pub(super) fn pull_after_ns(&self, topology: &Topology) -> u64 {
        self.pull_after_ns.unwrap_or(topology.wan.widest_ns() / 4 + 10 * MS)
    }
    pub(super) fn suspect_after_ns(&self, topology: &Topology) -> u64 {
        self.suspect_after_ns.unwrap_or(2 * topology.wan.widest_ns() + 500 * MS)
    }
    /// An attempt to change the membership, or to get a block of a copy, is repeated after this long, in ns.
    pub(super) fn retry_after_ns(&self, topology: &Topology) -> u64 {
        2 * topology.wan.widest_ns() + 50 * MS
    }
    pub(super) fn future_max_ns(&self, topology: &Topology) -> u64 {
        self.future_max_ns.unwrap_or(8 * topology.wan.widest_ns() + 10 * MS)
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

/// Faults. Each is something that the paper or its artifact got wrong, or that is easy to get wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// What was read is held against a snapshot one epoch too new (SI as printed).
    OffByOne,
    /// What was read is looked at by its own member only, when it is evaluated.
    ValidateEarly,
    /// Readers are told that an epoch is closed before it is published.
    CloseEarly,
    /// An epoch is merged without regard to how many write sets it should have.
    IgnoreCounts,
    /// A client is told before the epoch is published.
    AnswerEarly,
    /// A transaction may enter an epoch that has been closed.
    EnterClosedEpoch,
    /// Of transactions that started in one epoch a member prefers its own.
    PreferOwn,
    /// A repeated request is taken for a new one.
    ForgetRequests,
    /// An epoch is published after one delay though members may be removed: as soon as it is here.
    ExposeEarly,
    /// A member's own transactions are not recorded.
    ForgetWriteSets,
    /// The ends of a member's own epochs are not.
    ForgetEnds,
    /// Others' epochs are acknowledged and not recorded.
    ForgetArrived,
    /// Promises are not recorded.
    ForgetVotes,
    /// An own epoch counts before it is on disk.
    CountUnsynced,
}

#[cfg(any(test, feature = "mutants"))]
impl Mutant {
    /// All of them.
    pub const ALL: &[Mutant] = &[
        Mutant::OffByOne,
        Mutant::ValidateEarly,
        Mutant::CloseEarly,
        Mutant::IgnoreCounts,
        Mutant::AnswerEarly,
        Mutant::EnterClosedEpoch,
        Mutant::PreferOwn,
        Mutant::ForgetRequests,
    ];
    /// Those that only show where members are lost.
    pub const OF_LOSS: &[Mutant] = &[Mutant::ExposeEarly];
    /// Those that only show where members crash and come back with what their disks have.
    pub const OF_RECORDS: &[Mutant] = &[
        Mutant::ForgetWriteSets,
        Mutant::ForgetEnds,
        Mutant::ForgetArrived,
        Mutant::ForgetVotes,
        Mutant::CountUnsynced,
    ];
}
