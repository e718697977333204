//! Connections in closed loops, and what they saw.

use crate::populate::submission;
use base::cut::Consistency;
use base::expr::Expr;
use base::key::KeyRange;
use base::process::Process;
use base::rng::Rng;
use base::schema::{Catalog, Location};
use base::time::MS;
use base::topology::Topology;
use base::txn::procedure::Procedures;
use base::txn::{
    AccessMode, AccessSet, Granule, Outcome, ReadGranule, RowRead, Statement, TxnProgram, Validated,
    ValidatedWrite, WriteKind,
};
use base::{Datum, Key, NodeId, PartitionId, Rank, Time, Token};
use node::request::{PinId, ReadRows, Reply, Request, Submitted};
use sim::world::client::{Client, ClientEffects, ClientEvent};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use workload::tpcc::{self, Inputs};
use workload::ycsb::{Op, Ops, USERTABLE};

/// After an error a connection waits this long.
const PAUSE_NS: u64 = 10 * MS;

/// What one connection asks for.
pub enum Asks {
    Tpcc(Box<Inputs>),
    Ycsb(Box<Ops>),
}

/// One answer of the measured window.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    pub is_read: bool,
    /// It read, waited, and only then asked to commit.
    pub is_long: bool,
    pub answered_at: Time,
    pub latency_ns: u64,
}

#[derive(Debug, Default)]
pub struct Seen {
    pub done: Vec<Done>,
    /// Transactions that were answered with 40001, or refused.
    pub failed: u64,
    /// The last error, for whoever wonders.
    pub error: Option<String>,
    /// Sums of phases of committed writes, in ns.
    pub phases: BTreeMap<&'static str, u64>,
}

pub struct Shared {
    pub catalog: Arc<Catalog>,
    pub topology: Arc<Topology>,
    pub procedures: Arc<Procedures>,
    pub begin: Time,
    pub until: Time,
    pub seen: RefCell<Seen>,
}

/// Of every `every`-th update the row is read first, and updated so much later.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Long {
    pub every: u64,
    pub lasts_ns: u64,
}

/// A long transaction on its way: pinned, read, waiting, asking.
struct Slow {
    pin: Option<PinId>,
    at: Rank,
    key: i64,
    field: usize,
    value: String,
    write: Option<ValidatedWrite>,
}

pub struct Connection {
    pub shared: Rc<Shared>,
    pub gateway: NodeId,
    pub asks: Asks,
    pub long: Option<Long>,
    pub rng: Rng,
    token: Token,
    updates: u64,
    doing: Option<(bool, Time)>,
    slow: Option<Slow>,
}

impl Connection {
    pub fn new(
        shared: &Rc<Shared>,
        gateway: NodeId,
        asks: Asks,
        long: Option<Long>,
        mut rng: Rng,
    ) -> Connection {
        let updates = long.map_or(0, |long| rng.below(long.every));
        let (token, doing, slow) = (Token::default(), None, None);
        Connection { shared: shared.clone(), gateway, asks, long, rng, token, updates, doing, slow }
    }

    fn next<P: Process<Request = Request>>(&mut self, now: Time, out: &mut ClientEffects<P>) {
        if now >= self.shared.until {
            return;
        }
        let shared = self.shared.clone();
        let (catalog, topology) = (&*shared.catalog, &*shared.topology);
        let (is_read, request) = match &mut self.asks {
            Asks::Tpcc(inputs) => {
                let (name, args) = inputs.next_input().call((now.0 / 1000) as i64);
                let procedure = shared.procedures.get(name).expect("a registered procedure");
                let access = procedure.declare(&args, catalog, topology);
                let access = access.unwrap_or_else(|e| panic!("{name} cannot be declared: {e}"));
                let program = TxnProgram::Procedure { name: name.into(), args };
                (false, self.submit(program, access))
            }
            Asks::Ycsb(ops) => match ops.next_op() {
                Op::Read { key } => (true, self.read(key, None)),
                Op::Update { key, field, value } => {
                    self.updates += 1;
                    if self.long.is_some_and(|long| self.updates.is_multiple_of(long.every)) {
                        let (pin, at, write) = (None, Rank::ZERO, None);
                        self.slow = Some(Slow { pin, at, key, field, value, write });
                        (false, Request::Pin { consistency: Consistency::Session, token: self.token.clone() })
                    } else {
                        let (program, access) = self.update(key, field, value);
                        (false, self.submit(program, access))
                    }
                }
                other => panic!("{} is in none of these mixes", other.name()),
            },
        };
        out.ask(self.gateway, request);
        self.doing = Some((is_read, now));
    }

