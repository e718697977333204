//! What a member remembers beyond its process: records, and checkpoints that stand for those before.
//!
//! | kind | record | emitted |
//! |---|---|---|
//! | 1 | a transaction of this member that asks to commit, with its epoch and number | before it is sent |
//! | 2 | epochs that a member has closed, with how many write sets they have; of another member with those too | of this member before it is sent; of another one when all of it is here, before this one says so |
//! | 3 | what this member has promised and accepted of the next change of the membership | before it says so |
//! | 4 | a change of the membership | before anything is said by somebody who knows it |
//! | 5 | this member takes the seat that a change has given it | before it says anything from there |
//! | 6 | a block of rows of another node's copy | when it comes to a node that has no seat |
//! | 7 | all that a checkpoint holds beside rows | once such a node has a copy |
//!
//! IN: what the other parts are about to say; records that are stable; a checkpoint and the records behind it. OUT:
//! records, images for checkpoints; after a restart, a member that goes on. KEEPS:
//! 1. whatever is sent waits until all records before it are stable (the host sees to it), so nobody hears of an end of an
//!    epoch, an acknowledgement or a promise that the sender's disk does not have;
//! 2. an own epoch counts as complete here once its record is stable, and others' epochs came from members that had
//!    recorded them: so an epoch that is published follows from what is on disks, and a restart publishes it again as it
//!    was. With quorum exposure this member counts towards a majority with what its own disk has;
//! 3. a restart opens an epoch behind all that it has closed, and the one that was open goes on with the write sets that
//!    were recorded: what was sent of it is not numbered again. Readings of clocks grow (csn), incarnations are new;
//! 4. an image holds all that others may ask for again. Nothing from before it is needed.
//!
//! A node comes back on its seat. One without a seat (it was removed, or its directory was lost) begins a copy anew after
//! each restart, until it is let in: then its own disk has all. What is lost with the process: clients, readers, copies
//! that others took from here.

use super::joining::Image;
use super::membership::{Change, Vote};
use super::message::{Epoch, Message, Payload, Seat, Segment};
use super::options::Mutant;
use super::outbox::{Closed, Outbox};
use super::state::{Geogauss, Out};
use crate::engine::{EngineEffect, Executor, Record};
use base::codec;
use base::process::Unreadable;
use base::{NodeId, PartitionId, Rank, Time};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

const WRITE_SET: u8 = 1;
const CLOSED: u8 = 2;
const VOTE: u8 = 3;
const CHANGE: u8 = 4;
const SEATED: u8 = 5;
const COPIED: u8 = 6;
const WHOLE: u8 = 7;
/// Of all payloads.
const VERSION: u8 = 1;

/// How far records are, and how far a restart is.
#[derive(Clone, Debug, Default)]
pub(super) struct Records {
    /// Records of this life.
    emitted: u64,
    /// Own epochs that wait until so many records are stable.
    closing: VecDeque<(u64, Segment)>,
    /// The same of other members' epochs.
    syncing: VecDeque<(u64, Seat, Epoch)>,
    /// Of each member everything up to here is on this node's disk.
    synced: BTreeMap<Seat, Epoch>,
    vote: Vote,
    /// It comes back with what its disk has, and has not started yet.
    is_back: bool,
    /// What no reader needs was given up up to here in former lives.
    collected: Rank,
    /// Blocks of a copy were taken, and not what goes with them.
    lacks_state: bool,
}

/// A member in a checkpoint, beside its rows.
#[derive(Serialize, Deserialize)]
struct Checkpoint {
    /// As another node gets it.
    image: Image,
    seat: Option<Seat>,
    vote: Vote,
    incarnations: BTreeMap<NodeId, u32>,
    /// The last epoch that it has closed, and those that do not count here yet because their records are not stable.
    closed: Epoch,
    closing: Vec<Segment>,
    /// Write sets of the open epoch.
    open: Vec<Arc<Payload>>,
    /// What others may lack.
    kept: BTreeMap<Seat, VecDeque<Closed>>,
    /// What others were told that is still read.
    floor: Rank,
    /// The last reading that was given to a transaction.
    csn: u64,
}

fn record<T: Serialize + for<'a> Deserialize<'a>>(kind: u8, what: &T) -> EngineEffect<Message> {
    EngineEffect::Record(Record { kind, version: VERSION, payload: codec::encode(what) })
}

fn read<T: for<'a> Deserialize<'a> + Serialize>(what: &str, bytes: &[u8]) -> Result<T, Unreadable> {
    codec::decode(bytes).map_err(|error| Unreadable(format!("{what}: {error}")))
}

