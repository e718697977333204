//! The connection by which a node sends: opened, kept alive with pings, and opened again when it is lost.

use super::frame::{FrameKind, FrameReader, FrameWriter};
use super::handshake::{Broken, Hello, Refusal, hear_hello, say_hello};
use super::links::{Peer, TcpLinks};
use super::stream::{Stream, why_broken};
use base::NodeId;
use base::rng::Rng;
use bytes::BytesMut;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;

/// TCP, TLS and the handshake together take no longer.
pub(super) const HANDSHAKE_MAX: Duration = Duration::from_secs(5);
/// A connection that is lost is opened again after a pause, each twice as long as the one before.
const PAUSE_MIN: Duration = Duration::from_millis(25);
const PAUSE_MAX: Duration = Duration::from_millis(800);
/// A connection that lasted so long was a good one: the next pause is the shortest again.
const SETTLED_AFTER: Duration = Duration::from_secs(2);
const PING_EVERY: Duration = Duration::from_millis(500);
/// A peer that answers no ping for so long is gone.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(5);
/// What is written at once, about.
const WRITE_BYTES: usize = 64 << 10;

/// Why there is no connection any more.
pub(super) enum Ended {
    Lost(String),
    /// The other side, or its word, says that this node must not go on.
    MustNotGoOn(String),
}

impl From<std::io::Error> for Ended {
    fn from(error: std::io::Error) -> Self {
        Ended::Lost(why_broken(&error))
    }
}
impl From<Broken> for Ended {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Refused { why, ends_the_node: true } => Ended::MustNotGoOn(why),
            broken => Ended::Lost(broken.to_string()),
        }
    }
}
impl From<Refusal> for Ended {
    fn from(refusal: Refusal) -> Self {
        Ended::Lost(format!("the node there is refused: {refusal}"))
    }
}

/// Keeps a connection to a peer, for ever.
pub(super) async fn keep_connected(links: Arc<TcpLinks>, to: NodeId) {
    let peer = links.peer(to);
    let mut pauses = Pauses::new(&links, to, "pauses");
    loop {
        let began = Instant::now();
        let ended = match tokio::time::timeout(HANDSHAKE_MAX, open(&links, peer, &links.hello)).await {
            Err(_) => Ended::Lost("no answer in time".into()),
            Ok(Err(ended)) => ended,
            Ok(Ok(stream)) => {
                peer.queue.open();
                peer.came_up();
                let ended = run(peer, stream).await;
                peer.queue.close();
                links.replicas.calls.fail(peer.node);
                ended
            }
        };
        match ended {
            Ended::Lost(why) => peer.went_down(why),
            Ended::MustNotGoOn(why) => {
                let why = format!("node {} at {} refuses this node: {why}", peer.name, peer.address);
                peer.went_down(why.clone());
                links.end(why);
            }
        }
        pauses.wait(began, &peer.redial).await;
    }
}

/// Pauses between attempts to connect.
pub(super) struct Pauses {
    rng: Rng,
    next: Duration,
}

impl Pauses {
    pub fn new(links: &TcpLinks, to: NodeId, stream: &str) -> Pauses {
        let rng = Rng::new(links.hello.life.process).fork_nth(stream, u64::from(to.0));
        Pauses { rng, next: PAUSE_MIN }
    }
    /// Waits after an attempt that began then, or until it is worth trying at once.
    pub async fn wait(&mut self, began: Instant, redial: &Notify) {
        if began.elapsed() >= SETTLED_AFTER {
            self.next = PAUSE_MIN;
        }
        // Nodes that have lost each other do not come back in step.
        tokio::select! {
            () = tokio::time::sleep(self.next.mul_f64(0.75 + self.rng.unit() / 2.0)) => {}
            () = redial.notified() => {}
        }
        self.next = (self.next * 2).min(PAUSE_MAX);
    }
}

/// Connects to a peer and says these words.
pub(super) async fn open(links: &TcpLinks, peer: &Peer, hello: &Hello) -> Result<Box<dyn Stream>, Ended> {
    let mut stream = links.security.connect(&peer.name, &peer.address).await?;
    say_hello(&mut stream, hello).await?;
    let theirs = hear_hello(&mut stream).await?;
    links.hello.check_cluster(&theirs)?;
    if theirs.node != peer.node || theirs.name != peer.name {
        return Err(Refusal::AnotherNode { found: theirs.name, wanted: peer.name.clone() }.into());
    }
    // With TLS the certificate has been checked to be of the peer's name.
    links.hello.check_node(&theirs, None, links.known(&peer.name))?;
    links.heard(&theirs).map_err(|error| Ended::MustNotGoOn(error.to_string()))?;
    Ok(stream)
}

/// Sends and pings until the connection ends.
pub(super) async fn run(peer: &Peer, stream: Box<dyn Stream>) -> Ended {
    let (reader, writer) = tokio::io::split(stream);
    let origin = Instant::now();
    // Each of them ends with an error only.
    let ended = tokio::select! {
        sent = send(peer, origin, writer) => sent,
        heard = hear_pongs(peer, origin, reader) => heard,
    };
    let Err(ended) = ended;
    ended
}

/// A ping says when it was sent, in ns since `origin`.
async fn send(
    peer: &Peer,
    origin: Instant,
    mut writer: impl AsyncWrite + Unpin,
) -> Result<Infallible, Ended> {
    let mut frames = FrameWriter::default();
    let (mut buffer, mut messages) = (BytesMut::with_capacity(2 * WRITE_BYTES), Vec::new());
    let mut pings = tokio::time::interval(PING_EVERY);
    loop {
        tokio::select! {
            biased;
            _ = pings.tick() => {
                let at_ns = origin.elapsed().as_nanos() as u64;
                frames.frame(FrameKind::Ping, &at_ns.to_le_bytes(), &mut buffer);
            }
            () = peer.queue.take(WRITE_BYTES, &mut messages) => {
                for (kind, message) in messages.drain(..) {
                    frames.frame(kind, &message, &mut buffer);
                }
            }
        }
        writer.write_all(&buffer).await?;
        writer.flush().await?;
        buffer.clear();
        if buffer.capacity() > 16 * WRITE_BYTES {
            buffer = BytesMut::with_capacity(2 * WRITE_BYTES);
        }
    }
}

async fn hear_pongs(
    peer: &Peer,
    origin: Instant,
    mut reader: impl AsyncRead + Unpin,
) -> Result<Infallible, Ended> {
    let mut frames = FrameReader::new(8);
    let mut arrived = BytesMut::new();
    loop {
        while let Some(frame) = frames.take(&mut arrived).map_err(|e| Ended::Lost(e.to_string()))? {
            let body: Result<[u8; 8], _> = frame.body.as_ref().try_into();
            let (FrameKind::Pong, Ok(body)) = (frame.kind, body) else {
                return Err(Ended::Lost("something else came than a pong".into()));
            };
            let sent_at = Duration::from_nanos(u64::from_le_bytes(body));
            peer.measured(origin.elapsed().saturating_sub(sent_at));
        }
        match tokio::time::timeout(SILENCE_MAX, reader.read_buf(&mut arrived)).await {
            Err(_) => return Err(Ended::Lost(format!("no answer for {} s", SILENCE_MAX.as_secs()))),
            Ok(Ok(0)) => return Err(Ended::Lost("closed by the other side".into())),
            Ok(read) => _ = read?,
        }
    }
}
