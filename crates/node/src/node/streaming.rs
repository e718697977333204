//! Order streams: out of this node's partitions, into its columns and to other nodes.

use super::*;
use crate::message::AnswerBody;
use crate::streams::Feed;
use base::LogPosition;
use base::order::StreamItem;

/// How often streams are looked over for what was not acknowledged.
pub(super) const RESEND_NS: u64 = 50 * MS;

/// How long a subscriber may owe an acknowledgement before what it did not acknowledge is sent again.
pub(super) fn stream_patience_ns(topology: &Topology, options: &Options, me: NodeId, to: NodeId) -> u64 {
    3 * topology.one_way_ns(me, to) + options.ack_ns + 50 * MS
}

impl<E: Engine> Node<E> {
    /// A partition of this node goes on: local columns at once, remote ones with the next flush.
    pub(super) fn stream(
        &mut self,
        now: Time,
        partition: PartitionId,
        item: StreamItem,
        out: &mut Effects<Self>,
    ) {
        if self.subscribes(partition) {
            self.columns.receive(now, partition, &item);
        } else if let Some(graph) = self.streams.published.get_mut(&partition) {
            graph.receive(now, partition, &item);
        }
        let wanted = match &item {
            StreamItem::Record(record) => self.streams.wanted.remove(&(partition, record.txn)),
            _ => None,
        };
        let outgoing = self.streams.outgoing.get_mut(&partition).expect("streams only its own partitions");
        if let Some(rival) = &mut self.rival {
            let index = outgoing.has_subscribers().then(|| outgoing.end());
            rival.streams(partition, index, &item);
        }
        outgoing.push(match item {
            // The printed protocol merges records in another order.
            StreamItem::Record(record) if self.options.printed.is_some() => {
                StreamItem::Record(record.whole())
            }
            item => item,
        });
        // Each low takes along what has gathered: a reader cannot use it sooner, unless it asks.
        let is_sooner = self.options.flush_ns < self.options.low_interval_ns;
        if is_sooner && !outgoing.is_settled() && !self.armed.flush {
            self.armed.flush = true;
            out.timer(Timer::Flush, now + self.options.flush_ns);
        }
        if let Some(readers) = wanted {
            base::sometimes!("a record that a reader waits for is sent at once");
            self.flush(now, out);
            for (reader, question) in readers.into_keys() {
                self.answer(now, reader, question, partition, 0, Ok(AnswerBody::Streamed), out);
            }
        }
    }

    /// A reader lacks the record of a transaction.
    pub(super) fn serve_record(
        &mut self,
        now: Time,
        from: NodeId,
        question: QuestionId,
        partition: PartitionId,
        txn: TxnId,
        out: &mut Effects<Self>,
    ) {
        let graph = self.streams.published.get(&partition).unwrap_or(&self.columns.graph);
        if graph.has_logged(partition, txn) {
            self.flush(now, out);
            return self.answer(now, from, question, partition, 0, Ok(AnswerBody::Streamed), out);
        }
        self.streams.wanted.entry((partition, txn)).or_default().insert((from, question), now);
    }

    pub(super) fn flush(&mut self, now: Time, out: &mut Effects<Self>) {
        self.send_batches(now, false, out);
        if !self.armed.resend && !self.streams.is_settled() {
            self.armed.resend = true;
            out.timer(Timer::Resend, now + RESEND_NS);
        }
    }

    /// Sends what is new to remote subscribers; `again` also repeats what they have not acknowledged in
    /// time.
    pub(super) fn send_batches(&mut self, now: Time, again: bool, out: &mut Effects<Self>) {
        let (topology, me, options) = (self.topology.clone(), self.id, &self.options);
        let collected = self.columns.collected_below;
        let patience_ns = |node| stream_patience_ns(&topology, options, me, node);
        let mut messages = Vec::new();
        for (&partition, outgoing) in &mut self.streams.outgoing {
            let batches =
                if again { outgoing.resend(now, &patience_ns) } else { outgoing.unsent(now, &patience_ns) };
            for (nodes, generation, first, items) in batches {
                messages.push((nodes, Message::Stream { partition, generation, collected, first, items }));
            }
        }
        messages.into_iter().for_each(|(nodes, message)| self.send_all(nodes, message, out));
    }

