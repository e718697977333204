//! HATtrick's picture, and the search for the most streams.

use super::{line, ms, words};
use crate::figures::{FrontierFigures, FrontierPoint, Run, Throughput};
use pages::{Page, plot};
use serde_json::{Value, json};
use workload::vodka::frontier::{by_streams, by_terminals, envelope};

/// Lines for the head of the page.
pub fn headline(throughput: &Throughput) -> Vec<(&'static str, String)> {
    let mut out = Vec::new();
    let most = &throughput.most_streams;
    if !most.trials.is_empty() {
        let found = match most.found {
            Some(streams) if most.is_limit => format!("{streams} or more"),
            Some(streams) => streams.to_string(),
            None if most.trials.iter().any(|trial| trial.streams == 0 && !trial.holds) => "none".into(),
            None => "not found".into(),
        };
        out.push(("most streams at which the rate holds", found));
    }
    let figures = &throughput.frontier;
    if !figures.points.is_empty() {
        let peaks = format!("{:.0} / {:.0}", figures.tps_peak, figures.queries_per_hour_peak);
        out.push(("peak tps / peak queries per hour, each alone", peaks));
        let covered = figures.covered.map_or("–".into(), |covered| format!("{covered:.2}"));
        out.push(("frontier over the rectangle of both peaks", covered));
    }
    out
}

/// `null` without points.
pub fn summary(figures: &FrontierFigures) -> Value {
    if figures.points.is_empty() {
        return Value::Null;
    }
    let point = |p: &FrontierPoint| {
        json!({
            "terminals": p.terminals,
            "streams": p.streams,
            "tps": p.tps,
            "queries_per_hour": p.queries_per_hour,
            "freshness_p99_ms": p.freshness_p99_ms,
            "broken_streams": p.broken_streams,
            "failed_queries": p.failed_queries,
            "on_envelope": figures.is_on_envelope(p),
        })
    };
    json!({
        "tps_peak": figures.tps_peak,
        "queries_per_hour_peak": figures.queries_per_hour_peak,
        "covered": figures.covered,
        "points": figures.points.iter().map(point).collect::<Vec<_>>(),
    })
}

/// Adds both to the page, if there are any.
///
/// # Errors
/// If a plot cannot be drawn.
pub fn add(page: &mut Page, run: &Run) -> anyhow::Result<()> {
    most_streams(page, run);
    let figures = &run.throughput.frontier;
    if figures.points.is_empty() {
        return Ok(());
    }
    page.heading("Throughput frontier");
    page.note(
        "Every number of terminals beside every number of streams, both as fast as they can. The frontier goes through the \
         points that no other beats in both throughputs. The rectangle would be the frontier if neither side cost the \
         other anything, the straight line between the peaks if one were traded for the other in proportion.",
    );
    let lines: Vec<_> = figures
        .points
        .iter()
        .map(|p| {
            line(
                &p.terminals.to_string(),
                [
                    p.streams.to_string(),
                    format!("{:.1}", p.tps),
                    format!("{:.0}", p.queries_per_hour),
                    p.freshness_p99_ms.map_or("–".into(), ms),
                    p.broken_streams.to_string(),
                    p.failed_queries.to_string(),
                    if figures.is_on_envelope(p) { "yes" } else { "" }.into(),
                ],
            )
        })
        .collect();
    let columns = [
        "terminals",
        "streams",
        "transactions per second",
        "queries per hour",
        "HATtrick's freshness p99 ms",
        "streams that broke",
        "queries that failed",
        "on the frontier",
    ];
    page.table(&words(&columns), &lines);
    let points = figures.plain();
    for (what, of_number) in [("terminals", by_terminals(&points)), ("streams", by_streams(&points))] {
        let mut series = frame(figures);
        series.extend(
            of_number
                .into_iter()
                .map(|(number, points)| plot::Series { name: format!("{number} {what}"), points }),
        );
        let svg = plot::linear("transactions per second", "queries per hour", series)?;
        page.figure(&format!("The frontier, and lines of a fixed number of {what}"), &svg);
    }
    Ok(())
}

