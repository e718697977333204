//! The column copy of one node.
//!
//! IN: commit records of the partitions it subscribes to, each partition's in log order; what the host
//! knows to be collected. OUT: snapshots; merge jobs.
//! KEEPS: per partition everything up to `applied` and nothing after it; for every cut that is not
//! older than what was collected, exactly the versions that the cut sees.
//!
//! Requirements on the host: before it takes a snapshot at a cut, all records in the cut have been applied
//! for what the query reads; the cut holds everything up to its rank or base, and a set holds, with a
//! transaction, whatever wrote the same rows before it; and a rank is passed as `collected_below` only if every
//! cut still to be read includes everything at or below it.

use crate::Options;
use crate::merge::{MergeJob, MergedSegment};
use crate::shard::Shard;
use crate::snapshot::TableSnapshot;
use crate::version::{Edge, Mark};
use base::commit::CommitRecord;
use base::error::{SqlError, SqlResult, SqlState};
use base::schema::{Catalog, SchemaAction, stale_schema};
use base::{Cut, LogPosition, PartitionId, Rank, TableId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Columns of some partitions of every table, with their history down to the collection watermark.
#[derive(Debug)]
pub struct ColumnStore {
    pub(crate) options: Options,
    /// Catalogs with the rank of the change that made them, oldest first. The same at all partitions.
    pub(crate) catalogs: Vec<(Rank, Arc<Catalog>)>,
    /// Versions of the catalog whose content or rank is only known roughly; see [`crate::copy`].
    pub(crate) assumed: BTreeSet<u64>,
    pub(crate) partitions: BTreeMap<PartitionId, Stream>,
    pub(crate) shards: BTreeMap<(TableId, PartitionId), Shard>,
    /// Dropped tables, kept until no cut can see them.
    dropped: BTreeMap<TableId, Rank>,
    collected_below: Rank,
    /// Where the next search for work begins, so that every shard gets its turn.
    next_merge: Option<(TableId, PartitionId)>,
}

/// How far one partition's log has come.
#[derive(Debug)]
pub(crate) struct Stream {
    pub position: LogPosition,
    pub rank: Rank,
    /// Catalog versions with the position from which on they hold, oldest first.
    pub catalogs: Vec<(LogPosition, u64)>,
    /// Largest rank in the copy from which this one began: cuts that do not hold everything up to there cannot
    /// be read.
    pub begins: Rank,
}

/// Figures of a [`ColumnStore`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStatus {
    /// Versions that have not been overwritten or deleted.
    pub rows: usize,
    pub versions: usize,
    pub delta_rows: usize,
    pub segments: usize,
    pub bytes: usize,
}

impl ColumnStore {
    /// An empty copy of these partitions, starting from this catalog.
    pub fn new(partitions: impl IntoIterator<Item = PartitionId>, catalog: Arc<Catalog>) -> ColumnStore {
        ColumnStore::with_options(partitions, catalog, Options::default())
    }

    /// Tests choose small sizes, so that everything overflows soon.
    pub fn with_options(
        partitions: impl IntoIterator<Item = PartitionId>,
        catalog: Arc<Catalog>,
        options: Options,
    ) -> ColumnStore {
        options.check();
        let stream = || Stream {
            position: LogPosition(0),
            rank: Rank::ZERO,
            catalogs: vec![(LogPosition(0), catalog.version)],
            begins: Rank::ZERO,
        };
        ColumnStore {
            options,
            partitions: partitions.into_iter().map(|p| (p, stream())).collect(),
            catalogs: vec![(Rank::ZERO, catalog)],
            assumed: BTreeSet::new(),
            shards: BTreeMap::new(),
            dropped: BTreeMap::new(),
            collected_below: Rank::ZERO,
            next_merge: None,
        }
    }

    /// Takes the next record of its partition; one that was taken already is ignored.
    pub fn apply(&mut self, record: &CommitRecord) {
        let partition = record.partition;
        let stream =
            self.partitions.get_mut(&partition).unwrap_or_else(|| panic!("{partition} is not subscribed to"));
        if record.position <= stream.position {
            return;
        }
        assert_eq!(record.position, stream.position.next(), "the log of {partition} has a gap");
        stream.position = record.position;
        stream.rank = stream.rank.max(record.rank);
        if record.schema.is_some() {
            self.change_catalog(record);
        }
        self.write(record, 0, record.writes.len());
    }

    /// The next record of a partition's log, in steps: takes `rows_max` rows at most behind the first `from`, and answers
    /// how many it has of it. It counts as applied with the last one; until then no cut that includes it can be read.
    /// A record that changes the catalog is applied in one step.
    pub fn apply_some(&mut self, record: &CommitRecord, from: usize, rows_max: usize) -> usize {
        let count = record.writes.len();
        let to = count.min(from.saturating_add(rows_max));
        let is_old = record.position <= self.applied(record.partition).0;
        if is_old || from == 0 && to == count || record.schema.is_some() {
            self.apply(record);
            return count;
        }
        self.write(record, from, to);
        if to == count {
            let stream = self.partitions.get_mut(&record.partition).expect("its rows were written");
            assert_eq!(record.position, stream.position.next(), "the log of {} has a gap", record.partition);
            stream.position = record.position;
            stream.rank = stream.rank.max(record.rank);
        }
        to
    }

