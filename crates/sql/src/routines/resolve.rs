//! Which function a call means: by its name along the search path, the number of its arguments, and their types as far
//! as the text tells them.

use super::scopes::{Lookup, Scopes};
use super::{AMBIGUOUS, body, data_type_name};
use crate::lower::scope::ParameterTypes;
use crate::names;
use base::convert::{Castable, castable};
use base::error::{SqlError, SqlResult, SqlState};
use base::routines::{ResultOf, Routine};
use base::{DataType, SqlError as Error};
use sqlparser::ast::{
    self, BinaryOperator as Op, Expr, FunctionArg, FunctionArgExpr, ObjectName, UnaryOperator, Value,
};
use std::sync::Arc;

/// What is known of the type of an expression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Inferred {
    Known(DataType),
    /// A literal or a parameter, which takes the type of what it meets.
    Untyped,
    /// The text does not tell.
    Unknown,
}

/// A call with its arguments in the order of the parameters.
pub struct Resolved {
    pub routine: Arc<Routine>,
    pub arguments: Vec<Expr>,
}

/// Where types are inferred.
#[derive(Clone, Copy)]
pub struct Types<'a> {
    pub lookup: Lookup<'a>,
    pub scopes: &'a Scopes,
    pub parameters: &'a ParameterTypes,
}

/// An argument with the name that it was given by.
type Given = (Option<String>, Expr);

/// The routine that a call means; `None` if none of a user's does, so that it may be a function of PostgreSQL's. Errors: 42883
/// for arguments that none of a name with its schema takes, 42725 if several do.
pub fn resolve(
    types: Types<'_>,
    name: &ObjectName,
    arguments: &[FunctionArg],
) -> SqlResult<Option<Resolved>> {
    let candidates = named(types.lookup, name);
    if candidates.is_empty() {
        return Ok(None);
    }
    let Some(given) = arguments.iter().map(given).collect::<Option<Vec<Given>>>() else { return Ok(None) };
    let inferred: Vec<Inferred> = given.iter().map(|(_, e)| infer(types, e)).collect();
    let mut fitting: Vec<(&Arc<Routine>, Vec<usize>)> = Vec::new();
    for routine in &candidates {
        let Some(places) = places(routine, &given) else { continue };
        let takes = |(at, of): (&usize, &Inferred)| may_take(*of, routine.parameters[*at].of.data_type);
        let is_hidden = fitting.iter().any(|(other, _)| other.types().eq(routine.types()));
        if places.iter().zip(&inferred).all(takes) && !is_hidden {
            fitting.push((routine, places));
        }
    }
    let (routine, places) = match best(fitting, &inferred) {
        Ok(best) => best,
        // There may be one of PostgreSQL's own.
        Err(true) if name.0.len() == 1 => return Ok(None),
        Err(is_none) => return Err(not_found(name, &inferred, is_none)),
    };
    let mut ordered: Vec<Option<Expr>> = vec![None; routine.parameters.len()];
    for (place, (_, e)) in places.into_iter().zip(given) {
        ordered[place] = Some(e);
    }
    let mut arguments = Vec::with_capacity(ordered.len());
    for (argument, parameter) in ordered.into_iter().zip(&routine.parameters) {
        arguments.push(match (argument, &parameter.default) {
            (Some(e), _) => e,
            (None, Some(default)) => {
                let mut e = crate::parse::parse_expr(default)?;
                super::kept::expand_kept(types.lookup, &mut e)?;
                e
            }
            (None, None) => return Err(Error::internal("an argument without a value")),
        });
    }
    Ok(Some(Resolved { routine: routine.clone(), arguments }))
}

/// What is wrong with a call that no routine of its name takes: 42883, should PostgreSQL have none either. `None`: no user
/// has made one of the name.
pub fn unfit(types: Types<'_>, name: &ObjectName, arguments: &[FunctionArg]) -> Option<SqlError> {
    named(types.lookup, name).first()?;
    let given = arguments.iter().filter_map(given);
    let inferred: Vec<Inferred> = given.map(|(_, e)| infer(types, &e)).collect();
    Some(not_found(name, &inferred, true))
}

