//! Strong reads at read-only replicas of rows (PolarDB-SCC), and the policies that they are compared with.
//!
//! A replica follows the log of the partition that it copies, and is behind it. A read there learns, with one question
//! that it shares with others ([`crate::share`]), a rank that is closed for what it reads and at which log position each
//! granule of it was written last ([`tracker`]); it waits until the log is applied that far, no farther, and reads at
//! the rank. IN: a read, answers of the partitions' nodes. OUT: its cut and when that may be read. KEEPS: the cut holds
//! whatever was answered before the read arrived; of every granule that is read, each transaction in the cut is applied.
//! What the tracker saves is waiting for *applying*; a cut is closed as for any other read.
//!
//! | PolarDB-SCC | here |
//! |---|---|
//! | commit timestamp of the RW node, global level | the rank of the question, closed by the partition; its log's end |
//! | LSN of a table or page | position of the commit record that wrote a table or granule last ([`tracker`]) |
//! | read view | the cut: one rank for all partitions that are read |
//!
//! Divergences: positions of commit records at every level, where the paper compares commit timestamps with LSNs of pages
//! and loses a commit in between (`tracker`, tests); one question brings all levels, so that no level is older than the
//! cut that it is used with; visibility is by rank, so a statement over several granules sees each transaction whole.

pub mod granules;
pub mod published;
pub mod tracker;

use crate::rule::{Ask, Followed, Progress, QueryMeta, Readable, Rule, Told, View};
use base::cut::CutChoice;
use base::{LogPosition, PartitionId, Rank, SqlError, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How reads of rows are answered at a node that keeps a replica of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReadPolicy {
    /// Strong, here: a shared question, then waiting for the granules that are read.
    #[default]
    Scc,
    /// Strong, at the node that executes the partition.
    Primary,
    /// Strong, here: a question for each read, then waiting for the whole log.
    ReadWait,
    /// Strong, here: writers have waited for every replica, in a cluster that reads so
    /// ([`crate::protocol::synchronous_replica`]); elsewhere as `Primary`.
    CommitWait,
    /// Here, not before what the session has seen.
    Session,
    /// Here, at what is complete; `bound_ns`: no older than this, at the price of waiting.
    Stale { bound_ns: Option<u64> },
}

impl ReadPolicy {
    /// By its name; `stale` with the age that it may have, in ms.
    pub fn parse(text: &str) -> Option<ReadPolicy> {
        let mut words = text.split_whitespace();
        let (name, bound) = (words.next()?.to_ascii_lowercase(), words.next());
        let policy = match (name.as_str(), bound) {
            ("stale", Some(bound)) => {
                let ms: u64 = bound.trim_end_matches("ms").parse().ok()?;
                ReadPolicy::Stale { bound_ns: Some(ms.checked_mul(base::time::MS)?) }
            }
            (_, Some(_)) => return None,
            ("scc", None) => ReadPolicy::Scc,
            ("primary", None) => ReadPolicy::Primary,
            ("read_wait", None) => ReadPolicy::ReadWait,
            ("commit_wait", None) => ReadPolicy::CommitWait,
            ("session", None) => ReadPolicy::Session,
            ("stale", None) => ReadPolicy::Stale { bound_ns: None },
            _ => return None,
        };
        words.next().is_none().then_some(policy)
    }
    /// As [`ReadPolicy::parse`] reads it.
    pub fn shown(self) -> String {
        match self {
            ReadPolicy::Stale { bound_ns: Some(ns) } => format!("stale {}ms", ns / base::time::MS),
            policy => policy.name().to_string(),
        }
    }
    pub fn name(self) -> &'static str {
        match self {
            ReadPolicy::Scc => "scc",
            ReadPolicy::Primary => "primary",
            ReadPolicy::ReadWait => "read_wait",
            ReadPolicy::CommitWait => "commit_wait",
            ReadPolicy::Session => "session",
            ReadPolicy::Stale { .. } => "stale",
        }
    }
}

/// A strong read of rows at a replica.
pub struct ReplicaQuery {
    meta: QueryMeta,
    /// The rank of the question that served it.
    cut: Option<Rank>,
    /// Up to where each partition's log has to be applied.
    needs: BTreeMap<PartitionId, LogPosition>,
    coordination_ns: u64,
    choice: CutChoice,
}

impl ReplicaQuery {
    /// `floor`: the least that its cut may be.
    pub fn followed(meta: QueryMeta, floor: Rank) -> Followed {
        let (needs, choice) = (BTreeMap::new(), CutChoice::Clock);
        let rule = ReplicaQuery { meta, cut: None, needs, coordination_ns: 0, choice };
        Followed { rule: Box::new(rule), floor }
    }
}

impl Rule for ReplicaQuery {
    fn asks(&self) -> Vec<Ask> {
        match self.cut {
            None => vec![Ask::Fetch(self.meta.reads.keys().copied().collect())],
            Some(_) => Vec::new(),
        }
    }

    fn told(&mut self, now: Time, told: Told) {
        let Told::Fetched { rank, needs, waited_ns, is_loaded } = told else { return };
        debug_assert!(self.meta.reads.keys().eq(needs.keys()), "one question asks all that are read");
        if self.cut.is_none() {
            (self.cut, self.needs) = (Some(rank), needs);
            self.coordination_ns = now.since(self.meta.arrived).saturating_sub(waited_ns);
            self.choice = if is_loaded { CutChoice::Published } else { CutChoice::Clock };
        }
    }

    fn progress(&mut self, now: Time, view: &dyn View) -> Result<Progress, SqlError> {
        let Some(rank) = self.cut else { return Ok(Progress::Closing) };
        if self.needs.iter().any(|(p, position)| view.complete(*p).is_none() || view.applied(*p) < *position)
        {
            base::sometimes!("a strong read at a replica waits for what it reads");
            return Ok(Progress::Applying);
        }
        let mut readable = Readable::at(&self.meta, now, rank, rank.time(), self.coordination_ns, view);
        readable.freshness.choice = self.choice;
        Ok(Progress::Readable(readable))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_reads_as_it_is_shown() {
        let bounded = ReadPolicy::Stale { bound_ns: Some(250 * base::time::MS) };
        let plain = ReadPolicy::Stale { bound_ns: None };
        for policy in
            [ReadPolicy::Scc, ReadPolicy::Primary, ReadPolicy::ReadWait, ReadPolicy::Session, plain, bounded]
        {
            assert_eq!(ReadPolicy::parse(&policy.shown()), Some(policy));
        }
        assert_eq!(ReadPolicy::parse("STALE 250"), Some(bounded));
        for wrong in ["", "fresh", "scc 3", "stale soon", "stale 1 2"] {
            assert_eq!(ReadPolicy::parse(wrong), None, "{wrong}");
        }
    }
}
