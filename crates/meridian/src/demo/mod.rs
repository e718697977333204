//! `meridian demo`: from one command to a living database.
//!
//! Three regions in this process, the CH-benCHmark schema through SQL, rows by COPY, TPC-C terminals and
//! an analyst in every region, all over the wire like any client, and a live view of what they see. Its
//! prompt stops a region and starts it again, and sets its clocks wrong.

mod analysts;
pub mod audit;
mod faults;
mod figures;
mod terminals;
mod view;

use crate::database::{Clocks, DataArgs, Database, DatabaseArgs};
use anyhow::{Context, anyhow, bail};
use audit::Ledger;
use base::RegionId;
use bench::load::{Job, Loading};
use faults::{Command, Deed, Fault, Planned};
use figures::{Figures, Report};
use std::collections::VecDeque;
use std::io::{BufRead, IsTerminal};
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use workload::table::Placement;
use workload::tpcc::Tpcc;

#[derive(clap::Args, Debug)]
pub struct DemoArgs {
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// TPC-C warehouses; regions take them in turn
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(i32).range(1..=1000))]
    pub warehouses: i32,
    /// Divide customers, orders and items by this: a smaller database is loaded sooner
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(i32).range(1..=300))]
    pub shrink: i32,
    /// Transactions offered per second and warehouse
    #[arg(long, default_value_t = 5.0)]
    pub rate: f64,
    /// Terminals (connections) per warehouse
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub terminals: u32,
    /// Pause between two queries of an analyst, in ms
    #[arg(long, default_value_t = 250)]
    pub think_ms: u64,
    /// How analytical queries read: rss, regular, session or stale
    #[arg(long, default_value = "rss", value_parser = ["rss", "regular", "session", "stale"])]
    pub consistency: String,
    /// End after this time, e.g. 30s (default: with Ctrl-C)
    #[arg(long, value_parser = bench::args::duration)]
    pub duration: Option<Duration>,
    /// Write the figures as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// One line a second instead of the live view
    #[arg(long)]
    pub plain: bool,
    /// A fault at a time after the load: stop a region and keep its memory (kill) or not (lose), start it again
    /// (heal), or set its clocks ahead by ms (skew, see --clock-bound), e.g. "10s kill eu" or "10s skew eu 50";
    /// may be given several times
    #[arg(long = "at", value_name = "TIME kill|lose|heal|skew REGION [MS]")]
    pub faults: Vec<Planned>,
    /// Seed of rows and inputs
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// Runs the demo to its end.
pub fn run(args: DemoArgs) -> anyhow::Result<()> {
    if args.rate <= 0.0 || !args.rate.is_finite() {
        bail!("--rate {} is no rate; give transactions per second, e.g. --rate 5", args.rate);
    }
    if args.database.clocks == Clocks::Unbounded && args.consistency == "rss" {
        bail!("--clocks unbounded: level rss rests on clocks; choose --consistency regular");
    }
    if let Some(path) = &args.json {
        // Found out now rather than after the run.
        std::fs::write(path, "").with_context(|| format!("cannot write {}", path.display()))?;
    }
    crate::run_async(demo(args))
}

async fn demo(args: DemoArgs) -> anyhow::Result<()> {
    let mut database = Database::start(&args.database, &DataArgs::default(), &Arc::default()).await?;
    for planned in &args.faults {
        let refused = |error| anyhow!("--at \"{}\": {error}", planned.fault);
        let region = planned.fault.find(database.topology()).map_err(refused)?;
        if planned.fault.deed == Deed::Lose {
            check_lose(&database, region).map_err(refused)?;
        }
    }
    let regions = database.regions.clone();
    println!(
        "Meridian: {} regions, WAN {}, engine {}",
        regions.len(),
        args.database.wan.name,
        args.database.engine
    );
    for region in &regions {
        println!("  {:<16} {}", region.name, region.psql());
    }
    let tpcc = load(&args, &database).await?;
    let figures = Arc::new(Figures::new(&args, database.topology().clone(), &regions));
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let mut tasks = tokio::task::JoinSet::new();
    let history_base = bench::load::now_us();
    let ledger = Arc::new(Ledger::default());
    let topology = database.topology().clone();
    for warehouse in 1..=tpcc.warehouses {
        for terminal in 0..args.terminals {
            let work = terminals::Terminal::new(
                &args,
                &tpcc,
                &topology,
                &regions,
                warehouse,
                terminal,
                history_base,
            );
            tasks.spawn(work.run(figures.clone(), ledger.clone(), stopped.clone()));
        }
    }
    for region in 0..regions.len() {
        let work = analysts::Analyst::new(&args, &tpcc, &regions, region);
        tasks.spawn(work.run(figures.clone(), stopped.clone()));
    }
    let started = Instant::now();
    let live = !args.plain && std::io::stdout().is_terminal();
    let mut planned = args.faults.clone();
    planned.sort_by_key(|p| p.after);
    let ended = Watch { args: &args, figures: &figures, started, planned: planned.into() }
        .run(&mut database, live)
        .await;
    figures.freeze(started.elapsed());
    // Terminals finish the transaction they are in; one that hangs is not waited for.
    _ = stop.send(true);
    let finish = async { while tasks.join_next().await.is_some() {} };
    _ = tokio::time::timeout(Duration::from_secs(3), finish).await;
    tasks.shutdown().await;
    let audited = match figures.has_faults() {
        true => audit(&ledger, history_base, &regions, &figures).await,
        false => Ok(()),
    };
    let report = figures.report();
    print!("{}", view::summary(&report));
    if let Some(path) = &args.json {
        write_json(&report, path)?;
    }
    // Whoever runs this from a script has to learn that nothing was shown, or that something is wrong.
    ended.and(audited)
}

