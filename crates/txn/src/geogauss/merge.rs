//! The deterministic merge of one epoch: which of its transactions commit.
//!
//! IN: everything that asks to commit in the epoch, from every member, in any order; the state as of the epoch before
//! ([`Snapshot`]). OUT: a [`Decision`] for each; what commits is installed, in the order ≺ of [`Precedence`]. KEEPS:
//! 1. the decisions depend on the set of candidates and the snapshot alone, never on the order in which they arrived;
//! 2. at most one committed writer of an item in an epoch;
//! 3. what [`Rule::Reserved`] commits of candidates that read nothing, [`Rule::Greedy`] commits too;
//! 4. one change of the catalog commits in an epoch at most, and before everything else: what uses a table that it has
//!    changed does not commit with it.
//!
//! Changes of the catalog are decided first: all others are held against what the one that commits leaves, rows that it
//! has written included.
//!
//! Two passes over the others. The first looks at each candidate alone, against the snapshot: what fails is ignored
//! by the second. The second goes through the others in ≺ and lets a candidate commit if nobody ahead of it has its
//! items. Nobody's fate is decided before all of its items have been looked at, and a candidate that fails leaves
//! nothing behind: the published Algorithm 2 stops at the first row that is lost, so that the rows after it are
//! marked or not depending on what arrived first, and replicas diverge (see the tests).
//!
//! Paper §4.1.1–4.1.2, Algorithms 1 (lines 10–18, 24–30) and 2.

use super::message::Epoch;
use base::hash::PointMap;
pub use base::txn::Isolation;
use base::{NodeId, SqlError};
use std::cmp::Reverse;
use std::hash::Hash;

/// Who wins an item that several candidates write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rule {
    /// R2: who comes first in ≺ among those that commit. A candidate that fails elsewhere takes nothing from others.
    #[default]
    Greedy,
    /// R1, as the paper means it: who comes first in ≺ among all that passed the first pass, whether they commit or
    /// not. It does not depend on what else commits, so it could be applied while candidates arrive.
    Reserved,
}

/// A candidate's place in ≺: changes of the catalog, then who started latest (it is the shorter transaction, as all of
/// them commit in one epoch), then who asked first to commit, ties by node. No two candidates of an epoch have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Precedence {
    is_ordinary: bool,
    start: Reverse<Epoch>,
    /// The paper's csn: a reading of the member's clock, made to grow, and the member.
    csn: (u64, NodeId),
}

impl Precedence {
    pub fn new(changes_catalog: bool, start: Epoch, csn: (u64, NodeId)) -> Precedence {
        Precedence { is_ordinary: !changes_catalog, start: Reverse(start), csn }
    }
}

/// What a candidate would write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim<I> {
    /// These rows, unique entries, and names of requests.
    Items(Vec<I>),
    /// The catalog, ahead of all items.
    Catalog,
}

impl<I> Claim<I> {
    fn items(&self) -> &[I] {
        match self {
            Claim::Items(items) => items,
            Claim::Catalog => &[],
        }
    }
}

/// Somebody asks to commit in the epoch.
#[derive(Clone, Debug)]
pub struct Candidate<I> {
    pub precedence: Precedence,
    pub level: Isolation,
    pub claim: Claim<I>,
}

/// The state that candidates are held against, each by its number. It is as of the epoch before until somebody commits.
pub trait Snapshot {
    /// Whether the candidate may be considered at all: tables that it uses are described as they were at its snapshot.
    fn admit(&mut self, nth: usize) -> Result<(), Loss>;
    /// Rows that it updates or deletes are there, rows that it inserts are not; nor has a unique entry changed hands
    /// that it takes or gives up.
    fn fits(&mut self, nth: usize) -> bool;
    /// Nothing that it writes has changed since its snapshot.
    fn is_first_writer(&mut self, nth: usize) -> bool;
    /// Nothing that it read has changed since it was read, whoever has committed in this epoch so far included.
    fn reads_hold(&mut self, nth: usize) -> bool;
    /// It takes effect. Errors: it does not, for a reason of its own; nothing was written.
    fn commit(&mut self, nth: usize) -> Result<(), Loss>;
}

