//! Read-only replicas in processes of their own, as sessions of their region's node reach them.
//!
//! IN: reads with a policy, an operator's commands; what each replica's process tells of itself several times a second. OUT:
//! calls over the node's links ([`Call`]); rows, or why there are none: then the region's node answers. KEEPS: a replica
//! that has told nothing of itself for a second gets no reads, and neither does one that has just left a read unanswered,
//! until it tells again; a read waits for a replica for a bounded time.

use super::load::Load;
use crate::member::Replicas;
use async_trait::async_trait;
use base::error::{SqlError, SqlResult, SqlState};
use base::{NodeId, PartitionId, Time, Token, codec};
use node::ReadPolicy;
use node::request::{ReadRows, ReplicaReport, Rows};
use runtime::tcp::{Life, ReplicaPeer, TcpLinks};
use serde::{Deserialize, Serialize};
use session::{NotAtReplica, ReplicaCommand, ReplicaHealth};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// What a node asks a replica's process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Call {
    Read {
        policy: ReadPolicy,
        read: ReadRows,
    },
    Report,
    /// It ends its sessions, and then itself.
    Drain,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum CallAnswer {
    Rows(Result<Rows, SqlError>),
    Report(Told),
    /// Why not, if it does not.
    Drains(Result<(), String>),
}

/// What a replica's process tells of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    pub report: ReplicaReport,
    pub is_draining: bool,
    /// Where clients reach it; nothing before they do.
    pub sql: String,
    /// Partitions whose log it takes from the log ring, each in which life of the node.
    pub takes: BTreeMap<PartitionId, u64>,
}

/// A read that is answered later is answered by the region's node: a replica passes on by itself, much sooner, what waits
/// there for too long.
const READ_MAX: Duration = Duration::from_millis(500);
const REPORT_EVERY: Duration = Duration::from_millis(100);
const REPORT_MAX: Duration = Duration::from_millis(500);
/// What a replica told before that says nothing any more.
const TOLD_GOOD_FOR: Duration = Duration::from_secs(1);
/// A replica that is farther behind than the one that is nearest, by this, gets reads only if there is no other.
const LAG_MAX_NS: u64 = 100 * base::time::MS;

/// See the module.
pub struct RemoteReplicas {
    links: Arc<TcpLinks>,
    clock: Box<dyn Fn() -> Time + Send + Sync>,
    known: RwLock<BTreeMap<NodeId, Arc<Remote>>>,
    any: AtomicBool,
    /// Where looking for the least loaded one begins, so that idle ones take turns.
    next: AtomicUsize,
}

struct Remote {
    node: NodeId,
    name: String,
    life: Option<Life>,
    load: Load,
    is_drained: AtomicBool,
    /// When it told what last.
    told: Mutex<Option<(Instant, Told)>>,
}

const UNBROKEN: &str = "nobody panics while holding it";

impl Remote {
    fn new(peer: &ReplicaPeer) -> Remote {
        let (load, is_drained, told) = (Load::default(), AtomicBool::new(false), Mutex::new(None));
        Remote { node: peer.node, name: peer.name.clone(), life: peer.life, load, is_drained, told }
    }
    /// What it told lately.
    fn told(&self) -> Option<Told> {
        let told = self.told.lock().expect(UNBROKEN);
        told.as_ref().filter(|(at, _)| at.elapsed() < TOLD_GOOD_FOR).map(|(_, told)| told.clone())
    }
    /// It has told something, or has to do so before it is believed to be there.
    fn tells(&self, told: Option<Told>) {
        *self.told.lock().expect(UNBROKEN) = told.map(|told| (Instant::now(), told));
    }
    fn state(&self, told: Option<&Told>) -> &'static str {
        match told {
            None => "silent",
            Some(told) if told.is_draining => "draining",
            Some(_) if self.is_drained.load(Relaxed) => "drained",
            Some(told) if told.report.complete.is_none() => "copying",
            Some(_) => "serving",
        }
    }
    fn behind_ns(&self, now: Time, told: &Told) -> Option<u64> {
        told.report.complete.map(|complete| now.since(complete.time()))
    }
}

