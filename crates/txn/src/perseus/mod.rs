//! PERSEUS' transactions (§IV-A, after Janus): dependency-graph commit, with ranks.
//!
//! IN: submissions at the gateway, messages of other nodes, closes of readers. OUT: executions through
//! the [`Executor`], answers, each partition's stream. KEEPS:
//! 1. the final dependencies of a transaction are the same at all nodes;
//! 2. every conflicting pair is connected by dependencies;
//! 3. execution at each partition extends (component order, id);
//! 4. nothing executes before its whole ancestor closure is final or collected;
//! 5. an answer follows the execution at every participant;
//! 6. a PreAccept's answer never changes within a ballot, and a ballot below a promised one gets none;
//! 7. rank(T) > rank of every parent outside T's component, ≥ every pts of T;
//! 8. after `Close(t)` nothing that writes those granules appears there at or below t;
//! 9. a transaction has one end, with or without effect, at all participants; a named request has one effect;
//! 10. a collected vertex has executed everywhere and has rank ≤ watermark ≤ every reader's cut.
//!
//! The way of a transaction: the coordinator sends `PreAccept` to every participant's node; each
//! reports whom the transaction conflicts with there, and a lower bound of its rank (pts). The
//! coordinator commits with the *union* of dependencies and the largest pts (cts). A node executes a
//! transaction once the closure of its dependencies is final: then its strongly connected component is
//! known, which is the same everywhere, and so is its place,
//! `rank(C) = max(cts of C's members, 1 + rank of parents outside C)`, members of one component by id.
//! Cycles are never cut: two coordinators could cut one cycle at different edges. A component is
//! executed member by member, a transaction waiting only for what conflicts with it; participants
//! exchange what they read, and each decides the same abort from the same values.
//!
//! With one replica per partition there is no accept phase, until a coordinator is lost: then a participant
//! takes over, at a ballot of its own, and brings the transaction to the end it may already have had; see
//! `recovery`. Only the loss of a participant blocks ([`Perseus::stalled`] names what). A client that got no
//! answer may repeat its request at any gateway; see `requests`. Nothing is answered before every participant
//! has executed and the rank lies in the past, whoever decided it.
//!
//! With [`Options::records`] what has to outlive the process is recorded, and checkpoints stand for old records; see
//! `records`. The engine is a deterministic function of its calls, in order, too: a host may log them instead, repeat
//! them after a restart, and go on with [`Engine::resume`]. Either way it goes on as a new incarnation, so that ids are
//! never used twice.
//!
//! A node answers for all its partitions at once, and talks to itself through a queue inside the call:
//! a transaction that stays at one node and meets nobody runs from submission to answer in one call.
//!
//! Parts. Each owns what it remembers, in private fields.
//!
//! | part | owns |
//! |---|---|
//! | `gateway`, `coordination`, `again`, `crate::gate` | transactions named and coordinated here and how they ended, the submissions that they are attempts of, answers |
//! | `requests` | claims of named requests, gateways' waits for others' attempts |
//! | `recoveries` (`recovery`) | recoveries that this node leads |
//! | `partitions` | the numbers that this node's partitions have here |
//! | `partitions.conflicts` (`participant`) | who accessed what last, by partition |
//! | `partitions.logs` (`execution`) | how far logs are |
//! | `graph` (`places`), [`crate::graph`] | vertices: what depends on what, and how far each is |
//! | `inquiries` (`closure`) | questions about vertices of other nodes |
//! | `schedule` (`places`), [`crate::graph::turns`] | what was pre-accepted and has not executed; components under way |
//! | `closes` (`closing`) | what is closed, readers |
//! | `oracle` | timestamps handed out |
//! | `collection` (`collector`) | the watermark, reports of nodes, ids that are gone |
//! | `recorder` | how far records are stable, ceilings, what waits for them; see `records` and `image` |
//! | `reminders` (`waking`) | deadlines, timers |
//!
//! Suggested reading order: the modules below, top to bottom.

mod again;
mod closing;
mod closure;
mod cluster;
mod collection;
mod coordination;
mod coordinator;
mod execution;
mod gateway;
mod image;
mod invariants;
pub mod message;
pub mod options;
mod oracle;
mod participant;
mod partitions;
mod places;
mod plausibility;
pub mod printed;
mod recorder;
mod records;
mod recovery;
mod reminders;
mod requests;
mod schedule;
mod state;
#[cfg(test)]
mod tests;
mod vertex;
mod waking;
mod work;

pub use message::{Message, Timer};
pub use options::{FutureRanks, Mutant, Options, Records, Timestamps, Unfinished};
pub use state::Perseus;

use crate::engine::{
    Answered, Command, Engine, EngineEffects, EngineReport, Executor, Question, Record, Unanswered,
};
use base::order::Calibration;
use base::process::Unreadable;
use base::txn::Submission;
use base::{NodeId, PartitionId, Rank, SqlError, Time, TxnId};
use std::collections::BTreeMap;

impl Perseus {
    fn calibration(&mut self, now: Time, partition: PartitionId) -> Calibration {
        let closed = self.raise_closed(now, partition);
        let (position, rank) = self.partitions.log(partition);
        Calibration { position, rank, low: closed }
    }
}

impl Engine for Perseus {
    type Message = Message;

