//! Changes at a path inside a `jsonb` value: `#-`, `jsonb_set`, `jsonb_insert`.

use super::{Json, invalid};
use crate::error::{SqlError, SqlResult, SqlState};

/// What happens at the end of a path.
pub(super) enum Change {
    Delete,
    Set { new: Json, creates: bool },
    Insert { new: Json, is_after: bool },
}

impl Change {
    /// What is put where nothing is.
    fn created(&self) -> Option<&Json> {
        match self {
            Change::Delete | Change::Set { creates: false, .. } => None,
            Change::Set { new, .. } | Change::Insert { new, .. } => Some(new),
        }
    }
}

/// The value with a change at a path. Errors: 22023, 22004, 22P02.
pub(super) fn at(target: Json, path: &[Option<String>], change: Change) -> SqlResult<Json> {
    let is_scalar = !matches!(target, Json::Array(_) | Json::Object(_));
    if is_scalar {
        let verb = if matches!(change, Change::Delete) { "delete" } else { "set" };
        return Err(invalid(format!("cannot {verb} path in scalar")));
    }
    let is_empty = match &target {
        Json::Object(members) => members.is_empty(),
        Json::Array(elements) => elements.is_empty(),
        _ => false,
    };
    // Where nothing is and nothing is made, the path is not looked at.
    if path.is_empty() || is_empty && change.created().is_none() {
        return Ok(target);
    }
    changed(target, path, 0, &change)
}

fn changed(json: Json, path: &[Option<String>], level: usize, change: &Change) -> SqlResult<Json> {
    if !matches!(json, Json::Array(_) | Json::Object(_)) {
        return Ok(json);
    }
    let position = level + 1;
    let Some(step) = &path[level] else {
        return Err(SqlError::new(
            SqlState(*b"22004"),
            format!("path element at position {position} is null"),
        ));
    };
    let is_last = position == path.len();
    Ok(match json {
        Json::Object(members) => Json::Object(object(members, path, level, step, is_last, change)?),
        Json::Array(elements) => {
            let at = step.trim().parse::<i32>().map_err(|_| {
                SqlError::new(
                    SqlState::INVALID_TEXT_REPRESENTATION,
                    format!("path element at position {position} is not an integer: \"{step}\""),
                )
            })?;
            Json::Array(array(elements, path, level, at.into(), is_last, change)?)
        }
        scalar => scalar,
    })
}

fn object(
    mut members: Vec<(String, Json)>,
    path: &[Option<String>],
    level: usize,
    step: &str,
    is_last: bool,
    change: &Change,
) -> SqlResult<Vec<(String, Json)>> {
    let found = members.iter().position(|(key, _)| key == step);
    match (found, is_last) {
        (None, true) => {
            if let Some(new) = change.created() {
                members.push((step.to_string(), new.clone()));
                let Json::Object(sorted) = Json::object(members) else { unreachable!("an object") };
                return Ok(sorted);
            }
        }
        (None, false) => {}
        (Some(at), true) => match change {
            Change::Delete => {
                members.remove(at);
            }
            Change::Set { new, .. } => members[at].1 = new.clone(),
            Change::Insert { .. } => {
                return Err(invalid("cannot replace existing key")
                    .hint("Try using the function jsonb_set to replace key value."));
            }
        },
        (Some(at), false) => {
            let inside = std::mem::replace(&mut members[at].1, Json::Null);
            members[at].1 = changed(inside, path, level + 1, change)?;
        }
    }
    Ok(members)
}

fn array(
    mut elements: Vec<Json>,
    path: &[Option<String>],
    level: usize,
    at: i64,
    is_last: bool,
    change: &Change,
) -> SqlResult<Vec<Json>> {
    let count = elements.len() as i64;
    let at = if at < 0 { at + count } else { at };
    let found = usize::try_from(at).ok().filter(|at| *at < elements.len());
    match (found, is_last) {
        (None, true) => {
            if let Some(new) = change.created() {
                // Before the first one, or behind the last one.
                elements.insert(if at < 0 { 0 } else { elements.len() }, new.clone());
            }
        }
        (None, false) => {}
        (Some(at), true) => match change {
            Change::Delete => {
                elements.remove(at);
            }
            Change::Set { new, .. } => elements[at] = new.clone(),
            Change::Insert { new, is_after } => elements.insert(at + usize::from(*is_after), new.clone()),
        },
        (Some(at), false) => {
            let inside = std::mem::replace(&mut elements[at], Json::Null);
            elements[at] = changed(inside, path, level + 1, change)?;
        }
    }
    Ok(elements)
}
