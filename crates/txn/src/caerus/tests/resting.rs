//! A cluster that nobody uses, and what it takes to rouse it.

use super::World;
use super::judge::judge;
use crate::caerus::Options;
use crate::caerus::options::Heartbeats;
use base::order::CloseTicket;
use base::time::MS;
use base::txn::Granule;

const IDLE_NS: u64 = 50 * MS;

/// Messages in two seconds.
fn said(world: &mut World) -> u64 {
    let before = world.messages;
    world.run_for_ms(2000);
    world.messages - before
}

/// How long a reader waits for a partition of another region, in ms; 50 is one way.
fn far_close_ms(world: &mut World, ticket: u64) -> f64 {
    let (asked_at, rank) = (world.now, world.now.rank());
    world.close(ticket, 0, 1, rank, vec![Granule::Partition]);
    world.run_for_ms(200);
    world.closed[&CloseTicket(ticket)].0.since(asked_at) as f64 / MS as f64
}

#[test]
fn who_has_nothing_to_do_says_little_and_is_there_at_once() {
    for copies_elsewhere in [0, 1] {
        let heartbeats = Heartbeats { idle_every_ns: Some(IDLE_NS), ..Heartbeats::default() };
        let options = Options { heartbeats, copies_elsewhere, ..Options::default() };
        let mut world = World::new(1, 3, 1, 0, options);
        world.submit(0, "w0.1");
        let begun = said(&mut world);
        let at_rest = said(&mut world);
        assert!(begun > 1000 && at_rest < 600, "{begun}, then {at_rest}");
        let waited_ms = far_close_ms(&mut world, 1);
        assert!(waited_ms <= 50.0 + 50.0, "{waited_ms}");
        // Something happens: the same as in a cluster that never rests.
        let (near, far) = (world.submit(1, "w1.1"), world.submit(1, "w1.2 w0.2"));
        world.run_for_ms(150);
        let waited_ms = far_close_ms(&mut world, 2);
        assert!(waited_ms <= 50.0 + 2.0, "{waited_ms}");
        let survives_ms = if copies_elsewhere > 0 { 110.0 } else { 0.0 };
        assert!(world.latency_ms(near) <= survives_ms, "{}", world.latency_ms(near));
        assert!(world.latency_ms(far) <= 1.05 * 100.0 + 2.0, "{}", world.latency_ms(far));
        world.run_for_ms(2000);
        assert!(said(&mut world) <= at_rest + 10, "it rests again");
        judge(&world);
    }
}
