//! Names of aggregate functions.

use crate::names;
use sqlparser::ast;

/// Whether a call is one of an aggregate.
pub fn is_aggregate(function: &ast::Function) -> bool {
    const AGGREGATES: &[&str] = &[
        "count",
        "sum",
        "avg",
        "min",
        "max",
        "bool_and",
        "bool_or",
        "every",
        "string_agg",
        "array_agg",
        "json_agg",
        "jsonb_agg",
        "json_object_agg",
        "jsonb_object_agg",
        "stddev",
        "stddev_pop",
        "stddev_samp",
        "variance",
        "var_pop",
        "var_samp",
        "corr",
        "bit_and",
        "bit_or",
    ];
    let name = names::parts(&function.name).ok().and_then(|mut parts| parts.pop());
    name.is_some_and(|name| AGGREGATES.contains(&name.as_str()))
}
