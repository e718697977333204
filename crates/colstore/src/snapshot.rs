//! What a query reads: one table at one cut, over some partitions, never changing.
//!
//! KEEPS: a snapshot holds shared, immutable pieces only; applying records, merging and collecting
//! while it lives leave it as it is. Every row that its scans return is visible at the cut, and every
//! visible row that satisfies the predicates is returned exactly once.

use crate::delta::Chunk;
use crate::segment::{Begins, Segment};
use crate::types::schema_of;
use crate::values::Values;
use crate::version::{Edge, End, Ends, Selection};
use crate::zone::{Bounds, ColumnPredicate, Zone};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_buffer::BooleanBuffer;
use arrow_schema::SchemaRef;
use arrow_select::filter::FilterBuilder;
use base::Datum;
use base::schema::Table;
use std::sync::Arc;

/// An immutable snapshot of one table's columns at a cut. Cloning shares everything.
#[derive(Clone, Debug)]
pub struct TableSnapshot {
    table: Arc<Table>,
    schema: SchemaRef,
    units: Vec<Unit>,
}

/// A run of versions that is scanned on its own.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    pub edge: Edge,
    pub data: UnitData,
}

#[derive(Clone, Debug)]
pub(crate) enum UnitData {
    /// `begins` is `None` once every row began at or below the collection watermark.
    Segment {
        data: Arc<Segment>,
        begins: Option<Arc<Begins>>,
        ends: Ends,
    },
    Chunk {
        data: Arc<Chunk>,
        ends: Arc<Vec<End>>,
    },
}

/// What a planner wants to know. `rows` is exact.
#[derive(Clone, Debug, PartialEq)]
pub struct TableStatistics {
    pub rows: usize,
    /// By column number.
    pub columns: Vec<ColumnStatistics>,
    /// Whether the columns' figures speak of exactly the visible rows; otherwise they cover some
    /// invisible versions too: bounds are still bounds, counts may be too high.
    pub exact: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ColumnStatistics {
    pub nulls: usize,
    /// Smallest and largest value; `None` if there is none, or if it is too long to be kept.
    pub bounds: Option<(Datum, Datum)>,
    /// Estimated number of different values.
    pub distinct: Option<usize>,
}

impl TableSnapshot {
    pub(crate) fn new(table: Arc<Table>, units: Vec<Unit>) -> TableSnapshot {
        TableSnapshot { schema: schema_of(&table), table, units }
    }

    /// All columns at the cut, hidden ones included: field number = column number.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// The table's description at the cut.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Number of pieces that can be scanned independently, in any order, by any thread.
    pub fn unit_count(&self) -> usize {
        self.units.len()
    }

    /// Versions in a piece, visible or not: its weight when pieces are dealt out to threads.
    pub fn unit_rows(&self, unit: usize) -> usize {
        self.units[unit].len()
    }

    /// Whether a piece may hold a row that satisfies all predicates.
    pub fn unit_may_match(&self, unit: usize, filters: &[ColumnPredicate]) -> bool {
        (0..self.units[unit].block_count())
            .any(|block| self.block_may_match(&self.units[unit], block, filters))
    }

    /// Number of rows visible at the cut.
    pub fn rows_visible(&self) -> usize {
        self.units.iter().map(Unit::rows_visible).sum()
    }

    /// Scans one piece: batches of up to `block_rows` (8192) rows of the projected columns, in the order given. Blocks
    /// without a row that satisfies all `filters` are left out; other rows that do not satisfy them are
    /// not filtered here.
    pub fn scan(&self, unit: usize, projection: &[usize], filters: &[ColumnPredicate]) -> Scan {
        let schema = self.schema.project(projection).expect("a projection names columns of the table");
        let unit = self.units[unit].clone();
        let blocks = (0..unit.block_count()).filter(|b| self.block_may_match(&unit, *b, filters)).collect();
        Scan {
            table: self.table.clone(),
            schema: Arc::new(schema),
            unit,
            projection: projection.to_vec(),
            blocks,
            next: 0,
        }
    }

    fn block_may_match(&self, unit: &Unit, block: usize, filters: &[ColumnPredicate]) -> bool {
        filters.iter().all(|f| match unit.zone(block, f.column()) {
            Some(zone) => f.may_match(zone),
            None => f.may_match(&self.missing_zone(f.column(), unit.block_rows(block))),
        })
    }

    /// The zone of rows that are older than the column.
    fn missing_zone(&self, column: usize, rows: usize) -> Zone {
        match &self.table.columns[column].missing {
            Datum::Null => Zone { rows, nulls: rows, bounds: Bounds::Empty },
            value => Zone { rows, nulls: 0, bounds: Bounds::of(value.clone(), value.clone()) },
        }
    }

    /// Row count and column figures, from zone maps and sketches.
    pub fn statistics(&self) -> TableStatistics {
        let rows = self.rows_visible();
        let versions: usize = self.units.iter().map(Unit::len).sum();
        let columns = (0..self.table.columns.len()).map(|c| self.column_statistics(c, rows)).collect();
        TableStatistics { rows, columns, exact: rows == versions }
    }

