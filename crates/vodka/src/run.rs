//! One run, from nothing to the report.

mod capacity;
mod frontier;
mod tasks;

use crate::analysts::{self, Plans, PlansAt, QueryLine, Questions};
use crate::args::VodkaArgs;
use crate::figures::{self, Check, Run, Side as SideFigures, Spread};
use crate::probes::{FreshnessLine, MarkLine, SyncLine};
use crate::profile::Profile;
use crate::resources::{self, Usage};
use crate::terminals::{Shared, TxnLine, terminals};
use crate::tracker::Tracker;
use crate::{prepare, repeat, report};
use anyhow::{Context, bail};
use bench::drive::{Pace, Side, run_sides};
use bench::load::now_us;
use bench::report::CheckResult;
use bench::server::Server;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use workload::vodka::Vodka;
use workload::vodka::inputs::{Kind, Mix};

/// How long queries that are under way get to end.
const ENDING: Duration = Duration::from_secs(20);

/// `bench vodka`.
///
/// # Errors
/// If a run cannot begin; if it ended early or a condition is broken, after the report was written.
pub async fn run(args: VodkaArgs) -> anyhow::Result<()> {
    match args.repeat {
        Some(times) => repeat::repeat(args, times).await,
        None => once(args).await?.1,
    }
}

/// One run: its figures, which its report has, and whether it went to its end and every condition holds.
///
/// # Errors
/// If it cannot begin, or the report cannot be written.
pub async fn once(args: VodkaArgs) -> anyhow::Result<(Run, anyhow::Result<()>)> {
    let tp = Server::reach(&args.servers.tp, None).await.context("the T side")?;
    let ap = Server::reach(args.ap_url(), None).await.context("the A side")?;
    println!("T side: {} ({})\nA side: {} ({})", tp.url, tp.version, ap.url, ap.version);
    prepare::refuse_a_follower(&tp).await?;
    let profile = match &args.servers.profile {
        Some(file) => Profile::read(file)?,
        None => Profile::of(ap.flavour),
    };
    let (terminals, streams) = args.threads_max();
    let same = args.ap_url() == args.servers.tp;
    // Beside the streams: two freshness probes, one of data sharing, one that reads plans, one to spare.
    prepare::enough_connections(&tp, terminals + 2 + if same { streams + 5 } else { 0 }).await?;
    if !same {
        prepare::enough_connections(&ap, streams + 5).await?;
    }
    let mut out = begin(&args, &tp, &ap).await?;
    let (vodka, load_rows_per_s) = prepare::prepare(&tp, &ap, &args).await?;
    out.load_rows_per_s = load_rows_per_s;
    out.config.insert("items".into(), vodka.tpcc.items.to_string());
    out.config.insert("customers per district".into(), vodka.tpcc.customers.to_string());
    if args.data.check {
        let checks = checked(&tp, &vodka, "before").await?;
        print_checks(&checks);
        out.checks.extend(checks);
    }
    if args.data.load_only {
        let outcome = verdict(&out);
        return Ok((out, outcome));
    }
    let bench = Bench { args, tp, ap, profile, vodka };
    let mut raw = Raw::default();
    let mut outcome = bench.measure(&mut out, &mut raw).await;
    if outcome.is_ok() && bench.args.data.check {
        match checked(&bench.tp, &bench.vodka, "after").await {
            Ok(checks) => out.checks.extend(checks),
            Err(error) => {
                out.checks.push(Check {
                    name: "all conditions (after)".into(),
                    violations: None,
                    error: Some(format!("{error:#}")),
                });
                outcome = Err(error.context("check the conditions after the run"));
            }
        }
    }
    if let Err(error) = &outcome {
        out.incomplete = Some(format!("{error:#}"));
    }
    if out.throughput.measured_s > 0.0 {
        report::add_notes(&mut out);
    }
    out.ended_at = chrono::Utc::now().format("%Y-%m-%dT%H:%M:%SZ").to_string();
    report::write(&out, &raw, &bench.args)?;
    let outcome = outcome.context("the run ended early; what it measured is in the report");
    let outcome = outcome.and_then(|()| verdict(&out));
    Ok((out, outcome))
}

