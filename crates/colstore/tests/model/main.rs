//! The store beside a naive list of versions, under random records, merges, collections, catalog
//! changes and snapshots: every snapshot equals the list at its cut, now and later.

mod cases;
mod naive;
mod tables;
mod world;

use world::World;

/// Answers how many patches were applied.
fn run(seed: u64) -> usize {
    let mut world = World::new(seed);
    let changes = world.rng.chance(0.5);
    for _ in 0..500 {
        match world.rng.below(100) {
            0..60 => world.apply(),
            60..62 if changes => world.change_catalog(),
            62..66 => world.collect(),
            66..82 => world.merge(),
            82..92 => world.snapshot(),
            _ => world.check_kept(),
        }
    }
    // A cut above a change that has not been applied anywhere is one that no reader gets.
    while world.model.pending.values().any(|changes| !changes.is_empty()) {
        world.apply();
    }
    let newest = world.model.logs.values().flatten().max().copied().unwrap_or_default();
    for job in std::mem::take(&mut world.jobs) {
        world.store.install(job.run());
    }
    // When everything is collected and merged, nothing dead is left in segments that were rewritten.
    world.model.collected = world.model.collected.max(newest);
    while world.store.merge_step(1000, world.model.collected) > 0 {}
    world.snapshot();
    while !world.kept.is_empty() {
        world.check_kept();
    }
    world.patches
}

#[test]
fn every_snapshot_equals_the_naive_list_at_its_cut_for_ever() {
    let mut patches = 0;
    for seed in 0..60 {
        // The last line before a failure names the seed.
        println!("seed {seed}");
        patches += run(seed);
    }
    assert!(patches > 1_000, "{patches} patches");
}
