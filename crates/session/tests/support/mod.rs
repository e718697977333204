//! A whole cluster in virtual time behind the interface that sessions use: real nodes and a real engine,
//! no threads, no clock. A request steps the world until its reply is there.

use async_trait::async_trait;
use base::error::{SqlError, SqlResult, SqlState};
use base::process::{Effect, Effects, Event, Process};
use base::schema::Catalog;
use base::topology::Topology;
use base::txn::procedure::Procedures;
use base::wan::Wan;
use base::{Datum, NodeId, Rank, RequestId, Time};
use bytes::BytesMut;
use node::request::{Reply, Request};
use node::{Node, Options};
use session::{Cluster, Gateway, GatewayConfig, Response, Session};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use txn::any::{AnyEngine, EngineKind};

type TestNode = Node<AnyEngine>;

/// Nodes, what is on its way between them, and the time.
struct World {
    nodes: Vec<TestNode>,
    now: Time,
    sequence: u64,
    due: BTreeMap<(Time, u64), (NodeId, Event<TestNode>)>,
    replies: BTreeMap<RequestId, Reply>,
    next_request: u64,
    /// Replies that there have been.
    replied: u64,
    /// Nodes that stop for good, and when.
    stops: BTreeMap<NodeId, Time>,
    /// Requests of several sessions are under way beside each other: none of them steps the world.
    is_shared: bool,
    /// When clients that pause go on.
    alarms: std::collections::BTreeSet<Time>,
}

impl World {
    fn requests_and_replies(&self) -> (u64, u64) {
        (self.next_request, self.replied)
    }

    fn has_stopped(&self, node: NodeId) -> bool {
        self.stops.get(&node).is_some_and(|at| *at <= self.now)
    }

    /// The next thing happens, wherever it does.
    fn advance(&mut self, topology: &Topology) {
        let ((at, _), (node, event)) = self.due.pop_first().expect("timers do not end");
        self.now = self.now.max(at);
        if !self.has_stopped(node) {
            self.step(topology, node, event);
        }
    }

    fn schedule(&mut self, at: Time, node: NodeId, event: Event<TestNode>) {
        self.sequence += 1;
        self.due.insert((at.max(self.now), self.sequence), (node, event));
    }

    fn step(&mut self, topology: &Topology, node: NodeId, event: Event<TestNode>) {
        let mut out = Effects::new();
        self.nodes[node.0 as usize].step(self.now, event, &mut out);
        let effects: Vec<_> = out.drain().collect();
        for effect in effects {
            match effect {
                Effect::Send { to, message } | Effect::Load { of: to, message } => {
                    let at = self.now + topology.one_way_ns(node, to);
                    self.schedule(at, to, Event::Message { from: node, message });
                }
                Effect::SendAll { to, message } => {
                    for to in to {
                        let at = self.now + topology.one_way_ns(node, to);
                        self.schedule(at, to, Event::Message { from: node, message: message.clone() });
                    }
                }
                Effect::Timer { at, timer } => self.schedule(at, node, Event::Timer(timer)),
                Effect::GiveWay { timer } => self.schedule(self.now, node, Event::Timer(timer)),
                Effect::Reply { id, reply } => {
                    self.replies.insert(id, reply);
                    self.replied += 1;
                }
                Effect::Persist { token, .. } => self.schedule(self.now, node, Event::Persisted(token)),
                // Engines of these tests record nothing.
                Effect::Record(_) => unreachable!("nothing is kept here"),
                Effect::Compute(work) => self.schedule(self.now, node, Event::Computed(work())),
            }
        }
    }
}

/// One node of the world, as its sessions see it.
pub struct TestCluster {
    world: Arc<Mutex<World>>,
    topology: Arc<Topology>,
    procedures: Arc<Procedures>,
    node: NodeId,
    engine: EngineKind,
}

