//! `perseus3-latency`: what commits and queries cost across three regions, and what each rule about ranks
//! buys.
//!
//! Two rules keep a query from waiting for transactions in flight. Rule 1: a transaction that spans regions
//! is ranked at the time when it should be complete. Rule 2: a reader that closes a cut excludes at once
//! what is known to be ranked later. The same nodes run with both, with either and with neither, and with
//! queries at level `regular`, which needs neither.

use super::mixed::{self, ACROSS, Analysts, Measured, Size, cluster, commit_row, measure, ms, query_row};
use super::tpcc::Done;
use super::{Claim, Experiment, Findings, Line, Scale, quantile_ns};
use base::RegionId;
use base::cut::Consistency;
use base::rng::Rng;
use base::time::{MS, SECOND};
use base::wan::Wan;
use serde_json::{Value, json};
use txn::perseus::{FutureRanks, Options, Perseus};

pub const EXPERIMENT: Experiment = Experiment {
    name: "perseus3-latency",
    question: "What do commits and local and global queries cost at 2 ms inside and 100 ms across regions?",
    parts: |_| vec!["all variants".into()],
    run,
    conclude: |_| {},
};

/// Nodes of a region that run partitions; one more keeps columns of the whole database.
const TP_NODES: u16 = 2;
const PARTITIONS_PER_NODE: u16 = 5;
/// A local and a global query of each region come about this often.
const QUERY_EVERY_NS: u64 = 100 * MS;

/// One way of running it.
struct Variant {
    name: &'static str,
    consistency: Consistency,
    future_ranks: FutureRanks,
    lower_bounds: bool,
}

const VARIANTS: [Variant; 5] = [
    Variant {
        name: "rss, both rules",
        consistency: Consistency::Rss,
        future_ranks: FutureRanks::Measured,
        lower_bounds: true,
    },
    Variant {
        name: "rss, rule 1 only",
        consistency: Consistency::Rss,
        future_ranks: FutureRanks::Measured,
        lower_bounds: false,
    },
    Variant {
        name: "rss, rule 2 only",
        consistency: Consistency::Rss,
        future_ranks: FutureRanks::Off,
        lower_bounds: true,
    },
    Variant {
        name: "rss, neither rule",
        consistency: Consistency::Rss,
        future_ranks: FutureRanks::Off,
        lower_bounds: false,
    },
    Variant {
        name: "regular",
        consistency: Consistency::Regular,
        future_ranks: FutureRanks::Measured,
        lower_bounds: true,
    },
];

fn wan() -> Wan {
    Wan::preset("perseus3").expect("a preset")
}

fn run(scale: Scale, seed: u64, _: usize, tell: &mut dyn FnMut(f64)) -> Findings {
    let size = Size::of(scale, (2, 4), (10, 20));
    let mut rows = Vec::new();
    let mut claims = Vec::new();
    let rtt_p90_ns = round_trip_p90_ns(seed);
    for (n, variant) in VARIANTS.into_iter().enumerate() {
        tell(n as f64 / VARIANTS.len() as f64);
        let measured = run_variant(&variant, &size, seed);
        for (kind, asked) in [("local query", &measured.local), ("global query", &measured.global)] {
            rows.push(query_row(variant.name, kind, asked, 2 * MS));
        }
        if variant.name == VARIANTS[0].name {
            claims = commit_claims(&measured, rtt_p90_ns);
            for (what, quantile, bound) in [
                ("local visibility delay p50 (ms)", 0.5, 15.0),
                ("local visibility delay p99 (ms)", 0.99, 30.0),
            ] {
                let mut delays: Vec<u64> =
                    measured.local.iter().map(|a| a.freshness.visibility_delay_ns()).collect();
                claims.push(Claim { what: what.into(), bound, found: ms(&mut delays, quantile) });
            }
        }
        rows.extend(commit_rows(variant.name, &measured));
    }
    Findings { conditions: conditions(&size, rtt_p90_ns), rows, claims }
}

