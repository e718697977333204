//! Temporary tables: a schema for each session that has some.
//!
//! A temporary table is an ordinary table in a schema whose name says which session it belongs to: of which node, in which
//! life of it. A session's search path holds the name of its own schema, first unless the user put `pg_temp` elsewhere,
//! whether or not there is such a schema yet.
//! KEEPS: a schema of this kind is found by its name only where it is on the search path, so other sessions reach nothing
//! in it; no two sessions, nor two lives of a node, have one name.

use base::schema::{Catalog, SchemaAction};
use base::{NodeId, TableId};
use std::sync::Arc;

/// What every session calls its own schema.
pub const ALIAS: &str = "pg_temp";

const PREFIX: &str = "pg_temp_";

/// Whose temporary tables a schema holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    pub node: NodeId,
    /// When the node's gateway began, in µs.
    pub life: i64,
    pub process: i32,
}

impl Owner {
    /// The schema's name.
    pub fn schema(self) -> String {
        format!("{PREFIX}{}_{}_{}", self.node.0, self.life, self.process)
    }
    /// The owner of a schema; `None` if it is no schema of temporary tables.
    pub fn of(schema: &str) -> Option<Owner> {
        let mut parts = schema.strip_prefix(PREFIX)?.split('_');
        let node = NodeId(parts.next()?.parse().ok()?);
        let (life, process) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        parts.next().is_none().then_some(Owner { node, life, process })
    }
}

/// Whether a schema holds temporary tables.
pub fn is_temporary(schema: &str) -> bool {
    schema.starts_with(PREFIX)
}

/// The session's own schema, whether or not it is there.
pub fn own(search_path: &[String]) -> Option<&str> {
    search_path.iter().map(String::as_str).find(|schema| is_temporary(schema))
}

/// The schema that a written one means; `None`: another session's.
pub fn meant<'p>(written: &'p str, search_path: &'p [String]) -> Option<&'p str> {
    match written {
        ALIAS => own(search_path),
        other if is_temporary(other) => own(search_path).filter(|own| *own == other),
        other => Some(other),
    }
}

/// Where a name is looked for: in the schema that is written before it, or else along the search path.
pub fn schemas<'p>(written: Option<&'p str>, search_path: &'p [String]) -> impl Iterator<Item = &'p str> {
    let path = if written.is_none() { search_path } else { &[] };
    written.and_then(|schema| meant(schema, search_path)).into_iter().chain(path.iter().map(String::as_str))
}

/// The search path without the session's own schema, as users know it.
pub fn shown(search_path: &[String]) -> impl Iterator<Item = &String> {
    search_path.iter().filter(|schema| !is_temporary(schema))
}

/// What makes another search path another one for plans: a schema that is not there is none.
pub fn key_of(search_path: &[String], catalog: &Catalog) -> String {
    let is_there = |schema: &&String| !is_temporary(schema) || catalog.schemas.contains(schema);
    search_path.iter().filter(is_there).cloned().collect::<Vec<_>>().join(",")
}

/// What an action makes, with its indexes.
fn made_by(action: &SchemaAction) -> Vec<TableId> {
    match action {
        SchemaAction::CreateTable(table) | SchemaAction::AlterTable(table) => {
            let parts = table.indexes.iter().map(|index| index.id);
            parts.chain(table.triggers.all().map(|trigger| trigger.id)).chain([table.id]).collect()
        }
        SchemaAction::CreateSequence(sequence) => vec![sequence.id],
        SchemaAction::PutView(view) => vec![view.shape.id],
        SchemaAction::PutRoutine(routine) => vec![routine.id],
        _ => Vec::new(),
    }
}

/// Whether a change makes something temporary.
pub fn makes_some(actions: &[SchemaAction]) -> bool {
    actions.iter().any(|action| match action {
        SchemaAction::CreateTable(table) => is_temporary(&table.schema),
        SchemaAction::CreateSequence(sequence) => is_temporary(&sequence.schema),
        SchemaAction::PutView(view) => is_temporary(&view.shape.schema),
        SchemaAction::PutRoutine(routine) => is_temporary(&routine.schema),
        _ => false,
    })
}

/// Ids that a change has given to what it makes.
pub fn ids_of(actions: &[SchemaAction]) -> impl Iterator<Item = TableId> + '_ {
    actions.iter().flat_map(made_by)
}

/// The first id behind all that a change has given.
pub fn id_behind(actions: &[SchemaAction]) -> u32 {
    ids_of(actions).map(|id| id.0 + 1).max().unwrap_or(0)
}

/// The catalog without other sessions' temporary tables; `None`: it is that already.
pub fn without_others(catalog: &Catalog, search_path: &[String]) -> Option<Catalog> {
    let own = own(search_path);
    let is_other = |schema: &String| is_temporary(schema) && own != Some(schema);
    if !catalog.schemas.iter().any(is_other) {
        return None;
    }
    let mut shown = catalog.clone();
    shown.tables.retain(|_, table| !is_other(&table.schema));
    shown.views.retain(|_, view| !is_other(&view.shape.schema));
    shown.sequences.retain(|_, sequence| !is_other(&sequence.schema));
    if shown.routines.0.values().any(|routine| is_other(&routine.schema)) {
        Arc::make_mut(&mut shown.routines).0.retain(|_, routine| !is_other(&routine.schema));
    }
    Some(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_says_whose_it_is() {
        let owner = Owner { node: NodeId(2), life: 1_795_000_000_000_000, process: 17 };
        assert_eq!(owner.schema(), "pg_temp_2_1795000000000000_17");
        assert_eq!(Owner::of(&owner.schema()), Some(owner));
        for other in ["pg_temp", "pg_temp_", "pg_temp_2_3", "pg_temp_2_3_4_5", "pg_temp_a_3_4", "public"] {
            assert_eq!(Owner::of(other), None, "{other}");
        }
    }

    #[test]
    fn only_its_own_session_finds_a_schema() {
        let path = ["pg_temp_0_1_2".to_string(), "public".to_string()];
        let found = |written| schemas(written, &path).collect::<Vec<_>>();
        assert_eq!(found(None), ["pg_temp_0_1_2", "public"]);
        assert_eq!(found(Some("pg_temp")), ["pg_temp_0_1_2"]);
        assert_eq!(found(Some("pg_temp_0_1_2")), ["pg_temp_0_1_2"]);
        assert!(found(Some("pg_temp_0_1_3")).is_empty());
        assert_eq!(found(Some("shop")), ["shop"]);
        assert_eq!(key_of(&path, &Catalog::default()), "public");
    }
}
