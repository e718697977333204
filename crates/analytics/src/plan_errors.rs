//! What the planner says of types, functions and what is not allowed where, in PostgreSQL's words and under its
//! SQLSTATE.

use super::wording::{type_list, with_type_names};
use base::{SqlError, SqlState};

const WRONG_OBJECT_TYPE: SqlState = SqlState(*b"42809");
const WINDOWING_ERROR: SqlState = SqlState(*b"42P20");
const AMBIGUOUS_FUNCTION: SqlState = SqlState(*b"42725");
const PROGRAM_LIMIT: SqlState = SqlState(*b"54000");

const NO_FUNCTION: &str =
    "No function matches the given name and argument types. You might need to add explicit type casts.";
const NO_OPERATOR: &str =
    "No operator matches the given name and argument types. You might need to add explicit type casts.";

/// Functions that need rows around them.
const OF_WINDOWS: &[&str] = &[
    "row_number",
    "rank",
    "dense_rank",
    "percent_rank",
    "cume_dist",
    "ntile",
    "lag",
    "lead",
    "first_value",
    "last_value",
    "nth_value",
];

/// What one message is in PostgreSQL's words, where nothing of it is needed.
const FIXED: &[(&str, SqlState, &str)] = &[
    (
        "does not satisfy order requirements",
        SqlState::FEATURE_NOT_SUPPORTED,
        "a window or a set operation over two columns that are always equal is not supported",
    ),
    (
        "Aggregate functions are not allowed in the WHERE clause",
        SqlState::GROUPING_ERROR,
        "aggregate functions are not allowed in WHERE",
    ),
    (
        "Aggregate function calls cannot contain window function calls",
        SqlState::GROUPING_ERROR,
        "aggregate function calls cannot contain window function calls",
    ),
    (
        "Aggregate function calls cannot be nested",
        SqlState::GROUPING_ERROR,
        "aggregate function calls cannot be nested",
    ),
    ("Window function calls cannot be nested", WINDOWING_ERROR, "window function calls cannot be nested"),
    (
        "does not support logical expression AggregateFunction",
        SqlState::GROUPING_ERROR,
        "aggregate functions are not allowed here",
    ),
    (
        "does not support logical expression WindowFunction",
        WINDOWING_ERROR,
        "window functions are not allowed here",
    ),
    (
        "Window functions are not allowed in the WHERE",
        WINDOWING_ERROR,
        "window functions are not allowed in WHERE",
    ),
    (
        "does not support logical expression",
        SqlState::FEATURE_NOT_SUPPORTED,
        "a subquery that depends on the query around it in this way is not supported",
    ),
    (
        "Correlated scalar subquery",
        SqlState::FEATURE_NOT_SUPPORTED,
        "a subquery that depends on the query around it in this place is not supported",
    ),
    (
        "Inconsistent data length across values list",
        SqlState::SYNTAX_ERROR,
        "VALUES lists must all be the same length",
    ),
    (
        "Inconsistent metadata across values list",
        SqlState::DATATYPE_MISMATCH,
        "VALUES types cannot be matched",
    ),
    (
        "Non-recursive term and recursive term must have the same number of columns",
        SqlState::SYNTAX_ERROR,
        "each UNION query must have the same number of columns",
    ),
    (
        "Too many columns! The subquery should only return one column",
        SqlState::SYNTAX_ERROR,
        "subquery must return only one column",
    ),
    ("LIMIT must be >= 0", SqlState(*b"2201W"), "LIMIT must not be negative"),
    ("OFFSET must be >=0", SqlState(*b"2201X"), "OFFSET must not be negative"),
    (
        "Unsupported LIMIT expression",
        SqlState::FEATURE_NOT_SUPPORTED,
        "LIMIT by anything but a number is not supported",
    ),
    (
        "Unsupported OFFSET expression",
        SqlState::FEATURE_NOT_SUPPORTED,
        "OFFSET by anything but a number is not supported",
    ),
    (
        "frame offsets for ROWS / GROUPS must be non negative integers",
        SqlState(*b"22013"),
        "frame starting offset must not be negative",
    ),
    (
        "RANGE requires exactly one ORDER BY column",
        WINDOWING_ERROR,
        "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column",
    ),
    ("NTILE requires a positive integer", SqlState(*b"22014"), "argument of ntile must be greater than zero"),
    ("field position must not be zero", SqlState(*b"22023"), "field position must not be zero"),
    ("invalid Unicode scalar value", PROGRAM_LIMIT, "requested character not valid for encoding"),
    ("Step cannot be zero", SqlState(*b"22023"), "step size cannot equal zero"),
    ("Unsupported binary operator: Overlaps", SqlState::FEATURE_NOT_SUPPORTED, "OVERLAPS is not supported"),
    (
        "Unsupported binary operator: PGCustomBinaryOperator",
        SqlState::FEATURE_NOT_SUPPORTED,
        "OPERATOR(…) is not supported",
    ),
    (
        "Accessing outer reference columns",
        SqlState::FEATURE_NOT_SUPPORTED,
        "a subquery that depends on the query around it in this way is not supported",
    ),
    (
        "undecorrelated Subquery",
        SqlState::FEATURE_NOT_SUPPORTED,
        "a subquery that depends on the query around it in this way is not supported",
    ),
    (
        "Arguments must be literals",
        SqlState::FEATURE_NOT_SUPPORTED,
        "a function in FROM over columns of other tables is not supported",
    ),
    (
        "Substring without for/from is not valid",
        SqlState::UNDEFINED_FUNCTION,
        "function substring of one argument does not exist",
    ),
    (
        "unnest() requires exactly one argument",
        SqlState::UNDEFINED_FUNCTION,
        "function unnest takes one array",
    ),
    (
        "Projections require unique expression names",
        SqlState::FEATURE_NOT_SUPPORTED,
        "a query with two expressions that cannot be told apart is not supported",
    ),
    (
        "is not supported in the physical expr",
        SqlState::FEATURE_NOT_SUPPORTED,
        "this operator of values of these types is not supported",
    ),
    ("invalid digit found in string", SqlState::SYNTAX_ERROR, "non-integer constant in ORDER BY"),
    (
        "Unsupported binary operator: PGOverlap",
        SqlState::FEATURE_NOT_SUPPORTED,
        "operator && is not supported",
    ),
    (
        "Dot access not supported for non-string expr",
        WRONG_OBJECT_TYPE,
        "column notation is applied to a type that is not a composite type",
    ),
    (
        "unnest() can only be applied to array",
        SqlState::UNDEFINED_FUNCTION,
        "function unnest of anything but an array does not exist",
    ),
    (
        "Unary operator '-' only supports",
        SqlState::UNDEFINED_FUNCTION,
        "operator does not exist: - of a type that is no number",
    ),
    (
        "Unsupported Interval Expression",
        SqlState::FEATURE_NOT_SUPPORTED,
        "an interval of several fields is not supported",
    ),
];

