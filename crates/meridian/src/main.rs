//! The `meridian` command.

mod cert;
mod cluster;
mod config;
mod connection_threads;
mod database;
mod demo;
mod directory;
mod drill;
mod epochs;
mod freed_memory;
mod front_end;
mod member;
mod memory;
mod old_versions;
mod query_threads;
mod refusals;
mod replicas;
mod security;
mod sequence_counts;
mod sim;
mod start;
mod unread_output;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::io::IsTerminal;
use std::process::ExitCode;

/// A fifth of a small write's time was spent in the system's allocator, much of it in giving freed rows
/// back and asking for them again.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A geo-distributed HTAP database that speaks PostgreSQL's protocol.
#[derive(Parser)]
#[command(version, arg_required_else_help = true, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  meridian demo                                    three regions, a load, analytics, a live view
  meridian demo --duration 30s --json demo.json    the same, scripted
  meridian start --port 26257                      an empty three-region database
  meridian start --wan local --regions us --data d one region, its data kept in directory d
  meridian start --config meridian.toml            flags from a file: port = 26257
  meridian cluster init c                          files of three processes, one a region, on this machine
  meridian start --config c/us.toml                one of them
  meridian replica add r1 --config c/us.toml       c/r1.toml, a read-only replica beside it
  psql -h 127.0.0.1 -p 26257 -U root meridian      talk to its first region
  meridian bench tpcc --load --url postgres://root@127.0.0.1:26257/meridian
  meridian bench vodka --tp postgres://root@127.0.0.1:26257/meridian --shrink 10 --tps 100";

#[derive(Subcommand)]
enum Command {
    /// Start three regions in one process, with an emulated WAN, a TPC-C load and analytical queries
    Demo(demo::DemoArgs),
    /// Start a database: one node per region in one process, data in memory or in a directory; or one node of a
    /// cluster of processes
    Start(start::StartArgs),
    /// Make the files of a cluster of processes, or ask its nodes how they are
    #[command(subcommand)]
    Cluster(cluster::ClusterCommand),
    /// Read-only replicas in processes of their own: make one's configuration, ask how they are, end one
    #[command(subcommand)]
    Replica(cluster::replica_commands::ReplicaCommand),
    /// Make certificates by which nodes trust each other
    #[command(subcommand)]
    Cert(cert::CertCommand),
    /// Kill and restart the processes of a scratch cluster under load; exit code 1 if an answered transfer is lost
    Drill(drill::DrillArgs),
    /// Back up a running cluster, verify a backup, restore one into an empty cluster
    #[command(subcommand)]
    Backup(backup::Command),
    /// Measure a server: TPC-C, CH-benCHmark, Vodka, YCSB, point reads and writes
    #[command(subcommand)]
    Bench(BenchCommand),
    /// The simulator: repeat a seed, run seeds for hours, run an experiment
    #[command(subcommand)]
    Sim(sim::SimCommand),
}

#[derive(Subcommand)]
enum BenchCommand {
    #[command(flatten)]
    Load(bench::Command),
    /// Vodka: transactions and queries side by side; how fresh answers are, and how soon writes are visible
    Vodka(Box<vodka::VodkaArgs>),
    /// Set two runs of Vodka side by side, their queries at equal size
    Compare(vodka::CompareArgs),
}

fn main() -> ExitCode {
    // A log is replayed on this thread too, statements and all: it needs the stack that every other one has.
    let command =
        std::thread::Builder::new().name("main".into()).stack_size(runtime::STACK_BYTES).spawn(run_command);
    match command.map(|thread| thread.join()) {
        Ok(Ok(code)) => code,
        // The panic has been reported.
        Ok(Err(_)) => ExitCode::from(101),
        Err(error) => {
            eprintln!("meridian: cannot start a thread: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run_command() -> ExitCode {
    let given: Vec<_> = std::env::args_os().collect();
    let arguments = match config::parse(Arguments::command(), &given) {
        Ok(matches) => Arguments::from_arg_matches(&matches).unwrap_or_else(|e| e.exit()),
        Err(error) => {
            eprintln!("meridian: {error:#}");
            return ExitCode::from(2);
        }
    };
    tracing_subscriber::fmt()
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_env("MERIDIAN_LOG").unwrap_or_else(|_| "warn".into()),
        )
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none())
        .init();
    sql::panics::install();
    // Before any other thread is started: they take it over.
    runtime::threads::run_in_slices(runtime::threads::SLICE);
    if !matches!(arguments.command, Command::Start(_)) {
        unread_output::end_quietly();
    }
    let _giving_back = match freed_memory::GivingBack::start() {
        Ok(giving_back) => giving_back,
        Err(error) => {
            eprintln!("meridian: cannot start a thread: {error}");
            return ExitCode::FAILURE;
        }
    };
    let result = match arguments.command {
        Command::Demo(args) => demo::run(args),
        Command::Start(args) => start::run(args),
        Command::Cluster(command) => cluster::run(command),
        Command::Replica(command) => cluster::replica_commands::run(command),
        Command::Cert(command) => cert::run(command),
        Command::Drill(args) => drill::run(args),
        Command::Backup(command) => run_async(backup::run(command)),
        Command::Bench(BenchCommand::Load(command)) => run_async(bench::run(command)),
        Command::Bench(BenchCommand::Vodka(args)) => run_async(vodka::run(*args)),
        Command::Bench(BenchCommand::Compare(args)) => vodka::compare(&args),
        Command::Sim(command) => sim::run(command),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("meridian: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run_async<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_multi_thread()
        .thread_stack_size(runtime::STACK_BYTES)
        .enable_all()
        .build()?
        .block_on(work)
}
