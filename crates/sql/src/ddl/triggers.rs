//! Triggers as changes of their tables' descriptions.

use super::{Ddl, DdlContext};
use crate::names;
use crate::parse::{self, CreateTrigger, RoutineKind, RoutineStatement, Signature, Timing, TriggerStatement};
use crate::routines;
use crate::triggers::{self, Named};
use base::comments::Commented;
use base::error::{SqlError, SqlResult, SqlState};
use base::roles::{Object, Privileges};
use base::routines::{ResultOf, Routine};
use base::schema::triggers::{ARGUMENTS_MAX, BuiltIn, Event, Firing, Level, Trigger, When};
use base::schema::{Identity, SchemaAction, Table};
use base::views::Relation;
use base::{DataType, TableId};
use sqlparser::ast::{self, ObjectName, Statement};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Of a change of the catalog.
type Notice = (SqlState, String);

/// 42P17.
const INVALID_OBJECT: SqlState = SqlState(*b"42P17");
const WRONG_OBJECT: SqlState = SqlState(*b"42809");
const DEPENDENT: SqlState = SqlState(*b"2BP01");

/// A function that is there without being made. Errors: 42601.
fn built_in(name: &ObjectName) -> SqlResult<Option<BuiltIn>> {
    Ok(match names::parts(name)?.as_slice() {
        [name] => BuiltIn::named(name),
        [schema, name] if schema == "pg_catalog" => BuiltIn::named(name),
        _ => None,
    })
}

