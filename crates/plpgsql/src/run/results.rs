//! What statements give to a program, and what a program gives back.

use super::types::{Kind, Row, mismatch};
use super::{Item, Outcome, QueryResult, Run, fields};
use crate::program::Into;
use base::error::{SqlResult, SqlState};
use base::{DataType, Datum, SqlError};

impl Run {
    /// The value of an expression. Errors: 42601 for several columns, 21000 for several rows.
    pub(super) fn take_value(&mut self, statement: usize, result: QueryResult) -> SqlResult<()> {
        let text = || self.program.statements[statement].sql();
        let columns = result.columns.unwrap_or_default();
        let [(_, data_type)] = columns.as_slice() else {
            let message = format!("query \"{}\" returned {} columns", text(), columns.len());
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        };
        if result.rows.len() > 1 {
            let message = format!("query \"{}\" returned more than one row", text());
            return Err(SqlError::new(SqlState::CARDINALITY_VIOLATION, message));
        }
        let datum = result.rows.into_iter().next().and_then(|row| row.into_iter().next());
        self.push(datum.unwrap_or_default(), *data_type);
        Ok(())
    }

    /// So many rows were met, for ROW_COUNT and FOUND.
    pub(super) fn count(&mut self, rows: u64) {
        self.row_count = rows;
        self.set_found(rows > 0);
    }

    /// A statement that was executed. Errors: 42601 for rows without a place, or a place without rows.
    pub(super) fn take_executed(
        &mut self,
        result: QueryResult,
        into: Option<&Into>,
        modifies: bool,
    ) -> SqlResult<()> {
        if let Some(count) = result.count {
            self.count(count);
        }
        match into {
            Some(into) => {
                let is_found = !result.rows.is_empty();
                self.store(result, into, modifies)?;
                self.set_found(is_found);
                Ok(())
            }
            None if result.columns.is_some() => {
                let error = SqlError::new(SqlState::SYNTAX_ERROR, "query has no destination for result data");
                let hint = "If you want to discard the results of a SELECT, use PERFORM instead.";
                Err(if modifies { error } else { error.hint(hint) })
            }
            None => Ok(()),
        }
    }

    /// A text that was executed: FOUND stays as it is.
    pub(super) fn take_text(&mut self, result: QueryResult, into: Option<&Into>) -> SqlResult<()> {
        self.row_count = result.count.unwrap_or(0);
        into.map_or(Ok(()), |into| self.store(result, into, false))
    }

    /// The first row to the variables of INTO. Errors: P0002 and P0003 for STRICT, and for a statement that has changed
    /// several rows.
    fn store(&mut self, result: QueryResult, into: &Into, modifies: bool) -> SqlResult<()> {
        let Some(columns) = result.columns else {
            let message = "INTO used with a command that cannot return data";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        };
        if result.rows.is_empty() && into.strict {
            return Err(SqlError::new(SqlState(*b"P0002"), "query returned no rows"));
        }
        if result.rows.len() > 1 && (into.strict || modifies) {
            return Err(SqlError::new(SqlState(*b"P0003"), "query returned more than one row")
                .hint("Make sure the query returns a single row, or use LIMIT 1."));
        }
        self.row_count = u64::from(!result.rows.is_empty());
        let fields = fields(&columns);
        let row = match result.rows.into_iter().next() {
            Some(values) => Row { fields, values },
            None => Row::of_nulls(fields),
        };
        self.assign_row(&into.targets, row)
    }

    /// Rows of RETURN QUERY, fitted to the result. Errors: 42804 if they are of another shape.
    pub(super) fn take_returned(&mut self, result: QueryResult) -> SqlResult<Vec<Vec<Datum>>> {
        let columns = result.columns.ok_or_else(|| {
            let message = "cannot open a command that returns no rows as a cursor";
            SqlError::new(SqlState(*b"42P11"), message)
        })?;
        self.check_shape(&columns)?;
        self.row_count = result.rows.len() as u64;
        self.set_found(!result.rows.is_empty());
        let fields = fields(&columns);
        let fitted = result.rows.into_iter().map(|values| {
            let row = Row { fields: fields.clone(), values };
            self.fitted(Item::Row(row))
        });
        fitted.collect()
    }

