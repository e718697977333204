//! Arrays of several dimensions in binary form: lists of lists, which are rectangular or refused.

use crate::cells::{Cells, Put};
use crate::form::{Form, array_header};
use crate::rows::sized;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, GenericListArray, OffsetSizeTrait};
use arrow_schema::DataType as Arrow;
use base::error::SqlResult;
use base::{SqlError, SqlState};
use bytes::BufMut;

/// One dimension below the outermost one: the range of each list among what it is made of; `None` where there is no list.
type Ranges = Vec<Option<(usize, usize)>>;

/// Writes lists of lists. `range`: which of the lists in `outer` each row holds; `form`: of what is in the innermost ones.
pub(crate) fn of_several(
    outer: ArrayRef,
    oid: u32,
    form: Form,
    range: impl Fn(usize) -> (usize, usize) + Send + 'static,
) -> SqlResult<Put> {
    let mut levels = Vec::new();
    let mut innermost = outer;
    while let Some((ranges, below)) = taken_apart(&innermost) {
        levels.push(ranges);
        innermost = below;
    }
    let cells = Cells::new(&innermost, form)?;
    Ok(Box::new(move |out, row| {
        let (mut from, mut to) = range(row);
        let mut lengths = vec![to - from];
        for ranges in &levels {
            (from, to) = rectangle(&ranges[from..to], &mut lengths)?;
        }
        array_header(out, &lengths, (from..to).any(|at| cells.is_null(at)), oid);
        for at in from..to {
            match cells.is_null(at) {
                true => out.put_i32(-1),
                false => sized(out, |out| cells.put(out, at))?,
            }
        }
        Ok(())
    }))
}

/// What lists of one length hold together; their length is noted. Errors: 2202E if they differ.
fn rectangle(lists: &[Option<(usize, usize)>], lengths: &mut Vec<usize>) -> SqlResult<(usize, usize)> {
    let uneven = || {
        let told = "multidimensional arrays must have sub-arrays with matching dimensions";
        SqlError::new(SqlState(*b"2202E"), told)
    };
    let Some(first) = lists.first() else {
        lengths.push(0);
        return Ok((0, 0));
    };
    let (start, mut end) = first.ok_or_else(uneven)?;
    let length = end - start;
    for list in &lists[1..] {
        let (from, to) = list.ok_or_else(uneven)?;
        if from != end || to - from != length {
            return Err(uneven());
        }
        end = to;
    }
    lengths.push(length);
    Ok((start, end))
}

/// The lists of an array, and what they are made of; `None` if it has no lists.
fn taken_apart(array: &ArrayRef) -> Option<(Ranges, ArrayRef)> {
    match array.data_type() {
        Arrow::List(_) => Some(of_list(array.as_list::<i32>())),
        Arrow::LargeList(_) => Some(of_list(array.as_list::<i64>())),
        Arrow::FixedSizeList(_, length) => {
            let (lists, length) = (array.as_fixed_size_list(), *length as usize);
            let range = |row| lists.is_valid(row).then_some((row * length, (row + 1) * length));
            Some(((0..lists.len()).map(range).collect(), lists.values().clone()))
        }
        _ => None,
    }
}

/// A part of a batch shares the values of the whole batch: only its own are taken.
fn of_list<O: OffsetSizeTrait>(lists: &GenericListArray<O>) -> (Ranges, ArrayRef) {
    let ends = lists.value_offsets();
    let (first, last) = (ends[0].as_usize(), ends[lists.len()].as_usize());
    let end = |at: usize| ends[at].as_usize() - first;
    let range = |row| lists.is_valid(row).then(|| (end(row), end(row + 1)));
    ((0..lists.len()).map(range).collect(), lists.values().slice(first, last - first))
}
