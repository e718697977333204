//! Procedures that read whole rows and write whole rows, of tables whose columns are all integers and whose
//! first column is both home and the beginning of the key.
//!
//! A procedure names the rows it touches, by key or by a prefix of a key; each participant sends its
//! rows to the others; then all compute the same changes and each applies its own. KEEPS: every
//! abort is decided at the row's partition, before any participant writes.

use crate::table::TableSpec;
use base::error::{SqlError, SqlResult, SqlState};
use base::key::KeyRange;
use base::schema::{Catalog, Location, Table};
use base::topology::Topology;
use base::txn::procedure::{Exchange, Procedure, ProcedureContext, RowAccess, RowView};
use base::txn::{AccessMode, AccessSet, Granule};
use base::{DataType, Datum, Key, PartitionId, Row};

/// The values of one row.
pub type Values = Vec<i64>;

/// Rows that a call touches: one, or all that begin with `key`.
#[derive(Clone, Debug)]
pub struct Touch {
    pub table: &'static TableSpec,
    pub key: Vec<i64>,
    pub mode: AccessMode,
}

impl Touch {
    pub fn read(table: &'static TableSpec, key: &[i64]) -> Touch {
        Touch { table, key: key.to_vec(), mode: AccessMode::Read }
    }
    pub fn write(table: &'static TableSpec, key: &[i64]) -> Touch {
        Touch { table, key: key.to_vec(), mode: AccessMode::Write }
    }
    fn is_range(&self) -> bool {
        self.key.len() < self.table.primary_key.len()
    }
}

/// A row as it is to be.
#[derive(Clone, Debug)]
pub enum Change {
    Put(&'static TableSpec, Values),
    /// By its key.
    Delete(&'static TableSpec, Vec<i64>),
}

/// What makes a procedure of this kind.
pub trait WholeRows: Send + Sync {
    fn name(&self) -> &'static str;
    /// Names of the leading arguments; one that ends in `_list` is a text of integers.
    fn arguments(&self) -> &'static [&'static str];
    /// The rows, in an order of its own.
    fn touches(&self, args: &[i64]) -> Vec<Touch>;
    /// Looks at the `nth` touch's rows where they live; an error aborts the transaction.
    ///
    /// # Errors
    /// Why it cannot be done.
    fn check(&self, _args: &[i64], _nth: usize, _rows: &[Values]) -> SqlResult<()> {
        Ok(())
    }
    /// The changes, from the rows of every touch.
    fn changes(&self, args: &[i64], rows: &[Vec<Values>]) -> Vec<Change>;
}

/// A [`WholeRows`] as a stored procedure.
pub struct Stored<W>(pub W);

impl<W: WholeRows> Stored<W> {
    fn args(&self, args: &[Datum]) -> SqlResult<Vec<i64>> {
        let text = |arg: &Datum| match arg {
            Datum::Int(i) => Some(vec![*i]),
            // A list of integers.
            Datum::Text(text) => text.split(',').map(|word| word.trim().parse().ok()).collect(),
            _ => None,
        };
        let refused = || {
            let message = format!("{} takes integers, and a text of integers last", self.0.name());
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
        };
        if args.len() != self.0.arguments().len() {
            return Err(refused());
        }
        let numbers: Option<Vec<Vec<i64>>> = args.iter().map(text).collect();
        Ok(numbers.ok_or_else(refused)?.concat())
    }
}

fn home(table: &Table, key: &[i64], topology: &Topology) -> PartitionId {
    match table.locate(&Datum::Int(key[0]), topology) {
        Location::One(partition) => partition,
        Location::Everywhere => unreachable!("these tables have homes"),
    }
}

fn key_of(values: &[i64]) -> Key {
    let mut key = Key::new();
    values.iter().for_each(|&value| key.push_int(i128::from(value)));
    key
}

fn values_of(row: &Row) -> Values {
    row.values().map(|value| value.int()).collect()
}

fn find(rows: &dyn RowView, table: &Table, touch: &Touch) -> Vec<Values> {
    if !touch.is_range() {
        return rows.get(table.id, &key_of(&touch.key)).iter().map(values_of).collect();
    }
    let mut found = Vec::new();
    rows.scan(table.id, &KeyRange::prefix(key_of(&touch.key)), false, &mut |_, row| {
        found.push(values_of(row));
        true
    });
    found
}

impl<W: WholeRows> Procedure for Stored<W> {
    fn name(&self) -> &'static str {
        self.0.name()
    }
    fn arguments(&self) -> Vec<(&'static str, DataType)> {
        let names = self.0.arguments();
        let is_list = |name: &str| name.ends_with("_list");
        let of = |name: &'static str| (name, if is_list(name) { DataType::Text } else { DataType::BigInt });
        names.iter().map(|name| of(name)).collect()
    }
    fn columns(&self) -> Vec<(&'static str, DataType)> {
        Vec::new()
    }

