//! Connections of others: who is let in, and what comes in.
//!
//! KEEPS: what has not shown within [`HANDSHAKE_MAX`] who it is, is cut off, and of those at most so many are waited
//! for, the newest; a node that has a long way to go through what has arrived reads no further, so that the sender's
//! queue fills up and not this process's memory.

use super::ask::Ordered;
use super::calls::number_of;
use super::connect::{HANDSHAKE_MAX, SILENCE_MAX, keep_connected};
use super::frame::{BODY_BYTES_MAX, FrameError, FrameKind, FrameReader, FrameWriter};
use super::handshake::{Broken, Hello, Purpose, Refusal, hear_hello, refuse, say_hello};
use super::links::{Peer, TcpLinks};
use super::replicas::keep_following;
use super::stream::{Stream, is_end};
use super::tls::Owner;
use crate::host::Host;
use base::codec;
use base::process::{Event, Process};
use bytes::BytesMut;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

/// Connections that have not shown who they are.
const STRANGERS_MAX: usize = 128;
/// Events that may wait to be stepped before connections are read no further.
pub(crate) const BACKLOG_MAX: usize = 20_000;
const BACKLOG_PAUSE: Duration = Duration::from_millis(1);
/// Room for what is read at once.
const READ_BYTES: usize = 64 << 10;
/// After a failure to accept, such as a shortage of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// The client whose certificate lets an operator end a node; a node's does too.
const OPERATOR: &str = "root";
/// Threads that read, decode and write.
const THREADS: usize = 2;

/// A node's connections. Dropping it closes them.
pub struct Network {
    address: SocketAddr,
    /// `None` once it has started, and of a replica, to which nobody connects.
    listener: Option<TcpListener>,
    /// `None` only while it is dropped.
    runtime: Option<tokio::runtime::Runtime>,
}

impl Network {
    /// Listens; nobody is answered before [`Network::start`]. Errors: the address is taken, or not this machine's.
    pub fn bind(address: SocketAddr) -> io::Result<Network> {
        // First of all: a runtime may not be dropped where the caller may run, inside another one.
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let mut network = Network::of_replica()?;
        network.address = address;
        network.listener = {
            let _inside = network.runtime.as_ref().map(|runtime| runtime.enter());
            Some(TcpListener::from_std(listener)?)
        };
        Ok(network)
    }

    /// Nobody connects to it. Errors: no more threads to be had.
    pub fn of_replica() -> io::Result<Network> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("links")
            .thread_stack_size(crate::STACK_BYTES)
            .enable_all()
            .build()?;
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        Ok(Network { address: nowhere, listener: None, runtime: Some(runtime) })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Connects the node to its peers and lets them connect. Called once.
    pub fn start<P: Process + Send + 'static>(&mut self, links: &Arc<TcpLinks>, host: &Arc<Host<P>>) {
        let runtime = self.runtime.as_ref().expect("there until it is dropped");
        for peer in links.others() {
            drop(runtime.spawn(keep_connected(links.clone(), peer.node)));
        }
        match self.listener.take() {
            Some(listener) => drop(runtime.spawn(accept_all(links.clone(), host.clone(), listener))),
            None => {
                for peer in links.others() {
                    drop(runtime.spawn(keep_following(links.clone(), peer.node, host.clone())));
                }
            }
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // It owns every task; a runtime may not wait for its threads inside another one.
            runtime.shutdown_background();
        }
    }
}

/// A connection that may not have shown yet who it is.
struct Stranger {
    task: AbortHandle,
    is_known: Arc<AtomicBool>,
}

async fn accept_all<P: Process + Send + 'static>(
    links: Arc<TcpLinks>,
    host: Arc<Host<P>>,
    listener: TcpListener,
) {
    let mut tasks = JoinSet::new();
    let mut strangers: VecDeque<Stranger> = VecDeque::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, address)) => {
                    strangers.retain(|s| !s.is_known.load(Relaxed) && !s.task.is_finished());
                    if strangers.len() >= STRANGERS_MAX && let Some(oldest) = strangers.pop_front() {
                        oldest.task.abort();
                    }
                    let is_known = Arc::new(AtomicBool::new(false));
                    let serve = serve(links.clone(), host.clone(), stream, address, is_known.clone());
                    strangers.push_back(Stranger { task: tasks.spawn(serve), is_known });
                }
                Err(error) => {
                    tracing::warn!("failed to accept a node's connection: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(ended) = tasks.join_next(), if !tasks.is_empty() => {
                if let Err(error) = ended && error.is_panic() {
                    tracing::error!("a connection's task failed: {error}");
                }
            }
        }
    }
}

async fn serve<P: Process + Send + 'static>(
    links: Arc<TcpLinks>,
    host: Arc<Host<P>>,
    stream: TcpStream,
    address: SocketAddr,
    is_known: Arc<AtomicBool>,
) {
    let (mut stream, theirs) = match tokio::time::timeout(HANDSHAKE_MAX, admit(&links, stream)).await {
        Ok(Ok(admitted)) => admitted,
        Ok(Err(why)) => return links.log_refused(address.ip(), &why),
        Err(_) => return tracing::debug!(%address, "a connection did not say in time who it is"),
    };
    is_known.store(true, Relaxed);
    if theirs.purpose.is_question() {
        if let Err(error) = answer_question(&links, &theirs, &mut stream).await {
            tracing::debug!(%address, "a question was not answered: {error}");
        }
        return;
    }
    match theirs.purpose {
        Purpose::Follow => links.serve_follower(theirs.node, stream).await,
        _ => take_messages(&links, links.peer(theirs.node), &host, stream).await,
    }
}

