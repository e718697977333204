//! Calls of the functions that rows are computed with, over columns: one value at a time.

use super::super::fields::call_name;
use super::super::types;
use super::kinds::{Kind, arrow_span, field_of, kind_of_field, span};
use super::plain::Plain;
use super::typing::is_of_labels;
use base::composite::CompositeType;
use base::error::SqlResult;
use base::expr::BinaryOperator;
use base::interval::Interval;
use base::{DataType, Datum, SqlError, SqlState};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Float32Array, Float64Array, IntervalMonthDayNanoArray,
};
use datafusion::arrow::compute::kernels::numeric::{add, div, mul, sub};
use datafusion::arrow::datatypes::{
    DataType as Arrow, FieldRef, Float32Type, Float64Type, IntervalMonthDayNanoType,
};
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr_common::datum::apply;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// What is computed of each row's arguments.
#[derive(Clone, Debug)]
pub(super) enum Computation {
    /// An expression over the arguments as columns.
    Scalar(base::expr::Expr),
    Spans(SpanOperation),
    /// Arithmetic of two floats of one type, whole columns at once.
    Floats(BinaryOperator),
    Plain(Plain),
    /// The argument as it is, of a type that its own field does not tell.
    Same,
}

/// What intervals take part in.
#[derive(Clone, Copy, Debug)]
pub(super) enum SpanOperation {
    /// A moment or a day and an interval, in either order: a moment.
    Later,
    Earlier,
    /// Two moments: the interval from the second to the first.
    Between,
    Add,
    Subtract,
    /// An interval and a number, in either order.
    Multiply,
    Divide,
    Negate,
    Compare(BinaryOperator),
    /// Its length, by which intervals are ordered: a month has 30 days.
    Length,
    /// Its text.
    Show,
    Read,
    /// A unit and an interval, a time of day or the time of a moment: so many of the unit.
    Part,
    /// A stride, a moment and an origin: where the stride began that the moment lies in.
    Bin,
}

/// A value that may be an interval.
#[derive(Clone, Debug)]
enum Cell {
    Plain(Datum),
    Span(Interval),
}

impl Cell {
    fn into_datum(self) -> Datum {
        match self {
            Cell::Plain(value) => value,
            Cell::Span(span) => Datum::Interval(span),
        }
    }
}

/// A function of arguments of certain kinds. Its name says all that it does.
#[derive(Debug)]
struct Evaluated {
    name: String,
    computation: Computation,
    arguments: Vec<Kind>,
    returns: Kind,
    signature: Signature,
}

impl PartialEq for Evaluated {
    fn eq(&self, other: &Evaluated) -> bool {
        self.name == other.name
    }
}
impl Eq for Evaluated {}
impl Hash for Evaluated {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

/// A call of a computation. `arguments` come with their kinds.
pub(super) fn call(computation: Computation, arguments: Vec<(Expr, Kind)>, returns: Kind) -> Expr {
    let (arguments, kinds): (Vec<Expr>, Vec<Kind>) = arguments.into_iter().unzip();
    let shown: Vec<String> = kinds.iter().map(|k| kind_name(*k)).collect();
    let name = format!("{computation:?}({}) as {}", shown.join(", "), kind_name(returns)).to_lowercase();
    // What is computed once the query runs is no constant of the plan.
    let is_constant = arguments.iter().all(is_constant);
    let volatility = match returns {
        Kind::Known(t) if is_constant && is_of_labels(t) => Volatility::Volatile,
        _ => Volatility::Immutable,
    };
    let signature = match arguments.len() {
        0 => Signature::nullary(volatility),
        count => Signature::any(count, volatility),
    };
    let function = Evaluated { name, computation, arguments: kinds, returns, signature };
    let function = Arc::new(ScalarUDF::new_from_impl(function));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, arguments))
}

/// Whether the planner may compute an expression.
fn is_constant(e: &Expr) -> bool {
    let depends = e.exists(|e| {
        Ok(matches!(
            e,
            Expr::Column(_)
                | Expr::OuterReferenceColumn(..)
                | Expr::ScalarSubquery(_)
                | Expr::AggregateFunction(_)
                | Expr::WindowFunction(_)
                | Expr::Placeholder(_)
        ))
    });
    !depends.unwrap_or(true)
}

/// What a function of this room returns; `None` for any other.
pub(super) fn returned(function: &ScalarUDF) -> Option<Kind> {
    function.inner().downcast_ref::<Evaluated>().map(|f| match f.returns {
        // Lists are the planner's own business.
        Kind::Known(DataType::Array(_)) => Kind::Foreign,
        returns => returns,
    })
}

