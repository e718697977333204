//! How many transactions a second the simulator carries, of real nodes at the load of `perseus-table3`, and how many
//! messages between nodes that do nothing: `cargo run -p experiments --release --example speed [-- small|paper [THREADS]]`.
//!
//! Seconds are those of a clock on the wall, and those that the program's threads together had a core (where /proc tells):
//! on a machine with other work the latter are the steadier ones. Loading and warm-up are not counted. Nine transactions
//! in ten send no message before they are answered, so messages a second say little about real nodes.

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
    let threads = std::env::args().nth(2).map_or(1, |count| count.parse().expect("a number of threads"));
    real_nodes(scale, threads);
}

/// How long this program's threads have had a core, together.
fn cpu_s() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let told = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("schedstat")).ok());
    let ns = told.filter_map(|text| text.split_whitespace().next()?.parse::<f64>().ok()).sum::<f64>();
    if ns > 0.0 { ns / 1e9 } else { wall_s() }
}
fn wall_s() -> f64 {
    static BEGIN_AT: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    BEGIN_AT.get_or_init(std::time::Instant::now).elapsed().as_secs_f64()
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

/// The part of the table that reads at level `rss`.
fn real_nodes(scale: Scale, threads: usize) {
    let experiment = table3::EXPERIMENT;
    let part = (experiment.parts)(scale).iter().position(|name| name == "PERSEUS, rss").unwrap();
    let mut times = Vec::new();
    let found = table3::run_on(threads, scale, 1, part, &mut |done| times.push((done, wall_s(), cpu_s())));
    let figure = |column| number(&found.rows[0], column).unwrap();
    let seconds = found.conditions.iter().find(|(name, _)| name.starts_with("seconds measured"));
    let seconds = seconds.and_then(|(_, value)| value.as_f64()).unwrap();
    let transactions = figure("tp_per_s") * seconds;
    // The window is the end of what is told; it begins where the warm-up ends.
    let window = seconds / (seconds + table3::warm_up_s(scale));
    let (_, end_wall_s, end_cpu_s) = *times.last().unwrap();
    let (_, begin_wall_s, begin_cpu_s) = *times.iter().rfind(|(done, ..)| 1.0 - done >= window).unwrap();
    let (wall_s, cpu_s) = (end_wall_s - begin_wall_s, end_cpu_s - begin_cpu_s);
    println!(
        "perseus-table3, rss, scale {}, threads {threads}: {transactions:.0} transactions ({seconds} virtual s) in \
         {wall_s:.2} s, {cpu_s:.2} s of CPU: {:.0} a second, {:.0} a second of CPU; {:.0} messages",
        scale.name(),
        transactions / wall_s,
        transactions / cpu_s,
        figure("messages_per_txn") * transactions
    );
}
