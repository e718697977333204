//! Answers of statements as messages: descriptions, rows, copies.

use crate::frames::{Ended, Stream};
use base::error::SqlResult;
use bytes::BytesMut;
use pgwire::messages::PgWireBackendMessage as Out;
use pgwire::messages::copy::{CopyData, CopyDone, CopyOutResponse};
use pgwire::messages::data::{DataRow, FieldDescription, RowDescription};
use pgwire::messages::response::CommandComplete;
use session::{Column, CopyOut, Rows};

/// Description of result columns. `formats`: none (all text), one for all, or one per column.
pub fn row_description(columns: &[Column], formats: &[i16]) -> RowDescription {
    let field = |(i, column): (usize, &Column)| {
        let (table, number) = column.origin.unwrap_or((0, 0));
        let size = crate::values::type_size(column.type_oid);
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

/// The format code of the i-th of several values.
pub fn format_of(formats: &[i16], i: usize) -> i16 {
    match formats {
        [] => 0,
        [all] => *all,
        each => each.get(i).copied().unwrap_or(0),
    }
}

/// Rows taken from a result at once.
const ROWS_AT_ONCE: usize = 256;

pub async fn send_rows(
    stream: &mut Stream,
    rows: &mut Rows,
    formats: &[i16],
) -> Result<SqlResult<()>, Ended> {
    let mut count = 0;
    loop {
        match send_some_rows(stream, rows, formats, ROWS_AT_ONCE).await? {
            Ok(0) => break,
            Ok(n) => count += n as u64,
            Err(error) => return Ok(Err(error)),
        }
        // A client that takes all that it is sent would keep the thread from other connections.
        tokio::task::yield_now().await;
    }
    stream.send(Out::CommandComplete(CommandComplete::new(rows.complete(count))))?;
    Ok(Ok(()))
}

/// Sends up to `limit` rows and says how many there were.
pub async fn send_some_rows(
    stream: &mut Stream,
    rows: &mut Rows,
    formats: &[i16],
    limit: usize,
) -> Result<SqlResult<usize>, Ended> {
    let columns = rows.columns.clone();
    let some = match stream.attended(rows.stream.next_rows(limit)).await? {
        Ok(some) => some,
        Err(error) => return Ok(Err(error)),
    };
    for row in &some {
        let mut data = BytesMut::with_capacity(16 * columns.len());
        for (i, (value, column)) in row.iter().zip(columns.iter()).enumerate() {
            crate::values::write_field(&mut data, value, column, format_of(formats, i));
        }
        stream.send(Out::DataRow(DataRow::new(data, columns.len() as i16)))?;
        stream.flush_if_full().await?;
    }
    Ok(Ok(some.len()))
}

pub async fn send_copy(stream: &mut Stream, mut copy: CopyOut) -> Result<SqlResult<()>, Ended> {
    let columns = copy.format.columns;
    let code = i8::from(copy.format.binary);
    let formats = vec![i16::from(code); columns];
    stream.send(Out::CopyOutResponse(CopyOutResponse::new(code, columns as i16, formats)))?;
    if copy.format.binary {
        // The header comes with the first row, or with the end: drivers look for it there.
        let mut begun = crate::copy::header();
        loop {
            let rows = match stream.attended(copy.next_rows()).await? {
                Ok(rows) if rows.is_empty() => break,
                Ok(rows) => rows,
                Err(error) => return Ok(Err(error)),
            };
            for row in rows {
                let mut data = std::mem::take(&mut begun);
                data.extend_from_slice(&crate::copy::row(&row, copy.columns()));
                stream.send(Out::CopyData(CopyData::new(data.freeze())))?;
                stream.flush_if_full().await?;
            }
        }
        begun.extend_from_slice(&crate::copy::trailer());
        stream.send(Out::CopyData(CopyData::new(begun.freeze())))?;
    }
    while !copy.format.binary {
        let lines = match stream.attended(copy.next_lines()).await? {
            Ok(lines) if lines.is_empty() => break,
            Ok(lines) => lines,
            Err(error) => return Ok(Err(error)),
        };
        for line in lines {
            stream.send(Out::CopyData(CopyData::new(line.into())))?;
            stream.flush_if_full().await?;
        }
    }
    stream.send(Out::CopyDone(CopyDone::new()))?;
    stream.send(Out::CommandComplete(CommandComplete::new(copy.complete())))?;
    Ok(Ok(()))
}
