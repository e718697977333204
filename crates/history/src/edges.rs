//! Draws the graph of a history under some rules.

use std::collections::BTreeMap;

use crate::graph::{At, Builder, Class, Graph};
use crate::guarantee::{AntiDependencies, RealTime, Rules};
use crate::op::{KeyId, OpId, SessionId};
use crate::order::Order;
use crate::versions::{Version, Versions};

/// The graph whose cycles break the rules.
pub(crate) fn draw(versions: &Versions<'_>, order: &Order, rules: &Rules) -> Graph {
    let mut builder = Builder::new(versions.included.len());
    dependencies(versions, order, rules, &mut builder);
    if rules.sessions {
        sessions(versions, &mut builder);
    }
    if rules.tokens {
        tokens(versions, &mut builder);
    }
    real_time(versions, rules.real_time, &mut builder);
    builder.build()
}

fn dependencies(versions: &Versions<'_>, order: &Order, rules: &Rules, builder: &mut Builder) {
    for &(key, earlier, later) in &order.overwrites {
        builder.edge(versions.writer(earlier), versions.writer(later), Class::WriteWrite, key, earlier);
    }
    let mut readers: Vec<(KeyId, Version, OpId)> = Vec::new();
    for op in versions.ops() {
        for read in &versions.reads[op.0 as usize] {
            if read.version != Version::INITIAL {
                builder.edge(versions.writer(read.version), op, Class::WriteRead, read.key, read.version);
            }
            readers.push((read.key, read.version, op));
        }
    }
    if rules.anti_dependencies == AntiDependencies::Ignored {
        return;
    }
    readers.sort_unstable();
    for group in readers.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
        let (key, version, _) = group[0];
        if let Some(next) = order.next.get(&(key, version)) {
            let readers: Vec<OpId> = group.iter().map(|reader| reader.2).collect();
            let targets: Vec<OpId> = next.iter().map(|&version| versions.writer(version)).collect();
            builder.fan(key, version, &readers, &targets);
        }
    }
}

/// Each operation follows its predecessor in the session. Where operations of a session overlap,
/// it follows those that were answered before it was invoked. An aborted operation hands the order
/// on, it was answered; one that nobody heard of again does not.
fn sessions(versions: &Versions<'_>, builder: &mut Builder) {
    let mut sessions: BTreeMap<SessionId, Vec<OpId>> = BTreeMap::new();
    for (index, op) in versions.history.ops.iter().enumerate() {
        if hands_on(versions, OpId(index as u32)) {
            sessions.entry(op.session).or_default().push(OpId(index as u32));
        }
    }
    for ops in sessions.values() {
        let invoked = |op: OpId| versions.history.op(op).invoked_ns;
        let replied = |op: OpId| versions.history.op(op).replied_ns().unwrap_or(u64::MAX);
        if ops.is_sorted_by(|&a, &b| replied(a) <= invoked(b)) {
            for pair in ops.windows(2) {
                builder.order(pair[0], pair[1], Class::Session);
            }
            continue;
        }
        let mut sources: Vec<At> = ops.iter().map(|&op| (replied(op), op)).collect();
        sources.sort_unstable();
        let sinks: Vec<At> = ops.iter().map(|&op| (invoked(op), op)).collect();
        builder.after(Class::Session, &sources, &sinks);
    }
}

fn hands_on(versions: &Versions<'_>, op: OpId) -> bool {
    versions.included[op.0 as usize] || versions.history.op(op).replied_ns().is_some()
}

fn tokens(versions: &Versions<'_>, builder: &mut Builder) {
    for (index, op) in versions.history.ops.iter().enumerate() {
        for &from in op.tokens.iter().filter(|&&from| hands_on(versions, from)) {
            builder.order(from, OpId(index as u32), Class::Token);
        }
    }
}

fn real_time(versions: &Versions<'_>, real_time: RealTime, builder: &mut Builder) {
    let invoked = |op: OpId| (versions.history.op(op).invoked_ns, op);
    let replied = |op: OpId| versions.history.op(op).replied_ns().map(|at| (at, op));
    if real_time >= RealTime::Writers {
        let takes_part = |&op: &OpId| real_time == RealTime::All || versions.is_writer(op);
        let mut sources: Vec<At> = versions.ops().filter(takes_part).filter_map(replied).collect();
        sources.sort_unstable();
        let sinks: Vec<At> = versions.ops().filter(takes_part).map(invoked).collect();
        builder.after(Class::RealTime, &sources, &sinks);
    }
    if matches!(real_time, RealTime::Conflicting | RealTime::Writers) {
        // Writers of a key before every operation that touches it; with `Writers` only queries are left.
        let mut touched: BTreeMap<KeyId, (Vec<At>, Vec<At>)> = BTreeMap::new();
        for op in versions.ops() {
            let index = op.0 as usize;
            for install in &versions.installs[index] {
                touched.entry(install.key).or_default().0.extend(replied(op));
            }
            if real_time == RealTime::Writers && versions.is_writer(op) {
                continue;
            }
            let ambiguous = versions.ambiguous[index].iter().copied();
            let read = versions.reads[index].iter().map(|read| read.key).chain(ambiguous);
            let written = versions.installs[index].iter().map(|install| install.key);
            let mut keys: Vec<KeyId> = read.chain(written).collect();
            keys.sort_unstable();
            keys.dedup();
            for key in keys {
                touched.entry(key).or_default().1.push(invoked(op));
            }
        }
        for (mut sources, sinks) in touched.into_values() {
            sources.sort_unstable();
            builder.after(Class::RealTime, &sources, &sinks);
        }
    }
}
