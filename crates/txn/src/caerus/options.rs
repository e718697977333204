//! Knobs of the engine, and the faults that tests may plant.

pub use super::routing::{Agreement, Routing};
pub use crate::delays::FutureRanks;
#[cfg(any(test, feature = "mutants"))]
use crate::log::Fault;
pub use crate::records::Records;
use base::NodeId;
use base::patience::Patience;
use base::time::{MS, SECOND};
use base::topology::Topology;

/// How the engine behaves. The defaults are what a cluster should run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which logs there are.
    pub routing: Routing,
    /// K: how many other regions must have an entry before anything comes of it. So many regions may be lost
    /// without losing anything that was answered; the others go on if more than K are left.
    pub copies_elsewhere: usize,
    pub replication: Replication,
    pub batching: Batching,
    pub heartbeats: Heartbeats,
    pub ranks: Ranks,
    /// A transaction that spans regions takes its place at a nearer one later, by this many per cent of how much
    /// earlier it is there than at its farthest region; at 0 it does so at once, as in the paper. See `delaying`.
    pub append_delay_percent: u64,
    pub admission: Admission,
    /// First time that a node asks again for what should have come: an outcome, reads, a copy; in ns. `None`: four
    /// times the widest round trip.
    pub retry_after_ns: Option<u64>,
    /// Silence of a sequence after which whatever needs it is refused, in ns; see `availability`. `None`: a second
    /// more than makes it suspected.
    pub lost_after_ns: Option<u64>,
    pub collection: Collection,
    /// What the node has to remember is recorded; `None`: it remembers nothing beyond its process.
    pub records: Option<Records>,
    #[cfg(any(test, feature = "mutants"))]
    pub mutant: Option<Mutant>,
}

/// How one sequence is replicated: what [`crate::log`] goes by.
#[derive(Clone, Debug)]
pub struct Replication {
    /// How the log of all regions agrees on an entry, where there is one.
    pub agreement: Agreement,
    /// Machines inside its region that keep a region's sequence, the leader's being one of them: 1, or 3, of which
    /// two have to have an entry before it counts or goes to anybody else.
    pub machines_inside: usize,
    /// Silence of a sequence's leader that makes others stand for it, in ns. `None`: several of the widest
    /// round trips.
    pub suspect_after_ns: Option<u64>,
    /// How far ahead of their clocks leaders have it granted what they tell readers, in ns. `None`: as long as
    /// they may be silent.
    pub lease_ns: Option<u64>,
    /// Entries of a sequence that are kept for replicas that are silent, at most, with K > 0: whoever is silent while
    /// more than these are to be sent to it is left behind, and comes back with a copy. With K = 0 it could not, and
    /// everything is kept.
    pub backlog_max: usize,
}

/// How often a node sends on one link of the ordering path; see `pacing`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batching {
    /// Least time between two messages, in ns. A ceiling, not a delay: what finds its link idle goes out at once.
    pub interval_ns: u64,
    /// The same at a node that has more to do than it gets done, in ns: it grows up to here.
    pub interval_max_ns: u64,
}

/// How often a sequencer tells how far its sequence is complete; see `wakes`.
#[derive(Clone, Debug)]
pub struct Heartbeats {
    pub every_ns: u64,
    /// The same where nothing has happened for a while, in ns: a reader of another region's sequence may then wait so
    /// much longer. `None`: no less often.
    pub idle_every_ns: Option<u64>,
}

/// Which ranks transactions get, and what readers learn of them before they are final; see `ordering` and `merger`.
#[derive(Clone, Debug)]
pub struct Ranks {
    /// Rule 1: transactions that span regions are stamped with the time when they should be complete.
    pub future: FutureRanks,
    /// Added to the expected completion, in ns.
    pub margin_ns: u64,
    /// Largest distance of a stamp into the future, in ns. `None`: twice the widest round trip.
    pub future_max_ns: Option<u64>,
    /// Rule 2: a closing reader excludes at once what is known to be ranked later.
    pub lower_bounds: bool,
}

