//! UPDATE and DELETE with expressions that a node does not know: UPDATE … FROM, subqueries, functions that
//! only queries over columns have.
//!
//! A query computes the new values. Where keys say which rows are meant, these are locked and read first, and
//! the query computes over them alone; otherwise it finds them too. Either way the statement is a transaction,
//! validated at its end.

use super::assigned::{Assigned, assigned_row};
use super::computed::refuse_unassignable;
use super::read::Wanted;
use super::returning::{Changed, Returned, projection_of, returning_items};
use super::several_columns::{refuse_again, single_assignments};
use super::transaction::SeenRow;
use super::triggers::Firing;
use super::turns::Turn;
use super::write::Written;
use super::zoned::plan_assigned;
use super::{Session, write};
use crate::response::RowStream;
use analytics::{Context, QueryPlan};
use base::error::SqlResult;
use base::expr::Expr;
use base::schema::triggers::Event;
use base::schema::{Identity, Index, Table};
use base::{Datum, SqlError};
use sql::lower::bind::{self, Binding};
use sql::lower::generated::Generated;
use sql::lower::insert::is_default;
use sql::lower::keys::{self, KeyPath};
use sql::lower::modify::{assigned_column, better_index, refuse_generated};
use sql::lower::scope::{ParameterTypes, Scope};
use sql::lower::select::Contended;
use sql::lower::{Lowering, Projection, Refusal, output_name};
use sql::names;
use sql::parse::OWN_NAMES;
use sqlparser::ast::{self, Statement};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A planned UPDATE or DELETE of this kind.
pub struct RichPlan {
    table: Arc<Table>,
    /// New values; `None` deletes.
    set: Option<Vec<(usize, Assigned)>>,
    /// The row's columns, then what is computed.
    query: QueryPlan,
    /// How its rows are found by key, and what is known of them before the query looks.
    found: Option<Found>,
    returning: Option<Projection>,
    generated: Generated,
    /// UPDATE or DELETE.
    pub word: &'static str,
}

struct Found {
    index: Option<Index>,
    path: KeyPath,
    condition: Option<Expr>,
}

/// The parts of the statement.
struct Parts<'s> {
    target: &'s ast::TableFactor,
    /// The target and what it is joined with.
    from: Vec<ast::TableWithJoins>,
    selection: Option<&'s ast::Expr>,
    assignments: Option<&'s [ast::Assignment]>,
    returning: Option<&'s [ast::SelectItem]>,
    word: &'static str,
}

impl Parts<'_> {
    fn of(statement: &Statement) -> SqlResult<Parts<'_>> {
        match statement {
            Statement::Update(update) => {
                if update.limit.is_some() || !update.order_by.is_empty() {
                    return Err(SqlError::unsupported("ORDER BY or LIMIT of UPDATE"));
                }
                let mut from = vec![update.table.clone()];
                if let Some(
                    ast::UpdateTableFromKind::BeforeSet(more) | ast::UpdateTableFromKind::AfterSet(more),
                ) = &update.from
                {
                    from.extend(more.iter().cloned());
                }
                Ok(Parts {
                    target: &update.table.relation,
                    from,
                    selection: update.selection.as_ref(),
                    assignments: Some(&update.assignments),
                    returning: update.returning.as_deref(),
                    word: "UPDATE",
                })
            }
            Statement::Delete(delete) => {
                if delete.limit.is_some() || !delete.tables.is_empty() {
                    return Err(SqlError::unsupported("this form of DELETE"));
                }
                let (ast::FromTable::WithFromKeyword(tables) | ast::FromTable::WithoutKeyword(tables)) =
                    &delete.from;
                let [first] = tables.as_slice() else {
                    return Err(SqlError::unsupported("DELETE from several tables"));
                };
                let mut from = vec![first.clone()];
                from.extend(delete.using.iter().flatten().cloned());
                Ok(Parts {
                    target: &first.relation,
                    from,
                    selection: delete.selection.as_ref(),
                    assignments: None,
                    returning: delete.returning.as_deref(),
                    word: "DELETE",
                })
            }
            _ => Err(SqlError::internal("only UPDATE and DELETE are rich")),
        }
    }
}

