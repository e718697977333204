//! `pg_tables` and `pg_indexes`: what there is, by names.

use super::{BOOL, Made, OID, Owned, TEXT, array_of, has_primary_key, privileges, text};
use crate::context::Context;
use crate::system::partitions;
use base::Datum;
use base::schema::Index;
use sql::ddl::indexes::written::{self, Style};

pub(super) fn tables(context: &Context<'_>) -> Made {
    let mut made = Made::new(&[
        ("schemaname", TEXT),
        ("tablename", TEXT),
        ("tableowner", TEXT),
        ("tablespace", TEXT),
        ("hasindexes", BOOL),
        ("hasrules", BOOL),
        ("hastriggers", BOOL),
        ("rowsecurity", BOOL),
    ]);
    let catalog = context.catalog;
    made.rows = partitions::tables(catalog)
        .filter(|t| !sql::materialized::is_one(catalog, t.id))
        .map(|t| {
            let no = || Datum::Bool(false);
            // Indexes are shown at the table that has the rows.
            let has_rows = catalog.tables.contains_key(&t.id);
            let indexed = Datum::Bool(has_rows && (has_primary_key(t) || !t.indexes.is_empty()));
            let owner = context.catalog.roles.owner_of(&Owned::Relation(t.id));
            let owner = privileges::role_name(context, owner).unwrap_or_default();
            vec![text(&t.schema), text(&t.name), text(owner), Datum::Null, indexed, no(), no(), no()]
        })
        .collect();
    made
}

pub(super) fn indexes(context: &Context<'_>) -> Made {
    let mut made = Made::new(&[
        ("schemaname", TEXT),
        ("tablename", TEXT),
        ("indexname", TEXT),
        ("tablespace", TEXT),
        ("indexdef", TEXT),
    ]);
    for table in context.catalog.tables.values() {
        let mut add = |index: &Index| {
            let definition = written::definition(table, index, Style::Plain);
            made.rows.push(vec![
                text(&table.schema),
                text(&table.name),
                text(&index.name),
                Datum::Null,
                text(definition),
            ]);
        };
        if has_primary_key(table) {
            add(&super::super::definitions::primary_index(table));
        }
        table.indexes.iter().for_each(&mut add);
    }
    made
}

/// Policies of rows, of which there are none.
pub(super) fn policies() -> Made {
    Made::new(&[
        ("oid", OID),
        ("polname", TEXT),
        ("polrelid", OID),
        ("polcmd", TEXT),
        ("polpermissive", BOOL),
        ("polroles", array_of(OID)),
        ("polqual", TEXT),
        ("polwithcheck", TEXT),
    ])
}