    fn column_statistics(&self, column: usize, rows: usize) -> ColumnStatistics {
        let mut all = Zone::EMPTY;
        let mut sketch = crate::sketch::Sketch::new();
        let mut sketched = 0;
        for unit in &self.units {
            for block in 0..unit.block_count() {
                let missing;
                let zone = match unit.zone(block, column) {
                    Some(zone) => zone,
                    None => {
                        missing = self.missing_zone(column, unit.block_rows(block));
                        &missing
                    }
                };
                all = all.join(zone);
            }
            if let UnitData::Segment { data, .. } = &unit.data
                && let Some(column) = data.columns.get(column)
            {
                sketch.join(&column.sketch);
                sketched += data.rows;
            }
        }
        let distinct = if self.table.primary_key == [column] {
            Some(rows)
        } else if sketched > 0 {
            Some(sketch.estimate().min(rows))
        } else {
            None
        };
        let bounds = match all.bounds {
            Bounds::Known(min, max) => Some((min, max)),
            Bounds::Empty | Bounds::Unknown => None,
        };
        ColumnStatistics { nulls: all.nulls, bounds, distinct }
    }
}

impl Unit {
    fn len(&self) -> usize {
        match &self.data {
            UnitData::Segment { data, .. } => data.rows,
            UnitData::Chunk { data, .. } => data.len(),
        }
    }
    /// Rows per block; a chunk is one block.
    fn block_size(&self) -> usize {
        match &self.data {
            UnitData::Segment { data, .. } => data.block_rows,
            UnitData::Chunk { data, .. } => data.len(),
        }
    }
    fn block_count(&self) -> usize {
        self.len().div_ceil(self.block_size())
    }
    fn block_rows(&self, block: usize) -> usize {
        self.block_size().min(self.len() - block * self.block_size())
    }

    /// `None`: the rows are older than the column.
    fn zone(&self, block: usize, column: usize) -> Option<&Zone> {
        match &self.data {
            UnitData::Segment { data, .. } => data.columns.get(column).map(|c| &c.zones[block]),
            UnitData::Chunk { data, .. } => data.columns().zones.get(column),
        }
    }

    fn selection(&self, block: usize) -> Selection {
        let rows = self.block_rows(block);
        match &self.data {
            UnitData::Segment { data, begins, ends } => {
                let begun = match begins {
                    Some(begins) if !self.edge.includes(data.last_begin) => {
                        Some(begins.begun(self.edge, block * data.block_rows, rows))
                    }
                    _ => None,
                };
                Selection::of(rows, self.edge, begun, &ends.blocks[block])
            }
            UnitData::Chunk { data, ends } => {
                let all = data.begins.iter().all(|b| self.edge.includes(*b));
                let begun =
                    (!all).then(|| BooleanBuffer::collect_bool(rows, |i| self.edge.includes(data.begins[i])));
                Selection::of(rows, self.edge, begun, ends)
            }
        }
    }

    fn rows_visible(&self) -> usize {
        (0..self.block_count()).map(|b| self.selection(b).count(self.block_rows(b))).sum()
    }

    /// A column's values in a block; `None` if the rows are older than the column.
    fn array(&self, block: usize, column: usize) -> Option<ArrayRef> {
        match &self.data {
            UnitData::Segment { data, .. } => {
                let column = data.columns.get(column)?;
                Some(column.to_arrow(block * data.block_rows, self.block_rows(block)))
            }
            UnitData::Chunk { data, .. } => data.columns().arrays.get(column).cloned(),
        }
    }
}

/// Batches of one piece of a snapshot.
pub struct Scan {
    table: Arc<Table>,
    schema: SchemaRef,
    unit: Unit,
    projection: Vec<usize>,
    blocks: Vec<usize>,
    next: usize,
}

impl Scan {
    /// The projected columns.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn batch(&self, block: usize) -> Option<RecordBatch> {
        let rows = self.unit.block_rows(block);
        let selection = self.unit.selection(block);
        if let Selection::None = selection {
            return None;
        }
        let columns = self.projection.iter().map(|&column| {
            self.unit.array(block, column).unwrap_or_else(|| {
                let description = &self.table.columns[column];
                let mut values = Values::new(description.data_type, rows);
                (0..rows).for_each(|_| values.push(&description.missing));
                values.to_arrow()
            })
        });
        let columns: Vec<ArrayRef> = match &selection {
            Selection::Some(bits) => {
                let mut filter = FilterBuilder::new(&bits.clone().into());
                if self.projection.len() > 1 {
                    filter = filter.optimize();
                }
                let filter = filter.build();
                columns.map(|c| filter.filter(&c).expect("columns have the block's length")).collect()
            }
            _ => columns.collect(),
        };
        let options = RecordBatchOptions::new().with_row_count(Some(selection.count(rows)));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options);
        Some(batch.unwrap_or_else(|e| panic!("columns of {} do not fit its schema: {e}", self.table.name)))
    }
}

impl Iterator for Scan {
    type Item = RecordBatch;
    fn next(&mut self) -> Option<RecordBatch> {
        while self.next < self.blocks.len() {
            let block = self.blocks[self.next];
            self.next += 1;
            if let Some(batch) = self.batch(block) {
                return Some(batch);
            }
        }
        None
    }
}
