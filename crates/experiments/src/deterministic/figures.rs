//! `caerus-fig5` to `caerus-fig10`: latency and throughput against load, by kind of transaction, by placement.

use super::load::{Done, Kind, Shared};
use super::scene::{self, CAERUS, Case, IDEALISED, Place, SLOG, SYSTEMS, Size, System, Workload, conditions};
use crate::plot::Plot;
use crate::{Experiment, Findings, Line, Report, Scale, cell, quantile_ms};
use base::time::{MS, SECOND};
use serde_json::json;
use txn::caerus::options::Batching;

type Tell<'a> = &'a mut dyn FnMut(f64);

const ORDERS: [Workload; 3] = [
    Workload::NewOrder { of_multi_warehouse: 0.10 },
    Workload::NewOrder { of_multi_warehouse: 0.50 },
    Workload::NewOrder { of_multi_warehouse: 1.00 },
];
const RIDES: [Workload; 2] =
    [Workload::BeginRide { close: 0.10, far: 0.05 }, Workload::BeginRide { close: 0.20, far: 0.10 }];
/// Of figures that have one load.
const CLIENTS: u32 = 360;
/// The same for those that compare what only distances make.
const UNSATURATED: u32 = 120;

pub const FIG5: Experiment = Experiment {
    name: "caerus-fig5",
    question: "TPC-C NewOrder: latency and throughput of Caerus, SLOG and Calvin against load",
    parts: |scale| names(&fig5(scale)),
    run: |scale, seed, part, tell| every_kind(&fig5(scale), scale, seed, part, tell),
    conclude: |report| by_load(report, &[("slog", 3.0), ("calvin", 18.0)]),
};
pub const FIG6: Experiment = Experiment {
    name: "caerus-fig6",
    question: "MovR BeginRide: latency and throughput of Caerus, SLOG and Calvin against load",
    parts: |scale| names(&fig6(scale)),
    run: |scale, seed, part, tell| every_kind(&fig6(scale), scale, seed, part, tell),
    conclude: |report| by_load(report, &[("slog", 3.1), ("calvin", 11.0)]),
};
pub const FIG7: Experiment = Experiment {
    name: "caerus-fig7",
    question: "What does a transaction cost that stays in its region, that spans close ones, or far ones?",
    parts: |_| names(&fig7()),
    run: |scale, seed, part, tell| every_kind(&fig7(), scale, seed, part, tell),
    conclude: by_kind,
};
pub const FIG8: Experiment = Experiment {
    name: "caerus-fig8",
    question: "How are latencies distributed?",
    parts: |_| names(&fig8()),
    run: |scale, seed, part, tell| distribution(&fig8()[part], scale, seed, tell),
    conclude: |report| {
        let caption = "Latency (ms) below which so many per cent are";
        for workload in ["TPC-C NewOrder", "MovR BeginRide"] {
            let rows: Vec<Line> =
                report.rows.iter().filter(|row| cell(row, "workload") == workload).cloned().collect();
            let axes = ("latency_ms", "percent");
            report.show(Plot::lines(&format!("{workload}: {caption}"), &rows, &["system"], axes));
        }
    },
};
pub const FIG9: Experiment = Experiment {
    name: "caerus-fig9",
    question: "What do distances cost, from six copies in one region to three continents?",
    parts: |_| names(&fig9()),
    run: |scale, seed, part, tell| {
        let case = &fig9()[part];
        let mut findings = measured(case, scale, seed, tell, &[None]);
        findings.rows.iter_mut().for_each(|row| row.insert(2, ("replicas", json!(case.place.name()))));
        findings
    },
    conclude: by_place,
};
pub const FIG10: Experiment = Experiment {
    name: "caerus-fig10",
    question: "What do transactions of one region pay for others that span regions?",
    parts: |_| names(&fig10()),
    run: |scale, seed, part, tell| {
        let case = &fig10()[part];
        let mut findings = measured(case, scale, seed, tell, &[Some(Kind::Single)]);
        findings.rows.iter_mut().for_each(|row| row.insert(2, ("replicas", json!(case.place.name()))));
        findings
    },
    conclude: |report| {
        let label = &["workload", "system", "replicas", "multi_region_pct"];
        let caption = "Mean latency of transactions of one region (ms)";
        report.show(Plot::stacked(caption, &report.rows, label, "mean latency, ms", &["latency_ms.mean"]));
    },
};

