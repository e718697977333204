//! All that a copy's merger and scheduler go on from, as another node can take it over.
//!
//! KEEPS: an image is taken between two events, so it stands where a merger stood: it is what follows from the
//! first `merged` entries of each sequence, and nothing else. Whoever takes it over and goes on with the entries
//! behind those gives the same transactions the same places and ranks. What belongs to a node itself is not in it:
//! what its gateway has under way, what it leads, its readers, its promises.

use super::homes::{Era, Residence};
use super::merger::cut_of;
use super::requests::Kept;
use super::sequence::Sequence;
use super::state::{Caerus, Exchange, Group, Work};
use crate::graph::conflict::{self, ConflictIndex, Flaws};
use crate::graph::participants::Participants;
use crate::graph::seen::Seen;
use crate::graph::vertex::{Ref, State, Vertices};
use base::txn::{ClientRequest, Gathered, Home, Transaction};
use base::{LogPosition, PartitionId, Rank, TableId, TxnId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Image {
    sequences: Vec<Merged>,
    partitions: Vec<Copied>,
    vertices: Vec<Vertex>,
    groups: Vec<(u32, Vec<TxnId>, u64)>,
    groups_made: u32,
    requests: Vec<Kept>,
    watermark: Rank,
    given_up: Rank,
}

/// A sequence, as far as it is merged.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Merged {
    pub merged: u64,
    pub low: Rank,
    pub collected: Rank,
    pub seen: Seen,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Copied {
    rest: Resided,
    tables: Vec<(TableId, Resided)>,
    position: LogPosition,
    rank_max: Rank,
}

/// Where something is homed, and who touched it last in each of its homes.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Resided {
    home: Option<Home>,
    moved_at: Rank,
    eras: Vec<(Home, conflict::Image, BTreeSet<TableId>)>,
    reached: u32,
}

