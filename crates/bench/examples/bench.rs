//! The benchmarks without the rest of the product: `cargo run -p bench --example bench -- point --url …`.

use clap::Parser;

#[derive(Parser)]
#[command(about = "Benchmarks over the PostgreSQL wire protocol")]
struct Cli {
    #[command(subcommand)]
    command: bench::Command,
}

#[tokio::main]
async fn main() -> std::process::ExitCode {
    match bench::run(Cli::parse().command).await {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            std::process::ExitCode::FAILURE
        }
    }
}
