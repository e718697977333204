//! Aggregates of users: the function that makes a state of the values that `array_agg` has gathered. A call of an aggregate
//! is expanded to it before planning ([`sql::routines::fold`]).

use super::context::Context;
use super::types;
use base::element::Element;
use base::error::SqlResult;
use base::{DataType, Datum, SqlError};
use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::datatypes::{DataType as Arrow, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use sql::routines::fold::{Fold, aggregate_of};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The function of a name, if it is that of an aggregate.
pub(super) fn function(context: &Context<'_>, name: &str) -> Option<Arc<ScalarUDF>> {
    let routine = aggregate_of(context.catalog, name)?;
    let aggregate = routine.aggregate()?;
    let fold = Fold::of(context.catalog, context.search_path, context.database, &routine);
    let signature = Signature::any(routine.parameters.len().max(1), Volatility::Immutable);
    let state = aggregate.state.data_type;
    Some(Arc::new(ScalarUDF::new_from_impl(Folding { name: name.into(), signature, state, fold })))
}

#[derive(Debug)]
struct Folding {
    name: String,
    signature: Signature,
    state: DataType,
    /// What is wrong with the transition is told where the function is used.
    fold: SqlResult<Fold>,
}

impl PartialEq for Folding {
    fn eq(&self, other: &Folding) -> bool {
        self.name == other.name && matches!((&self.fold, &other.fold), (Ok(a), Ok(b)) if a == b)
    }
}
impl Eq for Folding {}
impl Hash for Folding {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

fn external(error: SqlError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

impl ScalarUDFImpl for Folding {
    fn name(&self) -> &str {
        &self.name
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        super::fields::call_name(&self.name, arguments)
    }
    fn return_type(&self, _: &[Arrow]) -> Result<Arrow> {
        Ok(colstore::arrow_type(self.state))
    }
    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.fold.as_ref().map_err(|error| external(error.clone()))?;
        Ok(Arc::new(types::noted_field(&self.name, self.state)))
    }
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let fold = self.fold.as_ref().map_err(|error| external(error.clone()))?;
        let is_scalar = arguments.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let lists = ColumnarValue::values_to_arrays(&arguments.args)?;
        let states = states(fold, &lists).map_err(external)?.into_iter();
        let states = states.map(|state| self.state.coerce(state)).collect::<SqlResult<Vec<_>>>();
        let states = states.map_err(external)?;
        let made = colstore::array_of(self.state, &states);
        Ok(match is_scalar {
            false => ColumnarValue::Array(made),
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?),
        })
    }
}

/// The state of each list of values, of which there is one for each argument; of NULL, which is what is gathered of no rows,
/// the first one.
fn states(fold: &Fold, lists: &[ArrayRef]) -> SqlResult<Vec<Datum>> {
    // Of an aggregate without arguments a number was gathered for each row.
    let types = if fold.arguments.is_empty() { &[DataType::BigInt][..] } else { fold.arguments.as_slice() };
    let mut gathered = Vec::with_capacity(lists.len());
    for (lists, of) in lists.iter().zip(types) {
        let element =
            Element::of(*of).ok_or_else(|| SqlError::internal("an aggregate over values without arrays"))?;
        gathered.push(match lists.data_type() {
            Arrow::Null => vec![Datum::Null; lists.len()],
            _ => types::datums(lists.as_ref(), DataType::Array(element))?,
        });
    }
    let count = lists.first().map_or(0, |lists| lists.len());
    let values = |list: &Vec<Datum>, nth: usize| match &list[nth] {
        Datum::Array(values) => values.clone(),
        _ => Vec::new().into(),
    };
    let state = |nth: usize| {
        let values: Vec<Arc<[Datum]>> = gathered.iter().map(|list| values(list, nth)).collect();
        fold.run(&values.iter().map(AsRef::as_ref).collect::<Vec<&[Datum]>>())
    };
    (0..count).map(state).collect()
}
