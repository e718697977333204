//! COALESCE without a copy of its arguments.
//!
//! The planner's library writes `COALESCE(a, b)` as `CASE WHEN a IS NOT NULL THEN a ELSE b END`: `a` is computed twice, and
//! of n such calls inside each other the innermost one is there 2^n times. Here a call stays one call wherever computing
//! `b` for all rows can do no harm. KEEPS: an argument that may fail is computed for no row that an earlier one has a
//! value for, unless that one is volatile; a volatile one is computed once.

use super::types;
use base::{SqlError, SqlState};
use datafusion::arrow::array::{Array, ArrayRef, Datum};
use datafusion::arrow::compute::is_not_null;
use datafusion::arrow::compute::kernels::zip::zip;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::functions::core::coalesce::CoalesceFunc;
use datafusion::logical_expr::conditional_expressions::CaseBuilder;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use std::sync::Arc;

/// What may be written twice: arguments of more expressions together are refused.
const COPIED_MAX: usize = 1_000;

/// The function for a planner.
pub(super) fn function() -> ScalarUDF {
    ScalarUDF::new_from_impl(Coalesce { inner: CoalesceFunc::new() })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Coalesce {
    inner: CoalesceFunc,
}

impl ScalarUDFImpl for Coalesce {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn signature(&self) -> &Signature {
        self.inner.signature()
    }
    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }
    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let (fields, note) = (args.arg_fields, types::common_note(args.arg_fields));
        Ok(beside_texts(types::with_note(self.inner.return_field_from_args(args)?, note), fields))
    }
    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match taken(types) {
            Some(taken) => Ok(taken),
            None => self.inner.coerce_types(types),
        }
    }
    fn short_circuits(&self) -> bool {
        self.inner.short_circuits()
    }
    fn conditional_arguments<'a>(&self, args: &'a [Expr]) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.inner.conditional_arguments(args)
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        if args.len() < 2 {
            return self.inner.simplify(args, info);
        }
        // From here on all are computed for a row, or none.
        let harmless = args.iter().rev().take_while(|e| cannot_fail(e, info)).count();
        let together = args.iter().position(Expr::is_volatile).unwrap_or(args.len());
        let together = together.min((args.len() - harmless).saturating_sub(1));
        if together == 0 {
            return Ok(ExprSimplifyResult::Original(args));
        }
        let (copied, rest) = args.split_at(together);
        if copied.iter().map(size).sum::<usize>() > COPIED_MAX {
            return Err(too_long());
        }
        let rest = match rest {
            [last] => last.clone(),
            several => Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function()), several.to_vec())),
        };
        let tests = copied.iter().map(|e| e.clone().is_not_null()).collect();
        let case = CaseBuilder::new(None, tests, copied.to_vec(), Some(Box::new(rest))).end()?;
        Ok(ExprSimplifyResult::Simplified(case))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let mut values: Option<ArrayRef> = None;
        for argument in arguments.args {
            let made = match (values.take(), argument) {
                (known, ColumnarValue::Scalar(scalar)) if scalar.is_null() => known,
                (None, ColumnarValue::Scalar(scalar)) => return Ok(ColumnarValue::Scalar(scalar)),
                (None, ColumnarValue::Array(array)) => Some(array),
                (Some(known), ColumnarValue::Scalar(scalar)) => Some(filled(&known, &scalar.to_scalar()?)?),
                (Some(known), ColumnarValue::Array(array)) => Some(filled(&known, &array)?),
            };
            if let Some(array) = &made
                && array.null_count() == 0
            {
                return Ok(ColumnarValue::Array(array.clone()));
            }
            values = made;
        }
        Ok(match values {
            Some(array) => ColumnarValue::Array(array),
            None => ColumnarValue::Scalar(ScalarValue::try_from(arguments.return_field.data_type())?),
        })
    }
}

/// The type of values other than numbers and texts that have nothing but literals beside them, which become such values when
/// types are settled.
pub(super) fn beside_literals(types: &[DataType]) -> Option<DataType> {
    let is_ours = |t: &&DataType| {
        use DataType::{
            Binary, Boolean, Date32, FixedSizeBinary, Interval, LargeBinary, List, Time64, Timestamp,
        };
        let is_one = matches!(
            t,
            List(_)
                | LargeBinary
                | Binary
                | FixedSizeBinary(_)
                | Boolean
                | Date32
                | Timestamp(..)
                | Time64(_)
                | Interval(_)
        );
        is_one || types::is_label(t)
    };
    // A date beside a moment is the moment at which it begins.
    let rank_of_moment = |t: &DataType| match t {
        DataType::Date32 => 1,
        DataType::Timestamp(_, None) => 2,
        DataType::Timestamp(_, Some(_)) => 3,
        _ => 0,
    };
    let one = types.iter().filter(is_ours).max_by_key(|t| rank_of_moment(t))?;
    let are_moments = |t: &DataType| rank_of_moment(t) > 0 && rank_of_moment(one) > 0;
    let is_open = |t: &DataType| matches!(t, DataType::Null | DataType::Utf8);
    types.iter().all(|t| t == one || is_open(t) || are_moments(t)).then(|| one.clone())
}

