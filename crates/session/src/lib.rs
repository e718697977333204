//! What a connection has open: sessions, transactions, prepared statements, cursors, row locks.
//!
//! A statement takes one of three ways: rows by key go to the node as they are, one-shot writes as a
//! program with its access set, and everything else through DataFusion over column snapshots.

mod advisory_locks;
mod catching_up;
mod copy;
pub mod gateway;
mod locks;
pub mod notifications;
mod old_versions;
mod remote_locks;
pub mod response;
pub mod session;
mod temporary_tables;

pub use analytics::{BatchStream, Cluster, NotAtReplica, ReplicaCommand, ReplicaHealth};
pub use gateway::{Gateway, GatewayConfig};
pub use old_versions::{OldVersions, limit_old_versions};
pub use response::{CopyFormat, CopyOut, Notice, Response, RowStream, Rows, TransactionStatus};
pub use session::{Deadline, Prepared, Session, shown_ms};
pub use sql::cancel::CancelHandle;
pub use sql::interrupt::{QueryThreads, QueryThreadsLease};
pub use sql::places::Places;
pub use sql::types::{Column, ParameterType};
