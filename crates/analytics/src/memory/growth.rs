//! How large what a function makes can be, from its arguments alone.
//!
//! KEEPS: a bound is never below what the function makes, where its name is known here; all arithmetic
//! saturates.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, OffsetSizeTrait};
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Int32Type, Int64Type, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::ColumnarValue;

/// How a function's result follows from its arguments.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Growth {
    /// A text, so many times.
    Repeat,
    /// To so many characters.
    Pad,
    /// All arguments behind each other.
    Concat,
    /// The same with the first one in between.
    ConcatSeparated,
    Replace,
    RegexpReplace,
    /// A text as a list of parts.
    Split,
    /// A list as a text.
    Join,
    /// A list of so many elements.
    ArrayRepeat,
    ArrayResize,
    Range,
    /// A list of what the groups of a match have matched.
    Match,
    /// The same of all matches.
    Matches,
    /// A list of what lies between matches.
    Pieces,
    /// So many times all arguments.
    Linear(u64),
}

fn growth(name: &str) -> (Growth, bool) {
    match name {
        "repeat" => (Growth::Repeat, true),
        "lpad" | "rpad" => (Growth::Pad, false),
        "concat" | super::functions::CONCAT => (Growth::Concat, true),
        "concat_ws" => (Growth::ConcatSeparated, true),
        "replace" => (Growth::Replace, false),
        "regexp_replace" => (Growth::RegexpReplace, false),
        "string_to_array" => (Growth::Split, false),
        "array_to_string" => (Growth::Join, false),
        "array_repeat" => (Growth::ArrayRepeat, false),
        "array_resize" => (Growth::ArrayResize, false),
        "range" | crate::sets::SERIES_LIST => (Growth::Range, false),
        "regexp_match" => (Growth::Match, false),
        "meridian_regexp_matches" => (Growth::Matches, false),
        "regexp_split_to_array" | "meridian_regexp_pieces" => (Growth::Pieces, false),
        // Characters may get longer.
        "upper" | "lower" | "initcap" => (Growth::Linear(3), false),
        // U+FDFA is 18 letters.
        "normalize" => (Growth::Linear(11), false),
        // The longest field for its letters: `J`, a day's number.
        "to_char" => (Growth::Linear(12), false),
        // Three octal digits and a backslash.
        "translate" | "encode" => (Growth::Linear(4), false),
        "substr" | "left" | "right" | "btrim" | "ltrim" | "rtrim" | "split_part" | "reverse"
        | "substr_index" | "coalesce" => (Growth::Linear(1), false),
        _ => (Growth::Linear(2), false),
    }
}

/// What a call can make, row by row.
pub(super) struct Bound {
    /// One entry if every row is alike.
    rows: Vec<u64>,
    /// A value is really as long as its bound says.
    pub is_exact: bool,
}

/// Bytes besides the values: offsets, views, and what small results are made of.
const ROW_BYTES: u64 = 16;

impl Bound {
    pub fn of(name: &str, arguments: &[ColumnarValue], number_rows: usize) -> Bound {
        let (growth, is_exact) = growth(name);
        let arguments: Vec<Argument> = arguments.iter().map(Argument::of).collect();
        let alike = arguments.iter().all(|argument| argument.is_scalar);
        let count = if alike { number_rows.min(1) } else { number_rows };
        let mut rows = Vec::with_capacity(count);
        rows.extend((0..count).map(|row| bytes(growth, &arguments, row)));
        Bound { rows, is_exact }
    }

    /// The longest single value.
    pub fn value_max(&self) -> u64 {
        self.rows.iter().copied().max().unwrap_or_default()
    }

    /// Bytes of so many rows from one on.
    pub fn of_rows(&self, first: usize, count: usize) -> u64 {
        let values = match self.rows.as_slice() {
            [one] => one.saturating_mul(count as u64),
            rows => rows[first..first + count].iter().fold(0, |sum: u64, row| sum.saturating_add(*row)),
        };
        values.saturating_add(ROW_BYTES.saturating_mul(count as u64))
    }

    /// How many rows from one on have at most so many bytes; one at least.
    pub fn rows_within(&self, first: usize, end: usize, bytes_max: u64) -> usize {
        let (mut count, mut bytes) = (0, 0u64);
        while first + count < end {
            let row = self.rows.get(first + count).or(self.rows.first()).copied().unwrap_or_default();
            bytes = bytes.saturating_add(row).saturating_add(ROW_BYTES);
            if count > 0 && bytes > bytes_max {
                break;
            }
            count += 1;
        }
        count
    }
}

