//! Foreign keys as the catalog keeps them.
//!
//! KEEPS: [`ForeignKeys::inbound`] of a table names exactly the tables that have a key which references it. It follows
//! from their own keys ([`Catalog`] computes it with every change), so a table gets a new version when a
//! key that references it comes, changes or goes: whatever was planned without that key is stale, and aborts.

use super::{Catalog, Table};
use crate::error::SqlResult;
use crate::expr::Expr;
use crate::{DataType, Datum, TableId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The foreign keys that a table takes part in.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct ForeignKeys {
    /// What the table's rows reference.
    pub own: Vec<ForeignKey>,
    /// Tables whose rows reference this one's, itself perhaps.
    pub inbound: Vec<TableId>,
}

/// One foreign key of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ForeignKey {
    pub name: String,
    pub columns: Vec<usize>,
    pub table: TableId,
    /// Columns there, one for each of `columns`.
    pub referenced: Vec<usize>,
    /// What makes them unique: an index, or the table's own id for its primary key.
    pub unique: TableId,
    pub on_update: Action,
    pub on_delete: Action,
    /// MATCH FULL: either all columns are null or none.
    pub is_full: bool,
    pub timing: Timing,
    /// False after NOT VALID: rows that were there before are not known to keep it.
    pub is_validated: bool,
    /// The partition whose rows alone have the key; `None`: all rows of the table have it.
    #[serde(deserialize_with = "crate::codec::since::<12, _, _>")]
    pub partition: Option<OfPartition>,
}

/// The rows of one partition, among those of the table that has them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OfPartition {
    pub id: TableId,
    /// True for a row of the table that is the partition's.
    pub condition: Expr,
}

/// What becomes of rows that reference a row which goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    NoAction,
    Restrict,
    Cascade,
    /// These columns of the key, or all if none is named.
    SetNull(Vec<usize>),
    SetDefault(Vec<usize>),
}

/// When a key is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Timing {
    /// At the end of each statement.
    Immediate,
    /// So too, unless SET CONSTRAINTS says otherwise.
    DeferrableImmediate,
    /// At COMMIT, unless SET CONSTRAINTS says otherwise.
    Deferred,
}

impl Timing {
    pub fn is_deferrable(self) -> bool {
        self != Timing::Immediate
    }
}

impl ForeignKeys {
    pub fn is_empty(&self) -> bool {
        self.own.is_empty() && self.inbound.is_empty()
    }
}

impl ForeignKey {
    /// The values by which a row references another, in the order of the key's columns; `None` if one is null.
    pub fn reference(&self, values: &[Datum]) -> Option<Vec<Datum>> {
        picked(&self.columns, values)
    }
    /// The values by which a row of the referenced table is referenced.
    pub fn target(&self, values: &[Datum]) -> Option<Vec<Datum>> {
        picked(&self.referenced, values)
    }
    /// Whether a row of the table has the key: one that only a partition has is no matter of other rows.
    pub fn is_of(&self, values: &[Datum]) -> SqlResult<bool> {
        match &self.partition {
            Some(of) => Ok(of.condition.eval(values)? == Datum::Bool(true)),
            None => Ok(true),
        }
    }
    /// The partition that has the key alone, if one has.
    pub fn partition_id(&self) -> Option<TableId> {
        self.partition.as_ref().map(|of| of.id)
    }
    /// Columns of the table that decide what a row references: those of the key, and those that say whether it has the key.
    pub fn deciding_columns(&self) -> BTreeSet<usize> {
        let mut columns: BTreeSet<usize> = self.columns.iter().copied().collect();
        if let Some(of) = &self.partition {
            of.condition.walk(&mut |e| {
                if let Expr::Column(column) = e {
                    columns.insert(*column);
                }
            });
        }
        columns
    }
    /// The key with another description of a type.
    pub(super) fn retyped(&self, of: DataType) -> ForeignKey {
        let mut key = self.clone();
        if let Some(partition) = &mut key.partition {
            partition.condition.retype(of);
        }
        key
    }
}

fn picked(columns: &[usize], values: &[Datum]) -> Option<Vec<Datum>> {
    let picked: Vec<Datum> = columns.iter().map(|c| values[*c].clone()).collect();
    (!picked.iter().any(Datum::is_null)).then_some(picked)
}

impl Table {
    pub fn add_foreign_key(&mut self, key: ForeignKey) {
        self.foreign.own.push(key);
    }
    pub fn drop_foreign_keys(&mut self, is_dropped: impl Fn(&ForeignKey) -> bool) {
        self.foreign.own.retain(|key| !is_dropped(key));
    }
    pub fn foreign_keys_mut(&mut self) -> impl Iterator<Item = &mut ForeignKey> {
        self.foreign.own.iter_mut()
    }
}

impl Catalog {
    /// The keys that reference a table, each with the table that has it.
    pub fn referencing(&self, table: &Table) -> impl Iterator<Item = (&Arc<Table>, &ForeignKey)> {
        let id = table.id;
        let inbound = table.foreign.inbound.clone().into_iter().filter_map(|id| self.table(id));
        inbound.flat_map(move |child| {
            child.foreign.own.iter().filter(move |key| key.table == id).map(move |key| (child, key))
        })
    }