/// Routines of a name along the search path.
pub fn named<'c>(lookup: Lookup<'c>, name: &ObjectName) -> Vec<&'c Arc<Routine>> {
    let Ok((schema, name)) = names::qualified(name, lookup.database) else { return Vec::new() };
    let mut found = Vec::new();
    for schema in super::schemas(schema.as_ref(), lookup.search_path) {
        let all = lookup.catalog.routines.0.values();
        found.extend(all.filter(|routine| routine.schema == *schema && routine.name == name));
    }
    found
}

fn given(argument: &FunctionArg) -> Option<Given> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(e)) => Some((None, e.clone())),
        FunctionArg::Named { name, arg: FunctionArgExpr::Expr(e), .. } => {
            Some((Some(names::fold(name)), e.clone()))
        }
        FunctionArg::ExprNamed { name: Expr::Identifier(name), arg: FunctionArgExpr::Expr(e), .. } => {
            Some((Some(names::fold(name)), e.clone()))
        }
        _ => None,
    }
}

/// The parameter that each argument is for; `None` if a routine cannot be called so.
fn places(routine: &Routine, given: &[Given]) -> Option<Vec<usize>> {
    if given.len() > routine.parameters.len() {
        return None;
    }
    let mut taken = vec![false; routine.parameters.len()];
    let mut places = Vec::with_capacity(given.len());
    for (at, (name, _)) in given.iter().enumerate() {
        let place = match name {
            None => at,
            Some(name) => routine.parameters.iter().position(|p| p.name.as_ref() == Some(name))?,
        };
        if std::mem::replace(&mut taken[place], true) {
            return None;
        }
        places.push(place);
    }
    let mut rest = routine.parameters.iter().zip(&taken).filter(|(_, is_taken)| !**is_taken);
    rest.all(|(parameter, _)| parameter.default.is_some()).then_some(places)
}

fn may_take(of: Inferred, parameter: DataType) -> bool {
    match of {
        Inferred::Known(of) => castable(super::unlimited(of), parameter) == Castable::Implicit,
        Inferred::Untyped | Inferred::Unknown => true,
    }
}

/// PostgreSQL's choice among those that fit: the most arguments of exactly the type; then what literals prefer. Errors:
/// true if none fits.
fn best<'c>(
    mut fitting: Vec<(&'c Arc<Routine>, Vec<usize>)>,
    inferred: &[Inferred],
) -> Result<(&'c Arc<Routine>, Vec<usize>), bool> {
    let exact = |(routine, places): &(&Arc<Routine>, Vec<usize>)| {
        let is_exact = |(at, of): (&usize, &Inferred)| match of {
            Inferred::Known(of) => super::unlimited(*of) == routine.parameters[*at].of.data_type,
            _ => false,
        };
        places.iter().zip(inferred).filter(|pair| is_exact(*pair)).count()
    };
    let most = fitting.iter().map(exact).max().ok_or(true)?;
    fitting.retain(|candidate| exact(candidate) == most);
    if fitting.len() > 1 {
        // Types that PostgreSQL prefers within their category.
        let preferred = |(routine, places): &(&Arc<Routine>, Vec<usize>)| {
            let is_preferred = |(at, of): (&usize, &Inferred)| {
                let to = routine.parameters[*at].of.data_type;
                match of {
                    Inferred::Known(of) => super::unlimited(*of) != to && is_preferred(to),
                    // A literal is a text where it may be one.
                    Inferred::Untyped => to == DataType::Text,
                    Inferred::Unknown => false,
                }
            };
            places.iter().zip(inferred).filter(|pair| is_preferred(*pair)).count()
        };
        let most = fitting.iter().map(preferred).max().unwrap_or(0);
        fitting.retain(|candidate| preferred(candidate) == most);
    }
    if fitting.len() > 1 {
        // One without defaults in use goes first.
        let least = fitting.iter().map(|(routine, _)| routine.parameters.len()).min().unwrap_or(0);
        fitting.retain(|(routine, _)| routine.parameters.len() == least);
    }
    match fitting.len() {
        1 => fitting.pop().ok_or(true),
        _ => Err(false),
    }
}

