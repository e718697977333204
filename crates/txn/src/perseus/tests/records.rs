//! Nodes that crash between any two effects and come back with what their disks have.

use super::World;
use super::judge::judge;
use super::random::{Gateways, OnDisks, run_on};
use crate::perseus::{Mutant, Options, Records};
use crate::trial::disk::{Flaw, Habits};
use crate::trial::panics;
use base::NodeId;
use base::order::CloseTicket;
use base::rng::Rng;
use base::time::MS;
use base::topology::Topology;
use base::txn::Granule;
use base::wan::Wan;

fn run(seed: u64, transactions: usize, mutant: Option<Mutant>, flaw: Option<Flaw>) -> World {
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
    let options = Options { records: Some(Records::default()), mutant, ..Options::default() };
    let disks = OnDisks { habits: &habits, is_entangled: false };
    run_on(seed, transactions, Some(options), Gateways::Steady, Some(disks))
}

#[test]
fn nodes_that_crash_at_any_effect_come_back_with_all_that_was_told() {
    let (mut crashes, mut checkpoints, mut replayed) = (0, 0, 0);
    // MERIDIAN_SEEDS=5000 for a night.
    let seeds = std::env::var("MERIDIAN_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(40);
    for seed in 0..seeds {
        println!("seed {seed}");
        let mut world = run(seed, 100, None, None);
        judge(&world);
        world.check_empty();
        let disks = world.disks.as_ref().unwrap();
        crashes += disks.crashes;
        checkpoints += disks.checkpoints;
        replayed += disks.replayed;
    }
    println!("{crashes} crashes, {checkpoints} checkpoints, {replayed} records repeated");
    assert!(crashes > seeds / 3 && checkpoints > seeds && replayed > 5 * seeds);
}

/// Two or three nodes of one partition each, where most transactions take part at several, and some node is down most of the
/// time: what one has executed, the other one and the coordinator have lost.
fn run_stormy(seed: u64, transactions: usize, mutant: Option<Mutant>) -> World {
    let habits = move |unit: u64| {
        let mut rng = Rng::new(seed).fork("habits");
        Habits {
            sync_ns_max: *rng.pick(&[0, unit, 20 * unit]),
            crash: *rng.pick(&[0.02, 0.06]),
            down_ns_max: *rng.pick(&[unit, 20 * unit, 200 * unit]),
            checkpoint: *rng.pick(&[0.0, 0.0, 0.01]),
            flaw: None,
        }
    };
    let options = Options { records: Some(Records::default()), mutant, ..Options::default() };
    let disks = OnDisks { habits: &habits, is_entangled: true };
    run_on(seed, transactions, Some(options), Gateways::Steady, Some(disks))
}

#[test]
fn nodes_that_crash_most_of_the_time_come_back_with_all_that_was_told() {
    let seeds = std::env::var("MERIDIAN_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    let mut crashes = 0;
    for seed in 0..seeds {
        println!("seed {seed}");
        let mut world = run_stormy(seed, 100, None);
        judge(&world);
        world.check_empty();
        crashes += world.disks.as_ref().unwrap().crashes;
    }
    println!("{crashes} crashes");
    assert!(crashes > 8 * seeds, "{crashes}");
}

/// Three nodes that nobody asks for anything, and then readers.
#[test]
fn an_idle_node_records_little_and_readers_nothing() {
    let habits = Habits { sync_ns_max: MS, crash: 0.0, down_ns_max: 0, checkpoint: 0.0, flaw: None };
    let topology = Topology::one_node_per_region(Wan::preset("perseus3").unwrap(), 2);
    let options = Options { records: Some(Records::default()), ..Options::default() };
    let mut world = World::with_disks(1, topology, options, Some(habits));
    world.run_for_ms(1_000);
    let of = |world: &World| world.disks.as_ref().unwrap().recorded(NodeId(0));
    let (count, bytes) = of(&world);
    world.run_for_ms(10_000);
    let (idle_count, idle_bytes) = of(&world);
    // With the header of each.
    let written = (idle_bytes - bytes) + 24 * (idle_count - count);
    println!("{} records, {written} bytes in 10 s", idle_count - count);
    assert!(written < 10 * 150, "{written} bytes in 10 s");
    for n in 0..1_000 {
        world.close(n, 0, world.clock(NodeId(0)).rank(), vec![Granule::Partition]);
        assert!(world.closed.contains_key(&CloseTicket(n)), "it waits for no sync");
        world.run_for_ms(10);
    }
    let (read_count, _) = of(&world);
    assert!(read_count - idle_count <= idle_count - count + 1, "{read_count}");
}

#[test]
fn what_disks_may_do_wrong_is_noticed() {
    let notices = |flaw: Flaw| (0..150).any(|seed| panics(|| judge(&run(seed, 60, None, Some(flaw)))));
    for flaw in [Flaw::ReleasedBeforeRecord, Flaw::StableBeforeSync, Flaw::PositionTooNew, Flaw::CutTooEarly]
    {
        assert!(notices(flaw), "{flaw:?} goes unnoticed");
    }
}

#[test]
fn what_is_not_recorded_is_noticed() {
    let notices = |mutant: Mutant| {
        let is_noticed = |seed| panics(|| judge(&run_stormy(seed, 60, Some(mutant))));
        (0..200).any(is_noticed) || (0..400).any(|seed| panics(|| judge(&run(seed, 60, Some(mutant), None))))
    };
    for mutant in
        [Mutant::NoCeiling, Mutant::ExecuteBeforeSync, Mutant::UnrecordedPromises, Mutant::UnrecordedEnds]
    {
        assert!(notices(mutant), "{mutant:?} goes unnoticed");
    }
}
