//! Functions of texts that are functions of byte strings too, and those of bytes and bits alone.
//!
//! The planner has one function by a name, and finds out what its arguments are by itself: [`Either`] is the library's
//! function of texts, and ours where an argument is a byte string.

use super::fields::call_name;
use super::rowwise::{Cell, Column, Returns, each_row};
use super::small_functions::Small;
use base::error::SqlResult;
use base::{DataType, Datum, SqlError, SqlState};
use datafusion::arrow::datatypes::{DataType as Arrow, Field, FieldRef};
use datafusion::common::Result;
use datafusion::execution::context::SessionContext;
use datafusion::functions::{core, string, unicode};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

type Compute = fn(&[Cell]) -> SqlResult<Cell>;

const BYTES: Returns = Returns::Plain(DataType::Bytea);
const INTEGER: Returns = Returns::Plain(DataType::Integer);

fn either() -> impl Iterator<Item = Either> {
    let all: [(Arc<ScalarUDF>, Returns, Compute); 8] = [
        (unicode::substr(), BYTES, substring),
        (core::overlay(), BYTES, overlay),
        (unicode::strpos(), INTEGER, position),
        (string::btrim(), BYTES, |cells| trimmed(cells, true, true)),
        (string::ltrim(), BYTES, |cells| trimmed(cells, true, false)),
        (string::rtrim(), BYTES, |cells| trimmed(cells, false, true)),
        (string::octet_length(), INTEGER, |cells| length(cells, 1)),
        (string::bit_length(), INTEGER, |cells| length(cells, 8)),
    ];
    all.into_iter().map(|(of_texts, returns, of_bytes)| {
        let signature = Signature::user_defined(Volatility::Immutable);
        Either { of_texts, returns, of_bytes, signature }
    })
}

/// A call of one of them, for what has a form of its own in the language. `None` for other functions.
pub(super) fn call(name: &str, arguments: &[Expr]) -> Option<Expr> {
    let function = either().find(|function| function.name() == name)?;
    let function = Arc::new(ScalarUDF::new_from_impl(function));
    Some(Expr::ScalarFunction(ScalarFunction::new_udf(function, arguments.to_vec())))
}

/// `||` of two byte strings.
pub(super) fn concatenated(left: Expr, right: Expr) -> Expr {
    let function = Arc::new(ScalarUDF::new_from_impl(joined()));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![left, right]))
}

fn joined() -> Small {
    let signature = Signature::any(2, Volatility::Immutable);
    let compute: Compute = |cells| made([bytes_of(&cells[0])?, bytes_of(&cells[1])?].concat());
    Small { name: "meridian_bytes_joined", signature, returns: BYTES, is_strict: true, compute }
}

/// Makes the functions known.
pub(super) fn install(context: &SessionContext) {
    for function in either() {
        context.register_udf(ScalarUDF::new_from_impl(function));
    }
    context.register_udf(ScalarUDF::new_from_impl(joined()));
    let any = |count| Signature::any(count, Volatility::Immutable);
    let small: [(&'static str, usize, Returns, Compute); 4] = [
        ("get_byte", 2, INTEGER, get_byte),
        ("set_byte", 3, BYTES, set_byte),
        ("get_bit", 2, INTEGER, get_bit),
        ("set_bit", 3, BYTES, set_bit),
    ];
    for (name, count, returns, compute) in small {
        let function = Small { name, signature: any(count), returns, is_strict: true, compute };
        context.register_udf(ScalarUDF::new_from_impl(function));
    }
}

/// Names of functions of texts or byte strings.
pub(super) const EITHER: [&str; 6] = ["substr", "overlay", "strpos", "btrim", "ltrim", "rtrim"];

#[derive(Debug)]
struct Either {
    of_texts: Arc<ScalarUDF>,
    returns: Returns,
    of_bytes: Compute,
    signature: Signature,
}

impl PartialEq for Either {
    fn eq(&self, other: &Either) -> bool {
        self.of_texts == other.of_texts
    }
}
impl Eq for Either {}
impl Hash for Either {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.of_texts.hash(state);
    }
}

fn is_bytes(data_type: &Arrow) -> bool {
    matches!(data_type, Arrow::Binary)
}