fn bytes(growth: Growth, arguments: &[Argument], row: usize) -> u64 {
    let size = |n: usize| arguments.get(n).map_or(0, |a| a.bytes(row));
    let count = |n: usize| arguments.get(n).and_then(|a| a.number(row)).unwrap_or_default();
    let all = || arguments.iter().fold(0u64, |sum, a| sum.saturating_add(a.bytes(row)));
    match growth {
        Growth::Repeat => size(0).saturating_mul(count(1).max(0) as u64),
        Growth::Pad => {
            let is_ascii = [0, 2].iter().all(|n| arguments.get(*n).is_none_or(|a| a.is_ascii(row)));
            (count(1).max(0) as u64).saturating_mul(if is_ascii { 1 } else { 4 })
        }
        Growth::Concat => all(),
        Growth::ConcatSeparated => {
            let between = size(0).saturating_mul(arguments.len().saturating_sub(2) as u64);
            all().saturating_add(between)
        }
        Growth::Replace => {
            let (text, from, to) = (size(0), size(1), size(2));
            match from {
                0 => text.saturating_add(text.saturating_add(1).saturating_mul(to)),
                _ if to <= from => text,
                _ => text.saturating_add((text / from).saturating_mul(to)),
            }
        }
        Growth::RegexpReplace => {
            let (text, with) = (size(0), size(2));
            // Matches do not overlap: what a reference takes of them is at most the whole text. Every second
            // byte of the replacement can be a reference.
            let is_global = arguments.get(3).is_some_and(|flags| flags.contains(row, b'g'));
            let matches = if is_global { text.saturating_add(1) } else { 1 };
            let references = arguments.get(2).map_or(0, |a| a.references(row));
            let taken = references.saturating_mul(text);
            text.saturating_add(matches.saturating_mul(with)).saturating_add(taken)
        }
        Growth::Split => {
            let parts = size(0) / size(1).max(1) + 1;
            size(0).saturating_add(parts.saturating_mul(ROW_BYTES))
        }
        Growth::Join => {
            let elements = arguments.first().map_or(0, |a| a.elements(row));
            let each = size(1).saturating_add(size(2)).saturating_add(24);
            size(0).saturating_add(elements.saturating_mul(each))
        }
        Growth::ArrayRepeat => size(0).saturating_add(ROW_BYTES).saturating_mul(count(1).max(0) as u64),
        Growth::ArrayResize => {
            let added = size(2).saturating_add(ROW_BYTES).saturating_mul(count(1).max(0) as u64);
            size(0).saturating_add(added)
        }
        Growth::Range if arguments.first().is_some_and(Argument::is_moment) => {
            // Months have 28 days at least. A series that would be longer is refused.
            let us = |n: usize| arguments.get(n).and_then(|a| a.us(row));
            let values = match (us(0), us(1), us(2)) {
                (Some(from), Some(to), Some(step)) if step != 0 => from.abs_diff(to) / step.unsigned_abs(),
                _ => 0,
            };
            let values = u64::try_from(values).unwrap_or(u64::MAX).saturating_add(1);
            values.min(crate::sets::MOMENTS_MAX as u64).saturating_mul(24)
        }
        Growth::Range if arguments.iter().any(Argument::is_numeric) => of_numerics(arguments, row),
        Growth::Range => {
            let (from, to) = if arguments.len() > 1 { (count(0), count(1)) } else { (0, count(0)) };
            let step = if arguments.len() > 2 { count(2).unsigned_abs().max(1) } else { 1 };
            (from.abs_diff(to) / step).saturating_add(1).saturating_mul(8)
        }
        Growth::Match => of_match(size(0), size(1)),
        Growth::Matches => of_matches(size(0), size(1)),
        Growth::Pieces => size(0).saturating_add(size(0).saturating_add(1).saturating_mul(ROW_BYTES)),
        Growth::Linear(factor) => all().saturating_mul(factor),
    }
}

/// A series of numerics, which is refused where it would be longer.
fn of_numerics(arguments: &[Argument], row: usize) -> u64 {
    let number = |n: usize| arguments.get(n).map_or(Some(1.0), |a| a.real(row));
    let values = match (number(0), number(1), number(2)) {
        (Some(from), Some(to), Some(step)) if step != 0.0 => ((to - from) / step).abs() as u64,
        _ => 0,
    };
    values.saturating_add(2).min(crate::sets::MOMENTS_MAX as u64).saturating_mul(64)
}

/// What the groups of a match have matched.
fn of_match(text: u64, pattern: u64) -> u64 {
    let groups = pattern.saturating_add(1);
    text.saturating_mul(groups.min(64)).saturating_add(groups.saturating_mul(ROW_BYTES))
}

