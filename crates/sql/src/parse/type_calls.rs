//! Types that are called as functions: `date(moment)` is a cast, as PostgreSQL has it.

use super::constraints::is_word;
use crate::walk;
use sqlparser::ast::{
    CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Statement,
};
use sqlparser::tokenizer::{Token, TokenWithSpan};
use std::ops::ControlFlow;

/// Types whose names PostgreSQL's grammar takes for names of functions.
const TYPES: &[(&str, DataType)] = &[
    ("bool", DataType::Boolean),
    ("date", DataType::Date),
    ("float4", DataType::Real),
    ("float8", DataType::DoublePrecision),
    ("int2", DataType::SmallInt(None)),
    ("int4", DataType::Integer(None)),
    ("int8", DataType::BigInt(None)),
    ("json", DataType::JSON),
    ("jsonb", DataType::JSONB),
    ("text", DataType::Text),
    ("timestamptz", DataType::Timestamp(None, sqlparser::ast::TimezoneInfo::Tz)),
    ("uuid", DataType::Uuid),
];

/// Whether one of them may be called.
pub(super) fn are_said(tokens: &[TokenWithSpan]) -> bool {
    let mut is_behind_type = false;
    for token in tokens {
        match &token.token {
            Token::Whitespace(_) => {}
            Token::LParen if is_behind_type => return true,
            _ => is_behind_type = TYPES.iter().any(|(name, _)| is_word(token, name)),
        }
    }
    false
}

/// Makes casts of the calls, if [there are some](are_said).
pub(super) fn as_casts(statements: &mut [Statement], are_said: bool) {
    for statement in statements.iter_mut().filter(|_| are_said) {
        let _: ControlFlow<()> = walk::expressions_mut(statement, |e| {
            if let Expr::Function(function) = e
                && let Some((operand, data_type)) = cast_of(function)
            {
                let expr = Box::new(operand.clone());
                *e = Expr::Cast { kind: CastKind::Cast, expr, data_type, array: false, format: None };
            }
            ControlFlow::Continue(())
        });
    }
}

fn cast_of(function: &Function) -> Option<(&Expr, DataType)> {
    let name = match function.name.0.as_slice() {
        [name] => name.as_ident()?,
        [schema, name] if schema.as_ident()?.value.eq_ignore_ascii_case("pg_catalog") => name.as_ident()?,
        _ => return None,
    };
    let is_called = |of: &str| match name.quote_style {
        Some(_) => name.value == of,
        None => name.value.eq_ignore_ascii_case(of),
    };
    let (_, data_type) = TYPES.iter().find(|(of, _)| is_called(of))?;
    let FunctionArguments::List(list) = &function.args else { return None };
    let is_plain = function.over.is_none() && function.filter.is_none() && list.clauses.is_empty();
    match list.args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(operand))] if is_plain => {
            Some((operand, data_type.clone()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::parse::parse;

    #[test]
    fn a_type_that_is_called_is_a_cast_and_a_name_is_a_name() {
        for (sql, wanted) in [
            (
                "select date(a), DATE (b), date '2024-01-01'",
                "SELECT CAST(a AS DATE), CAST(b AS DATE), DATE '2024-01-01'",
            ),
            ("select pg_catalog.int4('3')", "SELECT CAST('3' AS INTEGER)"),
            ("insert into date(a) values (text(1))", "INSERT INTO date (a) VALUES (CAST(1 AS TEXT))"),
            ("select date(1, 2)", "SELECT date(1, 2)"),
        ] {
            assert_eq!(parse(sql).unwrap()[0].to_string(), wanted);
        }
    }
}
