//! Aggregates of users: the values of their rows, which `array_agg` gathers, become a state one by one.
//!
//! A call of an aggregate is expanded to a function over `array_agg` ([`super::expand`]); here is what that function does.
//! KEEPS: of a strict transition a row with NULL changes nothing, and without INITCOND the first value is the state.

pub use super::fold_calls::{aggregate_of, call, name_of};
use super::kept::expand_kept;
use super::scopes::Lookup;
use crate::lower::scope::{ParameterTypes, Scope};
use crate::lower::{Lowering, bind};
use base::error::{SqlError, SqlResult};
use base::expr::Expr;
use base::routines::{Aggregate, FunctionName, Routine, TypeOf};
use base::schema::Catalog;
use base::views::View;
use base::{DataType, Datum};
use std::sync::Arc;

/// Values between two looks at whether the statement was canceled.
const VALUES_A_TURN: usize = 1_024;

/// Functions of PostgreSQL's that are called with NULL, too.
const CALLED_ON_NULL: [&str; 5] = ["array_append", "array_prepend", "array_cat", "concat", "concat_ws"];

/// How a state is made of values.
#[derive(Clone, Debug, PartialEq)]
pub struct Fold {
    pub state: DataType,
    /// Types of the arguments.
    pub arguments: Vec<DataType>,
    initial: Datum,
    is_strict: bool,
    /// The next state, over a row of the state and a value for each argument.
    next: Expr,
}

impl Fold {
    /// Errors: 0A000 for a transition that reads tables or is another one each time; what is wrong with INITCOND as a value
    /// of the state's type.
    pub fn of(
        catalog: &Arc<Catalog>,
        search_path: &[String],
        database: &str,
        routine: &Routine,
    ) -> SqlResult<Fold> {
        let Some(aggregate) = routine.aggregate() else {
            return Err(SqlError::internal("it is an aggregate"));
        };
        let refused = |what: &str| {
            SqlError::unsupported(format!("an aggregate whose SFUNC {what}"))
                .hint("Write SFUNC in SQL, as one SELECT of an expression over its arguments.")
        };
        let lookup = Lookup { catalog, search_path, database };
        let arguments: Vec<DataType> = routine.types().map(|of| of.data_type).collect();
        let text = transition(catalog, aggregate, routine);
        let mut next = crate::parse::parse_expr(&text)?;
        expand_kept(lookup, &mut next)?;
        let state = aggregate.state.data_type;
        let mut columns = vec![("state".to_string(), state)];
        columns.extend(arguments.iter().enumerate().map(|(nth, of)| (argument_name(nth), *of)));
        let row = View::shape(routine.id, routine.schema.clone(), "row".into(), columns);
        let scope = Scope::table(&row, None);
        let mut parameters = ParameterTypes::default();
        let mut lowering = Lowering { catalog, search_path, database, parameters: &mut parameters };
        let lowered = lowering.exprs(&scope).assignment(&next, "state", state);
        let next = lowered.map_err(|r| r.or(|| refused("is more than an expression")))?;
        if bind::has_holes(&next) {
            return Err(refused("is volatile or depends on the time"));
        }
        let initial = match &aggregate.initial {
            Some(text) => initial(&mut lowering, aggregate.state, text)?,
            None => Datum::Null,
        };
        let is_strict = is_strict(catalog, &aggregate.transition);
        Ok(Fold { state, arguments, initial, is_strict, next })
    }

