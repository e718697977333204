//! Triggers as the catalog keeps them: what a table calls when its rows are written.
//!
//! KEEPS: triggers of a table stand in the order of their names' bytes, in which they fire. A change of them gives the
//! table a new version, so whatever was planned without one is stale, and aborts.

use super::{Catalog, Table};
use crate::TableId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Arguments of a trigger at most: each travels with every version of its table.
pub const ARGUMENTS_MAX: usize = 100;

/// The triggers of a table. Shared, as its conditions are.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Triggers(Arc<Vec<Arc<Trigger>>>);

/// One trigger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trigger {
    /// From the number space of tables.
    pub id: TableId,
    pub name: String,
    pub when: When,
    pub events: BTreeSet<Event>,
    /// Of an UPDATE, the columns whose assignment it waits for; none: all.
    pub columns: Vec<usize>,
    pub level: Level,
    /// WHEN, as SQL over `old` and `new`.
    pub condition: Option<String>,
    /// A routine that was made, or what stands for a [`BuiltIn`].
    pub routine: TableId,
    pub arguments: Vec<String>,
    pub firing: Firing,
    #[serde(deserialize_with = "crate::codec::since::<13, _, _>")]
    pub transitions: Transitions,
}

/// What a trigger's function calls the rows that its statement wrote: as they were, and as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transitions {
    pub old: Option<String>,
    pub new: Option<String>,
}

impl Transitions {
    pub fn is_empty(&self) -> bool {
        self.old.is_none() && self.new.is_none()
    }
}

/// A function of triggers that is there without being made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuiltIn {
    /// `tsvector_update_trigger`: keeps a column the document of others.
    DocumentUpdate,
    /// `tsvector_update_trigger_column`: the same, in the configuration that a column says.
    DocumentUpdateColumn,
}

impl BuiltIn {
    const ALL: [BuiltIn; 2] = [BuiltIn::DocumentUpdate, BuiltIn::DocumentUpdateColumn];

    pub fn named(name: &str) -> Option<BuiltIn> {
        BuiltIn::ALL.into_iter().find(|built_in| built_in.name() == name)
    }
    pub fn name(self) -> &'static str {
        match self {
            BuiltIn::DocumentUpdate => "tsvector_update_trigger",
            BuiltIn::DocumentUpdateColumn => "tsvector_update_trigger_column",
        }
    }
    /// What stands for it as [`Trigger::routine`]: no routine that was made has it.
    pub fn routine(self) -> TableId {
        TableId(match self {
            BuiltIn::DocumentUpdate => 0x3fff_fff0,
            BuiltIn::DocumentUpdateColumn => 0x3fff_fff1,
        })
    }
    /// `None`: the routine was made.
    pub fn of_routine(id: TableId) -> Option<BuiltIn> {
        BuiltIn::ALL.into_iter().find(|built_in| built_in.routine() == id)
    }
    /// PostgreSQL's object id.
    pub fn oid(self) -> u32 {
        match self {
            BuiltIn::DocumentUpdate => 3752,
            BuiltIn::DocumentUpdateColumn => 3753,
        }
    }
}

/// Before a row is written, or at the end of the statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum When {
    Before,
    After,
}

/// What a statement does to rows, in the order in which definitions name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Event {
    Insert,
    Delete,
    Update,
    Truncate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Level {
    Row,
    Statement,
}

/// When it fires, as `ALTER TABLE … ENABLE TRIGGER` says. No session here is a replica's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Firing {
    Enabled,
    Disabled,
    Always,
    /// In sessions that replay what others have written: never.
    Replica,
}

impl Event {
    /// As `TG_OP` says it.
    pub fn word(self) -> &'static str {
        match self {
            Event::Insert => "INSERT",
            Event::Delete => "DELETE",
            Event::Update => "UPDATE",
            Event::Truncate => "TRUNCATE",
        }
    }
}

impl When {
    pub fn word(self) -> &'static str {
        match self {
            When::Before => "BEFORE",
            When::After => "AFTER",
        }
    }
}

impl Level {
    pub fn word(self) -> &'static str {
        match self {
            Level::Row => "ROW",
            Level::Statement => "STATEMENT",
        }
    }
}

impl Trigger {
    pub fn is_enabled(&self) -> bool {
        matches!(self.firing, Firing::Enabled | Firing::Always)
    }

    /// Whether it fires for a statement that assigns these columns. They are asked for UPDATE alone.
    pub fn waits_for(&self, event: Event, changed: &[usize]) -> bool {
        let is_column = || self.columns.is_empty() || self.columns.iter().any(|c| changed.contains(c));
        self.is_enabled() && self.events.contains(&event) && (event != Event::Update || is_column())
    }
}

impl Triggers {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn all(&self) -> impl Iterator<Item = &Arc<Trigger>> {
        self.0.iter()
    }

