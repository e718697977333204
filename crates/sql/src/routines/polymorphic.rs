//! Types that a call decides: `anyelement` and the like stand for what the arguments are.
//!
//! KEEPS: a type that the text of a call does not tell stays open; nothing is cast to an open type, so that planning decides.

use super::inferred::{Inferred, is_untyped};
use super::{data_type_name, unlimited};
use base::DataType;
use base::convert::{Castable, castable};
use base::element::Element;
use base::error::{SqlError, SqlResult, SqlState};
use base::routines::{Polymorphic, Routine, TypeOf};
use sqlparser::ast::Expr;
use std::sync::Arc;

/// What a parameter takes, and what is known of an argument for it.
pub type Pair = (TypeOf, Inferred);

/// What the types of one family stand for: those that are all the same, or those that have one in common.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Decided {
    /// No argument is of the family.
    Absent,
    /// All of them are literals.
    Untyped,
    /// Of arrays, the type of the elements.
    Known(DataType),
    /// The text does not tell.
    Open,
}

/// Whether the types of arguments go together.
pub fn agree(pairs: &[Pair]) -> bool {
    decided(pairs, false).is_some() && decided(pairs, true).is_some()
}

/// The routine as arguments decide its types; `open` says of each parameter whether its type stays open. Errors: 42883 for
/// types that do not go together, 42804 if all are literals, 42704 for arrays of what there are no arrays of.
pub fn settled(routine: &Arc<Routine>, pairs: &[Pair], open: &[bool]) -> SqlResult<Arc<Routine>> {
    if !routine.is_polymorphic() {
        return Ok(routine.clone());
    }
    let (Some(element), Some(compatible)) = (decided(pairs, false), decided(pairs, true)) else {
        let told = format!("the arguments of function {} are not all alike", routine.name);
        return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, told));
    };
    if element == Decided::Untyped {
        let told = "could not determine polymorphic type because input has type unknown";
        return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, told));
    }
    let (mut nth, mut failed) = (0, None);
    // Parameters come first.
    let made = routine.with_types(|of| {
        let stays = open.get(nth) == Some(&true);
        nth += 1;
        let Some(any) = of.any.filter(|_| !stays) else { return };
        let family = if any.is_compatible() { compatible } else { element };
        let known = match family {
            Decided::Known(known) => known,
            Decided::Untyped => DataType::Text,
            Decided::Absent | Decided::Open => return,
        };
        match (any.is_array(), Element::of(known)) {
            (false, _) => *of = known.into(),
            (true, Some(element)) => *of = DataType::Array(element).into(),
            (true, None) => failed = Some(known),
        }
    });
    match failed {
        None => Ok(Arc::new(made)),
        Some(of) => {
            let told = format!("could not find array type for data type {}", data_type_name(of));
            Err(SqlError::new(SqlState::UNDEFINED_OBJECT, told))
        }
    }
}

/// The same once arguments have been planned as a query with columns of these types. Errors: those of [`settled`].
pub fn settled_by_types(
    routine: &Arc<Routine>,
    arguments: &[Expr],
    planned: &[DataType],
) -> SqlResult<Arc<Routine>> {
    let of = |(e, of): (&Expr, &DataType)| match is_untyped(e) {
        true => Inferred::Untyped,
        false => Inferred::Known(*of),
    };
    let pairs: Vec<Pair> = routine.types().zip(arguments.iter().zip(planned).map(of)).collect();
    settled(routine, &pairs, &[])
}

/// Whether planning has to decide a type of an argument.
pub fn is_open(routine: &Routine) -> bool {
    routine.types().any(|of| of.any.is_some())
}

/// What stands for the elements of an array.
pub fn element_of(array: TypeOf) -> TypeOf {
    match (array.any, array.data_type) {
        (Some(any), _) => any.element().into(),
        (None, DataType::Array(element)) => element.data_type().into(),
        (None, other) => other.into(),
    }
}

