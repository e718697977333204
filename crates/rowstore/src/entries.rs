//! A secondary index: the entries of a partition's rows, and those of a unique index whose home is there.
//!
//! KEEPS: an entry that can belong to one row only names its row; any other ends with its row's primary key.

use crate::garbage::GarbageKind;
use crate::versions::VersionMap;
use base::key::KeyRange;
use base::schema::{Index, Table};
use base::topology::Topology;
use base::{Key, Place, Row};

/// The row an index entry leads to.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Owner {
    /// Its primary key is the end of the entry.
    Tail,
    Key(Box<Key>),
}

/// A secondary index: the entries of the rows that live here.
pub(crate) struct IndexStore {
    pub desc: Index,
    /// Uniqueness is decided by the entries of the rows here; else by `homes`.
    pub local: bool,
    pub entries: VersionMap<Owner>,
    /// Entries of a unique index that is not local whose home is this partition, with the primary keys of
    /// rows that live anywhere.
    pub homes: VersionMap<Owner>,
    /// Cuts before this place do not know the index.
    pub created: Place,
    /// While the index is built: rows from this key on may lack their entries. `None`: none does.
    pub late_from: Option<Key>,
}

impl IndexStore {
    pub(crate) fn new(desc: &Table, index: &Index, topology: &Topology, created: Place) -> IndexStore {
        let local = desc.index_is_local(index, topology);
        IndexStore {
            desc: index.clone(),
            local,
            entries: VersionMap::default(),
            homes: VersionMap::default(),
            created,
            late_from: None,
        }
    }
    /// Primary key of the row that an entry leads to.
    pub(crate) fn owner_key(&self, entry: &Key, owner: &Owner) -> Key {
        match owner {
            Owner::Tail => entry.tail(self.desc.columns.len()),
            Owner::Key(key) => (**key).clone(),
        }
    }
    /// Whether the entry can belong to one row only: it is of a unique index and has no nulls.
    pub(crate) fn has_single_owner(&self, entry: &Key) -> bool {
        // Any other entry goes on with the primary key.
        self.desc.unique && entry.tail(self.desc.columns.len()).is_empty()
    }
    pub(crate) fn owner(&self, entry: &Key, key: &Key) -> Owner {
        if self.has_single_owner(entry) { Owner::Key(Box::new(key.clone())) } else { Owner::Tail }
    }
    /// Owner of an entry whose home is here.
    pub(crate) fn home_owner(&self, entry: &Key) -> Option<Key> {
        self.homes.latest(entry).map(|owner| self.owner_key(entry, owner))
    }

    /// Brings the entries of one row up to date.
    pub(crate) fn follow(
        &mut self,
        table: &Table,
        key: &Key,
        before: Option<&Row>,
        after: Option<&Row>,
        place: Place,
        dead: &mut dyn FnMut(GarbageKind, &Key),
    ) {
        let old = before.map(|row| table.index_entry_of_row(&self.desc, row, key));
        let new = after.map(|row| table.index_entry_of_row(&self.desc, row, key));
        if old == new {
            return;
        }
        let kind = GarbageKind::Entry(self.desc.id);
        if let Some(old) = old {
            // Another row of the same transaction may have taken a unique entry over already.
            let owner = self.owner(&old, key);
            if self.entries.latest(&old) == Some(&owner)
                && self.entries.write(&old, None, place).leaves_garbage
            {
                dead(kind, &old);
            }
        }
        if let Some(new) = new {
            let owner = self.owner(&new, key);
            if self.entries.write(&new, Some(owner), place).leaves_garbage {
                dead(kind, &new);
            }
        }
    }

    /// An index that is being built over rows that are there.
    pub(crate) fn to_be_filled(mut self) -> IndexStore {
        self.late_from = Some(Key::new());
        self
    }

    /// Writes a row's entry, unless it is there. Should it have been deleted before, that is garbage already.
    pub(crate) fn enter(&mut self, entry: &Key, key: &Key, place: Place) {
        match self.entries.latest(entry) {
            Some(owner) => assert_eq!(self.owner_key(entry, owner), *key, "entries of one row each"),
            None => _ = self.entries.write(entry, Some(self.owner(entry, key)), place),
        }
    }

    /// Whether the index begins to be read with this description.
    pub(crate) fn is_done_in(&self, next: &Table) -> bool {
        let is_building = |index: &Index| index.form.is_building;
        is_building(&self.desc) && next.indexes.iter().any(|i| i.id == self.desc.id && !is_building(i))
    }

    /// All rows of a range have their entries.
    pub(crate) fn has_entered(&mut self, range: &KeyRange) {
        let Some(late_from) = self.late_from.take() else { return };
        self.late_from = match &range.high {
            _ if range.low > late_from => Some(late_from),
            Some(high) => Some(late_from.max(high.clone())),
            None => None,
        };
    }

    /// Cuts from a place on know the index; answers from which key on rows still lack their entries.
    pub(crate) fn begin_reading(&mut self, place: Place) -> Option<Key> {
        self.created = place;
        self.late_from.take()
    }
}
