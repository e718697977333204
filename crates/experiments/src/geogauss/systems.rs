//! Who orders.

use base::time::MS;
use txn::aria::Barriers;
use txn::geogauss::Isolation;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct System {
    pub name: &'static str,
    pub way: Way,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Way {
    Geogauss {
        isolation: Isolation,
        epoch_ns: u64,
    },
    /// One log of all regions. `as_described`: Paxos decides each entry in two rounds; otherwise a standing leader in one.
    Calvin {
        as_described: bool,
    },
    Aria(Barriers),
    /// One leader for each shard, no copies; the leaders that a transaction touches agree on its place
    /// ([`txn::perseus`]).
    Leaders,
}

pub const EPOCH_NS: u64 = 10 * MS;

pub const GEOGAUSS: System = geogauss("geogauss", Isolation::ReadCommitted, EPOCH_NS);
pub const CALVIN: System = System { name: "calvin", way: Way::Calvin { as_described: true } };
pub const CALVIN_IDEALISED: System =
    System { name: "calvin, idealised", way: Way::Calvin { as_described: false } };
pub const ARIA: System = System { name: "aria", way: Way::Aria(Barriers::Phases) };
pub const ARIA_IDEALISED: System = System { name: "aria, idealised", way: Way::Aria(Barriers::None) };
pub const LEADERS: System = System { name: "leaders", way: Way::Leaders };

pub const SYSTEMS: [System; 6] = [GEOGAUSS, CALVIN, CALVIN_IDEALISED, ARIA, ARIA_IDEALISED, LEADERS];

pub const fn geogauss(name: &'static str, isolation: Isolation, epoch_ns: u64) -> System {
    System { name, way: Way::Geogauss { isolation, epoch_ns } }
}

impl System {
    /// At which level its transactions run.
    pub fn level(&self) -> &'static str {
        match self.way {
            Way::Geogauss { isolation, .. } => isolation.name(),
            _ => Isolation::Serializable.name(),
        }
    }
    /// A copy of everything in every region.
    pub fn is_replicated(&self) -> bool {
        self.way != Way::Leaders
    }
}
