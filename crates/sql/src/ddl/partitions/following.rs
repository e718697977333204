//! What a planned change means for partitions: their views, the check of their table, and the rows of those that go.

use super::PartitionRows;
use crate::ddl::{Ddl, DdlContext};
use crate::partitions::{self, Tree};
use crate::types::type_oid;
use crate::views::quoted;
use base::TableId;
use base::error::{SqlError, SqlResult, SqlState};
use base::schema::{Check, SchemaAction, Table};
use base::views::{CheckOption, View};
use sqlparser::ast::Statement;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl DdlContext<'_> {
    /// The change with what follows from it for partitions. Errors: 0A000 for rows that foreign keys reference.
    pub(in crate::ddl) fn with_partitions(&self, mut ddl: Ddl) -> SqlResult<Ddl> {
        let is_divided = |table: &Table| table.partitioning.is_some();
        let concerns = |action: &SchemaAction| match action {
            SchemaAction::CreateTable(table) | SchemaAction::AlterTable(table) => is_divided(table),
            SchemaAction::DropTable(id) => self.catalog.table(*id).is_some_and(|table| is_divided(table)),
            SchemaAction::PutView(view) => view.partition.is_some(),
            SchemaAction::DropView(id) => partitions::partition(self.catalog, *id).is_some(),
            _ => false,
        };
        if !ddl.actions.iter().any(concerns) {
            return Ok(ddl);
        }
        let (gone, remade) = self.gone_and_remade(&ddl);
        let dropped = self.dropped_with_tables(&gone, &ddl);
        ddl.actions.splice(0..0, dropped);
        let deleted = self.deleted_with_partitions(&gone, &ddl)?;
        ddl.partition_rows.extend(deleted);
        let views = self.partitions_behind(&ddl, &remade);
        for id in self.divided_tables(&ddl, &remade, &views) {
            if let Some(table) = self.table_behind(&ddl, id) {
                let from = remade.iter().find(|(_, to)| **to == id).map_or(id, |(from, _)| *from);
                if let Some(before) = self.catalog.table(from) {
                    keep_keys(before, &table, &views)?;
                }
                self.renew(&table, &views, &mut ddl.actions)?;
            }
        }
        Ok(ddl)
    }

    /// Partitions go with their table, before it.
    fn dropped_with_tables(&self, gone: &[TableId], ddl: &Ddl) -> Vec<SchemaAction> {
        let kept = |action: &SchemaAction| match action {
            SchemaAction::PutView(view) => Some(view.shape.id),
            _ => None,
        };
        // Those of a table that becomes a partition itself stay.
        let kept = ddl.actions.iter().filter_map(kept);
        let known: BTreeSet<TableId> = gone.iter().copied().chain(kept).collect();
        let tables = gone.iter().filter(|id| self.catalog.table(**id).is_some());
        let views = tables.flat_map(|id| partitions::below(self.catalog, *id));
        let dropped = views.map(|view| view.shape.id).filter(|id| !known.contains(id));
        dropped.map(SchemaAction::DropView).collect()
    }

    /// Rows of partitions that go alone are deleted, but for those that have gone into another table.
    fn deleted_with_partitions(&self, gone: &[TableId], ddl: &Ddl) -> SqlResult<Vec<PartitionRows>> {
        let mut deleted = Vec::new();
        let is_detached = |rows: &PartitionRows| matches!(rows, PartitionRows::Detached { .. });
        let detaches = ddl.partition_rows.iter().any(is_detached);
        for id in gone {
            let Some(partition) = partitions::partition(self.catalog, *id) else { continue };
            let Some(root) = partitions::root(self.catalog, *id) else { continue };
            if gone.contains(&root.id) {
                continue;
            }
            if let Some((child, _)) = self.catalog.referencing(root).next() {
                let told = format!("taking a partition from \"{}\", which foreign keys reference", root.name);
                return Err(SqlError::unsupported(told)
                    .detail(format!("Table \"{}\" references it.", child.name))
                    .hint("Delete the rows and keep the partition, or drop the foreign key before."));
            }
            // Those of its own partitions are among its rows.
            if !detaches && !gone.contains(&partition.parent) {
                let text = Tree::within(self.catalog, root).condition(*id);
                let condition = self.lowered_condition(root, &text)?;
                deleted.push(PartitionRows::Dropped { from: root.id, condition });
            }
        }
        Ok(deleted)
    }

    /// The partitions that there are behind a change.
    fn partitions_behind(&self, ddl: &Ddl, remade: &BTreeMap<TableId, TableId>) -> BTreeMap<TableId, View> {
        let known = self.catalog.views.values().filter(|view| view.partition.is_some());
        let mut views: BTreeMap<TableId, View> =
            known.map(|view| (view.shape.id, view.as_ref().clone())).collect();
        for action in &ddl.actions {
            match action {
                SchemaAction::PutView(view) if view.partition.is_some() => {
                    views.insert(view.shape.id, view.clone());
                }
                SchemaAction::DropView(id) => drop(views.remove(id)),
                _ => {}
            }
        }
        for view in views.values_mut() {
            if let Some(partition) = &mut view.partition
                && let Some(again) = remade.get(&partition.parent)
            {
                partition.parent = *again;
            }
        }
        views
    }

    /// Partitioned tables that a change has to do with.
    fn divided_tables(
        &self,
        ddl: &Ddl,
        remade: &BTreeMap<TableId, TableId>,
        views: &BTreeMap<TableId, View>,
    ) -> BTreeSet<TableId> {
        let root_of = |id: TableId| {
            let mut at = id;
            while let Some(partition) = views.get(&at).and_then(|view| view.partition.as_ref()) {
                at = partition.parent;
            }
            at
        };
        let before = |id: TableId| {
            let root = partitions::root(self.catalog, id)?.id;
            Some(remade.get(&root).copied().unwrap_or(root))
        };
        let of = |action: &SchemaAction| match action {
            SchemaAction::CreateTable(table) | SchemaAction::AlterTable(table) => {
                table.partitioning.as_ref().map(|_| table.id)
            }
            SchemaAction::PutView(view) => view.partition.as_ref().map(|_| root_of(view.shape.id)),
            SchemaAction::DropView(id) => partitions::partition(self.catalog, *id).and_then(|_| before(*id)),
            _ => None,
        };
        ddl.actions.iter().filter_map(of).collect()
    }

    /// A table as a change leaves it; `None` if it drops it.
    fn table_behind(&self, ddl: &Ddl, id: TableId) -> Option<Table> {
        let mut table = self.catalog.table(id).map(|table| table.as_ref().clone());
        for action in &ddl.actions {
            match action {
                SchemaAction::CreateTable(next) | SchemaAction::AlterTable(next) if next.id == id => {
                    table = Some(next.clone());
                }
                SchemaAction::DropTable(gone) if *gone == id => table = None,
                _ => {}
            }
        }
        table
    }

    /// Writes the check of a table and the views of its partitions, where they are others than before.
    fn renew(
        &self,
        table: &Table,
        views: &BTreeMap<TableId, View>,
        actions: &mut Vec<SchemaAction>,
    ) -> SqlResult<()> {
        let tree = Tree::of(table, views.values());
        let check = match tree.taken() {
            Some(text) => {
                let parsed = crate::parse::parse_expr(&text)?;
                // Rows that are there are those of its partitions, and need no look.
                Some(Check { is_validated: false, ..self.check(table, String::new(), &parsed)? })
            }
            None => None,
        };
        if table.checks.iter().find(|check| check.is_of_partitions()) != check.as_ref() {
            let mut next = table.clone();
            next.drop_checks(Check::is_of_partitions);
            check.into_iter().for_each(|check| next.add_check(check));
            put_table(actions, next);
        }
        for id in tree.ids() {
            let Some(view) = views.get(&id) else { continue };
            let view = shown(table, view, &tree.condition(id))?;
            if self.catalog.views.get(&id).is_none_or(|before| **before != view) {
                put_view(actions, view);
            }
        }
        Ok(())
    }
}

