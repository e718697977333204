//! `pg_depend`.

use super::super::Made;
use super::{INT, OID, TEXT, default_oid, int, text};
use crate::context::Context;
use crate::system::partitions;
use base::TableId;
use base::schema::Table;
use sql::lower::oid;
use std::collections::BTreeSet;

/// What depends on what, as far as users made it: views on what they read, partitions on what they are of, sequences on
/// their columns, functions on the types of their signatures.
pub(super) fn depend(context: &Context<'_>) -> Made {
    const CLASS: u32 = 1259;
    const DEFAULT: u32 = 2604;
    const TYPE: u32 = 1247;
    const PROC: u32 = 1255;
    let mut made = Made::new(&[
        ("classid", OID),
        ("objid", OID),
        ("objsubid", INT),
        ("refclassid", OID),
        ("refobjid", OID),
        ("refobjsubid", INT),
        ("deptype", TEXT),
    ]);
    let mut put = |class: u32, object: i64, of: TableId, column: usize, kind: &str| {
        made.rows.push(vec![
            int(class),
            int(object),
            int(0),
            int(CLASS),
            int(oid(of)),
            int(column as i64),
            text(kind),
        ]);
    };
    for table in partitions::tables(context.catalog) {
        for (number, column) in table.visible_columns() {
            // A dump makes the sequence first, though that is made for the column.
            let counted = column.default.as_deref().filter(|_| !column.identity.is_identity());
            let counted = counted.and_then(|default| sequence_of(context, table, number, default));
            if let Some(sequence) = counted {
                put(DEFAULT, default_oid(table, number), sequence, 0, "n");
            }
        }
    }
    let mut add =
        |object: TableId, of: TableId, column, kind: &str| put(CLASS, oid(object).into(), of, column, kind);
    for view in context.catalog.views.values() {
        if let Some(partition) = &view.partition {
            add(view.shape.id, partition.parent, 0, "a");
            continue;
        }
        for (of, columns) in &view.uses {
            add(view.shape.id, *of, 0, "n");
            columns.iter().for_each(|column| add(view.shape.id, *of, column + 1, "n"));
        }
    }
    for sequence in context.catalog.sequences.values() {
        let Some((of, column)) = sequence.owner else { continue };
        let table = context.catalog.table(of);
        let is_identity = table.is_some_and(|t| t.columns[column].identity.is_identity());
        add(sequence.id, of, column + 1, if is_identity { "i" } else { "a" });
    }
    let mut need = |class: u32, object: TableId, (of_class, of): (u32, TableId)| {
        let numbers = [class, oid(object), 0, of_class, oid(of), 0];
        made.rows.push(numbers.into_iter().map(int).chain([text("n")]).collect());
    };
    for routine in context.catalog.routines.0.values() {
        let types = routine.all_types().flat_map(|of| of.domain.or(of.data_type.made_id()));
        let mut needed: BTreeSet<(u32, TableId)> = types.map(|id| (TYPE, id)).collect();
        needed.extend(routine.row_of().map(|id| (CLASS, id)));
        needed.into_iter().for_each(|of| need(PROC, routine.id, of));
    }
    for of in context.catalog.types.composites.values() {
        let types: BTreeSet<TableId> = of.attributes().iter().filter_map(|a| a.data_type.made_id()).collect();
        types.into_iter().for_each(|needed| need(TYPE, of.id(), (TYPE, needed)));
    }
    made
}

/// The sequence that a default counts.
fn sequence_of(context: &Context<'_>, table: &Table, column: usize, default: &str) -> Option<TableId> {
    let (_, rest) = default.split_once("nextval('")?;
    let (name, _) = rest.split_once('\'')?;
    let catalog = context.catalog;
    let owned = catalog.sequences.values().find(|sequence| sequence.owner == Some((table.id, column)));
    let named = || sql::catalog::find_sequence(catalog, context.search_path, name).ok();
    owned.or_else(named).map(|sequence| sequence.id)
}
