//! The engine, as the rest of the node sees it: everything that is asked of it, and what its effects lead to.
//!
//! KEEPS: effects are followed in order; no other file asks the engine about cuts.

use super::*;
use base::order::{Calibration, Close, CloseTicket, Closed};

/// What a close was answered at once, and what else is to follow.
type ClosedAtOnce<E> = (Option<Result<Closed, SqlError>>, EngineEffects<E>);

impl<E: Engine> Node<E> {
    pub(super) fn begin_ordering(&mut self, now: Time, out: &mut Effects<Self>) {
        let mut effects = std::mem::take(&mut self.effects);
        self.engine.start(now, &mut effects);
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
        let mut effects = std::mem::take(&mut self.effects);
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
        let mut effects = std::mem::take(&mut self.effects);
        match self.engine.move_home(now, partition, to, &mut self.data, &mut effects) {
            Ok(txn) => self.gateway.submitted(txn, id, now),
            Err(error) => out.reply(id, Reply::Submitted(Err(error))),
        }
        self.engine_effects(now, effects, out);
    }

    pub(super) fn engine_message(
        &mut self,
        now: Time,
        from: NodeId,
        message: E::Message,
        out: &mut Effects<Self>,
    ) {
        let mut effects = std::mem::take(&mut self.effects);
        self.engine.message(now, from, message, &mut self.data, &mut effects);
        self.engine_effects(now, effects, out);
    }

    pub(super) fn engine_timer(&mut self, now: Time, timer: E::Timer, out: &mut Effects<Self>) {
        let mut effects = std::mem::take(&mut self.effects);
        self.engine.timer(now, timer, &mut self.data, &mut effects);
        self.engine_effects(now, effects, out);
    }

    // ---- questions of readers ---------------------------------------------------------------------

    /// Closes a rank at a partition of this node; answered by [`Node::closed`], maybe at once.
    pub(super) fn close(&mut self, now: Time, ticket: CloseTicket, close: Close, out: &mut Effects<Self>) {
        let mut effects = std::mem::take(&mut self.effects);
        self.engine.close(now, ticket, close, &mut effects);
        self.engine_effects(now, effects, out);
    }

    /// The same, without following the effects: for a read that is answered in the same step if nobody holds it up.
    pub(super) fn close_at_once(&mut self, now: Time, ticket: CloseTicket, close: Close) -> ClosedAtOnce<E> {
        let mut effects = std::mem::take(&mut self.effects);
        self.engine.close(now, ticket, close, &mut effects);
        let answers = |effect: &EngineEffect<E::Message, E::Timer>| matches!(effect, EngineEffect::Closed { ticket: closed, .. } if *closed == ticket);
        let closed = match effects.iter().rposition(answers).map(|nth| effects.remove(nth)) {
            Some(EngineEffect::Closed { result, .. }) => Some(result),
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
        let mut effects = std::mem::take(&mut self.effects);
        self.engine.will_close(now, partition, rank, &mut effects);
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
        let mut effects = std::mem::take(&mut self.effects);
        self.engine.find_latest(now, ticket, partition, granules, &mut self.data, &mut effects);
        self.engine_effects(now, effects, out);
    }

    /// How far a partition of this node has executed.
    pub(super) fn calibration(&mut self, now: Time, partition: PartitionId) -> Calibration {
        self.engine.calibrate(now, partition)
    }
    pub(super) fn safe_rank(&mut self, now: Time, partition: PartitionId) -> Option<Rank> {
        self.engine.safe_rank(now, partition)
    }
    pub(super) fn timestamp(&mut self, now: Time) -> Result<Rank, SqlError> {
        let refused = || SqlError::unsupported("a central timestamp with this engine's options");
        self.engine.timestamp(now).ok_or_else(refused)
    }
    /// No cut is below it. Where clocks are bounded they see to that.
    pub(super) fn least_cut(&self) -> Rank {
        if self.topology.unbounded_clocks { self.engine.least_cut() } else { Rank::ZERO }
    }

    // ---- effects ----------------------------------------------------------------------------------

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
                EngineEffect::Timer { at, timer } => out.timer(Timer::Engine(timer), at),
                EngineEffect::Answer(answer) => self.executed(now, answer, out),
                EngineEffect::Stream { partition, item } => {
                    records = true;
                    self.stream(now, partition, item, out);
                }
                EngineEffect::Closed { ticket, result } => self.closed(now, ticket, result, out),
                EngineEffect::Restored => self.restored(now, out),
                EngineEffect::Latest { ticket, rank } => self.latest(now, ticket, rank, out),
                EngineEffect::Collected { below } => {
                    self.check_lease(now, below, out);
                    let spared = self.protocol.spare(now, below);
                    self.columns.collect(below, spared);
                    self.streams.published.values_mut().for_each(|graph| graph.collect(below));
                    self.data.collect_below(below);
                }
            }
        }
        // Effects that came meanwhile have a buffer of their own; keep the larger.
        if self.effects.capacity() < effects.capacity() {
            self.effects = effects;
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
