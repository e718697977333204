//! All that a node knows of transactions that have not been collected, as a checkpoint has it beside rows.
//!
//! KEEPS: an image is taken between two events. With the rows as of the same moment it stands for all records before, so
//! nothing from before is needed. It holds what was not recorded yet too: decisions, and ends to be recorded. What belongs
//! to a process is not in it: what its gateway has under way, recoveries that it leads, readers, questions, reports of
//! others, and who holds what.

use super::message::{Ballot, Decision, Dependency, Message, Share};
use super::partitions::PartitionImage;
use super::recorder::{Ceiling, Ended};
use super::records::answer_of;
use super::requests::ClaimImage;
use super::state::Perseus;
use super::vertex::{CollectedAncestors, Extra, Graph, Remote};
use crate::graph::participants::Participants;
use crate::graph::seen::Seen;
use crate::graph::turns::{TurnImage, TurnsImage};
use crate::graph::vertex::{self, Ref, State};
use crate::records::read;
use base::process::Unreadable;
use base::txn::{ClientRequest, Gathered, Transaction};
use base::{PartitionId, Rank, TxnId, codec};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Serialize, Deserialize)]
struct Image {
    ceiling: Ceiling,
    watermark: Rank,
    seen: Seen,
    partitions: Vec<PartitionImage>,
    vertices: Vec<Vertex>,
    turns: TurnsImage,
    claims: Vec<ClaimImage>,
    /// Results up to this rank are forgotten.
    forgotten: Rank,
    ended: Ended,
}

/// A transaction, as far as it is known here.
#[derive(Serialize, Deserialize)]
struct Vertex {
    txn: TxnId,
    participants: Participants,
    transaction: Option<Transaction>,
    state: State,
    bound: Rank,
    rank: Option<Rank>,
    deps: Vec<TxnId>,
    turn: TurnImage,
    pts: Rank,
    too_old: bool,
    noop: bool,
    after: Rank,
    collected: CollectedAncestors,
    remote: Option<Between>,
}

/// The same of a transaction that takes part at several nodes.
#[derive(Serialize, Deserialize)]
struct Between {
    answer: Option<(Vec<Dependency>, Rank)>,
    /// What others have read, and once it has executed what was read here.
    exchange: Vec<(PartitionId, Gathered)>,
    share: Option<Share>,
    promised: Option<Ballot>,
    accepted: Option<(Ballot, Decision)>,
    barred: bool,
    placeholder: bool,
    request: Option<ClientRequest>,
}

impl Perseus {
    pub(super) fn checkpoint(&self) -> Vec<u8> {
        let graph = &self.graph;
        let finals = graph.iter().filter(|(_, vertex)| vertex.state == State::Final);
        // Of others only the name is known, and nobody waits for them.
        let named: BTreeSet<Ref> = finals.flat_map(|(_, vertex)| vertex.deps.iter().copied()).collect();
        let is_kept = |at: Ref, state: State| state > State::Named || named.contains(&at);
        let id_of =
            |at: Ref| graph.get(at).filter(|vertex| is_kept(at, vertex.state)).map(|vertex| vertex.id);
        let kept = graph.iter().filter(|(at, vertex)| is_kept(*at, vertex.state));
        let vertices = kept.map(|(_, vertex)| Vertex {
            txn: vertex.id,
            participants: vertex.participants.clone(),
            transaction: vertex.transaction.clone(),
            state: vertex.state,
            bound: vertex.bound,
            rank: vertex.rank,
            deps: vertex.deps.iter().filter_map(|at| id_of(*at)).collect(),
            turn: TurnImage::of(&vertex.turn, &id_of),
            pts: vertex.extra.pts,
            too_old: vertex.extra.too_old,
            noop: vertex.extra.noop,
            after: vertex.extra.after,
            collected: vertex.extra.collected,
            remote: vertex.extra.remote.as_deref().map(|remote| self.between(vertex.state, remote)),
        });
        let (claims, forgotten) = self.requests.image();
        codec::encode(&Image {
            ceiling: self.recorder.wanted(),
            watermark: self.collection.watermark(),
            seen: self.collection.seen().clone(),
            partitions: self.partitions.image(&id_of),
            vertices: vertices.collect(),
            turns: TurnsImage::of(&self.schedule.turns, &id_of),
            claims,
            forgotten,
            ended: self.recorder.ended.clone(),
        })
    }

