//! What a query reads: one table at one cut, over some partitions, never changing.
//!
//! KEEPS: a snapshot holds shared, immutable pieces only; applying records, merging and collecting
//! while it lives leave it as it is. Every row that its scans return is visible at the cut, and every
//! visible row that satisfies the predicates is returned exactly once.

use crate::delta::Chunk;
use crate::segment::{Begins, Segment};
use crate::ship::Received;
use crate::types::{field_of, schema_of};
use crate::values::Values;
use crate::version::{Edge, End, Ends, Selection};
use crate::zone::{Bounds, ColumnPredicate, Zone};
use arrow_array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder};
use arrow_schema::{Schema, SchemaRef};
use base::schema::Table;
use base::{Datum, Rank};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// An immutable snapshot of one table's columns at a cut. Cloning shares everything.
#[derive(Clone, Debug)]
pub struct TableSnapshot {
    table: Arc<Table>,
    schema: SchemaRef,
    units: Vec<Unit>,
    /// Figures of pieces elsewhere, of which only some rows are here.
    elsewhere: Vec<TableStatistics>,
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
    /// Rows that another reader has found visible.
    Received(Arc<Received>),
}

/// What a planner wants to know. `rows` is exact.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableStatistics {
    pub rows: usize,
    /// By column number.
    pub columns: Vec<ColumnStatistics>,
    /// Whether the columns' figures speak of exactly the visible rows; otherwise they cover some
    /// invisible versions too: bounds are still bounds, counts may be too high.
    pub exact: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ColumnStatistics {
    pub nulls: usize,
    /// Smallest and largest value; `None` if there is none, or if it is too long to be kept.
    pub bounds: Option<(Datum, Datum)>,
    /// Estimated number of different values.
    pub distinct: Option<usize>,
}

impl TableSnapshot {
    pub(crate) fn new(table: Arc<Table>, units: Vec<Unit>) -> TableSnapshot {
        TableSnapshot { schema: schema_of(&table), table, units, elsewhere: Vec::new() }
    }

    /// A table whose rows are, at one cut, partly in this snapshot and partly with other readers: what they have
    /// sent, and their figures.
    pub fn assembled(
        table: Arc<Table>,
        own: Option<TableSnapshot>,
        received: Vec<Received>,
        elsewhere: Vec<TableStatistics>,
    ) -> TableSnapshot {
        let mut all = own.unwrap_or_else(|| TableSnapshot::new(table, Vec::new()));
        let unit = |rows: Received| Unit {
            edge: Edge { base: Rank::ZERO, above: Arc::default() },
            data: UnitData::Received(Arc::new(rows)),
        };
        all.units.extend(received.into_iter().map(unit));
        all.elsewhere = elsewhere;
        all
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
        let unit = &self.units[unit];
        (0..unit.block_count()).any(|block| unit.may_match(&self.table, block, filters))
    }

    /// Number of rows visible at the cut.
    pub fn rows_visible(&self) -> usize {
        self.units.iter().map(Unit::rows_visible).sum()
    }

    /// Scans one piece: batches of up to `block_rows` (8192) rows of the projected columns, in the order given. Blocks
    /// without a row that satisfies all `filters` are left out; other rows that do not satisfy them are
    /// not filtered here.
    pub fn scan(&self, unit: usize, projection: &[usize], filters: &[ColumnPredicate]) -> Scan {
        let blocks = self.blocks(unit).filter(|b| b.may_match(filters)).collect::<Vec<_>>().into_iter();
        Scan { projection: projection.to_vec(), blocks }
    }

    /// The blocks of one piece, for readers that decode column by column.
    pub fn blocks(&self, unit: usize) -> impl Iterator<Item = Block> + use<> {
        let unit = self.units[unit].clone();
        let table = self.table.clone();
        (0..unit.block_count()).map(move |block| Block { table: table.clone(), unit: unit.clone(), block })
    }

    /// Row count and column figures, from zone maps and sketches.
    pub fn statistics(&self) -> TableStatistics {
        // What was sent from elsewhere is counted there, where all of it is.
        let here = || self.units.iter().filter(|u| !matches!(u.data, UnitData::Received(_)));
        let rows = here().map(Unit::rows_visible).sum();
        let versions: usize = here().map(Unit::len).sum();
        let columns = (0..self.table.columns.len()).map(|c| self.column_statistics(c, rows)).collect();
        let here = TableStatistics { rows, columns, exact: rows == versions };
        self.elsewhere.iter().fold(here, |all, part| all.join(part, &self.table))
    }

