//! The other engine under the same load and faults: full replicas, partial sequences, rank cuts.

use base::cut::Consistency;
use sim::cluster::run::{self, Case};
use sim::command::{guarded, tally};
use sim::plan::{Mix, Plan};
use sim::replay::run_twice;
use std::collections::BTreeMap;
use txn::any::EngineKind;

fn case(seed: u64, plan: &str, level: Consistency) -> Case {
    let engine = EngineKind::Caerus;
    Case { engine, ..Case::new(seed, Plan::named(plan).unwrap(), level) }
}

/// Runs seeds and adds up what the clients did; the first that fails is the test's failure.
fn seeds(plan: &str, level: Consistency, seeds: std::ops::Range<u64>) -> BTreeMap<&'static str, u64> {
    tally(seeds.map(|seed| case(seed, plan, level)))
}

#[test]
fn queries_are_regular_sequential_whatever_happens_to_messages() {
    for mix in [Mix::Calm, Mix::Lossy, Mix::Jittery] {
        let tally = seeds(&format!("wan3-{}", mix.name()), Consistency::Rss, 0..30);
        for kind in [
            "one-shot commits",
            "one-shot aborts",
            "procedures",
            "interactive commits",
            "interactive aborts",
            "read-only transactions",
            "queries",
            "strong reads",
            "columns compared with rows",
        ] {
            let found = tally.get(kind).copied().unwrap_or(0);
            assert!(found >= 15, "{kind}: {found} in {tally:?}");
        }
    }
}

#[test]
fn queries_are_regular_sequential_whatever_happens_to_links_clocks_and_gateways() {
    for mix in [Mix::Partitions, Mix::ClockSkew, Mix::Mixed, Mix::Crash] {
        let tally = seeds(&format!("wan3-{}", mix.name()), Consistency::Rss, 100..125);
        // With K = 0 what needs a region that is cut off is refused.
        let refused = tally.get("refused because of a silent region").copied().unwrap_or(0);
        assert!(mix != Mix::Partitions || refused >= 5, "{tally:?}");
    }
    seeds("wan5-partitions", Consistency::Rss, 0..6);
    seeds("azure6-mixed", Consistency::Rss, 0..4);
    seeds("wan2-mixed", Consistency::Rss, 0..10);
    seeds("local3-mixed", Consistency::Rss, 0..10);
}

/// A gateway that is lost while clocks stray leaves requests without an answer; what they did may be read.
#[test]
fn what_has_no_answer_when_a_run_ends_may_have_taken_effect() {
    use Consistency::{Regular, Session};
    for (seed, engine, level) in [(79, EngineKind::Caerus, Session), (78, EngineKind::Calvin, Regular)] {
        let case = Case { engine, ..case(seed, "wan3-mixed-drift", level) };
        guarded(&case, engine.name(), || run::run(&case)).unwrap_or_else(|e| panic!("{e}"));
    }
}

#[test]
fn weaker_levels_keep_what_they_promise() {
    for level in [Consistency::Regular, Consistency::Session, Consistency::Stale] {
        seeds("wan3-mixed", level, 200..215);
    }
}

#[test]
fn a_seed_repeats_itself() {
    let case = case(7, "wan3-mixed", Consistency::Rss);
    run_twice(|| run::run(&case)).unwrap().unwrap();
}

#[test]
fn a_node_whose_clock_drifts_takes_itself_out_before_anybody_reads_the_past() {
    for engine in [EngineKind::Perseus, EngineKind::Caerus] {
        let mut refused = 0;
        for seed in 300..330 {
            let case = Case { engine, ..case(seed, "wan3-drift", Consistency::Rss) };
            let summary = guarded(&case, engine.name(), || run::run(&case)).unwrap_or_else(|e| panic!("{e}"));
            refused += summary.tally.get("refused by a node that is out").copied().unwrap_or(0);
        }
        assert!(refused > 20, "{}: {refused}", engine.name());
    }
}

#[test]
fn regions_that_lose_their_memory_come_back_and_nothing_that_was_answered_is_lost() {
    let mut tally = seeds("wan3-forgets", Consistency::Rss, 400..430);
    let five = seeds("wan5-forgets", Consistency::Rss, 440..450);
    five.into_iter().for_each(|(what, n)| *tally.entry(what).or_default() += n);
    for kind in ["requests repeated", "refused by a node that is out", "one-shot commits", "queries"] {
        let found = tally.get(kind).copied().unwrap_or(0);
        assert!(found >= 5, "{kind}: {found} in {tally:?}");
    }
    // The same while a clock runs off.
    seeds("wan3-drift-forgets", Consistency::Rss, 470..480);
}

/// Sequences change their leaders while few regions hold what was answered, or know what was promised, and these lose
/// their memory.
#[test]
fn what_few_regions_hold_or_have_promised_outlives_a_change_of_leaders() {
    seeds("wan5-take-overs", Consistency::Rss, 25..27);
    seeds("wan3-take-overs", Consistency::Session, 43..45);
    seeds("azure6-take-overs", Consistency::Regular, 1..3);
    // Its last region loses its memory just before everything is healed.
    seeds("azure6-take-overs", Consistency::Rss, 3725..3726);
}

#[test]
fn homes_that_move_all_the_time_are_read_as_they_are() {
    seeds("wan3-moves", Consistency::Rss, 1..4);
}

/// A region takes over a sequence, and the former leader takes it back with entries that the region has not, before what
/// it took over was safe. It must not have told a closed timestamp above theirs: it would refuse them for ever.
#[test]
fn a_leader_tells_no_closed_timestamp_before_what_it_took_over_is_safe() {
    seeds("wan5-everything", Consistency::Session, 900_011..900_012);
}

/// Crashed nodes come back with what they had recorded: all regions may lose their processes together, and with K = 0 there
/// is nobody else to ask.
#[test]
fn nodes_that_crash_come_back_with_what_they_recorded() {
    let mut records = 0;
    // MERIDIAN_SEEDS=1000 for a night.
    let seeds = std::env::var("MERIDIAN_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(12);
    let plans = ["wan3-forgets", "wan3-take-overs", "wan3-drift-forgets", "wan5-forgets"];
    for (nth, plan) in (0..).zip(plans) {
        for seed in 500 + nth..500 + nth + seeds / (1 + nth) {
            let case = Case { records: true, ..case(seed, plan, Consistency::Rss) };
            let summary = guarded(&case, "caerus", || run::run(&case)).unwrap_or_else(|e| panic!("{e}"));
            records += summary.counters.records_persisted;
            assert!(summary.counters.crashes > 0);
        }
    }
    assert!(records > 1_000, "{records}");
}
