//! `WITH (…)`: where a table's rows live.

use super::{Ddl, DdlContext, Rewrite};
use crate::materialized;
use base::error::{SqlResult, SqlState};
use base::schema::{Catalog, MoveHome, Placement, RegionMap, SchemaAction, Sequence, Table};
use base::topology::Topology;
use base::views::View;
use base::{DataType, RegionId, SqlError, TableId};
use sqlparser::ast::{self, SqlOption};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Storage parameters, as written.
#[derive(Default)]
pub(super) struct StorageOptions(BTreeMap<String, String>);

impl StorageOptions {
    /// Errors: 22023 for parameters that are not known.
    pub fn read(options: &ast::CreateTableOptions) -> SqlResult<StorageOptions> {
        match options {
            ast::CreateTableOptions::None => StorageOptions::of(&[]),
            ast::CreateTableOptions::With(options) | ast::CreateTableOptions::Plain(options) => {
                StorageOptions::of(options)
            }
            _ => Err(SqlError::unsupported("table options other than WITH (…)")),
        }
    }

    /// Errors: 22023 for parameters that are not known.
    pub fn of(options: &[SqlOption]) -> SqlResult<StorageOptions> {
        let mut found = BTreeMap::new();
        for option in options {
            let (name, value) = match option {
                SqlOption::KeyValue { key, value } => (key.value.to_lowercase(), text(value)),
                SqlOption::Ident(ident) => (ident.value.to_lowercase(), "true".into()),
                other => return Err(SqlError::unsupported(format!("the table option {other}"))),
            };
            // PostgreSQL's own physical parameters have nothing to act on.
            if name == "oids" && ["false", "off", "no", "0", "f"].contains(&value.to_lowercase().as_str()) {
                continue;
            }
            let places = ["home", "home_by", "home_map", "replicated"].contains(&name.as_str());
            if !places && !crate::parse::is_physical(&name) {
                return Err(SqlError::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!("unrecognized parameter \"{name}\""),
                )
                .hint("Tables take home, or home_by with home_map, or replicated."));
            }
            found.insert(name, value);
        }
        Ok(StorageOptions(found))
    }

    /// Whether they say anything about where rows live.
    pub fn say_where(&self) -> bool {
        self.0.keys().any(|name| !crate::parse::is_physical(name))
    }

    /// The column that decides the region, if one does.
    pub fn home_by(&self) -> Option<&str> {
        self.0.get("home_by").map(String::as_str)
    }

    pub fn placement(&self, context: &DdlContext<'_>, table: &Table) -> SqlResult<Placement> {
        let invalid = |message: String| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
        let replicated = match self.0.get("replicated").map(|v| v.to_lowercase()) {
            None => false,
            Some(v) if ["true", "on", "1", "yes"].contains(&v.as_str()) => true,
            Some(v) if ["false", "off", "0", "no"].contains(&v.as_str()) => false,
            Some(v) => return Err(invalid(format!("invalid value for boolean option \"replicated\": {v}"))),
        };
        let home = self.0.get("home");
        let given =
            usize::from(replicated) + usize::from(home.is_some()) + usize::from(self.home_by().is_some());
        if given > 1 {
            return Err(invalid("a table takes one of home, home_by and replicated".into()));
        }
        if self.0.contains_key("home_map") && self.home_by().is_none() {
            return Err(invalid("home_map needs home_by".into()));
        }
        if replicated {
            return Ok(Placement::Replicated);
        }
        if let Some(region) = home {
            return Ok(Placement::Home(region_named(context.topology, region)?));
        }
        let Some(column) = self.home_by() else { return Ok(Placement::Home(context.region)) };
        let column = table.column_named(&column.to_lowercase()).ok_or_else(|| {
            SqlError::new(
                SqlState::UNDEFINED_COLUMN,
                format!("column \"{column}\" named in home_by does not exist"),
            )
        })?;
        if !table.primary_key.contains(&column) {
            return Err(SqlError::new(
                SqlState::INVALID_TABLE_DEFINITION,
                "the home_by column must be part of the primary key",
            )
            .detail("Otherwise equal keys could live in two regions."));
        }
        let data_type = table.columns[column].data_type;
        let map = match self.0.get("home_map") {
            Some(map) => map,
            // A number says nothing about regions; names of theirs do.
            None if is_text(data_type) => "name",
            None => {
                return Err(SqlError::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!(
                        "home_by = '{}' does not say which values live where",
                        table.columns[column].name
                    ),
                )
                .hint("Add home_map = 'list(1:us, 2:eu)', or 'hash' to spread rows over all regions."));
            }
        };
        let regions = region_map(context, map, data_type)?;
        Ok(Placement::HomeBy { column, regions })
    }
}