    /// Writes some of a record's rows.
    fn write(&mut self, record: &CommitRecord, from: usize, to: usize) {
        if from == to || self.options.follows_only {
            return;
        }
        let partition = record.partition;
        let at = Mark { rank: record.rank, position: record.position };
        let version = self.partitions[&partition].catalogs.last().expect("never empty").1;
        let catalog = &self.catalogs[self.nth_catalog(version)].1;
        for write in &record.writes[from..to] {
            let table = catalog.table(write.table).unwrap_or_else(|| {
                panic!("{partition} at {} writes to {}, which does not exist", record.position, write.table)
            });
            let shard = self
                .shards
                .entry((write.table, partition))
                .or_insert_with(|| Shard::new(partition, &self.options));
            shard.write(table, write, at);
        }
    }

    fn change_catalog(&mut self, record: &CommitRecord) {
        let change = record.schema.as_ref().expect("the caller looked");
        let stream = self.partitions.get_mut(&record.partition).expect("the caller looked");
        let version = stream.catalogs.last().expect("never empty").1 + 1;
        stream.catalogs.push((record.position, version));
        let newest = &self.catalogs.last().expect("never empty").1;
        if version <= newest.version {
            let nth = self.nth_catalog(version);
            if self.assumed.contains(&version) {
                return self.learn_catalog(record, version);
            }
            assert_eq!(self.catalogs[nth].0, record.rank, "partitions disagree on catalog {version}");
            return;
        }
        let mut next = Catalog::clone(newest);
        next.apply(change).expect("a change in the log was found applicable by every partition");
        for action in &change.actions {
            if let SchemaAction::DropTable(table) = action {
                self.dropped.insert(*table, record.rank);
            }
        }
        self.catalogs.push((record.rank, Arc::new(next)));
        self.precede(self.catalogs.len() - 1);
    }

    pub(crate) fn nth_catalog(&self, version: u64) -> usize {
        (version - self.catalogs[0].1.version) as usize
    }

    /// Position and largest rank applied from a partition.
    pub fn applied(&self, partition: PartitionId) -> (LogPosition, Rank) {
        let stream = &self.partitions[&partition];
        (stream.position, stream.rank)
    }

