//! The merger: from partial sequences to one order of whatever conflicts (Alg. 1 and 2, as corrected).
//!
//! IN: stable entries of each sequence, strictly in its order. OUT: transactions with their places. KEEPS:
//! 1. a transaction comes at most once in a sequence, and only in those of its regions;
//! 2. two transactions that conflict in a sequence are connected by a path, from the later to the
//!    earlier one, as long as neither has a place;
//! 3. whoever gets a place is complete (each of its regions has ordered it), and so is everybody it
//!    depends on: the set of those with a place is closed;
//! 4. so a component is the same in all regions (no edge out of it can ever be added), and its rank is
//!    too: `max(stamps of its members' entries, 1 + rank of whom it depends on outside)`.
//!
//! An edge to somebody who has got a place already is not drawn, or drawn and ignored, depending on when
//! this region gave it; the rank must not depend on that. So those with a place are kept with their
//! ranks until every sequence's closed timestamp has passed them: no later stamp can then be below.
//!
//! A search that meets an incomplete transaction is given up and waits for that one; nothing is scanned
//! in the background.

use super::cluster::Cluster;
use super::homes::Residences;
use super::message::{Entry, SequenceId};
use super::options::{Mutant, Options};
use super::work::{Todo, Work};
use crate::graph::component;
use crate::graph::participants::Participants;
use crate::graph::vertex::{Ref, State, Vertex, Vertices};
use base::txn::{Access, AccessMode, ClientRequest, Gathered, Granule, Transaction};
use base::{PartitionId, Rank, Time};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};

/// What depends on what.
pub(super) type Graph = Vertices<Extra>;

/// What this engine keeps beside a vertex.
#[derive(Clone, Debug, Default)]
pub(super) struct Extra {
    /// Sequences that order it, as bits.
    pub regions: u64,
    /// Sequences whose entry has arrived.
    pub got: u64,
    /// Edges of vertices without a place that lead here.
    pub holders: u32,
    /// Its client's name for it.
    pub request: Option<ClientRequest>,
    /// It aborts if it read below this: the largest of its entries'.
    pub collected: Rank,
    /// Something was not homed where it says: it takes no effect.
    pub stale: bool,
    /// It takes part at this node.
    pub local: bool,
    /// It takes part at no other node of this region.
    pub alone: bool,
    pub ordered_at: Time,
    /// Present for transactions that take part at several nodes of this region.
    pub exchange: Option<Box<Exchange>>,
}

/// Reads that nodes of one region show each other.
#[derive(Clone, Debug, Default)]
pub(super) struct Exchange {
    pub reads: BTreeMap<PartitionId, Gathered>,
    /// Own reads are in it.
    pub gathered: bool,
}

/// The graph, and what of it is looked up in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Merger {
    graph: Graph,
    /// Vertices without a final place.
    unordered: usize,
    /// Take part here and have not executed, by the lower bound of their rank.
    pending: BTreeSet<(Rank, u32)>,
    /// Done here, and kept because a later entry might have to be ranked above them.
    kept: BTreeSet<(Rank, u32)>,
    /// What transactions that have not executed here read, and at which cut.
    read_below: BTreeSet<(Rank, u32)>,
    /// Reused: whom an entry conflicts with.
    met: Vec<Ref>,
}

/// An entry is in the graph.
pub(super) struct Merged {
    pub at: Ref,
    /// It is the first of its transaction.
    pub is_first: bool,
}

/// A component that may get its place; by id.
pub(super) type Component = SmallVec<[Ref; 1]>;

impl Merger {
    /// Goes on with a graph that another node has merged.
    pub fn of(mut graph: Graph) -> Merger {
        let mut merger = Merger::default();
        let mut edges = Vec::new();
        for (at, vertex) in graph.iter() {
            if vertex.state < State::Emitted {
                merger.unordered += 1;
                edges.extend(vertex.deps.iter().copied());
            }
            if vertex.extra.local && vertex.state < State::Executed {
                merger.pending.insert((vertex.bound, at.slot));
                if let Some(read_at) = vertex.transaction.as_ref().and_then(cut_of) {
                    merger.read_below.insert((read_at, at.slot));
                }
            }
            if vertex.state == State::Done {
                merger.kept.insert((vertex.rank.expect("whoever is done has a rank"), at.slot));
            }
        }
        edges.into_iter().for_each(|to| graph.live_mut(to).extra.holders += 1);
        merger.graph = graph;
        merger
    }

