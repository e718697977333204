//! What columns are whose expressions do not tell: the planner's library loses which texts are a `uuid` or `json` where CASE,
//! an aggregate or an array takes the value. A projection notes it again, so that the query around it knows.

use super::super::{chosen_types, fields, origins, types};
use super::evaluated::{Computation, call};
use super::inference::kind_of;
use super::kinds::{Kind, field_of, may_meet};
use super::typing::no_operator;
use base::DataType;
use base::error::SqlResult;
use datafusion::logical_expr::{Expr, Join, LogicalPlan};

/// A projection's expression with the note that it lost; `None` if it lost none.
pub(super) fn noted(e: &Expr, input: &LogicalPlan) -> Option<Expr> {
    if let Expr::Alias(alias) = e {
        let mut alias = alias.clone();
        *alias.expr = noted(&alias.expr, input)?;
        return Some(Expr::Alias(alias));
    }
    let field = fields::field(e, input.schema().as_ref()).ok()?;
    if types::shown_type(&field) != DataType::Text {
        return None;
    }
    let own = chosen_types::of_value(e, input)?;
    let kind = Kind::Known(own);
    let is_one = matches!(own, DataType::Uuid | DataType::Json);
    let is_same = field_of("", kind).data_type() == field.data_type();
    (is_one && is_same).then(|| call(Computation::Same, vec![(e.clone(), kind)], kind))
}

/// Errors: 42883 for a join of a `uuid` with a text, both of which are columns of tables.
pub(super) fn refuse_keys(join: &Join) -> SqlResult<()> {
    let is_of_table = |e: &Expr, input: &LogicalPlan| match e {
        Expr::Column(column) => {
            let place = input.schema().index_of_column(column).ok();
            place.and_then(|n| origins::origin(input, n)).is_some()
        }
        _ => false,
    };
    for (left, right) in &join.on {
        let a = kind_of(left, join.left.schema().as_ref());
        let b = kind_of(right, join.right.schema().as_ref());
        if may_meet(a, b) && is_of_table(left, &join.left) && is_of_table(right, &join.right) {
            return Err(no_operator("=", a, b));
        }
    }
    Ok(())
}
