//! Commit records: the serial order as a stream of data, which column copies consume (and change feeds could).

use crate::row::Buffer;
use crate::schema::SchemaChange;
use crate::{Key, LogPosition, PartitionId, Place, Rank, Row, RowPatch, TableId, TxnId};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// One transaction's effect at one partition, as it stands in that partition's log.
///
/// KEEPS: positions of one partition are dense, from 1. Conflicting transactions appear in the order
/// of their places; others may not: a reader at a rank cut filters by rank, never by position.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CommitRecord {
    pub txn: TxnId,
    pub rank: Rank,
    pub partition: PartitionId,
    pub position: LogPosition,
    /// Rows written here, in order; empty for a reader or an aborted transaction.
    pub writes: Vec<RowWrite>,
    /// A change of the catalog, taking effect at this place.
    pub schema: Option<SchemaChange>,
}

impl CommitRecord {
    pub fn place(&self) -> Place {
        Place::new(self.rank, self.txn)
    }
    /// The same with every row whole, for readers that do not apply records in the order of their log.
    pub fn whole(mut self) -> CommitRecord {
        self.writes = self.writes.into_iter().map(RowWrite::whole).collect();
        self
    }
}

/// What became of one row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RowWrite {
    pub table: TableId,
    pub key: Key,
    pub change: Change,
}

/// A row's new state: the row, or its difference to the earlier state.
///
/// KEEPS: an update travels as a patch where that is shorter. Its receiver has the earlier state: it applies
/// the records of a log in order, from the log's beginning or from a copy.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    Delete,
    /// The whole row.
    Put(Row),
    /// Where it was executed, both states are at hand.
    Update {
        before: Row,
        row: Row,
    },
    /// An update that has travelled.
    Patch(RowPatch),
}

impl RowWrite {
    /// A whole row, or its end.
    pub fn new(table: TableId, key: Key, row: Option<Row>) -> RowWrite {
        RowWrite { table, key, change: Change::of(None, row) }
    }
    /// The same without a need for the earlier state.
    pub fn whole(self) -> RowWrite {
        match self.change {
            Change::Update { row, .. } => RowWrite { change: Change::Put(row), ..self },
            _ => self,
        }
    }
}

impl Change {
    pub fn of(before: Option<Row>, row: Option<Row>) -> Change {
        match (before, row) {
            (_, None) => Change::Delete,
            (None, Some(row)) => Change::Put(row),
            (Some(before), Some(row)) => Change::Update { before, row },
        }
    }
    /// The same transaction writes the row again.
    pub fn then(self, row: Option<Row>) -> Change {
        match self {
            Change::Update { before, .. } => Change::of(Some(before), row),
            // What it was before a deletion is forgotten.
            _ => Change::of(None, row),
        }
    }
}

/// How a [`Change`] travels.
#[derive(Serialize)]
enum Leaving<'a> {
    Delete,
    Put(&'a Row),
    Patch(Bytes<'a>),
}

struct Bytes<'a>(&'a [u8]);

impl Serialize for Bytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}

#[derive(Deserialize)]
enum Arriving {
    Delete,
    Put(Row),
    Patch(RowPatch),
}

impl Serialize for Change {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Change::Delete => Leaving::Delete.serialize(serializer),
            Change::Put(row) => Leaving::Put(row).serialize(serializer),
            Change::Patch(patch) => Leaving::Patch(Bytes(patch.as_bytes())).serialize(serializer),
            Change::Update { before, row } => {
                let mut patch = Buffer::new();
                match row.write_patch(before, &mut patch) {
                    true => Leaving::Patch(Bytes(&patch)).serialize(serializer),
                    false => Leaving::Put(row).serialize(serializer),
                }
            }
        }
    }
}

impl<'de> Deserialize<'de> for Change {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Change, D::Error> {
        Ok(match Arriving::deserialize(deserializer)? {
            Arriving::Delete => Change::Delete,
            Arriving::Put(row) => Change::Put(row),
            Arriving::Patch(patch) => Change::Patch(patch),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Datum, codec};

    #[test]
    fn an_update_travels_as_what_changed_unless_that_is_longer() {
        let row = |a: i64, text: &str| Row::of(&[Datum::Int(a), Datum::text(text), Datum::Int(1000)]);
        let long = "long ".repeat(40);
        let arrived = |change: &Change| codec::decode::<Change>(&codec::encode(change)).unwrap();
        let few = Change::of(Some(row(500, &long)), Some(row(600, &long)));
        match arrived(&few) {
            Change::Patch(patch) => assert_eq!(row(500, &long).patched(&patch), Some(row(600, &long))),
            other => panic!("{other:?}"),
        }
        assert!(codec::encode(&few).len() < 10);
        let all =
            Change::of(Some(row(5, "a")), Some(Row::of(&[Datum::Int(6), Datum::text("b"), Datum::Null])));
        assert!(matches!(arrived(&all), Change::Put(_)));
        assert_eq!(arrived(&Change::Delete), Change::Delete);
        assert_eq!(few.clone().then(None), Change::Delete);
        assert_eq!(Change::Delete.then(Some(row(1, "a"))), Change::Put(row(1, "a")));
    }
}