    pub fn graph(&self) -> &Graph {
        &self.graph
    }
    pub fn vertex(&self, at: Ref) -> &Vertex<Extra> {
        self.graph.live(at)
    }
    /// For the scheduler, which alone writes whose turn it is to execute, and what was read.
    pub fn graph_mut(&mut self) -> &mut Graph {
        &mut self.graph
    }
    /// Vertices without a final place.
    pub fn unordered(&self) -> usize {
        self.unordered
    }
    pub fn is_settled(&self) -> bool {
        self.unordered == 0 && self.pending.is_empty() && self.kept.is_empty()
    }
    /// All that was merged has its place, and has executed here.
    pub fn has_executed_all(&self) -> bool {
        self.unordered == 0 && self.pending.is_empty()
    }
    /// Those that take part here and have not executed, by the lower bound of their rank.
    pub fn pending(&self) -> impl Iterator<Item = Ref> + '_ {
        self.pending.iter().map(|(_, slot)| self.graph.at(*slot))
    }
    /// Of these, those that may be ranked at or below a rank; each with its bound.
    pub fn pending_to(&self, rank: Rank) -> impl Iterator<Item = (Rank, Ref)> + '_ {
        self.pending.range(..=(rank, u32::MAX)).map(|(bound, slot)| (*bound, self.graph.at(*slot)))
    }
    /// Everything merged so far that is ranked at or below it has executed here; `None`: all has.
    pub fn executed_to(&self) -> Option<Rank> {
        self.pending.first().map(|(bound, _)| bound.previous())
    }
    /// The earliest cut at which a transaction that has not executed here has read.
    pub fn read_below(&self) -> Option<Rank> {
        self.read_below.first().map(|(read_at, _)| *read_at)
    }

    /// Whether a transaction writes some of these granules, as far as the sequences order that whose entries are here.
    pub fn writes(&self, cluster: &Cluster, at: Ref, partition: PartitionId, granules: &[Granule]) -> bool {
        let vertex = self.graph.live(at);
        let transaction = vertex.transaction.as_ref().expect("entries carry whole transactions");
        let mut writes = transaction.access.at(partition).iter().filter(|access| {
            access.mode == AccessMode::Write
                && cluster.is_ordered_for(transaction, partition, &access.granule, vertex.extra.got)
        });
        writes.any(|write| granules.iter().any(|granule| granule.overlaps(&write.granule)))
    }

    /// The next entry of a sequence.
    pub fn add(
        &mut self,
        now: Time,
        (cluster, residences): (&Cluster, &mut Residences),
        sequence: SequenceId,
        entry: &Entry,
        todo: &mut Todo<'_>,
    ) -> Merged {
        let Entry { transaction, request, stamp, collected } = entry;
        let bit = sequence.bit();
        let known = self.graph.find(transaction.id);
        let at = known.unwrap_or_else(|| self.know(now, cluster, transaction, *request));
        let vertex = self.graph.live_mut(at);
        assert_eq!(vertex.extra.got & bit, 0, "{} is in the sequence of {sequence} once", transaction.id);
        assert_ne!(vertex.extra.regions & bit, 0, "{} is ordered by {sequence}", transaction.id);
        vertex.extra.got |= bit;
        vertex.extra.collected = vertex.extra.collected.max(*collected);
        let is_complete = vertex.extra.got == vertex.extra.regions;
        self.raise(at, *stamp);

        let mut met = std::mem::take(&mut self.met);
        met.clear();
        let all = (cluster, &self.graph);
        if residences.meet(all, at, (transaction, *request), sequence, &mut met) {
            self.graph.live_mut(at).extra.stale = true;
        }
        met.sort_unstable();
        met.dedup();
        for &to in &met {
            self.edge(&cluster.options, at, to);
        }
        self.met = met;
        if is_complete {
            self.complete(at, todo);
        }
        Merged { at, is_first: known.is_none() }
    }

    /// A transaction appears in its first sequence.
    fn know(
        &mut self,
        now: Time,
        cluster: &Cluster,
        transaction: &Transaction,
        request: Option<ClientRequest>,
    ) -> Ref {
        let participants = Participants::of(transaction.participants());
        let local = participants.iter().any(|p| cluster.is_local(p));
        let alone = participants.iter().all(|p| cluster.is_local(p));
        let at = self.graph.insert(transaction.id, participants);
        let vertex = self.graph.live_mut(at);
        vertex.state = State::PreAccepted;
        vertex.transaction = Some(transaction.clone());
        vertex.extra.regions = cluster.regions_of(transaction);
        vertex.extra.request = request;
        vertex.extra.local = local;
        vertex.extra.alone = alone;
        vertex.extra.ordered_at = now;
        self.unordered += 1;
        if local {
            self.pending.insert((Rank::ZERO, at.slot));
            if let Some(read_at) = cut_of(transaction) {
                self.read_below.insert((read_at, at.slot));
            }
        }
        at
    }

    /// The transaction's rank is at least `bound`.
    fn raise(&mut self, at: Ref, bound: Rank) {
        let vertex = self.graph.live_mut(at);
        if bound <= vertex.bound {
            return;
        }
        let before = std::mem::replace(&mut vertex.bound, bound);
        if vertex.extra.local {
            self.pending.remove(&(before, at.slot));
            self.pending.insert((bound, at.slot));
        }
    }

    /// `at` comes after `to`.
    fn edge(&mut self, options: &Options, at: Ref, to: Ref) {
        let Some(ahead) = self.graph.get_mut(to) else { return };
        if at == to {
            return;
        }
        let mut bound = Rank::ZERO;
        if let Some(rank) = ahead.rank {
            if options.planted(Mutant::ForgetEmittedRanks) {
                return;
            }
            bound = rank.next();
        } else if options.ranks.lower_bounds {
            bound = ahead.bound;
            if options.planted(Mutant::BoundAboveComponent) {
                bound = bound.next();
            }
        }
        if ahead.state < State::Done {
            ahead.extra.holders += 1;
            self.graph.live_mut(at).deps.push(to);
        }
        self.raise(at, bound);
    }

    /// All regions have ordered it: its dependencies are final.
    fn complete(&mut self, at: Ref, todo: &mut Todo<'_>) {
        self.graph.live_mut(at).state = State::Final;
        let watchers = self.graph.take_watchers(at);
        todo.work(Work::Search(at));
        watchers.into_iter().for_each(|root| todo.work(Work::Search(root)));
    }

    /// The components of a complete transaction's closure, dependencies first, if all of it is complete: they may be
    /// placed, in this order.
    pub fn search(&mut self, options: &Options, root: Ref) -> SmallVec<[Component; 1]> {
        let Some(vertex) = self.graph.get(root) else { return SmallVec::new() };
        if vertex.state != State::Final {
            return SmallVec::new();
        }
        self.graph.unblock(root);
        // Most have nobody ahead of them that has no place.
        let deps = &self.graph.live(root).deps;
        if deps.iter().all(|to| self.graph.get(*to).is_none_or(|ahead| ahead.state >= State::Emitted)) {
            return SmallVec::from_elem(Component::from_elem(root, 1), 1);
        }
        let mut found = component::search(&mut self.graph, root);
        if options.planted(Mutant::PlaceIncomplete) && !found.blockers.is_empty() {
            found.blockers.clear();
            found.components = vec![Component::from_elem(root, 1)];
        }
        if let Some(&first) = found.blockers.first() {
            self.graph.block(root, first);
            return SmallVec::new();
        }
        if options.planted(Mutant::OrderByRecycledIds) {
            for members in &mut found.components {
                members.sort_unstable_by_key(|member| member.slot);
            }
        }
        found.components.into()
    }

    /// A component gets its place: its rank. What its members depended on holds nobody any more once
    /// [`Merger::let_go`] was called.
    pub fn place(&mut self, now: Time, options: &Options, members: &[Ref], todo: &mut Todo<'_>) -> Rank {
        let mut rank = Rank::ZERO;
        for &at in members {
            let vertex = self.graph.live(at);
            if !options.planted(Mutant::BoundAboveComponent) {
                rank = rank.max(vertex.bound);
            }
            for &to in &vertex.deps {
                let Some(ahead) = self.graph.get(to) else { continue };
                if let Some(before) = ahead.rank
                    && !options.planted(Mutant::ForgetEmittedRanks)
                {
                    rank = rank.max(before.next());
                }
                let closed = ahead.state >= State::Emitted || members.contains(&to);
                let planted = options.planted(Mutant::PlaceIncomplete);
                assert!(closed || planted, "{} has a place after all it depends on", vertex.id);
            }
        }
        for &at in members {
            let vertex = self.graph.live_mut(at);
            vertex.rank = Some(rank);
            vertex.state = State::Emitted;
            vertex.extra.ordered_at = now;
            self.unordered -= 1;
            let watchers = self.graph.take_watchers(at);
            watchers.into_iter().for_each(|root| todo.work(Work::Search(root)));
        }
        rank
    }

    /// The component is scheduled: edges out of it are not needed any more.
    pub fn let_go(&mut self, members: &[Ref]) {
        for &at in members {
            let deps = std::mem::take(&mut self.graph.live_mut(at).deps);
            for to in deps {
                if let Some(ahead) = self.graph.get_mut(to) {
                    ahead.extra.holders -= 1;
                }
            }
        }
    }

    /// It has executed here.
    pub fn executed(&mut self, at: Ref) {
        let vertex = self.graph.live_mut(at);
        vertex.state = State::Executed;
        let (bound, read_at) = (vertex.bound, vertex.transaction.as_ref().and_then(cut_of));
        self.pending.remove(&(bound, at.slot));
        if let Some(read_at) = read_at {
            self.read_below.remove(&(read_at, at.slot));
        }
    }

    /// It has executed here, as far as it takes part, and so has its whole component.
    pub fn done(&mut self, at: Ref, rank: Rank) {
        self.graph.live_mut(at).state = State::Done;
        self.kept.insert((rank, at.slot));
    }

    /// Drops vertices that nothing can depend on any more: those that are done, that no vertex without a place leads
    /// to, and whose rank the closed timestamp of every sequence that orders it has passed. `closed`: of each sequence
    /// that ranks; some is silent if `is_stuck`, and holds up those that it orders only. What other nodes of this
    /// region may still want to read is kept up to `watermark`.
    pub fn forget(&mut self, closed: &BTreeMap<SequenceId, Rank>, is_stuck: bool, watermark: Rank) {
        let all = closed.values().copied();
        let passed = if is_stuck { all.max() } else { all.min() }.unwrap_or_default();
        let mut still = Vec::new();
        while let Some(&(rank, slot)) = self.kept.first()
            && rank <= passed
        {
            self.kept.pop_first();
            let at = self.graph.at(slot);
            let extra = &self.graph.live(at).extra;
            // Another node of this region may still want its reads.
            let wanted = extra.exchange.is_some() && rank > watermark;
            let mut ordering = closed.iter().filter(|(n, _)| extra.regions >> n.0 & 1 == 1);
            let is_early = is_stuck && ordering.any(|(_, passed)| *passed < rank);
            if extra.holders > 0 || wanted || is_early {
                still.push((rank, slot));
            } else {
                self.graph.remove(at);
            }
        }
        self.kept.extend(still);
    }

    /// Panics if the graph contradicts itself.
    pub fn check_invariants(&self) {
        let mut holders: BTreeMap<u32, u32> = BTreeMap::new();
        let (mut pending, mut unordered) = (0, 0);
        for (at, vertex) in self.graph.iter() {
            let txn = vertex.id;
            let extra = &vertex.extra;
            assert_eq!(extra.got & !extra.regions, 0, "{txn} is in sequences of its regions only");
            let is_complete = extra.got == extra.regions;
            assert_eq!(vertex.state >= State::Final, is_complete, "{txn} is final once it is complete");
            assert_eq!(vertex.rank.is_some(), vertex.state >= State::Emitted, "{txn} has a place and a rank");
            assert!(vertex.rank.is_none_or(|rank| vertex.bound <= rank), "{txn} is ranked below its bound");
            if vertex.state < State::Emitted {
                unordered += 1;
                for to in &vertex.deps {
                    *holders.entry(to.slot).or_default() += 1;
                    assert!(self.graph.get(*to).is_some(), "what {txn} depends on is kept");
                }
            } else {
                assert!(vertex.deps.is_empty(), "{txn} has a place and waits for nobody's");
            }
            if extra.local && vertex.state < State::Executed {
                pending += 1;
                assert!(self.pending.contains(&(vertex.bound, at.slot)), "{txn} is pending");
            }
            if vertex.state == State::Done {
                let rank = vertex.rank.expect("just checked");
                assert!(self.kept.contains(&(rank, at.slot)), "{txn} is kept for its rank");
            }
        }
        for (at, vertex) in self.graph.iter() {
            let counted = holders.get(&at.slot).copied().unwrap_or(0);
            assert_eq!(vertex.extra.holders, counted, "{}: edges are counted", vertex.id);
        }
        assert_eq!(pending, self.pending.len(), "only what readers may not see yet is pending");
        assert_eq!(unordered, self.unordered, "vertices without a place are counted");
    }
}

/// Whom an access to a whole partition conflicts with, if there is one: everybody that this sequence has
/// ordered there.
pub(super) fn met_everywhere(
    (cluster, graph): (&Cluster, &Graph),
    (partition, sequence): (PartitionId, SequenceId),
    accesses: &[Access],
    met: &mut Vec<Ref>,
) {
    let whole = accesses.iter().filter(|access| access.granule == Granule::Partition);
    let Some(mode) = whole.map(|access| access.mode).max() else { return };
    let bit = sequence.bit();
    for (at, vertex) in graph.iter() {
        let transaction = vertex.transaction.as_ref().expect("entries carry whole transactions");
        let accesses = transaction.access.at(partition);
        let meets = match mode {
            AccessMode::Write => !accesses.is_empty(),
            AccessMode::Read => accesses.iter().any(|access| access.mode == AccessMode::Write),
        };
        if meets && vertex.extra.got & bit != 0 && cluster.is_ordered_at(transaction, partition, bit) {
            met.push(at);
        }
    }
}

/// The earliest cut at which an interactive transaction read what it has to find unchanged.
pub(super) fn cut_of(transaction: &Transaction) -> Option<Rank> {
    transaction.program.validated()?.reads.iter().map(|read| read.at).min()
}
