//! Functions of PostgreSQL that DataFusion does not have, computed row by row from values alone.

use super::fields::call_name;
use super::rowwise::{Cell, Column, Returns, each_row};
use base::decimal::Decimal;
use base::error::SqlResult;
use base::identifier::quoted;
use base::interval::Interval;
use base::text::{civil, day_number};
use base::{DataType, Datum, SqlError, SqlState};
use datafusion::arrow::datatypes::DataType as Arrow;
use datafusion::common::Result;
use datafusion::execution::context::SessionContext;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::hash::{Hash, Hasher};

/// A function: its name says what it computes.
#[derive(Debug)]
pub(super) struct Small {
    pub name: &'static str,
    pub signature: Signature,
    pub returns: Returns,
    /// NULL for a NULL among its arguments.
    pub is_strict: bool,
    pub compute: fn(&[Cell]) -> SqlResult<Cell>,
}

pub(super) const US_PER_DAY: i64 = 86_400_000_000;

/// Makes the functions known.
pub(super) fn install(context: &SessionContext) {
    use Returns::{Plain, Span};
    const TEXT: Returns = Plain(DataType::Text);
    const INTEGER: Returns = Plain(DataType::Integer);
    let any = |count| Signature::any(count, Volatility::Immutable);
    let many = || Signature::variadic_any(Volatility::Immutable);
    let functions = [
        Small { name: "pg_typeof", signature: any(1), returns: TEXT, is_strict: false, compute: unsettled },
        Small {
            name: "quote_ident",
            signature: any(1),
            returns: TEXT,
            is_strict: true,
            compute: quote_ident,
        },
        Small {
            name: "quote_literal",
            signature: any(1),
            returns: TEXT,
            is_strict: true,
            compute: quote_literal,
        },
        Small {
            name: "quote_nullable",
            signature: any(1),
            returns: TEXT,
            is_strict: false,
            compute: quote_nullable,
        },
        Small { name: "format", signature: many(), returns: TEXT, is_strict: false, compute: format_text },
        Small { name: "age", signature: any(2), returns: Span, is_strict: true, compute: age },
        Small {
            name: "num_nulls",
            signature: many(),
            returns: INTEGER,
            is_strict: false,
            compute: num_nulls,
        },
        Small {
            name: "num_nonnulls",
            signature: many(),
            returns: INTEGER,
            is_strict: false,
            compute: num_nonnulls,
        },
        Small {
            name: "isfinite",
            signature: any(1),
            returns: Plain(DataType::Boolean),
            is_strict: true,
            compute: isfinite,
        },
        Small {
            name: "justify_hours",
            signature: any(1),
            returns: Span,
            is_strict: true,
            compute: justify_hours,
        },
        Small {
            name: "justify_days",
            signature: any(1),
            returns: Span,
            is_strict: true,
            compute: justify_days,
        },
    ];
    functions.into_iter().for_each(|function| context.register_udf(ScalarUDF::new_from_impl(function)));
    const WHOLE: Returns = Plain(DataType::Numeric { precision: 38, scale: 0 });
    let strict: [(_, _, _, fn(&[Cell]) -> SqlResult<Cell>); 4] = [
        ("make_timestamp", 6, Plain(DataType::Timestamp), make_timestamp),
        ("make_date", 3, Plain(DataType::Date), make_date),
        ("make_time", 3, Plain(DataType::Time), make_time),
        ("factorial", 1, WHOLE, factorial),
    ];
    for (name, count, returns, compute) in strict {
        let function = Small { name, signature: any(count), returns, is_strict: true, compute };
        context.register_udf(ScalarUDF::new_from_impl(function));
    }
}

impl PartialEq for Small {
    fn eq(&self, other: &Small) -> bool {
        self.name == other.name
    }
}
impl Eq for Small {}
impl Hash for Small {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Small {
    fn name(&self) -> &str {
        self.name
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        call_name(self.name, arguments)
    }
    fn return_type(&self, _: &[Arrow]) -> Result<Arrow> {
        Ok(self.returns.arrow())
    }
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        each_row(&arguments, self.returns, |columns: &[Column], row| {
            let cells: Vec<Cell> = columns.iter().map(|column| column.at(row)).collect();
            match self.is_strict && cells.iter().any(Cell::is_null) {
                true => Ok(Cell::Plain(Datum::Null)),
                false => (self.compute)(&cells),
            }
        })
    }
}

