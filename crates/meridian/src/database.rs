//! A whole database in this process: nodes, gateways, front ends.

use crate::query_threads::QueryThreads;
use anyhow::{Context, anyhow};
use async_trait::async_trait;
use base::error::{SqlError, SqlResult, SqlState};
use base::schema::Catalog;
use base::topology::Topology;
use base::txn::procedure::Procedures;
use base::wan::Wan;
use base::{NodeId, Time};
use node::request::{Reply, Request};
use node::{Node, Options};
use query::{Cluster, Gateway, GatewayConfig};
use runtime::{Host, LocalCluster};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use txn::any::{AnyEngine, EngineKind};

type DatabaseNode = Node<AnyEngine>;

/// What to build.
#[derive(clap::Args, Clone, Debug)]
pub struct DatabaseArgs {
    /// Regions and the delays between them: perseus3, perseus5, china3, azure6 or local
    #[arg(long, env = "MERIDIAN_WAN", default_value = "perseus3", value_parser = wan)]
    pub wan: Wan,
    /// Only these regions of --wan, e.g. us or us,eu; the first one listens on --port
    #[arg(long, env = "MERIDIAN_REGIONS", value_delimiter = ',', value_name = "REGION,…")]
    pub regions: Vec<String>,
    /// Engine that orders transactions
    #[arg(
        long,
        env = "MERIDIAN_ENGINE",
        default_value = "perseus",
        value_parser = EngineKind::ALL.map(EngineKind::name)
    )]
    pub engine: String,
    /// Partitions per region
    #[arg(long, env = "MERIDIAN_PARTITIONS", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub partitions: u16,
    /// Address to listen on; there is no authentication yet
    #[arg(long, env = "MERIDIAN_LISTEN", default_value = "127.0.0.1")]
    pub listen: IpAddr,
    /// Port of the first region; the others follow
    #[arg(long, env = "MERIDIAN_PORT", default_value_t = 26257)]
    pub port: u16,
    /// Memory for analytical queries per region, in MiB
    #[arg(long, env = "MERIDIAN_QUERY_MEMORY_MIB", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(16..))]
    pub query_memory_mib: u64,
}

fn wan(name: &str) -> Result<Wan, String> {
    Wan::preset(name).ok_or_else(|| format!("no such preset; known are {}", base::wan::PRESETS.join(", ")))
}

impl DatabaseArgs {
    fn engine(&self) -> anyhow::Result<EngineKind> {
        EngineKind::parse(&self.engine).ok_or_else(|| anyhow!("no engine {:?}", self.engine))
    }
    /// Who is where. Errors: a region that `--wan` does not have.
    fn topology(&self) -> anyhow::Result<Topology> {
        let mut wan = self.wan.clone();
        if !self.regions.is_empty() {
            let names: Vec<&str> = self.regions.iter().map(String::as_str).collect();
            wan = wan.only(&names).map_err(|e| anyhow!("--regions {}: {e}", self.regions.join(",")))?;
        }
        Ok(self.engine()?.layout(Topology::one_node_per_region(wan, self.partitions)))
    }
}

/// A running database; dropping it stops every node.
pub struct Database {
    cluster: LocalCluster<DatabaseNode>,
    /// Ends queries under way when the database is dropped.
    _query_threads: QueryThreads,
    pub regions: Vec<Region>,
}

/// One region's way in.
#[derive(Clone)]
pub struct Region {
    pub name: String,
    pub address: SocketAddr,
}

impl Region {
    pub fn url(&self) -> String {
        format!("postgres://root@{}/meridian", self.address)
    }
    /// A line to paste into a shell.
    pub fn psql(&self) -> String {
        format!("psql -h {} -p {} -U root meridian", self.address.ip(), self.address.port())
    }
}

impl Database {
    /// Starts nodes and front ends; call it inside a tokio runtime. Errors: a port in use, a listen
    /// address that is not ours.
    pub async fn start(args: &DatabaseArgs) -> anyhow::Result<Database> {
        let topology = Arc::new(args.topology()?);
        let procedures = Arc::new(workload::procedures());
        // Ports first: nothing is started if one is taken.
        let mut listeners = Vec::new();
        for node in topology.node_ids() {
            let address = SocketAddr::new(args.listen, port(args.port, node)?);
            let listener = server::Server::bind(address)
                .await
                .with_context(|| format!("cannot listen on {address}; choose another port with --port"))?;
            listeners.push(listener);
        }
        let engine = args.engine()?;
        let cluster = LocalCluster::start(topology.clone(), |id| {
            let engine = AnyEngine::new(topology.clone(), id, 1, engine.options());
            Node::new(id, topology.clone(), procedures.clone(), engine, Options::default())
        });
        let query_threads = QueryThreads::start()?;
        let mut regions = Vec::new();
        for (host, listener) in cluster.hosts().iter().zip(listeners) {
            let region = topology.region_of(host.id());
            let address = listener.local_addr()?;
            let member = Member {
                host: host.clone(),
                topology: topology.clone(),
                procedures: procedures.clone(),
                engine: args.engine.clone(),
            };
            let config = GatewayConfig {
                query_memory_bytes: (args.query_memory_mib as usize) << 20,
                query_runtime: Some(query_threads.handle().clone()),
                ..Default::default()
            };
            let gateway = Gateway::new(Arc::new(member), config);
            let front_end = server::Server::new(gateway, server::Limits::default());
            #[expect(
                clippy::disallowed_methods,
                reason = "a front end lives as long as the process; its connections report their own ends"
            )]
            tokio::spawn(front_end.serve(listener));
            let name = topology.region_name(region).to_string();
            regions.push(Region { name, address });
        }
        Ok(Database { cluster, _query_threads: query_threads, regions })
    }

    pub fn topology(&self) -> &Arc<Topology> {
        self.cluster.topology()
    }

    /// The first node that has stopped, if any.
    pub fn stopped(&self) -> Option<NodeId> {
        self.cluster.hosts().iter().find(|h| h.is_gone()).map(|h| h.id())
    }
}

fn port(first: u16, node: NodeId) -> anyhow::Result<u16> {
    // Port 0 asks the system for any free port, for each region anew.
    if first == 0 {
        return Ok(0);
    }
    first.checked_add(node.0).ok_or_else(|| anyhow!("--port {first} leaves no ports for all regions"))
}

/// A node as its sessions see it.
struct Member {
    host: Arc<Host<DatabaseNode>>,
    topology: Arc<Topology>,
    procedures: Arc<Procedures>,
    engine: String,
}

#[async_trait]
impl Cluster for Member {
    async fn request(&self, request: Request) -> SqlResult<Reply> {
        self.host.request(request).await.map_err(|_| {
            SqlError::new(SqlState::ADMIN_SHUTDOWN, format!("node {} has stopped", self.host.id()))
                .detail("An invariant did not hold; a failed node stops rather than guess.")
                .hint("Connect to another region; the server's log says what failed.")
        })
    }
    fn node(&self) -> NodeId {
        self.host.id()
    }
    fn topology(&self) -> &Arc<Topology> {
        &self.topology
    }
    fn catalog(&self) -> Arc<Catalog> {
        self.host.inspect(|node| node.catalog())
    }
    fn procedures(&self) -> &Arc<Procedures> {
        &self.procedures
    }
    fn now(&self) -> Time {
        self.host.now()
    }
    fn engine(&self) -> &str {
        &self.engine
    }
}
