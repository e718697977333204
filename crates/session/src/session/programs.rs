//! PL/pgSQL: DO, and functions whose bodies are in it. The session is the host that a program asks ([`plpgsql::Run`]).
//!
//! IN: a compiled body and values of its arguments. OUT: its result. KEEPS: whatever a program does happens in one
//! transaction, the open one or one of its own, which is executed again if it met another; a savepoint that a program has
//! set is gone when it is over. A program gives way now and then, so that a cancel and the statement's timeout end it.

mod binding;
mod callees;
mod calls;
mod compiled;
mod cursors;
mod kinds;
mod parsing;
mod per_row;
mod statements;
mod taking;
mod transitions;
mod triggers;

use super::Session;
use super::attempts::Attempts;
use super::transaction::Transaction;
use super::turns::Turn;
use crate::response::{Notice, Response};
use analytics::RowsMemory;
use base::error::SqlResult;
use base::roles::{Object, RoleId};
use base::routines::{ResultOf, Routine};
use base::{Datum, SqlError, SqlState, TableId};
pub(super) use calls::{plan_call_or_do, plan_calls};
use compiled::Compiled;
pub(super) use parsing::check_body;
use plpgsql::{Answer, Outcome, Program, Raised, Request, Run};
use sql::interrupt;
use sql::parse::OWN_NAMES;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Functions that call each other at most. Each takes stack.
const DEPTH_MAX: usize = 400;
/// Functions whose compiled bodies a session keeps.
const COMPILED_MAX: usize = 256;

/// What a session knows of programs.
#[derive(Default)]
pub(super) struct Programs {
    compiled: BTreeMap<TableId, Arc<Compiled>>,
    /// Programs that wait for others.
    depth: usize,
    /// Whom the session acts as within a function that is SECURITY DEFINER.
    acting: Option<Acting>,
    triggers: triggers::OfTriggers,
}

/// The owner of a function that is SECURITY DEFINER.
#[derive(Clone)]
pub(super) struct Acting {
    pub role: RoleId,
    pub name: String,
}

/// What a function gave back.
#[derive(Default)]
pub(super) struct Returned {
    /// Of a function that returns one thing: one row.
    pub rows: Vec<Vec<Datum>>,
}

fn too_deep() -> SqlError {
    SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
        .detail(format!("Functions may call each other {DEPTH_MAX} times."))
}

/// Counts a program that runs, and knows whom the session acted as before. A cancel drops it, wherever the program is.
struct Level<'a>(&'a mut Session, Option<Acting>);

impl Drop for Level<'_> {
    fn drop(&mut self) {
        self.0.prepared.programs.depth -= 1;
        self.0.prepared.programs.acting = self.1.take();
    }
}

/// The session while it acts as the owner of a function, if that is SECURITY DEFINER. Dropped, it acts as before.
pub(super) struct ActingFor<'a> {
    pub session: &'a mut Session,
    before: Option<Acting>,
}

impl Drop for ActingFor<'_> {
    fn drop(&mut self) {
        self.session.prepared.programs.acting = self.before.take();
    }
}

impl Session {
    /// DO: in the open transaction, or as one of its own.
    pub(super) async fn run_do(&mut self, block: &Arc<Program>) -> SqlResult<Response> {
        let block = Compiled::new(block.clone(), None);
        if self.transaction.is_some() {
            Box::pin(self.run_compiled(&block, Vec::new())).await?;
            return Ok(Response::Command("DO".into()));
        }
        let (mut attempts, told) = (Attempts::default(), self.notices_so_far());
        loop {
            self.forget_notices(told);
            self.begin_attempt(self.is_read_only(), &attempts).await;
            let result = Box::pin(self.run_compiled(&block, Vec::new())).await;
            if self.settle(result, &mut attempts).await?.is_some() {
                return Ok(Response::Command("DO".into()));
            }
        }
    }

    /// Whether a function, a procedure or a DO is running.
    pub(super) fn runs_program(&self) -> bool {
        self.prepared.programs.depth > 0
    }

    /// Calls a function in the open transaction. Errors: 54001, and whatever it raises.
    pub(super) async fn call_routine(
        &mut self,
        routine: &Arc<Routine>,
        arguments: Vec<Datum>,
    ) -> SqlResult<Returned> {
        if routine.is_strict && arguments.iter().any(Datum::is_null) {
            let none = Returned::default();
            return Ok(if routine.is_set() { none } else { Returned { rows: vec![vec![Datum::Null]] } });
        }
        let compiled = self.compiled(routine)?;
        self.run_compiled(&compiled, arguments).await
    }

