//! Reads of this node, from a request to its answer: drives [`Read`]s, puts their questions, fetches at their cuts.
//!
//! IN: requests, answers, columns that arrive. OUT: replies. KEEPS: a request gets one reply; a read of rows at a
//! partition of this node that waits for no writer is answered in the step in which it came, without being remembered.

use super::asking::Found;
use super::*;
use crate::questions::{Asked, LongRead, Owner};
use crate::read::goal::{Goal, granule_of};
use crate::read::rows::{Asking, RowFetch, questions, rows_at};
use crate::read::{Read, ReadId, Step, Target};
use base::order::Close;
use reads::rule::levels::Wish;
use reads::rule::{Ask, Chosen, Readable};

impl<E: Engine> Node<E> {
    // ---- choosing ---------------------------------------------------------------------------------

    /// A client wants to read.
    pub(super) fn read(&mut self, now: Time, id: RequestId, goal: Goal, out: &mut Effects<Self>) {
        if let Err(error) = self.check_token(now, goal.token()) {
            return out.reply(id, goal.refused(error));
        }
        let is_kept_here = match &goal {
            Goal::Columns(open) => self.keeps_all(open),
            Goal::Rows(_) | Goal::Call(_) | Goal::Pin { .. } => Ok(false),
        };
        let chosen = match is_kept_here {
            Ok(true) => return self.read_columns(now, id, goal, out),
            Ok(false) => self.choose_cut(now, &goal),
            Err(error) => Err(error),
        };
        match chosen {
            Err(error) => out.reply(id, goal.refused(error)),
            Ok(chosen) => self.read_at(now, id, now, chosen, goal, out),
        }
    }

    /// A read that arrived then is answered by the nodes that run what it reads.
    pub(super) fn read_elsewhere(
        &mut self,
        now: Time,
        id: RequestId,
        arrived: Time,
        goal: Goal,
        out: &mut Effects<Self>,
    ) {
        match self.choose_cut(now, &goal) {
            Err(error) => out.reply(id, goal.refused(error)),
            Ok(chosen) => self.read_at(now, id, arrived, chosen, goal, out),
        }
    }

    fn read_at(
        &mut self,
        now: Time,
        id: RequestId,
        arrived: Time,
        chosen: Option<Chosen>,
        goal: Goal,
        out: &mut Effects<Self>,
    ) {
        match chosen {
            Some(chosen) => self.fetch(now, id, arrived, chosen, goal, out),
            None => {
                let (token, granules) = (goal.token().rank, goal.granules(&self.topology));
                let rule = self.reads.levels().found(arrived, token, granules);
                self.begin_read(now, ReadId::Client(id), Read::choosing(arrived, rule, goal), out);
            }
        }
    }

    /// Whether this node keeps all columns that a query reads.
    fn keeps_all(&self, open: &OpenSnapshot) -> Result<bool, SqlError> {
        match open.tables.values().flatten().find(|p| !self.subscribes(**p)) {
            Some(partition) if self.protocol.is_local() => Err(self.keeps_no_columns(*partition)),
            lacking => Ok(lacking.is_none()),
        }
    }

    /// The cut of a read whose data others close; `None`: it has to be found by asking.
    fn choose_cut(&self, now: Time, goal: &Goal) -> Result<Option<Chosen>, SqlError> {
        let is_read = |table| goal.reads_table(table);
        let (level, given, token) = (goal.level(), goal.given(), goal.token());
        let wish = Wish { arrived: now, level, given, token, is_read: &is_read };
        let (levels, here) = (self.reads.levels(), self.here());
        match goal {
            Goal::Rows(read) => levels.choose(&wish, read.reads.iter().map(|read| read.partition), &here),
            Goal::Call(_) => levels.choose(&wish, std::iter::empty(), &here),
            Goal::Pin { .. } => levels.choose(&wish, self.topology.partition_ids(), &here),
            // What the columns here have of other partitions says how far a cut may be that other readers give part of.
            Goal::Columns(_) => levels.choose_for_readers(&wish, self.subscribed(), &here),
        }
    }

