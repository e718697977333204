//! Random worlds: thousands of transactions over lossy links, judged at the end.

use super::judge::{is_of_former_life, judge};
use super::{Event, Faults, World, access};
use crate::perseus::{FutureRanks, Options, Unfinished};
use crate::trial::disk::Habits;
use crate::trial::load::transaction;
use base::order::CloseTicket;
use base::rng::Rng;
use base::time::MS;
use base::topology::{NodeSpec, Topology};
use base::txn::{Granule, Submission};
use base::wan::Wan;
use base::{NodeId, PartitionId, Rank, RegionId, Token, TxnId};

/// One run with knobs drawn from the seed. A third of the worlds is tiny: all delays are a few ns, so that
/// clock readings, ranks and watermarks collide and every "plus one" counts.
pub fn run(seed: u64, transactions: usize, options: Option<Options>) -> World {
    run_with(seed, transactions, options, Gateways::Steady)
}

/// What happens to nodes that run no partition.
#[derive(Clone, Copy, PartialEq)]
pub enum Gateways {
    /// There are none.
    Steady,
    /// Some are cut off for a while.
    Interrupted,
    /// All but one die, one after the other; so do their messages, or not. Clients go to another gateway
    /// and repeat what they got no answer to.
    Mortal,
}

/// The same with gateways beside the partitions' nodes.
pub fn run_with(seed: u64, transactions: usize, options: Option<Options>, gateways: Gateways) -> World {
    run_on(seed, transactions, options, gateways, None)
}

/// Disks of a world.
pub struct OnDisks<'a> {
    /// They follow from what a ms is.
    pub habits: &'a dyn Fn(u64) -> Habits,
    /// Nodes run one partition each, and most transactions take part at several.
    pub is_entangled: bool,
}

