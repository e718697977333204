//! Caerus (Hildred, Abebe, Daudjee, VLDB 2023): every region orders what is homed there, all regions
//! merge these partial sequences into one order of whatever conflicts, and execute it for themselves.
//!
//! IN: submissions at the gateway, messages of other nodes, closes of readers. OUT: executions through
//! the [`Executor`], answers, each local copy's stream. KEEPS:
//! 1. a transaction occurs once in the sequence of each region that a partition it touches is homed in,
//!    and in no other; an entry never changes;
//! 2. two conflicting transactions without a place that share a sequence are connected in the graph;
//! 3. the set of transactions with a place is closed under dependencies;
//! 4. components are the same in all regions, and so are ranks; members of one execute by id;
//! 5. conflicting transactions execute in the order of (rank, id) at every copy, so copies that have
//!    executed the same are equal;
//! 6. an answer follows execution, and its rank lies in the past for every clock;
//! 7. after `Close(t)` at a copy nothing that writes those granules appears there at or below t;
//! 8. transaction ids are never used again.
//!
//! The way of a transaction. The *batcher* of its gateway sends it, whole, to the *sequencer* of each of
//! its regions. Each appends it, with a stamp, to its region's *partial sequence*, which goes to the
//! *mergers* of all regions. A merger that has it in all sequences of its regions, and everything it
//! depends on likewise, gives it its place; the *scheduler* executes it. A transaction whose regions
//! include the gateway's is answered there after one round trip to the farthest of them, and without
//! any trip between regions if there is only that one.
//!
//! Ranks. `rank(C) = max(stamps of all entries of C's members, 1 + rank of whom it depends on)`; a stamp
//! is the sequencer's clock + ε, or for a transaction that spans regions the time when it should be
//! complete. A sequencer tells with every message its `low`: nothing later is stamped at or below. So a
//! reader closes a rank t at its own region's copy: it waits for the `low` of the sequences it reads, and
//! for those in flight that write what it reads and may be ranked up to t. A cut by the prefix of a
//! region's merged order would not do: regions place independent transactions in different orders, and
//! two readers would see a long fork.
//!
//! What the paper leaves open or gets wrong, and what is done here:
//! - Alg. 1 draws the edge from a write to the write before it only if that one is gone (inverted), and
//!   never updates who wrote and read last; see [`merger`].
//! - "The graphs are the same in all regions" (Lemma 4.7) holds up to edges into those with a place.
//! - A gateway that dies between two submissions would block every later conflict everywhere. Whoever is
//!   heard of from another sequence is appended to the own one at once.
//! - Nothing bounds the graph: a gateway starts only so many, and none while too many lack a place.
//!
//! Lost regions. With K > 0 ([`Options::copies_elsewhere`]) an entry is merged, at any region, only once K
//! regions other than its leader's have it: so whatever was executed, answered or shown to a reader is known in
//! K + 1. The paper waits for copies of the answered transaction's own entry; for K ≥ 2 an entry ahead of it in
//! another sequence could still vanish, and take the answered order along. Of K lost regions another one leads
//! the sequences, in a later term (see `recovery`); more than K lost, or fewer than K + 1 left, and everything
//! waits. A region that comes back with what it knew drops what only it had, which it never executed, and goes
//! on from where it was: others keep what it lacks, however long that takes. A gateway's own region executes
//! everything, so it answers from there.
//!
//! Tables and partitions move to another home while everything goes on; see `homes`.
//!
//! A client that got no answer repeats its request, by name, at any gateway; see `requests`.
//!
//! What is not here yet: a sequence is not replicated inside its region (a node may be, as a whole), and a
//! region that comes back without what it knew has nobody who gives it a copy: it stays lost.
//!
//! Suggested reading order: the modules below, top to bottom.

mod batcher;
mod closing;
mod collection;
mod holding;
mod homes;
mod invariants;
mod link;
mod merger;
pub mod message;
pub mod options;
mod protocol;
mod recovery;
mod requests;
mod resting;
mod rounds;
mod scheduler;
mod sequence;
mod sequencer;
mod state;
#[cfg(test)]
mod tests;
pub use message::{Message, Timer};
pub use options::{FutureRanks, Mutant, Options};
pub use protocol::{Agreement, Protocol};
pub use state::Caerus;

use crate::engine::{Engine, EngineEffect, EngineEffects, Executor};
use base::order::{Calibration, Close, CloseTicket};
use base::txn::Submission;
use base::{NodeId, PartitionId, Rank, RegionId, SqlError, Time, TxnId};
use resting::Rest;
use state::Out;

