//! Functions whose results are accounted: a call reserves what it may make before it makes it.

use super::super::fields;
use super::growth::{Bound, scalar_bytes};
use super::{FOLDED_BYTES_MAX, Folding, SMALL_BYTES, VALUE_BYTES_MAX, held, reserve, too_long};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch};
use datafusion::arrow::compute::concat;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int64Type, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool, MemoryReservation};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::preimage::PreimageResult;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Documentation, Expr, ExpressionPlacement, LogicalPlan, Operator,
    ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::logical_expr_common::type_coercion::binary::BinaryTypeCoercer;
use datafusion::optimizer::AnalyzerRule;
use datafusion::physical_expr::expressions::{BinaryExpr as PhysicalBinary, Column};
use datafusion::physical_plan::PhysicalExpr;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The operator `||` of texts as a function.
pub(super) const CONCAT: &str = "text_concat";

/// Functions that DataFusion plans by their names or looks for by type: an accounted call would not be found.
const LEFT_ALONE: &[&str] = &["nullif", "get_field", "named_struct", "struct"];

/// Replaces calls whose results can be long by calls that are accounted. Runs after types are settled.
#[derive(Debug)]
pub(in super::super) struct AccountFunctions {
    pool: Arc<dyn MemoryPool>,
}

impl AccountFunctions {
    pub fn new(pool: Arc<dyn MemoryPool>) -> AccountFunctions {
        AccountFunctions { pool }
    }
}

impl AnalyzerRule for AccountFunctions {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| {
            let schema = merge_schema(&node.inputs());
            let names = NamePreserver::new(&node);
            let mut accounted = |e| account(e, &self.pool, &|e| fields::data_type(e, &schema).ok());
            node.map_expressions(|e| fields::renewed(e, &names, &mut accounted))
        })
        .map(|t| t.data)
    }

    fn name(&self) -> &str {
        "account_functions"
    }
}