impl Records {
    fn push(&mut self, record: EngineEffect<Message>, out: &mut Out) -> u64 {
        out.push(record);
        self.emitted += 1;
        self.emitted
    }
}

impl Geogauss {
    pub(super) fn is_recorded(&self) -> bool {
        self.cluster.options.records
    }

    // ---- what is about to be said -----------------------------------------------------------------

    /// A transaction of this member is about to be sent.
    pub(super) fn record_write_set(
        &mut self,
        (epoch, number): (Epoch, u32),
        payload: &Arc<Payload>,
        out: &mut Out,
    ) {
        if self.is_recorded() && !self.cluster.options.planted(Mutant::ForgetWriteSets) {
            self.records.push(record(WRITE_SET, &(epoch, number, payload.clone())), out);
        }
    }
    /// This member has closed epochs: they count here now, or once that is on its disk.
    pub(super) fn closes(&mut self, now: Time, me: Seat, segment: Segment, out: &mut Out) {
        if !self.is_recorded() {
            return self.count_own(now, me, segment);
        }
        if !self.cluster.options.planted(Mutant::ForgetEnds) {
            let none: Vec<Arc<Payload>> = Vec::new();
            self.records.push(record(CLOSED, &(me, segment, none)), out);
        }
        match self.cluster.options.planted(Mutant::CountUnsynced) {
            true => self.count_own(now, me, segment),
            false => self.records.closing.push_back((self.records.emitted, segment)),
        }
    }
    /// All of an epoch of another member is here: others may be told.
    pub(super) fn record_arrived(&mut self, of: Seat, closed: &Closed, out: &mut Out) {
        if !self.is_recorded() || self.membership.seat() == Some(of) {
            return;
        }
        if !self.cluster.options.planted(Mutant::ForgetArrived) {
            self.records.push(record(CLOSED, &(of, closed.0, closed.1.clone())), out);
        }
        self.records.syncing.push_back((self.records.emitted, of, closed.0.last));
    }
    /// Whatever this member has promised or accepted since is about to be said.
    pub(super) fn record_vote(&mut self, out: &mut Out) {
        let vote = self.membership.vote();
        if self.is_recorded() && vote != self.records.vote {
            if !self.cluster.options.planted(Mutant::ForgetVotes) {
                self.records.push(record(VOTE, &vote), out);
            }
            self.records.vote = vote;
        }
    }
    /// A change of the membership is applied.
    pub(super) fn record_change(&mut self, change: &Change, out: &mut Out) {
        if self.is_recorded() {
            self.records.push(record(CHANGE, change), out);
            self.records.vote = self.membership.vote();
        }
    }
    /// This node takes the seat that it was given.
    pub(super) fn record_seat(&mut self, from: Epoch, out: &mut Out) {
        if self.is_recorded() {
            self.records.push(record(SEATED, &from), out);
        }
    }
    /// A block of a copy has come. `is_first`: of its partition.
    pub(super) fn record_copied(&mut self, block: (bool, PartitionId, &Vec<u8>), out: &mut Out) {
        if self.is_recorded() {
            let (is_first, partition, bytes) = block;
            self.records.push(record(COPIED, &(is_first, partition, bytes.clone())), out);
        }
    }
    /// The node goes on from a copy: with the rows that were recorded, and with this.
    pub(super) fn record_whole(&mut self, out: &mut Out) {
        let Records { emitted, .. } = self.records;
        self.records = Records { emitted, ..Records::default() };
        if self.is_recorded() {
            let payload = self.checkpoint();
            self.records.push(EngineEffect::Record(Record { kind: WHOLE, version: VERSION, payload }), out);
            let whole = self.records.emitted;
            let have = self.inbox.have().into_iter();
            self.records.syncing.extend(have.map(|(seat, epoch)| (whole, seat, epoch)));
        }
    }

    /// What of each member may be said to be here: own epochs with what is closed, which leaves after its record; of others
    /// what is recorded.
    pub(super) fn told_have(&self) -> BTreeMap<Seat, Epoch> {
        if !self.is_recorded() {
            return self.inbox.have();
        }
        let mut have = self.inbox.noted();
        let own = self.membership.seat().and_then(|me| have.get_mut(&me));
        own.into_iter().for_each(|own| *own = self.clock.open().previous());
        have
    }
    /// What of each member counts towards a majority for this member.
    pub(super) fn safe_have(&self) -> BTreeMap<Seat, Epoch> {
        match self.is_recorded() {
            true => self.records.synced.clone(),
            false => self.inbox.have(),
        }
    }

