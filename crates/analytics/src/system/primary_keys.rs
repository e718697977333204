//! Primary keys in the system catalog: each is an index, and a constraint, with a number of its own.

use base::schema::Table;

pub(super) const FIRST_PRIMARY_KEY: u32 = 0x4000_0000;

pub(super) fn primary_key_oid(table: &Table) -> u32 {
    FIRST_PRIMARY_KEY + table.id.0
}

/// Whether the primary key was declared.
pub(super) fn has_primary_key(table: &Table) -> bool {
    !table.primary_key.iter().any(|c| table.columns[*c].hidden)
}
