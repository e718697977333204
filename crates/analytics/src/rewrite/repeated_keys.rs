//! `ORDER BY a, b, a`: who stands there twice says nothing the second time. The planner's first rows of groups panic over
//! such a key, and a window takes it for two columns of one name.

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArgumentClause, FunctionArguments, OrderByExpr, OrderByKind, Query, Statement,
    VisitorMut, WindowType,
};
use sql::walk::WalkMut;
use std::ops::ControlFlow;

/// Drops keys that are written like one before them.
pub(super) fn drop(statement: &mut Statement) {
    struct Keys;
    impl VisitorMut for Keys {
        type Break = ();
        fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
            if let Some(order_by) = &mut query.order_by
                && let OrderByKind::Expressions(keys) = &mut order_by.kind
            {
                drop_from(keys);
            }
            ControlFlow::Continue(())
        }
        fn pre_visit_expr(&mut self, e: &mut Expr) -> ControlFlow<()> {
            if let Expr::Function(function) = e {
                drop_from_call(function);
            }
            ControlFlow::Continue(())
        }
    }
    let _: ControlFlow<()> = statement.walk_mut(&mut Keys);
}

fn drop_from_call(function: &mut Function) {
    if let FunctionArguments::List(list) = &mut function.args {
        for clause in &mut list.clauses {
            if let FunctionArgumentClause::OrderBy(keys) = clause {
                drop_from(keys);
            }
        }
    }
    drop_from(&mut function.within_group);
    if let Some(WindowType::WindowSpec(window)) = &mut function.over {
        drop_from(&mut window.order_by);
    }
}

fn drop_from(keys: &mut Vec<OrderByExpr>) {
    let mut n = 0;
    while n < keys.len() {
        match keys[..n].iter().any(|before| before.expr == keys[n].expr) {
            true => _ = keys.remove(n),
            false => n += 1,
        }
    }
}
