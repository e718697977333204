//! Filters that a scan applies itself, block by block, cheapest information first: what a zone map settles
//! nobody looks at, and a column is decoded only in rows that earlier filters left.
//!
//! Filters that joins and sorts find out while they run are hints. One that lets most rows through costs
//! more than it saves: it rests for a while and is tried again.

use super::prune;
use base::schema::Table;
use colstore::{Block, ColumnPredicate};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use datafusion::arrow::compute::{filter, filter_record_batch, prep_null_mask_filter};
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::Result;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::DataFusionError;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use datafusion::physical_expr_common::physical_expr::{snapshot_generation, snapshot_physical_expr};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A filter over a scan's output as one over the table's columns, by number.
pub(super) fn over_table(
    filter: &Arc<dyn PhysicalExpr>,
    projection: &[usize],
) -> Result<Arc<dyn PhysicalExpr>> {
    let column = |column: &Column| Column::new(column.name(), projection[column.index()]);
    moved(filter, column)
}

fn moved(filter: &Arc<dyn PhysicalExpr>, to: impl Fn(&Column) -> Column) -> Result<Arc<dyn PhysicalExpr>> {
    filter
        .clone()
        .transform_up(|e| match e.downcast_ref::<Column>() {
            Some(column) => Ok(Transformed::yes(Arc::new(to(column)) as Arc<dyn PhysicalExpr>)),
            None => Ok(Transformed::no(e)),
        })
        .map(|t| t.data)
}

/// One stream's filters.
pub(super) struct Filters {
    table: Arc<Table>,
    filters: Vec<Filter>,
    /// Columns of any of them, ascending.
    columns: Vec<usize>,
}

/// A filter as it was given, and what it says now.
struct Filter {
    source: Arc<dyn PhysicalExpr>,
    /// 0: it never changes.
    generation: u64,
    parts: Vec<Part>,
}

/// One of the conditions that a filter joins by AND.
struct Part {
    expr: Arc<dyn PhysicalExpr>,
    /// Its inputs, in the order of `schema`.
    columns: Vec<usize>,
    schema: SchemaRef,
    /// What zone maps can say of it.
    predicates: Vec<ColumnPredicate>,
    /// The predicate that says exactly the same.
    same: Option<ColumnPredicate>,
    /// Rows asked about and rows let through since the last rest; blocks left to rest. Hints only.
    is_hint: bool,
    asked: usize,
    passed: usize,
    rest: usize,
}

/// Rows to ask about before a hint is judged.
const HINT_ROWS_MIN: usize = 16_384;
/// A hint that lets more than this share through is not worth asking.
const HINT_SHARE_MAX: f64 = 0.7;
/// Blocks that such a hint rests.
const HINT_REST_BLOCKS: usize = 64;