/// Why a candidate does not commit.
#[derive(Clone, Debug, PartialEq)]
pub enum Loss {
    /// Somebody else was ahead of it: executed again, it may commit.
    Conflict(Conflict),
    /// Another attempt of the same request has taken effect.
    Repeated,
    /// It fails by itself. Errors are rare and large, and every candidate has room for its decision.
    Failed(Box<SqlError>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Conflict {
    /// What it writes has changed in an earlier epoch, or together with the catalog.
    Overwritten,
    /// What it read has changed in an earlier epoch, or together with the catalog.
    StaleRead,
    /// Another writer of the same item is ahead of it in the epoch.
    Outrun,
    /// A writer of what it read is ahead of it in the epoch.
    ReadAhead,
    /// What it has read is older than what members keep to tell whether it has changed.
    TooOld,
    /// A table that it uses has another description since it was evaluated; or it would change the catalog, and another
    /// change of its epoch is ahead of it.
    Catalog,
}

impl Conflict {
    pub fn reason(self) -> &'static str {
        match self {
            Conflict::Overwritten => "a row that it writes has changed since its snapshot",
            Conflict::StaleRead => "what it read has changed since its snapshot",
            Conflict::Outrun => "another transaction of its epoch writes the same row and comes first",
            Conflict::ReadAhead => "a transaction of its epoch that comes first writes what it read",
            Conflict::TooOld => "its snapshot is older than what is kept",
            Conflict::Catalog => "what it uses of the catalog changed while it was on its way",
        }
    }
}

/// A candidate's end.
pub type Decision = Result<(), Loss>;

/// Decides an epoch and has what commits installed.
pub fn merge<I: Eq + Hash, S: Snapshot>(
    rule: Rule,
    candidates: &[Candidate<I>],
    snapshot: &mut S,
) -> Vec<Decision> {
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    order.sort_unstable_by_key(|nth| candidates[*nth].precedence);
    debug_assert!(
        order.windows(2).all(|pair| candidates[pair[0]].precedence < candidates[pair[1]].precedence),
        "(start, clock, node) names a transaction"
    );
    let mut decisions: Vec<Decision> = vec![Ok(()); candidates.len()];
    let changes = order.partition_point(|nth| matches!(candidates[*nth].claim, Claim::Catalog));
    let (changes, others) = order.split_at(changes);
    change_catalog(changes, snapshot, &mut decisions);
    let mut eligible = Vec::with_capacity(others.len());
    for &nth in others {
        decisions[nth] = snapshot.admit(nth).and_then(|()| check_alone(candidates[nth].level, nth, snapshot));
        if decisions[nth].is_ok() {
            eligible.push(nth);
        }
    }
    let mut taken = Taken::with_room_for(candidates);
    if rule == Rule::Reserved {
        eligible.iter().for_each(|nth| taken.take(&candidates[*nth].claim, *nth));
    }
    let mut has_committed = false;
    for nth in eligible {
        let Candidate { level, claim, .. } = &candidates[nth];
        decisions[nth] = match taken.is_free(claim, nth) {
            false => Err(Loss::Conflict(Conflict::Outrun)),
            true if *level == Isolation::Serializable && has_committed && !snapshot.reads_hold(nth) => {
                Err(Loss::Conflict(Conflict::ReadAhead))
            }
            true => snapshot.commit(nth),
        };
        if decisions[nth].is_ok() {
            has_committed = true;
            taken.take(claim, nth);
        }
    }
    decisions
}

/// The first change of the catalog that can takes effect.
fn change_catalog<S: Snapshot>(changes: &[usize], snapshot: &mut S, decisions: &mut [Decision]) {
    let mut has_committed = false;
    for &nth in changes {
        decisions[nth] = snapshot.admit(nth).and_then(|()| match has_committed {
            true => Err(Loss::Conflict(Conflict::Catalog)),
            false => snapshot.commit(nth),
        });
        has_committed |= decisions[nth].is_ok();
    }
}

/// The first pass.
fn check_alone<S: Snapshot>(level: Isolation, nth: usize, snapshot: &mut S) -> Decision {
    let is_right = match level {
        Isolation::ReadCommitted => snapshot.fits(nth),
        _ => snapshot.is_first_writer(nth),
    };
    if !is_right {
        return Err(Loss::Conflict(Conflict::Overwritten));
    }
    // At SNAPSHOT only what was read behind the snapshot comes along.
    match level != Isolation::ReadCommitted && !snapshot.reads_hold(nth) {
        true => Err(Loss::Conflict(Conflict::StaleRead)),
        false => Ok(()),
    }
}

/// Who has which item of the epoch.
struct Taken<'a, I> {
    items: PointMap<&'a I, usize>,
}

impl<'a, I: Eq + Hash> Taken<'a, I> {
    fn with_room_for(candidates: &[Candidate<I>]) -> Taken<'a, I> {
        let count = candidates.iter().map(|candidate| candidate.claim.items().len()).sum();
        Taken { items: PointMap::with_capacity(count) }
    }
    fn is_free(&self, claim: &Claim<I>, nth: usize) -> bool {
        let is_own = |owner: usize| owner == nth;
        claim.items().iter().all(|item| self.items.get(&item).copied().is_none_or(is_own))
    }
    /// What somebody has stays theirs.
    fn take(&mut self, claim: &'a Claim<I>, nth: usize) {
        claim.items().iter().for_each(|item| _ = self.items.entry(item).or_insert(nth));
    }
}

#[cfg(test)]
mod tests;
