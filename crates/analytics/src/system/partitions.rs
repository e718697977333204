//! Partitioned tables and their partitions in the system catalog: `pg_inherits`, `pg_partitioned_table`, and functions about
//! them.
//!
//! A partition is kept as a view ([`base::partitioning`]). Here it is a table, with the columns and the checks of the table
//! that has its rows; indexes and keys are shown at that table only. KEEPS: nothing here shows the check without a name that
//! refuses rows of no partition.

use super::Made;
use super::primary_keys::{has_primary_key, primary_key_oid};
use crate::context::Context;
use base::domain::Domain;
use base::partitioning::{Bound, PartitionKey, Strategy};
use base::schema::{Catalog, Column, Identity, Table};
use base::views::View;
use base::{DataType, Datum, TableId};
use sql::lower::{FIRST_OID, oid};
use std::borrow::Cow;
use std::sync::Arc;

const INT: DataType = DataType::Integer;
const SMALL: DataType = DataType::SmallInt;
const BOOL: DataType = DataType::Boolean;
const TEXT: DataType = DataType::Text;

/// Functions that tell something of a partitioned table or of a partition as text.
pub(super) const FUNCTIONS: &[&str] = &["pg_get_partkeydef", "pg_get_partition_constraintdef"];

fn int(i: impl Into<i64>) -> Datum {
    Datum::Int(i.into())
}
fn text(s: impl AsRef<str>) -> Datum {
    Datum::text(s)
}

/// All partitions.
pub(super) fn all(catalog: &Catalog) -> impl Iterator<Item = &Arc<View>> {
    catalog.views.values().filter(|view| view.partition.is_some())
}

/// Views that are nothing else: they keep no rows, and are no partitions.
pub(super) fn views(catalog: &Catalog) -> impl Iterator<Item = &Arc<View>> {
    sql::materialized::plain(catalog).filter(|view| view.partition.is_none())
}

/// Tables, and partitions as tables.
pub(super) fn tables(catalog: &Catalog) -> impl Iterator<Item = &Arc<Table>> {
    catalog.tables.values().chain(all(catalog).map(|view| &view.shape))
}

pub(super) fn is_one(catalog: &Catalog, id: TableId) -> bool {
    sql::partitions::partition(catalog, id).is_some()
}

/// `relkind` of a table or a partition.
pub(super) fn kind(table: &Table) -> &'static str {
    if table.partitioning.is_some() { "p" } else { "r" }
}

/// `relkind` of a view.
pub(super) fn kind_of_view(view: &View) -> &'static str {
    if view.partition.is_some() { kind(&view.shape) } else { "v" }
}

/// How many checks a view shows: a partition those of its table.
pub(super) fn checks_of_view(catalog: &Catalog, view: &View) -> usize {
    let table = view.partition.as_ref().and_then(|of| sql::partitions::root(catalog, of.parent));
    table.map_or(0, |table| table.declared_checks().count())
}

/// A column as it is shown. In a partition an identity column counts nothing, and has no default.
pub(super) fn shown<'c>(catalog: &Catalog, table: &Table, column: &'c Column) -> Cow<'c, Column> {
    if column.identity.is_identity() && is_one(catalog, table.id) {
        return Cow::Owned(Column { identity: Identity::No, default: None, ..column.clone() });
    }
    Cow::Borrowed(column)
}

/// The domain of a column, which one of a partition has from the table with its rows.
pub(super) fn domain<'c>(catalog: &'c Catalog, table: &'c Table, column: usize) -> Option<&'c Arc<Domain>> {
    if !is_one(catalog, table.id) {
        return table.domains.get(&column);
    }
    let root = sql::partitions::root(catalog, table.id)?;
    let (number, _) = root.visible_columns().nth(column)?;
    root.domains.get(&number)
}

/// `relpartbound` of a partition: what `pg_get_expr` makes of it.
pub(super) fn bound(context: &Context<'_>, view: &View) -> Option<String> {
    let partition = view.partition.as_ref()?;
    let root = sql::partitions::root(context.catalog, partition.parent)?;
    let divides = context.catalog.relation(partition.parent)?.shape().partitioning.as_ref()?;
    Some(sql::partitions::shown_bound(root, divides, &partition.bound, context.zone))
}

/// A table about partitions; `None` if there is none of this name.
pub(super) fn make(context: &Context<'_>, name: &str) -> Option<Made> {
    Some(match name {
        "pg_inherits" => inherits(context),
        "pg_partitioned_table" => divided(context),
        "meridian_partition_tree" => tree(context),
        "meridian_partition_ancestors" => ancestors(context),
        _ => return None,
    })
}

fn inherits(context: &Context<'_>) -> Made {
    let columns = [("inhrelid", INT), ("inhparent", INT), ("inhseqno", INT), ("inhdetachpending", BOOL)];
    let mut made = Made::new(&columns);
    for view in all(context.catalog) {
        let Some(partition) = &view.partition else { continue };
        let (id, parent) = (oid(view.shape.id), oid(partition.parent));
        made.rows.push(vec![int(id), int(parent), int(1), Datum::Bool(false)]);
    }
    made
}

/// Words of a vector, or of a list, of what a relation is divided by.
fn listed(keys: &[PartitionKey], between: &str, word: impl Fn(&PartitionKey) -> Option<String>) -> String {
    keys.iter().filter_map(word).collect::<Vec<_>>().join(between)
}

