//! Transition tables: rows that a statement has written, as tables that the statements of a trigger's function read.
//!
//! KEEPS: such a table is one of the statement that names it alone, as the rows of a function in FROM are
//! ([`sql::with::table_of_rows`]); a statement that names one is planned each time.

use crate::session::plan::{self, CallsPlan, Plan};
use crate::session::transaction::PartRows;
use crate::session::triggers::Fired;
use crate::session::{Prepared, Session};
use base::error::SqlResult;
use base::schema::{Catalog, Table};
use base::{DataType, Datum, SqlError, SqlState, TableId};
use sql::lower::scope::ParameterTypes;
use sql::types::ParameterType;
use sql::walk::WalkMut;
use sqlparser::ast::{self, Ident, ObjectName, Statement, TableFactor, VisitorMut};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

/// A name of a trigger's function for rows of its statement.
pub(super) struct Transition {
    name: String,
    table: Arc<Table>,
    rows: PartRows,
}

/// The catalog with the tables that a statement names, and their rows.
pub(super) struct Over {
    pub catalog: Arc<Catalog>,
    rows: Vec<(TableId, PartRows)>,
}

impl Transition {
    /// What a trigger's function knows.
    pub fn of(fired: &Fired) -> Arc<[Transition]> {
        let named = &fired.trigger.transitions;
        if named.is_empty() {
            return Arc::default();
        }
        let visible: Vec<usize> = fired.table.visible_columns().map(|(at, _)| at).collect();
        let is_whole = visible.len() == fired.table.columns.len();
        let shown = |row: &Arc<Vec<Datum>>| match is_whole {
            true => row.clone(),
            false => Arc::new(visible.iter().map(|at| row[*at].clone()).collect()),
        };
        let written = fired.rows.as_ref();
        let of = |nth: usize, name: &Option<String>, rows: Option<&PartRows>| {
            let column = |at: &usize| {
                let column = &fired.table.columns[*at];
                (column.name.clone(), column.data_type)
            };
            let table = sql::with::table_of_rows(nth, visible.iter().map(column).collect());
            let rows = rows.into_iter().flatten().map(shown).collect();
            Some(Transition { name: name.clone()?, table: Arc::new(table), rows })
        };
        let all = [
            of(0, &named.old, written.map(|written| &written.old)),
            of(1, &named.new, written.map(|written| &written.new)),
        ];
        all.into_iter().flatten().collect()
    }
}

/// Puts tables of rows in the place of their names.
struct Naming<'t> {
    transitions: &'t [Transition],
    used: BTreeSet<usize>,
}

impl VisitorMut for Naming<'_> {
    type Break = SqlError;

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        let TableFactor::Table { name, alias, args: None, .. } = factor else {
            return ControlFlow::Continue(());
        };
        let Ok(parts) = sql::names::parts(name) else { return ControlFlow::Continue(()) };
        let [said] = parts.as_slice() else { return ControlFlow::Continue(()) };
        if let Some(nth) = self.transitions.iter().position(|transition| transition.name == *said) {
            let quoted = |part: &str| Ident::with_quote('"', part);
            alias.get_or_insert_with(|| ast::TableAlias {
                explicit: true,
                name: quoted(said),
                columns: Vec::new(),
                at: None,
            });
            *name =
                ObjectName::from(vec![quoted(sql::with::SCHEMA), quoted(&self.transitions[nth].table.name)]);
            self.used.insert(nth);
        }
        ControlFlow::Continue(())
    }
}

impl Session {
    /// Has a statement read the transition tables that it names; `None`: it names none. Errors: 0A000 for one that is written.
    pub(super) fn name_transitions(&self, statement: &mut Statement) -> SqlResult<Option<Over>> {
        let transitions = self.prepared.programs.triggers.transitions.clone();
        if transitions.is_empty() {
            return Ok(None);
        }
        let mut naming = Naming { transitions: &transitions, used: BTreeSet::new() };
        if let ControlFlow::Break(error) = statement.walk_mut(&mut naming) {
            return Err(error);
        }
        let used = naming.used;
        if used.is_empty() {
            return Ok(None);
        }
        let target = match &*statement {
            Statement::Update(update) => Some(&update.table.relation),
            Statement::Delete(delete) => match &delete.from {
                ast::FromTable::WithFromKeyword(tables) | ast::FromTable::WithoutKeyword(tables) => {
                    tables.first().map(|first| &first.relation)
                }
            },
            _ => None,
        };
        let is_own = |factor: &TableFactor| match factor {
            TableFactor::Table { name, .. } => sql::names::parts(name)
                .is_ok_and(|parts| parts.first().is_some_and(|s| s == sql::with::SCHEMA)),
            _ => false,
        };
        if target.is_some_and(is_own) {
            let told = "a transition table cannot be the target of a modifying statement";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, told));
        }
        let (mut catalog, mut rows) = (self.catalog(), Vec::new());
        for nth in used {
            let Transition { table, rows: of, .. } = &transitions[nth];
            Arc::make_mut(&mut catalog).tables.insert(table.id, table.clone());
            rows.push((table.id, of.clone()));
        }
        Ok(Some(Over { catalog, rows }))
    }

    /// A statement over transition tables, planned for the values of its parameters. Errors: those of planning; 0A000 for a
    /// statement of several parts.
    pub(super) fn prepared_over(
        &self,
        over: Over,
        text: &str,
        mut statement: Statement,
        hints: &[Option<ParameterType>],
        values: &[Datum],
    ) -> SqlResult<Prepared> {
        let arrays = sql::arrays::parameters(&statement, hints);
        let types: Vec<DataType> =
            hints.iter().map(|hint| hint.map_or(DataType::Text, |hint| hint.data_type)).collect();
        let bind = || sql::arrays::bind(&mut statement, &arrays, &types, values);
        self.knowing_types(&over.catalog, || sql::zones::within(self.settings.zone, bind))?;
        let given = types.len();
        let mut parameters = ParameterTypes(types.into_iter().map(Some).collect());
        let main = plan::plan(&self.context(&over.catalog), &statement, &mut parameters)?;
        if matches!(main, Plan::Utility(_) | Plan::With(_) | Plan::Checked(_) | Plan::Calls(_)) {
            return Err(SqlError::unsupported("a transition table in this statement")
                .hint("Read it in a statement that calls no function in PL/pgSQL and writes no view."));
        }
        let (word, columns) = (main.verb(), main.columns());
        let plan = Plan::Calls(Box::new(CallsPlan {
            calls: Vec::new(),
            main: Some(main),
            catalog: over.catalog,
            rows: over.rows,
            given,
            per_row: None,
            columns,
            tag: if word == Some("INSERT") { "INSERT 0" } else { word.unwrap_or("SELECT") },
            word,
        }));
        Ok(Prepared::once(self, text, statement, plan))
    }
}
