//! The catalog: tables, indexes, constraints, sequences, and where rows live.
//!
//! Every partition holds the whole catalog. A change is an ordered transaction that takes part in all
//! of them, so at any place in the serial order every partition has the same catalog.

mod checks;
mod column;
mod databases;
pub mod foreign;
mod index;
mod routines;
mod sequence;
pub mod triggers;
mod types;

use crate::comments::{Commented, Comments};
use crate::composite::CompositeType;
use crate::databases::{Database, DatabaseId, Databases};
use crate::domain::Domain;
use crate::enumeration::EnumType;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::partitioning::Partitioning;
use crate::rng::fnv1a;
use crate::roles::{RoleChange, Roles};
use crate::routines::{Routine, Routines};
use crate::topology::Topology;
use crate::user_types::UserTypes;
use crate::views::View;
use crate::{DataType, Datum, Key, PartitionId, RegionId, Row, TableId};
pub use checks::{Check, ConfirmedCheck, Held};
pub use column::{Column, Identity};
pub use foreign::{ForeignKey, ForeignKeys};
pub use index::{AccessMethod, Index, IndexForm};
pub use sequence::{Origin, Sequence, SequenceLimits};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
pub use triggers::{Trigger, Triggers};

/// Everything that has a name. Cloning is cheap: tables are shared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Catalog {
    /// Counts changes; a plan is valid for the version of each table it uses.
    pub version: u64,
    /// Next free table, index or sequence id.
    pub next_id: u32,
    pub schemas: Vec<String>,
    pub tables: BTreeMap<TableId, Arc<Table>>,
    pub sequences: BTreeMap<TableId, Arc<Sequence>>,
    /// Tables that are ordered in this region, wherever the partitions lie that hold their rows.
    pub homes: BTreeMap<TableId, RegionId>,
    pub roles: Arc<Roles>,
    pub views: BTreeMap<TableId, Arc<View>>,
    pub comments: Arc<Comments>,
    pub types: Arc<UserTypes>,
    pub routines: Arc<Routines>,
    pub databases: Arc<Databases>,
    /// The database whose part of the catalog this is ([`Catalog::within`]); `None`: it is the whole cluster's.
    pub seen_from: Option<DatabaseId>,
}

/// A table. Columns are never renumbered; a dropped one keeps its place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Table {
    pub id: TableId,
    pub schema: String,
    pub name: String,
    /// Catalog version of its last change.
    pub version: u64,
    pub columns: Vec<Column>,
    /// Column numbers of the primary key, in key order. A table without one gets a hidden last column
    /// `rowid`, filled at the gateway.
    pub primary_key: Vec<usize>,
    pub primary_key_name: String,
    pub indexes: Vec<Index>,
    /// Shared: a change of the catalog clones the tables that it makes or alters, several times at each node.
    pub checks: Arc<Vec<Check>>,
    pub foreign: ForeignKeys,
    pub triggers: Triggers,
    /// Columns that are of a domain, by their numbers. Their types are its base type.
    pub domains: BTreeMap<usize, Arc<Domain>>,
    /// How `PARTITION BY` divides the rows; of a partition, how it divides its own.
    pub partitioning: Option<Arc<Partitioning>>,
    pub placement: Placement,
}

/// Where a table's rows live.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Placement {
    /// All rows in one region; inside it by hash of the first primary-key column.
    Home(RegionId),
    /// A column decides the region; inside it, its hash decides the partition, so that tables with the
    /// same partition column are co-located.
    HomeBy { column: usize, regions: RegionMap },
    /// A full copy in every partition: readers use any they touch anyway, writers are ordered in all.
    Replicated,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum RegionMap {
    /// Listed values; others by hash.
    List(Vec<(Datum, RegionId)>),
    Hash,
    /// The column holds the region's name.
    Name,
}

/// Where one row, or one value of the partition column, lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    One(PartitionId),
    /// In every partition.
    Everywhere,
}

