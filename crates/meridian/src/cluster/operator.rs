//! How an operator's commands reach the nodes of a cluster: with what a node's configuration says.

use super::plan::{ClusterArgs, node_address};
use super::removed;
use anyhow::{Context, anyhow, bail};
use base::NodeId;
use runtime::tcp::{Hello, Life, Owner, Purpose, Security};
use serde::Deserialize;
use std::path::PathBuf;
use txn::any::EngineKind;

#[derive(clap::Args, Debug)]
pub struct OperatorArgs {
    /// Configuration of any node of the cluster
    #[arg(long, env = "MERIDIAN_CONFIG", value_name = "FILE")]
    pub config: PathBuf,
    /// Whose certificate to show: client NAME (client.NAME.crt and .key beside ca.crt); by default the node's of the file
    #[arg(long, value_name = "NAME")]
    pub client: Option<String>,
    /// Directory of certificates, if not that of the configuration
    #[arg(long, env = "MERIDIAN_CERTS", value_name = "DIR")]
    pub certs: Option<PathBuf>,
}

/// The part of a node's configuration that says how to reach the cluster.
#[derive(Deserialize)]
pub struct Reach {
    nodes: Vec<String>,
    pub node: String,
    cluster: String,
    certs: Option<PathBuf>,
    #[serde(default, rename = "insecure-nodes")]
    insecure_nodes: bool,
    pub data: Option<PathBuf>,
    #[serde(default)]
    pub survive: u8,
    #[serde(default)]
    engine: Option<String>,
    #[serde(default)]
    removed: Vec<String>,
}

impl Reach {
    /// Errors: the cluster's engine cannot make up for a lost directory.
    pub fn check_replaceable(&self) -> anyhow::Result<()> {
        let named = self.engine.as_deref();
        let engine = named.map_or(Some(EngineKind::default()), EngineKind::parse);
        let engine = engine.ok_or_else(|| anyhow!("no engine {:?}", named.unwrap_or_default()))?;
        if !engine.is_replicated() {
            bail!(
                "0A000: node {} cannot come back without its directory: engine {} keeps one copy of each partition, so \
                 what the node knew is nowhere else; restore the directory",
                self.node,
                engine.name()
            );
        }
        if self.survive == 0 {
            bail!(
                "0A000: node {} cannot come back without its directory: nothing is kept in other regions (survive = 0), \
                 so what it ordered last is nowhere else; restore the directory",
                self.node
            );
        }
        Ok(())
    }
}

/// A way to every node.
pub struct Operator {
    pub reach: Reach,
    pub security: Security,
    /// Name and address of each node that is in the cluster.
    pub nodes: Vec<(String, String)>,
    /// Names of all nodes by number, also of those that have left.
    pub numbered: Vec<String>,
    hello: Hello,
}

impl Operator {
    /// Errors: the configuration cannot be read, or has no certificates.
    pub fn new(args: &OperatorArgs) -> anyhow::Result<Operator> {
        let shown = args.config.display();
        let text = std::fs::read_to_string(&args.config).with_context(|| format!("cannot read {shown}"))?;
        let reach: Reach = toml::from_str(&text).map_err(|error| anyhow!("{shown}: {error}"))?;
        let nodes: Result<Vec<_>, _> = reach.nodes.iter().map(|text| node_address(text)).collect();
        let cluster = ClusterArgs {
            nodes: nodes.map_err(|why| anyhow!("{shown}: nodes: {why}"))?,
            certs: args.certs.clone().or(reach.certs.clone()),
            insecure_nodes: reach.insecure_nodes,
            ..ClusterArgs::default()
        };
        let owner = args.client.clone().map_or(Owner::Node(reach.node.clone()), Owner::Client);
        let hello = Hello {
            purpose: Purpose::Status,
            cluster: reach.cluster.clone(),
            node: NodeId(u16::MAX),
            name: owner.to_string(),
            settings: Vec::new(),
            topology_digest: 0,
            life: Life { directory: 0, starts: 0, process: 0 },
            program: env!("CARGO_PKG_VERSION").to_string(),
            about: String::new(),
        };
        let left: Result<Vec<_>, _> = reach.removed.iter().map(|text| removed::left(text)).collect();
        let left = left.map_err(|why| anyhow!("{shown}: removed: {why}"))?;
        let numbered = cluster.nodes.iter().map(|(name, _)| name.clone()).collect();
        let security = cluster.security(&owner)?;
        let is_there = |(name, _): &(String, String)| left.iter().all(|(gone, _)| gone != name);
        let nodes = cluster.nodes.into_iter().filter(is_there).collect();
        Ok(Operator { security, nodes, numbered, hello, reach })
    }

    pub fn hello(&self, purpose: Purpose) -> Hello {
        Hello { purpose, ..self.hello.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_directory_is_replaced_where_the_engine_keeps_records_elsewhere() {
        let told = |more: &str| {
            let text = format!("nodes = []\nnode = \"eu\"\ncluster = \"c\"\n{more}");
            let reach: Reach = toml::from_str(&text).unwrap();
            reach.check_replaceable().map_err(|error| error.to_string())
        };
        assert_eq!(told("survive = 1"), Ok(()));
        for engine in ["caerus", "geogauss"] {
            assert_eq!(told(&format!("engine = \"{engine}\"\nsurvive = 1")), Ok(()));
            let why = told(&format!("engine = \"{engine}\"")).unwrap_err();
            assert!(why.starts_with("0A000") && why.contains("survive = 0"), "{why}");
        }
        let why = told("engine = \"perseus\"\nsurvive = 1").unwrap_err();
        assert!(why.starts_with("0A000: node eu") && why.contains("perseus"), "{why}");
        let why = told("").unwrap_err();
        assert!(why.starts_with("0A000") && why.contains("survive = 0"), "{why}");
        assert_eq!(told("engine = \"x\""), Err("no engine \"x\"".into()));
    }
}
