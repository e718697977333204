//! Alarms of nodes that have something to send later: there are few of them, however much waits.

use super::{Event, World};
use crate::caerus::Options;
use base::time::MS;

/// Alarms that are set now.
fn set(world: &World) -> usize {
    world.events.values().filter(|event| matches!(event, Event::Wake { .. })).count()
}

#[test]
fn alarms_do_not_multiply_while_transactions_are_delayed() {
    let mut world = World::new(3, 3, 1, 0, Options::default());
    let mut most = 0;
    // What spans regions is delayed at the nearer one; what does not makes earlier deadlines meanwhile.
    for n in 0..400 {
        world.submit(0, &format!("w0.{} w1.{}", 2 * n + 1, 2 * n + 1));
        world.submit((n % 3) as u16, &format!("w{}.{}", n % 3, 10_000 + n));
        world.run_until(world.now + 3 * MS);
        most = most.max(set(&world));
    }
    // One for each of three nodes, and those for later that are set already: ticks, collection, the gate.
    assert!(most <= 4 * 3, "{most} alarms are set at once");
    world.run_for_ms(1000);
    assert_eq!(world.answers.len(), world.submitted.len());
    assert!(set(&world) <= 3, "{} are left", set(&world));
}
