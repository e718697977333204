//! `geogauss-fig5` to `geogauss-fig12`, and what distances and skew do.

use super::load::Long;
use super::scene::{self, Case, Size, Workload, conditions};
use super::systems::{
    ARIA, ARIA_IDEALISED, CALVIN, CALVIN_IDEALISED, EPOCH_NS, GEOGAUSS, LEADERS, SYSTEMS, System, Way,
    geogauss,
};
use crate::plot::Plot;
use crate::{Claim, Experiment, Findings, Line, Report, Scale, cell, number};
use base::NodeId;
use base::time::{MS, SECOND};
use base::wan::Wan;
use serde_json::{Value, json};
use txn::geogauss::Isolation;
use workload::ycsb::Workload as Mix;

type Tell<'a> = &'a mut dyn FnMut(f64);

const YCSB_A: Workload = Workload::Ycsb(Mix::A);
const YCSB_B: Workload = Workload::Ycsb(Mix::B);
const YCSB_C: Workload = Workload::Ycsb(Mix::C);

pub const FIG5: Experiment = Experiment {
    name: "geogauss-fig5",
    question: "Throughput and latency of GeoGauss beside Calvin, Aria and leaders of shards",
    parts: |scale| names(&fig5(scale)),
    run: |scale, seed, part, tell| run(&fig5(scale)[part], scale, seed, tell, &[]),
    conclude: against_others,
};
pub const FIG6: Experiment = Experiment {
    name: "geogauss-fig6",
    question: "Where does the time of a commit go?",
    parts: |scale| names(&fig6(scale)),
    run: |scale, seed, part, tell| run(&fig6(scale)[part], scale, seed, tell, &[]),
    conclude: |report| {
        let pieces: Vec<&str> = scene::PHASES.iter().map(|(_, column)| *column).collect();
        let caption = "TPC-C 50/50: mean time of a commit by phase (ms)";
        report.show(Plot::stacked(caption, &report.rows, &["system"], "mean latency, ms", &pieces));
    },
};
pub const FIG7: Experiment = Experiment {
    name: "geogauss-fig7",
    question: "What do a few long transactions do to the others?",
    parts: |scale| names(&fig7(scale).into_iter().map(|(case, ..)| case).collect::<Vec<_>>()),
    run: |scale, seed, part, tell| {
        let (case, percent, lasts_ms) = &fig7(scale)[part];
        let columns = [("long_pct", json!(percent)), ("long_ms", json!(lasts_ms))];
        run(case, scale, seed, tell, &columns)
    },
    conclude: |report| {
        for ms in ["20", "100"] {
            let rows: Vec<Line> =
                report.rows.iter().filter(|row| cell(row, "long_ms") == ms).cloned().collect();
            let caption = format!("YCSB-A with transactions of {ms} ms: throughput");
            let axes = ("long_pct", "throughput");
            report.show(Plot::lines(&caption, &rows, &["system"], axes));
        }
    },
};
pub const FIG8: Experiment = Experiment {
    name: "geogauss-fig8",
    question: "What does the length of an epoch do?",
    parts: |scale| names(&fig8(scale)),
    run: |scale, seed, part, tell| {
        let case = &fig8(scale)[part];
        run(case, scale, seed, tell, &[("epoch_ms", json!(epoch_ms(&case.system)))])
    },
    conclude: |report| {
        latency_claims(report);
        by_workload(report, "epoch_ms", &["throughput", "write_ms"], &["system"]);
    },
};
pub const FIG9: Experiment = Experiment {
    name: "geogauss-fig9",
    question: "What does the number of connections do?",
    parts: |scale| names(&fig9(scale)),
    run: |scale, seed, part, tell| run(&fig9(scale)[part], scale, seed, tell, &[]),
    conclude: |report| by_workload(report, "clients", &["throughput", "write_ms"], &["system"]),
};
pub const FIG10: Experiment = Experiment {
    name: "geogauss-fig10",
    question: "What do the levels of isolation cost, by skew?",
    parts: |scale| names(&fig10(scale)),
    run: |scale, seed, part, tell| {
        let case = &fig10(scale)[part];
        run(case, scale, seed, tell, &[("skew", json!(case.skew))])
    },
    conclude: by_level,
};
pub const SKEW: Experiment = Experiment {
    name: "geogauss-skew",
    question: "From which skew on does SERIALIZABLE cost throughput on YCSB-B, and is it the check of reads?",
    parts: |scale| names(&skew(scale)),
    run: |scale, seed, part, tell| {
        let case = &skew(scale)[part];
        run(case, scale, seed, tell, &[("skew", json!(case.skew))])
    },
    conclude: |report| {
        serializable_claims(report, &SKEWS.map(|skew| format!("{skew:.2}")));
        for column in ["throughput", "aborts_pct"] {
            let caption = format!("YCSB-B: {}", crate::plot::words(column));
            report.show(Plot::lines(&caption, &report.rows, &["level"], ("skew", column)));
        }
    },
};
pub const FIG11: Experiment = Experiment {
    name: "geogauss-fig11",
    question: "How does it scale with regions?",
    parts: |scale| names(&fig11(scale)),
    run: |scale, seed, part, tell| {
        let case = &fig11(scale)[part];
        run(case, scale, seed, tell, &[("regions", json!(case.wan.region_count()))])
    },
    conclude: |report| by_workload(report, "regions", &["throughput", "write_ms"], &["system"]),
};
pub const FIG12: Experiment = Experiment {
    name: "geogauss-fig12",
    question: "A region is lost under load: for how long is there no service?",
    parts: |_| vec!["geogauss".into()],
    run: |scale, seed, _, tell| region_lost(scale, seed, tell),
    conclude: |report| {
        let rows: Vec<Line> =
            report.rows.iter().filter(|row| number(row, "after_ms").is_some()).cloned().collect();
        let caption = "Commits per 100 ms of the regions that are left, by time after the loss";
        report.show(Plot::lines(caption, &rows, &["system"], ("after_ms", "commits")));
        report.rows.retain(|row| number(row, "after_ms").is_none());
    },
};
pub const DISTANCES: Experiment = Experiment {
    name: "geogauss-distances",
    question: "Does a commit take one one-way delay and an epoch, whatever the distances?",
    parts: |scale| names(&distances(scale)),
    run: |scale, seed, part, tell| {
        let case = &distances(scale)[part];
        let columns = [("distances", json!(case.wan.name)), ("epoch_ms", json!(epoch_ms(&case.system)))];
        run(case, scale, seed, tell, &columns)
    },
    conclude: |report| {
        latency_claims(report);
        let caption = "YCSB-A: mean latency of updates (ms) by distances";
        let plot = Plot::grouped(caption, &report.rows, "distances", "system", "write_ms");
        report.show(plot);
    },
};

