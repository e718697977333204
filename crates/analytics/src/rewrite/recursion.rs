//! WITH RECURSIVE: what PostgreSQL refuses is refused, in its words; items come in the order of their use.
//!
//! A recursive query is `non-recursive-term UNION [ALL] recursive-term`. The recursive term is evaluated over
//! the rows of the last round alone, so it names the query once, and nowhere where rows that are missing from
//! one round would count: not below an aggregate, on the nullable side of a join, or in a subquery.

use base::error::SqlResult;
use base::{SqlError, SqlState};
use datafusion::sql::sqlparser::ast::{
    self, Cte, Expr, Ident, JoinOperator, Query, Select, SelectItem, SetExpr, SetOperator, SetQuantifier,
    TableFactor, TableWithJoins, Value, Visitor, With,
};
use sql::walk::{Node, Walk};
use std::ops::ControlFlow;

/// Checks the items of a WITH RECURSIVE and puts those that others need before them. Errors: 42P19, 0A000.
pub(super) fn check(with: &mut With, is_aggregate: &dyn Fn(&str) -> bool) -> SqlResult<()> {
    if !with.recursive {
        return Ok(());
    }
    sort(with)?;
    for cte in &mut with.cte_tables {
        check_item(cte, is_aggregate)?;
        if mentions(&cte.query, &sql::names::fold(&cte.alias.name)) > 0 {
            settle_literals(&mut cte.query.body);
            if let SetExpr::SetOperation { right, .. } = cte.query.body.as_mut() {
                cover_casts(right);
            }
        }
    }
    Ok(())
}

/// Literals without a type that the non-recursive term answers are texts: the recursive term builds on them.
fn settle_literals(body: &mut SetExpr) {
    let as_text = |e: &mut Expr| {
        let is_open =
            matches!(&*e, Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)));
        if is_open && let Ok(cast) = sql::parse::parse_expr(&format!("CAST({e} AS text)")) {
            *e = cast;
        }
    };
    match body {
        SetExpr::Query(query) => settle_literals(&mut query.body),
        SetExpr::SetOperation { left, .. } => settle_literals(left),
        SetExpr::Values(values) => values.rows.iter_mut().flat_map(|row| &mut row.content).for_each(as_text),
        SetExpr::Select(select) => {
            for item in &mut select.projection {
                match item {
                    SelectItem::ExprWithAlias { expr, .. } => as_text(expr),
                    SelectItem::UnnamedExpr(e) => {
                        let name = sql::lower::output_name(e);
                        let mut expr = e.clone();
                        as_text(&mut expr);
                        if expr != *e {
                            let alias = Ident::with_quote('"', name);
                            *item = SelectItem::ExprWithAlias { expr, alias };
                        }
                    }
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

/// Puts casts that are written below a call of one argument: a cast on top will be the planner's.
fn cover_casts(body: &mut SetExpr) {
    match body {
        SetExpr::Query(query) => cover_casts(&mut query.body),
        SetExpr::Select(select) => {
            for item in &mut select.projection {
                let (e, alias) = match &*item {
                    SelectItem::UnnamedExpr(e) => (e, Ident::with_quote('"', sql::lower::output_name(e))),
                    SelectItem::ExprWithAlias { expr, alias } => (expr, alias.clone()),
                    _ => continue,
                };
                if matches!(e, Expr::Cast { .. })
                    && let Ok(expr) = sql::parse::parse_expr(&format!("coalesce({e})"))
                {
                    *item = SelectItem::ExprWithAlias { expr, alias };
                }
            }
        }
        _ => {}
    }
}

/// Whether a name can mean the query: it is not qualified.
fn names(name: &ast::ObjectName, query: &str) -> bool {
    matches!(sql::names::parts(name).as_deref(), Ok([only]) if only == query)
}

/// How often something names a query as a relation, where no inner WITH gives the name to another.
fn mentions<T: Node>(of: &T, query: &str) -> usize {
    struct Count<'q> {
        query: &'q str,
        shadowed: Vec<bool>,
        found: usize,
    }
    impl Visitor for Count<'_> {
        type Break = ();
        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
            let tables = query.with.iter().flat_map(|w| &w.cte_tables);
            let again = tables.into_iter().any(|c| sql::names::fold(&c.alias.name) == self.query);
            self.shadowed.push(again || self.shadowed.last() == Some(&true));
            ControlFlow::Continue(())
        }
        fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.shadowed.pop();
            ControlFlow::Continue(())
        }
        fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
            if let TableFactor::Table { name, args: None, .. } = factor
                && self.shadowed.last() != Some(&true)
                && names(name, self.query)
            {
                self.found += 1;
            }
            ControlFlow::Continue(())
        }
    }
    let mut count = Count { query, shadowed: Vec::new(), found: 0 };
    let _: ControlFlow<()> = of.walk(&mut count);
    count.found
}

