//! The engine, as the rest of the node sees it: everything that is asked of it, and what its effects lead to.
//!
//! KEEPS: effects are followed in order; after every call that may change when the engine wants to be woken an alarm is
//! set for then; no other file asks the engine about cuts.

use super::*;
use base::order::{Calibration, Close, CloseTicket, Closed};
use txn::engine::{Answered, Command, Question as Asked, Unanswered};
use txn::timers::Alarms;

/// What a close was answered at once, and what else is to follow.
type ClosedAtOnce<E> = (Option<Result<Closed, SqlError>>, EngineEffects<E>);

/// What the engine has said of itself, as of its last call; and checkpoints of it.
pub(super) struct Told<E: Engine> {
    /// When it is to be woken.
    alarms: Alarms,
    /// No cut is below it, where clocks have no bound.
    pub least_cut: Rank,
    /// Reused between steps.
    effects: EngineEffects<E>,
    pub recording: super::recording::Recording,
    /// Its logs may lack what those of former lives had: see [`Engine::is_behind`].
    pub is_behind: bool,
}

impl<E: Engine> Default for Told<E> {
    fn default() -> Self {
        let (least_cut, recording) = (Rank::ZERO, super::recording::Recording::default());
        Told { alarms: Alarms::default(), least_cut, effects: Vec::new(), recording, is_behind: false }
    }
}

impl<E: Engine> Node<E> {
    pub(super) fn take_effects(&mut self) -> EngineEffects<E> {
        std::mem::take(&mut self.told.effects)
    }
    pub(super) fn begin_ordering(&mut self, now: Time, out: &mut Effects<Self>) {
        let mut effects = std::mem::take(&mut self.told.effects);
        self.engine.start(now, &mut effects);
        self.fall_behind();
        self.engine_effects(now, effects, out);
    }

    pub(super) fn submit(
        &mut self,
        now: Time,
        id: RequestId,
        submission: Submission,
        out: &mut Effects<Self>,
    ) {
        if let Err(error) = self.check_token(now, &submission.token) {
            return out.reply(id, Reply::Submitted(Err(error)));
        }
        let mut effects = std::mem::take(&mut self.told.effects);
        let awaited = self.protocol.awaited(&mut submission.access.by_partition.keys().copied());
        let txn = self.engine.submit(now, submission, &mut self.data, &mut effects);
        self.gateway.submitted(txn, id, now);
        self.protocol.submitted(txn, awaited);
        self.engine_effects(now, effects, out);
    }

    pub(super) fn move_home(
        &mut self,
        now: Time,
        id: RequestId,
        (partition, to): (PartitionId, RegionId),
        out: &mut Effects<Self>,
    ) {
        let mut effects = std::mem::take(&mut self.told.effects);
        match self.engine.admin(now, Command::MoveHome { partition, to }, &mut self.data, &mut effects) {
            Ok(txn) => self.gateway.submitted(txn, id, now),
            Err(error) => out.reply(id, Reply::Submitted(Err(error))),
        }
        self.engine_effects(now, effects, out);
    }

    pub(super) fn hand_over(&mut self, now: Time, id: RequestId, out: &mut Effects<Self>) {
        let mut effects = std::mem::take(&mut self.told.effects);
        self.engine.hand_over(now, &mut self.data, &mut effects);
        self.engine_effects(now, effects, out);
        out.reply(id, Reply::Noted);
    }

    pub(super) fn engine_message(
        &mut self,
        now: Time,
        from: NodeId,
        message: E::Message,
        out: &mut Effects<Self>,
    ) {
        let mut effects = std::mem::take(&mut self.told.effects);
        self.engine.message(now, from, message, &mut self.data, &mut effects);
        self.engine_effects(now, effects, out);
    }

    /// An alarm that was set for this time has gone off, or else the engine has something left to do.
    pub(super) fn wake_engine(&mut self, now: Time, alarm: Option<Time>, out: &mut Effects<Self>) {
        match alarm {
            Some(alarm) => self.told.alarms.went_off(alarm),
            None => self.told.alarms.went_on(),
        }
        let mut effects = std::mem::take(&mut self.told.effects);
        self.engine.wake(now, &mut self.data, &mut effects);
        self.engine_effects(now, effects, out);
    }

    // ---- questions of readers ---------------------------------------------------------------------

    /// Asks the engine; the answer, or that there is none, is among the effects or comes later.
    fn ask_engine(&mut self, now: Time, ticket: CloseTicket, question: Asked) -> EngineEffects<E> {
        let mut effects = std::mem::take(&mut self.told.effects);
        match self.engine.ask(now, question, &mut self.data, &mut effects) {
            Ok(None) => {}
            Ok(Some(answered)) => effects.push(EngineEffect::Answered { ticket, result: Ok(answered) }),
            Err(refused) => effects.push(EngineEffect::Answered { ticket, result: Err(refused.into()) }),
        }
        effects
    }

    /// What can be answered without waiting and changes nothing that others would have to hear of.
    fn ask_at_once(&mut self, now: Time, question: Asked) -> Result<Answered, Unanswered> {
        let name = question.name();
        let mut effects = std::mem::take(&mut self.told.effects);
        let answered = self.engine.ask(now, question, &mut self.data, &mut effects);
        assert!(effects.is_empty(), "{name} asks nothing of the node");
        self.told.effects = effects;
        answered?.ok_or(Unanswered { question: name })
    }

