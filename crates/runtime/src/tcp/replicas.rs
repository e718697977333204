//! Read-only replicas in processes of their own, as a node's links know them; and a node, as a replica's links know it.
//!
//! A replica's process connects to every node, once to send its messages and once to get the node's, and nobody connects
//! to it. Which number it has, its region's node says ([`Places`]). KEEPS: a replica's certificate is good for a replica's
//! number only; of two connections by which a replica gets messages the newer one has them.

use super::accept::take_messages;
use super::calls::{Calls, numbered};
use super::connect::{Ended, HANDSHAKE_MAX, Pauses, open, run};
use super::frame::{BODY_BYTES_MAX, FrameKind};
use super::handshake::{Hello, Life, Purpose, Refusal};
use super::links::{Peer, PeerStatus, TcpLinks};
use super::places::Places;
use super::stream::Stream;
use super::tls::Owner;
use crate::host::Host;
use base::NodeId;
use base::process::Process;
use bytes::Bytes;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use tokio::task::AbortHandle;

/// Answers a call.
type Serve = Box<dyn Fn(Bytes) -> Pin<Box<dyn Future<Output = Vec<u8>> + Send>> + Send + Sync>;
/// Obeys an operator's order about the replica of this name.
type Order = Box<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

/// What a replica's process is told that registers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registered {
    pub node: NodeId,
    /// Where clients reach the region's node, which takes their writes.
    pub sql: String,
}

/// A replica's process as its region's node sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaPeer {
    pub node: NodeId,
    pub name: String,
    /// Of the process that came last with this number.
    pub life: Option<Life>,
    pub way: PeerStatus,
}

/// See the module.
#[derive(Default)]
pub(super) struct ReplicaLinks {
    /// Numbers for replicas of this node's region.
    own: Vec<NodeId>,
    places: Mutex<Places>,
    pub calls: Calls,
    /// Where clients reach this node; or why it has no replicas.
    told: OnceLock<Result<String, String>>,
    drain: OnceLock<Order>,
    serve: OnceLock<Serve>,
}

impl ReplicaLinks {
    pub fn new(own: Vec<NodeId>) -> ReplicaLinks {
        ReplicaLinks { own, ..ReplicaLinks::default() }
    }
}

impl TcpLinks {
    // ---- of a node ------------------------------------------------------------------------------

    /// Says where clients reach this node, once they do; or why it has no replicas in other processes.
    pub fn tell_replicas(&self, told: Result<String, String>) {
        _ = self.replicas.told.set(told);
    }
    /// Says what is done when an operator wants a replica to end. Errors: it cannot.
    pub fn drain_replica_when_told(
        &self,
        drain: impl Fn(&str) -> Result<(), String> + Send + Sync + 'static,
    ) {
        _ = self.replicas.drain.set(Box::new(drain));
    }
    pub(super) fn drain_replica(&self, name: &str) -> Result<(), String> {
        let unready = || Err("the node does not serve clients yet".into());
        self.replicas.drain.get().map_or_else(unready, |drain| drain(name))
    }

    /// A number for a replica. Errors: there is none.
    pub(super) fn register(&self, name: &str) -> Result<Registered, String> {
        let unready = || Err("the node does not serve clients yet".into());
        let sql = self.replicas.told.get().map_or_else(unready, Clone::clone)?;
        let is_there = |node| self.peer(node).is_there();
        let node =
            self.replicas.places.lock().register(Instant::now(), name, &self.replicas.own, &is_there)?;
        Ok(Registered { node, sql })
    }
    /// Whether a replica's process may come in, with this certificate.
    pub(super) fn judge_replica(&self, theirs: &Hello, shown: Option<&Owner>) -> Result<(), Refusal> {
        let name = match shown {
            Some(Owner::Replica(name)) => Some(name.as_str()),
            Some(owner) => return Err(Refusal::NotForThis { shows: owner.to_string() }),
            None => None,
        };
        self.hello.check_cluster(theirs)?;
        self.hello.check_node(theirs, name, None)?;
        let Some(peer) = self.place(theirs.node) else {
            let (theirs, ours) = (theirs.topology_digest, self.hello.topology_digest);
            return Err(Refusal::Topology { theirs, ours });
        };
        let who = (theirs.name.as_str(), theirs.life);
        self.replicas.places.lock().take(Instant::now(), peer.node, who, peer.is_there())
    }
    /// A replica's connection has ended.
    pub(super) fn replica_left(&self, node: NodeId) {
        self.replicas.places.lock().left(Instant::now(), node);
    }

