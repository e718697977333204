//! Variances and standard deviations of floating-point numbers.
//!
//! The sums of the numbers and of the squares of their distances from the mean are carried along (Youngs and Cramer, 1971):
//! whole numbers that are close together have the variance that they have on paper, and a number that is infinite or
//! none makes the variance none.

use base::{SqlError, SqlState};
use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::functions_aggregate::stddev::{stddev_pop_udaf, stddev_udaf};
use datafusion::functions_aggregate::variance::{var_pop_udaf, var_samp_udaf};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature};
use std::sync::Arc;

/// The functions for a planner, in the place of its own.
pub(super) fn functions() -> [AggregateUDF; 4] {
    let of = |planners: Arc<AggregateUDF>, is_of_sample, is_root| {
        AggregateUDF::new_from_impl(Spread { planners, is_of_sample, is_root })
    };
    [
        of(var_samp_udaf(), true, false),
        of(var_pop_udaf(), false, false),
        of(stddev_udaf(), true, true),
        of(stddev_pop_udaf(), false, true),
    ]
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Spread {
    /// The planner's function of the name, which has DISTINCT.
    planners: Arc<AggregateUDF>,
    is_of_sample: bool,
    is_root: bool,
}

impl AggregateUDFImpl for Spread {
    fn name(&self) -> &str {
        self.planners.name()
    }
    fn aliases(&self) -> &[String] {
        self.planners.aliases()
    }
    fn signature(&self) -> &Signature {
        self.planners.signature()
    }
    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }
    fn state_fields(&self, arguments: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        if arguments.is_distinct {
            return self.planners.state_fields(arguments);
        }
        let field = |part: &str| -> FieldRef {
            Arc::new(Field::new(format!("{}[{part}]", arguments.name), DataType::Float64, true))
        };
        Ok(["count", "sum", "squares"].map(field).into())
    }
    fn accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match arguments.is_distinct {
            true => self.planners.accumulator(arguments),
            false => Ok(Box::new(Seen {
                is_of_sample: self.is_of_sample,
                is_root: self.is_root,
                count: 0.0,
                sum: 0.0,
                squares: 0.0,
            })),
        }
    }
}

#[derive(Debug)]
struct Seen {
    is_of_sample: bool,
    is_root: bool,
    count: f64,
    sum: f64,
    /// Of the distances from the mean.
    squares: f64,
}

impl Seen {
    /// Errors: 22003.
    fn add(&mut self, value: f64) -> Result<()> {
        let before = self.count;
        let earlier_sum = self.sum;
        self.count += 1.0;
        self.sum += value;
        if before == 0.0 {
            if !value.is_finite() {
                self.squares = f64::NAN;
            }
            return Ok(());
        }
        let distance = value * self.count - self.sum;
        self.squares += distance * distance / (self.count * before);
        if self.sum.is_infinite() || self.squares.is_infinite() {
            if earlier_sum.is_finite() && value.is_finite() {
                return Err(overflow());
            }
            self.squares = f64::NAN;
        }
        Ok(())
    }

    /// Errors: 22003.
    fn add_other(&mut self, count: f64, sum: f64, squares: f64) -> Result<()> {
        if count == 0.0 {
            return Ok(());
        }
        if self.count == 0.0 {
            (self.count, self.sum, self.squares) = (count, sum, squares);
            return Ok(());
        }
        let distance = self.sum / self.count - sum / count;
        let both = self.count + count;
        let made = self.squares + squares + self.count * count * distance * distance / both;
        let is_finite = [self.sum, sum, self.squares, squares].iter().all(|part| part.is_finite());
        if is_finite && (made.is_infinite() || (self.sum + sum).is_infinite()) {
            return Err(overflow());
        }
        (self.count, self.sum, self.squares) = (both, self.sum + sum, made);
        Ok(())
    }
}

impl Accumulator for Seen {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = cast(&values[0], &DataType::Float64)?;
        values.as_primitive::<Float64Type>().iter().flatten().try_for_each(|value| self.add(value))
    }
    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [counts, sums, squares] = [0, 1, 2].map(|n: usize| states[n].as_primitive::<Float64Type>());
        (0..counts.len()).try_for_each(|n| self.add_other(counts.value(n), sums.value(n), squares.value(n)))
    }
    fn evaluate(&mut self) -> Result<ScalarValue> {
        let least = if self.is_of_sample { 1.0 } else { 0.0 };
        if self.count <= least {
            return Ok(ScalarValue::Float64(None));
        }
        let variance = self.squares / (self.count - least);
        Ok(ScalarValue::Float64(Some(if self.is_root { variance.sqrt() } else { variance })))
    }
    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok([self.count, self.sum, self.squares].map(|part| ScalarValue::Float64(Some(part))).into())
    }
    fn size(&self) -> usize {
        size_of_val(self)
    }
}

fn overflow() -> DataFusionError {
    let error = SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: overflow");
    DataFusionError::External(Box::new(error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::Float64Array;

    fn seen(values: &[f64]) -> Seen {
        let mut seen = Seen { is_of_sample: false, is_root: false, count: 0.0, sum: 0.0, squares: 0.0 };
        seen.update_batch(&[Arc::new(Float64Array::from(values.to_vec()))]).unwrap();
        seen
    }

    #[test]
    fn parts_of_a_group_have_the_variance_of_the_whole() {
        let values = [100_000_003.0, 100_000_004.0, 100_000_006.0, 100_000_007.0];
        assert_eq!(seen(&values).evaluate().unwrap(), ScalarValue::Float64(Some(2.5)));
        let mut left = seen(&values[..1]);
        let state = seen(&values[1..]).state().unwrap();
        let state: Vec<ArrayRef> = state.iter().map(|part| part.to_array().unwrap()).collect();
        left.merge_batch(&state).unwrap();
        let ScalarValue::Float64(Some(variance)) = left.evaluate().unwrap() else { panic!() };
        assert!((variance - 2.5).abs() < 1e-6, "{variance}");
    }

    #[test]
    fn a_number_that_is_infinite_makes_it_none() {
        for values in [&[f64::INFINITY][..], &[f64::NAN], &[1.0, f64::INFINITY], &[f64::INFINITY, 1.0]] {
            let ScalarValue::Float64(Some(variance)) = seen(values).evaluate().unwrap() else { panic!() };
            assert!(variance.is_nan(), "{values:?}");
        }
        assert!(seen(&[1e200]).add(-1e200).is_err());
    }
}