#[async_trait]
impl Cluster for TestCluster {
    async fn request(&self, request: Request) -> SqlResult<Reply> {
        let id = {
            let mut world = self.world.lock().unwrap();
            world.next_request += 1;
            let id = RequestId(world.next_request);
            world.now = world.now + base::time::US;
            if !world.has_stopped(self.node) {
                world.step(&self.topology, self.node, Event::Request { id, request });
            }
            id
        };
        std::future::poll_fn(|_| {
            let mut world = self.world.lock().unwrap();
            loop {
                if let Some(reply) = world.replies.remove(&id) {
                    return Poll::Ready(Ok(reply));
                }
                if world.has_stopped(self.node) {
                    return Poll::Ready(Err(SqlError::new(SqlState::ADMIN_SHUTDOWN, "the node is gone")));
                }
                if world.is_shared {
                    return Poll::Pending;
                }
                assert!(world.now < Time(u64::MAX / 2), "no reply to a request");
                world.advance(&self.topology);
            }
        })
        .await
    }
    fn tell(&self, request: Request) {
        let mut world = self.world.lock().unwrap();
        world.next_request += 1;
        let id = RequestId(world.next_request);
        world.step(&self.topology, self.node, Event::Request { id, request });
    }
    fn node(&self) -> NodeId {
        self.node
    }
    fn topology(&self) -> &Arc<Topology> {
        &self.topology
    }
    fn catalog(&self) -> Arc<Catalog> {
        let world = self.world.lock().unwrap();
        world.nodes[self.node.0 as usize].catalog()
    }
    fn procedures(&self) -> &Arc<Procedures> {
        &self.procedures
    }
    fn now(&self) -> Time {
        self.world.lock().unwrap().now
    }
    fn engine(&self) -> &str {
        self.engine.name()
    }
}

/// A cluster with one gateway per region.
pub struct Regions {
    gateways: Vec<Arc<Gateway>>,
    world: Arc<Mutex<World>>,
    topology: Arc<Topology>,
}

impl Regions {
    /// Three regions 100 ms apart, two partitions each.
    pub fn new() -> Regions {
        Regions::with_config(GatewayConfig::default())
    }

    /// The same where each region keeps the columns of its own partitions, and no others.
    pub fn split() -> Regions {
        let mut topology = Regions::topology();
        for id in topology.node_ids() {
            topology.nodes[id.0 as usize].subscribes = topology.partitions_at(id).collect();
        }
        Regions::of(EngineKind::default(), topology, GatewayConfig::default())
    }

    /// The same over another engine.
    pub fn with_engine(engine: EngineKind) -> Regions {
        Regions::of(engine, Regions::topology(), GatewayConfig::default())
    }

    /// The same with limits of its own.
    pub fn with_config(config: GatewayConfig) -> Regions {
        Regions::of(EngineKind::default(), Regions::topology(), config)
    }

    fn topology() -> Topology {
        Topology::one_node_per_region(Wan::preset("perseus3").unwrap(), 2)
    }

    fn of(kind: EngineKind, topology: Topology, config: GatewayConfig) -> Regions {
        let topology = Arc::new(kind.layout(topology));
        let procedures = Arc::new(workload::procedures());
        let nodes = topology
            .node_ids()
            .map(|id| {
                let engine = AnyEngine::new(topology.clone(), id, 1, kind.options());
                Node::new(id, topology.clone(), procedures.clone(), engine, Options::default())
            })
            .collect();
        // 2026-11-21 12:00 UTC.
        let now = Time(1_795_262_400_000_000_000);
        let mut world = World {
            nodes,
            now,
            sequence: 0,
            due: BTreeMap::new(),
            replies: BTreeMap::new(),
            next_request: 0,
            replied: 0,
            stops: BTreeMap::new(),
            is_shared: false,
            alarms: Default::default(),
        };
        for node in topology.node_ids() {
            world.step(&topology, node, Event::Start);
        }
        let world = Arc::new(Mutex::new(world));
        let gateways = topology
            .node_ids()
            .map(|node| {
                let (world, topology) = (world.clone(), topology.clone());
                let procedures = procedures.clone();
                let cluster = TestCluster { world, topology, procedures, node, engine: kind };
                Gateway::new(Arc::new(cluster), config.clone())
            })
            .collect();
        Regions { gateways, world, topology }
    }

    /// Lets time pass, in ns.
    pub fn pass(&self, ns: u64) {
        let mut world = self.world.lock().unwrap();
        let until = world.now + ns;
        while world.due.first_key_value().is_some_and(|((at, _), _)| *at <= until) {
            world.advance(&self.topology);
        }
        world.now = until;
    }

    /// The node of the n-th region stops for good in so many ns.
    pub fn stop_after(&self, region: u16, ns: u64) {
        let mut world = self.world.lock().unwrap();
        let at = world.now + ns;
        world.stops.insert(NodeId(region), at);
    }