/// The expression with accounted calls. Types are not known where columns of an outer query are.
fn account(
    e: Expr,
    pool: &Arc<dyn MemoryPool>,
    type_of: &dyn Fn(&Expr) -> Option<DataType>,
) -> Result<Transformed<Expr>> {
    e.transform_up(|e| {
        let has_length = |e: &Expr| type_of(e).is_none_or(|data_type| is_long(&data_type));
        match e {
            Expr::ScalarFunction(ref call)
                if call.func.inner().downcast_ref::<Accounted>().is_none()
                    && !LEFT_ALONE.contains(&call.name())
                    && (has_length(&e) || call.args.iter().filter(|e| has_length(e)).count() > 1) =>
            {
                let func = Accounted::of(call.func.clone(), pool);
                Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(func, call.args.clone()))))
            }
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::StringConcat, right })
                if [&left, &right].iter().all(|e| type_of(e).is_some_and(|t| is_text(&t))) =>
            {
                let func = Accounted::of(Arc::new(ScalarUDF::new_from_impl(TextConcat::new())), pool);
                let call = ScalarFunction::new_udf(func, vec![*left, *right]);
                Ok(Transformed::yes(Expr::ScalarFunction(call)))
            }
            e => Ok(Transformed::no(e)),
        }
    })
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// Whether values of a type have a length of their own.
pub(super) fn is_long(data_type: &DataType) -> bool {
    is_text(data_type)
        || matches!(data_type, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
        || data_type.is_nested()
}

/// A function with the pool that its results are reserved in.
#[derive(Debug)]
struct Accounted {
    inner: Arc<ScalarUDF>,
    pool: Arc<dyn MemoryPool>,
}

impl PartialEq for Accounted {
    fn eq(&self, other: &Accounted) -> bool {
        self.inner == other.inner
    }
}
impl Eq for Accounted {}
impl Hash for Accounted {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl Accounted {
    fn of(inner: Arc<ScalarUDF>, pool: &Arc<dyn MemoryPool>) -> Arc<ScalarUDF> {
        Arc::new(ScalarUDF::new_from_impl(Accounted { inner, pool: pool.clone() }))
    }

    fn function(&self) -> &dyn ScalarUDFImpl {
        self.inner.inner().as_ref()
    }

    /// What a call made, with its memory. A long constant becomes an array: nothing accounts for scalars.
    fn kept(
        &self,
        value: ColumnarValue,
        rows: usize,
        inputs: &[ArrayRef],
        memory: MemoryReservation,
    ) -> Result<ColumnarValue> {
        match value {
            ColumnarValue::Array(array) => held(array, inputs, memory).map(ColumnarValue::Array),
            ColumnarValue::Scalar(scalar) => {
                let bytes = scalar_bytes(&scalar);
                if bytes <= FOLDED_BYTES_MAX || rows == 0 {
                    return Ok(ColumnarValue::Scalar(scalar));
                }
                // The constant itself is there until the array is.
                let spread = bytes.saturating_mul(rows as u64 + 1);
                memory.try_resize(usize::try_from(spread).unwrap_or(usize::MAX))?;
                let array = scalar.to_array_of_size(rows)?;
                drop(scalar);
                held(array, inputs, memory).map(ColumnarValue::Array)
            }
        }
    }

    /// The same call over some rows at a time, when a bound on all of them asks for too much.
    fn invoke_in_slices(&self, arguments: ScalarFunctionArgs, bound: &Bound) -> Result<ColumnarValue> {
        let rows = arguments.number_rows;
        let free = match self.pool.memory_limit() {
            MemoryLimit::Finite(limit) => limit.saturating_sub(self.pool.reserved()) as u64,
            _ => u64::MAX,
        };
        let slice_bytes = (free / 8).max(SMALL_BYTES);
        let (mut first, mut pieces) = (0, Vec::new());
        while first < rows {
            let count = bound.rows_within(first, rows, slice_bytes);
            let args = arguments.args.iter().map(|argument| match argument {
                ColumnarValue::Array(array) => ColumnarValue::Array(array.slice(first, count)),
                scalar => scalar.clone(),
            });
            let args: Vec<ColumnarValue> = args.collect();
            let wanted = bound.of_rows(first, count).saturating_mul(2).saturating_add(spread(&args, count));
            let memory = reserve(&self.pool, self.name(), wanted)?;
            let inputs = arrays(&args);
            let slice = ScalarFunctionArgs { args, number_rows: count, ..arguments.clone() };
            let piece = self.inner.invoke_with_args(slice)?.into_array(count)?;
            pieces.push(held(piece, &inputs, memory)?);
            first += count;
        }
        let all: Vec<&dyn Array> = pieces.iter().map(|piece| piece.as_ref()).collect();
        let bytes: usize = pieces.iter().map(|piece| piece.get_buffer_memory_size()).sum();
        let memory = reserve(&self.pool, self.name(), bytes as u64)?;
        let joined = concat(&all)?;
        held(joined, &pieces, memory).map(ColumnarValue::Array)
    }
}

/// Bytes of constants that a function may write out for every row.
fn spread(arguments: &[ColumnarValue], rows: usize) -> u64 {
    if !arguments.iter().any(|argument| matches!(argument, ColumnarValue::Array(_))) {
        return 0;
    }
    let constants = arguments.iter().map(|argument| match argument {
        ColumnarValue::Scalar(scalar) => scalar_bytes(scalar),
        ColumnarValue::Array(_) => 0,
    });
    constants.fold(0, |sum: u64, bytes| sum.saturating_add(bytes)).saturating_mul(rows as u64)
}

/// Lengths with zeros where they are null or negative. Padding reserves the sum of all slots of the array, also of those
/// that are null and may hold any number.
fn without_garbage(lengths: ColumnarValue) -> ColumnarValue {
    match lengths {
        ColumnarValue::Array(array) if *array.data_type() == DataType::Int64 => {
            let lengths = array.as_primitive::<Int64Type>().iter().map(|length| length.map(|n| n.max(0)));
            ColumnarValue::Array(Arc::new(lengths.collect::<Int64Array>()))
        }
        ColumnarValue::Scalar(ScalarValue::Int64(Some(length))) => {
            ColumnarValue::Scalar(ScalarValue::Int64(Some(length.max(0))))
        }
        other => other,
    }
}

fn arrays(arguments: &[ColumnarValue]) -> Vec<ArrayRef> {
    let arrays = arguments.iter().filter_map(|argument| match argument {
        ColumnarValue::Array(array) => Some(array.clone()),
        ColumnarValue::Scalar(_) => None,
    });
    arrays.collect()
}

impl ScalarUDFImpl for Accounted {
    fn invoke_with_args(&self, mut arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments.number_rows;
        if matches!(self.name(), "lpad" | "rpad")
            && let Some(length) = arguments.args.get_mut(1)
        {
            *length = without_garbage(std::mem::replace(length, ColumnarValue::Scalar(ScalarValue::Null)));
        }
        let bound = Bound::of(self.name(), &arguments.args, rows);
        if bound.is_exact && bound.value_max() > VALUE_BYTES_MAX {
            return Err(too_long());
        }
        let made = bound.of_rows(0, rows);
        if Folding::is_on() && made > FOLDED_BYTES_MAX {
            return exec_err!("{} is computed when it is needed", self.name());
        }
        let spread = spread(&arguments.args, rows);
        if made.saturating_add(spread) <= SMALL_BYTES {
            return self.inner.invoke_with_args(arguments);
        }
        // Buffers grow by doubling.
        match reserve(&self.pool, self.name(), made.saturating_mul(2).saturating_add(spread)) {
            Ok(memory) => {
                let inputs = arrays(&arguments.args);
                let value = self.inner.invoke_with_args(arguments)?;
                self.kept(value, rows, &inputs, memory)
            }
            Err(_) if rows > 1 && !arrays(&arguments.args).is_empty() => {
                self.invoke_in_slices(arguments, &bound)
            }
            Err(error) => Err(error),
        }
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        match self.function().simplify(args, info)? {
            // What a call is simplified to may be the plain function again.
            ExprSimplifyResult::Simplified(e) => {
                let accounted = account(e, &self.pool, &|e| info.get_data_type(e).ok())?;
                Ok(ExprSimplifyResult::Simplified(accounted.data))
            }
            original => Ok(original),
        }
    }

    // Everything else is the function's own.

    fn name(&self) -> &str {
        self.function().name()
    }
    fn aliases(&self) -> &[String] {
        self.function().aliases()
    }
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        self.function().schema_name(args)
    }
    fn signature(&self) -> &Signature {
        self.function().signature()
    }
    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.function().return_type(types)
    }
    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.function().return_field_from_args(args)
    }
    fn is_strict(&self) -> bool {
        self.function().is_strict()
    }
    fn preimage(&self, args: &[Expr], literal: &Expr, info: &SimplifyContext) -> Result<PreimageResult> {
        self.function().preimage(args, literal, info)
    }
    fn short_circuits(&self) -> bool {
        self.function().short_circuits()
    }
    fn conditional_arguments<'a>(&self, args: &'a [Expr]) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.function().conditional_arguments(args)
    }
    fn evaluate_bounds(&self, input: &[&Interval]) -> Result<Interval> {
        self.function().evaluate_bounds(input)
    }
    fn propagate_constraints(
        &self,
        interval: &Interval,
        inputs: &[&Interval],
    ) -> Result<Option<Vec<Interval>>> {
        self.function().propagate_constraints(interval, inputs)
    }
    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.function().output_ordering(inputs)
    }
    fn preserves_lex_ordering(&self, inputs: &[ExprProperties]) -> Result<bool> {
        self.function().preserves_lex_ordering(inputs)
    }
    fn strictly_order_preserving(&self, inputs: &[ExprProperties]) -> Result<bool> {
        self.function().strictly_order_preserving(inputs)
    }
    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.function().coerce_types(types)
    }
    fn documentation(&self) -> Option<&Documentation> {
        self.function().documentation()
    }
    fn placement(&self, args: &[ExpressionPlacement]) -> ExpressionPlacement {
        self.function().placement(args)
    }
}