fn text(value: impl AsRef<str>) -> SqlResult<Cell> {
    Ok(Cell::Plain(Datum::text(value)))
}

/// The text of an argument; `None` for NULL. Errors: 42883 for anything else.
pub(super) fn text_of(cell: &Cell) -> SqlResult<Option<&str>> {
    match cell {
        Cell::Plain(Datum::Text(text)) => Ok(Some(text)),
        Cell::Plain(Datum::Null) => Ok(None),
        _ => Err(no_such("a function of texts")),
    }
}

pub(super) fn no_such(what: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("{what} does not exist for arguments of these types"))
        .hint("No function matches the given name and argument types. You might need to add explicit type casts.")
}

fn quote_ident(cells: &[Cell]) -> SqlResult<Cell> {
    text(quoted(text_of(&cells[0])?.unwrap_or_default()))
}

fn literal(value: &str) -> String {
    let quoted = value.replace('\'', "''");
    match value.contains('\\') {
        true => format!("E'{}'", quoted.replace('\\', "\\\\")),
        false => format!("'{quoted}'"),
    }
}

fn quote_literal(cells: &[Cell]) -> SqlResult<Cell> {
    text(literal(text_of(&cells[0])?.unwrap_or_default()))
}

fn quote_nullable(cells: &[Cell]) -> SqlResult<Cell> {
    text(text_of(&cells[0])?.map_or_else(|| "NULL".to_string(), literal))
}

fn num_nulls(cells: &[Cell]) -> SqlResult<Cell> {
    Ok(Cell::Plain(Datum::Int(cells.iter().filter(|cell| cell.is_null()).count() as i64)))
}

fn num_nonnulls(cells: &[Cell]) -> SqlResult<Cell> {
    Ok(Cell::Plain(Datum::Int(cells.iter().filter(|cell| !cell.is_null()).count() as i64)))
}

/// Neither `infinity` nor `-infinity` is a value here.
fn isfinite(_: &[Cell]) -> SqlResult<Cell> {
    Ok(Cell::Plain(Datum::Bool(true)))
}

/// `format(template, …)`: `%[position$][-][width]type`, where the type is `s`, `I`, `L` or `%`.
///
/// Errors: 22023 for a template that cannot be followed, 22004 for an identifier that is NULL.
fn format_text(cells: &[Cell]) -> SqlResult<Cell> {
    let Some(template) = text_of(&cells[0])? else { return Ok(Cell::Plain(Datum::Null)) };
    let wrong = |message: &str| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
    let unterminated =
        || wrong("unterminated format() type specifier").hint("For a single \"%\" use \"%%\".");
    let mut out = String::new();
    let mut rest = template.chars().peekable();
    let mut next_argument = 1;
    while let Some(c) = rest.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        if rest.next_if_eq(&'%').is_some() {
            out.push('%');
            continue;
        }
        let number = |rest: &mut std::iter::Peekable<std::str::Chars<'_>>| {
            let mut digits = String::new();
            while let Some(digit) = rest.next_if(char::is_ascii_digit) {
                digits.push(digit);
            }
            let parsed = (!digits.is_empty()).then(|| digits.parse::<i32>());
            parsed
                .transpose()
                .map_err(|_| SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "number is out of range"))
        };
        let mut position = None;
        let mut width = number(&mut rest)?.map(i64::from);
        if width.is_some() && rest.next_if_eq(&'$').is_some() {
            position = width.take();
        }
        let mut is_left = false;
        while width.is_none() && rest.next_if_eq(&'-').is_some() {
            is_left = true;
        }
        if width.is_none() {
            width = number(&mut rest)?.map(i64::from);
        }
        if width.is_none() && rest.next_if_eq(&'*').is_some() {
            let asked = number(&mut rest)?;
            if asked.is_some() && rest.next_if_eq(&'$').is_none() {
                return Err(wrong("width argument position must be ended by \"$\""));
            }
            let at = asked.map_or(next_argument, i64::from);
            next_argument = at + 1;
            let given = argument(cells, at)?;
            let given = given.map(|text| text.parse::<i64>()).transpose();
            let given = given.map_err(|_| wrong("width of format() is not an integer"))?.unwrap_or(0);
            is_left |= given < 0;
            width = Some(given.abs());
        }
        let kind = rest.next().ok_or_else(unterminated)?;
        if !matches!(kind, 's' | 'I' | 'L') {
            let message = format!("unrecognized format() type specifier \"{kind}\"");
            return Err(wrong(&message).hint("For a single \"%\" use \"%%\"."));
        }
        let at = position.unwrap_or(next_argument);
        next_argument = at + 1;
        let value = argument(cells, at)?;
        let shown = match (kind, value) {
            ('s', value) => value.unwrap_or_default().to_string(),
            ('L', value) => value.map_or_else(|| "NULL".to_string(), literal),
            (_, Some(name)) => quoted(name),
            (_, None) => {
                return Err(SqlError::new(
                    SqlState(*b"22004"),
                    "null values cannot be formatted as an SQL identifier",
                ));
            }
        };
        // Their growth is reserved for widths up to the longest text.
        let width = usize::try_from(width.unwrap_or(0)).unwrap_or(0);
        if width > WIDTH_MAX {
            return Err(SqlError::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                format!("a field of format() has at most {WIDTH_MAX} characters"),
            ));
        }
        let missing = width.saturating_sub(shown.chars().count());
        let blanks = std::iter::repeat_n(' ', missing);
        if is_left {
            out.push_str(&shown);
            out.extend(blanks);
        } else {
            out.extend(blanks);
            out.push_str(&shown);
        }
    }
    text(out)
}

