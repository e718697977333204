//! Random worlds: transactions at all members over lossy links, clocks off by their bound or by anything, members that
//! pause; judged at the end.

use super::judge::judge;
use super::{World, access, panics};
use crate::geogauss::{EpochPace, Geogauss, Isolation, Mutant, Options, Rule};
use crate::trial::disk::Habits;
use crate::trial::load::word;
use crate::trial::world::Faults;
use base::rng::Rng;
use base::time::MS;
use base::topology::Topology;
use base::txn::{Granule, Submission};
use base::wan::Wan;
use base::{NodeId, Rank, Token};

/// Whether members are lost.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    None,
    /// One after the other, with or without their memory.
    Any,
}

/// One run with knobs drawn from the seed.
pub fn run(seed: u64, transactions: usize, options: Options) -> World {
    run_with_loss(seed, transactions, options, Loss::None)
}

pub fn run_with_loss(seed: u64, transactions: usize, options: Options, loss: Loss) -> World {
    run_on(seed, transactions, options, loss, None)
}

/// With `habits` nodes have disks, and crash.
pub fn run_on(seed: u64, transactions: usize, options: Options, loss: Loss, habits: Option<Habits>) -> World {
    let mut knobs = Rng::new(seed).fork("knobs");
    let regions = match loss {
        Loss::None => *knobs.pick(&[1, 2, 3, 3, 5]),
        Loss::Any => *knobs.pick(&[3, 3, 4, 5]),
    };
    let partitions = 1 + knobs.below(2) as u16;
    let mut fates = Rng::new(seed).fork("fates");
    let names = ["a", "b", "c", "d", "e"];
    let wan = Wan::uniform("test", &names[..regions], 2 * MS, *knobs.pick(&[4, 40, 200]) * MS);
    let mut topology = Topology::one_node_per_region(wan, partitions).replicated();
    topology.clock_bound_ns = *knobs.pick(&[0, 0, MS, 30 * MS]);
    topology.unbounded_clocks = knobs.chance(0.2);
    if topology.unbounded_clocks {
        topology.clock_bound_ns = 0;
    }
    let options = Options {
        epoch_ns: *knobs.pick(&[MS, 10 * MS, 50 * MS]),
        rule: *knobs.pick(&[Rule::Greedy, Rule::Greedy, Rule::Reserved]),
        pace: EpochPace {
            ahead_max: *knobs.pick(&[20, 1000]),
            behind_max: *knobs.pick(&[0, 2, 10]),
            busy_ns: *knobs.pick(&[5 * MS, 1000 * MS]),
            idle_every_ns: *knobs.pick(&[20 * MS, 250 * MS]),
        },
        ..options
    };
    // What falls behind while a member is lost catches up only if more epochs may be closed than time brings.
    let catches_up_ns = if loss == Loss::Any { 4 * topology.wan.widest_ns() + 500 * MS } else { 0 };
    let ahead_max = options.pace.ahead_max.max(catches_up_ns.div_ceil(options.epoch_ns));
    let options = Options { pace: EpochPace { ahead_max, ..options.pace }, ..options };
    let crashes = habits.is_some();
    let mut world = World::with_disks(seed, topology, options, habits);
    world.faults = Faults {
        loss: *knobs.pick(&[0.0, 0.02, 0.2]),
        duplication: *knobs.pick(&[0.0, 0.3]),
        jitter_ns: *knobs.pick(&[0, 10 * MS, 120 * MS]),
    };
    let keys = *knobs.pick(&[2, 6, 20]);
    let pause_ns = *knobs.pick(&[MS / 5, 2 * MS, 20 * MS]);
    let mut draw = Rng::new(seed).fork("transactions");
    let mut seen = Rank::ZERO;
    let mut wishes: Vec<Submission> = Vec::new();
    for n in 0..transactions {
        world.run_until(world.now + 1 + draw.below(2 * pause_ns));
        let node = draw.below(regions as u64) as u16;
        befall(&mut world, &mut draw, regions as u64);
        if loss == Loss::Any && !crashes {
            strike(&mut world, &mut fates, regions as u64);
        }
        if world.dead.contains(&NodeId(node)) {
            continue;
        }
        let text = transaction(&mut draw, regions as u16 * partitions, keys);
        let name = if draw.chance(0.2) { "maybe" } else { "update" };
        if draw.chance(0.2)
            && let Some((_, answer)) = world.answers.values().next_back()
        {
            seen = seen.max(answer.rank);
        }
        let token = if draw.chance(0.3) { Token::at(seen) } else { Token::default() };
        let wish = Submission { token, ..world.wish(access(&text), name, draw.chance(0.3)) };
        if wish.request.is_some() {
            wishes.push(wish.clone());
        }
        world.hand_in(node, wish);
        if draw.chance(0.1)
            && let Some(wish) = wishes.last().cloned()
        {
            let node = draw.below(regions as u64) as u16;
            if !world.dead.contains(&NodeId(node)) {
                world.repeat(node, &wish);
            }
        }
        if draw.chance(0.15) {
            let partition = draw.below(u64::from(regions as u16 * partitions)) as u16;
            let reader = draw.below(regions as u64) as u16;
            let rank = (world.clock(NodeId(reader)) + world.topology.clock_bound_ns).rank();
            if world.dead.contains(&NodeId(reader)) {
                continue;
            }
            let granules = match draw.below(3) {
                0 => vec![Granule::Partition],
                _ => access("r0.1").by_partition.values().flatten().map(|a| a.granule.clone()).collect(),
            };
            world.close(n as u64, reader, partition, rank, granules);
        }
    }
    world.faults = Faults::default();
    world.cut_off.clear();
    match crashes {
        true => world.no_more_crashes(),
        false => world.dead.clone().into_iter().for_each(|node| world.revive(node.0)),
    }
    world.run_for_ms(if loss == Loss::Any { 40_000 } else { 20_000 });
    world
}

