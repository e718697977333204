//! Readers of this node: cuts that are closed, and cuts that are found.
//!
//! IN: questions, and what other parts have changed that readers wait for. OUT: answers. KEEPS: a reader is answered
//! once, by [`closing`](super::closing) or [`calibrating`](super::calibrating), unless it goes away before; it reads
//! what other parts own and writes none of it. Here is what connects the two with those parts: a sequence that this
//! node leads promises what a reader needs, and a reader whose rows have moved is looked at again.

use super::calibrating::Findings;
use super::closing::{Closes, Moved, StillWaits, safe_below};
use super::message::{Message, SequenceId, Term, sequences_in};
use super::state::Caerus;
use super::work::Out;
use crate::engine::EngineEffect;
use crate::graph::vertex::Ref;
use base::order::{Calibration, Close, CloseTicket};
use base::txn::Granule;
use base::{NodeId, PartitionId, Rank, Time};

/// Readers that wait.
#[derive(Clone, Debug, Default)]
pub(super) struct Readers {
    closes: Closes,
    findings: Findings,
}

impl Readers {
    /// No reader waits for its cut to be found.
    pub fn is_settled(&self) -> bool {
        self.findings.is_empty()
    }
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.closes.is_empty() && self.findings.is_empty()
    }
    /// The reader went away.
    pub fn cancel(&mut self, ticket: CloseTicket) {
        self.findings.cancel(ticket);
        self.closes.cancel(ticket);
    }
}

impl Caerus {
    /// The reader went away.
    pub(super) fn forget_reader(&mut self, ticket: CloseTicket) {
        self.readers.cancel(ticket);
    }

    pub(super) fn open_close(&mut self, now: Time, ticket: CloseTicket, close: Close, out: &mut Out) {
        if let Some(absent) = self.not_whole() {
            return out.push(EngineEffect::Answered { ticket, result: Err(absent) });
        }
        let (readers, mut cx) = self.reading(out);
        if readers.closes.open(now, ticket, close, &mut cx) {
            self.close_at_home(ticket, out);
            self.ask_closed(now, out);
        }
    }

    /// Closes a reader's cut at the sequences that order now what is read.
    fn close_at_home(&mut self, ticket: CloseTicket, out: &mut Out) {
        let (readers, cx) = self.reading(out);
        let Some((sequences, rank)) = readers.closes.begin(ticket, &cx) else { return };
        for sequence in sequences_in(sequences) {
            if self.logs.leads(sequence) {
                self.promise(sequence, rank, out);
            }
        }
        let (readers, mut cx) = self.reading(out);
        let moved = readers.closes.wait(ticket, sequences, &mut cx);
        self.close_moved(moved, out);
    }
    fn close_moved(&mut self, moved: Moved, out: &mut Out) {
        if let Some(ticket) = moved {
            self.close_at_home(ticket, out);
        }
    }

    /// The closed timestamp of a sequence is told: readers that waited for that go on.
    pub(super) fn closed_reached(&mut self, sequence: SequenceId, closed: Rank, out: &mut Out) {
        let (readers, _) = self.reading(out);
        for ticket in readers.closes.due(sequence, closed) {
            let (readers, mut cx) = self.reading(out);
            let moved = readers.closes.is_complete(sequence, ticket, &mut cx);
            self.close_moved(moved, out);
        }
    }

    /// A transaction's bound was raised, or it got its place, or it executed: readers may go on.
    pub(super) fn changed(&mut self, at: Ref, out: &mut Out) {
        if !self.readers.closes.waits_for_some() {
            return;
        }
        let mut still = Vec::new();
        for ticket in self.readers.closes.take_behind(at) {
            let (readers, mut cx) = self.reading(out);
            match readers.closes.go_on(at, ticket, &mut cx) {
                Ok(moved) => self.close_moved(moved, out),
                Err(StillWaits) => still.push(ticket),
            }
        }
        self.readers.closes.put_behind(at, still);
    }

