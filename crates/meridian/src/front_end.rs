//! Where a node's clients come in: its gateway, its front end, and the threads that serve them.

use crate::connection_threads::ConnectionThreads;
use crate::database::DatabaseArgs;
use crate::member::{Member, PublishedCatalog, Replicas, Served, Writer};
use crate::query_threads::QueryThreadsPool;
use crate::sequence_counts::CountsFile;
use base::cut::Incarnation;
use base::topology::Topology;
use base::txn::procedure::Procedures;
use base::{NodeId, RegionId};
use runtime::{Host, LocalCluster};
use server::auth::Authenticator;
use session::notifications::Notifications;
use session::{Gateway, GatewayConfig};
use sql::generators::KeptCounts;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// Where one node's clients come in.
pub struct FrontEnd {
    server: Arc<server::Server>,
    pub gateway: Arc<Gateway>,
    pub address: SocketAddr,
    pub region: RegionId,
    /// Accepts and serves connections; nobody listens while it is empty.
    pub serving: JoinSet<std::io::Result<()>>,
    /// What it runs on.
    pub threads: ConnectionThreads,
    /// Ends queries under way when it is dropped.
    _query_threads: QueryThreadsPool,
}

impl FrontEnd {
    /// Ends all sessions where nothing of them is lost; see [`server::Server::drain`].
    pub async fn drain(&self, patience: Duration) -> usize {
        self.server.drain(patience).await
    }
    pub fn open(&mut self, listener: TcpListener) {
        self.serving.spawn_on(self.server.clone().serve(listener), self.threads.handle());
        let gateway = self.gateway.clone();
        let serves_locks = async move {
            tokio::select! {
                () = gateway.clone().serve_locks() => {}
                () = gateway.clone().keep_advisory_locks() => {}
                () = gateway.clone().keep_counts_told() => {}
                () = gateway.drop_left_tables() => {}
            }
            Ok(())
        };
        self.serving.spawn_on(serves_locks, self.threads.handle());
    }
}

/// Listens with the threads of a region: who accepts has to be who listens.
pub async fn bind(threads: &ConnectionThreads, address: SocketAddr) -> std::io::Result<TcpListener> {
    threads.handle().spawn(server::Server::bind(address)).await?
}

/// Who answers beside a front end's node.
#[derive(Default)]
pub struct Beside {
    pub replicas: Option<Arc<dyn Replicas>>,
    /// Who takes writes, if the node is a replica in a process of its own.
    pub writer: Option<Writer>,
    /// What sessions of the process tell each other.
    pub notifications: Arc<Notifications>,
    /// Other nodes are told of what is kept in the node's directory alone: one that is lost may be replaced.
    pub is_replaceable: bool,
}

impl Beside {
    pub fn replicas(replicas: Arc<dyn Replicas>) -> Beside {
        Beside { replicas: Some(replicas), ..Beside::default() }
    }
}

/// What every front end needs.
pub struct Front<'a> {
    pub args: &'a DatabaseArgs,
    pub procedures: &'a Arc<Procedures>,
    pub authenticator: &'a Arc<Authenticator>,
    /// Where nodes keep their data.
    pub data: Option<&'a Path>,
}

impl Front<'_> {
    /// A front end for each node that is no replica.
    pub fn open<P: Served>(
        &self,
        cluster: &LocalCluster<P>,
        incarnation: Incarnation,
        listeners: Vec<(ConnectionThreads, TcpListener)>,
        replicas: &dyn Fn(RegionId) -> Option<Arc<dyn Replicas>>,
    ) -> anyhow::Result<Vec<FrontEnd>> {
        let topology = cluster.topology();
        let serving = cluster.hosts().iter().filter(|host| !topology.is_replica(host.id()));
        let nodes = serving.zip(listeners);
        let notifications: Arc<Notifications> = Arc::default();
        let open = |(host, way_in): (&Arc<Host<P>>, _)| {
            let replicas = replicas(topology.region_of(host.id()));
            let beside = Beside { replicas, notifications: notifications.clone(), ..Beside::default() };
            self.open_one(host, topology, incarnation, way_in, beside)
        };
        nodes.map(open).collect()
    }

    fn kept_counts(&self, node: NodeId) -> anyhow::Result<Option<Arc<dyn KeptCounts>>> {
        let Some(data) = self.data else { return Ok(None) };
        Ok(Some(Arc::new(CountsFile::open(data, node)?)))
    }

    /// A node's.
    pub fn open_one<P: Served>(
        &self,
        host: &Arc<Host<P>>,
        topology: &Arc<Topology>,
        incarnation: Incarnation,
        (threads, listener): (ConnectionThreads, TcpListener),
        Beside { replicas, writer, notifications, is_replaceable }: Beside,
    ) -> anyhow::Result<FrontEnd> {
        let address = listener.local_addr()?;
        let member = Member {
            host: host.clone(),
            topology: topology.clone(),
            procedures: self.procedures.clone(),
            engine: self.args.engine.clone(),
            copies_elsewhere: usize::from(self.args.survive),
            incarnation,
            catalog: PublishedCatalog::of(host),
            replicas,
            writer,
        };
        let query_threads = QueryThreadsPool::start()?;
        let config = GatewayConfig {
            query_memory_bytes: (self.args.memory.query_memory_mib as usize) << 20,
            query_threads_pool: Some(Arc::new(query_threads.clone())),
            kept_counts: self.kept_counts(host.id())?,
            tells_counts: is_replaceable,
            notifications,
            ..Default::default()
        };
        let gateway = Gateway::new(Arc::new(member), config);
        let mut front_end = FrontEnd {
            server: server::Server::new(gateway.clone(), self.args.limits()?, self.authenticator.clone()),
            gateway,
            address,
            region: topology.region_of(host.id()),
            serving: JoinSet::new(),
            threads,
            _query_threads: query_threads,
        };
        front_end.open(listener);
        Ok(front_end)
    }
}
