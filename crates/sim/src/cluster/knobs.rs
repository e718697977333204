//! What a seed decides about a cluster and its clients: how many there are of everything, and every interval and limit.
//!
//! KEEPS: everything is drawn from the seed; what is drawn later leaves alone what was drawn before, by a stream of its
//! own where it came to be drawn later than others.

use super::badges::Company;
use super::deployment::{deploy_readers, split_regions};
use super::run::Case;
use super::session::Habits;
use crate::plan::{Mix, Plan};
use crate::world::Cost;
use base::rng::Rng;
use base::time::{MS, SECOND, US};
use base::topology::{NodeSpec, Topology};
use base::{NodeId, PartitionId, RegionId};
use reads::protocol::Baseline;
use reads::replica::tracker::Sizes;
use reads::rule::Dynamic;
use txn::any::{EngineKind, EngineOptions};
use txn::baseline::{calvin, slog};
use txn::caerus::options::{Admission, Batching, Collection, Heartbeats, Ranks, Replication};
use txn::geogauss::{EpochPace, Rule};
use txn::perseus::{FutureRanks, Timestamps, Unfinished};

/// What a seed decides about a cluster and its clients.
#[derive(Clone, Debug)]
pub(super) struct Knobs {
    pub topology: Topology,
    pub shelves_per_partition: usize,
    pub keys: i64,
    pub sessions: u32,
    pub habits: Habits,
    pub engine: EngineOptions,
    pub node: node::Options,
    pub cost: Cost,
    pub client_one_way_ns: u64,
    pub active_ns: u64,
    /// How often something moves to another home.
    pub moves: u32,
    /// Half of these move one partition on, each from where it is.
    pub moves_one: bool,
    /// How often the catalog is changed, or a table read by somebody who has just learned of it.
    pub definitions: u32,
    /// Clients that take badges from each other.
    pub badges: Option<Company>,
}

impl Knobs {
    pub fn draw(case: &Case) -> Knobs {
        let mut rng = Rng::new(case.seed).fork("knobs");
        let mix = case.plan.mix;
        let mut topology = topology_of(case, &mut rng);
        let partitions = topology.partitions.len() / topology.wan.region_count();
        let longest_ns = topology.wan.widest_ns();
        let node = node_options(case, longest_ns, &mut rng);
        let engine = perseus_options(case, longest_ns, &mut rng);
        let shortest_lease_ns = node.lease_ns.min(engine.lease_ns);
        let engine = match case.engine {
            EngineKind::Perseus => EngineOptions::Perseus(engine),
            EngineKind::Caerus | EngineKind::Slog | EngineKind::Calvin => {
                EngineOptions::Caerus(replicated_options(case, engine, partitions as u16, &mut topology))
            }
            EngineKind::Geogauss => EngineOptions::Geogauss(member_options(case, &mut topology)),
        };
        let topology = case.engine.layout(topology);
        let habits = habits(case, longest_ns, shortest_lease_ns, &mut rng);
        let moves = match case.engine {
            EngineKind::Caerus | EngineKind::Slog if mix == Mix::Moves => 40,
            EngineKind::Caerus | EngineKind::Slog => *Rng::new(case.seed).fork("moves").pick(&[0, 0, 3, 10]),
            EngineKind::Perseus | EngineKind::Calvin | EngineKind::Geogauss => 0,
        };
        let definitions = match (case.baseline, case.printed) {
            (None, None) => *Rng::new(case.seed).fork("definitions").pick(&[0, 0, 6, 20]),
            _ => 0,
        };
        Knobs {
            badges: case.badges.then(|| Company::draw(case.seed, case.undeclared(), case.builds_wrongly())),
            moves,
            moves_one: mix == Mix::Moves,
            definitions,
            topology,
            shelves_per_partition: *rng.pick(&[1, 2]),
            keys: *rng.pick(&[2, 2, 4]),
            sessions: match *rng.pick(&[4, 8, 12]) {
                _ if matches!(mix, Mix::Moves | Mix::SilentReaders | Mix::HalfTold) => 16,
                sessions => sessions,
            },
            habits,
            engine,
            node,
            cost: *rng.pick(&[
                Cost::default(),
                Cost { event_ns: 20 * US, kilobyte_ns: US, computation_ns: MS, ..Cost::default() },
            ]),
            client_one_way_ns: *rng.pick(&[0, 100 * US]),
            active_ns: longest_ns * *rng.pick(&[5, 10]),
        }
    }
    /// So many regions may be without their memory at a time.
    pub fn lost_together(&self) -> usize {
        match &self.engine {
            EngineOptions::Perseus(_) | EngineOptions::Geogauss(_) => 1,
            EngineOptions::Caerus(options) => options.copies_elsewhere.max(1),
        }
    }
    /// The case's plan, for what its engine survives.
    pub fn plan(&self, case: &Case) -> Plan {
        case.plan.clone().losing(self.lost_together()).recovering_in(self.recovers_in_ns())
    }
    /// A region that comes back without its memory takes so much longer than one whose engine gives it back its old
    /// place, in ns.
    pub fn recovers_in_ns(&self) -> u64 {
        match &self.engine {
            // It is doubted, removed, and let in again, by turns of members that may have to try twice.
            EngineOptions::Geogauss(_) => 30 * self.topology.wan.widest_ns() + 4 * SECOND,
            EngineOptions::Perseus(_) | EngineOptions::Caerus(_) => 0,
        }
    }
    /// Nodes that clients connect to: under crashes only those without partitions.
    pub fn gateways(&self, case: &Case) -> Vec<NodeId> {
        let is_idle = |n: &NodeId| self.topology.partitions_at(*n).next().is_none();
        let subscribes = |n: &NodeId| !self.topology.nodes[n.0 as usize].subscribes.is_empty();
        let nodes = self.topology.node_ids();
        match case.plan.mix {
            Mix::Crash | Mix::MixedCrash | Mix::MixedDrift | Mix::Deaths | Mix::HalfTold => {
                nodes.filter(|n| is_idle(n) || subscribes(n)).collect()
            }
            _ => nodes.collect(),
        }
    }
}