/// Hands a peer's messages to the node until the connection ends.
pub(super) async fn take_messages<P: Process + Send + 'static>(
    links: &Arc<TcpLinks>,
    peer: &Peer,
    host: &Host<P>,
    stream: Box<dyn Stream>,
) {
    let generation = {
        let mut incoming = peer.incoming.lock();
        incoming.generation += 1;
        incoming.is_up = true;
        incoming.generation
    };
    // It is there: so this node can connect to it.
    peer.redial.notify_one();
    let ended = receive(links, peer, generation, host, stream).await;
    let mut incoming = peer.incoming.lock();
    if incoming.generation == generation {
        incoming.is_up = false;
        match ended {
            Ending::Closed => tracing::info!(peer = %peer.name, "its connection ended"),
            ending => tracing::warn!(peer = %peer.name, "ended its connection: {ending}"),
        }
    }
}

async fn admit(links: &TcpLinks, stream: TcpStream) -> Result<(Box<dyn Stream>, Hello), String> {
    let (mut stream, shown) = links.security.accept(stream).await.map_err(|error| error.to_string())?;
    let theirs = match hear_hello(&mut stream).await {
        Ok(theirs) => theirs,
        Err(Broken::Format { theirs }) => {
            let refusal = Refusal::Format { theirs };
            _ = refuse(&mut stream, &refusal).await;
            return Err(refusal.to_string());
        }
        Err(broken) => return Err(broken.to_string()),
    };
    match judge(links, &theirs, shown.as_ref()) {
        Ok(()) => {
            say_hello(&mut stream, &links.hello).await.map_err(|error| error.to_string())?;
            Ok((stream, theirs))
        }
        Err(refusal) => {
            _ = refuse(&mut stream, &refusal).await;
            _ = stream.shutdown().await;
            Err(format!("who says that it is node {}: {refusal}", theirs.name))
        }
    }
}

/// Whether it may come in. If so, its life is on disk.
fn judge(links: &TcpLinks, theirs: &Hello, shown: Option<&Owner>) -> Result<(), Refusal> {
    let not_for_this = || Refusal::NotForThis { shows: shown.map(Owner::to_string).unwrap_or_default() };
    let node = match (theirs.purpose, shown) {
        (Purpose::Status, _) => return Ok(()),
        (Purpose::Drain | Purpose::DrainReplica | Purpose::Change, Some(Owner::Client(name)))
            if name != OPERATOR =>
        {
            return Err(not_for_this());
        }
        (Purpose::Drain | Purpose::DrainReplica | Purpose::Change, Some(Owner::Replica(_))) => {
            return Err(not_for_this());
        }
        (Purpose::Drain | Purpose::DrainReplica | Purpose::Change, _) => {
            return links.hello.check_same_cluster(theirs);
        }
        (Purpose::Register, None) => return links.hello.check_cluster(theirs),
        (Purpose::Register, Some(Owner::Replica(name))) => {
            links.hello.check_cluster(theirs)?;
            return links.hello.check_node(theirs, Some(name), None);
        }
        (Purpose::Register, _) => return Err(not_for_this()),
        (Purpose::Messages | Purpose::Follow, _) if links.place(theirs.node).is_some() => {
            return links.judge_replica(theirs, shown);
        }
        (Purpose::Follow, _) => return Err(not_for_this()),
        (Purpose::Messages | Purpose::Replace, Some(Owner::Client(_) | Owner::Replica(_))) => {
            return Err(not_for_this());
        }
        (Purpose::Messages | Purpose::Replace, Some(Owner::Node(name))) => Some(name.as_str()),
        (Purpose::Messages | Purpose::Replace, None) => None,
    };
    if theirs.purpose == Purpose::Replace {
        links.hello.check_same_cluster(theirs)?;
        links.hello.check_node(theirs, node, None)?;
        let Some(peer) = links.peer_named(&theirs.name) else {
            return Err(Refusal::AnotherNode {
                found: theirs.name.clone(),
                wanted: "of this cluster".into(),
            });
        };
        let name = theirs.name.clone();
        return if peer.is_there() { Err(Refusal::StillThere { name }) } else { Ok(()) };
    }
    links.hello.check_cluster(theirs)?;
    links.hello.check_node(theirs, node, links.known(&theirs.name))?;
    let is_peer = links.peer_named(&theirs.name).is_some_and(|peer| peer.node == theirs.node);
    if !is_peer {
        let (theirs, ours) = (theirs.topology_digest, links.hello.topology_digest);
        return Err(Refusal::Topology { theirs, ours });
    }
    if let Err(error) = links.heard(theirs) {
        links.end(error.to_string());
    }
    Ok(())
}

