//! GREATEST and LEAST, whose literals are of the type of what stands beside them.
//!
//! The planner's library has a common type of numbers and of texts, and none of a text and anything else. Literals become
//! values when types are settled, and intervals and JSON are compared by ours then (`scalars::ours`); all else the library
//! compares.

use super::coalesce::beside_literals;
use super::types;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Result;
use datafusion::functions::core::{greatest, least};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use std::sync::Arc;

/// The functions for a planner.
pub(super) fn functions() -> [ScalarUDF; 2] {
    [greatest(), least()].map(|inner| ScalarUDF::new_from_impl(Extreme { inner }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Extreme {
    inner: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for Extreme {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn signature(&self) -> &Signature {
        self.inner.signature()
    }
    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }
    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let note = types::common_note(args.arg_fields);
        Ok(types::with_note(self.inner.return_field_from_args(args)?, note))
    }
    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match beside_literals(types) {
            Some(one) => Ok(vec![one; types.len()]),
            None => self.inner.coerce_types(types),
        }
    }
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.inner.invoke_with_args(arguments)
    }
}
