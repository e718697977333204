//! `avg` as a planner takes it: of intervals too, and of whole numbers as the `numeric` that it is in PostgreSQL.
//!
//! The types of what is written around a call follow from its own. What computes it is put in its place by
//! [`super::exact_aggregates`], but for intervals.

use super::scalars::{arrow_span, quotient_digits, span};
use base::SqlError;
use base::interval::Interval;
use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{
    DataType, Field, FieldRef, Int64Type, IntervalMonthDayNanoType, IntervalUnit,
};
use datafusion::common::{Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};
use std::sync::Arc;

const SPAN: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// Digits behind the point of an average of whole numbers.
pub(super) const DIGITS: u8 = 16;

/// The function for a planner.
pub(super) fn function() -> AggregateUDF {
    AggregateUDF::new_from_impl(Average { signature: Signature::any(1, Volatility::Immutable) })
}

/// Whether an aggregate is this one.
pub(super) fn is_this(function: &AggregateUDF) -> bool {
    function.inner().downcast_ref::<Average>().is_some()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Average {
    signature: Signature,
}

impl AggregateUDFImpl for Average {
    fn name(&self) -> &str {
        "avg"
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [DataType::Interval(_)] => Ok(SPAN),
            [DataType::Decimal128(_, scale)] => Ok(DataType::Decimal128(38, quotient_digits(*scale))),
            [whole] if whole.is_integer() => Ok(DataType::Decimal128(38, DIGITS as i8)),
            _ => Ok(DataType::Float64),
        }
    }
    fn state_fields(&self, arguments: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let field = |name: &str, data_type| -> FieldRef {
            Arc::new(Field::new(format!("{}[{name}]", arguments.name), data_type, true))
        };
        Ok(vec![field("sum", SPAN), field("count", DataType::Int64)])
    }
    fn accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Sum::default()))
    }
}

#[derive(Debug, Default)]
struct Sum {
    sum: Interval,
    count: i64,
}

impl Sum {
    /// Errors: 22008.
    fn take(&mut self, values: &ArrayRef, counts: impl Fn(usize) -> i64) -> Result<()> {
        let values = values.as_primitive::<IntervalMonthDayNanoType>();
        for at in (0..values.len()).filter(|at| values.is_valid(*at)) {
            self.sum = self.sum.checked_add(span(values.value(at))).map_err(external)?;
            self.count += counts(at);
        }
        Ok(())
    }
}

impl Accumulator for Sum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.take(&values[0], |_| 1)
    }
    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let counts = states[1].as_primitive::<Int64Type>();
        self.take(&states[0], |at| counts.value(at))
    }
    /// Frames that move on are summed by what enters and what leaves.
    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = values[0].as_primitive::<IntervalMonthDayNanoType>();
        for value in values.iter().flatten() {
            self.sum = self.sum.checked_sub(span(value)).map_err(external)?;
            self.count -= 1;
        }
        Ok(())
    }
    fn supports_retract_batch(&self) -> bool {
        true
    }
    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.count == 0 {
            return Ok(ScalarValue::IntervalMonthDayNano(None));
        }
        let average = self.sum.checked_div(self.count as f64).and_then(arrow_span).map_err(external)?;
        Ok(ScalarValue::IntervalMonthDayNano(Some(average)))
    }
    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let sum = arrow_span(self.sum).map_err(external)?;
        Ok(vec![ScalarValue::IntervalMonthDayNano(Some(sum)), ScalarValue::Int64(Some(self.count))])
    }
    fn size(&self) -> usize {
        size_of_val(self)
    }
}

fn external(error: SqlError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
