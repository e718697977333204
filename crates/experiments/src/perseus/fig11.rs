//! `perseus-fig11`: an unsteady network. Round trips across of 100 ± x ms, and steps 100 → 150 → 100 → 50 → 100.

use super::deployment::{Analytics, Deployment, Window};
use super::load::Measured;
use super::scenes::{self, Clients, EVERY_SECOND, breakdown};
use super::systems::{self, System};
use crate::plot::Plot;
use crate::{Experiment, Findings, Line, Report, Scale};
use base::Freshness;
use base::time::{MS, SECOND};
use serde_json::{Value, json};
use sim::world::Fault;
use sim::world::network::Jitter;

pub const EXPERIMENT: Experiment = Experiment {
    name: "perseus-fig11",
    question: "Are local queries as fresh when the WAN's delays spread, or step up and down?",
    parts: |_| cases().map(|(system, what)| format!("{}, {what}", system.mode)).collect(),
    run,
    conclude,
};

const SYSTEMS: [System; 2] = [systems::REGULAR, systems::RSS];
/// ± ms of a round trip.
const SPREADS: [u64; 4] = [0, 20, 40, 60];
const STEPS_MS: [u64; 5] = [100, 150, 100, 50, 100];

fn cases() -> impl Iterator<Item = (System, String)> {
    let spreads = SPREADS.iter().map(|x| format!("100 ± {x} ms")).chain(["steps".to_string()]);
    SYSTEMS.into_iter().flat_map(move |system| spreads.clone().map(move |what| (system, what)))
}

fn run(scale: Scale, seed: u64, part: usize, tell: &mut dyn FnMut(f64)) -> Findings {
    let (system, case) = (SYSTEMS[part / (SPREADS.len() + 1)], part % (SPREADS.len() + 1));
    let (tp_nodes, warehouses, span_s, step_s) = match scale {
        Scale::Small => (2, 50, 3, 2),
        Scale::Paper => (20, 1_000, 10, 10),
    };
    let clients =
        Clients { terminals: warehouses as u32, think_ns: 200 * MS, analysts: 20, queries: EVERY_SECOND };
    let mut deployment = Deployment::new(tp_nodes, Analytics::PerDataCentre);
    let mut faults = Vec::new();
    let mut span = Window::seconds(1, span_s);
    if let Some(x) = SPREADS.get(case) {
        // Each way half of it, on top of the shortest.
        deployment.across_ns = (100 - x) * MS;
        deployment.jitter = Jitter::Uniform { max_ns: x * MS };
    } else {
        span = Window::seconds(1, step_s * STEPS_MS.len() as u64);
        for (n, round_trip_ms) in STEPS_MS.iter().enumerate().skip(1) {
            let wan = Deployment { across_ns: round_trip_ms * MS, ..deployment }.topology().wan;
            faults.push((n as u64 * step_s * SECOND, Fault::Distances(wan)));
        }
    }
    let measured =
        scenes::tpcc(&deployment, &system, warehouses, clients, scenes::CH_Q1, &faults, span, seed, tell);
    let begin = |spread: Value, second: Value| -> Line {
        vec![("mode", json!(system.mode)), ("spread_ms", spread), ("second", second)]
    };
    let rows = match SPREADS.get(case) {
        Some(x) => vec![[begin(json!(x), Value::Null), breakdown(&measured, None, None)].concat()],
        None => (0..step_s * STEPS_MS.len() as u64)
            .map(|second| {
                let mut row = begin(Value::Null, json!(second));
                row.push(("round_trip_ms", json!(STEPS_MS[(second / step_s) as usize])));
                row.push(("second_ms", json!(mean_of_second(&measured, second))));
                row
            })
            .collect(),
    };
    let conditions = vec![
        ("TP nodes per data centre", json!(tp_nodes)),
        ("warehouses, one client each, thinking 200 ms", json!(warehouses)),
        ("a step lasts (s)", json!(step_s)),
    ];
    Findings { conditions, rows, claims: Vec::new() }
}

fn mean_of_second(measured: &Measured, second: u64) -> f64 {
    let asked = measured.seen.asked_ns.iter().zip(&measured.seen.queries);
    let here = asked.filter(|(at, _)| **at / SECOND == second);
    let delays: Vec<u64> =
        here.map(|(_, freshness): (_, &Freshness)| freshness.visibility_delay_ns()).collect();
    delays.iter().sum::<u64>() as f64 / delays.len().max(1) as f64 / 1e6
}

fn conclude(report: &mut Report) {
    for (caption, x, y) in [
        ("Visibility delay of local queries (ms) at round trips of 100 ± x ms", "spread_ms", "total_ms"),
        ("Visibility delay of local queries (ms) as the round trip steps", "second", "second_ms"),
    ] {
        report.show(Plot::lines(caption, &report.rows, &["system", "mode"], (x, y)));
    }
}
