//! Whom a statement asks and how many WAN round trips it waits for, told before it runs.
//!
//! IN: what a plan touches, the session's level, the topology. OUT: a [`Claim`]. KEEPS: what is claimed is what an idle
//! cluster does. Waiting for transactions in flight comes on top, wherever they are.
//!
//! Half a round trip is one message that is sent in any case: another region says how far what it orders is complete.

use super::Session;
use super::document::{Document, Json};
use base::cut::{Consistency, CutChoice};
use base::{NodeId, PartitionId, RegionId, TableId};
use std::collections::{BTreeMap, BTreeSet};

/// Round trips that follow one another.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Trips {
    pub least: f64,
    pub most: f64,
}

impl Trips {
    pub fn of(trips: f64) -> Trips {
        Trips { least: trips, most: trips }
    }
    pub fn between(least: f64, most: f64) -> Trips {
        Trips { least, most }
    }
    pub fn then(self, next: Trips) -> Trips {
        Trips { least: self.least + next.least, most: self.most + next.most }
    }
}

impl std::fmt::Display for Trips {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.least == self.most {
            true => write!(f, "{}", self.least),
            false => write!(f, "{} to {}", self.least, self.most),
        }
    }
}

/// What a statement asks of other nodes.
#[derive(Clone, Debug, Default)]
pub(super) struct Claim {
    /// Nodes that are sent a question whose answer is waited for.
    pub asked: BTreeSet<NodeId>,
    /// Regions that order what is touched.
    pub homes: BTreeSet<RegionId>,
    pub trips: Trips,
}

impl Claim {
    pub fn then(mut self, next: Claim) -> Claim {
        self.asked.extend(next.asked);
        self.homes.extend(next.homes);
        self.trips = self.trips.then(next.trips);
        self
    }
}

/// How a statement reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub level: Consistency,
    /// At the cut of a transaction, which is one for all that it reads.
    pub is_block: bool,
}

/// Tables, each with the partitions that are touched.
pub(super) type Touched = BTreeMap<TableId, BTreeSet<PartitionId>>;

impl Session {
    fn homes_touched(&self, touched: &Touched) -> BTreeSet<RegionId> {
        touched.iter().flat_map(|(table, partitions)| self.homes(*table, partitions)).collect()
    }

    /// How a statement that writes nothing reads.
    pub(super) fn reading(&self) -> Reading {
        Reading { level: self.level(), is_block: self.transaction.is_some() }
    }
    /// How a statement reads whose writes are validated.
    pub(super) fn reading_to_write(&self) -> Reading {
        Reading { level: self.settings.strong_level(), is_block: true }
    }

    /// The rule by which a statement of this session chooses its cut now.
    pub(super) fn cut_choice(&self, reading: Reading, over_columns: bool) -> CutChoice {
        match self.transaction.as_ref().is_some_and(|t| t.pin.is_some()) {
            true => CutChoice::Given,
            false => {
                node::choice_at(reading.level, self.cluster().topology(), over_columns && !reading.is_block)
            }
        }
    }

    /// Reading at copies of this node: others say by themselves how far they are, unless they have to be asked where
    /// they end.
    fn claim_of_copies(&self, reading: Reading, touched: &Touched, choice: CutChoice) -> Claim {
        let (cluster, here) = (self.cluster(), self.cluster().region());
        let topology = cluster.topology();
        let mut homes = self.homes_touched(touched);
        if choice == CutChoice::Calibrated && reading.is_block {
            // A block finds a cut for all that it may read later.
            homes.extend(topology.regions());
        }
        let is_afar = homes.iter().any(|home| *home != here);
        let mut asked = BTreeSet::new();
        let trips = match choice {
            CutChoice::Calibrated if self.settings.merges_epochs() => self.trips_of_epoch(),
            CutChoice::Calibrated => {
                let leaders = homes.iter().filter_map(|home| topology.sequencer_of(*home));
                asked = leaders.filter(|leader| *leader != cluster.node()).collect();
                // The leader here asks as many others as keep its entries whether they still follow it.
                match is_afar || cluster.copies_elsewhere() > 0 {
                    true => Trips::between(1.0, 1.5),
                    false => Trips::default(),
                }
            }
            _ if !is_afar => Trips::default(),
            CutChoice::Local if reading.level == Consistency::Session && !self.token.is_empty() => {
                Trips::between(0.0, 0.5)
            }
            CutChoice::Local => Trips::default(),
            CutChoice::Given => Trips::between(0.0, 0.5),
            CutChoice::Clock if self.settings.merges_epochs() => self.trips_of_epoch(),
            CutChoice::Clock | CutChoice::ClosedSet | CutChoice::Published => Trips::of(0.5),
        };
        Claim { asked, homes, trips }
    }

