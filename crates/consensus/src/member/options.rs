//! How a member behaves, and what tests plant in one.

use base::time::MS;

/// How a member behaves; the same at all members of a group.
#[derive(Clone, Debug)]
pub struct Options {
    /// A leader speaks at least this often.
    pub heartbeat_ns: u64,
    /// A member that hears no leader campaigns after a time drawn from here.
    pub election_ns: (u64, u64),
    /// L: who answers an append promises no vote to others for this long after it was sent.
    pub lease_ns: u64,
    /// ε: every clock is within this of true time.
    pub clock_bound_ns: u64,
    /// Payload of one message, unless a single entry is larger.
    pub message_bytes_max: usize,
    /// Messages with entries on their way to one follower; more entries wait and go together.
    pub messages_ahead_max: u32,
    /// Entries before a checkpoint that stay in memory, for members that are a little behind.
    pub entries_kept: u64,
    /// A fault planted for a test.
    #[cfg(feature = "mutants")]
    pub mutant: Option<Mutant>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            heartbeat_ns: 20 * MS,
            election_ns: (150 * MS, 300 * MS),
            lease_ns: 100 * MS,
            clock_bound_ns: 0,
            message_bytes_max: 1 << 20,
            messages_ahead_max: 8,
            entries_kept: 10_000,
            #[cfg(feature = "mutants")]
            mutant: None,
        }
    }
}

/// Faults to plant.
#[cfg(feature = "mutants")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// Messages leave before what they speak of is stored.
    AnswersBeforeSync,
    /// The vote is not written down.
    ForgetsVote,
    /// Votes for logs that end earlier than one's own.
    VotesForShorterLogs,
    /// Half of the members are taken for a majority.
    HalfIsEnough,
    /// Entries of earlier terms are committed by counting copies.
    CommitsOldTerms,
    /// Different entries at the same index are left where they are.
    KeepsConflicts,
    /// Votes although it has promised not to.
    BreaksPromise,
    /// The lease ignores the clocks' error.
    TrustsClocks,
    /// Forgets in a restart that it has promised not to vote.
    ForgetsPromise,
    /// A follower takes the leader's commit index for entries it does not have from this leader.
    CommitsUnmatched,
    /// A journal that begins with a checkpoint does not say what was voted.
    ChecksOutVote,
}

#[cfg(feature = "mutants")]
impl Mutant {
    pub const ALL: [Mutant; 11] = [
        Mutant::AnswersBeforeSync,
        Mutant::ForgetsVote,
        Mutant::VotesForShorterLogs,
        Mutant::HalfIsEnough,
        Mutant::CommitsOldTerms,
        Mutant::KeepsConflicts,
        Mutant::BreaksPromise,
        Mutant::TrustsClocks,
        Mutant::ForgetsPromise,
        Mutant::CommitsUnmatched,
        Mutant::ChecksOutVote,
    ];
}
