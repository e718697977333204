//! The sequences: the replicated log of each, and what this node has for those that it leads.
//!
//! IN: what other nodes say of a sequence. OUT: posts to them, stable entries to the merger, closed timestamps to
//! readers. KEEPS: what a leader has taken from gateways and not appended goes with its term; what was appended or
//! merged is known by its transaction's id as long as a gateway may submit it again.

use super::cluster::Cluster;
use super::intake::Intake;
use super::message::{Entry, Lives, Message, SequenceId};
use super::options::Mutant;
use super::options::Options;
use super::record_kinds::of_change;
use super::work::Todo;
use crate::graph::seen::Seen;
use crate::log::{Change, Group, Kept, Log, Posts, Standing, Times};
use base::topology::Topology;
use base::{NodeId, Rank, Time, TxnId};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(super) struct Logs {
    /// By sequence.
    logs: Vec<Log<Entry>>,
    /// What was merged of each, where somebody may have to lead.
    seen: Vec<Seen>,
    /// Of those that this node leads.
    intakes: BTreeMap<SequenceId, Intake>,
    /// Of nodes that lost their memory, this one among them.
    lives: Lives,
    /// What of it was recorded.
    lives_recorded: Lives,
    /// Records of this node, in this life.
    records: u64,
}

impl Logs {
    /// `leads`: this node leads from the beginning what its region orders.
    pub fn new(cluster: &Cluster, leads: bool) -> Logs {
        let is_sequencer = cluster.sequencers[usize::from(cluster.region.0)] == Some(cluster.me);
        let (count, has_regional) = (cluster.sequencers.len(), cluster.has_homes());
        let log = |number: usize| {
            let sequence = SequenceId(number as u16);
            let is_global = cluster.is_global(sequence);
            let waits = cluster.options.replication.machines_inside > 1 && !is_global;
            let log = Log::new(Arc::new(group(cluster, sequence)), waits);
            let is_own = cluster.home_of(sequence) == cluster.region && (is_global || has_regional);
            let mut log = if leads && is_sequencer && is_own { log.leading() } else { log };
            if cluster.options.records.is_some() {
                log.record();
            }
            log
        };
        let logs: Vec<Log<Entry>> = (0..count + cluster.global.iter().count()).map(log).collect();
        let led = logs.iter().enumerate().filter(|(_, log)| log.leads());
        Logs {
            seen: vec![Seen::default(); logs.len()],
            intakes: led.map(|(number, _)| (SequenceId(number as u16), Intake::default())).collect(),
            logs,
            lives: Lives::new(),
            lives_recorded: Lives::new(),
            records: 0,
        }
    }

