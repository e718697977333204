//! `meridian cluster join`, `remove` and `change`: the nodes of a cluster become those of another one, in which all data stays.
//!
//! IN: a node's configuration, and what is to be different. OUT: new configurations, a directory and a certificate for a
//! node that joins, and nodes that have all stopped at one point; started with the new configurations they go on as the other
//! cluster (see [`super::change`]). KEEPS: nothing is changed before every node has said that it stands where the others
//! stand; a command that fails before that leaves the cluster as it was, though its nodes may have to be started again.

use super::change::{Answer, Mark, ORDERS_WITHIN, Order, Told, words};
use super::operator::{Operator, OperatorArgs};
use super::plan::{CHANGED, JOINED, REMOVED, SPREAD_OVER, node_address};
use super::ports::FreePorts;
use super::removed::Left;
use super::status::ask_status;
use crate::cert::{self, CertArgs};
use anyhow::{Context, anyhow, bail};
use base::NodeId;
use runtime::tcp::ask::{Answered, ask};
use runtime::tcp::{Hello, Owner, Purpose};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use toml::{Table, Value};
use txn::caerus::Point;

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  meridian cluster join ap --config c/us.toml      makes c/ap.toml, stops all nodes, changes their configurations
  meridian start --config c/us.toml                likewise every other node, and c/ap.toml
  meridian cluster join ap=10.0.0.4:26357 --config us.toml \\
    --distances ap/us=180ms,ap/eu=220ms,ap/asia=60ms")]
pub struct JoinArgs {
    /// Name of the new region, or with the address at which others reach its node
    #[arg(value_name = "NAME[=HOST:PORT]")]
    pub node: String,
    #[command(flatten)]
    pub change: ChangeArgs,
    /// Port for its clients. 0: any that is free
    #[arg(long, default_value_t = 0)]
    pub port: u16,
    /// Port for other nodes, where no address is given. 0: any that is free
    #[arg(long, default_value_t = 0)]
    pub node_port: u16,
    /// Port for its health checks. 0: any that is free
    #[arg(long, default_value_t = 0)]
    pub http_port: u16,
}

#[derive(clap::Args, Debug)]
pub struct ChangeArgs {
    #[command(flatten)]
    pub operator: OperatorArgs,
    /// Round trips between regions that are new or different, as for meridian start; others stay
    #[arg(long, value_name = "TIME | A/B=TIME,…")]
    pub distances: Option<String>,
    /// Regions that may be lost from now on without losing an answered transaction, if it is to be different
    #[arg(long, value_name = "K")]
    pub survive: Option<u8>,
    /// How long to wait until nothing is under way any more, and then until all nodes have ended
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = crate::database::short_time)]
    pub wait: Duration,
}

/// A node's new configuration, before it has its place.
pub struct Written {
    node: String,
    path: PathBuf,
    settings: Table,
}

/// What is to be different, and how the nodes are told.
pub struct Changing<'a> {
    args: &'a ChangeArgs,
    operator: Operator,
    /// The configuration as it is.
    before: Table,
    /// Of every node alike from now on.
    alike: Table,
    /// The region that joins.
    joins: Option<String>,
    /// The region that leaves, and its heir.
    leaves: Option<Left>,
}

pub async fn change(args: ChangeArgs) -> anyhow::Result<()> {
    if args.distances.is_none() && args.survive.is_none() {
        bail!("nothing is to be different; give --distances or --survive");
    }
    let changing = Changing::new(&args)?;
    let written = changing.old_nodes()?;
    changing.run(written).await
}

pub async fn join(args: JoinArgs) -> anyhow::Result<()> {
    let mut free = FreePorts::search();
    let node = match args.node.contains('=') {
        true => args.node.clone(),
        false => format!("{}=127.0.0.1:{}", args.node, free.of(args.node_port, 1, "--node-port")?[0]),
    };
    let (name, address) = node_address(&node).map_err(|why| anyhow!(why))?;
    let ports = (free.of(args.port, 1, "--port")?[0], free.of(args.http_port, 1, "--http-port")?[0]);
    let changing = Changing::new(&args.change)?.joined_by(&name, &address)?;
    let mut written = changing.old_nodes()?;
    written.push(changing.new_node(&name, ports)?);
    changing.run(written).await
}

fn read(path: &Path) -> anyhow::Result<Table> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
    text.parse().map_err(|error| anyhow!("{shown}: {error}"))
}

/// A flag as a key of a file.
fn key(flag: &str) -> String {
    flag.trim_start_matches('-').to_string()
}

/// A list with what follows in a text.
fn longer(value: Option<&Value>, more: &str) -> Value {
    let all = listed(value).into_iter().chain(more.split(',').map(str::to_string));
    all.map(Value::from).collect::<Vec<_>>().into()
}

