//! `perseus-table3`: the visibility delay of a local query (CH's first), and where it comes from.
//!
//! TPC-C terminals keep every data centre busy while analysts of each data centre open snapshots of its own
//! `order_line`. The paper's figures and a prediction from distances and intervals alone stand beside ours.

use super::deployment::{Analytics, Deployment, Window};
use super::load::Measured;
use super::scenes::{self, Clients, EVERY_SECOND, breakdown, throughput};
use super::systems::{self, System};
use crate::plot::Plot;
use crate::{Experiment, Findings, Line, Report, Scale, number};
use serde_json::{Value, json};

pub const EXPERIMENT: Experiment = Experiment {
    name: "perseus-table3",
    question: "How fresh are local queries, by PERSEUS and its baselines, at 5 data centres under TPC-C?",
    parts: |_| CONTESTANTS.iter().map(|c| format!("{}, {}", c.system.name, c.system.mode)).collect(),
    run,
    conclude,
};

/// A system, what the paper found (staleness, coordination, wait; ms), and what distances alone predict.
struct Contestant {
    system: System,
    paper_ms: Option<[f64; 3]>,
    /// ms, in the same order; see `docs/experiments/perseus.md`.
    predicted_ms: [f64; 3],
}

/// Predictions, with w = 50 ms one way across and r = 2 ms there and back inside.
/// - Lightning: the oldest undecided writer anywhere (PreAccept's answer, Commit, exchange: 3 w), one interval
///   (the last of a hundred partitions to announce), one way to here: 3 w + 30 + w.
/// - TiDB: four queries of five cross to the oracle, then the partitions are closed: 0.8 · 2 w + r + r. A writer
///   that got its timestamp just before the query is executed Commit + exchange later (2 w, less the
///   timestamp's way back), one that gets it later is known to be excluded after about as long.
/// - Janus-HTAP: as Lightning, a barrier waits for the oldest undecided writer (3 w) and for the last partition's
///   report (50 ms and w), and was set 25 ms earlier on average; but the manager is asked 0.8 w after the
///   arrival. Its answer takes as long.
/// - A synchronous replica waits until nothing older than what it has can follow: for what was undecided when
///   the newest was executed, which is the rest of 3 w, and half a heartbeat interval of 20 ms.
/// - PERSEUS: one round trip inside. Without the two rules a reader waits for what was in flight when it
///   came: the rest of 3 w.
const CONTESTANTS: [Contestant; 8] = [
    Contestant {
        system: systems::LIGHTNING,
        paper_ms: Some([237.2, 0.0, 0.0]),
        predicted_ms: [230.0, 0.0, 0.0],
    },
    Contestant {
        system: systems::TIDB,
        paper_ms: Some([6.2, 121.5, 103.6]),
        predicted_ms: [0.0, 84.0, 100.0],
    },
    Contestant {
        system: systems::JANUS,
        paper_ms: Some([121.8, 127.5, 53.7]),
        predicted_ms: [235.0, 80.4, 0.0],
    },
    Contestant { system: systems::SPANNER, paper_ms: None, predicted_ms: [0.0, 0.0, 160.0] },
    Contestant { system: systems::REGULAR, paper_ms: Some([7.1, 7.2, 14.9]), predicted_ms: [0.0, 2.0, 0.0] },
    Contestant { system: systems::RSS, paper_ms: Some([7.1, 7.2, 14.9]), predicted_ms: [0.0, 2.0, 0.0] },
    Contestant { system: systems::RSS_NO_RULES, paper_ms: None, predicted_ms: [0.0, 2.0, 150.0] },
    Contestant { system: systems::LIGHTNING_FUTURE, paper_ms: None, predicted_ms: [80.0, 0.0, 0.0] },
];

/// Sizes by scale.
pub(super) struct Size {
    pub tp_nodes: u16,
    pub warehouses: i32,
    pub clients_per_warehouse: u32,
    pub per_client_per_s: f64,
    pub analysts: u16,
    pub window: Window,
}

