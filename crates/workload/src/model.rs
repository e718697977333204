//! A model of the data: procedures run one after another on plain maps.
//!
//! What a cluster does concurrently must equal what this does in the cluster's serial order. It also checks
//! each procedure's declaration: touching a row that was not declared, or writing one declared for reading,
//! fails an assertion.

use base::error::SqlResult;
use base::key::KeyRange;
use base::schema::{Catalog, Location, Table};
use base::topology::Topology;
use base::txn::procedure::{Exchange, Procedure, ProcedureContext, RowAccess, RowView};
use base::txn::{Access, AccessMode, Granule};
use base::{Datum, Key, PartitionId, Row, TableId};
use std::collections::BTreeMap;
use std::ops::Bound;

type Rows = BTreeMap<Key, Row>;

/// All partitions of a database.
#[derive(Clone, Debug)]
pub struct Model {
    pub catalog: Catalog,
    pub topology: Topology,
    partitions: BTreeMap<PartitionId, BTreeMap<TableId, Rows>>,
}

impl Model {
    pub fn new(catalog: Catalog, topology: Topology) -> Model {
        let partitions = topology.partition_ids().map(|partition| (partition, BTreeMap::new())).collect();
        Model { catalog, topology, partitions }
    }

    /// Adds a complete row where it belongs.
    pub fn insert(&mut self, table: TableId, values: &[Datum]) {
        let table = self.catalog.table(table).expect("the catalog has the table").clone();
        let (key, row) = (table.key_of(values), Row::of(values));
        let homes: Vec<PartitionId> = match table.locate_row(values, &self.topology) {
            Location::One(partition) => vec![partition],
            Location::Everywhere => self.topology.partition_ids().collect(),
        };
        for home in homes {
            let rows = self.partitions.entry(home).or_default().entry(table.id).or_default();
            assert!(rows.insert(key.clone(), row.clone()).is_none(), "{} has {values:?} already", table.name);
        }
    }

    /// Every row of a table once, in key order.
    pub fn rows(&self, table: &str) -> Vec<Vec<Datum>> {
        let table = self.catalog.require(table).expect("the catalog has the table");
        let all: BTreeMap<&Key, &Row> =
            self.partitions.values().filter_map(|tables| tables.get(&table.id)).flatten().collect();
        all.values().map(|row| table.complete(row)).collect()
    }

    /// Calls a procedure; what it returns, participants in order.
    ///
    /// # Errors
    /// Whatever the procedure aborts with; then nothing has changed.
    pub fn call(&mut self, procedure: &dyn Procedure, args: &[Datum]) -> SqlResult<Vec<Row>> {
        let access = procedure.declare(args, &self.catalog, &self.topology)?;
        let mut exchange = Exchange::new();
        for (&partition, declared) in &access.by_partition {
            let rows = View { model: self, partition, declared };
            let context = ProcedureContext { partition, catalog: &self.catalog, topology: &self.topology };
            exchange.insert(partition, procedure.gather(args, &context, &rows)?);
        }
        let mut result = Vec::new();
        let (catalog, topology) = (self.catalog.clone(), self.topology.clone());
        for (&partition, declared) in &access.by_partition {
            let context = ProcedureContext { partition, catalog: &catalog, topology: &topology };
            let mut rows = Writer { model: self, partition, declared };
            result.extend(procedure.apply(args, &context, &exchange, &mut rows));
        }
        Ok(result)
    }

    fn get(&self, partition: PartitionId, table: TableId, key: &Key) -> Option<&Row> {
        self.partitions[&partition].get(&table)?.get(key)
    }

    fn scan(
        &self,
        partition: PartitionId,
        table: TableId,
        range: &KeyRange,
        descending: bool,
        visit: &mut dyn FnMut(&Key, &Row) -> bool,
    ) {
        let Some(rows) = self.partitions[&partition].get(&table) else { return };
        let high = range.high.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        if range.is_empty() {
            return;
        }
        let found = rows.range((Bound::Included(&range.low), high));
        if descending {
            found.rev().all(|(key, row)| visit(key, row));
        } else {
            let mut found = found;
            found.all(|(key, row)| visit(key, row));
        }
    }

