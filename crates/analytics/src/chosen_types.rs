//! The types of result columns whose values are chosen among others.
//!
//! A `uuid` is a text to Arrow, and the field of a table's column notes what it is ([`types::noted_field`]). The planner's library
//! loses the note where CASE, an aggregate, a window function or an array takes the value. Inside a plan such values are
//! texts; what a client is told is looked up here, by following a column to what it is made of.

use super::empty_lists::OR_EMPTY;
use super::only::ONLY;
use super::ordered_sets::{MODE, PERCENTILE};
use super::scalars::{Kind, kind_of};
use super::{fields, types};
use base::DataType;
use base::element::Element;
use datafusion::arrow::datatypes::DataType as Arrow;
use datafusion::common::{JoinType, ScalarValue};
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan};

/// Aggregates and window functions whose value is one of those of their first argument.
const CHOOSE: [&str; 6] = ["first_value", "lag", "last_value", "lead", "nth_value", ONLY];

/// Functions of arrays that give some of the elements of the first one.
const OF_ELEMENTS: [&str; 4] = ["array_distinct", "array_remove_all", "array_slice", "trim_array"];

/// Columns and expressions that are looked at for one column. Subqueries may name a column twice at each of their levels.
const STEPS_MAX: u32 = 2_000;

/// The type of a plan's n-th column, if only a note tells it: `uuid`, `json`, or an array of one of them.
pub(super) fn of_column(plan: &LogicalPlan, n: usize) -> Option<DataType> {
    Search { steps_left: STEPS_MAX }.column(plan, n)
}

/// Steps for an expression of each projection: enough for what is made just below it.
const STEPS_OF_VALUE: u32 = 100;

/// The same of an expression over a plan's rows.
pub(super) fn of_value(e: &Expr, input: &LogicalPlan) -> Option<DataType> {
    Search { steps_left: STEPS_OF_VALUE }.value(e, input)
}

struct Search {
    steps_left: u32,
}

impl Search {
    fn column(&mut self, plan: &LogicalPlan, n: usize) -> Option<DataType> {
        self.steps_left = self.steps_left.checked_sub(1)?;
        let field = plan.schema().fields().get(n)?;
        let shown = types::shown_type(field);
        if types::is_kept_by_choice(shown) {
            return Some(shown);
        }
        if !may_be_noted(field.data_type()) {
            return None;
        }
        match plan {
            LogicalPlan::Projection(p) => self.value(p.expr.get(n)?, &p.input),
            LogicalPlan::Distinct(Distinct::On(on)) => self.value(on.select_expr.get(n)?, &on.input),
            LogicalPlan::Aggregate(a) => {
                let groups = a.schema.fields().len() - a.aggr_expr.len();
                match n.checked_sub(groups) {
                    Some(call) => self.value(a.aggr_expr.get(call)?, &a.input),
                    None => self.value(a.group_expr.get(n)?, &a.input),
                }
            }
            LogicalPlan::Window(w) => match n.checked_sub(w.input.schema().fields().len()) {
                Some(call) => self.value(w.window_expr.get(call)?, &w.input),
                None => self.column(&w.input, n),
            },
            LogicalPlan::SubqueryAlias(a) => self.column(&a.input, n),
            LogicalPlan::Filter(f) => self.column(&f.input, n),
            LogicalPlan::Extension(_) => self.column(super::shared::input(plan)?, n),
            LogicalPlan::Sort(s) => self.column(&s.input, n),
            LogicalPlan::Limit(l) => self.column(&l.input, n),
            LogicalPlan::Distinct(Distinct::All(input)) => self.column(input, n),
            LogicalPlan::RecursiveQuery(q) => self.column(&q.static_term, n),
            LogicalPlan::Union(u) => {
                let first = self.column(u.inputs.first()?, n)?;
                u.inputs[1..].iter().all(|input| self.column(input, n) == Some(first)).then_some(first)
            }
            LogicalPlan::Unnest(u) => {
                let from = *u.dependency_indices.get(n)?;
                let is_taken_apart = u.input.schema().field(from).data_type() != field.data_type();
                match (self.column(&u.input, from)?, is_taken_apart) {
                    (DataType::Array(of), true) => Some(of.data_type()),
                    (own, false) => Some(own),
                    _ => None,
                }
            }
            LogicalPlan::Join(j) => {
                let left = j.left.schema().fields().len();
                match j.join_type {
                    JoinType::RightSemi | JoinType::RightAnti => self.column(&j.right, n),
                    _ if n < left => self.column(&j.left, n),
                    _ => self.column(&j.right, n - left),
                }
            }
            _ => None,
        }
    }