/// Whether the first of the arguments, or a literal's neighbour, is a byte string.
fn are_of_bytes<'a>(mut types: impl Iterator<Item = &'a Arrow>) -> bool {
    types.any(is_bytes)
}

impl ScalarUDFImpl for Either {
    fn name(&self) -> &str {
        self.of_texts.name()
    }
    fn aliases(&self) -> &[String] {
        self.of_texts.aliases()
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        call_name(self.name(), arguments)
    }
    fn coerce_types(&self, types: &[Arrow]) -> Result<Vec<Arrow>> {
        if !are_of_bytes(types.iter()) {
            let fields: Vec<FieldRef> =
                types.iter().map(|of| Arc::new(Field::new("", of.clone(), true))).collect();
            let taken = fields_with_udf(&fields, self.of_texts.as_ref())?;
            return Ok(taken.iter().map(|field| field.data_type().clone()).collect());
        }
        let coerced = types.iter().map(|of| match of {
            of if of.is_integer() => Arrow::Int64,
            of => of.clone(),
        });
        Ok(coerced.collect())
    }
    fn return_type(&self, types: &[Arrow]) -> Result<Arrow> {
        if are_of_bytes(types.iter()) { Ok(self.returns.arrow()) } else { self.of_texts.return_type(types) }
    }
    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        if are_of_bytes(arguments.arg_fields.iter().map(|field| field.data_type())) {
            let returned = Field::new(self.name(), self.returns.arrow(), true);
            return Ok(Arc::new(returned));
        }
        self.of_texts.return_field_from_args(arguments)
    }
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if !are_of_bytes(arguments.arg_fields.iter().map(|field| field.data_type())) {
            return self.of_texts.invoke_with_args(arguments);
        }
        each_row(&arguments, self.returns, |columns: &[Column], row| {
            let cells: Vec<Cell> = columns.iter().map(|column| column.at(row)).collect();
            match cells.iter().any(Cell::is_null) {
                true => Ok(Cell::Plain(Datum::Null)),
                false => (self.of_bytes)(&cells),
            }
        })
    }
}

/// Errors: 42883 for anything else.
pub(super) fn bytes_of(cell: &Cell) -> SqlResult<&[u8]> {
    match cell {
        Cell::Plain(Datum::Bytes(bytes)) => Ok(bytes),
        _ => Err(no_such()),
    }
}

fn number_of(cell: &Cell) -> SqlResult<i64> {
    match cell {
        Cell::Plain(Datum::Int(number)) => Ok(*number),
        _ => Err(no_such()),
    }
}

fn no_such() -> SqlError {
    SqlError::new(
        SqlState::UNDEFINED_FUNCTION,
        "a function of byte strings does not exist for arguments of these types",
    )
    .hint("No function matches the given name and argument types. You might need to add explicit type casts.")
}

pub(super) fn made(bytes: impl Into<Arc<[u8]>>) -> SqlResult<Cell> {
    Ok(Cell::Plain(Datum::Bytes(bytes.into())))
}

/// From a byte counted from 1 on, so many. Errors: 22011 for less than none.
fn part(bytes: &[u8], start: i64, count: Option<i64>) -> SqlResult<&[u8]> {
    let end = match count {
        None => i64::MAX,
        Some(..0) => return Err(negative()),
        Some(count) => start.saturating_add(count),
    };
    let at = |position: i64| usize::try_from(position.max(1) - 1).unwrap_or(usize::MAX).min(bytes.len());
    Ok(&bytes[at(start)..at(end).max(at(start))])
}

fn negative() -> SqlError {
    SqlError::new(SqlState(*b"22011"), "negative substring length not allowed")
}

fn substring(cells: &[Cell]) -> SqlResult<Cell> {
    let count = cells.get(2).map(number_of).transpose()?;
    made(part(bytes_of(&cells[0])?, number_of(&cells[1])?, count)?)
}

fn overlay(cells: &[Cell]) -> SqlResult<Cell> {
    let (bytes, with, start) = (bytes_of(&cells[0])?, bytes_of(&cells[1])?, number_of(&cells[2])?);
    let count = cells.get(3).map(number_of).transpose()?.unwrap_or(with.len() as i64);
    if start <= 0 {
        return Err(negative());
    }
    let before = part(bytes, 1, Some(start - 1))?;
    let behind = part(bytes, start.saturating_add(count), None)?;
    made([before, with, behind].concat())
}

