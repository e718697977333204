//! How a session hands transactions to its node.

use super::Session;
use base::error::{SqlResult, SqlState};
use base::txn::{AccessSet, Outcome, StatementResult, Submission, TxnProgram};
use node::request::{Reply, Request};
use std::sync::Arc;

impl Session {
    /// Hands a program to the node and waits for its outcome.
    pub(super) async fn submit(
        &mut self,
        program: TxnProgram,
        access: AccessSet,
    ) -> SqlResult<Vec<StatementResult>> {
        // What is ordered with values outlives this node, so what others know of them has to come first.
        self.gateway.tell_given(&self.given).await?;
        let mut submission = Submission {
            program: Arc::new(program),
            access: Arc::new(access),
            token: self.token.clone(),
            request: None,
            isolation: Default::default(),
        };
        self.name_submission(&mut submission);
        self.in_doubt = true;
        let reply = self.gateway.cluster.request(Request::Submit(submission)).await;
        self.in_doubt = reply.as_ref().is_err_and(|e| e.state != SqlState::DISK_FULL); // Refused unsent.
        let submitted = match reply? {
            Reply::Submitted(submitted) => submitted?,
            _ => return Err(super::wrong_reply()),
        };
        self.note_answer(&submitted);
        self.saw(&submitted.token);
        let outcome = submitted.outcome.clone();
        self.last = Some(submitted);
        match outcome {
            Outcome::Committed { results } => Ok(results),
            Outcome::Aborted(error) => Err(self.hint_at_name(error)),
        }
    }
}
