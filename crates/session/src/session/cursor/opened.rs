//! The open cursors of a session, by their names, and how many it has opened.

use super::Cursor;
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

#[derive(Default)]
pub(in super::super) struct Cursors {
    by_name: BTreeMap<String, Cursor>,
    opened: u64,
}

impl Cursors {
    /// How many were opened so far.
    pub(super) fn so_far(&self) -> u64 {
        self.opened
    }

    /// The number of one that is opened now.
    pub(super) fn next_number(&mut self) -> u64 {
        self.opened += 1;
        self.opened - 1
    }
}

impl Deref for Cursors {
    type Target = BTreeMap<String, Cursor>;
    fn deref(&self) -> &BTreeMap<String, Cursor> {
        &self.by_name
    }
}
impl DerefMut for Cursors {
    fn deref_mut(&mut self) -> &mut BTreeMap<String, Cursor> {
        &mut self.by_name
    }
}
