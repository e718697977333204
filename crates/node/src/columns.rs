//! The column copies that a node keeps, and its dependency manager beside them.
//!
//! IN: items and copies from streams, announcements of other partitions, what is collected. OUT: immutable columns at a
//! cut; how far each copy is ([`Here`]). KEEPS: a copy that is arriving is not read, nor one below the rank at which it
//! was taken; what is merged is not older than what was collected.

use crate::data::Data;
use crate::message::ScanPart;
use crate::node::Options;
use crate::printed::PrintedCopy;
use crate::streams::{self, Feed};
use base::order::StreamItem;
use base::schema::Catalog;
use base::topology::Topology;
use base::{Cut, LogPosition, NodeId, PartitionId, Rank, SqlError, TableId, Time};
use colstore::{ColumnStore, MergeJob, MergedSegment, TableSnapshot};
use reads::estimate::DelayEstimates;
use reads::graph::DependencyGraph;
use reads::rule::View;
use reads::rule::perseus::Issued;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// What this node's analytics know.
pub struct Columns {
    store: ColumnStore,
    graph: DependencyGraph,
    low: BTreeMap<PartitionId, Rank>,
    /// What partitions whose columns are not kept here announced, if the protocol of reading needs it.
    heard: BTreeMap<PartitionId, Rank>,
    /// What sets handed out here have held.
    issued: BTreeMap<PartitionId, Issued>,
    /// Where a copy's history begins, if that is not the log's beginning.
    begins_at: BTreeMap<PartitionId, Rank>,
    delays: DelayEstimates,
    /// A copy of these partitions is arriving; nothing of them can be read.
    arriving: BTreeSet<PartitionId>,
    /// Partitions whose columns take several steps: what was streamed since that began.
    filling: BTreeMap<PartitionId, Filling>,
    /// Rows that are applied in one step at most, of what waits for a copy; and of one record, likewise.
    rows_a_step: usize,
    record_rows_a_step: usize,
    /// The storage of the printed protocol, in clusters that run it.
    printed: Option<PrintedCopy>,
    collected_below: Rank,
    /// A merge is being computed.
    merging: bool,
}

/// What waits for columns that are being filled from this node's rows, or that take a large record in steps.
#[derive(Default)]
struct Filling {
    items: VecDeque<StreamItem>,
    /// Rows of the first item that are applied.
    applied: usize,
    /// The rows are there, so that these may follow.
    is_ready: bool,
}

/// What is here, as rules of reading see it.
pub struct Here<'a> {
    pub columns: &'a Columns,
    pub data: &'a Data,
    /// See [`View::least_cut`].
    pub least_cut: Rank,
}

impl Columns {
    /// `hears_of_all`: partitions announce how far they are to nodes that do not follow them, too.
    pub fn new(id: NodeId, topology: &Topology, options: &Options, hears_of_all: bool) -> Columns {
        let subscribes = &topology.nodes[usize::from(id.0)].subscribes;
        let store = ColumnStore::with_options(
            subscribes.iter().copied(),
            Arc::default(),
            colstore::Options { follows_only: !options.kept.columns, ..colstore::Options::default() },
        );
        let others = topology.partition_ids().filter(|p| hears_of_all && !subscribes.contains(p));
        let nominal_ns =
            topology.partition_ids().map(|p| (p, topology.one_way_ns(topology.copy_near(p, id), id)));
        Columns {
            store,
            graph: DependencyGraph::default(),
            low: BTreeMap::new(),
            heard: others.map(|p| (p, Rank::ZERO)).collect(),
            issued: BTreeMap::new(),
            begins_at: BTreeMap::new(),
            delays: DelayEstimates::new(nominal_ns),
            arriving: BTreeSet::new(),
            filling: BTreeMap::new(),
            rows_a_step: options.steps.keys,
            record_rows_a_step: usize::try_from(options.steps.units).unwrap_or(usize::MAX),
            printed: options.printed.map(|p| PrintedCopy::new(p, subscribes)),
            collected_below: Rank::ZERO,
            merging: false,
        }
    }

    pub fn store(&self) -> &ColumnStore {
        &self.store
    }
    pub fn graph(&self) -> &DependencyGraph {
        &self.graph
    }
    /// Everything at or below it is here; `None`: nothing is known of a copy that has not arrived.
    pub fn complete(&self, partition: PartitionId) -> Option<Rank> {
        self.low.get(&partition).copied()
    }
    pub fn collected_below(&self) -> Rank {
        self.collected_below
    }

    // ---- streams ----------------------------------------------------------------------------------

    /// Announcements of partitions whose columns are not kept here.
    pub fn hear(&mut self, ranks: &[(PartitionId, Rank)]) {
        for (partition, rank) in ranks {
            if let Some(heard) = self.heard.get_mut(partition) {
                *heard = (*heard).max(*rank);
            }
        }
    }

