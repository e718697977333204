//! Foreign keys, kept by the transaction that writes.
//!
//! A statement that writes what a foreign key is about runs as a transaction (in a block: as part of it) that also reads
//! what the key asks: for a new reference the row that is referenced, for a row that goes the rows that reference it. It
//! does so at the end of the statement, over its own writes; a deferred key is asked at COMMIT, of the net effect of all
//! statements. What CASCADE, SET NULL and SET DEFAULT change joins the transaction's writes and is asked about in turn.
//!
//! KEEPS: no committed row references a row that is not there, from whatever regions the two were written.
//! Why: all that is asked is read at the transaction's cut and recorded as read, so COMMIT declares it (the key of the
//! referenced row; the range of keys or index entries that referencing rows have) and validates it at the transaction's
//! place in the one serial order. Let A add a reference to a row that B takes away. A has found the row and recorded its
//! key; B has recorded the range that A's row enters. They conflict on both, so one of them has the later place
//! everywhere, and there finds what it has read newer than its cut: it fails with 40001, and a single statement is
//! executed again, sees the other, and ends with 23503. Tables homed elsewhere, or by row, change nothing in this: the
//! reads are declared at the partitions that hold those rows. A transaction planned before a key was added does not slip
//! through either: adding one gives both tables a new version ([`base::schema::foreign`]), and what names an older one
//! aborts. Engine `geogauss` validates reads at its level `serializable`; below that nothing that is read is validated.

mod concerns;
mod deferring;
mod following;
mod reference;

pub(super) use concerns::{added, concern_insert, concern_writes, refuse_procedure};
pub(super) use deferring::SetConstraints;
pub(super) use reference::Reference;

use super::Session;
use super::read::Wanted;
use super::transaction::{RowChange, SeenRow};
use base::error::SqlResult;
use base::expr::Expr;
use base::schema::foreign::{Action, Timing};
use base::schema::{Catalog, ForeignKey, SchemaAction, Table};
use base::{Datum, Key, TableId};
use reference::{equalities, sorted};
use sql::lower::Lowering;
use sql::lower::bind::Binding;
use sql::lower::generated::Generated;
use sql::lower::insert::assign;
use sql::lower::keys::{KeyPath, Reached, conjoin};
use sql::lower::modify::better_index;
use sql::lower::scope::ParameterTypes;
use sql::lower::select::Contended;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// From so many references on that are asked at once a table is looked through rather than asked for each.
const REFERENCES_MAX: usize = 1_000;

/// A referenced row that is there no more, or not with these values: what it was, and is.
type Lost = (Vec<Datum>, Option<Arc<Vec<Datum>>>);

/// Values by their encoding.
type ValueSet = BTreeMap<Key, Vec<Datum>>;

impl Session {
    /// The end of a statement that may have written what foreign keys are about: does what they say and checks those
    /// that are not deferred. `mark`: where the statement began. Errors: 23503, and those of what they change.
    pub(super) async fn keep_foreign_keys(&mut self, mark: usize) -> SqlResult<()> {
        // They are kept once all parts of the statement have written.
        if self.open().parts.is_some() {
            return Ok(());
        }
        let catalog = self.catalog();
        let is_concerned = |id| catalog.table(id).is_some_and(|table| !table.foreign.is_empty());
        let mut from = mark;
        loop {
            let changes = self.open().changes_since(from, is_concerned);
            if changes.is_empty() {
                break;
            }
            from = self.open().mark();
            self.open().reading.keeps = true;
            let followed = Box::pin(self.follow_references(&catalog, &changes)).await;
            self.open().reading.keeps = false;
            followed?;
        }
        if from == mark {
            return Ok(());
        }
        let changes = self.open().changes_since(mark, is_concerned);
        Box::pin(self.keep_checking(&catalog, &changes, false)).await
    }

    /// Checks what was deferred, for COMMIT. Errors: 23503.
    pub(super) async fn check_deferred(&mut self) -> SqlResult<()> {
        let Some(transaction) = self.transaction.as_ref().filter(|t| t.has_writes()) else { return Ok(()) };
        let catalog = self.catalog();
        let has_deferrable = |table: &Arc<Table>| {
            table.foreign.own.iter().any(|key| key.timing.is_deferrable())
                || catalog.referencing(table).any(|(_, key)| key.timing.is_deferrable())
        };
        let changes = transaction.changes(|id| catalog.table(id).is_some_and(has_deferrable));
        if changes.is_empty() {
            return Ok(());
        }
        self.keep_checking(&catalog, &changes, true).await
    }

