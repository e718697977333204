//! What goes without being asked for: schemas of temporary tables, and defaults elsewhere that count by what is in them.

use super::kept_texts::named_in;
use super::sequences::drop_default;
use crate::catalog::written_name;
use crate::temporary::is_temporary;
use base::TableId;
use base::domain::Domain;
use base::schema::{Catalog, Identity, SchemaAction, Sequence, Table};
use std::sync::Arc;

/// Drops schemas of temporary tables with all that is in them.
pub fn drop_temporary(catalog: &Catalog, is_gone: impl Fn(&str) -> bool) -> Vec<SchemaAction> {
    let schemas: Vec<&String> = catalog.schemas.iter().filter(|s| is_temporary(s) && is_gone(s)).collect();
    if schemas.is_empty() {
        return Vec::new();
    }
    let is_in = |schema: &String| schemas.contains(&schema);
    let views = catalog.views.values().filter(|view| is_in(&view.shape.schema));
    let tables = catalog.tables.values().filter(|table| is_in(&table.schema));
    // A table's own sequences go with it.
    let is_owned = |s: &Sequence| {
        let owner = s.owner.and_then(|(table, _)| catalog.table(table));
        owner.is_some_and(|table| is_in(&table.schema))
    };
    let is_free = |s: &&Arc<Sequence>| is_in(&s.schema) && !is_owned(s);
    let sequences = catalog.sequences.values().filter(is_free);
    let mut actions: Vec<SchemaAction> = views.map(|view| SchemaAction::DropView(view.shape.id)).collect();
    let goes = |s: &Sequence| is_in(&s.schema) || is_owned(s);
    lose_defaults(catalog, goes, |table| !is_in(&table.schema), &mut actions);
    let routines = catalog.routines.0.values().filter(|routine| is_in(&routine.schema));
    actions.extend(routines.map(|routine| SchemaAction::DropRoutine(routine.id)));
    actions.extend(sequences.map(|sequence| SchemaAction::DropSequence(sequence.id)));
    actions.extend(tables.map(|table| SchemaAction::DropTable(table.id)));
    actions.extend(schemas.into_iter().map(|schema| SchemaAction::DropSchema(schema.clone())));
    actions
}

/// Takes away defaults that name sequences which go: those of tables that stay, and those of domains. PostgreSQL drops such
/// a domain, and its columns with it.
pub fn lose_defaults(
    catalog: &Catalog,
    goes: impl Fn(&Sequence) -> bool,
    stays: impl Fn(&Table) -> bool,
    actions: &mut Vec<SchemaAction>,
) {
    let gone: Vec<&Arc<Sequence>> = catalog.sequences.values().filter(|sequence| goes(sequence)).collect();
    let id_of = |text: &str| -> Option<TableId> {
        let (schema, name) = written_name(catalog, text).ok()?;
        let is_named = |s: &&&Arc<Sequence>| schema.as_ref() == Some(&s.schema) && s.name == name;
        gone.iter().find(is_named).map(|sequence| sequence.id)
    };
    let names_some = |sql: &String| {
        // Most defaults say nothing of the schema, and need not be parsed to know it.
        gone.iter().any(|s| sql.contains(s.schema.as_str())) && !named_in(sql, id_of).is_empty()
    };
    for table in catalog.tables.values().filter(|table| stays(table)) {
        for (at, column) in table.visible_columns() {
            let is_counted = matches!(column.identity, Identity::No | Identity::Serial);
            if is_counted && column.default.as_ref().is_some_and(names_some) {
                drop_default(catalog, table.id, at, actions);
            }
        }
    }
    for domain in catalog.types.domains.values() {
        if domain.default.as_ref().is_some_and(names_some) {
            actions.push(SchemaAction::PutDomain(Domain { default: None, ..domain.as_ref().clone() }));
        }
    }
}