    /// A query over columns that are all kept here.
    fn read_columns(&mut self, now: Time, id: RequestId, goal: Goal, out: &mut Effects<Self>) {
        let is_read = |table| goal.reads_table(table);
        let (level, given, token) = (goal.level(), goal.given(), goal.token());
        let wish = Wish { arrived: now, level, given, token, is_read: &is_read };
        let granules = goal.granules(&self.topology);
        let levels = self.reads.levels();
        match (levels.over_columns(&wish, granules, &*self.protocol, &self.here()), goal) {
            (Ok(followed), Goal::Columns(open)) => {
                let read = Read::columns(now, followed, Target::Client(open));
                self.begin_read(now, ReadId::Client(id), read, out);
            }
            (Ok(_), _) => unreachable!("only columns are kept here"),
            (Err(error), goal) => out.reply(id, goal.refused(error)),
        }
    }

    // ---- closing and applying ---------------------------------------------------------------------

    pub(super) fn begin_read(&mut self, now: Time, id: ReadId, read: Read, out: &mut Effects<Self>) {
        let (asks, has_floor) = (read.asks(), read.floor().is_some());
        self.reads.begin(id, read);
        if has_floor {
            self.tell_floor();
        }
        self.put(now, id, asks, out);
        self.advance(now, id, out);
    }

    /// Puts a read's questions.
    fn put(&mut self, now: Time, id: ReadId, asks: Vec<Ask>, out: &mut Effects<Self>) {
        let is_over_replicas = self.reads.get(id).is_some_and(Read::is_over_replicas);
        for ask in asks {
            let partition = ask.partition();
            let what = match ask {
                Ask::Calibrate(partition) => {
                    self.want_calibration(now, partition, id, out);
                    continue;
                }
                Ask::Fetch(partitions) => {
                    self.want_fetch(now, partitions, id, out);
                    continue;
                }
                // What runs here brings its records by itself.
                Ask::Record(..) if self.topology.copy_near(partition, self.id) == self.id => continue,
                Ask::Record(_, txn) => Question::Record(txn),
                Ask::Close(close) => {
                    self.data.replicas.fetches_sent += u64::from(is_over_replicas);
                    Question::Close(close)
                }
                Ask::Latest(_, granules) => Question::Latest(granules),
                Ask::Timestamp => Question::Timestamp,
                Ask::Batches => Question::Batches,
            };
            let question = self.questions.next_question();
            self.ask(now, question, partition, what, Owner::Read(id), out);
        }
    }

    /// Puts the questions that an answer, or a look at what is here, has led to.
    fn follow_up(&mut self, now: Time, id: ReadId, out: &mut Effects<Self>) {
        let Some(read) = self.reads.get_mut(id) else { return };
        let asks = read.follow_up();
        self.put(now, id, asks, out);
    }

    /// A question of a read was answered.
    pub(super) fn read_told(
        &mut self,
        now: Time,
        id: ReadId,
        (question, partition, waited_ns): (QuestionId, PartitionId, u64),
        answer: Result<AnswerBody, SqlError>,
        out: &mut Effects<Self>,
    ) {
        let Some(read) = self.reads.get_mut(id) else { return };
        match answer {
            Ok(body) => {
                if read.told(now, question, partition, waited_ns, body) {
                    self.follow_up(now, id, out);
                    self.advance(now, id, out);
                }
            }
            // What is open does not change any more.
            Err(_) if read.shipment().is_some() => {}
            Err(error) => self.fail_read(now, id, error, out),
        }
    }

    /// Takes a read as far as it can go.
    pub(super) fn advance(&mut self, now: Time, id: ReadId, out: &mut Effects<Self>) {
        let least_cut = self.told.least_cut;
        let Some(read) = self.reads.get_mut(id) else { return };
        let here = Here { columns: &self.columns, data: &self.data, least_cut };
        let is_over_replicas = read.is_over_replicas();
        match read.advance(now, &here) {
            Ok(Step::Wait) => self.follow_up(now, id, out),
            Ok(Step::Fetch(chosen)) => {
                let read = self.reads.end(id).expect("just advanced");
                let (arrived, goal) = (read.arrived(), read.into_goal().expect("it was choosing"));
                if let ReadId::Client(id) = id {
                    self.fetch(now, id, arrived, chosen, goal, out);
                }
            }
            Ok(Step::Open(readable)) => match id {
                ReadId::Client(client) if is_over_replicas => self.open_rows(now, client, readable, out),
                ReadId::Client(client) => self.answer_columns(client, readable, out),
                ReadId::Part { .. } => self.open_part(now, id, readable, out),
            },
            Ok(Step::Answer) => {
                let read = self.reads.end(id).expect("just advanced");
                self.tell_floor();
                let (arrived, rows) = (read.arrived(), read.into_rows().expect("it fetched rows"));
                if let ReadId::Client(id) = id {
                    let asked = self.questions.take_asked(id);
                    let rows = rows.answer(now, arrived, self.options.incarnation, asked);
                    out.reply(id, Reply::Rows(Ok(rows)));
                }
            }
            Err(error) => self.fail_read(now, id, error, out),
        }
    }

