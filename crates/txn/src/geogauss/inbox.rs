//! What has arrived of every member's epochs, this one's own included.
//!
//! IN: write sets and ends of epochs, lost, repeated and out of order. OUT: epochs that are complete of everybody, with
//! all that asks to commit in them; what is missing. KEEPS: an epoch is complete when its end is here, all before it is
//! complete, and as many different write sets are here as its end counts; of a complete epoch nothing changes any more.
//! What no correct member sends is refused and counted.

use super::message::{Epoch, Payload, Seat, Segment};
use super::outbox::Closed;
use base::{NodeId, Rank, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(super) struct Inbox {
    members: BTreeMap<Seat, Arrived>,
    refused: BTreeMap<(NodeId, &'static str), u64>,
    /// What became complete of others, and was not fetched.
    news: Vec<(Seat, Closed)>,
    /// A fault: counts are not looked at.
    ignores_counts: bool,
}

/// What is here of one member.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Arrived {
    /// Its first epoch.
    from: Epoch,
    /// It was removed: its last epoch.
    last: Option<Epoch>,
    complete: Epoch,
    /// The same as of when it was fetched last ([`Inbox::news`]).
    noted: Epoch,
    /// By their first epoch, above `complete`.
    segments: BTreeMap<Epoch, Segment>,
    /// By epoch and number, not yet merged.
    write_sets: BTreeMap<Epoch, BTreeMap<u32, Arc<Payload>>>,
    /// By the last epoch of their segments: the newest of what is merged, and all after it.
    floors: BTreeMap<Epoch, Rank>,
    /// Since when something is missing though its end, or a later one, is here or elsewhere.
    stuck_since: Option<Time>,
    /// How often it was asked for since.
    asked: u32,
}

/// Something of a member is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Missing {
    pub of: Seat,
    pub from: Epoch,
    /// How often it was asked for before.
    pub asked: u32,
}

/// A message that no correct member sends.
pub(super) type Refused = &'static str;

impl Inbox {
    pub fn new(members: impl Iterator<Item = Seat>, ignores_counts: bool) -> Inbox {
        let members = members.map(|seat| (seat, Arrived { from: Epoch(1), ..Arrived::default() })).collect();
        Inbox { members, refused: BTreeMap::new(), news: Vec::new(), ignores_counts }
    }
    /// What has arrived at another node, whose state is taken over.
    pub fn copied(mut members: BTreeMap<Seat, Arrived>, ignores_counts: bool) -> Inbox {
        for arrived in members.values_mut() {
            (arrived.stuck_since, arrived.asked, arrived.noted) = (None, 0, arrived.complete);
        }
        Inbox { members, refused: BTreeMap::new(), news: Vec::new(), ignores_counts }
    }
    pub fn members(&self) -> &BTreeMap<Seat, Arrived> {
        &self.members
    }
    pub fn refuse(&mut self, from: NodeId, what: Refused) {
        *self.refused.entry((from, what)).or_default() += 1;
    }
    pub fn refused(&self) -> &BTreeMap<(NodeId, &'static str), u64> {
        &self.refused
    }

    /// A member is let in.
    pub fn add(&mut self, seat: Seat, from: Epoch) {
        let before = from.previous();
        let arrived = Arrived { from, complete: before, noted: before, ..Arrived::default() };
        self.members.insert(seat, arrived);
    }
    /// A member is removed: what it sent after its last epoch does not count.
    pub fn remove(&mut self, seat: Seat, last: Epoch) {
        let Some(arrived) = self.members.get_mut(&seat) else { return };
        arrived.last = Some(last);
        (arrived.complete, arrived.noted) = (arrived.complete.min(last), arrived.noted.min(last));
        arrived.segments.retain(|_, segment| segment.last <= last);
        arrived.write_sets.split_off(&last.next());
        arrived.floors.split_off(&last.next());
        if arrived.complete >= last {
            arrived.stuck_since = None;
        }
        self.news.retain(|(of, (segment, _))| *of != seat || segment.last <= last);
    }

