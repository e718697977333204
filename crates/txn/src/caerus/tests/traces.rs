//! A seed is a world: all that its nodes say and ask of their hosts, in order, as one number.

use super::World;
use super::random::{run, run_in};
use super::{availability, recovery, rejoin};
use crate::baseline::{calvin, slog};
use crate::caerus::{Options, Routing};

fn worlds(seed: u64) -> Vec<(&'static str, World)> {
    vec![
        ("usual", run(seed, 120, None)),
        ("unbounded clocks", run_in(seed, 80, None, true)),
        ("slog", run(seed, 80, Some(Options { routing: slog::ROUTING, ..Options::default() }))),
        ("calvin", run(seed, 80, Some(Options { routing: calvin::ROUTING, ..Options::default() }))),
        ("losses", recovery::turmoil(seed, Routing::Direct, None)),
        ("losses, unbounded clocks", recovery::turmoil_in(seed, Routing::Direct, None, true)),
        ("losses, calvin", recovery::turmoil(seed, calvin::ROUTING, None)),
        ("lost memory", rejoin::schedules::turmoil(seed, None)),
        ("lost regions", availability::random(seed, None)),
    ]
}

/// Prints the traces too, to compare before and after a change that should change nothing: with `TRACED_SEEDS=60`
/// those of 540 worlds.
#[test]
fn a_seed_gives_one_trace() {
    let seeds = std::env::var("TRACED_SEEDS").ok().and_then(|count| count.parse().ok());
    for seed in 0..seeds.unwrap_or(2) {
        for ((kind, first), (_, second)) in worlds(seed).into_iter().zip(worlds(seed)) {
            println!("{kind}, seed {seed}: {:016x} after {} messages", first.trace, first.messages);
            assert_eq!(first.trace, second.trace, "{kind}, seed {seed}");
            assert_eq!(first.messages, second.messages);
        }
    }
}