/// A member is lost for a while, if all others are whole.
fn strike(world: &mut World, fates: &mut Rng, regions: u64) {
    if let Some(node) = world.dead.first().copied() {
        if fates.chance(0.1) {
            world.revive(node.0);
        }
        return;
    }
    let node = fates.below(regions) as u16;
    // Of three members one may be lost, and while another one is being removed that would be the second.
    let known = world.nodes.iter().map(|node| node.membership.known()).max();
    let is_whole = |node: &Geogauss| {
        node.absent().is_none()
            && node.membership.seats().count() as u64 == regions
            && Some(node.membership.known()) == known
            && node.membership.stage() == node.membership.known()
            && !node.has_doubts()
    };
    let all_are_whole = world.cut_off.is_empty() && world.nodes.iter().all(is_whole);
    if !all_are_whole || !fates.chance(0.1) {
        return;
    }
    if fates.chance(0.5) {
        world.lose(node);
    } else {
        world.kill(node);
    }
    // Long enough to be removed, every other time.
    if fates.chance(0.5) {
        world.run_for_ms(2000 + fates.below(3000));
    }
}

/// Links of a member fail for a while.
fn befall(world: &mut World, draw: &mut Rng, regions: u64) {
    if draw.chance(0.1) {
        world.cut_off.clear();
    }
    if draw.chance(0.02) {
        world.cut_off.insert(NodeId(draw.below(regions) as u16));
    }
}

fn transaction(draw: &mut Rng, partitions: u16, keys: u64) -> String {
    let mut words = Vec::new();
    for _ in 0..1 + draw.below(3) {
        let partition = draw.below(u64::from(partitions));
        words.push(word(draw, partition, keys));
    }
    words.join(" ")
}

#[test]
fn random_worlds_are_serializable_and_members_agree() {
    for seed in 0..60 {
        judge(&run(seed, 80, Options::default()));
    }
}

#[test]
fn planted_faults_are_found() {
    for &mutant in Mutant::ALL {
        // As printed, levels below SERIALIZABLE differ in what they read, not in whether members agree.
        let finds = |seed| {
            let options = Options { mutant: Some(mutant), ..Options::default() };
            panics(|| judge(&run(seed, 60, options)))
        };
        assert!((0..60).any(finds), "{mutant:?} goes unnoticed");
    }
}

#[test]
fn members_agree_at_every_level() {
    for (nth, isolation) in Isolation::ALL.into_iter().enumerate() {
        for seed in 0..10 {
            let world = run(100 * nth as u64 + seed, 60, Options { isolation, ..Options::default() });
            for (node, rows) in world.nodes.iter().zip(&world.rows) {
                assert_eq!(node.decided(), world.nodes[0].decided(), "{}", isolation.name());
                assert_eq!(rows.installed, world.rows[0].installed, "{}", isolation.name());
            }
        }
    }
}

#[test]
fn memory_stays_flat() {
    let mut world = super::world(4, 3, Options::default());
    let mut draw = Rng::new(4);
    for n in 0..1500u64 {
        world.run_until(world.now + 3 * MS);
        let text = transaction(&mut draw, 3, 200);
        world.submit((n % 3) as u16, &text);
        world.rows.iter_mut().for_each(|rows| rows.installed.clear());
        world.streams.clear();
    }
    let held = |world: &World| crate::engine::Engine::report(&world.nodes[1]).held;
    let busy = held(&world);
    assert!(busy["epochs not acknowledged"] < 50 && busy["write sets not merged"] < 100, "{busy:?}");
    world.run_for_ms(2000);
    let idle = held(&world);
    let rest: u64 = idle.iter().filter(|(what, _)| **what != "epochs not acknowledged").map(|(_, n)| n).sum();
    assert!(rest == 0 && idle["epochs not acknowledged"] <= 15, "{idle:?}");
}
