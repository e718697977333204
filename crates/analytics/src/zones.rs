//! `AT TIME ZONE 'UTC'`: a moment as the time of day there, and back. Other zones are refused before planning.

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// The function of a moment at UTC.
pub(super) const AT_UTC: &str = "meridian_at_utc";

/// The function for a planner.
pub(super) fn function() -> ScalarUDF {
    ScalarUDF::new_from_impl(AtUtc { signature: Signature::any(1, Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct AtUtc {
    signature: Signature,
}

impl ScalarUDFImpl for AtUtc {
    fn name(&self) -> &str {
        AT_UTC
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        // A moment without a zone is one of UTC; anything else is one with a zone first.
        Ok(match &types[0] {
            DataType::Timestamp(_, None) => colstore::arrow_type(base::DataType::TimestampTz),
            _ => DataType::Timestamp(TimeUnit::Microsecond, None),
        })
    }
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        arguments.args[0].cast_to(arguments.return_field.data_type(), None)
    }
}
