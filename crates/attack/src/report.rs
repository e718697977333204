//! What a run found: findings by defect, each kept in a file; the table at the end; the same as JSON.

use crate::drive::{CORPUS, QUIET};
use crate::generate::Generator;
use crate::input::Input;
use crate::judge::{Kind, Verdict};
use crate::neighbour::Errand;
use hdrhistogram::Histogram;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::path::PathBuf;
use std::sync::Mutex;

/// One defect, as far as texts can tell, with the first input that showed it.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    pub kind: Kind,
    pub shape: String,
    /// Alike for the same defect.
    pub detail: String,
    pub said: String,
    pub seed: Option<u64>,
    pub index: Option<u64>,
    /// The input does it alone.
    pub confirmed: bool,
    pub count: u64,
    pub file: Option<PathBuf>,
    /// The input, cut.
    pub input: String,
}

/// Longer inputs are cut where they are shown.
const SHOWN_CHARS: usize = 300;

impl Finding {
    pub fn new(
        verdict: Verdict,
        shape: String,
        seed: Option<u64>,
        index: Option<u64>,
        confirmed: bool,
    ) -> Finding {
        let Verdict { kind, detail, said } = verdict;
        Finding {
            kind,
            shape,
            detail,
            said,
            seed,
            index,
            confirmed,
            count: 1,
            file: None,
            input: String::new(),
        }
    }
    /// The same for the same defect. What is told by the server tells it, whatever the shape was.
    fn key(&self) -> (Kind, String) {
        match self.kind {
            Kind::Internal | Kind::Reveals | Kind::Malformed | Kind::Panic | Kind::Disturbed => {
                (self.kind, self.detail.clone())
            }
            // Who stalled others is not known before it did it alone.
            Kind::Stall | Kind::Memory if !self.confirmed => (self.kind, "unconfirmed".into()),
            _ => (self.kind, self.shape.clone()),
        }
    }
}

/// All findings of a run.
pub struct Findings {
    folder: Option<PathBuf>,
    found: Mutex<BTreeMap<(Kind, String), Finding>>,
}

impl Findings {
    pub fn new(folder: Option<PathBuf>) -> Findings {
        Findings { folder, found: Mutex::default() }
    }
    fn found(&self) -> std::sync::MutexGuard<'_, BTreeMap<(Kind, String), Finding>> {
        self.found.lock().expect("no panic while it is held")
    }
    pub fn len(&self) -> usize {
        self.found().len()
    }
    pub fn is_empty(&self) -> bool {
        self.found().is_empty()
    }
    pub fn all(&self) -> Vec<Finding> {
        self.found().values().cloned().collect()
    }
    pub fn is_known(&self, finding: &Finding) -> bool {
        self.found().contains_key(&finding.key())
    }

    /// Counts a finding; the first of a defect is written to a file.
    pub fn note(&self, mut finding: Finding, input: Option<&Input>) {
        let mut found = self.found();
        if let Some(known) = found.get_mut(&finding.key()) {
            known.count += 1;
            return;
        }
        if let Some(input) = input {
            let text = input.to_string();
            finding.input = text.chars().take(SHOWN_CHARS).collect();
            finding.file = self.write(&finding, &text);
        }
        found.insert(finding.key(), finding);
    }

    fn write(&self, finding: &Finding, input: &str) -> Option<PathBuf> {
        let folder = self.folder.as_ref()?;
        let shape: String =
            finding.shape.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
        let named = (0..1000).map(|n| folder.join(format!("{}-{shape}-{n}.attack", finding.kind.name())));
        let path = named.into_iter().find(|p| !p.exists())?;
        let name = |n: Option<u64>| n.map_or("none".into(), |n| n.to_string());
        let said = finding.said.replace('\n', " ");
        let text = format!(
            "# {}: {}{}: {said}\n# seed {}, index {}\n{input}",
            finding.shape,
            finding.kind.name(),
            if finding.confirmed { "" } else { " (with others)" },
            name(finding.seed),
            name(finding.index),
        );
        let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, text));
        if let Err(error) = written {
            eprintln!("write {}: {error}", path.display());
            return None;
        }
        Some(path)
    }

    /// A shape that ends the server or makes it silent, or takes its memory, would hide everything else.
    pub fn is_set_aside(&self, shape: &str) -> bool {
        let found = self.found();
        [Kind::Exit, Kind::Silence, Kind::Memory, Kind::Late, Kind::Stall]
            .iter()
            .any(|&kind| found.get(&(kind, shape.to_string())).is_some_and(|f| f.confirmed))
    }
}

