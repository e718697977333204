//! Plans that have other plans in them.
//!
//! They stand together because each is part of the other. Who makes and runs a kind of them is `checked_views`, `sequences`,
//! `own_functions`, `with`, `routines` and `programs`.

use super::Plan;
use crate::session::own_functions::OwnFunction;
use crate::session::transaction::PartRows;
use base::error::SqlResult;
use base::routines::{Routine, TypeOf};
use base::schema::{Catalog, Table};
use base::{SqlError, TableId};
use sql::types::Column;
use std::ops::Range;
use std::sync::Arc;

/// A write through views that check.
pub struct CheckedPlan {
    pub write: Box<Plan>,
    /// The last columns that the write returns are about them. The error for a row that is none of the view's.
    pub views: Vec<SqlError>,
    /// What the statement itself returns.
    pub columns: Option<Arc<Vec<Column>>>,
}

impl CheckedPlan {
    pub(in crate::session) fn new(
        write: Plan,
        views: Vec<SqlError>,
        returns: bool,
    ) -> SqlResult<CheckedPlan> {
        let all =
            write.columns().ok_or_else(|| SqlError::internal("a write that tells whether it may be"))?;
        let own = all.len().checked_sub(views.len()).ok_or_else(|| SqlError::internal("a column a view"))?;
        let columns = returns.then(|| Arc::new(all[..own].to_vec()));
        Ok(CheckedPlan { write: Box::new(write), views, columns })
    }
}

/// A list of calls of `setval`.
pub struct SetValuePlan {
    /// Three values for each call: name, value, whether the value was handed out.
    pub(in crate::session) arguments: Box<Plan>,
    pub columns: Arc<Vec<Column>>,
}

/// A query whose list of columns has functions that the session carries out.
pub struct OwnFunctionsPlan {
    pub(in crate::session) arguments: Box<Plan>,
    pub(in crate::session) items: Vec<OwnItem>,
    pub columns: Arc<Vec<Column>>,
}

/// A column of what such a query answers.
pub enum OwnItem {
    /// That of the arguments' query.
    Plain(usize),
    Call(OwnFunction, Range<usize>),
}

/// Statements in one WITH that write, or lock rows.
pub struct WithPlan {
    pub(in crate::session) parts: Vec<WithPart>,
    pub(in crate::session) main: Plan,
    /// With a table for the rows of each part.
    pub(in crate::session) catalog: Arc<Catalog>,
    pub columns: Option<Arc<Vec<Column>>>,
    pub tag: &'static str,
    /// What it is called where only reading is allowed; `None`: it only locks.
    pub word: Option<&'static str>,
}

/// One of the statements in a WITH.
pub struct WithPart {
    pub(in crate::session) plan: Plan,
    /// What its rows are for the parts behind it.
    pub(in crate::session) table: Option<Arc<Table>>,
}

/// A call of a function that is more than one SELECT.
pub struct RoutinePlan {
    pub(in crate::session) routine: Arc<Routine>,
    /// Gives one row; `None` without arguments.
    pub(in crate::session) arguments: Option<Box<Plan>>,
    pub(in crate::session) statements: Vec<Plan>,
    pub(in crate::session) result: Vec<TypeOf>,
    pub columns: Option<Arc<Vec<Column>>>,
    /// What it is called where only reading is allowed; `None`: it only reads.
    pub word: Option<&'static str>,
}

/// A statement that calls functions in PL/pgSQL, or CALL of a procedure in it.
pub struct CallsPlan {
    pub(in crate::session) calls: Vec<CallOfProgram>,
    /// `None`: CALL alone.
    pub(in crate::session) main: Option<Plan>,
    /// With a table for the rows of each call in FROM.
    pub(in crate::session) catalog: Arc<Catalog>,
    /// Rows of tables in it that are there before any call is made.
    pub(in crate::session) rows: Vec<(TableId, PartRows)>,
    /// Parameters of the statement as it was written.
    pub(in crate::session) given: usize,
    /// What is called for each row that the statement gives; these are not its own columns then.
    pub(in crate::session) per_row: Option<Vec<PerRow>>,
    pub columns: Option<Arc<Vec<Column>>>,
    pub tag: &'static str,
    /// What it is called where only reading is allowed; `None`: it only reads.
    pub word: Option<&'static str>,
}

/// A call that is made before the statement.
pub struct CallOfProgram {
    pub(in crate::session) routine: Arc<Routine>,
    /// The query of its arguments; `None` if it has none.
    pub(in crate::session) arguments: Option<Plan>,
    /// What its rows are for the statement; `None`: its value is a parameter.
    pub(in crate::session) table: Option<Arc<Table>>,
    /// Its rows have their numbers behind them (WITH ORDINALITY).
    pub(in crate::session) is_numbered: bool,
}

/// A column of an answer for which calls are made for each row.
pub enum PerRow {
    /// That of the query.
    Plain(usize),
    Call(Arc<Routine>, Range<usize>),
}
