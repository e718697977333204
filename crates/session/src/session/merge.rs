//! MERGE: a query joins what comes with the target's rows and says which action each pair gets, and with which values.
//!
//! The statement is a transaction, validated at its end. KEEPS: a row of the target is updated or deleted once (21000
//! otherwise); values of actions that are not taken are not computed.

use super::Session;
use super::assigned::{Assigned, assigned_row};
use super::computed::refuse_unassignable;
use super::merge_clauses::{Clause, Effect, Names, Value, clauses_of};
use super::rich::{query_of, width_beside};
use super::transaction::SeenRow;
use super::triggers::Firing;
use super::turns::Turn;
use super::write::Written;
use super::zoned::plan_assigned;
use analytics::{Context, QueryPlan};
use base::error::{SqlResult, SqlState};
use base::schema::Table;
use base::schema::triggers::Event;
use base::txn::OnConflict;
use base::{Datum, SqlError};
use sql::lower::Lowering;
use sql::lower::bind::Binding;
use sql::lower::insert::{InsertPlan, Source, complete_row};
use sql::lower::scope::ParameterTypes;
use sqlparser::ast;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A planned MERGE.
pub struct MergePlan {
    /// The target's columns, the number of the action, then what is computed.
    query: QueryPlan,
    actions: Vec<Action>,
    /// How new rows are completed and inserted.
    insert: InsertPlan,
}

/// What fires for rows of the target that are there.
#[derive(Default)]
struct Firings {
    updated: Option<Box<Firing>>,
    deleted: Option<Box<Firing>>,
}

/// What is done for a pair.
pub(super) enum Action {
    Nothing,
    Delete,
    Update(Vec<(usize, Assigned)>),
    Insert(Vec<(usize, Assigned)>),
}

impl MergePlan {
    /// Errors: 42601, 42703, 42712, 42P01, 42804, 428C9, 0A000.
    pub fn new(
        context: &Context<'_>,
        merge: &ast::Merge,
        with: Option<&ast::With>,
        parameters: &mut ParameterTypes,
    ) -> SqlResult<MergePlan> {
        if merge.output.is_some() {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"returning\""));
        }
        let mut lowering = Lowering {
            catalog: context.catalog,
            search_path: context.search_path,
            database: context.database,
            parameters,
        };
        let (table, alias) = lowering.modified_table(&merge.table)?;
        let names = Names::of(context, merge, with, &table, alias)?;
        let (defaults, generated) = (lowering.defaults(&table)?, lowering.generated(&table)?);
        let width = width_of(context, with, merge);
        let clauses = clauses_of(&mut lowering, merge, &table, &names, &defaults, &width)?;
        let mut items: Vec<ast::Expr> = table.columns.iter().map(|c| names.of_target(&c.name)).collect();
        let action = action_of(&clauses, &names.of_target(&table.columns[table.primary_key[0]].name))?;
        items.push(action.clone());
        let (mut actions, mut targets) = (Vec::new(), Vec::new());
        let first = items.len();
        for (nth, clause) in clauses.iter().enumerate() {
            let mut settled = |values: &[(usize, Value)]| -> SqlResult<Vec<(usize, Assigned)>> {
                let mut assigned = Vec::with_capacity(values.len());
                for (column, value) in values {
                    assigned.push((
                        *column,
                        match value {
                            Value::Lowered(expr) => Assigned::Lowered(expr.clone()),
                            Value::Asked(e) => {
                                targets.push((items.len(), *column));
                                items.push(taken_only(&action, nth, e)?);
                                Assigned::Computed(items.len() - 1 - first)
                            }
                        },
                    ));
                }
                Ok(assigned)
            };
            actions.push(match &clause.effect {
                Effect::Nothing => Action::Nothing,
                Effect::Delete => Action::Delete,
                Effect::Update(set) => Action::Update(settled(set)?),
                Effect::Insert(values) => Action::Insert(settled(values)?),
            });
        }
        let from = joined(merge, clauses.iter().any(|clause| !clause.is_matched))?;
        let typed: Vec<_> = targets.iter().map(|(n, c)| (*n, table.columns[*c].data_type)).collect();
        let query_of = |items| query_of(items, with, vec![from.clone()], None);
        let query = plan_assigned(context, items, &typed, query_of, parameters, &[table.id])?;
        for (n, column) in &targets {
            refuse_unassignable(&table.columns[*column], &query.columns[*n])?;
        }
        let insert = InsertPlan {
            table,
            source: Source::Values(Vec::new()),
            defaults,
            on_conflict: OnConflict::Fail,
            returning: None,
            is_one_shot: false,
            computed: Vec::new(),
            conflict: Vec::new(),
            generated,
        };
        Ok(MergePlan { query, actions, insert })
    }

    pub fn table(&self) -> &Table {
        &self.insert.table
    }

    /// Whether a row of the query stands for a row of the target that is updated or deleted.
    fn changes(&self, row: &[Datum]) -> bool {
        let Some(Datum::Int(number)) = row.get(self.table().columns.len()) else { return false };
        let action = usize::try_from(*number).ok().and_then(|nth| self.actions.get(nth));
        matches!(action, Some(Action::Update(_) | Action::Delete))
    }

    /// What EXPLAIN says of it.
    pub fn explained(&self) -> String {
        let name = &self.insert.table.name;
        format!("Merge into {name} (pairs and values from a query over columns, validated at commit)")
    }
}

