//! Functions of triggers: what they are told, and the conditions under which they are called.

use super::compiled::Compiled;
use super::transitions::Transition;
use super::{Session, kinds};
use crate::session::triggers::Fired;
use base::error::SqlResult;
use base::schema::triggers::{BuiltIn, Level};
use base::schema::{Table, Trigger};
use base::{Datum, TableId};
use plpgsql::{Field, Outcome, Returns, Row, Run, Signature};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Conditions and shapes of tables that a session keeps.
const KEPT_MAX: usize = 256;

/// What a session knows of triggers.
#[derive(Default)]
pub(super) struct OfTriggers {
    conditions: BTreeMap<TableId, (Arc<Trigger>, Arc<Compiled>)>,
    shapes: BTreeMap<TableId, (Arc<Table>, Arc<[Field]>)>,
    /// Triggers whose functions run.
    pub depth: usize,
    /// What the function that runs calls the rows of its statement.
    pub transitions: Arc<[Transition]>,
}

/// Counts a function of a trigger that runs, and knows the rows that were named before. A cancel drops what counts it,
/// wherever it is.
struct Inside<'a>(&'a mut Session, Arc<[Transition]>);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let before = std::mem::take(&mut self.1);
        let of_triggers = self.0.of_triggers();
        of_triggers.depth -= 1;
        of_triggers.transitions = before;
    }
}

impl Session {
    /// Calls a trigger's function. Where its condition does not hold nothing is done ([`Outcome::Nothing`]). Errors: 54001,
    /// 42804, and whatever the function raises.
    pub(in crate::session) async fn call_trigger(&mut self, fired: &Fired) -> SqlResult<Outcome> {
        if fired.trigger.condition.is_some() && !self.condition_holds(fired).await? {
            return Ok(Outcome::Nothing);
        }
        if let Some(built_in) = BuiltIn::of_routine(fired.trigger.routine) {
            return self.updated_document(built_in, fired);
        }
        let routine = self.catalog().routines.0.get(&fired.trigger.routine).cloned();
        let compiled = self.compiled(&routine.ok_or_else(base::schema::stale_schema)?)?;
        let of_triggers = self.of_triggers();
        of_triggers.depth += 1;
        let before = std::mem::replace(&mut of_triggers.transitions, Transition::of(fired));
        let inside = Inside(self, before);
        let session = &mut *inside.0;
        let mut run = session.begin_run(&compiled, Vec::new())?;
        session.tell_program(fired, &mut run);
        session.run_to_end(&compiled, run).await.map(|(outcome, _)| outcome)
    }

    /// What a function does that is there without being made.
    fn updated_document(&mut self, built_in: BuiltIn, fired: &Fired) -> SqlResult<Outcome> {
        let Fired { table, trigger, event, old, new, .. } = fired;
        let old = old.as_ref().map(|old| old.as_slice());
        let new = new.as_ref().map(|new| new.as_slice()).unwrap_or_default();
        let row = sql::document_triggers::updated(built_in, table, trigger, *event, old, new)?;
        let values = table.visible_columns().map(|(column, _)| row[column].clone()).collect();
        Ok(Outcome::Row(Row { fields: self.shape(table), values }))
    }

    /// Whether WHEN holds.
    async fn condition_holds(&mut self, fired: &Fired) -> SqlResult<bool> {
        let compiled = self.condition(&fired.trigger)?;
        let mut run = self.begin_run(&compiled, Vec::new())?;
        self.tell_program(fired, &mut run);
        let (outcome, _) = self.run_to_end(&compiled, run).await?;
        Ok(outcome == Outcome::Value(Datum::Bool(true)))
    }

    fn condition(&mut self, trigger: &Arc<Trigger>) -> SqlResult<Arc<Compiled>> {
        let kept = &mut self.of_triggers().conditions;
        if let Some((_, compiled)) = kept.get(&trigger.id).filter(|(of, _)| of == trigger) {
            return Ok(compiled.clone());
        }
        let condition = trigger.condition.as_deref().unwrap_or("true");
        let shown = format!("condition of trigger {}", trigger.name);
        let signature = Signature { shown, returns: Returns::Condition, ..Signature::of_block() };
        let program = plpgsql::parse(&format!("BEGIN RETURN ({condition}); END"), &signature)?;
        let compiled = Compiled::new(Arc::new(program), None);
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        kept.insert(trigger.id, (trigger.clone(), compiled.clone()));
        Ok(compiled)
    }

    fn shape(&mut self, table: &Arc<Table>) -> Arc<[Field]> {
        let kept = &mut self.of_triggers().shapes;
        if let Some((_, fields)) = kept.get(&table.id).filter(|(of, _)| Arc::ptr_eq(of, table)) {
            return fields.clone();
        }
        let fields = kinds::fields_of(table);
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        kept.insert(table.id, (table.clone(), fields.clone()));
        fields
    }

    /// Gives a function what it knows of what fired its trigger.
    fn tell_program(&mut self, fired: &Fired, run: &mut Run) {
        let Fired { table, trigger, event, old, new, .. } = fired;
        if trigger.level == Level::Row {
            for (name, values) in [("old", old), ("new", new)] {
                let fields = self.shape(table);
                match values {
                    None => run.give_absent(name, fields),
                    Some(values) => {
                        let visible = table.visible_columns().map(|(column, _)| values[column].clone());
                        run.give(name, Some(Row { fields, values: visible.collect() }), Datum::Null);
                    }
                }
            }
        }
        let texts = [
            ("tg_name", trigger.name.as_str()),
            ("tg_when", trigger.when.word()),
            ("tg_level", trigger.level.word()),
            ("tg_op", event.word()),
            ("tg_relname", &table.name),
            ("tg_table_name", &table.name),
            ("tg_table_schema", &table.schema),
        ];
        for (name, text) in texts {
            run.give(name, None, Datum::text(text));
        }
        run.give("tg_nargs", None, Datum::Int(trigger.arguments.len() as i64));
        run.give("tg_relid", None, Datum::Int(sql::lower::oid(table.id).into()));
        let arguments: Vec<Datum> = trigger.arguments.iter().map(Datum::text).collect();
        run.give("tg_argv", None, Datum::Array(arguments.into()));
    }
}