/// 0A000: what a node cannot have another process do.
pub fn is_a_process(command: &str) -> SqlError {
    SqlError::unsupported(format!("{command} of a replica in a process of its own"))
        .hint("End the process, or stop and continue it, with the means of its machine; meridian replica drain ends it.")
}

impl RemoteReplicas {
    /// `clock`: of the region's node.
    pub fn new(
        links: Arc<TcpLinks>,
        clock: impl Fn() -> Time + Send + Sync + 'static,
    ) -> Arc<RemoteReplicas> {
        Arc::new(RemoteReplicas {
            links,
            clock: Box::new(clock),
            known: RwLock::default(),
            any: AtomicBool::new(false),
            next: AtomicUsize::new(0),
        })
    }

    /// Asks all replicas how they are, for ever.
    pub async fn watch(self: Arc<Self>) {
        loop {
            let asked_at = tokio::time::Instant::now();
            let mut asked = JoinSet::new();
            for remote in self.meet(&self.links.replicas()) {
                let replicas = self.clone();
                asked.spawn(async move { replicas.ask(&remote).await });
            }
            while asked.join_next().await.is_some() {}
            tokio::time::sleep_until(asked_at + REPORT_EVERY).await;
        }
    }

    /// Notes who is here; whoever has another life counts anew.
    fn meet(&self, peers: &[ReplicaPeer]) -> Vec<Arc<Remote>> {
        let mut known = self.known.write().expect(UNBROKEN);
        known.retain(|node, _| peers.iter().any(|peer| peer.node == *node));
        for peer in peers.iter().filter(|peer| peer.life.is_some()) {
            let is_same = |remote: &Arc<Remote>| (&remote.name, remote.life) == (&peer.name, peer.life);
            if !known.get(&peer.node).is_some_and(is_same) {
                known.insert(peer.node, Arc::new(Remote::new(peer)));
            }
        }
        self.any.store(!known.is_empty(), Relaxed);
        known.values().cloned().collect()
    }

    async fn ask(&self, remote: &Remote) {
        let asked = self.call(remote.node, &Call::Report);
        if let Ok(Some(CallAnswer::Report(told))) = tokio::time::timeout(REPORT_MAX, asked).await {
            remote.tells(Some(told));
        }
    }

    /// `None`: there is no way to it, or its answer cannot be read.
    async fn call(&self, to: NodeId, call: &Call) -> Option<CallAnswer> {
        let answer = self.links.call(to, &codec::encode(call)).await?;
        codec::decode(&answer).inspect_err(|error| tracing::warn!(replica = %to, "its answer: {error}")).ok()
    }

    /// Those that serve, with how far each is behind and whether it has what the token names; of those that are not much
    /// farther behind than the nearest, the least loaded.
    fn choose(&self, policy: ReadPolicy, token: &Token) -> Option<Arc<Remote>> {
        let now = (self.clock)();
        let known = self.known.read().expect(UNBROKEN);
        let serving: Vec<(u64, bool, &Arc<Remote>)> = known
            .values()
            .filter_map(|remote| {
                let told = remote.told().filter(|told| remote.state(Some(told)) == "serving")?;
                let lacks = told.report.complete.is_none_or(|complete| complete < token.rank);
                Some((remote.behind_ns(now, &told)?, policy == ReadPolicy::Session && lacks, remote))
            })
            .collect();
        let nearest_ns = serving.iter().map(|(behind_ns, ..)| *behind_ns).min()?;
        let first = self.next.fetch_add(1, Relaxed);
        let in_turn = (0..serving.len()).map(|nth| &serving[(first + nth) % serving.len()]);
        let near = in_turn.filter(|(behind_ns, ..)| *behind_ns <= nearest_ns + LAG_MAX_NS);
        let least = near.min_by_key(|(_, lacks, remote)| (*lacks, remote.load.under_way()))?;
        Some(least.2.clone())
    }

