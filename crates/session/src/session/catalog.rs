//! A catalog of the open transaction's own: what it has created, altered and dropped and not committed yet.
//!
//! The node knows tables as they were. KEEPS: the node is never asked for a table or index that it does not
//! know; rows of an altered table come with the columns of before and are judged here; reads are recorded as
//! reads of what the node knows.

mod references;

use super::Session;
use super::read::Wanted;
use super::transaction::{SeenRow, Transaction};
use base::error::SqlResult;
use base::expr::Expr;
use base::key::KeyRange;
use base::roles::{Object, RoleChange};
use base::schema::{Catalog, SchemaAction, SchemaChange, Table};
use base::txn::RowRead;
use base::{Key, Row, TableId};
use sql::lower::bind::Binding;
use sql::lower::keys::KeyPath;
use sql::temporary::is_temporary;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The catalog that a transaction began with, and what it has made of it.
#[derive(Clone)]
pub struct OwnCatalog {
    pub base: Arc<Catalog>,
    pub now: Arc<Catalog>,
}

impl OwnCatalog {
    /// Whether a table is not as the node knows it.
    pub fn has_changed(&self, id: TableId) -> bool {
        match (self.base.table(id), self.now.table(id)) {
            (Some(before), Some(now)) => !Arc::ptr_eq(before, now),
            (before, now) => before.is_some() || now.is_some(),
        }
    }

    /// What the node can be asked instead of a read; `None`: it knows nothing of the table.
    pub fn stored(&self, read: &RowRead) -> Option<RowRead> {
        let before = self.base.table(read.table)?;
        if !self.has_changed(read.table) {
            return Some(read.clone());
        }
        let index = read.index.filter(|id| before.indexes.iter().any(|i| i.id == *id));
        let range = if index == read.index { read.range.clone() } else { KeyRange::all() };
        Some(RowRead { index, range, filter: None, limit: None, ..read.clone() })
    }

    /// The answer to a read, from what the node answered to [`OwnCatalog::stored`] of it.
    pub fn answer(&self, read: &RowRead, mut rows: Vec<(Key, Row)>) -> SqlResult<Vec<(Key, Row)>> {
        let Some(table) = self.now.table(read.table).filter(|t| self.has_changed(t.id)) else {
            return Ok(rows);
        };
        let index = read.index.and_then(|id| table.indexes.iter().find(|i| i.id == id));
        if let Some(index) = index {
            rows.retain(|(key, row)| read.range.contains(&table.index_entry_of_row(index, row, key)));
            rows.sort_by_cached_key(|(key, row)| table.index_entry_of_row(index, row, key));
            if read.descending {
                rows.reverse();
            }
        }
        if let Some(filter) = &read.filter {
            let mut kept = Vec::with_capacity(rows.len());
            for (key, row) in rows {
                if filter.holds(&table.complete(&row))? {
                    kept.push((key, row));
                }
            }
            rows = kept;
        }
        rows.truncate(read.limit.map_or(usize::MAX, |l| l as usize));
        Ok(rows)
    }

    /// A table or index with a range of it, as the node knows it; `None`: it knows nothing of it.
    pub fn granule(&self, id: TableId, range: KeyRange) -> Option<(TableId, KeyRange)> {
        if self.base.table(id).is_some() || self.base.index(id).is_some() {
            return Some((id, range));
        }
        let (table, _) = self.now.index(id)?;
        self.base.table(table.id).map(|table| (table.id, KeyRange::all()))
    }
}

impl Transaction {
    /// Takes changes of the catalog: later statements see them, COMMIT orders them. `known` is the node's
    /// catalog now. Buffered rows follow their tables.
    pub fn change_catalog(&mut self, known: &Arc<Catalog>, actions: &[SchemaAction]) -> SqlResult<()> {
        let base = self.catalog.as_ref().map_or(known, |own| &own.base).clone();
        let mut all = self.schema.clone();
        all.extend_from_slice(actions);
        self.rebuild(base, all)?;
        self.adopt();
        Ok(())
    }

    /// All changes so far as one, as they will be ordered: tables get the version that they will have.
    pub(super) fn rebuild(&mut self, base: Arc<Catalog>, actions: Vec<SchemaAction>) -> SqlResult<()> {
        let mut now = base.as_ref().clone();
        now.apply(&SchemaChange {
            database: base.database(),
            base_version: now.version,
            actions: actions.clone(),
        })?;
        self.schema = actions;
        self.catalog = Some(OwnCatalog { base, now: Arc::new(now) });
        self.note_catalog_changes(true);
        Ok(())
    }

    /// Whether what it has changed of the catalog is temporary, and so nobody else's.
    fn changes_only_temporary(&self) -> bool {
        self.changes_only_temporary_or(|_| false)
    }

    /// Whether its changes of the catalog can be ordered behind changes by others: they are temporary, or move sequences.
    pub(super) fn can_be_carried_over(&self) -> bool {
        let Some(own) = &self.catalog else { return false };
        self.changes_only_temporary_or(|action| references::moves_sequence(&own.base, action))
    }

