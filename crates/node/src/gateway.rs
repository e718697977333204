//! Transactions that clients of this node have submitted, until they are answered.
//!
//! IN: submissions, their ends. OUT: replies. KEEPS: a transaction is answered once.

use crate::request::Submitted;
use base::cut::Incarnation;
use base::txn::Outcome;
use base::{RequestId, Time, Token, TxnId};
use std::collections::BTreeMap;
use txn::engine::Answer;

/// What is under way for local writers.
#[derive(Default)]
pub struct Gateway {
    submitted: BTreeMap<TxnId, (RequestId, Time)>,
    /// Executed, but not at every copy that has to have it before it is answered.
    held: BTreeMap<TxnId, Answer>,
    commits: u64,
    /// By SQLSTATE.
    aborts: BTreeMap<String, u64>,
}

impl Gateway {
    pub fn submitted(&mut self, txn: TxnId, request: RequestId, now: Time) {
        self.submitted.insert(txn, (request, now));
    }
    /// Its answer has to wait.
    pub fn hold(&mut self, answer: Answer) {
        self.held.insert(answer.txn, answer);
    }
    pub fn release(&mut self, txn: TxnId) -> Option<Answer> {
        self.held.remove(&txn)
    }

    /// What the client is told; `None`: it was told before.
    pub fn answered(&mut self, now: Time, answer: Answer, of: Incarnation) -> Option<(RequestId, Submitted)> {
        let (id, arrived) = self.submitted.remove(&answer.submitted_as)?;
        match &answer.outcome {
            Outcome::Committed { .. } => self.commits += 1,
            Outcome::Aborted(error) => {
                *self.aborts.entry(error.state.as_str().to_string()).or_default() += 1;
            }
        }
        let submitted = Submitted {
            txn: answer.txn,
            rank: answer.rank,
            outcome: answer.outcome,
            token: Token::at(answer.rank).of(of),
            phases: answer.phases,
            regions: answer.regions,
            latency_ns: now.since(arrived),
        };
        Some((id, submitted))
    }

    /// Nobody will tell them from here.
    pub fn take_all(&mut self) -> Vec<RequestId> {
        std::mem::take(&mut self.submitted).into_values().map(|(id, _)| id).collect()
    }

    pub fn under_way(&self) -> usize {
        self.submitted.len()
    }
    pub fn commits(&self) -> u64 {
        self.commits
    }
    pub fn aborts(&self) -> &BTreeMap<String, u64> {
        &self.aborts
    }
}
