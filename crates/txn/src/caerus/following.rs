//! Following sequences: what their leaders append comes here, and is merged once it is stable.

use super::message::{Append, Entry, Named, SequenceId, sequences_in};
use super::state::Caerus;
use super::work::Out;
use base::{NodeId, Time};

impl Caerus {
    pub(super) fn on_append(&mut self, now: Time, from: NodeId, append: Append, out: &mut Out) {
        let (sequence, term) = (append.sequence, append.said.term);
        if !self.cluster.is_replica || !self.cluster.speaks(from, sequence, term) {
            return; // A peer with another topology. Silence, never a guess.
        }
        if !self.hear_lives(from, &append.lives) {
            return; // The leader has lost its memory since.
        }
        let said = append.said;
        let followed = self.log(sequence, out, |log, posts| log.on_append(now, from, said, posts));
        let Some(followed) = followed else { return };
        if followed.is_new_leader {
            self.follow_leader(sequence);
        }
        if followed.is_current {
            self.advance(now, sequence, out);
        }
        self.log(sequence, out, |log, posts| log.acknowledge(followed, posts));
    }

    /// More entries of a sequence may be stable: merges them.
    pub(super) fn advance(&mut self, now: Time, sequence: SequenceId, out: &mut Out) {
        while let Some(entry) = self.next_stable(sequence, out) {
            self.follow(now, sequence, entry, out);
        }
        self.lower(sequence, out);
        self.merged_more(sequence, out);
    }

    /// Readers may learn how far the sequence is complete.
    pub(super) fn lower(&mut self, sequence: SequenceId, out: &mut Out) {
        if let Some(closed) = self.log(sequence, out, |log, _| log.lower()) {
            self.closed_reached(sequence, closed, out);
        }
    }

    /// The next entry of a sequence is stable.
    fn follow(&mut self, now: Time, sequence: SequenceId, entry: Entry, out: &mut Out) {
        if self.cluster.feeds_others(sequence) {
            return self.take_pieces(now, (entry.transaction, entry.request), out);
        }
        self.merge(now, sequence, entry, out);
    }

    /// Whoever was ordered elsewhere and belongs here too is ordered at once: its gateway may be gone.
    pub(super) fn order_orphan(&mut self, now: Time, sequence: SequenceId, named: Named, out: &mut Out) {
        if !self.cluster.orders_orphans() {
            return;
        }
        let (txn, regions) = (named.0.id, self.cluster.regions_of(&named.0));
        for led in self.logs.led() {
            if led != sequence
                && regions >> led.0 & 1 == 1
                && self.logs.is_open(led)
                && !self.logs.is_ordered(led, txn)
            {
                base::sometimes!("a transaction is heard of from another sequence first");
                self.order(now, led, named.clone(), out);
            }
        }
    }

    /// The log of all regions has come to a transaction: the regions led here order their pieces of it.
    pub(super) fn take_pieces(&mut self, now: Time, named: Named, out: &mut Out) {
        let regions = self.cluster.regions_of(&named.0);
        for sequence in sequences_in(regions) {
            if self.logs.is_open(sequence) {
                self.order(now, sequence, named.clone(), out);
            }
        }
    }
}