    pub fn write_set(
        &mut self,
        now: Time,
        (from, of): (NodeId, Seat),
        epoch: Epoch,
        number: u32,
        payload: Arc<Payload>,
    ) {
        let Some(arrived) = self.members.get_mut(&of) else { return };
        if payload.txn.coordinator != of.node {
            return self.refuse(from, "a write set of another member");
        }
        if epoch <= arrived.complete || arrived.last.is_some_and(|last| last < epoch) {
            return;
        }
        if arrived.segments.get(&epoch).is_some_and(|segment| number >= segment.count) {
            return self.refuse(from, "a write set beyond the count of its epoch");
        }
        arrived.write_sets.entry(epoch).or_default().entry(number).or_insert(payload);
        arrived.advance(now, of, self.ignores_counts, &mut self.news);
    }

    /// Whether it is news.
    pub fn end_of_epoch(&mut self, now: Time, (from, of): (NodeId, Seat), segment: Segment) -> bool {
        let Some(arrived) = self.members.get_mut(&of) else { return false };
        if segment.first > segment.last {
            self.refuse(from, "epochs in the wrong order");
            return false;
        }
        if segment.last <= arrived.complete || arrived.last.is_some_and(|last| last < segment.last) {
            return false;
        }
        if segment.first <= arrived.complete
            || arrived.segments.get(&segment.first).is_some_and(|known| *known != segment)
        {
            self.refuse(from, "an epoch that was closed before");
            return false;
        }
        if let Some(sets) = arrived.write_sets.get_mut(&segment.first) {
            let beyond = sets.split_off(&segment.count);
            if !beyond.is_empty() {
                self.refuse(from, "a write set beyond the count of its epoch");
            }
        }
        let arrived = self.members.get_mut(&of).expect("it is a member");
        arrived.segments.insert(segment.first, segment);
        arrived.advance(now, of, self.ignores_counts, &mut self.news);
        true
    }
    /// Epochs that have become complete since the last call.
    pub fn news(&mut self) -> Vec<(Seat, Closed)> {
        self.members.values_mut().for_each(|arrived| arrived.noted = arrived.complete);
        std::mem::take(&mut self.news)
    }
    /// Of each member, what has been fetched.
    pub fn noted(&self) -> BTreeMap<Seat, Epoch> {
        self.members.iter().map(|(seat, arrived)| (*seat, arrived.noted)).collect()
    }
    /// All that a disk had was taken: time begins anew.
    pub fn come_back(&mut self) {
        self.news();
        self.members.values_mut().for_each(|arrived| (arrived.stuck_since, arrived.asked) = (None, 0));
        self.refused.clear();
    }

