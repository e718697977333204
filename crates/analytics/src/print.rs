//! Values without a type of ours, printed as PostgreSQL prints them: arrays, rows, intervals.

use super::types::{from_arrow, value_at};
use base::error::SqlResult;
use base::{Datum, SqlError};
use datafusion::arrow::array::*;
use datafusion::arrow::datatypes::{DataType as Arrow, IntervalUnit};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};

/// One value as text. The caller has looked for NULL.
pub(super) fn printed(array: &dyn Array, i: usize) -> SqlResult<String> {
    match array.data_type() {
        Arrow::List(_) => list(array.as_list::<i32>().value(i).as_ref()),
        Arrow::LargeList(_) => list(array.as_list::<i64>().value(i).as_ref()),
        Arrow::FixedSizeList(_, _) => list(array.as_fixed_size_list().value(i).as_ref()),
        Arrow::Struct(_) => {
            let fields = array.as_struct().columns().iter();
            let fields = fields.map(|f| field(f.as_ref(), i)).collect::<SqlResult<Vec<_>>>()?;
            Ok(format!("({})", fields.join(",")))
        }
        Arrow::Interval(IntervalUnit::MonthDayNano) => {
            let v = array.as_any().downcast_ref::<IntervalMonthDayNanoArray>().expect("matches").value(i);
            Ok(interval(v.months, v.days, v.nanoseconds / 1_000))
        }
        Arrow::Interval(IntervalUnit::YearMonth) => {
            let v = array.as_any().downcast_ref::<IntervalYearMonthArray>().expect("matches").value(i);
            Ok(interval(v, 0, 0))
        }
        Arrow::Interval(IntervalUnit::DayTime) => {
            let v = array.as_any().downcast_ref::<IntervalDayTimeArray>().expect("matches").value(i);
            Ok(interval(0, v.days, i64::from(v.milliseconds) * 1_000))
        }
        Arrow::Duration(_) => {
            let unit = datafusion::arrow::compute::cast(
                array,
                &Arrow::Duration(datafusion::arrow::datatypes::TimeUnit::Microsecond),
            );
            let us = unit.map_err(SqlError::internal)?;
            let us = us.as_any().downcast_ref::<DurationMicrosecondArray>().expect("matches").value(i);
            Ok(interval(0, (us / DAY_US) as i32, us % DAY_US))
        }
        _ => {
            let options = FormatOptions::default();
            let formatter = ArrayFormatter::try_new(array, &options).map_err(SqlError::internal)?;
            Ok(formatter.value(i).to_string())
        }
    }
}

const DAY_US: i64 = 86_400_000_000;

fn list(elements: &dyn Array) -> SqlResult<String> {
    let is_nested = matches!(elements.data_type(), Arrow::List(_) | Arrow::LargeList(_));
    let shown = (0..elements.len()).map(|i| {
        let text = element(elements, i)?;
        Ok(match text {
            Some(text) if is_nested => text,
            Some(text) => base::text::array::quoted(&text),
            None => "NULL".into(),
        })
    });
    Ok(format!("{{{}}}", shown.collect::<SqlResult<Vec<_>>>()?.join(",")))
}

/// A field of a row, quoted where it could be misread.
fn field(array: &dyn Array, i: usize) -> SqlResult<String> {
    let Some(text) = element(array, i)? else { return Ok(String::new()) };
    let odd = |c: char| "(),\"\\".contains(c) || c.is_whitespace();
    if !(text.is_empty() || text.contains(odd)) {
        return Ok(text);
    }
    Ok(format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\"\"")))
}

/// One element of an array or field of a row, as its type is shown; `None` is NULL.
pub(super) fn element(array: &dyn Array, i: usize) -> SqlResult<Option<String>> {
    Ok(match value_at(array, i)? {
        Datum::Null => None,
        value => Some(base::text::display_as(&value, from_arrow(array.data_type()))),
    })
}

/// An interval as IntervalStyle `postgres` shows it.
fn interval(months: i32, days: i32, us: i64) -> String {
    base::interval::Interval { months, days, us }.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_look_like_postgresql_s() {
        assert_eq!(interval(14, 3, 14_706_789_000), "1 year 2 mons 3 days 04:05:06.789");
        assert_eq!(interval(0, 1, 0), "1 day");
        assert_eq!(interval(0, -1, 3_600_000_000), "-1 days +01:00:00");
        assert_eq!(interval(0, 0, -1_000_000), "-00:00:01");
        assert_eq!(interval(0, 0, 0), "00:00:00");
    }

    #[test]
    fn arrays_quote_what_could_be_misread() {
        let texts = StringArray::from(vec![Some("a"), None, Some("b,c"), Some(""), Some("q\"")]);
        assert_eq!(list(&texts).unwrap(), r#"{a,NULL,"b,c","","q\""}"#);
        assert_eq!(list(&Int64Array::from(vec![1, 2])).unwrap(), "{1,2}");
    }
}
