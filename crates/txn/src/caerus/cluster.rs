//! What a node knows of its cluster from the start, and what follows from it alone.
//!
//! IN: the topology and the options. OUT: answers to questions whose answer never changes: which sequences there are,
//! who orders what is homed where, how many copies an entry needs, how far ahead a rank may lie, who may stand for whom.
//! KEEPS: nothing in it changes in a node's life, so every part may look here and none can write.

use super::message::{SequenceId, Term, regions_in, sequences_in};
use super::options::{Agreement, Mutant, Options};
use super::routing::Global;
use crate::graph::conflict::Flaws;
use crate::graph::participants::Nodes;
use base::time::{MS, SECOND};
use base::topology::Topology;
use base::txn::{Home, Transaction};
use base::{NodeId, PartitionId, Rank, RegionId, Time};
use std::collections::BTreeSet;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Cluster {
    pub topology: Arc<Topology>,
    /// This node.
    pub me: NodeId,
    /// Its region.
    pub region: RegionId,
    pub options: Options,
    /// It merges and executes: it keeps a copy of some partition.
    pub is_replica: bool,
    /// By region: the node that orders there, as long as the region leads its own sequence, and that votes for
    /// it. It has all the region has, as far as others may rely on it.
    pub sequencers: Vec<Option<NodeId>>,
    /// The sequence of all regions, if there is one.
    pub global: Option<Global>,
    partitions: Vec<Fixed>,
}

/// What never changes of a partition.
#[derive(Debug)]
struct Fixed {
    /// Before it has ever moved.
    origin: Home,
    /// This node keeps a copy.
    is_local: bool,
    /// Some node follows the stream of this node's copy.
    is_followed: bool,
}

impl Cluster {
    /// Every region that runs partitions must keep a copy of all of them ([`Topology::replicated`]).
    pub fn new(topology: Arc<Topology>, me: NodeId, options: Options) -> Cluster {
        let regions: Vec<RegionId> = (0..topology.wan.region_count() as u16).map(RegionId).collect();
        assert!(regions.len() < 64, "fewer than 64 regions");
        let sequencers: Vec<Option<NodeId>> = regions.iter().map(|r| topology.sequencer_of(*r)).collect();
        for partition in topology.partition_ids() {
            for sequencer in sequencers.iter().flatten() {
                let near = topology.copy_near(partition, *sequencer);
                assert_eq!(
                    topology.region_of(near),
                    topology.region_of(*sequencer),
                    "{partition} everywhere"
                );
            }
        }
        let elsewhere = sequencers.iter().flatten().count().saturating_sub(1);
        assert!(options.copies_elsewhere <= elsewhere, "K is at most the number of other regions");
        let global = options.routing.has_global().then(|| Global::of(&topology, &sequencers));
        let fixed = |id| {
            let region = match global {
                Some(global) if !options.routing.has_regional() => RegionId(global.number.0),
                _ => topology.region_of_partition(id),
            };
            Fixed {
                origin: Home { region, moves: 0 },
                is_local: topology.holds(me, id),
                is_followed: topology.subscribers_of(id).any(|n| topology.copy_near(id, n) == me),
            }
        };
        let partitions = topology.partition_ids().map(fixed).collect();
        let is_replica = topology.copies_at(me).next().is_some();
        Cluster {
            region: topology.region_of(me),
            partitions,
            is_replica,
            me,
            sequencers,
            global,
            topology,
            options,
        }
    }

    /// Where a partition was homed before it ever moved.
    pub(super) fn origin(&self, partition: PartitionId) -> Home {
        self.partitions[usize::from(partition.0)].origin
    }
    /// Whether this node keeps a copy of a partition.
    pub(super) fn is_local(&self, partition: PartitionId) -> bool {
        self.partitions[usize::from(partition.0)].is_local
    }
    /// Whether some node follows the stream of this node's copy.
    pub(super) fn is_followed(&self, partition: PartitionId) -> bool {
        self.partitions[usize::from(partition.0)].is_followed
    }

    /// Faults of the conflict index that are planted.
    pub(super) fn flaws(&self) -> Flaws {
        Flaws {
            forget_readers: self.options.planted(Mutant::MissingAntiDependency),
            forget_writers: self.options.planted(Mutant::InvertedWriteWrite),
        }
    }

