//! What the store should show: a list of all versions there ever were, and filters row by row.

use super::tables::value;
use base::rng::Rng;
use base::schema::*;
use base::*;
use colstore::*;
use std::collections::{BTreeMap, BTreeSet};

/// One row's life.
#[derive(Clone, Debug)]
pub struct Version {
    pub table: TableId,
    pub partition: PartitionId,
    pub key: Key,
    pub row: Row,
    pub begin: (Rank, LogPosition),
    pub end: Option<(Rank, LogPosition)>,
}

#[derive(Default)]
pub struct Model {
    pub versions: Vec<Version>,
    /// Records so far, per partition.
    pub logs: BTreeMap<PartitionId, Vec<Rank>>,
    /// What each wrote.
    pub touched: BTreeMap<(PartitionId, LogPosition), BTreeSet<(TableId, Key)>>,
    /// Catalog changes each partition has still to apply.
    pub pending: BTreeMap<PartitionId, Vec<(Rank, SchemaChange)>>,
    pub catalogs: Vec<(Rank, Catalog)>,
    /// Catalog changes applied, with their positions.
    pub changed: BTreeMap<PartitionId, Vec<LogPosition>>,
    pub collected: Rank,
    pub clock: u64,
}

impl Model {
    pub fn applied(&self, p: PartitionId) -> LogPosition {
        LogPosition(self.logs[&p].len() as u64)
    }

    pub fn living(&self, p: PartitionId, table: TableId, key: &Key) -> Option<&Version> {
        let same = |v: &&Version| v.end.is_none() && v.partition == p && v.table == table && v.key == *key;
        self.versions.iter().find(same)
    }

    /// Whether two records of a log write the same row.
    pub fn conflict(&self, p: PartitionId, one: LogPosition, other: LogPosition) -> bool {
        let rows = &self.touched[&(p, one)];
        self.touched[&(p, other)].iter().any(|row| rows.contains(row))
    }

    /// Rows of a table at a cut, complete, in key order.
    pub fn rows(&self, cut: &Cut, table: &Table, partitions: &BTreeSet<PartitionId>) -> Vec<Vec<Datum>> {
        let includes = |p: PartitionId, mark: (Rank, LogPosition)| match cut {
            Cut::Rank(t) => mark.0 <= *t,
            Cut::Set(set) => mark.0 <= set.base || set.above[&p].contains(&mark.1),
            Cut::Epoch(_) => unreachable!(),
        };
        let mut rows: Vec<_> = self
            .versions
            .iter()
            .filter(|v| v.table == table.id && partitions.contains(&v.partition))
            .filter(|v| {
                includes(v.partition, v.begin) && !v.end.is_some_and(|end| includes(v.partition, end))
            })
            .map(|v| (v.partition, v.key.clone(), table.complete(&v.row)))
            .collect();
        rows.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
        sorted(rows.into_iter().map(|(_, _, row)| row).collect())
    }
}

pub fn sorted(mut rows: Vec<Vec<Datum>>) -> Vec<Vec<Datum>> {
    rows.sort_by_cached_key(|row| format!("{row:?}"));
    rows
}

pub fn scanned(
    snapshot: &TableSnapshot,
    projection: &[usize],
    filters: &[ColumnPredicate],
) -> Vec<Vec<Datum>> {
    let columns = &snapshot.table().columns;
    let mut rows = Vec::new();
    for unit in 0..snapshot.unit_count() {
        let mut seen = 0;
        for batch in snapshot.scan(unit, projection, filters) {
            assert!(batch.num_rows() > 0);
            assert_eq!(batch.num_columns(), projection.len());
            seen += batch.num_rows();
            for row in 0..batch.num_rows() {
                let value = |(i, c): (usize, &usize)| datum_at(columns[*c].data_type, batch.column(i), row);
                rows.push(projection.iter().enumerate().map(value).collect());
            }
        }
        assert!(seen <= snapshot.unit_rows(unit));
        if !snapshot.unit_may_match(unit, filters) {
            assert_eq!(seen, 0);
        }
    }
    sorted(rows)
}

pub fn satisfies(row: &[Datum], filter: &ColumnPredicate) -> bool {
    use std::cmp::Ordering::*;
    match filter {
        ColumnPredicate::Compare { column, comparison, value } => match row[*column].compare(value) {
            None => false,
            Some(order) => match comparison {
                Comparison::Eq => order == Equal,
                Comparison::Lt => order == Less,
                Comparison::Le => order != Greater,
                Comparison::Gt => order == Greater,
                Comparison::Ge => order != Less,
            },
        },
        ColumnPredicate::In { column, values } => {
            values.iter().any(|v| row[*column].compare(v) == Some(Equal))
        }
        ColumnPredicate::IsNull { column } => row[*column].is_null(),
        ColumnPredicate::IsNotNull { column } => !row[*column].is_null(),
    }
}

pub fn predicate(rng: &mut Rng, table: &Table) -> ColumnPredicate {
    let column = rng.below(table.columns.len() as u64) as usize;
    let data_type = table.columns[column].data_type;
    match rng.below(8) {
        0 => ColumnPredicate::IsNull { column },
        1 => ColumnPredicate::IsNotNull { column },
        2 => ColumnPredicate::In { column, values: (0..3).map(|_| value(rng, data_type)).collect() },
        _ => {
            let comparison =
                *rng.pick(&[Comparison::Eq, Comparison::Lt, Comparison::Le, Comparison::Gt, Comparison::Ge]);
            ColumnPredicate::Compare { column, comparison, value: value(rng, data_type) }
        }
    }
}
