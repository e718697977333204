//! `(start, end) OVERLAPS (start, end)`: whether two periods have a moment in common. The parser writes it as a function of
//! four arguments, which PostgreSQL has too.

use super::rowwise::{Cell, Returns};
use super::small_functions::Small;
use base::error::SqlResult;
use base::{DataType, Datum, SqlError, SqlState};
use datafusion::logical_expr::{ScalarUDF, Signature, Volatility};

/// The function for a planner.
pub(super) fn function() -> ScalarUDF {
    ScalarUDF::new_from_impl(Small {
        name: "overlaps",
        signature: Signature::any(4, Volatility::Immutable),
        returns: Returns::Plain(DataType::Boolean),
        is_strict: false,
        compute: overlaps,
    })
}

/// A period has its earlier bound and lasts until its later one; one of no length is its moment. An end that is NULL leaves
/// open how long it lasts; a period of which both are NULL has no place.
fn overlaps(cells: &[Cell]) -> SqlResult<Cell> {
    let (Some(a), Some(b)) = (period(&cells[0], &cells[1])?, period(&cells[2], &cells[3])?) else {
        return Ok(Cell::Plain(Datum::Null));
    };
    let (first, second) = if a.0 <= b.0 { (a, b) } else { (b, a) };
    let common = match (first.1, second.1) {
        _ if first.0 == second.0 => first.1.and(second.1).map(|_| true),
        // Begun later, within the first one or behind it.
        (None, _) => None,
        (Some(end), _) if second.0 < end => Some(true),
        (Some(_), None) => None,
        (Some(_), Some(_)) => Some(false),
    };
    Ok(Cell::Plain(common.map_or(Datum::Null, Datum::Bool)))
}

/// The bounds of a period, in µs; the later one may be open. `None`: it has none.
fn period(start: &Cell, end: &Cell) -> SqlResult<Option<(i64, Option<i64>)>> {
    let start = moment(start)?;
    let end = match end {
        Cell::Span(span) => start.map(|start| span.after(start)).transpose()?,
        end => moment(end)?,
    };
    Ok(match (start, end) {
        (Some(start), Some(end)) => Some((start.min(end), Some(start.max(end)))),
        (Some(only), None) | (None, Some(only)) => Some((only, None)),
        (None, None) => None,
    })
}

/// Errors: 42883 for what is no moment.
fn moment(cell: &Cell) -> SqlResult<Option<i64>> {
    match cell {
        Cell::Plain(Datum::Null) => Ok(None),
        Cell::Plain(Datum::Timestamp(us)) => Ok(Some(*us)),
        Cell::Plain(Datum::Date(day)) => base::convert::midnight(*day).map(Some),
        Cell::Plain(Datum::Text(text)) => match base::text::parse(text, DataType::Timestamp)? {
            Datum::Timestamp(us) => Ok(Some(us)),
            _ => Ok(None),
        },
        _ => Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, "OVERLAPS takes two periods of dates or timestamps")
            .hint("No function matches the given name and argument types. You might need to add explicit type casts.")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::interval::Interval;

    #[test]
    fn periods_are_compared_as_postgres_does() {
        let at = |us: i64| Cell::Plain(Datum::Timestamp(us));
        let null = || Cell::Plain(Datum::Null);
        let span = |us| Cell::Span(Interval { months: 0, days: 0, us });
        for (a, b, c, d, wanted) in [
            (at(1), at(5), at(4), at(9), Some(true)),
            (at(1), at(5), at(5), at(9), Some(false)),
            (at(5), at(1), at(9), at(4), Some(true)),
            (at(1), span(4), at(4), span(1), Some(true)),
            (at(3), at(3), at(3), at(3), Some(true)),
            (at(3), at(3), at(1), at(3), Some(false)),
            (at(1), null(), at(2), at(3), None),
            (at(1), at(5), at(2), null(), Some(true)),
            (null(), null(), at(2), at(3), None),
        ] {
            let told = format!("{a:?} {b:?} {c:?} {d:?}");
            let wanted = Cell::Plain(wanted.map_or(Datum::Null, Datum::Bool));
            assert_eq!(overlaps(&[a, b, c, d]).unwrap(), wanted, "{told}");
        }
    }
}