/// All matches of a text. They do not overlap; quotes and backslashes are written twice, and each match has its entry.
fn of_matches(text: u64, pattern: u64) -> u64 {
    let groups = pattern.saturating_add(1).min(64);
    let entries = text.saturating_add(1).saturating_mul(groups).saturating_mul(ROW_BYTES);
    text.saturating_mul(2).saturating_mul(groups).saturating_add(entries)
}

/// An argument, of which a row can be looked at.
struct Argument {
    values: Option<ArrayRef>,
    is_scalar: bool,
    /// A scalar's, or that of a value of fixed width.
    bytes: Option<u64>,
    /// Of a text without its value here.
    is_ascii: bool,
}

impl Argument {
    fn of(value: &ColumnarValue) -> Argument {
        let (values, is_scalar) = match value {
            ColumnarValue::Array(array) => (Some(array.clone()), false),
            // Texts are not copied to be looked at.
            ColumnarValue::Scalar(scalar) => match text_of(scalar) {
                Some(text) if text.len() > 256 => {
                    let (bytes, is_ascii) = (Some(text.len() as u64), text.is_ascii());
                    return Argument { values: None, is_scalar: true, bytes, is_ascii };
                }
                _ => (scalar.to_array().ok(), true),
            },
        };
        let width = values.as_ref().and_then(|array| array.data_type().primitive_width());
        let bytes = width.map(|width| width.max(24) as u64);
        let mut argument = Argument { values, is_scalar, bytes, is_ascii: true };
        if is_scalar {
            argument.bytes = Some(argument.bytes(0));
        }
        argument
    }

    fn row(&self, row: usize) -> usize {
        if self.is_scalar { 0 } else { row }
    }

    fn bytes(&self, row: usize) -> u64 {
        match (self.bytes, &self.values) {
            (Some(bytes), _) => bytes,
            (None, Some(values)) => bytes_at(values.as_ref(), row),
            (None, None) => 0,
        }
    }

    fn elements(&self, row: usize) -> u64 {
        let row = self.row(row);
        self.values.as_ref().map_or(0, |values| match values.data_type() {
            DataType::List(_) => values.as_list::<i32>().value_length(row).max(0) as u64,
            DataType::LargeList(_) => values.as_list::<i64>().value_length(row).max(0) as u64,
            DataType::FixedSizeList(_, length) => (*length).max(0) as u64,
            _ => 0,
        })
    }

    fn number(&self, row: usize) -> Option<i64> {
        let (values, row) = (self.values.as_ref()?, self.row(row));
        if values.is_null(row) {
            return None;
        }
        match values.data_type() {
            DataType::Int64 => Some(values.as_primitive::<Int64Type>().value(row)),
            DataType::Int32 => Some(i64::from(values.as_primitive::<Int32Type>().value(row))),
            DataType::Null => None,
            // Counts of other types are not expected; whatever they are, they are large.
            _ => match ScalarValue::try_from_array(values, row).ok()?.cast_to(&DataType::Int64).ok()? {
                ScalarValue::Int64(number) => number,
                _ => Some(i64::MAX),
            },
        }
    }

    fn is_moment(&self) -> bool {
        let data_type = self.values.as_ref().map(|values| values.data_type());
        matches!(data_type, Some(DataType::Timestamp(..) | DataType::Date32))
    }

    fn is_numeric(&self) -> bool {
        self.values.as_ref().is_some_and(|values| matches!(values.data_type(), DataType::Decimal128(..)))
    }

    /// A number, about.
    fn real(&self, row: usize) -> Option<f64> {
        let value = ScalarValue::try_from_array(self.values.as_ref()?, self.row(row)).ok()?;
        match value.cast_to(&DataType::Float64).ok()? {
            ScalarValue::Float64(number) => number,
            _ => None,
        }
    }

    /// A moment, or the length of an interval, in µs.
    fn us(&self, row: usize) -> Option<i128> {
        const DAY_US: i128 = 86_400_000_000;
        let (values, row) = (self.values.as_ref()?, self.row(row));
        if values.is_null(row) {
            return None;
        }
        match values.data_type() {
            DataType::Interval(IntervalUnit::MonthDayNano) => {
                let span = values.as_primitive::<IntervalMonthDayNanoType>().value(row);
                let days = 28 * i128::from(span.months) + i128::from(span.days);
                Some(days * DAY_US + i128::from(span.nanoseconds / 1_000))
            }
            DataType::Date32 => Some(i128::from(values.as_primitive::<Date32Type>().value(row)) * DAY_US),
            _ => {
                let us = DataType::Timestamp(TimeUnit::Microsecond, None);
                let moment = ScalarValue::try_from_array(values, row).ok()?.cast_to(&us).ok()?;
                match moment {
                    ScalarValue::TimestampMicrosecond(us, _) => us.map(i128::from),
                    _ => None,
                }
            }
        }
    }

