//! One node in this process, the others of its cluster in processes of their own, over TCP.
//!
//! A node has two connections with each peer: it connects to send its messages, and the peer connects to send its own.
//! Each is mutual TLS, opened by a handshake ([`handshake`]); then frames go one way and pongs come back.
//!
//! Read-only replicas in processes of their own connect twice to each node, once for each direction, and nobody connects to
//! them ([`replicas`]).
//!
//! What a node may expect of its links is what [`base::process`] says, and a bit more: messages of one connection
//! arrive in the order in which they were sent, each once; an older connection of a peer delivers nothing any more once
//! the peer has a newer one. A connection that is lost loses what was on its way and what waited for it, and while there
//! is none messages are lost: protocols send again what matters. KEEPS:
//! 1. the sender of a message is whom the connection's certificate names, whatever the message says;
//! 2. a message to several peers is encoded once, and not at all if none of them is connected;
//! 3. what waits for a slow peer is bounded ([`queue`]), and a node that is behind reads no further ([`accept`]);
//! 4. whatever a peer sends can end its connection, and not this process.
//!
//! Suggested reading order: [`handshake`], [`frame`], [`links`], [`connect`], [`accept`].

pub mod accept;
pub mod ask;
mod calls;
pub mod connect;
pub mod frame;
pub mod handshake;
pub mod links;
pub mod lives;
mod places;
pub mod queue;
mod replicas;
pub mod stream;
pub mod tls;

pub use accept::Network;
pub use handshake::{Hello, Life, Purpose};
pub use links::{PeerStatus, TcpLinks, TcpOptions};
pub use lives::Lives;
pub use replicas::{Registered, ReplicaPeer};
pub use stream::Security;
pub use tls::{Owner, Tls};

#[cfg(test)]
mod tests;
