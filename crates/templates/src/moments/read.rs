//! `to_timestamp` and `to_date`: a template takes a text apart.
//!
//! Blanks around fields do not count, and a separator of the template stands for any separator or none, until `FX` asks
//! for an exact match. Numbers take as many digits as their field has, or all that follow where no digit can come next.

use super::found::{Convention, Found};
use super::{DAYS, Field, Item, MONTHS, Placed, SHORT, Template};
use crate::roman;
use base::error::SqlResult;
use base::{SqlError, SqlState};

/// A place in a text.
struct Reader<'a> {
    rest: &'a str,
    /// The character before it.
    before: Option<char>,
    is_exact: bool,
    /// Characters that were passed over and that the template has no part for.
    extra: i32,
}

fn wrong(message: String) -> SqlError {
    SqlError::new(SqlState::INVALID_DATETIME_FORMAT, message)
}

fn is_separator(c: char) -> bool {
    c.is_ascii_graphic() && !c.is_ascii_alphanumeric()
}

fn is_blank(c: char) -> bool {
    c.is_ascii_whitespace() || c == '\u{b}'
}

impl Template {
    /// Errors: 22007 for a text that does not follow the template, 22008 for a number beyond its field's range, 0A000 for
    /// fields that are only written.
    pub fn read(&self, text: &str) -> SqlResult<Found> {
        let mut found = Found { text: text.to_string(), ..Found::default() };
        let mut reader = Reader { rest: text, before: None, is_exact: false, extra: 0 };
        for (n, item) in self.items.iter().enumerate() {
            if reader.rest.is_empty() {
                break;
            }
            let begins_exact = matches!(item, Item::Field(placed) if placed.field == Field::Exact);
            if !reader.is_exact && !begins_exact && (n == 0 || matches!(item, Item::Field(_))) {
                reader.extra += reader.skip_blanks();
            }
            match item {
                Item::Space(_) | Item::Separator(_) => reader.separator(),
                Item::Text(_) => reader.text(),
                Item::Field(placed) => {
                    found.take(placed, self.items.get(n + 1), &mut reader)?;
                    if !reader.is_exact {
                        reader.extra = reader.skip_blanks();
                    }
                }
            }
        }
        Ok(found)
    }
}