    /// Everything of this member is here up to there.
    pub fn complete(&self, seat: Seat) -> Epoch {
        self.members.get(&seat).map_or(Epoch(0), |arrived| arrived.complete)
    }
    pub fn have(&self) -> BTreeMap<Seat, Epoch> {
        self.members.iter().map(|(seat, arrived)| (*seat, arrived.complete)).collect()
    }
    /// Everything of everybody is, and may be published: `allowed` is the last epoch of a member that may be.
    pub fn all_complete(&self, allowed: impl Fn(Seat) -> Epoch) -> Epoch {
        let may_go = |(seat, arrived): (&Seat, &Arrived)| match arrived.last {
            // What it has sent up to its last epoch is agreed.
            Some(last) if arrived.complete >= last => Epoch(u64::MAX),
            Some(_) => arrived.complete,
            None => arrived.complete.min(allowed(*seat).max(arrived.from.previous())),
        };
        self.members.iter().map(may_go).min().unwrap_or_default()
    }
    /// The first epoch after this one in which somebody asks to commit, as far as is known.
    pub fn next_with_transactions(&self, after: Epoch) -> Option<Epoch> {
        let firsts = self
            .members
            .values()
            .filter_map(|arrived| arrived.write_sets.range(after.next()..).map(|(epoch, _)| *epoch).next());
        firsts.min()
    }
    /// All that asks to commit in a complete epoch.
    pub fn take(&mut self, epoch: Epoch) -> Vec<Arc<Payload>> {
        let sets = self.members.values_mut().filter_map(|arrived| arrived.write_sets.remove(&epoch));
        sets.flat_map(BTreeMap::into_values).collect()
    }
    /// Nothing that asks to commit in this epoch or a later one has read below. All members answer alike once all
    /// before the epoch is complete, whether or not they know of changes of the membership after it.
    pub fn floor_of(&self, epoch: Epoch) -> Rank {
        let is_in =
            |arrived: &&Arrived| arrived.from <= epoch && arrived.last.is_none_or(|last| epoch <= last);
        let before = |arrived: &Arrived| arrived.floors.range(..epoch).next_back().map(|(_, floor)| *floor);
        let members = self.members.values().filter(is_in);
        members.map(|arrived| before(arrived).unwrap_or_default()).min().unwrap_or_default()
    }
    /// Everything up to this epoch is published.
    pub fn forget(&mut self, published: Epoch) {
        self.members.retain(|_, arrived| arrived.last.is_none_or(|last| published < last));
        for arrived in self.members.values_mut() {
            if let Some((last, _)) = arrived.floors.range(..=published).next_back() {
                let last = *last;
                arrived.floors = arrived.floors.split_off(&last);
            }
        }
    }
    /// Others have so much of a member.
    pub fn is_elsewhere(&mut self, now: Time, have: &BTreeMap<Seat, Epoch>) {
        for (seat, epoch) in have {
            if let Some(arrived) = self.members.get_mut(seat)
                && arrived.complete < *epoch
                && arrived.last.is_none_or(|last| arrived.complete < last)
            {
                arrived.stuck_since.get_or_insert(now);
            }
        }
    }
    /// Members of whom something has been missing for so long, and from which epoch on; asked for now.
    pub fn missing(&mut self, now: Time, patience_ns: u64) -> Vec<Missing> {
        let mut missing = Vec::new();
        for (of, arrived) in &mut self.members {
            // Of a member that was removed others may speak no more.
            if arrived.last.is_some_and(|last| arrived.complete < last) {
                arrived.stuck_since.get_or_insert(now);
            }
            if arrived.stuck_since.is_some_and(|since| now.since(since) >= patience_ns) {
                arrived.stuck_since = Some(now);
                missing.push(Missing { of: *of, from: arrived.complete.next(), asked: arrived.asked });
                arrived.asked += 1;
            }
        }
        missing
    }
    /// When to look for what is missing.
    pub fn next_look(&self, patience_ns: u64) -> Option<Time> {
        self.members.values().filter_map(|arrived| arrived.stuck_since).min().map(|since| since + patience_ns)
    }
    /// Write sets that are here and not merged.
    pub fn len(&self) -> usize {
        self.members.values().flat_map(|arrived| arrived.write_sets.values()).map(BTreeMap::len).sum()
    }
}

