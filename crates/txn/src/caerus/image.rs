//! All that a copy's merger and scheduler go on from, as another node can take it over.
//!
//! KEEPS: an image is taken between two events, so it stands where a merger stood: it is what follows from the
//! first `merged` entries of each sequence, and nothing else. Whoever takes it over and goes on with the entries
//! behind those gives the same transactions the same places and ranks. What belongs to a node itself is not in it:
//! what its gateway has under way, what it leads, its readers, its promises.

use super::cluster::Cluster;
use super::homes::Resided;
use super::logs::Logs;
use super::merger::{Exchange, Extra, Graph};
use super::message::SequenceId;
use super::requests::Kept;
use super::state::Caerus;
use crate::graph::component::SearchedImage;
use crate::graph::participants::Participants;
use crate::graph::seen::Seen;
use crate::graph::turns::{TurnImage, TurnsImage};
use crate::graph::vertex::{Ref, State};
use base::txn::{ClientRequest, Gathered, Transaction};
use base::{LogPosition, PartitionId, Rank, RegionId, TableId, TxnId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Image {
    pub sequences: Vec<Merged>,
    pub partitions: Vec<Copied>,
    pub vertices: Vec<Vertex>,
    pub turns: TurnsImage,
    pub requests: Vec<Kept>,
    pub watermark: Rank,
    pub given_up: Rank,
}

/// A sequence, as far as it is merged.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Merged {
    pub merged: u64,
    pub closed: Rank,
    pub collected: Rank,
    pub seen: Seen,
}

impl Merged {
    fn of(logs: &Logs, sequence: SequenceId) -> Merged {
        let (log, seen) = (logs.of(sequence), logs.seen(sequence).clone());
        Merged { merged: log.merged(), closed: log.closed(), collected: log.collected(), seen }
    }
}

/// A partition: where it and its tables are homed, and how far its log is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Copied {
    pub rest: Resided,
    pub tables: Vec<(TableId, Resided)>,
    pub position: LogPosition,
    pub rank_max: Rank,
}

impl Copied {
    /// The same where regions have left the cluster; see [`Resided::inherited`].
    pub fn inherited(self, heir: &impl Fn(RegionId) -> Option<RegionId>) -> Copied {
        let table = |(id, known): (TableId, Resided)| (id, known.inherited(heir));
        Copied {
            rest: self.rest.inherited(heir),
            tables: self.tables.into_iter().map(table).collect(),
            ..self
        }
    }
}

/// A transaction.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Vertex {
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
    pub(super) fn merged_image(&self) -> Image {
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
}

/// The graph of an image's vertices, at the node that takes it over.
pub(super) fn restored(vertices: Vec<Vertex>, cluster: &Cluster) -> Graph {
    let mut graph = Graph::default();
    for vertex in &vertices {
        graph.insert(vertex.id, Participants::of(vertex.transaction.participants()));
    }
    let ids: BTreeMap<TxnId, Ref> = graph.iter().map(|(at, vertex)| (vertex.id, at)).collect();
    let at_of = |txn: TxnId| *ids.get(&txn).expect("an image names whom it holds");
    for vertex in vertices {
        let local = vertex.transaction.participants().any(|p| cluster.is_local(p));
        let alone = vertex.transaction.participants().all(|p| cluster.is_local(p));
        let known = graph.live_mut(at_of(vertex.id));
        (known.state, known.bound, known.rank) = (vertex.state, vertex.bound, vertex.rank);
        known.transaction = Some(vertex.transaction);
        known.deps = vertex.deps.into_iter().map(at_of).collect();
        (known.searched, known.turn) = (vertex.searched.restored(&at_of), vertex.turn.restored(&at_of));
        let extra = &mut known.extra;
        (extra.regions, extra.got, extra.collected) = (vertex.regions, vertex.got, vertex.collected);
        (extra.request, extra.stale) = (vertex.request, vertex.stale);
        (extra.local, extra.alone) = (local, alone);
        extra.exchange = vertex.reads.map(|reads| Box::new(Exchange { reads, gathered: true }));
    }
    graph
}