/// The error of a message; `None` if it is about something else.
pub(super) fn refused(message: &str) -> Option<SqlError> {
    specific(message).or_else(|| {
        let (_, state, words) = FIXED.iter().find(|(mark, ..)| message.contains(mark))?;
        Some(SqlError::new(*state, *words))
    })
}

fn between<'m>(message: &'m str, from: &str, to: &str) -> Option<&'m str> {
    let rest = &message[message.find(from)? + from.len()..];
    rest.find(to).map(|end| &rest[..end])
}

fn specific(message: &str) -> Option<SqlError> {
    let with = |state: SqlState, message: String| Some(SqlError::new(state, message));
    if let Some(call) = between(message, "argument types '", "'.") {
        return no_function(call);
    }
    if let Some(refused) = of_types(message) {
        return Some(refused);
    }
    if let Some(types) = between(message, "Failed to coerce types ", " in BETWEEN expression") {
        let told = format!("operator does not exist: {}", with_type_names(&types.replace(" and ", " >= ")));
        return with(SqlState::UNDEFINED_FUNCTION, told).map(|e| e.hint(NO_OPERATOR));
    }
    if let Some((name, rest)) = message.split_once("Function '").and_then(|(_, rest)| rest.split_once('\''))
        && (rest.starts_with(" failed to match any signature")
            || rest.starts_with(" user-defined coercion failed with"))
    {
        let told = match between(rest, "Unsupported argument types ", " for function") {
            Some(types) => {
                let types = type_list(&types.replace(" and ", ", "));
                format!("function {}({types}) does not exist", shown_name(name))
            }
            None => format!("function {} does not exist for arguments of these types", shown_name(name)),
        };
        return with(SqlState::UNDEFINED_FUNCTION, told).map(|e| e.hint(NO_FUNCTION));
    }
    if let Some(name) = between(message, "Invalid function '", "'")
        && OF_WINDOWS.contains(&name)
    {
        return with(WRONG_OBJECT_TYPE, format!("window function {name} requires an OVER clause"));
    }
    if let Some(operation) = operation(message) {
        let told = format!("operator does not exist: {}", with_type_names(operation));
        return with(SqlState::UNDEFINED_FUNCTION, told).map(|e| e.hint(NO_OPERATOR));
    }
    if let Some(column) = between(message, "While expanding wildcard, column \"", "\"") {
        return ungrouped(column);
    }
    if let Some(column) = between(message, "HAVING clause references: ", " must appear") {
        return match column.chars().all(|c| c.is_alphanumeric() || "_.\"".contains(c)) {
            true => ungrouped(column),
            false => with(
                SqlState::GROUPING_ERROR,
                "HAVING names columns that must appear in the GROUP BY clause or be used in an aggregate function"
                    .into(),
            ),
        };
    }
    if let Some(types) = between(message, "Inconsistent data type across values list", "\n")
        .or_else(|| message.split_once("Inconsistent data type across values list").map(|(_, rest)| rest))
        && let Some((_, types)) = types.split_once(". Was ")
        && let Some((was, found)) = types.split_once(" but found ")
    {
        let (was, found) = (with_type_names(was), with_type_names(found));
        let told = format!("VALUES types {was} and {found} cannot be matched");
        return with(SqlState::DATATYPE_MISMATCH, told);
    }
    for (mark, place) in
        [("Join condition must be boolean type, but got ", "JOIN/ON"), ("' returning ", "WHERE or HAVING")]
    {
        if (mark != "' returning " || message.contains("Cannot create filter with non-boolean predicate"))
            && let Some((_, found)) = message.rsplit_once(mark)
        {
            let found = with_type_names(found.lines().next().unwrap_or_default());
            let told = format!("argument of {place} must be type boolean, not type {found}");
            return with(SqlState::DATATYPE_MISMATCH, told);
        }
    }
    if message.contains("must be an INTEGER") && message.contains("Argument #") {
        return match message.contains("got Column(") || message.contains("got OuterReferenceColumn(") {
            true => with(
                SqlState::FEATURE_NOT_SUPPORTED,
                "a function in FROM over columns of other tables is not supported".into(),
            ),
            false => with(
                SqlState::UNDEFINED_FUNCTION,
                "function generate_series does not exist for arguments of these types".into(),
            )
            .map(|e| e.hint(NO_FUNCTION)),
        };
    }
    if let Some(function) = between(message, "[return_type] ", " not supported for Null") {
        let told = format!("function {}(unknown) is not unique", function.to_lowercase());
        return with(AMBIGUOUS_FUNCTION, told);
    }
    if let Some(unit) = between(message, "Date part '", "' not supported") {
        return with(SqlState(*b"22023"), format!("unit \"{unit}\" not recognized"));
    }
    if let Some(encoding) = between(message, "There is no built-in encoding named '", "'") {
        return with(SqlState(*b"22023"), format!("unrecognized encoding: \"{encoding}\""));
    }
    if message.contains("Failed to decode value using") {
        return with(
            SqlState(*b"22023"),
            match between(message, "Invalid character '", "'") {
                Some(digit) => format!("invalid hexadecimal digit: \"{digit}\""),
                None => "invalid data for the encoding".into(),
            },
        );
    }
    if let Some(value) =
        between(message, "Month value '", "'").or_else(|| between(message, "Day value '", "'"))
        && message.contains("out of range")
    {
        let told = format!("date field value out of range: {value}");
        return with(SqlState::DATETIME_FIELD_OVERFLOW, told);
    }
    if let Some(bound) = between(message, "Invalid window frame: ", "\n")
        .or_else(|| message.split_once("Invalid window frame: ").map(|(_, rest)| rest))
        && !bound.contains("offsets")
    {
        return with(WINDOWING_ERROR, frame(bound));
    }
    None
}