fn length(cells: &[Cell], of_a_byte: i64) -> SqlResult<Cell> {
    Ok(Cell::Plain(Datum::Int(bytes_of(&cells[0])?.len() as i64 * of_a_byte)))
}

fn position(cells: &[Cell]) -> SqlResult<Cell> {
    let (bytes, wanted) = (bytes_of(&cells[0])?, bytes_of(&cells[1])?);
    let found = match wanted.is_empty() {
        true => Some(0),
        false => bytes.windows(wanted.len()).position(|window| window == wanted),
    };
    Ok(Cell::Plain(Datum::Int(found.map_or(0, |at| at as i64 + 1))))
}

fn trimmed(cells: &[Cell], at_start: bool, at_end: bool) -> SqlResult<Cell> {
    let (mut rest, set) = (bytes_of(&cells[0])?, bytes_of(cells.get(1).ok_or_else(no_such)?)?);
    while at_start
        && let [first, behind @ ..] = rest
        && set.contains(first)
    {
        rest = behind;
    }
    while at_end
        && let [before @ .., last] = rest
        && set.contains(last)
    {
        rest = before;
    }
    made(rest)
}

/// Errors: 2202E for a place that there is not.
fn place(number: i64, count: usize) -> SqlResult<usize> {
    let at = usize::try_from(number).ok().filter(|at| *at < count);
    at.ok_or_else(|| {
        let told = format!("index {number} out of valid range, 0..{}", count as i64 - 1);
        SqlError::new(SqlState(*b"2202E"), told)
    })
}

fn get_byte(cells: &[Cell]) -> SqlResult<Cell> {
    let bytes = bytes_of(&cells[0])?;
    let at = place(number_of(&cells[1])?, bytes.len())?;
    Ok(Cell::Plain(Datum::Int(bytes[at].into())))
}

fn set_byte(cells: &[Cell]) -> SqlResult<Cell> {
    let mut bytes = bytes_of(&cells[0])?.to_vec();
    let at = place(number_of(&cells[1])?, bytes.len())?;
    bytes[at] = number_of(&cells[2])? as u8;
    made(bytes)
}

/// Bits are counted from the least of the first byte.
fn get_bit(cells: &[Cell]) -> SqlResult<Cell> {
    let bytes = bytes_of(&cells[0])?;
    let at = place(number_of(&cells[1])?, bytes.len().saturating_mul(8))?;
    Ok(Cell::Plain(Datum::Int((bytes[at / 8] >> (at % 8) & 1).into())))
}

fn set_bit(cells: &[Cell]) -> SqlResult<Cell> {
    let mut bytes = bytes_of(&cells[0])?.to_vec();
    let at = place(number_of(&cells[1])?, bytes.len().saturating_mul(8))?;
    let bit = 1 << (at % 8);
    match number_of(&cells[2])? {
        0 => bytes[at / 8] &= !bit,
        1 => bytes[at / 8] |= bit,
        _ => return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "new bit must be 0 or 1")),
    }
    made(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(of: &[u8]) -> Cell {
        Cell::Plain(Datum::Bytes(of.into()))
    }
    fn int(n: i64) -> Cell {
        Cell::Plain(Datum::Int(n))
    }

    #[test]
    fn parts_of_bytes_are_counted_from_one() {
        let part = |start, count| substring(&[bytes(&[1, 2, 3]), int(start), int(count)]).unwrap();
        assert_eq!(part(2, 1), bytes(&[2]));
        assert_eq!(part(-1, 3), bytes(&[1]));
        assert_eq!(part(3, i64::MAX), bytes(&[3]));
        assert_eq!(part(9, 1), bytes(&[]));
        assert!(substring(&[bytes(&[1]), int(1), int(-1)]).is_err());
    }

    #[test]
    fn bits_are_counted_from_the_least_of_the_first_byte() {
        assert_eq!(get_bit(&[bytes(&[0, 2]), int(9)]).unwrap(), int(1));
        assert_eq!(set_bit(&[bytes(&[0, 2]), int(9), int(0)]).unwrap(), bytes(&[0, 0]));
        assert!(get_bit(&[bytes(&[0]), int(8)]).is_err());
    }
}
