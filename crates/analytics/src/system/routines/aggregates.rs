//! Aggregates of users: rows of `pg_aggregate`, and what makes them again.

use super::super::Made;
use super::{arguments, field as routine_field, shown, type_number, type_shown};
use crate::context::Context;
use base::identifier::quoted;
use base::routines::{Aggregate, FunctionName, Parallel, Routine};
use base::{DataType, Datum};
use sql::lower::oid;

const TEXT: DataType = DataType::Text;
const INT: DataType = DataType::Integer;
const BOOL: DataType = DataType::Boolean;

/// The function that gives a statement which makes an aggregate.
pub(in crate::system) const DEFINITION: &str = "meridian_aggregate_definition";

/// A function of an aggregate as `regproc` shows it.
fn function_shown(context: &Context<'_>, function: &FunctionName) -> String {
    match function.routine {
        Some(id) => shown(context, oid(id).into(), false),
        None => quoted(&function.name),
    }
}

/// The same with its schema.
fn function_named(context: &Context<'_>, function: &FunctionName) -> String {
    match function.routine.and_then(|id| context.catalog.routines.0.get(&id)) {
        Some(routine) => format!("{}.{}", quoted(&routine.schema), quoted(&routine.name)),
        None => quoted(&function.name),
    }
}

/// A column of an aggregate's row in `pg_aggregate`; `None` is null.
pub(in crate::system) fn field(context: &Context<'_>, routine: &Routine, name: &str) -> Option<Vec<String>> {
    let Aggregate { state, initial, transition, last } = routine.aggregate()?;
    let text = match name {
        "aggfnoid" => shown(context, oid(routine.id).into(), false),
        "aggkind" => "n".into(),
        "aggtransfn" => function_shown(context, transition),
        "aggfinalfn" => last.as_ref().map_or("-".into(), |last| function_shown(context, last)),
        "aggcombinefn" | "aggserialfn" | "aggdeserialfn" | "aggmtransfn" | "aggminvtransfn"
        | "aggmfinalfn" => "-".into(),
        "aggfinalextra" | "aggmfinalextra" => "false".into(),
        "aggfinalmodify" | "aggmfinalmodify" => "r".into(),
        "aggtranstype" => type_number(*state).to_string(),
        "aggnumdirectargs" | "aggsortop" | "aggtransspace" | "aggmtranstype" | "aggmtransspace" => "0".into(),
        "agginitval" => initial.clone()?,
        _ => return None,
    };
    Some(vec![text])
}

/// A statement that makes it; `None`: it is no aggregate.
pub(super) fn definition(context: &Context<'_>, routine: &Routine) -> Option<String> {
    let aggregate = routine.aggregate()?;
    let mut options = vec![
        format!("SFUNC = {}", function_named(context, &aggregate.transition)),
        format!("STYPE = {}", type_shown(context, aggregate.state)),
    ];
    if let Some(initial) = &aggregate.initial {
        options.push(format!("INITCOND = '{}'", initial.replace('\'', "''")));
    }
    if let Some(last) = &aggregate.last {
        options.push(format!("FINALFUNC = {}", function_named(context, last)));
    }
    match routine.parallel {
        Parallel::Unsafe => {}
        Parallel::Safe => options.push("PARALLEL = SAFE".into()),
        Parallel::Restricted => options.push("PARALLEL = RESTRICTED".into()),
    }
    let name = format!("{}.{}", quoted(&routine.schema), quoted(&routine.name));
    let arguments = match routine.parameters.is_empty() {
        true => "*".into(),
        false => arguments(context, routine, false),
    };
    Some(format!("CREATE AGGREGATE {name}({arguments}) ({})", options.join(", ")))
}

/// Columns of what `pg_dump` asks of one aggregate.
const DETAILS: &[(&str, DataType)] = &[
    ("oid", INT),
    ("aggtransfn", TEXT),
    ("aggfinalfn", TEXT),
    ("aggtranstype", TEXT),
    ("agginitval", TEXT),
    ("aggsortop", TEXT),
    ("aggkind", TEXT),
    ("aggtransspace", TEXT),
    ("aggmtransfn", TEXT),
    ("aggminvtransfn", TEXT),
    ("aggmfinalfn", TEXT),
    ("aggmtranstype", TEXT),
    ("aggmtransspace", TEXT),
    ("aggminitval", TEXT),
    ("aggcombinefn", TEXT),
    ("aggserialfn", TEXT),
    ("aggdeserialfn", TEXT),
    ("aggfinalextra", BOOL),
    ("aggmfinalextra", BOOL),
    ("aggfinalmodify", TEXT),
    ("aggmfinalmodify", TEXT),
    ("funcargs", TEXT),
    ("funciargs", TEXT),
    ("proparallel", TEXT),
];

/// One aggregate, as `pg_dump` asks for it by its number.
pub(in crate::system) fn dumped_details(context: &Context<'_>) -> Made {
    let mut made = Made::new(DETAILS);
    for routine in context.catalog.routines.0.values() {
        let Some(aggregate) = routine.aggregate() else { continue };
        let value = |(name, of): &(&str, DataType)| match *name {
            "oid" => Datum::Int(oid(routine.id).into()),
            "aggtransfn" => Datum::text(function_named(context, &aggregate.transition)),
            "aggfinalfn" => match &aggregate.last {
                Some(last) => Datum::text(function_named(context, last)),
                None => Datum::text("-"),
            },
            "aggtranstype" => Datum::text(type_shown(context, aggregate.state)),
            "aggmtranstype" => Datum::text("-"),
            "funcargs" | "funciargs" => Datum::text(arguments(context, routine, false)),
            "proparallel" => text(routine_field(context, routine, name)),
            _ if *of == BOOL => Datum::Bool(false),
            other => text(field(context, routine, other)),
        };
        made.rows.push(DETAILS.iter().map(value).collect());
    }
    made
}

fn text(values: Option<Vec<String>>) -> Datum {
    values.and_then(|values| values.into_iter().next()).map_or(Datum::Null, Datum::text)
}
