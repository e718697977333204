//! From final dependencies to a place: the closure, questions to other nodes, components, ranks.
//!
//! KEEPS: a component is emitted only when its whole closure is final or collected, and then with the
//! same rank as everywhere. A collected ancestor cannot raise a rank: it lies at or below the watermark,
//! and whatever has not executed at some participant has a cts above it. For a component that takes no
//! part here this has to be asked; a truncated closure alone proves nothing.

pub(super) mod inquiries;

use self::inquiries::Inquiries;
use super::message::{Deadline, Decision, Dependency, Fragment, Known, Message};
use super::options::Mutant;
use super::state::Perseus;
use super::vertex::{CollectedAncestors, Extra};
use super::work::Out;
use crate::graph::component;
use crate::graph::vertex::{Ref, State, Vertex};
use base::{NodeId, Rank, Time, TxnId};
use smallvec::SmallVec;
use std::collections::BTreeMap;

impl Perseus {
    /// Emits a final transaction's closure if all of it is final; else sees to it that it will be.
    pub(super) fn search(&mut self, now: Time, root: Ref, out: &mut Out) {
        let Some(vertex) = self.graph.get(root) else { return };
        if vertex.state != State::Final {
            return;
        }
        self.graph.unblock(root);
        let mut found = component::search(&mut self.graph, root);
        if self.cluster.options.planted(Mutant::ExecuteBeforeFinal) && !found.blockers.is_empty() {
            found.blockers.clear();
            found.components = vec![SmallVec::from_elem(root, 1)];
        }
        if let Some(&first) = found.blockers.first() {
            self.graph.block(root, first);
            let asked = found.blockers.into_iter().filter(|b| !self.takes_part(*b)).collect();
            self.inquire(now, asked, out);
            return;
        }
        let doubtful: Vec<Ref> = found.components.iter().filter_map(|c| self.doubtful(c)).collect();
        if let Some(&first) = doubtful.first() {
            base::sometimes!("a rank is asked for because ancestors were collected");
            self.graph.watch(first, root);
            self.inquire(now, doubtful, out);
            return;
        }
        for members in &found.components {
            self.emit(members, out);
        }
    }

    /// Searches that met this transaction are repeated.
    pub(super) fn search_again(&mut self, at: Ref) {
        let watchers = self.graph.take_watchers(at);
        self.search_later(watchers);
    }

    /// Whether this node is a participant of the transaction.
    fn takes_part(&self, at: Ref) -> bool {
        self.graph.live(at).participants.iter().any(|p| self.local_index(p).is_some())
    }

    /// A member whose rank has to be asked for: nobody of the component takes part here, and ancestors
    /// were collected that might have raised its rank.
    fn doubtful(&self, members: &[Ref]) -> Option<Ref> {
        let settled = |at: &Ref| {
            let vertex = self.graph.live(*at);
            vertex.transaction.is_some() || vertex.rank.is_some()
        };
        if members.iter().any(settled) {
            return None;
        }
        members.iter().copied().find(|at| {
            let vertex = self.graph.live(*at);
            vertex.extra.collected.dominates < vertex.extra.collected.lost
                && !self.cluster.options.planted(Mutant::RankFromTruncatedClosure)
        })
    }

    fn emit(&mut self, members: &[Ref], out: &mut Out) {
        let mut computed = Rank::ZERO;
        let mut told = None;
        for &at in members {
            let vertex = self.graph.live(at);
            computed = computed.max(vertex.bound).max(vertex.extra.collected.inherited);
            told = told.or(vertex.rank);
            for &dependency in &vertex.deps {
                // Within the component nobody is emitted yet.
                if let Some(parent) = self.graph.get(dependency)
                    && parent.state >= State::Emitted
                    && !self.cluster.options.planted(Mutant::RankIsCts)
                {
                    computed = computed.max(parent.rank.expect("what is emitted has a rank").next());
                }
            }
        }
        let rank = told.unwrap_or(computed);
        assert!(computed <= rank, "a parent is ranked above {:?}", self.graph.live(members[0]).id);
        self.note_placed(members, rank);
        let mut local: SmallVec<[Ref; 4]> = SmallVec::new();
        for &at in members {
            let vertex = self.graph.live_mut(at);
            vertex.rank = Some(rank);
            if vertex.transaction.is_some() {
                vertex.state = State::Emitted;
                local.push(at);
            } else {
                self.is_done(at, rank);
            }
            self.search_again(at);
        }
        match local.as_slice() {
            [] => {}
            [alone] => self.queue_alone(*alone),
            _ => self.queue_component(&local),
        }
        for at in local {
            self.changed(at, out);
        }
    }

