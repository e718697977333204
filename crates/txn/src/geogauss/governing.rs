//! Members that are lost are removed, and nodes that have caught up are let in.
//!
//! IN: who is silent, in the word of a majority; newcomers that are ready; messages of attempts. OUT: attempts of this
//! member; agreed changes, applied to every part. KEEPS: a change is applied once, in order; of attempts that fail
//! another follows, later the more members come before this one; a member that has promised somebody does not rest
//! before the change is decided, because until then what it says counts for nobody.

use super::membership::{Change, Membership, Said, Standing, Vote, Wish};
use super::message::{Epoch, Message, Progress, Seat};
use super::peers::Peers;
use super::state::{Geogauss, Out};
use crate::engine::EngineEffect;
use base::time::MS;
use base::{NodeId, Time};
use std::collections::{BTreeMap, BTreeSet};

/// When this node last had reason to change the membership, and tried.
#[derive(Clone, Debug, Default)]
pub(super) struct Government {
    /// Members that this one has not heard for long.
    pub doubts: BTreeSet<Seat>,
    wished_since: Option<Time>,
    tried_at: Option<Time>,
}

impl Government {
    /// There is no reason to change anything now.
    fn rest(&mut self) {
        (self.wished_since, self.tried_at) = (None, None);
    }
}

impl Geogauss {
    /// It takes a member for lost.
    #[cfg(test)]
    pub(super) fn has_doubts(&self) -> bool {
        !self.government.doubts.is_empty()
    }
    fn wish(&self) -> Option<Wish> {
        let own = &self.government.doubts;
        let is_agreed = |seat: &&Seat| {
            let doubters = self.peers.doubters(&self.membership, **seat) + 1;
            doubters >= self.membership.majority()
        };
        if let Some(seat) = own.iter().find(is_agreed) {
            return Some(Wish::Remove(*seat));
        }
        let mut ready = self
            .peers
            .newcomers()
            .filter(|(node, waiting)| waiting.is_ready && self.membership.seat_of(*node).is_none());
        if let Some((node, waiting)) = ready.next() {
            return Some(Wish::Add { node, incarnation: waiting.incarnation });
        }
        (self.membership.stage() > self.membership.known()).then_some(Wish::Settle)
    }

    /// Begins an attempt if there is reason to, and it is this member's turn.
    pub(super) fn govern(&mut self, now: Time, out: &mut Out) {
        let Some(seat) = self.membership.seat().filter(|_| self.cluster.options.removes_lost) else { return };
        self.government.doubts = self
            .peers
            .doubted(&self.membership, self.cluster.options.suspect_after_ns(&self.cluster.topology));
        let Some(wish) = self.wish() else {
            return self.government.rest();
        };
        let since = *self.government.wished_since.get_or_insert(now);
        let before =
            self.membership.seats().filter(|other| *other < seat && !self.government.doubts.contains(other));
        let turn = before.count() as u64 + u64::from(wish == Wish::Settle);
        let retry_ns = self.cluster.options.retry_after_ns(&self.cluster.topology);
        let is_turn = now.since(since) >= turn * retry_ns;
        let is_time = self.government.tried_at.is_none_or(|at| now.since(at) >= (turn + 1) * retry_ns);
        let Some(standing) = self.standing().filter(|_| is_turn && is_time) else { return };
        self.government.tried_at = Some(now);
        // So that nobody waits for the newcomer before it has heard of the change.
        let margin_ns = 2 * self.cluster.topology.wan.widest_ns() + 50 * MS;
        let margin = margin_ns.div_ceil(self.cluster.options.epoch_ns);
        let mut said = Vec::new();
        let decided = self.membership.propose(wish, margin, standing, &mut said);
        self.record_vote(out);
        self.say(said, out);
        self.decided_change(now, decided, out);
    }

    /// How far this member is, if it has everything that the last change holds.
    fn standing(&self) -> Option<Standing> {
        let has = |(seat, epoch): (Seat, Epoch)| {
            self.inbox.complete(seat) >= epoch || self.published.epoch() >= epoch
        };
        let open = self.clock.open();
        self.membership.held().all(has).then(|| Standing { have: self.told_have(), open })
    }

    fn say(&self, said: Said, out: &mut Out) {
        out.extend(said.into_iter().map(|(to, message)| EngineEffect::Send { to, message }));
    }

    fn decided_change(&mut self, now: Time, decided: Option<Change>, out: &mut Out) {
        let Some(change) = decided else { return };
        let after = self.membership.known();
        self.learn(now, after, vec![change.clone()], out);
        let told = self.cluster.others();
        let message = Message::Changes { after, changes: vec![change] };
        out.extend(told.map(|to| EngineEffect::Send { to, message: message.clone() }));
    }

