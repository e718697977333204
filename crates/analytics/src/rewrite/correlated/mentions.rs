//! What a part of a query mentions: columns, relations, subqueries.

use super::{Outside, qualifier_of};
use datafusion::sql::sqlparser::ast::{Expr, Query, TableFactor, TableWithJoins, Visitor};
use sql::walk::{Node, Walk};
use std::ops::ControlFlow;

/// Columns from outside, each once; names of relations inside that are called the same do not count.
pub(super) fn named_in<T: Node>(of: &T, outside: &Outside<'_>) -> Vec<Expr> {
    struct Named<'a>(&'a [String], Vec<Expr>);
    impl Visitor for Named<'_> {
        type Break = ();
        fn pre_visit_expr(&mut self, e: &Expr) -> ControlFlow<()> {
            if qualifier_of(e).is_some_and(|q| self.0.contains(&q)) && !self.1.contains(e) {
                self.1.push(e.clone());
            }
            ControlFlow::Continue(())
        }
    }
    let mut named = Named(&outside.qualifiers, Vec::new());
    let _ = of.walk(&mut named);
    named.1
}

/// How many different columns an expression names.
pub(super) fn columns_in(e: &Expr) -> usize {
    struct Columns(Vec<Expr>);
    impl Visitor for Columns {
        type Break = ();
        fn pre_visit_expr(&mut self, e: &Expr) -> ControlFlow<()> {
            if matches!(e, Expr::Identifier(_) | Expr::CompoundIdentifier(_)) && !self.0.contains(e) {
                self.0.push(e.clone());
            }
            ControlFlow::Continue(())
        }
    }
    let mut columns = Columns(Vec::new());
    let _ = e.walk(&mut columns);
    columns.0.len()
}

pub(in super::super) fn has_subquery<T: Node>(of: &T) -> bool {
    struct Any;
    impl Visitor for Any {
        type Break = ();
        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            ControlFlow::Break(())
        }
    }
    of.walk(&mut Any).is_break()
}

/// Whether a relation inside a query has the name of one that an expression names from outside.
pub(in super::super) fn shadows(query: &Query, e: &Expr) -> bool {
    struct Qualifiers(Vec<Expr>);
    impl Visitor for Qualifiers {
        type Break = ();
        fn pre_visit_expr(&mut self, e: &Expr) -> ControlFlow<()> {
            if qualifier_of(e).is_some() {
                self.0.push(e.clone());
            }
            ControlFlow::Continue(())
        }
    }
    let mut named = Qualifiers(Vec::new());
    let _ = e.walk(&mut named);
    is_shadowed(query, &named.0)
}

/// Whether a relation inside has the name of one outside that is meant.
pub(super) fn is_shadowed(query: &Query, named: &[Expr]) -> bool {
    let relations = relations_in(query);
    named.iter().filter_map(qualifier_of).any(|q| relations.contains(&q))
}

/// What the relations of a FROM are called.
pub(super) fn names_of(from: &TableWithJoins) -> Vec<String> {
    let factors = std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation));
    factors
        .flat_map(|factor| match factor {
            TableFactor::NestedJoin { table_with_joins, alias: None } => names_of(table_with_joins),
            factor => name_of(factor).into_iter().collect(),
        })
        .collect()
}

pub(super) fn name_of(factor: &TableFactor) -> Option<String> {
    match factor {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::NestedJoin { alias: Some(alias), .. } => Some(sql::names::fold(&alias.name)),
        TableFactor::Table { name, .. } => sql::names::parts(name).ok().and_then(|mut parts| parts.pop()),
        _ => None,
    }
}

/// Names of all relations in something, those of its subqueries included.
pub(super) fn relations_in<T: Node>(of: &T) -> Vec<String> {
    struct Relations(Vec<String>);
    impl Visitor for Relations {
        type Break = ();
        fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
            self.0.extend(name_of(factor));
            ControlFlow::Continue(())
        }
    }
    let mut relations = Relations(Vec::new());
    let _ = of.walk(&mut relations);
    relations.0
}
