//! `perseus-fig9`: isolation. Transactions as fast as they go while analysts are added, and queries as fast as they
//! go while clients are added.
//!
//! What work costs is [`super::deployment::COST`], ten times: then few nodes are saturated by as many clients as
//! the paper has. A query, once it has its snapshot, takes [`QUERY_CPU_NS`] of its machine, whose cores are used by
//! the node's own steps and merges first (`world::work`).

use super::deployment::{Analytics, Deployment, Window};
use super::scenes::{self, Clients, Queries, throughput};
use super::systems::{self, System};
use crate::plot::{Plot, words};
use crate::{Experiment, Findings, Report, Scale, cell, number};
use base::time::MS;
use serde_json::json;

pub const EXPERIMENT: Experiment = Experiment {
    name: "perseus-fig9",
    question: "What do transactions lose to queries, and queries to transactions (CH-benCHmark)?",
    parts: |scale| {
        let name = |(system, what, count): (System, &str, u32)| format!("{}, {what}, {count}", system.mode);
        cases(scale).into_iter().map(name).collect()
    },
    run,
    conclude,
};

const SYSTEMS: [System; 5] =
    [systems::REGULAR, systems::RSS, systems::LIGHTNING, systems::TIDB, systems::JANUS];
const TP: &str = "transactions while queries";
const AP: &str = "queries while transactions";
/// The mean of the 22 queries over 10 warehouses, as measured apart: `docs/benchmarks.md`.
pub const QUERY_CPU_NS: u64 = 216 * MS;
/// Analysts of a data centre that saturate its analytical node.
const ANALYSTS: u16 = 40;
/// The paper's largest losses, in per cent.
const PAPER_PERCENT: [(&str, f64); 2] = [(TP, 7.0), (AP, 12.0)];

struct Size {
    tp_nodes: u16,
    warehouses: i32,
    terminals: u32,
    window: Window,
}

impl Size {
    fn of(scale: Scale) -> Size {
        match scale {
            Scale::Small => {
                Size { tp_nodes: 1, warehouses: 200, terminals: 400, window: Window::seconds(1, 1) }
            }
            Scale::Paper => {
                Size { tp_nodes: 4, warehouses: 4_500, terminals: 9_000, window: Window::seconds(2, 3) }
            }
        }
    }
}

/// A system, who is saturated, and how many of the others there are: analysts per data centre, or clients.
fn cases(scale: Scale) -> Vec<(System, &'static str, u32)> {
    let terminals = Size::of(scale).terminals;
    let counts = [0, u32::from(ANALYSTS) / 4, u32::from(ANALYSTS)].map(|count| (TP, count));
    let others = [0, terminals / 4, terminals].map(|count| (AP, count));
    let of = |system| counts.into_iter().chain(others).map(move |(what, count)| (system, what, count));
    SYSTEMS.into_iter().flat_map(of).collect()
}

fn run(scale: Scale, seed: u64, part: usize, tell: &mut dyn FnMut(f64)) -> Findings {
    let (size, (system, what, count)) = (Size::of(scale), cases(scale)[part]);
    let deployment =
        Deployment { cost_times: 10, ..Deployment::new(size.tp_nodes, Analytics::PerDataCentre) };
    let (terminals, analysts) = if what == TP { (size.terminals, count as u16) } else { (count, ANALYSTS) };
    let queries = Queries { think_ns: 0, cpu_ns: QUERY_CPU_NS };
    let clients = Clients { terminals, think_ns: 0, analysts, queries };
    let measured = scenes::tpcc(
        &deployment,
        &system,
        size.warehouses,
        clients,
        scenes::CH_Q1,
        &[],
        size.window,
        seed,
        tell,
    );
    let seconds = measured.measured_ns as f64 / 1e9;
    let mut row = vec![
        ("system", json!(system.name)),
        ("mode", json!(system.mode)),
        ("saturated", json!(what)),
        ("clients", json!(terminals)),
        ("analysts", json!(analysts)),
        ("queries_per_s", json!(measured.seen.queries_done as f64 / seconds)),
        ("delay_ms", json!(measured.mean_ms(|f| f.visibility_delay_ns()))),
    ];
    row.extend(throughput(&measured));
    let mut conditions = deployment.conditions();
    conditions.extend([
        ("warehouses", json!(size.warehouses)),
        ("clients and analysts do not think; analysts are per data centre, at one node", json!("")),
        ("cores of a machine, for queries and before them for its node", json!(24)),
        ("CPU of a query (ms)", json!(QUERY_CPU_NS / MS)),
        ("CPU of a merge (ms)", json!(super::deployment::COST.computation_ns / MS)),
        ("seconds measured, after warm-up", json!(seconds)),
    ]);
    Findings { conditions, rows: vec![row], claims: Vec::new() }
}

fn conclude(report: &mut Report) {
    for (what, by, of, paper) in [
        (TP, "analysts", "tp_per_s", PAPER_PERCENT[0].1),
        (AP, "clients", "queries_per_s", PAPER_PERCENT[1].1),
    ] {
        let rows: Vec<_> = report.rows.iter().filter(|row| cell(row, "saturated") == what).cloned().collect();
        for system in SYSTEMS {
            let figures = rows.iter().filter(|row| cell(row, "mode") == system.mode);
            let figures: Vec<f64> = figures.filter_map(|row| number(row, of)).collect();
            let (Some(alone), Some(least)) = (figures.first(), figures.iter().copied().reduce(f64::min))
            else {
                continue;
            };
            if system.baseline.is_none() {
                let what = format!("{what}, {}: largest loss (%)", system.mode);
                report.claim(what, paper, 100.0 * (1.0 - least / alone));
            }
        }
        let caption = format!("{what} are added: {} by {}", words(of), words(by));
        report.show(Plot::lines(&caption, &rows, &["system", "mode"], (by, of)));
    }
}
