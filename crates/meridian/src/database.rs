//! A whole database in this process: nodes, gateways, front ends; in memory, or kept in a directory.

use crate::connection_threads::ConnectionThreads;
use crate::directory;
use crate::epochs::EpochArgs;
use crate::front_end::{Front, FrontEnd, bind};
use crate::member::{DatabaseNode, Served};
use crate::memory::MemoryArgs;
use crate::old_versions::OldVersionsArgs;
pub use crate::refusals::{Refusals, log_refusals};
use crate::replicas::{self, Make, ReplicaSet};
use anyhow::{Context, anyhow, bail};
use base::cut::Incarnation;
use base::time::MS;
use base::topology::Topology;
use base::wan::Wan;
use base::{NodeId, RegionId};
use node::clocks::ClockOptions;
use node::{Node, Options};
use runtime::{DataDir, Host, LocalCluster};
use server::auth::Authenticator;
use session::Gateway;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
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
    /// Engine that orders transactions. caerus: a full copy in every region, one WAN round trip for a transaction that
    /// spans regions; perseus: one copy of each partition, two; geogauss: a full copy, epochs; slog, calvin: baselines
    #[arg(
        long,
        env = "MERIDIAN_ENGINE",
        default_value = EngineKind::default().name(),
        value_parser = EngineKind::ALL.map(EngineKind::name)
    )]
    pub engine: String,
    #[command(flatten)]
    pub epochs: EpochArgs,
    /// Regions that may be lost without losing an answered transaction (K; engines caerus and geogauss). Each commit
    /// waits until K other regions have it, with geogauss a majority; with 2K + 1 regions the rest goes on without K
    #[arg(long, env = "MERIDIAN_SURVIVE", value_name = "K", default_value_t = 0)]
    pub survive: u8,
    /// Bound of the clocks' error (ε), e.g. 5 or 5ms; 0: all nodes share one clock, as in one process. A commit
    /// inside one region waits twice as long; a node whose clock is provably wrong fences itself
    #[arg(long, env = "MERIDIAN_CLOCK_BOUND", value_name = "MS", default_value = "0", value_parser = clock_bound)]
    pub clock_bound: Duration,
    /// Whether the clocks' error has a bound. Without one a query asks each region that it reads how far its order
    /// has come, a round trip, and level rss is refused: the order of transactions that do not conflict need not
    /// follow real time (engines caerus, slog, calvin, geogauss)
    #[arg(long, env = "MERIDIAN_CLOCKS", value_enum, default_value_t = Clocks::Bounded)]
    pub clocks: Clocks,
    /// Partitions per region
    #[arg(long, env = "MERIDIAN_PARTITIONS", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub partitions: u16,
    #[command(flatten)]
    pub copies: CopiesArgs,
    /// Address to listen on. Beyond this machine, start asks for TLS and passwords; demo lets everybody in
    #[arg(long, env = "MERIDIAN_LISTEN", default_value = "127.0.0.1")]
    pub listen: IpAddr,
    /// Port of the first region; the others follow
    #[arg(long, env = "MERIDIAN_PORT", default_value_t = 26257)]
    pub port: u16,
    /// Connections that a region serves at once; one more is refused (53300)
    #[arg(long, env = "MERIDIAN_MAX_CONNECTIONS", value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub max_connections: u32,
    /// Connections of these that are reserved for superusers
    #[arg(long, env = "MERIDIAN_RESERVED_CONNECTIONS", value_name = "N", default_value_t = 3)]
    pub reserved_connections: u32,
    /// Connections of one address to a region, an IPv6 /64 counting as one. The default is four fifths of those
    /// that are not reserved, and no limit for the machine itself, where poolers and drivers share an address
    #[arg(long, env = "MERIDIAN_MAX_CONNECTIONS_PER_ADDRESS", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_connections_per_address: Option<u32>,
    /// Time that a client has to send its start-up message, e.g. 10s or 500ms
    #[arg(long, env = "MERIDIAN_AUTHENTICATION_TIMEOUT", value_name = "TIME", default_value = "10s", value_parser = short_time)]
    pub authentication_timeout: Duration,
    #[command(flatten)]
    pub memory: MemoryArgs,
    #[command(flatten)]
    pub old_versions: OldVersionsArgs,
}

