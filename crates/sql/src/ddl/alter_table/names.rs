//! RENAME TO, SET SCHEMA, RENAME CONSTRAINT and ALTER INDEX … RENAME.

use crate::ddl::foreign_keys::has_constraint;
use crate::ddl::{Ddl, DdlContext};
use crate::names;
use base::comments::Commented;
use base::error::{SqlResult, SqlState};
use base::schema::{SchemaAction, Table};
use base::{SqlError, TableId};
use sqlparser::ast;
use std::sync::Arc;

impl DdlContext<'_> {
    pub(super) fn rename_table(
        &self,
        next: &mut Table,
        name: &ast::ObjectName,
        ddl: &mut Ddl,
    ) -> SqlResult<()> {
        let was = next.schema.clone();
        (next.schema, next.name) = self.renamed(&next.schema, &next.name, name)?;
        if next.schema != was { self.move_sequences(next, ddl) } else { Ok(()) }
    }

    pub(super) fn rename_constraint(&self, next: &mut Table, from: &str, to: String) -> SqlResult<()> {
        if !has_constraint(next, from) || self.is_of_partition(next, from)? {
            let told = format!("constraint \"{from}\" for table \"{}\" does not exist", next.name);
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, told));
        }
        if has_constraint(next, &to) {
            let told = format!("constraint \"{to}\" for relation \"{}\" already exists", next.name);
            return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, told));
        }
        if let Some(key) = next.foreign_keys_mut().find(|key| key.name == from) {
            key.name = to;
            return Ok(());
        }
        if let Some(check) = next.checks_mut().find(|check| check.name == from) {
            check.name = to;
            return Ok(());
        }
        self.rename_key(next, from, to)
    }

    /// Renames an index or the primary key. Errors: 42P07.
    fn rename_key(&self, next: &mut Table, from: &str, to: String) -> SqlResult<()> {
        if self.relation_exists(&next.schema, &to) {
            let told = format!("relation \"{to}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_TABLE, told));
        }
        if let Some(index) = crate::ddl::indexes::indexes_mut(next).find(|index| index.name == from) {
            index.name = to;
            return Ok(());
        }
        next.primary_key_name = to;
        Ok(())
    }

    /// `ALTER INDEX … RENAME TO …`.
    pub(in crate::ddl) fn alter_index(
        &self,
        name: &ast::ObjectName,
        operation: &ast::AlterIndexOperation,
    ) -> SqlResult<Ddl> {
        if crate::parse::attached_index(operation).is_some() {
            // Indexes of a partitioned table are those of its partitions.
            self.find_index(name)?;
            return Ok(Ddl { tag: "ALTER INDEX", ..Ddl::default() });
        }
        let ast::AlterIndexOperation::RenameIndex { index_name: to } = operation;
        let (table, from) = self.find_index(name)?;
        let to = names::parts(to)?.pop().expect("a name has a part");
        let is_constraint = table.indexes.iter().all(|index| index.constraint || index.name != from);
        let comment = self.comment_follows(table.id, &from, &to);
        let mut next = table.as_ref().clone();
        self.rename_key(&mut next, &from, to)?;
        let mut actions = vec![SchemaAction::AlterTable(next)];
        actions.extend(comment.into_iter().filter(|_| is_constraint));
        Ok(Ddl { actions, tag: "ALTER INDEX", ..Ddl::default() })
    }

    /// The table of an index or of a primary key, and its name. Errors: 42P01.
    pub(in crate::ddl) fn find_index(&self, name: &ast::ObjectName) -> SqlResult<(&Arc<Table>, String)> {
        let (schema, from) = names::qualified(name, self.database)?;
        let schemas = schema.map_or_else(|| self.search_path.to_vec(), |s| vec![s]);
        let of_key = |schema: &String| {
            let named = |t: &&Arc<Table>| t.schema == *schema && t.primary_key_name == from;
            self.catalog.tables.values().filter(named).find(|t| has_constraint(t, &from))
        };
        let found = schemas
            .iter()
            .find_map(|s| self.catalog.index_named(s, &from).map(|(t, _)| t).or_else(|| of_key(s)));
        let table = found.ok_or_else(|| {
            SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{from}\" does not exist"))
        })?;
        Ok((table, from))
    }

    /// What is said of a constraint is said of it under its new name too: for behind the change that renames it.
    pub(super) fn comment_follows(&self, table: TableId, from: &str, to: &str) -> Vec<SchemaAction> {
        let named = |name: &str| Commented::Constraint(table, name.to_string());
        let Some(text) = self.catalog.comments.of(&named(from)) else { return Vec::new() };
        vec![
            SchemaAction::Comment(named(from), None),
            SchemaAction::Comment(named(to), Some(text.to_string())),
        ]
    }
}
