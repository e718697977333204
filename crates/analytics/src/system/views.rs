//! `information_schema`, and Meridian's own views.

use super::pg_tables::has_primary_key;
use super::type_descriptions::described;
use super::{Made, partitions, privileges};
use crate::context::Context;
use base::domain::Domain;
use base::roles::Object;
use base::schema::foreign::{Action, Timing};
use base::schema::{ForeignKey, Identity, Placement, Table};
use base::{DataType, Datum, RegionId};

const TEXT: DataType = DataType::Text;
const INT: DataType = DataType::Integer;

fn text(s: impl AsRef<str>) -> Datum {
    Datum::text(s)
}

/// A view of `information_schema`; `None` if there is none of this name.
pub(super) fn information_schema(context: &Context<'_>, name: &str) -> Option<Made> {
    let database = || text(context.database);
    Some(match name {
        "schemata" => {
            let mut made =
                Made::new(&[("catalog_name", TEXT), ("schema_name", TEXT), ("schema_owner", TEXT)]);
            let system = ["pg_catalog", "information_schema", "meridian"];
            let names = system.into_iter().chain(context.catalog.schemas.iter().map(String::as_str));
            let owner = |schema: &str| {
                let owner = context.catalog.roles.owner_of(&Object::Schema(schema.into()));
                text(privileges::role_name(context, owner).unwrap_or_default())
            };
            made.rows = names.map(|s| vec![database(), text(s), owner(s)]).collect();
            made
        }
        "tables" => {
            let mut made = Made::new(&[
                ("table_catalog", TEXT),
                ("table_schema", TEXT),
                ("table_name", TEXT),
                ("table_type", TEXT),
                ("is_insertable_into", TEXT),
            ]);
            let row = |t: &Table, kind: &str, is_insertable: bool| {
                let insertable = if is_insertable { "YES" } else { "NO" };
                vec![database(), text(&t.schema), text(&t.name), text(kind), text(insertable)]
            };
            let kind = |t: &Table| match sql::temporary::is_temporary(&t.schema) {
                true => "LOCAL TEMPORARY",
                false => "BASE TABLE",
            };
            let catalog = context.catalog;
            made.rows = partitions::tables(catalog).map(|t| row(t, kind(t), true)).collect();
            for view in partitions::views(catalog) {
                made.rows.push(row(&view.shape, "VIEW", sql::views::is_updatable(catalog, view)));
            }
            made
        }
        "columns" => columns(context),
        "table_constraints" => {
            let mut made = Made::new(&[
                ("constraint_catalog", TEXT),
                ("constraint_schema", TEXT),
                ("constraint_name", TEXT),
                ("table_catalog", TEXT),
                ("table_schema", TEXT),
                ("table_name", TEXT),
                ("constraint_type", TEXT),
                ("is_deferrable", TEXT),
                ("initially_deferred", TEXT),
            ]);
            for constraint in constraints(context) {
                let Constraint { of, name, kind, .. } = constraint;
                let timing = constraint.foreign_key().map_or(Timing::Immediate, |key| key.timing);
                let yes_or_no = |yes: bool| text(if yes { "YES" } else { "NO" });
                made.rows.push(vec![
                    database(),
                    text(&of.schema),
                    text(name),
                    database(),
                    text(&of.schema),
                    text(&of.name),
                    text(kind),
                    yes_or_no(timing.is_deferrable()),
                    yes_or_no(timing == Timing::Deferred),
                ]);
            }
            made
        }
        "key_column_usage" => {
            let mut made = Made::new(&[
                ("constraint_catalog", TEXT),
                ("constraint_schema", TEXT),
                ("constraint_name", TEXT),
                ("table_catalog", TEXT),
                ("table_schema", TEXT),
                ("table_name", TEXT),
                ("column_name", TEXT),
                ("ordinal_position", INT),
                ("position_in_unique_constraint", INT),
            ]);
            for constraint in constraints(context) {
                let Constraint { of, table, name, columns, .. } = constraint;
                let key = constraint.foreign_key();
                let unique = key.and_then(|key| unique_columns(context, key));
                for (at, &column) in columns.iter().enumerate() {
                    let other = key.map(|key| key.referenced[at]);
                    let position = unique.and_then(|unique| unique.iter().position(|c| Some(*c) == other));
                    made.rows.push(vec![
                        database(),
                        text(&of.schema),
                        text(name),
                        database(),
                        text(&of.schema),
                        text(&of.name),
                        text(&table.columns[column].name),
                        Datum::Int(at as i64 + 1),
                        position.map_or(Datum::Null, |at| Datum::Int(at as i64 + 1)),
                    ]);
                }
            }
            made
        }
        "table_privileges" | "role_table_grants" => privileges::granted(context, false),
        "column_privileges" | "role_column_grants" => privileges::granted(context, true),
        "enabled_roles" => {
            let mut made = Made::new(&[("role_name", TEXT)]);
            let names = context.standing.has.iter().filter_map(|id| privileges::role_name(context, *id));
            made.rows = names.map(|name| vec![text(name)]).collect();
            made
        }
        "views" => super::views_of_users::information_schema(context),
        "triggers" => super::triggers::information_schema(context),
        "domains" | "domain_constraints" => return super::domains::information_schema(context, name),
        "routines" | "parameters" => return super::routines::standard::information_schema(context, name),
        "referential_constraints" => referential_constraints(context),
        _ => return None,
    })
}

