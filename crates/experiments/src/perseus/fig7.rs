//! `perseus-fig7`: Broker Report and Market Monitor, and what the dynamic snapshot is for.
//!
//! At level `regular` a partition is asked for the end of its log, whatever is read: both queries read tables of
//! all partitions, so they have the same delays there.

use super::deployment::{Analytics, Deployment};
use super::scenes::{self, breakdown, throughput};
use super::systems::{self, System};
use super::table4::Size;
use crate::plot::Plot;
use crate::{Experiment, Findings, Report, Scale};
use serde_json::json;
use workload::tpce;

pub const EXPERIMENT: Experiment = Experiment {
    name: "perseus-fig7",
    question: "What does moving cuts up while queries wait do for global queries under HTAPBench-E?",
    parts: |_| CASES.iter().map(|(query, _, s)| format!("{query}, {}, {}", s.name, s.mode)).collect(),
    run,
    conclude,
};

const BR: (&str, &[&str]) = ("Broker Report", &tpce::BROKER_REPORT_TABLES);
const MM: (&str, &[&str]) = ("Market Monitor", &tpce::MARKET_MONITOR_TABLES);
const CASES: [(&str, &[&str], System); 6] = [
    (BR.0, BR.1, systems::REGULAR),
    (BR.0, BR.1, systems::REGULAR_STATIC),
    (BR.0, BR.1, systems::RSS),
    (MM.0, MM.1, systems::REGULAR),
    (MM.0, MM.1, systems::REGULAR_STATIC),
    (MM.0, MM.1, systems::RSS),
];

fn run(scale: Scale, seed: u64, part: usize, tell: &mut dyn FnMut(f64)) -> Findings {
    let (size, (query, tables, system)) = (Size::of(scale), &CASES[part]);
    let deployment = Deployment::new(size.tp_nodes, Analytics::Whole);
    let measured =
        scenes::tpce(&deployment, system, &size.tpce, size.clients, tables, size.window, seed, tell);
    let mut row = vec![("query", json!(query)), ("mode", json!(system.mode))];
    row.extend(breakdown(&measured, None, None));
    // How old the snapshot was when it was handed out: what moving a cut up makes smaller.
    row.push(("age_ms", json!(measured.mean_ms(|f| f.age_ns))));
    row.extend(throughput(&measured));
    let mut conditions = deployment.conditions();
    conditions.extend(size.conditions());
    Findings { conditions, rows: vec![row], claims: Vec::new() }
}

fn conclude(report: &mut Report) {
    for (caption, piece) in [
        ("Visibility delay of global queries", "total_ms"),
        ("Age of the snapshot when it is handed out", "age_ms"),
    ] {
        report.show(Plot::stacked(caption, &report.rows, &["query", "mode"], "ms", &[piece]));
    }
}