fn epoch_ms(system: &System) -> Value {
    match system.way {
        Way::Geogauss { epoch_ns, .. } => json!(epoch_ns / MS),
        _ => Value::Null,
    }
}

fn fig5(scale: Scale) -> Vec<Case> {
    let size = Size::of(scale);
    let of = |workload| SYSTEMS.map(|system| Case::of(system, workload, &size));
    [Workload::Tpcc, YCSB_A, YCSB_B, YCSB_C].into_iter().flat_map(of).collect()
}
fn fig6(scale: Scale) -> Vec<Case> {
    let size = Size::of(scale);
    SYSTEMS.map(|system| Case::of(system, Workload::Tpcc, &size)).to_vec()
}
/// With the share of long ones, and how long they last.
fn fig7(scale: Scale) -> Vec<(Case, u64, u64)> {
    let size = Size::of(scale);
    let mut cases = Vec::new();
    for lasts_ms in [20, 100] {
        for system in [GEOGAUSS, CALVIN, CALVIN_IDEALISED, ARIA, ARIA_IDEALISED] {
            for percent in [0, 1, 5, 10] {
                let every = |percent| Long { every: 100 / percent, lasts_ns: lasts_ms * MS };
                let long = (percent > 0).then(|| every(percent));
                cases.push((Case { long, ..Case::of(system, YCSB_A, &size) }, percent, lasts_ms));
            }
        }
    }
    cases
}
fn fig8(scale: Scale) -> Vec<Case> {
    let size = Size::of(scale);
    let of = |workload| {
        [5, 10, 20, 50, 200].map(|ms| {
            let system = geogauss("geogauss", Isolation::ReadCommitted, ms * MS);
            Case::of(system, workload, &size)
        })
    };
    [YCSB_A, Workload::Tpcc].into_iter().flat_map(of).collect()
}
fn fig9(scale: Scale) -> Vec<Case> {
    let size = Size::of(scale);
    let mut cases = Vec::new();
    for system in [GEOGAUSS, CALVIN_IDEALISED, ARIA_IDEALISED] {
        for eighths in [1, 8, 32, 128] {
            let connections_each = size.connections_each * eighths / 8;
            cases.push(Case { connections_each, ..Case::of(system, Workload::Tpcc, &size) });
        }
    }
    cases
}
fn fig10(scale: Scale) -> Vec<Case> {
    let size = Size::of(scale);
    let names = ["read committed", "snapshot", "repeatable read", "serializable"];
    let levels = Isolation::ALL.into_iter().zip(names);
    let mut cases = Vec::new();
    for (isolation, name) in levels {
        let system = geogauss(name, isolation, EPOCH_NS);
        for skew in [0.0, 0.99] {
            for workload in [YCSB_A, YCSB_B] {
                cases.push(Case { skew, ..Case::of(system, workload, &size) });
            }
        }
        cases.push(Case::of(system, Workload::Tpcc, &size));
    }
    cases
}
const SKEWS: [f64; 7] = [0.0, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99];

