//! A region is added to a cluster, or leaves it, whose nodes have all stopped at one point; see [`change`](super::super::change).

use super::World;
use super::judge::judge;
use crate::caerus::options::{Collection, Heartbeats};
use crate::caerus::{Caerus, Options, Point, Records};
use crate::engine::Engine;
use crate::trial::disk::Habits;
use crate::trial::executor::Rows;
use base::process::Unreadable;
use base::rng::Rng;
use base::time::{MS, SECOND};
use base::topology::{Removed, Topology};
use base::wan::Wan;
use base::{NodeId, PartitionId, RegionId, TableId, TxnId};
use std::collections::BTreeSet;

const TAKE_OVER_MS: u64 = 4000;

fn topology(regions: usize, round_trip_ms: u64) -> Topology {
    let wan = Wan::uniform("test", &["a", "b", "c", "d", "e"][..regions], MS, round_trip_ms * MS);
    Topology::one_node_per_region(wan, 1).replicated()
}

fn options(copies_elsewhere: usize) -> Options {
    let heartbeats = Heartbeats { every_ns: 10 * MS, ..Heartbeats::default() };
    let collection = Collection { every_ns: 50 * MS, ..Collection::default() };
    let records = Some(Records { ceiling_ns: 100 * MS });
    Options { copies_elsewhere, heartbeats, collection, records, ..Options::default() }
}

const HABITS: Habits =
    Habits { sync_ns_max: 2 * MS, crash: 0.0, down_ns_max: 0, checkpoint: 0.01, flaw: None };

fn world(seed: u64, regions: usize, copies_elsewhere: usize) -> World {
    let topology = topology(regions, 20);
    World::with_disks(seed, topology, options(copies_elsewhere), Some(HABITS))
}

/// Clients everywhere, for so long.
fn work(world: &mut World, rng: &mut Rng, ms: u64) -> Vec<TxnId> {
    let nodes = world.nodes.len() as u64;
    let mut submitted = Vec::new();
    for _ in 0..ms / 10 {
        let node = rng.below(nodes) as u16;
        if !world.dead.contains(&NodeId(node)) {
            let text =
                format!("w{}.{} r{}.{}", rng.below(nodes), rng.below(4), rng.below(nodes), rng.below(4));
            submitted.push(world.submit(node, &text));
        }
        world.run_for_ms(10);
    }
    submitted
}

/// Where all nodes are, once nothing is under way.
fn stop(world: &mut World) -> Point {
    for _ in 0..500 {
        world.run_for_ms(10);
        let there: Vec<NodeId> = world.topology.node_ids().collect();
        let point = |node: &NodeId| world.nodes[usize::from(node.0)].point();
        let points: Option<Vec<Point>> = there.iter().map(point).collect();
        let is_down = there.iter().any(|node| world.dead.contains(node));
        let Some(points) = points.filter(|_| !is_down) else { continue };
        if points.iter().all(|point| point.is_at(&points[0].ends)) {
            return points.iter().fold(points[0].clone(), Point::and);
        }
    }
    panic!("something stays under way");
}

/// The nodes of the new cluster on the disks of the old one, and the new ones beside them.
fn change(world: &mut World, next: Topology, options: Options, at: &Point) -> Result<(), Unreadable> {
    let mut changed = Vec::new();
    for node in (0..world.nodes.len() as u16).map(NodeId) {
        let (engine, mut rows, _) = world.recovered(node);
        let engine = match next.is_removed(world.topology.region_of(node)) {
            // It never starts again.
            true => engine,
            false => engine.changed_to(next.clone().into(), options.clone(), at, &mut rows)?,
        };
        changed.push((engine, rows));
    }
    let leaves = |node: &NodeId| next.is_removed(next.region_of(*node));
    world.dead.extend(world.topology.node_ids().filter(leaves));
    world.become_cluster(next, options, changed);
    Ok(())
}

fn is_whole(world: &World, node: u16) -> bool {
    world.nodes[usize::from(node)].absent().is_none()
}

fn commits(world: &mut World, node: u16, text: &str) {
    let txn = world.submit(node, text);
    world.run_for_ms(3000);
    assert!(world.answer(txn).outcome.is_committed(), "{text} at n{node}: {:?}", world.answer(txn));
}

