//! What is configured: who is in the cluster, which node this process is, and how they trust each other.
//!
//! KEEPS: what has to be the same at all nodes is in [`Plan::settings`]; nodes compare it when they meet.

use super::removed::{self, Left};
use crate::database::{Columns, DatabaseArgs};
use crate::directory::settings;
use anyhow::{Context, anyhow, bail};
use base::NodeId;
use base::cut::Incarnation;
use base::time::{MS, US};
use base::topology::Topology;
use base::wan::Wan;
use runtime::tcp::{Hello, Life, Owner, Purpose, Security, Tls};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

/// A node among others. Without --nodes all regions run in this process.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct ClusterArgs {
    /// All nodes of a cluster of processes, one a region, each with the address at which the others reach it. This
    /// process then runs one of them, --node; --wan only gives distances
    #[arg(long, env = "MERIDIAN_NODES", value_delimiter = ',', value_name = "NAME=HOST:PORT,…", value_parser = node_address)]
    pub nodes: Vec<(String, String)>,
    /// The node of --nodes that this process runs
    #[arg(long, env = "MERIDIAN_NODE", value_name = "NAME")]
    pub node: Option<String>,
    /// Run a read-only replica of this name beside --node, which another process runs (meridian replica add)
    #[arg(long, env = "MERIDIAN_REPLICA", value_name = "NAME")]
    pub replica: Option<String>,
    /// Identity of the cluster, the same at all nodes and for ever
    #[arg(long, env = "MERIDIAN_CLUSTER", value_name = "ID")]
    pub cluster: Option<String>,
    /// Address to listen on for other nodes, if it is not the one in --nodes
    #[arg(long, env = "MERIDIAN_LISTEN_NODES", value_name = "IP:PORT")]
    pub listen_nodes: Option<SocketAddr>,
    /// Directory of certificates: ca.crt, node.NAME.crt and node.NAME.key (meridian cert)
    #[arg(long, env = "MERIDIAN_CERTS", value_name = "DIR")]
    pub certs: Option<PathBuf>,
    /// Connect nodes without TLS, on loopback addresses only: any user of this machine can then pretend to be a node
    #[arg(long, env = "MERIDIAN_INSECURE_NODES")]
    pub insecure_nodes: bool,
    /// Round trips between regions, as they are on the way: one for all pairs (60ms), or each (us/eu=82ms,…)
    #[arg(long, env = "MERIDIAN_DISTANCES", value_delimiter = ',', value_name = "TIME | A/B=TIME,…", value_parser = distance)]
    pub distances: Vec<Distance>,
    /// Regions, the first of --nodes, over which rows are spread that nothing else places; meridian cluster join writes it
    #[arg(long, env = "MERIDIAN_SPREAD_OVER", value_name = "REGIONS", value_parser = clap::value_parser!(u16).range(1..64))]
    pub spread_over: Option<u16>,
    /// Names the last change of the cluster's nodes; meridian cluster join writes it
    #[arg(long, env = "MERIDIAN_CHANGED", value_name = "ID")]
    pub changed: Option<String>,
    /// The node that joined with that change; meridian cluster join writes it
    #[arg(long, env = "MERIDIAN_JOINED", value_name = "NAME")]
    pub joined: Option<String>,
    /// Regions that have left the cluster, in that order, each with the region that has what it had; meridian cluster
    /// remove writes it
    #[arg(long, env = "MERIDIAN_REMOVED", value_delimiter = ',', value_name = "NAME=HEIR,…", value_parser = removed::left)]
    pub removed: Vec<Left>,
    /// Address to answer health checks on: GET /livez and /readyz
    #[arg(long, env = "MERIDIAN_HTTP", value_name = "IP:PORT")]
    pub http: Option<SocketAddr>,
}

/// A round trip, of two regions or of all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distance {
    pub between: Option<(String, String)>,
    pub round_trip_ns: u64,
}