    /// Checks references. What the check has seen has to be found unchanged at every level.
    async fn keep_checking(
        &mut self,
        catalog: &Arc<Catalog>,
        changes: &[RowChange],
        is_end: bool,
    ) -> SqlResult<()> {
        self.open().reading.keeps = true;
        let checked = self.check_references(catalog, changes, is_end).await;
        self.open().reading.keeps = false;
        checked
    }

    /// Holds changes against foreign keys: those that are checked now, or (`at_commit`) those that were deferred.
    async fn check_references(
        &mut self,
        catalog: &Arc<Catalog>,
        changes: &[RowChange],
        at_commit: bool,
    ) -> SqlResult<()> {
        let tables: BTreeSet<TableId> = changes.iter().map(|change| change.table).collect();
        let is_due = |session: &Session, reference: &Reference| {
            let (child, key) = (&reference.child, &reference.key);
            let transaction = session.transaction.as_ref().expect("an open transaction");
            let initially = key.timing == Timing::Deferred;
            let is_deferred = reference.is_deferrable() && transaction.defers(child.id, &key.name, initially);
            is_deferred == at_commit
        };
        for id in tables {
            let Some(table) = catalog.table(id) else { continue };
            let here = || changes.iter().filter(|change| change.table == id);
            for (child, key) in catalog.referencing(table) {
                let reference = Reference::of(catalog, child, key)?;
                let is_due = is_due(self, &reference);
                let is_asked = |action: &Action| match action {
                    // Not deferrable, whatever the key is.
                    Action::Restrict => !at_commit,
                    Action::NoAction | Action::SetDefault(_) => is_due,
                    Action::Cascade | Action::SetNull(_) => false,
                };
                let mut targets = ValueSet::new();
                for (old, new) in lost(key, here()) {
                    let action = if new.is_none() { &key.on_delete } else { &key.on_update };
                    let is_replaced = *action != Action::Restrict && self.is_replaced(&reference, &old);
                    // The net effect does not tell a row that went from one that got another key.
                    let is_asked_of = |action: &Action| match at_commit {
                        true => is_asked(&key.on_delete) || is_asked(&key.on_update),
                        false => is_asked(action),
                    };
                    if is_asked_of(action) && !is_replaced {
                        targets.insert(Key::of(&old), old);
                    }
                }
                let rows = self.referencing_rows(&reference, &targets, false).await?;
                if let Some(row) = rows.first() {
                    let values = key.reference(&row.values).and_then(|v| reference.as_referenced(&v));
                    return Err(reference.is_still_referenced(&values.unwrap_or_default()));
                }
            }
            for key in &table.foreign.own {
                let reference = Reference::of(catalog, table, key)?;
                let moves_rows = self.open().reading.moves_rows;
                if !is_due(self, &reference) || moves_rows && !key.is_validated {
                    continue;
                }
                let mut asked = Vec::new();
                for change in here() {
                    let Some(after) = &change.after else { continue };
                    let same = |before: &Arc<Vec<Datum>>| key.columns.iter().all(|c| before[*c] == after[*c]);
                    // A row that comes from another partition had not this key there.
                    let had = match change.before.as_ref().filter(|before| same(before)) {
                        Some(before) => key.is_of(before)?,
                        None => false,
                    };
                    if !had {
                        asked.extend(reference.asked(after)?);
                    }
                }
                self.require(&reference, asked).await?;
            }
        }
        Ok(())
    }

    /// Whether a row that the transaction has written has the values that another one had.
    fn is_replaced(&self, reference: &Reference, values: &[Datum]) -> bool {
        let transaction = self.transaction.as_ref().expect("an open transaction");
        let parent = &reference.parent;
        let in_order = |columns: &[usize]| {
            let at = |c: &usize| reference.key.referenced.iter().position(|r| r == c);
            let values = columns.iter().map(|c| at(c).map(|at| values[at].clone()));
            values.collect::<Option<Vec<Datum>>>().unwrap_or_default()
        };
        match reference.unique() {
            None => {
                let key = Key::of(&in_order(&parent.primary_key));
                matches!(transaction.buffered(parent.id, &key), Some(Some(_)))
            }
            Some(index) => {
                let entry = Key::of(&in_order(&index.columns));
                transaction.owner_of(parent.id, index.id, entry).is_some()
            }
        }
    }