/// How many transactions a gateway starts; see `gateway`.
#[derive(Clone, Debug)]
pub struct Admission {
    /// Transactions of one gateway that are being ordered or executed at most; more of them wait.
    pub outstanding_max: usize,
    /// A gateway starts nothing while its node knows this many transactions without a final place.
    pub unordered_max: usize,
    /// Transactions that wait at a gateway at most; more are refused.
    pub queue_max: usize,
}

/// What is collected when; see `collection` and `requests`.
#[derive(Clone, Debug)]
pub struct Collection {
    /// How often nodes report to the collector, in ns.
    pub every_ns: u64,
    /// A node that the collector has not heard of for longer holds up collection no more, in ns, if it only reads
    /// or may be lost.
    pub silence_ns: u64,
    /// How long the ends of named requests are kept, in ns of rank.
    pub keep_results_ns: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            routing: Routing::Direct,
            copies_elsewhere: 0,
            replication: Replication::default(),
            batching: Batching::default(),
            heartbeats: Heartbeats::default(),
            ranks: Ranks::default(),
            append_delay_percent: 100,
            admission: Admission::default(),
            retry_after_ns: None,
            lost_after_ns: None,
            collection: Collection::default(),
            records: None,
            #[cfg(any(test, feature = "mutants"))]
            mutant: None,
        }
    }
}

impl Default for Replication {
    fn default() -> Self {
        Replication {
            agreement: Agreement::StandingLeader,
            machines_inside: 1,
            suspect_after_ns: None,
            lease_ns: None,
            backlog_max: 1 << 20,
        }
    }
}

impl Default for Batching {
    fn default() -> Self {
        Batching { interval_ns: 2 * MS, interval_max_ns: 20 * MS }
    }
}

impl Batching {
    /// The same time between two messages, however much there is to do.
    pub const fn every(interval_ns: u64) -> Batching {
        Batching { interval_ns, interval_max_ns: interval_ns }
    }
}

impl Default for Heartbeats {
    fn default() -> Self {
        Heartbeats { every_ns: 2 * MS, idle_every_ns: None }
    }
}

impl Default for Ranks {
    fn default() -> Self {
        Ranks { future: FutureRanks::Measured, margin_ns: 2 * MS, future_max_ns: None, lower_bounds: true }
    }
}

impl Default for Admission {
    fn default() -> Self {
        Admission { outstanding_max: 2000, unordered_max: 4000, queue_max: 100_000 }
    }
}

impl Default for Collection {
    fn default() -> Self {
        Collection { every_ns: 50 * MS, silence_ns: 10 * SECOND, keep_results_ns: 600 * SECOND }
    }
}

