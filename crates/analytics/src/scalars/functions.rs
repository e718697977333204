//! Functions whose PostgreSQL namesakes have other types or other values.

use super::documents;
use super::evaluated::{Computation, call};
use super::inference::kind_of;
use super::kinds::{Family, Kind};
use super::lists;
use super::powers::{self, DOUBLE, double};
use super::typing::{self, Settled, as_text, no_function};
use base::DataType;
use base::expr::{Expr as Scalar, Function};
use datafusion::arrow::datatypes::DataType as Arrow;
use datafusion::common::{ExprSchema, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, ExprSchemable, ScalarUDF, cast, lit};
use std::sync::Arc;

/// Functions of texts: anything else as their first argument is no call of theirs.
const OF_TEXT: &[&str] = &[
    "lower",
    "upper",
    "initcap",
    "reverse",
    "ltrim",
    "rtrim",
    "btrim",
    "trim",
    "ascii",
    "strpos",
    "left",
    "right",
    "lpad",
    "rpad",
    "repeat",
    "replace",
    "split_part",
    "translate",
    "starts_with",
    "concat_ws",
    "regexp_like",
    "regexp_count",
    "regexp_match",
    "regexp_replace",
    "regexp_split_to_array",
    "regexp_instr",
    "regexp_substr",
    "meridian_regexp_matches",
    "meridian_regexp_pieces",
    "string_to_array",
];
/// Functions of texts and byte strings.
const OF_TEXT_OR_BYTES: &[&str] = &[
    "length",
    "char_length",
    "character_length",
    "octet_length",
    "bit_length",
    "substr",
    "substring",
    "md5",
];

/// Functions whose second argument is a text too.
const OF_TWO_TEXTS: &[&str] = &[
    "regexp_like",
    "regexp_count",
    "regexp_match",
    "regexp_replace",
    "regexp_split_to_array",
    "regexp_instr",
    "regexp_substr",
    "meridian_regexp_matches",
    "string_to_array",
    "strpos",
    "starts_with",
    "replace",
    "translate",
    "split_part",
];

/// Functions that take arguments of any type, labels of enumerated types among them.
const OF_LABELS: &[&str] = &[
    "coalesce",
    "greatest",
    "least",
    "nullif",
    "quote_literal",
    "quote_nullable",
    "format",
    "concat",
    "concat_ws",
    "pg_typeof",
    "date_part",
    "meridian_varying",
    "meridian_only",
    "meridian_or_empty",
    "meridian_unknown",
];

fn renewed(udf: &Arc<ScalarUDF>, arguments: Vec<Expr>) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(udf.clone(), arguments))
}

/// A call as PostgreSQL understands it; `None` if DataFusion understands it so too. Errors: 42883, 42804.
pub(super) fn function(
    name: &str,
    udf: &Arc<ScalarUDF>,
    arguments: &[Expr],
    schema: &dyn ExprSchema,
    is_written: bool,
) -> Settled {
    let is_of_labels = OF_LABELS.contains(&name) || super::evaluated::returned(udf).is_some();
    let kinds: Vec<Kind> = match is_of_labels {
        true => Vec::new(),
        false => arguments.iter().map(|e| kind_of(e, schema)).collect(),
    };
    if let Some(computed) = documents::shared(name, arguments, &kinds) {
        return Ok(Some(computed));
    }
    if crate::labels::FUNCTIONS.contains(&name) {
        return lists::labels(name, arguments, schema).map(Some);
    }
    if !is_of_labels && let Some(typed) = lists::of_labels(name, arguments, schema)? {
        if name == "make_array" {
            return Ok(lists::list_of_labels(&typed, schema));
        }
        let made = understood(name, udf, &typed, schema, is_written)?;
        return Ok(made.or_else(|| (typed != arguments).then(|| renewed(udf, typed))));
    }
    match kinds.iter().any(|kind| matches!(kind.family(), Family::Label(_))) {
        true => Err(no_function(name, &kinds)),
        false => understood(name, udf, arguments, schema, is_written),
    }
}

