//! How far this node's partitions are, told to readers that do not ask: closed timestamps on their streams; or, where the
//! cluster's [protocol of reading](reads::protocol) wants it so, safe ranks and barriers, and answers of writers that wait
//! until every copy has them.
//!
//! IN: timers, announcements and reports of others, acknowledgements of streams. OUT: items on streams, reports, answers.
//! KEEPS: what is announced as complete is on the stream before; a writer that is held back is answered once.

use super::*;
use crate::message::ReaderMessage;
use crate::questions::{Owner, Purpose, Serving};
use base::order::{Close, StreamItem};
use reads::protocol::{CENTRAL, Report};

impl<E: Engine> Node<E> {
    /// Says of a partition how far it is complete, once it is.
    pub(super) fn publish_low(&mut self, now: Time, partition: PartitionId, out: &mut Effects<Self>) {
        if self.topology.unbounded_clocks {
            // A clock that is ahead would drive the others.
            let low = self.calibration(now, partition).low;
            return self.stream(now, partition, StreamItem::Low(low), out);
        }
        if !self.streams.closing.insert(partition) {
            return;
        }
        let (rank, ticket) = (now.rank(), self.questions.next_ticket());
        self.questions.serving.insert(ticket, Serving { purpose: Purpose::Low(rank), partition, since: now });
        let close = Close { partition, rank, granules: vec![Granule::Partition] };
        self.close(now, ticket, close, out);
    }

    /// The time for it has come.
    pub(super) fn publish_lows(&mut self, now: Time, out: &mut Effects<Self>) {
        // Else safe ranks are announced instead.
        if self.protocol.announces_every_ns().is_none() && !self.told.is_behind {
            let partitions: Vec<PartitionId> = self.topology.copies_at(self.id).collect();
            partitions.into_iter().for_each(|partition| self.publish_low(now, partition, out));
        }
        self.tell_floor();
        self.flush(now, out);
        out.timer(Timer::Low, now + self.options.streaming.low_interval_ns);
    }

    pub(super) fn begin_announcing(&mut self, now: Time, out: &mut Effects<Self>) {
        // Nodes do not announce in step: each begins at its own moment of the interval.
        if let Some(every_ns) = self.protocol.announces_every_ns() {
            let phase_ns = every_ns * (u64::from(self.id.0) * 7 % 30) / 30;
            out.timer(Timer::Announce, now + every_ns + phase_ns);
        }
    }

    /// Puts on each stream how far its partition is safe, so that what lies below has arrived when a subscriber
    /// learns it; then tells those who need to know otherwise.
    pub(super) fn announce(&mut self, now: Time, out: &mut Effects<Self>) {
        let Some(every_ns) = self.protocol.announces_every_ns() else { return };
        let partitions: Vec<PartitionId> = self.topology.partitions_at(self.id).collect();
        for &partition in &partitions {
            match self.safe_rank(now, partition) {
                Some(rank) => self.stream(now, partition, StreamItem::Low(rank), out),
                None => self.publish_low(now, partition, out),
            }
        }
        if !partitions.is_empty() {
            self.flush(now, out);
        }
        match self.protocol.report() {
            Report::Nothing => {}
            Report::Safe(ranks) => self.tell_safe(ranks, out),
            Report::Barriers(barriers) => {
                for (partition, barrier) in barriers {
                    self.tell_barrier(now, partition, barrier, out);
                }
            }
        }
        self.tell_floor();
        out.timer(Timer::Announce, now + every_ns);
    }

    /// To nodes with columns that do not get the streams of all these partitions.
    fn tell_safe(&mut self, ranks: Vec<(PartitionId, Rank)>, out: &mut Effects<Self>) {
        let topology = self.topology.clone();
        for node in topology.node_ids() {
            let subscribes = &topology.nodes[node.0 as usize].subscribes;
            let lacks_one = ranks.iter().any(|(p, _)| !subscribes.contains(p));
            if node != self.id && !subscribes.is_empty() && lacks_one {
                self.send(node, Message::Reader(ReaderMessage::Safe { ranks: ranks.clone() }), out);
            }
        }
        self.columns.hear(&ranks);
    }

    fn tell_barrier(&mut self, now: Time, partition: PartitionId, barrier: Rank, out: &mut Effects<Self>) {
        let (central, report) = (self.topology.node_of(CENTRAL), ReaderMessage::Batch { partition, barrier });
        match central == self.id {
            true => self.on_announced(now, report, out),
            false => self.send(central, Message::Reader(report), out),
        }
    }

    pub(super) fn on_announced(&mut self, now: Time, message: ReaderMessage, out: &mut Effects<Self>) {
        match message {
            ReaderMessage::Safe { ranks } => {
                self.columns.hear(&ranks);
                self.advance_all(now, out);
            }
            ReaderMessage::Batch { partition, barrier } => self.protocol.reported(partition, barrier),
        }
    }

    // ---- writers that wait for copies -------------------------------------------------------------

    /// A transaction has been executed everywhere: answers it, or asks its partitions whether every copy has
    /// it, which it is answered after.
    pub(super) fn executed(&mut self, now: Time, answer: Answer, out: &mut Effects<Self>) {
        let (txn, is_committed) = (answer.txn, answer.outcome.is_committed());
        let partitions = self.protocol.executed(answer.submitted_as, txn, is_committed);
        if partitions.is_empty() {
            return self.answered(now, answer, out);
        }
        self.gateway.hold(answer);
        for partition in partitions {
            let question = self.questions.next_question();
            self.ask(now, question, partition, Question::Replicated(txn), Owner::Copies(txn), out);
        }
    }

    /// Told once every copy of the partition has the transaction.
    pub(super) fn serve_replicated(
        &mut self,
        now: Time,
        from: NodeId,
        question: QuestionId,
        partition: PartitionId,
        txn: TxnId,
        out: &mut Effects<Self>,
    ) {
        if self.protocol.awaits_copies(partition, txn) {
            self.streams.awaited.entry((partition, txn)).or_default().insert((from, question));
            return;
        }
        self.answer(now, from, question, partition, 0, Ok(AnswerBody::Replicated), out);
    }

    /// Every copy of one of its partitions has it.
    pub(super) fn copied(&mut self, now: Time, txn: TxnId, out: &mut Effects<Self>) {
        if self.protocol.copied(txn)
            && let Some(answer) = self.gateway.release(txn)
        {
            self.answered(now, answer, out);
        }
    }

    /// Every subscriber has acknowledged a partition's stream up to `everywhere`.
    pub(super) fn acknowledged(
        &mut self,
        now: Time,
        partition: PartitionId,
        everywhere: u64,
        out: &mut Effects<Self>,
    ) {
        let mut told = Vec::new();
        for txn in self.protocol.acknowledged(partition, everywhere) {
            told.extend(self.streams.awaited.remove(&(partition, txn)).into_iter().flatten());
        }
        for (from, question) in told {
            self.answer(now, from, question, partition, 0, Ok(AnswerBody::Replicated), out);
        }
    }
}