/// Answers what is asked: a status in the node's own form, an order with [`Ordered`](super::ask::Ordered). Who wants the
/// node to end learns that it has from the end of the connection.
async fn answer_question(links: &TcpLinks, theirs: &Hello, stream: &mut Box<dyn Stream>) -> io::Result<()> {
    let told = |ordered: Ordered| codec::encode(&ordered);
    let answer = match theirs.purpose {
        Purpose::Drain => {
            tracing::info!(operator = %theirs.name, "an operator drains this node");
            told(links.drain().map(|()| links.hello.life.starts))
        }
        Purpose::Replace => {
            tracing::warn!(peer = %theirs.name, "its directory is given up: another one may take its place");
            told(links.give_up(&theirs.name))
        }
        Purpose::DrainReplica => {
            tracing::info!(operator = %theirs.name, replica = %theirs.about, "an operator drains a replica");
            told(links.drain_replica(&theirs.about).map(|()| links.hello.life.starts))
        }
        Purpose::Change => links.change(&theirs.about),
        Purpose::Register => codec::encode(&links.register(&theirs.name)),
        Purpose::Status | Purpose::Messages | Purpose::Follow => links.status(),
    };
    let mut out = BytesMut::new();
    FrameWriter::default().frame(FrameKind::Status, &answer, &mut out);
    tokio::time::timeout(HANDSHAKE_MAX, async {
        stream.write_all(&out).await?;
        stream.flush().await
    })
    .await??;
    if matches!(theirs.purpose, Purpose::Drain | Purpose::Change) {
        // Until this process ends, or who asked is gone.
        let mut nothing = [0];
        _ = stream.read(&mut nothing).await;
    }
    stream.shutdown().await
}

/// Why nothing more comes from a connection.
enum Ending {
    Closed,
    Silent,
    /// The peer has a newer connection.
    Superseded,
    Io(io::Error),
    Frame(FrameError),
    Unexpected(FrameKind),
    Garbage(codec::DecodeError),
}

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Ending::Closed => f.write_str("closed by the other side"),
            Ending::Silent => write!(f, "nothing came for {} s", 2 * SILENCE_MAX.as_secs()),
            Ending::Superseded => f.write_str("it has a newer one"),
            Ending::Io(error) => write!(f, "{error}"),
            Ending::Frame(error) => write!(f, "{error}"),
            Ending::Unexpected(kind) => write!(f, "a frame {kind:?} came, which a node does not send here"),
            Ending::Garbage(error) => write!(f, "a message cannot be read: {error}"),
        }
    }
}

async fn receive<P: Process + Send + 'static>(
    links: &Arc<TcpLinks>,
    peer: &Peer,
    generation: u64,
    host: &Host<P>,
    mut stream: Box<dyn Stream>,
) -> Ending {
    let mut frames = FrameReader::new(BODY_BYTES_MAX);
    let (mut pongs, mut answers) = (FrameWriter::default(), BytesMut::new());
    let mut arrived = BytesMut::new();
    loop {
        loop {
            let frame = match frames.take(&mut arrived) {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(error) => return Ending::Frame(error),
            };
            match frame.kind {
                FrameKind::Ping if frame.body.len() == 8 => {
                    pongs.frame(FrameKind::Pong, &frame.body, &mut answers);
                }
                FrameKind::Message => {
                    let message = match codec::decode::<P::Message>(&frame.body) {
                        Ok(message) => message,
                        Err(error) => return Ending::Garbage(error),
                    };
                    while host.backlog() > BACKLOG_MAX {
                        tokio::time::sleep(BACKLOG_PAUSE).await;
                    }
                    // Held while it is delivered: nothing of an older connection comes behind a newer one's.
                    let incoming = peer.incoming.lock();
                    if incoming.generation != generation {
                        return Ending::Superseded;
                    }
                    host.deliver(host.now(), Event::Message { from: peer.node, message });
                    peer.received.fetch_add(1, Relaxed);
                }
                FrameKind::Answer => links.replicas.calls.answered(peer.node, frame.body),
                kind @ FrameKind::Call => {
                    let call = number_of(frame.body);
                    if !call.is_some_and(|(number, body)| links.serve_call(peer.node, number, body)) {
                        return Ending::Unexpected(kind);
                    }
                }
                kind => return Ending::Unexpected(kind),
            }
        }
        if !answers.is_empty() {
            match tokio::time::timeout(SILENCE_MAX, stream.write_all(&answers)).await {
                Ok(Ok(())) => _ = stream.flush().await,
                Ok(Err(error)) => return Ending::Io(error),
                Err(_) => return Ending::Silent,
            }
            answers.clear();
        }
        arrived.reserve(READ_BYTES);
        match tokio::time::timeout(2 * SILENCE_MAX, stream.read_buf(&mut arrived)).await {
            Err(_) => return Ending::Silent,
            Ok(Ok(0)) => return Ending::Closed,
            Ok(Ok(_)) => {}
            // A process that is killed closes nothing in order.
            Ok(Err(error)) if is_end(&error) => return Ending::Closed,
            Ok(Err(error)) => return Ending::Io(error),
        }
    }
}
