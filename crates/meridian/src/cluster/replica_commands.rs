//! `meridian replica`: what an operator does about read-only replicas in processes of their own.

use super::operator::{Operator, OperatorArgs};
use super::orders::order;
use super::ports::FreePorts;
use super::status::{ReplicaTold, ask_status};
use crate::cert::{self, CertArgs};
use anyhow::{Context, anyhow, bail};
use clap::Subcommand;
use runtime::tcp::{Hello, Owner, Purpose};
use std::path::PathBuf;
use std::time::{Duration, Instant};

#[derive(Subcommand, Debug)]
#[command(after_help = "\
Examples:
  meridian replica add r1 --config c/us.toml       makes c/r1.toml and the replica's certificate
  meridian start --config c/r1.toml                runs it
  meridian replica status --config c/us.toml       how all replicas are
  meridian replica drain r1 --config c/us.toml     ends it; no read is refused")]
pub enum ReplicaCommand {
    /// Make the configuration and the certificate of a replica beside a node; starting it adds it to the running cluster
    Add(AddArgs),
    /// Ask every node how the replicas of its region are; exit code 1 unless all of them serve
    Status(StatusArgs),
    /// Have a replica end its sessions and its process; its region's node takes its reads
    Drain(DrainArgs),
}

#[derive(clap::Args, Debug)]
pub struct AddArgs {
    /// Name of the replica; each name is one process
    pub name: String,
    /// Configuration of the node of its region
    #[arg(long, env = "MERIDIAN_CONFIG", value_name = "FILE")]
    pub config: PathBuf,
    /// Port for its clients. 0: any that is free
    #[arg(long, default_value_t = 0)]
    pub port: u16,
    /// Port for its health checks, on the address of its node's. 0: any that is free
    #[arg(long, default_value_t = 0)]
    pub http_port: u16,
    /// The file to make, if not NAME.toml beside the node's
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

#[derive(clap::Args, Debug)]
pub struct StatusArgs {
    #[command(flatten)]
    pub operator: OperatorArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(clap::Args, Debug)]
pub struct DrainArgs {
    /// The replica that is to end
    pub name: String,
    #[command(flatten)]
    pub operator: OperatorArgs,
    /// How long to wait until it has ended
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = crate::database::short_time)]
    pub wait: Duration,
}

pub fn run(command: ReplicaCommand) -> anyhow::Result<()> {
    match command {
        ReplicaCommand::Add(args) => add(&args),
        ReplicaCommand::Status(args) => crate::run_async(status(args)),
        ReplicaCommand::Drain(args) => crate::run_async(drain(args)),
    }
}

/// What a node's configuration says that a replica's must not: what is one process's own.
const OF_THE_NODE: [&str; 7] =
    ["data", "port", "http", "listen-nodes", "replica", "root-password-file", "checkpoint-mib"];

fn add(args: &AddArgs) -> anyhow::Result<()> {
    let shown = args.config.display();
    Owner::check_name(&args.name).map_err(|why| anyhow!(why))?;
    let text = std::fs::read_to_string(&args.config).with_context(|| format!("cannot read {shown}"))?;
    let settings: toml::Table = text.parse().map_err(|error| anyhow!("{shown}: {error}"))?;
    let of = |key: &str| settings.get(key).and_then(toml::Value::as_str);
    let node = of("node").ok_or_else(|| anyhow!("{shown} is no node's configuration: it has no `node`"))?;
    if settings.contains_key("replica") {
        bail!("{shown} is a replica's configuration; give that of its region's node");
    }
    let out = args.out.clone().unwrap_or_else(|| args.config.with_file_name(format!("{}.toml", args.name)));
    if out.exists() {
        bail!("{} is there already and is not overwritten; choose another name, or remove it", out.display());
    }
    let mut free = FreePorts::search();
    let (port, http_port) =
        (free.of(args.port, 1, "--port")?[0], free.of(args.http_port, 1, "--http-port")?[0]);
    let http = of("http").and_then(|http| http.rsplit_once(':')).map_or("127.0.0.1", |(host, _)| host);
    let mut own = settings.clone();
    own.retain(|key, _| !OF_THE_NODE.contains(&key.replace('_', "-").as_str()));
    own.insert("replica".into(), args.name.clone().into());
    own.insert("port".into(), i64::from(port).into());
    own.insert("http".into(), format!("{http}:{http_port}").into());
    let made = format!(
        "# Replica {} of node {node}, whose settings it shares. Keys are the flags of `meridian start`.\n{}",
        args.name,
        toml::to_string(&own)?
    );
    if let Some(certs) = of("certs") {
        let certs = CertArgs { certs: certs.into(), days: None };
        let owner = Owner::Replica(args.name.clone());
        let (certificate, _) = owner.file_names();
        // One that was made before, perhaps where the authority's key is, is used.
        if !certs.certs.join(certificate).exists() {
            cert::create(&certs, &owner)?;
        }
    }
    std::fs::write(&out, made).with_context(|| format!("cannot write {}", out.display()))?;
    println!("Start the replica:");
    println!("  meridian start --config {}", out.display());
    Ok(())
}

