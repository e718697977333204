//! SELECT from one table by key: point reads and short ranges, answered from rows.

use super::aggregate::Aggregate;
use super::keys::{self, KeyPath, Reached};
use super::scope::Scope;
use super::{Lowered, Lowering, Projection, Refusal, bind};
use crate::names;
use base::DataType;
use base::error::SqlResult;
use base::expr::Expr;
use base::schema::{Index, Table};
use datafusion::sql::sqlparser::ast;
use std::sync::Arc;

/// A lowered SELECT of one table.
#[derive(Clone, Debug)]
pub struct RowSelectPlan {
    pub table: Arc<Table>,
    /// Reads through this index.
    pub index: Option<Index>,
    pub path: KeyPath,
    pub condition: Option<Expr>,
    pub projection: Projection,
    /// The projection is over the row of these instead of the table's rows.
    pub aggregates: Vec<Aggregate>,
    pub order: Vec<Order>,
    /// Rows come from the store in the wanted order; true is descending.
    pub natural: Option<bool>,
    pub limit: Option<Expr>,
    pub offset: Option<Expr>,
    pub for_update: bool,
    /// So few rows that columns would be slower.
    pub is_narrow: bool,
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
        if query.with.is_some() || query.fetch.is_some() || query.for_clause.is_some() {
            return Err(Refusal::TooRich);
        }
        let ast::SetExpr::Select(select) = query.body.as_ref() else { return Err(Refusal::TooRich) };
        let no_group =
            matches!(&select.group_by, ast::GroupByExpr::Expressions(e, m) if e.is_empty() && m.is_empty());
        if select.distinct.is_some()
            || select.top.is_some()
            || select.into.is_some()
            || !no_group
            || select.having.is_some()
            || select.qualify.is_some()
            || !select.named_window.is_empty()
            || !select.lateral_views.is_empty()
        {
            return Err(Refusal::TooRich);
        }
        let [from] = select.from.as_slice() else { return Err(Refusal::TooRich) };
        if !from.joins.is_empty() {
            return Err(Refusal::TooRich);
        }
        let ast::TableFactor::Table { name, alias, args: None, sample: None, .. } = &from.relation else {
            return Err(Refusal::TooRich);
        };
        // Tables of the system catalog are not ours to find.
        let Ok(table) = self.table(name) else { return Err(Refusal::TooRich) };
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
        let (projection, aggregates) = match self.projection(&select.projection, &table, &scope) {
            Err(Refusal::TooRich) if query.order_by.is_none() && query.limit_clause.is_none() => {
                self.aggregation(&select.projection, &scope)?
            }
            other => (other?, Vec::new()),
        };
        let order = self.order(query.order_by.as_ref(), &scope, &projection)?;
        let (limit, offset) = self.limits(query.limit_clause.as_ref())?;

        let conjuncts = keys::conjuncts(condition.as_ref());
        let primary = KeyPath::primary(&table, &conjuncts);
        let (index, path) = match super::modify::narrowest_index(&table, &conjuncts, &primary) {
            Some((index, path)) => (Some(index), path),
            None => (None, primary),
        };
        let natural = natural_order(&table, index.as_ref(), &path, &order);
        let for_update = !query.locks.is_empty();
        let key_length = index.as_ref().map_or(table.primary_key.len(), |i| i.columns.len());
        let few = path.fixed_count() > 0
            && (path.fixed_count() + 1 >= key_length || (path.fixed_count() >= 2 && path.is_located()));
        // A table that one key column orders and nothing fixes is read as columns, unless few rows are wanted.
        let first_rows = limit.is_some()
            && (natural.is_some() && !order.is_empty() || path.fixed_count() > 0)
            && conjuncts.len() <= path.fixed_count() + usize::from(path.has_bound()) * 2;
        let single = path.fixed_count() > 0 || key_length > 1 || first_rows;
        let is_narrow = path.is_point() || (few && single) || first_rows;
        Ok(RowSelectPlan {
            table,
            index,
            path,
            condition,
            projection,
            aggregates,
            order,
            natural,
            limit,
            offset,
            for_update,
            is_narrow,
        })
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
    /// The filter that goes with what was reached.
    pub fn filter(&self, reached: &Reached, binding: &bind::Binding<'_>) -> SqlResult<Option<Expr>> {
        let filter = if reached.is_exact { &self.path.residual } else { &self.condition };
        filter.as_ref().map(|f| binding.fill(f)).transpose()
    }
}