    pub(super) fn clock_bound_ns(&self) -> u64 {
        self.topology.clock_bound_ns
    }

    /// The region whose nodes answer: the gateway's own if it orders the transaction or regions may be lost,
    /// else the nearest that does. (A copy that comes here from another region makes an entry stable for K = 1,
    /// so asking those who ordered it would not be faster.)
    pub(super) fn answering_region(&self, gateway: NodeId, regions: u64) -> RegionId {
        let origin = self.topology.region_of(gateway);
        let regions = self.witnesses(regions);
        let near = |region: &RegionId| (self.topology.wan.round_trip_ns(origin, *region), *region);
        let ordering = regions_in(regions);
        let has_copies = self.sequencers[origin.0 as usize].is_some();
        if regions >> origin.0 & 1 == 1 || self.survives() && has_copies {
            return origin;
        }
        ordering.min_by_key(near).expect("a transaction is ordered somewhere")
    }

    /// The region that leads in a term.
    pub(super) fn region_of_term(&self, term: Term) -> RegionId {
        RegionId((term % self.sequencers.len() as Term) as u16)
    }

    /// Whether a node may say this of a sequence: it leads, or would lead, in the term.
    pub(super) fn speaks(&self, from: NodeId, sequence: SequenceId, term: Term) -> bool {
        self.exists(sequence) && self.sequencers[self.region_of_term(term).0 as usize] == Some(from)
    }

    /// Whether this node votes for its region on who leads a sequence.
    pub(super) fn votes(&self, sequence: SequenceId) -> bool {
        self.copies_of(sequence) > 0 && self.sequencers[self.region.0 as usize] == Some(self.me)
    }

    /// Whether a place in a sequence has to be promised first.
    pub(super) fn has_first_round(&self, sequence: SequenceId) -> bool {
        self.options.replication.agreement == Agreement::PaxosPerEntry
            && self.is_global(sequence)
            && self.copies_of(sequence) > 0
            && !self.options.planted(Mutant::SkipFirstRound)
    }

