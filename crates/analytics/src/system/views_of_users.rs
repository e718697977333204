//! Views that users made, in the system catalog.

use super::{Made, partitions, privileges};
use crate::context::Context;
use base::roles::Object;
use base::views::{CheckOption, View};
use base::{DataType, Datum};

const TEXT: DataType = DataType::Text;

fn text(s: impl AsRef<str>) -> Datum {
    Datum::text(s)
}

/// A view's query as `pg_get_viewdef` prints it: in one line here.
pub(super) fn definition(view: &View) -> String {
    format!(" {};", sql::parse::with_attributes(&view.definition))
}

/// `pg_views`.
pub(super) fn pg_views(context: &Context<'_>) -> Made {
    let mut made =
        Made::new(&[("schemaname", TEXT), ("viewname", TEXT), ("viewowner", TEXT), ("definition", TEXT)]);
    let views = partitions::views(context.catalog);
    made.rows = views
        .map(|view| {
            let owner = context.catalog.roles.owner_of(&Object::Relation(view.shape.id));
            let owner = privileges::role_name(context, owner).unwrap_or_default();
            vec![text(&view.shape.schema), text(&view.shape.name), text(owner), text(definition(view))]
        })
        .collect();
    made
}

/// `pg_matviews`.
pub(super) fn pg_matviews(context: &Context<'_>) -> Made {
    let mut made = Made::new(&[
        ("schemaname", TEXT),
        ("matviewname", TEXT),
        ("matviewowner", TEXT),
        ("tablespace", TEXT),
        ("hasindexes", DataType::Boolean),
        ("ispopulated", DataType::Boolean),
        ("definition", TEXT),
    ]);
    for (id, view) in &context.catalog.views {
        let Some(table) = context.catalog.table(*id) else { continue };
        let owner = context.catalog.roles.owner_of(&Object::Relation(*id));
        made.rows.push(vec![
            text(&table.schema),
            text(&table.name),
            text(privileges::role_name(context, owner).unwrap_or_default()),
            Datum::Null,
            Datum::Bool(!table.indexes.is_empty()),
            Datum::Bool(sql::materialized::is_populated(view)),
            text(definition(view)),
        ]);
    }
    made
}

/// `information_schema.views`.
pub(super) fn information_schema(context: &Context<'_>) -> Made {
    let mut made = Made::new(&[
        ("table_catalog", TEXT),
        ("table_schema", TEXT),
        ("table_name", TEXT),
        ("view_definition", TEXT),
        ("check_option", TEXT),
        ("is_updatable", TEXT),
        ("is_insertable_into", TEXT),
        ("is_trigger_updatable", TEXT),
        ("is_trigger_deletable", TEXT),
        ("is_trigger_insertable_into", TEXT),
    ]);
    for view in partitions::views(context.catalog) {
        let owner = context.catalog.roles.owner_of(&Object::Relation(view.shape.id));
        let is_owner = context.standing.has.contains(&owner);
        let updatable = if sql::views::is_updatable(&context.catalog, view) { "YES" } else { "NO" };
        made.rows.push(vec![
            text(context.database),
            text(&view.shape.schema),
            text(&view.shape.name),
            // Who owns a view may know what it is.
            if is_owner { text(definition(view)) } else { Datum::Null },
            text(match view.check_option {
                CheckOption::No => "NONE",
                CheckOption::Local => "LOCAL",
                CheckOption::Cascaded => "CASCADED",
            }),
            text(updatable),
            text(updatable),
            text("NO"),
            text("NO"),
            text("NO"),
        ]);
    }
    made
}