/// A change of the catalog. `base_version` is the version it was planned against; at any other it
/// aborts and is planned anew.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SchemaChange {
    /// Whose names it changes.
    pub database: DatabaseId,
    pub base_version: u64,
    pub actions: Vec<SchemaAction>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum SchemaAction {
    CreateSchema(String),
    DropSchema(String),
    CreateTable(Table),
    /// The table's new description: added columns, indexes, constraints. New indexes are filled and
    /// new constraints checked at the change's place.
    AlterTable(Table),
    /// A check of a table is validated without a look at the rows.
    ConfirmCheck(ConfirmedCheck),
    DropTable(TableId),
    CreateSequence(Sequence),
    DropSequence(TableId),
    /// The table is ordered in another region from here on; its rows stay where they are. Applies at any version,
    /// also after the table is gone: an engine acts on it when it orders it.
    MoveHome(MoveHome),
    /// Roles, owners and privileges.
    Roles(RoleChange),
    /// A new view, or what has become of one.
    PutView(View),
    DropView(TableId),
    /// None takes a comment away.
    Comment(Commented, Option<String>),
    /// A new type, or what has become of one.
    PutEnum(EnumType),
    PutDomain(Domain),
    DropType(TableId),
    /// A new function or procedure, or what has become of one.
    PutRoutine(Routine),
    DropRoutine(TableId),
    /// A new database, or what has become of one.
    PutDatabase(Database),
    /// Everything in it has been dropped before, in the same change.
    DropDatabase(DatabaseId),
    /// A new composite type, or what has become of one.
    PutComposite(CompositeType),
}

/// A table's way to another region.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MoveHome {
    pub table: TableId,
    /// Of the table and its indexes, those that move; the catalog notes where the table goes itself.
    pub ids: Vec<TableId>,
    pub partitions: Vec<PartitionId>,
    pub to: RegionId,
}

impl SchemaChange {
    /// Homes that it moves.
    pub fn moves(&self) -> impl Iterator<Item = &MoveHome> {
        self.actions.iter().filter_map(|action| match action {
            SchemaAction::MoveHome(moved) => Some(moved),
            _ => None,
        })
    }
    /// It moves homes and changes nothing else.
    pub fn only_moves(&self) -> bool {
        self.moves().count() == self.actions.len()
    }
}

impl Default for Catalog {
    fn default() -> Self {
        Catalog {
            version: 0,
            next_id: 1,
            schemas: vec!["public".into()],
            tables: BTreeMap::new(),
            sequences: BTreeMap::new(),
            homes: BTreeMap::new(),
            roles: Arc::default(),
            views: BTreeMap::new(),
            comments: Arc::default(),
            types: Arc::default(),
            routines: Arc::default(),
            databases: Arc::default(),
            seen_from: None,
        }
    }
}

impl Catalog {
    pub fn table(&self, id: TableId) -> Option<&Arc<Table>> {
        self.tables.get(&id)
    }
    pub fn table_named(&self, schema: &str, name: &str) -> Option<&Arc<Table>> {
        self.tables.values().find(|t| t.schema == schema && t.name == name)
    }
    /// Whether any of these tables was created or altered since an earlier catalog.
    pub fn has_changed_since(&self, before: &Catalog, is_wanted: impl Fn(TableId) -> bool) -> bool {
        let mut wanted = self.tables.values().filter(|table| is_wanted(table.id));
        wanted.any(|table| before.table(table.id).is_none_or(|old| old.version != table.version))
    }
    /// A table of schema `public`, for procedures that know what they need.
    pub fn require(&self, name: &str) -> SqlResult<&Arc<Table>> {
        self.table_named("public", name).ok_or_else(|| {
            SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist"))
        })
    }
    /// Table and index of an index id.
    pub fn index(&self, id: TableId) -> Option<(&Arc<Table>, &Index)> {
        self.tables.values().find_map(|t| t.indexes.iter().find(|i| i.id == id).map(|i| (t, i)))
    }
    pub fn index_named(&self, schema: &str, name: &str) -> Option<(&Arc<Table>, &Index)> {
        self.tables
            .values()
            .filter(|t| t.schema == schema)
            .find_map(|t| t.indexes.iter().find(|i| i.name == name).map(|i| (t, i)))
    }

    /// Where rows of a table are ordered that a partition holds.
    pub fn home_of(&self, table: TableId, partition: PartitionId, topology: &Topology) -> RegionId {
        let moved = self.homes.get(&table).copied();
        moved.map_or_else(|| topology.region_of_partition(partition), |region| topology.successor(region))
    }

    /// Applies a change, or says why it cannot be. Every partition computes the same.
    pub fn apply(&mut self, change: &SchemaChange) -> SqlResult<()> {
        let is_there = self.databases.all.contains_key(&change.database);
        if (change.base_version != self.version || !is_there) && !change.only_moves() {
            return Err(stale_schema());
        }
        let part = self.within(change.database);
        let before = part.as_ref().unwrap_or(self);
        let mut next = before.clone();
        next.version += 1;
        for action in &change.actions {
            next.apply_one(action)?;
        }
        next.follow_foreign_keys(before);
        next.forget_comments();
        *self = if part.is_some() { self.with(next) } else { next };
        Ok(())
    }