    /// Finds the rows that are referenced. Errors: 23503 for the first that is not there.
    async fn require(&mut self, reference: &Reference, asked: Vec<Vec<Datum>>) -> SqlResult<()> {
        let mut wanted = ValueSet::new();
        let mut order = Vec::with_capacity(asked.len());
        for values in asked {
            let Some(referenced) = reference.as_referenced(&values) else {
                return Err(reference.is_absent(&values));
            };
            let encoded = Key::of(&referenced);
            if wanted.insert(encoded.clone(), referenced).is_none() {
                order.push((encoded, values));
            }
        }
        if wanted.is_empty() {
            return Ok(());
        }
        let parent = &reference.parent;
        let paths = wanted.values().map(|values| {
            let conditions = equalities(&reference.key.referenced, values);
            match reference.unique() {
                None => KeyPath::primary(parent, &conditions),
                Some(index) => KeyPath::index(parent, index, &conditions),
            }
        });
        let reached = self.reached_by(parent, paths, wanted.len())?;
        let columns = sorted(&reference.key.referenced);
        let index = reference.unique().filter(|_| wanted.len() <= REFERENCES_MAX);
        let found = Wanted {
            table: parent,
            index,
            reached: &reached,
            filter: None,
            descending: false,
            limit: None,
            columns: Some(&columns),
            is_rewritten: false,
        };
        let rows = self.read_seen(&found).await?;
        let is_there: BTreeSet<Key> =
            rows.iter().filter_map(|row| reference.key.target(&row.values)).map(|v| Key::of(&v)).collect();
        match order.iter().find(|(encoded, _)| !is_there.contains(encoded)) {
            Some((_, values)) => Err(reference.is_absent(values)),
            None => Ok(()),
        }
    }

    /// Where paths lead; from many on, to all of the table.
    fn reached_by(
        &self,
        table: &Table,
        paths: impl Iterator<Item = KeyPath>,
        count: usize,
    ) -> SqlResult<Reached> {
        let (gateway, catalog) = (&self.gateway, self.catalog());
        let binding = Binding {
            parameters: &[],
            times: self.times(),
            generators: &gateway.node.generators,
            catalog: &catalog,
        };
        let (topology, near) = (gateway.cluster.topology(), Some(gateway.cluster.region()));
        if count > REFERENCES_MAX {
            return KeyPath::primary(table, &[]).reach(table, &binding, topology, near);
        }
        let mut reaches = Vec::new();
        for path in paths {
            reaches.extend(path.reach(table, &binding, topology, near)?.reaches);
        }
        reaches.sort_by(|a, b| (&a.range, &a.partitions).cmp(&(&b.range, &b.partitions)));
        reaches.dedup();
        Ok(Reached { reaches, is_exact: false })
    }

    /// Rows that reference any of these values: all of them, to be written; or else some if there are any.
    async fn referencing_rows(
        &mut self,
        reference: &Reference,
        targets: &ValueSet,
        to_write: bool,
    ) -> SqlResult<Vec<SeenRow>> {
        let Some(first) = targets.values().next() else { return Ok(Vec::new()) };
        let (child, key) = (&reference.child, &reference.key);
        let conditions = equalities(&key.columns, first);
        let primary = KeyPath::primary(child, &conditions);
        let index = better_index(child, &Generated::default(), &conditions, &primary).map(|(index, _)| index);
        let is_narrow = index.is_some() || primary.fixed_count() > 0;
        let index = index.filter(|_| targets.len() <= REFERENCES_MAX);
        let paths = targets.values().map(|values| {
            let conditions = equalities(&key.columns, values);
            match &index {
                Some(index) => KeyPath::index(child, index, &conditions),
                None => KeyPath::primary(child, &conditions),
            }
        });
        let count = if is_narrow { targets.len() } else { REFERENCES_MAX + 1 };
        let reached = self.reached_by(child, paths, count)?;
        let is_one = targets.len() == 1;
        let columns = reference.deciding();
        let of_partition = key.partition.as_ref().map(|of| of.condition.clone());
        let wanted = Wanted {
            table: child,
            index: index.as_ref(),
            reached: &reached,
            filter: conjoin(conditions.into_iter().chain(of_partition)).filter(|_| is_one),
            descending: false,
            limit: (is_one && !to_write).then_some(1),
            columns: Some(&columns).filter(|_| !to_write),
            is_rewritten: to_write,
        };
        let rows = match to_write {
            true => self.read_locked(&wanted, Contended::Wait).await?,
            false => self.read_seen(&wanted).await?,
        };
        let (mut seen, mut found) = (BTreeSet::new(), Vec::new());
        for row in rows {
            let values = key.reference(&row.values).and_then(|v| reference.as_referenced(&v));
            let references = values.is_some_and(|values| targets.contains_key(&Key::of(&values)));
            if references && key.is_of(&row.values)? && seen.insert(row.key.clone()) {
                found.push(row);
            }
        }
        Ok(found)
    }