    /// Nodes of a region that hold what a transaction touches.
    pub(super) fn nodes_in(&self, region: RegionId, transaction: &Transaction) -> Nodes {
        let sequencer = self.sequencers[region.0 as usize].expect("a region with partitions has a sequencer");
        let mut nodes: Nodes =
            transaction.participants().map(|p| self.topology.copy_near(p, sequencer)).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// Whether clocks say nothing here.
    pub(super) fn is_unbounded(&self) -> bool {
        self.topology.unbounded_clocks
    }

    /// No cut or token of this cluster is later. Where clocks have no bound, a plain mistake is all that can be told.
    pub(super) fn latest_cut(&self, now: Time) -> Rank {
        self.topology.latest_rank(now, self.stamp_ahead_ns())
    }

    /// The largest distance of a stamp into the future, in ns.
    pub(super) fn stamp_ahead_ns(&self) -> u64 {
        self.options.future_max_ns(&self.topology).max(2 * self.clock_bound_ns())
    }

    /// No rank of a node whose clock is within its bound is later.
    pub(super) fn latest_stamp(&self, now: Time) -> Rank {
        let grants = self.running().into_iter().any(|sequence| self.copies_of(sequence) > 0);
        let lease_ns = if grants { self.options.lease_ns(&self.topology) } else { 0 };
        // One above a cut; and one more for each transaction that a rank was inherited through.
        let inherited_ns = MS;
        let ahead_ns = 2 * self.clock_bound_ns() + self.stamp_ahead_ns() + lease_ns + inherited_ns;
        self.topology.latest_rank(now, ahead_ns)
    }

    /// Whether entries of a sequence are merged as soon as they are there.
    pub(super) fn acts_at_once(&self, sequence: SequenceId) -> bool {
        let copies = self.copies_of(sequence);
        let is_everybodys = self.is_global(sequence);
        copies == 0 || is_everybodys && self.options.planted(Mutant::ActBeforeAgreement)
    }

    /// Whether a region keeps copies, so that something can be ordered there.
    pub(super) fn is_region(&self, region: RegionId) -> bool {
        self.sequencers.get(usize::from(region.0)).is_some_and(Option::is_some)
    }

    /// Whoever leads it collects.
    pub(super) fn first_sequence(&self) -> SequenceId {
        *self.running().first().expect("some region orders")
    }

    /// Whether collection may go on without a node that is silent. One that only reads finds, when it is back, that
    /// it was given up, and begins again. A lost region's only copy catches up first and gives up what is old then;
    /// where it shares its region with others they may have to tell it what they read.
    pub(super) fn may_be_missing(&self, node: NodeId) -> bool {
        let keeps = |node: &NodeId| self.topology.copies_at(*node).next().is_some();
        let region = self.topology.region_of(node);
        let near = self.topology.node_ids().filter(|other| self.topology.region_of(*other) == region);
        !keeps(&node) || self.survives() && near.filter(keeps).count() == 1
    }

    /// Whether it may come back at all: others have whatever was answered, and somebody has the same copies.
    pub(super) fn refused(&self) -> Option<Refused> {
        if self.running().into_iter().any(|sequence| self.copies_of(sequence) == 0) {
            return Some(Refused::NothingElsewhere);
        }
        self.donors().is_empty().then_some(Refused::NobodyAlike)
    }

    /// How many other regions have to answer.
    pub(super) fn answers_needed(&self) -> usize {
        let all = self.sequencers.iter().flatten().count();
        let of = |sequence| {
            let copies = self.copies_of(sequence);
            match self.options.planted(Mutant::StandWithOne) {
                true => 1,
                false => answers_needed(all, copies),
            }
        };
        self.running().into_iter().map(of).max().unwrap_or(0)
    }

    /// Who may give a copy, the nearest first.
    pub(super) fn donors(&self) -> Vec<NodeId> {
        let own: Vec<PartitionId> = self.topology.copies_at(self.me).collect();
        let voters: BTreeSet<NodeId> = self.sequencers.iter().flatten().copied().collect();
        let votes = voters.contains(&self.me);
        let gives = |node: &NodeId| {
            *node != self.me
                && (!votes || voters.contains(node))
                && self.topology.copies_at(*node).eq(own.iter().copied())
        };
        let mut donors: Vec<NodeId> = self.topology.node_ids().filter(gives).collect();
        donors.sort_by_key(|node| (self.topology.one_way_ns(self.me, *node), *node));
        donors
    }

    /// From when on a sequence is suspected, and from when on it is lost, in ns of silence.
    pub(super) fn patience_with(&self, sequence: SequenceId) -> (u64, u64) {
        let suspect_ns = self.options.suspect_after_ns(&self.topology);
        // A leader that rests is silent for a while.
        let rests_ns =
            self.options.heartbeats.idle_every_ns.unwrap_or(0).max(self.options.heartbeats.every_ns);
        let early_ns = (suspect_ns / 4).max(3 * rests_ns + self.options.heartbeats.every_ns);
        let (suspected_ns, lost_ns) = match self.copies_of(sequence) {
            0 => (early_ns, early_ns + SECOND),
            _ => (suspect_ns, 4 * suspect_ns + SECOND),
        };
        (suspected_ns, self.options.lost_after_ns.map_or(lost_ns, |ns| ns.max(suspected_ns)))
    }

    pub(super) fn names(&self, sequences: u64) -> (String, bool) {
        let regions: BTreeSet<RegionId> = sequences_in(sequences).map(|s| self.home_of(s)).collect();
        let names: Vec<String> =
            regions.iter().map(|region| self.topology.region_name(*region).to_string()).collect();
        (names.join(", "), names.len() > 1)
    }
}

/// Why there is no way back for a node that has lost its memory.
#[derive(Clone, Copy, Debug)]
pub(super) enum Refused {
    /// K = 0.
    NothingElsewhere,
    /// A region of several nodes, and none elsewhere has the copies that this one had.
    NobodyAlike,
}

/// How many other regions have to answer one that comes back, of so many regions with K = `copies`; see `rejoin`.
fn answers_needed(regions: usize, copies: usize) -> usize {
    match regions - copies {
        1 => 1,
        promises => promises.max(copies + 1).min(regions - 1),
    }
}

/// Whether `copies` of so many regions come back if they lose their memory together.
pub fn comes_back(regions: usize, copies: usize) -> bool {
    copies < regions && regions - copies >= answers_needed(regions, copies)
}