/// `||` of two texts.
#[derive(Debug, PartialEq, Eq, Hash)]
struct TextConcat {
    signature: Signature,
}

impl TextConcat {
    fn new() -> TextConcat {
        TextConcat { signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for TextConcat {
    fn name(&self) -> &str {
        CONCAT
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [left, right] => BinaryTypeCoercer::new(left, &Operator::StringConcat, right).get_result_type(),
            _ => exec_err!("|| has two operands"),
        }
    }
    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|f| f.data_type().clone()).collect();
        let is_nullable = args.arg_fields.iter().any(|f| f.is_nullable());
        Ok(Arc::new(Field::new(CONCAT, self.return_type(&types)?, is_nullable)))
    }
    fn is_strict(&self) -> bool {
        true
    }
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = arrays(&arguments.args).is_empty();
        let rows = if is_constant { 1 } else { arguments.number_rows };
        let arrays = arguments.args.iter().map(|argument| argument.to_array(rows));
        let arrays = arrays.collect::<Result<Vec<_>>>()?;
        let fields = arrays.iter().map(|array| Field::new("", array.data_type().clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let batch = RecordBatch::try_new(schema, arrays)?;
        let operand = |n| Arc::new(Column::new("", n)) as Arc<dyn PhysicalExpr>;
        let joined = PhysicalBinary::new(operand(0), Operator::StringConcat, operand(1)).evaluate(&batch)?;
        let joined = joined.into_array(rows)?;
        let joined = match joined.data_type() == arguments.return_field.data_type() {
            true => joined,
            false => datafusion::arrow::compute::cast(&joined, arguments.return_field.data_type())?,
        };
        match is_constant && arguments.number_rows != 1 {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&joined, 0)?)),
            false => Ok(ColumnarValue::Array(joined)),
        }
    }
}
