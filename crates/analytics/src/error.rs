//! DataFusion's errors in PostgreSQL's words.

use super::wording;
use base::SqlError;
use base::error::SqlState;
use datafusion::arrow::error::ArrowError;
use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;
use sql::defects;

/// An error of planning or execution as a client expects it.
pub fn sql_error(error: DataFusionError) -> SqlError {
    from_ref(&error)
}

fn from_ref(error: &DataFusionError) -> SqlError {
    use DataFusionError as E;
    let said = error.to_string();
    tracing::debug!("the planner or an operator refused: {said}");
    let is_ours = matches!(error, DataFusionError::External(inner) if inner.is::<SqlError>());
    if !is_ours
        && let Some(refused) = base::patterns::refused(&said)
            .or_else(|| super::shape_errors::refused(&said))
            .or_else(|| super::plan_errors::refused(&said))
    {
        return refused;
    }
    match error {
        E::External(inner) => match inner.downcast_ref::<SqlError>() {
            Some(error) => error.clone(),
            None => match inner.downcast_ref::<DataFusionError>() {
                Some(error) => from_ref(error),
                None => defects::error(&inner.to_string()),
            },
        },
        E::Context(_, inner) | E::Diagnostic(_, inner) => from_ref(inner),
        E::Shared(inner) => from_ref(inner),
        E::Collection(errors) => match errors.first() {
            Some(first) => from_ref(first),
            None => defects::error("no error in a collection of errors"),
        },
        E::ArrowError(inner, _) => from_arrow(inner),
        E::SQL(inner, _) => SqlError::new(SqlState::SYNTAX_ERROR, inner.to_string()),
        E::NotImplemented(what) if what.contains("OuterReferenceColumn") => {
            SqlError::unsupported("LATERAL that computes without tables, or this correlated subquery")
        }
        E::NotImplemented(what) => wording::unsupported(what),
        E::SchemaError(inner, _) => schema(inner),
        E::ResourcesExhausted(what) => SqlError::new(SqlState::OUT_OF_MEMORY, "out of memory")
            .detail(reservation(what).unwrap_or_else(|| first_line(what)))
            .hint("Read less of the tables, or start the server with a higher --query-memory-mib."),
        E::Plan(what) => planning(what),
        E::Execution(what) => execution(what),
        other => defects::error(&other.to_string()),
    }
}

fn from_arrow(error: &ArrowError) -> SqlError {
    match error {
        ArrowError::DivideByZero => SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero"),
        ArrowError::ArithmeticOverflow(what) => {
            // Quotients of integers: their other operators are checked by us, and decimals are divided by us.
            match what.contains(" / ") {
                true => SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "bigint out of range"),
                false => SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow")
                    .detail("Numbers of type numeric have at most 38 digits."),
            }
        }
        ArrowError::CastError(what) | ArrowError::ParseError(what) => execution(what),
        ArrowError::ComputeError(what) if what.contains("verflow") => {
            SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range")
        }
        ArrowError::InvalidArgumentError(what) if what.contains("too large to store") => {
            SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow")
        }
        ArrowError::ExternalError(inner) => match inner.downcast_ref::<DataFusionError>() {
            Some(error) => from_ref(error),
            None => defects::error(&inner.to_string()),
        },
        ArrowError::NotYetImplemented(what) => wording::unsupported(what),
        ArrowError::OffsetOverflowError(_) => {
            SqlError::new(SqlState(*b"54000"), "values of a column are too large to be held together")
        }
        ArrowError::InvalidArgumentError(what) if what.contains("scale") || what.contains("precision") => {
            SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow")
                .detail("Numbers of type numeric have at most 38 digits.")
        }
        other => defects::error(&other.to_string()),
    }
}

fn schema(error: &SchemaError) -> SqlError {
    match error {
        // As the planner calls subqueries that it joins.
        SchemaError::FieldNotFound { field, .. } if field.flat_name().contains("__correlated_sq") => {
            SqlError::unsupported("a subquery that depends on the query around it in this way")
        }
        SchemaError::FieldNotFound { field, .. } => {
            let name = match &field.relation {
                Some(relation) => format!("{}.{}", relation.table(), field.name),
                None if wording::is_plain_name(&field.name) => format!("\"{}\"", field.name),
                None => {
                    return SqlError::unsupported(
                        "an expression here that is computed elsewhere in the query",
                    );
                }
            };
            SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column {name} does not exist"))
        }
        SchemaError::AmbiguousReference { field } => SqlError::new(
            SqlState::AMBIGUOUS_COLUMN,
            format!("column reference \"{}\" is ambiguous", field.name),
        ),
        SchemaError::DuplicateQualifiedField { qualifier, .. } => SqlError::new(
            SqlState(*b"42712"),
            format!("table name \"{}\" specified more than once", qualifier.table()),
        ),
        SchemaError::DuplicateUnqualifiedField { name } => match wording::is_plain_name(name) {
            true => SqlError::new(SqlState(*b"42712"), format!("name \"{name}\" specified more than once")),
            false => SqlError::unsupported("a query with two expressions that cannot be told apart"),
        },
    }
}

