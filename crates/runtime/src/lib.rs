//! Hosts: what drives a pure node in the real world.
//!
//! [`local::LocalCluster`] runs all nodes of a topology in this process, in real time, with the WAN
//! between them emulated. Nodes may keep their logs in a [`DataDir`]. Suggested reading order: [`clock`],
//! [`files`], [`node_log`], [`data_dir`], [`host`], [`local`].

pub mod clock;
pub mod data_dir;
pub mod files;
pub mod host;
pub mod local;
pub mod node_log;
pub mod threads;

pub use clock::Clock;
pub use data_dir::DataDir;
pub use host::{Gone, Host};
pub use local::LocalCluster;
pub use node_log::{DiskError, NodeLog};
pub use threads::{STACK_BYTES, give_way};
