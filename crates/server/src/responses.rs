//! Answers of statements as messages: descriptions, rows, copies.

use crate::frames::{Ended, Stream};
use base::error::SqlResult;
use bytes::{BufMut, BytesMut};
use pgwire::messages::PgWireBackendMessage as Out;
use pgwire::messages::copy::{CopyData, CopyDone, CopyOutResponse};
use pgwire::messages::data::{FieldDescription, RowDescription};
use pgwire::messages::response::CommandComplete;
use session::{Column, CopyOut, Rows};
use wire::{Look, format_of, type_size};

/// Kinds of the messages that carry rows.
const DATA_ROW: u8 = b'D';
const COPY_DATA: u8 = b'd';

/// Description of result columns. `formats`: none (all text), one for all, or one per column.
pub fn row_description(columns: &[Column], formats: &[i16]) -> RowDescription {
    let field = |(i, column): (usize, &Column)| {
        let (table, number) = column.origin.unwrap_or((0, 0));
        let size = type_size(column.type_oid);
        FieldDescription::new(
            column.name.clone(),
            table as i32,
            number,
            column.type_oid,
            size,
            column.type_modifier,
            format_of(formats, i),
        )
    };
    RowDescription::new(columns.iter().enumerate().map(field).collect())
}

/// Rows taken from a result at once.
pub const ROWS_AT_ONCE: usize = 1_024;

/// Rows after which other connections of the thread need not have their turn.
const ROWS_IN_PASSING: usize = 64;

pub async fn send_rows(
    stream: &mut Stream,
    rows: &mut Rows,
    formats: &[i16],
    look: Look,
) -> Result<SqlResult<()>, Ended> {
    let mut count = 0;
    loop {
        match send_some_rows(stream, rows, formats, ROWS_AT_ONCE, look).await? {
            Ok(0) => break,
            Ok(n) => count += n as u64,
            Err(error) => return Ok(Err(error)),
        }
    }
    stream.send(Out::CommandComplete(CommandComplete::new(rows.complete(count))))?;
    Ok(Ok(()))
}

/// Sends up to `limit` rows and says how many there were. They are written from the shape in which they come, one
/// message after the other, and the client is waited for between messages; texts look as `look` says.
pub async fn send_some_rows(
    stream: &mut Stream,
    rows: &mut Rows,
    formats: &[i16],
    limit: usize,
    look: Look,
) -> Result<SqlResult<usize>, Ended> {
    let portion = match stream.attended(rows.stream.next_portion(limit)).await? {
        Ok(portion) => portion,
        Err(error) => return Ok(Err(error)),
    };
    let writer = match portion.writer(&rows.columns, formats, look) {
        Ok(writer) => writer,
        Err(error) => return Ok(Err(error)),
    };
    for row in 0..portion.len() {
        if let Err(error) = stream.message(DATA_ROW, |out| writer.fields(out, row)) {
            return Ok(Err(error));
        }
        stream.flush_if_full().await?;
    }
    if portion.len() > ROWS_IN_PASSING {
        // A client that takes all that it is sent would keep the thread from other connections.
        tokio::task::yield_now().await;
    }
    Ok(Ok(portion.len()))
}

pub async fn send_copy(stream: &mut Stream, mut copy: CopyOut) -> Result<SqlResult<()>, Ended> {
    let (columns, is_binary) = (copy.format.columns, copy.format.binary);
    let code = i8::from(is_binary);
    let formats = vec![i16::from(code); columns];
    stream.send(Out::CopyOutResponse(CopyOutResponse::new(code, columns as i16, formats)))?;
    // A binary copy's header comes with the first row, or with the end: drivers look for it there.
    let mut begun = if is_binary { crate::copy::header() } else { BytesMut::new() };
    if let Some(line) = copy.header_line() {
        stream.send(Out::CopyData(CopyData::new(line.freeze())))?;
    }
    loop {
        let portion = match stream.attended(copy.next_portion()).await? {
            Ok(portion) if portion.is_empty() => break,
            Ok(portion) => portion,
            Err(error) => return Ok(Err(error)),
        };
        let writer = match copy.writer(&portion) {
            Ok(writer) => writer,
            Err(error) => return Ok(Err(error)),
        };
        for row in 0..portion.len() {
            let sent = stream.message(COPY_DATA, |out| {
                out.put_slice(&std::mem::take(&mut begun));
                copy.write_row(out, &writer, row)
            });
            if let Err(error) = sent {
                return Ok(Err(error));
            }
            stream.flush_if_full().await?;
        }
        tokio::task::yield_now().await;
    }
    if is_binary {
        begun.put_slice(&crate::copy::trailer());
        stream.send(Out::CopyData(CopyData::new(begun.freeze())))?;
    }
    stream.send(Out::CopyDone(CopyDone::new()))?;
    stream.send(Out::CommandComplete(CommandComplete::new(copy.complete())))?;
    Ok(Ok(()))
}
