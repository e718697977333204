//! A client session: one request after another, at one region's node or another's, its token always with
//! it. What it sees goes into the [`Book`](super::book::Book).
//!
//! KEEPS: an operation is written down with the instants at which the client began and learned the end;
//! a one-shot transaction whose node crashed is repeated elsewhere under the same name, any other is unknown;
//! what an answer says about itself is consistent (a data model of each kind of request, in [`seeing`]).

mod choosing;
mod seeing;

use super::book::{Entry, SharedBook};
use super::layout::{Content, Item, Kind, Layout, Target};
use crate::world::client::{Client, ClientEffects, ClientEvent};
use base::cut::Consistency;
use base::process::Process;
use base::rng::Rng;
use base::time::MS;
use base::txn::{ClientRequest, Isolation, Outcome, Submission};
use base::{NodeId, RequestId, SqlError, SqlState, Time, Token};
use node::request::{PinId, ReadRows, Reply, Request, Submitted};
use seeing::{columns_of, lose_plan, seen_rows};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What sessions of one case do.
#[derive(Clone, Debug)]
pub struct Habits {
    pub consistency: Consistency,
    pub operations: u32,
    pub think_ns_max: u64,
    /// Probability of moving to another node between two operations.
    pub roam: f64,
    /// Probability of taking up, or leaving, a token.
    pub share: f64,
    /// Probability that a query goes over whatever shelves there are, not only those that its node keeps.
    pub anywhere: f64,
    /// Probability that a row or a shelf is of the first partition, and not any.
    pub hot: f64,
    /// Nodes may lose their leases or their memory, and then refuse cuts that they cannot serve any more, or have
    /// missed how a transaction ended.
    pub may_be_too_late: bool,
    /// A participant may be out of reach for so long that a transaction ends without effect each time that it is tried.
    pub may_be_undeliverable: bool,
    /// Nodes take themselves out, and refuse whoever asks.
    pub may_be_refused: bool,
    /// How often, relative to each other: appends, procedures, statements that read and write,
    /// interactive transactions, queries, strong row reads, comparisons of rows with columns.
    pub weights: [u64; 7],
    /// Rows are read at nodes that keep columns, and replicas of rows with them.
    pub at_replicas: bool,
    /// Blocks are submitted as SQL does at this level.
    pub blocks: Isolation,
    /// Whether one-shot transactions are repeated, at another gateway, when theirs is lost.
    pub repeats: bool,
}

pub struct Session {
    id: u32,
    layout: Arc<Layout>,
    book: SharedBook,
    habits: Habits,
    rng: Rng,
    /// Nodes that accept clients.
    gateways: Vec<NodeId>,
    at: NodeId,
    /// Whose columns its present query reads.
    analyst: NodeId,
    left: u32,
    token: Token,
    /// Operations whose tokens this session's token contains.
    sources: Vec<Entry>,
    doing: Doing,
    /// Numbers its requests.
    asked: u64,
}

/// A request that was refused is repeated so much later; and what its wake is called.
const REPEAT_AFTER_NS: u64 = 5 * MS;
const REPEAT: u64 = 1;

enum Doing {
    Nothing,
    /// A one-shot transaction is on its way.
    OneShot {
        entry: Entry,
        plan: Plan,
        submission: Submission,
    },
    /// An interactive transaction, or a comparison, waits for its cut.
    Pinning {
        entry: Entry,
        then: Pinned,
    },
    /// Its reads are on their way.
    Reading {
        entry: Entry,
        pin: PinId,
        targets: Vec<Target>,
        then: Pinned,
    },
    /// Its writes are.
    Committing {
        entry: Entry,
        pin: PinId,
        writes: Vec<(Item, Option<u64>)>,
    },
    /// A comparison has its rows and waits for its columns.
    Comparing {
        entry: Entry,
        pin: PinId,
        targets: Vec<Target>,
        rows: BTreeMap<Target, Seen>,
    },
    Unpinning,
    Querying {
        entry: Entry,
        targets: Vec<Target>,
    },
    StrongRead {
        entry: Entry,
        targets: Vec<Target>,
    },
}

#[derive(Clone, Copy)]
enum Pinned {
    /// Whether it is the second statement, at READ COMMITTED.
    Write(bool),
    ReadOnly,
    Compare,
}

type Seen = Vec<(Item, Content)>;

/// A one-shot transaction as its client knows it: per statement what it does, or all appends at once.
enum Plan {
    Statements { parts: Vec<Part>, fails: bool },
    Procedure { targets: Vec<Target>, value: u64 },
}
enum Part {
    Append(Item, u64),
    Read(Target),
    /// Of a row that is there: aborts the transaction.
    Doomed,
}

