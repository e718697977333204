//! Fault plans: what goes wrong in a world, and when.
//!
//! A plan is a pair of words, `wan3-lossy`: how far apart regions are, and which faults there are. For a
//! seed it becomes a [`Script`]: link faults, clocks, and steps at instants. KEEPS: every script ends
//! healed, so that progress can be demanded. The dead stay dead: only nodes without partitions die, and
//! an engine that recovers what they coordinated goes on without them ([`Script::kills`]).

mod aimed;
mod mix;

pub use mix::Mix;

use crate::world::clock::ClockModel;
use crate::world::network::{Jitter, LinkFaults, Links};
use crate::world::{Fault, Setup, World};
use base::process::Process;
use base::rng::Rng;
use base::time::{MS, US};
use base::topology::Topology;
use base::wan::Wan;
use base::{NodeId, RegionId, Time};
use node::clocks::ClockOptions;
use std::collections::BTreeSet;

/// Where a clock drifts: what the others are kept within, how fast it does at most, how often nodes compare theirs.
const KEPT_NS: u64 = MS;
const DRIFT_MAX_NS_PER_MS: u64 = 400_000;
const WATCH_EVERY_NS: u64 = 20 * MS;

/// A named plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    distances: &'static str,
    pub wan: Wan,
    pub mix: Mix,
    /// So many regions may be without their memory at a time, where regions lose it (K).
    lost_together: usize,
    /// A region that comes back without its memory takes so long in addition, in ns, before the next one is lost.
    recovers_in_ns: u64,
}

/// First words of plans, and the latency presets they stand for.
const DISTANCES: [(&str, &str, usize); 7] = [
    ("wan2", "perseus3", 2),
    ("wan3", "perseus3", 3),
    ("wan4", "perseus5", 4),
    ("wan5", "perseus5", 5),
    ("china3", "china3", 3),
    ("azure6", "azure6", 6),
    ("local3", "local", 3),
];

impl Plan {
    /// A plan by its name, `DISTANCES-FAULTS`. The error lists the words there are.
    pub fn named(name: &str) -> Result<Plan, String> {
        let parsed = name.split_once('-').and_then(|(distances, mix)| {
            let &(distances, preset, regions) = DISTANCES.iter().find(|d| d.0 == distances)?;
            let mix = Mix::every().find(|m| m.name() == mix)?;
            Some(Plan {
                distances,
                wan: Wan::preset(preset)?.truncated(regions),
                mix,
                lost_together: 1,
                recovers_in_ns: 0,
            })
        });
        parsed.ok_or_else(|| {
            let distances = DISTANCES.map(|d| d.0).join(", ");
            let mixes: Vec<_> = Mix::every().map(Mix::name).collect();
            let mixes = mixes.join(", ");
            format!("no plan {name:?}; a plan is one of {distances}, a dash, and one of {mixes}")
        })
    }
    /// The same where so many regions may be without their memory at a time.
    pub fn losing(mut self, together: usize) -> Plan {
        self.lost_together = together;
        self
    }
    /// The same where a region takes so much longer to come back, in ns.
    pub fn recovering_in(mut self, ns: u64) -> Plan {
        self.recovers_in_ns = ns;
        self
    }
    pub fn name(&self) -> String {
        format!("{}-{}", self.distances, self.mix.name())
    }

    /// ε of the topology this plan runs on, in ns.
    pub fn clock_bound_ns(&self, rng: &mut Rng) -> u64 {
        match self.mix {
            Mix::ClockSkew => *rng.pick(&[5 * MS, 10 * MS, 20 * MS]),
            // What a clock may be off by before it is found out; see `node::clocks`.
            mix if mix.leads_clocks_astray() => {
                let between_ns = self.unchecked_max_ns() + 2 * WATCH_EVERY_NS + self.wan.widest_ns();
                3 * KEPT_NS + self.wan.widest_ns() / 2 + between_ns * DRIFT_MAX_NS_PER_MS / MS
            }
            _ => *rng.pick(&[0, 100 * US, MS, 3 * MS]),
        }
    }