#[test]
fn a_fourth_region_takes_a_copy_and_all_commit_everywhere() {
    for (seed, copies, next_copies) in [(1, 0, 0), (2, 1, 1), (3, 0, 1), (4, 1, 0), (5, 1, 1), (6, 0, 0)] {
        let (mut world, mut rng) = (world(seed, 3, copies), Rng::new(seed).fork("clients"));
        let before: BTreeSet<TxnId> = work(&mut world, &mut rng, 800).into_iter().collect();
        let at = stop(&mut world);
        assert!(before.iter().all(|txn| world.has_ended(txn)));
        change(&mut world, topology(4, 30), options(next_copies), &at).unwrap();
        world.run_for_ms(TAKE_OVER_MS);
        assert!((0..4).all(|node| is_whole(&world, node)), "seed {seed}");
        assert!(world.nodes[3].came_back().is_some_and(|(_, bytes)| bytes > 0), "it took a copy");
        for node in 0..4 {
            commits(&mut world, node, "w0.1 w1.1 w2.1 w3.1");
            commits(&mut world, node, &format!("w{node}.2"));
        }
        work(&mut world, &mut rng, 600);
        world.run_for_ms(5000);
        judge(&world);
        let all = |rows: &Rows| rows.log.iter().map(|entry| entry.txn).collect::<BTreeSet<_>>();
        assert!(before.is_subset(&all(&world.rows[3])), "what was answered before is in the copy");
    }
}

/// The directory gets the changed node's image before the node has started.
#[test]
fn an_image_is_the_same_before_the_start() {
    for copies in [0, 1] {
        let mut world = world(14, 3, copies);
        (0..5).for_each(|_| commits(&mut world, 0, "w0.1"));
        let at = stop(&mut world);
        let (engine, mut rows, _) = world.recovered(NodeId(0));
        let shown = engine.life.recorded.clock;
        let next = engine.changed_to(topology(4, 20).into(), options(copies), &at, &mut rows).unwrap();
        // A start that was cut short began a second ahead of the others each time.
        assert_eq!(next.life.recorded.clock, shown, "no clock was read");
        let mut again = Caerus::new(topology(4, 20).into(), NodeId(0), 9, options(copies));
        again.restore(&next.image()).unwrap();
        let ends: Vec<u64> = again.logs.iter().map(|log| log.end()).collect();
        assert_eq!(ends, [5, 0, 0, 0], "K = {copies}");
    }
}

/// Nodes crash before and after; executions take several steps; any K.
#[test]
fn random_clusters_grow_while_nodes_crash() {
    for seed in 0..16 {
        let mut rng = Rng::new(seed).fork("growing");
        let regions = 2 + rng.below(3) as usize;
        let copies = |rng: &mut Rng, regions: usize| rng.below(regions.div_ceil(2) as u64) as usize;
        let mut world = world(seed, regions, copies(&mut rng, regions));
        world.rows.iter_mut().for_each(|rows| rows.pauses_max = seed % 3);
        let crash = |world: &mut World, crash: f64| world.disks.as_mut().unwrap().habits.crash = crash;
        crash(&mut world, 0.0005);
        work(&mut world, &mut rng, 400);
        world.no_more_crashes();
        let at = stop(&mut world);
        change(&mut world, topology(regions + 1, 40), options(copies(&mut rng, regions + 1)), &at).unwrap();
        crash(&mut world, 0.0005);
        world.run_for_ms(3000);
        work(&mut world, &mut rng, 400);
        world.no_more_crashes();
        world.run_for_ms(4 * TAKE_OVER_MS);
        for node in 0..=regions as u16 {
            assert!(is_whole(&world, node), "seed {seed}: {:?}", world.nodes[usize::from(node)].absent());
            commits(&mut world, node, &format!("w0.1 w{regions}.1"));
        }
        world.run_for_ms(3000);
        judge(&world);
    }
}

#[test]
fn one_of_the_old_regions_is_lost_afterwards_and_taken_over() {
    let (mut world, mut rng) = (world(7, 3, 1), Rng::new(7).fork("clients"));
    work(&mut world, &mut rng, 500);
    let at = stop(&mut world);
    change(&mut world, topology(4, 20), options(1), &at).unwrap();
    world.run_for_ms(TAKE_OVER_MS);
    work(&mut world, &mut rng, 300);
    world.run_for_ms(2000);
    world.kill(0);
    world.run_for_ms(TAKE_OVER_MS);
    for node in 1..4 {
        commits(&mut world, node, "w0.1 w3.1");
    }
    judge(&world);
}

