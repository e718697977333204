//! Functions that the library computes otherwise, or in another type: NULLIF, GREATEST and LEAST, those of angles, divisors,
//! `date_bin`.

use super::angles::{Angle, DIRECTION};
use super::evaluated::{Computation, SpanOperation, call};
use super::functions::is_integer;
use super::inference::kind_of;
use super::kinds::{Family, Kind};
use super::lists;
use super::plain::Plain;
use super::powers::{DOUBLE, double};
use super::typing::{self, Settled, no_function};
use base::DataType;
use base::expr::{Expr as Scalar, Function};
use datafusion::common::ExprSchema;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::ScalarFunction;

/// A call of one of them; `None` for others. Errors: 42883, 42804; those of literals.
pub(super) fn function(call_of: &ScalarFunction, schema: &dyn ExprSchema, is_written: bool) -> Settled {
    let (name, arguments) = (call_of.name(), call_of.args.as_slice());
    let kinds: Vec<Kind> = arguments.iter().map(|e| kind_of(e, schema)).collect();
    let again =
        |arguments| Ok(Some(Expr::ScalarFunction(ScalarFunction::new_udf(call_of.func.clone(), arguments))));
    match (name, arguments) {
        ("nullif", [_, _]) => {
            let unified = typing::unified(arguments, schema, "NULLIF", is_written)?;
            let values = unified.as_deref().unwrap_or(arguments);
            if let Some(made) = null_if_of_first(arguments, values, schema, is_written) {
                return Ok(Some(made));
            }
            Ok(null_if(values, schema))
        }
        ("greatest" | "least", _) => {
            let unified = typing::unified(arguments, schema, &name.to_uppercase(), is_written)?;
            let values = unified.as_deref().unwrap_or(arguments);
            match (extreme(name, values, schema), unified) {
                (None, Some(values)) => again(values),
                (made, _) => Ok(made),
            }
        }
        ("date_bin", [stride, at, origin]) => date_bin([stride, at, origin], &kinds),
        (name, [a]) if let Some(angle) = Angle::named(name) => {
            of_doubles(name, Plain::Angle(angle), &[(a, kinds[0])])
        }
        (DIRECTION, [y, x]) => of_doubles(name, Plain::Direction, &[(y, kinds[0]), (x, kinds[1])]),
        ("gcd", [a, b]) => divisor(Plain::Divisor, (a, kinds[0]), (b, kinds[1]), is_written),
        ("lcm", [a, b]) => divisor(Plain::Multiple, (a, kinds[0]), (b, kinds[1]), is_written),
        ("justify_hours" | "justify_days" | "justify_interval", [span]) if kinds[0] == Kind::Unknown => {
            again(vec![typing::literal(span, Kind::Span)?])
        }
        ("encode" | "convert_from", [bytes, format]) if kinds[0] == Kind::Unknown => {
            let bytes = typing::literal(bytes, Kind::Known(DataType::Bytea))?;
            again(vec![bytes, format.clone()])
        }
        // As it is written it is an integer.
        ("abs", [of]) if is_written && let Some(narrow) = typing::narrowed(of) => again(vec![narrow]),
        // `= ANY` looks for a NULL.
        ("array_position" | "array_positions" | "array_remove" | "array_replace", [list, of, ..])
            if lists::is_of_rows(list, schema)
                && !matches!(of, Expr::Literal(value, _) if value.is_null()) =>
        {
            Err(base::SqlError::unsupported(format!("{name} of an array of rows"))
                .hint("Take the array apart with unnest, and compare the rows."))
        }
        ("array_remove", [list, of]) => lists::removed(list, of, schema),
        ("array_replace", [list, from, to]) => lists::replaced([list, from, to], schema),
        _ => Ok(None),
    }
}

/// NULLIF of numbers of one family that are of different types, which is of the first one's, and of arrays, which the library
/// does not compare. `unified` are the arguments in one type. `None` for others.
fn null_if_of_first(
    arguments: &[Expr],
    unified: &[Expr],
    schema: &dyn ExprSchema,
    is_written: bool,
) -> Option<Expr> {
    let ([first, second], [list, other]) = (arguments, unified) else { return None };
    let null_if = Scalar::Call(Function::NullIf, vec![Scalar::Column(0), Scalar::Column(1)]);
    if let (Some(a), Some(b)) = (lists::element_of(list, schema), lists::element_of(other, schema)) {
        let [a, b] = [a, b].map(|of| Kind::Known(DataType::Array(of)));
        return Some(call(Computation::Scalar(null_if), vec![(list.clone(), a), (other.clone(), b)], a));
    }
    let own = |e: &Expr| is_written.then(|| typing::narrowed(e)).flatten().unwrap_or_else(|| e.clone());
    let (first, second) = (own(first), own(second));
    let (a, b) = (kind_of(&first, schema), kind_of(&second, schema));
    let is_ours = a != b && a.family() == b.family() && a.family().is_number() && kind_of(list, schema) != a;
    is_ours.then(|| call(Computation::Scalar(null_if), vec![(first, a), (second, b)], a))
}

