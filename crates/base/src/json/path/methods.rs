//! Methods and arithmetic of paths.

use super::items::{Item, Scope, Sink};
use super::layout::Layout;
use super::run::{End, Outcome, Run, quiet};
use super::{Arithmetic, Chain, Method, Step};
use crate::decimal::Decimal;
use crate::error::{SqlError, SqlState};
use crate::json::{Json, number};
use std::borrow::Cow;

/// How the numbers of objects in different values are kept apart.
const IDS_OF_A_VALUE: i64 = 10_000_000_000;

impl Method {
    /// Whether an array is taken apart for it, in a lax path.
    pub(super) fn takes_elements(self) -> bool {
        !matches!(self, Method::Size | Method::Type)
    }
}

/// A number's digits.
pub(super) fn digits(json: &Json) -> Option<&str> {
    match json {
        Json::Number(digits) => Some(digits),
        _ => None,
    }
}

/// Units of work of a copy.
pub(super) fn weight(json: &Json) -> usize {
    match json {
        Json::Text(text) | Json::Number(text) => 1 + text.len() / 64,
        Json::Array(elements) => elements.iter().map(weight).sum::<usize>() + 1,
        Json::Object(members) => {
            members.iter().map(|(key, value)| key.len() / 64 + weight(value)).sum::<usize>() + 1
        }
        _ => 1,
    }
}

pub(super) fn negated(digits: &str) -> String {
    match digits.strip_prefix('-') {
        Some(digits) => digits.to_string(),
        None if digits.bytes().all(|b| matches!(b, b'0' | b'.')) => digits.to_string(),
        None => format!("-{digits}"),
    }
}

/// The next whole number, up or down.
fn whole(digits: &str, rounds_up: bool) -> String {
    let (is_negative, unsigned) = match digits.strip_prefix('-') {
        Some(unsigned) => (true, unsigned),
        None => (false, digits),
    };
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let is_whole = fraction.bytes().all(|b| b == b'0');
    let mut whole = whole.to_string();
    if !is_whole && rounds_up != is_negative {
        // One more: nines at the end become zeros.
        let kept = whole.trim_end_matches('9').len();
        let zeros = "0".repeat(whole.len() - kept);
        let (head, last) = whole.split_at(kept.saturating_sub(1));
        let next = last.bytes().next().filter(|_| kept > 0).map_or(b'1', |digit| digit + 1);
        whole = format!("{}{}{zeros}", if kept > 0 { head } else { "" }, char::from(next));
    }
    if is_negative { negated(&whole) } else { whole }
}

/// A text's number, as double precision has it.
fn double(text: &str) -> Option<String> {
    let value = text.trim().parse::<f64>().ok().filter(|value| value.is_finite())?;
    // Fifteen digits, without the zeros behind the last one.
    let shown = format!("{value:.14e}");
    let (mantissa, exponent) = shown.split_once('e')?;
    let mantissa = mantissa.trim_end_matches('0').trim_end_matches('.');
    number::canonical(&format!("{mantissa}e{exponent}")).ok()
}

