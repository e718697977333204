//! `enum_first`, `enum_last` and `enum_range`: labels of an enumerated type, which its description tells. What they are called
//! with says the type, and is a constant: [`super::scalars`] puts the labels in the place of the call.

use super::fields::call_name;
use super::types;
use base::{SqlError, SqlState};
use datafusion::arrow::datatypes::DataType as Arrow;
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::execution::context::SessionContext;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};

/// The functions' names.
pub(super) const FUNCTIONS: [&str; 3] = ["enum_first", "enum_last", "enum_range"];

/// Makes the functions known.
pub(super) fn install(context: &SessionContext) {
    for name in FUNCTIONS {
        let counts = match name {
            "enum_range" => vec![TypeSignature::Any(1), TypeSignature::Any(2)],
            _ => vec![TypeSignature::Any(1)],
        };
        let signature = Signature::one_of(counts, Volatility::Immutable);
        context.register_udf(ScalarUDF::new_from_impl(OfLabels { name, signature }));
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfLabels {
    name: &'static str,
    signature: Signature,
}

impl ScalarUDFImpl for OfLabels {
    fn name(&self) -> &str {
        self.name
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        call_name(self.name, arguments)
    }
    fn return_type(&self, arguments: &[Arrow]) -> Result<Arrow> {
        let label = arguments.iter().find(|of| types::is_label(of)).ok_or_else(|| {
            let shown = |of: &Arrow| match of {
                Arrow::Null => "unknown".to_string(),
                of => sql::lower::expr::type_name(types::from_arrow(of)),
            };
            let shown: Vec<String> = arguments.iter().map(shown).collect();
            let told = format!("function {}({}) does not exist", self.name, shown.join(", "));
            let error = SqlError::new(SqlState::UNDEFINED_FUNCTION, told);
            DataFusionError::External(Box::new(error.hint("Cast the argument to an enumerated type.")))
        })?;
        Ok(if self.name == "enum_range" { Arrow::new_list(label.clone(), true) } else { label.clone() })
    }
    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let refused = SqlError::unsupported(format!("{} beside system catalogs", self.name));
        Err(DataFusionError::External(Box::new(refused)))
    }
}
