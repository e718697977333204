//! `meridian start`: a database that runs until it is told to stop.

use crate::database::{DataArgs, Database, DatabaseArgs};
use anyhow::bail;
use std::time::Duration;

#[derive(clap::Args, Debug)]
pub struct StartArgs {
    #[command(flatten)]
    pub database: DatabaseArgs,
    #[command(flatten)]
    pub data: DataArgs,
}

pub fn run(args: StartArgs) -> anyhow::Result<()> {
    crate::run_async(async move {
        let database = Database::start(&args.database, &args.data).await?;
        match &args.data.data {
            None => println!("Data is kept in memory only. Ctrl-C ends the database."),
            Some(path) => println!("Data is kept in {}. Ctrl-C ends the process.", path.display()),
        }
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
                    database.log_refusals();
                    if let Some(node) = database.stopped() {
                        bail!("node {node} has stopped; the log above says why");
                    }
                }
            }
        }
    })
}
