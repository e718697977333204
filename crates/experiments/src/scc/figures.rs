//! The figures: which points each has, and what is claimed of them.

use super::{COMMIT_WAIT, Measured, PRIMARY, Point, READ_WAIT, SCC, SHARED, STALE, Way, conditions, fetches};
use crate::plot::{Plot, Shape, words};
use crate::{Experiment, Findings, Line, Report, Scale, cell, number};
use base::time::{MS, SECOND};
use serde_json::json;

const SYSBENCH: &str = "sysbench-like, uniform";
const ZIPF: &str = "sysbench-like, zipf 0.9";

pub(super) fn measured_ns(scale: Scale) -> u64 {
    match scale {
        Scale::Small => SECOND / 5,
        Scale::Paper => 2 * SECOND,
    }
}

type Cases = Vec<(&'static str, Point)>;

fn names(cases: Cases) -> Vec<String> {
    let name = |(workload, point): &(&str, Point)| {
        let Point { way, replicas, readers_each, .. } = point;
        format!("{}, {replicas} replicas, {readers_each} readers each, {workload}", way.name)
    };
    cases.iter().map(name).collect()
}

fn run(cases: Cases, scale: Scale, seed: u64, part: usize, tell: &mut dyn FnMut(f64)) -> Findings {
    let (workload, point) = cases[part];
    let point = Point { measured_ns: measured_ns(scale), ..point };
    let mut conditions = conditions();
    conditions.push(("seconds measured", json!(measured_ns(scale) as f64 / 1e9)));
    Findings { conditions, rows: vec![point.row(workload, seed, tell)], claims: Vec::new() }
}

fn row<'a>(
    report: &'a Report,
    policy: &str,
    replicas: u64,
    workload: &str,
    readers: u64,
) -> Option<&'a Line> {
    report.rows.iter().find(|row| {
        let is = |column: &str, value: u64| number(row, column) == Some(value as f64);
        cell(row, "policy") == policy
            && cell(row, "workload") == workload
            && is("replicas", replicas)
            && (readers == 0 || is("readers", readers))
    })
}

/// How many of a column's hundredths one row lacks of another's.
pub(super) fn lacks_pct(of: Option<&Line>, than: Option<&Line>, column: &str) -> f64 {
    match (of.and_then(|row| number(row, column)), than.and_then(|row| number(row, column))) {
        (Some(of), Some(than)) if than > 0.0 => 100.0 * (than - of) / than,
        _ => f64::NAN,
    }
}

pub(super) fn claim(report: &mut Report, what: &str, bound: f64, found: f64) {
    report.claim(what, bound, found);
}

/// In these rows `throughput` counts reads.
fn of_reads(mut plot: Plot) -> Plot {
    if let Shape::Lines { y, .. } | Shape::Groups { y, .. } = &mut plot.shape
        && *y == words("throughput")
    {
        *y = "reads per second".into();
    }
    plot
}

/// Every policy but `stale` shows nothing stale.
pub(super) fn claim_strong(report: &mut Report) {
    let strong = report.rows.iter().filter(|row| cell(row, "policy") != STALE.name);
    let stale: f64 = strong.filter_map(|row| number(row, "stale_reads")).sum();
    claim(report, "stale reads under strong policies", 0.0, stale);
}

// ---- table 1 ------------------------------------------------------------------------------------------

pub const TABLE1: Experiment = Experiment {
    name: "scc-table1",
    question: "How many reads are stale, so long after a row's writer was answered?",
    parts: |_| names(table1()),
    run: |scale, seed, part, tell| run(table1(), scale, seed, part, tell),
    conclude: claim_strong,
};

fn table1() -> Cases {
    let delays = [("1 ms after its write", MS), ("7 ms after its write", 7 * MS)];
    let cases = delays.into_iter().flat_map(|(name, ns)| {
        [STALE, SCC].map(|way| (name, Point { after_write_ns: Some(ns), readers_each: 16, ..Point::of(way) }))
    });
    cases.collect()
}

// ---- figure 8, table 2, table 3 -----------------------------------------------------------------------

pub const FIG8: Experiment = Experiment {
    name: "scc-fig8",
    question: "What do strong reads at one replica cost, by load and skew? (Tables 2 and 3 are rows of it.)",
    parts: |_| names(fig8()),
    run: |scale, seed, part, tell| run(fig8(), scale, seed, part, tell),
    conclude: |report| {
        claim_strong(report);
        for workload in [SYSBENCH, ZIPF] {
            let (scc, stale) = (row(report, "scc", 1, workload, 64), row(report, "stale", 1, workload, 64));
            let lost = lacks_pct(scc, stale, "throughput");
            let longer = -lacks_pct(scc, stale, "latency_ms.mean");
            claim(report, &format!("throughput lost to strong reads, 64 readers, {workload} (%)"), 3.0, lost);
            claim(report, &format!("latency added by strong reads, 64 readers, {workload} (%)"), 2.0, longer);
        }
        let axes = ("readers", "throughput");
        let caption = "Reads per second at one replica";
        report.show(of_reads(Plot::lines(caption, &report.rows, &["policy", "workload"], axes)));
    },
};

