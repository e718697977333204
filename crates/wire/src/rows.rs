//! Rows of a result, of values or of a batch, and how they are written field by field.

use crate::cells::Cells;
use crate::form::{Form, format_of};
use crate::styles::Look;
use arrow_array::RecordBatch;
use base::error::{SqlResult, SqlState};
use base::{Datum, SqlError};
use bytes::{BufMut, BytesMut};
use sql::types::Column;

/// Some rows of a result, in the shape in which they came.
pub enum Portion {
    Values(Vec<Vec<Datum>>),
    Batch(RecordBatch),
}

impl Portion {
    pub fn len(&self) -> usize {
        match self {
            Portion::Values(rows) => rows.len(),
            Portion::Batch(batch) => batch.num_rows(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rows, ready to be written. `formats` as [`format_of`] takes them; texts look as `look` says.
    /// Errors: a column cannot be shown.
    pub fn writer(&self, columns: &[Column], formats: &[i16], look: Look) -> SqlResult<RowWriter<'_>> {
        let form = |(i, column)| Form::new(column, format_of(formats, i)).shown_as(look);
        let forms = columns.iter().enumerate().map(form);
        Ok(match self {
            Portion::Values(rows) => RowWriter::Values { rows, forms: forms.collect() },
            Portion::Batch(batch) => {
                let cells = batch.columns().iter().zip(forms).map(|(array, form)| Cells::new(array, form));
                RowWriter::Batch(cells.collect::<SqlResult<_>>()?)
            }
        })
    }
}

/// Rows with the way in which each of their columns is written.
pub enum RowWriter<'a> {
    Values { rows: &'a [Vec<Datum>], forms: Vec<Form> },
    Batch(Vec<Cells>),
}

impl RowWriter<'_> {
    /// How many columns they have.
    pub fn width(&self) -> usize {
        match self {
            RowWriter::Values { forms, .. } => forms.len(),
            RowWriter::Batch(cells) => cells.len(),
        }
    }

    pub fn is_null(&self, row: usize, column: usize) -> bool {
        match self {
            RowWriter::Values { rows, .. } => rows[row].get(column).is_none_or(Datum::is_null),
            RowWriter::Batch(cells) => cells[column].is_null(row),
        }
    }

    /// Appends a value that is not null, without its length.
    pub fn put(&self, out: &mut BytesMut, row: usize, column: usize) -> SqlResult<()> {
        match self {
            RowWriter::Values { rows, forms } => forms[column].value(out, &rows[row][column]),
            RowWriter::Batch(cells) => cells[column].put(out, row),
        }
    }

    /// Appends a row as DataRow and binary COPY have it: the number of its fields, then each with its length.
    pub fn fields(&self, out: &mut BytesMut, row: usize) -> SqlResult<()> {
        out.put_i16(self.width() as i16);
        for column in 0..self.width() {
            match self.is_null(row, column) {
                true => out.put_i32(-1),
                false => sized(out, |out| self.put(out, row, column))?,
            }
        }
        Ok(())
    }
}

/// Appends a field: what is written, with its length before it. Errors: 54000 if it is longer than a length can say.
pub fn sized(out: &mut BytesMut, write: impl FnOnce(&mut BytesMut) -> SqlResult<()>) -> SqlResult<()> {
    with_length(out, 0, write)
}

/// Appends the body of a message, whose length counts itself. Errors: as those of [`sized`].
pub fn framed(out: &mut BytesMut, write: impl FnOnce(&mut BytesMut) -> SqlResult<()>) -> SqlResult<()> {
    with_length(out, 4, write)
}

fn with_length(
    out: &mut BytesMut,
    own: usize,
    write: impl FnOnce(&mut BytesMut) -> SqlResult<()>,
) -> SqlResult<()> {
    let start = out.len();
    out.put_i32(0);
    write(out)?;
    let length = i32::try_from(out.len() - start - 4 + own).map_err(|_| {
        SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "a row is too long to be sent")
            .detail(format!("A message has at most {} bytes.", i32::MAX))
    })?;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}
