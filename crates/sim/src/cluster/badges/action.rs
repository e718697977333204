//! One-shot programs over the tables: what they are, what they may write, and what their answers say.

use super::super::book::{Book, Entry};
use super::tables::{
    BADGE, BADGES, COLUMNS, KEYS, Known, OLD_BADGE, OLD_VALUE, SECOND_INDEX, SHELF, Scope, Tables,
    Undeclared, VALUE, key, of_shelf, submission,
};
use super::{Change, Given, Holder, badge_name, check_unique, record_changes, row_name, see_row, see_shelf};
use base::expr::Expr;
use base::key::KeyRange;
use base::rng::Rng;
use base::schema::Table;
use base::txn::{AccessSet, OnConflict, Statement, StatementResult, Submission, TxnProgram};
use base::{PartitionId, TableId, Token};

/// Columns that some index may have, and those that change with a row's value.
const INDEXED: &[usize] = &[SHELF, BADGE, VALUE, OLD_BADGE];
const RENEWED: &[usize] = &[VALUE, OLD_BADGE];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// `INSERT`, which fails if the key or the badge is taken.
    Insert,
    /// `INSERT … ON CONFLICT DO NOTHING`.
    OrNothing,
    /// `INSERT … ON CONFLICT (shelf, badge) DO UPDATE` of the value of the row that has the badge.
    OrRenew,
    /// `INSERT … ON CONFLICT (shelf, key) DO UPDATE` of badge and value.
    OrRename,
    /// `UPDATE` of a row's badge and value, by key.
    Rename,
    /// `UPDATE` of the values of a shelf.
    Renew,
    /// `DELETE` by key.
    Delete,
    /// `DELETE` of a shelf.
    Clear,
    /// `TRUNCATE`, after a look at all that is there.
    Truncate,
}

impl What {
    /// Each as often as it is drawn.
    const DRAWN: [(What, usize); 9] = [
        (What::Insert, 4),
        (What::OrNothing, 1),
        (What::OrRenew, 1),
        (What::OrRename, 1),
        (What::Rename, 4),
        (What::Renew, 1),
        (What::Delete, 4),
        (What::Clear, 1),
        (What::Truncate, 1),
    ];

    /// Where entries live elsewhere the others have to read first.
    fn draw(is_local: bool, rng: &mut Rng) -> What {
        let may = |what: &What| is_local || matches!(what, What::Insert | What::Renew | What::Truncate);
        let of = What::DRAWN.into_iter().filter(|(what, _)| may(what));
        let of: Vec<What> = of.flat_map(|(what, count)| std::iter::repeat_n(what, count)).collect();
        *rng.pick(&of)
    }

    /// Whether it may find that another row has an entry of this index.
    fn may_meet_another(self, index: Option<&str>) -> bool {
        use What::{Insert, OrNothing, OrRename, OrRenew, Rename, Renew};
        match self {
            Insert | OrRenew | OrRename | Rename => true,
            // While it is built no conflict is looked for there; and all rows of a shelf are given one value.
            OrNothing | Renew => index == Some(SECOND_INDEX),
            _ => false,
        }
    }
}

/// A one-shot program.
#[derive(Clone, Debug)]
pub struct Program {
    /// One, or the same on two shelves, as a statement does that names both.
    parts: Vec<Action>,
}

