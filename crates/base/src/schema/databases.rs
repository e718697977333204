//! One database's part of the catalog, and back into the whole.
//!
//! KEEPS: what a change makes of one database's part leaves the others' as it was.

use super::{Catalog, stale_schema};
use crate::TableId;
use crate::comments::{Commented, Comments};
use crate::databases::{Database, DatabaseId, Databases, FIRST, MERIDIAN, PUBLIC_SCHEMA, duplicate};
use crate::error::SqlResult;
use crate::roles::{Object, Roles};
use crate::user_types::UserTypes;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Catalog {
    /// The database whose names this catalog has.
    pub fn database(&self) -> DatabaseId {
        self.seen_from.unwrap_or(MERIDIAN)
    }

    /// A database's schemas, in the catalog of the whole cluster.
    pub fn schemas_of(&self, database: DatabaseId) -> &[String] {
        match database {
            MERIDIAN => &self.schemas,
            other => self.databases.schemas.get(&other).map_or(&[], Vec::as_slice),
        }
    }

    /// What a database has of the catalog of the whole cluster; `None`: the catalog is that already. Of a database that is
    /// not there it is nothing.
    pub fn within(&self, database: DatabaseId) -> Option<Catalog> {
        let has_all = database == MERIDIAN && self.databases.members.is_empty();
        if self.seen_from == Some(database) || self.seen_from.is_none() && has_all {
            return None;
        }
        assert!(self.seen_from.is_none(), "one database's part has nothing of another");
        let has = |id: &TableId| self.databases.of(*id) == database;
        let types = UserTypes {
            enums: kept(&self.types.enums, has),
            domains: kept(&self.types.domains, has),
            composites: kept(&self.types.composites, has),
        };
        let routines = crate::routines::Routines(kept(&self.routines.0, has));
        let of_it = |what: &Commented| self.databases.of_comment(what).is_none_or(|of| of == database);
        let comments = self.comments.0.iter().filter(|(what, _)| of_it(what));
        let comments = comments.map(|(what, text)| (renamed_comment(what, MERIDIAN, database), text.clone()));
        Some(Catalog {
            version: self.version,
            next_id: self.next_id,
            schemas: self.schemas_of(database).to_vec(),
            tables: kept(&self.tables, has),
            sequences: kept(&self.sequences, has),
            homes: kept(&self.homes, has),
            roles: renamed_roles(&self.roles, MERIDIAN, database),
            views: kept(&self.views, has),
            comments: Arc::new(Comments(comments.collect())),
            types: Arc::new(types),
            routines: Arc::new(routines),
            databases: self.databases.clone(),
            seen_from: Some(database),
        })
    }

    /// The catalog of the whole cluster, with what a change has made of one database's part of it.
    pub(crate) fn with(&self, mut next: Catalog) -> Catalog {
        let database = next.database();
        let is_other = |id: &TableId| self.databases.of(*id) != database;
        let of_other = |what: &Commented| self.databases.of_comment(what).is_some_and(|of| of != database);
        let mut databases = Databases::clone(&next.databases);
        databases.members.retain(|_, of| *of != database);
        if database != MERIDIAN {
            databases.members.extend(next.ids().map(|id| (id, database)));
            let schemas = std::mem::replace(&mut next.schemas, self.schemas.clone());
            if databases.all.contains_key(&database) {
                databases.schemas.insert(database, schemas);
            }
        }
        next.tables.extend(kept(&self.tables, is_other));
        next.sequences.extend(kept(&self.sequences, is_other));
        next.homes.extend(kept(&self.homes, is_other));
        next.views.extend(kept(&self.views, is_other));
        let types = UserTypes {
            enums: joined(&next.types.enums, &self.types.enums, is_other),
            domains: joined(&next.types.domains, &self.types.domains, is_other),
            composites: joined(&next.types.composites, &self.types.composites, is_other),
        };
        let routines = crate::routines::Routines(joined(&next.routines.0, &self.routines.0, is_other));
        let others = self.comments.0.iter().filter(|(what, _)| of_other(what));
        let own = next
            .comments
            .0
            .iter()
            .map(|(what, text)| (renamed_comment(what, database, MERIDIAN), text.clone()));
        let comments = own.chain(others.map(|(what, text)| (what.clone(), text.clone()))).collect();
        Catalog {
            roles: renamed_roles(&next.roles, database, MERIDIAN),
            comments: Arc::new(Comments(comments)),
            types: Arc::new(types),
            routines: Arc::new(routines),
            databases: Arc::new(databases),
            seen_from: None,
            ..next
        }
    }

    /// Everything that has an id, indexes and triggers too.
    fn ids(&self) -> impl Iterator<Item = TableId> + '_ {
        let indexes = self.tables.values().flat_map(|table| table.indexes.iter().map(|index| index.id));
        let triggers = self.tables.values().flat_map(|table| table.triggers.all().map(|trigger| trigger.id));
        let relations = self.tables.keys().chain(self.sequences.keys()).chain(self.views.keys());
        let all = relations.chain(self.routines.0.keys()).copied().chain(self.types.ids());
        all.chain(indexes).chain(triggers)
    }

    /// Keeps a database's description. Errors: 42P04 if another one has the name.
    pub(crate) fn put_database(&mut self, database: &Database) -> SqlResult<()> {
        if self.databases.named(&database.name).is_some_and(|other| other.id != database.id) {
            return Err(duplicate(&database.name));
        }
        let databases = Arc::make_mut(&mut self.databases);
        if databases.all.insert(database.id, Arc::new(database.clone())).is_none() {
            databases.schemas.insert(database.id, vec![PUBLIC_SCHEMA.into()]);
            self.roles_mut().open_database(database.id);
            self.claim(TableId(database.id.0.saturating_sub(FIRST)));
        }
        Ok(())
    }

    /// Forgets a database, whose catalog this is. Errors: 40001 if something is left in it.
    pub(crate) fn drop_database(&mut self, id: DatabaseId) -> SqlResult<()> {
        if id != self.database() || id == MERIDIAN || self.ids().next().is_some() || !self.schemas.is_empty()
        {
            return Err(stale_schema());
        }
        let databases = Arc::make_mut(&mut self.databases);
        databases.all.remove(&id).ok_or_else(stale_schema)?;
        databases.schemas.remove(&id);
        self.roles_mut().forget_database(id);
        Ok(())
    }
}

