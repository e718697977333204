//! Rows out of a columnar snapshot.

use base::Datum;
use colstore::{TableSnapshot, datum_at};

/// Every row of the snapshot, as values in column order; rows in no particular order.
pub fn rows_of(snapshot: &TableSnapshot) -> Vec<Vec<Datum>> {
    let columns = &snapshot.table().columns;
    let projection: Vec<usize> = (0..columns.len()).collect();
    let mut rows = Vec::new();
    for unit in 0..snapshot.unit_count() {
        for batch in snapshot.scan(unit, &projection, &[]) {
            rows.extend((0..batch.num_rows()).map(|row| {
                let value = |(c, column): (usize, &base::schema::Column)| {
                    datum_at(column.data_type, batch.column(c).as_ref(), row)
                };
                columns.iter().enumerate().map(value).collect()
            }));
        }
    }
    rows
}
