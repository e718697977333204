//! How values of one column are written: one function for each kind of value, text or binary.
//!
//! Dates and timestamps need no shift: PostgreSQL counts from 2000-01-01, and so do we.

use crate::rows::sized;
use crate::styles::{Look, Styles};
use base::composite::CompositeType;
use base::decimal::Decimal;
use base::error::SqlResult;
use base::inet::Inet;
use base::interval::Interval;
use base::text::write;
use base::timetz::TimeTz;
use base::{DataType, Datum, SqlError};
use bytes::{BufMut, BytesMut};
use sql::types::{Column, NUMERIC, element_oid, type_of_oid, type_oid};
use std::fmt::Write;

/// The format code of binary values; text is 0.
pub const BINARY: i16 = 1;

/// What binary `jsonb` begins with.
pub const JSONB_FORMAT: u8 = 1;

/// The format code of the i-th of several values: none (all text), one for all, or one for each.
pub fn format_of(formats: &[i16], i: usize) -> i16 {
    match formats {
        [] => 0,
        [all] => *all,
        each => each.get(i).copied().unwrap_or(0),
    }
}

/// Bytes of a value of this type, −1 if they vary.
pub fn type_size(oid: u32) -> i16 {
    match oid {
        16 | 18 => 1,
        21 => 2,
        23 | 26 | 700 | 1082 => 4,
        829 => 6,
        20 | 701 | 774 | 1083 | 1114 | 1184 => 8,
        1266 => 12,
        19 => 64,
        1186 | 2950 => 16,
        _ => -1,
    }
}

/// How values of a column are written.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    is_binary: bool,
    data_type: DataType,
    /// Of the announced type, which decides how wide binary numbers are.
    oid: u32,
    text: TextForm,
    look: Look,
}

/// What a value that is text here is on the wire.
#[derive(Clone, Copy, Debug, PartialEq)]
enum TextForm {
    Plain,
    Padded(u32),
    /// A binary array of elements of this type, by its object id and ours.
    Array(u32, DataType),
}

impl Form {
    pub fn new(column: &Column, format: i16) -> Form {
        let is_binary = format == BINARY;
        let text = match (element_oid(column.type_oid), column.data_type) {
            (Some(of), DataType::Array(elements))
                if is_binary && elements.data_type().enumeration().is_some() =>
            {
                TextForm::Array(of, elements.data_type())
            }
            (Some(of), _) if is_binary => TextForm::Array(of, type_of_oid(of).unwrap_or(DataType::Text)),
            (_, DataType::Char { length }) => TextForm::Padded(length),
            _ => TextForm::Plain,
        };
        Form { is_binary, data_type: column.data_type, oid: column.type_oid, text, look: Look::default() }
    }

    /// Text of a type.
    pub fn text_of(data_type: DataType) -> Form {
        Form::new(&Column::new("", data_type), 0)
    }

    /// The same, shown as a session's settings say.
    pub fn shown_as(self, look: Look) -> Form {
        Form { look, ..self }
    }

    pub(crate) fn look(&self) -> Look {
        self.look
    }

    /// The form of an array's elements in it.
    fn binary_element(of: u32, data_type: DataType) -> Form {
        Form::new(&Column { type_oid: of, ..Column::new("", data_type) }, BINARY)
    }

    /// How the elements of a list are written, if they are written one by one in binary; with their type.
    pub(crate) fn elements(&self) -> Option<(u32, Form)> {
        match self.text {
            TextForm::Array(of, data_type) => Some((of, Form::binary_element(of, data_type))),
            _ => None,
        }
    }

    /// The type of an array's elements, where it is known: labels are not to be told from their codes alone.
    pub(crate) fn labels(&self) -> Option<DataType> {
        match self.data_type {
            DataType::Array(of) => Some(of.data_type()).filter(|of| of.enumeration().is_some()),
            _ => None,
        }
    }

    pub(crate) fn data_type(&self) -> DataType {
        self.data_type
    }

