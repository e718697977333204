//! The command.

use anyhow::Context;
use attack::args::{Arguments, Command, read_input};
use attack::drive;
use clap::Parser;
use std::process::ExitCode;
use std::time::Duration;

fn main() -> ExitCode {
    match work(Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("attack: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// True without findings.
fn work(arguments: Arguments) -> anyhow::Result<bool> {
    let mut options = match &arguments.command {
        Some(Command::Show { generator, seed, index }) => {
            let input = generator.input(*seed, *index);
            print!("# {}, seed {seed}, index {index}\n{input}", input.shape);
            return Ok(true);
        }
        _ => arguments.run.options()?,
    };
    if let Some(Command::Replay { files }) = &arguments.command {
        options.corpus = files.iter().map(|f| read_input(f)).collect::<Result<_, _>>()?;
        options.generators.clear();
        options.connections = 1;
        options.slice = Duration::from_millis(500);
        options.duration = Duration::ZERO;
    }
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("start a runtime")?;
    let summary = runtime.block_on(drive::run(options))?;
    println!("{summary}");
    if let Some(path) = &arguments.run.json {
        let text = serde_json::to_string_pretty(&summary).context("write JSON")?;
        std::fs::write(path, text).with_context(|| format!("write {}", path.display()))?;
    }
    anyhow::ensure!(
        summary.driver_panics == 0,
        "{} of the attack's own tasks panicked: what they would have thrown is missing",
        summary.driver_panics
    );
    Ok(summary.findings.is_empty())
}