    /// Columns have arrived.
    pub(super) fn advance_all(&mut self, now: Time, out: &mut Effects<Self>) {
        self.reads.over_columns().into_iter().for_each(|id| self.advance(now, id, out));
    }

    // ---- fetching ---------------------------------------------------------------------------------

    /// Fetches at a cut that was chosen for a read which had arrived then.
    fn fetch(
        &mut self,
        now: Time,
        id: RequestId,
        arrived: Time,
        chosen: Chosen,
        goal: Goal,
        out: &mut Effects<Self>,
    ) {
        match goal {
            Goal::Rows(read) => {
                let slots = read.reads.len();
                match questions(read, chosen.rank) {
                    Err(one) => self.fetch_one(now, id, (arrived, chosen), slots, one, out),
                    Ok(several) => self.fetch_rows(now, id, (arrived, chosen), slots, several, out),
                }
            }
            Goal::Call(call) => {
                let question = Question::Call { at: chosen.rank, call: call.call };
                self.fetch_one(now, id, (arrived, chosen), 1, (call.partition, question), out);
            }
            Goal::Columns(open) => self.gather(now, id, (arrived, chosen), open, out),
            Goal::Pin { .. } => {
                let pin = self.questions.next_pin();
                self.reads.pin(pin, chosen.rank, id);
                self.tell_floor();
                out.reply(id, Reply::Pinned(Ok((pin, chosen.rank))));
            }
        }
    }

    /// A read of one partition. Where that is here and nobody holds it up, which is the usual case, it is answered
    /// without being remembered.
    fn fetch_one(
        &mut self,
        now: Time,
        id: RequestId,
        (arrived, chosen): (Time, Chosen),
        slots: usize,
        (partition, what): (PartitionId, Question),
        out: &mut Effects<Self>,
    ) {
        let granules = match &what {
            _ if self.topology.copy_near(partition, self.id) != self.id => None,
            Question::Rows { reads, .. } => Some(reads.iter().map(granule_of).collect()),
            Question::Call { call, .. } => Some(call.access.iter().map(|a| a.granule.clone()).collect()),
            _ => None,
        };
        let Some(granules) = granules else {
            let questions = vec![(partition, (0..slots).collect(), what)];
            return self.fetch_rows(now, id, (arrived, chosen), slots, questions, out);
        };
        let ticket = self.questions.next_ticket();
        let close = Close { partition, rank: chosen.rank, granules };
        let (closed, effects) = self.close_at_once(now, ticket, close);
        if let Some(result) = closed {
            self.engine_effects(now, effects, out);
            let reads = match result.and_then(|_| self.begin_rows(partition, what)) {
                Ok(Found::All(rows)) => Ok(rows),
                Ok(Found::Part(reading)) => {
                    let question = self.hold_one(now, id, (arrived, chosen), slots, partition);
                    let read = LongRead { to: self.id, question, partition, since: now, reading };
                    return self.read_later(read, out);
                }
                Err(error) => Err(error),
            };
            let asked = self.questions.take_asked(id);
            let (of, times) = (self.options.incarnation, (now, arrived, now.since(arrived)));
            return out.reply(id, Reply::Rows(reads.map(|reads| rows_at(chosen, reads, times, of, asked))));
        }
        base::sometimes!("a read of rows waits for a writer here");
        let question = self.hold_one(now, id, (arrived, chosen), slots, partition);
        self.begin_serving(now, self.id, question, ticket, partition, what);
        self.engine_effects(now, effects, out);
    }

    /// A read of rows of one partition here, whose answer is to come.
    fn hold_one(
        &mut self,
        now: Time,
        id: RequestId,
        (arrived, chosen): (Time, Chosen),
        slots: usize,
        partition: PartitionId,
    ) -> QuestionId {
        let question = self.questions.next_question();
        let open = [(question, (0..slots).collect())].into();
        let owner = self.hold_rows(now, id, (arrived, chosen), slots, open);
        self.questions.asked.insert(question, Asked { partition, what: None, owner });
        question
    }

