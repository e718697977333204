//! A mix of three inserts, two updates and five reads, as of the trading service in the paper (§5.2): its schema and its requests
//! are not published. Here a read is of a row that was written just before, as when one service of a trade tells the next; a
//! row is updated by the client that has inserted it, and its values count up.

use super::session::{Ask, Fact, Found, Script, rows_in};
use base::expr::Expr;
use base::key::KeyRange;
use base::rng::Rng;
use base::schema::Catalog;
use base::txn::{AccessMode, AccessSet, Granule, OnConflict, Statement, StatementResult, TxnProgram};
use base::{Datum, Key, PartitionId, Row, TableId, Time};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use workload::micro::{COLUMNS, MICRO, micro};

/// Reads are of one of so many rows that were written last.
const RECENT: usize = 16;

/// Keys of rows in the order in which their writes were answered.
pub type Recent = Rc<RefCell<VecDeque<i64>>>;

pub struct Trading {
    table: TableId,
    schema_version: u64,
    rng: Rng,
    recent: Recent,
    /// The next key that it inserts, and the distance to the one after: keys of clients must not meet.
    next: (i64, i64),
    /// Rows that it has inserted.
    own: Vec<i64>,
    value: i64,
    /// What it writes, or reads.
    doing: i64,
}

fn key(number: i64) -> Key {
    Key::of(&[Datum::Int(1), Datum::Int(number)])
}
fn value_of(number: i64) -> Fact {
    ("value", [number, 0, 0])
}

impl Trading {
    pub fn new(catalog: &Catalog, recent: &Recent, next: (i64, i64), rng: Rng) -> Trading {
        let table = catalog.require(MICRO.name).expect("a table that was made");
        let (table, schema_version) = (table.id, table.version);
        let recent = recent.clone();
        Trading { table, schema_version, rng, recent, next, own: Vec::new(), value: 0, doing: 0 }
    }
    fn insert(&mut self) -> Statement {
        self.doing = self.next.0;
        self.next.0 += self.next.1;
        let values = [1, self.doing].into_iter().chain([self.value; COLUMNS as usize]);
        let rows = vec![Row::of(&values.map(Datum::Int).collect::<Vec<_>>())];
        let (table, schema_version) = (self.table, self.schema_version);
        Statement::Insert { table, schema_version, rows, on_conflict: OnConflict::Fail, returning: None }
    }
    fn update(&mut self) -> Statement {
        self.doing = *self.rng.pick(&self.own);
        let (table, schema_version) = (self.table, self.schema_version);
        let (target, set) = (KeyRange::point(key(self.doing)), vec![(micro::C0, Expr::constant(self.value))]);
        Statement::Update { table, schema_version, target, filter: None, set, returning: None }
    }
}

impl Script for Trading {
    fn begin(&mut self, _: Time) -> Ask {
        let drawn = self.rng.below(10);
        let recent = self.recent.borrow();
        if drawn >= 5 && !recent.is_empty() {
            self.doing = recent[self.rng.below(recent.len() as u64) as usize];
            return Ask::Read(vec![rows_in(self.table, None, KeyRange::point(key(self.doing)))]);
        }
        drop(recent);
        self.value += 1;
        let statement = if drawn < 2 && !self.own.is_empty() { self.update() } else { self.insert() };
        let mut access = AccessSet::default();
        access.add(PartitionId(0), Granule::Key(self.table, key(self.doing)), AccessMode::Write);
        Ask::Write(TxnProgram::Statements(vec![statement]), access)
    }
    /// A row that is not there shows less than any value.
    fn read(&mut self, reads: Vec<Vec<(Key, Row)>>) -> Found {
        let shown = reads[0].first().map_or(i64::MIN, |(_, row)| row.get(micro::C0).int());
        Found::last(vec![(value_of(self.doing), shown)])
    }
    fn committed(&mut self, _: &[StatementResult]) -> Vec<(Fact, i64)> {
        if self.own.last().is_none_or(|last| *last < self.doing) {
            self.own.push(self.doing);
        }
        let mut recent = self.recent.borrow_mut();
        recent.push_back(self.doing);
        if recent.len() > RECENT {
            recent.pop_front();
        }
        vec![(value_of(self.doing), self.value)]
    }
}
