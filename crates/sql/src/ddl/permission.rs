//! Whether a role may make a planned change, and whose the new objects are.

use super::{Ddl, DdlContext};
use crate::privileges::denied;
use base::TableId;
use base::error::SqlResult;
use base::roles::{Object, Privileges, ROOT, RoleChange};
use base::schema::SchemaAction;

impl DdlContext<'_> {
    /// Holds a planned change against what the acting role may do, and makes it the owner of what is new.
    pub(super) fn permit(&self, mut ddl: Ddl) -> SqlResult<Ddl> {
        let mut changes: Vec<RoleChange> = Vec::new();
        if let Some(rewrite) = &ddl.rewrites {
            changes = self.roles().handed_over(rewrite.from.id, rewrite.to);
        }
        let replaces = ddl.rewrites.as_ref().map(|rewrite| rewrite.to);
        let mut made: Vec<TableId> = replaces.into_iter().collect();
        let mut owned: Vec<Object> = Vec::new();
        for action in &ddl.actions {
            match action {
                // Its tables are held against the right to make some.
                SchemaAction::CreateSchema(name) if crate::temporary::is_temporary(name) => {}
                SchemaAction::CreateSchema(name) => {
                    if !self.roles().may(self.standing, &self.own_database(), Privileges::CREATE) {
                        return Err(denied("database", self.database));
                    }
                    let schema = Object::Schema(name.clone());
                    let names_owner = |action: &SchemaAction| matches!(action, SchemaAction::Roles(RoleChange::SetOwner(of, _)) if *of == schema);
                    if !ddl.actions.iter().any(names_owner) {
                        owned.push(schema);
                    }
                }
                SchemaAction::CreateTable(table) if made.contains(&table.id) => {}
                SchemaAction::CreateTable(table) => {
                    self.check_create(&table.schema)?;
                    made.push(table.id);
                    owned.push(Object::Relation(table.id));
                }
                // One that is altered.
                SchemaAction::CreateSequence(sequence)
                    if self.catalog.sequences.contains_key(&sequence.id)
                        && sequence.owner.is_none_or(|(table, _)| !made.contains(&table)) =>
                {
                    self.check_owner(&Object::Relation(sequence.id))?;
                }
                // Of a table that is made anew.
                SchemaAction::CreateSequence(sequence)
                    if self.catalog.sequences.contains_key(&sequence.id) =>
                {
                    changes.extend(self.roles().handed_over(sequence.id, sequence.id));
                }
                SchemaAction::CreateSequence(sequence) => {
                    if sequence.owner.is_none_or(|(table, _)| !made.contains(&table)) {
                        self.check_create(&sequence.schema)?;
                    }
                    owned.push(Object::Relation(sequence.id));
                }
                SchemaAction::AlterTable(table) if made.contains(&table.id) => {}
                SchemaAction::AlterTable(table) if self.changes_triggers_alone(table) => {}
                SchemaAction::AlterTable(table) => self.check_owner(&Object::Relation(table.id))?,
                SchemaAction::DropTable(id) => {
                    let schema = self.catalog.table(*id).map(|table| Object::Schema(table.schema.clone()));
                    if !schema.is_some_and(|schema| self.roles().owns(self.standing, &schema)) {
                        self.check_owner(&Object::Relation(*id))?;
                    }
                }
                SchemaAction::DropSchema(name) => self.check_owner(&Object::Schema(name.clone()))?,
                SchemaAction::DropSequence(id) => self.check_owner(&Object::Relation(*id))?,
                SchemaAction::ConfirmCheck(of) => self.check_owner(&Object::Relation(of.table))?,
                SchemaAction::MoveHome(moved) => self.check_owner(&Object::Relation(moved.table))?,
                SchemaAction::PutView(view) if self.catalog.views.contains_key(&view.shape.id) => {
                    self.check_owner(&Object::Relation(view.shape.id))?;
                }
                // Of a materialized one the table comes first.
                SchemaAction::PutView(view) if made.contains(&view.shape.id) => {}
                SchemaAction::PutView(view) => {
                    self.check_create(&view.shape.schema)?;
                    owned.push(Object::Relation(view.shape.id));
                }
                SchemaAction::DropView(id) => {
                    let shape = self.catalog.views.get(id).map(|view| &view.shape);
                    let schema = shape.map(|shape| Object::Schema(shape.schema.clone()));
                    if !schema.is_some_and(|schema| self.roles().owns(self.standing, &schema)) {
                        self.check_owner(&Object::Relation(*id))?;
                    }
                }
                SchemaAction::PutEnum(_) | SchemaAction::PutDomain(_) | SchemaAction::PutComposite(_) => {
                    let Some((id, schema)) = super::temporary::put_type(action) else { continue };
                    match self.catalog.types.contains(id) {
                        true => self.check_owner(&Object::Relation(id))?,
                        false => {
                            self.check_create(schema)?;
                            owned.push(Object::Relation(id));
                        }
                    }
                }
                SchemaAction::PutRoutine(_) | SchemaAction::DropRoutine(_) => {
                    owned.extend(self.permit_routine(action)?);
                }
                SchemaAction::DropType(id) => {
                    let schema = self.catalog.types.schema_of(*id);
                    let schema = schema.map(|schema| Object::Schema(schema.into()));
                    if !schema.is_some_and(|schema| self.roles().owns(self.standing, &schema)) {
                        self.check_owner(&Object::Relation(*id))?;
                    }
                }
                // What is said of a table made anew was said of the old one, of a new one LIKE another of that.
                SchemaAction::Comment(..) if !made.is_empty() => {}
                SchemaAction::Comment(what, _) => self.check_commented(what)?,
                // They were held against it when they were planned.
                SchemaAction::Roles(_) | SchemaAction::PutDatabase(_) | SchemaAction::DropDatabase(_) => {}
            }
        }
        if self.standing.role != ROOT {
            let own = owned.into_iter().map(|object| RoleChange::SetOwner(object, self.standing.role));
            changes.extend(own);
        }
        ddl.actions.extend(changes.into_iter().map(SchemaAction::Roles));
        Ok(ddl)
    }
}
