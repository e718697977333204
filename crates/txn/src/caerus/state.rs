//! What a node remembers, and the loop that settles everything one event brings about.

use super::availability::Availability;
use super::cluster::Cluster;
use super::collection::collector::Collector;
use super::context::Context;
use super::gateway::{Gateway, is_schema_change};
use super::homes::Residences;
use super::image::{self, Copied, Image};
use super::logs::Logs;
use super::merger::{Component, Extra, Merged, Merger};
use super::message::{Entry, Message, SequenceId, Timer};
use super::options::Options;
use super::outcomes::Outcomes;
use super::plausibility::Refusals;
use super::readers::Readers;
use super::record_kinds::Reads;
use super::rejoin::life::Life;
use super::routing::Routing;
use super::scheduler::{Executed, Scheduler};
use super::wakes::Wakes;
use super::work::{Out, Todo, Work};
use crate::delays::Delays;
use crate::engine::Executor;
use crate::graph::vertex::{Ref, State, Vertex};
use crate::log::Ack;
use base::topology::Topology;
use base::{NodeId, Time, TxnId};
use std::collections::VecDeque;
use std::sync::Arc;

/// The engine at one node: parts that own what they remember, and a loop that hands on what one has for another.
#[derive(Clone, Debug)]
pub struct Caerus {
    pub(super) cluster: Arc<Cluster>,
    pub(super) life: Life,
    pub(super) gateway: Gateway,
    pub(super) availability: Availability,
    pub(super) refused_messages: Refusals,

    pub(super) logs: Logs,
    pub(super) residences: Residences,
    pub(super) merger: Merger,
    pub(super) scheduler: Scheduler,
    pub(super) outcomes: Outcomes,

    pub(super) readers: Readers,

    pub(super) collector: Collector,
    pub(super) delays: Delays,
    pub(super) wakes: Wakes,
    pub(super) work: VecDeque<Work>,
}

impl Caerus {
    /// An engine for `me` in its `incarnation`-th life. Every region that runs partitions must keep a
    /// copy of all of them ([`Topology::replicated`]).
    pub fn new(topology: Arc<Topology>, me: NodeId, incarnation: u32, options: Options) -> Caerus {
        Caerus::with(Cluster::new(topology, me, options), incarnation, true)
    }

    /// `leads`: it leads from the beginning what its region orders.
    pub(super) fn with(cluster: Cluster, incarnation: u32, leads: bool) -> Caerus {
        Caerus {
            life: Life::new(incarnation),
            gateway: Gateway::new(incarnation),
            availability: Availability::default(),
            refused_messages: Refusals::new(),
            logs: Logs::new(&cluster, leads),
            residences: Residences::new(&cluster),
            merger: Merger::default(),
            scheduler: Scheduler::new(&cluster),
            outcomes: Outcomes::default(),
            readers: Readers::default(),
            collector: Collector::default(),
            delays: Delays::new(&cluster.topology),
            wakes: Wakes::default(),
            work: VecDeque::new(),
            cluster: Arc::new(cluster),
        }
    }

    /// An engine that has lost the memory of its former lives, in its `incarnation`-th one. A node with copies gets
    /// them from elsewhere before anybody is answered; see `rejoin`.
    pub fn rejoining(topology: Arc<Topology>, me: NodeId, incarnation: u32, options: Options) -> Caerus {
        let cluster = Cluster::new(topology, me, options);
        let is_replica = cluster.is_replica;
        let mut engine = Caerus::with(cluster, incarnation, !is_replica);
        if is_replica {
            engine.life = Life::recovering(incarnation, engine.cluster.refused());
            engine.reborn(me, incarnation);
        }
        engine
    }

    /// Which logs there are.
    pub fn routing(&self) -> Routing {
        self.cluster.options.routing
    }

    /// Vertices held now.
    pub fn vertex_count(&self) -> usize {
        self.merger.graph().len()
    }
    /// Transactions known here that have no final place yet.
    pub fn unordered_count(&self) -> usize {
        self.merger.unordered()
    }
    /// Granules remembered by the conflict indexes.
    pub fn granule_count(&self) -> usize {
        self.residences.granule_count()
    }

