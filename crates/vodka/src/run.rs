//! One run, from nothing to the report.

mod capacity;

use crate::analysts::{self, Plans, QueryLine, Questions, Stream};
use crate::args::VodkaArgs;
use crate::figures::{self, Check, NetworkFigures, Run, Side as SideFigures, Spread};
use crate::probes::{self, FreshnessLine, SyncLine};
use crate::profile::Profile;
use crate::resources::{self, Queries, Usage, Watched, local_port};
use crate::terminals::{Shared, TxnLine, terminals};
use crate::tracker::Tracker;
use crate::{prepare, report};
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
/// If the run cannot begin; if it ended early or a condition is broken, after the report was written.
pub async fn run(args: VodkaArgs) -> anyhow::Result<()> {
    let tp = Server::reach(&args.servers.tp, None).await.context("the T side")?;
    let ap = Server::reach(args.ap_url(), None).await.context("the A side")?;
    println!("T side: {} ({})\nA side: {} ({})", tp.url, tp.version, ap.url, ap.version);
    prepare::refuse_a_follower(&tp).await?;
    let profile = match &args.servers.profile {
        Some(file) => Profile::read(file)?,
        None => Profile::of(ap.flavour),
    };
    let streams =
        args.timing.frontier_threads.iter().copied().chain([args.load.ap_threads]).max().unwrap_or(0);
    let same = args.ap_url() == args.servers.tp;
    prepare::enough_connections(&tp, args.load.tp_threads + 2 + if same { streams + 3 } else { 0 }).await?;
    if !same {
        prepare::enough_connections(&ap, streams + 3).await?;
    }
    let mut out = begin(&args, &tp, &ap).await?;
    let (vodka, load_rows_per_s) = prepare::prepare(&tp, &ap, &args).await?;
    out.load_rows_per_s = load_rows_per_s;
    if args.data.check {
        let checks = checked(&tp, &vodka, "before").await?;
        print_checks(&checks);
        out.checks.extend(checks);
    }
    if args.data.load_only {
        return verdict(&out);
    }
    let bench = Bench { args, tp, ap, profile, vodka };
    let mut raw = Raw::default();
    let outcome = bench.measure(&mut out, &mut raw).await;
    if let Err(error) = &outcome {
        out.incomplete = Some(format!("{error:#}"));
    } else if bench.args.data.check {
        out.checks.extend(checked(&bench.tp, &bench.vodka, "after").await?);
    }
    out.ended_at = chrono::Utc::now().format("%Y-%m-%dT%H:%M:%SZ").to_string();
    report::write(&out, &raw, &bench.args)?;
    outcome.context("the run ended early; what it measured is in the report")?;
    verdict(&out)
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
    let config: [(&str, String); 12] = [
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
    sync: Arc<Mutex<Vec<SyncLine>>>,
    /// Processes of the A side that serve the streams, if it has one for each connection.
    serving: Arc<Mutex<BTreeSet<u32>>>,
    stop: Arc<AtomicBool>,
}

impl Bench {
    async fn measure(&self, out: &mut Run, raw: &mut Raw) -> anyhow::Result<()> {
        if !self.args.timing.overhead.is_zero() {
            self.overhead(out).await?;
        }
        if let Some(length) = self.args.timing.frontier {
            for &streams in &self.args.timing.frontier_threads {
                let point = self.frontier_point(streams, length).await?;
                println!(
                    "frontier: {streams} streams: {:.0} tps, {:.0} queries/h",
                    point.tps, point.queries_per_hour
                );
                out.throughput.frontier.push(point);
            }
        }
        let (shared, alphas) = self.look().await?;
        let mut questions = Questions { numbers: self.args.load.queries.0.clone(), alphas, fixed: None };
        if self.args.load.fixed_parameters {
            questions.fix(&shared.tracker);
        }
        let questions = Arc::new(questions);
        let mut side = self.side(&shared).await?;
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
        raw.sync = take(&notes.sync);
        let sizes_last = shared.tracker.sizes();
        (out.analysis.sizes_first, out.analysis.sizes_last) = (sizes_first.into(), sizes_last.into());
        self.fill(out, raw, &side, (&questions, &first, &last));
        for (name, first, last) in figures::growth(&sizes_first, &sizes_last) {
            out.config.insert(format!("rows of {name}"), format!("{first:.0} → {last:.0}"));
        }
        outcome
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
            Arc::new(Shared::new(self.vodka.clone(), tracker, pointers, self.args.load.steady_balances)),
            alphas,
        ))
    }

    async fn side(&self, shared: &Arc<Shared>) -> anyhow::Result<Side> {
        let mix = Mix { remote_line: self.args.load.remote_percent / 100.0, ..Mix::default() };
        let workers = terminals(&self.tp, shared, &mix, self.args.load.tp_threads).await?;
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

    async fn streams(
        &self,
        tasks: &mut JoinSet<anyhow::Result<()>>,
        count: u32,
        shared: &Arc<Shared>,
        questions: &Arc<Questions>,
        notes: &Notes,
    ) -> anyhow::Result<()> {
        for number in 0..count {
            let client = analysts::connect(&self.ap, &self.profile).await?;
            if self.profile.process_per_connection {
                let process = analysts::process(&client).await?;
                notes.serving.lock().unwrap_or_else(PoisonError::into_inner).insert(process);
            }
            let stream = Stream {
                client,
                number,
                streams: count,
                questions: questions.clone(),
                profile: self.profile.clone(),
                began: shared.began,
                lines: notes.queries.clone(),
                stop: notes.stop.clone(),
            };
            tasks.spawn(stream.run(shared.clone()));
        }
        Ok(())
    }

    async fn probes(
        &self,
        tasks: &mut JoinSet<anyhow::Result<()>>,
        shared: &Arc<Shared>,
        notes: &Notes,
    ) -> anyhow::Result<()> {
        let asking = self.ap.connect().await?;
        let (every, window) = (self.args.watch.freshness_every, self.args.watch.freshness_window);
        tasks.spawn(probes::freshness(
            asking,
            shared.clone(),
            every,
            window,
            notes.freshness.clone(),
            notes.stop.clone(),
        ));
        if self.args.watch.probes > 0 {
            tasks.spawn(probes::sync(
                self.ap.connect().await?,
                shared.clone(),
                self.args.watch.probes,
                self.args.timing.duration,
                self.args.watch.probe_timeout,
                notes.sync.clone(),
                notes.stop.clone(),
            ));
        }
        Ok(())
    }

    fn watched(&self, serving: &Arc<Mutex<BTreeSet<u32>>>) -> Vec<Watched> {
        let (tp, ap) = (local_port(&self.args.servers.tp), local_port(self.args.ap_url()));
        let mut out = vec![Watched::client()];
        let names = &self.profile.query_threads;
        let queries = match self.profile.process_per_connection {
            true => Some(Queries::Processes(serving.clone())),
            false => (!names.is_empty()).then(|| Queries::Threads(names.clone())),
        };
        let apart = |watched: Watched| match &queries {
            Some(queries) => watched.apart(queries.clone()),
            None => watched,
        };
        match (tp, ap) {
            (Some(tp), Some(ap)) if tp == ap => {
                out.extend(Watched::server("T and A server", tp).map(apart));
            }
            (tp, ap) => {
                out.extend(tp.and_then(|port| Watched::server("T server", port)));
                out.extend(ap.and_then(|port| Watched::server("A server", port)));
            }
        }
        out
    }

    /// What went over the connections of each side so far.
    fn network(&self) -> [NetworkFigures; 2] {
        let sides = [("T side: transactions", &self.tp), ("A side: queries and probes", &self.ap)];
        sides.map(|(class, server)| NetworkFigures {
            class: class.into(),
            sent_mb: server.traffic().sent_bytes() as f64 / 1e6,
            received_mb: server.traffic().received_bytes() as f64 / 1e6,
        })
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
        out.visibility.sync = figures::sync(&raw.sync);
        let delay = raw.queries.iter().filter_map(|line| line.visibility);
        out.visibility.visibility_delay_ms =
            Spread::of(delay.map(|f| f.staleness_ms + f.coordination_ms + f.wait_ms));
        out.visibility.version_records_max =
            raw.freshness.iter().map(|line| line.versions).max().unwrap_or(0);
        out.visibility.version_bytes_max =
            raw.freshness.iter().map(|line| line.version_bytes).max().unwrap_or(0);
        report::add_notes(out);
    }
}

fn take<T>(list: &Mutex<Vec<T>>) -> Vec<T> {
    std::mem::take(&mut list.lock().unwrap_or_else(PoisonError::into_inner))
}