fn skew(scale: Scale) -> Vec<Case> {
    let size = Size::of(scale);
    let levels = [
        ("read committed", Isolation::ReadCommitted),
        ("snapshot", Isolation::Snapshot),
        ("serializable", Isolation::Serializable),
    ];
    let of = |(name, isolation)| {
        let system = geogauss(name, isolation, EPOCH_NS);
        SKEWS.map(|skew| Case { skew, ..Case::of(system, YCSB_B, &size) })
    };
    levels.into_iter().flat_map(of).collect()
}
fn fig11(scale: Scale) -> Vec<Case> {
    let size = Size::of(scale);
    let names = ["a", "b", "c", "d", "e", "f", "g"];
    let mut cases = Vec::new();
    for workload in [YCSB_A, Workload::Tpcc] {
        for regions in [1, 3, 5, 7] {
            let wan = Wan::uniform("40 ms apart", &names[..regions], MS, 40 * MS);
            cases.push(Case { wan, ..Case::of(GEOGAUSS, workload, &size) });
        }
    }
    cases
}
fn distances(scale: Scale) -> Vec<Case> {
    let size = Size::of(scale);
    let wans = ["china3", "perseus3", "azure6"].map(|name| Wan::preset(name).expect("a preset"));
    let of = |wan: Wan| {
        [GEOGAUSS, CALVIN_IDEALISED, ARIA_IDEALISED, LEADERS].map(|system| Case {
            wan: wan.clone(),
            skew: 0.0,
            connections_each: size.connections_each / 4,
            ..Case::of(system, YCSB_A, &size)
        })
    };
    wans.into_iter().flat_map(of).collect()
}

fn names(cases: &[Case]) -> Vec<String> {
    cases.iter().map(Case::name).collect()
}

