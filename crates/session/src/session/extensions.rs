//! CREATE EXTENSION: what applications ask for when they start is there already.

use super::Session;
use crate::response::Response;
use base::SqlError;
use base::error::{SqlResult, SqlState};
use sql::names;
use sqlparser::ast;

/// Extensions whose functions are there, or as with `plpgsql` refused one by one.
const EXTENSIONS: [&str; 3] = ["pgcrypto", "plpgsql", "uuid-ossp"];

impl Session {
    /// A statement that is about nothing that the catalog has. Errors: 0A000 for all but CREATE EXTENSION.
    pub(super) fn run_other(&mut self, statement: &ast::Statement) -> SqlResult<Response> {
        match statement {
            ast::Statement::CreateExtension(create) => self.create_extension(create),
            other => Err(SqlError::unsupported(sql::ddl::first_words(other))),
        }
    }

    /// CREATE EXTENSION of what is there from the start. Errors: 0A000 for any other, 42710 for one that PostgreSQL has
    /// from the start too.
    fn create_extension(&mut self, create: &ast::CreateExtension) -> SqlResult<Response> {
        let name = names::fold(&create.name);
        if !EXTENSIONS.contains(&name.as_str()) {
            let told = format!("extension \"{name}\" is not available");
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, told)
                .hint(format!("There are {}.", EXTENSIONS.join(", "))));
        }
        let told = format!("extension \"{name}\" already exists");
        match (create.if_not_exists, name.as_str()) {
            (true, _) => self.notice("NOTICE", SqlState::DUPLICATE_OBJECT, format!("{told}, skipping")),
            (false, "plpgsql") => return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, told)),
            // Its functions are there from now on, as they were before.
            (false, _) => {}
        }
        Ok(Response::Command("CREATE EXTENSION".into()))
    }
}