    /// A sequence that exists.
    pub fn of(&self, sequence: SequenceId) -> &Log<Entry> {
        &self.logs[usize::from(sequence.0)]
    }
    pub fn get(&self, sequence: SequenceId) -> Option<&Log<Entry>> {
        self.logs.get(usize::from(sequence.0))
    }
    pub fn iter(&self) -> impl Iterator<Item = &Log<Entry>> {
        self.logs.iter()
    }
    pub fn len(&self) -> usize {
        self.logs.len()
    }
    /// Whether this node leads a sequence.
    pub fn leads(&self, sequence: SequenceId) -> bool {
        self.get(sequence).is_some_and(Log::leads)
    }
    /// Whether this node orders in a sequence now.
    pub fn is_open(&self, sequence: SequenceId) -> bool {
        self.get(sequence).is_some_and(Log::is_open)
    }
    /// Sequences that are led here, in order.
    pub fn led(&self) -> SmallVec<[SequenceId; 4]> {
        self.intakes.keys().copied().collect()
    }
    /// What this node has for a sequence that it leads.
    pub fn intake(&mut self, sequence: SequenceId) -> Option<&mut Intake> {
        self.intakes.get_mut(&sequence)
    }
    pub fn lives(&self) -> &Lives {
        &self.lives
    }
    /// Whether a transaction is in a sequence that is led here.
    pub fn is_ordered(&self, sequence: SequenceId, txn: TxnId) -> bool {
        self.intakes.get(&sequence).is_some_and(|intake| intake.contains(txn))
            || self.seen[usize::from(sequence.0)].contains(txn)
    }
    /// Whether a transaction was merged from some sequence that this node remembers.
    pub fn has_seen(&self, txn: TxnId) -> bool {
        self.seen.iter().any(|seen| seen.contains(txn))
    }
    /// A transaction is merged from a sequence; it is remembered where this node may have to lead.
    pub fn merged(&mut self, cluster: &Cluster, sequence: SequenceId, txn: TxnId) {
        let intake = self.intakes.get_mut(&sequence);
        let leads = intake.map(|intake| intake.merged(txn)).is_some();
        if leads || cluster.votes(sequence) {
            self.seen[usize::from(sequence.0)].insert(txn);
        }
    }
    pub fn seen(&self, sequence: SequenceId) -> &Seen {
        &self.seen[usize::from(sequence.0)]
    }
    /// Transactions of a gateway's life below `floor` have been answered.
    pub fn raise_floor(&mut self, cluster: &Cluster, (gateway, life): (NodeId, u32), floor: u64) {
        let voted = cluster.running().into_iter().filter(|sequence| cluster.votes(*sequence));
        for sequence in voted.chain(self.led()) {
            self.seen[usize::from(sequence.0)].raise_floor(gateway, life, floor);
        }
    }
    /// Versions up to here may be given up, as far as this node knows.
    pub fn collect_to(&mut self, watermark: Rank) {
        self.logs.iter_mut().for_each(|log| log.collect_to(watermark));
    }
    /// Entries to come of sequences led here know what others let this node tell to be collected.
    pub fn collect(&mut self) {
        self.logs.iter_mut().for_each(Log::collect);
    }
    /// Silence counts from now on.
    pub fn listen_from(&mut self, now: Time) {
        self.logs.iter_mut().for_each(|log| log.listen_from(now));
    }
    pub fn overdue(&mut self, now: Time) {
        self.logs.iter_mut().for_each(|log| log.overdue(now));
    }
    /// Nothing is under way that this node has to look after.
    pub fn is_settled(&self) -> bool {
        self.logs.iter().all(Log::is_settled) && !self.intakes.values().any(Intake::is_preparing)
    }
    /// When the next of those whose append is delayed takes its place.
    pub fn delayed_until(&self) -> Option<Time> {
        self.intakes.values().filter_map(Intake::delayed_until).min()
    }

    /// A node has lost its memory: it is in this life now. Whether that is news.
    pub fn reborn(&mut self, cluster: &Cluster, node: NodeId, life: u32) -> bool {
        if self.lives.get(&node).is_some_and(|known| life <= *known) {
            return false;
        }
        self.lives.insert(node, life);
        if cluster.options.planted(Mutant::CountFormerLives) {
            return true;
        }
        let region = cluster.topology.region_of(node);
        if node != cluster.me {
            self.logs.iter_mut().for_each(|log| log.forget(node, region));
        }
        true
    }
    /// Begins where another node's copy stands.
    pub fn take_over(
        &mut self,
        sequence: SequenceId,
        (merged, closed, collected): (u64, Rank, Rank),
        seen: Seen,
    ) {
        if let Some(log) = self.logs.get_mut(usize::from(sequence.0)) {
            log.take_over(merged, closed, collected);
            self.seen[usize::from(sequence.0)] = seen;
        }
    }
    /// Has promised what any of these regions has, and has the best of their logs.
    pub fn stand_with(&mut self, now: Time, others: impl Iterator<Item = Vec<Standing<Entry>>>) {
        let mut by_sequence: Vec<Vec<Standing<Entry>>> = vec![Vec::new(); self.logs.len()];
        for standings in others {
            by_sequence.iter_mut().zip(standings).for_each(|(all, one)| all.push(one));
        }
        self.logs.iter_mut().zip(by_sequence).for_each(|(log, standings)| log.stand_with(now, standings));
    }

    /// What a log does, and what it has to say about it.
    pub fn act<R>(
        &mut self,
        sequence: SequenceId,
        todo: &mut Todo<'_>,
        act: impl FnOnce(&mut Log<Entry>, &mut Posts<Entry>) -> R,
    ) -> R {
        let (log, mut posts) = (&mut self.logs[usize::from(sequence.0)], Vec::new());
        let before = log.term();
        let result = act(log, &mut posts);
        match log.term() {
            after if after == before => {}
            Some(_) => _ = self.intakes.insert(sequence, Intake::default()),
            None => _ = self.intakes.remove(&sequence),
        }
        let changes = log.take_changes(&mut self.records);
        changes.iter().for_each(|change| todo.effect(of_change(sequence, change)));
        for (to, said) in posts {
            todo.send(to, Message::of(sequence, &self.lives, said));
        }
        result
    }

    // On disk; see `records`.

