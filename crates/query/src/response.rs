//! What a statement answers: columns, rows, command tags, copies.
//!
//! Rows come in two shapes: values (transactional reads) and Arrow batches (analytics), both behind
//! [`RowStream`]. The front end asks for values or batches and never sees a type beyond [`DataType`].

use crate::analytics::RowsMemory;
use crate::gateway::Gateway;
use base::error::SqlResult;
use base::{DataType, Datum};
use datafusion::arrow::record_batch::RecordBatch;
use futures::StreamExt;
use futures::stream::BoxStream;
use std::sync::Arc;

/// The type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterType {
    /// Of the value, or of each element.
    pub data_type: DataType,
    /// An array travels as text: `{1,2}`.
    pub is_array: bool,
    /// Object id of a type that has none of ours: an interval, a time of day (text here), an object id.
    pub announced: Option<u32>,
}

/// Object ids of intervals and times of day, which are announced and are text here.
pub const INTERVAL_OID: u32 = 1186;
pub const TIME_OID: u32 = 1083;
pub const OBJECT_ID_OID: u32 = 26;

impl From<DataType> for ParameterType {
    fn from(data_type: DataType) -> ParameterType {
        ParameterType { data_type, is_array: false, announced: None }
    }
}

impl ParameterType {
    /// PostgreSQL's object id.
    pub fn oid(self) -> u32 {
        let of = self.announced.unwrap_or(type_oid(self.data_type));
        if self.is_array { array_oid(of) } else { of }
    }
}

/// A column of a result.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    pub name: String,
    /// How its values are written; types beyond these are shown as text.
    pub data_type: DataType,
    /// Object id of the type that is announced: usually [`type_oid`] of `data_type`.
    pub type_oid: u32,
    /// Type modifier as PostgreSQL sends it, −1 for none.
    pub type_modifier: i32,
    /// Object id of the table and number (from 1) of the column it comes straight from.
    pub origin: Option<(u32, i16)>,
}

