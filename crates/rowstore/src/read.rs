//! Rows at a cut, for readers.

use crate::store::Store;
use base::error::{SqlError, SqlResult, SqlState};
use base::schema::stale_schema;
use base::txn::RowRead;
use base::{Key, Place, Rank, Row};

impl Store {
    /// The rows that a read asks for, in key order or its reverse, with their primary keys. A cut
    /// includes every transaction of its rank.
    ///
    /// Errors: a cut that was collected (72000), a table or index that does not exist at the cut, an
    /// error of the filter.
    pub fn read(&self, read: &RowRead, cut: Rank) -> SqlResult<Vec<(Key, Row)>> {
        assert_eq!(read.partition, self.partition, "a read went to the wrong partition");
        let catalog = self.catalog_at(cut)?;
        let at = Place::end_of(cut);
        let table = catalog.table(read.table).ok_or_else(|| {
            SqlError::new(SqlState::UNDEFINED_TABLE, format!("there is no table {} at the cut", read.table))
                .hint("Retry: the table was created or dropped meanwhile.")
        })?;
        let limit = read.limit.unwrap_or(u64::MAX);
        let (mut rows, mut failed) = (Vec::new(), None);
        if limit == 0 {
            return Ok(rows);
        }
        let mut visit = |key: &Key, row: &Row| {
            let wanted = match &read.filter {
                Some(filter) => filter.holds(&table.complete(row)),
                None => Ok(true),
            };
            match wanted {
                Ok(true) => rows.push((key.clone(), row.clone())),
                Ok(false) => {}
                Err(error) => failed = Some(error),
            }
            failed.is_none() && (rows.len() as u64) < limit
        };
        match read.index {
            None => match read.range.as_point() {
                Some(key) => {
                    if let Some(row) = self.get_at(read.table, key, at) {
                        visit(key, row);
                    }
                }
                None => self.scan_at(read.table, &read.range, at, read.descending, &mut visit),
            },
            Some(index) => {
                let kept = self.table_at(read.table, at).and_then(|t| t.index(index));
                if kept.is_none() || !table.indexes.iter().any(|i| i.id == index) {
                    return Err(stale_schema());
                }
                self.scan_index_at(index, &read.range, at, read.descending, &mut visit);
            }
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(rows),
        }
    }
}
