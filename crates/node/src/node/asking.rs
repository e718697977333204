//! Questions between readers and partitions, on this node or another.
//!
//! A question is repeated until it is answered, and served once at a time; serving it again is harmless.

use super::*;
use crate::questions::{Asked, LongRead, Owner, Purpose, Serving};
use crate::read::goal::granule_of;
use base::Key;
use base::order::{Close, CloseTicket, Closed, StreamItem};
use rowstore::Reading;
use txn::engine::Unanswered;

/// What a question about rows has led to in one step.
pub(super) enum Found {
    /// Per read, rows in its order.
    All(Vec<Vec<(Key, base::Row)>>),
    /// There is more to look at.
    Part(Reading),
}

impl<E: Engine> Node<E> {
    pub(super) fn ask(
        &mut self,
        now: Time,
        question: QuestionId,
        partition: PartitionId,
        what: Question,
        owner: Owner,
        out: &mut Effects<Self>,
    ) {
        let node = self.topology.copy_near(partition, self.id);
        if node == self.id {
            self.questions.asked.insert(question, Asked { partition, what: None, owner });
            return self.serve(now, self.id, question, partition, what, out);
        }
        if let Some(id) = owner.request() {
            self.questions.note_asked(id, node);
        }
        self.questions.asked.insert(question, Asked { partition, what: Some(what.clone()), owner });
        let rank = match &what {
            Question::Close(close) => Some(close.rank),
            Question::Rows { at, .. } | Question::Call { at, .. } | Question::Fetch { at, .. } => Some(*at),
            _ => None,
        };
        if let Some(rank) = rank {
            self.will_close(now, partition, rank, out);
        }
        self.send(node, Message::Ask { question, partition, what }, out);
        out.timer(Timer::Repeat { question }, now + self.patience_ns(node));
    }

    pub(super) fn repeat(&mut self, now: Time, question: QuestionId, out: &mut Effects<Self>) {
        let Some(Asked { partition, what: Some(what), .. }) = self.questions.asked.get(&question) else {
            return;
        };
        let (partition, what) = (*partition, what.clone());
        let node = self.topology.copy_near(partition, self.id);
        self.send(node, Message::Ask { question, partition, what }, out);
        out.timer(Timer::Repeat { question }, now + self.patience_ns(node));
    }

    /// How long silence of a node is taken for delay rather than loss.
    pub(super) fn patience_ns(&self, node: NodeId) -> u64 {
        3 * self.topology.one_way_ns(self.id, node) + 20 * MS
    }

    pub(super) fn serve(
        &mut self,
        now: Time,
        from: NodeId,
        question: QuestionId,
        partition: PartitionId,
        what: Question,
        out: &mut Effects<Self>,
    ) {
        if partition.0 as usize >= self.topology.partitions.len() || !self.topology.holds(self.id, partition)
        {
            return; // Not ours: a peer with another topology. Silence, never a guess.
        }
        let (rank, granules) = match &what {
            Question::Calibrate => {
                if from != self.id {
                    // Records first: the asker waits for them anyway.
                    self.flush(now, out);
                }
                let answer = Ok(AnswerBody::Calibrated(self.calibration(now, partition)));
                return self.answer(now, from, question, partition, 0, answer, out);
            }
            Question::Timestamp => {
                let answer = self.timestamp(now).map(AnswerBody::Timestamp);
                return self.answer(now, from, question, partition, 0, answer, out);
            }
            Question::Batches => {
                let refused = || SqlError::unsupported("a batch cut in a cluster that does not run them");
                let answer = self.protocol.published().map(AnswerBody::Batches).ok_or_else(refused);
                return self.answer(now, from, question, partition, 0, answer, out);
            }
            Question::Replicated(txn) => {
                return self.serve_replicated(now, from, question, partition, *txn, out);
            }
            Question::Record(txn) => return self.serve_record(now, from, question, partition, *txn, out),
            Question::Latest(granules) => {
                let granules = granules.clone();
                return self.serve_latest(now, from, question, partition, granules, out);
            }
            Question::Close(close) => (close.rank, close.granules.clone()),
            Question::Rows { at, reads } => (*at, reads.iter().map(granule_of).collect()),
            Question::Call { at, call } => (*at, call.access.iter().map(|a| a.granule.clone()).collect()),
            Question::Fetch { at, closed, .. } => (*at, closed.clone()),
        };
        let ticket = self.questions.next_ticket();
        if !self.begin_serving(now, from, question, ticket, partition, what) {
            base::sometimes!("a question is repeated while it is being answered");
            return;
        }
        self.close(now, ticket, Close { partition, rank, granules }, out);
    }