/// The frontier, the rectangle of both peaks and the line between them.
fn frame(figures: &FrontierFigures) -> Vec<plot::Series> {
    let (right, top) = (figures.tps_peak, figures.queries_per_hour_peak);
    let series = |name: &str, points| plot::Series { name: name.into(), points };
    let frontier = envelope(&figures.plain()).iter().map(|p| (p.tps, p.queries_per_hour)).collect();
    vec![
        series("frontier", frontier),
        series("both peaks", vec![(0.0, top), (right, top), (right, 0.0)]),
        series("in proportion", vec![(0.0, top), (right, 0.0)]),
    ]
}

fn most_streams(page: &mut Page, run: &Run) {
    let most = &run.throughput.most_streams;
    if most.trials.is_empty() {
        return;
    }
    page.heading("Most streams at the rate");
    let lines: Vec<_> = most
        .trials
        .iter()
        .map(|trial| {
            line(
                &format!("{}{}", trial.streams, if trial.confirms { " again" } else { "" }),
                [
                    format!("{:.1}", trial.tps),
                    format!("{:.0}", trial.queries_per_hour),
                    trial.broken_streams.to_string(),
                    if trial.holds { "holds" } else { "does not hold" }.into(),
                ],
            )
        })
        .collect();
    let columns = ["streams", "transactions per second", "queries per hour", "streams that broke", ""];
    page.table(&words(&columns), &lines);
    page.note(
        "The number is doubled until the rate does not hold within 2 %, then the gap is halved, and a result counts \
         once it has held twice.",
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{MostStreams, TrialFigures};

    fn run() -> Run {
        let mut run = Run::default();
        for (terminals, streams, tps, queries_per_hour) in
            [(0, 1, 0.0, 90.0), (1, 0, 10.0, 0.0), (1, 1, 8.0, 60.0), (1, 2, 7.0, 50.0)]
        {
            let (freshness_p99_ms, broken_streams) = ((tps > 0.0).then_some(12.5), streams / 2);
            run.throughput.frontier.add(FrontierPoint {
                terminals,
                streams,
                tps,
                queries_per_hour,
                freshness_p99_ms,
                broken_streams,
                failed_queries: 0,
            });
        }
        run.throughput.most_streams = MostStreams {
            trials: vec![TrialFigures { streams: 64, holds: true, ..TrialFigures::default() }],
            found: Some(64),
            is_limit: true,
        };
        run
    }

    #[test]
    fn the_page_shows_the_frontier_its_frame_and_both_kinds_of_lines() {
        let mut page = Page::new("x");
        add(&mut page, &run()).unwrap();
        let html = page.finish();
        for text in ["frontier", "both peaks", "in proportion", "1 terminals", "2 streams", "12.5", "64"] {
            assert!(html.contains(text), "{text}");
        }
        let mut page = Page::new("x");
        add(&mut page, &Run::default()).unwrap();
        assert!(!page.finish().contains("frontier"));
    }

    #[test]
    fn the_summary_and_the_head_say_what_was_found() {
        let head = headline(&run().throughput);
        assert_eq!(head[0].1, "64 or more");
        assert_eq!(head[1].1, "10 / 90");
        let mut ended = run().throughput;
        (ended.most_streams.found, ended.most_streams.is_limit) = (None, false);
        assert_eq!(headline(&ended)[0].1, "not found");
        ended.most_streams.trials.push(TrialFigures::default());
        assert_eq!(headline(&ended)[0].1, "none");
        let found = summary(&run().throughput.frontier);
        assert_eq!(found["points"][3]["on_envelope"], false);
        assert_eq!(found["points"][3]["broken_streams"], 1);
        assert!(
            summary(&FrontierFigures::default()).is_null() && headline(&Throughput::default()).is_empty()
        );
        let csv = super::super::csv::frontier(&run());
        assert!(csv.contains("\n1,1,8.000,60.000,12.500,0,0,1\n"), "{csv}");
    }
}
