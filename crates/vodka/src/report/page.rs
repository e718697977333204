//! The page: tables, plots, notes, configuration.

use super::{headline, line, ms, percent, spread, words};
use crate::figures::{CardinalityFigures, FreshnessPoint, Run, Side, Spread};
use pages::{Page, plot};
use std::collections::BTreeMap;

/// The page.
///
/// # Errors
/// If a plot cannot be drawn.
pub fn render(run: &Run) -> anyhow::Result<String> {
    let mut page = Page::new(&run.title);
    page.note(&format!("{:.0} s measured; ended {}", run.throughput.measured_s, run.ended_at));
    if let Some(why) = &run.incomplete {
        page.bad(&format!(
            "Incomplete: the run ended early, and all figures are of what was measured before. {why}"
        ));
    }
    let head: Vec<_> = headline(run).into_iter().map(|(name, value)| line(name, [value])).collect();
    page.table(&words(&["", ""]), &head);
    throughput(&mut page, run)?;
    queries(&mut page, run)?;
    freshness(&mut page, run)?;
    super::frontier::add(&mut page, run)?;
    surroundings(&mut page, run);
    Ok(page.finish())
}

fn throughput(page: &mut Page, run: &Run) -> anyhow::Result<()> {
    page.heading("Transactions");
    let lines: Vec<_> = run
        .throughput
        .transactions
        .iter()
        .map(|t| {
            let [p50, p95, p99, max] = spread(Some(t.latency_ms));
            let counts = [t.committed, t.rolled_back, t.retried, t.failed].map(|n| n.to_string());
            line(&t.name, counts).into_iter().chain([p50, p95, p99, max]).collect()
        })
        .collect();
    let columns = ["", "committed", "rolled back", "retried", "failed", "p50 ms", "p95", "p99", "max"];
    page.table(&words(&columns), &lines);
    let mut series =
        vec![plot::Series { name: "committed".into(), points: run.throughput.tps_by_second.clone() }];
    if let (Some(target), Some(last)) = (run.throughput.tps_target, run.throughput.tps_by_second.last()) {
        series.push(plot::Series { name: "offered".into(), points: vec![(0.0, target), (last.0, target)] });
    }
    if !run.throughput.tps_by_second.is_empty() {
        page.figure("Transactions per second", &plot::linear("s", "transactions per second", series)?);
    }
    Ok(())
}

fn queries(page: &mut Page, run: &Run) -> anyhow::Result<()> {
    page.heading("Queries");
    page.note(
        "Cardinality error: rows of each operator at the end of the run against those of its begin times the growth \
         of the tables behind them; below 2 % means that the query's work followed the data. Model error: mean \
         predicted against mean measured latency of the last third of the executions, from the first two thirds.",
    );
    let lines: Vec<_> = run
        .analysis
        .queries
        .iter()
        .map(|q| {
            let [p50, _, p99, _] = spread(q.latency_ms);
            let alpha = q.alpha.map_or("–".into(), |alpha| format!("{alpha:.3}"));
            let note = q.error.clone().unwrap_or_else(|| q.cardinality_note.clone());
            let note: String = note.lines().next().unwrap_or_default().chars().take(90).collect();
            line(
                &q.name,
                [
                    q.executions.to_string(),
                    q.failed.to_string(),
                    p50,
                    p99,
                    alpha,
                    percent(q.cardinality_error),
                    percent(q.model_error),
                    note,
                ],
            )
        })
        .collect();
    let columns =
        ["", "executed", "failed", "p50 ms", "p99 ms", "α", "cardinality error", "model error", "note"];
    page.table(&words(&columns), &lines);
    let bars: Vec<_> = run
        .analysis
        .queries
        .iter()
        .filter_map(|q| Some((q.name.clone(), vec![q.cardinality_error? * 100.0])))
        .collect();
    if !bars.is_empty() {
        page.figure("Cardinality error, %", &plot::horizontal("%", &words(&["error"]), &bars)?);
    }
    let latencies: Vec<_> =
        run.analysis.queries.iter().filter_map(|q| Some((q.name.clone(), vec![q.latency_ms?.p50]))).collect();
    if !latencies.is_empty() {
        page.figure("Median latency, ms", &plot::horizontal("ms", &words(&["p50"]), &latencies)?);
    }
    cardinality(page, run)
}