    fn serve_latest(
        &mut self,
        now: Time,
        from: NodeId,
        question: QuestionId,
        partition: PartitionId,
        granules: Vec<Granule>,
        out: &mut Effects<Self>,
    ) {
        if !self.topology.unbounded_clocks {
            return; // A peer with another topology. Silence, never a guess.
        }
        if !self.questions.serving_for.insert((from, question)) {
            return;
        }
        let ticket = self.questions.next_ticket();
        let purpose = Purpose::Latest { to: from, question };
        self.questions.serving.insert(ticket, Serving { purpose, partition, since: now });
        self.find_latest(now, ticket, partition, granules, out);
    }

    /// The engine knows how late a cut has to be.
    pub(super) fn latest(&mut self, now: Time, ticket: CloseTicket, rank: Rank, out: &mut Effects<Self>) {
        let Some(serving) = self.questions.serving.remove(&ticket) else { return };
        let Purpose::Latest { to, question } = serving.purpose else { unreachable!("it asked for that") };
        self.questions.serving_for.remove(&(to, question));
        let answer = Ok(AnswerBody::Latest(rank));
        self.answer(now, to, question, serving.partition, now.since(serving.since), answer, out);
    }

    /// A close is under way for a question; false if there is one already.
    pub(super) fn begin_serving(
        &mut self,
        now: Time,
        from: NodeId,
        question: QuestionId,
        ticket: CloseTicket,
        partition: PartitionId,
        what: Question,
    ) -> bool {
        let is_new = self.questions.serving_for.insert((from, question));
        if is_new {
            let purpose = Purpose::Answer { to: from, question, what };
            self.questions.serving.insert(ticket, Serving { purpose, partition, since: now });
        }
        is_new
    }

    /// Begins with what a question about rows of a partition that is closed here gets, read by read.
    pub(super) fn begin_rows(&self, partition: PartitionId, what: Question) -> Result<Found, SqlError> {
        match what {
            Question::Rows { at, reads } => self.go_on(partition, Reading::new(at, reads)),
            Question::Call { at, call } => {
                let rows = self.rows_of(partition).call_at(at, &call.name, &call.args, &call.access);
                let keyless = |row| (Key::new(), row);
                rows.map(|rows| Found::All(vec![rows.into_iter().map(keyless).collect()]))
            }
            _ => unreachable!("no other question is about rows"),
        }
    }

    fn go_on(&self, partition: PartitionId, mut reading: Reading) -> Result<Found, SqlError> {
        let is_all = reading.go_on(self.rows_of(partition), self.options.steps.keys)?;
        Ok(if is_all { Found::All(reading.into_rows()) } else { Found::Part(reading) })
    }

    /// The rest of a read waits for its turn, behind everything that waits for this node.
    pub(super) fn read_later(&mut self, read: LongRead, out: &mut Effects<Self>) {
        base::sometimes!("a read of rows takes several steps");
        self.questions.wait_for_turn(read);
        if self.questions.arms_turn() {
            out.give_way(Timer::ReadOn);
        }
    }

    /// The first of the reads that take several steps goes on.
    pub(super) fn read_on(&mut self, now: Time, out: &mut Effects<Self>) {
        if let Some(LongRead { to, question, partition, since, reading }) = self.questions.next_turn(self.id)
        {
            let answer = match self.go_on(partition, reading) {
                Ok(Found::All(rows)) => Some(Ok(AnswerBody::Rows(rows))),
                Ok(Found::Part(reading)) => {
                    self.questions.wait_for_turn(LongRead { to, question, partition, since, reading });
                    None
                }
                Err(error) => Some(Err(error)),
            };
            if let Some(answer) = answer {
                self.questions.serving_for.remove(&(to, question));
                self.answer(now, to, question, partition, now.since(since), answer, out);
            }
        }
        if self.questions.arms_turn() {
            out.give_way(Timer::ReadOn);
        }
    }

