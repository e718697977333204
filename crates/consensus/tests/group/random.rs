//! Groups under loss, duplication, reordering, cuts, crashes, torn writes and clocks that err.

use crate::world::{Plan, run};

#[test]
fn a_log_keeps_its_promises_whatever_happens() {
    let (mut elections, mut committed, mut crashes, mut leases) = (0, 0, 0, 0);
    let (mut taken, mut restored) = (0, 0);
    for seed in 0..300 {
        let summary = run(Plan::draw(seed));
        elections += summary.elections;
        committed += summary.committed;
        crashes += summary.crashes;
        leases += summary.lease_readings;
        taken += summary.taken;
        restored += summary.restored;
    }
    println!("{taken} checkpoints, {restored} restored from");
    assert!(10_000 < taken && 200 < restored, "{taken} checkpoints, {restored} restored from");
    assert!(
        500 < elections && 20_000 < committed && 1_000 < crashes && 100_000 < leases,
        "{elections} elections, {committed} entries, {crashes} crashes, {leases} readings of leases"
    );
}

#[test]
fn a_seed_decides_everything() {
    for seed in 400..405 {
        assert_eq!(run(Plan::draw(seed)), run(Plan::draw(seed)));
    }
}

#[test]
fn a_calm_group_elects_once_and_keeps_its_leader() {
    for seed in 0..20 {
        let mut plan = Plan::draw(seed);
        plan.members = 3;
        (plan.loss, plan.duplication) = (0.0, 0.0);
        (plan.delay_ns_max, plan.sync_ns_max) = (1_000_000, 200_000);
        plan.trouble_every_ns = u64::MAX / 4;
        let summary = run(plan);
        assert!(summary.elections <= 2, "seed {seed}: {} elections", summary.elections);
        assert!(80 < summary.committed);
    }
}