impl Program {
    pub fn draw(tables: &Tables, value: u64, rng: &mut Rng) -> Program {
        Program::of(tables, Action::draw(tables, value, rng), rng)
    }
    /// One that wants a badge which another row is about to give up.
    pub fn taking(tables: &Tables, given: Given, value: u64, rng: &mut Rng) -> Program {
        let Given { scope, shelf, badge } = given;
        let what = if tables.is_local(scope) && rng.chance(0.4) { What::Rename } else { What::Insert };
        let holder = Holder { badge: Some(badge), ..draw_holder(shelf, value, rng) };
        Program::of(tables, Action { scope, what, holder }, rng)
    }
    /// One that has a row give up its badge.
    pub fn giving(tables: &Tables, scope: Scope, holder: &Holder, value: u64, rng: &mut Rng) -> Program {
        let what = *rng.pick(&[What::Rename, What::Delete]);
        let next = Holder { key: holder.key, ..draw_holder(holder.shelf, value, rng) };
        // Another badge may be taken, and then nothing is given up.
        let badge = next.badge.filter(|_| rng.chance(0.5));
        let holder = Holder { badge, ..next };
        Program::of(tables, Action { scope, what, holder }, rng)
    }
    fn of(tables: &Tables, one: Action, rng: &mut Rng) -> Program {
        let other = tables.shelves.iter().map(|(shelf, _)| *shelf).find(|shelf| *shelf != one.holder.shelf);
        // Elsewhere the two would have one badge.
        let is_of_both = one.scope == Scope::Shelf && one.what != What::Truncate && rng.chance(0.5);
        let other = other.filter(|_| is_of_both);
        let other =
            other.map(|shelf| Action { holder: Holder { shelf, ..one.holder.clone() }, ..one.clone() });
        Program { parts: std::iter::once(one).chain(other).collect() }
    }
    /// The row that it has made for certain once it has committed, where one statement can have it give up its badge.
    pub fn made(&self, tables: &Tables) -> Option<(Scope, &Holder)> {
        let one = self.parts.first().filter(|one| one.what == What::Insert && tables.is_local(one.scope))?;
        Some((one.scope, &one.holder))
    }

    /// The program with its access set.
    pub fn submission(&self, tables: &Tables, known: &Known, token: Token) -> Submission {
        let mut access = AccessSet::default();
        let statements = self.parts.iter().flat_map(|part| part.statements(tables, known, &mut access));
        let program = TxnProgram::Statements(statements.collect());
        submission(program, access, token)
    }
    /// Whatever it may write, or more, should nobody know what became of it. What it deletes is not known.
    pub fn possible_writes(&self, tables: &Tables) -> Vec<(String, Option<u64>)> {
        self.parts.iter().flat_map(|part| part.possible_writes(tables)).collect()
    }
    /// Whether it may fail with 23505, of an index or a primary key of this name.
    pub fn may_meet_another(&self, of: Option<&str>) -> bool {
        self.parts[0].what.may_meet_another(of)
    }
    /// Writes down what it answers once it has committed.
    pub fn committed(&self, tables: &Tables, book: &mut Book, entry: Entry, results: &[StatementResult]) {
        let each = results.len() / self.parts.len();
        let parts = self.parts.iter().zip(results.chunks(each));
        parts.for_each(|(part, results)| part.committed(tables, book, entry, results));
    }
}

/// What statements of one kind do on a shelf, and the row that they would make; of some only the shelf, the key or the value
/// matters.
#[derive(Clone, Debug)]
struct Action {
    scope: Scope,
    what: What,
    holder: Holder,
}

impl Action {
    fn draw(tables: &Tables, value: u64, rng: &mut Rng) -> Action {
        let (scope, shelf) = tables.draw_place(rng);
        let what = What::draw(tables.is_local(scope), rng);
        Action { scope, what, holder: draw_holder(shelf, value, rng) }
    }