    /// Asks participants about vertices, all of one search at once.
    fn inquire(&mut self, now: Time, vertices: Vec<Ref>, out: &mut Out) {
        let at = now + self.cluster.options.retry_after_ns(&self.cluster.topology);
        let mut by_node: BTreeMap<NodeId, Vec<Dependency>> = BTreeMap::new();
        for vertex in vertices {
            let vertex = self.graph.live(vertex);
            let txn = vertex.id;
            if !self.inquiries.begin(txn) {
                continue;
            }
            let participants = vertex.participants.clone();
            let nodes = participants.nodes(&self.cluster.topology);
            let node = self.nearest(nodes.iter().copied()).expect("a transaction has participants");
            by_node.entry(node).or_default().push(Dependency { txn, participants });
            self.remember(at, Deadline::Inquiry(txn), 0);
        }
        let watermark = self.collection.watermark();
        for (node, vertices) in by_node {
            self.send(node, Message::Inquire { vertices, watermark }, out);
        }
    }

    /// Asks the next participant.
    pub(super) fn retry_inquiry(&mut self, txn: TxnId, out: &mut Out) -> bool {
        let Some(attempt) = self.inquiries.again(txn) else { return false };
        let Some(at) = self.graph.find(txn) else {
            self.inquiries.settled(txn);
            return false;
        };
        base::sometimes!("an inquiry is sent again");
        let participants = self.graph.live(at).participants.clone();
        let nodes = participants.nodes(&self.cluster.topology);
        let node = nodes[attempt % nodes.len()];
        let vertices = vec![Dependency { txn, participants }];
        let watermark = self.collection.watermark();
        self.send(node, Message::Inquire { vertices, watermark }, out);
        true
    }

    pub(super) fn on_inquire(
        &mut self,
        from: NodeId,
        vertices: Vec<Dependency>,
        watermark: Rank,
        out: &mut Out,
    ) {
        self.raise_watermark(watermark, out);
        let mut roots = Vec::new();
        let mut known = Vec::new();
        for Dependency { txn, participants } in vertices {
            let at = match self.graph.find(txn) {
                Some(at) => at,
                None if self.collection.has_collected(txn) => {
                    known.push(Known::Below(txn));
                    continue;
                }
                None if participants.iter().all(|p| self.local_index(p).is_none()) => continue,
                None => self.named(txn, || participants),
            };
            if self.graph.live(at).state >= State::Final {
                roots.push(at);
            } else {
                base::sometimes!("an inquiry waits for a commit");
                let inquirers = &mut self.remote(at).inquirers;
                if !inquirers.contains(&from) {
                    inquirers.push(from);
                }
            }
        }
        if !known.is_empty() {
            let watermark = self.collection.watermark();
            self.send(from, Message::InquireReply { known, watermark }, out);
        }
        if !roots.is_empty() {
            self.tell(from, &roots, out);
        }
    }

    /// Sends final vertices, with what their closures hold beyond what `to` should have.
    pub(super) fn tell(&mut self, to: NodeId, roots: &[Ref], out: &mut Out) {
        let known = self.fragments_for(roots, &[to], true).into_iter().map(Known::Final).collect();
        let watermark = self.collection.watermark();
        self.send(to, Message::InquireReply { known, watermark }, out);
    }

