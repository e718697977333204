//! Replicas of the node's own host look up how far the node is, in memory that both map (`docs/log-ring.md`), where they would
//! ask it, and take its log from there; by `--log-ring` at the node and at its replicas.
//!
//! KEEPS: what is looked up is what the node would answer, or nothing is, and then the node is asked; a node answers nobody
//! while replicas may still look at what a former life of it had published, which a mark in its data directory tells.

use super::plan::Plan;
use crate::member::DatabaseNode;
use crate::replicas::remote::RemoteReplicas;
use anyhow::{Context, anyhow};
use base::process::Process;
use base::{NodeId, PartitionId, Time, codec};
use node::message::Life;
use node::streams::Feed;
use runtime::host::Links;
use runtime::tcp::TcpLinks;
use runtime::{RingReader, Rings, RingsOf, rings};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use tokio::task::JoinSet;

/// Memory that a node shares with replicas in other processes of its host.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct RingArgs {
    /// Directory of files, best in memory (/dev/shm/NAME), in which replicas in other processes of this host look up what
    /// strong reads have to wait for; the same at the node and at its replicas, which ask the node otherwise
    #[arg(long, env = "MERIDIAN_LOG_RING", value_name = "DIR")]
    pub log_ring: Option<PathBuf>,
}

impl RingArgs {
    /// Where the rings of the plan's node are; `None`: nowhere.
    fn of(&self, plan: &Plan) -> Option<RingsOf> {
        let directory = self.log_ring.clone()?;
        if let Some(why) = nothing_to_look_up(plan) {
            eprintln!("warning: --log-ring {}: nothing is looked up there: {why}.", directory.display());
            return None;
        }
        Some(RingsOf { directory, cluster: plan.cluster.clone(), node: plan.me })
    }

    /// Has a node publish in rings whose lease one of `tasks` renews. `data`: its directory, locked since `opened`. Errors:
    /// the directory of rings cannot be used, or that it is used cannot be written down.
    pub async fn lend(
        &self,
        plan: &Plan,
        (data, opened): (&Path, Instant),
        node: DatabaseNode,
        tasks: &mut JoinSet<()>,
    ) -> anyhow::Result<(DatabaseNode, Option<Publishing>)> {
        let mark = Mark(data.join(MARK));
        if mark.is_there()? {
            // The life that left it may have published in another directory, or before the cluster changed.
            tokio::time::sleep_until((opened + rings::LEASE).into()).await;
        }
        let Some(of) = self.of(plan) else {
            mark.remove()?;
            return Ok((node, None));
        };
        let made = Rings::create(&of, plan.topology.copies_at(plan.me));
        let rings = Arc::new(made.map_err(|error| anyhow!("--log-ring: {error}"))?);
        mark.write(data)?;
        tasks.spawn(rings.clone().keep());
        Ok((node.publishing_in(rings.memory()), Some(Publishing { rings, mark })))
    }

    /// The rings that a replica of the plan's node looks into.
    pub fn reader(&self, plan: &Plan) -> Option<Arc<RingReader>> {
        self.of(plan).map(|of| Arc::new(RingReader::new(of)))
    }
}

/// How a replica of the plan's node reaches the cluster, beside the rings of that node.
pub fn links_of_replica(
    plan: &Plan,
    tcp: &Arc<TcpLinks>,
    reader: Option<&Arc<RingReader>>,
) -> Arc<dyn Links<DatabaseNode>> {
    match reader {
        Some(reader) => Arc::new(LooksUp { tcp: tcp.clone(), writer: plan.me, reader: reader.clone() }),
        None => tcp.clone(),
    }
}

/// A node that publishes.
pub struct Publishing {
    rings: Arc<Rings>,
    mark: Mark,
}

/// How a node reaches the cluster, and, if it publishes, replicas that take its partitions' logs from the rings.
pub fn links_of_node(
    publishing: Option<&Publishing>,
    tcp: &Arc<TcpLinks>,
    replicas: &Arc<RemoteReplicas>,
) -> Arc<dyn Links<DatabaseNode>> {
    let Some(Publishing { rings, .. }) = publishing else { return tcp.clone() };
    Arc::new(Appends { tcp: tcp.clone(), rings: rings.clone(), replicas: replicas.clone() })
}

/// The node takes no more steps. Called while its data directory is still locked: the mark of its next life is another.
pub fn end(publishing: Option<Publishing>) {
    let Some(Publishing { rings, mark }) = publishing else { return };
    rings.end();
    if let Err(error) = mark.remove() {
        tracing::warn!("the next start waits for the end of a lease: {error:#}");
    }
}

