//! Names in expressions, and the subqueries among them.

use super::offer::{Offer, Relation};
use super::{Place, Resolver, shown};
use crate::rewrite::correlated::{self, Outside};
use crate::rewrite::numbers;
use crate::rewrite::subqueries::{self, Surroundings};
use base::error::SqlResult;
use base::{SqlError, SqlState};
use datafusion::sql::sqlparser::ast::{self, Expr, Ident, Query, Visitor, VisitorMut};
use sql::walk::{Walk as _, WalkMut};
use std::ops::ControlFlow;
use std::rc::Rc;

/// Names in expressions; subqueries are walked as queries of their own.
pub(super) struct Walk<'r, 'a> {
    resolver: &'r mut Resolver<'a>,
    offer: Rc<Offer>,
    depth: usize,
    is_value: bool,
    /// The subquery walked last names columns from outside.
    is_inner_correlated: bool,
    /// How many ANY and ALL are around: what they compare with has any number of rows.
    comparisons: usize,
    /// How many expressions are around that are more than a conjunction: below them a subquery is a value, for
    /// which unknown is not the same as false.
    beside_conjunction: usize,
}

impl<'r, 'a> Walk<'r, 'a> {
    pub fn new(resolver: &'r mut Resolver<'a>, offer: Rc<Offer>, is_value: bool) -> Walk<'r, 'a> {
        Walk {
            resolver,
            offer,
            depth: 0,
            is_value,
            is_inner_correlated: false,
            comparisons: 0,
            beside_conjunction: 0,
        }
    }

    /// What an unqualified name stands for, if that is not what it says.
    fn meaning(&mut self, name: &str) -> SqlResult<Option<Expr>> {
        let enclosing = self.resolver.outer.iter().rev();
        for (level, offer) in std::iter::once(&self.offer).chain(enclosing).enumerate() {
            if offer.outputs.is_none() {
                return Ok(None);
            }
            let mut found = offer.named(name);
            match (found.next(), found.next()) {
                (None, _) => {
                    if let Some(row) = offer.relation_named(name).and_then(Relation::row) {
                        self.resolver.reach = self.resolver.reach.max(level);
                        return row.map(Some);
                    }
                }
                (Some(one), None) => {
                    self.resolver.reach = self.resolver.reach.max(level);
                    // What comes from outside says from where, unless something inside is called the same.
                    let says_where = level > 0 && !self.hides(&one.expr, level);
                    return Ok((one.is_merged || says_where).then(|| one.expr.clone()));
                }
                (Some(_), Some(_)) => return Err(ambiguous(name)),
            }
        }
        self.reaches(self.beyond());
        Ok(None)
    }

    /// Whether a relation further inside than the level has the name of a column's relation.
    fn hides(&self, column: &Expr, level: usize) -> bool {
        let Expr::CompoundIdentifier(path) = column else { return true };
        let qualifier = path.first().map(sql::names::fold).unwrap_or_default();
        let enclosing = self.resolver.outer.iter().rev();
        std::iter::once(&self.offer)
            .chain(enclosing)
            .take(level)
            .any(|offer| offer.relations.iter().any(|r| r.qualifier == qualifier))
    }

    /// The expression with a qualifier for every name, so that it means the same inside a subquery.
    fn qualified(offer: &Offer, e: &Expr) -> Option<Expr> {
        struct Qualify<'o>(&'o Offer, usize);
        impl VisitorMut for Qualify<'_> {
            type Break = ();
            fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
                self.1 += 1;
                ControlFlow::Continue(())
            }
            fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
                self.1 -= 1;
                ControlFlow::Continue(())
            }
            fn post_visit_expr(&mut self, e: &mut Expr) -> ControlFlow<()> {
                // What a subquery names from here has its qualifier.
                let Expr::Identifier(ident) = &*e else { return ControlFlow::Continue(()) };
                if self.1 > 0 {
                    return ControlFlow::Continue(());
                }
                let name = sql::names::fold(ident);
                let mut found = self.0.named(&name);
                match (found.next(), found.next()) {
                    (Some(one), None) => *e = one.expr.clone(),
                    _ => return ControlFlow::Break(()),
                }
                ControlFlow::Continue(())
            }
        }
        let mut qualified = e.clone();
        qualified.walk_mut(&mut Qualify(offer, 0)).is_continue().then_some(qualified)
    }

    /// Whether an expression names a column of the query whose names are offered, but for what its subqueries name.
    fn names_own(offer: &Offer, e: &Expr) -> bool {
        struct Own<'o>(&'o Offer, usize);
        impl Visitor for Own<'_> {
            type Break = ();
            fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
                self.1 += 1;
                ControlFlow::Continue(())
            }
            fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
                self.1 -= 1;
                ControlFlow::Continue(())
            }
            fn pre_visit_expr(&mut self, e: &Expr) -> ControlFlow<()> {
                let is_own = match e {
                    _ if self.1 > 0 => false,
                    Expr::Identifier(name) => self.0.named(&sql::names::fold(name)).next().is_some(),
                    Expr::CompoundIdentifier(path) => {
                        let qualifier = path.first().map(sql::names::fold);
                        self.0.relations.iter().any(|r| Some(&r.qualifier) == qualifier.as_ref())
                    }
                    _ => false,
                };
                if is_own { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            }
        }
        e.walk(&mut Own(offer, 0)).is_break()
    }

    fn refuse_ambiguous(&mut self, path: &[Ident]) -> SqlResult<()> {
        let [qualifier, name] = path else { return Ok(()) };
        let (qualifier, name) = (sql::names::fold(qualifier), sql::names::fold(name));
        let relation = self.offer.relations.iter().find(|r| r.qualifier == qualifier);
        let is_outer = |o: &Rc<Offer>| o.relations.iter().any(|r| r.qualifier == qualifier);
        let level = match relation {
            Some(_) => 0,
            None => {
                let outer = self.resolver.outer.iter().rev().position(is_outer);
                outer.map_or_else(|| self.beyond(), |level| level + 1)
            }
        };
        let columns = relation.and_then(|r| r.columns.as_ref());
        let count = columns.map_or(0, |columns| columns.iter().filter(|c| shown(c) == name).count());
        self.reaches(level);
        match count {
            0 | 1 => Ok(()),
            _ => Err(ambiguous(&name)),
        }
    }

    /// How far out a name is that no query offers: left of a lateral subquery, if there is one around.
    fn beyond(&self) -> usize {
        if self.resolver.laterals > 0 { self.resolver.outer.len() + 1 } else { 0 }
    }

    /// A name means a column so many queries further out.
    fn reaches(&mut self, level: usize) {
        self.resolver.reach = self.resolver.reach.max(level);
    }
}