/// `None` for types that do not go together.
fn decided(pairs: &[Pair], is_compatible: bool) -> Option<Decided> {
    let (mut found, mut is_open) = (Decided::Absent, false);
    let of_family = pairs
        .iter()
        .filter_map(|(of, given)| of.any.map(|any| (any, *given)))
        .filter(|(any, _)| any.is_compatible() == is_compatible);
    for (any, given) in of_family {
        let given = match given {
            Inferred::Known(of) => part_of(any, unlimited(of))?,
            Inferred::Unknown => {
                is_open = true;
                continue;
            }
            Inferred::Untyped => {
                if found == Decided::Absent {
                    found = Decided::Untyped;
                }
                continue;
            }
        };
        found = match found {
            Decided::Known(before) if is_compatible => Decided::Known(common(before, given)?),
            Decided::Known(before) if before != given => return None,
            _ => Decided::Known(given),
        };
    }
    // Those that are all the same are known with the first one.
    let is_told = matches!(found, Decided::Known(_)) && !is_compatible;
    Some(if is_open && !is_told { Decided::Open } else { found })
}

/// What a family stands for if an argument is of a type; `None` if it cannot be.
fn part_of(any: Polymorphic, given: DataType) -> Option<DataType> {
    use Polymorphic as P;
    match (any, given) {
        (P::Array | P::CompatibleArray, DataType::Array(element)) => Some(element.data_type()),
        (P::Array | P::CompatibleArray, _) => None,
        (P::NonArray | P::CompatibleNonArray, DataType::Array(_)) => None,
        (P::Enum, DataType::Enum(_)) => Some(given),
        (P::Enum, _) => None,
        (P::Element | P::Compatible | P::NonArray | P::CompatibleNonArray, _) => Some(given),
    }
}

/// The one of two types that the other becomes by itself.
fn common(a: DataType, b: DataType) -> Option<DataType> {
    match (castable(a, b), castable(b, a)) {
        _ if a == b => Some(a),
        (_, Castable::Implicit) => Some(a),
        (Castable::Implicit, _) => Some(b),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INT: Inferred = Inferred::Known(DataType::Integer);
    const BIG: Inferred = Inferred::Known(DataType::BigInt);

    fn pairs(given: &[(Polymorphic, Inferred)]) -> Vec<Pair> {
        given.iter().map(|(any, of)| ((*any).into(), *of)).collect()
    }

    #[test]
    fn elements_are_all_of_one_type_and_arrays_have_it() {
        let array = Inferred::Known(DataType::Array(Element::of(DataType::Integer).unwrap()));
        let of = |given: &[(Polymorphic, Inferred)]| decided(&pairs(given), false);
        assert_eq!(
            of(&[(Polymorphic::Array, array), (Polymorphic::Element, INT)]),
            Some(Decided::Known(DataType::Integer))
        );
        assert_eq!(of(&[(Polymorphic::Array, array), (Polymorphic::Element, BIG)]), None);
        assert_eq!(of(&[(Polymorphic::Array, INT)]), None);
        assert_eq!(of(&[(Polymorphic::NonArray, array)]), None);
        assert_eq!(of(&[(Polymorphic::Enum, INT)]), None);
        assert_eq!(of(&[(Polymorphic::Element, Inferred::Untyped)]), Some(Decided::Untyped));
        assert_eq!(of(&[(Polymorphic::Element, Inferred::Unknown)]), Some(Decided::Open));
    }

    #[test]
    fn compatible_types_meet_in_a_common_one() {
        let of = |given: &[(Polymorphic, Inferred)]| decided(&pairs(given), true);
        let any = Polymorphic::Compatible;
        assert_eq!(of(&[(any, INT), (any, BIG)]), Some(Decided::Known(DataType::BigInt)));
        assert_eq!(of(&[(any, BIG), (any, INT)]), Some(Decided::Known(DataType::BigInt)));
        assert_eq!(of(&[(any, INT), (any, Inferred::Known(DataType::Boolean))]), None);
        assert_eq!(of(&[(any, INT), (any, Inferred::Unknown)]), Some(Decided::Open));
        assert!(!agree(&pairs(&[(Polymorphic::Array, INT)])));
    }
}
