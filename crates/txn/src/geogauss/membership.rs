//! Who is a member: a chain of changes, each agreed by a majority of the members before it.
//!
//! IN: wishes of this node (remove a lost member, let a newcomer in), messages of other members. OUT: messages, changes
//! that are agreed, in order. KEEPS:
//! 1. change n + 1 is decided once, by a majority of the members after change n, with Paxos: ballots, promises, the
//!    accepted proposal of the highest ballot;
//! 2. a seat is held in one life of a node's memory: a node that forgot what it promised is no member any more, and
//!    comes back on another seat. So nothing here has to outlive the process; where members record (`records`), what they
//!    have promised does, and their seats with it;
//! 3. what a change says to be *held* covers every epoch that any member may have published before it: of each member,
//!    the last epoch that somebody among a majority had when it promised, see below;
//! 4. a removed member's last epoch is the one held; a newcomer's first one is after everything that is held or open.
//!
//! Why 3. A member that knows n changes publishes an epoch only when, of each member, a majority of the n-th members has
//! said that it has that epoch, and what is said by somebody who has promised in a later change does not count
//! (`peers`, [`Progress::stage`](super::message::Progress::stage)). Each proposal for change n + 1 was made after promises of a majority; the two majorities
//! share a member, which said so before it promised, so its promise tells of that epoch. Nobody promises for change
//! n + 2 before it has all that change n + 1 holds, so later changes hold no less. Hence a lost member's epochs behind
//! its last one were published by nobody, and nobody has merged an epoch of a newcomer without it. Changes are by one
//! member at a time: majorities before and after a change share a member.
//!
//! The paper leaves this to Raft (§5.2): who decides is not who is decided about. Here there is no log beside the chain,
//! and an ordinary commit does not touch it.

use super::message::{Epoch, Message, Seat};
use base::NodeId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Names an attempt to decide a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Ballot {
    /// The number of the change.
    pub change: u64,
    pub round: u32,
    pub by: NodeId,
}

/// A node that is let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Newcomer {
    pub node: NodeId,
    pub incarnation: u32,
    /// Its first epoch.
    pub from: Epoch,
}

/// One change of the membership.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Of each member before the change, the last epoch that may have been published.
    pub held: BTreeMap<Seat, Epoch>,
    pub removed: Option<Seat>,
    pub added: Option<Newcomer>,
}

impl Change {
    /// The last epoch that counts of a member that it removes.
    pub fn last_of(&self, seat: Seat) -> Epoch {
        self.held.get(&seat).copied().unwrap_or_default()
    }
}

/// What a member would change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Remove(Seat),
    Add {
        node: NodeId,
        incarnation: u32,
    },
    /// Nothing: an attempt of somebody else has not ended.
    Settle,
}

/// How far a member is when it promises.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    pub have: BTreeMap<Seat, Epoch>,
    pub open: Epoch,
}

#[derive(Clone, Debug)]
struct Attempt {
    ballot: Ballot,
    wish: Wish,
    /// A newcomer begins so many epochs after what is open.
    margin: u64,
    promises: BTreeMap<NodeId, (Standing, Option<(Ballot, Change)>)>,
    /// Proposed to all, and who has accepted it.
    proposed: Option<(Change, Vec<NodeId>)>,
}

#[derive(Clone, Debug)]
pub(super) struct Membership {
    me: NodeId,
    /// The seat that this node takes, if it takes one.
    seat: Option<Seat>,
    /// All of them, from the beginning.
    changes: Vec<Change>,
    seats: BTreeMap<NodeId, Seat>,
    /// The latest known of each node.
    incarnations: BTreeMap<NodeId, u32>,
    /// For the next change.
    promised: Ballot,
    accepted: Option<(Ballot, Change)>,
    attempt: Option<Attempt>,
}

pub(super) type Said = Vec<(NodeId, Message)>;
/// What a member has promised, and accepted, of the next change.
pub(super) type Vote = (Ballot, Option<(Ballot, Change)>);

