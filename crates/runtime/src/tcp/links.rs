//! What a node sends to its peers, and what is known of each of them.

use super::frame::{BODY_BYTES_MAX, FrameKind};
use super::handshake::{Hello, KnownLife};
use super::lives::Lives;
use super::queue::Queue;
use super::replicas::{Follower, ReplicaLinks};
use super::stream::Security;
use crate::disk_error::DiskError;
use crate::host::Links;
use base::process::Process;
use base::{NodeId, Time, codec};
use bytes::Bytes;
use parking_lot::Mutex;
use std::cell::LazyCell;
use std::net::IpAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// How a node reaches its cluster.
#[derive(Debug)]
pub struct TcpOptions {
    /// What it says of itself.
    pub hello: Hello,
    /// Name and address (host:port) of each node, by [`NodeId`].
    pub nodes: Vec<(String, String)>,
    /// Those of them that have left the cluster: nobody connects to them, and they are not let in.
    pub left: Vec<NodeId>,
    /// Node numbers behind those, which replicas in processes of their own may take; and those in this node's region.
    pub places: usize,
    pub own_places: Vec<NodeId>,
    pub security: Security,
    pub lives: Lives,
}

/// Tells an operator how the node is.
type Status = Box<dyn Fn() -> Vec<u8> + Send + Sync>;
/// What an operator's order is answered.
type Order = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// Answers words of an operator in the node's own form.
type Ask = Box<dyn Fn(&str) -> Vec<u8> + Send + Sync>;

/// A node's way to its peers.
pub struct TcpLinks {
    pub(super) hello: Hello,
    pub(super) security: Security,
    /// By [`NodeId`]; the own entry is never used. Behind nodes come places of replicas.
    peers: Vec<Peer>,
    nodes: usize,
    left: Vec<NodeId>,
    pub(super) replicas: ReplicaLinks,
    lives: Mutex<Lives>,
    status: OnceLock<Status>,
    drain: OnceLock<Order>,
    change: OnceLock<Ask>,
    ended: OnceLock<String>,
    /// Why connections were refused lately, and when that was logged.
    refused: Mutex<Vec<(String, Instant)>>,
}

const REFUSED_AGAIN_AFTER: Duration = Duration::from_secs(60);
/// More different reasons than these are not logged in that time.
const REFUSED_MAX: usize = 20;

pub(super) struct Peer {
    pub node: NodeId,
    pub name: String,
    pub address: String,
    pub queue: Queue,
    /// It is worth trying to connect again at once.
    pub redial: Notify,
    /// Of the own connection to it.
    state: Mutex<State>,
    /// Of its connection to this node.
    pub incoming: Mutex<Incoming>,
    /// Of a replica.
    pub follower: Mutex<Follower>,
    sent: AtomicU64,
    pub received: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    is_up: bool,
    /// Why there is no connection.
    why: Option<String>,
    /// Round trip of pings, in ns: the latest and the least of this connection.
    round_trip_ns: Option<(u64, u64)>,
}

#[derive(Debug, Default)]
pub(super) struct Incoming {
    /// Counts its connections: only the latest delivers.
    pub generation: u64,
    pub is_up: bool,
}

/// What is known of the way to a peer and back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerStatus {
    pub name: String,
    pub address: String,
    /// This node can send to it; it can send to this one.
    pub sends: bool,
    pub receives: bool,
    /// Why this node cannot send to it.
    pub why: Option<String>,
    /// Round trip, measured by pings: the latest and the least.
    pub round_trip_ns: Option<(u64, u64)>,
    pub messages_sent: u64,
    pub messages_received: u64,
    pub messages_dropped: u64,
    pub bytes_waiting: usize,
}

impl TcpLinks {
    pub fn new(options: TcpOptions) -> TcpLinks {
        let peer = |(node, (name, address)): (usize, (String, String))| Peer {
            node: NodeId(node as u16),
            name,
            address,
            queue: Queue::default(),
            redial: Notify::new(),
            state: Mutex::default(),
            incoming: Mutex::default(),
            follower: Mutex::default(),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
        };
        let nodes = options.nodes.len();
        let place = |n: usize| (format!("replica n{n}"), "wherever it connects from".to_string());
        let places = (nodes..nodes + options.places).map(place);
        TcpLinks {
            peers: options.nodes.into_iter().chain(places).enumerate().map(peer).collect(),
            nodes,
            left: options.left,
            replicas: ReplicaLinks::new(options.own_places),
            hello: options.hello,
            security: options.security,
            lives: Mutex::new(options.lives),
            status: OnceLock::new(),
            drain: OnceLock::new(),
            change: OnceLock::new(),
            ended: OnceLock::new(),
            refused: Mutex::default(),
        }
    }

    pub fn me(&self) -> NodeId {
        self.hello.node
    }
    pub(super) fn peer(&self, node: NodeId) -> &Peer {
        &self.peers[usize::from(node.0)]
    }
    pub(super) fn peer_named(&self, name: &str) -> Option<&Peer> {
        self.others().find(|peer| peer.name == name)
    }
    /// A replica's number; `None`: it is none.
    pub(super) fn place(&self, node: NodeId) -> Option<&Peer> {
        self.peers.get(usize::from(node.0)).filter(|_| usize::from(node.0) >= self.nodes)
    }
    /// Nodes of the cluster, without those that have left it.
    pub(super) fn others(&self) -> impl Iterator<Item = &Peer> {
        let is_there = |peer: &&Peer| peer.node != self.me() && !self.left.contains(&peer.node);
        self.peers[..self.nodes].iter().filter(is_there)
    }

