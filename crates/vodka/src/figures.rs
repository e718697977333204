//! Figures of one run, as they are stored and shown.

mod cardinality;
mod frontier;
mod hattrick;

pub use cardinality::{CardinalityFigures, OnePlan, compared, during};
pub use frontier::{FrontierFigures, FrontierPoint, MostStreams, TrialFigures, holds};
pub use hattrick::{HattrickFigures, hattrick};

use crate::analysts::{Plans, QueryLine};
use crate::probes::{FreshnessLine, SyncLine};
use crate::resources::Usage;
use crate::terminals::TxnLine;
use bench::measure::Recorder;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use workload::vodka::cardinality::{Grows, Sizes};
use workload::vodka::inputs::Kind;
use workload::vodka::model::{Model, Observation, queries_per_hour};
use workload::vodka::queries::query;

/// Everything about a run: run.json.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Run {
    pub title: String,
    /// UTC, ISO 8601.
    pub ended_at: String,
    /// Why it ended early; its figures are of what was measured before.
    pub incomplete: Option<String>,
    pub tp: Side,
    pub ap: Side,
    pub config: BTreeMap<String, String>,
    /// What a reader must know to read the figures right.
    pub notes: Vec<String>,
    #[serde(flatten)]
    pub throughput: Throughput,
    #[serde(flatten)]
    pub analysis: Analysis,
    #[serde(flatten)]
    pub visibility: Visibility,
    pub load_rows_per_s: Option<f64>,
    pub resources: Vec<Usage>,
    #[serde(default)]
    pub network: Vec<NetworkFigures>,
    pub checks: Vec<Check>,
}

/// What went over the connections of one side while transactions and queries ran, as the client counts it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct NetworkFigures {
    pub class: String,
    pub sent_mb: f64,
    pub received_mb: f64,
}

impl NetworkFigures {
    pub fn since(&self, then: &NetworkFigures) -> NetworkFigures {
        NetworkFigures {
            class: self.class.clone(),
            sent_mb: self.sent_mb - then.sent_mb,
            received_mb: self.received_mb - then.received_mb,
        }
    }
}

/// Transactions, and what they cost.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Throughput {
    pub measured_s: f64,
    pub tps: f64,
    pub tps_target: Option<f64>,
    /// Closed loop, without and with the tool's tracking.
    pub tps_without_tool: Option<f64>,
    pub tps_with_tool: Option<f64>,
    pub transactions: Vec<TxnFigures>,
    /// Seconds since the run's begin, transactions a second.
    pub tps_by_second: Vec<(f64, f64)>,
    /// In a closed loop, on the data as the run left it.
    #[serde(default, rename = "throughput_frontier")]
    pub frontier: FrontierFigures,
    #[serde(default)]
    pub most_streams: MostStreams,
    pub streams: u32,
}

/// Queries, over the sizes of the tables.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Analysis {
    pub queries: Vec<QueryFigures>,
    pub qphh_measured: Option<f64>,
    /// By the models, at given sizes.
    pub qphh: Vec<SizedQphh>,
    pub sizes_first: SizeFigures,
    pub sizes_last: SizeFigures,
    /// Cardinality errors at instants of the run.
    #[serde(default)]
    pub cardinality_during: Vec<CardinalityFigures>,
}

