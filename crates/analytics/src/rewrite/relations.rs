//! What names mean in a query: columns that USING and NATURAL merge, `*` over them, names that occur twice.
//!
//! A query is walked with the relations that its names can mean. USING and NATURAL become ON; an unqualified
//! name of a merged column becomes the expression that PostgreSQL gives it: the left column, the right one
//! (RIGHT), or the first that is not null (FULL). Subqueries give their columns PostgreSQL's names, and names
//! that occur twice are told apart by a mark that [`shown`] takes away again.
//!
//! KEEPS: where the columns of a relation are not known, what depends on them is left to the planner.

mod expressions;
mod offer;
mod ordering;

use self::expressions::Walk;
use self::offer::{Offer, Output, name_items, only, quoted};
use self::ordering::position_of;
use super::marks::{MARK, shown};
use super::{bags, correlated, distinct_on, grouping, limits, numbers, ordered, ties, windows};
use base::error::SqlResult;
use base::schema::Catalog;
use base::{SqlError, SqlState};
use datafusion::sql::sqlparser::ast::{
    self, Expr, Ident, JoinConstraint, JoinOperator, Query, Select, SelectItem, SetExpr, TableAlias,
    TableAliasColumnDef, TableFactor, TableWithJoins,
};
use sql::lower::output_name;
use sql::walk::{NodeMut, WalkMut};
use std::ops::ControlFlow;
use std::rc::Rc;

/// What tables there are.
pub(super) struct Tables<'a> {
    pub catalog: &'a Catalog,
    pub search_path: &'a [String],
}

impl Tables<'_> {
    /// Names of a table's columns; `None` if it is none of ours.
    fn columns(&self, name: &ast::ObjectName) -> Names {
        let words = sql::names::parts(name).ok()?;
        let (name, before) = words.split_last()?;
        let schema = before.last().map(String::as_str);
        let mut schemas = sql::temporary::schemas(schema, self.search_path);
        let table = schemas.find_map(|schema| self.catalog.table_named(schema, name))?;
        Some(table.visible_columns().map(|(_, c)| c.name.clone()).collect())
    }
}

/// Names of columns, if they are known.
type Names = Option<Vec<String>>;

/// Where a query stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Its columns' names are the client's.
    Top,
    /// In FROM or WITH: others refer to its columns by name.
    Relation,
    /// In an expression, or as the right operand of a set operation.
    Value,
}

/// Walks a statement's queries.
pub(super) struct Resolver<'a> {
    tables: Tables<'a>,
    /// Names that WITH gives, the innermost last.
    ctes: Vec<(String, Names)>,
    /// What enclosing queries offer, the innermost last.
    outer: Vec<Rc<Offer>>,
    is_aggregate: &'a dyn Fn(&str) -> bool,
    /// How many queries further out the query being walked names columns; zero if it names its own alone.
    reach: usize,
    /// How many lateral subqueries the query being walked is in. What is left of them is not offered.
    laterals: usize,
    /// Columns of all joins: each has those of both its sides.
    joined_columns: u64,
    /// The query walked last has aliases that its order does not mean, under other names.
    has_set_aside: bool,
}

