//! Order streams between nodes: FIFO and without gaps over links that promise nothing.
//!
//! A subscriber's stream has generations. Generation 0 begins where the partition's log does. A subscriber
//! that lost its memory, or was silent beyond its lease while what it lacked was let go of, gets the next
//! generation: a copy of the partition as it stands, then what follows. Which it is, the sender decides; a
//! subscriber that sees a newer generation forgets what it has of the partition and takes the new one from
//! its beginning.
//!
//! KEEPS: within a generation a subscriber applies items exactly once and in order; an item is kept by the
//! sender until every subscriber within its lease has acknowledged it; a subscriber beyond its lease holds
//! up nobody; one that is silent within it is sent a probe, and not its whole backlog, until it answers; a copy is
//! made as far ahead of its acknowledgements as a window, and taken a bounded number of rows a step.

mod incoming;

pub use incoming::Incoming;

use crate::message::QuestionId;
use base::order::StreamItem;
use base::schema::Catalog;
use base::topology::Topology;
use base::{Key, LogPosition, NodeId, PartitionId, Rank, Row, TableId, Time, TxnId};
use reads::graph::DependencyGraph;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Most items in one message, and most rows of a copy, so that one step stays short.
const BATCH_ITEMS_MAX: usize = 512;
const BATCH_ROWS_MAX: usize = 1_024;
/// Items of a copy that are made before the subscriber has acknowledged them, at most.
const COPY_ITEMS_AHEAD: u64 = 1_024;
/// A row costs a subscriber as much as so many bytes do.
const ROW_BYTES: usize = 256;
/// Silence is borne up to 2 to this power times as long.
const RESENDS_COUNTED: u32 = 3;
/// Items that are on their way to a subscriber at most after a silence. Each answer doubles it, up to the other.
const PROBE_ITEMS: u64 = 64;
const WINDOW_ITEMS_MAX: u64 = 16 << 10;

/// What travels on a stream.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Feed {
    /// Shared by all who get it, and encoded once for those who get it together.
    Item(Arc<StreamItem>),
    /// A copy of the partition begins, as of the end of its log. Cuts below `rank` cannot be read from it.
    CopyBegins {
        position: LogPosition,
        rank: Rank,
        catalog: Arc<Catalog>,
    },
    CopyRows {
        table: TableId,
        rows: Vec<(Key, Row)>,
    },
    /// A transaction before the copy that is not collected: where the partition logged it.
    CopyLogged {
        position: LogPosition,
        txn: TxnId,
        rank: Rank,
    },
    /// Complete up to this rank.
    CopyEnds {
        low: Rank,
    },
}

impl Feed {
    /// What it costs to take it, in rows.
    fn weight(&self) -> usize {
        match self {
            Feed::Item(item) => weight(item),
            Feed::CopyRows { rows, .. } => {
                let bytes: usize = rows.iter().map(|(key, row)| key.len() + row.len()).sum();
                rows.len().max(bytes / ROW_BYTES)
            }
            Feed::CopyBegins { .. } | Feed::CopyLogged { .. } | Feed::CopyEnds { .. } => 1,
        }
    }
}

/// What it costs to apply it, in rows.
pub fn weight(item: &StreamItem) -> usize {
    match item {
        StreamItem::Record(record) => record.writes.len().max(1),
        StreamItem::Low(_) | StreamItem::Vertex(_) => 1,
    }
}

/// One partition's stream to its remote subscribers.
#[derive(Debug, Default)]
pub struct Outgoing {
    /// Index of the first item still kept.
    first: u64,
    items: VecDeque<Arc<StreamItem>>,
    subscribers: BTreeMap<NodeId, Subscriber>,
}

#[derive(Debug, Default)]
struct Subscriber {
    /// When the subscriber's present life, or its wish for a new copy, began, by its own clock.
    since: Time,
    generation: u32,
    /// What precedes the items in this generation, let go of once acknowledged; the index of the first that is kept.
    copy: VecDeque<Feed>,
    copy_first: u64,
    /// How many there are so far.
    copy_items: u64,
    /// There are more to come.
    is_copying: bool,
    /// The item with which the generation goes on after its copy.
    base: u64,
    /// Everything before it has been acknowledged; an index in the generation, like `sent`.
    acknowledged: u64,
    /// Everything before it has been sent at least once.
    sent: u64,
    /// When silence becomes loss.
    resend_at: Time,
    /// How often that was so since everything sent had been acknowledged. Each time silence is borne twice as long: a
    /// node that is behind hears acknowledgements late, and sending again would put it further behind.
    resends: u32,
    /// Since a silence: items that may be on their way beyond what it has acknowledged.
    window: Option<u64>,
    heard_at: Time,
    /// Silent beyond its lease; nothing is kept for it.
    lapsed: bool,
}

