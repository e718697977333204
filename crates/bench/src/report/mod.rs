//! Figures of a run, as a table on the terminal, JSON, CSV, and a page with plots.

pub mod csv;
pub mod html;
mod plot;
pub mod text;

use crate::args::Common;
use crate::drive::Side;
use crate::measure::{Freshness, Recorder, Second, ms};
use anyhow::{Context, bail};
use hdrhistogram::Histogram;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// One run of one benchmark on one or two servers.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub bench: String,
    pub title: String,
    /// UTC, ISO 8601.
    pub ended_at: String,
    /// Processor and cores of the machine that the clients ran on.
    pub machine: String,
    pub clients: u32,
    pub seed: u64,
    /// Offered per second, if the loop was open.
    pub rate: Option<f64>,
    pub sides: Vec<Figures>,
    /// The first server against the second.
    pub ratios: Vec<Ratio>,
}

/// What one server did.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    pub name: String,
    pub url: String,
    pub version: String,
    pub transaction_isolation: String,
    pub settings: BTreeMap<String, String>,
    pub measured_s: f64,
    pub committed: u64,
    pub per_s: f64,
    pub failed: u64,
    pub latency_ms: Latency,
    pub kinds: Vec<KindFigures>,
    /// A message for each SQLSTATE among the failures.
    pub messages: BTreeMap<String, String>,
    pub checks: Vec<CheckResult>,
    pub seconds: Vec<SecondFigures>,
}

#[derive(Clone, Debug, Serialize)]
pub struct KindFigures {
    pub name: String,
    pub committed: u64,
    pub rolled_back: u64,
    pub per_s: f64,
    pub latency_ms: Latency,
    /// SQLSTATE → count.
    pub retried: BTreeMap<String, u64>,
    pub failed: BTreeMap<String, u64>,
    pub rows: u64,
    /// Of queries, where the server tells: staleness + coordination + wait, and each by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub visibility_delay_ms: Option<Quantiles>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub staleness_ms: Option<Quantiles>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coordination_ms: Option<Quantiles>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<Quantiles>,
}

#[derive(Clone, Copy, Debug, Serialize, PartialEq)]
pub struct Quantiles {
    pub p50: f64,
    pub p99: f64,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Latency {
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub max: f64,
    /// (ms, share of the work that took at most as long), for plots.
    #[serde(skip)]
    pub distribution: Vec<(f64, f64)>,
}

#[derive(Clone, Debug, Serialize)]
pub struct SecondFigures {
    pub at_s: f64,
    pub per_s: f64,
    pub retried: u64,
    pub failed: u64,
    pub p50_ms: f64,
    pub p99_ms: f64,
}

#[derive(Clone, Debug, Serialize)]
pub struct CheckResult {
    pub name: String,
    /// Rows that break it; `None` if the query failed.
    pub violations: Option<u64>,
    pub error: Option<String>,
}

/// First server ÷ second server.
#[derive(Clone, Debug, Serialize)]
pub struct Ratio {
    pub name: String,
    pub per_s: f64,
    pub p50: f64,
    pub p99: f64,
}

impl Report {
    pub fn of(bench: &str, title: String, common: &Common, sides: &[Side]) -> Report {
        let figures: Vec<Figures> = sides.iter().map(figures).collect();
        Report {
            bench: bench.into(),
            title,
            ended_at: chrono::Utc::now().format("%Y-%m-%dT%H:%M:%SZ").to_string(),
            machine: machine(),
            clients: common.clients,
            seed: common.seed,
            rate: common.rate,
            ratios: ratios(&figures),
            sides: figures,
        }
    }
    /// True if work was given up or a check did not hold.
    pub fn is_bad(&self) -> bool {
        self.sides
            .iter()
            .any(|side| side.failed > 0 || side.checks.iter().any(|check| check.violations != Some(0)))
    }
}

fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    format!("{}, {cores} cores", model.map_or("unknown processor", |(_, name)| name.trim()))
}

/// Prints and writes a report.
///
/// # Errors
/// If a file cannot be written, if nothing was done at all, or if a consistency condition is broken.
pub fn finish(report: &Report, common: &Common) -> anyhow::Result<()> {
    finish_all(std::slice::from_ref(report), common)
}

