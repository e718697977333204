//! What a reader may see, what a session has seen, and how fresh an answer was.

use crate::{LogPosition, PartitionId, Rank, SqlError, SqlState, Time};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What a snapshot holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cut {
    /// Every transaction with rank ≤ this one: an initial segment of the one serial order.
    Rank(Rank),
    /// An initial segment and some transactions above it. Two such cuts need not be comparable.
    Set(ClosedSet),
    /// Every transaction of epochs up to this one.
    Epoch(u64),
}

/// A set of transactions that is closed under dependencies: with a transaction, all that it depends on is in,
/// and it is in at every partition read where it takes part. So of the versions of a key, which dependencies
/// put into one order, those in the set are the first few, and one of them is the newest.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ClosedSet {
    /// Everything ranked at or below it is in.
    pub base: Rank,
    /// Where the logs of the partitions read have the members that are ranked above `base`; an entry for each
    /// of these partitions.
    pub above: BTreeMap<PartitionId, BTreeSet<LogPosition>>,
}

/// One life of a cluster's logs: the instant (ns since 1970) at which they began. A restart from a directory goes on
/// with it; whatever begins with empty logs is another. 0: not named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Incarnation(pub u64);

impl Incarnation {
    pub fn is_named(self) -> bool {
        self.0 != 0
    }
}

/// What a session has seen or written; its next reads and writes must come after it. Joins by maximum.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Token {
    /// Of the logs that the rest speaks of. Ranks and positions of other logs mean nothing.
    pub incarnation: Incarnation,
    pub rank: Rank,
    /// How far the logs were, at least, that level `regular` read.
    pub positions: BTreeMap<PartitionId, LogPosition>,
}

impl Token {
    pub fn at(rank: Rank) -> Token {
        Token { rank, ..Token::default() }
    }
    /// The same, said of these logs.
    pub fn of(self, incarnation: Incarnation) -> Token {
        Token { incarnation, ..self }
    }
    /// Whether it asks for anything.
    pub fn is_empty(&self) -> bool {
        self.rank == Rank::ZERO && self.positions.is_empty()
    }
    /// 22023 unless it speaks of these logs.
    pub fn check(&self, incarnation: Incarnation) -> Result<(), SqlError> {
        if self.incarnation == incarnation || self.is_empty() {
            return Ok(());
        }
        let of = |incarnation: Incarnation| match incarnation.is_named() {
            true => format!("logs that began at {} ns", incarnation.0),
            false => "logs that it does not name".into(),
        };
        Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            "the token was given by another cluster, or by an earlier incarnation of this one",
        )
        .detail(format!(
            "It speaks of {}; the logs here began at {} ns.",
            of(self.incarnation),
            incarnation.0
        ))
        .hint("What it stands for is not in this database. Take a new one with SHOW meridian.token."))
    }
    /// Both of the same logs: checked where tokens come from outside.
    pub fn join(&mut self, other: &Token) {
        if !self.incarnation.is_named() {
            self.incarnation = other.incarnation;
        }
        self.rank = self.rank.max(other.rank);
        for (&partition, &position) in &other.positions {
            let known = self.positions.entry(partition).or_default();
            *known = position.max(*known);
        }
    }
}

/// How reads choose their cut. Levels change what is read, never how writers commit: what a transaction reads that may
/// write is validated, so its gateway asks for a strong level.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub enum Consistency {
    /// Regular sequential serializability: one serial order, every answered transaction included.
    #[default]
    Rss,
    /// Per query: a cut closed under dependencies that includes every conflicting answered
    /// transaction. Two queries may see non-conflicting writers in different orders.
    Regular,
    /// What this session has seen, else what is closed here already. Other regions are waited for only where the
    /// session has seen more than that.
    Session,
    /// Whatever is closed here already, even if the session has seen more.
    Stale,
}

impl Consistency {
    pub const ALL: [Consistency; 4] =
        [Consistency::Rss, Consistency::Regular, Consistency::Session, Consistency::Stale];

    pub fn name(self) -> &'static str {
        match self {
            Consistency::Rss => "rss",
            Consistency::Regular => "regular",
            Consistency::Session => "session",
            Consistency::Stale => "stale",
        }
    }
    pub fn parse(name: &str) -> Option<Consistency> {
        Consistency::ALL.into_iter().find(|c| c.name().eq_ignore_ascii_case(name))
    }
}

/// Which rule chose a query's cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum CutChoice {
    /// It was given, such as a transaction block's.
    #[default]
    Given,
    /// The clock and its bound say which rank is late enough.
    Clock,
    /// Those who order what is read were asked, after the query came, where their sequences end.
    Calibrated,
    /// Partitions were asked how far they have executed; the cut is a closed set of transactions.
    ClosedSet,
    /// Whatever is complete at the node, or the session has seen.
    Local,
    /// What the partition has published as closed was looked up, after the read came.
    Published,
}

/// Where a query's delay came from (after PERSEUS §II-D). Their sum is the visibility delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Freshness {
    /// max(0, the query's arrival − the instant up to which its cut is complete).
    pub staleness_ns: u64,
    /// Choosing the cut: messages to those who order.
    pub coordination_ns: u64,
    /// Waiting until everything in the cut is decided and applied here.
    pub wait_ns: u64,
    /// The paper's variant of staleness: execution start − commit of the newest transaction in the
    /// snapshot; only meaningful under load.
    pub newest_age_ns: u64,
    /// How old the snapshot was when it was handed out: that instant − the instant up to which its cut is
    /// complete. Below the whole delay if the cut could be moved up while the query waited.
    pub age_ns: u64,
    /// How the cut was chosen.
    pub choice: CutChoice,
    /// The partition whose part of the cut was complete last, the time from the query's arrival until it said so, and
    /// how long of that it had waited itself.
    pub last: Option<(PartitionId, u64, u64)>,
    /// Readers that took part beside the coordinator: 0 unless columns of other nodes were needed.
    pub other_readers: u16,
    /// When the query arrived, by the clock of the node that ran it.
    pub arrived_at: Time,
}

impl Freshness {
    pub fn visibility_delay_ns(&self) -> u64 {
        self.staleness_ns + self.coordination_ns + self.wait_ns
    }
}
