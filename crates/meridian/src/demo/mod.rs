//! `meridian demo`: from one command to a living database.
//!
//! Three regions in this process, the CH-benCHmark schema through SQL, rows by COPY, TPC-C terminals and
//! an analyst in every region, all over the wire like any client, and a live view of what they see.

mod analysts;
mod figures;
mod terminals;
mod view;

use crate::database::{DataArgs, Database, DatabaseArgs};
use anyhow::{Context, bail};
use bench::load::{Job, Loading};
use figures::{Figures, Report};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
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
    /// Seed of rows and inputs
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// Runs the demo to its end.
pub fn run(args: DemoArgs) -> anyhow::Result<()> {
    if args.rate <= 0.0 || !args.rate.is_finite() {
        bail!("--rate {} is no rate; give transactions per second, e.g. --rate 5", args.rate);
    }
    if let Some(path) = &args.json {
        // Found out now rather than after the run.
        std::fs::write(path, "").with_context(|| format!("cannot write {}", path.display()))?;
    }
    crate::run_async(demo(args))
}

async fn demo(args: DemoArgs) -> anyhow::Result<()> {
    let database = Database::start(&args.database, &DataArgs::default()).await?;
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
    for warehouse in 1..=tpcc.warehouses {
        for terminal in 0..args.terminals {
            let work = terminals::Terminal::new(&args, &tpcc, &regions, warehouse, terminal, history_base);
            tasks.spawn(work.run(figures.clone(), stopped.clone()));
        }
    }
    for region in 0..regions.len() {
        let work = analysts::Analyst::new(&args, &tpcc, &regions, region);
        tasks.spawn(work.run(figures.clone(), stopped.clone()));
    }
    let started = Instant::now();
    let live = !args.plain && std::io::stdout().is_terminal();
    let ended = watch(&args, &database, &figures, started, live).await;
    figures.freeze(started.elapsed());
    // Terminals finish the transaction they are in; one that hangs is not waited for.
    _ = stop.send(true);
    let finish = async { while tasks.join_next().await.is_some() {} };
    _ = tokio::time::timeout(Duration::from_secs(3), finish).await;
    let report = figures.report();
    print!("{}", view::summary(&report));
    if let Some(path) = &args.json {
        write_json(&report, path)?;
    }
    ended
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

/// Shows figures until time is up, Ctrl-C is pressed or a node fails.
async fn watch(
    args: &DemoArgs,
    database: &Database,
    figures: &Arc<Figures>,
    started: Instant,
    live: bool,
) -> anyhow::Result<()> {
    let mut view = if live { Some(view::Live::open()?) } else { None };
    let mut next_line = started + Duration::from_secs(1);
    loop {
        let report = figures.report_now(started.elapsed());
        let mut quit = false;
        if let Some(view) = &mut view {
            view.draw(&report, &database.regions)?;
            quit = view.wants_to_quit()?;
        } else if Instant::now() >= next_line {
            println!("{}", view::line(&report));
            next_line += Duration::from_secs(1);
        }
        if quit || args.duration.is_some_and(|d| started.elapsed() >= d) {
            return Ok(());
        }
        if let Some(node) = database.stopped() {
            bail!("node {node} failed an invariant and stopped; the log says where");
        }
        tokio::select! {
            signal = tokio::signal::ctrl_c() => return signal.context("wait for Ctrl-C"),
            () = tokio::time::sleep(Duration::from_millis(100)) => {}
        }
    }
}

fn write_json(report: &Report, path: &PathBuf) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(report)?;
    std::fs::write(path, text + "\n").with_context(|| format!("cannot write {}", path.display()))?;
    println!("figures written to {}", path.display());
    Ok(())
}
