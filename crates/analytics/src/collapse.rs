//! Rows of one key made one before a join (eager aggregation: Yan and Larson, VLDB 1995).
//!
//! A join repeats rows: every order line carries its order to the sum above. Where the sum is over columns
//! of one table, and everything else needs only the first columns of that table's primary key, rows that
//! agree in what is needed can be summed before they are joined. Segments are sorted by primary key, so
//! such rows stand side by side and collapsing them costs a comparison with the row before; no hash table.
//! Rows that should have met but did not are added up above: a collapse need not be complete.
//!
//! The same for the inner side of EXISTS and NOT EXISTS, where equal rows count once.
//!
//! KEEPS: the plan's schema, and its answer whatever the order of the rows is.

use super::collapse_exec::CollapseExec;
use super::provider::ColumnTable;
use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::catalog::Session;
use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, DFSchemaRef, Result, TableReference, internal_err};
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{
    Aggregate, Expr, ExprSchemable, Extension, Filter, Join, JoinType, LogicalPlan, Projection,
    SubqueryAlias, TableScan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore, binary_expr, case, cast,
    lit,
};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};
use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

/// Neighbours with equal keys become one row: the keys, then a partial aggregate each.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Collapse {
    input: Arc<LogicalPlan>,
    keys: Vec<Column>,
    partials: Vec<Partial>,
    schema: DFSchemaRef,
}

/// A partial aggregate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Partial {
    kind: Kind,
    argument: Expr,
    /// The column that holds it.
    name: String,
    data_type: DataType,
}

/// What is known of a run of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// Sum of what is not null; null if all is.
    Sum,
    /// Number of values that are not null.
    Count,
}

impl PartialOrd for Collapse {
    fn partial_cmp(&self, other: &Collapse) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl Collapse {
    fn try_new(input: Arc<LogicalPlan>, keys: Vec<Column>, partials: Vec<Partial>) -> Result<Collapse> {
        let mut fields: Vec<(Option<TableReference>, FieldRef)> = Vec::new();
        for key in &keys {
            let (qualifier, field) = input.schema().qualified_field_from_column(key)?;
            fields.push((qualifier.cloned(), field.clone()));
        }
        for partial in &partials {
            let nullable = partial.kind == Kind::Sum;
            fields.push((None, Arc::new(Field::new(&partial.name, partial.data_type.clone(), nullable))));
        }
        let schema = DFSchema::new_with_metadata(fields, input.schema().metadata().clone())?;
        Ok(Collapse { input, keys, partials, schema: Arc::new(schema) })
    }
}

impl UserDefinedLogicalNodeCore for Collapse {
    fn name(&self) -> &str {
        "Collapse"
    }
    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }
    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }
    fn expressions(&self) -> Vec<Expr> {
        let keys = self.keys.iter().cloned().map(Expr::Column);
        keys.chain(self.partials.iter().map(|p| p.argument.clone())).collect()
    }
    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<String> = self.keys.iter().map(Column::flat_name).collect();
        write!(f, "Collapse: keys=[{}]", keys.join(", "))
    }
    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Collapse> {
        let (Some(input), true) = (inputs.pop(), inputs.is_empty()) else {
            return internal_err!("a collapse has one input");
        };
        let mut exprs = exprs.into_iter();
        let mut keys = Vec::new();
        for e in exprs.by_ref().take(self.keys.len()) {
            let Expr::Column(column) = e else { return internal_err!("keys of a collapse are columns") };
            keys.push(column);
        }
        let partial = |(partial, argument): (&Partial, Expr)| Partial { argument, ..partial.clone() };
        let partials = self.partials.iter().zip(exprs).map(partial).collect();
        Collapse::try_new(Arc::new(input), keys, partials)
    }
}

/// Makes operators of [`Collapse`].
#[derive(Debug)]
pub(super) struct CollapsePlanner;

#[async_trait]
impl ExtensionPlanner for CollapsePlanner {
    async fn plan_extension(
        &self,
        planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        logical_inputs: &[&LogicalPlan],
        physical_inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        context: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(node) = node.as_any().downcast_ref::<Collapse>() else { return Ok(None) };
        let schema = logical_inputs[0].schema();
        let keys = node.keys.iter().map(|key| schema.index_of_column(key)).collect::<Result<Vec<usize>>>()?;
        let mut partials = Vec::new();
        for partial in &node.partials {
            let argument = planner.create_physical_expr(&partial.argument, schema, session, context)?;
            partials.push((partial.kind, argument));
        }
        let schema = node.schema.inner().clone();
        Ok(Some(Arc::new(CollapseExec::new(physical_inputs[0].clone(), keys, partials, schema))))
    }
}

