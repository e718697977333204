//! SQL: sessions, lowering to transactions, analytical plans, catalog views.
//!
//! A statement takes one of three ways: rows by key go to the node as they are, one-shot writes as a
//! program with its access set, and everything else through DataFusion over column snapshots.

mod activity;
pub mod analytics;
mod arrays;
mod cancel;
pub mod catalog;
pub mod cluster;
mod copy;
mod ddl;
mod defects;
pub mod gateway;
mod generators;
mod interrupt;
mod locks;
pub mod lower;
pub mod names;
mod old_versions;
pub mod panics;
mod parse;
mod remote_locks;
pub mod response;
pub mod session;
mod spans;
pub mod types;

pub use analytics::BatchStream;
pub use cancel::CancelHandle;
pub use cluster::Cluster;
pub use gateway::{Gateway, GatewayConfig};
pub use interrupt::{QueryThreads, QueryThreadsLease};
pub use old_versions::{OldVersions, limit_old_versions};
pub use response::{CopyFormat, CopyOut, Notice, Response, RowStream, Rows, TransactionStatus};
pub use session::{Deadline, Prepared, Session, shown_ms};
pub use types::{Column, ParameterType};

/// The database that a cluster has.
pub const DATABASE: &str = "meridian";
