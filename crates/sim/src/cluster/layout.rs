//! The small database of the harness: two tables whose rows lie where a test wants them, and the
//! transactions on them.
//!
//! `lists(shelf, key, items)` holds texts to which transactions append, so that every reader can tell the
//! order of the writers; `registers(shelf, key, value)` holds numbers that are read before they are
//! overwritten. A shelf lies in one partition; its number is chosen so that every partition has some.
//! KEEPS: every value is written once.

use base::expr::{BinaryOperator, Expr};
use base::key::KeyRange;
use base::schema::{Column, Identity, Location, Placement, RegionMap, SchemaAction, SchemaChange, Table};
use base::topology::Topology;
use base::txn::{
    Access, AccessMode, AccessSet, Granule, OnConflict, ReadGranule, RowRead, Statement, Submission,
    TxnProgram, Validated, ValidatedWrite, WriteKind,
};
use base::{DataType, Datum, Key, PartitionId, Rank, RegionId, Row, TableId, Token};
use std::sync::Arc;

/// Catalog version of both tables once [`Layout::create`] has committed.
const VERSION: u64 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    List,
    Register,
}

/// A row of the two tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Item {
    pub kind: Kind,
    pub shelf: i64,
    pub key: i64,
}

impl Item {
    /// Its name in a history: byte order is key order within a shelf.
    pub fn name(&self) -> String {
        format!("{}/{:02}", shelf_name(self.kind, self.shelf), self.key)
    }
}

/// All rows of a shelf are named from the first of these to the second, exclusive.
pub fn shelf_bounds(kind: Kind, shelf: i64) -> (String, String) {
    let name = shelf_name(kind, shelf);
    (format!("{name}/"), format!("{name}0"))
}
fn shelf_name(kind: Kind, shelf: i64) -> String {
    match kind {
        Kind::List => format!("list{shelf:03}"),
        Kind::Register => format!("reg{shelf:03}"),
    }
}

/// A row as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    List(Vec<u64>),
    /// 0 at first.
    Register(u64),
}

impl Content {
    fn datum(&self) -> Datum {
        match self {
            Content::List(items) => Datum::text(items.iter().map(|i| format!("{i},")).collect::<String>()),
            Content::Register(value) => Datum::Int(*value as i64),
        }
    }
}

/// Which shelves there are, and where.
pub struct Layout {
    pub topology: Arc<Topology>,
    lists: Table,
    registers: Table,
    /// Each with its partition, partitions in order.
    pub shelves: Vec<(i64, PartitionId)>,
    /// Keys of a shelf are `0..keys`.
    pub keys: i64,
}

/// The tables' ids.
pub const LISTS: TableId = TableId(1);
pub const REGISTERS: TableId = TableId(2);

impl Layout {
    pub fn new(topology: Arc<Topology>, shelves_per_partition: usize, keys: i64) -> Layout {
        let regions = topology.wan.region_count() as i64;
        // Shelf n belongs to region n mod regions, and inside it to the partition its hash says.
        let region_of = |shelf: i64| RegionId((shelf % regions) as u16);
        let count = 1_000;
        let map = (0..count).map(|shelf| (Datum::Int(shelf), region_of(shelf))).collect::<Vec<_>>();
        let probe = table(LISTS, "lists", "items", DataType::Text, RegionMap::List(map.clone()));
        let mut shelves = Vec::new();
        for partition in topology.partition_ids() {
            let here = (0..count)
                .filter(|&shelf| probe.locate(&Datum::Int(shelf), &topology) == Location::One(partition));
            let before = shelves.len();
            shelves.extend(here.take(shelves_per_partition).map(|shelf| (shelf, partition)));
            assert_eq!(shelves.len() - before, shelves_per_partition, "{partition} has too few shelves");
        }
        // Only the shelves in use: the catalog is read often.
        let used: Vec<_> = shelves.iter().map(|&(shelf, _)| (Datum::Int(shelf), region_of(shelf))).collect();
        let lists = table(LISTS, "lists", "items", DataType::Text, RegionMap::List(used.clone()));
        let registers = table(REGISTERS, "registers", "value", DataType::BigInt, RegionMap::List(used));
        Layout { topology, lists, registers, shelves, keys }
    }

    /// A table like the registers, under another name.
    pub fn another(&self, id: TableId, name: &str) -> Table {
        Table { id, name: name.into(), primary_key_name: format!("{name}_pkey"), ..self.registers.clone() }
    }