/// Operators that are missing, and types that do not meet.
fn of_types(message: &str) -> Option<SqlError> {
    let with = |state: SqlState, message: String| Some(SqlError::new(state, message));
    if message.contains("subquery can only be used in Projection, Filter") {
        return Some(SqlError::unsupported("IN, EXISTS or ANY with a subquery in this place"));
    }
    if let Some(operator) = between(message, "Operator ", " is not yet supported") {
        return Some(SqlError::unsupported(format!("operator {operator}")));
    }
    if let Some(types) = between(message, "Unsupported CAST from ", "\n")
        .or_else(|| message.split_once("Unsupported CAST from ").map(|(_, types)| types))
        && let Some((from, to)) = with_type_names(types).split_once(" to ")
    {
        let told = format!("cannot cast type {from} to {}", to.trim_end_matches('.'));
        return with(SqlState(*b"42846"), told);
    }
    if let Some((_, types)) = message.split_once("Cannot automatically convert ")
        && let Some((from, to)) = with_type_names(types.lines().next().unwrap_or_default()).split_once(" to ")
    {
        return with(SqlState::DATATYPE_MISMATCH, format!("types {to} and {from} cannot be matched"));
    }
    if let Some(types) = between(message, "common type to coerce ", " in LIKE expression") {
        let told = format!("operator does not exist: {}", with_type_names(&types.replace(" and ", " ~~ ")));
        return with(SqlState::UNDEFINED_FUNCTION, told).map(|e| e.hint(NO_OPERATOR));
    }
    None
}

