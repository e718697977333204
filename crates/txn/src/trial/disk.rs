//! Disks of a small world: nodes crash between any two effects, and come back with what was synced.
//!
//! A node's records are written in order, and synced a while later, all that wait at once. A crash keeps what was synced
//! and any beginning of the rest. Now and then a node writes a checkpoint, while it goes on; two are kept, the records
//! before the older one are deleted, and a restart may find the newer one damaged. What a node sends waits for the
//! records before it, and so does what it answers in the same step.

use super::executor::Rows;
use super::world::{Event, Subject, World};
use crate::engine::{EngineEffect, Executor, Record};
use crate::timers::Alarms;
use base::rng::Rng;
use base::topology::Topology;
use base::{NodeId, PartitionId, Time};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Faults of hosts and disks that tests plant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// What is sent does not wait for records.
    ReleasedBeforeRecord,
    /// A record counts as stable when it is written.
    StableBeforeSync,
    /// A checkpoint stands for one more record than it covers.
    PositionTooNew,
    /// Records go when the newer checkpoint covers them.
    CutTooEarly,
}

/// How disks and crashes are.
#[derive(Clone, Copy, Debug)]
pub struct Habits {
    pub sync_ns_max: u64,
    /// After each effect of a node.
    pub crash: f64,
    pub down_ns_max: u64,
    /// After each step of a node, of beginning a checkpoint.
    pub checkpoint: f64,
    pub flaw: Option<Flaw>,
}

pub struct Disks<M> {
    pub habits: Habits,
    rng: Rng,
    nodes: Vec<Disk<M>>,
    pub crashes: u64,
    pub checkpoints: u64,
    /// Records that were repeated.
    pub replayed: u64,
}

struct Disk<M> {
    life: u32,
    /// All that were ever written; `None`: deleted.
    records: Vec<Option<Record>>,
    stable: usize,
    /// Where this life began.
    begun: usize,
    is_syncing: bool,
    /// What waits for so many records to be stable.
    held: VecDeque<(usize, EngineEffect<M>)>,
    writing: Option<Checkpoint>,
    kept: VecDeque<Checkpoint>,
    /// An earlier one was lost.
    is_replaced: bool,
    /// Its node was not there when the cluster was made.
    is_new: bool,
}

impl<M> Default for Disk<M> {
    fn default() -> Self {
        Disk {
            life: 0,
            records: Vec::new(),
            stable: 0,
            begun: 0,
            is_syncing: false,
            held: VecDeque::new(),
            writing: None,
            kept: VecDeque::new(),
            is_replaced: false,
            is_new: false,
        }
    }
}

#[derive(Clone, Default)]
struct Checkpoint {
    position: usize,
    state: Vec<u8>,
    rows: Vec<(PartitionId, Vec<u8>)>,
}

impl<M> Disks<M> {
    pub fn new(seed: u64, nodes: usize, habits: Habits) -> Disks<M> {
        let (nodes, rng) = ((0..nodes).map(|_| Disk::default()).collect(), Rng::new(seed).fork("disks"));
        Disks { habits, rng, nodes, crashes: 0, checkpoints: 0, replayed: 0 }
    }
}

impl<M> Disks<M> {
    /// Records that a node has written and that are not deleted, and the bytes of their payloads.
    pub fn recorded(&self, node: NodeId) -> (usize, usize) {
        let records = self.nodes[usize::from(node.0)].records.iter().flatten();
        records.fold((0, 0), |(count, bytes), record| (count + 1, bytes + record.payload.len()))
    }
}

impl<E: Subject> World<E> {
    fn disk(&mut self, node: NodeId) -> &mut Disk<E::Message> {
        &mut self.disks.as_mut().expect("the world has disks").nodes[usize::from(node.0)]
    }