impl Options {
    pub(super) fn future_max_ns(&self, topology: &Topology) -> u64 {
        self.ranks.future_max_ns.unwrap_or(2 * topology.wan.widest_ns() + 10 * MS)
    }
    pub(super) fn retry_after_ns(&self, topology: &Topology) -> u64 {
        self.retry_after_ns.unwrap_or(4 * topology.wan.widest_ns() + 20 * MS)
    }
    pub(super) fn suspect_after_ns(&self, topology: &Topology) -> u64 {
        self.replication.suspect_after_ns.unwrap_or(5 * topology.wan.widest_ns() + 300 * MS)
    }
    pub(super) fn lease_ns(&self, topology: &Topology) -> u64 {
        self.replication.lease_ns.unwrap_or_else(|| self.suspect_after_ns(topology))
    }
    /// How long silence of a node is taken for delay rather than loss, before anything is measured.
    pub(super) fn patience_ns(&self, topology: &Topology, me: NodeId, node: NodeId) -> u64 {
        3 * topology.one_way_ns(me, node) + self.patience_slack_ns()
    }
    fn patience_slack_ns(&self) -> u64 {
        2 * self.batching.interval_ns.max(self.heartbeats.every_ns)
    }
    /// The same, to be measured.
    pub(super) fn patience(&self, topology: &Topology, me: NodeId, node: NodeId) -> Patience {
        Patience::new(self.patience_ns(topology, me, node), self.patience_slack_ns())
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
    /// A write waits for the write before it only if that one is gone (Alg. 1 as printed).
    InvertedWriteWrite,
    /// A write does not depend on earlier reads.
    MissingAntiDependency,
    /// Members of a component go by local numbers that are used again.
    OrderByRecycledIds,
    /// A transaction gets its place although one of its entries has not arrived.
    PlaceIncomplete,
    /// Ranks forget those who got their place earlier.
    ForgetEmittedRanks,
    /// A transaction waits for its dependencies, but not for their components.
    ForgetComponents,
    /// A lower bound counts an edge as one more, which its component may take back.
    BoundAboveComponent,
    /// A reader does not wait for transactions in flight.
    CloseIgnoresUndecided,
    /// A reader takes whatever was merged here.
    PrefixReads,
    /// Stamps are clock readings alone, without ε, the closed timestamp or the session's rank.
    StampIsNow,
    /// The client is told before the rank lies in the past.
    NoReplyGate,
    /// A region waits for copies of its own sequence's entries only, and takes those of others as they come.
    OwnEntriesOnly,
    /// A region that has promised to follow nobody below a term goes on following.
    ForgetPromises,
    /// A region leads with its own promise alone.
    LeadAlone,
    /// A new leader goes on with its own log, not with the best among those that promised.
    KeepOwnLog,
    /// A leader tells its closed timestamp to readers whether or not others have granted it.
    NoLease,
    /// Nobody remembers what was done under a name.
    ForgetRequests,
    /// Nobody completes what a lost gateway began.
    NoOrphanRule,
    /// A gateway counts the moves of what has moved wrongly now and then. No offence: it is told, and tries again.
    WrongHomes,
    /// What is ordered where something was homed before takes effect.
    AcceptStaleHomes,
    /// A move is ordered at the new home alone.
    MoveUnheardOf,
    /// A reader closes a partition where it was homed when it asked.
    CloseAtOldHome,
    /// A region that has lost its memory acknowledges entries before a copy covers them.
    AckBeforeWhole,
    /// A region that has lost its memory votes before it knows what it had promised, and what it had.
    VoteBeforeWhole,
    /// Where clocks have no bound, an answer of a sequence's leader serves readers that come after its question left.
    CalibrateBeforeArrival,
    /// The copy of a sequence here is taken for all there is.
    CalibrateHere,
    /// A leader tells where its sequence ends without asking whether it leads.
    UnconfirmedEnd,
    /// A cut is chosen without waiting for the ranks of those in flight.
    RanksNotAwaited,
    /// SLOG: a region takes a piece as soon as it hears of its transaction, in whichever order that is.
    PiecesAsTheyCome,
    /// SLOG and Calvin: what the log of all regions will say is acted on before a majority has it.
    ActBeforeAgreement,
    /// Paxos for each entry: its second round begins with the first.
    SkipFirstRound,
    /// A transaction in flight to a lost region is said not to have been ordered.
    RefuseInFlight,
    /// A reader does without the sequences of lost regions.
    ReadWithoutLost,
    /// Whatever a peer says is believed.
    TrustStamps,
    /// An entry counts, and goes out, before a majority of its region's machines has it.
    CountBeforeKept,
    /// A transaction whose append was delayed is stamped as if it had been appended when it came.
    StampOnArrival,
    /// A transaction whose append was delayed is appended although it was heard of from another sequence meanwhile.
    AppendTwice,
    /// Entries are let go of once they are merged here, not once every replica has merged them.
    ReleaseWhenMerged,
    /// A new leader stamps without regard to what others have granted its predecessors.
    ForgetGrants,
    /// A region that comes back asks one other for the promises and logs that it has lost, whatever K is.
    StandWithOne,
    /// A region that comes back is bound by no promise of its former lives.
    StandUnbound,
    /// A region that comes back takes the first log that it is told of, not the best.
    StandWithFirst,
    /// What a former life of a region has acknowledged, granted and promised still counts.
    CountFormerLives,
    /// What a transaction says of the home of a table is not looked at, only what it says of the table's partition.
    ClaimsOfPartitionsOnly,
    /// A leader tells its closed timestamp whether or not a ceiling above it is on disk.
    NoCeiling,
    /// What a node promises is not recorded.
    UnrecordedTerms,
    /// An entry counts as being here before it is on disk.
    CountBeforeSync,
}

#[cfg(any(test, feature = "mutants"))]
impl Mutant {
    /// All of them.
    pub const ALL: &[Mutant] = &[
        Mutant::InvertedWriteWrite,
        Mutant::MissingAntiDependency,
        Mutant::OrderByRecycledIds,
        Mutant::PlaceIncomplete,
        Mutant::ForgetEmittedRanks,
        Mutant::ForgetComponents,
        Mutant::BoundAboveComponent,
        Mutant::CloseIgnoresUndecided,
        Mutant::PrefixReads,
        Mutant::StampIsNow,
        Mutant::NoReplyGate,
        Mutant::OwnEntriesOnly,
        Mutant::ForgetPromises,
        Mutant::LeadAlone,
        Mutant::KeepOwnLog,
        Mutant::NoLease,
        Mutant::ForgetRequests,
        Mutant::NoOrphanRule,
        Mutant::WrongHomes,
        Mutant::AcceptStaleHomes,
        Mutant::MoveUnheardOf,
        Mutant::CloseAtOldHome,
        Mutant::AckBeforeWhole,
        Mutant::VoteBeforeWhole,
        Mutant::CalibrateBeforeArrival,
        Mutant::CalibrateHere,
        Mutant::UnconfirmedEnd,
        Mutant::RanksNotAwaited,
        Mutant::PiecesAsTheyCome,
        Mutant::ActBeforeAgreement,
        Mutant::SkipFirstRound,
        Mutant::RefuseInFlight,
        Mutant::ReadWithoutLost,
        Mutant::TrustStamps,
        Mutant::CountBeforeKept,
        Mutant::StampOnArrival,
        Mutant::AppendTwice,
        Mutant::ReleaseWhenMerged,
        Mutant::ForgetGrants,
        Mutant::StandWithOne,
        Mutant::StandUnbound,
        Mutant::StandWithFirst,
        Mutant::CountFormerLives,
        Mutant::ClaimsOfPartitionsOnly,
        Mutant::NoCeiling,
        Mutant::UnrecordedTerms,
        Mutant::CountBeforeSync,
    ];
}

impl Mutant {
    /// The fault that it is of the replicated log, if it is one of that.
    #[cfg(any(test, feature = "mutants"))]
    pub(super) fn of_log(self) -> Option<Fault> {
        match self {
            Mutant::ForgetPromises => Some(Fault::ForgetPromises),
            Mutant::LeadAlone => Some(Fault::LeadAlone),
            Mutant::KeepOwnLog => Some(Fault::KeepOwnLog),
            Mutant::NoLease => Some(Fault::NoLease),
            Mutant::OwnEntriesOnly => Some(Fault::StableOnArrival),
            Mutant::CountBeforeKept => Some(Fault::CountBeforeKept),
            Mutant::UnconfirmedEnd => Some(Fault::UnconfirmedEnd),
            Mutant::ReleaseWhenMerged => Some(Fault::ReleaseWhenMerged),
            Mutant::ForgetGrants => Some(Fault::ForgetGrants),
            Mutant::StandUnbound => Some(Fault::StandUnbound),
            Mutant::StandWithFirst => Some(Fault::StandWithFirst),
            Mutant::NoCeiling => Some(Fault::NoCeiling),
            Mutant::UnrecordedTerms => Some(Fault::UnrecordedTerms),
            Mutant::CountBeforeSync => Some(Fault::CountBeforeSync),
            _ => None,
        }
    }
}
