//! Where the objects of a value lie in PostgreSQL's binary form of it: `keyvalue()` numbers them by that.

use crate::json::{Json, number};
use std::collections::BTreeMap;

/// Bytes of a container's head, and of the entry that each key and value has in it.
const HEAD_BYTES: usize = 4;

/// Places of arrays and objects, by their addresses.
pub(super) struct Layout(BTreeMap<usize, i64>);

impl Layout {
    pub fn of(json: &Json) -> Layout {
        let mut layout = Layout(BTreeMap::new());
        layout.add(json, 0);
        layout
    }

    /// Where an array or an object lies that is part of the value.
    pub fn place(&self, json: &Json) -> i64 {
        self.0.get(&address(json)).copied().unwrap_or_default()
    }

    /// Lays a value out from a place on; where it ends.
    fn add(&mut self, json: &Json, at: usize) -> usize {
        match json {
            Json::Null | Json::Bool(_) => at,
            Json::Text(text) => at + text.len(),
            Json::Number(digits) => at.next_multiple_of(4) + number_bytes(digits),
            Json::Array(elements) => {
                let start = self.container(json, at);
                let data = start + HEAD_BYTES * (1 + elements.len());
                elements.iter().fold(data, |at, element| self.add(element, at))
            }
            Json::Object(members) => {
                let start = self.container(json, at);
                let keys: usize = members.iter().map(|(key, _)| key.len()).sum();
                let data = start + HEAD_BYTES * (1 + 2 * members.len()) + keys;
                members.iter().fold(data, |at, (_, value)| self.add(value, at))
            }
        }
    }

    fn container(&mut self, json: &Json, at: usize) -> usize {
        let start = at.next_multiple_of(4);
        self.0.insert(address(json), start as i64);
        start
    }
}

fn address(json: &Json) -> usize {
    std::ptr::from_ref(json).addr()
}

/// What a numeric takes: its length, its head, two bytes for four digits.
fn number_bytes(digits: &str) -> usize {
    let (groups, first_place, scale) = number::groups(digits);
    let is_short = scale <= 63 && (-64..=63).contains(&first_place);
    4 + if is_short { 2 } else { 4 } + 2 * groups
}