    /// Appends a value that is not null.
    pub fn value(&self, out: &mut BytesMut, value: &Datum) -> SqlResult<()> {
        match value {
            Datum::Null => {}
            Datum::Bool(b) => self.boolean(out, *b),
            Datum::Int(i) => self.integer(out, *i),
            Datum::Float(f) => self.float(out, *f),
            Datum::Decimal(d) => self.decimal(out, *d),
            Datum::Date(day) => self.date(out, *day),
            Datum::Timestamp(us) => self.timestamp(out, *us),
            Datum::Uuid(u) => self.uuid(out, u),
            Datum::Bytes(b) => self.bytes(out, b),
            Datum::Text(text) => self.text(out, text)?,
            Datum::Time(us) => self.time(out, *us),
            Datum::Interval(interval) => self.interval(out, *interval),
            Datum::Json(text) => self.jsonb(out, text.as_bytes()),
            Datum::Inet(address) => self.inet(out, address),
            Datum::TimeTz(time) => self.timetz(out, *time),
            Datum::Array(values) if let DataType::Composite(of) = self.data_type => {
                self.row(out, values, of)?
            }
            Datum::Array(elements) => self.array(out, elements)?,
        }
        Ok(())
    }

    pub(crate) fn boolean(&self, out: &mut BytesMut, value: bool) {
        match self.is_binary {
            true => out.put_u8(u8::from(value)),
            false => taken(write::boolean(out, value)),
        }
    }

    pub(crate) fn integer(&self, out: &mut BytesMut, value: i64) {
        if let DataType::Enum(of) = self.data_type {
            // A label is its text in both forms.
            return out.put_slice(of.label(value).unwrap_or_default().as_bytes());
        }
        match (self.is_binary, type_size(self.oid)) {
            (false, _) => taken(write::integer(out, value)),
            (true, 2) => out.put_i16(value as i16),
            (true, 4) => out.put_i32(value as i32),
            (true, _) => out.put_i64(value),
        }
    }

    pub(crate) fn float(&self, out: &mut BytesMut, value: f64) {
        match (self.is_binary, self.data_type) {
            (true, _) if self.oid == 700 => out.put_f32(value as f32),
            (true, _) => out.put_f64(value),
            (false, DataType::Real) => taken(self.look.styles.real(out, value as f32)),
            (false, _) => taken(self.look.styles.double(out, value)),
        }
    }

    pub(crate) fn decimal(&self, out: &mut BytesMut, value: Decimal) {
        match self.is_binary {
            true => numeric(out, value),
            false => taken(write!(out, "{value}")),
        }
    }

    pub(crate) fn date(&self, out: &mut BytesMut, day: i32) {
        match self.is_binary {
            true => out.put_i32(day),
            false => taken(write::date(out, day)),
        }
    }

    pub(crate) fn timestamp(&self, out: &mut BytesMut, us: i64) {
        match (self.is_binary, self.data_type) {
            (true, _) => out.put_i64(us),
            (false, DataType::TimestampTz) => taken(write::timestamptz(out, us, self.look.zone)),
            (false, _) => taken(write::timestamp(out, us)),
        }
    }

    pub(crate) fn uuid(&self, out: &mut BytesMut, value: &[u8; 16]) {
        match self.is_binary {
            true => out.put_slice(value),
            false => taken(write::uuid(out, value)),
        }
    }

    pub(crate) fn inet(&self, out: &mut BytesMut, value: &Inet) {
        match self.is_binary {
            true => out.put_slice(&value.to_wire(self.data_type == DataType::Cidr)),
            false => taken(write::value(out, &Datum::Inet(*value), self.data_type, self.look.zone)),
        }
    }

    /// In binary the time as its clocks show it, and how many seconds they are behind UTC.
    pub(crate) fn timetz(&self, out: &mut BytesMut, value: TimeTz) {
        match self.is_binary {
            true => {
                out.put_i64(value.us());
                out.put_i32(-value.offset_s());
            }
            false => taken(write!(out, "{value}")),
        }
    }

