//! Procedures: registered code over the rows here, kept to what it declared.

use super::declared::{Declared, name_of, undeclared_range};
use crate::store::{Store, Wrote};
use base::commit::RowWrite;
use base::error::{SqlError, SqlResult};
use base::key::KeyRange;
use base::txn::procedure::{Exchange, Procedure, ProcedureContext, RowAccess, RowView};
use base::txn::{AccessMode, Applied, Gathered, StatementResult, Transaction};
use base::{Datum, Key, PartitionId, Place, Row, TableId};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Store {
    pub(super) fn gather_procedure(
        &self,
        transaction: &Transaction,
        name: &str,
        args: &[Datum],
    ) -> SqlResult<Vec<Datum>> {
        let procedure = self.procedures.get(name)?;
        let view = View {
            store: self,
            declared: Declared::new(transaction.access.at(self.partition)),
            outside: RefCell::default(),
        };
        let values = procedure.gather(args, &self.context(), &view);
        match view.outside.into_inner() {
            Some(error) => Err(error),
            None => values,
        }
    }

    pub(super) fn apply_procedure(
        &mut self,
        transaction: &Transaction,
        name: &str,
        args: &[Datum],
        place: Place,
        exchange: &BTreeMap<PartitionId, Gathered>,
    ) -> Applied {
        let procedure: Arc<dyn Procedure> =
            self.procedures.get(name).expect("it was gathered without an error").clone();
        let values = |gathered: &Gathered| match gathered {
            Gathered::Values(values) => values.clone(),
            Gathered::Abort(error) => panic!("applied although a participant aborted: {error}"),
        };
        let exchange: Exchange = exchange.iter().map(|(p, gathered)| (*p, values(gathered))).collect();
        let (catalog, topology) = (self.catalog.clone(), self.topology.clone());
        let context = ProcedureContext { partition: self.partition, catalog: &catalog, topology: &topology };
        let declared = Declared::new(transaction.access.at(self.partition));
        let mut access = Access { store: self, declared, place, writes: Vec::new() };
        let rows = procedure.apply(args, &context, &exchange, &mut access);
        let writes = access.writes;
        Applied { results: vec![StatementResult { rows, affected: 0 }], writes, schema: None }
    }

    fn context(&self) -> ProcedureContext<'_> {
        ProcedureContext { partition: self.partition, catalog: &self.catalog, topology: &self.topology }
    }

    /// Newest rows, each held against the declared set; `outside` hears of one that is not in it.
    fn scan_declared(
        &self,
        declared: &Declared<'_>,
        id: TableId,
        range: &KeyRange,
        descending: bool,
        outside: &dyn Fn(SqlError),
        visit: &mut dyn FnMut(&Key, &Row) -> bool,
    ) {
        if !declared.has_range(id, range, AccessMode::Read) {
            return outside(undeclared_range(&self.catalog, id));
        }
        let Some((table, _)) = self.index(id) else { return self.scan(id, range, descending, visit) };
        // The entry alone does not order a reader against writers of the row's other columns.
        let table = table.desc.id;
        self.scan_index(id, range, descending, &mut |key, row| {
            let is_declared = declared.has_key(table, key, AccessMode::Read);
            if !is_declared {
                outside(undeclared(self, table, key));
            }
            is_declared && visit(key, row)
        });
    }
}

fn undeclared(store: &Store, table: TableId, key: &Key) -> SqlError {
    SqlError::internal(format!(
        "the procedure touches key {key:?} of {} outside its declared set",
        name_of(&store.catalog, table)
    ))
}

/// Rows while gathering. A touch outside the declared set aborts the transaction.
struct View<'a> {
    store: &'a Store,
    declared: Declared<'a>,
    outside: RefCell<Option<SqlError>>,
}

impl View<'_> {
    fn report(&self, error: SqlError) {
        self.outside.borrow_mut().get_or_insert(error);
    }
}

impl RowView for View<'_> {
    fn get(&self, table: TableId, key: &Key) -> Option<Row> {
        if !self.declared.has_key(table, key, AccessMode::Read) {
            self.report(undeclared(self.store, table, key));
            return None;
        }
        self.store.get(table, key).cloned()
    }
    fn scan(
        &self,
        table: TableId,
        range: &KeyRange,
        descending: bool,
        visit: &mut dyn FnMut(&Key, &Row) -> bool,
    ) {
        let outside = |error| self.report(error);
        self.store.scan_declared(&self.declared, table, range, descending, &outside, visit);
    }
    fn scan_index(
        &self,
        index: TableId,
        range: &KeyRange,
        descending: bool,
        visit: &mut dyn FnMut(&Key, &Row) -> bool,
    ) {
        self.scan(index, range, descending, visit);
    }
}

/// Rows while applying: writes go to the store at once. A touch outside the declared set is a defect,
/// since every abort was decided before.
struct Access<'a> {
    store: &'a mut Store,
    declared: Declared<'a>,
    place: Place,
    writes: Vec<RowWrite>,
}

impl Access<'_> {
    fn write(&mut self, table: TableId, key: Key, row: Option<Row>) {
        assert!(
            self.declared.has_key(table, &key, AccessMode::Write),
            "{}",
            undeclared(self.store, table, &key)
        );
        if cfg!(debug_assertions) {
            self.check_entries(table, &key, row.as_ref());
        }
        match self.store.write_row(table, &key, row.clone(), self.place) {
            Wrote::Nothing => {}
            Wrote::Version => self.writes.push(RowWrite { table, key, row }),
            Wrote::OwnAgain => {
                let earlier = self.writes.iter_mut().rev().find(|w| w.table == table && w.key == key);
                earlier.expect("written by this transaction before").row = row;
            }
        }
    }

    /// New index entries are declared too, or readers of the index would miss the row.
    fn check_entries(&self, id: TableId, key: &Key, row: Option<&Row>) {
        let (Some(table), Some(row)) = (self.store.table(id), row) else { return };
        for index in &table.indexes {
            assert!(index.local, "a procedure cannot write {}: unique elsewhere", table.desc.name);
            let new = table.desc.index_entry_of_row(&index.desc, row, key);
            let old = table.rows.latest(key);
            if old.is_some_and(|old| table.desc.index_entry_of_row(&index.desc, old, key) == new) {
                continue;
            }
            let is_declared = self.declared.has_key(index.desc.id, &new, AccessMode::Write);
            assert!(is_declared, "{}", undeclared(self.store, index.desc.id, &new));
        }
    }
}

impl RowView for Access<'_> {
    fn get(&self, table: TableId, key: &Key) -> Option<Row> {
        let is_declared = self.declared.has_key(table, key, AccessMode::Read);
        assert!(is_declared, "{}", undeclared(self.store, table, key));
        self.store.get(table, key).cloned()
    }
    fn scan(
        &self,
        table: TableId,
        range: &KeyRange,
        descending: bool,
        visit: &mut dyn FnMut(&Key, &Row) -> bool,
    ) {
        let outside = |error: SqlError| panic!("{error}");
        self.store.scan_declared(&self.declared, table, range, descending, &outside, visit);
    }
    fn scan_index(
        &self,
        index: TableId,
        range: &KeyRange,
        descending: bool,
        visit: &mut dyn FnMut(&Key, &Row) -> bool,
    ) {
        self.scan(index, range, descending, visit);
    }
}

impl RowAccess for Access<'_> {
    fn put(&mut self, table: TableId, key: Key, row: Row) {
        self.write(table, key, Some(row));
    }
    fn delete(&mut self, table: TableId, key: &Key) {
        self.write(table, key.clone(), None);
    }
}
