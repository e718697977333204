//! The aggregate of one row at most: what a subquery as a value is.

use base::{SqlError, SqlState};
use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};
use std::sync::Arc;

/// The function that takes one row at most.
pub(super) const ONLY: &str = "meridian_only";

/// The function for a planner.
pub(super) fn function() -> AggregateUDF {
    AggregateUDF::new_from_impl(Only { signature: Signature::any(1, Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Only {
    signature: Signature,
}

impl AggregateUDFImpl for Only {
    fn name(&self) -> &str {
        ONLY
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }
    fn state_fields(&self, arguments: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let name = arguments.name;
        Ok(vec![
            Arc::new(Field::new(format!("{name}[value]"), arguments.return_field.data_type().clone(), true)),
            Arc::new(Field::new(format!("{name}[rows]"), DataType::UInt64, true)),
        ])
    }
    fn accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let value = ScalarValue::try_from(arguments.return_field.data_type())?;
        Ok(Box::new(Row { value, rows: 0 }))
    }
}

/// The row seen, if there was one. Errors: 21000 at the second.
#[derive(Debug)]
struct Row {
    value: ScalarValue,
    rows: u64,
}

impl Row {
    fn take(&mut self, values: &ArrayRef, at: usize) -> Result<()> {
        self.rows += 1;
        if self.rows > 1 {
            return Err(DataFusionError::External(Box::new(SqlError::new(
                SqlState::CARDINALITY_VIOLATION,
                "more than one row returned by a subquery used as an expression",
            ))));
        }
        self.value = ScalarValue::try_from_array(values, at)?;
        Ok(())
    }
}

impl Accumulator for Row {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        (0..values[0].len()).try_for_each(|at| self.take(&values[0], at))
    }
    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for at in 0..states[0].len() {
            if ScalarValue::try_from_array(&states[1], at)? != ScalarValue::UInt64(Some(0)) {
                self.take(&states[0], at)?;
            }
        }
        Ok(())
    }
    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.value.clone())
    }
    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.value.clone(), ScalarValue::UInt64(Some(self.rows))])
    }
    fn size(&self) -> usize {
        size_of_val(self) + self.value.size() - size_of_val(&self.value)
    }
}
