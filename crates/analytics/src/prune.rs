//! What filters say of partitions and of blocks.

use super::types;
use base::schema::{Location, Table};
use base::topology::Topology;
use base::{Datum, PartitionId};
use colstore::{ColumnPredicate, Comparison};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use datafusion::physical_expr::{PhysicalExpr, expressions as physical};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Predicates that zone maps can use.
pub(super) fn predicates(table: &Table, filters: &[Expr]) -> Vec<ColumnPredicate> {
    let mut out = Vec::new();
    filters.iter().for_each(|f| collect(table, f, &mut out));
    out
}

fn collect(table: &Table, filter: &Expr, out: &mut Vec<ColumnPredicate>) {
    match filter {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            collect(table, left, out);
            collect(table, right, out);
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let (column, value, op) = match (column(table, left), column(table, right)) {
                (Some(c), None) => (c, constant(table, c, right), *op),
                (None, Some(c)) => (c, constant(table, c, left), op.swap().unwrap_or(*op)),
                _ => return,
            };
            let Some(comparison) = comparison(op) else { return };
            if let Some(value) = value {
                out.push(ColumnPredicate::Compare { column, comparison, value });
            }
        }
        Expr::Between(between) if !between.negated => {
            let Some(column) = column(table, &between.expr) else { return };
            if let Some(value) = constant(table, column, &between.low) {
                out.push(ColumnPredicate::Compare { column, comparison: Comparison::Ge, value });
            }
            if let Some(value) = constant(table, column, &between.high) {
                out.push(ColumnPredicate::Compare { column, comparison: Comparison::Le, value });
            }
        }
        Expr::IsNull(inner) => {
            out.extend(column(table, inner).map(|column| ColumnPredicate::IsNull { column }));
        }
        Expr::IsNotNull(inner) => {
            out.extend(column(table, inner).map(|column| ColumnPredicate::IsNotNull { column }));
        }
        other => {
            // IN lists, which the optimizer may have written as OR.
            let mut columns = BTreeSet::new();
            columns_of(table, other, &mut columns);
            if let [column] = columns.iter().copied().collect::<Vec<_>>()[..]
                && let Some(values) = values(table, column, other)
            {
                out.push(ColumnPredicate::In { column, values });
            }
        }
    }
}

fn columns_of(table: &Table, e: &Expr, out: &mut BTreeSet<usize>) {
    for c in e.column_refs() {
        // A column of another table makes the set unusable.
        out.insert(table.column_named(&c.name).unwrap_or(usize::MAX));
    }
}

/// The values that a filter leaves to a column; `None`: it does not say.
pub(super) fn values(table: &Table, wanted: usize, filter: &Expr) -> Option<Vec<Datum>> {
    match filter {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
            if column(table, left) == Some(wanted) {
                return constant(table, wanted, right).map(|v| vec![v]);
            }
            if column(table, right) == Some(wanted) {
                return constant(table, wanted, left).map(|v| vec![v]);
            }
            None
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            let mut all = values(table, wanted, left)?;
            all.extend(values(table, wanted, right)?);
            Some(all)
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            match (values(table, wanted, left), values(table, wanted, right)) {
                (Some(a), Some(b)) => Some(a.into_iter().filter(|v| b.contains(v)).collect()),
                (a, b) => a.or(b),
            }
        }
        Expr::InList(list) if !list.negated && column(table, &list.expr) == Some(wanted) => {
            list.list.iter().map(|e| constant(table, wanted, e)).collect()
        }
        _ => None,
    }
}

/// Partitions whose rows can satisfy all filters.
pub(super) fn partitions(table: &Table, filters: &[Expr], topology: &Topology) -> BTreeSet<PartitionId> {
    let all = || table.partitions(topology).into_iter().collect();
    let Some(column) = table.partition_column() else { return all() };
    let mut allowed: Option<Vec<Datum>> = None;
    for filter in filters {
        if let Some(values) = values(table, column, filter) {
            allowed = Some(match allowed {
                None => values,
                Some(before) => before.into_iter().filter(|v| values.contains(v)).collect(),
            });
        }
    }
    let Some(values) = allowed else { return all() };
    let data_type = table.columns[column].data_type;
    let mut found = BTreeSet::new();
    for value in values {
        match sql::lower::keys::key_value(value, data_type) {
            sql::lower::keys::KeyValue::Exact(value) => match table.locate(&value, topology) {
                Location::One(partition) => {
                    found.insert(partition);
                }
                Location::Everywhere => return all(),
            },
            sql::lower::keys::KeyValue::Never => {}
            sql::lower::keys::KeyValue::Unusable => return all(),
        }
    }
    found
}