    pub(super) fn receive_stream(
        &mut self,
        now: Time,
        partition: PartitionId,
        (generation, collected): (u32, Rank),
        first: u64,
        items: Vec<Feed>,
        out: &mut Effects<Self>,
    ) {
        let Some(incoming) = self.streams.incoming.get_mut(&partition) else { return };
        let (begins, ready) = incoming.receive(generation, first, items);
        if begins {
            base::sometimes!("a copy of a partition begins to arrive");
            self.columns.forget(partition);
        }
        let good = ready.iter().all(|feed| self.columns.take(now, partition, feed));
        if !good {
            return self.begin_copy(now, partition, out);
        }
        // Writers wait for what synchronous replicas say.
        if begins || self.options.rival == Some(Rival::SynchronousReplica) {
            self.acknowledge(partition, out);
        } else {
            if self.unacknowledged.is_empty() {
                out.timer(Timer::Ack, now + self.options.ack_ns);
            }
            self.unacknowledged.insert(partition);
        }
        if !ready.is_empty() {
            // The others may have gone on without this node, before it has heard so otherwise.
            self.check_lease(now, collected, out);
            self.finish_queries(now, out);
        }
    }
}

impl Columns {
    /// Announcements of partitions whose columns are not kept here.
    pub(super) fn hear(&mut self, ranks: &[(PartitionId, Rank)]) {
        for (partition, rank) in ranks {
            if let Some(heard) = self.heard.get_mut(partition) {
                *heard = (*heard).max(*rank);
            }
        }
    }

    pub(super) fn receive(&mut self, now: Time, partition: PartitionId, item: &StreamItem) {
        self.graph.receive(now, partition, item);
        match item {
            StreamItem::Record(record) => {
                if let Some(printed) = &mut self.printed {
                    printed.receive(now, record);
                }
                self.store.apply(record);
            }
            StreamItem::Low(rank) => {
                let low = self.low.entry(partition).or_default();
                *low = (*low).max(*rank);
            }
            StreamItem::Vertex(_) => {}
        }
    }
}

impl ColumnView for Columns {
    fn applied(&self, partition: PartitionId) -> LogPosition {
        if self.arriving.contains(&partition) { LogPosition(0) } else { self.store.applied(partition).0 }
    }
    fn newest(&self, partition: PartitionId) -> Rank {
        self.store.applied(partition).1
    }
    fn low(&self, partition: PartitionId) -> Rank {
        self.low.get(&partition).copied().unwrap_or_default()
    }
    fn graph(&self) -> &DependencyGraph {
        &self.graph
    }
    fn safe(&self) -> Rank {
        // Of partitions with columns here, what the stream said: then everything below has arrived.
        let subscribed = self.store.partitions().map(|p| self.low(p));
        subscribed.chain(self.heard.values().copied()).min().unwrap_or_default()
    }
    fn was_issued(&self, partition: PartitionId, position: LogPosition, rank: Rank) -> bool {
        self.issued.get(&partition).is_some_and(|issued| issued.holds(position, rank))
    }
    fn eta(&self, partition: PartitionId, since: Time, exchanges: bool) -> Time {
        self.delays.eta(partition, since, exchanges)
    }
    fn unmerged(&self, partition: PartitionId) -> Vec<(LogPosition, Time)> {
        self.printed.as_ref().map_or(Vec::new(), |printed| printed.unmerged(partition))
    }
    fn begins_at(&self, partition: PartitionId) -> Rank {
        self.begins_at.get(&partition).copied().unwrap_or_default()
    }
}
