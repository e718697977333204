//! A read-only replica in this process, of a region whose node runs in another one.
//!
//! It gets a number from its region's node, connects to every node, takes a copy of rows and columns while writers go on,
//! and follows. It keeps nothing on disk: whatever life it had before, it begins with a copy.
//!
//! KEEPS: no client is served before a copy is there; a session's writes are refused with the address of the region's
//! node; the process ends if the cluster knows a later one in its place.

use super::plan::Plan;
use super::probes::{self, Checks};
use super::rings::{RingArgs, links_of_replica};
use crate::connection_threads::ConnectionThreads;
use crate::database::IDLE_NS;
use crate::front_end::{self, Beside, Front, FrontEnd};
use crate::member::{DatabaseNode, Writer};
use crate::replicas::remote::{Call, CallAnswer, Told};
use crate::replicas::{self, ReplicaSet};
use crate::security::{self, SecurityArgs};
use anyhow::{Context, bail};
use base::{NodeId, codec};
use node::clocks::ClockOptions;
use node::request::{Reply, Request};
use node::{Kept, Node, Options};
use runtime::tcp::ask::ask;
use runtime::tcp::{Lives, Network, Purpose, Registered, TcpLinks, TcpOptions};
use runtime::{Clock, Host, RingReader};
use server::auth::Authenticator;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use txn::any::AnyEngine;

/// How long the process waits before it asks again for a number, or looks again for what it waits for.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const REGISTER_EVERY: Duration = Duration::from_millis(250);
/// How long sessions may stay in a transaction when the replica drains.
const TRANSACTIONS_MAX: Duration = Duration::from_secs(5);
/// For so long the region's node goes on to send reads, at most, before it has heard that the replica drains.
const HEARD_AFTER: Duration = Duration::from_millis(250);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    /// The region's node has not given it a number, and why.
    Registering(String),
    Copying,
    Serving,
    Draining,
}

/// What is known of the process.
struct Process {
    name: String,
    phase: Mutex<Phase>,
    /// Told once when it is to drain.
    drains: Notify,
    sql: OnceLock<SocketAddr>,
    /// Of the region's node, if it is on this host.
    rings: Option<Arc<RingReader>>,
}

const UNBROKEN: &str = "nobody panics while holding it";

impl Process {
    fn enters(&self, phase: Phase) {
        *self.phase.lock().expect(UNBROKEN) = phase;
    }
    fn phase(&self) -> Phase {
        self.phase.lock().expect(UNBROKEN).clone()
    }
    /// Errors: it serves no clients, or drains already.
    fn begin_to_drain(&self) -> Result<(), String> {
        let mut phase = self.phase.lock().expect(UNBROKEN);
        match &*phase {
            Phase::Serving => {
                *phase = Phase::Draining;
                self.drains.notify_one();
                Ok(())
            }
            Phase::Draining => Err("the replica drains already".into()),
            _ => Err("the replica serves nobody yet; end its process".into()),
        }
    }
    fn check_ready(&self) -> Result<(), String> {
        match self.phase() {
            Phase::Registering(why) => Err(format!("the region's node has given it no number: {why}")),
            Phase::Copying => Err("a copy is arriving".into()),
            Phase::Draining => Err("the replica drains".into()),
            Phase::Serving => Ok(()),
        }
    }
    fn checks(self: &Arc<Self>) -> Checks {
        let ready = self.clone();
        Checks { live: Arc::new(|| Ok(())), ready: Arc::new(move || ready.check_ready()) }
    }
}

