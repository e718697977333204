//! `AT TIME ZONE`: a moment as a clock there shows it, and back. That of UTC is a cast; others become calls of what rows
//! are computed with once their types are known.

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// The function of a moment at UTC.
pub(super) const AT_UTC: &str = "meridian_at_utc";

/// The function of a zone and a moment.
pub(super) const AT_ZONE: &str = "timezone";

/// `date_trunc` of a unit and a moment in a zone.
pub(super) const TRUNCATED_AT_ZONE: &str = "meridian_date_trunc_at_zone";

/// The functions for a planner.
pub(super) fn functions() -> [ScalarUDF; 3] {
    let signature = |count| Signature::any(count, Volatility::Immutable);
    [
        ScalarUDF::new_from_impl(AtUtc { signature: signature(1) }),
        ScalarUDF::new_from_impl(AtZone { name: AT_ZONE, signature: signature(2) }),
        ScalarUDF::new_from_impl(AtZone { name: TRUNCATED_AT_ZONE, signature: signature(3) }),
    ]
}

/// A moment without a zone is one at the place, and a time of day keeps its offset; anything else is one with a zone first.
fn returned(at: &DataType) -> DataType {
    match at {
        DataType::Timestamp(_, None) => colstore::arrow_type(base::DataType::TimestampTz),
        DataType::Time64(_) => colstore::arrow_type(base::DataType::TimeTz),
        _ => DataType::Timestamp(TimeUnit::Microsecond, None),
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct AtUtc {
    signature: Signature,
}

/// Stands for a call until its types are settled.
#[derive(Debug, PartialEq, Eq, Hash)]
struct AtZone {
    name: &'static str,
    signature: Signature,
}

impl ScalarUDFImpl for AtZone {
    fn name(&self) -> &str {
        self.name
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(match self.name {
            AT_ZONE => returned(&types[1]),
            _ => colstore::arrow_type(base::DataType::TimestampTz),
        })
    }
    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let told = "a time zone over the system catalog";
        Err(DataFusionError::External(Box::new(base::SqlError::unsupported(told))))
    }
}

impl ScalarUDFImpl for AtUtc {
    fn name(&self) -> &str {
        AT_UTC
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(returned(&types[0]))
    }
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        arguments.args[0].cast_to(arguments.return_field.data_type(), None)
    }
}