    /// Until an epoch is published where epochs are merged: the farthest region's end of it is here, and with copies
    /// elsewhere the nearest majority has said that it has all of it.
    fn trips_of_epoch(&self) -> Trips {
        let cluster = self.cluster();
        match cluster.topology().regions().count() {
            1 => Trips::default(),
            _ if cluster.copies_elsewhere() > 0 => Trips::between(0.5, 1.0),
            _ => Trips::of(0.5),
        }
    }

    /// Reading rows of these partitions.
    pub(super) fn claim_of_rows(&self, reading: Reading, touched: &Touched) -> Claim {
        let (cluster, choice) = (self.cluster(), self.cut_choice(reading, false));
        let topology = cluster.topology();
        if topology.is_replicated() {
            return self.claim_of_copies(reading, touched, choice);
        }
        let asked = touched.values().flatten().map(|p| topology.copy_near(*p, cluster.node()));
        let asked: BTreeSet<NodeId> = asked.filter(|node| *node != cluster.node()).collect();
        let trips = Trips::of(if asked.is_empty() { 0.0 } else { 1.0 });
        Claim { asked, homes: self.homes_touched(touched), trips }
    }

    /// Reading columns of these partitions.
    pub(super) fn claim_of_columns(&self, reading: Reading, touched: &Touched) -> Claim {
        let (cluster, choice) = (self.cluster(), self.cut_choice(reading, true));
        let (topology, me) = (cluster.topology(), cluster.node());
        let kept = &topology.nodes[usize::from(me.0)].subscribes;
        let partitions: BTreeSet<PartitionId> = touched.values().flatten().copied().collect();
        if partitions.iter().any(|p| !kept.contains(p)) {
            // The nearest reader of each partition opens its part, and sends its first rows unasked.
            let nearest = |p: &PartitionId| {
                topology.subscribers_of(*p).min_by_key(|n| (*n != me, topology.one_way_ns(me, *n), *n))
            };
            let readers: BTreeMap<PartitionId, NodeId> =
                partitions.iter().filter_map(|p| Some((*p, nearest(p)?))).collect();
            let is_elsewhere =
                |(p, reader): (&PartitionId, &NodeId)| topology.copy_near(*p, *reader) != *reader;
            let more = if readers.iter().any(is_elsewhere) { 1.0 } else { 0.0 };
            let asked = readers.into_values().filter(|reader| *reader != me).collect();
            let claim =
                Claim { asked, homes: self.homes_touched(touched), trips: Trips::between(1.0, 1.0 + more) };
            return match choice {
                CutChoice::Calibrated => self.claim_of_copies(reading, touched, choice).then(claim),
                _ => claim,
            };
        }
        if topology.is_replicated() {
            return self.claim_of_copies(reading, touched, choice);
        }
        let homes = self.homes_touched(touched);
        let asked = partitions.iter().map(|p| topology.copy_near(*p, me));
        let mut asked: BTreeSet<NodeId> = asked.filter(|node| *node != me).collect();
        let trips = match choice {
            _ if asked.is_empty() => Trips::default(),
            CutChoice::Local if reading.level == Consistency::Session && !self.token.is_empty() => {
                Trips::between(0.0, 1.0)
            }
            CutChoice::Local => Trips::default(),
            // What has to be seen may be on its way here.
            CutChoice::ClosedSet => Trips::between(1.0, 1.5),
            // Of an old cut everything may be here.
            CutChoice::Given => Trips::between(0.0, 1.0),
            CutChoice::Clock | CutChoice::Calibrated | CutChoice::Published => Trips::of(1.0),
        };
        if trips.most == 0.0 {
            asked.clear();
        }
        Claim { asked, homes, trips }
    }