/// # Errors
/// If a condition is broken or could not be checked.
fn verdict(out: &Run) -> anyhow::Result<()> {
    match out.checks.iter().find(|check| check.violations != Some(0)) {
        Some(Check { name, error: Some(error), .. }) => bail!("{name} could not be checked: {error}"),
        Some(Check { name, violations, .. }) => bail!("{name}: broken by {} rows", violations.unwrap_or(0)),
        None => Ok(()),
    }
}

async fn checked(server: &Server, vodka: &Vodka, when: &str) -> anyhow::Result<Vec<Check>> {
    println!("checking {}", server.short_name());
    let of = |check: CheckResult| Check {
        name: format!("{} ({when})", check.name),
        violations: check.violations,
        error: check.error,
    };
    Ok(prepare::check(server, vodka).await?.into_iter().map(of).collect())
}

fn print_checks(checks: &[Check]) {
    for check in checks {
        let result = match (check.violations, &check.error) {
            (Some(0), _) => "holds".to_string(),
            (Some(rows), _) => format!("BROKEN by {rows} rows"),
            (None, error) => format!("not checked: {}", error.as_deref().unwrap_or("?")),
        };
        println!("  {}: {result}", check.name);
    }
}

/// The figures that are known before anything runs.
async fn begin(args: &VodkaArgs, tp: &Server, ap: &Server) -> anyhow::Result<Run> {
    let mut out = Run {
        title: format!(
            "Vodka: {} → {}, {} warehouses",
            tp.short_name(),
            ap.short_name(),
            args.data.warehouses
        ),
        throughput: figures::Throughput {
            tps_target: args.load.tps,
            streams: args.load.ap_threads,
            ..figures::Throughput::default()
        },
        ..Run::default()
    };
    for (server, name, side) in [(tp, "the T side", &mut out.tp), (ap, "the A side", &mut out.ap)] {
        let clock = prepare::clock(&server.connect().await?).await;
        *side = SideFigures {
            url: server.url.clone(),
            name: server.short_name(),
            version: server.version.clone(),
            isolation: server.transaction_isolation.clone(),
            settings: server.settings.clone(),
            clock_offset_ms: clock.as_ref().map(|c| c.offset_ms),
            clock_error_ms: clock.as_ref().map(|c| c.error_ms),
        };
        if let Some(note) = clock.and_then(|clock| prepare::clock_note(name, &clock)) {
            println!("note: {note}");
            out.notes.push(note);
        }
    }
    let config: [(&str, String); 13] = [
        ("warehouses", args.data.warehouses.to_string()),
        ("shrink", args.data.shrink.to_string()),
        ("tps", args.load.tps.map_or("closed loop".into(), |tps| tps.to_string())),
        ("tp-threads", args.load.tp_threads.to_string()),
        ("ap-threads", args.load.ap_threads.to_string()),
        ("duration", format!("{:?}", args.timing.duration)),
        ("warmup", format!("{:?}", args.timing.warmup)),
        ("remote-percent", args.load.remote_percent.to_string()),
        ("seed", args.data.seed.to_string()),
        ("sample", args.load.sample.to_string()),
        ("freshness-window", format!("{:?}", args.watch.freshness_window)),
        ("no-freshness-table", args.watch.no_freshness_table.to_string()),
        ("fixed-parameters", args.load.fixed_parameters.to_string()),
    ];
    out.config = config.map(|(key, value)| (key.to_string(), value)).into();
    Ok(out)
}

/// Lines of the CSVs.
#[derive(Default)]
pub struct Raw {
    pub transactions: Vec<TxnLine>,
    pub queries: Vec<QueryLine>,
    pub freshness: Vec<FreshnessLine>,
    pub marks: Vec<MarkLine>,
    pub sync: Vec<SyncLine>,
}

/// What a run needs to know.
struct Bench {
    args: VodkaArgs,
    tp: Server,
    ap: Server,
    profile: Profile,
    vodka: Vodka,
}

/// What the tasks beside the terminals write to.
#[derive(Clone, Default)]
struct Notes {
    queries: Arc<Mutex<Vec<QueryLine>>>,
    freshness: Arc<Mutex<Vec<FreshnessLine>>>,
    marks: Arc<Mutex<Vec<MarkLine>>>,
    sync: Arc<Mutex<Vec<SyncLine>>>,
    plans: Arc<Mutex<Vec<PlansAt>>>,
    /// Processes of the A side that serve the streams, if it has one for each connection.
    serving: Arc<Mutex<BTreeSet<u32>>>,
    stop: Arc<AtomicBool>,
}