    fn apply_one(&mut self, action: &SchemaAction) -> SqlResult<()> {
        let version = self.version;
        match action {
            SchemaAction::CreateSchema(name) => self.create_schema(name)?,
            SchemaAction::DropSchema(name) => {
                self.schemas.retain(|s| s != name);
                Arc::make_mut(&mut self.roles).forget_schema(name);
            }
            SchemaAction::CreateTable(table) => {
                if self.table_named(&table.schema, &table.name).is_some() {
                    return Err(SqlError::new(
                        SqlState::DUPLICATE_TABLE,
                        format!("relation \"{}\" already exists", table.name),
                    ));
                }
                self.claim_ids(table);
                self.tables.insert(table.id, Arc::new(Table { version, ..table.clone() }));
            }
            SchemaAction::AlterTable(table) => {
                if !self.tables.contains_key(&table.id) {
                    return Err(stale_schema());
                }
                self.claim_ids(table);
                self.tables.insert(table.id, Arc::new(Table { version, ..table.clone() }));
            }
            SchemaAction::ConfirmCheck(confirmed) => self.confirm_check(confirmed)?,
            SchemaAction::DropTable(id) => {
                self.tables.remove(id).ok_or_else(stale_schema)?;
                self.homes.remove(id);
                let roles = Arc::make_mut(&mut self.roles);
                roles.forget_relation(*id);
                self.sequences.retain(|sequence, s| {
                    let stays = s.owner.is_none_or(|(table, _)| table != *id);
                    if !stays {
                        roles.forget_relation(*sequence);
                    }
                    stays
                });
            }
            SchemaAction::CreateSequence(sequence) => {
                self.next_id = self.next_id.max(sequence.id.0 + 1);
                self.sequences.insert(sequence.id, Arc::new(sequence.clone()));
            }
            SchemaAction::DropSequence(id) => {
                self.sequences.remove(id).ok_or_else(stale_schema)?;
                Arc::make_mut(&mut self.roles).forget_relation(*id);
            }
            SchemaAction::Roles(change) => Arc::make_mut(&mut self.roles).apply(change)?,
            SchemaAction::PutView(view) => self.put_view(view)?,
            SchemaAction::DropView(id) => self.drop_view(*id)?,
            SchemaAction::PutEnum(of) => self.put_made(DataType::Enum(*of))?,
            SchemaAction::PutComposite(of) => self.put_made(DataType::Composite(*of))?,
            SchemaAction::PutDomain(domain) => self.put_domain(domain)?,
            SchemaAction::DropType(id) => self.drop_type(*id)?,
            SchemaAction::PutRoutine(routine) => self.put_routine(routine)?,
            SchemaAction::DropRoutine(id) => self.drop_routine(*id)?,
            SchemaAction::Comment(what, text) => {
                Arc::make_mut(&mut self.comments).set(what.clone(), text.as_deref());
            }
            SchemaAction::MoveHome(moved) => self.move_home(moved),
            SchemaAction::PutDatabase(database) => self.put_database(database)?,
            SchemaAction::DropDatabase(id) => self.drop_database(*id)?,
        }
        Ok(())
    }