    fn scan_index(
        &self,
        partition: PartitionId,
        index: TableId,
        range: &KeyRange,
        descending: bool,
        visit: &mut dyn FnMut(&Key, &Row) -> bool,
    ) -> TableId {
        let (table, index) = self.catalog.index(index).expect("the catalog has the index");
        let entries: BTreeMap<Key, (&Key, &Row)> = self.partitions[&partition]
            .get(&table.id)
            .into_iter()
            .flatten()
            .map(|(key, row)| (table.index_entry(index, &table.complete(row), key), (key, row)))
            .filter(|(entry, _)| range.contains(entry))
            .collect();
        if descending {
            entries.values().rev().all(|(key, row)| visit(key, row));
        } else {
            entries.values().all(|(key, row)| visit(key, row));
        }
        table.id
    }
}

/// Whether what was declared covers this granule in this mode or a stronger one.
fn covers(declared: &[Access], table: TableId, range: &KeyRange, mode: AccessMode) -> bool {
    declared.iter().filter(|access| access.mode >= mode).any(|access| match &access.granule {
        Granule::Partition => true,
        Granule::Key(t, key) => *t == table && range.as_point() == Some(key),
        Granule::Range(t, wide) => {
            let inside = match (&wide.high, &range.high) {
                (None, _) => true,
                (Some(_), None) => false,
                (Some(wide), Some(narrow)) => narrow <= wide,
            };
            *t == table && wide.low <= range.low && inside
        }
    })
}

fn assert_covered(declared: &[Access], table: TableId, range: &KeyRange, mode: AccessMode) {
    assert!(covers(declared, table, range, mode), "{mode:?} of {table} {range:?} was not declared");
}

/// What one participant may read.
struct View<'a> {
    model: &'a Model,
    partition: PartitionId,
    declared: &'a [Access],
}

impl View<'_> {
    fn check(&self, table: TableId, range: &KeyRange) {
        assert_covered(self.declared, table, range, AccessMode::Read);
    }
}

impl RowView for View<'_> {
    fn get(&self, table: TableId, key: &Key) -> Option<Row> {
        self.check(table, &KeyRange::point(key.clone()));
        self.model.get(self.partition, table, key).cloned()
    }
    fn scan(
        &self,
        table: TableId,
        range: &KeyRange,
        descending: bool,
        visit: &mut dyn FnMut(&Key, &Row) -> bool,
    ) {
        self.check(table, range);
        self.model.scan(self.partition, table, range, descending, visit);
    }
    fn scan_index(
        &self,
        index: TableId,
        range: &KeyRange,
        descending: bool,
        visit: &mut dyn FnMut(&Key, &Row) -> bool,
    ) {
        self.check(index, range);
        let mut keys = Vec::new();
        let table = self.model.scan_index(self.partition, index, range, descending, &mut |key, row| {
            keys.push(key.clone());
            visit(key, row)
        });
        keys.into_iter().for_each(|key| self.check(table, &KeyRange::point(key)));
    }
}

/// What one participant may read and write.
struct Writer<'a> {
    model: &'a mut Model,
    partition: PartitionId,
    declared: &'a [Access],
}

impl Writer<'_> {
    fn view(&self) -> View<'_> {
        View { model: self.model, partition: self.partition, declared: self.declared }
    }
    /// The row, and every index entry that comes with its new values, must be declared for writing.
    fn check(&self, table: TableId, key: &Key, row: Option<&Row>) {
        assert_covered(self.declared, table, &KeyRange::point(key.clone()), AccessMode::Write);
        let table: &Table = self.model.catalog.table(table).expect("the catalog has the table");
        let Some(row) = row else { return };
        let new = table.complete(row);
        assert_eq!(*key, table.key_of(&new), "a row of {} under another's key", table.name);
        let old = self.model.get(self.partition, table.id, key).map(|old| table.complete(old));
        for index in &table.indexes {
            let entry = table.index_entry(index, &new, key);
            if old.as_ref().is_none_or(|old| table.index_entry(index, old, key) != entry) {
                assert_covered(self.declared, index.id, &KeyRange::point(entry), AccessMode::Write);
            }
        }
        for (value, column) in new.iter().zip(&table.columns) {
            assert!(!(column.not_null && value.is_null()), "{}.{} is null", table.name, column.name);
            let fits = column.data_type.coerce(value.clone());
            assert_eq!(fits.as_ref(), Ok(value), "{}.{}", table.name, column.name);
        }
    }
}

