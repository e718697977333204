//! Subqueries that depend on the query around them by more than equality.
//!
//! The planner joins a subquery to the query around it where a column equals something from outside. Any other
//! dependence is made one of this kind: the values that the subquery names from outside are gathered, each
//! combination once, the subquery is computed for all combinations together, and what is left to the planner is
//! which combination a row has (Neumann and Kemper, "Unnesting Arbitrary Queries", BTW 2015).
//!
//! KEEPS: every row around finds its combination, since all rows of the FROM around are gathered, NULLs included.

mod mentions;

use super::aggregates::has_aggregate;
use super::bags::query_of;
use base::SqlError;
use base::error::SqlResult;
use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, Expr, GroupByExpr, Ident, Query, Select, SelectItem, SetExpr, TableFactor,
    TableWithJoins, VisitorMut,
};
use mentions::{columns_in, named_in, names_of, relations_in};
pub(super) use mentions::{has_subquery, shadows};
use sql::walk::WalkMut;
use std::ops::ControlFlow;

/// The query around a subquery.
pub(super) struct Outside<'a> {
    pub from: &'a [TableWithJoins],
    /// What its columns can be qualified with.
    pub qualifiers: Vec<String>,
    pub is_aggregate: &'a dyn Fn(&str) -> bool,
}

/// How a subquery is used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// Its row is a value.
    Value,
    /// EXISTS or IN as a condition, which the planner joins by any condition on its rows.
    Rows,
}

