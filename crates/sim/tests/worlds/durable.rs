//! Durable nodes under load, faults and crashes, seed after seed: nothing that was answered is lost.

use base::cut::Consistency;
use sim::cluster::durable::{Case, Trouble, run};
use sim::plan::Plan;
use sim::replay::run_twice;
use std::collections::BTreeMap;
use txn::any::EngineKind;

fn seeds(
    plan: &str,
    copies: u16,
    trouble: Trouble,
    seeds: std::ops::Range<u64>,
) -> BTreeMap<&'static str, u64> {
    let plan = Plan::named(plan).unwrap();
    let mut tally: BTreeMap<&'static str, u64> = BTreeMap::new();
    for seed in seeds {
        let case = Case::new(seed, plan.clone(), copies, trouble);
        let summary = std::panic::catch_unwind(|| run(&case)).unwrap_or_else(|_| Err("panicked".into()));
        let summary = summary.unwrap_or_else(|e| panic!("seed {seed} of {}: {e}", plan.name()));
        summary.tally.into_iter().for_each(|(what, n)| *tally.entry(what).or_default() += n);
        *tally.entry("crashes").or_default() += summary.counters.crashes;
    }
    println!("{} × {copies}, {trouble:?}: {tally:?}", plan.name());
    tally
}

#[test]
fn a_node_alone_comes_back_with_everything_it_has_answered() {
    for plan in ["wan3-calm", "wan3-lossy", "wan3-mixed"] {
        let tally = seeds(plan, 1, Trouble::Restarts, 0..15);
        assert!(50 < tally["crashes"] && 200 < tally["queries"], "{tally:?}");
    }
}

#[test]
fn a_group_of_three_loses_its_leader_for_good_and_nothing_else() {
    for plan in ["wan3-calm", "wan3-lossy", "wan3-clock-skew"] {
        let tally = seeds(plan, 3, Trouble::LeaderLost, 100..115);
        assert!(15 * 3 <= tally["crashes"] && 200 < tally["queries"], "{tally:?}");
    }
}

#[test]
fn a_group_of_three_loses_a_follower_for_good_and_nothing_else() {
    for plan in ["wan3-calm", "wan3-mixed"] {
        let tally = seeds(plan, 3, Trouble::FollowerLost, 200..212);
        assert!(12 * 3 <= tally["crashes"] && 150 < tally["queries"], "{tally:?}");
    }
}

#[test]
fn groups_of_three_survive_crashes_of_any_machines_at_any_moment() {
    for plan in ["wan3-calm", "wan3-lossy", "wan3-jittery", "wan3-partitions", "wan3-mixed"] {
        // These take longest of all.
        let tally = seeds(plan, 3, Trouble::Restarts, 300..304);
        assert!(12 < tally["crashes"] && 40 < tally["queries"], "{tally:?}");
    }
}

/// A log whose messages carry one entry each, on slow disks, is drawn together with nodes that say more by themselves.
/// Once its leader was lost it fell behind though nobody asked for anything, until an answer took ten seconds.
#[test]
fn a_log_that_carries_little_carries_what_an_idle_cluster_says() {
    let plan = Plan::named("wan3-clock-skew").unwrap();
    let case = Case { consistency: Consistency::Stale, ..Case::new(1583, plan, 3, Trouble::LeaderLost) };
    run(&case).unwrap_or_else(|e| panic!("{e}"));
}

/// Closed timestamps come seldom here, so a machine that was cut off right after the rows were loaded would read at level
/// `stale` from before that.
#[test]
fn what_was_loaded_is_there_at_every_level_however_seldom_timestamps_are_closed() {
    let plan = Plan::named("wan4-mixed").unwrap();
    let (engine, consistency) = (EngineKind::Caerus, Consistency::Stale);
    let case = Case { engine, consistency, ..Case::new(2627, plan, 3, Trouble::LeaderLost) };
    run(&case).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn regions_of_durable_nodes_restart_together_with_every_engine() {
    for (nth, engine) in EngineKind::ALL.into_iter().enumerate() {
        for seed in 500..503 {
            let plan = Plan::named(["wan3-lossy", "wan3-calm", "wan2-mixed"][seed as usize % 3]).unwrap();
            let copies = [1, 3][nth % 2];
            let case = Case { engine, ..Case::new(seed, plan, copies, Trouble::RegionRestarts) };
            run(&case).unwrap_or_else(|e| panic!("seed {seed} of {}: {e}", engine.name()));
        }
    }
}

#[test]
fn a_seed_decides_everything() {
    for (copies, trouble) in [(1, Trouble::Restarts), (3, Trouble::LeaderLost)] {
        let case = Case::new(400, Plan::named("wan3-mixed").unwrap(), copies, trouble);
        assert!(run_twice(|| run(&case)).unwrap_or_else(|e| panic!("{e}")).is_ok());
    }
}