    pub(crate) fn bytes(&self, out: &mut BytesMut, value: &[u8]) {
        match self.is_binary {
            true => out.put_slice(value),
            false => taken(self.look.styles.bytes(out, value)),
        }
    }

    pub(crate) fn interval(&self, out: &mut BytesMut, value: Interval) {
        match self.is_binary {
            true => {
                out.put_i64(value.us);
                out.put_i32(value.days);
                out.put_i32(value.months);
            }
            false => taken(self.look.styles.interval(out, value)),
        }
    }

    pub(crate) fn time(&self, out: &mut BytesMut, us: i64) {
        match self.is_binary {
            true => out.put_i64(us),
            false => taken(write::time(out, us)),
        }
    }

    /// Canonical text; in binary it has the number of its format in front.
    pub(crate) fn jsonb(&self, out: &mut BytesMut, text: &[u8]) {
        if self.is_binary {
            out.put_u8(JSONB_FORMAT);
        }
        out.put_slice(text);
    }

    /// A row: in binary the number of its values, and each behind its type and its length.
    fn row(&self, out: &mut BytesMut, values: &[Datum], of: CompositeType) -> SqlResult<()> {
        if !self.is_binary {
            taken(write::value(out, &Datum::Array(values.into()), self.data_type, self.look.zone));
            return Ok(());
        }
        out.put_i32(values.len() as i32);
        for (at, value) in values.iter().enumerate() {
            let data_type = of.type_at(at);
            let oid = type_oid(data_type);
            out.put_u32(oid);
            match value.is_null() {
                true => out.put_i32(-1),
                false => {
                    let form = Form::binary_element(oid, data_type);
                    sized(out, |out| form.value(out, value))?;
                }
            }
        }
        Ok(())
    }

    /// An array of one dimension.
    fn array(&self, out: &mut BytesMut, elements: &[Datum]) -> SqlResult<()> {
        let TextForm::Array(of, data_type) = self.text else { return self.array_text(out, elements) };
        let form = Form::binary_element(of, data_type);
        array_header(out, &[elements.len()], elements.iter().any(Datum::is_null), of);
        for element in elements {
            match element.is_null() {
                true => out.put_i32(-1),
                false => sized(out, |out| form.value(out, element))?,
            }
        }
        Ok(())
    }

    /// The text of an array. Where settings choose forms, its elements are written one by one.
    fn array_text(&self, out: &mut BytesMut, elements: &[Datum]) -> SqlResult<()> {
        let is_nested = elements.iter().any(|element| matches!(element, Datum::Array(_)));
        let of = match self.data_type {
            DataType::Array(of) if self.look.styles != Styles::default() && !is_nested => of.data_type(),
            _ => {
                taken(write::value(out, &Datum::Array(elements.into()), self.data_type, self.look.zone));
                return Ok(());
            }
        };
        let form = Form::text_of(of).shown_as(self.look);
        let mut shown = Vec::with_capacity(elements.len());
        for element in elements {
            let mut text = BytesMut::new();
            form.value(&mut text, element)?;
            shown.push((!element.is_null()).then(|| String::from_utf8_lossy(&text).into_owned()));
        }
        out.put_slice(base::text::array::display(&shown).as_bytes());
        Ok(())
    }

    /// What was printed because its kind has no function here.
    pub(crate) fn printed(&self, out: &mut BytesMut, text: &str) -> SqlResult<()> {
        match (self.is_binary, self.data_type) {
            (false, _) | (true, DataType::Text | DataType::Varchar { .. } | DataType::Char { .. }) => {
                self.text(out, text)
            }
            (true, data_type) => self.value(out, &base::text::parse(text, data_type)?),
        }
    }

