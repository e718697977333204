//! Random worlds: thousands of transactions over lossy links, judged at the end.

use super::judge::judge;
use super::{Faults, World, access};
use crate::caerus::SequenceId;
use crate::caerus::options::Admission;
use crate::caerus::{Agreement, FutureRanks, Options, Routing};
use crate::engine::Question;
use crate::trial::disk::Habits;
use crate::trial::load::transaction;
use crate::trial::{OTHER, TABLE};
use base::order::CloseTicket;
use base::rng::Rng;
use base::time::MS;
use base::topology::{NodeSpec, Topology};
use base::txn::Granule;
use base::wan::Wan;
use base::{NodeId, PartitionId, Rank, RegionId, Token};

/// One run with knobs drawn from the seed. A third of the worlds is tiny: all delays are a few ns, so that
/// clock readings, ranks and lows collide and every "plus one" counts.
pub fn run(seed: u64, transactions: usize, options: Option<Options>) -> World {
    run_in(seed, transactions, options, false)
}

/// The same; perhaps clocks have no bound.
pub fn run_in(seed: u64, transactions: usize, options: Option<Options>, unbounded_clocks: bool) -> World {
    run_on(seed, transactions, options, unbounded_clocks, None)
}

/// The same; perhaps on disks, whose habits follow from what a ms is.
pub fn run_on(
    seed: u64,
    transactions: usize,
    options: Option<Options>,
    unbounded_clocks: bool,
    habits: Option<&dyn Fn(u64) -> Habits>,
) -> World {
    let mut knobs = Rng::new(seed).fork("knobs");
    let regions = 2 + knobs.below(2) as usize;
    let partitions = 1 + knobs.below(3) as u16;
    let tiny = knobs.chance(0.33);
    // What one ms of a usual world is here.
    let unit = if tiny { 1 } else { MS };
    let clock_bound_ns = *knobs.pick(&[0, 0, unit, 5 * unit]);
    let mut options = options.unwrap_or_default();
    options.batching.interval_ns = *knobs.pick(&[0, unit, 10 * unit]);
    options.heartbeats.every_ns = *knobs.pick(&[unit, 2 * unit, 10 * unit]);
    options.collection.every_ns = *knobs.pick(&[5 * unit, 50 * unit, 500 * unit]);
    options.ranks.margin_ns = unit;
    options.collection.silence_ns = 1500 * unit;
    options.retry_after_ns = Some(420 * unit);
    options.ranks.future_max_ns = Some(2000 * unit);
    options.admission.outstanding_max = *knobs.pick(&[1, 5, 2000]);
    let copies_elsewhere = knobs.below(regions as u64) as usize;
    // SLOG keeps its regions' logs to themselves, Calvin has none.
    options.copies_elsewhere = if options.routing == Routing::Direct { copies_elsewhere } else { 0 };
    options.replication.suspect_after_ns = Some(*knobs.pick(&[600 * unit, 2000 * unit]));
    options.admission.unordered_max = *knobs.pick(&[1, 10, 4000]);
    options.ranks.future = *knobs.pick(&[
        FutureRanks::Measured,
        FutureRanks::Measured,
        FutureRanks::Off,
        FutureRanks::Scaled { percent: 1000 },
        FutureRanks::Random { seed },
    ]);
    if options.mutant.is_none() {
        // A stream of its own, so that worlds with planted faults stay as they were found.
        options.heartbeats.idle_every_ns = *Rng::new(seed).fork("rest").pick(&[None, Some(50 * unit)]);
    }
    options.ranks.lower_bounds = knobs.chance(0.8) || options.mutant.is_some();
    let wan = Wan::uniform("test", &["a", "b", "c"][..regions], 2 * unit, 100 * unit);
    let mut topology = Topology::one_node_per_region(wan, partitions);
    let clock_bound_ns = if unbounded_clocks { 0 } else { clock_bound_ns };
    (topology.clock_bound_ns, topology.unbounded_clocks) = (clock_bound_ns, unbounded_clocks);
    if partitions > 1 && knobs.chance(0.5) {
        // A second node in the first region, for its last partition; and a gateway without any.
        let node = NodeId(topology.nodes.len() as u16);
        let subscribes = topology.nodes[0].subscribes.clone();
        topology.nodes.push(NodeSpec { region: RegionId(0), subscribes });
        topology.nodes.push(NodeSpec { region: RegionId(1), subscribes: Vec::new() });
        topology.partitions[partitions as usize - 1].node = node;
    }
    let mut rounds = Rng::new(seed).fork("rounds");
    options.replication.agreement = *rounds.pick(&[Agreement::StandingLeader, Agreement::PaxosPerEntry]);
    options.append_delay_percent = *rounds.pick(&[0, 100, 100, 200]);
    if let Some(records) = &mut options.records {
        records.ceiling_ns = *Rng::new(seed).fork("ceilings").pick(&[50 * unit, 300 * unit]);
    }
    if partitions == 3 && options.records.is_none() && rounds.chance(0.7) {
        // Three nodes in each region, and its sequence on all of them.
        options.replication.machines_inside = 3;
        let subscribes = topology.nodes[0].subscribes.clone();
        topology.nodes.clear();
        for (n, partition) in topology.partitions.iter_mut().enumerate() {
            partition.node = NodeId(n as u16);
            topology.nodes.push(NodeSpec { region: partition.region, subscribes: subscribes.clone() });
        }
    }
    let nodes = topology.nodes.len() as u64;
    let habits = habits.map(|habits| habits(unit));
    let pauses_max = if options.mutant.is_some() { 0 } else { [0, 1, 4][seed as usize % 3] };
    let mut world = World::with_disks(seed, topology.replicated(), options, habits);
    world.rows.iter_mut().for_each(|rows| rows.pauses_max = pauses_max);
    world.faults = Faults {
        loss: *knobs.pick(&[0.0, 0.02, 0.2]),
        duplication: *knobs.pick(&[0.0, 0.3]),
        jitter_ns: *knobs.pick(&[0, 10 * unit, 120 * unit]),
    };
    let keys = *knobs.pick(&[2, 6, 20]);
    let pause_ns = *knobs.pick(&[unit.div_ceil(5), 2 * unit, 20 * unit]);
    let multi = *knobs.pick(&[0.1, 0.5]);
    let mut draw = Rng::new(seed).fork("transactions");
    let mut moves = Rng::new(seed).fork("moves");
    let often = *moves.pick(&[0.0, 0.0, 0.05, 0.2]);
    let mut seen = Rank::ZERO;
    for n in 0..transactions {
        world.run_until(world.now + u64::from(!tiny) + draw.below(2 * pause_ns));
        let node = draw.below(nodes) as u16;
        let region = world.topology.region_of(NodeId(node)).0;
        let text = transaction(&mut draw, region, regions as u16, partitions, keys, multi);
        let text = if often > 0.0 { of_two_tables(&mut moves, &text) } else { text };
        let name = if draw.chance(0.2) { "maybe" } else { "update" };
        if draw.chance(0.1)
            && let Some((_, answer)) = world.answers.values().next_back()
        {
            seen = seen.max(answer.rank);
        }
        let token = if draw.chance(0.3) { Token::at(seen) } else { Token::default() };
        if world.dead.contains(&NodeId(node)) {
            continue; // It is down.
        }
        world.submit_as(node, name, access(&text), token);
        if moves.chance(often) {
            let partition = moves.below(u64::from(regions as u16 * partitions)) as u16;
            let (node, to) = (moves.below(nodes) as u16, moves.below(regions as u64) as u16);
            if world.dead.contains(&NodeId(node)) {
                continue;
            }
            let near = partition / partitions * partitions;
            let all: Vec<u16> = (near..near + partitions).collect();
            match moves.below(4) {
                // It may be there already.
                0 => _ = world.move_home(node, partition, to),
                1 => _ = world.move_table(node, TABLE, &all, to),
                2 => _ = world.move_table(node, OTHER, &all, to),
                _ => _ = world.move_table(node, OTHER, &[partition], to),
            }
        }
        if draw.chance(0.1) {
            let partition = draw.below(u64::from(regions as u16 * partitions)) as u16;
            let reader = draw.below(nodes) as u16;
            let near = world.topology.copy_near(PartitionId(partition), NodeId(reader));
            if world.dead.contains(&NodeId(reader)) || world.dead.contains(&near) {
                continue;
            }
            let rank = (world.clock(NodeId(reader)) + clock_bound_ns).rank();
            seen = if unbounded_clocks { seen } else { seen.max(rank) };
            let granules = match draw.below(3) {
                0 => vec![Granule::Partition],
                _ => {
                    let other = 100 * moves.below(2);
                    let set = access(&format!("r0.{}", draw.below(keys) + other));
                    set.by_partition[&PartitionId(0)].iter().map(|a| a.granule.clone()).collect()
                }
            };
            match unbounded_clocks {
                true => world.find(n as u64, reader, partition, granules),
                false => world.close(n as u64, reader, partition, rank, granules),
            }
        }
        if n % 50 == 0 {
            world.check_invariants();
        }
    }
    world.faults.loss = 0.0;
    if world.disks.is_some() {
        world.no_more_crashes();
    }
    world.run_until(world.now + 30_000 * unit);
    world
}

