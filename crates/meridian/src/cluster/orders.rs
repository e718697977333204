//! What an operator can have nodes do: drain and end, and take another directory for one that is lost.

use super::operator::{Operator, OperatorArgs};
use anyhow::{Context, anyhow, bail};
use base::{NodeId, codec};
use runtime::tcp::ask::{Answered, Ordered, ask};
use runtime::tcp::{Hello, Lives, Purpose};
use std::time::Duration;

#[derive(clap::Args, Debug)]
pub struct DrainArgs {
    /// The node that is to end
    pub node: String,
    #[command(flatten)]
    pub operator: OperatorArgs,
    /// How long to wait until it has ended
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = crate::database::short_time)]
    pub wait: Duration,
}

#[derive(clap::Args, Debug)]
pub struct ReplaceArgs {
    #[command(flatten)]
    pub operator: OperatorArgs,
}

pub async fn order(
    operator: &Operator,
    to: &(String, String),
    hello: &Hello,
) -> anyhow::Result<(u64, Answered)> {
    let (name, address) = to;
    let said = |why: String| anyhow!("node {name} at {address}: {why}");
    let answered = ask(&operator.security, name, address, hello).await.map_err(said)?;
    let ordered: Ordered = codec::decode(&answered.bytes).map_err(|error| said(error.to_string()))?;
    Ok((ordered.map_err(said)?, answered))
}

pub async fn drain(args: DrainArgs) -> anyhow::Result<()> {
    let operator = Operator::new(&args.operator)?;
    let node = operator.nodes.iter().find(|(name, _)| *name == args.node);
    let node = node.ok_or_else(|| anyhow!("{} is no node of this cluster", args.node))?;
    let (_, answered) = order(&operator, node, &operator.hello(Purpose::Drain)).await?;
    println!("Node {} hands over what it leads and ends its sessions.", args.node);
    match answered.ends_within(args.wait).await {
        true => println!("Node {} has ended.", args.node),
        false => bail!("node {} has not ended after {} s", args.node, args.wait.as_secs()),
    }
    Ok(())
}

/// Prepares an empty directory for the node of the configuration, in the place of its lost one. All others have to agree
/// first: each knows the lives of the lost one, and the new one has to come after them.
pub async fn replace(args: ReplaceArgs) -> anyhow::Result<()> {
    if args.operator.client.is_some() {
        bail!("--client: a node's own certificate is needed to replace its directory");
    }
    let operator = Operator::new(&args.operator)?;
    let (name, data) = (&operator.reach.node, &operator.reach.data);
    let data = data.as_ref().ok_or_else(|| anyhow!("{}: data is missing", args.operator.config.display()))?;
    operator.reach.check_replaceable()?;
    let me = operator.numbered.iter().position(|known| known == name);
    let me = me.ok_or_else(|| anyhow!("node {name} is not in nodes"))?;
    if operator.nodes.iter().all(|(known, _)| known != name) {
        bail!("region {name} has left the cluster, so its directory has no place to take");
    }
    let hello = operator.hello(Purpose::Replace);
    let hello = Hello { node: NodeId(me as u16), name: name.clone(), ..hello };
    let (mut last, mut silent) = (0, Vec::new());
    for node in operator.nodes.iter().filter(|(known, _)| known != name) {
        match order(&operator, node, &hello).await {
            Ok((starts, _)) => last = last.max(starts),
            Err(error) => silent.push(format!("{error:#}")),
        }
    }
    if !silent.is_empty() {
        bail!(
            "not every other node has given up the lost directory, which it would hold against the new one; repeat this \
             when they do. {}",
            silent.join("; ")
        );
    }
    if last == 0 {
        bail!("no other node has ever heard node {name}: start it with an empty directory");
    }
    Lives::replace(data, last).map_err(|error| anyhow!("{error}")).context("--data")?;
    println!("{} takes the place of node {name}'s lost directory. Start the node:", data.display());
    println!("  meridian start --config {}", args.operator.config.display());
    Ok(())
}