impl Reader<'_> {
    fn advance(&mut self, bytes: usize) {
        let (passed, rest) = self.rest.split_at(bytes);
        self.before = passed.chars().next_back().or(self.before);
        self.rest = rest;
    }
    fn next_is(&self, wanted: impl Fn(char) -> bool) -> bool {
        self.rest.chars().next().is_some_and(wanted)
    }
    fn pass_one(&mut self) {
        let bytes = self.rest.chars().next().map_or(0, char::len_utf8);
        self.advance(bytes);
    }
    fn skip_blanks(&mut self) -> i32 {
        let blanks = self.rest.chars().take_while(|c| is_blank(*c)).count();
        self.advance(blanks);
        blanks as i32
    }
    fn separator(&mut self) {
        if self.is_exact {
            return self.pass_one();
        }
        self.extra -= 1;
        if self.next_is(|c| is_blank(c) || is_separator(c)) {
            self.pass_one();
            self.extra += 1;
        }
    }
    fn text(&mut self) {
        if !self.is_exact && self.extra > 0 {
            self.extra -= 1;
        } else {
            self.pass_one();
        }
    }
    fn skip_ordinal(&mut self, placed: &Placed) {
        if placed.ordinal.is_some() {
            (0..2).for_each(|_| self.pass_one());
        }
    }

    /// A whole number and how many characters it took.
    fn number(&mut self, placed: &Placed, length: usize, next: Option<&Item>) -> SqlResult<(i64, usize)> {
        let begin = self.rest.len();
        self.skip_blanks();
        let head: String = self.rest.chars().take(length).collect();
        let takes_all = placed.is_filled || is_followed_by_no_digit(placed, next);
        let integer = |text: &str| {
            let blanks = text.len() - text.trim_start_matches(is_blank).len();
            let signed = text[blanks..].strip_prefix(['+', '-']).unwrap_or(&text[blanks..]);
            let digits = signed.bytes().take_while(u8::is_ascii_digit).count();
            let length = text.len() - signed.len() + digits;
            match digits {
                0 => (0, 0),
                _ => (length, text[blanks..length].parse::<i64>().unwrap_or(i64::MAX)),
            }
        };
        let field = placed.spelled;
        let value = if takes_all {
            let (used, value) = integer(self.rest);
            self.advance(used);
            value
        } else {
            const HINT: &str = "If your source string is not fixed-width, try using the \"FM\" modifier.";
            let there = head.chars().count();
            if there < length {
                return Err(wrong(format!("source string too short for \"{field}\" formatting field"))
                    .detail(format!("Field requires {length} characters, but only {there} remain."))
                    .hint(HINT));
            }
            let (used, value) = integer(&head);
            if used > 0 && used < length {
                return Err(wrong(format!("invalid value \"{head}\" for \"{field}\""))
                    .detail(format!("Field requires {length} characters, but only {used} could be parsed."))
                    .hint(HINT));
            }
            self.advance(used);
            value
        };
        let taken = begin - self.rest.len();
        if taken == 0
            || (!takes_all && integer(&head).0 == 0)
            || (takes_all && self.before.is_none_or(|c| !c.is_ascii_digit()))
        {
            return Err(wrong(format!("invalid value \"{head}\" for \"{field}\""))
                .detail("Value must be an integer."));
        }
        if i32::try_from(value).is_err() {
            return Err(SqlError::new(
                SqlState::DATETIME_FIELD_OVERFLOW,
                format!("value for \"{field}\" in source string is out of range"),
            )
            .detail(format!("Value must be in the range {} to {}.", i32::MIN, i32::MAX)));
        }
        Ok((value, taken))
    }

    /// Which of some names comes next, in any letters.
    fn name<S: AsRef<str>>(&mut self, placed: &Placed, names: &[S]) -> SqlResult<usize> {
        let fits =
            |name: &str| self.rest.get(..name.len()).is_some_and(|head| head.eq_ignore_ascii_case(name));
        match names.iter().position(|name| fits(name.as_ref())) {
            Some(at) => {
                self.advance(names[at].as_ref().len());
                Ok(at)
            }
            None => {
                let head = self.rest.split(is_blank).next().unwrap_or_default();
                Err(wrong(format!("invalid value \"{head}\" for \"{}\"", placed.spelled))
                    .detail("The given value did not match any of the allowed values for this field."))
            }
        }
    }
}

/// Whether what follows a number in the template cannot be a digit.
fn is_followed_by_no_digit(placed: &Placed, next: Option<&Item>) -> bool {
    placed.ordinal.is_some()
        || match next {
            None => true,
            Some(Item::Field(next)) => !next.is_digits(),
            Some(Item::Separator(c) | Item::Space(c) | Item::Text(c)) => !c.is_ascii_digit(),
        }
}

impl Placed {
    /// Whether a text has digits for it.
    fn is_digits(&self) -> bool {
        self.is_number() || self.field == Field::ZoneMinutes
    }
    fn convention(&self) -> Option<Convention> {
        match self.field {
            Field::IsoYear(_) | Field::IsoWeek | Field::DayOfIsoYear | Field::IsoDayOfWeek => {
                Some(Convention::IsoWeek)
            }
            Field::GroupedYear
            | Field::Year(_)
            | Field::Month
            | Field::MonthName(_)
            | Field::MonthShort(_)
            | Field::RomanMonth(_)
            | Field::Week
            | Field::WeekOfMonth
            | Field::Day
            | Field::DayOfYear
            | Field::DayOfWeek => Some(Convention::Gregorian),
            _ => None,
        }
    }
    /// Digits of a number.
    fn length(&self) -> usize {
        match self.field {
            Field::SecondOfDay => self.spelled.len(),
            Field::Fraction(digits) | Field::Year(digits) | Field::IsoYear(digits) => digits.into(),
            Field::Microsecond => 6,
            Field::Millisecond | Field::DayOfYear | Field::DayOfIsoYear => 3,
            Field::Quarter
            | Field::WeekOfMonth
            | Field::DayOfWeek
            | Field::IsoDayOfWeek
            | Field::JulianDay => 1,
            _ => 2,
        }
    }
}

