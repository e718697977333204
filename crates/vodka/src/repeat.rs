//! The same run several times, on data that is loaded anew each time: the median, the least and the most of each figure.
//!
//! KEEPS: a run that ended early, or of whose conditions one is broken, has a report of its own and is in no figure.

use crate::args::VodkaArgs;
use crate::figures::{Run, Spread};
use crate::report::{ms, save};
use crate::run::once;
use anyhow::{Context, bail};
use pages::Page;
use serde::{Deserialize, Serialize};

/// One figure over all runs that have it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Range {
    pub name: String,
    pub runs: usize,
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Range {
    /// `None` without a value. Of an even number of values the median is the mean of the two in the middle.
    pub fn of(name: &str, values: impl IntoIterator<Item = f64>) -> Option<Range> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let runs = values.len();
        let median = (values[(runs - 1) / 2] + values[runs / 2]) / 2.0;
        Some(Range { name: name.into(), runs, median, min, max })
    }
}

/// What all runs came to: repeat.json.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Repeated {
    pub title: String,
    pub runs: u32,
    /// Why runs are in no figure, by their number from 1.
    pub left_out: Vec<(u32, String)>,
    pub figures: Vec<Range>,
}

/// Runs that often.
///
/// # Errors
/// If a run cannot begin; if one ended early or a condition is broken, after the table was written.
pub async fn repeat(args: VodkaArgs, times: u32) -> anyhow::Result<()> {
    std::fs::create_dir_all(&args.out).with_context(|| format!("make the folder {}", args.out.display()))?;
    let (mut good, mut title, mut left_out) = (Vec::new(), String::new(), Vec::new());
    for number in 1..=times {
        println!("\nrun {number} of {times}");
        let mut one = args.clone();
        (one.repeat, one.json) = (None, None);
        one.out = args.out.join(format!("run-{number}"));
        let (run, outcome) = once(one).await.with_context(|| format!("run {number} of {times}"))?;
        title.clone_from(&run.title);
        match outcome {
            Ok(()) => good.push(run),
            Err(error) => {
                println!("run {number} is in no figure: {error:#}");
                left_out.push((number, format!("{error:#}")));
            }
        }
        // After each run, so that the table is there if a later one cannot begin.
        write(&repeated(&title, number, &left_out, &good), &args)?;
    }
    let all = repeated(&title, times, &left_out, &good);
    print!("{}", text(&all));
    println!("\nwrote {}", args.out.join("repeat.html").display());
    match left_out.first() {
        Some((number, why)) => {
            bail!("{} of {times} runs are in no figure; run {number}: {why}", left_out.len())
        }
        None => Ok(()),
    }
}

