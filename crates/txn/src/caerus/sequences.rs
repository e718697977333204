//! All changes of the engine's sequences but one: `ordering` appends the transactions that this node orders.
//!
//! IN: what other files want a sequence to do, or know of it. OUT: stable entries, what the logs have to say, as messages
//! and records. KEEPS: what a log changes is recorded, and what it says about that is sent, before anything else happens
//! to it ([`Caerus::log`]); an entry that is handed on is remembered as merged.

use super::image::Merged;
use super::message::{Entry, Floor, Lives, SequenceId, Standing, Term};
use super::options::Mutant;
use super::record_kinds::{LIVES, record};
use super::state::Caerus;
use super::work::{Out, Todo};
use crate::log::{Change, Kept, Log, Posts};
use base::codec;
use base::process::Unreadable;
use base::{NodeId, Rank, Time};

impl Caerus {
    /// What the log of a sequence does; what it has to say is sent.
    pub(super) fn log<R>(
        &mut self,
        sequence: SequenceId,
        out: &mut Out,
        act: impl FnOnce(&mut Log<Entry>, &mut Posts<Entry>) -> R,
    ) -> R {
        let mut todo = Todo::new(&self.cluster, &mut self.work, out);
        self.logs.act(sequence, &mut todo, act)
    }
    /// Who leads a sequence, as far as is known here.
    pub(super) fn leader_of(&self, sequence: SequenceId) -> NodeId {
        self.logs.of(sequence).leader()
    }
    /// The same, and in which term.
    pub(super) fn leader(&self, sequence: SequenceId) -> (NodeId, Term) {
        (self.leader_of(sequence), self.logs.of(sequence).led_in())
    }
    /// The next entry of a sequence that is stable, to be merged.
    pub(super) fn next_stable(&mut self, sequence: SequenceId, out: &mut Out) -> Option<Entry> {
        let entry = self.log(sequence, out, |log, _| log.take())?;
        let txn = entry.transaction.id;
        self.logs.merged(&self.cluster, sequence, txn);
        if !self.cluster.options.planted(Mutant::StampIsNow) {
            let closed = self.logs.of(sequence).closed();
            assert!(entry.stamp > closed, "{txn} is stamped above what {sequence} promised");
        }
        Some(entry)
    }

    // ---- time -------------------------------------------------------------------------------------

    /// Silence of leaders counts from now on.
    pub(super) fn listen_from(&mut self, now: Time) {
        self.logs.listen_from(now);
    }
    /// Sends again what should have been acknowledged, and asks again for places.
    pub(super) fn look_after_sequences(&mut self, now: Time, out: &mut Out) {
        self.logs.overdue(now);
        let mut todo = Todo::new(&self.cluster, &mut self.work, out);
        self.logs.prepare_again(now, &self.cluster, &mut todo);
    }
    /// Asks for places of what has gathered; answers when it may.
    pub(super) fn flush_prepares(&mut self, now: Time, interval_ns: u64, out: &mut Out) -> Option<Time> {
        let mut todo = Todo::new(&self.cluster, &mut self.work, out);
        self.logs.flush_prepares(now, &self.cluster, interval_ns, &mut todo)
    }

    // ---- other nodes ------------------------------------------------------------------------------

    /// A region promises places: what waited for that takes them.
    pub(super) fn on_prepared(
        &mut self,
        now: Time,
        from: NodeId,
        (sequence, term, round): (SequenceId, Term, u64),
        out: &mut Out,
    ) {
        let ready = self.logs.prepared(&self.cluster, from, (sequence, term, round));
        ready.into_iter().for_each(|named| self.place(now, sequence, named, out));
    }
    /// A node has lost its memory, and is in this life now.
    pub(super) fn reborn(&mut self, node: NodeId, life: u32) {
        self.logs.reborn(&self.cluster, node, life);
    }
    /// Whether a message of a node is of its present life, as far as this node knows. Messages of its former lives do not count
    /// any more.
    pub(super) fn hear_lives(&mut self, from: NodeId, lives: &Lives) -> bool {
        for (&node, &life) in lives {
            if node != self.cluster.me {
                self.reborn(node, life);
            }
        }
        lives.get(&from).copied().unwrap_or(0) >= self.logs.lives().get(&from).copied().unwrap_or(0)
    }
    /// This node, which has lost its memory, has promised what any of these regions has, and has the best of their logs.
    pub(super) fn stand_with(&mut self, now: Time, others: impl Iterator<Item = Vec<Standing>>) {
        self.logs.stand_with(now, others);
    }
    /// Begins where another node's copy stands.
    pub(super) fn take_over_sequences(&mut self, sequences: Vec<Merged>) {
        for (sequence, known) in (0..).map(SequenceId).zip(sequences) {
            self.logs.take_over(sequence, (known.merged, known.closed, known.collected), known.seen);
        }
    }

    // ---- collection -------------------------------------------------------------------------------

    /// Transactions of a gateway below its floor have been answered: nobody submits them again.
    pub(super) fn forget_submitted(&mut self, floor: Floor) {
        let Floor { coordinator, incarnation, sequence } = floor;
        self.logs.raise_floor(&self.cluster, (coordinator, incarnation), sequence);
    }
    /// What the collector has told may be given up, as far as this node knows.
    pub(super) fn note_watermark(&mut self) {
        self.logs.collect_to(self.collector.watermark());
    }
    /// The same, and entries to come of sequences led here say so.
    pub(super) fn tell_watermark(&mut self) {
        self.note_watermark();
        self.logs.collect();
    }

    // ---- records ----------------------------------------------------------------------------------

    /// Records what is no change of a sequence. Sequences count it too: they wait until so many records are stable.
    pub(super) fn record(&mut self, kind: u8, payload: Vec<u8>, out: &mut Out) {
        out.push(record(kind, payload));
        self.logs.count_record();
    }
    /// Lives of others are known that were not.
    pub(super) fn record_lives(&mut self, out: &mut Out) {
        if !self.is_recorded() {
            return;
        }
        if let Some(lives) = self.logs.lives_to_record() {
            let payload = codec::encode(lives);
            self.record(LIVES, payload, out);
        }
    }
    /// So many records of this life are stable: whether more of a sequence is, and a closed timestamp that may be told
    /// because of that.
    pub(super) fn sequence_synced(&mut self, sequence: SequenceId, records: u64) -> (bool, Option<Rank>) {
        self.logs.on_synced(sequence, records)
    }
    /// The sequences are as this node's disk has them.
    pub(super) fn take_kept(&mut self, kept: Vec<Kept<Entry>>, lives: Lives) {
        self.logs.take_kept(kept);
        self.take_lives(lives);
    }
    pub(super) fn take_lives(&mut self, lives: Lives) {
        self.logs.take_lives(lives);
    }
    /// Errors: the change does not follow from those before.
    pub(super) fn repeat_change(
        &mut self,
        sequence: SequenceId,
        change: Change<Entry>,
    ) -> Result<(), Unreadable> {
        match self.logs.replay(sequence, change) {
            true => Ok(()),
            false => {
                let why = format!("a change of sequence {sequence} does not follow from those before");
                Err(Unreadable(why))
            }
        }
    }
    /// All that its disk had of the sequences was repeated.
    pub(super) fn sequences_restarted(&mut self, now: Time) {
        self.logs.restarted(now);
    }
}