/// Sets a field that may have been set to the same value before.
fn set(field: &mut i64, value: i64, placed: &Placed) -> SqlResult<()> {
    if *field != 0 && *field != value {
        return Err(wrong(format!(
            "conflicting values for \"{}\" field in formatting string",
            placed.spelled
        ))
        .detail("This value contradicts a previous setting for the same field type."));
    }
    *field = value;
    Ok(())
}

impl Found {
    fn take(&mut self, placed: &Placed, next: Option<&Item>, reader: &mut Reader<'_>) -> SqlResult<()> {
        if let Some(convention) = placed.convention() {
            if self.convention.is_some_and(|known| known != convention) {
                return Err(wrong("invalid combination of date conventions".into())
                    .hint("Do not mix Gregorian and ISO week date conventions in a formatting template."));
            }
            self.convention = Some(convention);
        }
        match placed.field {
            Field::Exact => reader.is_exact = true,
            Field::HalfOfDay { is_dotted, .. } => {
                let names = if is_dotted { ["a.m.", "p.m."] } else { ["am", "pm"] };
                let which = reader.name(placed, &names)?;
                set(&mut self.time.is_second_half, which as i64, placed)?;
                self.time.is_12_hours = true;
            }
            Field::Era { is_dotted, .. } => {
                let names = if is_dotted { ["a.d.", "b.c."] } else { ["ad", "bc"] };
                let which = reader.name(placed, &names)?;
                set(&mut self.date.is_before_christ, which as i64, placed)?;
            }
            Field::ZoneName(_) | Field::ZoneOffset => {
                return Err(SqlError::new(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    format!("formatting field \"{}\" is only supported in to_char", placed.spelled),
                ));
            }
            Field::ZoneHours => {
                self.zone.sign = if reader.next_is(|c| "+- ".contains(c)) {
                    let sign = if reader.next_is(|c| c == '-') { -1 } else { 1 };
                    reader.pass_one();
                    sign
                } else if reader.extra > 0 && reader.before == Some('-') {
                    -1
                } else {
                    1
                };
                let hours = reader.number(placed, 2, next)?.0;
                set(&mut self.zone.hours, hours, placed)?;
            }
            Field::MonthName(_)
            | Field::MonthShort(_)
            | Field::RomanMonth(_)
            | Field::DayName(_)
            | Field::DayShort(_) => {
                self.name(placed, reader)?;
            }
            Field::GroupedYear => self.grouped_year(placed, reader)?,
            _ => self.number(placed, next, reader)?,
        }
        Ok(())
    }

    /// A month or a day of the week.
    fn name(&mut self, placed: &Placed, reader: &mut Reader<'_>) -> SqlResult<()> {
        match placed.field {
            Field::MonthName(_) => {
                let month = reader.name(placed, &MONTHS)? as i64 + 1;
                set(&mut self.date.month, month, placed)?;
            }
            Field::MonthShort(_) => {
                let month = reader.name(placed, &MONTHS.map(|name| &name[..SHORT]))? as i64 + 1;
                set(&mut self.date.month, month, placed)?;
            }
            Field::RomanMonth(_) => {
                // The longest first: `VIII` begins with `VII`.
                let mut numerals: Vec<(i64, String)> = (1..=12).map(|n| (n, roman(n as u32))).collect();
                numerals.sort_by_key(|(_, numeral)| std::cmp::Reverse(numeral.len()));
                let names: Vec<&str> = numerals.iter().map(|(_, numeral)| numeral.as_str()).collect();
                let month = numerals[reader.name(placed, &names)?].0;
                set(&mut self.date.month, month, placed)?;
            }
            Field::DayName(_) => {
                let day = reader.name(placed, &DAYS)? as i64;
                set(&mut self.date.day_of_week, day, placed)?;
                self.date.day_of_week += 1;
            }
            Field::DayShort(_) => {
                let day = reader.name(placed, &DAYS.map(|name| &name[..SHORT]))? as i64;
                set(&mut self.date.day_of_week, day, placed)?;
                self.date.day_of_week += 1;
            }
            _ => {}
        }
        Ok(())
    }