    pub fn partitions(&self) -> impl Iterator<Item = PartitionId> + '_ {
        self.partitions.keys().copied()
    }

    /// The rank of the last change of any of these tables, as they are in the newest catalog here, if it is above
    /// this one.
    pub fn changed_above(&self, rank: Rank, is_wanted: impl Fn(TableId) -> bool) -> Option<Rank> {
        let newest = &self.catalogs.last().expect("never empty").1;
        let later = self.catalogs.windows(2).rev().take_while(|pair| pair[1].0 > rank);
        let last = { later }.find(|pair| newest.has_changed_since(&pair[0].1, &is_wanted));
        last.map(|pair| pair[1].0)
    }

    /// The catalog at a cut.
    pub fn catalog_at(&self, cut: &Cut) -> SqlResult<Arc<Catalog>> {
        let at = |rank: Rank| self.catalogs.partition_point(|(since, _)| *since <= rank).max(1) - 1;
        let nth = match cut {
            Cut::Rank(t) => at(*t),
            Cut::Set(set) => {
                // A closed cut holds a change at all of its partitions or at none.
                let changes = set.above.iter().flat_map(|(partition, positions)| {
                    let known = self.partitions.get(partition).into_iter().flat_map(|s| &s.catalogs);
                    known.filter(|(since, _)| positions.contains(since)).map(|(_, version)| *version)
                });
                changes.map(|version| self.nth_catalog(version)).max().unwrap_or(0).max(at(set.base))
            }
            Cut::Epoch(_) => return Err(SqlError::unsupported("reading columns at an epoch")),
        };
        Ok(self.catalogs[nth].1.clone())
    }

    /// One table at a cut over some partitions. Of a replicated table, every partition has a full copy:
    /// name one. Fails as a stale plan does if the table does not exist at the cut, with 72000 if the cut is
    /// older than what was collected. Cheap: pieces are shared, only the open end of the delta (fewer
    /// than `chunk_rows` rows) is copied, and only if it has grown since the last snapshot.
    pub fn snapshot(
        &mut self,
        cut: &Cut,
        table: TableId,
        partitions: &BTreeSet<PartitionId>,
    ) -> SqlResult<TableSnapshot> {
        if self.options.follows_only {
            return Err(SqlError::unsupported("a query at a node that keeps no columns,")
                .hint("Connect to a node that keeps columns of the table."));
        }
        let catalog = self.catalog_at(cut)?;
        let base = match cut {
            Cut::Rank(t) => *t,
            Cut::Set(set) => set.base,
            Cut::Epoch(_) => unreachable!("catalog_at refused it"),
        };
        // What was collected, or copied, cannot be told apart any more: all of it is in, or nothing is read.
        let begins = partitions.iter().filter_map(|p| self.partitions.get(p)).map(|s| s.begins).max();
        let oldest = begins.unwrap_or_default().max(self.collected_below);
        if base < oldest {
            return Err(too_old(oldest));
        }
        let Some(table) = catalog.table(table) else {
            return Err(stale_schema());
        };
        let mut units = Vec::new();
        for &partition in partitions {
            let Some(stream) = self.partitions.get(&partition) else {
                return Err(SqlError::internal(format!("this node keeps no columns of {partition}")));
            };
            let above = match cut {
                Cut::Set(set) => set.above.get(&partition).into_iter().flatten().copied().collect(),
                _ => Arc::default(),
            };
            let edge = Edge { base, above };
            let is_applied = edge.above.last().is_none_or(|last| *last <= stream.position);
            assert!(is_applied, "a cut is read after its records were applied");
            if let Some(shard) = self.shards.get_mut(&(table.id, partition)) {
                // Rows in the delta may be newer than the cut and have more columns than it knows.
                let newest = stream.catalogs.last().expect("never empty").1;
                let newest = &self.catalogs[(newest - self.catalogs[0].1.version) as usize].1;
                units.extend(shard.units(newest.table(table.id).unwrap_or(table), &edge));
            }
        }
        Ok(TableSnapshot::new(table.clone(), units))
    }

    /// The next merge worth doing, of at most `rows_max` versions where that is possible (a segment
    /// is rewritten whole). `collected_below`: no cut older than this rank will be read again.
    ///
    /// A delta that no query reads is left to grow for a while ([`Options::unread_times`]).
    pub fn plan_merge(&mut self, rows_max: usize, collected_below: Rank) -> Option<MergeJob> {
        self.plan(rows_max, collected_below, false)
    }

    fn plan(&mut self, rows_max: usize, collected_below: Rank, is_urgent: bool) -> Option<MergeJob> {
        self.collect(collected_below);
        let mut keys: Vec<(TableId, PartitionId)> = self.shards.keys().copied().collect();
        if let Some(next) = self.next_merge {
            let first = keys.partition_point(|k| *k < next);
            keys.rotate_left(first);
        }
        for (i, key) in keys.iter().enumerate() {
            let newest = self.partitions[&key.1].catalogs.last().expect("never empty").1;
            let catalog = &self.catalogs[self.nth_catalog(newest)].1;
            // A dropped table waits for its end as it is.
            let Some(table) = catalog.table(key.0) else { continue };
            let shard = self.shards.get_mut(key).expect("listed above");
            if let Some(job) = shard.plan(table, &self.options, rows_max, self.collected_below, is_urgent) {
                self.next_merge = keys.get(i + 1).or(keys.first()).copied();
                return Some(job);
            }
        }
        None
    }

    /// Takes the result of a merge that this store planned.
    pub fn install(&mut self, merged: MergedSegment) {
        // The table may have been dropped and collected since, or the partition copied anew.
        let shard = self.shards.get_mut(&(merged.table, merged.partition));
        if let Some(shard) = shard.filter(|shard| shard.is_merging()) {
            shard.install(merged);
        }
    }

    /// Merges here and now, even deltas that no query reads, until about `rows_max` versions were read or nothing is left to do; returns
    /// the number read.
    pub fn merge_step(&mut self, rows_max: usize, collected_below: Rank) -> usize {
        let mut done = 0;
        while done < rows_max {
            let Some(job) = self.plan(rows_max - done, collected_below, true) else { break };
            let merged = job.run();
            done += merged.rows_read;
            self.install(merged);
        }
        done
    }

    /// Drops what no cut can see any more, as far as that costs nothing.
    fn collect(&mut self, collected_below: Rank) {
        if collected_below <= self.collected_below {
            return;
        }
        self.collected_below = collected_below;
        self.shards.values_mut().for_each(|shard| shard.collect(collected_below));
        let gone: Vec<TableId> =
            self.dropped.iter().filter(|(_, rank)| **rank <= collected_below).map(|(t, _)| *t).collect();
        for table in gone {
            // Other partitions may still be on their way to the drop.
            let everywhere = self.partitions.values().all(|s| {
                let version = s.catalogs.last().expect("never empty").1;
                self.catalogs[self.nth_catalog(version)].1.table(table).is_none()
            });
            if everywhere {
                self.dropped.remove(&table);
                self.shards.retain(|(t, _), _| *t != table);
            }
        }
    }

    /// Figures; walks everything, so not for hot paths.
    pub fn status(&self) -> StoreStatus {
        let mut status = StoreStatus::default();
        for shard in self.shards.values() {
            status.rows += shard.living();
            status.versions += shard.versions();
            status.delta_rows += shard.delta_rows();
            status.segments += shard.segment_count();
            status.bytes += shard.bytes();
        }
        status
    }
}

fn too_old(begins: Rank) -> SqlError {
    SqlError::new(SqlState::SNAPSHOT_TOO_OLD, "the snapshot is too old")
        .detail(format!("Versions at or below rank {begins} were collected."))
        .hint("Run the query again.")
}
