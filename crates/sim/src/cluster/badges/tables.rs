//! The tables, and what their programs declare.
//!
//! A table is like the registers with a badge in each row and a unique index over the badges. Scopes differ in where its
//! entries and rows are: an entry beside its row, an entry that is an item of its own at the home of its value, rows that
//! are in every partition. KEEPS: a program declares what `sql::lower::access` and a block of `session` declare, unless
//! that is what a planted fault leaves out ([`Undeclared`]).

use super::super::layout::Layout;
use super::Holder;
use base::key::KeyRange;
use base::rng::Rng;
use base::schema::{Catalog, Column, Index, Location, Placement, SchemaAction, SchemaChange, Table};
use base::topology::Topology;
use base::txn::{AccessMode, AccessSet, Granule, Submission, TxnProgram};
use base::{Datum, Key, PartitionId, TableId, Token};
use std::sync::Arc;

/// Whose badges differ from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Those of a shelf's rows: an entry is beside its row.
    Shelf,
    /// Those of all rows: an entry is homed by its value.
    All,
    /// Those of all rows, which every partition has.
    Copied,
}

impl Scope {
    pub const EVERY: [Scope; 3] = [Scope::Shelf, Scope::All, Scope::Copied];

    /// Of its table, and how names of its rows begin in a history.
    pub fn name(self) -> &'static str {
        match self {
            Scope::Shelf => "badges",
            Scope::All => "passes",
            Scope::Copied => "grants",
        }
    }
    pub fn table(self) -> TableId {
        TableId(3 + 2 * self as u32)
    }
    pub fn index(self) -> TableId {
        TableId(4 + 2 * self as u32)
    }
}

/// A planted fault: what an access set leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undeclared {
    /// Of DELETE by key or by range: the unique entries that its rows give up.
    ByDeletes,
    /// Of UPDATE by key: the unique entry that its row gives up.
    ByUpdates,
    /// Of a block: the same, of all rows that it writes.
    ByBlocks,
}

impl Undeclared {
    pub const ALL: [Undeclared; 3] = [Undeclared::ByDeletes, Undeclared::ByUpdates, Undeclared::ByBlocks];
}

/// See the module.
pub struct Tables {
    pub topology: Arc<Topology>,
    /// In the order of [`Scope::EVERY`].
    tables: [Table; 3],
    /// Each with its partition, in different regions where there are several.
    pub shelves: Vec<(i64, PartitionId)>,
    /// What most operations are about.
    usual: (Scope, i64),
    pub undeclared: Option<Undeclared>,
}

/// Keys of a shelf, and badges, are few, so that rows meet.
pub const KEYS: i64 = 3;
pub const BADGES: i64 = 3;
/// Name of an index that a client makes while others write.
pub const SECOND_INDEX: &str = "built";
/// Catalog version of the tables when they are created, after those of the layout.
const VERSION: u64 = 2;

/// Column numbers.
pub const SHELF: usize = 0;
pub const BADGE: usize = 2;
pub const VALUE: usize = 3;
pub const OLD_BADGE: usize = 4;
pub const OLD_VALUE: usize = 5;
/// Columns that all rows have.
pub const COLUMNS: usize = 6;

impl Tables {
    /// `usual`: the table that most operations are about, and whether these are about the last shelf.
    pub fn new(layout: &Layout, (scope, is_last): (Scope, bool), undeclared: Option<Undeclared>) -> Tables {
        let tables = Scope::EVERY.map(|scope| table(layout, scope));
        let (first, last) = (layout.shelves[0], *layout.shelves.last().expect("there are shelves"));
        let usual = (scope, if is_last { last.0 } else { first.0 });
        Tables { topology: layout.topology.clone(), tables, shelves: vec![first, last], usual, undeclared }
    }

    /// What an operation is about.
    pub fn draw_place(&self, rng: &mut Rng) -> (Scope, i64) {
        if rng.chance(0.7) {
            return self.usual;
        }
        (*rng.pick(&Scope::EVERY), rng.pick(&self.shelves).0)
    }

    fn table(&self, scope: Scope) -> &Table {
        &self.tables[scope as usize]
    }
    /// As they are created.
    pub fn known(&self) -> Known {
        Known(self.tables.clone().map(Arc::new))
    }
    /// Partitions that have a shelf's rows.
    pub fn homes(&self, scope: Scope, shelf: i64) -> Vec<PartitionId> {
        match self.table(scope).locate(&Datum::Int(shelf), &self.topology) {
            Location::One(partition) => vec![partition],
            Location::Everywhere => self.topology.partition_ids().collect(),
        }
    }
    /// Partitions that may have rows.
    pub fn partitions(&self, scope: Scope) -> Vec<PartitionId> {
        self.table(scope).partitions(&self.topology)
    }
    /// Whether an entry is where its row is.
    pub fn is_local(&self, scope: Scope) -> bool {
        let table = self.table(scope);
        table.index_is_local(&table.indexes[0], &self.topology)
    }

