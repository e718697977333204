//! Databases: whatever has a name in a schema is of one database, and a session sees the names of one.
//!
//! Rows, ids and versions know nothing of databases: the catalog of the whole cluster lists everything by its id, and beside
//! that which database it is of. Names are looked up in what one database has of it ([`Catalog::within`]), and a change is
//! applied to that and put back ([`Catalog::with`]).
//!
//! KEEPS: in the catalog of the whole cluster two things of different databases may have one schema and one name; in what a
//! database has of it they may not. Roles are the cluster's.

use crate::TableId;
use crate::comments::{Commented, Comments};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::roles::{Object, Roles};
use crate::schema::{Catalog, stale_schema};
use crate::user_types::UserTypes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A database, by the object id that clients see. Numbers are not used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DatabaseId(pub u32);

/// The database that clusters begin with.
pub const MERIDIAN: DatabaseId = DatabaseId(16_000);
/// Where tools connect that make and drop databases; the number is PostgreSQL's, as are the next two.
pub const POSTGRES: DatabaseId = DatabaseId(5);
pub const TEMPLATE1: DatabaseId = DatabaseId(1);
pub const TEMPLATE0: DatabaseId = DatabaseId(4);

/// What a database begins with.
pub const PUBLIC_SCHEMA: &str = "public";

/// Databases that are made get numbers behind this.
const FIRST: u32 = 16_384;

impl Default for DatabaseId {
    fn default() -> DatabaseId {
        MERIDIAN
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Database {
    pub id: DatabaseId,
    pub name: String,
    pub is_template: bool,
    pub allows_connections: bool,
    /// Connections at once, at each node.
    pub connections_max: Option<u32>,
}

/// All databases, and what is of which.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Databases {
    pub all: BTreeMap<DatabaseId, Arc<Database>>,
    /// Schemas of each but [`MERIDIAN`], whose schemas are the catalog's own list.
    pub schemas: BTreeMap<DatabaseId, Vec<String>>,
    /// Tables, indexes, sequences, views, types and routines that are not of [`MERIDIAN`].
    pub members: BTreeMap<TableId, DatabaseId>,
}

impl Default for Databases {
    fn default() -> Databases {
        let plain = |id, name: &str| Database {
            id,
            name: name.into(),
            is_template: false,
            allows_connections: true,
            connections_max: None,
        };
        let template =
            |id, name| Database { is_template: true, allows_connections: false, ..plain(id, name) };
        let all = [
            template(TEMPLATE1, "template1"),
            template(TEMPLATE0, "template0"),
            plain(POSTGRES, "postgres"),
            plain(MERIDIAN, "meridian"),
        ];
        Databases {
            all: all.map(|database| (database.id, Arc::new(database))).into(),
            schemas: [TEMPLATE1, TEMPLATE0, POSTGRES].map(|id| (id, vec![PUBLIC_SCHEMA.into()])).into(),
            members: BTreeMap::new(),
        }
    }
}

impl Databases {
    pub fn named(&self, name: &str) -> Option<&Arc<Database>> {
        self.all.values().find(|database| database.name == name)
    }
    /// Which database something is of.
    pub fn of(&self, id: TableId) -> DatabaseId {
        self.members.get(&id).copied().unwrap_or(MERIDIAN)
    }
    /// A database's name, for messages.
    pub fn name(&self, id: DatabaseId) -> &str {
        self.all.get(&id).map_or("", |database| &database.name)
    }
    /// The number of a database that is made when the catalog's next id is this one.
    pub fn id_of_new(next_id: u32) -> DatabaseId {
        DatabaseId(FIRST + next_id)
    }
}

/// 42P04.
pub fn duplicate(name: &str) -> SqlError {
    SqlError::new(SqlState(*b"42P04"), format!("database \"{name}\" already exists"))
}

/// 3D000.
pub fn missing(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_CATALOG_NAME, format!("database \"{name}\" does not exist"))
}

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
        let types =
            UserTypes { enums: kept(&self.types.enums, has), domains: kept(&self.types.domains, has) };
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

    /// Everything that has an id, indexes too.
    fn ids(&self) -> impl Iterator<Item = TableId> + '_ {
        let indexes = self.tables.values().flat_map(|table| table.indexes.iter().map(|index| index.id));
        let relations = self.tables.keys().chain(self.sequences.keys()).chain(self.views.keys());
        let types = self.types.enums.keys().chain(self.types.domains.keys());
        relations.chain(types).chain(self.routines.0.keys()).copied().chain(indexes)
    }

    /// Keeps a database's description. Errors: 42P04 if another one has the name.
    pub(crate) fn put_database(&mut self, database: &Database) -> SqlResult<()> {
        if self.databases.named(&database.name).is_some_and(|other| other.id != database.id) {
            return Err(duplicate(&database.name));
        }
        let databases = Arc::make_mut(&mut self.databases);
        if databases.all.insert(database.id, Arc::new(database.clone())).is_none() {
            databases.schemas.insert(database.id, vec![PUBLIC_SCHEMA.into()]);
            Arc::make_mut(&mut self.roles).open_database(database.id);
            self.next_id = self.next_id.max(database.id.0.saturating_sub(FIRST) + 1);
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
        Arc::make_mut(&mut self.roles).forget_database(id);
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
