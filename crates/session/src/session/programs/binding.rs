//! Statements of programs: their texts, in which names of variables become parameters.

use super::compiled::{Bound, Compiled};
use super::parsing::{parsed, refuse};
use crate::session::{Prepared, Session};
use base::error::SqlResult;
use base::{DataType, Datum, SqlError, SqlState};
use plpgsql::{Conflict, Reference, Run};
use sql::routines::body::{Fields, Names, argument, argument_of, bind};
use sql::routines::records::TRIGGER_DEPTH;
use sql::routines::resolve::named;
use sql::routines::scopes::{Lookup, Scopes};
use sql::types::ParameterType;
use sql::walk::{WalkMut, expressions_mut};
use sqlparser::ast::{Expr, Statement, TableFactor, Value, VisitorMut};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Names of a program's variables in one of its statements.
struct OfProgram<'a> {
    run: &'a Run,
    statement: usize,
    references: Vec<Reference>,
    expands: bool,
}

impl OfProgram<'_> {
    /// A record, which is a parameter of its own until its fields take its place.
    fn whole(&mut self, reference: Reference) -> Expr {
        self.references.push(reference);
        argument(self.references.len())
    }

    fn listed(&mut self, record: &Reference) -> SqlResult<Option<Fields>> {
        let Some(fields) = self.run.fields(record)? else { return Ok(None) };
        self.expands = true;
        let named = |name: &String| (name.clone(), self.parameter(self.run.field(record, name)));
        Ok(Some(fields.iter().map(|field| &field.name).map(named).collect()))
    }

    fn parameter(&mut self, reference: Reference) -> Expr {
        let known = self.references.iter().position(|known| *known == reference);
        let at = known.unwrap_or_else(|| {
            self.references.push(reference);
            self.references.len() - 1
        });
        argument(at + 1)
    }
}

impl Names for OfProgram<'_> {
    fn meaning(&mut self, words: &[String], scopes: &Scopes) -> SqlResult<Option<Expr>> {
        let words = match words {
            [depth] if depth == TRIGGER_DEPTH => &[plpgsql::TRIGGER_DEPTH.into()],
            words => words,
        };
        let Some(reference) = self.run.find(self.statement, words) else { return Ok(None) };
        let is_column = match words {
            [name] => scopes.column(name).is_some(),
            [of, name] => scopes.qualified(of, name).is_some(),
            _ => false,
        };
        match self.run.program().conflict {
            Conflict::Column if is_column => return Ok(None),
            Conflict::Error if is_column => {
                let message = format!("column reference \"{}\" is ambiguous", words.join("."));
                return Err(SqlError::new(SqlState::AMBIGUOUS_COLUMN, message)
                    .detail("It could refer to either a PL/pgSQL variable or a table column."));
            }
            _ => {}
        }
        Ok(Some(match self.run.is_record(&reference) {
            true => self.whole(reference),
            false => self.parameter(reference),
        }))
    }

    fn placeholder(&mut self, name: &str) -> SqlResult<Expr> {
        match self.run.find(self.statement, &[name.into()]) {
            Some(reference) => Ok(self.parameter(reference)),
            None => {
                let message = format!("there is no parameter {name}");
                Err(SqlError::new(SqlState::UNDEFINED_PARAMETER, message))
            }
        }
    }

    fn fields(&mut self, words: &[String]) -> SqlResult<Option<Fields>> {
        let Some(reference) = self.run.find(self.statement, words) else { return Ok(None) };
        self.listed(&reference)
    }

    fn record(&mut self, nth: usize) -> SqlResult<Option<Fields>> {
        let Some(record) = self.references.get(nth - 1).filter(|of| self.run.is_record(of)).cloned() else {
            return Ok(None);
        };
        // Records have fields; one of them is asked for in the place of the whole.
        let fields = self.run.fields(&record)?.unwrap_or_default();
        let Some(first) = fields.first() else { return Ok(None) };
        self.references[nth - 1] = self.run.field(&record, &first.name);
        self.listed(&record)
    }

    fn is_null(&mut self, nth: usize) -> bool {
        let is_null = self.references.get(nth - 1).is_some_and(|of| self.run.is_absent(of));
        self.expands |= is_null;
        is_null
    }

    fn zero_based(&mut self, nth: usize) -> SqlResult<Option<Vec<String>>> {
        let found = self.references.get(nth - 1).filter(|of| self.run.counts_from_zero(of));
        let Some(reference) = found else { return Ok(None) };
        let value = self.run.value(reference)?;
        // What is planned then depends on the values.
        self.expands = true;
        let Datum::Array(elements) = value.datum else { return Ok(Some(Vec::new())) };
        Ok(Some(elements.iter().map(base::text::display).collect()))
    }
}

/// A value as a parameter: its type, and what travels.
pub(super) fn as_parameter(value: plpgsql::Value, zone: base::zone::Zone) -> (ParameterType, Datum) {
    match value.data_type {
        DataType::Array(of) => {
            let hint = ParameterType { is_array: true, ..of.data_type().into() };
            let datum = match value.datum {
                Datum::Null => Datum::Null,
                array => Datum::text(base::text::display_in(&array, value.data_type, zone)),
            };
            (hint, datum)
        }
        data_type => (data_type.into(), value.datum),
    }
}

