//! Functions of arrays that the library does not have, or has otherwise: `trim_array`, `array_ndims`, `array_dims`.

use super::small_functions::no_such;
use base::{SqlError, SqlState};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Int32Array, ListArray, MutableArrayData, StringArray, make_array,
    new_null_array,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::execution::context::SessionContext;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// Makes the functions known.
pub(super) fn install(context: &SessionContext) {
    for (name, count, of) in
        [("trim_array", 2, Of::Trimmed), ("array_ndims", 1, Of::Dimensions), ("array_dims", 1, Of::Shape)]
    {
        let signature = Signature::any(count, Volatility::Immutable);
        context.register_udf(ScalarUDF::new_from_impl(ArrayFunction { name, of, signature }));
    }
}

/// What is computed of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Of {
    /// The array without so many elements at its end.
    Trimmed,
    /// How many dimensions it has.
    Dimensions,
    /// The bounds of its dimensions, as a text.
    Shape,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ArrayFunction {
    name: &'static str,
    of: Of,
    signature: Signature,
}

impl ScalarUDFImpl for ArrayFunction {
    fn name(&self) -> &str {
        self.name
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match (self.of, &types[0]) {
            (_, other) if !matches!(other, DataType::List(_) | DataType::Null) => Err(self.refused()),
            (Of::Trimmed, list) => Ok(list.clone()),
            (Of::Dimensions, _) => Ok(DataType::Int32),
            (Of::Shape, _) => Ok(DataType::Utf8),
        }
    }
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = arguments.args.iter().all(|a| matches!(a, ColumnarValue::Scalar(_)));
        let arrays = ColumnarValue::values_to_arrays(&arguments.args)?;
        let made: ArrayRef = match (arrays[0].as_list_opt::<i32>(), self.of) {
            (None, _) => new_null_array(arguments.return_field.data_type(), arrays[0].len()),
            (Some(lists), Of::Trimmed) => Arc::new(trimmed(lists, &arrays[1])?),
            (Some(lists), Of::Dimensions) => {
                let counts = (0..lists.len()).map(|row| shape(lists, row).map(|shape| shape.len() as i32));
                Arc::new(counts.collect::<Int32Array>())
            }
            (Some(lists), Of::Shape) => {
                let shown = |shape: Vec<usize>| shape.iter().map(|n| format!("[1:{n}]")).collect::<String>();
                Arc::new((0..lists.len()).map(|row| shape(lists, row).map(shown)).collect::<StringArray>())
            }
        };
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?),
            false => ColumnarValue::Array(made),
        })
    }
}

impl ArrayFunction {
    fn refused(&self) -> DataFusionError {
        DataFusionError::External(Box::new(no_such(&format!("function {}", self.name))))
    }
}

/// Errors: 2202E for more elements than there are, and for less than none.
fn trimmed(lists: &ListArray, counts: &ArrayRef) -> Result<ListArray> {
    let counts = cast(counts, &DataType::Int64)?;
    let counts = counts.as_primitive::<Int64Type>();
    let values = lists.values().to_data();
    let mut kept = MutableArrayData::new(vec![&values], false, values.len());
    let (mut lengths, mut valid) = (Vec::with_capacity(lists.len()), Vec::with_capacity(lists.len()));
    for row in 0..lists.len() {
        let is_there = lists.is_valid(row) && counts.is_valid(row);
        valid.push(is_there);
        if !is_there {
            lengths.push(0);
            continue;
        }
        let (begin, length) = (lists.value_offsets()[row] as usize, lists.value_length(row) as usize);
        let count = usize::try_from(counts.value(row)).ok().filter(|count| *count <= length);
        let rest = length - count.ok_or_else(|| beyond(length))?;
        kept.try_extend(0, begin, begin + rest)?;
        lengths.push(rest);
    }
    let field = match lists.data_type() {
        DataType::List(field) => field.clone(),
        other => unreachable!("{other} is no list"),
    };
    let offsets = OffsetBuffer::from_lengths(lengths);
    Ok(ListArray::try_new(field, offsets, make_array(kept.freeze()), Some(NullBuffer::from(valid)))?)
}

fn beyond(length: usize) -> DataFusionError {
    let told = format!("number of elements to trim must be between 0 and {length}");
    DataFusionError::External(Box::new(SqlError::new(SqlState(*b"2202E"), told)))
}

/// Elements in each dimension of a row's array; `None` for NULL, and for an array without elements, which has no dimension.
fn shape(lists: &ListArray, row: usize) -> Option<Vec<usize>> {
    let mut elements = lists.is_valid(row).then(|| lists.value(row))?;
    let mut shape = Vec::new();
    loop {
        if elements.is_empty() {
            return None;
        }
        shape.push(elements.len());
        let inner =
            elements.as_list_opt::<i32>().filter(|lists| lists.is_valid(0)).map(|lists| lists.value(0));
        match inner {
            Some(inner) => elements = inner,
            None => return Some(shape),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::Int64Array;
    use datafusion::arrow::datatypes::Int32Type;

    fn lists() -> ListArray {
        let of = |values: &[i32]| Some(values.iter().copied().map(Some).collect::<Vec<_>>());
        ListArray::from_iter_primitive::<Int32Type, _, _>([of(&[1, 2, 3]), None, of(&[]), of(&[4])])
    }

    #[test]
    fn arrays_lose_elements_at_their_end() {
        let counts: ArrayRef = Arc::new(Int64Array::from(vec![Some(2), Some(1), Some(0), None]));
        let made = trimmed(&lists(), &counts).unwrap();
        assert_eq!(made.value(0).as_primitive::<Int32Type>().values().to_vec(), [1]);
        assert!(made.is_null(1) && made.value(2).is_empty() && made.is_null(3));
        for wrong in [4, -1] {
            let counts: ArrayRef = Arc::new(Int64Array::from(vec![wrong; 4]));
            assert!(trimmed(&lists(), &counts).is_err());
        }
    }

    #[test]
    fn an_array_without_elements_has_no_dimension() {
        let shapes: Vec<_> = (0..4).map(|row| shape(&lists(), row)).collect();
        assert_eq!(shapes, [Some(vec![3]), None, None, Some(vec![1])]);
    }
}