impl Arrived {
    fn advance(&mut self, now: Time, of: Seat, ignores_counts: bool, news: &mut Vec<(Seat, Closed)>) {
        let before = self.complete;
        while let Some(segment) = self.segments.get(&self.complete.next()).copied() {
            let sets = self.write_sets.get(&segment.first);
            if sets.map_or(0, BTreeMap::len) < segment.count as usize && !ignores_counts {
                break;
            }
            self.segments.remove(&segment.first);
            self.complete = segment.last;
            self.floors.insert(segment.last, segment.floor);
            news.push((of, (segment, sets.into_iter().flat_map(BTreeMap::values).cloned().collect())));
        }
        self.segments = self.segments.split_off(&self.complete.next());
        let is_stuck = !self.segments.is_empty();
        if self.complete > before {
            (self.stuck_since, self.asked) = (is_stuck.then_some(now), 0);
        } else if is_stuck {
            self.stuck_since.get_or_insert(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geogauss::merge::Isolation;
    use crate::geogauss::message::Body;
    use base::TxnId;

    const A: NodeId = NodeId(0);
    const B: NodeId = NodeId(1);
    const OF_A: (NodeId, Seat) = (A, Seat { node: A, since: 0 });
    const OF_B: (NodeId, Seat) = (B, Seat { node: B, since: 0 });

    fn set(node: NodeId, sequence: u64) -> Arc<Payload> {
        Arc::new(Payload {
            txn: TxnId { coordinator: node, incarnation: 1, sequence },
            start: Epoch(1),
            clock: sequence,
            level: Isolation::Serializable,
            snapshot: Rank::ZERO,
            read_at: Rank::ZERO,
            request: None,
            body: Body::GiveUp,
        })
    }
    fn segment(first: u64, last: u64, count: u32) -> Segment {
        Segment { first: Epoch(first), last: Epoch(last), count, floor: Rank(first) }
    }
    fn inbox() -> Inbox {
        Inbox::new([OF_A.1, OF_B.1].into_iter(), false)
    }

    #[test]
    fn scenario_10_repeated_reordered_and_lost_write_sets_and_an_end_that_comes_first() {
        let now = Time::from_ms(5);
        let mut inbox = inbox();
        assert!(inbox.end_of_epoch(now, OF_A, segment(6, 8, 2)));
        inbox.write_set(now, OF_A, Epoch(6), 1, set(A, 2));
        inbox.write_set(now, OF_A, Epoch(6), 1, set(A, 2));
        assert_eq!(
            inbox.complete(OF_A.1),
            Epoch(0),
            "neither the epochs before nor the first write set are here"
        );
        assert!(inbox.end_of_epoch(now, OF_A, segment(1, 5, 0)));
        assert_eq!(inbox.complete(OF_A.1), Epoch(5));
        assert_eq!(inbox.missing(now + 9, 10), [], "not yet");
        assert_eq!(inbox.missing(now + 10, 10), [Missing { of: OF_A.1, from: Epoch(6), asked: 0 }]);
        assert_eq!(inbox.missing(now + 11, 10), [], "it was asked for");
        inbox.write_set(now, OF_A, Epoch(6), 0, set(A, 1));
        assert_eq!((inbox.complete(OF_A.1), inbox.next_look(10)), (Epoch(8), None));
        assert!(!inbox.end_of_epoch(now, OF_A, segment(6, 8, 2)), "repeated");
        assert_eq!(inbox.all_complete(|_| Epoch(u64::MAX)), Epoch(0));
        assert!(inbox.end_of_epoch(now, OF_B, segment(1, 9, 0)));
        assert_eq!(inbox.all_complete(|_| Epoch(u64::MAX)), Epoch(8));
        assert_eq!(inbox.next_with_transactions(Epoch(0)), Some(Epoch(6)));
        assert_eq!(inbox.take(Epoch(6)).len(), 2);
        assert_eq!((inbox.floor_of(Epoch(9)), inbox.floor_of(Epoch(8))), (Rank::ZERO, Rank::ZERO));
        assert_eq!(inbox.floor_of(Epoch(10)), Rank(1));
        assert!(inbox.refused().is_empty());
    }

    #[test]
    fn what_does_not_match_its_count_is_refused_by_name() {
        let mut inbox = inbox();
        let now = Time::ZERO;
        inbox.write_set(now, OF_A, Epoch(1), 3, set(A, 4));
        inbox.end_of_epoch(now, OF_A, segment(1, 1, 1));
        inbox.write_set(now, OF_A, Epoch(1), 1, set(A, 2));
        inbox.write_set(now, OF_A, Epoch(1), 0, set(B, 1));
        inbox.write_set(now, OF_A, Epoch(1), 0, set(A, 1));
        assert_eq!((inbox.complete(OF_A.1), inbox.len()), (Epoch(1), 1));
        inbox.end_of_epoch(now, OF_A, segment(1, 7, 0));
        inbox.end_of_epoch(now, OF_A, segment(4, 2, 0));
        let refused: Vec<_> = inbox.refused().iter().map(|((_, what), n)| (*what, *n)).collect();
        let expected = [
            ("a write set beyond the count of its epoch", 2),
            ("a write set of another member", 1),
            ("an epoch that was closed before", 1),
            ("epochs in the wrong order", 1),
        ];
        assert_eq!(refused, expected);
    }
}
