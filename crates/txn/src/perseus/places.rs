//! A transaction's place at this node: named, taken or kept, final, its turn, executed, done, gone.
//!
//! IN: what the other files decide about a transaction. OUT: searches, executions. KEEPS: a transaction goes from stage to
//! stage here alone, but that `closure` ranks what it emits, and notes which node has what; one that takes part here waits from
//! its place to its execution, under one bound.

use super::message::{Deadline, Decision};
use super::options::Mutant;
use super::participant::read_at;
use super::state::Perseus;
use super::vertex::{Extra, Graph, Remote};
use super::work::Out;
use crate::graph::participants::Participants;
use crate::graph::turns::{Turns, conflict_at};
use crate::graph::vertex::{Ref, Refs, State, Vertex};
use base::txn::{AccessSet, Transaction, TxnProgram};
use base::{Rank, Time, TxnId};
use smallvec::SmallVec;
use std::sync::Arc;

impl Perseus {
    // ---- named, and its place ---------------------------------------------------------------------

    /// A transaction, of which only the name may be known.
    pub(super) fn named(&mut self, txn: TxnId, participants: impl FnOnce() -> Participants) -> Ref {
        self.graph.find(txn).unwrap_or_else(|| self.graph.insert(txn, participants()))
    }
    /// What concerns other nodes about it.
    pub(super) fn remote(&mut self, at: Ref) -> &mut Remote {
        self.graph.live_mut(at).extra.remote.get_or_insert_default()
    }
    /// A transaction is pre-accepted with these dependencies, and ranked no lower than its pts.
    pub(super) fn take_place(
        &mut self,
        now: Time,
        at: Ref,
        transaction: Transaction,
        deps: Refs,
        (pts, is_too_old): (Rank, bool),
    ) {
        let vertex = self.graph.live_mut(at);
        assert_eq!(vertex.state, State::Named, "{} is pre-accepted once", vertex.id);
        vertex.state = State::PreAccepted;
        vertex.deps = deps;
        vertex.bound = pts;
        vertex.extra.received_at = now;
        vertex.extra.pts = pts;
        vertex.extra.after = transaction.after;
        vertex.extra.too_old = is_too_old;
        vertex.transaction = Some(transaction);
        self.needs_what_it_read(at);
    }

    /// The transaction is not ranked below this.
    pub(super) fn keep_place_at(&mut self, now: Time, at: Ref, pts: Rank) {
        let vertex = self.graph.live(at);
        let (id, participants) = (vertex.id, vertex.participants.clone());
        let by_partition = participants.iter().map(|partition| (partition, Vec::new())).collect();
        let transaction = Transaction {
            id,
            program: Arc::new(TxnProgram::Statements(Vec::new())),
            access: Arc::new(AccessSet { by_partition }),
            min_rank: Rank::ZERO,
            after: Rank::ZERO,
            homes: None,
        };
        let vertex = self.graph.live_mut(at);
        vertex.state = State::PreAccepted;
        vertex.bound = pts;
        vertex.extra.received_at = now;
        vertex.extra.pts = pts;
        vertex.transaction = Some(transaction);
        self.remote(at).placeholder = true;
        self.waits(at);
        let nodes = participants.nodes(&self.cluster.topology);
        let patience_ns = self.patience_ns(id, &nodes);
        self.remember(now + patience_ns, Deadline::Recovery(id), 0);
    }

    /// The transaction itself arrives for the place that was kept.
    pub(super) fn vacate(&mut self, at: Ref) {
        self.waits_no_more(at);
        let vertex = self.graph.live_mut(at);
        assert_eq!(vertex.state, State::PreAccepted, "{} has its place kept", vertex.id);
        vertex.state = State::Named;
        vertex.transaction = None;
        self.remote(at).placeholder = false;
    }
    /// The last record about it has this number.
    pub(super) fn note_record(&mut self, at: Ref, number: u64) {
        self.graph.live_mut(at).extra.recorded = number;
    }
    /// It waits for a decision since now: this life has not asked before.
    pub(super) fn waits_since(&mut self, at: Ref, now: Time) {
        self.graph.live_mut(at).extra.received_at = now;
    }

    // ---- final ------------------------------------------------------------------------------------

