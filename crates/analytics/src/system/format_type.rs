//! `format_type`: the catalog library's, but for arrays, whose elements it shows without their limits, and for types
//! that users made.

use crate::context::OwnedContext;
use datafusion::arrow::array::{AsArray, Int64Array, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature};
use datafusion_pg_catalog::pg_catalog::format_type::create_format_type_udf;
use sql::types::element_oid;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The function for a planner.
pub(super) fn function(asked: OwnedContext) -> ScalarUDF {
    ScalarUDF::new_from_impl(FormatType { library: create_format_type_udf(), asked })
}

/// Types that the library does not know, by their object ids.
const UNKNOWN: [(i64, &str); 7] = [
    (650, "cidr"),
    (774, "macaddr8"),
    (829, "macaddr"),
    (869, "inet"),
    (3614, "tsvector"),
    (3615, "tsquery"),
    (3734, "regconfig"),
];

struct FormatType {
    library: ScalarUDF,
    asked: OwnedContext,
}

impl fmt::Debug for FormatType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
impl PartialEq for FormatType {
    fn eq(&self, other: &FormatType) -> bool {
        Arc::ptr_eq(&self.asked.catalog, &other.asked.catalog)
    }
}
impl Eq for FormatType {}
impl Hash for FormatType {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.library.hash(state);
    }
}

impl ScalarUDFImpl for FormatType {
    fn name(&self) -> &str {
        "format_type"
    }
    fn signature(&self) -> &Signature {
        self.library.signature()
    }
    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }
    fn invoke_with_args(&self, mut arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments.number_rows;
        let oids = cast(&arguments.args[0].to_array(rows)?, &DataType::Int64)?;
        let oids = oids.as_primitive::<Int64Type>();
        let element = |oid: Option<i64>| oid.and_then(|oid| u32::try_from(oid).ok()).and_then(element_oid);
        let elements: Vec<Option<i64>> =
            oids.iter().map(|oid| element(oid).map_or(oid, |of| Some(i64::from(of)))).collect();
        let elements = Int64Array::from(elements);
        arguments.args[0] = ColumnarValue::Array(cast(&elements, arguments.arg_fields[0].data_type())?);
        let shown = self.library.inner().invoke_with_args(arguments)?.to_array(rows)?;
        let shown = shown.as_string::<i32>().iter().zip(oids).map(|(text, oid)| {
            let number = element(oid).map_or(oid, |of| Some(of.into()));
            let own = number.and_then(|oid| {
                let context = self.asked.context();
                let domain = super::domains::domain_of(&context, oid);
                domain.map_or_else(
                    || super::user_types::shown(&context, oid),
                    |domain| Some(super::domains::shown(&context, domain)),
                )
            });
            let unknown = UNKNOWN.iter().find(|(oid, _)| number == Some(*oid));
            let own = own.or_else(|| unknown.map(|(_, name)| (*name).to_string()));
            let text = own.or_else(|| text.map(str::to_string))?;
            Some(if element(oid).is_some() { format!("{text}[]") } else { text })
        });
        Ok(ColumnarValue::Array(Arc::new(shown.collect::<StringArray>())))
    }
}