    /// Text, and an array that is text here. Errors: 0A000 for a binary array of
    /// more than one dimension, and for documents and queries of full-text search in binary; 22P02 for text that is no
    /// array.
    pub(crate) fn text(&self, out: &mut BytesMut, text: &str) -> SqlResult<()> {
        if self.is_binary && matches!(self.data_type, DataType::TsVector | DataType::TsQuery) {
            return Err(SqlError::unsupported(format!("the binary form of {}", self.data_type.name()))
                .hint("Ask for it as text."));
        }
        match self.text {
            TextForm::Plain => out.put_slice(text.as_bytes()),
            TextForm::Padded(length) => taken(write::padded(out, text, length)),
            TextForm::Array(of, data_type) => array_from_text(out, text, of, data_type)?,
        }
        Ok(())
    }
}

/// Memory refuses nothing.
pub(crate) fn taken(written: std::fmt::Result) {
    written.expect("a buffer takes what is written");
}

/// What stands before the elements of a binary array, by its length in each dimension.
pub(crate) fn array_header(out: &mut BytesMut, lengths: &[usize], has_null: bool, element_oid: u32) {
    // An array without elements has no dimensions.
    let lengths = if lengths.contains(&0) { &[] } else { lengths };
    out.put_i32(lengths.len() as i32);
    out.put_i32(i32::from(has_null));
    out.put_u32(element_oid);
    for length in lengths {
        out.put_i32(*length as i32);
        // The first element has number 1.
        out.put_i32(1);
    }
}

/// An array of one dimension, from its text form.
fn array_from_text(
    out: &mut BytesMut,
    text: &str,
    element_oid: u32,
    element_type: DataType,
) -> SqlResult<()> {
    let elements = base::text::array::parse(text)?;
    let form = Form::binary_element(element_oid, element_type);
    array_header(out, &[elements.len()], elements.contains(&None), element_oid);
    for element in elements {
        let value = match element {
            None => Datum::Null,
            // Without limits a number keeps its own digits.
            Some(text) if form.data_type == NUMERIC => Datum::Decimal(base::text::numeric(&text)?),
            Some(text) => base::text::parse(&text, form.data_type)?,
        };
        match value.is_null() {
            true => out.put_i32(-1),
            false => sized(out, |out| form.value(out, &value))?,
        }
    }
    Ok(())
}

/// Digits to the base 10,000 that a number of 38 digits has at most.
const GROUPS_MAX: usize = 11;

/// A number as its digits to the base 10,000, most significant first, with the weight of the first.
fn numeric(out: &mut BytesMut, value: Decimal) {
    let scale = u32::from(value.scale());
    // Least significant first; the fraction is padded to whole groups of four digits.
    let mut groups = [0i16; GROUPS_MAX];
    let mut count = 0;
    let mut push = |group: i16| {
        groups[count] = group;
        count += 1;
    };
    let units = value.units().unsigned_abs();
    let pad = (4 - scale % 4) % 4;
    let fraction_groups = (scale + pad) / 4;
    let first = 10u64.pow(4 - pad);
    let mut rest = units;
    if pad > 0 {
        push(((units % u128::from(first)) as u64 * 10u64.pow(pad)) as i16);
        rest = units / u128::from(first);
    }
    while rest > u128::from(u64::MAX) {
        push((rest % 10_000) as i16);
        rest /= 10_000;
    }
    // Division of 64 bits is several times faster.
    let mut rest = rest as u64;
    while rest > 0 {
        push((rest % 10_000) as i16);
        rest /= 10_000;
    }
    let mut digits = &groups[..count];
    let mut weight = digits.len() as i32 - fraction_groups as i32 - 1;
    while let [before @ .., 0] = digits {
        digits = before;
        weight -= 1;
    }
    let trailing = digits.iter().take_while(|group| **group == 0).count();
    digits = &digits[trailing..];
    if digits.is_empty() {
        weight = 0;
    }
    out.put_i16(digits.len() as i16);
    out.put_i16(weight as i16);
    out.put_u16(if value.units() < 0 { 0x4000 } else { 0 });
    out.put_i16(scale as i16);
    digits.iter().rev().for_each(|group| out.put_i16(*group));
}
