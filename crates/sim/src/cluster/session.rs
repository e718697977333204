//! A client session: one request after another, at one region's node or another's, its token always with
//! it. What it sees goes into the [`Book`].
//!
//! KEEPS: an operation is written down with the instants at which the client began and learned the end;
//! a one-shot transaction whose node crashed is repeated elsewhere under the same name, any other is unknown;
//! what an answer says about itself is consistent (a data
//! model of each kind of request, below).

use super::book::{Book, Entry};
use super::layout::{Content, Item, Kind, Layout, Target, read_row};
use super::procedure::AppendAll;
use crate::world::client::{Client, ClientEffects, ClientEvent};
use base::cut::Consistency;
use base::process::Process;
use base::rng::Rng;
use base::txn::{ClientRequest, Outcome, StatementResult, Submission, WriteKind};
use base::{NodeId, PartitionId, Rank, RequestId, Row, SqlError, SqlState, Time, Token};
use node::request::{OpenSnapshot, PinId, ReadRows, Reply, Request, Rows, Snapshot, Submitted};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

/// What sessions of one case do.
#[derive(Clone, Debug)]
pub struct Habits {
    /// Level of their queries.
    pub consistency: Consistency,
    pub operations: u32,
    pub think_ns_max: u64,
    /// Probability of moving to another node between two operations.
    pub roam: f64,
    /// Probability of taking up, or leaving, a token.
    pub share: f64,
    /// Probability that a query goes over whatever shelves there are, not only those that its node keeps.
    pub anywhere: f64,
    /// Nodes may lose their leases or their memory, and then refuse cuts that they cannot serve any more, or have
    /// missed how a transaction ended.
    pub may_be_too_late: bool,
    /// Nodes take themselves out, and refuse whoever asks.
    pub may_be_refused: bool,
    /// How often, relative to each other: appends, procedures, statements that read and write,
    /// interactive transactions, queries, strong row reads, comparisons of rows with columns.
    pub weights: [u64; 7],
    /// Whether one-shot transactions are repeated, at another gateway, when theirs is lost.
    pub repeats: bool,
}

pub struct Session {
    id: u32,
    layout: Arc<Layout>,
    book: Rc<RefCell<Book>>,
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

/// Waiting has a name.
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
    Write,
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
    pub fn new(
        id: u32,
        layout: Arc<Layout>,
        book: Rc<RefCell<Book>>,
        habits: Habits,
        mut rng: Rng,
        gateways: Vec<NodeId>,
    ) -> Session {
        let at = *rng.pick(&gateways);
        let (left, token) = (habits.operations, Token::default());
        let sources = Vec::new();
        let (doing, analyst) = (Doing::Nothing, at);
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
        self.book.borrow_mut().begin(self.id, now, ordered, &self.sources)
    }

