//! Rows that take badges from each other: tables with a unique index, and clients that insert, rename and delete by key
//! and by range, replace what is in the way, and empty tables; in one-shot programs and in blocks.
//!
//! What a program touches here does not follow from the rows that it names: a deleted row gives up an entry of the unique
//! index, and the next owner of that entry does not know the row. Programs and their access sets are those that SQL's
//! statements are lowered to (crate `sql`, module `lower`).
//!
//! In a history a row is a register, and so is a badge: it holds the value of the row that has it, and nothing while no
//! row does. KEEPS: rows and badges are there because some operation of the history wrote them.
//!
//! Reading order: [`tables`], [`action`] (one-shot programs), [`block`], [`holder`] (the client), [`migrator`], [`builder`],
//! [`agreement`].

pub mod action;
pub mod agreement;
pub mod block;
pub mod builder;
pub mod holder;
pub mod migrator;
pub mod tables;

use super::book::{Book, Entry};
use base::rng::Rng;
use base::time::MS;
use base::{Datum, Row};
use history::Seen;
use std::collections::BTreeSet;
use tables::{Scope, Undeclared};

/// Whether clients of a seed do this beside everything else, where a campaign or a command runs it.
pub fn are_drawn(seed: u64) -> bool {
    Rng::new(seed).fork("badges").chance(0.2)
}

/// What a seed decides about these clients.
#[derive(Clone, Copy, Debug)]
pub struct Company {
    pub holders: u32,
    /// What most of their operations are about: a table, and the first shelf or the last.
    pub usual: (Scope, bool),
    /// Between two operations of one at most, in ns; `None`: as long as others take.
    pub pause_ns_max: Option<u64>,
    /// How often their tables are changed.
    pub migrations: u32,
    /// Steps of making a second index over the badges, and of dropping it again.
    pub builds: u32,
    /// What their programs leave out of what they declare: a planted fault.
    pub undeclared: Option<Undeclared>,
    /// How indexes are built wrongly: another one.
    pub builds_wrongly: Option<builder::Fault>,
}

/// How many steps a seed gives to building indexes, where access sets leave nothing out.
pub fn builds_drawn(seed: u64) -> u32 {
    *Rng::new(seed).fork("builds").pick(&[0, 30, 80])
}

impl Company {
    pub fn draw(
        seed: u64,
        undeclared: Option<Undeclared>,
        builds_wrongly: Option<builder::Fault>,
    ) -> Company {
        let mut rng = Rng::new(seed).fork("holders");
        let mut usual = (*rng.pick(&Scope::EVERY), rng.chance(0.5));
        let (holders, mut pause_ns_max) = (*rng.pick(&[4, 8]), *rng.pick(&[None, Some(MS), Some(20 * MS)]));
        let migrations = *rng.pick(&[0, 0, 3, 8]);
        // Of access sets that leave something out, known seeds find it; another client would make them other runs.
        let builds = match undeclared {
            Some(_) => 0,
            None => builds_drawn(seed),
        };
        if builds > 0 {
            // Its rows are written for as long as they are entered.
            (usual.0, pause_ns_max) = (builder::SCOPE, None);
        }
        Company { holders, usual, pause_ns_max, migrations, builds, undeclared, builds_wrongly }
    }
}

/// A row: what it is, whose badge nobody else in its scope has, and what it was before its last change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder {
    pub shelf: i64,
    pub key: i64,
    /// `None`: null, which any number of rows may have.
    pub badge: Option<i64>,
    pub value: u64,
    /// Badge and value before the statement that wrote it; `None`: there was no row.
    pub before: Option<(Option<i64>, u64)>,
}

impl Holder {
    pub fn values(&self) -> Vec<Datum> {
        let number = |n: Option<i64>| n.map_or(Datum::Null, Datum::Int);
        let old_badge = number(self.before.and_then(|(badge, _)| badge));
        let old_value = number(self.before.map(|(_, value)| value as i64));
        let (shelf, key, value) = (Datum::Int(self.shelf), Datum::Int(self.key), self.value as i64);
        vec![shelf, key, number(self.badge), Datum::Int(value), old_badge, old_value]
    }
    pub fn row(&self) -> Row {
        Row::of(&self.values())
    }
    pub fn of_row(row: &Row) -> Holder {
        Holder::of_values(&row.to_vec())
    }
    pub fn of_values(values: &[Datum]) -> Holder {
        let number = |n: usize| match &values[n] {
            Datum::Int(n) => Some(*n),
            Datum::Null => None,
            other => panic!("a number is stored as {other:?}"),
        };
        let present = |n: usize| number(n).expect("this column is never null");
        Holder {
            shelf: present(0),
            key: present(1),
            badge: number(2),
            value: present(3) as u64,
            before: number(5).map(|value| (number(4), value as u64)),
        }
    }
    /// The row as it was before its last change.
    pub fn earlier(&self) -> Option<Holder> {
        let (badge, value) = self.before?;
        Some(Holder { badge, value, before: None, ..self.clone() })
    }
}

/// A badge that a row is about to give up: somebody else may want it before all have heard of that.
#[derive(Clone, Copy, Debug)]
pub struct Given {
    pub scope: Scope,
    pub shelf: i64,
    pub badge: i64,
}

impl Given {
    /// What a row gives up that is changed or deleted.
    pub fn by(scope: Scope, holder: &Holder) -> Option<Given> {
        holder.badge.map(|badge| Given { scope, shelf: holder.shelf, badge })
    }
}

/// What became of one row.
#[derive(Clone, Debug)]
pub struct Change {
    pub before: Option<Holder>,
    pub after: Option<Holder>,
}

