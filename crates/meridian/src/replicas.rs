//! The read-only replicas of a region, as its node's sessions reach them: those in this process here, those in processes of
//! their own in [`remote`].
//!
//! IN: reads with a policy; commands of an administrator. OUT: rows, or why there are none: then the region's node answers.
//! KEEPS: a replica that is drained or stands still gets no new reads; one that is restarted begins without its memory
//! and catches up from a copy, while reads that it cannot answer go to the region's node.

mod load;
pub mod remote;

use crate::member::{DatabaseNode, Replicas, Served};
use async_trait::async_trait;
use base::error::{SqlError, SqlResult, SqlState};
use base::time::MS;
use base::topology::Topology;
use base::{NodeId, RegionId};
use node::request::{ReadRows, Reply, Request, Rows};
use node::{Kept, Options, ReadPolicy, Streaming};
use runtime::{Host, LocalCluster};
use session::{NotAtReplica, ReplicaCommand, ReplicaHealth};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};
use std::time::Duration;

use load::Load;

/// How a node behaves in a cluster that may have replicas.
pub fn options(topology: &Topology, id: NodeId, options: Options) -> Options {
    let is_replica = topology.is_replica(id);
    let has_replicas = topology.node_ids().any(|node| topology.is_replica(node));
    Options {
        kept: Kept { columns: !is_replica, rows: is_replica, ..options.kept },
        // Who looks for last writers waits for records without telling anybody.
        streaming: if has_replicas {
            Streaming { flush_ns: MS, ..options.streaming }
        } else {
            options.streaming
        },
        ..options
    }
}

/// A replica that waits for too long passes a read on by itself, much sooner than this; one that is silent for so long is
/// taken for lost.
const SILENCE_MAX: Duration = Duration::from_secs(2);

/// Makes a node, in its how-manyth life. One that had another before has lost what it knew.
pub type Make = Arc<dyn Fn(NodeId, u32) -> DatabaseNode + Send + Sync>;

/// See the module.
pub struct ReplicaSet<P: Served> {
    replicas: Vec<Replica<P>>,
    /// Where looking for the least loaded one begins, so that idle ones take turns.
    next: AtomicUsize,
    /// A replica that knows nothing, in its how-manyth life; `None`: of a process of its own.
    make: Option<Box<dyn Fn(NodeId, u32) -> P + Send + Sync>>,
}

struct Replica<P: Served> {
    host: Arc<Host<P>>,
    /// Of a process of its own.
    name: Option<String>,
    is_drained: AtomicBool,
    load: Load,
    lives: AtomicU32,
}

impl ReplicaSet<DatabaseNode> {
    /// Those of a region; `None`: it has none.
    pub fn of(
        cluster: &LocalCluster<DatabaseNode>,
        region: RegionId,
        make: Make,
    ) -> Option<Arc<dyn Replicas>> {
        let topology = cluster.topology();
        let hosts = cluster.hosts_of(region).filter(|host| topology.is_replica(host.id()));
        let replicas: Vec<_> = hosts.cloned().map(|host| Replica::new(host, None)).collect();
        let make: Option<Box<dyn Fn(NodeId, u32) -> DatabaseNode + Send + Sync>> =
            Some(Box::new(move |id, life| make(id, life)));
        let next = AtomicUsize::new(0);
        (!replicas.is_empty()).then(|| Arc::new(ReplicaSet { replicas, next, make }) as Arc<dyn Replicas>)
    }

    /// The replica that this process is, for its own sessions.
    pub fn of_process(host: &Arc<Host<DatabaseNode>>, name: &str) -> Arc<dyn Replicas> {
        let replicas = vec![Replica::new(host.clone(), Some(name.to_string()))];
        Arc::new(ReplicaSet { replicas, next: AtomicUsize::new(0), make: None })
    }
}

#[async_trait]
impl<P: Served> Replicas for ReplicaSet<P> {
    /// At the least loaded one.
    async fn read(&self, policy: ReadPolicy, read: &ReadRows) -> Result<(NodeId, Rows), NotAtReplica> {
        let replica = self.least_loaded().ok_or(NotAtReplica::NoneServes)?;
        let _under_way = replica.load.begin();
        let request = Request::ReadRowsUnder { policy, read: read.clone() };
        let id = replica.host.id();
        let why = match tokio::time::timeout(SILENCE_MAX, replica.host.request(request)).await {
            Ok(Ok(Reply::Rows(Ok(rows)))) => {
                replica.load.answered(policy, &rows);
                return Ok((id, rows));
            }
            Ok(Ok(Reply::Rows(Err(error)))) => NotAtReplica::Refused(id, error),
            Ok(Ok(_)) | Ok(Err(_)) | Err(_) => NotAtReplica::Lost(id),
        };
        replica.load.fell_back();
        Err(why)
    }

    fn any(&self) -> bool {
        true
    }

    fn health(&self) -> Vec<ReplicaHealth> {
        self.replicas.iter().map(Replica::health).collect()
    }

    fn command(&self, node: NodeId, command: ReplicaCommand) -> SqlResult<()> {
        let replica = self.replicas.iter().find(|replica| replica.host.id() == node).ok_or_else(|| {
            let message = format!("{node} is no replica of this region");
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
                .hint("SELECT node FROM meridian.replicas lists them.")
        })?;
        let host = &replica.host;
        match command {
            ReplicaCommand::Drain => replica.is_drained.store(true, Relaxed),
            ReplicaCommand::Undrain => replica.is_drained.store(false, Relaxed),
            ReplicaCommand::Pause => host.halt(),
            ReplicaCommand::Resume => host.resume(),
            ReplicaCommand::Restart => {
                let Some(make) = &self.make else { return Err(remote::is_a_process("restart")) };
                host.halt();
                let life = replica.lives.fetch_add(1, Relaxed) + 1;
                host.begin_again(make(node, life));
            }
        }
        Ok(())
    }
}

impl<P: Served> ReplicaSet<P> {
    fn least_loaded(&self) -> Option<&Replica<P>> {
        let first = self.next.fetch_add(1, Relaxed);
        let in_turn = (0..self.replicas.len()).map(|nth| &self.replicas[(first + nth) % self.replicas.len()]);
        let serving = in_turn.filter(|replica| replica.state_of_host() == "serving");
        serving.min_by_key(|replica| replica.load.under_way())
    }
}

impl<P: Served> Replica<P> {
    fn new(host: Arc<Host<P>>, name: Option<String>) -> Replica<P> {
        let (is_drained, load, lives) = (AtomicBool::new(false), Load::default(), AtomicU32::new(1));
        Replica { host, name, is_drained, load, lives }
    }

    fn state_of_host(&self) -> &'static str {
        match () {
            () if self.host.is_gone() => "failed",
            () if self.host.is_halted() => "stopped",
            () if self.is_drained.load(Relaxed) => "drained",
            () => "serving",
        }
    }

    fn health(&self) -> ReplicaHealth {
        let state = self.state_of_host();
        let report = self.host.inspect(|served| served.node().replica_report());
        let is_up = state == "serving" || state == "drained";
        let now = self.host.now();
        ReplicaHealth {
            state: if state == "serving" && report.complete.is_none() { "copying" } else { state },
            behind_ns: report.complete.filter(|_| is_up).map(|complete| now.since(complete.time())),
            ..self.load.health(self.host.id(), self.name.clone(), &report)
        }
    }
}
