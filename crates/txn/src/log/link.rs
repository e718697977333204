//! Items from one node to others, in order and without gaps, over links that lose, repeat and reorder.
//!
//! KEEPS: a receiver hands on every item once, in order; a sender keeps an item until every peer has acknowledged it.
//! What a peer costs is bounded, whatever it does:
//! 1. a window of items beyond what it has acknowledged is on its way. It doubles with each acknowledgement, grows
//!    slowly while answers wait in queues, and shrinks to a probe after a silence, and further with each more;
//! 2. a silence is borne for as long as measured round trips say, and twice as long each time ([`Patience`]). So a
//!    dead peer is sent less and less, at last one item in two seconds; a slow one is not sent again what it has;
//! 3. in one step it is sent a few messages of bounded size at most: one that is far behind holds up nobody else;
//! 4. a gap is filled with what lacks, and not with all that was sent behind it;
//! 5. where the sender can as well wait itself ([`Outbox::yielding`]), the window shrinks while answers wait in queues:
//!    what a busy peer could not work off stays here, and does not take its time;
//! 6. nothing is kept for a peer that is silent while more than [`Outbox::keep_at_most`] items wait for it. It is left
//!    behind: what it lacks is gone, and it will have to be told.

use base::patience::Patience;
use base::{NodeId, Time};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// Most items in one message, so that one step stays short.
const BATCH_ITEMS_MAX: u64 = 1024;
/// Most messages to a peer in one step.
const BATCHES_MAX: usize = 2;
/// Items that are on their way to a peer at most.
const WINDOW_ITEMS_MAX: u64 = 16 << 10;
/// The same after a silence, and what a gap is filled with at once.
const PROBE_ITEMS: u64 = 64;

/// Least window of a link that yields.
const YIELDED_ITEMS_MIN: u64 = 4;
/// So many silences on end are no accident.
const SILENCES_MIN: u32 = 3;

/// What is sent, to one or several peers.
#[derive(Clone, Debug)]
pub struct Outbox<T> {
    /// Index of the first item still kept.
    first: u64,
    items: VecDeque<T>,
    peers: Vec<Peer>,
    kept_max: usize,
    yields: bool,
    /// Items sent so far, and how many of them more than once.
    pub sent_count: u64,
    pub resent_count: u64,
}

#[derive(Clone, Debug)]
struct Peer {
    node: NodeId,
    patience: Patience,
    /// Everything before it has arrived there.
    acknowledged: u64,
    /// Everything before it has been sent since the last silence.
    sent: u64,
    /// Everything before it has been sent at least once.
    reached: u64,
    /// To be sent again, to fill a gap.
    gap: Range<u64>,
    /// When silence becomes loss.
    resend_at: Time,
    /// A gap that is reported earlier than this is being filled already.
    mended_at: Time,
    /// Since it is silent: when it was greeted last.
    greeted_at: Time,
    /// Items that may be sent beyond what it has acknowledged.
    window: u64,
    /// The window shrinks no more before this.
    narrowed_at: Time,
    /// Something that it lacks is not kept any more.
    is_left_behind: bool,
}

impl Peer {
    /// Items before this may be sent, if those before `limit` may.
    fn reach(&self, limit: u64) -> u64 {
        limit.min(self.acknowledged.saturating_add(self.window))
    }
    /// What it acknowledges says how much more it can bear.
    fn widen(&mut self, now: Time, acknowledged: u64, yields: bool) {
        let (is_queueing, least) =
            (self.patience.is_queueing(), if yields { YIELDED_ITEMS_MIN } else { PROBE_ITEMS });
        let window = match (is_queueing, yields) {
            (true, true) if now < self.narrowed_at => self.window,
            (true, true) => {
                // By an eighth in each round trip, from what is on its way.
                self.narrowed_at = now + self.patience.mean_ns();
                let under_way = self.window.min(self.sent - self.acknowledged + acknowledged);
                under_way - under_way / 8 - 1
            }
            (false, true) => self.window + acknowledged.div_ceil(4),
            (true, false) => self.window + acknowledged,
            (false, false) => 2 * self.window,
        };
        self.window = window.clamp(least, WINDOW_ITEMS_MAX);
    }
}