    /// Options that a test changes before anything happens.
    #[cfg(test)]
    pub(super) fn options_mut(&mut self) -> &mut Options {
        &mut Arc::get_mut(&mut self.cluster).expect("nobody else looks").options
    }

    /// Stands where the image's node stood. This one must have merged nothing, and must be of the same cluster.
    pub(super) fn take_over(&mut self, image: Image) {
        assert!(self.merger.graph().is_empty(), "a copy is taken over by who has nothing");
        let Image { sequences, partitions, vertices, turns, requests, watermark, given_up } = image;
        self.take_over_sequences(sequences);
        let graph = image::restored(vertices, &self.cluster);
        let at_of = |txn: TxnId| graph.find(txn).expect("an image names whom it holds");
        let split = |copied: Copied| ((copied.position, copied.rank_max), (copied.rest, copied.tables));
        let (logs, residences): (Vec<_>, Vec<_>) = partitions.into_iter().map(split).unzip();
        self.residences.take_over(&self.cluster, residences, &at_of);
        self.scheduler.take_over(logs, turns.restored(&at_of));
        self.take_over_outcomes(requests);
        // Their node waited for reads of others in its region; here they are read anew.
        let is_due = |vertex: &Vertex<Extra>| {
            vertex.extra.local && vertex.state == State::Emitted && vertex.turn.has_come()
        };
        let due = graph.iter().filter(|(_, vertex)| is_due(vertex));
        self.work.extend(due.map(|(at, _)| Work::Execute(at)));
        self.merger = Merger::of(graph);
        self.collector.take_over(watermark, given_up);
        self.note_watermark();
    }

    /// Forgets what was merged or taken over.
    pub(super) fn forget_merged(&mut self) {
        self.merger = Merger::default();
        self.scheduler.forget_merged();
        self.forget_merged_outcomes();
        self.work.clear();
    }

    pub(super) fn send(&mut self, to: NodeId, message: Message, out: &mut Out) {
        Todo::new(&self.cluster, &mut self.work, out).send(to, message);
    }