impl Session {
    /// `loaded`: what holds the loaded rows. Strong levels see them without it; a session of level `session` has to have
    /// been given it. `stale` goes by no token: before the first operation its rows have to be complete everywhere.
    pub fn new(
        id: u32,
        layout: Arc<Layout>,
        book: SharedBook,
        habits: Habits,
        mut rng: Rng,
        gateways: Vec<NodeId>,
        loaded: &Token,
    ) -> Session {
        let at = *rng.pick(&gateways);
        let token = match habits.consistency {
            Consistency::Rss | Consistency::Regular => Token::default(),
            Consistency::Session | Consistency::Stale => loaded.clone(),
        };
        let left = habits.operations;
        let (doing, analyst, sources) = (Doing::Nothing, at, Vec::new());
        Session {
            id,
            layout,
            book,
            habits,
            rng,
            gateways,
            at,
            analyst,
            left,
            token,
            sources,
            doing,
            asked: 0,
        }
    }

    fn begin(&mut self, now: Time, ordered: bool) -> Entry {
        self.book.open().begin(self.id, now, ordered, &self.sources)
    }

    /// Starts the next operation.
    fn next<P>(&mut self, now: Time, out: &mut ClientEffects<P>)
    where
        P: Process<Request = Request, Reply = Reply>,
    {
        if self.rng.chance(self.habits.roam) {
            self.at = *self.rng.pick(&self.gateways);
        }
        if self.shares() {
            let taken = self.book.open().take();
            if let Some((token, entry)) = taken {
                self.token.join(&token);
                self.sources.push(entry);
            }
        }
        let mut draw = self.rng.below(self.habits.weights.iter().sum());
        let mut kind = 0;
        while self.habits.weights[kind] <= draw {
            draw -= self.habits.weights[kind];
            kind += 1;
        }
        match kind {
            0..3 => {
                let entry = self.begin(now, true);
                let (plan, mut submission) =
                    if kind == 1 { self.procedure() } else { self.statements(kind == 2) };
                if self.habits.repeats {
                    self.asked += 1;
                    let (client, number) = (u64::from(self.id), self.asked);
                    submission.request = Some(ClientRequest { client, number, issued_at: now });
                }
                self.book.open().submitted(entry, plan.writes());
                self.doing = Doing::OneShot { entry, plan, submission: submission.clone() };
                out.ask(self.at, Request::Submit(submission));
            }
            3 | 6 => {
                let then = match (kind, self.rng.below(4)) {
                    (6, _) => Pinned::Compare,
                    (_, 0) => Pinned::ReadOnly,
                    _ => Pinned::Write(false),
                };
                let entry = self.begin(now, matches!(then, Pinned::Write(_)));
                self.doing = Doing::Pinning { entry, then };
                let consistency = self.habits.consistency;
                out.ask(self.at, Request::Pin { consistency, token: self.token.clone() });
            }
            4 => {
                let entry = self.begin(now, false);
                let targets = self.shelves();
                let open = self.open(None, self.habits.consistency, &targets);
                out.ask(self.analyst, Request::OpenSnapshot(open));
                self.doing = Doing::Querying { entry, targets };
            }
            _ => {
                let entry = self.begin(now, false);
                let targets = self.rows_and_shelves();
                let reads = targets.iter().map(|t| self.layout.row_read(t)).collect();
                let consistency = self.habits.consistency;
                let read = ReadRows { at: None, consistency, token: self.token.clone(), reads };
                out.ask(self.rows_at(), Request::ReadRows(read));
                self.doing = Doing::StrongRead { entry, targets };
            }
        }
    }

