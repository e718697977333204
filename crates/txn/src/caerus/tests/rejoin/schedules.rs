//! Regions that are lost with their memory at any time: after each event of a small run, and in random worlds.

use super::super::judge::judge;
use super::super::{Faults, World, access, recovery};
use super::{TAKE_OVER_MS, is_whole, world};
use crate::caerus::options::{Batching, Collection, Heartbeats, Replication};
use crate::caerus::{Mutant, Options};
use crate::trial::panics;
use base::rng::Rng;
use base::time::MS;
use base::topology::Topology;
use base::txn::Granule;
use base::wan::Wan;
use base::{NodeId, Token};

/// The same few transactions, and a region that is lost with its memory after so many events and comes back when
/// others have taken over, or at once; whether there were as many events.
fn lose_after(copies_elsewhere: usize, events: usize, region: u16, at_once: bool) -> bool {
    let regions = 2 * copies_elsewhere + 1;
    let mut world = world(regions, copies_elsewhere, None);
    world.submit(0, "w0.1 w1.1 w2.1");
    world.submit(1, "r0.1 w1.1");
    world.submit(2, "w2.1");
    let mut n = 0;
    let end = world.now + 400 * MS;
    while n < events {
        let next = world.events.first_key_value();
        let Some((at, counted)) = next.map(|((at, _), event)| (*at, recovery::counts(event))) else {
            break;
        };
        if at > end {
            return false;
        }
        n += usize::from(counted);
        world.step(end);
    }
    world.lose(region);
    if !at_once {
        world.run_for_ms(TAKE_OVER_MS);
    }
    world.heal();
    world.run_for_ms(4000);
    assert!(is_whole(&world, region), "region {region} after {events} events");
    let last = world.submit(region, "w0.1 w1.1 w2.1");
    world.run_for_ms(1500);
    assert!(world.has_ended(&last), "region {region} after {events} events");
    // Another one is lost for good: what came back counts as a copy.
    world.kill((region + 1) % regions as u16);
    world.run_for_ms(2 * TAKE_OVER_MS);
    let next = world.submit(region, "w0.1 w1.1 w2.1");
    world.run_for_ms(3000);
    assert!(world.has_ended(&next), "region {region} after {events} events");
    judge(&world);
    true
}

#[test]
fn a_region_may_lose_its_memory_at_every_message() {
    for region in 0..3 {
        let mut events = 0;
        while lose_after(1, events, region, events % 2 == 0) {
            events += 1;
        }
        assert!(events > 20, "{events}");
    }
}

#[test]
fn one_of_five_may_lose_its_memory_at_every_message() {
    for region in [0, 1, 4] {
        let mut events = usize::from(region);
        while lose_after(2, events, region, events % 2 == 0) {
            events += 7;
        }
        assert!(events > 30, "{events}");
    }
}

/// Regions lose their memory, or their power only, or are cut off, at any time, never more than K at once.
pub fn turmoil(seed: u64, mutant: Option<Mutant>) -> World {
    let mut draw = Rng::new(seed).fork("forgetting");
    let (regions, copies_elsewhere) = *draw.pick(&[(3, 1), (3, 1), (4, 1), (5, 2), (5, 2)]);
    let wan = Wan::uniform("test", &["a", "b", "c", "d", "e"][..regions], MS, 20 * MS);
    let mut topology = Topology::one_node_per_region(wan, 1 + draw.below(2) as u16);
    topology.clock_bound_ns = *draw.pick(&[0, MS, 5 * MS]);
    let partitions = topology.partitions.len() as u64;
    let options = Options {
        copies_elsewhere,
        batching: Batching { interval_ns: *draw.pick(&[0, 2 * MS]), ..Batching::default() },
        heartbeats: Heartbeats { every_ns: 5 * MS, ..Heartbeats::default() },
        replication: Replication {
            suspect_after_ns: Some(*draw.pick(&[100 * MS, 200 * MS])),
            lease_ns: draw.pick(&[None, Some(50 * MS), Some(400 * MS)]).to_owned(),
            ..Replication::default()
        },
        collection: Collection { silence_ns: *draw.pick(&[300 * MS, 2000 * MS]), ..Collection::default() },
        mutant,
        ..Options::default()
    };
    let mut world = World::with(seed, topology.replicated(), options);
    world.faults = Faults {
        loss: *draw.pick(&[0.0, 0.02]),
        duplication: *draw.pick(&[0.0, 0.1]),
        jitter_ns: *draw.pick(&[0, 5 * MS, 30 * MS]),
    };
    let mut ticket = 0;
    // Lost with their memory, and not whole again.
    let away = |world: &World| -> usize {
        let is_away = |n: &u16| {
            world.dead.contains(&NodeId(*n)) || world.cut_off.contains(&NodeId(*n)) || !is_whole(world, *n)
        };
        (0..regions as u16).filter(is_away).count()
    };
    for _ in 0..8u64 {
        for _ in 0..12 {
            world.run_until(world.now + draw.below(20 * MS));
            let node = draw.below(regions as u64) as u16;
            if world.dead.contains(&NodeId(node)) {
                continue;
            }
            let words: Vec<String> = (0..1 + draw.below(2))
                .map(|_| {
                    let mode = if draw.chance(0.7) { "w" } else { "r" };
                    format!("{mode}{}.{}", draw.below(partitions), draw.below(3))
                })
                .collect();
            if draw.chance(0.2) && world.request.is_none() {
                world.request = Some(world.named());
            }
            if is_whole(&world, node) {
                world.submit_as(node, "update", access(&words.join(" ")), Token::default());
                if draw.chance(0.1) {
                    let to = draw.below(regions as u64) as u16;
                    _ = world.move_home(node, draw.below(partitions) as u16, to);
                }
            }
            if draw.chance(0.4) {
                let rank = (world.clock(NodeId(node)) + world.topology.clock_bound_ns).rank();
                ticket += 1;
                world.close(ticket, node, draw.below(partitions) as u16, rank, vec![Granule::Partition]);
            }
        }
        if draw.chance(0.4) {
            world.heal();
        }
        while away(&world) < copies_elsewhere && draw.chance(0.7) {
            let region = draw.below(regions as u64) as u16;
            match draw.below(4) {
                0 => world.kill(region),
                1 => world.cut_off(region),
                _ => world.lose(region),
            }
        }
        world.run_for_ms(draw.below(500));
    }
    world.faults.loss = 0.0;
    world.heal();
    world.run_for_ms(15_000);
    world
}

#[test]
fn random_worlds_forget_regions_and_nothing_that_was_answered() {
    let mut back = 0;
    for seed in 0..60 {
        let world = turmoil(seed, None);
        for node in &world.nodes {
            assert!(node.life.is_running(), "seed {seed}: {} is not whole", node.cluster.me);
        }
        judge(&world);
        back += world.nodes.iter().filter(|node| node.came_back().is_some()).count();
    }
    assert!(back > 40, "{back}");
}

#[test]
fn random_worlds_catch_what_is_planted_in_rejoining() {
    let caught = |mutant| (0..150).find(|seed| panics(|| judge(&turmoil(*seed, Some(mutant)))));
    let all = [Mutant::AckBeforeWhole];
    let unnoticed: Vec<Mutant> = all.into_iter().filter(|mutant| caught(*mutant).is_none()).collect();
    assert!(unnoticed.is_empty(), "{unnoticed:?} go unnoticed");
}
