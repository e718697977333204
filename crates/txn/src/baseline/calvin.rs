//! Calvin (Thomson et al., SIGMOD 2012): one log of all regions, for everything. KEEPS: every region executes it.

use crate::caerus::{Options, Routing};
use base::time::MS;

/// Which logs there are.
pub const ROUTING: Routing = Routing::Central;

/// As a cluster should run it.
pub fn options() -> Options {
    Options { routing: ROUTING, batch_ns: 10 * MS, batch_max_ns: 10 * MS, ..Options::default() }
}