pub fn node_address(text: &str) -> Result<(String, String), String> {
    let wrong = || format!("'{text}' is no node; give NAME=HOST:PORT, e.g. us=10.0.0.1:26300");
    let (name, address) = text.trim().split_once('=').ok_or_else(wrong)?;
    let (host, port) = address.rsplit_once(':').ok_or_else(wrong)?;
    if host.is_empty() || port.parse::<u16>().is_err() {
        return Err(wrong());
    }
    Owner::check_name(name)?;
    Ok((name.to_string(), address.to_string()))
}

fn distance(text: &str) -> Result<Distance, String> {
    let wrong = || format!("'{text}' is no distance; give 60ms, or us/eu=82ms, from 0.01 to 10000 ms");
    let (pair, time) = text.trim().split_once('=').map_or((None, text.trim()), |(p, t)| (Some(p), t));
    let between = match pair {
        None => None,
        Some(pair) => pair.split_once('/').map(|(a, b)| Some((a.into(), b.into()))).ok_or_else(wrong)?,
    };
    let ms: f64 = time.trim_end_matches("ms").trim_end().parse().map_err(|_| wrong())?;
    if !(0.01..=10_000.0).contains(&ms) {
        return Err(wrong());
    }
    Ok(Distance { between, round_trip_ns: (ms * MS as f64) as u64 })
}

/// Settings that come with changes of the cluster.
pub const SPREAD_OVER: &str = "--spread-over";
pub const CHANGED: &str = "--changed";
pub const JOINED: &str = "--joined";
pub const REMOVED: &str = "--removed";

/// Read-only replicas of a region that processes can run. Every node's topology has numbers for them.
const PLACES: u16 = 8;

/// Why replicas in processes of their own cannot join a cluster; `None`: they can.
fn no_replicas(database: &DatabaseArgs, topology: &Topology) -> anyhow::Result<Option<String>> {
    let engine = database.engine()?;
    let why = match () {
        () if engine.name() == "geogauss" => "with engine geogauss every node executes",
        () if engine.name() == "perseus" => {
            "with engine perseus replicas in processes of their own have not been tested (caerus, slog and calvin have them)"
        }
        () if database.copies.columns == Columns::Own => {
            "with --columns own a replica would be taken for a reader of columns"
        }
        () if topology.unbounded_clocks => "with --clocks unbounded every read would go to the region's node",
        () if topology.clock_bound_ns == 0 => {
            "--clock-bound 0 says that all nodes share one clock, and a replica's process has its own; make the cluster \
             with the bound that the machines' clocks keep, e.g. 1ms"
        }
        () => return Ok(None),
    };
    Ok(Some(why.to_string()))
}

/// Between two nodes of one region, if nobody says otherwise.
const INSIDE_NS: u64 = 500 * US;

/// A node of a cluster, ready to be run.
pub struct Plan {
    /// As given, with the distances of this cluster.
    pub database: DatabaseArgs,
    pub cluster: String,
    pub me: NodeId,
    /// It joined with the last change: it had no directory when the cluster was made.
    pub joins: bool,
    /// The replica that this process runs; `me` is its region's node then, which another one runs.
    pub replica: Option<String>,
    /// Why no replicas can join this cluster, if so.
    pub no_replicas: Option<String>,
    /// Name and address of each node, by number.
    pub nodes: Vec<(String, String)>,
    pub listen_nodes: Option<SocketAddr>,
    pub http: Option<SocketAddr>,
    pub security: Security,
    pub topology: Arc<Topology>,
    /// What has to be the same at all nodes.
    pub settings: Vec<(&'static str, String)>,
}

impl ClusterArgs {
    /// A flag that says nothing without --nodes, if one is given.
    pub fn given_without_nodes(&self) -> Option<&'static str> {
        let given = [
            ("--node", self.node.is_some()),
            ("--replica", self.replica.is_some()),
            ("--cluster", self.cluster.is_some()),
            ("--listen-nodes", self.listen_nodes.is_some()),
            ("--certs", self.certs.is_some()),
            ("--insecure-nodes", self.insecure_nodes),
            ("--distances", !self.distances.is_empty()),
            ("--http", self.http.is_some()),
            ("--spread-over", self.spread_over.is_some()),
            ("--changed", self.changed.is_some()),
            ("--joined", self.joined.is_some()),
            ("--removed", !self.removed.is_empty()),
        ];
        given.into_iter().find(|(_, is_given)| *is_given).map(|(flag, _)| flag)
    }