fn conditions(size: &Size, rtt_p90_ns: u64) -> Vec<(&'static str, Value)> {
    let mut conditions = vec![
        ("round trips inside / across (ms)", json!("2 / 100, and jitter")),
        ("round trip across p90 (ms)", json!(rtt_p90_ns as f64 / 1e6)),
        ("replicas per partition", json!(1)),
        ("batch interval (ms)", json!(0)),
        (
            "nodes per region",
            json!(format!("{TP_NODES} with {PARTITIONS_PER_NODE} partitions, 1 with columns")),
        ),
        ("queries per second and region", json!(format!("{0} local, {0} global", SECOND / QUERY_EVERY_NS))),
    ];
    conditions.extend(mixed::conditions(size));
    conditions
}

fn run_variant(variant: &Variant, size: &Size, seed: u64) -> Measured {
    let Variant { name, consistency, future_ranks, lower_bounds } = *variant;
    let options = Options { future_ranks, lower_bounds, ..Options::default() };
    let analysts = |is_local| Analysts { consistency, is_local, every_ns: QUERY_EVERY_NS };
    let topology = cluster(wan(), TP_NODES, PARTITIONS_PER_NODE);
    measure(name, topology, &[analysts(true), analysts(false)], size, seed, move |topology, id, life| {
        Perseus::new(topology, id, life, options.clone())
    })
}

/// True if the transaction did not wait for another one: its execution took no longer than its own messages
/// (commit, exchange of reads, results) and their jitter need.
fn is_unblocked(done: &Done) -> bool {
    let own_ns = match (done.regions, done.nodes) {
        (0 | 1, 0 | 1) => MS / 2,
        (0 | 1, _) => 5 * MS,
        _ => 160 * MS,
    };
    let execute = done.phases.iter().filter(|(phase, _)| *phase == "execute").map(|(_, ns)| ns);
    execute.sum::<u64>() <= own_ns
}

fn commit_rows(variant: &'static str, measured: &Measured) -> Vec<Line> {
    let kinds: [(&str, fn(&Done) -> bool); 4] = [
        ("single-region commit, all", |d| d.regions <= 1),
        ("single-region commit, unblocked", |d| d.regions <= 1 && is_unblocked(d)),
        ("multi-region commit, all", |d| d.regions > 1),
        ("multi-region commit, unblocked", |d| d.regions > 1 && is_unblocked(d)),
    ];
    let phases = [("order_ms", "order"), ("execute_ms", "execute"), ("gate_ms", "gate")];
    let row = |(kind, is): (&str, fn(&Done) -> bool)| {
        commit_row(variant, kind, measured.done.iter().filter(|d| is(d)), &phases, measured)
    };
    kinds.into_iter().map(row).collect()
}

fn commit_claims(measured: &Measured, rtt_p90_ns: u64) -> Vec<Claim> {
    let of = |is: &dyn Fn(&Done) -> bool| -> Vec<u64> {
        measured.done.iter().filter(|d| is(d)).map(|d| d.latency_ns).collect()
    };
    let bound = 2.1 * rtt_p90_ns as f64 / 1e6 + 10.0;
    let claim = |what: &str, bound: f64, mut latencies: Vec<u64>| Claim {
        what: what.into(),
        bound,
        found: ms(&mut latencies, 0.5),
    };
    vec![
        claim("multi-region commit p50 (ms)", bound, of(&|d| d.regions > 1)),
        claim("single-region commit p50, unblocked (ms)", 5.0, of(&|d| d.regions <= 1 && is_unblocked(d))),
        claim("single-region commit p50, all (ms)", 5.0, of(&|d| d.regions <= 1)),
    ]
}

/// The 90th percentile of a round trip across regions, from the links' own distribution.
fn round_trip_p90_ns(seed: u64) -> u64 {
    let mut rng = Rng::new(seed).fork("round trips");
    let one_way_ns = wan().one_way_ns(RegionId(0), RegionId(1));
    let mut trip = || 2 * one_way_ns + ACROSS.draw_ns(&mut rng) + ACROSS.draw_ns(&mut rng);
    let mut trips: Vec<u64> = (0..10_000).map(|_| trip()).collect();
    quantile_ns(&mut trips, 0.9).expect("ten thousand samples")
}
