//! SLOG (Ren, Li, Abadi, VLDB 2019): a log for each region ("local log"), and one of all regions.
//!
//! What touches one region goes into that region's log. What touches several goes into the log of all regions first;
//! every region takes its pieces from there, in that order, into its own log. KEEPS: two such transactions come in the
//! same order in every log, so no two wait for each other, and no component has several members (asserted by the
//! scheduler): who waits for locks gets them.

use crate::caerus::options::Batching;
use crate::caerus::{Options, Routing};
use base::time::MS;

/// Which logs there are.
pub const ROUTING: Routing = Routing::Ordered;

/// As a cluster should run it.
pub fn options() -> Options {
    Options { routing: ROUTING, batching: Batching::every(10 * MS), ..Options::default() }
}