    fn compiled(&mut self, routine: &Arc<Routine>) -> SqlResult<Arc<Compiled>> {
        let is_it = |compiled: &&Arc<Compiled>| {
            compiled.routine.as_ref().is_some_and(|of| Arc::ptr_eq(of, routine) || of == routine)
        };
        if let Some(known) = self.prepared.programs.compiled.get(&routine.id).filter(is_it) {
            return Ok(known.clone());
        }
        let compiled =
            Compiled::new(Arc::new(parsing::of_routine(&self.catalog(), routine)?), Some(routine.clone()));
        if self.prepared.programs.compiled.len() >= COMPILED_MAX {
            self.prepared.programs.compiled.clear();
        }
        self.prepared.programs.compiled.insert(routine.id, compiled.clone());
        Ok(compiled)
    }

    async fn run_compiled(&mut self, compiled: &Arc<Compiled>, arguments: Vec<Datum>) -> SqlResult<Returned> {
        let run = self.begin_run(compiled, arguments)?;
        let (outcome, rows) = self.run_to_end(compiled, run).await?;
        let rows = match outcome {
            _ if compiled.routine.as_ref().is_some_and(|routine| routine.is_set()) => rows,
            Outcome::Nothing => vec![vec![Datum::text("")]],
            Outcome::Value(datum) => vec![vec![datum]],
            Outcome::Row(row) => vec![row.values],
            Outcome::NoRow => vec![vec![Datum::Null; width(self, compiled)]],
        };
        Ok(Returned { rows })
    }

    /// Whom the session acts as within a function that is SECURITY DEFINER.
    pub(super) fn acting_owner(&self) -> Option<&Acting> {
        self.prepared.programs.acting.as_ref()
    }

    /// Acts as the owner of a function that is SECURITY DEFINER, until its level ends.
    fn act_for(&mut self, routine: &Routine) {
        if !routine.is_definer {
            return;
        }
        let catalog = self.catalog();
        let role = catalog.roles.owner_of(&Object::Relation(routine.id));
        let name = catalog.roles.roles.get(&role).map(|role| role.name.clone()).unwrap_or_default();
        self.prepared.programs.acting = Some(Acting { role, name });
    }

