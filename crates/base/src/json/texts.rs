//! Members and elements of `json` texts, which keep what was written.

use super::functions::{JsonFunction, not_an_array, optional_text};
use super::{Member, invalid, members, parse, place};
use crate::Datum;
use crate::error::SqlResult;

/// The same of a `json` text.
pub(super) fn json_parts(function: JsonFunction, text: &str) -> SqlResult<Datum> {
    use JsonFunction as F;
    let shown = |text: &str, is_text: bool| json_result(Some(text), is_text);
    if matches!(function, F::Elements | F::ElementsText) {
        let elements = json_elements(text, "extract elements from")?;
        let parts = elements.into_iter().map(|(_, text)| shown(text, function == F::ElementsText));
        return Ok(Datum::Array(parts.collect::<SqlResult<Vec<_>>>()?.into()));
    }
    let found = members(text)?.filter(|_| text.trim_start().starts_with('{'));
    let found = found.ok_or_else(|| match function {
        F::Keys if text.trim_start().starts_with('[') => invalid("cannot call json_object_keys on an array"),
        F::Keys => invalid("cannot call json_object_keys on a scalar"),
        _ => invalid("cannot deconstruct an array as an object"),
    })?;
    let parts = found.into_iter().map(|(key, text)| match function {
        F::Keys => Ok(optional_text(key)),
        function => shown(text, function == F::ValuesText),
    });
    Ok(Datum::Array(parts.collect::<SqlResult<Vec<_>>>()?.into()))
}

pub(super) fn json_elements<'a>(text: &'a str, what: &str) -> SqlResult<Vec<Member<'a>>> {
    let is_object = text.trim_start().starts_with('{');
    match members(text)? {
        Some(elements) if !is_object => Ok(elements),
        Some(_) => Err(invalid(not_an_array(what, true))),
        None => Err(invalid(not_an_array(what, false))),
    }
}

pub(super) fn json_type(text: &str) -> &'static str {
    match text.trim_start().as_bytes().first() {
        Some(b'{') => "object",
        Some(b'[') => "array",
        Some(b'"') => "string",
        Some(b't' | b'f') => "boolean",
        Some(b'n') => "null",
        _ => "number",
    }
}

/// A member or an element of a `json` text: of several with one key the last one.
pub(super) fn json_member<'a>(text: &'a str, key: &Datum) -> SqlResult<Option<&'a str>> {
    let Some(inside) = members(text)? else { return Ok(None) };
    let is_object = text.trim_start().starts_with('{');
    Ok(match key {
        Datum::Int(at) if !is_object => place(*at, inside.len()).map(|at| inside[at].1),
        Datum::Text(key) if is_object => {
            inside.iter().rev().find(|(k, _)| k.as_deref() == Some(key)).map(|(_, text)| *text)
        }
        _ => None,
    })
}

/// A part of a `json` text as `->` or `->>` gives it.
pub(super) fn json_result(found: Option<&str>, is_text: bool) -> SqlResult<Datum> {
    Ok(match found {
        None => Datum::Null,
        Some(json) if !is_text => Datum::text(json),
        Some(json) if json.starts_with('"') => optional_text(parse(json)?.as_text()),
        Some("null") => Datum::Null,
        Some(json) => Datum::text(json),
    })
}
