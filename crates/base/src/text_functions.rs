//! Functions of texts that writes evaluate where they are ordered, with PostgreSQL's meaning.
//!
//! KEEPS: a value that they make has at most [`BYTES_MAX`] bytes, which is known before it is made. Every
//! replica computes the same.

use crate::error::{SqlResult, SqlState};
use crate::{Datum, SqlError};
use serde::{Deserialize, Serialize};

/// Longest value, in bytes: no row takes a longer one.
pub const BYTES_MAX: usize = 16 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TextFunction {
    Repeat,
    Replace,
    Left,
    Right,
    Reverse,
    Md5,
    /// `lpad(text, length [, fill])`.
    PadLeft,
    PadRight,
    /// `ltrim(text [, characters])`.
    TrimLeft,
    TrimRight,
    TrimBoth,
    /// `strpos(text, part)`: from 1, or 0.
    Position,
    SplitPart,
    InitCap,
    Translate,
    Ascii,
    Chr,
    StartsWith,
}

/// A function's value; none of the arguments is null.
pub(crate) fn call(function: TextFunction, arguments: &[Datum]) -> SqlResult<Datum> {
    use TextFunction as F;
    Ok(match (function, arguments) {
        (F::Repeat, [Datum::Text(text), Datum::Int(count)]) => Datum::text(repeat(text, *count)?),
        (F::Replace, [Datum::Text(text), Datum::Text(from), Datum::Text(to)]) => {
            Datum::text(replace(text, from, to)?)
        }
        (F::Left, [Datum::Text(text), Datum::Int(count)]) => {
            Datum::text(&text[..byte_of(text, head(text, *count))])
        }
        (F::Right, [Datum::Text(text), Datum::Int(count)]) => {
            let (length, kept) = (text.chars().count(), head(text, *count));
            Datum::text(&text[byte_of(text, length - kept)..])
        }
        (F::Reverse, [Datum::Text(text)]) => Datum::text(text.chars().rev().collect::<String>()),
        (F::Md5, [Datum::Text(text)]) => Datum::text(format!("{:x}", md5::compute(text.as_bytes()))),
        (F::Md5, [Datum::Bytes(bytes)]) => Datum::text(format!("{:x}", md5::compute(bytes))),
        (F::PadLeft | F::PadRight, [Datum::Text(text), Datum::Int(length), fill @ ..]) => {
            let fill = match fill {
                [Datum::Text(fill)] => fill,
                _ => " ",
            };
            Datum::text(padded(text, *length, fill, function == F::PadLeft)?)
        }
        (F::TrimLeft | F::TrimRight | F::TrimBoth, [Datum::Text(text), characters @ ..]) => {
            let set = match characters {
                [Datum::Text(set)] => set,
                _ => " ",
            };
            let gone = |c: char| set.contains(c);
            Datum::text(match function {
                F::TrimLeft => text.trim_start_matches(gone),
                F::TrimRight => text.trim_end_matches(gone),
                _ => text.trim_matches(gone),
            })
        }
        (F::Position, [Datum::Text(text), Datum::Text(part)]) => {
            let found = text.find(part.as_ref() as &str);
            Datum::Int(found.map_or(0, |at| text[..at].chars().count() as i64 + 1))
        }
        (F::SplitPart, [Datum::Text(text), Datum::Text(by), Datum::Int(n)]) => {
            Datum::text(split_part(text, by, *n)?)
        }
        (F::InitCap, [Datum::Text(text)]) => Datum::text(initcap(text)),
        (F::Translate, [Datum::Text(text), Datum::Text(from), Datum::Text(to)]) => {
            Datum::text(translate(text, from, to))
        }
        (F::Ascii, [Datum::Text(text)]) => {
            Datum::Int(text.chars().next().map_or(0, |c| i64::from(u32::from(c))))
        }
        (F::Chr, [Datum::Int(code)]) => Datum::text(character(*code)?.to_string()),
        (F::StartsWith, [Datum::Text(text), Datum::Text(start)]) => {
            Datum::Bool(text.starts_with(start.as_ref() as &str))
        }
        (function, arguments) => {
            return Err(SqlError::new(
                SqlState::UNDEFINED_FUNCTION,
                format!("{function:?} takes other arguments than {} of these types", arguments.len()),
            ));
        }
    })
}