fn planning(what: &str) -> SqlError {
    if what.contains("Cannot project plan column") {
        let told =
            "a column of a recursive query has another type in its recursive term than in the other one";
        return SqlError::new(SqlState::DATATYPE_MISMATCH, told)
            .hint("Cast the output of the non-recursive term to the correct type.");
    }
    let line = wording::readable(what);
    // Nothing but a printed structure: something that is not built.
    if line.is_empty() {
        return wording::unsupported(what);
    }
    let lower = line.to_lowercase();
    if lower.starts_with("invalid function") || lower.contains("no function matches") {
        let name = line.split('\'').nth(1).unwrap_or(&line);
        if is_postgresql_function(name) {
            return SqlError::unsupported(format!("function {name}"));
        }
        return SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("function {name} does not exist")).hint(
            "No function matches the given name and argument types. You might need to add explicit type casts.",
        );
    }
    if lower.contains("group by") && (lower.contains("must") || lower.contains("could not be resolved")) {
        return SqlError::new(SqlState::GROUPING_ERROR, line);
    }
    if lower.contains("cannot coerce")
        || lower.contains("cannot infer common")
        || lower.contains("no operator")
        || lower.contains("coercion")
    {
        return SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("operator does not exist: {line}"))
            .hint("You might need to add explicit type casts.");
    }
    if lower.contains("unsupported") || lower.contains("not supported") || lower.contains("not implemented") {
        return SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, line);
    }
    if lower.contains("division by zero") || lower.contains("divide by zero") {
        return SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero");
    }
    SqlError::new(SqlState::SYNTAX_ERROR, line)
}

/// Functions that PostgreSQL has, we have not, and clients ask for: refused rather than unknown.
fn is_postgresql_function(name: &str) -> bool {
    let families = ["pg_", "json", "txid_", "regexp_", "xml", "to_ts", "lo_", "inet_", "range_"];
    let others = ["age", "currval", "lastval", "setval", "set_config", "to_regclass", "make_date"];
    families.iter().any(|f| name.starts_with(f)) || others.contains(&name)
}

fn execution(what: &str) -> SqlError {
    let told = first_line(what);
    if let Some(error) = wording::unreadable(&told).or_else(|| wording::out_of_range(&told)) {
        return error;
    }
    let line = wording::readable(what);
    let lower = line.to_lowercase();
    let is_negative =
        ["negative substring length", "negative count not allowed", "overlay start position must be"];
    if is_negative.iter().any(|said| lower.contains(said)) {
        return SqlError::new(SqlState(*b"22011"), "negative substring length not allowed");
    }
    if lower.contains("not supported") || lower.contains("unsupported") || line.is_empty() {
        return wording::unsupported(what);
    }
    if lower.contains("divide by zero") || lower.contains("division by zero") {
        return SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero");
    }
    if lower.contains("overflow") || lower.contains("out of range") || lower.contains("too large to store") {
        return SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, line);
    }
    if lower.contains("cannot cast string")
        || lower.contains("parsing timestamp")
        || lower.contains("error parsing")
    {
        let is_time = lower.contains("timestamp") || lower.contains("date");
        let state =
            if is_time { SqlState::INVALID_DATETIME_FORMAT } else { SqlState::INVALID_TEXT_REPRESENTATION };
        return SqlError::new(state, format!("invalid input syntax: {line}"));
    }
    if lower.contains("more than one row") || lower.contains("multiple rows") {
        return SqlError::new(
            SqlState::CARDINALITY_VIOLATION,
            "more than one row returned by a subquery used as an expression",
        );
    }
    SqlError::new(SqlState(*b"22000"), line)
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim_end_matches('.').to_string()
}

/// What the memory pool refused, as a sentence.
fn reservation(what: &str) -> Option<String> {
    let (asked, rest) = what.split_once("Failed to allocate additional ")?.1.split_once(" for ")?;
    let (operator, rest) = rest.split_once(" with ")?;
    let (has, rest) = rest.split_once(" already allocated for this reservation - ")?;
    let (free, _) = rest.split_once(" remain available")?;
    Some(format!("{operator} has {has} and needs {asked} more; {free} of --query-memory-mib are free."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::SharedPool;
    use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool};
    use std::sync::Arc;

    #[test]
    fn a_refused_reservation_names_operator_and_sizes_and_no_pool() {
        let pool: Arc<dyn MemoryPool> = Arc::new(SharedPool::new(100));
        let reservation = MemoryConsumer::new("repeat").register(&pool);
        let error = sql_error(reservation.try_grow(150).unwrap_err());
        assert_eq!((error.state, error.message.as_str()), (SqlState::OUT_OF_MEMORY, "out of memory"));
        assert_eq!(
            error.detail.as_deref(),
            Some("repeat has 0.0 B and needs 150.0 B more; 88.0 B of --query-memory-mib are free.")
        );
    }
}