/// The columns of the unique constraint that a key references, in their order there.
fn unique_columns<'a>(context: &Context<'a>, key: &ForeignKey) -> Option<&'a [usize]> {
    let parent = context.catalog.table(key.table)?;
    match parent.indexes.iter().find(|index| index.id == key.unique) {
        Some(index) => Some(&index.columns),
        None => Some(&parent.primary_key),
    }
}

fn referential_constraints(context: &Context<'_>) -> Made {
    let mut made = Made::new(&[
        ("constraint_catalog", TEXT),
        ("constraint_schema", TEXT),
        ("constraint_name", TEXT),
        ("unique_constraint_catalog", TEXT),
        ("unique_constraint_schema", TEXT),
        ("unique_constraint_name", TEXT),
        ("match_option", TEXT),
        ("update_rule", TEXT),
        ("delete_rule", TEXT),
    ]);
    let rule = |action: &Action| match action {
        Action::NoAction => "NO ACTION",
        Action::Restrict => "RESTRICT",
        Action::Cascade => "CASCADE",
        Action::SetNull(_) => "SET NULL",
        Action::SetDefault(_) => "SET DEFAULT",
    };
    for table in context.catalog.tables.values() {
        for key in &table.foreign.own {
            let Some(parent) = context.catalog.table(key.table) else { continue };
            let index = parent.indexes.iter().find(|index| index.id == key.unique);
            // A unique index that is no constraint has no name here.
            let (schema, name) = match index {
                Some(index) if !index.constraint => (Datum::Null, Datum::Null),
                Some(index) => (text(&parent.schema), text(&index.name)),
                None => (text(&parent.schema), text(&parent.primary_key_name)),
            };
            let partition = key.partition_id().and_then(|id| context.catalog.views.get(&id));
            let of = partition.map_or(table, |view| &view.shape);
            made.rows.push(vec![
                text(context.database),
                text(&of.schema),
                text(&key.name),
                if name.is_null() { Datum::Null } else { text(context.database) },
                schema,
                name,
                text(if key.is_full { "FULL" } else { "NONE" }),
                text(rule(&key.on_update)),
                text(rule(&key.on_delete)),
            ]);
        }
    }
    made
}

/// A constraint as it is shown.
struct Constraint<'a> {
    /// The table that it is of, or the partition.
    of: &'a Table,
    /// The table that has the columns.
    table: &'a Table,
    name: &'a str,
    kind: &'static str,
    columns: &'a [usize],
}

impl<'a> Constraint<'a> {
    fn foreign_key(&self) -> Option<&'a ForeignKey> {
        self.table.foreign.own.iter().find(|key| key.name == self.name && self.kind == "FOREIGN KEY")
    }
}

