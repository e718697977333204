//! SQL: sessions, lowering to transactions, analytical plans, catalog views.
//!
//! A statement takes one of three ways: rows by key go to the node as they are, one-shot writes as a
//! program with its access set, and everything else through DataFusion over column snapshots.

mod activity;
pub mod analytics;
mod arrays;
pub mod catalog;
pub mod cluster;
mod copy;
mod ddl;
mod defects;
pub mod gateway;
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

pub use cluster::Cluster;
pub use gateway::{Gateway, GatewayConfig, QueryThreads, QueryThreadsLease};
pub use old_versions::{OldVersions, limit_old_versions};
pub use response::{
    BatchStream, Column, CopyFormat, CopyOut, Notice, ParameterType, Response, RowStream, Rows,
    TransactionStatus,
};
pub use session::{CancelHandle, Deadline, Prepared, Session, shown_ms};

/// The database that a cluster has.
pub const DATABASE: &str = "meridian";