/// Whether a region can lose its memory. Errors: why not, and what can be done instead.
fn check_lose(database: &Database, region: RegionId) -> Result<(), String> {
    database.check_lose(region).map_err(|why| {
        let name = database.topology().region_name(region);
        format!("{name} cannot lose its memory: {why} Use kill {name}, which stops its processes and keeps their memory.")
    })
}

async fn load(args: &DemoArgs, database: &Database) -> anyhow::Result<Tpcc> {
    let names = database.regions.iter().map(|r| r.name.clone()).collect();
    let placement = Placement::RoundRobin(names);
    let tpcc =
        Tpcc::new(args.warehouses).shrunk(args.shrink).loaded_at_us(bench::load::now_us()).seed(args.seed);
    let server = bench::server::Server::reach(&database.regions[0].url(), None).await?;
    let loading = Loading {
        placement: placement.clone(),
        loaders: 2,
        rows_per_copy: 10_000,
        drop: false,
        resume: false,
        show_progress: std::io::stderr().is_terminal(),
    };
    let load = bench::load::load(&server, Job::tpcc(&tpcc, &placement), &loading);
    tokio::select! {
        loaded = load => loaded.context("load the CH-benCHmark tables")?,
        signal = tokio::signal::ctrl_c() => {
            signal?;
            bail!("interrupted while loading");
        }
    };
    Ok(tpcc)
}

/// Asks a region that runs for what the terminals were told. Errors: it cannot be asked, or something that was
/// answered is missing, or something was never requested.
async fn audit(
    ledger: &Ledger,
    first: i64,
    regions: &[crate::database::Region],
    figures: &Figures,
) -> anyhow::Result<()> {
    let running = regions.iter().enumerate().find(|(r, _)| !figures.is_lost(*r));
    let audit = match running {
        None => Err(anyhow!("no region runs; heal one before the end")),
        Some((_, region)) => match tokio::time::timeout(AUDIT, ledger.audit(&region.url(), first)).await {
            Ok(audit) => audit,
            Err(_) => Err(anyhow!("no answer within {} s", AUDIT.as_secs())),
        },
    };
    let audit = audit.inspect_err(|error| figures.final_error(format!("audit: {error:#}")));
    let audit = audit.context("the audit could not be made")?;
    let (lost, invented) = (audit.lost, audit.invented);
    figures.audited(audit);
    match (lost, invented) {
        (0, 0) => Ok(()),
        _ => bail!("the audit failed: {lost} answered payments are lost, {invented} were never requested"),
    }
}

/// How long an audit may take: with engine perseus it waits for a lost region.
const AUDIT: Duration = Duration::from_secs(20);

/// Shows figures and does what is asked, until the end.
struct Watch<'a> {
    args: &'a DemoArgs,
    figures: &'a Figures,
    started: Instant,
    planned: VecDeque<Planned>,
}