/// NULLIF of values that are equal without being the same: intervals of one length, zero and minus zero.
fn null_if(arguments: &[Expr], schema: &dyn ExprSchema) -> Option<Expr> {
    let [a, b] = arguments else { return None };
    let kind = kind_of(a, schema);
    let is_ours =
        matches!(kind.family(), Family::Span | Family::Float | Family::Row(_)) && kind == kind_of(b, schema);
    let null_if = Scalar::Call(Function::NullIf, vec![Scalar::Column(0), Scalar::Column(1)]);
    is_ours.then(|| call(Computation::Scalar(null_if), vec![(a.clone(), kind), (b.clone(), kind)], kind))
}

/// GREATEST and LEAST of values whose order is not that of what columns hold: intervals, JSON and rows. `None` for others.
fn extreme(name: &str, values: &[Expr], schema: &dyn ExprSchema) -> Option<Expr> {
    let kind = kind_of(values.first()?, schema);
    let is_ours = matches!(kind.family(), Family::Span | Family::Jsonb | Family::Row(_))
        && values.iter().all(|e| kind_of(e, schema) == kind);
    let function = if name == "greatest" { Function::Greatest } else { Function::Least };
    let columns = (0..values.len()).map(Scalar::Column).collect();
    let arguments = values.iter().map(|e| (e.clone(), kind)).collect();
    is_ours.then(|| call(Computation::Scalar(Scalar::Call(function, columns)), arguments, kind))
}

/// A function of doubles. Errors: 42883; where it is computed 22003.
fn of_doubles(name: &str, operation: Plain, arguments: &[(&Expr, Kind)]) -> Settled {
    let mut doubles = Vec::with_capacity(arguments.len());
    for (e, kind) in arguments {
        let e = match kind.family() {
            f if f.is_number() => double(e, *kind),
            Family::Unknown => typing::literal(e, DOUBLE)?,
            Family::Foreign => return Ok(None),
            _ => {
                let kinds: Vec<Kind> = arguments.iter().map(|(_, kind)| *kind).collect();
                return Err(no_function(name, &kinds));
            }
        };
        doubles.push((e, DOUBLE));
    }
    Ok(Some(call(Computation::Plain(operation), doubles, DOUBLE)))
}

/// `gcd` and `lcm` of whole numbers, in the wider type of the two. `None` for others.
fn divisor(operation: Plain, (a, ka): (&Expr, Kind), (b, kb): (&Expr, Kind), is_written: bool) -> Settled {
    if ka.family() != Family::Integer || kb.family() != Family::Integer {
        return Ok(None);
    }
    let is_narrow = is_integer(a, ka, is_written) && is_integer(b, kb, is_written);
    let returns = if is_narrow { DataType::Integer } else { DataType::BigInt };
    let arguments = vec![(a.clone(), ka), (b.clone(), kb)];
    Ok(Some(call(Computation::Plain(operation), arguments, Kind::Known(returns))))
}

/// `date_bin(stride, at, origin)`; the library counts nanoseconds, which reach not far. Errors: 42883; those of literals.
fn date_bin([stride, at, origin]: [&Expr; 3], kinds: &[Kind]) -> Settled {
    let of_zone = Kind::Known(DataType::TimestampTz);
    let returns = if kinds[1..].contains(&of_zone) { of_zone } else { Kind::Known(DataType::Timestamp) };
    let moment = |e: &Expr, kind: Kind| match kind.family() {
        Family::Unknown => typing::literal(e, returns).map(|e| Some((e, returns))),
        Family::Moment | Family::Date => Ok(Some((as_moment(e, kind, returns), returns))),
        Family::Foreign => Ok(None),
        _ => Err(no_function("date_bin", kinds)),
    };
    let stride = match kinds[0].family() {
        Family::Unknown => (typing::literal(stride, Kind::Span)?, Kind::Span),
        Family::Span => (stride.clone(), Kind::Span),
        Family::Foreign => return Ok(None),
        _ => return Err(no_function("date_bin", kinds)),
    };
    let (Some(at), Some(origin)) = (moment(at, kinds[1])?, moment(origin, kinds[2])?) else {
        return Ok(None);
    };
    Ok(Some(call(Computation::Spans(SpanOperation::Bin), vec![stride, at, origin], returns)))
}

/// A moment or a day as one of the two kinds of moments.
fn as_moment(e: &Expr, kind: Kind, to: Kind) -> Expr {
    match (kind, to) {
        (Kind::Known(from), Kind::Known(to)) if from != to => typing::converted(e.clone(), from, to),
        _ => e.clone(),
    }
}
