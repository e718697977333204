//! The reply gate: answers wait here until their rank lies in the past for every clock.
//!
//! IN: how transactions ended. OUT: answers, and when the next one may go. KEEPS: an answer leaves once `rank ≤ now − ε`.
//! What is submitted strictly later, in true time, is stamped at `now + ε` or later everywhere, hence ranked above it;
//! what is submitted here in the same nanosecond is too, because ranks answered here are remembered. (Where clocks
//! have no bound nothing is gained by waiting, and answers go at once.)

use super::cluster::Cluster;
use super::options::Mutant;
use super::state::Out;
use crate::engine::{Answer, EngineEffect};
use base::{Rank, Time, TxnId};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default)]
pub(super) struct ReplyGate {
    answers: BTreeMap<(Rank, TxnId), Answer>,
    /// Largest rank that was answered.
    answered: Rank,
}

impl ReplyGate {
    /// What is submitted here from now on is ranked above this.
    pub fn answered(&self) -> Rank {
        self.answered
    }
    pub fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }
    /// The least transaction whose answer waits.
    pub fn first(&self) -> Option<TxnId> {
        self.answers.keys().map(|(_, txn)| *txn).min()
    }
    /// An answer waits; the last of its phases is the gate's, and holds when it came.
    pub fn put(&mut self, answer: Answer) {
        self.answers.insert((answer.rank, answer.submitted_as), answer);
    }
    /// Lets out the answers whose rank has passed into the past for every clock; answers when the next one may go.
    pub fn open(&mut self, now: Time, cluster: &Cluster, out: &mut Out) -> Option<Time> {
        let (clock_bound_ns, is_gated) = (cluster.clock_bound_ns(), !cluster.is_unbounded());
        while let Some(entry) = self.answers.first_entry() {
            let rank = entry.key().0;
            let opens_at = rank.time() + clock_bound_ns;
            if opens_at > now && is_gated && !cluster.options.planted(Mutant::NoReplyGate) {
                return Some(opens_at);
            }
            let mut answer = entry.remove();
            if let Some((_, gate)) = answer.phases.last_mut() {
                *gate = now.since(Time(*gate));
            }
            self.answered = self.answered.max(rank);
            out.push(EngineEffect::Answer(answer));
        }
        None
    }
}
