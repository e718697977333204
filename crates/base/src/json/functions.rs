//! Operators and functions of `json` and `jsonb`, over values of either: a text is `json`, and gives `json`.

use super::change::{self, Change};
use super::path::{self, Answer, PathFunction};
use super::texts::{json_elements, json_member, json_parts, json_result, json_type};
use super::values::{build_object, gathered, gathered_object, json_text, object_of_texts, text_of};
use super::{Json, invalid, parse, place, stored};
use crate::error::{SqlError, SqlResult};
use crate::{DataType, Datum};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What is computed of JSON. Paths are arrays of texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JsonFunction {
    /// `->`: a member by its key, or an element by its number.
    Get,
    /// `->>`
    GetText,
    /// `#>`
    Path,
    /// `#>>`
    PathText,
    /// `@>`
    Contains,
    /// `<@`
    IsContained,
    /// `?`
    HasKey,
    /// `?|`
    HasAny,
    /// `?&`
    HasAll,
    /// `||`
    Concat,
    /// `-`: by a key, several keys, or the number of an element.
    Delete,
    /// `#-`
    DeletePath,
    /// `jsonb_set(target, path, new, create_if_missing)`
    Set,
    /// `jsonb_insert(target, path, new, insert_after)`
    Insert,
    ArrayLength,
    TypeName,
    StripNulls,
    Pretty,
    /// `json` of a value of a type.
    ToJson(DataType),
    /// `jsonb` of a value of a type.
    ToJsonb(DataType),
    /// `json_build_array` of `json` values.
    BuildArray,
    /// `json_build_object` of texts and `json` values by turns.
    BuildObject,
    /// `row_to_json` of names and `json` values by turns.
    BuildRecord,
    /// Keys of an object, an array of texts.
    Keys,
    /// Values of an object.
    Values,
    /// Values of an object as `->>` gives them.
    ValuesText,
    /// Elements of an array.
    Elements,
    /// Elements of an array as `->>` gives them.
    ElementsText,
    /// An array of the arguments.
    ArrayOf,
    /// An array of `json` or `jsonb` values as one array of JSON.
    Gather,
    /// Keys and values, each an array, as an object.
    GatherObject,
    /// Bytes in the order of `jsonb`.
    SortKey,
    /// With a path of SQL/JSON.
    JsonPath(PathFunction),
    /// `json_object`: an object of an array of keys and values by turns, or of an array of each.
    ObjectOfTexts,
}

impl JsonFunction {
    /// NULL arguments count, rather than making the result NULL.
    fn takes_nulls(self) -> bool {
        use JsonFunction as F;
        matches!(self, F::BuildArray | F::BuildObject | F::BuildRecord | F::ArrayOf)
    }
}

/// A `jsonb` value.
pub(super) fn datum(json: &Json) -> Datum {
    Datum::Json(Arc::from(json.to_string()))
}

pub(super) fn optional_text(text: Option<String>) -> Datum {
    text.map_or(Datum::Null, Datum::text)
}

