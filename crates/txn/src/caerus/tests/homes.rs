//! Partitions that move while everything goes on.

use super::judge::judge;
use super::random::run;
use super::{World, planted};
use crate::baseline::{calvin, slog};
use crate::caerus::{Mutant, Options};
use crate::trial::{OTHER, TABLE, panics};
use base::order::CloseTicket;
use base::time::MS;
use base::topology::{NodeSpec, Topology};
use base::txn::{Granule, Outcome};
use base::wan::Wan;
use base::{NodeId, PartitionId, RegionId, TxnId};

#[test]
fn a_partition_that_has_moved_is_written_without_a_trip_where_it_is_and_with_one_where_it_was() {
    let mut world = World::new(1, 3, 1, 0, Options::default());
    world.run_for_ms(100);
    let before = world.submit(1, "w0.1");
    world.run_for_ms(500);
    let moved = world.move_home(2, 0, 1).unwrap();
    world.run_for_ms(500);
    assert!(world.answer(moved).outcome.is_committed());
    let (here, there) = (world.submit(1, "w0.1"), world.submit(0, "w0.2"));
    world.run_for_ms(1000);
    assert!(world.latency_ms(before) >= 100.0 && world.latency_ms(there) >= 100.0);
    assert!(world.latency_ms(here) < 1.0, "{}", world.latency_ms(here));
    judge(&world);
    world.check_empty();
}

/// A table of partition 0 that has moved to region 1, with the rest of it where it was.
fn with_a_table_moved(options: Options) -> World {
    let mut world = World::new(1, 3, 1, 0, options);
    world.run_for_ms(100);
    let moved = world.move_table(2, OTHER, &[0], 1);
    world.run_for_ms(500);
    assert!(world.answer(moved).outcome.is_committed());
    world
}

#[test]
fn a_table_that_has_moved_is_written_without_a_trip_where_it_is_and_the_rest_where_that_was() {
    for options in [Options::default(), slog::options()] {
        let mut world = with_a_table_moved(options);
        let near =
            [world.submit(1, "w0.101 r0.102"), world.submit(0, "w0.1"), world.submit(1, "w1.1 w0.103-105")];
        let far = [world.submit(0, "w0.101"), world.submit(1, "w0.1"), world.submit(1, "w0.1 w0.101")];
        world.run_for_ms(2000);
        let took = |txn: &TxnId| world.latency_ms(*txn);
        assert!(near.iter().all(|txn| took(txn) < 1.0), "{:?}", near.map(|txn| took(&txn)));
        assert!(far.iter().all(|txn| world.latency_ms(*txn) >= 100.0));
        judge(&world);
        world.check_empty();
    }
}

#[test]
fn a_table_stays_where_it_moved_when_its_partition_moves() {
    let mut world = with_a_table_moved(Options::default());
    world.move_home(0, 0, 2).unwrap();
    world.run_for_ms(500);
    let near = [world.submit(1, "w0.101"), world.submit(2, "w0.1")];
    world.run_for_ms(500);
    assert!(near.iter().all(|txn| world.latency_ms(*txn) < 1.0));
    // All of the partition is one thing to whoever changes all of it.
    let all = world.submit(0, "w0");
    world.run_for_ms(500);
    assert_eq!(world.answer(all).regions, [1, 2].map(RegionId).into());
    judge(&world);
    world.check_empty();
}

#[test]
fn of_two_wishes_for_one_table_the_later_one_stands_in_the_end() {
    let mut world = World::new(1, 3, 1, 0, Options::default());
    world.run_for_ms(100);
    let moves = [world.move_table(1, OTHER, &[0], 1), world.move_table(2, OTHER, &[0], 2)];
    // A partition leaves while its table does.
    let leaves = world.move_home(0, 0, 2).unwrap();
    let mut texts = ["w0.101 w1.1", "w0.101", "w0.1 r0.101"].into_iter().cycle();
    for n in 0..60 {
        world.submit(n % 3, texts.next().unwrap());
        world.run_for_ms(7);
    }
    world.run_for_ms(3000);
    assert!(moves.iter().all(|txn| world.answer(*txn).outcome.is_committed()));
    let last = moves.into_iter().max_by_key(|txn| world.answer(*txn).rank).unwrap();
    let home = |world: &World, n: usize| world.nodes[n].residences.home(PartitionId(0), Some(OTHER)).region;
    let expected = RegionId(last.coordinator.0);
    assert!((0..3).all(|n| home(&world, n) == expected), "{expected}");
    let moved = world.answer(leaves).outcome.is_committed();
    assert_eq!(
        world.nodes[0].residences.home(PartitionId(0), None).region,
        RegionId(if moved { 2 } else { 0 })
    );
    judge(&world);
    world.check_empty();
}

#[test]
fn a_wrong_count_of_moves_takes_no_effect_anywhere_and_is_tried_again() {
    let (mut again, mut premature) = (0, 0);
    for seed in 0..40 {
        let world = run(seed, 80, Some(planted(Mutant::WrongHomes)));
        judge(&world);
        again += world.answers.values().filter(|(_, answer)| answer.txn != answer.submitted_as).count();
        premature += world.nodes.iter().map(|node| node.residences.premature()).sum::<u64>();
    }
    assert!(again > 100 && premature > 100, "{again} {premature}");
}

