//! Named requests: transactions that a client may repeat, at this gateway or another, and that are done once.
//!
//! IN: `SET meridian.request`, the session's programs. OUT: the same programs with a [`ClientRequest`], which engines
//! recognise (`txn::caerus::requests`, `txn::perseus::requests`). KEEPS: every attempt under a name takes part at the
//! name's own partition, so that two of them meet whatever else they touch; the n-th program that a transaction hands
//! to the node under a name has the number n, so a repetition finds the ends of the same programs in the same order;
//! a name is used up once its transaction has ended, and kept while that is not known.

use super::Session;
use base::error::{SqlResult, SqlState};
use base::time::SECOND;
use base::txn::{AccessSet, ClientRequest, Outcome, Submission, TxnProgram, is_given_up};
use base::{Datum, Key, PartitionId, SqlError, TableId, Time};
use node::request::{Reply, Request, Submitted};
use std::sync::Arc;

pub(super) const REQUEST: &str = "meridian.request";
/// `SHOW meridian.request_outcome`: settles how the session's named request ended.
pub(super) const OUTCOME: &str = "meridian.request_outcome";

/// What names are written to at their partitions; no table has this number.
const NAMES: TableId = TableId(u32::MAX);

/// For a client that has no answer to its named transaction.
pub(super) const REPEAT: &str = "Repeat it under the same name, here or in another region: SET meridian.request. \
                                 SHOW meridian.request_outcome tells whether it took effect.";

/// A statement is executed so often under one name at most, with some to spare.
const ATTEMPTS_MAX: u64 = 1_000;

/// The name of the session's next transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NamedRequest {
    partition: PartitionId,
    issued_at: Time,
    client: u64,
    /// Programs that were handed to the node under it.
    attempts: u64,
    /// The last of them has ended; and with an effect.
    has_ended: bool,
    is_done: bool,
}

impl NamedRequest {
    fn new(partition: PartitionId, issued_at: Time, client: u64) -> NamedRequest {
        NamedRequest { partition, issued_at, client, attempts: 0, has_ended: false, is_done: false }
    }

    /// As SHOW prints it, and SET takes it.
    pub fn text(&self) -> String {
        format!("{}-{:x}-{:016x}", self.partition.0, self.issued_at.0, self.client)
    }
    fn parse(text: &str) -> Option<NamedRequest> {
        let mut parts = text.split('-');
        let partition = PartitionId(parts.next()?.parse().ok()?);
        let issued_at = Time(u64::from_str_radix(parts.next()?, 16).ok()?);
        let client = u64::from_str_radix(parts.next().filter(|part| part.len() == 16)?, 16).ok()?;
        parts.next().is_none().then(|| NamedRequest::new(partition, issued_at, client))
    }

    fn number(&self, number: u64) -> ClientRequest {
        ClientRequest { client: self.client, number, issued_at: self.issued_at }
    }
    fn access(&self) -> (PartitionId, Key) {
        (self.partition, Key::of(&[Datum::Int(self.client as i64), Datum::Int(self.issued_at.0 as i64)]))
    }

    /// Names a submission.
    fn name(&self, number: u64, submission: &mut Submission) {
        let (partition, key) = self.access();
        let access = Arc::make_mut(&mut submission.access);
        access.write_key(partition, NAMES, key);
        access.normalize();
        submission.request = Some(self.number(number));
        // Its result is kept by its rank, and repetitions are refused by the time of the name.
        submission.token.rank = submission.token.rank.max(self.issued_at.rank());
    }
}

/// Whether a transaction that was answered so has ended, under its name too.
fn is_end(outcome: &Outcome) -> bool {
    let refused = [
        SqlState::TRANSACTION_RESOLUTION_UNKNOWN,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::CONFIGURATION_LIMIT_EXCEEDED,
    ];
    !matches!(outcome, Outcome::Aborted(error) if refused.contains(&error.state))
}

