//! COMMENT ON.

use super::{Ddl, DdlContext};
use crate::{materialized, names};
use base::comments::Commented;
use base::error::{SqlError, SqlResult, SqlState};
use base::roles::Object;
use base::schema::SchemaAction;
use base::views::Relation;
use base::{DataType, TableId};
use sqlparser::ast::{self, CommentObject, ObjectName, ObjectNamePart};

impl DdlContext<'_> {
    pub(super) fn comment(
        &self,
        kind: &CommentObject,
        name: &ObjectName,
        text: Option<&str>,
    ) -> SqlResult<Ddl> {
        let what = self.commented(kind, name)?;
        let action = SchemaAction::Comment(what, text.map(str::to_string));
        Ok(Ddl { actions: vec![action], tag: "COMMENT", ..Ddl::default() })
    }

    /// What a comment is about. Errors: 42P01, 42703, 42704, 42809, 3F000.
    fn commented(&self, kind: &CommentObject, name: &ObjectName) -> SqlResult<Commented> {
        let relation = |id| Ok(Commented::Object(Object::Relation(id)));
        let last = |name: &ObjectName| -> SqlResult<String> {
            Ok(names::parts(name)?.pop().expect("a name has a part"))
        };
        match kind {
            CommentObject::Table => relation(self.kept_rows(name, false)?),
            CommentObject::MaterializedView => relation(self.kept_rows(name, true)?),
            CommentObject::View => match self.find_relation(name)? {
                Relation::View(view) => relation(view.shape.id),
                Relation::Table(table) => Err(self.not_a(table, "view")),
            },
            CommentObject::Column => {
                let (of, column) = match name.0.split_last() {
                    Some((column, of)) if !of.is_empty() => (ObjectName(of.to_vec()), column),
                    _ => {
                        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "column name must be qualified"));
                    }
                };
                // A constraint travels as a column of its table (`parse::comments`).
                if let Some(constraint) = column.as_ident().and_then(crate::parse::constraint_of) {
                    return self.constraint(&of, constraint);
                }
                let shape = self.find_relation(&of)?.shape();
                let column = column.as_ident().map(names::fold).unwrap_or_default();
                let at = shape.column_named(&column).filter(|at| !shape.columns[*at].hidden);
                let at = at.ok_or_else(|| {
                    let told = format!("column \"{column}\" of relation \"{}\" does not exist", shape.name);
                    SqlError::new(SqlState::UNDEFINED_COLUMN, told)
                })?;
                Ok(Commented::Object(Object::Column(shape.id, at as u32)))
            }
            CommentObject::Index => {
                let (schema, index) = names::qualified(name, self.database)?;
                let schemas = schema.map_or_else(|| self.search_path.to_vec(), |schema| vec![schema]);
                let found = schemas.iter().find_map(|schema| self.catalog.index_named(schema, &index));
                match found {
                    Some((_, index)) => relation(index.id),
                    None => {
                        let told = format!("relation \"{index}\" does not exist");
                        Err(SqlError::new(SqlState::UNDEFINED_TABLE, told))
                    }
                }
            }
            CommentObject::Sequence => {
                relation(crate::catalog::find_named_sequence(self.catalog, self.search_path, name)?.id)
            }
            CommentObject::Type => relation(self.commented_type(name)?),
            CommentObject::Domain => relation(self.find_domain(name)?.id),
            CommentObject::Schema => {
                let schema = last(name)?;
                if self.catalog.schemas.contains(&schema) {
                    return Ok(Commented::Object(Object::Schema(schema)));
                }
                let told = format!("schema \"{schema}\" does not exist");
                Err(SqlError::new(SqlState::INVALID_SCHEMA_NAME, told))
            }
            CommentObject::Database => {
                let database = self.database_named(&last(name)?)?;
                Ok(Commented::Object(Object::Database(database.id)))
            }
            CommentObject::Role | CommentObject::User => {
                let ident = name.0.last().and_then(ObjectNamePart::as_ident);
                let ident = ident.ok_or_else(|| SqlError::unsupported(format!("the name {name}")))?;
                Ok(Commented::Role(self.role(&self.catalog.roles, ident)?))
            }
            other => Err(SqlError::unsupported(format!("COMMENT ON {other}"))),
        }
    }

    /// A type that users made. Errors: 42704; 0A000 for another.
    fn commented_type(&self, name: &ObjectName) -> SqlResult<TableId> {
        let written = ast::DataType::Custom(name.clone(), Vec::new());
        if let Some(domain) = names::domain(&written) {
            return Ok(domain.id);
        }
        match names::data_type(&written)? {
            DataType::Enum(of) => Ok(of.id()),
            DataType::Composite(of) => Ok(of.id()),
            other => Err(SqlError::unsupported(format!("COMMENT ON TYPE {}", other.name()))
                .hint("Comments are on types that CREATE TYPE or CREATE DOMAIN has made.")),
        }
    }

    /// A table, or a materialized view. Errors: 42P01, 42809.
    fn kept_rows(&self, name: &ObjectName, of_query: bool) -> SqlResult<TableId> {
        if let Relation::View(view) = self.find_relation(name)?
            && view.partition.is_some()
            && !of_query
        {
            return Ok(view.shape.id);
        }
        let table = self.find_table(name)?;
        match materialized::is_one(self.catalog, table.id) == of_query {
            true => Ok(table.id),
            false => Err(self.not_a(table, if of_query { "materialized view" } else { "table" })),
        }
    }

    fn constraint(&self, of: &ObjectName, name: &str) -> SqlResult<Commented> {
        let table = self.find_table(of)?;
        let is_key = table.primary_key_name == name && !table.columns[table.primary_key[0]].hidden;
        let is_index = table.indexes.iter().any(|index| index.constraint && index.name == name);
        let is_reference = table.foreign.own.iter().any(|key| key.name == name);
        if is_key || is_index || is_reference || table.checks.iter().any(|check| check.name == name) {
            return Ok(Commented::Constraint(table.id, name.to_string()));
        }
        let told = format!("constraint \"{name}\" for table \"{}\" does not exist", table.name);
        Err(SqlError::new(SqlState::UNDEFINED_OBJECT, told))
    }

    /// Errors: 42501.
    pub(super) fn check_commented(&self, what: &Commented) -> SqlResult<()> {
        match what {
            // An index is its table's, and so is a trigger.
            Commented::Object(Object::Relation(id)) => {
                let of_trigger = || self.catalog.trigger(*id).map(|(table, _)| table.id);
                let of_index = self.catalog.index(*id).map(|(table, _)| table.id);
                let of = of_index.or_else(of_trigger).unwrap_or(*id);
                self.check_owner(&Object::Relation(of))
            }
            Commented::Object(object) => self.check_owner(object),
            Commented::Constraint(table, _) => self.check_owner(&Object::Relation(*table)),
            Commented::Role(_) if self.standing.is_superuser || self.may_create_roles() => Ok(()),
            Commented::Role(_) => Err(super::roles::forbidden("must have CREATEROLE privilege")),
        }
    }

    fn may_create_roles(&self) -> bool {
        let role = self.catalog.roles.roles.get(&self.standing.role);
        role.is_some_and(|role| role.can_create_roles)
    }

    /// A table or a view. Errors: 42P01.
    pub(super) fn find_relation(&self, name: &ast::ObjectName) -> SqlResult<Relation<'_>> {
        match names::find_relation(self.catalog, self.search_path, self.database, name) {
            Some(relation) => Ok(relation),
            None => self.find_table(name).map(Relation::Table),
        }
    }
}
