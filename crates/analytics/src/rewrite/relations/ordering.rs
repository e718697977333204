//! ORDER BY: a bare name is an output column's first; in an expression names mean columns of FROM alone.

use super::offer::{Offer, quoted};
use super::{MARK, Resolver, correlated::has_subquery, shown};
use base::error::SqlResult;
use base::{SqlError, SqlState};
use datafusion::sql::sqlparser::ast::{self, Expr, Query, Select, SelectItem, Visitor};
use sql::walk::Walk;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Names that expressions mention.
#[derive(Default)]
struct Mentioned {
    /// Without a relation, outside of subqueries.
    plain: BTreeSet<String>,
    all: BTreeSet<String>,
    depth: usize,
}

impl Visitor for Mentioned {
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
        match e {
            Expr::Identifier(ident) => {
                let name = sql::names::fold(ident);
                if self.depth == 0 {
                    self.plain.insert(name.clone());
                }
                self.all.insert(name);
            }
            Expr::CompoundIdentifier(path) => self.all.extend(path.last().map(sql::names::fold)),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

impl Resolver<'_> {
    /// Gives aliases other names where a term mentions a column of FROM that is called the same: the planner would take the
    /// alias. Answers whether there are such. Errors: 42703 for an alias in an expression that is no column.
    pub(super) fn set_aside(
        &self,
        select: &mut Select,
        order_by: &mut ast::OrderBy,
        offer: &Offer,
    ) -> SqlResult<bool> {
        let ast::OrderByKind::Expressions(terms) = &mut order_by.kind else { return Ok(false) };
        let mut mentioned = Mentioned::default();
        for term in terms.iter().filter(|term| !matches!(term.expr, Expr::Identifier(_))) {
            let _: ControlFlow<()> = term.expr.walk(&mut mentioned);
        }
        let is_kept = offer.outputs.is_none() || matches!(select.distinct, Some(ast::Distinct::On(_)));
        if mentioned.all.is_empty() || is_kept {
            return Ok(false);
        }
        let mut any = false;
        for (n, item) in select.projection.iter_mut().enumerate() {
            let SelectItem::ExprWithAlias { expr, alias } = item else { continue };
            let name = sql::names::fold(alias);
            if !mentioned.all.contains(&name) || names_column(expr, &name) {
                continue;
            }
            if offer.named(&name).next().is_none() {
                match mentioned.plain.contains(&name) && !self.is_offered(&name, offer) {
                    true => return Err(no_column(shown(&name))),
                    false => continue,
                }
            }
            let aside = quoted(&format!("{name}{MARK}{n}"));
            for term in terms.iter_mut() {
                if matches!(&term.expr, Expr::Identifier(ident) if sql::names::fold(ident) == name) {
                    term.expr = Expr::Identifier(aside.clone());
                }
            }
            *alias = aside;
            any = true;
        }
        Ok(any)
    }

    /// Whether a name may mean something else than an alias.
    fn is_offered(&self, name: &str, offer: &Offer) -> bool {
        let may_offer = |offer: &Offer| {
            offer.outputs.is_none()
                || offer.named(name).next().is_some()
                || offer.relation_named(name).is_some()
        };
        may_offer(offer) || self.outer.iter().any(|offer| may_offer(offer))
    }
}

/// Errors: 42P10 for a subquery that rows without duplicates are ordered by and do not have.
pub(super) fn refuse_beside_distinct(e: &Expr, select: &Select) -> SqlResult<()> {
    let is_lost = matches!(select.distinct, Some(ast::Distinct::Distinct))
        && has_subquery(e)
        && position_of(e, select).is_none();
    if !is_lost {
        return Ok(());
    }
    let told = "for SELECT DISTINCT, ORDER BY expressions must appear in select list";
    Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, told))
}

/// Whether an item is the column whose name it has.
fn names_column(e: &Expr, name: &str) -> bool {
    match e {
        Expr::Identifier(ident) => sql::names::fold(ident) == name,
        Expr::CompoundIdentifier(path) => path.last().is_some_and(|last| sql::names::fold(last) == name),
        _ => false,
    }
}

fn no_column(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{name}\" does not exist"))
        .hint("In an expression of ORDER BY names are those of columns, not of the output.")
}

/// The position of the item that an expression is; `None` for columns and numbers, and where `*` stands for an unknown
/// number of items. The planner does not see that rows without duplicates have what they are ordered by.
pub(super) fn position_of(e: &Expr, select: &Select) -> Option<Expr> {
    if matches!(e, Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_)) {
        return None;
    }
    let is_same = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(item) | SelectItem::ExprWithAlias { expr: item, .. } => item == e,
        _ => false,
    };
    let is_one =
        |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. });
    let at = select.projection.iter().position(is_same)?;
    let is_known = select.projection[..at].iter().all(is_one);
    is_known.then(|| sql::parse::parse_expr(&(at + 1).to_string()).ok()).flatten()
}
