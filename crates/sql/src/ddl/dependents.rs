//! What a change of the catalog does to stored queries, views and materialized ones, that read what it drops or alters.

use super::{Ddl, DdlContext};
use crate::{materialized, names};
use base::TableId;
use base::error::{SqlError, SqlResult, SqlState};
use base::schema::{SchemaAction, Table};
use base::views::View;
use sqlparser::ast::{self, AlterTableOperation as Operation, DropBehavior, Statement};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const DEPENDENT: SqlState = SqlState(*b"2BP01");

impl DdlContext<'_> {
    /// What a change does to views that read what it drops or alters: 2BP01, or with CASCADE they go too.
    pub(super) fn keep_views(&self, statement: &Statement, mut ddl: Ddl) -> SqlResult<Ddl> {
        if self.catalog.views.is_empty() {
            return Ok(ddl);
        }
        let cascade = is_cascade(statement);
        let (mut gone, remade) = self.gone_and_remade(&ddl);
        let mut cascaded: Vec<String> = Vec::new();
        let mut dropped: BTreeSet<TableId> = gone.iter().copied().collect();
        let mut blocked: Vec<String> = Vec::new();
        let mut first = None;
        for view in self.readers_of_dropped(statement, &ddl, &remade) {
            if dropped.insert(view.shape.id) {
                cascaded.push(self.called(&view));
                ddl.actions.splice(0..0, self.drops_of(&view));
                gone.push(view.shape.id);
            }
        }
        while let Some(id) = gone.pop() {
            for view in self.stored_queries() {
                if view.uses.contains_key(&id) && dropped.insert(view.shape.id) {
                    let (kind, name) = self.kind_and_name(&base::roles::Object::Relation(id));
                    let called = self.called(view);
                    first.get_or_insert(format!("{kind} {name}"));
                    blocked.push(format!("{called} depends on {kind} {name}"));
                    cascaded.push(called);
                    ddl.actions.splice(0..0, self.drops_of(view));
                    gone.push(view.shape.id);
                }
            }
        }
        self.check_alterations(&ddl, &dropped, &remade)?;
        if !cascade && !blocked.is_empty() {
            let what = match statement {
                Statement::Drop { object_type: ast::ObjectType::Schema, names, .. } => {
                    format!("schema {}", names.first().map(ToString::to_string).unwrap_or_default())
                }
                Statement::Drop { names, .. } if names.len() > 1 => {
                    let mut error = dependent("", &blocked.join("\n"));
                    error.message =
                        "cannot drop desired object(s) because other objects depend on them".into();
                    return Err(error);
                }
                _ => first.unwrap_or_default(),
            };
            return Err(dependent(&what, &blocked.join("\n")));
        }
        match cascaded.as_slice() {
            [] => {}
            [one] => ddl.notices.push((SqlState::SUCCESSFUL, format!("drop cascades to {one}"))),
            more => {
                let told = format!("drop cascades to {} other objects", more.len());
                ddl.notice(SqlState::SUCCESSFUL, told);
            }
        }
        let stays = |view: &&Arc<View>| !dropped.contains(&view.shape.id);
        let views = self.stored_queries().filter(stays);
        ddl.remade_views = views.filter_map(|view| over_remade(view, &remade)).collect();
        Ok(ddl)
    }

    /// Views but for partitions, which follow their table.
    fn stored_queries(&self) -> impl Iterator<Item = &Arc<View>> {
        self.catalog.views.values().filter(|view| view.partition.is_none())
    }

    /// Columns of a table that a stored query reads, itself or through the table's partitions.
    fn read_by(&self, view: &View, table: TableId) -> Vec<usize> {
        let mut read = view.uses.get(&table).cloned().unwrap_or_default();
        for (used, columns) in &view.uses {
            let used = self.catalog.views.get(used).filter(|used| used.partition.is_some());
            if let Some(numbers) = used.and_then(|used| used.uses.get(&table)) {
                read.extend(columns.iter().filter_map(|column| numbers.get(*column)));
            }
        }
        read
    }

    /// What drops a stored query, with the rows that it may have.
    pub(super) fn drops_of(&self, view: &View) -> Vec<SchemaAction> {
        let id = view.shape.id;
        let mut drops = vec![SchemaAction::DropView(id)];
        if materialized::is_one(self.catalog, id) {
            drops.push(SchemaAction::DropTable(id));
        }
        drops
    }

    /// Stored queries that read a column which is dropped with what depends on it.
    fn readers_of_dropped(
        &self,
        statement: &Statement,
        ddl: &Ddl,
        remade: &BTreeMap<TableId, TableId>,
    ) -> Vec<Arc<View>> {
        let mut readers = Vec::new();
        if !is_cascade(statement) {
            return readers;
        }
        let alone = dropped_alone(statement);
        for (before, next) in self.alterations(ddl, remade) {
            let goes = |column: &usize| {
                let Some(old) = before.columns.get(*column) else { return false };
                let stays = next.columns.get(*column).is_some_and(|new| new.hidden == old.hidden);
                !stays && !alone.contains(&old.name)
            };
            let reads = |view: &&Arc<View>| self.read_by(view, before.id).iter().any(goes);
            readers.extend(self.stored_queries().filter(reads).cloned());
        }
        readers
    }

    /// Tables before a change and behind it.
    fn alterations<'s>(
        &'s self,
        ddl: &'s Ddl,
        remade: &'s BTreeMap<TableId, TableId>,
    ) -> impl Iterator<Item = (&'s Table, &'s Table)> {
        ddl.actions.iter().filter_map(move |action| {
            let (SchemaAction::AlterTable(next) | SchemaAction::CreateTable(next)) = action else {
                return None;
            };
            let from = remade.iter().find(|(_, to)| **to == next.id).map_or(next.id, |(from, _)| *from);
            Some((self.catalog.table(from)?.as_ref(), next))
        })
    }

    /// Relations that a change drops, and tables that it makes anew under their names.
    pub(super) fn gone_and_remade(&self, ddl: &Ddl) -> (Vec<TableId>, BTreeMap<TableId, TableId>) {
        let mut gone: Vec<TableId> = Vec::new();
        let mut remade: BTreeMap<TableId, TableId> = BTreeMap::new();
        for action in &ddl.actions {
            match action {
                // It becomes a partition, under the same id.
                SchemaAction::DropTable(id) if puts_view(ddl, *id) => {}
                SchemaAction::DropTable(id) => {
                    let named = self.catalog.table(*id).map(|table| (&table.schema, &table.name));
                    let again = ddl.actions.iter().find_map(|action| match action {
                        SchemaAction::CreateTable(table) => {
                            (named == Some((&table.schema, &table.name))).then_some(table.id)
                        }
                        _ => None,
                    });
                    match again {
                        Some(again) => drop(remade.insert(*id, again)),
                        None => gone.push(*id),
                    }
                }
                SchemaAction::DropView(id) => gone.push(*id),
                _ => {}
            }
        }
        // The query of a materialized view goes with its table.
        gone.retain(|id| !remade.contains_key(id));
        (gone, remade)
    }

    fn check_alterations(
        &self,
        ddl: &Ddl,
        dropped: &BTreeSet<TableId>,
        remade: &BTreeMap<TableId, TableId>,
    ) -> SqlResult<()> {
        for (before, next) in self.alterations(ddl, remade) {
            for view in self.stored_queries().filter(|view| !dropped.contains(&view.shape.id)) {
                let columns = self.read_by(view, before.id);
                if view.uses.contains_key(&before.id) {
                    check_altered(before, next, &self.called(view), &columns)?;
                } else if !columns.is_empty() {
                    // It names a partition, so the name of the table does not matter.
                    let (schema, name) = (next.schema.clone(), next.name.clone());
                    let before = Table { schema, name, ..before.clone() };
                    check_altered(&before, next, &self.called(view), &columns)?;
                }
            }
        }
        Ok(())
    }

    /// A stored query in a message.
    pub(super) fn called(&self, view: &View) -> String {
        format!("{} {}", materialized::kind(self.catalog, &view.shape), view.shape.name)
    }
}

