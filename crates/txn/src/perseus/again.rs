//! Another attempt of a submission, after one that ended without effect.
//!
//! IN: what it takes to submit once more. OUT: another attempt, under another id, after a pause; in the end the answer that
//! there will be none. KEEPS: a client is told that nothing was changed only if nobody else can have an attempt of its
//! request under way.
//!
//! Gateways that were sent the same named request may meet each other's claims, each at another participant, and go on so
//! in step, attempt after attempt. So each pauses for a time of its own, drawn from the attempt's id out of a span that
//! doubles: soon one has a round trip for itself, which is enough to claim the request everywhere. A transaction without a
//! name pauses as well: the participant that ended its attempt may still be taking it over.

use super::coordination::Again;
use super::message::{Deadline, Payload};
use super::state::Perseus;
use super::work::Out;
use base::hash::digest;
use base::txn::Outcome;
use base::{SqlError, SqlState, Time, TxnId};
use std::collections::BTreeSet;

/// Attempts without effect after which a client is told to try again itself.
const ATTEMPTS_MAX: u32 = 16;
/// The span of pauses doubles so often, from the time after which a message is sent again.
const DOUBLED_MAX: u32 = 4;

impl Perseus {
    /// Once more, after an attempt that ended without effect.
    pub(super) fn submit_again(&mut self, now: Time, again: Again) {
        let Again { payload, mut origin } = again;
        let last = payload.transaction.id;
        origin.attempts += 1;
        self.gateway.begun(last, origin);
        if origin.attempts > ATTEMPTS_MAX {
            return self.submit_no_more(now, &payload);
        }
        let doubled = (origin.attempts - 1).min(DOUBLED_MAX);
        let span_ns = self.cluster.options.retry_after_ns(&self.cluster.topology) << doubled;
        self.gateway.pause(payload);
        self.remember(now + digest(&last) % (span_ns + 1), Deadline::Again(last), 0);
    }

    /// The pause after this attempt is over. Nothing is left to be asked for again.
    pub(super) fn go_on_after(&mut self, now: Time, last: TxnId, out: &mut Out) -> bool {
        let Some((mut payload, origin)) = self.gateway.resume_after(last) else { return false };
        base::sometimes!("a transaction that ended without effect is submitted again");
        let id = self.gateway.name(self.cluster.me);
        self.gateway.begun(id, origin);
        payload.transaction.id = id;
        payload.transaction.min_rank = payload.transaction.min_rank.max(self.gateway.answered());
        self.begin(now, payload, out);
        false
    }

    fn submit_no_more(&mut self, now: Time, payload: &Payload) {
        let last = payload.transaction.id;
        let error = if payload.request.is_some() {
            base::sometimes!("a named request is left to whoever else may have been sent it");
            let message = "the outcome of the transaction is not known";
            SqlError::new(SqlState::TRANSACTION_RESOLUTION_UNKNOWN, message)
                .detail(format!(
                    "This gateway gave up after {ATTEMPTS_MAX} attempts; an attempt at another gateway may still take \
                     effect."
                ))
                .hint("Repeat the request under the same name: it is done once.")
        } else {
            let message = "the transaction could not reach all its participants";
            SqlError::new(SqlState::SERIALIZATION_FAILURE, message)
                .detail(format!(
                    "{ATTEMPTS_MAX} attempts were taken over by others and ended without effect."
                ))
                .hint("Try again; nothing was changed.")
        };
        self.answer_for(now, last, last, now.rank(), Outcome::Aborted(error), BTreeSet::new());
    }
}
