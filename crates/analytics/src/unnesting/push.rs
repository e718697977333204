//! The combinations of values from outside, pushed below the operators of a subquery.
//!
//! KEEPS: what comes of a plan has the combinations' columns first, then the plan's columns with their names.

use super::super::lateral::{bounds, lateral_of};
use super::by_equal_keys;
use super::mentions::{Substitute, named_in};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::functions_window::row_number::row_number;
use datafusion::logical_expr::expr::Sort as Key;
use datafusion::logical_expr::{
    Aggregate, Distinct, DistinctOn, Expr, ExprFunctionExt, Filter, Join, JoinType, LogicalPlan,
    LogicalPlanBuilder, Projection, Union, Unnest, Values, Window, cast, lit,
};
use std::cell::Cell;
use std::sync::Arc;

/// Aggregates whose value is made of the rows in their order.
const IN_ORDER: [&str; 4] = ["array_agg", "string_agg", "json_agg", "jsonb_agg"];

/// The combinations.
pub(super) struct Domain {
    rows: LogicalPlan,
    /// What they are called outside, and here.
    named: Vec<Column>,
    columns: Vec<Column>,
    number: usize,
    /// Columns made beside the combinations.
    made: Cell<usize>,
}

/// A plan with the combinations, and the column by which its rows are ordered, if they are.
struct Pushed {
    plan: LogicalPlan,
    order: Option<Column>,
}

/// OFFSET and LIMIT.
type Bounds = (Expr, Expr);

impl Domain {
    /// What a subquery names of the rows around it, each combination once.
    pub fn of(subquery: &LogicalPlan, around: &LogicalPlan, number: usize) -> Result<Option<Domain>> {
        let named = named_in(subquery, around.schema())?;
        if named.is_empty() {
            return Ok(None);
        }
        let columns: Vec<Column> =
            (0..named.len()).map(|n| Column::new_unqualified(format!("outside {number}.{n}"))).collect();
        let items =
            named.iter().zip(&columns).map(|(of, column)| Expr::Column(of.clone()).alias(&column.name));
        let rows = LogicalPlanBuilder::from(around.clone()).project(items)?.distinct()?.build()?;
        Ok(Some(Domain { rows, named, columns, number, made: Cell::new(0) }))
    }

    /// The subquery's rows for all combinations.
    pub fn computed(&self, subquery: &LogicalPlan) -> Result<Option<LogicalPlan>> {
        Ok(self.pushed(subquery, None)?.map(|pushed| pushed.plan))
    }

    pub fn keys(&self) -> Vec<Expr> {
        self.columns.iter().cloned().map(Expr::Column).collect()
    }

    fn renamed(&self, word: &str) -> Vec<Column> {
        let name = |n: usize| Column::new_unqualified(format!("{word} {}.{n}", self.number));
        (0..self.columns.len()).map(name).collect()
    }

    /// The combinations' columns under other names.
    pub fn keys_named(&self, word: &str) -> Vec<Expr> {
        let named = self.keys().into_iter().zip(self.renamed(word));
        named.map(|(key, column)| key.alias(column.name)).collect()
    }

    /// Rows around, joined to rows whose combinations have the names of [`Domain::keys_named`].
    pub fn joined(
        &self,
        around: &LogicalPlan,
        found: LogicalPlan,
        join_type: JoinType,
        condition: Option<Expr>,
    ) -> Result<LogicalPlan> {
        let outside = self.named.iter().cloned().map(Expr::Column);
        let on = outside.zip(self.renamed("found").into_iter().map(Expr::Column)).collect();
        by_equal_keys(around, found, on, join_type, condition)
    }

    fn new_column(&self, word: &str) -> Column {
        self.made.set(self.made.get() + 1);
        Column::new_unqualified(format!("{word} {}.{}", self.number, self.made.get()))
    }