fn listed(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).map(str::to_string).collect(),
        Some(Value::String(text)) => text.split(',').map(|item| item.trim().to_string()).collect(),
        _ => Vec::new(),
    }
}

impl<'a> Changing<'a> {
    /// Errors: the cluster cannot be changed so. Nobody has been asked.
    pub fn new(args: &'a ChangeArgs) -> anyhow::Result<Changing<'a>> {
        let operator = Operator::new(&args.operator)?;
        let before = read(&args.operator.config)?;
        let mut alike = Table::new();
        alike.insert("nodes".into(), before.get("nodes").cloned().unwrap_or(Value::Array(Vec::new())));
        if let Some(distances) = &args.distances {
            alike.insert("distances".into(), longer(before.get("distances"), distances));
        }
        if let Some(survive) = args.survive {
            alike.insert("survive".into(), i64::from(survive).into());
        }
        Ok(Changing { args, operator, before, alike, joins: None, leaves: None })
    }

    /// The same with a region more. Errors: there is one of this name, or there was.
    fn joined_by(mut self, name: &str, address: &str) -> anyhow::Result<Changing<'a>> {
        if self.operator.nodes.iter().any(|(known, _)| known == name) {
            bail!("{name} is a node of this cluster already");
        }
        if self.operator.numbered.iter().any(|known| known == name) {
            bail!(
                "a region {name} has left this cluster, and its rows keep its name; join under another one"
            );
        }
        self.alike.insert("nodes".into(), longer(self.before.get("nodes"), &format!("{name}={address}")));
        let over = self.before.get(&key(SPREAD_OVER)).cloned();
        let count = self.operator.numbered.len();
        self.alike.insert(key(SPREAD_OVER), over.unwrap_or(Value::Integer(count as i64)));
        self.alike.insert(key(JOINED), name.into());
        self.joins = Some(name.to_string());
        Ok(self)
    }

