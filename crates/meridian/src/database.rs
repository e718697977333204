//! A whole database in this process: nodes, gateways, front ends; in memory, or kept in a directory.

use crate::connection_threads::ConnectionThreads;
use crate::member::{DatabaseNode, Member, PublishedCatalog, Served};
use crate::query_threads::QueryThreadsPool;
use anyhow::{Context, anyhow, bail};
use base::cut::Incarnation;
use base::rng::Rng;
use base::time::MS;
use base::topology::Topology;
use base::txn::procedure::Procedures;
use base::wan::Wan;
use base::{NodeId, RegionId};
use node::clocks::ClockOptions;
use node::durable::{self, Durable, Groups};
use node::{Node, Options};
use runtime::{DataDir, Host, LocalCluster};
use session::{Gateway, GatewayConfig, OldVersions};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use txn::any::{AnyEngine, EngineKind, EngineOptions};
use txn::engine::Engine;

/// What to build.
#[derive(clap::Args, Clone, Debug)]
pub struct DatabaseArgs {
    /// Regions and the delays between them: perseus3, perseus5, china3, azure6 or local
    #[arg(long, env = "MERIDIAN_WAN", default_value = "perseus3", value_parser = wan)]
    pub wan: Wan,
    /// Only these regions of --wan, e.g. us or us,eu; the first one listens on --port
    #[arg(long, env = "MERIDIAN_REGIONS", value_delimiter = ',', value_name = "REGION,…")]
    pub regions: Vec<String>,
    /// Engine that orders transactions. caerus: a full copy in every region, one WAN round trip for a transaction
    /// that spans regions; perseus: one copy of each partition, two round trips; slog, calvin: baselines
    #[arg(
        long,
        env = "MERIDIAN_ENGINE",
        default_value = EngineKind::default().name(),
        value_parser = EngineKind::ALL.map(EngineKind::name)
    )]
    pub engine: String,
    /// Regions that may be lost without losing an answered transaction (K; engine caerus). Each commit waits until
    /// K other regions have it; with 2K + 1 regions the rest goes on without K
    #[arg(long, env = "MERIDIAN_SURVIVE", value_name = "K", default_value_t = 0)]
    pub survive: u8,
    /// Bound of the clocks' error (ε), e.g. 5 or 5ms; 0: all nodes share one clock, as in one process. A commit
    /// inside one region waits twice as long; a node whose clock is provably wrong fences itself
    #[arg(long, env = "MERIDIAN_CLOCK_BOUND", value_name = "MS", default_value = "0", value_parser = clock_bound)]
    pub clock_bound: Duration,
    /// Whether the clocks' error has a bound. Without one a query asks each region that it reads how far its order
    /// has come, a round trip, and level rss is refused: the order of transactions that do not conflict need not
    /// follow real time (engines caerus, slog, calvin)
    #[arg(long, env = "MERIDIAN_CLOCKS", value_enum, default_value_t = Clocks::Bounded)]
    pub clocks: Clocks,
    /// Partitions per region
    #[arg(long, env = "MERIDIAN_PARTITIONS", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub partitions: u16,
    /// Columns that a region keeps: of all partitions, or of its own. With own, a query over other regions' data
    /// becomes a distributed scan at one cut
    #[arg(long, env = "MERIDIAN_COLUMNS", value_enum, default_value_t = Columns::All)]
    pub columns: Columns,
    /// Address to listen on; there is no authentication yet
    #[arg(long, env = "MERIDIAN_LISTEN", default_value = "127.0.0.1")]
    pub listen: IpAddr,
    /// Port of the first region; the others follow
    #[arg(long, env = "MERIDIAN_PORT", default_value_t = 26257)]
    pub port: u16,
    /// Connections that a region serves at once; one more is refused (53300)
    #[arg(long, env = "MERIDIAN_MAX_CONNECTIONS", value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub max_connections: u32,
    /// Connections of these that are reserved for user root
    #[arg(long, env = "MERIDIAN_RESERVED_CONNECTIONS", value_name = "N", default_value_t = 3)]
    pub reserved_connections: u32,
    /// Connections of one address to a region, an IPv6 /64 counting as one. The default is four fifths of those
    /// that are not reserved, and no limit for the machine itself, where poolers and drivers share an address
    #[arg(long, env = "MERIDIAN_MAX_CONNECTIONS_PER_ADDRESS", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_connections_per_address: Option<u32>,
    /// Time that a client has to send its start-up message, e.g. 10s or 500ms
    #[arg(long, env = "MERIDIAN_AUTHENTICATION_TIMEOUT", value_name = "TIME", default_value = "10s", value_parser = short_time)]
    pub authentication_timeout: Duration,
    /// Memory for queries and for rows that sessions buffer, per region, in MiB
    #[arg(long, env = "MERIDIAN_QUERY_MEMORY_MIB", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(16..))]
    pub query_memory_mib: u64,
    /// Old versions of rows that a region keeps for open transactions, in MiB: beyond it the oldest transaction ends
    /// with 72000, snapshot too old
    #[arg(long, env = "MERIDIAN_OLD_VERSIONS_MIB", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..))]
    pub old_versions_mib: u64,
    /// A transaction whose snapshot is older than this, in seconds, ends with 72000
    #[arg(long, env = "MERIDIAN_OLD_VERSIONS_AGE", value_name = "SECONDS", default_value_t = 3600, value_parser = clap::value_parser!(u64).range(1..))]
    pub old_versions_age: u64,
}