    /// Readers, and what they see of the other parts.
    pub(super) fn reading<'a>(&'a mut self, out: &'a mut Out) -> (&'a mut Readers, Context<'a>) {
        let Caerus { cluster, residences, logs, merger, scheduler, .. } = self;
        let (collector, availability) = (&self.collector, &mut self.availability);
        let todo = Todo::new(cluster, &mut self.work, out);
        let cx = Context { cluster, residences, logs, merger, scheduler, collector, availability, todo };
        (&mut self.readers, cx)
    }

    pub(super) fn handle(&mut self, now: Time, from: NodeId, message: Message, out: &mut Out) {
        match message {
            Message::Submit { sequence, term, incarnation, first, transactions, sent_at } => {
                self.delays.arrived(from, self.cluster.me, now.since(sent_at));
                self.on_submit(now, from, sequence, term, incarnation, (first, transactions, sent_at), out)
            }
            Message::SubmitAck { sequence, term, incarnation, next, gap, echo } => {
                if incarnation == self.life.born() {
                    self.gateway.on_submit_ack(now, from, (sequence, term), next, (gap, echo))
                }
            }
            Message::Append(append) => {
                self.delays.arrived(from, self.cluster.me, now.since(append.said.sent_at));
                self.on_append(now, from, append, out)
            }
            Message::AppendAck { sequence, term, next, merged, gap, granted, probe, lives, echo } => {
                if self.hear_lives(from, &lives) {
                    let ack = Ack { next, merged, gap, granted, probe, echo };
                    self.on_append_ack(now, from, (sequence, term), ack, out)
                }
            }
            Message::LeftBehind { sequence, term, first } => self.on_left_behind(from, sequence, term, first),
            Message::CloseWanted { sequence, rank, at } => self.on_close_wanted(now, at, sequence, rank, out),
            Message::Prepare { sequence, term, round } => {
                let mut todo = Todo::new(&self.cluster, &mut self.work, out);
                self.logs.on_prepare(&self.cluster, from, (sequence, term, round), &mut todo)
            }
            Message::Prepared { sequence, term, round } => {
                self.on_prepared(now, from, (sequence, term, round), out)
            }
            Message::Calibrate { sequence, number } => self.on_calibrate(now, from, sequence, number, out),
            Message::Calibrated { sequence, term, number, end } => {
                self.on_calibrated(sequence, number, (term, end), out)
            }
            message @ (Message::Suspect { .. }
            | Message::Agreed { .. }
            | Message::Elect { .. }
            | Message::Promise { .. }
            | Message::Overtaken { .. }
            | Message::Leads { .. }
            | Message::Resigns { .. }) => self.on_election(now, from, message, out),
            Message::Reads { txn, gathered } => self.on_reads(now, from, (txn, gathered), out),
            Message::ReadsWanted { txn } => {
                let mut todo = Todo::new(&self.cluster, &mut self.work, out);
                self.scheduler.on_reads_wanted(&self.cluster, &self.merger, from, txn, &mut todo)
            }
            Message::Homes { .. } if self.cluster.is_replica => {}
            Message::Homes { homes } => self.residences.learn(homes),
            Message::Executed { txn, end, share } => self.on_executed(now, from, txn, end, share),
            Message::OutcomeWanted { txn } => self.on_outcome_wanted(from, txn, out),
            Message::Progress { done, executed, floor, delays_ns } => {
                self.on_progress(now, from, (done, executed), floor, delays_ns, out)
            }
            Message::Watermark { term, rank, ready, floors, delays_ns } => {
                self.delays.share(self.cluster.me, delays_ns);
                self.on_watermark(term, (rank, ready), &floors, out)
            }
            Message::Rejoin { copy, merged } => self.on_rejoin(from, copy, &merged, out),
            Message::Rejoined { copy, lives, standings } => {
                self.on_rejoined(now, from, copy, &lives, standings, out)
            }
            Message::CopyEnded { copy } => self.on_copy_ended(now, from, copy, out),
            Message::CopyWanted { .. } | Message::CopyPart { .. } => {
                unreachable!("whoever asks for a copy is not this node")
            }
        }
    }

    /// Another node of this region has read this.
    fn on_reads(&mut self, now: Time, from: NodeId, reads: Reads, out: &mut Out) {
        self.record_reads(&reads, out);
        self.take_reads(now, from, reads, out)
    }
    pub(super) fn take_reads(&mut self, now: Time, from: NodeId, reads: Reads, out: &mut Out) {
        let mut todo = Todo::new(&self.cluster, &mut self.work, out);
        self.scheduler.on_reads(now, &mut self.merger, from, reads, &mut todo)
    }

    /// Does everything that follows within this call, then sets the timers.
    pub(super) fn settle(&mut self, now: Time, executor: &mut dyn Executor, out: &mut Out) {
        self.append_delayed(now, out);
        loop {
            while let Some(work) = self.work.pop_front() {
                match work {
                    Work::Deliver(message) => self.handle(now, self.cluster.me, message, out),
                    Work::Search(root) => self.search(now, root, out),
                    Work::Execute(at) => self.execute(now, at, executor, out),
                }
            }
            self.open_gate(now, out);
            if !self.release(now, out) {
                break;
            }
        }
        self.flush(now, out);
        self.rouse(now);
    }

    /// Sends what may go now and sees to it that the rest will.
    pub(super) fn flush(&mut self, now: Time, out: &mut Out) {
        let interval_ns = self.wakes.interval_ns(&self.cluster.options);
        let submits = self.gateway.flush(now, self.life.born(), interval_ns, out);
        let prepares = self.flush_prepares(now, interval_ns, out);
        let appends = self.flush_appends(now, out);
        let delayed = self.logs.delayed_until();
        if let Some(at) = [submits, prepares, appends, delayed].into_iter().flatten().min() {
            self.wakes.flush_by(now, at);
        }
    }

    /// Tells nodes without a copy, which hear no moves, where things are homed that have moved.
    fn announce_homes(&mut self, out: &mut Out) {
        if self.cluster.sequencers[usize::from(self.cluster.region.0)] != Some(self.cluster.me) {
            return;
        }
        let homes = self.residences.moved();
        if homes.is_empty() {
            return;
        }
        let topology = &self.cluster.topology;
        let is_told = |node: &NodeId| {
            topology.region_of(*node) == self.cluster.region && topology.copies_at(*node).next().is_none()
        };
        let mut todo = Todo::new(&self.cluster, &mut self.work, out);
        for node in topology.node_ids().filter(is_told) {
            todo.send(node, Message::Homes { homes: homes.clone() });
        }
    }

    fn tick(&mut self, now: Time, out: &mut Out) {
        self.record_clock(now, out);
        self.watch(now, out);
        self.look_for_silence(now, out);
        self.gateway.let_go_on();
        self.heartbeat(now, out);
        self.gateway.overdue(now);
        self.look_after_sequences(now, out);
        let mut todo = Todo::new(&self.cluster, &mut self.work, out);
        self.gateway.ask_outcomes(now, &self.cluster, &mut todo);
        self.scheduler.ask_reads(now, &self.cluster, &self.merger, &mut todo);
        self.ask_ends(now, out);
        self.ask_closed(now, out);
        self.scheduler.forget_early(now, self.cluster.options.retry_after_ns(&self.cluster.topology));
        self.collect();
        self.give_up(out);
    }

    /// A tick has come and was worked off: the next one.
    fn ticked(&mut self, now: Time) {
        let is_busy = self.is_busy();
        self.wakes.ticked(now, is_busy, &self.cluster);
    }

    /// Something may have happened: whoever rests looks around soon.
    fn rouse(&mut self, now: Time) {
        if self.wakes.rests() && self.is_busy() {
            self.wakes.rouse(now, &self.cluster);
        }
    }

    /// Whether something is under way here. Readers that wait do not count: there are always some that follow
    /// the streams.
    fn is_busy(&self) -> bool {
        !(self.is_settled() && self.life.donor.is_idle())
    }
    /// Nothing is under way here, but perhaps copies that others take.
    pub(super) fn is_settled(&self) -> bool {
        self.life.is_running()
            && self.gateway.is_settled()
            && self.merger.is_settled()
            && self.scheduler.is_settled()
            && self.readers.is_settled()
            && self.logs.is_settled()
    }

    /// Lets out the answers that may go, and sees to it that the next one will.
    pub(super) fn open_gate(&mut self, now: Time, out: &mut Out) {
        if let Some(at) = self.gateway.open_gate(now, &self.cluster, out) {
            self.wakes.gate_at(at);
        }
    }

    /// What a reminder is about.
    pub(super) fn remind(&mut self, now: Time, timer: Timer, executor: &mut dyn Executor, out: &mut Out) {
        if !self.life.is_running() {
            return self.remind_joining(now, timer, out);
        }
        match timer {
            // Both follow from whatever settles.
            Timer::Flush | Timer::Gate => {}
            Timer::Tick => {
                self.tick(now, out);
                self.drop_unwanted_copies(now, executor);
                self.ticked(now);
            }
            Timer::Collect => {
                self.report_progress(now, out);
                self.logs.led().into_iter().for_each(|sequence| self.announce(sequence, out));
                self.announce_homes(out);
                self.wakes.collect_at(now + self.cluster.options.collection.every_ns);
            }
        }
        self.settle(now, executor, out);
    }

    /// The same reminders, for a node that is not whole.
    fn remind_joining(&mut self, now: Time, timer: Timer, out: &mut Out) {
        match timer {
            Timer::Flush => {}
            Timer::Gate => self.open_gate(now, out),
            Timer::Tick => {
                self.go_on_joining(now, out);
                self.ticked(now);
            }
            Timer::Collect => {
                self.report_absence(out);
                self.wakes.collect_at(now + self.cluster.options.collection.every_ns);
            }
        }
    }

    /// The next entry of a sequence.
    pub(super) fn merge(&mut self, now: Time, sequence: SequenceId, entry: Entry, out: &mut Out) {
        let mut todo = Todo::new(&self.cluster, &mut self.work, out);
        let places = (&*self.cluster, &mut self.residences);
        let Merged { at, is_first } = self.merger.add(now, places, sequence, &entry, &mut todo);
        if is_first {
            self.scheduler.known(now, &mut self.merger, entry.transaction.id, &mut todo);
        }
        self.changed(at, out);
        self.order_orphan(now, sequence, (entry.transaction, entry.request), out);
    }

    /// Gives places to a complete transaction's closure, if all of it is complete.
    fn search(&mut self, now: Time, root: Ref, out: &mut Out) {
        for members in self.merger.search(&self.cluster.options, root) {
            self.place_component(now, &members, out);
        }
    }

    /// A component gets its place: its members are scheduled, and readers may go on.
    fn place_component(&mut self, now: Time, members: &Component, out: &mut Out) {
        let mut todo = Todo::new(&self.cluster, &mut self.work, out);
        let rank = self.merger.place(now, &self.cluster.options, members, &mut todo);
        for vertex in members.iter().map(|at| self.merger.vertex(*at)).filter(|vertex| !vertex.extra.stale) {
            if let Some(transaction) = vertex.transaction.as_ref().filter(|t| t.homes.is_some()) {
                self.residences.placed(&self.cluster, transaction, rank);
            }
        }
        self.scheduler.schedule(&self.cluster, &mut self.merger, members, rank, &mut todo);
        self.merger.let_go(members);
        for &at in members {
            self.changed(at, out);
            self.ranked(at, out);
        }
    }

    /// Whether a copy or an execution that takes several steps is under way.
    pub(super) fn is_unfinished(&self) -> bool {
        self.life.is_running() && (self.life.donor.goes_on() || self.scheduler.next_unfinished().is_some())
    }

    /// The next step of what takes several.
    pub(super) fn go_on(&mut self, now: Time, executor: &mut dyn Executor, out: &mut Out) {
        self.go_on_giving(executor, out);
        if let Some(at) = self.scheduler.next_unfinished() {
            self.execute(now, at, executor, out);
        }
        self.settle(now, executor, out);
    }

    fn execute(&mut self, now: Time, at: Ref, executor: &mut dyn Executor, out: &mut Out) {
        let mut todo = Todo::new(&self.cluster, &mut self.work, out);
        let graph = (&*self.cluster, &mut self.merger, &mut self.outcomes);
        if let Some(executed) = self.scheduler.execute(now, graph, at, executor, &mut todo) {
            self.show(now, executed, out);
        }
    }

    /// Shows what has executed to its client and to readers.
    fn show(&mut self, now: Time, executed: Executed, out: &mut Out) {
        let Executed { at, end } = executed;
        let vertex = self.merger.vertex(at);
        let (txn, regions) = (vertex.id, vertex.extra.regions);
        let everybody = vertex.transaction.as_ref().is_some_and(is_schema_change);
        self.changed(at, out);
        let (cluster, gateway) = (&self.cluster, txn.coordinator);
        let is_own = gateway == cluster.me;
        let answers = everybody || cluster.answering_region(gateway, regions) == cluster.region;
        // Where regions may be lost, a gateway may have to be content with its own.
        let may_ask = cluster.survives() && cluster.topology.region_of(gateway) == cluster.region;
        if may_ask || answers && !is_own {
            self.remember_end(txn, end.clone());
        }
        let (end, share) = end;
        if is_own && answers {
            return self.on_executed(now, gateway, txn, end, share);
        }
        if answers {
            self.send(gateway, Message::Executed { txn, end, share }, out);
        }
    }
}
