//! What this member has sent of its own epochs, and what it keeps of all members' for those that lack it.
//!
//! IN: transactions that enter the open epoch, its end, epochs of others that are complete here, what others say they
//! have. OUT: what to send again. KEEPS: what was sent of an epoch is sent again unchanged, until every other member has
//! it, and every node that is being let in; within an epoch write sets are numbered from 0 without gaps.

use super::message::{Epoch, Message, Payload, Progress, Seat, Segment};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Segments sent in answer to one question at most.
const PULLED_MAX: usize = 64;

/// An epoch that is closed, with everything in it.
pub(super) type Closed = (Segment, Vec<Arc<Payload>>);

#[derive(Clone, Debug, Default)]
pub(super) struct Outbox {
    /// Of the open epoch.
    open: Vec<Arc<Payload>>,
    kept: BTreeMap<Seat, VecDeque<Closed>>,
}

impl Outbox {
    /// What a member's disk has of it.
    pub fn of(open: Vec<Arc<Payload>>, kept: BTreeMap<Seat, VecDeque<Closed>>) -> Outbox {
        Outbox { open, kept }
    }
    /// Write sets of the open epoch, and what is kept of closed ones.
    pub fn parts(&self) -> (&Vec<Arc<Payload>>, &BTreeMap<Seat, VecDeque<Closed>>) {
        (&self.open, &self.kept)
    }
    /// A transaction enters the open epoch; its number there.
    pub fn enter(&mut self, payload: Arc<Payload>) -> u32 {
        self.open.push(payload);
        self.open.len() as u32 - 1
    }
    /// Write sets of the open epoch.
    pub fn count(&self) -> u32 {
        self.open.len() as u32
    }
    /// Own epochs are closed.
    pub fn close(&mut self, me: Seat, segment: Segment) {
        assert_eq!(segment.count, self.count(), "every write set is counted");
        let payloads = std::mem::take(&mut self.open);
        self.keep(me, (segment, payloads));
    }
    /// An epoch of this member is complete here.
    pub fn keep(&mut self, of: Seat, closed: Closed) {
        self.kept.entry(of).or_default().push_back(closed);
    }
    /// Lets go of what is everywhere.
    pub fn release(&mut self, everywhere: impl Fn(Seat) -> Epoch) {
        for (seat, kept) in &mut self.kept {
            let Some((first, _)) = kept.front() else { continue };
            let everywhere = everywhere(*seat);
            if first.last <= everywhere {
                while kept.pop_front_if(|(segment, _)| segment.last <= everywhere).is_some() {}
            }
        }
        self.kept.retain(|_, kept| !kept.is_empty());
    }
    /// The member was removed: of what it sent this is the last.
    pub fn cut_off(&mut self, seat: Seat, last: Epoch) {
        if let Some(kept) = self.kept.get_mut(&seat) {
            kept.retain(|(segment, _)| segment.last <= last);
        }
    }
    /// The last own segment, if another member has no more than this of them.
    pub fn unacknowledged(&self, me: Seat, has: Epoch) -> Option<Segment> {
        let (segment, _) = self.kept.get(&me)?.back()?;
        (has < segment.last).then_some(*segment)
    }
    /// Somebody lacks something of a member from this epoch on.
    pub fn again(&self, of: Seat, from: Epoch, progress: &Progress) -> Vec<Message> {
        let kept = self.kept.get(&of).into_iter().flatten();
        let wanted = kept.filter(|(segment, _)| segment.last >= from).take(PULLED_MAX);
        let mut messages = Vec::new();
        for (segment, payloads) in wanted {
            let sets = payloads.iter().enumerate().map(|(number, payload)| Message::WriteSet {
                of,
                epoch: segment.first,
                number: number as u32,
                payload: payload.clone(),
            });
            messages.extend(sets);
            let (segment, progress) = (*segment, progress.clone());
            messages.push(Message::EndOfEpoch { of, segment, progress, is_busy: false });
        }
        messages
    }
    /// Epochs that are kept of this member.
    pub fn len(&self, of: Seat) -> usize {
        self.kept.get(&of).map_or(0, VecDeque::len)
    }
}
