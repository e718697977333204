//! Expressions and predicates of indexes: which there may be, and the form in which the catalog keeps them.

use super::super::DdlContext;
use super::super::generated::ELSEWHERE;
use super::refuse_type;
use crate::aggregates::is_aggregate;
use crate::lower::bind;
use crate::lower::expr::Typed;
use crate::lower::scope::{ParameterTypes, Scope};
use crate::names;
use crate::types::NUMERIC;
use crate::walk;
use base::error::{SqlResult, SqlState};
use base::schema::Table;
use base::zone::Zone;
use base::{DataType, SqlError};
use sqlparser::ast;
use std::ops::ControlFlow;

/// Where an expression of an index stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Key,
    Predicate,
}

impl Place {
    fn one(self) -> &'static str {
        match self {
            Place::Key => "index expression",
            Place::Predicate => "index predicate",
        }
    }
    fn many(self) -> &'static str {
        match self {
            Place::Key => "index expressions",
            Place::Predicate => "index predicates",
        }
    }
}

impl DdlContext<'_> {
    /// An expression in the form in which it is kept: without the table's name, which may change. Errors: 0A000, 42803,
    /// 42P20 for what computes from more than one row, 42703 for a column of another table.
    pub(super) fn kept(&self, table: &Table, e: &ast::Expr, place: Place) -> SqlResult<ast::Expr> {
        refuse_more_than_a_row(e, place)?;
        let mut e = unnested(e).clone();
        let scope = Scope::table(table, None);
        let unknown = walk::expressions_mut(&mut e, |e| {
            if let ast::Expr::CompoundIdentifier(path) = &*e {
                if let Err(error) = scope.find(path) {
                    return ControlFlow::Break(error);
                }
                let column = path.last().expect("a name has a part").clone();
                *e = ast::Expr::Identifier(column);
            }
            ControlFlow::Continue(())
        });
        if let ControlFlow::Break(error) = unknown {
            return Err(error);
        }
        names::qualify_types(&mut e);
        Ok(e)
    }

    /// The type of what a key computes. Errors: 42P17 for what is not immutable, 42704, and those of the expression.
    pub(super) fn check_key(&self, table: &Table, e: &ast::Expr) -> SqlResult<DataType> {
        let typed = self.immutable(table, e, Place::Key)?;
        let data_type = match typed.data_type() {
            // A length is a column's, not an expression's.
            DataType::Varchar { .. } => DataType::Text,
            DataType::Numeric { .. } => NUMERIC,
            other => other,
        };
        refuse_type(data_type)?;
        Ok(data_type)
    }

    /// Errors: 42804 for what is no condition, 42P17, and those of the expression.
    pub(super) fn check_predicate(&self, table: &Table, e: &ast::Expr) -> SqlResult<()> {
        self.immutable(table, e, Place::Predicate).map(|_| ())
    }

    fn immutable(&self, table: &Table, e: &ast::Expr, place: Place) -> SqlResult<Typed> {
        let here = self.lowered_in(table, e, place, Zone::Utc)?;
        let there = self.lowered_in(table, e, place, ELSEWHERE)?;
        if bind::has_holes(&here.expr) || here.expr != there.expr {
            let told = format!("functions in {} must be marked IMMUTABLE", place.one());
            return Err(SqlError::new(SqlState(*b"42P17"), told));
        }
        Ok(here)
    }

    fn lowered_in(&self, table: &Table, e: &ast::Expr, place: Place, zone: Zone) -> SqlResult<Typed> {
        let mut parameters = ParameterTypes::default();
        let mut lowering = self.lowering(&mut parameters);
        let scope = Scope::table(table, None);
        let lowered = crate::zones::within(zone, || match place {
            Place::Key => lowering.exprs(&scope).lower(e),
            Place::Predicate => {
                let condition = lowering.exprs(&scope).condition(e, "WHERE")?;
                Ok(Typed::known(condition, DataType::Boolean))
            }
        });
        lowered.map_err(|refusal| refusal.or(|| SqlError::unsupported(format!("the {} {e}", place.one()))))
    }
}

/// Errors: 0A000 for a subquery, 42803 for an aggregate, 42P20 for a window function.
fn refuse_more_than_a_row(e: &ast::Expr, place: Place) -> SqlResult<()> {
    let refused = walk::expressions(e, |e| match e {
        ast::Expr::Subquery(_) | ast::Expr::Exists { .. } | ast::Expr::InSubquery { .. } => {
            let told = format!("cannot use subquery in {}", place.one());
            ControlFlow::Break(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, told))
        }
        ast::Expr::Function(function) if function.over.is_some() => {
            let told = format!("window functions are not allowed in {}", place.many());
            ControlFlow::Break(SqlError::new(SqlState(*b"42P20"), told))
        }
        ast::Expr::Function(function) if is_aggregate(function) => {
            let told = format!("aggregate functions are not allowed in {}", place.many());
            ControlFlow::Break(SqlError::new(SqlState(*b"42803"), told))
        }
        _ => ControlFlow::Continue(()),
    });
    match refused {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// An expression as it is kept in the catalog.
pub(super) fn parsed(text: &str) -> SqlResult<ast::Expr> {
    crate::parse::parse_expr(text).map(|e| unnested(&e).clone())
}

fn unnested(e: &ast::Expr) -> &ast::Expr {
    match e {
        ast::Expr::Nested(inner) => unnested(inner),
        e => e,
    }
}

/// A key as errors show it: a call as it is, anything else in parentheses.
pub(super) fn shown(e: &ast::Expr) -> String {
    match looks_like_a_call(e) {
        true => e.to_string(),
        false => format!("({e})"),
    }
}

/// Whether PostgreSQL writes an expression without parentheses where a list of keys is expected.
pub(super) fn looks_like_a_call(e: &ast::Expr) -> bool {
    use ast::Expr as E;
    matches!(
        e,
        E::Function(_)
            | E::Substring { .. }
            | E::Trim { .. }
            | E::Extract { .. }
            | E::Position { .. }
            | E::Ceil { .. }
            | E::Floor { .. }
            | E::Overlay { .. }
    )
}
