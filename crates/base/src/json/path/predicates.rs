//! Predicates of paths: true, false or unknown (`None`). Errors of the items that they look at make them unknown.

use super::items::{Item, Scope, Sink};
use super::run::{End, Outcome, Run};
use super::{Chain, Comparison, Pattern, Step};
use crate::json::{Json, number};
use std::borrow::Cow;
use std::cmp::Ordering;

type Truth = Option<bool>;

impl<'a> Run<'a> {
    /// Whether a condition, which is a predicate, holds at an item.
    pub(super) fn truth<'b>(
        &self,
        condition: &Chain,
        scope: Scope<'a, 'b>,
        item: Item<'a, 'b>,
    ) -> Outcome<Truth>
    where
        'a: 'b,
    {
        self.truth_of(&condition[0], scope, item)
    }

    pub(super) fn truth_of<'b>(
        &self,
        predicate: &Step,
        scope: Scope<'a, 'b>,
        item: Item<'a, 'b>,
    ) -> Outcome<Truth>
    where
        'a: 'b,
    {
        self.work(1)?;
        Ok(match predicate {
            Step::And(left, right) => match self.truth(left, scope, item)? {
                Some(false) => Some(false),
                left => match self.truth(right, scope, item)? {
                    Some(true) => left,
                    right => right,
                },
            },
            Step::Or(left, right) => match self.truth(left, scope, item)? {
                Some(true) => Some(true),
                left => match self.truth(right, scope, item)? {
                    Some(false) => left,
                    right => right,
                },
            },
            Step::Not(inner) => self.truth(inner, scope, item)?.map(|truth| !truth),
            Step::IsUnknown(inner) => Some(self.truth(inner, scope, item)?.is_none()),
            Step::Compare(comparison, left, right) => {
                self.pairs((left, right), true, scope, item, |a, b| compared(*comparison, a, b))?
            }
            Step::StartsWith(whole, prefix) => {
                self.pairs((whole, prefix), false, scope, item, |whole, prefix| match (whole, prefix) {
                    (Json::Text(whole), Json::Text(prefix)) => Some(whole.starts_with(prefix.as_str())),
                    _ => None,
                })?
            }
            Step::LikeRegex(of, pattern) => self.like(of, pattern, scope, item)?,
            Step::Exists(inner) => self.some_exist(inner, scope, item)?,
            _ => None,
        })
    }

    fn some_exist<'b>(&self, inner: &Chain, scope: Scope<'a, 'b>, item: Item<'a, 'b>) -> Outcome<Truth>
    where
        'a: 'b,
    {
        let exists = match self.is_lax {
            true => self.steps(inner, scope, item, true, &mut Sink::Probe),
            // All are looked at: an error may be behind the first one.
            false => self.found(inner, scope, item).map(|found| !found.is_empty()),
        };
        unless_quiet(exists)
    }

    /// What a chain finds, elements of arrays one by one unless the path is strict.
    pub(super) fn operands<'b>(
        &self,
        chain: &Chain,
        unwraps: bool,
        scope: Scope<'a, 'b>,
        item: Item<'a, 'b>,
    ) -> Outcome<Vec<Cow<'a, Json>>>
    where
        'a: 'b,
    {
        let found = self.found(chain, scope, item)?;
        if !unwraps || !self.is_lax || !found.iter().any(|one| matches!(**one, Json::Array(_))) {
            return Ok(found);
        }
        let mut sink = Sink::All(Vec::new());
        for one in &found {
            let one = Item::of(one);
            match one.is_array() {
                true => self.inside(&[], scope, one, false, &mut sink)?,
                false => self.next(&[], scope, one, &mut sink)?,
            };
        }
        let Sink::All(items) = sink else { unreachable!("it takes all") };
        Ok(items)
    }

    /// Whether something holds of any pair. A lax path ends at the first one of which it does.
    fn pairs<'b>(
        &self,
        (left, right): (&Chain, &Chain),
        unwraps_right: bool,
        scope: Scope<'a, 'b>,
        item: Item<'a, 'b>,
        holds: impl Fn(&Json, &Json) -> Truth,
    ) -> Outcome<Truth>
    where
        'a: 'b,
    {
        let left = unless_quiet(self.operands(left, true, scope, item))?;
        let Some(left) = left else { return Ok(None) };
        let right = unless_quiet(self.operands(right, unwraps_right, scope, item))?;
        let Some(right) = right else { return Ok(None) };
        let mut any = Any::new(self.is_lax);
        for (a, b) in left.iter().flat_map(|a| right.iter().map(move |b| (a, b))) {
            self.work(1 + text_work(a))?;
            if let Some(known) = any.add(holds(a, b)) {
                return Ok(known);
            }
        }
        Ok(any.truth())
    }

    fn like<'b>(
        &self,
        of: &Chain,
        pattern: &Pattern,
        scope: Scope<'a, 'b>,
        item: Item<'a, 'b>,
    ) -> Outcome<Truth>
    where
        'a: 'b,
    {
        let found = unless_quiet(self.operands(of, true, scope, item))?;
        let Some(found) = found else { return Ok(None) };
        let mut any = Any::new(self.is_lax);
        for one in &found {
            self.work(1 + text_work(one))?;
            let truth = match one.as_ref() {
                Json::Text(text) => Some(pattern.regex.is_match(text)),
                _ => None,
            };
            if let Some(known) = any.add(truth) {
                return Ok(known);
            }
        }
        Ok(any.truth())
    }
}