    /// A node that hears nobody for so long does not know its clock, in ns: longer than a question and its answer
    /// take. What it strays until then is part of the bound.
    fn unchecked_max_ns(&self) -> u64 {
        2 * self.wan.widest_ns() + 4 * WATCH_EVERY_NS
    }
    /// How nodes watch their clocks.
    pub fn watches_clocks(&self) -> Option<ClockOptions> {
        match self.mix {
            mix if mix.leads_clocks_astray() => Some(ClockOptions {
                every_ns: WATCH_EVERY_NS,
                kept_ns: Some(KEPT_NS),
                checked_within_ns: self.unchecked_max_ns(),
                ..ClockOptions::default()
            }),
            _ => Some(ClockOptions::default()),
        }
    }

    /// What happens on this topology during the first `active_ns`; then all is healed.
    pub fn script(&self, topology: &Topology, active_ns: u64, rng: &mut Rng) -> Script {
        let mut script = Script {
            links: Links::everywhere(LinkFaults { in_order: true, ..LinkFaults::default() }),
            clocks: ClockModel::Wander,
            steps: Vec::new(),
            healed_after_ns: active_ns,
            kills: BTreeSet::new(),
        };
        match self.mix {
            Mix::Calm => {}
            Mix::Lossy => script.links = lossy(rng),
            Mix::Jittery => script.links = jittery(&self.wan, rng),
            Mix::Partitions => script.cuts(topology, rng),
            Mix::ClockSkew => script.clocks = ClockModel::Extremes,
            Mix::Crash => script.crashes(topology, rng),
            Mix::Deaths => script.deaths(topology, rng),
            Mix::Drift => {
                if rng.chance(0.5) {
                    script.cuts(topology, rng);
                }
                if rng.chance(0.3) {
                    script.links = lossy(rng);
                }
                script.drifts(topology, rng);
            }
            Mix::Forgets => script.forgets(topology, self.recovers_in_ns, rng),
            Mix::TakeOvers => script.take_overs(topology, self.lost_together, rng),
            Mix::Moves => {
                if rng.chance(0.7) {
                    script.links = jittery(&self.wan, rng);
                }
            }
            Mix::SilentReaders => script.silent_readers(topology, rng),
            Mix::HalfTold => script.half_told(topology, rng),
            Mix::DriftForgets => {
                script.drifts(topology, rng);
                script.forgets(topology, self.recovers_in_ns, rng);
            }
            Mix::MixedForgets => {
                script.links = lossy(rng);
                // A region that comes back has to be whole before the next one is lost.
                for class in [&mut script.links.inside, &mut script.links.across] {
                    class.loss = class.loss.min(0.01);
                }
                script.drifts(topology, rng);
                script.forgets(topology, self.recovers_in_ns, rng);
            }
            Mix::MixedDrift | Mix::Everything => {
                script.links = lossy(rng);
                script.drifts(topology, rng);
                script.cuts(topology, rng);
                script.crashes(topology, rng);
                if self.mix == Mix::Everything {
                    script.forgets_together(topology, self.lost_together, rng);
                }
            }
            Mix::Mixed | Mix::MixedCrash => self.mixed(&mut script, topology, rng),
        }
        script
    }

    fn mixed(&self, script: &mut Script, topology: &Topology, rng: &mut Rng) {
        let mut links = if rng.chance(0.7) { lossy(rng) } else { script.links };
        if rng.chance(0.5) {
            let spread = jittery(&self.wan, rng);
            links.inside.jitter = spread.inside.jitter;
            links.across.jitter = spread.across.jitter;
        }
        script.links = links;
        if rng.chance(0.5) {
            script.cuts(topology, rng);
        }
        if rng.chance(0.5) {
            script.clocks = ClockModel::Extremes;
        }
        if self.mix == Mix::MixedCrash {
            script.crashes(topology, rng);
        }
    }
}

fn lossy(rng: &mut Rng) -> Links {
    let class = |rng: &mut Rng| LinkFaults {
        jitter: Jitter::Uniform { max_ns: rng.below(2 * MS) },
        loss: *rng.pick(&[0.0, 0.01, 0.05, 0.2]),
        duplication: *rng.pick(&[0.0, 0.02, 0.1]),
        reordering: *rng.pick(&[0.0, 0.05, 0.3]),
        in_order: false,
    };
    Links { inside: class(rng), across: class(rng) }
}

