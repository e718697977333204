//! Whether aggregates are computed by a part of a query itself.

use datafusion::sql::sqlparser::ast::{Expr, Query, Visitor};
use sql::walk::{Node, Walk};
use std::ops::ControlFlow;

/// Whether an item of a SELECT computes an aggregate, subqueries left out.
pub(crate) fn has_aggregate<T: Node>(item: &T, is_aggregate: &dyn Fn(&str) -> bool) -> bool {
    item.walk(&mut Aggregates { is_aggregate, depth: 0 }).is_break()
}

struct Aggregates<'a> {
    is_aggregate: &'a dyn Fn(&str) -> bool,
    depth: usize,
}

impl Visitor for Aggregates<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }
    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }
    fn pre_visit_expr(&mut self, e: &Expr) -> ControlFlow<()> {
        let name = match e {
            Expr::Function(call) if self.depth == 0 && call.over.is_none() => {
                sql::names::parts(&call.name).ok().and_then(|mut parts| parts.pop())
            }
            _ => None,
        };
        match name {
            Some(name) if (self.is_aggregate)(&name) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}