    /// A step's effects at a node that has a disk.
    pub(super) fn effects_on_disk(&mut self, node: NodeId, out: Vec<EngineEffect<E::Message>>) {
        let mut has_recorded = false;
        let life = self.disk(node).life;
        for effect in out {
            if self.disk(node).life != life {
                return; // What it told led to another step, in which it crashed.
            }
            let disks = self.disks.as_mut().expect("the world has disks");
            let (habits, crashes) = (disks.habits, disks.rng.chance(disks.habits.crash));
            if crashes {
                return self.crash(node);
            }
            let disk = &mut disks.nodes[usize::from(node.0)];
            let waits = match &effect {
                EngineEffect::Record(record) => {
                    has_recorded = true;
                    disk.records.push(Some(record.clone()));
                    self.begin_sync(node);
                    continue;
                }
                EngineEffect::Send { .. } => disk.stable < disk.records.len(),
                EngineEffect::Answer(_) | EngineEffect::Answered { .. } => has_recorded,
                _ => false,
            };
            match waits && habits.flaw != Some(Flaw::ReleasedBeforeRecord) {
                true => disk.held.push_back((disk.records.len(), effect)),
                false => self.tell(node, effect),
            }
        }
        if self.disk(node).life == life {
            self.write_checkpoint(node);
            self.arm(node);
        }
    }

    fn begin_sync(&mut self, node: NodeId) {
        let disks = self.disks.as_mut().expect("the world has disks");
        let sync_ns = disks.rng.below(disks.habits.sync_ns_max + 1);
        let is_early = disks.habits.flaw == Some(Flaw::StableBeforeSync);
        let disk = &mut disks.nodes[usize::from(node.0)];
        if disk.is_syncing || disk.stable == disk.records.len() && !is_early {
            return;
        }
        disk.is_syncing = true;
        let (life, records) = (disk.life, disk.records.len());
        let at = self.now + if is_early { 0 } else { sync_ns };
        self.schedule(at, Event::Synced { node, life, records });
    }

    /// So many records are synced.
    pub(super) fn on_synced(&mut self, node: NodeId, life: u32, records: usize) {
        let disk = self.disk(node);
        if disk.life != life {
            return;
        }
        (disk.stable, disk.is_syncing) = (records, false);
        let count = (records - disk.begun) as u64;
        while let Some((_, effect)) = self.disk(node).held.pop_front_if(|(needed, _)| *needed <= records) {
            self.tell(node, effect);
        }
        if self.disk(node).life != life {
            return;
        }
        let (clock, n, mut out) = (self.clock(node), usize::from(node.0), Vec::new());
        self.nodes[n].stable(clock, count, &mut self.rows[n], &mut out);
        self.effects(node, out);
        if self.disk(node).life == life && self.disk(node).stable < self.disk(node).records.len() {
            self.begin_sync(node);
        }
    }

    fn write_checkpoint(&mut self, node: NodeId) {
        let n = usize::from(node.0);
        let disks = self.disks.as_mut().expect("the world has disks");
        let habits = disks.habits;
        let begins = disks.rng.chance(habits.checkpoint);
        let disk = &mut disks.nodes[n];
        match &mut disk.writing {
            None if begins && self.nodes[n].absent().is_none() => {
                let partitions: Vec<PartitionId> = self.topology.copies_at(node).collect();
                self.rows[n].begin_copy(node, &partitions);
                let (position, state) = (disk.records.len(), self.nodes[n].image());
                disk.writing = Some(Checkpoint { position, state, rows: Vec::new() });
            }
            None => {}
            Some(checkpoint) => match self.rows[n].next_block(node) {
                Ok(Some(block)) => checkpoint.rows.push(block),
                Err(_) => disk.writing = None,
                Ok(None) if disk.stable < checkpoint.position => {}
                Ok(None) => {
                    self.rows[n].end_copy(node);
                    let mut checkpoint = disk.writing.take().expect("just seen");
                    if habits.flaw == Some(Flaw::PositionTooNew) && checkpoint.position < disk.stable {
                        checkpoint.position += 1;
                    }
                    disk.kept.push_back(checkpoint);
                    disks.checkpoints += 1;
                    if disk.kept.len() > 2 {
                        disk.kept.pop_front();
                    }
                    let cut = match habits.flaw {
                        Some(Flaw::CutTooEarly) => disk.kept.back(),
                        _ => disk.kept.front().filter(|_| disk.kept.len() == 2),
                    };
                    let cut = cut.map_or(0, |checkpoint| checkpoint.position);
                    disk.records[..cut].fill(None);
                }
            },
        }
    }