fn too_long() -> SqlError {
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "requested length too large")
        .detail(format!("A value of a row has at most {BYTES_MAX} bytes."))
}

/// How many characters `left(text, count)` has: a negative count leaves so many out.
fn head(text: &str, count: i64) -> usize {
    let length = text.chars().count();
    let magnitude = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    if count < 0 { length.saturating_sub(magnitude) } else { length.min(magnitude) }
}

/// Where the n-th character begins.
fn byte_of(text: &str, n: usize) -> usize {
    text.char_indices().nth(n).map_or(text.len(), |(at, _)| at)
}

fn repeat(text: &str, count: i64) -> SqlResult<String> {
    let count = usize::try_from(count.max(0)).unwrap_or(usize::MAX);
    match text.len().checked_mul(count) {
        Some(bytes) if bytes <= BYTES_MAX => Ok(text.repeat(count)),
        _ => Err(too_long()),
    }
}

fn replace(text: &str, from: &str, to: &str) -> SqlResult<String> {
    if from.is_empty() {
        return Ok(text.into());
    }
    let count = text.matches(from).count();
    let bytes = (to.len().checked_mul(count)).map(|added| text.len() - from.len() * count + added);
    match bytes {
        Some(bytes) if bytes <= BYTES_MAX => Ok(text.replace(from, to)),
        _ => Err(too_long()),
    }
}

/// A text of so many characters, cut or filled on one side.
fn padded(text: &str, length: i64, fill: &str, is_left: bool) -> SqlResult<String> {
    let wanted = usize::try_from(length.max(0)).unwrap_or(usize::MAX);
    let has = text.chars().count();
    if wanted <= has || fill.is_empty() {
        return Ok(text[..byte_of(text, wanted)].into());
    }
    let missing = wanted - has;
    // As many bytes as characters, at least.
    if missing > BYTES_MAX {
        return Err(too_long());
    }
    let filling: String = fill.chars().cycle().take(missing).collect();
    if filling.len() + text.len() > BYTES_MAX {
        return Err(too_long());
    }
    Ok(if is_left { filling + text } else { text.to_string() + &filling })
}

fn split_part(text: &str, by: &str, n: i64) -> SqlResult<String> {
    if n == 0 {
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "field position must not be zero"));
    }
    let at = usize::try_from(n.unsigned_abs() - 1).unwrap_or(usize::MAX);
    let part = match (by.is_empty(), n > 0) {
        (true, _) => (at == 0).then_some(text),
        (false, true) => text.split(by).nth(at),
        (false, false) => text.rsplit(by).nth(at),
    };
    Ok(part.unwrap_or_default().into())
}

fn initcap(text: &str) -> String {
    let mut made = String::with_capacity(text.len());
    let mut in_word = false;
    for c in text.chars() {
        match in_word {
            true => made.extend(c.to_lowercase()),
            false => made.extend(c.to_uppercase()),
        }
        in_word = c.is_alphanumeric();
    }
    made
}

fn translate(text: &str, from: &str, to: &str) -> String {
    let to: Vec<char> = to.chars().collect();
    let changed = |c: char| match from.chars().position(|f| f == c) {
        Some(at) => to.get(at).copied(),
        None => Some(c),
    };
    text.chars().filter_map(changed).collect()
}

