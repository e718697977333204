//! Calls in FROM.

use super::Expansion;
use crate::names::quoted;
use crate::routines::resolve::Resolved;
use crate::routines::scopes::Scopes;
use crate::routines::{body, hiding, places, unlimited};
use crate::volatile::is_volatile;
use crate::walk;
use base::error::{SqlError, SqlResult};
use base::routines::{ResultOf, Routine, TypeOf};
use sqlparser::ast::{self, Expr, FunctionArg, Ident, Query, SelectItem, TableFactor};
use std::ops::ControlFlow;

impl Expansion<'_, '_> {
    /// Puts a body in the place of a call in FROM.
    pub(super) fn factor(&mut self, factor: &mut TableFactor) -> SqlResult<()> {
        let (name, arguments, alias, with_ordinality) = match factor {
            TableFactor::Table { name, args: Some(args), alias, with_ordinality, .. } => {
                (name, &args.args, alias, *with_ordinality)
            }
            TableFactor::Function { name, args, alias, with_ordinality, .. } => {
                (name, &*args, alias, *with_ordinality)
            }
            _ => return Ok(()),
        };
        let Some(resolved) = self.resolved(name, arguments)? else { return Ok(()) };
        let routine = resolved.routine.clone();
        if with_ordinality {
            return Err(SqlError::unsupported("WITH ORDINALITY of a function of a user"));
        }
        if routine.is_procedure() {
            return Err(super::is_procedure(self.check.catalog, &routine));
        }
        if routine.aggregate().is_some() {
            return Err(super::aggregates::not_in_from());
        }
        let alias = alias.take();
        let is_lateral = reads_columns(arguments);
        let query = match routine.result {
            ResultOf::One(of) => {
                let query = self.body(&resolved)?;
                let value = self.scalar(query, &resolved, of)?;
                places::select_of(vec![(value, routine.name.clone())])
            }
            ResultOf::Void | ResultOf::Trigger | ResultOf::Procedure => {
                return Err(super::not_within(&routine));
            }
            _ => self.rows(&resolved)?,
        };
        let alias = self.alias(&routine, alias);
        *factor = TableFactor::Derived {
            lateral: is_lateral,
            subquery: Box::new(query),
            alias: Some(alias),
            sample: None,
        };
        Ok(())
    }

    /// A body in the place of a table.
    fn rows(&mut self, call: &Resolved) -> SqlResult<Query> {
        let routine = &call.routine;
        let mut query = self.body(call)?;
        // Rows of a table are in no order, and planning is easier without.
        if query.limit_clause.is_none() && query.fetch.is_none() {
            query.order_by = None;
        }
        let wanted = self.columns(routine);
        let known = Scopes::default().outputs(self.lookup(), &query);
        let is_as_wanted = known.len() == wanted.len()
            && known.iter().zip(&wanted).all(|((_, known), (_, of))| {
                of.domain.is_none() && known.map(unlimited) == Some(unlimited(of.data_type))
            });
        if !is_as_wanted {
            query = self.cast_columns(query, &wanted)?;
        }
        if matches!(routine.result, ResultOf::RowOf(_) | ResultOf::Record(_)) {
            query = places::one_row(query, &wanted);
        }
        let bound = self.arguments(call)?;
        if routine.is_strict {
            query = places::unless_null(query, &bound);
        }
        let bound: Vec<Expr> = bound.into_iter().map(|e| hiding::qualified(e, &self.scopes)).collect();
        let once = places::computed_once(&query, &bound);
        if self.scopes.innermost().len() > 1 && bound.iter().any(hiding::names_within) {
            return Err(SqlError::unsupported(
                "a subquery as an argument of a function in FROM, beside other tables",
            )
            .hint("Compute it in a subquery in FROM, and give the column to the function."));
        }
        if once.iter().zip(&bound).any(|(is_once, e)| *is_once && is_volatile(e)) {
            return Err(SqlError::unsupported(
                "a volatile argument of a function in FROM that is read more than once",
            )
            .hint("Compute it in a subquery in FROM, and give the column to the function."));
        }
        self.spent.expressions += places::size_with(&query, &bound);
        if self.spent.expressions > super::EXPRESSIONS_MAX {
            return Err(crate::parse::too_deep());
        }
        places::put(&mut query, &bound, &vec![false; bound.len()]);
        Ok(query)
    }

    fn columns(&self, routine: &Routine) -> Vec<(String, TypeOf)> {
        super::columns(self.check.catalog, routine)
    }

    fn cast_columns(&self, mut query: Query, wanted: &[(String, TypeOf)]) -> SqlResult<Query> {
        if let Some(items) = places::items_mut(&mut query).filter(|items| items.len() == wanted.len()) {
            for (item, (name, of)) in items.iter_mut().zip(wanted) {
                let e = body::expression(item).ok_or_else(|| SqlError::internal("a list of expressions"))?;
                let expr = super::cast(self.check.catalog, e.clone(), *of)?;
                *item = SelectItem::ExprWithAlias { expr, alias: quoted(name) };
            }
            return Ok(query);
        }
        let column = |nth: usize| Expr::Identifier(quoted(&format!("column{}", nth + 1)));
        let mut items = Vec::new();
        for (nth, (name, of)) in wanted.iter().enumerate() {
            items.push((super::cast(self.check.catalog, column(nth), *of)?, name.clone()));
        }
        let names: Vec<String> = (1..=wanted.len()).map(|nth| format!("column{nth}")).collect();
        let mut outer = places::select_of(items);
        places::set_from(&mut outer, query, "rows", &names);
        Ok(outer)
    }

    fn alias(&self, routine: &Routine, given: Option<ast::TableAlias>) -> ast::TableAlias {
        let given_name = given.as_ref().map(|alias| alias.name.clone());
        let name = given_name.clone().unwrap_or_else(|| quoted(&routine.name));
        let mut columns = given.map(|alias| alias.columns).unwrap_or_default();
        let is_scalar = matches!(routine.result, ResultOf::One(_) | ResultOf::SetOf(_))
            && routine.output_name().is_none();
        let own = self.columns(routine).into_iter().skip(columns.len());
        let own: Vec<Ident> = match given_name {
            Some(name) if is_scalar => own.map(|_| name.clone()).collect(),
            _ => own.map(|(name, _)| quoted(&name)).collect(),
        };
        columns.extend(own.into_iter().map(|name| ast::TableAliasColumnDef { name, data_type: None }));
        ast::TableAlias { explicit: true, name, columns, at: None }
    }
}

fn reads_columns(arguments: &[FunctionArg]) -> bool {
    let found: ControlFlow<()> = walk::expressions(&arguments.to_vec(), |e| match e {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}
