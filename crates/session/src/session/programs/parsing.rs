//! Programs and their statements as texts: what is wrong with them before anything is planned.

use super::kinds::signature;
use crate::session::plan::is_select_into;
use base::error::SqlResult;
use base::routines::Routine;
use base::schema::Catalog;
use base::{SqlError, SqlState};
use plpgsql::{Program, Signature};
use sql::parse::DoBlock;
use sqlparser::ast::Statement;
use std::sync::Arc;

/// The body of a DO. Errors: 0A000 and 42704 for other languages, 42601.
pub(super) fn of_block(block: &DoBlock) -> SqlResult<Arc<Program>> {
    match block.language.as_deref() {
        None | Some("plpgsql") => {}
        Some("sql") => {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "language \"sql\" does not support inline code execution",
            ));
        }
        Some(other) => {
            let message = format!("language \"{other}\" does not exist");
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
        }
    }
    let program = plpgsql::parse(&block.body, &Signature::of_block())?;
    check_texts(&program)?;
    Ok(Arc::new(program))
}

/// The body of a function. Errors: 42601, 42804.
pub(super) fn of_routine(catalog: &Catalog, routine: &Routine) -> SqlResult<Program> {
    plpgsql::parse(&routine.body, &signature(catalog, routine))
}

/// Errors: what is wrong with the body of a function in PL/pgSQL that is made.
pub(in crate::session) fn check_body(catalog: &Catalog, routine: &Routine) -> SqlResult<()> {
    check_texts(&of_routine(catalog, routine)?)
}

/// One statement. Errors: 42601, 0A000 for several. Positions are of a text that the client does not know, so none is told.
pub(super) fn parsed(text: &str) -> SqlResult<Statement> {
    let mut statements = sql::parse::parse_request(text).map_err(unplaced)?;
    match (statements.pop(), statements.is_empty()) {
        (Some(statement), true) => Ok(statement),
        (None, _) => Err(SqlError::new(SqlState::SYNTAX_ERROR, "a statement is missing")),
        (Some(_), false) => {
            Err(SqlError::unsupported("a text of several statements in EXECUTE")
                .hint("Execute them one by one."))
        }
    }
}

pub(super) fn unplaced(mut error: SqlError) -> SqlError {
    error.position = None;
    error
}

/// Errors: 42601 for a statement of a program that is none.
fn check_texts(program: &Program) -> SqlResult<()> {
    for statement in &program.statements {
        parsed(&statement.sql()).map_err(|error| {
            error.context(format!(
                "compilation of PL/pgSQL function \"{}\" near line {}",
                program.signature.shown, statement.line
            ))
        })?;
    }
    Ok(())
}

/// Errors: 0A000 for statements that programs do not run.
pub(super) fn refuse(statement: &Statement) -> SqlResult<()> {
    match statement {
        Statement::StartTransaction { .. }
        | Statement::Commit { .. }
        | Statement::Rollback { .. }
        | Statement::Savepoint { .. }
        | Statement::ReleaseSavepoint { .. } => {
            Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "unsupported transaction command in PL/pgSQL")
                .hint("BEGIN … EXCEPTION … END undoes a part of what a function has done."))
        }
        Statement::Query(query) if is_select_into(query) => {
            Err(SqlError::unsupported("SELECT INTO a table in PL/pgSQL")
                .hint("CREATE TABLE … AS makes a table of a query."))
        }
        Statement::Copy { .. } => Err(SqlError::unsupported("COPY in PL/pgSQL")),
        Statement::Declare { .. }
        | Statement::Fetch { .. }
        | Statement::Close { .. }
        | Statement::Prepare { .. }
        | Statement::Execute { .. }
        | Statement::Deallocate { .. }
        | Statement::Discard { .. } => {
            Err(SqlError::unsupported(format!("{} in PL/pgSQL", sql::ddl::first_words(statement))))
        }
        _ => Ok(()),
    }
}