/// Runs until it is told to stop. Errors: it cannot start, or must not go on.
pub async fn run(plan: Plan, security: &SecurityArgs, rings: &RingArgs) -> anyhow::Result<()> {
    let name = plan.replica.clone().context("a replica has a name")?;
    plan.database.limits()?;
    let authenticator = Authenticator::new(security.settings(plan.database.listen)?);
    let (ip, nodes) = (plan.database.listen, plan.security.clone());
    let _rereads = security::reread_on_hangup(&authenticator, security, ip, nodes)?;
    // Ports first: nothing is started if one is taken.
    let threads = ConnectionThreads::start(&name)?;
    let sql = SocketAddr::new(plan.database.listen, plan.database.port);
    drop(listen(&threads, sql).await?);
    let phase = Mutex::new(Phase::Registering("it has not been asked yet".into()));
    let rings = rings.reader(&plan);
    let process = Arc::new(Process { name, phase, drains: Notify::new(), sql: OnceLock::new(), rings });
    let mut tasks = JoinSet::new();
    if let Some(address) = plan.http {
        let bound = probes::bind(address).await;
        let listener = bound.with_context(|| format!("cannot listen on {address}; see --http"))?;
        tasks.spawn(probes::serve(listener, process.checks()));
    }
    let began = Clock::new();
    let life = runtime::tcp::Life {
        directory: began.now().0,
        starts: 1,
        process: base::hash::digest(&(began.now().0, std::process::id())),
    };
    let registered = tokio::select! {
        registered = register(&plan, &process, life) => registered?,
        signal = told_to_stop() => return signal,
    };
    let host = host(&plan, registered.node)?;
    let (places, _) = plan.places();
    let links = Arc::new(TcpLinks::new(TcpOptions {
        hello: plan.hello(registered.node, &process.name, life),
        nodes: plan.nodes.clone(),
        left: plan.left(),
        places,
        own_places: Vec::new(),
        security: plan.security.clone(),
        lives: Lives::of_process(),
    }));
    let mut network = Network::of_replica().context("cannot start the threads of connections")?;
    let rings = process.rings.as_ref();
    let driver = host.start(links_of_replica(&plan, &links, rings));
    let follow = |rings: &Arc<RingReader>| rings.follow(plan.topology.copies_at(plan.me), &host);
    let following =
        rings.map(follow).transpose().context("cannot start the threads that follow log rings")?;
    let (answering, answered) = (host.clone(), process.clone());
    links.answer_calls(move |call| answer(answering.clone(), answered.clone(), call));
    network.start(&links, &host);
    let way_in = WayIn { sql, threads, authenticator };
    let ended = tokio::select! {
        ended = serve(&plan, &process, &host, &registered, way_in) => ended,
        ended = watch(&links, &host) => ended,
        signal = told_to_stop_or_drain(&process) => signal,
    };
    drop(following);
    host.stop();
    // It never panics: steps are fenced.
    _ = driver.join();
    ended
}

/// A number of the region's node, which is asked until it gives one. Errors: there never will be one.
async fn register(plan: &Plan, process: &Process, life: runtime::tcp::Life) -> anyhow::Result<Registered> {
    let (node, address) = &plan.nodes[usize::from(plan.me.0)];
    // No node has this number.
    let hello = plan.hello(NodeId(u16::MAX), &process.name, life);
    let hello = runtime::tcp::Hello { purpose: Purpose::Register, ..hello };
    loop {
        let answered = ask(&plan.security, node, address, &hello).await;
        let given = answered.and_then(|answered| {
            codec::decode::<Result<Registered, String>>(&answered.bytes).map_err(|error| error.to_string())?
        });
        match given {
            Ok(registered) => return Ok(registered),
            Err(why) if why.starts_with("0A000") => bail!("{why}"),
            Err(why) => {
                if process.phase() != Phase::Registering(why.clone()) {
                    tracing::warn!(
                        "node {node} at {address} gives this replica no number: {why}; this is tried again"
                    );
                    process.enters(Phase::Registering(why));
                }
                tokio::time::sleep(REGISTER_EVERY).await;
            }
        }
    }
}

fn host(plan: &Plan, me: NodeId) -> anyhow::Result<Arc<Host<DatabaseNode>>> {
    let (topology, clock) = (plan.topology.clone(), Clock::new());
    // Lives of one number follow each other, as far as others tell them apart, by when they began.
    let life = u32::try_from(clock.now().0 / base::time::SECOND).context("a clock of this century")?;
    let engine = plan.database.engine_options(&topology)?.resting(IDLE_NS);
    let engine = AnyEngine::new(topology.clone(), me, life, engine);
    let options = Options {
        incarnation: plan.incarnation(),
        clocks: Some(ClockOptions::default()),
        ..Options::default()
    };
    let options = replicas::options(&topology, me, options);
    let options = Options { kept: Kept { columns: true, ..options.kept }, ..options };
    let node = Node::new(me, topology, Arc::new(workload::procedures()), engine, options);
    Ok(Host::new(me, node, clock))
}

