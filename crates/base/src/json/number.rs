//! Numbers of JSON: with numeric's digits, and in order.

use crate::error::{SqlError, SqlResult, SqlState};

/// Digits that numeric has before the point, and behind it.
const WHOLE_MAX: i64 = 131_072;
const SCALE_MAX: i64 = 16_383;

/// A number as numeric shows it, from one as JSON writes it. Errors: 22003.
pub(super) fn canonical(text: &str) -> SqlResult<String> {
    let overflow = || SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value overflows numeric format");
    let (is_negative, unsigned) = match text.strip_prefix('-') {
        Some(unsigned) => (true, unsigned),
        None => (false, text),
    };
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().map_err(|_| overflow())?),
        None => (unsigned, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    // Where the point stands among the digits.
    let point = whole.len() as i64 + i64::from(exponent);
    let scale = (fraction.len() as i64 - i64::from(exponent)).max(0);
    let is_zero = digits.bytes().all(|b| b == b'0');
    if scale > SCALE_MAX || (!is_zero && point > WHOLE_MAX) {
        return Err(overflow());
    }
    let mut out = String::with_capacity(digits.len() + 2);
    if is_negative && !is_zero {
        out.push('-');
    }
    let digit = |at: i64| {
        let at = usize::try_from(at).ok();
        at.and_then(|at| digits.as_bytes().get(at)).map_or('0', |b| char::from(*b))
    };
    let leading = digits.bytes().take_while(|b| *b == b'0').count() as i64;
    match is_zero || leading >= point {
        true => out.push('0'),
        false => (leading..point).for_each(|at| out.push(digit(at))),
    }
    if scale > 0 {
        out.push('.');
        (point..point + scale).for_each(|at| out.push(digit(at)));
    }
    Ok(out)
}

/// The order of two numbers that [`canonical`] made.
pub(super) fn compare(a: &str, b: &str) -> std::cmp::Ordering {
    if let (Ok(a), Ok(b)) = (a.parse::<i64>(), b.parse::<i64>()) {
        return a.cmp(&b);
    }
    let key = |digits: &str| {
        let mut key = Vec::new();
        append_key(&mut key, digits);
        key
    };
    key(a).cmp(&key(b))
}

/// How numeric keeps a number that [`canonical`] made: groups of four digits without the zeros at both ends, the place of
/// the first group, counted from the point, and the digits behind the point.
pub(super) fn groups(canonical: &str) -> (usize, i64, usize) {
    let unsigned = canonical.trim_start_matches('-');
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let padding = (4 - whole.len() % 4) % 4;
    let digits = format!("{:0>1$}{fraction}", whole, whole.len() + padding);
    let is_zero = |group: &&[u8]| group.iter().all(|digit| *digit == b'0');
    let groups: Vec<&[u8]> = digits.as_bytes().chunks(4).collect();
    let leading = groups.iter().take_while(|group| is_zero(group)).count();
    let trailing = groups[leading..].iter().rev().take_while(|group| is_zero(group)).count();
    let first_place = (whole.len() + padding) as i64 / 4 - 1 - leading as i64;
    (groups.len() - leading - trailing, first_place, fraction.len())
}

/// Bytes in the order of numbers that [`canonical`] made: their sign, how large they are, their digits.
pub(super) fn append_key(out: &mut Vec<u8>, canonical: &str) {
    let (is_negative, unsigned) = match canonical.strip_prefix('-') {
        Some(unsigned) => (true, unsigned),
        None => (false, canonical),
    };
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let all = format!("{whole}{fraction}");
    let digits = all.trim_start_matches('0');
    if digits.is_empty() {
        return out.push(1);
    }
    let magnitude = whole.len() as i32 - (all.len() - digits.len()) as i32;
    let start = out.len();
    out.extend((magnitude as u32 ^ 1 << 31).to_be_bytes());
    out.extend_from_slice(digits.trim_end_matches('0').as_bytes());
    out.push(0);
    if is_negative {
        out[start..].iter_mut().for_each(|b| *b = !*b);
    }
    out.insert(start, if is_negative { 0 } else { 2 });
}
