//! Joins by rows: an outer range, then the inner rows that its rows name.

use super::Session;
use super::read::{Wanted, respond};
use super::transaction::SeenRow;
use crate::response::Response;
use base::error::SqlResult;
use base::{Datum, Key};
use sql::lower::bind::Binding;
use sql::lower::join::RowJoinPlan;
use sql::lower::keys::{Reach, Reached};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Inner rows that are asked for at once: the node serves nobody else meanwhile.
const LOOKUPS_AT_ONCE: usize = 1024;

impl Session {
    /// Runs a join that is answered from rows: both sides at one cut.
    pub(super) async fn run_join(&mut self, plan: &RowJoinPlan, parameters: &[Datum]) -> SqlResult<Response> {
        if self.transaction.is_some() {
            return self.join_seen(plan, parameters).await;
        }
        self.begin(true, true);
        let result = self.join_seen(plan, parameters).await;
        self.roll_back().await;
        result
    }

    async fn join_seen(&mut self, plan: &RowJoinPlan, parameters: &[Datum]) -> SqlResult<Response> {
        let (gateway, catalog) = (self.gateway.clone(), self.catalog());
        let times = self.times();
        let binding = Binding { parameters, times, generators: &gateway.node.generators, catalog: &catalog };
        let (topology, near) = (gateway.cluster.topology(), Some(gateway.cluster.region()));
        let reached = plan.outer_path.reach(&plan.outer, &binding, topology, near)?;
        let wanted = Wanted {
            table: &plan.outer,
            index: plan.outer_index.as_ref(),
            reached: &reached,
            filter: plan.outer_condition.as_ref().map(|f| binding.fill(f)).transpose()?,
            descending: false,
            limit: None,
            columns: plan.outer_columns.as_ref(),
            is_rewritten: false,
        };
        let outer = self.read_seen(&wanted).await?;
        // Which key each outer row leads to, and where to look for it, once per key.
        let mut keys: Vec<Option<Key>> = Vec::with_capacity(outer.len());
        let mut wanted_keys: BTreeMap<Key, Reach> = BTreeMap::new();
        let mut holes = parameters.to_vec();
        for row in &outer {
            holes.truncate(plan.parameters);
            holes.extend(row.values.iter().cloned());
            let given = Binding {
                parameters: &holes,
                times,
                generators: &gateway.node.generators,
                catalog: &catalog,
            };
            let reached = plan.inner_path.reach(&plan.inner, &given, topology, near)?;
            let reach = reached.reaches.into_iter().next();
            let key = reach.as_ref().and_then(|r| r.range.as_point()).cloned();
            if let (Some(key), Some(reach)) = (&key, reach) {
                wanted_keys.entry(key.clone()).or_insert(reach);
            }
            keys.push(key);
        }
        let mut reaches: Vec<Reach> = wanted_keys.into_values().collect();
        let mut inner: BTreeMap<Key, Arc<Vec<Datum>>> = BTreeMap::new();
        while !reaches.is_empty() {
            let later = reaches.split_off(reaches.len().min(LOOKUPS_AT_ONCE));
            let reached = Reached { reaches, is_exact: true };
            let wanted = Wanted {
                table: &plan.inner,
                index: None,
                reached: &reached,
                filter: None,
                descending: false,
                limit: None,
                columns: plan.inner_columns.as_ref(),
                is_rewritten: false,
            };
            let found = self.read_seen(&wanted).await?;
            inner.extend(found.into_iter().map(|row| (row.key, row.values)));
            reaches = later;
        }
        let condition = plan.condition.as_ref().map(|c| binding.fill(c)).transpose()?;
        let mut joined = Vec::with_capacity(outer.len());
        for (row, key) in outer.iter().zip(keys) {
            let Some(found) = key.as_ref().and_then(|key| inner.get(key)) else { continue };
            let (first, second) = if plan.inner_first { (found, &row.values) } else { (&row.values, found) };
            let values: Vec<Datum> = first.iter().chain(second.iter()).cloned().collect();
            if condition.as_ref().map_or(Ok(true), |c| c.holds(&values))? {
                joined.push(SeenRow::new(Key::new(), Arc::new(values)));
            }
        }
        respond(&plan.output, &binding, joined, false)
    }
}
