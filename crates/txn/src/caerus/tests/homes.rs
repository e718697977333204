//! Partitions that move while everything goes on.

use super::judge::judge;
use super::random::run;
use super::{World, planted};
use crate::caerus::{Mutant, Options, Protocol};
use crate::trial::panics;
use base::order::CloseTicket;
use base::time::MS;
use base::topology::{NodeSpec, Topology};
use base::txn::{Granule, Outcome};
use base::wan::Wan;
use base::{NodeId, RegionId};

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
    let home = |world: &World| world.nodes[0].partitions[0].home.region;
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
fn read_across_a_move(options: Options) -> World {
    let mut world = World::new(1, 3, 1, 0, options);
    world.run_for_ms(100);
    world.move_home(1, 0, 1).unwrap();
    world.run_for_ms(30);
    let cut = (world.now + 200 * MS).rank();
    world.close(1, 2, 0, cut, vec![Granule::Partition]);
    world.run_for_ms(130);
    // Ordered at the new home, below the cut, and held up on its way to the reader.
    world.passes = Box::new(|from, to, _| (from, to) != (NodeId(1), NodeId(2)));
    world.submit(1, "w0.1");
    world.run_for_ms(150);
    world.passes = Box::new(|_, _, _| true);
    world.run_for_ms(2000);
    world
}

#[test]
fn a_reader_that_began_at_the_old_home_goes_on_to_the_new_one() {
    let world = read_across_a_move(Options::default());
    assert!(world.closed.contains_key(&CloseTicket(1)));
    judge(&world);
    assert!(panics(|| judge(&read_across_a_move(planted(Mutant::CloseAtOldHome)))));
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
    assert_eq!(world.nodes[3].partitions[0].home, world.nodes[0].partitions[0].home);
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
    let mut world = World::new(1, 2, 1, 0, Options { protocol: Protocol::Slog, ..Options::default() });
    assert_eq!(state(&mut world, 0, 1).as_deref(), Some("0A000"));
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
    assert_eq!(world.nodes[0].partitions[0].home.region, RegionId(1));
    assert!(world.nodes.iter().all(|node| node.partitions[0].home == world.nodes[0].partitions[0].home));
    judge(&world);
}

#[test]
fn random_worlds_catch_moves_that_are_half_heard() {
    let caught = |mutant| (0..200).any(|seed| panics(|| judge(&run(seed, 80, Some(planted(mutant))))));
    let all = [Mutant::AcceptStaleHomes, Mutant::MoveUnheardOf];
    let unnoticed: Vec<Mutant> = all.into_iter().filter(|mutant| !caught(*mutant)).collect();
    assert!(unnoticed.is_empty(), "{unnoticed:?} go unnoticed");
}
