//! What the demo's clients saw, counted.

use super::DemoArgs;
use super::audit::Audit;
use super::faults::{Deed, Fault};
use crate::database::Region;
use base::RegionId;
use base::topology::Topology;
use bench::measure::Freshness;
use hdrhistogram::Histogram;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A committed transaction as its client saw it.
pub struct Transaction {
    /// The region of its terminal.
    pub region: usize,
    /// It was asked for elsewhere, since that region was lost.
    pub is_away: bool,
    /// Other regions it touched.
    pub others: Vec<usize>,
    pub latency: Duration,
}

/// An answered query as its client saw it, with the freshness that the server tells.
pub struct QueryRun {
    pub number: usize,
    pub scope: &'static str,
    pub latency: Duration,
    pub rows: u64,
    pub freshness: Freshness,
}

/// Collects from all clients.
pub struct Figures {
    topology: Arc<Topology>,
    engine: String,
    wan: String,
    consistency: String,
    inner: Mutex<Inner>,
}

struct Inner {
    started: Instant,
    faults: Vec<FaultFigures>,
    lost: BTreeSet<usize>,
    audit: Option<Audit>,
    regions: Vec<RegionFigures>,
    queries: BTreeMap<(usize, &'static str), QueryFigures>,
    errors: Vec<String>,
    errors_count: u64,
    measured: Option<Duration>,
}

/// What happened to the transactions of each region's terminals from one fault to the next.
struct FaultFigures {
    at: Instant,
    until: Option<Instant>,
    what: String,
    /// The longest time in which none committed.
    silence: Vec<Duration>,
}

struct RegionFigures {
    name: String,
    commits: u64,
    rolled_back: u64,
    aborts: BTreeMap<String, u64>,
    lost_connections: u64,
    last_commit: Option<Instant>,
    commit: Millis,
    single: Millis,
    multi: Millis,
    /// Round trips to the farthest region that took part.
    multi_rtt: Millis,
    /// Instants of the last seconds' commits.
    recent: VecDeque<Instant>,
}

#[derive(Default)]
struct QueryFigures {
    runs: u64,
    errors: u64,
    rows: u64,
    latency: Millis,
    staleness: Millis,
    coordination: Millis,
    wait: Millis,
    visibility: Millis,
}

/// A histogram of thousandths, so that it can hold ms or ratios.
struct Millis(Histogram<u64>);

impl Default for Millis {
    fn default() -> Self {
        // Up to an hour, in µs.
        Millis(Histogram::new_with_bounds(1, 3_600_000_000, 3).expect("these bounds are allowed"))
    }
}

impl Millis {
    fn add(&mut self, value: f64) {
        self.0.saturating_record((value * 1000.0).max(0.0) as u64);
    }
    fn at(&self, quantile: f64) -> f64 {
        self.0.value_at_quantile(quantile) as f64 / 1000.0
    }
    fn percentiles(&self) -> Percentiles {
        Percentiles { p50: self.at(0.5), p99: self.at(0.99) }
    }
}

/// The file that `--json` writes. A percentile of nothing is 0; `commits` and `runs` tell.
#[derive(Serialize, Clone)]
pub struct Report {
    pub engine: String,
    pub wan: String,
    pub consistency: String,
    pub measured_s: f64,
    pub regions: Vec<RegionReport>,
    pub queries: Vec<QueryReport>,
    /// Regions that were killed, or lost, and healed, and whose clocks ran off.
    pub faults: Vec<FaultReport>,
    /// Taken at the end if there were faults.
    pub audit: Option<Audit>,
    pub errors: Vec<String>,
    #[serde(skip)]
    pub errors_count: u64,
}

#[derive(Serialize, Clone)]
pub struct FaultReport {
    pub at_s: f64,
    /// `kill eu`
    pub what: String,
    /// By region: the longest time until the next fault in which no transaction of its terminals committed,
    /// wherever they were asked for.
    pub without_service_s: BTreeMap<String, f64>,
}

#[derive(Serialize, Clone)]
pub struct RegionReport {
    pub name: String,
    /// It does not run now.
    #[serde(skip)]
    pub is_lost: bool,
    pub commits: u64,
    pub commits_per_s: f64,
    /// Transactions that ended with an error, without TPC-C's intended roll-backs.
    pub aborts: u64,
    pub aborts_by_reason: BTreeMap<String, u64>,
    pub rolled_back: u64,
    pub lost_connections: u64,
    pub commit_ms: Percentiles,
    pub single_region_commit_ms: Percentiles,
    pub multi_region_commits: u64,
    pub multi_region_commit_ms: Percentiles,
    pub multi_region_commit_rtt: Percentiles,
    /// Commits of the last second.
    #[serde(skip)]
    pub commits_now: f64,
}

#[derive(Serialize, Clone)]
pub struct QueryReport {
    pub name: String,
    pub scope: String,
    pub runs: u64,
    pub errors: u64,
    pub rows: u64,
    pub latency_ms: Percentiles,
    pub visibility_delay_ms: Percentiles,
    pub staleness_ms: Percentiles,
    pub coordination_ms: Percentiles,
    pub wait_ms: Percentiles,
}

#[derive(Serialize, Clone, Copy, Default)]
pub struct Percentiles {
    pub p50: f64,
    pub p99: f64,
}

/// Errors kept in full; further ones are counted.
const ERRORS_KEPT: usize = 50;

impl Figures {
    pub fn new(args: &DemoArgs, topology: Arc<Topology>, regions: &[Region]) -> Figures {
        let region = |r: &Region| RegionFigures {
            name: r.name.clone(),
            commits: 0,
            rolled_back: 0,
            aborts: BTreeMap::new(),
            lost_connections: 0,
            last_commit: None,
            commit: Millis::default(),
            single: Millis::default(),
            multi: Millis::default(),
            multi_rtt: Millis::default(),
            recent: VecDeque::new(),
        };
        Figures {
            engine: args.database.engine.clone(),
            wan: topology.wan.name.clone(),
            consistency: args.consistency.clone(),
            inner: Mutex::new(Inner {
                started: Instant::now(),
                faults: Vec::new(),
                lost: BTreeSet::new(),
                audit: None,
                regions: regions.iter().map(region).collect(),
                queries: BTreeMap::new(),
                errors: Vec::new(),
                errors_count: 0,
                measured: None,
            }),
            topology,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().expect("no panic while counting")
    }

    pub fn committed(&self, transaction: Transaction) {
        let ms = transaction.latency.as_secs_f64() * 1000.0;
        let id = |r: usize| RegionId(r as u16);
        let round_trip = |other: &usize| self.topology.wan.round_trip_ns(id(transaction.region), id(*other));
        let farthest_ns = transaction.others.iter().map(round_trip).max();
        let mut inner = self.lock();
        if inner.measured.is_some() {
            return;
        }
        let now = Instant::now();
        let inner = &mut *inner;
        let region = &mut inner.regions[transaction.region];
        if let Some(fault) = inner.faults.last_mut() {
            let since = region.last_commit.map_or(fault.at, |last| last.max(fault.at));
            let silence = &mut fault.silence[transaction.region];
            *silence = (*silence).max(now.duration_since(since));
        }
        region.last_commit = Some(now);
        region.commits += 1;
        region.commit.add(ms);
        match farthest_ns {
            // What it takes from elsewhere says nothing about one region or several.
            _ if transaction.is_away => {}
            Some(ns) => {
                region.multi.add(ms);
                region.multi_rtt.add(ms * 1e6 / ns as f64);
            }
            None => region.single.add(ms),
        }
        region.recent.push_back(now);
        while region.recent.front().is_some_and(|t| now.duration_since(*t) > Duration::from_secs(1)) {
            region.recent.pop_front();
        }
    }

    /// A region loses its power, or has it back, or its clocks run off.
    pub fn fault(&self, fault: &Fault, region: usize) {
        let now = Instant::now();
        let mut inner = self.lock();
        match fault.deed {
            Deed::Kill | Deed::Lose => inner.lost.insert(region),
            Deed::Heal => inner.lost.remove(&region),
            Deed::Skew(_) => false,
        };
        inner.end_fault(now);
        let silence = vec![Duration::ZERO; inner.regions.len()];
        inner.faults.push(FaultFigures { at: now, until: None, what: fault.to_string(), silence });
    }
    pub fn is_lost(&self, region: usize) -> bool {
        self.lock().lost.contains(&region)
    }
    pub fn lost_connection(&self, region: usize) {
        self.lock().regions[region].lost_connections += 1;
    }
    pub fn has_faults(&self) -> bool {
        !self.lock().faults.is_empty()
    }
    pub fn audited(&self, audit: Audit) {
        self.lock().audit = Some(audit);
    }

    pub fn rolled_back(&self, region: usize) {
        self.lock().regions[region].rolled_back += 1;
    }

    /// An abort that the workload did not ask for. Conflicts (40001) and refusals (57P03) are counted; anything else is also
    /// an error of the demo.
    pub fn aborted(&self, region: usize, state: &str, message: &str) {
        let mut inner = self.lock();
        *inner.regions[region].aborts.entry(state.to_string()).or_default() += 1;
        drop(inner);
        // A node that has fenced itself says so; its clients go elsewhere.
        if state != "40001" && state != "57P03" {
            self.error(format!("{state}: {message}"));
        }
    }

    pub fn queried(&self, run: QueryRun) {
        let mut inner = self.lock();
        if inner.measured.is_some() {
            return;
        }
        let query = inner.queries.entry((run.number, run.scope)).or_default();
        query.runs += 1;
        query.rows = run.rows;
        query.latency.add(run.latency.as_secs_f64() * 1000.0);
        let Freshness { staleness_ms, coordination_ms, wait_ms } = run.freshness;
        query.staleness.add(staleness_ms);
        query.coordination.add(coordination_ms);
        query.wait.add(wait_ms);
        query.visibility.add(staleness_ms + coordination_ms + wait_ms);
    }

    pub fn query_failed(&self, number: usize, scope: &'static str, message: String) {
        self.lock().queries.entry((number, scope)).or_default().errors += 1;
        self.error(message);
    }

    pub fn error(&self, message: String) {
        let mut inner = self.lock();
        if inner.measured.is_some() {
            return; // The database is being taken down around its clients.
        }
        inner.errors_count += 1;
        if inner.errors.len() < ERRORS_KEPT && !inner.errors.contains(&message) {
            inner.errors.push(message);
        }
    }

    /// Nothing is counted from now on.
    pub fn freeze(&self, measured: Duration) {
        let mut inner = self.lock();
        inner.measured = Some(measured);
        inner.end_fault(Instant::now());
    }

    /// An error that is told even after the end.
    pub fn final_error(&self, message: String) {
        let mut inner = self.lock();
        inner.errors_count += 1;
        inner.errors.push(message);
    }

    /// The frozen figures.
    pub fn report(&self) -> Report {
        let measured = self.lock().measured.expect("frozen before");
        self.report_now(measured)
    }

    pub fn report_now(&self, measured: Duration) -> Report {
        let inner = self.lock();
        let now = Instant::now();
        let regions = inner.regions.iter().enumerate().map(|(i, r)| RegionReport {
            name: r.name.clone(),
            is_lost: inner.lost.contains(&i),
            commits: r.commits,
            commits_per_s: r.commits as f64 / measured.as_secs_f64().max(1e-9),
            aborts: r.aborts.values().sum(),
            aborts_by_reason: r.aborts.clone(),
            rolled_back: r.rolled_back,
            lost_connections: r.lost_connections,
            commit_ms: r.commit.percentiles(),
            single_region_commit_ms: r.single.percentiles(),
            multi_region_commits: r.multi.0.len(),
            multi_region_commit_ms: r.multi.percentiles(),
            multi_region_commit_rtt: r.multi_rtt.percentiles(),
            commits_now: r.recent.iter().filter(|t| now.duration_since(**t) <= Duration::from_secs(1)).count()
                as f64,
        });
        let queries = inner.queries.iter().map(|((number, scope), q)| QueryReport {
            name: format!("Q{number}"),
            scope: scope.to_string(),
            runs: q.runs,
            errors: q.errors,
            rows: q.rows,
            latency_ms: q.latency.percentiles(),
            visibility_delay_ms: q.visibility.percentiles(),
            staleness_ms: q.staleness.percentiles(),
            coordination_ms: q.coordination.percentiles(),
            wait_ms: q.wait.percentiles(),
        });
        Report {
            engine: self.engine.clone(),
            wan: self.wan.clone(),
            consistency: self.consistency.clone(),
            measured_s: measured.as_secs_f64(),
            regions: regions.collect(),
            queries: queries.collect(),
            faults: inner.faults.iter().map(|fault| inner.fault_report(fault, now)).collect(),
            audit: inner.audit.clone(),
            errors: inner.errors.clone(),
            errors_count: inner.errors_count,
        }
    }
}

impl Inner {
    /// Nothing more is booked on the last fault; the silence that lasts belongs to it.
    fn end_fault(&mut self, now: Instant) {
        let silences = match self.faults.last() {
            Some(fault) if fault.until.is_none() => self.silences(fault, now),
            _ => return,
        };
        let fault = self.faults.last_mut().expect("looked at just now");
        (fault.silence, fault.until) = (silences, Some(now));
    }

    fn silences(&self, fault: &FaultFigures, now: Instant) -> Vec<Duration> {
        let of = |(region, silence): (&RegionFigures, &Duration)| match fault.until {
            Some(_) => *silence,
            None => {
                let since = region.last_commit.map_or(fault.at, |last| last.max(fault.at));
                (*silence).max(now.duration_since(since))
            }
        };
        self.regions.iter().zip(&fault.silence).map(of).collect()
    }

    fn fault_report(&self, fault: &FaultFigures, now: Instant) -> FaultReport {
        let silences = self.silences(fault, now);
        let by_region = self.regions.iter().zip(silences);
        FaultReport {
            at_s: fault.at.duration_since(self.started).as_secs_f64(),
            what: fault.what.clone(),
            without_service_s: by_region.map(|(r, s)| (r.name.clone(), s.as_secs_f64())).collect(),
        }
    }
}
