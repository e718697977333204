//! Experiments in virtual time: real nodes, a stated world, rows of figures.
//!
//! Every experiment has this shape: a name, what it asks, parts that can be run by themselves (one system
//! each, say), and a conclusion drawn from the rows of all parts. The [`Report`] holds the conditions under
//! which its rows were taken, prints as a table, and writes itself as JSON
//! `{"experiment", "seed", "scale", "conditions", "rows": [...]}`. Figures are of virtual time, so they do not
//! depend on the machine; what a node's work costs is one of the conditions.

pub mod caerus;
pub mod deterministic;
pub mod files;
pub mod geogauss;
pub mod latency;
pub mod mixed;
pub mod perseus;
pub mod plot;
pub mod populate;
pub mod scc;
pub mod tpcc;

use plot::Plot;
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// How much of it to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Seconds on a laptop.
    Small,
    /// As large as the claim it is held against.
    Paper,
}

impl Scale {
    pub fn name(self) -> &'static str {
        match self {
            Scale::Small => "small",
            Scale::Paper => "paper",
        }
    }
    pub fn parse(name: &str) -> Option<Scale> {
        [Scale::Small, Scale::Paper].into_iter().find(|s| s.name() == name)
    }
}

/// An experiment that can be run by name.
pub struct Experiment {
    pub name: &'static str,
    /// What it asks, in a sentence.
    pub question: &'static str,
    /// Names of its parts, which depend on nothing but scale and seed.
    pub parts: fn(Scale) -> Vec<String>,
    /// Runs the n-th part; says how far it is, from 0 to 1.
    pub run: fn(Scale, u64, usize, &mut dyn FnMut(f64)) -> Findings,
    /// Adds claims and plots, from the rows of all parts.
    pub conclude: fn(&mut Report),
}

/// What one part found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    pub conditions: Vec<(&'static str, Value)>,
    pub rows: Vec<Line>,
    pub claims: Vec<Claim>,
}

/// All experiments.
pub const ALL: &[Experiment] = &[
    latency::EXPERIMENT,
    caerus::EXPERIMENT,
    perseus::table3::EXPERIMENT,
    perseus::table4::EXPERIMENT,
    perseus::fig6::EXPERIMENT,
    perseus::fig7::EXPERIMENT,
    perseus::fig8::EXPERIMENT,
    perseus::fig9::EXPERIMENT,
    perseus::fig10::EXPERIMENT,
    perseus::fig11::EXPERIMENT,
    perseus::fig12::EXPERIMENT,
    perseus::hour::EXPERIMENT,
    deterministic::figures::FIG5,
    deterministic::figures::FIG6,
    deterministic::figures::FIG7,
    deterministic::figures::FIG8,
    deterministic::figures::FIG9,
    deterministic::figures::FIG10,
    deterministic::fault::EXPERIMENT,
    geogauss::figures::FIG5,
    geogauss::figures::FIG6,
    geogauss::figures::FIG7,
    geogauss::figures::FIG8,
    geogauss::figures::FIG9,
    geogauss::figures::FIG10,
    geogauss::figures::SKEW,
    geogauss::figures::FIG11,
    geogauss::figures::FIG12,
    geogauss::figures::DISTANCES,
    scc::TABLE1,
    scc::TABLE2,
    scc::TABLE3,
    scc::FIG8,
    scc::FIG9,
    scc::FIG10,
    scc::FIG11,
    scc::FIG12,
    scc::FIG13,
    scc::FIG14,
    scc::FIG15,
    scc::FIG16,
    scc::FIG17,
];

impl Experiment {
    /// Runs all parts, one after another.
    pub fn run_all(&self, scale: Scale, seed: u64, tell: &mut dyn FnMut(usize, f64)) -> Report {
        let parts = (self.parts)(scale).len();
        let findings = (0..parts).map(|n| (self.run)(scale, seed, n, &mut |done| tell(n, done))).collect();
        self.report(scale, seed, findings)
    }
    /// Puts together what the parts found, in their order.
    pub fn report(&self, scale: Scale, seed: u64, findings: Vec<Findings>) -> Report {
        let mut report = Report {
            experiment: self.name,
            seed,
            scale,
            conditions: Vec::new(),
            rows: Vec::new(),
            claims: Vec::new(),
            plots: Vec::new(),
        };
        for found in findings {
            for condition in found.conditions {
                if report.conditions.iter().all(|(name, _)| *name != condition.0) {
                    report.conditions.push(condition);
                }
            }
            report.rows.extend(found.rows);
            report.claims.extend(found.claims);
        }
        (self.conclude)(&mut report);
        report
    }
}