/// The value of what is computed of constants alone, as far as rows compute it; `None` for anything else, and where it has
/// none.
pub(super) fn value(e: &Expr) -> Option<Datum> {
    match e {
        Expr::Alias(alias) => value(&alias.expr),
        Expr::Literal(value, _) => types::datum(value),
        Expr::Negative(of) => match value(of)? {
            Datum::Decimal(d) => Some(Datum::Decimal(d.negated())),
            Datum::Int(n) => n.checked_neg().map(Datum::Int),
            _ => None,
        },
        Expr::Cast(cast) => match (value(&cast.expr)?, kind_of_field(&cast.field)) {
            (value @ Datum::Int(_), Kind::Known(to @ DataType::Numeric { .. })) => {
                base::expr::cast(value, to).ok()
            }
            _ => None,
        },
        Expr::ScalarFunction(call) => {
            let function = call.func.inner().downcast_ref::<Evaluated>()?;
            let (Computation::Scalar(expr), Kind::Known(returns)) = (&function.computation, function.returns)
            else {
                return None;
            };
            let values = call.args.iter().map(value).collect::<Option<Vec<Datum>>>()?;
            fitted(expr.eval(&values).ok()?, returns).ok()
        }
        _ => None,
    }
}

fn kind_name(kind: Kind) -> String {
    match kind {
        Kind::Known(t) => t.name(),
        other => other.name(),
    }
}

impl ScalarUDFImpl for Evaluated {
    fn name(&self) -> &str {
        &self.name
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        call_name(&self.name, arguments)
    }
    fn return_type(&self, _: &[Arrow]) -> Result<Arrow> {
        Ok(field_of("", self.returns).data_type().clone())
    }
    fn return_field_from_args(&self, _: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(field_of(&self.name, self.returns)))
    }
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if let Computation::Floats(operator) = self.computation {
            return floats(operator, &arguments.args);
        }
        if matches!(self.computation, Computation::Same) {
            return Ok(arguments.args[0].clone());
        }
        // Constants give a constant.
        let is_constant = arguments.args.iter().all(|a| matches!(a, ColumnarValue::Scalar(_)));
        let count = if is_constant { 1 } else { arguments.number_rows };
        let columns = arguments.args.iter().zip(&self.arguments).map(|(a, kind)| Column::new(a, *kind));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let made: ArrayRef = match self.returns {
            Kind::Span => {
                let spans = (0..count).map(|row| match self.compute(&columns, row)? {
                    Cell::Span(span) | Cell::Plain(Datum::Interval(span)) => arrow_span(span).map(Some),
                    Cell::Plain(_) => Ok(None),
                });
                Arc::new(spans.collect::<SqlResult<IntervalMonthDayNanoArray>>().map_err(external)?)
            }
            Kind::Known(returns) => {
                let values = (0..count).map(|row| match self.compute(&columns, row)? {
                    Cell::Plain(value) => fitted(value, returns),
                    Cell::Span(_) => unreachable!("returns no interval"),
                });
                let values = values.collect::<SqlResult<Vec<Datum>>>().map_err(external)?;
                colstore::array_of(returns, &values)
            }
            Kind::Unknown | Kind::Foreign => unreachable!("returns a type of ours"),
        };
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?),
            false => ColumnarValue::Array(made),
        })
    }
}

impl Evaluated {
    fn compute(&self, columns: &[Column], row: usize) -> SqlResult<Cell> {
        match &self.computation {
            Computation::Scalar(expr) => {
                let value = expr.eval_with(&|column| Ok(columns[column].at(row).into_datum()));
                value.map(Cell::Plain)
            }
            Computation::Spans(operation) => {
                let cells: Vec<Cell> = columns.iter().map(|c| c.at(row)).collect();
                if cells.iter().any(|c| matches!(c, Cell::Plain(Datum::Null))) {
                    return Ok(Cell::Plain(Datum::Null));
                }
                spans(*operation, &cells)
            }
            Computation::Plain(operation) => {
                let values: Vec<Datum> = columns.iter().map(|c| c.at(row).into_datum()).collect();
                let Kind::Known(returns) = self.returns else { unreachable!("returns a type of ours") };
                operation.compute(returns, &values).map(Cell::Plain)
            }
            Computation::Floats(_) | Computation::Same => unreachable!("computed by columns"),
        }
    }
}

