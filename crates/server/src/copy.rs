//! COPY's binary format: a header, rows as counted fields, an end.
//!
//! IN: bytes, cut anywhere. OUT: rows of values of the columns' types. KEEPS: a field is exactly a value of its
//! column's type, or the copy fails; what follows the end mark is not looked at.

use crate::values::read_parameter;
use base::error::{SqlError, SqlResult, SqlState};
use base::{DataType, Datum};
use bytes::{Buf, BufMut, BytesMut};
use session::CopyFormat;
use wire::BINARY;

/// What every binary copy begins with.
const SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";

/// The flag that object ids come with the rows, which nobody sends any more.
const HAS_OIDS: u32 = 1 << 16;

/// Longest row, in bytes.
const ROW_BYTES_MAX: usize = 64 << 20;

/// The header of a copy that goes out.
pub fn header() -> BytesMut {
    let mut out = BytesMut::from(&SIGNATURE[..]);
    // No flags, no extension.
    out.put_u32(0);
    out.put_u32(0);
    out
}

/// The end of a copy that goes out.
pub fn trailer() -> BytesMut {
    let mut out = BytesMut::new();
    out.put_i16(-1);
    out
}

/// Rows of a copy that comes in.
pub struct Reader {
    types: Vec<DataType>,
    table: String,
    names: Vec<String>,
    rest: BytesMut,
    rows: u64,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq)]
enum Stage {
    Header,
    Rows,
    Ended,
}

impl Reader {
    pub fn new(format: &CopyFormat) -> Reader {
        Reader {
            types: format.types.clone(),
            table: format.table.clone(),
            names: format.names.clone(),
            rest: BytesMut::new(),
            rows: 0,
            stage: Stage::Header,
        }
    }

    /// Takes bytes and answers the rows that are complete.
    pub fn feed(&mut self, data: &[u8]) -> SqlResult<Vec<Vec<Datum>>> {
        if self.stage == Stage::Ended {
            return Ok(Vec::new());
        }
        self.rest.extend_from_slice(data);
        if self.stage == Stage::Header {
            let Some(length) = header_length(&self.rest)? else { return Ok(Vec::new()) };
            self.rest.advance(length);
            self.stage = Stage::Rows;
        }
        let mut rows = Vec::new();
        while self.stage == Stage::Rows {
            let mut bytes = &self.rest[..];
            let Some(row) = self.row(&mut bytes)? else {
                if self.rest.len() > ROW_BYTES_MAX {
                    return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "a COPY record is too long")
                        .detail(format!("The limit is {ROW_BYTES_MAX} bytes.")));
                }
                break;
            };
            let used = self.rest.len() - bytes.len();
            self.rest.advance(used);
            match row {
                Some(row) => rows.push(row),
                None => self.stage = Stage::Ended,
            }
            self.rows += 1;
        }
        Ok(rows)
    }

    /// The end of the data. Errors: it stops within something.
    pub fn finish(&self) -> SqlResult<()> {
        match self.stage {
            // PostgreSQL takes a copy without its end mark.
            Stage::Rows if self.rest.is_empty() => Ok(()),
            Stage::Ended => Ok(()),
            Stage::Header => Err(bad("COPY file signature not recognized")),
            Stage::Rows => Err(bad("unexpected EOF in COPY data")),
        }
    }

    /// The next row: `None` if it is not all there, `Some(None)` for the end.
    fn row(&self, bytes: &mut &[u8]) -> SqlResult<Option<Option<Vec<Datum>>>> {
        let Ok(count) = bytes.try_get_i16() else { return Ok(None) };
        if count == -1 {
            return Ok(Some(None));
        }
        if usize::try_from(count) != Ok(self.types.len()) {
            return Err(
                self.at(bad(format!("row field count is {count}, expected {}", self.types.len())), None)
            );
        }
        let mut row = Vec::with_capacity(self.types.len());
        for (n, data_type) in self.types.iter().enumerate() {
            let Ok(length) = bytes.try_get_i32() else { return Ok(None) };
            if length == -1 {
                row.push(Datum::Null);
                continue;
            }
            let length = usize::try_from(length).map_err(|_| self.at(bad("invalid field size"), Some(n)))?;
            let Some((field, rest)) = bytes.split_at_checked(length) else { return Ok(None) };
            *bytes = rest;
            let wanted = fixed_size(*data_type).filter(|size| *size != length);
            let value = match wanted {
                Some(_) => Err(SqlError::new(SqlState::INVALID_BINARY_REPRESENTATION, "")),
                None => read_parameter(field, (*data_type).into(), BINARY, n + 1),
            };
            row.push(value.map_err(|e| {
                match e.state {
                    SqlState::INVALID_BINARY_REPRESENTATION => self.at(
                        SqlError::new(e.state, "incorrect binary data format")
                            .detail(format!("{length} bytes are no value of type {}.", data_type.name())),
                        Some(n),
                    ),
                    _ => self.at(e, Some(n)),
                }
            })?);
        }
        Ok(Some(Some(row)))
    }

    /// The error with the row and column it happened in.
    fn at(&self, error: SqlError, column: Option<usize>) -> SqlError {
        let column = column.and_then(|n| self.names.get(n)).map(|name| format!(", column {name}"));
        let context = format!("COPY {}, line {}{}", self.table, self.rows + 1, column.unwrap_or_default());
        error.context(context)
    }
}

