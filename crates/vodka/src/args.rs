//! The flags of `meridian bench vodka` and `meridian bench compare`.

use bench::args::{QueryList, duration};
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// What to run, where, for how long.
#[derive(Args, Clone, Debug)]
pub struct VodkaArgs {
    #[command(flatten)]
    pub servers: Servers,
    #[command(flatten)]
    pub data: Data,
    #[command(flatten)]
    pub load: LoadArgs,
    #[command(flatten)]
    pub timing: Timing,
    #[command(flatten)]
    pub watch: Watch,
    /// Load anew and run this often, and report the median, the least and the most of each figure
    #[arg(long, requires = "drop", conflicts_with = "load_only", value_name = "TIMES",
        value_parser = clap::value_parser!(u32).range(2..=100))]
    pub repeat: Option<u32>,
    /// Folder for the page, the CSVs and run.json
    #[arg(long, default_value = "vodka-report", value_name = "DIR")]
    pub out: PathBuf,
    /// Write the summary as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Which servers.
#[derive(Args, Clone, Debug)]
pub struct Servers {
    /// The server that takes transactions: postgres://user@host:port/database
    #[arg(long, env = "MERIDIAN_URL", value_name = "URL")]
    pub tp: String,
    /// The server that takes queries, a replica of the first (default: the same)
    #[arg(long, value_name = "URL")]
    pub ap: Option<String>,
    /// What is special about the A side's system: a TOML file (default: by what the server says it is)
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
}

/// Which data, and how it gets there.
#[derive(Args, Clone, Debug)]
pub struct Data {
    /// Warehouses: about 300,000 order lines each
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(i32).range(1..=100_000))]
    pub warehouses: i32,
    /// Divide customers, orders and items by this, for trials
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(i32).range(1..=300))]
    pub shrink: i32,
    /// Seed of rows and inputs
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Connections that load side by side
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub loaders: u32,
    /// Regions of a Meridian cluster; warehouses go to them in turn
    #[arg(long, value_delimiter = ',', value_name = "R1,R2,…")]
    pub regions: Vec<String>,
    /// Drop the benchmark's tables and load anew
    #[arg(long)]
    pub drop: bool,
    /// Load, check if asked to, and stop
    #[arg(long)]
    pub load_only: bool,
    /// Run the consistency conditions before and after
    #[arg(long)]
    pub check: bool,
}

/// What is asked of the servers.
#[derive(Args, Clone, Debug)]
pub struct LoadArgs {
    /// Transactions offered per second by all terminals together (default: as many as there can be)
    #[arg(long, value_parser = positive)]
    pub tps: Option<f64>,
    /// Terminals, one connection each; terminal n belongs to warehouse n
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub tp_threads: u32,
    /// Streams of queries, one connection each
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub ap_threads: u32,
    /// Which queries, e.g. 1,6,10-15
    #[arg(long, default_value = "1-22", value_parser = queries)]
    pub queries: QueryList,
    /// Percentage of order lines supplied by another warehouse
    #[arg(long, default_value_t = 1.0, value_parser = percentage)]
    pub remote_percent: f64,
    /// Delivery leaves customers' balances alone, so that their distribution stays
    #[arg(long)]
    pub steady_balances: bool,
    /// Negative control: every query keeps its first parameter
    #[arg(long)]
    pub fixed_parameters: bool,
    /// Rows that a sample of dates holds at most
    #[arg(long, default_value_t = 4_000_000, value_parser = clap::value_parser!(u32).range(100..))]
    pub sample: u32,
}

/// For how long.
#[derive(Args, Clone, Debug)]
pub struct Timing {
    /// How long to measure, e.g. 30s, 2m
    #[arg(long, default_value = "60s", value_parser = duration)]
    pub duration: Duration,
    /// How long to run before measuring
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub warmup: Duration,
    /// Also measure the throughput with and without the tool's own tracking, this long each, in turns
    #[arg(long, default_value = "0s", value_parser = duration)]
    pub overhead: Duration,
    /// Afterwards, also measure every number of terminals beside every number of streams in a closed loop: each pair this
    /// long, after --warmup
    #[arg(long, value_parser = duration)]
    pub frontier: Option<Duration>,
    /// With --frontier: numbers of streams; 0 is always among them
    #[arg(long, value_delimiter = ',', default_value = "0,1,2,4,8", value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub frontier_threads: Vec<u32>,
    /// With --frontier: numbers of terminals; 0 is always among them
    #[arg(long, value_delimiter = ',', default_value = "0,1,2,4", value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub frontier_tp: Vec<u32>,
    /// Afterwards, also look for the most streams of queries at which --tps holds: each number this long, after --warmup
    #[arg(long, value_parser = duration, requires = "tps")]
    pub most_streams: Option<Duration>,
    /// With --most-streams: more than these are not tried
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub most_streams_limit: u32,
    /// When to read the plans during the run, beside its begin and its end; instants after the end are left out
    #[arg(long, value_delimiter = ',', default_value = "5m,10m,15m", value_parser = duration)]
    pub cardinality_at: Vec<Duration>,
}

