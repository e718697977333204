//! All that a copy's merger and scheduler go on from, as another node can take it over.
//!
//! KEEPS: an image is taken between two events, so it stands where a merger stood: it is what follows from the
//! first `merged` entries of each sequence, and nothing else. Whoever takes it over and goes on with the entries
//! behind those gives the same transactions the same places and ranks. What belongs to a node itself is not in it:
//! what its gateway has under way, what it leads, its readers, its promises.

use super::homes::Resided;
use super::logs::Logs;
use super::merger::{Exchange, Extra, Graph, Merger};
use super::message::SequenceId;
use super::requests::Kept;
use super::state::Caerus;
use super::work::Work;
use crate::graph::component::SearchedImage;
use crate::graph::participants::Participants;
use crate::graph::seen::Seen;
use crate::graph::turns::{TurnImage, TurnsImage};
use crate::graph::vertex::{Ref, State};
use base::txn::{ClientRequest, Gathered, Transaction};
use base::{LogPosition, PartitionId, Rank, TableId, TxnId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Image {
    sequences: Vec<Merged>,
    partitions: Vec<Copied>,
    vertices: Vec<Vertex>,
    turns: TurnsImage,
    requests: Vec<Kept>,
    watermark: Rank,
    given_up: Rank,
}

/// A sequence, as far as it is merged.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Merged {
    merged: u64,
    low: Rank,
    collected: Rank,
    seen: Seen,
}

impl Merged {
    fn of(logs: &Logs, sequence: SequenceId) -> Merged {
        let (log, seen) = (logs.of(sequence), logs.seen(sequence).clone());
        Merged { merged: log.merged(), low: log.low(), collected: log.collected(), seen }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Copied {
    rest: Resided,
    tables: Vec<(TableId, Resided)>,
    position: LogPosition,
    rank_max: Rank,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Vertex {
    id: TxnId,
    transaction: Transaction,
    request: Option<ClientRequest>,
    state: State,
    bound: Rank,
    rank: Option<Rank>,
    deps: Vec<TxnId>,
    searched: SearchedImage,
    turn: TurnImage,
    regions: u64,
    got: u64,
    collected: Rank,
    stale: bool,
    /// What everybody in the region read, once it has executed.
    reads: Option<BTreeMap<PartitionId, Gathered>>,
}

impl Caerus {
    /// As of now.
    pub(super) fn image(&self) -> Image {
        let graph = self.merger.graph();
        let id_of = |at: Ref| graph.get(at).map(|vertex| vertex.id);
        let vertex = |(_, vertex): (Ref, &crate::graph::vertex::Vertex<Extra>)| {
            let has_executed = vertex.state >= State::Executed;
            let exchange = vertex.extra.exchange.as_ref().filter(|_| has_executed);
            Vertex {
                id: vertex.id,
                transaction: vertex.transaction.clone().expect("entries carry whole transactions"),
                request: vertex.extra.request,
                state: vertex.state,
                bound: vertex.bound,
                rank: vertex.rank,
                deps: vertex.deps.iter().filter_map(|at| id_of(*at)).collect(),
                searched: SearchedImage::of(&vertex.searched, &id_of),
                turn: TurnImage::of(&vertex.turn, &id_of),
                regions: vertex.extra.regions,
                got: vertex.extra.got,
                collected: vertex.extra.collected,
                stale: vertex.extra.stale,
                reads: exchange.map(|exchange| exchange.reads.clone()),
            }
        };
        let copied = |(n, (rest, tables)): (u16, _)| {
            let (position, rank_max) = self.scheduler.log(PartitionId(n));
            Copied { rest, tables, position, rank_max }
        };
        Image {
            sequences: (0..self.logs.len() as u16).map(|n| Merged::of(&self.logs, SequenceId(n))).collect(),
            partitions: (0..).zip(self.residences.image(&id_of)).map(copied).collect(),
            vertices: graph.iter().map(vertex).collect(),
            turns: TurnsImage::of(self.scheduler.turns(), &id_of),
            requests: self.outcomes.image(),
            watermark: self.collector.watermark(),
            given_up: self.collector.given_up(),
        }
    }

    /// Stands where the image's node stood. This one must have merged nothing, and must be of the same cluster.
    pub(super) fn take_over(&mut self, image: Image) {
        assert!(self.merger.graph().is_empty(), "a copy is taken over by who has nothing");
        for (sequence, known) in (0..).map(SequenceId).zip(image.sequences) {
            let Merged { merged, low, collected, seen } = known;
            self.logs.take_over(sequence, (merged, low, collected), seen);
        }
        let mut graph = Graph::default();
        for vertex in &image.vertices {
            graph.insert(vertex.id, Participants::of(vertex.transaction.participants()));
        }
        let ids: BTreeMap<TxnId, Ref> = graph.iter().map(|(at, vertex)| (vertex.id, at)).collect();
        let at_of = |txn: TxnId| *ids.get(&txn).expect("an image names whom it holds");
        let logs = image.partitions.iter().map(|copied| (copied.position, copied.rank_max)).collect();
        let residences = image.partitions.into_iter().map(|copied| (copied.rest, copied.tables)).collect();
        self.residences.take_over(&self.cluster, residences, &at_of);
        self.scheduler.take_over(logs, image.turns.restored(&at_of));
        self.outcomes.take_over(image.requests);
        for vertex in image.vertices {
            let at = at_of(vertex.id);
            let turn = vertex.turn.restored(&at_of);
            let local = vertex.transaction.participants().any(|p| self.cluster.is_local(p));
            let alone = vertex.transaction.participants().all(|p| self.cluster.is_local(p));
            if local && vertex.state == State::Emitted && turn.has_come() {
                // Its node waited for reads of others in its region; here they are read anew.
                self.work.push_back(Work::Execute(at));
            }
            let known = graph.live_mut(at);
            (known.state, known.bound, known.rank) = (vertex.state, vertex.bound, vertex.rank);
            known.transaction = Some(vertex.transaction);
            known.deps = vertex.deps.into_iter().map(at_of).collect();
            (known.searched, known.turn) = (vertex.searched.restored(&at_of), turn);
            let extra = &mut known.extra;
            (extra.regions, extra.got, extra.collected) = (vertex.regions, vertex.got, vertex.collected);
            (extra.request, extra.stale) = (vertex.request, vertex.stale);
            (extra.local, extra.alone) = (local, alone);
            extra.exchange = vertex.reads.map(|reads| Box::new(Exchange { reads, gathered: true }));
        }
        self.merger = Merger::of(graph);
        self.collector.take_over(image.watermark, image.given_up);
        self.logs.collect_to(self.collector.watermark());
    }

    /// Forgets what was merged or taken over.
    pub(super) fn forget_merged(&mut self) {
        self.merger = Merger::default();
        self.scheduler.forget_merged();
        self.outcomes.forget_merged();
        self.work.clear();
    }
}
