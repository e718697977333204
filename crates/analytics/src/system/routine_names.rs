//! Routines by their object ids and names.

use crate::context::Context;
use base::TableId;
use base::error::{SqlError, SqlResult, SqlState};
use base::routines::Routine;
use sql::lower::{FIRST_OID, oid};
use sql::parse::{RoutineKind, Signature};
use sql::routines;
use std::sync::Arc;

/// The routine of an object id.
pub(super) fn routine_of<'a>(context: &Context<'a>, number: i64) -> Option<&'a Arc<Routine>> {
    let id = u32::try_from(number).ok()?.checked_sub(FIRST_OID)?;
    context.catalog.routines.0.get(&TableId(id))
}

/// The object id of a function by its name, as `regproc` (without argument types) or `regprocedure` reads it. Errors:
/// 42883, 42725.
pub(super) fn named(context: &Context<'_>, name: &str, has_types: bool) -> SqlResult<i64> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let missing =
        || SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("function \"{name}\" does not exist"));
    let signature = sql::parse::signature_of(name).map_err(|_| missing())?;
    let signature = Signature { kind: RoutineKind::Routine, ..signature };
    if has_types && signature.types.is_none() {
        let told = "expected a left parenthesis";
        return Err(SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, told));
    }
    let found = sql::user_types::within(context.catalog, context.search_path, || {
        routines::find(context.catalog, context.search_path, context.database, &signature)
    });
    match found {
        Ok(routine) => Ok(oid(routine.id).into()),
        Err(error) if error.state == routines::AMBIGUOUS => {
            Err(SqlError::new(error.state, format!("more than one function named \"{name}\"")))
        }
        Err(_) => Err(missing()),
    }
}