    /// Asks partitions about rows at a cut; each answers some of `slots` reads.
    fn fetch_rows(
        &mut self,
        now: Time,
        id: RequestId,
        (arrived, chosen): (Time, Chosen),
        slots: usize,
        questions: Vec<Asking>,
        out: &mut Effects<Self>,
    ) {
        let mut open = BTreeMap::new();
        let mut asks = Vec::with_capacity(questions.len());
        for (partition, slots, what) in questions {
            let question = self.questions.next_question();
            open.insert(question, slots);
            asks.push((question, partition, what));
        }
        let owner = self.hold_rows(now, id, (arrived, chosen), slots, open);
        for (question, partition, what) in asks {
            self.ask(now, question, partition, what, owner, out);
        }
        self.advance(now, ReadId::Client(id), out);
    }

    /// A read of rows whose answers are to come, and the cut that it keeps.
    fn hold_rows(
        &mut self,
        now: Time,
        id: RequestId,
        (arrived, chosen): (Time, Chosen),
        slots: usize,
        open: BTreeMap<QuestionId, Vec<usize>>,
    ) -> Owner {
        let rows = RowFetch::new(chosen, now.since(arrived), slots, open);
        self.reads.begin(ReadId::Client(id), Read::rows(arrived, rows));
        self.tell_floor();
        Owner::Read(ReadId::Client(id))
    }

    /// The cut of a query has become readable here.
    fn answer_columns(&mut self, client: RequestId, readable: Readable, out: &mut Effects<Self>) {
        let id = ReadId::Client(client);
        let Readable { cut, token, freshness } = readable;
        let token = token.of(self.options.incarnation);
        let read = self.reads.get(id).and_then(Read::to_open);
        let Some((Target::Client(open), to_merge)) = read else { return };
        let result = self.columns.snapshot(&cut, &open.tables, to_merge).map(|(tables, catalog)| {
            let (asked, sources) = (self.questions.take_asked(client), Vec::new());
            Snapshot { tables, catalog, cut, token, freshness, sources, asked }
        });
        self.give_up(id);
        out.reply(client, Reply::Snapshot(result));
    }

    // ---- ends -------------------------------------------------------------------------------------

    /// A read is over without what it wanted to know: nobody waits for its answers any more.
    pub(super) fn give_up(&mut self, id: ReadId) -> Option<Read> {
        let is_remembered = self.reads.get(id).is_some_and(|read| read.floor().is_some());
        if is_remembered || matches!(id, ReadId::Client(_)) {
            self.questions.forget(id);
            self.forget_calibrations(id);
            self.forget_fetches(id);
        }
        let read = self.end_read(id);
        if is_remembered || matches!(id, ReadId::Client(_)) {
            self.tell_floor();
        }
        read
    }

    /// Ends a read, and the part of it that this node itself gives. Other readers learn of it, or forget it after a
    /// while.
    pub(super) fn end_read(&mut self, id: ReadId) -> Option<Read> {
        let mut read = self.reads.end(id)?;
        let scans = read.gather().map(|gather| gather.scans()).unwrap_or_default();
        for scan in scans {
            self.give_up(ReadId::Part { coordinator: self.id, scan });
        }
        Some(read)
    }

    /// It ends with an error.
    pub(super) fn fail_read(&mut self, now: Time, id: ReadId, error: SqlError, out: &mut Effects<Self>) {
        let Some(mut read) = self.give_up(id) else { return };
        let ReadId::Client(client) = id else {
            return self.say_scanned(now, id, Scanned::Refused(error), out);
        };
        let readers = read.gather().map(|gather| gather.readers()).unwrap_or_default();
        for (scan, reader) in readers {
            if reader != self.id {
                self.send(reader, Message::Scan { scan, what: ScanRequest::Release }, out);
            }
        }
        out.reply(client, read.refused(error));
    }

    /// The client of a request is gone.
    pub(super) fn vanished(&mut self, id: RequestId) {
        self.give_up(ReadId::Client(id));
    }

    /// Collection spares the cuts in use, and whatever the columns here may still lack: cuts of queries to
    /// come begin where every copy is complete, whatever their level.
    pub(super) fn tell_floor(&mut self) {
        let here = self.here();
        let complete = self.subscribed().iter().map(|p| here.low(*p)).min();
        let safe = complete.and_then(|_| self.protocol.floor(&here));
        let floor = self.reads.least_floor().into_iter().chain(complete).chain(safe).min();
        if self.reads.is_news(floor) {
            self.engine.set_floor(floor);
        }
    }
}