/// Items for a peer: index of the first, items, and whether the last that may go is among them.
pub type Batch<T> = (NodeId, u64, Vec<T>, bool);

impl<T: Clone> Outbox<T> {
    /// Peers, each with how long to wait for its first answer.
    pub fn new(peers: impl Iterator<Item = (NodeId, Patience)>) -> Outbox<T> {
        let peer = |(node, patience)| Peer {
            node,
            patience,
            acknowledged: 0,
            sent: 0,
            reached: 0,
            gap: 0..0,
            resend_at: Time::ZERO,
            mended_at: Time::ZERO,
            greeted_at: Time::ZERO,
            window: WINDOW_ITEMS_MAX,
            narrowed_at: Time::ZERO,
            is_left_behind: false,
        };
        let (items, peers) = (VecDeque::new(), peers.map(peer).collect());
        Outbox { first: 0, items, peers, kept_max: usize::MAX, yields: false, sent_count: 0, resent_count: 0 }
    }
    /// Goes on with items `first..` that other hands have sent: what each peer has of them, it will say.
    pub fn resumed(
        first: u64,
        items: VecDeque<T>,
        peers: impl Iterator<Item = (NodeId, Patience)>,
        now: Time,
    ) -> Outbox<T> {
        let mut outbox = Outbox::new(peers);
        (outbox.first, outbox.items) = (first, items);
        let end = outbox.end();
        for peer in &mut outbox.peers {
            (peer.acknowledged, peer.sent, peer.reached) = (first, end, end);
            peer.resend_at = now + peer.patience.ns();
        }
        outbox
    }
    /// Items wait here rather than in the queues of a peer that is busy.
    pub fn yielding(mut self) -> Outbox<T> {
        self.yields = true;
        self
    }
    /// So many items are kept at most for peers that are silent.
    pub fn keep_at_most(&mut self, items: usize) {
        self.kept_max = items;
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
    /// What is kept, from [`Outbox::first`] on.
    pub fn items(&self) -> impl Iterator<Item = &T> {
        self.items.iter()
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
        let lacks = |peer: &Peer| {
            if peer.is_left_behind {
                return false;
            }
            let reach = peer.reach(limit(peer.node));
            peer.sent < reach || peer.gap.start < peer.gap.end.min(reach)
        };
        self.peers.iter().any(lacks)
    }
    /// Everything before it has been sent to a peer.
    pub fn sent_to(&self, node: NodeId) -> u64 {
        let peer = self.peers.iter().find(|peer| peer.node == node);
        peer.map_or(self.first, |peer| peer.sent)
    }
    /// Unsent items that may go now, of those before `limit`, per peer; they count as sent from now on. There may be
    /// more, for the next step.
    pub fn unsent(&mut self, now: Time, limit: impl Fn(NodeId) -> u64) -> Vec<Batch<T>> {
        let mut batches = Vec::new();
        let kept_from = self.first;
        let items = |range: Range<u64>| -> Vec<T> {
            let range = (range.start - kept_from) as usize..(range.end - kept_from) as usize;
            self.items.range(range).cloned().collect()
        };
        for peer in self.peers.iter_mut().filter(|peer| !peer.is_left_behind) {
            let limit = limit(peer.node);
            let end = peer.reach(limit);
            let gap = peer.gap.start..peer.gap.end.min(end).min(peer.sent);
            if gap.start < gap.end {
                peer.gap = 0..0;
                self.sent_count += gap.end - gap.start;
                self.resent_count += gap.end - gap.start;
                batches.push((peer.node, gap.start, items(gap), false));
            }
            if peer.sent < end && peer.sent == peer.acknowledged {
                peer.resend_at = now + peer.patience.ns();
            }
            for _ in 0..BATCHES_MAX {
                if peer.sent >= end {
                    break;
                }
                let upto = end.min(peer.sent + BATCH_ITEMS_MAX);
                batches.push((peer.node, peer.sent, items(peer.sent..upto), upto == limit));
                self.sent_count += upto - peer.sent;
                self.resent_count += peer.reached.min(upto).saturating_sub(peer.sent);
                peer.sent = upto;
                peer.reached = peer.reached.max(upto);
            }
        }
        batches
    }
    /// Whether a peer has been silent for so long that it may be gone.
    pub fn is_silent(&self, node: NodeId) -> bool {
        self.peers.iter().any(|peer| peer.node == node && peer.patience.silences() >= SILENCES_MIN)
    }
    /// Peers that are silent, and have not been greeted for this long: once they are back they answer a greeting long
    /// before the next probe.
    pub fn to_greet(&mut self, now: Time, every_ns: u64) -> Vec<NodeId> {
        let mut nodes = Vec::new();
        for peer in &mut self.peers {
            if peer.patience.silences() >= SILENCES_MIN && peer.greeted_at + every_ns <= now {
                peer.greeted_at = now;
                nodes.push(peer.node);
            }
        }
        nodes
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
        (peer.resend_at, peer.mended_at, peer.gap) = (Time::ZERO, Time::ZERO, 0..0);
        (peer.window, peer.is_left_behind) = (PROBE_ITEMS, false);
        peer.patience.heard();
    }
    /// Peers that were silent too long start again from what they have; whether there are any.
    pub fn overdue(&mut self, now: Time) -> bool {
        let mut any = false;
        let is_full = self.items.len() > self.kept_max;
        for peer in self.peers.iter_mut().filter(|peer| !peer.is_left_behind) {
            if is_full && peer.patience.silences() >= SILENCES_MIN {
                base::sometimes!("a replica is left behind");
                peer.is_left_behind = true;
                continue;
            }
            if peer.acknowledged < peer.sent && peer.resend_at <= now {
                base::sometimes!("a sequence is sent again");
                peer.sent = peer.acknowledged;
                peer.gap = 0..0;
                peer.window = (PROBE_ITEMS >> peer.patience.silences().min(6)).max(1);
                peer.patience.silent();
                any = true;
            }
        }
        if is_full {
            self.trim();
        }
        any
    }
    /// Lets go of what every peer has that is not left behind.
    fn trim(&mut self) {
        let counted = self.peers.iter().filter(|peer| !peer.is_left_behind);
        let everywhere = counted.map(|peer| peer.acknowledged).min().unwrap_or(self.end());
        while self.first < everywhere {
            self.items.pop_front();
            self.first += 1;
        }
    }
    /// Whether what a peer lacks is not kept any more, as far as is known.
    pub fn is_left_behind(&self, node: NodeId) -> bool {
        self.peers.iter().any(|peer| peer.node == node && peer.is_left_behind)
    }
    /// Index of the first item that is kept.
    pub fn first(&self) -> u64 {
        self.first
    }
    /// A peer has everything before `next`, as it says upon what was sent to it at `echo`; `gap` if it has something
    /// behind a gap. Answers whether something is to be sent again at once.
    pub fn acknowledged(&mut self, now: Time, from: NodeId, next: u64, gap: bool, echo: Time) -> bool {
        let (end, yields) = (self.end(), self.yields);
        let Some(peer) = self.peers.iter_mut().find(|peer| peer.node == from) else { return false };
        if next > end {
            return false;
        }
        if peer.is_left_behind {
            if next < self.first {
                return false; // It is told, again and again.
            }
            base::sometimes!("a replica that was left behind lacks nothing that is gone");
            peer.is_left_behind = false;
        }
        peer.patience.measured(now, echo);
        let progress = next.saturating_sub(peer.acknowledged);
        if progress > 0 {
            peer.acknowledged = next;
            peer.sent = peer.sent.max(next);
            peer.reached = peer.reached.max(next);
            peer.gap.start = peer.gap.start.max(next);
            peer.widen(now, progress, yields);
            peer.resend_at = now + peer.patience.ns();
        }
        // Once a round trip, unless what filled one gap shows the next.
        let mend = gap && peer.acknowledged < peer.sent && (peer.mended_at <= now || progress > 0);
        if mend {
            base::sometimes!("a gap in a sequence is mended");
            peer.mended_at = now + peer.patience.ns();
            peer.gap = peer.acknowledged..peer.sent.min(peer.acknowledged + PROBE_ITEMS);
        }
        self.trim();
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
mod tests;
