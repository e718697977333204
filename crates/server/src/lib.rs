//! The PostgreSQL front end: bytes on a socket to a session and back.
//!
//! One task per connection. Frames are cut and read here, messages are written by `pgwire`'s types; the
//! conversation itself (who may say what when) is here, because a client that vanishes, cancels or
//! sends garbage must cost nobody else anything.
//!
//! Suggested reading order: [`Server`], `admission`, `socket`, `frames`, `messages`, `auth`, `startup`, `connection`, `drain`, `extended`,
//! `responses`, `values`, `copy`.

mod admission;
pub mod auth;
mod connection;
mod copy;
mod copy_in;
mod drain;
mod errors;
mod extended;
mod frames;
mod listener;
mod messages;
mod options;
mod responses;
mod socket;
mod startup;
mod values;

pub use admission::Limits;

use admission::{Admissions, Place};
use auth::Authenticator;
use base::error::SqlResult;
use frames::LargeInputs;
use session::{CancelHandle, Gateway};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;

/// One node's front end.
pub struct Server {
    gateway: Arc<Gateway>,
    limits: Limits,
    admissions: Arc<Admissions>,
    authenticator: Arc<Authenticator>,
    large_inputs: Arc<LargeInputs>,
    drain: drain::Drain,
    /// By process id: the secret that a cancel request must name, and what it cancels.
    cancels: Mutex<BTreeMap<i32, (i32, CancelHandle)>>,
}

impl Server {
    pub fn new(gateway: Arc<Gateway>, limits: Limits, authenticator: Arc<Authenticator>) -> Arc<Server> {
        let admissions = Admissions::new(limits.clone());
        let large_inputs = LargeInputs::new(limits.input_bytes_max);
        let (cancels, drain) = (Mutex::default(), drain::Drain::default());
        Arc::new(Server { gateway, limits, admissions, authenticator, large_inputs, drain, cancels })
    }

    /// A place for a user that has proved who it is. Errors: 53300.
    fn admit(&self, address: IpAddr, user: &str) -> SqlResult<Place> {
        let catalog = self.gateway.catalog();
        let role = catalog.roles.named(user);
        let is_operator = role.is_some_and(|role| role.is_superuser);
        self.admissions.admit(address, user, is_operator, role.and_then(|role| role.connections_max))
    }

    /// Listens on an address. Errors: the port is in use, or not ours to use.
    pub async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
        TcpListener::bind(address).await
    }

    /// Serves connections until the listener fails; never returns otherwise. Dropping the future ends
    /// all of them.
    pub async fn serve(self: Arc<Self>, listener: TcpListener) -> io::Result<()> {
        listener::serve(self, listener).await
    }

    /// Lets nobody in any more and ends all sessions: those in a transaction after it, or after so long at the end of
    /// their statement. Waits as long again at most; answers how many sessions are left.
    pub async fn drain(&self, patience: Duration) -> usize {
        self.drain.run(patience, || self.admissions.places_taken()).await
    }

    /// Cancels what a process is doing; silence if the secret is wrong, as PostgreSQL does.
    fn cancel(&self, process: i32, secret: i32) {
        let cancels = self.cancels.lock().expect("no panic while locked");
        if let Some((_, handle)) = cancels.get(&process).filter(|(known, _)| *known == secret) {
            handle.cancel();
        }
    }

    /// Lets a process be cancelled by who knows the secret that is answered.
    fn register(self: &Arc<Self>, process: i32, handle: CancelHandle) -> (i32, Registered) {
        let secret: i32 = rand::random();
        self.cancels.lock().expect("no panic while locked").insert(process, (secret, handle));
        (secret, Registered { server: self.clone(), process })
    }
}

/// A process that can be cancelled, until this is dropped.
struct Registered {
    server: Arc<Server>,
    process: i32,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.server.cancels.lock().expect("no panic while locked").remove(&self.process);
    }
}
