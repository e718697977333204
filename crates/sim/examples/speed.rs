//! How many messages a second the world carries on one core, with a handler that does nothing:
//! `cargo run -p sim --release --example speed`.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "this one measures the machine, not the world"
)]

use base::process::{Effects, Event, Process};
use base::topology::Topology;
use base::wan::Wan;
use base::{NodeId, Time};
use sim::world::{BEGIN, Setup, World};

/// Sends every message on, and knows nothing.
struct Relay {
    next: NodeId,
}

impl Process for Relay {
    type Message = (u64, u64, Vec<u8>);
    type Timer = ();
    type Request = ();
    type Reply = ();
    type Computed = ();
    fn step(&mut self, _: Time, event: Event<Relay>, out: &mut Effects<Relay>) {
        match event {
            Event::Start => (0..200).for_each(|n| out.send(self.next, (n, n * n, vec![7; 32]))),
            Event::Message { message, .. } => out.send(self.next, message),
            _ => {}
        }
    }
}

fn main() {
    let topology = Topology::one_node_per_region(Wan::preset("perseus5").unwrap(), 1);
    let mut world =
        World::new(Setup::calm(topology, 1), |node, _, _| Relay { next: NodeId((node.0 + 1) % 5) });
    let begin = std::time::Instant::now();
    let mut seconds = 0;
    while begin.elapsed().as_secs_f64() < 2.0 {
        seconds += 20;
        world.run_until(BEGIN + seconds * base::time::SECOND);
    }
    let rate = world.counters().messages() as f64 / begin.elapsed().as_secs_f64();
    println!(
        "{} messages, {rate:.0} a second, trace {:016x}",
        world.counters().messages(),
        world.trace_hash()
    );
}