    /// The type of an expression over a plan's rows.
    fn value(&mut self, e: &Expr, input: &LogicalPlan) -> Option<DataType> {
        self.steps_left = self.steps_left.checked_sub(1)?;
        match e {
            Expr::Alias(alias) => self.value(&alias.expr, input),
            Expr::Column(column) => self.column(input, input.schema().index_of_column(column).ok()?),
            Expr::ScalarSubquery(subquery) => self.column(&subquery.subquery, 0),
            Expr::Case(case) => {
                let otherwise = case.else_expr.iter().map(|e| e.as_ref());
                let values = case.when_then_expr.iter().map(|(_, then)| then.as_ref()).chain(otherwise);
                self.one_of(&values.collect::<Vec<_>>(), input)
            }
            Expr::AggregateFunction(call) => self.call(call.func.name(), &call.params.args, input),
            Expr::WindowFunction(call) => self.call(call.fun.name(), &call.params.args, input),
            Expr::ScalarFunction(call) => match (call.name(), call.args.as_slice()) {
                ("coalesce" | "greatest" | "least", all) => {
                    self.one_of(&all.iter().collect::<Vec<_>>(), input)
                }
                ("nullif" | OR_EMPTY, [first, ..]) => self.value(first, input),
                ("make_array", all) => self.one_of(&all.iter().collect::<Vec<_>>(), input).and_then(list_of),
                ("array_concat", all) => self.one_of(&all.iter().collect::<Vec<_>>(), input),
                ("array_append", [list, one]) | ("array_prepend", [one, list]) => {
                    let of = self.value(one, input).and_then(list_of)?;
                    (self.value(list, input)? == of).then_some(of)
                }
                ("array_element" | MODE | PERCENTILE, [list, ..]) => match self.value(list, input)? {
                    DataType::Array(of) => Some(of.data_type()),
                    _ => None,
                },
                (name, [list, ..]) if OF_ELEMENTS.contains(&name) => self.value(list, input),
                _ => of_kind(e, input),
            },
            _ => of_kind(e, input),
        }
    }

    fn call(&mut self, name: &str, arguments: &[Expr], input: &LogicalPlan) -> Option<DataType> {
        let first = arguments.first()?;
        match name {
            "array_agg" => self.value(first, input).and_then(list_of),
            name if CHOOSE.contains(&name) => self.value(first, input),
            _ => None,
        }
    }

    /// What all values are that are not NULL.
    fn one_of(&mut self, values: &[&Expr], input: &LogicalPlan) -> Option<DataType> {
        let mut own = None;
        for e in values.iter().filter(|e| !is_null(e)) {
            let found = self.value(e, input)?;
            if own.is_some_and(|own| own != found) {
                return None;
            }
            own = Some(found);
        }
        own
    }
}

fn is_null(e: &Expr) -> bool {
    match e {
        Expr::Cast(cast) => is_null(&cast.expr),
        Expr::Literal(value, _) => matches!(value, ScalarValue::Null) || value.is_null(),
        _ => false,
    }
}

/// What an expression's own field or function says.
fn of_kind(e: &Expr, input: &LogicalPlan) -> Option<DataType> {
    let own = match kind_of(e, input.schema().as_ref()) {
        Kind::Known(own) => own,
        Kind::Foreign => types::shown_type(fields::field(e, input.schema().as_ref()).ok()?.as_ref()),
        _ => return None,
    };
    Some(own).filter(|own| types::is_kept_by_choice(*own))
}

/// Whether values of an Arrow type may be of another type than it says: texts, and lists of them.
fn may_be_noted(of: &Arrow) -> bool {
    match of {
        Arrow::List(inner) => may_be_noted(inner.data_type()),
        other => matches!(other, Arrow::Utf8 | Arrow::LargeUtf8 | Arrow::Utf8View),
    }
}

fn list_of(own: DataType) -> Option<DataType> {
    Element::of(own).map(DataType::Array)
}
