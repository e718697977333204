//! `meridian drill`: a scratch cluster of real processes under load, in which one process after the other meets a fault.
//!
//! Clients transfer money between accounts of all regions, each transfer with a number of its own. One process at a time
//! meets a [`Fault`], which lasts for a while and is then repaired; the process is let catch up. At the end every
//! node is asked for all transfers and balances: RPO is what was answered and is not there (`lost`) and what is there
//! and was never asked for (`invented`); RTO is how long clients waited for the first transfer that they began after the
//! fault.

mod audit;
mod load;
mod processes;
mod report;
mod ways;

use crate::cluster::init::survivable;
use anyhow::{Context, bail};
use load::Load;
use processes::Processes;
use report::{Cycle, Report};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use txn::any::EngineKind;

#[derive(clap::Args, Debug)]
pub struct DrillArgs {
    /// Processes, one node and one region each
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(3..=9))]
    pub processes: u16,
    /// How long to go on with faults, e.g. 60s or 10min; once in any case
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = crate::database::short_time)]
    pub duration: Duration,
    /// End after so many faults, however long they take
    #[arg(long, value_name = "N", conflicts_with = "duration")]
    pub cycles: Option<usize>,
    /// Who orders transactions
    #[arg(long, value_name = "NAME", default_value = EngineKind::default().name(), value_parser = EngineKind::ALL.map(EngineKind::name))]
    pub engine: String,
    /// Regions that may be lost without losing an answered transaction [default: 1, or 0 where the engine cannot].
    /// With 0, clients are waited for once a fault is over
    #[arg(long, value_name = "K")]
    pub survive: Option<u8>,
    /// How long a fault lasts
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = crate::database::short_time)]
    pub down: Duration,
    /// Clients of each kind and region: one kind transfers within its region, the other to other regions
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub clients: u16,
    /// Round trips between regions, as nodes are told
    #[arg(long, value_name = "TIME | A/B=TIME,…", default_value = "1ms")]
    pub distances: String,
    /// Faults, one after the other, before the next process has its turn
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        value_name = "FAULT,…",
        default_value = "kill,pause,cut,silence,drain"
    )]
    pub faults: Vec<Fault>,
    /// A rolling restart: processes are drained and started again, and meet no fault. The same as --faults drain --down 1ms
    #[arg(long, conflicts_with_all = ["faults", "down"])]
    pub rolling: bool,
    /// Decides transfers and pauses
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Write the result to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Make the cluster in this directory and leave it there
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
}

/// What happens to a process.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// It is killed (SIGKILL) and later started again
    Kill,
    /// It is stopped (SIGSTOP), as on a machine that is much too slow, and later goes on
    Pause,
    /// Its connections with the other processes are closed, and none can be opened
    Cut,
    /// Its connections with the other processes stay open, and nothing arrives any more
    Silence,
    /// It is told to end (SIGTERM): it hands over what it leads; later it is started again
    Drain,
}

impl Fault {
    pub fn name(self) -> &'static str {
        match self {
            Fault::Kill => "kill",
            Fault::Pause => "pause",
            Fault::Cut => "cut",
            Fault::Silence => "silence",
            Fault::Drain => "drain",
        }
    }
}

/// Clients that have not committed for so long after a fault count as never.
const RECOVERY_MAX: Duration = Duration::from_secs(60);
/// Clients elsewhere that have not reached the victim's region for so long after its return count as never.
const REACH_MAX: Duration = Duration::from_secs(5);
/// Between a process's return and the next fault.
const SETTLE: Duration = Duration::from_millis(500);
/// How often a node is asked anew for what it has, so long apart.
const AUDIT_WAITS: u32 = 20;

pub fn run(mut args: DrillArgs) -> anyhow::Result<()> {
    if args.rolling {
        (args.faults, args.down) = (vec![Fault::Drain], Duration::from_millis(1));
    }
    let survive = survivable(&args.engine, args.survive)?;
    args.survive = Some(survive);
    let needed = 2 * usize::from(survive) + 1;
    if usize::from(args.processes) < needed {
        bail!(
            "--survive {survive} needs {needed} processes to go on without {survive}; give more --processes"
        );
    }
    if let Some(path) = &args.json {
        // Found out now rather than after the run.
        std::fs::write(path, "").with_context(|| format!("cannot write {}", path.display()))?;
    }
    let json = args.json.clone();
    let report = crate::run_async(drill(args))?;
    let text = serde_json::to_string(&report)?;
    if let Some(path) = json {
        std::fs::write(&path, &text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    println!("{text}");
    match report.verdict() {
        None => Ok(()),
        Some(why) => bail!(why),
    }
}

async fn drill(args: DrillArgs) -> anyhow::Result<Report> {
    let mut processes = Processes::make(&args).await?;
    processes.start_all().await?;
    let names: Vec<String> = processes.names().map(str::to_string).collect();
    println!("{} processes in {}: {}", names.len(), processes.directory().display(), names.join(", "));
    let nodes = processes.urls();
    load::prepare(&nodes[0], &names).await?;
    let mut load = Load::start(&args, &names, &nodes);
    let begin = Instant::now();
    let mut cycles = Vec::new();
    // Everybody has committed once before anything happens.
    load.wait_recovered(begin, RECOVERY_MAX).await.context("before the first fault")?;
    let is_over = |cycles: usize| match args.cycles {
        Some(wanted) => cycles >= wanted,
        None => cycles > 0 && begin.elapsed() >= args.duration,
    };
    let waits_for_repair = args.rolling || args.survive == Some(0);
    while !is_over(cycles.len()) {
        let fault = args.faults[cycles.len() % args.faults.len()];
        let victim = (cycles.len() / args.faults.len()) % names.len();
        let began_at = Instant::now();
        processes.begin(fault, victim).await?;
        // Nobody is waited for during a fault that clients cannot get over, or that is over at once.
        let recovered = match waits_for_repair {
            true => Ok(()),
            false => load.wait_recovered(began_at, RECOVERY_MAX).await,
        };
        tokio::time::sleep(args.down.saturating_sub(began_at.elapsed())).await;
        let repaired_at = Instant::now();
        processes.repair(fault, victim)?;
        processes.wait_ready(victim).await?;
        let restart = repaired_at.elapsed();
        let recovered =
            if waits_for_repair { load.wait_recovered(began_at, RECOVERY_MAX).await } else { recovered };
        load.wait_reached(victim, began_at, REACH_MAX).await;
        let waits = load.waits(victim, began_at);
        let cycle = Cycle::new(fault, &names[victim], waits, restart, recovered.is_ok());
        println!("{:>6.1} s  {cycle}", begin.elapsed().as_secs_f64());
        cycles.push(cycle);
        tokio::time::sleep(SETTLE).await;
        processes.check_alive()?;
    }
    let ledger = load.stop().await;
    let mut found = Vec::new();
    for (name, url) in names.iter().zip(&nodes) {
        found.push(audited(&ledger, name, url, &names).await?);
    }
    processes.stop_all();
    Ok(Report::new(&args, &cycles, &found))
}

/// Asks a node for everything, once it has heard of the others again: what was cut from them last connects with pauses of
/// up to a second.
async fn audited(
    ledger: &crate::demo::audit::Ledger,
    node: &str,
    url: &str,
    names: &[String],
) -> anyhow::Result<audit::Found> {
    let mut waits = AUDIT_WAITS;
    loop {
        match audit::ask(ledger, node, url, names).await {
            Err(_) if waits > 0 => waits -= 1,
            told => return told,
        }
        tokio::time::sleep(SETTLE).await;
    }
}