impl Membership {
    /// Everybody is a member from the beginning; `is_member`: this node too, as it has been there since.
    pub fn new(me: NodeId, nodes: impl Iterator<Item = NodeId>, is_member: bool) -> Membership {
        let seats: BTreeMap<NodeId, Seat> = nodes.map(|node| (node, Seat { node, since: 0 })).collect();
        Membership {
            me,
            seat: seats.get(&me).copied().filter(|_| is_member),
            changes: Vec::new(),
            seats,
            incarnations: BTreeMap::new(),
            promised: Ballot::default(),
            accepted: None,
            attempt: None,
        }
    }
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }
    /// So many changes are known.
    pub fn known(&self) -> u64 {
        self.changes.len() as u64
    }
    /// The latest change that this member takes part in deciding, or knows.
    pub fn stage(&self) -> u64 {
        self.promised.change.max(self.known())
    }
    pub fn seat(&self) -> Option<Seat> {
        self.seat
    }
    pub fn seats(&self) -> impl Iterator<Item = Seat> + '_ {
        self.seats.values().copied()
    }
    pub fn seat_of(&self, node: NodeId) -> Option<Seat> {
        self.seats.get(&node).copied()
    }
    pub fn is_seat(&self, seat: Seat) -> bool {
        self.seats.get(&seat.node) == Some(&seat)
    }
    pub fn majority(&self) -> usize {
        self.seats.len() / 2 + 1
    }
    pub fn incarnation_of(&self, node: NodeId) -> u32 {
        self.incarnations.get(&node).copied().unwrap_or(0)
    }
    pub fn heard_incarnation(&mut self, node: NodeId, incarnation: u32) {
        let known = self.incarnations.entry(node).or_default();
        *known = incarnation.max(*known);
    }
    /// What everybody who takes part in the next change has to have.
    pub fn held(&self) -> impl Iterator<Item = (Seat, Epoch)> + '_ {
        self.changes.last().into_iter().flat_map(|change| change.held.iter().map(|(s, e)| (*s, *e)))
    }
    /// This node's seat is gone, or what it knew.
    pub fn leave(&mut self) {
        (self.seat, self.attempt, self.accepted, self.promised) = (None, None, None, Ballot::default());
    }

    // ---- proposing --------------------------------------------------------------------------------

    /// Begins an attempt.
    pub fn propose(
        &mut self,
        wish: Wish,
        margin: u64,
        standing: Standing,
        said: &mut Said,
    ) -> Option<Change> {
        let round = self.promised.round.max(self.attempt.as_ref().map_or(0, |a| a.ballot.round)) + 1;
        let ballot = Ballot { change: self.known() + 1, round, by: self.me };
        self.attempt = Some(Attempt { ballot, wish, margin, promises: BTreeMap::new(), proposed: None });
        said.extend(self.others().map(|to| (to, Message::Prepare { ballot })));
        self.promised = ballot;
        let accepted = self.accepted.clone();
        self.promise(self.me, ballot, standing, accepted, said)
    }
    fn others(&self) -> impl Iterator<Item = NodeId> + use<> {
        let me = self.me;
        let others: Vec<NodeId> = self.seats.keys().copied().filter(|node| *node != me).collect();
        others.into_iter()
    }

    /// Somebody promises this node's attempt. Answers the change if that decides it, as below.
    pub fn promise(
        &mut self,
        from: NodeId,
        ballot: Ballot,
        standing: Standing,
        accepted: Option<(Ballot, Change)>,
        said: &mut Said,
    ) -> Option<Change> {
        let majority = self.majority();
        let is_member = self.seats.contains_key(&from);
        let attempt = self.attempt.as_mut().filter(|a| a.ballot == ballot && a.proposed.is_none())?;
        if !is_member {
            return None;
        }
        attempt.promises.insert(from, (standing, accepted));
        if attempt.promises.len() < majority {
            return None;
        }
        let earlier = attempt.promises.values().filter_map(|(_, accepted)| accepted.as_ref());
        let change = match earlier.max_by_key(|(ballot, _)| *ballot) {
            Some((_, change)) => {
                base::sometimes!("a change of the membership that another member began is carried on");
                change.clone()
            }
            None => attempt.change(),
        };
        attempt.proposed = Some((change.clone(), Vec::new()));
        said.extend(self.others().map(|to| (to, Message::Accept { ballot, change: change.clone() })));
        if self.promised == ballot {
            self.accepted = Some((ballot, change));
            return self.accepted_by(self.me, ballot);
        }
        None
    }
    /// Somebody has accepted what this node proposed: the change, if that decides it.
    pub fn accepted_by(&mut self, from: NodeId, ballot: Ballot) -> Option<Change> {
        let majority = self.majority();
        let is_member = self.seats.contains_key(&from);
        let attempt = self.attempt.as_mut().filter(|attempt| attempt.ballot == ballot && is_member)?;
        let (change, by) = attempt.proposed.as_mut()?;
        if !by.contains(&from) {
            by.push(from);
        }
        (by.len() >= majority).then(|| change.clone())
    }
    /// Somebody has promised a later attempt: the next one of this node goes above it.
    pub fn outvoted(&mut self, ballot: Ballot) {
        if ballot.change == self.known() + 1
            && let Some(attempt) = self.attempt.as_mut()
        {
            attempt.ballot.round = attempt.ballot.round.max(ballot.round);
        }
    }

    // ---- accepting --------------------------------------------------------------------------------

    /// Another member asks for a promise. `standing`: how far this one is, if it has all that is held.
    pub fn prepare(&mut self, from: NodeId, ballot: Ballot, standing: Option<Standing>, said: &mut Said) {
        if !self.takes_part(from, ballot) {
            return;
        }
        if ballot <= self.promised {
            return said.push((from, Message::Outvoted { ballot: self.promised }));
        }
        let Some(standing) = standing else { return };
        self.promised = ballot;
        let accepted = self.accepted.clone();
        said.push((from, Message::Promise { ballot, standing, accepted }));
    }
    /// Another member proposes.
    pub fn accept(&mut self, from: NodeId, ballot: Ballot, change: Change, said: &mut Said) {
        // Who has not promised has not told what it has, and need not: others did.
        if !self.takes_part(from, ballot) {
            return;
        }
        if ballot < self.promised {
            return said.push((from, Message::Outvoted { ballot: self.promised }));
        }
        self.promised = ballot;
        self.accepted = Some((ballot, change));
        said.push((from, Message::Accepted { ballot }));
    }
    fn takes_part(&self, from: NodeId, ballot: Ballot) -> bool {
        self.seat.is_some() && self.seats.contains_key(&from) && ballot.change == self.known() + 1
    }

    // ---- agreed -----------------------------------------------------------------------------------

    /// The next change is agreed.
    pub fn apply(&mut self, change: Change) {
        let number = self.known() + 1;
        if let Some(seat) = change.removed {
            let removed = self.seats.remove(&seat.node);
            assert_eq!(removed, Some(seat), "a member is removed once");
        }
        if let Some(newcomer) = change.added {
            let seat = Seat { node: newcomer.node, since: number };
            let before = self.seats.insert(newcomer.node, seat);
            assert_eq!(before, None, "a node has one seat");
            self.heard_incarnation(newcomer.node, newcomer.incarnation);
        }
        self.changes.push(change);
        (self.promised, self.accepted, self.attempt) = (Ballot::default(), None, None);
    }
    /// This node takes the seat that it was given.
    pub fn sit(&mut self) {
        self.seat = self.seats.get(&self.me).copied();
    }
    /// What this member has promised, and accepted, of the next change.
    pub fn vote(&self) -> Vote {
        (self.promised, self.accepted.clone())
    }
    /// The same as its disk has it.
    pub fn come_back_with(&mut self, (promised, accepted): Vote) {
        (self.promised, self.accepted) = (promised, accepted);
    }
    pub fn incarnations(&self) -> &BTreeMap<NodeId, u32> {
        &self.incarnations
    }
    /// A checkpoint is taken: this node had this seat, and has a new life.
    pub fn come_back(
        &mut self,
        seat: Option<Seat>,
        vote: Vote,
        incarnations: BTreeMap<NodeId, u32>,
        own: u32,
    ) {
        self.seat = seat;
        self.come_back_with(vote);
        incarnations.into_iter().for_each(|(node, known)| self.heard_incarnation(node, known));
        self.heard_incarnation(self.me, own);
    }
    /// Another node's chain, for one that begins with that node's copy.
    pub fn copied(me: NodeId, nodes: impl Iterator<Item = NodeId>, changes: Vec<Change>) -> Membership {
        let mut membership = Membership::new(me, nodes, false);
        changes.into_iter().for_each(|change| membership.apply(change));
        membership
    }
}

impl Attempt {
    fn change(&self) -> Change {
        let mut held: BTreeMap<Seat, Epoch> = BTreeMap::new();
        for (seat, epoch) in self.promises.values().flat_map(|(standing, _)| &standing.have) {
            let known = held.entry(*seat).or_default();
            *known = (*known).max(*epoch);
        }
        let open = self.promises.values().map(|(standing, _)| standing.open).max().unwrap_or_default();
        let after = held.values().copied().max().unwrap_or_default().max(open);
        let (removed, added) = match self.wish {
            Wish::Remove(seat) => (Some(seat), None),
            Wish::Add { node, incarnation } => {
                let from = Epoch(after.0 + 1 + self.margin);
                (None, Some(Newcomer { node, incarnation, from }))
            }
            Wish::Settle => (None, None),
        };
        Change { held, removed, added }
    }
}
