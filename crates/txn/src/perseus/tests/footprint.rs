//! What the engine keeps and sends: memory over a long time, bytes of graph per transaction.

use super::{Faults, World, access};
use crate::engine::Engine;
use crate::perseus::Options;
use base::PartitionId;
use base::rng::Rng;
use base::time::{MS, SECOND};
use base::topology::{NodeSpec, Topology};
use base::wan::Wan;

/// The most of everything that any node keeps.
fn kept(world: &World) -> [usize; 7] {
    let mut most = [0; 7];
    for node in &world.nodes {
        let now = [
            node.vertex_count(),
            node.granule_count(),
            node.requests.len(),
            node.reminders.deadline_count(),
            node.collection.seen_words(),
            node.inquiries.len()
                + node.requests.attended_count()
                + node.recoveries.len()
                + node.gateway.origin_count(),
            node.schedule.turns.group_count()
                + node.schedule.pending_count()
                + node.gateway.answer_counts().0
                + node.collection.learned().count(),
        ];
        for (most, now) in most.iter_mut().zip(now) {
            *most = now.max(*most);
        }
    }
    most
}

#[test]
fn memory_is_flat_over_twenty_minutes_of_lossy_links_and_repeated_requests() {
    let options = Options { collect_every_ns: 200 * MS, keep_results_ns: 5 * SECOND, ..Options::default() };
    let mut world = World::with_gateways(3, 1, options);
    world.faults = Faults { loss: 0.01, duplication: 0.02, jitter_ns: 20 * MS };
    let mut draw = Rng::new(3);
    let mut thirds = [[0; 7]; 3];
    let minutes = 20;
    for second in 0..60 * minutes {
        for _ in 0..20 {
            world.run_until(world.now + SECOND / 20);
            let gateway = draw.below(4) as u16;
            let home = gateway % 3;
            let text = match draw.below(10) {
                0 => format!("w{home}.{} r{}.{}", draw.below(20), draw.below(3), draw.below(20)),
                1 => format!("r{home}.{}-{}", draw.below(10), 10 + draw.below(10)),
                _ => format!("w{home}.{} r{home}.{}", draw.below(20), draw.below(20)),
            };
            let wish = world.wish(access(&text));
            world.hand_in(gateway, wish.clone());
            if draw.chance(0.05) {
                world.repeat(draw.below(4) as u16, &wish);
            }
        }
        let third = &mut thirds[second * 3 / (60 * minutes)];
        for (most, now) in third.iter_mut().zip(kept(&world)) {
            *most = now.max(*most);
        }
        world.rows.iter_mut().for_each(|rows| rows.log.clear());
        world.streams.clear();
        world.answers.clear();
        world.submitted.clear();
        world.repeats.clear();
    }
    let [_, second, third] = thirds;
    for (nth, (before, after)) in second.iter().zip(third).enumerate() {
        assert!(after <= before * 3 / 2 + 50, "{nth}: {second:?}, then {third:?}");
    }
    world.check_invariants();
    world.faults = Faults::default();
    world.run_for_ms(30_000);
    world.check_empty();
}

/// Bytes of graph between engines and to one subscriber of each partition, per transaction.
fn graph_bytes(remote: f64, per_second: u64) -> (f64, f64) {
    // Five regions of twenty nodes with a partition each, and a manager that follows its region.
    let wan = Wan::preset("perseus5").unwrap();
    let node = |region, subscribes| NodeSpec { region: base::RegionId(region), subscribes };
    let mut topology = Topology::one_node_per_region(wan, 20);
    topology.nodes = (0..100).map(|n| node(n / 20, Vec::new())).collect();
    for (n, partition) in topology.partitions.iter_mut().enumerate() {
        partition.node = base::NodeId(n as u16);
    }
    for region in 0..5 {
        topology.nodes.push(node(region, (region * 20..region * 20 + 20).map(PartitionId).collect()));
    }
    let options = Options { measure_graph: true, ..Options::default() };
    let mut world = World::with(1, topology, options);
    let mut draw = Rng::new(1);
    let end = world.now + 2 * SECOND;
    while world.now < end {
        world.run_until(world.now + 1 + draw.below(2 * SECOND / per_second));
        let home = draw.below(100);
        let mut text = String::new();
        for _ in 0..4 {
            let mode = if draw.chance(0.5) { "w" } else { "r" };
            text += &format!("{mode}{home}.{} ", draw.below(1000));
        }
        if draw.chance(remote) {
            text += &format!("w{}.{}", draw.below(100), draw.below(1000));
        }
        world.submit(home as u16, access(&text));
    }
    world.run_for_ms(3_000);
    let sum = |name| world.nodes.iter().map(|node| node.report().counters[name]).sum::<u64>() as f64;
    let answered = sum("answered");
    (sum("graph bytes sent") / answered, sum("graph bytes streamed") / answered)
}

#[test]
fn the_graph_costs_few_bytes_where_most_transactions_stay_in_one_partition() {
    for remote in [0.0, 0.05, 0.1, 0.2] {
        let (sent, streamed) = graph_bytes(remote, 5000);
        println!("{remote}: {sent:.1} bytes between engines, {streamed:.1} on streams");
    }
    let (sent, streamed) = graph_bytes(0.1, 5000);
    assert!(sent + streamed <= 40.0, "{sent} + {streamed}");
}
