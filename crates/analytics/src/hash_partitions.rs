//! Which rows a hash partition takes in, over columns: what [`base::partitioning::hash`] computes of keys, one row at a time.

use super::fields::call_name;
use super::types;
use base::error::SqlResult;
use base::expr::{Expr as Scalar, Function};
use base::partitioning::hash;
use base::{DataType, Datum, SqlError};
use datafusion::arrow::datatypes::DataType as Arrow;
use datafusion::common::{Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::execution::context::SessionContext;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// Makes the function known.
pub(super) fn install(context: &SessionContext) {
    let signature = Signature::variadic_any(Volatility::Immutable);
    context.register_udf(ScalarUDF::new_from_impl(InHashPartition { signature }));
}

/// `(modulus, remainder, key, …)`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct InHashPartition {
    signature: Signature,
}

fn external(error: SqlError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

impl ScalarUDFImpl for InHashPartition {
    fn name(&self) -> &str {
        hash::FUNCTION
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        call_name(hash::FUNCTION, arguments)
    }
    fn return_type(&self, _: &[Arrow]) -> Result<Arrow> {
        Ok(Arrow::Boolean)
    }
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = arguments.args.iter().all(|a| matches!(a, ColumnarValue::Scalar(_)));
        let count = if is_constant { 1 } else { arguments.number_rows };
        let columns = arguments.args.iter().zip(&arguments.arg_fields).map(|(argument, field)| {
            // A constant has one value for all rows.
            let (array, is_one) = match argument {
                ColumnarValue::Array(array) => (array.clone(), false),
                ColumnarValue::Scalar(scalar) => (scalar.to_array()?, true),
            };
            Ok((types::datums(array.as_ref(), types::shown_type(field)).map_err(external)?, is_one))
        });
        let columns = columns.collect::<Result<Vec<(Vec<Datum>, bool)>>>()?;
        let taken = Scalar::Call(Function::HashPartition, (0..columns.len()).map(Scalar::Column).collect());
        let values = (0..count).map(|row| {
            taken.eval_with(&|column| {
                let (values, is_one) = &columns[column];
                Ok(values[if *is_one { 0 } else { row }].clone())
            })
        });
        let values = values.collect::<SqlResult<Vec<Datum>>>().map_err(external)?;
        let made = colstore::array_of(DataType::Boolean, &values);
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?),
            false => ColumnarValue::Array(made),
        })
    }
}
