//! Rows that remember who did what when.

use super::{conflict, covered};
use crate::engine::{Applied, CopyEnded, Executor};
use base::codec;
use base::commit::RowWrite;
use base::hash::digest;
use base::key::KeyRange;
use base::schema::SchemaAction;
use base::txn::{AccessMode, Gathered, Granule, ReadGranule, StatementResult, Transaction, TxnProgram};
use base::write_set::{Evaluated, RowState, WriteSet};
use base::{Datum, Key, NodeId, PartitionId, Place, Rank, Row, SqlError, SqlState, TableId, TxnId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

type Values = BTreeMap<(PartitionId, i64), u64>;
type Written = BTreeMap<(PartitionId, TableId, Key), Rank>;
/// By their number in the donor's order.
type Installed = BTreeMap<u64, (Place, PartitionId, WriteSet)>;

/// One node's rows. A write's value follows from everything the transaction read anywhere, so that a
/// serial replay can tell whether anything was read out of place.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    pub values: BTreeMap<(PartitionId, i64), u64>,
    /// In the order of execution here: who, where, at which place, and what was seen.
    pub log: Vec<Entry>,
    gathered: BTreeMap<(TxnId, PartitionId), u64>,
    /// When each row was written last, by engines that install write sets; and what they installed, in their order.
    written: BTreeMap<(PartitionId, TableId, Key), Rank>,
    pub installed: Vec<(Place, PartitionId, WriteSet)>,
    /// Of these, what came with another node's copy.
    restored: Installed,
    /// Tables that changes of the catalog have dropped here, and when. Copies are without it.
    dropped: BTreeMap<TableId, Rank>,
    /// An execution takes so many steps more than one, at most; and how many those under way have taken.
    pub pauses_max: u64,
    pauses: BTreeMap<(TxnId, PartitionId), u64>,
    /// Blocks that other nodes will take.
    copies: BTreeMap<NodeId, VecDeque<(PartitionId, Vec<u8>)>>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    pub txn: TxnId,
    pub partition: PartitionId,
    pub place: Place,
    pub transaction: Transaction,
    /// Digest of all values seen by all participants.
    pub seen: u64,
}

/// Digest of the values that the transaction's granules cover at one partition.
pub fn look(
    values: &BTreeMap<(PartitionId, i64), u64>,
    partition: PartitionId,
    transaction: &Transaction,
) -> u64 {
    let mut seen = 0;
    for access in transaction.access.at(partition) {
        for key in covered(&access.granule) {
            seen = digest(&(seen, key, values.get(&(partition, key)).copied().unwrap_or(0)));
        }
    }
    seen
}

/// Writes what follows from `seen`.
pub fn write(
    values: &mut BTreeMap<(PartitionId, i64), u64>,
    partition: PartitionId,
    transaction: &Transaction,
    seen: u64,
) {
    for access in transaction.access.at(partition) {
        if access.mode == AccessMode::Write {
            for key in covered(&access.granule) {
                values.insert((partition, key), digest(&(transaction.id, seen)));
            }
        }
    }
}

/// Transactions named "maybe" abort on some values.
pub fn aborts(transaction: &Transaction, seen: u64) -> bool {
    matches!(&*transaction.program, TxnProgram::Procedure { name, .. } if name == "maybe") && seen % 4 == 1
}

/// At every node conflicting transactions executed in the order of their places.
pub fn follows_places(all_rows: &[Rows]) {
    for (n, rows) in all_rows.iter().enumerate() {
        let mut by_partition: BTreeMap<PartitionId, Vec<&Entry>> = BTreeMap::new();
        for entry in &rows.log {
            let earlier = by_partition.entry(entry.partition).or_default();
            let mine = entry.transaction.access.at(entry.partition);
            // Recent ones suffice: places are transitive along conflicts.
            for other in earlier.iter().rev().take(60) {
                if conflict(mine, other.transaction.access.at(entry.partition)) {
                    let (a, b, p) = (other.place, entry.place, entry.partition);
                    assert!(a < b, "{a:?} executed before {b:?} at n{n}'s copy of {p}");
                }
            }
            earlier.push(entry);
        }
    }
}

/// A serial run in the order of places sees the same values.
pub fn replay(all_rows: &[Rows], places: &BTreeMap<TxnId, (Place, Transaction)>) {
    let mut order: Vec<_> = places.values().collect();
    order.sort_by_key(|(place, _)| *place);
    let mut seen: BTreeMap<TxnId, u64> = BTreeMap::new();
    let mut values = BTreeMap::new();
    for (_, transaction) in order {
        let mut all = 0;
        for partition in transaction.participants() {
            let own = look(&values, partition, transaction);
            assert!(!aborts(transaction, own), "{} should have aborted", transaction.id);
            all = digest(&(all, partition, own));
        }
        for partition in transaction.participants() {
            write(&mut values, partition, transaction, all);
        }
        seen.insert(transaction.id, all);
    }
    for entry in all_rows.iter().flat_map(|rows| &rows.log) {
        assert_eq!(seen[&entry.txn], entry.seen, "{} saw what its place says", entry.txn);
    }
}