/// What is known of clocks.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clocks {
    Bounded,
    Unbounded,
}

/// Which columns a region keeps.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Columns {
    All,
    Own,
}

fn wan(name: &str) -> Result<Wan, String> {
    Wan::preset(name).ok_or_else(|| format!("no such preset; known are {}", base::wan::PRESETS.join(", ")))
}

/// `10s` or `500ms`, up to an hour.
fn short_time(text: &str) -> Result<Duration, String> {
    let wrong = || format!("'{text}' is no time from 1ms to 1h; give e.g. 10s or 500ms");
    let (number, unit) = text.split_at(text.find(|c: char| c.is_alphabetic()).unwrap_or(text.len()));
    let number: u64 = number.trim().parse().map_err(|_| wrong())?;
    let time = match unit {
        "ms" => Duration::from_millis(number),
        "s" => Duration::from_secs(number),
        "min" => number.checked_mul(60).map(Duration::from_secs).ok_or_else(wrong)?,
        _ => return Err(wrong()),
    };
    let range = Duration::from_millis(1)..=Duration::from_secs(3600);
    range.contains(&time).then_some(time).ok_or_else(wrong)
}

/// `5`, `0.5` or `5ms`. A second is more than anyone would wait for a commit.
fn clock_bound(text: &str) -> Result<Duration, String> {
    let wrong = || format!("'{text}' is no clock bound; give ms from 0 to 1000, e.g. 5 or 5ms");
    let ms: f64 = text.trim().trim_end_matches("ms").trim_end().parse().map_err(|_| wrong())?;
    if (0.0..=1000.0).contains(&ms) { Ok(Duration::from_secs_f64(ms / 1000.0)) } else { Err(wrong()) }
}

impl DatabaseArgs {
    fn engine(&self) -> anyhow::Result<EngineKind> {
        EngineKind::parse(&self.engine).ok_or_else(|| anyhow!("no engine {:?}", self.engine))
    }
    /// Errors: more regions to survive than the engine can in this cluster.
    fn engine_options(&self, topology: &Topology) -> anyhow::Result<EngineOptions> {
        let survive = usize::from(self.survive);
        self.engine()?.options().surviving(survive, topology).map_err(|error| {
            let more = [&error.detail, &error.hint].map(|text| text.clone().unwrap_or_default()).join(" ");
            anyhow!("--survive {survive}: {}. {}", error.message, more.trim())
        })
    }
    fn limits(&self) -> anyhow::Result<server::Limits> {
        if self.reserved_connections >= self.max_connections {
            bail!(
                "--reserved-connections {} leaves no place of --max-connections {} to other users",
                self.reserved_connections,
                self.max_connections
            );
        }
        Ok(server::Limits {
            connections_max: self.max_connections as usize,
            connections_reserved: self.reserved_connections as usize,
            connections_per_address_max: self.max_connections_per_address.map(|n| n as usize),
            authentication_timeout: self.authentication_timeout,
            ..server::Limits::default()
        })
    }
    /// Who is where. Errors: a region that `--wan` does not have.
    fn topology(&self) -> anyhow::Result<Topology> {
        let mut wan = self.wan.clone();
        if !self.regions.is_empty() {
            let names: Vec<&str> = self.regions.iter().map(String::as_str).collect();
            wan = wan.only(&names).map_err(|e| anyhow!("--regions {}: {e}", self.regions.join(",")))?;
        }
        let mut topology = Topology::one_node_per_region(wan, self.partitions);
        if self.columns == Columns::Own {
            for id in topology.node_ids() {
                topology.nodes[id.0 as usize].subscribes = topology.partitions_at(id).collect();
            }
        }
        topology.clock_bound_ns = self.clock_bound.as_nanos() as u64;
        topology.unbounded_clocks = self.clocks == Clocks::Unbounded;
        if topology.unbounded_clocks && topology.clock_bound_ns > 0 {
            bail!("--clocks unbounded and --clock-bound contradict each other; give one of them");
        }
        let engine = self.engine()?;
        engine.check_clocks(&topology).map_err(|error| {
            anyhow!("--clocks unbounded: {}. {}", error.message, error.hint.clone().unwrap_or_default())
        })?;
        Ok(engine.layout(topology))
    }
}