    /// A reader of this node asks a copy elsewhere to close a rank. Who leads the sequence can tell the copy its
    /// closed timestamp meanwhile: the question is on its way as long as this, so the copy need not ask first.
    pub(super) fn hasten_close(&mut self, now: Time, partition: PartitionId, rank: Rank, out: &mut Out) {
        let at = self.cluster.topology.copy_near(partition, self.cluster.me);
        for home in self.residences.homes_in(partition) {
            if at == self.leader_of(home) || !self.readers.closes.hastens(home, at, rank) {
                continue;
            }
            match self.logs.leads(home) {
                true => self.on_close_wanted(now, at, home, rank, out),
                false => self.reading(out).1.want_closed(home, rank, at),
            }
        }
    }

    /// Asks again for closed timestamps that readers here wait for: a clock elsewhere may never come to them by itself.
    pub(super) fn ask_closed(&mut self, now: Time, out: &mut Out) {
        if !self.cluster.is_unbounded() {
            return;
        }
        for n in 0..self.logs.len() {
            let sequence = SequenceId(n as u16);
            let Some(rank) = self.readers.closes.closed_wanted(sequence) else { continue };
            if self.logs.leads(sequence) {
                self.want_own_closed(now, sequence, rank, out);
                continue;
            }
            let (readers, mut cx) = self.reading(out);
            if readers.closes.asks_again(now, sequence, rank, cx.patience_ns(sequence)) {
                let (leader, at) = (cx.logs.of(sequence).leader(), cx.cluster.me);
                cx.todo.send(leader, Message::CloseWanted { sequence, rank, at });
            }
        }
    }

    /// Refuses those readers that wait for what has turned out to be lost.
    pub(super) fn refuse_readers(&mut self, out: &mut Out) {
        let (readers, mut cx) = self.reading(out);
        readers.closes.refuse_lost(&mut cx);
    }

    pub(super) fn find_latest(
        &mut self,
        now: Time,
        ticket: CloseTicket,
        read: (PartitionId, Vec<Granule>),
        out: &mut Out,
    ) {
        let (readers, mut cx) = self.reading(out);
        readers.findings.open(now, ticket, read, &mut cx);
    }

    /// Asks leaders where their sequences end, for readers that find their cuts.
    pub(super) fn ask_ends(&mut self, now: Time, out: &mut Out) {
        let (readers, mut cx) = self.reading(out);
        readers.findings.want_later(now, &mut cx);
        readers.findings.ask_ends(now, &mut cx);
    }

    /// To the leader: where does the sequence end?
    pub(super) fn on_calibrate(
        &mut self,
        now: Time,
        from: NodeId,
        sequence: SequenceId,
        number: u64,
        out: &mut Out,
    ) {
        if self.logs.get(sequence).is_some() {
            self.log(sequence, out, |log, posts| log.on_calibrate(now, from, number, posts));
        }
    }

    /// A leader tells where its sequence ended.
    pub(super) fn on_calibrated(
        &mut self,
        sequence: SequenceId,
        number: u64,
        end: (Term, u64),
        out: &mut Out,
    ) {
        let (readers, mut cx) = self.reading(out);
        readers.findings.on_calibrated(sequence, number, end, &mut cx);
    }

    /// More of a sequence is merged here, or its log is a later leader's.
    pub(super) fn merged_more(&mut self, sequence: SequenceId, out: &mut Out) {
        if !self.readers.is_settled() {
            let (readers, mut cx) = self.reading(out);
            readers.findings.merged_more(sequence, &mut cx);
        }
    }

    /// A transaction has its rank.
    pub(super) fn ranked(&mut self, at: Ref, out: &mut Out) {
        if !self.readers.is_settled() {
            let (readers, mut cx) = self.reading(out);
            readers.findings.ranked(at, &mut cx);
        }
    }

    /// No cut of this node, now or later, is below; where clocks are bounded they see to that.
    pub(super) fn least_cut_here(&mut self, out: &mut Out) -> Rank {
        self.reading(out).1.least_cut()
    }

    /// How far a partition of this node has executed. Readers that this lets go on are told with the next closed timestamp.
    pub(super) fn calibration(&self, now: Time, partition: PartitionId) -> Calibration {
        let closed = self.residences.homes_in(partition).map(|home| self.logs.of(home).closed());
        let most = if self.cluster.is_unbounded() { Rank::MAX } else { now.rank() };
        let closed = safe_below(&self.cluster, &self.merger, closed.fold(most, Rank::min), partition);
        let (position, rank) = self.scheduler.log(partition);
        Calibration { position, rank, low: closed }
    }
}
