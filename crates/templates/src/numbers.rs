//! Templates of numbers: `FM999,990.00`, `9.99EEEE`, `S99V9`, `RN`.
//!
//! Digit positions before the point take the number's whole digits from the right. Positions left of its first digit are
//! blank, or `0` from the template's first `0` on. A number with more whole digits than positions is shown as `#`.

mod parse;
mod read;

use crate::{Case, ordinal, roman};
use base::decimal::Decimal;
use base::error::SqlResult;
use base::{SqlError, SqlState};

/// Most digits that a template may have: those of the largest number, twice.
const DIGITS_MAX: usize = 2 * base::decimal::PRECISION_MAX as usize;

/// Width of Roman numerals: that of the longest.
const ROMAN_WIDTH: usize = 15;

/// A part of a template.
#[derive(Clone, PartialEq, Debug)]
enum Item {
    /// `9` or `0`.
    Digit {
        is_zero: bool,
    },
    /// `.` or `D`.
    Point,
    /// `,` or `G`.
    Group,
    /// `L`: the currency's sign, a blank in this locale.
    Currency,
    /// `MI`, `PL`, `SG`.
    Minus,
    Plus,
    Sign,
    Ordinal(Case),
    Roman(Case),
    Text(String),
}

/// Where `S` stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Anchor {
    /// Right before the first digit that is shown.
    Before,
    /// Right after the last.
    After,
}

/// A parsed template.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Template {
    items: Vec<Item>,
    /// Digit positions before the point, those behind `V` included, and after it.
    whole: usize,
    fraction: usize,
    is_shifted: bool,
    /// Positions behind `V` with a `9`: the number is multiplied by as many tens.
    shift: usize,
    /// The first `0` among the whole positions, and the last among all, counted from 0. Those of the shift do not count.
    first_zero: Option<usize>,
    last_zero: Option<usize>,
    has_point: bool,
    /// `FM`: no blanks, no zeros at the end.
    is_filled: bool,
    /// `PR`: negative numbers are shown in angle brackets.
    has_brackets: bool,
    has_exponent: bool,
    anchor: Option<Anchor>,
    /// Whole positions before `S`.
    anchored_at: usize,
}

/// A number to write.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    Exact(Decimal),
    /// A binary float, of which so many digits are known.
    Float {
        value: f64,
        digits: usize,
    },
}

/// The digits of a number, as a template shows them.
struct Digits {
    is_negative: bool,
    whole: String,
    fraction: String,
    /// More whole digits than positions: every digit is shown as `#`.
    overflows: bool,
}

impl Template {
    /// How many digits a number has after the point that is read by it.
    pub fn fraction_digits(&self) -> usize {
        self.fraction + self.shift
    }

    /// `to_char(number, template)`.
    ///
    /// Errors: 22003 for numbers that are too large for the exact ones here.
    pub fn write(&self, number: Number) -> SqlResult<String> {
        let roman_case = self.items.iter().find_map(|item| match item {
            Item::Roman(case) => Some(*case),
            _ => None,
        });
        if let Some(case) = roman_case {
            return Ok(self.write_roman(number, case));
        }
        if self.has_exponent {
            return self.write_exponent(number);
        }
        let digits = self.digits(number)?;
        Layout::new(self, &digits).write()
    }

    fn digits(&self, number: Number) -> SqlResult<Digits> {
        let (is_negative, text) = match number {
            Number::Exact(decimal) => {
                let shifted = (0..self.shift)
                    .try_fold(decimal, |d, _| d.checked_mul(Decimal::new(10, 0)))
                    .ok_or_else(out_of_range)?;
                let rounded =
                    shifted.round_at(self.fraction.min(DIGITS_MAX) as i64).ok_or_else(out_of_range)?;
                (rounded.units() < 0, rounded.abs().to_string())
            }
            Number::Float { value, .. } if !value.is_finite() => {
                let whole = if value.is_nan() { "NaN" } else { "Infinity" };
                return Ok(self.odd(value < 0.0, whole));
            }
            Number::Float { value, digits } => {
                let value = value * 10f64.powi(self.shift as i32);
                let whole_digits = format!("{:.0}", value.abs()).len();
                // Digits that a float does not have are not shown.
                let fraction = self.fraction.min(digits.saturating_sub(whole_digits));
                (value.is_sign_negative(), format!("{:.*}", fraction, value.abs()))
            }
        };
        let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
        let mut fraction: String = fraction.chars().take(self.fraction).collect();
        if matches!(number, Number::Exact(_)) {
            let missing = self.fraction - fraction.len();
            fraction.extend(std::iter::repeat_n('0', missing));
        }
        let overflows = whole.len() > self.whole;
        Ok(Digits { is_negative, whole: whole.to_string(), fraction, overflows })
    }

