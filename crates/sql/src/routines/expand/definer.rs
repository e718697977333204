//! Bodies of functions that are SECURITY DEFINER: what they read is held against the privileges of their owners.

use crate::names;
use crate::privileges::Check;
use crate::routines::scopes::Lookup;
use crate::walk::{self, Walk};
use base::TableId;
use base::error::{SqlError, SqlResult};
use base::roles::{Object, Standing};
use base::routines::Routine;
use base::views::Relation;
use sqlparser::ast::{Expr, Statement, TableFactor, Visitor};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Functions whose value follows from the role that acts.
const ROLES: [&str; 4] = ["current_user", "current_role", "user", "pg_has_role"];

/// What the owner may do; `None`: the function acts with the rights of the role that calls it.
pub(super) fn owner(check: &Check<'_>, routine: &Routine) -> Option<Standing> {
    let roles = &check.catalog.roles;
    routine.is_definer.then(|| roles.standing(roles.owner_of(&Object::Relation(routine.id))))
}

/// Whether something asks for the role that acts.
fn asks_for_role(node: &(impl walk::Node + ?Sized)) -> bool {
    let found: ControlFlow<()> = walk::expressions(node, |e| {
        let Expr::Function(function) = e else { return ControlFlow::Continue(()) };
        let name = function.name.to_string().replace('"', "").to_ascii_lowercase();
        let name = name.strip_prefix("pg_catalog.").unwrap_or(&name);
        let is_privilege = name.starts_with("has_") && name.ends_with("_privilege");
        match is_privilege || ROLES.contains(&name) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    found.is_break()
}

/// Whether a relation is a view that asks for the role that acts, or that calls functions of users, or reads such a view.
fn depends_on_role(lookup: Lookup<'_>, relation: TableId) -> SqlResult<bool> {
    let Some(Relation::View(view)) = lookup.catalog.relation(relation) else { return Ok(false) };
    if view.partition.is_some() {
        return Ok(false);
    }
    for statement in crate::parse::parse(&view.definition)? {
        if asks_for_role(&statement) || super::calls_some(lookup, &statement) {
            return Ok(true);
        }
    }
    for used in view.uses.keys() {
        if depends_on_role(lookup, *used)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Tables that a body reads, in which other functions have been expanded. Errors: 0A000 for a body that asks for the role,
/// itself or in a view, which would be the one that calls.
pub(super) fn tables(
    lookup: Lookup<'_>,
    routine: &Routine,
    body: &Statement,
) -> SqlResult<BTreeSet<TableId>> {
    struct Tables<'a>(Lookup<'a>, BTreeSet<TableId>);
    impl Visitor for Tables<'_> {
        type Break = ();
        fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
            if let TableFactor::Table { name, args: None, .. } = factor
                && let Some(found) =
                    names::find_relation(self.0.catalog, self.0.search_path, self.0.database, name)
            {
                self.1.insert(found.shape().id);
            }
            ControlFlow::Continue(())
        }
    }
    let mut found = Tables(lookup, BTreeSet::new());
    let _ = body.walk(&mut found);
    let refused = |what: &str| {
        let told = format!("{what} in a function in SQL that is SECURITY DEFINER, inside a query");
        Err(SqlError::unsupported(told)
            .hint(format!("Call the function alone: SELECT {}(…), or write it in PL/pgSQL.", routine.name)))
    };
    if asks_for_role(body) {
        return refused("current_user");
    }
    for relation in &found.1 {
        if depends_on_role(lookup, *relation)? {
            return refused("a view that calls functions or asks for current_user");
        }
    }
    Ok(found.1)
}
