//! What the planner says of the shape of a query, in PostgreSQL's words and under its SQLSTATE.

use base::{SqlError, SqlState};

/// The error of a message; `None` if it is about something else.
pub(super) fn refused(message: &str) -> Option<SqlError> {
    let number = |after: &str| {
        let rest = message.split(after).nth(1)?;
        let digits: String = rest.chars().take_while(|c| c.is_ascii_digit() || *c == '-').collect();
        (!digits.is_empty()).then_some(digits)
    };
    let with = |state: SqlState, message: String| Some(SqlError::new(state, message));
    if message.contains("Order by column out of bounds") {
        let n = number("specified: ")?;
        return with(
            SqlState::INVALID_COLUMN_REFERENCE,
            format!("ORDER BY position {n} is not in select list"),
        );
    }
    if message.contains("Cannot find column with position") {
        let n = number("position ")?;
        return with(
            SqlState::INVALID_COLUMN_REFERENCE,
            format!("GROUP BY position {n} is not in select list"),
        );
    }
    if message.contains("Uncomparable values") {
        let what = "min, max and DISTINCT ON over arrays of several dimensions";
        return Some(SqlError::unsupported(what));
    }
    if message.contains("For SELECT DISTINCT, ORDER BY expressions") {
        let message = "for SELECT DISTINCT, ORDER BY expressions must appear in select list";
        return with(SqlState::INVALID_COLUMN_REFERENCE, message.into());
    }
    if message.contains("aggregate with DISTINCT, ORDER BY expressions") {
        let message = "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list";
        return with(SqlState::INVALID_COLUMN_REFERENCE, message.into());
    }
    // The optimizer says so of window functions, aggregates and grouping sets in a condition; the planner has refused the
    // latter two before, and window functions in all but some subqueries.
    if message.contains("Unsupported predicate type") {
        return with(SqlState(*b"42P20"), "window functions are not allowed in WHERE".into());
    }
    if message.contains("DISTINCT ON expressions must match") {
        let message = "SELECT DISTINCT ON expressions must match initial ORDER BY expressions";
        return with(SqlState::INVALID_COLUMN_REFERENCE, message.into());
    }
    if message.contains("to grouping function is not in grouping columns") {
        let message = "arguments to GROUPING must be grouping expressions of the associated query level";
        return with(SqlState::GROUPING_ERROR, message.into());
    }
    if message.contains("queries have different number of columns") {
        let word = ["UNION", "INTERSECT", "EXCEPT"].into_iter().find(|word| message.contains(word))?;
        let message = format!("each {word} query must have the same number of columns");
        return with(SqlState::SYNTAX_ERROR, message);
    }
    if message.contains("specified more than once") && message.contains("WITH query name") {
        let name = message.split('"').nth(1)?;
        return with(SqlState(*b"42712"), format!("WITH query name \"{name}\" specified more than once"));
    }
    None
}