    /// Errors: something is missing, contradicts something else or cannot be read.
    pub fn plan(&self, database: &DatabaseArgs) -> anyhow::Result<Plan> {
        let names: Vec<&str> = self.nodes.iter().map(|(name, _)| name.as_str()).collect();
        let listed = names.join(", ");
        let name = self.node.as_deref().ok_or_else(|| anyhow!("--node is missing; it is one of {listed}"))?;
        let me = names.iter().position(|known| *known == name);
        let me = me.ok_or_else(|| anyhow!("--node {name} is not in --nodes; those are {listed}"))?;
        let cluster = self.cluster.clone().ok_or_else(|| {
            anyhow!(
                "--cluster is missing: it tells this cluster from others; `meridian cluster init` draws one"
            )
        })?;
        if !database.regions.is_empty() {
            bail!("--regions chooses regions of one process; --nodes names the regions of a cluster");
        }
        let wan = self.wan(&names, database)?;
        let mut database = database.clone();
        database.wan = wan;
        let mut topology = removed::without(database.topology()?, &self.removed, database.engine()?)?;
        removed::check_is_there(&topology, name)?;
        if names.len() > 1 && topology.clock_bound_ns == 0 && !topology.unbounded_clocks {
            bail!(
                "--clock-bound 0 says that all nodes share one clock, and processes do not; give the bound that the \
                 machines' clocks keep, e.g. --clock-bound 5ms, or --clocks unbounded"
            );
        }
        topology.spread_over = self.spread_over.unwrap_or(0);
        if usize::from(topology.spread_over) > names.len() {
            bail!("--spread-over {}: there are {} nodes", topology.spread_over, names.len());
        }
        let no_replicas = no_replicas(&database, &topology)?;
        match (&no_replicas, &self.replica) {
            (Some(why), Some(name)) => bail!("0A000: --replica {name}: {why}"),
            (Some(_), None) => {}
            (None, _) => topology = topology.with_replicas(PLACES),
        }
        let owner = match &self.replica {
            None => Owner::Node(name.to_string()),
            Some(replica) => {
                Owner::check_name(replica).map_err(|why| anyhow!("--replica: {why}"))?;
                Owner::Replica(replica.clone())
            }
        };
        let mut settings = settings(&database)?;
        settings.push(("--nodes", names.join(",")));
        settings.push(("--distances", told(&database.wan)));
        let of_changes = [
            (SPREAD_OVER, self.spread_over.map(|regions| regions.to_string())),
            (CHANGED, self.changed.clone()),
            (JOINED, self.joined.clone()),
            (REMOVED, removed::told(&self.removed)),
        ];
        settings.extend(of_changes.into_iter().filter_map(|(name, value)| Some((name, value?))));
        Ok(Plan {
            database,
            cluster,
            me: NodeId(me as u16),
            joins: self.joined.as_deref() == Some(name),
            replica: self.replica.clone(),
            no_replicas,
            nodes: self.nodes.clone(),
            listen_nodes: self.listen_nodes,
            http: self.http,
            security: self.security(&owner)?,
            topology: Arc::new(topology),
            settings,
        })
    }

