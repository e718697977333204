//! `perseus-fig6`: all 22 CH queries, each local to its data centre.
//!
//! The visibility delay is that of virtual time. What a query costs once it has its snapshot was measured apart,
//! on real columns ([`EXECUTION_CPU_MS`]), and is no part of the run. `region`, `nation` and `supplier`, which
//! nobody writes, are left out: a query reads its other tables.

use super::deployment::{Analytics, Deployment};
use super::load::Measured;
use super::scenes::{self, Clients, Queries};
use super::systems::{self, System};
use super::table3::Size;
use crate::plot::Plot;
use crate::{Experiment, Findings, Line, Report, Scale, number};
use base::time::MS;
use serde_json::json;
use workload::ch;

pub const EXPERIMENT: Experiment = Experiment {
    name: "perseus-fig6",
    question: "How fresh is each of the 22 CH queries, by PERSEUS and its baselines, and what does it cost?",
    parts: |_| SYSTEMS.iter().map(|s| format!("{}, {}", s.name, s.mode)).collect(),
    run,
    conclude,
};

const SYSTEMS: [System; 5] =
    [systems::LIGHTNING, systems::TIDB, systems::JANUS, systems::REGULAR, systems::RSS];

/// CPU of each query over 10 warehouses, in ms: `docs/benchmarks.md`, "The 22 CH queries, 10 warehouses".
const EXECUTION_CPU_MS: [f64; 22] = [
    115.0, 168.0, 116.0, 106.0, 772.0, 11.0, 164.0, 69.0, 81.0, 584.0, 61.0, 64.0, 31.0, 144.0, 583.0, 751.0,
    160.0, 448.0, 65.0, 49.0, 174.0, 30.0,
];

fn run(scale: Scale, seed: u64, part: usize, tell: &mut dyn FnMut(f64)) -> Findings {
    let (size, system) = (Size::of(scale), &SYSTEMS[part]);
    let deployment = Deployment::new(size.tp_nodes, Analytics::PerDataCentre);
    let queries: Vec<Vec<&str>> = ch::QUERIES.map(ch::queries::tables).collect();
    let queries: Vec<&[&str]> = queries.iter().map(Vec::as_slice).collect();
    let clients =
        Clients { analysts: 44, queries: Queries { think_ns: 500 * MS, cpu_ns: 0 }, ..size.clients() };
    let measured =
        scenes::tpcc(&deployment, system, size.warehouses, clients, &queries, &[], size.window, seed, tell);
    let mut conditions = deployment.conditions();
    conditions.extend(size.conditions().into_iter().filter(|(name, _)| !name.starts_with("analysts")));
    conditions
        .push(("analysts per data centre, two queries a second each, in turn", json!(clients.analysts)));
    conditions.push(("execution_cpu_ms", json!("measured apart, 10 warehouses; see docs/benchmarks.md")));
    Findings {
        conditions,
        rows: (0..queries.len()).map(|n| row(system, &measured, n)).collect(),
        claims: vec![],
    }
}

fn row(system: &System, measured: &Measured, query: usize) -> Line {
    let of = |part: fn(&base::Freshness) -> u64| {
        let kinds = measured.seen.kinds.iter().zip(&measured.seen.queries);
        let parts: Vec<u64> =
            kinds.filter(|(kind, _)| usize::from(**kind) == query).map(|(_, f)| part(f)).collect();
        json!(parts.iter().sum::<u64>() as f64 / parts.len().max(1) as f64 / 1e6)
    };
    vec![
        ("system", json!(system.name)),
        ("mode", json!(system.mode)),
        ("query", json!(query + 1)),
        ("staleness_ms", of(|f| f.staleness_ns)),
        ("coordination_ms", of(|f| f.coordination_ns)),
        ("wait_ms", of(|f| f.wait_ns)),
        ("total_ms", of(base::Freshness::visibility_delay_ns)),
        ("execution_cpu_ms", json!(EXECUTION_CPU_MS[query])),
        ("queries", json!(measured.seen.kinds.iter().filter(|kind| usize::from(**kind) == query).count())),
    ]
}

fn conclude(report: &mut Report) {
    for mode in ["regular", "rss"] {
        let of = report.rows.iter().filter(|row| crate::cell(row, "mode") == mode);
        let found = of.filter_map(|row| number(row, "total_ms")).fold(f64::NAN, f64::max);
        let what = format!("visibility delay of the slowest query, {mode} (ms)");
        report.claim(what, 15.0, found);
    }
    let caption = "Visibility delay (ms) of the 22 CH queries";
    report.show(Plot::lines(caption, &report.rows, &["system", "mode"], ("query", "total_ms")));
}