    /// The session as a function in SQL has it while its statements run.
    pub(super) fn acting_for(&mut self, routine: &Routine) -> ActingFor<'_> {
        let before = self.prepared.programs.acting.clone();
        self.act_for(routine);
        ActingFor { session: self, before }
    }

    fn of_triggers(&mut self) -> &mut triggers::OfTriggers {
        &mut self.prepared.programs.triggers
    }

    /// A program before its first step. Errors: 54001, and those of its declarations.
    fn begin_run(&self, compiled: &Arc<Compiled>, arguments: Vec<Datum>) -> SqlResult<Run> {
        let programs = &self.prepared.programs;
        if programs.depth >= DEPTH_MAX {
            return Err(too_deep());
        }
        let (kinds, result) = compiled.kinds(self)?;
        let mut run = Run::new(compiled.program.clone(), kinds, result, arguments, self.settings.zone);
        run.give(plpgsql::TRIGGER_DEPTH, None, Datum::Int(programs.triggers.depth as i64));
        Ok(run)
    }

    /// Runs a program: what it returns, and its rows if it gives any number of them.
    async fn run_to_end(
        &mut self,
        compiled: &Arc<Compiled>,
        run: Run,
    ) -> SqlResult<(Outcome, Vec<Vec<Datum>>)> {
        self.prepared.programs.depth += 1;
        let before = self.prepared.programs.acting.clone();
        let level = Level(self, before);
        let session = &mut *level.0;
        if let Some(routine) = &compiled.routine {
            session.act_for(routine);
        }
        let mut savepoints = Vec::new();
        let driven = session.drive(compiled, run, &mut savepoints).await;
        // What is left of a program that has failed.
        if let Some(open) = &mut session.transaction {
            savepoints.iter().for_each(|_| _ = open.release(SAVEPOINT));
        }
        driven
    }

    /// Answers what a program asks, until it is over. `savepoints`: of each that is set how many cursors there were before.
    async fn drive(
        &mut self,
        compiled: &Arc<Compiled>,
        mut run: Run,
        savepoints: &mut Vec<u64>,
    ) -> SqlResult<(Outcome, Vec<Vec<Datum>>)> {
        let memory = self.gateway.rows_memory("variables and rows of a function");
        let (mut returned, mut returned_bytes) = (Vec::new(), 0);
        let (mut answer, mut took) = (Answer::Done, Duration::ZERO);
        let mut turn = Turn::begin();
        loop {
            // What a statement waits for may always be there: then nothing else would end the turn.
            turn.give_way().await;
            let request;
            (run, request, took) = self.stepped(run, answer, took).await?;
            hold(&memory, run.bytes() + returned_bytes)?;
            answer = match request {
                Request::Execute { statement, wants } => {
                    Answer::from_result(Box::pin(self.execute_of(compiled, &run, statement, wants)).await)
                }
                Request::ExecuteText { text, using, wants } => {
                    Answer::from_result(Box::pin(self.execute_text(&text, using, wants)).await)
                }
                Request::OpenCursor { .. } | Request::Fetch { .. } | Request::CloseCursor(_) => {
                    let answered = Box::pin(self.answer_cursor(compiled, &run, request)).await;
                    answered.unwrap_or_else(Answer::Failed)
                }
                Request::Savepoint => {
                    let settings = self.settings.mark();
                    savepoints.push(self.cursors_so_far());
                    self.open().savepoint(SAVEPOINT.into(), settings);
                    Answer::Done
                }
                Request::Release => {
                    self.open().release(SAVEPOINT);
                    savepoints.pop();
                    Answer::Done
                }
                Request::RollBackTo { outer } => {
                    self.go_back(outer, savepoints)?;
                    Answer::Done
                }
                Request::Notice(raised) => {
                    self.tell_notice(noticed(raised));
                    Answer::Done
                }
                Request::Rows(rows) => {
                    returned_bytes += rows.iter().map(|row| analytics::row_bytes(row)).sum::<usize>();
                    returned.extend(rows);
                    Answer::Done
                }
                Request::GiveWay => {
                    tokio::task::yield_now().await;
                    Answer::Done
                }
                Request::Done(outcome) => {
                    self.hold_read(memory);
                    return Ok((outcome, returned));
                }
                Request::Failed(error) => return Err(error),
            };
        }
    }

    /// The next step of a program, what it asks for, and how long it took. `before` is what the step before took: one
    /// over large values takes long, and so will the next. So does one that is given many rows.
    async fn stepped(
        &self,
        mut run: Run,
        answer: Answer,
        before: Duration,
    ) -> SqlResult<(Run, Request, Duration)> {
        let has_many = matches!(&answer, Answer::Result(result) if result.rows.len() > MANY_ROWS);
        let step = move || {
            let began = Instant::now();
            let request = run.step(answer);
            (run, request, began.elapsed())
        };
        let is_long = before >= LONG_STEP || has_many;
        match self.gateway.threads() {
            Some(threads) if is_long => interrupt::elsewhere(threads, &self.cancel, step).await,
            _ => Ok(step()),
        }
    }

    /// Undoes what was done since the savepoint that has `outer` others of the program around it.
    fn go_back(&mut self, outer: usize, savepoints: &mut Vec<u64>) -> SqlResult<()> {
        let open: &mut Transaction = self.open();
        open.end_parts();
        while savepoints.len() > outer + 1 {
            open.release(SAVEPOINT);
            savepoints.pop();
        }
        let lost = || SqlError::internal("a savepoint of a function is gone");
        let settings = open.rollback_to(SAVEPOINT).ok_or_else(lost)?;
        open.release(SAVEPOINT);
        self.settings_as_of(&settings);
        let before = savepoints.pop().ok_or_else(lost)?;
        self.close_since(before);
        Ok(())
    }
}

/// Others of a thread that serves connections do not wait for steps of this length.
const LONG_STEP: Duration = Duration::from_millis(1);

/// Rows that a step looks at within a millisecond.
const MANY_ROWS: usize = 10_000;

/// The name of the savepoints that programs set; no client can say it.
const SAVEPOINT: &str = {
    assert!(OWN_NAMES == '\u{f8ff}');
    "\u{f8ff}program"
};

/// How many columns a function's row has.
fn width(session: &Session, compiled: &Compiled) -> usize {
    let Some(routine) = &compiled.routine else { return 1 };
    match &routine.result {
        ResultOf::RowOf(id) => {
            let catalog = session.catalog();
            catalog.relation(*id).map_or(1, |relation| relation.shape().visible_columns().count())
        }
        ResultOf::Record(columns) => columns.len(),
        _ => 1,
    }
}

/// Reserves what is held now. Errors: 53200.
fn hold(memory: &RowsMemory, bytes: usize) -> SqlResult<()> {
    /// Less is not worth asking for.
    const STEP: usize = 1 << 16;
    let held = memory.bytes();
    if bytes > held {
        return memory.grow((bytes - held).next_multiple_of(STEP));
    }
    if held - bytes > 2 * STEP {
        memory.shrink(held - bytes);
    }
    Ok(())
}

fn noticed(raised: Raised) -> Notice {
    let Raised { severity, state, message, detail, hint } = raised;
    Notice { severity, state, message, detail, hint }
}