    pub fn receive(&mut self, now: Time, partition: PartitionId, item: &StreamItem) {
        self.graph.receive(now, partition, item);
        let takes_steps = self.takes_steps(item);
        match self.filling.get_mut(&partition) {
            Some(waiting) => waiting.items.push_back(item.clone()),
            None if takes_steps => {
                base::sometimes!("columns take a large record in steps");
                if self.graph.vertex_count() > 0 {
                    // The graph names the record before its rows are here.
                    self.arriving.insert(partition);
                }
                let items = VecDeque::from([item.clone()]);
                self.filling.insert(partition, Filling { items, applied: 0, is_ready: true });
            }
            None => self.apply(now, partition, item),
        }
    }

    fn takes_steps(&self, item: &StreamItem) -> bool {
        match item {
            StreamItem::Record(record) => {
                record.writes.len() > self.record_rows_a_step
                    && record.schema.is_none()
                    && self.printed.is_none()
            }
            _ => false,
        }
    }
    /// Whether something waits to be applied ([`Columns::catch_up`]).
    pub fn is_behind(&self, partition: PartitionId) -> bool {
        self.filling.get(&partition).is_some_and(|filling| filling.is_ready)
    }

    fn apply(&mut self, now: Time, partition: PartitionId, item: &StreamItem) {
        match item {
            StreamItem::Record(record) => {
                if let Some(printed) = &mut self.printed {
                    printed.receive(now, record);
                }
                self.store.apply(record);
            }
            StreamItem::Low(rank) => {
                let low = self.low.entry(partition).or_default();
                *low = (*low).max(*rank);
            }
            StreamItem::Vertex(_) => {}
        }
    }

    /// A partition's columns are filled from its rows here: a copy begins. What is streamed from now on comes after it.
    pub fn begin_filling(&mut self, now: Time, partition: PartitionId, head: &[Feed]) {
        self.filling.remove(&partition);
        head.iter().for_each(|feed| _ = self.take(now, partition, feed));
        self.graph.settle();
        self.filling.insert(partition, Filling::default());
    }
    /// The copy is complete up to `low`; what was streamed since follows.
    pub fn filled(&mut self, partition: PartitionId, low: Rank) {
        if let Some(waiting) = self.filling.get_mut(&partition) {
            waiting.items.push_front(StreamItem::Low(low));
            waiting.is_ready = true;
        }
    }
    /// Applies some of what was streamed meanwhile. Whether that was all: then the columns can be read.
    pub fn catch_up(&mut self, now: Time, partition: PartitionId) -> bool {
        let mut rows = 0;
        while rows < self.rows_a_step {
            let Some(filling) = self.filling.get_mut(&partition) else { return true };
            if !filling.is_ready {
                return true; // Another copy has begun.
            }
            let Some(item) = filling.items.pop_front() else {
                self.filling.remove(&partition);
                self.arriving.remove(&partition);
                return true;
            };
            if !self.takes_steps(&item) {
                rows += streams::weight(&item);
                self.apply(now, partition, &item);
                continue;
            }
            let StreamItem::Record(record) = &item else { unreachable!("only records take steps") };
            let filling = self.filling.get_mut(&partition).expect("just seen");
            let applied = self.store.apply_some(record, filling.applied, self.record_rows_a_step);
            rows += applied - filling.applied;
            filling.applied = applied % record.writes.len();
            if filling.applied > 0 {
                filling.items.push_front(item);
            }
        }
        false
    }

    /// What is here of a partition is void until a copy of it has arrived.
    pub fn forget(&mut self, partition: PartitionId) {
        self.arriving.insert(partition);
        self.filling.remove(&partition);
        self.low.remove(&partition);
        self.graph.forget_log(partition);
    }

    /// Takes what a stream brings. False: the copy that ends here is too old to be used.
    pub fn take(&mut self, now: Time, partition: PartitionId, feed: &Feed) -> bool {
        match feed {
            Feed::Item(item) => self.receive(now, partition, item),
            Feed::CopyBegins { position, rank, catalog } => {
                self.forget(partition);
                self.begins_at.insert(partition, *rank);
                self.store.begin_copy(partition, *position, *rank, catalog);
            }
            Feed::CopyRows { table, rows } => self.store.copy_rows(partition, *table, rows),
            Feed::CopyLogged { position, txn, rank } => {
                self.graph.logged(now, partition, *position, *txn, *rank);
            }
            Feed::CopyEnds { low } => {
                if *low < self.collected_below {
                    base::sometimes!("a copy is too old when it arrives");
                    return false;
                }
                self.arriving.remove(&partition);
                self.low.insert(partition, *low);
                self.graph.settle();
            }
        }
        true
    }

    // ---- how long messages take -------------------------------------------------------------------

    pub fn round_trip(&mut self, partition: PartitionId, ns: u64) {
        self.delays.round_trip(partition, ns);
    }
    pub fn one_way_ns(&self, partition: PartitionId) -> u64 {
        self.delays.one_way_ns(partition)
    }

