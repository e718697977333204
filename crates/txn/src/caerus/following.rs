//! Following a sequence: what its leader appends comes here, and is merged once it is stable.

use super::message::{Append, Entry, Message, Named};
use super::options::Mutant;
use super::state::{Caerus, Out};
use base::{NodeId, Rank, RegionId, Time};

impl Caerus {
    pub(super) fn on_append(&mut self, now: Time, from: NodeId, mut append: Append, out: &mut Out) {
        let (sequence, term) = (append.sequence, append.term);
        if !self.cluster.is_replica || !self.cluster.speaks(from, sequence, term) {
            return; // A peer with another topology. Silence, never a guess.
        }
        if !self.hear_lives(from, &append.lives) {
            return; // The leader has lost its memory since.
        }
        let known = &mut self.sequences[sequence.0 as usize];
        if term < known.promised || term < known.led_in {
            let term = known.promised.max(known.led_in);
            return self.send(from, Message::Overtaken { sequence, term }, out);
        }
        known.promised = term;
        known.heard_at = now;
        self.leads(now, sequence, term);
        let at_once =
            self.cluster.acts_at_once(sequence) || self.cluster.options.planted(Mutant::OwnEntriesOnly);
        let copies = self.cluster.copies_of(sequence);
        let votes = self.cluster.votes(sequence);
        let has_entries = !append.entries.is_empty();
        let known = &mut self.sequences[sequence.0 as usize];
        let before = known.granted;
        let is_probed = copies > 0 && append.probe > known.probed;
        known.probed = append.probe.max(known.probed);
        if copies > 0 {
            known.granted = before.max(append.wanted);
        }
        let (next, gap) = known.receive(&mut append);
        if known.accepted == term {
            // What has come here from another region is in two.
            let own = known.end();
            let here = at_once || copies == 1 && votes;
            let stable = if here { own } else { append.stable };
            self.advance(now, sequence, stable, out);
        }
        let known = &mut self.sequences[sequence.0 as usize];
        known.release(append.everywhere);
        let (merged, granted, probe, echo) = (known.merged, known.granted, append.probe, append.sent_at);
        if has_entries || gap || granted != before || is_probed {
            let lives = self.lives.clone();
            let ack = Message::AppendAck { sequence, term, next, merged, gap, granted, probe, lives, echo };
            self.send(from, ack, out);
        }
    }

    /// Entries before `stable` are where they have to be: merges what is here of them.
    pub(super) fn advance(&mut self, now: Time, sequence: RegionId, stable: u64, out: &mut Out) {
        let known = &mut self.sequences[sequence.0 as usize];
        known.stable = known.stable.max(stable);
        while let Some(entry) = self.sequences[sequence.0 as usize].take() {
            self.follow(now, sequence, entry, out);
        }
        self.lower(sequence, out);
        self.merged_more(sequence, out);
    }

    /// Readers may learn how far the sequence is complete.
    pub(super) fn lower(&mut self, sequence: RegionId, out: &mut Out) {
        let known = &self.sequences[sequence.0 as usize];
        let reached = known.reached();
        if reached > known.low {
            self.low_is(sequence, reached, out);
        }
    }

    /// No later entry of the sequence is stamped at or below `low`.
    pub(super) fn low_is(&mut self, sequence: RegionId, low: Rank, out: &mut Out) {
        let known = &mut self.sequences[sequence.0 as usize];
        assert!(known.low <= low, "the low of {sequence} only grows");
        known.low = low;
        self.low_reached(sequence, low, out);
    }

    /// The next entry of a sequence is stable.
    fn follow(&mut self, now: Time, sequence: RegionId, entry: Entry, out: &mut Out) {
        let txn = entry.transaction.id;
        let leads = self.leading.get_mut(&sequence).map(|sequencer| sequencer.fresh.remove(&txn));
        let remembers = leads.is_some() || self.cluster.votes(sequence);
        let known = &mut self.sequences[sequence.0 as usize];
        if remembers {
            known.seen.insert(txn);
        }
        if !self.cluster.options.planted(Mutant::StampIsNow) {
            assert!(entry.stamp > known.low, "{txn} is stamped above what {sequence} promised");
        }
        if self.cluster.feeds_others(sequence) {
            return self.take_pieces(now, (entry.transaction, entry.request), out);
        }
        self.merge(now, sequence, entry, out);
    }

    /// Whoever was ordered elsewhere and belongs here too is ordered at once: its gateway may be gone.
    pub(super) fn order_orphan(&mut self, now: Time, sequence: RegionId, named: Named, out: &mut Out) {
        if !self.cluster.orders_orphans() {
            return;
        }
        let (txn, regions) = (named.0.id, self.cluster.regions_of(&named.0));
        for led in self.led() {
            if led != sequence && regions >> led.0 & 1 == 1 && self.is_open(led) && !self.is_ordered(led, txn)
            {
                base::sometimes!("a transaction is heard of from another sequence first");
                self.order(now, led, named.clone(), out);
            }
        }
    }
}