/// Primary keys, unique constraints, foreign keys and checks, with their columns.
fn constraints<'a>(context: &Context<'a>) -> Vec<Constraint<'a>> {
    let catalog = context.catalog;
    let mut all: Vec<Constraint<'a>> = Vec::new();
    for table in catalog.tables.values() {
        let table = table.as_ref();
        let of_table = |name, kind, columns| Constraint { of: table, table, name, kind, columns };
        if has_primary_key(table) {
            all.push(of_table(table.primary_key_name.as_str(), "PRIMARY KEY", table.primary_key.as_slice()));
        }
        for index in table.indexes.iter().filter(|i| i.constraint) {
            all.push(of_table(&index.name, "UNIQUE", &index.columns));
        }
        for key in &table.foreign.own {
            let partition = key.partition_id().and_then(|id| catalog.views.get(&id));
            let of = partition.map_or(table, |view| view.shape.as_ref());
            all.push(Constraint { of, ..of_table(&key.name, "FOREIGN KEY", &key.columns) });
        }
        all.extend(table.declared_checks().map(|check| of_table(&check.name, "CHECK", &[])));
    }
    for view in partitions::all(catalog) {
        let of = view.shape.as_ref();
        let table = sql::partitions::root(catalog, of.id);
        let checks = table.into_iter().flat_map(|table| table.declared_checks());
        let shown = |name| Constraint { of, table: of, name, kind: "CHECK", columns: &[] };
        all.extend(checks.map(|check| shown(check.name.as_str())));
    }
    all
}

fn columns(context: &Context<'_>) -> Made {
    let mut made = Made::new(&[
        ("table_catalog", TEXT),
        ("table_schema", TEXT),
        ("table_name", TEXT),
        ("column_name", TEXT),
        ("ordinal_position", INT),
        ("column_default", TEXT),
        ("is_nullable", TEXT),
        ("data_type", TEXT),
        ("character_maximum_length", INT),
        ("numeric_precision", INT),
        ("numeric_scale", INT),
        ("datetime_precision", INT),
        ("domain_catalog", TEXT),
        ("domain_schema", TEXT),
        ("domain_name", TEXT),
        ("udt_name", TEXT),
        ("is_identity", TEXT),
        ("identity_generation", TEXT),
        ("is_generated", TEXT),
        ("generation_expression", TEXT),
        ("is_updatable", TEXT),
    ]);
    for table in sql::materialized::shapes(context.catalog) {
        let view = context.catalog.views.get(&table.id).filter(|view| view.partition.is_none());
        let updatable = view.map(|view| sql::views::updatable_columns(context.catalog, view));
        for (number, column) in table.visible_columns() {
            let is_updatable = updatable.as_ref().is_none_or(|names| names.contains(&column.name));
            let [name, length, precision, scale, moment] = described(column.data_type);
            let domain = partitions::domain(context.catalog, table, number);
            let column = partitions::shown(context.catalog, table, column);
            let of_domain =
                |part: fn(&Domain) -> &str| domain.map_or(Datum::Null, |domain| text(part(domain)));
            let is_generated = column.identity == Identity::Generated;
            let is_identity = column.identity.is_identity();
            let generated_when = match column.identity {
                Identity::Always => text("ALWAYS"),
                Identity::ByDefault => text("BY DEFAULT"),
                _ => Datum::Null,
            };
            let generation = column.default.as_ref().filter(|_| is_generated);
            made.rows.push(vec![
                text(context.database),
                text(&table.schema),
                text(&table.name),
                text(&column.name),
                Datum::Int(number as i64 + 1),
                column.default.as_ref().filter(|_| !is_generated && !is_identity).map_or(Datum::Null, text),
                text(if column.not_null { "NO" } else { "YES" }),
                name,
                length,
                precision,
                scale,
                moment,
                if domain.is_some() { text(context.database) } else { Datum::Null },
                of_domain(|domain| &domain.schema),
                of_domain(|domain| &domain.name),
                text(&sql::lower::short_type_name(column.data_type)),
                text(if is_identity { "YES" } else { "NO" }),
                generated_when,
                text(if is_generated { "ALWAYS" } else { "NEVER" }),
                generation.map_or(Datum::Null, text),
                text(if is_updatable { "YES" } else { "NO" }),
            ]);
        }
    }
    made
}

