//! Values of other types as JSON, JSON as values of other types, and JSON that is put together.

use super::functions::{JsonFunction, call, datum, text};
use super::{Json, invalid, quote, stored};
use crate::composite::Attribute;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::{DataType, Datum};

/// What stands before a row or an array that `json_agg` gathers.
pub const LINE_BREAK: &str = "\n ";

/// A `json` value that is an argument: NULL is null.
pub(super) fn json_text(value: &Datum) -> &str {
    match value {
        Datum::Text(text) => text,
        _ => "null",
    }
}

pub(super) fn build_object(members: &[Datum], (comma, colon): (&str, &str)) -> SqlResult<Datum> {
    let mut out = String::from("{");
    for (n, member) in members.chunks(2).enumerate() {
        let Datum::Text(key) = &member[0] else {
            let message = format!("argument {}: key must not be null", 2 * n + 1);
            return Err(invalid(message));
        };
        out.push_str(if n > 0 { comma } else { "" });
        quote(&mut out, key).expect("a string takes what is written");
        out.push_str(colon);
        out.push_str(member.get(1).map_or("null", json_text));
    }
    out.push('}');
    Ok(Datum::text(out))
}

/// `json_object` of keys and values by turns, or of an array of each. Errors: 2202E, 22004.
pub(super) fn object_of_texts(keys: &[Datum], values: &Datum) -> SqlResult<Datum> {
    let odd = |why: &str| Err(SqlError::new(SqlState(*b"2202E"), why));
    let pairs: Vec<(&Datum, &Datum)> = match values {
        Datum::Array(values) if values.len() != keys.len() => return odd("mismatched array dimensions"),
        Datum::Array(values) => keys.iter().zip(values.iter()).collect(),
        _ if keys.len() % 2 == 1 => return odd("array must have even number of elements"),
        _ => keys.chunks(2).map(|pair| (&pair[0], &pair[1])).collect(),
    };
    let mut members = Vec::with_capacity(2 * pairs.len());
    for (key, value) in pairs {
        if key.is_null() {
            return Err(SqlError::new(SqlState(*b"22004"), "null value not allowed for object key"));
        }
        members.push(key.clone());
        members.push(match value {
            Datum::Null => Datum::Null,
            value => Datum::text(text_of(value, DataType::Text)),
        });
    }
    build_object(&members, (", ", " : "))
}

/// What `json_agg` and `jsonb_agg` make of their values: `jsonb` unless they are texts.
pub(super) fn gathered(values: &[Datum]) -> SqlResult<Datum> {
    if let Some(Datum::Text(_)) = values.iter().find(|value| !value.is_null()) {
        let mut values = values.to_vec();
        // The first one stands on the line of the bracket.
        if let Some(Datum::Text(first)) = values.first_mut()
            && let Some(rest) = first.strip_prefix(LINE_BREAK)
        {
            *first = rest.into();
        }
        return call(JsonFunction::BuildArray, &values);
    }
    let elements = values.iter().map(jsonb_value).collect();
    Ok(datum(&Json::Array(elements)))
}

fn jsonb_value(value: &Datum) -> Json {
    match value {
        Datum::Json(text) => stored(text),
        _ => Json::Null,
    }
}

/// The same of `json_object_agg` and `jsonb_object_agg`. Errors: 22023 for a key that is NULL.
pub(super) fn gathered_object(keys: &[Datum], values: &[Datum]) -> SqlResult<Datum> {
    if keys.iter().any(Datum::is_null) {
        return Err(invalid("field name must not be null"));
    }
    if let Some(Datum::Text(_)) = values.iter().find(|value| !value.is_null()) {
        let members: Vec<Datum> = keys.iter().zip(values).flat_map(|(k, v)| [k.clone(), v.clone()]).collect();
        let Datum::Text(text) = build_object(&members, (", ", " : "))? else {
            unreachable!("an object is a text")
        };
        return Ok(Datum::text(format!("{{ {} }}", &text[1..text.len() - 1])));
    }
    let members = keys.iter().zip(values);
    let members = members.map(|(key, value)| Ok((text(key)?.to_string(), jsonb_value(value))));
    Ok(datum(&Json::object(members.collect::<SqlResult<_>>()?)))
}

/// The `json` of a value of a type, as `to_json` gives it. Null is null.
pub fn text_of(value: &Datum, data_type: DataType) -> String {
    let mut out = String::new();
    let mut quoted = |text: &str| quote(&mut out, text).expect("a string takes what is written");
    match (value, data_type) {
        (Datum::Null, _) => return "null".into(),
        (Datum::Bool(b), _) => return b.to_string(),
        (Datum::Json(json), _) => return json.to_string(),
        (Datum::Text(json), DataType::Json) => return json.to_string(),
        (Datum::Float(f), _) if !f.is_finite() => quoted(&crate::text::display(value)),
        (Datum::Int(_), t @ DataType::Enum(_)) => quoted(&crate::text::display_as(value, t)),
        (Datum::Int(_) | Datum::Float(_) | Datum::Decimal(_), t) => return crate::text::display_as(value, t),
        (Datum::Timestamp(_), t) => {
            let text = crate::text::display_as(value, t).replacen(' ', "T", 1);
            // The offset has its minutes here.
            quoted(&text.replacen("+00", "+00:00", usize::from(t == DataType::TimestampTz)));
        }
        (Datum::Array(values), DataType::Composite(of)) => {
            let member = |(attribute, value): (&Attribute, &Datum)| {
                let name = text_of(&Datum::text(&attribute.name), DataType::Text);
                format!("{name}:{}", text_of(value, attribute.data_type))
            };
            let members: Vec<String> = of.attributes().iter().zip(values.iter()).map(member).collect();
            return format!("{{{}}}", members.join(","));
        }
        (Datum::Array(elements), t) => {
            let of = match t {
                DataType::Array(of) => of.data_type(),
                _ => DataType::Text,
            };
            let elements: Vec<String> = elements.iter().map(|element| text_of(element, of)).collect();
            return format!("[{}]", elements.join(","));
        }
        (value, t) => quoted(&crate::text::display_as(value, t)),
    }
    out
}

/// A `jsonb` scalar as a number or a truth value. Errors: 22023 for any other; those of the cast.
pub(crate) fn cast_scalar(canonical: &str, to: DataType) -> SqlResult<Datum> {
    let json = stored(canonical);
    match (&json, to) {
        (Json::Bool(b), DataType::Boolean) => Ok(Datum::Bool(*b)),
        (
            Json::Number(digits),
            DataType::SmallInt
            | DataType::Integer
            | DataType::BigInt
            | DataType::Real
            | DataType::Double
            | DataType::Numeric { .. },
        ) => {
            let number = Datum::Decimal(crate::text::numeric(digits)?);
            crate::convert::cast(number, crate::datum::NUMERIC_UNLIMITED, to)
        }
        (json, to) => {
            let what = match json {
                Json::Array(_) => "array",
                Json::Object(_) => "object",
                Json::Number(_) => "numeric",
                other => other.type_name(),
            };
            Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("cannot cast jsonb {what} to type {}", crate::convert::name(to)),
            ))
        }
    }
}