/// Computes a function. Errors: 22023 and the like, as PostgreSQL's.
pub fn call(function: JsonFunction, arguments: &[Datum]) -> SqlResult<Datum> {
    use JsonFunction as F;
    if !function.takes_nulls() && arguments.iter().any(Datum::is_null) {
        return Ok(Datum::Null);
    }
    Ok(match (function, arguments) {
        (F::JsonPath(function), arguments) => of_path(function, arguments)?,
        (F::ToJson(t), [value]) => Datum::text(text_of(value, t)),
        (F::ToJsonb(t), [value]) => datum(&parse(&text_of(value, t))?),
        (F::BuildArray, values) => {
            Datum::text(format!("[{}]", values.iter().map(json_text).collect::<Vec<_>>().join(", ")))
        }
        (F::BuildObject, members) => build_object(members, (", ", " : "))?,
        (F::BuildRecord, members) => build_object(members, (",", ":"))?,
        (F::ArrayOf, texts) => Datum::Array(texts.into()),
        (F::Gather, [Datum::Array(values)]) => gathered(values)?,
        (F::GatherObject, [Datum::Array(keys), Datum::Array(values)]) => gathered_object(keys, values)?,
        // No array stands for values that were left out.
        (F::ObjectOfTexts, [Datum::Array(keys), values]) => object_of_texts(keys, values)?,
        (F::StripNulls, [Datum::Text(text)]) => Datum::text(super::parse::without_nulls(text)?),
        (F::Get | F::GetText, [Datum::Text(text), key]) => {
            let found = json_member(text, key)?;
            json_result(found, function == F::GetText)?
        }
        (F::Path | F::PathText, [Datum::Text(text), path]) => {
            let mut at = Some(text.trim());
            for step in texts(path)? {
                let (Some(inside), Some(step)) = (at, step) else { return Ok(Datum::Null) };
                let is_array = inside.starts_with('[');
                at = match is_array {
                    true => match step.parse::<i32>() {
                        Ok(n) => json_member(inside, &Datum::Int(n.into()))?,
                        Err(_) => None,
                    },
                    false => json_member(inside, &Datum::text(step))?,
                };
            }
            json_result(at, function == F::PathText)?
        }
        (F::TypeName, [Datum::Text(text)]) => {
            super::check(text)?;
            Datum::text(json_type(text))
        }
        (F::ArrayLength, [Datum::Text(text)]) => {
            Datum::Int(json_elements(text, "get array length of")?.len() as i64)
        }
        (F::Keys | F::Values | F::ValuesText | F::Elements | F::ElementsText, [Datum::Text(text)]) => {
            json_parts(function, text)?
        }
        (_, [Datum::Json(target), rest @ ..]) => of_jsonb(function, &stored(target), rest)?,
        (function, arguments) => {
            let kinds: Vec<&str> = arguments.iter().map(Datum::kind).collect();
            return Err(SqlError::internal(format!("{function:?} of {}", kinds.join(", "))));
        }
    })
}

fn of_path(function: PathFunction, arguments: &[Datum]) -> SqlResult<Datum> {
    let answer = match arguments {
        [Datum::Text(path)] => return path::canonical(path).map(Datum::text),
        // Operators are silent and know no variables.
        [Datum::Json(target), Datum::Text(path)] => {
            path::answer(function, &stored(target), path, None, true)?
        }
        [Datum::Json(target), Datum::Text(path), Datum::Json(vars), Datum::Bool(is_silent)] => {
            path::answer(function, &stored(target), path, Some(&stored(vars)), *is_silent)?
        }
        _ => return Err(SqlError::internal(format!("{function:?} of {} arguments", arguments.len()))),
    };
    let item = |text: String| Datum::Json(text.into());
    Ok(match answer {
        Answer::Truth(truth) => truth.map_or(Datum::Null, Datum::Bool),
        Answer::Item(text) => text.map_or(Datum::Null, item),
        Answer::Items(texts) => Datum::Array(texts.into_iter().map(item).collect()),
    })
}