/// Where data is kept.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct DataArgs {
    /// Keep data in this directory: what was answered survives the process. Without it data is in memory only
    #[arg(long, env = "MERIDIAN_DATA", value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Open a directory that another build of meridian wrote. Its log is replayed by this one, which may give
    /// other results than were answered
    #[arg(long, env = "MERIDIAN_ANY_BUILD")]
    pub any_build: bool,
}

/// Makes a node, in its how-manyth life. One that had another before has lost what it knew.
type Make = Box<dyn Fn(NodeId, u32) -> DatabaseNode + Send + Sync>;

/// The nodes of this process.
enum Nodes {
    Memory {
        cluster: LocalCluster<DatabaseNode>,
        make: Make,
    },
    /// The directory is locked as long as the nodes run.
    Kept {
        cluster: LocalCluster<Durable<DatabaseNode>>,
        _directory: DataDir,
    },
}

/// How often nodes of a database that nobody uses look around; the same where all that happens is written to a log.
const IDLE_NS: u64 = 20 * MS;
const QUIET_IDLE_NS: u64 = 250 * MS;

/// A running database; dropping it stops every node.
pub struct Database {
    nodes: Nodes,
    front_ends: Vec<FrontEnd>,
    /// Gives up snapshots of transactions that are open for too long.
    _old_versions: JoinSet<()>,
    /// Messages that nodes have refused, as far as the log tells: by node, sender and reason.
    refusals: Mutex<Refusals>,
    /// Killed regions that have lost what they knew.
    forgetful: BTreeSet<RegionId>,
    /// Nobody listens there before they have recovered.
    returning: BTreeSet<RegionId>,
    lives: u32,
    pub regions: Vec<Region>,
}

/// Where one node's clients come in.
struct FrontEnd {
    server: Arc<server::Server>,
    gateway: Arc<Gateway>,
    address: SocketAddr,
    region: RegionId,
    /// Accepts and serves connections; nobody listens while it is empty.
    serving: JoinSet<std::io::Result<()>>,
    /// What it runs on.
    threads: ConnectionThreads,
    /// Ends queries under way when it is dropped.
    _query_threads: QueryThreadsPool,
}

impl FrontEnd {
    fn open(&mut self, listener: TcpListener) {
        self.serving.spawn_on(self.server.clone().serve(listener), self.threads.handle());
        let gateway = self.gateway.clone();
        let serves_locks = async move {
            gateway.serve_locks().await;
            Ok(())
        };
        self.serving.spawn_on(serves_locks, self.threads.handle());
    }
}

