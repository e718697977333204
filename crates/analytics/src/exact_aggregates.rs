//! Aggregates whose values or types DataFusion has otherwise than PostgreSQL.
//!
//! An average of `numeric` or of whole numbers is the quotient of its sum and its count, with the digits of a quotient. A sum of `bigint`
//! is `numeric`: it has room where 64 bits would wrap around. Arguments of a type that PostgreSQL's aggregate does not
//! take are refused. Intervals are grouped and ordered by their length.

use super::lifted_subqueries::columns;
use super::scalars::{Argument, average, order_key, quotient, with_typed_default};
use super::{excluded_rows, joined_texts, moving_frames};
use base::{SqlError, SqlState};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::functions_aggregate::average::avg_udaf;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::expr::{AggregateFunction, WindowFunction};
use datafusion::logical_expr::{
    Aggregate, AggregateUDF, Cast, Distinct, Expr, ExprSchemable, LogicalPlan, Projection, SortExpr, Window,
    WindowFrameBound, WindowFrameUnits, WindowFunctionDefinition,
};
use std::sync::Arc;

/// Aggregates that look at the order of labels at most.
const OF_LABELS: [&str; 10] = [
    "array_agg",
    "count",
    "min",
    "max",
    "first_value",
    "last_value",
    "nth_value",
    super::ordered_sets::PERCENTILE,
    super::ordered_sets::MODE,
    super::only::ONLY,
];

/// Digits of a sum of integers.
const WIDE: DataType = DataType::Decimal128(38, 0);

/// A node whose expressions are settled, with such aggregates made right. Names stay; types of what changed do not.
/// Errors: 42883, 42804.
pub(super) fn settle(node: LogicalPlan) -> Result<LogicalPlan> {
    match node {
        LogicalPlan::Aggregate(aggregate) => of_aggregate(aggregate),
        LogicalPlan::Window(window) => of_window(window),
        LogicalPlan::Sort(mut sort) => {
            refuse_unordered(sort.expr.iter().map(|key| &key.expr), sort.input.schema())?;
            by_length(&mut sort.expr, sort.input.schema());
            Ok(LogicalPlan::Sort(sort))
        }
        LogicalPlan::Distinct(Distinct::All(input)) => distinct(input),
        node => Ok(node),
    }
}

/// What becomes of a call.
enum Exact {
    Same,
    /// Another call in its place.
    Other(Expr),
    /// The quotient of two calls.
    Quotient(Expr, Expr),
    /// The same of a sum of whole numbers and their count.
    Average(Expr, Expr),
}

/// Sort keys that are intervals, by their length; `jsonb` by its key.
fn by_length(keys: &mut [SortExpr], schema: &DFSchema) {
    for key in keys {
        if let Some(ordered) = order_key(&key.expr, schema) {
            key.expr = ordered;
        }
    }
}

/// Errors: 42883 for `json`, whose values have no order.
fn refuse_unordered<'a>(exprs: impl IntoIterator<Item = &'a Expr>, schema: &DFSchema) -> Result<()> {
    match exprs.into_iter().any(|e| Argument::of(e, schema) == Argument::Json) {
        false => Ok(()),
        true => {
            let told = "could not identify an ordering operator for type json";
            let error = SqlError::new(SqlState::UNDEFINED_FUNCTION, told);
            Err(external(error.hint("Use jsonb, which has an order.")))
        }
    }
}

/// The same of groups. The planner adds to a key all columns that it determines: `json` among them makes no group of its own.
fn refuse_unordered_groups(groups: &[Expr], schema: &DFSchema) -> Result<()> {
    let place = |e: &Expr| match e {
        Expr::Column(column) => schema.index_of_column(column).ok(),
        _ => None,
    };
    let places: Vec<usize> = groups.iter().filter_map(place).collect();
    let is_determined = |n: usize| {
        schema.functional_dependencies().iter().any(|dependence| {
            dependence.target_indices.contains(&n)
                && !dependence.source_indices.contains(&n)
                && dependence.source_indices.iter().all(|key| places.contains(key))
        })
    };
    refuse_unordered(groups.iter().filter(|e| !place(e).is_some_and(is_determined)), schema)
}