    fn grouped_year(&mut self, placed: &Placed, reader: &mut Reader<'_>) -> SqlResult<()> {
        let (thousands, behind) = reader.rest.split_once(',').unwrap_or(("", ""));
        let blanks = behind.len() - behind.trim_start_matches(is_blank).len();
        let digits = behind[blanks..].bytes().take(3).take_while(u8::is_ascii_digit).count();
        let rest = behind[blanks..blanks + digits].parse::<i64>().ok();
        let Some((thousands_value, rest)) =
            thousands.trim_start_matches(is_blank).parse::<i64>().ok().zip(rest)
        else {
            return Err(wrong("invalid input string for \"Y,YYY\"".into()));
        };
        reader.advance(thousands.len() + 1 + blanks + digits);
        set(&mut self.date.year, thousands_value.saturating_mul(1000).saturating_add(rest), placed)?;
        self.date.year_digits = 4;
        reader.skip_ordinal(placed);
        Ok(())
    }

    fn number(&mut self, placed: &Placed, next: Option<&Item>, reader: &mut Reader<'_>) -> SqlResult<()> {
        let length = placed.length();
        let (value, taken) = reader.number(placed, length, next)?;
        let missing = |all: usize| 10i64.pow(all.saturating_sub(taken) as u32);
        match placed.field {
            Field::Hour12 | Field::Hour24 => {
                set(&mut self.time.hour, value, placed)?;
                self.time.is_12_hours |= placed.field == Field::Hour12;
            }
            Field::Minute => set(&mut self.time.minute, value, placed)?,
            Field::Second => set(&mut self.time.second, value, placed)?,
            Field::SecondOfDay => set(&mut self.time.second_of_day, value, placed)?,
            Field::Millisecond => {
                set(&mut self.time.ms, value, placed)?;
                self.time.ms *= missing(3);
            }
            Field::Microsecond | Field::Fraction(_) => {
                set(&mut self.time.us, value, placed)?;
                self.time.us = self.time.us.saturating_mul(missing(6));
                if let Field::Fraction(digits) = placed.field {
                    self.time.rounded_to = Some(digits);
                }
            }
            Field::ZoneMinutes => {
                self.zone.sign = if self.zone.sign == 0 { 1 } else { self.zone.sign };
                set(&mut self.zone.minutes, value, placed)?;
            }
            Field::Century => set(&mut self.date.century, value, placed)?,
            Field::Year(digits) | Field::IsoYear(digits) => {
                set(&mut self.date.year, value, placed)?;
                let year = if taken < 4 && digits < 4 { near_2020(value) } else { value };
                self.date.year = year;
                self.date.year_digits = digits;
            }
            Field::Month => set(&mut self.date.month, value, placed)?,
            Field::Day => set(&mut self.date.day, value, placed)?,
            Field::DayOfYear | Field::DayOfIsoYear => set(&mut self.date.day_of_year, value, placed)?,
            Field::DayOfWeek => set(&mut self.date.day_of_week, value, placed)?,
            Field::IsoDayOfWeek => {
                set(&mut self.date.day_of_week, value, placed)?;
                self.date.day_of_week = if value >= 7 { 1 } else { value + 1 };
            }
            Field::Week | Field::IsoWeek => set(&mut self.date.week, value, placed)?,
            Field::WeekOfMonth => set(&mut self.date.week_of_month, value, placed)?,
            Field::JulianDay => set(&mut self.date.julian_day, value, placed)?,
            // A quarter says too little to be of use.
            _ => {}
        }
        reader.skip_ordinal(placed);
        Ok(())
    }
}

/// Years of less than four digits are those next to 2020.
fn near_2020(year: i64) -> i64 {
    match year {
        ..70 => year + 2000,
        70..100 => year + 1900,
        100..520 => year + 2000,
        520..1000 => year + 1000,
        other => other,
    }
}
