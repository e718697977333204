//! SELECT from one table by key: point reads and short ranges, answered from rows.

use super::aggregate::Aggregate;
use super::bind::{self, Binding};
use super::keys::{self, KeyPath, Reached};
use super::scope::Scope;
use super::{Lowered, Lowering, Projection, Refusal};
use crate::names;
use base::error::{SqlResult, SqlState};
use base::expr::Expr;
use base::schema::{Index, Table};
use base::{DataType, Datum, SqlError};
use sqlparser::ast;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A lowered SELECT of one table.
#[derive(Clone, Debug)]
pub struct RowSelectPlan {
    pub table: Arc<Table>,
    /// Reads through this index.
    pub index: Option<Index>,
    pub path: KeyPath,
    pub condition: Option<Expr>,
    pub output: Output,
    /// Rows come from the store in the wanted order; true is descending.
    pub natural: Option<bool>,
    /// FOR UPDATE and FOR SHARE: rows, whatever columns would cost.
    pub is_locking: bool,
    /// FOR UPDATE locks rows.
    pub lock: Option<Contended>,
    /// FOR SHARE with NOWAIT or SKIP LOCKED looks for locks, and takes none.
    pub shared: Option<Contended>,
    /// So few rows that columns would be slower.
    pub is_narrow: bool,
    /// Columns of the table that the statement looks at; `None`: all.
    pub columns: Option<Arc<Vec<u16>>>,
}

/// What is done about a row that another transaction has locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contended {
    Wait,
    /// NOWAIT: 55P03.
    Fail,
    /// SKIP LOCKED: as if the row were not there.
    Skip,
}

/// What becomes of the rows that were found.
#[derive(Clone, Debug)]
pub struct Output {
    pub projection: Projection,
    /// The projection is over the row of these instead of the rows found.
    pub aggregates: Vec<Aggregate>,
    pub order: Vec<Order>,
    pub limit: Option<Expr>,
    pub offset: Option<Expr>,
}

impl Output {
    /// LIMIT and OFFSET. Errors: 2201W, 2201X.
    pub fn bounds(&self, binding: &Binding<'_>) -> SqlResult<(Option<u64>, u64)> {
        let limit = count(self.limit.as_ref(), binding, "LIMIT")?;
        Ok((limit, count(self.offset.as_ref(), binding, "OFFSET")?.unwrap_or(0)))
    }
}

/// A LIMIT or OFFSET; null is none. Errors: 2201W, 2201X.
fn count(expr: Option<&Expr>, binding: &Binding<'_>, what: &str) -> SqlResult<Option<u64>> {
    let Some(expr) = expr else { return Ok(None) };
    match DataType::BigInt.coerce(binding.value(expr)?)? {
        Datum::Null => Ok(None),
        value => u64::try_from(value.int()).map(Some).map_err(|_| {
            let state = if what == "LIMIT" { *b"2201W" } else { *b"2201X" };
            SqlError::new(SqlState(state), format!("{what} must not be negative"))
        }),
    }
}

/// One term of ORDER BY.
#[derive(Clone, Debug)]
pub struct Order {
    pub expr: Expr,
    pub descending: bool,
    pub nulls_first: bool,
}

