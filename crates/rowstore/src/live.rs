//! The rows of a partition as they were at one moment, a bounded number at a time, while transactions go on.
//!
//! IN: which versions were written since that moment. OUT: rows, table by table, in key order. KEEPS: every row is as it
//! was when the copy began, whatever was written since; a piece looks at a bounded number of keys and bytes.

use crate::copy::CopyOutdated;
use crate::store::Store;
use base::key::KeyRange;
use base::schema::Catalog;
use base::{Key, Place, Row, TableId};
use std::collections::VecDeque;
use std::sync::Arc;

/// A piece ends once its rows are this long, however few they are.
const PIECE_BYTES: usize = 256 << 10;

/// How far a copy of all rows has come.
#[derive(Debug)]
pub struct LiveRows {
    catalog: Arc<Catalog>,
    tables: VecDeque<TableId>,
    /// Where the first table goes on.
    from: Key,
}

impl LiveRows {
    /// The catalog when the copy began.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }
}

impl Store {
    /// Begins a copy of the rows that are here now, without their history.
    pub fn begin_rows(&self) -> LiveRows {
        let tables = self.tables.now.keys().copied().collect();
        LiveRows { catalog: self.catalog.clone(), tables, from: Key::new() }
    }

    /// The next rows of a copy, possibly none, all of one table, after a look at `keys_max` keys at most; `None`: that
    /// was all. `is_newer` tells of places whether they were written after the copy began; nothing may have been
    /// collected since. Errors: see [`CopyOutdated`].
    #[allow(clippy::type_complexity)]
    pub fn more_rows(
        &self,
        copy: &mut LiveRows,
        keys_max: usize,
        is_newer: &dyn Fn(&Place) -> bool,
    ) -> Result<Option<(TableId, Vec<(Key, Row)>)>, CopyOutdated> {
        if !Arc::ptr_eq(&copy.catalog, &self.catalog) {
            return Err(CopyOutdated);
        }
        let Some(&id) = copy.tables.front() else { return Ok(None) };
        let (mut rows, mut keys_left, mut bytes, mut next) = (Vec::new(), keys_max, 0, None);
        if let Some(table) = self.tables.get(id) {
            let range = KeyRange { low: copy.from.clone(), high: None };
            table.rows.scan(&range, false, |key, slot| {
                if keys_left == 0 || bytes >= PIECE_BYTES {
                    next = Some(key.clone());
                    return false;
                }
                keys_left -= 1;
                if let Some(row) = slot.newest_but(is_newer) {
                    bytes += key.len() + row.len();
                    rows.push((key.clone(), row.clone()));
                }
                true
            });
        }
        match next {
            Some(next) => copy.from = next,
            None => {
                copy.from = Key::new();
                copy.tables.pop_front();
            }
        }
        Ok(Some((id, rows)))
    }
}