    fn declare(&self, args: &[Datum], catalog: &Catalog, topology: &Topology) -> SqlResult<AccessSet> {
        let args = self.args(args)?;
        let mut access = AccessSet::default();
        for touch in self.0.touches(&args) {
            let table = catalog.require(touch.table.name)?;
            let partition = home(table, &touch.key, topology);
            let key = key_of(&touch.key);
            let granule = match touch.is_range() {
                true => Granule::Range(table.id, KeyRange::prefix(key)),
                false => Granule::Key(table.id, key),
            };
            access.add(partition, granule, touch.mode);
        }
        access.normalize();
        Ok(access)
    }

    /// Of each touch here: how many rows, and their values.
    fn gather(
        &self,
        args: &[Datum],
        context: &ProcedureContext<'_>,
        rows: &dyn RowView,
    ) -> SqlResult<Vec<Datum>> {
        let args = self.args(args)?;
        let mut values = Vec::new();
        for (nth, touch) in self.0.touches(&args).iter().enumerate() {
            let table = context.catalog.require(touch.table.name)?;
            if home(table, &touch.key, context.topology) != context.partition {
                continue;
            }
            let found = find(rows, table, touch);
            self.0.check(&args, nth, &found)?;
            values.push(Datum::Int(found.len() as i64));
            values.extend(found.into_iter().flatten().map(Datum::Int));
        }
        Ok(values)
    }

    fn apply(
        &self,
        args: &[Datum],
        context: &ProcedureContext<'_>,
        exchange: &Exchange,
        rows: &mut dyn RowAccess,
    ) -> Vec<Row> {
        let args = self.args(args).expect("gathering read the same arguments");
        let table = |spec: &TableSpec| {
            &**context.catalog.require(spec.name).expect("gathering found the same tables")
        };
        let mut gathered: std::collections::BTreeMap<PartitionId, std::slice::Iter<'_, Datum>> =
            exchange.iter().map(|(partition, values)| (*partition, values.iter())).collect();
        let found: Vec<Vec<Values>> = self
            .0
            .touches(&args)
            .iter()
            .map(|touch| {
                let partition = home(table(touch.table), &touch.key, context.topology);
                let values = gathered.get_mut(&partition).expect("every participant has gathered");
                let mut next = || values.next().expect("as many values as were gathered").int();
                let (count, width) = (next(), touch.table.columns.len());
                (0..count).map(|_| (0..width).map(|_| next()).collect()).collect()
            })
            .collect();
        for change in self.0.changes(&args, &found) {
            match change {
                Change::Put(spec, values) => {
                    if home(table(spec), &values, context.topology) == context.partition {
                        let key = key_of(&values[..spec.primary_key.len()]);
                        let row: Vec<Datum> = values.into_iter().map(Datum::Int).collect();
                        rows.put(table(spec).id, key, Row::of(&row));
                    }
                }
                Change::Delete(spec, key) => {
                    if home(table(spec), &key, context.topology) == context.partition {
                        rows.delete(table(spec).id, &key_of(&key));
                    }
                }
            }
        }
        Vec::new()
    }
}