impl Lowering<'_> {
    /// Lowers a query that reads one table without grouping, joining or nesting.
    pub fn row_select(&mut self, query: &ast::Query) -> Lowered<RowSelectPlan> {
        let select = plain_select(query)?;
        let [from] = select.from.as_slice() else { return Err(Refusal::TooRich) };
        if !from.joins.is_empty() {
            return Err(Refusal::TooRich);
        }
        let ast::TableFactor::Table { name, alias, args: None, sample: None, .. } = &from.relation else {
            return Err(Refusal::TooRich);
        };
        let table = self.stored_table(name)?;
        if alias.as_ref().is_some_and(|a| !a.columns.is_empty()) {
            return Err(Refusal::TooRich);
        }
        let alias = alias.as_ref().map(|a| names::fold(&a.name));
        let scope = Scope::table(&table, alias.as_deref());
        let condition = match &select.selection {
            Some(e) => Some(self.exprs(&scope).condition(e, "WHERE")?),
            None => None,
        };
        if condition.as_ref().is_some_and(bind::changes_per_row) {
            return Err(Refusal::TooRich);
        }
        let output = self.output(query, select, &table, &scope)?;

        let conjuncts = keys::conjuncts(condition.as_ref());
        let primary = KeyPath::primary(&table, &conjuncts);
        let generated = self.computed_keys(&table)?;
        let (index, path) = match super::modify::narrowest_index(&table, &generated, &conjuncts, &primary) {
            Some((index, path)) => (Some(index), path),
            None => (None, primary),
        };
        let natural = natural_order(&table, index.as_ref(), &path, &output.order);
        let is_locking = !query.locks.is_empty();
        let lock = contended(&query.locks, &scope)?;
        let shared = query.locks.iter().find_map(shared);
        let key_length = index.as_ref().map_or(table.primary_key.len(), |i| i.keys().len());
        let few = path.fixed_count() > 0
            && (path.fixed_count() + 1 >= key_length || (path.fixed_count() >= 2 && path.is_located()));
        // A table that one key column orders and nothing fixes is read as columns, unless few rows are wanted.
        let first_rows = output.limit.is_some()
            && (natural.is_some() && !output.order.is_empty() || path.fixed_count() > 0)
            && conjuncts.len() <= path.fixed_count() + usize::from(path.has_bound()) * 2;
        let single = path.fixed_count() > 0 || key_length > 1 || first_rows;
        let is_narrow = path.is_point() || (few && single) || first_rows;
        let columns = columns(&table, index.as_ref(), condition.as_ref(), &output);
        Ok(RowSelectPlan {
            table,
            index,
            path,
            condition,
            output,
            natural,
            is_locking,
            lock,
            shared,
            is_narrow,
            columns,
        })
    }

    /// What a query makes of its rows: their projection or aggregates, their order and how many.
    pub(super) fn output(
        &mut self,
        query: &ast::Query,
        select: &ast::Select,
        table: &Table,
        scope: &Scope,
    ) -> Lowered<Output> {
        let (projection, aggregates) = match self.projection(&select.projection, table, scope) {
            Err(Refusal::TooRich) if query.order_by.is_none() && query.limit_clause.is_none() => {
                self.aggregation(&select.projection, scope)?
            }
            other => (other?, Vec::new()),
        };
        let order = self.order(query.order_by.as_ref(), scope, &projection)?;
        let (limit, offset) = self.limits(query.limit_clause.as_ref())?;
        Ok(Output { projection, aggregates, order, limit, offset })
    }

    fn order(
        &mut self,
        order_by: Option<&ast::OrderBy>,
        scope: &Scope,
        projection: &Projection,
    ) -> Lowered<Vec<Order>> {
        let Some(order_by) = order_by else { return Ok(Vec::new()) };
        let ast::OrderByKind::Expressions(terms) = &order_by.kind else { return Err(Refusal::TooRich) };
        let mut order = Vec::with_capacity(terms.len());
        for term in terms {
            let expr = match &term.expr {
                // An output column by number or name comes first.
                ast::Expr::Value(v) if matches!(v.value, ast::Value::Number(..)) => {
                    let ast::Value::Number(n, _) = &v.value else { return Err(Refusal::TooRich) };
                    let nth = n.parse::<usize>().ok().and_then(|n| n.checked_sub(1));
                    nth.and_then(|n| projection.exprs.get(n)).cloned().ok_or(Refusal::TooRich)?
                }
                ast::Expr::Identifier(ident)
                    if projection.columns.iter().any(|c| c.name == names::fold(ident)) =>
                {
                    let name = names::fold(ident);
                    let at = projection.columns.iter().position(|c| c.name == name).expect("just found");
                    projection.exprs[at].clone()
                }
                e => {
                    let typed = self.exprs(scope).lower(e)?;
                    typed.expr
                }
            };
            let descending = term.options.asc == Some(false);
            order.push(Order {
                expr,
                descending,
                nulls_first: term.options.nulls_first.unwrap_or(descending),
            });
        }
        Ok(order)
    }

    fn limits(&mut self, clause: Option<&ast::LimitClause>) -> Lowered<(Option<Expr>, Option<Expr>)> {
        let scope = Scope::default();
        let mut count = |e: &ast::Expr| -> Lowered<Option<Expr>> {
            if matches!(e, ast::Expr::Identifier(i) if i.value.eq_ignore_ascii_case("all")) {
                return Ok(None);
            }
            let mut lowering = self.exprs(&scope);
            let typed = lowering.lower(e)?;
            Ok(Some(lowering.resolve(typed, DataType::BigInt)?.expr))
        };
        match clause {
            None => Ok((None, None)),
            Some(ast::LimitClause::LimitOffset { limit, offset, limit_by }) if limit_by.is_empty() => {
                let limit = limit.as_ref().map(&mut count).transpose()?.flatten();
                let offset = offset.as_ref().map(|o| count(&o.value)).transpose()?.flatten();
                Ok((limit, offset))
            }
            Some(_) => Err(Refusal::TooRich),
        }
    }
}

/// What a SELECT that locks or marks rows is called.
pub fn locking_word(lock: Option<Contended>) -> &'static str {
    if lock.is_some() { "SELECT FOR UPDATE" } else { "SELECT FOR SHARE" }
}