    /// The state after all rows, of which each list has the values of one argument; of an aggregate without arguments, one
    /// list has something for each row. Errors: those of the transition, 57014.
    pub fn run(&self, lists: &[&[Datum]]) -> SqlResult<Datum> {
        let mut row = vec![Datum::Null; 1 + self.arguments.len()];
        row[0] = self.initial.clone();
        let mut begins_with_value = self.is_strict && self.initial.is_null();
        let rows = lists.iter().map(|list| list.len()).min().unwrap_or(0);
        for nth in 0..rows {
            if nth % VALUES_A_TURN == VALUES_A_TURN - 1 {
                crate::interrupt::check()?;
            }
            for (place, list) in row[1..].iter_mut().zip(lists) {
                *place = list[nth].clone();
            }
            if self.is_strict && row[1..].iter().any(Datum::is_null) {
                continue;
            }
            if std::mem::take(&mut begins_with_value) {
                row[0] = row.get(1).cloned().unwrap_or_default();
                continue;
            }
            if self.is_strict && row[0].is_null() {
                continue;
            }
            row[0] = self.next.eval(&row)?;
        }
        Ok(row.swap_remove(0))
    }
}

/// INITCOND as a value.
fn initial(lowering: &mut Lowering<'_>, of: TypeOf, text: &str) -> SqlResult<Datum> {
    let literal = sqlparser::ast::Expr::value(sqlparser::ast::Value::SingleQuotedString(text.into()));
    let scope = Scope::default();
    let lowered = lowering.exprs(&scope).assignment(&literal, "state", of.data_type);
    lowered.map_err(|r| r.or(|| SqlError::unsupported("this INITCOND")))?.eval(&[])
}

/// Whether a function of an aggregate is not called with NULL.
pub fn is_strict(catalog: &Catalog, function: &FunctionName) -> bool {
    match function.routine {
        Some(id) => catalog.routines.0.get(&id).is_some_and(|routine| routine.is_strict),
        None => !CALLED_ON_NULL.contains(&function.name.as_str()),
    }
}

/// What the value of an argument is called in [`transition`].
fn argument_name(nth: usize) -> String {
    format!("argument{}", nth + 1)
}

/// The call of SFUNC over `state`, `argument1`, `argument2`, ….
pub fn transition(catalog: &Catalog, aggregate: &Aggregate, routine: &Routine) -> String {
    let typed = |e: &str, of: TypeOf| format!("CAST({e} AS {})", super::written_type(of.data_type));
    let mut arguments = vec![typed("state", aggregate.state)];
    arguments.extend(routine.types().enumerate().map(|(nth, of)| typed(&argument_name(nth), of)));
    call(catalog, &aggregate.transition, &arguments)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::TableId;
    use base::expr::BinaryOperator;

    fn sum(initial: Datum, is_strict: bool) -> Fold {
        let next = Expr::binary(BinaryOperator::Add, Expr::Column(0), Expr::Column(1));
        let int = DataType::Integer;
        Fold { state: int, arguments: vec![int], initial, is_strict, next }
    }

    #[test]
    fn a_strict_transition_begins_with_the_first_value_and_passes_nulls() {
        let values = [Datum::Null, Datum::Int(1), Datum::Null, Datum::Int(5)];
        assert_eq!(sum(Datum::Null, true).run(&[&values]).unwrap(), Datum::Int(6));
        assert_eq!(sum(Datum::Int(10), true).run(&[&values]).unwrap(), Datum::Int(16));
        assert_eq!(sum(Datum::Int(10), false).run(&[&values]).unwrap(), Datum::Null);
        assert_eq!(sum(Datum::Int(10), true).run(&[&[]]).unwrap(), Datum::Int(10));
        assert_eq!(sum(Datum::Null, true).run(&[&[]]).unwrap(), Datum::Null);
    }

    #[test]
    fn the_name_of_a_function_tells_the_aggregate() {
        assert_eq!(aggregate_of(&Catalog::default(), &name_of(TableId(7), &[])), None);
        assert_eq!(aggregate_of(&Catalog::default(), "\u{f8ff}fold x"), None);
        assert_eq!(name_of(TableId(7), &[]), "\u{f8ff}fold 7");
        assert_eq!(name_of(TableId(7), &[DataType::Integer, DataType::Text]), "\u{f8ff}fold 7 integer, text");
    }
}