/// Runs a case; its row has these columns, too.
fn run(case: &Case, scale: Scale, seed: u64, tell: Tell, columns: &[(&'static str, Value)]) -> Findings {
    let size = Size::of(scale);
    let measured = scene::run(case, &size, seed, tell);
    let mut row = measured.row(case);
    columns.iter().rev().for_each(|column| row.insert(3, column.clone()));
    // The farthest of all regions, for what is claimed of latencies.
    row.push(("one_way_ms", json!(case.wan.widest_ns() as f64 / 2e6)));
    Findings { conditions: conditions(&size), rows: vec![row], claims: Vec::new() }
}

/// Which part of TPC-C's ratios is reached, in per cent of what is wanted.
fn against_others(report: &mut Report) {
    let figure = |report: &Report, system: &str, column: &str| {
        report.figure(&[("system", system), ("workload", Workload::Tpcc.name())], column)
    };
    for system in ["calvin", "calvin, idealised", "aria", "aria, idealised"] {
        let of = |column| Some((figure(report, "geogauss", column)?, figure(report, system, column)?));
        let (Some(throughput), Some(latency)) = (of("throughput"), of("latency_ms.mean")) else { continue };
        let what = format!("TPC-C 50/50: throughput of {system} × 1.47, in % of GeoGauss'");
        let found = 100.0 * throughput.1 * 1.47 / throughput.0;
        report.claim(what, 100.0, found);
        let what = format!("TPC-C 50/50: mean latency of GeoGauss × 2.18, in % of {system}'s");
        let found = 100.0 * latency.0 * 2.18 / latency.1;
        report.claim(what, 100.0, found);
    }
    for (caption, column) in
        [("commits per second", "throughput"), ("mean latency of writes (ms)", "write_ms")]
    {
        report.show(Plot::grouped(caption, &report.rows, "workload", "system", column));
    }
    reads_are_local(report);
}

/// Reads at the region's own copy.
fn reads_are_local(report: &mut Report) {
    let own = report.rows.iter().filter(|row| cell(row, "system") == "geogauss");
    let slowest = own.filter_map(|row| number(row, "read_p99_ms")).fold(0.0, f64::max);
    if slowest > 0.0 {
        let what = "geogauss: p99 of local reads (ms)".to_string();
        report.claim(what, 1.0, slowest);
    }
}

/// A commit takes the one-way delay to the farthest region and up to an epoch.
fn latency_claims(report: &mut Report) {
    let mut claims = Vec::new();
    for row in report.rows.iter().filter(|row| cell(row, "system") == "geogauss") {
        let number = |column| number(row, column);
        let (Some(epoch), Some(one_way)) = (number("epoch_ms"), number("one_way_ms")) else { continue };
        let at = match cell(row, "distances") {
            name if name.is_empty() => format!("{}, epochs of {epoch} ms", cell(row, "workload")),
            name => name,
        };
        for column in ["write_ms", "write_p99_ms"] {
            if let Some(found) = number(column) {
                let word = if column == "write_ms" { "mean" } else { "p99" };
                let what = format!("{at}: {word} latency of commits (ms), one way {one_way} ms");
                claims.push((what, 1.1 * (one_way + epoch), found));
            }
        }
    }
    claims.into_iter().for_each(|(what, bound, found)| report.claim(what, bound, found));
}

/// What SERIALIZABLE costs on YCSB-B.
fn serializable_claims(report: &mut Report, skews: &[String]) {
    for skew in skews {
        let of = |level: &str| {
            let cells = [("level", level), ("workload", YCSB_B.name()), ("skew", skew)];
            report.figure(&cells, "throughput")
        };
        let (Some(weakest), Some(strongest)) = (of("read committed"), of("serializable")) else { continue };
        let what = format!("YCSB-B, skew {skew}: throughput lost at SERIALIZABLE (%)");
        let found = 100.0 * (1.0 - strongest / weakest);
        report.claim(what, 15.0, found);
    }
}

/// The levels beside each other.
fn by_level(report: &mut Report) {
    serializable_claims(report, &["0.00", "0.99"].map(String::from));
    for (caption, column) in [("commits per second", "throughput"), ("aborted evaluations (%)", "aborts_pct")]
    {
        let rows: Vec<Line> =
            report.rows.iter().filter(|row| cell(row, "workload") == "YCSB-A").cloned().collect();
        let caption = format!("YCSB-A: {caption}, by skew");
        report.show(Plot::grouped(&caption, &rows, "skew", "level", column));
    }
    let tpcc: Vec<Line> =
        report.rows.iter().filter(|row| cell(row, "workload") == Workload::Tpcc.name()).cloned().collect();
    report.show(Plot::grouped(
        "TPC-C 50/50: aborted evaluations (%)",
        &tpcc,
        "workload",
        "level",
        "aborts_pct",
    ));
}

/// A plot of each of these columns for each workload.
fn by_workload(report: &mut Report, x: &str, columns: &[&str], by: &[&str]) {
    for workload in [YCSB_A.name(), Workload::Tpcc.name()] {
        let rows: Vec<Line> =
            report.rows.iter().filter(|row| cell(row, "workload") == workload).cloned().collect();
        if rows.is_empty() {
            continue;
        }
        for column in columns {
            let caption = format!("{workload}: {}", crate::plot::words(column));
            report.show(Plot::lines(&caption, &rows, by, (x, *column)));
        }
    }
}

const LOST: NodeId = NodeId(2);
const LOST_AFTER_NS: u64 = 2 * SECOND;
const LASTS_NS: u64 = 8 * SECOND;

fn region_lost(scale: Scale, seed: u64, tell: Tell) -> Findings {
    let size = Size { measured_ns: LASTS_NS, connections_each: 12, ..Size::of(scale) };
    let lost = Some((LOST, LOST_AFTER_NS));
    let case = Case { lost, ..Case::of(GEOGAUSS, YCSB_A, &size) };
    let measured = scene::run(&case, &size, seed, tell);
    let lost_at = measured.begin + LOST_AFTER_NS;
    let commits: Vec<u64> = measured
        .seen
        .done
        .iter()
        .filter(|done| !done.is_read && done.answered_at >= lost_at)
        .map(|done| done.answered_at.since(lost_at))
        .collect();
    let until = LASTS_NS - LOST_AFTER_NS;
    let mut ends: Vec<u64> = commits.iter().copied().chain([0, until]).collect();
    ends.sort_unstable();
    let without_ns = ends.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(until);
    let mut row = measured.row(&case);
    row.push(("without_service_ms", json!(without_ns as f64 / 1e6)));
    let mut rows = vec![row];
    for slot in 0..LASTS_NS / (100 * MS) {
        let from = measured.begin + slot * 100 * MS;
        let within = |done: &&super::load::Done| {
            !done.is_read && from <= done.answered_at && done.answered_at < from + 100 * MS
        };
        rows.push(vec![
            ("system", json!(case.system.name)),
            ("after_ms", json!((slot * 100) as f64 - LOST_AFTER_NS as f64 / 1e6)),
            ("commits", json!(measured.seen.done.iter().filter(within).count())),
        ]);
    }
    let what = "geogauss: time without commits at the regions that are left (ms)".to_string();
    let claims = vec![Claim { what, bound: 1500.0, found: without_ns as f64 / 1e6 }];
    Findings { conditions: conditions(&size), rows, claims }
}
