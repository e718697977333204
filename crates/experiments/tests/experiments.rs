//! Experiments run, say under which conditions, and show what the rules about ranks are for.

use base::time::MS;
use experiments::deterministic::scene;
use experiments::{Report, Scale};

/// Runs an experiment at its smallest.
fn experiment(name: &str) -> Report {
    experiments::named(name).unwrap().run_all(Scale::Small, 1, &mut |_, _| {})
}

fn latency() -> Report {
    experiment("perseus3-latency")
}

/// A figure of the row of this system and kind.
fn figure(report: &Report, system: &str, kind: &str, column: &str) -> f64 {
    let value = |row: &experiments::Line, name: &str| {
        row.iter().find(|(column, _)| *column == name).map(|(_, value)| value.clone()).unwrap_or_default()
    };
    let row = report.rows.iter().find(|row| value(row, "system") == system && value(row, "kind") == kind);
    value(row.unwrap_or_else(|| panic!("no row {system}, {kind}")), column).as_f64().unwrap()
}

#[test]
fn ranks_in_the_future_and_lower_bounds_keep_local_queries_from_waiting() {
    let report = latency();
    let waits = |system| figure(&report, system, "local query", "waits_over_inside_pct");
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
fn queries_of_a_region_with_full_replicas_wait_for_nothing_but_its_own_nodes() {
    let report = experiment("caerus-latency");
    let text = report.to_text();
    for distances in ["azure6", "perseus3"] {
        let of = |variant: &str, column: &str| {
            figure(&report, &format!("{distances}, {variant}"), "local query, rss", column)
        };
        assert!(of("both rules", "waits_over_inside_pct") < 5.0, "{text}");
        assert!(of("both rules", "total_p99_ms") <= 10.0, "{text}");
        // Without the rules some wait for transactions that span regions.
        assert!(of("neither rule", "total_p99_ms") > 5.0 * of("both rules", "total_p99_ms"), "{text}");
    }
}

/// Caerus and its baselines on the same nodes: one round trip, the order of all regions and a piece's way, or the
/// order of all regions for everything.
#[test]
fn baselines_pay_for_an_order_of_all_regions() {
    let workload = scene::Workload::BeginRide { close: 0.2, far: 0.1 };
    let mean_ms = |system| {
        let case = scene::Case { system, workload, place: scene::Place::NorthAmerica, clients: 24 };
        let (homes_per_region, warm_up_ns, measured_ns) = (2, 100 * MS, 200 * MS);
        let size = scene::Size { homes_per_region, warm_up_ns, measured_ns, ..scene::Size::of(Scale::Small) };
        let shared = scene::run(&case, &size, 1, &mut |_| {});
        let seen = shared.seen.borrow();
        assert_eq!(seen.unanswered, 0, "{}", case.name());
        seen.done.iter().map(|done| done.latency_ns).sum::<u64>() as f64 / seen.done.len() as f64 / 1e6
    };
    let idealised = scene::IDEALISED.map(mean_ms);
    let [caerus, slog, calvin] = idealised;
    assert!(caerus < 6.0 && 1.5 * caerus < slog && 1.5 * slog < calvin, "{idealised:?}");
    // Rounds inside a region and between regions, and longer batches: each is paid for.
    let described = scene::SYSTEMS.map(mean_ms);
    assert!(
        described.iter().zip(idealised).all(|(with, without)| without < *with),
        "{described:?}, {idealised:?}"
    );
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
    let text = experiments::named("warp").err().expect("there is no such experiment").to_string();
    assert!(text.contains("perseus3-latency"), "{text}");
}

/// The systems of PERSEUS' third table, as small as they get.
#[test]
fn local_queries_are_fresh_and_baselines_pay_where_they_should() {
    let report = experiment("perseus-table3");
    let text = report.to_text();
    let of = |system: &str, mode: &str, column: &str| {
        report
            .figure(&[("system", system), ("mode", mode)], column)
            .unwrap_or_else(|| panic!("{mode}\n{text}"))
    };
    for mode in ["regular", "rss"] {
        assert!(of("PERSEUS", mode, "total_ms") <= 15.0, "{text}");
        assert!(of("PERSEUS", mode, "staleness_ms") < 1.0, "{text}");
    }
    assert!(of("PERSEUS", "rss, neither rule", "wait_ms") > of("PERSEUS", "rss", "wait_ms"), "{text}");
    // Lightning reads at once what is old; one way across is the least it can be.
    let lightning = "safe timestamp, 30 ms";
    assert_eq!(of("Lightning", lightning, "coordination_ms") + of("Lightning", lightning, "wait_ms"), 0.0);
    assert!(of("Lightning", lightning, "staleness_ms") > 50.0, "{text}");
    let future = of("Lightning", "safe timestamp, 30 ms, with future ranks", "staleness_ms");
    assert!((50.0..of("Lightning", lightning, "staleness_ms")).contains(&future), "{text}");
    // Four of five data centres ask an oracle, and a manager, 100 ms away.
    assert!((75.0..100.0).contains(&of("TiDB", "central timestamp", "coordination_ms")), "{text}");
    assert_eq!(of("TiDB", "central timestamp", "staleness_ms"), 0.0, "{text}");
    assert!((75.0..100.0).contains(&of("Janus-HTAP", "batch cut, 50 ms", "coordination_ms")), "{text}");
    assert!(of("Janus-HTAP", "batch cut, 50 ms", "staleness_ms") > 10.0, "{text}");
    // Whoever makes writers wait for every copy need not ask, but writers pay.
    let replica = "synchronous replica";
    assert_eq!(of("Spanner-RSS", replica, "staleness_ms"), 0.0, "{text}");
    assert!(of("Spanner-RSS", replica, "single_region_p50_ms") >= 100.0, "{text}");
    assert!(of("PERSEUS", "rss", "single_region_p50_ms") < 5.0, "{text}");
}

/// Every experiment on PERSEUS runs, at its smallest, and has rows, conditions and something to look at.
#[test]
fn global_queries_take_one_round_trip_and_the_others_run() {
    let of = |name: &str| experiment(name);
    let table4 = of("perseus-table4");
    let text = table4.to_text();
    let of_mode = |mode| table4.figure(&[("system", "PERSEUS"), ("mode", mode)], "total_ms").unwrap();
    for mode in ["regular", "rss"] {
        assert!((100.0..232.5).contains(&of_mode(mode)), "{text}");
    }
    for name in ["perseus-fig7", "perseus-fig8"] {
        let report = of(name);
        assert!(!report.rows.is_empty() && !report.conditions.is_empty() && !report.plots.is_empty());
        for row in &report.rows {
            assert!(experiments::number(row, "queries").unwrap() > 0.0, "{}", report.to_text());
        }
    }
}

#[test]
fn the_22_queries_are_fresh_and_isolation_and_throughput_are_told() {
    let of = |name: &str| experiment(name);
    let fig6 = of("perseus-fig6");
    let rows = fig6.rows.iter().filter(|row| experiments::cell(row, "system") == "PERSEUS");
    let delays: Vec<f64> = rows.filter_map(|row| experiments::number(row, "total_ms")).collect();
    assert_eq!(delays.len(), 2 * 22);
    assert!(delays.iter().all(|ms| (1.0..15.0).contains(ms)), "{}", fig6.to_text());

    let fig9 = of("perseus-fig9");
    for (saturated, figure) in
        [("transactions while queries", "tp_per_s"), ("queries while transactions", "queries_per_s")]
    {
        let rows = fig9.rows.iter().filter(|row| experiments::cell(row, "saturated") == saturated);
        let figures: Vec<f64> = rows.filter_map(|row| experiments::number(row, figure)).collect();
        assert!(figures.len() == 15 && figures.iter().all(|per_s| *per_s > 0.0), "{}", fig9.to_text());
    }

    let fig12 = of("perseus-fig12");
    let of = |shipping: &str, column: &str| {
        fig12.figure(&[("shipping", shipping), ("clients", "200")], column).unwrap()
    };
    let (with, without) = ("updates and graph are shipped", "nothing is shipped");
    assert!(of(with, "tp_per_s") > 0.5 * of(without, "tp_per_s"), "{}", fig12.to_text());
    assert_eq!(of(without, "graph_bytes_streamed_per_txn"), 0.0);
    assert!((5.0..200.0).contains(&of(with, "graph_bytes_streamed_per_txn")), "{}", fig12.to_text());
    assert!(of(with, "megabits_per_node") > of(with, "graph_megabits_per_node"), "{}", fig12.to_text());
}

/// Three minutes here; an hour by `--scale paper`.
#[test]
fn memory_stays_flat() {
    let report = experiment("perseus-hour");
    assert!(report.claims.iter().all(|claim| claim.holds()), "{}", report.to_text());
    for entries in
        ["vertices", "row versions", "stream items", "vertices of readers", "words of collected ids"]
    {
        let most = report.figure(&[("entries", entries)], "most_in_second_half").unwrap();
        assert!(most > 0.0, "{entries}\n{}", report.to_text());
    }
}

/// Figures 9 to 12 of PolarDB-SCC with the fewest clients of each policy: strong reads are never stale, and what the figures
/// are about is there to be read.
#[test]
fn workloads_at_replicas_are_strong_and_stale_reads_are_seen_to_be_stale() {
    for name in ["scc-fig9", "scc-fig10", "scc-fig11", "scc-fig12"] {
        let experiment = experiments::named(name).unwrap();
        let parts = (experiment.parts)(Scale::Small);
        let fewest =
            parts.iter().enumerate().filter(|(_, part)| name == "scc-fig11" || part.contains(" 16 clients"));
        let run = |(part, _)| (experiment.run)(Scale::Small, 1, part, &mut |_| {});
        let report = experiment.report(Scale::Small, 1, fewest.map(run).collect());
        let text = report.to_text();
        assert!(report.rows.len() >= 4 && !report.plots.is_empty(), "{text}");
        for row in &report.rows {
            let of = |column| experiments::number(row, column).unwrap();
            assert!(of("throughput") > 0.0 && of("writes_per_s") > 0.0, "{text}");
            let is_strong = experiments::cell(row, "policy") != "stale";
            assert!(if is_strong { of("stale_reads") == 0.0 } else { of("stale_reads") > 0.0 }, "{text}");
        }
        let of = |policy, column| report.figure(&[("policy", policy)], column).unwrap();
        assert!(of("read_wait", "throughput") < of("scc", "throughput"), "{text}");
    }
}