/// The same of a function that takes what its arguments are.
fn understood(
    name: &str,
    udf: &Arc<ScalarUDF>,
    arguments: &[Expr],
    schema: &dyn ExprSchema,
    is_written: bool,
) -> Settled {
    let kinds: Vec<Kind> = arguments.iter().map(|e| kind_of(e, schema)).collect();
    let again = |arguments| Ok(Some(renewed(udf, arguments)));
    match (name, arguments) {
        ("coalesce" | "nullif", _) => {
            let unified = typing::unified(arguments, schema, &name.to_uppercase(), is_written)?;
            Ok(unified.map(|arguments| renewed(udf, arguments)))
        }
        ("round" | "trunc", [a, digits]) => rounding(name, a, kinds[0], Some(digits), schema),
        ("round" | "trunc" | "floor" | "ceil" | "ceiling" | "signum" | "sign", [a]) => {
            rounding(name, a, kinds[0], None, schema)
        }
        ("date_trunc", [unit, at]) if matches!(kinds[1].family(), Family::Moment | Family::Date) => {
            // A day is the moment at which it begins, with its time zone.
            let tz = DataType::TimestampTz;
            let (at, kind) = match kinds[1].family() {
                Family::Date => (typing::converted(at.clone(), DataType::Date, tz), Kind::Known(tz)),
                _ => (at.clone(), kinds[1]),
            };
            let unit = match kinds[0] {
                Kind::Unknown => typing::literal(unit, Kind::Known(DataType::Text))?,
                _ => unit.clone(),
            };
            let cut = Scalar::Call(Function::DateTrunc, vec![Scalar::Column(0), Scalar::Column(1)]);
            let arguments = vec![(unit, Kind::Known(DataType::Text)), (at, kind)];
            Ok(Some(call(Computation::Scalar(cut), arguments, kind)))
        }
        ("power" | "pow", [a, b]) => powers::power(name, (a, kinds[0]), (b, kinds[1])),
        ("sqrt" | "exp" | "ln" | "log10" | "log" | "trim_scale", [a]) => powers::of_one(name, a, kinds[0]),
        ("log", [base, of]) => powers::logarithm(base, of, &kinds),
        ("chr", [Expr::Literal(ScalarValue::Int64(Some(0)), _)]) => {
            Err(base::SqlError::new(base::SqlState(*b"54000"), "null character not permitted"))
        }
        ("array_element" | "array_slice" | "array_has", _) => Ok(lists::function(name, udf, arguments)),
        ("octet_length", [a]) if matches!(kinds[0], Kind::Known(DataType::Char { .. })) => {
            again(vec![shown(a, kinds[0])])
        }
        ("quote_literal" | "quote_nullable" | "format", _) => {
            let is_text = |k: &Kind| is_text_or_open(*k);
            if kinds.iter().all(is_text) {
                return Ok(None);
            }
            again(arguments.iter().zip(&kinds).map(|(e, kind)| shown(e, *kind)).collect())
        }
        // The library's removes the first one only.
        ("array_remove", [_, _]) => {
            let all = datafusion::functions_nested::remove::array_remove_all_udf();
            Ok(Some(Expr::ScalarFunction(ScalarFunction::new_udf(all, arguments.to_vec()))))
        }
        // Of 32 bits, where the library takes every whole number for one of 64.
        ("to_hex", [number]) if is_integer(number, kinds[0], is_written) => {
            again(vec![cast(number.clone(), Arrow::Int64) & lit(0xffff_ffff_i64)])
        }
        ("pg_typeof", [of]) if is_integer(of, Kind::Unknown, is_written) => Ok(Some(lit("integer"))),
        ("pg_typeof", [of]) => Ok(Some(lit(type_name(of, kinds[0], schema)))),
        ("to_char" | "to_date" | "to_timestamp" | "to_number", [_, ..]) => templated(name, &kinds),
        ("array_to_string", []) => Err(no_function(name, &kinds)),
        ("array_to_string", [_, ..]) if !matches!(kinds[0], Kind::Foreign | Kind::Unknown) => {
            Err(no_function(name, &kinds))
        }
        ("concat" | "concat_ws", _)
            if name == "concat" || kinds.first().is_some_and(|k| is_text_or_open(*k)) =>
        {
            let is_text = |k: &Kind| is_text_or_open(*k) && !matches!(k, Kind::Known(DataType::Char { .. }));
            if kinds.iter().all(is_text) {
                return Ok(None);
            }
            again(arguments.iter().zip(&kinds).map(|(e, kind)| shown(e, *kind)).collect())
        }
        ("length" | "char_length" | "character_length", [bytes]) if kinds[0].family() == Family::Bytes => {
            lists::length_of_bytes(name, bytes, &kinds)
        }
        ("sha224" | "sha256" | "sha384" | "sha512", [of]) => lists::digest_of_bytes(name, udf, of, &kinds),
        ("reverse", [_]) if kinds[0].family() == Family::Bytes => Err(no_function(name, &kinds)),
        ("struct", [_, ..]) => Ok(Some(crate::composites::of_values(arguments))),
        (name, [_, _, ..])
            if crate::bytes_functions::EITHER.contains(&name)
                && kinds[..2].iter().any(|k| k.family() == Family::Bytes) =>
        {
            lists::of_bytes(name, udf, arguments, &kinds)
        }
        (name, [_, ..]) if OF_TEXT.contains(&name) || OF_TEXT_OR_BYTES.contains(&name) => {
            let fits = match kinds[0].family() {
                Family::Text | Family::Unknown | Family::Foreign => true,
                Family::Bytes => OF_TEXT_OR_BYTES.contains(&name),
                _ => false,
            };
            let fits = fits
                && (!OF_TWO_TEXTS.contains(&name) || kinds[1..].iter().take(1).all(|k| is_text_or_open(*k)));
            if fits { Ok(None) } else { Err(no_function(name, &kinds)) }
        }
        // A list of nothing but nulls has no length of its own in the planner.
        ("make_array", [_, ..])
            if arguments.iter().all(|e| e.get_type(schema).is_ok_and(|t| t.is_null())) =>
        {
            again(arguments.iter().map(|e| cast(e.clone(), Arrow::Utf8)).collect())
        }
        ("abs", [_]) => match kinds[0].family() {
            f if f.is_number() || matches!(f, Family::Unknown | Family::Foreign) => Ok(None),
            _ => Err(no_function(name, &kinds)),
        },
        _ => Ok(None),
    }
}