    pub fn named(&self, name: &str) -> Option<&Arc<Trigger>> {
        self.0.iter().find(|trigger| trigger.name == name)
    }

    /// Adds a trigger, or puts it in the place of the one with its id.
    pub fn put(&mut self, trigger: Trigger) {
        let all = Arc::make_mut(&mut self.0);
        all.retain(|known| known.id != trigger.id);
        all.push(Arc::new(trigger));
        all.sort_by(|a, b| a.name.cmp(&b.name));
    }

    pub fn take_away(&mut self, id: TableId) {
        Arc::make_mut(&mut self.0).retain(|trigger| trigger.id != id);
    }

    /// Changes each of them; their names stay.
    pub fn each_mut(&mut self) -> impl Iterator<Item = &mut Trigger> {
        Arc::make_mut(&mut self.0).iter_mut().map(Arc::make_mut)
    }

    /// Triggers that a statement fires, in their order.
    pub fn fired<'t>(
        &'t self,
        when: When,
        level: Level,
        event: Event,
        changed: &'t [usize],
    ) -> impl Iterator<Item = &'t Arc<Trigger>> {
        let is_one = move |trigger: &&Arc<Trigger>| {
            trigger.when == when && trigger.level == level && trigger.waits_for(event, changed)
        };
        self.0.iter().filter(is_one)
    }

    /// Whether new states of rows are only known when triggers have looked at them.
    pub fn change_rows(&self, event: Event) -> bool {
        let mut all = self.0.iter();
        all.any(|t| {
            t.when == When::Before && t.level == Level::Row && t.is_enabled() && t.events.contains(&event)
        })
    }

    /// Whether one of them that fires asks for all rows that the statement wrote.
    pub fn ask_for_rows(&self, event: Event, changed: &[usize]) -> bool {
        self.0.iter().any(|trigger| !trigger.transitions.is_empty() && trigger.waits_for(event, changed))
    }

    /// Whether any of them fires for an event.
    pub fn wait_for(&self, event: Event) -> bool {
        self.0.iter().any(|trigger| trigger.is_enabled() && trigger.events.contains(&event))
    }
}

impl Table {
    /// The trigger with this id.
    pub fn trigger(&self, id: TableId) -> Option<&Arc<Trigger>> {
        self.triggers.all().find(|trigger| trigger.id == id)
    }
}

impl Catalog {
    /// A trigger by its id, with its table.
    pub fn trigger(&self, id: TableId) -> Option<(&Arc<Table>, &Arc<Trigger>)> {
        self.tables.values().find_map(|table| table.trigger(id).map(|trigger| (table, trigger)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trigger(id: u32, name: &str, columns: &[usize]) -> Trigger {
        Trigger {
            id: TableId(id),
            name: name.into(),
            when: When::Before,
            events: BTreeSet::from([Event::Insert, Event::Update]),
            columns: columns.to_vec(),
            level: Level::Row,
            condition: None,
            routine: TableId(9),
            arguments: Vec::new(),
            firing: Firing::Enabled,
            transitions: Transitions::default(),
        }
    }

    fn fired(triggers: &Triggers, event: Event, changed: &[usize]) -> Vec<String> {
        let fired = triggers.fired(When::Before, Level::Row, event, changed);
        fired.map(|trigger| trigger.name.clone()).collect()
    }

    #[test]
    fn triggers_fire_in_the_order_of_their_names() {
        let mut triggers = Triggers::default();
        for (id, name) in [(1, "b"), (2, "B"), (3, "a")] {
            triggers.put(trigger(id, name, &[]));
        }
        assert_eq!(fired(&triggers, Event::Insert, &[]), ["B", "a", "b"]);
        triggers.put(Trigger { name: "z".into(), ..trigger(2, "", &[]) });
        assert_eq!(fired(&triggers, Event::Insert, &[]), ["a", "b", "z"]);
        triggers.take_away(TableId(1));
        assert_eq!(fired(&triggers, Event::Delete, &[]), [""; 0]);
        assert_eq!(fired(&triggers, Event::Update, &[]), ["a", "z"]);
    }

    #[test]
    fn columns_are_waited_for_in_updates() {
        let mut triggers = Triggers::default();
        triggers.put(trigger(1, "of", &[2, 3]));
        assert_eq!(fired(&triggers, Event::Update, &[1]), [""; 0]);
        assert_eq!(fired(&triggers, Event::Update, &[1, 3]), ["of"]);
        assert_eq!(fired(&triggers, Event::Insert, &[]), ["of"]);
        triggers.each_mut().for_each(|trigger| trigger.firing = Firing::Disabled);
        assert_eq!(fired(&triggers, Event::Insert, &[]), [""; 0]);
        assert!(!triggers.change_rows(Event::Insert) && !triggers.is_empty());
    }
}
