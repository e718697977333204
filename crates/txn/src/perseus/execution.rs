//! Execution at one node: gather, exchange, apply, log.
//!
//! KEEPS: a transaction executes after its conflicting local predecessors and never holds up another
//! that does not conflict with it, so two nodes that run two independent transactions in opposite order
//! do not wait for each other. Positions of a log are dense. On a stream, a record follows its closure.

pub(super) mod logs;

use super::message::{Deadline, Message, Share};
use super::options::Timestamps;
use super::state::Perseus;
use super::work::Out;
use crate::engine::{Applied, Executor};
use crate::graph::vertex::{Ref, State};
use base::commit::CommitRecord;
use base::order::{StreamItem, Vertex};
use base::txn::{Gathered, Transaction};
use base::{NodeId, PartitionId, Place, Rank, SqlError, SqlState, Time, TxnId};
use smallvec::SmallVec;
use std::collections::BTreeMap;

impl Perseus {
    pub(super) fn execute(&mut self, now: Time, at: Ref, executor: &mut dyn Executor, out: &mut Out) {
        let vertex = self.graph.live(at);
        if vertex.state >= State::Executed {
            return;
        }
        assert_eq!(vertex.state, State::Emitted, "{} executes once its place is known", vertex.id);
        assert!(vertex.turn.has_come(), "{} waits for its predecessors", vertex.id);
        if self.waits_for_disk(at) {
            return;
        }
        let vertex = self.graph.live(at);
        let transaction = vertex.transaction.clone().expect("it takes part here");
        if vertex.extra.noop {
            self.complete(now, at, &transaction, BTreeMap::new(), executor, out);
            return;
        }
        if vertex.participants.iter().all(|p| self.local_index(p).is_some()) {
            let exchange = self.gather(&transaction, executor).collect();
            self.complete(now, at, &transaction, exchange, executor, out);
            return;
        }
        if !self.remote(at).gathered {
            let gathered: Vec<_> = self.gather(&transaction, executor).collect();
            let nodes = self.graph.live(at).participants.nodes(&self.cluster.topology);
            for node in nodes {
                if node == self.cluster.me {
                    continue;
                }
                let message =
                    Message::RemoteRead { txn: transaction.id, gathered: gathered.clone(), sent_at: now };
                self.send(node, message, out);
            }
            let remote = self.remote(at);
            remote.gathered = true;
            remote.exchange.extend(gathered);
        }
        let participants = self.graph.live(at).participants.len();
        let remote = self.remote(at);
        if remote.exchange.len() < participants {
            let retry_at = now + self.cluster.options.retry_after_ns(&self.cluster.topology);
            self.remember(retry_at, Deadline::Exchange(transaction.id), 0);
            return;
        }
        let exchange = std::mem::take(&mut remote.exchange);
        self.note_reads(transaction.id, &exchange);
        let exchange = self.complete(now, at, &transaction, exchange, executor, out);
        // Another participant may still ask for what was read here.
        self.remote(at).exchange = exchange;
    }

    /// Reads at every partition of this node that takes part.
    fn gather(
        &self,
        transaction: &Transaction,
        executor: &mut dyn Executor,
    ) -> impl Iterator<Item = (PartitionId, Gathered)> + use<> {
        let vertex = self.graph.find(transaction.id).map(|at| self.graph.live(at));
        let is_too_old = vertex.is_some_and(|vertex| vertex.extra.too_old);
        let local = transaction.participants().filter(|p| self.local_index(*p).is_some());
        let gathered: SmallVec<[_; 1]> = local
            .map(|p| match is_too_old {
                true => (p, Gathered::Abort(too_old())),
                false => (p, executor.gather(p, transaction)),
            })
            .collect();
        gathered.into_iter()
    }

    /// Everybody's reads are here: the transaction takes effect, or none.
    fn complete(
        &mut self,
        now: Time,
        at: Ref,
        transaction: &Transaction,
        exchange: BTreeMap<PartitionId, Gathered>,
        executor: &mut dyn Executor,
        out: &mut Out,
    ) -> BTreeMap<PartitionId, Gathered> {
        let txn = transaction.id;
        let rank = self.graph.live(at).rank.expect("what executes has a rank");
        assert!(rank >= self.graph.live(at).bound, "{txn} is ranked below a pts");
        let place = Place::new(rank, txn);
        let abort: Option<SqlError> = Gathered::abort_of(exchange.values()).cloned();
        let noop = self.graph.live(at).extra.noop;
        let mut results = Vec::new();
        for partition in transaction.participants() {
            let Some(local) = self.local_index(partition) else { continue };
            let applied = match abort {
                _ if noop => Applied::default(),
                Some(_) => Applied::default(),
                None => executor.apply(partition, transaction, place, &exchange),
            };
            results.push((partition, applied.results));
            let position = self.partitions.logs.append(local, rank);
            if self.partitions.logs.is_streamed(local) {
                self.stream_closure(at, (local, partition), out);
                let record = CommitRecord {
                    txn,
                    rank,
                    partition,
                    position,
                    writes: applied.writes,
                    schema: applied.schema,
                };
                self.stream(partition, StreamItem::Record(record), out);
            }
        }
        let share = match abort {
            _ if noop => Share::Noop,
            Some(error) => Share::Aborted(error),
            None => Share::Committed(results),
        };
        self.executed(now, at, rank, share, out);
        exchange
    }