fn is_text_or_open(kind: Kind) -> bool {
    matches!(kind.family(), Family::Text | Family::Unknown | Family::Foreign)
}

/// A value as it is shown, not as it is cast: with its padding, and `t` for true.
pub(super) fn shown(e: &Expr, kind: Kind) -> Expr {
    let text = Kind::Known(DataType::Text);
    match kind {
        Kind::Known(DataType::Char { length }) => {
            let length = Scalar::Constant(base::Datum::Int(length.into()));
            let pad = Function::Text(base::text_functions::TextFunction::PadRight);
            let padded = Scalar::Call(pad, vec![Scalar::Column(0), length]);
            call(Computation::Scalar(padded), vec![(e.clone(), kind)], text)
        }
        // NULL stays what it is: `concat_ws` leaves it out.
        Kind::Known(DataType::Boolean) => {
            let shown = Scalar::Case(
                vec![(Scalar::IsNull(Box::new(Scalar::Column(0))), Scalar::Constant(base::Datum::Null))],
                Some(Box::new(Scalar::Call(Function::Concat, vec![Scalar::Column(0)]))),
            );
            call(Computation::Scalar(shown), vec![(e.clone(), kind)], text)
        }
        _ => as_text(e.clone(), kind),
    }
}

/// Whether an expression has at most 32 bits: by its type, or as a whole number of the statement's text.
pub(super) fn is_integer(e: &Expr, kind: Kind, is_written: bool) -> bool {
    match e {
        _ if matches!(kind, Kind::Known(DataType::SmallInt | DataType::Integer)) => true,
        Expr::Literal(ScalarValue::Int64(Some(n)), _) => is_written && i32::try_from(*n).is_ok(),
        Expr::Negative(inner) => is_integer(inner, Kind::Unknown, is_written),
        _ => false,
    }
}