fn of_jsonb(function: JsonFunction, target: &Json, rest: &[Datum]) -> SqlResult<Datum> {
    use JsonFunction as F;
    let found = |found: Option<&Json>, is_text: bool| match (found, is_text) {
        (None, _) => Datum::Null,
        (Some(json), true) => optional_text(json.as_text()),
        (Some(json), false) => datum(json),
    };
    Ok(match (function, rest) {
        (F::Get | F::GetText, [key]) => {
            let json = match key {
                // A value that is no array is one of itself alone.
                Datum::Int(0 | -1) if !matches!(target, Json::Array(_) | Json::Object(_)) => Some(target),
                Datum::Int(at) => target.element(*at),
                key => target.member(text(key)?),
            };
            found(json, function == F::GetText)
        }
        (F::Path | F::PathText, [path]) => found(at_path(target, path)?, function == F::PathText),
        (F::Contains, [Datum::Json(part)]) => Datum::Bool(contains(target, &stored(part))),
        (F::IsContained, [Datum::Json(whole)]) => Datum::Bool(contains(&stored(whole), target)),
        (F::HasKey, [key]) => Datum::Bool(has_key(target, text(key)?)),
        (F::HasAny, [keys]) => Datum::Bool(texts(keys)?.iter().flatten().any(|key| has_key(target, key))),
        (F::HasAll, [keys]) => Datum::Bool(texts(keys)?.iter().flatten().all(|key| has_key(target, key))),
        (F::Concat, [Datum::Json(other)]) => datum(&concat(target.clone(), stored(other))),
        (F::Delete, [Datum::Int(at)]) => datum(&delete_element(target.clone(), *at)?),
        (F::Delete, [Datum::Text(key)]) => datum(&delete_keys(target.clone(), &[Some(key.to_string())])?),
        (F::Delete, [keys]) => datum(&delete_keys(target.clone(), &texts(keys)?)?),
        (F::DeletePath, [path]) => datum(&change::at(target.clone(), &texts(path)?, Change::Delete)?),
        (F::Set, [path, Datum::Json(new), Datum::Bool(creates)]) => {
            let change = Change::Set { new: stored(new), creates: *creates };
            datum(&change::at(target.clone(), &texts(path)?, change)?)
        }
        (F::Insert, [path, Datum::Json(new), Datum::Bool(is_after)]) => {
            let change = Change::Insert { new: stored(new), is_after: *is_after };
            datum(&change::at(target.clone(), &texts(path)?, change)?)
        }
        (F::ArrayLength, []) => Datum::Int(elements(target, "get array length of")?.len() as i64),
        (F::TypeName, []) => Datum::text(target.type_name()),
        (F::StripNulls, []) => datum(&without_nulls(target)),
        (F::Pretty, []) => Datum::text(target.pretty()),
        (F::SortKey, []) => Datum::Bytes(target.sort_key().into()),
        (F::Keys | F::Values | F::ValuesText | F::Elements | F::ElementsText, []) => parts(function, target)?,
        (function, rest) => {
            let kinds: Vec<&str> = rest.iter().map(Datum::kind).collect();
            return Err(SqlError::internal(format!("{function:?} of jsonb, {}", kinds.join(", "))));
        }
    })
}

/// Keys, values or elements, as an array.
fn parts(function: JsonFunction, target: &Json) -> SqlResult<Datum> {
    use JsonFunction as F;
    let shown = |json: &Json, is_text: bool| match is_text {
        true => optional_text(json.as_text()),
        false => datum(json),
    };
    let parts: Vec<Datum> = match (function, target) {
        (F::Elements | F::ElementsText, _) => {
            let elements = elements(target, "extract elements from")?;
            elements.iter().map(|json| shown(json, function == F::ElementsText)).collect()
        }
        (F::Keys, Json::Object(members)) => members.iter().map(|(key, _)| Datum::text(key)).collect(),
        (F::Keys, Json::Array(_)) => return Err(invalid("cannot call jsonb_object_keys on an array")),
        (F::Keys, _) => return Err(invalid("cannot call jsonb_object_keys on a scalar")),
        (_, Json::Object(members)) => {
            members.iter().map(|(_, json)| shown(json, function == F::ValuesText)).collect()
        }
        _ => return Err(invalid("cannot call jsonb_each on a non-object")),
    };
    Ok(Datum::Array(parts.into()))
}

fn elements<'a>(target: &'a Json, what: &str) -> SqlResult<&'a [Json]> {
    match target {
        Json::Array(elements) => Ok(elements),
        Json::Object(_) => Err(invalid(not_an_array(what, true))),
        _ => Err(invalid(not_an_array(what, false))),
    }
}

pub(super) fn not_an_array(what: &str, is_object: bool) -> String {
    match (what, is_object) {
        ("get array length of", true) => format!("cannot {what} a non-array"),
        (_, true) => format!("cannot {what} an object"),
        (_, false) => format!("cannot {what} a scalar"),
    }
}

pub(super) fn text(datum: &Datum) -> SqlResult<&str> {
    match datum {
        Datum::Text(text) => Ok(text),
        other => Err(SqlError::internal(format!("{} is no key", other.kind()))),
    }
}

