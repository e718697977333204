//! Hosts: what drives a pure node in the real world.
//!
//! [`local::LocalCluster`] runs all nodes of a topology in this process, in real time, with the WAN
//! between them emulated. Nodes may keep their logs in a [`DataDir`]. Suggested reading order: [`clock`],
//! [`log_file`], [`data_dir`], [`host`], [`local`].

pub mod clock;
pub mod data_dir;
pub mod host;
pub mod local;
pub mod log_file;
pub mod threads;

pub use clock::Clock;
pub use data_dir::DataDir;
pub use host::{Gone, Host};
pub use local::LocalCluster;
pub use log_file::{DiskError, LogFile};
pub use threads::{STACK_BYTES, give_way};
