//! What DataFusion says, in words for a client: types by their SQL names, no printed plans or expressions.

use base::SqlError;
use base::enumeration::EnumType;
use base::error::SqlState;

/// Words with which the printed form of a plan or an expression begins.
const STRUCTURES: &[&str] = &[
    "Expr",
    "BinaryExpr",
    "Column",
    "ScalarFunction",
    "AggregateFunction",
    "WindowFunction",
    "Literal",
    "Alias",
    "Cast",
    "TryCast",
    "ScalarSubquery",
    "InSubquery",
    "Exists",
    "OuterReferenceColumn",
    "Projection",
    "Filter",
    "TableScan",
    "Subquery",
    "SubqueryAlias",
    "Ident",
    "ObjectName",
    "ValueWithSpan",
    "Function",
    "Query",
    "Select",
    "SetExpr",
    "Interval",
    "Field",
    "DFSchema",
    "Schema",
    "Placeholder",
    "LogicalPlan",
    "Case",
    "Between",
    "InList",
    "CompoundIdentifier",
    "Identifier",
    "Value",
    "Nested",
    "UnaryOp",
    "BinaryOp",
    "Array",
    "Struct",
    "Some",
    "Table",
    "Unnest",
    "Aggregate",
    "Join",
    "Sort",
    "Limit",
    "Window",
    "Distinct",
    "Union",
    "EmptyRelation",
    "Values",
];

/// The part of a message before anything printed that only its authors read; empty if nothing is left.
pub(super) fn readable(what: &str) -> String {
    let line = what.lines().next().unwrap_or_default();
    let cut = structure_at(line).unwrap_or(line.len());
    let text = line[..cut].trim_end_matches(|c: char| c.is_whitespace() || ":;,.(['\"".contains(c));
    with_type_names(text)
}

/// Where a printed structure begins.
fn structure_at(line: &str) -> Option<usize> {
    let mut at = 0;
    for word in line.split_inclusive(|c: char| !c.is_alphanumeric() && c != '_') {
        let name = word.trim_end_matches(|c: char| !c.is_alphanumeric() && c != '_');
        let behind = &line[at + name.len()..];
        let is_printed = behind.starts_with('(')
            || behind.starts_with(" {")
            || behind.starts_with('{')
            || behind.starts_with("::");
        if STRUCTURES.contains(&name) && is_printed {
            return Some(at);
        }
        at += word.len();
    }
    line.find("[{").or_else(|| line.find("{ "))
}

/// Arrow's names of types as SQL's.
pub(super) fn with_type_names(text: &str) -> String {
    let mut made = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        // Precision, unit, zone or elements in parentheses go with it.
        let arguments = in_parentheses(behind);
        let behind_arguments = &behind[arguments.map_or(0, |a| a.len() + 2)..];
        match (word, arguments, type_name(word)) {
            ("List" | "LargeList" | "FixedSizeList", Some(element), _) => {
                let element = element.rsplit(" x ").next().unwrap_or(element);
                let element = element.strip_prefix("Field { data_type: ").map_or(element, |field| {
                    field.rsplit_once(", nullable").map_or(field, |(data_type, _)| data_type)
                });
                made.push_str(&with_type_names(element.trim_start_matches("non-null ")));
                made.push_str("[]");
                rest = behind_arguments;
                continue;
            }
            ("Struct", Some(_), _) => {
                made.push_str("record");
                rest = behind_arguments;
                continue;
            }
            ("Timestamp", Some(of), _) if let Some(label) = enum_name(of) => {
                made.push_str(&label);
                rest = behind_arguments;
                continue;
            }
            ("Timestamp", _, _) => {
                let has_zone = arguments.is_some_and(|a| a.contains("Some(") || a.contains('"'));
                made.push_str(match has_zone {
                    true => "timestamp with time zone",
                    false => "timestamp without time zone",
                });
                rest = behind_arguments;
                continue;
            }
            (_, _, Some((name, takes_arguments))) => {
                made.push_str(name);
                rest = if takes_arguments { behind_arguments } else { behind };
                continue;
            }
            _ => made.push_str(word),
        }
        let next = behind.chars().next();
        made.extend(next);
        rest = &behind[next.map_or(0, char::len_utf8)..];
    }
    made
}

/// The name of the enumerated type whose codes a timestamp's unit and zone stand for.
fn enum_name(unit_and_zone: &str) -> Option<String> {
    let zone = unit_and_zone.split('"').nth(1)?;
    EnumType::id_of_zone(zone).map(|id| sql::user_types::enum_of(id).name())
}

/// What stands in parentheses at the beginning of a text.
fn in_parentheses(text: &str) -> Option<&str> {
    if !text.starts_with('(') {
        return None;
    }
    let mut depth = 0usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(&text[1..at]);
        }
    }
    None
}

/// Types of arguments, between commas.
pub(super) fn type_list(text: &str) -> String {
    let named = with_type_names(text);
    let words = named.split(", ").map(|word| if word == "Null" { "unknown" } else { word });
    words.collect::<Vec<_>>().join(", ")
}

