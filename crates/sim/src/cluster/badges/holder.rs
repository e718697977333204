//! A client of the tables: one-shot programs, blocks, and looks at a shelf by both ways.
//!
//! KEEPS: an operation is written down with the instants at which the client began and learned the end; a one-shot program
//! with a name is repeated until its end is known or is said to be unknown.

use super::super::book::{Entry, SharedBook};
use super::super::session::{Habits, is_of_silence};
use super::action::Program;
use super::block::{Look, Looked};
use super::tables::{Known, Scope, Tables};
use super::{Change, Given, Holder, possible_writes, record_changes};
use crate::world::client::{Client, ClientEffects, ClientEvent};
use base::process::Process;
use base::rng::Rng;
use base::schema::stale_schema;
use base::time::MS;
use base::txn::{ClientRequest, Outcome, Submission};
use base::{NodeId, SqlError, SqlState, Time, Token};
use node::request::{PinId, ReadRows, Reply, Request, Submitted};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// A refused request is repeated so much later; and what its wake is called.
const REPEAT_AFTER_NS: u64 = 5 * MS;
const REPEAT: u64 = 1;

/// What the clients of a run have in common.
#[derive(Clone)]
pub struct Surroundings {
    pub tables: Arc<Tables>,
    pub book: SharedBook,
    pub habits: Habits,
    pub gateways: Vec<NodeId>,
    pub pause_ns_max: u64,
    /// A badge that was about to be given up last.
    pub given: Rc<Cell<Option<Given>>>,
}

pub struct HolderClient {
    id: u32,
    around: Surroundings,
    rng: Rng,
    at: NodeId,
    known: Known,
    /// A row that this client has made.
    own: Option<(Scope, Holder)>,
    left: u32,
    token: Token,
    /// Operations whose tokens this client's token contains.
    sources: Vec<Entry>,
    doing: Doing,
    /// Numbers its requests.
    asked: u64,
}

enum Doing {
    Nothing,
    OneShot {
        entry: Entry,
        program: Program,
        submission: Submission,
    },
    Pinning {
        entry: Entry,
        looks: Vec<Look>,
        writes: bool,
    },
    Reading {
        entry: Entry,
        pin: PinId,
        looks: Vec<Look>,
        writes: bool,
    },
    Committing {
        entry: Entry,
        pin: PinId,
        looked: Looked,
        changes: Vec<Change>,
    },
    Unpinning,
    /// Asks what the tables are now.
    Learning,
}

impl HolderClient {
    /// `loaded`: what holds the tables.
    pub fn new(id: u32, around: Surroundings, mut rng: Rng, operations: u32, loaded: Token) -> HolderClient {
        let at = *rng.pick(&around.gateways);
        let (doing, sources, known) = (Doing::Nothing, Vec::new(), around.tables.known());
        let (own, left, token, asked) = (None, operations, loaded, 0);
        HolderClient { id, around, rng, at, known, own, left, token, sources, doing, asked }
    }

    fn next<P>(&mut self, now: Time, out: &mut ClientEffects<P>)
    where
        P: Process<Request = Request, Reply = Reply>,
    {
        if self.rng.chance(0.5) {
            self.at = *self.rng.pick(&self.around.gateways);
        }
        let tables = self.around.tables.clone();
        if self.rng.chance(0.6) {
            let program = self.program(&tables);
            let mut submission = program.submission(&tables, &self.known, self.token.clone());
            if self.around.habits.repeats {
                self.asked += 1;
                let (client, number) = (u64::from(self.id), self.asked);
                submission.request = Some(ClientRequest { client, number, issued_at: now });
            }
            let entry = self.begin(now, true);
            self.around.book.open().may_write(entry, now, program.possible_writes(&tables));
            out.ask(self.at, Request::Submit(submission.clone()));
            self.doing = Doing::OneShot { entry, program, submission };
            return;
        }
        let writes = self.rng.chance(0.8);
        let looks = match writes {
            true => Look::draw(&tables, &mut self.rng),
            false => Look::both_ways(&tables, &mut self.rng),
        };
        let entry = self.begin(now, writes);
        self.doing = Doing::Pinning { entry, looks, writes };
        let consistency = self.around.habits.consistency;
        out.ask(self.at, Request::Pin { consistency, token: self.token.clone() });
    }

    /// What it does next: in half of the cases what others are about to give up, or what it can give up itself.
    fn program(&mut self, tables: &Tables) -> Program {
        let value = self.around.book.open().fresh();
        if let Some(given) = self.around.given.get()
            && self.rng.chance(0.5)
        {
            self.around.given.set(None);
            return Program::taking(tables, given, value, &mut self.rng);
        }
        if let Some((scope, holder)) = self.own.take()
            && self.rng.chance(0.5)
        {
            self.around.given.set(Given::by(scope, &holder));
            return Program::giving(tables, scope, &holder, value, &mut self.rng);
        }
        Program::draw(tables, value, &mut self.rng)
    }

    fn begin(&mut self, now: Time, ordered: bool) -> Entry {
        self.around.book.open().begin(self.id, now, ordered, &self.sources)
    }