fn region_map(context: &DdlContext<'_>, map: &str, data_type: DataType) -> SqlResult<RegionMap> {
    let trimmed = map.trim();
    match trimmed.to_lowercase().as_str() {
        "hash" => return Ok(RegionMap::Hash),
        "name" => {
            return match data_type {
                text if is_text(text) => Ok(RegionMap::Name),
                other => Err(SqlError::new(
                    SqlState::DATATYPE_MISMATCH,
                    format!("home_map = 'name' needs a column of text, not {}", other.name()),
                )),
            };
        }
        _ => {}
    }
    let list = trimmed.strip_prefix("list(").and_then(|l| l.strip_suffix(')')).ok_or_else(|| {
        SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("invalid home_map \"{map}\""))
            .hint("Write 'hash', 'name', or 'list(1:us, 2:eu)'.")
    })?;
    let mut pairs = Vec::new();
    for item in list.split(',') {
        let (value, region) = item.rsplit_once(':').ok_or_else(|| {
            SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("\"{item}\" in home_map is not value:region"),
            )
        })?;
        let value = base::text::parse(value.trim().trim_matches('\''), data_type)?;
        pairs.push((value, region_named(context.topology, region.trim())?));
    }
    Ok(RegionMap::List(pairs))
}

fn is_text(data_type: DataType) -> bool {
    matches!(data_type, DataType::Text | DataType::Varchar { .. } | DataType::Char { .. })
}

/// A region where something can be at home. Errors: there is none of this name, or it has left the cluster.
pub fn region_named(topology: &Topology, name: &str) -> SqlResult<RegionId> {
    let there: Vec<&str> = topology.regions().map(|region| topology.region_name(region)).collect();
    let listed = format!("Regions are {}.", there.join(", "));
    let refused = |message: String| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
    match topology.region_named(name) {
        None => Err(refused(format!("region \"{name}\" does not exist")).hint(listed)),
        Some(left) if topology.is_removed(left) => {
            let heir = topology.region_name(topology.successor(left));
            let refused = refused(format!("region \"{name}\" has left the cluster"));
            Err(refused.detail(format!("Region {heir} has what it had.")).hint(listed))
        }
        Some(region) => Ok(region),
    }
}

/// `ALTER TABLE … SET (…)`: the table is ordered elsewhere, or its rows are written anew where they live from now on.
pub(super) fn set_options(
    context: &DdlContext<'_>,
    table: &Arc<Table>,
    options: &[SqlOption],
) -> SqlResult<Ddl> {
    let mut ddl = Ddl { tag: "ALTER TABLE", ..Ddl::default() };
    let options = StorageOptions::of(options)?;
    if !options.say_where() {
        return Ok(ddl);
    }
    let placement = options.placement(context, table)?;
    let (catalog, topology) = (context.catalog, context.topology);
    let moved = catalog.homes.get(&table.id).copied();
    if let Placement::Home(to) = placement {
        let Placement::Home(from) = table.placement else { return rewrite(context, table, placement) };
        if topology.successor(moved.unwrap_or(from)) == to {
            return Ok(ddl);
        }
        if topology.sequencer_of(to).is_none() {
            let name = topology.region_name(to);
            return Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("region \"{name}\" has no partitions, so nothing can be homed there"),
            ));
        }
        if topology.is_replicated() {
            ddl.actions.push(SchemaAction::MoveHome(move_home(table, to, topology)));
            return Ok(ddl);
        }
    } else if placement == table.placement {
        return Ok(ddl);
    }
    rewrite(context, table, placement)
}

/// The move of a table with all its indexes.
pub fn move_home(table: &Table, to: RegionId, topology: &Topology) -> MoveHome {
    let ids = std::iter::once(table.id).chain(table.indexes.iter().map(|index| index.id)).collect();
    MoveHome { table: table.id, ids, partitions: table.partitions(topology), to }
}

/// A table like this one, which takes its place and its rows; the query of a materialized view goes by its id.
fn rewrite(context: &DdlContext<'_>, table: &Arc<Table>, placement: Placement) -> SqlResult<Ddl> {
    let next = Table { placement, ..table.as_ref().clone() };
    let mut ddl = remade(context, Rewrite::of(table), next, Vec::new(), context.catalog.next_id, &[])?;
    if let (Some(view), Some(rewrite)) = (materialized::of(context.catalog, table.id), &ddl.rewrites) {
        let shape = Table { id: rewrite.to, ..view.shape.as_ref().clone() };
        let next = View { shape: shape.into(), ..view.as_ref().clone() };
        ddl.actions.extend([SchemaAction::DropView(table.id), SchemaAction::PutView(next)]);
    }
    Ok(ddl)
}

