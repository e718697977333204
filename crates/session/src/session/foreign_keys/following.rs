//! What CASCADE, SET NULL and SET DEFAULT do to rows that reference others. Triggers see it as a statement of its own.

use super::{Lost, Reference, lost};
use crate::session::Session;
use crate::session::transaction::RowChange;
use crate::session::turns::Turn;
use crate::session::write::Written;
use base::error::SqlResult;
use base::schema::Catalog;
use base::schema::foreign::Action;
use base::schema::triggers::Event;
use base::{Datum, Key, TableId};
use sql::lower::insert::{assign, check_row};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Session {
    /// CASCADE, SET NULL and SET DEFAULT, for rows that went or got other values.
    pub(super) async fn follow_references(
        &mut self,
        catalog: &Arc<Catalog>,
        changes: &[RowChange],
    ) -> SqlResult<()> {
        let tables: BTreeSet<TableId> = changes.iter().map(|change| change.table).collect();
        for id in tables {
            let parent = catalog.table(id).ok_or_else(base::schema::stale_schema)?;
            for (child, key) in catalog.referencing(parent) {
                let reference = Reference::of(catalog, child, key)?;
                let (mut deleted, mut updated): (Vec<Lost>, Vec<Lost>) = Default::default();
                for (old, new) in lost(key, changes.iter().filter(|change| change.table == id)) {
                    if new.is_none() { deleted.push((old, new)) } else { updated.push((old, new)) }
                }
                self.act(&reference, &key.on_delete, deleted).await?;
                self.act(&reference, &key.on_update, updated).await?;
            }
        }
        Ok(())
    }

    /// Changes the rows that reference what is lost.
    async fn act(&mut self, reference: &Reference, action: &Action, lost: Vec<Lost>) -> SqlResult<()> {
        if lost.is_empty() || matches!(action, Action::NoAction | Action::Restrict) {
            return Ok(());
        }
        let child = &reference.child;
        let by_key: BTreeMap<Key, Lost> = lost.into_iter().map(|lost| (Key::of(&lost.0), lost)).collect();
        let targets = by_key.iter().map(|(key, lost)| (key.clone(), lost.0.clone())).collect();
        let rows = self.referencing_rows(reference, &targets, true).await?;
        let defaults = match action {
            Action::SetDefault(_) => self.default_values(child)?,
            _ => Vec::new(),
        };
        let generated = self.lowered(|lowering| lowering.generated(child))?;
        let changed = changed_columns(reference, action);
        // All that is lost by DELETE or by UPDATE comes alone.
        let goes = *action == Action::Cascade && by_key.values().all(|(_, new)| new.is_none());
        let event = if goes { Event::Delete } else { Event::Update };
        let mut written = Written::default();
        self.begin_write(child, event, &changed, &mut written.pending).await?;
        let mut firing = self.firing(child, event, &changed)?;
        let mut turn = Turn::begin();
        for seen in rows {
            turn.give_way().await;
            let Some(mut new) = changed_row(reference, action, (&seen.values, &by_key), &defaults)? else {
                if self.seen_by_triggers(&mut firing, &seen, None, &mut written.pending).await?.is_some() {
                    self.open().change(child, seen.key.clone(), &seen.values, None)?;
                }
                continue;
            };
            if !child.triggers.change_rows(Event::Update) {
                generated.fill(child, &mut new)?;
                check_row(child, &new)?;
            }
            let new = self.seen_by_triggers(&mut firing, &seen, Some(new), &mut written.pending).await?;
            let Some(Some(new)) = new else { continue };
            self.guard_unique(child, &seen, &new).await?;
            self.replace(child, &seen, new)?;
        }
        self.fire_pending(written.pending).await
    }
}

/// Columns that an action assigns.
fn changed_columns(reference: &Reference, action: &Action) -> Vec<usize> {
    match action {
        Action::SetNull(columns) | Action::SetDefault(columns) if !columns.is_empty() => columns.clone(),
        _ => reference.key.columns.clone(),
    }
}

/// What becomes of a row that references what is lost; `None`: it goes.
fn changed_row(
    reference: &Reference,
    action: &Action,
    (seen, lost): (&[Datum], &BTreeMap<Key, Lost>),
    defaults: &[Datum],
) -> SqlResult<Option<Vec<Datum>>> {
    let (child, key) = (&reference.child, &reference.key);
    let mut new = seen.to_vec();
    match action {
        Action::Cascade => {
            let old = key.reference(seen).and_then(|values| reference.as_referenced(&values));
            let after = old.and_then(|old| lost.get(&Key::of(&old))).and_then(|(_, new)| new.as_ref());
            let Some(after) = after else { return Ok(None) };
            for (column, other) in key.columns.iter().zip(&key.referenced) {
                new[*column] = assign(after[*other].clone(), &child.columns[*column])?;
            }
        }
        Action::SetNull(_) => {
            changed_columns(reference, action).into_iter().for_each(|c| new[c] = Datum::Null);
        }
        Action::SetDefault(_) => {
            changed_columns(reference, action).into_iter().for_each(|c| new[c] = defaults[c].clone());
        }
        Action::NoAction | Action::Restrict => {}
    }
    Ok(Some(new))
}
