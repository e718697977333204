//! What a statement answers: columns, rows, command tags, copies.
//!
//! Rows come in two shapes: values (transactional reads) and Arrow batches (analytics), both behind [`RowStream`]. The
//! front end takes them in portions, which write themselves ([`wire::RowWriter`]); whoever computes with them asks for
//! values.

use crate::copy::{write_header, write_line};
use crate::gateway::Gateway;
use analytics::{BatchStream, MESSAGE_GROWTH, PORTION_BYTES, RowsMemory, row_bytes};
use base::error::SqlResult;
use base::{DataType, Datum};
use bytes::BytesMut;
use sql::types::Column;
use std::sync::Arc;
use wire::{BINARY, Look, Portion, RowWriter};

/// A statement's answer.
pub enum Response {
    Rows(Rows),
    /// A command without rows is done, e.g. `INSERT 0 3`.
    Command(String),
    /// The client may now send data: [`crate::Session::copy_data`], then
    /// [`crate::Session::copy_done`] or [`crate::Session::copy_fail`].
    CopyIn(CopyFormat),
    CopyOut(CopyOut),
    /// The text held no statement.
    Empty,
}

impl Response {
    /// The answer, whose rows keep the memory that was reserved for them until they are sent. Errors: they
    /// take more (53200).
    pub(crate) fn accounted(self, reading: Option<RowsMemory>, gateway: &Gateway) -> SqlResult<Response> {
        let Response::Rows(Rows { columns, stream: RowStream::Values(rows, before), tag }) = self else {
            return Ok(self);
        };
        let sizes = || rows.as_slice().iter().map(|row| row_bytes(row));
        // One message at a time is made of a row.
        let message = match sizes().max().map_or(0, |longest| longest + blanks(&columns)) {
            long if long > PORTION_BYTES => long.saturating_mul(MESSAGE_GROWTH),
            _ => 0,
        };
        let bytes = sizes().sum::<usize>().saturating_add(message);
        let memory = match reading.or(before) {
            None if bytes < PORTION_BYTES => None,
            memory => {
                let memory = memory.unwrap_or_else(|| gateway.rows_memory("rows of an answer"));
                let missing = bytes.saturating_sub(memory.bytes());
                memory.grow(missing)?;
                memory.shrink(memory.bytes() - bytes.min(memory.bytes()));
                Some(memory)
            }
        };
        Ok(Response::Rows(Rows { columns, stream: RowStream::Values(rows, memory), tag }))
    }
}

/// Blanks that values of a row may be shown with.
fn blanks(columns: &[Column]) -> usize {
    let padded = columns.iter().map(|column| match column.data_type {
        DataType::Char { length } => length as usize,
        _ => 0,
    });
    padded.sum()
}

/// Rows on their way, and the tag that follows them.
pub struct Rows {
    pub columns: Arc<Vec<Column>>,
    pub stream: RowStream,
    /// `SELECT`, `INSERT 0`, `UPDATE`, …: the number of rows is appended.
    pub tag: &'static str,
}

impl Rows {
    /// The tag after `count` rows.
    pub fn complete(&self, count: u64) -> String {
        match self.tag {
            "SHOW" | "EXPLAIN" | "CALL" => self.tag.into(),
            tag => format!("{tag} {count}"),
        }
    }
}

/// Rows that are made within one turn of a thread that serves connections: about half a millisecond of work.
const ROWS_AT_ONCE: usize = 1_024;
/// Rows whose memory is given back within one turn.
const DROPPED_AT_ONCE: usize = 10_000;
/// After fewer rows nobody gives way: most answers have a few.
const MANY_ROWS: usize = 256;

/// Rows of one of two shapes. Independent of the session: it may be read in pieces.
pub enum RowStream {
    /// All here already, with the memory that they take if that was counted.
    Values(std::vec::IntoIter<Vec<Datum>>, Option<RowsMemory>),
    Batches(BatchStream),
}