/// An array of texts. Errors: 22P02 for a text that is none.
fn texts(datum: &Datum) -> SqlResult<Vec<Option<String>>> {
    match datum {
        Datum::Array(elements) => elements
            .iter()
            .map(|element| match element {
                Datum::Null => Ok(None),
                element => text(element).map(|text| Some(text.to_string())),
            })
            .collect(),
        other => crate::text::array::parse(text(other)?),
    }
}

fn at_path<'a>(target: &'a Json, path: &Datum) -> SqlResult<Option<&'a Json>> {
    let mut at = Some(target);
    for step in texts(path)? {
        let (Some(inside), Some(step)) = (at, step) else { return Ok(None) };
        at = match inside {
            Json::Array(_) => step.trim().parse::<i32>().ok().and_then(|n| inside.element(n.into())),
            inside => inside.member(&step),
        };
    }
    Ok(at)
}

fn has_key(target: &Json, key: &str) -> bool {
    match target {
        Json::Object(_) => target.member(key).is_some(),
        Json::Array(elements) => elements.iter().any(|e| matches!(e, Json::Text(text) if text == key)),
        Json::Text(text) => text == key,
        _ => false,
    }
}

/// `whole @> part`. An array contains a scalar as if that were an array of it.
fn contains(whole: &Json, part: &Json) -> bool {
    match (whole, part) {
        (Json::Object(_), Json::Object(_)) | (Json::Array(_), Json::Array(_)) => contains_inside(whole, part),
        (Json::Array(elements), part) if !matches!(part, Json::Object(_)) => {
            elements.iter().any(|element| same(element, part))
        }
        (Json::Object(_) | Json::Array(_), _) | (_, Json::Object(_) | Json::Array(_)) => false,
        (a, b) => same(a, b),
    }
}

fn contains_inside(whole: &Json, part: &Json) -> bool {
    match (whole, part) {
        (Json::Object(_), Json::Object(members)) => members
            .iter()
            .all(|(key, value)| whole.member(key).is_some_and(|found| contains_inside(found, value))),
        (Json::Array(elements), Json::Array(parts)) => {
            parts.iter().all(|part| elements.iter().any(|element| contains_inside(element, part)))
        }
        (Json::Object(_) | Json::Array(_), _) | (_, Json::Object(_) | Json::Array(_)) => false,
        (a, b) => same(a, b),
    }
}

fn same(a: &Json, b: &Json) -> bool {
    a == b || a.sort_key() == b.sort_key()
}

fn concat(a: Json, b: Json) -> Json {
    let many = |json: Json| match json {
        Json::Array(elements) => elements,
        other => vec![other],
    };
    match (a, b) {
        (Json::Object(mut members), Json::Object(more)) => {
            members.extend(more);
            Json::object(members)
        }
        (a, b) => {
            let mut elements = many(a);
            elements.extend(many(b));
            Json::Array(elements)
        }
    }
}

fn delete_element(target: Json, at: i64) -> SqlResult<Json> {
    match target {
        Json::Array(mut elements) => {
            if let Some(at) = place(at, elements.len()) {
                elements.remove(at);
            }
            Ok(Json::Array(elements))
        }
        Json::Object(_) => Err(invalid("cannot delete from object using integer index")),
        _ => Err(invalid("cannot delete from scalar")),
    }
}

fn delete_keys(target: Json, keys: &[Option<String>]) -> SqlResult<Json> {
    let is_gone = |key: &str| keys.iter().flatten().any(|k| k == key);
    match target {
        Json::Object(mut members) => {
            members.retain(|(key, _)| !is_gone(key));
            Ok(Json::Object(members))
        }
        Json::Array(mut elements) => {
            elements.retain(|element| !matches!(element, Json::Text(text) if is_gone(text)));
            Ok(Json::Array(elements))
        }
        _ => Err(invalid("cannot delete from scalar")),
    }
}

fn without_nulls(json: &Json) -> Json {
    match json {
        Json::Object(members) => {
            let kept = members.iter().filter(|(_, value)| *value != Json::Null);
            Json::Object(kept.map(|(key, value)| (key.clone(), without_nulls(value))).collect())
        }
        Json::Array(elements) => Json::Array(elements.iter().map(without_nulls).collect()),
        scalar => scalar.clone(),
    }
}
