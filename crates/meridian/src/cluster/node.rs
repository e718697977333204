//! One node in this process.
//!
//! KEEPS: no client is served before the node has recovered; and not before it has heard every other node
//! once, in this start or an earlier one. A node whose directory is new cannot know whether it had another one: the
//! others do, and refuse it ([`runtime::tcp::handshake`]); then it stops.

use super::change::{self, Stopping};
use super::coming_back::Home;
use super::plan::Plan;
use super::probes::{self, Checks, REPLAYING};
use super::rings::{self, Publishing, RingArgs};
use super::status::{NodeStatus, PeerTold, ReplicaTold, SurvivalTold};
use crate::connection_threads::ConnectionThreads;
use crate::database::{self, DataArgs, Refusals};
use crate::front_end::{self, Beside, Front, FrontEnd};
use crate::member::{DatabaseNode, Served};
use crate::replicas::remote::RemoteReplicas;
use crate::security::{self, SecurityArgs};
use anyhow::{Context, anyhow, bail};
use node::request::{RegionState, Request};
use runtime::tcp::{Life, Lives, Network, TcpLinks, TcpOptions};
use runtime::{Clock, DataDir, Host};
use server::auth::Authenticator;
use session::Gateway;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use txn::engine::Engine;

/// How long a node waits between two looks at what it waits for.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How often a running node looks whether it has to stop.
const WATCH_EVERY: Duration = Duration::from_millis(500);
/// How long a node waits before it tries again to do what comes before it serves clients.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// How long sessions may stay in a transaction when the node drains, and after that in a statement.
const TRANSACTIONS_MAX: Duration = Duration::from_secs(5);
/// How long others have to take over what this node leads.
const HAND_OVER_MAX: Duration = Duration::from_secs(3);
/// How long a node that has written down that it stopped goes on answering.
const SEALED_FOR: Duration = Duration::from_millis(300);
/// What a clock may have shown before is recorded a second ahead.
const WAITS_FOR_CLOCK: Duration = Duration::from_millis(1_500);