    // ---- reading ----------------------------------------------------------------------------------

    /// Immutable columns of tables at a cut that is readable here, and the catalog there. `to_merge`: see
    /// [`reads::rule::Rule::to_merge`].
    #[allow(clippy::type_complexity)]
    pub fn snapshot(
        &mut self,
        cut: &Cut,
        tables: &BTreeMap<TableId, BTreeSet<PartitionId>>,
        to_merge: Option<&BTreeSet<(PartitionId, LogPosition)>>,
    ) -> Result<(BTreeMap<TableId, Arc<TableSnapshot>>, Arc<Catalog>), SqlError> {
        if let Cut::Set(set) = cut {
            for partition in set.above.keys() {
                self.issued.entry(*partition).or_default().take(*partition, set, &self.graph);
            }
        }
        let store = match (to_merge, &mut self.printed) {
            (Some(named), Some(printed)) => {
                printed.merge(named);
                &mut printed.store
            }
            _ => &mut self.store,
        };
        let tables = tables.iter().map(|(&table, partitions)| {
            store.snapshot(cut, table, partitions).map(|snapshot| (table, Arc::new(snapshot)))
        });
        let tables = tables.collect::<Result<_, _>>()?;
        Ok((tables, store.catalog_at(cut)?))
    }

    /// Immutable columns of a part of another node's query, and the catalog at its cut.
    #[allow(clippy::type_complexity)]
    pub fn part(
        &mut self,
        cut: &Cut,
        part: &ScanPart,
    ) -> Result<(Arc<Catalog>, BTreeMap<TableId, TableSnapshot>), SqlError> {
        let catalog = self.store.catalog_at(cut)?;
        let tables = part.tables.iter();
        let tables = tables.map(|(id, of)| Ok((*id, self.store.snapshot(cut, *id, &of.partitions)?)));
        Ok((catalog, tables.collect::<Result<_, SqlError>>()?))
    }

    // ---- collection -------------------------------------------------------------------------------

    /// Nobody reads at or below `below`; `spared`: so far old versions of rows may go.
    pub fn collect(&mut self, below: Rank, spared: Rank) {
        self.collected_below = self.collected_below.max(spared);
        self.graph.collect(below);
    }

    /// The next merge that is worth doing, to be computed elsewhere; one at a time.
    pub fn next_merge(&mut self, rows_max: usize) -> Option<MergeJob> {
        if self.merging {
            return None;
        }
        let job = self.store.plan_merge(rows_max, self.collected_below)?;
        self.merging = true;
        Some(job)
    }

    pub fn merged(&mut self, merged: MergedSegment) {
        self.store.install(merged);
        self.merging = false;
    }
}

impl View for Here<'_> {
    fn applied(&self, partition: PartitionId) -> LogPosition {
        match self.columns.arriving.contains(&partition) {
            true => LogPosition(0),
            false => self.columns.store.applied(partition).0,
        }
    }
    fn newest(&self, partition: PartitionId) -> Rank {
        self.columns.store.applied(partition).1
    }
    fn low(&self, partition: PartitionId) -> Rank {
        self.columns.low.get(&partition).copied().unwrap_or_default()
    }
    fn graph(&self) -> &DependencyGraph {
        &self.columns.graph
    }
    fn safe(&self) -> Rank {
        // Of partitions with columns here, what the stream said: then everything below has arrived.
        let subscribed = self.columns.store.partitions().map(|p| self.low(p));
        subscribed.chain(self.columns.heard.values().copied()).min().unwrap_or_default()
    }
    fn was_issued(&self, partition: PartitionId, position: LogPosition, rank: Rank) -> bool {
        self.columns.issued.get(&partition).is_some_and(|issued| issued.holds(position, rank))
    }
    fn eta(&self, partition: PartitionId, since: Time, exchanges: bool) -> Time {
        self.columns.delays.eta(partition, since, exchanges)
    }
    fn unmerged(&self, partition: PartitionId) -> Vec<(LogPosition, Time)> {
        self.columns.printed.as_ref().map_or(Vec::new(), |printed| printed.unmerged(partition))
    }
    fn begins_at(&self, partition: PartitionId) -> Rank {
        self.columns.begins_at.get(&partition).copied().unwrap_or_default()
    }
    fn collected_below(&self) -> Rank {
        self.columns.collected_below
    }
    fn complete(&self, partition: PartitionId) -> Option<Rank> {
        self.columns.complete(partition)
    }
    fn changed_above(&self, rank: Rank, is_read: &dyn Fn(TableId) -> bool) -> Option<Rank> {
        let changed =
            [self.data.changed_above(rank, is_read), self.columns.store.changed_above(rank, is_read)];
        changed.into_iter().flatten().max()
    }
    fn least_cut(&self) -> Rank {
        self.least_cut
    }
}
