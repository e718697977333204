//! Whether a role may do what a statement does: privileges on tables, columns, sequences, schemas, procedures.
//!
//! IN: a statement, the catalog, the acting role. OUT: nothing, or 42501. KEEPS: a superuser costs one branch; a name
//! that a common table expression hides is not looked up; a column counts as read where its name could mean it, so
//! what is not certain is refused.
//!
//! The walk through a statement is in `reading`.

mod reading;

use crate::catalog::find_sequence;
use crate::names;
use crate::walk::Walk;
use base::error::{SqlError, SqlResult, SqlState};
use base::roles::{Object, Privileges, Standing};
use base::schema::{Catalog, Table};
use reading::Reading;
use sqlparser::ast::{self, Expr, ObjectName, Statement};
use std::ops::ControlFlow;
use std::sync::Arc;

/// What a statement is held against.
#[derive(Clone, Copy)]
pub struct Check<'a> {
    pub catalog: &'a Catalog,
    pub search_path: &'a [String],
    pub database: &'a str,
    pub standing: &'a Standing,
}

/// Tables of the system catalog that only superusers may read.
const SUPERUSERS_ONLY: [&str; 2] = ["pg_authid", "pg_shadow"];

impl Check<'_> {
    /// Errors: 42501.
    pub fn statement(&self, statement: &Statement) -> SqlResult<()> {
        if self.standing.is_superuser {
            return Ok(());
        }
        let mut reading = Reading::new(self);
        match statement.walk(&mut reading) {
            ControlFlow::Break(error) => Err(error),
            ControlFlow::Continue(()) => Ok(()),
        }
    }

    /// Whether the role has a privilege.
    pub fn may(&self, object: &Object, wanted: Privileges) -> bool {
        self.catalog.roles.may(self.standing, object, wanted)
    }

    /// A user's table, or what a view looks like; `None`: there is none of this name, as whoever plans the statement will say. Errors: 42501.
    fn table(&self, name: &ObjectName) -> SqlResult<Option<&Arc<Table>>> {
        let found = names::find_relation(self.catalog, self.search_path, self.database, name);
        let found = found.map(base::views::Relation::shape);
        match found {
            // Rows of the statement itself.
            Some(table) if table.schema == crate::with::SCHEMA => return Ok(None),
            Some(table) => self.check_schema(&table.schema)?,
            None => {
                let last = names::parts(name).ok().and_then(|parts| parts.last().cloned());
                if let Some(last) = last.filter(|last| SUPERUSERS_ONLY.contains(&last.as_str())) {
                    return Err(denied("table", &last));
                }
            }
        }
        Ok(found)
    }

    fn check_schema(&self, schema: &str) -> SqlResult<()> {
        // Only the session's own is ever found.
        if crate::temporary::is_temporary(schema) {
            return Ok(());
        }
        match self.may(&Object::Schema(schema.into()), Privileges::USAGE) {
            true => Ok(()),
            false => Err(denied("schema", schema)),
        }
    }

    /// Errors: 42501 unless the privilege is there for the table, or for each of these columns.
    fn check_columns(&self, table: &Table, columns: &Columns, wanted: Privileges) -> SqlResult<()> {
        if self.may(&Object::Relation(table.id), wanted) {
            return Ok(());
        }
        let may = |column: usize| self.may(&Object::Column(table.id, column as u32), wanted);
        let mut visible = table.visible_columns().map(|(column, _)| column);
        let is_permitted = match columns {
            Columns::All => visible.all(may),
            Columns::Some(columns) if columns.is_empty() => visible.any(may),
            Columns::Some(columns) => columns.iter().all(|column| may(*column)),
        };
        if is_permitted { Ok(()) } else { Err(denied(kind(self.catalog, table), &table.name)) }
    }

    /// Columns that a list names; none named are all.
    fn listed<'n>(&self, table: &Table, names: impl Iterator<Item = &'n ast::Ident>) -> Columns {
        let columns: Vec<usize> = names.filter_map(|name| table.column_named(&names::fold(name))).collect();
        if columns.is_empty() { Columns::All } else { Columns::Some(columns) }
    }

    fn sequence(&self, function: &ast::Function) -> SqlResult<()> {
        let name = names::parts(&function.name).ok().and_then(|mut parts| parts.pop()).unwrap_or_default();
        let wanted = match name.as_str() {
            "nextval" => Privileges::USAGE,
            _ => return Ok(()),
        };
        let ast::FunctionArguments::List(list) = &function.args else { return Ok(()) };
        let named = list.args.first().and_then(|argument| match argument {
            ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(e)) => literal(e),
            _ => None,
        });
        let Some(named) = named else {
            return Err(SqlError::unsupported(format!(
                "{name} of a computed name for a role that is no superuser"
            )));
        };
        let Ok(sequence) = find_sequence(self.catalog, self.search_path, named) else { return Ok(()) };
        self.check_schema(&sequence.schema)?;
        let held = self.catalog.roles.rights(self.standing, &Object::Relation(sequence.id)).held;
        // UPDATE includes nextval, as in PostgreSQL.
        match (held & (wanted | Privileges::UPDATE)).is_empty() {
            true => Err(denied("sequence", &sequence.name)),
            false => Ok(()),
        }
    }
}

fn literal(e: &Expr) -> Option<&str> {
    match e {
        Expr::Cast { expr, .. } => literal(expr),
        Expr::Value(value) => match &value.value {
            ast::Value::SingleQuotedString(text) | ast::Value::EscapedStringLiteral(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// What a relation is called in errors.
pub fn kind(catalog: &Catalog, table: &Table) -> &'static str {
    let is_partition = || catalog.views.get(&table.id).is_some_and(|view| view.partition.is_some());
    if table.primary_key.is_empty() && !is_partition() { "view" } else { "table" }
}

/// 42501 as PostgreSQL says it.
pub fn denied(kind: &str, name: &str) -> SqlError {
    SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, format!("permission denied for {kind} {name}"))
}

/// Columns of one table.
enum Columns {
    All,
    Some(Vec<usize>),
}

#[cfg(test)]
mod tests;
