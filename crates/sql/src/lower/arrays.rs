//! Functions of arrays in what is assigned, checked or generated. Queries compute them over columns.

use super::expr::{ExprLowering, Typed};
use super::{Lowered, Refusal};
use base::DataType;
use base::array_functions::ArrayFunction as F;
use base::expr::{Expr, Function};
use sqlparser::ast;

impl ExprLowering<'_> {
    /// A function of arrays; `None` if it is none, or not one for this place.
    pub(super) fn array_function(&mut self, name: &str, arguments: &[&ast::Expr]) -> Lowered<Option<Typed>> {
        if !self.is_assignment {
            return Ok(None);
        }
        let function = match (name, arguments.len()) {
            ("array_append", 2) => F::Append,
            ("array_prepend", 2) => F::Prepend,
            ("array_cat", 2) => F::Join,
            ("array_remove", 2) => F::Remove,
            ("array_replace", 3) => F::Replace,
            ("array_position", 2) => F::Position,
            ("cardinality", 1) => F::Cardinality,
            ("array_length" | "array_upper", 2) => F::Length,
            ("array_ndims", 1) => F::Dimensions,
            ("trim_array", 2) => F::Trim,
            _ => return Ok(None),
        };
        let typed = arguments.iter().map(|e| self.lower(e)).collect::<Lowered<Vec<_>>>()?;
        let is_list = |n: usize| function == F::Join || n == usize::from(function == F::Prepend);
        let list =
            typed.iter().enumerate().filter(|(n, _)| is_list(*n)).find_map(|(_, t)| match t.known_type() {
                Some(DataType::Array(of)) => Some(of),
                _ => None,
            });
        let of = list.ok_or(Refusal::TooRich)?;
        let mut lowered = Vec::with_capacity(typed.len());
        for (n, typed) in typed.into_iter().enumerate() {
            let wanted = match function {
                _ if is_list(n) => DataType::Array(of),
                F::Length | F::Trim => DataType::Integer,
                _ => of.data_type(),
            };
            let typed = self.resolve(typed, wanted)?;
            if !fits(typed.data_type(), wanted) {
                return Err(Refusal::TooRich);
            }
            lowered.push(typed.expr);
        }
        let returns = match function {
            F::Position | F::Cardinality | F::Length | F::Dimensions => DataType::Integer,
            _ => DataType::Array(of),
        };
        Ok(Some(Typed::known(Expr::Call(Function::Array(function), lowered), returns)))
    }
}

/// Whether a value can stand where one of another type is wanted without a cast that changes it.
fn fits(own: DataType, wanted: DataType) -> bool {
    use DataType::{BigInt, Integer, SmallInt};
    own == wanted || matches!((own, wanted), (SmallInt, Integer) | (SmallInt | Integer, BigInt))
}