/// An argument: the same value for all rows, or one each.
enum Column {
    Constant(Cell),
    Plain(Vec<Datum>),
    Spans(IntervalMonthDayNanoArray),
}

impl Column {
    fn new(argument: &ColumnarValue, kind: Kind) -> Result<Column> {
        let many = |array: &dyn Array| -> Result<Column> {
            Ok(match (array.data_type(), kind) {
                (Arrow::Interval(_), _) => {
                    Column::Spans(array.as_primitive::<IntervalMonthDayNanoType>().clone())
                }
                (_, Kind::Known(t)) => Column::Plain(types::datums(array, t).map_err(external)?),
                (other, _) => {
                    Column::Plain(types::datums(array, types::from_arrow(other)).map_err(external)?)
                }
            })
        };
        Ok(match argument {
            ColumnarValue::Array(array) => many(array.as_ref())?,
            ColumnarValue::Scalar(scalar) => Column::Constant(many(scalar.to_array()?.as_ref())?.at(0)),
        })
    }

    fn at(&self, row: usize) -> Cell {
        match self {
            Column::Constant(cell) => cell.clone(),
            Column::Plain(values) => Cell::Plain(values[row].clone()),
            Column::Spans(spans) if spans.is_null(row) => Cell::Plain(Datum::Null),
            Column::Spans(spans) => Cell::Span(span(spans.value(row))),
        }
    }
}

