//! Bodies of functions that are SECURITY DEFINER: what they read is held against the privileges of their owners.

use crate::names;
use crate::privileges::Check;
use crate::routines::scopes::Lookup;
use crate::walk::{self, Walk};
use base::TableId;
use base::error::{SqlError, SqlResult};
use base::roles::{Object, Standing};
use base::routines::Routine;
use sqlparser::ast::{Expr, Statement, TableFactor, Visitor};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Functions whose value is the role that acts.
const ROLES: [&str; 3] = ["current_user", "current_role", "user"];

/// What the owner may do; `None`: the function acts with the rights of the role that calls it. Errors: 0A000 for a body
/// that asks for the role, which would be the one that calls.
pub(super) fn owner(check: &Check<'_>, routine: &Routine, body: &Statement) -> SqlResult<Option<Standing>> {
    if !routine.is_definer {
        return Ok(None);
    }
    let asks = |name: &str| ROLES.iter().any(|role| name.eq_ignore_ascii_case(role));
    let found: ControlFlow<()> = walk::expressions(body, |e| match e {
        Expr::Function(function) if asks(&function.name.to_string()) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    if found.is_break() {
        let told = "current_user in a function in SQL that is SECURITY DEFINER, inside a query";
        return Err(SqlError::unsupported(told)
            .hint(format!("Call the function alone: SELECT {}(…), or write it in PL/pgSQL.", routine.name)));
    }
    let roles = &check.catalog.roles;
    Ok(Some(roles.standing(roles.owner_of(&Object::Relation(routine.id)))))
}

/// Tables that a body reads.
pub(super) fn tables(lookup: Lookup<'_>, body: &Statement) -> BTreeSet<TableId> {
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
    found.1
}
