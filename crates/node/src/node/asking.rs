//! Questions between readers and partitions, on this node or another.
//!
//! A question is repeated until it is answered, and served once at a time; serving it again is harmless.

use super::*;
use crate::message::AnswerBody;
use crate::questions::{Asked, Owner};
use base::Key;
use base::key::KeyRange;
use base::order::{CloseTicket, Closed, StreamItem};
use base::txn::RowRead;
use reads::snapshot::Told;
use txn::engine::Unanswered;

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
            Question::Rows { at, .. } | Question::Call { at, .. } => Some(*at),
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
                let calibration = self.calibration(now, partition);
                return self.answer(
                    now,
                    from,
                    question,
                    partition,
                    0,
                    Ok(AnswerBody::Calibrated(calibration)),
                    out,
                );
            }
            Question::Timestamp | Question::Batches | Question::Replicated(_) => {
                return self.serve_rival(now, from, question, partition, &what, out);
            }
            Question::Record(txn) => return self.serve_record(now, from, question, partition, *txn, out),
            Question::Latest(granules) => {
                let granules = granules.clone();
                return self.serve_latest(now, from, question, partition, granules, out);
            }
            Question::Close(close) => (close.rank, close.granules.clone()),
            Question::Rows { at, reads } => (*at, reads.iter().map(granule_of).collect()),
            Question::Call { at, call } => (*at, call.access.iter().map(|a| a.granule.clone()).collect()),
        };
        let ticket = self.questions.next_ticket();
        if !self.begin_serving(now, from, question, ticket, partition, what) {
            base::sometimes!("a question is repeated while it is being answered");
            return;
        }
        let effects = self.close_rank(now, ticket, Close { partition, rank, granules });
        self.engine_effects(now, effects, out);
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

    /// What a question about rows of a partition that is closed here gets, read by read.
    pub(super) fn rows_of(
        &self,
        partition: PartitionId,
        what: &Question,
    ) -> Result<Vec<Vec<(Key, base::Row)>>, SqlError> {
        match what {
            Question::Rows { at, reads } => self.data.read(partition, *at, reads),
            Question::Call { at, call } => {
                let rows = self.data.store(partition).call_at(*at, &call.name, &call.args, &call.access);
                let keyless = |row| (Key::new(), row);
                rows.map(|rows| vec![rows.into_iter().map(keyless).collect()])
            }
            _ => unreachable!("no other question is about rows"),
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
                self.low_pending.remove(&partition);
                if result.is_ok() {
                    self.stream(now, partition, StreamItem::Low(rank), out);
                    // Later than its timer: transactions were under way.
                    if serving.since < now {
                        self.flush(now, out);
                    }
                }
            }
            Purpose::Latest { to, question } => {
                self.questions.serving_for.remove(&(to, question));
                let refused = result.and_then(|_| Err(Unanswered { question: "latest" }.into()));
                self.answer(now, to, question, partition, now.since(serving.since), refused, out);
            }
            Purpose::Answer { to, question, what } => {
                self.questions.serving_for.remove(&(to, question));
                let answer = result.and_then(|closed| match what {
                    Question::Rows { .. } | Question::Call { .. } => {
                        self.rows_of(partition, &what).map(AnswerBody::Rows)
                    }
                    _ => {
                        let calibration = self.calibration(now, partition);
                        let closed = Closed { position: closed.position.max(calibration.position) };
                        Ok(AnswerBody::Closed { closed, through: calibration.low })
                    }
                });
                if to != self.id {
                    // Records first: the asker waits for them anyway.
                    self.flush(now, out);
                }
                self.answer(now, to, question, partition, now.since(serving.since), answer, out);
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
        self.send(to, Message::Told { question, partition, waited_ns, answer }, out);
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
            (Owner::Query(id), Ok(body)) => {
                let Some(query) = self.queries.get_mut(&id) else { return };
                match body {
                    AnswerBody::Closed { closed, through } => {
                        query.rule.told(now, Told::Closed { partition, closed, through, waited_ns })
                    }
                    AnswerBody::Latest(rank) => query.rule.told(now, Told::Latest { partition, rank }),
                    AnswerBody::Timestamp(rank) => query.rule.told(now, Told::Timestamp { rank }),
                    AnswerBody::Batches(published) => query.rule.told(now, Told::Batches { published }),
                    AnswerBody::Calibrated(_)
                    | AnswerBody::Rows(_)
                    | AnswerBody::Replicated
                    | AnswerBody::Streamed => return,
                }
                self.ask_on(now, id, out);
                self.finish_query(now, id, out);
            }
            (Owner::Query(id), Err(error)) => {
                if self.queries.contains_key(&id) {
                    self.vanished(id);
                    out.reply(id, Reply::Snapshot(Err(error)));
                }
            }
            (Owner::Read(id), Ok(AnswerBody::Rows(rows))) => {
                let Some(state) = self.row_reads.get_mut(&id) else { return };
                let on_the_way_ns = now.since(state.cut.arrived).saturating_sub(waited_ns);
                state.coordination_ns = state.coordination_ns.max(on_the_way_ns);
                state.waited_ns = state.waited_ns.max(waited_ns);
                let slots = state.open.remove(&question).unwrap_or_default();
                for (slot, rows) in slots.into_iter().zip(rows) {
                    state.rows[slot] = rows;
                }
                self.finish_row_read(now, id, out);
            }
            (Owner::Cut(id), Ok(AnswerBody::Latest(rank))) => self.cut_told(now, id, question, rank, out),
            (Owner::Read(_) | Owner::Cut(_), Ok(_)) => {}
            (Owner::Scan(node, scan), answer) => {
                self.scan_told(now, (node, scan), partition, waited_ns, answer, out)
            }
            (Owner::Copies(txn), _) => self.copied(now, txn, out),
            (Owner::Calibration(sent_at), Ok(AnswerBody::Calibrated(calibration))) => {
                self.columns.delays.round_trip(partition, now.since(sent_at));
                self.calibrated(now, partition, sent_at, Ok(calibration), out);
            }
            (Owner::Calibration(_), Ok(_)) => {}
            (Owner::Calibration(sent_at), Err(error)) => {
                self.calibrated(now, partition, sent_at, Err(error), out)
            }
            (Owner::Cut(id), Err(error)) => self.cut_failed(id, error, out),
            (Owner::Read(id), Err(error)) => {
                if self.row_reads.contains_key(&id) {
                    self.vanished(id);
                    out.reply(id, Reply::Rows(Err(error)));
                }
            }
        }
    }
}

/// What a row read touches. Through an index, a row may have left or entered the range by a write that
/// names only its key, so the whole table is closed.
pub(super) fn granule_of(read: &RowRead) -> Granule {
    match read.index {
        None => Granule::of(read.table, read.range.clone()),
        Some(_) => Granule::Range(read.table, KeyRange::all()),
    }
}