impl DdlContext<'_> {
    pub(super) fn change_trigger(&self, statement: &TriggerStatement) -> SqlResult<Ddl> {
        match statement {
            TriggerStatement::Create(create) => self.create_trigger(create),
            TriggerStatement::Drop { if_exists, name, table } => self.drop_trigger(*if_exists, name, table),
            TriggerStatement::Rename { name, table, to } => self.rename_trigger(name, table, to),
            TriggerStatement::Comment { name, table, text } => {
                let (table, trigger) = self.find_trigger(name, table)?;
                self.check_owner_of_triggers(table)?;
                let what = Commented::Object(Object::Relation(trigger.id));
                let actions = vec![SchemaAction::Comment(what, text.clone())];
                Ok(Ddl { actions, tag: "COMMENT", ..Ddl::default() })
            }
        }
    }

    fn find_trigger(&self, name: &str, of: &ObjectName) -> SqlResult<(&Arc<Table>, &Arc<Trigger>)> {
        let table = self.find_table(of)?;
        table.triggers.named(name).map(|trigger| (table, trigger)).ok_or_else(|| missing(table, name))
    }

    /// Errors: 42501.
    fn check_owner_of_triggers(&self, table: &Table) -> SqlResult<()> {
        match self.roles().owns(self.standing, &Object::Relation(table.id)) {
            true => Ok(()),
            false => Err(super::roles::forbidden(format!("must be owner of relation {}", table.name))),
        }
    }

    /// The table of a trigger that is to be made. Errors: 42P01, 42809 and 0A000 for a view.
    fn table_of_trigger(&self, create: &CreateTrigger) -> SqlResult<&Arc<Table>> {
        let relation = self.find_relation(&create.table)?;
        let name = &relation.shape().name;
        let wrong = |kind: &str, detail: &str| {
            Err(SqlError::new(WRONG_OBJECT, format!("\"{name}\" is a {kind}")).detail(detail))
        };
        let is_view = match relation {
            Relation::View(_) => true,
            Relation::Table(table) => crate::materialized::is_one(self.catalog, table.id),
        };
        match (relation, create.timing) {
            (Relation::Table(_), _) if is_view => wrong("materialized view", "It cannot have triggers."),
            (Relation::View(_), Timing::InsteadOf) => Err(SqlError::unsupported("INSTEAD OF triggers").hint(
                "BEFORE and AFTER triggers of the tables that the view reads fire for writes through it.",
            )),
            (Relation::View(_), _) if create.level == Level::Row => {
                wrong("view", "Views cannot have row-level BEFORE or AFTER triggers.")
            }
            (Relation::View(_), _) => Err(SqlError::unsupported("triggers of views")
                .hint("Triggers of the tables that the view reads fire for writes through it.")),
            (Relation::Table(_), Timing::InsteadOf) => {
                wrong("table", "Tables cannot have INSTEAD OF triggers.")
            }
            (Relation::Table(table), _) => Ok(table),
        }
    }

    fn create_trigger(&self, create: &CreateTrigger) -> SqlResult<Ddl> {
        let table = self.table_of_trigger(create)?;
        let may = self.roles().may(self.standing, &Object::Relation(table.id), Privileges::TRIGGER);
        if !may && !self.roles().owns(self.standing, &Object::Relation(table.id)) {
            return Err(crate::privileges::denied("table", &table.name));
        }
        refuse_others(create)?;
        let events = events_of(create)?;
        if !create.transitions.is_empty() {
            check_transitions(table, create, &events)?;
        }
        let columns = columns_of(table, create)?;
        let condition = match &create.condition {
            Some(e) => Some(self.condition(table, create, &events, e)?),
            None => None,
        };
        let routine = match built_in(&create.function)? {
            Some(built_in) => built_in.routine(),
            None => self.trigger_function(&create.function)?.id,
        };
        let known = table.triggers.named(&create.name);
        if known.is_some() && !create.or_replace {
            return Err(taken(table, &create.name));
        }
        let mut next = table.as_ref().clone();
        next.triggers.put(Trigger {
            id: known.map_or(TableId(self.catalog.next_id), |known| known.id),
            name: create.name.clone(),
            when: if create.timing == Timing::Before { When::Before } else { When::After },
            events,
            columns,
            level: create.level,
            condition,
            routine,
            arguments: create.arguments.clone(),
            firing: Firing::Enabled,
            transitions: create.transitions.clone(),
        });
        Ok(Ddl { actions: vec![SchemaAction::AlterTable(next)], tag: "CREATE TRIGGER", ..Ddl::default() })
    }

    /// The function that a trigger calls. Errors: 42883, 42P17 for one that does not return `trigger`, 42501.
    fn trigger_function(&self, name: &ObjectName) -> SqlResult<&Arc<Routine>> {
        let named = Signature { kind: RoutineKind::Routine, name: name.clone(), types: Some(Vec::new()) };
        let found = routines::find(self.catalog, self.search_path, self.database, &named);
        let routine = found.map_err(|mut error| {
            if error.state == SqlState::UNDEFINED_FUNCTION {
                error.message = format!("function {}() does not exist", parse::shown_name(name));
            }
            error
        })?;
        if routine.result != ResultOf::Trigger {
            let told = format!("function {} must return type trigger", parse::shown_name(name));
            return Err(SqlError::new(INVALID_OBJECT, told));
        }
        match self.roles().may(self.standing, &Object::Relation(routine.id), Privileges::EXECUTE) {
            true => Ok(routine),
            false => Err(crate::privileges::denied("function", &routine.name)),
        }
    }

    /// WHEN, as it is kept. Errors: 42703, 42804, 42P17, 0A000.
    fn condition(
        &self,
        table: &Table,
        create: &CreateTrigger,
        events: &BTreeSet<Event>,
        e: &ast::Expr,
    ) -> SqlResult<String> {
        let (named, sample) = triggers::looked_at(table, e)?;
        refuse_named(table, create, events, &named)?;
        let statement = parse::parse(&format!("SELECT {sample}"))?.pop();
        let statement = statement.ok_or_else(|| SqlError::internal("a query is a statement"))?;
        let columns = self.shapes.columns_of(&statement, &[])?;
        let is_null = matches!(e, ast::Expr::Value(value) if matches!(value.value, ast::Value::Null));
        match columns.as_deref() {
            Some([one]) if one.data_type != DataType::Boolean && !is_null => {
                let of = crate::lower::expr::type_name(one.data_type);
                let told = format!("argument of WHEN must be type boolean, not type {of}");
                Err(SqlError::new(SqlState::DATATYPE_MISMATCH, told))
            }
            _ => {
                let mut kept = e.clone();
                names::qualify_types(&mut kept);
                routines::kept::qualify(self.lookup(), &mut kept);
                Ok(triggers::kept_condition(&kept))
            }
        }
    }

    fn drop_trigger(&self, if_exists: bool, name: &str, of: &ObjectName) -> SqlResult<Ddl> {
        let mut ddl = Ddl { tag: "DROP TRIGGER", ..Ddl::default() };
        let table = match self.find_table(of) {
            Err(error) if if_exists && super::is_missing(&error) => {
                ddl.notice(SqlState::SUCCESSFUL, format!("{}, skipping", error.message));
                return Ok(ddl);
            }
            found => found?,
        };
        let Some(trigger) = table.triggers.named(name) else {
            if !if_exists {
                return Err(missing(table, name));
            }
            let told = format!("trigger \"{name}\" for relation \"{}\" does not exist, skipping", table.name);
            ddl.notice(SqlState::SUCCESSFUL, told);
            return Ok(ddl);
        };
        self.check_owner_of_triggers(table)?;
        let mut next = table.as_ref().clone();
        next.triggers.take_away(trigger.id);
        ddl.actions.push(SchemaAction::AlterTable(next));
        Ok(ddl)
    }

    fn rename_trigger(&self, name: &str, of: &ObjectName, to: &str) -> SqlResult<Ddl> {
        let (table, trigger) = self.find_trigger(name, of)?;
        self.check_owner(&Object::Relation(table.id))?;
        if table.triggers.named(to).is_some() {
            return Err(taken(table, to));
        }
        let mut next = table.as_ref().clone();
        next.triggers.put(Trigger { name: to.into(), ..trigger.as_ref().clone() });
        Ok(Ddl { actions: vec![SchemaAction::AlterTable(next)], tag: "ALTER TRIGGER", ..Ddl::default() })
    }

    /// `ALTER TABLE … ENABLE TRIGGER …` and the like, and what is told of it; `None`: the operation is another one. Errors:
    /// 42704, 42501.
    pub(super) fn set_firing(
        &self,
        next: &mut Table,
        operation: &ast::AlterTableOperation,
    ) -> SqlResult<Option<Vec<Notice>>> {
        use ast::AlterTableOperation as Operation;
        let (name, firing) = match operation {
            Operation::EnableTrigger { name } => (name, Firing::Enabled),
            Operation::DisableTrigger { name } => (name, Firing::Disabled),
            Operation::EnableAlwaysTrigger { name } => (name, Firing::Always),
            Operation::EnableReplicaTrigger { name } => (name, Firing::Replica),
            _ => return Ok(None),
        };
        self.check_owner(&Object::Relation(next.id))?;
        let word = name.quote_style.is_none().then(|| name.value.to_lowercase());
        let are_all = matches!(word.as_deref(), Some("all" | "user"));
        let mut notices = Vec::new();
        if word.as_deref() == Some("all") && firing == Firing::Disabled && !next.foreign.is_empty() {
            let told = format!("foreign keys of \"{}\" are checked whether triggers fire or not", next.name);
            notices.push((SqlState(*b"01000"), told));
        }
        let name = names::fold(name);
        if !are_all && next.triggers.named(&name).is_none() {
            return Err(missing(next, &name));
        }
        if !next.triggers.is_empty() {
            let chosen = next.triggers.each_mut().filter(|trigger| are_all || trigger.name == name);
            chosen.for_each(|trigger| trigger.firing = firing);
        }
        Ok(Some(notices))
    }

    /// What a change does to triggers whose functions it drops: 2BP01, or with CASCADE they go too.
    pub(super) fn keep_triggers(&self, statement: &Statement, mut ddl: Ddl) -> SqlResult<Ddl> {
        let (mut routines, mut tables) = (BTreeSet::new(), BTreeSet::new());
        for action in &ddl.actions {
            match action {
                SchemaAction::DropRoutine(id) => drop(routines.insert(*id)),
                SchemaAction::DropTable(id) => drop(tables.insert(*id)),
                _ => {}
            }
        }
        if routines.is_empty() {
            return Ok(ddl);
        }
        let mut altered: BTreeMap<TableId, Table> = BTreeMap::new();
        let (mut depends, mut cascaded) = (Vec::new(), Vec::new());
        for table in self.catalog.tables.values().filter(|table| !tables.contains(&table.id)) {
            for trigger in table.triggers.all().filter(|trigger| routines.contains(&trigger.routine)) {
                let shown = format!("trigger {} on table {}", trigger.name, table.name);
                let called = self.catalog.routines.0.get(&trigger.routine);
                let function = called.map(|routine| routines::signature(self.catalog, routine));
                let function = function.unwrap_or_default();
                depends.push((function.clone(), format!("{shown} depends on function {function}")));
                cascaded.push(shown);
                let next = altered.entry(table.id).or_insert_with(|| table.as_ref().clone());
                next.triggers.take_away(trigger.id);
            }
        }
        let Some((first, _)) = depends.first() else { return Ok(ddl) };
        if !is_cascade(statement)? {
            let told = match routines.len() {
                1 => format!("cannot drop function {first} because other objects depend on it"),
                _ => "cannot drop desired object(s) because other objects depend on them".into(),
            };
            let detail: Vec<String> = depends.into_iter().map(|(_, detail)| detail).collect();
            return Err(SqlError::new(DEPENDENT, told)
                .detail(detail.join("\n"))
                .hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        ddl.notices.push((
            SqlState::SUCCESSFUL,
            match cascaded.as_slice() {
                [one] => format!("drop cascades to {one}"),
                more => format!("drop cascades to {} other objects", more.len()),
            },
        ));
        ddl.actions.splice(0..0, altered.into_values().map(SchemaAction::AlterTable));
        Ok(ddl)
    }

    /// Whether a new description of a table differs in its triggers alone: who may change these was asked.
    pub(super) fn changes_triggers_alone(&self, next: &Table) -> bool {
        let Some(before) = self.catalog.table(next.id) else { return false };
        before.triggers != next.triggers
            && *before.as_ref() == Table { triggers: before.triggers.clone(), ..next.clone() }
    }
}

impl DdlContext<'_> {
    /// Takes away the triggers that depend on a column that goes; answers what is told of that. Errors: 2BP01, unless CASCADE was said.
    pub(super) fn drop_triggers_of(
        &self,
        next: &mut Table,
        column: usize,
        cascade: bool,
    ) -> SqlResult<Vec<Notice>> {
        let mut gone = Vec::new();
        for trigger in next.triggers.all() {
            if triggers::columns_of(next, trigger)?.contains(&column) {
                gone.push((trigger.id, format!("trigger {} on table {}", trigger.name, next.name)));
            }
        }
        if gone.is_empty() {
            return Ok(Vec::new());
        }
        let what = format!("column {} of table {}", next.columns[column].name, next.name);
        if !cascade {
            let detail: Vec<String> =
                gone.iter().map(|(_, shown)| format!("{shown} depends on {what}")).collect();
            let told = format!("cannot drop {what} because other objects depend on it");
            return Err(SqlError::new(DEPENDENT, told)
                .detail(detail.join("\n"))
                .hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        let mut notices = Vec::new();
        for (id, shown) in gone {
            notices.push((SqlState::SUCCESSFUL, format!("drop cascades to {shown}")));
            next.triggers.take_away(id);
        }
        Ok(notices)
    }

    /// Errors: 0A000 for another type of a column that a trigger depends on.
    pub(super) fn refuse_type_of_triggers(&self, next: &Table, column: usize) -> SqlResult<()> {
        for trigger in next.triggers.all() {
            if triggers::columns_of(next, trigger)?.contains(&column) {
                let (table, name) = (&next.name, &next.columns[column].name);
                let told = "cannot alter type of a column used in a trigger definition";
                let detail =
                    format!("trigger {} on table {table} depends on column \"{name}\"", trigger.name);
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, told).detail(detail));
            }
        }
        Ok(())
    }
}

