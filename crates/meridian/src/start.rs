//! `meridian start`: an empty database that runs until it is told to stop.

use crate::database::{Database, DatabaseArgs};
use anyhow::bail;
use std::time::Duration;

#[derive(clap::Args, Debug)]
pub struct StartArgs {
    #[command(flatten)]
    pub database: DatabaseArgs,
}

pub fn run(args: StartArgs) -> anyhow::Result<()> {
    crate::run_async(async move {
        let database = Database::start(&args.database).await?;
        println!("Data is kept in memory only. Ctrl-C ends the database.");
        for region in &database.regions {
            println!("{:<16} {}", region.name, region.psql());
        }
        loop {
            tokio::select! {
                signal = tokio::signal::ctrl_c() => {
                    signal?;
                    return Ok(());
                }
                () = tokio::time::sleep(Duration::from_millis(500)) => {
                    if let Some(node) = database.stopped() {
                        bail!("node {node} failed an invariant and stopped; the log above says where");
                    }
                }
            }
        }
    })
}
