//! `caerus-latency`: what commits cost with full replicas, by the distance of the farthest region that takes
//! part, and how long queries over a region's own data wait.
//!
//! A transaction that stays in its gateway's region needs no trip between regions, any other one round trip
//! to the farthest region that it touches. Two rules keep local queries from waiting for the latter: it is
//! ranked when it should be complete, and a reader excludes at once what is known to be ranked later. The same
//! nodes run with both, with either and with neither, at two sets of distances.

use super::mixed::{
    self, Analysts, CLOCK_BOUND_NS, Measured, Size, cluster, commit_row, measure, ms, query_row, waits_pct,
};
use super::tpcc::Done;
use super::{Claim, Experiment, Findings, Line, Scale, quantile_ms, quantile_ns};
use base::RegionId;
use base::cut::Consistency;
use base::time::{MS, SECOND};
use base::wan::Wan;
use serde_json::{Value, json};
use txn::caerus::options::Ranks;
use txn::caerus::{Caerus, FutureRanks, Options};

pub const EXPERIMENT: Experiment = Experiment {
    name: "caerus-latency",
    question: "What do commits cost with full replicas, and what do local queries wait for?",
    parts: |_| DISTANCES.iter().map(|name| name.to_string()).collect(),
    run,
    conclude: |_| {},
};

/// Six regions, 1 ms inside and 6 to 200 ms across; three of 2 ms inside and 100 ms across.
const DISTANCES: [&str; 2] = ["azure6", "perseus3"];
/// Nodes of a region that keep copies and execute; one more keeps columns of the whole database.
const TP_NODES: u16 = 2;
const PARTITIONS_PER_NODE: u16 = 2;
/// A local query of each region comes about this often.
const QUERY_EVERY_NS: u64 = 50 * MS;
/// Regions nearer than this are close, as in the paper.
const CLOSE_NS: u64 = 50 * MS;

const VARIANTS: [(&str, FutureRanks, bool); 4] = [
    ("both rules", FutureRanks::Measured, true),
    ("rule 1 only", FutureRanks::Measured, false),
    ("rule 2 only", FutureRanks::Off, true),
    ("neither rule", FutureRanks::Off, false),
];

fn run(scale: Scale, seed: u64, part: usize, tell: &mut dyn FnMut(f64)) -> Findings {
    let wan = Wan::preset(DISTANCES[part]).expect("a preset");
    let inside_ns = wan.round_trip_ns(RegionId(0), RegionId(0));
    let size = Size::of(scale, (2, 3), (8, 15));
    let (mut rows, mut claims) = (Vec::new(), Vec::new());
    let batch_ns = Options::default().batching.interval_ns;
    for (n, (variant, future, lower_bounds)) in VARIANTS.into_iter().enumerate() {
        tell(n as f64 / VARIANTS.len() as f64);
        let name = format!("{}, {variant}", wan.name);
        let ranks = Ranks { future, lower_bounds, ..Ranks::default() };
        let options = Options { ranks, ..Options::default() };
        let topology = cluster(wan.clone(), TP_NODES, PARTITIONS_PER_NODE).replicated();
        let analysts =
            |is_local| Analysts { consistency: Consistency::Rss, is_local, every_ns: QUERY_EVERY_NS };
        let analysts = [analysts(true), analysts(false)];
        let measured = measure(&name, topology, &analysts, &size, seed, move |topology, id, life| {
            Caerus::new(topology, id, life, options.clone())
        });
        rows.push(query_row(&name, "local query, rss", &measured.local, inside_ns));
        rows.push(query_row(&name, "global query, rss", &measured.global, inside_ns));
        rows.extend(commit_rows(&name, &measured));
        if [VARIANTS[0].0, VARIANTS[2].0].contains(&variant) {
            let factor = if future == FutureRanks::Off { 1.05 } else { 1.10 };
            // Each transaction against its own farthest region.
            let spans = measured.done.iter().filter(|d| d.farthest_ns > 0);
            let mut over: Vec<u64> =
                spans.map(|d| d.latency_ns.saturating_sub(batch_ns) * 1000 / d.farthest_ns).collect();
            let found = quantile_ns(&mut over, 0.5).map_or(f64::NAN, |permille| permille as f64 / 1000.0);
            let what = format!("{name}: (commit − a batch) / round trip to the farthest region, p50");
            claims.push(Claim { what, bound: factor, found });
        }
        if variant == VARIANTS[0].0 {
            let claim = |what: &str, bound, found| {
                let what = format!("{name}: {what}");
                Claim { what, bound, found }
            };
            let local = measured.done.iter().filter(|d| d.farthest_ns == 0);
            let mut local: Vec<u64> = local.map(|d| d.latency_ns).collect();
            claims.push(claim("commit in the own region p50 (ms)", 5.0, ms(&mut local, 0.5)));
            let delays = measured.local.iter().map(|a| a.freshness.visibility_delay_ns());
            let mut delays: Vec<u64> = delays.collect();
            claims.push(claim("visibility delay of local queries p50 (ms)", 10.0, ms(&mut delays, 0.5)));
            claims.push(claim("visibility delay of local queries p99 (ms)", 10.0, ms(&mut delays, 0.99)));
            let what = "local queries that wait for longer than a round trip inside (%)";
            claims.push(claim(what, 5.0, waits_pct(&measured.local, inside_ns)));
        }
    }
    Findings { conditions: conditions(&size), rows, claims }
}