    /// Starts the next operation.
    fn next<P>(&mut self, now: Time, out: &mut ClientEffects<P>)
    where
        P: Process<Request = Request, Reply = Reply>,
    {
        if self.rng.chance(self.habits.roam) {
            self.at = *self.rng.pick(&self.gateways);
        }
        if self.rng.chance(self.habits.share) {
            let taken = self.book.borrow().take();
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
                self.doing = Doing::OneShot { entry, plan, submission: submission.clone() };
                out.ask(self.at, Request::Submit(submission));
            }
            3 | 6 => {
                let then = match (kind, self.rng.below(4)) {
                    (6, _) => Pinned::Compare,
                    (_, 0) => Pinned::ReadOnly,
                    _ => Pinned::Write,
                };
                let entry = self.begin(now, matches!(then, Pinned::Write));
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
                out.ask(self.at, Request::ReadRows(read));
                self.doing = Doing::StrongRead { entry, targets };
            }
        }
    }

    // ---- what to do -------------------------------------------------------------------------------

    fn item(&mut self, kind: Kind) -> Item {
        let &(shelf, _) = self.rng.pick(&self.layout.shelves);
        Item { kind, shelf, key: self.rng.below(self.layout.keys as u64) as i64 }
    }
    /// One to three different rows.
    fn items(&mut self, kind: Kind) -> BTreeSet<Item> {
        let count = self.rng.between(1, 3);
        (0..count).map(|_| self.item(kind)).collect()
    }
    fn statements(&mut self, reads_too: bool) -> (Plan, Submission) {
        let mut parts: Vec<Part> = self
            .items(Kind::List)
            .into_iter()
            .map(|i| Part::Append(i, self.book.borrow_mut().fresh()))
            .collect();
        if reads_too {
            if self.rng.chance(0.3) {
                parts.clear();
            }
            parts.extend(self.rows_and_shelves().into_iter().map(Part::Read));
        }
        // Now and then the last statement aborts the whole.
        let fails = !parts.is_empty() && self.rng.chance(0.05);
        if fails {
            parts.push(Part::Doomed);
        }
        self.rng.shuffle(&mut parts);
        let statements = parts.iter().map(|part| match part {
            Part::Append(item, value) => (item.shelf, self.layout.append(item, *value)),
            Part::Read(target) => (target.shelf, self.layout.select(target)),
            Part::Doomed => {
                let (shelf, _) = self.layout.shelves[0];
                let taken = Item { kind: Kind::List, shelf, key: 0 };
                (shelf, self.layout.insert(&taken, &Content::List(Vec::new())))
            }
        });
        let submission = self.layout.one_shot(statements.collect(), self.token.clone());
        (Plan::Statements { parts, fails }, submission)
    }
    fn procedure(&mut self) -> (Plan, Submission) {
        let targets: Vec<Target> = self.items(Kind::List).into_iter().map(Target::row).collect();
        let value = self.book.borrow_mut().fresh();
        let longest = if self.rng.chance(0.1) { 3 } else { usize::MAX >> 1 };
        let submission = AppendAll::call(&self.layout, &targets, value, longest, self.token.clone());
        (Plan::Procedure { targets, value }, submission)
    }
    /// One to three shelves of registers, with or without their lists: what a query reads.
    fn shelves(&mut self) -> Vec<Target> {
        self.choose_analyst();
        let anywhere = self.habits.anywhere > 0.0 && self.rng.chance(self.habits.anywhere);
        let shelves = self.layout.shelves.iter().map(|s| s.0);
        let kept: Vec<i64> = shelves.filter(|s| anywhere || self.is_kept(*s)).collect();
        let mut targets = BTreeSet::new();
        for _ in 0..self.rng.between(1, 3) {
            let shelf = *self.rng.pick(&kept);
            targets.insert(Target::shelf(*self.rng.pick(&[Kind::List, Kind::Register]), shelf));
        }
        targets.into_iter().collect()
    }
    fn rows_and_shelves(&mut self) -> Vec<Target> {
        let mut targets = BTreeSet::new();
        for _ in 0..self.rng.between(1, 3) {
            targets.insert(match self.rng.below(4) {
                0 => Target::shelf(Kind::Register, self.rng.pick(&self.layout.shelves).0),
                1 => Target::row(self.item(Kind::List)),
                _ => Target::row(self.item(Kind::Register)),
            });
        }
        targets.into_iter().collect()
    }
    /// A node of this region that keeps columns.
    fn choose_analyst(&mut self) {
        let topology = &self.layout.topology;
        let keeps = |n: &NodeId| !topology.nodes[n.0 as usize].subscribes.is_empty();
        let here = |n: &NodeId| topology.region_of(*n) == topology.region_of(self.at);
        let near: Vec<NodeId> = topology.node_ids().filter(|n| keeps(n) && here(n)).collect();
        self.analyst = match keeps(&self.at) && self.rng.chance(0.5) {
            true => self.at,
            false => *self.rng.pick(&near),
        };
    }
    /// Whether the columns at the chosen node have this shelf.
    fn is_kept(&self, shelf: i64) -> bool {
        let subscribes = &self.layout.topology.nodes[self.analyst.0 as usize].subscribes;
        subscribes.contains(&self.layout.partition_of(shelf))
    }
    fn open(&self, at: Option<Rank>, consistency: Consistency, targets: &[Target]) -> OpenSnapshot {
        let mut tables: BTreeMap<_, BTreeSet<PartitionId>> = BTreeMap::new();
        for target in targets {
            let table = super::layout::table_of(target.kind);
            tables.entry(table).or_default().insert(self.layout.partition_of(target.shelf));
        }
        OpenSnapshot { at, consistency, token: self.token.clone(), tables, wanted: BTreeMap::new() }
    }

    // ---- what came back ---------------------------------------------------------------------------

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
                self.book.borrow_mut().count("columns compared with rows");
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
                self.book.borrow_mut().count("queries");
                if !snapshot.sources.is_empty() {
                    self.book.borrow_mut().count("queries over several readers");
                }
                self.seen(now, entry, seen, &snapshot.token);
                self.finish(now, out);
            }
            (Doing::StrongRead { entry, targets }, Reply::Rows(rows)) => {
                let rows = rows.unwrap_or_else(|e| panic!("a strong read is refused: {e}"));
                let seen = seen_rows(&targets, &rows);
                self.book.borrow_mut().count("strong reads");
                self.seen(now, entry, seen, &rows.token);
                self.finish(now, out);
            }
            _ => panic!("an answer to another question"),
        }
    }

    /// A node that has taken itself out refuses: goes to another one. Hands on any other reply.
    fn refused<P>(&mut self, now: Time, reply: Reply, out: &mut ClientEffects<P>) -> Option<Reply>
    where
        P: Process<Request = Request, Reply = Reply>,
    {
        let error = match &reply {
            Reply::Submitted(Err(error)) | Reply::Rows(Err(error)) => error,
            Reply::Snapshot(Err(error)) | Reply::Pinned(Err(error)) => error,
            _ => return Some(reply),
        };
        let unknown = error.state == SqlState::TRANSACTION_RESOLUTION_UNKNOWN;
        if !self.habits.may_be_refused || !unknown && error.state != SqlState::CANNOT_CONNECT_NOW {
            return Some(reply);
        }
        self.book.borrow_mut().count("refused by a node that is out");
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
            | Doing::StrongRead { entry, .. } => self.book.borrow_mut().abort(entry, now),
        }
    }

    fn is_too_late(&self, error: &SqlError) -> bool {
        let too_old = self.habits.may_be_too_late && error.state == SqlState::SNAPSHOT_TOO_OLD;
        // Or the only reader of what another node does not keep was out of reach.
        too_old || self.habits.anywhere > 0.0 && error.state == SqlState::CONNECTION_FAILURE
    }
    /// A read that is refused shows nothing.
    fn give_up(&mut self, now: Time, entry: Entry) {
        let mut book = self.book.borrow_mut();
        book.count("reads refused");
        book.abort(entry, now);
    }

    /// A read-only operation ends.
    fn seen(&mut self, now: Time, entry: Entry, seen: Vec<(Target, Seen)>, token: &Token) {
        let mut book = self.book.borrow_mut();
        seen.iter().for_each(|(target, rows)| book.read(entry, target, rows));
        book.commit(entry, now);
        self.token.join(token);
        self.sources = vec![entry];
    }

    /// Whether the gateway was cut off beyond its lease and has missed how its transaction ended.
    fn is_unknown(&self, outcome: &Outcome) -> bool {
        let unknown = SqlState::TRANSACTION_RESOLUTION_UNKNOWN;
        self.habits.may_be_too_late && matches!(outcome, Outcome::Aborted(error) if error.state == unknown)
    }

    fn one_shot_ended(&mut self, now: Time, entry: Entry, plan: &Plan, answer: Submitted) {
        let mut book = self.book.borrow_mut();
        if self.is_unknown(&answer.outcome) {
            base::sometimes!("a client is told that the end of its transaction is not known");
            return lose_plan(&mut book, entry, plan);
        }
        match (&answer.outcome, plan) {
            (Outcome::Committed { results }, Plan::Statements { parts, fails }) => {
                assert!(!fails, "a duplicate key was accepted");
                assert_eq!(results.len(), parts.len(), "one result for each statement");
                for (part, result) in parts.iter().zip(results) {
                    match part {
                        Part::Append(item, value) => {
                            let mut rows = read_rows(Kind::List, &result.rows);
                            assert_eq!((rows.len(), result.affected), (1, 1), "an append has one row");
                            let (found, Content::List(mut items)) = rows.remove(0) else {
                                panic!("a list is a list")
                            };
                            assert_eq!((found, items.pop()), (*item, Some(*value)), "returned as appended");
                            book.read(entry, &Target::row(*item), &[(*item, Content::List(items))]);
                            book.write(entry, item, Some(*value));
                        }
                        Part::Read(target) => book.read(entry, target, &read_rows(target.kind, &result.rows)),
                        Part::Doomed => unreachable!("checked above"),
                    }
                }
                book.count("one-shot commits");
            }
            (Outcome::Committed { results }, Plan::Procedure { targets, value }) => {
                let told = agreed(results);
                let mut by_partition = targets.clone();
                // Values arrive by participant, and in the call's order inside one.
                by_partition.sort_by_key(|t| self.layout.partition_of(t.shelf));
                assert_eq!(told.len(), targets.len(), "a participant was not told of every list");
                for (target, content) in by_partition.iter().zip(told) {
                    let item = target.item().expect("appends go to rows");
                    book.read(entry, target, &[(item, content)]);
                    book.write(entry, &item, Some(*value));
                }
                book.count("procedures");
            }
            (Outcome::Aborted(error), plan) => {
                match plan {
                    Plan::Statements { parts, fails } => {
                        assert!(*fails, "a one-shot transaction aborts: {error}");
                        assert_eq!(error.state, SqlState::UNIQUE_VIOLATION);
                        for part in parts {
                            if let Part::Append(item, value) = part {
                                book.write(entry, item, Some(*value));
                            }
                        }
                    }
                    Plan::Procedure { targets, value } => {
                        assert_eq!(error.state, SqlState::CHECK_VIOLATION, "{error}");
                        for target in targets {
                            book.write(entry, &target.item().expect("a row"), Some(*value));
                        }
                    }
                }
                book.count("one-shot aborts");
                book.abort(entry, now);
                drop(book);
                self.token.join(&answer.token);
                return;
            }
        }
        book.commit(entry, now);
        drop(book);
        self.answered(entry, &answer.token);
    }

    #[allow(clippy::too_many_arguments)]
    fn pinned_rows<P>(
        &mut self,
        now: Time,
        entry: Entry,
        pin: PinId,
        targets: Vec<Target>,
        then: Pinned,
        rows: Rows,
        out: &mut ClientEffects<P>,
    ) where
        P: Process<Request = Request, Reply = Reply>,
    {
        let seen = seen_rows(&targets, &rows);
        match then {
            Pinned::Compare => {
                let open = self.open(Some(rows.at), Consistency::Rss, &targets);
                out.ask(self.analyst, Request::OpenSnapshot(open));
                self.doing = Doing::Comparing { entry, pin, targets, rows: seen.into_iter().collect() };
            }
            Pinned::ReadOnly => {
                self.book.borrow_mut().count("read-only transactions");
                self.seen(now, entry, seen, &rows.token);
                out.ask(self.at, Request::Unpin(pin));
                self.doing = Doing::Unpinning;
            }
            Pinned::Write => {
                let writes = self.choose_writes(&seen);
                let mut book = self.book.borrow_mut();
                seen.iter().for_each(|(target, rows)| book.read(entry, target, rows));
                drop(book);
                let full: Vec<_> = writes.iter().map(|(w, _)| w.clone()).collect();
                let submission = self.layout.validated(rows.at, &targets, &full, self.token.clone());
                out.ask(self.at, Request::Submit(submission));
                let writes = writes.into_iter().map(|((item, _, _), value)| (item, value)).collect();
                self.doing = Doing::Committing { entry, pin, writes };
            }
        }
    }

    /// Overwrites some of what was read: each row as it will be, and the value to write down.
    #[allow(clippy::type_complexity)]
    fn choose_writes(
        &mut self,
        seen: &[(Target, Seen)],
    ) -> Vec<((Item, Option<Content>, WriteKind), Option<u64>)> {
        let mut writes = BTreeMap::new();
        for (target, rows) in seen {
            // A row that was read and is not there can be inserted.
            let absent = match target.item() {
                Some(item) => Some(item).filter(|_| rows.is_empty()),
                None => {
                    let key = self.rng.below(self.layout.keys as u64) as i64;
                    let item = Item { kind: target.kind, shelf: target.shelf, key };
                    Some(item).filter(|item| rows.iter().all(|(found, _)| found != item))
                }
            };
            let present = (!rows.is_empty()).then(|| self.rng.pick(rows).clone());
            if !writes.is_empty() && self.rng.chance(0.4) {
                continue;
            }
            let value = self.book.borrow_mut().fresh();
            match (absent, present) {
                (Some(item), other) if other.is_none() || self.rng.chance(0.5) => {
                    let row = (item, Some(Content::Register(value)), WriteKind::Insert);
                    writes.insert(item, (row, Some(value)));
                }
                (_, Some((item, Content::List(mut items)))) => {
                    items.push(value);
                    writes.insert(item, ((item, Some(Content::List(items)), WriteKind::Put), Some(value)));
                }
                (_, Some((item, Content::Register(_)))) => {
                    let deletes = self.rng.chance(0.1);
                    let content = (!deletes).then_some(Content::Register(value));
                    writes.insert(item, ((item, content, WriteKind::Put), (!deletes).then_some(value)));
                }
                (_, None) => {}
            }
        }
        writes.into_values().collect()
    }

    fn committed(&mut self, now: Time, entry: Entry, writes: &[(Item, Option<u64>)], answer: Submitted) {
        let mut book = self.book.borrow_mut();
        writes.iter().for_each(|(item, value)| book.write(entry, item, *value));
        match answer.outcome {
            outcome if self.is_unknown(&outcome) => book.unknown(entry),
            Outcome::Committed { .. } => {
                book.count("interactive commits");
                book.commit(entry, now);
                drop(book);
                self.answered(entry, &answer.token);
            }
            Outcome::Aborted(error) => {
                assert_eq!(error.state, SqlState::SERIALIZATION_FAILURE, "{error}");
                book.count("interactive aborts");
                book.abort(entry, now);
                drop(book);
                self.token.join(&answer.token);
            }
        }
    }

    fn answered(&mut self, entry: Entry, token: &Token) {
        self.token.join(token);
        self.sources = vec![entry];
        if self.rng.chance(self.habits.share) {
            self.book.borrow_mut().leave(self.token.clone(), entry);
        }
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
        let mut book = self.book.borrow_mut();
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

/// Nobody knows whether a one-shot transaction took effect.
fn lose_plan(book: &mut Book, entry: Entry, plan: &Plan) {
    match plan {
        Plan::Statements { parts, .. } => {
            for part in parts {
                if let Part::Append(item, value) = part {
                    book.write(entry, item, Some(*value));
                }
            }
        }
        Plan::Procedure { targets, value } => {
            for target in targets {
                book.write(entry, &target.item().expect("a row"), Some(*value));
            }
        }
    }
    book.unknown(entry);
}

impl<P: Process<Request = Request, Reply = Reply>> Client<P> for Session {
    fn step(&mut self, now: Time, event: ClientEvent<P>, out: &mut ClientEffects<P>) {
        match event {
            ClientEvent::Start => out.wake_at(now + self.rng.below(self.habits.think_ns_max + 1), 0),
            ClientEvent::Wake(_) => self.next(now, out),
            ClientEvent::Reply { reply, .. } => self.learn(now, reply, out),
            ClientEvent::Lost { id: RequestId(_) } => {
                self.at = *self.rng.pick(&self.gateways);
                if let Doing::OneShot { submission, .. } = &self.doing
                    && submission.request.is_some()
                {
                    self.book.borrow_mut().count("requests repeated");
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

fn read_rows(kind: Kind, rows: &[Row]) -> Seen {
    rows.iter().map(|row| read_row(kind, &row.to_vec())).collect()
}
fn seen_rows(targets: &[Target], rows: &Rows) -> Vec<(Target, Seen)> {
    assert_eq!(rows.reads.len(), targets.len(), "one answer for each read");
    let seen = targets.iter().zip(&rows.reads).map(|(target, rows)| {
        (*target, rows.iter().map(|(_, row)| read_row(target.kind, &row.to_vec())).collect())
    });
    seen.collect()
}
/// A shelf as the snapshot's columns have it, in key order.
fn columns_of(snapshot: &Snapshot, target: &Target) -> Seen {
    let table = &snapshot.tables[&super::layout::table_of(target.kind)];
    let rows = super::columns::rows_of(table).into_iter().map(|values| read_row(target.kind, &values));
    let mut rows: Seen = rows.filter(|(item, _)| item.shelf == target.shelf).collect();
    rows.sort_by_key(|(item, _)| *item);
    rows
}
/// What every participant of a procedure says it was told: the same, everywhere.
fn agreed(results: &[StatementResult]) -> Vec<Content> {
    let rows: Vec<&Row> = results.iter().flat_map(|r| &r.rows).collect();
    assert!(!rows.is_empty() && rows.iter().all(|row| *row == rows[0]), "participants disagree: {rows:?}");
    let told = rows[0].to_vec();
    told.iter()
        .map(|datum| read_row(Kind::List, &[base::Datum::Int(0), base::Datum::Int(0), datum.clone()]).1)
        .collect()
}