fn puts_view(ddl: &Ddl, id: TableId) -> bool {
    ddl.actions.iter().any(|action| matches!(action, SchemaAction::PutView(view) if view.shape.id == id))
}

/// Whether a statement also drops what depends on what it drops.
pub(super) fn is_cascade(statement: &Statement) -> bool {
    let is_said = |behavior: &Option<DropBehavior>| *behavior == Some(DropBehavior::Cascade);
    match statement {
        Statement::Drop { cascade, .. } => *cascade,
        Statement::DropDomain(drop) => is_said(&drop.drop_behavior),
        Statement::AlterTable(alter) => alter.operations.iter().any(|operation| match operation {
            Operation::DropColumn { drop_behavior, .. } | Operation::DropConstraint { drop_behavior, .. } => {
                is_said(drop_behavior)
            }
            _ => false,
        }),
        _ => false,
    }
}

/// Columns that a statement drops without CASCADE, beside others.
fn dropped_alone(statement: &Statement) -> BTreeSet<String> {
    let Statement::AlterTable(alter) = statement else { return BTreeSet::new() };
    let mut alone = BTreeSet::new();
    for operation in &alter.operations {
        if let Operation::DropColumn { column_names, drop_behavior, .. } = operation
            && *drop_behavior != Some(DropBehavior::Cascade)
        {
            alone.extend(column_names.iter().map(names::fold));
        }
    }
    alone
}

/// A view over tables that were made anew under their names; `None` if it reads none.
fn over_remade(view: &View, remade: &BTreeMap<TableId, TableId>) -> Option<View> {
    view.uses.keys().find(|id| remade.contains_key(id))?;
    let mut view = view.clone();
    let again = |(id, columns)| (remade.get(&id).copied().unwrap_or(id), columns);
    view.uses = std::mem::take(&mut view.uses).into_iter().map(again).collect();
    Some(view)
}

fn dependent(what: &str, detail: &str) -> SqlError {
    SqlError::new(DEPENDENT, format!("cannot drop {what} because other objects depend on it"))
        .detail(detail)
        .hint("Use DROP ... CASCADE to drop the dependent objects too.")
}

/// Whether a view still finds what it reads in a table that is altered.
fn check_altered(before: &Table, next: &Table, reader: &str, columns: &[usize]) -> SqlResult<()> {
    if (&before.schema, &before.name) != (&next.schema, &next.name) {
        let what = format!("renaming table {} that {reader} reads", before.name);
        return Err(SqlError::unsupported(what).hint("Drop the view, rename, and create it again."));
    }
    for &column in columns {
        let (Some(old), new) = (before.columns.get(column), next.columns.get(column)) else { continue };
        let shown = &old.name;
        let Some(new) = new.filter(|new| new.hidden == old.hidden) else {
            let detail = format!("{reader} depends on column {shown} of table {}", before.name);
            return Err(dependent(&format!("column {shown} of table {}", before.name), &detail));
        };
        if new.name != old.name {
            let what = format!("renaming column {shown} of {} that {reader} reads", before.name);
            return Err(SqlError::unsupported(what).hint("Drop the view, rename, and create it again."));
        }
        if new.data_type != old.data_type {
            let told = "cannot alter type of a column used by a view or rule";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, told)
                .detail(format!("rule _RETURN on {reader} depends on column \"{shown}\"")));
        }
    }
    Ok(())
}