fn fig8() -> Cases {
    let mut cases = Cases::new();
    for (workload, skew) in [(SYSBENCH, 0.0), (ZIPF, 0.9)] {
        for way in [PRIMARY, READ_WAIT, SCC, STALE] {
            let point = |readers_each| Point { readers_each, skew, ..Point::of(way) };
            cases.extend([16, 64, 128].map(|readers| (workload, point(readers))));
        }
    }
    cases
}

// ---- tables 2 and 3 -----------------------------------------------------------------------------------

pub const TABLE2: Experiment = Experiment {
    name: "scc-table2",
    question: "How much longer does a read at one replica take, once it has to be strong?",
    parts: |_| names(table2()),
    run: |scale, seed, part, tell| run(table2(), scale, seed, part, tell),
    conclude: |report| {
        claim_strong(report);
        let of = |policy| row(report, policy, 1, SYSBENCH, 64);
        let longer = -lacks_pct(of("scc"), of("stale"), "latency_ms.mean");
        claim(report, "latency added by strong reads (%)", 2.0, longer);
    },
};

fn table2() -> Cases {
    [READ_WAIT, COMMIT_WAIT, SCC, STALE].map(|way| (SYSBENCH, Point::of(way))).into()
}

pub const TABLE3: Experiment = Experiment {
    name: "scc-table3",
    question: "How long are the longest reads at one replica, with 128 readers?",
    parts: |_| names(table3()),
    run: |scale, seed, part, tell| run(table3(), scale, seed, part, tell),
    conclude: claim_strong,
};

fn table3() -> Cases {
    let ways = [PRIMARY, READ_WAIT, SCC, STALE].into_iter();
    let at = |way: Way| {
        [(SYSBENCH, 0.0), (ZIPF, 0.9)]
            .map(|(workload, skew)| (workload, Point { readers_each: 128, skew, ..Point::of(way) }))
    };
    ways.flat_map(at).collect()
}

// ---- figure 11 ----------------------------------------------------------------------------------------

/// The paper runs MySQL Group Replication and two databases that it does not name. None of them runs here: what they do
/// for a strong read does, on the same nodes.
pub const FIG11: Experiment = Experiment {
    name: "scc-fig11",
    question: "What do strong reads at one replica cost, the way other databases make them?",
    parts: |_| names(fig11()),
    run: |scale, seed, part, tell| run(fig11(), scale, seed, part, tell),
    conclude: |report| {
        claim_strong(report);
        let of = |policy: &str| row(report, policy, 1, SYSBENCH, 64);
        let lost = lacks_pct(of("scc"), of("stale"), "throughput");
        claim(report, "throughput lost to strong reads, 64 writers (%)", 3.0, lost);
        for (caption, column) in
            [("Reads per second at one replica", "throughput"), ("Mean latency of a read", "latency_ms.mean")]
        {
            let caption = format!("{caption}, 64 readers and 64 writers");
            report.show(of_reads(Plot::grouped(&caption, &report.rows, "workload", "policy", column)));
        }
    },
};

fn fig11() -> Cases {
    let ways = [COMMIT_WAIT, READ_WAIT, PRIMARY, SCC, STALE];
    ways.map(|way| (SYSBENCH, Point { writers: 64, ..Point::of(way) })).into()
}

// ---- figures 13 and 14 --------------------------------------------------------------------------------

pub const FIG13: Experiment = Experiment {
    name: "scc-fig13",
    question: "What does each part give, at one replica, by load?",
    parts: |_| names(steps([16, 64, 128].map(|readers| (1, readers)))),
    run: |scale, seed, part, tell| {
        run(steps([16, 64, 128].map(|readers| (1, readers))), scale, seed, part, tell)
    },
    conclude: claim_strong,
};

pub const FIG14: Experiment = Experiment {
    name: "scc-fig14",
    question: "What does each part give, by the number of replicas?",
    parts: |_| names(steps([2, 4, 8].map(|replicas| (replicas, 64)))),
    run: |scale, seed, part, tell| {
        run(steps([2, 4, 8].map(|replicas| (replicas, 64))), scale, seed, part, tell)
    },
    conclude: claim_strong,
};

fn steps(points: [(u16, u32); 3]) -> Cases {
    let ways = [READ_WAIT, SHARED, SCC].into_iter();
    let at = |way: Way| {
        points.map(|(replicas, readers_each)| (SYSBENCH, Point { replicas, readers_each, ..Point::of(way) }))
    };
    ways.flat_map(at).collect()
}

// ---- figure 15 ----------------------------------------------------------------------------------------

