//! A pipeline: statements of the extended protocol up to one Sync are one transaction, unless they say
//! otherwise.
//!
//! KEEPS: nothing of a pipeline takes effect before its Sync, and nothing at all after an error in it; a
//! statement alone before its Sync is no pipeline, and runs as it would without this module.

use super::{Prepared, Session, utility};
use crate::response::Response;
use base::error::SqlResult;
use sqlparser::ast::Statement;

impl Session {
    /// Whether a statement would begin a pipeline's transaction if more statements followed it.
    pub fn begins_pipeline(&self, prepared: &Prepared) -> bool {
        self.transaction.is_none() && prepared.statement.as_ref().is_some_and(utility::joins_block)
    }

    /// Opens the transaction of a pipeline. A BEGIN in it makes it a block, as in a text of several statements.
    pub fn begin_pipeline(&mut self) {
        if self.transaction.is_none() {
            self.begin(self.settings.read_only, true);
        }
    }

    /// The pipeline's Sync: what it has done takes effect. A block stays open. Errors: as of COMMIT.
    pub async fn sync(&mut self) -> SqlResult<()> {
        if !self.transaction.as_ref().is_some_and(|t| t.is_implicit) {
            self.settle_settings(true);
            return Ok(());
        }
        let cancel = self.cancel.clone();
        cancel.begin(self.settings.statement_timeout_ms);
        let result = tokio::select! {
            biased;
            result = self.end_implicit() => result.map(|()| Response::Empty),
            error = cancel.wait() => Err(error),
        };
        let result = self.finish(result).map(|_| ());
        self.settle_settings(result.is_ok());
        result
    }
}

impl Prepared {
    /// Whether it is a COPY.
    pub fn is_copy(&self) -> bool {
        matches!(self.statement, Some(Statement::Copy { .. }))
    }
}