    fn submit(&self, program: TxnProgram, access: AccessSet) -> Request {
        let submission = submission(program, access);
        Request::Submit(base::txn::Submission { token: self.token.clone(), ..submission })
    }
    fn partition(&self, key: i64) -> PartitionId {
        let table = self.shared.catalog.require(USERTABLE.name).expect("a table that was made");
        match table.locate(&Datum::Int(key), &self.shared.topology) {
            Location::One(partition) => partition,
            Location::Everywhere => unreachable!("its rows have homes"),
        }
    }
    fn read(&self, key: i64, at: Option<Rank>) -> Request {
        let table = self.shared.catalog.require(USERTABLE.name).expect("a table that was made").id;
        let range = KeyRange::point(Key::of(&[Datum::Int(key)]));
        let partition = self.partition(key);
        let read =
            RowRead { partition, table, index: None, range, filter: None, limit: None, descending: false };
        let (consistency, token) = (Consistency::Session, self.token.clone());
        Request::ReadRows(ReadRows { at, consistency, token, reads: vec![read] })
    }
    fn update(&self, key: i64, field: usize, value: String) -> (TxnProgram, AccessSet) {
        let table = self.shared.catalog.require(USERTABLE.name).expect("a table that was made");
        let key_of = Key::of(&[Datum::Int(key)]);
        let update = Statement::Update {
            table: table.id,
            schema_version: table.version,
            target: KeyRange::point(key_of.clone()),
            filter: None,
            set: vec![(field + 1, Expr::constant(Datum::from(value)))],
            returning: None,
        };
        let mut access = AccessSet::default();
        access.add(self.partition(key), Granule::Key(table.id, key_of), AccessMode::Write);
        (TxnProgram::Statements(vec![update]), access)
    }

    /// The next step of a long transaction.
    fn go_on<P: Process<Request = Request>>(
        &mut self,
        now: Time,
        reply: Option<Reply>,
        out: &mut ClientEffects<P>,
    ) {
        let mut slow = self.slow.take().expect("a long transaction is under way");
        let table = self.shared.catalog.require(USERTABLE.name).expect("a table that was made");
        let (table, schema_version) = (table.id, table.version);
        let key = Key::of(&[Datum::Int(slow.key)]);
        match reply {
            Some(Reply::Pinned(pinned)) => {
                let (pin, at) = pinned.unwrap_or_else(|e| panic!("a pin is refused: {e}"));
                (slow.pin, slow.at) = (Some(pin), at);
                out.ask(self.gateway, self.read(slow.key, Some(at)));
            }
            Some(Reply::Rows(rows)) => {
                let rows = rows.unwrap_or_else(|e| panic!("a read is refused: {e}"));
                let (_, row) = rows.reads[0].first().expect("the row is there");
                let mut values: Vec<Datum> = (0..USERTABLE.columns.len()).map(|n| row.get(n)).collect();
                values[slow.field + 1] = Datum::from(std::mem::take(&mut slow.value));
                let (partition, kind) = (self.partition(slow.key), WriteKind::Put);
                let row = Some(base::Row::of(&values));
                slow.write = Some(ValidatedWrite { partition, table, schema_version, key, kind, row });
                out.wake_at(now + self.long.expect("there are long ones").lasts_ns, 1);
            }
            // The wait is over.
            None => {
                let write = slow.write.take().expect("it was read");
                let (partition, at) = (write.partition, slow.at);
                let range = KeyRange::point(key.clone());
                let read = ReadGranule { partition, table, range, columns: None, at };
                let mut access = AccessSet::default();
                access.add(partition, Granule::Key(table, key), AccessMode::Write);
                let program = TxnProgram::Validated(Validated { reads: vec![read], writes: vec![write] });
                out.ask(self.gateway, self.submit(program, access));
            }
            Some(_) => panic!("an answer to another question"),
        }
        self.slow = Some(slow);
    }

