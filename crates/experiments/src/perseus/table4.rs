//! `perseus-table4`: the visibility delay of a global query, HTAPBench-E's Broker Report.
//!
//! Traders keep every data centre busy; most of their transactions span data centres. Analysts everywhere read
//! what Broker Report reads, from all partitions. A data centre has one analytical node with all columns instead
//! of five with a fifth each: a query needs one node, which leaves out a round trip inside.

use super::deployment::{Analytics, Deployment, Window};
use super::scenes::{self, Clients, EVERY_SECOND, breakdown, throughput};
use super::systems::{self, System};
use crate::plot::Plot;
use crate::{Experiment, Findings, Report, Scale};
use base::time::MS;
use serde_json::{Value, json};
use workload::tpce::{self, Tpce};

pub const EXPERIMENT: Experiment = Experiment {
    name: "perseus-table4",
    question: "How fresh are global queries, by PERSEUS and its baselines, at 5 data centres under HTAPBench-E?",
    parts: |_| CONTESTANTS.iter().map(|(s, ..)| format!("{}, {}", s.name, s.mode)).collect(),
    run,
    conclude,
};

type Parts = [f64; 3];

/// A system, the paper's figures (staleness, coordination, wait; ms) and what distances predict.
///
/// A global query hears from partitions one WAN round trip away (2 w); with w = 50 ms one way. What PERSEUS
/// waits for beyond that is the rest of what was executed at one participant and not yet at another (up to w).
/// A baseline's prediction is that of a local query, except that TiDB closes partitions across (2 w more), and that
/// what it waits for otherwise is the same.
const CONTESTANTS: [(System, Option<Parts>, Parts); 6] = [
    (systems::LIGHTNING, Some([235.2, 0.0, 0.0]), [230.0, 0.0, 0.0]),
    (systems::TIDB, Some([6.2, 132.5, 204.8]), [0.0, 182.0, 100.0]),
    (systems::JANUS, Some([160.8, 115.1, 127.5]), [235.0, 80.4, 0.0]),
    (systems::REGULAR, Some([5.9, 103.4, 123.2]), [0.0, 101.0, 50.0]),
    (systems::RSS, Some([5.9, 103.4, 123.2]), [0.0, 101.0, 0.0]),
    (systems::RSS_NO_RULES, None, [0.0, 101.0, 150.0]),
];

/// Sizes by scale.
pub(super) struct Size {
    pub tp_nodes: u16,
    pub tpce: Tpce,
    pub clients: Clients,
    pub window: Window,
}

impl Size {
    pub fn of(scale: Scale) -> Size {
        let sizes = |accounts| Tpce { accounts, brokers: accounts / 2, securities: accounts, holdings: 5 };
        match scale {
            Scale::Small => Size {
                tp_nodes: 2,
                tpce: sizes(200),
                clients: Clients { terminals: 200, think_ns: 500 * MS, analysts: 4, queries: EVERY_SECOND },
                window: Window::seconds(1, 2),
            },
            Scale::Paper => Size {
                tp_nodes: 20,
                tpce: sizes(7_000),
                clients: Clients {
                    terminals: 7_000,
                    think_ns: 700 * MS,
                    analysts: 20,
                    queries: EVERY_SECOND,
                },
                window: Window::seconds(2, 10),
            },
        }
    }
    pub fn conditions(&self) -> Vec<(&'static str, Value)> {
        vec![
            ("accounts, one client each, in closed loops", json!(self.tpce.accounts)),
            ("a client thinks (ms), on average", json!(self.clients.think_ns / MS)),
            ("securities / brokers", json!(format!("{} / {}", self.tpce.securities, self.tpce.brokers))),
            ("analysts per data centre, one query a second each", json!(self.clients.analysts)),
            ("seconds measured, after warm-up", json!(self.window.measured_ns / base::time::SECOND)),
        ]
    }
}

fn run(scale: Scale, seed: u64, part: usize, tell: &mut dyn FnMut(f64)) -> Findings {
    let (size, (system, paper, predicted)) = (Size::of(scale), &CONTESTANTS[part]);
    let deployment = Deployment::new(size.tp_nodes, Analytics::Whole);
    let tables = &tpce::BROKER_REPORT_TABLES;
    let measured =
        scenes::tpce(&deployment, system, &size.tpce, size.clients, tables, size.window, seed, tell);
    let mut row = vec![("system", json!(system.name)), ("mode", json!(system.mode))];
    row.extend(breakdown(&measured, *paper, Some(*predicted)));
    row.extend(throughput(&measured));
    let mut conditions = deployment.conditions();
    conditions.extend(size.conditions());
    Findings { conditions, rows: vec![row], claims: Vec::new() }
}

fn conclude(report: &mut Report) {
    for mode in ["regular", "rss"] {
        let found = report.figure(&[("mode", mode)], "total_ms").unwrap_or(f64::NAN);
        let what = format!("global visibility delay of PERSEUS, {mode} (ms)");
        report.claim(what, 232.5, found);
    }
    let pieces = ["staleness_ms", "coordination_ms", "wait_ms"];
    let caption = "Visibility delay of Broker Report: where it comes from";
    report.show(Plot::stacked(caption, &report.rows, &["system", "mode"], "visibility delay, ms", &pieces));
}
