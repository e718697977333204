//! Engine `geogauss` under the load and the faults of the others: members that merge epochs.

use base::cut::Consistency;
use history::{Guarantee, check};
use sim::cluster::run::{self, Case};
use sim::command::tally;
use sim::plan::Plan;
use std::collections::BTreeMap;
use txn::any::EngineKind;
use txn::geogauss::Isolation;

fn case(seed: u64, plan: &str, level: Consistency) -> Case {
    Case { engine: EngineKind::Geogauss, ..Case::new(seed, Plan::named(plan).unwrap(), level) }
}

/// Runs seeds and adds up what the clients did; the first that fails is the test's failure.
fn seeds(make: impl Fn(u64) -> Case, seeds: std::ops::Range<u64>) -> BTreeMap<&'static str, u64> {
    tally(seeds.map(make))
}

#[test]
fn everything_is_strictly_serializable_whatever_happens_to_messages() {
    for plan in ["wan3-calm", "wan3-lossy", "wan3-jittery"] {
        let tally = seeds(|seed| case(seed, plan, Consistency::Rss), 0..4);
        for kind in ["one-shot commits", "procedures", "interactive commits", "queries", "strong reads"] {
            assert!(tally.get(kind).is_some_and(|found| *found > 0), "{plan}: {tally:?}");
        }
    }
}

#[test]
fn levels_of_reading_hold_whatever_happens_to_links_and_clocks() {
    for (plan, level) in [
        ("wan3-partitions", Consistency::Rss),
        ("wan3-clock-skew", Consistency::Rss),
        ("wan5-mixed", Consistency::Regular),
        ("wan2-mixed", Consistency::Session),
        ("local3-mixed", Consistency::Stale),
    ] {
        seeds(|seed| case(seed, plan, level), 100..103);
    }
}

/// A region loses its memory, is removed, and comes back with a copy; clients of the others go on meanwhile.
#[test]
fn a_region_that_loses_its_memory_is_removed_and_comes_back() {
    for (plan, level) in [
        ("wan3-forgets", Consistency::Rss),
        ("local3-forgets", Consistency::Regular),
        ("wan4-forgets", Consistency::Session),
        ("wan5-forgets", Consistency::Rss),
    ] {
        let tally = seeds(|seed| case(seed, plan, level), 0..4);
        for kind in ["one-shot commits", "procedures", "interactive commits", "queries"] {
            assert!(tally.get(kind).is_some_and(|found| *found > 0), "{plan}: {tally:?}");
        }
    }
}

/// It had taken effect before its gateway was lost; what the next gateway found in its way was its own effect.
#[test]
fn a_repeated_request_that_took_effect_is_not_told_that_it_failed() {
    seeds(|seed| case(seed, "local3-forgets", Consistency::Regular), 900_045..900_046);
}

#[test]
fn regions_are_lost_while_clocks_have_no_bound() {
    let unbounded =
        |seed| Case { unbounded_clocks: true, ..case(seed, "wan3-forgets", Consistency::Regular) };
    seeds(unbounded, 0..4);
}

#[test]
fn clocks_without_a_bound_cost_nothing_but_real_time_between_strangers() {
    for level in [Consistency::Regular, Consistency::Session] {
        seeds(|seed| Case { unbounded_clocks: true, ..case(seed, "wan3-mixed", level) }, 0..4);
    }
}

#[test]
fn weaker_levels_keep_what_they_promise_and_show_what_they_allow() {
    let weaker = |seed, isolation| Case { isolation, ..case(seed, "wan3-lossy", Consistency::Session) };
    for isolation in [Isolation::Snapshot, Isolation::RepeatableRead] {
        seeds(|seed| weaker(seed, isolation), 0..4);
    }
    // A list that loses an entry again is a lost update: versions of it have no order any more.
    let loses = |seed| run::run(&weaker(seed, Isolation::ReadCommitted)).is_err();
    assert!((0..6).any(loses), "read committed loses updates");
}

/// As SQL submits blocks at REPEATABLE READ, among transactions that are serializable.
#[test]
fn blocks_without_what_they_only_read_have_snapshot_isolation_and_no_more() {
    let forgets = |seed, plan| Case { blocks: Isolation::Snapshot, ..case(seed, plan, Consistency::Session) };
    for plan in ["wan3-calm", "wan3-lossy", "wan3-jittery"] {
        let tally = seeds(|seed| forgets(seed, plan), 0..4);
        assert!(tally.get("interactive commits").is_some_and(|found| *found > 0), "{plan}: {tally:?}");
    }
    let skews = |seed| {
        let ((_, ordered), _) = run::record(&forgets(seed, "wan3-lossy"));
        check(&ordered, Guarantee::Serializable).is_err()
    };
    assert!((0..12).any(skews), "write skew is possible");
}

/// As SQL submits blocks at READ COMMITTED: each statement reads at a cut of its own, and what a statement changes is as it
/// saw it, so lists never lose an entry. Adya's PL-2 holds, and single anti-dependencies close cycles (G-single).
#[test]
fn blocks_whose_statements_read_anew_are_read_committed_and_no_more() {
    let anew =
        |seed, plan| Case { blocks: Isolation::ReadCommitted, ..case(seed, plan, Consistency::Session) };
    for plan in ["wan3-calm", "wan3-lossy", "wan3-jittery"] {
        let tally = seeds(|seed| anew(seed, plan), 0..4);
        assert!(tally.get("interactive commits").is_some_and(|found| *found > 0), "{plan}: {tally:?}");
    }
    let shows = |guarantee| {
        (0..12).any(|seed| {
            let ((_, ordered), _) = run::record(&anew(seed, "wan3-lossy"));
            check(&ordered, guarantee).is_err()
        })
    };
    assert!(shows(Guarantee::ReadAtomic), "two statements of a block may see a part of another one each");
    assert!(shows(Guarantee::SnapshotIsolation), "what a block read first may have changed when it writes");
}
