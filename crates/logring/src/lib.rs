//! The log ring: how a replica of the same host gets a partition's log, and learns what was written where, without a
//! message (PolarDB-SCC §4.2 and §4.3).
//!
//! A writer and its readers map one file. In it lie the tracker's slots ([`reads::replica::tracker`]), so that fetching a
//! timestamp is a load, and a ring of records, which the writer overwrites without asking anybody: a reader that is too
//! slow finds out, and takes what it has lost from the log's storage. IN: records with their positions, what they write.
//! OUT: the same records in order, or [`Next::Overrun`]. KEEPS: a reader is handed a record that was written whole, with its
//! position, or none; what it learns of the tracker is of the incarnation that it opened, whose lease has not ended; a
//! mapping of another version, one that is half written, and one of another incarnation are refused.
//!
//! Everything in the mapping is a word of 64 bits that is read and written atomically ([`layout`]). All `unsafe` code is in
//! [`mapping`]. The layout is the one that one-sided RDMA would use, see `docs/log-ring.md`.
//!
//! A host lends a node memory in such a mapping ([`lent`]), in which the node publishes what fetches need, and appends what
//! the node sends to replicas (`runtime::rings`). [`Writer`], which does both, is used by tests and `examples/speed.rs` alone.

pub mod layout;
pub mod lent;
pub mod mapping;
pub mod ring;
pub mod slots;
pub mod word;

pub use layout::{Layout, Refused};
pub use lent::Lent;
pub use mapping::Mapping;
pub use ring::{Next, Reader, Writer};
