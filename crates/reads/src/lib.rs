//! Visibility: how a query's cut is chosen, and when it is closed and may be read.
//!
//! One theorem stands behind every rule here. Let ≺ be a total order of committed transactions that
//! agrees with the execution order of every conflicting pair and with real time between writers. If a
//! query reads exactly the transactions up to its cut, the cut includes everything answered before the
//! query arrived that conflicts with it and everything in its session's token, and later writers of its
//! session come after the cut, then placing each query right after its cut is a legal serial order:
//! regular sequential serializability. A rule that reads anything but an initial segment of ≺ (however
//! well closed under dependencies) loses that: see [`rule::perseus`].

pub mod batches;
pub mod estimate;
pub mod graph;
pub mod protocol;
pub mod replica;
pub mod rule;
pub mod share;
