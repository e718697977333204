//! What one-shot statements declare: row keys, new index entries, ranges.
//!
//! A write declares its *new* index entries; departures are caught by the row key, which a reader of an
//! index range declares too. The next owner of a unique entry does not know the row that had it: who may take such an entry
//! away declares it, or all of the index. A unique entry that cannot be derived from the partition column is an item
//! of its own, at the home of its value.

use base::key::KeyRange;
use base::schema::{Index, Location, Table};
use base::topology::Topology;
use base::txn::{AccessMode, AccessSet, Granule};
use base::{Datum, Key, PartitionId};

/// Partitions that keep this row.
pub fn homes(table: &Table, values: &[Datum], topology: &Topology) -> Vec<PartitionId> {
    match table.locate_row(values, topology) {
        Location::One(partition) => vec![partition],
        Location::Everywhere => topology.partition_ids().collect(),
    }
}

/// Declares a row's key and all its index entries as written.
pub fn write_row(access: &mut AccessSet, table: &Table, values: &[Datum], key: &Key, topology: &Topology) {
    let homes = homes(table, values, topology);
    for &partition in &homes {
        access.write_key(partition, table.id, key.clone());
    }
    write_entries(access, table, values, key, topology, &homes, |_| true);
}

/// Declares the entries of a row in the indexes that `which` picks.
pub fn write_entries(
    access: &mut AccessSet,
    table: &Table,
    values: &[Datum],
    key: &Key,
    topology: &Topology,
    homes: &[PartitionId],
    which: impl Fn(&Index) -> bool,
) {
    for index in table.indexes.iter().filter(|i| which(i)) {
        let entry = table.index_entry(index, values, key);
        if table.index_is_local(index, topology) {
            for &partition in homes {
                access.write_key(partition, index.id, entry.clone());
            }
        } else {
            let home = table.locate_entry(&entry, topology);
            access.write_key(home, index.id, entry);
        }
    }
}

/// Declares that rows of a range may be changed at these partitions, and with them any entry of the
/// indexes over `changed` columns; `None`: that rows may go, and any unique entry with them.
pub fn write_range(
    access: &mut AccessSet,
    table: &Table,
    range: &KeyRange,
    partitions: &[PartitionId],
    changed: Option<&[usize]>,
) {
    for &partition in partitions {
        access.add(partition, Granule::of(table.id, range.clone()), AccessMode::Write);
        let loses_entries = |index: &&Index| match changed {
            Some(changed) => index.columns.iter().any(|c| changed.contains(c)),
            None => index.unique,
        };
        for index in table.indexes.iter().filter(loses_entries) {
            access.add(partition, Granule::Range(index.id, KeyRange::all()), AccessMode::Write);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::schema::{IndexForm, Placement};
    use base::{RegionId, TableId};

    /// A table with a unique index and one that is not.
    fn table() -> Table {
        let index = |id: u32, unique: bool| Index {
            id: TableId(id),
            name: format!("i{id}"),
            columns: vec![1],
            unique,
            constraint: false,
            form: IndexForm::default(),
        };
        Table {
            id: TableId(1),
            schema: "public".into(),
            name: "t".into(),
            version: 1,
            columns: Vec::new(),
            primary_key: vec![0],
            primary_key_name: "t_pkey".into(),
            indexes: vec![index(2, true), index(3, false)],
            checks: Default::default(),
            foreign: Default::default(),
            triggers: Default::default(),
            domains: Default::default(),
            partitioning: None,
            placement: Placement::Home(RegionId(0)),
        }
    }

    /// Who takes an entry that a deleted row had conflicts with the deletion, though it knows nothing of the row: without
    /// that a region may execute the two in another order.
    #[test]
    fn a_row_that_may_go_takes_its_unique_entries_along() {
        let mut access = AccessSet::default();
        let partition = PartitionId(0);
        write_range(&mut access, &table(), &KeyRange::all(), &[partition], None);
        let declared = |id: u32| {
            let whole = Granule::Range(TableId(id), KeyRange::all());
            access.at(partition).iter().any(|one| one.granule == whole && one.mode == AccessMode::Write)
        };
        assert!(declared(2), "the unique index");
        assert!(!declared(3), "entries of the other one have the row's key");
    }
}