    /// Closes a rank at a partition of this node; answered by [`Node::closed`], maybe at once.
    pub(super) fn close(&mut self, now: Time, ticket: CloseTicket, close: Close, out: &mut Effects<Self>) {
        let effects = self.ask_engine(now, ticket, Asked::Close { ticket, close });
        self.engine_effects(now, effects, out);
    }

    /// The same, without following the effects: for a read that is answered in the same step if nobody holds it up.
    pub(super) fn close_at_once(&mut self, now: Time, ticket: CloseTicket, close: Close) -> ClosedAtOnce<E> {
        let mut effects = self.ask_engine(now, ticket, Asked::Close { ticket, close });
        let answers = |effect: &EngineEffect<E::Message>| matches!(effect, EngineEffect::Answered { ticket: answered, .. } if *answered == ticket);
        let closed = match effects.iter().rposition(answers).map(|nth| effects.remove(nth)) {
            Some(EngineEffect::Answered { result, .. }) => Some(closed_of(result)),
            _ => None,
        };
        (closed, effects)
    }

    /// The nearest copy, at another node, is about to be asked to close a rank.
    pub(super) fn will_close(
        &mut self,
        now: Time,
        partition: PartitionId,
        rank: Rank,
        out: &mut Effects<Self>,
    ) {
        let mut effects = std::mem::take(&mut self.told.effects);
        // An engine that has nothing to do then may say so.
        let question = Asked::WillClose { partition, rank };
        let _: Result<_, Unanswered> = self.engine.ask(now, question, &mut self.data, &mut effects);
        self.engine_effects(now, effects, out);
    }

    /// How late a cut has to be; answered by [`Node::latest`].
    pub(super) fn find_latest(
        &mut self,
        now: Time,
        ticket: CloseTicket,
        partition: PartitionId,
        granules: Vec<Granule>,
        out: &mut Effects<Self>,
    ) {
        let effects = self.ask_engine(now, ticket, Asked::Latest { ticket, partition, granules });
        self.engine_effects(now, effects, out);
    }

    /// How far a partition of this node has executed.
    pub(super) fn calibration(&mut self, now: Time, partition: PartitionId) -> Calibration {
        let answered = self.ask_at_once(now, Asked::Calibration { partition });
        answered.and_then(Answered::calibration).expect("every engine can tell how far it is")
    }
    pub(super) fn safe_rank(&mut self, now: Time, partition: PartitionId) -> Option<Rank> {
        self.ask_at_once(now, Asked::SafeRank { partition }).and_then(Answered::rank).ok()
    }
    pub(super) fn timestamp(&mut self, now: Time) -> Result<Rank, SqlError> {
        let refused = |_| SqlError::unsupported("a central timestamp with this engine's options");
        self.ask_at_once(now, Asked::Timestamp).and_then(Answered::rank).map_err(refused)
    }
    // ---- effects ----------------------------------------------------------------------------------

    pub(super) fn engine_effects(
        &mut self,
        now: Time,
        mut effects: EngineEffects<E>,
        out: &mut Effects<Self>,
    ) {
        // Where clocks are bounded they see to it that no cut is too early.
        if self.topology.unbounded_clocks {
            let answered = self.ask_at_once(now, Asked::LeastCut).and_then(Answered::rank);
            self.told.least_cut = answered.expect("every engine knows its least cut");
        }
        let mut records = false;
        for effect in effects.drain(..) {
            match effect {
                EngineEffect::Send { to, message } => self.send(to, Message::Engine(message), out),
                EngineEffect::Answer(answer) => self.executed(now, answer, out),
                EngineEffect::Stream { partition, item } => {
                    records = true;
                    self.stream(now, partition, item, out);
                }
                EngineEffect::Answered { ticket, result: Ok(Answered::Rank(rank)) } => {
                    self.latest(now, ticket, rank, out)
                }
                EngineEffect::Answered { ticket, result } => self.closed(now, ticket, closed_of(result), out),
                EngineEffect::Record(record) => out.record(super::recording::of_engine(record)),
                EngineEffect::Restored => self.restored(now, out),
                EngineEffect::Collected { below } => {
                    self.check_lease(now, below, out);
                    let spared = self.protocol.spare(now, below);
                    self.columns.collect(below, spared);
                    self.streams.published.values_mut().for_each(|graph| graph.collect(below));
                    self.data.collect_below(below);
                    self.data.replicas.collect_below(spared);
                }
            }
        }
        // Effects that came meanwhile have a buffer of their own; keep the larger.
        if self.told.effects.capacity() < effects.capacity() {
            self.told.effects = effects;
        }
        if let Some(at) = self.told.alarms.arm(self.engine.next_wake()) {
            out.timer(Timer::Engine(at), at);
        }
        if self.told.alarms.go_on(self.engine.goes_on()) {
            out.give_way(Timer::EngineOn);
        }
        if records {
            self.advance_all(now, out);
        }
        if self.data.has_written() {
            self.end_executed_locks(now, out);
        }
    }

    /// A transaction's client may be told.
    pub(super) fn answered(&mut self, now: Time, answer: Answer, out: &mut Effects<Self>) {
        if let Some((id, submitted)) = self.gateway.answered(now, answer, self.options.incarnation) {
            out.reply(id, Reply::Submitted(Ok(submitted)));
        }
    }
}

fn closed_of(result: Result<Answered, SqlError>) -> Result<Closed, SqlError> {
    result.and_then(|answered| Ok(answered.closed()?))
}