/// The same; perhaps on disks.
pub fn run_on(
    seed: u64,
    transactions: usize,
    options: Option<Options>,
    gateways: Gateways,
    disks: Option<OnDisks>,
) -> World {
    let mut knobs = Rng::new(seed).fork("knobs");
    let is_entangled = disks.as_ref().is_some_and(|disks| disks.is_entangled);
    let regions = 2 + knobs.below(2) as usize;
    let partitions = match 1 + knobs.below(3) as u16 {
        _ if is_entangled => 1,
        partitions => partitions,
    };
    let tiny = knobs.chance(0.33);
    // What one ms of a usual world is here.
    let unit = if tiny { 1 } else { MS };
    let clock_bound_ns = *knobs.pick(&[0, 0, unit, 5 * unit]);
    let mut options = options.unwrap_or_default();
    options.collect_every_ns = *knobs.pick(&[5 * unit, 50 * unit, 500 * unit]);
    options.margin_ns = unit;
    options.retry_after_ns = Some(220 * unit);
    options.retry_max_ns = 2000 * unit;
    options.future_max_ns = Some(2000 * unit);
    if options.future_ranks == FutureRanks::Measured {
        options.future_ranks = *knobs.pick(&[
            FutureRanks::Measured,
            FutureRanks::Measured,
            FutureRanks::Off,
            FutureRanks::Scaled { percent: 1000 },
            FutureRanks::Random { seed },
        ]);
    }
    options.recover_after_ns = Some(*knobs.pick(&[50 * unit, 150 * unit, 600 * unit, 2000 * unit]));
    options.unfinished = *knobs.pick(&[Unfinished::Complete, Unfinished::Abandon]);
    options.lower_bounds = knobs.chance(0.8);
    let wan = Wan::uniform("test", &["a", "b", "c"][..regions], 2 * unit, 100 * unit);
    let mut topology = Topology::one_node_per_region(wan, partitions);
    let others = if gateways == Gateways::Steady { 0 } else { 4 };
    for n in 0..others {
        topology.nodes.push(NodeSpec { region: RegionId(n % regions as u16), subscribes: Vec::new() });
    }
    topology.clock_bound_ns = clock_bound_ns;
    if let Some(records) = &mut options.records {
        records.ceiling_ns = *Rng::new(seed).fork("ceilings").pick(&[50 * unit, 300 * unit]);
    }
    let mut world = World::with_disks(seed, topology, options, disks.map(|disks| (disks.habits)(unit)));
    world.faults = Faults {
        loss: *knobs.pick(&[0.0, 0.02, 0.2]),
        duplication: *knobs.pick(&[0.0, 0.3]),
        jitter_ns: *knobs.pick(&[0, 10 * unit, 120 * unit]),
    };
    let keys = *knobs.pick(&[2, 6, 20]);
    let pause_ns = *knobs.pick(&[unit.div_ceil(5), 2 * unit, 20 * unit]);
    let multi = match *knobs.pick(&[0.1, 0.5]) {
        _ if is_entangled => 0.8,
        multi => multi,
    };
    let mut draw = Rng::new(seed).fork("transactions");
    let mut seen = Rank::ZERO;
    let mut wishes: Vec<(TxnId, Submission)> = Vec::new();
    for n in 0..transactions {
        world.run_until(world.now + u64::from(!tiny) + draw.below(2 * pause_ns));
        let mut node = draw.below(regions as u64 + u64::from(others)) as u16;
        if world.disks.is_some() {
            repeat_unanswered(&mut world, &mut draw, &wishes, 0.02);
        }
        if world.dead.contains(&NodeId(node)) {
            if world.disks.is_some() {
                continue;
            }
            node = 0;
        }
        if gateways != Gateways::Steady {
            befall(&mut world, &mut draw, regions as u16, gateways, &mut wishes, 200 * unit);
        }
        let text = transaction(&mut draw, node % regions as u16, regions as u16, partitions, keys, multi);
        let name = if draw.chance(0.2) { "maybe" } else { "update" };
        if draw.chance(0.1)
            && let Some((_, answer)) = world.answers.values().next_back()
        {
            seen = seen.max(answer.rank);
        }
        let token = if draw.chance(0.3) { Token::at(seen) } else { Token::default() };
        if gateways == Gateways::Mortal || world.disks.is_some() && draw.chance(0.5) {
            let wish = Submission { token, ..world.wish(access(&text)) };
            let txn = world.hand_in(node, wish.clone());
            wishes.push((txn, wish));
        } else {
            world.submit_as(node, name, access(&text), token);
        }
        if draw.chance(0.1) {
            let partition = draw.below(u64::from(regions as u16 * partitions)) as u16;
            let reader = base::NodeId(draw.below(regions as u64) as u16);
            if world.dead.contains(&world.topology.node_of(PartitionId(partition))) {
                continue;
            }
            let rank = (world.clock(reader) + clock_bound_ns).rank();
            seen = seen.max(rank);
            let granules = match draw.below(3) {
                0 => vec![Granule::Partition],
                _ => access(&format!("r0.{}", draw.below(keys))).by_partition[&PartitionId(0)]
                    .iter()
                    .map(|a| a.granule.clone())
                    .collect(),
            };
            world.close(n as u64, partition, rank, granules);
        }
        if n % 50 == 0 {
            world.check_invariants();
        }
    }
    world.faults.loss = 0.0;
    world.cut_off.clear();
    world.passes = Box::new(|_, _, _| true);
    if world.disks.is_some() {
        world.no_more_crashes();
        while !world.dead.is_empty() {
            world.run_until(world.now + 100 * unit);
        }
        repeat_unanswered(&mut world, &mut draw, &wishes, 1.0);
    }
    let lost: Vec<_> = wishes.iter().filter(|(txn, _)| world.dead.contains(&txn.coordinator)).collect();
    for (_, wish) in lost {
        world.repeat(0, wish);
    }
    world.run_until(world.now + 30_000 * unit);
    world
}

/// Clients repeat what they have got no answer to because a gateway crashed, some of them, at any gateway.
fn repeat_unanswered(world: &mut World, draw: &mut Rng, wishes: &[(TxnId, Submission)], share: f64) {
    for (txn, wish) in wishes {
        let is_lost = is_of_former_life(world, *txn) && !world.answers.contains_key(txn);
        if is_lost && draw.chance(share) {
            let gateway = draw.below(world.nodes.len() as u64) as u16;
            if !world.dead.contains(&NodeId(gateway)) {
                world.repeat(gateway, wish);
            }
        }
    }
}

