//! What a run leaves behind: one page, CSVs with the original tool's column names where it has them, JSON.

mod csv;
mod frontier;
mod page;

use crate::args::VodkaArgs;
use crate::figures::{Run, Spread};
use crate::run::Raw;
use anyhow::Context;
use csv::add;
use serde_json::{Value, json};
use std::path::Path;

/// Writes everything and prints the summary.
///
/// # Errors
/// If a file cannot be written.
pub fn write(run: &Run, raw: &Raw, args: &VodkaArgs) -> anyhow::Result<()> {
    let folder = &args.out;
    std::fs::create_dir_all(folder).with_context(|| format!("make the folder {}", folder.display()))?;
    let file = |name: &str, text: &str| save(&folder.join(name), text);
    file("result.csv", &csv::transactions(raw))?;
    file("query.csv", &csv::queries(raw))?;
    file("freshness.csv", &csv::freshness(raw))?;
    file("hattrick.csv", &csv::hattrick(raw))?;
    file("sync.csv", &csv::sync(raw))?;
    file("cardinality.csv", &csv::cardinality(run))?;
    file("frontier.csv", &csv::frontier(run))?;
    file("run.json", &serde_json::to_string_pretty(run)?)?;
    file("summary.json", &serde_json::to_string_pretty(&summary(run))?)?;
    file("report.html", &page::render(run)?)?;
    if let Some(json) = &args.json {
        save(json, &serde_json::to_string_pretty(&summary(run))?)?;
    }
    print!("{}", text(run));
    println!("\nwrote {}", folder.join("report.html").display());
    Ok(())
}

/// # Errors
/// If the file cannot be written.
pub fn save(file: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(file, text).with_context(|| format!("write {}", file.display()))
}

/// The sentences without which the figures would be misread.
pub fn add_notes(run: &mut Run) {
    run.notes.push(
        "Freshness is Eq. 16: commit of the latest version less commit of the version shown, of the stalest item. \
         It does not say for how long the answer has been stale, and ignores rows that are not in the answer: these \
         are counted as missing. HATtrick's figure, query begin less first invisible commit, stands beside it: by the \
         rows that the answer should show, and by the transactions that its snapshot shows of vodka_freshness."
            .into(),
    );
    run.notes.push(
        "A row that was not written since tracking began counts as committed when it began: its gap is at most what \
         Eq. 16 says."
            .into(),
    );
    let few = run.analysis.queries.iter().filter(|query| query.executions < 9).count();
    if few > 0 {
        run.notes.push(format!(
            "{few} of {} queries ran fewer than nine times: their model and its error say little. The paper uses \
             150 executions.",
            run.analysis.queries.len()
        ));
    }
    if run.analysis.sizes_last.lines < run.analysis.sizes_first.lines + run.analysis.sizes_first.lines / 20 {
        run.notes.push(
            "The data grew by less than 5 %: cardinality errors are small whatever the parameters, and a model over \
             sizes has little to learn from."
                .into(),
        );
    }
    if run.throughput.tps_without_tool.is_none() {
        run.notes.push("The tool's own cost was not measured: add --overhead 10s.".into());
    }
    if run.resources.len() < 2 {
        run.notes.push("The servers run elsewhere: their processor time and memory are unknown.".into());
    } else {
        run.notes.push("Client and servers share this machine: its load is in every figure.".into());
    }
    run.notes.push(match run.network.is_empty() {
        true => "Network traffic was not measured.".into(),
        false => {
            "Network traffic is what goes over the client's connections; what servers send each other is not \
                  in it."
                .into()
        }
    });
    let frontier = &run.throughput.frontier;
    if !frontier.points.is_empty() || !run.throughput.most_streams.trials.is_empty() {
        run.notes.push(
            "The frontier and the search for the most streams come after the run, one point after the other: they \
             are of larger tables than the run's other figures, and each of a little larger ones than the one before."
                .into(),
        );
    }
    let broken = frontier.broken_count();
    if broken > 0 {
        run.notes.push(format!(
            "At {broken} of {} points of the frontier streams broke: their figures are of the other streams.",
            frontier.points.len()
        ));
    }
}

