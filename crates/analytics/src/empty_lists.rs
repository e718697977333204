//! A list without elements in the place of none: what `ARRAY(SELECT …)` of no rows is.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray, UInt64Array};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// The function of a list that is empty rather than NULL.
pub(super) const OR_EMPTY: &str = "meridian_or_empty";

/// The function for a planner.
pub(super) fn function() -> ScalarUDF {
    ScalarUDF::new_from_impl(OrEmpty { signature: Signature::any(1, Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OrEmpty {
    signature: Signature,
}

impl ScalarUDFImpl for OrEmpty {
    fn name(&self) -> &str {
        OR_EMPTY
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }
    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(args.arg_fields[0].clone())
    }
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = matches!(arguments.args[0], ColumnarValue::Scalar(_));
        let array = arguments.args[0].to_array(arguments.number_rows)?;
        let Some(lists) = array.as_list_opt::<i32>() else { return Ok(arguments.args[0].clone()) };
        let made: ArrayRef = Arc::new(without_nulls(lists)?);
        Ok(match is_constant && !made.is_empty() {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?),
            false => ColumnarValue::Array(made),
        })
    }
}

fn without_nulls(lists: &ListArray) -> Result<ListArray> {
    let DataType::List(field) = lists.data_type() else { return Ok(lists.clone()) };
    let offsets = lists.offsets();
    let valid = (0..lists.len()).filter(|row| lists.is_valid(*row));
    let elements = valid.flat_map(|row| offsets[row] as u64..offsets[row + 1] as u64);
    let values = take(lists.values(), &UInt64Array::from_iter_values(elements), None)?;
    let length = |row| if lists.is_valid(row) { lists.value_length(row) as usize } else { 0 };
    let offsets = OffsetBuffer::from_lengths((0..lists.len()).map(length));
    Ok(ListArray::try_new(field.clone(), offsets, values, None)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::datatypes::Int64Type;

    #[test]
    fn none_is_a_list_without_elements() {
        let lists = ListArray::from_iter_primitive::<Int64Type, _, _>([
            Some(vec![Some(1), None]),
            None,
            Some(vec![]),
            Some(vec![Some(2)]),
        ]);
        let made = without_nulls(&lists).unwrap();
        assert_eq!(made.null_count(), 0);
        let lengths: Vec<i32> = (0..4).map(|row| made.value_length(row)).collect();
        assert_eq!(lengths, [2, 0, 0, 1]);
        assert_eq!(made.values().as_primitive::<Int64Type>().value(2), 2);
    }
}
