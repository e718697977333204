//! Calvin (Thomson et al., SIGMOD 2012): one log of all regions, for everything. KEEPS: every region executes it.

use crate::caerus::options::Batching;
use crate::caerus::{Options, Routing};
use base::time::MS;

/// Which logs there are.
pub const ROUTING: Routing = Routing::Central;

/// As a cluster should run it.
pub fn options() -> Options {
    Options { routing: ROUTING, batching: Batching::every(10 * MS), ..Options::default() }
}