/// Items that are named by earlier ones move before them.
fn sort(with: &mut With) -> SqlResult<()> {
    let named: Vec<String> = with.cte_tables.iter().map(|c| sql::names::fold(&c.alias.name)).collect();
    let needs: Vec<Vec<usize>> = (with.cte_tables.iter().enumerate())
        .map(|(i, cte)| {
            (0..named.len()).filter(|j| *j != i && mentions(&cte.query, &named[*j]) > 0).collect()
        })
        .collect();
    if needs.iter().enumerate().all(|(i, needs)| needs.iter().all(|j| *j < i)) {
        return Ok(());
    }
    let mut order: Vec<usize> = Vec::with_capacity(named.len());
    while order.len() < named.len() {
        let ready = |i: &usize| !order.contains(i) && needs[*i].iter().all(|j| order.contains(j));
        let Some(next) = (0..named.len()).find(ready) else {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "mutual recursion between WITH items is not implemented",
            ));
        };
        order.push(next);
    }
    let mut items: Vec<Option<Cte>> = std::mem::take(&mut with.cte_tables).into_iter().map(Some).collect();
    with.cte_tables = order.into_iter().filter_map(|i| items[i].take()).collect();
    Ok(())
}

fn check_item(cte: &Cte, is_aggregate: &dyn Fn(&str) -> bool) -> SqlResult<()> {
    let name = sql::names::fold(&cte.alias.name);
    if mentions(&cte.query, &name) == 0 {
        return Ok(());
    }
    let mut query = cte.query.as_ref();
    let (left, right) = loop {
        match query.body.as_ref() {
            SetExpr::Query(inner) if is_bare(query) => query = inner,
            SetExpr::SetOperation { op: SetOperator::Union, left, right, .. } => break (left, right),
            _ => {
                return Err(wrong(format!(
                    "recursive query \"{name}\" does not have the form non-recursive-term UNION [ALL] \
                     recursive-term"
                )));
            }
        }
    };
    if mentions(left, &name) > 0 {
        return Err(wrong(format!(
            "recursive reference to query \"{name}\" must not appear within its non-recursive term"
        )));
    }
    let not_implemented = |what: &str| {
        let message = format!("{what} in a recursive query is not implemented");
        Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
    };
    if query.order_by.is_some() {
        return not_implemented("ORDER BY");
    }
    if query.limit_clause.is_some() || query.fetch.is_some() {
        return not_implemented("LIMIT");
    }
    let mut term = Term { name: &name, is_aggregate, found: 0 };
    term.set_expr(right, None)
}

/// Whether a query is nothing but its body.
fn is_bare(query: &Query) -> bool {
    query.with.is_none() && query.order_by.is_none() && query.limit_clause.is_none() && query.fetch.is_none()
}

/// The recursive term, while it is walked; `within` says what a reference must not be in.
struct Term<'a> {
    name: &'a str,
    is_aggregate: &'a dyn Fn(&str) -> bool,
    found: usize,
}