/// DISTINCT of rows with intervals is a grouping of them.
fn distinct(input: Arc<LogicalPlan>) -> Result<LogicalPlan> {
    let all = columns(&input);
    refuse_unordered(&all, input.schema())?;
    if !all.iter().any(|e| order_key(e, input.schema()).is_some()) {
        return Ok(LogicalPlan::Distinct(Distinct::All(input)));
    }
    of_aggregate(Aggregate::try_new(input, all, Vec::new())?)
}

/// Groups that are intervals, as groups of a length that show one of its intervals.
fn with_lengths(aggregate: Aggregate) -> Result<LogicalPlan> {
    let groups = &aggregate.group_expr;
    let is_span = |e: &Expr| order_key(e, aggregate.input.schema()).is_some();
    if groups.iter().any(|e| matches!(e, Expr::GroupingSet(_))) {
        let refused = SqlError::unsupported("GROUPING SETS of intervals and of jsonb");
        let mut any = false;
        for e in groups {
            e.apply(|e| {
                any |= is_span(e);
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        return if any { Err(external(refused)) } else { Ok(LogicalPlan::Aggregate(aggregate)) };
    }
    if !groups.iter().any(is_span) {
        return Ok(LogicalPlan::Aggregate(aggregate));
    }
    let mut keys = Vec::with_capacity(groups.len());
    let mut exprs = aggregate.aggr_expr.clone();
    for (n, e) in groups.iter().enumerate() {
        let Some(key) = order_key(e, aggregate.input.schema()) else {
            keys.push(e.clone());
            continue;
        };
        keys.push(key.alias(format!("length of group {n}")));
        let first =
            AggregateFunction::new_udf(first_value_udaf(), vec![e.clone()], false, None, Vec::new(), None);
        exprs.push(Expr::AggregateFunction(first).alias(format!("shown of group {n}")));
    }
    let new = LogicalPlan::Aggregate(Aggregate::try_new(aggregate.input.clone(), keys, exprs)?);
    let made: Vec<Expr> = columns(&new);
    let mut shown = Vec::new();
    for (n, (qualifier, field)) in aggregate.schema.iter().enumerate() {
        let e = match groups.get(n).is_some_and(is_span) {
            true => Expr::Column(Column::new_unqualified(format!("shown of group {n}"))),
            false => made[n].clone(),
        };
        shown.push(e.alias_qualified(qualifier.cloned(), field.name()));
    }
    Ok(LogicalPlan::Projection(Projection::try_new(shown, Arc::new(new))?))
}

fn of_aggregate(aggregate: Aggregate) -> Result<LogicalPlan> {
    if let Some((arrays, shown)) = joined_texts::apart(&aggregate)? {
        let arrays = of_aggregate(arrays)?;
        return Ok(LogicalPlan::Projection(Projection::try_new(shown, Arc::new(arrays))?));
    }
    refuse_unordered_groups(&aggregate.group_expr, aggregate.input.schema())?;
    let mut calls = Calls::default();
    for e in &aggregate.aggr_expr {
        let name = e.schema_name().to_string();
        let exact = match e.clone().unalias() {
            Expr::AggregateFunction(call) => of_call(
                &call.func,
                &call.params.args,
                call.params.distinct,
                aggregate.input.schema(),
                &|func, args| {
                    let mut call = AggregateFunction { func, params: call.params.clone() };
                    call.params.args = args;
                    Expr::AggregateFunction(call)
                },
            )?,
            _ => Exact::Same,
        };
        if let Expr::AggregateFunction(call) = e.clone().unalias()
            && let Some(filter) = &call.params.filter
        {
            refuse_filter(filter, aggregate.input.schema())?;
        }
        calls.add(e, name, exact);
    }
    if !calls.is_changed {
        return with_lengths(aggregate);
    }
    let groups = aggregate.schema.fields().len() - aggregate.aggr_expr.len();
    let new = Aggregate::try_new(aggregate.input.clone(), aggregate.group_expr.clone(), calls.exprs)?;
    let new = with_lengths(new)?;
    shown(&aggregate.schema, groups, &calls.results, new)
}

fn of_window(window: Window) -> Result<LogicalPlan> {
    let mut calls = Calls::default();
    for e in &window.window_expr {
        let name = e.schema_name().to_string();
        let schema = window.input.schema();
        refuse_distances(e, schema)?;
        let (e, is_by_peers) = by_peers(e, schema);
        let exact = match e.clone().unalias() {
            Expr::WindowFunction(call) if call.params.distinct => {
                return Err(external(SqlError::new(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    "DISTINCT is not implemented for window functions",
                )));
            }
            Expr::WindowFunction(mut call) if is_by_interval(&call, schema) => {
                by_length(&mut call.params.order_by, schema);
                for e in &mut call.params.partition_by {
                    if let Some(key) = order_key(e, schema) {
                        *e = key;
                    }
                }
                Exact::Other(Expr::WindowFunction(call))
            }
            Expr::WindowFunction(call) => match &call.fun {
                WindowFunctionDefinition::AggregateUDF(func) => {
                    of_call(func, &call.params.args, false, window.input.schema(), &|func, args| {
                        let fun = WindowFunctionDefinition::AggregateUDF(func);
                        let mut call = WindowFunction { fun, params: call.params.clone() };
                        call.params.args = args;
                        Expr::WindowFunction(Box::new(call))
                    })?
                }
                WindowFunctionDefinition::WindowUDF(_) => {
                    match with_typed_default(&call.params.args, schema)? {
                        Some(args) => {
                            let mut call = call.clone();
                            call.params.args = args;
                            Exact::Other(Expr::WindowFunction(call))
                        }
                        None => Exact::Same,
                    }
                }
            },
            _ => Exact::Same,
        };
        let exact = match exact {
            Exact::Same => match moving_frames::replayed(&e.clone().unalias(), schema) {
                Some(call) => Exact::Other(call),
                None if is_by_peers => Exact::Other(e.clone().unalias()),
                None => Exact::Same,
            },
            Exact::Other(call) => Exact::Other(moving_frames::replayed(&call, schema).unwrap_or(call)),
            exact => exact,
        };
        calls.add(&e, name, exact);
    }
    if !excluded_rows::settle(&mut calls.exprs) && !calls.is_changed {
        return Ok(LogicalPlan::Window(window));
    }
    let inputs = window.input.schema().fields().len();
    let new = LogicalPlan::Window(Window::try_new(calls.exprs, window.input.clone())?);
    shown(&window.schema, inputs, &calls.results, new)
}

/// A window whose frame begins and ends with rows or peers, told as GROUPS where RANGE cannot be: the planner knows
/// distances of numbers, texts and times only, and no other type's peers either. Whether it was changed.
fn by_peers(e: &Expr, schema: &DFSchema) -> (Expr, bool) {
    let has_distances = |e: &Expr| {
        e.get_type(schema).is_ok_and(|data_type| {
            data_type.is_numeric()
                || data_type.is_string()
                || matches!(data_type, DataType::Date32 | DataType::Date64 | DataType::Timestamp(..))
                || matches!(data_type, DataType::Boolean | DataType::Null | DataType::List(_))
        })
    };
    let has_offset = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::Preceding(offset) | WindowFrameBound::Following(offset) => !offset.is_null(),
        WindowFrameBound::CurrentRow => false,
    };
    // A call whose parts were settled has its former name as an alias.
    match e.clone().unalias() {
        Expr::WindowFunction(mut call)
            if call.params.window_frame.units == WindowFrameUnits::Range
                && !has_offset(&call.params.window_frame.start_bound)
                && !has_offset(&call.params.window_frame.end_bound)
                && !call.params.order_by.iter().all(|key| has_distances(&key.expr)) =>
        {
            call.params.window_frame.units = WindowFrameUnits::Groups;
            (Expr::WindowFunction(call), true)
        }
        _ => (e.clone(), false),
    }
}

/// Errors: 0A000 for a frame of distances in a type that has none.
fn refuse_distances(e: &Expr, schema: &DFSchema) -> Result<()> {
    let Expr::WindowFunction(call) = e.clone().unalias() else { return Ok(()) };
    let frame = &call.params.window_frame;
    let has_offset = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::Preceding(offset) | WindowFrameBound::Following(offset) => !offset.is_null(),
        WindowFrameBound::CurrentRow => false,
    };
    let [key] = call.params.order_by.as_slice() else { return Ok(()) };
    if frame.units != WindowFrameUnits::Range
        || !(has_offset(&frame.start_bound) || has_offset(&frame.end_bound))
        || key.expr.get_type(schema).is_ok_and(|data_type| {
            data_type.is_numeric()
                || matches!(data_type, DataType::Date32 | DataType::Timestamp(..) | DataType::Null)
                    && !super::types::is_label(&data_type)
        })
    {
        return Ok(());
    }
    let told = format!(
        "RANGE with offset PRECEDING/FOLLOWING is not supported for column type {}",
        Argument::type_name(&key.expr, schema)
    );
    Err(external(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, told)))
}