impl Watch<'_> {
    /// Ends when time is up, the user wants it or a node fails.
    async fn run(mut self, database: &mut Database, live: bool) -> anyhow::Result<()> {
        let mut view = if live { Some(view::Live::open()?) } else { None };
        let lines = if live { None } else { Some(input_lines()) };
        let mut next_line = self.started + Duration::from_secs(1);
        loop {
            let report = self.figures.report_now(self.started.elapsed());
            let mut typed = None;
            if let Some(view) = &mut view {
                view.draw(&report, &database.regions)?;
                typed = view.typed()?;
            } else if Instant::now() >= next_line {
                println!("{}", view::line(&report));
                next_line += Duration::from_secs(1);
            }
            typed = typed.or_else(|| lines.as_ref().and_then(|lines| lines.try_recv().ok()));
            if self.args.duration.is_some_and(|d| self.started.elapsed() >= d) {
                return Ok(());
            }
            if let Some(fault) = self.planned_now() {
                self.fault(database, &fault).await?;
            }
            let told = match typed.map(|line| line.parse::<Command>()) {
                None => None,
                Some(Ok(Command::Quit)) => return Ok(()),
                Some(Ok(Command::Fault(fault))) => Some(self.fault(database, &fault).await?),
                Some(Err(wrong)) => Some(wrong),
            };
            let back = self.returned(database).await?;
            match (&mut view, told.or(back)) {
                (Some(view), Some(told)) => view.tell(told),
                (None, Some(told)) => println!("{told}"),
                _ => {}
            }
            database.log_refusals();
            if let Some(node) = database.stopped() {
                bail!("node {node} failed an invariant and stopped; the log says where");
            }
            tokio::select! {
                signal = tokio::signal::ctrl_c() => return signal.context("wait for Ctrl-C"),
                () = tokio::time::sleep(Duration::from_millis(100)) => {}
            }
        }
    }

    /// The next planned fault that is due.
    fn planned_now(&mut self) -> Option<Fault> {
        let is_due = self.planned.front().is_some_and(|p| p.after <= self.started.elapsed());
        if is_due { self.planned.pop_front().map(|p| p.fault) } else { None }
    }

    /// Does it, and says what was done, or why it was not.
    async fn fault(&self, database: &mut Database, fault: &Fault) -> anyhow::Result<String> {
        let region = match fault.find(database.topology()) {
            Ok(region) => region,
            Err(wrong) => return Ok(wrong),
        };
        let is_lost = self.figures.is_lost(usize::from(region.0));
        match fault.deed {
            Deed::Kill | Deed::Lose if is_lost => Ok(format!("{} does not run", fault.region)),
            Deed::Heal if !is_lost => Ok(format!("{} runs", fault.region)),
            Deed::Kill => {
                // Booked first: clients that lose their connection look whether that is why.
                self.figures.fault(fault, usize::from(region.0));
                database.kill(region).await;
                Ok(fault.done())
            }
            Deed::Skew(ns) => {
                self.figures.fault(fault, usize::from(region.0));
                database.skew(region, ns);
                Ok(match self.args.database.clock_bound.is_zero() {
                    true => format!("{}; without --clock-bound no node compares clocks", fault.done()),
                    false => fault.done(),
                })
            }
            Deed::Lose => {
                if let Err(why) = check_lose(database, region) {
                    return Ok(why);
                }
                self.figures.fault(fault, usize::from(region.0));
                database.lose(region).await;
                Ok(fault.done())
            }
            Deed::Heal => match database.heal(region).await? {
                true => {
                    self.figures.fault(fault, usize::from(region.0));
                    Ok(format!("{} runs again", fault.region))
                }
                false => Ok(format!(
                    "{} runs again and is recovering: it copies another region's state",
                    fault.region
                )),
            },
        }
    }

    /// Regions that have recovered since the last call.
    async fn returned(&self, database: &mut Database) -> anyhow::Result<Option<String>> {
        let mut told = None;
        for (region, took, bytes) in database.returned().await? {
            let name = database.topology().region_name(region).to_string();
            let (ms, mib) = (took.as_millis(), bytes as f64 / f64::from(1 << 20));
            told = Some(format!("{name} has recovered: a copy of {mib:.1} MiB, {ms} ms"));
            self.figures.fault(&Fault { deed: Deed::Heal, region: name }, usize::from(region.0));
        }
        Ok(told)
    }
}

/// Lines of standard input, as they come.
fn input_lines() -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel();
    // Ends with the input or with the process: nothing else can end a blocked read.
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

fn write_json(report: &Report, path: &PathBuf) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(report)?;
    std::fs::write(path, text + "\n").with_context(|| format!("cannot write {}", path.display()))?;
    println!("figures written to {}", path.display());
    Ok(())
}