    /// The replicas of this node's region that are here, or were lately.
    pub fn replicas(&self) -> Vec<ReplicaPeer> {
        let is_there = |node| self.peer(node).is_there();
        let places = self.replicas.places.lock();
        let names = places.names(Instant::now(), &is_there).into_iter();
        let own = names.filter(|(node, _)| self.replicas.own.contains(node));
        let told = |(node, name): (NodeId, &str)| {
            let way = self.peer(node).status();
            ReplicaPeer { node, name: name.to_string(), life: places.life_of(node), way }
        };
        own.map(told).collect()
    }

    /// Asks a replica's process. `None`: there is no way to it, or no answer any more.
    pub async fn call(&self, to: NodeId, body: &[u8]) -> Option<Bytes> {
        let (call, waiting) = self.replicas.calls.begin(to, body);
        if call.len() > BODY_BYTES_MAX || !self.peer(to).push(FrameKind::Call, call) {
            return None;
        }
        waiting.answer().await
    }

    /// Sends this node's messages to a replica for as long as its connection lasts.
    pub(super) async fn serve_follower(self: Arc<Self>, node: NodeId, stream: Box<dyn Stream>) {
        let peer = self.peer(node);
        let (links, generation) = (self.clone(), {
            let mut follower = peer.follower.lock();
            if let Some(older) = follower.task.take() {
                older.abort();
            }
            follower.generation += 1;
            follower.generation
        });
        peer.queue.open();
        peer.came_up();
        #[expect(clippy::disallowed_methods, reason = "it is awaited here, and a newer connection aborts it")]
        let task = tokio::spawn(async move { run(links.peer(node), stream).await });
        {
            let mut follower = peer.follower.lock();
            if follower.generation != generation {
                return task.abort();
            }
            follower.task = Some(task.abort_handle());
        }
        let ended = task.await;
        let follower = peer.follower.lock();
        if follower.generation == generation {
            peer.queue.close();
            self.replicas.calls.fail(node);
            self.replica_left(node);
            match ended {
                Ok(Ended::Lost(why) | Ended::MustNotGoOn(why)) => peer.went_down(why),
                Err(error) => peer.went_down(error.to_string()),
            }
        }
    }

    // ---- of a replica ---------------------------------------------------------------------------

    /// Says how calls of nodes are answered.
    pub fn answer_calls<F>(&self, answer: impl Fn(Bytes) -> F + Send + Sync + 'static)
    where
        F: Future<Output = Vec<u8>> + Send + 'static,
    {
        _ = self.replicas.serve.set(Box::new(move |body| Box::pin(answer(body))));
    }

    /// A call has come; whether calls are answered here.
    pub(super) fn serve_call(self: &Arc<Self>, from: NodeId, number: u64, body: Bytes) -> bool {
        let Some(serve) = self.replicas.serve.get() else { return false };
        let (links, answer) = (self.clone(), serve(body));
        #[expect(clippy::disallowed_methods, reason = "a call ends by itself, as statements do")]
        tokio::spawn(async move {
            let answer = numbered(number, &answer.await);
            // An answer that is too long is as good as none: who asked waits no longer than it would for that.
            if answer.len() <= BODY_BYTES_MAX {
                _ = links.peer(from).push(FrameKind::Answer, answer);
            }
        });
        true
    }

    /// Tells this replica's purposes from a node's.
    fn follows(&self) -> Hello {
        Hello { purpose: Purpose::Follow, ..self.hello.clone() }
    }
}

/// The connection by which a replica gets messages; its own task sends them.
#[derive(Debug, Default)]
pub(super) struct Follower {
    generation: u64,
    task: Option<AbortHandle>,
}

/// Keeps a connection by which a replica gets a node's messages, for ever.
pub(super) async fn keep_following<P: Process + Send + 'static>(
    links: Arc<TcpLinks>,
    to: NodeId,
    host: Arc<Host<P>>,
) {
    let peer: &Peer = links.peer(to);
    let mut pauses = Pauses::new(&links, to, "follows");
    loop {
        let began = Instant::now();
        let opened = tokio::time::timeout(HANDSHAKE_MAX, open(&links, peer, &links.follows())).await;
        match opened {
            Ok(Ok(stream)) => take_messages(&links, peer, &host, stream).await,
            Ok(Err(Ended::MustNotGoOn(why))) => {
                links.end(format!("node {} at {} refuses this replica: {why}", peer.name, peer.address));
            }
            // The other connection tells why there is none.
            Ok(Err(Ended::Lost(_))) | Err(_) => {}
        }
        pauses.wait(began, &peer.redial).await;
    }
}