impl Databases {
    /// Which database a comment is of; `None`: the cluster's.
    fn of_comment(&self, what: &Commented) -> Option<DatabaseId> {
        match what {
            Commented::Object(Object::Relation(id) | Object::Column(id, _)) => Some(self.of(*id)),
            Commented::Constraint(id, _) => Some(self.of(*id)),
            Commented::Object(Object::Schema(_)) => Some(MERIDIAN),
            Commented::Object(Object::SchemaOf(of, _)) => Some(*of),
            Commented::Object(Object::Database(_) | Object::Procedure(_)) | Commented::Role(_) => None,
        }
    }
}

/// An object as another database names it: its own schemas have no database in their names. Both may be the same.
fn renamed(object: &Object, from: DatabaseId, to: DatabaseId) -> Object {
    match object {
        Object::Schema(name) if from != to => Object::SchemaOf(from, name.clone()),
        Object::SchemaOf(of, name) if *of == to => Object::Schema(name.clone()),
        other => other.clone(),
    }
}

fn renamed_comment(what: &Commented, from: DatabaseId, to: DatabaseId) -> Commented {
    match what {
        Commented::Object(object) => Commented::Object(renamed(object, from, to)),
        other => other.clone(),
    }
}

fn renamed_roles(roles: &Arc<Roles>, from: DatabaseId, to: DatabaseId) -> Arc<Roles> {
    if from == to {
        return roles.clone();
    }
    let owners = roles.owners.iter().map(|(object, role)| (renamed(object, from, to), *role)).collect();
    let rights = roles.rights.iter().map(|(object, all)| (renamed(object, from, to), all.clone())).collect();
    Arc::new(Roles { owners, rights, ..Roles::clone(roles) })
}

/// The entries of one database.
fn kept<V: Clone>(all: &BTreeMap<TableId, V>, is_kept: impl Fn(&TableId) -> bool) -> BTreeMap<TableId, V> {
    all.iter().filter(|(id, _)| is_kept(id)).map(|(id, value)| (*id, value.clone())).collect()
}

/// What a database has now, and what others had.
fn joined<V: Clone>(
    own: &BTreeMap<TableId, V>,
    before: &BTreeMap<TableId, V>,
    is_other: impl Fn(&TableId) -> bool,
) -> BTreeMap<TableId, V> {
    let mut all = kept(before, is_other);
    all.extend(own.iter().map(|(id, value)| (*id, value.clone())));
    all
}

#[cfg(test)]
mod tests;
