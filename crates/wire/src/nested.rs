//! Lists and rows (structs), whose elements are written like columns of their own.

use crate::cells::{Cells, Put, from_arrow};
use crate::dimensions;
use crate::form::{Form, array_header};
use crate::rows::sized;
use crate::styles::Look;
use arrow_array::{Array, ArrayRef, FixedSizeListArray, GenericListArray, OffsetSizeTrait, StructArray};
use arrow_schema::DataType as Arrow;
use base::SqlError;
use base::error::SqlResult;
use base::text::array;
use bytes::{BufMut, BytesMut};

pub(crate) fn list<O: OffsetSizeTrait>(list: &GenericListArray<O>, form: Form) -> SqlResult<Put> {
    let ends: Vec<usize> = list.value_offsets().iter().map(|end| end.as_usize()).collect();
    // A slice of a batch shares the elements of the whole batch.
    let (first, last) = (ends[0], ends[ends.len() - 1]);
    let elements = list.values().slice(first, last - first);
    elements_of(elements, form, move |row| (ends[row] - first, ends[row + 1] - first))
}

pub(crate) fn fixed_list(list: &FixedSizeListArray, form: Form) -> SqlResult<Put> {
    let length = list.value_length() as usize;
    elements_of(list.values().clone(), form, move |row| (row * length, (row + 1) * length))
}

/// Lists by the range of elements that each has.
fn elements_of(
    elements: ArrayRef,
    form: Form,
    range: impl Fn(usize) -> (usize, usize) + Send + 'static,
) -> SqlResult<Put> {
    let is_nested =
        matches!(elements.data_type(), Arrow::List(_) | Arrow::LargeList(_) | Arrow::FixedSizeList(_, _));
    if let Some((oid, form)) = form.elements() {
        if is_nested {
            return dimensions::of_several(elements, oid, form, range);
        }
        let cells = Cells::new(&elements, form)?;
        return Ok(Box::new(move |out, row| {
            let (from, to) = range(row);
            array_header(out, &[to - from], (from..to).any(|at| cells.is_null(at)), oid);
            for at in from..to {
                match cells.is_null(at) {
                    true => out.put_i32(-1),
                    false => sized(out, |out| cells.put(out, at))?,
                }
            }
            Ok(())
        }));
    }
    let data_type = form.labels().unwrap_or_else(|| from_arrow(elements.data_type()));
    let cells = Cells::new(&elements, Form::text_of(data_type).shown_as(form.look()))?;
    Ok(Box::new(move |out, row| {
        let (from, to) = range(row);
        out.put_u8(b'{');
        for at in from..to {
            if at > from {
                out.put_u8(b',');
            }
            if cells.is_null(at) {
                out.put_slice(b"NULL");
                continue;
            }
            let start = out.len();
            cells.put(out, at)?;
            if !is_nested {
                requoted(out, start, |text| array::is_odd(text).then(|| array::quoted(text)))?;
            }
        }
        out.put_u8(b'}');
        Ok(())
    }))
}

/// Rows as values, `(1,"a b",)`: null is nothing.
pub(crate) fn structs(rows: &StructArray, look: Look) -> SqlResult<Put> {
    let text =
        |field: &ArrayRef| Cells::new(field, Form::text_of(from_arrow(field.data_type())).shown_as(look));
    let fields = rows.columns().iter().map(text).collect::<SqlResult<Vec<_>>>()?;
    Ok(Box::new(move |out, row| {
        out.put_u8(b'(');
        for (i, cells) in fields.iter().enumerate() {
            if i > 0 {
                out.put_u8(b',');
            }
            if !cells.is_null(row) {
                let start = out.len();
                cells.put(out, row)?;
                requoted(out, start, quoted_field)?;
            }
        }
        out.put_u8(b')');
        Ok(())
    }))
}

/// A field of a row, quoted if it could be misread.
fn quoted_field(text: &str) -> Option<String> {
    let odd = |c: char| "(),\"\\".contains(c) || c.is_whitespace();
    let is_odd = text.is_empty() || text.contains(odd);
    is_odd.then(|| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\"\"")))
}

/// Replaces what was written from somewhere on, if it has to be quoted.
fn requoted(out: &mut BytesMut, start: usize, quoted: impl Fn(&str) -> Option<String>) -> SqlResult<()> {
    let text = std::str::from_utf8(&out[start..]).map_err(SqlError::internal)?;
    if let Some(quoted) = quoted(text) {
        out.truncate(start);
        out.put_slice(quoted.as_bytes());
    }
    Ok(())
}
