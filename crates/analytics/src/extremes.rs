//! GREATEST, LEAST and NULLIF, whose literals are of the type of what stands beside them.
//!
//! The planner's library has a common type of numbers and of texts, and none of a text and anything else. Literals become
//! values when types are settled, and intervals and JSON are compared by ours then (`scalars::ours`); all else the library
//! compares.

use super::coalesce::{beside_literals, beside_texts, taken};
use super::types;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::Result;
use datafusion::functions::core::{greatest, least, nullif};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// The functions for a planner.
pub(super) fn functions() -> [ScalarUDF; 3] {
    let [greatest, least] = [greatest(), least()].map(|inner| ScalarUDF::new_from_impl(Extreme { inner }));
    let signature = Signature::user_defined(Volatility::Immutable);
    [greatest, least, ScalarUDF::new_from_impl(NullIf { inner: nullif(), signature })]
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
        let (fields, note) = (args.arg_fields, types::common_note(args.arg_fields));
        Ok(beside_texts(types::with_note(self.inner.return_field_from_args(args)?, note), fields))
    }
    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match taken(types) {
            Some(taken) => Ok(taken),
            None => self.inner.coerce_types(types),
        }
    }
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.inner.invoke_with_args(arguments)
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct NullIf {
    inner: Arc<ScalarUDF>,
    signature: Signature,
}

impl ScalarUDFImpl for NullIf {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match beside_literals(types) {
            Some(one) => Ok(one),
            None => self.inner.return_type(types),
        }
    }
    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        if types.len() == 2
            && let Some(taken) = taken(types)
        {
            return Ok(taken);
        }
        let fields: Vec<FieldRef> = types.iter().map(|t| Arc::new(Field::new("", t.clone(), true))).collect();
        let fields = fields_with_udf(&fields, self.inner.as_ref())?;
        Ok(fields.iter().map(|field| field.data_type().clone()).collect())
    }
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.inner.invoke_with_args(arguments)
    }
}
