//! What blocks read and write, and what they submit: as a session of SQL does between BEGIN and COMMIT.

use super::super::book::{Book, Entry};
use super::action::{draw_badge, draw_holder};
use super::tables::{BADGES, KEYS, Known, Scope, Tables, Undeclared, key, of_shelf, submission};
use super::{Change, Holder, badge_name, check_unique, see_row, see_shelf};
use base::key::KeyRange;
use base::rng::Rng;
use base::txn::{
    AccessMode, AccessSet, Granule, ReadGranule, RowRead, Submission, TxnProgram, Validated, ValidatedWrite,
    WriteKind,
};
use base::{Datum, Key, PartitionId, Rank, TableId, Token};
use history::Seen;
use node::request::Rows;

/// What is looked at, of one shelf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// One row.
    Key(i64),
    Shelf,
    /// The row that has a badge, through the index.
    Badge(i64),
    /// All rows of the shelf, through the index.
    Badges,
}

/// A look at one table.
#[derive(Clone, Debug)]
pub struct Look {
    scope: Scope,
    shelf: i64,
    by: By,
    /// Where.
    partitions: Vec<PartitionId>,
}

impl Look {
    /// What a block looks at before it writes.
    pub fn draw(tables: &Tables, rng: &mut Rng) -> Vec<Look> {
        let (scope, usual) = tables.draw_place(rng);
        let look = |rng: &mut Rng| {
            let shelf = if rng.chance(0.7) { usual } else { rng.pick(&tables.shelves).0 };
            let by = match rng.below(4) {
                0 => By::Shelf,
                1 => By::Badge(rng.below(BADGES as u64) as i64),
                2 if scope == Scope::Shelf => By::Badges,
                _ => By::Key(rng.below(KEYS as u64) as i64),
            };
            Look::new(tables, scope, shelf, by, rng)
        };
        (0..rng.between(1, 3)).map(|_| look(rng)).collect()
    }
    /// A shelf, by rows and through the index.
    pub fn both_ways(tables: &Tables, rng: &mut Rng) -> Vec<Look> {
        let (scope, shelf) = tables.draw_place(rng);
        [By::Shelf, By::Badges].map(|by| Look::new(tables, scope, shelf, by, rng)).into()
    }
    fn new(tables: &Tables, scope: Scope, shelf: i64, by: By, rng: &mut Rng) -> Look {
        let mut partitions = tables.homes(scope, shelf);
        match (scope, by) {
            // Whose row it is, is not known.
            (Scope::All, By::Badge(_)) => partitions = tables.partitions(scope),
            (Scope::Copied, _) => partitions = vec![*rng.pick(&partitions)],
            _ => {}
        }
        Look { scope, shelf, by, partitions }
    }

    /// The table or the index, and the range of it.
    fn range(&self) -> (Option<TableId>, KeyRange) {
        let index = Some(self.scope.index());
        match self.by {
            By::Key(number) => (None, KeyRange::point(key(self.shelf, number))),
            By::Shelf => (None, of_shelf(self.shelf)),
            By::Badges if self.scope == Scope::Shelf => (index, of_shelf(self.shelf)),
            By::Badges => (index, KeyRange::all()),
            By::Badge(badge) => {
                let entry = match self.scope {
                    Scope::Shelf => Key::of(&[Datum::Int(self.shelf), Datum::Int(badge)]),
                    Scope::All | Scope::Copied => Key::of(&[Datum::Int(badge)]),
                };
                (index, KeyRange::point(entry))
            }
        }
    }
    pub fn reads(&self) -> impl Iterator<Item = RowRead> + '_ {
        let (index, range) = self.range();
        let table = self.scope.table();
        self.partitions.iter().map(move |&partition| RowRead {
            partition,
            table,
            index,
            range: range.clone(),
            filter: None,
            limit: None,
            descending: false,
        })
    }
}

/// Looks with the rows that each has seen.
pub struct Looked {
    looks: Vec<(Look, Vec<Holder>)>,
    at: Rank,
}

impl Looked {
    /// Panics if rows are seen that cannot be there together.
    pub fn new(looks: Vec<Look>, rows: &Rows) -> Looked {
        let mut reads = rows.reads.iter();
        let seen = looks.into_iter().map(|look| {
            let own = reads.by_ref().take(look.partitions.len()).flatten();
            let rows: Vec<Holder> = own.map(|(_, row)| Holder::of_row(row)).collect();
            check_unique(look.scope, &rows);
            (look, rows)
        });
        let looks: Vec<(Look, Vec<Holder>)> = seen.collect();
        assert!(reads.next().is_none(), "one answer for each read");
        let looked = Looked { looks, at: rows.at };
        looked.check_ways();
        looked
    }

    /// At one cut a shelf has the same rows by whatever way they are found.
    fn check_ways(&self) {
        let found = |by: By, shelf: i64| {
            let (_, rows) = self.looks.iter().find(|(look, _)| (look.by, look.shelf) == (by, shelf))?;
            let mut rows: Vec<&Holder> = rows.iter().filter(|holder| holder.shelf == shelf).collect();
            rows.sort();
            Some(rows)
        };
        for (look, _) in &self.looks {
            if let (Some(rows), Some(entries)) = (found(By::Shelf, look.shelf), found(By::Badges, look.shelf))
            {
                assert_eq!(rows, entries, "rows and entries of the index differ at one cut ({})", self.at);
            }
        }
    }