impl RowView for Writer<'_> {
    fn get(&self, table: TableId, key: &Key) -> Option<Row> {
        self.view().get(table, key)
    }
    fn scan(
        &self,
        table: TableId,
        range: &KeyRange,
        descending: bool,
        visit: &mut dyn FnMut(&Key, &Row) -> bool,
    ) {
        self.view().scan(table, range, descending, visit);
    }
    fn scan_index(
        &self,
        index: TableId,
        range: &KeyRange,
        descending: bool,
        visit: &mut dyn FnMut(&Key, &Row) -> bool,
    ) {
        self.view().scan_index(index, range, descending, visit);
    }
}

impl RowAccess for Writer<'_> {
    fn write(&mut self, table: TableId, key: Key, row: Option<Row>) {
        self.check(table, &key, row.as_ref());
        let tables = self.model.partitions.get_mut(&self.partition).expect("a participant exists");
        let rows = tables.entry(table).or_default();
        match row {
            Some(row) => _ = rows.insert(key, row),
            None => _ = rows.remove(&key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Home, Placement, TableSpec, types};
    use base::DataType;
    use base::schema::{SchemaAction, SchemaChange};
    use base::txn::AccessSet;
    use base::wan::Wan;

    const BOOK: TableSpec = TableSpec {
        name: "book",
        columns: &[("ID", types::INTEGER), ("PRICE", types::INTEGER)],
        primary_key: &["id"],
        nullable: &[],
        indexes: &[("book_by_price", &["price"])],
        home: Home::By("id"),
    };

    /// Declares what `declares` says and sets the price of book 1 to 5.
    struct Reprice {
        declares: fn(&mut AccessSet, PartitionId, &Table),
    }

    impl Procedure for Reprice {
        fn name(&self) -> &'static str {
            "reprice"
        }
        fn arguments(&self) -> Vec<(&'static str, DataType)> {
            vec![]
        }
        fn columns(&self) -> Vec<(&'static str, DataType)> {
            vec![]
        }
        fn declare(&self, _: &[Datum], catalog: &Catalog, _: &Topology) -> SqlResult<AccessSet> {
            let mut access = AccessSet::default();
            (self.declares)(&mut access, PartitionId(0), catalog.require("book")?);
            Ok(access)
        }
        fn gather(&self, _: &[Datum], _: &ProcedureContext<'_>, _: &dyn RowView) -> SqlResult<Vec<Datum>> {
            Ok(vec![])
        }
        fn apply(
            &self,
            _: &[Datum],
            context: &ProcedureContext<'_>,
            _: &Exchange,
            rows: &mut dyn RowAccess,
        ) -> Vec<Row> {
            let row = Row::of(&[Datum::Int(1), Datum::Int(5)]);
            rows.put(context.catalog.require("book").unwrap().id, one(), row);
            vec![]
        }
    }

    fn one() -> Key {
        Key::of(&[Datum::Int(1)])
    }

    fn reprice(declares: fn(&mut AccessSet, PartitionId, &Table)) -> Model {
        let topology = Topology::one_node_per_region(Wan::uniform("one", &["here"], 1, 1), 1);
        let mut catalog = Catalog::default();
        let actions = vec![SchemaAction::CreateTable(BOOK.describe(&Placement::Plain, 0, &topology, 1))];
        catalog.apply(&SchemaChange { database: Default::default(), base_version: 0, actions }).unwrap();
        let mut model = Model::new(catalog, topology);
        model.insert(TableId(1), &[Datum::Int(1), Datum::Int(4)]);
        model.call(&Reprice { declares }, &[]).unwrap();
        model
    }

    fn price_five(index: TableId) -> Granule {
        Granule::Range(index, KeyRange::prefix(Key::of(&[Datum::Int(5)])))
    }

    #[test]
    fn what_was_declared_may_be_written() {
        let model = reprice(|access, at, table| {
            access.write_key(at, table.id, one());
            access.add(at, price_five(table.indexes[0].id), AccessMode::Write);
        });
        assert_eq!(model.rows("book"), [[Datum::Int(1), Datum::Int(5)]]);
    }

    #[test]
    #[should_panic(expected = "was not declared")]
    fn a_row_declared_for_reading_may_not_be_written() {
        reprice(|access, at, table| {
            access.read_key(at, table.id, one());
            access.add(at, price_five(table.indexes[0].id), AccessMode::Write);
        });
    }

    #[test]
    #[should_panic(expected = "was not declared")]
    fn a_new_index_entry_must_be_declared_too() {
        reprice(|access, at, table| access.write_key(at, table.id, one()));
    }
}
