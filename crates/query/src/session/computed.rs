//! INSERT … VALUES with expressions that nodes do not know: queries compute them, and their values take the
//! expressions' places in the rows.

use super::Session;
use super::plan::PlanContext;
use super::rich::{refuse_unassignable, select_of};
use crate::analytics::{self, QueryPlan};
use crate::lower::bind;
use crate::lower::insert::InsertPlan;
use crate::lower::scope::ParameterTypes;
use base::error::SqlResult;
use base::{Datum, SqlError};
use std::borrow::Cow;
use std::sync::Arc;

/// Values that one query computes: planning takes more than its share of time for very wide rows.
const VALUES_PER_QUERY: usize = 32;

/// Queries for what nodes cannot compute of an INSERT. Errors: 42804, and those of planning.
pub(super) fn plan(
    context: &PlanContext<'_>,
    insert: &InsertPlan,
    parameters: &mut ParameterTypes,
) -> SqlResult<Vec<Arc<QueryPlan>>> {
    let mut queries = Vec::new();
    for values in insert.computed.chunks(VALUES_PER_QUERY) {
        let statement = select_of(values.iter().map(|value| value.expr.clone()).collect())?;
        let query = analytics::plan_with(context, &statement, parameters, false)?;
        for (value, computed) in values.iter().zip(query.columns.iter()) {
            refuse_unassignable(&insert.table.columns[value.column], computed)?;
        }
        queries.push(Arc::new(query));
    }
    Ok(queries)
}

impl Session {
    /// The INSERT with values in the place of what has to be computed.
    pub(super) async fn computed<'p>(
        &mut self,
        plan: &'p InsertPlan,
        computations: &[Arc<QueryPlan>],
        parameters: &[Datum],
    ) -> SqlResult<Cow<'p, InsertPlan>> {
        if computations.is_empty() {
            return Ok(Cow::Borrowed(plan));
        }
        let mut values = Vec::with_capacity(plan.computed.len());
        for query in computations {
            let mut rows = self.answer(query, parameters).await?.stream.collect().await?;
            let row = rows.pop().filter(|_| rows.is_empty());
            values.extend(row.ok_or_else(|| SqlError::internal("constants are one row"))?);
        }
        let mut plan = plan.clone();
        plan.fill(&|expr| {
            bind::map_columns(expr, &|column| match bind::computed_number(column) {
                Some(n) => base::expr::Expr::Constant(values.get(n).cloned().unwrap_or_default()),
                None => base::expr::Expr::Column(column),
            })
        });
        Ok(Cow::Owned(plan))
    }
}