/// What `pg_typeof` says.
fn type_name(of: &Expr, kind: Kind, schema: &dyn ExprSchema) -> String {
    match (kind, of.get_type(schema)) {
        (Kind::Foreign, Ok(Arrow::List(mut element))) => {
            // An array of arrays has one type of elements.
            while let Arrow::List(inner) = element.data_type() {
                element = inner.clone();
            }
            format!("{}[]", super::kinds::kind_of_field(&element).name())
        }
        (Kind::Foreign, Ok(Arrow::Struct(_))) => "record".into(),
        (kind, _) => kind.name(),
    }
}

/// Functions of templates. Errors: 42883, 42725 for a literal without a type.
fn templated(name: &str, kinds: &[Kind]) -> Settled {
    let fits = match (name, kinds[0].family()) {
        (_, Family::Foreign) => true,
        ("to_char", Family::Unknown) => {
            let message = format!("function {name}(unknown, unknown) is not unique");
            return Err(base::SqlError::new(base::SqlState(*b"42725"), message).hint(
                "Could not choose a best candidate function. You might need to add explicit type casts.",
            ));
        }
        ("to_char", Family::Moment | Family::Date | Family::Span) => true,
        ("to_char", family) => family.is_number(),
        ("to_timestamp", family) if kinds.len() == 1 => family.is_number(),
        (_, family) => matches!(family, Family::Text | Family::Unknown),
    };
    let fits = fits && kinds[1..].iter().all(|kind| is_text_or_open(*kind));
    if fits { Ok(None) } else { Err(no_function(name, kinds)) }
}

fn rounding(name: &str, a: &Expr, kind: Kind, digits: Option<&Expr>, schema: &dyn ExprSchema) -> Settled {
    let function = match name {
        "round" => Function::Round,
        "trunc" => Function::Trunc,
        "floor" => Function::Floor,
        "ceil" | "ceiling" => Function::Ceil,
        _ => Function::Sign,
    };
    let shown = if name == "signum" { "sign" } else { name };
    let kinds: Vec<Kind> = [Some(kind), digits.map(|d| kind_of(d, schema))].into_iter().flatten().collect();
    let scalar = |count| Scalar::Call(function, (0..count).map(Scalar::Column).collect());
    match (kind.family(), digits) {
        (Family::Foreign, _) | (Family::Unknown, _) => Ok(None),
        (Family::Integer | Family::Float, None) => {
            let argument = vec![(double(a, kind), DOUBLE)];
            Ok(Some(call(Computation::Scalar(scalar(1)), argument, DOUBLE)))
        }
        (Family::Numeric, None) => {
            let returns = Kind::Known(DataType::Numeric { precision: 38, scale: 0 });
            Ok(Some(call(Computation::Scalar(scalar(1)), vec![(a.clone(), kind)], returns)))
        }
        (Family::Integer | Family::Numeric, Some(digits)) if kinds[1].family() == Family::Integer => {
            let own = match kind {
                Kind::Known(DataType::Numeric { scale, .. }) => scale,
                _ => 0,
            };
            // Columns have one scale: that of the digits wanted, if they are known.
            let scale = match digits {
                Expr::Literal(ScalarValue::Int64(Some(n)), _) => (*n).clamp(0, 28) as u8,
                Expr::Literal(ScalarValue::Int32(Some(n)), _) => (*n).clamp(0, 28) as u8,
                _ => own,
            };
            let arguments = vec![(a.clone(), kind), (digits.clone(), kinds[1])];
            let returns = Kind::Known(DataType::Numeric { precision: 38, scale });
            Ok(Some(call(Computation::Scalar(scalar(2)), arguments, returns)))
        }
        _ => Err(no_function(shown, &kinds)),
    }
}
