//! Values as clients get them: PostgreSQL's text and binary forms, of values and of columns of Arrow batches.
//!
//! IN: rows of values, or a batch, with the result's columns and the formats that the client asked for. OUT: bytes of
//! fields, appended to a buffer. KEEPS: each type has one form in text ([`base::text::write`]), but for those that
//! settings choose ([`styles`]), and one in binary ([`form`]), which row reads, batches, cursors and COPY all use; how a
//! column is written is decided once for a batch ([`Cells`]), and a value of a type that columns of tables have is written
//! without memory of its own.

mod cells;
mod dimensions;
mod form;
mod nested;
mod rows;
mod styles;

pub use cells::{Cells, EPOCH_DAYS, EPOCH_US, from_arrow, text_at};
pub use form::{BINARY, Form, JSONB_FORMAT, format_of, type_size};
pub use rows::{Portion, RowWriter, framed, sized};
pub use styles::{IntervalStyle, Look, Styles};

#[cfg(test)]
mod tests;