    /// Brings `inbound` up to date after a change. Tables whose referencing keys have changed get the change's version.
    pub(super) fn follow_foreign_keys(&mut self, before: &Catalog) {
        let own = |table: Option<&Arc<Table>>| table.map(|t| t.foreign.own.clone()).unwrap_or_default();
        let mut touched: BTreeSet<TableId> = BTreeSet::new();
        let ids: BTreeSet<TableId> = before.tables.keys().chain(self.tables.keys()).copied().collect();
        for id in ids {
            let (old, new) = (before.tables.get(&id), self.tables.get(&id));
            if let (Some(old), Some(new)) = (old, new)
                && Arc::ptr_eq(old, new)
            {
                continue;
            }
            touched.insert(id);
            let (old, new) = (own(old), own(new));
            if old != new {
                touched.extend(old.iter().chain(&new).map(|key| key.table));
            }
        }
        if touched.is_empty() {
            return;
        }
        let mut inbound: BTreeMap<TableId, Vec<TableId>> = BTreeMap::new();
        for child in self.tables.values() {
            let tables: BTreeSet<TableId> = child.foreign.own.iter().map(|key| key.table).collect();
            tables.into_iter().for_each(|table| inbound.entry(table).or_default().push(child.id));
        }
        for id in touched {
            let Some(table) = self.tables.get_mut(&id) else { continue };
            let inbound = inbound.remove(&id).unwrap_or_default();
            if table.version != self.version || table.foreign.inbound != inbound {
                let table = Arc::make_mut(table);
                table.version = self.version;
                table.foreign.inbound = inbound;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RegionId;
    use crate::schema::{Column, Identity, Placement, SchemaAction, SchemaChange};

    fn table(id: u32, own: Vec<ForeignKey>) -> Table {
        let column = Column {
            name: "a".into(),
            data_type: DataType::BigInt,
            not_null: true,
            default: None,
            missing: Datum::Null,
            identity: Identity::No,
            hidden: false,
        };
        Table {
            id: TableId(id),
            schema: "public".into(),
            name: format!("t{id}"),
            version: 0,
            columns: vec![column],
            primary_key: vec![0],
            primary_key_name: format!("t{id}_pkey"),
            indexes: Vec::new(),
            checks: Default::default(),
            foreign: ForeignKeys { own, inbound: Vec::new() },
            triggers: Default::default(),
            domains: Default::default(),
            partitioning: None,
            placement: Placement::Home(RegionId(0)),
        }
    }

    fn key(to: u32) -> ForeignKey {
        ForeignKey {
            name: format!("to_{to}"),
            columns: vec![0],
            table: TableId(to),
            referenced: vec![0],
            unique: TableId(to),
            on_update: Action::NoAction,
            on_delete: Action::NoAction,
            is_full: false,
            timing: Timing::Immediate,
            is_validated: true,
            partition: None,
        }
    }

    fn change(catalog: &mut Catalog, action: SchemaAction) {
        let base_version = catalog.version;
        catalog
            .apply(&SchemaChange { database: Default::default(), base_version, actions: vec![action] })
            .unwrap();
    }

    #[test]
    fn a_key_of_one_partition_is_a_matter_of_its_rows() {
        let condition =
            Expr::binary(crate::expr::BinaryOperator::Less, Expr::Column(1), Expr::Constant(Datum::Int(10)));
        let of_partition = Some(OfPartition { id: TableId(9), condition });
        let own = ForeignKey { partition: of_partition, ..key(1) };
        assert!(own.is_of(&[Datum::Int(1), Datum::Int(9)]).unwrap());
        assert!(!own.is_of(&[Datum::Int(1), Datum::Int(10)]).unwrap());
        assert!(!own.is_of(&[Datum::Int(1), Datum::Null]).unwrap());
        assert!(key(1).is_of(&[Datum::Int(1), Datum::Null]).unwrap());
        assert_eq!(own.deciding_columns().into_iter().collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn a_referenced_table_has_another_version_with_every_change_of_the_key() {
        let mut catalog = Catalog::default();
        change(&mut catalog, SchemaAction::CreateTable(table(1, Vec::new())));
        change(&mut catalog, SchemaAction::CreateTable(table(2, Vec::new())));
        let seen = |catalog: &Catalog| {
            let parent = catalog.table(TableId(1)).unwrap();
            (parent.version, parent.foreign.inbound.clone())
        };
        assert_eq!(seen(&catalog), (1, vec![]));
        change(&mut catalog, SchemaAction::AlterTable(table(2, vec![key(1)])));
        assert_eq!(seen(&catalog), (3, vec![TableId(2)]));
        let parent = catalog.table(TableId(1)).unwrap().clone();
        assert_eq!(catalog.referencing(&parent).count(), 1);
        // Another table leaves it alone.
        change(&mut catalog, SchemaAction::CreateTable(table(3, vec![key(3)])));
        assert_eq!(seen(&catalog), (3, vec![TableId(2)]));
        assert_eq!(catalog.table(TableId(3)).unwrap().foreign.inbound, vec![TableId(3)]);
        let unvalidated = ForeignKey { is_validated: false, ..key(1) };
        change(&mut catalog, SchemaAction::AlterTable(table(2, vec![unvalidated])));
        assert_eq!(seen(&catalog), (5, vec![TableId(2)]));
        change(&mut catalog, SchemaAction::DropTable(TableId(2)));
        assert_eq!(seen(&catalog), (6, vec![]));
    }
}
