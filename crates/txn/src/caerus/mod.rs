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
//! The way of a transaction. Its *gateway* sends it, whole, to the *sequencer* of each of
//! its regions. Each appends it, with a stamp, to its region's *partial sequence*, which goes to the
//! *mergers* of all regions. A merger that has it in all sequences of its regions, and everything it
//! depends on likewise, gives it its place; the *scheduler* executes it. A transaction whose regions
//! include the gateway's is answered there after one round trip to the farthest of them, and without
//! any trip between regions if there is only that one.
//!
//! Parts. Each owns what it remembers, in private fields; the loop in `state` hands on what one has for another. What
//! never changes is one value, `cluster`, that all read.
//!
//! | part | owns | takes | gives |
//! |---|---|---|---|
//! | `gateway`, `crate::gate` | submissions, links to leaders, answers | submissions, ends of transactions | transactions for sequences, answers |
//! | `availability` | silences, what a lost region blocks | closed timestamps, time | refusals |
//! | `logs`, `intake`, [`crate::log`]; `sequences` and `ordering` work them | the sequences, terms, grants, elections | transactions to append, what nodes say of a sequence | stable entries, closed timestamps |
//! | `merger` | the graph | entries | components with their places |
//! | `homes` | where things are homed, and who touched them last | entries, places of moves | whom an entry meets |
//! | `scheduler` | what runs when, values of other nodes | components with their places | ends of transactions, streams |
//! | `outcomes`, `requests` | how transactions ended, what clients were told of those in flight | ends of transactions | their fate, first attempts |
//! | `readers`: `closing`, `calibrating` | readers | cuts, closed timestamps, places, ends | answers to readers |
//! | `collection` | watermarks | reports of nodes | what may be forgotten |
//! | `rejoin` (`life`), `crate::donor` | the mode (running, recovering), copies that others take | blocks, standings | blocks, standings |
//! | `records` | what is recorded beside the sequences | changes of the sequences, records that are stable | records, checkpoints |
//! | `wakes` | deadlines and idle back-off | time | reminders |
//!
//! Ranks. `rank(C) = max(stamps of all entries of C's members, 1 + rank of whom it depends on)`; a stamp
//! is the sequencer's clock + ε, or for a transaction that spans regions the time when it should be
//! complete. A sequencer tells with every message its closed timestamp: nothing later is stamped at or below. So a
//! reader closes a rank t at its own region's copy: it waits for the closed timestamp of the sequences it reads, and
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
//! Clocks without a bound ([`base::topology::Topology::unbounded_clocks`]). Stamps are clock readings still, since any
//! will do that lies above the closed timestamp and the session's rank; nothing is stamped in the future, and answers wait
//! for no clock.
//! How late a reader's cut has to be is found by asking (see `calibrating`), and a sequence whose clock is behind that
//! cut is asked to go on above it. What is lost is real time between transactions that do not conflict.
//!
//! Lost regions. With K > 0 ([`Options::copies_elsewhere`]) an entry is merged, at any region, only once K
//! regions other than its leader's have it: so whatever was executed, answered or shown to a reader is known in
//! K + 1. The paper waits for copies of the answered transaction's own entry; for K ≥ 2 an entry ahead of it in
//! another sequence could still vanish, and take the answered order along. Of K lost regions another one leads
//! the sequences, in a later term (see `recovery`); more than K lost, or fewer than K + 1 left, and what needs
//! their sequences is refused while all else goes on (see `availability`). A region that comes back with what it knew drops what only it had, which it never executed, and goes
//! on from where it was: others keep what it lacks, however long that takes. A gateway's own region executes
//! everything, so it answers from there. A region that comes back without what it knew, with K > 0, gets a copy of
//! another one's state and what it is bound by from a quorum, and counts for nothing until then (see `rejoin`).
//!
//! Lost machines. A node may be kept by several machines of its region (`node::durable`): they log its inputs, so the
//! sequencer's next machine goes on with the same entries, stamps and promises after an election among them, and no
//! other region has to lead its sequence.
//!
//! Tables and partitions move to another home while everything goes on; see `homes`.
//!
//! A client that got no answer repeats its request, by name, at any gateway; see `requests`.
//!
//! Regions are added, and K and distances change, between two lives of all nodes; see `change`.
//!
//! What is not here: a region of several nodes with copies comes back without its memory only if another one deals
//! the same copies to as many nodes (a copy is taken from one node, as of one moment).
//!
//! Suggested reading order: the modules below, top to bottom.