    pub(super) fn on_inquire_reply(&mut self, known: Vec<Known>, watermark: Rank, out: &mut Out) {
        self.raise_watermark(watermark, out);
        for known in known {
            match known {
                Known::Final(fragment) => {
                    self.inquiries.settled(fragment.txn);
                    self.learn(&fragment, out);
                    if let Some(at) = self.graph.find(fragment.txn) {
                        if self.graph.live(at).state == State::Final {
                            self.search_again(at);
                        }
                    }
                }
                Known::Below(txn) => {
                    self.inquiries.settled(txn);
                    self.forget(txn);
                }
            }
        }
    }

    /// Lets go of whatever a raised floor says is collected everywhere.
    pub(super) fn forget_below_floors(&mut self) {
        let gone = |txn: &TxnId| self.collection.has_collected(*txn);
        let gone: Vec<TxnId> = self.inquiries.open().filter(gone).collect();
        for txn in gone {
            self.inquiries.settled(txn);
            self.forget(txn);
        }
    }

    /// Asks the nearest other participant about a transaction that takes part here.
    pub(super) fn inquire_elsewhere(&mut self, now: Time, at: Ref, out: &mut Out) {
        let vertex = self.graph.live(at);
        let (txn, participants) = (vertex.id, vertex.participants.clone());
        let nodes = participants.nodes(&self.cluster.topology);
        let others = nodes.iter().copied().filter(|node| *node != self.cluster.me);
        let Some(node) = self.nearest(others) else { return };
        if !self.inquiries.begin(txn) {
            return;
        }
        let vertices = vec![Dependency { txn, participants }];
        let watermark = self.collection.watermark();
        self.send(node, Message::Inquire { vertices, watermark }, out);
        let retry_at = now + self.cluster.options.retry_after_ns(&self.cluster.topology);
        self.remember(retry_at, Deadline::Inquiry(txn), 0);
    }
    fn nearest(&self, nodes: impl Iterator<Item = NodeId>) -> Option<NodeId> {
        nodes.min_by_key(|node| (self.measured.delays.one_way_ns(self.cluster.me, *node), *node))
    }
    /// The vertex is final here: nothing has to be asked about it any more.
    pub(super) fn inquire_no_more(&mut self, txn: TxnId) {
        self.inquiries.settled(txn);
    }
    /// A life begins: what the former one asked is not answered.
    pub(super) fn begin_inquiries(&mut self) {
        self.inquiries = Inquiries::default();
    }

    /// A vertex that turned out to be below the watermark.
    fn forget(&mut self, txn: TxnId) {
        let Some(at) = self.graph.find(txn) else { return };
        let vertex = self.graph.live(at);
        if vertex.transaction.is_some() || vertex.state >= State::Emitted {
            return;
        }
        base::sometimes!("an ancestor was collected before it was learned");
        let vertex = self.graph.remove(at);
        self.is_collected(txn);
        let watermark = self.collection.watermark();
        for child in self.collection.learned() {
            if let Some(child) = self.graph.get_mut(child)
                && child.deps.contains(&at)
            {
                child.extra.collected.lost = watermark;
            }
        }
        self.search_later(vertex.searched.into_watchers());
    }

    /// Takes over a final vertex from another node.
    pub(super) fn learn(&mut self, fragment: &Fragment, out: &mut Out) {
        let below = fragment.rank.is_some_and(|rank| rank <= self.collection.watermark());
        if below || self.collection.has_collected(fragment.txn) {
            self.forget(fragment.txn);
            // Whoever names it as a dependency need not ask.
            if self.graph.find(fragment.txn).is_none() {
                self.is_collected(fragment.txn);
            }
            return;
        }
        let at = self.named(fragment.txn, || fragment.participants.clone());
        let takes_part = self.takes_part(at);
        let vertex = self.graph.live_mut(at);
        match vertex.state {
            // It cannot be final before it was pre-accepted here; the name may stay.
            State::Named if takes_part => return,
            State::Named | State::PreAccepted => {
                let unknown = if fragment.complete { Rank::ZERO } else { self.collection.watermark() };
                let Fragment { dependencies, cts, noop, .. } = fragment;
                let decision = Decision { dependencies: dependencies.clone(), cts: *cts, noop: *noop };
                self.finalize(at, &decision, unknown, out);
                if !takes_part {
                    self.is_learned(at);
                }
                let lost = &mut self.graph.live_mut(at).extra.collected.lost;
                *lost = fragment.lost.max(*lost);
            }
            State::Final => {}
            State::Emitted | State::Executed | State::Done => return,
        }
        let vertex = self.graph.live_mut(at);
        vertex.rank = vertex.rank.or(fragment.rank);
        vertex.extra.after = vertex.extra.after.max(fragment.after);
        let collected = &mut vertex.extra.collected;
        collected.inherited = collected.inherited.max(fragment.inherited);
        collected.dominates = collected.dominates.max(fragment.dominates);
    }

