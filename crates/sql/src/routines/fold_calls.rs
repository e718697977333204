//! Names and texts of calls that aggregates of users are made of ([`super::fold`]).

use super::inferred::Inferred;
use super::polymorphic::{self, Pair};
use crate::names::quoted;
use base::error::SqlResult;
use base::routines::{FunctionName, Routine, TypeOf};
use base::schema::Catalog;
use base::{DataType, TableId};
use std::sync::Arc;

/// Begins the name of the function that makes a state of values; the aggregate's id follows. No client can say it, so
/// what is called is permitted and of the aggregate's types.
const PREFIX: &str = "\u{f8ff}fold ";

/// Functions of PostgreSQL's that are operators under a name.
const OPERATORS: [(&str, &[&str]); 5] = [
    ("+", &["int2pl", "int4pl", "int8pl", "float4pl", "float8pl", "numeric_add"]),
    ("*", &["int2mul", "int4mul", "int8mul", "float4mul", "float8mul", "numeric_mul"]),
    ("||", &["textcat", "array_cat"]),
    ("AND", &["booland_statefunc"]),
    ("OR", &["boolor_statefunc"]),
];

/// The name of the function that makes a state of an aggregate's values, to be quoted in a text. `types`: those of the
/// arguments, if the aggregate is polymorphic.
pub fn name_of(aggregate: TableId, types: &[DataType]) -> String {
    let types: Vec<String> = types.iter().map(|of| super::written_type(*of)).collect();
    format!("{PREFIX}{} {}", aggregate.0, types.join(", ")).trim_end().into()
}

/// The aggregate whose function has a name, with the types that a call has decided.
pub fn aggregate_of(catalog: &Catalog, name: &str) -> Option<Arc<Routine>> {
    let said = name.strip_prefix(PREFIX)?;
    let (id, types) = said.split_once(' ').unwrap_or((said, ""));
    let routine = catalog.routines.0.get(&TableId(id.parse().ok()?))?;
    if types.is_empty() {
        return Some(routine.clone());
    }
    let types = crate::parse::signature_of(&format!("f({types})")).ok()?.types?;
    let types = types.iter().map(super::type_of).collect::<SqlResult<Vec<TypeOf>>>().ok()?;
    let known = types.into_iter().map(|of| Inferred::Known(of.data_type));
    let pairs: Vec<Pair> = routine.types().zip(known).collect();
    polymorphic::settled(routine, &pairs, &[]).ok()
}

/// A call of a function of an aggregate.
pub fn call(catalog: &Catalog, function: &FunctionName, arguments: &[String]) -> String {
    if let Some(routine) = function.routine.and_then(|id| catalog.routines.0.get(&id)) {
        let (schema, name) = (quoted(&routine.schema), quoted(&routine.name));
        return format!("{schema}.{name}({})", arguments.join(", "));
    }
    let operator = OPERATORS.iter().find(|(_, names)| names.contains(&function.name.as_str()));
    match (operator, arguments) {
        (_, [count]) if ["int2inc", "int4inc", "int8inc"].contains(&function.name.as_str()) => {
            format!("({count} + 1)")
        }
        (Some((operator, _)), [a, b]) => format!("({a} {operator} {b})"),
        _ => format!("{}({})", quoted(&function.name), arguments.join(", ")),
    }
}
