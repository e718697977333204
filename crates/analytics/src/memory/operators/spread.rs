//! Constants that become arrays, whose memory is reserved.

use super::super::growth::scalar_bytes;
use super::super::{held, reserve};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::common::{Result, internal_err};
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::logical_expr::ColumnarValue;
use datafusion::logical_expr::sort_properties::ExprProperties;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_plan::PhysicalExpr;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Shorter constants take no more than other columns do.
const SHORT_BYTES: u64 = 64;

/// Bytes of long constants in an expression, which may all be written out for every row.
pub(super) fn constant_bytes(e: &Arc<dyn PhysicalExpr>) -> u64 {
    let own = e.downcast_ref::<Literal>().map_or(0, |literal| scalar_bytes(literal.value()));
    let own = if own > SHORT_BYTES { own } else { 0 };
    e.children().into_iter().fold(own, |sum, child| sum.saturating_add(constant_bytes(child)))
}

pub(super) fn spread(e: &Arc<dyn PhysicalExpr>, pool: &Arc<dyn MemoryPool>) -> Option<Arc<dyn PhysicalExpr>> {
    let bytes = constant_bytes(e);
    (bytes > 0).then(|| Arc::new(Spread { inner: e.clone(), bytes, pool: pool.clone() }) as _)
}

/// An expression with long constants; what they take in a batch is reserved before they are written out.
#[derive(Debug)]
pub(super) struct Spread {
    inner: Arc<dyn PhysicalExpr>,
    /// Of its constants.
    bytes: u64,
    pool: Arc<dyn MemoryPool>,
}

impl PartialEq for Spread {
    fn eq(&self, other: &Spread) -> bool {
        self.inner.eq(&other.inner)
    }
}

impl Eq for Spread {}

impl Hash for Spread {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl PhysicalExpr for Spread {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        self.inner.data_type(schema)
    }
    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.inner.nullable(schema)
    }
    fn return_field(&self, schema: &Schema) -> Result<FieldRef> {
        self.inner.return_field(schema)
    }
    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let rows = batch.num_rows();
        let is_view =
            matches!(self.inner.data_type(batch.schema_ref())?, DataType::Utf8View | DataType::BinaryView);
        let copies = if is_view { 1 } else { rows as u64 };
        let bytes = self.bytes.saturating_mul(copies.saturating_add(1));
        let memory = reserve(&self.pool, "constants", bytes)?;
        let array = self.inner.evaluate(batch)?.into_array(rows)?;
        held(array, batch.columns(), memory).map(ColumnarValue::Array)
    }
    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.inner]
    }
    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        match (children.pop(), children.is_empty()) {
            (Some(inner), true) => Ok(Arc::new(Spread { inner, bytes: self.bytes, pool: self.pool.clone() })),
            _ => internal_err!("a spread expression has one part"),
        }
    }
    fn get_properties(&self, children: &[ExprProperties]) -> Result<ExprProperties> {
        match children {
            [inner] => Ok(inner.clone()),
            _ => Ok(ExprProperties::new_unknown()),
        }
    }
    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_sql(f)
    }
}
