//! `perseus-fig8`: skew. The micro-workload with ever more of its transactions on ever fewer keys.

use super::deployment::{Analytics, Deployment, Window};
use super::scenes::{self, Clients, EVERY_SECOND, Scope, breakdown, throughput};
use super::systems::{self, System};
use crate::plot::Plot;
use crate::{Experiment, Findings, Report, Scale};
use base::time::MS;
use serde_json::json;
use workload::micro::Micro;

pub const EXPERIMENT: Experiment = Experiment {
    name: "perseus-fig8",
    question: "What does skew do to the freshness of local queries (Microbench-Zipf)?",
    parts: |_| {
        cases().map(|(system, skew)| format!("{}, {}, skew {skew}", system.name, system.mode)).collect()
    },
    run,
    conclude,
};

const SYSTEMS: [System; 5] =
    [systems::LIGHTNING, systems::TIDB, systems::JANUS, systems::REGULAR, systems::RSS];
const SKEWS: [f64; 5] = [0.0, 0.4, 0.7, 0.9, 0.99];

fn cases() -> impl Iterator<Item = (System, f64)> {
    SYSTEMS.into_iter().flat_map(|system| SKEWS.into_iter().map(move |skew| (system, skew)))
}

fn run(scale: Scale, seed: u64, part: usize, tell: &mut dyn FnMut(f64)) -> Findings {
    let (system, skew) = cases().nth(part).expect("as many as there are parts");
    let (tp_nodes, keys_per_home, terminals, span) = match scale {
        Scale::Small => (2, 200, 100, Window::seconds(1, 2)),
        Scale::Paper => (20, 2_000, 2_000, Window::seconds(2, 5)),
    };
    let deployment = Deployment::new(tp_nodes, Analytics::PerDataCentre);
    let homes = i64::from(tp_nodes) * 5 * 4;
    let sizes = Micro { homes, keys_per_home, skew, keys_per_transaction: 4, remote: 0.1 };
    let clients = Clients { terminals, think_ns: 400 * MS, analysts: 4, queries: EVERY_SECOND };
    let measured = scenes::micro(&deployment, &system, &sizes, clients, Scope::Local, span, seed, tell);
    let mut row = vec![("system", json!(system.name)), ("mode", json!(system.mode)), ("skew", json!(skew))];
    row.extend(breakdown(&measured, None, None));
    row.extend(throughput(&measured));
    let mut conditions = deployment.conditions();
    conditions.extend([
        ("keys per home, four homes per TP node", json!(keys_per_home)),
        ("keys per transaction", json!("4, the last of another home in a tenth of them")),
        ("TP clients, in closed loops, thinking 400 ms", json!(terminals)),
        ("seconds measured, after warm-up", json!(span.measured_ns / base::time::SECOND)),
    ]);
    Findings { conditions, rows: vec![row], claims: Vec::new() }
}

fn conclude(report: &mut Report) {
    let (caption, axes) = ("Visibility delay of local queries (ms) by skew", ("skew", "total_ms"));
    report.show(Plot::lines(caption, &report.rows, &["system", "mode"], axes));
    let (caption, axes) =
        ("Bytes of graph per transaction on a stream, by skew", ("skew", "graph_bytes_streamed_per_txn"));
    report.show(Plot::lines(caption, &report.rows, &["system", "mode"], axes));
}
