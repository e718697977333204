//! Who runs on the machines: PERSEUS in its modes, and its baselines.

use base::cut::Consistency;
use base::time::MS;
use reads::protocol::Baseline;
use reads::rule::Dynamic;
use txn::perseus::{FutureRanks, Options, Timestamps};

/// One system as it is compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct System {
    pub name: &'static str,
    pub mode: &'static str,
    pub baseline: Option<Baseline>,
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
            baseline: None,
            consistency,
            future_ranks: true,
            lower_bounds: true,
            dynamic: true,
        }
    }
    /// A baseline's transactions are ranked now: ranks in the future are no part of it.
    const fn baseline(name: &'static str, mode: &'static str, baseline: Baseline) -> System {
        System {
            name,
            mode,
            baseline: Some(baseline),
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
            timestamps: match self.baseline {
                Some(Baseline::CentralTimestamp) => Timestamps::Central,
                _ => Timestamps::Clocks,
            },
            ..Options::default()
        }
    }
    pub fn node(&self) -> node::Options {
        let dynamic = if self.dynamic { Dynamic::default() } else { Dynamic::Off };
        let options = node::Options { baseline: self.baseline, dynamic, ..node::Options::default() };
        match self.baseline {
            // Its writers wait for what is shipped.
            Some(Baseline::SynchronousReplica) => {
                let streaming = node::Streaming { flush_ns: 2 * MS, ..options.streaming };
                node::Options { streaming, ..options }
            }
            _ => options,
        }
    }
}

pub const LIGHTNING: System = System::baseline("Lightning", "safe timestamp, 30 ms", Baseline::SafeTimestamp);
pub const TIDB: System = System::baseline("TiDB", "central timestamp", Baseline::CentralTimestamp);
pub const JANUS: System = System::baseline("Janus-HTAP", "batch cut, 50 ms", Baseline::BatchCut);
pub const SPANNER: System =
    System::baseline("Spanner-RSS", "synchronous replica", Baseline::SynchronousReplica);
pub const REGULAR: System = System::perseus("regular", Consistency::Regular);
pub const RSS: System = System::perseus("rss", Consistency::Rss);
/// What the two rules about ranks are for.
pub const RSS_NO_RULES: System =
    System { mode: "rss, neither rule", future_ranks: false, lower_bounds: false, ..RSS };
/// What rule 1 would do for a baseline.
pub const LIGHTNING_FUTURE: System =
    System { mode: "safe timestamp, 30 ms, with future ranks", future_ranks: true, ..LIGHTNING };
/// The least cut that the level allows.
pub const REGULAR_STATIC: System =
    System { mode: "regular, without dynamic snapshot", dynamic: false, ..REGULAR };
