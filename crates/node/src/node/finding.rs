//! Strong reads where clocks have no bound: their cut is found by asking, then used like a given one.
//!
//! IN: requests that need to see whatever was answered before they came. OUT: the same requests at a cut. KEEPS: each
//! copy is asked after the request arrived (`Question::Latest`); the cut is at least what each tells, the session's
//! token, and what may be collected. Level `rss` is refused: nobody can tell real time there. Levels `session` and
//! `stale` find theirs so where no columns are that could be read.

use super::reading::RowCut;
use super::*;
use crate::message::AnswerBody;
use crate::questions::Owner;
use base::cut::CutChoice;
use base::order::CloseTicket;

/// A request whose cut is being found.
pub(super) struct Finding {
    what: Request,
    arrived: Time,
    at: Rank,
    open: BTreeSet<QuestionId>,
}

impl<E: Engine> Node<E> {
    /// Finds the cut of a request that reads this, and begins it then.
    pub(super) fn find_cut(
        &mut self,
        now: Time,
        id: RequestId,
        what: Request,
        reads: BTreeMap<PartitionId, Vec<Granule>>,
        token: Rank,
        out: &mut Effects<Self>,
    ) {
        let questions: Vec<_> =
            reads.into_iter().map(|read| (self.questions.next_question(), read)).collect();
        let open = questions.iter().map(|(question, _)| *question).collect();
        self.findings.insert(id, Finding { what, arrived: now, at: token, open });
        for (question, (partition, granules)) in questions {
            self.ask(now, question, partition, Question::Latest(granules), Owner::Cut(id), out);
        }
        self.cut_found(now, id, out);
    }

    pub(super) fn serve_latest(
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
        let question = txn::engine::Question::Latest { ticket, partition, granules };
        let effects = self.ask_engine(now, ticket, question);
        self.engine_effects(now, effects, out);
    }

    /// The engine knows how late a cut has to be.
    pub(super) fn latest(&mut self, now: Time, ticket: CloseTicket, rank: Rank, out: &mut Effects<Self>) {
        let Some(serving) = self.questions.serving.remove(&ticket) else { return };
        let Purpose::Latest { to, question } = serving.purpose else { unreachable!("it asked for that") };
        self.questions.serving_for.remove(&(to, question));
        let answer = Ok(AnswerBody::Latest(rank));
        self.answer(now, to, question, serving.partition, now.since(serving.since), answer, out);
    }

    pub(super) fn cut_told(
        &mut self,
        now: Time,
        id: RequestId,
        question: QuestionId,
        rank: Rank,
        out: &mut Effects<Self>,
    ) {
        let Some(finding) = self.findings.get_mut(&id) else { return };
        finding.at = finding.at.max(rank);
        finding.open.remove(&question);
        self.cut_found(now, id, out);
    }

    fn cut_found(&mut self, now: Time, id: RequestId, out: &mut Effects<Self>) {
        if self.findings.get(&id).is_none_or(|finding| !finding.open.is_empty()) {
            return;
        }
        let Finding { what, arrived, at, .. } = self.findings.remove(&id).expect("just found");
        let at = at.max(self.least_cut(now));
        let cut = RowCut { arrived, at, choice: CutChoice::Calibrated };
        match what {
            Request::ReadRows(read) => self.read_rows_at(now, id, cut, read, out),
            Request::Call(call) => self.call_at(now, id, cut, call, out),
            Request::OpenSnapshot(open) => {
                let open = OpenSnapshot { at: Some(at), ..open };
                self.gather(now, id, open, (at, CutChoice::Calibrated), out)
            }
            Request::Pin { .. } => {
                let pinned = self.pin(id, at);
                out.reply(id, Reply::Pinned(Ok(pinned)));
            }
            _ => unreachable!("only reads have cuts"),
        }
    }

    pub(super) fn cut_failed(&mut self, id: RequestId, error: SqlError, out: &mut Effects<Self>) {
        let Some(finding) = self.findings.remove(&id) else { return };
        self.vanished(id);
        let reply = match finding.what {
            Request::OpenSnapshot(_) => Reply::Snapshot(Err(error)),
            Request::Pin { .. } => Reply::Pinned(Err(error)),
            _ => Reply::Rows(Err(error)),
        };
        out.reply(id, reply);
    }
}

/// Level `rss` where clocks have no bound.
pub fn rests_on_clocks() -> SqlError {
    SqlError::unsupported("level rss where clocks have no bound")
        .detail("Real time between transactions that do not conflict cannot be told without clocks.")
        .hint("SET meridian.consistency = 'regular': one serial order, and whatever was answered before is in there.")
}
