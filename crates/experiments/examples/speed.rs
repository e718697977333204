//! How many messages a second the world carries on one core: with a handler that does nothing, and with real
//! nodes at the load of `perseus-table3`: `cargo run -p experiments --release --example speed [-- small|paper]`. Seconds
//! are those that this thread had a core, so that others on the machine do not count (where /proc tells; they do
//! count for what they take of its caches).
//!
//! A message is one that a node sends to another node. What clients ask and hear, timers, merges of columns and what a
//! node tells itself are not counted, but take their time: at scale paper nine transactions in ten send no message
//! before they are answered, and a message stands for a sixth of a TPC-C transaction with its columns.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "this one measures the machine, not the world"
)]

use base::process::{Effects, Event, Process};
use base::topology::Topology;
use base::wan::Wan;
use base::{NodeId, Time};
use experiments::perseus::table3;
use experiments::{Scale, number};
use sim::world::{BEGIN, Setup, Wire, World};

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

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    empty_handler();
    let scale = std::env::args().nth(1).as_deref().and_then(Scale::parse).unwrap_or(Scale::Small);
    real_nodes(scale);
}

/// How long this thread has had a core.
fn cpu_s() -> f64 {
    thread_local!(static BEGIN_AT: std::time::Instant = std::time::Instant::now());
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let told = told.and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
    told.map_or_else(|| BEGIN_AT.with(|at| at.elapsed().as_secs_f64()), |ns| ns / 1e9)
}

fn empty_handler() {
    let topology = Topology::one_node_per_region(Wan::preset("perseus5").unwrap(), 1);
    let setup = Setup { wire: Wire::Measured, ..Setup::calm(topology, 1) };
    let mut world = World::new(setup, |node, _, _| Relay { next: NodeId((node.0 + 1) % 5) });
    let (begin, mut seconds) = (cpu_s(), 0);
    while cpu_s() - begin < 2.0 {
        seconds += 20;
        world.run_until(BEGIN + seconds * base::time::SECOND);
    }
    let rate = world.counters().messages() as f64 / (cpu_s() - begin);
    println!("empty handler: {} messages, {rate:.0} a second", world.counters().messages());
}

/// The part of the table that reads at level `rss`; loading and warm-up are not counted.
fn real_nodes(scale: Scale) {
    let experiment = table3::EXPERIMENT;
    let part = (experiment.parts)(scale).iter().position(|name| name == "PERSEUS, rss").unwrap();
    let (mut times, mut measured_s) = (Vec::new(), 0.0);
    let found = (experiment.run)(scale, 1, part, &mut |done| times.push((done, cpu_s())));
    let figure = |column| number(&found.rows[0], column).unwrap();
    let seconds = found.conditions.iter().find(|(name, _)| name.starts_with("seconds measured"));
    let seconds = seconds.and_then(|(_, value)| value.as_f64()).unwrap();
    let messages = figure("messages_per_txn") * figure("tp_per_s") * seconds;
    let end = times.last().unwrap().1;
    // The window is the end of what is told; it begins where the warm-up ends.
    for (done, at) in times.iter().rev() {
        if 1.0 - done >= seconds / (seconds + table3::warm_up_s(scale)) {
            measured_s = end - *at;
            break;
        }
    }
    let transactions = figure("tp_per_s") * seconds;
    println!(
        "perseus-table3, rss, scale {}: {messages:.0} messages, {:.0} a second, and {:.0} transactions a second \
         ({measured_s:.1} s for {seconds} virtual s)",
        scale.name(),
        messages / measured_s,
        transactions / measured_s
    );
}
