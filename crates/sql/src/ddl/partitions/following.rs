//! What a planned change means for partitions: their views, the check of their table, and the rows of those that go.

use super::PartitionRows;
use super::own::Condition;
use crate::ddl::alter_table::rename_in_keys;
use crate::ddl::{Ddl, DdlContext};
use crate::names;
use crate::names::quoted;
use crate::partitions::{self, Tree};
use crate::types::type_oid;
use crate::walk;
use base::TableId;
use base::comments::Commented;
use base::error::{SqlError, SqlResult, SqlState};
use base::expr::Expr;
use base::partitioning::PartitionKey;
use base::roles::{Object, Rights, RoleChange};
use base::schema::{Check, ForeignKey, SchemaAction, Table};
use base::views::{CheckOption, View};
use sqlparser::ast::{self, Statement};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
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
        let lost = self.conditions_of(&gone)?;
        let mut views = self.partitions_behind(&ddl, &remade);
        for id in self.divided_tables(&ddl, &remade, &views) {
            let Some(mut table) = self.table_behind(&ddl, id) else { continue };
            let from = remade.iter().find(|(_, to)| **to == id).map_or(id, |(from, _)| *from);
            if let Some(before) = self.catalog.table(from) {
                self.keep_keys(before, &table)?;
                rename_keys(before, &table, &mut views)?;
            }
            let own = lost.get(&from).map_or(&[][..], Vec::as_slice);
            own.iter().for_each(|condition| condition.take_from(&mut table));
            self.renew(table, &views, &mut ddl.actions)?;
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

    /// The conditions of partitions that go, by their tables, which stay.
    fn conditions_of(&self, gone: &[TableId]) -> SqlResult<BTreeMap<TableId, Vec<Condition>>> {
        let mut conditions: BTreeMap<TableId, Vec<Condition>> = BTreeMap::new();
        for id in gone.iter().filter(|id| partitions::partition(self.catalog, **id).is_some()) {
            let Some(root) = partitions::root(self.catalog, *id) else { continue };
            let condition = Condition::of(&Tree::within(self.catalog, root).condition(*id))?;
            conditions.entry(root.id).or_default().push(condition);
        }
        Ok(conditions)
    }

    /// Writes a table with its check, and the views of its partitions, where they are others than before.
    fn renew(
        &self,
        mut table: Table,
        views: &BTreeMap<TableId, View>,
        actions: &mut Vec<SchemaAction>,
    ) -> SqlResult<()> {
        let check = match Tree::of(&table, views.values()).taken() {
            Some(text) => {
                let parsed = crate::parse::parse_expr(&text)?;
                // Rows that are there are those of its partitions, and need no look.
                Some(Check { is_validated: false, ..self.check(&table, String::new(), &parsed)? })
            }
            None => None,
        };
        if table.checks.iter().find(|check| check.is_of_partitions()) != check.as_ref() {
            table.drop_checks(Check::is_of_partitions);
            check.into_iter().for_each(|check| table.add_check(check));
        }
        self.renew_own_keys(&mut table, views)?;
        let tree = Tree::of(&table, views.values());
        for id in tree.ids() {
            let Some(view) = views.get(&id) else { continue };
            let view = shown(&table, view, &tree.condition(id))?;
            if let Some(before) = self.catalog.views.get(&id) {
                actions.extend(self.moved_columns(before, &view));
            }
            if self.catalog.views.get(&id).is_none_or(|before| **before != view) {
                put_view(actions, view);
            }
        }
        put_table(actions, self.catalog.table(table.id), table);
        Ok(())
    }

    /// Foreign keys of single partitions go with these, and know which rows each then has.
    fn renew_own_keys(&self, table: &mut Table, views: &BTreeMap<TableId, View>) -> SqlResult<()> {
        let mut own: BTreeSet<TableId> =
            table.foreign.own.iter().filter_map(ForeignKey::partition_id).collect();
        if own.is_empty() {
            return Ok(());
        }
        let mut conditions: BTreeMap<TableId, Expr> = BTreeMap::new();
        let tree = Tree::of(table, views.values());
        let there: BTreeSet<TableId> = tree.ids().collect();
        own.retain(|id| there.contains(id));
        for id in own {
            conditions.insert(id, self.lowered_condition(table, &tree.condition(id))?);
        }
        table.drop_foreign_keys(|key| key.partition_id().is_some_and(|id| !there.contains(&id)));
        for key in table.foreign_keys_mut() {
            if let Some(of) = &mut key.partition
                && let Some(condition) = conditions.get(&of.id)
            {
                of.condition = condition.clone();
            }
        }
        Ok(())
    }

    /// Privileges, comments and stored queries name columns of a partition by their places, which a column that is dropped
    /// before them changes.
    fn moved_columns(&self, before: &View, now: &View) -> Vec<SchemaAction> {
        let id = now.shape.id;
        let numbers = |view: &View| view.uses.values().next().cloned().unwrap_or_default();
        let (old, new) = (numbers(before), numbers(now));
        let place = |at: usize| new.iter().position(|number| old.get(at) == Some(number));
        if (0..old.len()).all(|at| place(at) == Some(at)) {
            return Vec::new();
        }
        let (mut taken, mut given) = (Vec::new(), Vec::new());
        for (object, all) in &self.roles().rights {
            let Object::Column(of, column) = object else { continue };
            for (role, rights) in all.iter().filter(|_| *of == id) {
                let set = |object, rights| SchemaAction::Roles(RoleChange::SetRights(object, *role, rights));
                taken.push(set(object.clone(), Rights::default()));
                let moved = place(*column as usize).map(|to| Object::Column(id, to as u32));
                given.extend(moved.map(|object| set(object, *rights)));
            }
        }
        for (what, text) in &self.catalog.comments.0 {
            let Commented::Object(Object::Column(of, column)) = what else { continue };
            if *of == id {
                taken.push(SchemaAction::Comment(what.clone(), None));
                let moved = place(*column as usize).map(|to| Object::Column(id, to as u32));
                let of = |object| SchemaAction::Comment(Commented::Object(object), Some(text.clone()));
                given.extend(moved.map(of));
            }
        }
        for reader in self.readers(id) {
            let mut reader = reader.as_ref().clone();
            if let Some(columns) = reader.uses.get_mut(&id) {
                *columns = columns.iter().filter_map(|at| place(*at)).collect();
            }
            given.push(SchemaAction::PutView(reader));
        }
        taken.into_iter().chain(given).collect()
    }

    /// Errors: 42P16 for a column of a key that is dropped or gets another type.
    fn keep_keys(&self, before: &Table, table: &Table) -> SqlResult<()> {
        let own = before.partitioning.iter().map(|divides| (&before.name, divides));
        let below = partitions::below(self.catalog, before.id);
        let theirs = below.iter().filter_map(|v| Some((&v.shape.name, v.shape.partitioning.as_ref()?)));
        for (relation, divides) in own.chain(theirs) {
            for column in divides.keys.iter().flat_map(|key| columns_of(before, key)) {
                let (old, new) = (&before.columns[column], &table.columns[column]);
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
}

/// The columns that a key reads.
fn columns_of(table: &Table, key: &PartitionKey) -> Vec<usize> {
    let text = match key {
        PartitionKey::Column(column) => return vec![*column],
        PartitionKey::Expression(text, _) => text,
    };
    let Ok(parsed) = crate::parse::parse_expr(text) else { return Vec::new() };
    let mut columns = Vec::new();
    let _: ControlFlow<()> = walk::expressions(&parsed, |e| {
        if let ast::Expr::Identifier(name) = e {
            columns.extend(table.column_named(&names::fold(name)));
        }
        ControlFlow::Continue(())
    });
    columns
}

/// Columns have new names in the computed keys of partitions too.
fn rename_keys(before: &Table, table: &Table, views: &mut BTreeMap<TableId, View>) -> SqlResult<()> {
    let renamed = before.columns.iter().zip(&table.columns).filter(|(old, new)| old.name != new.name);
    let renamed: Vec<_> = renamed.filter(|(old, new)| !old.hidden && !new.hidden).collect();
    if renamed.is_empty() {
        return Ok(());
    }
    let ids: Vec<TableId> = Tree::of(table, views.values()).ids().collect();
    for id in ids {
        let Some(view) = views.get(&id).cloned() else { continue };
        let Some(divides) = &view.shape.partitioning else { continue };
        let mut divides = divides.as_ref().clone();
        for (old, new) in &renamed {
            rename_in_keys(&mut divides, &old.name, &quoted(&new.name))?;
        }
        let shape = Table { partitioning: Some(Arc::new(divides)), ..view.shape.as_ref().clone() };
        views.insert(shape.id, View { shape: Arc::new(shape), ..view });
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
        security: view.security,
    })
}

/// Puts a table's description in the place of the one that the change has, or behind everything else if it is another than
/// before.
fn put_table(actions: &mut Vec<SchemaAction>, before: Option<&Arc<Table>>, next: Table) {
    let last = actions.iter_mut().rev().find_map(|action| match action {
        SchemaAction::CreateTable(table) | SchemaAction::AlterTable(table) if table.id == next.id => {
            Some(table)
        }
        _ => None,
    });
    match last {
        Some(table) => *table = next,
        None if before.is_some_and(|before| **before == next) => {}
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
