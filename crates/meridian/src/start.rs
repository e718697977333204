//! `meridian start`: a database that runs until it is told to stop; all regions in this process, or one node of several.

use crate::cluster;
use crate::cluster::plan::{ClusterArgs, Plan};
use crate::cluster::rings::RingArgs;
use crate::database::{DataArgs, Database, DatabaseArgs};
use crate::security::{self, SecurityArgs};
use anyhow::bail;
use clap::{CommandFactory, FromArgMatches, Parser};
use runtime::tcp::Security;
use server::auth::Authenticator;
use std::path::Path;
use std::time::Duration;

#[derive(clap::Args, Debug)]
pub struct StartArgs {
    #[command(flatten)]
    pub database: DatabaseArgs,
    #[command(flatten)]
    pub data: DataArgs,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    #[command(flatten)]
    pub rings: RingArgs,
    #[command(flatten)]
    pub security: SecurityArgs,
}

/// The node that would be run with this configuration; nothing is started. Errors: what is wrong with it.
pub fn planned(config: &Path) -> anyhow::Result<Plan> {
    let arguments = ["meridian".into(), "start".into(), "--config".into(), config.as_os_str().to_owned()];
    let matches = crate::config::parse(StartCommand::command(), &arguments)?;
    let StartCommand::Start(args) = StartCommand::from_arg_matches(&matches)? else {
        unreachable!("the command is start");
    };
    let plan = args.cluster.plan(&args.database)?;
    plan.database.engine_options(&plan.topology)?;
    Ok(plan)
}

/// The command `start` by itself.
#[derive(Parser)]
enum StartCommand {
    Start(Box<StartArgs>),
    #[command(hide = true)]
    Demo,
}

pub fn run(args: StartArgs) -> anyhow::Result<()> {
    if !args.cluster.nodes.is_empty() {
        if args.database.copies.replicas > 0 {
            bail!(
                "--replicas is for regions in one process; with --nodes each replica is a process: meridian replica add \
                 makes its configuration"
            );
        }
        let plan = args.cluster.plan(&args.database)?;
        if plan.replica.is_some() {
            if args.data.data.is_some() {
                bail!(
                    "--data: a replica keeps nothing on disk, it takes a copy from its region's node; leave it out"
                );
            }
            return crate::run_async(async move {
                cluster::replica::run(plan, &args.security, &args.rings).await
            });
        }
        return crate::run_async(async move {
            cluster::node::run(plan, &args.data, &args.security, &args.rings).await
        });
    }
    let of_rings = || args.rings.log_ring.as_ref().map(|_| "--log-ring");
    if let Some(flag) = args.cluster.given_without_nodes().or_else(of_rings) {
        bail!("{flag} is for one node of several; --nodes is missing");
    }
    crate::run_async(async move {
        let authenticator = Authenticator::new(args.security.settings(args.database.listen)?);
        let root_password = args.security.root_password()?;
        let database = Database::start(&args.database, &args.data, &authenticator).await?;
        if let Some(password) = root_password {
            security::give_root(database.gateway()?, &password).await?;
        }
        let _rereads = security::reread_on_hangup(
            &authenticator,
            &args.security,
            args.database.listen,
            Security::Plain,
        )?;
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
