//! Names and texts of calls that aggregates of users are made of ([`super::fold`]).

use crate::names::quoted;
use base::TableId;
use base::routines::FunctionName;
use base::schema::Catalog;

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

/// The name of the function that makes a state of an aggregate's values, to be quoted in a text.
pub fn name_of(aggregate: TableId) -> String {
    format!("{PREFIX}{}", aggregate.0)
}

/// The aggregate whose function has a name.
pub fn aggregate_of(name: &str) -> Option<TableId> {
    name.strip_prefix(PREFIX)?.parse().ok().map(TableId)
}

/// A call of a function of an aggregate.
pub fn call(catalog: &Catalog, function: &FunctionName, arguments: &[String]) -> String {
    if let Some(routine) = function.routine.and_then(|id| catalog.routines.0.get(&id)) {
        let (schema, name) = (quoted(&routine.schema), quoted(&routine.name));
        return format!("{schema}.{name}({})", arguments.join(", "));
    }
    let operator = OPERATORS.iter().find(|(_, names)| names.contains(&function.name.as_str()));
    match (operator, arguments) {
        (Some((operator, _)), [a, b]) => format!("({a} {operator} {b})"),
        _ => format!("{}({})", quoted(&function.name), arguments.join(", ")),
    }
}