/// Bytes of every value of a type, if they are always as many.
fn fixed_size(data_type: DataType) -> Option<usize> {
    let size = wire::type_size(sql::types::type_oid(data_type));
    usize::try_from(size).ok()
}

/// Bytes of the header, once it is all there.
fn header_length(bytes: &[u8]) -> SqlResult<Option<usize>> {
    let known = bytes.len().min(SIGNATURE.len());
    if bytes[..known] != SIGNATURE[..known] {
        return Err(bad("COPY file signature not recognized"));
    }
    let Some(mut numbers) = bytes.get(SIGNATURE.len()..SIGNATURE.len() + 8) else { return Ok(None) };
    let (flags, extension) = (numbers.get_u32(), numbers.get_u32() as usize);
    if flags & HAS_OIDS != 0 {
        return Err(bad("invalid COPY file header (WITH OIDS)"));
    }
    if flags >> 16 != 0 {
        return Err(bad("unrecognized critical flags in COPY file header"));
    }
    if extension > ROW_BYTES_MAX {
        return Err(bad("invalid COPY file header (wrong length)"));
    }
    let length = SIGNATURE.len() + 8 + extension;
    Ok((bytes.len() >= length).then_some(length))
}

fn bad(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use session::Column;

    fn columns() -> Vec<Column> {
        let types = [DataType::Integer, DataType::Text, DataType::Numeric { precision: 10, scale: 2 }];
        types.into_iter().map(|t| Column::new("c", t)).collect()
    }
    fn reader() -> Reader {
        Reader {
            types: columns().iter().map(|c| c.data_type).collect(),
            table: "t".into(),
            names: ["a", "b", "c"].map(String::from).to_vec(),
            rest: BytesMut::new(),
            rows: 0,
            stage: Stage::Header,
        }
    }
    fn rows() -> Vec<Vec<Datum>> {
        let number = |text: &str| Datum::Decimal(base::decimal::Decimal::parse(text).unwrap());
        vec![
            vec![Datum::Int(-7), Datum::text("é\n"), number("-12.50")],
            vec![Datum::Null, Datum::text(""), Datum::Null],
        ]
    }
    fn bytes() -> Vec<u8> {
        let mut all = header();
        let portion = wire::Portion::Values(rows());
        let writer = portion.writer(&columns(), &[BINARY], wire::Look::default()).unwrap();
        (0..portion.len()).for_each(|row| writer.fields(&mut all, row).unwrap());
        all.extend_from_slice(&trailer());
        all.to_vec()
    }

    #[test]
    fn what_is_written_reads_back_however_it_is_cut() {
        let bytes = bytes();
        for piece in [1, 3, 17, bytes.len()] {
            let mut reader = reader();
            let mut read = Vec::new();
            bytes.chunks(piece).for_each(|part| read.extend(reader.feed(part).unwrap()));
            reader.finish().unwrap();
            assert_eq!(read, rows(), "pieces of {piece}");
            assert!(reader.feed(b"whatever follows").unwrap().is_empty());
        }
    }

    #[test]
    fn a_copy_that_is_none_is_refused() {
        let bytes = bytes();
        for end in 0..bytes.len() - 2 {
            let mut reader = reader();
            let read = reader.feed(&bytes[..end]).unwrap().len();
            // Between rows is an end too.
            let is_whole = end >= 19 && reader.rest.is_empty();
            assert_eq!(reader.finish().is_ok(), is_whole, "{end} bytes, {read} rows");
        }
        let state = |bytes: &[u8]| reader().feed(bytes).unwrap_err().state;
        assert_eq!(state(b"PGCOPZ"), SqlState::BAD_COPY_FILE_FORMAT);
        let mut wide = header();
        wide.put_i16(4);
        assert_eq!(state(&wide), SqlState::BAD_COPY_FILE_FORMAT);
        let mut short = header();
        short.put_i16(3);
        short.put_i32(2);
        short.put_i16(1);
        assert_eq!(state(&short), SqlState::INVALID_BINARY_REPRESENTATION);
        let context = reader().feed(&short).unwrap_err().context.clone();
        assert_eq!(context.as_deref(), Some("COPY t, line 1, column a"));
    }
}