/// What a region keeps beside the rows that it runs.
#[derive(clap::Args, Clone, Debug)]
pub struct CopiesArgs {
    /// Read-only replicas of rows in each region: reads outside transactions go there (SET meridian.read_policy)
    #[arg(long, env = "MERIDIAN_REPLICAS", value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=16))]
    pub replicas: u16,
    /// Columns that a region keeps: of all partitions, or of its own. With own, a query over other regions' data
    /// becomes a distributed scan at one cut
    #[arg(long, env = "MERIDIAN_COLUMNS", value_enum, default_value_t = Columns::All)]
    pub columns: Columns,
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
pub fn short_time(text: &str) -> Result<Duration, String> {
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
    pub fn engine(&self) -> anyhow::Result<EngineKind> {
        EngineKind::parse(&self.engine).ok_or_else(|| anyhow!("no engine {:?}", self.engine))
    }
    /// Errors: more regions to survive than the engine can in this cluster; epochs that it does not have.
    pub fn engine_options(&self, topology: &Topology) -> anyhow::Result<EngineOptions> {
        let survive = usize::from(self.survive);
        self.epochs.apply(self.engine()?.options())?.surviving(survive, topology).map_err(|error| {
            let more = [&error.detail, &error.hint].map(|text| text.clone().unwrap_or_default()).join(" ");
            anyhow!("--survive {survive}: {}. {}", error.message, more.trim())
        })
    }
    /// Of a region. Errors: they contradict each other.
    pub fn limits(&self) -> anyhow::Result<server::Limits> {
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
    pub fn topology(&self) -> anyhow::Result<Topology> {
        let mut wan = self.wan.clone();
        if !self.regions.is_empty() {
            let names: Vec<&str> = self.regions.iter().map(String::as_str).collect();
            wan = wan.only(&names).map_err(|e| anyhow!("--regions {}: {e}", self.regions.join(",")))?;
        }
        let mut topology = Topology::one_node_per_region(wan, self.partitions);
        if self.copies.columns == Columns::Own {
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
        self.check_replicas(engine)?;
        Ok(engine.layout(topology).with_replicas(self.copies.replicas))
    }

    /// Errors: replicas with what they do not go with.
    fn check_replicas(&self, engine: EngineKind) -> anyhow::Result<()> {
        let is = |kind: &str| engine.name() == kind;
        match self.copies.replicas {
            0 => Ok(()),
            _ if is("geogauss") => {
                bail!("--replicas: with engine geogauss every node executes; choose another engine")
            }
            _ if self.copies.columns == Columns::Own => {
                bail!(
                    "--replicas and --columns own: a replica would be taken for a reader of columns; leave one out"
                )
            }
            _ if self.clocks == Clocks::Unbounded => {
                bail!(
                    "--replicas and --clocks unbounded: every read would go to the region's node; leave one out"
                )
            }
            _ => Ok(()),
        }
    }
}

/// Where data is kept.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct DataArgs {
    /// Keep data in this directory: what was answered survives the process. Without it data is in memory only
    #[arg(long, env = "MERIDIAN_DATA", value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Write a checkpoint after so much of the log, in MiB, or a quarter of the last checkpoint if that is more: with it
    /// what was logged before is not needed. Smaller ones make restarts shorter and cost more writes
    #[arg(long, env = "MERIDIAN_CHECKPOINT_MIB", value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..))]
    pub checkpoint_mib: u64,
}

/// The nodes of this process.
struct Nodes {
    cluster: LocalCluster<DatabaseNode>,
    /// Makes a node that was lost anew; `None`: what is kept in the directory is not lost.
    make: Option<Make>,
    /// Locked as long as they run; `None`: in memory only.
    _directory: Option<DataDir>,
}

/// How often nodes of a database that nobody uses look around.
pub const IDLE_NS: u64 = 20 * MS;

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

/// A listener for each node, with the threads of its region.
async fn listen(
    args: &DatabaseArgs,
    topology: &Topology,
) -> anyhow::Result<Vec<(ConnectionThreads, TcpListener)>> {
    let mut listeners = Vec::new();
    for node in topology.node_ids().filter(|node| !topology.is_replica(*node)) {
        let address = SocketAddr::new(args.listen, port(args.port, node)?);
        let threads = ConnectionThreads::start(topology.region_name(topology.region_of(node)))?;
        let listener = bind(&threads, address)
            .await
            .with_context(|| format!("cannot listen on {address}; choose another port with --port"))?;
        listeners.push((threads, listener));
    }
    Ok(listeners)
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
    pub async fn start(
        args: &DatabaseArgs,
        data: &DataArgs,
        authenticator: &Arc<Authenticator>,
    ) -> anyhow::Result<Database> {
        let topology = Arc::new(args.topology()?);
        args.limits()?;
        let engine = args.engine_options(&topology)?;
        if let Some(warning) = engine.survival_warning(&topology) {
            eprintln!("warning: --survive {}: {warning}.", args.survive);
        }
        let procedures = Arc::new(workload::procedures());
        // Ports first: nothing is started if one is taken.
        let listeners = listen(args, &topology).await?;
        let engine = if data.data.is_some() { engine.recorded() } else { engine }.resting(IDLE_NS);
        let nodes_of = (topology.clone(), procedures.clone());
        let is_recorded = engine.keeps_records();
        let node = move |id, life, options: Options| {
            let (topology, procedures) = nodes_of.clone();
            // A replica promises nothing that it could have forgotten.
            let knows_all = life == 1 || is_recorded || topology.is_replica(id);
            let make = if knows_all { AnyEngine::new } else { AnyEngine::rejoining };
            let options = replicas::options(&topology, id, options);
            let engine = make(topology.clone(), id, life, engine.clone());
            Node::new(id, topology, procedures, engine, options)
        };
        // Delays are emulated: no message is faster. Asked so often, a clock that runs off is found in time.
        let clocks = ClockOptions { every_ns: 250 * MS, least_delays: true, ..ClockOptions::default() };
        let clocks = Some(clocks);
        let front = Front { args, procedures: &procedures, authenticator, data: data.data.as_deref() };
        let (nodes, front_ends) = match &data.data {
            None => {
                // Empty logs: a life of its own.
                let incarnation = Incarnation(runtime::clock::Clock::new().now().0);
                let options = Options { incarnation, clocks, ..Options::default() };
                let make: Make = Arc::new(move |id, life| node(id, life, options.clone()));
                let cluster = LocalCluster::start(topology.clone(), |id| make(id, 1));
                let anew = make.clone();
                let serving = |region| ReplicaSet::of(&cluster, region, anew.clone());
                let front_ends = front.open(&cluster, incarnation, listeners, &serving)?;
                (Nodes { cluster, make: Some(make), _directory: None }, front_ends)
            }
            Some(path) => {
                let node = move |id, life, options| node(id, life, Options { clocks, ..options });
                let (cluster, directory) = directory::with_records(path, args, data, &topology, &node)?;
                let options = Options { incarnation: directory.incarnation(), ..Options::default() };
                let anew: Make = Arc::new(move |id, life| node(id, life, options.clone()));
                let serving = |region| ReplicaSet::of(&cluster, region, anew.clone());
                let front_ends = front.open(&cluster, directory.incarnation(), listeners, &serving)?;
                (Nodes { cluster, make: None, _directory: Some(directory) }, front_ends)
            }
        };
        let limits = args.old_versions.limits();
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

    /// What sessions of the first region share.
    pub fn gateway(&self) -> anyhow::Result<Arc<Gateway>> {
        Ok(self.front_ends.first().context("a database has a front end")?.gateway.clone())
    }

    /// Takes a region's power: its nodes stand still, connections break, nobody listens.
    pub async fn kill(&mut self, region: RegionId) {
        self.nodes.cluster.kill(region);
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
        let Nodes { cluster, make: Some(_), .. } = &self.nodes else {
            bail!("what is kept in a directory is not lost here");
        };
        let topology = cluster.topology();
        for host in cluster.hosts_of(region).filter(|host| !topology.is_replica(host.id())) {
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
            Nodes { cluster, make: Some(make), .. } if is_forgetful => {
                self.lives += 1;
                let life = self.lives;
                cluster.begin_again(region, |id| make(id, life));
                self.returning.insert(region);
                return Ok(false);
            }
            Nodes { cluster, .. } => cluster.heal(region),
        }
        self.listen(region).await?;
        Ok(true)
    }

    /// Regions that had lost their memory and have recovered since the last call: how long it took and how
    /// many bytes the copy had. Errors: as of [`Database::heal`].
    pub async fn returned(&mut self) -> anyhow::Result<Vec<(RegionId, Duration, u64)>> {
        let mut returned = Vec::new();
        let cluster = &self.nodes.cluster;
        for &region in &self.returning {
            let mut hosts = cluster.hosts_of(region).filter(|host| !cluster.topology().is_replica(host.id()));
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
        self.nodes.cluster.skew(region, offset_ns);
    }

    pub fn topology(&self) -> &Arc<Topology> {
        self.nodes.cluster.topology()
    }

    /// Logs messages that nodes have refused since this was asked last.
    pub fn log_refusals(&self) {
        let mut known = self.refusals.lock().expect("nobody fails while holding it");
        log_refusals(self.nodes.cluster.hosts(), &mut known);
    }

    /// The first node that has stopped, if any.
    pub fn stopped(&self) -> Option<NodeId> {
        first_stopped(&self.nodes.cluster)
    }
}

fn first_stopped<P: Served>(cluster: &LocalCluster<P>) -> Option<NodeId> {
    cluster.hosts().iter().find(|h| h.is_gone()).map(|h| h.id())
}

fn port(first: u16, node: NodeId) -> anyhow::Result<u16> {
    // Port 0 asks the system for any free port, for each region anew.
    if first == 0 {
        return Ok(0);
    }
    first.checked_add(node.0).ok_or_else(|| anyhow!("--port {first} leaves no ports for all regions"))
}