    fn create_schema(&mut self, name: &String) -> SqlResult<()> {
        if self.schemas.contains(name) {
            let told = format!("schema \"{name}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_SCHEMA, told));
        }
        self.schemas.push(name.clone());
        Ok(())
    }

    /// Errors: 40001 if the table has changed since.
    fn confirm_check(&mut self, confirmed: &ConfirmedCheck) -> SqlResult<()> {
        let table = self.tables.get_mut(&confirmed.table).filter(|table| table.version == confirmed.version);
        let table = table.ok_or_else(stale_schema)?;
        let mut next = Table { version: self.version, ..table.as_ref().clone() };
        let check = next.checks_mut().find(|check| check.name == confirmed.check).ok_or_else(stale_schema)?;
        check.is_validated = true;
        *table = Arc::new(next);
        Ok(())
    }

    fn move_home(&mut self, moved: &MoveHome) {
        if self.tables.contains_key(&moved.table) && moved.ids.contains(&moved.table) {
            self.homes.insert(moved.table, moved.to);
        }
    }

    /// Keeps a domain, and describes anew the tables that have columns of it. Errors: 40001 if another type has taken the
    /// name meanwhile.
    fn put_domain(&mut self, domain: &Domain) -> SqlResult<()> {
        self.confirm_type(domain.id, &domain.schema, &domain.name)?;
        let domain = Arc::new(domain.clone());
        Arc::make_mut(&mut self.types).domains.insert(domain.id, domain.clone());
        let version = self.version;
        for table in self.tables.values_mut().filter(|t| t.domains.values().any(|d| d.id == domain.id)) {
            let next = Table { version, ..table.as_ref().clone() };
            *table = Arc::new(next.with_domain(&domain));
        }
        Ok(())
    }

    fn roles_mut(&mut self) -> &mut Roles {
        Arc::make_mut(&mut self.roles)
    }

    /// An id is given.
    fn claim(&mut self, id: TableId) {
        self.next_id = self.next_id.max(id.0 + 1);
    }

    /// Something is gone that had an owner and privileges.
    fn forget_rights(&mut self, id: TableId) {
        Arc::make_mut(&mut self.roles).forget_relation(id);
    }

    fn claim_ids(&mut self, table: &Table) {
        let indexes = table.indexes.iter().map(|i| i.id);
        let ids = indexes.chain(table.triggers.all().map(|t| t.id)).chain([table.id]);
        self.claim(ids.max().expect("has its own id"));
    }
}

/// A plan met another catalog than it was made for; the gateway plans again.
pub fn stale_schema() -> SqlError {
    SqlError::new(SqlState::SERIALIZATION_FAILURE, "the schema changed while the statement was on its way")
        .hint("Retry the transaction.")
}

impl Table {
    pub fn column_named(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|c| c.name == name)
    }
    /// Whether a column or a check is of a type.
    pub(crate) fn names_type(&self, of: DataType) -> bool {
        self.columns.iter().any(|column| column.data_type.has(of))
            || self.checks.iter().any(|check| check.expr.names_type(of))
    }
    /// The same with another description of a type.
    pub fn retyped(&self, of: DataType) -> Table {
        let column = |column: &Column| Column { data_type: column.data_type.retyped(of), ..column.clone() };
        let check = |check: &Check| {
            let mut expr = check.expr.clone();
            expr.retype(of);
            Check { expr, ..check.clone() }
        };
        let columns = self.columns.iter().map(column).collect();
        let checks = Arc::new(self.checks.iter().map(check).collect());
        let mut next = Table { columns, checks, ..self.clone() };
        next.foreign_keys_mut().for_each(|key| *key = key.retyped(of));
        next
    }
    /// A column is of a domain, or of none.
    pub fn set_domain(&mut self, column: usize, domain: Option<Arc<Domain>>) {
        match domain {
            Some(domain) => self.domains.insert(column, domain),
            None => self.domains.remove(&column),
        };
    }
    /// The same with another description of a domain.
    pub fn with_domain(mut self, domain: &Arc<Domain>) -> Table {
        let of_it = self.domains.values_mut().filter(|known| known.id == domain.id);
        of_it.for_each(|known| *known = domain.clone());
        self
    }
    /// The text of a column's default: its own, or that of its domain; of a generated column, its expression.
    pub fn default_of(&self, column: usize) -> Option<&String> {
        let of_domain = || self.domains.get(&column).and_then(|domain| domain.default.as_ref());
        self.columns[column].default.as_ref().or_else(of_domain)
    }
    /// Columns that `SELECT *` shows, with their numbers.
    pub fn visible_columns(&self) -> impl Iterator<Item = (usize, &Column)> {
        self.columns.iter().enumerate().filter(|(_, c)| !c.hidden)
    }
    /// Primary key of a row given as values.
    pub fn key_of(&self, values: &[Datum]) -> Key {
        let mut key = Key::new();
        self.primary_key.iter().for_each(|&c| key.push(&values[c]));
        key
    }
    pub fn key_of_row(&self, row: &Row) -> Key {
        let mut key = Key::new();
        self.primary_key.iter().for_each(|&c| key.push(&self.value_of(row, c)));
        key
    }
    /// All columns of a stored row, with the values that rows older than a column have. Values of columns that came after
    /// this description are left out: who reads a newer cut with it finds at COMMIT that the table is another.
    pub fn complete(&self, row: &Row) -> Vec<Datum> {
        let mut values = Vec::with_capacity(self.columns.len());
        values.extend(row.values().take(self.columns.len()));
        values.extend(self.columns[values.len()..].iter().map(|c| c.missing.clone()));
        values
    }
    /// A stored row in the shape of [`Table::complete`], with nulls in the place of all but these columns,
    /// which come in their order.
    pub fn complete_some(&self, row: &Row, columns: &[u16]) -> Vec<Datum> {
        let mut out = vec![Datum::Null; self.columns.len()];
        let mut values = row.values();
        let mut at = 0;
        for column in columns.iter().map(|c| usize::from(*c)) {
            while at < column && values.skip_one() {
                at += 1;
            }
            let stored = if at == column { values.next() } else { None };
            out[column] = match stored {
                Some(value) => {
                    at += 1;
                    value
                }
                None => self.columns[column].missing.clone(),
            };
        }
        out
    }
    /// The column whose value decides the partition; `None` for replicated tables.
    pub fn partition_column(&self) -> Option<usize> {
        match &self.placement {
            Placement::Home(_) => Some(self.primary_key[0]),
            Placement::HomeBy { column, .. } => Some(*column),
            Placement::Replicated => None,
        }
    }
    /// Where rows with this value of the partition column live.
    pub fn locate(&self, value: &Datum, topology: &Topology) -> Location {
        let hash = fnv1a(0, Key::of(std::slice::from_ref(value)).as_bytes());
        let region = match &self.placement {
            Placement::Replicated => return Location::Everywhere,
            Placement::Home(region) => *region,
            Placement::HomeBy { regions, .. } => {
                let hashed = RegionId((hash >> 32) as u16 % topology.spread());
                match regions {
                    RegionMap::Hash => hashed,
                    RegionMap::List(list) => {
                        list.iter().find(|(v, _)| v == value).map_or(hashed, |(_, region)| *region)
                    }
                    RegionMap::Name => match value {
                        Datum::Text(name) => topology.region_named(name).unwrap_or(hashed),
                        _ => hashed,
                    },
                }
            }
        };
        let count = topology.partitions_of(region).count() as u64;
        let nth = hash % count.max(1);
        let partition = topology.partitions_of(region).nth(nth as usize);
        Location::One(partition.unwrap_or_else(|| panic!("{region} has no partition")))
    }
    /// Where a row lives.
    pub fn locate_row(&self, values: &[Datum], topology: &Topology) -> Location {
        match self.partition_column() {
            Some(column) => self.locate(&values[column], topology),
            None => Location::Everywhere,
        }
    }
    /// Every partition that may hold rows of this table, in order.
    pub fn partitions(&self, topology: &Topology) -> Vec<PartitionId> {
        match &self.placement {
            Placement::Home(region) => topology.partitions_of(*region).collect(),
            _ => topology.partition_ids().collect(),
        }
    }
    fn has_one_home(&self) -> bool {
        matches!(self.placement, Placement::Home(_))
    }
    /// A unique index whose entries would be kept in another way in another cluster, if there is one.
    pub fn index_that_moves(&self, before: &Topology, after: &Topology) -> Option<&Index> {
        let local = |index: &Index, topology| self.index_is_local(index, topology);
        self.indexes.iter().find(|index| local(index, before) != local(index, after))
    }
    /// Whether rows may be elsewhere in a cluster with more regions: a value that names none today may be such a region's
    /// name.
    pub fn is_placed_by_name(&self) -> bool {
        matches!(&self.placement, Placement::HomeBy { regions: RegionMap::Name, .. })
    }
    /// A stored row's value of a column, whether or not the row is older than the column.
    pub fn value_of(&self, row: &Row, column: usize) -> Datum {
        row.stored(column).unwrap_or_else(|| self.columns[column].missing.clone())
    }
    /// Whether uniqueness of this index can be decided at one partition, because equal entries always
    /// meet there. Other unique indexes keep their entries as items of their own, homed by value.
    pub fn index_is_local(&self, index: &Index, topology: &Topology) -> bool {
        !index.unique
            || match self.partition_column() {
                None => true,
                Some(column) => index.columns.contains(&column) || self.partitions(topology).len() == 1,
            }
    }
    /// Home of a unique entry that cannot be derived from the partition column.
    pub fn locate_entry(&self, entry: &Key, topology: &Topology) -> PartitionId {
        let region = |p: &PartitionId| topology.partitions[usize::from(p.0)].region;
        let is_spread = |p: &PartitionId| self.has_one_home() || region(p).0 < topology.spread();
        let homes: Vec<PartitionId> = self.partitions(topology).into_iter().filter(is_spread).collect();
        homes[(fnv1a(1, entry.as_bytes()) % homes.len() as u64) as usize]
    }
}
