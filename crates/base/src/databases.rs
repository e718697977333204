//! Databases: whatever has a name in a schema is of one database, and a session sees the names of one.
//!
//! Rows, ids and versions know nothing of databases: the catalog of the whole cluster lists everything by its id, and beside
//! that which database it is of. Names are looked up in what one database has of it ([`Catalog::within`](crate::schema::Catalog::within)), and a change is
//! applied to that and put back (`schema::databases`).
//!
//! KEEPS: in the catalog of the whole cluster two things of different databases may have one schema and one name; in what a
//! database has of it they may not. Roles are the cluster's.

use crate::TableId;
use crate::error::{SqlError, SqlState};
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
pub(crate) const FIRST: u32 = 16_384;

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
