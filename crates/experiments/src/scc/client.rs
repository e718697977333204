//! Writers whose rows are theirs alone, and readers that hold what they see against what had been answered.

use super::{KEYS, Point, WRITER};
use crate::populate::submission;
use base::cut::Consistency;
use base::expr::Expr;
use base::key::KeyRange;
use base::process::Process;
use base::rng::Rng;
use base::schema::Catalog;
use base::txn::{AccessMode, AccessSet, Granule, RowRead, Statement, TxnProgram};
use base::{Datum, Key, NodeId, PartitionId, Row, TableId, Time, Token};
use node::request::{ReadRows, Reply, Request};
use sim::world::client::{Client, ClientEffects, ClientEvent};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use workload::micro::{INITIAL, MICRO};

/// The first of the ten columns; the key is in the second.
const VALUE: usize = 2;
/// Rows that a reader reads each tenth time.
const NEIGHBOURS: i64 = 20;

/// What clients have in common.
pub struct Shared {
    pub table: TableId,
    pub version: u64,
    pub begin: Time,
    pub until: Time,
    pub seen: RefCell<Seen>,
    /// What each row was last answered to hold, and the last of them.
    answered: RefCell<(BTreeMap<i64, i64>, i64)>,
}

/// Of reads and writes that were asked within the window.
#[derive(Default)]
pub struct Seen {
    pub stale: u64,
    pub latencies_ns: Vec<u64>,
    pub write_latencies_ns: Vec<u64>,
    /// When each read was answered, ns since the window's begin.
    pub answered_ns: Vec<u64>,
}

impl Shared {
    pub fn new(catalog: Arc<Catalog>, begin: Time, until: Time) -> Shared {
        let table = catalog.require(MICRO.name).expect("a table that was made");
        Shared {
            table: table.id,
            version: table.version,
            begin,
            until,
            seen: RefCell::default(),
            answered: RefCell::new((BTreeMap::new(), 0)),
        }
    }
    fn measures(&self, asked_at: Time) -> bool {
        self.begin <= asked_at && asked_at < self.until
    }
    fn answered(&self, key: i64) -> i64 {
        self.answered.borrow().0.get(&key).copied().unwrap_or(INITIAL)
    }
}

fn key(key: i64) -> Key {
    Key::of(&[Datum::Int(1), Datum::Int(key)])
}

/// Writes rows of its own, one after another.
pub struct Writer {
    shared: Rc<Shared>,
    /// Its number, and how many there are.
    nth: (u32, u32),
    rng: Rng,
    value: i64,
    /// Key, and when it was asked.
    doing: Option<(i64, Time)>,
}

impl Writer {
    pub fn new(shared: &Rc<Shared>, nth: (u32, u32), rng: Rng) -> Writer {
        Writer { shared: shared.clone(), nth, rng, value: INITIAL, doing: None }
    }
    fn write<P: Process<Request = Request>>(&mut self, now: Time, out: &mut ClientEffects<P>) {
        let (nth, of) = (i64::from(self.nth.0), i64::from(self.nth.1));
        let number = self.rng.below((KEYS / of) as u64) as i64 * of + nth;
        self.value += 1;
        let (table, schema_version) = (self.shared.table, self.shared.version);
        let set = vec![(VALUE, Expr::constant(self.value))];
        let target = KeyRange::point(key(number));
        let update = Statement::Update { table, schema_version, target, filter: None, set, returning: None };
        let mut access = AccessSet::default();
        access.add(PartitionId(0), Granule::Key(table, key(number)), AccessMode::Write);
        out.ask(WRITER, Request::Submit(submission(TxnProgram::Statements(vec![update]), access)));
        self.doing = Some((number, now));
    }
}

impl<P: Process<Request = Request, Reply = Reply>> Client<P> for Writer {
    fn step(&mut self, now: Time, event: ClientEvent<P>, out: &mut ClientEffects<P>) {
        match event {
            ClientEvent::Start => return out.wake_at(now + self.rng.below(1_000_000), 0),
            ClientEvent::Reply { reply: Reply::Submitted(answer), .. } => {
                let (number, asked_at) = self.doing.take().expect("asked before");
                let answer = answer.unwrap_or_else(|e| panic!("a write is refused: {e}"));
                assert!(answer.outcome.is_committed(), "nobody else writes this row");
                let mut answered = self.shared.answered.borrow_mut();
                answered.0.insert(number, self.value);
                answered.1 = number;
                if self.shared.measures(asked_at) {
                    self.shared.seen.borrow_mut().write_latencies_ns.push(now.since(asked_at));
                }
            }
            ClientEvent::Wake(_) => {}
            _ => panic!("an answer to another question"),
        }
        if now < self.shared.until {
            self.write(now, out);
        }
    }
    fn is_done(&self) -> bool {
        self.doing.is_none()
    }
}