impl RichPlan {
    pub fn new(
        context: &Context<'_>,
        statement: &Statement,
        with: Option<&ast::With>,
        parameters: &mut ParameterTypes,
    ) -> SqlResult<RichPlan> {
        let parts = Parts::of(statement)?;
        let mut lowering = Lowering {
            catalog: context.catalog,
            search_path: context.search_path,
            database: context.database,
            parameters,
        };
        let (table, alias) = lowering.modified_table(parts.target)?;
        let shown = alias.clone().unwrap_or_else(|| table.name.clone());
        let scope = Scope::table(&table, alias.as_deref());
        let generated = lowering.generated(&table)?;
        let is_alone = parts.from.len() == 1 && parts.from[0].joins.is_empty();
        let qualified = |column: &base::schema::Column| {
            ast::Expr::CompoundIdentifier(vec![
                ast::Ident::with_quote('"', &shown),
                ast::Ident::with_quote('"', &column.name),
            ])
        };
        let mut items: Vec<ast::Expr> = table.columns.iter().map(qualified).collect();
        let mut changed = BTreeMap::new();
        let set = match parts.assignments {
            None => None,
            Some(assignments) => {
                let mut set: Vec<(usize, Assigned)> = Vec::new();
                let declared = lowering.parameters.clone();
                let width =
                    |query: &ast::Query| width_beside(context, with, &parts.from, query, declared.clone());
                for (name, value) in single_assignments(assignments, &width)? {
                    let (number, column) = assigned_column(&table, name)?;
                    refuse_again(&set, number, &column.name)?;
                    refuse_generated(column, &value)?;
                    if column.identity == Identity::Generated {
                        continue;
                    }
                    let assigned = match (is_default(&value), table.default_of(number)) {
                        (false, _) => value.clone(),
                        (true, Some(default)) => lowering.kept_expression(default)?,
                        (true, None) => ast::Expr::value(ast::Value::Null),
                    };
                    changed.insert(number, assigned);
                    let lowered = match is_default(&value) {
                        true => Some(lowering.defaults(&table)?.swap_remove(number)),
                        // Beside other tables a name may be theirs.
                        false => {
                            let nothing = Scope::default();
                            let scope = if is_alone { &scope } else { &nothing };
                            lowered(&mut lowering, |l| {
                                l.exprs(scope).assignment(&value, &column.name, column.data_type)
                            })
                        }
                    };
                    let value = match lowered {
                        Some(expr) => Assigned::Lowered(expr),
                        None => {
                            items.push(value);
                            Assigned::Computed(items.len() - 1 - table.columns.len())
                        }
                    };
                    set.push((number, value));
                }
                Some(set)
            }
        };
        let mut returning = Vec::new();
        if let Some(shown_items) = parts.returning {
            let changed = Changed::new(&table, &shown, changed, &generated)?;
            for item in returning_items(shown_items, &lowering, &parts.from, with, &table, &shown)? {
                let declared = lowering.parameters.clone();
                returning.push(match lowering.projection(std::slice::from_ref(&item), &table, &scope) {
                    Ok(projection) => Returned::Lowered(projection),
                    Err(Refusal::Error(error)) if is_alone => return Err(error),
                    Err(_) => {
                        *lowering.parameters = declared;
                        let (e, name) = match item {
                            ast::SelectItem::UnnamedExpr(e) => {
                                let name = output_name(&e);
                                (e, name)
                            }
                            ast::SelectItem::ExprWithAlias { expr, alias } => (expr, names::fold(&alias)),
                            _ => return Err(SqlError::unsupported("this RETURNING")),
                        };
                        changed.refuse_triggered(&e)?;
                        items.push(changed.seen_by(e)?);
                        Returned::Computed(items.len() - 1 - table.columns.len(), name)
                    }
                });
            }
        }
        let found = if is_alone { found(&mut lowering, &table, &scope, parts.selection) } else { None };
        let target = |(number, value): &(usize, Assigned)| match value {
            Assigned::Computed(n) => Some((table.columns.len() + n, table.columns[*number].data_type)),
            Assigned::Lowered(_) => None,
        };
        let targets: Vec<_> = set.iter().flatten().filter_map(target).collect();
        let query_of = |items| query_of(items, with, parts.from.clone(), parts.selection.cloned());
        let query = plan_assigned(context, items, &targets, query_of, parameters, &[table.id])?;
        let columns = query.columns.clone();
        for (number, value) in set.iter().flatten() {
            if let Assigned::Computed(n) = value {
                refuse_unassignable(&table.columns[*number], &columns[table.columns.len() + n])?;
            }
        }
        let returning = parts.returning.map(|_| projection_of(returning, &columns[table.columns.len()..]));
        // Rows that were found beforehand stand for the table, which must not be asked for others then.
        let found = found.filter(|_| query.scans(table.id) == 1);
        Ok(RichPlan { table, set, query, found, returning, generated, word: parts.word })
    }

