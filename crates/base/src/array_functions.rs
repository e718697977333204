//! Functions of arrays that writes evaluate where they are ordered, with PostgreSQL's meaning.

use crate::Datum;
use crate::error::{SqlError, SqlResult, SqlState};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ArrayFunction {
    /// `array_append(array, element)`.
    Append,
    /// `array_prepend(element, array)`.
    Prepend,
    /// `array_cat(array, array)`.
    Join,
    /// `array_remove(array, element)`: NULL removes nulls.
    Remove,
    /// `array_replace(array, element, other)`: NULL is an element, too.
    Replace,
    /// `array_position(array, element)`: from 1, or NULL.
    Position,
    Cardinality,
    /// `array_length(array, dimension)`: NULL for an array without elements, and for dimensions but the first one.
    Length,
    /// `array_ndims(array)`: 1, or NULL for an array without elements.
    Dimensions,
    /// `trim_array(array, count)`: without so many elements at its end.
    Trim,
    /// `(array, number)`: the element of that number, from 1; NULL beyond them. Of a row, an attribute.
    Element,
}

/// A function's value; arguments may be null. Errors: 2202E for more elements to trim than there are.
pub(crate) fn call(function: ArrayFunction, arguments: &[Datum]) -> SqlResult<Datum> {
    use ArrayFunction as F;
    let made = |elements: Vec<Datum>| Datum::Array(elements.into());
    Ok(match (function, arguments) {
        (F::Append, [Datum::Null, element]) | (F::Prepend, [element, Datum::Null]) => {
            made(vec![element.clone()])
        }
        (F::Append, [Datum::Array(list), element]) => {
            made(list.iter().chain(std::iter::once(element)).cloned().collect())
        }
        (F::Prepend, [element, Datum::Array(list)]) => {
            made(std::iter::once(element).chain(list.iter()).cloned().collect())
        }
        (F::Join, [list, Datum::Null]) | (F::Join, [Datum::Null, list]) => list.clone(),
        (F::Join, [Datum::Array(a), Datum::Array(b)]) => made(a.iter().chain(b.iter()).cloned().collect()),
        (F::Remove, [Datum::Array(list), removed]) => {
            made(list.iter().filter(|element| !is_same(element, removed)).cloned().collect())
        }
        (F::Replace, [Datum::Array(list), from, to]) => {
            let each = list.iter().map(|element| if is_same(element, from) { to } else { element });
            made(each.cloned().collect())
        }
        (F::Position, [Datum::Array(list), wanted]) => {
            let found = list.iter().position(|element| is_same(element, wanted));
            found.map_or(Datum::Null, |at| Datum::Int(at as i64 + 1))
        }
        (F::Cardinality, [Datum::Array(list)]) => Datum::Int(list.len() as i64),
        (F::Length, [Datum::Array(list), Datum::Int(1)]) if !list.is_empty() => Datum::Int(list.len() as i64),
        (F::Dimensions, [Datum::Array(list)]) if !list.is_empty() => Datum::Int(1),
        (F::Trim, [Datum::Array(list), Datum::Int(count)]) => {
            let count = usize::try_from(*count).ok().filter(|count| *count <= list.len());
            let count = count.ok_or_else(|| {
                let told = format!("number of elements to trim must be between 0 and {}", list.len());
                SqlError::new(SqlState(*b"2202E"), told)
            })?;
            made(list[..list.len() - count].to_vec())
        }
        (F::Element, [Datum::Array(list), Datum::Int(number)]) => {
            let at = usize::try_from(*number).ok().and_then(|number| number.checked_sub(1));
            at.and_then(|at| list.get(at)).cloned().unwrap_or_default()
        }
        _ => Datum::Null,
    })
}

/// Whether two elements are equal, or both NULL.
fn is_same(a: &Datum, b: &Datum) -> bool {
    match (a.is_null(), b.is_null()) {
        (false, false) => a.compare(b) == Some(Ordering::Equal),
        (a, b) => a && b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_computed_as_in_postgresql() {
        use ArrayFunction as F;
        let array = |elements: &[i64]| Datum::Array(elements.iter().map(|n| Datum::Int(*n)).collect());
        let is = |function, arguments: &[Datum], wanted: Datum| {
            assert_eq!(call(function, arguments), Ok(wanted), "{function:?} of {arguments:?}");
        };
        is(F::Append, &[array(&[1]), Datum::Int(2)], array(&[1, 2]));
        is(F::Prepend, &[Datum::Int(2), Datum::Null], array(&[2]));
        is(F::Join, &[Datum::Null, array(&[1])], array(&[1]));
        is(F::Remove, &[array(&[1, 2, 1]), Datum::Int(1)], array(&[2]));
        is(F::Replace, &[array(&[1, 2, 1]), Datum::Int(1), Datum::Int(3)], array(&[3, 2, 3]));
        is(F::Position, &[array(&[5, 6]), Datum::Int(6)], Datum::Int(2));
        is(F::Position, &[array(&[5, 6]), Datum::Null], Datum::Null);
        is(F::Length, &[array(&[]), Datum::Int(1)], Datum::Null);
        is(F::Length, &[array(&[5, 6]), Datum::Int(2)], Datum::Null);
        is(F::Cardinality, &[array(&[])], Datum::Int(0));
        is(F::Trim, &[array(&[1, 2, 3]), Datum::Int(2)], array(&[1]));
        is(F::Trim, &[Datum::Null, Datum::Int(2)], Datum::Null);
        assert_eq!(call(F::Trim, &[array(&[1]), Datum::Int(2)]).unwrap_err().state, SqlState(*b"2202E"));
    }
}
