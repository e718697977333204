//! Items from one node to others, in order and without gaps, over links that lose, repeat and reorder.
//!
//! KEEPS: a receiver hands on every item once, in order; a sender keeps an item until every peer has
//! acknowledged it; a peer that is silent is sent little, and that less and less often: a window of items beyond
//! what it has acknowledged, which shrinks to a probe after a silence and doubles with each acknowledgement, and a
//! patience that doubles with each silence.

use base::{NodeId, Time};
use std::collections::{BTreeMap, VecDeque};

/// Most items in one message, so that one step stays short.
const BATCH_ITEMS_MAX: usize = 1024;
/// Items that are on their way to a peer at most.
const WINDOW_ITEMS_MAX: u64 = 16 << 10;
/// The same after a silence.
const PROBE_ITEMS: u64 = 64;
/// A peer's silence is borne so often twice as long at most.
const PATIENCE_DOUBLINGS_MAX: u32 = 4;

/// What is sent, to one or several peers.
#[derive(Clone, Debug)]
pub struct Outbox<T> {
    /// Index of the first item still kept.
    first: u64,
    items: VecDeque<T>,
    peers: Vec<Peer>,
}

#[derive(Clone, Debug)]
struct Peer {
    node: NodeId,
    /// How long silence is taken for delay, in ns.
    patience_ns: u64,
    /// Everything before it has arrived there.
    acknowledged: u64,
    /// Everything before it has been sent at least once.
    sent: u64,
    /// When silence becomes loss.
    resend_at: Time,
    /// A gap that is reported earlier than this is being mended already.
    mended_at: Time,
    /// Items that may be sent beyond what it has acknowledged.
    window: u64,
    /// Silences since it acknowledged something last.
    silences: u32,
}

impl Peer {
    /// Items before this may be sent, if those before `limit` may.
    fn reach(&self, limit: u64) -> u64 {
        limit.min(self.acknowledged.saturating_add(self.window))
    }
    fn patience_now_ns(&self) -> u64 {
        self.patience_ns << self.silences.min(PATIENCE_DOUBLINGS_MAX)
    }
}

/// Items for a peer: index of the first, items, and whether the last that may go is among them.
pub type Batch<T> = (NodeId, u64, Vec<T>, bool);

