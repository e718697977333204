//! A node of this process as its sessions reach it.
//!
//! KEEPS: a session's statement waits for its own request, and for nothing that it only looks up.

use async_trait::async_trait;
use base::cut::Incarnation;
use base::error::{SqlError, SqlResult, SqlState};
use base::process::Process;
use base::schema::Catalog;
use base::topology::Topology;
use base::txn::AccessMode;
use base::txn::procedure::Procedures;
use base::{NodeId, Rank, Time};
use node::Node;
use node::ReadPolicy;
use node::request::{ReadRows, RegionHealth, Reply, Request, Rows};
use runtime::Host;
use session::{Cluster, NotAtReplica, ReplicaCommand, ReplicaHealth};
use std::path::Path;
use std::sync::{Arc, RwLock};
use std::time::Duration;
use txn::any::AnyEngine;

pub type DatabaseNode = Node<AnyEngine>;

/// A node that a host serves clients from.
pub trait Served: Process<Request = Request, Reply = Reply> + Send + 'static {
    fn node(&self) -> &DatabaseNode;
}
impl Served for DatabaseNode {
    fn node(&self) -> &DatabaseNode {
        self
    }
}

/// The read-only replicas of a region.
#[async_trait]
pub trait Replicas: Send + Sync {
    /// Reads rows at one of them.
    async fn read(&self, policy: ReadPolicy, read: &ReadRows) -> Result<(NodeId, Rows), NotAtReplica>;
    /// Whether there are any, serving or not.
    fn any(&self) -> bool;
    fn health(&self) -> Vec<ReplicaHealth>;
    /// Errors: 22023, no such replica.
    fn command(&self, node: NodeId, command: ReplicaCommand) -> SqlResult<()>;
}

/// A node as its sessions see it.
pub struct Member<P: Served> {
    pub host: Arc<Host<P>>,
    pub topology: Arc<Topology>,
    pub procedures: Arc<Procedures>,
    pub engine: String,
    pub copies_elsewhere: usize,
    pub incarnation: Incarnation,
    pub catalog: PublishedCatalog,
    /// Of its region.
    pub replicas: Option<Arc<dyn Replicas>>,
    /// Who takes writes, if this node is a replica in a process of its own.
    pub writer: Option<Writer>,
}

/// Who takes what a replica refuses.
#[derive(Clone, Debug)]
pub struct Writer {
    pub node: String,
    /// A sentence for whoever tries to write.
    pub hint: String,
}

impl Writer {
    /// The node of a region, whose clients come in there.
    pub fn of(replica: &str, node: &str, sql: &str) -> Writer {
        let hint = format!("{replica} is a read-only replica; writes go to node {node}, at {sql}.");
        Writer { node: node.to_string(), hint }
    }

    /// How a replica asks for what a session wants. Errors: 25006, it would be ordered.
    fn at_replica(&self, request: Request) -> SqlResult<Request> {
        match request {
            Request::Submit(_) | Request::MoveHome { .. } | Request::LockRows(_) => {
                let message = "cannot execute this at a read-only replica";
                Err(SqlError::new(SqlState::READ_ONLY_SQL_TRANSACTION, message).hint(&self.hint))
            }
            // Reads at a transaction's cut are answered here; others that come without a policy are for the writer.
            Request::ReadRows(read) if read.at.is_none() => {
                Ok(Request::ReadRowsUnder { policy: ReadPolicy::Primary, read })
            }
            request => Ok(request),
        }
    }
    /// The longest that a replica waits for the rest of the cluster: what is here can be read without it.
    fn patience(&self, request: &Request) -> Duration {
        match request {
            Request::ReadRows(_)
            | Request::ReadRowsUnder { .. }
            | Request::OpenSnapshot(_)
            | Request::Call(_)
            | Request::Pin { .. } => ANSWER_MAX,
            _ => Duration::MAX,
        }
    }
    fn is_silent(&self) -> SqlError {
        let message = format!("node {} does not answer this replica", self.node);
        SqlError::new(SqlState::CANNOT_CONNECT_NOW, message)
            .detail("A strong read asks it how far its log is.")
            .hint("SET meridian.read_policy = 'stale' reads rows as they are here, SET meridian.consistency = 'stale' columns.")
    }
}

/// See [`Writer::patience`].
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Whether a request asks for something that has to be recorded before it is answered, and may be large.
fn writes(request: &Request) -> bool {
    match request {
        Request::Submit(submission) => {
            let accesses = submission.access.by_partition.values().flatten();
            accesses.into_iter().any(|access| access.mode == AccessMode::Write)
        }
        Request::MoveHome { .. } => true,
        _ => false,
    }
}

fn disk_full(directory: &Path, node: NodeId) -> SqlError {
    SqlError::new(SqlState::DISK_FULL, format!("the disk of node {node} is full"))
        .detail(format!("Nothing was written. The directory is {}.", directory.display()))
        .hint("Make room on that disk; statements that only read go on, and writing goes on by itself.")
}

/// A node's catalog as of its last step, for its sessions: each statement looks it up, and none of them waits until
/// the node has done what it is at.
#[derive(Clone, Default)]
pub struct PublishedCatalog(Arc<RwLock<Arc<Catalog>>>);

const UNBROKEN: &str = "nobody panics while it is written";

