//! The command by itself, without the database: for work on the benchmark.
use clap::Parser;

#[derive(Parser)]
enum Command {
    Run(vodka::VodkaArgs),
    Compare(vodka::CompareArgs),
}

fn main() -> anyhow::Result<()> {
    match Command::parse() {
        Command::Run(args) => {
            tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(vodka::run(args))
        }
        Command::Compare(args) => vodka::compare(&args),
    }
}