    /// Counts a record that is none of a sequence.
    pub fn count_record(&mut self) {
        self.records += 1;
    }
    /// What is known of others' lives, if more than was recorded.
    pub fn lives_to_record(&mut self) -> Option<&Lives> {
        if self.lives == self.lives_recorded {
            return None;
        }
        self.lives_recorded = self.lives.clone();
        Some(&self.lives)
    }
    pub fn take_lives(&mut self, lives: Lives) {
        (self.lives, self.lives_recorded) = (lives.clone(), lives);
    }
    pub fn take_kept(&mut self, kept: Vec<Kept<Entry>>) {
        self.logs.iter_mut().zip(kept).for_each(|(log, kept)| log.take_kept(kept));
    }
    /// Repeats a change; false: it does not follow from those before.
    pub fn replay(&mut self, sequence: SequenceId, change: Change<Entry>) -> bool {
        self.logs.get_mut(usize::from(sequence.0)).is_some_and(|log| log.replay(change))
    }
    /// Everything was repeated.
    pub fn restarted(&mut self, now: Time) {
        for (number, log) in self.logs.iter_mut().enumerate() {
            let led = log.leads();
            log.restarted(now, led);
            match log.leads() {
                true => _ = self.intakes.insert(SequenceId(number as u16), Intake::default()),
                false => _ = self.intakes.remove(&SequenceId(number as u16)),
            }
        }
    }
    /// So many records of this life are stable; see [`Log::on_synced`].
    pub fn on_synced(&mut self, sequence: SequenceId, records: u64) -> (bool, Option<Rank>) {
        self.logs[usize::from(sequence.0)].on_synced(records)
    }

    /// Panics if this node's memory contradicts itself.
    pub fn check_invariants(&self) {
        self.logs.iter().for_each(Log::check_invariants);
        let led = self.logs.iter().enumerate().filter(|(_, log)| log.leads());
        assert!(led.map(|(n, _)| SequenceId(n as u16)).eq(self.intakes.keys().copied()));
    }
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.logs.iter().all(Log::is_empty) && self.intakes.values().all(Intake::is_empty)
    }
    #[cfg(test)]
    pub fn keep_at_most(&mut self, items: usize) {
        self.logs.iter_mut().for_each(|log| log.keep_at_most(items));
    }
}

/// The machines that keep a sequence beside `me`, its leader's.
fn inside(topology: &Topology, me: NodeId, options: &Options) -> Vec<NodeId> {
    assert!(matches!(options.replication.machines_inside, 1 | 3), "one machine inside a region, or three");
    let is_near = |node: &NodeId| {
        *node != me
            && topology.region_of(*node) == topology.region_of(me)
            && topology.copies_at(*node).next().is_some()
    };
    let near: Vec<NodeId> =
        topology.node_ids().filter(is_near).take(options.replication.machines_inside - 1).collect();
    assert_eq!(
        near.len() + 1,
        options.replication.machines_inside,
        "a region has as many nodes as are to keep its sequence"
    );
    near
}

/// Who keeps a sequence.
fn group(cluster: &Cluster, sequence: SequenceId) -> Group {
    let (topology, options, me) = (&cluster.topology, &cluster.options, cluster.me);
    let is_replica = |node: &NodeId| *node != me && topology.copies_at(*node).next().is_some();
    let replicas = topology.node_ids().filter(is_replica);
    let may_lead = cluster.sequencers[usize::from(cluster.region.0)] == Some(me);
    let has_inside = may_lead && !cluster.is_global(sequence);
    Group {
        me,
        region: cluster.region,
        voters: cluster.sequencers.clone(),
        home: cluster.home_of(sequence),
        copies: cluster.copies_of(sequence),
        replicas: replicas.map(|node| (node, options.patience(topology, me, node))).collect(),
        inside: if has_inside { inside(topology, me, options) } else { Vec::new() },
        backlog_max: if options.copies_elsewhere > 0 { options.replication.backlog_max } else { usize::MAX },
        acts_at_once: cluster.acts_at_once(sequence),
        times: Times {
            suspect_ns: options.suspect_after_ns(topology),
            widest_ns: topology.wan.widest_ns(),
            lease_ns: options.lease_ns(topology),
            heartbeat_ns: options.heartbeats.every_ns,
            clock_bound_ns: cluster.clock_bound_ns(),
            ceiling_ns: options.records.map_or(0, |records| records.ceiling_ns),
        },
        #[cfg(any(test, feature = "mutants"))]
        fault: options.mutant.and_then(super::options::Mutant::of_log),
    }
}
