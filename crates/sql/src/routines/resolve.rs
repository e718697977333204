//! Which function a call means: by its name along the search path, the number of its arguments, and their types as far
//! as the text tells them.

pub use super::inferred::Inferred;
use super::inferred::{array_of, elements, is_number, of_literal, together, wider};
use super::polymorphic::{self, Pair};
use super::scopes::{Lookup, Scopes};
use super::{AMBIGUOUS, body, data_type_name};
use crate::lower::scope::ParameterTypes;
use crate::names;
use crate::parse::{is_variadic, name_behind_variadic};
use base::convert::{Castable, castable};
use base::error::{SqlError, SqlResult, SqlState};
use base::routines::{ResultOf, Routine, TypeOf};
use base::{DataType, SqlError as Error};
use sqlparser::ast::{
    self, BinaryOperator as Op, Expr, FunctionArg, FunctionArgExpr, ObjectName, UnaryOperator,
};
use std::sync::Arc;

/// A call with its arguments in the order of the parameters.
pub struct Resolved {
    /// With the types that the call decides, as far as the text tells them.
    pub routine: Arc<Routine>,
    pub arguments: Vec<Expr>,
}

/// Where types are inferred.
#[derive(Clone, Copy)]
pub struct Types<'a> {
    pub lookup: Lookup<'a>,
    pub scopes: &'a Scopes,
    pub parameters: &'a ParameterTypes,
    /// It is a body: an argument without a type is one whose type the call does not tell.
    pub is_body: bool,
}

/// An argument as it is given.
struct Given {
    name: Option<String>,
    /// It stands behind VARIADIC.
    is_variadic: bool,
    value: Expr,
}

/// How the arguments of a call fit a routine.
struct Fit<'c> {
    routine: &'c Arc<Routine>,
    /// The parameter of each argument.
    places: Vec<usize>,
    /// Arguments from the last parameter on are the elements of its array.
    is_spread: bool,
}

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
    refuse_behind_names(arguments)?;
    let Some(given) = arguments.iter().map(given).collect::<Option<Vec<Given>>>() else { return Ok(None) };
    let inferred: Vec<Inferred> = given.iter().map(|given| infer(types, &given.value)).collect();
    let mut fitting: Vec<Fit<'_>> = Vec::new();
    for routine in &candidates {
        let Some(fit) = Fit::of(routine, &given) else { continue };
        let pairs = fit.pairs(&inferred);
        let takes = |(of, given): &Pair| of.any.is_some() || may_take(*given, of.data_type);
        let is_hidden = fitting.iter().any(|other| other.routine.types().eq(routine.types()));
        if pairs.iter().all(takes) && polymorphic::agree(&pairs) && !is_hidden {
            fitting.push(fit);
        }
    }
    let fit = match best(fitting, &inferred) {
        Ok(best) => best,
        // There may be one of PostgreSQL's own.
        Err(true) if name.0.len() == 1 => return Ok(None),
        Err(is_none) => return Err(not_found(name, &shown(&given, &inferred), is_none)),
    };
    fit.resolved(types, given, &inferred).map(Some)
}

/// Errors: 42601 for an argument without a name behind one with a name.
fn refuse_behind_names(arguments: &[FunctionArg]) -> SqlResult<()> {
    let mut named = arguments.iter().skip_while(|argument| matches!(argument, FunctionArg::Unnamed(_)));
    match named.any(|argument| matches!(argument, FunctionArg::Unnamed(_))) {
        true => {
            let told = "positional argument cannot follow named argument";
            Err(SqlError::new(SqlState::SYNTAX_ERROR, told))
        }
        false => Ok(()),
    }
}

/// What is wrong with a call that no routine of its name takes: 42883, should PostgreSQL have none either. `None`: no user
/// has made one of the name.
pub fn unfit(types: Types<'_>, name: &ObjectName, arguments: &[FunctionArg]) -> Option<SqlError> {
    named(types.lookup, name).first()?;
    let given: Vec<Given> = arguments.iter().filter_map(given).collect();
    let inferred: Vec<Inferred> = given.iter().map(|given| infer(types, &given.value)).collect();
    Some(not_found(name, &shown(&given, &inferred), true))
}

/// Routines of a name along the search path.
pub fn named<'c>(lookup: Lookup<'c>, name: &ObjectName) -> Vec<&'c Arc<Routine>> {
    let Ok((schema, name)) = names::qualified(name, lookup.database) else { return Vec::new() };
    let mut found = Vec::new();
    for schema in super::schemas(schema.as_ref(), lookup.search_path) {
        let all = lookup.catalog.routines.0.values();
        found.extend(all.filter(|routine| routine.schema == schema && routine.name == name));
    }
    found
}

