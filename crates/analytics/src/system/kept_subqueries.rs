//! The catalog library's rewrites without the one that answers NULL for a subquery as a value.
//!
//! A subquery in a select list becomes one of its first row, which the planner joins. The library's own way is left for
//! what cannot be planned so: questions of clients about features that there are none of here.

use datafusion::sql::sqlparser::ast::{self, Expr, SelectItem, SetExpr, Statement, VisitorMut};
use datafusion_pg_catalog::sql::rules::{
    AliasDuplicatedProjectionRewrite, CurrentUserVariableToSessionUserFunctionCall, FixArrayLiteral,
    FixVersionColumnName, PrependUnqualifiedPgTableName, ResolveUnqualifiedIdentifier,
    RewriteArrayAnyAllOperation, RewritePgCatalogOperator, RewriteRegCastToSubquery, SqlStatementRewriteRule,
    StripCallableQualifier, StripCollate,
};
use sql::walk::{self, WalkMut};
use std::ops::ControlFlow;
use std::sync::Arc;

/// The library's rules, in its order.
#[derive(Debug)]
pub(super) struct KeptSubqueries(Vec<Arc<dyn SqlStatementRewriteRule>>);

impl KeptSubqueries {
    pub fn new() -> KeptSubqueries {
        KeptSubqueries(vec![
            Arc::new(AliasDuplicatedProjectionRewrite),
            Arc::new(ResolveUnqualifiedIdentifier),
            Arc::new(RewriteArrayAnyAllOperation),
            Arc::new(PrependUnqualifiedPgTableName),
            Arc::new(StripCallableQualifier),
            Arc::new(FixArrayLiteral),
            Arc::new(CurrentUserVariableToSessionUserFunctionCall),
            Arc::new(StripCollate),
            Arc::new(RewritePgCatalogOperator),
            Arc::new(RewriteRegCastToSubquery::new()),
            Arc::new(FixVersionColumnName),
        ])
    }

    /// A statement in words that the planner knows, with its subqueries; `None` if it has none in a select list.
    pub fn rewrite(&self, statement: &Statement) -> Option<Statement> {
        let mut kept = self.0.iter().fold(statement.clone(), |statement, rule| rule.rewrite(statement));
        let mut first_rows = FirstRows { found: false };
        let _ = kept.walk_mut(&mut first_rows);
        first_rows.found.then_some(kept)
    }
}

struct FirstRows {
    found: bool,
}

impl VisitorMut for FirstRows {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut ast::Query) -> ControlFlow<()> {
        let SetExpr::Select(select) = query.body.as_mut() else { return ControlFlow::Continue(()) };
        for item in &mut select.projection {
            let (SelectItem::UnnamedExpr(e) | SelectItem::ExprWithAlias { expr: e, .. }) = item else {
                continue;
            };
            let _: ControlFlow<()> = walk::expressions_mut(e, |e| {
                if let Expr::Subquery(query) = e {
                    self.found = true;
                    take_first(query);
                }
                ControlFlow::Continue(())
            });
        }
        ControlFlow::Continue(())
    }
}

/// A query of one column and without an aggregate answers its first row alone.
fn take_first(query: &mut ast::Query) {
    let is_short = query.limit_clause.is_some() || query.fetch.is_some();
    let order = query.order_by.as_ref().map(|order| format!(" {order}")).unwrap_or_default();
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let [item] = select.projection.as_mut_slice() else { return };
    let (SelectItem::UnnamedExpr(e) | SelectItem::ExprWithAlias { expr: e, .. }) = item else { return };
    let is_grouped = !matches!(&select.group_by, ast::GroupByExpr::Expressions(e, _) if e.is_empty());
    if is_short || is_grouped || has_call_of_many_rows(e) {
        return;
    }
    if let Ok(first) = sql::parse::parse_expr(&format!("first_value({e}{order})")) {
        *e = first;
        query.order_by = None;
    }
}

fn has_call_of_many_rows(e: &Expr) -> bool {
    const CALLS: &[&str] = &[
        "count",
        "sum",
        "min",
        "max",
        "avg",
        "array_agg",
        "string_agg",
        "bool_or",
        "bool_and",
        "every",
        "unnest",
    ];
    walk::expressions(e, |e| match e {
        Expr::Function(call) if CALLS.contains(&call.name.to_string().to_lowercase().as_str()) => {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}
