//! What one-shot statements declare: row keys, new index entries, ranges.
//!
//! A write declares its *new* index entries; departures are caught by the row key, which a reader of an
//! index range declares too. A unique entry that cannot be derived from the partition column is an item
//! of its own, at the home of its value.

use base::key::KeyRange;
use base::schema::{Location, Table};
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
    which: impl Fn(&base::schema::Index) -> bool,
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
/// indexes over `changed` columns.
pub fn write_range(
    access: &mut AccessSet,
    table: &Table,
    range: &KeyRange,
    partitions: &[PartitionId],
    changed: &[usize],
) {
    for &partition in partitions {
        access.add(partition, Granule::of(table.id, range.clone()), AccessMode::Write);
        for index in table.indexes.iter().filter(|i| i.columns.iter().any(|c| changed.contains(c))) {
            access.add(partition, Granule::Range(index.id, KeyRange::all()), AccessMode::Write);
        }
    }
}