fn is_by_interval(call: &WindowFunction, schema: &DFSchema) -> bool {
    let keys = call.params.order_by.iter().map(|key| &key.expr).chain(&call.params.partition_by);
    keys.into_iter().any(|e| order_key(e, schema).is_some())
}

/// The calls that there are now, each once, and which of them make which result.
#[derive(Default)]
struct Calls {
    exprs: Vec<Expr>,
    results: Vec<Made>,
    is_changed: bool,
}

enum Made {
    Call(String),
    Quotient(String, String),
    Average(String, String),
}

impl Calls {
    fn add(&mut self, e: &Expr, name: String, exact: Exact) {
        self.is_changed |= !matches!(exact, Exact::Same);
        let made = match exact {
            Exact::Same => {
                self.exprs.push(e.clone());
                Made::Call(name)
            }
            Exact::Other(call) => Made::Call(self.named(call, format!("exact {name}"))),
            Exact::Quotient(sum, count) => {
                let (sum, count) = self.both_named(sum, count, &name);
                Made::Quotient(sum, count)
            }
            Exact::Average(sum, count) => {
                let (sum, count) = self.both_named(sum, count, &name);
                Made::Average(sum, count)
            }
        };
        self.results.push(made);
    }

    fn both_named(&mut self, sum: Expr, count: Expr, name: &str) -> (String, String) {
        (self.named(sum, format!("sum for {name}")), self.named(count, format!("count for {name}")))
    }

