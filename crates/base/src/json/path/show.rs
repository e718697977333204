//! Paths as PostgreSQL shows them.

use super::{Arithmetic, Chain, Comparison, Method, Path, Step};
use crate::json::{Json, quote};
use std::fmt::{Display, Formatter, Result, Write};

impl Display for Path {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(if self.is_lax { "" } else { "strict " })?;
        chain(f, &self.chain, true)
    }
}

impl Arithmetic {
    pub(super) fn symbol(self) -> char {
        match self {
            Arithmetic::Add => '+',
            Arithmetic::Subtract => '-',
            Arithmetic::Multiply => '*',
            Arithmetic::Divide => '/',
            Arithmetic::Modulo => '%',
        }
    }
}

impl Comparison {
    fn symbol(self) -> &'static str {
        match self {
            Comparison::Equal => "==",
            Comparison::NotEqual => "!=",
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
        }
    }
}

impl Method {
    pub(super) fn name(self) -> &'static str {
        match self {
            Method::Abs => "abs",
            Method::Ceiling => "ceiling",
            Method::Double => "double",
            Method::Floor => "floor",
            Method::KeyValue => "keyvalue",
            Method::Size => "size",
            Method::Type => "type",
        }
    }
}

/// How tightly an operator binds. What binds no more tightly than the operator around it stands in parentheses.
fn priority(step: &Step) -> u8 {
    match step {
        Step::Or(..) => 0,
        Step::And(..) => 1,
        Step::Compare(..) | Step::StartsWith(..) => 2,
        Step::Arithmetic(Arithmetic::Add | Arithmetic::Subtract, ..) => 3,
        Step::Arithmetic(..) => 4,
        Step::Sign(..) => 5,
        _ => 6,
    }
}

fn chain(f: &mut Formatter<'_>, steps: &Chain, has_parentheses: bool) -> Result {
    let (first, rest) = steps.split_first().expect("a chain has a step");
    match first {
        Step::Literal(Json::Number(digits)) if !rest.is_empty() => write!(f, "({digits})")?,
        first => beginning(f, first, has_parentheses)?,
    }
    rest.iter().try_for_each(|step| following(f, step))
}

fn operand(f: &mut Formatter<'_>, operand: &Chain, around: &Step) -> Result {
    chain(f, operand, priority(&operand[0]) <= priority(around))
}

fn beginning(f: &mut Formatter<'_>, step: &Step, has_parentheses: bool) -> Result {
    let is_operator = priority(step) < 6 || matches!(step, Step::LikeRegex(..));
    let (open, close) = if is_operator && has_parentheses { ("(", ")") } else { ("", "") };
    f.write_str(open)?;
    match step {
        Step::Root => f.write_char('$')?,
        Step::Current => f.write_char('@')?,
        Step::Last => f.write_str("last")?,
        Step::Literal(json) => write!(f, "{json}")?,
        Step::Variable(name) => {
            f.write_char('$')?;
            quote(f, name)?;
        }
        Step::Arithmetic(operator, a, b) => infix(f, step, a, &operator.symbol().to_string(), b)?,
        Step::And(a, b) => infix(f, step, a, "&&", b)?,
        Step::Or(a, b) => infix(f, step, a, "||", b)?,
        Step::Compare(comparison, a, b) => infix(f, step, a, comparison.symbol(), b)?,
        Step::StartsWith(a, b) => infix(f, step, a, "starts with", b)?,
        Step::Sign(sign, inner) => {
            f.write_char(*sign)?;
            operand(f, inner, step)?;
        }
        Step::LikeRegex(of, pattern) => {
            operand(f, of, step)?;
            f.write_str(" like_regex ")?;
            quote(f, &pattern.text)?;
            if !pattern.flags.is_empty() {
                write!(f, " flag \"{}\"", pattern.flags)?;
            }
        }
        Step::Not(inner) => enclosed(f, "!(", inner, ")")?,
        Step::IsUnknown(inner) => enclosed(f, "(", inner, ") is unknown")?,
        Step::Exists(inner) => enclosed(f, "exists (", inner, ")")?,
        following_step => following(f, following_step)?,
    }
    f.write_str(close)
}

fn infix(f: &mut Formatter<'_>, step: &Step, left: &Chain, symbol: &str, right: &Chain) -> Result {
    operand(f, left, step)?;
    write!(f, " {symbol} ")?;
    operand(f, right, step)
}

fn enclosed(f: &mut Formatter<'_>, open: &str, inner: &Chain, close: &str) -> Result {
    f.write_str(open)?;
    chain(f, inner, false)?;
    f.write_str(close)
}

fn following(f: &mut Formatter<'_>, step: &Step) -> Result {
    match step {
        Step::Key(key) => {
            f.write_char('.')?;
            quote(f, key)
        }
        Step::AnyKey => f.write_str(".*"),
        Step::AnyElement => f.write_str("[*]"),
        Step::Elements(elements) => {
            f.write_char('[')?;
            for (n, (from, to)) in elements.iter().enumerate() {
                enclosed(f, if n > 0 { "," } else { "" }, from, "")?;
                if let Some(to) = to {
                    enclosed(f, " to ", to, "")?;
                }
            }
            f.write_char(']')
        }
        Step::Descendants(first, last) => descendants(f, *first, *last),
        Step::Filter(condition) => enclosed(f, "?(", condition, ")"),
        Step::Method(method) => write!(f, ".{}()", method.name()),
        Step::Datetime(None) => f.write_str(".datetime()"),
        Step::Datetime(Some(template)) => {
            f.write_str(".datetime(")?;
            quote(f, template)?;
            f.write_char(')')
        }
        // None of the others follows a step.
        _ => Ok(()),
    }
}

fn descendants(f: &mut Formatter<'_>, first: u32, last: u32) -> Result {
    let level = |level: u32| match level {
        u32::MAX => "last".to_string(),
        level => level.to_string(),
    };
    match (first, last) {
        (0, u32::MAX) => f.write_str(".**"),
        (first, last) if first == last => write!(f, ".**{{{}}}", level(first)),
        (first, last) => write!(f, ".**{{{} to {}}}", level(first), level(last)),
    }
}