    /// A node loses its process, and what was not synced.
    pub fn crash(&mut self, node: NodeId) {
        let disks = self.disks.as_mut().expect("the world has disks");
        disks.crashes += 1;
        let (disk, is_early) =
            (&mut disks.nodes[usize::from(node.0)], disks.habits.flaw == Some(Flaw::StableBeforeSync));
        // What was told to be stable may be as little so as the rest.
        let synced = if is_early { disk.stable.saturating_sub(3).max(disk.begun) } else { disk.stable };
        let kept = synced + disks.rng.below((disk.records.len() - synced + 1) as u64) as usize;
        disk.records.truncate(kept);
        (disk.stable, disk.begun, disk.is_syncing) = (kept, kept, false);
        disk.life += 1;
        disk.held.clear();
        disk.writing = None;
        for entry in &self.rows[usize::from(node.0)].log {
            self.former.insert((entry.txn, entry.partition), entry.clone());
        }
        let down_ns = disks.rng.below(disks.habits.down_ns_max + 1);
        self.dead.insert(node);
        let is_its = |event: &Event<E::Message>| matches!(event, Event::Wake { node: at, .. } | Event::GoOn { node: at } if *at == node);
        self.events.retain(|_, event| !is_its(event));
        self.schedule(self.now + down_ns, Event::Restart { node });
    }

    /// A node loses its process and its disk, and comes back with an empty one.
    pub fn lose_disk(&mut self, node: NodeId) {
        self.crash(node);
        let disk = self.disk(node);
        (disk.records, disk.kept) = (Vec::new(), VecDeque::new());
        (disk.stable, disk.begun, disk.is_replaced) = (0, 0, true);
    }

    /// Nobody crashes any more, and whoever is down comes back.
    pub fn no_more_crashes(&mut self) {
        self.disks.as_mut().expect("the world has disks").habits.crash = 0.0;
    }

    /// A node comes back with what its disk has; it starts once its clock shows more than it may have shown before.
    pub(super) fn restart(&mut self, node: NodeId) {
        let n = usize::from(node.0);
        let (engine, rows, clock) = self.recovered(node);
        let disks = self.disks.as_mut().expect("the world has disks");
        let bound = if self.topology.unbounded_clocks { 0 } else { self.topology.clock_bound_ns as i64 };
        self.skews[n] = if bound > 0 { disks.rng.between(-bound, bound) } else { self.skews[n] };
        (self.nodes[n], self.rows[n]) = (engine, rows);
        self.alarms[n] = Alarms::default();
        self.watermarks[n] = base::Rank::ZERO;
        self.streams.retain(|(at, _), _| *at != node);
        self.closes.retain(|_, (_, at, _)| *at != node);
        self.finds.retain(|_, (_, at, ..)| *at != node);
        let (closes, finds) = (&self.closes, &self.finds);
        self.closed.retain(|ticket, _| closes.contains_key(ticket));
        self.found.retain(|ticket, _| finds.contains_key(ticket));
        self.forgot.insert(node);
        let starts_at = Time((clock.0 as i64 - self.skews[n] + 1).max(self.now.0 as i64) as u64);
        self.schedule(starts_at, Event::Start { node });
    }