/// Something happens to a gateway, now and then.
fn befall(
    world: &mut World,
    draw: &mut Rng,
    regions: u16,
    gateways: Gateways,
    wishes: &mut [(TxnId, Submission)],
    silence_ns: u64,
) {
    let victim = NodeId(regions + draw.below(4) as u16);
    if draw.chance(0.05) {
        world.cut_off.clear();
    }
    if !draw.chance(0.05) {
        return;
    }
    if gateways == Gateways::Interrupted {
        world.cut_off.insert(victim);
        return;
    }
    if world.dead.len() < 3 && !world.dead.contains(&victim) {
        world.dead.insert(victim);
        // What it sent last may be lost.
        let keep = *draw.pick(&[0.0, 0.5, 1.0]);
        let from_victim = |event: &Event| matches!(event, Event::Message { from, .. } if *from == victim);
        let flying = world.events.iter().filter(|(_, event)| from_victim(event)).map(|(at, _)| *at);
        for at in flying.collect::<Vec<_>>() {
            if !draw.chance(keep) {
                world.events.remove(&at);
            }
        }
        if draw.chance(0.5) {
            world.run_until(world.now + draw.below(silence_ns));
        }
    }
    // Its clients, and some others, lose patience.
    for (txn, wish) in wishes.iter() {
        let lost = world.dead.contains(&txn.coordinator) && draw.chance(0.5);
        if (lost || draw.chance(0.02)) && !world.answers.contains_key(txn) {
            let gateway = draw.below(u64::from(regions)) as u16;
            world.repeat(gateway, wish);
        }
    }
}

#[test]
fn random_worlds_are_serializable_in_rank_order() {
    for seed in 0..60 {
        let mut world = run(seed, 120, None);
        judge(&world);
        world.check_empty();
    }
}

#[test]
fn random_worlds_whose_gateways_come_and_go_are_serializable_in_rank_order() {
    for seed in 0..60 {
        let mut world = run_with(seed, 120, None, Gateways::Interrupted);
        judge(&world);
        world.check_empty();
    }
}

#[test]
fn random_worlds_whose_gateways_die_do_what_clients_want_once() {
    for seed in 0..60 {
        judge(&run_with(seed, 100, None, Gateways::Mortal));
    }
}

#[test]
fn a_reader_that_went_away_is_not_answered() {
    let mut world = World::new(1, 2, 1, 0, Options::default());
    world.submit(0, access("w0.1 w1.1"));
    world.run_for_ms(60);
    let rank = Rank(world.now.0 + 190 * MS);
    world.close(7, 1, rank, vec![Granule::Partition]);
    world.nodes[1].closes.cancel(CloseTicket(7));
    world.run_for_ms(1000);
    assert!(world.closed.is_empty());
}

#[test]
fn a_hot_key_across_regions_drains() {
    // Far more arrive per round trip than one component can take: chains and cycles grow long.
    let mut world = World::new(5, 3, 1, 0, Options::default());
    world.faults = Faults { loss: 0.01, duplication: 0.05, jitter_ns: 20 * MS };
    for n in 0..400u64 {
        world.run_until(world.now + MS);
        world.submit((n % 3) as u16, access(["w0.1 w1.1", "w1.1 w2.1", "w0.1 w2.1"][(n / 3 % 3) as usize]));
    }
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
            world.submit(node, access(&text));
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
    assert!(vertices_max[2] < 3000, "{vertices_max:?} at 2000 transactions per second");
    let node = &world.nodes[0];
    assert!(node.reminders.deadline_count() < 300, "{} deadlines", node.reminders.deadline_count());
    assert!(node.collection.seen_words() < 200, "{} words", node.collection.seen_words());
    let left = (
        node.schedule.turns.group_count(),
        node.closes.len(),
        node.inquiries.len(),
        node.collection.learned().count(),
    );
    assert!(left.0 < 50 && left.1 == 0 && left.2 < 200 && left.3 < 500, "{left:?}");
}