/// One phase of the run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Row {
    pub seconds: f64,
    pub inputs: u64,
    pub answered: u64,
    pub refused: u64,
    pub turned_away: u64,
    pub stalls: u64,
    pub resident_bytes_peak: u64,
    /// Of other sessions, by errand.
    pub others: BTreeMap<&'static str, Latency>,
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Latency {
    pub p50_us: u64,
    pub p99_us: u64,
    pub max_us: u64,
    pub count: u64,
}

impl Row {
    pub fn set_latencies(&mut self, errand: Errand, all: &Histogram<u64>) {
        let latency = Latency {
            p50_us: all.value_at_quantile(0.5),
            p99_us: all.value_at_quantile(0.99),
            max_us: all.max(),
            count: all.len(),
        };
        self.others.insert(errand.name(), latency);
    }
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    pub seed: u64,
    pub rows: BTreeMap<String, Row>,
    pub findings: Vec<Finding>,
    pub restarts: u64,
    /// Stalls while the driver itself did not run either.
    pub machine_stalls: u64,
    pub baseline_bytes: u64,
    pub ceiling_bytes: u64,
    pub stall_ms: u64,
    /// Tasks of the driver itself that panicked; their messages went to standard error.
    pub driver_panics: u64,
}

impl Summary {
    pub fn inputs(&self) -> u64 {
        self.rows.values().map(|r| r.inputs).sum()
    }
    /// p99 of others under attack as a multiple of quiet, in the same run.
    pub fn ratio(&self, phase: &str, errand: Errand) -> Option<f64> {
        let of = |phase: &str| self.rows.get(phase)?.others.get(errand.name()).map(|l| l.p99_us as f64);
        Some(of(phase)? / of(QUIET)?.max(1.0))
    }
    pub fn count(&self, kind: Kind) -> u64 {
        self.findings.iter().filter(|f| f.kind == kind).map(|f| f.count).sum()
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<8} {:>8} {:>9} {:>8} {:>7} {:>6}   p99 of other sessions in ms (of quiet): read, write, analyse   peak MiB",
            "", "inputs", "an hour", "answers", "errors", "stalls"
        )?;
        let order = [QUIET, CORPUS].into_iter().chain(Generator::ALL.map(Generator::name));
        for (name, row) in order.filter_map(|name| Some((name, self.rows.get(name)?))) {
            let per_hour = row.inputs as f64 / row.seconds.max(0.001) * 3600.0;
            let mut others = String::new();
            for errand in Errand::ALL {
                let Some(latency) = row.others.get(errand.name()) else { continue };
                write!(others, "{:>9.1}", latency.p99_us as f64 / 1000.0)?;
                match self.ratio(name, errand).filter(|_| name != QUIET) {
                    Some(ratio) => write!(others, " ({ratio:>5.1}×)")?,
                    None => others.push_str("         "),
                }
            }
            writeln!(
                f,
                "{name:<8} {:>8} {per_hour:>9.0} {:>8} {:>7} {:>6}   {others:<58} {:>9}",
                row.inputs,
                row.answered,
                row.refused,
                row.stalls,
                row.resident_bytes_peak >> 20
            )?;
        }
        writeln!(
            f,
            "seed {}; memory {} MiB at rest, {} allowed; the server was started again {} times; {} stalls were the machine's",
            self.seed,
            self.baseline_bytes >> 20,
            self.ceiling_bytes >> 20,
            self.restarts,
            self.machine_stalls
        )?;
        for finding in &self.findings {
            let said: String = finding.said.chars().take(200).collect();
            writeln!(
                f,
                "\n{} ×{}{}: {}: {}",
                finding.kind.name(),
                finding.count,
                if finding.confirmed { "" } else { " (with others)" },
                finding.shape,
                said.replace('\n', " ")
            )?;
            match &finding.file {
                Some(file) => writeln!(f, "  {}", file.display())?,
                None => writeln!(f, "  {}", finding.input.trim_end())?,
            }
        }
        match self.findings.len() {
            0 => write!(f, "no findings"),
            n => write!(f, "{n} findings"),
        }
    }
}