    /// What is no number has no digits to round.
    fn odd(&self, is_negative: bool, name: &str) -> Digits {
        let overflows = name.len() > self.whole;
        Digits { is_negative, whole: name.to_string(), fraction: String::new(), overflows }
    }

    fn write_roman(&self, number: Number, case: Case) -> String {
        // Halves of exact numbers go away from zero, those of floats to the even neighbour.
        let rounded = match number {
            Number::Exact(decimal) => decimal.as_f64().round(),
            Number::Float { value, .. } => value.round_ties_even(),
        };
        let text = match rounded {
            r if (1.0..4000.0).contains(&r) => roman(r as u32),
            _ => "#".repeat(ROMAN_WIDTH),
        };
        let text = if case == Case::Lower { text.to_lowercase() } else { text };
        if self.is_filled { text } else { format!("{text:>ROMAN_WIDTH$}") }
    }

    fn write_exponent(&self, number: Number) -> SqlResult<String> {
        let (is_negative, text) = match number {
            Number::Float { value, .. } if !value.is_finite() => {
                // One place for the sign, one for each digit and the point, four for the exponent.
                (false, "#".repeat(self.fraction + 6))
            }
            Number::Float { value, .. } => {
                (value < 0.0, scientific(&format!("{:.*e}", self.fraction, value.abs())))
            }
            Number::Exact(decimal) => (decimal.units() < 0, exact_scientific(decimal.abs(), self.fraction)),
        };
        Ok(format!("{}{text}", if is_negative { '-' } else { ' ' }))
    }
}

fn out_of_range() -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value is out of range for this template")
}

/// Rust's exponents have no sign and no leading zero.
fn scientific(text: &str) -> String {
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |rest| ('-', rest));
    format!("{mantissa}e{sign}{exponent:0>2}")
}

fn exact_scientific(decimal: Decimal, fraction: usize) -> String {
    let digits = decimal.units().unsigned_abs().to_string();
    let mut exponent = digits.len() as i64 - 1 - i64::from(decimal.scale());
    if decimal.units() == 0 {
        exponent = 0;
    }
    // Rounded half up to the digits wanted. What becomes ten stays ten: PostgreSQL shows 0.99 as `10e-01`.
    let wanted = fraction + 1;
    let mut before_point = 1;
    let mut kept: Vec<u8> = digits.bytes().chain(std::iter::repeat(b'0')).take(wanted.max(1)).collect();
    if digits.as_bytes().get(wanted).is_some_and(|next| *next >= b'5') {
        let nines = kept.iter().rev().take_while(|digit| **digit == b'9').count();
        let at = kept.len() - nines;
        kept[at..].fill(b'0');
        match at.checked_sub(1) {
            Some(last) => kept[last] += 1,
            None => {
                kept.insert(0, b'1');
                before_point = 2;
            }
        }
    }
    let kept: String = kept.into_iter().map(char::from).collect();
    let (first, rest) = kept.split_at(before_point);
    let point = if rest.is_empty() { "" } else { "." };
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{first}{point}{rest}e{sign}{:02}", exponent.unsigned_abs())
}