    fn executed(&mut self, now: Time, at: Ref, rank: Rank, share: Share, out: &mut Out) {
        self.has_executed(at);
        self.catches_up_with(at);
        let vertex = self.graph.live(at);
        let (txn, received_at) = (vertex.id, vertex.extra.received_at);
        self.changed(at, out);
        self.end_turn(at, rank);
        let request = self.graph.live(at).extra.remote.as_ref().and_then(|remote| remote.request);
        if let Some(request) = request {
            self.request_ended(request, txn, rank, &share);
        }
        let alone = self.graph.live(at).participants.iter().all(|p| self.local_index(p).is_some());
        if alone
            && txn.coordinator == self.cluster.me
            && self.cluster.options.timestamps == Timestamps::Clocks
        {
            if !self.gateway.has_named(txn) {
                return; // In a former life: its client was disconnected.
            }
            self.finish_alone(now, txn, rank, share, received_at);
            return;
        }
        self.remote(at).share = Some(share.clone());
        self.send(txn.coordinator, Message::Executed { txn, rank, share }, out);
    }

    pub(super) fn on_remote_read(&mut self, txn: TxnId, gathered: Vec<(PartitionId, Gathered)>) {
        let Some(at) = self.graph.find(txn) else { return };
        let vertex = self.graph.live(at);
        if vertex.transaction.is_none() || vertex.state >= State::Executed {
            return;
        }
        let participants = vertex.participants.len();
        let ready = vertex.state == State::Emitted && vertex.turn.has_come();
        let remote = self.remote(at);
        remote.exchange.extend(gathered);
        if ready && remote.gathered && remote.exchange.len() == participants {
            self.execute_later([at]);
        }
    }

    pub(super) fn on_remote_read_wanted(&mut self, now: Time, from: NodeId, txn: TxnId, out: &mut Out) {
        let Some(at) = self.graph.find(txn) else { return };
        let Some(remote) = &self.graph.live(at).extra.remote else { return };
        // Not gathered yet: it will be sent then.
        if remote.gathered {
            let own = remote.exchange.iter().filter(|(p, _)| self.local_index(**p).is_some());
            let gathered = own.map(|(p, gathered)| (*p, gathered.clone())).collect();
            self.send(from, Message::RemoteRead { txn, gathered, sent_at: now }, out);
        }
    }

    pub(super) fn retry_exchange(&mut self, txn: TxnId, out: &mut Out) -> bool {
        let Some(at) = self.graph.find(txn) else { return false };
        let vertex = self.graph.live(at);
        if vertex.state >= State::Executed {
            return false;
        }
        base::sometimes!("remote reads are asked for");
        let exchange = vertex.extra.remote.as_ref().map(|remote| &remote.exchange);
        let missing = vertex.participants.iter().filter(|p| exchange.is_none_or(|e| !e.contains_key(p)));
        let nodes = crate::graph::participants::Participants::of(missing).nodes(&self.cluster.topology);
        for node in nodes {
            if node != self.cluster.me {
                self.send(node, Message::RemoteReadWanted { txn }, out);
            }
        }
        true
    }

    /// A life begins: its records follow those of all former ones.
    pub(super) fn begin_logs(&mut self) {
        self.partitions.logs.come_back(self.gateway.incarnation());
    }
    /// After a restart the streams of changes begin anew, and their readers get a copy of the rows first.
    pub(super) fn begin_streams(&mut self) {
        let highest = self.begin_copies();
        self.partitions.logs.begin_copies(highest);
    }

    /// Puts what the stream lacks of a transaction's closure on it; ancestors come first, as far as there are
    /// no cycles and no shortcuts.
    fn stream_closure(&mut self, at: Ref, (local, partition): (usize, PartitionId), out: &mut Out) {
        for at in self.unstreamed(at, local).into_iter().rev() {
            let vertex = self.graph.live(at);
            let live = vertex.deps.iter().filter_map(|dependency| self.graph.get(*dependency));
            let live = live.filter(|dependency| !dependency.extra.is_copied);
            let vertex = Vertex {
                txn: vertex.id,
                participants: vertex.participants.to_vec(),
                dependencies: live.map(|dependency| dependency.id).collect(),
                after: vertex.extra.after,
            };
            self.stream(partition, StreamItem::Vertex(vertex), out);
        }
    }
}

/// What was read for a transaction is too old to be judged.
fn too_old() -> SqlError {
    let error = SqlError::new(
        SqlState::SERIALIZATION_FAILURE,
        "could not serialize access: the transaction's snapshot is too old",
    );
    let error =
        error.detail("Versions that came after what it has read were collected before it took its place.");
    error.hint("Retry the transaction.")
}