    fn column_statistics(&self, column: usize, rows: usize) -> ColumnStatistics {
        let mut all = Zone::EMPTY;
        let mut sketch = crate::sketch::Sketch::new();
        let mut sketched = 0;
        for unit in self.units.iter().filter(|u| !matches!(u.data, UnitData::Received(_))) {
            for block in 0..unit.block_count() {
                let missing;
                let zone = match unit.zone(block, column) {
                    Some(zone) => zone,
                    None => {
                        missing = missing_zone(&self.table, column, unit.block_rows(block));
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

impl TableStatistics {
    /// Figures of two parts of a table as figures of both.
    fn join(mut self, other: &TableStatistics, table: &Table) -> TableStatistics {
        let (mine, theirs) = (self.rows, other.rows);
        let bounds = |rows: usize, of: &ColumnStatistics| match &of.bounds {
            Some((min, max)) => Bounds::Known(min.clone(), max.clone()),
            None if rows == of.nulls => Bounds::Empty,
            None => Bounds::Unknown,
        };
        for (c, (column, more)) in self.columns.iter_mut().zip(&other.columns).enumerate() {
            let joined = bounds(mine, column).join(&bounds(theirs, more));
            column.bounds = match joined {
                Bounds::Known(min, max) => Some((min, max)),
                Bounds::Empty | Bounds::Unknown => None,
            };
            column.nulls += more.nulls;
            column.distinct = match (column.distinct, more.distinct) {
                (Some(a), Some(b)) if table.primary_key == [c] => Some(a + b),
                // The same values may be in both, or none.
                (a, b) => a.max(b),
            };
        }
        self.rows += other.rows;
        self.exact &= other.exact;
        self
    }
}

/// The zone of rows that are older than the column.
fn missing_zone(table: &Table, column: usize, rows: usize) -> Zone {
    match &table.columns[column].missing {
        Datum::Null => Zone { rows, nulls: rows, bounds: Bounds::Empty },
        value => Zone { rows, nulls: 0, bounds: Bounds::of(value.clone(), value.clone()) },
    }
}

impl Unit {
    /// Whether a row of the block may satisfy all filters.
    fn may_match(&self, table: &Table, block: usize, filters: &[ColumnPredicate]) -> bool {
        filters.iter().all(|f| match self.zone(block, f.column()) {
            Some(zone) => f.may_match(zone),
            None => f.may_match(&missing_zone(table, f.column(), self.block_rows(block))),
        })
    }

    fn len(&self) -> usize {
        match &self.data {
            UnitData::Segment { data, .. } => data.rows,
            UnitData::Chunk { data, .. } => data.len(),
            UnitData::Received(rows) => rows.len(),
        }
    }
    /// Rows per block; a chunk is one block, and so are rows that were sent together.
    fn block_size(&self) -> usize {
        match &self.data {
            UnitData::Segment { data, .. } => data.block_rows,
            UnitData::Chunk { data, .. } => data.len(),
            UnitData::Received(rows) => rows.len(),
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
            UnitData::Received(rows) => Some(rows.zone(column)),
        }
    }

    fn selection(&self, block: usize) -> Selection {
        let rows = self.block_rows(block);
        match &self.data {
            UnitData::Segment { data, begins, ends } => {
                let begun = match begins {
                    Some(begins) if data.last_begin > self.edge.base => {
                        Some(begins.begun(&self.edge, block * data.block_rows, rows))
                    }
                    _ => None,
                };
                Selection::of(rows, &self.edge, begun, &ends.blocks[block])
            }
            UnitData::Chunk { data, ends } => {
                let all = data.begins.iter().all(|b| self.edge.includes(*b));
                let begun =
                    (!all).then(|| BooleanBuffer::collect_bool(rows, |i| self.edge.includes(data.begins[i])));
                Selection::of(rows, &self.edge, begun, ends)
            }
            UnitData::Received(_) => Selection::All,
        }
    }

    fn rows_visible(&self) -> usize {
        (0..self.block_count()).map(|b| self.selection(b).count(self.block_rows(b))).sum()
    }

    /// A column's values in a block, or in those of its rows that `kept` has; `None` if the rows are
    /// older than the column.
    fn array(&self, block: usize, column: usize, kept: Option<&BooleanBuffer>) -> Option<ArrayRef> {
        match &self.data {
            UnitData::Segment { data, .. } => {
                let column = data.columns.get(column)?;
                let (start, rows) = (block * data.block_rows, self.block_rows(block));
                Some(match kept {
                    None => column.to_arrow(start, rows),
                    Some(kept) => column.some_to_arrow(start, kept),
                })
            }
            UnitData::Chunk { data, .. } => {
                let array = data.columns().arrays.get(column)?;
                Some(kept.map_or_else(|| array.clone(), |kept| filtered(array, kept)))
            }
            UnitData::Received(rows) => {
                let array = rows.column(column);
                Some(kept.map_or_else(|| array.clone(), |kept| filtered(array, kept)))
            }
        }
    }
}

/// The rows of an array that `kept` has.
pub(crate) fn filtered(array: &ArrayRef, kept: &BooleanBuffer) -> ArrayRef {
    let kept = BooleanArray::new(kept.clone(), None);
    arrow_select::filter::filter(array, &kept).expect("a column has its block's length")
}

/// Up to `block_rows` (8192) versions of one piece. Columns are decoded as they are asked for, and only in
/// the rows that the reader still wants.
pub struct Block {
    table: Arc<Table>,
    unit: Unit,
    block: usize,
}

impl Block {
    /// Versions in the block, visible or not.
    pub fn len(&self) -> usize {
        self.unit.block_rows(self.block)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The table's description at the snapshot's cut.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Whether a row may satisfy all predicates.
    pub fn may_match(&self, filters: &[ColumnPredicate]) -> bool {
        self.unit.may_match(&self.table, self.block, filters)
    }

    /// Whether every row certainly satisfies the predicate, so that no row has to be checked.
    pub fn all_match(&self, filter: &ColumnPredicate) -> bool {
        match self.unit.zone(self.block, filter.column()) {
            Some(zone) => filter.always_matches(zone),
            None => filter.always_matches(&missing_zone(&self.table, filter.column(), self.len())),
        }
    }

    /// The rows that the cut sees.
    pub fn visible(&self) -> Rows {
        match self.unit.selection(self.block) {
            Selection::All => Rows::All(self.len()),
            Selection::None => Rows::Some(BooleanBuffer::new_unset(self.len())),
            Selection::Some(bits) => Rows::Some(bits),
        }
    }

    /// A column's values in these rows.
    pub fn column(&self, column: usize, rows: &Rows) -> ArrayRef {
        let kept = match rows {
            Rows::All(_) => None,
            Rows::Some(kept) => Some(kept),
        };
        self.unit.array(self.block, column, kept).unwrap_or_else(|| {
            let (description, rows) = (&self.table.columns[column], rows.count());
            let mut values = Values::new(description.data_type, rows);
            (0..rows).for_each(|_| values.push(&description.missing));
            values.to_arrow()
        })
    }

    /// Some columns of these rows.
    pub fn batch(&self, columns: &[usize], rows: &Rows) -> RecordBatch {
        let schema = self.unit_schema(columns);
        let arrays = columns.iter().map(|c| self.column(*c, rows)).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows.count()));
        let batch = RecordBatch::try_new_with_options(schema, arrays, &options);
        batch.unwrap_or_else(|e| panic!("columns of {} do not fit its schema: {e}", self.table.name))
    }

    fn unit_schema(&self, columns: &[usize]) -> SchemaRef {
        let fields: Vec<_> = columns.iter().map(|c| field_of(&self.table.columns[*c])).collect();
        Arc::new(Schema::new(fields))
    }
}

/// Some rows of a [`Block`].
#[derive(Clone, Debug)]
pub enum Rows {
    /// All of so many.
    All(usize),
    /// Those with a bit.
    Some(BooleanBuffer),
}

impl Rows {
    pub fn count(&self) -> usize {
        match self {
            Rows::All(count) => *count,
            Rows::Some(bits) => bits.count_set_bits(),
        }
    }

    /// The n-th of these rows stays if the n-th bit is set.
    pub fn keep(&self, bits: &BooleanBuffer) -> Rows {
        assert_eq!(bits.len(), self.count(), "a bit for each row");
        Rows::Some(match self {
            Rows::All(_) => bits.clone(),
            Rows::Some(before) => {
                let mut kept = BooleanBufferBuilder::new(before.len());
                kept.append_n(before.len(), false);
                before.set_indices().enumerate().filter(|(n, _)| bits.value(*n)).for_each(|(_, row)| {
                    kept.set_bit(row, true);
                });
                kept.finish()
            }
        })
    }
}

/// Batches of one piece of a snapshot.
pub struct Scan {
    projection: Vec<usize>,
    blocks: std::vec::IntoIter<Block>,
}

impl Iterator for Scan {
    type Item = RecordBatch;
    fn next(&mut self) -> Option<RecordBatch> {
        let seen = self.blocks.by_ref().map(|b| (b.visible(), b));
        let (rows, block) = seen.into_iter().find(|(rows, _)| rows.count() > 0)?;
        Some(block.batch(&self.projection, &rows))
    }
}