impl Session {
    /// `SET meridian.request`. Errors: 22023.
    pub(super) fn set_request(&mut self, value: &str) -> SqlResult<()> {
        let invalid = |detail: &str| {
            SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("invalid value for parameter \"{REQUEST}\": \"{value}\""),
            )
            .detail(detail)
        };
        let topology = self.cluster().topology();
        self.request = match value {
            "" => None,
            "new" => {
                let here = topology.partitions_in(self.cluster().region()).next();
                let partition = here.unwrap_or(PartitionId(0));
                let client = u64::from_le_bytes(
                    self.gateway.node.generators.random_uuid()[8..].try_into().expect("8 bytes"),
                );
                Some(NamedRequest::new(partition, self.cluster().now(), client))
            }
            text => {
                let named = NamedRequest::parse(text).ok_or_else(|| {
                    invalid("It is a name that SHOW meridian.request has returned, or 'new' for a new one.")
                })?;
                if usize::from(named.partition.0) >= topology.partitions.len() {
                    return Err(invalid("It names a partition that does not exist."));
                }
                if named.issued_at.rank() > topology.latest_rank(self.cluster().now(), SECOND) {
                    return Err(invalid("It lies in the future."));
                }
                Some(named)
            }
        };
        Ok(())
    }

    /// The name of the next transaction as SHOW prints it.
    pub(super) fn shown_request(&self) -> String {
        self.request.as_ref().map_or_else(String::new, NamedRequest::text)
    }

    /// Whether the transaction that ends now has a name.
    pub(super) fn is_named(&self) -> bool {
        self.request.as_ref().is_some_and(|named| !named.is_done)
    }

    /// Gives a submission the session's name, if it has one.
    pub(super) fn name_submission(&mut self, submission: &mut Submission) {
        let Some(named) = self.request.as_mut().filter(|named| !named.is_done) else { return };
        named.name(named.attempts, submission);
        (named.attempts, named.has_ended) = (named.attempts + 1, false);
    }

    /// The node has answered a submission.
    pub(super) fn note_answer(&mut self, submitted: &Submitted) {
        let Some(named) = self.request.as_mut().filter(|named| named.attempts > 0) else { return };
        named.has_ended = is_end(&submitted.outcome);
        named.is_done |= submitted.outcome.is_committed();
    }

    /// What a client may do that does not know how its transaction has ended.
    pub(super) fn hint_at_name(&self, error: SqlError) -> SqlError {
        match error.state == SqlState::TRANSACTION_RESOLUTION_UNKNOWN && self.is_named() {
            true => error.hint(REPEAT),
            false => error,
        }
    }

    /// A statement is over: a name whose transaction has ended is used up, any other may be used again.
    pub(super) fn settle_request(&mut self) {
        let is_open = self.transaction.is_some();
        match &mut self.request {
            Some(named) if !is_open && (named.has_ended || named.is_done) => self.request = None,
            Some(named) => named.attempts = 0,
            None => {}
        }
    }

    /// Whether the transaction of the session's name has taken effect. What has not by now never will: the name is
    /// given up.
    pub(super) async fn request_outcome(&mut self) -> SqlResult<&'static str> {
        let Some(named) = self.request.clone() else {
            return Err(SqlError::new(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("{OUTCOME}: the session has no named request"),
            )
            .hint(format!("SET {REQUEST} = '…' to the name of the request first.")));
        };
        if self.transaction.is_some() {
            return Err(SqlError::new(
                SqlState::ACTIVE_SQL_TRANSACTION,
                format!("SHOW {OUTCOME} cannot run inside a transaction block"),
            ));
        }
        for number in 0..ATTEMPTS_MAX {
            let mut submission = Submission {
                program: Arc::new(TxnProgram::GiveUp),
                access: Arc::new(AccessSet::default()),
                token: self.token.clone(),
                request: None,
                isolation: Default::default(),
            };
            named.name(number, &mut submission);
            let submitted = match self.cluster().request(Request::Submit(submission)).await? {
                Reply::Submitted(submitted) => submitted?,
                _ => return Err(super::wrong_reply()),
            };
            self.saw(&submitted.token);
            match &submitted.outcome {
                Outcome::Committed { .. } => return Ok("committed"),
                Outcome::Aborted(error) if is_given_up(error) => return Ok("not executed"),
                outcome if !is_end(outcome) => {
                    let Outcome::Aborted(error) = outcome else { unreachable!("it has not ended") };
                    return Err(error.clone());
                }
                // It met another transaction: its gateway may have executed it again.
                Outcome::Aborted(_) => {}
            }
        }
        Err(SqlError::internal("a named request was executed too often"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_shown() {
        let named = NamedRequest::new(PartitionId(3), Time(1_790_000_000_123_456_789), 7);
        assert_eq!(NamedRequest::parse(&named.text()), Some(named));
        for text in ["", "3", "3-1", "3-1-7", "x-1-0000000000000007", "3-1-0000000000000007-1"] {
            assert_eq!(NamedRequest::parse(text), None, "{text}");
        }
    }
}
