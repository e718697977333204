//! Which faults a plan mixes, and which engines may be put to them.

/// Which faults happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mix {
    /// None. Clocks wander within their bound.
    Calm,
    /// Messages are lost, doubled and reordered.
    Lossy,
    /// Delays spread widely; links stay reliable.
    Jittery,
    /// Nodes and regions are cut off, one way or both, and come back.
    Partitions,
    /// Clocks swing from one end of a wide bound to the other.
    ClockSkew,
    /// Nodes that run no partition crash and come back, without their memory.
    Crash,
    /// All nodes that run no partition and keep no columns, but one, crash for good.
    Deaths,
    /// One machine's clock leaves every bound, and comes back; for half of the seeds nodes and regions are cut off
    /// meanwhile, or links are lossy.
    Drift,
    /// Regions are lost with all they knew, one after the other, and come back without it. For engines with copies in
    /// every region only.
    Forgets,
    /// The same, while one machine's clock leaves every bound.
    DriftForgets,
    /// A draw of the above, but of crashes, deaths and clocks that drift, together.
    Mixed,
    /// The same, while nodes that run no partition crash and come back, without their memory.
    MixedCrash,
    /// Regions lose all they know while a clock leaves every bound and links double, reorder and lose a little.
    MixedForgets,
    /// One machine's clock leaves every bound while links are lossy, nodes and regions are cut off, and nodes that run
    /// no partition crash.
    MixedDrift,
    /// The same while regions lose all they know, as many together as are to be survived, at any time.
    Everything,
    /// Sequences change their leaders while few regions hold what was answered, or know what was promised, and some of
    /// these lose all they know. For engines with copies in every region only.
    TakeOvers,
    /// Homes move all the time, and delays spread. For engines with copies in every region only.
    Moves,
    /// Nodes that only read are out of reach of some others for longer than their leases.
    SilentReaders,
    /// Gateways are lost for good when one participant has heard of what they had begun and another one has not, while
    /// the former does not hear how earlier transactions end. For the engine that ends such a transaction, `perseus`.
    HalfTold,
}

impl Mix {
    /// What any engine may be put to.
    pub const ALL: [Mix; 12] = [
        Mix::Calm,
        Mix::Lossy,
        Mix::Jittery,
        Mix::Partitions,
        Mix::ClockSkew,
        Mix::Crash,
        Mix::Deaths,
        Mix::Drift,
        Mix::Mixed,
        Mix::MixedCrash,
        Mix::MixedDrift,
        Mix::SilentReaders,
    ];
    /// And one with a copy of everything in every region, engine `caerus`.
    pub const REPLICATED: [Mix; 6] =
        [Mix::Forgets, Mix::DriftForgets, Mix::MixedForgets, Mix::Everything, Mix::TakeOvers, Mix::Moves];

    /// And one whose participants end what a lost gateway began, engine `perseus`.
    pub const RECOVERED: [Mix; 1] = [Mix::HalfTold];

    /// All there are.
    pub fn every() -> impl Iterator<Item = Mix> {
        Mix::ALL.into_iter().chain(Mix::REPLICATED).chain(Mix::RECOVERED)
    }

    /// What an engine may be put to that goes on with all its nodes, or waits for them, or removes one that is lost:
    /// engine `geogauss`.
    pub const ALL_MEMBERS: [Mix; 7] =
        [Mix::Calm, Mix::Lossy, Mix::Jittery, Mix::Partitions, Mix::ClockSkew, Mix::Mixed, Mix::Forgets];

    pub fn name(self) -> &'static str {
        match self {
            Mix::Calm => "calm",
            Mix::Lossy => "lossy",
            Mix::Jittery => "jittery",
            Mix::Partitions => "partitions",
            Mix::ClockSkew => "clock-skew",
            Mix::Crash => "crash",
            Mix::Deaths => "deaths",
            Mix::Drift => "drift",
            Mix::Forgets => "forgets",
            Mix::DriftForgets => "drift-forgets",
            Mix::Mixed => "mixed",
            Mix::MixedCrash => "mixed-crash",
            Mix::MixedForgets => "mixed-forgets",
            Mix::MixedDrift => "mixed-drift",
            Mix::Everything => "everything",
            Mix::TakeOvers => "take-overs",
            Mix::Moves => "moves",
            Mix::SilentReaders => "silent-readers",
            Mix::HalfTold => "half-told",
        }
    }

    /// Whether gateways lose their memory, or more.
    pub fn takes_gateways(self) -> bool {
        use Mix::{Crash, Deaths, HalfTold, MixedCrash, MixedDrift};
        matches!(self, Crash | MixedCrash | MixedDrift | Deaths | HalfTold) || self.loses_regions()
    }
    /// Whether regions lose all they knew.
    pub fn loses_regions(self) -> bool {
        Mix::REPLICATED.contains(&self) && self != Mix::Moves
    }
    /// Whether a clock leaves every bound.
    pub fn leads_clocks_astray(self) -> bool {
        use Mix::{Drift, DriftForgets, Everything, MixedDrift, MixedForgets};
        matches!(self, Drift | MixedDrift | DriftForgets | MixedForgets | Everything)
    }
    /// Whether regions are out of each other's reach for long.
    pub fn separates(self) -> bool {
        use Mix::{Everything, Mixed, MixedCrash, MixedDrift, Partitions, SilentReaders, TakeOvers};
        matches!(self, Partitions | Mixed | MixedCrash | MixedDrift | Everything | TakeOvers | SilentReaders)
    }
}