/// Which nodes there are, and how far apart their clocks may be.
fn topology_of(case: &Case, rng: &mut Rng) -> Topology {
    let mix = case.plan.mix;
    let partitions = *rng.pick(&[1, 1, 2, 3]);
    let mut topology = Topology::one_node_per_region(case.plan.wan.clone(), partitions);
    topology.clock_bound_ns = case.plan.clock_bound_ns(rng);
    #[cfg(feature = "mutants")]
    if case.mutants.unwatched {
        // No bound holds where nobody watches; a smaller one is exceeded within the time that a run has.
        topology.clock_bound_ns /= 4;
    }
    if case.unbounded_clocks {
        (topology.unbounded_clocks, topology.clock_bound_ns) = (true, 0);
    }
    if mix.takes_gateways() || rng.chance(0.2) {
        // Gateways without partitions: one in every region.
        for region in 0..topology.wan.region_count() as u16 {
            topology.nodes.push(NodeSpec { region: RegionId(region), subscribes: Vec::new() });
        }
    }
    deploy_readers(&mut topology, mix == Mix::SilentReaders, rng);
    topology
}

/// Every interval and limit of a node, its engine's excepted.
fn node_options(case: &Case, longest_ns: u64, rng: &mut Rng) -> node::Options {
    let mix = case.plan.mix;
    node::Options {
        streaming: node::Streaming {
            flush_ns: *rng.pick(&[0, MS, 5 * MS]),
            ack_ns: *rng.pick(&[0, MS, 10 * MS]),
            low_interval_ns: *rng.pick(&[5 * MS, 20 * MS]),
        },
        steps: node::Steps {
            keys: [1, 3, 1_024][case.seed as usize % 3],
            units: match case.is_planted() {
                true => 1_024,
                false => [1, 2, 1_024][case.seed as usize / 3 % 3],
            },
        },
        maintain_interval_ns: *rng.pick(&[10 * MS, 100 * MS]),
        merge_rows_max: *rng.pick(&[1, 4, 1000]),
        lease_ns: *rng.pick(stream_leases_ns(mix)),
        printed: case.printed,
        baseline: case.baseline,
        kept: kept(case),
        clocks: match case.is_unwatched() {
            true => None,
            false => case.plan.watches_clocks(),
        },
        dynamic: match rng.below(4) {
            0 => Dynamic::Off,
            1 => Dynamic::Threshold { ns: rng.below(2 * longest_ns + 1) },
            _ => Dynamic::Essential,
        },
        #[cfg(feature = "mutants")]
        mutants: node::Mutants { reads: case.mutants.reads, rows: case.mutants.rows },
        ..node::Options::default()
    }
}

