//! Calls in FROM.

use super::Expansion;
use crate::names::quoted;
use crate::routines::listed::with_listed_columns;
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
        let Some(mut resolved) = self.resolved(name, arguments)? else { return Ok(()) };
        resolved.routine = with_listed_columns(&resolved.routine, alias.as_mut(), with_ordinality)?;
        let routine = resolved.routine.clone();
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
                let query = places::select_of(vec![(value, routine.name.clone())]);
                if with_ordinality { places::numbered(query) } else { query }
            }
            ResultOf::Void | ResultOf::Trigger | ResultOf::Procedure => {
                return Err(super::not_within(&routine));
            }
            _ => self.rows(&resolved, with_ordinality)?,
        };
        let alias = self.alias(&routine, alias, with_ordinality);
        *factor = TableFactor::Derived {
            lateral: is_lateral,
            subquery: Box::new(query),
            alias: Some(alias),
            sample: None,
        };
        Ok(())
    }

    /// A body in the place of a table, with the numbers of its rows where they are asked for.
    fn rows(&mut self, call: &Resolved, is_numbered: bool) -> SqlResult<Query> {
        let routine = &call.routine;
        let mut query = self.body(call)?;
        // Rows of a table are in no order unless they are numbered, and planning is easier without.
        if !is_numbered && query.limit_clause.is_none() && query.fetch.is_none() {
            query.order_by = None;
        }
        let mut wanted = self.columns(routine);
        let known = Scopes::default().outputs(self.lookup(), &query);
        let is_as_wanted = known.len() == wanted.len()
            && known.iter().zip(&wanted).all(|((_, known), (_, of))| {
                let is_it = || of.domain.is_none() && known.map(unlimited) == Some(unlimited(of.data_type));
                of.any.is_some() || is_it()
            });
        let is_one_row = matches!(routine.result, ResultOf::RowOf(_) | ResultOf::Record(_));
        if is_numbered && !is_one_row {
            // Casts may change the order of what they are made over.
            query = places::numbered(query);
            wanted.push(("ordinality".to_string(), base::DataType::BigInt.into()));
        }
        if !is_as_wanted {
            query = self.cast_columns(query, &wanted)?;
        }
        if is_one_row {
            query = places::one_row(query, &wanted);
            query = if is_numbered { places::numbered(query) } else { query };
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

    fn alias(&self, routine: &Routine, given: Option<ast::TableAlias>, is_numbered: bool) -> ast::TableAlias {
        let given_name = given.as_ref().map(|alias| alias.name.clone());
        let name = given_name.clone().unwrap_or_else(|| quoted(&routine.name));
        let mut columns = given.map(|alias| alias.columns).unwrap_or_default();
        let is_scalar = matches!(routine.result, ResultOf::One(_) | ResultOf::SetOf(_))
            && routine.output_name().is_none();
        let own = self.columns(routine).into_iter();
        let mut own: Vec<Ident> = match given_name {
            Some(name) if is_scalar => own.map(|_| name.clone()).collect(),
            _ => own.map(|(name, _)| quoted(&name)).collect(),
        };
        own.extend(is_numbered.then(|| quoted("ordinality")));
        own.drain(..columns.len().min(own.len()));
        columns.extend(own.into_iter().map(|name| ast::TableAliasColumnDef { name, data_type: None }));
        ast::TableAlias { explicit: true, name, columns, at: None }
    }
}

/// Whether arguments name columns.
pub(crate) fn reads_columns(arguments: &[FunctionArg]) -> bool {
    let found: ControlFlow<()> = walk::expressions(&arguments.to_vec(), |e| match e {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}