    /// The transaction that creates them, in a catalog that has only the layout's tables.
    pub fn create(&self, token: Token) -> Submission {
        let actions = self.tables.iter().cloned().map(SchemaAction::CreateTable).collect();
        let mut access = AccessSet::default();
        for partition in self.topology.partition_ids() {
            access.add(partition, Granule::Partition, AccessMode::Write);
        }
        submission(
            TxnProgram::Schema(SchemaChange {
                database: Default::default(),
                base_version: VERSION - 1,
                actions,
            }),
            access,
            token,
        )
    }

    /// Declares that a row is written.
    pub fn write_row(&self, access: &mut AccessSet, scope: Scope, holder: &Holder) {
        let key = key(holder.shelf, holder.key);
        self.homes(scope, holder.shelf)
            .iter()
            .for_each(|home| access.write_key(*home, scope.table(), key.clone()));
    }
    /// Declares that a row's entries are written, in the indexes that its table is known to have.
    pub fn write_entries(&self, access: &mut AccessSet, known: &Known, scope: Scope, holder: &Holder) {
        let table = known.of(scope);
        for index in &table.indexes {
            let entry = table.index_entry(index, &holder.values(), &key(holder.shelf, holder.key));
            let homes = match self.is_local(scope) {
                true => self.homes(scope, holder.shelf),
                false => vec![table.locate_entry(&entry, &self.topology)],
            };
            homes.iter().for_each(|home| access.write_key(*home, index.id, entry.clone()));
        }
    }
    /// Declares that rows of a range are written at these partitions, or entries of the index.
    pub fn write_range(access: &mut AccessSet, id: TableId, range: &KeyRange, partitions: &[PartitionId]) {
        for partition in partitions {
            access.add(*partition, Granule::of(id, range.clone()), AccessMode::Write);
        }
    }
}

/// The tables as a client knows them: columns are added meanwhile.
#[derive(Clone)]
pub struct Known([Arc<Table>; 3]);

impl Known {
    pub fn of(&self, scope: Scope) -> &Arc<Table> {
        &self.0[scope as usize]
    }
    /// Indexes with one of these columns: those whose entries change with it.
    pub fn indexes_of<'a>(
        &'a self,
        scope: Scope,
        columns: &'a [usize],
    ) -> impl Iterator<Item = TableId> + 'a {
        let with = |index: &&Index| index.columns.iter().any(|column| columns.contains(column));
        self.of(scope).indexes.iter().filter(with).map(|index| index.id)
    }
    /// Takes over what a gateway knows, where that is later.
    pub fn learn(&mut self, catalog: &Catalog) {
        for scope in Scope::EVERY {
            let known = &mut self.0[scope as usize];
            if let Some(table) = catalog.table(scope.table()).filter(|table| table.version > known.version) {
                *known = table.clone();
            }
        }
    }
}

pub fn key(shelf: i64, key: i64) -> Key {
    Key::of(&[Datum::Int(shelf), Datum::Int(key)])
}
/// The rows of a shelf.
pub fn of_shelf(shelf: i64) -> KeyRange {
    KeyRange::prefix(Key::of(&[Datum::Int(shelf)]))
}

pub fn submission(program: TxnProgram, mut access: AccessSet, token: Token) -> Submission {
    access.normalize();
    let (program, access) = (Arc::new(program), Arc::new(access));
    Submission { program, access, token, request: None, isolation: Default::default() }
}

fn table(layout: &Layout, scope: Scope) -> Table {
    let mut table = Table { version: VERSION, ..layout.another(scope.table(), scope.name()) };
    let numbers = table.columns[0].clone();
    let column = |name: &str, not_null| Column { name: name.into(), not_null, ..numbers.clone() };
    table.columns = vec![
        column("shelf", true),
        column("key", true),
        column("badge", false),
        column("value", true),
        column("old_badge", false),
        column("old_value", false),
    ];
    let columns = match scope {
        Scope::Shelf => vec![0, BADGE],
        Scope::All | Scope::Copied => vec![BADGE],
    };
    table.indexes = vec![Index {
        id: scope.index(),
        name: format!("{}_badge", scope.name()),
        columns,
        unique: true,
        constraint: true,
        form: Default::default(),
    }];
    if scope == Scope::Copied {
        table.placement = Placement::Replicated;
    }
    table
}