/// Widest field of `format`.
const WIDTH_MAX: usize = 10_000;

/// The argument at a position from 1. Errors: 22023 where there is none.
fn argument(cells: &[Cell], at: i64) -> SqlResult<Option<&str>> {
    if at == 0 {
        return Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            "format specifies argument 0, but arguments are numbered from 1",
        ));
    }
    let cell = usize::try_from(at).ok().and_then(|at| cells.get(at));
    text_of(
        cell.ok_or_else(|| {
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "too few arguments for format()")
        })?,
    )
}

fn moment(cell: &Cell) -> SqlResult<i64> {
    match cell {
        Cell::Plain(Datum::Timestamp(us)) => Ok(*us),
        Cell::Plain(Datum::Date(day)) => base::convert::midnight(*day),
        _ => Err(no_such("function age")),
    }
}

/// From the second moment to the first in years, months, days and time, as one counts by hand: what the days lack is taken
/// from the length of the earlier month.
fn age(cells: &[Cell]) -> SqlResult<Cell> {
    let (to, from) = (moment(&cells[0])?, moment(&cells[1])?);
    let (early, late) = (from.min(to), from.max(to));
    let parts = |us: i64| {
        let (year, month, day) = civil(us.div_euclid(US_PER_DAY) as i32);
        (year, i64::from(month), i64::from(day), us.rem_euclid(US_PER_DAY))
    };
    let (a, b) = (parts(early), parts(late));
    let (mut months, mut days, mut us) = ((b.0 - a.0) * 12 + b.1 - a.1, b.2 - a.2, b.3 - a.3);
    if us < 0 {
        us += US_PER_DAY;
        days -= 1;
    }
    if days < 0 {
        let length = (28..=31).rev().find(|day| day_number(a.0, a.1 as u32, *day).is_some());
        days += i64::from(length.unwrap_or(31));
        months -= 1;
    }
    let span = Interval { months: months as i32, days: days as i32, us };
    Ok(Cell::Span(if to < from { span.checked_neg()? } else { span }))
}

pub(super) fn span(cell: &Cell) -> SqlResult<Interval> {
    match cell {
        Cell::Span(span) => Ok(*span),
        Cell::Plain(_) => Err(no_such("a function of intervals")),
    }
}

/// Days of 24 hours, with the sign of what is left.
fn justify_hours(cells: &[Cell]) -> SqlResult<Cell> {
    let given = span(&cells[0])?;
    let days = given.us / US_PER_DAY + i64::from(given.days);
    carried(i64::from(given.months), days, given.us % US_PER_DAY, |months, days, us| {
        (months, days + carry(days, us), us - carry(days, us) * US_PER_DAY)
    })
}

/// Months of 30 days, with the sign of what is left.
fn justify_days(cells: &[Cell]) -> SqlResult<Cell> {
    let given = span(&cells[0])?;
    let (months, days) = (i64::from(given.months) + i64::from(given.days) / 30, i64::from(given.days) % 30);
    carried(months, days, given.us, |months, days, us| {
        (months + carry(months, days), days - carry(months, days) * 30, us)
    })
}

