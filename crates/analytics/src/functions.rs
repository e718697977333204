//! Functions that PostgreSQL has and DataFusion does not.

use base::{SqlError, SqlState};
use datafusion::arrow::array::{ArrayRef, AsArray, StringArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::execution::context::SessionContext;
use datafusion::logical_expr::{ColumnarValue, Volatility, create_udf};
use std::sync::Arc;

/// What `version()` says: clients look for `PostgreSQL` and a number.
pub const VERSION: &str =
    concat!("PostgreSQL 15.0 (Meridian ", env!("CARGO_PKG_VERSION"), "), geo-distributed, 64-bit");

pub(super) fn install(context: &SessionContext) {
    let text = |value: &'static str| {
        Arc::new(move |_: &[ColumnarValue]| -> Result<ColumnarValue> {
            Ok(ColumnarValue::Scalar(ScalarValue::Utf8(Some(value.into()))))
        })
    };
    context.register_udf(create_udf(
        "meridian_like_pattern",
        vec![DataType::Utf8, DataType::Utf8],
        DataType::Utf8,
        Volatility::Immutable,
        Arc::new(like_patterns),
    ));
    context.register_udaf(super::only::function());
    super::spreads::functions().into_iter().for_each(|function| context.register_udaf(function));
    context.register_udf(super::coalesce::function());
    super::extremes::functions().into_iter().for_each(|function| context.register_udf(function));
    context.register_udf(super::empty_lists::function());
    super::zones::functions().into_iter().for_each(|function| context.register_udf(function));
    super::templates::install(context);
    super::json_functions::install(context);
    super::text_search_functions::install(context);
    super::hash_partitions::install(context);
    super::small_functions::install(context);
    super::identifier_functions::install(context);
    super::array_functions::install(context);
    super::encodings::install(context);
    super::precision::install(context);
    super::composites::install(context);
    super::bytes_functions::install(context);
    super::span_functions::install(context);
    super::number_functions::install(context);
    super::normal_forms::install(context);
    super::regexes::install(context);
    super::labels::install(context);
    context.register_udf(super::overlaps::function());
    context.register_udf(super::similar::function());
    context.register_udf(super::scalars::extract_function());
    context.register_udf(super::sets::function());
    super::ordered_sets::functions().into_iter().for_each(|function| context.register_udf(function));
    super::barriers::functions().into_iter().for_each(|function| context.register_udf(function));
    context.register_udf(create_udf("version", vec![], DataType::Utf8, Volatility::Immutable, text(VERSION)));
}

/// Patterns of LIKE with an escape character of their own, with the backslash instead.
fn like_patterns(arguments: &[ColumnarValue]) -> Result<ColumnarValue> {
    let arrays = ColumnarValue::values_to_arrays(arguments)?;
    let (patterns, escapes) = (arrays[0].as_string::<i32>(), arrays[1].as_string::<i32>());
    let made = patterns.iter().zip(escapes).map(|(pattern, escape)| match (pattern, escape) {
        (Some(pattern), Some(escape)) => like_pattern(pattern, escape).map(Some),
        _ => Ok(None),
    });
    let made: StringArray = made.collect::<Result<_>>()?;
    Ok(ColumnarValue::Array(Arc::new(made) as ArrayRef))
}

fn like_pattern(pattern: &str, escape: &str) -> Result<String> {
    let wrong = |state: &[u8; 5], message: &str| {
        DataFusionError::External(Box::new(SqlError::new(SqlState(*state), message)))
    };
    let mut characters = escape.chars();
    let (escape, more) = (characters.next(), characters.next());
    if more.is_some() {
        return Err(wrong(b"22019", "invalid escape string"));
    }
    let mut made = String::with_capacity(pattern.len());
    let mut rest = pattern.chars();
    while let Some(c) = rest.next() {
        if Some(c) == escape {
            let escaped = rest.next();
            let escaped =
                escaped.ok_or_else(|| wrong(b"22025", "LIKE pattern must not end with escape character"))?;
            made.extend(['\\', escaped]);
        } else if c == '\\' {
            made.push_str("\\\\");
        } else {
            made.push(c);
        }
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_said_with_another_escape_character() {
        for (pattern, escape, wanted) in
            [("pg/_%", "/", r"pg\_%"), (r"a\b", "/", r"a\\b"), ("a//b", "/", r"a\/b"), (r"a\_", "", r"a\\_")]
        {
            assert_eq!(like_pattern(pattern, escape).unwrap(), wanted, "{pattern}");
        }
        assert!(like_pattern("a/", "/").is_err() && like_pattern("a", "//").is_err());
    }
}