    fn substitute(&self) -> Substitute<'_> {
        Substitute { named: &self.named, columns: &self.columns }
    }

    fn within(&self, e: &Expr, over: &DFSchema) -> Result<Expr> {
        self.substitute().within(e.clone(), over)
    }

    fn is_free(&self, plan: &LogicalPlan) -> Result<bool> {
        let named = named_in(plan, self.rows_around().schema())?;
        Ok(!named.iter().any(|column| self.named.contains(column)))
    }

    /// The plan whose columns are named.
    fn rows_around(&self) -> &LogicalPlan {
        match &self.rows {
            LogicalPlan::Distinct(Distinct::All(projection)) => projection.inputs()[0],
            rows => rows,
        }
    }

    /// A plan over the combinations; with bounds, the rows between them of each. `None` for an operator that is not known.
    fn pushed(&self, plan: &LogicalPlan, bounds_of_each: Option<&Bounds>) -> Result<Option<Pushed>> {
        match plan {
            LogicalPlan::SubqueryAlias(alias) => {
                let Some(pushed) = self.pushed(&alias.input, bounds_of_each)? else { return Ok(None) };
                let items = columns_of(&alias.input);
                self.projected(pushed, items, plan.schema()).map(Some)
            }
            LogicalPlan::Projection(projection) if !self.is_free(&projection.input)? => {
                let Some(pushed) = self.pushed(&projection.input, bounds_of_each)? else { return Ok(None) };
                let over = projection.input.schema();
                let items = projection.expr.iter().map(|e| self.within(e, over));
                self.projected(pushed, items.collect::<Result<_>>()?, plan.schema()).map(Some)
            }
            LogicalPlan::Sort(sort) if bounds_of_each.is_some() && sort.fetch.is_none() => {
                let Some(pushed) = self.pushed(&sort.input, None)? else { return Ok(None) };
                let key =
                    |key: &Key| Ok(Key { expr: self.within(&key.expr, sort.input.schema())?, ..key.clone() });
                let keys = sort.expr.iter().map(key).collect::<Result<Vec<_>>>()?;
                self.between(pushed, keys, bounds_of_each).map(Some)
            }
            plan if bounds_of_each.is_some() => {
                let Some(pushed) = self.pushed(plan, None)? else { return Ok(None) };
                let keys = pushed.order.iter().map(|c| Expr::Column(c.clone()).sort(true, false)).collect();
                self.between(pushed, keys, bounds_of_each).map(Some)
            }
            plan if self.is_free(plan)? => self.beside_each(plan).map(Some),
            plan => self.pushed_below(plan),
        }
    }

    /// A plan that depends on nothing of it, once for each combination.
    fn beside_each(&self, plan: &LogicalPlan) -> Result<Pushed> {
        let plan = match plan {
            LogicalPlan::EmptyRelation(empty)
                if empty.produce_one_row && empty.schema.fields().is_empty() =>
            {
                self.rows.clone()
            }
            plan => LogicalPlanBuilder::from(self.rows.clone()).cross_join(plan.clone())?.build()?,
        };
        Ok(Pushed { plan, order: None })
    }

    fn pushed_below(&self, plan: &LogicalPlan) -> Result<Option<Pushed>> {
        match plan {
            LogicalPlan::Projection(projection) => {
                let pushed = self.beside_each(&projection.input)?;
                let over = projection.input.schema();
                let items = projection.expr.iter().map(|e| self.within(e, over));
                self.projected(pushed, items.collect::<Result<_>>()?, plan.schema()).map(Some)
            }
            LogicalPlan::Filter(filter) => {
                let Some(pushed) = self.pushed(&filter.input, None)? else { return Ok(None) };
                let condition = self.within(&filter.predicate, filter.input.schema())?;
                let made = Filter::try_new(condition, Arc::new(pushed.plan))?;
                Ok(Some(Pushed { plan: LogicalPlan::Filter(made), order: pushed.order }))
            }
            // Of no order, where no bounds are asked for.
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => self.pushed(&sort.input, None),
            LogicalPlan::Limit(limit) => match bounds(limit) {
                Some(bounds) => self.pushed(&limit.input, Some(&bounds)),
                None => Ok(None),
            },
            LogicalPlan::Distinct(Distinct::All(input)) => {
                let Some(pushed) = self.pushed(input, None)? else { return Ok(None) };
                let bare =
                    self.projected(Pushed { order: None, ..pushed }, columns_of(input), plan.schema())?;
                let plan = LogicalPlan::Distinct(Distinct::All(Arc::new(bare.plan)));
                Ok(Some(Pushed { plan, order: None }))
            }
            LogicalPlan::Distinct(Distinct::On(on)) => self.distinct_on(on),
            LogicalPlan::Aggregate(aggregate) => self.aggregated(aggregate),
            LogicalPlan::Window(window) => self.windowed(window),
            LogicalPlan::Union(union) => self.united(union),
            LogicalPlan::Join(join) => self.pushed_into_join(join),
            LogicalPlan::Unnest(unnest) => self.unnested(unnest),
            LogicalPlan::Values(values) => self.rows_of_values(values).map(Some),
            _ => Ok(None),
        }
    }

    /// The combinations and expressions over a plan, under the names of a schema.
    fn projected(&self, pushed: Pushed, items: Vec<Expr>, schema: &DFSchema) -> Result<Pushed> {
        let mut exprs = self.keys();
        exprs.extend(pushed.order.iter().cloned().map(Expr::Column));
        for (e, (relation, field)) in items.into_iter().zip(schema.iter()) {
            exprs.push(e.unalias().alias_qualified(relation.cloned(), field.name()));
        }
        let plan = LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(pushed.plan))?);
        Ok(Pushed { plan, order: pushed.order })
    }

    /// The rows of each combination, numbered in an order, between bounds.
    fn between(&self, pushed: Pushed, keys: Vec<Key>, bounds: Option<&Bounds>) -> Result<Pushed> {
        let Some((skip, fetch)) = bounds else { return Ok(pushed) };
        let order = self.new_column("nth");
        let nth = row_number().partition_by(self.keys());
        let nth = if keys.is_empty() { nth.build()? } else { nth.order_by(keys).build()? };
        let number = || cast(Expr::Column(order.clone()), DataType::Int64);
        let is_within = number().gt(skip.clone()).and((number() - skip.clone()).lt_eq(fetch.clone()));
        let plan = LogicalPlanBuilder::from(pushed.plan)
            .window(vec![nth.alias(&order.name)])?
            .filter(is_within)?
            .build()?;
        Ok(Pushed { plan, order: Some(order) })
    }

    fn distinct_on(&self, on: &DistinctOn) -> Result<Option<Pushed>> {
        let Some(pushed) = self.pushed(&on.input, None)? else { return Ok(None) };
        let over = on.input.schema();
        let with_keys = |exprs: &[Expr]| -> Result<Vec<Expr>> {
            let rest = exprs.iter().map(|e| self.within(e, over));
            self.keys().into_iter().map(Ok).chain(rest).collect()
        };
        let sorted = match &on.sort_expr {
            None => None,
            Some(keys) => {
                let mut all: Vec<Key> = self.keys().into_iter().map(|e| e.sort(true, false)).collect();
                for key in keys {
                    all.push(Key { expr: self.within(&key.expr, over)?, ..key.clone() });
                }
                Some(all)
            }
        };
        let made = DistinctOn::try_new(
            with_keys(&on.on_expr)?,
            with_keys(&on.select_expr)?,
            sorted,
            Arc::new(pushed.plan),
        )?;
        self.renamed_by_place(LogicalPlan::Distinct(Distinct::On(made)), self.columns.len(), &on.schema)
            .map(Some)
    }

    /// A plan whose columns from a place on are those of a schema, under its names.
    fn renamed_by_place(&self, plan: LogicalPlan, from: usize, schema: &DFSchema) -> Result<Pushed> {
        let items = plan.schema().columns().into_iter().skip(from).map(Expr::Column).collect();
        self.projected(Pushed { plan, order: None }, items, schema)
    }

    fn aggregated(&self, aggregate: &Aggregate) -> Result<Option<Pushed>> {
        if aggregate.group_expr.iter().any(|e| matches!(e, Expr::GroupingSet(_))) {
            return Ok(None);
        }
        let Some(mut pushed) = self.pushed(&aggregate.input, None)? else { return Ok(None) };
        // Without groups there is a row, though it be of nothing.
        let marker = match aggregate.group_expr.is_empty() {
            false => None,
            true => {
                let (plan, marker) = self.with_empty(pushed.plan)?;
                pushed.plan = plan;
                Some(Expr::Column(marker).is_not_null())
            }
        };
        let over = aggregate.input.schema();
        let groups = aggregate.group_expr.iter().map(|e| {
            let e = self.within(e, over)?;
            // A group by what is outside is one by a combination's column, which stands there already.
            let is_key = matches!(&e, Expr::Column(column) if self.columns.contains(column));
            Ok(if is_key { e.alias(self.new_column("group").name) } else { e })
        });
        let groups = self.keys().into_iter().map(Ok).chain(groups).collect::<Result<Vec<_>>>()?;
        let mut exprs = Vec::with_capacity(aggregate.aggr_expr.len());
        for e in &aggregate.aggr_expr {
            let e = self.within(e, over)?;
            exprs.push(told_of_rows(e, marker.as_ref(), pushed.order.as_ref())?);
        }
        let made = Aggregate::try_new(Arc::new(pushed.plan), groups, exprs)?;
        let made = LogicalPlan::Aggregate(made);
        self.renamed_by_place(made, self.columns.len(), &aggregate.schema).map(Some)
    }

    /// Rows with one of NULLs for each combination that has none, and a column that is NULL there.
    fn with_empty(&self, plan: LogicalPlan) -> Result<(LogicalPlan, Column)> {
        let marker = self.new_column("there");
        let inner = self.renamed("inner");
        let mut exprs: Vec<Expr> = self.keys_named("inner");
        let rest = plan.schema().columns().into_iter().filter(|c| !self.columns.contains(c));
        exprs.extend(rest.map(Expr::Column));
        exprs.push(lit(true).alias(&marker.name));
        let right = LogicalPlanBuilder::from(plan).project(exprs)?.build()?;
        let on = self.keys().into_iter().zip(inner.into_iter().map(Expr::Column)).collect();
        Ok((by_equal_keys(&self.rows, right, on, JoinType::Left, None)?, marker))
    }

    fn windowed(&self, window: &Window) -> Result<Option<Pushed>> {
        let Some(pushed) = self.pushed(&window.input, None)? else { return Ok(None) };
        let over = window.input.schema();
        let mut exprs = Vec::with_capacity(window.window_expr.len());
        for e in &window.window_expr {
            let e = self.within(e, over)?.transform_down(|e| {
                let Expr::WindowFunction(mut function) = e else { return Ok(Transformed::no(e)) };
                function.params.partition_by.splice(0..0, self.keys());
                Ok(Transformed::yes(Expr::WindowFunction(function)))
            });
            exprs.push(e?.data);
        }
        let before = pushed.plan.schema().fields().len();
        let made = LogicalPlan::Window(Window::try_new(exprs, Arc::new(pushed.plan))?);
        let mut items = columns_of(&window.input);
        items.extend(made.schema().columns().into_iter().skip(before).map(Expr::Column));
        self.projected(Pushed { plan: made, order: pushed.order }, items, &window.schema).map(Some)
    }

    fn united(&self, union: &Union) -> Result<Option<Pushed>> {
        let mut inputs = Vec::with_capacity(union.inputs.len());
        for input in &union.inputs {
            let Some(pushed) = self.pushed(input, None)? else { return Ok(None) };
            let bare = Pushed { order: None, ..pushed };
            inputs.push(Arc::new(self.projected(bare, columns_of(input), &union.schema)?.plan));
        }
        self.union_of(inputs, &union.schema).map(Some)
    }

    fn union_of(&self, inputs: Vec<Arc<LogicalPlan>>, schema: &DFSchema) -> Result<Pushed> {
        let made = LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?);
        let all = made.schema().columns();
        let mut exprs = Vec::with_capacity(all.len());
        for (column, key) in all.iter().zip(&self.columns) {
            exprs.push(Expr::Column(column.clone()).alias(&key.name));
        }
        for (column, (relation, field)) in all.into_iter().skip(self.columns.len()).zip(schema.iter()) {
            exprs.push(Expr::Column(column).alias_qualified(relation.cloned(), field.name()));
        }
        let plan = LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(made))?);
        Ok(Pushed { plan, order: None })
    }

    fn unnested(&self, unnest: &Unnest) -> Result<Option<Pushed>> {
        let Some(pushed) = self.pushed(&unnest.input, None)? else { return Ok(None) };
        let plan = LogicalPlanBuilder::from(pushed.plan)
            .unnest_columns_with_options(unnest.exec_columns.clone(), unnest.options.clone())?
            .build()?;
        Ok(Some(Pushed { plan, order: pushed.order }))
    }

    fn rows_of_values(&self, values: &Values) -> Result<Pushed> {
        let over = DFSchema::empty();
        let mut inputs = Vec::with_capacity(values.values.len());
        for row in &values.values {
            let mut items = Vec::with_capacity(row.len());
            for (e, field) in row.iter().zip(values.schema.fields()) {
                items.push(cast(self.within(e, &over)?, field.data_type().clone()));
            }
            let rows = Pushed { plan: self.rows.clone(), order: None };
            inputs.push(Arc::new(self.projected(rows, items, &values.schema)?.plan));
        }
        match inputs.len() {
            1 => Ok(Pushed { plan: Arc::unwrap_or_clone(inputs.remove(0)), order: None }),
            _ => self.union_of(inputs, &values.schema),
        }
    }

    fn pushed_into_join(&self, join: &Join) -> Result<Option<Pushed>> {
        if lateral_of(&join.right).is_some() {
            return self.pushed_beside_lateral(join);
        }
        let (is_left_free, is_right_free) = (self.is_free(&join.left)?, self.is_free(&join.right)?);
        let (into_left, into_right) = match join.join_type {
            JoinType::Inner if is_left_free && is_right_free => (true, false),
            JoinType::Inner => (!is_left_free, !is_right_free),
            JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti => (true, !is_right_free),
            JoinType::Right => (!is_left_free, true),
            JoinType::Full => (true, true),
            _ => return Ok(None),
        };
        if join.null_aware {
            return Ok(None);
        }
        let left = match into_left {
            true => self.pushed(&join.left, None)?.map(|pushed| pushed.plan),
            false => Some((*join.left).clone()),
        };
        let right = match into_right {
            true => self.pushed(&join.right, None)?.map(|pushed| pushed.plan),
            false => Some((*join.right).clone()),
        };
        let (Some(left), Some(right)) = (left, right) else { return Ok(None) };
        self.rejoined(join, left, right, into_left && into_right).map(Some)
    }

    /// The join of both sides, by combination too if both have it.
    fn rejoined(&self, join: &Join, left: LogicalPlan, right: LogicalPlan, by_both: bool) -> Result<Pushed> {
        let mut filter = match &join.filter {
            None => None,
            Some(filter) => {
                let over = datafusion::logical_expr::utils::merge_schema(&[&join.left, &join.right]);
                Some(self.within(filter, &over)?)
            }
        };
        let inner = self.renamed("inner");
        let right = match by_both {
            false => right,
            true => {
                let rest = right.schema().columns().into_iter().filter(|c| !self.columns.contains(c));
                let mut exprs = self.keys_named("inner");
                exprs.extend(rest.map(Expr::Column));
                LogicalPlanBuilder::from(right).project(exprs)?.build()?
            }
        };
        let mut on = join.on.clone();
        let keys = self.keys().into_iter().zip(inner.iter().cloned().map(Expr::Column)).filter(|_| by_both);
        let mut nulls = join.null_equality;
        if by_both && nulls != datafusion::common::NullEquality::NullEqualsNull {
            let equal = on.drain(..).map(|(l, r)| l.eq(r));
            filter = equal.chain(filter).reduce(Expr::and);
            nulls = datafusion::common::NullEquality::NullEqualsNull;
        }
        on.extend(keys);
        let (left, right) = (Arc::new(left), Arc::new(right));
        let kind = join.join_type;
        let made = Join::try_new(left, right, on, filter, kind, join.join_constraint, nulls, false)?;
        let mut exprs = self.keys();
        if kind == JoinType::Full {
            for (key, (name, other)) in exprs.iter_mut().zip(self.columns.iter().zip(&inner)) {
                let either = vec![key.clone(), Expr::Column(other.clone())];
                *key = datafusion::functions::core::coalesce().call(either).alias(&name.name);
            }
        }
        exprs.extend(join.schema.iter().map(|field| Expr::Column(Column::from(field))));
        let plan = LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(LogicalPlan::Join(made)))?);
        Ok(Pushed { plan, order: None })
    }

    /// A lateral subquery names the combinations beside the rows left of it.
    fn pushed_beside_lateral(&self, join: &Join) -> Result<Option<Pushed>> {
        if !matches!(join.join_type, JoinType::Inner | JoinType::Left) {
            return Ok(None);
        }
        let Some(left) = self.pushed(&join.left, None)? else { return Ok(None) };
        let right = join.right.as_ref().clone().transform_down(|node| match node {
            LogicalPlan::Subquery(mut subquery) => {
                let plan = self.substitute().further_in(&subquery.subquery)?;
                subquery.outer_ref_columns = plan.all_out_ref_exprs();
                subquery.subquery = Arc::new(plan);
                Ok(Transformed::new(
                    LogicalPlan::Subquery(subquery),
                    true,
                    datafusion::common::tree_node::TreeNodeRecursion::Jump,
                ))
            }
            node => Ok(Transformed::no(node)),
        });
        self.rejoined(join, left.plan, right?.data, false).map(Some)
    }
}

/// All columns of a plan.
fn columns_of(plan: &LogicalPlan) -> Vec<Expr> {
    plan.schema().columns().into_iter().map(Expr::Column).collect()
}

/// An aggregate that leaves out rows that are none, and takes the others in the order that they have.
fn told_of_rows(e: Expr, marker: Option<&Expr>, order: Option<&Column>) -> Result<Expr> {
    let told = e.transform_down(|e| {
        let Expr::AggregateFunction(mut call) = e else { return Ok(Transformed::no(e)) };
        let params = &mut call.params;
        if let Some(marker) = marker {
            params.filter = Some(Box::new(match params.filter.take() {
                None => marker.clone(),
                Some(filter) => marker.clone().and(*filter),
            }));
        }
        if let Some(order) = order
            && params.order_by.is_empty()
            && !params.distinct
            && IN_ORDER.contains(&call.func.name())
        {
            params.order_by = vec![Expr::Column(order.clone()).sort(true, false)];
        }
        Ok(Transformed::yes(Expr::AggregateFunction(call)))
    });
    Ok(told?.data)
}
