//! Arguments of functions and of || that nothing gives a type: parameters that stand alone, and literals beside intervals and arrays.

use base::{DataType, SqlError};
use datafusion::sql::sqlparser::ast::{self, Expr, Statement, TableFactor, VisitorMut};
use sql::lower::scope::ParameterTypes;
use sql::walk::WalkMut;
use std::ops::ControlFlow;

/// The statement with a type for each parameter that stands alone as an argument of a function or of ||: the declared
/// one, or text. `None` if there is no such parameter.
pub(in super::super) fn with_typed_arguments(
    statement: &Statement,
    declared: &ParameterTypes,
) -> Option<Statement> {
    let mut statement = statement.clone();
    let mut typing = TypedArguments { declared, has_any: false };
    let ControlFlow::Continue(()) = statement.walk_mut(&mut typing);
    typing.has_any.then_some(statement)
}

/// Types arguments of functions, also of those behind FROM.
struct TypedArguments<'a> {
    declared: &'a ParameterTypes,
    has_any: bool,
}

impl TypedArguments<'_> {
    fn type_all(&mut self, arguments: &mut [ast::FunctionArg]) {
        for argument in arguments {
            self.has_any |= type_argument(argument, self.declared).is_some();
        }
    }
}

impl VisitorMut for TypedArguments<'_> {
    type Break = std::convert::Infallible;

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Self::Break> {
        if let TableFactor::Table { args: Some(arguments), .. } = factor {
            self.type_all(&mut arguments.args);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, e: &mut Expr) -> ControlFlow<Self::Break> {
        match e {
            Expr::Function(function) => {
                if let ast::FunctionArguments::List(list) = &mut function.args {
                    self.type_all(&mut list.args);
                }
            }
            Expr::BinaryOp { left, op: ast::BinaryOperator::StringConcat, right } => {
                for side in [left, right] {
                    self.has_any |= type_parameter(side, self.declared).is_some();
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn type_argument(argument: &mut ast::FunctionArg, declared: &ParameterTypes) -> Option<()> {
    let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(e)) = argument else { return None };
    type_parameter(e, declared)
}

fn type_parameter(e: &mut Expr, declared: &ParameterTypes) -> Option<()> {
    let Expr::Value(value) = &*e else { return None };
    let ast::Value::Placeholder(name) = &value.value else { return None };
    let number = sql::lower::expr::placeholder(name).ok()?;
    let data_type = declared.0.get(number).copied().flatten().unwrap_or(DataType::Text);
    *e = sql::parse::parse_expr(&format!("CAST({name} AS {})", data_type.qualified_name())).ok()?;
    Some(())
}

/// Functions whose arguments have one type.
const OF_ONE_TYPE: [&str; 4] = ["coalesce", "greatest", "least", "nullif"];

/// Functions of an array and an element of it, or of another array.
const OF_ARRAYS: [&str; 3] = ["array_append", "array_prepend", "array_cat"];

/// The statement with a type for literals in calls of such functions, if an error says that one was called with an interval or
/// an array and a text: the planner has no type for both. `None` if there is no such literal.
pub(in super::super) fn with_typed_literals(statement: &Statement, error: &SqlError) -> Option<Statement> {
    let (name, types) = error.message.strip_prefix("function ")?.split_once('(')?;
    let (types, _) = types.rsplit_once(')')?;
    let (names, wanted) = match OF_ARRAYS.iter().find(|known| **known == name) {
        Some(array_function) => {
            let element = types.split(", ").find_map(|t| t.strip_suffix("[]"))?;
            let is_array = name == "array_cat";
            let wanted = if is_array { format!("{element}[]") } else { element.to_string() };
            (std::slice::from_ref(array_function), wanted)
        }
        None if OF_ONE_TYPE.contains(&name) && types.contains("interval") && types.contains("text") => {
            (OF_ONE_TYPE.as_slice(), "interval".to_string())
        }
        None => return None,
    };
    let mut statement = statement.clone();
    let mut has_any = false;
    let _: ControlFlow<()> = sql::walk::expressions_mut(&mut statement, |e| {
        if let Expr::Function(function) = e
            && names.iter().any(|name| function.name.to_string().eq_ignore_ascii_case(name))
            && let ast::FunctionArguments::List(list) = &mut function.args
        {
            for argument in &mut list.args {
                has_any |= literal_as(argument, &wanted).is_some();
            }
        }
        ControlFlow::Continue(())
    });
    has_any.then_some(statement)
}

fn literal_as(argument: &mut ast::FunctionArg, wanted: &str) -> Option<()> {
    let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(e)) = argument else { return None };
    let Expr::Value(value) = &*e else { return None };
    let ast::Value::SingleQuotedString(_) = &value.value else { return None };
    *e = sql::parse::parse_expr(&format!("CAST({e} AS {wanted})")).ok()?;
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_beside_arrays_and_intervals_get_their_type() {
        let typed = |text: &str, told: &str| {
            let statement = sql::parse::parse(text).unwrap().pop().unwrap();
            let error = SqlError::new(base::SqlState::UNDEFINED_FUNCTION, told);
            with_typed_literals(&statement, &error).map(|statement| statement.to_string())
        };
        assert_eq!(
            typed("SELECT array_cat(a, '{9}')", "function array_cat(integer[], text) does not exist")
                .as_deref(),
            Some("SELECT array_cat(a, CAST('{9}' AS INTEGER[]))")
        );
        let told = "function array_prepend(text, numeric(38,10)[]) does not exist";
        assert_eq!(
            typed("SELECT array_prepend('9', a)", told).as_deref(),
            Some("SELECT array_prepend(CAST('9' AS NUMERIC(38,10)), a)")
        );
        assert_eq!(
            typed("SELECT coalesce(a, '1 day')", "function coalesce(interval, text) does not exist")
                .as_deref(),
            Some("SELECT coalesce(a, CAST('1 day' AS INTERVAL))")
        );
        assert_eq!(typed("SELECT lower('a')", "function lower(integer) does not exist"), None);
    }
}
