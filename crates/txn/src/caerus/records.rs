//! What a node remembers beyond its process: records, and checkpoints that stand for those before.
//!
//! | kind | record | emitted |
//! |---|---|---|
//! | 1 | a change of a sequence ([`Change`](crate::log::Change)): entries, whose log they are, terms that are promised, grants and ceilings | before anything is said because of it |
//! | 2 | up to where this node's clock may show | every half of [`Records::ceiling_ns`](crate::records::Records) |
//! | 3 | nodes that had lost their memory, with their lives | before anything is said to anybody of that |
//! | 4 | what another node of this region has read for a transaction | when it comes: the other one lets go of it once this one has executed |
//! | 5 | a block of rows of another node's copy | when it comes to a node that has lost its directory |
//! | 6 | all that a checkpoint holds beside rows | once such a node has a copy and the word of enough others: before anybody hears of it again |
//!
//! IN: changes of the sequences, records that are stable, a checkpoint and the records behind it. OUT: records; images
//! for checkpoints; after a restart, a node that goes on. KEEPS:
//! 1. whatever is sent waits until all records before it are stable (the host sees to it). So whoever hears of an entry,
//!    an acknowledgement, a grant or a vote hears of what the sender's disk has;
//! 2. nothing is merged here that a crash could take back: with K = 0 an entry is merged at its leader once it is stable
//!    there, and elsewhere when it comes; with K > 0 once K + 1 regions have it on disk. Mergers, rows, outcomes and what
//!    readers see follow from that, and are not recorded;
//! 3. an image holds, beside what a copy for another node holds ([`Image`]), each sequence as it is here, with what is
//!    not merged and what others may lack: nothing from before it is needed;
//! 4. a node that comes back leads nothing that another region could have taken over (K > 0). With K = 0 it leads its
//!    region's sequence in a later term of its own, so gateways and replicas begin their links anew.
//!
//! What is lost with the process: transactions of its gateway that were under way (their clients were disconnected and
//! may repeat them by name), readers, and how transactions ended that other gateways ask for, if that was before the
//! checkpoint: those are told that it is not known.

use super::image::Image;
use super::message::{Entry, Lives};
use super::record_kinds::{CHANGE, CLOCK, COPIED, LIVES, READS, Reads, VERSION, WHOLE};
use super::state::Caerus;
use super::work::Out;
use crate::engine::{EngineEffect, Executor, Record};
use crate::log::Kept;
use crate::records::read;
use base::codec;
use base::process::Unreadable;
use base::time::SECOND;
use base::{PartitionId, Time};
use serde::{Deserialize, Serialize};

/// A node in a checkpoint, beside its rows.
#[derive(Serialize, Deserialize)]
pub(super) struct Checkpoint {
    pub image: Image,
    pub logs: Vec<Kept<Entry>>,
    pub lives: Lives,
    pub clock: Time,
    /// Of other nodes, which may let go of them once this one has executed.
    pub reads: Vec<Reads>,
}

impl Caerus {
    pub(super) fn is_recorded(&self) -> bool {
        self.cluster.options.records.is_some()
    }

    /// No clock was read since it may have shown this, and what was recorded since is kept by nobody.
    pub(super) fn has_shown_at_most(&mut self, shown: Time) {
        self.life.recorded.clock = shown;
    }
    /// The clock may go on.
    pub(super) fn record_clock(&mut self, now: Time, out: &mut Out) {
        let Some(records) = self.cluster.options.records else { return };
        if now + records.ceiling_ns / 2 > self.life.recorded.clock {
            self.life.recorded.clock = now + records.ceiling_ns;
            self.record(CLOCK, codec::encode(&self.life.recorded.clock), out);
        }
    }
    /// Another node has brought what it has read.
    pub(super) fn record_reads(&mut self, reads: &Reads, out: &mut Out) {
        if self.is_recorded() {
            self.record(READS, codec::encode(reads), out);
        }
    }
    /// A block of a copy has come. `is_first`: of its partition.
    pub(super) fn record_copied(&mut self, block: (bool, PartitionId, &[u8]), out: &mut Out) {
        if self.is_recorded() {
            self.record(COPIED, codec::encode(&block), out);
        }
    }
    /// The node is whole with the rows that were recorded and with this. Whatever it says from now on waits until all
    /// of that is on its disk.
    pub(super) fn record_whole(&mut self, out: &mut Out) {
        if !self.is_recorded() {
            return;
        }
        self.record(WHOLE, self.checkpoint(), out);
        // What its logs have changed is in it; repeated behind it the same comes of it.
        for sequence in self.cluster.running() {
            self.log(sequence, out, |_, _| ());
        }
    }