/// What a seed decides about engine `perseus`; the others take over some of it.
fn perseus_options(case: &Case, longest_ns: u64, rng: &mut Rng) -> txn::perseus::Options {
    let mix = case.plan.mix;
    let mut engine = txn::perseus::Options {
        future_ranks: match rng.below(5) {
            0 => FutureRanks::Off,
            1 => FutureRanks::Scaled { percent: *rng.pick(&[0, 30, 300, 1000]) },
            2 => FutureRanks::Random { seed: case.seed },
            _ => FutureRanks::Measured,
        },
        lower_bounds: rng.chance(0.8),
        recover_after_ns: match case.seed % 4 {
            0 => Some(longest_ns / 2),
            1 => Some(2 * longest_ns),
            _ => None,
        },
        unfinished: unfinished(case),
        collect_every_ns: *rng.pick(collect_every_ns(mix)),
        timestamps: match case.baseline {
            Some(Baseline::CentralTimestamp) => Timestamps::Central,
            _ => Timestamps::Clocks,
        },
        #[cfg(feature = "mutants")]
        mutant: case.mutants.perseus,
        ..txn::perseus::Options::default()
    };
    if case.records {
        let ceiling_ns = *Rng::new(case.seed).fork("records").pick(&[50 * MS, SECOND]);
        engine.records = Some(txn::perseus::Records { ceiling_ns });
    }
    // Several reports.
    engine.lease_ns = match *rng.pick(&[4 * engine.collect_every_ns + longest_ns, 10 * SECOND]) {
        _ if mix == Mix::SilentReaders => 4 * engine.collect_every_ns + longest_ns,
        lease_ns => lease_ns,
    };
    engine
}

/// What sessions do, and what they may be refused.
fn habits(case: &Case, longest_ns: u64, shortest_lease_ns: u64, rng: &mut Rng) -> Habits {
    let mix = case.plan.mix;
    Habits {
        may_be_refused: may_be_refused(case),
        may_be_too_late: matches!(mix, Mix::Crash | Mix::MixedCrash | Mix::MixedDrift)
            || mix.leads_clocks_astray()
            || mix.loses_regions()
            || shortest_lease_ns < longest_ns * 20,
        may_be_undeliverable: mix == Mix::HalfTold,
        consistency: case.consistency,
        anywhere: anywhere(case),
        hot: hot(mix),
        operations: operations(mix),
        think_ns_max: think_ns_max(mix, *rng.pick(&[MS, 20 * MS, longest_ns])),
        roam: *rng.pick(&[0.0, 0.1, 0.5]),
        share: *rng.pick(&[0.0, 0.1, 0.3]),
        // A crashed gateway forgets its pins, so that nothing holds a cut for a comparison.
        weights: [
            4,
            2,
            2,
            3,
            *rng.pick(&[3, 6]) + 6 * u64::from(mix == Mix::SilentReaders),
            2,
            u64::from(!mix.takes_gateways()),
        ],
        at_replicas: case.replicas.is_some(),
        blocks: case.blocks,
        // Names cost bytes; where no gateway is lost few repeat.
        repeats: mix.takes_gateways() || names(case),
    }
}

/// How often queries go over whatever shelves there are.
fn anywhere(case: &Case) -> f64 {
    match (case.baseline, case.printed) {
        (None, None) if !case.stays_home => *Rng::new(case.seed).fork("readers").pick(&[0.0, 0.0, 0.0, 0.5]),
        // Other systems' rules need one reader that has all.
        _ => 0.0,
    }
}

/// Replicas of rows with trackers so small that slots are shared, and patience that is short or long.
fn kept(case: &Case) -> node::Kept {
    let Some(policy) = case.replicas else { return node::Kept::default() };
    let mut rng = Rng::new(case.seed).fork("replicas");
    let patience_ns = *rng.pick(&[MS, 10 * MS, SECOND]);
    let (tables, granules) = (*rng.pick(&[1, 2, 64]), *rng.pick(&[1, 7, 4_096]));
    node::Kept { rows: true, policy, patience_ns, tracker: Sizes { tables, granules }, ..Default::default() }
}

/// What becomes of what a lost gateway began.
fn unfinished(case: &Case) -> Unfinished {
    match case.seed % 3 {
        0 => Unfinished::Abandon,
        1 if case.plan.mix == Mix::HalfTold => Unfinished::Abandon,
        _ => Unfinished::Complete,
    }
}

