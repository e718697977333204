//! Which of a transaction's own rows has which entry of a unique index.
//!
//! KEEPS: an entry leads to the row that took it last, for as long as the buffer holds that row with it.

use super::content::Buffered;
use base::{Key, TableId};
use std::collections::BTreeMap;

#[derive(Default)]
pub(super) struct Entries(BTreeMap<(TableId, Key), Key>);

impl Entries {
    /// The key of the row that has this entry of an index.
    pub(super) fn owner(&self, index: TableId, entry: Key) -> Option<&Key> {
        self.0.get(&(index, entry))
    }

    /// A row is buffered.
    pub(super) fn take(&mut self, key: &Key, row: &Buffered) {
        for at in entries_of(key, row) {
            self.0.insert(at, key.clone());
        }
    }

    /// It is not any more.
    pub(super) fn leave(&mut self, key: &Key, row: &Buffered) {
        for at in entries_of(key, row) {
            if self.0.get(&at) == Some(key) {
                self.0.remove(&at);
            }
        }
    }
}

/// The entries of a row in unique indexes; nulls have none, unless they are equal there.
fn entries_of(key: &Key, row: &Buffered) -> impl Iterator<Item = (TableId, Key)> {
    let unique = row.table.indexes.iter().filter(|index| index.unique);
    unique.filter_map(move |index| {
        let values = row.values()?;
        index.forbids_others(values).then(|| (index.id, row.table.index_entry(index, values, key)))
    })
}
