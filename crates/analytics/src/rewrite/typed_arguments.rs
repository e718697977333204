//! Arguments of functions that nothing gives a type: parameters that stand alone, and literals beside intervals.

use base::{DataType, SqlError};
use datafusion::sql::sqlparser::ast::{self, Expr, Statement, TableFactor, VisitorMut};
use sql::lower::scope::ParameterTypes;
use sql::walk::WalkMut;
use std::ops::ControlFlow;

/// The statement with a type for each parameter that stands alone as a function's argument: the declared
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
        if let Expr::Function(function) = e
            && let ast::FunctionArguments::List(list) = &mut function.args
        {
            self.type_all(&mut list.args);
        }
        ControlFlow::Continue(())
    }
}

fn type_argument(argument: &mut ast::FunctionArg, declared: &ParameterTypes) -> Option<()> {
    let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(e)) = argument else { return None };
    let Expr::Value(value) = &*e else { return None };
    let ast::Value::Placeholder(name) = &value.value else { return None };
    let number = sql::lower::expr::placeholder(name).ok()?;
    let data_type = declared.0.get(number).copied().flatten().unwrap_or(DataType::Text);
    *e = sql::parse::parse_expr(&format!("CAST({name} AS {})", data_type.qualified_name())).ok()?;
    Some(())
}

/// Functions whose arguments have one type.
const OF_ONE_TYPE: [&str; 4] = ["coalesce", "greatest", "least", "nullif"];

/// The statement with literals as intervals in calls of such functions, if an error says that one was called with an interval
/// and a text: the planner has no type for both. `None` if there is no such literal.
pub(in super::super) fn with_typed_spans(statement: &Statement, error: &SqlError) -> Option<Statement> {
    let call = error.message.strip_prefix("function ")?;
    let (name, types) = call.split_once('(')?;
    let is_such = OF_ONE_TYPE.contains(&name) && types.contains("interval") && types.contains("text");
    if !is_such {
        return None;
    }
    let mut statement = statement.clone();
    let mut has_any = false;
    let _: ControlFlow<()> = sql::walk::expressions_mut(&mut statement, |e| {
        if let Expr::Function(function) = e
            && OF_ONE_TYPE.iter().any(|name| function.name.to_string().eq_ignore_ascii_case(name))
            && let ast::FunctionArguments::List(list) = &mut function.args
        {
            for argument in &mut list.args {
                has_any |= literal_as_span(argument).is_some();
            }
        }
        ControlFlow::Continue(())
    });
    has_any.then_some(statement)
}

fn literal_as_span(argument: &mut ast::FunctionArg) -> Option<()> {
    let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(e)) = argument else { return None };
    let Expr::Value(value) = &*e else { return None };
    let ast::Value::SingleQuotedString(_) = &value.value else { return None };
    *e = sql::parse::parse_expr(&format!("CAST({e} AS interval)")).ok()?;
    Some(())
}