impl PublishedCatalog {
    /// The catalog of this host's node from now on.
    pub fn of<P: Served>(host: &Host<P>) -> PublishedCatalog {
        let published = PublishedCatalog::default();
        let catalog = published.clone();
        host.watch(move |served| {
            let is_known = served.node().has_catalog(&catalog.0.read().expect(UNBROKEN));
            if !is_known {
                *catalog.0.write().expect(UNBROKEN) = served.node().catalog();
            }
        });
        published
    }
    fn now(&self) -> Arc<Catalog> {
        self.0.read().expect(UNBROKEN).clone()
    }
}

#[async_trait]
impl<P: Served> Cluster for Member<P> {
    async fn request(&self, request: Request) -> SqlResult<Reply> {
        if writes(&request)
            && let Some(room) = self.host.full_disk()
        {
            return Err(disk_full(room.directory(), self.host.id()));
        }
        let answered = match &self.writer {
            None => self.host.request(request).await,
            Some(writer) => {
                let request = writer.at_replica(request)?;
                let patience = writer.patience(&request);
                let asked = tokio::time::timeout(patience, self.host.request(request));
                asked.await.map_err(|_| writer.is_silent())?
            }
        };
        answered.map_err(|_| {
            if self.host.is_halted() {
                return SqlError::new(SqlState::ADMIN_SHUTDOWN, "the region has been stopped")
                    .hint("Connect to another region.");
            }
            SqlError::new(SqlState::ADMIN_SHUTDOWN, format!("node {} has stopped", self.host.id()))
                .detail(
                    "An invariant did not hold or its disk failed; a failed node stops rather than guess.",
                )
                .hint("Connect to another region; the server's log says what failed.")
        })
    }
    fn tell(&self, request: Request) {
        self.host.tell(request);
    }
    fn node(&self) -> NodeId {
        self.host.id()
    }
    fn topology(&self) -> &Arc<Topology> {
        &self.topology
    }
    fn catalog(&self) -> Arc<Catalog> {
        self.catalog.now()
    }
    fn regions(&self) -> Vec<RegionHealth> {
        self.host.inspect(|served| served.node().regions())
    }
    fn procedures(&self) -> &Arc<Procedures> {
        &self.procedures
    }
    fn now(&self) -> Time {
        self.host.now()
    }
    fn is_complete_to(&self, rank: Rank) -> bool {
        self.host.inspect(|served| served.node().is_complete_to(rank))
    }
    fn incarnation(&self) -> Incarnation {
        self.incarnation
    }
    fn engine(&self) -> &str {
        &self.engine
    }
    fn copies_elsewhere(&self) -> usize {
        self.copies_elsewhere
    }
    fn read_only(&self) -> Option<&str> {
        self.writer.as_ref().map(|writer| writer.hint.as_str())
    }
    fn has_replicas(&self) -> bool {
        self.replicas.as_ref().is_some_and(|replicas| replicas.any())
    }
    async fn read_at_replica(
        &self,
        policy: ReadPolicy,
        read: &ReadRows,
    ) -> Result<(NodeId, Rows), NotAtReplica> {
        match &self.replicas {
            Some(replicas) => replicas.read(policy, read).await,
            None => Err(NotAtReplica::NoneServes),
        }
    }
    fn replicas(&self) -> Vec<ReplicaHealth> {
        self.replicas.as_ref().map_or_else(Vec::new, |replicas| replicas.health())
    }
    fn command_replica(&self, node: NodeId, command: ReplicaCommand) -> SqlResult<()> {
        let unknown = || {
            let message = format!("{node} is no replica of this region");
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
        };
        self.replicas.as_ref().ok_or_else(unknown)?.command(node, command)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use base::time::MS;
    use base::wan::Wan;
    use runtime::LocalCluster;
    use std::sync::mpsc;
    use txn::any::EngineKind;

    /// Two regions of one node each.
    pub fn cluster() -> LocalCluster<DatabaseNode> {
        let wan = Wan::uniform("test", &["a", "b"], MS, MS);
        let topology = EngineKind::Caerus.layout(Topology::one_node_per_region(wan, 1));
        let topology = Arc::new(topology);
        LocalCluster::start(topology.clone(), |id| {
            let engine = AnyEngine::new(topology.clone(), id, 1, EngineKind::Caerus.options());
            Node::new(id, topology.clone(), Arc::default(), engine, node::Options::default())
        })
    }

    /// Each statement looks the catalog up. It once asked the node, behind the lock that the node's steps hold, so that a
    /// step over a large range of rows held up every session that only wanted to plan.
    #[test]
    fn the_catalog_is_looked_up_while_the_node_is_busy() {
        let cluster = cluster();
        let host = cluster.hosts()[0].clone();
        let member = Member {
            topology: cluster.topology().clone(),
            procedures: Arc::default(),
            engine: EngineKind::Caerus.name().into(),
            copies_elsewhere: 0,
            incarnation: Incarnation::default(),
            catalog: PublishedCatalog::of(&host),
            replicas: None,
            writer: None,
            host: host.clone(),
        };
        let (found, looked_up) = mpsc::channel();
        std::thread::scope(|scope| {
            host.inspect(|node| {
                scope.spawn(|| found.send(member.catalog()));
                let catalog = looked_up.recv_timeout(Duration::from_secs(10)).expect("it does not wait");
                assert!(node.has_catalog(&catalog), "the node's own, not a copy from before");
            });
        });
    }
}