/// Writes values out that are arguments of PostgreSQL's functions in FROM, which take no parameters; whether there were any.
fn write_out(
    lookup: Lookup<'_>,
    statement: &mut Statement,
    types: &[DataType],
    parameters: &[(ParameterType, Datum)],
    zone: base::zone::Zone,
) -> SqlResult<bool> {
    struct Writing<'a> {
        lookup: Lookup<'a>,
        literal: &'a dyn Fn(usize) -> SqlResult<Option<Expr>>,
        has_some: bool,
    }
    impl VisitorMut for Writing<'_> {
        type Break = SqlError;
        fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
            let name = match factor {
                TableFactor::Table { name, args: Some(_), .. } | TableFactor::Function { name, .. } => name,
                _ => return ControlFlow::Continue(()),
            };
            if !named(self.lookup, name).is_empty() {
                return ControlFlow::Continue(());
            }
            let (literal, has_some) = (self.literal, &mut self.has_some);
            expressions_mut(factor, |e| {
                let Some(nth) = argument_of(e) else { return ControlFlow::Continue(()) };
                match literal(nth - 1) {
                    Ok(Some(written)) => (*e, *has_some) = (written, true),
                    Ok(None) => {}
                    Err(error) => return ControlFlow::Break(error),
                }
                ControlFlow::Continue(())
            })
        }
    }
    let literal = |n: usize| -> SqlResult<Option<Expr>> {
        let (Some(of), Some((_, datum))) = (types.get(n), parameters.get(n)) else { return Ok(None) };
        let text = match (datum, of) {
            (Datum::Null, _) => return Ok(Some(Expr::value(Value::Null))),
            (Datum::Int(n), of) if of.enumeration().is_none() => {
                return sql::parse::parse_expr(&n.to_string()).map(Some);
            }
            (Datum::Text(text), DataType::Array(_)) => text.to_string(),
            (datum, of) => base::text::display_in(datum, *of, zone),
        };
        let quoted = text.replace('\'', "''");
        let name = sql::routines::data_type_name(*of);
        sql::parse::parse_expr(&format!("CAST('{quoted}' AS {name})")).map(Some)
    };
    let mut writing = Writing { lookup, literal: &literal, has_some: false };
    match statement.walk_mut(&mut writing) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(writing.has_some),
    }
}

impl Session {
    /// A statement of a program with the values of its parameters. Errors: those of planning; 42702 for a name that both
    /// a variable and a column has.
    pub(super) fn bound(
        &self,
        compiled: &Compiled,
        run: &Run,
        statement: usize,
    ) -> SqlResult<(Arc<Bound>, Vec<Datum>)> {
        let zone = self.settings.zone;
        let values = |references: &[Reference]| -> SqlResult<(Vec<DataType>, Vec<_>)> {
            let values: Vec<plpgsql::Value> =
                references.iter().map(|r| run.value(r)).collect::<SqlResult<_>>()?;
            let types = values.iter().map(|value| value.data_type).collect();
            Ok((types, values.into_iter().map(|value| as_parameter(value, zone)).collect()))
        };
        let catalog = self.catalog();
        if let Some(known) = compiled.bound(statement)
            && Arc::ptr_eq(&known.catalog, &catalog)
            && known.planned_for == self.planned_for()
        {
            let (types, parameters) = values(&known.references)?;
            if types == known.types {
                return Ok((known, parameters.into_iter().map(|(_, datum)| datum).collect()));
            }
        }
        let text = compiled.program.statements[statement].sql();
        let mut parsed = parsed(&text)?;
        refuse(&parsed)?;
        let mut names = OfProgram { run, statement, references: Vec::new(), expands: false };
        let over = self.name_transitions(&mut parsed)?;
        let lookup = Lookup {
            catalog: over.as_ref().map_or(&catalog, |over| &over.catalog),
            search_path: &self.settings.search_path,
            database: &self.database.name,
        };
        bind(lookup, &mut parsed, &mut names)?;
        let (types, parameters) = values(&names.references)?;
        let is_written_out = write_out(lookup, &mut parsed, &types, &parameters, zone)?;
        let hints: Vec<_> = parameters.iter().map(|(hint, _)| Some(*hint)).collect();
        let datums: Vec<Datum> = parameters.into_iter().map(|(_, datum)| datum).collect();
        // Rows of transition tables are others each time.
        let is_kept = !names.expands && !is_written_out && over.is_none();
        let prepared = match over {
            Some(over) => self.prepared_over(over, &text, parsed, &hints, &datums)?,
            None => Prepared::new(self, &text, Some(parsed), &hints)?,
        };
        let bound = Arc::new(Bound {
            catalog,
            planned_for: self.planned_for(),
            types,
            references: names.references,
            is_kept,
            prepared: Arc::new(prepared),
        });
        if bound.is_kept {
            compiled.keep_bound(statement, &bound);
        }
        Ok((bound, datums))
    }
}