impl RowStream {
    pub fn values(rows: Vec<Vec<Datum>>) -> RowStream {
        RowStream::Values(rows.into_iter(), None)
    }
    pub fn empty() -> RowStream {
        RowStream::values(Vec::new())
    }
    /// Up to `limit` more rows in the shape in which they are; empty at the end.
    pub async fn next_portion(&mut self, limit: usize) -> SqlResult<Portion> {
        match self {
            RowStream::Values(rows, _) => Ok(Portion::Values(rows.by_ref().take(limit).collect())),
            RowStream::Batches(stream) => match stream.next_portion(limit).await? {
                Some(batch) => Ok(Portion::Batch(batch)),
                None => Ok(Portion::Values(Vec::new())),
            },
        }
    }
    /// Up to `limit` more rows as values; empty at the end. Others of the thread have their turn after many rows: who
    /// reads all of them at once never waits for anything else.
    pub async fn next_rows(&mut self, limit: usize) -> SqlResult<Vec<Vec<Datum>>> {
        let rows: Vec<_> = match self {
            RowStream::Values(rows, _) => rows.by_ref().take(limit).collect(),
            RowStream::Batches(stream) => stream.next_rows(limit).await?,
        };
        if rows.len() >= MANY_ROWS {
            tokio::task::yield_now().await;
        }
        Ok(rows)
    }
    /// Every row that is left, counted. Errors: there is no memory for them (53200).
    pub(crate) async fn collect_within(&mut self, memory: &RowsMemory) -> SqlResult<Vec<Vec<Datum>>> {
        let mut all = Vec::new();
        loop {
            let rows = self.next_rows(ROWS_AT_ONCE).await?;
            if rows.is_empty() {
                return Ok(all);
            }
            if let Err(error) = memory.grow(rows.iter().map(|row| row_bytes(row)).sum()) {
                drop_in_turns(all).await;
                return Err(error);
            }
            all.extend(rows);
        }
    }
    /// Every row that is left.
    pub async fn collect(&mut self) -> SqlResult<Vec<Vec<Datum>>> {
        let mut all = Vec::new();
        loop {
            let rows = self.next_rows(ROWS_AT_ONCE).await?;
            if rows.is_empty() {
                return Ok(all);
            }
            all.extend(rows);
        }
    }
}

/// Gives memory of many rows back: as long as it takes to fill it.
async fn drop_in_turns(mut rows: Vec<Vec<Datum>>) {
    while rows.len() > DROPPED_AT_ONCE {
        rows.truncate(rows.len() - DROPPED_AT_ONCE);
        tokio::task::yield_now().await;
    }
}

/// How copied data looks.
#[derive(Clone, Debug, PartialEq)]
pub struct CopyFormat {
    pub csv: bool,
    pub delimiter: u8,
    pub quote: u8,
    pub escape: u8,
    pub null: String,
    pub header: bool,
    /// Columns per line.
    pub columns: usize,
    /// PostgreSQL's binary format, whose beginning and end the front end writes, and which it reads.
    pub binary: bool,
    /// Types of the columns that data comes in for.
    pub types: Vec<DataType>,
    /// Their table and their names, for messages.
    pub table: String,
    pub names: Vec<String>,
}

/// Rows to be written out.
pub struct CopyOut {
    pub format: CopyFormat,
    pub(crate) rows: Rows,
    pub(crate) count: u64,
    /// What its texts look like.
    pub(crate) look: Look,
}

impl CopyOut {
    /// Rows that are handed on at once.
    const ROWS_AT_ONCE: usize = 1_024;

    /// The line before the rows, if one was asked for.
    pub fn header_line(&self) -> Option<BytesMut> {
        self.format.header.then(|| {
            let mut line = BytesMut::new();
            write_header(&mut line, &self.format, self.rows.columns.iter().map(|c| c.name.as_str()));
            line
        })
    }

    /// The next rows, none at the end.
    pub async fn next_portion(&mut self) -> SqlResult<Portion> {
        let portion = self.rows.stream.next_portion(CopyOut::ROWS_AT_ONCE).await?;
        self.count += portion.len() as u64;
        Ok(portion)
    }

    /// Rows of a portion, ready for [`CopyOut::write_row`].
    pub fn writer<'a>(&self, portion: &'a Portion) -> SqlResult<RowWriter<'a>> {
        let formats: &[i16] = if self.format.binary { &[BINARY] } else { &[] };
        portion.writer(&self.rows.columns, formats, self.look)
    }

    /// Appends a row. Each is to travel by itself: drivers take a message for a row.
    pub fn write_row(&self, out: &mut BytesMut, rows: &RowWriter<'_>, row: usize) -> SqlResult<()> {
        match self.format.binary {
            true => rows.fields(out, row),
            false => write_line(out, &self.format, rows, row),
        }
    }

    /// The command tag, once everything was read.
    pub fn complete(&self) -> String {
        format!("COPY {}", self.count)
    }
}

/// Where a session stands, for ReadyForQuery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    Idle,
    InTransaction,
    Failed,
}

/// Something the client should know that is not an error.
#[derive(Clone, Debug, PartialEq)]
pub struct Notice {
    /// `NOTICE`, `WARNING`, `INFO`, `LOG` or `DEBUG`.
    pub severity: &'static str,
    pub state: base::SqlState,
    pub message: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    #[test]
    fn who_reads_many_rows_gives_others_their_turns() {
        let turns = |count: usize| {
            let mut stream = RowStream::values(vec![vec![Datum::Int(1)]; count]);
            let mut reading = pin!(stream.collect());
            let mut turns = 0;
            loop {
                match reading.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                    Poll::Ready(rows) => {
                        assert_eq!(rows.unwrap().len(), count);
                        return turns;
                    }
                    Poll::Pending => turns += 1,
                }
            }
        };
        assert_eq!(turns(3 * ROWS_AT_ONCE), 3);
        assert_eq!(turns(MANY_ROWS - 1), 0, "most answers have a few rows");
    }
}