/// In a data directory: a life of the node began to publish, and has not ended.
const MARK: &str = "publishes";

struct Mark(PathBuf);

impl Mark {
    fn is_there(&self) -> anyhow::Result<bool> {
        self.0.try_exists().with_context(|| format!("cannot look at {}", self.0.display()))
    }
    /// It is on disk before anything is published.
    fn write(&self, data: &Path) -> anyhow::Result<()> {
        let write = || {
            File::create(&self.0)?.sync_all()?;
            File::open(data)?.sync_all()
        };
        write().with_context(|| format!("cannot write {}", self.0.display()))
    }
    fn remove(&self) -> anyhow::Result<()> {
        match std::fs::remove_file(&self.0) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {}", self.0.display()))
            }
            _ => Ok(()),
        }
    }
}

/// Why the plan's node publishes nothing; `None`: it may.
fn nothing_to_look_up(plan: &Plan) -> Option<String> {
    match &plan.no_replicas {
        Some(why) => Some(format!("this cluster has no replicas in processes of their own: {why}")),
        None if plan.topology.is_replicated() => Some(
            "regions have copies of each other's partitions, and an answer may be ahead of this copy".into(),
        ),
        None => None,
    }
}

type Message = <DatabaseNode as Process>::Message;

/// A replica's way to the cluster, beside the rings of its region's node.
struct LooksUp {
    tcp: Arc<TcpLinks>,
    writer: NodeId,
    reader: Arc<RingReader>,
}

impl Links<DatabaseNode> for LooksUp {
    fn send(&self, now: Time, from: NodeId, to: NodeId, message: Message) {
        <TcpLinks as Links<DatabaseNode>>::send(&self.tcp, now, from, to, message);
    }
    fn send_all(&self, now: Time, from: NodeId, to: &[NodeId], message: Message) {
        <TcpLinks as Links<DatabaseNode>>::send_all(&self.tcp, now, from, to, message);
    }
    fn load(&self, _: NodeId, of: NodeId, message: &Message) -> Option<Message> {
        if of != self.writer {
            return None;
        }
        node::answer_published(message, |partition, needs, watched| {
            let (life, at, positions) = self.reader.fetch(partition, needs, watched)?;
            Some((Life(Time(life)), at, positions))
        })
    }
}

/// A node's way to the cluster. Items of its partitions' streams go into the rings for replicas that take them there.
struct Appends {
    tcp: Arc<TcpLinks>,
    rings: Arc<Rings>,
    replicas: Arc<RemoteReplicas>,
}

impl Appends {
    /// Those of `to` that take this message from a ring, and its partition. A copy is for one replica and longer than any
    /// ring: it goes over TCP.
    fn near(&self, to: &[NodeId], message: &Message) -> Option<(PartitionId, Vec<NodeId>)> {
        let node::message::Message::Stream { partition, items, .. } = message else { return None };
        let life = self.rings.life(*partition)?;
        let is_log = items.iter().all(|feed| matches!(feed, Feed::Item(_)));
        let takes = |to: &NodeId| is_log && self.replicas.takes(*to, *partition, life);
        let near: Vec<NodeId> = to.iter().copied().filter(takes).collect();
        (!near.is_empty()).then_some((*partition, near))
    }
}

impl Links<DatabaseNode> for Appends {
    fn send(&self, now: Time, from: NodeId, to: NodeId, message: Message) {
        self.send_all(now, from, &[to], message);
    }
    fn send_all(&self, now: Time, from: NodeId, to: &[NodeId], message: Message) {
        let Some((partition, near)) = self.near(to, &message) else {
            return <TcpLinks as Links<DatabaseNode>>::send_all(&self.tcp, now, from, to, message);
        };
        let encoded = codec::encode(&message);
        let is_appended = self.rings.append(partition, &near, &encoded);
        let far: Vec<NodeId> = to.iter().copied().filter(|to| !is_appended || !near.contains(to)).collect();
        self.tcp.send_encoded(from, &far, || encoded);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_there_from_before_a_life_publishes_until_its_end() {
        let data = std::env::temp_dir().join(format!("meridian-mark-{}", std::process::id()));
        std::fs::create_dir_all(&data).unwrap();
        let mark = || Mark(data.join(MARK));
        assert!(!mark().is_there().unwrap());
        mark().remove().expect("there is none");
        mark().write(&data).unwrap();
        // A life was cut short, and the next one publishes too.
        assert!(mark().is_there().unwrap());
        mark().write(&data).unwrap();
        mark().remove().unwrap();
        assert!(!mark().is_there().unwrap());
        std::fs::remove_dir_all(&data).unwrap();
    }
}
