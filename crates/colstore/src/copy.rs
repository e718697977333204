//! A partition's columns from a copy of its rows, instead of from its log.
//!
//! IN: the rows of a partition as of a log position, with the catalog there. OUT: columns that can be read at
//! cuts that include all of it. KEEPS: cuts that do not (below the largest rank in the copy) are refused as too old; records after the copy are applied as usual.
//!
//! Catalogs are numbered densely and kept once for all partitions. A copy names the version that its
//! partition had reached, which may leave a gap to what is known here. Gaps are filled with the nearest later
//! catalog; no query can read at a cut that falls into one, except through a partition whose own records or
//! copy then bring the real one.

use crate::shard::Shard;
use crate::store::{ColumnStore, Stream};
use crate::version::Mark;
use base::commit::{CommitRecord, RowWrite};
use base::schema::Catalog;
use base::{Key, LogPosition, PartitionId, Rank, Row, TableId};
use std::sync::Arc;

impl ColumnStore {
    /// Forgets what is here of a partition and begins a copy of it as of `position`. No record up to there
    /// is ranked above `rank`.
    pub fn begin_copy(
        &mut self,
        partition: PartitionId,
        position: LogPosition,
        rank: Rank,
        catalog: &Arc<Catalog>,
    ) {
        assert!(self.partitions.contains_key(&partition), "{partition} is not subscribed to");
        self.shards.retain(|(_, p), _| *p != partition);
        self.place_catalog(rank, catalog);
        let catalogs = vec![(LogPosition(0), catalog.version)];
        let stream = Stream { position, rank, catalogs, begins: rank };
        self.partitions.insert(partition, stream);
    }

    /// Rows of a table in the copy.
    pub fn copy_rows(&mut self, partition: PartitionId, table: TableId, rows: &[(Key, Row)]) {
        if self.options.follows_only {
            return;
        }
        let stream = &self.partitions[&partition];
        let at = Mark { rank: Rank::ZERO, position: stream.position };
        let version = stream.catalogs.last().expect("never empty").1;
        let catalog = self.catalogs[self.nth_catalog(version)].1.clone();
        let found = catalog.table(table).expect("a copy holds tables of its catalog");
        let options = &self.options;
        let shard = self.shards.entry((table, partition)).or_insert_with(|| Shard::new(partition, options));
        for (key, row) in rows {
            shard.write(found, &RowWrite::new(table, key.clone(), Some(row.clone())), at);
        }
    }

    /// Makes room for a version of the catalog, wherever it stands.
    fn place_catalog(&mut self, rank: Rank, catalog: &Arc<Catalog>) {
        let version = catalog.version;
        let first = self.catalogs[0].1.version;
        if version < first {
            let fill = (version..first).map(|v| (Rank::ZERO, numbered(catalog, v)));
            let fill: Vec<_> = fill.collect();
            self.catalogs.splice(0..0, fill);
            self.assumed.extend(version + 1..first);
            return;
        }
        let newest = self.catalogs.last().expect("never empty");
        if version > newest.1.version {
            let rank = rank.max(newest.0);
            for v in newest.1.version + 1..=version {
                self.catalogs.push((rank, numbered(catalog, v)));
                // Its true rank is lower than that of the copy.
                self.assumed.insert(v);
            }
            return;
        }
        if self.assumed.contains(&version) {
            let nth = self.nth_catalog(version);
            self.catalogs[nth].1 = catalog.clone();
            // This copy, which has it too, may end below the one that brought it first.
            self.catalogs[..=nth].iter_mut().for_each(|(known, _)| *known = rank.min(*known));
        }
    }

    /// A record brings a change that was only known roughly.
    pub(crate) fn learn_catalog(&mut self, record: &CommitRecord, version: u64) {
        let change = record.schema.as_ref().expect("the caller looked");
        let nth = self.nth_catalog(version);
        let mut next = Catalog::clone(&self.catalogs[nth - 1].1);
        next.apply(change).expect("a change in the log was found applicable by every partition");
        self.catalogs[nth] = (record.rank, Arc::new(next));
        self.assumed.remove(&version);
        self.precede(nth);
    }

    /// Earlier changes, as far as they are known only roughly, are not later than this one: the rank of a copy that brought
    /// one may be above those of changes that came to its partition after it.
    pub(crate) fn precede(&mut self, nth: usize) {
        let rank = self.catalogs[nth].0;
        self.catalogs[..nth].iter_mut().for_each(|(known, _)| *known = rank.min(*known));
    }
}

fn numbered(catalog: &Arc<Catalog>, version: u64) -> Arc<Catalog> {
    match catalog.version == version {
        true => catalog.clone(),
        false => Arc::new(Catalog { version, ..Catalog::clone(catalog) }),
    }
}