/// The summary that the command writes with --json.
pub fn summary(run: &Run) -> Value {
    let check = run.consistency_check();
    let queries = run.analysis.queries.iter().map(|query| {
        json!({
            "name": query.name,
            "cardinality_error": query.cardinality_error,
            "model_error": query.model_error,
            "latency_ms": query.latency_ms.map(|latency| latency.p50),
        })
    });
    let checks = run
        .checks
        .iter()
        .map(|check| json!({"name": check.name, "violations": check.violations, "error": check.error}));
    json!({
        "incomplete": run.incomplete,
        "queries": queries.collect::<Vec<_>>(),
        "freshness_ms": {"p50": check.freshness_ms.p50, "p99": check.freshness_ms.p99},
        "hattrick_ms": run.visibility.hattrick.as_ref().map(|h| {
            json!({"p50": h.freshness_ms.p50, "p99": h.freshness_ms.p99})
        }),
        "missing_rows": check.missing_rows,
        "most_streams": run.throughput.most_streams.found,
        "frontier": frontier::summary(&run.throughput.frontier),
        "tps": run.throughput.tps,
        "tps_without_tool": run.throughput.tps_without_tool,
        "checks": checks.collect::<Vec<_>>(),
    })
}

/// A figure in ms.
pub fn ms(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 1.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

pub fn percent(value: Option<f64>) -> String {
    value.map_or("–".into(), |value| format!("{:.2} %", value * 100.0))
}

fn spread(spread: Option<Spread>) -> [String; 4] {
    spread.map_or(["–", "–", "–", "–"].map(String::from), |s| {
        [ms(s.p50), ms(s.p95), ms(s.p99), ms(s.max)]
    })
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| word.to_string()).collect()
}

fn line<const N: usize>(name: &str, rest: [String; N]) -> Vec<String> {
    std::iter::once(name.to_string()).chain(rest).collect()
}

/// Names and values that say how good the system is, for the head of the page and for comparisons.
pub fn headline(run: &Run) -> Vec<(&'static str, String)> {
    let check = run.consistency_check();
    let customers = run.visibility.freshness.get("CustomerCheck").copied().unwrap_or_default();
    let worst = run.analysis.queries.iter().filter_map(|query| query.cardinality_error).reduce(f64::max);
    let answered = run.analysis.queries.iter().filter(|q| q.executions > 0 && q.failed == 0).count();
    let sync = run
        .visibility
        .sync
        .all_partitions_ms
        .map_or("–".into(), |s| format!("{} / {}", ms(s.mean), ms(s.max)));
    let sync = match run.visibility.sync.given_up {
        0 => sync,
        given_up => format!("{sync}, and {given_up} of {} probes saw no end", run.visibility.sync.probes),
    };
    let overhead = match (run.throughput.tps_without_tool, run.throughput.tps_with_tool) {
        (Some(without), Some(with)) if without > 0.0 => format!("{:.1} %", (1.0 - with / without) * 100.0),
        _ => "–".into(),
    };
    let mut out = vec![
        ("transactions per second", format!("{:.1}", run.throughput.tps)),
        ("queries per hour, measured", run.analysis.qphh_measured.map_or("–".into(), |q| format!("{q:.0}"))),
    ];
    if let Some(last) = run.analysis.qphh.last() {
        out.push(("queries per hour at the final size, by the models", format!("{:.0}", last.qphh)));
    }
    out.extend([
        ("queries answered", format!("{answered} of {}", run.analysis.queries.len())),
        ("worst cardinality error", percent(worst)),
        (
            "freshness of lines, p50 / p99 ms (Eq. 16)",
            format!("{} / {}", ms(check.freshness_ms.p50), ms(check.freshness_ms.p99)),
        ),
        (
            "freshness of customers, p50 / p99 ms (Eq. 16)",
            format!("{} / {}", ms(customers.freshness_ms.p50), ms(customers.freshness_ms.p99)),
        ),
        ("missing rows, all answers", check.missing_rows.to_string()),
        (
            "HATtrick's freshness by lines, p50 / p99 ms",
            format!("{} / {}", ms(check.hattrick_ms.p50), ms(check.hattrick_ms.p99)),
        ),
        ("a write is visible after, mean / max ms", sync),
        ("cost of the tool's tracking", overhead),
    ]);
    if let Some(hattrick) = &run.visibility.hattrick {
        let Spread { p50, p99, .. } = hattrick.freshness_ms;
        out.push(("HATtrick's freshness by its table, p50 / p99 ms", format!("{} / {}", ms(p50), ms(p99))));
    }
    out.extend(frontier::headline(&run.throughput));
    if let Some(delay) = run.visibility.visibility_delay_ms {
        out.push((
            "visibility delay that the server tells, p50 / p99 ms",
            format!("{} / {}", ms(delay.p50), ms(delay.p99)),
        ));
    }
    out
}

