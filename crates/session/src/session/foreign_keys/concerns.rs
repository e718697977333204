//! Which statements are about foreign keys.

use base::TableId;
use base::error::{SqlError, SqlResult};
use base::schema::{Catalog, ForeignKey, Identity, SchemaAction};
use base::txn::{AccessMode, AccessSet, OnConflict};
use sql::lower::insert::InsertPlan;

/// Whether new rows of a plan have to be held against foreign keys.
pub fn concern_insert(plan: &InsertPlan) -> bool {
    let foreign = &plan.table.foreign;
    let is_unique = |column: &usize| {
        let mut unique = plan.table.indexes.iter().filter(|index| index.unique);
        plan.table.primary_key.contains(column) || unique.any(|index| index.columns.contains(column))
    };
    let may_lose = match &plan.on_conflict {
        OnConflict::Update { set, .. } => set.iter().any(|(column, _)| is_unique(column)),
        OnConflict::Fail | OnConflict::Nothing { .. } => false,
    };
    !foreign.own.is_empty() || (may_lose && !foreign.inbound.is_empty())
}

/// Whether any of the writes that are declared is of a table with foreign keys, or of one that is referenced.
pub fn concern_writes(catalog: &Catalog, access: &AccessSet) -> bool {
    let mut writes = access.by_partition.values().flatten().filter(|a| a.mode == AccessMode::Write);
    writes.any(|access| {
        let table = access.granule.table().and_then(|id| catalog.table(id));
        table.is_some_and(|table| !table.foreign.is_empty())
    })
}

/// Errors: 0A000 where a procedure that the program brings is to write a table with triggers: it has no statements. Or one
/// with columns that are computed: it writes rows as they are.
pub fn refuse_procedure(catalog: &Catalog, access: &AccessSet) -> SqlResult<()> {
    let writes = access.by_partition.values().flatten().filter(|a| a.mode == AccessMode::Write);
    let written = writes.filter_map(|access| access.granule.table().and_then(|id| catalog.table(id)));
    for table in written {
        let computes = |hidden: bool| {
            table.columns.iter().any(|c| c.identity == Identity::Generated && c.hidden == hidden)
        };
        let has = if !table.triggers.is_empty() {
            "triggers, which fire for statements"
        } else if computes(false) {
            "generated columns, which statements compute"
        } else if computes(true) {
            "indexes over expressions, which statements compute"
        } else {
            continue;
        };
        let told = format!("a built-in procedure that writes \"{}\"", table.name);
        let hint = format!("The table has {has}. Drop them, or write it with statements.");
        return Err(SqlError::unsupported(told).hint(hint));
    }
    Ok(())
}

/// Foreign keys that actions add or validate, of tables that are there already: their rows have to keep them. `replaces`:
/// a table that is made anew, and the one before it.
pub fn added(
    before: &Catalog,
    actions: &[SchemaAction],
    replaces: Option<(TableId, TableId)>,
) -> Vec<(TableId, String)> {
    let mut keys = Vec::new();
    for action in actions {
        let (new, old) = match action {
            SchemaAction::AlterTable(table) => (table, before.table(table.id)),
            SchemaAction::CreateTable(table) => {
                let old = replaces.filter(|(to, _)| *to == table.id).and_then(|(_, from)| before.table(from));
                (table, old)
            }
            _ => continue,
        };
        let Some(old) = old else { continue };
        let is_same_table = |now: TableId, was: TableId| now == was || replaces == Some((now, was));
        let is_known = |key: &&ForeignKey| {
            old.foreign.own.iter().any(|known| {
                known.is_validated
                    && known.columns == key.columns
                    && known.referenced == key.referenced
                    && known.is_full == key.is_full
                    && (known.partition.is_none() || known.partition_id() == key.partition_id())
                    && is_same_table(key.table, known.table)
            })
        };
        let added = new.foreign.own.iter().filter(|key| key.is_validated && !is_known(key));
        keys.extend(added.map(|key| (new.id, key.name.clone())));
    }
    keys
}