    fn fragment(&self, vertex: &Vertex<Extra>) -> Fragment {
        let CollectedAncestors { mut inherited, mut lost, dominates } = vertex.extra.collected;
        let mut complete = true;
        let unexecuted = vertex.transaction.is_some() && vertex.state < State::Executed;
        for dependency in &vertex.deps {
            match self.graph.get(*dependency) {
                Some(parent) if parent.state >= State::Emitted => {
                    inherited = inherited.max(parent.rank.expect("what is emitted has a rank").next());
                }
                Some(_) => complete = false,
                // A vertex that takes part here does not keep account; below, it says that it need not.
                None if vertex.transaction.is_some() => lost = self.collection.watermark(),
                None => {}
            }
        }
        // Members of a component do not rank each other.
        if vertex.state >= State::Emitted {
            inherited = Rank::ZERO;
        }
        Fragment {
            txn: vertex.id,
            participants: vertex.participants.clone(),
            dependencies: self.names(&vertex.deps),
            cts: vertex.bound,
            noop: vertex.extra.noop,
            rank: vertex.rank,
            inherited,
            complete,
            lost,
            dominates: if unexecuted { self.collection.watermark() } else { dominates },
            after: vertex.extra.after,
        }
    }

    /// Final vertices in the closure of `roots` that one of `nodes` may lack. With `named`, the roots
    /// are included in any case.
    pub(super) fn fragments_for(&mut self, roots: &[Ref], nodes: &[NodeId], named: bool) -> Vec<Fragment> {
        let walk = self.graph.begin_walk();
        let mut fragments = Vec::new();
        let mut stack: Vec<Ref> = roots.iter().rev().copied().collect();
        while let Some(at) = stack.pop() {
            let Some(vertex) = self.graph.get(at) else { continue };
            if vertex.state < State::Final || !self.graph.first_visit(at, walk) {
                continue;
            }
            let vertex = self.graph.live(at);
            let held = vertex.extra.held_by.contains_all(nodes);
            if !held || (named && roots.contains(&at)) {
                fragments.push(self.fragment(vertex));
            }
            // Once emitted, a vertex went out together with its whole closure.
            if !(held && vertex.state >= State::Emitted) {
                stack.extend(vertex.deps.iter().rev());
            }
            let vertex = self.graph.live_mut(at);
            nodes.iter().for_each(|node| vertex.extra.held_by.insert(*node));
        }
        fragments
    }

    /// What the stream of a local partition lacks of a transaction's closure, which is final; it is on it from now on.
    pub(super) fn unstreamed(&mut self, root: Ref, local: usize) -> Vec<Ref> {
        let bit = 1u64 << local;
        let mut order = Vec::new();
        let mut stack = vec![root];
        while let Some(at) = stack.pop() {
            let Some(vertex) = self.graph.get_mut(at) else { continue };
            if vertex.extra.streamed & bit != 0 || vertex.extra.is_copied {
                continue;
            }
            assert!(vertex.state >= State::Final, "an ancestor of what executes, {}, is final", vertex.id);
            vertex.extra.streamed |= bit;
            order.push(at);
            stack.extend(vertex.deps.iter());
        }
        order
    }
}
