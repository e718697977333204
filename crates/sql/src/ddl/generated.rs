//! Generated columns: whether what is declared can compute them.

use super::DdlContext;
use crate::lower::bind;
use crate::lower::scope::ParameterTypes;
use base::SqlError;
use base::error::{SqlResult, SqlState};
use base::schema::{Identity, Table};
use base::zone::Zone;
use std::collections::BTreeSet;

/// A time zone that no session is in.
pub(super) const ELSEWHERE: Zone = Zone::Fixed(1);

/// Whether what computes the generated columns of a table can. Errors: 42P17 for what is not immutable and for generated
/// columns over others, and those of the expressions.
pub(super) fn check_generated(context: &DdlContext<'_>, table: &Table) -> SqlResult<()> {
    let mut parameters = ParameterTypes::default();
    let mut lowering = context.lowering(&mut parameters);
    let wrong = |told: String| SqlError::new(SqlState(*b"42P17"), told);
    for (number, column) in table.columns.iter().enumerate() {
        let (Identity::Generated, Some(sql)) = (column.identity, &column.default) else { continue };
        // What an index has computed may be of any column.
        if column.hidden {
            continue;
        }
        let expr = lowering.generation(table, column, sql, Zone::Utc)?;
        if bind::has_holes(&expr) || lowering.generation(table, column, sql, ELSEWHERE)? != expr {
            return Err(wrong("generation expression is not immutable".into()));
        }
        let mut reads = BTreeSet::new();
        bind::columns_of(&expr, &mut reads);
        let of_generated = reads.iter().find(|c| table.columns[**c].identity == Identity::Generated);
        if let Some(other) = of_generated {
            let told = format!(
                "cannot use generated column \"{}\" in column generation expression",
                table.columns[*other].name
            );
            let detail = match *other == number {
                true => "This would cause the generated column to depend on its own value.",
                false => "A generated column cannot reference another generated column.",
            };
            return Err(wrong(told).detail(detail));
        }
    }
    Ok(())
}