fn conditions(size: &Size) -> Vec<(&'static str, Value)> {
    let options = Options::default();
    let mut conditions = vec![
        ("distances", json!("azure6: 1 ms inside; perseus3: 2 ms inside, 100 across; and jitter")),
        ("K: regions that acknowledge before an answer", json!(0)),
        ("batch interval (ms)", json!(options.batching.interval_ns as f64 / 1e6)),
        ("heartbeat (ms)", json!(options.heartbeats.every_ns as f64 / 1e6)),
        ("margin of future ranks (ms)", json!(options.ranks.margin_ns as f64 / 1e6)),
        ("estimate of one-way delays", json!("settles near the 95th percentile")),
        ("clocks", json!(format!("wander within {} ms", CLOCK_BOUND_NS / MS))),
        (
            "nodes per region",
            json!(format!("{TP_NODES} with {PARTITIONS_PER_NODE} partitions homed each, 1 with columns")),
        ),
        ("queries per second and region", json!(format!("{0} local, {0} global", SECOND / QUERY_EVERY_NS))),
    ];
    conditions.extend(mixed::conditions(size));
    conditions
}

fn commit_rows(system: &str, measured: &Measured) -> Vec<Line> {
    let kinds: [(&str, fn(&Done) -> bool); 3] = [
        ("commit, own region", |d| d.farthest_ns == 0),
        ("commit, close regions", |d| (1..CLOSE_NS).contains(&d.farthest_ns)),
        ("commit, far regions", |d| d.farthest_ns >= CLOSE_NS),
    ];
    let row = |(kind, is): (&str, fn(&Done) -> bool)| {
        let done = || measured.done.iter().filter(|d| is(d));
        let mut row =
            commit_row(system, kind, done(), &[("order_ms", "order"), ("gate_ms", "gate")], measured);
        let mut farthest: Vec<u64> = done().map(|d| d.farthest_ns).collect();
        let mut over: Vec<u64> = done().map(|d| d.latency_ns.saturating_sub(d.farthest_ns)).collect();
        row.push(("round_trip_ms", quantile_ms(&mut farthest, 0.5)));
        row.push(("over_round_trip_ms", quantile_ms(&mut over, 0.5)));
        row
    };
    kinds.into_iter().filter(|(_, is)| measured.done.iter().any(is)).map(row).collect()
}