fn type_name(word: &str) -> Option<(&'static str, bool)> {
    Some(match word {
        "Boolean" => ("boolean", false),
        // As the planner names a class of types.
        "String" => ("text", false),
        "Int8" | "Int16" => ("smallint", false),
        "Int32" => ("integer", false),
        "Int64" | "UInt64" | "UInt32" => ("bigint", false),
        "Float32" => ("real", false),
        "Float64" => ("double precision", false),
        "Utf8" | "Utf8View" | "LargeUtf8" => ("text", false),
        "Date32" | "Date64" => ("date", false),
        "Decimal128" | "Decimal256" => ("numeric", true),
        "Timestamp" => ("timestamp", true),
        "Interval" => ("interval", true),
        "Time32" | "Time64" => ("time without time zone", true),
        "Duration" => ("interval", true),
        "Binary" | "BinaryView" | "LargeBinary" | "FixedSizeBinary" => ("bytea", true),
        _ => return None,
    })
}

/// Whether a name can be one that somebody gave, rather than the printed form of an expression.
pub(super) fn is_plain_name(name: &str) -> bool {
    !name.contains(['(', ')', '{', '['])
}

/// What cannot be planned or run because it is not built. Errors are 0A000.
pub(super) fn unsupported(what: &str) -> SqlError {
    let text = readable(what);
    let text = match text.is_empty() || text.len() < 4 {
        true => "this query is not supported".to_string(),
        false => text,
    };
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, text)
}

/// What a text could not be read as: the type and the text, from Arrow's and DataFusion's messages.
pub(super) fn unreadable(line: &str) -> Option<SqlError> {
    let between = |from: &str, to: &str| {
        let rest = &line[line.find(from)? + from.len()..];
        rest.find(to).map(|end| rest[..end].to_string())
    };
    let (text, to) = match (between("Cannot cast string '", "' to value of "), line.rfind("to value of ")) {
        (Some(text), Some(at)) => {
            (text, line[at + "to value of ".len()..].trim_end_matches(" type").to_string())
        }
        _ => (between("rror parsing timestamp from '", "'")?, "Timestamp".to_string()),
    };
    let word: String = to.chars().take_while(|c| c.is_alphanumeric()).collect();
    let (name, _) = type_name(&word)?;
    let is_time = matches!(name, "date" | "timestamp" | "interval" | "time without time zone");
    let name = if name == "time without time zone" { "time" } else { name };
    let state =
        if is_time { SqlState::INVALID_DATETIME_FORMAT } else { SqlState::INVALID_TEXT_REPRESENTATION };
    // Digits that are one number too many are out of range rather than none.
    let is_integer = matches!(name, "smallint" | "integer" | "bigint");
    if is_integer && base::decimal::Decimal::parse(&text).is_some_and(|d| d.scale() == 0) {
        return Some(SqlError::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            format!("value \"{text}\" is out of range for type {name}"),
        ));
    }
    Some(SqlError::new(state, format!("invalid input syntax for type {name}: \"{text}\"")))
}

/// An integer that its type has no room for, from Arrow's message.
pub(super) fn out_of_range(line: &str) -> Option<SqlError> {
    let at = line.rfind(" to type ").filter(|_| line.contains("Can't cast value"))?;
    let word: String = line[at + " to type ".len()..].chars().take_while(|c| c.is_alphanumeric()).collect();
    let (name, _) = type_name(&word)?;
    Some(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{name} out of range")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_structures_are_cut_off() {
        for (told, readable_part) in [
            (
                "Unsupported ast node in sqltorel: Function(Function { name: x })",
                "Unsupported ast node in sqltorel",
            ),
            (
                "Cannot coerce arithmetic expression Int64 + Utf8 to valid types",
                "Cannot coerce arithmetic expression bigint + text to valid types",
            ),
            ("BinaryExpr(BinaryExpr { left: Column(Column { relation: None", ""),
            (
                "Physical plan does not support logical expression ScalarSubquery(<subquery>)",
                "Physical plan does not support logical expression",
            ),
            (
                "cannot add Decimal128(10, 2) and Timestamp(Microsecond, None)",
                "cannot add numeric and timestamp without time zone",
            ),
        ] {
            assert_eq!(readable(told), readable_part);
        }
    }

    #[test]
    fn lists_are_named_by_their_elements() {
        for told in ["List(Int32)", "List(Field { data_type: Int32, nullable: true })"] {
            assert_eq!(with_type_names(told), "integer[]");
        }
    }

    #[test]
    fn texts_that_are_no_values_are_named() {
        let told = unreadable("Cannot cast string 'x' to value of Int32 type").unwrap();
        assert_eq!(told.message, "invalid input syntax for type integer: \"x\"");
        assert_eq!(told.state, SqlState::INVALID_TEXT_REPRESENTATION);
        let told = unreadable("Cannot cast string '99999999999' to value of Int32 type").unwrap();
        assert_eq!(told.state, SqlState::NUMERIC_VALUE_OUT_OF_RANGE);
        let told = out_of_range("Can't cast value 70000 to type Int16").unwrap();
        assert_eq!(told.message, "smallint out of range");
    }
}