fn divided(context: &Context<'_>) -> Made {
    let catalog = context.catalog;
    let mut made = Made::new(&[
        ("partrelid", INT),
        ("partstrat", TEXT),
        ("partnatts", SMALL),
        ("partdefid", INT),
        ("partattrs", TEXT),
        ("partclass", TEXT),
        ("partcollation", TEXT),
        ("partexprs", TEXT),
    ]);
    for shape in tables(catalog) {
        let Some(divides) = &shape.partitioning else { continue };
        let Some(root) = sql::partitions::root(catalog, shape.id) else { continue };
        let is_default =
            |view: &&Arc<View>| view.partition.as_ref().is_some_and(|of| of.bound == Bound::Default);
        let default = sql::partitions::children(catalog, shape.id).into_iter().find(is_default);
        // A partition has no column that its table hides.
        let number = |column: usize| match root.id == shape.id {
            true => column + 1,
            false => root.visible_columns().filter(|(at, _)| *at <= column).count(),
        };
        let keys = &divides.keys;
        let zeros = || listed(keys, " ", |_| Some("0".into()));
        let expressions = listed(keys, ", ", |key| match key {
            PartitionKey::Expression(text, _) => Some(text.clone()),
            PartitionKey::Column(_) => None,
        });
        made.rows.push(vec![
            int(oid(shape.id)),
            text(match divides.strategy {
                Strategy::List => "l",
                Strategy::Range => "r",
                Strategy::Hash => "h",
            }),
            int(keys.len() as i64),
            int(default.map_or(0, |view| oid(view.shape.id))),
            text(listed(keys, " ", |key| Some(key.column().map_or(0, number).to_string()))),
            text(zeros()),
            text(zeros()),
            if expressions.is_empty() { Datum::Null } else { text(expressions) },
        ]);
    }
    made
}

/// A relation and what it is a partition of, up to the table that has the rows.
fn upwards(catalog: &Catalog, id: TableId) -> impl Iterator<Item = TableId> {
    std::iter::successors(Some(id), move |id| Some(sql::partitions::partition(catalog, *id)?.parent))
}

/// Partitioned tables and partitions.
fn members(catalog: &Catalog) -> impl Iterator<Item = &Arc<Table>> {
    tables(catalog).filter(move |table| table.partitioning.is_some() || is_one(catalog, table.id))
}

/// What `pg_partition_tree` tells, with the relation that it is asked about.
fn tree(context: &Context<'_>) -> Made {
    let catalog = context.catalog;
    let mut made = Made::new(&[
        ("relid", INT),
        ("parentrelid", INT),
        ("isleaf", BOOL),
        ("level", INT),
        ("meridian_of", INT),
    ]);
    let row = |of: u32, relation: u32, parent: Option<TableId>, is_leaf: bool, level: usize| {
        let parent = parent.map_or(Datum::Null, |id| int(oid(id)));
        vec![int(relation), parent, Datum::Bool(is_leaf), int(level as i64), int(of)]
    };
    for of in members(catalog) {
        let below = sql::partitions::below(catalog, of.id).into_iter().map(|view| &view.shape);
        let mut levels: Vec<(usize, &Arc<Table>)> = [of]
            .into_iter()
            .chain(below)
            .filter_map(|table| Some((upwards(catalog, table.id).position(|id| id == of.id)?, table)))
            .collect();
        levels.sort_by_key(|(level, _)| *level);
        for (level, table) in levels {
            let parent = upwards(catalog, table.id).nth(1);
            made.rows.push(row(oid(of.id), oid(table.id), parent, table.partitioning.is_none(), level));
        }
    }
    // An index of a partitioned table is one too. Its parts have no names.
    for table in catalog.tables.values().filter(|table| table.partitioning.is_some()) {
        let indexes = table.indexes.iter().map(|index| oid(index.id));
        let key = has_primary_key(table).then(|| primary_key_oid(table));
        for number in indexes.chain(key) {
            made.rows.push(row(number, number, None, false, 0));
        }
    }
    made
}

/// What `pg_partition_ancestors` tells, with the relation that it is asked about.
fn ancestors(context: &Context<'_>) -> Made {
    let catalog = context.catalog;
    let mut made = Made::new(&[("relid", INT), ("meridian_of", INT)]);
    for of in members(catalog) {
        let rows = upwards(catalog, of.id).map(|id| vec![int(oid(id)), int(oid(of.id))]);
        made.rows.extend(rows);
    }
    made
}

fn relation(number: i64) -> Option<TableId> {
    u32::try_from(number).ok()?.checked_sub(FIRST_OID).map(TableId)
}

/// `pg_partition_root`.
pub(super) fn root(context: &Context<'_>, number: i64) -> Option<i64> {
    let id = relation(number)?;
    let is_member = is_one(context.catalog, id)
        || context.catalog.table(id).is_some_and(|table| table.partitioning.is_some());
    let root = sql::partitions::root(context.catalog, id).filter(|_| is_member)?;
    Some(oid(root.id).into())
}

/// One of [`FUNCTIONS`].
pub(super) fn told(context: &Context<'_>, function: &str, number: i64) -> Option<String> {
    let (catalog, id) = (context.catalog, relation(number)?);
    let root = sql::partitions::root(catalog, id)?;
    if function == "pg_get_partkeydef" {
        let divides = catalog.relation(id)?.shape().partitioning.as_ref()?;
        return Some(sql::partitions::shown_key(root, divides));
    }
    is_one(catalog, id).then(|| sql::partitions::Tree::within(catalog, root).shown_condition(id))
}
