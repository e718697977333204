//! `meridian cluster init`: the files of a new cluster.
//!
//! Nothing is started and nobody is asked: the command draws the cluster's identity, makes certificates, and writes a
//! configuration for each node. On one machine they work as they are; for several, copy to each machine its node's
//! file, `ca.crt` and its node's certificate and key.

use super::plan::node_address;
use super::ports::FreePorts;
use crate::cert::{self, CertArgs};
use anyhow::{Context, anyhow, bail};
use runtime::Clock;
use runtime::tcp::Owner;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use txn::any::EngineKind;

#[derive(clap::Args, Clone, Debug)]
pub struct InitArgs {
    /// Directory to make: NAME.toml and NAME, its data, for each node, and certs
    pub directory: PathBuf,
    /// Nodes, one a region: names, for processes of this machine, or with the address of each
    #[arg(long, value_delimiter = ',', value_name = "NAME[=HOST:PORT],…", default_value = "us,eu,asia")]
    pub nodes: Vec<String>,
    /// Who orders transactions
    #[arg(long, value_name = "NAME", default_value = EngineKind::default().name(), value_parser = EngineKind::ALL.map(EngineKind::name))]
    pub engine: String,
    /// Regions that may be lost without losing an answered transaction [default: 1, or 0 where the engine cannot]
    #[arg(long, value_name = "K")]
    pub survive: Option<u8>,
    /// Round trips between regions, as for meridian start
    #[arg(long, value_name = "TIME | A/B=TIME,…", default_value = "1ms")]
    pub distances: String,
    /// Bound of the machines' clocks, as for meridian start. Processes of one machine share its clock
    #[arg(long, value_name = "MS", default_value = "2ms")]
    pub clock_bound: String,
    /// Port for clients of the first node; on one machine the others follow. 0 takes any that are free
    #[arg(long, default_value_t = 26257)]
    pub port: u16,
    /// Port for other nodes of the first node, where no address is given; the others follow. 0: any
    #[arg(long, default_value_t = 26357)]
    pub node_port: u16,
    /// Port for health checks of the first node; on one machine the others follow. 0: any
    #[arg(long, default_value_t = 26457)]
    pub http_port: u16,
    /// Do without TLS between the processes of one machine
    #[arg(long)]
    pub insecure_nodes: bool,
}

/// A node's files.
pub struct Made {
    pub name: String,
    pub config: PathBuf,
    pub sql_port: u16,
    pub http_port: u16,
    /// Where other nodes reach it.
    pub address: String,
}

pub fn run(args: &InitArgs) -> anyhow::Result<()> {
    let made = make(args)?;
    println!("Start each node:");
    made.iter().for_each(|node| println!("  meridian start --config {}", node.config.display()));
    println!("Then ask how they are:");
    println!("  meridian cluster status --config {}", made[0].config.display());
    Ok(())
}

/// Errors: the directory is not empty, a name or an address is wrong.
pub fn make(args: &InitArgs) -> anyhow::Result<Vec<Made>> {
    let survive = survivable(&args.engine, args.survive)?;
    let is_remote = args.nodes.iter().any(|node| node.contains('='));
    let count = args.nodes.len();
    let mut free = FreePorts::search();
    let node_ports = free.of(args.node_port, count, "--node-port")?;
    let (sql_ports, http_ports) = match is_remote {
        true => (vec![args.port; count], vec![args.http_port; count]),
        false => (free.of(args.port, count, "--port")?, free.of(args.http_port, count, "--http-port")?),
    };
    let mut nodes: Vec<(String, String)> = Vec::new();
    for (node, node_port) in args.nodes.iter().zip(node_ports) {
        let text = match node.contains('=') {
            true => node.clone(),
            false => format!("{node}=127.0.0.1:{node_port}"),
        };
        let node = node_address(&text).map_err(|why| anyhow!("--nodes: {why}"))?;
        if nodes.iter().any(|(name, _)| *name == node.0) {
            bail!("--nodes names {} twice", node.0);
        }
        nodes.push(node);
    }
    let directory = make_empty(&args.directory)?;
    let certs = CertArgs { certs: directory.join("certs"), days: None };
    if !args.insecure_nodes {
        cert::create_ca(&certs)?;
        cert::create(&certs, &Owner::Client("root".into()))?;
        for (name, _) in &nodes {
            cert::create(&certs, &Owner::Node(name.clone()))?;
        }
    }
    let seed = (Clock::new().now().0, std::process::id(), directory.as_os_str());
    let cluster = format!("{:016x}", base::hash::digest(&seed));
    let listed: Vec<String> = nodes.iter().map(|(name, address)| format!("{name}={address}")).collect();
    let mut made = Vec::new();
    for ((name, address), (sql_port, http_port)) in nodes.iter().zip(sql_ports.into_iter().zip(http_ports)) {
        let mut text = String::new();
        writeln!(
            text,
            "# Node {name}. Keys are the flags of `meridian start`; environment and flags go before them."
        )?;
        writeln!(text, "# The same at all nodes:")?;
        writeln!(text, "cluster = {}", quoted(&cluster))?;
        writeln!(
            text,
            "nodes = [{}]",
            listed.iter().map(|node| quoted(node)).collect::<Vec<_>>().join(", ")
        )?;
        writeln!(text, "distances = {}", quoted(&args.distances))?;
        writeln!(text, "clock-bound = {}", quoted(&args.clock_bound))?;
        writeln!(text, "engine = {}", quoted(&args.engine))?;
        writeln!(text, "survive = {survive}")?;
        writeln!(text, "# This node's:")?;
        writeln!(text, "node = {}", quoted(name))?;
        writeln!(text, "data = {}", quoted(&directory.join(name).display().to_string()))?;
        match args.insecure_nodes {
            true => writeln!(text, "insecure-nodes = true")?,
            false => writeln!(text, "certs = {}", quoted(&certs.certs.display().to_string()))?,
        }
        writeln!(text, "listen = \"127.0.0.1\"")?;
        writeln!(text, "port = {sql_port}")?;
        writeln!(text, "http = {}", quoted(&format!("127.0.0.1:{http_port}")))?;
        let config = directory.join(format!("{name}.toml"));
        std::fs::write(&config, text).with_context(|| format!("cannot write {}", config.display()))?;
        made.push(Made { name: name.clone(), config, sql_port, http_port, address: address.clone() });
    }
    Ok(made)
}

/// The regions that a new cluster is to survive the loss of. Errors: its engine cannot survive that of any.
pub fn survivable(engine: &str, wanted: Option<u8>) -> anyhow::Result<u8> {
    let engine = EngineKind::parse(engine).ok_or_else(|| anyhow!("no engine {engine:?}"))?;
    let can = engine.survives_loss();
    match wanted {
        Some(regions) if regions > 0 && !can => bail!(
            "0A000: engine {} cannot survive the loss of a region; leave --survive out, or choose engine caerus",
            engine.name()
        ),
        _ => Ok(wanted.unwrap_or(u8::from(can))),
    }
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_string()).to_string()
}

/// Its absolute path. Errors: it holds something.
fn make_empty(path: &Path) -> anyhow::Result<PathBuf> {
    std::fs::create_dir_all(path).with_context(|| format!("cannot make {}", path.display()))?;
    let mut inside = std::fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))?;
    if let Some(entry) = inside.next() {
        let name = entry?.file_name();
        bail!("{} holds {} already; choose an empty directory", path.display(), name.display());
    }
    Ok(path.canonicalize()?)
}
