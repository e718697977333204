//! What a statement will do, decided once per catalog version.
//!
//! Rooms: [`planning`] (decides it), [`nested`] (plans that have other plans in them), [`properties`] (what is known of a
//! plan before it runs), [`names`] (what names in a statement are looked up in).

mod names;
mod nested;
mod planning;
mod properties;

pub use names::is_select_into;
pub(super) use names::{lookup_of, names_of};
pub use nested::{
    CallOfProgram, CallsPlan, CheckedPlan, OwnFunctionsPlan, OwnItem, PerRow, RoutinePlan, SetValuePlan,
    WithPart, WithPlan,
};
pub use planning::plan;

use super::computed::Computations;
use super::locked_joins::LockedJoinPlan;
use super::merge::MergePlan;
use super::rich::RichPlan;
use super::set_config::SetConfigPlan;
use super::waits::WaitForPlan;
use analytics::{Context, QueryPlan};
use base::DataType;
use base::error::SqlResult;
use base::expr::Expr;
use base::txn::procedure::Procedure;
use plpgsql::Program;
use sql::lower::Projection;
use sql::lower::insert::InsertPlan;
use sql::lower::join::RowJoinPlan;
use sql::lower::modify::ModifyPlan;
use sql::lower::scope::ParameterTypes;
use sql::lower::select::RowSelectPlan;
use sql::types::Column;
use sqlparser::ast::Statement;
use std::sync::Arc;

/// Plans a statement whose privileges were asked for. Whoever plans statements within others is handed it.
pub type Planner = fn(&Context<'_>, &Statement, &mut ParameterTypes) -> SqlResult<Plan>;

/// What a statement will do.
pub enum Plan {
    /// With queries for the values that nodes cannot compute.
    Insert(InsertPlan, Computations),
    Modify(ModifyPlan),
    /// SELECT without FROM.
    Constant(Projection),
    /// SELECT of `set_config` alone.
    SetConfig(SetConfigPlan),
    /// SELECT of `setval` alone.
    SetValue(SetValuePlan),
    /// SELECT with functions that lock or sleep among its columns.
    OwnFunctions(OwnFunctionsPlan),
    /// `WAIT FOR LSN`.
    WaitFor(WaitForPlan),
    /// Few rows by key, or rows to be validated (FOR UPDATE).
    Rows(RowSelectPlan),
    /// Few rows of one table by key, and by them rows of another.
    Join(RowJoinPlan),
    /// Anything else that returns rows.
    Query(Arc<QueryPlan>),
    /// UPDATE and DELETE that need the analytical planner to find their rows and values.
    Rich(Box<RichPlan>),
    Merge(Box<MergePlan>),
    /// FOR UPDATE of joins.
    LockedJoin(Box<LockedJoinPlan>),
    /// Statements in one WITH that write, or lock rows.
    With(Box<WithPlan>),
    /// INSERT and UPDATE through views WITH CHECK OPTION.
    Checked(CheckedPlan),
    Call(CallPlan),
    /// Statements that call functions in PL/pgSQL, and procedures in it.
    Calls(Box<CallsPlan>),
    Do(Arc<Program>),
    /// A call of a function that is more than one SELECT.
    Routine(Box<RoutinePlan>),
    /// Statements about the session, the catalog, or other statements.
    Utility(Statement),
}

/// `CALL name(…)`.
pub struct CallPlan {
    pub procedure: Arc<dyn Procedure>,
    pub arguments: Vec<(Expr, DataType)>,
    pub columns: Arc<Vec<Column>>,
}