    /// It takes part nowhere else: its dependencies are final.
    pub(super) fn decide_alone(&mut self, at: Ref) {
        let vertex = self.graph.live_mut(at);
        vertex.state = State::Final;
        let cts = vertex.bound;
        if self.is_recorded() {
            // It may have to wait for its record, although its turn has come.
            self.waits(at);
        }
        // Nobody ahead that is not done: the order is known without a search.
        let mut rank = cts;
        for &dependency in &self.graph.live(at).deps {
            let Some(ahead) = self.graph.get(dependency) else { continue };
            if ahead.state != State::Done {
                self.waits(at);
                self.search_later([at]);
                return;
            }
            rank = rank.max(ahead.rank.expect("what is done has a rank").next());
        }
        let vertex = self.graph.live_mut(at);
        vertex.state = State::Emitted;
        vertex.rank = Some(rank);
        self.execute_later([at]);
    }

    /// The transaction's dependencies are final from now on. Those that were collected here may have any
    /// rank up to `unknown`.
    pub(super) fn finalize(&mut self, at: Ref, decision: &Decision, unknown: Rank, out: &mut Out) {
        let &Decision { ref dependencies, cts, noop } = decision;
        let mut deps = Refs::new();
        let mut lost = Rank::ZERO;
        for dependency in dependencies {
            match self.graph.find(dependency.txn) {
                Some(known) => deps.push(known),
                None if self.collection.has_collected(dependency.txn) => lost = unknown,
                None => deps.push(self.graph.insert(dependency.txn, dependency.participants.clone())),
            }
        }
        let vertex = self.graph.live_mut(at);
        assert!(vertex.state < State::Final, "{} becomes final once", vertex.id);
        assert!(vertex.bound <= cts, "{}: cts {cts} is below a pts, {}", vertex.id, vertex.bound);
        let bound = std::mem::replace(&mut vertex.bound, cts);
        vertex.deps = deps;
        vertex.extra.collected.lost = lost;
        vertex.state = State::Final;
        vertex.extra.noop = noop;
        if vertex.transaction.is_some() {
            self.waits_from(at, bound);
        }
        let nodes = self.graph.live(at).participants.nodes(&self.cluster.topology);
        let vertex = self.graph.live_mut(at);
        nodes.iter().for_each(|node| vertex.extra.held_by.insert(*node));
        let watchers = self.graph.take_watchers(at);
        let vertex = self.graph.live_mut(at);
        let mut inquirers = Vec::new();
        if let Some(remote) = &mut vertex.extra.remote {
            // The node that sent a Commit has the answer.
            remote.answer = None;
            remote.accepted = None;
            assert!(noop || !remote.placeholder, "{} takes effect only where it is known", vertex.id);
            inquirers = std::mem::take(&mut remote.inquirers);
        }
        let is_local = vertex.transaction.is_some();
        let vertex = self.graph.live(at);
        let (txn, received_at) = (vertex.id, vertex.extra.received_at);
        self.inquire_no_more(txn);
        self.recover_no_more(txn);
        if is_local {
            let patience_ns = self.patience_ns(txn, &nodes);
            self.forget_deadline(received_at + patience_ns, Deadline::Recovery(txn));
        }
        if is_local {
            self.search_later([at]);
            self.changed(at, out);
        }
        self.search_later(watchers);
        for node in inquirers {
            self.tell(node, &[at], out);
        }
    }
    /// A former life had ranked it.
    pub(super) fn was_ranked(&mut self, at: Ref, rank: Rank, after: Rank) {
        let vertex = self.graph.live_mut(at);
        (vertex.rank, vertex.extra.after) = (Some(rank), after);
    }
    /// Its dependencies up to this rank are about to be collected: it keeps what they mean for its own.
    pub(super) fn inherit(&mut self, at: Ref, rank: Rank) {
        let deps = &self.graph.live(at).deps;
        let ranks = deps.iter().filter_map(|dependency| self.graph.get(*dependency)).filter_map(|parent| {
            parent.rank.filter(|parent_rank| parent.state >= State::Emitted && *parent_rank <= rank)
        });
        let inherited = ranks.max().map_or(Rank::ZERO, Rank::next);
        let collected = &mut self.graph.live_mut(at).extra.collected;
        collected.inherited = collected.inherited.max(inherited);
    }

    // ---- its turn ---------------------------------------------------------------------------------

