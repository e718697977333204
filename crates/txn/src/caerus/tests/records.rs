//! Nodes that crash between any two effects and come back with what their disks have.

use super::World;
use super::judge::judge;
use super::random::run_on;
use crate::baseline::slog;
use crate::caerus::options::Heartbeats;
use crate::caerus::{Options, Records};
use crate::engine::Engine;
use crate::trial::disk::{Flaw, Habits};
use crate::trial::panics;
use base::NodeId;
use base::rng::Rng;
use base::time::MS;
use base::topology::Topology;
use base::wan::Wan;

fn run(seed: u64, transactions: usize, mut options: Options, flaw: Option<Flaw>) -> World {
    options.records = Some(Records::default());
    let habits = move |unit: u64| {
        let mut rng = Rng::new(seed).fork("habits");
        Habits {
            sync_ns_max: *rng.pick(&[0, unit, 20 * unit]),
            crash: *rng.pick(&[0.0005, 0.002]),
            down_ns_max: *rng.pick(&[unit, 400 * unit, 3000 * unit]),
            checkpoint: *rng.pick(&[0.0, 0.01, 0.05]),
            flaw,
        }
    };
    let unbounded_clocks = seed % 4 == 3 && options.mutant.is_none() && flaw.is_none();
    run_on(seed, transactions, Some(options), unbounded_clocks, Some(&habits))
}

#[test]
fn nodes_that_crash_at_any_effect_come_back_with_all_that_was_told() {
    let (mut crashes, mut checkpoints, mut replayed) = (0, 0, 0);
    let seeds = std::env::var("MERIDIAN_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(30);
    for seed in 0..seeds {
        let world = run(seed, 100, Options::default(), None);
        judge(&world);
        let disks = world.disks.as_ref().unwrap();
        crashes += disks.crashes;
        checkpoints += disks.checkpoints;
        replayed += disks.replayed;
    }
    println!("{crashes} crashes, {checkpoints} checkpoints, {replayed} records repeated");
    assert!(crashes > seeds && checkpoints > seeds && replayed > 10 * seeds);
}

/// n2 had merged two entries of n1's log, had eleven more, and had told its readers how far that was closed. Both sequencers
/// crashed; n0 came back first and led with the three entries that it had. Then n1 led again, with all of its own: what
/// n2 had told to be closed was still closed there, above the stamps of entries that came back, and n2 refused them.
#[test]
fn a_closed_timestamp_does_not_outlive_the_entries_it_was_told_of() {
    judge(&run(172, 100, Options::default(), None));
}

#[test]
fn slog_does_too() {
    for seed in 0..8 {
        let options = Options { routing: slog::ROUTING, ..Options::default() };
        judge(&run(seed, 80, options, None));
    }
}

/// What disks may do wrong. What a log may forget to record is planted in the log alone (`log::tests::disk`), where
/// thousands of schedules take seconds.
#[test]
fn what_is_planted_is_noticed() {
    let notices =
        |flaw: Flaw| (0..120).any(|seed| panics(|| judge(&run(seed, 60, Options::default(), Some(flaw)))));
    for flaw in [Flaw::ReleasedBeforeRecord, Flaw::StableBeforeSync, Flaw::PositionTooNew, Flaw::CutTooEarly]
    {
        assert!(notices(flaw), "{flaw:?} goes unnoticed");
    }
}

/// A node's disk is lost while others go on; it takes a copy, and what it comes back with later is its own disk's.
#[test]
fn a_node_that_lost_its_disk_takes_a_copy_and_keeps_it_from_then_on() {
    let mut copied = 0;
    for seed in 0..6 {
        let wan = Wan::uniform("test", &["a", "b", "c"], MS, 20 * MS);
        let topology = Topology::one_node_per_region(wan, 1).replicated();
        let heartbeats = Heartbeats { every_ns: 10 * MS, ..Heartbeats::default() };
        let records = Some(Records { ceiling_ns: 100 * MS });
        let options = Options { copies_elsewhere: 1, records, heartbeats, ..Options::default() };
        let habits =
            Habits { sync_ns_max: 2 * MS, crash: 0.0, down_ns_max: 300 * MS, checkpoint: 0.02, flaw: None };
        let mut world = World::with_disks(seed, topology, options, Some(habits));
        let mut rng = Rng::new(seed).fork("clients");
        let mut go_on = |world: &mut World, ms: u64| {
            for _ in 0..ms / 10 {
                let node = rng.below(3) as u16;
                if !world.dead.contains(&NodeId(node)) {
                    world.submit(node, &format!("w{}.{}", rng.below(3), rng.below(4)));
                }
                world.run_for_ms(10);
            }
        };
        go_on(&mut world, 600);
        world.lose_disk(NodeId(0));
        // Now and then it also crashes while its copy comes, and begins again.
        let crash = if seed % 3 == 0 { 0.002 } else { 0.0 };
        world.disks.as_mut().unwrap().habits.crash = crash;
        go_on(&mut world, 1500);
        world.no_more_crashes();
        go_on(&mut world, 3000);
        assert!(world.nodes[0].absent().is_none(), "seed {seed}: it is not whole");
        copied += u32::from(world.nodes[0].came_back().is_some_and(|(_, bytes)| bytes > 0));
        world.crash(NodeId(0));
        go_on(&mut world, 1500);
        assert!(world.nodes[0].absent().is_none(), "seed {seed}: its own disk is enough now");
        world.run_for_ms(5_000);
        judge(&world);
        let last = world.submit(0, "w0.1 w1.1");
        world.run_for_ms(2000);
        assert!(world.answer(last).outcome.is_committed(), "seed {seed}");
    }
    assert!(copied > 3, "most came back with a copy: {copied}");
}
