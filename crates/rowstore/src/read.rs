//! Rows at a cut, for readers, a bounded number at a time.
//!
//! IN: reads, a cut. OUT: rows, read by read ([`Reading`]). KEEPS: every piece of a reading is read at the same cut, so
//! that the rows are those of one instant, however long it takes; what was looked at is not looked at again.

use crate::store::Store;
use base::error::SqlResult;
use base::key::KeyRange;
use base::schema::stale_schema;
use base::txn::RowRead;
use base::{Key, Place, Rank, Row};

/// Reads of one partition at one cut, and how far they are.
pub struct Reading {
    at: Rank,
    reads: Vec<RowRead>,
    rows: Vec<Vec<(Key, Row)>>,
    /// What is left of the read that is under way; `None`: it has not begun.
    rest: Option<KeyRange>,
}

impl Reading {
    pub fn new(at: Rank, reads: Vec<RowRead>) -> Reading {
        let rows = Vec::with_capacity(reads.len());
        Reading { at, reads, rows, rest: None }
    }

    /// Looks at so many keys at most. Whether that was all of it.
    ///
    /// Errors: those of [`Store::read`].
    pub fn go_on(&mut self, store: &Store, keys_max: usize) -> SqlResult<bool> {
        let mut keys_left = keys_max;
        loop {
            let number = match self.rest {
                Some(_) => self.rows.len() - 1,
                None => self.rows.len(),
            };
            let Some(read) = self.reads.get(number) else { return Ok(true) };
            if keys_left == 0 {
                return Ok(false);
            }
            if self.rest.is_none() {
                self.rows.push(Vec::new());
            }
            let range = self.rest.take();
            let rows = &mut self.rows[number];
            self.rest = store.look(read, self.at, range.as_ref(), &mut keys_left, rows)?;
        }
    }

    /// The rows of each read, in its order.
    pub fn into_rows(self) -> Vec<Vec<(Key, Row)>> {
        self.rows
    }
}

impl Store {
    /// The rows that a read asks for, in key order or its reverse, with their primary keys. A cut
    /// includes every transaction of its rank.
    ///
    /// Errors: a cut that was collected (72000), a table or index that does not exist at the cut (40001, as
    /// of a stale plan), an error of the filter.
    pub fn read(&self, read: &RowRead, cut: Rank) -> SqlResult<Vec<(Key, Row)>> {
        let mut rows = Vec::new();
        self.look(read, cut, None, &mut usize::MAX.clone(), &mut rows)?;
        Ok(rows)
    }

    /// Adds what a read finds in its range, or in what is left of it, and counts keys down. Answers what is left.
    fn look(
        &self,
        read: &RowRead,
        cut: Rank,
        rest: Option<&KeyRange>,
        keys_left: &mut usize,
        rows: &mut Vec<(Key, Row)>,
    ) -> SqlResult<Option<KeyRange>> {
        assert_eq!(read.partition, self.partition, "a read went to the wrong partition");
        let catalog = self.catalog_at(cut)?;
        let at = Place::end_of(cut);
        // It was made, dropped or written anew meanwhile.
        let table = catalog.table(read.table).ok_or_else(stale_schema)?;
        let limit = read.limit.unwrap_or(u64::MAX);
        if rows.len() as u64 >= limit {
            return Ok(None);
        }
        let range = rest.unwrap_or(&read.range);
        let (mut failed, mut stopped_at) = (None, None);
        // Whether there may be a look at one more key.
        let mut looks = |key: &Key| {
            if *keys_left == 0 {
                stopped_at = Some(key.clone());
                return false;
            }
            *keys_left -= 1;
            true
        };
        let mut visit = |key: &Key, row: &Row| {
            let holds = |filter: &base::expr::Expr| filter.holds(&table.complete(row));
            let wanted = read.filter.as_ref().map_or(Ok(true), holds);
            match wanted {
                Ok(true) => rows.push((key.clone(), row.clone())),
                Ok(false) => {}
                Err(error) => failed = Some(error),
            }
            failed.is_none() && (rows.len() as u64) < limit
        };
        match (read.index, range.as_point()) {
            (None, Some(key)) => {
                if looks(key)
                    && let Some(row) = self.get_at(read.table, key, at)
                {
                    visit(key, row);
                }
            }
            (None, None) => {
                if let Some(kept) = self.table_at(read.table, at) {
                    kept.rows.scan(range, read.descending, |key, slot| {
                        looks(key) && slot.at(at).is_none_or(|row| visit(key, row))
                    });
                }
            }
            (Some(index), _) => {
                let is_known = table.indexes.iter().any(|i| i.id == index);
                let kept =
                    self.table_at(read.table, at).filter(|kept| is_known && kept.index(index).is_some());
                let kept = kept.ok_or_else(stale_schema)?;
                let range = (range, read.descending);
                kept.scan_index(index, range, &mut looks, &|s| s.at(at), &|s| s.at(at), &mut visit);
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        Ok(stopped_at.map(|key| left_of(range, key, read.descending)))
    }
}

/// What is left of a range from this key on.
fn left_of(range: &KeyRange, from: Key, descending: bool) -> KeyRange {
    match descending {
        false => KeyRange { low: from, high: range.high.clone() },
        true => KeyRange { low: range.low.clone(), high: Some(from.successor()) },
    }
}
