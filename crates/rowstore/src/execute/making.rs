//! A change of the catalog together with rows, in steps (`steps`).
//!
//! IN: what a change makes, and the rows that come with it. OUT: the tables with their rows. KEEPS: rows of tables that the
//! change makes are put into a store of their own, and that store's tables into the partition's with the change itself, so that
//! between two steps nobody finds a table that has a part of its rows. All other rows are written with the change.

use super::allowance::Allowance;
use super::migration::Written;
use super::overlay::{Overlay, Run};
use super::validated::WritesAt;
use super::writing::{Writing, WritingPrepared};
use crate::store::Store;
use crate::table::TableStore;
use base::commit::RowWrite;
use base::error::SqlResult;
use base::schema::{Catalog, SchemaChange};
use base::txn::{Applied, Migration, Transaction};
use base::{Place, TableId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where the rows of a migration go on.
pub(super) struct MigrationAt {
    /// Tables as they will be.
    pub changed: Arc<BTreeMap<TableId, TableStore>>,
    pub writes: WritesAt,
}

/// Tables that a transaction makes, while their rows are written.
pub(super) struct Making {
    /// Has these tables alone.
    store: Store,
    writing: WritingPrepared,
}

impl Store {
    /// Begins a migration: its reads hold, and so does what its change requires of the rows that it leaves alone.
    pub(super) fn begin_migration(
        &self,
        transaction: &Transaction,
        migration: &Migration,
    ) -> SqlResult<MigrationAt> {
        let is_checked = self.check_reads(&mut Run::new(self, transaction), &migration.rows.reads, &mut 0)?;
        assert!(is_checked, "one step is enough");
        let written = Written::of(&migration.rows, self);
        let next = self.gather_schema(&migration.change, &written)?;
        let changed = Arc::new(self.changed_tables(&next, &migration.rows, &written));
        Ok(MigrationAt { changed, writes: WritesAt::default() })
    }

    /// Begins to write the tables that a change makes, with their part of what was computed.
    pub(super) fn begin_making(&self, change: &SchemaChange, all: &mut Overlay, place: Place) -> Making {
        let mut next = Catalog::clone(&self.catalog);
        next.apply(change).expect("it was gathered without an error");
        let store = self.making(&next, place);
        let own = all.split_off(|id| store.table(id).is_some() || store.index(id).is_some());
        Making { store, writing: Writing::of(own, Vec::new()) }
    }

    /// Changes the catalog, puts the tables that were made into their place, and writes all other rows.
    pub(super) fn finish_migration(
        &mut self,
        migration: &Migration,
        made: Making,
        writing: WritingPrepared,
        place: Place,
    ) -> Applied {
        let Applied { schema, .. } =
            self.apply_schema(&migration.change, &Written::of(&migration.rows, self), place);
        let Making { store, writing: Writing { written, .. } } = made;
        self.adopt(store);
        let rest = self.write_all(writing, place);
        // Columns are others now: rows go whole.
        let writes = written.into_iter().chain(rest).map(RowWrite::whole).collect();
        Applied { schema, writes, ..Applied::default() }
    }
}

impl Making {
    /// Goes on writing their rows; whether that was all.
    pub fn write_some(&mut self, place: Place, allowance: Allowance) -> bool {
        self.store.write_some(&mut self.writing, place, allowance)
    }
}
