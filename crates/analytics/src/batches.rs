//! The rows of a query on their way out: Arrow batches that become values as they are asked for.

use super::memory::{RowsMemory, rows_within};
use base::error::SqlResult;
use base::{DataType, Datum};
use datafusion::arrow::record_batch::RecordBatch;
use futures::StreamExt;
use futures::stream::BoxStream;
use sql::cancel::CancelHandle;

/// Rows of a batch that are made values at once: other connections of the thread have their turn in between, and a
/// client that reads slowly holds no more.
const UNPACKED_ROWS: usize = 1_024;

/// Values of a batch that are built at once, in bytes; one row at least.
pub const UNPACKED_BYTES: usize = 1 << 20;

/// Arrow batches, with the types their columns are shown as.
pub struct BatchStream {
    batches: BoxStream<'static, SqlResult<RecordBatch>>,
    types: Vec<DataType>,
    /// Ends the query when it is canceled or out of time.
    guard: Option<Guard>,
    /// The rest of a batch that was asked for row by row.
    pending: std::vec::IntoIter<Vec<Datum>>,
    /// What is left of the batch that they are of, from a row on.
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
        let pending = Vec::new().into_iter();
        BatchStream { batches, types, guard: None, pending, rest: None, memory }
    }

    /// Something may end the query between its batches; `None`: nothing may.
    pub fn guard(&mut self, guard: Option<Guard>) {
        self.guard = guard;
    }

    /// Up to `limit` more rows; empty at the end.
    pub async fn next_rows(&mut self, limit: usize) -> SqlResult<Vec<Vec<Datum>>> {
        loop {
            let rows: Vec<_> = self.pending.by_ref().take(limit).collect();
            if !rows.is_empty() || limit == 0 {
                return Ok(rows);
            }
            if self.rest.is_none() {
                match self.next_batch().await {
                    Some(batch) => self.rest = Some((batch?, 0)),
                    None => {
                        self.memory.clear();
                        return Ok(Vec::new());
                    }
                }
            }
            self.unpack()?;
        }
    }

    /// Builds the next values of a batch, as many as may be long at once. Errors: 53200.
    fn unpack(&mut self) -> SqlResult<()> {
        let Some((batch, first)) = self.rest.take() else { return Ok(()) };
        let (count, bytes) = rows_within(&batch, first, UNPACKED_BYTES);
        let count = count.min(UNPACKED_ROWS);
        self.memory.clear();
        if bytes > UNPACKED_BYTES {
            // The value, its text and the message that carries it.
            self.memory.grow(bytes.saturating_mul(3))?;
        }
        let rows = super::types::rows_of(&batch.slice(first, count), &self.types)?;
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
