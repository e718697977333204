//! Read-only replicas of rows (PolarDB-SCC): what a node keeps of partitions that run elsewhere, the questions that its
//! reads share, and at a partition's own node the tracker of what was written where.
//!
//! IN: items and copies from streams; reads of replicas; commit records of this node's partitions. OUT: rows at a cut;
//! questions for several reads at once; positions of the last writers of granules. KEEPS: a replica has applied exactly
//! the records up to its position; a question names all that its reads want, and its answer serves nobody else; a tracker
//! has a record before any reader is told that its partition has closed over it.

use crate::board::Board;
use crate::read::ReadId;
use crate::streams::Feed;
use base::commit::CommitRecord;
use base::order::{Calibration, StreamItem};
use base::topology::Topology;
use base::txn::Granule;
use base::txn::procedure::Procedures;
use base::{LogPosition, NodeId, PartitionId, Rank, Time};
use reads::replica::published::Published;
use reads::replica::tracker::{Memory, Sizes};
use reads::share::{Fetches, Reuse, Stamp};
use rowstore::Store;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Versions removed at most in one maintenance step, per partition.
const COLLECT_VERSIONS_MAX: usize = 20_000;

/// The replicas of one node.
pub struct Replicas {
    copies: BTreeMap<PartitionId, Copy>,
    pub trackers: Trackers,
    collect_below: Rank,
    /// By the partitions that are asked together: a read has one cut.
    pub fetches: Fetches<Vec<PartitionId>, ReadId, ()>,
    rounds: BTreeMap<Stamp, Round>,
    /// A timer is set for reads that wait for too long.
    pub falls_back: bool,
    /// A timer is set, should the answer to the last of these questions be late.
    pub armed: BTreeSet<Vec<PartitionId>>,
    /// Questions sent, shared ones and others, repetitions not counted.
    pub fetches_sent: u64,
    /// Of those, how many what the writer had published answered.
    pub fetches_loaded: u64,
    /// The last one was.
    pub loads: bool,
}

struct Copy {
    store: Store,
    position: LogPosition,
}

/// What a read wants to know of a partition.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// To be closed. Their last writers are asked for, too.
    pub closed: BTreeSet<Granule>,
    /// Entries of indexes, whose last writers are asked for too.
    pub watched: BTreeSet<Granule>,
    /// Of those, what the read itself has to have: of a read through an index its entries, and not the table.
    pub needs: BTreeSet<Granule>,
}

/// A question under way to one or more partitions.
pub struct Round {
    pub partitions: Vec<PartitionId>,
    pub rank: Rank,
    wants: BTreeMap<ReadId, BTreeMap<PartitionId, Wanted>>,
    /// What each partition was asked about, in this order.
    asked: BTreeMap<PartitionId, Vec<Granule>>,
    /// Per partition, the last writers of what was asked for.
    answers: BTreeMap<PartitionId, BTreeMap<Granule, LogPosition>>,
    waited_ns: u64,
}

impl Replicas {
    /// `keeps`: rows are kept of every partition whose stream the node follows from elsewhere.
    pub fn new(
        id: NodeId,
        topology: &Arc<Topology>,
        procedures: &Arc<Procedures>,
        keeps: bool,
        reuse: Reuse,
    ) -> Replicas {
        let followed = topology.nodes[usize::from(id.0)].subscribes.iter().copied();
        let followed = followed.filter(|p| keeps && topology.copy_near(*p, id) != id);
        let copy =
            |p| Copy { store: Store::new(p, topology.clone(), procedures.clone()), position: LogPosition(0) };
        let copies = followed.map(|p| (p, copy(p))).collect();
        let trackers = Trackers::new(topology);
        Replicas { copies, trackers, fetches: Fetches::new(reuse), ..Replicas::none() }
    }

    /// Nothing is followed.
    pub fn none() -> Replicas {
        Replicas {
            copies: BTreeMap::new(),
            trackers: Trackers::default(),
            collect_below: Rank::ZERO,
            fetches: Fetches::new(Reuse::Strict),
            rounds: BTreeMap::new(),
            falls_back: false,
            armed: BTreeSet::new(),
            fetches_sent: 0,
            fetches_loaded: 0,
            loads: false,
        }
    }