/// Caerus as its paper has it: what spans regions takes its place at once.
const UNDELAYED: System = System { name: "caerus, appends not delayed", hold_percent: 0, ..CAERUS };

fn case(system: System, workload: Workload, clients: u32) -> Case {
    Case { system, workload, place: Place::AndAsia, clients }
}

fn counts(scale: Scale) -> &'static [u32] {
    match scale {
        Scale::Small => &[24, 120, 240, 360, 400, 440, 480, 960],
        Scale::Paper => &[24, 120, 240, 360, 408, 480],
    }
}

fn against_load(workloads: &[Workload], scale: Scale) -> Vec<Case> {
    let mut cases = Vec::new();
    for workload in workloads {
        for system in SYSTEMS {
            cases.extend(counts(scale).iter().map(|clients| case(system, *workload, *clients)));
        }
        cases.extend(IDEALISED.map(|system| case(system, *workload, UNSATURATED)));
        let loaded = counts(scale).iter().filter(|clients| **clients >= CLIENTS);
        cases.extend(loaded.map(|clients| case(UNDELAYED, *workload, *clients)));
    }
    cases
}
fn fig5(scale: Scale) -> Vec<Case> {
    against_load(&ORDERS, scale)
}
fn fig6(scale: Scale) -> Vec<Case> {
    against_load(&RIDES, scale)
}

/// With it, Caerus as it is when queries run beside it, with a copy elsewhere, and as the paper has it.
fn fig7() -> Vec<Case> {
    let idealised = IDEALISED[0];
    let extra = [
        System { name: "caerus, idealised, future ranks, ε 1 ms", serves_queries: true, ..idealised },
        System { name: "caerus, idealised, K 1", copies_elsewhere: 1, ..idealised },
        System { name: "caerus, idealised, appends not delayed", hold_percent: 0, ..idealised },
        System {
            name: "caerus, idealised, batches of 10 ms",
            batching: Batching::every(10 * MS),
            ..idealised
        },
    ];
    let systems = SYSTEMS.into_iter().chain(IDEALISED).chain(extra);
    let all = |system| [ORDERS[2], RIDES[1]].map(|workload| case(system, workload, UNSATURATED));
    systems.flat_map(all).collect()
}
fn fig8() -> Vec<Case> {
    let all = |system| [ORDERS[2], RIDES[1]].map(|workload| case(system, workload, CLIENTS));
    SYSTEMS.into_iter().flat_map(all).collect()
}
fn fig9() -> Vec<Case> {
    let places = [Place::OneRegion, Place::NorthAmerica, Place::AndEurope, Place::AndAsia];
    let mut cases = Vec::new();
    for workload in [ORDERS[2], RIDES[1]] {
        for place in places {
            let all = SYSTEMS.map(|system| Case { place, ..case(system, workload, UNSATURATED) });
            cases.extend(all);
        }
    }
    cases
}
fn fig10() -> Vec<Case> {
    let nothing = Workload::NewOrder { of_multi_warehouse: 0.0 };
    let mut cases = vec![Case { place: Place::Alone, ..case(CAERUS, nothing, UNSATURATED / 6) }];
    for workload in [nothing, ORDERS[0], ORDERS[2]] {
        cases.extend([CAERUS, SLOG].map(|system| case(system, workload, UNSATURATED)));
    }
    let nothing = Workload::BeginRide { close: 0.0, far: 0.0 };
    cases.push(Case { place: Place::Alone, ..case(CAERUS, nothing, UNSATURATED / 6) });
    for workload in [nothing, RIDES[0], RIDES[1]] {
        cases.extend([CAERUS, SLOG].map(|system| case(system, workload, UNSATURATED)));
    }
    cases
}

fn names(cases: &[Case]) -> Vec<String> {
    cases.iter().map(Case::name).collect()
}

const EVERY_KIND: [Option<Kind>; 4] = [None, Some(Kind::Single), Some(Kind::Close), Some(Kind::Far)];

fn every_kind(cases: &[Case], scale: Scale, seed: u64, part: usize, tell: Tell) -> Findings {
    measured(&cases[part], scale, seed, tell, &EVERY_KIND)
}
/// Runs a case; a row for each of these kinds, `None` being all of them together.
fn measured(case: &Case, scale: Scale, seed: u64, tell: Tell, kinds: &[Option<Kind>]) -> Findings {
    let size = Size::of(scale);
    let shared = scene::run(case, &size, seed, tell);
    let rows = kinds.iter().filter_map(|kind| row(case, &shared, *kind)).collect();
    Findings { conditions: conditions(&size), rows, claims: Vec::new() }
}

