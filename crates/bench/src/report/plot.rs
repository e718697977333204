//! What a run looks like.

use super::{Report, is_query};
use pages::plot::{Series, groups, linear, logarithmic};

/// Throughput, latency over time, and how latencies are distributed. Each with its caption.
pub fn plots(report: &Report) -> anyhow::Result<Vec<(String, String)>> {
    let throughput = report.sides.iter().map(|side| Series {
        name: side.name.clone(),
        points: side.seconds.iter().map(|s| (s.at_s, s.per_s)).collect(),
    });
    let latency = report.sides.iter().flat_map(|side| {
        let series = |quantile: &str, of: fn(&super::SecondFigures) -> f64| Series {
            name: format!("{} {quantile}", side.name),
            points: side.seconds.iter().map(|s| (s.at_s, of(s))).collect(),
        };
        [series("p50", |s| s.p50_ms), series("p99", |s| s.p99_ms)]
    });
    let distribution = report.sides.iter().map(|side| Series {
        name: side.name.clone(),
        points: side
            .latency_ms
            .distribution
            .iter()
            .map(|&(ms, share)| (ms.max(0.001), share * 100.0))
            .collect(),
    });
    if report.sides.iter().any(|side| side.kinds.iter().any(|kind| is_query(&kind.name))) {
        return Ok(vec![("Median latency of each query, ms".into(), bars(report)?)]);
    }
    Ok(vec![
        ("Commits per second".into(), linear("measured time, s", "per s", throughput.collect())?),
        ("Latency over time".into(), linear("measured time, s", "ms", latency.collect())?),
        ("Share of the work done within a latency".into(), logarithmic("ms", "%", distribution.collect())?),
    ])
}

/// A group of bars per query, one bar per server.
fn bars(report: &Report) -> anyhow::Result<String> {
    let queries: Vec<&str> =
        report.sides[0].kinds.iter().map(|k| k.name.as_str()).filter(|n| is_query(n)).collect();
    let heights = report.sides.iter().map(|side| {
        let of = |query: &&str| side.kinds.iter().find(|kind| kind.name == **query);
        let heights = queries.iter().map(|query| of(query).map_or(0.0, |kind| kind.latency_ms.p50));
        (side.name.as_str(), heights.collect())
    });
    Ok(groups("ms", &queries, &heights.collect::<Vec<_>>())?)
}
