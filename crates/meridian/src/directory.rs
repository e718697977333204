//! The nodes of a database in a directory, as they come back.
//!
//! KEEPS: a directory is used with the settings that it was made with, and with logs of the kind that it was made with.

use crate::database::{DataArgs, DatabaseArgs};
use crate::epochs;
use crate::member::DatabaseNode;
use anyhow::anyhow;
use base::NodeId;
use base::topology::Topology;
use node::Options;
use runtime::{DataDir, LocalCluster};
use std::path::Path;
use std::sync::Arc;

/// Nodes that record what they have to remember. `node`: one in its how-manyth life.
pub fn with_records(
    path: &Path,
    args: &DatabaseArgs,
    data: &DataArgs,
    topology: &Arc<Topology>,
    node: &impl Fn(NodeId, u32, Options) -> DatabaseNode,
) -> anyhow::Result<(LocalCluster<DatabaseNode>, DataDir)> {
    let mut directory = open(path, settings(args)?)?;
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

/// What a cluster is made with, which stays the same as long as its data.
pub fn settings(args: &DatabaseArgs) -> anyhow::Result<Vec<(&'static str, String)>> {
    let topology = args.topology()?;
    let serving = topology.node_ids().filter(|id| !topology.is_replica(*id));
    let regions: Vec<&str> = serving.map(|id| topology.region_name(topology.region_of(id))).collect();
    let mut settings = vec![
        ("--engine", args.engine.clone()),
        ("--wan and --regions", regions.join(",")),
        ("--partitions", args.partitions.to_string()),
        ("--survive", args.survive.to_string()),
        ("--clocks", format!("{:?}", args.clocks).to_lowercase()),
        ("--clock-bound", format!("{:?}", args.clock_bound)),
        ("--columns", format!("{:?}", args.copies.columns).to_lowercase()),
    ];
    settings.extend(args.epochs.settings(args.engine()?));
    Ok(settings)
}

/// Takes a directory for what these settings describe.
pub fn open(path: &Path, settings: Vec<(&'static str, String)>) -> anyhow::Result<DataDir> {
    let made_with = DataDir::made_with(path).map_err(|error| anyhow!("{error}"))?;
    let settings = epochs::to_compare(made_with.as_ref(), with_kind_of_log(settings));
    DataDir::open(path, &settings).map_err(|error| match error {
        runtime::DiskError::Differs { ref path, ref name, .. } if name == LOG => anyhow!(
            "{}: its logs hold inputs, which only the build that wrote them can read. Start that build, and copy what \
             is there into an empty directory of this one",
            path.display()
        ),
        error => anyhow!("{error}"),
    })
}

/// All that is written down of a directory that is made with these settings.
pub fn with_kind_of_log(settings: Vec<(&'static str, String)>) -> Vec<(&'static str, String)> {
    let log = (LOG, "records".to_string());
    std::iter::once(log).chain(settings).collect()
}

/// Setting of a directory: what its logs consist of.
const LOG: &str = "log";