impl Column {
    pub fn new(name: impl Into<String>, data_type: DataType) -> Column {
        Column {
            name: name.into(),
            data_type,
            type_oid: type_oid(data_type),
            type_modifier: type_modifier(data_type),
            origin: None,
        }
    }
}

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
        let bytes: usize = rows.as_slice().iter().map(|row| crate::analytics::row_bytes(row)).sum();
        let memory = match reading.or(before) {
            None if bytes < UNPACKED_BYTES => None,
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

/// Rows of a batch that are made values at once: other connections of the thread have their turn in between, and a
/// client that reads slowly holds no more.
const UNPACKED_ROWS: usize = 1_024;

/// Values of a batch that are built at once, in bytes; one row at least.
const UNPACKED_BYTES: usize = 1 << 20;

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

/// Rows of one of two shapes. Independent of the session: it may be read in pieces.
pub enum RowStream {
    /// All here already, with the memory that they take if that was counted.
    Values(std::vec::IntoIter<Vec<Datum>>, Option<RowsMemory>),
    Batches(BatchStream),
}

/// Arrow batches, with the types their columns are shown as.
pub struct BatchStream {
    pub(crate) batches: BoxStream<'static, SqlResult<RecordBatch>>,
    pub(crate) types: Vec<DataType>,
    /// Ends the query when it is canceled or out of time.
    pub(crate) guard: Option<Guard>,
    /// The rest of a batch that was asked for row by row.
    pub(crate) pending: std::vec::IntoIter<Vec<Datum>>,
    /// What is left of the batch that they are of, from a row on.
    rest: Option<(RecordBatch, usize)>,
    /// What the values take on their way out.
    memory: RowsMemory,
}

/// What may end a query between its batches.
pub(crate) struct Guard {
    pub cancel: crate::session::CancelHandle,
    pub deadline: Option<tokio::time::Instant>,
}

impl BatchStream {
    pub(crate) fn new(
        batches: BoxStream<'static, SqlResult<RecordBatch>>,
        types: Vec<DataType>,
        memory: RowsMemory,
    ) -> BatchStream {
        let pending = Vec::new().into_iter();
        BatchStream { batches, types, guard: None, pending, rest: None, memory }
    }

    /// Builds the next values of a batch, as many as may be long at once. Errors: 53200.
    fn unpack(&mut self) -> SqlResult<()> {
        let Some((batch, first)) = self.rest.take() else { return Ok(()) };
        let (count, bytes) = crate::analytics::rows_within(&batch, first, UNPACKED_BYTES);
        let count = count.min(UNPACKED_ROWS);
        self.memory.clear();
        if bytes > UNPACKED_BYTES {
            // The value, its text and the message that carries it.
            self.memory.grow(bytes.saturating_mul(3))?;
        }
        let rows = crate::analytics::types::rows_of(&batch.slice(first, count), &self.types)?;
        self.pending = rows.into_iter();
        if first + count < batch.num_rows() {
            self.rest = Some((batch, first + count));
        }
        Ok(())
    }

    /// The next batch; 57014 when the query is canceled.
    async fn next_batch(&mut self) -> Option<SqlResult<RecordBatch>> {
        let Some(guard) = &self.guard else { return self.batches.next().await };
        tokio::select! {
            biased;
            error = guard.cancel.wait_until(guard.deadline) => Some(Err(error)),
            batch = self.batches.next() => batch,
        }
    }
}

impl RowStream {
    pub fn values(rows: Vec<Vec<Datum>>) -> RowStream {
        RowStream::Values(rows.into_iter(), None)
    }
    pub fn empty() -> RowStream {
        RowStream::values(Vec::new())
    }
    /// Up to `limit` more rows; empty at the end.
    pub async fn next_rows(&mut self, limit: usize) -> SqlResult<Vec<Vec<Datum>>> {
        match self {
            RowStream::Values(rows, _) => Ok(rows.by_ref().take(limit).collect()),
            RowStream::Batches(stream) => loop {
                let rows: Vec<_> = stream.pending.by_ref().take(limit).collect();
                if !rows.is_empty() || limit == 0 {
                    return Ok(rows);
                }
                if stream.rest.is_none() {
                    match stream.next_batch().await {
                        Some(batch) => stream.rest = Some((batch?, 0)),
                        None => {
                            stream.memory.clear();
                            return Ok(Vec::new());
                        }
                    }
                }
                stream.unpack()?;
            },
        }
    }
    /// Every row that is left, counted. Errors: there is no memory for them (53200).
    pub(crate) async fn collect_within(&mut self, memory: &RowsMemory) -> SqlResult<Vec<Vec<Datum>>> {
        let mut all = Vec::new();
        loop {
            let rows = self.next_rows(8192).await?;
            if rows.is_empty() {
                return Ok(all);
            }
            memory.grow(rows.iter().map(|row| crate::analytics::row_bytes(row)).sum())?;
            all.extend(rows);
        }
    }
    /// Every row that is left.
    pub async fn collect(&mut self) -> SqlResult<Vec<Vec<Datum>>> {
        let mut all = Vec::new();
        loop {
            let rows = self.next_rows(8192).await?;
            if rows.is_empty() {
                return Ok(all);
            }
            all.extend(rows);
        }
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
    /// PostgreSQL's binary format, which the front end writes and reads.
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
    pub(crate) started: bool,
    pub(crate) count: u64,
}

impl CopyOut {
    /// The next lines, none at the end. Each is to travel by itself: drivers take a message for a row.
    pub async fn next_lines(&mut self) -> SqlResult<Vec<Vec<u8>>> {
        let mut lines = Vec::new();
        if !std::mem::replace(&mut self.started, true) && self.format.header {
            let names = self.rows.columns.iter().map(|c| Some(c.name.clone()));
            lines.push(self.line(names));
        }
        let rows = self.rows.stream.next_rows(1024).await?;
        self.count += rows.len() as u64;
        lines.extend(rows.iter().map(|row| {
            self.line(row.iter().zip(self.rows.columns.iter()).map(|(value, column)| {
                (!value.is_null()).then(|| base::text::display_as(value, column.data_type))
            }))
        }));
        Ok(lines)
    }

    /// The next rows, none at the end.
    pub async fn next_rows(&mut self) -> SqlResult<Vec<Vec<Datum>>> {
        let rows = self.rows.stream.next_rows(1024).await?;
        self.count += rows.len() as u64;
        Ok(rows)
    }

    pub fn columns(&self) -> &[Column] {
        &self.rows.columns
    }

    fn line(&self, fields: impl Iterator<Item = Option<String>>) -> Vec<u8> {
        let mut out = Vec::new();
        crate::copy::write_line(&mut out, &self.format, fields);
        out
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
    /// `NOTICE`, `WARNING` or `INFO`.
    pub severity: &'static str,
    pub state: base::SqlState,
    pub message: String,
}

/// Types with their arrays, by PostgreSQL's object ids.
const ARRAYS: [(u32, u32); 18] = [
    (16, 1000),
    (17, 1001),
    (19, 1003),
    (20, 1016),
    (21, 1005),
    (23, 1007),
    (25, 1009),
    (26, 1028),
    (700, 1021),
    (701, 1022),
    (1042, 1014),
    (1043, 1015),
    (1082, 1182),
    (1114, 1115),
    (1184, 1185),
    (1186, 1187),
    (1700, 1231),
    (2950, 2951),
];

/// Object id of an array of a type; text's for types without one.
pub fn array_oid(of: u32) -> u32 {
    ARRAYS.iter().find(|(element, _)| *element == of).map_or(1009, |(_, array)| *array)
}

/// Object id of an array's elements; `None` if the type is no array.
pub fn element_oid(array: u32) -> Option<u32> {
    ARRAYS.iter().find(|(_, a)| *a == array).map(|(element, _)| *element)
}

/// PostgreSQL's object id of a type.
pub fn type_oid(data_type: DataType) -> u32 {
    match data_type {
        DataType::Boolean => 16,
        DataType::Bytea => 17,
        DataType::BigInt => 20,
        DataType::SmallInt => 21,
        DataType::Integer => 23,
        DataType::Text => 25,
        DataType::Real => 700,
        DataType::Double => 701,
        DataType::Char { .. } => 1042,
        DataType::Varchar { .. } => 1043,
        DataType::Date => 1082,
        DataType::Timestamp => 1114,
        DataType::TimestampTz => 1184,
        DataType::Numeric { .. } => 1700,
        DataType::Uuid => 2950,
    }
}

/// The type of an object id, as a parameter may have it. 705 (unknown) and 0 are no type.
pub fn type_of_oid(oid: u32) -> Option<DataType> {
    Some(match oid {
        16 => DataType::Boolean,
        17 => DataType::Bytea,
        20 => DataType::BigInt,
        21 => DataType::SmallInt,
        23 | 26 => DataType::Integer,
        25 | 18 | 19 => DataType::Text,
        700 => DataType::Real,
        701 => DataType::Double,
        1042 | 1043 => DataType::Text,
        1082 => DataType::Date,
        1114 => DataType::Timestamp,
        1184 => DataType::TimestampTz,
        1700 => NUMERIC,
        2950 => DataType::Uuid,
        _ => return None,
    })
}

/// `numeric` without limits: as wide as values get.
pub const NUMERIC: DataType = DataType::Numeric { precision: 38, scale: 10 };

/// PostgreSQL's modifier of a type: length or precision and scale, −1 for none.
pub fn type_modifier(data_type: DataType) -> i32 {
    match data_type {
        NUMERIC => -1,
        DataType::Numeric { precision, scale } => (i32::from(precision) << 16 | i32::from(scale)) + 4,
        DataType::Varchar { length } | DataType::Char { length } => length as i32 + 4,
        _ => -1,
    }
}
