//! Procedures: registered code over the rows here, kept to what it declared.

use super::contained::contained_read;
use super::declared::{Declared, name_of, undeclared_range};
use crate::store::Store;
use crate::tables::Wrote;
use base::commit::{Change, RowWrite};
use base::error::{SqlError, SqlResult};
use base::key::KeyRange;
use base::schema::Catalog;
use base::txn::procedure::{Exchange, Procedure, ProcedureContext, RowAccess, RowView};
use base::txn::{Access as BaseAccess, AccessMode, Applied, Gathered, StatementResult, Transaction};
use base::{Datum, Key, PartitionId, Place, Rank, Row, TableId};
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
            cut: None,
            outside: RefCell::default(),
        };
        let values = procedure.gather(args, &self.context(&self.catalog), &view);
        view.judge(values)
    }

    /// A call that only reads and takes part only here, at a cut.
    ///
    /// Errors: those of the procedure; a cut that was collected (72000).
    pub fn call_at(
        &self,
        cut: Rank,
        name: &str,
        args: &[Datum],
        accesses: &[BaseAccess],
    ) -> SqlResult<Vec<Row>> {
        if accesses.iter().any(|a| a.mode != AccessMode::Read) {
            return Err(SqlError::internal("a call that declares writes needs a place in the order"));
        }
        contained_read(|| self.call(cut, name, args, accesses))
    }

    fn call(&self, cut: Rank, name: &str, args: &[Datum], accesses: &[BaseAccess]) -> SqlResult<Vec<Row>> {
        let procedure = self.procedures.get(name)?;
        let catalog = self.catalog_at(cut)?;
        let context = self.context(catalog);
        let mut view = View {
            store: self,
            declared: Declared::new(accesses),
            cut: Some(Place::end_of(cut)),
            outside: RefCell::default(),
        };
        let values = procedure.gather(args, &context, &view);
        let exchange = Exchange::from([(self.partition, view.take_outside().map_or(values, Err)?)]);
        let rows = procedure.apply(args, &context, &exchange, &mut view);
        view.judge(Ok(rows))
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

    pub(super) fn context<'a>(&'a self, catalog: &'a Catalog) -> ProcedureContext<'a> {
        ProcedureContext { partition: self.partition, catalog, topology: &self.topology }
    }

    /// Rows at a cut, or the newest, each held against the declared set; `outside` hears of one that is not
    /// in it.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn scan_declared(
        &self,
        declared: &Declared<'_>,
        cut: Option<Place>,
        id: TableId,
        range: &KeyRange,
        descending: bool,
        outside: &dyn Fn(SqlError),
        visit: &mut dyn FnMut(&Key, &Row) -> bool,
    ) {
        if !declared.has_range(id, range, AccessMode::Read) {
            return outside(undeclared_range(&self.catalog, id));
        }
        let Some((table, _)) = self.index(id) else {
            return match cut {
                None => self.scan(id, range, descending, visit),
                Some(cut) => self.scan_at(id, range, cut, descending, visit),
            };
        };
        // The entry alone does not order a reader against writers of the row's other columns.
        let table = table.desc.id;
        let mut visit_declared = |key: &Key, row: &Row| {
            let is_declared = declared.has_key(table, key, AccessMode::Read);
            if !is_declared {
                outside(undeclared(self, table, key));
            }
            is_declared && visit(key, row)
        };
        match cut {
            None => self.scan_index(id, range, descending, &mut visit_declared),
            Some(cut) => self.scan_index_at(id, range, cut, descending, &mut visit_declared),
        }
    }
}

pub(super) fn undeclared(store: &Store, table: TableId, key: &Key) -> SqlError {
    SqlError::internal(format!(
        "the procedure touches key {key:?} of {} outside its declared set",
        name_of(&store.catalog, table)
    ))
}

/// Rows while gathering, or at a cut. A touch outside the declared set aborts the transaction.
struct View<'a> {
    store: &'a Store,
    declared: Declared<'a>,
    /// `None`: the newest rows.
    cut: Option<Place>,
    outside: RefCell<Option<SqlError>>,
}

impl View<'_> {
    fn report(&self, error: SqlError) {
        self.outside.borrow_mut().get_or_insert(error);
    }
    fn take_outside(&self) -> Option<SqlError> {
        self.outside.borrow_mut().take()
    }
    fn judge<T>(&self, result: SqlResult<T>) -> SqlResult<T> {
        self.take_outside().map_or(result, Err)
    }
}

impl RowView for View<'_> {
    fn get(&self, table: TableId, key: &Key) -> Option<Row> {
        if !self.declared.has_key(table, key, AccessMode::Read) {
            self.report(undeclared(self.store, table, key));
            return None;
        }
        match self.cut {
            None => self.store.get(table, key).cloned(),
            Some(cut) => self.store.get_at(table, key, cut).cloned(),
        }
    }
    fn scan(
        &self,
        table: TableId,
        range: &KeyRange,
        descending: bool,
        visit: &mut dyn FnMut(&Key, &Row) -> bool,
    ) {
        let outside = |error| self.report(error);
        self.store.scan_declared(&self.declared, self.cut, table, range, descending, &outside, visit);
    }
}

/// At a cut: what declared no writes and writes is wrong, and nothing is written.
impl RowAccess for View<'_> {
    fn write(&mut self, table: TableId, key: Key, _: Option<Row>) {
        self.report(undeclared(self.store, table, &key));
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
        self.store.scan_declared(&self.declared, None, table, range, descending, &outside, visit);
    }
}

impl RowAccess for Access<'_> {
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
            Wrote::Version(before) => {
                self.writes.push(RowWrite { table, key, change: Change::of(before, row) });
            }
            Wrote::OwnAgain => {
                let earlier = self.writes.iter_mut().rev().find(|w| w.table == table && w.key == key);
                let change = &mut earlier.expect("written by this transaction before").change;
                *change = std::mem::replace(change, Change::Delete).then(row);
            }
        }
    }
}