/// When writes are visible.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Visibility {
    pub freshness: BTreeMap<String, FreshnessFigures>,
    pub freshness_points: Vec<FreshnessPoint>,
    /// By `vodka_freshness`.
    #[serde(default)]
    pub hattrick: Option<HattrickFigures>,
    pub sync: SyncFigures,
    pub visibility_delay_ms: Option<Spread>,
    pub version_records_max: usize,
    pub version_bytes_max: usize,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Side {
    pub url: String,
    pub name: String,
    pub version: String,
    pub isolation: String,
    pub settings: Vec<(String, String)>,
    pub clock_offset_ms: Option<f64>,
    pub clock_error_ms: Option<f64>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TxnFigures {
    pub name: String,
    pub committed: u64,
    pub rolled_back: u64,
    pub retried: u64,
    pub failed: u64,
    pub per_s: f64,
    pub latency_ms: Spread,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    pub mean: f64,
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
    pub max: f64,
}

impl Spread {
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        let at = |quantile: f64| values[(last as f64 * quantile).ceil() as usize];
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        Some(Spread { mean, p50: at(0.5), p95: at(0.95), p99: at(0.99), max: values[last] })
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct QueryFigures {
    pub name: String,
    pub executions: u64,
    pub failed: u64,
    pub error: Option<String>,
    pub latency_ms: Option<Spread>,
    /// Share of the rows that its moving predicate keeps.
    pub alpha: Option<f64>,
    /// Eq. of §8.1, per operator, at the run's end against its begin.
    pub cardinality_error: Option<f64>,
    pub cardinality_note: String,
    pub operators: usize,
    /// Mean predicted against mean measured latency of executions that the model has not seen.
    pub model_error: Option<f64>,
    pub model: Option<ModelFigures>,
    /// Total size of its growing tables, and latency, per execution.
    pub points: Vec<(f64, f64)>,
}

/// A model's parameters, and the tables it is over.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ModelFigures {
    pub tables: Vec<String>,
    pub first: Vec<f64>,
    pub scales: Vec<(f64, f64)>,
    pub coefficients: Vec<f64>,
    pub delta_ms: f64,
    pub observed: (f64, f64),
}

impl ModelFigures {
    fn model(&self) -> Model {
        Model {
            first: self.first.clone(),
            scales: self.scales.clone(),
            coefficients: self.coefficients.clone(),
            delta_ms: self.delta_ms,
            observed: self.observed,
        }
    }
    /// Predicted latency in ms, and the share by which the sizes lie outside of what was observed.
    pub fn at(&self, sizes: &SizeFigures) -> (f64, f64) {
        let sizes: Vec<f64> = self.tables.iter().map(|table| sizes.of(table)).collect();
        let model = self.model();
        (model.predict_ms(&sizes), model.extrapolation(&sizes))
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SizeFigures {
    pub orders: u64,
    pub new_orders: u64,
    pub lines: u64,
    pub delivered: u64,
    pub received: u64,
    pub history: u64,
}

impl From<Sizes> for SizeFigures {
    fn from(s: Sizes) -> SizeFigures {
        SizeFigures {
            orders: s.orders,
            new_orders: s.new_orders,
            lines: s.lines,
            delivered: s.delivered,
            received: s.received,
            history: s.history,
        }
    }
}

impl SizeFigures {
    fn of(&self, table: &str) -> f64 {
        (match table {
            "orders" => self.orders,
            _ => self.lines,
        }) as f64
    }
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct SizedQphh {
    pub sizes: SizeFigures,
    pub qphh: f64,
    pub extrapolation: f64,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct FreshnessFigures {
    pub answers: u64,
    /// Eq. 16.
    pub freshness_ms: Spread,
    pub stale_answers: u64,
    pub lower_bounds: u64,
    /// Sum over all answers, and the most of one.
    pub missing_rows: u64,
    pub missing_rows_max: u64,
    pub missing_age_ms: Spread,
    pub hattrick_ms: Spread,
    pub latency_ms: Spread,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FreshnessPoint {
    #[serde(default)]
    pub query: String,
    pub at_s: f64,
    pub freshness_ms: f64,
    pub hattrick_ms: f64,
    pub missing_rows: u64,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SyncFigures {
    /// Until the last write of all was visible: the paper's.
    pub last_write_ms: Option<Spread>,
    /// Until the last write of every partition was.
    pub all_partitions_ms: Option<Spread>,
    pub error_ms: f64,
    pub probes: u64,
    /// Probes that saw no end within their time.
    pub given_up: u64,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Check {
    pub name: String,
    pub violations: Option<u64>,
    pub error: Option<String>,
}

impl Run {
    /// Queries an hour at these sizes by the models, and how far the worst of them had to extrapolate; `None` unless every query has a
    /// model.
    pub fn qphh_at(&self, sizes: &SizeFigures) -> Option<SizedQphh> {
        let of = self.analysis.queries.iter().map(|query| query.model.as_ref().map(|model| model.at(sizes)));
        let of: Vec<(f64, f64)> = of.collect::<Option<_>>()?;
        let total_ms: f64 = of.iter().map(|(ms, _)| ms).sum();
        let extrapolation = of.iter().map(|(_, outside)| *outside).fold(0.0, f64::max);
        (total_ms > 0.0).then(|| SizedQphh {
            sizes: *sizes,
            qphh: queries_per_hour(of.len(), total_ms, self.throughput.streams.max(1)),
            extrapolation,
        })
    }
    /// The query that reads what was just written.
    pub fn consistency_check(&self) -> FreshnessFigures {
        self.visibility.freshness.get("ConsistencyCheck").copied().unwrap_or_default()
    }
}

/// What the terminals did, by kind.
pub fn transactions(recorder: &Recorder, lines: &[TxnLine]) -> Vec<TxnFigures> {
    let of = |kind: Kind| {
        let tally = &recorder.tallies[kind as usize];
        let good = lines.iter().filter(|line| line.kind == kind && line.error.is_empty());
        TxnFigures {
            name: kind.name().into(),
            committed: tally.committed,
            rolled_back: tally.rolled_back,
            retried: tally.retried.values().sum(),
            failed: tally.failed.values().sum(),
            per_s: tally.committed as f64 / recorder.active_s.max(f64::MIN_POSITIVE),
            latency_ms: Spread::of(good.map(|line| line.latency_ms)).unwrap_or_default(),
        }
    };
    Kind::ALL.into_iter().map(of).collect()
}

/// What the streams and the executed plans say of each query.
pub fn queries(
    numbers: &[usize],
    alphas: &BTreeMap<usize, f64>,
    lines: &[QueryLine],
    first: &Plans,
    last: &Plans,
) -> Vec<QueryFigures> {
    numbers
        .iter()
        .map(|number| query_figures(*number, alphas, lines, first.get(number), last.get(number)))
        .collect()
}

fn query_figures(
    number: usize,
    alphas: &BTreeMap<usize, f64>,
    lines: &[QueryLine],
    first: OnePlan<'_>,
    last: OnePlan<'_>,
) -> QueryFigures {
    let of = || lines.iter().filter(|line| line.number == number);
    let good: Vec<&QueryLine> = of().filter(|line| line.error.is_empty()).collect();
    let tables = growing(number);
    let observations: Vec<Observation> = good
        .iter()
        .map(|line| {
            let sizes = SizeFigures::from(line.sizes);
            Observation { sizes: tables.iter().map(|t| sizes.of(t)).collect(), latency_ms: line.latency_ms }
        })
        .collect();
    // As published: two thirds to learn from, and what came later to be judged by.
    let learned = observations.len() - observations.len() / 3;
    let judged = Model::fit(&observations[..learned]);
    let (cardinality, note) = compared(first, last);
    QueryFigures {
        name: format!("Q{number}"),
        executions: good.len() as u64,
        failed: of().count() as u64 - good.len() as u64,
        error: of().find(|line| !line.error.is_empty()).map(|line| line.error.clone()),
        latency_ms: Spread::of(good.iter().map(|line| line.latency_ms)),
        alpha: alphas.get(&number).copied(),
        cardinality_error: cardinality.as_ref().map(|d| d.error),
        cardinality_note: note,
        operators: cardinality.map_or(0, |d| d.operators),
        model_error: judged.and_then(|model| model.mean_error(&observations[learned..])),
        points: observations.iter().map(|o| (o.sizes.iter().sum(), o.latency_ms)).collect(),
        model: Model::fit(&observations).map(|model| ModelFigures {
            tables: tables.iter().map(|table| table.to_string()).collect(),
            first: model.first,
            scales: model.scales,
            coefficients: model.coefficients,
            delta_ms: model.delta_ms,
            observed: model.observed,
        }),
    }
}

/// The growing tables that a query reads.
fn growing(number: usize) -> Vec<&'static str> {
    let text = query(number, Some(0));
    let mut out = Vec::new();
    if text.contains("vodka_orders") {
        out.push("orders");
    }
    if text.contains("vodka_order_line") {
        out.push("lines");
    }
    // A query over static tables: its latency is a constant, over any size.
    if out.is_empty() {
        out.push("orders");
    }
    out
}

/// What the freshness queries found, by query.
pub fn freshness(lines: &[FreshnessLine]) -> BTreeMap<String, FreshnessFigures> {
    let names: std::collections::BTreeSet<&str> = lines.iter().map(|line| line.query).collect();
    let of = |name: &str| {
        let lines: Vec<&FreshnessLine> = lines.iter().filter(|line| line.query == name).collect();
        let spread =
            |of: &dyn Fn(&FreshnessLine) -> f64| Spread::of(lines.iter().map(|l| of(l))).unwrap_or_default();
        let ms = |us: i64| us as f64 / 1000.0;
        FreshnessFigures {
            answers: lines.len() as u64,
            freshness_ms: spread(&|line| ms(line.reading.freshness_us)),
            stale_answers: lines.iter().filter(|line| line.reading.stale_rows > 0).count() as u64,
            lower_bounds: lines.iter().filter(|line| line.reading.is_lower_bound).count() as u64,
            missing_rows: lines.iter().map(|line| line.reading.missing_rows).sum(),
            missing_rows_max: lines.iter().map(|line| line.reading.missing_rows).max().unwrap_or(0),
            missing_age_ms: spread(&|line| ms(line.reading.missing_age_us)),
            hattrick_ms: spread(&|line| ms(line.reading.hattrick_us)),
            latency_ms: spread(&|line| line.latency_ms),
        }
    };
    names.into_iter().map(|name| (name.to_string(), of(name))).collect()
}

/// Each answer, with its query: the two are series of their own.
pub fn freshness_points(lines: &[FreshnessLine]) -> Vec<FreshnessPoint> {
    let of = |line: &FreshnessLine| FreshnessPoint {
        query: line.query.into(),
        at_s: line.elapsed_ms as f64 / 1000.0,
        freshness_ms: line.reading.freshness_us as f64 / 1000.0,
        hattrick_ms: line.reading.hattrick_us as f64 / 1000.0,
        missing_rows: line.reading.missing_rows,
    };
    lines.iter().map(of).collect()
}

pub fn sync(lines: &[SyncLine]) -> SyncFigures {
    let done: Vec<_> = lines.iter().filter_map(|line| line.probe.as_ref()).collect();
    SyncFigures {
        last_write_ms: Spread::of(done.iter().map(|probe| probe.last_write_ms)),
        all_partitions_ms: Spread::of(done.iter().map(|probe| probe.all_partitions_ms)),
        error_ms: done.iter().map(|probe| probe.error_ms).fold(0.0, f64::max),
        probes: lines.len() as u64,
        given_up: (lines.len() - done.len()) as u64,
    }
}

/// How much each table has grown, for the page.
pub fn growth(first: &Sizes, last: &Sizes) -> Vec<(&'static str, f64, f64)> {
    let of = |(name, grows): (&'static str, Grows)| (name, first.of(grows), last.of(grows));
    [
        ("orders", Grows::Orders),
        ("new orders", Grows::NewOrders),
        ("lines", Grows::Lines),
        ("lines delivered", Grows::Delivered),
        ("lines received", Grows::Received),
        ("history", Grows::History),
    ]
    .map(of)
    .to_vec()
}
