//! Which program a call means, and what its arguments are.

use crate::session::plan::{Plan, Planner, lookup_of, names_of};
use crate::session::rich;
use analytics::Context;
use base::error::SqlResult;
use base::routines::{Language, Routine};
use sql::lower::scope::ParameterTypes;
use sql::routines::expand;
use sql::routines::resolve::{Resolved, Types, resolve};
use sql::routines::scopes::Scopes;
use sqlparser::ast::{Expr, FunctionArg, FunctionArguments, ObjectName};

/// The program that a call means, with all its arguments; `None` if it means something else. Errors: 42883, 42725, 42501.
pub(super) fn resolved(
    context: &Context<'_>,
    parameters: &ParameterTypes,
    name: &ObjectName,
    arguments: &[FunctionArg],
) -> SqlResult<Option<Resolved>> {
    let nothing = Scopes::default();
    let types = Types { lookup: lookup_of(context), scopes: &nothing, parameters, is_body: false };
    let found = resolve(types, name, arguments)?;
    let Some(found) = found.filter(|found| found.routine.language == Language::PlPgSql) else {
        return Ok(None);
    };
    expand::permit(&names_of(context), &found.routine)?;
    Ok(Some(found))
}

/// The arguments of a call as they are written.
pub(super) fn written(arguments: &FunctionArguments) -> &[FunctionArg] {
    match arguments {
        FunctionArguments::List(list) => &list.args,
        _ => &[],
    }
}

/// The query of a call's arguments, each of the type that the function takes.
pub(super) fn plan_arguments(
    context: &Context<'_>,
    routine: &Routine,
    given: Vec<Expr>,
    parameters: &mut ParameterTypes,
    plan: Planner,
) -> SqlResult<Option<Plan>> {
    if given.is_empty() {
        return Ok(None);
    }
    let cast = |(e, of)| expand::cast(context.catalog, e, of);
    let items = given.into_iter().zip(routine.types()).map(cast).collect::<SqlResult<Vec<_>>>()?;
    plan(context, &rich::select_of(items)?, parameters).map(Some)
}
