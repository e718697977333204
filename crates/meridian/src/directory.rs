//! The nodes of a database in a directory, as they come back.
//!
//! KEEPS: a directory is used with the settings that it was made with, and with logs of the kind that it was made with.

use crate::database::{DataArgs, DatabaseArgs};
use crate::member::DatabaseNode;
use anyhow::{Context, anyhow, bail};
use base::NodeId;
use base::cut::Incarnation;
use base::rng::Rng;
use base::time::MS;
use base::topology::Topology;
use node::Options;
use node::durable::{self, Durable, Groups};
use runtime::{DataDir, Host, LocalCluster, NodeLog};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Nodes that record what they have to remember. `node`: one in its how-manyth life.
pub fn with_records(
    path: &Path,
    args: &DatabaseArgs,
    data: &DataArgs,
    topology: &Arc<Topology>,
    node: &impl Fn(NodeId, u32, Options) -> DatabaseNode,
) -> anyhow::Result<(LocalCluster<DatabaseNode>, DataDir)> {
    let mut directory = open(path, args, settings(args)?, true)?;
    // A replica without its log takes a copy.
    let keepers = topology.node_ids().filter(|id| !topology.is_replica(*id));
    directory.check_complete(keepers).map_err(|error| anyhow!("{error}"))?;
    let options = Options { incarnation: directory.incarnation(), ..Options::default() };
    let mut nodes = Vec::new();
    for id in topology.node_ids() {
        let make = |life| node(id, life, options.clone());
        nodes.push(directory.records(id, data.checkpoint_mib << 20, make)?);
    }
    directory.begin()?;
    Ok((LocalCluster::start_with_records(topology.clone(), nodes), directory))
}

/// Nodes whose inputs are logged.
pub async fn with_inputs(
    path: &Path,
    args: &DatabaseArgs,
    data: &DataArgs,
    topology: &Arc<Topology>,
    node: impl Fn(NodeId, u32, Options) -> DatabaseNode,
) -> anyhow::Result<(LocalCluster<Durable<DatabaseNode>>, DataDir)> {
    if args.copies.replicas > 0 {
        bail!("--replicas with --data: engine {} logs inputs, and replicas have none to replay", args.engine);
    }
    let mut directory = open(path, args, settings(args)?, data.any_build)?;
    directory.check_complete(topology.node_ids()).map_err(|error| anyhow!("{error}"))?;
    let quiet = quiet(directory.incarnation());
    let mut kept = Vec::new();
    for id in topology.node_ids() {
        kept.push(keep(&directory, topology, id, node(id, 1, quiet.clone()))?);
    }
    directory.begin()?;
    let cluster = LocalCluster::start_with_logs(topology.clone(), kept);
    replayed(cluster.hosts()).await?;
    Ok((cluster, directory))
}

/// How a node behaves whose inputs are logged: whatever happens there is written down, so little happens by itself.
pub fn quiet(incarnation: Incarnation) -> Options {
    Options { low_interval_ns: 100 * MS, maintain_interval_ns: 250 * MS, incarnation, ..Options::default() }
}

/// A node whose inputs are logged, as its log leaves it, and the log.
pub fn keep(
    directory: &DataDir,
    topology: &Topology,
    id: NodeId,
    node: DatabaseNode,
) -> anyhow::Result<(Durable<DatabaseNode>, NodeLog)> {
    let (log, records) = directory.log(id)?;
    let groups = Arc::new(Groups::of(topology.nodes.len(), 1));
    let (options, rng) = (durable::Options::default(), Rng::new(u64::from(id.0)));
    let durable = Durable::new(id, groups, options, rng, &records, node)
        .with_context(|| log.path().display().to_string())?;
    Ok((durable, log))
}

/// What a cluster is made with, which stays the same as long as its data.
pub fn settings(args: &DatabaseArgs) -> anyhow::Result<Vec<(&'static str, String)>> {
    let topology = args.topology()?;
    let serving = topology.node_ids().filter(|id| !topology.is_replica(*id));
    let regions: Vec<&str> = serving.map(|id| topology.region_name(topology.region_of(id))).collect();
    Ok(vec![
        ("--engine", args.engine.clone()),
        ("--wan and --regions", regions.join(",")),
        ("--partitions", args.partitions.to_string()),
        ("--survive", args.survive.to_string()),
        ("--clocks", format!("{:?}", args.clocks).to_lowercase()),
        ("--clock-bound", format!("{:?}", args.clock_bound)),
        ("--columns", format!("{:?}", args.copies.columns).to_lowercase()),
    ])
}

/// Takes a directory for what these settings describe.
pub fn open(
    path: &Path,
    args: &DatabaseArgs,
    settings: Vec<(&'static str, String)>,
    any_build: bool,
) -> anyhow::Result<DataDir> {
    let log = if args.engine()?.options().recorded().keeps_records() { "records" } else { "inputs" };
    let mut made_with = vec![(LOG, log.to_string())];
    made_with.extend(settings);
    made_with.push((BUILD, build()?));
    // A directory of before there were records says nothing of its log: it has inputs.
    let may_differ: &[&str] = match (any_build, log) {
        (true, "inputs") => &[BUILD, LOG],
        (false, "inputs") => &[LOG],
        _ => &[BUILD],
    };
    DataDir::open(path, &made_with, may_differ).map_err(|error| match error {
        runtime::DiskError::Differs { ref name, .. } if name == BUILD => anyhow!(
            "{error}. A log holds what happened, and only the program that wrote it is known to answer the same \
             again. Start that build, or try this one with --any-build on a copy of the directory"
        ),
        runtime::DiskError::Differs { ref path, ref name, .. } if name == LOG => anyhow!(
            "{}: its logs hold inputs, which only the build that wrote them can read. Start that build, and copy what \
             is there into an empty directory of this one",
            path.display()
        ),
        error => anyhow!("{error}"),
    })
}

/// Setting of a directory: what its logs consist of.
const LOG: &str = "log";

/// Setting of a directory: what wrote it.
const BUILD: &str = "build";

/// Tells this program from every other.
fn build() -> anyhow::Result<String> {
    let path = std::env::current_exe().context("cannot tell which program this is")?;
    let bytes = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(format!("{}-{:016x}", env!("CARGO_PKG_VERSION"), base::hash::digest(&bytes)))
}

/// Waits until every node has gone through its log.
pub async fn replayed(hosts: &[Arc<Host<Durable<DatabaseNode>>>]) -> anyhow::Result<()> {
    for host in hosts {
        while !host.inspect(|node| node.is_ready()) {
            if host.is_gone() {
                bail!("node {} could not replay its log; the lines above say why", host.id());
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
    Ok(())
}