fn row(case: &Case, shared: &Shared, kind: Option<Kind>) -> Option<Line> {
    let seen = shared.seen.borrow();
    let is = |done: &&Done| kind.is_none_or(|kind| done.kind == kind);
    let mut latencies: Vec<u64> = seen.done.iter().filter(is).map(|done| done.latency_ns).collect();
    if latencies.is_empty() {
        return None;
    }
    let mean_ms = latencies.iter().sum::<u64>() as f64 / latencies.len() as f64 / 1e6;
    let mut line = vec![
        ("system", json!(case.system.name)),
        ("workload", json!(case.workload.name())),
        ("multi_region_pct", json!(case.workload.multi_region_pct())),
        ("clients", json!(case.clients)),
        ("kind", json!(kind.map_or("all", Kind::name))),
        ("latency_ms.mean", json!(mean_ms)),
        ("latency_ms.p50", quantile_ms(&mut latencies, 0.5)),
        ("latency_ms.p99", quantile_ms(&mut latencies, 0.99)),
    ];
    if kind.is_none() {
        let seconds = shared.until.since(shared.begin) as f64 / SECOND as f64;
        line.push(("throughput", json!(seen.throughput as f64 / seconds)));
        line.push(("unanswered", json!(seen.unanswered)));
        let costs = seen.costs;
        let commits = seen.throughput.max(1) as f64;
        line.push(("messages_per_commit", json!(costs.messages as f64 / commits)));
        line.push(("kib_per_commit", json!(costs.bytes as f64 / 1024.0 / commits)));
        line.push(("resent_pct", json!(100.0 * costs.resent as f64 / costs.sent.max(1) as f64)));
        line.push(("busiest_node_pct", json!(costs.used_ns as f64 / 1e7 / seconds)));
        line.push(("queued_max", json!(costs.queued)));
    } else if kind != Some(Kind::Single) {
        // Against the round trip to its own farthest region, less one batch.
        let spans = seen.done.iter().filter(is).filter(|done| done.farthest_ns > 0);
        let batch_ns = case.system.batching.interval_ns;
        let mut over: Vec<u64> = spans
            .map(|done| done.latency_ns.saturating_sub(batch_ns) * 1_000_000 / done.farthest_ns)
            .collect();
        line.push(("round_trips", quantile_ms(&mut over, 0.5)));
    }
    Some(line)
}

fn distribution(case: &Case, scale: Scale, seed: u64, tell: Tell) -> Findings {
    let size = Size::of(scale);
    let shared = scene::run(case, &size, seed, tell);
    let mut latencies: Vec<u64> = shared.seen.borrow().done.iter().map(|done| done.latency_ns).collect();
    let row = |percent: u32| -> Line {
        vec![
            ("system", json!(case.system.name)),
            ("workload", json!(case.workload.name())),
            ("multi_region_pct", json!(case.workload.multi_region_pct())),
            ("clients", json!(case.clients)),
            ("percent", json!(percent)),
            ("latency_ms", quantile_ms(&mut latencies, f64::from(percent) / 100.0)),
        ]
    };
    let percents = (1..=9).map(|n| n * 10).chain([1, 5, 25, 75, 95, 97, 99, 100]);
    let mut percents: Vec<u32> = percents.collect();
    percents.sort_unstable();
    Findings {
        conditions: conditions(&size),
        rows: percents.into_iter().map(row).collect(),
        claims: Vec::new(),
    }
}

/// A system and how many times as much it should take, at least; as described, and idealised.
fn ratio_claims(report: &mut Report, what: &str, cells: &[(&str, &str)], baselines: &[(&str, f64)]) {
    for suffix in ["", ", idealised"] {
        ratio_claims_of(report, what, cells, baselines, suffix);
    }
}

fn ratio_claims_of(
    report: &mut Report,
    what: &str,
    cells: &[(&str, &str)],
    baselines: &[(&str, f64)],
    suffix: &str,
) {
    let mean = |report: &Report, system: &str| {
        let system = format!("{system}{suffix}");
        let cells: Vec<(&str, &str)> = cells.iter().copied().chain([("system", system.as_str())]).collect();
        report.figure(&cells, "latency_ms.mean")
    };
    let Some(ours) = mean(report, "caerus") else { return };
    for (baseline, times) in baselines {
        if let Some(theirs) = mean(report, baseline) {
            let what = format!("{what}{suffix}: caerus' mean latency × {times}, in % of {baseline}'s");
            report.claim(what, 100.0, 100.0 * ours * times / theirs);
        }
    }
}