impl Bench {
    async fn measure(&self, out: &mut Run, raw: &mut Raw) -> anyhow::Result<()> {
        let (shared, alphas) = self.look().await?;
        let mut questions = Questions { numbers: self.args.load.queries.0.clone(), alphas, fixed: None };
        if self.args.load.fixed_parameters {
            questions.fix(&shared.tracker);
        }
        let questions = Arc::new(questions);
        let mut side = self.side(&shared, self.args.load.tp_threads).await?;
        let warm = Pace {
            duration: Duration::ZERO,
            warmup: self.args.timing.warmup,
            slices: 1,
            rate: self.args.load.tps,
        };
        run_sides(std::slice::from_mut(&mut side), warm).await?;
        drop(shared.take_lines());
        println!("reading the plans of {} queries", questions.numbers.len());
        let asking = analysts::connect(&self.ap, &self.profile).await?;
        let first = analysts::executed_plans(&asking, &self.profile, &questions, &shared.tracker).await?;
        let sizes_first = shared.tracker.sizes();
        let notes = Notes::default();
        let outcome = self.together(&mut side, &shared, &questions, &notes, out).await;
        let mut last = Plans::new();
        let mut outcome = outcome;
        if outcome.is_ok() {
            println!("reading the plans again");
            match self.last_plans(&questions, &shared).await {
                Ok(plans) => last = plans,
                Err(error) => outcome = Err(error),
            }
        }
        raw.transactions = shared.take_lines();
        raw.queries = take(&notes.queries);
        raw.freshness = take(&notes.freshness);
        raw.marks = take(&notes.marks);
        raw.sync = take(&notes.sync);
        out.analysis.cardinality_during = figures::during(&first, &take(&notes.plans));
        let sizes_last = shared.tracker.sizes();
        (out.analysis.sizes_first, out.analysis.sizes_last) = (sizes_first.into(), sizes_last.into());
        self.fill(out, raw, &side, (&questions, &first, &last));
        for (name, first, last) in figures::growth(&sizes_first, &sizes_last) {
            out.config.insert(format!("rows of {name}"), format!("{first:.0} → {last:.0}"));
        }
        outcome?;
        // What writes more than the measured load comes last: the run's own figures are of the data as it was loaded.
        drop(side);
        self.afterwards(out).await
    }