impl Term<'_> {
    fn set_expr(&mut self, body: &SetExpr, within: Option<&str>) -> SqlResult<()> {
        match body {
            SetExpr::Select(select) => self.select(select, within),
            SetExpr::Query(query) => self.query(query, within),
            SetExpr::SetOperation { op, left, right, set_quantifier } => {
                let is_all = *set_quantifier == SetQuantifier::All;
                let (of_left, of_right) = match op {
                    SetOperator::Intersect if is_all => (Some("INTERSECT"), Some("INTERSECT")),
                    SetOperator::Except | SetOperator::Minus => (is_all.then_some("EXCEPT"), Some("EXCEPT")),
                    _ => (None, None),
                };
                self.set_expr(left, of_left.or(within))?;
                self.set_expr(right, of_right.or(within))
            }
            other => self.expressions(other),
        }
    }

    fn query(&mut self, query: &Query, within: Option<&str>) -> SqlResult<()> {
        for cte in query.with.iter().flat_map(|w| &w.cte_tables) {
            if sql::names::fold(&cte.alias.name) == self.name {
                return Ok(());
            }
            self.query(&cte.query, within)?;
        }
        self.set_expr(&query.body, within)?;
        query.order_by.iter().try_for_each(|o| self.expressions(o))
    }

    fn select(&mut self, select: &Select, within: Option<&str>) -> SqlResult<()> {
        let mut names_it = false;
        for from in &select.from {
            names_it |= self.joins(from, within)?;
        }
        for item in &select.projection {
            self.expressions(item)?;
        }
        select.selection.iter().chain(&select.having).try_for_each(|e| self.expressions(e))?;
        self.expressions(&select.group_by)?;
        if names_it && self.aggregates(select) {
            return Err(wrong(
                "aggregate functions are not allowed in a recursive query's recursive term".into(),
            ));
        }
        Ok(())
    }

    /// Answers whether the query is among the relations.
    fn joins(&mut self, joined: &TableWithJoins, within: Option<&str>) -> SqlResult<bool> {
        // What stands left of a join may become its nullable side.
        let outer = Some("an outer join");
        let is_nullable = |op: &JoinOperator| {
            matches!(op, JoinOperator::Right(_) | JoinOperator::RightOuter(_) | JoinOperator::FullOuter(_))
        };
        let last_nullable = joined.joins.iter().rposition(|j| is_nullable(&j.join_operator));
        let of = |place: usize| if last_nullable.is_some_and(|last| place <= last) { outer } else { within };
        let mut names_it = self.factor(&joined.relation, of(0))?;
        for (i, join) in joined.joins.iter().enumerate() {
            let own = match &join.join_operator {
                JoinOperator::Left(_) | JoinOperator::LeftOuter(_) | JoinOperator::FullOuter(_) => outer,
                _ => of(i + 1),
            };
            names_it |= self.factor(&join.relation, own)?;
            self.expressions(&join.join_operator)?;
        }
        Ok(names_it)
    }

    fn factor(&mut self, factor: &TableFactor, within: Option<&str>) -> SqlResult<bool> {
        match factor {
            TableFactor::Table { name, args: None, .. } if names(name, self.name) => {
                self.reference(within)?;
                Ok(true)
            }
            TableFactor::Derived { subquery, .. } => self.query(subquery, within).map(|()| false),
            TableFactor::NestedJoin { table_with_joins, .. } => self.joins(table_with_joins, within),
            other => self.expressions(other).map(|()| false),
        }
    }

    fn reference(&mut self, within: Option<&str>) -> SqlResult<()> {
        let refuse = |place: &str| {
            let name = self.name;
            Err(wrong(format!("recursive reference to query \"{name}\" must not appear {place}")))
        };
        if let Some(within) = within {
            return refuse(&format!("within {within}"));
        }
        self.found += 1;
        if self.found > 1 { refuse("more than once") } else { Ok(()) }
    }

    /// Of expressions only their subqueries can name the query, and must not.
    fn expressions<T: Node>(&mut self, of: &T) -> SqlResult<()> {
        match mentions(of, self.name) {
            0 => Ok(()),
            _ => self.reference(Some("a subquery")),
        }
    }

    /// Whether a SELECT computes aggregates, subqueries left out.
    fn aggregates(&self, select: &Select) -> bool {
        let items = select.projection.iter().filter_map(|item| match item {
            SelectItem::UnnamedExpr(e) | SelectItem::ExprWithAlias { expr: e, .. } => Some(e),
            _ => None,
        });
        items.chain(&select.having).any(|e| super::has_aggregate(e, self.is_aggregate))
    }
}

fn wrong(message: String) -> SqlError {
    SqlError::new(SqlState(*b"42P19"), message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(sql: &str) -> SqlResult<String> {
        let mut statement = sql::parse::parse(sql)?.remove(0);
        let ast::Statement::Query(query) = &mut statement else { panic!("{sql}") };
        check(query.with.as_mut().expect("WITH"), &|name| matches!(name, "sum" | "max" | "count"))?;
        Ok(statement.to_string())
    }

    #[test]
    fn a_recursive_term_names_its_query_once_and_where_each_row_counts_alone() {
        for (term, place) in [
            ("select sum(n) from r", "aggregate functions"),
            ("select r.n from a left join r on true", "an outer join"),
            ("select r.n from r right join a on true", "an outer join"),
            ("select r.n from b join r on true full join a on true", "an outer join"),
            ("select 1 from a where id in (select n from r)", "a subquery"),
            ("select (select max(n) from r)", "a subquery"),
            ("select x.n from r x, r y", "more than once"),
            ("select 1 except select n from r", "EXCEPT"),
            ("(select n from r intersect all select 1)", "INTERSECT"),
        ] {
            let sql = format!("with recursive r(n) as (select 1 union all {term}) select * from r");
            let refused = checked(&sql);
            // A set operation binds to the left: only the whole right operand is the recursive term.
            if term.starts_with("select 1 except") {
                assert!(refused.unwrap_err().message.contains("does not have the form"), "{term}");
                continue;
            }
            let error = refused.unwrap_err();
            assert_eq!(error.state, SqlState(*b"42P19"), "{term}");
            assert!(error.message.contains(place), "{term}: {}", error.message);
        }
        for term in [
            "select n + 1 from r",
            "select r.n from r left join a on true",
            "select s.n from (select n from r) s",
            "select n + (select count(*) from a) from r",
            "select sum(n) over () from r",
            "(select n from r except select 3)",
            "select 1 from a where exists (with r as (select 1) select 1 from r)",
        ] {
            checked(&format!("with recursive r(n) as (select 1 union all {term}) select * from r")).unwrap();
        }
    }

    #[test]
    fn items_come_in_the_order_of_their_use_and_not_in_a_circle() {
        let sorted =
            checked("with recursive b as (select * from a), a as (select 1) select * from b").unwrap();
        assert!(sorted.find("a AS (SELECT 1)") < sorted.find("b AS ("), "{sorted}");
        let circle =
            "with recursive x(n) as (select 1 union all select n from y), y as (select n from x) select 1";
        assert!(checked(circle).unwrap_err().message.contains("mutual recursion"));
    }
}