/// A table made anew as `next` describes it, under ids of its own: rows are written into it as `rewrite` says, and
/// foreign keys that reference the old one reference it. `sequences` come with it; ids from `next_id` on are free.
/// `altered`: other tables, as the statement has changed them.
pub(super) fn remade(
    context: &DdlContext<'_>,
    rewrite: Rewrite,
    mut next: Table,
    sequences: Vec<Sequence>,
    next_id: u32,
    altered: &[Table],
) -> SqlResult<Ddl> {
    let table = &rewrite.from;
    // A moved home is kept under the old table's id, which is dropped here, so the new table is declared to live there.
    let moved = context.catalog.homes.get(&table.id).copied();
    if let Some(to) = moved.filter(|to| context.topology.partitions_of(*to).next().is_some())
        && next.placement == table.placement
        && matches!(next.placement, Placement::Home(_))
    {
        next.placement = Placement::Home(to);
    }
    let fresh = next.indexes.iter().map(|index| index.id.0 + 1).max().unwrap_or_default();
    let mut next_id = next_id.max(fresh);
    let mut renumbered = BTreeMap::new();
    let mut free = |old: TableId| {
        next_id += 1;
        renumbered.insert(old, TableId(next_id - 1));
        TableId(next_id - 1)
    };
    next.id = free(table.id);
    super::indexes::indexes_mut(&mut next).for_each(|index| {
        index.id = free(index.id);
        // Each row is written with its entry.
        index.form.is_building = false;
    });
    let follow = |child: &mut Table| {
        for key in child.foreign_keys_mut().filter(|key| key.table == table.id) {
            key.table = next_of(&renumbered, key.table);
            key.unique = next_of(&renumbered, key.unique);
        }
    };
    follow(&mut next);
    let owned = context.catalog.sequences.values().map(|sequence| sequence.as_ref().clone()).chain(sequences);
    let owned = owned.filter_map(|sequence| {
        let (_, column) = sequence.owner.filter(|(owner, _)| *owner == table.id)?;
        Some(Sequence { owner: Some((next.id, column)), ..sequence })
    });
    let mut actions = vec![SchemaAction::DropTable(table.id), SchemaAction::CreateTable(next.clone())];
    actions.extend(owned.map(SchemaAction::CreateSequence));
    for id in table.foreign.inbound.iter().filter(|id| **id != table.id) {
        let Some(child) = context.catalog.table(*id) else { continue };
        let changed = altered.iter().find(|table| table.id == *id);
        let mut child = changed.unwrap_or(child).clone();
        follow(&mut child);
        actions.push(SchemaAction::AlterTable(child));
    }
    actions.extend(context.catalog.comments.handed_over(&renumbered));
    let rewrite = Rewrite { to: next.id, ..rewrite };
    Ok(Ddl { actions, tag: "ALTER TABLE", rewrites: Some(rewrite), ..Ddl::default() })
}

fn next_of(renumbered: &BTreeMap<TableId, TableId>, id: TableId) -> TableId {
    renumbered.get(&id).copied().unwrap_or(id)
}

/// How a table is placed, and where: as `WITH (…)` would say it, one parameter each.
pub fn described(table: &Table, catalog: &Catalog, topology: &Topology) -> Vec<(&'static str, String)> {
    let name = |region: RegionId| topology.region_name(topology.successor(region)).to_string();
    match &table.placement {
        Placement::Home(region) => {
            vec![("home", name(catalog.homes.get(&table.id).copied().unwrap_or(*region)))]
        }
        Placement::Replicated => vec![("replicated", "true".into())],
        Placement::HomeBy { column, regions } => {
            let map = match regions {
                RegionMap::Hash => "hash".to_string(),
                RegionMap::Name => "name".into(),
                RegionMap::List(list) => {
                    let pairs = list.iter().map(|(v, r)| format!("{}:{}", base::text::display(v), name(*r)));
                    format!("list({})", pairs.collect::<Vec<_>>().join(", "))
                }
            };
            vec![("home_by", table.columns[*column].name.clone()), ("home_map", map)]
        }
    }
}

fn text(e: &ast::Expr) -> String {
    match e {
        ast::Expr::Value(v) => match &v.value {
            ast::Value::SingleQuotedString(s) | ast::Value::DoubleQuotedString(s) => s.clone(),
            other => other.to_string(),
        },
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::topology::Removed;
    use base::wan::Wan;

    #[test]
    fn a_region_that_left_is_no_home() {
        let topology = Topology::one_node_per_region(Wan::uniform("test", &["us", "eu", "asia"], 1, 40), 1);
        let left = topology.replicated().without(Removed { region: RegionId(2), heir: RegionId(0) });
        assert_eq!(region_named(&left, "eu"), Ok(RegionId(1)));
        let refused = region_named(&left, "asia").unwrap_err();
        assert_eq!(refused.state, SqlState::INVALID_PARAMETER_VALUE);
        assert_eq!(refused.message, "region \"asia\" has left the cluster");
        assert_eq!(refused.detail.as_deref(), Some("Region us has what it had."));
        assert_eq!(refused.hint.as_deref(), Some("Regions are us, eu."));
        let unknown = region_named(&left, "mars").unwrap_err();
        assert_eq!(unknown.message, "region \"mars\" does not exist");
        assert_eq!(unknown.hint.as_deref(), Some("Regions are us, eu."));
    }
}
