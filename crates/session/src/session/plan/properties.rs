//! What is known of a plan before it runs: whether it writes, what it is called, which columns it returns.

use super::Plan;
use crate::session::shapes;
use sql::types::Column;
use std::sync::Arc;

impl Plan {
    /// The verb of a plan that writes.
    pub(in crate::session) fn verb(&self) -> Option<&'static str> {
        match self {
            Plan::Insert(..) => Some("INSERT"),
            Plan::Modify(plan) if plan.set.is_some() => Some("UPDATE"),
            Plan::Modify(_) => Some("DELETE"),
            Plan::Rich(plan) => Some(plan.word),
            Plan::Merge(_) => Some("MERGE"),
            Plan::With(plan) => plan.word,
            Plan::Checked(plan) => plan.write.verb(),
            Plan::Routine(plan) => plan.word,
            Plan::Calls(plan) => plan.word,
            _ => None,
        }
    }

    /// Columns of the rows it returns.
    pub fn columns(&self) -> Option<Arc<Vec<Column>>> {
        match self {
            Plan::Insert(plan, _) => plan.returning.as_ref().map(|r| r.columns.clone()),
            Plan::Modify(plan) => plan.returning.as_ref().map(|r| r.columns.clone()),
            Plan::Constant(projection) => Some(projection.columns.clone()),
            Plan::SetConfig(plan) => Some(plan.columns.clone()),
            Plan::SetValue(plan) => Some(plan.columns.clone()),
            Plan::OwnFunctions(plan) => Some(plan.columns.clone()),
            Plan::WaitFor(plan) => Some(plan.columns.clone()),
            Plan::Rows(plan) => Some(plan.output.projection.columns.clone()),
            Plan::Join(plan) => Some(plan.output.projection.columns.clone()),
            Plan::Query(plan) => Some(plan.columns.clone()),
            Plan::Call(plan) => (!plan.columns.is_empty()).then(|| plan.columns.clone()),
            Plan::Utility(statement) => shapes::columns(statement),
            Plan::Rich(plan) => plan.returning().map(|r| r.columns.clone()),
            Plan::Merge(_) => None,
            Plan::With(plan) => plan.columns.clone(),
            Plan::Calls(plan) => plan.columns.clone(),
            Plan::Do(_) => None,
            Plan::Routine(plan) => plan.columns.clone(),
            Plan::Checked(plan) => plan.columns.clone(),
            Plan::LockedJoin(plan) => Some(plan.columns.clone()),
        }
    }
}
