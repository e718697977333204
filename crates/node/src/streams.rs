//! Order streams between nodes: FIFO and without gaps over links that promise nothing.
//!
//! KEEPS: a subscriber applies items of a partition exactly once and in order; an item is kept by the
//! sender until every remote subscriber has acknowledged it.

use base::order::StreamItem;
use base::{NodeId, PartitionId, Time};
use std::collections::{BTreeMap, VecDeque};

/// Most items in one message, so that one step stays short.
const BATCH_ITEMS_MAX: usize = 512;

/// One partition's stream to its remote subscribers.
#[derive(Debug, Default)]
pub struct Outgoing {
    /// Index of the first item still kept.
    first: u64,
    items: VecDeque<StreamItem>,
    subscribers: BTreeMap<NodeId, Subscriber>,
}

#[derive(Debug, Default)]
struct Subscriber {
    /// Everything before it has been acknowledged.
    acknowledged: u64,
    /// Everything before it has been sent at least once.
    sent: u64,
    /// When silence becomes loss.
    resend_at: Time,
}

/// What to send: receiver, index of the first item, items.
pub type Batch = (NodeId, u64, Vec<StreamItem>);

impl Outgoing {
    pub fn new(subscribers: impl Iterator<Item = NodeId>) -> Outgoing {
        let subscribers = subscribers.map(|n| (n, Subscriber::default())).collect();
        Outgoing { first: 0, items: VecDeque::new(), subscribers }
    }

    pub fn push(&mut self, item: StreamItem) {
        if !self.subscribers.is_empty() {
            self.items.push_back(item);
        }
    }

    /// Unsent items, per subscriber; they count as sent from now on.
    pub fn unsent(&mut self, now: Time, patience_ns: &dyn Fn(NodeId) -> u64) -> Vec<Batch> {
        let end = self.first + self.items.len() as u64;
        let mut batches = Vec::new();
        for (&node, subscriber) in &mut self.subscribers {
            if subscriber.sent == subscriber.acknowledged && subscriber.sent < end {
                subscriber.resend_at = now + patience_ns(node);
            }
            while subscriber.sent < end {
                let upto = end.min(subscriber.sent + BATCH_ITEMS_MAX as u64);
                let range = (subscriber.sent - self.first) as usize..(upto - self.first) as usize;
                batches.push((node, subscriber.sent, self.items.range(range).cloned().collect()));
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
            }
        }
        self.unsent(now, patience_ns)
    }

    pub fn acknowledged(&mut self, now: Time, from: NodeId, next: u64, patience_ns: u64) {
        let Some(subscriber) = self.subscribers.get_mut(&from) else { return };
        let end = self.first + self.items.len() as u64;
        if next <= subscriber.acknowledged || next > end {
            return;
        }
        subscriber.acknowledged = next;
        subscriber.sent = subscriber.sent.max(next);
        subscriber.resend_at = now + patience_ns;
        let everywhere = self.subscribers.values().map(|s| s.acknowledged).min().unwrap_or(end);
        while self.first < everywhere {
            self.items.pop_front();
            self.first += 1;
        }
    }

    /// Index of the next item.
    pub fn end(&self) -> u64 {
        self.first + self.items.len() as u64
    }

    /// Everything before it has been acknowledged by every remote subscriber.
    pub fn acknowledged_everywhere(&self) -> u64 {
        self.first
    }

    pub fn has_subscribers(&self) -> bool {
        !self.subscribers.is_empty()
    }

    pub fn is_settled(&self) -> bool {
        self.items.is_empty()
    }
}

/// One partition's stream as it arrives.
#[derive(Debug, Default)]
pub struct Incoming {
    next: u64,
    early: BTreeMap<u64, StreamItem>,
}

impl Incoming {
    /// Takes items; answers those whose turn has come.
    pub fn receive(&mut self, first: u64, items: Vec<StreamItem>) -> Vec<StreamItem> {
        for (index, item) in (first..).zip(items) {
            if index >= self.next {
                self.early.insert(index, item);
            }
        }
        let mut ready = Vec::new();
        while let Some(item) = self.early.remove(&self.next) {
            ready.push(item);
            self.next += 1;
        }
        ready
    }

    /// Everything before it has arrived.
    pub fn next(&self) -> u64 {
        self.next
    }
}

/// All streams of one node.
#[derive(Debug, Default)]
pub struct Streams {
    pub outgoing: BTreeMap<PartitionId, Outgoing>,
    pub incoming: BTreeMap<PartitionId, Incoming>,
}

impl Streams {
    pub fn is_settled(&self) -> bool {
        self.outgoing.values().all(Outgoing::is_settled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Rank;

    fn item(n: u64) -> StreamItem {
        StreamItem::Low(Rank(n))
    }

    #[test]
    fn lost_and_repeated_batches_arrive_once_and_in_order() {
        let (peer, patience) = (NodeId(1), &|_| 10);
        let mut out = Outgoing::new([peer].into_iter());
        let mut inn = Incoming::default();
        (0..4).for_each(|n| out.push(item(n)));
        let lost = out.unsent(Time(0), patience);
        assert_eq!(lost.len(), 1);
        out.push(item(4));
        let (_, first, items) = out.unsent(Time(1), patience).pop().unwrap();
        assert!(inn.receive(first, items).is_empty(), "a gap holds the rest back");
        assert!(out.resend(Time(5), patience).is_empty(), "not silent long enough");
        let (_, first, items) = out.resend(Time(10), patience).pop().unwrap();
        assert_eq!(inn.receive(first, items.clone()).len(), 5);
        assert!(inn.receive(first, items).is_empty(), "repeated items are dropped");
        out.acknowledged(Time(11), peer, inn.next(), 10);
        assert!(out.is_settled());
    }
}