    /// The same without a region, whose heir has what it had.
    pub fn left_by(mut self, (name, heir): Left) -> Changing<'a> {
        self.alike.insert(key(REMOVED), longer(self.before.get(&key(REMOVED)), &format!("{name}={heir}")));
        self.leaves = Some((name, heir));
        self
    }

    fn leaves(&self, node: &str) -> bool {
        self.leaves.as_ref().is_some_and(|(name, _)| name == node)
    }

    fn directory(&self) -> &Path {
        let parent = self.args.operator.config.parent().unwrap_or(Path::new(""));
        if parent.as_os_str().is_empty() { Path::new(".") } else { parent }
    }

    fn with(&self, mut settings: Table) -> Table {
        if self.joins.is_some() {
            settings.remove(&key(JOINED));
        }
        settings.extend(self.alike.clone());
        settings
    }

    /// Configurations of nodes that are on this machine.
    pub fn old_nodes(&self) -> anyhow::Result<Vec<Written>> {
        let mut written = Vec::new();
        for (node, _) in &self.operator.nodes {
            let path = match *node == self.operator.reach.node {
                true => self.args.operator.config.clone(),
                false => self.directory().join(format!("{node}.toml")),
            };
            if path.exists() {
                let settings = self.with(read(&path)?);
                if settings.get("node").and_then(Value::as_str) == Some(node) {
                    written.push(Written { node: node.clone(), path, settings });
                }
            }
        }
        Ok(written)
    }

    /// The configuration, the certificate and the directory of a node that joins.
    fn new_node(&self, name: &str, (port, http_port): (u16, u16)) -> anyhow::Result<Written> {
        let path = self.directory().join(format!("{name}.toml"));
        if path.exists() {
            bail!("{} is there already and is not overwritten", path.display());
        }
        let mut settings = self.with(self.before.clone());
        let text_of = |key: &str| settings.get(key).and_then(Value::as_str).map(str::to_string);
        let data = PathBuf::from(text_of("data").context("the configuration has no `data`")?);
        let data = data.with_file_name(name);
        if std::fs::read_dir(&data).is_ok_and(|mut inside| inside.next().is_some()) {
            bail!("{} is not empty; the new node's directory has to be", data.display());
        }
        let certs = text_of("certs");
        let http = text_of("http");
        let http = http.as_deref().and_then(|http| http.rsplit_once(':')).map(|(host, _)| host.to_string());
        settings.remove("listen-nodes");
        settings.insert("node".into(), name.into());
        settings.insert("data".into(), data.display().to_string().into());
        settings.insert("port".into(), i64::from(port).into());
        if let Some(host) = http {
            settings.insert("http".into(), format!("{host}:{http_port}").into());
        }
        if let Some(certs) = certs {
            let certs = CertArgs { certs: certs.into(), days: None };
            let owner = Owner::Node(name.to_string());
            let (certificate, _) = owner.file_names();
            if !certs.certs.join(certificate).exists() {
                cert::create(&certs, &owner)?;
            }
        }
        Ok(Written { node: name.to_string(), path, settings })
    }

    pub async fn run(&self, mut written: Vec<Written>) -> anyhow::Result<()> {
        // What is wrong with the new settings is found before anybody stops.
        for one in written.iter_mut().filter(|one| !self.leaves(&one.node)) {
            one.settings.insert(key(CHANGED), "planned".into());
            let planned = one.prepare().and_then(|path| crate::start::planned(&path));
            one.discard();
            planned?;
        }
        self.check_ready().await?;
        println!("All nodes stop: clients wait until they have been started again.");
        let mark = self.stop().await.map_err(|error| {
            error.context(format!(
                "nothing has changed; nodes that have stopped end within {} s, start them again as they are",
                ORDERS_WITHIN.as_secs()
            ))
        })?;
        for one in &mut written {
            one.settings.insert(key(CHANGED), mark.id.clone().into());
            one.prepare()?;
        }
        if let Some(name) = &self.joins {
            self.prepare_directory(name, &written, &mark)?;
        }
        let mut sealed = Vec::new();
        for (node, address) in &self.operator.nodes {
            let told = self.ask(node, address, &Order::Seal(mark.clone())).await.map_err(|error| {
                error.context(
                    "not every node has written down that it stopped: remove the file `change` from the data directory of \
                     those that have, and start all nodes as they are",
                )
            })?;
            sealed.push((node, address, told.1));
        }
        written.iter().try_for_each(Written::put_in_place)?;
        let began = Instant::now();
        for (node, address, answered) in sealed {
            if !has_ended(address, answered, self.args.wait.saturating_sub(began.elapsed())).await {
                println!("The process of node {node} has not ended yet; start it again once it has.");
            }
        }
        self.tell(&written, &mark);
        Ok(())
    }

    async fn check_ready(&self) -> anyhow::Result<()> {
        for (node, address) in &self.operator.nodes {
            let status = ask_status(&self.operator, node, address).await;
            let why = match status {
                Ok(status) if status.ready => continue,
                Ok(status) => status.why.unwrap_or_default(),
                Err(why) => why,
            };
            let instead = if self.leaves(node) { self.if_lost() } else { String::new() };
            bail!(
                "node {node} at {address} is not ready: {why}; a cluster is changed while all of its nodes run{instead}"
            );
        }
        Ok(())
    }

    /// What to do where the node of the region that leaves does not come back.
    fn if_lost(&self) -> String {
        let instead = match self.operator.reach.check_replaceable() {
            Ok(()) => {
                ". If it is lost for good, give it another directory, on any machine (meridian cluster replace), and \
                 repeat this once it has its copy"
            }
            Err(_) => ", also that of the region that leaves: what it ordered last is nowhere else",
        };
        instead.to_string()
    }

    async fn order(&self, node: &str, address: &str, order: &Order) -> anyhow::Result<Option<Told>> {
        Ok(self.ask(node, address, order).await?.0)
    }

    /// The same with the connection, which the node keeps until its process ends.
    async fn ask(
        &self,
        node: &str,
        address: &str,
        order: &Order,
    ) -> anyhow::Result<(Option<Told>, Answered)> {
        let hello = Hello { about: words(order)?, ..self.operator.hello(Purpose::Change) };
        let said = |why: String| anyhow!("node {node} at {address}: {why}");
        let answered = ask(&self.operator.security, node, address, &hello).await.map_err(said)?;
        let answer: Answer =
            serde_json::from_slice(&answered.bytes).map_err(|error| said(error.to_string()))?;
        Ok((answer.map_err(said)?, answered))
    }

    /// Has all nodes stand still at one point.
    async fn stop(&self) -> anyhow::Result<Mark> {
        for (node, address) in &self.operator.nodes {
            self.order(node, address, &Order::Stop { joins: self.joins.clone() }).await?;
        }
        let began = Instant::now();
        let ends = loop {
            if let Some(point) = self.common_point().await? {
                break point.ends;
            }
            if began.elapsed() > self.args.wait.min(ORDERS_WITHIN / 2) {
                bail!("something is still under way after {} s", began.elapsed().as_secs());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        let (mut point, mut counts) = (None::<Point>, BTreeMap::<(u32, u32), i64>::new());
        for (node, address) in &self.operator.nodes {
            let told = self.order(node, address, &Order::Halt { ends: ends.clone() }).await?;
            let told = told.ok_or_else(|| anyhow!("node {node} does not say where it is"))?;
            point = Some(point.map_or(told.point.clone(), |known| known.and(&told.point)));
            for (sequence, times_moved, count) in told.counts {
                let known = counts.entry((sequence, times_moved)).or_default();
                *known = count.max(*known);
            }
        }
        let point = point.ok_or_else(|| anyhow!("the cluster has no nodes"))?;
        let before = self.operator.numbered.len();
        let id = base::hash::digest(&(
            self.operator.hello(Purpose::Change).cluster,
            &point,
            self.alike.to_string(),
        ));
        Ok(Mark {
            id: format!("{id:016x}"),
            point,
            counts: counts.into_iter().map(|((sequence, times), count)| (sequence, times, count)).collect(),
            nodes: (before, before + usize::from(self.joins.is_some())),
            leaves: self.leaves.as_ref().map(|(name, _)| name.clone()),
        })
    }

    /// Where all nodes are, if nothing is under way.
    async fn common_point(&self) -> anyhow::Result<Option<Point>> {
        let mut common: Option<Point> = None;
        for (node, address) in &self.operator.nodes {
            let Some(told) = self.order(node, address, &Order::Where).await? else { return Ok(None) };
            if common.as_ref().is_some_and(|point| !point.is_at(&told.point.ends)) {
                return Ok(None);
            }
            common = Some(told.point);
        }
        Ok(common)
    }

    fn prepare_directory(&self, name: &str, written: &[Written], mark: &Mark) -> anyhow::Result<()> {
        let joining = written.iter().find(|one| one.node == name).context("it was made just now")?;
        let data = joining.settings.get("data").and_then(Value::as_str).context("it has `data`")?;
        std::fs::create_dir_all(data).with_context(|| format!("cannot make {data}"))?;
        mark.write_counts(Path::new(data), NodeId(self.operator.numbered.len() as u16))
    }

    fn tell(&self, written: &[Written], mark: &Mark) {
        println!("All nodes have stopped at one point, and the cluster has changed. Start each node:");
        let starting = written.iter().filter(|one| !self.leaves(&one.node));
        starting.for_each(|one| println!("  meridian start --config {}", one.path.display()));
        let is_elsewhere =
            |node: &&String| !self.leaves(node) && !written.iter().any(|one| one.node == **node);
        let elsewhere: Vec<&String> =
            self.operator.nodes.iter().map(|(node, _)| node).filter(is_elsewhere).collect();
        if !elsewhere.is_empty() {
            let mut alike = self.alike.clone();
            alike.insert(key(CHANGED), mark.id.clone().into());
            let names: Vec<&str> = elsewhere.iter().map(|node| node.as_str()).collect();
            println!("The configuration of {} is not here. Change it before the start:", names.join(", "));
            alike.iter().for_each(|(key, value)| println!("  {key} = {value}"));
        }
        if let Some(name) = &self.joins {
            println!(
                "Node {name} may run on another machine: copy {name}.toml, ca.crt, its certificate and key, and its data \
                 directory there."
            );
        }
        if let Some((name, heir)) = &self.leaves {
            println!(
                "Region {name} has left: {heir} has what it had, and node {name} does not start any more."
            );
        }
        println!("Make the configurations of replicas anew (meridian replica add).");
    }
}

/// Waits until a node that was told to end listens no more; whether it did within this time.
async fn has_ended(address: &str, answered: Answered, longest: Duration) -> bool {
    let ends = async {
        answered.ends_within(longest).await;
        while TcpStream::connect(address).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(longest, ends).await.is_ok()
}

impl Written {
    fn prepared(&self) -> PathBuf {
        self.path.with_extension("toml.changed")
    }
    /// Writes it beside its place.
    fn prepare(&self) -> anyhow::Result<PathBuf> {
        let path = self.prepared();
        let text = format!(
            "# Node {}. Keys are the flags of `meridian start`; environment and flags go before them.\n{}",
            self.node,
            toml::to_string(&self.settings)?
        );
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }
    fn discard(&self) {
        _ = std::fs::remove_file(self.prepared());
    }
    /// What was there stays beside it: comments are not carried over.
    fn put_in_place(&self) -> anyhow::Result<()> {
        let (from, to) = (self.prepared(), &self.path);
        if to.exists() {
            let kept = to.with_extension("toml.before");
            std::fs::copy(to, &kept).with_context(|| format!("cannot write {}", kept.display()))?;
        }
        std::fs::rename(&from, to)
            .with_context(|| format!("cannot rename {} to {}", from.display(), to.display()))
    }
}
