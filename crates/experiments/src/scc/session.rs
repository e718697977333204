//! Clients whose transactions are several statements: what they read they read at a replica, each statement at a cut of its own
//! (READ COMMITTED, as in the paper), and what they write goes to the node that runs the partition.

use super::WRITER;
use super::client::Seen;
use crate::populate::submission;
use base::cut::Consistency;
use base::key::KeyRange;
use base::process::Process;
use base::rng::Rng;
use base::txn::{AccessSet, Outcome, RowRead, StatementResult, TxnProgram};
use base::{Key, NodeId, PartitionId, Row, TableId, Time, Token};
use node::request::{ReadRows, Reply, Request};
use sim::world::client::{Client, ClientEffects, ClientEvent};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// A number that only grows, by name: what a read shows of it may not be less than what was answered before.
pub type Fact = (&'static str, [i64; 3]);

/// What clients have in common.
pub struct Common {
    pub begin: Time,
    pub until: Time,
    pub seen: RefCell<Seen>,
    answered: RefCell<Answered>,
}

/// What writes were answered, in the order of their answers.
#[derive(Default)]
struct Answered {
    count: u64,
    /// The number of the answer, and what it made of the fact.
    facts: BTreeMap<Fact, Vec<(u64, i64)>>,
}

impl Answered {
    fn add(&mut self, facts: Vec<(Fact, i64)>) {
        self.count += 1;
        for (fact, value) in facts {
            let values = self.facts.entry(fact).or_default();
            let value = values.last().map_or(value, |(_, last)| value.max(*last));
            values.push((self.count, value));
        }
    }
    /// What the fact had become by the first `count` answers.
    fn at(&self, fact: &Fact, count: u64) -> Option<i64> {
        let values = self.facts.get(fact)?;
        let known = values.partition_point(|(nth, _)| *nth <= count);
        Some(values[known.checked_sub(1)?].1)
    }
}

impl Common {
    pub fn new(begin: Time, until: Time) -> Common {
        Common { begin, until, seen: RefCell::default(), answered: RefCell::default() }
    }
    fn measures(&self, asked_at: Time) -> bool {
        self.begin <= asked_at && asked_at < self.until
    }
}

/// One statement, or a whole transaction that writes.
pub enum Ask {
    Read(Vec<RowRead>),
    Write(TxnProgram, AccessSet),
}

/// What a statement has brought.
pub struct Found {
    /// What it shows of facts.
    pub shown: Vec<(Fact, i64)>,
    /// The next statement; `None`: the transaction is over.
    pub next: Option<Ask>,
}

impl Found {
    pub fn last(shown: Vec<(Fact, i64)>) -> Found {
        Found { shown, next: None }
    }
}

/// What one client asks for, one transaction after another.
pub trait Script {
    /// Begins the next transaction.
    fn begin(&mut self, now: Time) -> Ask;
    /// Takes the rows of a statement, one list for each of its reads.
    fn read(&mut self, reads: Vec<Vec<(Key, Row)>>) -> Found;
    /// What the write that has committed makes of facts.
    fn committed(&mut self, results: &[StatementResult]) -> Vec<(Fact, i64)>;
    /// Whether the script expects its write to fail in this way.
    fn may_fail(&self, _state: &str) -> bool {
        false
    }
}

/// A read of these keys of a table, or of these entries of an index.
pub fn rows_in(table: TableId, index: Option<TableId>, range: KeyRange) -> RowRead {
    let partition = PartitionId(0);
    RowRead { partition, table, index, range, filter: None, limit: None, descending: false }
}

/// The key, or the beginning of a key, that these values make.
pub fn key_of(values: &[i64]) -> Key {
    let mut key = Key::new();
    values.iter().for_each(|value| key.push_int(i128::from(*value)));
    key
}

/// What is under way.
struct Doing {
    asked_at: Time,
    /// Writes that had been answered when the statement was asked.
    answered: u64,
    is_stale: bool,
}

/// Runs a script in a closed loop, without thinking.
pub struct Session {
    common: Rc<Common>,
    /// Where it reads.
    node: NodeId,
    script: Box<dyn Script>,
    rng: Rng,
    doing: Option<Doing>,
}

impl Session {
    pub fn new(common: &Rc<Common>, node: NodeId, script: Box<dyn Script>, rng: Rng) -> Session {
        Session { common: common.clone(), node, script, rng, doing: None }
    }

    fn ask<P: Process<Request = Request>>(&mut self, ask: Ask, out: &mut ClientEffects<P>) {
        match ask {
            Ask::Read(reads) => {
                let (consistency, token) = (Consistency::Rss, Token::default());
                out.ask(self.node, Request::ReadRows(ReadRows { at: None, consistency, token, reads }));
            }
            Ask::Write(program, access) => {
                out.ask(WRITER, Request::Submit(submission(program, access)));
            }
        }
    }
    fn begin<P: Process<Request = Request>>(&mut self, now: Time, out: &mut ClientEffects<P>) {
        if now >= self.common.until {
            return;
        }
        let answered = self.common.answered.borrow().count;
        self.doing = Some(Doing { asked_at: now, answered, is_stale: false });
        let ask = self.script.begin(now);
        self.ask(ask, out);
    }
    fn read<P: Process<Request = Request>>(
        &mut self,
        now: Time,
        reads: Vec<Vec<(Key, Row)>>,
        out: &mut ClientEffects<P>,
    ) {
        let doing = self.doing.as_mut().expect("asked before");
        let Found { shown, next } = self.script.read(reads);
        let answered = self.common.answered.borrow();
        let is_stale = |(fact, value): &(Fact, i64)| answered.at(fact, doing.answered) > Some(*value);
        doing.is_stale |= shown.iter().any(is_stale);
        doing.answered = answered.count;
        drop(answered);
        if let Some(ask) = next {
            return self.ask(ask, out);
        }
        let Doing { asked_at, is_stale, .. } = self.doing.take().expect("just looked at");
        if self.common.measures(asked_at) {
            let mut seen = self.common.seen.borrow_mut();
            seen.latencies_ns.push(now.since(asked_at));
            seen.stale += u64::from(is_stale);
        }
        self.begin(now, out);
    }
    fn written(&mut self, now: Time, outcome: Outcome) {
        let Doing { asked_at, .. } = self.doing.take().expect("asked before");
        match outcome {
            Outcome::Committed { results } => {
                let facts = self.script.committed(&results);
                self.common.answered.borrow_mut().add(facts);
            }
            Outcome::Aborted(error) => {
                assert!(self.script.may_fail(error.state.as_str()), "a write fails: {error}");
            }
        }
        if self.common.measures(asked_at) {
            self.common.seen.borrow_mut().write_latencies_ns.push(now.since(asked_at));
        }
    }
}

impl<P: Process<Request = Request, Reply = Reply>> Client<P> for Session {
    fn step(&mut self, now: Time, event: ClientEvent<P>, out: &mut ClientEffects<P>) {
        match event {
            ClientEvent::Start => out.wake_at(now + self.rng.below(1_000_000), 0),
            ClientEvent::Wake(_) => self.begin(now, out),
            ClientEvent::Reply { reply: Reply::Rows(rows), .. } => {
                let rows = rows.unwrap_or_else(|e| panic!("a read is refused: {e}"));
                self.read(now, rows.reads, out);
            }
            ClientEvent::Reply { reply: Reply::Submitted(answer), .. } => {
                let answer = answer.unwrap_or_else(|e| panic!("a write is refused: {e}"));
                self.written(now, answer.outcome);
                self.begin(now, out);
            }
            _ => panic!("an answer to another question"),
        }
    }
    fn is_done(&self) -> bool {
        self.doing.is_none()
    }
}
