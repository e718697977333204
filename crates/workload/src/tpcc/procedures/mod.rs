//! The five transactions as Meridian's stored procedures; `procedures.sql` has the same for PostgreSQL.
//!
//! KEEPS: every abort is decided while gathering; applying only writes. A warehouse's tables lie in
//! one partition ([`placed`] refuses anything else), so all that crosses partitions is stock and catalogue
//! values of an order, and the customer of a payment.
//!
//! A new order's number is not known before its district row is read, so its rows are declared as the key
//! ranges of the district. They add no conflict among orders of a district, which meet at its row anyway.

pub mod delivery;
pub mod new_order;
pub mod order_status;
pub mod payment;
pub mod stock_level;

use super::tables::customer;
use super::{Table as Known, UNKNOWN_ITEM};
use base::error::{SqlError, SqlResult, SqlState};
use base::key::KeyRange;
use base::schema::{Catalog, Index, Location, Table};
use base::topology::Topology;
use base::txn::procedure::{Procedures, RowView};
use base::txn::{AccessMode, AccessSet, Granule};
use base::{DataType, Datum, Key, PartitionId, Row};
use std::sync::Arc;

/// Registers the five procedures.
pub fn register(procedures: &mut Procedures) {
    procedures.register(new_order::NewOrder);
    procedures.register(payment::Payment);
    procedures.register(order_status::OrderStatus);
    procedures.register(delivery::Delivery);
    procedures.register(stock_level::StockLevel);
}

/// What a row that must exist is missing for: PL/pgSQL's `no_data_found`, like an unknown item.
const NO_DATA_FOUND: SqlState = {
    let bytes = UNKNOWN_ITEM.as_bytes();
    SqlState([bytes[0], bytes[1], bytes[2], bytes[3], bytes[4]])
};

fn not_found(what: &str, key: &[i64]) -> SqlError {
    let key: Vec<String> = key.iter().map(i64::to_string).collect();
    SqlError::new(NO_DATA_FOUND, format!("{what} ({}) does not exist", key.join(", ")))
}

/// A table of the benchmark as it stands in the catalog: the columns and key that the procedures know, and
/// nothing that only SQL statements would obey.
fn known(catalog: &Catalog, table: Known) -> SqlResult<&Arc<Table>> {
    let spec = table.spec();
    let found = catalog.require(spec.name)?;
    let columns_fit = found.columns.len() >= spec.columns.len()
        && spec.columns.iter().zip(&found.columns).all(|((name, data_type), column)| {
            column.name.eq_ignore_ascii_case(name) && column.data_type == *data_type
        });
    let key_fits = found.primary_key.len() == spec.primary_key.len()
        && found.primary_key.iter().enumerate().all(|(n, &column)| n == column);
    if !columns_fit || !key_fits {
        return Err(SqlError::new(
            SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("table \"{}\" does not have the columns and primary key of TPC-C", spec.name),
        )
        .hint("Make the tables with `meridian bench tpcc --load --drop`."));
    }
    if !found.checks.is_empty() {
        return Err(SqlError::unsupported(format!(
            "CHECK constraints on \"{}\" together with TPC-C's stored procedures",
            spec.name
        )));
    }
    Ok(found)
}

/// The one partition in which all these tables keep this warehouse.
fn placed(tables: &[&Arc<Table>], warehouse: i64, topology: &Topology) -> SqlResult<PartitionId> {
    let mut home = None;
    for table in tables {
        let here = table.locate(&Datum::Int(warehouse), topology);
        let Location::One(partition) = here else {
            return Err(SqlError::unsupported(format!("a replicated \"{}\"", table.name)));
        };
        if home.is_some_and(|home| home != partition) {
            return Err(SqlError::unsupported(format!(
                "\"{}\" placed apart from the other tables of its warehouse",
                table.name
            )));
        }
        if let Some(index) = table.indexes.iter().find(|index| !table.index_is_local(index, topology)) {
            return Err(SqlError::unsupported(format!(
                "the unique index \"{}\", which does not contain the warehouse",
                index.name
            )));
        }
        home = Some(partition);
    }
    Ok(home.expect("at least one table"))
}

/// [`placed`] without its checks, for the halves that run after [`known`] and `placed` have agreed.
fn home(table: &Table, warehouse: i64, topology: &Topology) -> PartitionId {
    match table.locate(&Datum::Int(warehouse), topology) {
        Location::One(partition) => partition,
        Location::Everywhere => unreachable!("replicated tables of a warehouse were refused"),
    }
}

/// Where an item is read: in its own partition, or, if every partition has all items, in `reader`.
fn item_home(item: &Table, id: i64, reader: PartitionId, topology: &Topology) -> PartitionId {
    match item.locate(&Datum::Int(id), topology) {
        Location::One(partition) => partition,
        Location::Everywhere => reader,
    }
}

/// Declares rows that will be inserted: `known` holds the values of the leading columns, which are known
/// before execution; what is not known widens the key to a range, in the table and in its indexes.
fn declare_insert(access: &mut AccessSet, partition: PartitionId, table: &Table, known: &[i64]) {
    declare_rows(access, partition, table, known, AccessMode::Write);
    table.indexes.iter().for_each(|index| declare_entries(access, partition, index, known));
}

/// Declares that some columns of existing rows change.
fn declare_update(
    access: &mut AccessSet,
    partition: PartitionId,
    table: &Table,
    known: &[i64],
    changed: &[usize],
) {
    declare_rows(access, partition, table, known, AccessMode::Write);
    let touched = table.indexes.iter().filter(|index| index.columns.iter().any(|c| changed.contains(c)));
    touched.for_each(|index| declare_entries(access, partition, index, known));
}