/// Whether a DROP says CASCADE.
fn is_cascade(statement: &Statement) -> SqlResult<bool> {
    if let Some(RoutineStatement::Drop { is_cascade, .. }) = parse::routine_statement(statement)? {
        return Ok(is_cascade);
    }
    Ok(match statement {
        Statement::Drop { cascade, .. } => *cascade,
        Statement::DropDomain(drop) => drop.drop_behavior == Some(ast::DropBehavior::Cascade),
        _ => false,
    })
}

fn missing(table: &Table, name: &str) -> SqlError {
    let told = format!("trigger \"{name}\" for table \"{}\" does not exist", table.name);
    SqlError::new(SqlState::UNDEFINED_OBJECT, told)
}

fn taken(table: &Table, name: &str) -> SqlError {
    let told = format!("trigger \"{name}\" for relation \"{}\" already exists", table.name);
    SqlError::new(SqlState::DUPLICATE_OBJECT, told)
}

/// Errors: 0A000 for forms of triggers that there are not, 54000 for too many arguments.
fn refuse_others(create: &CreateTrigger) -> SqlResult<()> {
    if create.is_constraint {
        return Err(SqlError::unsupported("CREATE CONSTRAINT TRIGGER")
            .hint("An AFTER trigger FOR EACH ROW fires at the end of its statement."));
    }
    if create.names_rows {
        let told = "ROW variable naming in the REFERENCING clause is not supported";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, told)
            .hint("Use OLD TABLE or NEW TABLE for naming transition tables."));
    }
    let has = |event| create.events.iter().any(|written| written.event == event);
    if create.level == Level::Row && has(Event::Truncate) {
        let told = "TRUNCATE FOR EACH ROW triggers are not supported";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, told));
    }
    if create.arguments.len() > ARGUMENTS_MAX {
        let told = format!("a trigger has at most {ARGUMENTS_MAX} arguments");
        return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, told));
    }
    Ok(())
}

