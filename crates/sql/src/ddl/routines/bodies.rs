//! Holds the body of a new function against what is declared.

use super::super::DdlContext;
use super::INVALID_DEFINITION;
use crate::routines::{self, body};
use crate::types::{Column, type_oid};
use crate::walk;
use base::DataType;
use base::error::{SqlError, SqlResult};
use base::routines::{Language, ResultOf, Routine, TypeOf};
use sqlparser::ast::{Expr, ObjectName, Statement};
use std::ops::ControlFlow;

impl DdlContext<'_> {
    /// Errors: what is wrong with a body, if it were run.
    pub(super) fn check_body(&self, routine: &Routine) -> SqlResult<()> {
        match routine.language {
            Language::Sql => self.check_sql_body(routine),
            Language::PlPgSql => self.shapes.check_program(routine),
        }
    }

    fn check_sql_body(&self, routine: &Routine) -> SqlResult<()> {
        let statements = body::statements(self.catalog, self.search_path, self.database, routine)?;
        // It is not in the catalog yet, or a call decides its types: what it says is looked at when it is called.
        if routine.is_polymorphic() || calls_itself(&statements, routine) {
            return body::refuse_others(&statements);
        }
        self.check_statements(routine, statements)
    }

    /// Columns of what the last statement gives back; `None` if it gives nothing, or there is no statement.
    fn columns_of_body(&self, routine: &Routine, statements: &[Statement]) -> SqlResult<Option<Vec<Column>>> {
        let mut typed = statements.to_vec();
        body::put_types(&mut typed, routine)?;
        match self.planned_body(routine, &typed) {
            // Some functions are planned over values alone.
            Err(error) => {
                let mut samples = statements.to_vec();
                body::put_samples(&mut samples, routine)?;
                self.planned_body(routine, &samples).map_err(|_| error)
            }
            planned => planned,
        }
    }

    fn planned_body(&self, routine: &Routine, statements: &[Statement]) -> SqlResult<Option<Vec<Column>>> {
        let types: Vec<DataType> = routine.types().map(|of| of.data_type).collect();
        let mut columns = None;
        for statement in statements {
            columns = self.shapes.columns_of(statement, &types)?;
        }
        Ok(columns)
    }

    fn check_statements(&self, routine: &Routine, statements: Vec<Statement>) -> SqlResult<()> {
        body::refuse_others(&statements)?;
        let columns = self.columns_of_body(routine, &statements)?;
        let is_open = matches!(routine.result, ResultOf::OpenRecord | ResultOf::SetOfOpenRecords);
        if matches!(routine.result, ResultOf::Void | ResultOf::Procedure) || is_open && columns.is_some() {
            return Ok(());
        }
        let shown = match &routine.result {
            ResultOf::Table(columns) if columns.len() == 1 => routines::type_name(self.catalog, columns[0].1),
            ResultOf::Table(_) => "record".into(),
            _ => routines::result_name(self.catalog, routine).replacen("SETOF ", "", 1),
        };
        let mismatch = |detail: &str| {
            let told = format!("return type mismatch in function declared to return {shown}");
            SqlError::new(INVALID_DEFINITION, told).detail(detail)
        };
        let Some(columns) = columns else {
            let detail = "Function's final statement must be SELECT or INSERT/UPDATE/DELETE RETURNING.";
            return Err(mismatch(detail));
        };
        let wanted = routines::expand::columns(self.catalog, routine);
        let wanted: Vec<TypeOf> = wanted.into_iter().map(|(_, of)| of).collect();
        let is_scalar = matches!(routine.result, ResultOf::One(_) | ResultOf::SetOf(_));
        if is_scalar && columns.len() != 1 {
            return Err(mismatch("Final statement must return exactly one column."));
        }
        if columns.len() < wanted.len() {
            return Err(mismatch("Final statement returns too few columns."));
        }
        if columns.len() > wanted.len() {
            return Err(mismatch("Final statement returns too many columns."));
        }
        for (at, (column, wanted)) in columns.iter().zip(&wanted).enumerate() {
            if may_become(column, wanted.data_type) {
                continue;
            }
            let from = routines::data_type_name(routines::unlimited(column.data_type));
            return Err(mismatch(&match is_scalar {
                true => format!("Actual return type is {from}."),
                false => {
                    let to = routines::type_name(self.catalog, *wanted);
                    format!("Final statement returns {from} instead of {to} at column {}.", at + 1)
                }
            }));
        }
        Ok(())
    }
}

fn calls_itself(statements: &Vec<Statement>, routine: &Routine) -> bool {
    let is_it = |name: &ObjectName| {
        let last = name.0.last().and_then(|part| part.as_ident()).map(crate::names::fold);
        last.as_ref() == Some(&routine.name)
    };
    let found: ControlFlow<()> = walk::expressions(statements, |e| match e {
        Expr::Function(function) if is_it(&function.name) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break() || routines::table_calls(statements).iter().any(|(name, _)| is_it(name))
}

/// Whether a column's values are assigned to a type without a cast that is written out.
fn may_become(column: &Column, to: DataType) -> bool {
    if column.type_oid == type_oid(to) {
        return true;
    }
    routines::is_assignable(routines::unlimited(column.data_type), to)
}