impl<T: Clone> Outbox<T> {
    /// Peers, each with the time after which its silence is a loss.
    pub fn new(peers: impl Iterator<Item = (NodeId, u64)>) -> Outbox<T> {
        let peer = |(node, patience_ns)| Peer {
            node,
            patience_ns,
            acknowledged: 0,
            sent: 0,
            resend_at: Time::ZERO,
            mended_at: Time::ZERO,
            window: WINDOW_ITEMS_MAX,
            silences: 0,
        };
        Outbox { first: 0, items: VecDeque::new(), peers: peers.map(peer).collect() }
    }
    /// Goes on with items `first..` that other hands have sent: what each peer has of them, it will say.
    pub fn resumed(
        first: u64,
        items: VecDeque<T>,
        peers: impl Iterator<Item = (NodeId, u64)>,
        now: Time,
    ) -> Outbox<T> {
        let mut outbox = Outbox::new(peers);
        (outbox.first, outbox.items) = (first, items);
        let end = outbox.end();
        for peer in &mut outbox.peers {
            (peer.acknowledged, peer.sent) = (first, end);
            peer.resend_at = now + peer.patience_ns;
        }
        outbox
    }
    pub fn push(&mut self, item: T) {
        if self.peers.is_empty() {
            self.first += 1;
        } else {
            self.items.push_back(item);
        }
    }
    /// Index of the next item.
    pub fn end(&self) -> u64 {
        self.first + self.items.len() as u64
    }
    /// Items kept.
    pub fn len(&self) -> usize {
        self.items.len()
    }
    /// Every peer has everything.
    pub fn is_settled(&self) -> bool {
        self.items.is_empty()
    }
    /// What each peer has.
    pub fn progress(&self) -> impl Iterator<Item = (NodeId, u64)> + '_ {
        self.peers.iter().map(|peer| (peer.node, peer.acknowledged))
    }
    /// Items from `first` on.
    pub fn behind(&self, first: u64) -> impl Iterator<Item = &T> {
        self.items.range(first.saturating_sub(self.first) as usize..)
    }
    /// Whether some peer has not been sent what may go to it: the items before `limit`.
    pub fn has_unsent(&self, limit: impl Fn(NodeId) -> u64) -> bool {
        self.peers.iter().any(|peer| peer.sent < peer.reach(limit(peer.node)))
    }
    /// Everything before it has been sent to a peer.
    pub fn sent_to(&self, node: NodeId) -> u64 {
        let peer = self.peers.iter().find(|peer| peer.node == node);
        peer.map_or(self.first, |peer| peer.sent)
    }
    /// Unsent items that may go, those before `limit`, per peer; they count as sent from now on.
    pub fn unsent(&mut self, now: Time, limit: impl Fn(NodeId) -> u64) -> Vec<Batch<T>> {
        let mut batches = Vec::new();
        for peer in &mut self.peers {
            let limit = limit(peer.node);
            let end = peer.reach(limit);
            if peer.sent < end && peer.sent == peer.acknowledged {
                peer.resend_at = now + peer.patience_now_ns();
            }
            while peer.sent < end {
                let upto = end.min(peer.sent + BATCH_ITEMS_MAX as u64);
                let range = (peer.sent - self.first) as usize..(upto - self.first) as usize;
                let items = self.items.range(range).cloned().collect();
                batches.push((peer.node, peer.sent, items, upto == limit));
                peer.sent = upto;
            }
        }
        batches
    }
    /// A peer has nothing any more. What was let go of comes back, as far as it is kept: items `first..`.
    pub fn begin_again(&mut self, node: NodeId, first: u64, kept: &VecDeque<T>) {
        let Some(peer) = self.peers.iter_mut().find(|peer| peer.node == node) else { return };
        if first < self.first && self.first <= first + kept.len() as u64 {
            let lacking = (self.first - first) as usize;
            kept.range(..lacking).rev().for_each(|item| self.items.push_front(item.clone()));
            self.first = first;
        }
        // What it has it will say.
        peer.acknowledged = self.first;
        peer.sent = self.first + self.items.len() as u64;
        (peer.resend_at, peer.mended_at) = (Time::ZERO, Time::ZERO);
        (peer.window, peer.silences) = (PROBE_ITEMS, 0);
    }
    /// Peers that were silent too long start again from what they have; whether there are any.
    pub fn overdue(&mut self, now: Time) -> bool {
        let mut any = false;
        for peer in &mut self.peers {
            if peer.acknowledged < peer.sent && peer.resend_at <= now {
                base::sometimes!("a sequence is sent again");
                peer.sent = peer.acknowledged;
                peer.window = PROBE_ITEMS;
                peer.silences += 1;
                any = true;
            }
        }
        any
    }
    /// A peer has everything before `next`; `gap` if it has something behind a gap. Answers whether
    /// something is to be sent again at once.
    pub fn acknowledged(&mut self, now: Time, from: NodeId, next: u64, gap: bool) -> bool {
        let end = self.end();
        let Some(peer) = self.peers.iter_mut().find(|peer| peer.node == from) else { return false };
        if next > end {
            return false;
        }
        if next > peer.acknowledged {
            peer.acknowledged = next;
            peer.sent = peer.sent.max(next);
            peer.silences = 0;
            peer.window = (2 * peer.window).min(WINDOW_ITEMS_MAX);
            peer.resend_at = now + peer.patience_ns;
        }
        let mend = gap && peer.acknowledged < peer.sent && peer.mended_at <= now;
        if mend {
            base::sometimes!("a gap in a sequence is mended");
            peer.mended_at = now + peer.patience_ns;
            peer.sent = peer.acknowledged;
        }
        let everywhere = self.peers.iter().map(|peer| peer.acknowledged).min().unwrap_or(end);
        while self.first < everywhere {
            self.items.pop_front();
            self.first += 1;
        }
        mend
    }
}