mod asking;
mod availability;
mod calibrating;
mod change;
mod claims;
mod closing;
mod cluster;
mod collection;
mod context;
mod delaying;
mod fates;
mod following;
mod gateway;
mod homes;
mod image;
mod intake;
mod invariants;
mod logs;
mod merger;
pub mod message;
pub mod options;
mod ordering;
mod outcomes;
mod pacing;
mod plausibility;
mod preparing;
mod readers;
mod record_kinds;
mod records;
mod recovery;
mod rejoin;
mod requests;
mod rounds;
mod routing;
mod scheduler;
mod sequences;
mod state;
#[cfg(test)]
mod tests;
mod wakes;
mod work;
pub use change::Point;
pub use cluster::comes_back;
pub use message::{Message, SequenceId, Timer};
pub use options::{FutureRanks, Mutant, Options, Records};
pub use routing::{Agreement, Routing};
pub use state::Caerus;

use crate::engine::{
    Answered, Command, Engine, EngineEffects, EngineReport, Executor, Question, Record, Unanswered,
};
use base::process::Unreadable;
use base::txn::Submission;
use base::{NodeId, Rank, SqlError, Time, TxnId};

impl Engine for Caerus {
    type Message = Message;

    fn start(&mut self, now: Time, out: &mut EngineEffects<Self>) {
        self.listen_from(now);
        self.begin_records(now, out);
        if self.cluster.options.records.is_some() {
            // What was merged executes with the first wake-up.
            self.wakes.flush_by(now, now);
        }
        self.wakes.tick_at(now + self.cluster.options.heartbeats.every_ns);
        self.wakes.collect_at(now + self.cluster.options.collection.every_ns);
    }

    fn submit(
        &mut self,
        now: Time,
        submission: Submission,
        executor: &mut dyn Executor,
        out: &mut EngineEffects<Self>,
    ) -> TxnId {
        self.catch_up(now, out);
        let id = self.take_submission(now, submission);
        match self.life.is_running() {
            true => self.settle(now, executor, out),
            false => self.open_gate(now, out),
        }
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
        if !self.is_plausible(now, from, &message) {
            return;
        }
        self.catch_up(now, out);
        match message {
            Message::CopyPart { copy, by, number, of, part } => {
                self.on_copy_part(now, from, (copy, by, number, of, part), executor, out)
            }
            Message::Rejoined { .. } | Message::CopyEnded { .. } => self.handle(now, from, message, out),
            _ if !self.life.is_running() => self.while_joining(now, from, message, out),
            Message::CopyWanted { copy, from: first } => {
                self.on_copy_wanted(now, from, (copy, first), executor, out)
            }
            _ => self.handle(now, from, message, out),
        }
        if self.life.is_running() {
            self.settle(now, executor, out);
        }
    }

    fn next_wake(&self) -> Option<Time> {
        self.wakes.next()
    }

    fn wake(&mut self, now: Time, executor: &mut dyn Executor, out: &mut EngineEffects<Self>) {
        self.catch_up(now, out);
        let mark = self.wakes.mark();
        while let Some(timer) = self.wakes.due(now, mark) {
            self.remind(now, timer, executor, out);
        }
        if self.is_unfinished() {
            self.go_on(now, executor, out);
        }
    }

    fn goes_on(&self) -> bool {
        self.is_unfinished()
    }