/// 42883, from a call as the planner prints it: `abs(Utf8, Int64)`.
fn no_function(call: &str) -> Option<SqlError> {
    let (name, types) = call.split_once('(')?;
    let types = type_list(types.strip_suffix(')').unwrap_or(types));
    let name = match name {
        "array_element" => {
            let subscripted = types.split(',').next().unwrap_or_default();
            let told =
                format!("cannot subscript type {subscripted} because it does not support subscripting");
            return Some(SqlError::new(SqlState::DATATYPE_MISMATCH, told));
        }
        "make_array" => {
            let told = format!("ARRAY types {} cannot be matched", types.replace(", ", " and "));
            return Some(SqlError::new(SqlState::DATATYPE_MISMATCH, told));
        }
        "array_has" => {
            let told = "op ANY/ALL (array) requires array on right side";
            return Some(SqlError::new(WRONG_OBJECT_TYPE, told));
        }
        name => shown_name(name),
    };
    let told = format!("function {name}({types}) does not exist");
    Some(SqlError::new(SqlState::UNDEFINED_FUNCTION, told).hint(NO_FUNCTION))
}

/// The name of a function that has another one in the planner.
fn shown_name(name: &str) -> &str {
    match name {
        "character_length" => "length",
        "signum" => "sign",
        "date_part" => "extract",
        "array_concat" => "array_cat",
        name => name,
    }
}

