//! Triggers: what a statement that writes a table calls.
//!
//! A statement on a table with triggers is a transaction that reads before it writes, as one that foreign keys are about
//! ([`super::foreign_keys`]), or a part of the open one. BEFORE triggers look at a row just before it is buffered, AFTER
//! triggers at the end of the statement: rows first, in the order in which they were written, then the statement itself.
//!
//! KEEPS: whatever triggers do is in the statement's transaction, is validated with it and executed again with it; what was
//! planned before a trigger came is stale, since the trigger gives its table a new version
//! ([`base::schema::triggers`]). Rows are completed (generated columns) and checked when BEFORE triggers have seen them.

use super::Session;
use super::transaction::SeenRow;
use analytics::{RowsMemory, row_bytes};
use base::error::{SqlError, SqlResult, SqlState};
use base::schema::triggers::{Event, Level, When};
use base::schema::{Catalog, Table, Trigger};
use base::{Datum, Key, TableId};
use plpgsql::Outcome;
use sql::lower::generated::Generated;
use sql::lower::insert::check_row;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The values of a row.
type Values = Arc<Vec<Datum>>;

/// What fires for one kind of change that a statement makes to rows of a table.
pub(super) struct Firing {
    table: Arc<Table>,
    event: Event,
    before: Vec<Arc<Trigger>>,
    after: Vec<Arc<Trigger>>,
    generated: Generated,
    /// Rows of the table that its own triggers have written.
    touched: BTreeSet<Key>,
    /// Some trigger is told of all rows at once.
    is_asked_for_rows: bool,
}

/// Rows that a statement has written, as they were and as they are.
#[derive(Default)]
pub(super) struct WrittenRows {
    pub old: Vec<Values>,
    pub new: Vec<Values>,
}

/// A trigger that fires: for which statement, and of a row trigger for which row.
pub(super) struct Fired {
    pub table: Arc<Table>,
    pub trigger: Arc<Trigger>,
    pub event: Event,
    pub old: Option<Values>,
    pub new: Option<Values>,
    /// All rows of the statement, for a trigger that names them.
    pub rows: Option<Arc<WrittenRows>>,
}

/// What AFTER triggers have still to be told.
#[derive(Default)]
pub(super) struct Pending {
    rows: Vec<Fired>,
    statements: Vec<Fired>,
    /// What statements have written of tables whose triggers are told of all rows at once.
    written: BTreeMap<(TableId, Event), WrittenRows>,
    memory: Vec<RowsMemory>,
}

impl Pending {
    /// AFTER triggers of a statement's events fire the other way round than its BEFORE triggers.
    pub fn turn_statements(&mut self) {
        let mut turned: Vec<Fired> = Vec::with_capacity(self.statements.len());
        for event in [Event::Delete, Event::Update, Event::Insert] {
            let (of, others) =
                std::mem::take(&mut self.statements).into_iter().partition(|f: &Fired| f.event == event);
            self.statements = others;
            let of: Vec<Fired> = of;
            turned.extend(of);
        }
        self.statements = turned;
    }

    /// What a part of a statement leaves to its end.
    pub fn extend(&mut self, other: Pending) {
        self.rows.extend(other.rows);
        for fired in other.statements {
            // A statement is told of once, however many of its parts write the table.
            let is_known = |known: &Fired| known.trigger.id == fired.trigger.id && known.event == fired.event;
            if !self.statements.iter().any(is_known) {
                self.statements.push(fired);
            }
        }
        for (of, rows) in other.written {
            let known = self.written.entry(of).or_default();
            known.old.extend(rows.old);
            known.new.extend(rows.new);
        }
        self.memory.extend(other.memory);
    }
}

/// What a row that triggers wait for takes beside its values.
const PENDING_BYTES: usize = 96;

fn already_modified(event: Event) -> SqlError {
    let word = if event == Event::Delete { "deleted" } else { "updated" };
    let told =
        format!("tuple to be {word} was already modified by an operation triggered by the current command");
    SqlError::new(SqlState(*b"27000"), told).hint(
        "Consider using an AFTER trigger instead of a BEFORE trigger to propagate changes to other rows.",
    )
}

/// Rows are on their way into the table as it was. Errors: 55006 if it is another one now.
fn refuse_changed(id: TableId, before: &Catalog, now: &Catalog) -> SqlResult<()> {
    let Some(old) = before.table(id) else { return Ok(()) };
    let is_named = |new: &&Arc<Table>| (&new.schema, &new.name) == (&old.schema, &old.name);
    let verb = match now.table(id) {
        Some(new) if new.version == old.version => return Ok(()),
        Some(new) if new.indexes.len() > old.indexes.len() => "CREATE INDEX",
        None if !now.tables.values().any(|new| is_named(&new)) => "DROP TABLE",
        _ => "ALTER TABLE",
    };
    let told =
        format!("cannot {verb} \"{}\" because it is being used by active queries in this session", old.name);
    Err(SqlError::new(SqlState(*b"55006"), told))
}

