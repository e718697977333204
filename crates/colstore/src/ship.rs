//! Rows of a snapshot as bytes for another reader, block by block, and their decoding.
//!
//! KEEPS: exactly the rows of a block that the cut sees are encoded, except rows that certainly fail a predicate;
//! decoded rows have the table's types and the requested columns, or are refused. Bytes are those of Arrow's IPC
//! streams.

use crate::snapshot::{Block, TableSnapshot};
use crate::types::{datum_at, field_of};
use crate::zone::{Bounds, ColumnPredicate, Zone};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::BooleanBuffer;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::Schema;
use base::error::{SqlError, SqlResult, SqlState};
use base::schema::Table;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What a reader wants of a table's visible rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Wanted {
    /// Column numbers, ascending; empty: all.
    pub columns: Vec<usize>,
    /// Rows that certainly fail one of these may be left out.
    pub predicates: Vec<ColumnPredicate>,
}

impl Wanted {
    /// The columns that travel.
    fn columns_of(&self, table: &Table) -> Vec<usize> {
        match self.columns.is_empty() {
            true => (0..table.columns.len()).collect(),
            false => self.columns.clone(),
        }
    }
}

impl TableSnapshot {
    /// The blocks that may contain rows for this request, in a fixed order.
    pub fn blocks_for<'a>(&'a self, wanted: &'a Wanted) -> impl Iterator<Item = Block> + 'a {
        let columns = self.table().columns.len();
        let known = wanted.predicates.iter().all(|p| p.column() < columns);
        let blocks = (0..self.unit_count()).flat_map(|unit| self.blocks(unit));
        blocks.filter(move |block| !known || block.may_match(&wanted.predicates))
    }
}

impl Block {
    /// The rows wanted, as bytes; `None` if there are none. Errors: columns that the table does not have.
    pub fn ship(&self, wanted: &Wanted) -> SqlResult<Option<Vec<u8>>> {
        let table = self.table();
        let columns = wanted.columns_of(table);
        let known = |c: usize| c < table.columns.len();
        if !columns.iter().all(|c| known(*c)) || !wanted.predicates.iter().all(|p| known(p.column())) {
            return Err(SqlError::internal(format!("{} has not the columns that are asked for", table.name)));
        }
        let mut rows = self.visible();
        for predicate in wanted.predicates.iter().filter(|p| !self.all_match(p)) {
            if rows.count() == 0 {
                break;
            }
            let data_type = table.columns[predicate.column()].data_type;
            let values = self.column(predicate.column(), &rows);
            let holds = |row| predicate.may_hold(datum_at(data_type, values.as_ref(), row));
            rows = rows.keep(&BooleanBuffer::collect_bool(values.len(), holds));
        }
        if rows.count() == 0 {
            return Ok(None);
        }
        let fields: Vec<_> = columns.iter().map(|c| field_of(&table.columns[*c])).collect();
        let arrays = columns.iter().map(|c| compact(self.column(*c, &rows))).collect();
        let written = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).and_then(|batch| {
            let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema())?;
            writer.write(&batch)?;
            writer.into_inner()
        });
        written
            .map(Some)
            .map_err(|e| SqlError::internal(format!("rows of {} cannot be sent: {e}", table.name)))
    }
}

/// Without bytes that none of its values uses.
fn compact(array: ArrayRef) -> ArrayRef {
    match array.as_string_view_opt() {
        Some(texts) => Arc::new(texts.gc()),
        None => array,
    }
}

/// Rows that another reader has sent, all visible.
#[derive(Debug)]
pub struct Received {
    rows: usize,
    /// By column number; `None`: not asked for.
    columns: Vec<Option<ArrayRef>>,
    zones: Vec<Zone>,
}

impl Received {
    /// Reads what [`Block::ship`] wrote. Errors: anything else.
    pub fn read(table: &Table, wanted: &Wanted, bytes: &[u8]) -> SqlResult<Received> {
        let broken = |why: String| {
            SqlError::new(
                SqlState::PROTOCOL_VIOLATION,
                format!("another node sent rows of {} that cannot be read", table.name),
            )
            .detail(why)
        };
        let mut batches = StreamReader::try_new(bytes, None).map_err(|e| broken(e.to_string()))?;
        let batch = match batches.next() {
            Some(batch) => batch.map_err(|e| broken(e.to_string()))?,
            None => return Err(broken("There are none.".into())),
        };
        let numbers = wanted.columns_of(table);
        if numbers.len() != batch.num_columns() {
            return Err(broken(format!(
                "{} columns came, {} were asked for.",
                batch.num_columns(),
                numbers.len()
            )));
        }
        let mut columns = vec![None; table.columns.len()];
        let unknown =
            |array: &ArrayRef| Zone { rows: array.len(), nulls: array.null_count(), bounds: Bounds::Unknown };
        let missing = Zone { rows: batch.num_rows(), nulls: 0, bounds: Bounds::Unknown };
        let mut zones = vec![missing; table.columns.len()];
        for (number, array) in numbers.into_iter().zip(batch.columns()) {
            let field = field_of(&table.columns[number]);
            if array.data_type() != field.data_type() || !field.is_nullable() && array.null_count() > 0 {
                return Err(broken(format!(
                    "Column {} is {}, not {}.",
                    field.name(),
                    array.data_type(),
                    field.data_type()
                )));
            }
            zones[number] = unknown(array);
            columns[number] = Some(array.clone());
        }
        Ok(Received { rows: batch.num_rows(), columns, zones })
    }

    pub fn len(&self) -> usize {
        self.rows
    }
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }
    /// Memory that the rows take.
    pub fn bytes(&self) -> usize {
        self.columns.iter().flatten().map(|array| array.get_array_memory_size()).sum()
    }

    pub(crate) fn zone(&self, column: usize) -> &Zone {
        &self.zones[column]
    }
    pub(crate) fn column(&self, column: usize) -> &ArrayRef {
        self.columns[column].as_ref().unwrap_or_else(|| panic!("column {column} was not asked for"))
    }
}