/// Prints and writes the reports of one command: one JSON document for one report, a list for more.
///
/// # Errors
/// See [`finish`].
pub fn finish_all(reports: &[Report], common: &Common) -> anyhow::Result<()> {
    reports.iter().for_each(|report| print!("\n{}", text::render(report)));
    if let Some(file) = &common.json {
        let json = match reports {
            [one] => serde_json::to_string_pretty(one),
            many => serde_json::to_string_pretty(many),
        };
        write(file, &json.context("write the figures as JSON")?)?;
    }
    if let Some(file) = &common.csv {
        write(file, &csv::render(reports))?;
    }
    if let Some(file) = &common.html {
        write(file, &html::render(reports)?)?;
    }
    for report in reports {
        for side in &report.sides {
            if let Some(check) = side.checks.iter().find(|check| check.violations != Some(0)) {
                match &check.error {
                    Some(error) => bail!("{}: {} could not be checked: {error}", side.name, check.name),
                    None => bail!("{}: {} is broken", side.name, check.name),
                }
            }
            if side.committed == 0 {
                let why = side.messages.values().next().map_or("", String::as_str);
                bail!("{}: nothing was done in {:.1} s\n{why}", side.name, side.measured_s);
            }
        }
    }
    Ok(())
}

fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(file, text).with_context(|| format!("write {}", file.display()))?;
    println!("wrote {}", file.display());
    Ok(())
}

fn figures(side: &Side) -> Figures {
    let recorder = side.recorder();
    Figures {
        name: side.server.short_name(),
        url: side.server.url.clone(),
        version: side.server.version.clone(),
        transaction_isolation: side.server.transaction_isolation.clone(),
        settings: side.server.settings.iter().cloned().collect(),
        measured_s: recorder.active_s,
        committed: recorder.committed(),
        per_s: recorder.per_s(),
        failed: recorder.failed(),
        latency_ms: latency(&recorder.latency_us()),
        kinds: kind_figures(&recorder),
        messages: recorder.messages.clone(),
        checks: Vec::new(),
        seconds: recorder.seconds.iter().map(second_figures).collect(),
    }
}

fn kind_figures(recorder: &Recorder) -> Vec<KindFigures> {
    let met = recorder.tallies.iter().filter(|t| !t.latency_us.is_empty() || !t.failed.is_empty());
    met.map(|tally| {
        let of = |part: fn(&Freshness) -> f64| quantiles(tally.freshness.iter().map(part).collect());
        KindFigures {
            name: tally.name.clone(),
            committed: tally.committed,
            rolled_back: tally.rolled_back,
            per_s: tally.committed as f64 / recorder.active_s.max(f64::MIN_POSITIVE),
            latency_ms: latency(&tally.latency_us),
            retried: tally.retried.clone(),
            failed: tally.failed.clone(),
            rows: tally.rows,
            visibility_delay_ms: of(|f| f.staleness_ms + f.coordination_ms + f.wait_ms),
            staleness_ms: of(|f| f.staleness_ms),
            coordination_ms: of(|f| f.coordination_ms),
            wait_ms: of(|f| f.wait_ms),
        }
    })
    .collect()
}

fn quantiles(mut values: Vec<f64>) -> Option<Quantiles> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    let at = |quantile: f64| values[((last as f64) * quantile).ceil() as usize];
    Some(Quantiles { p50: at(0.5), p99: at(0.99) })
}

fn second_figures(second: &Second) -> SecondFigures {
    SecondFigures {
        at_s: second.at_s,
        per_s: second.committed as f64 / second.lasted_s.max(f64::MIN_POSITIVE),
        retried: second.retried,
        failed: second.failed,
        p50_ms: second.p50_ms,
        p99_ms: second.p99_ms,
    }
}

fn latency(histogram: &Histogram<u64>) -> Latency {
    if histogram.is_empty() {
        return Latency::default();
    }
    let at = |quantile: f64| ms(histogram.value_at_quantile(quantile));
    Latency {
        mean: histogram.mean() / 1000.0,
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        max: ms(histogram.max()),
        // Even steps up to the median's surroundings, finer ones towards the end.
        distribution: (0..=99)
            .map(|percent| f64::from(percent) / 100.0)
            .chain([0.992, 0.995, 0.998, 0.999, 0.9995, 0.9999, 1.0])
            .map(|quantile| (at(quantile), quantile))
            .collect(),
    }
}