/// What it took as a copy is its own disk's from then on; so is what the others have changed into.
#[test]
fn all_nodes_of_the_new_cluster_crash_and_come_back() {
    for copies in [0, 1] {
        let (mut world, mut rng) = (world(8, 3, copies), Rng::new(8).fork("clients"));
        work(&mut world, &mut rng, 500);
        let at = stop(&mut world);
        change(&mut world, topology(4, 20), options(copies), &at).unwrap();
        world.run_for_ms(TAKE_OVER_MS);
        work(&mut world, &mut rng, 300);
        world.run_for_ms(2000);
        (0..4).for_each(|node| world.crash(NodeId(node)));
        world.run_for_ms(2 * TAKE_OVER_MS);
        for node in 0..4 {
            assert!(is_whole(&world, node), "n{node}, K = {copies}");
            commits(&mut world, node, "w0.1 w1.1 w2.1 w3.1");
        }
        world.run_for_ms(3000);
        judge(&world);
    }
}

#[test]
fn two_regions_join_one_after_the_other() {
    let (mut world, mut rng) = (world(9, 2, 0), Rng::new(9).fork("clients"));
    for regions in [3, 4] {
        work(&mut world, &mut rng, 300);
        let at = stop(&mut world);
        change(&mut world, topology(regions, 20), options(usize::from(regions == 4)), &at).unwrap();
        world.run_for_ms(TAKE_OVER_MS);
    }
    for node in 0..4 {
        commits(&mut world, node, "w0.1 w1.1 w2.1 w3.1");
    }
    judge(&world);
}

#[test]
fn distances_and_copies_change_without_a_new_region() {
    for (before, after) in [(0, 1), (1, 0), (1, 1)] {
        let (mut world, mut rng) = (world(10, 3, before), Rng::new(10).fork("clients"));
        work(&mut world, &mut rng, 300);
        let at = stop(&mut world);
        change(&mut world, topology(3, 60), options(after), &at).unwrap();
        world.run_for_ms(TAKE_OVER_MS);
        for node in 0..3 {
            commits(&mut world, node, "w0.1 w1.1 w2.1");
        }
        judge(&world);
    }
}

/// With K = 0 only the leader has told readers how far its sequence is closed. With K = 1 another region may lead it.
#[test]
fn whoever_leads_next_stamps_above_what_was_told() {
    let mut world = world(11, 3, 0);
    commits(&mut world, 0, "w0.1");
    let at = stop(&mut world);
    assert!(at.told > world.now.rank(), "ceilings are ahead of the clock");
    let mut changed = Vec::new();
    for node in world.topology.node_ids() {
        let (engine, mut rows, _) = world.recovered(node);
        let next = engine.changed_to(topology(4, 20).into(), options(1), &at, &mut rows).unwrap();
        assert!(next.logs.iter().take(3).all(|log| log.told_at_most().closed >= at.told));
        changed.push((next, rows));
    }
    world.become_cluster(topology(4, 20), options(1), changed);
    world.kill(0);
    world.run_for_ms(TAKE_OVER_MS);
    world.run_for_ms(SECOND / MS);
    let later = world.submit(1, "w0.1");
    world.run_for_ms(3000);
    assert!(world.answer(later).rank > at.told);
}

#[test]
fn entries_in_flight_are_no_point() {
    let mut world = world(12, 3, 1);
    world.submit(0, "w0.1 w1.1 w2.1");
    world.run_for_ms(5);
    assert!(world.nodes.iter().any(|node| node.point().is_none()), "something is under way");
    let at = stop(&mut world);
    assert_eq!(at.ends, [1, 1, 1]);
    // A node of which only a part was synced when it crashed says where it is only when its disk has all.
    world.submit(0, "w0.1");
    world.run_for_ms(1);
    assert!(world.nodes[0].point().is_none());
}

