//! Epochs: what this member sends in its own, what arrives of all members', and what is published.
//!
//! IN: transactions that ask to commit, time, what members have; changes of the membership; copies, and records of former
//! lives. OUT: write sets and ends of epochs to all others, questions for what is missing; epochs, merged. KEEPS: what
//! enters an own epoch is here and with the others under one number; a transaction enters no closed epoch; epochs are
//! published in order, each once all of it is here, and with quorum exposure with a majority. The outbox and the inbox
//! are changed here, but for what other members send (`hearing`).

use super::gateway::Job;
use super::inbox::{Arrived, Inbox, Missing};
use super::membership::Change;
use super::message::{Epoch, Message, Payload, Seat, Segment};
use super::options::Mutant;
use super::outbox::{Closed, Outbox};
use super::publishing::Terms;
use super::state::{Geogauss, Out};
use crate::engine::{EngineEffect, Executor};
use base::order::StreamItem;
use base::process::Unreadable;
use base::{NodeId, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

impl Geogauss {
    // ---- own epochs -------------------------------------------------------------------------------

    /// A transaction asks to commit in the open epoch, here and at all others.
    pub(super) fn ship(&mut self, now: Time, me: Seat, payload: &Arc<Payload>, out: &mut Out) -> Epoch {
        let open = self.clock.open();
        let is_late = self.cluster.options.planted(Mutant::EnterClosedEpoch) && self.outbox.count() > 0;
        let (epoch, number) = match is_late {
            true => (open.previous(), self.outbox.count()),
            false => (open, self.outbox.enter(payload.clone())),
        };
        self.inbox.write_set(now, (me.node, me), epoch, number, payload.clone());
        self.record_write_set((epoch, number), payload, out);
        self.tell_all(now, &Message::WriteSet { of: me, epoch, number, payload: payload.clone() }, out);
        epoch
    }
    /// Closes epochs that have ended.
    pub(super) fn look(&mut self, now: Time, out: &mut Out) {
        if self.life.failed.is_some() || self.membership.seat().is_none() {
            return;
        }
        if let Some(last) = self.clock.due(now, self.published.epoch()) {
            self.close(now, last, out);
        }
    }

    /// Closes the open epoch and all up to `last`.
    pub(super) fn close(&mut self, now: Time, last: Epoch, out: &mut Out) {
        let Some(me) = self.membership.seat() else { return };
        let floor = self.tell_floor();
        let count = self.outbox.count();
        let first = self.clock.close(now, last);
        let segment = Segment { first, last, count, floor };
        self.outbox.close(me, segment);
        self.closes(now, me, segment, out);
        let is_busy = self.clock.is_busy(now);
        let progress = self.progress();
        self.tell_all(now, &Message::EndOfEpoch { of: me, segment, progress, is_busy }, out);
        self.release();
    }

    /// Closes epochs early where another member has come further than this one.
    pub(super) fn keep_up(&mut self, now: Time, last: Epoch, out: &mut Out) {
        if let Some(last) = self.clock.follow(now, last, self.published.epoch()) {
            base::sometimes!("a member closes epochs early to keep up");
            self.close(now, last, out);
        }
    }
    /// Epochs go on for the time that members are busy after a transaction, or a part of it.
    pub(super) fn keep_busy(&mut self, now: Time, part: u64) {
        self.clock.keep_busy(now + self.cluster.options.pace.busy_ns / part);
    }
    /// An epoch that this member has closed counts as complete here.
    pub(super) fn count_own(&mut self, now: Time, me: Seat, segment: Segment) {
        self.inbox.end_of_epoch(now, (me.node, me), segment);
    }

    // ---- what members have ------------------------------------------------------------------------

    /// Lets go of what every member has.
    pub(super) fn release(&mut self) {
        let (peers, membership) = (&self.peers, &self.membership);
        self.outbox.release(|seat| peers.everywhere(membership, seat));
    }
    /// What has become complete is recorded, and kept for members that lack it. Answers whether other members wait to be told.
    pub(super) fn keep_news(&mut self, out: &mut Out) -> bool {
        let mut is_awaited = false;
        for (of, closed) in self.inbox.news() {
            self.record_arrived(of, &closed, out);
            is_awaited |= self.relays(of) && closed.0.count > 0;
            self.keep(of, closed);
        }
        is_awaited
    }
    fn keep(&mut self, of: Seat, closed: Closed) {
        if self.relays(of) {
            self.outbox.keep(of, closed);
        }
    }
    /// Others may have to ask this member for epochs of another one, which may be lost.
    fn relays(&self, of: Seat) -> bool {
        self.cluster.options.removes_lost && self.membership.seat() != Some(of)
    }
    /// What is missing is asked for.
    pub(super) fn ask_for_missing(&mut self, now: Time, out: &mut Out) {
        let pull_after_ns = self.cluster.options.pull_after_ns(&self.cluster.topology);
        for missing in self.inbox.missing(now, pull_after_ns) {
            let Some(to) = self.holder_of(missing) else { continue };
            let message = Message::Pull { of: missing.of, from: missing.from };
            out.push(EngineEffect::Send { to, message });
        }
    }
    /// Whom to ask for what is missing of a member: it, then all others who have it, in turn.
    fn holder_of(&self, missing: Missing) -> Option<NodeId> {
        let Missing { of, from, asked } = missing;
        let own = (of.node != self.cluster.me && self.membership.is_seat(of)).then_some(of.node);
        let others = match self.cluster.options.removes_lost {
            true => self.peers.holders(of, from),
            false => Vec::new(),
        };
        let all: Vec<NodeId> = own.into_iter().chain(others).collect();
        all.get(asked as usize % all.len().max(1)).copied()
    }

    // ---- publishing -------------------------------------------------------------------------------

    /// Every epoch up to here may be published: it is here, and with quorum exposure a majority has it.
    fn publishable(&mut self) -> Epoch {
        let options = &self.cluster.options;
        if !options.removes_lost || options.planted(Mutant::ExposeEarly) {
            return self.inbox.all_complete(|_| Epoch(u64::MAX));
        }
        self.count_own_word();
        let (peers, membership, me) = (&self.peers, &self.membership, self.cluster.me);
        self.inbox.all_complete(|seat| peers.majority_has(membership, me, seat))
    }

    /// Publishes every epoch that may be, and goes on with what waited for it.
    pub(super) fn publish(&mut self, now: Time, executor: &mut dyn Executor, out: &mut Out) {
        loop {
            let complete = self.publishable();
            if complete <= self.published.epoch() {
                break;
            }
            let next = self.inbox.next_with_transactions(self.published.epoch());
            match next.filter(|next| *next <= complete) {
                None => self.published.pass(complete),
                Some(epoch) => {
                    self.published.pass(epoch.previous());
                    self.merge(now, epoch, executor, out);
                }
            }
            self.inbox.forget(self.published.epoch());
        }
    }

    fn merge(&mut self, now: Time, epoch: Epoch, executor: &mut dyn Executor, out: &mut Out) {
        self.keep_busy(now, 1);
        let options = &self.cluster.options;
        let rank = self.clock.rank(epoch);
        let mut payloads = self.inbox.take(epoch);
        if options.planted(Mutant::PreferOwn) {
            let me = self.cluster.me;
            let own = |payload: &mut Arc<Payload>| {
                if payload.txn.coordinator == me {
                    Arc::make_mut(payload).clock = 0;
                }
            };
            payloads.iter_mut().for_each(own);
        }
        let terms = Terms {
            me: self.cluster.me,
            rule: options.rule,
            rank,
            // It never falls: a newcomer has told none yet.
            floor: self.inbox.floor_of(epoch).max(self.collected()),
            keep_results_ns: options.keep_results_ns,
            slack_ns: if options.planted(Mutant::OffByOne) { options.epoch_ns } else { 0 },
            trusts_reads: options.planted(Mutant::ValidateEarly),
        };
        let parts = (&mut self.requests, executor);
        let ended = self.published.merge(epoch, &payloads, terms, parts, out);
        self.requests.forget(rank, terms.keep_results_ns);
        let lost: Vec<Job> =
            ended.into_iter().filter_map(|ended| self.decided_here(now, ended, rank)).collect();
        for partition in self.cluster.topology.partition_ids() {
            out.push(EngineEffect::Stream { partition, item: StreamItem::Low(rank) });
        }
        self.take_floor(terms.floor, out);
        self.park(epoch, lost);
    }

    // ---- seats, copies and restarts ---------------------------------------------------------------

    /// A seat that is gone has sent what is held of it, and a new one sends from its epoch on.
    pub(super) fn change_senders(&mut self, change: &Change) {
        if let Some(seat) = change.removed {
            let last = change.last_of(seat);
            self.inbox.remove(seat, last);
            match self.membership.seat() == Some(seat) {
                true => self.outbox = Outbox::default(),
                false => self.outbox.cut_off(seat, last),
            }
        }
        if let Some(newcomer) = change.added {
            let seat = Seat { node: newcomer.node, since: self.membership.known() };
            self.inbox.add(seat, newcomer.from);
        }
    }
    /// This node has sent nothing from its seat, whose first epoch this is.
    pub(super) fn begin_epochs(&mut self, from: Epoch) {
        self.outbox = Outbox::default();
        self.clock.begin_at(from);
    }
    /// What has arrived at another node, or in a former life, and what of it others may lack.
    pub(super) fn go_on_from(&mut self, arrived: BTreeMap<Seat, Arrived>, sent: Outbox) {
        self.inbox = Inbox::copied(arrived, self.cluster.options.planted(Mutant::IgnoreCounts));
        self.outbox = sent;
    }
    /// A transaction of the open epoch that a record of a former life has.
    pub(super) fn repeat_write_set(
        &mut self,
        (epoch, number): (Epoch, u32),
        payload: Arc<Payload>,
    ) -> Result<(), Unreadable> {
        let entered = self.outbox.enter(payload.clone());
        let me = self.membership.seat().filter(|_| (epoch, number) == (self.clock.open(), entered));
        let me =
            me.ok_or_else(|| Unreadable(format!("write set {number} of epoch {} does not follow", epoch.0)))?;
        self.inbox.write_set(Time::ZERO, (me.node, me), epoch, number, payload);
        Ok(())
    }
    /// An epoch that a record of a former life has.
    pub(super) fn repeat_closed(
        &mut self,
        of: Seat,
        segment: Segment,
        payloads: Vec<Arc<Payload>>,
    ) -> Result<(), Unreadable> {
        if self.membership.seat() != Some(of) {
            for (number, payload) in payloads.into_iter().enumerate() {
                self.inbox.write_set(Time::ZERO, (of.node, of), segment.first, number as u32, payload);
            }
            self.inbox.end_of_epoch(Time::ZERO, (of.node, of), segment);
            return Ok(());
        }
        if segment.first != self.clock.open() || segment.count != self.outbox.count() {
            let (first, has) = (segment.first.0, self.outbox.count());
            let why =
                format!("the end of epoch {first} counts {} write sets, and {has} are here", segment.count);
            return Err(Unreadable(why));
        }
        self.outbox.close(of, segment);
        self.clock.come_back(segment.last);
        self.set_told_floor(segment.floor);
        self.count_own(Time::ZERO, of, segment);
        Ok(())
    }
    /// All records of former lives were repeated.
    pub(super) fn epochs_are_back(&mut self) {
        for (of, closed) in self.inbox.news() {
            self.keep(of, closed);
        }
        self.inbox.come_back();
    }
}