/// Reads rows at one replica, one after another.
pub struct Reader {
    shared: Rc<Shared>,
    node: NodeId,
    zipf: workload::random::Zipf,
    after_write_ns: Option<u64>,
    from: Option<Time>,
    rng: Rng,
    /// Rows with what they had been answered to hold, and when it was asked.
    doing: Option<(BTreeMap<i64, i64>, Time)>,
    /// The row that was written last, to be read.
    next: Option<i64>,
}

impl Reader {
    pub fn new(shared: &Rc<Shared>, node: NodeId, point: &Point, rng: Rng, from: Option<Time>) -> Reader {
        let zipf = workload::random::Zipf::new(KEYS as u64, point.skew);
        let (shared, after_write_ns) = (shared.clone(), point.after_write_ns);
        Reader { shared, node, zipf, after_write_ns, from, rng, doing: None, next: None }
    }
    fn read<P: Process<Request = Request>>(
        &mut self,
        now: Time,
        first: i64,
        count: i64,
        out: &mut ClientEffects<P>,
    ) {
        let last = (first + count).min(KEYS);
        let range = match count {
            1 => KeyRange::point(key(first)),
            _ => KeyRange { low: key(first), high: Some(key(last)) },
        };
        let (partition, table) = (PartitionId(0), self.shared.table);
        let read =
            RowRead { partition, table, index: None, range, filter: None, limit: None, descending: false };
        let (consistency, token) = (Consistency::Rss, Token::default());
        out.ask(self.node, Request::ReadRows(ReadRows { at: None, consistency, token, reads: vec![read] }));
        let known = (first..last).map(|number| (number, self.shared.answered(number))).collect();
        self.doing = Some((known, now));
    }
    fn next<P: Process<Request = Request>>(&mut self, now: Time, out: &mut ClientEffects<P>) {
        if now >= self.shared.until {
            return;
        }
        if let Some(ns) = self.after_write_ns {
            self.next = Some(self.shared.answered.borrow().1);
            return out.wake_at(now + ns, 0);
        }
        let first = self.zipf.rank(&mut self.rng) as i64 % KEYS;
        let count = if self.rng.chance(0.1) { NEIGHBOURS } else { 1 };
        self.read(now, first, count, out);
    }
}

impl<P: Process<Request = Request, Reply = Reply>> Client<P> for Reader {
    fn step(&mut self, now: Time, event: ClientEvent<P>, out: &mut ClientEffects<P>) {
        match event {
            ClientEvent::Start => out.wake_at(self.from.unwrap_or(now) + self.rng.below(1_000_000), 0),
            ClientEvent::Wake(_) => match self.next.take() {
                Some(number) => self.read(now, number, 1, out),
                None => self.next(now, out),
            },
            ClientEvent::Reply { reply: Reply::Rows(rows), .. } => {
                let (known, asked_at) = self.doing.take().expect("asked before");
                let rows = rows.unwrap_or_else(|e| panic!("a read is refused: {e}"));
                let value = |row: &Row, column: usize| match row.get(column) {
                    Datum::Int(value) => value,
                    other => panic!("{other:?} is no number"),
                };
                assert_eq!(rows.reads[0].len(), known.len(), "no row is ever deleted");
                let is_stale = rows.reads[0].iter().any(|(_, row)| value(row, VALUE) < known[&value(row, 1)]);
                if self.shared.measures(asked_at) {
                    let mut seen = self.shared.seen.borrow_mut();
                    seen.latencies_ns.push(now.since(asked_at));
                    seen.answered_ns.push(now.since(self.shared.begin));
                    seen.stale += u64::from(is_stale);
                }
                self.next(now, out);
            }
            _ => panic!("an answer to another question"),
        }
    }
    fn is_done(&self) -> bool {
        self.doing.is_none()
    }
}