fn is_preferred(data_type: DataType) -> bool {
    use DataType as T;
    matches!(data_type, T::Double | T::Text | T::TimestampTz | T::Interval | T::Boolean)
}

fn not_found(name: &ObjectName, inferred: &[Inferred], is_none: bool) -> SqlError {
    let shown = |of: &Inferred| match of {
        Inferred::Known(of) => data_type_name(super::unlimited(*of)),
        Inferred::Untyped | Inferred::Unknown => "unknown".into(),
    };
    let types: Vec<String> = inferred.iter().map(shown).collect();
    let shown = format!("function {}({})", crate::parse::shown_name(name), types.join(", "));
    let mut error = match is_none {
        true => SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("{shown} does not exist"))
            .hint("No function matches the given name and argument types. You might need to add explicit type casts."),
        false => SqlError::new(AMBIGUOUS, format!("{shown} is not unique"))
            .hint("Could not choose a best candidate function. You might need to add explicit type casts."),
    };
    error.position = names::position_of(name);
    error
}

/// The type of an expression, as far as its text and the columns around it tell.
pub fn infer(types: Types<'_>, e: &Expr) -> Inferred {
    let known = |of: Option<DataType>| of.map_or(Inferred::Unknown, Inferred::Known);
    match e {
        Expr::Nested(e) => infer(types, e),
        e if body::is_untyped(e) => Inferred::Untyped,
        Expr::Value(value) => match &value.value {
            Value::Number(text, _) => Inferred::Known(number(text)),
            Value::Boolean(_) => Inferred::Known(DataType::Boolean),
            Value::Placeholder(_) => {
                let nth = body::argument_of(e).and_then(|nth| nth.checked_sub(1));
                let of = nth.and_then(|nth| types.parameters.0.get(nth).copied().flatten());
                of.map_or(Inferred::Untyped, Inferred::Known)
            }
            _ => Inferred::Unknown,
        },
        Expr::Cast { data_type, .. } => known(super::type_of(data_type).ok().map(|of| of.data_type)),
        Expr::TypedString(typed) => known(super::type_of(&typed.data_type).ok().map(|of| of.data_type)),
        Expr::Interval(_) => Inferred::Known(DataType::Interval),
        Expr::Identifier(name) => known(types.scopes.column(&names::fold(name)).flatten()),
        Expr::CompoundIdentifier(path) => match path.as_slice() {
            [.., of, name] => known(types.scopes.qualified(&names::fold(of), &names::fold(name)).flatten()),
            _ => Inferred::Unknown,
        },
        Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::IsTrue(_)
        | Expr::IsNotTrue(_)
        | Expr::IsFalse(_)
        | Expr::IsNotFalse(_)
        | Expr::IsDistinctFrom(..)
        | Expr::IsNotDistinctFrom(..)
        | Expr::InList { .. }
        | Expr::InSubquery { .. }
        | Expr::Between { .. }
        | Expr::Like { .. }
        | Expr::ILike { .. }
        | Expr::Exists { .. } => Inferred::Known(DataType::Boolean),
        Expr::UnaryOp { op: UnaryOperator::Not, .. } => Inferred::Known(DataType::Boolean),
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => infer(types, expr),
        Expr::BinaryOp { left, op, right } => binary(infer(types, left), op, infer(types, right)),
        Expr::Case { conditions, .. } => {
            conditions.first().map_or(Inferred::Unknown, |when| infer(types, &when.result))
        }
        Expr::Function(function) => called(types, function),
        _ => Inferred::Unknown,
    }
}