/// A number's digits over a template's positions.
struct Layout<'a> {
    template: &'a Template,
    is_negative: bool,
    /// The digits and the point.
    text: Vec<char>,
    /// The next of them.
    next: usize,
    out: String,
    /// Digits after the point. A float may have fewer than the template has positions.
    fraction: usize,
    /// Whole positions without a digit.
    blanks: usize,
    /// With `FM`, the last of the text that is no superfluous zero.
    last_relevant: Option<usize>,
    /// The whole part is a zero that nothing asks for: `.5`.
    hides_zero: bool,
    /// The sign stands, or none is to.
    is_signed: bool,
    /// The last position took a digit: a group's comma stands behind it.
    is_in_number: bool,
}

impl<'a> Layout<'a> {
    fn new(template: &'a Template, digits: &Digits) -> Layout<'a> {
        let has = |wanted: Item| template.items.contains(&wanted);
        let (minus, plus) = (has(Item::Minus) || has(Item::Sign), has(Item::Plus) || has(Item::Sign));
        let is_signed = match (minus, plus) {
            (true, _) => true,
            (false, true) => false,
            _ => !digits.is_negative && template.is_filled && template.anchor.is_none(),
        };
        let text: Vec<char> = match digits.overflows {
            true => {
                let hashes = |count| std::iter::repeat_n('#', count);
                hashes(template.whole).chain(['.']).chain(hashes(digits.fraction.len())).collect()
            }
            false if digits.fraction.is_empty() => digits.whole.chars().collect(),
            false => digits.whole.chars().chain(['.']).chain(digits.fraction.chars()).collect(),
        };
        let blanks = template.whole.saturating_sub(digits.whole.len());
        let point = text.iter().position(|c| *c == '.').filter(|_| template.is_filled && template.has_point);
        let last_relevant = point.map(|point| {
            let significant = text.iter().rposition(|c| *c != '0').unwrap_or(point).max(point);
            let forced = template.last_zero.and_then(|last| (last + 1).checked_sub(blanks)).unwrap_or(0);
            significant.max(forced.min(text.len() - 1))
        });
        let hides_zero = template.first_zero.is_none() && digits.whole == "0" && text.get(1) == Some(&'.');
        Layout {
            template,
            is_negative: digits.is_negative,
            text,
            next: 0,
            out: String::new(),
            fraction: digits.fraction.len(),
            blanks,
            last_relevant,
            hides_zero,
            is_signed,
            is_in_number: false,
        }
    }

    fn blank(&mut self) {
        if !self.template.is_filled {
            self.out.push(' ');
        }
    }

    fn write(mut self) -> SqlResult<String> {
        // Digit positions and the point, counted from 0.
        let mut position = 0;
        let positions = self.template.whole + self.fraction + usize::from(self.template.has_point);
        for item in &self.template.items {
            match item {
                Item::Digit { .. } | Item::Point => {
                    let is_zero = *item == Item::Digit { is_zero: true };
                    if !self.position(position, is_zero) {
                        return Ok(self.out);
                    }
                    position += 1;
                    if position == positions {
                        self.close();
                    }
                }
                Item::Group if self.is_in_number => self.out.push(','),
                Item::Group => self.blank(),
                Item::Currency => self.out.push(' '),
                Item::Minus if self.is_negative => self.out.push('-'),
                Item::Plus if !self.is_negative => self.out.push('+'),
                Item::Minus | Item::Plus => self.blank(),
                Item::Sign => self.out.push(if self.is_negative { '-' } else { '+' }),
                Item::Ordinal(case) => self.ordinal(*case)?,
                Item::Text(text) => self.out.push_str(text),
                Item::Roman(_) => {}
            }
        }
        Ok(self.out)
    }

    /// Errors: 22P02 for a number of which no digit is shown.
    fn ordinal(&mut self, case: Case) -> SqlResult<()> {
        let shown: String = self.text.iter().collect();
        match self.text.first() {
            _ if self.is_negative || self.template.has_point => Ok(()),
            Some('#') => Ok(()),
            Some('.') => Err(SqlError::new(
                SqlState::INVALID_TEXT_REPRESENTATION,
                format!("\"{shown}\" is not a number"),
            )),
            _ => {
                self.out.push_str(ordinal(&shown, case));
                Ok(())
            }
        }
    }

    /// A sign in front of what is shown first.
    fn open(&mut self) {
        if self.is_signed {
            return;
        }
        self.is_signed = true;
        match self.template.anchor {
            Some(Anchor::Before) => self.out.push(if self.is_negative { '-' } else { '+' }),
            Some(Anchor::After) => self.is_signed = false,
            None if self.template.has_brackets && self.is_negative => self.out.push('<'),
            None if self.is_negative => self.out.push('-'),
            None => self.blank(),
        }
    }

    /// What stands behind the last position.
    fn close(&mut self) {
        if self.template.anchor == Some(Anchor::After) {
            self.out.push(if self.is_negative { '-' } else { '+' });
        } else if self.template.has_brackets && self.is_signed {
            match self.is_negative {
                true => self.out.push('>'),
                false => self.blank(),
            }
        }
    }

    /// One position. `false` if the number has nothing to show there: PostgreSQL's text ends at that place, whatever the
    /// template has behind it.
    fn position(&mut self, position: usize, is_zero: bool) -> bool {
        self.is_in_number = false;
        if position < self.blanks {
            if self.template.first_zero.is_some_and(|first| first <= position) {
                self.open();
                self.out.push('0');
                self.is_in_number = true;
            } else {
                self.blank();
            }
            return true;
        }
        let at = self.next;
        self.next += 1;
        let ends_at_point = self.last_relevant.is_some_and(|last| self.text[last] == '.');
        if at == 0 && self.hides_zero {
            if ends_at_point {
                self.open();
                if self.template.is_filled {
                    self.out.push('0');
                }
            } else {
                self.blank();
            }
            return true;
        }
        self.open();
        let Some(c) = self.text.get(at).copied() else {
            return self.last_relevant.is_some() && !is_zero;
        };
        if c == '.' {
            self.out.push('.');
        } else if is_zero || self.last_relevant.is_none_or(|last| at <= last) {
            self.out.push(c);
            self.is_in_number = true;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(units: i128, scale: u8, template: &str) -> String {
        let template = Template::parse(template).expect("a template");
        template.write(Number::Exact(Decimal::new(units, scale))).expect("a text")
    }

    #[test]
    fn numbers_stand_at_their_positions() {
        for (units, scale, template, wanted) in [
            (-1, 1, "99.99", "  -.10"),
            (-1, 1, "FM9.99", "-.1"),
            (1, 1, "0.9", " 0.1"),
            (12, 0, "9990999.9", "    0012.0"),
            (12, 0, "FM9990999.9", "0012."),
            (485, 0, "999", " 485"),
            (-485, 0, "999", "-485"),
            (485, 0, "9 9 9", " 4 8 5"),
            (1485, 0, "9,999", " 1,485"),
            (1485, 0, "9G999", " 1,485"),
            (1485, 1, "999.999", " 148.500"),
            (1485, 1, "FM999.999", "148.5"),
            (1485, 1, "FM999.990", "148.500"),
            (31485, 1, "9G999D999", " 3,148.500"),
            (-485, 0, "999S", "485-"),
            (-485, 0, "999MI", "485-"),
            (485, 0, "999MI", "485 "),
            (485, 0, "FM999MI", "485"),
            (485, 0, "PL999", "+ 485"),
            (485, 0, "SG999", "+485"),
            (-485, 0, "9SG99", "4-85"),
            (-485, 0, "999PR", "<485>"),
            (485, 0, "L999", "  485"),
            (482, 0, "999th", " 482nd"),
            (485, 0, "\"Good number:\"999", "Good number: 485"),
            (4858, 1, "\"Pre:\"999\" Post:\" .999", "Pre: 485 Post: .800"),
            (12, 0, "99V999", " 12000"),
            (124, 1, "99V999", " 12400"),
            (1245, 2, "99V9", " 125"),
            (4859, 7, "9.99EEEE", " 4.86e-04"),
            (12345, 0, "99", " ##"),
            (0, 0, "FM9.9", "0."),
            (485, 0, "RN", "        CDLXXXV"),
            (485, 0, "FMrn", "cdlxxxv"),
            (1234, 0, "S9,999", "+1,234"),
        ] {
            assert_eq!(shown(units, scale, template), wanted, "{units}e-{scale} {template}");
        }
    }
}