fn freshness(page: &mut Page, run: &Run) -> anyhow::Result<()> {
    page.heading("Freshness and data sharing");
    let lines: Vec<_> = run
        .visibility
        .freshness
        .iter()
        .map(|(name, f)| {
            line(
                name,
                [
                    f.answers.to_string(),
                    f.stale_answers.to_string(),
                    ms(f.freshness_ms.p50),
                    ms(f.freshness_ms.p99),
                    ms(f.freshness_ms.max),
                    f.missing_rows.to_string(),
                    ms(f.missing_age_ms.max),
                    ms(f.hattrick_ms.p50),
                    ms(f.hattrick_ms.p99),
                ],
            )
        })
        .collect();
    let columns = [
        "",
        "answers",
        "stale",
        "p50 ms",
        "p99 ms",
        "max ms",
        "missing rows",
        "oldest missing ms",
        "HATtrick p50",
        "p99",
    ];
    page.table(&words(&columns), &lines);
    if let Some(h) = &run.visibility.hattrick {
        let [p50, p95, p99, max] = spread(Some(h.freshness_ms));
        let counts = [h.answers, h.stale_answers, h.unseen_max].map(|n| n.to_string());
        let cells = counts.into_iter().chain([p50, p95, p99, max]);
        let cells: Vec<String> = std::iter::once("by vodka_freshness".to_string()).chain(cells).collect();
        let columns =
            ["HATtrick's freshness", "answers", "stale", "most unseen", "p50 ms", "p95", "p99", "max"];
        page.table(&words(&columns), &[cells]);
    }
    staleness(page, run)?;
    let of = |name: &str, found: Option<Spread>| {
        let mean = found.map_or("–".into(), |s| ms(s.mean));
        let [p50, _, _, max] = spread(found);
        line(name, [mean, p50, max])
    };
    let lines = [
        of("the last write of all (as published)", run.visibility.sync.last_write_ms),
        of("the last write of every partition", run.visibility.sync.all_partitions_ms),
    ];
    page.table(&words(&["a write is visible after", "mean ms", "p50 ms", "max ms"]), &lines);
    page.note(&format!(
        "{} probes, {} given up; each figure may be off by {} ms, half the time between two looks for a write.",
        run.visibility.sync.probes,
        run.visibility.sync.given_up,
        ms(run.visibility.sync.error_ms)
    ));
    Ok(())
}

/// What of an answer is drawn over the run.
type OfPoint = fn(&FreshnessPoint) -> f64;

/// One line for each freshness query and each definition.
fn staleness(page: &mut Page, run: &Run) -> anyhow::Result<()> {
    let series = |name: &str, of: OfPoint| {
        let mut by_query: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
        for point in &run.visibility.freshness_points {
            by_query.entry(&point.query).or_default().push((point.at_s, of(point)));
        }
        let named = |(query, points): (&str, Vec<(f64, f64)>)| plot::Series {
            name: format!("{name} {query}").trim().to_string(),
            points,
        };
        by_query.into_iter().map(named).collect::<Vec<_>>()
    };
    let mut stale = series("Eq. 16", |p| p.freshness_ms);
    stale.extend(series("HATtrick by rows", |p| p.hattrick_ms));
    if let Some(hattrick) = &run.visibility.hattrick {
        let (name, points) = ("HATtrick by vodka_freshness".into(), hattrick.points.clone());
        stale.push(plot::Series { name, points });
    }
    if !stale.is_empty() {
        page.figure("Staleness of answers, ms", &plot::linear("s", "ms", stale)?);
    }
    let missing = series("missing", |p| p.missing_rows as f64);
    if !missing.is_empty() {
        page.figure("Missing rows per answer", &plot::linear("s", "rows", missing)?);
    }
    Ok(())
}