    /// Ordering a transaction that writes at these homes.
    pub(super) fn claim_of_order(&self, homes: BTreeSet<RegionId>) -> Claim {
        let cluster = self.cluster();
        let topology = cluster.topology();
        let is_local = homes.iter().all(|home| *home == cluster.region());
        let trips = match is_local {
            _ if self.settings.merges_epochs() => self.trips_of_epoch(),
            true if cluster.copies_elsewhere() > 0 => Trips::of(1.0),
            true => Trips::default(),
            false if topology.is_replicated() => Trips::of(1.0),
            false if homes.len() == 1 => Trips::between(1.0, 2.0),
            false => Trips::of(2.0),
        };
        Claim { asked: BTreeSet::new(), homes, trips }
    }

    /// What one round trip takes that a claim counts: to the farthest region that it has to do with; where it has to do
    /// with none, to the nearest other one.
    pub(super) fn round_trip_ns(&self, claim: &Claim) -> u64 {
        let (cluster, here) = (self.cluster(), self.cluster().region());
        let topology = cluster.topology();
        let asked = claim.asked.iter().map(|node| topology.region_of(*node));
        let regions = claim.homes.iter().copied().chain(asked).filter(|region| *region != here);
        let widest = regions.map(|region| topology.wan.round_trip_ns(here, region)).max();
        widest.unwrap_or_else(|| self.kth_nearest_ns(here, cluster.copies_elsewhere().max(1)))
    }

    /// Round trip from a region to the K-th nearest of the others that keep copies.
    fn kth_nearest_ns(&self, here: RegionId, k: usize) -> u64 {
        let topology = self.cluster().topology();
        let others =
            topology.regions().filter(|region| *region != here && topology.sequencer_of(*region).is_some());
        let mut round_trips: Vec<u64> =
            others.map(|region| topology.wan.round_trip_ns(here, region)).collect();
        round_trips.sort_unstable();
        round_trips.get(k - 1).copied().unwrap_or(0)
    }

    /// Nodes by number and region.
    pub(in crate::session) fn shown_nodes(&self, nodes: &BTreeSet<NodeId>) -> Vec<String> {
        let topology = self.cluster().topology();
        nodes
            .iter()
            .map(|node| format!("{node} ({})", topology.region_name(topology.region_of(*node))))
            .collect()
    }

    /// How a statement reads, and at which cut.
    pub(super) fn describe_cut(&self, reading: Reading, over_columns: bool, document: &mut Document) {
        let (level, asked_for) = (reading.level, self.settings.consistency);
        let why = match level == asked_for {
            true => String::new(),
            false => format!(" (a transaction that may write does not read at {})", asked_for.name()),
        };
        document.plan(format!("Consistency: {}{why}", level.name()), "Consistency", level.name());
        let rule = self.cut_rule(self.cut_choice(reading, over_columns));
        document.plan(format!("Cut: {rule}"), "Cut", rule);
    }

    /// Whom it asks, and how often it waits for the WAN.
    pub(super) fn describe_claim(&self, claim: &Claim, is_write: bool, document: &mut Document) {
        let (cluster, here) = (self.cluster(), self.cluster().region());
        if !is_write || !claim.asked.is_empty() {
            let asked = self.shown_nodes(&claim.asked);
            let shown = if asked.is_empty() { "none".into() } else { asked.join(", ") };
            document.plan(format!("Nodes asked: {shown}"), "Nodes Asked", Json::texts(asked));
        }
        let round_trip_ms = self.round_trip_ns(claim) as f64 / base::time::MS as f64;
        let copies = cluster.copies_elsewhere();
        let is_local = claim.homes.iter().all(|home| *home == here);
        let unit = match claim.trips.most > 0.0 {
            true if self.settings.merges_epochs() => format!(
                " (round trip {round_trip_ms:.1} ms to the farthest region; answered when the epoch is published, up to an epoch later)"
            ),
            true if is_write && is_local && copies > 0 => format!(
                " (round trip {round_trip_ms:.1} ms, until {copies} more {} it)",
                if copies == 1 { "region has" } else { "regions have" },
            ),
            true => format!(" (round trip {round_trip_ms:.1} ms)"),
            false => String::new(),
        };
        let trips = claim.trips;
        if trips.most > trips.least {
            document.plan_lines(Vec::new(), "WAN Round Trips At Most", Json::Number(trips.most));
        }
        document.plan_lines(Vec::new(), "Round Trip Time", Json::rounded(round_trip_ms));
        document.plan(
            format!("WAN round trips: {trips}{unit}"),
            "WAN Round Trips",
            Json::Number(trips.least),
        );
    }
}
