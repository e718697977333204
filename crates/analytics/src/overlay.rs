//! A transaction's own rows, laid over a column snapshot.

use base::schema::Table;
use base::{Datum, Key, TableId};
use datafusion::arrow::array::{Array, BooleanArray};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The writes of an open transaction, which its own queries see.
pub trait OwnRows: Sync {
    /// Tables with written rows.
    fn written_tables(&self) -> BTreeSet<TableId>;
    /// Calls `each` with the key and the new values of each written row, `None` for deleted ones.
    fn each_written(&self, table: TableId, each: &mut dyn FnMut(&Key, Option<&Arc<Vec<Datum>>>));
}

/// What a transaction has written to one table.
pub(super) struct Overlay {
    table: Arc<Table>,
    /// Keys of rows that the snapshot must not show.
    written: BTreeSet<Key>,
    /// Their new values, where there are some.
    rows: Vec<Arc<Vec<Datum>>>,
    /// These are all rows there are: the snapshot has no say.
    pub is_whole: bool,
}

impl Overlay {
    pub fn of(table: &Arc<Table>, transaction: &dyn OwnRows) -> Overlay {
        let mut written = BTreeSet::new();
        let mut rows = Vec::new();
        transaction.each_written(table.id, &mut |key, new| {
            written.insert(key.clone());
            rows.extend(new.cloned());
        });
        Overlay { table: table.clone(), written, rows, is_whole: false }
    }

    /// All rows of a table that the transaction itself has made or altered.
    pub fn whole(table: &Arc<Table>, rows: Vec<Arc<Vec<Datum>>>) -> Overlay {
        Overlay { table: table.clone(), written: BTreeSet::new(), rows, is_whole: true }
    }

    /// The projection followed by the key's columns.
    pub fn with_key(&self, projection: &[usize]) -> Vec<usize> {
        projection.iter().chain(&self.table.primary_key).copied().collect()
    }

    /// A batch made with [`Overlay::with_key`], without the rows that were written since. Only its first
    /// `columns` columns are the query's.
    pub fn without_written(&self, batch: RecordBatch, columns: usize) -> Result<RecordBatch> {
        let keep: BooleanArray = (0..batch.num_rows())
            .map(|row| {
                let mut key = Key::new();
                for (at, &column) in self.table.primary_key.iter().enumerate() {
                    let array: &dyn Array = batch.column(columns + at).as_ref();
                    key.push(&colstore::datum_at(self.table.columns[column].data_type, array, row));
                }
                Some(!self.written.contains(&key))
            })
            .collect();
        filter_record_batch(&batch, &keep).map_err(DataFusionError::from)
    }

    /// The transaction's rows, projected.
    pub fn rows(&self, projection: &[usize]) -> Result<RecordBatch> {
        let arrays = projection
            .iter()
            .map(|&column| {
                let values: Vec<Datum> = self.rows.iter().map(|row| row[column].clone()).collect();
                colstore::array_of(self.table.columns[column].data_type, &values)
            })
            .collect();
        let schema = Arc::new(colstore::schema_of(&self.table).project(projection)?);
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows.len()));
        RecordBatch::try_new_with_options(schema, arrays, &options).map_err(DataFusionError::from)
    }
}
