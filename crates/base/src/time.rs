//! Time and rank.
//!
//! [`Time`] is a reading of a node's bounded clock: |reading − true time| ≤ ε. [`Rank`] is a
//! transaction's coordinate in the one serial order, on the same scale. [`Place`] breaks ties.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, Sub};

/// Nanoseconds of one millisecond, one second, one microsecond.
pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1_000_000_000;
pub const US: u64 = 1_000;

/// A reading of a node's clock, in ns. Physical time never runs backwards at one node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Time(pub u64);

/// Where a transaction stands in the serial order: a 64-bit hybrid time in ns.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Rank(pub u64);

/// A transaction's exact place: ties in rank go by transaction id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize)]
pub struct Place {
    pub rank: Rank,
    pub txn: crate::TxnId,
}

impl Time {
    pub const ZERO: Time = Time(0);
    pub const MAX: Time = Time(u64::MAX);

    pub const fn from_ms(ms: u64) -> Time {
        Time(ms * MS)
    }
    /// This reading taken as a rank.
    pub const fn rank(self) -> Rank {
        Rank(self.0)
    }
    pub fn as_ms_f64(self) -> f64 {
        self.0 as f64 / MS as f64
    }
    /// ns since `earlier`, 0 if `earlier` lies ahead.
    pub fn since(self, earlier: Time) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl Rank {
    pub const ZERO: Rank = Rank(0);
    pub const MAX: Rank = Rank(u64::MAX);

    /// The next rank: "1 + rank" adds one nanosecond.
    pub const fn next(self) -> Rank {
        Rank(self.0 + 1)
    }
    pub const fn previous(self) -> Rank {
        Rank(self.0.saturating_sub(1))
    }
    pub const fn time(self) -> Time {
        Time(self.0)
    }
}

impl Place {
    pub fn new(rank: Rank, txn: crate::TxnId) -> Place {
        Place { rank, txn }
    }
    /// After every transaction of this rank: a cut at `rank` includes every tie.
    pub fn end_of(rank: Rank) -> Place {
        Place { rank, txn: crate::TxnId::MAX }
    }
}

impl Add<u64> for Time {
    type Output = Time;
    fn add(self, ns: u64) -> Time {
        Time(self.0.saturating_add(ns))
    }
}
impl Sub<u64> for Time {
    type Output = Time;
    fn sub(self, ns: u64) -> Time {
        Time(self.0.saturating_sub(ns))
    }
}
impl Add<u64> for Rank {
    type Output = Rank;
    fn add(self, ns: u64) -> Rank {
        Rank(self.0.saturating_add(ns))
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6}ms", self.as_ms_f64())
    }
}
impl fmt::Debug for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}
impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