    /// What is lowered of the catalog's own texts.
    pub(super) fn lowered<T>(&self, lower: impl FnOnce(&mut Lowering<'_>) -> SqlResult<T>) -> SqlResult<T> {
        let (catalog, mut types) = (self.catalog(), ParameterTypes::default());
        lower(&mut Lowering {
            catalog: &catalog,
            search_path: &self.settings.search_path,
            database: &self.database.name,
            parameters: &mut types,
        })
    }

    fn default_values(&self, table: &Arc<Table>) -> SqlResult<Vec<Datum>> {
        let (gateway, catalog) = (&self.gateway, self.catalog());
        let binding = Binding {
            parameters: &[],
            times: self.times(),
            generators: &gateway.node.generators,
            catalog: &catalog,
        };
        let defaults = self.lowered(|lowering| lowering.defaults(table))?;
        let value = |(e, column): (&Expr, &base::schema::Column)| assign(binding.value(e)?, column);
        defaults.iter().zip(&table.columns).map(value).collect()
    }

    /// Holds the rows that are there against keys that were added or are to be validated. `replaces`: a table that was
    /// made anew, and the one before it. Errors: 23503.
    pub(super) async fn validate_foreign_keys(
        &mut self,
        before: &Catalog,
        actions: &[SchemaAction],
        replaces: Option<(TableId, TableId)>,
    ) -> SqlResult<()> {
        let catalog = self.catalog();
        let keys = added(before, actions, replaces);
        for (id, name) in keys {
            let Some(table) = catalog.table(id) else { continue };
            let Some(key) = table.foreign.own.iter().find(|key| key.name == name) else { continue };
            let reference = Reference::of(&catalog, table, key)?;
            let reached = self.reached_by(table, std::iter::empty(), usize::MAX)?;
            let columns = reference.deciding();
            let wanted = Wanted {
                table,
                index: None,
                reached: &reached,
                filter: None,
                descending: false,
                limit: None,
                columns: Some(&columns),
                is_rewritten: false,
            };
            let rows = self.read_seen(&wanted).await?;
            let mut asked = Vec::new();
            for row in rows {
                asked.extend(reference.asked(&row.values)?);
            }
            self.require(&reference, asked).await?;
        }
        Ok(())
    }

    /// What foreign keys add to a write, for EXPLAIN: a line for each key that is asked.
    pub(super) fn foreign_key_costs(
        &self,
        table: &Table,
        changed: Option<&[usize]>,
        is_new: bool,
    ) -> Vec<String> {
        let catalog = self.catalog();
        let touches = |columns: &[usize]| changed.is_none_or(|c| columns.iter().any(|x| c.contains(x)));
        let when = |key: &ForeignKey| if key.timing == Timing::Deferred { ", at COMMIT" } else { "" };
        let mut lines = Vec::new();
        let takes = is_new || changed.is_some();
        let decides = |key: &ForeignKey| {
            let columns: Vec<usize> = key.deciding_columns().into_iter().collect();
            touches(&columns)
        };
        for key in table.foreign.own.iter().filter(|key| takes && decides(key)) {
            let parent = catalog.table(key.table).map_or("?", |t| t.name.as_str());
            let name = &key.name;
            lines.push(format!(
                "Foreign key {name}: reads the row of {parent} that is referenced{}",
                when(key)
            ));
        }
        for (child, key) in catalog.referencing(table).filter(|(_, key)| !is_new && touches(&key.referenced))
        {
            let Ok(reference) = Reference::of(&catalog, child, key) else { continue };
            let action = if changed.is_none() { &key.on_delete } else { &key.on_update };
            let does = match action {
                Action::NoAction | Action::Restrict => "reads",
                Action::Cascade if changed.is_none() => "deletes",
                _ => "updates",
            };
            let (name, way) = (&key.name, reference.way_to_children());
            lines.push(format!("Foreign key {name}: {does} rows of {} by {way}{}", child.name, when(key)));
        }
        lines
    }
}

/// What the referenced rows of a key were that are not so any more, and what they are now.
fn lost<'a>(
    key: &'a ForeignKey,
    changes: impl Iterator<Item = &'a RowChange> + 'a,
) -> impl Iterator<Item = Lost> + 'a {
    changes.filter_map(move |change| {
        let old = change.before.as_ref().and_then(|values| key.target(values))?;
        let same = |new: &Arc<Vec<Datum>>| key.target(new).as_ref() == Some(&old);
        let is_kept = change.after.as_ref().is_some_and(same);
        (!is_kept).then(|| (old, change.after.clone()))
    })
}