impl<'a> Run<'a> {
    pub(super) fn method<'b>(
        &self,
        method: Method,
        rest: &[Step],
        scope: Scope<'a, 'b>,
        item: Item<'a, 'b>,
        sink: &mut Sink<'a>,
    ) -> Outcome<bool>
    where
        'a: 'b,
    {
        let made = match (method, item.json()) {
            (Method::Type, json) => Json::Text(json.type_name().into()),
            (Method::Size, Json::Array(elements)) => Json::Number(elements.len().to_string()),
            (Method::Size, _) if self.is_lax => Json::Number("1".into()),
            (Method::Size, _) if scope.ignores_structure => return Ok(false),
            (Method::Size, _) => return Err(cannot(b"22039", method, "an array")),
            (Method::KeyValue, Json::Object(_)) => return self.keys_and_values(rest, scope, item, sink),
            (Method::KeyValue, _) => return Err(cannot(b"2203C", method, "an object")),
            (Method::Abs, Json::Number(digits)) => Json::Number(digits.trim_start_matches('-').into()),
            (Method::Floor, Json::Number(digits)) => Json::Number(whole(digits, false)),
            (Method::Ceiling, Json::Number(digits)) => Json::Number(whole(digits, true)),
            (Method::Double, Json::Number(digits)) if double(digits).is_some() => Json::Number(digits.clone()),
            (Method::Double, Json::Number(_)) => {
                let message = "numeric argument of jsonpath item method .double() is out of range for type double precision";
                return Err(quiet(b"22036", message));
            }
            (Method::Double, Json::Text(text)) => Json::Number(double(text).ok_or_else(|| {
                let message = "string argument of jsonpath item method .double() is not a valid representation of a double precision number";
                quiet(b"22036", message)
            })?),
            (Method::Double, _) => return Err(cannot(b"22036", method, "a string or numeric value")),
            _ => return Err(cannot(b"22036", method, "a numeric value")),
        };
        self.next(rest, scope, Item::Made(&made), sink)
    }

    fn keys_and_values<'b>(
        &self,
        rest: &[Step],
        scope: Scope<'a, 'b>,
        item: Item<'a, 'b>,
        sink: &mut Sink<'a>,
    ) -> Outcome<bool>
    where
        'a: 'b,
    {
        let Json::Object(members) = item.json() else { return Ok(false) };
        let id = self.place(scope, item)? + scope.base.1 * IDS_OF_A_VALUE;
        for (key, value) in members {
            self.work(weight(value))?;
            let made = Json::object(vec![
                ("key".into(), Json::Text(key.clone())),
                ("value".into(), value.clone()),
                ("id".into(), Json::Number(id.to_string())),
            ]);
            let base = (Item::Made(&made), self.next_id.replace(self.next_id.get() + 1));
            if self.next(rest, Scope { base, ..scope }, base.0, sink)? && matches!(sink, Sink::Probe) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Where an object lies in the value that it is part of.
    fn place(&self, scope: Scope<'a, '_>, item: Item<'a, '_>) -> Outcome<i64> {
        let (base, number) = scope.base;
        let given = usize::try_from(number).ok().filter(|number| *number < 2);
        let mut layouts = self.layouts.borrow_mut();
        if let Some(known) = given.and_then(|number| layouts[number].as_ref()) {
            return Ok(known.place(item.json()));
        }
        self.work(weight(base.json()))?;
        let layout = Layout::of(base.json());
        let place = layout.place(item.json());
        // Only what was given stays where it is.
        if let Some(number) = given {
            layouts[number] = Some(layout);
        }
        Ok(place)
    }

    pub(super) fn computed<'b>(
        &self,
        operator: Arithmetic,
        left: &Chain,
        right: &Chain,
        scope: Scope<'a, 'b>,
        item: Item<'a, 'b>,
    ) -> Outcome<Json>
    where
        'a: 'b,
    {
        let left = self.operands(left, true, scope, item)?;
        let right = self.operands(right, true, scope, item)?;
        let one = |found: &[Cow<'a, Json>], side: &str| match found {
            [one] if let Json::Number(digits) = one.as_ref() => Decimal::parse(digits).ok_or_else(overflow),
            _ => {
                let symbol = operator.symbol();
                let message =
                    format!("{side} operand of jsonpath operator {symbol} is not a single numeric value");
                Err(quiet(b"22038", message))
            }
        };
        let left_number = one(&left, "left")?;
        arithmetic(operator, left_number, one(&right, "right")?)
    }

    pub(super) fn with_sign<'b>(
        &self,
        sign: char,
        inner: &Chain,
        rest: &[Step],
        scope: Scope<'a, 'b>,
        item: Item<'a, 'b>,
        sink: &mut Sink<'a>,
    ) -> Outcome<bool>
    where
        'a: 'b,
    {
        let skips = rest.is_empty() && matches!(sink, Sink::Probe);
        for one in self.operands(inner, true, scope, item)? {
            let Some(digits) = digits(&one) else {
                if skips {
                    continue;
                }
                let message = format!("operand of unary jsonpath operator {sign} is not a numeric value");
                return Err(quiet(b"2203B", message));
            };
            let made = Json::Number(if sign == '-' { negated(digits) } else { digits.into() });
            if self.next(rest, scope, Item::Made(&made), sink)? && matches!(sink, Sink::Probe) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn cannot(state: &[u8; 5], method: Method, what: &str) -> End {
    let name = method.name();
    quiet(state, format!("jsonpath item method .{name}() can only be applied to {what}"))
}

fn arithmetic(operator: Arithmetic, a: Decimal, b: Decimal) -> Outcome<Json> {
    if matches!(operator, Arithmetic::Divide | Arithmetic::Modulo) && b.units() == 0 {
        return Err(End::Quiet(SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero")));
    }
    let made = match operator {
        Arithmetic::Add => a.checked_add(b),
        Arithmetic::Subtract => a.checked_sub(b),
        Arithmetic::Multiply => a.checked_mul(b),
        Arithmetic::Divide => a.checked_div(b),
        Arithmetic::Modulo => a.checked_rem(b),
    };
    made.map(|made| Json::Number(made.to_string())).ok_or_else(overflow)
}

/// Numbers that are computed with have 38 digits.
fn overflow() -> End {
    End::Quiet(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value overflows numeric format"))
}