    fn learn<P>(&mut self, now: Time, reply: Reply, out: &mut ClientEffects<P>)
    where
        P: Process<Request = Request, Reply = Reply>,
    {
        match (std::mem::replace(&mut self.doing, Doing::Nothing), reply) {
            (Doing::OneShot { entry, program, submission }, Reply::Submitted(answer)) => {
                let is_refused = |error: &SqlError| self.around.habits.may_be_refused && is_refusal(error);
                let refused = match &answer {
                    Err(error) => Some(error).filter(|error| is_refused(error)),
                    Ok(Submitted { outcome: Outcome::Aborted(error), .. }) => {
                        Some(error).filter(|error| is_of_silence(error))
                    }
                    Ok(_) => None,
                };
                if refused.is_some() && submission.request.is_some() {
                    // It may have taken effect where it was sent first.
                    self.at = *self.rng.pick(&self.around.gateways);
                    self.doing = Doing::OneShot { entry, program, submission };
                    return out.wake_at(now + REPEAT_AFTER_NS, REPEAT);
                }
                if self.one_shot_ended(now, entry, &program, answer) {
                    out.ask(self.at, Request::Catalog);
                    self.doing = Doing::Learning;
                    return;
                }
                self.finish(now, out);
            }
            (Doing::Pinning { entry, looks, writes }, Reply::Pinned(Ok((pin, at)))) => {
                let reads = looks.iter().flat_map(Look::reads).collect();
                let (consistency, token) = (self.around.habits.consistency, self.token.clone());
                out.ask(self.at, Request::ReadRows(ReadRows { at: Some(at), consistency, token, reads }));
                self.doing = Doing::Reading { entry, pin, looks, writes };
            }
            (Doing::Pinning { entry, .. }, Reply::Pinned(Err(error))) => {
                self.give_up(now, entry, &error);
                self.finish(now, out);
            }
            (Doing::Reading { entry, pin, looks, writes }, Reply::Rows(Ok(rows))) => {
                let looked = Looked::new(looks, &rows);
                if writes {
                    return self.commit(now, entry, pin, looked, out);
                }
                let mut book = self.around.book.open();
                looked.record(&mut book, entry);
                book.count("badges looked at both ways");
                book.commit(entry, now);
                drop(book);
                self.token.join(&rows.token);
                self.sources = vec![entry];
                self.unpin(pin, out);
            }
            (Doing::Reading { entry, pin, .. }, Reply::Rows(Err(error))) => {
                self.give_up(now, entry, &error);
                self.unpin(pin, out);
            }
            (Doing::Committing { entry, pin, looked, changes }, Reply::Submitted(answer)) => {
                self.block_ended(now, entry, &looked, &changes, answer);
                self.unpin(pin, out);
            }
            (Doing::Unpinning, Reply::Unpinned) => {
                out.ask(self.at, Request::Catalog);
                self.doing = Doing::Learning;
            }
            (Doing::Learning, Reply::Catalog(catalog)) => {
                self.known.learn(&catalog);
                self.finish(now, out);
            }
            _ => panic!("an answer to another question"),
        }
    }

    fn commit<P>(&mut self, now: Time, entry: Entry, pin: PinId, looked: Looked, out: &mut ClientEffects<P>)
    where
        P: Process<Request = Request, Reply = Reply>,
    {
        let mut book = self.around.book.open();
        let changes = looked.choose_changes(&mut self.rng, &mut || book.fresh());
        book.may_write(entry, now, possible_writes(looked.scope(), &changes));
        drop(book);
        let departing = changes.iter().filter_map(|change| change.before.as_ref());
        if let Some(given) = { departing }.find_map(|before| Given::by(looked.scope(), before)) {
            self.around.given.set(Some(given));
        }
        let submission = looked.submission(&self.around.tables, &self.known, &changes, self.token.clone());
        out.ask(self.at, Request::Submit(submission));
        self.doing = Doing::Committing { entry, pin, looked, changes };
    }

    /// Whether the table is not as this client knows it.
    fn one_shot_ended(
        &mut self,
        now: Time,
        entry: Entry,
        program: &Program,
        answer: Result<Submitted, SqlError>,
    ) -> bool {
        let mut book = self.around.book.open();
        let may_meet = |error: &SqlError| {
            error.state == SqlState::UNIQUE_VIOLATION && program.may_meet_another(error.constraint.as_deref())
        };
        match answer {
            Ok(Submitted { outcome: Outcome::Committed { results }, token, .. }) => {
                program.committed(&self.around.tables, &mut book, entry, &results);
                book.count("programs over badges");
                book.commit(entry, now);
                drop(book);
                let made = program.made(&self.around.tables);
                self.own = made.map(|(scope, holder)| (scope, holder.clone())).or(self.own.take());
                self.answered(entry, &token);
            }
            Ok(Submitted { outcome: Outcome::Aborted(error), token, .. })
                if error.message == stale_schema().message =>
            {
                book.count("programs over badges that met another table");
                book.abort(entry, now);
                drop(book);
                self.token.join(&token);
                return true;
            }
            Ok(Submitted { outcome: Outcome::Aborted(error), token, .. }) if may_meet(&error) => {
                book.count("programs over badges that met another row");
                book.abort(entry, now);
                drop(book);
                self.token.join(&token);
            }
            Ok(Submitted { outcome: Outcome::Aborted(error), .. }) | Err(error) => {
                drop(book);
                self.failed(now, entry, &error);
            }
        }
        false
    }