/// Listens with the threads of a region: who accepts has to be who listens.
async fn bind(threads: &ConnectionThreads, address: SocketAddr) -> std::io::Result<TcpListener> {
    threads.handle().spawn(server::Server::bind(address)).await?
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
    /// address that is not ours, a directory that cannot be used.
    pub async fn start(args: &DatabaseArgs, data: &DataArgs) -> anyhow::Result<Database> {
        let topology = Arc::new(args.topology()?);
        args.limits()?;
        let engine = args.engine_options(&topology)?;
        if let Some(warning) = engine.survival_warning(&topology) {
            eprintln!("warning: --survive {}: {warning}.", args.survive);
        }
        let procedures = Arc::new(workload::procedures());
        // Ports first: nothing is started if one is taken.
        let mut listeners = Vec::new();
        for node in topology.node_ids() {
            let address = SocketAddr::new(args.listen, port(args.port, node)?);
            let threads = ConnectionThreads::start(topology.region_name(topology.region_of(node)))?;
            let listener = bind(&threads, address)
                .await
                .with_context(|| format!("cannot listen on {address}; choose another port with --port"))?;
            listeners.push((threads, listener));
        }
        let idle_ns = if data.data.is_some() { QUIET_IDLE_NS } else { IDLE_NS };
        let engine = engine.resting(idle_ns);
        let nodes_of = (topology.clone(), procedures.clone());
        let node = move |id, life, options: Options| {
            let (topology, procedures) = nodes_of.clone();
            let make = if life == 1 { AnyEngine::new } else { AnyEngine::rejoining };
            let engine = make(topology.clone(), id, life, engine.clone());
            Node::new(id, topology, procedures, engine, options)
        };
        // Delays are emulated: no message is faster. Asked so often, a clock that runs off is found in time.
        let clocks = ClockOptions { every_ns: 250 * MS, least_delays: true, ..ClockOptions::default() };
        let clocks = Some(clocks);
        let front = Front { args, procedures: &procedures };
        let (nodes, front_ends) = match &data.data {
            None => {
                // Empty logs: a life of its own.
                let incarnation = Incarnation(runtime::clock::Clock::new().now().0);
                let options = Options { incarnation, clocks, ..Options::default() };
                let make: Make = Box::new(move |id, life| node(id, life, options.clone()));
                let cluster = LocalCluster::start(topology.clone(), |id| make(id, 1));
                let front_ends = front.open(&cluster, incarnation, listeners)?;
                (Nodes::Memory { cluster, make }, front_ends)
            }
            Some(path) => {
                let directory = open_directory(path, args, data.any_build)?;
                directory.check_complete(topology.node_ids()).map_err(|error| anyhow!("{error}"))?;
                let incarnation = directory.incarnation();
                // Whatever happens at a node is written to its log, so little happens by itself.
                let quiet = Options {
                    low_interval_ns: 100 * MS,
                    maintain_interval_ns: 250 * MS,
                    incarnation,
                    clocks,
                    ..Options::default()
                };
                let groups = Arc::new(Groups::of(topology.nodes.len(), 1));
                let mut kept = Vec::new();
                for id in topology.node_ids() {
                    let (log, records) = directory.log(id)?;
                    let rng = Rng::new(u64::from(id.0));
                    let options = durable::Options::default();
                    let node = node(id, 1, quiet.clone());
                    let durable = Durable::new(id, groups.clone(), options, rng, &records, node)
                        .with_context(|| log.path().display().to_string())?;
                    kept.push((durable, log));
                }
                let cluster = LocalCluster::start_with_logs(topology.clone(), kept);
                replayed(&cluster).await?;
                let front_ends = front.open(&cluster, incarnation, listeners)?;
                (Nodes::Kept { cluster, _directory: directory }, front_ends)
            }
        };
        let limits = OldVersions {
            bytes_max: args.old_versions_mib << 20,
            age_max: Duration::from_secs(args.old_versions_age),
        };
        let mut old_versions = JoinSet::new();
        let gateways = front_ends.iter().map(|end| end.gateway.clone()).collect();
        old_versions.spawn(session::limit_old_versions(gateways, limits));
        let name = |end: &FrontEnd| topology.region_name(end.region).to_string();
        let regions = front_ends.iter().map(|end| Region { name: name(end), address: end.address }).collect();
        Ok(Database {
            nodes,
            front_ends,
            _old_versions: old_versions,
            refusals: Mutex::default(),
            forgetful: BTreeSet::new(),
            returning: BTreeSet::new(),
            lives: 1,
            regions,
        })
    }

    /// Takes a region's power: its nodes stand still, connections break, nobody listens.
    pub async fn kill(&mut self, region: RegionId) {
        match &self.nodes {
            Nodes::Memory { cluster, .. } => cluster.kill(region),
            Nodes::Kept { cluster, .. } => cluster.kill(region),
        }
        for end in self.front_ends.iter_mut().filter(|end| end.region == region) {
            end.serving.shutdown().await;
        }
    }

    /// The same, and the region forgets what it knew.
    pub async fn lose(&mut self, region: RegionId) {
        self.kill(region).await;
        self.forgetful.insert(region);
    }
    /// Whether a region can lose its memory and come back ([`Database::lose`]). Errors: it cannot, and why.
    pub fn check_lose(&self, region: RegionId) -> anyhow::Result<()> {
        let Nodes::Memory { cluster, .. } = &self.nodes else {
            bail!("what is kept in a directory is not lost here");
        };
        for host in cluster.hosts_of(region) {
            let checked = host.inspect(|node| node.engine().check_rejoins());
            checked.map_err(|error| {
                let more = [&error.detail, &error.hint].into_iter().flatten().map(|text| format!(" {text}"));
                anyhow!("{}.{}", error.message, more.collect::<String>())
            })?;
        }
        Ok(())
    }

    /// Gives a killed region its power back. It has what it knew, or else comes back without: then nobody listens
    /// there before it is whole ([`Database::returned`]), and the answer is false. Errors: somebody else took its port.
    pub async fn heal(&mut self, region: RegionId) -> anyhow::Result<bool> {
        let is_forgetful = self.forgetful.remove(&region);
        match &self.nodes {
            Nodes::Memory { cluster, make } if is_forgetful => {
                self.lives += 1;
                let life = self.lives;
                cluster.begin_again(region, |id| make(id, life));
                self.returning.insert(region);
                return Ok(false);
            }
            Nodes::Memory { cluster, .. } => cluster.heal(region),
            Nodes::Kept { cluster, .. } => cluster.heal(region),
        }
        self.listen(region).await?;
        Ok(true)
    }

    /// Regions that had lost their memory and have recovered since the last call: how long it took and how
    /// many bytes the copy had. Errors: as of [`Database::heal`].
    pub async fn returned(&mut self) -> anyhow::Result<Vec<(RegionId, Duration, u64)>> {
        let mut returned = Vec::new();
        let Nodes::Memory { cluster, .. } = &self.nodes else { return Ok(returned) };
        for &region in &self.returning {
            let mut hosts = cluster.hosts_of(region);
            let is_whole = hosts.all(|host| host.inspect(|node| node.engine().absent().is_none()));
            if is_whole {
                let came_back =
                    |host: &Arc<Host<_>>| host.inspect(|node: &DatabaseNode| node.engine().came_back());
                let all = cluster.hosts_of(region).filter_map(came_back);
                let (took_ns, bytes) = all.fold((0, 0), |sum, one| (one.0.max(sum.0), one.1 + sum.1));
                returned.push((region, Duration::from_nanos(took_ns), bytes));
            }
        }
        for (region, ..) in &returned {
            self.returning.remove(region);
            self.listen(*region).await?;
        }
        Ok(returned)
    }

    async fn listen(&mut self, region: RegionId) -> anyhow::Result<()> {
        for end in self.front_ends.iter_mut().filter(|end| end.region == region && end.serving.is_empty()) {
            let listener = bind(&end.threads, end.address).await;
            end.open(listener.with_context(|| format!("cannot listen on {} again", end.address))?);
        }
        Ok(())
    }

    /// Leads the clocks of a region's nodes astray by so many ns, ahead or behind; 0 leads them back.
    pub fn skew(&self, region: RegionId, offset_ns: i64) {
        match &self.nodes {
            Nodes::Memory { cluster, .. } => cluster.skew(region, offset_ns),
            Nodes::Kept { cluster, .. } => cluster.skew(region, offset_ns),
        }
    }

    pub fn topology(&self) -> &Arc<Topology> {
        match &self.nodes {
            Nodes::Memory { cluster, .. } => cluster.topology(),
            Nodes::Kept { cluster, .. } => cluster.topology(),
        }
    }

    /// Logs messages that nodes have refused since this was asked last.
    pub fn log_refusals(&self) {
        let mut known = self.refusals.lock().expect("nobody fails while holding it");
        match &self.nodes {
            Nodes::Memory { cluster, .. } => log_refusals(cluster, &mut known),
            Nodes::Kept { cluster, .. } => log_refusals(cluster, &mut known),
        }
    }

    /// The first node that has stopped, if any.
    pub fn stopped(&self) -> Option<NodeId> {
        match &self.nodes {
            Nodes::Memory { cluster, .. } => first_stopped(cluster),
            Nodes::Kept { cluster, .. } => first_stopped(cluster),
        }
    }
}