    fn changes_only_temporary_or(&self, is_such: impl Fn(&SchemaAction) -> bool) -> bool {
        let Some(own) = &self.catalog else { return false };
        let made: BTreeSet<TableId> = sql::temporary::ids_of(&self.schema).collect();
        let is_own = |schema: &String| is_temporary(schema);
        let was_own = |id: &TableId| {
            let relation = own.base.relation(*id).map(|relation| &relation.shape().schema);
            let sequence = || own.base.sequences.get(id).map(|sequence| &sequence.schema);
            made.contains(id) || relation.or_else(sequence).is_some_and(is_own)
        };
        let is_own_change = |action: &SchemaAction| match action {
            SchemaAction::CreateSchema(name) => is_own(name),
            SchemaAction::CreateTable(table) | SchemaAction::AlterTable(table) => is_own(&table.schema),
            SchemaAction::CreateSequence(sequence) => is_own(&sequence.schema),
            SchemaAction::PutView(view) => is_own(&view.shape.schema),
            SchemaAction::DropTable(id) | SchemaAction::DropSequence(id) | SchemaAction::DropView(id) => {
                was_own(id)
            }
            SchemaAction::Roles(RoleChange::SetOwner(Object::Relation(id), _)) => made.contains(id),
            _ => false,
        };
        self.schema.iter().all(|action| is_own_change(action) || is_such(action))
    }

    /// Takes its changes to a catalog that others have changed meanwhile; false: an id is taken there, or a table that it has
    /// written, or something that the changes refer to, is another.
    pub(super) fn carry_over(&mut self, now: &Arc<Catalog>) -> SqlResult<bool> {
        let Some(before) = self.catalog.as_ref().map(|own| own.base.clone()) else { return Ok(true) };
        if before.version == now.version {
            return Ok(true);
        }
        let has = |catalog: &Catalog, id: TableId| {
            let is_relation = catalog.relation(id).is_some() || catalog.sequences.contains_key(&id);
            let is_made = catalog.types.contains(id) || catalog.routines.0.contains_key(&id);
            is_relation || is_made || catalog.index(id).is_some()
        };
        let version = |catalog: &Catalog, id: TableId| catalog.table(id).map(|table| table.version);
        if self.tables_written().any(|table| version(&before, table.id) != version(now, table.id)) {
            return Ok(false);
        }
        let is_new = |id: &TableId| !has(&before, *id);
        if sql::temporary::ids_of(&self.schema).filter(is_new).any(|id| has(now, id)) {
            return Ok(false);
        }
        if !references::are_unchanged(&before, now, &self.schema) {
            return Ok(false);
        }
        self.rebuild(now.clone(), self.schema.clone())?;
        self.adopt();
        Ok(true)
    }

    /// Changes of the catalog that have undone themselves are none.
    pub(super) fn forget_undone(&mut self) {
        let Some(own) = self.catalog.as_ref().filter(|_| self.changes_only_temporary()) else { return };
        let (base, now) = (&own.base, &own.now);
        let is_same = base.tables.keys().eq(now.tables.keys())
            && base.sequences == now.sequences
            && base.views == now.views
            && base.tables.keys().all(|id| !own.has_changed(*id));
        if is_same {
            self.schema.clear();
            self.catalog = None;
        }
    }

    pub fn changes_catalog(&self) -> bool {
        self.catalog.is_some() && !self.schema.is_empty()
    }

    /// Partitions that have to find what was read unchanged, and what is written: everywhere, for the
    /// catalog is everywhere.
    pub fn migration(&self, topology: &base::topology::Topology) -> Option<base::txn::TxnProgram> {
        use base::txn::{Migration, TxnProgram};
        let own = self.catalog.as_ref().filter(|_| !self.schema.is_empty())?;
        let change = SchemaChange {
            database: own.base.database(),
            base_version: own.base.version,
            actions: self.schema.clone(),
        };
        if !self.has_reads() && !self.has_writes() {
            return Some(TxnProgram::Schema(change));
        }
        let (rows, _) = self.validated(topology);
        Some(TxnProgram::Migration(Migration { change, rows }))
    }

    /// The table as COMMIT will find it.
    pub(super) fn committed<'t>(&'t self, table: &'t Arc<Table>) -> &'t Arc<Table> {
        self.catalog.as_ref().and_then(|own| own.now.table(table.id)).unwrap_or(table)
    }
}

/// Everything at every partition: what a change of the catalog declares.
pub(super) fn everywhere(topology: &base::topology::Topology) -> base::txn::AccessSet {
    use base::txn::{AccessMode, AccessSet, Granule};
    let mut access = AccessSet::default();
    topology.partition_ids().for_each(|p| access.add(p, Granule::Partition, AccessMode::Write));
    access
}

impl Session {
    /// Every row of a table as the open transaction sees it, recorded as read.
    pub(super) async fn all_rows(&mut self, table: &Arc<Table>) -> SqlResult<Vec<SeenRow>> {
        self.matching_rows(table, None).await
    }

    /// Those of them for which a condition is true.
    pub(super) async fn matching_rows(
        &mut self,
        table: &Arc<Table>,
        filter: Option<Expr>,
    ) -> SqlResult<Vec<SeenRow>> {
        let (gateway, catalog) = (self.gateway.clone(), self.catalog());
        let binding = Binding {
            parameters: &[],
            times: self.times(),
            generators: &gateway.node.generators,
            catalog: &catalog,
        };
        let near = Some(gateway.cluster.region());
        let path = KeyPath::primary(table, &[]);
        let reached = path.reach(table, &binding, gateway.cluster.topology(), near)?;
        let wanted = Wanted {
            table,
            index: None,
            reached: &reached,
            filter,
            descending: false,
            limit: None,
            columns: None,
            is_rewritten: true,
        };
        self.read_seen(&wanted).await
    }
}