    /// Changes are agreed.
    pub(super) fn learn(&mut self, now: Time, after: u64, changes: Vec<Change>, out: &mut Out) {
        let known = self.membership.known();
        if after > known {
            return; // Those before will come.
        }
        for change in changes.into_iter().skip((known - after) as usize) {
            self.apply(now, change, out);
        }
    }

    fn apply(&mut self, now: Time, change: Change, out: &mut Out) {
        base::sometimes!("a change of the membership is applied");
        let own = self.membership.seat();
        self.change_seats(&change);
        self.record_change(&change, out);
        self.government.rest();
        let published = self.published.epoch();
        if let Some(seat) = change.removed {
            let last = change.last_of(seat);
            self.peers.reseated(seat.node, published);
            if own == Some(seat) {
                self.fall_out(now, last, out);
            } else {
                assert!(
                    published <= last,
                    "published {published:?}, with a member whose last epoch is {last:?}"
                );
            }
        }
        if let Some(newcomer) = change.added {
            assert!(published < newcomer.from, "{published:?} is published without {newcomer:?}");
            if newcomer.node == self.cluster.me {
                self.let_in(now, newcomer, out);
            } else {
                self.peers.reseated(newcomer.node, Epoch(0));
            }
        }
    }

    /// The membership changes, and with it which members send epochs.
    pub(super) fn change_seats(&mut self, change: &Change) {
        let own = self.membership.seat();
        self.membership.apply(change.clone());
        self.change_senders(change);
        if change.removed.is_some() && own == change.removed {
            self.membership.leave();
        }
    }
    /// This node has a seat from an epoch on.
    pub(super) fn take_seat(&mut self, from: Epoch) {
        self.membership.sit();
        self.begin_epochs(from);
    }
    /// Another node's chain, or that of a former life, takes the place of this one's. What others said is forgotten.
    pub(super) fn take_chain(&mut self, changes: Vec<Change>) {
        self.membership = Membership::copied(self.cluster.me, self.cluster.members(), changes);
        self.peers = Peers::new(self.cluster.others());
    }
    /// A former life had this seat and knew of these lives.
    pub(super) fn come_back_to(
        &mut self,
        seat: Option<Seat>,
        vote: Vote,
        incarnations: BTreeMap<NodeId, u32>,
    ) {
        self.membership.come_back(seat, vote, incarnations, self.gateway.incarnation());
    }
    /// A former life had promised and accepted this of the next change.
    pub(super) fn stand_by(&mut self, vote: Vote) {
        self.membership.come_back_with(vote);
    }

    /// Somebody shows how many changes it knows.
    pub(super) fn compare_changes(&self, from: NodeId, progress: &Progress, out: &mut Out) {
        let known = self.membership.known();
        if progress.known < known {
            let changes = self.membership.changes()[progress.known as usize..].to_vec();
            let message = Message::Changes { after: progress.known, changes };
            out.push(EngineEffect::Send { to: from, message });
        } else if progress.known > known {
            // It tells what this node lacks.
            let message = Message::Alive { progress: self.progress() };
            out.push(EngineEffect::Send { to: from, message });
        }
    }

    pub(super) fn on_attempt(&mut self, now: Time, from: NodeId, message: Message, out: &mut Out) {
        let mut said = Vec::new();
        let known = self.membership.known();
        let behind = |ballot: super::membership::Ballot| ballot.change <= known;
        let decided = match message {
            Message::Prepare { ballot } | Message::Accept { ballot, .. } if behind(ballot) => {
                let after = ballot.change - 1;
                let changes = self.membership.changes()[after as usize..].to_vec();
                out.push(EngineEffect::Send { to: from, message: Message::Changes { after, changes } });
                None
            }
            Message::Prepare { ballot } => {
                let standing = self.standing();
                self.membership.prepare(from, ballot, standing, &mut said);
                None
            }
            Message::Promise { ballot, standing, accepted } => {
                self.membership.promise(from, ballot, standing, accepted, &mut said)
            }
            Message::Accept { ballot, change } => {
                self.membership.accept(from, ballot, change, &mut said);
                None
            }
            Message::Accepted { ballot } => self.membership.accepted_by(from, ballot),
            Message::Outvoted { ballot } => {
                self.membership.outvoted(ballot);
                None
            }
            _ => unreachable!("the caller looks"),
        };
        self.record_vote(out);
        self.say(said, out);
        self.decided_change(now, decided, out);
    }
}