impl Resided {
    fn of(known: &Residence, id_of: &impl Fn(Ref) -> Option<TxnId>) -> Resided {
        let eras = known.eras.iter().map(|era| (era.home, era.index.image(id_of), era.left.clone()));
        let Residence { home, moved_at, reached, .. } = *known;
        Resided { home, moved_at, eras: eras.collect(), reached }
    }
    fn restored(self, flaws: Flaws, at_of: &impl Fn(TxnId) -> Ref) -> Residence {
        let Resided { home, moved_at, eras, reached } = self;
        let era =
            |(home, index, left)| Era { home, index: ConflictIndex::restored(index, flaws, at_of), left };
        Residence { home, moved_at, eras: eras.into_iter().map(era).collect(), reached }
    }
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
    watchers: Vec<TxnId>,
    blocked_on: Option<TxnId>,
    waits: u32,
    dependents: Vec<TxnId>,
    followers: Vec<TxnId>,
    group: Option<u32>,
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
        let graph = &self.graph;
        let id_of = |at: Ref| graph.get(at).map(|vertex| vertex.id);
        let ids = |refs: &[Ref]| -> Vec<TxnId> { refs.iter().filter_map(|at| id_of(*at)).collect() };
        let vertex = |(_, vertex): (Ref, &crate::graph::vertex::Vertex<super::state::Extra>)| {
            let has_executed = vertex.state >= State::Executed;
            let exchange = vertex.extra.exchange.as_ref().filter(|_| has_executed);
            Vertex {
                id: vertex.id,
                transaction: vertex.transaction.clone().expect("entries carry whole transactions"),
                request: vertex.extra.request,
                state: vertex.state,
                bound: vertex.bound,
                rank: vertex.rank,
                deps: ids(&vertex.deps),
                watchers: ids(&vertex.watchers),
                blocked_on: vertex.blocked_on.and_then(id_of),
                waits: vertex.waits,
                dependents: ids(&vertex.dependents),
                followers: ids(&vertex.followers),
                group: vertex.group,
                regions: vertex.extra.regions,
                got: vertex.extra.got,
                collected: vertex.extra.collected,
                stale: vertex.extra.stale,
                reads: exchange.map(|exchange| exchange.reads.clone()),
            }
        };
        let copied = |partition: &super::state::Partition| Copied {
            rest: Resided::of(&partition.rest, &id_of),
            tables: partition.tables.iter().map(|(id, known)| (*id, Resided::of(known, &id_of))).collect(),
            position: partition.position,
            rank_max: partition.rank_max,
        };
        let groups = self.groups.iter();
        Image {
            sequences: self.sequences.iter().map(Sequence::image).collect(),
            partitions: self.partitions.iter().map(copied).collect(),
            vertices: graph.iter().map(vertex).collect(),
            groups: groups.map(|(n, group)| (*n, ids(&group.members), group.unexecuted as u64)).collect(),
            groups_made: self.groups_made,
            requests: self.requests.image(),
            watermark: self.watermark,
            given_up: self.given_up,
        }
    }

    /// Stands where the image's node stood. This one must have merged nothing, and must be of the same cluster.
    pub(super) fn take_over(&mut self, image: Image) {
        assert!(self.graph.is_empty() && self.pending.is_empty(), "a copy is taken over by who has nothing");
        for (known, merged) in self.sequences.iter_mut().zip(image.sequences) {
            known.take_over(merged);
        }
        let mut graph: Vertices<super::state::Extra> = Vertices::default();
        for vertex in &image.vertices {
            graph.insert(vertex.id, Participants::of(vertex.transaction.participants()));
        }
        let at_of = |txn: TxnId| graph.find(txn).expect("an image names whom it holds");
        let refs = |ids: &[TxnId]| -> Vec<Ref> { ids.iter().map(|txn| at_of(*txn)).collect() };
        let flaws = self.flaws();
        for (known, copied) in self.partitions.iter_mut().zip(image.partitions) {
            let table = |(id, known): (TableId, Resided)| (id, known.restored(flaws, &at_of));
            known.rest = copied.rest.restored(flaws, &at_of);
            known.tables = copied.tables.into_iter().map(table).collect();
            (known.position, known.rank_max) = (copied.position, copied.rank_max);
        }
        let group = |(n, members, unexecuted): (u32, Vec<TxnId>, u64)| {
            (n, Group { members: refs(&members), unexecuted: unexecuted as usize })
        };
        self.groups = image.groups.into_iter().map(group).collect();
        self.groups_made = image.groups_made;

        let linked: Vec<_> = image
            .vertices
            .iter()
            .map(|vertex| {
                let blocked_on = vertex.blocked_on.map(at_of);
                let all = [&vertex.deps, &vertex.watchers, &vertex.dependents, &vertex.followers];
                (at_of(vertex.id), all.map(|ids| refs(ids)), blocked_on)
            })
            .collect();
        for (vertex, (at, [deps, watchers, dependents, followers], blocked_on)) in
            image.vertices.into_iter().zip(linked)
        {
            if vertex.state < State::Emitted {
                self.unordered += 1;
                deps.iter().for_each(|to| graph.live_mut(*to).extra.holders += 1);
            }
            let local = vertex.transaction.participants().any(|p| self.partition(p).local);
            let alone = vertex.transaction.participants().all(|p| self.partition(p).local);
            if local && vertex.state < State::Executed {
                self.pending.insert((vertex.bound, at.slot));
                if let Some(read_at) = cut_of(&vertex.transaction) {
                    self.read_below.insert((read_at, at.slot));
                }
                if vertex.state == State::Emitted && vertex.waits == 0 {
                    // Its node waited for reads of others in its region; here they are read anew.
                    self.work.push_back(Work::Execute(at));
                }
            }
            if vertex.state == State::Done {
                self.kept.insert((vertex.rank.expect("whoever is done has a rank"), at.slot));
            }
            let known = graph.live_mut(at);
            (known.state, known.bound, known.rank) = (vertex.state, vertex.bound, vertex.rank);
            known.transaction = Some(vertex.transaction);
            (known.deps, known.watchers) = (deps.into(), watchers.into());
            (known.dependents, known.followers) = (dependents.into(), followers.into());
            (known.blocked_on, known.waits, known.group) = (blocked_on, vertex.waits, vertex.group);
            let extra = &mut known.extra;
            (extra.regions, extra.got, extra.collected) = (vertex.regions, vertex.got, vertex.collected);
            (extra.request, extra.stale) = (vertex.request, vertex.stale);
            (extra.local, extra.alone) = (local, alone);
            extra.exchange = vertex.reads.map(|reads| Box::new(Exchange { reads, gathered: true }));
        }
        self.graph = graph;
        self.requests.take_over(image.requests);
        self.watermark = self.watermark.max(image.watermark);
        self.given_up = image.given_up;
    }

    /// Forgets what was merged or taken over.
    pub(super) fn forget_merged(&mut self) {
        self.graph = Vertices::default();
        (self.pending, self.kept, self.read_below) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        (self.groups, self.unordered) = (BTreeMap::new(), 0);
        self.work.clear();
        self.requests = Default::default();
    }
}
