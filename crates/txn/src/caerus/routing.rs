//! How transactions get into sequences: Caerus' way, and those of the systems that it is compared with.
//!
//! IN: which logs there are ([`Routing`]). OUT: which sequences exist, which of them give a transaction its place, where
//! its gateway sends it, who may tell how it ended. KEEPS: merger, scheduler and readers ask for these answers and never
//! for a system's name. The baselines themselves are in [`crate::baseline`].
//!
//! A log of all regions is agreed on by a majority of the regions (a leader, terms, promises; see `recovery`): an entry is
//! merged once so many have it. A region's own log has `copies_elsewhere` copies. Ranks are made from entries' stamps in
//! any case; where there are both kinds of logs, the log of all regions orders pieces and ranks nothing.

use super::cluster::Cluster;
use super::message::SequenceId;
use super::options::Mutant;
use base::topology::Topology;
use base::txn::Transaction;
use base::{NodeId, RegionId};

/// Which logs there are, and so where a transaction goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Routing {
    /// Each region has one: a transaction goes to the logs of all its regions at once. Caerus.
    #[default]
    Direct,
    /// Each region has one, and there is one of all regions: what spans regions goes through that one first.
    Ordered,
    /// There is one of all regions, for everything.
    Central,
}

impl Routing {
    /// Each region has a log of its own, for what touches items that are homed there.
    pub(super) fn has_regional(self) -> bool {
        self != Routing::Central
    }
    /// There is a log of all regions.
    pub(super) fn has_global(self) -> bool {
        self != Routing::Direct
    }
}

/// How the log of all regions agrees on an entry. Either way it is decided once a majority of regions has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Agreement {
    /// A leader that stands asks once, with the entry.
    #[default]
    StandingLeader,
    /// Paxos anew for what leaves together: a round of promises, then one with the entries.
    PaxosPerEntry,
}

/// The sequence of all regions: its number is no region's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Global {
    pub number: SequenceId,
    /// Who leads it, as long as nobody is lost.
    pub home: RegionId,
    /// So many other regions and its leader's are a majority.
    pub copies: usize,
}

impl Global {
    /// `sequencers`: each region's, if it keeps copies.
    pub fn of(topology: &Topology, sequencers: &[Option<NodeId>]) -> Global {
        let regions: Vec<RegionId> = (0..sequencers.len() as u16)
            .map(RegionId)
            .filter(|r| sequencers[usize::from(r.0)].is_some())
            .collect();
        let copies = regions.len() / 2;
        let round_trip_ns = |a: RegionId, b: RegionId| topology.wan.round_trip_ns(a, b);
        // To the leader, to a majority and back, and back: of all gateways together.
        let cost_ns = |leader: &RegionId| {
            let others = regions.iter().filter(|region| *region != leader);
            let mut away: Vec<u64> = others.map(|region| round_trip_ns(*leader, *region)).collect();
            away.sort_unstable();
            let majority_ns = copies.checked_sub(1).map_or(0, |nth| away[nth]);
            (away.iter().sum::<u64>() + majority_ns * regions.len() as u64, *leader)
        };
        let home = regions.iter().copied().min_by_key(cost_ns).expect("some region keeps copies");
        Global { number: SequenceId(sequencers.len() as u16), home, copies }
    }
}

impl Cluster {
    /// A transaction goes to the logs of all its regions at once.
    pub(super) fn is_direct(&self) -> bool {
        self.options.routing == Routing::Direct
    }
    /// Things have homes that may move: each region orders what is homed there.
    pub(super) fn has_homes(&self) -> bool {
        self.options.routing.has_regional()
    }
    /// The sequences there are, in order.
    pub(super) fn running(&self) -> Vec<SequenceId> {
        let global = self.global.iter().map(|global| global.number);
        self.regional().chain(global).collect()
    }

    pub(super) fn regional(&self) -> impl Iterator<Item = SequenceId> + '_ {
        let regions = (0..self.sequencers.len() as u16).map(SequenceId);
        regions.filter(|region| self.has_homes() && self.sequencers[usize::from(region.0)].is_some())
    }

    /// The sequences whose entries give transactions their places and ranks, in order.
    pub(super) fn ranking(&self) -> Vec<SequenceId> {
        match self.has_homes() {
            true => self.regional().collect(),
            false => self.running(),
        }
    }

    pub(super) fn exists(&self, sequence: SequenceId) -> bool {
        self.is_global(sequence)
            || self.has_homes() && self.sequencers.get(usize::from(sequence.0)).is_some_and(Option::is_some)
    }

    pub(super) fn is_global(&self, sequence: SequenceId) -> bool {
        self.global.is_some_and(|global| global.number == sequence)
    }

    /// The region that a sequence belongs to: it leads as long as it is not lost.
    pub(super) fn home_of(&self, sequence: SequenceId) -> RegionId {
        match self.global {
            Some(global) if global.number == sequence => global.home,
            _ => RegionId(sequence.0),
        }
    }

    /// How many regions other than the leader's must have an entry before anything comes of it.
    pub(super) fn copies_of(&self, sequence: SequenceId) -> usize {
        match self.global {
            Some(global) if global.number == sequence => global.copies,
            _ => self.options.copies_elsewhere,
        }
    }

    /// Answers and what they rest on outlive the loss of a region.
    pub(super) fn survives(&self) -> bool {
        match self.global {
            Some(global) if !self.has_homes() => global.copies > 0,
            _ => self.options.copies_elsewhere > 0,
        }
    }

    /// The sequences that a gateway sends a transaction to which `regions` order, as bits.
    pub(super) fn entrances(&self, regions: u64) -> u64 {
        match self.global {
            Some(global) if regions.count_ones() > 1 => global.number.bit(),
            _ => regions,
        }
    }

    /// The regions whose nodes may tell how a transaction ended that these sequences order.
    pub(super) fn witnesses(&self, regions: u64) -> u64 {
        match self.has_homes() {
            true => regions,
            false => {
                let all = (0..self.sequencers.len()).filter(|n| self.sequencers[*n].is_some());
                all.fold(0, |bits, n| bits | 1 << n)
            }
        }
    }

    /// The regions where what a transaction touches is homed, as bits; `regions` order it.
    pub(super) fn homes(&self, transaction: &Transaction, regions: u64) -> u64 {
        match self.has_homes() {
            true => regions,
            false => {
                let homes = transaction.participants().map(|p| self.topology.region_of_partition(p).0);
                homes.fold(0, |bits, home| bits | 1 << home)
            }
        }
    }

    /// Whether a sequence's entries only say in which order others take them.
    pub(super) fn feeds_others(&self, sequence: SequenceId) -> bool {
        self.has_homes() && self.is_global(sequence)
    }

    /// Whether whoever is heard of from another sequence is ordered here at once.
    pub(super) fn orders_orphans(&self) -> bool {
        match self.is_direct() {
            true => !self.options.planted(Mutant::NoOrphanRule),
            false => self.has_homes() && self.options.planted(Mutant::PiecesAsTheyCome),
        }
    }
}