    /// Writes down what was seen.
    pub fn record(&self, book: &mut Book, entry: Entry) {
        for (look, rows) in &self.looks {
            let (scope, shelf) = (look.scope, look.shelf);
            match look.by {
                By::Key(key) => see_row(book, entry, scope, (shelf, key), rows.first()),
                By::Shelf => see_shelf(book, entry, scope, shelf, rows),
                By::Badge(badge) if rows.is_empty() => {
                    book.see(entry, &badge_name(scope, shelf, badge), Seen::Absent);
                }
                By::Badge(_) | By::Badges => {
                    let of = |holder: &Holder| (holder.shelf, holder.key);
                    rows.iter().for_each(|holder| see_row(book, entry, scope, of(holder), Some(holder)));
                }
            }
        }
    }

    /// What the block makes of the rows that it has seen, and of keys without a row. `fresh` gives values.
    pub fn choose_changes(&self, rng: &mut Rng, fresh: &mut dyn FnMut() -> u64) -> Vec<Change> {
        let mut seen: Vec<Holder> = self.looks.iter().flat_map(|(_, rows)| rows.iter().cloned()).collect();
        seen.sort();
        seen.dedup();
        rng.shuffle(&mut seen);
        let mut changed = |holder: &Holder, badge: Option<i64>| {
            let before = Some((holder.badge, holder.value));
            Change::made(Holder { badge, value: fresh(), before, ..holder.clone() })
        };
        let mut changes = match (&seen[..], rng.below(4)) {
            ([], _) => Vec::new(),
            ([one, ..], 0) => vec![Change::deleted(one.clone())],
            ([one, other, ..], 1) => vec![changed(one, other.badge), changed(other, one.badge)],
            ([one, other, ..], 2) => vec![Change::deleted(one.clone()), changed(other, one.badge)],
            ([one, ..], _) => vec![changed(one, draw_badge(rng).filter(|_| rng.chance(0.6)))],
        };
        if let Some((shelf, key)) = self.free_key(rng)
            && (changes.is_empty() || rng.chance(0.3))
        {
            let made = Holder { key, ..draw_holder(shelf, fresh(), rng) };
            changes.push(Change { before: None, after: Some(made) });
        }
        changes
    }
    /// A key at which no row was seen.
    fn free_key(&self, rng: &mut Rng) -> Option<(i64, i64)> {
        let free = self.looks.iter().flat_map(|(look, rows)| {
            let keys = match look.by {
                By::Key(key) => key..key + 1,
                By::Shelf => 0..KEYS,
                By::Badge(_) | By::Badges => 0..0,
            };
            let is_free = |key: &i64| rows.iter().all(|holder| holder.key != *key);
            keys.filter(is_free).map(|key| (look.shelf, key)).collect::<Vec<_>>()
        });
        let free: Vec<(i64, i64)> = free.collect();
        if free.is_empty() { None } else { Some(*rng.pick(&free)) }
    }

    pub fn scope(&self) -> Scope {
        self.looks[0].0.scope
    }

    /// The program of COMMIT: valid if what was read is still so.
    pub fn submission(&self, tables: &Tables, known: &Known, changes: &[Change], token: Token) -> Submission {
        let scope = self.scope();
        let schema_version = known.of(scope).version;
        let mut access = AccessSet::default();
        let mut reads = Vec::new();
        let mut read = |access: &mut AccessSet, partition: PartitionId, table: TableId, range: KeyRange| {
            access.add(partition, Granule::of(table, range.clone()), AccessMode::Read);
            reads.push(ReadGranule { partition, table, range, columns: None, at: self.at });
        };
        for (look, rows) in &self.looks {
            let (index, range) = look.range();
            for &partition in &look.partitions {
                read(&mut access, partition, index.unwrap_or(scope.table()), range.clone());
            }
            for holder in rows.iter().filter(|_| index.is_some()) {
                let homes = tables.homes(scope, holder.shelf);
                let found_at = if scope == Scope::Copied { look.partitions[0] } else { homes[0] };
                read(&mut access, found_at, scope.table(), KeyRange::point(key(holder.shelf, holder.key)));
            }
        }
        let mut writes = Vec::new();
        for change in changes {
            let departs = tables.undeclared != Some(Undeclared::ByBlocks) || !tables.is_local(scope);
            if let Some(before) = change.before.as_ref().filter(|_| departs) {
                tables.write_entries(&mut access, known, scope, before);
            }
            let holder = change.holder();
            tables.write_row(&mut access, scope, holder);
            if let Some(after) = &change.after {
                tables.write_entries(&mut access, known, scope, after);
            }
            writes.extend(tables.homes(scope, holder.shelf).into_iter().map(|partition| ValidatedWrite {
                partition,
                table: scope.table(),
                schema_version,
                key: key(holder.shelf, holder.key),
                kind: if change.before.is_none() { WriteKind::Insert } else { WriteKind::Put },
                row: change.after.as_ref().map(Holder::row),
            }));
        }
        submission(TxnProgram::Validated(Validated { reads, writes }), access, token)
    }
}