/// Declares rows by the values of their leading key columns.
fn declare_rows(
    access: &mut AccessSet,
    partition: PartitionId,
    table: &Table,
    known: &[i64],
    mode: AccessMode,
) {
    let key = key(known);
    let granule = if known.len() >= table.primary_key.len() {
        Granule::Key(table.id, key)
    } else {
        Granule::Range(table.id, KeyRange::prefix(key))
    };
    access.add(partition, granule, mode);
}

fn declare_entries(access: &mut AccessSet, partition: PartitionId, index: &Index, known: &[i64]) {
    let leading: Vec<i64> = index.columns.iter().map_while(|&column| known.get(column).copied()).collect();
    access.add(partition, Granule::Range(index.id, KeyRange::prefix(key(&leading))), AccessMode::Write);
}

fn key(values: &[i64]) -> Key {
    let mut key = Key::new();
    values.iter().for_each(|&value| key.push_int(i128::from(value)));
    key
}

/// An integer argument that must not be null.
fn int_arg(args: &[Datum], position: usize, name: &str) -> SqlResult<i64> {
    match args.get(position) {
        Some(Datum::Int(i)) => Ok(*i),
        _ => Err(null_argument(name)),
    }
}

fn null_argument(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("argument \"{name}\" must not be null"))
}

/// A timestamp argument that must not be null.
fn time_arg(args: &[Datum], position: usize, name: &str) -> SqlResult<Datum> {
    match args.get(position) {
        Some(time @ Datum::Timestamp(_)) => Ok(time.clone()),
        _ => Err(null_argument(name)),
    }
}

/// A customer as the arguments name it: number, or last name if that is given.
enum Customer<'a> {
    Id(i64),
    LastName(&'a str),
}

/// Reads a customer's number and last name from two neighbouring arguments.
fn customer_arg(args: &[Datum], position: usize) -> SqlResult<Customer<'_>> {
    match (args.get(position), args.get(position + 1)) {
        (_, Some(Datum::Text(name))) => Ok(Customer::LastName(name)),
        (Some(Datum::Int(id)), _) => Ok(Customer::Id(*id)),
        _ => {
            Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "a customer needs a number or a last name"))
        }
    }
}

/// The index by which customers are found by name, if the table has it.
fn name_index(table: &Table) -> Option<&Index> {
    use customer::*;
    table.indexes.iter().find(|index| index.columns.starts_with(&[C_W_ID, C_D_ID, C_LAST, C_FIRST]))
}

/// Declares finding a customer and reading or changing its row.
fn declare_customer(
    access: &mut AccessSet,
    partition: PartitionId,
    table: &Table,
    (w, d): (i64, i64),
    who: &Customer<'_>,
    changed: &[usize],
) {
    let known: &[i64] = match who {
        Customer::Id(id) => &[w, d, *id],
        Customer::LastName(_) => &[w, d],
    };
    if changed.is_empty() {
        declare_rows(access, partition, table, known, AccessMode::Read);
    } else {
        declare_update(access, partition, table, known, changed);
    }
    if let (Customer::LastName(name), Some(index)) = (who, name_index(table)) {
        let range = KeyRange::prefix(name_key(w, d, name));
        access.add(partition, Granule::Range(index.id, range), AccessMode::Read);
    }
}

fn name_key(w: i64, d: i64, name: &str) -> Key {
    let mut key = key(&[w, d]);
    key.push(&Datum::text(name));
    key
}

/// The customer's key and row: by name the middle one in the order of first names, rounded up.
fn find_customer(
    rows: &dyn RowView,
    table: &Table,
    (w, d): (i64, i64),
    who: &Customer<'_>,
) -> SqlResult<(Key, Row)> {
    let name = match who {
        Customer::Id(id) => {
            let key = key(&[w, d, *id]);
            let row = rows.get(table.id, &key).ok_or_else(|| not_found("customer", &[w, d, *id]))?;
            return Ok((key, row));
        }
        Customer::LastName(name) => *name,
    };
    let mut found: Vec<(Key, Row)> = Vec::new();
    match name_index(table) {
        Some(index) => {
            let range = KeyRange::prefix(name_key(w, d, name));
            rows.scan_index(index.id, &range, false, &mut |key, row| {
                found.push((key.clone(), row.clone()));
                true
            });
        }
        None => {
            rows.scan(table.id, &KeyRange::prefix(key(&[w, d])), false, &mut |key, row| {
                if row.get(customer::C_LAST).str() == name {
                    found.push((key.clone(), row.clone()));
                }
                true
            });
            // Customers come in the order of their numbers; a stable sort leaves ties in it.
            found
                .sort_by(|(_, a), (_, b)| a.get(customer::C_FIRST).str().cmp(b.get(customer::C_FIRST).str()));
        }
    }
    if found.is_empty() {
        return Err(SqlError::new(NO_DATA_FOUND, format!("no customer of ({w}, {d}) is called {name}")));
    }
    let middle = (found.len() - 1) / 2;
    Ok(found.swap_remove(middle))
}

/// A value as a column of the benchmark takes it; 22003 if it does not fit.
fn fit(table: Known, column: usize, value: Datum) -> SqlResult<Datum> {
    table.spec().columns[column].1.coerce(value)
}

/// What procedures call their integer arguments and results.
const INT: DataType = DataType::Integer;

#[cfg(test)]
mod tests;
