//! Columns that are listed behind a call in FROM: `f() AS t (a integer, b text)`.

use super::type_of;
use crate::names;
use base::DataType;
use base::error::{SqlError, SqlResult, SqlState};
use base::routines::{ResultOf, Routine, TypeOf};
use sqlparser::ast::TableAlias;
use std::sync::Arc;

/// The routine with the columns that a call lists, whose types are taken out of the alias. Errors: 42601 for a list where there
/// is none, or none where there has to be one; 42704.
pub fn with_listed_columns(
    routine: &Arc<Routine>,
    alias: Option<&mut TableAlias>,
    is_numbered: bool,
) -> SqlResult<Arc<Routine>> {
    if let ResultOf::One(of) | ResultOf::SetOf(of) = routine.result
        && matches!(of.data_type, DataType::Composite(_))
        && routine.output_name().is_none()
    {
        let told = format!("a function in FROM that returns type {}", of.data_type.name());
        return Err(SqlError::unsupported(told).hint(
            "Let it return a table: RETURNS TABLE (…). In a list write (f(…)).name for an attribute.",
        ));
    }
    let wrong = |told: &str| Err(SqlError::new(SqlState::SYNTAX_ERROR, told));
    let mut listed: Vec<(String, TypeOf)> = Vec::new();
    for column in alias.into_iter().flat_map(|alias| &mut alias.columns) {
        if let Some(data_type) = column.data_type.take() {
            listed.push((names::fold(&column.name), type_of(&data_type)?));
        }
    }
    if is_numbered && !listed.is_empty() {
        return wrong("WITH ORDINALITY cannot be used with a column definition list");
    }
    let is_open = matches!(routine.result, ResultOf::OpenRecord | ResultOf::SetOfOpenRecords);
    match (is_open, listed.is_empty()) {
        (false, true) => return Ok(routine.clone()),
        (true, true) => {
            return wrong("a column definition list is required for functions returning \"record\"");
        }
        (false, false) if !routine.named_columns().is_empty() => {
            return wrong("a column definition list is redundant for a function with OUT parameters");
        }
        (false, false) if routine.row_of().is_some() => {
            let told =
                "a column definition list is redundant for a function returning a named composite type";
            return wrong(told);
        }
        (false, false) => {
            return wrong("a column definition list is only allowed for functions returning \"record\"");
        }
        (true, false) => {}
    }
    let mut next = routine.as_ref().clone();
    next.result = if routine.is_set() { ResultOf::Table(listed) } else { ResultOf::Record(listed) };
    Ok(Arc::new(next))
}
