//! How the nodes of a cluster are, asked of each over its own port.

use super::operator::{Operator, OperatorArgs};
use super::plan::Plan;
use anyhow::bail;
use node::request::{RegionHealth, Survival};
use runtime::tcp::ask::ask;
use runtime::tcp::{PeerStatus, Purpose};
use serde::{Deserialize, Serialize};
use session::ReplicaHealth;

/// What a node tells of itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NodeStatus {
    pub node: String,
    pub cluster: String,
    pub program: String,
    pub ready: bool,
    /// Why it is not ready.
    pub why: Option<String>,
    pub sql: String,
    /// How often its data directory has been started.
    pub starts: u64,
    pub up_s: u64,
    /// Each region's state, as far as this node can tell.
    pub regions: Vec<(String, String)>,
    /// How many more of them may be lost; nothing while the node serves nobody.
    #[serde(default)]
    pub survival: Option<SurvivalTold>,
    /// When the certificate that it shows to other nodes expires; nothing without TLS.
    #[serde(default)]
    pub certificate_expires: Option<String>,
    pub peers: Vec<PeerTold>,
    /// Of its region, in processes of their own.
    pub replicas: Vec<ReplicaTold>,
}

/// Whether transactions go on without more regions, as `SHOW SURVIVAL` tells.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SurvivalTold {
    /// K as configured.
    pub survive: u8,
    /// So many of the regions that are up may be lost at a time; nothing if the engine cannot tell.
    pub may_still_be_lost: Option<u64>,
    pub if_one_more_is_lost: String,
}

impl SurvivalTold {
    /// `regions`: how each of them is.
    pub fn of(plan: &Plan, regions: &[RegionHealth]) -> Option<SurvivalTold> {
        let (engine, survive) = (plan.database.engine().ok()?, plan.database.survive);
        let count = plan.topology.regions().count();
        let service = Survival::of(engine, usize::from(survive), count, regions).service;
        Some(SurvivalTold {
            survive,
            may_still_be_lost: service.may_be_lost,
            if_one_more_is_lost: service.if_one_more,
        })
    }

    /// In one line.
    fn text(&self) -> String {
        let more = match self.may_still_be_lost {
            None => "this node cannot tell how many more regions may be lost".to_string(),
            Some(0) => "no more regions may be lost".to_string(),
            Some(1) => "1 more region may be lost".to_string(),
            Some(more) => format!("{more} more regions may be lost"),
        };
        format!("survives {}; {more}. With one more lost: {}", self.survive, self.if_one_more_is_lost)
    }
}

/// A replica as its region's node sees it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReplicaTold {
    pub node: u16,
    pub name: String,
    pub state: String,
    /// Where clients reach it; nothing while they do not.
    pub sql: String,
    pub behind_ms: Option<f64>,
    pub rows: u64,
    pub reads: u64,
    pub fell_back: u64,
    pub under_way: u64,
    /// How the last question of a strong read was answered; a node of an earlier program does not tell.
    #[serde(default)]
    pub transport: String,
    /// It takes the log from a log ring.
    #[serde(default)]
    pub takes_ring: bool,
}

impl From<(ReplicaHealth, String, bool)> for ReplicaTold {
    fn from((health, sql, takes_ring): (ReplicaHealth, String, bool)) -> ReplicaTold {
        ReplicaTold {
            node: health.node.0,
            name: health.name.unwrap_or_default(),
            state: health.state.to_string(),
            sql,
            behind_ms: health.behind_ns.map(|ns| ns as f64 / 1e6),
            rows: health.rows,
            reads: health.reads,
            fell_back: health.fell_back,
            under_way: health.under_way,
            transport: health.transport.to_string(),
            takes_ring,
        }
    }
}

/// A node's way to another one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PeerTold {
    pub name: String,
    pub sends: bool,
    pub receives: bool,
    pub why: Option<String>,
    /// Round trip by pings: the latest and the least.
    pub round_trip_ms: Option<(f64, f64)>,
    pub messages_sent: u64,
    pub messages_received: u64,
    pub messages_dropped: u64,
    pub bytes_waiting: usize,
}

impl From<PeerStatus> for PeerTold {
    fn from(peer: PeerStatus) -> PeerTold {
        let ms = |ns: u64| ns as f64 / 1e6;
        PeerTold {
            name: peer.name,
            sends: peer.sends,
            receives: peer.receives,
            why: peer.why,
            round_trip_ms: peer.round_trip_ns.map(|(latest, least)| (ms(latest), ms(least))),
            messages_sent: peer.messages_sent,
            messages_received: peer.messages_received,
            messages_dropped: peer.messages_dropped,
            bytes_waiting: peer.bytes_waiting,
        }
    }
}

#[derive(clap::Args, Debug)]
pub struct StatusArgs {
    #[command(flatten)]
    pub operator: OperatorArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// A node's answer, or why there is none.
#[derive(Serialize)]
struct Asked {
    node: String,
    address: String,
    status: Option<NodeStatus>,
    error: Option<String>,
}

/// What a node tells of itself. Errors: it does not answer, or refuses.
pub async fn ask_status(operator: &Operator, node: &str, address: &str) -> Result<NodeStatus, String> {
    let answered = ask(&operator.security, node, address, &operator.hello(Purpose::Status)).await?;
    serde_json::from_slice(&answered.bytes).map_err(|error| format!("its answer: {error}"))
}

pub async fn run(args: StatusArgs) -> anyhow::Result<()> {
    let operator = Operator::new(&args.operator)?;
    let mut all = Vec::new();
    for (node, address) in &operator.nodes {
        let status = ask_status(&operator, node, address).await;
        let (status, error) = match status {
            Ok(status) => (Some(status), None),
            Err(error) => (None, Some(error)),
        };
        all.push(Asked { node: node.clone(), address: address.clone(), status, error });
    }
    match args.json {
        true => println!("{}", serde_json::to_string_pretty(&all)?),
        false => all.iter().for_each(print),
    }
    let ready = all.iter().filter(|asked| asked.status.as_ref().is_some_and(|s| s.ready)).count();
    if ready < all.len() {
        bail!("{ready} of {} nodes are ready", all.len());
    }
    Ok(())
}

fn print(asked: &Asked) {
    let Some(status) = &asked.status else {
        let error = asked.error.as_deref().unwrap_or_default();
        return println!("{:<16} {:<21} no answer: {error}", asked.node, asked.address);
    };
    let state = match &status.why {
        None => "ready".to_string(),
        Some(why) => format!("not ready: {why}"),
    };
    println!(
        "{:<16} {:<21} {state}; start {}, up {} s, SQL on {}, version {}",
        asked.node, asked.address, status.starts, status.up_s, status.sql, status.program
    );
    if let Some(expires) = &status.certificate_expires {
        println!("{:<16} its certificate for other nodes expires at {expires}", "");
    }
    if let Some(survival) = &status.survival {
        println!("{:<16} {}", "", survival.text());
    }
    for peer in &status.peers {
        let way = match (peer.round_trip_ms, &peer.why) {
            (Some((latest, least)), _) => format!("round trip {latest:.2} ms (least {least:.2})"),
            (None, Some(why)) => format!("no connection: {why}"),
            (None, None) => "not connected yet".to_string(),
        };
        let lost = match peer.messages_dropped {
            0 => String::new(),
            dropped => {
                format!("; {dropped} messages lost with connections, what matters of them was sent again")
            }
        };
        println!("{:<16} → {:<16} {way}{lost}", "", peer.name);
    }
}