/// The figures of all good runs, in the order in which the first that has one shows it.
fn repeated(title: &str, runs: u32, left_out: &[(u32, String)], good: &[Run]) -> Repeated {
    let of_runs: Vec<Vec<(String, f64)>> = good.iter().map(figures).collect();
    let mut names: Vec<&String> = Vec::new();
    for (name, _) in of_runs.iter().flatten() {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let values = |wanted: &str| {
        let of_it = of_runs.iter().flatten().filter(|(name, _)| name.as_str() == wanted);
        of_it.map(|(_, value)| *value).collect::<Vec<f64>>()
    };
    Repeated {
        title: title.into(),
        runs,
        left_out: left_out.to_vec(),
        figures: names.into_iter().filter_map(|name| Range::of(name, values(name))).collect(),
    }
}

/// The figures of one run that it has.
fn figures(run: &Run) -> Vec<(String, f64)> {
    let mut out = Vec::new();
    let mut add = |name: &str, value: Option<f64>| {
        if let Some(value) = value {
            out.push((name.to_string(), value));
        }
    };
    let (throughput, analysis, visibility) = (&run.throughput, &run.analysis, &run.visibility);
    add("transactions per second", Some(throughput.tps));
    add("queries per hour, measured", analysis.qphh_measured);
    add("queries per hour at the final size, by the models", analysis.qphh.last().map(|q| q.qphh));
    let worst = analysis.queries.iter().filter_map(|query| query.cardinality_error).reduce(f64::max);
    add("worst cardinality error, %", worst.map(|error| error * 100.0));
    let both = |name: &str, spread: Option<Spread>| {
        [50, 99].map(|percentile| {
            let value = spread.map(|s| if percentile == 50 { s.p50 } else { s.p99 });
            (format!("{name}, p{percentile} ms"), value)
        })
    };
    let mut spreads = Vec::new();
    for (query, freshness) in &visibility.freshness {
        spreads.extend(both(&format!("freshness of {query} (Eq. 16)"), Some(freshness.freshness_ms)));
        spreads.push((format!("missing rows of {query}"), Some(freshness.missing_rows as f64)));
        spreads
            .extend(both(&format!("HATtrick's freshness of {query} by rows"), Some(freshness.hattrick_ms)));
    }
    let hattrick = visibility.hattrick.as_ref().map(|h| h.freshness_ms);
    spreads.extend(both("HATtrick's freshness by its table", hattrick));
    for (name, found) in [
        ("the last write of all is visible after", visibility.sync.last_write_ms),
        ("the last write of every partition is visible after", visibility.sync.all_partitions_ms),
    ] {
        spreads.push((format!("{name}, mean ms"), found.map(|s| s.mean)));
        spreads.push((format!("{name}, max ms"), found.map(|s| s.max)));
    }
    spreads.extend(both("visibility delay that the server tells", visibility.visibility_delay_ms));
    for transaction in throughput.transactions.iter().filter(|t| t.committed > 0) {
        spreads.extend(both(&transaction.name, Some(transaction.latency_ms)));
    }
    for query in &analysis.queries {
        spreads.extend(both(&query.name, query.latency_ms));
    }
    for (name, value) in spreads {
        add(&name, value);
    }
    let cost = match (throughput.tps_without_tool, throughput.tps_with_tool) {
        (Some(without), Some(with)) if without > 0.0 => Some((1.0 - with / without) * 100.0),
        _ => None,
    };
    add("cost of the tool's tracking, %", cost);
    add("most streams at which the rate holds", throughput.most_streams.found.map(f64::from));
    let frontier = &throughput.frontier;
    if !frontier.points.is_empty() {
        add("peak of transactions per second", Some(frontier.tps_peak));
        add("peak of queries per hour", Some(frontier.queries_per_hour_peak));
        add("frontier over the rectangle of both peaks", frontier.covered);
    }
    add("rows per second of the load", run.load_rows_per_s);
    out
}

fn write(all: &Repeated, args: &VodkaArgs) -> anyhow::Result<()> {
    let json = serde_json::to_string_pretty(all)?;
    save(&args.out.join("repeat.json"), &json)?;
    save(&args.out.join("repeat.html"), &page(all))?;
    if let Some(file) = &args.json {
        save(file, &json)?;
    }
    Ok(())
}

fn words(range: &Range) -> [String; 4] {
    [ms(range.median), ms(range.min), ms(range.max), range.runs.to_string()]
}

fn page(all: &Repeated) -> String {
    let mut page = Page::new(&all.title);
    page.note(&format!(
        "{} runs, each on data that was loaded anew. The pages of the runs lie in the folders run-1, run-2 and so on.",
        all.runs
    ));
    for (number, why) in &all.left_out {
        page.bad(&format!("Run {number} is in no figure: {why}"));
    }
    let lines: Vec<Vec<String>> =
        all.figures.iter().map(|r| std::iter::once(r.name.clone()).chain(words(r)).collect()).collect();
    page.table(&["", "median", "least", "most", "runs"].map(String::from), &lines);
    page.finish()
}

/// The table on the terminal.
fn text(all: &Repeated) -> String {
    let mut out = format!("\n{}: {} runs\n", all.title, all.runs);
    for (number, why) in &all.left_out {
        out += &format!("  run {number} is in no figure: {why}\n");
    }
    out += &format!("  {:<64} {:>12} {:>12} {:>12} {:>5}\n", "", "median", "least", "most", "runs");
    for range in &all.figures {
        let [median, min, max, runs] = words(range);
        out += &format!("  {:<64} {median:>12} {min:>12} {max:>12} {runs:>5}\n", range.name);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{QueryFigures, Throughput};

    fn run(tps: f64, latency_ms: Option<f64>) -> Run {
        let mut run = Run {
            title: "a <run>".into(),
            throughput: Throughput { tps, ..Throughput::default() },
            ..Run::default()
        };
        let (name, latency_ms) = ("Q1".into(), Spread::of(latency_ms));
        run.analysis.queries.push(QueryFigures { name, latency_ms, ..QueryFigures::default() });
        run
    }

    #[test]
    fn the_median_lies_in_the_middle() {
        let of = |values: &[f64]| Range::of("x", values.iter().copied()).map(|r| (r.median, r.min, r.max));
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[3.0]), Some((3.0, 3.0, 3.0)));
        assert_eq!(of(&[9.0, 1.0, 4.0]), Some((4.0, 1.0, 9.0)));
        assert_eq!(of(&[9.0, 1.0, 4.0, 2.0]), Some((3.0, 1.0, 9.0)));
    }

    #[test]
    fn a_figure_is_over_the_runs_that_have_it_and_others_are_named() {
        let runs = [run(10.0, None), run(30.0, Some(5.0)), run(20.0, Some(7.0))];
        let all = repeated("a <run>", 4, &[(2, "the server died".into())], &runs);
        let found = |name: &str| all.figures.iter().find(|range| range.name == name);
        let tps = found("transactions per second").unwrap();
        assert_eq!((tps.median, tps.min, tps.max, tps.runs), (20.0, 10.0, 30.0, 3));
        let latency = found("Q1, p50 ms").unwrap();
        assert_eq!((latency.median, latency.runs), (6.0, 2));
        assert!(found("cost of the tool's tracking, %").is_none());
        let html = page(&all);
        assert!(html.contains("a &lt;run&gt;") && html.contains("Run 2 is in no figure: the server died"));
        let text = text(&all);
        assert!(text.contains("4 runs") && text.contains("transactions per second"), "{text}");
        let json = serde_json::to_string(&all).unwrap();
        assert_eq!(serde_json::from_str::<Repeated>(&json).unwrap().figures, all.figures);
    }
}