    fn block_ended(
        &mut self,
        now: Time,
        entry: Entry,
        looked: &Looked,
        changes: &[Change],
        answer: Result<Submitted, SqlError>,
    ) {
        let mut book = self.around.book.open();
        let of_others = [SqlState::UNIQUE_VIOLATION, SqlState::SERIALIZATION_FAILURE];
        match answer {
            Ok(Submitted { outcome: Outcome::Committed { .. }, token, .. }) => {
                looked.record(&mut book, entry);
                record_changes(&mut book, entry, looked.scope(), changes);
                book.count("blocks over badges");
                book.commit(entry, now);
                drop(book);
                self.answered(entry, &token);
            }
            Ok(Submitted { outcome: Outcome::Aborted(error), token, .. })
                if of_others.contains(&error.state) =>
            {
                book.count("blocks over badges that met another writer");
                book.abort(entry, now);
                drop(book);
                self.token.join(&token);
            }
            Ok(Submitted { outcome: Outcome::Aborted(error), .. }) | Err(error) => {
                drop(book);
                self.failed(now, entry, &error);
            }
        }
    }

    /// Nothing came of what would have written, or nobody knows.
    fn failed(&mut self, now: Time, entry: Entry, error: &SqlError) {
        let habits = &self.around.habits;
        let may_be = habits.may_be_refused || habits.may_be_too_late || habits.may_be_undeliverable;
        let is_undeliverable = habits.may_be_undeliverable && error.state == SqlState::SERIALIZATION_FAILURE;
        assert!(may_be && (is_refusal(error) || is_undeliverable), "a program over badges fails: {error}");
        let mut book = self.around.book.open();
        match error.state {
            SqlState::TRANSACTION_RESOLUTION_UNKNOWN => book.unknown(entry),
            _ => book.abort(entry, now),
        }
    }

    /// A read that is refused shows nothing.
    fn give_up(&mut self, now: Time, entry: Entry, error: &SqlError) {
        let habits = &self.around.habits;
        let too_late = habits.may_be_too_late && error.state == SqlState::SNAPSHOT_TOO_OLD
            || error.state == SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE;
        let refused = habits.may_be_refused && is_refusal(error);
        assert!(too_late || refused, "badges cannot be read: {error}");
        self.around.book.open().abort(entry, now);
    }

    fn answered(&mut self, entry: Entry, token: &Token) {
        self.token.join(token);
        self.sources = vec![entry];
    }

    /// The node crashed: nobody knows what became of the operation.
    fn lose(&mut self) {
        match std::mem::replace(&mut self.doing, Doing::Nothing) {
            Doing::Nothing | Doing::Unpinning | Doing::Learning => {}
            Doing::OneShot { entry, .. }
            | Doing::Pinning { entry, .. }
            | Doing::Reading { entry, .. }
            | Doing::Committing { entry, .. } => self.around.book.open().unknown(entry),
        }
    }

    fn unpin<P>(&mut self, pin: PinId, out: &mut ClientEffects<P>)
    where
        P: Process<Request = Request, Reply = Reply>,
    {
        out.ask(self.at, Request::Unpin(pin));
        self.doing = Doing::Unpinning;
    }

    fn finish<P: Process>(&mut self, now: Time, out: &mut ClientEffects<P>) {
        self.doing = Doing::Nothing;
        self.left -= 1;
        if self.left > 0 {
            out.wake_at(now + self.rng.below(self.around.pause_ns_max + 1), 0);
        }
    }
}

/// What a node answers that is out, or needs a region that is silent.
pub(super) fn is_refusal(error: &SqlError) -> bool {
    [SqlState::CANNOT_CONNECT_NOW, SqlState::TRANSACTION_RESOLUTION_UNKNOWN].contains(&error.state)
}

impl<P: Process<Request = Request, Reply = Reply>> Client<P> for HolderClient {
    fn step(&mut self, now: Time, event: ClientEvent<P>, out: &mut ClientEffects<P>) {
        match event {
            ClientEvent::Start => out.wake_at(now + self.rng.below(self.around.pause_ns_max + 1), 0),
            ClientEvent::Wake(REPEAT) => {
                let Doing::OneShot { submission, .. } = &self.doing else {
                    unreachable!("it waits to repeat it")
                };
                out.ask(self.at, Request::Submit(submission.clone()));
            }
            ClientEvent::Wake(_) => self.next(now, out),
            ClientEvent::Reply { reply, .. } => self.learn(now, reply, out),
            ClientEvent::Lost { .. } => {
                self.at = *self.rng.pick(&self.around.gateways);
                if let Doing::OneShot { submission, .. } = &self.doing
                    && submission.request.is_some()
                {
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
