//! `meridian sim`: seeds, soaks and experiments of the simulator; here only flags, clock and files.

mod experiment;

use ::sim::campaign::{Campaign, Run};
use ::sim::command::{RunOptions, SoakOptions};
use anyhow::anyhow;
use base::cut::Consistency;
use clap::{Args, Subcommand};
use experiments::Scale;
use std::path::PathBuf;
use std::time::Instant;
use txn::any::EngineKind;

#[derive(Subcommand, Debug)]
#[command(after_help = "\
Examples:
  meridian sim run --seed 8831 --plan wan3-lossy    repeat one seed, event by event the same
  meridian sim soak --seconds 600                   seeds, plans and levels in turn until one fails
  meridian sim campaign --state all.json --seconds 28800
                                                    all engines in turn; continued by the next call
  meridian sim experiment perseus3-latency          figures in virtual time")]
pub enum SimCommand {
    /// Run one seed and check what its clients saw
    Run(RunArgs),
    /// Run seeds of one engine for a given time, until one fails
    Soak(SoakArgs),
    /// Run every engine under every plan, seed after seed; can be interrupted and continued
    Campaign(CampaignArgs),
    /// Run an experiment and print its figures
    Experiment(ExperimentArgs),
}

#[derive(Args, Debug)]
pub struct RunArgs {
    /// Decides everything that happens in the run
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Distances and faults, such as wan3-lossy or azure6-mixed
    #[arg(long, default_value = "wan3-lossy")]
    plan: String,
    /// Engine that orders transactions, or a baseline of it
    #[arg(long, default_value = EngineKind::default().name(), value_parser = ::sim::command::ENGINES)]
    engine: String,
    /// How queries read; the run is checked against what that level promises
    #[arg(long, default_value = "rss", value_parser = level)]
    level: Consistency,
    /// After a failure, print this many of the last events
    #[arg(long, default_value_t = 0)]
    trace: usize,
    /// Run it twice and compare every event
    #[arg(long)]
    twice: bool,
}

#[derive(Args, Debug)]
pub struct SoakArgs {
    /// Stop after this time
    #[arg(long, default_value_t = 60.0)]
    seconds: f64,
    /// Begin with this seed and count up
    #[arg(long, default_value_t = 1)]
    first_seed: u64,
    /// Only these plans (default: all)
    #[arg(long, value_delimiter = ',')]
    plans: Vec<String>,
    /// Engine that orders transactions, or a baseline of it
    #[arg(long, default_value = EngineKind::default().name(), value_parser = ::sim::command::ENGINES)]
    engine: String,
    /// Only these levels (default: all)
    #[arg(long, value_delimiter = ',', value_parser = level)]
    levels: Vec<Consistency>,
}

#[derive(Args, Debug)]
pub struct CampaignArgs {
    /// Stop after this time
    #[arg(long, default_value_t = 60.0)]
    seconds: f64,
    /// The campaign's tally; a campaign whose file exists is continued
    #[arg(long, value_name = "FILE", required_unless_present = "seed")]
    state: Option<PathBuf>,
    /// Run this seed of a campaign alone
    #[arg(long)]
    seed: Option<u64>,
}

#[derive(Args, Debug)]
pub struct ExperimentArgs {
    /// The experiment; without a name, all of them are listed
    name: Option<String>,
    /// small, or paper: the sizes of the paper's evaluation
    #[arg(long, default_value = "small", value_parser = scale)]
    scale: Scale,
    /// Seed of rows, inputs and delays
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Parts that run at a time (default: one per core); the figures do not depend on it
    #[arg(long)]
    threads: Option<usize>,
    /// Write JSON, CSV, text and an HTML page into this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn level(name: &str) -> Result<Consistency, String> {
    Consistency::parse(name).ok_or_else(|| {
        format!("no such level; there are {}", Consistency::ALL.map(Consistency::name).join(", "))
    })
}

fn scale(name: &str) -> Result<Scale, String> {
    Scale::parse(name).ok_or_else(|| "no such scale; there are small and paper".into())
}

pub fn run(command: SimCommand) -> anyhow::Result<()> {
    match command {
        SimCommand::Run(args) => {
            let options = RunOptions {
                seed: args.seed,
                plan: args.plan,
                engine: args.engine,
                consistency: args.level,
                trace_lines: args.trace,
                twice: args.twice,
            };
            print!("{}", ::sim::command::run(&options).map_err(failed)?);
        }
        SimCommand::Soak(args) => {
            let options = SoakOptions {
                seconds: args.seconds,
                first_seed: args.first_seed,
                plans: args.plans,
                engine: args.engine,
                levels: args.levels,
            };
            let start = Instant::now();
            let mut elapsed_s = || start.elapsed().as_secs_f64();
            let mut tell = |progress: &str| eprintln!("{progress}");
            print!("{}", ::sim::command::soak(&options, &mut elapsed_s, &mut tell).map_err(failed)?);
        }
        SimCommand::Campaign(args) => campaign(&args)?,
        SimCommand::Experiment(args) => experiment(args)?,
    }
    Ok(())
}

fn campaign(args: &CampaignArgs) -> anyhow::Result<()> {
    if let Some(seed) = args.seed {
        let run = Run::of(seed);
        println!("{run:?}: {} operations, as promised", run.run(seed).map_err(failed)?);
        return Ok(());
    }
    let state = args.state.as_ref().expect("required without a seed");
    let mut campaign = match std::fs::read_to_string(state) {
        Ok(text) => Campaign::from_json(&text).map_err(failed)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Campaign::default(),
        Err(error) => return Err(error.into()),
    };
    let start = Instant::now();
    let mut unwritten = None;
    let mut keep = |campaign: &Campaign| {
        unwritten = std::fs::write(state, campaign.to_json()).err();
        eprintln!("{} seeds, {} failed", campaign.seeds(), campaign.failures.len());
    };
    campaign.go_on(args.seconds, &mut || start.elapsed().as_secs_f64(), &mut keep).map_err(failed)?;
    if let Some(error) = unwritten {
        return Err(error.into());
    }
    print!("{}", campaign.report());
    match campaign.is_good() {
        true => Ok(()),
        false => Err(anyhow!("a seed failed, or something of the recorded list was never reached")),
    }
}

fn experiment(args: ExperimentArgs) -> anyhow::Result<()> {
    let Some(name) = args.name else {
        for experiment in experiments::ALL {
            println!("{:<20} {}", experiment.name, experiment.question);
        }
        return Ok(());
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    experiment::run(&name, args.scale, args.seed, args.threads.unwrap_or(cores), args.out.as_deref())
}

/// The failure's own text, so that its first line can be pasted.
fn failed(trouble: ::sim::command::Trouble) -> anyhow::Error {
    anyhow!("{trouble}")
}