/// What the node is at.
#[derive(Clone, Debug)]
enum Phase {
    Replaying,
    /// It has never heard these nodes.
    Meeting(Vec<String>),
    /// Something is done before clients are told that they are served.
    Opening(&'static str),
    Serving,
    /// It hands over what it leads and ends its sessions, and then itself.
    Draining,
}

/// A node and what is known of it.
struct Running<P: Served> {
    plan: Plan,
    host: Arc<Host<P>>,
    links: Arc<TcpLinks>,
    /// Of its region, in processes of their own.
    replicas: Arc<RemoteReplicas>,
    phase: Mutex<Phase>,
    /// Told once when the node is to drain.
    drains: Notify,
    stopping: Stopping,
    sql: SocketAddr,
    starts: u64,
    began: Instant,
}

/// Runs until it is told to stop. Errors: it cannot start, or must not go on.
pub async fn run(
    plan: Plan,
    data: &DataArgs,
    security: &SecurityArgs,
    rings: &RingArgs,
) -> anyhow::Result<()> {
    let path = data.data.as_ref().ok_or_else(|| {
        anyhow!(
            "--data is missing: a node of a cluster keeps what it promised to the others in a directory; without it a \
             restart would break those promises"
        )
    })?;
    plan.database.limits()?;
    let authenticator = Authenticator::new(security.settings(plan.database.listen)?);
    let root_password = security.root_password()?;
    let (ip, nodes) = (plan.database.listen, plan.security.clone());
    let _rereads = security::reread_on_hangup(&authenticator, security, ip, nodes)?;
    let sql = SocketAddr::new(plan.database.listen, plan.database.port);
    // Ports first: nothing is started if one is taken.
    let threads = ConnectionThreads::start(plan.name())?;
    drop(listen(&threads, sql).await?);
    let address = plan.node_listener()?;
    let network = Network::bind(address).with_context(|| {
        format!("cannot listen on {address} for other nodes; see --nodes and --listen-nodes")
    })?;
    let probes = match plan.http {
        Some(address) => {
            let bound = probes::bind(address).await;
            Some(bound.with_context(|| format!("cannot listen on {address}; see --http"))?)
        }
        None => None,
    };
    let mut home = Home::open(&plan, path)?;
    let opened = Instant::now();
    let mut tasks = JoinSet::new();
    let checks = Arc::new(OnceLock::new());
    if let Some(listener) = probes {
        tasks.spawn(probes::serve(listener, Checks::of_later(&checks)));
    }
    let mut way_in =
        WayIn { sql, network, threads, authenticator, root_password, data: path.clone(), checks, tasks };
    let recovered = home.node(&plan, path, data.checkpoint_mib << 20)?;
    // Where the machine's clock was set back by more, the comparison with the others' clocks finds it.
    let clock = Clock::after(recovered.clock, WAITS_FOR_CLOCK);
    let life = (path.as_path(), opened);
    let (process, publishing) = rings.lend(&plan, life, recovered.process, &mut way_in.tasks).await?;
    let host = Host::with_records(plan.me, process, clock, recovered.log);
    run_node(plan, home, host, way_in, publishing).await
}

/// How others reach a node, and who may.
struct WayIn {
    sql: SocketAddr,
    network: Network,
    threads: ConnectionThreads,
    authenticator: Arc<Authenticator>,
    root_password: Option<String>,
    data: PathBuf,
    /// Filled in once there is a node to ask.
    checks: Arc<OnceLock<Checks>>,
    tasks: JoinSet<()>,
}

async fn run_node(
    plan: Plan,
    home: Home,
    host: Arc<Host<DatabaseNode>>,
    way_in: WayIn,
    publishing: Option<Publishing>,
) -> anyhow::Result<()> {
    let Home { directory: held, lives, .. } = home;
    let running = Arc::new(Running::new(plan, &held, lives, host, (way_in.sql, &way_in.data)));
    _ = way_in.checks.set(checks(&running));
    let links = rings::links_of_node(publishing.as_ref(), &running.links, &running.replicas);
    let driver = running.host.start(links);
    let ended = tokio::select! {
        ended = serve(&running, way_in) => ended,
        signal = told_to_stop(&running) => signal,
    };
    running.host.stop();
    // It never panics: steps are fenced.
    _ = driver.join();
    running.host.join_writers();
    rings::end(publishing);
    // Nothing is written any more: who starts the node again need not wait until its rows are let go.
    drop(held);
    ended
}

/// Ctrl-C, or what a supervisor sends: a node that serves clients drains first, and a second one ends it at once.
async fn told_to_stop<P: Served>(running: &Running<P>) -> anyhow::Result<()> {
    #[cfg(unix)]
    let mut end = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    loop {
        #[cfg(unix)]
        tokio::select! {
            signal = tokio::signal::ctrl_c() => signal?,
            _ = end.recv() => {}
        }
        #[cfg(not(unix))]
        tokio::signal::ctrl_c().await?;
        if running.begin_to_drain().is_err() {
            return Ok(());
        }
    }
}

/// Ends what clients and other nodes have here, so that nothing is lost and little is refused when the process ends.
async fn drain<P: Served>(running: &Running<P>, front_end: &FrontEnd) {
    let told =
        format!("Node {} drains: it hands over what it leads and ends its sessions.", running.plan.name());
    // Whether anybody reads it or not.
    _ = writeln!(std::io::stdout(), "{told}");
    let begin = Instant::now();
    let (left, leads) = tokio::join!(front_end.drain(TRANSACTIONS_MAX), hand_over(running));
    if left > 0 {
        tracing::warn!("{left} sessions are left and are cut off: their statements take too long");
    }
    if leads > 0 {
        tracing::warn!("nobody has taken over {leads} sequences: they are missed when this node is gone");
    }
    tracing::info!("drained in {} ms", begin.elapsed().as_millis());
}

/// Ends what clients have here, and then waits until all nodes have stopped at one point.
async fn stop_for_a_change<P: Served>(running: &Running<P>, mut front_end: FrontEnd) {
    _ = writeln!(std::io::stdout(), "Node {} stops for a change of the cluster.", running.plan.name());
    front_end.drain(TRANSACTIONS_MAX).await;
    front_end.serving.shutdown().await;
    running.stopping.stopped();
    let began = Instant::now();
    while !running.stopping.is_sealed() && began.elapsed() < change::ORDERS_WITHIN {
        tokio::time::sleep(LOOK_EVERY).await;
    }
    match running.stopping.is_sealed() {
        // Who gave the order hears of it first.
        true => tokio::time::sleep(SEALED_FOR).await,
        false => tracing::warn!("no order to change has come: nothing has changed, and the node ends"),
    }
}

/// Answers how much is led here still.
async fn hand_over<P: Served>(running: &Running<P>) -> usize {
    let begin = Instant::now();
    if running.host.request(Request::HandOver).await.is_err() {
        return 0;
    }
    loop {
        let leads = running.host.inspect(|served| served.node().engine().leads());
        if leads == 0 || begin.elapsed() >= HAND_OVER_MAX {
            return leads;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

async fn listen(threads: &ConnectionThreads, sql: SocketAddr) -> anyhow::Result<tokio::net::TcpListener> {
    let listener = front_end::bind(threads, sql).await;
    listener.with_context(|| format!("cannot listen on {sql}; choose another port with --port"))
}

async fn serve<P: Served>(running: &Arc<Running<P>>, way_in: WayIn) -> anyhow::Result<()> {
    let WayIn { sql, mut network, threads, authenticator, root_password, data, mut tasks, .. } = way_in;
    answer_operators(running);
    network.start(&running.links, &running.host);
    loop {
        let unmet = running.links.unmet();
        running.check()?;
        if unmet.is_empty() {
            break;
        }
        running.enters(Phase::Meeting(unmet));
        tokio::time::sleep(LOOK_EVERY).await;
    }
    let (plan, procedures) = (&running.plan, Arc::new(workload::procedures()));
    let listener = listen(&threads, sql).await?;
    let front = Front {
        args: &plan.database,
        procedures: &procedures,
        authenticator: &authenticator,
        data: Some(&data),
    };
    let way_in = (threads, listener);
    let is_replaceable = plan.is_replaceable();
    let beside = Beside { is_replaceable, ..Beside::replicas(running.replicas.clone()) };
    let front_end = front.open_one(&running.host, &plan.topology, plan.incarnation(), way_in, beside)?;
    let limits = plan.database.old_versions.limits();
    tasks.spawn(session::limit_old_versions(vec![front_end.gateway.clone()], limits));
    prepare(running, &front_end.gateway, root_password).await?;
    running.enters(Phase::Serving);
    running.announce(&front_end);
    let drained = running.replicas.clone();
    running.links.drain_replica_when_told(move |name| drained.drain(name));
    running.links.tell_replicas(plan.no_replicas.clone().map_or_else(
        || Ok(front_end.address.to_string()),
        |why| Err(format!("0A000: this cluster has no replicas: {why}")),
    ));
    tasks.spawn(running.replicas.clone().watch());
    let mut refusals = Refusals::default();
    loop {
        tokio::select! {
            () = tokio::time::sleep(WATCH_EVERY) => {}
            () = running.drains.notified() => {
                drain(running, &front_end).await;
                return Ok(());
            }
            () = running.stopping.stops.notified() => {
                match running.stopping.keeps_rows(&front_end.gateway).await {
                    Ok(()) => {
                        stop_for_a_change(running, front_end).await;
                        return Ok(());
                    }
                    Err(why) => {
                        running.enters(Phase::Serving);
                        running.stopping.refuse(why);
                    }
                }
            }
        }
        database::log_refusals(std::slice::from_ref(&running.host), &mut refusals);
        running.check()?;
    }
}

/// What comes before clients are told that they are served.
async fn prepare<P: Served>(
    running: &Running<P>,
    gateway: &Arc<Gateway>,
    root_password: Option<String>,
) -> anyhow::Result<()> {
    if let Some(password) = root_password {
        running.enters(Phase::Opening("user root is about to get its first password"));
        running.until_done(async || security::give_root(gateway.clone(), &password).await).await?;
    }
    if gateway.lacks_counts() {
        running.enters(Phase::Opening("the node asks which values of sequences it has handed out"));
        while running.absent().is_some() {
            running.check()?;
            tokio::time::sleep(LOOK_EVERY).await;
        }
        let learns = async || gateway.learn_counts().await.map_err(|error| anyhow!("{}", error.message));
        running.until_done(learns).await?;
    }
    Ok(())
}

fn answer_operators<P: Served>(running: &Arc<Running<P>>) {
    let asked = running.clone();
    running.links.answer_status(move || serde_json::to_vec(&asked.status()).unwrap_or_default());
    let drains = running.clone();
    running.links.drain_when_told(move || drains.begin_to_drain());
    let changes = running.clone();
    running
        .links
        .answer_change(move |words| changes.stopping.answer(&changes.host, || changes.enter_drain(), words));
}

impl<P: Served> Running<P> {
    fn new(
        plan: Plan,
        directory: &DataDir,
        lives: Lives,
        host: Arc<Host<P>>,
        (sql, data): (SocketAddr, &Path),
    ) -> Running<P> {
        let starts = lives.starts();
        let life = Life {
            directory: directory.incarnation().0,
            starts,
            process: base::hash::digest(&(host.now().0, std::process::id())),
        };
        let (places, own_places) = plan.places();
        let links = Arc::new(TcpLinks::new(TcpOptions {
            hello: plan.hello(plan.me, plan.name(), life),
            nodes: plan.nodes.clone(),
            left: plan.left(),
            places,
            own_places,
            security: plan.security.clone(),
            lives,
        }));
        let clock = host.clone();
        let replicas = RemoteReplicas::new(links.clone(), move || clock.now());
        Running {
            plan,
            host,
            links,
            replicas,
            phase: Mutex::new(Phase::Replaying),
            drains: Notify::new(),
            stopping: Stopping::new(data),
            sql,
            starts,
            began: Instant::now(),
        }
    }

    fn enters(&self, phase: Phase) {
        let mut now = self.phase.lock().expect("nobody panics while holding it");
        if let (Phase::Replaying, Phase::Meeting(unmet)) = (&*now, &phase) {
            println!("A first start waits until every node has been heard: {}.", unmet.join(", "));
        }
        *now = phase;
    }
    fn phase(&self) -> Phase {
        self.phase.lock().expect("nobody panics while holding it").clone()
    }

    /// Errors: it serves no clients, or drains already.
    fn begin_to_drain(&self) -> Result<(), String> {
        self.enter_drain()?;
        self.drains.notify_one();
        Ok(())
    }
    fn enter_drain(&self) -> Result<(), String> {
        let mut now = self.phase.lock().expect("nobody panics while holding it");
        match &*now {
            Phase::Serving => {
                *now = Phase::Draining;
                Ok(())
            }
            Phase::Draining => Err("the node drains already".into()),
            _ => Err("the node does not serve clients yet; end its process".into()),
        }
    }

    /// Does something again until it succeeds: another node may be doing it at the same time, and regions may be out of reach.
    async fn until_done(&self, mut work: impl AsyncFnMut() -> anyhow::Result<()>) -> anyhow::Result<()> {
        while let Err(error) = work().await {
            self.check()?;
            tracing::warn!("{error:#}; this is tried again");
            tokio::time::sleep(AGAIN_AFTER).await;
        }
        Ok(())
    }

    /// Why the node cannot serve clients yet: its engine has not caught up.
    fn absent(&self) -> Option<String> {
        self.host.inspect(|served| served.node().engine().absent().map(|error| error.message.clone()))
    }

    fn announce(&self, front_end: &FrontEnd) {
        let (ip, port) = (front_end.address.ip(), front_end.address.port());
        println!("Node {} serves clients. Ctrl-C ends the process.", self.plan.name());
        println!("{:<16} psql -h {ip} -p {port} -U root meridian", self.plan.name());
    }

    /// Errors: the node has stopped or must not go on.
    fn check(&self) -> anyhow::Result<()> {
        if let Some(why) = self.links.ended() {
            bail!("{why}");
        }
        if self.host.is_gone() {
            bail!("node {} has stopped; the log above says why", self.plan.name());
        }
        Ok(())
    }

    /// Errors: it does not serve clients, and why.
    fn check_ready(&self) -> Result<(), String> {
        self.check().map_err(|error| error.to_string())?;
        match self.phase() {
            Phase::Replaying => return Err(REPLAYING.into()),
            Phase::Meeting(unmet) => {
                return Err(format!(
                    "a first start waits until every node has been heard: {}",
                    unmet.join(", ")
                ));
            }
            Phase::Opening(what) => return Err(self.absent().unwrap_or_else(|| what.into())),
            Phase::Draining => return Err("the node drains".into()),
            Phase::Serving => {}
        }
        let is_fenced = self.host.inspect(|served| {
            let here = self.plan.topology.region_of(self.plan.me);
            let mut regions = served.node().regions().into_iter();
            regions.any(|health| health.region == here && health.state == RegionState::Fenced)
        });
        if is_fenced {
            return Err("the node has fenced itself: its clock is provably wrong, see SHOW CLOCKS".into());
        }
        self.absent().map_or(Ok(()), Err)
    }

    fn status(&self) -> NodeStatus {
        let why = self.check_ready().err();
        let (regions, survival) = match self.phase() {
            Phase::Serving | Phase::Draining => {
                let regions = self.host.inspect(|served| served.node().regions());
                let survival = SurvivalTold::of(&self.plan, &regions);
                (regions, survival)
            }
            _ => (Vec::new(), None),
        };
        let region = |health: &txn::engine::RegionHealth| {
            (self.plan.topology.region_name(health.region).to_string(), health.state.name().to_string())
        };
        NodeStatus {
            node: self.plan.name().to_string(),
            cluster: self.plan.cluster.clone(),
            program: env!("CARGO_PKG_VERSION").to_string(),
            ready: why.is_none(),
            why,
            sql: self.sql.to_string(),
            starts: self.starts,
            up_s: self.began.elapsed().as_secs(),
            regions: regions.iter().map(region).collect(),
            survival,
            certificate_expires: self.plan.security.expires_at(),
            peers: self.links.peers().into_iter().map(PeerTold::from).collect(),
            replicas: self.replicas.told().into_iter().map(ReplicaTold::from).collect(),
        }
    }
}

fn checks<P: Served>(running: &Arc<Running<P>>) -> Checks {
    let (live, ready) = (running.clone(), running.clone());
    Checks {
        live: Arc::new(move || live.check().map_err(|error| error.to_string())),
        ready: Arc::new(move || ready.check_ready()),
    }
}