    fn between(&self, state: State, remote: &Remote) -> Between {
        let has_executed = state >= State::Executed;
        let kept = |partition: PartitionId| has_executed || self.local_index(partition).is_none();
        let exchange = remote.exchange.iter().filter(|(partition, _)| kept(**partition));
        let answer = remote.answer.as_ref().and_then(|answer| match answer {
            Message::PreAcceptOk { dependencies, pts, .. } => Some((dependencies.clone(), *pts)),
            _ => None,
        });
        Between {
            answer,
            exchange: exchange.map(|(partition, gathered)| (*partition, gathered.clone())).collect(),
            share: remote.share.clone(),
            promised: remote.promised,
            accepted: remote.accepted.clone(),
            barred: remote.barred,
            placeholder: remote.placeholder,
            request: remote.request,
        }
    }

    /// Takes an image, before anything else.
    pub(super) fn take_checkpoint(&mut self, bytes: &[u8]) -> Result<(), Unreadable> {
        let image: Image = read("a checkpoint's state", bytes)?;
        let mut graph = Graph::default();
        for vertex in &image.vertices {
            if graph.find(vertex.txn).is_some() {
                return Err(Unreadable(format!("a checkpoint has {} twice", vertex.txn)));
            }
            graph.insert(vertex.txn, vertex.participants.clone());
        }
        let ids: BTreeMap<TxnId, Ref> = graph.iter().map(|(at, vertex)| (vertex.id, at)).collect();
        let at_of = |txn: TxnId| *ids.get(&txn).expect("an image names whom it holds");
        self.take_partitions(image.partitions, &at_of)?;
        self.schedule.restore(image.turns.restored(&at_of));
        self.collection.restore(image.watermark, image.seen);
        self.requests.restore(image.claims, image.forgotten);
        self.recorder.restore(image.ceiling);
        (self.recorder.ended, self.recorder.lags) = (image.ended, true);
        for vertex in image.vertices {
            let known = graph.live_mut(at_of(vertex.txn));
            vertex.restore(known, &at_of);
        }
        self.take_places(graph);
        Ok(())
    }
}

impl Vertex {
    /// Gives a vertex, of which only the name is known, what the image has of it.
    fn restore(self, vertex: &mut vertex::Vertex<Extra>, at_of: &impl Fn(TxnId) -> Ref) {
        let remote = self.remote.map(|remote| Box::new(remote.restored(self.txn, self.state)));
        (vertex.transaction, vertex.state) = (self.transaction, self.state);
        (vertex.bound, vertex.rank) = (self.bound, self.rank);
        vertex.deps = self.deps.into_iter().map(at_of).collect();
        vertex.turn = self.turn.restored(at_of);
        let Extra { pts, too_old, noop, after, collected, remote: known, .. } = &mut vertex.extra;
        (*pts, *too_old, *noop, *after, *collected, *known) =
            (self.pts, self.too_old, self.noop, self.after, self.collected, remote);
    }
}

impl Between {
    fn restored(self, txn: TxnId, state: State) -> Remote {
        Remote {
            answer: self.answer.map(|(dependencies, pts)| answer_of(txn, dependencies, pts)),
            exchange: self.exchange.into_iter().collect(),
            // What was read here before is read again, as it was.
            gathered: state >= State::Executed,
            share: self.share,
            promised: self.promised,
            accepted: self.accepted,
            barred: self.barred,
            placeholder: self.placeholder,
            request: self.request,
            ..Remote::default()
        }
    }
}