impl Filters {
    pub fn new(table: &Arc<Table>, filters: &[Arc<dyn PhysicalExpr>]) -> Filters {
        let mut columns = BTreeSet::new();
        for filter in filters {
            columns.extend(collect_columns(filter).iter().map(Column::index));
        }
        let filter = |source: &Arc<dyn PhysicalExpr>| Filter {
            source: source.clone(),
            generation: u64::MAX,
            parts: Vec::new(),
        };
        Filters {
            table: table.clone(),
            filters: filters.iter().map(filter).collect(),
            columns: columns.into_iter().collect(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.filters.is_empty()
    }

    /// The projection followed by what filters need beyond it.
    pub fn columns_with(&self, projection: &[usize]) -> Vec<usize> {
        let more = self.columns.iter().filter(|c| !projection.contains(c));
        projection.iter().chain(more).copied().collect()
    }

    /// Takes over what has been found out since.
    pub fn refresh(&mut self) -> Result<()> {
        for filter in &mut self.filters {
            let generation = snapshot_generation(&filter.source);
            if generation == filter.generation {
                continue;
            }
            filter.generation = generation;
            let now = snapshot_physical_expr(filter.source.clone())?;
            filter.parts = split_conjunction(&now)
                .into_iter()
                .filter(|part| !is_true(part))
                .map(|part| Part::new(&self.table, part, generation != 0))
                .collect::<Result<_>>()?;
            // Numbers before texts.
            let fixed = |column: &usize| matches!(colstore::arrow_type(self.table.columns[*column].data_type), t if t.is_primitive());
            filter.parts.sort_by_key(|part| !part.columns.iter().all(fixed));
        }
        Ok(())
    }

    /// Whether a row of the block may satisfy all of them.
    pub fn may_match(&self, block: &Block) -> bool {
        self.filters.iter().flat_map(|f| &f.parts).all(|part| block.may_match(&part.predicates))
    }

    /// The projection of the visible rows that satisfy all filters; `None`: there are none.
    pub fn of_block(&mut self, block: &Block, projection: &[usize]) -> Result<Option<RecordBatch>> {
        let mut rows = block.visible();
        let mut count = rows.count();
        // Columns decoded so far, in `rows`.
        let mut arrays: BTreeMap<usize, ArrayRef> = BTreeMap::new();
        let mut parts: Vec<&mut Part> = self
            .filters
            .iter_mut()
            .flat_map(|f| &mut f.parts)
            .filter(|part| !part.same.as_ref().is_some_and(|same| block.all_match(same)))
            .collect();
        for i in 0..parts.len() {
            if count == 0 {
                return Ok(None);
            }
            if parts[i].rests() {
                continue;
            }
            let columns = parts[i].columns.iter();
            let columns: Vec<ArrayRef> = columns
                .map(|c| arrays.entry(*c).or_insert_with(|| block.column(*c, &rows)).clone())
                .collect();
            let kept = parts[i].passes(columns, count)?;
            if kept.true_count() == count {
                continue;
            }
            count = kept.true_count();
            rows = rows.keep(kept.values());
            let later = &parts[i + 1..];
            arrays.retain(|c, _| projection.contains(c) || later.iter().any(|p| p.columns.contains(c)));
            for array in arrays.values_mut() {
                *array = filter(array.as_ref(), &kept)?;
            }
        }
        if count == 0 {
            return Ok(None);
        }
        let columns = projection.iter().map(|c| match arrays.get(c) {
            Some(array) => array.clone(),
            None => block.column(*c, &rows),
        });
        let columns = columns.collect();
        batch(schema(&self.table, projection), columns, count).map(Some)
    }

    /// The rows of a batch that satisfy all filters. Its first columns are [`Filters::columns_with`] of
    /// `projection`.
    pub fn of_batch(&mut self, projection: &[usize], mut rows: RecordBatch) -> Result<RecordBatch> {
        self.refresh()?;
        let present = self.columns_with(projection);
        for part in self.filters.iter_mut().flat_map(|f| &mut f.parts) {
            let columns = part.columns.iter().map(|c| {
                let at = present.iter().position(|p| p == c).expect("all columns of filters are present");
                rows.column(at).clone()
            });
            let kept = part.passes(columns.collect(), rows.num_rows())?;
            rows = filter_record_batch(&rows, &kept)?;
        }
        Ok(rows)
    }
}

impl Part {
    fn new(table: &Table, expr: &Arc<dyn PhysicalExpr>, is_hint: bool) -> Result<Part> {
        let columns: BTreeSet<usize> = collect_columns(expr).iter().map(Column::index).collect();
        let columns: Vec<usize> = columns.into_iter().collect();
        let (predicates, same) = prune::physical_predicates(table, expr);
        let at = |number: usize| columns.iter().position(|c| *c == number).expect("collected above");
        Ok(Part {
            expr: moved(expr, |column| Column::new(column.name(), at(column.index())))?,
            // Functions look at the notes, as of a uuid, which is a text in Arrow.
            schema: super::types::schema_of(table, &columns),
            columns,
            predicates,
            same,
            is_hint,
            asked: 0,
            passed: 0,
            rest: 0,
        })
    }

    /// Which of `count` rows satisfy it; never null.
    fn passes(&mut self, columns: Vec<ArrayRef>, count: usize) -> Result<BooleanArray> {
        let rows = batch(self.schema.clone(), columns, count)?;
        let found = self.expr.evaluate(&rows)?.into_array(count)?;
        let found = match found.as_boolean() {
            nulls if nulls.null_count() > 0 => prep_null_mask_filter(nulls),
            found => found.clone(),
        };
        self.asked += count;
        self.passed += found.true_count();
        Ok(found)
    }

    /// Whether the hint is left out this time.
    fn rests(&mut self) -> bool {
        if !self.is_hint {
            return false;
        }
        if self.rest > 0 {
            self.rest -= 1;
            return true;
        }
        if self.asked < HINT_ROWS_MIN {
            return false;
        }
        if self.passed as f64 > self.asked as f64 * HINT_SHARE_MAX {
            self.rest = HINT_REST_BLOCKS;
        }
        (self.asked, self.passed) = (0, 0);
        self.rest > 0
    }
}

fn is_true(e: &Arc<dyn PhysicalExpr>) -> bool {
    e.downcast_ref::<Literal>().is_some_and(|l| matches!(l.value(), ScalarValue::Boolean(Some(true))))
}

fn schema(table: &Table, columns: &[usize]) -> SchemaRef {
    Arc::new(Schema::new(columns.iter().map(|c| colstore::field_of(&table.columns[*c])).collect::<Vec<_>>()))
}

fn batch(schema: SchemaRef, columns: Vec<ArrayRef>, count: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(count));
    RecordBatch::try_new_with_options(schema, columns, &options).map_err(DataFusionError::from)
}