    /// So many records of this life are stable: what waited for that goes on.
    pub(super) fn on_synced(&mut self, now: Time, records: u64, out: &mut Out) {
        for sequence in self.cluster.running() {
            let (is_more, raised) = self.sequence_synced(sequence, records);
            if is_more {
                self.advance(now, sequence, out);
                self.open_log(now, sequence, out);
            }
            if let Some(closed) = raised {
                // Readers may wait for what could not be told.
                self.promise(sequence, closed, out);
                self.log(sequence, out, |log, posts| log.tell_replicas(now, posts));
            }
        }
    }
    /// All that its disk had was taken; answers what its clock may have shown.
    pub(super) fn come_back(&mut self) -> Time {
        // One that had recorded nothing may have said what needs no record: that a transaction has arrived.
        self.life.recorded.is_back = self.life.born() > 1 && self.life.is_running();
        if !self.life.is_running() {
            // Whatever its disk has of a copy is forgotten when the next one begins to come.
            self.begin_later_life();
        }
        self.life.recorded.clock
    }

    pub(super) fn checkpoint(&self) -> Vec<u8> {
        codec::encode(&self.checkpointed())
    }
    pub(super) fn checkpointed(&self) -> Checkpoint {
        let logs = self.logs.iter().map(|log| log.kept()).collect();
        let (image, lives) = (self.merged_image(), self.logs.lives().clone());
        let mut reads = self.scheduler.pending_reads(&self.cluster, &self.merger);
        reads.extend(self.life.recorded.reads.iter().cloned());
        Checkpoint { image, logs, lives, clock: self.life.recorded.clock, reads }
    }

    pub(super) fn take_checkpoint(&mut self, bytes: &[u8]) -> Result<(), Unreadable> {
        self.stand_as(read("a checkpoint's state", bytes)?)
    }
    pub(super) fn stand_as(&mut self, checkpoint: Checkpoint) -> Result<(), Unreadable> {
        let Checkpoint { image, logs, lives, clock, reads } = checkpoint;
        if logs.len() != self.logs.len() {
            let why = format!("a checkpoint has {} sequences, this cluster {}", logs.len(), self.logs.len());
            return Err(Unreadable(why));
        }
        self.take_over(image);
        self.take_kept(logs, lives);
        (self.life.recorded.clock, self.life.recorded.reads) = (clock, reads);
        // Only a node that is whole writes one.
        self.life.remembered();
        Ok(())
    }

    pub(super) fn take_record(
        &mut self,
        record: Record,
        executor: &mut dyn Executor,
    ) -> Result<(), Unreadable> {
        let Record { kind, version, payload } = record;
        match (kind, version) {
            (CHANGE, VERSION) => {
                let (sequence, change) = read("a change of a sequence", &payload)?;
                self.repeat_change(sequence, change)?;
            }
            (CLOCK, VERSION) => {
                self.life.recorded.clock = self.life.recorded.clock.max(read("a clock's ceiling", &payload)?)
            }
            (READS, VERSION) => self.life.recorded.reads.push(read("reads of another node", &payload)?),
            (LIVES, VERSION) => self.take_lives(read("lives of nodes", &payload)?),
            (COPIED, VERSION) => {
                let (is_first, partition, bytes): (bool, PartitionId, Vec<u8>) =
                    read("a block of a copy", &payload)?;
                if !self.cluster.topology.holds(self.cluster.me, partition) {
                    return Err(Unreadable(format!("{partition} does not live here")));
                }
                if is_first {
                    executor.forget(partition);
                }
                executor.restore(partition, &bytes);
            }
            (WHOLE, VERSION) => {
                self.take_checkpoint(&payload)?;
            }
            _ => return Err(Unreadable(format!("a record of kind {kind}, version {version}"))),
        }
        Ok(())
    }

    /// The node starts: it goes on with what its disk had, if it had something, and records what it promises.
    pub(super) fn begin_records(&mut self, now: Time, out: &mut Out) {
        if !self.is_recorded() {
            return;
        }
        if std::mem::take(&mut self.life.recorded.is_back) {
            self.life.restarted(now);
            self.sequences_restarted(now);
            out.push(EngineEffect::Restored);
            for sequence in self.cluster.running() {
                self.follow_leader(sequence);
                self.announce(sequence, out);
            }
            // What is merged executes, and for that there are no rows here.
            self.life.recorded.lags = true;
            base::sometimes!("a node comes back with what its disk has");
        }
        self.record_clock(now, out);
    }
    /// What its disk had is merged, before anything else happens.
    pub(super) fn catch_up(&mut self, now: Time, out: &mut Out) {
        if std::mem::take(&mut self.life.recorded.lags) {
            // They may be nowhere else, so they are kept for as long as it may take to hear what is stable.
            let heard_at = now + 60 * SECOND;
            for reads in std::mem::take(&mut self.life.recorded.reads) {
                self.take_reads(heard_at, self.cluster.me, reads, out);
            }
            for sequence in self.cluster.running() {
                self.advance(now, sequence, out);
                self.open_log(now, sequence, out);
            }
        }
    }
}
