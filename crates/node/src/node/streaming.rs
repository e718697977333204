//! Order streams: out of this node's partitions, into its columns and to other nodes.

use super::*;
use crate::streams::{Feed, Turn};
use base::order::StreamItem;

/// How often streams are looked over for what was not acknowledged.
pub(super) const RESEND_NS: u64 = 50 * MS;

/// How long a subscriber may owe an acknowledgement before what it did not acknowledge is sent again.
pub(super) fn stream_patience_ns(topology: &Topology, options: &Options, me: NodeId, to: NodeId) -> u64 {
    3 * topology.one_way_ns(me, to) + options.streaming.ack_ns + 50 * MS
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
        if let StreamItem::Record(record) = &item
            && self.data.replicas.trackers.is_tracked(partition)
            && self.options.planted() != Some(Mutant::ForgetWrites)
        {
            self.data.track(record);
        }
        if self.told.is_behind {
            return; // It comes with the copy.
        }
        if self.subscribes(partition) {
            self.columns.receive(now, partition, &item);
            if self.columns.is_behind(partition) {
                self.go_on_later(Turn::CatchUp(partition), out);
            }
        } else if let Some(graph) = self.streams.published.get_mut(&partition) {
            graph.receive(now, partition, &item);
        }
        let wanted = match &item {
            StreamItem::Record(record) => self.streams.wanted.remove(&(partition, record.txn)),
            _ => None,
        };
        let outgoing = self.streams.outgoing.get_mut(&partition).expect("streams only its own partitions");
        let index = outgoing.has_subscribers().then(|| outgoing.end());
        self.protocol.streamed(partition, index, &item);
        outgoing.push(match item {
            StreamItem::Record(record) if self.protocol.ships_whole_records() => {
                StreamItem::Record(record.whole())
            }
            item => item,
        });
        // Each low takes along what has gathered: a reader cannot use it sooner, unless it asks.
        let is_sooner = self.options.streaming.flush_ns < self.options.streaming.low_interval_ns;
        if is_sooner && !outgoing.is_settled() && !self.streams.flush_armed {
            self.streams.flush_armed = true;
            out.timer(Timer::Flush, now + self.options.streaming.flush_ns);
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
        let graph = self.streams.published.get(&partition).unwrap_or(self.columns.graph());
        if graph.has_logged(partition, txn) {
            self.flush(now, out);
            return self.answer(now, from, question, partition, 0, Ok(AnswerBody::Streamed), out);
        }
        self.streams.wanted.entry((partition, txn)).or_default().insert((from, question), now);
    }

    pub(super) fn flush(&mut self, now: Time, out: &mut Effects<Self>) {
        self.data.replicas.trackers.all_sent();
        self.send_batches(now, false, out);
        if !self.streams.resend_armed && !self.streams.is_settled() {
            self.streams.resend_armed = true;
            out.timer(Timer::Resend, now + RESEND_NS);
        }
    }

    /// Sends what is new to remote subscribers; `again` also repeats what they have not acknowledged in
    /// time.
    pub(super) fn send_batches(&mut self, now: Time, again: bool, out: &mut Effects<Self>) {
        let (topology, me, options) = (self.topology.clone(), self.id, &self.options);
        let collected = self.columns.collected_below();
        let patience_ns = |node| stream_patience_ns(&topology, options, me, node);
        let mut messages = Vec::new();
        for (&partition, outgoing) in &mut self.streams.outgoing {
            let batches =
                if again { outgoing.resend(now, &patience_ns) } else { outgoing.unsent(now, &patience_ns) };
            for (nodes, generation, first, items) in batches {
                let life = self.questions.life();
                let stream = Message::Stream { partition, generation, life, collected, first, items };
                messages.push((nodes, stream));
            }
        }
        messages.into_iter().for_each(|(nodes, message)| self.send_all(nodes, message, out));
    }

    pub(super) fn receive_stream(
        &mut self,
        now: Time,
        partition: PartitionId,
        (generation, life, collected): (u32, Life, Rank),
        first: u64,
        items: Vec<Feed>,
        out: &mut Effects<Self>,
    ) {
        let Some(incoming) = self.streams.incoming.get_mut(&partition) else { return };
        let begins = incoming.receive((generation, life), first, items);
        incoming.collected = incoming.collected.max(collected);
        if begins {
            base::sometimes!("a copy of a partition begins to arrive");
            self.columns.forget(partition);
        }
        self.take_streamed(now, partition, begins, out);
    }

    /// Takes a bounded part of what has arrived on a stream.
    pub(super) fn take_streamed(
        &mut self,
        now: Time,
        partition: PartitionId,
        begins: bool,
        out: &mut Effects<Self>,
    ) {
        let Some(incoming) = self.streams.incoming.get_mut(&partition) else { return };
        let ready = incoming.take(self.options.steps.keys);
        let (collected, has_more) = (incoming.collected, incoming.has_more());
        if has_more {
            base::sometimes!("what has arrived on a stream takes several steps");
            self.go_on_later(Turn::Take(partition), out);
        }
        let mut is_good = true;
        for feed in &ready {
            is_good &= self.columns.take(now, partition, feed);
            self.data.replicas.take(partition, feed);
        }
        if !is_good {
            return self.begin_copy(now, partition, out);
        }
        if self.columns.is_behind(partition) {
            self.go_on_later(Turn::CatchUp(partition), out);
        }
        if begins || self.protocol.acknowledges_at_once() {
            self.acknowledge(partition, out);
        } else {
            if self.streams.unacknowledged.is_empty() {
                out.timer(Timer::Ack, now + self.options.streaming.ack_ns);
            }
            self.streams.unacknowledged.insert(partition);
        }
        if !ready.is_empty() {
            if !has_more {
                // The others may have gone on without this node, before it has heard so otherwise.
                self.check_lease(now, collected, out);
            }
            self.advance_all(now, out);
        }
    }
}
