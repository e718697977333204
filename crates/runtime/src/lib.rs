//! Hosts: what drives a pure node in the real world.
//!
//! [`local::LocalCluster`] runs all nodes of a topology in this process, in real time, with the WAN
//! between them emulated. Suggested reading order: [`clock`], [`host`], [`local`].

pub mod clock;
pub mod host;
pub mod local;
mod niceness;

pub use clock::Clock;
pub use host::{Gone, Host};
pub use local::LocalCluster;
pub use niceness::give_way;