    fn learn<P>(&mut self, now: Time, reply: Reply, out: &mut ClientEffects<P>)
    where
        P: Process<Request = Request, Reply = Reply>,
    {
        let reply = match self.refused(now, reply, out) {
            Some(reply) => reply,
            None => return,
        };
        match (std::mem::replace(&mut self.doing, Doing::Nothing), reply) {
            (Doing::OneShot { entry, plan, .. }, Reply::Submitted(answer)) => {
                let answer = answer.unwrap_or_else(|e| panic!("a one-shot transaction is refused: {e}"));
                self.one_shot_ended(now, entry, &plan, answer);
                self.finish(now, out);
            }
            (Doing::Pinning { entry, then }, Reply::Pinned(pinned)) => {
                let (pin, at) = pinned.unwrap_or_else(|e| panic!("a pin is refused: {e}"));
                let targets = match then {
                    Pinned::Compare => self.shelves(),
                    _ => self.rows_and_shelves(),
                };
                let reads = targets.iter().map(|t| self.layout.row_read(t)).collect();
                let (consistency, token) = (self.habits.consistency, self.token.clone());
                out.ask(self.at, Request::ReadRows(ReadRows { at: Some(at), consistency, token, reads }));
                self.doing = Doing::Reading { entry, pin, targets, then };
            }
            (Doing::Reading { entry, pin, .. }, Reply::Rows(Err(error))) if self.is_too_late(&error) => {
                self.give_up(now, entry);
                out.ask(self.at, Request::Unpin(pin));
                self.doing = Doing::Unpinning;
            }
            (Doing::Comparing { entry, pin, .. }, Reply::Snapshot(Err(error)))
                if self.is_too_late(&error) =>
            {
                self.give_up(now, entry);
                out.ask(self.at, Request::Unpin(pin));
                self.doing = Doing::Unpinning;
            }
            (Doing::Querying { entry, .. }, Reply::Snapshot(Err(error))) if self.is_too_late(&error) => {
                self.give_up(now, entry);
                self.finish(now, out);
            }
            (Doing::StrongRead { entry, .. }, Reply::Rows(Err(error))) if self.is_too_late(&error) => {
                self.give_up(now, entry);
                self.finish(now, out);
            }
            (Doing::Reading { entry, pin, targets, then }, Reply::Rows(rows)) => {
                let rows = rows.unwrap_or_else(|e| panic!("rows at a pinned cut are refused: {e}"));
                self.pinned_rows(now, entry, pin, targets, then, rows, out);
            }
            (Doing::Committing { entry, pin, writes }, Reply::Submitted(answer)) => {
                let answer = answer.unwrap_or_else(|e| panic!("a validated transaction is refused: {e}"));
                self.committed(now, entry, &writes, answer);
                out.ask(self.at, Request::Unpin(pin));
                self.doing = Doing::Unpinning;
            }
            (Doing::Comparing { entry, pin, targets, rows }, Reply::Snapshot(snapshot)) => {
                let snapshot =
                    snapshot.unwrap_or_else(|e| panic!("columns at a pinned cut are refused: {e}"));
                for target in &targets {
                    let columns = columns_of(&snapshot, target);
                    assert_eq!(
                        columns, rows[target],
                        "columns and rows differ at one cut ({:?})",
                        snapshot.cut
                    );
                }
                self.book.open().count("columns compared with rows");
                self.seen(now, entry, rows.into_iter().collect(), &snapshot.token);
                out.ask(self.at, Request::Unpin(pin));
                self.doing = Doing::Unpinning;
            }
            (Doing::Unpinning, Reply::Unpinned) => self.finish(now, out),
            (Doing::Querying { entry, targets }, Reply::Snapshot(snapshot)) => {
                let snapshot = snapshot.unwrap_or_else(|e| panic!("a query is refused: {e}"));
                let seen: Vec<_> = targets.iter().map(|t| (*t, columns_of(&snapshot, t))).collect();
                for (target, rows) in seen.iter().filter(|(target, _)| target.kind == Kind::List) {
                    assert_eq!(
                        rows.len() as i64,
                        self.layout.keys,
                        "a loaded list is missing from {target:?}"
                    );
                }
                self.book.open().count("queries");
                if !snapshot.sources.is_empty() {
                    self.book.open().count("queries over several readers");
                }
                self.seen(now, entry, seen, &snapshot.token);
                self.finish(now, out);
            }
            (Doing::StrongRead { entry, targets }, Reply::Rows(rows)) => {
                let rows = rows.unwrap_or_else(|e| panic!("a strong read is refused: {e}"));
                let seen = seen_rows(&targets, &rows);
                self.book.open().count("strong reads");
                self.seen(now, entry, seen, &rows.token);
                self.finish(now, out);
            }
            _ => panic!("an answer to another question"),
        }
    }

    /// A node that has fenced itself, or needs a region that is silent, refuses: goes to another one. Hands on any
    /// other reply.
    fn refused<P>(&mut self, now: Time, reply: Reply, out: &mut ClientEffects<P>) -> Option<Reply>
    where
        P: Process<Request = Request, Reply = Reply>,
    {
        let reply = match reply {
            Reply::Submitted(Ok(Submitted { outcome: Outcome::Aborted(error), .. }))
                if is_of_silence(&error) =>
            {
                self.book.open().count("refused because of a silent region");
                Reply::Submitted(Err(error))
            }
            reply => reply,
        };
        let error = match &reply {
            Reply::Submitted(Err(error)) | Reply::Rows(Err(error)) => error,
            Reply::Snapshot(Err(error)) | Reply::Pinned(Err(error)) => error,
            _ => return Some(reply),
        };
        let unknown = error.state == SqlState::TRANSACTION_RESOLUTION_UNKNOWN;
        if !self.habits.may_be_refused || !unknown && error.state != SqlState::CANNOT_CONNECT_NOW {
            return Some(reply);
        }
        self.book.open().count("refused by a node that is out");
        if let Doing::OneShot { submission, .. } = &self.doing
            && submission.request.is_some()
        {
            // It may have taken effect where it was sent first. All may refuse for a while, so it takes its time.
            self.at = *self.rng.pick(&self.gateways);
            out.wake_at(now + REPEAT_AFTER_NS, REPEAT);
            return None;
        }
        let pin = match &self.doing {
            Doing::Reading { pin, .. } | Doing::Committing { pin, .. } | Doing::Comparing { pin, .. } => {
                Some(*pin)
            }
            _ => None,
        };
        let pinned_at = self.at;
        self.at = *self.rng.pick(&self.gateways);
        if unknown {
            self.lose();
        } else {
            self.refuse(now);
        }
        match pin {
            Some(pin) => {
                out.ask(pinned_at, Request::Unpin(pin));
                self.doing = Doing::Unpinning;
            }
            None => self.finish(now, out),
        }
        None
    }

