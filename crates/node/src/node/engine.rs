//! The engine as the rest of the node speaks to it: questions, what it asks for, and the one alarm that wakes it.
//!
//! KEEPS: after every call that may change when the engine wants to be woken an alarm is set for then.

use super::*;
use base::order::{Calibration, CloseTicket};
use txn::engine::{Question, Unanswered};

/// Every engine answers `Close`, `Forget`, `Calibration` and `LeastCut`.
const ALWAYS: &str = "every engine answers this question, and at once";

impl<E: Engine> Node<E> {
    /// Asks the engine; what it wants done is for [`Node::engine_effects`], the answer, or that there is none, included.
    pub(super) fn ask_engine(
        &mut self,
        now: Time,
        ticket: CloseTicket,
        question: Question,
    ) -> EngineEffects<E> {
        let mut effects = std::mem::take(&mut self.effects);
        match self.engine.ask(now, question, &mut self.data, &mut effects) {
            Ok(None) => {}
            Ok(Some(answered)) => effects.push(EngineEffect::Answered { ticket, result: Ok(answered) }),
            Err(refused) => effects.push(EngineEffect::Answered { ticket, result: Err(refused.into()) }),
        }
        effects
    }

    /// Closes a rank at a partition of this node.
    pub(super) fn close_rank(&mut self, now: Time, ticket: CloseTicket, close: Close) -> EngineEffects<E> {
        self.ask_engine(now, ticket, Question::Close { ticket, close })
    }

    /// A reader of this node is about to ask another one to close a rank.
    pub(super) fn will_close(
        &mut self,
        now: Time,
        partition: PartitionId,
        rank: Rank,
        out: &mut Effects<Self>,
    ) {
        let mut effects = std::mem::take(&mut self.effects);
        // An engine that has nothing to do then may say so.
        let question = Question::WillClose { partition, rank };
        let _: Result<_, Unanswered> = self.engine.ask(now, question, &mut self.data, &mut effects);
        self.engine_effects(now, effects, out);
    }

    /// What can be answered without waiting and changes nothing that others would have to hear of.
    pub(super) fn ask_at_once(&mut self, now: Time, question: Question) -> Result<Answered, Unanswered> {
        let name = question.name();
        let mut effects = std::mem::take(&mut self.effects);
        let answered = self.engine.ask(now, question, &mut self.data, &mut effects);
        assert!(effects.is_empty(), "{name} asks nothing of the node");
        self.effects = effects;
        answered?.ok_or(Unanswered { question: name })
    }

    /// How far a partition of this node has executed.
    pub(super) fn calibration(&mut self, now: Time, partition: PartitionId) -> Calibration {
        let answered = self.ask_at_once(now, Question::Calibration { partition });
        answered.and_then(Answered::calibration).expect(ALWAYS)
    }

    /// No cut of this node is below.
    pub(super) fn least_cut(&mut self, now: Time) -> Rank {
        self.ask_at_once(now, Question::LeastCut).and_then(Answered::rank).expect(ALWAYS)
    }

    /// Sets an alarm for when the engine wants to be woken.
    pub(super) fn arm_engine(&mut self, out: &mut Effects<Self>) {
        if let Some(at) = self.armed.engine.arm(self.engine.next_wake()) {
            out.timer(Timer::Engine(at), at);
        }
    }

    pub(super) fn wake_engine(&mut self, now: Time, alarm: Time, out: &mut Effects<Self>) {
        self.armed.engine.went_off(alarm);
        let mut effects = std::mem::take(&mut self.effects);
        self.engine.wake(now, &mut self.data, &mut effects);
        self.engine_effects(now, effects, out);
    }

    /// Does what a call of the engine asked for.
    pub(super) fn engine_effects(
        &mut self,
        now: Time,
        mut effects: EngineEffects<E>,
        out: &mut Effects<Self>,
    ) {
        let mut records = false;
        for effect in effects.drain(..) {
            match effect {
                EngineEffect::Send { to, message } => self.send(to, Message::Engine(message), out),
                EngineEffect::Answer(answer) => self.answer_when_copied(now, answer, out),
                EngineEffect::Stream { partition, item } => {
                    records = true;
                    self.stream(now, partition, item, out);
                }
                EngineEffect::Answered { ticket, result: Ok(Answered::Rank(rank)) } => {
                    self.latest(now, ticket, rank, out)
                }
                EngineEffect::Answered { ticket, result } => {
                    let closed = result.and_then(|answered| Ok(answered.closed()?));
                    self.closed(now, ticket, closed, out)
                }
                EngineEffect::Restored => self.restored(now, out),
                EngineEffect::Collected { below } => {
                    self.check_lease(now, below, out);
                    let spared = self.rival.as_mut().map_or(below, |rival| rival.spare(now, below));
                    self.columns.collected_below = self.columns.collected_below.max(spared);
                    self.columns.graph.collect(below);
                    self.streams.published.values_mut().for_each(|graph| graph.collect(below));
                    self.data.collect_below(below);
                }
            }
        }
        // Effects that came meanwhile have a buffer of their own; keep the larger.
        if self.effects.capacity() < effects.capacity() {
            self.effects = effects;
        }
        self.arm_engine(out);
        if records {
            self.finish_queries(now, out);
        }
        if self.data.has_written() {
            self.end_executed_locks(now, out);
        }
    }
}
