//! The flags of `meridian bench`.

use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

/// What to measure.
#[derive(Subcommand, Clone, Debug)]
pub enum Command {
    /// TPC-C: the five order-entry transactions, as statements or as stored procedures
    Tpcc(TpccArgs),
    /// CH-benCHmark: the 22 analytical queries over TPC-C's tables, beside a TPC-C load if wanted
    Ch(ChArgs),
    /// YCSB A, B, C, D, F and YCSB-T over one table of 10 text columns
    Ycsb(YcsbArgs),
    /// Point SELECT and UPDATE by primary key, prepared, like pgbench
    #[command(alias = "pgbench")]
    Point(PointArgs),
}

/// Which servers, how long, how many, and what to write.
#[derive(Args, Clone, Debug)]
pub struct Common {
    /// The server: postgres://user@host:port/database
    #[arg(long, env = "MERIDIAN_URL", value_name = "URL")]
    pub url: String,
    /// A second server that gets the same load in turns with the first; prints ratios
    #[arg(long, value_name = "URL2")]
    pub compare: Option<String>,
    /// Turns of each server when comparing
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub slices: u32,
    /// How long to measure each server, e.g. 30s, 2m
    #[arg(long, default_value = "30s", value_parser = duration)]
    pub duration: Duration,
    /// How long to run each server before measuring
    #[arg(long, default_value = "5s", value_parser = duration)]
    pub warmup: Duration,
    /// Concurrent clients, one connection each
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub clients: u32,
    /// Open loop: transactions offered per second by all clients together (default: closed loop)
    #[arg(long, value_parser = positive)]
    pub rate: Option<f64>,
    /// How often a transaction that meets 40001 or 40P01 is tried again
    #[arg(long, default_value_t = 20)]
    pub retries: u32,
    /// Isolation level of every connection (default: the server's own)
    #[arg(long, value_enum)]
    pub isolation: Option<Isolation>,
    /// Seed of rows and inputs
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Create and fill the tables first
    #[arg(long)]
    pub load: bool,
    /// With --load: drop tables of these names before
    #[arg(long, requires = "load")]
    pub drop: bool,
    /// With --load: regions of a Meridian cluster; warehouses go to them in turn
    #[arg(long, value_delimiter = ',', value_name = "R1,R2,…")]
    pub regions: Vec<String>,
    /// With --load: connections that load side by side
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub loaders: u32,
    /// With --load: rows per COPY statement
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub copy_rows: u32,
    /// Write the figures as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the figures as CSV
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Write a self-contained page with plots
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// SQL's isolation levels.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Isolation {
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

impl Isolation {
    pub fn sql(self) -> &'static str {
        match self {
            Isolation::ReadCommitted => "READ COMMITTED",
            Isolation::RepeatableRead => "REPEATABLE READ",
            Isolation::Serializable => "SERIALIZABLE",
        }
    }
}

/// How a transaction reaches the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Mode {
    /// BEGIN, prepared statements one after another, COMMIT
    Interactive,
    /// One CALL of a stored procedure
    Procedures,
}

/// Sizes of TPC-C's tables.
#[derive(Args, Clone, Debug)]
pub struct Sizes {
    /// Warehouses (default: with --load 1, otherwise as many as are there)
    #[arg(long, value_parser = clap::value_parser!(i32).range(1..=100_000))]
    pub warehouses: Option<i32>,
    /// With --load: divide customers, orders and items by this, for trials
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(i32).range(1..=300))]
    pub shrink: i32,
}

#[derive(Args, Clone, Debug)]
pub struct TpccArgs {
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub sizes: Sizes,
    /// How a transaction is sent
    #[arg(long, value_enum, default_value = "interactive")]
    pub mode: Mode,
    /// Weights of NewOrder, Payment, OrderStatus, Delivery, StockLevel
    #[arg(long, value_delimiter = ',', default_value = "45,43,4,4,4", value_name = "N,P,O,D,S")]
    pub mix: Vec<u32>,
    /// Percentage of order lines supplied by another warehouse
    #[arg(long, default_value_t = 1.0, value_parser = percentage)]
    pub remote_lines: f64,
    /// Percentage of payments by customers of another warehouse
    #[arg(long, default_value_t = 15.0, value_parser = percentage)]
    pub remote_payments: f64,
    /// Do not run the consistency conditions afterwards
    #[arg(long)]
    pub no_check: bool,
}

