//! Patching: when rows of a segment have new values for the same keys, only the columns that changed are encoded
//! again.
//!
//! KEEPS: the new segment has the rows of the old one in the same places. Columns in which no row changed,
//! and the filter of keys, are shared with it.

use crate::delta::pour;
use crate::encode::Column;
use crate::segment::Segment;
use crate::values::Values;
use base::Row;
use base::schema::Table;
use std::sync::Arc;

/// A row that moves to a segment of its own is written this often before it comes to rest: there, with its
/// small neighbours, and its old segment's remaining rows once for every few that leave it.
const REWRITES: usize = 4;
/// Fewer rows than one of this many are never worth a patch.
const SHARE_MIN: usize = 64;

impl Segment {
    /// Whether so many of its rows may be worth a patch.
    pub fn may_be_patched(&self, table: &Table, rows: usize) -> bool {
        0 < rows && rows * SHARE_MIN >= self.rows && self.columns.len() == table.columns.len()
    }

    /// The segment with new values in some rows, which ascend; `None` if it costs less to write those rows
    /// elsewhere. `table` has as many columns as the segment.
    pub fn patched(&self, table: &Table, rows: &[(usize, &Row)]) -> Option<Segment> {
        let mut new: Vec<Values> =
            table.columns.iter().map(|c| Values::new(c.data_type, rows.len())).collect();
        pour(table, rows.iter().map(|(_, row)| *row), &mut new);
        let is_changed = |(column, new): (&Arc<Column>, &Values)| {
            rows.iter().enumerate().any(|(at, (row, _))| !column.holds(*row, new, at))
        };
        let changed: Vec<bool> = self.columns.iter().zip(&new).map(is_changed).collect();
        // What a row costs in a column, in words of its encoding.
        let weight = |column: &Arc<Column>| 1 + column.bytes() / self.rows / 8;
        let all: usize = self.columns.iter().map(weight).sum();
        let anew: usize =
            self.columns.iter().zip(&changed).filter(|(_, c)| **c).map(|(c, _)| weight(c)).sum();
        if anew * self.rows > all * rows.len() * REWRITES {
            return None;
        }
        let in_place: Vec<u32> = (0..self.rows as u32).collect();
        let columns = self.columns.iter().zip(&new).zip(changed).map(|((column, new), is_changed)| {
            if !is_changed {
                return column.clone();
            }
            let mut values = Values::new(new.data_type, self.rows);
            let mut from = 0;
            for (at, (row, _)) in rows.iter().enumerate() {
                column.pour(&in_place[from..*row], &mut values);
                values.push_from(new, at);
                from = row + 1;
            }
            column.pour(&in_place[from..], &mut values);
            Arc::new(Column::encode(&values, &in_place, self.block_rows))
        });
        Some(Segment {
            table: self.table.clone(),
            rows: self.rows,
            block_rows: self.block_rows,
            columns: columns.collect(),
            filter: self.filter.clone(),
            last_begin: self.last_begin,
            keys: self.keys.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delta::Delta;
    use crate::merge::MergeJob;
    use crate::version::Mark;
    use base::schema::{Column as Description, Identity, Placement};
    use base::{DataType, Datum, Key, LogPosition, PartitionId, Rank, TableId};

    fn table() -> Arc<Table> {
        let column = |name: &str, data_type| Description {
            name: name.into(),
            data_type,
            not_null: false,
            default: None,
            missing: Datum::Null,
            identity: Identity::No,
            hidden: false,
        };
        let columns = [("k", DataType::Integer), ("n", DataType::Integer), ("v", DataType::Text)];
        Arc::new(Table {
            id: TableId(1),
            schema: "public".into(),
            name: "t".into(),
            version: 0,
            columns: columns.map(|(name, data_type)| column(name, data_type)).to_vec(),
            primary_key: vec![0],
            primary_key_name: "t_pkey".into(),
            indexes: vec![],
            checks: Default::default(),
            foreign: Default::default(),
            triggers: Default::default(),
            domains: Default::default(),
            partitioning: None,
            placement: Placement::Replicated,
        })
    }

    fn row(k: i64, n: i64, v: String) -> Row {
        Row::of(&[Datum::Int(k), Datum::Int(n), Datum::text(v)])
    }

    fn segment(table: &Arc<Table>, rows: i64) -> Segment {
        let mut delta = Delta::new(rows as usize);
        let mark = Mark { rank: Rank(1), position: LogPosition(1) };
        for k in 0..rows {
            let values = row(k, k * 7, format!("text {}", k * 7919));
            delta.write(table, &Key::of(&[Datum::Int(k)]), Some(&values), mark);
        }
        let chunk = &delta.chunks[0];
        let job = MergeJob {
            table: table.clone(),
            partition: PartitionId(0),
            chunks: vec![(chunk.data.clone(), chunk.ends.clone())],
            segments: vec![],
            unfound: Arc::default(),
            block_rows: 64,
            segment_rows: 1000,
            collected_below: Rank(1),
        };
        job.run().segments.remove(0).0
    }

    #[test]
    fn only_columns_that_changed_are_made_anew() {
        let table = table();
        let old = segment(&table, 640);
        let rows: Vec<(usize, Row)> =
            (0..640).step_by(9).map(|k| (k, row(k as i64, -5, format!("text {}", k * 7919)))).collect();
        let rows: Vec<(usize, &Row)> = rows.iter().map(|(k, row)| (*k, row)).collect();
        let new = old.patched(&table, &rows).expect("numbers are cheap");
        let is_shared: Vec<bool> =
            old.columns.iter().zip(&new.columns).map(|(a, b)| Arc::ptr_eq(a, b)).collect();
        assert_eq!((is_shared, Arc::ptr_eq(&old.filter, &new.filter)), (vec![true, false, true], true));
        for k in 0..640 {
            let expected = if k % 9 == 0 { -5 } else { k as i64 * 7 };
            assert_eq!(new.columns[1].datum(k), Datum::Int(expected));
            assert_eq!(new.find(&Key::of(&[Datum::Int(k as i64)])), Some(k));
        }
        assert_eq!(new.columns[1].zones.len(), 10);
    }

    #[test]
    fn a_few_long_texts_are_not_worth_a_patch() {
        let table = table();
        let old = segment(&table, 640);
        let changed = row(5, 35, "other ".repeat(50));
        assert!(old.patched(&table, &[(5, &changed)]).is_none());
        assert!(!old.may_be_patched(&table, 0) && !old.may_be_patched(&table, 9));
        assert!(old.may_be_patched(&table, 10));
    }
}