    /// Its statements; what they declare is added to an access set.
    fn statements(&self, tables: &Tables, known: &Known, access: &mut AccessSet) -> Vec<Statement> {
        let Action { scope, what, holder } = self;
        let (schema_version, all) = (known.of(*scope).version, KeyRange::all());
        let homes = tables.homes(*scope, holder.shelf);
        let table = scope.table();
        // Entries of rows that are not named here, in indexes with one of these columns.
        let changes = |access: &mut AccessSet, columns: &[usize], at: &[PartitionId]| {
            known.indexes_of(*scope, columns).for_each(|index| Tables::write_range(access, index, &all, at));
        };
        let gives_up = |access: &mut AccessSet, unless: Undeclared| {
            if tables.undeclared != Some(unless) {
                changes(access, INDEXED, &homes);
            }
        };
        match what {
            What::Insert | What::OrNothing | What::OrRenew | What::OrRename => {
                tables.write_row(access, *scope, holder);
                tables.write_entries(access, known, *scope, holder);
                match what {
                    // Another row may be the one that is updated.
                    What::OrRenew => {
                        Tables::write_range(access, table, &all, &homes);
                        changes(access, RENEWED, &homes);
                    }
                    What::OrRename => changes(access, INDEXED, &homes),
                    _ => {}
                }
                vec![self.insert(known.of(*scope))]
            }
            What::Rename => {
                tables.write_row(access, *scope, holder);
                tables.write_entries(access, known, *scope, holder);
                gives_up(access, Undeclared::ByUpdates);
                vec![self.update(KeyRange::point(key(holder.shelf, holder.key)), schema_version)]
            }
            What::Renew => {
                Tables::write_range(access, table, &of_shelf(holder.shelf), &homes);
                changes(access, RENEWED, &homes);
                vec![self.update(of_shelf(holder.shelf), schema_version)]
            }
            What::Delete | What::Clear => {
                let target = match what {
                    What::Delete => KeyRange::point(key(holder.shelf, holder.key)),
                    _ => of_shelf(holder.shelf),
                };
                Tables::write_range(access, table, &target, &homes);
                gives_up(access, Undeclared::ByDeletes);
                let (filter, returning) = (None, Some(all_columns()));
                vec![Statement::Delete { table, schema_version, target, filter, returning }]
            }
            What::Truncate => {
                let partitions = tables.partitions(*scope);
                Tables::write_range(access, table, &all, &partitions);
                changes(access, INDEXED, &partitions);
                let (target, filter, columns) = (all.clone(), None, all_columns());
                let look = Statement::Select { table, schema_version, target, filter, columns };
                vec![look, Statement::Truncate { table, schema_version }]
            }
        }
    }

    fn insert(&self, known: &Table) -> Statement {
        let (table, schema_version) = (known.id, known.version);
        let proposed = |column: usize| (column, Expr::Column(known.columns.len() + column));
        let update = |index: TableId, mut set: Vec<(usize, Expr)>| {
            set.extend([(OLD_BADGE, Expr::Column(BADGE)), (OLD_VALUE, Expr::Column(VALUE))]);
            OnConflict::Update { index, set, filter: None }
        };
        let on_conflict = match self.what {
            What::OrNothing => OnConflict::Nothing { index: None },
            What::OrRenew => update(self.scope.index(), vec![proposed(VALUE)]),
            What::OrRename => update(table, vec![proposed(BADGE), proposed(VALUE)]),
            _ => OnConflict::Fail,
        };
        // What becomes of a plain one its client knows.
        let returning = (on_conflict != OnConflict::Fail).then(all_columns);
        let rows = vec![self.holder.row()];
        Statement::Insert { table, schema_version, rows, on_conflict, returning }
    }

    fn update(&self, target: KeyRange, schema_version: u64) -> Statement {
        let values = self.holder.values();
        let mut set = vec![
            (VALUE, Expr::Constant(values[VALUE].clone())),
            (OLD_BADGE, Expr::Column(BADGE)),
            (OLD_VALUE, Expr::Column(VALUE)),
        ];
        if self.what == What::Rename {
            set.push((BADGE, Expr::Constant(values[BADGE].clone())));
        }
        let (table, filter, returning) = (self.scope.table(), None, Some(all_columns()));
        Statement::Update { table, schema_version, target, filter, set, returning }
    }

    fn possible_writes(&self, tables: &Tables) -> Vec<(String, Option<u64>)> {
        let Action { scope, what, holder } = self;
        let value = Some(holder.value);
        let (writes, deletes) = match what {
            What::Delete | What::Clear | What::Truncate => (false, true),
            What::Rename | What::OrRename => (true, true),
            What::Insert | What::OrNothing | What::OrRenew | What::Renew => (true, false),
        };
        let shelves = tables.shelves.iter().map(|(shelf, _)| *shelf);
        let shelves = shelves.filter(|shelf| *what == What::Truncate || *shelf == holder.shelf);
        let mut possible = Vec::new();
        let mut may = |name: String, is_deleted: bool| {
            if writes {
                possible.push((name.clone(), value));
            }
            if is_deleted {
                possible.push((name, None));
            }
        };
        for shelf in shelves {
            (0..KEYS).for_each(|key| may(row_name(*scope, shelf, key), !writes));
            (0..BADGES).for_each(|badge| may(badge_name(*scope, shelf, badge), deletes));
        }
        possible
    }

