//! What a checker says when a history breaks a promise.

use std::fmt;

use crate::guarantee::Guarantee;
use crate::op::OpId;

/// Kinds of anomaly, by the literature's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Anomaly {
    /// A value that was never written, or a row outside the range read.
    GarbageRead,
    /// An operation disagrees with its own earlier writes.
    Internal,
    /// G1a: read a write of an aborted transaction.
    AbortedRead,
    /// G1b: read a write that its transaction overwrote itself.
    IntermediateRead,
    /// One append is found twice in a list.
    DuplicateWrite,
    /// Two readers saw lists of which neither continues the other.
    ForkedVersions,
    /// G0: writes of two transactions interleave.
    DirtyWrite,
    /// G1c: each reads from or overwrites the other.
    CircularInformationFlow,
    /// Two transactions read one version and both overwrote it.
    LostUpdate,
    /// Saw some writes of a transaction and missed others.
    FracturedRead,
    /// G-single: exactly one anti-dependency.
    ReadSkew,
    /// Two writers each overwrote what the other read.
    WriteSkew,
    /// Two readers saw two independent writers in opposite orders.
    LongFork,
    /// G2: any other cycle of dependencies and anti-dependencies.
    AntiDependencyCycle,
    /// A cycle closed by a row that a range read should have returned.
    Phantom,
    /// Missed a write that had been answered before the read began.
    StaleRead,
    /// The order of a session's operations is not kept.
    SessionOrder,
    /// The order that a token carries is not kept.
    TokenOrder,
    /// "Answered before invoked" is not kept, though no single read is stale.
    RealTimeInversion,
}

impl Anomaly {
    /// The name in words, with Adya's code where there is one.
    pub fn name(self) -> &'static str {
        match self {
            Anomaly::GarbageRead => "garbage read",
            Anomaly::Internal => "internal inconsistency",
            Anomaly::AbortedRead => "aborted read (G1a)",
            Anomaly::IntermediateRead => "intermediate read (G1b)",
            Anomaly::DuplicateWrite => "duplicate write",
            Anomaly::ForkedVersions => "forked versions",
            Anomaly::DirtyWrite => "dirty write (G0)",
            Anomaly::CircularInformationFlow => "circular information flow (G1c)",
            Anomaly::LostUpdate => "lost update",
            Anomaly::FracturedRead => "fractured read",
            Anomaly::ReadSkew => "read skew (G-single)",
            Anomaly::WriteSkew => "write skew (G2-item)",
            Anomaly::LongFork => "long fork",
            Anomaly::AntiDependencyCycle => "anti-dependency cycle (G2)",
            Anomaly::Phantom => "phantom",
            Anomaly::StaleRead => "stale read",
            Anomaly::SessionOrder => "session order broken",
            Anomaly::TokenOrder => "token order broken",
            Anomaly::RealTimeInversion => "real-time order broken",
        }
    }
}

/// A broken promise and the evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub guarantee: Guarantee,
    pub anomaly: Anomaly,
    /// The operations involved, in the order of the cycle.
    pub ops: Vec<OpId>,
    /// One sentence per edge of the cycle, or per fact.
    pub reasons: Vec<String>,
    /// The operations as scenario text.
    pub excerpt: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "not {}: {}", self.guarantee, self.anomaly.name())?;
        for reason in &self.reasons {
            writeln!(f, "  {reason}")?;
        }
        writeln!(f, "where")?;
        for line in self.excerpt.lines() {
            writeln!(f, "  {line}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Violation {}