    pub fn partition_of(&self, shelf: i64) -> PartitionId {
        let found = self.shelves.iter().find(|(s, _)| *s == shelf);
        found.expect("a shelf of this layout").1
    }
    /// Rows that exist from the start: every list, every register with an even key.
    pub fn loaded(&self) -> impl Iterator<Item = Item> + '_ {
        self.shelves.iter().flat_map(|&(shelf, _)| {
            (0..self.keys).flat_map(move |key| {
                let list = Item { kind: Kind::List, shelf, key };
                let register = Item { kind: Kind::Register, shelf, key };
                std::iter::once(list).chain((key % 2 == 0).then_some(register))
            })
        })
    }

    /// The transaction that creates both tables.
    pub fn create(&self) -> Submission {
        let actions = vec![
            SchemaAction::CreateTable(self.lists.clone()),
            SchemaAction::CreateTable(self.registers.clone()),
        ];
        let mut access = AccessSet::default();
        for partition in self.topology.partition_ids() {
            access.add(partition, Granule::Partition, AccessMode::Write);
        }
        submission(
            TxnProgram::Schema(SchemaChange { database: Default::default(), base_version: 0, actions }),
            access,
            Token::default(),
        )
    }
    /// The transaction that inserts the rows that exist from the start.
    pub fn load(&self, token: Token) -> Submission {
        let mut statements = Vec::new();
        let mut access = AccessSet::default();
        for kind in [Kind::List, Kind::Register] {
            let items: Vec<Item> = self.loaded().filter(|i| i.kind == kind).collect();
            for item in &items {
                self.access(&mut access, item, AccessMode::Write);
            }
            let initial = match kind {
                Kind::List => Content::List(Vec::new()),
                Kind::Register => Content::Register(0),
            };
            statements.push(self.insert_of(items.iter().map(|item| row(item, &initial)).collect(), kind));
        }
        submission(TxnProgram::Statements(statements), access, token)
    }

    /// Adds an item's row to an access set.
    pub fn access(&self, access: &mut AccessSet, item: &Item, mode: AccessMode) {
        let granule = Granule::Key(table_of(item.kind), key(item));
        access.add(self.partition_of(item.shelf), granule, mode);
    }
    /// `UPDATE lists SET items = items || 'value,' … RETURNING *`.
    pub fn append(&self, item: &Item, value: u64) -> (Statement, Access) {
        assert_eq!(item.kind, Kind::List);
        let appended = Expr::binary(
            BinaryOperator::Concat,
            Expr::Column(2),
            Expr::Constant(Datum::text(format!("{value},"))),
        );
        let statement = Statement::Update {
            table: LISTS,
            schema_version: VERSION,
            target: KeyRange::point(key(item)),
            filter: None,
            set: vec![(2, appended)],
            returning: Some(all_columns()),
        };
        (statement, Access { granule: Granule::Key(LISTS, key(item)), mode: AccessMode::Write })
    }
    /// `SELECT * FROM … WHERE shelf = …`, of the whole shelf or of one row.
    pub fn select(&self, target: &Target) -> (Statement, Access) {
        let (table, range) = (table_of(target.kind), target.range());
        let statement = Statement::Select {
            table,
            schema_version: VERSION,
            target: range.clone(),
            filter: None,
            columns: all_columns(),
        };
        (statement, Access { granule: Granule::of(table, range), mode: AccessMode::Read })
    }
    /// `INSERT INTO … VALUES …`, which fails if a row is there.
    pub fn insert(&self, item: &Item, content: &Content) -> (Statement, Access) {
        let statement = self.insert_of(vec![row(item, content)], item.kind);
        let granule = Granule::Key(table_of(item.kind), key(item));
        (statement, Access { granule, mode: AccessMode::Write })
    }
    fn insert_of(&self, rows: Vec<Row>, kind: Kind) -> Statement {
        Statement::Insert {
            table: table_of(kind),
            schema_version: VERSION,
            rows,
            on_conflict: OnConflict::Fail,
            returning: None,
        }
    }
    /// A one-shot transaction of statements, each at the partition of its shelf.
    pub fn one_shot(&self, parts: Vec<(i64, (Statement, Access))>, token: Token) -> Submission {
        let mut access = AccessSet::default();
        let mut statements = Vec::new();
        for (shelf, (statement, Access { granule, mode })) in parts {
            access.add(self.partition_of(shelf), granule, mode);
            statements.push(statement);
        }
        submission(TxnProgram::Statements(statements), access, token)
    }
    /// The end of an interactive transaction: valid if what was read is still so.
    pub fn validated(
        &self,
        read_at: Rank,
        reads: &[Target],
        writes: &[(Item, Option<Content>, WriteKind)],
        token: Token,
    ) -> Submission {
        let mut access = AccessSet::default();
        let mut validated = Validated { reads: Vec::new(), writes: Vec::new() };
        for target in reads {
            let (partition, table) = (self.partition_of(target.shelf), table_of(target.kind));
            let range = target.range();
            access.add(partition, Granule::of(table, range.clone()), AccessMode::Read);
            validated.reads.push(ReadGranule { partition, table, range, columns: None, at: read_at });
        }
        for (item, content, kind) in writes {
            self.access(&mut access, item, AccessMode::Write);
            validated.writes.push(ValidatedWrite {
                partition: self.partition_of(item.shelf),
                table: table_of(item.kind),
                schema_version: VERSION,
                key: key(item),
                kind: *kind,
                row: content.as_ref().map(|content| row(item, content)),
            });
        }
        submission(TxnProgram::Validated(validated), access, token)
    }
    /// A read of rows at a cut.
    pub fn row_read(&self, target: &Target) -> RowRead {
        RowRead {
            partition: self.partition_of(target.shelf),
            table: table_of(target.kind),
            index: None,
            range: target.range(),
            filter: None,
            limit: None,
            descending: false,
        }
    }
}

