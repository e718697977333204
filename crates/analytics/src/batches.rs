//! The rows of a query on their way out: Arrow batches, handed on in small portions.

use super::memory::{RowsMemory, rows_within};
use base::error::SqlResult;
use base::{DataType, Datum};
use datafusion::arrow::record_batch::RecordBatch;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{StreamExt, TryFutureExt, TryStreamExt};
use sql::cancel::CancelHandle;

/// Rows of a batch that are handed on at once: other connections of the thread have their turn in between.
const PORTION_ROWS: usize = 1_024;

/// Values of a batch that are handed on at once, in bytes; one row at least.
pub const PORTION_BYTES: usize = 1 << 20;

/// What a long row may take on its way out, in times of its values: the message that carries it, in which each byte of
/// a bytea and each backslash of COPY is two, and room for that to grow.
pub const MESSAGE_GROWTH: usize = 4;

/// The same where elements of lists are quoted within it.
const GROWTH_OF_LISTS: usize = 8;

/// Arrow batches, with the types their columns are shown as.
pub struct BatchStream {
    batches: BoxStream<'static, SqlResult<RecordBatch>>,
    types: Vec<DataType>,
    /// Columns that are shown with blanks up to a length.
    padded: Vec<(usize, usize)>,
    /// Ends the query when it is canceled or out of time.
    guard: Option<Guard>,
    /// What is left of a batch, from a row on.
    rest: Option<(RecordBatch, usize)>,
    /// What the values take on their way out.
    memory: RowsMemory,
}

/// What may end a query between its batches.
pub struct Guard {
    pub cancel: CancelHandle,
    pub deadline: Option<tokio::time::Instant>,
}

impl BatchStream {
    pub fn new(
        batches: BoxStream<'static, SqlResult<RecordBatch>>,
        types: Vec<DataType>,
        memory: RowsMemory,
    ) -> BatchStream {
        let padded = types.iter().enumerate().filter_map(|(column, data_type)| match data_type {
            DataType::Char { length } => Some((column, *length as usize)),
            _ => None,
        });
        BatchStream { batches, padded: padded.collect(), types, guard: None, rest: None, memory }
    }

    /// Something may end the query between its batches; `None`: nothing may.
    pub fn guard(&mut self, guard: Option<Guard>) {
        self.guard = guard;
    }

    /// Each batch waits for something before it goes on its way.
    pub fn after(self, wait: impl Fn() -> BoxFuture<'static, SqlResult<()>> + Send + 'static) -> BatchStream {
        let waited = self.batches.and_then(move |batch| wait().map_ok(|()| batch));
        BatchStream { batches: waited.boxed(), ..self }
    }

    /// Up to `limit` more rows (one at least), as they are; `None` at the end. Errors: 53200 if there is no memory to
    /// send a row.
    pub async fn next_portion(&mut self, limit: usize) -> SqlResult<Option<RecordBatch>> {
        loop {
            let Some((batch, first)) = &mut self.rest else {
                match self.next_batch().await {
                    Some(batch) => self.rest = Some((batch?, 0)),
                    None => {
                        self.memory.clear();
                        return Ok(None);
                    }
                }
                continue;
            };
            if *first == batch.num_rows() {
                self.rest = None;
                continue;
            }
            let rows_max = limit.clamp(1, PORTION_ROWS);
            let (count, bytes) = rows_within(batch, &self.padded, *first, rows_max, PORTION_BYTES);
            self.memory.clear();
            if bytes > PORTION_BYTES {
                let has_lists = batch.columns().iter().any(|column| column.data_type().is_nested());
                let growth = if has_lists { GROWTH_OF_LISTS } else { MESSAGE_GROWTH };
                self.memory.grow(bytes.saturating_mul(growth))?;
            }
            let portion = batch.slice(*first, count);
            *first += count;
            return Ok(Some(portion));
        }
    }

    /// Up to `limit` more rows as values; empty at the end.
    pub async fn next_rows(&mut self, limit: usize) -> SqlResult<Vec<Vec<Datum>>> {
        match self.next_portion(limit).await? {
            Some(batch) => super::types::rows_of(&batch, &self.types),
            None => Ok(Vec::new()),
        }
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
