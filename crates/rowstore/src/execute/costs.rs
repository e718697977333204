//! What rows cost that a program writes or looks at, in units of an [`Allowance`](super::allowance::Allowance).

use super::allowance::BYTES_A_UNIT;
use crate::table::TableStore;
use base::TableId;
use base::expr::Expr;
use base::txn::{OnConflict, Statement};
use std::collections::BTreeMap;

/// Nodes of an expression that are evaluated in one unit.
const NODES_A_UNIT: u64 = 8;
/// What it takes to keep one index up to date for one row.
const INDEX_UNITS: u64 = 2;

/// What a statement over a range costs for each of its rows.
pub(super) fn cost_of_a_row(table: &TableStore, statement: &Statement) -> u64 {
    let returned = |returning: &Option<Vec<Expr>>| returning.iter().flatten().map(work).sum::<u64>();
    let asked = |filter: &Option<Expr>| filter.as_ref().map_or(0, work);
    match statement {
        Statement::Update { filter, set, returning, .. } => {
            let set: u64 = set.iter().map(|(_, expr)| work(expr)).sum();
            cost_of_writing(table, asked(filter) + set + returned(returning))
        }
        Statement::Delete { filter, returning, .. } => {
            cost_of_leaving(table, asked(filter) + returned(returning))
        }
        Statement::Select { filter, columns, .. } => {
            1 + (asked(filter) + columns.iter().map(work).sum::<u64>()) / NODES_A_UNIT
        }
        Statement::Truncate { .. } => cost_of_leaving(table, 0),
        Statement::Enter { .. } => 1 + INDEX_UNITS,
        Statement::Insert { on_conflict, returning, .. } => {
            cost_of_an_insert(table, on_conflict, returning.as_deref())
        }
    }
}

/// What INSERT costs for each of its rows.
pub(super) fn cost_of_an_insert(
    table: &TableStore,
    on_conflict: &OnConflict,
    returning: Option<&[Expr]>,
) -> u64 {
    let returned: u64 = returning.into_iter().flatten().map(work).sum();
    let changed = match on_conflict {
        OnConflict::Update { set, filter, .. } => {
            set.iter().map(|(_, expr)| work(expr)).sum::<u64>() + filter.as_ref().map_or(0, work)
        }
        OnConflict::Fail | OnConflict::Nothing { .. } => 0,
    };
    cost_of_writing(table, returned + changed)
}

/// What writes to tables cost, each found out once.
#[derive(Default)]
pub(super) struct Costs(BTreeMap<TableId, u64>);

impl Costs {
    pub fn of(&mut self, table: &TableStore) -> u64 {
        *self.0.entry(table.desc.id).or_insert_with(|| cost_of_writing(table, 0))
    }
}

/// What it costs to give a row a new state, after so many nodes of expressions.
fn cost_of_writing(table: &TableStore, nodes: u64) -> u64 {
    let of_domains = table.desc.domains.values().flat_map(|domain| &domain.checks);
    let checked: u64 = table.desc.checks.iter().chain(of_domains).map(|check| work(&check.expr)).sum();
    cost_of_leaving(table, nodes + checked)
}

fn cost_of_leaving(table: &TableStore, nodes: u64) -> u64 {
    1 + nodes / NODES_A_UNIT + INDEX_UNITS * table.indexes.len() as u64
}

/// Nodes of an expression, long constants among them as many.
fn work(expr: &Expr) -> u64 {
    let mut nodes = 0;
    expr.walk(&mut |expr| {
        let long = match expr {
            Expr::Constant(value) => value.text_bytes() as u64 / (BYTES_A_UNIT / NODES_A_UNIT),
            _ => 0,
        };
        nodes += 1 + long;
    });
    nodes
}