/// What is watched beside it.
#[derive(Args, Clone, Debug)]
pub struct Watch {
    /// How often to ask how fresh the A side is
    #[arg(long, default_value = "500ms", value_parser = duration)]
    pub freshness_every: Duration,
    /// How far back the freshness query looks
    #[arg(long, default_value = "5s", value_parser = duration)]
    pub freshness_window: Duration,
    /// Transactions do not count their terminal's number up, and HATtrick's freshness is not measured by it
    #[arg(long)]
    pub no_freshness_table: bool,
    /// At how many instants to measure how long a write takes to be visible
    #[arg(long, default_value_t = 10)]
    pub probes: u32,
    /// How long a probe waits for a write before it gives up
    #[arg(long, default_value = "30s", value_parser = duration)]
    pub probe_timeout: Duration,
}

impl VodkaArgs {
    pub fn ap_url(&self) -> &str {
        self.servers.ap.as_deref().unwrap_or(&self.servers.tp)
    }
    /// The most terminals and the most streams that any part of the run needs at once.
    pub fn threads_max(&self) -> (u32, u32) {
        let (mut terminals, mut streams) = (self.load.tp_threads, self.load.ap_threads);
        if self.timing.frontier.is_some() {
            terminals = self.timing.frontier_tp.iter().copied().fold(terminals, u32::max);
            streams = self.timing.frontier_threads.iter().copied().fold(streams, u32::max);
        }
        if self.timing.most_streams.is_some() {
            streams = streams.max(self.timing.most_streams_limit);
        }
        (terminals, streams)
    }
    /// The instants at which plans are read during the run, in order.
    pub fn plan_instants(&self) -> Vec<Duration> {
        let within = self.timing.cardinality_at.iter().copied().filter(|at| *at < self.timing.duration);
        within.collect::<std::collections::BTreeSet<_>>().into_iter().collect()
    }
}

/// Two runs to set side by side.
#[derive(Args, Clone, Debug)]
pub struct CompareArgs {
    /// Folder of the first run
    pub a: PathBuf,
    /// Folder of the second run
    pub b: PathBuf,
    /// The page to write
    #[arg(long, default_value = "vodka-compare.html", value_name = "FILE")]
    pub html: PathBuf,
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number.is_finite() => Ok(number),
        _ => Err("must be a number above 0".into()),
    }
}

fn percentage(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if (0.0..=100.0).contains(&number) => Ok(number),
        _ => Err("must be a number from 0 to 100".into()),
    }
}

fn queries(text: &str) -> Result<QueryList, String> {
    bench::args::queries(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::FromArgMatches;

    fn parsed(given: &[&str]) -> Result<VodkaArgs, String> {
        let command = VodkaArgs::augment_args(clap::Command::new("vodka").no_binary_name(true));
        let given = [&["--tp", "postgres://root@127.0.0.1:1/db"][..], given].concat();
        let matches = command.try_get_matches_from(given).map_err(|error| error.to_string())?;
        VodkaArgs::from_arg_matches(&matches).map_err(|error| error.to_string())
    }

    #[test]
    fn what_needs_another_flag_says_so() {
        assert!(parsed(&["--repeat", "3"]).unwrap_err().contains("--drop"));
        assert_eq!(parsed(&["--repeat", "3", "--drop"]).unwrap().repeat, Some(3));
        assert!(parsed(&["--repeat", "3", "--drop", "--load-only"]).is_err());
        assert!(parsed(&["--most-streams", "10s"]).unwrap_err().contains("--tps"));
        assert!(parsed(&["--frontier", "10s"]).is_ok());
    }

    #[test]
    fn connections_and_instants_follow_from_the_flags() {
        assert_eq!(parsed(&[]).unwrap().threads_max(), (4, 1));
        let all = ["--frontier", "1s", "--frontier-tp", "1,9", "--most-streams", "1s", "--tps", "5"];
        assert_eq!(parsed(&all).unwrap().threads_max(), (9, 64));
        assert!(parsed(&[]).unwrap().plan_instants().is_empty());
        let long = parsed(&["--duration", "12m"]).unwrap().plan_instants();
        assert_eq!(long, [300, 600].map(Duration::from_secs));
        let given = parsed(&["--cardinality-at", "40s,20s,40s,2m"]).unwrap().plan_instants();
        assert_eq!(given, [20, 40].map(Duration::from_secs));
    }
}
