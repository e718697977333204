//! What readers wait for, beside the transactions in flight that they read.

use super::World;
use super::judge::judge;
use crate::caerus::Options;
use crate::caerus::options::{Collection, Heartbeats};
use base::order::CloseTicket;
use base::time::MS;
use base::topology::{NodeSpec, Topology};
use base::txn::Granule;
use base::wan::Wan;
use base::{NodeId, PartitionId, RegionId};

/// Two regions; in the first one node orders, another keeps a partition of its own, and a third only reads.
fn world_with_a_reader() -> World {
    let wan = Wan::preset("perseus3").unwrap().truncated(2);
    let mut topology = Topology::one_node_per_region(wan, 2);
    for _ in 0..2 {
        topology.nodes.push(NodeSpec { region: RegionId(0), subscribes: Vec::new() });
    }
    topology.partitions[1].node = NodeId(2);
    // Nothing but questions tells the second node how far the sequence is.
    let options = Options {
        heartbeats: Heartbeats { every_ns: 40 * MS, ..Heartbeats::default() },
        ..Options::default()
    };
    World::with(1, topology.replicated(), options)
}

#[test]
fn a_copy_is_told_how_far_the_sequence_is_while_it_is_asked() {
    let one_way_ns = MS;
    for hastened in [false, true] {
        let mut world = world_with_a_reader();
        world.run_for_ms(1000);
        let (asked_at, rank) = (world.now, world.now.rank());
        if hastened {
            world.will_close(3, PartitionId(1), rank);
        }
        world.run_until(asked_at + one_way_ns);
        world.close(1, 2, 1, rank, vec![Granule::Partition]);
        world.run_until(asked_at + 10 * one_way_ns);
        let closed_after_ns = world.closed[&CloseTicket(1)].0.since(asked_at);
        // From the reader over the leader to the copy, or from the copy there and back.
        let expected_ns = if hastened { 2 * one_way_ns } else { 3 * one_way_ns };
        assert_eq!(closed_after_ns, expected_ns, "hastened: {hastened}");
        world.run_for_ms(1000);
        judge(&world);
    }
}

#[test]
fn one_cut_is_hastened_once() {
    let mut world = world_with_a_reader();
    world.run_for_ms(1000);
    let rank = world.now.rank();
    let before = world.messages;
    for _ in 0..5 {
        world.will_close(3, PartitionId(1), rank);
    }
    // What the leader itself keeps needs nobody's closed timestamp.
    world.will_close(3, PartitionId(0), rank);
    assert_eq!(world.messages - before, 1);
}

#[test]
fn a_reader_that_is_silent_holds_up_collection_for_its_lease_and_no_longer() {
    let mut world = world_with_a_reader();
    world.run_for_ms(1000);
    world.dead.insert(NodeId(3));
    let lost_at = world.now.rank();
    world.run_for_ms(9_000);
    assert!(world.watermarks[0] <= lost_at, "its readers may rely on what is old");
    world.run_for_ms(3_000);
    assert!(world.watermarks[0].0 > lost_at.0 + 10_000 * MS, "{:?}", world.watermarks);
    // Back again it is told how far the others are.
    world.heal();
    world.run_for_ms(500);
    assert!(world.watermarks[3].0 > lost_at.0 + 10_000 * MS, "{:?}", world.watermarks);
    judge(&world);
}

#[test]
fn a_lost_region_holds_up_collection_no_longer_either_and_catches_up_before_it_forgets() {
    let options = Options {
        copies_elsewhere: 1,
        collection: Collection { silence_ns: 2_000 * MS, ..Collection::default() },
        ..Options::default()
    };
    let mut world = World::new(3, 3, 1, MS, options);
    world.run_for_ms(1000);
    world.kill(2);
    let lost_at = world.now.rank();
    for n in 0..80 {
        world.submit(n % 2, ["w0.1 w1.1", "w0.2", "w2.1 w0.1"][usize::from(n) % 3]);
        world.run_for_ms(100);
    }
    assert!(world.watermarks[0].0 > lost_at.0 + 4_000 * MS, "{:?}", world.watermarks);
    world.heal();
    world.run_for_ms(60);
    assert!(world.watermarks[2].0 <= lost_at.0 + 1_000 * MS, "it has not executed what it missed");
    world.run_for_ms(20_000);
    assert!(world.watermarks[2].0 > lost_at.0 + 20_000 * MS, "{:?}", world.watermarks);
    judge(&world);
}