/// Types in which arguments are taken, one of which is [`beside_literals`]. No text is cast to an address, so that one beside
/// an address stays a text until types are settled.
pub(super) fn taken(types: &[DataType]) -> Option<Vec<DataType>> {
    let one = beside_literals(types)?;
    let stays = |t: &DataType| matches!(one, DataType::FixedSizeBinary(_)) && *t == DataType::Utf8;
    Some(types.iter().map(|t| if stays(t) { t.clone() } else { one.clone() }).collect())
}

/// What is returned where the first argument may be such a text.
pub(super) fn beside_texts(returned: FieldRef, arguments: &[FieldRef]) -> FieldRef {
    let types: Vec<DataType> = arguments.iter().map(|field| field.data_type().clone()).collect();
    match beside_literals(&types) {
        Some(one @ DataType::FixedSizeBinary(_)) => Arc::new(returned.as_ref().clone().with_data_type(one)),
        _ => returned,
    }
}

/// The values, and others where they are NULL.
fn filled(known: &ArrayRef, others: &dyn Datum) -> Result<ArrayRef> {
    Ok(zip(&is_not_null(known)?, known, others)?)
}

/// Whether an expression is a column or a constant, or one in a wider type.
fn cannot_fail(e: &Expr, info: &SimplifyContext) -> bool {
    match e {
        Expr::Column(_) | Expr::Literal(..) | Expr::OuterReferenceColumn(..) => true,
        Expr::Alias(alias) => cannot_fail(&alias.expr, info),
        Expr::Cast(cast) => {
            cannot_fail(&cast.expr, info)
                && info.get_data_type(&cast.expr).is_ok_and(|from| widens(&from, cast.field.data_type()))
        }
        _ => false,
    }
}

fn widens(from: &DataType, to: &DataType) -> bool {
    use DataType::{Float32, Float64, Int16, Int32, Int64, LargeUtf8, Null, Utf8, Utf8View};
    let is_text = |t: &DataType| matches!(t, Utf8 | LargeUtf8 | Utf8View);
    match (from, to) {
        (Null, _) => true,
        (from, to) if is_text(from) => is_text(to),
        (Int16, to) => matches!(to, Int32 | Int64 | Float32 | Float64),
        (Int32, to) => matches!(to, Int64 | Float64),
        (Int64 | Float32, to) => *to == Float64,
        _ => false,
    }
}

/// The expressions that an expression is made of.
fn size(e: &Expr) -> usize {
    let mut count = 0;
    // Nothing in here fails.
    _ = e.apply(|_| {
        count += 1;
        Ok(if count > COPIED_MAX { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    count
}

fn too_long() -> DataFusionError {
    let told = "arguments of COALESCE are too long to be computed twice";
    let error =
        SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, told).hint("Compute inner parts in a subquery.");
    DataFusionError::External(Box::new(error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::Int64Array;
    use datafusion::arrow::datatypes::Field;

    fn coalesced(args: Vec<ColumnarValue>) -> Vec<Option<i64>> {
        let field = || Arc::new(Field::new("", DataType::Int64, true));
        let arguments = ScalarFunctionArgs {
            arg_fields: args.iter().map(|_| field()).collect(),
            args,
            number_rows: 3,
            return_field: field(),
            config_options: Arc::default(),
        };
        let made = function().invoke_with_args(arguments).unwrap().into_array(3).unwrap();
        made.as_any().downcast_ref::<Int64Array>().unwrap().iter().collect()
    }

    #[test]
    fn the_first_value_that_is_not_null_is_the_answer() {
        let array =
            |values: [Option<i64>; 3]| ColumnarValue::Array(Arc::new(Int64Array::from(values.to_vec())));
        let scalar = |value| ColumnarValue::Scalar(ScalarValue::Int64(value));
        let (a, b) = (array([Some(1), None, None]), array([Some(4), Some(5), None]));
        assert_eq!(coalesced(vec![a.clone(), b.clone()]), [Some(1), Some(5), None]);
        assert_eq!(coalesced(vec![a.clone(), scalar(None), scalar(Some(9))]), [Some(1), Some(9), Some(9)]);
        assert_eq!(coalesced(vec![scalar(None), b, a]), [Some(4), Some(5), None]);
        assert_eq!(coalesced(vec![scalar(None), scalar(None)]), [None; 3]);
        assert_eq!(coalesced(vec![scalar(Some(2)), scalar(Some(3))]), [Some(2); 3]);
    }
}