/// There is no experiment of this name; says which there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown(String);

impl std::fmt::Display for Unknown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = ALL.iter().map(|e| e.name).collect();
        write!(f, "no experiment {:?}; there is {}", self.0, names.join(", "))
    }
}
impl std::error::Error for Unknown {}

/// An experiment by its name.
pub fn named(name: &str) -> Result<&'static Experiment, Unknown> {
    ALL.iter().find(|e| e.name == name).ok_or_else(|| Unknown(name.into()))
}

/// One line of figures: column and value, in the order of the table's columns.
pub type Line = Vec<(&'static str, Value)>;

/// What an experiment found.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    pub experiment: &'static str,
    pub seed: u64,
    pub scale: Scale,
    /// What held throughout: distances, ε, costs, load, sizes.
    pub conditions: Vec<(&'static str, Value)>,
    pub rows: Vec<Line>,
    /// Claims held against the rows: what was claimed, the bound, and what was found.
    pub claims: Vec<Claim>,
    /// What the rows look like.
    pub plots: Vec<Plot>,
}

/// A figure to reach.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    pub what: String,
    pub bound: f64,
    pub found: f64,
}

impl Claim {
    pub fn holds(&self) -> bool {
        self.found <= self.bound
    }
}

impl Report {
    /// One more figure to reach, and what was found.
    pub fn claim(&mut self, what: impl Into<String>, bound: f64, found: f64) {
        self.claims.push(Claim { what: what.into(), bound, found });
    }
    /// Adds a plot.
    pub fn show(&mut self, plot: Plot) {
        self.plots.push(plot);
    }
    /// A number of the first row in which these columns have these values.
    pub fn figure(&self, of: &[(&str, &str)], column: &str) -> Option<f64> {
        let matches = |line: &&Line| of.iter().all(|(name, value)| cell(line, name) == *value);
        number(self.rows.iter().find(matches)?, column)
    }
    pub fn to_json(&self) -> Value {
        let claims = self
            .claims
            .iter()
            .map(|c| json!({ "claim": c.what, "bound": c.bound, "found": c.found, "holds": c.holds() }));
        json!({
            "experiment": self.experiment,
            "seed": self.seed,
            "scale": self.scale.name(),
            "conditions": object(&self.conditions, false),
            "rows": self.rows.iter().map(|line| object(line, true)).collect::<Vec<_>>(),
            "claims": claims.collect::<Vec<_>>(),
        })
    }
    /// The rows as comma-separated values, the first line naming the columns.
    pub fn to_csv(&self) -> String {
        let mut csv = String::new();
        let columns = self.columns();
        _ = writeln!(csv, "{}", columns.join(","));
        for line in &self.rows {
            let cells: Vec<String> = columns.iter().map(|c| quoted(cell(line, c))).collect();
            _ = writeln!(csv, "{}", cells.join(","));
        }
        csv
    }
    /// For people.
    pub fn to_text(&self) -> String {
        let mut text = format!("{} (seed {}, scale {})\n", self.experiment, self.seed, self.scale.name());
        for (name, value) in &self.conditions {
            _ = writeln!(text, "  {name}: {}", shown(value));
        }
        let columns = self.columns();
        let cells: Vec<Vec<String>> =
            self.rows.iter().map(|l| columns.iter().map(|c| cell(l, c)).collect()).collect();
        let width = |n: usize| cells.iter().map(|row| row[n].chars().count()).chain([columns[n].len()]).max();
        let widths: Vec<usize> = (0..columns.len()).map(|n| width(n).unwrap_or(0)).collect();
        let header: Vec<String> = columns.iter().map(|c| c.to_string()).collect();
        for row in std::iter::once(&header).chain(&cells) {
            let line: Vec<String> = row
                .iter()
                .zip(&widths)
                .enumerate()
                .map(|(n, (cell, &w))| if n == 0 { format!("{cell:<w$}") } else { format!("{cell:>w$}") })
                .collect();
            _ = writeln!(text, "{}", line.join("  ").trim_end());
        }
        for claim in &self.claims {
            let mark = if claim.holds() { "reached" } else { "NOT reached" };
            _ = writeln!(text, "{mark}: {} ≤ {:.1}, found {:.1}", claim.what, claim.bound, claim.found);
        }
        text
    }
    /// The rows' columns, in the order in which they come up.
    pub fn columns(&self) -> Vec<&'static str> {
        let mut columns: Vec<&'static str> = Vec::new();
        for (name, _) in self.rows.iter().flatten() {
            if !columns.contains(name) {
                columns.push(name);
            }
        }
        columns
    }
}