/// What to send: to whom, generation, index of the first item, items.
pub type Batch = (Vec<NodeId>, u32, u64, Vec<Feed>);

/// How far a subscriber is, by its own word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ack {
    pub since: Time,
    pub generation: u32,
    /// Everything before this index of the generation has arrived.
    pub next: u64,
}

impl Subscriber {
    /// The first item that it still needs.
    fn needs(&self) -> u64 {
        self.base + self.acknowledged.saturating_sub(self.copy_items)
    }
}

impl Outgoing {
    pub fn new(subscribers: impl Iterator<Item = NodeId>) -> Outgoing {
        let subscribers = subscribers.map(|n| (n, Subscriber::default())).collect();
        Outgoing { first: 0, items: VecDeque::new(), subscribers }
    }

    /// Nobody has been silent yet.
    pub fn begin(&mut self, now: Time) {
        self.subscribers.values_mut().for_each(|s| s.heard_at = now);
    }

    /// Nothing is kept for these before they are heard; then they get a copy.
    pub fn await_later(&mut self, is_later: impl Fn(NodeId) -> bool) {
        let later = self.subscribers.iter_mut().filter(|(node, _)| is_later(**node));
        later.for_each(|(_, subscriber)| subscriber.lapsed = true);
    }

    /// The partition's log goes on behind a copy: whoever follows it needs one too.
    pub fn begin_anew(&mut self) {
        assert!(self.items.is_empty(), "nothing was streamed before the copy");
        self.subscribers.values_mut().for_each(|s| s.lapsed = true);
    }

    pub fn push(&mut self, item: StreamItem) {
        if self.subscribers.values().any(|s| !s.lapsed) {
            self.items.push_back(Arc::new(item));
        } else if !self.subscribers.is_empty() {
            self.first += 1;
        }
    }

    /// Unsent items; they count as sent from now on. Whoever lacks the same gets the same batch.
    pub fn unsent(&mut self, now: Time, patience_ns: &dyn Fn(NodeId) -> u64) -> Vec<Batch> {
        let last = self.end();
        let mut batches: Vec<Batch> = Vec::new();
        // Of batches of the log, by generation, index there and index of the log.
        let mut shared: BTreeMap<(u32, u64, u64), usize> = BTreeMap::new();
        for (&node, subscriber) in self.subscribers.iter_mut().filter(|(_, s)| !s.lapsed) {
            let logged = if subscriber.is_copying { 0 } else { last - subscriber.base };
            let all = subscriber.copy_items + logged;
            let end = subscriber.window.map_or(all, |window| all.min(subscriber.acknowledged + window));
            if subscriber.sent == subscriber.acknowledged && subscriber.sent < end {
                subscriber.resend_at = now + (patience_ns(node) << subscriber.resends);
            }
            while subscriber.sent < end {
                let (first, generation) = (subscriber.sent, subscriber.generation);
                if first < subscriber.copy_items {
                    let mut weight = 0;
                    let rest = subscriber.copy.range((first - subscriber.copy_first) as usize..);
                    let batch = rest.take(BATCH_ITEMS_MAX.min((end - first) as usize)).take_while(|feed| {
                        let is_room = weight < BATCH_ROWS_MAX;
                        weight += feed.weight();
                        is_room
                    });
                    let items: Vec<Feed> = batch.cloned().collect();
                    subscriber.sent += items.len() as u64;
                    batches.push((vec![node], generation, first, items));
                    continue;
                }
                let upto = end.min(first + BATCH_ITEMS_MAX as u64);
                let item = |index: u64| index - subscriber.copy_items + subscriber.base - self.first;
                match shared.get(&(generation, first, item(first))) {
                    Some(nth) => batches[*nth].0.push(node),
                    None => {
                        let items = self.items.range(item(first) as usize..item(upto) as usize);
                        let items = items.cloned().map(Feed::Item).collect();
                        shared.insert((generation, first, item(first)), batches.len());
                        batches.push((vec![node], generation, first, items));
                    }
                }
                subscriber.sent = upto;
            }
        }
        batches
    }

    /// Subscribers that were silent too long start again from what they have.
    pub fn resend(&mut self, now: Time, patience_ns: &dyn Fn(NodeId) -> u64) -> Vec<Batch> {
        for subscriber in self.subscribers.values_mut() {
            if subscriber.acknowledged < subscriber.sent && subscriber.resend_at <= now {
                base::sometimes!("a stream is sent again");
                subscriber.sent = subscriber.acknowledged;
                subscriber.window = Some(PROBE_ITEMS);
                subscriber.resends = RESENDS_COUNTED.min(subscriber.resends + 1);
            }
        }
        self.unsent(now, patience_ns)
    }

