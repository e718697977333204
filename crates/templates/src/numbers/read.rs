//! `to_number`: a template says which characters of a text are digits, and which stand between them.

use super::{Item, Template};
use base::decimal::Decimal;
use base::error::SqlResult;
use base::{SqlError, SqlState};

/// A text that is being read, and what was found in it.
struct Reading<'a> {
    template: &'a Template,
    text: Vec<char>,
    at: usize,
    sign: Option<char>,
    digits: String,
    whole: usize,
    fraction: usize,
    has_point: bool,
}

impl Template {
    /// `to_number(text, template)`.
    ///
    /// Errors: 22P02 if there is no number, 22003 for more digits than the template has, 0A000 for `EEEE` and `RN`.
    pub fn read(&self, text: &str) -> SqlResult<Decimal> {
        let refuse = |what| {
            Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("{what} not supported for input")))
        };
        if self.has_exponent {
            return refuse("\"EEEE\"");
        }
        if self.items.iter().any(|item| matches!(item, Item::Roman(_))) {
            return refuse("\"RN\"");
        }
        let mut reading = Reading {
            template: self,
            text: text.chars().collect(),
            at: 0,
            sign: None,
            digits: String::new(),
            whole: 0,
            fraction: 0,
            has_point: false,
        };
        for item in &self.items {
            if reading.next().is_none() {
                break;
            }
            reading.item(item);
        }
        let sign = if reading.sign == Some('-') { "-" } else { "" };
        let number = format!("{sign}{}", reading.digits.trim_end_matches('.'));
        let parsed = Decimal::parse(&number).ok_or_else(|| {
            let shown = if number.is_empty() { " " } else { &number };
            SqlError::new(
                SqlState::INVALID_TEXT_REPRESENTATION,
                format!("invalid input syntax for type numeric: \"{shown}\""),
            )
        })?;
        // As many whole digits as the template has.
        let whole = reading.digits.split('.').next().unwrap_or_default().trim_start_matches('0');
        if whole.len() > self.whole {
            return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow"));
        }
        let shifted = (0..self.shift).try_fold(parsed, |n, _| n.checked_div(Decimal::new(10, 0)));
        shifted.ok_or_else(super::out_of_range)
    }
}

impl Reading<'_> {
    fn next(&self) -> Option<char> {
        self.text.get(self.at).copied()
    }
    fn next_is(&self, wanted: impl Fn(char) -> bool) -> bool {
        self.next().is_some_and(wanted)
    }
    /// Passes over characters that no number has.
    fn skip_others(&mut self, count: usize) {
        for _ in 0..count {
            if !self.next_is(|c| !c.is_ascii_digit() && !"+-.,".contains(c)) {
                break;
            }
            self.at += 1;
        }
    }

    fn item(&mut self, item: &Item) {
        match item {
            Item::Digit { .. } | Item::Point => self.position(*item == Item::Point),
            // With `FM` there is nothing before a group's comma that it could stand behind.
            Item::Group => {
                if !self.template.is_filled && self.next_is(|c| c == ',') {
                    self.at += 1;
                }
            }
            Item::Currency => self.skip_others(1),
            Item::Minus => self.sign_of("-"),
            Item::Plus => self.sign_of("+"),
            Item::Sign => self.sign_of("+-"),
            Item::Ordinal(_) => self.skip_others(2),
            Item::Text(text) => self.at += text.chars().count(),
            Item::Roman(_) => {}
        }
    }

    fn sign_of(&mut self, signs: &str) {
        match self.next().filter(|c| signs.contains(*c)) {
            Some(sign) => {
                self.sign = Some(sign);
                self.at += 1;
            }
            None => self.skip_others(1),
        }
    }

    /// Takes a digit or the point if one is next. Each position stands for a character, whatever it is.
    fn position(&mut self, is_point: bool) {
        if self.next_is(|c| c == ' ') {
            self.at += 1;
        }
        let is_first = self.whole + self.fraction == 0;
        if self.sign.is_none() && is_first && !is_point {
            let takes_bracket = self.template.has_brackets;
            if let Some(sign) = self.next().filter(|c| "+-".contains(*c) || (*c == '<' && takes_bracket)) {
                self.sign = Some(if sign == '+' { '+' } else { '-' });
                self.at += 1;
            }
        }
        let Some(c) = self.next() else { return };
        let mut is_taken = true;
        if c.is_ascii_digit() {
            if self.has_point && self.fraction == self.template.fraction {
                return;
            }
            self.digits.push(c);
            *(if self.has_point { &mut self.fraction } else { &mut self.whole }) += 1;
        } else if c == '.' && self.template.has_point && !self.has_point {
            self.digits.push('.');
            self.has_point = true;
        } else {
            is_taken = false;
        }
        if self.sign.is_none() && self.whole + self.fraction > 0 {
            self.sign_behind(is_taken);
        }
        self.at += 1;
    }

    /// A sign behind the digits. With `S` it stands right behind the last; with `MI` and its kind it may also stand at a
    /// position without a digit.
    fn sign_behind(&mut self, is_taken: bool) {
        if is_taken && self.template.anchor.is_some() {
            if let Some(sign) = self.text.get(self.at + 1).filter(|c| "+-".contains(**c)) {
                self.sign = Some(*sign);
                self.at += 1;
            }
        } else if !is_taken && self.has_separate_sign() {
            self.sign = self.next().filter(|c| "+-".contains(*c));
        }
    }

    fn has_separate_sign(&self) -> bool {
        self.template.items.iter().any(|item| matches!(item, Item::Minus | Item::Plus | Item::Sign))
    }
}