/// Columns and values as an object; `a.b` and `a.c` make one of two members if `nests`.
fn object(line: &[(&'static str, Value)], nests: bool) -> Value {
    let mut object = Map::new();
    for (name, value) in line {
        match name.split_once('.').filter(|_| nests) {
            Some((of, member)) => object.entry(of).or_insert_with(|| json!({}))[member] = value.clone(),
            None => _ = object.insert(name.to_string(), value.clone()),
        }
    }
    object.into()
}

/// A cell of comma-separated values.
fn quoted(cell: String) -> String {
    match cell.contains([',', '"']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell,
    }
}

/// A column of a line as a number.
pub fn number(line: &Line, column: &str) -> Option<f64> {
    line.iter().find(|(name, _)| *name == column).and_then(|(_, value)| value.as_f64())
}

/// A column of a line as text; empty if it is not there.
pub fn cell(line: &Line, column: &str) -> String {
    line.iter().find(|(name, _)| *name == column).map_or(String::new(), |(_, value)| shown(value))
}
/// A value as people read it.
pub fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(n) if n.is_f64() => format!("{:.2}", n.as_f64().unwrap_or(f64::NAN)),
        Value::Null => "–".into(),
        other => other.to_string(),
    }
}

/// A quantile of some samples in ns, as ms; null if there are none. Nearest rank.
pub fn quantile_ms(samples: &mut [u64], quantile: f64) -> Value {
    quantile_ns(samples, quantile).map_or(Value::Null, |ns| json!(ns as f64 / 1e6))
}
/// The same in ns.
pub fn quantile_ns(samples: &mut [u64], quantile: f64) -> Option<u64> {
    if samples.is_empty() {
        return None;
    }
    samples.sort_unstable();
    let rank = (quantile * samples.len() as f64).ceil() as usize;
    Some(samples[rank.clamp(1, samples.len()) - 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_reads_the_same_in_every_form() {
        let report = Report {
            experiment: "lengths",
            seed: 3,
            scale: Scale::Small,
            conditions: vec![("clock_bound_ms", json!(1.0))],
            rows: vec![vec![("system", json!("a")), ("p50_ms", json!(2.5))], vec![("system", json!("b, c"))]],
            claims: vec![Claim { what: "p50".into(), bound: 2.0, found: 2.5 }],
            plots: Vec::new(),
        };
        assert_eq!(report.figure(&[("system", "a")], "p50_ms"), Some(2.5));
        assert_eq!(report.figure(&[("system", "b, c")], "p50_ms"), None);
        assert_eq!(report.to_csv(), "system,p50_ms\na,2.50\n\"b, c\",\n");
        let json = report.to_json();
        assert_eq!(json["rows"][0]["p50_ms"], json!(2.5));
        assert_eq!(json["claims"][0]["holds"], json!(false));
        assert!(report.to_text().contains("NOT reached: p50 ≤ 2.0, found 2.5"));
    }

    #[test]
    fn quantiles_go_by_nearest_rank() {
        let mut samples = [40, 10, 30, 20];
        assert_eq!(quantile_ns(&mut samples, 0.5), Some(20));
        assert_eq!(quantile_ns(&mut samples, 0.99), Some(40));
        assert_eq!(quantile_ns(&mut samples, 0.0), Some(10));
        assert_eq!(quantile_ns(&mut [], 0.5), None);
    }
}
