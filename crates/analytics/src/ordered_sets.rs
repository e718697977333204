//! `percentile_disc` and `mode`: functions of all values of a group in their order.
//!
//! `percentile_disc(f) WITHIN GROUP (ORDER BY x)` is written as a function of the fraction and of a list, which `array_agg` makes
//! of the values that are not null. KEEPS: the list is in the order that was asked for, so the first of several is the one that
//! PostgreSQL takes.

use super::fields::call_name;
use base::{SqlError, SqlState};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float64Array, UInt64Array};
use datafusion::arrow::compute::kernels::cmp::not_distinct;
use datafusion::arrow::compute::{cast, take};
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::sql::sqlparser::ast;

pub(super) const PERCENTILE: &str = "meridian_percentile_disc";
pub(super) const MODE: &str = "meridian_mode";

/// The functions for a planner.
pub(super) fn functions() -> [ScalarUDF; 2] {
    let of = |name, count| {
        ScalarUDF::new_from_impl(OfList { name, signature: Signature::any(count, Volatility::Immutable) })
    };
    [of(PERCENTILE, 2), of(MODE, 1)]
}

/// The call over a list; `None` if it is none of these functions.
pub(super) fn over_list(call: &ast::Function, name: &str, arguments: &[&ast::Expr]) -> Option<ast::Expr> {
    let [order] = call.within_group.as_slice() else { return None };
    let (name, last) = match (name, arguments) {
        ("percentile_disc", [fraction]) => (PERCENTILE, format!(", {fraction}")),
        ("mode", []) => (MODE, String::new()),
        _ => return None,
    };
    let of = &order.expr;
    let filter = call.filter.as_ref().map_or_else(String::new, |filter| format!(" AND ({filter})"));
    let list = format!("array_agg({of} ORDER BY {order}) FILTER (WHERE ({of}) IS NOT NULL{filter})");
    sql::parse::parse_expr(&format!("{name}({list}{last})")).ok()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfList {
    name: &'static str,
    signature: Signature,
}

impl ScalarUDFImpl for OfList {
    fn name(&self) -> &str {
        self.name
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        call_name(self.name, arguments)
    }
    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match &types[0] {
            DataType::List(field) => Ok(field.data_type().clone()),
            other => Ok(other.clone()),
        }
    }
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = arguments.args.iter().all(|a| matches!(a, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { arguments.number_rows };
        let lists = arguments.args[0].to_array(rows)?;
        let Some(lists) = lists.as_list_opt::<i32>() else { return Ok(arguments.args[0].clone()) };
        let fractions = match arguments.args.get(1) {
            Some(fraction) => Some(cast(&fraction.to_array(rows)?, &DataType::Float64)?),
            None => None,
        };
        let fractions: Option<&Float64Array> = fractions.as_ref().map(|f| f.as_primitive::<Float64Type>());
        let mut places = Vec::with_capacity(rows);
        for row in 0..rows {
            let length = if lists.is_valid(row) { lists.value_length(row) as usize } else { 0 };
            let within = match fractions {
                Some(fractions) if fractions.is_null(row) => None,
                Some(fractions) => place(fractions.value(row), length)?,
                None if length == 0 => None,
                None => Some(most_frequent(&lists.value(row))?),
            };
            places.push(within.map(|n| lists.value_offsets()[row] as u64 + n as u64));
        }
        let made: ArrayRef = take(lists.values(), &UInt64Array::from(places), None)?;
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?),
            false => ColumnarValue::Array(made),
        })
    }
}

/// Where in a list the first value is that so much of the list is not behind. Errors: 22003 for what is no part of a whole.
fn place(fraction: f64, length: usize) -> Result<Option<usize>> {
    if !(0.0..=1.0).contains(&fraction) {
        let told = format!("percentile value {fraction} is not between 0 and 1");
        let error = SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, told);
        return Err(DataFusionError::External(Box::new(error)));
    }
    let nth = (fraction * length as f64).ceil() as usize;
    Ok((length > 0).then(|| nth.clamp(1, length) - 1))
}

/// Where the first of the values begins that are there most often; equal ones stand together.
fn most_frequent(values: &ArrayRef) -> Result<usize> {
    let count = values.len();
    if count < 2 {
        return Ok(0);
    }
    let same = not_distinct(&values.slice(0, count - 1), &values.slice(1, count - 1))?;
    let (mut best, mut best_length, mut begin) = (0, 0, 0);
    for at in 1..=count {
        if at == count || !same.value(at - 1) {
            if at - begin > best_length {
                (best, best_length) = (begin, at - begin);
            }
            begin = at;
        }
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::Int64Array;

    #[test]
    fn a_percentile_is_one_of_the_values() {
        for (fraction, length, wanted) in
            [(0.0, 4, Some(0)), (0.5, 4, Some(1)), (0.51, 4, Some(2)), (1.0, 4, Some(3)), (0.5, 0, None)]
        {
            assert_eq!(place(fraction, length).unwrap(), wanted, "{fraction} of {length}");
        }
        assert!(place(1.5, 1).is_err() && place(f64::NAN, 1).is_err());
    }

    #[test]
    fn the_mode_is_the_first_of_the_most_frequent() {
        for (values, wanted) in
            [(vec![1], 0), (vec![1, 2, 2, 3, 3], 1), (vec![1, 2, 3, 3], 2), (vec![5, 5], 0)]
        {
            let array: ArrayRef = std::sync::Arc::new(Int64Array::from(values.clone()));
            assert_eq!(most_frequent(&array).unwrap(), wanted, "{values:?}");
        }
    }
}