impl<'a> Resolver<'a> {
    pub fn new(tables: Tables<'a>, is_aggregate: &'a dyn Fn(&str) -> bool) -> Resolver<'a> {
        Resolver {
            tables,
            ctes: Vec::new(),
            outer: Vec::new(),
            is_aggregate,
            reach: 0,
            laterals: 0,
            joined_columns: 0,
            has_set_aside: false,
        }
    }

    /// Columns of all joins that were found.
    pub fn joined_columns(&self) -> u64 {
        self.joined_columns
    }

    /// Rewrites a query and answers the names of its columns. Errors: 42702 and 42703 of names, 42P20 and
    /// 42704 of windows, 42P10 of columns that WITH names.
    pub fn query(&mut self, query: &mut Query, place: Place) -> SqlResult<Names> {
        let ties = limits::fetch_as_limit(query)?;
        let known = self.ctes.len();
        if let Some(with) = &mut query.with {
            for cte in &mut with.cte_tables {
                let name = sql::names::fold(&cte.alias.name);
                self.ctes.push((name.clone(), None));
                if !with.recursive {
                    self.ctes.pop();
                }
                let before = self.ctes.len();
                let columns = self.query(&mut cte.query, Place::Relation)?;
                let columns = self.aliased(columns, &mut cte.alias, !with.recursive, "WITH query")?;
                self.ctes.truncate(before - usize::from(with.recursive));
                self.ctes.push((name, columns));
            }
        }
        if place != Place::Relation || query.limit_clause.is_some() {
            distinct_on::order(query);
        }
        let Query { body, order_by, .. } = query;
        self.has_set_aside = false;
        let names = self.body(body, order_by.as_mut(), place);
        self.ctes.truncate(known);
        if std::mem::take(&mut self.has_set_aside)
            && place == Place::Relation
            && let Ok(Some(names)) = &names
        {
            ordered::name_outside(query, names);
        }
        if let Some(count) = ties {
            ties::write_out(query, names.as_ref().ok().and_then(|n| n.as_deref()), count)?;
            return names;
        }
        limits::keep_order_below(query);
        if let Ok(Some(names)) = &names {
            ordered::order_outside(query, names, self.is_aggregate);
        }
        names
    }

    fn body(
        &mut self,
        body: &mut SetExpr,
        order_by: Option<&mut ast::OrderBy>,
        place: Place,
    ) -> SqlResult<Names> {
        match body {
            SetExpr::Select(select) => self.select(select, order_by, place),
            SetExpr::Query(query) => self.query(query, place),
            SetExpr::Values(values) => {
                let width = values.rows.first().map_or(0, |row| row.content.len());
                values.rows.iter_mut().flat_map(|row| &mut row.content).for_each(numbers::as_integer);
                self.walk(values, &Rc::new(Offer::empty()), true)?;
                Ok(Some((1..=width).map(|n| format!("column{n}")).collect()))
            }
            SetExpr::SetOperation { op, left, right, set_quantifier } => {
                let names = self.body(left, None, place)?;
                self.body(right, None, Place::Value)?;
                if let (ast::SetQuantifier::All, Some(names)) = (&set_quantifier, &names)
                    && let Some(made) = bags::rewritten(*op, left, right, names)
                {
                    *body = made;
                }
                Ok(names)
            }
            _ => Ok(None),
        }
    }

    fn select(
        &mut self,
        select: &mut Select,
        order_by: Option<&mut ast::OrderBy>,
        place: Place,
    ) -> SqlResult<Names> {
        let mut order_by = order_by;
        distinct_on::settle(select, order_by.as_deref_mut())?;
        windows::write_out(select, order_by.as_deref_mut())?;
        grouping::write_out(select)?;
        grouping::having_of_all_rows(select, self.is_aggregate)?;
        grouping::refuse_aggregates(select, self.is_aggregate)?;
        let mut offer = Offer::empty();
        for from in &mut select.from {
            offer.add(self.joined(from)?);
            self.joined_columns += offer.width();
        }
        let has_subquery = correlated::has_subquery(&select.projection)
            || correlated::has_subquery(&select.selection)
            || correlated::has_subquery(&select.having)
            || order_by.as_deref().is_some_and(correlated::has_subquery);
        if has_subquery {
            offer.from = select.from.clone();
        }
        let offer = Rc::new(offer);
        self.items(&mut select.projection, &offer)?;
        let names = name_items(select, &offer, place);
        for e in select.selection.iter_mut().chain(&mut select.having).chain(&mut select.qualify) {
            self.walk(e, &offer, false)?;
        }
        self.walk(&mut select.group_by, &offer, true)?;
        self.walk(&mut select.distinct, &offer, true)?;
        if let Some(order_by) = order_by {
            self.has_set_aside = self.set_aside(select, order_by, &offer)?;
            self.order_by(order_by, select, &offer)?;
        }
        if place != Place::Relation {
            offer::tell_aliases_apart(&mut select.projection);
        }
        Ok(names)
    }

    /// ORDER BY: a bare name is an output column's first.
    fn order_by(&mut self, order_by: &mut ast::OrderBy, select: &Select, offer: &Rc<Offer>) -> SqlResult<()> {
        let ast::OrderByKind::Expressions(terms) = &mut order_by.kind else { return Ok(()) };
        for term in terms {
            grouping::refuse_constant(&term.expr, "ORDER BY")?;
            let name = match &term.expr {
                Expr::Identifier(ident) => Some(sql::names::fold(ident)),
                _ => None,
            };
            let mut named = select.projection.iter().filter_map(|item| match (item, &name) {
                (SelectItem::UnnamedExpr(e), Some(name)) => (output_name(e) == *name).then_some(e),
                (SelectItem::ExprWithAlias { expr, alias }, Some(name)) => {
                    (sql::names::fold(alias) == *name).then_some(expr)
                }
                _ => None,
            });
            match (named.next(), &name) {
                (Some(first), Some(name)) => {
                    // Two names of one column are no two columns.
                    let other = |e: &&Expr| *e != first && !self.is_same_column(e, first, offer);
                    if named.find(other).is_some() {
                        return Err(SqlError::new(
                            SqlState::AMBIGUOUS_COLUMN,
                            format!("ORDER BY \"{name}\" is ambiguous"),
                        ));
                    }
                }
                _ => {
                    ordering::refuse_beside_distinct(&term.expr, select)?;
                    self.walk(&mut term.expr, offer, true)?;
                }
            }
            if matches!(select.distinct, Some(ast::Distinct::Distinct))
                && let Some(position) = position_of(&term.expr, select)
            {
                term.expr = position;
            }
        }
        Ok(())
    }

    fn is_same_column(&self, a: &Expr, b: &Expr, offer: &Offer) -> bool {
        let column = |e: &Expr| match e {
            Expr::Identifier(ident) => {
                let name = sql::names::fold(ident);
                let mut found = offer.named(&name);
                found.next().filter(|_| found.next().is_none()).map(|o| o.expr.to_string())
            }
            Expr::CompoundIdentifier(path) => {
                let path: Vec<Ident> = path.iter().map(|i| quoted(&sql::names::fold(i))).collect();
                Some(Expr::CompoundIdentifier(path).to_string())
            }
            _ => None,
        };
        column(a).is_some() && column(a) == column(b)
    }

    fn joined(&mut self, from: &mut TableWithJoins) -> SqlResult<Offer> {
        let mut left = self.factor(&mut from.relation)?;
        for join in &mut from.joins {
            let right = self.factor(&mut join.relation)?;
            left = self.join(left, right, &mut join.join_operator)?;
            self.joined_columns += left.width();
        }
        Ok(left)
    }

    fn join(&mut self, left: Offer, right: Offer, operator: &mut JoinOperator) -> SqlResult<Offer> {
        let kept = match operator {
            JoinOperator::Right(_) | JoinOperator::RightOuter(_) => Kept::Right,
            JoinOperator::FullOuter(_) => Kept::Either,
            _ => Kept::Left,
        };
        let (left, right) = match operator {
            JoinOperator::Left(_) | JoinOperator::LeftOuter(_) => (left, right.is_outer()),
            JoinOperator::Right(_) | JoinOperator::RightOuter(_) => (left.is_outer(), right),
            JoinOperator::FullOuter(_) => (left.is_outer(), right.is_outer()),
            _ => (left, right),
        };
        // Rows without a partner stay, so that a subquery is a value for each of them.
        let has_missing = matches!(kept, Kept::Right | Kept::Either)
            || matches!(operator, JoinOperator::Left(_) | JoinOperator::LeftOuter(_));
        let together = |mut left: Offer, right| {
            left.add(right);
            left
        };
        let Some(constraint) = constraint_of(operator) else { return Ok(together(left, right)) };
        let common: Vec<String> = match constraint {
            JoinConstraint::On(condition) => {
                let both = Rc::new(together(left, right));
                self.walk(condition, &both, has_missing)?;
                return Ok(Rc::into_inner(both).unwrap_or_else(Offer::unknown));
            }
            JoinConstraint::None => return Ok(together(left, right)),
            JoinConstraint::Using(names) => {
                let last = |name| sql::names::parts(name).map(|mut parts| parts.pop().unwrap_or_default());
                names.iter().map(last).collect::<SqlResult<_>>()?
            }
            JoinConstraint::Natural => match (&left.outputs, &right.outputs) {
                (Some(of_left), Some(_)) => {
                    let names = of_left.iter().map(|o| shown(&o.name).to_string());
                    let mut common: Vec<String> = Vec::new();
                    for name in names.filter(|n| right.named(n).next().is_some()) {
                        if !common.contains(&name) {
                            common.push(name);
                        }
                    }
                    common
                }
                _ => Vec::new(),
            },
        };
        let (Some(of_left), Some(of_right)) = (&left.outputs, &right.outputs) else {
            let relations = left.relations.into_iter().chain(right.relations).collect();
            return Ok(Offer { relations, outputs: None, from: Vec::new() });
        };
        let is_using = matches!(constraint, JoinConstraint::Using(_));
        let mut merged = Vec::new();
        let mut condition: Option<Expr> = None;
        for name in &common {
            let (l, r) = (only(&left, name, "left", is_using)?, only(&right, name, "right", is_using)?);
            let equal = Expr::BinaryOp {
                left: Box::new(l.clone()),
                op: ast::BinaryOperator::Eq,
                right: Box::new(r.clone()),
            };
            condition = Some(match condition {
                None => equal,
                Some(before) => Expr::BinaryOp {
                    left: Box::new(before),
                    op: ast::BinaryOperator::And,
                    right: Box::new(equal),
                },
            });
            let expr = match kept {
                Kept::Left => l.clone(),
                Kept::Right => r.clone(),
                Kept::Either => sql::parse::parse_expr(&format!("COALESCE({l}, {r})"))?,
            };
            merged.push(Output { name: name.clone(), expr, is_merged: true });
        }
        let rest = of_left.iter().chain(of_right).filter(|o| !common.iter().any(|n| n == shown(&o.name)));
        merged.extend(rest.cloned());
        *constraint = JoinConstraint::On(match condition {
            Some(condition) => condition,
            None => sql::parse::parse_expr("true")?,
        });
        let relations = left.relations.into_iter().chain(right.relations).collect();
        Ok(Offer { relations, outputs: Some(merged), from: Vec::new() })
    }

    fn factor(&mut self, factor: &mut TableFactor) -> SqlResult<Offer> {
        match factor {
            TableFactor::Table { name, alias, args: None, .. } => {
                let words = sql::names::parts(name)?;
                let given = match words.as_slice() {
                    [only] => self.ctes.iter().rev().find(|(n, _)| n == only).map(|(_, c)| c.clone()),
                    _ => None,
                };
                let columns = given.unwrap_or_else(|| self.tables.columns(name));
                match alias {
                    Some(alias) => {
                        let columns = self.aliased(columns, alias, true, "table")?;
                        Ok(Offer::relation(sql::names::fold(&alias.name), columns))
                    }
                    None => Ok(Offer::relation(words.last().cloned().unwrap_or_default(), columns)),
                }
            }
            TableFactor::Derived { lateral, subquery, alias, .. } => {
                let is_of_values = offer::is_set_of_values(subquery);
                self.laterals += usize::from(*lateral);
                let columns = self.query(subquery, Place::Relation);
                self.laterals -= usize::from(*lateral);
                let columns = columns?;
                let Some(alias) = alias else { return Ok(Offer::unknown()) };
                let columns = self.aliased(columns, alias, true, "table")?;
                let mut offer = Offer::relation(sql::names::fold(&alias.name), columns);
                offer.relations.iter_mut().for_each(|relation| relation.is_of_values = is_of_values);
                Ok(offer)
            }
            TableFactor::NestedJoin { table_with_joins, alias } => {
                let mut offer = self.joined(table_with_joins)?;
                let Some(alias) = alias else { return Ok(offer) };
                let qualifier = sql::names::fold(&alias.name);
                let (Some(mut derived), Some(outputs)) =
                    (bags::derived("SELECT 1", alias), offer.outputs.take())
                else {
                    return Ok(Offer::relation(qualifier, None));
                };
                let mut columns = None;
                if let TableFactor::Derived { subquery, alias: Some(alias), .. } = &mut derived
                    && let SetExpr::Select(select) = subquery.body.as_mut()
                {
                    select.projection = outputs.iter().map(Output::item).collect();
                    select.from = vec![(**table_with_joins).clone()];
                    let names = name_items(select, &Offer::unknown(), Place::Relation);
                    columns = self.aliased(names, alias, true, "table")?;
                }
                *factor = derived;
                Ok(Offer::relation(qualifier, columns))
            }
            TableFactor::Table { alias: Some(alias), args: Some(_), .. } => {
                let columns = alias.columns.iter().map(|c| sql::names::fold(&c.name)).collect::<Vec<_>>();
                let columns = (!columns.is_empty()).then_some(columns);
                Ok(Offer::relation(sql::names::fold(&alias.name), columns))
            }
            _ => Ok(Offer::unknown()),
        }
    }

    /// Names of a relation's columns under an alias that may name the first of them. The others are named in
    /// it too, if `complete`.
    fn aliased(
        &self,
        columns: Names,
        alias: &mut TableAlias,
        complete: bool,
        what: &str,
    ) -> SqlResult<Names> {
        if alias.columns.is_empty() {
            return Ok(columns);
        }
        let mut named: Vec<String> = alias.columns.iter().map(|c| sql::names::fold(&c.name)).collect();
        let Some(columns) = columns else { return Ok(Some(named).filter(|_| !complete)) };
        if columns.len() < named.len() {
            let name = sql::names::fold(&alias.name);
            return Err(SqlError::new(
                SqlState::INVALID_COLUMN_REFERENCE,
                format!(
                    "{what} \"{name}\" has {} columns available but {} columns specified",
                    columns.len(),
                    named.len()
                ),
            ));
        }
        for column in &columns[named.len()..] {
            alias.columns.push(TableAliasColumnDef { name: quoted(column), data_type: None });
            named.push(column.clone());
        }
        Ok(Some(named))
    }

    /// Walks expressions that see what is offered; values rather than conditions, if `is_value`.
    fn walk<T: NodeMut>(&mut self, of: &mut T, offer: &Rc<Offer>, is_value: bool) -> SqlResult<()> {
        match of.walk_mut(&mut Walk::new(self, offer.clone(), is_value)) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(error) => Err(error),
        }
    }
}

/// Which side's column a merged column is.
#[derive(Clone, Copy)]
enum Kept {
    Left,
    Right,
    Either,
}

fn constraint_of(operator: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    match operator {
        JoinOperator::Join(c)
        | JoinOperator::Inner(c)
        | JoinOperator::Left(c)
        | JoinOperator::LeftOuter(c)
        | JoinOperator::Right(c)
        | JoinOperator::RightOuter(c)
        | JoinOperator::FullOuter(c)
        | JoinOperator::CrossJoin(c) => Some(c),
        _ => None,
    }
}