/// Errors: 42P16 for a column of a key that is dropped or gets another type.
fn keep_keys(before: &Table, table: &Table, views: &BTreeMap<TableId, View>) -> SqlResult<()> {
    let tree = Tree::of(table, views.values());
    let own = table.partitioning.iter().map(|divides| (&table.name, divides));
    let shapes: Vec<_> = tree.ids().filter_map(|id| views.get(&id)).map(|view| &view.shape).collect();
    let theirs = shapes.iter().filter_map(|shape| Some((&shape.name, shape.partitioning.as_ref()?)));
    for (relation, divides) in own.chain(theirs) {
        for column in divides.keys.iter().filter_map(|key| key.column()) {
            let (Some(old), new) = (before.columns.get(column), &table.columns[column]) else { continue };
            let verb = match () {
                () if new.hidden => "drop",
                () if new.data_type != old.data_type => "alter",
                () => continue,
            };
            let told = format!(
                "cannot {verb} column \"{}\" because it is part of the partition key of relation \"{relation}\"",
                old.name
            );
            return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, told));
        }
    }
    Ok(())
}

/// A partition as a view of its table.
fn shown(table: &Table, view: &View, condition: &str) -> SqlResult<View> {
    let columns: Vec<(usize, &base::schema::Column)> = table.visible_columns().collect();
    let names: Vec<String> = columns.iter().map(|(_, column)| quoted(&column.name).to_string()).collect();
    let text = format!(
        "SELECT {} FROM {}.{} WHERE {condition}",
        names.join(", "),
        quoted(&table.schema),
        quoted(&table.name)
    );
    let definition = match crate::parse::parse(&text)?.pop() {
        Some(Statement::Query(query)) => query.to_string(),
        _ => return Err(SqlError::internal("this text is a query")),
    };
    let shape = Table {
        columns: columns.iter().map(|(_, column)| (*column).clone()).collect(),
        ..view.shape.as_ref().clone()
    };
    Ok(View {
        shape: Arc::new(shape),
        type_oids: columns.iter().map(|(_, column)| type_oid(column.data_type)).collect(),
        definition,
        uses: [(table.id, columns.iter().map(|(number, _)| *number).collect())].into(),
        check_option: CheckOption::Cascaded,
        partition: view.partition.clone(),
    })
}

/// Puts a table's description in the place of the one that the change has, or behind everything else.
fn put_table(actions: &mut Vec<SchemaAction>, next: Table) {
    let last = actions.iter_mut().rev().find_map(|action| match action {
        SchemaAction::CreateTable(table) | SchemaAction::AlterTable(table) if table.id == next.id => {
            Some(table)
        }
        _ => None,
    });
    match last {
        Some(table) => *table = next,
        None => actions.push(SchemaAction::AlterTable(next)),
    }
}

fn put_view(actions: &mut Vec<SchemaAction>, next: View) {
    let known = actions.iter_mut().rev().find_map(|action| match action {
        SchemaAction::PutView(view) if view.shape.id == next.shape.id => Some(view),
        _ => None,
    });
    match known {
        Some(view) => *view = next,
        None => actions.push(SchemaAction::PutView(next)),
    }
}