/// Requests have names though no gateway is lost.
fn names(case: &Case) -> bool {
    let knows = matches!(case.engine, EngineKind::Perseus | EngineKind::Caerus);
    knows && Rng::new(case.seed).fork("named").chance(0.2)
}

/// Where clocks are wrong, or regions are lost or cut off from those that order what is asked for.
fn may_be_refused(case: &Case) -> bool {
    let mix = case.plan.mix;
    mix.leads_clocks_astray() || mix.loses_regions() || mix.separates() && case.engine != EngineKind::Perseus
}

/// How often clients keep to the partition that moves from home to home: a cut of what else they read would wait for its
/// new home, too.
fn hot(mix: Mix) -> f64 {
    match mix {
        Mix::Moves => 0.8,
        // Most transactions are to touch another partition, too.
        Mix::HalfTold => 0.5,
        _ => 0.0,
    }
}

/// A stream that goes on after a silence shows more of what was missed than a copy does.
fn stream_leases_ns(mix: Mix) -> &'static [u64] {
    match mix {
        Mix::SilentReaders => &[200 * MS, 10 * SECOND, 10 * SECOND, 10 * SECOND],
        _ => &[200 * MS, 10 * SECOND],
    }
}

/// A reader has to be given up while it is silent.
fn collect_every_ns(mix: Mix) -> &'static [u64] {
    match mix {
        Mix::SilentReaders => &[20 * MS, 20 * MS, 150 * MS],
        _ => &[20 * MS, 150 * MS, 500 * MS],
    }
}

/// Of each session.
fn operations(mix: Mix) -> u32 {
    match mix {
        Mix::Moves => 60,
        Mix::TakeOvers | Mix::SilentReaders | Mix::HalfTold => 30,
        _ => 12,
    }
}

/// Between two operations at most, in ns.
fn think_ns_max(mix: Mix, drawn_ns: u64) -> u64 {
    match mix {
        // So that operations last until the reader is heard again.
        Mix::SilentReaders => 150 * MS,
        Mix::Moves | Mix::HalfTold => 10 * MS,
        _ => drawn_ns,
    }
}

/// What a seed decides about an engine with a copy of everything in every region. `drawn`: for the other engine.
fn replicated_options(
    case: &Case,
    drawn: txn::perseus::Options,
    partitions: u16,
    topology: &mut Topology,
) -> txn::caerus::Options {
    let mix = case.plan.mix;
    let mut rng = Rng::new(case.seed).fork("caerus");
    if partitions > 1 && rng.chance(0.4) && !case.plan.mix.loses_regions() {
        split_regions(topology);
    }
    #[allow(unused_mut)]
    let mut options = caerus_options(case.engine, &mut rng, drawn, topology);
    if case.plan.mix.loses_regions() && case.engine == EngineKind::Caerus {
        options.copies_elsewhere = copies_for_rejoin(case.seed, mix, topology);
    }
    if case.plan.mix.separates() || case.plan.mix.leads_clocks_astray() {
        let patience_ns = [None, Some(topology.wan.widest_ns() + 100 * MS)];
        options.lost_after_ns = *Rng::new(case.seed).fork("lost").pick(&patience_ns);
    }
    if mix == Mix::Moves && case.engine == EngineKind::Caerus {
        // What waits for a move is then answered as soon as its region has executed that.
        let mut rng = Rng::new(case.seed).fork("ranks of moves");
        options.ranks.future = *rng.pick(&[FutureRanks::Off, options.ranks.future]);
        options.copies_elsewhere = *rng.pick(&[0, options.copies_elsewhere]);
    }
    // From not at all to twice as long as it takes to the farthest region.
    let delays: &[u64] = if mix == Mix::Moves { &[0, 0, 50, 100] } else { &[0, 50, 100, 100, 150, 200] };
    options.append_delay_percent = *Rng::new(case.seed).fork("hold").pick(delays);
    if case.records {
        let mut rng = Rng::new(case.seed).fork("records");
        options.records = Some(txn::caerus::Records { ceiling_ns: *rng.pick(&[50 * MS, SECOND]) });
        options.copies_elsewhere = *rng.pick(&[0, options.copies_elsewhere]);
        options.replication.machines_inside = 1;
    }
    #[cfg(feature = "mutants")]
    {
        options.mutant = case.mutants.caerus;
    }
    options
}

