//! Experiments run, say under which conditions, and show what the rules about ranks are for.

use sim::command::{ExperimentOptions, Trouble, experiment};
use sim::experiment::{Report, Scale};

fn latency() -> Report {
    let options = ExperimentOptions { name: "perseus3-latency".into(), scale: Scale::Small, seed: 1 };
    experiment(&options).unwrap()
}

/// A figure of the row of this system and kind.
fn figure(report: &Report, system: &str, kind: &str, column: &str) -> f64 {
    let value = |row: &sim::experiment::Line, name: &str| {
        row.iter().find(|(column, _)| *column == name).map(|(_, value)| value.clone()).unwrap_or_default()
    };
    let row = report.rows.iter().find(|row| value(row, "system") == system && value(row, "kind") == kind);
    value(row.unwrap_or_else(|| panic!("no row {system}, {kind}")), column).as_f64().unwrap()
}

#[test]
fn ranks_in_the_future_and_lower_bounds_keep_local_queries_from_waiting() {
    let report = latency();
    let waits = |system| figure(&report, system, "local query", "waits_over_2ms_pct");
    assert!(waits("rss, both rules") < waits("rss, neither rule"), "{}", report.to_text());
    for system in ["rss, both rules", "regular"] {
        let delay_ms = figure(&report, system, "local query", "total_ms");
        // One round trip inside the region, and a WAN round trip nowhere.
        assert!((2.0..15.0).contains(&delay_ms), "{system}: {delay_ms}");
    }
    let commit_ms = figure(&report, "rss, both rules", "single-region commit, all", "latency_ms");
    assert!(commit_ms <= 5.0, "{commit_ms}");
    // The order is known after one WAN round trip, the answer comes after two.
    let kind = "multi-region commit, unblocked";
    assert!((100.0..110.0).contains(&figure(&report, "rss, neither rule", kind, "order_ms")));
    assert!((200.0..235.0).contains(&figure(&report, "rss, neither rule", kind, "latency_ms")));
}

#[test]
fn a_report_says_under_which_conditions_it_was_taken() {
    let json = latency().to_json();
    for key in ["experiment", "seed", "scale", "conditions", "rows", "claims"] {
        assert!(json.get(key).is_some(), "{key} is missing");
    }
    assert_eq!(json["conditions"]["clock bound (ms)"], 1.0);
    assert!(json["conditions"].get("cost of an event (µs)").is_some());
}

#[test]
fn an_unknown_experiment_is_answered_with_the_known_ones() {
    let options = ExperimentOptions { name: "warp".into(), scale: Scale::Small, seed: 1 };
    let Err(Trouble::Usage(text)) = experiment(&options) else { panic!("there is no such experiment") };
    assert!(text.contains("perseus3-latency"), "{text}");
}