fn number(text: &str) -> DataType {
    if text.contains(['.', 'e', 'E']) {
        return crate::types::NUMERIC;
    }
    match text.parse::<i64>() {
        Ok(value) if i32::try_from(value).is_ok() => DataType::Integer,
        Ok(_) => DataType::BigInt,
        Err(_) => crate::types::NUMERIC,
    }
}

fn binary(left: Inferred, op: &Op, right: Inferred) -> Inferred {
    match op {
        Op::And | Op::Or | Op::Eq | Op::NotEq | Op::Lt | Op::LtEq | Op::Gt | Op::GtEq => {
            Inferred::Known(DataType::Boolean)
        }
        Op::StringConcat => match (left, right) {
            (Inferred::Known(DataType::Text | DataType::Varchar { .. }), _)
            | (_, Inferred::Known(DataType::Text | DataType::Varchar { .. })) => {
                Inferred::Known(DataType::Text)
            }
            _ => Inferred::Unknown,
        },
        Op::Plus | Op::Minus | Op::Multiply | Op::Divide | Op::Modulo => match (left, right) {
            (Inferred::Known(of), Inferred::Untyped) | (Inferred::Untyped, Inferred::Known(of))
                if is_number(of) =>
            {
                Inferred::Known(of)
            }
            (Inferred::Known(a), Inferred::Known(b)) if is_number(a) && is_number(b) => wider(a, b),
            _ => Inferred::Unknown,
        },
        _ => Inferred::Unknown,
    }
}

fn is_number(of: DataType) -> bool {
    use DataType as T;
    matches!(of, T::SmallInt | T::Integer | T::BigInt | T::Numeric { .. } | T::Real | T::Double)
}

/// The type of what two numbers give.
fn wider(a: DataType, b: DataType) -> Inferred {
    let (a, b) = (super::unlimited(a), super::unlimited(b));
    match (castable(a, b), castable(b, a)) {
        // real and numeric make double precision.
        _ if matches!(
            (a, b),
            (DataType::Real, DataType::Numeric { .. }) | (DataType::Numeric { .. }, DataType::Real)
        ) =>
        {
            Inferred::Known(DataType::Double)
        }
        (Castable::Implicit, _) => Inferred::Known(b),
        (_, Castable::Implicit) => Inferred::Known(a),
        _ => Inferred::Unknown,
    }
}

fn called(types: Types<'_>, function: &ast::Function) -> Inferred {
    let ast::FunctionArguments::List(list) = &function.args else { return Inferred::Unknown };
    if let Ok(Some(resolved)) = resolve(types, &function.name, &list.args) {
        return match &resolved.routine.result {
            ResultOf::One(of) | ResultOf::SetOf(of) => Inferred::Known(of.data_type),
            _ => Inferred::Unknown,
        };
    }
    let name = function.name.0.last().and_then(|part| part.as_ident()).map(names::fold).unwrap_or_default();
    match name.as_str() {
        "count" | "row_number" | "rank" => Inferred::Known(DataType::BigInt),
        "lower" | "upper" | "concat" | "concat_ws" | "trim" | "btrim" | "ltrim" | "rtrim" | "substr"
        | "substring" | "replace" | "to_char" | "md5" | "initcap" | "left" | "right" | "repeat"
        | "reverse" | "format" | "string_agg" | "lpad" | "rpad" | "split_part" | "translate" => {
            Inferred::Known(DataType::Text)
        }
        "length" | "char_length" | "strpos" | "position" | "pg_trigger_depth" => {
            Inferred::Known(DataType::Integer)
        }
        "now" | "clock_timestamp" | "statement_timestamp" | "transaction_timestamp" | "current_timestamp" => {
            Inferred::Known(DataType::TimestampTz)
        }
        "current_date" => Inferred::Known(DataType::Date),
        "nextval" | "currval" | "lastval" | "setval" => Inferred::Known(DataType::BigInt),
        "coalesce" | "greatest" | "least" | "nullif" | "abs" | "max" | "min" => match list.args.first() {
            Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(e))) => infer(types, e),
            _ => Inferred::Unknown,
        },
        _ => Inferred::Unknown,
    }
}