    /// Versions at or below this are in nobody's way, as the node of the n-th region knows.
    pub fn collected_below(&self, region: u16) -> Rank {
        let mut world = self.world.lock().unwrap();
        world.next_request += 1;
        let id = RequestId(world.next_request);
        world.step(&self.topology, NodeId(region), Event::Request { id, request: Request::Status });
        match world.replies.remove(&id) {
            Some(Reply::Status(status)) => status.collected_below,
            _ => panic!("a node tells its status at once"),
        }
    }

    /// What the time is.
    pub fn now(&self) -> Time {
        self.world.lock().unwrap().now
    }

    /// Lets a client do nothing for so many ns, beside others.
    pub async fn pause(&self, ns: u64) {
        let until = self.now() + ns;
        self.world.lock().unwrap().alarms.insert(until);
        std::future::poll_fn(|_| if self.now() < until { Poll::Pending } else { Poll::Ready(()) }).await
    }

    /// Runs clients beside each other until all have ended, while each gateway serves the others' locks. Not inside
    /// a tokio runtime, which would want to be given back its thread now and then.
    pub fn run_together<'a>(&self, mut clients: Vec<Pin<Box<dyn Future<Output = ()> + 'a>>>) {
        self.world.lock().unwrap().is_shared = true;
        let mut serving: Vec<_> = self.gateways.iter().map(|g| Box::pin(g.clone().serve_locks())).collect();
        let mut context = Context::from_waker(Waker::noop());
        loop {
            let before = self.world.lock().unwrap().requests_and_replies();
            clients.retain_mut(|client| client.as_mut().poll(&mut context).is_pending());
            for gateway in &mut serving {
                assert!(gateway.as_mut().poll(&mut context).is_pending(), "a gateway serves for ever");
            }
            let mut world = self.world.lock().unwrap();
            if clients.is_empty() {
                world.is_shared = false;
                return;
            }
            // What one of them did may let another go on, before time does; later only an answer can.
            while world.requests_and_replies() == before
                && world.alarms.first().is_none_or(|at| *at > world.now)
            {
                world.advance(&self.topology);
            }
            let now = world.now;
            world.alarms.retain(|at| *at > now);
        }
    }

    /// A session in the n-th region.
    pub fn session(&self, region: usize) -> Session {
        Session::new(self.gateways[region].clone(), "tester", base::databases::MERIDIAN)
    }
}

/// Runs a text and prints everything it answers: rows as `a|b`, tags, errors as `STATE message`.
pub async fn run(session: &mut Session, sql: &str) -> String {
    let mut out = Vec::new();
    if let Err(e) = session.start_simple(sql) {
        return format!("{} {}", e.state, e.message);
    }
    while let Some(response) = session.next_simple().await {
        match response {
            Ok(Response::Rows(mut rows)) => {
                let columns = rows.columns.clone();
                match rows.stream.collect().await {
                    Ok(values) => {
                        for row in values {
                            let shown: Vec<String> = row
                                .iter()
                                .zip(columns.iter())
                                .map(|(v, c)| match v {
                                    Datum::Null => "null".into(),
                                    v => base::text::display_as(v, c.data_type),
                                })
                                .collect();
                            out.push(shown.join("|"));
                        }
                    }
                    Err(e) => out.push(format!("{} {}", e.state, e.message)),
                }
            }
            Ok(Response::Command(tag)) => out.push(tag),
            Ok(Response::Empty) => out.push(String::new()),
            Ok(Response::CopyIn(_)) => out.push("COPY IN".into()),
            Ok(Response::CopyOut(mut copy)) => {
                let text = |line: BytesMut| std::str::from_utf8(&line).unwrap().trim_end().to_string();
                out.extend(copy.header_line().map(text));
                loop {
                    let portion = copy.next_portion().await.unwrap();
                    let rows = copy.writer(&portion).unwrap();
                    for row in 0..portion.len() {
                        let mut line = BytesMut::new();
                        copy.write_row(&mut line, &rows, row).unwrap();
                        out.push(text(line));
                    }
                    if portion.is_empty() {
                        break;
                    }
                }
            }
            Err(e) => out.push(format!("{} {}", e.state, e.message)),
        }
    }
    out.join("\n")
}

/// Runs a text and compares what it prints.
#[track_caller]
pub fn expect_eq(actual: &str, expected: &str, sql: &str) {
    assert_eq!(actual, expected, "\n{sql}");
}

/// `check!(session, "sql" => "printed", …)`
#[macro_export]
macro_rules! check {
    ($session:expr, $($sql:expr => $expected:expr),* $(,)?) => {{
        $($crate::support::expect_eq(&$crate::support::run(&mut $session, $sql).await, $expected, $sql);)*
    }};
}