impl Size {
    pub fn of(scale: Scale) -> Size {
        match scale {
            Scale::Small => Size {
                tp_nodes: 2,
                warehouses: 50,
                clients_per_warehouse: 2,
                per_client_per_s: 5.0,
                analysts: 4,
                window: Window::seconds(1, 2),
            },
            Scale::Paper => Size {
                tp_nodes: 20,
                warehouses: 3_500,
                clients_per_warehouse: 2,
                per_client_per_s: 5.0,
                analysts: 40,
                window: Window::seconds(2, 10),
            },
        }
    }
    pub fn clients(&self) -> Clients {
        Clients {
            terminals: self.warehouses as u32 * self.clients_per_warehouse,
            think_ns: (1e9 / self.per_client_per_s) as u64,
            analysts: self.analysts,
            queries: EVERY_SECOND,
        }
    }
    pub fn conditions(&self) -> Vec<(&'static str, Value)> {
        let clients = self.warehouses as u32 * self.clients_per_warehouse;
        vec![
            ("warehouses", json!(self.warehouses)),
            ("TP clients, in closed loops", json!(clients)),
            ("transactions per second offered, about", json!(f64::from(clients) * self.per_client_per_s)),
            ("rows", json!("TPC-C with 50 items and 3 customers per district")),
            ("analysts per data centre, one query a second each", json!(self.analysts)),
            ("seconds measured, after warm-up", json!(self.window.measured_ns / base::time::SECOND)),
        ]
    }
}

/// Virtual seconds before the window, at this scale.
pub fn warm_up_s(scale: Scale) -> f64 {
    Size::of(scale).window.warm_up_ns as f64 / 1e9
}

fn run(scale: Scale, seed: u64, part: usize, tell: &mut dyn FnMut(f64)) -> Findings {
    run_on(1, scale, seed, part, tell)
}

/// The same on so many threads.
pub fn run_on(threads: usize, scale: Scale, seed: u64, part: usize, tell: &mut dyn FnMut(f64)) -> Findings {
    let (size, contestant) = (Size::of(scale), &CONTESTANTS[part]);
    let deployment = Deployment { threads, ..Deployment::new(size.tp_nodes, Analytics::PerDataCentre) };
    let measured = scenes::tpcc(
        &deployment,
        &contestant.system,
        size.warehouses,
        size.clients(),
        scenes::CH_Q1,
        &[],
        size.window,
        seed,
        tell,
    );
    let mut conditions = deployment.conditions();
    conditions.extend(size.conditions());
    Findings { conditions, rows: vec![row(contestant, &measured)], claims: Vec::new() }
}

fn row(contestant: &Contestant, measured: &Measured) -> Line {
    let mut line = vec![("system", json!(contestant.system.name)), ("mode", json!(contestant.system.mode))];
    line.extend(breakdown(measured, contestant.paper_ms, Some(contestant.predicted_ms)));
    line.extend(throughput(measured));
    line
}

fn conclude(report: &mut Report) {
    for mode in ["regular", "rss"] {
        let found = report.figure(&[("mode", mode)], "total_ms").unwrap_or(f64::NAN);
        let what = format!("local visibility delay of PERSEUS, {mode} (ms)");
        report.claim(what, 15.0, found);
    }
    let pieces = ["staleness_ms", "coordination_ms", "wait_ms"];
    report.show(Plot::stacked(
        "Visibility delay of local queries: where it comes from",
        &report.rows,
        &["system", "mode"],
        "visibility delay, ms",
        &pieces,
    ));
    report.show(Plot::stacked(
        "The same in the paper, as far as it has the system",
        &report
            .rows
            .iter()
            .filter(|row| number(row, "paper_total_ms").is_some())
            .cloned()
            .collect::<Vec<_>>(),
        &["system", "mode"],
        "visibility delay, ms",
        &["paper_total_ms"],
    ));
}
