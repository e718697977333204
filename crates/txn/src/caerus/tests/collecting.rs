//! Memory stays bounded whichever region is lost: the one whose node collects among them.

use super::World;
use super::judge::judge;
use crate::caerus::Options;
use crate::caerus::SequenceId;
use crate::caerus::options::{Collection, Heartbeats, Replication};
use crate::engine::Engine;
use base::time::MS;
use base::topology::Topology;
use base::wan::Wan;
use base::{NodeId, Rank, Time};

fn world() -> World {
    let wan = Wan::uniform("test", &["a", "b", "c"], MS, 20 * MS);
    let topology = Topology::one_node_per_region(wan, 1).replicated();
    let options = Options {
        copies_elsewhere: 1,
        heartbeats: Heartbeats { every_ns: 5 * MS, ..Heartbeats::default() },
        replication: Replication { suspect_after_ns: Some(200 * MS), ..Replication::default() },
        collection: Collection { silence_ns: 500 * MS, ..Collection::default() },
        ..Options::default()
    };
    World::with(1, topology, options)
}

/// Transactions of all regions but one, for a while.
fn load(world: &mut World, lost: Option<u16>, rounds: u64) {
    for n in 0..rounds {
        for node in (0..3u16).filter(|node| Some(*node) != lost) {
            world.submit(node, &format!("w{}.{} r{}.1", node, n % 5, (node + 1) % 3));
        }
        world.run_for_ms(10);
    }
}

/// How far a node's collection is behind the clock, in ms.
fn behind_ms(world: &World, node: u16) -> u64 {
    let Rank(at) = world.watermarks[usize::from(node)];
    world.now.since(Time(at)) / MS
}

#[test]
fn collection_goes_on_whichever_region_is_lost_and_never_back() {
    for lost in 0..3u16 {
        let mut world = world();
        load(&mut world, None, 100);
        world.kill(lost);
        // Another region leads, and waits for the lost one as long as it may only be silent.
        load(&mut world, Some(lost), 200);
        let others = (0..3u16).filter(|node| *node != lost);
        for _ in 0..4 {
            load(&mut world, Some(lost), 100);
            for node in others.clone() {
                let behind_ms = behind_ms(&world, node);
                let vertices = world.nodes[usize::from(node)].vertex_count();
                // Two hundred a second; the third region's entries are waited for some 30 ms.
                assert!(behind_ms < 500, "n{node} without region {lost}: {behind_ms} ms");
                assert!(vertices < 150, "n{node} without region {lost}: {vertices} vertices");
            }
        }
        let told: Vec<Rank> = world.watermarks.clone();
        world.heal();
        load(&mut world, None, 400);
        assert!(world.nodes[0].logs.leads(SequenceId(0)), "the first region collects again");
        for node in 0..3u16 {
            assert!(told[usize::from(node)] <= world.watermarks[usize::from(node)]);
            let behind_ms = behind_ms(&world, node);
            assert!(behind_ms < 500, "n{node} with region {lost} back: {behind_ms} ms");
        }
        world.run_for_ms(20_000);
        judge(&world);
        world.check_empty();
    }
}

#[test]
fn a_collector_that_is_cut_off_gives_up_nothing_that_others_read() {
    let mut world = world();
    load(&mut world, None, 50);
    // A reader of region 2 holds on to what it reads.
    let held = world.now.rank();
    world.nodes[2].set_floor(Some(held));
    world.cut_off(0);
    load(&mut world, Some(0), 400);
    assert!(!world.cut_off.contains(&NodeId(1)));
    assert!(world.watermarks.iter().all(|rank| *rank <= held), "{:?} {held:?}", world.watermarks);
    world.heal();
    world.run_for_ms(3000);
    assert!(world.watermarks.iter().all(|rank| *rank <= held), "{:?} {held:?}", world.watermarks);
    world.nodes[2].set_floor(None);
    load(&mut world, None, 300);
    assert!(world.watermarks.iter().all(|rank| *rank > held));
    world.run_for_ms(5000);
    judge(&world);
}
