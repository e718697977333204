//! What a run of a path works on: items, where found ones go, and what steps know of the steps around them.

use crate::json::Json;
use std::borrow::Cow;

/// An item: a part of the values that the run was given, or one that it made on its way.
#[derive(Clone, Copy)]
pub(super) enum Item<'a, 'b> {
    Given(&'a Json),
    Made(&'b Json),
}

impl<'a, 'b> Item<'a, 'b> {
    pub fn json(self) -> &'b Json
    where
        'a: 'b,
    {
        match self {
            Item::Given(json) => json,
            Item::Made(json) => json,
        }
    }

    pub fn of(found: &'b Cow<'a, Json>) -> Item<'a, 'b> {
        match found {
            Cow::Borrowed(json) => Item::Given(json),
            Cow::Owned(json) => Item::Made(json),
        }
    }

    /// What lies right inside it.
    pub fn inside(self) -> Inside<'a, 'b> {
        match self {
            Item::Given(json) => Inside::Given(values(json)),
            Item::Made(json) => Inside::Made(values(json)),
        }
    }

    pub fn member(self, key: &str) -> Option<Item<'a, 'b>> {
        Some(match self {
            Item::Given(json) => Item::Given(json.member(key)?),
            Item::Made(json) => Item::Made(json.member(key)?),
        })
    }

    pub fn element(self, at: i64) -> Option<Item<'a, 'b>> {
        Some(match self {
            Item::Given(json) => Item::Given(json.element(at)?),
            Item::Made(json) => Item::Made(json.element(at)?),
        })
    }

    pub fn is_array(self) -> bool
    where
        'a: 'b,
    {
        matches!(self.json(), Json::Array(_))
    }
}

/// The values of an array or an object, in their order.
pub(super) enum Values<'v> {
    Elements(std::slice::Iter<'v, Json>),
    Members(std::slice::Iter<'v, (String, Json)>),
}

fn values(json: &Json) -> Values<'_> {
    match json {
        Json::Array(elements) => Values::Elements(elements.iter()),
        Json::Object(members) => Values::Members(members.iter()),
        _ => Values::Elements([].iter()),
    }
}

impl<'v> Iterator for Values<'v> {
    type Item = &'v Json;
    fn next(&mut self) -> Option<&'v Json> {
        match self {
            Values::Elements(elements) => elements.next(),
            Values::Members(members) => members.next().map(|(_, value)| value),
        }
    }
}

pub(super) enum Inside<'a, 'b> {
    Given(Values<'a>),
    Made(Values<'b>),
}

impl<'a, 'b> Iterator for Inside<'a, 'b> {
    type Item = Item<'a, 'b>;
    fn next(&mut self) -> Option<Item<'a, 'b>> {
        match self {
            Inside::Given(values) => values.next().map(Item::Given),
            Inside::Made(values) => values.next().map(Item::Made),
        }
    }
}

/// Where found items go.
pub(super) enum Sink<'a> {
    /// One is enough, and none is kept.
    Probe,
    All(Vec<Cow<'a, Json>>),
}

/// What steps know of the steps around them.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a, 'b> {
    /// `@`
    pub current: Item<'a, 'b>,
    /// The value that `keyvalue()` numbers objects in, and the number of that value.
    pub base: (Item<'a, 'b>, i64),
    /// What is missing is nothing, rather than an error.
    pub ignores_structure: bool,
    /// Elements of the innermost array that is subscripted.
    pub size: Option<i64>,
}
