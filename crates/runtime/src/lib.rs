//! Hosts: what drives a pure node in the real world.
//!
//! [`local::LocalCluster`] runs all nodes of a topology in this process, in real time, with the WAN
//! between them emulated; [`tcp`] connects one node of this process to the others over TCP. Nodes may keep their logs
//! in a [`DataDir`]. Suggested reading order: [`clock`], [`disk_error`], [`files`], [`room`], [`record_log`], [`data_dir`],
//! [`host`], [`local`], [`tcp`], [`rings`].

pub mod clock;
pub mod data_dir;
pub mod disk_error;
pub mod files;
pub mod host;
pub mod local;
pub mod long_work;
pub mod record_log;
pub mod rings;
pub mod room;
pub mod tcp;
pub mod threads;

pub use clock::Clock;
pub use data_dir::DataDir;
pub use disk_error::DiskError;
pub use host::{Gone, Host};
pub use local::LocalCluster;
pub use long_work::{GivesWay, compete_like_all, give_up_turn, let_another_poll_events};
pub use record_log::{RecordLog, Recovered};
pub use rings::{Following, RingReader, Rings, RingsOf};
pub use room::Room;
pub use threads::{STACK_BYTES, give_back_stack, give_way};
