//! Random worlds: each seed is a directory's history of lives. `MERIDIAN_SEEDS=100000` is the size for a night.

use crate::world::{Summary, run};

#[test]
fn a_store_keeps_its_word_whatever_the_disk_does() {
    let mut all = Summary::default();
    let seeds = std::env::var("MERIDIAN_SEEDS").map_or(600, |text| text.parse().expect("a number"));
    for seed in 0..seeds {
        let one = run(seed, |_| {});
        all.openings += one.openings;
        all.stable_records += one.stable_records;
        all.checkpoints += one.checkpoints;
        all.crashed_openings += one.crashed_openings;
        all.power_losses += one.power_losses;
        all.torn_tails += one.torn_tails;
        all.lost_records += one.lost_records;
        all.unfinished_checkpoints += one.unfinished_checkpoints;
        all.damaged_checkpoints += one.damaged_checkpoints;
        all.failed_syncs += one.failed_syncs;
        all.full_disks += one.full_disks;
        all.given_up_checkpoints += one.given_up_checkpoints;
        all.repeated_writes += one.repeated_writes;
        all.deleted_segments += one.deleted_segments;
    }
    println!("{all:?}");
    assert!(all.stable_records > 50_000 && all.checkpoints > 1_000, "{all:?}");
    assert!(all.crashed_openings > 500 && all.power_losses > 1_000, "{all:?}");
    assert!(all.torn_tails > 200 && all.lost_records > 1_000, "{all:?}");
    assert!(all.unfinished_checkpoints > 200 && all.damaged_checkpoints > 100, "{all:?}");
    assert!(all.failed_syncs > 100 && all.full_disks > 100 && all.deleted_segments > 1_000, "{all:?}");
    assert!(all.given_up_checkpoints > 5 && all.repeated_writes > 200, "{all:?}");
}

#[test]
fn a_seed_decides_everything() {
    for seed in 700..710 {
        assert_eq!(run(seed, |_| {}), run(seed, |_| {}));
    }
}
