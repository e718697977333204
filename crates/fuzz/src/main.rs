//! The command.

use clap::{Parser, Subcommand};
use fuzz::drive;
use fuzz::targets::Target;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  fuzz                                   every target for ten seconds
  fuzz --seconds 3600 --seed 7           other inputs, an hour for each target
  fuzz --targets messages,directory      two targets
  fuzz show messages 1 42 > input        the 42nd input of seed 1
  fuzz replay messages input             handle one input again, here, so that a debugger sees it

Exit code 1: there were findings.";

/// Feeds parts of Meridian that read foreign bytes with generated and damaged inputs
#[derive(Parser)]
#[command(name = "fuzz", version, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Work>,
    /// Which targets; without it all of them
    #[arg(long, value_enum, value_delimiter = ',', value_name = "NAME,…")]
    targets: Vec<Target>,
    /// Seconds for each target
    #[arg(long, default_value_t = 10.0, value_name = "S")]
    seconds: f64,
    /// Which inputs: the same seed makes the same ones
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Subcommand)]
enum Work {
    /// Write an input to the standard output
    Show { target: Target, seed: u64, number: u64 },
    /// Handle an input that was written to a file
    Replay { target: Target, file: PathBuf },
    /// What a process does that this program starts
    #[command(hide = true)]
    Handle {
        #[arg(long)]
        target: Target,
        #[arg(long)]
        file: PathBuf,
        #[arg(long)]
        seed: u64,
        #[arg(long)]
        first: u64,
        #[arg(long)]
        milliseconds: u64,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // Nodes have such stacks.
    let thread = std::thread::Builder::new().stack_size(runtime::STACK_BYTES);
    let work = thread.spawn(|| work(arguments)).expect("a thread can be started");
    match work.join() {
        Ok(Ok(true)) => ExitCode::SUCCESS,
        Ok(Ok(false)) => ExitCode::FAILURE,
        Ok(Err(error)) => {
            eprintln!("fuzz: {error:#}");
            ExitCode::from(2)
        }
        Err(_) => ExitCode::from(2),
    }
}

/// True without findings.
fn work(arguments: Arguments) -> anyhow::Result<bool> {
    match arguments.command {
        None => all(&arguments),
        Some(Work::Show { target, seed, number }) => {
            std::io::stdout().write_all(&target.input(seed, number))?;
            Ok(true)
        }
        Some(Work::Replay { target, file }) => match drive::outcome(target, &std::fs::read(file)?) {
            Ok(()) => Ok(true),
            Err(what) => {
                println!("{what}");
                Ok(false)
            }
        },
        Some(Work::Handle { target, file, seed, first, milliseconds }) => {
            drive::handle(target, seed, first, Duration::from_millis(milliseconds), &file)?;
            Ok(true)
        }
    }
}

fn all(arguments: &Arguments) -> anyhow::Result<bool> {
    let duration = Duration::try_from_secs_f64(arguments.seconds)?;
    let targets = if arguments.targets.is_empty() { &Target::ALL[..] } else { &arguments.targets };
    let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}")?;
    let mut is_good = true;
    for target in targets {
        let bar = ProgressBar::new_spinner().with_style(style.clone());
        let told = |inputs: u64| bar.set_message(format!("{}: {inputs} inputs", target.name()));
        let fed = drive::feed(*target, arguments.seed, duration, &told)?;
        bar.finish_and_clear();
        println!("{:<12} {:>10} inputs {:>4} findings", target.name(), fed.inputs, fed.findings.len());
        for finding in &fed.findings {
            println!("  {}", finding.what);
            println!("    fuzz show {} {} {} > input", target.name(), arguments.seed, finding.number);
        }
        is_good &= fed.findings.is_empty();
    }
    Ok(is_good)
}