fn external(error: SqlError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// A value in the one scale that a column of decimals has.
fn fitted(value: Datum, returns: DataType) -> SqlResult<Datum> {
    match returns {
        DataType::Numeric { .. } => returns.coerce(value),
        _ => Ok(value),
    }
}

fn moment(cell: &Cell) -> SqlResult<i64> {
    match cell {
        Cell::Plain(Datum::Timestamp(us)) => Ok(*us),
        Cell::Plain(Datum::Date(day)) => base::convert::midnight(*day),
        other => unreachable!("{other:?} is no moment"),
    }
}

fn spans(operation: SpanOperation, cells: &[Cell]) -> SqlResult<Cell> {
    use SpanOperation::*;
    let number = |cell: &Cell| match cell {
        Cell::Plain(value) => value.as_f64().expect("a number"),
        Cell::Span(_) => unreachable!("no number"),
    };
    Ok(match (operation, cells) {
        (Later, [Cell::Span(span), at] | [at, Cell::Span(span)]) => {
            Cell::Plain(Datum::Timestamp(span.after(moment(at)?)?))
        }
        (Earlier, [at, Cell::Span(span)]) => {
            Cell::Plain(Datum::Timestamp(span.checked_neg()?.after(moment(at)?)?))
        }
        (Between, [to, from]) => Cell::Span(Interval::between(moment(from)?, moment(to)?)?),
        (Add, [Cell::Span(a), Cell::Span(b)]) => Cell::Span(a.checked_add(*b)?),
        (Subtract, [Cell::Span(a), Cell::Span(b)]) => Cell::Span(a.checked_sub(*b)?),
        (Multiply, [Cell::Span(span), factor] | [factor, Cell::Span(span)]) => {
            Cell::Span(span.checked_mul(number(factor))?)
        }
        (Divide, [Cell::Span(span), divisor]) => Cell::Span(span.checked_div(number(divisor))?),
        (Negate, [Cell::Span(span)]) => Cell::Span(span.checked_neg()?),
        (Compare(operator), [Cell::Span(a), Cell::Span(b)]) => {
            let order = a.length_us().cmp(&b.length_us());
            Cell::Plain(Datum::Bool(match operator {
                BinaryOperator::Equal => order.is_eq(),
                BinaryOperator::NotEqual => order.is_ne(),
                BinaryOperator::Less => order.is_lt(),
                BinaryOperator::LessOrEqual => order.is_le(),
                BinaryOperator::Greater => order.is_gt(),
                _ => order.is_ge(),
            }))
        }
        (Length, [Cell::Span(span)]) => {
            Cell::Plain(Datum::Decimal(base::decimal::Decimal::new(span.length_us(), 0)))
        }
        (Show, [Cell::Span(span)]) => Cell::Plain(Datum::text(span.to_string())),
        (Read, [Cell::Plain(Datum::Text(text))]) => Cell::Span(base::interval::parse(text)?),
        (Part, [Cell::Plain(Datum::Text(unit)), of]) => {
            let time = |us| Interval { months: 0, days: 0, us };
            let span = match of {
                Cell::Span(span) => *span,
                Cell::Plain(Datum::Time(us)) => time(*us),
                at => time(moment(at)?.rem_euclid(base::datum::US_PER_DAY)),
            };
            Cell::Plain(Datum::Float(base::interval::part(unit, span)?))
        }
        (Bin, [Cell::Span(stride), at, origin]) => {
            Cell::Plain(Datum::Timestamp(bin(*stride, moment(at)?, moment(origin)?)?))
        }
        (operation, cells) => unreachable!("{operation:?} of {cells:?}"),
    })
}

/// Errors: 0A000 for a stride of months, 22008 for one that leads nowhere and beyond the last moment.
fn bin(stride: Interval, at: i64, origin: i64) -> SqlResult<i64> {
    let told = |what: &str| SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, what);
    if stride.months != 0 {
        let message = "timestamps cannot be binned into intervals containing months or years";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    let days_us = i64::from(stride.days).checked_mul(base::datum::US_PER_DAY);
    let stride_us = days_us.and_then(|us| us.checked_add(stride.us));
    let stride_us = stride_us.ok_or_else(|| told("interval out of range"))?;
    if stride_us <= 0 {
        return Err(told("stride must be greater than zero"));
    }
    let behind = i128::from(at) - i128::from(origin);
    let began = i128::from(at) - behind.rem_euclid(i128::from(stride_us));
    let began = i64::try_from(began).ok().filter(|us| base::convert::is_timestamp(*us));
    began.ok_or_else(|| told("timestamp out of range"))
}

/// Sums, differences, products and quotients of floats; what overflows is an error and there is one NaN.
fn floats(operator: BinaryOperator, arguments: &[ColumnarValue]) -> Result<ColumnarValue> {
    let kernel = match operator {
        BinaryOperator::Add => add,
        BinaryOperator::Subtract => sub,
        BinaryOperator::Multiply => mul,
        _ => div,
    };
    let made = apply(&arguments[0], &arguments[1], kernel)?;
    // Only odd results need a look at what they were made of: x/0, overflow, underflow, NaN.
    let is_odd = |f: f64| !f.is_finite() || f == 0.0;
    let any_odd = match &made {
        ColumnarValue::Scalar(ScalarValue::Float32(f)) => f.is_some_and(|f| is_odd(f.into())),
        ColumnarValue::Scalar(ScalarValue::Float64(f)) => f.is_some_and(is_odd),
        ColumnarValue::Scalar(_) => false,
        ColumnarValue::Array(array) => match array.data_type() {
            Arrow::Float32 => array.as_primitive::<Float32Type>().iter().flatten().any(|f| is_odd(f.into())),
            _ => array.as_primitive::<Float64Type>().iter().flatten().any(is_odd),
        },
    };
    if !any_odd {
        return Ok(made);
    }
    let arrays = ColumnarValue::values_to_arrays(arguments)?;
    let is_scalar = matches!(made, ColumnarValue::Scalar(_));
    let array: ArrayRef = match arrays[0].data_type() {
        Arrow::Float32 => {
            let (a, b) = (arrays[0].as_primitive::<Float32Type>(), arrays[1].as_primitive::<Float32Type>());
            let values = a.iter().zip(b).map(|pair| match pair {
                (Some(a), Some(b)) => {
                    let value = Datum::Float(base::expr::float(operator, a.into(), b.into())?);
                    let narrow = base::convert::to_float(&value, DataType::Real)?;
                    Ok(narrow.as_f64().map(|f| f as f32))
                }
                _ => Ok(None),
            });
            Arc::new(values.collect::<SqlResult<Float32Array>>().map_err(external)?)
        }
        _ => {
            let (a, b) = (arrays[0].as_primitive::<Float64Type>(), arrays[1].as_primitive::<Float64Type>());
            let values = a.iter().zip(b).map(|pair| match pair {
                (Some(a), Some(b)) => base::expr::float(operator, a, b).map(Some),
                _ => Ok(None),
            });
            Arc::new(values.collect::<SqlResult<Float64Array>>().map_err(external)?)
        }
    };
    Ok(match is_scalar {
        true => ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?),
        false => ColumnarValue::Array(array),
    })
}

/// Bytes in the order of rows, which are equal where rows are: a NULL within a row is like any other.
pub(super) fn row_key(e: &Expr, of: CompositeType) -> Expr {
    let row = (e.clone(), Kind::Known(DataType::Composite(of)));
    call(Computation::Plain(Plain::RowKey), vec![row], Kind::Known(DataType::Bytea))
}
