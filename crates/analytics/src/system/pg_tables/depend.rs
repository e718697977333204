//! `pg_depend`.

use super::super::Made;
use super::{INT, OID, TEXT, int, text};
use crate::context::Context;
use base::TableId;
use base::schema::Identity;
use sql::lower::oid;

/// What depends on what, as far as users made it: views on what they read, sequences on their columns.
pub(super) fn depend(context: &Context<'_>) -> Made {
    const CLASS: u32 = 1259;
    let mut made = Made::new(&[
        ("classid", OID),
        ("objid", OID),
        ("objsubid", INT),
        ("refclassid", OID),
        ("refobjid", OID),
        ("refobjsubid", INT),
        ("deptype", TEXT),
    ]);
    let mut add = |object: TableId, of: TableId, column: usize, kind: &str| {
        let (object, of) = (oid(object), oid(of));
        made.rows.push(vec![
            int(CLASS),
            int(object),
            int(0),
            int(CLASS),
            int(of),
            int(column as i64),
            text(kind),
        ]);
    };
    for view in context.catalog.views.values() {
        for (of, columns) in &view.uses {
            add(view.shape.id, *of, 0, "n");
            columns.iter().for_each(|column| add(view.shape.id, *of, column + 1, "n"));
        }
    }
    for sequence in context.catalog.sequences.values() {
        let Some((of, column)) = sequence.owner else { continue };
        let table = context.catalog.table(of);
        let is_identity = table.is_some_and(|t| t.columns[column].identity == Identity::Always);
        add(sequence.id, of, column + 1, if is_identity { "i" } else { "a" });
    }
    made
}