    fn named(&mut self, call: Expr, name: String) -> String {
        self.exprs.push(call.alias(&name));
        name
    }
}

/// The new node's columns under the old names.
fn shown(schema: &DFSchema, before: usize, results: &[Made], new: LogicalPlan) -> Result<LogicalPlan> {
    let mut exprs: Vec<Expr> = columns(&new).into_iter().take(before).collect();
    let column = |name: &String| Expr::Column(Column::new_unqualified(name));
    for (made, (qualifier, field)) in results.iter().zip(schema.iter().skip(before)) {
        let e = match made {
            Made::Call(name) => column(name),
            Made::Quotient(sum, count) => quotient(&column(sum), &column(count), new.schema().as_ref())?,
            Made::Average(sum, count) => {
                let sum = Expr::Cast(Cast::new(Box::new(column(sum)), WIDE));
                average(sum, column(count), super::averages::DIGITS)
            }
        };
        exprs.push(e.alias_qualified(qualifier.cloned(), field.name()));
    }
    Ok(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(new))?))
}

fn is_whole(e: &Expr, schema: &DFSchema) -> bool {
    e.get_type(schema).is_ok_and(|data_type| data_type.is_integer())
}

fn of_call(
    func: &Arc<AggregateUDF>,
    args: &[Expr],
    is_distinct: bool,
    schema: &DFSchema,
    call: &dyn Fn(Arc<AggregateUDF>, Vec<Expr>) -> Expr,
) -> Result<Exact> {
    let of = |n: usize| args.get(n).map(|e| Argument::of(e, schema));
    let first = of(0);
    refuse_arguments(func.name(), args, schema)?;
    Ok(match (func.name(), args) {
        ("avg", [_]) if first == Some(Argument::Span) => Exact::Same,
        ("avg", [_]) if first == Some(Argument::Numeric) => {
            Exact::Quotient(call(sum_udaf(), args.to_vec()), call(count_udaf(), args.to_vec()))
        }
        ("avg", [e]) if is_whole(e, schema) => {
            // A sum of 32 bits has room in 64.
            let summed = match first {
                Some(Argument::BigInt) => Expr::Cast(Cast::new(Box::new(e.clone()), WIDE)),
                _ => e.clone(),
            };
            Exact::Average(call(sum_udaf(), vec![summed]), call(count_udaf(), args.to_vec()))
        }
        // The one of the greatest or the least length.
        ("min" | "max", [e])
            if first == Some(Argument::Span)
                && let Some(expr) = order_key(e, schema) =>
        {
            let is_min = func.name() == "min";
            let key = SortExpr { expr, asc: is_min, nulls_first: false };
            match call(first_value_udaf(), vec![e.clone()]) {
                Expr::AggregateFunction(mut call) => {
                    call.params.order_by = vec![key];
                    Exact::Other(Expr::AggregateFunction(call))
                }
                _ => return Err(external(SqlError::unsupported("min and max of intervals over windows"))),
            }
        }
        // Values are told apart by what they are ordered by.
        ("count", [e]) if is_distinct && let Some(key) = order_key(e, schema) => {
            Exact::Other(call(func.clone(), vec![key]))
        }
        ("avg", _) if super::averages::is_this(func) => Exact::Other(call(avg_udaf(), args.to_vec())),
        ("sum", [e]) if first == Some(Argument::BigInt) && !matches!(e, Expr::Literal(..)) => {
            Exact::Other(call(func.clone(), vec![Expr::Cast(Cast::new(Box::new(e.clone()), WIDE))]))
        }
        _ => Exact::Same,
    })
}

