//! Rows that remember who did what when.

use super::covered;
use crate::engine::{Applied, CopyEnded, Executor};
use base::codec;
use base::commit::RowWrite;
use base::hash::digest;
use base::txn::{AccessMode, Gathered, StatementResult, Transaction, TxnProgram};
use base::{Datum, NodeId, PartitionId, Place, Row, SqlError, SqlState, TxnId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

type Values = BTreeMap<(PartitionId, i64), u64>;

/// One node's rows. A write's value follows from everything the transaction read anywhere, so that a
/// serial replay can tell whether anything was read out of place.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    pub values: BTreeMap<(PartitionId, i64), u64>,
    /// In the order of execution here: who, where, at which place, and what was seen.
    pub log: Vec<Entry>,
    gathered: BTreeMap<(TxnId, PartitionId), u64>,
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

impl Rows {
    fn blocks(&self, partition: PartitionId) -> Vec<Vec<u8>> {
        let values: Values =
            self.values.iter().filter(|((p, _), _)| *p == partition).map(|(k, v)| (*k, *v)).collect();
        let log: Vec<Entry> = self.log.iter().filter(|entry| entry.partition == partition).cloned().collect();
        // Several blocks, so that some are lost.
        let entries = log.chunks(3).map(|entries| codec::encode(&(Values::new(), entries.to_vec())));
        entries.chain([codec::encode(&(values, Vec::<Entry>::new()))]).collect()
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
    }
    fn restore(&mut self, _: PartitionId, block: &[u8]) {
        let (values, log): (Values, Vec<Entry>) =
            codec::decode(block).expect("a block is read as it was written");
        self.values.extend(values);
        self.log.extend(log);
    }
}