    fn is_ascii(&self, row: usize) -> bool {
        self.is_ascii && self.text(row).is_none_or(str::is_ascii)
    }

    fn text(&self, row: usize) -> Option<&str> {
        let (values, row) = (self.values.as_ref()?, self.row(row));
        if values.is_null(row) {
            return None;
        }
        match values.data_type() {
            DataType::Utf8 => Some(values.as_string::<i32>().value(row)),
            DataType::LargeUtf8 => Some(values.as_string::<i64>().value(row)),
            DataType::Utf8View => Some(values.as_string_view().value(row)),
            _ => None,
        }
    }

    fn contains(&self, row: usize, byte: u8) -> bool {
        self.text(row).is_none_or(|text| text.as_bytes().contains(&byte))
    }

    /// How many parts of a replacement may stand for parts of the text.
    fn references(&self, row: usize) -> u64 {
        match self.text(row) {
            Some(text) => text.bytes().filter(|b| matches!(b, b'\\' | b'$' | b'&')).count() as u64,
            None => self.bytes(row) / 2,
        }
    }
}

fn text_of(scalar: &ScalarValue) -> Option<&str> {
    match scalar {
        ScalarValue::Utf8(text) | ScalarValue::LargeUtf8(text) | ScalarValue::Utf8View(text) => {
            text.as_deref()
        }
        _ => None,
    }
}

/// Bytes of a scalar's value.
pub(super) fn scalar_bytes(scalar: &ScalarValue) -> u64 {
    match scalar {
        ScalarValue::Utf8(text) | ScalarValue::LargeUtf8(text) | ScalarValue::Utf8View(text) => {
            text.as_ref().map_or(0, |text| text.len() as u64)
        }
        ScalarValue::Binary(bytes) | ScalarValue::LargeBinary(bytes) | ScalarValue::BinaryView(bytes) => {
            bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)
        }
        ScalarValue::List(list) => list.get_buffer_memory_size() as u64,
        ScalarValue::LargeList(list) => list.get_buffer_memory_size() as u64,
        _ => 16,
    }
}

/// Bytes of one value, its elements included.
pub(super) fn bytes_at(array: &dyn Array, row: usize) -> u64 {
    fn of_offsets<O: OffsetSizeTrait>(offsets: &[O], row: usize) -> u64 {
        (offsets[row + 1] - offsets[row]).as_usize() as u64
    }
    fn of_list<O: OffsetSizeTrait>(array: &dyn Array, row: usize) -> u64 {
        let list = array.as_list::<O>();
        let (from, to) = (list.value_offsets()[row].as_usize(), list.value_offsets()[row + 1].as_usize());
        bytes_in(list.values().as_ref(), from, to)
    }
    match array.data_type() {
        DataType::Utf8 => of_offsets(array.as_string::<i32>().value_offsets(), row),
        DataType::LargeUtf8 => of_offsets(array.as_string::<i64>().value_offsets(), row),
        DataType::Binary => of_offsets(array.as_binary::<i32>().value_offsets(), row),
        DataType::LargeBinary => of_offsets(array.as_binary::<i64>().value_offsets(), row),
        DataType::Utf8View => u64::from(array.as_string_view().views()[row] as u32),
        DataType::BinaryView => u64::from(array.as_binary_view().views()[row] as u32),
        DataType::List(_) => of_list::<i32>(array, row),
        DataType::LargeList(_) => of_list::<i64>(array, row),
        DataType::Null => 0,
        other => match other.primitive_width() {
            Some(width) => width as u64,
            // Structs, maps, dictionaries: their share of the whole.
            None => (array.get_buffer_memory_size() / array.len().max(1)) as u64,
        },
    }
}

/// Bytes of values from one to another, with what an entry of a list takes besides.
fn bytes_in(array: &dyn Array, from: usize, to: usize) -> u64 {
    let count = (to - from) as u64;
    if let Some(width) = array.data_type().primitive_width() {
        return count.saturating_mul(width as u64);
    }
    let values = match array.data_type() {
        DataType::Utf8 => {
            let offsets = array.as_string::<i32>().value_offsets();
            (offsets[to] - offsets[from]) as u64
        }
        _ => (from..to).fold(0u64, |sum, row| sum.saturating_add(bytes_at(array, row))),
    };
    values.saturating_add(count.saturating_mul(ROW_BYTES))
}