/// Some of its keys are another table's.
fn of_two_tables(draw: &mut Rng, text: &str) -> String {
    let words = text.split_whitespace().map(|word| match word.split_once('.') {
        Some((place, keys)) if draw.chance(0.4) => {
            let keys: Vec<String> =
                keys.split('-').map(|key| (key.parse::<u64>().unwrap() + 100).to_string()).collect();
            format!("{place}.{}", keys.join("-"))
        }
        _ => word.to_string(),
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn random_worlds_are_serializable_in_rank_order_in_all_regions() {
    for seed in 0..100 {
        let mut world = run(seed, 120, None);
        judge(&world);
        world.check_empty();
    }
}

#[test]
fn a_reader_that_went_away_is_not_answered() {
    let mut world = World::new(1, 2, 1, 0, Options::default());
    world.submit(0, "w0.1 w1.1");
    world.run_for_ms(60);
    let rank = Rank(world.now.0 + 50 * MS);
    world.close(7, 1, 0, rank, vec![Granule::Partition]);
    let forget = Question::Forget { ticket: CloseTicket(7) };
    assert_eq!(world.ask_at(NodeId(1), world.clock(NodeId(1)), forget), Ok(None));
    world.run_for_ms(1000);
    assert!(world.closed.is_empty());
    world.check_empty();
}

#[test]
fn one_hot_key_in_all_regions_drains_and_the_graph_stays_bounded() {
    let options = Options {
        admission: Admission { outstanding_max: 50, unordered_max: 100, ..Admission::default() },
        ..Options::default()
    };
    let mut world = World::new(5, 3, 1, 0, options);
    world.faults = Faults { loss: 0.01, duplication: 0.05, jitter_ns: 20 * MS };
    let mut unordered_max = 0;
    for n in 0..1500u64 {
        world.run_until(world.now + MS / 2);
        world.submit((n % 3) as u16, ["w0.1 w1.1", "w1.1 w2.1", "w0.1 w2.1"][(n / 3 % 3) as usize]);
        unordered_max =
            unordered_max.max(world.nodes.iter().map(super::Caerus::unordered_count).max().unwrap());
    }
    assert!(world.nodes.iter().any(|node| node.gateway.waiting_count() > 0), "gateways hold back");
    assert!((50..=300).contains(&unordered_max), "{unordered_max}");
    world.faults.loss = 0.0;
    world.run_for_ms(60_000);
    judge(&world);
    world.check_empty();
}

#[test]
fn memory_stays_flat_under_load() {
    let mut world = World::new(6, 2, 2, MS, Options::default());
    let mut draw = Rng::new(6);
    let mut vertices_max = [0; 3];
    for n in 0..6000u64 {
        world.run_until(world.now + MS / 2);
        let node = (n % 2) as u16;
        let text = transaction(&mut draw, node, 2, 2, 20, 0.05);
        // DDL meets everything and would be what is measured.
        if text.split_whitespace().count() < 4 {
            world.submit(node, &text);
        }
        let count = world.nodes.iter().map(|node| node.vertex_count()).max().unwrap();
        let third = &mut vertices_max[n as usize / 2000];
        *third = count.max(*third);
        if n % 500 == 0 {
            world.check_invariants();
            world.rows.iter_mut().for_each(|rows| rows.log.clear());
            world.streams.clear();
        }
    }
    assert!(vertices_max[2] < vertices_max[1] * 3 / 2, "{vertices_max:?}");
    assert!(vertices_max[2] < 1000, "{vertices_max:?} at 2000 transactions per second");
    let node = &world.nodes[0];
    assert!(node.gateway.deadline_count() < 300 && node.outcomes.len() < 500);
    let seen = node.logs.seen(SequenceId(0));
    assert!(seen.words() < 50, "{} words", seen.words());
    assert!(node.scheduler.group_count() < 50 && node.readers.is_empty());
}