/// The ranges of tables that a granule covers.
fn ranges(granule: &Granule) -> Vec<(TableId, KeyRange)> {
    match granule {
        Granule::Key(table, key) => vec![(*table, KeyRange::point(key.clone()))],
        Granule::Range(table, range) => vec![(*table, range.clone())],
        Granule::Partition => [super::TABLE, super::OTHER].map(|table| (table, KeyRange::all())).to_vec(),
    }
}

impl Rows {
    /// Whether an execution takes another step.
    fn pauses(&mut self, txn: TxnId, partition: PartitionId) -> bool {
        let wanted = digest(&(txn, partition)) % (self.pauses_max + 1);
        let taken = self.pauses.entry((txn, partition)).or_default();
        let is_over = *taken >= wanted;
        *taken += 1;
        if is_over {
            self.pauses.remove(&(txn, partition));
        }
        !is_over
    }
    fn blocks(&self, partition: PartitionId) -> Vec<Vec<u8>> {
        let values: Values =
            self.values.iter().filter(|((p, _), _)| *p == partition).map(|(k, v)| (*k, *v)).collect();
        let log: Vec<Entry> = self.log.iter().filter(|entry| entry.partition == partition).cloned().collect();
        let nothing = || (Values::new(), Vec::<Entry>::new(), Written::new(), Installed::new());
        // Several blocks, so that some are lost.
        let entries = log.chunks(3).map(|entries| {
            let (values, _, written, installed) = nothing();
            codec::encode(&(values, entries.to_vec(), written, installed))
        });
        let written = self.written.iter().filter(|((p, ..), _)| *p == partition);
        let installed = self.installed.iter().enumerate().filter(|(_, (_, p, _))| *p == partition);
        let installed: Installed = installed.map(|(nth, set)| (nth as u64, set.clone())).collect();
        let written: Written = written.map(|(row, rank)| (row.clone(), *rank)).collect();
        entries.chain([codec::encode(&(values, Vec::<Entry>::new(), written, installed))]).collect()
    }
}

impl Executor for Rows {
    fn gather(&mut self, partition: PartitionId, transaction: &Transaction) -> Gathered {
        let seen = look(&self.values, partition, transaction);
        let again = self.gathered.insert((transaction.id, partition), seen);
        assert_eq!(again, None, "{} gathers once at {partition}", transaction.id);
        if aborts(transaction, seen) {
            let error = SqlError::new(SqlState::CHECK_VIOLATION, format!("no {seen} at {partition}"));
            return Gathered::Abort(error);
        }
        Gathered::Values(vec![Datum::Int(seen as i64)])
    }

    fn apply(
        &mut self,
        partition: PartitionId,
        transaction: &Transaction,
        place: Place,
        exchange: &BTreeMap<PartitionId, Gathered>,
    ) -> Applied {
        assert!(exchange.keys().copied().eq(transaction.participants()), "everybody's reads are here");
        let own = look(&self.values, partition, transaction);
        let gathered = self.gathered.remove(&(transaction.id, partition));
        assert_eq!(gathered, Some(own), "{}: nobody wrote between gather and apply", transaction.id);
        let mut seen = 0;
        for (partition, gathered) in exchange {
            let Gathered::Values(values) = gathered else { panic!("an aborted transaction is not applied") };
            let Datum::Int(value) = values[0] else { panic!("an int was sent") };
            seen = digest(&(seen, partition, value as u64));
        }
        write(&mut self.values, partition, transaction, seen);
        for action in transaction.program.schema_change().into_iter().flat_map(|change| &change.actions) {
            if let SchemaAction::DropTable(table) = action {
                self.dropped.insert(*table, place.rank);
            }
        }
        self.log.push(Entry {
            txn: transaction.id,
            partition,
            place,
            transaction: transaction.clone(),
            seen,
        });
        let row = Row::of(&[Datum::Int(i64::from(partition.0))]);
        let key = super::key(i64::from(partition.0));
        let writes = vec![RowWrite::new(super::TABLE, key, Some(row.clone()))];
        let results = vec![StatementResult { rows: vec![row], affected: 1 }];
        Applied { results, writes, schema: None }
    }

    fn gather_some(&mut self, partition: PartitionId, transaction: &Transaction) -> Option<Gathered> {
        (!self.pauses(transaction.id, partition)).then(|| self.gather(partition, transaction))
    }

    fn apply_some(
        &mut self,
        partition: PartitionId,
        transaction: &Transaction,
        place: Place,
        exchange: &BTreeMap<PartitionId, Gathered>,
    ) -> Option<Applied> {
        // Copies of these rows would have what is applied at one partition before it is at the next.
        let has_begun = self.log.last().is_some_and(|entry| entry.txn == transaction.id);
        let pauses = !has_begun && self.pauses(transaction.id, partition);
        (!pauses).then(|| self.apply(partition, transaction, place, exchange))
    }