    /// Nothing came of the operation.
    fn refuse(&mut self, now: Time) {
        match std::mem::replace(&mut self.doing, Doing::Nothing) {
            Doing::Nothing | Doing::Unpinning => {}
            Doing::OneShot { entry, .. }
            | Doing::Committing { entry, .. }
            | Doing::Pinning { entry, .. }
            | Doing::Reading { entry, .. }
            | Doing::Comparing { entry, .. }
            | Doing::Querying { entry, .. }
            | Doing::StrongRead { entry, .. } => self.book.open().abort(entry, now),
        }
    }

    fn is_too_late(&self, error: &SqlError) -> bool {
        let too_old = self.habits.may_be_too_late && error.state == SqlState::SNAPSHOT_TOO_OLD
            || error.state == SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE; // Batches are kept for a while.
        too_old || self.habits.anywhere > 0.0 && error.state == SqlState::CONNECTION_FAILURE // No reader in reach.
    }
    /// A read that is refused shows nothing.
    fn give_up(&mut self, now: Time, entry: Entry) {
        let mut book = self.book.open();
        book.count("reads refused");
        book.abort(entry, now);
    }

    fn finish<P>(&mut self, now: Time, out: &mut ClientEffects<P>)
    where
        P: Process<Request = Request, Reply = Reply>,
    {
        self.doing = Doing::Nothing;
        self.left -= 1;
        if self.left > 0 {
            out.wake_at(now + self.rng.below(self.habits.think_ns_max + 1), 0);
        }
    }

    /// The node crashed: nobody knows what became of the operation.
    fn lose(&mut self) {
        let mut book = self.book.open();
        match std::mem::replace(&mut self.doing, Doing::Nothing) {
            Doing::Nothing | Doing::Unpinning => {}
            Doing::OneShot { entry, plan, .. } => lose_plan(&mut book, entry, &plan),
            Doing::Committing { entry, writes, .. } => {
                writes.iter().for_each(|(item, value)| book.write(entry, item, *value));
                book.unknown(entry);
            }
            Doing::Pinning { entry, .. }
            | Doing::Reading { entry, .. }
            | Doing::Comparing { entry, .. }
            | Doing::Querying { entry, .. }
            | Doing::StrongRead { entry, .. } => book.unknown(entry),
        }
    }
}

/// What a transaction ends with that was not begun, or cannot end, because a region is silent.
pub(super) fn is_of_silence(error: &SqlError) -> bool {
    let in_flight =
        error.state == SqlState::TRANSACTION_RESOLUTION_UNKNOWN && error.message.contains("fell silent");
    in_flight || error.state == SqlState::CANNOT_CONNECT_NOW
}

impl<P: Process<Request = Request, Reply = Reply>> Client<P> for Session {
    fn step(&mut self, now: Time, event: ClientEvent<P>, out: &mut ClientEffects<P>) {
        match event {
            ClientEvent::Start => out.wake_at(now + self.rng.below(self.habits.think_ns_max + 1), 0),
            ClientEvent::Wake(REPEAT) => {
                let Doing::OneShot { submission, .. } = &self.doing else {
                    unreachable!("it waits to repeat it")
                };
                out.ask(self.at, Request::Submit(submission.clone()));
            }
            ClientEvent::Wake(_) => self.next(now, out),
            ClientEvent::Reply { reply, .. } => self.learn(now, reply, out),
            ClientEvent::Lost { id: RequestId(_) } => {
                self.at = *self.rng.pick(&self.gateways);
                if let Doing::OneShot { submission, .. } = &self.doing
                    && submission.request.is_some()
                {
                    self.book.open().count("requests repeated");
                    out.ask(self.at, Request::Submit(submission.clone()));
                    return;
                }
                self.lose();
                self.finish(now, out);
            }
        }
    }
    fn is_done(&self) -> bool {
        self.left == 0
    }
}