#[test]
fn a_node_that_stopped_elsewhere_does_not_change() {
    let refused = |world: &mut World, next: Topology, at: &Point| {
        let why = change(world, next, options(1), at).err().expect("it is refused");
        why.0
    };
    let mut world = world(13, 3, 1);
    commits(&mut world, 0, "w0.1 w1.1");
    let at = stop(&mut world);
    // The cluster went on after it had been asked where it is.
    commits(&mut world, 1, "w1.1");
    let why = refused(&mut world, topology(4, 20), &at);
    assert!(why.contains("it was not stopped where the others were") && why.contains("[1, 2, 0]"), "{why}");
    let at = stop(&mut world);
    let mut renamed = topology(4, 20);
    renamed.wan.regions.swap(0, 3);
    let why = refused(&mut world, renamed, &at);
    assert!(why.contains("regions stay in their order"), "{why}");
    // A transaction that one of its sequences lacks.
    world.passes = Box::new(|_, to, _| to != NodeId(2));
    world.submit(0, "w0.1 w2.1");
    world.run_for_ms(200);
    let ends: Vec<u64> = world.nodes[0].logs.iter().map(|log| log.end()).collect();
    let why = refused(&mut world, topology(4, 20), &Point { ends, ..at });
    assert!(why.contains("1 transactions are not in all of their sequences"), "{why}");
}

fn without(regions: usize, removed: &[(u16, u16)]) -> Topology {
    let leave = |topology: Topology, (region, heir): &(u16, u16)| {
        topology.without(Removed { region: RegionId(*region), heir: RegionId(*heir) })
    };
    removed.iter().fold(topology(regions, 20), leave)
}

/// Clients of nodes that are there, with rows of all regions.
fn work_everywhere(world: &mut World, rng: &mut Rng, ms: u64) {
    let nodes: Vec<NodeId> = world.topology.node_ids().collect();
    let partitions = world.topology.partitions.len() as u64;
    for _ in 0..ms / 10 {
        let node = *rng.pick(&nodes);
        let mut row = |mode: &str| format!("{mode}{}.{}", rng.below(partitions), rng.below(4));
        let text = format!("{} {}", row("w"), row("r"));
        if !world.dead.contains(&node) {
            world.submit(node.0, &text);
        }
        world.run_for_ms(10);
    }
}

#[test]
fn a_region_leaves_and_its_heir_orders_what_was_homed_there() {
    for (seed, gone, heir, before, after) in
        [(1, 3, 0, 0, 0), (2, 0, 2, 1, 1), (3, 1, 0, 1, 0), (4, 2, 3, 0, 1), (5, 0, 3, 1, 1)]
    {
        let (mut world, mut rng) = (world(seed, 4, before), Rng::new(seed).fork("clients"));
        work_everywhere(&mut world, &mut rng, 500);
        let at = stop(&mut world);
        let rows = world.rows[usize::from(heir)].values.clone();
        change(&mut world, without(4, &[(gone, heir)]), options(after), &at).unwrap();
        assert_eq!(world.rows[usize::from(heir)].values, rows, "rows stay");
        world.run_for_ms(TAKE_OVER_MS);
        for node in world.topology.node_ids().collect::<Vec<_>>() {
            assert!(is_whole(&world, node.0), "seed {seed}");
            let residences = &world.nodes[usize::from(node.0)].residences;
            assert_eq!(residences.home(PartitionId(gone), None).region, RegionId(heir));
            commits(&mut world, node.0, "w0.1 w1.1 w2.1 w3.1");
        }
        // Nobody else has to be asked for what the heir orders.
        let near = world.submit(heir, &format!("w{gone}.2"));
        world.run_for_ms(3000);
        assert!(world.answer(near).rank > at.told, "readers were told of nothing later");
        work_everywhere(&mut world, &mut rng, 400);
        world.run_for_ms(5000);
        judge(&world);
    }
}