    fn check_shape(&self, columns: &[(String, DataType)]) -> SqlResult<()> {
        let expected = match &self.result {
            Kind::Scalar(of) => vec![of],
            Kind::Row(fields) => fields.iter().map(|field| &field.of).collect(),
            Kind::Record | Kind::Any | Kind::Nothing => return Ok(()),
        };
        let wrong = "structure of query does not match function result type";
        if columns.len() != expected.len() {
            return Err(mismatch(wrong).detail(format!(
                "Number of returned columns ({}) does not match expected column count ({}).",
                columns.len(),
                expected.len()
            )));
        }
        for (n, ((_, given), of)) in columns.iter().zip(expected).enumerate() {
            if !of.is_same(*given) {
                return Err(mismatch(wrong).detail(format!(
                    "Returned type {} does not match expected type {} in column {}.",
                    given.name(),
                    of.data_type.name(),
                    n + 1
                )));
            }
        }
        Ok(())
    }

    /// A row of the result. Errors: it does not fit.
    pub(super) fn fitted(&self, item: Item) -> SqlResult<Vec<Datum>> {
        match (&self.result, item) {
            (Kind::Scalar(of), Item::Value(value)) => Ok(vec![of.take(value, self.zone)?]),
            (Kind::Scalar(_), Item::Row(row)) if row.values.len() == 1 => {
                let value = super::Value::new(row.values[0].clone(), row.fields[0].of.data_type);
                self.fitted(Item::Value(value))
            }
            (Kind::Row(fields), Item::Row(row)) => {
                if row.fields.len() != fields.len() {
                    return Err(mismatch("wrong record type supplied in RETURN NEXT").detail(format!(
                        "Number of returned columns ({}) does not match expected column count ({}).",
                        row.fields.len(),
                        fields.len()
                    )));
                }
                row.fitted(fields, self.zone).map(|row| row.values)
            }
            (Kind::Row(fields), Item::Value(value)) if value.datum.is_null() => {
                Ok(vec![Datum::Null; fields.len()])
            }
            (Kind::Row(fields), Item::Value(value)) if fields.len() == 1 => {
                Ok(vec![fields[0].of.take(value, self.zone)?])
            }
            (Kind::Record | Kind::Any, Item::Row(row)) => Ok(row.values),
            (Kind::Any, Item::Value(value)) => Ok(vec![value.datum]),
            _ => Err(mismatch("the function returns rows of another kind")),
        }
    }

    /// What RETURN gives. Errors: it does not fit.
    pub(super) fn returned(&self, item: Item) -> SqlResult<Outcome> {
        match (&self.result, item) {
            (Kind::Scalar(of), Item::Value(value)) => of.take(value, self.zone).map(Outcome::Value),
            (Kind::Any, Item::Value(value)) => Ok(Outcome::Value(value.datum)),
            (Kind::Row(_) | Kind::Record, Item::Value(value)) if value.datum.is_null() => Ok(Outcome::NoRow),
            (Kind::Row(fields), Item::Row(row)) => {
                if row.fields.len() != fields.len() {
                    return Err(mismatch("returned record type does not match expected record type").detail(
                        format!(
                            "Number of returned columns ({}) does not match expected column count ({}).",
                            row.fields.len(),
                            fields.len()
                        ),
                    ));
                }
                row.fitted(fields, self.zone).map(Outcome::Row)
            }
            (Kind::Record, Item::Row(row)) => Ok(Outcome::Row(row)),
            (Kind::Nothing, _) => Ok(Outcome::Nothing),
            (_, Item::Value(_)) => {
                Err(mismatch("cannot return non-composite value from function returning composite type"))
            }
            (_, Item::Row(_)) => Err(mismatch("cannot return a row from a function that returns a value")),
        }
    }

    /// What a RETURN without a value gives.
    pub(super) fn ended(&self) -> Outcome {
        let signature = &self.program.signature;
        if signature.is_set || !signature.has_outputs() {
            return Outcome::Nothing;
        }
        let mut outputs = self.outputs();
        match (&self.result, outputs.values.len()) {
            (Kind::Scalar(_), 1) => Outcome::Value(outputs.values.remove(0)),
            _ => Outcome::Row(outputs),
        }
    }
}