    /// Writes down what its statements answer.
    fn committed(&self, tables: &Tables, book: &mut Book, entry: Entry, results: &[StatementResult]) {
        let Action { scope, what, holder } = self;
        let mut rows: Vec<Holder> = results[0].rows.iter().map(Holder::of_row).collect();
        if *what == What::Insert {
            assert_eq!((results[0].affected, rows.len()), (1, 0), "an INSERT inserts its row");
            rows.push(holder.clone());
        }
        assert!(
            rows.len() <= 1 || matches!(what, What::Renew | What::Clear | What::Truncate),
            "{what:?}: {rows:?}"
        );
        check_unique(*scope, &rows);
        let goes = matches!(what, What::Delete | What::Clear | What::Truncate);
        let changes: Vec<Change> = match goes {
            true => rows.into_iter().map(Change::deleted).collect(),
            false => rows.into_iter().map(Change::made).collect(),
        };
        let before: Vec<Holder> = changes.iter().filter_map(|change| change.before.clone()).collect();
        match what {
            What::Renew | What::Clear => see_shelf(book, entry, *scope, holder.shelf, &before),
            What::Truncate => {
                let shelves = tables.shelves.iter();
                shelves.for_each(|(shelf, _)| see_shelf(book, entry, *scope, *shelf, &before));
            }
            What::Rename | What::Delete if changes.is_empty() => {
                see_row(book, entry, *scope, (holder.shelf, holder.key), None);
            }
            _ => {}
        }
        record_changes(book, entry, *scope, &changes);
    }
}

/// A row that is not there yet.
pub fn draw_holder(shelf: i64, value: u64, rng: &mut Rng) -> Holder {
    let key = rng.below(KEYS as u64) as i64;
    Holder { shelf, key, badge: draw_badge(rng), value, before: None }
}
/// Seldom none.
pub fn draw_badge(rng: &mut Rng) -> Option<i64> {
    (!rng.chance(0.1)).then(|| rng.below(BADGES as u64) as i64)
}

fn all_columns() -> Vec<Expr> {
    (0..COLUMNS).map(Expr::Column).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::layout::Layout;
    use base::topology::Topology;
    use base::txn::Granule;
    use base::wan::Wan;
    use std::sync::Arc;

    /// The fault is what was once a fault of SQL's: then the two have nothing in common.
    #[test]
    fn a_deletion_conflicts_with_the_next_owner_of_its_badge_unless_that_is_left_out() {
        let topology = Arc::new(Topology::one_node_per_region(Wan::preset("perseus3").unwrap(), 2));
        let layout = Layout::new(topology, 1, 2);
        let conflict = |undeclared: Option<Undeclared>| {
            let tables = Tables::new(&layout, (Scope::Shelf, false), undeclared);
            let shelf = tables.shelves[0].0;
            let holder = |key| Holder { shelf, key, badge: Some(1), value: 9, before: None };
            let granules = |what, key| {
                let action = Action { scope: Scope::Shelf, what, holder: holder(key) };
                let program = Program { parts: vec![action] };
                program.submission(&tables, &tables.known(), Token::default()).access
            };
            let (gives, takes) = (granules(What::Delete, 0), granules(What::Insert, 1));
            gives.by_partition.iter().any(|(partition, gives)| {
                let meets =
                    |granule: &Granule| takes.at(*partition).iter().any(|b| granule.overlaps(&b.granule));
                gives.iter().any(|access| meets(&access.granule))
            })
        };
        assert!(conflict(None) && conflict(Some(Undeclared::ByUpdates)));
        assert!(!conflict(Some(Undeclared::ByDeletes)));
    }
}
