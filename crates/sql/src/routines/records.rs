//! Records of a function in its expressions: what takes one as a whole, in terms of its fields.
//!
//! A statement is planned over values, so a record is never one of its parameters: a comparison of two is written as the
//! comparisons of their fields, and what makes JSON of one as what makes it of names and values.

use super::body::{Fields, Names, argument_of};
use crate::names;
use base::SqlError;
use base::error::{SqlResult, SqlState};
use sqlparser::ast::{
    AccessExpr, BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName,
    Subscript, UnaryOperator, Value,
};

/// The function whose value is how many triggers are around; as a name it is a variable of programs.
pub const TRIGGER_DEPTH: &str = "pg_trigger_depth()";

/// What stands for an expression that has to do with records; `None`: it stays. Its parts were replaced before it.
pub(super) fn replaced(of: &mut dyn Names, e: &Expr) -> SqlResult<Option<Expr>> {
    match e {
        Expr::IsDistinctFrom(a, b) => compared(of, a, b, true),
        Expr::IsNotDistinctFrom(a, b) => compared(of, a, b, false),
        Expr::BinaryOp { left, op: BinaryOperator::Eq, right } => equal(of, left, right, false),
        Expr::BinaryOp { left, op: BinaryOperator::NotEq, right } => equal(of, left, right, true),
        Expr::IsNull(record) => all_null(of, record, true),
        Expr::IsNotNull(record) => all_null(of, record, false),
        Expr::Function(function) => called(of, function),
        Expr::CompoundFieldAccess { root, access_chain } => subscripted(of, root, access_chain),
        _ => Ok(None),
    }
}

/// Writes the fields out of `r.*` in a list of values.
pub(super) fn written_out(of: &mut dyn Names, values: &mut Vec<Expr>) -> SqlResult<()> {
    if !values.iter().any(|e| matches!(e, Expr::QualifiedWildcard(..))) {
        return Ok(());
    }
    let mut written = Vec::with_capacity(values.len());
    for e in std::mem::take(values) {
        match fields(of, &e)?.filter(|_| matches!(e, Expr::QualifiedWildcard(..))) {
            Some(fields) => written.extend(fields.into_iter().map(|(_, value)| value)),
            None => written.push(e),
        }
    }
    *values = written;
    Ok(())
}

/// The fields of a record: of one that became a parameter, or of `r.*`.
fn fields(of: &mut dyn Names, e: &Expr) -> SqlResult<Option<Fields>> {
    match e {
        Expr::Nested(inner) => fields(of, inner),
        Expr::QualifiedWildcard(name, _) => of.fields(&names::parts(name)?),
        Expr::Function(function) => match row_of(function) {
            Some(name) => of.fields(&names::parts(name)?),
            None => Ok(None),
        },
        e => match argument_of(e) {
            Some(nth) => of.record(nth),
            None => Ok(None),
        },
    }
}

/// What `ROW(r.*)` is made of.
fn row_of(function: &Function) -> Option<&ObjectName> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let is_row = function.name.to_string().eq_ignore_ascii_case("row");
    match list.args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(name))] if is_row => Some(name),
        _ => None,
    }
}

/// The fields of both sides. Errors: 42601 for records of different widths, as of any rows.
fn both(of: &mut dyn Names, a: &Expr, b: &Expr) -> SqlResult<Option<(Fields, Fields)>> {
    let is_one = |e: &Expr| match e {
        Expr::Nested(_) | Expr::QualifiedWildcard(..) => true,
        Expr::Function(function) => row_of(function).is_some(),
        e => argument_of(e).is_some(),
    };
    if !is_one(a) || !is_one(b) {
        return Ok(None);
    }
    let Some(a) = fields(of, a)? else { return Ok(None) };
    let Some(b) = fields(of, b)? else { return Ok(None) };
    if a.len() != b.len() {
        let told = "cannot compare record types with different numbers of columns";
        return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, told));
    }
    Ok(Some((a, b)))
}

fn joined(parts: Vec<Expr>, op: BinaryOperator) -> Option<Expr> {
    let join = |a: Expr, b: Expr| Expr::BinaryOp { left: Box::new(a), op: op.clone(), right: Box::new(b) };
    parts.into_iter().reduce(join).map(|all| Expr::Nested(Box::new(all)))
}

fn compared(of: &mut dyn Names, a: &Expr, b: &Expr, is_distinct: bool) -> SqlResult<Option<Expr>> {
    let Some((a, b)) = both(of, a, b)? else { return Ok(None) };
    let pair = |((_, a), (_, b)): ((String, Expr), (String, Expr))| match is_distinct {
        true => Expr::IsDistinctFrom(Box::new(a), Box::new(b)),
        false => Expr::IsNotDistinctFrom(Box::new(a), Box::new(b)),
    };
    let op = if is_distinct { BinaryOperator::Or } else { BinaryOperator::And };
    Ok(joined(a.into_iter().zip(b).map(pair).collect(), op))
}

