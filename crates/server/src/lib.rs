//! The PostgreSQL front end: bytes on a socket to a session and back.
//!
//! One task per connection. Messages are parsed and written by `pgwire`'s message types; the
//! conversation itself (who may say what when) is here, because a client that vanishes, cancels or
//! sends garbage must cost nobody else anything.
//!
//! Suggested reading order: [`Server`], `connection`, `startup`, `extended`, `values`, `copy`.

mod connection;
mod copy;
mod errors;
mod extended;
mod startup;
mod values;

use query::{CancelHandle, Gateway};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;

/// Limits of a front end.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections served at once; one more is refused with 53300.
    pub connections_max: usize,
    /// Longest message a client may send, in bytes; a longer one ends the connection with 08P01.
    pub message_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { connections_max: 500, message_bytes_max: 64 << 20 }
    }
}

/// One node's front end.
pub struct Server {
    gateway: Arc<Gateway>,
    limits: Limits,
    next_process: AtomicI32,
    connections: AtomicUsize,
    /// By process id: the secret that a cancel request must name, and what it cancels.
    cancels: Mutex<BTreeMap<i32, (i32, CancelHandle)>>,
}

impl Server {
    pub fn new(gateway: Arc<Gateway>, limits: Limits) -> Arc<Server> {
        Arc::new(Server {
            gateway,
            limits,
            next_process: AtomicI32::new(1),
            connections: AtomicUsize::new(0),
            cancels: Mutex::default(),
        })
    }

    /// Listens on an address. Errors: the port is in use, or not ours to use.
    pub async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
        TcpListener::bind(address).await
    }

    /// Serves connections until the listener fails; never returns otherwise. Dropping the future ends
    /// all of them.
    pub async fn serve(self: Arc<Self>, listener: TcpListener) -> io::Result<()> {
        let mut tasks = tokio::task::JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => {
                    let (stream, peer) = match accepted {
                        Ok(accepted) => accepted,
                        // Out of descriptors, or the client is gone already: others go on.
                        Err(e) => {
                            tracing::warn!("failed to accept a connection: {e}");
                            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
                            continue;
                        }
                    };
                    let server = self.clone();
                    tasks.spawn(async move {
                        if let Err(e) = connection::run(server, stream).await {
                            tracing::debug!(%peer, "connection ended: {e}");
                        }
                    });
                }
                Some(ended) = tasks.join_next(), if !tasks.is_empty() => {
                    if let Err(e) = ended {
                        tracing::error!("a connection's task failed: {e}");
                    }
                }
            }
        }
    }

    /// Cancels what a process is doing; silence if the secret is wrong, as PostgreSQL does.
    fn cancel(&self, process: i32, secret: i32) {
        let cancels = self.cancels.lock().expect("no panic while locked");
        if let Some((_, handle)) = cancels.get(&process).filter(|(known, _)| *known == secret) {
            handle.cancel();
        }
    }

    fn admit(self: &Arc<Self>) -> Option<Admission> {
        let before = self.connections.fetch_add(1, Ordering::SeqCst);
        let admission = Admission { server: self.clone(), process: None };
        (before < self.limits.connections_max).then_some(admission)
    }
}

/// A connection's place; given back when dropped.
struct Admission {
    server: Arc<Server>,
    process: Option<i32>,
}

impl Admission {
    /// Process id and secret under which this connection can be cancelled.
    fn register(&mut self, handle: CancelHandle) -> (i32, i32) {
        let process = self.server.next_process.fetch_add(1, Ordering::SeqCst);
        let secret: i32 = rand::random();
        self.server.cancels.lock().expect("no panic while locked").insert(process, (secret, handle));
        self.process = Some(process);
        (process, secret)
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.server.connections.fetch_sub(1, Ordering::SeqCst);
        if let Some(process) = self.process {
            self.server.cancels.lock().expect("no panic while locked").remove(&process);
        }
    }
}