/// Puts collapses wherever they help.
pub(super) fn collapse(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_down_with_subqueries(|node| {
        let better = match &node {
            LogicalPlan::Aggregate(aggregate) => below_aggregate(aggregate)?,
            LogicalPlan::Join(join) => below_exists(join)?,
            _ => None,
        };
        Ok(better.map_or_else(|| Transformed::no(node), Transformed::yes))
    })
    .map(|t| t.data)
}

/// An aggregate over joins, over partial aggregates of one table.
fn below_aggregate(aggregate: &Aggregate) -> Result<Option<LogicalPlan>> {
    if !has_join(&aggregate.input) || aggregate.group_expr.iter().any(|e| matches!(e, Expr::GroupingSet(_))) {
        return Ok(None);
    }
    let mut calls = Vec::new();
    for e in &aggregate.aggr_expr {
        let Some(call) = Call::of(e, aggregate.input.schema())? else { return Ok(None) };
        calls.push(call);
    }
    let mut needed = BTreeSet::new();
    aggregate.group_expr.iter().for_each(|e| needed.extend(e.column_refs().into_iter().cloned()));
    let partials: Vec<Partial> = calls.iter().map(|c| c.partial.clone()).collect();
    let is_over_columns = partials.iter().any(|p| !p.argument.column_refs().is_empty());
    if is_over_columns && let Some(input) = sink(&aggregate.input, &needed, &partials)? {
        return replaced(
            aggregate,
            input,
            |input, call| Ok(Some(column_named(input, &call.partial.name)?)),
            &calls,
        );
    }
    // Sums of the other tables' columns count a row as often as this table repeats it.
    let times = Partial {
        kind: Kind::Count,
        argument: lit(1i64),
        name: format!("rows per {}", aggregate.input.schema().fields().len()),
        data_type: DataType::Int64,
    };
    for call in &calls {
        needed.extend(call.partial.argument.column_refs().into_iter().cloned());
    }
    let Some(input) = sink(&aggregate.input, &needed, std::slice::from_ref(&times))? else { return Ok(None) };
    let weighted = |input: &LogicalPlan, call: &Call| {
        let times = column_named(input, &times.name)?;
        let argument = call.partial.argument.clone();
        Ok(match call.partial.kind {
            Kind::Sum if call.partial.data_type != DataType::Int64 => None,
            Kind::Sum => {
                let multiply = datafusion::logical_expr::Operator::Multiply;
                Some(binary_expr(cast(argument, DataType::Int64), multiply, times))
            }
            Kind::Count if argument.column_refs().is_empty() => Some(times),
            Kind::Count => Some(case(argument.is_null()).when(lit(true), lit(0i64)).otherwise(times)?),
        })
    };
    replaced(aggregate, input, weighted, &calls)
}

/// A call of an aggregate function that partial results add up to.
struct Call {
    partial: Partial,
}

impl Call {
    fn of(e: &Expr, input: &DFSchema) -> Result<Option<Call>> {
        let name = format!("partial {}", e.schema_name());
        let Expr::AggregateFunction(AggregateFunction { func, params }) = e.clone().unalias() else {
            return Ok(None);
        };
        let kind = match func.name() {
            "sum" => Kind::Sum,
            "count" => Kind::Count,
            _ => return Ok(None),
        };
        let [argument] = params.args.as_slice() else { return Ok(None) };
        if params.distinct || params.filter.is_some() || !params.order_by.is_empty() || argument.is_volatile()
        {
            return Ok(None);
        }
        let data_type = match (kind, argument.get_type(input)?) {
            (Kind::Count, _) | (Kind::Sum, DataType::Int64) => DataType::Int64,
            (Kind::Sum, DataType::Decimal128(precision, scale)) => {
                DataType::Decimal128((precision + 10).min(38), scale)
            }
            _ => return Ok(None),
        };
        Ok(Some(Call { partial: Partial { kind, argument: argument.clone(), name, data_type } }))
    }
}