    /// The bound under which a transaction waits. A lower bound of its cts is not always raised to it; see Rule 2.
    fn waiting_bound(&self, at: Ref) -> Rank {
        let vertex = self.graph.live(at);
        if self.cluster.options.lower_bounds { vertex.bound } else { vertex.extra.pts }
    }
    /// A transaction waits until it executes.
    pub(super) fn waits(&mut self, at: Ref) {
        self.schedule.wait(self.waiting_bound(at), at);
    }
    /// What is to be executed has its cts, which was bounded by this.
    pub(super) fn waits_from(&mut self, at: Ref, bound: Rank) {
        let cts = self.waiting_bound(at);
        if bound < cts && self.cluster.options.lower_bounds {
            self.schedule.raise(at, bound, cts);
        }
    }
    /// Versions that a transaction has read are needed until it has executed.
    pub(super) fn needs_what_it_read(&mut self, at: Ref) {
        if let Some(rank) = self.graph.live(at).transaction.as_ref().and_then(read_at) {
            self.schedule.has_read(rank, at);
        }
    }
    /// It has executed, or gives way to another transaction under its name.
    pub(super) fn waits_no_more(&mut self, at: Ref) {
        if let Some(rank) = self.graph.live(at).transaction.as_ref().and_then(read_at) {
            self.schedule.needs_no_more(rank, at);
        }
        self.schedule.remove(self.waiting_bound(at), at);
    }

    pub(super) fn queue_alone(&mut self, at: Ref) {
        let planted = self.cluster.options.planted(Mutant::ForgetComponents);
        if Turns::queue_alone(&mut self.graph, at, if planted { State::Executed } else { State::Done }) {
            self.execute_later([at]);
        }
    }

    pub(super) fn queue_component(&mut self, members: &[Ref]) {
        let Perseus { cluster, partitions, graph, .. } = self;
        let conflict = |a: &Vertex<Extra>, b: &Vertex<Extra>| {
            let transactions = a.transaction.as_ref().zip(b.transaction.as_ref());
            let (a, b) = transactions.expect("both take part here");
            conflict_at(&a.access, &b.access, |partition| partitions.index_of(partition).is_some())
                && !cluster.options.planted(Mutant::ForgetComponents)
        };
        let mut ready: SmallVec<[Ref; 4]> = SmallVec::new();
        self.schedule.turns.queue_component(graph, members, members, conflict, |at| ready.push(at));
        self.execute_later(ready);
    }

    /// It has executed at this rank: others have their turns, and who is done with that may be collected.
    pub(super) fn end_turn(&mut self, at: Ref, rank: Rank) {
        let mut ready: SmallVec<[Ref; 2]> = SmallVec::new();
        let done = self.schedule.turns.executed(&mut self.graph, at, |at| ready.push(at));
        self.execute_later(ready);
        for member in done {
            self.is_done(member, rank);
            let mut ready: SmallVec<[Ref; 2]> = SmallVec::new();
            Turns::done(&mut self.graph, member, |at| ready.push(at));
            self.execute_later(ready);
        }
    }

    // ---- executed, done, gone ---------------------------------------------------------------------

    pub(super) fn has_executed(&mut self, at: Ref) {
        self.graph.live_mut(at).state = State::Executed;
        self.waits_no_more(at);
    }
    /// Nothing is left to do about it here.
    pub(super) fn is_done(&mut self, at: Ref, rank: Rank) {
        self.graph.live_mut(at).state = State::Done;
        self.collect_later(at, rank);
    }
    /// It is collected.
    pub(super) fn gone(&mut self, at: Ref) -> TxnId {
        let vertex = self.graph.remove(at);
        assert_eq!(vertex.state, State::Done, "{} executed before it is collected", vertex.id);
        vertex.id
    }

    // ---- a former life's --------------------------------------------------------------------------

    /// A former life's graph takes the place of this one's, which is empty.
    pub(super) fn take_places(&mut self, graph: Graph) {
        self.graph = graph;
        let all: Vec<Ref> = self.graph.iter().map(|(at, _)| at).collect();
        for at in all {
            let vertex = self.graph.live(at);
            let (is_local, state, rank) = (vertex.transaction.is_some(), vertex.state, vertex.rank);
            if is_local && state < State::Executed {
                self.waits(at);
                self.needs_what_it_read(at);
            }
            match state {
                State::Final if !is_local => self.is_learned(at),
                State::Done => self.collect_later(at, rank.expect("what is done has a rank")),
                _ => {}
            }
        }
    }
    /// A reader that follows a stream gets a copy, which holds what has executed; the stream begins anew. Answers the highest rank.
    pub(super) fn begin_copies(&mut self) -> Rank {
        let mut highest = Rank::ZERO;
        let all: Vec<Ref> = self.graph.iter().map(|(at, _)| at).collect();
        for at in all {
            let vertex = self.graph.live_mut(at);
            highest = highest.max(vertex.rank.filter(|_| vertex.state >= State::Emitted).unwrap_or_default());
            (vertex.extra.is_copied, vertex.extra.streamed) = (vertex.state >= State::Executed, 0);
        }
        highest
    }
}