    /// So many records of this life are stable.
    pub(super) fn on_synced(&mut self, now: Time, records: u64) {
        while let Some((_, segment)) = self.records.closing.pop_front_if(|(needed, _)| *needed <= records) {
            // What it closed on a seat that is gone counts no more.
            if let Some(me) = self.membership.seat() {
                self.count_own(now, me, segment);
                self.records.synced.insert(me, segment.last);
            }
        }
        while let Some((_, of, epoch)) = self.records.syncing.pop_front_if(|(needed, ..)| *needed <= records)
        {
            let known = self.records.synced.entry(of).or_default();
            *known = epoch.max(*known);
        }
    }

    // ---- checkpoints and restarts -----------------------------------------------------------------

    pub(super) fn checkpoint(&self) -> Vec<u8> {
        let (open, kept) = self.outbox.parts();
        codec::encode(&Checkpoint {
            image: self.copied_image(),
            seat: self.membership.seat(),
            vote: self.membership.vote(),
            incarnations: self.membership.incarnations().clone(),
            closed: self.clock.open().previous(),
            closing: self.records.closing.iter().map(|(_, segment)| *segment).collect(),
            open: open.clone(),
            kept: kept.clone(),
            floor: self.told_floor(),
            csn: self.gateway.last_tick(),
        })
    }

    pub(super) fn take_checkpoint(&mut self, bytes: &[u8]) -> Result<(), Unreadable> {
        let checkpoint: Checkpoint = read("a checkpoint's state", bytes)?;
        let Checkpoint { image, seat, vote, incarnations, closed, closing, open, kept, floor, csn } =
            checkpoint;
        self.take_chain(image.changes);
        self.come_back_to(seat, vote.clone(), incarnations);
        self.go_on_from(image.arrived, Outbox::of(open, kept));
        if let Some(me) = seat {
            // Only a member that serves clients writes one.
            self.had_come_back();
            for segment in closing {
                self.count_own(Time::ZERO, me, segment);
            }
        }
        (self.published, self.requests) = (image.published, image.requests);
        self.clock.come_back(closed);
        self.set_told_floor(floor);
        self.gateway.ticked(csn);
        let Records { emitted, .. } = self.records;
        self.records = Records { emitted, vote, collected: image.collected, ..Records::default() };
        Ok(())
    }

    pub(super) fn take_record(
        &mut self,
        record: Record,
        executor: &mut dyn Executor,
    ) -> Result<(), Unreadable> {
        let Record { kind, version, payload } = record;
        match (kind, version) {
            (WRITE_SET, VERSION) => {
                let (epoch, number, payload): (Epoch, u32, Arc<Payload>) =
                    read("a transaction of this member", &payload)?;
                self.gateway.ticked(payload.clock);
                self.repeat_write_set((epoch, number), payload)?;
            }
            (CLOSED, VERSION) => {
                let (of, segment, payloads) = read("the end of an epoch", &payload)?;
                self.repeat_closed(of, segment, payloads)?;
            }
            (VOTE, VERSION) => {
                let vote: Vote = read("a promise", &payload)?;
                self.stand_by(vote.clone());
                self.records.vote = vote;
            }
            (CHANGE, VERSION) => self.take_change(read("a change of the membership", &payload)?),
            (SEATED, VERSION) => {
                let from: Epoch = read("a seat", &payload)?;
                self.take_seat(from);
                self.was_let_in(from);
            }
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
                self.records.lacks_state = true;
            }
            (WHOLE, VERSION) => self.take_checkpoint(&payload)?,
            _ => return Err(Unreadable(format!("a record of kind {kind}, version {version}"))),
        }
        Ok(())
    }

    fn take_change(&mut self, change: Change) {
        self.change_seats(&change);
        self.records.vote = self.membership.vote();
    }

    /// All that its disk had was taken; answers what its clock may have shown.
    pub(super) fn come_back(&mut self) -> Time {
        let incarnation = self.gateway.incarnation();
        let closed = self.clock.open().previous();
        if self.membership.seat().is_none() || self.records.lacks_state {
            let (topology, options) = (self.cluster.topology.clone(), self.cluster.options.clone());
            *self = Geogauss::rejoining(topology, self.cluster.me, incarnation, options);
            return self.clock.rank(closed).time();
        }
        self.epochs_are_back();
        self.records.synced = self.inbox.have();
        self.records.is_back = incarnation > 1;
        self.clock.rank(closed).time()
    }

    /// The node starts, with what its disk had if it had something.
    pub(super) fn begin_records(&mut self, out: &mut Out) {
        if std::mem::take(&mut self.records.is_back) {
            base::sometimes!("a member comes back with what its disk has");
            out.push(EngineEffect::Restored);
            self.take_floor(self.records.collected, out);
        }
    }
}