    /// How connections between nodes are protected, for who is this. Errors: not at all, and not on loopback.
    pub fn security(&self, owner: &Owner) -> anyhow::Result<Security> {
        match (&self.certs, self.insecure_nodes) {
            (Some(_), true) => bail!("--certs and --insecure-nodes contradict each other; give one of them"),
            (Some(directory), false) => {
                Tls::load(directory, owner).map(Security::Tls).map_err(|why| anyhow!("--certs: {why}"))
            }
            (None, true) => {
                if let Some((name, address)) = self.nodes.iter().find(|(_, address)| !is_loopback(address)) {
                    bail!(
                        "--insecure-nodes is for loopback addresses only, and node {name} is at {address}; make \
                         certificates (meridian cert create-ca, meridian cert create-node) and give --certs"
                    );
                }
                if let Some(listen) = self.listen_nodes.filter(|listen| !listen.ip().is_loopback()) {
                    bail!("--insecure-nodes is for loopback addresses only, and --listen-nodes is {listen}");
                }
                Ok(Security::Plain)
            }
            (None, false) => bail!(
                "--certs is missing: nodes trust each other by certificates (meridian cert create-ca, meridian cert \
                 create-node); on loopback --insecure-nodes does without"
            ),
        }
    }

    /// The regions and how far they are apart.
    fn wan(&self, names: &[&str], database: &DatabaseArgs) -> anyhow::Result<Wan> {
        let mut sorted = names.to_vec();
        sorted.sort_unstable();
        if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            bail!("--nodes names {} twice; a region has one node so far", twice[0]);
        }
        if self.distances.is_empty() {
            return database.wan.clone().only(names).map_err(|error| {
                anyhow!("--distances is missing, and --wan {} does not tell them: {error}", database.wan.name)
            });
        }
        let all = self.distances.iter().find(|distance| distance.between.is_none());
        let mut wan = Wan::uniform("cluster", names, INSIDE_NS, all.map_or(0, |all| all.round_trip_ns));
        for Distance { between, round_trip_ns } in &self.distances {
            let Some((a, b)) = between else { continue };
            let place = |name: &String| {
                let found = names.iter().position(|known| known == name);
                found.ok_or_else(|| anyhow!("--distances {a}/{b}: there is no node {name} in --nodes"))
            };
            let (a, b) = (place(a)?, place(b)?);
            wan.round_trip_ns[a][b] = *round_trip_ns;
            wan.round_trip_ns[b][a] = *round_trip_ns;
        }
        // One that has left lies where its heir does.
        let is_there = |n: usize| self.removed.iter().all(|(left, _)| left != names[n]);
        for (a, b) in pairs(names.len()).filter(|(a, b)| is_there(*a) && is_there(*b)) {
            if wan.round_trip_ns[a][b] == 0 {
                bail!("--distances does not tell how far {} and {} are apart", names[a], names[b]);
            }
        }
        Ok(wan)
    }
}

fn pairs(count: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..count).flat_map(move |a| (a + 1..count).map(move |b| (a, b)))
}

fn told(wan: &Wan) -> String {
    let one = |(a, b): (usize, usize)| {
        let ms = wan.round_trip_ns[a][b] as f64 / MS as f64;
        format!("{}/{}={ms}ms", wan.regions[a], wan.regions[b])
    };
    let known = pairs(wan.region_count()).filter(|(a, b)| wan.round_trip_ns[*a][*b] > 0);
    known.map(one).collect::<Vec<_>>().join(",")
}

fn is_loopback(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let ip: Option<IpAddr> = host.trim_matches(['[', ']']).parse().ok();
    host == "localhost" || ip.is_some_and(|ip| ip.is_loopback())
}

