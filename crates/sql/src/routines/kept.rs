//! Texts that the catalog keeps, such as defaults and the queries of views: calls in them.

use super::expand::{Expansion, Spent, calls_some};
use super::resolve::named;
use super::scopes::Lookup;
use crate::lower::Lowering;
use crate::lower::scope::ParameterTypes;
use crate::names::quoted;
use crate::privileges::Check;
use crate::walk::{self, WalkMut};
use base::TableId;
use base::error::SqlResult;
use sqlparser::ast::{Expr, ObjectName, TableFactor, VisitorMut};
use std::cell::Cell;
use std::ops::ControlFlow;

/// Kept expressions within kept expressions.
const DEPTH_MAX: usize = 32;

thread_local! {
    /// Kept expressions within kept expressions, as of arguments that are left out.
    static KEPT: Cell<usize> = const { Cell::new(0) };
}

/// One more of them.
struct Deeper;

impl Deeper {
    fn enter() -> SqlResult<Deeper> {
        if KEPT.get() >= DEPTH_MAX {
            return Err(crate::parse::too_deep());
        }
        KEPT.set(KEPT.get() + 1);
        Ok(Deeper)
    }
}

impl Drop for Deeper {
    fn drop(&mut self) {
        KEPT.set(KEPT.get() - 1);
    }
}

/// An expression that the catalog keeps, without calls of functions of users. Errors: those of [`super::expand`].
pub fn expand_kept(lookup: Lookup<'_>, e: &mut Expr) -> SqlResult<()> {
    if lookup.catalog.routines.0.is_empty() || !calls_some(lookup, e) {
        return Ok(());
    }
    let standing = lookup.catalog.roles.standing(base::roles::ROOT);
    let check = Check {
        catalog: lookup.catalog,
        search_path: lookup.search_path,
        database: lookup.database,
        standing: &standing,
    };
    expand_permitted(&check, None, e)
}

/// The same of calls that a role makes; `permitted` is a function that the expression itself may call in any case. Errors:
/// those of [`super::expand`].
pub(super) fn expand_permitted(check: &Check<'_>, permitted: Option<TableId>, e: &mut Expr) -> SqlResult<()> {
    let _deeper = Deeper::enter()?;
    let parameters = ParameterTypes::default();
    let mut spent = Spent::default();
    let mut expansion = Expansion::new(check, &parameters, &mut spent, 0);
    expansion.permitted = permitted;
    match e.walk_mut(&mut expansion) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// Puts schemas before the names of users' functions, in what is kept as text.
pub fn qualify(lookup: Lookup<'_>, tree: &mut (impl walk::NodeMut + ?Sized)) {
    struct Names<'a>(Lookup<'a>);
    impl Names<'_> {
        fn name(&self, name: &mut ObjectName) {
            if let [_] = name.0.as_slice()
                && let Some(routine) = named(self.0, name).first()
            {
                let parts = [&routine.schema, &routine.name];
                *name = ObjectName::from(parts.map(|part| quoted(part)).to_vec());
            }
        }
    }
    impl VisitorMut for Names<'_> {
        type Break = ();
        fn post_visit_expr(&mut self, e: &mut Expr) -> ControlFlow<()> {
            if let Expr::Function(function) = e {
                self.name(&mut function.name);
            }
            ControlFlow::Continue(())
        }
        fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
            if let TableFactor::Table { name, args: Some(_), .. } | TableFactor::Function { name, .. } =
                factor
            {
                self.name(name);
            }
            ControlFlow::Continue(())
        }
    }
    if !lookup.catalog.routines.0.is_empty() {
        let _ = tree.walk_mut(&mut Names(lookup));
    }
}

impl Lowering<'_> {
    /// An expression that the catalog keeps, such as a default, without functions of users.
    pub fn kept_expression(&self, sql: &str) -> SqlResult<Expr> {
        let mut parsed = crate::parse::parse_expr(sql)?;
        let lookup = Lookup { catalog: self.catalog, search_path: self.search_path, database: self.database };
        expand_kept(lookup, &mut parsed)?;
        Ok(parsed)
    }
}