impl Caerus {
    /// Sends what may go now and sees to it that the rest will.
    fn flush(&mut self, now: Time, out: &mut Out) {
        let submits = self.flush_submits(now, out);
        let prepares = self.flush_prepares(now, out);
        let appends = self.flush_appends(now, out);
        let held = self.held_until();
        if let Some(at) = [submits, prepares, appends, held].into_iter().flatten().min()
            && self.flush_timer.is_none_or(|armed| at < armed)
        {
            self.flush_timer = Some(at);
            out.push(EngineEffect::Timer { at, timer: Timer::Flush });
        }
    }

    fn tick(&mut self, now: Time, out: &mut Out) {
        self.watch(now, out);
        self.let_go_on();
        self.heartbeat(now, out);
        self.links.values_mut().for_each(|link| _ = link.outbox.overdue(now));
        self.leading.values_mut().for_each(|sequencer| _ = sequencer.log.overdue(now));
        self.prepare_again(now, out);
        self.ask_outcomes(now, out);
        self.ask_reads(now, out);
        self.collect(now);
        self.give_up(out);
    }
}

impl Engine for Caerus {
    type Message = Message;
    type Timer = Timer;

    fn start(&mut self, now: Time, out: &mut EngineEffects<Self>) {
        self.sequences.iter_mut().for_each(|known| known.heard_at = now);
        self.tick_at(now + self.options.heartbeat_ns, out);
        out.push(EngineEffect::Timer { at: now + self.options.collect_every_ns, timer: Timer::Collect });
    }

    fn submit(
        &mut self,
        now: Time,
        submission: Submission,
        executor: &mut dyn Executor,
        out: &mut EngineEffects<Self>,
    ) -> TxnId {
        let id = self.submitted(now, submission);
        self.settle(now, executor, out);
        id
    }

    fn message(
        &mut self,
        now: Time,
        from: NodeId,
        message: Message,
        executor: &mut dyn Executor,
        out: &mut EngineEffects<Self>,
    ) {
        self.handle(now, from, message, out);
        self.settle(now, executor, out);
    }

    fn timer(&mut self, now: Time, timer: Timer, executor: &mut dyn Executor, out: &mut EngineEffects<Self>) {
        match timer {
            Timer::Flush => self.flush_timer = None,
            Timer::Tick => {
                self.tick(now, out);
                self.ticked(now, out);
            }
            Timer::Gate => self.gate_timer = None,
            Timer::Collect => {
                self.report(now, out);
                self.led().into_iter().for_each(|sequence| self.announce(sequence, out));
                self.announce_homes(out);
                let at = now + self.options.collect_every_ns;
                out.push(EngineEffect::Timer { at, timer: Timer::Collect });
            }
        }
        self.settle(now, executor, out);
    }

    fn move_home(
        &mut self,
        now: Time,
        partition: PartitionId,
        to: RegionId,
        executor: &mut dyn Executor,
        out: &mut EngineEffects<Self>,
    ) -> Result<TxnId, SqlError> {
        let id = self.begin_move(now, partition, to)?;
        self.settle(now, executor, out);
        Ok(id)
    }

    fn close(&mut self, now: Time, ticket: CloseTicket, close: Close, out: &mut EngineEffects<Self>) {
        self.open_close(now, ticket, close, out);
    }

    fn will_close(&mut self, now: Time, partition: PartitionId, rank: Rank, out: &mut EngineEffects<Self>) {
        self.hasten_close(now, partition, rank, out);
    }

    fn forget_close(&mut self, ticket: CloseTicket) {
        self.cancel_close(ticket);
    }

    fn resume(&mut self, now: Time, incarnation: u32, out: &mut EngineEffects<Self>) {
        assert!(incarnation > self.incarnation, "a new life has a new number");
        self.incarnation = incarnation;
        self.count = 0;
        self.gate_timer = None;
        self.flush_timer = None;
        self.sequences.iter_mut().for_each(|known| known.heard_at = now);
        self.rest = Rest::default();
        self.tick_at(now, out);
        out.push(EngineEffect::Timer { at: now, timer: Timer::Collect });
        self.open_gate(now, out);
        self.flush(now, out);
    }

    fn calibrate(&mut self, now: Time, partition: PartitionId) -> Calibration {
        // Readers that this lets go on are told with the next low.
        let lows = self.homes_in(partition).map(|home| self.sequences[usize::from(home.0)].low);
        let low = self.safe_below(lows.fold(now.rank(), Rank::min), partition);
        let partition = self.partition(partition);
        Calibration { position: partition.position, rank: partition.rank_max, low }
    }

    fn set_floor(&mut self, floor: Option<Rank>) {
        self.floor = floor;
    }
}