fn ratios(sides: &[Figures]) -> Vec<Ratio> {
    let [first, second] = sides else { return Vec::new() };
    let ratio = |name: &str, per_s: (f64, f64), a: &Latency, b: &Latency| Ratio {
        name: name.into(),
        per_s: per_s.0 / per_s.1,
        p50: a.p50 / b.p50,
        p99: a.p99 / b.p99,
    };
    let mut ratios = vec![ratio("total", (first.per_s, second.per_s), &first.latency_ms, &second.latency_ms)];
    for a in &first.kinds {
        if let Some(b) = second.kinds.iter().find(|b| b.name == a.name) {
            ratios.push(ratio(&a.name, (a.per_s, b.per_s), &a.latency_ms, &b.latency_ms));
        }
    }
    // Queries are compared by the sum of their medians, so that short ones do not drown.
    let sum = |side: &Figures| -> f64 {
        side.kinds.iter().filter(|k| is_query(&k.name)).map(|k| k.latency_ms.p50).sum()
    };
    if sum(second) > 0.0 {
        let (a, b) = (sum(first), sum(second));
        ratios.push(Ratio { name: "sum of query medians".into(), per_s: b / a, p50: a / b, p99: f64::NAN });
    }
    ratios
}

/// True for names such as Q7.
pub fn is_query(name: &str) -> bool {
    name.strip_prefix('Q').is_some_and(|number| number.parse::<u32>().is_ok())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn sample(names: &[&str]) -> Report {
        let side = |name: &str, factor: f64| {
            let latency = Latency {
                mean: 2.0 * factor,
                p50: factor,
                p90: 3.0 * factor,
                p99: 8.0 * factor,
                max: 20.0 * factor,
                distribution: vec![(0.5 * factor, 0.0), (factor, 0.5), (20.0 * factor, 1.0)],
            };
            let kind = |kind: &str| KindFigures {
                name: kind.into(),
                committed: 100,
                rolled_back: 1,
                per_s: 50.0 / factor,
                latency_ms: latency.clone(),
                retried: [("40001".to_string(), 3)].into(),
                failed: BTreeMap::new(),
                rows: 100,
                visibility_delay_ms: quantiles(vec![3.0, 1.0, 2.0]),
                staleness_ms: None,
                coordination_ms: None,
                wait_ms: None,
            };
            let second = |at_s: f64| SecondFigures {
                at_s,
                per_s: 50.0 / factor,
                retried: 1,
                failed: 0,
                p50_ms: factor,
                p99_ms: 8.0 * factor,
            };
            Figures {
                name: name.into(),
                url: "postgres://h/db".into(),
                version: "<b>v</b>".into(),
                transaction_isolation: "serializable".into(),
                settings: [("fsync".to_string(), "off".to_string())].into(),
                measured_s: 2.0,
                committed: 100,
                per_s: 50.0 / factor,
                failed: 0,
                latency_ms: latency.clone(),
                kinds: vec![kind("Q1"), kind("new_order")],
                messages: BTreeMap::new(),
                checks: vec![CheckResult { name: "condition 1".into(), violations: Some(0), error: None }],
                seconds: vec![second(1.0), second(2.0)],
            }
        };
        let sides: Vec<Figures> = names.iter().zip([1.0, 4.0]).map(|(name, f)| side(name, f)).collect();
        Report {
            bench: "tpcc".into(),
            title: "TPC-C".into(),
            ended_at: "2026-01-01T00:00:00Z".into(),
            machine: "a machine".into(),
            clients: 8,
            seed: 1,
            rate: None,
            ratios: ratios(&sides),
            sides,
        }
    }

    #[test]
    fn ratios_say_how_the_first_stands_to_the_second() {
        let report = sample(&["a", "b"]);
        let names: Vec<&str> = report.ratios.iter().map(|r| r.name.as_str()).collect();
        assert_eq!(names, ["total", "Q1", "new_order", "sum of query medians"]);
        assert!((report.ratios[0].per_s - 4.0).abs() < 1e-9 && (report.ratios[0].p50 - 0.25).abs() < 1e-9);
        assert!((report.ratios[3].per_s - 4.0).abs() < 1e-9);
        assert!(sample(&["a"]).ratios.is_empty());
    }

    #[test]
    fn quantiles_are_values_that_occurred() {
        assert_eq!(quantiles(vec![3.0, 1.0, 2.0]), Some(Quantiles { p50: 2.0, p99: 3.0 }));
        assert_eq!(quantiles(vec![7.0]), Some(Quantiles { p50: 7.0, p99: 7.0 }));
        assert_eq!(quantiles(vec![]), None);
    }

    #[test]
    fn a_broken_condition_is_bad_and_a_kept_one_is_not() {
        let mut report = sample(&["a"]);
        assert!(!report.is_bad());
        report.sides[0].checks[0].violations = Some(2);
        assert!(report.is_bad());
    }
}