/// Cardinality errors at instants of the run.
fn cardinality(page: &mut Page, run: &Run) -> anyhow::Result<()> {
    let during = &run.analysis.cardinality_during;
    if during.is_empty() {
        return Ok(());
    }
    let columns = std::iter::once(String::new());
    let columns: Vec<String> =
        columns.chain(during.iter().map(|at| format!("after {:.0} s", at.at_s))).collect();
    let cells = |name: &str, of: &dyn Fn(&CardinalityFigures) -> Option<f64>| {
        std::iter::once(name.to_string()).chain(during.iter().map(|at| percent(of(at)))).collect::<Vec<_>>()
    };
    let queries = run.analysis.queries.iter();
    let mut lines: Vec<_> =
        queries.map(|q| cells(&q.name, &|at: &CardinalityFigures| at.errors.get(&q.name).copied())).collect();
    lines.push(cells("worst", &CardinalityFigures::worst));
    lines.push(cells("mean", &CardinalityFigures::mean));
    page.note(
        "Cardinality errors during the run, of plans that were read while transactions went on: rows that were \
         committed between the count of the tables and the query are in them.",
    );
    page.table(&columns, &lines);
    let series = |name: &str, of: fn(&CardinalityFigures) -> Option<f64>| plot::Series {
        name: name.into(),
        points: during.iter().filter_map(|at| Some((at.at_s, of(at)? * 100.0))).collect(),
    };
    let both = vec![series("worst", CardinalityFigures::worst), series("mean", CardinalityFigures::mean)];
    page.figure("Cardinality error during the run, %", &plot::linear("s", "%", both)?);
    Ok(())
}

fn surroundings(page: &mut Page, run: &Run) {
    if !run.resources.is_empty() {
        page.heading("Resources");
        let lines: Vec<_> = run
            .resources
            .iter()
            .map(|u| {
                let share = u.cpu_s / run.throughput.measured_s.max(f64::MIN_POSITIVE);
                let memory = u.memory_mb_max.map_or_else(|| "shared".into(), |mb| format!("{mb:.0}"));
                line(&u.class, [format!("{:.1}", u.cpu_s), format!("{share:.2}"), memory])
            })
            .collect();
        page.table(&words(&["", "processor s", "cores", "memory MB, most"]), &lines);
    }
    if !run.network.is_empty() {
        let lines: Vec<_> = run
            .network
            .iter()
            .map(|n| line(&n.class, [format!("{:.2}", n.sent_mb), format!("{:.2}", n.received_mb)]))
            .collect();
        page.table(&words(&["connections, as the client counts", "sent MB", "received MB"]), &lines);
    }
    page.heading("How to read this");
    run.notes.iter().for_each(|note| page.note(note));
    if !run.checks.is_empty() {
        page.heading("Conditions");
        let lines: Vec<_> = run
            .checks
            .iter()
            .map(|check| {
                let result = match (check.violations, &check.error) {
                    (Some(0), _) => "holds".to_string(),
                    (Some(rows), _) => format!("broken by {rows} rows"),
                    (None, error) => format!("not checked: {}", error.as_deref().unwrap_or("?")),
                };
                line(&check.name, [result])
            })
            .collect();
        page.table(&words(&["", ""]), &lines);
    }
    page.heading("Configuration");
    let mut lines: Vec<_> = run.config.iter().map(|(key, value)| line(key, [value.clone()])).collect();
    for (name, side) in [("T side", &run.tp), ("A side", &run.ap)] {
        lines.extend(of_side(name, side));
    }
    page.table(&words(&["", ""]), &lines);
}

fn of_side(name: &str, side: &Side) -> Vec<Vec<String>> {
    let mut out = vec![
        line(name, [side.url.clone()]),
        line(&format!("{name}, version"), [side.version.clone()]),
        line(&format!("{name}, isolation"), [side.isolation.clone()]),
    ];
    if let (Some(offset), Some(error)) = (side.clock_offset_ms, side.clock_error_ms) {
        out.push(line(
            &format!("{name}, clock"),
            [format!("{offset:+.1} ms ± {error:.1} ms of the client's")],
        ));
    }
    out.extend(side.settings.iter().map(|(key, value)| line(&format!("{name}, {key}"), [value.clone()])));
    out
}