/// What arrives from one sender.
#[derive(Clone, Debug)]
pub struct Inbox<T> {
    next: u64,
    early: BTreeMap<u64, T>,
}

impl<T> Default for Inbox<T> {
    fn default() -> Self {
        Inbox { next: 0, early: BTreeMap::new() }
    }
}

impl<T> Inbox<T> {
    /// Everything before `next` is here.
    pub fn starting_at(next: u64) -> Inbox<T> {
        Inbox { next, early: BTreeMap::new() }
    }
    /// Takes items that begin at index `first`; hands out those whose turn has come.
    pub fn receive(&mut self, first: u64, items: Vec<T>, ready: &mut Vec<T>) {
        for (index, item) in (first..).zip(items) {
            if index == self.next {
                ready.push(item);
                self.next += 1;
                while let Some(item) = self.early.remove(&self.next) {
                    ready.push(item);
                    self.next += 1;
                }
            } else if index > self.next {
                self.early.insert(index, item);
            }
        }
    }
    /// Everything before it has arrived.
    pub fn next(&self) -> u64 {
        self.next
    }
    pub fn has_gap(&self) -> bool {
        !self.early.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::Rng;

    #[test]
    fn a_peer_that_is_silent_costs_little_and_has_everything_soon_after_it_is_back() {
        let (dead, alive) = (NodeId(1), NodeId(2));
        let mut outbox = Outbox::new([dead, alive].into_iter().map(|node| (node, 10)));
        let mut inbox = Inbox::default();
        let (mut received, mut sent_late) = (Vec::new(), 0);
        for step in 0..20_000u64 {
            outbox.push(step);
            outbox.overdue(Time(step));
            let end = outbox.end();
            for (node, first, items, _) in outbox.unsent(Time(step), |_| end) {
                match node == dead {
                    true if step >= 10_000 => sent_late += items.len(),
                    true => {}
                    false => {
                        outbox.acknowledged(Time(step), node, first + items.len() as u64, false);
                    }
                }
            }
        }
        assert!(sent_late <= 5_000, "{sent_late} items in 10,000 steps");
        let mut step = 20_000;
        while received.len() < 20_000 {
            outbox.overdue(Time(step));
            let end = outbox.end();
            for (node, first, items, _) in outbox.unsent(Time(step), |_| end) {
                inbox.receive(first, items, &mut received);
                outbox.acknowledged(Time(step), node, inbox.next(), inbox.has_gap());
            }
            step += 1;
        }
        assert!(step < 20_300, "it took until {step}");
        assert!(outbox.is_settled() && received.iter().copied().eq(0..20_000));
    }

    #[test]
    fn whatever_the_link_does_everything_arrives_once_and_in_order() {
        for seed in 0..50 {
            let mut rng = Rng::new(seed);
            let peers = [NodeId(1), NodeId(2)];
            let mut outbox = Outbox::new(peers.iter().map(|node| (*node, 10)));
            let mut inboxes = [Inbox::default(), Inbox::default()];
            let mut received = [Vec::new(), Vec::new()];
            let mut flying: Vec<Batch<u64>> = Vec::new();
            for step in 0..2000u64 {
                let now = Time(step);
                if step < 200 {
                    outbox.push(step);
                }
                outbox.overdue(now);
                let end = outbox.end();
                flying.extend(outbox.unsent(now, |_| end).into_iter().filter(|_| rng.chance(0.7)));
                if !flying.is_empty() && rng.chance(0.5) {
                    let nth = rng.below(flying.len() as u64) as usize;
                    let (node, first, items, _) = flying[nth].clone();
                    if rng.chance(0.8) {
                        flying.remove(nth);
                    }
                    let n = usize::from(node.0) - 1;
                    inboxes[n].receive(first, items, &mut received[n]);
                    if rng.chance(0.8) {
                        outbox.acknowledged(now, node, inboxes[n].next(), inboxes[n].has_gap());
                    }
                }
            }
            assert!(outbox.is_settled(), "seed {seed}");
            for received in received {
                assert!(received.iter().copied().eq(0..200), "seed {seed}");
            }
        }
    }
}