    pub(super) fn closed(
        &mut self,
        now: Time,
        ticket: CloseTicket,
        result: Result<Closed, SqlError>,
        out: &mut Effects<Self>,
    ) {
        let Some(serving) = self.questions.serving.remove(&ticket) else { return };
        let partition = serving.partition;
        match serving.purpose {
            Purpose::Low(rank) => {
                self.streams.closing.remove(&partition);
                if result.is_ok() {
                    self.data.replicas.trackers.closed(partition, rank);
                    self.stream(now, partition, StreamItem::Low(rank), out);
                    // Later than its timer: transactions were under way.
                    if serving.since < now {
                        self.flush(now, out);
                    }
                }
            }
            Purpose::Publish(rank) => {
                if result.is_ok() {
                    self.data.replicas.trackers.closed(partition, rank);
                }
                self.data.replicas.trackers.end_closing(partition);
            }
            Purpose::Latest { to, question } => {
                self.questions.serving_for.remove(&(to, question));
                let refused = result.and_then(|_| Err(Unanswered { question: "latest" }.into()));
                self.answer(now, to, question, partition, now.since(serving.since), refused, out);
            }
            Purpose::Answer { to, question, what } => {
                let waited_ns = now.since(serving.since);
                // Records first: the asker waits for them anyway.
                let needs_records = to != self.id && !matches!(what, Question::Fetch { .. });
                let answer = match (result, what) {
                    (Err(error), _) => Err(error),
                    (Ok(_), what @ (Question::Rows { .. } | Question::Call { .. })) => {
                        match self.begin_rows(partition, what) {
                            Ok(Found::All(rows)) => Ok(AnswerBody::Rows(rows)),
                            Ok(Found::Part(reading)) => {
                                let since = serving.since;
                                let read = LongRead { to, question, partition, since, reading };
                                return self.read_later(read, out);
                            }
                            Err(error) => Err(error),
                        }
                    }
                    (Ok(_), Question::Fetch { mut closed, watched, .. }) => {
                        closed.extend(watched);
                        Ok(AnswerBody::Fetched(self.last_writers(now, partition, &closed, out)))
                    }
                    (Ok(closed), _) => {
                        let calibration = self.calibration(now, partition);
                        let closed = Closed { position: closed.position.max(calibration.position) };
                        Ok(AnswerBody::Closed { closed, through: calibration.low })
                    }
                };
                self.questions.serving_for.remove(&(to, question));
                if needs_records {
                    self.flush(now, out);
                }
                self.answer(now, to, question, partition, waited_ns, answer, out);
            }
        }
    }

    #[allow(clippy::too_many_arguments)]
    pub(super) fn answer(
        &mut self,
        now: Time,
        to: NodeId,
        question: QuestionId,
        partition: PartitionId,
        waited_ns: u64,
        answer: Result<AnswerBody, SqlError>,
        out: &mut Effects<Self>,
    ) {
        if to == self.id {
            return self.told(now, question, partition, waited_ns, answer, out);
        }
        let life = self.questions.life();
        self.send(to, Message::Told { question, partition, life, waited_ns, answer }, out);
    }

    /// An answer names a position in the log of a later life than what is applied here: the copy that this life's stream
    /// begins with has not come yet. What is applied may be as long and have other records, so the answer is taken for
    /// lost; the question is repeated, or its reads fall back.
    pub(super) fn is_ahead_of_stream(
        &self,
        partition: PartitionId,
        life: Life,
        answer: &Result<AnswerBody, SqlError>,
    ) -> bool {
        let Ok(
            AnswerBody::Closed { .. }
            | AnswerBody::Calibrated(_)
            | AnswerBody::Fetched(_)
            | AnswerBody::Loaded { .. },
        ) = answer
        else {
            return false;
        };
        let applied = self.streams.incoming.get(&partition).map(|incoming| incoming.life());
        applied.is_some_and(|applied| applied != Life::default() && applied < life)
    }

    pub(super) fn told(
        &mut self,
        now: Time,
        question: QuestionId,
        partition: PartitionId,
        waited_ns: u64,
        answer: Result<AnswerBody, SqlError>,
        out: &mut Effects<Self>,
    ) {
        let Some(asked) = self.questions.asked.remove(&question) else { return };
        if asked.partition != partition {
            return;
        }
        match (asked.owner, answer) {
            (Owner::Read(id), answer) => {
                self.read_told(now, id, (question, partition, waited_ns), answer, out)
            }
            (Owner::Copies(txn), _) => self.copied(now, txn, out),
            (Owner::Calibration(sent, sent_at), Ok(AnswerBody::Calibrated(calibration))) => {
                self.columns.round_trip(partition, now.since(sent_at));
                self.calibrated(now, (question, partition), sent, Ok(calibration), out);
            }
            (Owner::Calibration(..), Ok(_)) => {}
            (Owner::Calibration(sent, _), Err(error)) => {
                self.calibrated(now, (question, partition), sent, Err(error), out)
            }
            (Owner::Fetch(sent), answer) => self.fetched(now, sent, partition, waited_ns, answer, out),
        }
    }
}