/// `CASE` over all clauses whose value is the number of the one that is taken.
fn action_of(clauses: &[Clause], key: &ast::Expr) -> SqlResult<ast::Expr> {
    let of = |is_matched: bool| {
        let mut text = String::new();
        for (nth, clause) in clauses.iter().enumerate().filter(|(_, clause)| clause.is_matched == is_matched)
        {
            let condition = clause.condition.as_ref().map_or("true".to_string(), |e| format!("({e})"));
            text.push_str(&format!(" WHEN {condition} THEN {nth}"));
        }
        if text.is_empty() { "-1".to_string() } else { format!("CASE{text} ELSE -1 END") }
    };
    sql::parse::parse_expr(&format!("CASE WHEN {key} IS NOT NULL THEN {} ELSE {} END", of(true), of(false)))
}

/// A value that is computed for the pairs whose action it belongs to. A column cannot fail: it is taken as it is. Errors:
/// 0A000 where a second look at the conditions would find another action.
fn taken_only(action: &ast::Expr, nth: usize, value: &ast::Expr) -> SqlResult<ast::Expr> {
    match value {
        ast::Expr::CompoundIdentifier(_) | ast::Expr::Identifier(_) => Ok(value.clone()),
        _ if sql::volatile::is_volatile(action) => {
            Err(SqlError::unsupported("a condition of MERGE that changes by itself, beside computed values")
                .hint("Compute it in the source: USING (SELECT ..., random() AS r FROM ...)."))
        }
        value => sql::parse::parse_expr(&format!("CASE WHEN ({action}) = {nth} THEN ({value}) END")),
    }
}

/// What comes, beside the target's rows that match it.
fn joined(merge: &ast::Merge, keeps_unmatched: bool) -> SqlResult<ast::TableWithJoins> {
    let on = ast::JoinConstraint::On(merge.on.as_ref().clone());
    let join_operator = match keeps_unmatched {
        true => ast::JoinOperator::LeftOuter(on),
        false => ast::JoinOperator::Inner(on),
    };
    let join = ast::Join { relation: merge.table.clone(), global: false, join_operator };
    Ok(ast::TableWithJoins { relation: merge.source.clone(), joins: vec![join] })
}

/// Counts the columns of subqueries, which may name target and source.
fn width_of(
    context: &Context<'_>,
    with: Option<&ast::With>,
    merge: &ast::Merge,
) -> impl Fn(&ast::Query) -> SqlResult<usize> {
    let beside = [&merge.table, &merge.source]
        .map(|relation| ast::TableWithJoins { relation: relation.clone(), joins: Vec::new() });
    move |query: &ast::Query| width_beside(context, with, &beside, query, ParameterTypes::default())
}

/// A row of the target is met by more than one that comes.
fn twice() -> SqlError {
    SqlError::new(SqlState::CARDINALITY_VIOLATION, "MERGE command cannot affect row a second time")
        .hint("Ensure that not more than one source row matches any one target row.")
}