impl Change {
    pub fn made(after: Holder) -> Change {
        Change { before: after.earlier(), after: Some(after) }
    }
    pub fn deleted(before: Holder) -> Change {
        Change { before: Some(before), after: None }
    }
    fn holder(&self) -> &Holder {
        self.after.as_ref().or(self.before.as_ref()).expect("it was there or is there")
    }
}

/// Names in a history; byte order is key order inside a shelf.
pub fn row_name(scope: Scope, shelf: i64, key: i64) -> String {
    format!("{}{shelf:03}/{key:02}", scope.name())
}
pub fn badge_name(scope: Scope, shelf: i64, badge: i64) -> String {
    match scope {
        Scope::Shelf => format!("badge of {}{shelf:03}/{badge:02}", scope.name()),
        Scope::All | Scope::Copied => format!("badge of {}/{badge:02}", scope.name()),
    }
}
fn badge_of(scope: Scope, holder: &Holder) -> Option<String> {
    holder.badge.map(|badge| badge_name(scope, holder.shelf, badge))
}

/// Writes down what an operation that has committed did to rows of one table, and what it has seen by doing so.
pub fn record_changes(book: &mut Book, entry: Entry, scope: Scope, changes: &[Change]) {
    let mut given = BTreeSet::new();
    for change in changes {
        let holder = change.holder();
        see_row(book, entry, scope, (holder.shelf, holder.key), change.before.as_ref());
        given.extend(change.before.as_ref().and_then(|before| badge_of(scope, before)));
    }
    let after: Vec<&Holder> = changes.iter().filter_map(|change| change.after.as_ref()).collect();
    let taken: BTreeSet<String> = after.iter().filter_map(|holder| badge_of(scope, holder)).collect();
    taken.difference(&given).for_each(|badge| book.see(entry, badge, Seen::Absent));
    possible_writes(scope, changes).iter().for_each(|(name, value)| book.put(entry, name, *value));
}

/// The same as names with what is written to them; `None` deletes.
pub fn possible_writes(scope: Scope, changes: &[Change]) -> Vec<(String, Option<u64>)> {
    let mut writes = Vec::new();
    let mut given = BTreeSet::new();
    let mut taken = BTreeSet::new();
    for change in changes {
        let holder = change.holder();
        let value = change.after.as_ref().map(|after| after.value);
        writes.push((row_name(scope, holder.shelf, holder.key), value));
        given.extend(change.before.as_ref().and_then(|before| badge_of(scope, before)));
        if let Some(after) = &change.after
            && let Some(badge) = badge_of(scope, after)
        {
            taken.insert(badge.clone());
            writes.push((badge, Some(after.value)));
        }
    }
    writes.extend(given.difference(&taken).map(|badge| (badge.clone(), None)));
    writes
}

/// Writes down that a row was seen, and with it its badge; or that there was none.
pub fn see_row(book: &mut Book, entry: Entry, scope: Scope, (shelf, key): (i64, i64), seen: Option<&Holder>) {
    let value = seen.map_or(Seen::Absent, |holder| Seen::Value(holder.value));
    book.see(entry, &row_name(scope, shelf, key), value.clone());
    if let Some(badge) = seen.and_then(|holder| badge_of(scope, holder)) {
        book.see(entry, &badge, value);
    }
}

/// Writes down that these were all rows of a shelf.
pub fn see_shelf(book: &mut Book, entry: Entry, scope: Scope, shelf: i64, rows: &[Holder]) {
    let (low, high) = (format!("{}{shelf:03}/", scope.name()), format!("{}{shelf:03}0", scope.name()));
    let rows = rows.iter().filter(|holder| holder.shelf == shelf);
    let seen: Vec<(String, Seen)> =
        rows.clone().map(|holder| (row_name(scope, shelf, holder.key), Seen::Value(holder.value))).collect();
    book.see_range(entry, (&low, &high), &seen);
    rows.for_each(|holder| see_row(book, entry, scope, (shelf, holder.key), Some(holder)));
}

/// Panics if two of these rows have a badge that only one may have, or are one.
pub fn check_unique(scope: Scope, rows: &[Holder]) {
    let (mut keys, mut badges) = (BTreeSet::new(), BTreeSet::new());
    for holder in rows {
        assert!(keys.insert((holder.shelf, holder.key)), "a row twice: {rows:?}");
        let is_first = badge_of(scope, holder).is_none_or(|badge| badges.insert(badge));
        assert!(is_first, "two rows have one badge: {rows:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_read_as_it_was_written_and_knows_what_it_was() {
        let first = Holder { shelf: 3, key: 1, badge: Some(2), value: 7, before: None };
        assert_eq!((Holder::of_row(&first.row()), first.earlier()), (first.clone(), None));
        let renamed = Holder { badge: None, value: 8, before: Some((Some(2), 7)), ..first.clone() };
        assert_eq!((Holder::of_row(&renamed.row()), renamed.earlier()), (renamed.clone(), Some(first)));
    }

    #[test]
    fn a_badge_that_another_row_takes_is_written_and_not_deleted() {
        let holder = |key, badge, value| Holder { shelf: 1, key, badge: Some(badge), value, before: None };
        let swapped = [
            Change { before: Some(holder(0, 5, 1)), after: Some(holder(0, 6, 3)) },
            Change { before: Some(holder(1, 6, 2)), after: None },
        ];
        let writes = possible_writes(Scope::Shelf, &swapped);
        let badge = |n| badge_name(Scope::Shelf, 1, n);
        let row = |key| row_name(Scope::Shelf, 1, key);
        let expected = vec![(row(0), Some(3)), (badge(6), Some(3)), (row(1), None), (badge(5), None)];
        assert_eq!(writes, expected);
    }
}
