//! Notes of types on columns that are computed.
//!
//! A `uuid` is a text to Arrow, and the field of a column notes what it is ([`types::noted_field`]). The planner's library keeps the
//! note of a column, but not that of a value which a CASE, a function or an aggregate chooses. Here the column of such a value
//! gets the note, so that what is planned above it and the client know its type.

use super::super::only::ONLY;
use super::super::ordered_sets::{MODE, PERCENTILE};
use super::super::{fields, types};
use super::inference::kind_of;
use super::kinds::Kind;
use super::typing::metadata;
use base::DataType;
use base::element::Element;
use datafusion::arrow::datatypes::DataType as Arrow;
use datafusion::common::{Column, ExprSchema, Result};
use datafusion::logical_expr::{
    Aggregate, Distinct, DistinctOn, Expr, LogicalPlan, Projection, Unnest, Window,
};
use std::sync::Arc;

/// Aggregates and window functions whose value is one of those of their first argument.
const CHOOSE: [&str; 6] = ["first_value", "lag", "last_value", "lead", "nth_value", ONLY];

/// A node whose columns have notes where their values have them.
pub(super) fn noted(node: LogicalPlan) -> Result<LogicalPlan> {
    Ok(match node {
        LogicalPlan::Projection(projection) => match all(&projection.expr, projection.input.schema()) {
            Some(exprs) => LogicalPlan::Projection(Projection::try_new(exprs, projection.input)?),
            None => LogicalPlan::Projection(projection),
        },
        LogicalPlan::Aggregate(aggregate) => {
            let schema = aggregate.input.schema();
            match (all(&aggregate.group_expr, schema), all(&aggregate.aggr_expr, schema)) {
                (None, None) => LogicalPlan::Aggregate(aggregate),
                (groups, calls) => {
                    let Aggregate { input, group_expr, aggr_expr, .. } = aggregate;
                    let (groups, calls) = (groups.unwrap_or(group_expr), calls.unwrap_or(aggr_expr));
                    LogicalPlan::Aggregate(Aggregate::try_new(input, groups, calls)?)
                }
            }
        }
        LogicalPlan::Window(window) => match all(&window.window_expr, window.input.schema()) {
            Some(calls) => LogicalPlan::Window(Window::try_new(calls, window.input)?),
            None => LogicalPlan::Window(window),
        },
        LogicalPlan::Distinct(Distinct::On(on)) => match all(&on.select_expr, on.input.schema()) {
            Some(exprs) => LogicalPlan::Distinct(Distinct::On(DistinctOn::try_new(
                on.on_expr,
                exprs,
                on.sort_expr,
                on.input,
            )?)),
            None => LogicalPlan::Distinct(Distinct::On(on)),
        },
        LogicalPlan::Unnest(unnest) => elements(unnest)?,
        node => node,
    })
}

/// Elements of arrays, as columns that say what they are.
fn elements(unnest: Unnest) -> Result<LogicalPlan> {
    let arrays = unnest.input.schema().fields();
    let mut is_changed = false;
    let columns = unnest.schema.iter().enumerate().map(|(n, (qualifier, field))| {
        let column = Expr::Column(Column::from((qualifier, field)));
        let array = types::shown_type(&arrays[unnest.dependency_indices[n]]);
        match array {
            DataType::Array(of)
                if field.metadata().is_empty() && types::is_kept_by_choice(of.data_type()) =>
            {
                is_changed = true;
                let note = metadata(Kind::Known(of.data_type()));
                column.alias_qualified_with_metadata(qualifier.cloned(), field.name(), note)
            }
            _ => column,
        }
    });
    let columns: Vec<Expr> = columns.collect();
    let unnest = LogicalPlan::Unnest(unnest);
    Ok(match is_changed {
        true => LogicalPlan::Projection(Projection::try_new(columns, Arc::new(unnest))?),
        false => unnest,
    })
}

/// The expressions with notes; `None` if none is missing.
fn all(exprs: &[Expr], schema: &dyn ExprSchema) -> Option<Vec<Expr>> {
    let mut is_changed = false;
    let one = |e: &Expr| match missing(e, schema) {
        Some(own) => {
            is_changed = true;
            with_note(e.clone(), own)
        }
        None => e.clone(),
    };
    let exprs = exprs.iter().map(one).collect();
    is_changed.then_some(exprs)
}

/// The expression under its own name with the note of a type.
fn with_note(e: Expr, own: DataType) -> Expr {
    let note = metadata(Kind::Known(own));
    match e {
        Expr::Alias(alias) => Expr::Alias(alias.with_metadata(note)),
        e => {
            let name = e.schema_name().to_string();
            e.alias_with_metadata(name, note)
        }
    }
}

/// The type that the column of an expression does not tell.
fn missing(e: &Expr, schema: &dyn ExprSchema) -> Option<DataType> {
    // Most columns are plain, and what they refer to has been noted.
    if matches!(e, Expr::Column(_) | Expr::Literal(..) | Expr::GroupingSet(_)) {
        return None;
    }
    let is_text = |t: &Arrow| matches!(t, Arrow::Utf8 | Arrow::LargeUtf8 | Arrow::Utf8View);
    let field = fields::field(e, schema).ok()?;
    let may_miss = field.metadata().is_empty()
        && match field.data_type() {
            Arrow::List(of) => is_text(of.data_type()),
            other => is_text(other),
        };
    own_type(e, schema).filter(|_| may_miss)
}

/// The type of an expression's values, if only a note tells it.
fn own_type(e: &Expr, schema: &dyn ExprSchema) -> Option<DataType> {
    match e {
        Expr::Alias(alias) => own_type(&alias.expr, schema),
        Expr::AggregateFunction(call) => of_call(call.func.name(), &call.params.args, schema),
        Expr::WindowFunction(call) => of_call(call.fun.name(), &call.params.args, schema),
        Expr::ScalarFunction(call) => match (call.name(), call.args.as_slice()) {
            ("make_array", all) => all.iter().find_map(|e| own_type(e, schema)).and_then(list_of),
            (
                "array_append" | "array_concat" | "array_distinct" | "array_remove_all" | "array_replace_all"
                | "array_slice",
                [list, ..],
            )
            | ("array_prepend", [_, list]) => own_type(list, schema),
            ("array_element" | MODE | PERCENTILE, [list, ..]) => match own_type(list, schema)? {
                DataType::Array(of) => Some(of.data_type()),
                _ => None,
            },
            _ => of_kind(e, schema),
        },
        _ => of_kind(e, schema),
    }
}

fn of_call(name: &str, arguments: &[Expr], schema: &dyn ExprSchema) -> Option<DataType> {
    let own = own_type(arguments.first()?, schema)?;
    match name {
        "array_agg" => list_of(own),
        name => CHOOSE.contains(&name).then_some(own),
    }
}

fn of_kind(e: &Expr, schema: &dyn ExprSchema) -> Option<DataType> {
    match kind_of(e, schema) {
        Kind::Known(own) if types::is_kept_by_choice(own) => Some(own),
        Kind::Foreign => match types::shown_type(fields::field(e, schema).ok()?.as_ref()) {
            list @ DataType::Array(of) if types::is_kept_by_choice(of.data_type()) => Some(list),
            _ => None,
        },
        _ => None,
    }
}

fn list_of(own: DataType) -> Option<DataType> {
    Element::of(own).map(DataType::Array)
}