/// With fewer than one copy elsewhere no region comes back, with more than these none of two.
fn copies_for_rejoin(seed: u64, mix: Mix, topology: &Topology) -> usize {
    let copies_max = (topology.wan.region_count() as i64 - 1) / 2;
    let mut rng = Rng::new(seed).fork("copies");
    let copies = rng.between(1, copies_max) as usize;
    // With more copies fewer of the others have to answer.
    if mix == Mix::TakeOvers && rng.chance(0.5) { copies_max as usize } else { copies }
}

/// Small knobs, so that batches, heartbeats and limits all matter; those that both engines have are as
/// drawn for the other.
fn caerus_options(
    engine: EngineKind,
    rng: &mut Rng,
    drawn: txn::perseus::Options,
    topology: &Topology,
) -> txn::caerus::Options {
    let mut options = txn::caerus::Options {
        batching: Batching { interval_ns: *rng.pick(&[0, MS, 10 * MS]), ..Batching::default() },
        heartbeats: Heartbeats { every_ns: *rng.pick(&[2 * MS, 10 * MS]), ..Heartbeats::default() },
        ranks: Ranks { future: drawn.future_ranks, lower_bounds: drawn.lower_bounds, ..Ranks::default() },
        collection: Collection { every_ns: drawn.collect_every_ns, ..Collection::default() },
        admission: Admission {
            outstanding_max: *rng.pick(&[1, 3, 2000]),
            unordered_max: *rng.pick(&[2, 10, 4000]),
            ..Admission::default()
        },
        // As many as may be lost while the others go on.
        copies_elsewhere: rng.below(topology.wan.region_count().div_ceil(2) as u64) as usize,
        // Short, so that a region that is cut off is given up for lost.
        replication: Replication {
            suspect_after_ns: Some(*rng.pick(&[2, 4]) * topology.wan.widest_ns() + 30 * MS),
            ..Replication::default()
        },
        ..txn::caerus::Options::default()
    };
    match engine {
        EngineKind::Calvin => options.routing = calvin::ROUTING,
        EngineKind::Slog => (options.routing, options.copies_elsewhere) = (slog::ROUTING, 0),
        EngineKind::Perseus | EngineKind::Caerus | EngineKind::Geogauss => {}
    }
    options
}

/// What a seed decides about an engine whose nodes all keep everything and merge epochs.
fn member_options(case: &Case, topology: &mut Topology) -> txn::geogauss::Options {
    topology.nodes.truncate(topology.wan.region_count());
    let all: Vec<PartitionId> = topology.partition_ids().collect();
    topology.nodes.iter_mut().for_each(|node| node.subscribes = all.clone());
    let mut rng = Rng::new(case.seed).fork("geogauss");
    let epoch_ns = *rng.pick(&[MS, 5 * MS, 10 * MS, 50 * MS]);
    let removes_lost = removes_lost(case, topology);
    // A member that fell behind while another was removed catches up only if it may close more than time brings.
    let catches_up_ns = if removes_lost { 4 * topology.wan.widest_ns() + 500 * MS } else { 0 };
    txn::geogauss::Options {
        epoch_ns,
        rule: *rng.pick(&[Rule::Greedy, Rule::Greedy, Rule::Reserved]),
        isolation: case.isolation,
        pace: EpochPace {
            ahead_max: (*rng.pick(&[200, 1000])).max(catches_up_ns / epoch_ns),
            behind_max: *rng.pick(&[0, 2, 10]),
            busy_ns: *rng.pick(&[20 * MS, SECOND]),
            idle_every_ns: *rng.pick(&[20 * MS, 250 * MS]),
        },
        lost_after_ns: match case.plan.mix.separates() {
            true => *rng.pick(&[topology.wan.widest_ns() + 400 * MS, 10 * SECOND]),
            false => 10 * SECOND,
        },
        removes_lost,
        #[cfg(feature = "mutants")]
        mutant: case.mutants.geogauss,
        ..txn::geogauss::Options::default()
    }
}

/// Lost members are removed where some lose their memory, and every other time where links fail for long.
fn removes_lost(case: &Case, topology: &Topology) -> bool {
    let mix = case.plan.mix;
    let may_remove = topology.wan.region_count() > 2 && mix.separates();
    mix.loses_regions() || may_remove && Rng::new(case.seed).fork("removal").chance(0.5)
}