/// The operation whose sides do not meet.
fn operation(message: &str) -> Option<&str> {
    for mark in [
        "Cannot infer common argument type for comparison operation ",
        "Cannot infer common argument type for regex operation ",
        "Cannot infer common argument type for logical boolean operation ",
        "Cannot infer common argument type for string concat operation ",
        "Cannot infer common array element type for arguments ",
        "Cannot get result type for decimal operation ",
        "Cannot get result type for arithmetic operation ",
        "Cannot get result type for temporal operation ",
    ] {
        if let Some((_, rest)) = message.split_once(mark) {
            let line = rest.lines().next().unwrap_or_default();
            return Some(
                line.split(": Invalid argument error").next().unwrap_or_default().trim_end_matches('.'),
            );
        }
    }
    between(message, "Cannot coerce arithmetic expression ", " to valid types")
}

fn ungrouped(column: &str) -> Option<SqlError> {
    let what = match super::wording::is_plain_name(column) {
        true => format!("column \"{column}\""),
        false => "an expression of the select list".into(),
    };
    let told = format!("{what} must appear in the GROUP BY clause or be used in an aggregate function");
    Some(SqlError::new(SqlState::GROUPING_ERROR, told))
}

fn frame(bound: &str) -> String {
    let says = |words: &str| bound.to_uppercase().contains(words);
    match () {
        () if says("START BOUND CANNOT BE UNBOUNDED FOLLOWING") => {
            "frame start cannot be UNBOUNDED FOLLOWING".into()
        }
        () if says("END BOUND CANNOT BE UNBOUNDED PRECEDING") => {
            "frame end cannot be UNBOUNDED PRECEDING".into()
        }
        () => "frame start and frame end do not fit together".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_said_in_postgresqls_words() {
        for (said, state, words) in [
            (
                "Function 'strpos' requires String, but received Int64. No function matches the given name and \
                 argument types 'strpos(Int64, Utf8View)'. You might need to add explicit type casts.",
                b"42883",
                "function strpos(bigint, text) does not exist",
            ),
            (
                "Cannot infer common argument type for regex operation Decimal128(12, 2) ~ Utf8",
                b"42883",
                "operator does not exist: numeric ~ text",
            ),
            (
                "Cannot infer common argument type for comparison operation Struct(\"c0\": Int64) < List(Utf8View)",
                b"42883",
                "operator does not exist: record < text[]",
            ),
            (
                "Column in SELECT must be in GROUP BY or an aggregate function: While expanding wildcard, column \
                 \"t.b\" must appear in the GROUP BY clause or must be part of an aggregate function, currently only \
                 \"t.a, sum(t.b)\" appears",
                b"42803",
                "column \"t.b\" must appear in the GROUP BY clause or be used in an aggregate function",
            ),
            (
                "Inconsistent data type across values list at row 1 column 0. Was Int64 but found Boolean",
                b"42804",
                "VALUES types bigint and boolean cannot be matched",
            ),
            (
                "Function 'lcm' user-defined coercion failed with: Error during planning: Unsupported argument types \
                 Int64 and Utf8 for function lcm",
                b"42883",
                "function lcm(bigint, text) does not exist",
            ),
            (
                "Function 'regexp_like' failed to match any signature, errors: Error during planning: Function \
                 'regexp_like' requires String, but received Int16 (DataType: Int16).",
                b"42883",
                "function regexp_like does not exist for arguments of these types",
            ),
            (
                "Failed to coerce types List(Utf8View) and Decimal128(12, 2) in BETWEEN expression.",
                b"42883",
                "operator does not exist: text[] >= numeric",
            ),
            ("Invalid function 'lag'.", b"42809", "window function lag requires an OVER clause"),
            (
                "Cannot create filter with non-boolean predicate 't.a' returning Int32",
                b"42804",
                "argument of WHERE or HAVING must be type boolean, not type integer",
            ),
            (
                "Physical plan does not support logical expression ScalarSubquery(<subquery>)",
                b"0A000",
                "a subquery that depends on the query around it in this way is not supported",
            ),
        ] {
            let told = refused(said).unwrap_or_else(|| panic!("{said}"));
            assert_eq!((told.state, told.message.as_str()), (SqlState(*state), words));
        }
        assert!(refused("divide by zero").is_none());
    }
}