impl Session {
    /// A statement begins to write a table: its BEFORE triggers fire, and its AFTER triggers wait for the end. `changed` are
    /// the columns that it assigns.
    pub(super) async fn begin_write(
        &mut self,
        table: &Arc<Table>,
        event: Event,
        changed: &[usize],
        pending: &mut Pending,
    ) -> SqlResult<()> {
        if table.triggers.is_empty() {
            return Ok(());
        }
        let fired = |trigger: &Arc<Trigger>| Fired {
            table: table.clone(),
            trigger: trigger.clone(),
            event,
            old: None,
            new: None,
            rows: None,
        };
        for trigger in table.triggers.fired(When::Before, Level::Statement, event, changed) {
            Box::pin(self.fire(&fired(trigger))).await?;
        }
        let after = table.triggers.fired(When::After, Level::Statement, event, changed).map(fired);
        pending.statements.extend(after);
        Ok(())
    }

    /// What fires for rows; `None`: nothing.
    pub(super) fn firing(
        &self,
        table: &Arc<Table>,
        event: Event,
        changed: &[usize],
    ) -> SqlResult<Option<Box<Firing>>> {
        let of = |when| -> Vec<Arc<Trigger>> {
            table.triggers.fired(when, Level::Row, event, changed).cloned().collect()
        };
        let (before, after) = (of(When::Before), of(When::After));
        // A trigger that waits for other columns has left the row to be completed all the same.
        let is_asked_for_rows = table.triggers.ask_for_rows(event, changed);
        if before.is_empty() && after.is_empty() && !table.triggers.change_rows(event) && !is_asked_for_rows {
            return Ok(None);
        }
        let generated = self.lowered(|lowering| lowering.generated(table))?;
        let (table, touched) = (table.clone(), BTreeSet::new());
        Ok(Some(Box::new(Firing { table, event, before, after, generated, touched, is_asked_for_rows })))
    }

    /// A row's new state as BEFORE triggers leave it, completed and checked; `None`: it is not written. `old` is the row that
    /// is updated. Errors: 27000, 23502, 23514, and those of the triggers.
    pub(super) async fn before_row(
        &mut self,
        firing: &mut Option<Box<Firing>>,
        old: Option<&SeenRow>,
        new: Vec<Datum>,
    ) -> SqlResult<Option<Vec<Datum>>> {
        let Some(firing) = firing.as_deref_mut().filter(|f| f.table.triggers.change_rows(f.event)) else {
            return Ok(Some(new));
        };
        let table = firing.table.clone();
        let mut new = new;
        if !firing.before.is_empty() {
            firing.generated.columns().for_each(|column| new[column] = Datum::Null);
            for trigger in firing.before.clone() {
                let values = Arc::new(new);
                match self.fire_before(firing, trigger, old, Some(values.clone())).await? {
                    Outcome::NoRow => return Ok(None),
                    Outcome::Row(row) => new = self.returned_row(&table, &values, row)?,
                    _ => new = values.to_vec(),
                }
            }
        }
        if old.is_some_and(|old| firing.touched.contains(&old.key)) {
            return Err(already_modified(firing.event));
        }
        firing.generated.fill(&table, &mut new)?;
        check_row(&table, &new)?;
        Ok(Some(new))
    }

    /// Whether BEFORE triggers let a row go. Errors: 27000, and those of the triggers.
    pub(super) async fn before_delete(
        &mut self,
        firing: &mut Option<Box<Firing>>,
        old: &SeenRow,
    ) -> SqlResult<bool> {
        let Some(firing) = firing.as_deref_mut() else { return Ok(true) };
        for trigger in firing.before.clone() {
            if self.fire_before(firing, trigger, Some(old), None).await? == Outcome::NoRow {
                return Ok(false);
            }
        }
        match firing.touched.contains(&old.key) {
            true => Err(already_modified(firing.event)),
            false => Ok(true),
        }
    }

    /// Has triggers look at what becomes of a row, `None` inside being that it goes; `None`: it stays as it is. Errors: as
    /// those of [`Session::before_row`].
    pub(super) async fn seen_by_triggers(
        &mut self,
        firing: &mut Option<Box<Firing>>,
        old: &SeenRow,
        new: Option<Vec<Datum>>,
        pending: &mut Pending,
    ) -> SqlResult<Option<Option<Vec<Datum>>>> {
        let new = match new {
            Some(new) => match self.before_row(firing, Some(old), new).await? {
                Some(new) => Some(new),
                None => return Ok(None),
            },
            None if self.before_delete(firing, old).await? => None,
            None => return Ok(None),
        };
        self.after_row(firing, Some(&old.values), new.as_deref(), pending)?;
        Ok(Some(new))
    }

    /// Fires one trigger, and notes which rows of the table it has written.
    async fn fire_before(
        &mut self,
        firing: &mut Firing,
        trigger: Arc<Trigger>,
        old: Option<&SeenRow>,
        new: Option<Values>,
    ) -> SqlResult<Outcome> {
        let mark = self.open().mark();
        let old = old.map(|seen| seen.values.clone());
        let (table, event) = (firing.table.clone(), firing.event);
        let fired = Fired { table, trigger, event, old, new, rows: None };
        let outcome = Box::pin(self.fire(&fired)).await?;
        firing.touched.extend(self.open().keys_since(mark, firing.table.id));
        Ok(outcome)
    }

