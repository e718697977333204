//! Decides whether a history keeps a guarantee.
//!
//! IN: a history and a guarantee. OUT: a [`Report`], or a [`Violation`] with its evidence.
//! The cost is near-linear in the accesses of the history: a strongly-connected-components pass over
//! a graph with a constant number of edges per access.

use crate::edges;
use crate::explain;
use crate::freshness;
use crate::graph::{Class, Classes, Edge, Graph};
use crate::guarantee::{AntiDependencies, Guarantee, RealTime, Rules};
use crate::op::{History, OpId, Outcome};
use crate::order::Order;
use crate::search::{self, Cycle, Through};
use crate::versions::{Illegal, Versions};
use crate::violation::Violation;

/// What was checked, when nothing is wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Committed operations, and unanswered ones with an observed write.
    pub ops_count: usize,
    /// Among them those that write.
    pub writers_count: usize,
    /// Unanswered operations that count as committed.
    pub unknown_observed_count: usize,
    /// Unanswered operations that no other operation observed.
    pub unknown_ignored_count: usize,
    pub reads_count: usize,
    /// Edges of the graph, auxiliary ones included; zero for freshness.
    pub edges_count: usize,
    /// Pairs of register versions whose order was not recoverable. While this is zero the verdict is
    /// complete, otherwise a violation may hide behind it.
    pub open_pairs_count: u64,
    /// Reads of an absent row that may have been in one of several states; they draw no dependency.
    pub ambiguous_reads_count: usize,
}

/// Checks one history against several guarantees.
pub struct Checker<'h> {
    history: &'h History,
    versions: Result<Versions<'h>, Illegal>,
}

/// Checks one history against one guarantee.
pub fn check(history: &History, guarantee: Guarantee) -> Result<Report, Box<Violation>> {
    Checker::new(history).check(guarantee)
}

impl<'h> Checker<'h> {
    pub fn new(history: &'h History) -> Checker<'h> {
        Checker { history, versions: Versions::new(history) }
    }

    pub fn check(&self, guarantee: Guarantee) -> Result<Report, Box<Violation>> {
        let versions = match &self.versions {
            Ok(versions) => versions,
            Err(illegal) => return Err(Box::new(explain::illegal(self.history, guarantee, illegal))),
        };
        let mut report = report(versions);
        let Some(rules) = guarantee.rules() else {
            let order = Order::new(versions, false);
            report.open_pairs_count = order.open_pairs;
            let Guarantee::Freshness { lag_ns } = guarantee else {
                unreachable!("only freshness has no rules")
            };
            return match freshness::first_stale(versions, &order, lag_ns) {
                Some(stale) => Err(Box::new(explain::stale(versions, guarantee, &stale))),
                None => Ok(report),
            };
        };
        let order = Order::new(versions, rules.forbid_lost_updates());
        report.open_pairs_count = order.open_pairs;
        if let Some((key, read, ops)) = order.lost_update.filter(|_| rules.forbid_lost_updates()) {
            return Err(Box::new(explain::lost_update(versions, guarantee, key, read, ops)));
        }
        let graph = edges::draw(versions, &order, &rules);
        report.edges_count = graph.edge_count();
        let found = find_cycle(versions, &graph, &rules);
        // A cycle without clocks says more than a stale read, a stale read more than one with clocks.
        let timeless = |cycle: &Cycle| cycle.iter().all(|(_, edge)| edge.class != Class::RealTime);
        if !found.as_ref().is_some_and(timeless)
            && rules.real_time != RealTime::Ignored
            && let Some(stale) = freshness::first_stale(versions, &order, 0)
        {
            return Err(Box::new(explain::stale(versions, guarantee, &stale)));
        }
        match found {
            Some(cycle) => Err(Box::new(explain::cycle(versions, &graph, guarantee, &cycle))),
            None => Ok(report),
        }
    }
}

fn report(versions: &Versions<'_>) -> Report {
    let included_unknown = |&op: &OpId| versions.history.op(op).outcome == Outcome::Unknown;
    let unknown_observed_count = versions.ops().filter(included_unknown).count();
    let unknown = versions.history.ops.iter().filter(|op| op.outcome == Outcome::Unknown).count();
    Report {
        ops_count: versions.ops().count(),
        writers_count: versions.ops().filter(|&op| versions.is_writer(op)).count(),
        unknown_observed_count,
        unknown_ignored_count: unknown - unknown_observed_count,
        reads_count: versions.reads.iter().map(Vec::len).sum(),
        ambiguous_reads_count: versions.ambiguous.iter().map(Vec::len).sum(),
        ..Report::default()
    }
}

const DEPENDENCIES: [Class; 3] = [Class::WriteWrite, Class::WriteRead, Class::ReadWrite];
const CAUSES: [Class; 2] = [Class::Session, Class::Token];

/// A cycle that the rules forbid.
fn find_cycle(versions: &Versions<'_>, graph: &Graph, rules: &Rules) -> Option<Cycle> {
    let is_query = |vertex: u32| graph.is_op(vertex) && !versions.is_writer(OpId(vertex));
    let without_anti = |_: u32, edge: &Edge| edge.class != Class::ReadWrite;
    let without_query_anti = |from: u32, edge: &Edge| edge.class != Class::ReadWrite || !is_query(from);
    // A query stands right behind what it saw, which may be old.
    let hint = |op: u32| if is_query(op) { 0 } else { versions.history.op(OpId(op)).invoked_ns };
    let ops = versions.ops().map(|op| op.0);
    match rules.anti_dependencies {
        AntiDependencies::Ignored => plainest_cycle(graph, without_anti),
        AntiDependencies::All => plainest_cycle(graph, |_, _| true),
        AntiDependencies::OwnAtomic => plainest_cycle(graph, without_anti)
            .or_else(|| search::own_cycle(graph, ops, without_anti, Through::OneRead, hint)),
        AntiDependencies::OwnCausal => plainest_cycle(graph, without_anti)
            .or_else(|| search::own_cycle(graph, ops, without_anti, Through::Causal, hint)),
        AntiDependencies::OwnOfQueries => plainest_cycle(graph, without_query_anti).or_else(|| {
            let queries = ops.filter(|&vertex| is_query(vertex));
            search::own_cycle(graph, queries, without_query_anti, Through::Everything, hint)
        }),
        AntiDependencies::NeverAdjacent => plainest_cycle(graph, without_anti).or_else(|| {
            let product = graph.without_adjacent_read_writes();
            let mut cycle = plainest_cycle(&product, |_, _| true)?;
            // Back to the vertices of the plain graph.
            for (from, edge) in &mut cycle {
                *from /= 2;
                edge.to /= 2;
            }
            Some(cycle)
        }),
    }
}

/// A cycle of the narrowest set of classes that has one: version order before reads-from, both before
/// anti-dependencies, these before sessions and tokens, clocks last.
fn plainest_cycle(graph: &Graph, usable: impl Fn(u32, &Edge) -> bool) -> Option<Cycle> {
    let any = search::cycle(graph, &usable)?;
    let causal: Vec<Class> = DEPENDENCIES.iter().chain(&CAUSES).copied().collect();
    for classes in [&DEPENDENCIES[..1], &DEPENDENCIES[..2], &DEPENDENCIES[..], &causal[..]] {
        let classes = Classes::of(classes);
        let narrow = |from: u32, edge: &Edge| classes.has(edge.class) && usable(from, edge);
        if let Some(cycle) = search::cycle(graph, narrow) {
            return Some(cycle);
        }
    }
    Some(any)
}