pub const FIG15: Experiment = Experiment {
    name: "scc-fig15",
    question: "How do reads scale with the number of replicas?",
    parts: |_| names(fig15()),
    run: |scale, seed, part, tell| run(fig15(), scale, seed, part, tell),
    conclude: |report| {
        claim_strong(report);
        let of = |policy: &str, replicas: u64| row(report, policy, replicas, SYSBENCH, 0);
        let lost = [1, 8].map(|replicas| lacks_pct(of("scc", replicas), of("stale", replicas), "throughput"));
        let rate = |policy, replicas, column: &str| of(policy, replicas).and_then(|row| number(row, column));
        let times = match (rate("read_wait", 8, "throughput"), rate("scc", 8, "throughput")) {
            (Some(read_wait), Some(scc)) => read_wait / scc,
            _ => f64::NAN,
        };
        claim(report, "throughput lost to strong reads, 1 replica (%)", 3.0, lost[0]);
        claim(report, "throughput lost to strong reads, 8 replicas (%)", 5.0, lost[1]);
        claim(report, "read_wait's throughput as a share of scc's, 8 replicas", 0.25, times);
        let axes = ("replicas", "throughput");
        let caption = "Reads per second, all replicas";
        report.show(of_reads(Plot::lines(caption, &report.rows, &["policy"], axes)));
        let axes = ("replicas", "fetches_per_s");
        report.show(Plot::lines("Questions to the writer per second", &report.rows, &["policy"], axes));
    },
};

fn fig15() -> Cases {
    let ways = [PRIMARY, READ_WAIT, COMMIT_WAIT, SCC, STALE].into_iter();
    let at = |way: Way| [1, 2, 4, 8].map(|replicas| (SYSBENCH, Point { replicas, ..Point::of(way) }));
    ways.flat_map(at).collect()
}

// ---- figure 16 ----------------------------------------------------------------------------------------

pub const FIG16: Experiment = Experiment {
    name: "scc-fig16",
    question: "How do reads scale when each replica brings 330 clients more?",
    parts: |_| names(fig16()),
    run: |scale, seed, part, tell| run(fig16(), scale, seed, part, tell),
    conclude: |report| {
        claim_strong(report);
        let of = |policy: &str, replicas: u64| row(report, policy, replicas, SYSBENCH, 0);
        let lost = lacks_pct(of("scc", 4), of("stale", 4), "throughput");
        claim(report, "throughput lost to strong reads, 4 replicas with 330 readers each (%)", 5.0, lost);
        let axes = ("replicas", "throughput");
        let caption = "Reads per second, all replicas";
        report.show(of_reads(Plot::lines(caption, &report.rows, &["policy"], axes)));
    },
};

fn fig16() -> Cases {
    let ways = [PRIMARY, READ_WAIT, SCC, STALE].into_iter();
    let point = |way: Way, replicas| Point { replicas, readers_each: 330, writers: 330, ..Point::of(way) };
    ways.flat_map(|way| [1, 2, 3, 4].map(|replicas| (SYSBENCH, point(way, replicas)))).collect()
}

// ---- figure 17 ----------------------------------------------------------------------------------------

pub const FIG17: Experiment = Experiment {
    name: "scc-fig17",
    question: "What happens when replicas take up reads one after another, under load?",
    parts: |_| [SCC, STALE].map(|way| way.name.to_string()).into(),
    run: fig17,
    conclude: claim_strong,
};

const STEPS: u16 = 4;

/// Four replicas follow from the beginning; each begins to be read a step after the one before.
fn fig17(scale: Scale, seed: u64, part: usize, tell: &mut dyn FnMut(f64)) -> Findings {
    let step_ns = measured_ns(scale);
    let way = [SCC, STALE][part];
    let point = Point { replicas: STEPS, measured_ns: u64::from(STEPS) * step_ns, ..Point::of(way) };
    let mut world = point.world(seed);
    let shared = point.fill(&mut world, 50 * MS);
    for replica in 1..=STEPS {
        let from = shared.begin + u64::from(replica - 1) * step_ns;
        point.add_readers(&mut world, &shared, seed, replica, Some(from));
    }
    point.add_writers(&mut world, &shared, seed);
    world.run_until(shared.begin);
    let mut asked = vec![fetches(&world)];
    for nth in 1..=u64::from(STEPS) {
        world.run_until(shared.begin + nth * step_ns);
        asked.push(fetches(&world));
        tell(nth as f64 / f64::from(STEPS));
    }
    world.run_to_rest(shared.until + 10 * SECOND).unwrap_or_else(|stuck| panic!("{stuck}"));
    let seen = std::mem::take(&mut *shared.seen.borrow_mut());
    let rows = (0..u64::from(STEPS)).map(|nth| {
        let within = |at: &u64| *at / step_ns == nth;
        let answered = seen.answered_ns.iter().zip(&seen.latencies_ns).filter(|(at, _)| within(at));
        let measured = Measured {
            // Stale reads are of the whole run; the last row has them.
            stale: if nth + 1 == u64::from(STEPS) { seen.stale } else { 0 },
            latencies_ns: answered.map(|(_, ns)| *ns).collect(),
            write_latencies_ns: Vec::new(),
            fetches: asked[nth as usize + 1] - asked[nth as usize],
            measured_ns: step_ns,
        };
        measured.line(
            way.name,
            nth + 1,
            "sysbench-like, uniform, replicas added",
            point.readers_each * (nth as u32 + 1),
        )
    });
    Findings { conditions: conditions(), rows: rows.collect(), claims: Vec::new() }
}