    pub fn table(&self) -> &Table {
        &self.table
    }
    /// Columns that change; `None` deletes.
    pub fn changed(&self) -> Option<Vec<usize>> {
        let given = |set: &Vec<(usize, Assigned)>| set.iter().map(|(c, _)| *c).collect::<Vec<_>>();
        self.set.as_ref().map(|set| given(set).into_iter().chain(self.generated.columns()).collect())
    }

    pub fn returning(&self) -> Option<&Projection> {
        self.returning.as_ref()
    }

    /// What EXPLAIN says of it.
    pub fn explained(&self) -> String {
        let rows = if self.found.is_some() { "rows by key, locked; values" } else { "rows and values" };
        format!("{} ({rows} from a query over columns, validated at commit)", self.word)
    }
}

/// What `lower` makes, if nodes know it; types of parameters stay as they were otherwise.
pub(super) fn lowered<T>(
    lowering: &mut Lowering<'_>,
    lower: impl FnOnce(&mut Lowering<'_>) -> Result<T, Refusal>,
) -> Option<T> {
    let declared = lowering.parameters.clone();
    let made = lower(lowering).ok();
    if made.is_none() {
        *lowering.parameters = declared;
    }
    made
}

/// A path to the rows by what nodes know of the condition, if that says more than where the table is.
fn found(
    lowering: &mut Lowering<'_>,
    table: &Arc<Table>,
    scope: &Scope,
    selection: Option<&ast::Expr>,
) -> Option<Found> {
    let mut conditions = Vec::new();
    let mut rest: Vec<&ast::Expr> = selection.into_iter().collect();
    while let Some(e) = rest.pop() {
        match e {
            ast::Expr::Nested(inner) => rest.push(inner),
            ast::Expr::BinaryOp { left, op: ast::BinaryOperator::And, right } => {
                rest.extend([right.as_ref(), left.as_ref()]);
            }
            e => {
                let condition = lowered(lowering, |l| l.exprs(scope).condition(e, "WHERE"));
                conditions.extend(condition.filter(|c| !bind::changes_per_row(c)));
            }
        }
    }
    let primary = KeyPath::primary(table, &conditions);
    let generated = lowering.computed_keys(table).unwrap_or_default();
    let (index, path) = match better_index(table, &generated, &conditions, &primary) {
        Some((index, path)) => (Some(index), path),
        None => (None, primary),
    };
    let is_narrow = path.fixed_count() > 0 || path.has_bound();
    is_narrow.then(|| Found { index, path, condition: keys::conjoin(conditions) })
}

/// Columns of a subquery that may name what it stands beside.
pub(super) fn width_beside(
    context: &Context<'_>,
    with: Option<&ast::With>,
    from: &[ast::TableWithJoins],
    query: &ast::Query,
    mut parameters: ParameterTypes,
) -> SqlResult<usize> {
    let name = ast::Ident::with_quote('"', format!("{OWN_NAMES}set"));
    let relation = ast::TableFactor::Derived {
        lateral: true,
        subquery: Box::new(query.clone()),
        alias: Some(ast::TableAlias { explicit: true, name: name.clone(), columns: Vec::new(), at: None }),
        sample: None,
    };
    let beside = ast::TableWithJoins { relation, joins: Vec::new() };
    let from = from.iter().cloned().chain([beside]).collect();
    let mut all = query_of(Vec::new(), with, from, None)?;
    if let Statement::Query(query) = &mut all
        && let ast::SetExpr::Select(select) = query.body.as_mut()
    {
        let kind = ast::SelectItemQualifiedWildcardKind::ObjectName(ast::ObjectName::from(name));
        select.projection = vec![ast::SelectItem::QualifiedWildcard(kind, Default::default())];
    }
    Ok(analytics::plan_with(context, &all, &mut parameters, &[])?.columns.len())
}

/// `WITH with SELECT items FROM from WHERE selection`.
pub(super) fn query_of(
    items: Vec<ast::Expr>,
    with: Option<&ast::With>,
    from: Vec<ast::TableWithJoins>,
    selection: Option<ast::Expr>,
) -> SqlResult<Statement> {
    let mut statement = select_of(items)?;
    if let Statement::Query(query) = &mut statement
        && let ast::SetExpr::Select(select) = query.body.as_mut()
    {
        select.from = from;
        select.selection = selection;
        query.with = with.cloned();
    }
    Ok(statement)
}

/// `SELECT items`, each under a name of its own.
pub(super) fn select_of(items: Vec<ast::Expr>) -> SqlResult<Statement> {
    let mut statement = sql::parse::parse("select 1")?
        .pop()
        .ok_or_else(|| SqlError::internal("a statement is a statement"))?;
    let named = |(n, expr): (usize, ast::Expr)| ast::SelectItem::ExprWithAlias {
        expr,
        alias: ast::Ident::with_quote('"', format!("c{n}")),
    };
    if let Statement::Query(query) = &mut statement
        && let ast::SetExpr::Select(select) = query.body.as_mut()
    {
        select.projection = items.into_iter().enumerate().map(named).collect();
    }
    Ok(statement)
}

impl Session {
    /// Finds the rows, computes their new values and buffers these.
    pub(super) async fn rich_buffered(
        &mut self,
        plan: &RichPlan,
        parameters: &[Datum],
        attempts: usize,
    ) -> SqlResult<Written> {
        if attempts > 0 && plan.found.is_none() {
            self.lock_whole(plan.table.id).await?;
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
        let table = &plan.table;
        let mut seen = BTreeMap::new();
        let rows = match &plan.found {
            // Later executions have locked the table as a whole.
            None => {
                let is_first = |_: &[Datum]| attempts == 0;
                self.found_locked(&plan.query, parameters, table, is_first).await?
            }
            Some(found) => {
                let locked = self.locked(table, found, &binding).await?;
                if locked.is_empty() && table.triggers.is_empty() {
                    return Ok(Written::default());
                }
                let values = locked.iter().map(|row| row.values.clone()).collect();
                seen.extend(locked.into_iter().map(|row| (row.key.clone(), row)));
                let answer = self.answer_over(&plan.query, parameters, table.id, values).await?;
                self.collected(&mut RowStream::Batches(answer.stream)).await?
            }
        };
        self.open().show_parts();
        let mut written = Written::default();
        let event = if plan.set.is_some() { Event::Update } else { Event::Delete };
        let changed = plan.changed().unwrap_or_default();
        self.begin_write(table, event, &changed, written.pending()).await?;
        let mut firing = self.firing(table, event, &changed)?;
        let mut done = BTreeSet::new();
        let mut turn = Turn::begin();
        for mut row in rows {
            turn.give_way().await;
            let computed = row.split_off(table.columns.len());
            let key = table.key_of(&row);
            // Joined more than once, a row changes once.
            if !done.insert(key.clone()) || self.open().is_changed_by_parts(table.id, &key) {
                continue;
            }
            let seen = seen.remove(&key).unwrap_or_else(|| SeenRow::new(key, Arc::new(row)));
            self.change_rich((plan, &mut firing), &binding, seen, &computed, &mut written).await?;
        }
        self.end_write(mark, written.pending()).await?;
        Ok(written)
    }

    /// Rows that keys name, locked and read at a cut after that.
    async fn locked(
        &mut self,
        table: &Arc<Table>,
        found: &Found,
        binding: &Binding<'_>,
    ) -> SqlResult<Vec<SeenRow>> {
        let topology = self.cluster().topology().clone();
        let near = Some(self.cluster().region());
        let reached = found.path.reach(table, binding, &topology, near)?;
        let filter = found.condition.as_ref().map(|f| binding.fill(f)).transpose()?;
        let wanted = Wanted {
            table,
            index: found.index.as_ref(),
            reached: &reached,
            filter,
            descending: false,
            limit: None,
            columns: None,
            is_rewritten: true,
        };
        self.read_locked(&wanted, Contended::Wait).await
    }

    async fn change_rich(
        &mut self,
        (plan, firing): (&RichPlan, &mut Option<Box<Firing>>),
        binding: &Binding<'_>,
        seen: SeenRow,
        computed: &[Datum],
        written: &mut Written,
    ) -> SqlResult<()> {
        let table = &plan.table;
        let new = match &plan.set {
            None => None,
            Some(set) => Some(assigned_row(table, (set, &plan.generated), binding, &seen.values, computed)?),
        };
        let Some(new) = self.seen_by_triggers(firing, &seen, new, written.pending()).await? else {
            return Ok(());
        };
        let row = new.as_ref().unwrap_or(&seen.values);
        let value = |e: &Expr| binding.eval(&write::with_computed(e, computed), row);
        let shown = plan.returning.as_ref().map(|returning| returning.exprs.iter().map(value).collect());
        written.note(shown.transpose()?);
        match new {
            None => self.open().change(table, seen.key.clone(), &seen.values, None)?,
            Some(new) => {
                self.guard_unique(table, &seen, &new).await?;
                self.replace(table, &seen, new)?;
            }
        }
        Ok(())
    }
}
