//! `perseus-fig12`: transactions alone, ever more clients, and what it costs to ship updates and graph to readers.
//!
//! With analytical nodes, which nobody asks, and without. What work costs is [`super::deployment::COST`], ten times:
//! then few nodes are saturated by as many clients as the paper has.

use super::deployment::{Analytics, Deployment, Window};
use super::load::latency_ms;
use super::scenes::{self, Clients, EVERY_SECOND, throughput};
use super::systems;
use crate::plot::Plot;
use crate::{Experiment, Findings, Report, Scale, cell, number};
use serde_json::json;

pub const EXPERIMENT: Experiment = Experiment {
    name: "perseus-fig12",
    question: "How many transactions at how many clients, and what does shipping them to readers cost?",
    parts: |scale| {
        cases(scale).into_iter().map(|(shipping, clients)| format!("{shipping}, {clients} clients")).collect()
    },
    run,
    conclude,
};

const WITH: &str = "updates and graph are shipped";
const WITHOUT: &str = "nothing is shipped";

fn cases(scale: Scale) -> Vec<(&'static str, u32)> {
    let counts: &[u32] = match scale {
        Scale::Small => &[50, 200, 400],
        Scale::Paper => &[1_000, 2_500, 5_000, 7_500, 10_000],
    };
    [WITHOUT, WITH].into_iter().flat_map(|shipping| counts.iter().map(move |n| (shipping, *n))).collect()
}

fn run(scale: Scale, seed: u64, part: usize, tell: &mut dyn FnMut(f64)) -> Findings {
    let (shipping, terminals) = cases(scale)[part];
    let (tp_nodes, warehouses, window) = match scale {
        Scale::Small => (1, 200, Window::seconds(1, 1)),
        Scale::Paper => (4, 5_000, Window::seconds(2, 3)),
    };
    let analytics = if shipping == WITH { Analytics::PerDataCentre } else { Analytics::None };
    let deployment = Deployment { cost_times: 10, ..Deployment::new(tp_nodes, analytics) };
    let clients = Clients { terminals, think_ns: 0, analysts: 0, queries: EVERY_SECOND };
    let measured =
        scenes::tpcc(&deployment, &systems::RSS, warehouses, clients, &[], &[], window, seed, tell);
    let (seconds, nodes) = (measured.measured_ns as f64 / 1e9, f64::from(tp_nodes) * 5.0);
    let megabits = |bytes: u64| json!(bytes as f64 * 8.0 / 1e6 / seconds / nodes);
    let sent = |of: &sim::world::Counters| of.inside.bytes + of.across.bytes;
    let copies = if shipping == WITH { 5 } else { 0 };
    let [between, streamed] = measured.graph_bytes;
    let latencies = [measured.seen.single_region_us.as_slice(), &measured.seen.multi_region_us].concat();
    let mut row = vec![
        ("shipping", json!(shipping)),
        ("clients", json!(terminals)),
        ("p90_ms", json!(latency_ms(&latencies, 0.9))),
        ("megabits_per_node", megabits(sent(&measured.after) - sent(&measured.before))),
        ("graph_megabits_per_node", megabits(between + copies * streamed)),
    ];
    row.extend(throughput(&measured));
    let mut conditions = deployment.conditions();
    conditions.retain(|(name, _)| *name != "analytical nodes per data centre");
    conditions.extend([
        ("warehouses", json!(warehouses)),
        ("clients do not think", json!("")),
        ("copies of a partition that are shipped to", json!(5)),
        (
            "graph_bytes_per_txn / …_streamed_per_txn",
            json!("between engines / on streams, once for all copies"),
        ),
        ("seconds measured, after warm-up", json!(seconds)),
    ]);
    Findings { conditions, rows: vec![row], claims: Vec::new() }
}

fn conclude(report: &mut Report) {
    let figures = |shipping: &str, column: &str| -> Vec<f64> {
        let of = report.rows.iter().filter(|row| cell(row, "shipping") == shipping);
        of.filter_map(|row| number(row, column)).collect()
    };
    let peak = |figures: Vec<f64>| figures.into_iter().fold(f64::NAN, f64::max);
    let lost = 100.0 * (1.0 - peak(figures(WITH, "tp_per_s")) / peak(figures(WITHOUT, "tp_per_s")));
    let between = peak(figures(WITH, "graph_bytes_per_txn"));
    let streamed = peak(figures(WITH, "graph_bytes_streamed_per_txn"));
    let megabits = peak(figures(WITH, "graph_megabits_per_node"));
    report.claim("peak throughput lost to shipping (%)", 7.0, lost);
    report.claim("bytes of graph per transaction on a stream", 40.0, streamed);
    report.claim("bytes of graph per transaction between engines", 40.0, between);
    report.claim("graph shipped by a node (Mbit/s)", 26.4, megabits);
    for (caption, y) in [
        ("Transactions per second by clients", "tp_per_s"),
        ("90th percentile of latency (ms) by clients", "p90_ms"),
    ] {
        report.show(Plot::lines(caption, &report.rows, &["shipping"], ("clients", y)));
    }
}
