//! Rivals' ways of reading, each held against what it claims, and shown to lack what it does not claim.

use base::cut::Consistency;
use history::{Guarantee, check};
use reads::rival::Rival;
use sim::cluster::run::{Case, promised_by, record, run};
use sim::plan::Plan;

const PLANS: [&str; 6] =
    ["wan3-calm", "wan3-lossy", "wan3-jittery", "wan3-partitions", "wan3-clock-skew", "wan2-mixed"];

fn case(rival: Rival, plan: &str, seed: u64) -> Case {
    Case { rival: Some(rival), ..Case::new(seed, Plan::named(plan).unwrap(), Consistency::Rss) }
}

/// A few seeds of every plan.
fn keeps(rival: Rival) {
    for plan in PLANS {
        for seed in 1..=3 {
            let summary = run(&case(rival, plan, seed));
            let summary = summary.unwrap_or_else(|e| panic!("{} {plan} {seed}: {e}", rival.name()));
            assert!(summary.operations > 0);
        }
    }
}

/// Some seed shows clients something that `guarantee` forbids, although the rival kept what it promises.
fn lacks(rival: Rival, guarantee: Guarantee) {
    for seed in 1..=40 {
        let ((all, _), result) = record(&case(rival, "wan3-calm", seed));
        result.unwrap();
        assert!(check(&all, promised_by(rival)).is_ok());
        if check(&all, guarantee).is_err() {
            return;
        }
    }
    panic!("{} kept {guarantee} in every seed", rival.name());
}

#[test]
fn safe_timestamps_are_serializable_and_keep_sessions() {
    keeps(Rival::SafeTimestamp);
}

#[test]
fn safe_timestamps_miss_what_was_answered_before() {
    lacks(Rival::SafeTimestamp, Guarantee::Regular);
}

#[test]
fn central_timestamps_are_regular_and_serializable() {
    keeps(Rival::CentralTimestamp);
}

#[test]
fn batch_cuts_are_serializable() {
    keeps(Rival::BatchCut);
}

#[test]
fn batch_cuts_miss_what_was_answered_before_and_even_a_sessions_own_writes() {
    lacks(Rival::BatchCut, Guarantee::Regular);
    lacks(Rival::BatchCut, Guarantee::Session);
}

#[test]
fn synchronous_replicas_are_regular_and_serializable() {
    keeps(Rival::SynchronousReplica);
}

#[test]
fn rivals_are_found_by_name() {
    for rival in Rival::ALL {
        assert_eq!(Rival::parse(rival.name()), Some(rival));
        assert!(sim::command::ENGINES.contains(&format!("perseus+{}", rival.name()).as_str()));
    }
    assert_eq!(Rival::parse("spanner"), None);
}
