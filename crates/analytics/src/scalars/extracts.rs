//! `extract`, whose values are `numeric`, where those of `date_part` are `double precision`.

use super::date_parts::date_part;
use super::inference::kind_of;
use super::zoned;
use base::error::SqlResult;
use datafusion::arrow::datatypes::{DataType as Arrow, Field, FieldRef};
use datafusion::common::{ExprSchema, Result, ScalarValue, internal_err};
use datafusion::functions::datetime::date_part as part_of;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility, cast, lit,
};
use std::sync::Arc;

/// What `extract(unit FROM at)` is called in a plan until it is settled: a column of it has this name.
pub(in super::super) const EXTRACT: &str = "extract";

/// The function for a planner.
pub(in super::super) fn function() -> ScalarUDF {
    ScalarUDF::new_from_impl(Extract { signature: Signature::any(2, Volatility::Immutable) })
}

/// A call as one of `date_part`, with as many digits as PostgreSQL's has. Errors: 42883, 42725, 0A000 as of `date_part`.
pub(super) fn settled(unit: &Expr, at: &Expr, schema: &dyn ExprSchema) -> SqlResult<Expr> {
    let kind = kind_of(at, schema);
    let call = ScalarFunction::new_udf(part_of(), vec![unit.clone(), at.clone()]);
    let part = match zoned::function(&call, schema)? {
        Some(part) => part,
        None => date_part(unit, at, kind)?.unwrap_or(Expr::ScalarFunction(call)),
    };
    let named = match unit {
        Expr::Literal(ScalarValue::Utf8(Some(unit)), _) => unit.as_str(),
        _ => "",
    };
    let of = at.get_type(schema).unwrap_or(Arrow::Null);
    let digits = digits(named, &of);
    Ok(match digits {
        // A cast of a double to `numeric` has fifteen digits, which are too few for a moment. An interval may be longer than
        // what is counted in 64 bits.
        3 | 6 if !matches!(of, Arrow::Interval(_)) => {
            let shift = if digits == 3 { 1e3 } else { 1e6 };
            let whole = cast(cast(part, Arrow::Float64) * lit(shift), Arrow::Int64);
            let unit = lit(ScalarValue::Decimal128(Some(1), digits as u8 + 1, digits));
            cast(whole, Arrow::Decimal128(38, 0)) * unit
        }
        digits => cast(part, Arrow::Decimal128(38, digits)),
    })
}

/// Digits behind the point of a unit of a type.
fn digits(unit: &str, at: &Arrow) -> i8 {
    let is_moment = matches!(at, Arrow::Timestamp(..));
    let has_parts_of_seconds = is_moment || matches!(at, Arrow::Time64(_) | Arrow::Interval(_) | Arrow::Null);
    match unit.to_lowercase().as_str() {
        "epoch" | "second" | "seconds" | "sec" | "secs" if has_parts_of_seconds => 6,
        unit if unit.starts_with("milli") || unit.starts_with("msec") => 3,
        "julian" if is_moment => 20,
        _ => 0,
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Extract {
    signature: Signature,
}

impl ScalarUDFImpl for Extract {
    fn name(&self) -> &str {
        EXTRACT
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, _: &[Arrow]) -> Result<Arrow> {
        internal_err!("the type of extract is that of its unit")
    }
    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let unit = match arguments.scalar_arguments.first() {
            Some(Some(ScalarValue::Utf8(Some(unit)))) => unit,
            _ => "",
        };
        let digits = digits(unit, arguments.arg_fields[1].data_type());
        Ok(Arc::new(Field::new(EXTRACT, Arrow::Decimal128(38, digits), true)))
    }
    /// Of what is not settled, such as a system catalog's.
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let returned = arguments.return_field.data_type().clone();
        part_of().invoke_with_args(arguments)?.cast_to(&returned, None)
    }
}