fn character(code: i64) -> SqlResult<char> {
    let refused = |message: String| Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
    match code {
        0 => refused("null character not permitted".into()),
        code if code < 0 => refused("character number must be positive".into()),
        code => match u32::try_from(code).ok().and_then(char::from_u32) {
            Some(c) => Ok(c),
            None => refused(format!("requested character not valid for encoding: {code}")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use TextFunction as F;

    fn text(function: F, arguments: &[Datum]) -> String {
        match call(function, arguments).unwrap() {
            Datum::Text(text) => text.to_string(),
            other => panic!("{function:?}: {other:?}"),
        }
    }

    #[test]
    fn texts_are_cut_filled_and_changed_by_character() {
        let t = |text: &str| Datum::text(text);
        let n = Datum::Int;
        for (function, arguments, wanted) in [
            (F::Repeat, vec![t("äb"), n(2)], "äbäb"),
            (F::Repeat, vec![t("ab"), n(-1)], ""),
            (F::Replace, vec![t("abab"), t("b"), t("äx")], "aäxaäx"),
            (F::Replace, vec![t("abab"), t(""), t("x")], "abab"),
            (F::Left, vec![t("äbc"), n(2)], "äb"),
            (F::Left, vec![t("äbc"), n(-1)], "äb"),
            (F::Left, vec![t("äbc"), n(i64::MIN)], ""),
            (F::Right, vec![t("abä"), n(2)], "bä"),
            (F::Right, vec![t("abä"), n(-1)], "bä"),
            (F::Right, vec![t("abä"), n(9)], "abä"),
            (F::Reverse, vec![t("aä")], "äa"),
            (F::Md5, vec![t("x")], "9dd4e461268c8034f5c8564e155c67a6"),
            (F::PadLeft, vec![t("x"), n(4), t("äb")], "äbäx"),
            (F::PadRight, vec![t("xyz"), n(2)], "xy"),
            (F::PadRight, vec![t("x"), n(3)], "x  "),
            (F::PadLeft, vec![t("x"), n(3), t("")], "x"),
            (F::TrimLeft, vec![t("xyxa"), t("yx")], "a"),
            (F::TrimRight, vec![t("a  ")], "a"),
            (F::SplitPart, vec![t("a,b,c"), t(","), n(2)], "b"),
            (F::SplitPart, vec![t("a,b,c"), t(","), n(-1)], "c"),
            (F::SplitPart, vec![t("a,b,c"), t(","), n(4)], ""),
            (F::SplitPart, vec![t("abc"), t(""), n(1)], "abc"),
            (F::InitCap, vec![t("hELLO wORLD-x")], "Hello World-X"),
            (F::Translate, vec![t("abcä"), t("abä"), t("xy")], "xyc"),
            (F::Chr, vec![n(228)], "ä"),
        ] {
            assert_eq!(text(function, &arguments), wanted, "{function:?} {arguments:?}");
        }
        assert_eq!(call(F::Position, &[t("äbc"), t("c")]).unwrap(), n(3));
        assert_eq!(call(F::Position, &[t("abc"), t("z")]).unwrap(), n(0));
        assert_eq!(call(F::Ascii, &[t("ä")]).unwrap(), n(228));
    }

    #[test]
    fn a_value_is_refused_before_it_is_too_long() {
        let t = |text: &str| Datum::text(text);
        for (function, arguments) in [
            (F::Repeat, vec![t("x"), Datum::Int(i64::MAX)]),
            (F::Repeat, vec![t("xy"), Datum::Int(BYTES_MAX as i64 / 2 + 1)]),
            (F::PadLeft, vec![t("x"), Datum::Int(i64::MAX)]),
            (F::PadRight, vec![t("x"), Datum::Int(BYTES_MAX as i64), t("ä")]),
            (F::Replace, vec![t(&"x".repeat(1 << 13)), t("x"), t(&"y".repeat(1 << 12))]),
            (F::Chr, vec![Datum::Int(0)]),
            (F::Chr, vec![Datum::Int(0xD800)]),
        ] {
            let error = call(function, &arguments).unwrap_err();
            assert_eq!(error.state, SqlState::PROGRAM_LIMIT_EXCEEDED, "{function:?}");
        }
    }
}