#[test]
fn a_hot_table_that_moves_makes_nobody_wait_longer_than_two_trips() {
    let mut world = World::new(1, 3, 1, 0, Options::default());
    world.run_for_ms(100);
    // Every ms one transaction of each region, by the ms in which it set out.
    let mut all: Vec<(u64, u16, TxnId)> = Vec::new();
    let mut moved = None;
    for ms in 0..1200u64 {
        if ms == 400 {
            moved = Some(world.move_table(1, OTHER, &[0], 1));
        }
        for region in 0..3 {
            let text = format!("w0.{} r0.{}", 100 + ms * 7 % 20, 100 + (ms + 3) * 11 % 20);
            all.push((ms, region, world.submit(region, &text)));
        }
        world.run_for_ms(1);
    }
    world.run_for_ms(2000);
    let moved = moved.unwrap();
    println!("the move itself: {:.1} ms", world.latency_ms(moved));
    // p50 and the longest, in ms, by region and by when they set out.
    let mut shown = std::collections::BTreeMap::new();
    for (phase, from, to) in [("before", 0, 350), ("meanwhile", 350, 600), ("after", 600, 1200)] {
        for region in 0..3 {
            let within = all.iter().filter(|(ms, at, _)| (from..to).contains(ms) && *at == region);
            let mut took: Vec<f64> = within.map(|(_, _, txn)| world.latency_ms(*txn)).collect();
            took.sort_by(f64::total_cmp);
            let (median, longest) = (took[took.len() / 2], took[took.len() - 1]);
            println!("{phase}, region {region}: p50 {median:.1} ms, longest {longest:.1} ms");
            shown.insert((phase, region), (median, longest));
        }
    }
    let again = all.iter().filter(|(_, _, txn)| world.answer(*txn).txn != *txn).count();
    println!("submitted again: {again} of {}", all.len());
    assert!(shown[&("before", 0)].1 < 1.0 && shown[&("before", 1)].0 >= 100.0);
    assert!(shown[&("after", 1)].1 < 1.0 && shown[&("after", 0)].0 >= 100.0);
    assert!((0..3).all(|region| shown[&("meanwhile", region)].1 < 260.0));
    assert!(again > 0 && all.iter().all(|(_, _, txn)| world.answer(*txn).outcome.is_committed()));
    judge(&world);
    world.check_empty();
}

#[test]
fn what_reaches_the_old_home_behind_the_move_is_submitted_again() {
    let mut world = World::new(1, 3, 1, 0, Options::default());
    world.run_for_ms(100);
    let first = world.submit(0, "w0.1");
    world.run_for_ms(1);
    world.move_home(1, 0, 1).unwrap();
    // The move is on its way to the old home, or there; nobody has heard.
    world.run_for_ms(20);
    let behind = world.submit(2, "w0.1 w2.1");
    world.run_for_ms(20);
    let ahead = world.submit(0, "w0.1");
    world.run_for_ms(2000);
    for (txn, again) in [(first, false), (ahead, false), (behind, true)] {
        let answer = world.answer(txn);
        assert!(answer.outcome.is_committed());
        assert_eq!(answer.txn != txn, again, "{txn} ended as {}", answer.txn);
    }
    judge(&world);
    world.check_empty();
}

#[test]
fn of_two_moves_of_one_partition_one_takes_effect() {
    let mut world = World::new(1, 3, 1, 0, Options::default());
    world.run_for_ms(100);
    let moves = [world.move_home(1, 0, 1).unwrap(), world.move_home(2, 0, 2).unwrap()];
    for _ in 0..30 {
        world.submit(1, "w0.1 w1.1");
        world.submit(2, "w0.1");
        world.run_for_ms(10);
    }
    world.run_for_ms(3000);
    let taken = moves.iter().filter(|txn| world.answer(**txn).outcome.is_committed()).count();
    assert_eq!(taken, 1);
    for txn in moves {
        if let Outcome::Aborted(error) = &world.answer(txn).outcome {
            assert_eq!(error.state.as_str(), "40001");
        }
    }
    // Two at once to the same place are two moves as well.
    let same = [world.move_home(0, 0, 0), world.move_home(1, 0, 0), world.move_home(2, 0, 0)];
    world.run_for_ms(1000);
    let same = same.iter().flatten().filter(|txn| world.answer(**txn).outcome.is_committed());
    assert_eq!(same.count(), 1);
    // On and back again, where everybody knows the way.
    let home = |world: &World| world.nodes[0].residences.home(PartitionId(0), None).region;
    for to in [0, 1, 2, 0].map(RegionId) {
        if home(&world) != to {
            world.move_home(1, 0, to.0).unwrap();
        }
        world.submit(0, "w0.1 w1.1");
        world.run_for_ms(1000);
        assert_eq!(home(&world), to);
    }
    judge(&world);
    world.check_empty();
}