    pub fn store(&self, partition: PartitionId) -> Option<&Store> {
        self.copies.get(&partition).map(|copy| &copy.store)
    }
    /// Partitions that are followed.
    pub fn partitions(&self) -> impl Iterator<Item = PartitionId> + '_ {
        self.copies.keys().copied()
    }
    /// Rows kept.
    pub fn rows(&self) -> u64 {
        self.copies.values().map(|copy| copy.store.counters().rows).sum()
    }
    /// Of any partition: a change of the catalog takes part in all.
    pub fn any_store(&self) -> Option<&Store> {
        self.copies.values().next().map(|copy| &copy.store)
    }

    // ---- the log ------------------------------------------------------------------------------------

    /// Takes what a stream brings.
    pub fn take(&mut self, partition: PartitionId, feed: &Feed) {
        let Some(copy) = self.copies.get_mut(&partition) else { return };
        match feed {
            Feed::Item(item) => match &**item {
                // A copy may hold records that follow it on the stream.
                StreamItem::Record(record) if record.position > copy.position => {
                    assert_eq!(record.position, copy.position.next(), "the log of {partition} has a gap");
                    copy.position = record.position;
                    copy.store.follow(record);
                }
                StreamItem::Record(_) | StreamItem::Low(_) | StreamItem::Vertex(_) => {}
            },
            Feed::CopyBegins { position, rank, catalog } => {
                copy.position = *position;
                copy.store.begin_following(catalog, *rank);
            }
            Feed::CopyRows { table, rows } => copy.store.follow_rows(*table, rows),
            Feed::CopyLogged { .. } | Feed::CopyEnds { .. } => {}
        }
    }

    /// Nobody reads below this rank.
    pub fn collect_below(&mut self, below: Rank) {
        self.collect_below = self.collect_below.max(below);
    }
    /// A bounded amount of collection.
    pub fn maintain(&mut self) {
        for copy in self.copies.values_mut() {
            copy.store.collect(self.collect_below, COLLECT_VERSIONS_MAX);
        }
    }
    /// Versions kept.
    pub fn versions(&self) -> u64 {
        self.copies.values().map(|copy| copy.store.counters().versions).sum()
    }

    // ---- questions ----------------------------------------------------------------------------------

    /// A question is sent for those that wait for it. What it asks of each partition.
    pub fn begin_round(
        &mut self,
        sent: Stamp,
        partitions: Vec<PartitionId>,
        rank: Rank,
        wants: BTreeMap<ReadId, BTreeMap<PartitionId, Wanted>>,
    ) -> BTreeMap<PartitionId, Wanted> {
        let mut asks: BTreeMap<PartitionId, Wanted> = BTreeMap::new();
        for (partition, wanted) in wants.values().flatten() {
            let ask = asks.entry(*partition).or_default();
            ask.closed.extend(wanted.closed.iter().cloned());
            ask.watched.extend(wanted.watched.iter().cloned());
        }
        self.fetches_sent += asks.len() as u64;
        let in_order = |(partition, ask): (&PartitionId, &Wanted)| {
            (*partition, ask.closed.iter().chain(&ask.watched).cloned().collect())
        };
        let asked = asks.iter().map(in_order).collect();
        let answers = BTreeMap::new();
        self.rounds.insert(sent, Round { partitions, rank, wants, asked, answers, waited_ns: 0 });
        asks
    }

    /// A partition has answered. The round, once all have.
    pub fn answered(
        &mut self,
        sent: Stamp,
        partition: PartitionId,
        waited_ns: u64,
        positions: Vec<LogPosition>,
    ) -> Option<Round> {
        let round = self.rounds.get_mut(&sent)?;
        let asked = round.asked.remove(&partition)?;
        assert_eq!(asked.len(), positions.len(), "an answer to another question");
        round.answers.insert(partition, asked.into_iter().zip(positions).collect());
        round.waited_ns = round.waited_ns.max(waited_ns);
        if round.answers.len() < round.partitions.len() {
            return None;
        }
        self.rounds.remove(&sent)
    }

    /// It will not be answered, or nobody needs it.
    pub fn end_round(&mut self, sent: Stamp) -> Option<Round> {
        self.rounds.remove(&sent)
    }
}

impl Round {
    pub fn waited_ns(&self) -> u64 {
        self.waited_ns
    }
    /// Up to where each partition's log has to be applied for a read.
    pub fn needs_of(&self, id: ReadId) -> BTreeMap<PartitionId, LogPosition> {
        let last = |partition: &PartitionId| {
            let watched = self.wants.get(&id).and_then(|wants| wants.get(partition));
            let answers = &self.answers[partition];
            let needed = watched.into_iter().flat_map(|wanted| &wanted.needs);
            let positions = needed.filter_map(|granule| answers.get(granule));
            positions.copied().max().unwrap_or(LogPosition(0))
        };
        self.partitions.iter().map(|partition| (*partition, last(partition))).collect()
    }
}