/// A whole shelf, or one row of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    pub kind: Kind,
    pub shelf: i64,
    pub key: Option<i64>,
}

impl Target {
    pub fn row(item: Item) -> Target {
        Target { kind: item.kind, shelf: item.shelf, key: Some(item.key) }
    }
    pub fn shelf(kind: Kind, shelf: i64) -> Target {
        Target { kind, shelf, key: None }
    }
    /// The row, if it is one.
    pub fn item(&self) -> Option<Item> {
        self.key.map(|key| Item { kind: self.kind, shelf: self.shelf, key })
    }
    fn range(&self) -> KeyRange {
        match self.item() {
            Some(item) => KeyRange::point(key(&item)),
            None => KeyRange::prefix(Key::of(&[Datum::Int(self.shelf)])),
        }
    }
}

/// A row of either table as values: what it is and what it holds.
pub fn read_row(kind: Kind, values: &[Datum]) -> (Item, Content) {
    let number = |datum: &Datum| match datum {
        Datum::Int(n) => *n,
        other => panic!("a number is stored as {other:?}"),
    };
    let item = Item { kind, shelf: number(&values[0]), key: number(&values[1]) };
    let content = match (kind, &values[2]) {
        (Kind::Register, value) => Content::Register(number(value) as u64),
        (Kind::List, Datum::Text(text)) => {
            let items = text.split(',').filter(|part| !part.is_empty());
            Content::List(items.map(|part| part.parse().expect("lists hold numbers")).collect())
        }
        (Kind::List, other) => panic!("a list is stored as {other:?}"),
    };
    (item, content)
}

pub fn table_of(kind: Kind) -> TableId {
    match kind {
        Kind::List => LISTS,
        Kind::Register => REGISTERS,
    }
}
fn key(item: &Item) -> Key {
    Key::of(&[Datum::Int(item.shelf), Datum::Int(item.key)])
}
fn row(item: &Item, content: &Content) -> Row {
    Row::of(&[Datum::Int(item.shelf), Datum::Int(item.key), content.datum()])
}
fn all_columns() -> Vec<Expr> {
    (0..3).map(Expr::Column).collect()
}
fn submission(program: TxnProgram, mut access: AccessSet, token: Token) -> Submission {
    access.normalize();
    Submission {
        program: Arc::new(program),
        access: Arc::new(access),
        token,
        request: None,
        isolation: Default::default(),
    }
}

fn table(id: TableId, name: &str, content: &str, data_type: DataType, regions: RegionMap) -> Table {
    let column = |name: &str, data_type| Column {
        name: name.into(),
        data_type,
        not_null: true,
        default: None,
        missing: Datum::Null,
        identity: Identity::No,
        hidden: false,
    };
    Table {
        id,
        schema: "public".into(),
        name: name.into(),
        version: VERSION,
        columns: vec![
            column("shelf", DataType::BigInt),
            column("key", DataType::BigInt),
            column(content, data_type),
        ],
        primary_key: vec![0, 1],
        primary_key_name: format!("{name}_pkey"),
        indexes: Vec::new(),
        checks: Default::default(),
        foreign: Default::default(),
        triggers: Default::default(),
        domains: Default::default(),
        partitioning: None,
        placement: Placement::HomeBy { column: 0, regions },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::wan::Wan;

    #[test]
    fn every_partition_has_its_shelves() {
        let topology = Arc::new(Topology::one_node_per_region(Wan::preset("perseus3").unwrap(), 3));
        let layout = Layout::new(topology.clone(), 2, 4);
        for partition in topology.partition_ids() {
            let shelves: Vec<i64> =
                layout.shelves.iter().filter(|(_, p)| *p == partition).map(|(s, _)| *s).collect();
            assert_eq!(shelves.len(), 2);
            for shelf in shelves {
                let home = layout.registers.locate(&Datum::Int(shelf), &topology);
                assert_eq!(home, Location::One(partition));
            }
        }
    }

    #[test]
    fn a_row_is_read_as_it_was_written_and_names_sort_inside_their_shelf() {
        for content in [Content::List(vec![3, 17]), Content::List(vec![]), Content::Register(4)] {
            let kind = if matches!(content, Content::Register(_)) { Kind::Register } else { Kind::List };
            let item = Item { kind, shelf: 12, key: 3 };
            assert_eq!(read_row(kind, &row(&item, &content).to_vec()), (item, content));
            let (low, high) = shelf_bounds(kind, 12);
            assert!(low <= item.name() && item.name() < high);
        }
    }
}
