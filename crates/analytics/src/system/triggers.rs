//! Triggers in the system catalog: `pg_trigger`, `pg_get_triggerdef`, `information_schema.triggers`, and what `pg_dump` asks.

use super::Made;
use crate::context::Context;
use base::schema::triggers::{BuiltIn, Event, Firing, Level, Trigger, When};
use base::schema::{Catalog, Table};
use base::{DataType, Datum};
use sql::lower::{FIRST_OID, oid};
use sql::triggers::definition;
use std::sync::Arc;

const INT: DataType = DataType::Integer;
const SMALL: DataType = DataType::SmallInt;
const BOOL: DataType = DataType::Boolean;
const TEXT: DataType = DataType::Text;

/// Object id of `pg_trigger`.
pub(super) const TRIGGER: u32 = 2620;

fn int(i: impl Into<i64>) -> Datum {
    Datum::Int(i.into())
}
fn text(s: impl AsRef<str>) -> Datum {
    Datum::text(s)
}

/// All triggers, each with its table.
fn all(catalog: &Catalog) -> impl Iterator<Item = (&Arc<Table>, &Arc<Trigger>)> {
    catalog.tables.values().flat_map(|table| table.triggers.all().map(move |trigger| (table, trigger)))
}

/// `pg_get_triggerdef`.
pub(super) fn told(context: &Context<'_>, number: i64, is_pretty: bool) -> Option<String> {
    let id = u32::try_from(number).ok()?.checked_sub(FIRST_OID)?;
    let (table, trigger) = context.catalog.trigger(base::TableId(id))?;
    Some(definition(context.catalog, context.search_path, (table, trigger), is_pretty))
}

/// When a trigger fires, as a letter.
fn firing(trigger: &Trigger) -> &'static str {
    match trigger.firing {
        Firing::Enabled => "O",
        Firing::Disabled => "D",
        Firing::Always => "A",
        Firing::Replica => "R",
    }
}

/// `tgtype`: a bit for everything that is said of when it fires.
fn bits(trigger: &Trigger) -> i64 {
    let event = |event: &Event| match event {
        Event::Insert => 4,
        Event::Delete => 8,
        Event::Update => 16,
        Event::Truncate => 32,
    };
    let events: i64 = trigger.events.iter().map(event).sum();
    i64::from(trigger.level == Level::Row) + 2 * i64::from(trigger.when == When::Before) + events
}

/// A table or view about triggers; `None` if there is none of this name.
pub(super) fn make(context: &Context<'_>, name: &str) -> Option<Made> {
    Some(match name {
        "pg_trigger" => pg_trigger(context),
        "meridian_dump_triggers" => dumped(context),
        _ => return None,
    })
}

fn pg_trigger(context: &Context<'_>) -> Made {
    let mut made = Made::new(&[
        ("oid", INT),
        ("tgrelid", INT),
        ("tgparentid", INT),
        ("tgname", TEXT),
        ("tgfoid", INT),
        ("tgtype", SMALL),
        ("tgenabled", TEXT),
        ("tgisinternal", BOOL),
        ("tgconstrrelid", INT),
        ("tgconstrindid", INT),
        ("tgconstraint", INT),
        ("tgdeferrable", BOOL),
        ("tginitdeferred", BOOL),
        ("tgnargs", SMALL),
        ("tgattr", TEXT),
        ("tgargs", DataType::Bytea),
        ("tgqual", TEXT),
        ("tgoldtable", TEXT),
        ("tgnewtable", TEXT),
    ]);
    for (table, trigger) in all(context.catalog) {
        let place =
            |column: &usize| (table.visible_columns().filter(|(at, _)| at <= column).count()).to_string();
        let columns: Vec<String> = trigger.columns.iter().map(place).collect();
        let arguments: Vec<u8> = trigger.arguments.iter().flat_map(|a| a.bytes().chain([0])).collect();
        let no = || Datum::Bool(false);
        made.rows.push(vec![
            int(oid(trigger.id)),
            int(oid(table.id)),
            int(0),
            text(&trigger.name),
            int(BuiltIn::of_routine(trigger.routine).map_or(oid(trigger.routine), BuiltIn::oid)),
            int(bits(trigger)),
            text(firing(trigger)),
            no(),
            int(0),
            int(0),
            int(0),
            no(),
            no(),
            int(trigger.arguments.len() as i64),
            text(columns.join(" ")),
            Datum::Bytes(arguments.into()),
            trigger.condition.as_ref().map_or(Datum::Null, text),
            trigger.transitions.old.as_ref().map_or(Datum::Null, text),
            trigger.transitions.new.as_ref().map_or(Datum::Null, text),
        ]);
    }
    made
}

/// Triggers as `pg_dump` asks for them.
fn dumped(context: &Context<'_>) -> Made {
    let mut made = Made::new(&[
        ("tgrelid", INT),
        ("tgname", TEXT),
        ("tgfname", TEXT),
        ("tgdef", TEXT),
        ("tgenabled", TEXT),
        ("tableoid", INT),
        ("oid", INT),
        ("tgispartition", BOOL),
    ]);
    for (table, trigger) in all(context.catalog) {
        made.rows.push(vec![
            int(oid(table.id)),
            text(&trigger.name),
            text(""),
            text(definition(context.catalog, context.search_path, (table, trigger), false)),
            text(firing(trigger)),
            int(TRIGGER),
            int(oid(trigger.id)),
            Datum::Bool(false),
        ]);
    }
    made
}

/// `information_schema.triggers`: a row for each event but TRUNCATE.
pub(super) fn information_schema(context: &Context<'_>) -> Made {
    let mut made = Made::new(&[
        ("trigger_catalog", TEXT),
        ("trigger_schema", TEXT),
        ("trigger_name", TEXT),
        ("event_manipulation", TEXT),
        ("event_object_catalog", TEXT),
        ("event_object_schema", TEXT),
        ("event_object_table", TEXT),
        ("action_order", INT),
        ("action_condition", TEXT),
        ("action_statement", TEXT),
        ("action_orientation", TEXT),
        ("action_timing", TEXT),
        ("action_reference_old_table", TEXT),
        ("action_reference_new_table", TEXT),
        ("action_reference_old_row", TEXT),
        ("action_reference_new_row", TEXT),
        ("created", DataType::TimestampTz),
    ]);
    for (table, trigger) in all(context.catalog) {
        let defined = definition(context.catalog, context.search_path, (table, trigger), false);
        let action = defined.find(" EXECUTE FUNCTION ").map_or("", |at| &defined[at + 1..]);
        for event in trigger.events.iter().filter(|event| **event != Event::Truncate) {
            let is_alike = |other: &&Arc<Trigger>| {
                (other.when, other.level) == (trigger.when, trigger.level) && other.events.contains(event)
            };
            let before = table.triggers.all().filter(is_alike).take_while(|other| other.id != trigger.id);
            let condition = trigger.condition.as_ref().map_or(Datum::Null, text);
            let database = || text(context.database);
            let mut row = vec![
                database(),
                text(&table.schema),
                text(&trigger.name),
                text(event.word()),
                database(),
                text(&table.schema),
                text(&table.name),
                int(1 + before.count() as i64),
                condition,
                text(action),
                text(trigger.level.word()),
                text(trigger.when.word()),
            ];
            row.resize(made.columns.len(), Datum::Null);
            made.rows.push(row);
        }
    }
    made
}
