//! Statements whose rows queries find: each is a transaction, validated at its end and executed again when it met
//! another one.

use super::Session;
use super::attempts::Attempts;
use super::locked_joins::LockedJoinPlan;
use super::merge::MergePlan;
use super::plan::{CallsPlan, RoutinePlan, WithPlan};
use super::rich::RichPlan;
use super::write::{Written, respond};
use crate::response::Response;
use base::Datum;
use base::error::SqlResult;
use sql::types::Column;
use std::sync::Arc;

/// A statement of this kind.
#[derive(Clone, Copy)]
pub(super) enum Whole<'p> {
    /// UPDATE … FROM, DELETE … USING and the like.
    Rich(&'p RichPlan),
    Merge(&'p MergePlan),
    With(&'p WithPlan),
    /// SELECT … FOR UPDATE of a join.
    LockedJoin(&'p LockedJoinPlan),
    /// Functions in PL/pgSQL, then what calls them.
    Calls(&'p CallsPlan),
    /// A call of a function that is more than one SELECT.
    Routine(&'p RoutinePlan),
}

impl<'p> Whole<'p> {
    /// What it is called where only reading is allowed; `None`: it only reads.
    fn word(self) -> Option<&'static str> {
        match self {
            Whole::Rich(plan) => Some(plan.word),
            Whole::Merge(_) => Some("MERGE"),
            Whole::With(plan) => plan.word,
            Whole::LockedJoin(plan) => Some(plan.word()),
            Whole::Calls(plan) => plan.word,
            Whole::Routine(plan) => plan.word,
        }
    }

    fn tag(self) -> &'static str {
        match self {
            Whole::Rich(plan) => plan.word,
            Whole::Merge(_) => "MERGE",
            Whole::With(plan) => plan.tag,
            Whole::LockedJoin(_) => "SELECT",
            Whole::Calls(plan) => plan.tag,
            Whole::Routine(plan) => plan.tag(),
        }
    }

    fn columns(self) -> Option<&'p Arc<Vec<Column>>> {
        match self {
            Whole::Rich(plan) => plan.returning().map(|returning| &returning.columns),
            Whole::Merge(_) => None,
            Whole::With(plan) => plan.columns.as_ref(),
            Whole::LockedJoin(plan) => Some(&plan.columns),
            Whole::Calls(plan) => plan.columns.as_ref(),
            Whole::Routine(plan) => plan.columns.as_ref(),
        }
    }
}

impl Session {
    pub(super) async fn run_whole(&mut self, plan: Whole<'_>, parameters: &[Datum]) -> SqlResult<Response> {
        if let Some(word) = plan.word() {
            self.refuse_if_read_only(word)?;
        }
        let written = if self.transaction.is_some() {
            self.whole_buffered(plan, parameters, 0).await?
        } else {
            let mut attempts = Attempts::default();
            let told = self.notices_so_far();
            loop {
                self.forget_notices(told);
                self.begin_attempt(self.is_read_only(), &attempts).await;
                let result = self.whole_buffered(plan, parameters, attempts.count).await;
                if let Some(done) = self.settle(result, &mut attempts).await? {
                    break done;
                }
            }
        };
        if plan.columns().is_none() && (plan.tag() == "CALL" || matches!(plan, Whole::Routine(_))) {
            return Ok(Response::Command(plan.tag().into()));
        }
        Ok(respond(plan.tag(), plan.columns(), written))
    }

    pub(super) async fn whole_buffered(
        &mut self,
        plan: Whole<'_>,
        parameters: &[Datum],
        attempts: usize,
    ) -> SqlResult<Written> {
        match plan {
            Whole::Rich(plan) => Box::pin(self.rich_buffered(plan, parameters, attempts)).await,
            Whole::Merge(plan) => Box::pin(self.merge_buffered(plan, parameters, attempts)).await,
            Whole::With(plan) => Box::pin(self.with_buffered(plan, parameters, attempts)).await,
            Whole::LockedJoin(plan) => Box::pin(self.locked_join_buffered(plan, parameters)).await,
            Whole::Calls(plan) => Box::pin(self.calls_buffered(plan, parameters, attempts)).await,
            Whole::Routine(plan) => Box::pin(self.routine_buffered(plan, parameters)).await,
        }
    }
}