/// The summary on the terminal.
fn text(run: &Run) -> String {
    let mut out = format!("\n{}\n", run.title);
    if let Some(why) = &run.incomplete {
        add(&mut out, format_args!("INCOMPLETE: {why}\n"));
    }
    for (name, value) in headline(run) {
        add(&mut out, format_args!("  {name:<52} {value}\n"));
    }
    let broken = run.checks.iter().filter(|check| check.violations != Some(0)).count();
    if !run.checks.is_empty() {
        add(
            &mut out,
            format_args!(
                "  {:<52} {} of {}\n",
                "conditions that hold",
                run.checks.len() - broken,
                run.checks.len()
            ),
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{
        Analysis, CardinalityFigures, FreshnessPoint, HattrickFigures, NetworkFigures, QueryFigures,
        Throughput,
    };

    fn run() -> Run {
        let query = QueryFigures {
            name: "Q1".into(),
            executions: 3,
            cardinality_error: Some(0.25),
            latency_ms: Spread::of([1.0, 2.0, 3.0]),
            ..QueryFigures::default()
        };
        Run {
            title: "a <run>".into(),
            incomplete: Some("the server died".into()),
            analysis: Analysis { queries: vec![query], ..Analysis::default() },
            throughput: Throughput {
                tps: 12.5,
                tps_by_second: vec![(1.0, 12.0), (2.0, 13.0)],
                ..Throughput::default()
            },
            ..Run::default()
        }
    }

    #[test]
    fn what_ended_early_says_so_everywhere() {
        let run = run();
        assert!(text(&run).contains("INCOMPLETE: the server died"));
        let html = page::render(&run).unwrap();
        assert!(html.contains("Incomplete") && html.contains("a &lt;run&gt;") && html.contains("25.00 %"));
        assert!(!html.contains("<script") && !html.contains("src="));
        assert_eq!(summary(&run)["incomplete"], "the server died");
        assert_eq!(summary(&run)["queries"][0]["latency_ms"], 2.0);
    }

    #[test]
    fn notes_say_what_was_measured_of_the_network() {
        let notes = |run: Run| {
            let mut run = run;
            add_notes(&mut run);
            run.notes.join("\n")
        };
        assert!(notes(run()).contains("Network traffic was not measured"));
        let measured = Run { network: vec![NetworkFigures::default()], ..run() };
        assert!(notes(measured).contains("goes over the client's connections"));
        assert!(notes(run()).contains("add --overhead"));
    }

    #[test]
    fn each_freshness_query_has_a_line_of_its_own() {
        let point = |query: &str, at_s| FreshnessPoint { query: query.into(), at_s, ..Default::default() };
        let mut run = run();
        run.visibility.freshness_points =
            vec![point("ConsistencyCheck", 1.0), point("CustomerCheck", 1.1), point("ConsistencyCheck", 1.5)];
        run.visibility.hattrick = Some(HattrickFigures { points: vec![(1.0, 0.0)], ..Default::default() });
        run.analysis.cardinality_during = vec![CardinalityFigures {
            at_s: 300.0,
            errors: [("Q1".to_string(), 0.125)].into(),
            ..CardinalityFigures::default()
        }];
        let html = page::render(&run).unwrap();
        for text in [
            "Eq. 16 ConsistencyCheck",
            "HATtrick by rows CustomerCheck",
            "by vodka_freshness",
            "after 300 s",
            "12.50 %",
        ] {
            assert!(html.contains(text), "{text}");
        }
        assert!(csv::cardinality(&run).contains("\n300.0,Q1,0,0,0.125000,\n"));
    }

    #[test]
    fn a_stored_run_is_read_back() {
        let text = serde_json::to_string(&run()).unwrap();
        let back: Run = serde_json::from_str(&text).unwrap();
        assert_eq!(back.analysis.queries[0].latency_ms, run().analysis.queries[0].latency_ms);
        assert_eq!(csv::quoted("a, \"b\"\nc"), "\"a, \"\"b\"\" c\"");
    }
}