fn refuse_arguments(name: &str, args: &[Expr], schema: &DFSchema) -> Result<()> {
    let kinds: Vec<Argument> = args.iter().map(|e| Argument::of(e, schema)).collect();
    if let ("avg", [Expr::Literal(ScalarValue::Utf8(_) | ScalarValue::Null, _)]) = (name, args) {
        let told = "function avg(unknown) is not unique";
        let hint = "Could not choose a best candidate function. You might need to add explicit type casts.";
        return Err(external(SqlError::new(SqlState(*b"42725"), told).hint(hint)));
    }
    let is_refused = match (name, kinds.as_slice()) {
        (_, kinds) if kinds.contains(&Argument::Label) && !OF_LABELS.contains(&name) => true,
        (
            "min" | "max",
            [
                Argument::Boolean
                | Argument::Uuid
                | Argument::Bytes
                | Argument::Json
                | Argument::Jsonb
                | Argument::Row(_)
                | Argument::Hardware,
            ],
        ) => true,
        ("string_agg", [Argument::Bytes, ..]) => {
            return Err(external(SqlError::unsupported("string_agg of bytea")));
        }
        ("string_agg", [first, separator]) => {
            let fits = |kind: &Argument| matches!(kind, Argument::Text | Argument::Unknown | Argument::Other);
            !fits(first) || !fits(separator)
        }
        ("avg", [kind]) => {
            use Argument as A;
            !matches!(kind, A::BigInt | A::Numeric | A::Number | A::Span | A::Unknown | A::Other)
        }
        ("count", [_, _, ..]) => true,
        _ => false,
    };
    if !is_refused {
        return Ok(());
    }
    let shown: Vec<String> = args.iter().map(|e| Argument::type_name(e, schema)).collect();
    let told = format!("function {name}({}) does not exist", shown.join(", "));
    Err(external(SqlError::new(SqlState::UNDEFINED_FUNCTION, told).hint(
        "No function matches the given name and argument types. You might need to add explicit type casts.",
    )))
}

fn refuse_filter(filter: &Expr, schema: &DFSchema) -> Result<()> {
    match Argument::of(filter, schema) {
        Argument::Boolean | Argument::Unknown | Argument::Other => Ok(()),
        _ => {
            let found = Argument::type_name(filter, schema);
            let told = format!("argument of FILTER must be type boolean, not type {found}");
            Err(external(SqlError::new(SqlState::DATATYPE_MISMATCH, told)))
        }
    }
}

fn external(error: SqlError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