/// What FOR UPDATE says of locked rows; FOR SHARE locks none.
fn contended(clauses: &[ast::LockClause], scope: &Scope) -> Lowered<Option<Contended>> {
    let mut lock = None;
    for clause in clauses {
        if let Some(of) = &clause.of {
            let name = names::parts(of)?.pop().expect("a name has a part");
            if !scope.has_qualifier(&name) {
                let message = format!("relation \"{name}\" in FOR UPDATE clause not found in FROM clause");
                return Err(SqlError::new(SqlState::UNDEFINED_TABLE, message).into());
            }
        }
        if matches!(clause.lock_type, ast::LockType::Update) {
            lock = Some(match clause.nonblock {
                None => Contended::Wait,
                Some(ast::NonBlock::Nowait) => Contended::Fail,
                Some(ast::NonBlock::SkipLocked) => Contended::Skip,
            });
        }
    }
    Ok(lock)
}

/// What a clause FOR SHARE says of rows that others have locked; `None`: it does not look.
pub fn shared(clause: &ast::LockClause) -> Option<Contended> {
    match (&clause.lock_type, &clause.nonblock) {
        (ast::LockType::Share, Some(ast::NonBlock::Nowait)) => Some(Contended::Fail),
        (ast::LockType::Share, Some(ast::NonBlock::SkipLocked)) => Some(Contended::Skip),
        _ => None,
    }
}

impl Output {
    /// Columns of the rows found that these conditions and the output look at.
    pub(super) fn columns_with<'e>(
        &'e self,
        conditions: impl IntoIterator<Item = &'e Expr>,
    ) -> BTreeSet<usize> {
        let mut columns = BTreeSet::new();
        let arguments = self.aggregates.iter().filter_map(|a| a.argument());
        // Over results of aggregates, columns are not the table's.
        let projected = self.projection.exprs.iter().filter(|_| self.aggregates.is_empty());
        let ordered = self.order.iter().map(|o| &o.expr);
        let all = conditions.into_iter().chain(arguments).chain(projected).chain(ordered);
        all.for_each(|e| bind::columns_of(e, &mut columns));
        columns
    }
}

/// The columns that a SELECT looks at, in order; `None` where the whole row is needed.
fn columns(
    table: &Table,
    index: Option<&Index>,
    condition: Option<&Expr>,
    output: &Output,
) -> Option<Arc<Vec<u16>>> {
    // The entry of the last row that was read is made from the whole row.
    if index.is_some() {
        return None;
    }
    let columns = output.columns_with(condition);
    let few = columns.len() < table.columns.len();
    few.then(|| Arc::new(columns.into_iter().map(|c| c as u16).collect()))
}

/// Whether a SELECT has neither groups nor conditions on them, and no windows.
pub(super) fn has_no_groups(select: &ast::Select) -> bool {
    matches!(&select.group_by, ast::GroupByExpr::Expressions(e, m) if e.is_empty() && m.is_empty())
        && select.having.is_none()
        && select.qualify.is_none()
        && select.named_window.is_empty()
}

/// The SELECT of a query without grouping, nesting or anything else than a list, tables and a condition.
pub(super) fn plain_select(query: &ast::Query) -> Lowered<&ast::Select> {
    if query.with.is_some() || query.fetch.is_some() || query.for_clause.is_some() {
        return Err(Refusal::TooRich);
    }
    let ast::SetExpr::Select(select) = query.body.as_ref() else { return Err(Refusal::TooRich) };
    if select.distinct.is_some()
        || select.top.is_some()
        || select.into.is_some()
        || !has_no_groups(select)
        || !select.lateral_views.is_empty()
    {
        return Err(Refusal::TooRich);
    }
    Ok(select)
}

/// Whether the path yields rows in the wanted order, and in which direction.
fn natural_order(table: &Table, index: Option<&Index>, path: &KeyPath, order: &[Order]) -> Option<bool> {
    if order.is_empty() || path.is_point() {
        return Some(false);
    }
    // Several values of one column are read one after the other.
    if path.fixed_count() > path.equal_count() {
        return None;
    }
    let key: Vec<usize> = match index {
        None => table.primary_key.clone(),
        Some(index) => index.columns.iter().chain(&table.primary_key).copied().collect(),
    };
    let fixed = &key[..path.equal_count()];
    let mut rest = key[path.equal_count()..].iter().filter(|c| !fixed.contains(c));
    let descending = order[0].descending;
    for term in order {
        let Expr::Column(column) = term.expr else { return None };
        if term.descending != descending || term.nulls_first != descending {
            return None;
        }
        // Columns that are fixed have no say in the order.
        if fixed.contains(&column) {
            continue;
        }
        if *rest.next()? != column {
            return None;
        }
    }
    Some(descending)
}

impl RowSelectPlan {
    /// Whether locks of others have a say in what it does.
    pub fn heeds_locks(&self) -> bool {
        self.lock.is_some() || self.shared.is_some()
    }
    /// The filter that goes with what was reached.
    pub fn filter(&self, reached: &Reached, binding: &bind::Binding<'_>) -> SqlResult<Option<Expr>> {
        let filter = if reached.is_exact { &self.path.residual } else { &self.condition };
        filter.as_ref().map(|f| binding.fill(f)).transpose()
    }
}