/// Errors: 42P17 and 0A000 for transition tables that a trigger cannot have.
fn check_transitions(table: &Table, create: &CreateTrigger, events: &BTreeSet<Event>) -> SqlResult<()> {
    let invalid = |told: &str| Err(SqlError::new(INVALID_OBJECT, told));
    let missing = |told: &str| Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, told));
    if create.timing != Timing::After {
        return invalid("transition table name can only be specified for an AFTER trigger");
    }
    if events.contains(&Event::Truncate) {
        return missing("TRUNCATE triggers with transition tables are not supported");
    }
    if table.partitioning.is_some() {
        return Err(SqlError::unsupported("a trigger with transition tables of a partitioned table")
            .hint("A trigger FOR EACH ROW sees the rows one by one."));
    }
    if events.len() > 1 {
        return missing("transition tables cannot be specified for triggers with more than one event");
    }
    if create.events.iter().any(|written| !written.columns.is_empty()) {
        return missing("transition tables cannot be specified for triggers with column lists");
    }
    if create.transitions.new.is_some() && events.contains(&Event::Delete) {
        return invalid("NEW TABLE can only be specified for an INSERT or UPDATE trigger");
    }
    if create.transitions.old.is_some() && events.contains(&Event::Insert) {
        return invalid("OLD TABLE can only be specified for a DELETE or UPDATE trigger");
    }
    if create.transitions.old == create.transitions.new {
        return invalid("OLD TABLE name and NEW TABLE name cannot be the same");
    }
    Ok(())
}