/// The aggregate with sums of what the new input has, under its old names and types.
fn replaced(
    aggregate: &Aggregate,
    input: LogicalPlan,
    summand: impl Fn(&LogicalPlan, &Call) -> Result<Option<Expr>>,
    calls: &[Call],
) -> Result<Option<LogicalPlan>> {
    let mut sums = Vec::new();
    for call in calls {
        let Some(summand) = summand(&input, call)? else { return Ok(None) };
        let sum = AggregateFunction::new_udf(sum_udaf(), vec![summand], false, None, Vec::new(), None);
        sums.push(Expr::AggregateFunction(sum).alias(format!("total {}", call.partial.name)));
    }
    let groups = aggregate.group_expr.len();
    let new = Aggregate::try_new(Arc::new(input), aggregate.group_expr.clone(), sums)?;
    let mut columns = Vec::new();
    for (i, (qualifier, field)) in aggregate.schema.iter().enumerate() {
        let column = Expr::Column(Column::from(new.schema.qualified_field(i)));
        columns.push(if i < groups {
            column
        } else {
            // No rows: a count is 0, while a sum is null.
            let is_count = calls[i - groups].partial.kind == Kind::Count;
            let value = match is_count && groups == 0 {
                true => case(column.clone().is_null()).when(lit(true), lit(0i64)).otherwise(column)?,
                false => column,
            };
            cast(value, field.data_type().clone()).alias_qualified(qualifier.cloned(), field.name())
        });
    }
    let input = Arc::new(LogicalPlan::Aggregate(new));
    let schema = aggregate.schema.clone();
    Ok(Some(LogicalPlan::Projection(Projection::try_new_with_schema(columns, input, schema)?)))
}

/// EXISTS and NOT EXISTS over fewer rows.
fn below_exists(join: &Join) -> Result<Option<LogicalPlan>> {
    if !matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark) {
        return Ok(None);
    }
    let mut needed = BTreeSet::new();
    join.on.iter().for_each(|(_, e)| needed.extend(e.column_refs().into_iter().cloned()));
    if let Some(filter) = &join.filter {
        let columns = filter.column_refs().into_iter().cloned();
        needed.extend(columns.filter(|c| join.right.schema().has_column(c)));
    }
    let Some(right) = sink(&join.right, &needed, &[])? else { return Ok(None) };
    let mut join = join.clone();
    join.right = Arc::new(right);
    Ok(Some(LogicalPlan::Join(join)))
}

fn has_join(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Join(_) => true,
        LogicalPlan::Projection(_) | LogicalPlan::Filter(_) | LogicalPlan::SubqueryAlias(_) => {
            plan.inputs().into_iter().any(has_join)
        }
        _ => false,
    }
}

fn column_named(plan: &LogicalPlan, name: &str) -> Result<Expr> {
    let schema = plan.schema();
    let Some(i) = schema.fields().iter().position(|f| f.name() == name) else {
        return internal_err!("{name} was lost on the way up");
    };
    Ok(Expr::Column(Column::from(schema.qualified_field(i))))
}

/// The plan over a collapsed table: with the columns `needed` and the partial aggregates, whose arguments
/// are over the plan's columns. `None`: nothing would be gained, or it would not be the same.
fn sink(plan: &LogicalPlan, needed: &BTreeSet<Column>, partials: &[Partial]) -> Result<Option<LogicalPlan>> {
    match plan {
        LogicalPlan::TableScan(scan) => collapsed(plan, scan, needed, partials),
        LogicalPlan::Filter(filter) => {
            if let LogicalPlan::TableScan(scan) = filter.input.as_ref() {
                return collapsed(plan, scan, needed, partials);
            }
            let mut below = needed.clone();
            below.extend(filter.predicate.column_refs().into_iter().cloned());
            let Some(input) = sink(&filter.input, &below, partials)? else { return Ok(None) };
            Ok(Some(LogicalPlan::Filter(Filter::try_new(filter.predicate.clone(), Arc::new(input))?)))
        }
        LogicalPlan::Projection(projection) => {
            let mut exprs = Vec::new();
            let mut below = BTreeSet::new();
            for column in needed {
                let e = &projection.expr[projection.schema.index_of_column(column)?];
                below.extend(e.column_refs().into_iter().cloned());
                exprs.push(e.clone());
            }
            let meaning: HashMap<Column, Expr> = projection
                .schema
                .columns()
                .into_iter()
                .zip(projection.expr.iter().map(|e| e.clone().unalias()))
                .collect();
            let partials = with_columns(partials, |c| meaning.get(c).cloned())?;
            let Some(input) = sink(&projection.input, &below, &partials)? else { return Ok(None) };
            for partial in &partials {
                exprs.push(column_named(&input, &partial.name)?);
            }
            Ok(Some(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(input))?)))
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let inner = alias.input.schema().columns();
            let below = |c: &Column| alias.schema.index_of_column(c).ok().map(|i| inner[i].clone());
            let needed_below = needed.iter().filter_map(below).collect();
            let partials = with_columns(partials, |c| below(c).map(Expr::Column))?;
            let Some(input) = sink(&alias.input, &needed_below, &partials)? else { return Ok(None) };
            let alias = SubqueryAlias::try_new(Arc::new(input), alias.alias.clone())?;
            Ok(Some(LogicalPlan::SubqueryAlias(alias)))
        }
        LogicalPlan::Join(join) => sink_into_join(join, needed, partials),
        _ => Ok(None),
    }
}