    fn ask(
        &mut self,
        now: Time,
        question: Question,
        executor: &mut dyn Executor,
        out: &mut EngineEffects<Self>,
    ) -> Result<Option<Answered>, Unanswered> {
        match question {
            Question::Close { ticket, close } => self.open_close(now, ticket, close, out),
            Question::WillClose { partition, rank } => self.hasten_close(now, partition, rank, out),
            Question::Latest { ticket, partition, granules } => {
                self.find_latest(now, ticket, (partition, granules), out);
                self.settle(now, executor, out);
            }
            Question::Forget { ticket } => self.forget_reader(ticket),
            Question::Calibration { partition } => {
                return Ok(Some(Answered::Calibration(self.calibration(now, partition))));
            }
            Question::LeastCut => return Ok(Some(Answered::Rank(self.least_cut_here(out)))),
            // What is safe here is told without being asked, and nobody hands out timestamps.
            Question::SafeRank { .. } | Question::Timestamp => {
                return Err(Unanswered { question: question.name() });
            }
        }
        Ok(None)
    }

    fn admin(
        &mut self,
        now: Time,
        command: Command,
        executor: &mut dyn Executor,
        out: &mut EngineEffects<Self>,
    ) -> Result<TxnId, SqlError> {
        let Command::MoveHome { partition, to } = command;
        if let Some(absent) = self.not_whole() {
            return Err(absent);
        }
        let id = self.take_move(now, partition, to)?;
        self.settle(now, executor, out);
        Ok(id)
    }

    fn hand_over(&mut self, now: Time, executor: &mut dyn Executor, out: &mut EngineEffects<Self>) {
        self.catch_up(now, out);
        if self.life.is_running() {
            self.resign(now, out);
            self.settle(now, executor, out);
        }
    }

    fn leads(&self) -> usize {
        self.led_for_others()
    }

    fn set_floor(&mut self, floor: Option<Rank>) {
        self.set_readers_floor(floor);
    }

    fn resume(&mut self, now: Time, incarnation: u32, out: &mut EngineEffects<Self>) {
        self.begin_life(incarnation);
        self.wakes.resume();
        self.listen_from(now);
        self.wakes.tick_at(now);
        self.wakes.collect_at(now);
        self.open_gate(now, out);
        self.flush(now, out);
    }

    fn stable(
        &mut self,
        now: Time,
        records: u64,
        executor: &mut dyn Executor,
        out: &mut EngineEffects<Self>,
    ) {
        if !self.life.is_running() {
            return; // Later ones say the same and more.
        }
        self.catch_up(now, out);
        self.on_synced(now, records, out);
        self.settle(now, executor, out);
    }

    fn image(&self) -> Vec<u8> {
        self.checkpoint()
    }

    fn restore(&mut self, image: &[u8]) -> Result<(), Unreadable> {
        self.take_checkpoint(image)
    }

    fn replay(&mut self, record: Record, executor: &mut dyn Executor) -> Result<(), Unreadable> {
        self.take_record(record, executor)
    }

    fn recovered(&mut self) -> Time {
        self.come_back()
    }

    fn absent(&self) -> Option<SqlError> {
        self.not_whole()
    }

    fn report(&self) -> EngineReport {
        let is_led_elsewhere = |sequence: &&SequenceId| {
            self.logs.of(**sequence).led_in() != u64::from(self.cluster.home_of(**sequence).0)
        };
        let links = [self.gateway.sent()].into_iter();
        let logs = self.logs.iter().filter_map(|log| log.outbox());
        let logs = logs.map(|outbox| (outbox.sent_count, outbox.resent_count));
        let (sent, resent) = links.chain(logs).fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
        let counters = [
            ("terms led by others", self.cluster.running().iter().filter(is_led_elsewhere).count() as u64),
            ("entries sent", sent),
            ("entries sent again", resent),
            ("reads asked for", self.scheduler.reads_asked()),
        ];
        let kept = self.logs.iter().map(|log| log.kept_count());
        let entries: usize = kept.map(|(log, unsent)| log + unsent).sum();
        let held = [
            ("vertices", self.vertex_count() as u64),
            ("granules", self.granule_count() as u64),
            ("entries", entries as u64),
            ("outcomes", self.outcomes.len() as u64),
        ];
        EngineReport {
            counters: counters.into(),
            held: held.into(),
            refused_messages: self.refused_messages.clone(),
            regions: self.availability.health(&self.cluster, &self.logs),
        }
    }
}