    /// A subscriber says how far it is. True: it needs a copy, see [`Outgoing::restart`].
    #[must_use]
    pub fn acknowledged(&mut self, now: Time, from: NodeId, ack: Ack, patience_ns: u64) -> bool {
        let end = self.end();
        let Some(subscriber) = self.subscribers.get_mut(&from) else { return false };
        if ack.since < subscriber.since {
            return false;
        }
        subscriber.heard_at = now;
        if ack.since > subscriber.since {
            subscriber.since = ack.since;
            // A sender that has lost its memory goes on behind what it said before.
            subscriber.generation = subscriber.generation.max(ack.generation);
            // The first word of its first life changes nothing; there it follows the log from its beginning.
            let has_begun = subscriber.generation > 0 || subscriber.acknowledged > 0;
            if has_begun || subscriber.lapsed || self.first > 0 {
                return true;
            }
        }
        if subscriber.lapsed {
            // What it lacks of the log may still be there for others; what it lacks of a copy is gone.
            let known = subscriber.acknowledged.max(ack.next);
            let has_copy = !subscriber.is_copying && known >= subscriber.copy_items;
            if ack.generation == subscriber.generation && has_copy && subscriber.needs() >= self.first {
                base::sometimes!("a subscriber returns after its lease and goes on");
                subscriber.lapsed = false;
                subscriber.sent = subscriber.acknowledged;
            } else {
                return true;
            }
        }
        let subscriber = self.subscribers.get_mut(&from).expect("just found");
        let logged = if subscriber.is_copying { 0 } else { end - subscriber.base };
        let last = subscriber.copy_items + logged;
        if ack.generation != subscriber.generation || ack.next <= subscriber.acknowledged || ack.next > last {
            return false;
        }
        subscriber.acknowledged = ack.next;
        subscriber.window =
            subscriber.window.map(|window| 2 * window).filter(|most| *most <= WINDOW_ITEMS_MAX);
        subscriber.sent = subscriber.sent.max(ack.next);
        if subscriber.sent == ack.next {
            subscriber.resends = 0;
        }
        subscriber.resend_at = now + (patience_ns << subscriber.resends);
        while subscriber.copy_first < ack.next && subscriber.copy.pop_front().is_some() {
            subscriber.copy_first += 1;
        }
        self.trim();
        false
    }

    /// A subscriber begins a new generation: with a copy, as of the stream's present end, that begins with `head`. The
    /// rest is made while it arrives ([`Outgoing::go_on_copying`]).
    pub fn restart(&mut self, now: Time, node: NodeId, head: Vec<Feed>) {
        base::sometimes!("a subscriber gets a copy of its partition");
        let base = self.end();
        let Some(subscriber) = self.subscribers.get_mut(&node) else { return };
        *subscriber = Subscriber {
            since: subscriber.since,
            generation: subscriber.generation + 1,
            copy_first: 0,
            copy_items: head.len() as u64,
            copy: head.into(),
            is_copying: true,
            base,
            acknowledged: 0,
            sent: 0,
            resend_at: now,
            resends: 0,
            window: None,
            heard_at: now,
            lapsed: false,
        };
        self.trim();
    }

    /// Whether the next piece of a subscriber's copy should be made now.
    pub fn wants_more(&self, node: NodeId) -> bool {
        let subscriber = self.subscribers.get(&node).filter(|s| s.is_copying && !s.lapsed);
        subscriber.is_some_and(|s| s.copy_items - s.acknowledged < COPY_ITEMS_AHEAD)
    }
    /// A copy is being made for a subscriber within its lease.
    pub fn is_copying(&self, node: NodeId) -> bool {
        self.subscribers.get(&node).is_some_and(|s| s.is_copying && !s.lapsed)
    }
    /// The next item of a subscriber's copy. With [`Feed::CopyEnds`] the log follows.
    pub fn go_on_copying(&mut self, node: NodeId, feed: Feed) {
        let Some(subscriber) = self.subscribers.get_mut(&node).filter(|s| s.is_copying && !s.lapsed) else {
            return;
        };
        subscriber.is_copying = !matches!(feed, Feed::CopyEnds { .. });
        subscriber.copy.push_back(feed);
        subscriber.copy_items += 1;
    }

    /// Lets go of subscribers that have been silent since before this instant.
    pub fn expire(&mut self, heard_before: Time) {
        let silent = |s: &&mut Subscriber| !s.lapsed && s.heard_at < heard_before;
        let mut expired = false;
        for subscriber in self.subscribers.values_mut().filter(silent) {
            base::sometimes!("a subscriber's lease expires");
            subscriber.lapsed = true;
            subscriber.copy = VecDeque::new();
            expired = true;
        }
        if expired {
            self.trim();
        }
    }