fn jittery(wan: &Wan, rng: &mut Rng) -> Links {
    let half_ns = wan.widest_ns() / *rng.pick(&[100, 20, 5]);
    let class =
        |jitter, rng: &mut Rng| LinkFaults { jitter, in_order: rng.chance(0.5), ..Default::default() };
    Links {
        inside: class(Jitter::Tail { half_ns: half_ns / 10 }, rng),
        across: class(Jitter::Tail { half_ns }, rng),
    }
}

/// A plan as it happens for one seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    pub links: Links,
    pub clocks: ClockModel,
    /// ns after the beginning, and what happens; in order of time.
    pub steps: Vec<(u64, Fault)>,
    /// From here on nothing goes wrong any more.
    pub healed_after_ns: u64,
    /// Who crashes and does not come back.
    pub kills: BTreeSet<NodeId>,
}

impl Script {
    fn cuts(&mut self, topology: &Topology, rng: &mut Rng) {
        let nodes: Vec<NodeId> = topology.node_ids().collect();
        for _ in 0..rng.between(1, 4) {
            let start = rng.below(self.healed_after_ns);
            let end = start + rng.below(self.healed_after_ns - start + 1);
            let fault = match rng.below(3) {
                0 => {
                    let region = topology.region_of(*rng.pick(&nodes));
                    let apart = nodes.iter().copied().filter(|n| topology.region_of(*n) == region);
                    Fault::Separate(apart.collect())
                }
                1 => Fault::Separate(BTreeSet::from([*rng.pick(&nodes)])),
                _ => Fault::CutOneWay { from: *rng.pick(&nodes), to: *rng.pick(&nodes) },
            };
            self.steps.push((start, fault));
            self.steps.push((end, Fault::Reconnect));
        }
        self.steps.sort_by_key(|(at, _)| *at);
    }
    fn crashes(&mut self, topology: &Topology, rng: &mut Rng) {
        let idle: Vec<NodeId> =
            topology.node_ids().filter(|n| topology.partitions_at(*n).next().is_none()).collect();
        if idle.is_empty() {
            return;
        }
        for _ in 0..rng.between(1, 3) {
            let node = *rng.pick(&idle);
            let start = rng.below(self.healed_after_ns);
            let end = start + rng.below(self.healed_after_ns - start + 1);
            self.steps.push((start, Fault::Crash(node)));
            self.steps.push((end, Fault::Restart(node)));
        }
        self.steps.sort_by_key(|(at, _)| *at);
    }

    /// Links are lossy for half of the seeds, so that what a dying node sent arrives in part.
    fn deaths(&mut self, topology: &Topology, rng: &mut Rng) {
        let serves_none = |n: &NodeId| {
            topology.partitions_at(*n).next().is_none() && topology.nodes[n.0 as usize].subscribes.is_empty()
        };
        let mut idle: Vec<NodeId> = topology.node_ids().filter(serves_none).collect();
        if rng.chance(0.5) {
            self.links = lossy(rng);
        }
        rng.shuffle(&mut idle);
        // The last one lives.
        idle.pop();
        for node in idle {
            self.steps.push((rng.below(self.healed_after_ns), Fault::Crash(node)));
            self.kills.insert(node);
        }
        self.steps.sort_by_key(|(at, _)| *at);
    }

    /// The next one is lost when the one before is whole again.
    fn forgets(&mut self, topology: &Topology, recovers_in_ns: u64, rng: &mut Rng) {
        let widest_ns = topology.wan.widest_ns();
        let mut at_ns = rng.below(self.healed_after_ns);
        for _ in 0..rng.between(1, 3) {
            let region = topology.region_of(*rng.pick(&topology.node_ids().collect::<Vec<_>>()));
            let away_ns_max = *rng.pick(&[MS, 2 * widest_ns, 12 * widest_ns + 500 * MS]);
            let back_ns = at_ns + rng.below(away_ns_max);
            for node in topology.node_ids().filter(|node| topology.region_of(*node) == region) {
                self.steps.push((at_ns, Fault::Crash(node)));
                self.steps.push((back_ns, Fault::Restart(node)));
            }
            at_ns = back_ns + 25 * widest_ns + 500 * MS + recovers_in_ns + rng.below(10 * widest_ns);
        }
        self.healed_after_ns = self.healed_after_ns.max(at_ns);
        self.steps.sort_by_key(|(at, _)| *at);
    }