impl Plan {
    pub fn name(&self) -> &str {
        &self.nodes[usize::from(self.me.0)].0
    }
    /// Tokens that sessions are given are good at every node of the cluster.
    pub fn incarnation(&self) -> Incarnation {
        Incarnation(base::hash::digest(self.cluster.as_str()).max(1))
    }
    pub fn topology_digest(&self) -> u64 {
        base::hash::digest(&base::codec::encode(&*self.topology)[..])
    }
    /// A node whose directory is lost may come back with a new one.
    pub fn is_replaceable(&self) -> bool {
        self.topology.is_replicated() && self.database.survive > 0
    }
    /// Nodes that have left the cluster.
    pub fn left(&self) -> Vec<NodeId> {
        let all = (0..self.nodes.len() as u16).map(NodeId);
        all.filter(|node| self.topology.is_removed(self.topology.region_of(*node))).collect()
    }
    /// Numbers for replicas behind those of nodes, and those in this node's region.
    pub fn places(&self) -> (usize, Vec<NodeId>) {
        let (topology, region) = (&self.topology, self.topology.region_of(self.me));
        let places = topology.node_ids().filter(|node| topology.is_replica(*node));
        let own = places.filter(|node| topology.region_of(*node) == region).collect();
        (topology.nodes.len() - self.nodes.len(), own)
    }
    /// The same node in the cluster that a directory was made with. Errors: it was made with none.
    pub fn before(&self, made_with: &BTreeMap<String, String>) -> anyhow::Result<Plan> {
        let of = |name: &str| made_with.get(name).map(String::as_str);
        let needed =
            |name: &str| of(name).ok_or_else(|| anyhow!("the data directory does not say its {name}"));
        let nowhere = |name: &str| (name.to_string(), "127.0.0.1:1".to_string());
        let distances = needed("--distances")?.split(',').filter(|text| !text.is_empty()).map(distance);
        let cluster = ClusterArgs {
            nodes: needed("--nodes")?.split(',').map(nowhere).collect(),
            node: Some(self.name().to_string()),
            cluster: Some(self.cluster.clone()),
            insecure_nodes: true,
            distances: distances.collect::<Result<_, _>>().map_err(|why| anyhow!(why))?,
            spread_over: of(SPREAD_OVER).map(str::parse).transpose()?,
            changed: of(CHANGED).map(str::to_string),
            joined: of(JOINED).map(str::to_string),
            removed: of(REMOVED).map_or(Ok(Vec::new()), removed::all).map_err(|why| anyhow!(why))?,
            ..ClusterArgs::default()
        };
        let survive = needed("--survive")?.parse()?;
        cluster.plan(&DatabaseArgs { survive, ..self.database.clone() })
    }
    /// What this process says of itself to others.
    pub fn hello(&self, node: NodeId, name: &str, life: Life) -> Hello {
        let settings = self.settings.iter().map(|(name, value)| (name.to_string(), value.clone())).collect();
        Hello {
            purpose: Purpose::Messages,
            cluster: self.cluster.clone(),
            node,
            name: name.to_string(),
            settings,
            topology_digest: self.topology_digest(),
            life,
            program: env!("CARGO_PKG_VERSION").to_string(),
            about: String::new(),
        }
    }
    /// Where to listen for other nodes.
    pub fn node_listener(&self) -> anyhow::Result<SocketAddr> {
        if let Some(address) = self.listen_nodes {
            return Ok(address);
        }
        let address = &self.nodes[usize::from(self.me.0)].1;
        let resolved = std::net::ToSocketAddrs::to_socket_addrs(address);
        let first = resolved.with_context(|| format!("cannot resolve {address}"))?.next();
        first.ok_or_else(|| anyhow!("{address} has no address; give --listen-nodes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Both {
        #[command(flatten)]
        database: DatabaseArgs,
        #[command(flatten)]
        cluster: ClusterArgs,
    }

    fn plan(more: &[&str]) -> Result<Plan, String> {
        let nodes = "us=127.0.0.1:1,eu=127.0.0.1:2,asia=[::1]:3";
        let given = ["meridian", "--nodes", nodes, "--cluster", "c", "--clock-bound", "5"];
        let both = Both::try_parse_from(given.iter().chain(more)).map_err(|error| error.to_string())?;
        both.cluster.plan(&both.database).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn a_plan_knows_who_is_who_and_how_far_apart() {
        let plan = plan(&["--node", "eu", "--insecure-nodes", "--distances", "10ms,us/eu=0.5ms"]).unwrap();
        assert_eq!((plan.me, plan.name()), (NodeId(1), "eu"));
        assert_eq!(plan.topology.one_way_ns(NodeId(0), NodeId(1)), 250 * US);
        assert_eq!(plan.topology.one_way_ns(NodeId(2), NodeId(1)), 5 * MS);
        let distances = plan.settings.iter().find(|(name, _)| *name == "--distances").unwrap();
        assert_eq!(distances.1, "us/eu=0.5ms,us/asia=10ms,eu/asia=10ms");
        assert_eq!(plan.topology.partitions[0].copies.len(), 2, "the engine's copies are laid out");
    }

    #[test]
    fn a_node_comes_back_in_the_cluster_that_a_region_has_left() {
        let removed = ["--removed", "asia=us"];
        let given = ["--node", "eu", "--insecure-nodes", "--distances", "us/eu=10ms"];
        let now = plan(&[&given[..], &removed].concat()).unwrap();
        assert_eq!(now.left(), [NodeId(2)]);
        assert_eq!(now.topology.partitions_in(base::RegionId(0)).count(), 2);
        assert_eq!(now.topology.one_way_ns(NodeId(1), NodeId(2)), 5 * MS, "it lies where its heir does");
        let (places, own) = now.places();
        assert_eq!((places, own.len()), (2 * usize::from(PLACES), usize::from(PLACES)));
        let made_with: BTreeMap<String, String> =
            now.settings.iter().map(|(name, value)| (name.to_string(), value.clone())).collect();
        assert_eq!(made_with[REMOVED], "asia=us");
        let again = now.before(&made_with).unwrap();
        assert_eq!(again.topology_digest(), now.topology_digest());
        let nobody = now.before(&made_with.into_iter().filter(|(name, _)| name != REMOVED).collect());
        assert!(nobody.is_err(), "the distances do not tell where asia was");
        let asia =
            plan(&["--node", "asia", "--insecure-nodes", "--distances", "9ms", "--removed", "asia=us"]);
        assert!(asia.err().unwrap().contains("region asia has left the cluster"));
    }

    #[test]
    fn what_is_missing_or_contradicts_itself_is_refused() {
        let cases: [(&[&str], &str); 8] = [
            (&["--insecure-nodes"], "--node is missing; it is one of us, eu, asia"),
            (&["--node", "au", "--insecure-nodes"], "--node au is not in --nodes"),
            (&["--node", "eu"], "--certs is missing"),
            (&["--node", "eu", "--insecure-nodes", "--certs", "c"], "contradict each other"),
            (&["--node", "eu", "--certs", "/nowhere"], "/nowhere/ca.crt"),
            (&["--node", "eu", "--insecure-nodes", "--wan", "china3"], "--distances is missing"),
            (
                &["--node", "eu", "--insecure-nodes", "--distances", "us/eu=1ms"],
                "how far us and asia are apart",
            ),
            (&["--node", "eu", "--insecure-nodes", "--clock-bound", "0"], "cannot be used multiple times"),
        ];
        for (more, part) in cases {
            let refused = plan(more).err().unwrap_or_else(|| panic!("{more:?} is taken"));
            assert!(refused.contains(part), "{refused}");
        }
        let far = Both::try_parse_from([
            "m",
            "--nodes",
            "us=10.0.0.1:1",
            "--node",
            "us",
            "--cluster",
            "c",
            "--insecure-nodes",
        ]);
        let far = far.unwrap();
        let refused = far.cluster.plan(&far.database).err().unwrap().to_string();
        assert!(refused.contains("node us is at 10.0.0.1:1"), "{refused}");
        let shared = [
            "m",
            "--nodes",
            "us=[::1]:1,eu=localhost:2",
            "--node",
            "us",
            "--cluster",
            "c",
            "--insecure-nodes",
        ];
        let shared = Both::try_parse_from(shared).unwrap();
        let refused = shared.cluster.plan(&shared.database).err().unwrap().to_string();
        assert!(refused.contains("--clock-bound 0 says that all nodes share one clock"), "{refused}");
        for wrong in ["us", "us=1", "us=:1", "US=a:1", "us=a:b"] {
            assert!(node_address(wrong).is_err(), "{wrong}");
        }
    }
}