    fn start(&mut self, now: Time, out: &mut EngineEffects<Self>) {
        self.begin_reminders(now);
        self.begin_records(now, out);
    }

    fn submit(
        &mut self,
        now: Time,
        submission: Submission,
        executor: &mut dyn Executor,
        out: &mut EngineEffects<Self>,
    ) -> TxnId {
        self.record_ceiling(now, out);
        let id = self.submitted(now, submission, out);
        self.settle(now, executor, out);
        id
    }

    fn message(
        &mut self,
        now: Time,
        from: NodeId,
        message: Message,
        executor: &mut dyn Executor,
        out: &mut EngineEffects<Self>,
    ) {
        if !self.is_plausible(now, from, &message) {
            return;
        }
        self.record_ceiling(now, out);
        self.handle(now, from, message, out);
        self.settle(now, executor, out);
    }

    fn next_wake(&self) -> Option<Time> {
        self.reminders.next()
    }

    fn wake(&mut self, now: Time, executor: &mut dyn Executor, out: &mut EngineEffects<Self>) {
        self.record_ceiling(now, out);
        self.remind_of_all(now, executor, out);
    }

    fn ask(
        &mut self,
        now: Time,
        question: Question,
        _: &mut dyn Executor,
        out: &mut EngineEffects<Self>,
    ) -> Result<Option<Answered>, Unanswered> {
        let unanswered = Unanswered { question: question.name() };
        let rank = match question {
            Question::Close { ticket, close } => {
                self.open_close(now, ticket, close, out);
                return Ok(None);
            }
            Question::Forget { ticket } => {
                self.forget_close(ticket);
                return Ok(None);
            }
            // Whoever runs a partition closes it by itself.
            Question::WillClose { .. } => return Ok(None),
            Question::Calibration { partition } => {
                return Ok(Some(Answered::Calibration(self.calibration(now, partition))));
            }
            Question::SafeRank { partition } => self.raise_closed(now, partition),
            Question::Timestamp => self.hand_out_timestamp(now, Rank::ZERO).ok_or(unanswered)?,
            // Clocks see to it that no cut is too early.
            Question::LeastCut => Rank::ZERO,
            // Its ranks rest on clocks with a bound.
            Question::Latest { .. } => return Err(unanswered),
        };
        Ok(Some(Answered::Rank(rank)))
    }

    fn admin(
        &mut self,
        _: Time,
        command: Command,
        _: &mut dyn Executor,
        _: &mut EngineEffects<Self>,
    ) -> Result<TxnId, SqlError> {
        let Command::MoveHome { .. } = command;
        Err(SqlError::unsupported("moving homes with this engine"))
    }

    fn set_floor(&mut self, floor: Option<Rank>) {
        self.set_readers_floor(floor);
    }

    fn resume(&mut self, now: Time, incarnation: u32, out: &mut EngineEffects<Self>) {
        self.begin_life(incarnation);
        self.resume_reminders(now);
        self.open_gate(now, out);
        self.arm_reminders();
    }

    fn stable(
        &mut self,
        now: Time,
        records: u64,
        executor: &mut dyn Executor,
        out: &mut EngineEffects<Self>,
    ) {
        self.on_synced(now, records, out);
        self.settle(now, executor, out);
    }

    fn image(&self) -> Vec<u8> {
        self.checkpoint()
    }

    fn restore(&mut self, image: &[u8]) -> Result<(), Unreadable> {
        self.take_checkpoint(image)
    }

    fn replay(&mut self, record: Record, executor: &mut dyn Executor) -> Result<(), Unreadable> {
        self.take_record(record, executor)
    }

    fn recovered(&mut self) -> Time {
        self.come_back()
    }

    fn is_behind(&self) -> bool {
        self.recorder.is_behind()
    }

    fn absent(&self) -> Option<SqlError> {
        None
    }

    fn report(&self) -> EngineReport {
        let counters = BTreeMap::from([
            ("vertices", self.graph.len() as u64),
            ("recoveries", self.recoveries.counts().0),
            ("no-ops", self.recoveries.counts().1),
            ("requests remembered", self.requests.len() as u64),
            ("answered", self.gateway.answer_counts().1),
            ("graph bytes sent", self.measured.graph_bytes_sent),
            ("graph bytes streamed", self.measured.graph_bytes_streamed),
        ]);
        let mut held = self.collection.held();
        held.extend([
            ("vertices", self.graph.len() as u64),
            ("granules in conflict indexes", self.partitions.conflicts.granule_count() as u64),
            ("components under way", self.schedule.turns.group_count() as u64),
            ("transactions pre-accepted", self.schedule.pending_count() as u64),
            ("ranks of own transactions", self.gateway.remembered() as u64),
            ("transactions coordinated", self.gateway.under_way() as u64),
            ("transactions recovered", (self.recoveries.len() + self.requests.attended_count()) as u64),
            ("inquiries", self.inquiries.len() as u64),
            ("deadlines", self.reminders.deadline_count() as u64),
            ("answers at the gate", self.gateway.answer_counts().0 as u64),
            ("closes", (self.closes.len() + self.recorder.held_count()) as u64),
            ("requests remembered", self.requests.len() as u64),
        ]);
        EngineReport {
            counters,
            held,
            refused_messages: self.measured.refused.clone(),
            ..EngineReport::default()
        }
    }
}
