//! Stale reads, without a graph: a read is stale if a version of its key that is later than the one
//! it saw belongs to a transaction that was answered early enough.
//!
//! Later means: by the recovered order; or, if that is open, written by an operation that was invoked
//! after the writer of the version seen had been answered.

use std::collections::BTreeMap;

use crate::op::{KeyId, OpId};
use crate::order::Order;
use crate::versions::{Version, Versions};

/// A read that missed a finished write.
pub(crate) struct Stale {
    pub reader: OpId,
    pub key: KeyId,
    pub seen: Version,
    pub missed: OpId,
}

/// The first read that missed a write answered more than `lag_ns` before the reader's invocation.
pub(crate) fn first_stale(versions: &Versions<'_>, order: &Order, lag_ns: u64) -> Option<Stale> {
    let later = earliest_later_answers(versions, order);
    let answered = answered_writers(versions);
    for reader in versions.ops() {
        let invoked_ns = versions.history.op(reader).invoked_ns;
        for read in &versions.reads[reader.0 as usize] {
            let early = |at: &(u64, OpId)| at.1 != reader && at.0.saturating_add(lag_ns) < invoked_ns;
            let by_order = later.get(&(read.key, read.version)).copied().filter(early);
            let by_clock = || {
                if !order.open_keys.contains(&read.key) || read.version == Version::INITIAL {
                    return None;
                }
                let writer_replied_ns = versions.history.op(versions.writer(read.version)).replied_ns()?;
                let writers = answered.get(&read.key)?;
                let early_count =
                    writers.partition_point(|w| w.replied_ns.saturating_add(lag_ns) < invoked_ns);
                let (latest_invoked_ns, writer) = writers[..early_count].last()?.latest_invoked;
                let missed = versions.installed_by(writer, read.key)?;
                let is_later = latest_invoked_ns > writer_replied_ns;
                (is_later && !order.precedes(read.key, missed, read.version)).then_some((0, writer))
            };
            if let Some((_, missed)) = by_order.or_else(by_clock) {
                return Some(Stale { reader, key: read.key, seen: read.version, missed });
            }
        }
    }
    None
}

/// For each version: the first answered of the writers of later versions.
fn earliest_later_answers(versions: &Versions<'_>, order: &Order) -> BTreeMap<(KeyId, Version), (u64, OpId)> {
    let mut earliest: BTreeMap<(KeyId, Version), (u64, OpId)> = BTreeMap::new();
    let roots = order.next.keys().filter(|(_, version)| *version == Version::INITIAL);
    let mut path: Vec<Version> = Vec::new();
    for &(key, _) in roots {
        // Versions in an order in which each comes before all later ones.
        path.clear();
        path.push(Version::INITIAL);
        let mut at = 0;
        while let Some(&version) = path.get(at) {
            path.extend(order.next.get(&(key, version)).into_iter().flatten());
            at += 1;
        }
        for &version in path.iter().rev() {
            let next = order.next.get(&(key, version)).into_iter().flatten();
            let answers = next.flat_map(|&next| {
                let writer = versions.writer(next);
                let own = versions.history.op(writer).replied_ns().map(|at| (at, writer));
                own.into_iter().chain(earliest.get(&(key, next)).copied())
            });
            if let Some(first) = answers.min() {
                earliest.insert((key, version), first);
            }
        }
    }
    earliest
}

struct Answered {
    replied_ns: u64,
    /// Among this writer and those answered before it: the one invoked last.
    latest_invoked: (u64, OpId),
}

/// Per key: its writers in the order of their answers.
fn answered_writers(versions: &Versions<'_>) -> BTreeMap<KeyId, Vec<Answered>> {
    let mut writers: BTreeMap<KeyId, Vec<Answered>> = BTreeMap::new();
    for op in versions.ops() {
        let Some(replied_ns) = versions.history.op(op).replied_ns() else { continue };
        let invoked = (versions.history.op(op).invoked_ns, op);
        for install in &versions.installs[op.0 as usize] {
            writers.entry(install.key).or_default().push(Answered { replied_ns, latest_invoked: invoked });
        }
    }
    for list in writers.values_mut() {
        list.sort_by_key(|w| (w.replied_ns, w.latest_invoked));
        for at in 1..list.len() {
            list[at].latest_invoked = list[at].latest_invoked.max(list[at - 1].latest_invoked);
        }
    }
    writers
}
