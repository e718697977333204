//! Which function a call means, and what its arguments are.

use crate::session::own_calls;
use crate::session::plan::{self, Plan};
use crate::session::rich;
use analytics::Context;
use base::error::SqlResult;
use base::roles::{Object, Privileges};
use base::routines::{Language, Parameter, Routine, TypeOf};
use base::{DataType, SqlError, SqlState};
use sql::lower::scope::ParameterTypes;
use sql::routines::{self, is_assignable};
use sqlparser::ast::{Expr, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName, Statement};
use std::sync::Arc;

/// The programs of a name that take so many arguments.
pub(super) fn named<'c>(context: &'c Context<'_>, name: &ObjectName, count: usize) -> Vec<&'c Arc<Routine>> {
    let Ok((schema, name)) = sql::names::qualified(name, context.database) else { return Vec::new() };
    let of_schema = |schema: &String| {
        let fits = |routine: &&Arc<Routine>| {
            routine.language == Language::PlPgSql
                && routine.schema == *schema
                && routine.name == name
                && (routine.required()..=routine.parameters.len()).contains(&count)
        };
        context.catalog.routines.0.values().filter(fits).collect::<Vec<_>>()
    };
    let mut schemas = routines::schemas(schema.as_ref(), context.search_path);
    schemas.find_map(|schema| Some(of_schema(schema)).filter(|found| !found.is_empty())).unwrap_or_default()
}

/// The arguments of a call. Errors: 0A000 for those that are named.
pub(super) fn unnamed(arguments: &FunctionArguments) -> SqlResult<Vec<Expr>> {
    let list = match arguments {
        FunctionArguments::None => return Ok(Vec::new()),
        FunctionArguments::List(list) if list.clauses.is_empty() && list.duplicate_treatment.is_none() => {
            &list.args
        }
        _ => return Err(SqlError::unsupported("these arguments of a function in PL/pgSQL")),
    };
    list.iter().map(one_unnamed).collect()
}

pub(super) fn one_unnamed(argument: &FunctionArg) -> SqlResult<Expr> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(e)) => Ok(e.clone()),
        _ => Err(SqlError::unsupported("named arguments of a function in PL/pgSQL")
            .hint("Give the arguments in their order.")),
    }
}

/// The one of several functions that arguments are for. Errors: 42725, 42501.
pub(super) fn chosen(
    context: &Context<'_>,
    name: &ObjectName,
    mut found: Vec<&Arc<Routine>>,
    arguments: &[Expr],
) -> SqlResult<Arc<Routine>> {
    if found.len() > 1 {
        let types: Vec<Option<DataType>> = arguments.iter().map(|e| known_type(context, e)).collect();
        let score = |routine: &Arc<Routine>| -> Option<usize> {
            let pairs = types.iter().zip(routine.types());
            pairs
                .map(|(given, of)| match given {
                    None => Some(0),
                    Some(given) if routines::unlimited(*given) == of.data_type => Some(1),
                    Some(given) => is_assignable(*given, of.data_type).then_some(0),
                })
                .sum()
        };
        let best = found.iter().filter_map(|routine| score(routine)).max();
        found.retain(|routine| score(routine) == best && best.is_some());
    }
    let routine = match found.as_slice() {
        [one] => Arc::clone(one),
        [] => {
            let message = format!("no function {name} takes arguments of these types");
            return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message)
                .hint("You might need to add explicit type casts."));
        }
        _ => {
            let message = format!("function {name} is not unique");
            return Err(SqlError::new(routines::AMBIGUOUS, message).hint(
                "Could not choose a best candidate function. You might need to add explicit type casts.",
            ));
        }
    };
    let check = plan::names_of(context);
    if !check.may(&Object::Relation(routine.id), Privileges::EXECUTE) {
        return Err(sql::privileges::denied(routine.kind(), &routine.name));
    }
    Ok(routine)
}

/// The type of an argument that has one by itself.
fn known_type(context: &Context<'_>, e: &Expr) -> Option<DataType> {
    if sql::routines::body::is_untyped(e) {
        return None;
    }
    let statement = select_of(vec![e.clone()]).ok()?;
    let plan = plan::plan_permitted(context, &statement, &mut ParameterTypes::default()).ok()?;
    plan.columns().and_then(|columns| columns.first().map(|column| column.data_type))
}

/// What stands for an argument that was left out.
pub(super) fn argument_left_out(parameter: &Parameter) -> SqlResult<Expr> {
    sql::parse::parse_expr(parameter.default.as_deref().unwrap_or("NULL"))
}

/// The query of a call's arguments, each of the type that the function takes.
pub(super) fn plan_arguments(
    context: &Context<'_>,
    routine: &Routine,
    mut given: Vec<Expr>,
    parameters: &mut ParameterTypes,
) -> SqlResult<Option<Plan>> {
    for parameter in routine.parameters.iter().skip(given.len()) {
        given.push(argument_left_out(parameter)?);
    }
    if given.is_empty() {
        return Ok(None);
    }
    let cast = |(e, of): (Expr, TypeOf)| {
        let name = routines::type_name(context.catalog, of);
        own_calls::cast(e, &name).ok_or_else(|| SqlError::internal("a type has a name"))
    };
    let items = given.into_iter().zip(routine.types()).map(cast).collect::<SqlResult<Vec<_>>>()?;
    plan::plan_permitted(context, &select_of(items)?, parameters).map(Some)
}

fn select_of(items: Vec<Expr>) -> SqlResult<Statement> {
    rich::select_of(items)
}