    fn submitted(&mut self, now: Time, answer: Result<Submitted, base::SqlError>) -> bool {
        let (_, asked_at) = self.doing.expect("asked before");
        let shared = self.shared.clone();
        let is_measured = shared.begin <= now && now < shared.until;
        let mut seen = shared.seen.borrow_mut();
        let error = match answer {
            Err(error) => error,
            Ok(answer) => {
                self.token = answer.token;
                match answer.outcome {
                    Outcome::Committed { .. } => {
                        for (phase, ns) in answer.phases.iter().filter(|_| is_measured) {
                            *seen.phases.entry(*phase).or_default() += ns;
                        }
                        self.done(now, &mut seen, asked_at);
                        return true;
                    }
                    Outcome::Aborted(error) => error,
                }
            }
        };
        // One order in a hundred names an unknown item.
        if error.state.as_str() == tpcc::UNKNOWN_ITEM {
            self.done(now, &mut seen, asked_at);
            return true;
        }
        seen.failed += u64::from(is_measured);
        seen.error = Some(error.to_string());
        false
    }
    fn done(&self, now: Time, seen: &mut Seen, asked_at: Time) {
        let (is_read, _) = self.doing.expect("asked before");
        if self.shared.begin <= now && now < self.shared.until {
            let latency_ns = now.since(asked_at);
            seen.done.push(Done { is_read, is_long: self.slow.is_some(), answered_at: now, latency_ns });
        }
    }
}

impl<P: Process<Request = Request, Reply = Reply>> Client<P> for Connection {
    fn step(&mut self, now: Time, event: ClientEvent<P>, out: &mut ClientEffects<P>) {
        match event {
            ClientEvent::Start => return out.wake_at(now + self.rng.below(50 * MS), 0),
            ClientEvent::Wake(0) => {}
            ClientEvent::Wake(_) => return self.go_on(now, None, out),
            ClientEvent::Reply { reply: Reply::Submitted(answer), .. } => {
                let is_over = self.submitted(now, answer);
                self.doing = None;
                if let Some(pin) = self.slow.take().and_then(|slow| slow.pin) {
                    out.ask(self.gateway, Request::Unpin(pin));
                }
                if !is_over {
                    return out.wake_at(now + PAUSE_NS, 0);
                }
            }
            ClientEvent::Reply { reply: Reply::Unpinned, .. } => return,
            ClientEvent::Reply { reply, .. } if self.slow.is_some() => {
                return self.go_on(now, Some(reply), out);
            }
            ClientEvent::Reply { reply: Reply::Rows(rows), .. } => {
                let (_, asked_at) = self.doing.expect("asked before");
                let rows = rows.unwrap_or_else(|e| panic!("a read is refused: {e}"));
                assert_eq!(rows.reads[0].len(), 1, "every key is there");
                let shared = self.shared.clone();
                self.done(now, &mut shared.seen.borrow_mut(), asked_at);
                self.doing = None;
            }
            // Its node is lost, and it with it.
            ClientEvent::Lost { .. } => {
                (self.doing, self.slow) = (None, None);
                return;
            }
            _ => panic!("an answer to another question"),
        }
        self.next(now, out);
    }
    fn is_done(&self) -> bool {
        self.doing.is_none()
    }
}
