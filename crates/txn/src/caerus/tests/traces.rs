//! A seed is a world: all that its nodes say and ask of their hosts, in order, as one number.

use super::World;
use super::random::{run, run_in};
use super::{availability, recovery, rejoin};
use crate::caerus::{Options, Protocol};

fn worlds(seed: u64) -> Vec<(&'static str, World)> {
    vec![
        ("usual", run(seed, 120, None)),
        ("unbounded clocks", run_in(seed, 80, None, true)),
        ("slog", run(seed, 80, Some(Options { protocol: Protocol::Slog, ..Options::default() }))),
        ("calvin", run(seed, 80, Some(Options { protocol: Protocol::Calvin, ..Options::default() }))),
        ("losses", recovery::turmoil(seed, Protocol::Caerus, None)),
        ("losses, unbounded clocks", recovery::turmoil_in(seed, Protocol::Caerus, None, true)),
        ("losses, calvin", recovery::turmoil(seed, Protocol::Calvin, None)),
        ("lost memory", rejoin::turmoil(seed, None)),
        ("lost regions", availability::random(seed, None)),
    ]
}

#[test]
fn a_seed_gives_one_trace() {
    for seed in 0..2 {
        for ((kind, first), (_, second)) in worlds(seed).into_iter().zip(worlds(seed)) {
            assert_eq!(first.trace, second.trace, "{kind}, seed {seed}");
            assert_eq!(first.messages, second.messages);
        }
    }
}

/// To compare before and after a change that should change nothing: `cargo test -p txn -- --ignored traces --nocapture`.
#[test]
#[ignore = "prints; to compare two versions"]
fn print_traces() {
    for seed in 0..60 {
        for (kind, world) in worlds(seed) {
            println!("{kind}, seed {seed}: {:016x} after {} messages", world.trace, world.messages);
        }
    }
}