fn given(argument: &FunctionArg) -> Option<Given> {
    let of = |name: Option<&ast::Ident>, value: &Expr| {
        let is_variadic = name.is_some_and(is_variadic);
        let name = match is_variadic {
            true => name.and_then(name_behind_variadic).map(str::to_string),
            false => name.map(names::fold),
        };
        Given { name, is_variadic, value: value.clone() }
    };
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(e)) => Some(of(None, e)),
        FunctionArg::Named { name, arg: FunctionArgExpr::Expr(e), .. } => Some(of(Some(name), e)),
        FunctionArg::ExprNamed { name: Expr::Identifier(name), arg: FunctionArgExpr::Expr(e), .. } => {
            Some(of(Some(name), e))
        }
        _ => None,
    }
}

impl<'c> Fit<'c> {
    /// `None` if a routine cannot be called so.
    fn of(routine: &'c Arc<Routine>, given: &[Given]) -> Option<Fit<'c>> {
        let count = routine.parameters.len();
        let is_marked = given.iter().any(|given| given.is_variadic);
        let has_names = given.iter().any(|given| given.name.is_some());
        if is_marked != routine.is_variadic && (is_marked || has_names) {
            return None;
        }
        let is_spread = routine.is_variadic && !is_marked && given.len() >= count;
        if given.len() > count && !is_spread {
            return None;
        }
        let mut taken = vec![false; count];
        let mut places = Vec::with_capacity(given.len());
        for (at, given) in given.iter().enumerate() {
            let place = match &given.name {
                None if is_spread => at.min(count - 1),
                None => at,
                Some(name) => routine.parameters.iter().position(|p| p.name.as_ref() == Some(name))?,
            };
            let is_element = is_spread && at >= count;
            if std::mem::replace(&mut taken[place], true) && !is_element {
                return None;
            }
            if given.is_variadic && place + 1 != count {
                return None;
            }
            places.push(place);
        }
        let mut rest = routine.parameters.iter().zip(&taken).filter(|(_, is_taken)| !**is_taken);
        let fits = rest.all(|(parameter, _)| parameter.default.is_some());
        fits.then_some(Fit { routine, places, is_spread })
    }

    /// What takes an argument.
    fn wanted(&self, place: usize) -> TypeOf {
        let of = self.routine.parameters[place].of;
        match self.is_spread && place + 1 == self.routine.parameters.len() {
            true => polymorphic::element_of(of),
            false => of,
        }
    }

    fn pairs(&self, inferred: &[Inferred]) -> Vec<Pair> {
        self.places.iter().zip(inferred).map(|(place, of)| (self.wanted(*place), *of)).collect()
    }

    /// Arguments for all parameters. Errors: among others 42804 for types that nothing decides.
    fn resolved(&self, types: Types<'_>, given: Vec<Given>, inferred: &[Inferred]) -> SqlResult<Resolved> {
        let parameters = &self.routine.parameters;
        let mut pairs = self.pairs(inferred);
        let mut ordered: Vec<Option<Expr>> = vec![None; parameters.len()];
        let mut open = vec![false; parameters.len()];
        let mut elements = Vec::new();
        for ((place, of), given) in self.places.iter().zip(inferred).zip(given) {
            open[*place] |= *of == Inferred::Unknown;
            match self.is_spread && place + 1 == parameters.len() {
                true => elements.push(given.value),
                false => ordered[*place] = Some(given.value),
            }
        }
        if let (true, Some(last)) = (self.is_spread, ordered.last_mut()) {
            *last = Some(Expr::Array(ast::Array { elem: elements, named: true }));
        }
        let mut arguments = Vec::with_capacity(ordered.len());
        for ((argument, parameter), open) in ordered.into_iter().zip(parameters).zip(&mut open) {
            arguments.push(match (argument, &parameter.default) {
                (Some(e), _) => e,
                (None, Some(default)) => {
                    let mut e = crate::parse::parse_expr(default)?;
                    super::kept::expand_kept(types.lookup, &mut e)?;
                    let nothing = Scopes::default();
                    let of = infer(Types { scopes: &nothing, ..types }, &e);
                    *open = of == Inferred::Unknown;
                    pairs.push((parameter.of, of));
                    e
                }
                (None, None) => return Err(Error::internal("an argument without a value")),
            });
        }
        let routine = polymorphic::settled(self.routine, &pairs, &open)?;
        Ok(Resolved { routine, arguments })
    }
}

fn may_take(of: Inferred, parameter: DataType) -> bool {
    match of {
        Inferred::Known(of) => castable(super::unlimited(of), parameter) == Castable::Implicit,
        Inferred::Untyped | Inferred::Unknown => true,
    }
}

/// PostgreSQL's choice among those that fit: the most arguments of exactly the type; then what literals prefer. Errors:
/// true if none fits.
fn best<'c>(mut fitting: Vec<Fit<'c>>, inferred: &[Inferred]) -> Result<Fit<'c>, bool> {
    let exact = |fit: &Fit<'_>| {
        let is_exact = |(to, of): &Pair| match of {
            Inferred::Known(of) => to.known() == Some(super::unlimited(*of)),
            _ => false,
        };
        fit.pairs(inferred).iter().filter(|pair| is_exact(pair)).count()
    };
    let most = fitting.iter().map(exact).max().ok_or(true)?;
    fitting.retain(|candidate| exact(candidate) == most);
    if fitting.len() > 1 {
        // Types that PostgreSQL prefers within their category.
        let preferred = |fit: &Fit<'_>| {
            let is_preferred = |(to, of): &Pair| match (to.known(), of) {
                (Some(to), Inferred::Known(of)) => super::unlimited(*of) != to && is_preferred(to),
                // A literal is a text where it may be one.
                (Some(to), Inferred::Untyped) => to == DataType::Text,
                _ => false,
            };
            fit.pairs(inferred).iter().filter(|pair| is_preferred(pair)).count()
        };
        let most = fitting.iter().map(preferred).max().unwrap_or(0);
        fitting.retain(|candidate| preferred(candidate) == most);
    }
    if fitting.len() > 1 && fitting.iter().any(|fit| !fit.is_spread) {
        fitting.retain(|fit| !fit.is_spread);
    }
    if fitting.len() > 1 {
        // One without defaults in use goes first.
        let least = fitting.iter().map(|fit| fit.routine.parameters.len()).min().unwrap_or(0);
        fitting.retain(|fit| fit.routine.parameters.len() == least);
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

/// Types of arguments, with their names.
fn shown(given: &[Given], inferred: &[Inferred]) -> String {
    let shown = |(given, of): (&Given, &Inferred)| {
        let of = match of {
            Inferred::Known(of) => data_type_name(super::unlimited(*of)),
            Inferred::Untyped | Inferred::Unknown => "unknown".into(),
        };
        given.name.as_ref().map_or(of.clone(), |name| format!("{name} => {of}"))
    };
    given.iter().zip(inferred).map(shown).collect::<Vec<_>>().join(", ")
}

fn not_found(name: &ObjectName, types: &str, is_none: bool) -> SqlError {
    let shown = format!("function {}({types})", crate::parse::shown_name(name));
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
    if let Some(of) = of_literal(e) {
        return of;
    }
    match e {
        Expr::Nested(e) => infer(types, e),
        Expr::Value(_) => match body::argument_of(e).and_then(|nth| nth.checked_sub(1)) {
            Some(nth) => {
                let untold = if types.is_body { Inferred::Unknown } else { Inferred::Untyped };
                types.parameters.0.get(nth).copied().flatten().map_or(untold, Inferred::Known)
            }
            None => Inferred::Unknown,
        },
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
        Expr::Case { conditions, else_result, .. } => {
            let results = conditions.iter().map(|when| &when.result);
            together(results.chain(else_result.as_deref()).map(|e| infer(types, e)))
        }
        Expr::Function(function) => called(types, function),
        Expr::Array(array) => array_of(array.elem.iter().map(|e| infer(types, e))),
        Expr::CompoundFieldAccess { root, access_chain } => elements(infer(types, root), access_chain),
        Expr::Extract { .. } => Inferred::Known(crate::types::NUMERIC),
        Expr::Position { .. } => Inferred::Known(DataType::Integer),
        Expr::Substring { .. } | Expr::Trim { .. } => Inferred::Known(DataType::Text),
        _ => Inferred::Unknown,
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

fn called(types: Types<'_>, function: &ast::Function) -> Inferred {
    let ast::FunctionArguments::List(list) = &function.args else { return Inferred::Unknown };
    if let Ok(Some(resolved)) = resolve(types, &function.name, &list.args) {
        return match &resolved.routine.result {
            ResultOf::One(of) | ResultOf::SetOf(of) => of.known().map_or(Inferred::Unknown, Inferred::Known),
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
        "coalesce" | "greatest" | "least" => together(list.args.iter().map(|argument| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(e)) => infer(types, e),
            _ => Inferred::Unknown,
        })),
        "nullif" | "abs" | "max" | "min" | "array_append" | "array_cat" | "array_remove" => {
            first(types, list)
        }
        "array_agg" => array_of(std::iter::once(first(types, list))),
        "unnest" => match first(types, list) {
            Inferred::Known(DataType::Array(of)) => Inferred::Known(of.data_type()),
            _ => Inferred::Unknown,
        },
        _ => Inferred::Unknown,
    }
}

/// The type of the first argument.
fn first(types: Types<'_>, list: &ast::FunctionArgumentList) -> Inferred {
    match list.args.first() {
        Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(e))) => infer(types, e),
        _ => Inferred::Unknown,
    }
}