/// An expression whose subqueries stand side by side, with those made plannable that depend on what is outside.
/// `number` tells apart what is made here; it is counted up. Errors: 0A000 for an aggregate that is of the query around.
pub(super) fn rewrite(e: &mut Expr, outside: &Outside<'_>, number: &mut usize) -> SqlResult<()> {
    match e.walk_mut(&mut Subqueries { outside, number, depth: 0 }) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Subqueries<'a, 'o> {
    outside: &'a Outside<'o>,
    number: &'a mut usize,
    depth: usize,
}

impl VisitorMut for Subqueries<'_, '_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<SqlError> {
        self.depth += 1;
        ControlFlow::Continue(())
    }
    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<SqlError> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }
    fn post_visit_expr(&mut self, e: &mut Expr) -> ControlFlow<SqlError> {
        if self.depth > 0 {
            return ControlFlow::Continue(());
        }
        let subquery = match &*e {
            Expr::Subquery(subquery) => Some(subquery),
            Expr::Exists { subquery, .. } | Expr::InSubquery { subquery, .. } => Some(subquery),
            _ => None,
        };
        if let Some(dependent) = subquery.and_then(|query| Dependent::of(query, self.outside, 0))
            && dependent.has_aggregate_of_outside()
        {
            let what = "an aggregate in a subquery over columns of the query around it";
            return ControlFlow::Break(SqlError::unsupported(what));
        }
        let mut made = |query: &Query, used| {
            *self.number += 1;
            Dependent::of(query, self.outside, *self.number)?.rewritten(used)
        };
        match e {
            Expr::Subquery(query) => {
                if let Some(value) = made(query, Use::Value) {
                    *e = value;
                }
            }
            Expr::Exists { subquery, .. } => {
                if let Some(Expr::Subquery(rewritten)) = made(subquery, Use::Rows) {
                    *subquery = rewritten;
                }
            }
            Expr::InSubquery { expr, subquery, negated } => {
                // One row whatever is found: a value.
                if is_one_row(subquery, self.outside)
                    && let Some(value) = made(subquery, Use::Value)
                {
                    let op = if *negated { BinaryOperator::NotEq } else { BinaryOperator::Eq };
                    let left = Box::new(Expr::Nested(expr.clone()));
                    *e = Expr::Nested(Box::new(Expr::BinaryOp { left, op, right: Box::new(value) }));
                } else if let Some(Expr::Subquery(rewritten)) = made(subquery, Use::Rows) {
                    *subquery = rewritten;
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// A subquery that names columns from outside.
struct Dependent<'a, 'o> {
    query: &'a Query,
    select: &'a Select,
    /// With the qualifiers that no relation inside takes.
    outside: Outside<'o>,
    /// What it names, each once.
    named: Vec<Expr>,
    /// Name of the relation of combinations.
    alias: String,
}

impl<'a, 'o> Dependent<'a, 'o> {
    fn of(query: &'a Query, outside: &Outside<'o>, number: usize) -> Option<Dependent<'a, 'o>> {
        let SetExpr::Select(select) = query.body.as_ref() else { return None };
        if query.with.is_some() || outside.from.iter().any(is_lateral) {
            return None;
        }
        // A relation that only a derived table reads is not seen from here.
        let mut relations: Vec<String> = select.from.iter().flat_map(names_of).collect();
        relations.extend(relations_in(&select.projection));
        relations.extend(relations_in(&select.selection));
        relations.extend(relations_in(&select.having));
        relations.extend(relations_in(&query.order_by));
        let qualifiers = outside.qualifiers.iter().filter(|q| !relations.contains(q)).cloned().collect();
        let outside = Outside { from: outside.from, qualifiers, is_aggregate: outside.is_aggregate };
        let named = named_in(query, &outside);
        // Inside FROM a name from outside would become one from beside.
        let is_plain = !named.is_empty() && select.from.iter().all(|f| named_in(f, &outside).is_empty());
        let alias = format!("outside {number}");
        is_plain.then_some(Dependent { query, select, outside, named, alias })
    }

    fn rewritten(&self, used: Use) -> Option<Expr> {
        let is_grouped = !is_ungrouped(self.select);
        let is_aggregate = self.has_aggregate();
        if self.looks_around() || self.is_plannable(used) {
            return None;
        }
        match used {
            Use::Value if self.select.from.is_empty() && !is_aggregate && !is_grouped => self.inlined(),
            Use::Value if is_grouped => self.only_group(),
            Use::Value if is_aggregate && self.names_beside_aggregates() => self.lifted(),
            Use::Value if is_aggregate => self.joined(),
            Use::Value => None,
            Use::Rows if is_aggregate && !is_grouped => None,
            Use::Rows => self.joined(),
        }
    }

    fn has_aggregate(&self) -> bool {
        self.select.projection.iter().any(|item| has_aggregate(item, self.outside.is_aggregate))
    }

    /// Whether an aggregate has nothing but columns from outside as its arguments: it is one of the rows around.
    fn has_aggregate_of_outside(&self) -> bool {
        let is_of_outside = std::cell::Cell::new(false);
        let look = |call: &Expr| {
            let named = named_in(call, &self.outside).len();
            is_of_outside.set(is_of_outside.get() || named > 0 && named == columns_in(call));
            null()
        };
        let mut projection = self.select.projection.clone();
        for item in &mut projection {
            let mut each = Aggregates { is_aggregate: self.outside.is_aggregate, with: &look };
            let _ = item.walk_mut(&mut each);
        }
        is_of_outside.get()
    }

    fn looks_around(&self) -> bool {
        self.select.projection.iter().any(super::makes_rows_or_looks_around)
    }

    /// Whether all that it names from outside is what a column of its own has to equal; of rows, anything that
    /// a condition on them says.
    fn is_plannable(&self, used: Use) -> bool {
        let is_free = |named: Vec<Expr>| named.is_empty();
        let select = self.select;
        let elsewhere = is_free(named_in(&select.projection, &self.outside))
            && is_free(named_in(&select.group_by, &self.outside))
            && is_free(named_in(&select.having, &self.outside))
            && is_free(named_in(&select.distinct, &self.outside))
            && is_free(named_in(&self.query.order_by, &self.outside));
        let is_equality = |e: &Expr| match e {
            Expr::BinaryOp { left, op: BinaryOperator::Eq, right } => {
                let is_column = |e: &Expr| matches!(e, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
                let is_outer_only =
                    |e: &Expr| columns_in(e) == named_in(e, &self.outside).len() && !has_subquery(e);
                let own = |e: &Expr| is_column(e) && named_in(e, &self.outside).is_empty();
                (own(left) && is_outer_only(right)) || (own(right) && is_outer_only(left))
            }
            _ => false,
        };
        let conditions = conjuncts(select.selection.as_ref());
        let mut depending = conditions.into_iter().filter(|e| !named_in(*e, &self.outside).is_empty());
        elsewhere
            && match used {
                Use::Rows => depending.all(|e| !has_subquery(e)) && !self.has_aggregate(),
                Use::Value => depending.all(is_equality),
            }
    }

    fn names_beside_aggregates(&self) -> bool {
        let mut projection = self.select.projection.clone();
        for item in &mut projection {
            let mut left_out = Aggregates { is_aggregate: self.outside.is_aggregate, with: &|_| null() };
            let _ = item.walk_mut(&mut left_out);
        }
        !named_in(&projection, &self.outside).is_empty()
    }

    /// A value of nothing but what is outside.
    fn inlined(&self) -> Option<Expr> {
        let [SelectItem::UnnamedExpr(e) | SelectItem::ExprWithAlias { expr: e, .. }] =
            self.select.projection.as_slice()
        else {
            return None;
        };
        let is_whole = self.select.selection.is_none()
            && self.select.having.is_none()
            && self.query.limit_clause.is_none()
            && !has_subquery(e);
        is_whole.then(|| Expr::Nested(Box::new(e.clone())))
    }

    /// Each aggregate as a subquery of its own, the rest of the expression outside.
    fn lifted(&self) -> Option<Expr> {
        let [SelectItem::UnnamedExpr(e) | SelectItem::ExprWithAlias { expr: e, .. }] =
            self.select.projection.as_slice()
        else {
            return None;
        };
        if self.select.having.is_some() || self.query.limit_clause.is_some() || has_subquery(e) {
            return None;
        }
        let subquery = |call: &Expr| {
            let mut query = self.query.clone();
            query.order_by = None;
            if let SetExpr::Select(select) = query.body.as_mut() {
                select.projection = vec![SelectItem::UnnamedExpr(call.clone())];
            }
            let dependent = Dependent::of(&query, &self.outside, 0)
                .map(|d| Dependent { alias: self.alias.clone(), ..d })
                .and_then(|d| d.rewritten(Use::Value));
            dependent.unwrap_or_else(|| Expr::Subquery(Box::new(query)))
        };
        let mut lifted = e.clone();
        let mut each = Aggregates { is_aggregate: self.outside.is_aggregate, with: &subquery };
        let _ = lifted.walk_mut(&mut each);
        Some(Expr::Nested(Box::new(lifted)))
    }

    /// The subquery over its own rows and the combinations; which one is meant is an equality.
    fn joined(&self) -> Option<Expr> {
        let mut query = self.substituted()?;
        if let Some(limit) = query.limit_clause.take()
            && super::limits::keeps_one(&limit).is_none()
        {
            return None;
        }
        query.order_by = None;
        let select = select_of(&mut query)?;
        add_condition(select, self.matches(&self.alias)?);
        if let GroupByExpr::Expressions(terms, _) = &mut select.group_by
            && !terms.is_empty()
        {
            terms.extend(self.columns());
        }
        Some(Expr::Subquery(Box::new(query)))
    }

    /// The value of the only group of a combination.
    fn only_group(&self) -> Option<Expr> {
        if self.query.limit_clause.is_some() || self.select.projection.len() != 1 {
            return None;
        }
        let mut query = self.substituted()?;
        query.order_by = None;
        let columns = self.columns();
        let select = select_of(&mut query)?;
        if let GroupByExpr::Expressions(terms, _) = &mut select.group_by {
            terms.extend(columns.iter().cloned());
        }
        select.projection.extend(columns.into_iter().map(SelectItem::UnnamedExpr));
        let names: Vec<String> = (0..self.named.len()).map(|n| format!("o{n}, k{n}")).collect();
        let grouped = format!("{} grouped", self.alias);
        let only = crate::only::ONLY;
        let text = format!(
            "SELECT {only}(v) FROM (SELECT 1) AS \"{grouped}\" (v, {}) WHERE {}",
            names.join(", "),
            self.matches(&grouped)?
        );
        let mut outer = query_of(&text)?;
        let TableFactor::Derived { subquery, .. } = &mut select_of(&mut outer)?.from.first_mut()?.relation
        else {
            return None;
        };
        **subquery = query;
        Some(Expr::Subquery(Box::new(outer)))
    }

    /// The combinations' columns: each value, and a text that is never NULL by which a row finds it.
    fn columns(&self) -> Vec<Expr> {
        let column = |name: String| {
            Expr::CompoundIdentifier(vec![Ident::with_quote('"', &self.alias), Ident::new(name)])
        };
        (0..self.named.len()).flat_map(|n| [column(format!("o{n}")), column(format!("k{n}"))]).collect()
    }

    fn matches(&self, alias: &str) -> Option<Expr> {
        let equal = |(n, e): (usize, &Expr)| format!("\"{alias}\".k{n} = {}", key_of(e));
        let conditions: Vec<String> = self.named.iter().enumerate().map(equal).collect();
        sql::parse::parse_expr(&conditions.join(" AND ")).ok()
    }

    /// The subquery with the combinations beside its relations, and their columns for what is outside.
    fn substituted(&self) -> Option<Query> {
        let gathered = |(n, e): (usize, &Expr)| format!("{e} AS o{n}, {} AS k{n}", key_of(e));
        let items: Vec<String> = self.named.iter().enumerate().map(gathered).collect();
        let text = format!("SELECT 1 FROM (SELECT DISTINCT {}) AS \"{}\"", items.join(", "), self.alias);
        let mut combinations = query_of(&text)?;
        let mut combinations = select_of(&mut combinations)?.from.pop()?;
        let TableFactor::Derived { subquery, .. } = &mut combinations.relation else { return None };
        select_of(subquery)?.from = self.outside.from.to_vec();
        let mut query = self.query.clone();
        let columns = self.columns();
        let _ = query.walk_mut(&mut Substitute { named: &self.named, columns: &columns });
        select_of(&mut query)?.from.push(combinations);
        Some(query)
    }
}

/// A text for each value, and another one for NULL.
fn key_of(e: &Expr) -> String {
    format!("coalesce('=' || CAST({e} AS text), '')")
}

fn null() -> Expr {
    Expr::value(ast::Value::Null)
}

fn select_of(query: &mut Query) -> Option<&mut Select> {
    match query.body.as_mut() {
        SetExpr::Select(select) => Some(select),
        _ => None,
    }
}

fn is_ungrouped(select: &Select) -> bool {
    matches!(&select.group_by, GroupByExpr::Expressions(terms, _) if terms.is_empty())
}

/// Whether a query has one row, whatever there is.
fn is_one_row(query: &Query, outside: &Outside<'_>) -> bool {
    let SetExpr::Select(select) = query.body.as_ref() else { return false };
    is_ungrouped(select)
        && select.having.is_none()
        && query.limit_clause.is_none()
        && select.projection.iter().any(|item| has_aggregate(item, outside.is_aggregate))
}

fn is_lateral(from: &TableWithJoins) -> bool {
    let is = |factor: &TableFactor| matches!(factor, TableFactor::Derived { lateral: true, .. });
    is(&from.relation) || from.joins.iter().any(|join| is(&join.relation))
}

fn conjuncts(condition: Option<&Expr>) -> Vec<&Expr> {
    let mut found = Vec::new();
    let mut rest: Vec<&Expr> = condition.into_iter().collect();
    while let Some(e) = rest.pop() {
        match e {
            Expr::Nested(inner) => rest.push(inner),
            Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
                rest.extend([right.as_ref(), left.as_ref()]);
            }
            e => found.push(e),
        }
    }
    found
}

fn add_condition(select: &mut Select, condition: Expr) {
    select.selection = Some(match select.selection.take() {
        None => condition,
        Some(before) => Expr::BinaryOp {
            left: Box::new(Expr::Nested(Box::new(before))),
            op: BinaryOperator::And,
            right: Box::new(condition),
        },
    });
}

fn qualifier_of(e: &Expr) -> Option<String> {
    match e {
        Expr::CompoundIdentifier(path) if path.len() == 2 => Some(sql::names::fold(&path[0])),
        _ => None,
    }
}

struct Substitute<'a> {
    named: &'a [Expr],
    /// Value and key of each.
    columns: &'a [Expr],
}

impl VisitorMut for Substitute<'_> {
    type Break = ();
    fn post_visit_expr(&mut self, e: &mut Expr) -> ControlFlow<()> {
        if let Some(n) = self.named.iter().position(|named| named == e) {
            *e = self.columns[2 * n].clone();
        }
        ControlFlow::Continue(())
    }
}

/// Puts something in the place of each call of an aggregate, subqueries left out.
struct Aggregates<'a> {
    is_aggregate: &'a dyn Fn(&str) -> bool,
    with: &'a dyn Fn(&Expr) -> Expr,
}

impl VisitorMut for Aggregates<'_> {
    type Break = ();
    fn post_visit_expr(&mut self, e: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(call) = &*e
            && call.over.is_none()
            && let Some(name) = sql::names::parts(&call.name).ok().and_then(|mut parts| parts.pop())
            && (self.is_aggregate)(&name)
        {
            *e = (self.with)(e);
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(subquery: &str) -> String {
        let from = match query_of("SELECT 1 FROM t").map(|q| *q.body) {
            Some(SetExpr::Select(select)) => select.from,
            _ => unreachable!(),
        };
        let is_aggregate = |name: &str| matches!(name, "max" | "count");
        let outside = Outside { from: &from, qualifiers: vec!["t".into()], is_aggregate: &is_aggregate };
        let mut e = sql::parse::parse_expr(subquery).unwrap();
        rewrite(&mut e, &outside, &mut 0).unwrap();
        e.to_string()
    }

    #[test]
    fn what_meets_by_equality_stays_as_it_is() {
        for subquery in [
            "(SELECT max(x) FROM w WHERE w.a = t.a)",
            "(SELECT max(x) FROM w WHERE t.a + 1 = w.a AND w.x > 3)",
            "(SELECT max(x) FROM w)",
        ] {
            assert_eq!(rewritten(subquery), subquery);
        }
        let exists = "EXISTS (SELECT 1 FROM w WHERE w.a > t.a)";
        assert_eq!(rewritten(exists), exists);
    }

    #[test]
    fn what_meets_otherwise_is_computed_for_all_values_at_once() {
        let made = rewritten("(SELECT max(x) FROM w WHERE w.a > t.a)");
        assert!(made.contains("w.a > \"outside 1\".o0"), "{made}");
        assert!(made.contains("SELECT DISTINCT t.a AS o0"), "{made}");
        assert!(made.contains("\"outside 1\".k0 = coalesce('=' || CAST(t.a AS TEXT), '')"), "{made}");
        // The name inside is another one.
        let shadowed = "(SELECT max(x) FROM t WHERE t.b > t.a)";
        assert_eq!(rewritten(shadowed), shadowed);
    }

    #[test]
    fn what_is_beside_aggregates_is_computed_outside() {
        let made = rewritten("(SELECT max(x) + t.b FROM w WHERE w.a = t.a)");
        assert_eq!(made, "((SELECT max(x) FROM w WHERE w.a = t.a) + t.b)");
        assert_eq!(rewritten("(SELECT t.a + 1)"), "(t.a + 1)");
    }
}