/// The replicas of all regions, each with its region's node; and nodes that do not tell.
async fn all(operator: &Operator) -> (Vec<(String, ReplicaTold)>, Vec<String>) {
    let (mut replicas, mut silent) = (Vec::new(), Vec::new());
    for (node, address) in &operator.nodes {
        match ask_status(operator, node, address).await {
            Ok(status) => replicas.extend(status.replicas.into_iter().map(|told| (node.clone(), told))),
            Err(why) => silent.push(format!("node {node} at {address}: {why}")),
        }
    }
    (replicas, silent)
}

async fn status(args: StatusArgs) -> anyhow::Result<()> {
    let operator = Operator::new(&args.operator)?;
    let (replicas, silent) = all(&operator).await;
    if args.json {
        let row =
            |(node, told): &(String, ReplicaTold)| serde_json::json!({ "region": node, "replica": told });
        println!("{}", serde_json::to_string_pretty(&replicas.iter().map(row).collect::<Vec<_>>())?);
    }
    for (node, told) in replicas.iter().filter(|_| !args.json) {
        let behind = told.behind_ms.map_or(String::new(), |ms| format!(", {ms:.1} ms behind"));
        let log = if told.takes_ring { "log ring" } else { "messages" };
        let sql = if told.sql.is_empty() { String::new() } else { format!(", SQL on {}", told.sql) };
        println!(
            "{:<16} of {node:<12} {}{behind}, {} rows, {} reads, {} passed on, cuts by {}, log by {log}{sql}",
            told.name, told.state, told.rows, told.reads, told.fell_back, told.transport
        );
    }
    if !silent.is_empty() {
        bail!("{}", silent.join("; "));
    }
    let serving = replicas.iter().filter(|(_, told)| told.state == "serving").count();
    if serving < replicas.len() {
        bail!("{serving} of {} replicas serve", replicas.len());
    }
    Ok(())
}

async fn drain(args: DrainArgs) -> anyhow::Result<()> {
    let operator = Operator::new(&args.operator)?;
    let (replicas, silent) = all(&operator).await;
    let Some((node, told)) = replicas.into_iter().find(|(_, told)| told.name == args.name) else {
        let more = if silent.is_empty() { String::new() } else { format!(". {}", silent.join("; ")) };
        bail!("{} is no replica of this cluster that is here{more}", args.name);
    };
    let to = operator.nodes.iter().find(|(name, _)| *name == node).context("it has just answered")?;
    let hello = Hello { about: args.name.clone(), ..operator.hello(Purpose::DrainReplica) };
    _ = order(&operator, to, &hello).await?;
    println!("Replica {} ends its sessions.", args.name);
    let begin = Instant::now();
    while begin.elapsed() < args.wait {
        let (replicas, _) = all(&operator).await;
        let is_here = |(_, now): &(String, ReplicaTold)| now.node == told.node && now.state != "silent";
        if !replicas.iter().any(|replica| replica.1.name == args.name && is_here(replica)) {
            println!("Replica {} has ended.", args.name);
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    bail!("replica {} has not ended after {} s", args.name, args.wait.as_secs())
}
