//! What arrives from other nodes.
//!
//! IN: messages. OUT: what each part makes of its own. KEEPS: what is said from a seat that is gone counts for nothing, but
//! that its sender is told of the change; a node that takes a copy hears nothing else.

use super::message::{Message, Progress};
use super::state::{Geogauss, Out};
use crate::engine::{EngineEffect, Executor};
use base::{NodeId, SqlError, Time};

impl Geogauss {
    pub(super) fn handle(
        &mut self,
        now: Time,
        from: NodeId,
        message: Message,
        executor: &mut dyn Executor,
        out: &mut Out,
    ) {
        if self.life.failed.is_some() {
            return;
        }
        if from == self.cluster.me || usize::from(from.0) >= self.cluster.topology.nodes.len() {
            return self.inbox.refuse(from, "a message of no other node");
        }
        if !self.is_current() {
            return self.while_taking_a_copy(now, from, message, executor, out);
        }
        match message {
            Message::WriteSet { of, epoch, number, payload } => {
                self.peers.heard_seat(&self.membership, from, of);
                self.keep_busy(now, 1);
                self.inbox.write_set(now, (from, of), epoch, number, payload);
            }
            Message::EndOfEpoch { of, segment, progress, is_busy } => {
                self.heard(now, from, progress, out);
                if is_busy {
                    self.keep_busy(now, 2);
                }
                self.inbox.end_of_epoch(now, (from, of), segment);
                if self.membership.is_seat(of) {
                    self.keep_up(now, segment.last, out);
                }
            }
            Message::Alive { progress } => self.heard(now, from, progress, out),
            Message::Pull { of, from: first } => {
                base::sometimes!("an epoch is sent again");
                let again = self.outbox.again(of, first, &self.progress());
                out.extend(again.into_iter().map(|message| EngineEffect::Send { to: from, message }));
            }
            Message::Changes { after, changes } => self.learn(now, after, changes, out),
            Message::Join { known, incarnation, is_ready } => {
                self.on_join(from, (known, incarnation, is_ready), out);
            }
            Message::CopyWanted { copy, from: first } => {
                self.on_copy_wanted(now, from, (copy, first), executor, out);
            }
            Message::OldLife { .. } | Message::CopyPart { .. } | Message::CopyEnded { .. } => {}
            message @ (Message::Prepare { .. }
            | Message::Promise { .. }
            | Message::Accept { .. }
            | Message::Accepted { .. }
            | Message::Outvoted { .. }) => self.on_attempt(now, from, message, out),
        }
    }

    /// Nothing else that comes is of use before the copy is here.
    fn while_taking_a_copy(
        &mut self,
        now: Time,
        from: NodeId,
        message: Message,
        executor: &mut dyn Executor,
        out: &mut Out,
    ) {
        match message {
            Message::CopyPart { copy, by, number, of, part } => {
                self.on_copy_part(now, from, (copy, by, number, of, part), executor, out);
            }
            Message::CopyEnded { copy } => self.on_copy_ended(now, from, copy, out),
            Message::OldLife { incarnation } => {
                self.on_old_life(incarnation);
            }
            _ => {}
        }
    }

    fn heard(&mut self, now: Time, from: NodeId, progress: Progress, out: &mut Out) {
        let counts = progress.stage <= self.membership.known();
        match progress.seat {
            Some(seat) if seat.node == from && self.membership.is_seat(seat) => {
                self.peers.heard(from);
                self.peers.told(from, &progress, counts);
                self.membership.heard_incarnation(from, progress.incarnation);
                self.release();
            }
            None => self.peers.told(from, &progress, false),
            // A seat that is gone, or not known here yet.
            Some(_) => {}
        }
        self.inbox.is_elsewhere(now, &progress.have);
        self.compare_changes(from, &progress, out);
        if self.published.differs(progress.decided) {
            let at = progress.decided.0.0;
            let error =
                SqlError::internal(format!("this node and {from:?} have decided epoch {at} differently"));
            self.stop_for_good(error);
        }
    }

    /// A node would be let in.
    pub(super) fn on_join(
        &mut self,
        from: NodeId,
        (known, incarnation, is_ready): (u64, u32, bool),
        out: &mut Out,
    ) {
        if self.membership.seat().is_none() || !self.cluster.options.removes_lost {
            return;
        }
        let latest = self.membership.incarnation_of(from);
        let is_seated = self.membership.seat_of(from).is_some();
        // A node that knows a later change may have lost its seat there.
        let is_twice = is_seated && incarnation == latest && known == self.membership.known();
        if incarnation < latest || is_twice {
            self.inbox.refuse(from, "a member that comes back in an old life");
            return out
                .push(EngineEffect::Send { to: from, message: Message::OldLife { incarnation: latest } });
        }
        if is_seated {
            if incarnation > latest {
                // What the former life has promised and sent is gone.
                self.peers.has_forgotten(from);
            }
            return;
        }
        self.peers.would_join(from, incarnation, is_ready);
    }

    // ---- how the others are -----------------------------------------------------------------------

    /// A member that has said nothing for long counts as silent from now on; newcomers that are silent for long are forgotten.
    pub(super) fn look_at_silence(&mut self, now: Time) {
        let options = &self.cluster.options;
        self.peers.look(now, 2 * options.beat_ns);
        self.peers.drop_silent_newcomers(4 * options.suspect_after_ns(&self.cluster.topology));
    }
    /// What this member has counts towards a majority, while it takes part in no change that is not agreed.
    pub(super) fn count_own_word(&mut self) {
        if self.membership.seat().is_some() && self.membership.stage() == self.membership.known() {
            let have = self.safe_have();
            self.peers.state(&have);
        }
    }
    /// Errors: a member is lost, and nothing is published.
    pub(super) fn available(&mut self) -> Result<(), SqlError> {
        self.peers.check(&self.cluster, &self.membership)
    }
}