/// What this node's own partitions wrote where; of a partition that no replica has asked about there is nothing.
#[derive(Default)]
pub struct Trackers {
    tracked: BTreeMap<PartitionId, Tracked>,
    /// Where peers may look without asking.
    pub board: Arc<Board>,
    /// Memory of the host, for those of them that run in processes of their own.
    lent: BTreeMap<PartitionId, Arc<dyn Memory>>,
}

struct Tracked {
    published: Published,
    /// Records up to here have been sent to whoever follows the partition.
    sent: LogPosition,
    /// A rank is being closed, to be published.
    is_closing: bool,
    /// When that began the last time.
    closed_at: Time,
}

/// A closed rank that nothing was executed above is published anew this often: a session may have seen more elsewhere.
const PUBLISH_NS: u64 = base::time::MS;

impl Trackers {
    /// Peers may look at partitions that have one copy: answers of another copy may be ahead of this one.
    fn new(topology: &Topology) -> Trackers {
        let count = if topology.is_replicated() { 0 } else { topology.partitions.len() };
        Trackers { board: Arc::new(Board::new(count)), ..Trackers::default() }
    }

    /// Partitions publish in this memory, from when replicas ask them.
    pub fn publish_in(&mut self, lent: BTreeMap<PartitionId, Arc<dyn Memory>>) {
        // Where there is no board nobody may look.
        if !self.board.is_empty() {
            self.lent = lent;
        }
    }

    pub fn is_tracked(&self, partition: PartitionId) -> bool {
        self.tracked.contains_key(&partition)
    }

    /// A record goes out; `store` has applied it.
    pub fn record(&mut self, record: &CommitRecord, store: &Store) {
        let Some(Tracked { published, .. }) = self.tracked.get_mut(&record.partition) else { return };
        let tracker = published.tracker_mut();
        if record.schema.is_some() {
            tracker.modified_all(record.position);
        }
        for write in &record.writes {
            tracker.modified(write.table, &write.key, record.position);
        }
        store.entries_of(record, &mut |index, entry| tracker.modified(index, entry, record.position));
        tracker.publish(record.position);
        published.executed(record.rank);
    }

    /// All streams have been sent as far as they go.
    pub fn all_sent(&mut self) {
        self.tracked.values_mut().for_each(|tracked| tracked.sent = tracked.published.tracker().published());
    }
    /// Whether a record has been sent. (It may have been lost, and will be sent again.)
    pub fn is_sent(&self, partition: PartitionId, position: LogPosition) -> bool {
        self.tracked.get(&partition).is_some_and(|tracked| position <= tracked.sent)
    }

    /// The last records that may have written these granules; `end`: how far the partition has executed.
    pub fn last_writers(
        &mut self,
        partition: PartitionId,
        sizes: Sizes,
        end: Calibration,
        watched: &[Granule],
    ) -> Vec<LogPosition> {
        let (board, lent) = (&self.board, self.lent.get(&partition));
        let begin = || {
            let mut published = match lent {
                Some(memory) => Published::lent(memory.clone(), sizes, end.position),
                None => Published::new(sizes, end.position),
            };
            published.executed(end.rank);
            board.put(partition, &published);
            if let (Some(memory), Some(life)) = (lent, board.life()) {
                memory.begin(life.0.0);
            }
            Tracked { published, sent: LogPosition(0), is_closing: false, closed_at: Time::ZERO }
        };
        let tracker = self.tracked.entry(partition).or_insert_with(begin).published.tracker();
        watched.iter().map(|granule| tracker.of(granule).min(end.position)).collect()
    }

    // ---- what is published --------------------------------------------------------------------------

    /// A partition that is to close a rank for whoever looks, as it has executed something since it did, or did so long ago.
    pub fn next_to_close(&mut self, now: Time) -> Option<PartitionId> {
        if self.board.is_empty() {
            return None;
        }
        let is_due = |tracked: &Tracked| {
            !tracked.is_closing
                && tracked.closed_at < now
                && (!tracked.published.is_closed() || tracked.closed_at + PUBLISH_NS <= now)
        };
        let (partition, tracked) = self.tracked.iter_mut().find(|(_, tracked)| is_due(tracked))?;
        (tracked.is_closing, tracked.closed_at) = (true, now);
        Some(*partition)
    }
    /// Everything at or below this rank is in the log and in the tracker.
    pub fn closed(&mut self, partition: PartitionId, rank: Rank) {
        if let Some(tracked) = self.tracked.get_mut(&partition) {
            tracked.published.close(rank);
        }
    }
    /// What was to be closed is, or will not be.
    pub fn end_closing(&mut self, partition: PartitionId) {
        if let Some(tracked) = self.tracked.get_mut(&partition) {
            tracked.is_closing = false;
        }
    }
}