fn column(table: &Table, e: &Expr) -> Option<usize> {
    match e {
        Expr::Column(c) => table.column_named(&c.name),
        Expr::Alias(alias) => column(table, &alias.expr),
        _ => None,
    }
}

/// What zone maps can say of one physical condition over the table's columns (by number): predicates that
/// its rows satisfy, and the predicate that says exactly the same, if there is one.
pub(super) fn physical_predicates(
    table: &Table,
    e: &Arc<dyn PhysicalExpr>,
) -> (Vec<ColumnPredicate>, Option<ColumnPredicate>) {
    let found = physical(table, e);
    // Texts may be compared with their blanks or without them: a zone map leaves that to the filter.
    let is_plain =
        |p: &ColumnPredicate| colstore::arrow_type(table.columns[p.column()].data_type).is_primitive();
    (found.iter().cloned().collect(), found.filter(is_plain))
}

fn physical(table: &Table, e: &Arc<dyn PhysicalExpr>) -> Option<ColumnPredicate> {
    let column = |e: &Arc<dyn PhysicalExpr>| e.downcast_ref::<physical::Column>().map(|c| c.index());
    let literal = |column: usize, e: &Arc<dyn PhysicalExpr>| {
        scalar_constant(table, column, e.downcast_ref::<physical::Literal>()?.value())
    };
    if let Some(binary) = e.downcast_ref::<physical::BinaryExpr>() {
        let (left, right) = (binary.left(), binary.right());
        let (column, value, op) = match (column(left), column(right)) {
            (Some(c), None) => (c, literal(c, right)?, *binary.op()),
            (None, Some(c)) => (c, literal(c, left)?, binary.op().swap()?),
            _ => return None,
        };
        let comparison = comparison(op)?;
        return Some(ColumnPredicate::Compare { column, comparison, value });
    }
    if let Some(list) = e.downcast_ref::<physical::InListExpr>() {
        let column = column(list.expr()).filter(|_| !list.negated())?;
        let values = list.list().iter().map(|e| literal(column, e)).collect::<Option<_>>()?;
        return Some(ColumnPredicate::In { column, values });
    }
    if let Some(null) = e.downcast_ref::<physical::IsNullExpr>() {
        return column(null.arg()).map(|column| ColumnPredicate::IsNull { column });
    }
    let null = e.downcast_ref::<physical::IsNotNullExpr>()?;
    column(null.arg()).map(|column| ColumnPredicate::IsNotNull { column })
}

fn comparison(op: Operator) -> Option<Comparison> {
    Some(match op {
        Operator::Eq => Comparison::Eq,
        Operator::Lt => Comparison::Lt,
        Operator::LtEq => Comparison::Le,
        Operator::Gt => Comparison::Gt,
        Operator::GtEq => Comparison::Ge,
        _ => return None,
    })
}

/// A literal as the column would hold it; `None` if it is not one, or cannot be compared exactly.
fn constant(table: &Table, column: usize, e: &Expr) -> Option<Datum> {
    match e {
        Expr::Literal(scalar, _) => scalar_constant(table, column, scalar),
        _ => None,
    }
}

fn scalar_constant(table: &Table, column: usize, scalar: &ScalarValue) -> Option<Datum> {
    if let ScalarValue::TimestampNanosecond(Some(ns), _) = scalar
        && ns % 1_000 != 0
    {
        // Columns hold no such moment.
        return None;
    }
    let value = types::datum(scalar)?;
    let data_type = table.columns[column].data_type;
    match sql::lower::keys::key_value(value, data_type) {
        sql::lower::keys::KeyValue::Exact(value) => Some(value),
        _ => None,
    }
}