    /// A row was written: AFTER triggers will be told. Errors: 53200.
    pub(super) fn after_row(
        &self,
        firing: &Option<Box<Firing>>,
        old: Option<&Values>,
        new: Option<&[Datum]>,
        pending: &mut Pending,
    ) -> SqlResult<()> {
        let is_told = |firing: &&Firing| !firing.after.is_empty() || firing.is_asked_for_rows;
        let Some(firing) = firing.as_deref().filter(is_told) else { return Ok(()) };
        let new = new.map(|values| Arc::new(values.to_vec()));
        let bytes = old.map_or(0, |row| row_bytes(row)) + new.as_ref().map_or(0, |row| row_bytes(row));
        if pending.memory.is_empty() {
            pending.memory.push(self.gateway.rows_memory("rows that triggers wait for"));
        }
        pending.memory[0].grow(bytes + PENDING_BYTES * (1 + firing.after.len()))?;
        if firing.is_asked_for_rows {
            let rows = pending.written.entry((firing.table.id, firing.event)).or_default();
            rows.old.extend(old.cloned());
            rows.new.extend(new.clone());
        }
        for trigger in &firing.after {
            pending.rows.push(Fired {
                table: firing.table.clone(),
                trigger: trigger.clone(),
                event: firing.event,
                old: old.cloned(),
                new: new.clone(),
                rows: None,
            });
        }
        Ok(())
    }

    /// The end of a statement that writes: foreign keys are kept, then AFTER triggers fire. Of a part of a statement both
    /// wait for the statement's end. `mark`: where it began. Errors: 23503, and those of the triggers.
    pub(super) async fn end_write(&mut self, mark: usize, pending: &mut Pending) -> SqlResult<()> {
        self.keep_foreign_keys(mark).await?;
        if self.open().parts.is_some() {
            return Ok(());
        }
        self.fire_pending(std::mem::take(pending)).await
    }

    pub(super) async fn fire_pending(&mut self, pending: Pending) -> SqlResult<()> {
        let Pending { rows, statements, written, memory } = pending;
        let written: BTreeMap<_, Arc<WrittenRows>> =
            written.into_iter().map(|(of, rows)| (of, Arc::new(rows))).collect();
        for mut fired in rows.into_iter().chain(statements) {
            fired.rows = written.get(&(fired.table.id, fired.event)).cloned();
            Box::pin(self.fire(&fired)).await?;
        }
        drop(memory);
        Ok(())
    }

    /// Calls a trigger's function, if its condition holds; otherwise the row stays as it is. What is under way in the
    /// statement is put aside: what the function does are statements of their own. Errors: 55006 if these change the table.
    async fn fire(&mut self, fired: &Fired) -> SqlResult<Outcome> {
        let (parts, reading) = (self.open().parts.take(), self.open().reading);
        self.open().reading.is_lone = false;
        let before = self.catalog();
        let outcome = self.call_trigger(fired).await;
        let outcome = outcome.and_then(|outcome| {
            refuse_changed(fired.table.id, &before, &self.catalog())?;
            Ok(outcome)
        });
        let open = self.open();
        open.parts = parts;
        // Rows of the statement were seen at its own cut.
        (open.reading.seen_at, open.reading.keeps) = (reading.seen_at, reading.keeps);
        outcome
    }

    /// A row as a trigger has returned it. Errors: 42804 if it is no row of the table.
    fn returned_row(&self, table: &Table, before: &[Datum], row: plpgsql::Row) -> SqlResult<Vec<Datum>> {
        let told = "returned row structure does not match the structure of the triggering table";
        let wrong = |detail: String| SqlError::new(SqlState::DATATYPE_MISMATCH, told).detail(detail);
        let expected = table.visible_columns().count();
        if row.values.len() != expected {
            let returned = row.values.len();
            return Err(wrong(format!(
                "Number of returned columns ({returned}) does not match expected column count ({expected})."
            )));
        }
        let mut new = before.to_vec();
        let returned = row.values.into_iter().zip(row.fields.iter());
        for ((nth, (column, described)), (value, field)) in table.visible_columns().enumerate().zip(returned)
        {
            let (is, wanted) = (field.of.data_type, described.data_type);
            if sql::types::type_oid(is) != sql::types::type_oid(wanted) {
                let name = sql::lower::expr::type_name;
                return Err(wrong(format!(
                    "Returned type {} does not match expected type {} in column {}.",
                    name(is),
                    name(wanted),
                    nth + 1
                )));
            }
            new[column] = sql::lower::insert::assign(value, described)?;
        }
        Ok(new)
    }
}

impl super::transaction::Transaction {
    /// Keys of a table's rows that were written since a mark.
    fn keys_since(&self, mark: usize, table: TableId) -> impl Iterator<Item = Key> + '_ {
        self.written_since(mark).filter(move |(of, _)| *of == table).map(|(_, key)| key.clone())
    }
}
