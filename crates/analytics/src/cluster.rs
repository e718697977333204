//! How a session reaches its node.
//!
//! The runtime implements [`Cluster`] for each of its hosts; a session knows nothing else of it.

use async_trait::async_trait;
use base::cut::Incarnation;
use base::error::SqlResult;
use base::schema::Catalog;
use base::topology::Topology;
use base::txn::procedure::Procedures;
use base::{NodeId, Rank, RegionId, SqlError, SqlState, Time};
use node::ReadPolicy;
use node::request::{ReadRows, RegionHealth, Reply, Request, Rows};
use std::sync::Arc;

/// Why no replica has answered: the region's own node does.
#[derive(Clone, Debug)]
pub enum NotAtReplica {
    NoneServes,
    /// It stopped, or was silent for too long.
    Lost(NodeId),
    Refused(NodeId, SqlError),
}

impl std::fmt::Display for NotAtReplica {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NotAtReplica::NoneServes => f.write_str("no replica serves"),
            NotAtReplica::Lost(node) => write!(f, "replica {node} did not answer"),
            NotAtReplica::Refused(node, error) => write!(f, "replica {node} refused: {}", error.message),
        }
    }
}

/// A read-only replica, as its region's node sees it.
#[derive(Clone, Debug)]
pub struct ReplicaHealth {
    pub node: NodeId,
    /// Of a process of its own.
    pub name: Option<String>,
    pub state: &'static str,
    /// How far behind the clock what it has is complete; `None`: it is stopped, or a copy is arriving.
    pub behind_ns: Option<u64>,
    pub rows: u64,
    /// Reads that it answered, and reads that the region's node answered instead.
    pub reads: u64,
    pub fell_back: u64,
    pub under_way: u64,
    /// Questions it has asked partitions, and how many of them were answered without a step of theirs.
    pub fetches: u64,
    pub fetches_loaded: u64,
    /// How the last of them was answered: `messages`, `memory` of the process, or `log ring`.
    pub transport: &'static str,
}

/// What an administrator has a replica do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaCommand {
    /// No new reads.
    Drain,
    Undrain,
    /// It stands still, and keeps its memory.
    Pause,
    Resume,
    /// It begins again without its memory.
    Restart,
}

impl ReplicaCommand {
    pub fn parse(name: &str) -> Option<ReplicaCommand> {
        Some(match name {
            "drain" => ReplicaCommand::Drain,
            "undrain" => ReplicaCommand::Undrain,
            "pause" => ReplicaCommand::Pause,
            "resume" => ReplicaCommand::Resume,
            "restart" => ReplicaCommand::Restart,
            _ => return None,
        })
    }
}

/// One node of the cluster, as its clients see it.
#[async_trait]
pub trait Cluster: Send + Sync + 'static {
    /// Asks the node. Dropping the future tells the node that its client vanished. Errors: 57P01 or
    /// 08006 when the node is gone; everything else comes inside the reply.
    async fn request(&self, request: Request) -> SqlResult<Reply>;
    /// Tells the node something that needs no reply, from where nothing can be awaited.
    fn tell(&self, request: Request);
    /// The node that answers.
    fn node(&self) -> NodeId;
    fn topology(&self) -> &Arc<Topology>;
    /// The newest catalog this node knows. Called for every statement, so it must be cheap.
    fn catalog(&self) -> Arc<Catalog>;
    fn procedures(&self) -> &Arc<Procedures>;
    /// The node's clock, counted from 1970-01-01 UTC.
    fn now(&self) -> Time;
    /// The life of the cluster's logs, which tokens name.
    fn incarnation(&self) -> Incarnation {
        Incarnation::default()
    }
    /// Whether this node has everything up to a rank, so that reads there wait for nothing.
    fn is_complete_to(&self, _: Rank) -> bool {
        true
    }
    /// Name of the engine that orders transactions.
    /// How each region is, as far as the node can tell; nothing if it does not look.
    fn regions(&self) -> Vec<RegionHealth> {
        Vec::new()
    }
    fn engine(&self) -> &str;

    /// Where writes go, if this node is a read-only replica in a process of its own: a sentence for whoever tries to write.
    fn read_only(&self) -> Option<&str> {
        None
    }
    /// Whether this region has read-only replicas of rows, serving or not.
    fn has_replicas(&self) -> bool {
        false
    }
    /// Reads rows at one of them.
    async fn read_at_replica(&self, _: ReadPolicy, _: &ReadRows) -> Result<(NodeId, Rows), NotAtReplica> {
        Err(NotAtReplica::NoneServes)
    }
    /// How the replicas of this region are.
    fn replicas(&self) -> Vec<ReplicaHealth> {
        Vec::new()
    }
    /// Has a replica of this region do something. Errors: 22023, there is no such replica, or it is not in that state.
    fn command_replica(&self, node: NodeId, _: ReplicaCommand) -> SqlResult<()> {
        let message = format!("{node} is no replica of this region");
        Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
    }

    /// K: how many other regions must have a transaction before it is answered.
    fn copies_elsewhere(&self) -> usize {
        0
    }

    /// The node's region.
    fn region(&self) -> RegionId {
        self.topology().region_of(self.node())
    }
}
