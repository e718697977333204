//! What no correct peer says is refused before anything of it is used: ranks too far ahead, partitions that do not exist.
//!
//! IN: every message of another node. OUT: whether it is handled; refusals are counted by sender and reason
//! ([`EngineReport`](crate::engine::EngineReport)). KEEPS: a message of a node whose clock is within its bound is never
//! refused; a refused one changes nothing, so it is as if the network had lost it.
//!
//! How far ahead a rank may be. Let ε bound every clock and δ be how far the rank of a transaction that spans regions may lie
//! in the future. A gateway takes tokens, and a participant closes cuts, up to its own clock + 3 ε + δ
//! ([`Cluster::latest_cut`](super::cluster::Cluster::latest_cut)), so up to true time + 4 ε + δ. A participant proposes at
//! most its clock + ε + δ, or one above such a token or cut, or above what a conflicting transaction was proposed. The
//! receiver's clock is at least true time − ε. So whatever exceeds its clock + 5 ε + δ is the word of a clock that is out of
//! its bound. Its transaction is not pre-accepted here, nor is it committed, so nobody who writes its rows later inherits
//! its rank. Once real time has come near it the message passes, since its sender asks again.

use super::message::{Dependency, Fragment, Known, Message, Report};
use super::state::Perseus;
use crate::graph::participants::Participants;
use base::time::MS;
use base::{PartitionId, Rank, Time};

pub(super) type Checked = Result<(), &'static str>;

/// One above a cut, and one more for each transaction that a rank was inherited through.
const INHERITED_NS: u64 = MS;

impl Perseus {
    /// Why a message of another node is not handled, if it is not.
    pub(super) fn check(&self, now: Time, message: &Message) -> Checked {
        let latest = self.cluster.latest_cut(now) + 2 * self.cluster.clock_bound_ns() + INHERITED_NS;
        let rank = |rank: Rank| match rank <= latest {
            true => Ok(()),
            false => Err("a rank too far ahead of this clock"),
        };
        match message {
            Message::PreAccept { payload, expected, .. } => {
                let transaction = &payload.transaction;
                self.check_partitions(transaction.participants())?;
                if transaction.participants().all(|partition| self.local_index(partition).is_none()) {
                    return Err("a transaction that has no part here");
                }
                rank(transaction.min_rank.max(transaction.after).max(*expected))
            }
            Message::PreAcceptOk { dependencies, pts, fragments, .. } => {
                self.check_dependencies(dependencies)?;
                fragments.iter().try_for_each(|fragment| self.check_fragment(fragment, &rank))?;
                rank(*pts)
            }
            Message::Commit { decision, fragments, .. } => {
                self.check_dependencies(&decision.dependencies)?;
                fragments.iter().try_for_each(|fragment| self.check_fragment(fragment, &rank))?;
                rank(decision.cts)
            }
            Message::Recover { participants, .. } => self.check_participants(participants),
            Message::RecoverOk { report, .. } => self.check_report(report, &rank),
            Message::Accept { participants, decision, .. } => {
                self.check_participants(participants)?;
                self.check_dependencies(&decision.dependencies)?;
                rank(decision.cts)
            }
            Message::Inquire { vertices, watermark } => {
                self.check_dependencies(vertices)?;
                rank(*watermark)
            }
            Message::InquireReply { known, watermark } => {
                let mut fragments = known.iter().filter_map(|known| match known {
                    Known::Final(fragment) => Some(fragment),
                    Known::Below(_) => None,
                });
                fragments.try_for_each(|fragment| self.check_fragment(fragment, &rank))?;
                rank(*watermark)
            }
            Message::Duplicate { first, .. } => first.iter().try_for_each(|d| self.check_dependency(d)),
            Message::Executed { rank: at, .. } | Message::Timestamp { rank: at, .. } => rank(*at),
            Message::TimestampWanted { at_least, .. } => rank(*at_least),
            Message::Progress { done, .. } | Message::Gathered { done, .. } => rank(*done),
            Message::Watermark { rank: below, .. } => rank(*below),
            Message::RemoteRead { gathered, .. } => {
                self.check_partitions(gathered.iter().map(|(partition, _)| *partition))
            }
            Message::AcceptOk { .. }
            | Message::Refused { .. }
            | Message::Attend { .. }
            | Message::Gone { .. }
            | Message::RemoteReadWanted { .. } => Ok(()),
        }
    }

    fn check_report(&self, report: &Report, rank: &impl Fn(Rank) -> Checked) -> Checked {
        match report {
            Report::Unknown { pts, .. } => rank(*pts),
            Report::PreAccepted { dependencies, pts, payload } => {
                self.check_dependencies(dependencies)?;
                let transactions = payload.iter().map(|payload| &payload.transaction);
                transactions.clone().try_for_each(|t| self.check_partitions(t.participants()))?;
                rank(transactions.fold(*pts, |latest, t| latest.max(t.min_rank).max(t.after)))
            }
            Report::Accepted { decision, .. } | Report::Final(decision) => {
                self.check_dependencies(&decision.dependencies)?;
                rank(decision.cts)
            }
        }
    }
    fn check_fragment(&self, fragment: &Fragment, rank: &impl Fn(Rank) -> Checked) -> Checked {
        self.check_participants(&fragment.participants)?;
        self.check_dependencies(&fragment.dependencies)?;
        let Fragment { cts, inherited, lost, dominates, after, .. } = fragment;
        let all = [*cts, *inherited, *lost, *dominates, *after, fragment.rank.unwrap_or_default()];
        all.into_iter().try_for_each(rank)
    }
    fn check_dependencies(&self, dependencies: &[Dependency]) -> Checked {
        dependencies.iter().try_for_each(|dependency| self.check_dependency(dependency))
    }
    fn check_dependency(&self, dependency: &Dependency) -> Checked {
        self.check_participants(&dependency.participants)
    }
    fn check_participants(&self, participants: &Participants) -> Checked {
        if !participants.iter().is_sorted() {
            return Err("participants out of order");
        }
        self.check_partitions(participants.iter())
    }
    fn check_partitions(&self, mut partitions: impl Iterator<Item = PartitionId>) -> Checked {
        partitions.try_for_each(|partition| self.check_partition(partition))
    }
    fn check_partition(&self, partition: PartitionId) -> Checked {
        match (partition.0 as usize) < self.cluster.topology.partitions.len() {
            true => Ok(()),
            false => Err("a partition that does not exist"),
        }
    }
}