/// Errors: 42601 for an event that is named twice.
fn events_of(create: &CreateTrigger) -> SqlResult<BTreeSet<Event>> {
    let mut events = BTreeSet::new();
    for written in &create.events {
        if !events.insert(written.event) {
            let word = written.event.word().to_lowercase();
            let told = format!("duplicate trigger events specified at or near \"{word}\"");
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, told));
        }
    }
    Ok(events)
}

/// Errors: 42703, 42701.
fn columns_of(table: &Table, create: &CreateTrigger) -> SqlResult<Vec<usize>> {
    let mut columns = Vec::new();
    for name in create.events.iter().flat_map(|written| &written.columns) {
        let Some(column) = table.column_named(name).filter(|column| !table.columns[*column].hidden) else {
            let told = format!("column \"{name}\" of relation \"{}\" does not exist", table.name);
            return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, told));
        };
        if columns.contains(&column) {
            let told = format!("column \"{name}\" specified more than once");
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, told));
        }
        columns.push(column);
    }
    Ok(columns)
}

/// Errors: 42P17 for a row that is not there when the condition is looked at.
fn refuse_named(
    table: &Table,
    create: &CreateTrigger,
    events: &BTreeSet<Event>,
    named: &Named,
) -> SqlResult<()> {
    let refused = |told: &str| Err(SqlError::new(INVALID_OBJECT, told));
    let (old, new) = (named.any_of(0), named.any_of(1));
    if create.level == Level::Statement && (old || new) {
        return refused("statement trigger's WHEN condition cannot reference column values");
    }
    if old && events.contains(&Event::Insert) {
        return refused("INSERT trigger's WHEN condition cannot reference OLD values");
    }
    if new && events.contains(&Event::Delete) {
        return refused("DELETE trigger's WHEN condition cannot reference NEW values");
    }
    if create.timing != Timing::Before {
        return Ok(());
    }
    let told = "BEFORE trigger's WHEN condition cannot reference NEW generated columns";
    let is_generated = |column: &usize| table.columns[*column].identity == Identity::Generated;
    if let Some(column) = named.columns[1].iter().find(|column| is_generated(column)) {
        let detail = format!("Column \"{}\" is a generated column.", table.columns[*column].name);
        return Err(SqlError::new(INVALID_OBJECT, told).detail(detail));
    }
    if named.rows[1] && table.visible_columns().any(|(column, _)| is_generated(&column)) {
        let detail = "A whole-row reference is used and the table contains generated columns.";
        return Err(SqlError::new(INVALID_OBJECT, told).detail(detail));
    }
    Ok(())
}