    /// Waits until the A side shows all that was written, and reads its plans once more.
    async fn last_plans(&self, questions: &Questions, shared: &Shared) -> anyhow::Result<Plans> {
        let asking = analysts::connect(&self.ap, &self.profile).await?;
        let begin = Instant::now();
        let wanted = shared.tracker.sizes();
        while begin.elapsed() < self.args.watch.probe_timeout {
            let shown = prepare::sizes(&asking).await?;
            if shown.lines >= wanted.lines
                && shown.received >= wanted.received
                && shown.delivered >= wanted.delivered
            {
                break;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        analysts::executed_plans(&asking, &self.profile, questions, &shared.tracker).await
    }

    /// Sizes, samples and pointers as they stand now.
    async fn look(&self) -> anyhow::Result<(Arc<Shared>, BTreeMap<usize, f64>)> {
        let client = self.tp.connect().await?;
        let began_us = now_us();
        let sizes = prepare::sizes(&client).await?;
        let samples = prepare::samples(&client, self.args.load.sample, self.vodka.tpcc.seed).await?;
        let alphas = prepare::alphas(&samples);
        let pointers = prepare::pointers(&client, &self.vodka).await?;
        let tracker = Tracker::new(samples, sizes, began_us);
        Ok((
            Arc::new(Shared::new(
                self.vodka.clone(),
                tracker,
                pointers,
                self.args.load.steady_balances,
                !self.args.watch.no_freshness_table,
            )),
            alphas,
        ))
    }

    async fn side(&self, shared: &Arc<Shared>, count: u32) -> anyhow::Result<Side> {
        let mix = Mix { remote_line: self.args.load.remote_percent / 100.0, ..Mix::default() };
        let workers = terminals(&self.tp, shared, &mix, count).await?;
        let kinds: Vec<String> = Kind::ALL.iter().map(|kind| kind.name().into()).collect();
        Ok(Side::new(self.tp.clone(), workers, &kinds))
    }

    /// Terminals, analysts and probes side by side.
    async fn together(
        &self,
        side: &mut Side,
        shared: &Arc<Shared>,
        questions: &Arc<Questions>,
        notes: &Notes,
        out: &mut Run,
    ) -> anyhow::Result<()> {
        let mut tasks = JoinSet::new();
        self.streams(&mut tasks, self.args.load.ap_threads, shared, questions, notes).await?;
        self.probes(&mut tasks, shared, notes).await?;
        self.plans(&mut tasks, shared, questions, notes).await?;
        let usage: Arc<Mutex<Vec<Usage>>> = Arc::default();
        let network_before = self.network();
        tasks.spawn(resources::watch(self.watched(&notes.serving), usage.clone(), notes.stop.clone()));
        let pace = Pace {
            duration: self.args.timing.duration,
            warmup: Duration::ZERO,
            slices: 1,
            rate: self.args.load.tps,
        };
        let outcome = {
            let sides = std::slice::from_mut(side);
            let running = run_sides(sides, pace);
            let mut running = std::pin::pin!(running);
            loop {
                tokio::select! {
                    outcome = &mut running => break outcome,
                    // Whatever breaks beside the terminals ends the run: its figures would be of less.
                    Some(joined) = tasks.join_next() => {
                        if let Err(error) = joined.context("a task broke down").and_then(|result| result) {
                            break Err(error);
                        }
                    }
                }
            }
        };
        notes.stop.store(true, Ordering::Relaxed);
        let ending = async {
            let mut outcome = Ok(());
            while let Some(joined) = tasks.join_next().await {
                if let Err(error) = joined.context("a task broke down").and_then(|result| result) {
                    outcome = Err(error);
                }
            }
            outcome
        };
        let ended = tokio::time::timeout(ENDING, ending).await;
        if ended.is_err() {
            tasks.shutdown().await;
            out.notes
                .push(format!("queries that ran on for more than {ENDING:?} after the end were given up"));
        }
        out.resources = take(&usage);
        out.network = self.network().iter().zip(&network_before).map(|(now, then)| now.since(then)).collect();
        outcome.and(ended.unwrap_or(Ok(())))
    }

    fn fill(
        &self,
        out: &mut Run,
        raw: &Raw,
        side: &Side,
        (questions, first, last): (&Questions, &Plans, &Plans),
    ) {
        let recorder = side.recorder();
        out.throughput.measured_s = recorder.active_s;
        out.throughput.tps = recorder.per_s();
        out.throughput.transactions = figures::transactions(&recorder, &raw.transactions);
        out.throughput.tps_by_second = recorder
            .seconds
            .iter()
            .map(|s| (s.at_s, s.committed as f64 / s.lasted_s.max(f64::MIN_POSITIVE)))
            .collect();
        out.analysis.queries =
            figures::queries(&questions.numbers, &questions.alphas, &raw.queries, first, last);
        let good = raw.queries.iter().filter(|line| line.error.is_empty()).count();
        if out.throughput.measured_s > 0.0 && good > 0 {
            out.analysis.qphh_measured = Some(good as f64 * 3600.0 / out.throughput.measured_s);
        }
        let sizes = [out.analysis.sizes_first, out.analysis.sizes_last];
        out.analysis.qphh = sizes.iter().filter_map(|sizes| out.qphh_at(sizes)).collect();
        out.visibility.freshness = figures::freshness(&raw.freshness);
        out.visibility.freshness_points = figures::freshness_points(&raw.freshness);
        out.visibility.hattrick = figures::hattrick(&raw.marks);
        out.visibility.sync = figures::sync(&raw.sync);
        let delay = raw.queries.iter().filter_map(|line| line.visibility);
        out.visibility.visibility_delay_ms =
            Spread::of(delay.map(|f| f.staleness_ms + f.coordination_ms + f.wait_ms));
        out.visibility.version_records_max =
            raw.freshness.iter().map(|line| line.versions).max().unwrap_or(0);
        out.visibility.version_bytes_max =
            raw.freshness.iter().map(|line| line.version_bytes).max().unwrap_or(0);
    }
}

fn take<T>(list: &Mutex<Vec<T>>) -> Vec<T> {
    std::mem::take(&mut list.lock().unwrap_or_else(PoisonError::into_inner))
}