/// How its clients come in.
struct WayIn {
    sql: SocketAddr,
    threads: ConnectionThreads,
    authenticator: Arc<Authenticator>,
}

async fn listen(threads: &ConnectionThreads, sql: SocketAddr) -> anyhow::Result<tokio::net::TcpListener> {
    let listener = front_end::bind(threads, sql).await;
    listener.with_context(|| format!("cannot listen on {sql}; choose another port with --port"))
}

/// Waits for the copy, serves clients until the replica drains, ends their sessions.
async fn serve(
    plan: &Plan,
    process: &Process,
    host: &Arc<Host<DatabaseNode>>,
    registered: &Registered,
    WayIn { sql, threads, authenticator }: WayIn,
) -> anyhow::Result<()> {
    process.enters(Phase::Copying);
    while host.inspect(|node| node.replica_report().complete.is_none()) {
        tokio::time::sleep(LOOK_EVERY).await;
    }
    let procedures = Arc::new(workload::procedures());
    let listener = listen(&threads, sql).await?;
    let front =
        Front { args: &plan.database, procedures: &procedures, authenticator: &authenticator, data: None };
    let beside = Beside {
        replicas: Some(ReplicaSet::of_process(host, &process.name)),
        writer: Some(Writer::of(&process.name, plan.name(), &registered.sql)),
        ..Beside::default()
    };
    let front_end: FrontEnd =
        front.open_one(host, &plan.topology, plan.incarnation(), (threads, listener), beside)?;
    _ = process.sql.set(front_end.address);
    process.enters(Phase::Serving);
    let (ip, port) = (front_end.address.ip(), front_end.address.port());
    println!(
        "Replica {} of node {} serves clients, number {}. Ctrl-C ends the process.",
        process.name,
        plan.name(),
        registered.node
    );
    println!("{:<16} psql -h {ip} -p {port} -U root meridian", process.name);
    process.drains.notified().await;
    println!("Replica {} drains: it ends its sessions.", process.name);
    tokio::time::sleep(HEARD_AFTER).await;
    let left = front_end.drain(TRANSACTIONS_MAX).await;
    if left > 0 {
        tracing::warn!("{left} sessions are left and are cut off: their statements take too long");
    }
    Ok(())
}

/// Errors: the process must not go on.
async fn watch(links: &TcpLinks, host: &Host<DatabaseNode>) -> anyhow::Result<()> {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        if let Some(why) = links.ended() {
            bail!("{why}");
        }
        if host.is_gone() {
            bail!("the replica has stopped; the log above says why");
        }
    }
}

/// Ctrl-C, or what a supervisor sends.
async fn told_to_stop() -> anyhow::Result<()> {
    #[cfg(unix)]
    {
        let mut end = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        tokio::select! {
            signal = tokio::signal::ctrl_c() => signal?,
            _ = end.recv() => {}
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await?;
    Ok(())
}

/// A replica that serves clients drains first, and a second signal ends it at once.
async fn told_to_stop_or_drain(process: &Process) -> anyhow::Result<()> {
    loop {
        told_to_stop().await?;
        if process.begin_to_drain().is_err() {
            return Ok(());
        }
    }
}

/// Answers a call of a node.
async fn answer(
    host: Arc<Host<DatabaseNode>>,
    process: Arc<Process>,
    call: impl AsRef<[u8]> + Send,
) -> Vec<u8> {
    let answer = match codec::decode(call.as_ref()) {
        Ok(Call::Read { policy, read }) => {
            match host.request(Request::ReadRowsUnder { policy, read }).await {
                Ok(Reply::Rows(rows)) => CallAnswer::Rows(rows),
                // Nobody is told anything that was not asked.
                Ok(_) | Err(_) => return Vec::new(),
            }
        }
        Ok(Call::Report) => CallAnswer::Report(Told {
            report: host.inspect(|node| node.replica_report()),
            is_draining: process.phase() == Phase::Draining,
            sql: process.sql.get().map(SocketAddr::to_string).unwrap_or_default(),
            takes: process.rings.as_ref().map(|rings| rings.taken()).unwrap_or_default(),
        }),
        Ok(Call::Drain) => CallAnswer::Drains(process.begin_to_drain()),
        Err(error) => {
            tracing::warn!("a call cannot be read: {error}");
            return Vec::new();
        }
    };
    codec::encode(&answer)
}
