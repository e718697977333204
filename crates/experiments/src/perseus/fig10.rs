//! `perseus-fig10`: more TP nodes. The micro-workload, whose load grows with the nodes; every analytical node
//! keeps the columns of twenty TP nodes at most, whatever there are.

use super::deployment::{Analytics, Deployment, Window};
use super::scenes::{self, Clients, EVERY_SECOND, Scope, breakdown, throughput};
use super::systems::{self, System};
use crate::plot::Plot;
use crate::{Experiment, Findings, Report, Scale, number};
use base::time::MS;
use serde_json::json;
use workload::micro::Micro;

pub const EXPERIMENT: Experiment = Experiment {
    name: "perseus-fig10",
    question: "Does the freshness of local queries depend on how many TP nodes a data centre has?",
    parts: |scale| {
        cases(scale).map(|(s, nodes)| format!("{}, {}, {nodes} TP nodes", s.name, s.mode)).collect()
    },
    run,
    conclude,
};

const SYSTEMS: [System; 2] = [systems::REGULAR, systems::RSS];

fn cases(scale: Scale) -> impl Iterator<Item = (System, u16)> {
    let counts: &[u16] = match scale {
        Scale::Small => &[2, 6, 12],
        Scale::Paper => &[20, 60, 100, 200, 500],
    };
    SYSTEMS.into_iter().flat_map(move |system| counts.iter().map(move |count| (system, *count)))
}

fn run(scale: Scale, seed: u64, part: usize, tell: &mut dyn FnMut(f64)) -> Findings {
    let (system, tp_nodes) = cases(scale).nth(part).expect("as many as there are parts");
    let deployment = Deployment::new(tp_nodes, Analytics::LocalGroups { nodes_each: 20 });
    let homes = i64::from(tp_nodes) * 5;
    let sizes = Micro { homes, keys_per_home: 100, skew: 0.0, keys_per_transaction: 4, remote: 0.1 };
    let clients =
        Clients { terminals: homes as u32 * 2, think_ns: 400 * MS, analysts: 4, queries: EVERY_SECOND };
    let span = match scale {
        Scale::Small => Window::seconds(1, 2),
        Scale::Paper => Window::seconds(1, 3),
    };
    let measured = scenes::micro(&deployment, &system, &sizes, clients, Scope::Subscribed, span, seed, tell);
    let mut row =
        vec![("system", json!(system.name)), ("mode", json!(system.mode)), ("tp_nodes", json!(tp_nodes))];
    row.extend(breakdown(&measured, None, None));
    row.extend(throughput(&measured));
    let conditions = deployment.conditions().into_iter().filter(|(name, _)| !name.starts_with("TP nodes"));
    let mut conditions: Vec<_> = conditions.collect();
    conditions.extend([
        ("keys per TP node", json!(100)),
        ("TP clients per TP node, in closed loops, thinking 400 ms", json!(2)),
        ("seconds measured, after warm-up", json!(span.measured_ns / base::time::SECOND)),
    ]);
    Findings { conditions, rows: vec![row], claims: Vec::new() }
}

fn conclude(report: &mut Report) {
    for system in SYSTEMS {
        let of = report.rows.iter().filter(|row| crate::cell(row, "mode") == system.mode);
        let delays: Vec<f64> = of.filter_map(|row| number(row, "total_ms")).collect();
        let (Some(first), Some(last)) = (delays.first(), delays.last()) else { continue };
        let what = format!("delay with the most TP nodes ÷ with the fewest, {}", system.mode);
        report.claim(what, 1.5, last / first);
    }
    let axes = ("tp_nodes", "total_ms");
    let caption = "Visibility delay of local queries (ms) by TP nodes per data centre";
    report.show(Plot::lines(caption, &report.rows, &["system", "mode"], axes));
}
