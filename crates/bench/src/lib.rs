//! Load drivers over the PostgreSQL wire protocol, and the reports they write.
//!
//! The same driver, schema and transactions run against Meridian and against PostgreSQL (or anything else
//! that speaks its protocol), so that figures can be given as ratios taken in one run: `--compare` takes
//! turns between two servers in slices.
//!
//! Suggested reading order: [`measure`] (what is counted), [`drive`] (how clients are paced), the workloads,
//! [`report`].

pub mod args;
pub mod ch;
pub mod drive;
pub mod load;
pub mod measure;
pub mod point;
pub mod report;
pub mod server;
pub mod statements;
pub mod tpcc;
pub mod traffic;
pub mod ycsb;

pub use args::Command;

/// Runs one benchmark and writes what it was asked to write.
///
/// # Errors
/// Whatever keeps a figure from being taken, as a chain of sentences that ends in what to do.
pub async fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Tpcc(args) => tpcc::run(args).await,
        Command::Ch(args) => ch::run(args).await,
        Command::Ycsb(args) => ycsb::run(args).await,
        Command::Point(args) => point::run(args).await,
    }
}
