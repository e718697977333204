//! What `COMMENT ON` says of things of the catalog.
//!
//! KEEPS: a comment goes with what it is about, in the change that drops it.

use crate::TableId;
use crate::roles::{Object, RoleId};
use crate::schema::{Catalog, SchemaAction};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a comment is about. An index is [`Object::Relation`] of its own id, and so are a trigger, a routine and a type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Commented {
    Object(Object),
    /// A constraint of a table.
    Constraint(TableId, String),
    Role(RoleId),
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Comments(pub BTreeMap<Commented, String>);

impl Comments {
    pub fn of(&self, what: &Commented) -> Option<&str> {
        self.0.get(what).map(String::as_str)
    }
    /// None and the empty text take a comment away, as in PostgreSQL.
    pub fn set(&mut self, what: Commented, text: Option<&str>) {
        match text.filter(|text| !text.is_empty()) {
            Some(text) => self.0.insert(what, text.to_string()),
            None => self.0.remove(&what),
        };
    }

    /// What makes the comments on relations those on the relations that take their places.
    pub fn handed_over(&self, renumbered: &BTreeMap<TableId, TableId>) -> Vec<SchemaAction> {
        let moved = |what: &Commented| {
            Some(match what {
                Commented::Object(Object::Relation(id)) => {
                    Commented::Object(Object::Relation(*renumbered.get(id)?))
                }
                Commented::Object(Object::Column(id, column)) => {
                    Commented::Object(Object::Column(*renumbered.get(id)?, *column))
                }
                Commented::Constraint(id, name) => Commented::Constraint(*renumbered.get(id)?, name.clone()),
                Commented::Object(_) | Commented::Role(_) => return None,
            })
        };
        let each = self.0.iter();
        each.filter_map(|(what, text)| Some(SchemaAction::Comment(moved(what)?, Some(text.clone()))))
            .collect()
    }
}

impl Catalog {
    /// Drops comments on what is no longer there.
    pub(crate) fn forget_comments(&mut self) {
        if self.comments.0.keys().any(|what| !self.has(what)) {
            let mut comments = Comments::clone(&self.comments);
            comments.0.retain(|what, _| self.has(what));
            self.comments = Arc::new(comments);
        }
    }

    /// Whether something that a comment is about is there.
    fn has(&self, what: &Commented) -> bool {
        match what {
            Commented::Object(Object::Relation(id)) => {
                self.relation(*id).is_some()
                    || self.sequences.contains_key(id)
                    || self.routines.0.contains_key(id)
                    || self.types.contains(*id)
                    || self.index(*id).is_some()
                    || self.trigger(*id).is_some()
            }
            Commented::Object(Object::Column(id, column)) => self
                .relation(*id)
                .and_then(|relation| relation.shape().columns.get(*column as usize))
                .is_some_and(|column| !column.hidden),
            Commented::Object(Object::Schema(name)) => self.schemas.contains(name),
            Commented::Object(Object::Database(id)) => self.databases.all.contains_key(id),
            Commented::Object(_) => true,
            Commented::Constraint(id, name) => self.table(*id).is_some_and(|table| {
                table.primary_key_name == *name
                    || table.indexes.iter().any(|index| index.constraint && index.name == *name)
                    || table.checks.iter().any(|check| check.name == *name)
                    || table.foreign.own.iter().any(|key| key.name == *name)
            }),
            Commented::Role(id) => self.roles.roles.contains_key(id),
        }
    }
}