/// A reader closes a cut that lies above a move, and is slow to hear of the new home.
fn read_across_a_move(options: Options, of_a_table: bool) -> World {
    let mut world = World::new(1, 3, 1, 0, options);
    world.run_for_ms(100);
    match of_a_table {
        true => _ = world.move_table(1, OTHER, &[0], 1),
        false => _ = world.move_home(1, 0, 1).unwrap(),
    }
    world.run_for_ms(30);
    let cut = (world.now + 200 * MS).rank();
    world.close(1, 2, 0, cut, vec![Granule::Partition]);
    world.run_for_ms(130);
    // Ordered at the new home, below the cut, and held up on its way to the reader.
    world.passes = Box::new(|from, to, _| (from, to) != (NodeId(1), NodeId(2)));
    world.submit(1, "w0.101");
    world.run_for_ms(150);
    world.passes = Box::new(|_, _, _| true);
    world.run_for_ms(2000);
    world
}

#[test]
fn a_reader_that_began_at_the_old_home_goes_on_to_the_new_one() {
    for of_a_table in [false, true] {
        let world = read_across_a_move(Options::default(), of_a_table);
        assert!(world.closed.contains_key(&CloseTicket(1)));
        judge(&world);
        let planted = planted(Mutant::CloseAtOldHome);
        assert!(panics(|| judge(&read_across_a_move(planted, of_a_table))));
    }
}

#[test]
fn a_gateway_without_a_copy_is_told_where_a_partition_went() {
    let mut topology = Topology::one_node_per_region(Wan::preset("perseus3").unwrap(), 1);
    topology.nodes.push(NodeSpec { region: RegionId(1), subscribes: Vec::new() });
    let mut world = World::with(1, topology.replicated(), Options::default());
    world.run_for_ms(100);
    world.move_home(0, 0, 1).unwrap();
    world.run_for_ms(500);
    let txn = world.submit(3, "w0.1");
    world.run_for_ms(1000);
    assert!(world.latency_ms(txn) < 10.0, "{}", world.latency_ms(txn));
    assert_eq!(
        world.nodes[3].residences.home(PartitionId(0), None),
        world.nodes[0].residences.home(PartitionId(0), None)
    );
    judge(&world);
    world.check_empty();
}

#[test]
fn a_move_to_nowhere_is_refused() {
    let mut world = World::new(1, 2, 1, 0, Options::default());
    let state = |world: &mut World, partition, to| {
        world.move_home(0, partition, to).err().map(|error| error.state.as_str().to_string())
    };
    assert_eq!(state(&mut world, 0, 7).as_deref(), Some("22023"));
    assert_eq!(state(&mut world, 0, 0).as_deref(), Some("22023"));
    assert_eq!(state(&mut world, 9, 1).as_deref(), Some("22023"));
    let mut world = World::new(1, 2, 1, 0, Options { routing: calvin::ROUTING, ..Options::default() });
    assert_eq!(state(&mut world, 0, 1).as_deref(), Some("0A000"));
    // What a change of the catalog wants is as impossible; also of a table that is homed here and there.
    let mut world = World::new(1, 3, 1, 0, Options::default());
    let nowhere = world.move_table(0, OTHER, &[0], 7);
    let torn = world.move_table(0, OTHER, &[0, 1], 2);
    let half = world.move_table(0, TABLE, &[0, 1], 1);
    world.run_for_ms(500);
    let end = |txn| match &world.answer(txn).outcome {
        Outcome::Aborted(error) => error.state.as_str().to_string(),
        Outcome::Committed { .. } => "00000".into(),
    };
    assert_eq!([nowhere, torn, half].map(end), ["22023", "0A000", "00000"]);
}

#[test]
fn a_lost_home_is_left_and_taken_up_again() {
    let options = Options { copies_elsewhere: 1, ..Options::default() };
    let mut world = World::new(4, 3, 1, MS, options);
    world.run_for_ms(100);
    // The old home is lost with the move on its way.
    world.move_home(1, 0, 1).unwrap();
    world.run_for_ms(55);
    world.kill(0);
    for n in 0..40 {
        world.submit(1 + n % 2, ["w0.1", "w0.1 w2.1", "w1.1 r0.1"][usize::from(n) % 3]);
        world.run_for_ms(100);
    }
    world.heal();
    world.run_for_ms(20_000);
    let home = |n: usize| world.nodes[n].residences.home(PartitionId(0), None);
    assert_eq!(home(0).region, RegionId(1));
    assert!((0..3).all(|n| home(n) == home(0)));
    judge(&world);
}

#[test]
fn random_worlds_catch_moves_that_are_half_heard() {
    let caught = |mutant| (0..200).any(|seed| panics(|| judge(&run(seed, 80, Some(planted(mutant))))));
    let all = [Mutant::AcceptStaleHomes, Mutant::MoveUnheardOf];
    let unnoticed: Vec<Mutant> = all.into_iter().filter(|mutant| !caught(*mutant)).collect();
    assert!(unnoticed.is_empty(), "{unnoticed:?} go unnoticed");
}