/// Nothing in the place of an error that makes a predicate unknown.
fn unless_quiet<T>(outcome: Outcome<T>) -> Outcome<Option<T>> {
    match outcome {
        Err(End::Quiet(_)) => Ok(None),
        Err(loud) => Err(loud),
        Ok(value) => Ok(Some(value)),
    }
}

/// Whether something holds of any of several.
struct Any {
    is_lax: bool,
    is_true: bool,
    is_unknown: bool,
}

impl Any {
    fn new(is_lax: bool) -> Any {
        Any { is_lax, is_true: false, is_unknown: false }
    }

    /// Adds one; the answer, if the others do not count any more.
    fn add(&mut self, truth: Truth) -> Option<Truth> {
        match truth {
            Some(true) if self.is_lax => return Some(truth),
            None if !self.is_lax => return Some(truth),
            Some(true) => self.is_true = true,
            Some(false) => {}
            None => self.is_unknown = true,
        }
        None
    }

    fn truth(&self) -> Truth {
        match (self.is_true, self.is_unknown) {
            (true, _) => Some(true),
            (false, true) => None,
            (false, false) => Some(false),
        }
    }
}

/// Units of work of looking at a text.
fn text_work(json: &Json) -> usize {
    match json {
        Json::Text(text) | Json::Number(text) => text.len() / 64,
        _ => 0,
    }
}

fn compared(comparison: Comparison, a: &Json, b: &Json) -> Truth {
    let ordering = match (a, b) {
        (Json::Null, Json::Null) => Ordering::Equal,
        // Null differs from all else, and has no place among it.
        (Json::Null, _) | (_, Json::Null) => return Some(comparison == Comparison::NotEqual),
        (Json::Bool(a), Json::Bool(b)) => a.cmp(b),
        (Json::Number(a), Json::Number(b)) => number::compare(a, b),
        (Json::Text(a), Json::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
        _ => return None,
    };
    Some(match comparison {
        Comparison::Equal => ordering.is_eq(),
        Comparison::NotEqual => ordering.is_ne(),
        Comparison::Less => ordering.is_lt(),
        Comparison::LessOrEqual => ordering.is_le(),
        Comparison::Greater => ordering.is_gt(),
        Comparison::GreaterOrEqual => ordering.is_ge(),
    })
}