    fn evaluate(&mut self, transaction: &Transaction, at: Rank) -> Result<Evaluated, SqlError> {
        let newest = self.written.values().max().copied().unwrap_or_default();
        assert!(newest <= at, "{} is evaluated at the newest state", transaction.id);
        let mut evaluated = Evaluated::default();
        let mut seen = 0;
        for partition in transaction.participants() {
            let own = look(&self.values, partition, transaction);
            if aborts(transaction, own) {
                let message = format!("no {own} at {partition}");
                return Err(SqlError::new(SqlState::CHECK_VIOLATION, message));
            }
            seen = digest(&(seen, partition, own));
        }
        for partition in transaction.participants() {
            let mut writes = WriteSet::default();
            for access in transaction.access.at(partition) {
                for (table, range) in ranges(&access.granule) {
                    evaluated.reads.push(ReadGranule { partition, table, range, columns: None, at });
                }
                let keys = covered(&access.granule).filter(|_| access.mode == AccessMode::Write);
                writes.rows.extend(keys.map(|n| RowState {
                    table: super::table(n),
                    schema_version: 1,
                    key: super::key(n),
                    row: Some(Row::of(&[Datum::Int(n), Datum::Int(digest(&(transaction.id, seen)) as i64)])),
                }));
            }
            writes.rows.sort_by(|a, b| (a.table, &a.key).cmp(&(b.table, &b.key)));
            writes.rows.dedup_by(|a, b| (a.table, &a.key) == (b.table, &b.key));
            evaluated.writes.insert(partition, writes);
            let row = Row::of(&[Datum::Int(i64::from(partition.0))]);
            evaluated.results.insert(partition, vec![StatementResult { rows: vec![row], affected: 1 }]);
        }
        Ok(evaluated)
    }

    fn install(
        &mut self,
        partition: PartitionId,
        place: Place,
        writes: &BTreeMap<PartitionId, WriteSet>,
    ) -> Result<Applied, SqlError> {
        let own = writes.get(&partition).cloned().unwrap_or_default();
        for state in &own.rows {
            let row = state.row.as_ref().expect("rows are not deleted here");
            let (Datum::Int(n), Datum::Int(value)) = (row.get(0), row.get(1)) else { panic!("two numbers") };
            self.values.insert((partition, n), value as u64);
            let before = self.written.insert((partition, state.table, state.key.clone()), place.rank);
            assert!(before.is_none_or(|before| before < place.rank), "one writer of a row at a rank");
        }
        let rows = own.rows.iter();
        let writes = rows.map(|s| RowWrite::new(s.table, s.key.clone(), s.row.clone())).collect();
        self.installed.push((place, partition, own));
        Ok(Applied { results: Vec::new(), writes, schema: None })
    }
    fn is_unchanged(&self, read: &ReadGranule) -> bool {
        let of = |(partition, table, key): &(PartitionId, TableId, Key)| {
            *partition == read.partition && *table == read.table && read.range.contains(key)
        };
        self.written.iter().all(|(row, rank)| !of(row) || *rank <= read.at)
    }
    fn is_described_as_at(&self, _: PartitionId, table: TableId, at: Rank) -> bool {
        self.dropped.get(&table).is_none_or(|rank| *rank <= at)
    }
    fn has_row(&self, partition: PartitionId, table: TableId, key: &Key) -> bool {
        self.written.contains_key(&(partition, table, key.clone()))
    }

    fn begin_copy(&mut self, to: NodeId, partitions: &[PartitionId]) {
        let blocks =
            partitions.iter().flat_map(|p| self.blocks(*p).into_iter().map(move |block| (*p, block)));
        let blocks = blocks.collect();
        self.copies.insert(to, blocks);
    }
    fn next_block(&mut self, to: NodeId) -> Result<Option<(PartitionId, Vec<u8>)>, CopyEnded> {
        self.copies.get_mut(&to).map(VecDeque::pop_front).ok_or(CopyEnded)
    }
    fn end_copy(&mut self, to: NodeId) {
        self.copies.remove(&to);
    }
    fn forget(&mut self, partition: PartitionId) {
        self.values.retain(|(p, _), _| *p != partition);
        self.log.retain(|entry| entry.partition != partition);
        self.written.retain(|(p, ..), _| *p != partition);
        self.installed.retain(|(_, p, _)| *p != partition);
        self.restored.retain(|_, (_, p, _)| *p != partition);
    }
    fn restore(&mut self, _: PartitionId, block: &[u8]) {
        let (values, log, written, installed): (Values, Vec<Entry>, Written, Installed) =
            codec::decode(block).expect("a block is read as it was written");
        self.values.extend(values);
        self.log.extend(log);
        self.written.extend(written);
        self.restored.extend(installed);
        self.installed = self.restored.values().cloned().collect();
    }
}
