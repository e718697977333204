//! Who runs on the machines: PERSEUS in its modes, and its rivals.

use base::cut::Consistency;
use base::time::MS;
use reads::protocol::Rival;
use reads::rule::Dynamic;
use txn::perseus::{FutureRanks, Options, Timestamps};

/// One system as it is compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct System {
    pub name: &'static str,
    pub mode: &'static str,
    pub rival: Option<Rival>,
    pub consistency: Consistency,
    /// Rule 1: transactions that span regions are ranked when they should be complete.
    pub future_ranks: bool,
    /// Rule 2: readers exclude at once what is known to be ranked later.
    pub lower_bounds: bool,
    /// Cuts move up while queries wait.
    pub dynamic: bool,
}

impl System {
    const fn perseus(mode: &'static str, consistency: Consistency) -> System {
        System {
            name: "PERSEUS",
            mode,
            rival: None,
            consistency,
            future_ranks: true,
            lower_bounds: true,
            dynamic: true,
        }
    }
    /// A rival's transactions are ranked now: ranks in the future are no part of it.
    const fn rival(name: &'static str, mode: &'static str, rival: Rival) -> System {
        System {
            name,
            mode,
            rival: Some(rival),
            consistency: Consistency::Rss,
            future_ranks: false,
            lower_bounds: true,
            dynamic: true,
        }
    }

    pub fn engine(&self) -> Options {
        Options {
            future_ranks: if self.future_ranks { FutureRanks::Measured } else { FutureRanks::Off },
            lower_bounds: self.lower_bounds,
            timestamps: match self.rival {
                Some(Rival::CentralTimestamp) => Timestamps::Central,
                _ => Timestamps::Clocks,
            },
            ..Options::default()
        }
    }
    pub fn node(&self) -> node::Options {
        let dynamic = if self.dynamic { Dynamic::default() } else { Dynamic::Off };
        let options = node::Options { rival: self.rival, dynamic, ..node::Options::default() };
        match self.rival {
            // Its writers wait for what is shipped.
            Some(Rival::SynchronousReplica) => node::Options { flush_ns: 2 * MS, ..options },
            _ => options,
        }
    }
}

pub const LIGHTNING: System = System::rival("Lightning", "safe timestamp, 30 ms", Rival::SafeTimestamp);
pub const TIDB: System = System::rival("TiDB", "central timestamp", Rival::CentralTimestamp);
pub const JANUS: System = System::rival("Janus-HTAP", "batch cut, 50 ms", Rival::BatchCut);
pub const SPANNER: System = System::rival("Spanner-RSS", "synchronous replica", Rival::SynchronousReplica);
pub const REGULAR: System = System::perseus("regular", Consistency::Regular);
pub const RSS: System = System::perseus("rss", Consistency::Rss);
/// What the two rules about ranks are for.
pub const RSS_NO_RULES: System =
    System { mode: "rss, neither rule", future_ranks: false, lower_bounds: false, ..RSS };
/// What rule 1 would do for a rival.
pub const LIGHTNING_FUTURE: System =
    System { mode: "safe timestamp, 30 ms, with future ranks", future_ranks: true, ..LIGHTNING };
/// The least cut that the level allows.
pub const REGULAR_STATIC: System =
    System { mode: "regular, without dynamic snapshot", dynamic: false, ..REGULAR };
