//! Functions that PostgreSQL has and DataFusion does not.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::context::SessionContext;
use datafusion::logical_expr::{ColumnarValue, Volatility, create_udf};
use std::sync::Arc;

/// What `version()` says: clients look for `PostgreSQL` and a number.
pub(crate) const VERSION: &str =
    concat!("PostgreSQL 15.0 (Meridian ", env!("CARGO_PKG_VERSION"), "), geo-distributed, 64-bit");

pub(super) fn install(context: &SessionContext) {
    let text = |value: &'static str| {
        Arc::new(move |_: &[ColumnarValue]| -> Result<ColumnarValue> {
            Ok(ColumnarValue::Scalar(ScalarValue::Utf8(Some(value.into()))))
        })
    };
    context.register_udf(create_udf("version", vec![], DataType::Utf8, Volatility::Immutable, text(VERSION)));
}