/// Of two records NULLs are equal.
fn equal(of: &mut dyn Names, a: &Expr, b: &Expr, is_negated: bool) -> SqlResult<Option<Expr>> {
    compared(of, a, b, is_negated)
}

fn all_null(of: &mut dyn Names, record: &Expr, is_null: bool) -> SqlResult<Option<Expr>> {
    let Some(fields) = fields(of, record)? else { return Ok(None) };
    let one = |(_, value): (String, Expr)| match is_null {
        true => Expr::IsNull(Box::new(value)),
        false => Expr::IsNotNull(Box::new(value)),
    };
    Ok(joined(fields.into_iter().map(one).collect(), BinaryOperator::And))
}

/// `to_jsonb(r)`, `row_to_json(r)` and the like, and `pg_trigger_depth()`.
fn called(of: &mut dyn Names, function: &Function) -> SqlResult<Option<Expr>> {
    let name = names::parts(&function.name)?.pop().unwrap_or_default();
    let FunctionArguments::List(list) = &function.args else { return Ok(None) };
    if name == "pg_trigger_depth" && list.args.is_empty() {
        return of.meaning(&[TRIGGER_DEPTH.into()], &Default::default());
    }
    let maker = match name.as_str() {
        "to_jsonb" => "jsonb_build_object",
        "to_json" | "row_to_json" => crate::json::RECORD,
        _ => return Ok(None),
    };
    let [FunctionArg::Unnamed(argument)] = list.args.as_slice() else { return Ok(None) };
    if let FunctionArgExpr::Expr(e) = argument
        && let Some(nth) = argument_of(e)
        && of.is_null(nth)
    {
        of.record(nth)?;
        return crate::parse::parse_expr(if maker == crate::json::RECORD {
            "NULL::json"
        } else {
            "NULL::jsonb"
        })
        .map(Some);
    }
    let fields = match argument {
        FunctionArgExpr::Expr(e) => fields(of, e)?,
        FunctionArgExpr::QualifiedWildcard(name) => of.fields(&names::parts(name)?)?,
        _ => None,
    };
    let Some(fields) = fields else { return Ok(None) };
    let mut made = function.clone();
    made.name = vec![sqlparser::ast::Ident::new(maker)].into();
    let unnamed = |e: Expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(e));
    let name = |name: String| Expr::value(Value::SingleQuotedString(name));
    if let FunctionArguments::List(list) = &mut made.args {
        list.args = fields.into_iter().flat_map(|(n, value)| [unnamed(name(n)), unnamed(value)]).collect();
    }
    Ok(Some(Expr::Function(made)))
}

/// Elements of an array that is counted from zero: a literal where it is known which one, or else one of an array of literals.
fn subscripted(of: &mut dyn Names, root: &Expr, access: &[AccessExpr]) -> SqlResult<Option<Expr>> {
    let Some(nth) = argument_of(root) else { return Ok(None) };
    let Some(texts) = of.zero_based(nth)? else { return Ok(None) };
    let literal = |text: &String| Expr::value(Value::SingleQuotedString(text.clone())).to_string();
    let all: Vec<String> = texts.iter().map(literal).collect();
    let array = match all.is_empty() {
        true => "CAST('{}' AS text[])".to_string(),
        false => format!("CAST(ARRAY[{}] AS text[])", all.join(", ")),
    };
    let next = |e: &Option<Expr>| e.as_ref().map(|e| format!("({e}) + 1")).unwrap_or_default();
    let text = match access {
        [AccessExpr::Subscript(Subscript::Index { index })] => match number(index) {
            Some(n) => {
                let known = usize::try_from(n).ok().and_then(|n| all.get(n));
                format!("CAST({} AS text)", known.map_or("NULL", String::as_str))
            }
            None => format!("({array})[({index}) + 1]"),
        },
        [AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, stride: None })] => {
            format!("({array})[{}:{}]", next(lower_bound), next(upper_bound))
        }
        _ => return Ok(None),
    };
    crate::parse::parse_expr(&text).map(Some)
}

/// A whole number, with its sign.
fn number(e: &Expr) -> Option<i64> {
    match e {
        Expr::Value(value) => match &value.value {
            Value::Number(text, _) => text.parse().ok(),
            _ => None,
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => number(expr).map(|n| -n),
        _ => None,
    }
}