    /// A node as its disk brings it back, and what its clock may have shown.
    pub fn recovered(&mut self, node: NodeId) -> (E, Rows, Time) {
        let n = usize::from(node.0);
        self.lives += 1;
        let make = match self.disk(node) {
            Disk { is_new: true, .. } => E::joining,
            Disk { is_replaced: true, .. } => E::replaced,
            _ => E::reborn,
        };
        let mut engine = make(self.topology.clone(), node, self.lives, self.options.clone());
        let mut rows = Rows::default();
        rows.pauses_max = self.rows[n].pauses_max;
        let disks = self.disks.as_mut().expect("the world has disks");
        let disk = &mut disks.nodes[n];
        let is_damaged = disk.kept.len() == 2 && disks.rng.chance(0.3);
        if is_damaged {
            disk.kept.pop_back();
        }
        let checkpoint = disk.kept.back().cloned().unwrap_or_default();
        if !disk.kept.is_empty() {
            engine.restore(&checkpoint.state).unwrap_or_else(|why| panic!("{node}: {why}"));
            checkpoint.rows.iter().for_each(|(partition, block)| rows.restore(*partition, block));
        }
        for (at, record) in disk.records.iter().enumerate().skip(checkpoint.position) {
            let record = record.clone().unwrap_or_else(|| panic!("record {at} of {node} was deleted"));
            disks.replayed += 1;
            engine.replay(record, &mut rows).unwrap_or_else(|why| panic!("record {at} of {node}: {why}"));
        }
        let clock = engine.recovered();
        (engine, rows, clock)
    }

    /// Every node has stopped, and comes back as this one; those that the new topology has beside them begin.
    pub fn become_cluster(&mut self, topology: Topology, options: E::Options, changed: Vec<(E, Rows)>) {
        topology.check();
        (self.topology, self.options) = (Arc::new(topology), options);
        self.events.clear();
        (self.closes, self.closed) = (BTreeMap::new(), BTreeMap::new());
        self.streams.clear();
        let count = self.topology.nodes.len();
        let before = changed.len();
        self.skews.resize(count, 0);
        self.alarms = vec![Alarms::default(); count];
        self.watermarks = vec![base::Rank::ZERO; count];
        (self.nodes, self.rows) = changed.into_iter().unzip();
        let partitions = |node| self.topology.copies_at(node).collect::<Vec<PartitionId>>();
        let disks = self.disks.as_mut().expect("the world has disks");
        for (n, disk) in disks.nodes.iter_mut().enumerate() {
            let (node, position) = (NodeId(n as u16), disk.records.len());
            self.rows[n].begin_copy(node, &partitions(node));
            let blocks = std::iter::from_fn(|| self.rows[n].next_block(node).expect("it was begun"));
            let checkpoint = Checkpoint { position, state: self.nodes[n].image(), rows: blocks.collect() };
            self.rows[n].end_copy(node);
            disk.kept = VecDeque::from([checkpoint.clone(), checkpoint]);
            disk.records.fill(None);
            disk.held.clear();
            disk.life += 1;
            (disk.stable, disk.begun, disk.is_syncing, disk.writing) = (position, position, false, None);
        }
        for node in (before..count).map(|n| NodeId(n as u16)) {
            self.lives += 1;
            disks.nodes.push(Disk { is_new: true, ..Disk::default() });
            self.nodes.push(E::joining(self.topology.clone(), node, self.lives, self.options.clone()));
            self.rows.push(Rows::default());
        }
        for node in self.topology.node_ids() {
            self.forgot.insert(node);
            // Their clocks show more than they may have shown before.
            self.schedule(self.now + 2 * base::time::SECOND, Event::Start { node });
        }
    }

    pub(super) fn start_again(&mut self, node: NodeId) {
        let (clock, n, mut out) = (self.clock(node), usize::from(node.0), Vec::new());
        self.dead.remove(&node);
        self.nodes[n].start(clock, &mut out);
        self.effects(node, out);
    }
}