    /// Has a replica's process end. Errors: there is none of this name.
    pub fn drain(self: &Arc<Self>, name: &str) -> Result<(), String> {
        let known = self.known.read().expect(UNBROKEN);
        let Some(remote) = known.values().find(|remote| remote.name == name && remote.told().is_some())
        else {
            let names: Vec<&str> = known.values().map(|remote| remote.name.as_str()).collect();
            return Err(format!("no replica {name} is here; known are: {}", names.join(", ")));
        };
        remote.is_drained.store(true, Relaxed);
        let (replicas, node) = (self.clone(), remote.node);
        #[expect(clippy::disallowed_methods, reason = "it ends with the answer, or with the time for one")]
        tokio::spawn(async move {
            let answer = tokio::time::timeout(REPORT_MAX, replicas.call(node, &Call::Drain)).await;
            if !matches!(answer, Ok(Some(CallAnswer::Drains(Ok(()))))) {
                tracing::warn!(replica = %node, "was told to drain, and answers {answer:?}");
            }
        });
        Ok(())
    }

    /// Whether a replica takes a partition's log from the log ring in this life of the node, by its own word of lately.
    pub fn takes(&self, replica: NodeId, partition: PartitionId, life: u64) -> bool {
        let known = self.known.read().expect(UNBROKEN);
        let told = known.get(&replica).and_then(|remote| remote.told());
        told.is_some_and(|told| told.takes.get(&partition) == Some(&life))
    }

    /// How each is, with where its clients come in, and whether it takes a log from a log ring.
    pub fn told(&self) -> Vec<(ReplicaHealth, String, bool)> {
        let now = (self.clock)();
        let known = self.known.read().expect(UNBROKEN);
        let health = |remote: &Arc<Remote>| {
            let told = remote.told();
            let report = told.as_ref().map(|told| told.report).unwrap_or_default();
            let health = ReplicaHealth {
                state: remote.state(told.as_ref()),
                behind_ns: told.as_ref().and_then(|told| remote.behind_ns(now, told)),
                ..remote.load.health(remote.node, Some(remote.name.clone()), &report)
            };
            let takes = told.as_ref().is_some_and(|told| !told.takes.is_empty());
            (health, told.map(|told| told.sql).unwrap_or_default(), takes)
        };
        known.values().map(health).collect()
    }
}

#[async_trait]
impl Replicas for RemoteReplicas {
    async fn read(&self, policy: ReadPolicy, read: &ReadRows) -> Result<(NodeId, Rows), NotAtReplica> {
        let remote = self.choose(policy, &read.token).ok_or(NotAtReplica::NoneServes)?;
        let _under_way = remote.load.begin();
        let call = Call::Read { policy, read: read.clone() };
        let why = match tokio::time::timeout(READ_MAX, self.call(remote.node, &call)).await {
            Ok(Some(CallAnswer::Rows(Ok(rows)))) => {
                remote.load.answered(policy, &rows);
                return Ok((remote.node, rows));
            }
            Ok(Some(CallAnswer::Rows(Err(error)))) => NotAtReplica::Refused(remote.node, error),
            Ok(_) | Err(_) => {
                remote.tells(None);
                NotAtReplica::Lost(remote.node)
            }
        };
        remote.load.fell_back();
        Err(why)
    }

    fn any(&self) -> bool {
        self.any.load(Relaxed)
    }

    fn health(&self) -> Vec<ReplicaHealth> {
        self.told().into_iter().map(|(health, ..)| health).collect()
    }

    fn command(&self, node: NodeId, command: ReplicaCommand) -> SqlResult<()> {
        let known = self.known.read().expect(UNBROKEN);
        let remote = known.get(&node).ok_or_else(|| {
            let message = format!("{node} is no replica of this region");
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
                .hint("SELECT node FROM meridian.replicas lists them.")
        })?;
        match command {
            ReplicaCommand::Drain => remote.is_drained.store(true, Relaxed),
            ReplicaCommand::Undrain => remote.is_drained.store(false, Relaxed),
            ReplicaCommand::Pause => return Err(is_a_process("pause")),
            ReplicaCommand::Resume => return Err(is_a_process("resume")),
            ReplicaCommand::Restart => return Err(is_a_process("restart")),
        }
        Ok(())
    }
}
