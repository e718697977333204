//! The reply gate: answers wait here until their rank lies in the past for every clock.
//!
//! IN: how transactions ended. OUT: answers, and when the next one may go. KEEPS: an answer leaves once `rank ≤ now − ε`.
//! What is submitted strictly later, in true time, is stamped at `now + ε` or later everywhere, hence ranked above it;
//! what is submitted here in the same nanosecond is too, because ranks answered here are remembered. (Where clocks
//! have no bound nothing is gained by waiting, and answers go at once.)

use crate::engine::{Answer, EngineEffect};
use base::{Rank, Time, TxnId};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default)]
pub struct ReplyGate {
    answers: BTreeMap<(Rank, TxnId), Answer>,
    /// Largest rank that was answered.
    answered: Rank,
    /// Answers that have gone.
    count: u64,
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
    /// Answers that wait, and answers that have gone.
    pub fn counts(&self) -> (usize, u64) {
        (self.answers.len(), self.count)
    }
    /// Lets out the answers whose rank has passed into the past for every clock; answers when the next one may go.
    /// `clock_bound_ns`: none if answers need not wait.
    pub fn open<M>(
        &mut self,
        now: Time,
        clock_bound_ns: Option<u64>,
        out: &mut Vec<EngineEffect<M>>,
    ) -> Option<Time> {
        while let Some(entry) = self.answers.first_entry() {
            let rank = entry.key().0;
            let opens_at = clock_bound_ns.map(|bound_ns| rank.time() + bound_ns);
            if opens_at.is_some_and(|at| at > now) {
                return opens_at;
            }
            let mut answer = entry.remove();
            if let Some((_, gate)) = answer.phases.last_mut() {
                *gate = now.since(Time(*gate));
            }
            self.answered = self.answered.max(rank);
            self.count += 1;
            out.push(EngineEffect::Answer(answer));
        }
        None
    }
}