    pub(super) fn known(&self, name: &str) -> Option<KnownLife> {
        self.lives.lock().known(name)
    }
    /// Takes a peer in this life. Errors: it cannot be written down, and then it must not be taken.
    pub(super) fn heard(&self, theirs: &Hello) -> Result<(), DiskError> {
        self.lives.lock().heard(&theirs.name, theirs.life)
    }
    /// Whether every other node has been heard, in this start or an earlier one: nobody can know another life of this
    /// node and not have said so.
    pub fn has_met_all(&self) -> bool {
        self.unmet().is_empty()
    }
    /// Nodes that have never been heard.
    pub fn unmet(&self) -> Vec<String> {
        let lives = self.lives.lock();
        let unmet = self.others().filter(|peer| lives.is_unmet(&peer.name));
        unmet.map(|peer| peer.name.clone()).collect()
    }

    /// Says how operators are answered who ask for the node's status.
    pub fn answer_status(&self, status: impl Fn() -> Vec<u8> + Send + Sync + 'static) {
        _ = self.status.set(Box::new(status));
    }
    pub(super) fn status(&self) -> Vec<u8> {
        self.status.get().map(|status| status()).unwrap_or_default()
    }

    /// Says what is done when an operator wants the node to end. Errors: it cannot now.
    pub fn drain_when_told(&self, drain: impl Fn() -> Result<(), String> + Send + Sync + 'static) {
        _ = self.drain.set(Box::new(drain));
    }
    pub(super) fn drain(&self) -> Result<(), String> {
        self.drain.get().map_or_else(|| Err("the node has not recovered yet".into()), |drain| drain())
    }
    /// Says how operators are answered who change the cluster.
    pub fn answer_change(&self, answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) {
        _ = self.change.set(Box::new(answer));
    }
    pub(super) fn change(&self, words: &str) -> Vec<u8> {
        self.change.get().map(|answer| answer(words)).unwrap_or_default()
    }
    /// The directory of a peer is lost: another one may take its place. Answers its last life that is known here.
    pub(super) fn give_up(&self, name: &str) -> Result<u64, String> {
        self.lives.lock().give_up(name).map_err(|error| error.to_string())
    }

    /// A peer knows another life of this node, or this node's disk failed: it must not go on.
    pub(super) fn end(&self, why: String) {
        _ = self.ended.set(why);
    }
    /// Why this node must not go on.
    pub fn ended(&self) -> Option<&str> {
        self.ended.get().map(String::as_str)
    }

    /// Sends the same message to each of these but the sender; it is encoded once, if any of them can be reached.
    pub fn send_encoded(&self, from: NodeId, to: &[NodeId], encode: impl FnOnce() -> Vec<u8>) {
        let encoded = LazyCell::new(|| Bytes::from(encode()));
        for peer in to.iter().filter(|to| **to != from).map(|to| self.peer(*to)) {
            if !peer.queue.is_open() {
                peer.queue.note_dropped();
                continue;
            }
            if encoded.len() > BODY_BYTES_MAX {
                peer.queue.note_dropped();
                tracing::error!(peer = %peer.name, bytes = encoded.len(), "a message is too long to be sent");
                continue;
            }
            _ = peer.push(FrameKind::Message, Bytes::clone(&encoded));
        }
    }

    pub fn peers(&self) -> Vec<PeerStatus> {
        self.others().map(Peer::status).collect()
    }
    /// Logs why a connection was refused, a reason that comes again only after a while.
    pub(super) fn log_refused(&self, address: IpAddr, why: &str) {
        let mut logged = self.refused.lock();
        logged.retain(|(_, at)| at.elapsed() < REFUSED_AGAIN_AFTER);
        if logged.len() < REFUSED_MAX && logged.iter().all(|(known, _)| known != why) {
            logged.push((why.to_string(), Instant::now()));
            tracing::warn!(%address, "refused a connection: {why}");
        }
    }
}

impl Peer {
    pub fn came_up(&self) {
        tracing::info!(peer = %self.name, "connected");
        *self.state.lock() = State { is_up: true, ..State::default() };
    }
    /// Whether there is a connection, in either direction.
    pub fn is_there(&self) -> bool {
        self.state.lock().is_up || self.incoming.lock().is_up
    }
    pub fn went_down(&self, why: String) {
        let mut state = self.state.lock();
        if state.why.as_ref() != Some(&why) {
            tracing::warn!(peer = %self.name, address = %self.address, "no connection: {why}");
        }
        *state = State { why: Some(why), ..State::default() };
    }
    pub fn measured(&self, round_trip: Duration) {
        let ns = round_trip.as_nanos() as u64;
        let mut state = self.state.lock();
        let least = state.round_trip_ns.map_or(ns, |(_, least)| least.min(ns));
        state.round_trip_ns = Some((ns, least));
    }
    pub fn status(&self) -> PeerStatus {
        let state = self.state.lock();
        PeerStatus {
            name: self.name.clone(),
            address: self.address.clone(),
            sends: state.is_up,
            receives: self.incoming.lock().is_up,
            why: state.why.clone(),
            round_trip_ns: state.round_trip_ns,
            messages_sent: self.sent.load(Relaxed),
            messages_received: self.received.load(Relaxed),
            messages_dropped: self.queue.dropped(),
            bytes_waiting: self.queue.bytes(),
        }
    }
    /// False: it is lost.
    pub fn push(&self, kind: FrameKind, message: Bytes) -> bool {
        let is_queued = self.queue.push(kind, message);
        self.sent.fetch_add(u64::from(is_queued), Relaxed);
        is_queued
    }
}

impl<P: Process> Links<P> for TcpLinks {
    fn send(&self, now: Time, from: NodeId, to: NodeId, message: P::Message) {
        Links::<P>::send_all(self, now, from, &[to], message);
    }

    fn send_all(&self, _: Time, from: NodeId, to: &[NodeId], message: P::Message) {
        self.send_encoded(from, to, || codec::encode(&message));
    }
}
