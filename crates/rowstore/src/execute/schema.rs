//! Changes of the catalog, and what they require of existing rows.

use super::migration::Written;
use super::violation::{cannot_index, check_row};
use crate::entries::IndexStore;
use crate::store::Store;
use crate::table::TableStore;
use base::error::{SqlError, SqlResult, SqlState};
use base::expr::Expr;
use base::schema::{Catalog, Check, Held, Index, SchemaAction, SchemaChange, Table};
use base::topology::Topology;
use base::txn::Applied;
use base::{Key, Place, TableId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Store {
    /// The catalog after a change. Errors: it does not apply; a row that is there already and is not
    /// written by the same transaction is against a new constraint.
    pub(super) fn gather_schema(&self, change: &SchemaChange, written: &Written<'_>) -> SqlResult<Catalog> {
        let mut next = Catalog::clone(&self.catalog);
        next.apply(change)?;
        for action in &change.actions {
            let altered: Vec<&Table> = match action {
                SchemaAction::AlterTable(altered) => vec![altered],
                SchemaAction::PutDomain(domain) => {
                    let has_it = |table: &&Table| table.domains.values().any(|known| known.id == domain.id);
                    next.tables.values().map(AsRef::as_ref).filter(has_it).collect()
                }
                _ => continue,
            };
            for altered in altered {
                // A table made by this very change has no rows yet.
                if let Some(table) = self.table(altered.id) {
                    self.check_altered(table, altered, confirmed(change, altered.id), written)?;
                }
            }
        }
        Ok(next)
    }

    /// Holds existing rows against the constraints that a new description adds. `confirmed`: a check that they keep.
    fn check_altered(
        &self,
        table: &TableStore,
        altered: &Table,
        confirmed: Option<&str>,
        written: &Written<'_>,
    ) -> SqlResult<()> {
        let old = &table.desc;
        let rows = || written.untouched(table);
        let kept = old.checks.iter().filter(|check| check.is_validated || confirmed == Some(&*check.name));
        let kept: Vec<&Check> = kept.collect();
        for (number, column) in altered.columns.iter().enumerate() {
            let was_not_null = old.columns.get(number).is_some_and(|c| c.not_null)
                || kept.iter().any(|check| check.expr == Expr::is_not_null(number));
            if column.not_null && !was_not_null && rows().any(|(_, r)| altered.value_of(r, number).is_null())
            {
                return Err(SqlError::new(
                    SqlState::NOT_NULL_VIOLATION,
                    format!(
                        "column \"{}\" of relation \"{}\" contains null values",
                        column.name, altered.name
                    ),
                )
                .table(&altered.name)
                .column(&column.name));
            }
        }
        for (number, domain) in &altered.domains {
            let known = old.domains.get(number);
            if known == Some(domain) {
                continue;
            }
            let domain = domain.validated();
            let named = |error| match known {
                Some(_) => by_stored_values(error, altered, *number),
                None => error,
            };
            for (_, row) in rows() {
                domain.check(&altered.value_of(row, *number)).map_err(named)?;
            }
        }
        // One that is not validated is for rows to come; another name or spelling is no other condition.
        let is_kept = |check: &Check| kept.iter().any(|c| c.expr == check.expr);
        let checks = altered.checks.iter().filter(|check| check.is_validated && !is_kept(check)).cloned();
        let domains = Default::default();
        let only_new = Table { checks: Arc::new(checks.collect()), domains, ..altered.clone() };
        if !only_new.checks.is_empty() {
            for (_, row) in rows() {
                check_row(&only_new, &altered.complete(row), Held::ToAll).map_err(|mut error| {
                    let name = error.constraint.clone().unwrap_or_default();
                    error.message = format!(
                        "check constraint \"{name}\" of relation \"{}\" is violated by some row",
                        altered.name
                    );
                    error.detail = None;
                    error
                })?;
            }
        }
        // One that is being built is held against each row as it is entered.
        let asks_now = |index: &&Index| index.unique && !index.form.is_building;
        for index in new_indexes(old, altered).filter(asks_now) {
            if !altered.index_is_local(index, &self.topology) {
                if rows().next().is_some() {
                    return Err(SqlError::unsupported(
                        "a unique index without the partition column over a table that has rows",
                    )
                    .hint("Create the index before the rows, or include the partition column."));
                }
                continue;
            }
            let mut seen: BTreeSet<Key> = BTreeSet::new();
            for (key, row) in written.keeping(table, altered, index) {
                if !seen.insert(altered.index_entry_of_row(index, row, &key)) {
                    return Err(cannot_index(altered, index, &altered.complete(row)));
                }
            }
        }
        Ok(())
    }

    /// Changes the catalog at a place. New indexes are filled with all rows but those whose entry
    /// changes in the same transaction: they enter as they are written. One that is to be built later is not filled.
    pub(crate) fn apply_schema(
        &mut self,
        change: &SchemaChange,
        written: &Written<'_>,
        place: Place,
    ) -> Applied {
        let mut next = Catalog::clone(&self.catalog);
        next.apply(change).expect("it was gathered without an error");
        let before = std::mem::replace(&mut self.catalog, Arc::new(next));
        self.catalogs.push_back((place, before));
        let catalog = self.catalog.clone();

        let is_gone = |id: &TableId| catalog.table(*id).is_none();
        let gone: Vec<TableId> = self.tables.now.keys().copied().filter(is_gone).collect();
        gone.into_iter().for_each(|id| self.tables.drop_table(id, place));
        for (id, desc) in &catalog.tables {
            match self.tables.get(*id) {
                None => self.tables.insert(TableStore::new(desc.clone(), &self.topology, place)),
                Some(table) if !Arc::ptr_eq(&table.desc, desc) => {
                    let topology = &self.topology;
                    self.tables.alter(desc, |table| table.alter(desc, written, topology, place));
                }
                Some(_) => {}
            }
        }
        Applied { schema: Some(change.clone()), ..Applied::default() }
    }

    /// A store of the tables alone that the next catalog has and this store has not.
    pub(super) fn making(&self, next: &Catalog, place: Place) -> Store {
        let mut store = self.emptied();
        for desc in next.tables.values().filter(|desc| self.table(desc.id).is_none()) {
            store.tables.insert(TableStore::new(desc.clone(), &self.topology, place));
        }
        store
    }

    /// Takes the tables of such a store, with their rows, in the place of empty ones.
    pub(super) fn adopt(&mut self, made: Store) {
        self.tables.adopt(made.tables);
    }
}

impl TableStore {
    /// Becomes as `desc` says at a place.
    fn alter(&mut self, desc: &Arc<Table>, written: &Written<'_>, topology: &Topology, place: Place) {
        let added: Vec<Index> = new_indexes(&self.desc, desc).cloned().collect();
        self.indexes.retain(|i| desc.indexes.iter().any(|d| d.id == i.desc.id));
        let is_done = |store: &&IndexStore| store.is_done_in(desc);
        let done: Vec<TableId> = self.indexes.iter().filter(is_done).map(|i| i.desc.id).collect();
        done.into_iter().for_each(|index| self.enter_rest(index, place));
        for index in added {
            let mut store = IndexStore::new(desc, &index, topology, place);
            if index.form.is_building {
                self.indexes.push(store.to_be_filled());
                continue;
            }
            for (key, row) in written.keeping(self, desc, &index) {
                store.follow(desc, &key, None, Some(row), place, &mut |_, _| ());
            }
            self.indexes.push(store);
        }
        // In the order of the description: constraints are asked in that order.
        let order: BTreeMap<TableId, usize> =
            desc.indexes.iter().enumerate().map(|(n, i)| (i.id, n)).collect();
        self.indexes.sort_by_key(|i| order[&i.desc.id]);
        for store in &mut self.indexes {
            store.desc = desc.indexes[order[&store.desc.id]].clone();
        }
        self.desc = desc.clone();
        self.newest = self.newest.max(place);
    }
}

/// The check of a table that a change confirms.
fn confirmed(change: &SchemaChange, table: TableId) -> Option<&str> {
    change.actions.iter().find_map(|action| match action {
        SchemaAction::ConfirmCheck(confirmed) if confirmed.table == table => Some(&*confirmed.check),
        _ => None,
    })
}

/// Rows keep a column's domain from being altered so.
fn by_stored_values(mut error: SqlError, table: &Table, column: usize) -> SqlError {
    let what = match error.state {
        SqlState::NOT_NULL_VIOLATION => "null values",
        SqlState::CHECK_VIOLATION => "values that violate the new constraint",
        _ => return error,
    };
    let (table, column) = (&table.name, &table.columns[column].name);
    error.message = format!("column \"{column}\" of table \"{table}\" contains {what}");
    error.table(table).column(column)
}

fn new_indexes<'t>(old: &'t Table, new: &'t Table) -> impl Iterator<Item = &'t Index> {
    new.indexes.iter().filter(|index| old.indexes.iter().all(|i| i.id != index.id))
}