fn is_comparison(e: &Expr) -> bool {
    matches!(e, Expr::AnyOp { .. } | Expr::AllOp { .. })
}

/// Whether an expression is true exactly if all of its parts are.
fn is_conjunction(e: &Expr) -> bool {
    match e {
        Expr::BinaryOp { op, .. } => *op == ast::BinaryOperator::And,
        Expr::Nested(_) => true,
        _ => false,
    }
}

/// Whether a collation is the one that all texts have.
fn is_bytewise(collation: &ast::ObjectName) -> bool {
    let name = sql::names::parts(collation).ok().and_then(|mut parts| parts.pop());
    matches!(name.as_deref(), Some("C" | "POSIX" | "ucs_basic" | "default"))
}

/// `count(t.*)` is `count(t)`: how many rows of `t` there are, not how many of them all.
fn rows_as_arguments(e: &mut Expr) {
    let Expr::Function(call) = e else { return };
    let ast::FunctionArguments::List(list) = &mut call.args else { return };
    for argument in &mut list.args {
        let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::QualifiedWildcard(name)) = argument else {
            continue;
        };
        if let [ast::ObjectNamePart::Identifier(name)] = name.0.as_slice() {
            let row = Expr::Identifier(name.clone());
            *argument = ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(row));
        }
    }
}

fn ambiguous(name: &str) -> SqlError {
    SqlError::new(SqlState::AMBIGUOUS_COLUMN, format!("column reference \"{name}\" is ambiguous"))
}

impl VisitorMut for Walk<'_, '_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        self.depth += 1;
        if self.depth > 1 {
            return ControlFlow::Continue(());
        }
        let before = std::mem::take(&mut self.resolver.reach);
        self.resolver.outer.push(self.offer.clone());
        let walked = self.resolver.query(query, Place::Value);
        self.resolver.outer.pop();
        let inner = std::mem::replace(&mut self.resolver.reach, before);
        self.is_inner_correlated = inner > 0;
        self.reaches(inner.saturating_sub(1));
        match walked {
            Ok(_) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<SqlError> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, e: &mut Expr) -> ControlFlow<SqlError> {
        self.comparisons += usize::from(self.depth == 0 && is_comparison(e));
        self.beside_conjunction += usize::from(self.depth == 0 && !is_conjunction(e));
        rows_as_arguments(e);
        if let Expr::Function(call) = e {
            numbers::integer_argument(call);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, e: &mut Expr) -> ControlFlow<SqlError> {
        if self.depth > 0 {
            return ControlFlow::Continue(());
        }
        self.comparisons -= usize::from(is_comparison(e));
        self.beside_conjunction -= usize::from(!is_conjunction(e));
        if matches!(e, Expr::Subquery(_)) && self.comparisons > 0 {
            return ControlFlow::Continue(());
        }
        let is_of_subquery = matches!(
            e,
            Expr::Subquery(_)
                | Expr::Exists { .. }
                | Expr::InSubquery { .. }
                | Expr::AnyOp { .. }
                | Expr::AllOp { .. }
        );
        let outside = (is_of_subquery && !self.offer.from.is_empty()).then(|| Outside {
            qualifiers: self.offer.relations.iter().map(|r| r.qualifier.clone()).collect(),
            is_aggregate: self.resolver.is_aggregate,
        });
        if let Some(outside) = &outside
            && let Err(error) = correlated::refuse_outer_aggregate(e, outside)
        {
            return ControlFlow::Break(error);
        }
        let meaning = match &*e {
            Expr::Identifier(ident) => self.meaning(&sql::names::fold(ident)),
            Expr::CompoundIdentifier(path) => self.refuse_ambiguous(path).map(|()| None),
            _ => Ok(None),
        };
        let meaning = match meaning {
            Ok(None) => {
                let offer = self.offer.clone();
                let around = Surroundings {
                    is_value: self.is_value || self.beside_conjunction > 0,
                    is_correlated: self.is_inner_correlated,
                    qualified: &|e| Walk::qualified(&offer, e),
                    names_own: &|e| Walk::names_own(&offer, e),
                    is_aggregate: self.resolver.is_aggregate,
                };
                match &*e {
                    Expr::Collate { expr, collation } if is_bytewise(collation) => Ok(Some((**expr).clone())),
                    e => subqueries::replacement(e, &around),
                }
            }
            found => found,
        };
        match meaning {
            Ok(Some(meant)) => *e = meant,
            Ok(None) => {}
            Err(error) => return ControlFlow::Break(error),
        }
        if let Some(outside) = &outside {
            correlated::rewrite(e, outside);
        }
        ControlFlow::Continue(())
    }
}