#[derive(Args, Clone, Debug)]
pub struct ChArgs {
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub sizes: Sizes,
    /// Which queries, e.g. 1,6,10-15
    #[arg(long, default_value = "1-22", value_parser = queries)]
    pub queries: QueryList,
    /// Streams of queries, one connection each
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub analysts: u32,
    /// How often each analyst goes through the queries; --duration and --slices do not apply
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Read these warehouses only, e.g. 1,4,7 (default: all)
    #[arg(long, value_delimiter = ',')]
    pub scope: Vec<i32>,
    /// TPC-C clients that run beside the queries
    #[arg(long, default_value_t = 0)]
    pub terminals: u32,
    /// How a transaction is sent
    #[arg(long, value_enum, default_value = "procedures")]
    pub mode: Mode,
}

/// Numbers of CH queries.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueryList(pub Vec<usize>);

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum YcsbMix {
    A,
    B,
    C,
    D,
    F,
}

#[derive(Args, Clone, Debug)]
pub struct YcsbArgs {
    #[command(flatten)]
    pub common: Common,
    /// YCSB's mix of operations
    #[arg(long, value_enum, default_value = "a", ignore_case = true)]
    pub workload: YcsbMix,
    /// Rows to load
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(i64).range(1..))]
    pub records: i64,
    /// Zipf skew, 0 (uniform) to below 1
    #[arg(long, default_value_t = 0.99, value_parser = skew)]
    pub skew: f64,
    /// Operations per transaction; more than 1 is YCSB-T
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub operations: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum PointOp {
    /// SELECT by primary key
    Select,
    /// UPDATE by primary key, autocommit
    Update,
    /// Half and half
    Mixed,
}

#[derive(Args, Clone, Debug)]
pub struct PointArgs {
    #[command(flatten)]
    pub common: Common,
    /// What to do; each is measured by itself
    #[arg(long, value_enum, value_delimiter = ',', default_value = "select,update")]
    pub op: Vec<PointOp>,
    /// Accounts to load, in units of 100,000
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(i64).range(1..=10_000))]
    pub scale: i64,
}

/// Reads `500ms`, `30s`, `2m`, `1h`; a bare number is seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let seconds = match unit.trim() {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        other => return Err(format!("unknown unit '{other}': write 500ms, 30s, 2m or 1h")),
    };
    let number: f64 = number.parse().map_err(|_| "write a number and a unit, such as 30s".to_string())?;
    Duration::try_from_secs_f64(number * seconds).map_err(|e| e.to_string())
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

fn skew(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if (0.0..1.0).contains(&number) => Ok(number),
        _ => Err("must be a number from 0 to below 1".into()),
    }
}

/// Reads `1,3-5,22`.
pub fn queries(text: &str) -> Result<QueryList, String> {
    let number = |text: &str| match text.trim().parse::<usize>() {
        Ok(number) if workload::ch::QUERIES.contains(&number) => Ok(number),
        _ => Err(format!("'{text}' is not a query: they are numbered 1 to 22")),
    };
    let mut list = Vec::new();
    for part in text.split(',') {
        match part.split_once('-') {
            Some((first, last)) if number(first)? <= number(last)? => {
                list.extend(number(first)?..=number(last)?)
            }
            Some(_) => return Err(format!("'{part}' ends before it begins")),
            None => list.push(number(part)?),
        }
    }
    Ok(QueryList(list))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_query_lists_are_read_or_refused_with_a_reason() {
        assert_eq!(duration("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("7"), Ok(Duration::from_secs(7)));
        assert!(duration("3 weeks").unwrap_err().contains("unknown unit"));
        assert!(duration("s").is_err() && duration("").is_err());
        assert_eq!(queries("1,3-5, 22"), Ok(QueryList(vec![1, 3, 4, 5, 22])));
        assert!(queries("0").is_err() && queries("5-3").is_err() && queries("23").is_err());
        assert!(percentage("101").is_err() && skew("1").is_err() && positive("0").is_err());
    }
}
