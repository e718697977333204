//! Operators and functions that there are not for such types, in PostgreSQL's words.

use super::super::kinds::Kind;
use base::{SqlError, SqlState};

pub(in super::super) fn no_operator(operator: &str, left: Kind, right: Kind) -> SqlError {
    SqlError::new(
        SqlState::UNDEFINED_FUNCTION,
        format!("operator does not exist: {} {operator} {}", left.name(), right.name()),
    )
    .hint("No operator matches the given name and argument types. You might need to add explicit type casts.")
}

pub(in super::super) fn not_unique(operator: &str, left: Kind, right: Kind) -> SqlError {
    SqlError::new(
        SqlState(*b"42725"),
        format!("operator is not unique: {} {operator} {}", left.name(), right.name()),
    )
    .hint("Could not choose a best candidate operator. You might need to add explicit type casts.")
}

pub(in super::super) fn no_function(name: &str, kinds: &[Kind]) -> SqlError {
    let shown: Vec<String> = kinds.iter().map(|k| k.name()).collect();
    let name = if name == "character_length" { "length" } else { name };
    SqlError::new(
        SqlState::UNDEFINED_FUNCTION,
        format!("function {name}({}) does not exist", shown.join(", ")),
    )
    .hint("No function matches the given name and argument types. You might need to add explicit type casts.")
}