    /// At any time, links and other regions being as they are: so many regions at most that those which have not lost
    /// their memory can tell all of them what they had promised.
    fn forgets_together(&mut self, topology: &Topology, lost_together: usize, rng: &mut Rng) {
        let mut regions: Vec<RegionId> = (0..topology.wan.region_count() as u16).map(RegionId).collect();
        rng.shuffle(&mut regions);
        let count = rng.between(1, lost_together as i64) as usize;
        for region in regions.into_iter().take(count) {
            for _ in 0..rng.between(1, 2) {
                let at_ns = rng.below(self.healed_after_ns);
                let back_ns = at_ns + rng.below(self.healed_after_ns - at_ns);
                for node in topology.node_ids().filter(|node| topology.region_of(*node) == region) {
                    self.steps.push((at_ns, Fault::Crash(node)));
                    self.steps.push((back_ns, Fault::Restart(node)));
                }
            }
        }
        self.steps.sort_by_key(|(at, _)| *at);
    }

    /// From early on; all is healed once the clock has come back, which takes it up to twice as long.
    fn drifts(&mut self, topology: &Topology, rng: &mut Rng) {
        self.clocks = ClockModel::Kept { ns: KEPT_NS };
        let nodes: Vec<NodeId> = topology.node_ids().collect();
        let node = *rng.pick(&nodes);
        let ns_per_ms = rng.between(DRIFT_MAX_NS_PER_MS as i64 / 2, DRIFT_MAX_NS_PER_MS as i64);
        let ns_per_ms = if rng.chance(0.5) { ns_per_ms } else { -ns_per_ms };
        self.steps.push((rng.below(self.healed_after_ns / 4), Fault::Stray { node, ns_per_ms }));
        self.steps.push((self.healed_after_ns, Fault::Mend(node)));
        self.healed_after_ns = 3 * self.healed_after_ns + 10 * WATCH_EVERY_NS;
        self.steps.sort_by_key(|(at, _)| *at);
    }

    /// The machines of this script's world.
    pub fn setup(&self, topology: Topology, seed: u64) -> Setup {
        Setup { clocks: self.clocks, ..Setup::calm(topology, seed) }
    }
    /// Schedules the steps and the healing, beginning now. Answers when all is healed.
    pub fn enact<P: Process>(&self, world: &mut World<P>) -> Time {
        let begin = world.now();
        world.fault_at(begin, Fault::Links(self.links));
        for (after_ns, fault) in &self.steps {
            world.fault_at(begin + *after_ns, fault.clone());
        }
        let healed_at = begin + self.healed_after_ns;
        world.fault_at(healed_at, Fault::Reconnect);
        world.fault_at(healed_at, Fault::Links(Links::default()));
        for node in world.topology().node_ids().filter(|n| !self.kills.contains(n)).collect::<Vec<_>>() {
            world.fault_at(healed_at, Fault::Restart(node));
        }
        healed_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_found_by_name_and_unknown_ones_are_explained() {
        for mix in Mix::ALL {
            let name = format!("wan3-{}", mix.name());
            let plan = Plan::named(&name).unwrap();
            assert_eq!((plan.name(), plan.mix), (name, mix));
        }
        let error = Plan::named("mars-calm").unwrap_err();
        assert!(error.contains("wan3") && error.contains("lossy"), "{error}");
    }

    #[test]
    fn scripts_of_one_seed_are_equal_and_end_before_they_heal() {
        let topology = Topology::one_node_per_region(Wan::preset("perseus3").unwrap(), 2);
        for seed in 0..50 {
            for mix in Mix::every() {
                let plan = Plan { mix, ..Plan::named("wan5-calm").unwrap().losing(2) };
                let script = plan.script(&topology, 900 * MS, &mut Rng::new(seed));
                assert_eq!(script, plan.script(&topology, 900 * MS, &mut Rng::new(seed)));
                assert!(script.steps.iter().all(|(at, _)| *at <= script.healed_after_ns));
            }
        }
    }
}