type Refusals = BTreeMap<(NodeId, NodeId, &'static str), u64>;

fn log_refusals<P: Served>(cluster: &LocalCluster<P>, known: &mut Refusals) {
    for host in cluster.hosts().iter().filter(|host| !host.is_gone()) {
        for ((from, reason), count) in host.inspect(|served| served.node().refused_messages()) {
            // Each time that there are twice as many.
            let told = known.entry((host.id(), from, reason)).or_default();
            if count >= (2 * *told).max(1) {
                *told = count;
                tracing::warn!(node = %host.id(), %from, messages = count, "refused messages: {reason}");
            }
        }
    }
}

fn first_stopped<P: Served>(cluster: &LocalCluster<P>) -> Option<NodeId> {
    cluster.hosts().iter().find(|h| h.is_gone()).map(|h| h.id())
}

/// Takes a directory for this cluster.
fn open_directory(path: &Path, args: &DatabaseArgs, any_build: bool) -> anyhow::Result<DataDir> {
    let topology = args.topology()?;
    let regions: Vec<&str> =
        topology.node_ids().map(|id| topology.region_name(topology.region_of(id))).collect();
    let made_with = [
        ("--engine", args.engine.clone()),
        ("--wan and --regions", regions.join(",")),
        ("--partitions", args.partitions.to_string()),
        ("--survive", args.survive.to_string()),
        ("--clocks", format!("{:?}", args.clocks).to_lowercase()),
        ("--clock-bound", format!("{:?}", args.clock_bound)),
        ("--columns", format!("{:?}", args.columns).to_lowercase()),
        (BUILD, build()?),
    ];
    let may_differ: &[&str] = if any_build { &[BUILD] } else { &[] };
    DataDir::open(path, &made_with, may_differ).map_err(|error| match error {
        runtime::DiskError::Differs { ref name, .. } if name == BUILD => anyhow!(
            "{error}. A log holds what happened, and only the program that wrote it is known to answer the same \
             again. Start that build, or try this one with --any-build on a copy of the directory"
        ),
        error => anyhow!("{error}"),
    })
}

/// Setting of a directory: what wrote it.
const BUILD: &str = "build";

/// Tells this program from every other.
fn build() -> anyhow::Result<String> {
    let path = std::env::current_exe().context("cannot tell which program this is")?;
    let bytes = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(format!("{}-{:016x}", env!("CARGO_PKG_VERSION"), base::hash::digest(&bytes)))
}

/// Waits until every node has gone through its log.
async fn replayed(cluster: &LocalCluster<Durable<DatabaseNode>>) -> anyhow::Result<()> {
    for host in cluster.hosts() {
        while !host.inspect(|node| node.is_ready()) {
            if host.is_gone() {
                bail!("node {} could not replay its log; the lines above say why", host.id());
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
    Ok(())
}

/// What every front end needs.
struct Front<'a> {
    args: &'a DatabaseArgs,
    procedures: &'a Arc<Procedures>,
}

impl Front<'_> {
    /// A front end for each node.
    fn open<P: Served>(
        &self,
        cluster: &LocalCluster<P>,
        incarnation: Incarnation,
        listeners: Vec<(ConnectionThreads, TcpListener)>,
    ) -> anyhow::Result<Vec<FrontEnd>> {
        let topology = cluster.topology();
        let mut front_ends = Vec::new();
        for (host, (threads, listener)) in cluster.hosts().iter().zip(listeners) {
            let address = listener.local_addr()?;
            let member = Member {
                host: host.clone(),
                topology: topology.clone(),
                procedures: self.procedures.clone(),
                engine: self.args.engine.clone(),
                copies_elsewhere: usize::from(self.args.survive),
                incarnation,
                catalog: PublishedCatalog::of(host),
            };
            let query_threads = QueryThreadsPool::start()?;
            let config = GatewayConfig {
                query_memory_bytes: (self.args.query_memory_mib as usize) << 20,
                query_threads_pool: Some(Arc::new(query_threads.clone())),
                ..Default::default()
            };
            let gateway = Gateway::new(Arc::new(member), config);
            let mut front_end = FrontEnd {
                server: server::Server::new(gateway.clone(), self.args.limits()?),
                gateway,
                address,
                region: topology.region_of(host.id()),
                serving: JoinSet::new(),
                threads,
                _query_threads: query_threads,
            };
            front_end.open(listener);
            front_ends.push(front_end);
        }
        Ok(front_ends)
    }
}

fn port(first: u16, node: NodeId) -> anyhow::Result<u16> {
    // Port 0 asks the system for any free port, for each region anew.
    if first == 0 {
        return Ok(0);
    }
    first.checked_add(node.0).ok_or_else(|| anyhow!("--port {first} leaves no ports for all regions"))
}