/// One, if what is left has the other sign than the whole.
fn carry(whole: i64, left: i64) -> i64 {
    match (whole.signum(), left.signum()) {
        (1, -1) => -1,
        (-1, 1) => 1,
        _ => 0,
    }
}

pub(super) fn carried(
    months: i64,
    days: i64,
    us: i64,
    carry: impl Fn(i64, i64, i64) -> (i64, i64, i64),
) -> SqlResult<Cell> {
    let (months, days, us) = carry(months, days, us);
    let fits = i32::try_from(months).ok().zip(i32::try_from(days).ok());
    let (months, days) =
        fits.ok_or_else(|| SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "interval out of range"))?;
    Ok(Cell::Span(Interval { months, days, us }))
}

/// A number among the arguments of a function that makes a moment.
fn number_of(cell: &Cell, function: &str) -> SqlResult<f64> {
    match cell {
        Cell::Plain(value) => value.as_f64().ok_or_else(|| no_such(function)),
        Cell::Span(_) => Err(no_such(function)),
    }
}

fn out_of_range(what: &str, shown: String) -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("{what} field value out of range: {shown}"))
}

/// The day that a year, a month and a day name; the year -1 is 1 BC, and there is none before it. Errors: 22008.
fn day_of(cells: &[Cell], function: &str) -> SqlResult<i32> {
    let part = |n: usize| number_of(&cells[n], function).map(|f| f as i64);
    let (year, month, day) = (part(0)?, part(1)?, part(2)?);
    let date = u32::try_from(month).ok().zip(u32::try_from(day).ok()).filter(|_| year != 0);
    let date = date.and_then(|(month, day)| day_number(if year < 0 { year + 1 } else { year }, month, day));
    date.ok_or_else(|| out_of_range("date", format!("{year}-{month:02}-{day:02}")))
}

fn make_date(cells: &[Cell]) -> SqlResult<Cell> {
    Ok(Cell::Plain(Datum::Date(day_of(cells, "function make_date")?)))
}

/// Microseconds of a day at an hour, a minute and a second. Errors: 22008.
fn time_of(cells: &[Cell], function: &str) -> SqlResult<i64> {
    let part = |n: usize| number_of(&cells[n], function).map(|f| f as i64);
    let (hour, minute, second) = (part(0)?, part(1)?, number_of(&cells[2], function)?);
    let refused = || out_of_range("time", format!("{hour}:{minute:02}:{second}"));
    if !(0..=24).contains(&hour) || !(0..60).contains(&minute) || !(0.0..=60.0).contains(&second) {
        return Err(refused());
    }
    let us = (hour * 60 + minute) * 60_000_000 + (second * 1e6).round_ties_even() as i64;
    if us <= US_PER_DAY { Ok(us) } else { Err(refused()) }
}

fn make_time(cells: &[Cell]) -> SqlResult<Cell> {
    Ok(Cell::Plain(Datum::Time(time_of(cells, "function make_time")?)))
}

fn make_timestamp(cells: &[Cell]) -> SqlResult<Cell> {
    let function = "function make_timestamp";
    let us = base::convert::midnight(day_of(cells, function)?)? + time_of(&cells[3..], function)?;
    Ok(Cell::Plain(Datum::Timestamp(us)))
}

/// Errors: 22003 for a negative number and for a product of more than 38 digits.
fn factorial(cells: &[Cell]) -> SqlResult<Cell> {
    let Cell::Plain(Datum::Int(n)) = cells[0] else { return Err(no_such("function factorial")) };
    let wrong = |told: &str| SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, told);
    if n < 0 {
        return Err(wrong("factorial of a negative number is undefined"));
    }
    // 33! is the last one below 10 to the power of 38.
    if n > 33 {
        return Err(wrong("value overflows numeric format").detail("A numeric has at most 38 digits."));
    }
    Ok(Cell::Plain(Datum::Decimal(Decimal::new((1..=i128::from(n)).product(), 0))))
}

/// Types are known where a plan's are settled; over the system catalog they only stand for PostgreSQL's.
fn unsettled(_: &[Cell]) -> SqlResult<Cell> {
    Err(SqlError::unsupported("pg_typeof over the system catalog"))
}
