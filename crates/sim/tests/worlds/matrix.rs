//! What each way of reading promises, cell by cell: every promise over many seeds, and for every promise that
//! is *not* made a history that breaks it. `MERIDIAN_SEEDS` sets the number of seeds per row (nightly runs
//! take thousands).
//!
//! | | closed | regular | session | serializable | RSS |
//! |---|---|---|---|---|---|
//! | PERSEUS as printed | – | – | – | – | – |
//! | `regular` | yes | yes | yes | – | – |
//! | `rss` | yes | yes | yes | yes | yes |
//! | engine `caerus`, `regular` and `rss` | yes | yes | yes | yes | yes |
//! | engine `caerus`, `regular` where clocks have no bound | yes | yes | yes | yes | – |
//! | engine `caerus`, what a region has merged | yes | – | yes | – | – |
//!
//! Without a bound of clocks only real time between transactions that do not conflict is lost: everything else that
//! `rss` respects is respected, together and in one order ([`without_clocks`]). Level `rss` is refused there.
//!
//! The last row is no level; `txn::caerus` shows its long fork, and what it lacks, in its tests of scenarios.
//! The cells that `regular` lacks are also provoked on purpose in `tests/scenarios.rs`; other systems' rows
//! are in `tests/baselines.rs`.

use base::cut::Consistency;
use history::{AntiDependencies, Guarantee, RealTime, Rules, check};
use reads::rule::printed::Printed;
use sim::cluster::run::{Case, record, without_clocks};
use sim::plan::Plan;
use std::collections::BTreeMap;
use txn::any::EngineKind;

const PLANS: [&str; 4] = ["wan3-calm", "wan3-jittery", "wan3-partitions", "wan3-mixed"];

fn seeds(usual: u64) -> u64 {
    std::env::var("MERIDIAN_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

/// The columns, by the edges that a serial order has to respect.
fn columns() -> [(&'static str, Guarantee); 5] {
    let rules = |anti_dependencies, tied, real_time| {
        Guarantee::Custom(Rules { anti_dependencies, sessions: tied, tokens: tied, real_time })
    };
    [
        ("closed", Guarantee::Closed),
        ("regular", rules(AntiDependencies::OwnOfQueries, false, RealTime::Conflicting)),
        ("session", rules(AntiDependencies::OwnOfQueries, true, RealTime::Ignored)),
        ("serializable", Guarantee::Serializable),
        ("rss", Guarantee::Rss),
    ]
}

/// How often each column is broken in a cluster whose clocks have no bound, `rss` without real time between writers
/// that do not conflict among the columns.
fn broken_without_clocks(engine: EngineKind, count: u64) -> BTreeMap<&'static str, u64> {
    let mut broken = BTreeMap::new();
    for seed in 0..count {
        let plan = Plan::named(PLANS[seed as usize % PLANS.len()]).unwrap();
        let case = Case { engine, unbounded_clocks: true, ..Case::new(seed, plan, Consistency::Regular) };
        let ((all, _), end) = record(&case);
        end.unwrap_or_else(|e| panic!("seed {seed} of {}: {e}", engine.name()));
        for (name, guarantee) in columns().into_iter().chain([("all but real time", without_clocks())]) {
            if let Err(violation) = check(&all, guarantee) {
                println!("{name} is broken by seed {seed}: {}", violation.anomaly.name());
                *broken.entry(name).or_default() += 1;
            }
        }
    }
    println!("{}, {count} seeds: {broken:?}", engine.name());
    broken
}

/// Clocks are up to 3 s off and drift, regions are cut off and lose the lead of their sequences. That real time between
/// strangers is really lost, rarely here, a scenario of the engine shows (`txn::caerus::tests::calibrating`).
#[test]
fn without_a_bound_of_clocks_nothing_but_real_time_between_strangers_is_lost() {
    let broken = broken_without_clocks(EngineKind::Caerus, seeds(60));
    assert!(broken.keys().all(|name| *name == "rss"), "{broken:?}");
}

#[test]
fn the_baselines_find_their_cuts_without_clocks_too() {
    for engine in [EngineKind::Slog, EngineKind::Calvin] {
        let broken = broken_without_clocks(engine, seeds(12));
        assert!(broken.keys().all(|name| *name == "rss"), "{}: {broken:?}", engine.name());
    }
}

/// How often each column is broken, and by which seed first.
fn broken(level: Consistency, printed: Option<Printed>, count: u64) -> BTreeMap<&'static str, (u64, u64)> {
    broken_by(EngineKind::Perseus, level, printed, count)
}

fn broken_by(
    engine: EngineKind,
    level: Consistency,
    printed: Option<Printed>,
    count: u64,
) -> BTreeMap<&'static str, (u64, u64)> {
    let mut broken = BTreeMap::new();
    for seed in 0..count {
        let plan = Plan::named(PLANS[seed as usize % PLANS.len()]).unwrap();
        let case = Case { engine, printed, ..Case::new(seed, plan, level) };
        let ((all, _), end) = record(&case);
        end.unwrap_or_else(|e| panic!("seed {seed} at {}: {e}", level.name()));
        for (name, guarantee) in columns() {
            if let Err(violation) = check(&all, guarantee) {
                let entry = broken.entry(name).or_insert_with(|| {
                    println!("{name} is broken by seed {seed}: {}", violation.anomaly.name());
                    (0, seed)
                });
                entry.0 += 1;
            }
        }
    }
    println!("{} of {count} seeds: {broken:?}", level.name());
    broken
}

#[test]
fn the_printed_protocol_keeps_nothing() {
    let broken = broken(Consistency::Regular, Some(Printed::default()), seeds(60));
    let names: Vec<&str> = columns().iter().map(|(name, _)| *name).collect();
    assert!(names.iter().all(|name| broken.contains_key(name)), "only {broken:?}");
}

#[test]
fn regular_keeps_closure_regularity_and_sessions_and_not_one_order() {
    // That it breaks the other two is rare by chance, so `tests/scenarios.rs` does it on purpose.
    let broken = broken(Consistency::Regular, None, seeds(200));
    for name in ["closed", "regular", "session"] {
        assert!(!broken.contains_key(name), "{broken:?}");
    }
}

#[test]
fn rss_keeps_everything() {
    let broken = broken(Consistency::Rss, None, seeds(200));
    assert!(broken.is_empty(), "{broken:?}");
}

/// Full replicas serve both levels with the same cuts; see the decision in docs.
#[test]
fn with_full_replicas_both_levels_keep_everything() {
    for level in [Consistency::Regular, Consistency::Rss] {
        let broken = broken_by(EngineKind::Caerus, level, None, seeds(60));
        assert!(broken.is_empty(), "{}: {broken:?}", level.name());
    }
}