    fn trim(&mut self) {
        let end = self.end();
        let within = self.subscribers.values().filter(|s| !s.lapsed);
        let everywhere = within.map(Subscriber::needs).min().unwrap_or(end);
        while self.first < everywhere {
            self.items.pop_front();
            self.first += 1;
        }
    }

    /// Items kept for subscribers, of logs and of copies.
    pub fn held(&self) -> usize {
        self.items.len() + self.subscribers.values().map(|s| s.copy.len()).sum::<usize>()
    }

    /// Index of the next item.
    pub fn end(&self) -> u64 {
        self.first + self.items.len() as u64
    }

    /// Everything before it has been acknowledged by every remote subscriber within its lease.
    pub fn acknowledged_everywhere(&self) -> u64 {
        self.first
    }

    pub fn has_subscribers(&self) -> bool {
        !self.subscribers.is_empty()
    }

    /// Nothing is on its way to anyone within its lease.
    pub fn is_settled(&self) -> bool {
        self.items.is_empty() && self.subscribers.values().all(|s| s.lapsed || s.acknowledged >= s.copy_items)
    }
}

/// All streams of one node.
#[derive(Debug, Default)]
pub struct Streams {
    pub outgoing: BTreeMap<PartitionId, Outgoing>,
    /// What was said on streams of partitions whose columns are not kept here, for copies.
    pub published: BTreeMap<PartitionId, DependencyGraph>,
    pub incoming: BTreeMap<PartitionId, Incoming>,
    /// Records that readers lack and that are not logged yet: who asked last as which question, and when.
    pub wanted: BTreeMap<(PartitionId, TxnId), BTreeMap<(NodeId, QuestionId), Time>>,
    /// Transactions that some copy has not acknowledged: who waits for that as which question.
    pub awaited: BTreeMap<(PartitionId, TxnId), BTreeSet<(NodeId, QuestionId)>>,
    /// Partitions that are closing a timestamp for their streams.
    pub closing: BTreeSet<PartitionId>,
    /// Streams on which something has arrived that is not acknowledged; a timer is set while there are any.
    pub unacknowledged: BTreeSet<PartitionId>,
    pub flush_armed: bool,
    pub resend_armed: bool,
    /// What takes more than a step; each has its turn, the first one first.
    turns: VecDeque<Turn>,
    /// A timer is set for the next turn.
    turn_armed: bool,
}

/// Work on a stream that takes several steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// A copy of a partition is made for columns, at this node or a subscriber's.
    Copy(PartitionId, NodeId),
    /// What was streamed while this node's columns were being filled is applied.
    CatchUp(PartitionId),
    /// What has arrived is taken.
    Take(PartitionId),
}

impl Streams {
    /// The streams of a node's partitions to others, and those that it follows.
    pub fn new(id: NodeId, topology: &Topology) -> Streams {
        let mut streams = Streams::default();
        let subscribes = &topology.nodes[usize::from(id.0)].subscribes;
        for partition in topology.copies_at(id) {
            let remote = topology.subscribers_of(partition);
            let remote = remote.filter(|n| *n != id && topology.copy_near(partition, *n) == id);
            streams.outgoing.insert(partition, Outgoing::new(remote));
            if !subscribes.contains(&partition) {
                streams.published.insert(partition, DependencyGraph::default());
            }
        }
        for &partition in subscribes {
            if topology.copy_near(partition, id) != id {
                streams.incoming.insert(partition, Incoming::default());
            }
        }
        streams
    }

    /// Forgets who has not asked for a record since this instant.
    pub fn forget_wanted(&mut self, asked_before: Time) {
        self.wanted.retain(|_, readers| {
            readers.retain(|_, asked_at| *asked_at >= asked_before);
            !readers.is_empty()
        });
    }

    /// Something takes another step.
    pub fn wait_for_turn(&mut self, turn: Turn) {
        if !self.turns.contains(&turn) {
            self.turns.push_back(turn);
        }
    }
    /// Whether a timer has to be set for the next turn.
    pub fn arms_turn(&mut self) -> bool {
        !self.turns.is_empty() && !std::mem::replace(&mut self.turn_armed, true)
    }
    /// The timer has come: whose turn it is.
    pub fn next_turn(&mut self) -> Option<Turn> {
        self.turn_armed = false;
        self.turns.pop_front()
    }

    pub fn is_settled(&self) -> bool {
        self.outgoing.values().all(Outgoing::is_settled)
    }
}

#[cfg(test)]
mod tests;
