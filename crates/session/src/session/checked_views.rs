//! WITH CHECK OPTION: rows written through a view have to be rows of it.
//!
//! The write returns, behind what its statement returns, whether each of its rows is one of the views' ([`sql::views`]). It is
//! buffered, so that nothing is left of it where one is not.

use super::Session;
use super::attempts::Attempts;
use super::plan::CheckedPlan;
use crate::response::{Response, RowStream, Rows};
use base::error::SqlResult;
use base::{Datum, SqlError};

impl Session {
    pub(super) async fn run_checked(
        &mut self,
        plan: &CheckedPlan,
        parameters: &[Datum],
    ) -> SqlResult<Response> {
        if self.transaction.is_some() {
            return self.checked_buffered(plan, parameters).await;
        }
        let mut attempts = Attempts::default();
        loop {
            self.begin_attempt(self.is_read_only(), &attempts).await;
            let result = self.checked_buffered(plan, parameters).await;
            if let Some(done) = self.settle(result, &mut attempts).await? {
                return Ok(done);
            }
        }
    }

    /// Errors: 44000, 23514 for a partition, and those of the write.
    async fn checked_buffered(&mut self, plan: &CheckedPlan, parameters: &[Datum]) -> SqlResult<Response> {
        let Response::Rows(mut written) = Box::pin(self.run(&plan.write, parameters)).await? else {
            return Err(SqlError::internal("a write that returns rows"));
        };
        let memory = self.gateway.rows_memory("rows that a view checks");
        let mut rows = written.stream.collect_within(&memory).await?;
        for row in &mut rows {
            let told = row.split_off(row.len().saturating_sub(plan.views.len()));
            let broken = told.iter().zip(&plan.views).find(|(is_of_it, _)| **is_of_it != Datum::Bool(true));
            if let Some((_, error)) = broken {
                return Err(error.clone());
            }
        }
        Ok(match &plan.columns {
            Some(columns) => {
                let (columns, stream) = (columns.clone(), RowStream::values(rows));
                Response::Rows(Rows { columns, stream, tag: written.tag })
            }
            None => Response::Command(written.complete(rows.len() as u64)),
        })
    }
}
