//! Members that crash between any two effects and come back with what their disks have.

use super::judge::judge;
use super::random::{self, Loss};
use super::{World, panics};
use crate::geogauss::{Mutant, Options};
use crate::trial::disk::{Flaw, Habits};
use base::NodeId;
use base::rng::Rng;
use base::time::MS;
use base::topology::Topology;
use base::wan::Wan;

fn recorded(removes_lost: bool, mutant: Option<Mutant>) -> Options {
    Options { records: true, removes_lost, mutant, ..Options::default() }
}

fn run(seed: u64, transactions: usize, options: Options, flaw: Option<Flaw>) -> World {
    let mut rng = Rng::new(seed).fork("habits");
    let habits = Habits {
        sync_ns_max: *rng.pick(&[0, MS, 20 * MS]),
        crash: *rng.pick(&[0.0005, 0.002]),
        down_ns_max: *rng.pick(&[MS, 400 * MS, 3000 * MS]),
        checkpoint: *rng.pick(&[0.0, 0.01, 0.05]),
        flaw,
    };
    let loss = if options.removes_lost { Loss::Any } else { Loss::None };
    random::run_on(seed, transactions, options, loss, Some(habits))
}

/// Worlds of this many seeds; `MERIDIAN_SEEDS=5000` for a night.
fn seeds() -> u64 {
    std::env::var("MERIDIAN_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(20)
}

#[test]
fn members_that_crash_at_any_effect_come_back_with_all_that_was_told() {
    for removes_lost in [false, true] {
        let (mut crashes, mut checkpoints, mut replayed) = (0, 0, 0);
        for seed in 0..seeds() {
            let world = run(seed, 80, recorded(removes_lost, None), None);
            judge(&world);
            let disks = world.disks.as_ref().unwrap();
            crashes += disks.crashes;
            checkpoints += disks.checkpoints;
            replayed += disks.replayed;
        }
        println!("{crashes} crashes, {checkpoints} checkpoints, {replayed} records repeated");
        assert!(crashes > seeds() && checkpoints > seeds() && replayed > 10 * seeds());
    }
}

#[test]
fn what_is_planted_in_records_and_disks_is_noticed() {
    let notices = |mutant: Option<Mutant>, flaw: Option<Flaw>| {
        (0..150).any(|seed| {
            [false, true]
                .into_iter()
                .any(|removes_lost| panics(|| judge(&run(seed, 60, recorded(removes_lost, mutant), flaw))))
        })
    };
    for &mutant in Mutant::OF_RECORDS {
        assert!(notices(Some(mutant), None), "{mutant:?} goes unnoticed");
    }
    for flaw in [Flaw::ReleasedBeforeRecord, Flaw::StableBeforeSync, Flaw::PositionTooNew, Flaw::CutTooEarly]
    {
        assert!(notices(None, Some(flaw)), "{flaw:?} goes unnoticed");
    }
}

fn three(seed: u64, removes_lost: bool) -> World {
    let wan = Wan::uniform("test", &["a", "b", "c"], MS, 20 * MS);
    let topology = Topology::one_node_per_region(wan, 1).replicated();
    let habits =
        Habits { sync_ns_max: 2 * MS, crash: 0.0, down_ns_max: 300 * MS, checkpoint: 0.02, flaw: None };
    World::with_disks(seed, topology, recorded(removes_lost, None), Some(habits))
}

/// All of them lose their processes at once, in the middle of it, several times.
#[test]
fn scenario_19_a_cluster_that_loses_power_goes_on_behind_all_epochs_that_it_has_closed() {
    for (seed, removes_lost) in [(1, false), (2, true), (3, false), (4, true)] {
        let mut world = three(seed, removes_lost);
        let mut answered = 0;
        for _ in 0..4 {
            let txns: Vec<_> = (0..60u16)
                .filter_map(|n| {
                    world.run_for_ms(5);
                    let node = n % 3;
                    (!world.dead.contains(&NodeId(node)))
                        .then(|| world.submit(node, &format!("w0.{} r1.3", n % 7)))
                })
                .collect();
            answered += txns.iter().filter(|txn| world.answers.contains_key(txn)).count();
            let closed: Vec<_> =
                world.nodes.iter().map(|node| node.membership.seat().map(|_| node.clock.open())).collect();
            (0..3).for_each(|node| world.crash(NodeId(node)));
            world.run_for_ms(2000);
            for (node, before) in world.nodes.iter().zip(closed) {
                assert!(Some(node.clock.open()) > before, "an epoch is closed once");
            }
        }
        assert!(answered > 60, "{answered}");
        world.run_for_ms(10_000);
        judge(&world);
    }
}

/// A member's disk is lost while others go on; it takes a copy, and what it comes back with later is its own disk's.
#[test]
fn a_member_that_lost_its_disk_takes_a_copy_and_keeps_it_from_then_on() {
    for seed in 0..8 {
        let mut world = three(seed, true);
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
        world.disks.as_mut().unwrap().habits.crash = if seed % 3 == 0 { 0.001 } else { 0.0 };
        go_on(&mut world, 1500);
        world.no_more_crashes();
        go_on(&mut world, 3000);
        world.run_for_ms(3000);
        assert!(world.nodes[0].absent().is_none(), "seed {seed}: {:?}", world.nodes[0].absent());
        // One that has crashed since has come back once more, with what its disk has.
        let took_copy = world.nodes[0].came_back().is_some_and(|(_, bytes)| bytes > 0);
        assert!(took_copy || seed % 3 == 0, "seed {seed}");
        let known = world.nodes[1].membership.known();
        world.crash(NodeId(0));
        go_on(&mut world, 1500);
        assert!(world.nodes[0].absent().is_none(), "seed {seed}: its own disk is enough now");
        assert_eq!(world.nodes[1].membership.known(), known, "seed {seed}: nobody was removed for it");
        world.run_for_ms(5_000);
        judge(&world);
        let last = world.submit(0, "w0.1 w1.1");
        world.run_for_ms(2000);
        assert!(world.is_committed(last), "seed {seed}");
    }
}