/// A view of schema `meridian`; `None` if there is none of this name.
pub(super) fn meridian(context: &Context<'_>, name: &str) -> Option<Made> {
    let topology = context.cluster().topology();
    let region = |r: RegionId| topology.region_name(r).to_string();
    Some(match name {
        "tables" => {
            let mut made = Made::new(&[
                ("schema_name", TEXT),
                ("table_name", TEXT),
                ("placement", TEXT),
                ("home", TEXT),
                ("partitions", INT),
            ]);
            for table in context.catalog.tables.values() {
                let parts = sql::ddl::placement::described(table, &context.catalog, topology);
                let placement = parts[0].0;
                let home = match &table.placement {
                    Placement::Replicated => "every partition".to_string(),
                    _ => parts.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(" "),
                };
                made.rows.push(vec![
                    text(&table.schema),
                    text(&table.name),
                    text(placement),
                    text(home),
                    Datum::Int(table.partitions(topology).len() as i64),
                ]);
            }
            made
        }
        "procedures" => {
            let mut made = Made::new(&[("name", TEXT), ("arguments", TEXT), ("columns", TEXT)]);
            let list = |columns: Vec<(&str, DataType)>| {
                let shown: Vec<String> = columns.iter().map(|(n, t)| format!("{n} {}", t.name())).collect();
                text(shown.join(", "))
            };
            made.rows = context
                .cluster()
                .procedures()
                .iter()
                .map(|p| vec![text(p.name()), list(p.arguments()), list(p.columns())])
                .collect();
            made
        }
        "snapshots" => {
            let mut made = Made::new(&[
                ("region", TEXT),
                ("user_name", TEXT),
                ("application_name", TEXT),
                ("rank", DataType::BigInt),
                ("age_ms", DataType::Double),
                ("is_too_old", DataType::Boolean),
            ]);
            let cluster = context.cluster();
            for held in context.analytics.node.snapshots.all() {
                made.rows.push(vec![
                    text(region(cluster.region())),
                    text(&held.user),
                    text(&held.application),
                    Datum::Int(held.rank.0 as i64),
                    Datum::Float(cluster.now().since(held.since) as f64 / base::time::MS as f64),
                    Datum::Bool(held.is_too_old()),
                ]);
            }
            made
        }
        "replicas" => replicas(context),
        "regions" => {
            let mut made = Made::new(&[
                ("name", TEXT),
                ("is_here", DataType::Boolean),
                ("round_trip_ms", DataType::Double),
                ("partitions", INT),
                ("state", TEXT),
                ("silent_ms", DataType::Double),
                ("blocked_transactions", DataType::BigInt),
                ("blocked_rows", DataType::BigInt),
                ("refused", DataType::BigInt),
            ]);
            let here = context.cluster().region();
            let health = context.cluster().regions();
            for id in topology.regions() {
                made.rows.push(vec![
                    text(region(id)),
                    Datum::Bool(id == here),
                    Datum::Float(topology.wan.round_trip_ns(here, id) as f64 / base::time::MS as f64),
                    Datum::Int(topology.partitions_in(id).count() as i64),
                ]);
                // An engine that does not look tells nothing.
                let row = made.rows.last_mut().expect("just pushed");
                match health.iter().find(|health| health.region == id) {
                    None => row.extend([Datum::Null, Datum::Null, Datum::Null, Datum::Null, Datum::Null]),
                    Some(health) => row.extend([
                        text(health.state.name()),
                        Datum::Float(health.silent_ns as f64 / base::time::MS as f64),
                        Datum::Int(health.blocked_transactions as i64),
                        Datum::Int(health.blocked_rows as i64),
                        Datum::Int(health.refused as i64),
                    ]),
                }
            }
            made
        }
        _ => return None,
    })
}

/// `meridian.replicas`: those of the region that is asked.
fn replicas(context: &Context<'_>) -> Made {
    let topology = context.cluster().topology();
    let region = |r: RegionId| topology.region_name(r).to_string();
    let mut made = Made::new(&[
        ("node", INT),
        ("name", TEXT),
        ("region", TEXT),
        ("state", TEXT),
        ("behind_ms", DataType::Double),
        ("rows", DataType::BigInt),
        ("reads", DataType::BigInt),
        ("fell_back", DataType::BigInt),
        ("under_way", DataType::BigInt),
        ("fetches", DataType::BigInt),
        ("fetches_loaded", DataType::BigInt),
        ("transport", TEXT),
    ]);
    let ms = |ns: u64| Datum::Float(ns as f64 / base::time::MS as f64);
    for replica in context.cluster().replicas() {
        made.rows.push(vec![
            Datum::Int(i64::from(replica.node.0)),
            replica.name.map_or(Datum::Null, text),
            text(region(topology.region_of(replica.node))),
            text(replica.state),
            replica.behind_ns.map_or(Datum::Null, ms),
            Datum::Int(replica.rows as i64),
            Datum::Int(replica.reads as i64),
            Datum::Int(replica.fell_back as i64),
            Datum::Int(replica.under_way as i64),
            Datum::Int(replica.fetches as i64),
            Datum::Int(replica.fetches_loaded as i64),
            text(replica.transport),
        ]);
    }
    made
}