fn sink_into_join(
    join: &Join,
    needed: &BTreeSet<Column>,
    partials: &[Partial],
) -> Result<Option<LogicalPlan>> {
    use JoinType::*;
    // A repeated row of this side repeats the join's rows just as often.
    let (left, right) = match join.join_type {
        Inner => (true, true),
        Left | LeftSemi | LeftAnti | LeftMark => (true, false),
        Right | RightSemi | RightAnti | RightMark => (false, true),
        Full => (false, false),
    };
    // Equal rows of a join come from both sides: nothing is said of one.
    if partials.is_empty() {
        return Ok(None);
    }
    let mut used = needed.clone();
    for (a, b) in &join.on {
        used.extend(a.column_refs().into_iter().chain(b.column_refs()).cloned());
    }
    used.extend(join.filter.iter().flat_map(|f| f.column_refs().into_iter().cloned().collect::<Vec<_>>()));
    for (is_left, may) in [(true, left), (false, right)] {
        let side = if is_left { &join.left } else { &join.right };
        let has_all = |p: &Partial| p.argument.column_refs().iter().all(|c| side.schema().has_column(c));
        if !may || !partials.iter().all(has_all) {
            continue;
        }
        let below = used.iter().filter(|c| side.schema().has_column(c)).cloned().collect();
        let Some(new) = sink(side, &below, partials)? else { continue };
        let (left, right) = match is_left {
            true => (Arc::new(new), join.right.clone()),
            false => (join.left.clone(), Arc::new(new)),
        };
        let (on, filter) = (join.on.clone(), join.filter.clone());
        let new = Join::try_new(
            left,
            right,
            on,
            filter,
            join.join_type,
            join.join_constraint,
            join.null_equality,
            join.null_aware,
        )?;
        return Ok(Some(LogicalPlan::Join(new)));
    }
    Ok(None)
}

/// The partial aggregates with other columns in their arguments.
fn with_columns(partials: &[Partial], to: impl Fn(&Column) -> Option<Expr>) -> Result<Vec<Partial>> {
    let partial = |partial: &Partial| {
        let argument = partial.argument.clone().transform_up(|e| match &e {
            Expr::Column(column) => match to(column) {
                Some(new) => Ok(Transformed::yes(new)),
                None => internal_err!("{column} comes from nowhere"),
            },
            _ => Ok(Transformed::no(e)),
        })?;
        Ok(Partial { argument: argument.data, ..partial.clone() })
    };
    partials.iter().map(partial).collect()
}

/// A scan collapsed, if rows that agree in what is needed stand side by side.
fn collapsed(
    plan: &LogicalPlan,
    scan: &TableScan,
    needed: &BTreeSet<Column>,
    partials: &[Partial],
) -> Result<Option<LogicalPlan>> {
    let Ok(provider) = source_as_provider(&scan.source) else { return Ok(None) };
    let Some(columns) = provider.downcast_ref::<ColumnTable>() else { return Ok(None) };
    let table = &columns.table;
    let is_needed = |c: &usize| needed.iter().any(|n| n.name == table.columns[*c].name);
    let first = table.primary_key.iter().take_while(|c| is_needed(c)).count();
    let is_prefix = table.primary_key[first..].iter().all(|c| !is_needed(c));
    if first == 0 || first == table.primary_key.len() || !is_prefix || scan.fetch.is_some() {
        return Ok(None);
    }
    // More columns than that may set neighbours apart; the operator finds out.
    let others = needed.len() - first;
    if others > first {
        return Ok(None);
    }
    let keys = needed.iter().cloned().collect();
    let node = Collapse::try_new(Arc::new(plan.clone()), keys, partials.to_vec())?;
    Ok(Some(LogicalPlan::Extension(Extension { node: Arc::new(node) })))
}