/// Partitions and tables that had moved, there or away from there, are where they should be, and move on.
#[test]
fn what_had_moved_before_a_region_leaves_moves_on_afterwards() {
    let table = TableId(7);
    let mut world = world(15, 4, 1);
    commits(&mut world, 0, "w0.1 w1.1 w2.1 w3.1");
    for (partition, to) in [(0, 3), (3, 1)] {
        world.move_home(0, partition, to).unwrap();
        world.run_for_ms(1000);
    }
    world.move_table(0, table, &[2], 3);
    world.run_for_ms(1000);
    let at = stop(&mut world);
    change(&mut world, without(4, &[(3, 2)]), options(1), &at).unwrap();
    world.run_for_ms(TAKE_OVER_MS);
    let home = |world: &World, partition: u16, table: Option<TableId>| {
        world.nodes[1].residences.home(PartitionId(partition), table).region.0
    };
    assert_eq!([0, 1, 2, 3].map(|p| home(&world, p, None)), [2, 1, 2, 1]);
    assert_eq!(home(&world, 2, Some(table)), 2);
    commits(&mut world, 1, "w0.1 w1.1 w2.1 w3.1");
    let refused = world.move_home(1, 0, 3).unwrap_err();
    assert!(refused.message.contains("orders nothing"), "{refused:?}");
    for (partition, to) in [(0, 1), (3, 0)] {
        world.move_home(1, partition, to).unwrap();
        world.run_for_ms(1000);
    }
    world.move_table(1, table, &[2], 0);
    world.run_for_ms(1000);
    assert_eq!([0, 1, 2, 3].map(|p| home(&world, p, None)), [1, 1, 2, 0]);
    assert_eq!(home(&world, 2, Some(table)), 0);
    for node in 0..3 {
        commits(&mut world, node, "w0.1 w1.1 w2.1 w3.1");
    }
    world.run_for_ms(3000);
    judge(&world);
}

#[test]
fn regions_leave_one_after_the_other_and_another_one_joins() {
    let (mut world, mut rng) = (world(16, 4, 1), Rng::new(16).fork("clients"));
    // The heir leaves too, and what it had inherited goes on.
    for (next, copies) in
        [(without(4, &[(1, 3)]), 1), (without(4, &[(1, 3), (3, 0)]), 0), (without(5, &[(1, 3), (3, 0)]), 1)]
    {
        work_everywhere(&mut world, &mut rng, 300);
        let at = stop(&mut world);
        change(&mut world, next, options(copies), &at).unwrap();
        world.run_for_ms(TAKE_OVER_MS);
    }
    for node in [0, 2, 4] {
        assert!(is_whole(&world, node));
        commits(&mut world, node, "w0.1 w1.1 w2.1 w3.1 w4.1");
    }
    // As many as may be lost.
    world.kill(0);
    world.run_for_ms(TAKE_OVER_MS);
    for node in [2, 4] {
        commits(&mut world, node, "w0.1 w1.1 w3.1 w4.1");
    }
    judge(&world);
}

#[test]
fn all_nodes_that_stay_crash_after_a_region_has_left() {
    for copies in [0, 1] {
        let (mut world, mut rng) = (world(17, 4, copies), Rng::new(17).fork("clients"));
        work_everywhere(&mut world, &mut rng, 400);
        let at = stop(&mut world);
        change(&mut world, without(4, &[(0, 1)]), options(copies), &at).unwrap();
        world.run_for_ms(TAKE_OVER_MS);
        work_everywhere(&mut world, &mut rng, 300);
        world.run_for_ms(2000);
        (1..4).for_each(|node| world.crash(NodeId(node)));
        world.run_for_ms(2 * TAKE_OVER_MS);
        for node in 1..4 {
            assert!(is_whole(&world, node), "n{node}, K = {copies}");
            commits(&mut world, node, "w0.1 w1.1 w2.1 w3.1");
        }
        world.run_for_ms(3000);
        judge(&world);
    }
}

#[test]
fn the_node_of_a_region_that_leaves_does_not_go_on_and_never_comes_back() {
    let mut world = world(18, 4, 1);
    commits(&mut world, 0, "w0.1 w3.1");
    let at = stop(&mut world);
    let (engine, mut rows, _) = world.recovered(NodeId(3));
    let refused = engine.changed_to(without(4, &[(3, 0)]).into(), options(1), &at, &mut rows);
    assert!(refused.err().unwrap().0.contains("region d has left the cluster"));
    change(&mut world, without(4, &[(3, 0)]), options(1), &at).unwrap();
    world.run_for_ms(TAKE_OVER_MS);
    let at = stop(&mut world);
    let refused = change(&mut world, topology(4, 20), options(1), &at).err().unwrap();
    assert!(refused.0.contains("does not come back"), "{refused:?}");
}