fn distinct(report: &Report, columns: &[&'static str]) -> Vec<Vec<String>> {
    let mut all: Vec<Vec<String>> = Vec::new();
    for row in &report.rows {
        let values: Vec<String> = columns.iter().map(|column| cell(row, column)).collect();
        if !all.contains(&values) {
            all.push(values);
        }
    }
    all
}

fn by_load(report: &mut Report, baselines: &[(&str, f64)]) {
    for values in distinct(report, &["workload", "multi_region_pct"]) {
        let [workload, pct] = &values[..] else { unreachable!("two columns") };
        let clients = UNSATURATED.to_string();
        let cells = [
            ("workload", workload.as_str()),
            ("multi_region_pct", pct.as_str()),
            ("clients", clients.as_str()),
            ("kind", "all"),
        ];
        let what = format!("{workload}, {pct} % span regions, {clients} clients");
        ratio_claims(report, &what, &cells, baselines);
        let is = |row: &&Line| {
            cell(row, "kind") == "all"
                && cell(row, "multi_region_pct") == *pct
                && !cell(row, "system").contains("idealised")
        };
        let rows: Vec<Line> = report.rows.iter().filter(is).cloned().collect();
        let what = format!("{workload}, {pct} % span regions");
        let axes = ("clients", "latency_ms.mean");
        report.show(Plot::lines(&format!("{what}: mean latency (ms) by clients"), &rows, &["system"], axes));
        let axes = ("clients", "throughput");
        report.show(Plot::lines(&format!("{what}: commits per second"), &rows, &["system"], axes));
    }
}

fn by_kind(report: &mut Report) {
    for values in distinct(report, &["workload"]) {
        let workload = values[0].as_str();
        let cells = [("workload", workload), ("kind", "close")];
        ratio_claims(report, &format!("{workload}, close regions"), &cells, &[("slog", 6.0)]);
        for (system, bound) in
            [("caerus, idealised", 105.0), ("caerus, idealised, future ranks, ε 1 ms", 110.0)]
        {
            let cells = [("workload", workload), ("kind", "far"), ("system", system)];
            let found = 100.0 * report.figure(&cells, "round_trips").unwrap_or(f64::NAN);
            let what =
                format!("{workload}, {system}: p50 of far regions less a batch, in % of the round trip");
            report.claim(what, bound, found);
        }
    }
    let rows: Vec<Line> = report.rows.iter().filter(|row| cell(row, "kind") != "all").cloned().collect();
    push_by_workload(report, &rows, "by kind", "system", "kind");
}

fn by_place(report: &mut Report) {
    for values in distinct(report, &["workload", "replicas"]) {
        let [workload, place] = &values[..] else { unreachable!("two columns") };
        let baselines: &[(&str, f64)] = match (workload.as_str(), place.as_str()) {
            ("TPC-C NewOrder", "NA") => &[("slog", 2.1), ("calvin", 6.9)],
            ("TPC-C NewOrder", "+EU") => &[("slog", 2.1), ("calvin", 13.1)],
            ("MovR BeginRide", "NA") => &[("slog", 2.7), ("calvin", 4.5)],
            ("MovR BeginRide", "+EU") => &[("slog", 3.5), ("calvin", 10.0)],
            _ => continue,
        };
        let cells = [("workload", workload.as_str()), ("replicas", place.as_str())];
        ratio_claims(report, &format!("{workload}, {place}"), &cells, baselines);
    }
    let rows = report.rows.clone();
    push_by_workload(report, &rows, "by placement", "replicas", "system");
}

/// A plot of mean latencies for each workload.
fn push_by_workload(report: &mut Report, rows: &[Line], what: &str, by: &str, side: &str) {
    for values in distinct(report, &["workload"]) {
        let workload = &values[0];
        let rows: Vec<Line> = rows.iter().filter(|row| cell(row, "workload") == *workload).cloned().collect();
        let caption = format!("{workload}: mean latency (ms) {what}");
        report.show(Plot::grouped(&caption, &rows, by, side, "latency_ms.mean"));
    }
}
