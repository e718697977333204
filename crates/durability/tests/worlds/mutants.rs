//! The checks bite: random worlds find each fault that is planted in the store.

use crate::world::run;
use durability::Mutant;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Seeds tried before a fault counts as missed.
const SEEDS: u64 = 400;

fn seed_that_finds(mutant: Mutant) -> Option<u64> {
    let breaks = |seed: &u64| {
        let world = || _ = run(*seed, |options| options.mutant = Some(mutant));
        catch_unwind(AssertUnwindSafe(world)).is_err()
    };
    (0..SEEDS).find(breaks)
}

#[test]
fn planted_faults_are_found() {
    std::panic::set_hook(Box::new(|_| {}));
    let found = Mutant::ALL.map(|mutant| (mutant, seed_that_finds(mutant)));
    _ = std::panic::take_hook();
    for (mutant, seed) in &found {
        println!("{mutant:?}: {}", seed.map_or("nothing".into(), |seed| format!("seed {seed}")));
    }
    let missed: Vec<_> = found.iter().filter(|(_, seed)| seed.is_none()).map(|(mutant, _)| mutant).collect();
    assert!(missed.is_empty(), "nothing finds {missed:?}");
}