impl Session {
    /// Does what a MERGE says in the open transaction's buffer: to rows that are there, then with new ones.
    pub(super) async fn merge_buffered(
        &mut self,
        plan: &MergePlan,
        parameters: &[Datum],
        attempts: usize,
    ) -> SqlResult<Written> {
        let table = &plan.insert.table;
        if attempts > 0 {
            self.lock_whole(table.id).await?;
        }
        self.pinned().await?;
        let mark = self.open().mark();
        let (gateway, catalog) = (self.gateway.clone(), self.catalog());
        let binding = Binding {
            parameters,
            times: self.times(),
            generators: &gateway.node.generators,
            catalog: &catalog,
        };
        // Later executions have locked the table as a whole.
        let is_changed = |row: &[Datum]| attempts == 0 && plan.changes(row);
        let rows = self.found_locked(&plan.query, parameters, table, is_changed).await?;
        self.open().show_parts();
        let (mut written, mut done, mut new_rows) = (Written::default(), BTreeSet::new(), Vec::new());
        let mut firings = self.begin_merge(plan, &mut written).await?;
        let mut turn = Turn::begin();
        for mut row in rows {
            turn.give_way().await;
            let computed = row.split_off(table.columns.len() + 1);
            let Some(Datum::Int(number)) = row.pop() else { continue };
            let Some(action) = usize::try_from(number).ok().and_then(|nth| plan.actions.get(nth)) else {
                continue;
            };
            let new = match action {
                Action::Nothing => continue,
                Action::Insert(values) => {
                    new_rows.push(inserted(&plan.insert, values, &computed, &binding)?);
                    continue;
                }
                Action::Delete => None,
                Action::Update(set) => {
                    Some(assigned_row(table, (set, &plan.insert.generated), &binding, &row, &computed)?)
                }
            };
            let key = table.key_of(&row);
            if !done.insert(key.clone()) || self.open().is_changed_by_parts(table.id, &key) {
                return Err(twice());
            }
            let seen = SeenRow::new(key, Arc::new(row));
            let firing = if new.is_some() { &mut firings.updated } else { &mut firings.deleted };
            let Some(new) = self.seen_by_triggers(firing, &seen, new, written.pending()).await? else {
                continue;
            };
            match new {
                None => self.open().change(table, seen.key.clone(), &seen.values, None)?,
                Some(new) => {
                    self.guard_unique(table, &seen, &new).await?;
                    self.replace(table, &seen, new)?;
                }
            }
            written.affected += 1;
        }
        self.insert_rows(&plan.insert, None, new_rows, &binding, &mut written).await?;
        self.end_write(mark, written.pending()).await?;
        Ok(written)
    }

    /// BEFORE triggers of the statement for each kind of action that it has, and what fires for rows that are there.
    async fn begin_merge(&mut self, plan: &MergePlan, written: &mut Written) -> SqlResult<Firings> {
        let table = &plan.insert.table;
        let mut firings = Firings::default();
        if table.triggers.is_empty() {
            return Ok(firings);
        }
        let has = |is_it: fn(&Action) -> bool| plan.actions.iter().any(is_it);
        let assigned = plan.actions.iter().flat_map(|action| match action {
            Action::Update(set) => set.as_slice(),
            _ => &[],
        });
        let mut changed: Vec<usize> = assigned.map(|(column, _)| *column).collect();
        changed.extend(plan.insert.generated.columns());
        if has(|action| matches!(action, Action::Insert(_))) {
            self.begin_write(table, Event::Insert, &[], written.pending()).await?;
        }
        if has(|action| matches!(action, Action::Update(_))) {
            self.begin_write(table, Event::Update, &changed, written.pending()).await?;
        }
        if has(|action| matches!(action, Action::Delete)) {
            self.begin_write(table, Event::Delete, &[], written.pending()).await?;
        }
        written.pending().turn_statements();
        firings.updated = self.firing(table, Event::Update, &changed)?;
        firings.deleted = self.firing(table, Event::Delete, &[])?;
        Ok(firings)
    }
}

/// A new row. Errors: 23502, 23514, and those of its expressions.
fn inserted(
    plan: &InsertPlan,
    values: &[(usize, Assigned)],
    computed: &[Datum],
    binding: &Binding<'_>,
) -> SqlResult<Vec<Datum>> {
    let targets: Vec<usize> = values.iter().map(|(column, _)| *column).collect();
    let given = values.iter().map(|(_, value)| value.value(binding, &[], computed));
    complete_row(plan, &targets, given.collect::<SqlResult<_>>()?, binding)
}
